//! What the recorder sees of a run at the packet level.

use manyway_control::SenderStats;
use manyway_network::Link;
use manyway_units::Time;

use super::fluid::Fluids;
use super::meter::Tally;
use super::recorder::{FlowView, SubflowView, Transfer, View};
use super::source::{Source, Subflow};

/// The parts of a run that are measured.
pub(super) struct Parts<'a> {
    pub(super) subflows: &'a mut [Subflow],
    pub(super) sources: &'a [Source],
    pub(super) fluids: Option<&'a Fluids>,
    pub(super) links: &'a [Link],
}

impl View for Parts<'_> {
    fn links(&self) -> &[Link] {
        self.links
    }

    fn flow(&self, index: usize) -> FlowView {
        let source = &self.sources[index];
        FlowView {
            start: source.start,
            stop: source.stop,
            finished: source.finished,
            unit: source.payload,
        }
    }

    fn transfers(&self, index: usize) -> &[Transfer] {
        &self.sources[index].transfers
    }

    fn read(&mut self, subflow: usize, now: Time) -> (Tally, SenderStats) {
        let fluid = self.fluids.and_then(|fluids| fluids.stats(subflow as u32));
        if let Some(stats) = fluid {
            return (self.subflows[subflow].meter.read(now), stats);
        }
        let subflow = &mut self.subflows[subflow];
        let sender = subflow.sender.as_ref();
        let mut stats = sender.map(|sender| sender.stats()).unwrap_or_default();
        if let Some(relay) = &subflow.relay {
            stats.packets_sent += relay.probes_sent();
            stats.packets_lost += relay.probes_lost();
            stats.timeouts += relay.probes_given_up();
        }
        (subflow.meter.read(now), stats)
    }

    fn rtts(&self, subflow: usize) -> Option<[f64; 3]> {
        let rtts = self.subflows[subflow].rtts.as_ref();
        rtts.map(|rtts| rtts.percentiles())
    }

    fn sample(&mut self, subflow: usize, at: Time) -> SubflowView {
        let fluid = self.fluids.and_then(|fluids| fluids.rtt(subflow as u32));
        let subflow = &mut self.subflows[subflow];
        let delivered = subflow.meter.read(at).delivered;
        let unit = self.sources[subflow.source as usize].payload;
        let sender = subflow.sender.as_ref();
        let measured =
            sender.filter(|sender| sender.rtt().has_sample() && !subflow.meter.is_over());
        SubflowView {
            window: subflow.meter.current(),
            rtt: match (fluid, measured) {
                (Some(rtt), _) => rtt,
                (None, Some(sender)) => sender.rtt().smoothed().as_secs_f64(),
                (None, None) => f64::NAN,
            },
            delivered: (fluid.is_some() || sender.is_some()).then_some((delivered, unit)),
        }
    }
}

//! `[overlay]`: from the file to what the flow level and the packet level take.

use std::time::Duration;

use manyway_control::rate_control::{
    Choice, InvalidConfig, PathSelector, RateConfig, RateController, Reselection, SelectConfig,
};

use super::{Checks, MAX_PARTS, shown};
use crate::fault::Fault;
use crate::file::{self, File, RelayChoice, Scheme};
use crate::overlay::{OverlayExperiment, OverlayNetwork, RelayBandwidths, RelaySelection};
use crate::quantity::Bandwidth;
use crate::tree::Key;

/// The most control intervals of a run or an iteration.
const MAX_INTERVALS: u32 = 1_000_000;

/// The most paths of a source: choosing k of n relays takes k²n steps.
const MAX_PATHS: u32 = 256;

/// The longest run of packets.
const MAX_TIME: Duration = Duration::from_secs(365 * 86_400);

/// The most iterations of a search.
const MAX_ITERATIONS: u32 = 1_000_000;

/// Resolves a file that has an `[overlay]`.
pub(crate) fn overlay(file: &File) -> Result<OverlayExperiment, Vec<Fault>> {
    let mut checks = Checks::default();
    let name = checks.scenario_name(file);
    let key = Key::of(["overlay"]);
    let example =
        "[overlay] with sources = 100 and demand = \"1.2 Mbps\"; --level flow is for overlays";
    let Some(overlay) = checks.required(&file.overlay, &key, example) else {
        return Err(checks.faults);
    };
    checks.nothing_beside(file);
    let mut context = Context {
        checks: &mut checks,
        key,
        overlay,
    };
    let resolved = name.and_then(|name| context.resolve(name));
    let packets = context.packets(file);
    match resolved {
        Some(resolved) if checks.faults.is_empty() => Ok(OverlayExperiment {
            packets,
            ..resolved
        }),
        _ => Err(checks.faults),
    }
}

impl Checks {
    /// What an overlay has in place of, or has no use for.
    fn nothing_beside(&mut self, file: &File) {
        let keys = [
            (
                "duration",
                file.duration.is_some(),
                "a run lasts overlay.intervals",
            ),
            (
                "links",
                file.links.is_some(),
                "each relay has one link, whose bandwidth is the limit",
            ),
            ("paths", file.paths.is_some(), "each relay is a path"),
            (
                "flows",
                file.flows.is_some(),
                "overlay.sources are the flows",
            ),
            (
                "measure",
                file.measure.is_some(),
                "the last overlay.judged intervals count",
            ),
        ];
        for (key, present, why) in keys {
            if present {
                let message = format!("can't be combined with [overlay]: {why}");
                self.faults.push(Fault::key(&Key::of([key]), message));
            }
        }
    }

    /// A whole number from 1 to `most`.
    fn whole(&mut self, key: &Key, number: u32, most: u32) -> usize {
        if !(1..=most).contains(&number) {
            self.report(key, format!("{number} is out of range: choose 1 to {most}"));
        }
        number as usize
    }

    /// The rates in bits/s; each must be more than nothing.
    fn rates(&mut self, key: &Key, rates: &[Bandwidth], nothing: &str) -> Vec<f64> {
        if rates.is_empty() || rates.len() as u64 > MAX_PARTS {
            let count = rates.len();
            self.report(
                key,
                format!("{count} rates: there must be 1 to {MAX_PARTS}"),
            );
        }
        let bits = |rate: &Bandwidth| rate.0.bits_per_sec();
        if let Some(n) = rates.iter().position(|rate| bits(rate) < 1.0) {
            self.report(&key.at(n), nothing);
        }
        rates.iter().map(bits).collect()
    }
}

struct Context<'a> {
    checks: &'a mut Checks,
    key: Key,
    overlay: &'a file::Overlay,
}

impl Context<'_> {
    fn resolve(&mut self, name: String) -> Option<OverlayExperiment> {
        let overlay = self.overlay;
        let sources = self.sources()?;
        let demands = self.demands()?;
        let relays = self.relays(sources)?;
        let count = match &relays {
            RelayBandwidths::Given(bandwidths) => bandwidths.len(),
            RelayBandwidths::Skewed { count, .. } => *count,
        };
        let selection = self.selection(sources, count)?;
        let control = self.control(&demands)?;
        let intervals = overlay.intervals.unwrap_or(1000);
        let intervals = self
            .checks
            .whole(&self.key.join("intervals"), intervals, MAX_INTERVALS);
        let default = intervals.div_ceil(2).max(1) as u32;
        let judged = overlay.judged.unwrap_or(default);
        let judged = self
            .checks
            .whole(&self.key.join("judged"), judged, intervals.max(1) as u32);
        let band = overlay.band.unwrap_or(0.98);
        if !(0.5..1.0).contains(&band) {
            self.report(
                "band",
                format!("{band} is out of range: choose 0.5 to below 1"),
            );
        }
        let iterations = overlay.reselect.as_ref().map(|reselect| {
            let key = self.key.join("reselect").join("iterations");
            self.checks
                .whole(&key, reselect.iterations.unwrap_or(1000), MAX_ITERATIONS)
        });
        let control_file = overlay.control.clone().unwrap_or_default();
        Some(OverlayExperiment {
            name,
            sources,
            demands,
            relays,
            selection,
            control,
            tolerance: control_file.tolerance,
            start: control_file.start.unwrap_or(file::Start::Zero),
            sharing: overlay.sharing.unwrap_or(file::Sharing::MaxMin),
            intervals,
            judged,
            band,
            iterations,
            packets: None,
        })
    }

    fn report(&mut self, name: &str, message: impl Into<String>) {
        self.checks.report(&self.key.join(name), message);
    }

    fn sources(&mut self) -> Option<usize> {
        let given = self.overlay.selection.as_ref().map(Vec::len);
        let sources = match (self.overlay.sources, given) {
            (Some(sources), Some(given)) if sources as usize != given => {
                let message = format!(
                    "has the relays of {given} sources, but there are {sources}: give each source \
                     a list"
                );
                self.report("selection", message);
                return None;
            }
            (Some(sources), _) => u64::from(sources),
            (None, Some(given)) => given as u64,
            (None, None) => {
                let key = self.key.join("sources");
                self.checks
                    .required(&self.overlay.sources, &key, "sources = 100");
                return None;
            }
        };
        if !(1..=MAX_PARTS).contains(&sources) {
            self.report(
                "sources",
                format!("{sources} is out of range: choose 1 to {MAX_PARTS}"),
            );
            return None;
        }
        Some(sources as usize)
    }

    fn demands(&mut self) -> Option<Vec<f64>> {
        let key = self.key.join("demand");
        let nothing = "the demand is zero: choose at least 1 bps, or fewer sources";
        let demand = self
            .checks
            .required(&self.overlay.demand, &key, "demand = \"1.2 Mbps\"")?;
        let before = self.checks.faults.len();
        let demands = match demand {
            file::Demand::Drawn(rates) => self.checks.rates(&key, rates, nothing),
            file::Demand::Equal(rate) => {
                if rate.0.bits_per_sec() < 1.0 {
                    self.checks.report(&key, nothing);
                }
                vec![rate.0.bits_per_sec()]
            }
        };
        (self.checks.faults.len() == before).then_some(demands)
    }

    fn relays(&mut self, sources: usize) -> Option<RelayBandwidths> {
        let overlay = self.overlay;
        let before = self.checks.faults.len();
        if let Some(given) = &overlay.bandwidths {
            let others = [
                ("relays", overlay.relays.is_some()),
                ("skew", overlay.skew.is_some()),
                ("ratio", overlay.ratio.is_some()),
            ];
            for (name, _) in others.into_iter().filter(|(_, present)| *present) {
                self.report(
                    name,
                    "can't be combined with overlay.bandwidths: leave one of them out",
                );
            }
            let nothing = "a relay without bandwidth: choose at least 1 bps, or leave it out";
            let bandwidths = self
                .checks
                .rates(&self.key.join("bandwidths"), given, nothing);
            return (self.checks.faults.len() == before)
                .then_some(RelayBandwidths::Given(bandwidths));
        }
        let count = overlay.relays.unwrap_or(sources as u32);
        let count = self
            .checks
            .whole(&self.key.join("relays"), count, MAX_PARTS as u32);
        let (skew, ratio) = (overlay.skew.unwrap_or(0.0), overlay.ratio.unwrap_or(1.0));
        if !(0.0..=10.0).contains(&skew) {
            self.report("skew", format!("{skew} is out of range: choose 0 to 10"));
        }
        if !(ratio > 0.0 && ratio <= 1e6) {
            self.report(
                "ratio",
                format!("{ratio} is out of range: choose more than 0, at most 1000000"),
            );
        }
        (self.checks.faults.len() == before).then_some(RelayBandwidths::Skewed {
            count,
            skew,
            ratio,
        })
    }

    fn selection(&mut self, sources: usize, relays: usize) -> Option<RelaySelection> {
        let overlay = self.overlay;
        if let Some(given) = &overlay.selection {
            return self.given(given, relays);
        }
        let paths = overlay.paths.unwrap_or(2);
        self.checks.whole(&self.key.join("paths"), paths, MAX_PATHS);
        if !(1..=MAX_PATHS).contains(&paths) {
            return None;
        }
        if (sources as u64).saturating_mul(u64::from(paths)) > MAX_PARTS {
            let message = format!(
                "{paths} paths of {sources} sources are too many: at most {MAX_PARTS} are possible \
                 in all"
            );
            self.report("paths", message);
            return None;
        }
        let choice = match (
            overlay.choice.unwrap_or(RelayChoice::Uniform),
            overlay.bandwidth_error,
        ) {
            (RelayChoice::Uniform, None) => Choice::Uniform,
            (RelayChoice::Uniform, Some(_)) => {
                self.report(
                    "bandwidth_error",
                    "a uniform choice uses no bandwidths: write choice = \"proportional\", or \
                     leave this out",
                );
                return None;
            }
            (RelayChoice::Proportional, error) => Choice::Proportional {
                error: error.unwrap_or(0.5),
            },
        };
        let reselect = overlay.reselect.clone().unwrap_or_default();
        let mut config = SelectConfig::new(paths as usize)
            .with_choice(choice)
            .with_reselection(reselect.scheme.map_or(Reselection::All, Into::into));
        if let Some(satisfied) = reselect.satisfied {
            config = config.with_satisfied(satisfied);
        }
        // What matters here is whether there are enough of them.
        let enough = relays.min(MAX_PATHS as usize);
        match PathSelector::new(config, &vec![1.0; enough], 0) {
            Ok(_) => Some(RelaySelection::Chosen(config)),
            Err(error) => {
                self.invalid(&error);
                None
            }
        }
    }

    fn given(&mut self, given: &[Vec<u32>], relays: usize) -> Option<RelaySelection> {
        let overlay = self.overlay;
        let others = [
            ("paths", overlay.paths.is_some()),
            ("choice", overlay.choice.is_some()),
            ("bandwidth_error", overlay.bandwidth_error.is_some()),
            ("reselect", overlay.reselect.is_some()),
        ];
        let before = self.checks.faults.len();
        for (name, _) in others.into_iter().filter(|(_, present)| *present) {
            self.report(
                name,
                "can't be combined with overlay.selection: leave one of them out",
            );
        }
        for (source, own) in given.iter().enumerate() {
            let key = self.key.join("selection").at(source);
            if own.is_empty() || own.len() > MAX_PATHS as usize {
                let count = own.len();
                let message = format!("a source with {count} relays: give it 1 to {MAX_PATHS}");
                self.checks.report(&key, message);
                continue;
            }
            for (n, relay) in own.iter().enumerate() {
                if !(1..=relays).contains(&(*relay as usize)) {
                    let message =
                        format!("there is no relay {relay}: they are counted from 1 to {relays}");
                    self.checks.report(&key.at(n), message);
                } else if own[..n].contains(relay) {
                    self.checks.report(
                        &key.at(n),
                        format!("relay {relay} twice: a source's relays are all different"),
                    );
                }
            }
        }
        let own = |own: &Vec<u32>| {
            own.iter()
                .map(|&relay| (relay as usize).saturating_sub(1))
                .collect()
        };
        (self.checks.faults.len() == before)
            .then(|| RelaySelection::Given(given.iter().map(own).collect()))
    }

    fn control(&mut self, demands: &[f64]) -> Option<RateConfig> {
        let control = self.overlay.control.clone().unwrap_or_default();
        let mut config = RateConfig::aiad();
        config.grow = control.grow.unwrap_or(config.grow);
        config.shrink = control.shrink.unwrap_or(config.shrink);
        config.boost = control.boost.unwrap_or(config.boost);
        config.tolerance = control.tolerance.unwrap_or(0.0);
        let demand = demands[0];
        config.increment = match control.increment {
            None => config.increment,
            Some(file::Increment::Share(share)) => share,
            Some(file::Increment::Rate(rate)) => {
                if demands.iter().any(|other| *other != demand) {
                    let key = self.key.join("control").join("increment");
                    let message = "a rate doesn't fit different demands: choose a share of the \
                                   demand, such as 0.01";
                    self.checks.report(&key, message);
                }
                rate.0.bits_per_sec() / demand
            }
        };
        match RateController::new(config, demand, &[0.0], 0) {
            Ok(_) => Some(config),
            Err(error) => {
                self.invalid(&error);
                None
            }
        }
    }

    /// What a controller or a selector would refuse, at the key that it is about.
    fn invalid(&mut self, error: &InvalidConfig) {
        let control = ["increment", "tolerance", "grow", "shrink", "boost"];
        match error {
            InvalidConfig::Field {
                field,
                value,
                allowed,
            } => {
                let key = match *field {
                    "number of paths" => self.key.join("paths"),
                    "bandwidth error" => self.key.join("bandwidth_error"),
                    "satisfied" => self.key.join("reselect").join("satisfied"),
                    name if control.contains(&name) => self.key.join("control").join(name),
                    _ => self.key.clone(),
                };
                let of = if *field == "increment" {
                    " of the demand"
                } else {
                    ""
                };
                let message = format!(
                    "{value}{of} is out of range: choose {}",
                    allowed.replace("or more", "or a larger number")
                );
                self.checks.report(&key, message);
            }
            InvalidConfig::TooFewRelays { paths, relays } => {
                let message = format!(
                    "{paths} paths need as many relays, but there are {relays}: choose fewer \
                     paths, or more relays"
                );
                self.report("paths", message);
            }
            InvalidConfig::Initial { .. } => self.report("control", error.to_string()),
        }
    }

    fn packets(&mut self, file: &File) -> Option<OverlayNetwork> {
        let Some(packets) = &self.overlay.packets else {
            if file.defaults.is_some() {
                let message =
                    "are keys of TCP connections, which only exist with [overlay.packets]";
                self.checks
                    .faults
                    .push(Fault::key(&Key::of(["defaults"]), message.to_owned()));
            }
            return None;
        };
        let key = self.key.join("packets");
        if self.overlay.reselect.is_some() {
            let message =
                "reselection runs at the flow level only: leave this out, or overlay.reselect";
            self.checks
                .faults
                .push(Fault::key(&key, message.to_owned()));
        }
        let rtt = self
            .checks
            .required(&packets.rtt, &key.join("rtt"), "rtt = \"40 ms\"")?
            .0;
        let interval = packets
            .interval
            .map_or(rtt.saturating_mul(10), |interval| interval.0);
        if rtt < Duration::from_micros(10) {
            self.checks
                .report(&key.join("rtt"), "too short: choose at least 10 us");
        }
        if interval < rtt {
            let message = format!(
                "shorter than a round trip of {}: no ACK would return within it",
                shown(rtt)
            );
            self.checks.report(&key.join("interval"), message);
        }
        let send_buffer = packets.send_buffer.map_or(4, |packets| packets.0);
        self.checks
            .whole(&key.join("send_buffer"), send_buffer, 1_000_000);
        let fill = packets.fill_intervals.unwrap_or(10);
        if !(2..=MAX_INTERVALS).contains(&fill) {
            self.checks.report(
                &key.join("fill_intervals"),
                format!("{fill} is out of range: choose 2 to {MAX_INTERVALS}"),
            );
        }
        let all = self.overlay.intervals.unwrap_or(1000).saturating_add(fill);
        if interval.saturating_mul(all) > MAX_TIME {
            let message = format!(
                "{all} intervals of this length are more than 365 d: choose fewer, or shorter ones"
            );
            self.checks.report(&key.join("interval"), message);
        }
        self.unused_defaults(file);
        let connection = self.checks.connection(file.defaults.as_ref())?;
        Some(OverlayNetwork {
            connection,
            rtt,
            queue: packets
                .queue
                .map_or(manyway_network::Limit::Packets(50), |limit| limit.0),
            interval,
            send_buffer,
            fill_intervals: fill as usize,
        })
    }

    /// Keys of flows that say what the overlay decides.
    fn unused_defaults(&mut self, file: &File) {
        let Some(flow) = &file.defaults else {
            return;
        };
        let keys = [
            ("paths", flow.paths.is_some()),
            ("count", flow.count.is_some()),
            ("fluid", flow.fluid.is_some()),
            ("start", flow.start.is_some()),
            ("stagger", flow.stagger.is_some()),
            ("start_spread", flow.start_spread.is_some()),
            ("stop", flow.stop.is_some()),
            ("size", flow.size.is_some()),
            ("pause", flow.pause.is_some()),
            ("rate", flow.rate.is_some()),
            ("access", flow.access.is_some()),
            ("extra_delay", flow.extra_delay.is_some()),
            ("delay_step", flow.delay_step.is_some()),
            ("headers", flow.headers.is_some()),
            ("relays", flow.relays.is_some()),
        ];
        for (name, _) in keys.into_iter().filter(|(_, present)| *present) {
            let message = "has no effect here: the overlay's sources, demands and relays decide \
                that, and its rates count whole packets";
            self.checks
                .faults
                .push(Fault::key(&Key::of(["defaults", name]), message.to_owned()));
        }
    }
}

impl From<Scheme> for Reselection {
    fn from(scheme: Scheme) -> Self {
        match scheme {
            Scheme::All => Reselection::All,
            Scheme::Slowest => Reselection::Slowest,
            Scheme::Everyone => Reselection::Everyone,
        }
    }
}

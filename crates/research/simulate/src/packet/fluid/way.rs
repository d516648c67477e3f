//! One path of a class of flows: what is under way on it.

use std::collections::VecDeque;

use manyway_control::{Path, SenderStats};
use manyway_network::LinkConfig;
use manyway_scenario::{Experiment, Flow, Lifetime};
use manyway_units::Time;

use super::LinkState;
use crate::packet::source::Subflow;

/// A path, and the packets of all flows of the class on it.
#[derive(Debug)]
pub(super) struct Way {
    forward: Vec<u32>,
    backward: Vec<u32>,
    /// Round-trip time without queues, seconds.
    base: f64,
    lifetime: Lifetime,
    present: bool,
    /// Mean window, packets, and the one that a flow begins with.
    window: f64,
    first_window: f64,
    /// Round-trip time of what is sent now, seconds.
    rtt: f64,
    /// Packets/s of all flows.
    rate: f64,
    under_way: VecDeque<Parcel>,
    /// Packets under way.
    flight: f64,
    /// Packets that cut windows don't hold any more, but that are still under way.
    surplus: f64,
    /// Packets lost that have not been sent again yet.
    missing: f64,
    /// Share of the flows that have been cut in the last round trip.
    recovering: f64,
    /// Packets sent, acknowledged and lost, and cuts, of all flows so far.
    sent: f64,
    acked: f64,
    lost: f64,
    cuts: f64,
    /// Whole packets of `acked` that have been counted.
    counted: u64,
}

/// What was sent in a step.
#[derive(Debug, Copy, Clone)]
struct Parcel {
    /// The sender hears of it evenly between these times, seconds.
    from: f64,
    to: f64,
    /// Packets.
    sent: f64,
    /// The share that arrives.
    kept: f64,
}

impl Parcel {
    /// The share that the sender has heard of at a time.
    fn heard(&self, at: f64) -> f64 {
        let length = (self.to - self.from).max(1e-12);
        ((at - self.from) / length).clamp(0.0, 1.0)
    }
}

/// What a sender hears of in a step, packets.
#[derive(Debug, Copy, Clone, Default)]
pub(super) struct Heard {
    pub(super) acked: f64,
    pub(super) lost: f64,
}

impl Way {
    /// Path number `way` of a flow.
    pub(super) fn new(experiment: &Experiment, flow: &Flow, way: usize) -> Self {
        let path = &experiment.topology.paths[flow.paths[way]];
        let link = |&link: &usize| &experiment.topology.links[link].config;
        let there = path.links.iter().map(link);
        let back = path.reverse.iter().map(link);
        let way_back = path.return_delay + flow.extra_return + flow.extra_delay;
        let base = there
            .map(|link| passage(link, flow.sender.packet_size))
            .sum::<f64>()
            + back.map(|link| passage(link, flow.ack.bytes)).sum::<f64>()
            + way_back.as_secs_f64()
            + flow.jitter.as_secs_f64() / 2.0;
        let indices = |links: &[usize]| links.iter().map(|&link| link as u32).collect();
        Self {
            forward: indices(&path.links),
            backward: indices(&path.reverse),
            // A round trip of nothing has no rate.
            base: base.max(1e-6),
            lifetime: flow.lifetimes.get(way).copied().unwrap_or_default(),
            present: false,
            window: 0.0,
            first_window: 1.0,
            rtt: base,
            rate: 0.0,
            flight: 0.0,
            surplus: 0.0,
            missing: 0.0,
            recovering: 0.0,
            under_way: VecDeque::new(),
            sent: 0.0,
            acked: 0.0,
            lost: 0.0,
            cuts: 0.0,
            counted: 0,
        }
    }

    pub(super) fn begin_with(&mut self, window: f64) {
        self.first_window = window;
    }

    pub(super) fn links(&self) -> impl Iterator<Item = u32> + '_ {
        self.forward.iter().copied()
    }

    pub(super) fn base_rtt(&self) -> f64 {
        self.base
    }

    pub(super) fn is_present(&self) -> bool {
        self.present
    }

    pub(super) fn path(&self) -> Path<f64> {
        Path {
            window: self.window.max(1.0),
            rtt: self.rtt,
        }
    }

    pub(super) fn rtt(&self) -> Option<f64> {
        self.present.then_some(self.rtt)
    }

    pub(super) fn stats(&self) -> SenderStats {
        let mut stats = SenderStats::default();
        stats.packets_sent = self.sent as u64;
        stats.packets_lost = self.lost as u64;
        stats.loss_events = self.cuts as u64;
        stats
    }

    /// What was sent in the last `span` seconds is under way, and the links are what they are now.
    pub(super) fn go_on(&mut self, now: f64, span: f64, links: &[LinkState]) {
        let waiting = |link: &u32| links[*link as usize].waiting;
        let ways = self.forward.iter().chain(&self.backward);
        let before = self.rtt;
        self.rtt = self.base + ways.map(waiting).sum::<f64>();
        let sent = self.rate * span;
        if sent <= 0.0 {
            return;
        }
        let kept = self.forward.iter().map(|&link| links[link as usize].kept);
        let last = self.under_way.back().map_or(0.0, |parcel| parcel.to);
        let from = last.max(now - span + before);
        self.sent += sent;
        self.flight += sent;
        self.under_way.push_back(Parcel {
            from,
            to: from.max(now + self.rtt),
            sent,
            kept: kept.product(),
        });
    }

    /// What comes back until `now`.
    pub(super) fn hear(&mut self, now: f64) -> Heard {
        let mut heard = Heard::default();
        while let Some(parcel) = self.under_way.front_mut()
            && parcel.from <= now
        {
            let sent = parcel.sent * parcel.heard(now);
            heard.acked += sent * parcel.kept;
            heard.lost += sent * (1.0 - parcel.kept);
            parcel.sent -= sent;
            parcel.from = now;
            if parcel.to > now {
                break;
            }
            self.under_way.pop_front();
        }
        self.acked += heard.acked;
        self.lost += heard.lost;
        self.flight -= heard.acked + heard.lost;
        self.missing += heard.lost;
        heard
    }

    /// Packets that come back between now and a later time.
    fn expected(&self, until: f64) -> f64 {
        let parcels = self.under_way.iter();
        let parcels = parcels.take_while(|parcel| parcel.from < until);
        parcels
            .map(|parcel| parcel.sent * parcel.kept * parcel.heard(until))
            .sum()
    }

    /// The window of each of `flows` follows what has been heard in `span` seconds: it grows by
    /// `increase` for each packet acknowledged, and shrinks by `decrease` for each lost, but not
    /// below `floor`. For a round trip after a cut, a flow does neither; `grows` says whether it
    /// grows then.
    pub(super) fn react(
        &mut self,
        heard: Heard,
        (increase, decrease): (f64, f64),
        (flows, floor, grows): (f64, f64, bool),
        span: f64,
    ) {
        let calm = 1.0 - self.recovering;
        let cuts = heard.lost * calm;
        self.cuts += cuts;
        self.recovering *= (-span / self.rtt).exp();
        self.recovering = (self.recovering + cuts / flows).min(1.0);
        let growth = if grows { 1.0 } else { calm };
        let before = self.window;
        self.window += (heard.acked * growth * increase - cuts * decrease) / flows;
        self.window = self.window.max(floor);
        // A flow whose window was halved sends nothing until half of it has come back: the windows
        // of all such flows are out of the air within half a round trip.
        let stays = (-4.0 * span / self.rtt).exp();
        self.surplus *= stays;
        self.missing *= stays;
        self.surplus += (before - self.window).max(0.0) * flows;
    }

    /// More flows have come with the first window: `old` is the share of those that were there.
    pub(super) fn mix(&mut self, old: f64) {
        if self.present {
            self.window = old * self.window + (1.0 - old) * self.first_window;
        }
    }

    /// Joins or leaves.
    pub(super) fn take_part(&mut self, now: Time, flows: bool, subflow: &mut Subflow) {
        let Lifetime { from, until } = self.lifetime;
        let present = flows && from <= now && until.is_none_or(|until| now < until);
        if present && !self.present {
            self.window = self.first_window;
            subflow.meter.join(now, self.window);
        }
        if !present && self.present {
            subflow.meter.end(now);
            self.under_way.clear();
            (self.flight, self.surplus, self.missing, self.recovering) = (0.0, 0.0, 0.0, 0.0);
        }
        self.present = present;
    }

    /// Sends what the windows allow in the next `step` seconds over the links.
    pub(super) fn send(
        &mut self,
        (now, step): (f64, f64),
        (flows, packet): (f64, f64),
        links: &mut [LinkState],
    ) {
        let windows = self.window * flows;
        self.rate = 0.0;
        if self.present {
            let holes = self.surplus - self.missing;
            let room = windows + holes - self.flight + self.expected(now + step);
            // What comes back is the clock; new flows don't send all at once either.
            let most = 2.0 * windows / self.rtt;
            self.rate = (room / step).clamp(0.0, most);
        }
        let mut load = self.rate * packet;
        for &link in &self.forward {
            let link = &mut links[link as usize];
            link.load += load;
            load *= link.kept;
        }
    }

    /// Tells the subflow's meter.
    pub(super) fn measure(&mut self, now: Time, subflow: &mut Subflow) {
        let acked = self.acked as u64;
        subflow.meter.delivered(acked - self.counted);
        self.counted = acked;
        if self.present {
            let rtt = (self.rtt * 1e9) as u64;
            subflow.meter.window(now, self.window);
            subflow.meter.rtt(rtt);
            if let Some(rtts) = &mut subflow.rtts {
                rtts.add(now, rtt);
            }
        }
    }
}

/// Seconds that a packet takes over an empty link, on average.
fn passage(link: &LinkConfig, bytes: u32) -> f64 {
    let sent = 8.0 * f64::from(bytes) / link.rate.bits_per_sec();
    let late = link.late.share * link.late.by.as_secs_f64();
    sent + link.delay.as_secs_f64() + link.jitter.as_secs_f64() / 2.0 + late
}

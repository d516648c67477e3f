//! A class of equal flows: the mean window of each path.

use manyway_control::laws::AnyLaw;
use manyway_control::{Path, SenderStats, WindowLaw};
use manyway_scenario::{Experiment, Flow};
use manyway_units::Time;

use super::LinkState;
use super::way::Way;
use crate::packet::source::Subflow;

/// E[w²]/E[w]² of windows that lose independently of each other: a flow with a larger window is cut
/// more often, and by more, than the mean window says. With it, a class of Reno flows has the
/// throughput √(2/(p SPREAD))/R = 1.31/(R √p) of the ideal model of independent losses (Ott,
/// Kemperman, Mathis: The stationary behavior of ideal TCP congestion avoidance, 1996).
const SPREAD: f64 = 2.0 / (1.3098 * 1.3098);

/// Flows that are alike in everything.
#[derive(Debug)]
pub(super) struct Class {
    law: AnyLaw,
    /// How many flows there are once all have started.
    count: f64,
    first: u32,
    start: Time,
    /// Seconds over which the flows start, one by one at equal distances.
    spread: f64,
    stop: Time,
    /// Windows grow also for a round trip after a cut.
    grows: bool,
    /// The smallest window, packets.
    floor: f64,
    /// Bits of a packet, headers included.
    packet: f64,
    /// How many flows there are now.
    flows: f64,
    ways: Vec<Way>,
    /// What the law sees of the ways that take part, and which those are.
    paths: Vec<Path<f64>>,
    present: Vec<usize>,
}

impl Class {
    /// Flows that haven't started; `None` of a law without a fluid form, or of none.
    pub(super) fn new(experiment: &Experiment, flow: &Flow, first: u32) -> Option<Self> {
        let law = flow.law.window_law()?;
        let floor = flow.options.window_floor;
        let floor = floor.unwrap_or_else(|| law.min_ssthresh(flow.paths.len()));
        let ways = 0..flow.paths.len();
        Some(Self {
            count: f64::from(flow.fluid.filter(|&count| count > 0)?),
            first,
            start: flow.start,
            spread: flow.start_spread.as_secs_f64(),
            stop: flow.stop.unwrap_or(Time::MAX),
            grows: flow.options.growth_in_recovery,
            floor: floor.max(1.0),
            packet: 8.0 * f64::from(flow.sender.packet_size),
            flows: 0.0,
            ways: ways.map(|way| Way::new(experiment, flow, way)).collect(),
            paths: Vec::new(),
            present: Vec::new(),
            law,
        })
    }

    /// Lets each window begin at these shares of the links, bits/s: about what slow start comes to,
    /// which takes no time here.
    pub(super) fn begin_with(&mut self, shares: &[f64]) {
        for way in &mut self.ways {
            let share = way.links().map(|link| shares[link as usize]);
            let share = share.fold(f64::INFINITY, f64::min);
            way.begin_with((share / self.packet * way.base_rtt()).max(self.floor));
        }
    }

    /// The links that it flows through.
    pub(super) fn links(&self) -> impl Iterator<Item = u32> + '_ {
        self.ways.iter().flat_map(Way::links)
    }

    /// Seconds, without queues.
    pub(super) fn shortest_rtt(&self) -> f64 {
        let rtts = self.ways.iter().map(Way::base_rtt);
        rtts.fold(f64::INFINITY, f64::min)
    }

    pub(super) fn first_subflow(&self) -> u32 {
        self.first
    }

    /// The counters of one of its subflows, of all flows together.
    pub(super) fn stats(&self, subflow: u32) -> Option<SenderStats> {
        let way = self.ways.get((subflow - self.first) as usize)?;
        Some(way.stats())
    }

    pub(super) fn rtt(&self, subflow: u32) -> Option<f64> {
        self.ways.get((subflow - self.first) as usize)?.rtt()
    }

    /// Goes on to `now`, `span` seconds after the last step and `step` before the next: enters its
    /// load at the links.
    pub(super) fn step(
        &mut self,
        now: Time,
        (span, step): (f64, f64),
        links: &mut [LinkState],
        subflows: &mut [Subflow],
    ) {
        let subflows = &mut subflows[self.first as usize..][..self.ways.len()];
        self.hear(now.as_secs_f64(), span, links);
        self.come_and_go(now, subflows);
        for (way, subflow) in self.ways.iter_mut().zip(subflows) {
            let time = (now.as_secs_f64(), step);
            way.send(time, (self.flows, self.packet), links);
            way.measure(now, subflow);
        }
    }

    /// Takes in what was sent a round trip ago: acknowledged or lost.
    fn hear(&mut self, now: f64, span: f64, links: &[LinkState]) {
        for way in &mut self.ways {
            way.go_on(now, span, links);
        }
        let present = (0..self.ways.len()).filter(|&way| self.ways[way].is_present());
        self.present.clear();
        self.present.extend(present);
        let path = |&way: &usize| self.ways[way].path();
        self.paths.clear();
        self.paths.extend(self.present.iter().map(path));
        for (r, &way) in self.present.iter().enumerate() {
            let way = &mut self.ways[way];
            let heard = way.hear(now);
            let increase = self.law.increase(&self.paths, r);
            let decrease = SPREAD * self.law.decrease(&self.paths, r);
            let flows = (self.flows, self.floor, self.grows);
            way.react(heard, (increase, decrease), flows, span);
        }
    }

    /// Flows start and stop, and so do their subflows.
    fn come_and_go(&mut self, now: Time, subflows: &mut [Subflow]) {
        let since = now.since(self.start).as_secs_f64();
        let started = match (now < self.start || now >= self.stop, self.spread) {
            (true, _) => 0.0,
            (false, 0.0) => 1.0,
            (false, spread) => (since / spread).clamp(1.0 / self.count, 1.0),
        };
        let (before, flows) = (self.flows, self.count * started);
        self.flows = flows;
        for (way, subflow) in self.ways.iter_mut().zip(subflows) {
            way.take_part(now, flows > 0.0, subflow);
            if flows > before {
                way.mix(before / flows);
            }
        }
    }
}

//! Groups of flows as fluids, beside the packets of all others.
//!
//! Each class of equal flows has one mean window per path, whose rate of change follows from the
//! law's increase and decrease (Misra, Gong, Towsley: Fluid-based analysis of a network of AQM
//! routers supporting TCP flows, SIGCOMM 2000). Its load flows through the links' queues beside
//! the packets (Gu, Liu, Towsley: On integrating fluid models with packet simulation, INFOCOM
//! 2004). A step costs as much for a million flows as for one.

mod class;
mod way;

use std::time::Duration;

use manyway_control::SenderStats;
use manyway_network::{InvalidLink, Link};
use manyway_scenario::{Experiment, Flow};
use manyway_units::{Rate, Time};

use super::Simulation;
use super::source::Subflow;
use class::Class;

/// Steps in the shortest round trip of a fluid.
const STEPS: u32 = 20;
/// The shortest and the longest step.
const SHORTEST: Duration = Duration::from_micros(100);
const LONGEST: Duration = Duration::from_millis(10);

/// All fluids of a run.
#[derive(Debug)]
pub(super) struct Fluids {
    classes: Vec<Class>,
    step: Duration,
    /// The last step.
    at: Time,
    links: Vec<LinkState>,
    /// The links that a fluid flows through.
    carrying: Vec<u32>,
}

/// What a fluid sees of a link.
#[derive(Debug, Copy, Clone, Default)]
struct LinkState {
    /// Seconds that a packet which comes now waits.
    waiting: f64,
    /// Share of what came in the last step that got through.
    kept: f64,
    /// Bits/s that the classes send in, and what flows in for that.
    load: f64,
    inflow: Rate,
    /// Bytes that were lost until the last step, and those that no class has heard of yet.
    lost: f64,
    owed: f64,
    /// Bytes that had come until then, and how many more that were than the classes had sent.
    offered: f64,
    ahead: f64,
}

impl Fluids {
    /// The fluids of an experiment, if it has any; `first` is the number of each flow's first
    /// subflow.
    pub(super) fn new(experiment: &Experiment, first: &[u32]) -> Option<Self> {
        let flows = experiment.flows.iter().zip(first);
        let fluid = flows.filter(|(flow, _)| flow.fluid.is_some());
        let mut classes: Vec<Class> = fluid
            .filter_map(|(flow, first)| Class::new(experiment, flow, *first))
            .collect();
        if classes.is_empty() {
            return None;
        }
        let shares = shares(experiment);
        let mut carrying = Vec::new();
        for class in &mut classes {
            class.begin_with(&shares);
            carrying.extend(class.links());
        }
        carrying.sort_unstable();
        carrying.dedup();
        let shortest = classes.iter().map(Class::shortest_rtt);
        let shortest = Duration::from_secs_f64(shortest.fold(f64::INFINITY, f64::min).min(1e6));
        Some(Self {
            classes,
            step: (shortest / STEPS).clamp(SHORTEST, LONGEST),
            at: Time::ZERO,
            links: vec![LinkState::default(); experiment.topology.links.len()],
            carrying,
        })
    }

    /// Goes on to `now`; when it is due again.
    pub(super) fn on_time(
        &mut self,
        now: Time,
        links: &mut [Link],
        subflows: &mut [Subflow],
    ) -> Time {
        let span = now.since(self.at).as_secs_f64();
        let step = self.step.as_secs_f64();
        self.at = now;
        for &link in &self.carrying {
            // Goes on once, so that looking costs nothing.
            links[link as usize].set_fluid(now, self.links[link as usize].inflow);
        }
        for (link, state) in links.iter().zip(&mut self.links) {
            state.waiting = link.waiting_s(now);
        }
        for &link in &self.carrying {
            let state = &mut self.links[link as usize];
            let fluid = links[link as usize].fluid_at(now).unwrap_or_default();
            state.owed += fluid.lost - state.lost;
            state.lost = fluid.lost;
            // What came is random, and `load` was to come. Losses of more are heard of later, and
            // the rest comes later, too: as much is under way as the windows allow.
            let came = std::mem::take(&mut state.load) * span / 8.0;
            state.ahead += fluid.offered - state.offered - came;
            state.offered = fluid.offered;
            let lost = state.owed.min(came);
            state.owed -= lost;
            state.kept = if came > 0.0 { 1.0 - lost / came } else { 1.0 };
        }
        for class in &mut self.classes {
            class.step(now, (span, step), &mut self.links, subflows);
        }
        for &link in &self.carrying {
            let state = &mut self.links[link as usize];
            let load = state.load - state.ahead * 8.0 / step;
            state.inflow = Rate::from_bits_per_sec(load.max(0.0));
            links[link as usize].set_fluid(now, state.inflow);
        }
        now + self.step
    }

    /// The sender's counters that a subflow's `count` flows have together, if it is a fluid's.
    pub(super) fn stats(&self, subflow: u32) -> Option<SenderStats> {
        let after = self
            .classes
            .partition_point(|c| c.first_subflow() <= subflow);
        self.classes[after.checked_sub(1)?].stats(subflow)
    }

    /// The smoothed round-trip time of a fluid's subflow, seconds.
    pub(super) fn rtt(&self, subflow: u32) -> Option<f64> {
        let after = self
            .classes
            .partition_point(|c| c.first_subflow() <= subflow);
        self.classes[after.checked_sub(1)?].rtt(subflow)
    }
}

impl Simulation<'_> {
    /// The number of the fluids' timer.
    pub(super) fn fluids_id(&self) -> u32 {
        self.recorder_id() + 1
    }

    /// A step of the fluids.
    pub(super) fn on_fluids(&mut self, at: Time) {
        let id = self.fluids_id();
        if let Some(fluids) = &mut self.fluids {
            let next = fluids.on_time(at, &mut self.network.links, &mut self.subflows);
            self.timers.schedule(next, id);
        }
    }
}

/// The links with room for the fluids that pass them.
///
/// # Errors
/// A link's name, and what a fluid can't pass there.
pub(super) fn make_room(
    experiment: &Experiment,
    links: Vec<Link>,
) -> Result<Vec<Link>, (String, InvalidLink)> {
    let mut largest = vec![None::<u32>; links.len()];
    for (link, flow, _) in passed(experiment) {
        if flow.fluid.is_some() {
            largest[link].get_or_insert(0);
        }
    }
    for (link, _, bytes) in passed(experiment) {
        if let Some(largest) = &mut largest[link] {
            *largest = bytes.max(*largest);
        }
    }
    let named = experiment.topology.links.iter();
    let links = links.into_iter().zip(largest).zip(named);
    links
        .map(|((link, largest), named)| match largest {
            Some(bytes) => {
                let link = link.with_fluid(bytes);
                link.map_err(|error| (named.name.clone(), error))
            }
            None => Ok(link),
        })
        .collect()
}

/// The links that each flow passes, once for each of its paths over them, and the size of its
/// packets there.
fn passed(experiment: &Experiment) -> impl Iterator<Item = (usize, &Flow, u32)> {
    experiment.flows.iter().flat_map(move |flow| {
        flow.paths.iter().flat_map(move |&path| {
            let path = &experiment.topology.paths[path];
            let there = path.links.iter();
            there.map(move |&link| (link, flow, flow.sender.packet_size))
        })
    })
}

/// An equal share of each link for each subflow over it, bits/s.
fn shares(experiment: &Experiment) -> Vec<f64> {
    let mut subflows = vec![0.0; experiment.topology.links.len()];
    for (link, flow, _) in passed(experiment) {
        subflows[link] += f64::from(flow.count());
    }
    let links = experiment.topology.links.iter().zip(subflows);
    links
        .map(|(link, subflows)| link.config.rate.bits_per_sec() / f64::max(subflows, 1.0))
        .collect()
}

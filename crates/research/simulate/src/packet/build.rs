//! From an experiment to a run that hasn't begun.

use std::borrow::Cow;

use manyway_control::Outcome;
use manyway_control::paths::InvalidManagerConfig;
use manyway_network::{InvalidLink, Link};
use manyway_scenario::{Experiment, Flow, Lifetime};
use manyway_units::Time;
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

use super::Simulation;
use super::event_queue::Timers;
use super::fluid::{Fluids, make_room};
use super::meter::Meter;
use super::network::{Network, seeded};
use super::receiver::Receiver;
use super::recorder::Recorder;
use super::source::{Egress, Source, Subflow};
use super::view::Parts;
use crate::draw::draw;
use crate::events::mix;
use crate::histogram::Durations;

/// Links of a path in one direction.
const MAX_HOPS: usize = 254;

/// An experiment that can't be run.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SimulationError {
    /// A link can't work.
    #[error("{name}: {error}")]
    Link {
        /// The link's or the flow's name.
        name: String,
        /// What is wrong.
        error: InvalidLink,
    },
    /// A flow's path manager can't work.
    #[error("{name}: {error}")]
    Relays {
        /// The flow's name.
        name: String,
        /// What is wrong.
        error: InvalidManagerConfig,
    },
    /// A flow or a path refers to something that isn't there.
    #[error("{name} refers to {what} number {index}, but there are only {count}")]
    Missing {
        /// The flow's or the path's name.
        name: String,
        /// `path` or `link`.
        what: &'static str,
        /// The number asked for.
        index: usize,
        /// How many there are.
        count: usize,
    },
    /// A fluid of a law without a fluid form.
    #[error("{name}: {law} has no fluid form: leave out fluid, or take another law")]
    NoFluid {
        /// The flow's name.
        name: String,
        /// The law's.
        law: &'static str,
    },
    /// A path over more links than a packet can count.
    #[error("{name} has more than {MAX_HOPS} links in one direction")]
    TooLong {
        /// The path's name.
        name: String,
    },
    /// A path without a link, or a flow without a path.
    #[error("{name} has no {what}")]
    Empty {
        /// The flow's or the path's name.
        name: String,
        /// `paths` or `links`.
        what: &'static str,
    },
}

impl<'a> Simulation<'a> {
    /// A run of `experiment` that draws all its randomness from `seed`.
    ///
    /// # Errors
    /// [`SimulationError`] if a link can't work, or a flow or a path names something that isn't
    /// there.
    pub fn new(experiment: &'a Experiment, seed: u64) -> Result<Self, SimulationError> {
        Self::build(experiment, Cow::Borrowed(&experiment.flows), seed)
    }

    /// [`Simulation::new`] with the experiment's flows, borrowed or owned.
    pub(super) fn build(
        experiment: &Experiment,
        flows: Cow<'a, [Flow]>,
        seed: u64,
    ) -> Result<Self, SimulationError> {
        check(experiment)?;
        let in_link = |(name, error)| SimulationError::Link { name, error };
        let mut network = Network::new(experiment, seed).map_err(in_link)?;
        network.links = make_room(experiment, network.links).map_err(in_link)?;
        let mut sources = Vec::with_capacity(experiment.flows.len());
        let paths = experiment.flows.iter().map(|flow| flow.paths.len());
        let mut subflows = Vec::with_capacity(paths.sum());
        let drawn = draw(experiment, seed);
        let mut first_of = Vec::new();
        for ((index, flow), drawn) in experiment.flows.iter().enumerate().zip(drawn) {
            let first = subflows.len() as u32;
            first_of.push(first);
            for path in 0..flow.paths.len() {
                let lifetime = flow.lifetimes.get(path).copied().unwrap_or_default();
                let number = subflows.len() as u64;
                let subflow = subflow(flow, (index, number, lifetime), seed, &mut network);
                subflows.push(Subflow {
                    rtts: Durations::of_rtts(&experiment.measure),
                    ..subflow.map_err(in_link)?
                });
            }
            let range = first..subflows.len() as u32;
            let stream = mix(index as u64 ^ 0x7265_6c61_7973);
            let source = Source::new(flow, range.clone(), drawn, mix(seed ^ stream));
            let source = source.map_err(|error| SimulationError::Relays {
                name: flow.name.clone(),
                error,
            })?;
            if source.managed.is_some() {
                for subflow in &mut subflows[range.start as usize..] {
                    subflow.relay = Some(Box::default());
                }
            }
            sources.push(source);
        }
        let end = Time::ZERO + experiment.duration;
        let mut simulation = Self {
            now: Time::ZERO,
            end,
            seed,
            network,
            timers: Timers::new(seed),
            recorder: Recorder::new(experiment),
            flows,
            fluids: Fluids::new(experiment, &first_of).map(Box::new),
            sources,
            subflows,
            outcome: Outcome::default(),
            events: 0,
        };
        simulation.schedule_first();
        Ok(simulation)
    }

    fn schedule_first(&mut self) {
        // What is measured from 0 on begins before anything happens.
        let mut parts = Parts {
            subflows: &mut self.subflows,
            sources: &self.sources,
            fluids: self.fluids.as_deref(),
            links: &self.network.links,
        };
        self.recorder.on_time(Time::ZERO, &mut parts);
        for index in 0..self.sources.len() {
            let at = self.sources[index].start;
            match self.flows[index].fluid {
                None => self.schedule_source(index, at),
                // The first of its flows starts then.
                Some(_) => self.sources[index].start = self.flows[index].start,
            }
        }
        self.on_fluids(Time::ZERO);
        if let Some(at) = self.recorder.next() {
            let id = self.recorder_id();
            self.timers.schedule(at, id);
        }
    }
}

fn subflow(
    flow: &Flow,
    (source, number, lifetime): (usize, u64, Lifetime),
    seed: u64,
    network: &mut Network,
) -> Result<Subflow, (String, InvalidLink)> {
    let jitter = u64::try_from(flow.jitter.as_nanos()).unwrap_or(u64::MAX);
    let stream = mix(number ^ 0x7375_6266_6c6f_7773);
    let access = match &flow.access {
        Some(config) if config.queue.decides_late() => {
            let error = InvalidLink {
                field: "queue".to_owned(),
                value: "one that decides about packets when they leave it".to_owned(),
                allowed: "a private link has DropTail, RED or PIE",
            };
            return Err((format!("{}: access", flow.name), error));
        }
        Some(config) => {
            let link = Link::new(seeded(config, seed, stream));
            let link = link.map_err(|error| (format!("{}: access", flow.name), error))?;
            Some(Box::new(link))
        }
        None => None,
    };
    let delayed = jitter > 0 || access.is_some();
    let egress = delayed.then(|| {
        Box::new(Egress {
            jitter,
            latest: Time::ZERO,
            rng: Pcg64Mcg::seed_from_u64(mix(seed ^ stream)),
            own: network.under_way.add_own(),
            access,
            ecn: flow.ecn,
            l4s: flow.l4s,
        })
    });
    let spec_needs_state = network.keeps_receiver_state(number as usize);
    Ok(Subflow {
        sender: None,
        lifetime,
        source: source as u32,
        meter: Meter::new(),
        rtts: None,
        timer: Time::MAX,
        marks: 0,
        abandoned: 0,
        stale: 0,
        egress,
        receiver: spec_needs_state.then(|| Box::new(Receiver::new(flow.ack))),
        relay: None,
    })
}

/// Whether every index points at something.
pub(crate) fn check(experiment: &Experiment) -> Result<(), SimulationError> {
    let topology = &experiment.topology;
    let within = |name: &str, what, indices: &[usize], count: usize| match indices
        .iter()
        .find(|&&index| index >= count)
    {
        Some(&index) => Err(SimulationError::Missing {
            name: name.to_owned(),
            what,
            index,
            count,
        }),
        None => Ok(()),
    };
    let empty = |name: &str, what| SimulationError::Empty {
        name: name.to_owned(),
        what,
    };
    for path in &topology.paths {
        within(&path.name, "link", &path.links, topology.links.len())?;
        within(&path.name, "link", &path.reverse, topology.links.len())?;
        if path.links.is_empty() {
            return Err(empty(&path.name, "links"));
        }
        if path.links.len().max(path.reverse.len()) > MAX_HOPS {
            return Err(SimulationError::TooLong {
                name: path.name.clone(),
            });
        }
    }
    for flow in &experiment.flows {
        within(&flow.name, "path", &flow.paths, topology.paths.len())?;
        if flow.paths.is_empty() {
            return Err(empty(&flow.name, "paths"));
        }
        if flow.fluid.is_some() && flow.law.window_law().is_none() {
            return Err(SimulationError::NoFluid {
                name: flow.name.clone(),
                law: flow.law.name(),
            });
        }
    }
    Ok(())
}

//! One run of an experiment in real time: its network, its flows at their times, and what all of it
//! looked like at the moments that matter.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use manyway_scenario::Experiment;
use manyway_units::Time;

use super::emulator::seed_of;
use super::flows::{Endless, Means, Running};
use super::network::Network;
use super::plan::Plan;
use super::reading::{Punctuality, Reading};

/// How soon something is done that is due.
const TICK: Duration = Duration::from_millis(2);

/// A run that is over.
#[derive(Debug)]
pub struct Outcome {
    /// What it looked like: when measuring begins and ends, at both ends of each span, when flows
    /// start and stop, and at each interval of a series.
    pub moments: Vec<Moment>,
    /// When each flow started.
    pub starts: Vec<Time>,
    /// How long each finite flow took, if it is complete.
    pub took: Vec<Option<Duration>>,
    /// How well the emulator kept time.
    pub punctuality: Punctuality,
    /// False if it was stopped before its end.
    pub complete: bool,
}

/// What the run looked like once.
#[derive(Debug, Clone)]
pub struct Moment {
    /// For which time it was meant; [`Reading::at`] has when it really was.
    pub due: Time,
    /// Links and subflows.
    pub reading: Reading,
    /// Payload that each flow's receiver has.
    pub received: Vec<u64>,
}

impl Outcome {
    /// The moment that was meant for a time.
    pub fn at(&self, time: Time) -> Option<&Moment> {
        self.moments.iter().find(|moment| moment.due >= time)
    }
}

/// Carries an experiment out. It takes root, and a mount namespace of its own.
///
/// # Errors
/// If the system refuses something, or a flow ends before its time.
pub fn run(
    experiment: &Experiment,
    seed: u64,
    means: &Means<'_>,
    stop: &AtomicBool,
    mut progress: impl FnMut(f64),
) -> io::Result<Outcome> {
    let plan = Plan::of_flows(experiment).map_err(io::Error::other)?;
    let network = Network::up(plan)?;
    let endless = Endless::write(experiment, means)?;
    let mut flows = Vec::new();
    for (index, flow) in experiment.flows.iter().enumerate() {
        flows.push(Running::prepare(
            network.plan(),
            flow,
            index,
            means,
            &endless,
        )?);
    }
    let starts: Vec<Time> = experiment
        .flows
        .iter()
        .enumerate()
        .map(|(index, flow)| {
            let share = seed_of(!seed, index) as f64 / u64::MAX as f64;
            flow.start + flow.start_spread.mul_f64(share)
        })
        .collect();
    let end = Time::ZERO + experiment.duration;
    let mut due = moments(experiment, &starts).into_iter().peekable();
    let mut waiting: Vec<usize> = (0..flows.len()).collect();
    let mut outcome = Outcome {
        moments: Vec::new(),
        took: vec![None; flows.len()],
        starts,
        punctuality: Punctuality::default(),
        complete: true,
    };
    let emulator = network.go(seed)?;
    loop {
        let now = emulator.now();
        while let Some(due) = due.next_if(|due| *due <= now) {
            outcome.moments.push(Moment {
                due,
                reading: emulator.read(),
                received: flows.iter().map(Running::received).collect(),
            });
        }
        if now >= end {
            break;
        }
        if stop.load(Ordering::Relaxed) {
            outcome.complete = false;
            break;
        }
        if emulator.has_ended() {
            emulator.stop()?;
            return Err(io::Error::other("a device of the network is gone"));
        }
        for index in std::mem::take(&mut waiting) {
            match outcome.starts[index] <= now {
                true => flows[index].start()?,
                false => waiting.push(index),
            }
        }
        for (index, flow) in flows.iter_mut().enumerate() {
            if experiment.flows[index].stop.is_some_and(|at| at <= now) {
                flow.stop();
            }
            outcome.took[index] = flow.look()?;
        }
        progress(now.as_secs_f64() / end.as_secs_f64());
        let next = due.peek().map_or(TICK, |due| due.since(now));
        std::thread::sleep(next.min(TICK));
    }
    // Their packets may as well get through while they end.
    drop(flows);
    outcome.punctuality = Punctuality::of(&emulator.stop()?);
    Ok(outcome)
}

/// The moments that matter, in order.
fn moments(experiment: &Experiment, starts: &[Time]) -> Vec<Time> {
    let measure = &experiment.measure;
    let end = Time::ZERO + experiment.duration;
    let mut moments = vec![measure.from, measure.until];
    for span in &measure.spans {
        moments.extend([span.from, span.until]);
    }
    moments.extend(starts);
    moments.extend(experiment.flows.iter().filter_map(|flow| flow.stop));
    if !measure.series.is_empty() {
        let mut at = Time::ZERO;
        while at <= end {
            moments.push(at);
            at += measure.interval;
        }
    }
    moments.retain(|at| *at <= end);
    moments.sort();
    moments.dedup();
    moments
}

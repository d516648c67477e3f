//! From the file to the experiment: names become indices, groups become flows, and everything is
//! checked.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use manyway_network::Topology;
use manyway_units::{Time, format_duration};

use crate::distribution::pareto_scale;
use crate::experiment::Experiment;
use crate::fault::Fault;
use crate::file::{File, Flow, Random};
use crate::problem::{hint, listed};
use crate::quantity::Name;
use crate::tree::Key;

mod flows;
mod fluid;
mod links;
mod live;
mod measure;
mod overlay;
mod queues;
mod relays;
mod sessions;
mod traffic;

pub(crate) use fluid::experiment_of_packets;
pub(crate) use live::experiment_live;
pub(crate) use overlay::overlay;
pub(crate) use sessions::experiment_of_sessions;

/// The most subflows of one point, and the most links, private ones included.
const MAX_PARTS: u64 = 100_000;

/// The most subflows of all points together, which are all in memory at once.
const MAX_TOTAL: usize = 500_000;

/// The most runs of a scenario: points times repetitions.
const MAX_RUNS: u64 = 1_000_000;

/// How often each point is run, and how many runs that makes.
pub(crate) fn check_runs(file: &File, points: usize) -> Result<(), Fault> {
    let repeat = file.repeat.unwrap_or(1);
    let key = Key::of(["repeat"]);
    if !(1..=100_000).contains(&repeat) {
        return Err(Fault::new(
            &key,
            format!("{repeat} is out of range: choose 1 to 100000 repetitions"),
        ));
    }
    let runs = u64::from(repeat) * points as u64;
    if runs > MAX_RUNS {
        let message = format!(
            "{repeat} repetitions of {points} points are {runs} runs: at most {MAX_RUNS} are \
             possible"
        );
        return Err(Fault::new(&key, message));
    }
    // Repetitions count up from the seed.
    let last = file.seed.unwrap_or(1).checked_add(u64::from(repeat) - 1);
    if last.is_none() {
        let message = format!(
            "the seeds of {repeat} repetitions count up from it, and would pass the largest one: \
             choose a smaller seed"
        );
        return Err(Fault::new(&Key::of(["seed"]), message));
    }
    Ok(())
}

/// All points of a sweep have to fit into memory.
pub(crate) fn check_total(subflows: usize, points: usize) -> Result<(), Fault> {
    if subflows <= MAX_TOTAL {
        return Ok(());
    }
    let message = format!(
        "the {points} points have more than {MAX_TOTAL} subflows in all: sweep fewer values, or \
         use fewer flows"
    );
    Err(Fault::new(&Key::of(["sweep"]), message))
}

/// Resolves a file whose flows have what `[defaults]` says already.
pub(crate) fn experiment(file: &File) -> Result<Experiment, Vec<Fault>> {
    resolve(file, Checks::default())
}

/// [`experiment`], with checks that say what can run.
fn resolve(file: &File, mut checks: Checks) -> Result<Experiment, Vec<Fault>> {
    checks.folder = file.folder.clone();
    if file.overlay.is_some() {
        let message = "a scenario with an [overlay] runs with --level flow, or --level packet if \
            it has [overlay.packets]";
        checks.report(&Key::of(["overlay"]), message);
        return Err(checks.faults);
    }
    let name = checks.scenario_name(file);
    let duration = checks.duration(file);
    let links = checks.links(file);
    let paths = checks.paths(file, links.as_deref());
    // What comes next speaks of times, links and paths.
    let (Some(name), Some(duration), Some(links), Some(paths)) = (name, duration, links, paths)
    else {
        return Err(checks.faults);
    };
    let topology = Topology { links, paths };
    let flows = checks.flows(file, &topology, duration);
    let subflows = flows
        .as_ref()
        .map(|groups| groups.flows.iter().map(|flow| flow.paths.len()).sum());
    let measure = checks.measure(file, duration, subflows.unwrap_or(0), topology.links.len());
    match (flows, measure) {
        (Some(groups), Some(measure)) if checks.faults.is_empty() => Ok(Experiment {
            name,
            topology,
            flows: groups.flows,
            groups: groups.groups,
            duration,
            measure,
        }),
        _ => Err(checks.faults),
    }
}

/// Collects what is wrong on the way.
#[derive(Default)]
struct Checks {
    /// Where files are that the scenario names.
    folder: PathBuf,
    /// Flows of the kernel's can run.
    kernel: bool,
    /// Groups can be fluids.
    fluids: bool,
    faults: Vec<Fault>,
}

impl Checks {
    fn report(&mut self, key: &Key, message: impl Into<String>) {
        self.faults.push(Fault::new(key, message.into()));
    }

    /// The value, or a complaint that it is missing, with an example of it as it would be written.
    fn required<'a, T>(&mut self, value: &'a Option<T>, key: &Key, example: &str) -> Option<&'a T> {
        if value.is_none() {
            self.report(key, format!("missing: write, for example, {example}"));
        }
        value.as_ref()
    }

    fn scenario_name(&mut self, file: &File) -> Option<String> {
        let key = Key::of(["name"]);
        let name = self.required(&file.name, &key, "name = \"Two links\"")?;
        if name.trim().is_empty()
            || name.chars().count() > 100
            || name.chars().any(char::is_control)
        {
            self.report(&key, "choose a name of 1 to 100 characters on one line");
            return None;
        }
        Some(name.clone())
    }

    fn duration(&mut self, file: &File) -> Option<Duration> {
        let key = Key::of(["duration"]);
        let duration = self
            .required(&file.duration, &key, "duration = \"60 s\"")?
            .0;
        if duration.is_zero() {
            self.report(&key, "the run has no duration: choose more than 0 s");
            return None;
        }
        Some(duration)
    }

    /// The indices that these names have; every one that doesn't exist is reported.
    fn look_up<'a>(
        &mut self,
        names: impl Iterator<Item = (Key, &'a str)>,
        known: &Names<'_>,
    ) -> Option<Vec<usize>> {
        let mut indices = Vec::new();
        let mut complete = true;
        for (key, name) in names {
            match known.indices.get(name) {
                Some(index) => indices.push(*index),
                None => {
                    complete = false;
                    self.report(&key, known.unknown(name));
                }
            }
        }
        complete.then_some(indices)
    }
}

/// Names with their indices.
struct Names<'a> {
    /// What they are names of, in the singular.
    what: &'static str,
    names: Vec<&'a str>,
    indices: HashMap<&'a str, usize>,
}

impl<'a> Names<'a> {
    fn new(what: &'static str, names: impl Iterator<Item = &'a str>) -> Self {
        let names: Vec<&str> = names.collect();
        Names {
            what,
            indices: names
                .iter()
                .enumerate()
                .map(|(n, name)| (*name, n))
                .collect(),
            names,
        }
    }

    fn unknown(&self, name: &str) -> String {
        let Names { what, names, .. } = self;
        let hint = hint(name, names.iter().copied());
        if names.is_empty() {
            return format!("there is no {what} {name:?}, and no other either");
        }
        let known = listed(names.iter().copied());
        format!("there is no {what} {name:?}{hint}; {what}s are {known}")
    }
}

fn time(duration: Duration) -> Time {
    Time::ZERO + duration
}

/// A time in the words of the file: 90 s rather than 1 min 30 s.
fn shown(duration: Duration) -> String {
    match duration < Duration::from_secs(1) {
        true => format_duration(duration),
        false => format!("{} s", duration.as_secs_f64()),
    }
}

fn named<'a>(table: &'a str, name: &'a Name) -> Key {
    Key::of([table, name.as_str()])
}

/// How many flows a group has: with random distances and without a `count`, more than ever come in
/// the time that there is. Those of a Poisson process are more than six standard deviations above
/// the mean in one of a billion runs.
fn members(flow: &Flow, duration: Duration) -> u32 {
    let stagger = flow.stagger.as_ref().filter(|_| flow.count.is_none());
    let end = flow.stop.map_or(duration, |stop| stop.0.min(duration));
    let begin = flow.start.map_or(Duration::ZERO, |start| start.0);
    let time = end.saturating_sub(begin).as_secs_f64();
    let most = match stagger {
        Some(Random::Exponential(mean)) => {
            let expected = time / mean.0.as_secs_f64();
            expected + 6.0 * expected.sqrt() + 10.0
        }
        Some(Random::Pareto(pareto)) => match (pareto.mean, pareto.shape) {
            (Some(mean), Some(shape)) => {
                let shortest = pareto_scale(mean.0.as_secs_f64(), shape.0);
                time / shortest + 1.0
            }
            _ => 1.0,
        },
        _ => return flow.count.unwrap_or(1),
    };
    // A mean of nothing is told elsewhere.
    if most.is_finite() {
        most.ceil().max(1.0) as u32
    } else {
        1
    }
}

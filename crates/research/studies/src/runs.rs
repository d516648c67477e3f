//! Loading scenarios and running them at the packet level.

use include_dir::{Dir, include_dir};
use manyway_scenario::{Experiment, Point, Scenario};
use manyway_simulate::batch::{self, BatchError, Control, Job, Level, Plan, Shard};
use manyway_simulate::packet::{RunResult, SimulationError};
use serde::Serialize;

use crate::failure::Failure;
use crate::progress::timed;

/// The papers' scenarios, in the program: it runs where no source tree is.
static SCENARIOS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/scenarios");

/// RED in the place of the queues of Balia's scenarios.
pub(crate) const RED: &str = "links.*.queue={ red = { limit = \"50 packets\", \
    min = \"12 packets\", max = \"36 packets\", weight = \"auto\" } }";

/// Repetitions of each point of a scenario.
#[derive(Debug, Copy, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Runs {
    /// How many, each with the seed after the one before.
    pub(crate) repeat: u32,
    /// Added to the scenario's seed.
    pub(crate) seed: u64,
}

impl Runs {
    /// These, but no more than `most`.
    pub(crate) fn at_most(self, most: u32) -> Self {
        Runs {
            repeat: self.repeat.min(most),
            ..self
        }
    }
}

/// A scenario by its name below `scenarios`, and `key=value` assignments made to it.
#[derive(Debug, Copy, Clone)]
pub(crate) struct Source<'a> {
    pub(crate) scenario: &'a str,
    pub(crate) set: &'a [&'a str],
}

impl<'a> Source<'a> {
    /// The scenario with these assignments.
    pub(crate) fn new(scenario: &'a str, set: &'a [&'a str]) -> Self {
        Source { scenario, set }
    }

    /// Reads the file.
    pub(crate) fn load(self) -> Result<Scenario, Failure> {
        let name = format!("{}.toml", self.scenario);
        let text = SCENARIOS
            .get_file(&name)
            .and_then(|file| file.contents_utf8());
        let text = text.ok_or_else(|| format!("there is no scenarios/{name}"))?;
        let mut file = Scenario::parse(text, &format!("scenarios/{name}"))?;
        for assignment in self.set {
            file.set(assignment)?;
        }
        Ok(file)
    }

    /// Reads the file, for its points.
    pub(crate) fn points(self) -> Result<Vec<Point>, Failure> {
        Ok(self.load()?.points()?)
    }

    /// Runs every point at the packet level and takes from each run what `measure` makes of it: by
    /// point, in the order of the seeds.
    pub(crate) fn measure<T: Send>(
        self,
        runs: Runs,
        measure: impl Fn(&Experiment, &RunResult) -> T + Sync,
    ) -> Result<Vec<(Point, Vec<T>)>, Failure> {
        let file = self.load()?;
        let points = file.points()?;
        let plan = Plan {
            scenario: file.name(),
            level: Level::Packet,
            points: &points,
            seed: file.seed().wrapping_add(runs.seed),
            repeat: runs.repeat,
            threads: threads(),
            keep_series: true,
            shard: Shard::default(),
        };
        let mut measured: Vec<Vec<T>> = points.iter().map(|_| Vec::new()).collect();
        let sink = |job: &Job, run: &RunResult| {
            measured[job.point].push(measure(&points[job.point].experiment, run));
            Ok(())
        };
        timed(self.scenario, || {
            plan.run(batch::packet, sink, &Control::new())
        })
        .map_err(|error: BatchError<SimulationError>| error)?;
        Ok(points.into_iter().zip(measured).collect())
    }
}

/// As many as there are cores; results don't depend on it.
pub(crate) fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

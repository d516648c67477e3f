//! `manyway run` of a scenario with an `[overlay]`: at the flow level, or over TCP connections
//! packet by packet.

mod files;
mod plots;
mod text;

use std::path::Path;

use anyhow::bail;
use manyway_fluid::optimum::over_relays;
use manyway_scenario::{OverlayPoint, Scenario, ScenarioError};
use manyway_simulate::batch::{
    BatchError, Control, Object, OverlayDone, OverlayLevel, OverlayPlan, OverlayReport,
};
use manyway_simulate::overlay::Setting;

use self::files::Files;
use super::supervise;
use crate::args::{Level, RunArgs};
use crate::exit::usage;
use crate::scenario;
use crate::screen::Screen;
use crate::summary::{print_failure, print_json};

/// What carries the file's runs out, if it has an `[overlay]`; what is wrong with it otherwise is
/// for others to tell.
///
/// # Errors
///
/// Wrong usage if the levels asked for don't go with the file.
pub(super) fn level(file: &Path, args: &RunArgs) -> anyhow::Result<Option<OverlayLevel>> {
    let Ok(scenario) = scenario::load(file, &args.assignments) else {
        return Ok(None);
    };
    let shown = file.display();
    let flow = args.level.contains(&Level::Flow);
    match (scenario.is_overlay(), &args.level[..]) {
        (true, [Level::Flow]) => Ok(Some(OverlayLevel::Flow)),
        (true, [Level::Packet]) => Ok(Some(OverlayLevel::Packet)),
        (true, _) => Err(usage(format!(
            "{shown} has an [overlay], which runs with --level flow or --level packet, one at a \
             time"
        ))),
        (false, _) if flow => Err(usage(format!(
            "{shown} has no [overlay], and --level flow is for overlays: use packet, fluid or \
             optimum"
        ))),
        (false, _) => Ok(None),
    }
}

pub(super) async fn run(
    screen: &Screen,
    file: &Path,
    args: &RunArgs,
    level: OverlayLevel,
) -> anyhow::Result<()> {
    let (scenario, points) = read(file, args).map_err(|error| usage(error.to_string()))?;
    if level == OverlayLevel::Packet
        && points
            .iter()
            .any(|point| point.experiment.packets.is_none())
    {
        return Err(usage(format!(
            "{}: the packet level needs [overlay.packets] with the rtt: add it, or use --level \
             flow",
            file.display()
        )));
    }
    let files = args.out.as_deref().map(Files::create).transpose()?;
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    let work = Work {
        scenario,
        points,
        level,
        threads: args.threads.map_or_else(cores, usize::from),
        keep_series: args.keep_series,
    };
    let (work, done) = match supervise(screen, move |control| work.run(control)).await {
        Ok(done) => done,
        Err(error) => {
            if args.json {
                print_failure(&error)?;
            }
            return Err(error);
        }
    };
    let report = work.plan().report(&done);
    let written = files
        .map(|files| files.finish(&work.points, &report, &done))
        .transpose();
    screen.say(&text::summary(&report));
    if args.json {
        print_json(&Object::new(&report))?;
    }
    if let Some(words) = written? {
        screen.say(&words);
    }
    match report.unfinished {
        0 => Ok(()),
        missing => bail!("stopped: {} missing", scenario::several(missing, "run")),
    }
}

struct Work {
    scenario: Scenario,
    points: Vec<OverlayPoint>,
    level: OverlayLevel,
    threads: usize,
    keep_series: bool,
}

impl Work {
    fn plan(&self) -> OverlayPlan<'_> {
        OverlayPlan {
            scenario: self.scenario.name(),
            level: self.level,
            points: &self.points,
            seed: self.scenario.seed(),
            repeat: self.scenario.repeat(),
            threads: self.threads,
            keep_series: self.keep_series,
        }
    }

    fn run(self, control: &Control) -> anyhow::Result<(Self, Vec<OverlayDone>)> {
        let done = self
            .plan()
            .run(optimum, control)
            .map_err(|error| match error {
                BatchError::Threads(error) => error.into(),
                error => anyhow::anyhow!("{error}"),
            })?;
        Ok((self, done))
    }
}

/// The linear programme's value, bits/s.
fn optimum(setting: &Setting) -> Result<f64, String> {
    let Setting { overlay, selection } = setting;
    let best = over_relays(&overlay.relays, &overlay.demands, selection);
    let best = best.map_err(|error| error.to_string())?;
    Ok(best.rates.iter().sum())
}

fn read(file: &Path, args: &RunArgs) -> Result<(Scenario, Vec<OverlayPoint>), ScenarioError> {
    let scenario = super::assigned(file, args)?;
    let points = scenario.overlay_points()?;
    Ok((scenario, points))
}

/// The swept values of a report's points, and the one that changes fastest if it is a number
/// everywhere.
fn numeric_axis(report: &OverlayReport) -> Option<&str> {
    let key = report.points.first()?.set.keys().last()?;
    let number = |value: &String| value.parse::<f64>().is_ok();
    let all = report
        .points
        .iter()
        .all(|point| point.set.get(key).is_some_and(number));
    let first = &report.points.first()?.set[key];
    let several = report.points.iter().any(|point| &point.set[key] != first);
    (all && several).then_some(key.as_str())
}

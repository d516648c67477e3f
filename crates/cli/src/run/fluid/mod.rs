//! `manyway run --level fluid`: every point as equations over time.

mod files;
pub(super) mod report;
mod text;

use std::path::Path;

use anyhow::bail;
use manyway_fluid::run::{self, RunOptions};
use manyway_simulate::batch::Object;

use self::files::Files;
use self::report::{Outcome, PointResult, Report};
use super::read;
use crate::args::RunArgs;
use crate::exit::usage;
use crate::screen::Screen;
use crate::summary::print_json;

/// Runs all points; a fluid has no randomness, so that seeds and repetitions make no difference.
pub(super) fn run(screen: &Screen, file: &Path, args: &RunArgs) -> anyhow::Result<()> {
    let (scenario, points) = read(file, args).map_err(|error| usage(error.to_string()))?;
    let mut files = args.out.as_deref().map(Files::create).transpose()?;
    let options = options(args);
    let mut report = Report::new(scenario.name());
    for (index, point) in points.iter().enumerate() {
        let outcome = match run::run(&point.experiment, &options) {
            Ok(run) => {
                if let Some(files) = &mut files {
                    let number = (points.len() > 1).then_some((index, points.len()));
                    files.take(number, point, &run)?;
                }
                Outcome::Done(Box::new(report::Measured::of(&point.experiment, &run)))
            }
            Err(error) => Outcome::Failed {
                error: error.to_string(),
            },
        };
        report.add(PointResult {
            set: point.set.iter().cloned().collect(),
            outcome,
        });
    }
    if let Some(error) = report.nothing_done() {
        return Err(usage(error));
    }
    let written = files.map(|files| files.finish(&report)).transpose();
    screen.say(&text::summary(&report));
    if args.json {
        print_json(&Object::new(&report))?;
    }
    match written {
        Ok(Some(words)) => screen.say(&words),
        Ok(None) => {}
        Err(error) => bail!(error),
    }
    Ok(())
}

/// What the command line leaves to choose of a fluid.
pub(super) fn options(args: &RunArgs) -> RunOptions {
    RunOptions {
        floors: args.floors,
        ..RunOptions::default()
    }
}

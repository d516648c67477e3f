//! `manyway run --level fluid`: every point as equations over time. A fluid has no randomness, so
//! that seeds and repetitions make no difference. This module runs the fluid model and reports what
//! it says; the equations are `manyway-fluid`'s.

mod report;
mod sheets;
mod text;

use anyhow::bail;
use manyway_fluid::run::{self, RunOptions};
use manyway_scenario::{Point, Scenario};
use manyway_simulate::batch::{BatchError, Control, Running};

use self::report::{Measured, Outcome, PointResult, Report};
use super::folder::{Folder, Sheet};
use super::goodput::Column;
use super::level::{self, Level, Request};
use super::naming::setting;
use super::plots;
use crate::args::ExperimentArgs;
use crate::exit::usage;

/// A checked request.
#[derive(Debug)]
pub(super) struct Fluid {
    scenario: Scenario,
    points: Vec<Point>,
    options: RunOptions,
}

impl Level for Fluid {
    type Report = Report;

    fn prepare(request: Request<'_>) -> anyhow::Result<Self> {
        let points = request.scenario.points();
        Ok(Self {
            points: points.map_err(|error| usage(error.to_string()))?,
            options: options(request.args),
            scenario: request.scenario,
        })
    }

    fn sheets(&self) -> Vec<Sheet> {
        sheets::all()
    }

    fn run(self, control: &Control, mut folder: Option<&mut Folder>) -> anyhow::Result<Report> {
        let mut report = Report::new(self.scenario.name(), self.points.len());
        control.expect(self.points.len() as u64);
        for (index, point) in self.points.iter().enumerate() {
            if control.is_stopped() {
                break;
            }
            let _running = Running::new(self.scenario.seed(), control);
            let outcome = match run::run(&point.experiment, &self.options) {
                Ok(run) => {
                    if let Some(folder) = folder.as_deref_mut() {
                        sheets::add(folder, index, &run)?;
                        let of =
                            format!("{}, {}fluid level", point.experiment.name, setting(point));
                        let series = sheets::as_recorded(&run);
                        for picture in plots::draw(&point.experiment, &series, &of)? {
                            folder.plot(picture.name, index, self.points.len(), &picture.svg)?;
                        }
                    }
                    report.enter(index, &point.experiment, &run);
                    Outcome::Done(Box::new(Measured::of(&point.experiment, &run)))
                }
                Err(error) => Outcome::Failed {
                    error: error.to_string(),
                },
            };
            report.points.push(PointResult {
                set: point.set.iter().cloned().collect(),
                outcome,
            });
        }
        match report.nothing_done() {
            _ if report.points.is_empty() => bail!("{}", BatchError::<String>::Stopped),
            Some(error) => Err(usage(error)),
            None => Ok(report),
        }
    }
}

impl level::Report for Report {
    fn summary(&self) -> String {
        text::summary(self)
    }

    fn columns(&self) -> Vec<Column> {
        self.columns.clone().into()
    }

    fn remarks(&self) -> Vec<String> {
        self.points.iter().flat_map(PointResult::remarks).collect()
    }

    fn unfinished(&self) -> u64 {
        self.missing() as u64
    }
}

/// The options of the fluid model that the command line sets.
fn options(args: &ExperimentArgs) -> RunOptions {
    RunOptions {
        floors: args.floors,
        ..RunOptions::default()
    }
}

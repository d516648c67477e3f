//! `manyway run --level fluid`: every point as equations over time. A fluid has no randomness, so
//! that seeds and repetitions make no difference. This module hands what the fluid model finds to
//! tables, plots and text; the equations are `manyway-fluid`'s.

mod text;

use manyway_fluid::run::{FluidRun, Rest, RunOptions};
use manyway_results::fluid::{self, NoReport, Report};
use manyway_results::{Sheet, naming::setting};
use manyway_scenario::{Experiment, Point, Scenario};
use manyway_simulate::batch::{BatchError, Control};
use serde::Serialize;

use super::folder::Folder;
use super::goodput::{Column, over_time, parts};
use super::level::{self, Level, Request};
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

/// The report, and what `manyway compare` takes from it.
#[derive(Debug, Serialize)]
pub(super) struct Compared {
    #[serde(flatten)]
    report: Report,
    /// The fluid's equilibrium, and its means.
    #[serde(skip)]
    columns: [Column; 2],
}

impl Level for Fluid {
    type Report = Compared;

    fn prepare(request: Request<'_>) -> anyhow::Result<Self> {
        let points = request.scenario.points();
        Ok(Self {
            points: points.map_err(|error| usage(error.to_string()))?,
            options: options(request.args),
            scenario: request.scenario,
        })
    }

    fn sheets(&self) -> Vec<Sheet> {
        fluid::sheets()
    }

    fn run(self, control: &Control, mut folder: Option<&mut Folder>) -> anyhow::Result<Compared> {
        let mut columns = ["fluid equilibrium", "fluid"].map(|name| Column {
            name,
            ..Column::default()
        });
        let sink = |index: usize, point: &Point, run: &FluidRun| {
            if let Some(folder) = folder.as_deref_mut() {
                fluid::add(folder, index, run)?;
                let of = format!("{}, {}fluid level", point.experiment.name, setting(point));
                let series = fluid::as_recorded(run);
                for picture in plots::draw(&point.experiment, &series, &of)? {
                    folder.plot(picture.name, index, self.points.len(), &picture.svg)?;
                }
            }
            enter(&mut columns, index, &point.experiment, run);
            anyhow::Ok(())
        };
        let done = fluid::carry_out(&self.scenario, &self.points, &self.options, control, sink);
        let report = done.map_err(|error| match error {
            NoReport::Stopped => anyhow::anyhow!("{}", BatchError::<String>::Stopped),
            NoReport::Unfit(reasons) => usage(reasons),
            NoReport::Result(error) => error,
        })?;
        Ok(Compared { report, columns })
    }
}

impl level::Report for Compared {
    fn summary(&self) -> String {
        text::summary(&self.report)
    }

    fn columns(&self) -> Vec<Column> {
        self.columns.clone().into()
    }

    fn remarks(&self) -> Vec<String> {
        let points = self.report.points.iter();
        points.flat_map(fluid::PointResult::remarks).collect()
    }

    fn unfinished(&self) -> u64 {
        self.report.missing() as u64
    }
}

/// Enters a point's goodputs into the columns.
fn enter(columns: &mut [Column; 2], point: usize, experiment: &Experiment, run: &FluidRun) {
    let [rest, mean] = columns;
    mean.enter_computed(point, experiment, |part, flow, path| {
        let subflow = &run.flows[flow].subflows[path];
        let rate = match subflow.spans_bps.as_slice() {
            [] => subflow.goodput_bps,
            spans => spans[part],
        };
        rate.is_finite().then_some(rate)
    });
    let parts = parts(experiment);
    rest.enter_computed(point, experiment, |part, flow, path| {
        let sender = &experiment.flows[flow];
        let size = f64::from(sender.sender.packet_size);
        let payload = (size - f64::from(sender.headers)) / size;
        let epochs = run.epochs.iter().map(|epoch| {
            let at = epoch.subflows.iter().position(|is| *is == (flow, path));
            let arriving =
                |(at, rest): (usize, &Rest)| rest.rates_bps[at] * rest.kept[at] * payload;
            // Where it isn't there, it has nothing.
            let rate = at.zip(epoch.rest.as_ref()).map_or(0.0, arriving);
            (epoch.times.0..epoch.times.1, rate)
        });
        over_time(&parts[part], sender, epochs)
    });
}

/// The options of the fluid model that the command line sets.
fn options(args: &ExperimentArgs) -> RunOptions {
    RunOptions {
        floors: args.floors,
        ..RunOptions::default()
    }
}

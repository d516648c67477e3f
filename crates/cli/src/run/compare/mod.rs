//! `manyway compare`: the goodput that several levels have for the same scenario, side by side.
//!
//! Each level prepares and runs as `manyway run` has it do, through the traits
//! [`Level`](level::Level) and [`Report`](level::Report); [`level`] registers it. This
//! module enters their columns into one report; it computes no goodput itself.

mod optimum;
mod plot;
mod report;
mod text;

use anyhow::bail;
use manyway_results::{Sheet, Tables as _, number};
use manyway_scenario::Point;
use manyway_simulate::batch::Control;

use self::report::{Answer, Comparison};
use super::folder::Folder;
use super::level::{self, Report, Request};
use super::{fluid, packet};
use crate::args::{Level, PacketLog};
use crate::exit::{Usage, usage};
use crate::linux::Live;
use crate::scenario::points;

const TABLE: &str = "comparison.csv";

/// What a level does once it is prepared.
type Work = Box<dyn FnOnce(&Control) -> anyhow::Result<Answer> + Send>;

/// A checked request.
pub(super) struct Compare {
    name: String,
    seed: u64,
    repeat: u32,
    points: Vec<Point>,
    levels: Vec<Work>,
}

fn level(request: Request<'_>) -> anyhow::Result<Work> {
    match request.levels[..] {
        [Level::Optimum] => ready::<optimum::Optimum>(request),
        [Level::Fluid] => ready::<fluid::Fluid>(request),
        [Level::Live] => ready::<Live>(request),
        _ => ready::<packet::Packet>(request),
    }
}

/// A level that has checked the request.
fn ready<L: level::Level>(request: Request<'_>) -> anyhow::Result<Work> {
    let level = L::prepare(request)?;
    Ok(Box::new(move |control| {
        let report = match level.run(control, None) {
            Ok(report) => report,
            // It can't carry out any point of this scenario: the others can.
            Err(error) if error.is::<Usage>() => {
                return Ok(Answer::remark(error.to_string()));
            }
            Err(error) => return Err(error),
        };
        match report.unfinished() {
            0 => Ok(Answer {
                columns: report.columns(),
                remarks: report.remarks(),
            }),
            1 => bail!("stopped: one run is missing"),
            missing => bail!("stopped: {missing} runs are missing"),
        }
    }))
}

impl level::Level for Compare {
    type Report = Comparison;

    fn prepare(request: Request<'_>) -> anyhow::Result<Self> {
        let scenario = &request.scenario;
        let points = points(scenario).map_err(|error| usage(error.to_string()))?;
        let mut levels = request.levels.clone();
        levels.sort_unstable();
        levels.dedup();
        let alone = |of| Request {
            levels: vec![of],
            scenario: scenario.clone(),
            log: PacketLog::default(),
            ..request
        };
        let levels = levels.into_iter().map(|of| level(alone(of)));
        Ok(Self {
            name: scenario.name().to_owned(),
            seed: scenario.seed(),
            repeat: scenario.repeat(),
            levels: levels.collect::<anyhow::Result<_>>()?,
            points,
        })
    }

    fn sheets(&self) -> Vec<Sheet> {
        let columns = [
            "point",
            "part",
            "from_s",
            "until_s",
            "group",
            "law",
            "path",
            "level",
            "goodput_bps",
            "ci95_bps",
            "n",
            "difference",
            "difference_ci95",
        ];
        vec![Sheet::new(TABLE, &columns)]
    }

    fn run(self, control: &Control, folder: Option<&mut Folder>) -> anyhow::Result<Comparison> {
        let mut answers = Vec::new();
        for work in self.levels {
            answers.push(work(control)?);
        }
        let comparison =
            Comparison::new((self.name, self.seed, self.repeat), &self.points, &answers);
        if let Some(folder) = folder {
            write(&comparison, folder)?;
        }
        Ok(comparison)
    }
}

impl level::Report for Comparison {
    fn summary(&self) -> String {
        text::summary(self)
    }
}

/// The rows and the plots of `--out`.
fn write(comparison: &Comparison, folder: &mut Folder) -> anyhow::Result<()> {
    for (n, point) in comparison.points.iter().enumerate() {
        for part in &point.parts {
            for row in part.rows() {
                for (level, value) in row.levels {
                    let difference = value.difference;
                    let of = |get: fn(report::Difference) -> Option<f64>| {
                        number(difference.and_then(get).unwrap_or(f64::NAN))
                    };
                    folder.row(
                        TABLE,
                        [
                            (n + 1).to_string(),
                            part.name.clone().unwrap_or_default(),
                            number(part.from_s),
                            number(part.until_s),
                            row.group.to_owned(),
                            row.law.to_owned(),
                            row.path.unwrap_or_default().to_owned(),
                            (*level).to_owned(),
                            number(value.goodput_bps.mean),
                            number(value.goodput_bps.ci95.unwrap_or(f64::NAN)),
                            value.goodput_bps.n.to_string(),
                            of(|difference| Some(difference.relative)),
                            of(|difference| difference.ci95),
                        ],
                    )?;
                }
            }
        }
        let svg = plot::of(comparison, point)?;
        folder.plot("comparison", n, comparison.points.len(), &svg)?;
    }
    Ok(())
}

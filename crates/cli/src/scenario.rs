//! `manyway scenario`, and loading of scenario files with `--set`.

use std::io::Write;
use std::path::Path;

use manyway_scenario::generate::{Shape, Traffic, generate};
use manyway_scenario::{Point, Scenario, ScenarioError};

use crate::args::{Assignments, GenerateArgs, ScenarioArgs, ScenarioCommand, ShapeArgs};
use crate::exit::usage;
use crate::screen::Screen;
use crate::summary::print_pretty;

pub(crate) fn run(screen: &Screen, args: ScenarioArgs) -> anyhow::Result<()> {
    match args.command {
        ScenarioCommand::Schema => print_pretty(&manyway_scenario::schema()),
        ScenarioCommand::Generate(args) => {
            let text = generate(args.shape.into(), &(&args).into());
            let text = text.map_err(|error| usage(error.to_string()))?;
            // A scenario that can't be run is nothing to print.
            let made = Scenario::parse(&text, "the scenario").and_then(|made| points(&made));
            let Err(error) = made else {
                return Ok(std::io::stdout().write_all(text.as_bytes())?);
            };
            // The line is of a text that nobody has.
            let problem = error.problems().first();
            let key = problem.and_then(|problem| problem.key.clone());
            let message = problem.map(|problem| problem.message.clone());
            Err(usage(format!(
                "these arguments make a scenario that can't be run: {}: {}",
                key.unwrap_or_default(),
                message.unwrap_or_default()
            )))
        }
        ScenarioCommand::Check(args) => {
            let mut problems = Vec::new();
            for file in &args.files {
                match check(file, &args.assignments) {
                    Ok(contents) => screen.say(&format!("{}: ok: {contents}", file.display())),
                    Err(error) => problems.push(error.to_string()),
                }
            }
            match problems.is_empty() {
                true => Ok(()),
                false => Err(usage(problems.join("\n"))),
            }
        }
    }
}

impl From<ShapeArgs> for Shape {
    fn from(shape: ShapeArgs) -> Self {
        match shape {
            ShapeArgs::Dumbbell { pairs } => Self::Dumbbell { pairs },
            ShapeArgs::ParkingLot { hops } => Self::ParkingLot { hops },
            ShapeArgs::FatTree { ports, .. } => Self::FatTree { ports },
            ShapeArgs::Waxman {
                nodes, alpha, beta, ..
            } => Self::Waxman { nodes, alpha, beta },
            ShapeArgs::BarabasiAlbert { nodes, links, .. } => Self::BarabasiAlbert { nodes, links },
        }
    }
}

impl From<&GenerateArgs> for Traffic {
    fn from(args: &GenerateArgs) -> Self {
        let choice = args.shape.choice();
        Self {
            law: args.law.clone(),
            rate: args.rate,
            delay: args.delay,
            duration: args.duration,
            subflows: choice.subflows,
            flows: args.shape.flows(),
            seed: choice.seed,
        }
    }
}

/// Loads the file and applies the assignments.
pub(crate) fn load(file: &Path, assignments: &Assignments) -> Result<Scenario, ScenarioError> {
    let mut scenario = Scenario::load(file)?;
    for assignment in &assignments.set {
        scenario.set(assignment)?;
    }
    Ok(scenario)
}

/// The points of the sweep. A file with flows of the kernel's has those of the live level alone.
pub(crate) fn points(scenario: &Scenario) -> Result<Vec<Point>, ScenarioError> {
    let points = scenario.points();
    points.or_else(|error| scenario.live_points().map_err(|_| error))
}

/// Summarises a valid file in a line.
fn check(file: &Path, assignments: &Assignments) -> Result<String, ScenarioError> {
    let scenario = load(file, assignments)?;
    if scenario.is_overlay() {
        let points = scenario.overlay_points()?;
        return Ok(format!(
            "{}, {}, {}, {} × {}",
            count(&points, "relay", |point| point.experiment.relays()),
            count(&points, "source", |point| point.experiment.sources),
            count(&points, "path", |point| point.experiment.paths()),
            several(points.len() as u64, "point"),
            several(scenario.repeat().into(), "repetition"),
        ));
    }
    let points = scenario.packet_points();
    let points = points.or_else(|error| scenario.live_points().map_err(|_| error))?;
    Ok(format!(
        "{}, {}, {}, {} × {}",
        count(&points, "link", |point: &Point| {
            point.experiment.topology.links.len()
        }),
        count(&points, "path", |point| {
            point.experiment.topology.paths.len()
        }),
        count(&points, "flow", |point| point.experiment.count() as usize),
        several(points.len() as u64, "point"),
        several(scenario.repeat().into(), "repetition"),
    ))
}

/// The number of something at the points, a range if the sweep changes it.
fn count<P>(points: &[P], what: &str, of: impl Fn(&P) -> usize) -> String {
    let counts = || points.iter().map(&of);
    let (least, most) = (counts().min().unwrap_or(0), counts().max().unwrap_or(0));
    match least == most {
        true => several(most as u64, what),
        false => format!("{least} to {most} {what}s"),
    }
}

/// `1 link`, `2 links`.
pub(crate) fn several(count: u64, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        n => format!("{n} {what}s"),
    }
}

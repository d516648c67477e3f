//! `manyway run`: reads a scenario, lets a level carry out its points and repetitions, and shows
//! the results on the screen, as JSON and in files.
//!
//! Each level is a module that implements [`Level`](level::Level) and [`Report`](level::Report);
//! [`run`] registers it. Everything else here serves all levels alike and knows none of them:
//! [`level`] has the one way from a level to its output, [`folder`] the files of `--out`, [`plots`]
//! the pictures of what was recorded over time.

mod compare;
mod fluid;
mod folder;
mod level;
mod naming;
mod number;
mod overlay;
mod packet;
mod plots;
mod progress;

use std::path::Path;

use manyway_scenario::{Scenario, ScenarioError};
use manyway_simulate::batch;

use self::level::{Request, carry_out};
use crate::args::{Level, RunArgs};
use crate::exit::usage;
use crate::scenario;
use crate::screen::Screen;
use crate::summary::print_pretty;

pub(crate) async fn run(screen: &Screen, args: RunArgs) -> anyhow::Result<()> {
    let file = match &args.file {
        Some(file) if !args.schema => file,
        _ => return print_pretty(&batch::schema()),
    };
    if args.floors && !args.level.contains(&Level::Fluid) {
        return Err(usage(
            "--floors applies to the fluid level: add --level fluid, or leave --floors out",
        ));
    }
    let scenario = read(file, &args).map_err(|error| usage(error.to_string()))?;
    let overlay = scenario.is_overlay();
    let shown = file.display();
    let request = Request {
        file,
        args: &args,
        scenario,
    };
    match (overlay, &args.level[..]) {
        (true, [Level::Flow | Level::Packet]) => {
            carry_out::<overlay::Overlay>(screen, request).await
        }
        (true, _) => Err(usage(format!(
            "{shown} has an [overlay], which runs with --level flow or --level packet, one at a \
             time"
        ))),
        (false, levels) if levels.contains(&Level::Flow) => Err(usage(format!(
            "{shown} has no [overlay], and --level flow is for overlays: use packet, stack, \
             fluid or optimum"
        ))),
        (false, [Level::Packet | Level::Stack]) => {
            carry_out::<packet::Packet>(screen, request).await
        }
        (false, [Level::Fluid]) => carry_out::<fluid::Fluid>(screen, request).await,
        (false, _) => carry_out::<compare::SideBySide>(screen, request).await,
    }
}

/// The file with all assignments made to it.
fn read(file: &Path, args: &RunArgs) -> Result<Scenario, ScenarioError> {
    let mut scenario = scenario::load(file, &args.assignments)?;
    if let Some(seed) = args.seed {
        scenario.set(&format!("seed={seed}"))?;
    }
    if let Some(repeat) = args.repeat {
        scenario.set(&format!("repeat={repeat}"))?;
    }
    Ok(scenario)
}

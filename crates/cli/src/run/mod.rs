//! `manyway run` and `manyway compare`: read a scenario, let a level carry out its points and
//! repetitions, or several, and show the results on the screen, as JSON and in files.
//!
//! Each level is a module that implements [`Level`](level::Level) and [`Report`](level::Report);
//! [`run`] registers it. Everything else here serves all levels alike and knows none of them:
//! [`level`] has the one way from a level to its output, [`folder`] the files of `--out`, [`plots`]
//! the pictures of what was recorded over time.

mod compare;
mod fluid;
pub(crate) mod folder;
pub(crate) mod goodput;
pub(crate) mod level;
mod naming;
mod number;
mod overlay;
pub(crate) mod packet;
mod plots;
mod progress;
mod shards;
mod stored;

use std::path::Path;

use manyway_scenario::{Scenario, ScenarioError};
use manyway_simulate::batch::{self, Shard};

use self::level::{Request, carry_on, carry_out};
use crate::args::{CompareArgs, ExperimentArgs, Level, MergeArgs, PacketLog, RunArgs};
use crate::exit::usage;
use crate::linux;
use crate::scenario;
use crate::screen::Screen;
use crate::summary::print_pretty;

pub(crate) use self::shards::parse as parse_shard;

pub(crate) async fn run(screen: &Screen, args: RunArgs) -> anyhow::Result<()> {
    let file = match &args.file {
        Some(file) if !args.schema => file,
        _ => return print_pretty(&batch::schema()),
    };
    let request = Request {
        keep_series: args.keep_series,
        shard: args.shard.unwrap_or_default(),
        log: args.log.clone(),
        ..request(file, &args.experiment, vec![args.level])?
    };
    let packets = matches!(args.level, Level::Packet | Level::Stack);
    if !args.log.packets.is_empty() && (!packets || request.scenario.is_overlay()) {
        return Err(usage(
            "--packets is for the packet and the stack level of scenarios with [links]: use it \
             there, or leave it out",
        ));
    }
    if args.shard.is_some() && !request.scenario.is_overlay() {
        return carry_out::<shards::ShardOf>(screen, request).await;
    }
    let shown = file.display();
    match (request.scenario.is_overlay(), args.level) {
        (true, _) if args.shard.is_some() => Err(usage(format!(
            "{shown} has an [overlay], which runs in one piece: leave --shard out"
        ))),
        (true, Level::Flow | Level::Packet) => carry_out::<overlay::Overlay>(screen, request).await,
        (true, _) => Err(usage(format!(
            "{shown} has an [overlay], which runs with --level flow or --level packet, one at a \
             time"
        ))),
        (false, Level::Flow) => Err(usage(format!(
            "{shown} has no [overlay], and --level flow is for overlays: use packet, stack or fluid"
        ))),
        (false, Level::Live) => linux::isolated::<linux::Live>(screen, request).await,
        (false, Level::Fluid) => carry_out::<fluid::Fluid>(screen, request).await,
        (false, _) => carry_out::<packet::Packet>(screen, request).await,
    }
}

/// The shards of a scenario's runs, put together.
pub(crate) async fn merge(screen: &Screen, args: MergeArgs) -> anyhow::Result<()> {
    let merge = shards::Merge::open(args)?;
    let (file, args) = (merge.file().to_owned(), merge.args());
    let request = Request {
        keep_series: merge.keeps_series(),
        ..request(&file, &args, vec![merge.level()])?
    };
    let packet = packet::Packet::of(&request)?;
    merge.check(&request.scenario, packet.points())?;
    carry_on(screen, &args, packet.stored(merge.into_stored())).await
}

pub(crate) async fn compare(screen: &Screen, args: CompareArgs) -> anyhow::Result<()> {
    let request = request(&args.file, &args.experiment, args.levels)?;
    if request.scenario.is_overlay() {
        return Err(usage(format!(
            "{} has an [overlay], whose levels have no groups of flows to compare: use `manyway \
             run` with --level flow, then with --level packet",
            args.file.display()
        )));
    }
    match request.levels.contains(&Level::Live) {
        false => carry_out::<compare::Compare>(screen, request).await,
        true => linux::isolated::<compare::Compare>(screen, request).await,
    }
}

/// The file with all assignments made to it.
fn request<'a>(
    file: &'a Path,
    args: &'a ExperimentArgs,
    levels: Vec<Level>,
) -> anyhow::Result<Request<'a>> {
    if args.floors && !levels.contains(&Level::Fluid) {
        return Err(usage(
            "--floors applies to the fluid level: add that level, or leave --floors out",
        ));
    }
    let scenario = read(file, args).map_err(|error| usage(error.to_string()))?;
    Ok(Request {
        file,
        args,
        levels,
        keep_series: false,
        shard: Shard::default(),
        log: PacketLog::default(),
        scenario,
    })
}

fn read(file: &Path, args: &ExperimentArgs) -> Result<Scenario, ScenarioError> {
    let mut scenario = scenario::load(file, &args.assignments)?;
    if let Some(seed) = args.seed {
        scenario.set(&format!("seed={seed}"))?;
    }
    if let Some(repeat) = args.repeat {
        scenario.set(&format!("repeat={repeat}"))?;
    }
    Ok(scenario)
}

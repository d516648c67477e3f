//! `manyway paths`: a dry run.

mod report;

use std::time::Duration;

use manyway::control::bottleneck::BottleneckConfig;
use manyway::{Carriers, Connection, Endpoint, PathState, RelayState};
use manyway_units::format_duration;
use tokio::time::{Instant, sleep};

use crate::args::PathsArgs;
use crate::exit::{Interrupted, Stop, usage};
use crate::relays::RelaySources;
use crate::screen::Screen;
use crate::{options, ticket};
use report::{Ended, Report};

/// Shorter or longer makes no sense, and paths that are filled for long are in others' way.
const TIMES: std::ops::RangeInclusive<Duration> = Duration::from_secs(2)..=Duration::from_secs(120);
/// Paths get this long to come up, which those through relays do one after the other.
const SETTLING: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(50);
/// The first part of the time is for slow starts and isn't counted.
const WARMING: f64 = 0.2;
/// Intervals that delays are averaged over, in what is left.
const INTERVALS: u32 = 40;
/// CLOSE's code for "all is well", as after a transfer.
const DONE: u64 = 0x100;

pub(crate) async fn run(screen: &Screen, mut args: PathsArgs) -> anyhow::Result<()> {
    let ticket = ticket::read(&args.to)?;
    // What TCP paths lose and how long they queue only the kernel sees.
    if args.network.carrier == Carriers::Tcp {
        return Err(usage(
            "paths are measured over UDP: leave --carrier tcp out",
        ));
    }
    args.network.carrier = Carriers::Udp;
    if !TIMES.contains(&args.time) {
        return Err(usage(format!(
            "--time {} is out of range: choose {} to {}",
            format_duration(args.time),
            format_duration(*TIMES.start()),
            format_duration(*TIMES.end()),
        )));
    }
    let mut relays = RelaySources::open(screen, &args.relays, Carriers::Udp, None).await?;
    relays.check_access()?;
    let stop = Stop::listen(false);
    let counted = args.time.mul_f64(1.0 - WARMING);
    let watch = BottleneckConfig {
        interval: counted / INTERVALS,
        ..BottleneckConfig::default()
    };
    let endpoint = options::bind_monitoring(&args.network, watch).await?;
    let result = measure(screen, &stop, &endpoint, &mut relays, &args, &ticket).await;
    endpoint.close().await;
    result?.show(screen, args.network.json)
}

async fn measure(
    screen: &Screen,
    stop: &Stop,
    endpoint: &Endpoint,
    relays: &mut RelaySources,
    args: &PathsArgs,
    ticket: &manyway::Ticket,
) -> anyhow::Result<Report> {
    let (connection, _tasks) = relays.dial(endpoint, ticket, stop).await?;
    let report = tokio::select! {
        report = survey(screen, &connection, args) => report,
        () = stop.requested() => Err(Interrupted.into()),
    };
    connection.close(DONE, "");
    report
}

async fn survey(
    screen: &Screen,
    connection: &Connection,
    args: &PathsArgs,
) -> anyhow::Result<Report> {
    settle(connection).await;
    screen.say(&format!(
        "Measuring for {}, at most {}",
        format_duration(args.time),
        args.size
    ));
    connection.fill(args.size.bytes());
    fill(connection, args.time.mul_f64(WARMING)).await?;
    // What has been seen so far is forgotten, what is left to be sent goes on.
    connection.fill(connection.unsent_filler());
    let ended = fill(connection, args.time.mul_f64(1.0 - WARMING)).await?;
    let (paths, stats) = (connection.survey(), connection.stats());
    let sent = args.size.bytes() - connection.unsent_filler();
    connection.fill(0);
    Ok(Report::new(&paths, &stats.relays, sent, ended))
}

/// Waits until every path and relay has come as far as it will.
async fn settle(connection: &Connection) {
    let since = Instant::now();
    while since.elapsed() < SETTLING {
        sleep(LOOK).await;
        let stats = connection.stats();
        let waits = |state: RelayState| state != RelayState::InUse;
        let relays = stats
            .relays
            .iter()
            .any(|r| waits(r.state) && r.refused.is_none());
        let paths = stats.paths.iter().any(|p| p.state == PathState::Validating);
        if !relays && !paths && since.elapsed() > 4 * LOOK {
            return;
        }
    }
}

/// Lets the paths be filled for so long, or until everything is out.
async fn fill(connection: &Connection, time: Duration) -> anyhow::Result<Ended> {
    let until = Instant::now() + time;
    while Instant::now() < until {
        if let Some(reason) = connection.close_reason() {
            anyhow::bail!("the connection ended while it was measured: {reason}");
        }
        if connection.unsent_filler() == 0 {
            return Ok(Ended::Size);
        }
        sleep(LOOK.min(until - Instant::now())).await;
    }
    Ok(Ended::Time)
}

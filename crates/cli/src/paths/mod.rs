//! `manyway paths`: fills all paths for some seconds and reports what each carries.
//!
//! It sends padding only, and leaves the receiver waiting for its sender.

mod report;

use std::time::Duration;

use manyway::control::bottleneck::BottleneckConfig;
use manyway::{Carriers, Connection, Endpoint, PathState, RelayState};
use manyway_units::format_duration;
use tokio::time::{Instant, sleep};

use crate::args::PathsArgs;
use crate::close::DONE;
use crate::exit::{Interrupted, Stop, usage};
use crate::relays::RelaySources;
use crate::screen::Screen;
use crate::{options, ticket};
use report::{Ended, Report};

/// Shorter is imprecise, and filling paths for longer disturbs others.
const TIMES: std::ops::RangeInclusive<Duration> = Duration::from_secs(2)..=Duration::from_secs(120);
/// Most time for paths to come up; paths through relays come up one after the other.
const SETTLING: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(50);
/// The share of the time for slow start, which doesn't count.
const WARM_UP: f64 = 0.2;
/// Number of intervals over which delays are averaged in the remaining time.
const INTERVALS: u32 = 40;

pub(crate) async fn run(screen: &Screen, mut args: PathsArgs) -> anyhow::Result<()> {
    let invitation = ticket::read(&args.to)?;
    // Over TCP, only the kernel sees losses and queueing delay.
    if args.network.carrier == Carriers::Tcp {
        return Err(usage(
            "manyway measures paths over UDP: leave `--carrier tcp` out",
        ));
    }
    args.network.carrier = Carriers::Udp;
    if !TIMES.contains(&args.time) {
        return Err(usage(format!(
            "`--time {}` is out of range: choose {} to {}",
            format_duration(args.time),
            format_duration(*TIMES.start()),
            format_duration(*TIMES.end()),
        )));
    }
    let mut relays = RelaySources::read(screen, &args.relays, Carriers::Udp, None)?;
    relays.check_access()?;
    let stop = Stop::listen(false);
    let counted = args.time.mul_f64(1.0 - WARM_UP);
    let watch = BottleneckConfig {
        interval: counted / INTERVALS,
        ..BottleneckConfig::default()
    };
    let endpoint = options::bind_monitoring(&args.network, watch).await?;
    let ticket = relays.accept(invitation, &stop).await?;
    let result = measure(screen, &stop, &endpoint, &mut relays, &args, &ticket).await;
    endpoint.close().await;
    result?.show(screen, args.json)
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
        "Measuring for {}, with at most {}",
        format_duration(args.time),
        args.size
    ));
    connection.fill(args.size.bytes());
    fill(connection, args.time.mul_f64(WARM_UP)).await?;
    // Restart the statistics; the remaining data goes on.
    connection.fill(connection.unsent_filler());
    let ended = fill(connection, args.time.mul_f64(1.0 - WARM_UP)).await?;
    let (paths, stats) = (connection.survey(), connection.stats());
    let sent = args.size.bytes() - connection.unsent_filler();
    connection.fill(0);
    Ok(Report::new(&paths, &stats.relays, sent, ended))
}

/// Waits until every path and relay is up or has failed.
pub(crate) async fn settle(connection: &Connection) {
    let since = Instant::now();
    while since.elapsed() < SETTLING {
        sleep(POLL).await;
        let stats = connection.stats();
        let waits = |state: RelayState| state != RelayState::InUse;
        let relays = stats
            .relays
            .iter()
            .any(|r| waits(r.state) && r.refused.is_none());
        let paths = stats.paths.iter().any(|p| p.state == PathState::Validating);
        if !relays && !paths && since.elapsed() > 4 * POLL {
            return;
        }
    }
}

/// Fills the paths for this time, or until everything is sent.
async fn fill(connection: &Connection, time: Duration) -> anyhow::Result<Ended> {
    let until = Instant::now() + time;
    while Instant::now() < until {
        if let Some(reason) = connection.close_reason() {
            anyhow::bail!("the connection ended during the measurement: {reason}");
        }
        if connection.unsent_filler() == 0 {
            return Ok(Ended::Size);
        }
        sleep(POLL.min(until - Instant::now())).await;
    }
    Ok(Ended::Time)
}

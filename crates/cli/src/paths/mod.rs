//! `manyway paths`: fills all paths for some seconds and reports what each carries.
//!
//! Interfaces that seem to share a bottleneck are measured alone, too: what one gets without the
//! other shows whether they do. It sends padding only, and leaves the receiver waiting for its
//! sender.

mod report;

use std::collections::BTreeMap;
use std::time::Duration;

use manyway::control::bottleneck::BottleneckConfig;
use manyway::{Carriers, Connection, Endpoint, PathState, RelayState, Ticket};
use manyway_units::{ByteSize, format_duration};
use tokio::time::{Instant, sleep};

use crate::args::{NetworkArgs, PathsArgs};
use crate::close::DONE;
use crate::exit::{Interrupted, Stop, usage};
use crate::relays::RelaySources;
use crate::screen::Screen;
use crate::ticket::Invitation;
use crate::{options, ticket};
use report::{Ended, Report};

/// Shorter is imprecise, and filling paths for longer disturbs others.
const TIMES: std::ops::RangeInclusive<Duration> = Duration::from_secs(2)..=Duration::from_secs(120);
/// Most time for paths to come up; paths through relays come up one after the other.
const SETTLING: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(50);
/// So often manyway looks whether everything is sent: a fast path needs few milliseconds.
const FILLING: Duration = Duration::from_millis(5);
/// The share of the time, and at most of the data, for slow start, which doesn't count.
const WARM_UP: f64 = 0.2;
/// The share of the time for which an interface is measured alone.
const ALONE: f64 = 0.4;
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
    if args.size.bytes() == 0 {
        return Err(usage(format!(
            "`--size {}` leaves nothing to measure with: choose the most data to send, such as \
             500MB",
            args.size
        )));
    }
    let relays = RelaySources::read(screen, &args.relays, Carriers::Udp, None)?;
    relays.check_access()?;
    let stop = Stop::listen(false);
    let mut measuring = Measuring {
        screen,
        stop,
        relays,
        network: args.network,
    };
    let report = measuring.run(invitation, args.time, args.size).await?;
    report.show(screen, args.json)
}

/// What all measurements of a command have in common.
struct Measuring<'a> {
    screen: &'a Screen,
    stop: Stop,
    relays: RelaySources,
    network: NetworkArgs,
}

impl Measuring<'_> {
    /// All paths together, and then each interface alone that seems to share a bottleneck with
    /// another one.
    async fn run(
        &mut self,
        invitation: Invitation,
        time: Duration,
        size: ByteSize,
    ) -> anyhow::Result<Report> {
        let network = self.network.clone();
        let endpoint = bind(&network, time).await?;
        let measured = async {
            let ticket = self.relays.accept(invitation, &self.stop).await?;
            let shown = format_duration(time);
            let screen = self.screen;
            screen.say(&format!("Measuring for {shown}, with at most {size}"));
            let report = self.over(&endpoint, &ticket, time, size).await?;
            Ok((report, ticket))
        };
        let measured: anyhow::Result<_> = measured.await;
        endpoint.close().await;
        let (mut report, ticket) = measured?;
        if report.ended == Ended::Size && report.gain.is_none() {
            return Err(usage(format!(
                "`--size {size}` was used up before anything arrived: choose a larger one"
            )));
        }
        let time = time.mul_f64(ALONE).max(*TIMES.start());
        let mut left = size.bytes().saturating_sub(report.bytes);
        let mut alone = BTreeMap::new();
        for name in report.alike() {
            self.screen.say(&format!(
                "Measuring {name} alone for {}: it may share its bottleneck with another interface",
                format_duration(time)
            ));
            let network = NetworkArgs {
                interfaces: vec![name.parse()?],
                port: 0,
                ..network.clone()
            };
            let endpoint = bind(&network, time).await?;
            let measured = self.over(&endpoint, &ticket, time, ByteSize::new(left));
            let measured = measured.await;
            endpoint.close().await;
            let measured = measured?;
            left = left.saturating_sub(measured.bytes);
            // What `--size` cut off says nothing.
            if measured.ended == Ended::Size {
                return Ok(report);
            }
            alone.insert(name, measured.all_bps);
        }
        report.take_alone(&alone);
        Ok(report)
    }

    /// What the endpoint's paths carry together.
    async fn over(
        &mut self,
        endpoint: &Endpoint,
        ticket: &Ticket,
        time: Duration,
        size: ByteSize,
    ) -> anyhow::Result<Report> {
        let (connection, _tasks) = self.relays.dial(endpoint, ticket, &self.stop).await?;
        let report = tokio::select! {
            report = survey(&connection, time, size) => report,
            () = self.stop.requested() => Err(Interrupted.into()),
        };
        connection.close(DONE, "");
        report
    }
}

async fn bind(network: &NetworkArgs, time: Duration) -> anyhow::Result<Endpoint> {
    let counted = time.mul_f64(1.0 - WARM_UP);
    let watch = BottleneckConfig {
        interval: counted / INTERVALS,
        ..BottleneckConfig::default()
    };
    options::bind_monitoring(network, watch).await
}

async fn survey(connection: &Connection, time: Duration, size: ByteSize) -> anyhow::Result<Report> {
    settle(connection).await;
    // A fast path would use all of the size before the statistics begin.
    let warm_up = (size.bytes() as f64 * WARM_UP) as u64;
    connection.fill(warm_up);
    fill(connection, time.mul_f64(WARM_UP)).await?;
    // Restart the statistics; the remaining data goes on.
    connection.fill(size.bytes() - warm_up + connection.unsent_filler());
    let ended = fill(connection, time.mul_f64(1.0 - WARM_UP)).await?;
    let (paths, stats) = (connection.survey(), connection.stats());
    let sent = size.bytes() - connection.unsent_filler();
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
        sleep(FILLING.min(until - Instant::now())).await;
    }
    Ok(Ended::Time)
}

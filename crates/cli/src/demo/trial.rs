//! One transfer between two endpoints of this process, through emulated links.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use manyway::files::{self, Progress, ReceiveOptions, Sources};
use manyway::{
    Config, Connection, ConnectionStats, Endpoint, EndpointOptions, PathSelector, PathStats,
    RelayAccess, Ticket,
};
use tokio::task::JoinHandle;

use super::files::hash_of;
use crate::live::Live;
use crate::meter::Direction;
use crate::screen::Screen;

const SAMPLE: Duration = Duration::from_millis(250);

/// A way from the sender to the receiver: where the sender's datagrams enter it, and what people
/// call it.
#[derive(Debug, Clone)]
pub(super) struct Way {
    pub(super) near: SocketAddr,
    pub(super) name: String,
}

/// What is tried.
#[derive(Debug)]
pub(super) struct Setting<'a> {
    pub(super) screen: &'a Screen,
    /// The sender's; the receiver has its endpoint already.
    pub(super) config: Config,
    /// Names the near ends of direct ways.
    pub(super) ticket: Ticket,
    pub(super) relays: &'a [RelayAccess],
    pub(super) ways: Vec<Way>,
    pub(super) source: &'a Path,
    /// A directory of its own.
    pub(super) target: &'a Path,
}

/// What came of it.
#[derive(Debug, Clone)]
pub(super) struct Trial {
    pub(super) took: Duration,
    /// Of the received file as it lies on the disk.
    pub(super) digest: blake3::Hash,
    /// The final statistics of the last path over each way, where there was one.
    pub(super) paths: Vec<Option<PathStats>>,
    /// Since the start: what was sent over each way.
    pub(super) samples: Vec<Sample>,
}

/// Counters at one moment, of all paths that each way has had.
#[derive(Debug, Clone)]
pub(super) struct Sample {
    pub(super) at: Duration,
    /// UDP payload sent.
    pub(super) bytes: Vec<u64>,
    /// Window cuts after losses.
    pub(super) loss_events: Vec<u64>,
}

impl Trial {
    /// Sends the file to `receiver`, and shows how.
    pub(super) async fn run(setting: &Setting<'_>, receiver: Endpoint) -> anyhow::Result<Self> {
        tokio::fs::create_dir_all(setting.target).await?;
        let far = tokio::spawn(receive(receiver, setting.target.to_owned()));
        let sender = endpoint(setting.config.clone()).await?;
        let connection = sender
            .connect_through(&setting.ticket, setting.relays)
            .await?;
        let sent = send(setting, &connection).await;
        let stats = connection.stats();
        let (took, samples) = finish(sent, far).await?;
        sender.close().await;
        let name = setting.source.file_name().context("the file has no name")?;
        let copy = setting.target.join(name);
        let last = |way: &Way| paths_over(&stats, way).last().cloned();
        Ok(Self {
            took,
            digest: tokio::task::spawn_blocking(move || hash_of(&copy)).await??,
            paths: setting.ways.iter().map(last).collect(),
            samples,
        })
    }
}

/// An endpoint with a single loopback socket.
pub(super) async fn endpoint(config: Config) -> anyhow::Result<Endpoint> {
    let options = EndpointOptions {
        config,
        paths: vec![PathSelector::Address(Ipv4Addr::LOCALHOST.into())],
        ..EndpointOptions::default()
    };
    Ok(Endpoint::bind(options).await?)
}

async fn receive(endpoint: Endpoint, dir: std::path::PathBuf) -> anyhow::Result<()> {
    let connection = endpoint
        .accept()
        .await
        .context("the receiver's socket is gone")?;
    let (send, receive) = connection.accept_bi().await?;
    files::receive(
        (receive, send),
        dir,
        ReceiveOptions::default(),
        Progress::new(),
    )
    .await?;
    connection.close(0x100, "");
    endpoint.close().await;
    Ok(())
}

/// Sends the file while it shows the live view and takes the samples.
async fn send(
    setting: &Setting<'_>,
    connection: &Connection,
) -> anyhow::Result<(Duration, Vec<Sample>)> {
    let sources = Sources::new([setting.source])?;
    let (send, receive) = connection.open_bi().await?;
    let progress = Progress::new();
    let ways = &setting.ways;
    let labels = ways
        .iter()
        .map(|way| (way.near, way.name.clone()))
        .collect();
    let live = Live::new(
        setting.screen,
        Direction::Sending,
        progress.clone(),
        connection.clone(),
    )
    .labelled(labels);
    let started = Instant::now();
    let mut samples = vec![sample(started, connection, ways)];
    let sampling = async {
        let mut ticks = tokio::time::interval(SAMPLE);
        loop {
            ticks.tick().await;
            samples.push(sample(started, connection, ways));
        }
    };
    tokio::select! {
        sent = files::send((receive, send), sources, progress) => { sent?; }
        never = live.run() => match never {},
        () = sampling => {}
    }
    let took = started.elapsed();
    samples.push(sample(started, connection, ways));
    Ok((took, samples))
}

fn sample(started: Instant, connection: &Connection, ways: &[Way]) -> Sample {
    let stats = connection.stats();
    let sum = |count: fn(&PathStats) -> u64| {
        let over = |way| paths_over(&stats, way).map(count).sum();
        ways.iter().map(over).collect()
    };
    Sample {
        at: started.elapsed(),
        bytes: sum(|path| path.bytes_sent),
        loss_events: sum(|path| path.loss_events),
    }
}

/// All paths over a way, the latest last.
fn paths_over<'a>(
    stats: &'a ConnectionStats,
    way: &Way,
) -> impl DoubleEndedIterator<Item = &'a PathStats> {
    let near = way.near;
    stats.paths.iter().filter(move |path| path.remote == near)
}

/// Both sides' results; the receiver's error explains the sender's.
async fn finish<T>(
    sent: anyhow::Result<T>,
    far: JoinHandle<anyhow::Result<()>>,
) -> anyhow::Result<T> {
    match sent {
        Ok(done) => {
            far.await?.context("the receiver failed")?;
            Ok(done)
        }
        Err(error) => {
            far.abort();
            Err(error)
        }
    }
}

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

/// A route from the sender to the receiver: where the sender's datagrams enter it, and its name.
#[derive(Debug, Clone)]
pub(super) struct Route {
    pub(super) near: SocketAddr,
    pub(super) name: String,
}

/// The setup of a trial.
#[derive(Debug)]
pub(super) struct TrialConfig<'a> {
    pub(super) screen: &'a Screen,
    /// The sender's; the receiver has its endpoint already.
    pub(super) session: Config,
    /// Names the near ends of direct routes.
    pub(super) ticket: Ticket,
    pub(super) relays: &'a [RelayAccess],
    pub(super) routes: Vec<Route>,
    pub(super) source: &'a Path,
    /// An empty directory.
    pub(super) target: &'a Path,
}

/// The result of a trial.
#[derive(Debug, Clone)]
pub(super) struct Trial {
    pub(super) took: Duration,
    /// Of the received file on disk.
    pub(super) digest: blake3::Hash,
    /// The final statistics of the last path over each route, if there was one.
    pub(super) paths: Vec<Option<PathStats>>,
    /// Counters from start to end.
    pub(super) samples: Vec<Sample>,
}

/// Counters at one moment, summed over all paths of each route so far.
#[derive(Debug, Clone)]
pub(super) struct Sample {
    pub(super) at: Duration,
    /// UDP payload sent.
    pub(super) bytes: Vec<u64>,
    /// Window reductions after losses.
    pub(super) loss_events: Vec<u64>,
}

impl Trial {
    /// Sends the file to `receiver` and shows the live view.
    pub(super) async fn run(config: &TrialConfig<'_>, receiver: Endpoint) -> anyhow::Result<Self> {
        tokio::fs::create_dir_all(config.target).await?;
        let far = tokio::spawn(receive(receiver, config.target.to_owned()));
        let sender = endpoint(config.session.clone()).await?;
        let connection = sender
            .connect_through(&config.ticket, config.relays)
            .await?;
        let sent = send(config, &connection).await;
        let stats = connection.stats();
        let (took, samples) = finish(sent, far).await?;
        sender.close().await;
        let name = config.source.file_name().context("the file has no name")?;
        let copy = config.target.join(name);
        let last = |route: &Route| paths_over(&stats, route).last().cloned();
        Ok(Self {
            took,
            digest: tokio::task::spawn_blocking(move || hash_of(&copy)).await??,
            paths: config.routes.iter().map(last).collect(),
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

/// Sends the file, shows the live view and takes samples.
async fn send(
    config: &TrialConfig<'_>,
    connection: &Connection,
) -> anyhow::Result<(Duration, Vec<Sample>)> {
    let sources = Sources::new([config.source])?;
    let (send, receive) = connection.open_bi().await?;
    let progress = Progress::new();
    let routes = &config.routes;
    let labels = routes
        .iter()
        .map(|route| (route.near, route.name.clone()))
        .collect();
    let live = Live::new(
        config.screen,
        Direction::Sending,
        progress.clone(),
        connection.clone(),
    )
    .labelled(labels);
    let started = Instant::now();
    let mut samples = vec![sample(started, connection, routes)];
    let sampling = async {
        let mut ticks = tokio::time::interval(SAMPLE);
        loop {
            ticks.tick().await;
            samples.push(sample(started, connection, routes));
        }
    };
    tokio::select! {
        sent = files::send((receive, send), sources, progress) => { sent?; }
        never = live.run() => match never {},
        () = sampling => {}
    }
    let took = started.elapsed();
    samples.push(sample(started, connection, routes));
    Ok((took, samples))
}

fn sample(started: Instant, connection: &Connection, routes: &[Route]) -> Sample {
    let stats = connection.stats();
    let sum = |count: fn(&PathStats) -> u64| {
        let over = |route| paths_over(&stats, route).map(count).sum();
        routes.iter().map(over).collect()
    };
    Sample {
        at: started.elapsed(),
        bytes: sum(|path| path.bytes_sent),
        loss_events: sum(|path| path.loss_events),
    }
}

/// All paths over a route, the latest last.
fn paths_over<'a>(
    stats: &'a ConnectionStats,
    route: &Route,
) -> impl DoubleEndedIterator<Item = &'a PathStats> {
    let near = route.near;
    stats.paths.iter().filter(move |path| path.remote == near)
}

/// Combines both sides' results. After an error of the sender, the receiver's doesn't count.
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

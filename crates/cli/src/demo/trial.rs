//! One transfer between two endpoints of this process, through emulated links.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use manyway::files::{self, Progress, ReceiveOptions, Sources};
use manyway::{Config, Connection, ConnectionStats, Endpoint, EndpointOptions, PathSelector};
use manyway_network::udp::{UdpLink, UdpLinkConfig};
use tokio::task::JoinHandle;

use super::hash_of;
use super::link::LinkSpec;
use crate::live::Live;
use crate::meter::Direction;
use crate::screen::Screen;

const SAMPLE: Duration = Duration::from_millis(250);

/// What is tried.
#[derive(Debug)]
pub(super) struct Setting<'a> {
    pub(super) screen: &'a Screen,
    pub(super) links: &'a [LinkSpec],
    pub(super) cc: &'a str,
    pub(super) source: &'a Path,
    /// A directory of its own.
    pub(super) target: &'a Path,
}

/// What came of it.
#[derive(Debug, Clone)]
pub(super) struct Trial {
    pub(super) links: Vec<LinkSpec>,
    pub(super) took: Duration,
    /// Of the received file as it lies on the disk.
    pub(super) digest: blake3::Hash,
    /// The final statistics of the path over each link, where there was one.
    pub(super) paths: Vec<Option<manyway::PathStats>>,
    /// Since the start: bytes sent over each link.
    pub(super) samples: Vec<Sample>,
}

/// Counters at one moment.
#[derive(Debug, Clone)]
pub(super) struct Sample {
    pub(super) at: Duration,
    /// UDP payload sent over each link.
    pub(super) bytes: Vec<u64>,
}

impl Trial {
    pub(super) async fn run(setting: &Setting<'_>) -> anyhow::Result<Self> {
        tokio::fs::create_dir_all(setting.target).await?;
        let receiver = endpoint(setting.cc).await?;
        let mut ticket = receiver.listen()?;
        let target = *ticket
            .addresses
            .first()
            .context("the receiver has no address")?;
        let links = start_links(setting.links, target)?;
        // The sender knows the links' near ends only, so it has one path through each.
        ticket.addresses = links.iter().map(UdpLink::local_addr).collect();
        let far = tokio::spawn(receive(receiver, setting.target.to_owned()));

        let sender = endpoint(setting.cc).await?;
        let connection = sender.connect(&ticket).await?;
        let sent = send(setting, &connection, &ticket.addresses).await;
        let stats = connection.stats();
        let (took, samples) = finish(sent, far).await?;
        sender.close().await;
        let name = setting.source.file_name().context("the file has no name")?;
        let copy = setting.target.join(name);
        Ok(Self {
            links: setting.links.to_vec(),
            took,
            digest: tokio::task::spawn_blocking(move || hash_of(&copy)).await??,
            paths: ticket
                .addresses
                .iter()
                .map(|near| path_over(&stats, *near).cloned())
                .collect(),
            samples,
        })
    }
}

/// An endpoint with a single loopback socket.
async fn endpoint(cc: &str) -> anyhow::Result<Endpoint> {
    let options = EndpointOptions {
        config: Config {
            cc: cc.to_owned(),
            ..Config::default()
        },
        paths: vec![PathSelector::Address(Ipv4Addr::LOCALHOST.into())],
        ..EndpointOptions::default()
    };
    Ok(Endpoint::bind(options).await?)
}

fn start_links(links: &[LinkSpec], target: SocketAddr) -> anyhow::Result<Vec<UdpLink>> {
    let start = |link: &LinkSpec| {
        UdpLink::start(UdpLinkConfig {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            target,
            forward: link.config(),
            reverse: link.config(),
            header_bytes: UdpLinkConfig::HEADER_BYTES,
        })
        .with_context(|| format!("can't start the link {link}"))
    };
    links.iter().map(start).collect()
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
    links: &[SocketAddr],
) -> anyhow::Result<(Duration, Vec<Sample>)> {
    let sources = Sources::new([setting.source])?;
    let (send, receive) = connection.open_bi().await?;
    let progress = Progress::new();
    let labels = links
        .iter()
        .copied()
        .zip(setting.links.iter().map(LinkSpec::to_string))
        .collect();
    let live = Live::new(
        setting.screen,
        Direction::Sending,
        progress.clone(),
        connection.clone(),
    )
    .labelled(labels);
    let started = Instant::now();
    let mut samples = vec![sample(started, connection, links)];
    let sampling = async {
        let mut ticks = tokio::time::interval(SAMPLE);
        loop {
            ticks.tick().await;
            samples.push(sample(started, connection, links));
        }
    };
    tokio::select! {
        sent = files::send((receive, send), sources, progress) => { sent?; }
        never = live.run() => match never {},
        () = sampling => {}
    }
    let took = started.elapsed();
    samples.push(sample(started, connection, links));
    Ok((took, samples))
}

fn sample(started: Instant, connection: &Connection, links: &[SocketAddr]) -> Sample {
    let stats = connection.stats();
    let bytes = |near: &SocketAddr| path_over(&stats, *near).map_or(0, |path| path.bytes_sent);
    Sample {
        at: started.elapsed(),
        bytes: links.iter().map(bytes).collect(),
    }
}

/// The latest path through the link with this near end.
fn path_over(stats: &ConnectionStats, near: SocketAddr) -> Option<&manyway::PathStats> {
    stats.paths.iter().rev().find(|path| path.remote == near)
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

//! What the integration tests share: two sessions, their paths, and what must hold whatever the
//! network does.

use std::time::Duration;

use manyway_network::{Limit, LinkConfig, Queue};
use manyway_session::{CloseReason, Config, ConnectionStats, Event, PathEvent};
use manyway_simulate::stack::{
    PairPath, PairSpec, SessionHost, SessionPair, Source, TrafficConfig,
};
use manyway_simulate::{HostId, Impairments, LinkId, World};
use manyway_units::{Rate, Time};

pub(crate) const MS: Duration = Duration::from_millis(1);

/// A link with DropTail of one bandwidth-delay product, however short; at least two packets.
pub(crate) fn mbps(mbps: f64, one_way_ms: u64) -> LinkConfig {
    let (rate, delay) = (Rate::from_mbps(mbps), MS * one_way_ms as u32);
    let product = rate.times_delay(2 * delay).bytes();
    LinkConfig {
        queue: Queue::DropTail(Limit::Bytes(product.max(3000))),
        ..LinkConfig::new(rate, delay)
    }
}

#[derive(Clone)]
pub(crate) struct Setup {
    seed: u64,
    config: Config,
    paths: Vec<(LinkConfig, LinkConfig, Impairments)>,
    jitter: Duration,
    interface: Option<u32>,
    mtu: Option<u32>,
    upload: Vec<u64>,
    download: Vec<u64>,
    server_sockets: bool,
}

impl Setup {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            seed,
            config: Config::default(),
            paths: vec![],
            jitter: Duration::ZERO,
            interface: None,
            mtu: None,
            upload: vec![],
            download: vec![],
            server_sockets: false,
        }
    }

    pub(crate) fn config(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(&mut self.config);
        self
    }

    /// A path with the same link in both directions.
    pub(crate) fn path(self, link: LinkConfig) -> Self {
        self.impaired(link, Impairments::default())
    }

    pub(crate) fn impaired(mut self, link: LinkConfig, impairments: Impairments) -> Self {
        self.paths.push((link.clone(), link, impairments));
        self
    }

    /// Up to so much jitter at both senders of each path.
    pub(crate) fn jitter(mut self, most: Duration) -> Self {
        self.jitter = most;
        self
    }

    /// The client sends so many bytes on a stream of its own.
    pub(crate) fn upload(mut self, bytes: u64) -> Self {
        self.upload.push(bytes);
        self
    }

    /// The server sends so many bytes on a stream of its own.
    pub(crate) fn download(mut self, bytes: u64) -> Self {
        self.download.push(bytes);
        self
    }

    /// How large packets may be at both ends' interfaces, and on the paths.
    pub(crate) fn mtu(mut self, interface: u32, path: u32) -> Self {
        (self.interface, self.mtu) = (Some(interface), Some(path));
        self
    }

    pub(crate) fn server_sockets(mut self) -> Self {
        self.server_sockets = true;
        self
    }

    pub(crate) fn build(self) -> Run {
        let mut world = World::new(self.seed);
        let mut links = Vec::new();
        let mut paths = Vec::new();
        for (forward, reverse, impairments) in self.paths {
            let there = world.add_link(forward).expect("a valid link");
            let back = world.add_link(reverse).expect("a valid link");
            links.push([there, back]);
            paths.push(PairPath {
                forward: vec![there],
                reverse: vec![back],
                jitter: self.jitter,
                impairments,
                interface: self.interface,
                mtu: self.mtu,
            });
        }
        let traffic = |bytes: &[u64]| TrafficConfig {
            sources: bytes.iter().map(|n| Source { bytes: Some(*n) }).collect(),
            ..TrafficConfig::default()
        };
        let spec = PairSpec {
            number: 0,
            client: self.config.clone(),
            server: self.config,
            client_traffic: traffic(&self.upload),
            server_traffic: traffic(&self.download),
            paths,
            server_sockets: self.server_sockets,
        };
        let pair = SessionPair::add(&mut world, self.seed, spec).expect("a valid configuration");
        pair.connect(&mut world).expect("addresses that fit");
        Run {
            world,
            pair,
            links,
            upload: self.upload,
            download: self.download,
        }
    }
}

pub(crate) struct Run {
    pub(crate) world: World<SessionHost>,
    pub(crate) pair: SessionPair,
    /// Forward and reverse link of each path.
    pub(crate) links: Vec<[LinkId; 2]>,
    upload: Vec<u64>,
    download: Vec<u64>,
}

impl Run {
    pub(crate) fn client(&self) -> &SessionHost {
        self.world.host(self.pair.client)
    }

    pub(crate) fn server(&self) -> &SessionHost {
        self.world.host(self.pair.server)
    }

    pub(crate) fn client_stats(&mut self) -> ConnectionStats {
        self.world
            .host_mut(self.pair.client)
            .stats()
            .expect("a connection")
    }

    pub(crate) fn server_stats(&mut self) -> ConnectionStats {
        self.world
            .host_mut(self.pair.server)
            .stats()
            .expect("a connection")
    }

    pub(crate) fn run_for(&mut self, time: Duration) {
        let until = self.world.now() + time;
        self.world.run_until(until);
    }

    pub(crate) fn set_mtu(&mut self, path: usize, mtu: u32) {
        let (client, server) = self.pair.addresses[path];
        self.world.set_mtu(client, server, Some(mtu));
        self.world.set_mtu(server, client, Some(mtu));
    }

    pub(crate) fn set_path_up(&mut self, path: usize, up: bool) {
        for link in self.links[path] {
            self.world.set_link_up(link, up);
        }
    }

    /// Whether both ends have seen the path of this number carry packets.
    pub(crate) fn is_path_up(&self, number: usize) -> bool {
        let (client, server) = self.pair.addresses[number];
        let up = |host: &SessionHost, peer| {
            let up = |event: &Event| match event {
                Event::Path(PathEvent::Up { remote, name, .. }) => (*remote, name.as_str()) == peer,
                _ => false,
            };
            host.traffic().log().iter().any(|(_, event)| up(event))
        };
        // The client tells its paths apart by its sockets, the server by the addresses they come
        // from.
        let name = format!("path{number}");
        up(self.client(), (server, &name)) && up(self.server(), (client, "path0"))
    }

    /// Like [`Run::complete`], but both ends may also give up, if they say why.
    pub(crate) fn complete_or_time_out(&mut self, limit: Duration) {
        let (client, server) = (self.pair.client, self.pair.server);
        let over = |host: &SessionHost| host.traffic().closed().is_some();
        self.world.run_while(MS * 100, Time::ZERO + limit, |world| {
            // A server that never heard from its client has nothing to end.
            let strangers = world.host(server).traffic().connected().is_none();
            !(over(world.host(client)) && (strangers || over(world.host(server))))
                && !Self::all_read(world, client, server, &self.upload, &self.download)
        });
        if !over(self.client()) {
            self.complete(limit);
            return;
        }
        for host in [self.client(), self.server()] {
            if let Some((_, reason)) = host.traffic().closed() {
                let timed_out = matches!(
                    reason,
                    CloseReason::TimedOut { .. } | CloseReason::ConnectTimedOut { .. }
                );
                assert!(timed_out, "{reason:?}");
            }
        }
        self.check_content();
    }

    fn all_read(
        world: &World<SessionHost>,
        client: HostId,
        server: HostId,
        upload: &[u64],
        download: &[u64],
    ) -> bool {
        let done = |host, streams: &[u64]| {
            let received = world.host(host).traffic().received();
            received.filter(|r| r.ended.is_some()).count() >= streams.len()
        };
        done(server, upload) && done(client, download)
    }

    /// Runs until everything has been read to its end; how long that took since the beginning of
    /// time.
    pub(crate) fn complete(&mut self, limit: Duration) -> Duration {
        let (client, server) = (self.pair.client, self.pair.server);
        let done = self.world.run_while(MS * 10, Time::ZERO + limit, |world| {
            !Self::all_read(world, client, server, &self.upload, &self.download)
        });
        if !done {
            let stats = self.world.host_mut(client).stats();
            let (client, server) = (self.client().traffic().log(), self.server().traffic().log());
            panic!(
                "not done after {limit:?}: client {client:?}, server {server:?}; client {stats:#?}"
            );
        }
        self.check_content();
        let ends = [self.server(), self.client()]
            .into_iter()
            .flat_map(|h| h.traffic().received());
        ends.filter_map(|r| r.ended)
            .max()
            .map_or(Duration::ZERO, |at| at.since(Time::ZERO))
    }

    /// Each stream that was read to its end has all its bytes, and no byte anywhere was wrong.
    pub(crate) fn check_content(&self) {
        for (host, sent) in [
            (self.server(), &self.upload),
            (self.client(), &self.download),
        ] {
            for (received, bytes) in host.traffic().received().zip(sent) {
                assert_eq!(received.mismatch, None, "a wrong byte");
                assert!(received.bytes <= *bytes, "more bytes than were sent");
                if received.ended.is_some() {
                    assert_eq!(received.bytes, *bytes, "the end came too soon");
                }
            }
        }
    }
}

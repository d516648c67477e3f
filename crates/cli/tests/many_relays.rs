//! A connection over a hundred relays and more, on real sockets: all of them are probed, those that
//! work are used, those that die are left.

use std::net::{Ipv4Addr, SocketAddr};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use manyway::{
    Config, Connection, Endpoint, EndpointOptions, PathSelector, PathState, Rate, RelayAccess,
    RelayAddress, RelayState,
};
use manyway_network::LinkConfig;
use manyway_relay::keys::public_key;
use manyway_relay::server::{Handle, Server, ServerConfig, ServerError, open_keys};
use manyway_testbed::{UdpLink, UdpLinkConfig};
use manyway_wire::relay::{Access, RateClass};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Only tests that fail wait for so long.
const PATIENCE: Duration = Duration::from_secs(300);
/// Every so many-th relay dies when all have granted what they are asked for.
const DIES: usize = 5;
const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// A relay on a thread of its own.
struct Relay {
    access: RelayAccess,
    handle: Handle,
    thread: Option<JoinHandle<Result<(), ServerError>>>,
}

impl Relay {
    fn start(dir: &TempDir, number: usize) -> Self {
        let key_file = dir.path().join(format!("{number}.key"));
        let server = Server::bind(ServerConfig {
            listen: vec![LOOPBACK],
            key_file: key_file.clone(),
            rotate: Duration::from_secs(86_400),
            streams: None,
            relay: manyway_relay::Config {
                allow_private: true,
                ..Default::default()
            },
        })
        .unwrap();
        let seed = [7; 32];
        let keys = open_keys(&key_file).unwrap();
        let voucher = keys.vouch([1; 8], RateClass::MAX, u32::MAX, public_key(&seed));
        let relay = RelayAddress {
            address: server.addresses()[0],
            id: server.id(),
        };
        Self {
            access: RelayAccess {
                relay,
                access: Access { voucher, seed },
            },
            handle: server.handle(),
            thread: Some(std::thread::spawn(move || server.run())),
        }
    }

    fn address(&self) -> SocketAddr {
        self.access.relay.address
    }

    fn stop(&mut self) {
        self.handle.stop();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap().unwrap();
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.handle.stop();
    }
}

async fn endpoint(law: &str) -> Endpoint {
    let config = Config {
        cc: law.parse().unwrap(),
        connect_timeout: Duration::from_secs(60),
        idle_timeout: Duration::from_secs(120),
        // Little enough for any machine; the direct path's link has less.
        limit: Some(Rate::from_mbps(24.0)),
        ..Config::default()
    };
    let options = EndpointOptions {
        config,
        paths: vec![PathSelector::Address(LOOPBACK.ip())],
        ..EndpointOptions::default()
    };
    Endpoint::bind(options).await.unwrap()
}

/// Waits until it holds.
async fn until(what: &str, connection: &Connection, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(
            Instant::now() < deadline,
            "{what}: not within {PATIENCE:?}: {:#?}",
            connection.stats().relays
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn many_relays(law: &str, count: usize) {
    let dir = TempDir::new().unwrap();
    let mut relays: Vec<Relay> = (0..count).map(|n| Relay::start(&dir, n)).collect();
    let access: Vec<RelayAccess> = relays.iter().map(|relay| relay.access.clone()).collect();
    let (listener, connector) = (endpoint(law).await, endpoint(law).await);
    let mut ticket = listener.listen().unwrap();
    let line = LinkConfig::new(Rate::from_mbps(8.0), Duration::from_millis(5));
    let link = UdpLink::start(UdpLinkConfig {
        listen: LOOPBACK,
        target: ticket.addresses[0],
        forward: line.clone(),
        reverse: line,
        header_bytes: UdpLinkConfig::HEADER_BYTES,
    })
    .unwrap();
    ticket.addresses = vec![link.local_addr()];
    let (connected, accepted) = tokio::join!(connector.connect(&ticket), listener.accept());
    let (connection, accepted) = (connected.unwrap(), accepted.unwrap());

    let (mut send, _) = connection.open_bi().await.unwrap();
    let sending = tokio::spawn(async move {
        let piece = vec![0x5a; 1 << 16];
        while send.write_all(&piece).await.is_ok() {}
    });
    let receiving = tokio::spawn(async move {
        let (_, mut receive) = accepted.accept_bi().await.unwrap();
        let mut piece = vec![0; 1 << 16];
        while let Ok(1..) = receive.read(&mut piece).await {}
    });

    assert_eq!(connection.add_relays(&access), count);
    let granted = || {
        let waiting = |relay: &manyway::RelayStats| relay.state == RelayState::Waiting;
        !connection.stats().relays.iter().any(waiting)
    };
    until("every relay grants", &connection, granted).await;
    relays.iter_mut().step_by(DIES).for_each(Relay::stop);
    let dead: Vec<SocketAddr> = relays.iter().step_by(DIES).map(Relay::address).collect();

    // Twice at least: there and back again.
    let tried = || {
        let mut good = relays
            .iter()
            .filter(|relay| !dead.contains(&relay.address()));
        good.all(|relay| relay.handle.counters().forwarded >= 2)
    };
    until("every relay is probed", &connection, tried).await;
    let in_use = |which: &dyn Fn(&SocketAddr) -> bool| {
        let paths = connection.stats().paths;
        let active = |path: &&manyway::PathStats| path.relay && path.state == PathState::Active;
        let through = paths.iter().filter(active);
        through.filter(|path| which(&path.remote)).count()
    };
    until("those that died are left", &connection, || {
        in_use(&|at| dead.contains(at)) == 0
    })
    .await;
    // mPath opens more when all that it has meet losses, which these don't; other laws use whatever
    // there is.
    let least = if law == "mpath" {
        1
    } else {
        count - dead.len()
    };
    until("those that work are used", &connection, || {
        in_use(&|at| !dead.contains(at)) >= least
    })
    .await;
    let forwarded = || -> u64 {
        let counters = relays.iter().map(|relay| relay.handle.counters());
        counters.map(|counters| counters.forwarded).sum()
    };
    let before = forwarded();
    until("data goes through relays", &connection, || {
        forwarded() > before + 1000
    })
    .await;
    connection.close(0, "");
    sending.await.unwrap();
    receiving.await.unwrap();
    connector.close().await;
    listener.close().await;
    relays.iter_mut().for_each(Relay::stop);
}

#[tokio::test]
async fn a_connection_over_130_relays() {
    many_relays("mpath", 130).await;
}

#[tokio::test]
async fn a_connection_over_200_relays() {
    many_relays("lia", 200).await;
}

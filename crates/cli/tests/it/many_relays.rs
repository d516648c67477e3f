//! A connection over more than a hundred relays, on real sockets: it probes all of them, uses those
//! that work and leaves those that die.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::common::local_relay::{LOOPBACK, LocalRelay, endpoint, keep_busy, until};
use manyway::{Config, PathState, Rate, RelayAccess, RelayAddress, RelayState};
use manyway_network::LinkConfig;
use manyway_relay::keys::public_key;
use manyway_relay::server::open_keys;
use manyway_testbed::{UdpLink, UdpLinkConfig};
use manyway_wire::relay::{Access, RateClass};
use tempfile::TempDir;

/// The step between relays that die after all have granted access.
const DIES: usize = 5;

/// Access to a relay that a test has started.
fn access(key_file: &Path, relay: &LocalRelay) -> RelayAccess {
    let seed = [7; 32];
    let keys = open_keys(key_file).unwrap();
    let voucher = keys.vouch([1; 8], RateClass::MAX, u32::MAX, public_key(&seed));
    RelayAccess {
        relay: RelayAddress {
            address: relay.address,
            id: relay.id,
        },
        access: Access { voucher, seed },
    }
}

fn config(law: &str) -> Config {
    Config {
        cc: law.parse().unwrap(),
        connect_timeout: Duration::from_secs(60),
        idle_timeout: Duration::from_secs(120),
        // Little enough for any machine; the direct path's link has less.
        limit: Some(Rate::from_mbps(24.0)),
        ..Config::default()
    }
}

async fn many_relays(law: &str, count: usize) {
    let dir = TempDir::new().unwrap();
    let key_files: Vec<PathBuf> = (0..count)
        .map(|n| dir.path().join(format!("{n}.key")))
        .collect();
    let start = |key_file: &PathBuf| LocalRelay::start(key_file.clone(), Vec::new());
    let mut relays: Vec<LocalRelay> = key_files.iter().map(start).collect();
    let access: Vec<RelayAccess> = key_files
        .iter()
        .zip(&relays)
        .map(|(key_file, relay)| access(key_file, relay))
        .collect();
    let listener = endpoint(config(law)).await;
    let connector = endpoint(config(law)).await;
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

    let traffic = keep_busy(&connection, accepted).await;
    assert_eq!(connection.add_relays(&access), count);
    let granted = || {
        let waiting = |relay: &manyway::RelayStats| relay.state == RelayState::Waiting;
        !connection.stats().relays.iter().any(waiting)
    };
    until("every relay grants", granted).await;
    relays.iter_mut().step_by(DIES).for_each(LocalRelay::stop);
    let dead: Vec<SocketAddr> = relays
        .iter()
        .step_by(DIES)
        .map(|relay| relay.address)
        .collect();

    // Twice at least: there and back again.
    let tried = || {
        let mut good = relays.iter().filter(|relay| !dead.contains(&relay.address));
        good.all(|relay| relay.handle.counters().forwarded >= 2)
    };
    until("every relay is probed", tried).await;
    let in_use = |which: &dyn Fn(&SocketAddr) -> bool| {
        let paths = connection.stats().paths;
        let active = |path: &&manyway::PathStats| path.relay && path.state == PathState::Active;
        let through = paths.iter().filter(active);
        through.filter(|path| which(&path.remote)).count()
    };
    until("those that died are left", || {
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
    until("those that work are used", || {
        in_use(&|at| !dead.contains(at)) >= least
    })
    .await;
    let forwarded = || -> u64 {
        let counters = relays.iter().map(|relay| relay.handle.counters());
        counters.map(|counters| counters.forwarded).sum()
    };
    let before = forwarded();
    until("data goes through relays", || forwarded() > before + 1000).await;
    connection.close(0, "");
    traffic.join_all().await;
    connector.close().await;
    listener.close().await;
    relays.iter_mut().for_each(LocalRelay::stop);
}

#[tokio::test]
async fn a_connection_over_130_relays() {
    many_relays("mpath", 130).await;
}

#[tokio::test]
async fn a_connection_over_200_relays() {
    many_relays("auto", 200).await;
}

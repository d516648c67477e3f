//! Transfers over UDP sockets. What they check doesn't depend on how fast the machine is.

use std::sync::Arc;
use std::time::Duration;

use manyway_network::LinkConfig;
use manyway_noq::{CoupledPath, Coupling};
use manyway_units::Rate;
use noq::{Connection, PathId, TransportConfig};

use crate::lab::{Connected, Lab, multipath, send};

/// Only failing tests wait for it.
const PATIENCE: Duration = Duration::from_secs(60);

fn links() -> [LinkConfig; 2] {
    [5, 15].map(|ms| LinkConfig::new(Rate::from_mbps(20.0), Duration::from_millis(ms)))
}

fn coupling(law: &str) -> Coupling {
    Coupling::new(law.parse().unwrap()).unwrap()
}

/// Both ends of a connection under this law.
fn both(law: &str) -> [Arc<TransportConfig>; 2] {
    [(); 2].map(|()| coupling(law).for_connection(&multipath()))
}

/// Bytes that are wrong wherever they are not in their place.
fn payload(bytes: usize) -> Vec<u8> {
    let mut state = 1u32;
    let next = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..bytes).map(next).collect()
}

/// Our controller of a path.
fn view(connection: &Connection, path: PathId) -> Box<CoupledPath> {
    let state = connection.congestion_state(path).unwrap();
    state.into_any().downcast().unwrap()
}

/// Sends, and checks that all arrived, and on which paths it went.
async fn check(connected: &Connected, law: &str, megabytes: usize) {
    let data = payload(megabytes << 20);
    let sent = send(&connected.client, &connected.server, &data);
    let arrived = tokio::time::timeout(PATIENCE, sent).await;
    let arrived = arrived.unwrap_or_else(|_| panic!("{law}: the transfer takes too long"));
    assert!(arrived.unwrap() == data, "{law}: what arrived differs");
    for path in &connected.paths {
        let stats = path.stats();
        let bytes = stats.sent_bytes;
        assert!(bytes > data.len() as u64 / 10, "{law}: {bytes} on a path");
        // noq sends by the window that we give it.
        assert_eq!(
            stats.cwnd,
            connected.client.path_stats(path.id()).unwrap().cwnd
        );
        assert_eq!(view(&connected.client, path.id()).coupled_paths(), 2);
    }
}

#[tokio::test]
async fn transfers_over_two_paths_arrive_under_each_law() {
    for law in ["lia", "balia", "auto"] {
        let lab = Lab::new(&links(), &[&[0, 1]]).unwrap();
        let connected = lab.connect(0, both(law)).await.unwrap();
        check(&connected, law, 2).await;
    }
}

/// noq's own CUBIC works over the same links: what fails above isn't the laboratory's fault.
#[tokio::test]
async fn noqs_own_controller_arrives_too() {
    let lab = Lab::new(&links(), &[&[0, 1]]).unwrap();
    let own = [(); 2].map(|()| Arc::new(multipath()));
    let Connected { client, server, .. } = lab.connect(0, own).await.unwrap();
    let data = payload(1 << 20);
    let arrived = send(&client, &server, &data).await.unwrap();
    assert!(arrived == data);
    let state = client.congestion_state(PathId::ZERO).unwrap();
    assert!(state.into_any().downcast::<CoupledPath>().is_err());
}

/// A server couples the paths of each connection that it accepts, and no others; it sends, too.
#[tokio::test]
async fn a_server_couples_each_of_its_connections() {
    let lab = Lab::new(&links(), &[&[0, 1], &[0, 1]]).unwrap();
    let mut connections = Vec::new();
    for flow in [0, 1] {
        connections.push(lab.connect(flow, both("lia")).await.unwrap());
    }
    let data = payload(1 << 20);
    for Connected { client, server, .. } in &connections {
        let arrived = send(server, client, &data).await.unwrap();
        assert!(arrived == data);
        for end in [client, server] {
            assert_eq!(view(end, PathId::ZERO).coupled_paths(), 2);
        }
    }
}

/// A path that is closed leaves its siblings.
#[tokio::test]
async fn a_closed_path_is_no_sibling_any_more() {
    let lab = Lab::new(&links(), &[&[0, 1]]).unwrap();
    let mut connected = lab.connect(0, both("lia")).await.unwrap();
    check(&connected, "lia", 1).await;
    let closed = connected.paths.remove(1);
    closed.close().unwrap();
    let gone = async {
        while view(&connected.client, PathId::ZERO).coupled_paths() > 1 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.unwrap();
    let data = payload(1 << 18);
    let arrived = send(&connected.client, &connected.server, &data).await;
    assert!(arrived.unwrap() == data);
}

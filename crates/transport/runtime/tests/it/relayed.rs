//! Paths over TCP through relays.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, SystemTime};

use manyway_runtime::tcp_relay::connect_through;
use manyway_runtime::{
    CarrierKind, Carriers, Config, Connection, Endpoint, EndpointOptions, PathState, TcpOptions,
    Ticket,
};
use manyway_session::{RelayAccess, RelayAddress, listen_key, listener_name};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::common::{config, read_all, write_all};
use crate::relay::{Running, access, access_of, start};
use crate::throttle::throttle;

/// Longer than anything here takes on a machine that has other things to do.
const LONG: Duration = Duration::from_secs(90);

async fn bind(address: &str, carriers: Carriers, config: Config) -> Endpoint {
    bind_all(&[address], carriers, config).await
}

async fn bind_all(addresses: &[&str], carriers: Carriers, config: Config) -> Endpoint {
    let tcp = TcpOptions {
        carriers,
        congestion: None,
    };
    let options = EndpointOptions {
        config,
        paths: addresses.iter().map(|a| a.parse().unwrap()).collect(),
        tcp,
        ..EndpointOptions::default()
    };
    Endpoint::bind(options).await.unwrap()
}

/// A listener that can be reached through these relays alone.
async fn hidden(relays: &[&Running], config: Config) -> (Endpoint, Ticket) {
    let listener = bind("127.0.0.1", Carriers::Tcp, config).await;
    let ticket = hide(&listener, relays);
    (listener, ticket)
}

fn hide(listener: &Endpoint, relays: &[&Running]) -> Ticket {
    let mut ticket = listener.listen().unwrap();
    let addresses: Vec<_> = relays.iter().map(|it| it.access.relay).collect();
    listener.listen_at(&mut ticket, &addresses);
    ticket.addresses.clear();
    ticket
}

async fn connect(
    listener: &Endpoint,
    ticket: &Ticket,
    relays: &[RelayAccess],
    config: Config,
) -> (Endpoint, Connection, Connection) {
    let connector = bind("127.0.0.1", Carriers::Tcp, config).await;
    let (connected, accepted) =
        tokio::join!(connector.connect_through(ticket, relays), listener.accept());
    (connector, connected.unwrap(), accepted.unwrap())
}

async fn until(mut done: impl FnMut() -> bool) {
    let waited = timeout(LONG, async {
        while !done() {
            sleep(Duration::from_millis(20)).await;
        }
    });
    waited.await.expect("it never happened");
}

fn active(connection: &Connection) -> usize {
    let stats = connection.stats();
    let paths = stats.paths.iter();
    paths
        .filter(|p| p.carrier == CarrierKind::Tcp && p.state == PathState::Active)
        .count()
}

/// A relay behind a link of so many Mbit/s, as its callers see it.
async fn behind(relay: &Running, mbps: f64) -> RelayAccess {
    let mut access = relay.access.clone();
    access.relay.address = throttle(access.relay.address, mbps * 125_000.0)
        .await
        .unwrap();
    access
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transfer_through_a_relay_over_tcp_alone() {
    let keys = tempfile::tempdir().unwrap();
    let relay = start(keys.path(), "127.0.0.1:0");
    let (listener, ticket) = hidden(&[&relay], config()).await;
    let relays = [relay.access.clone()];
    let (_connector, connected, accepted) = connect(&listener, &ticket, &relays, config()).await;
    let len = 20_000_000;
    let (mut send, _) = connected.open_bi().await.unwrap();
    let receiving = async {
        let (_, mut receive) = accepted.accept_bi().await.unwrap();
        read_all(&mut receive, 5, len).await;
    };
    let both = async { tokio::join!(write_all(&mut send, 5, len), receiving) };
    timeout(LONG, both).await.expect("in time");
    let counters = relay.handle.streams().unwrap();
    assert!(counters.forwarded_bytes > len as u64, "{counters:?}");
    assert_eq!(relay.handle.counters().forwarded, 0, "nothing by UDP");
    relay.stop().await;
}

/// How many TCP connections from an address to the relay's are established on this host.
fn connections(from: Ipv4Addr, to: SocketAddr) -> usize {
    const ESTABLISHED: &str = "01";
    let (from, port) = (u32::from_ne_bytes(from.octets()), to.port());
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let ours = table.lines().filter(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        fields[1].starts_with(&format!("{from:08X}:"))
            && fields[2].ends_with(&format!(":{port:04X}"))
            && fields[3] == ESTABLISHED
    });
    ours.count()
}

/// The paths that callers have through a relay are called as the listener's own are, and end with
/// the address that they came in by; the next call comes by another one.
#[tokio::test(flavor = "multi_thread")]
async fn a_listener_is_called_at_the_address_that_is_left() {
    let keys = tempfile::tempdir().unwrap();
    let relay = start(keys.path(), "127.0.0.1:0");
    let listener = bind_all(&["127.0.0.2", "127.0.0.3"], Carriers::Tcp, config()).await;
    let ticket = hide(&listener, &[&relay]);
    let relays = [relay.access.clone()];
    let (_connector, connected, accepted) = connect(&listener, &ticket, &relays, config()).await;
    let names = || {
        let paths = accepted.stats().paths.into_iter();
        let live = paths.filter(|p| p.state == PathState::Active && p.relay);
        live.map(|p| p.name).collect::<Vec<_>>()
    };
    until(|| names().len() == 1).await;
    let first = names();
    let from = first[0].parse().unwrap();
    assert!(connections(from, relay.access.relay.address) > 0);
    listener.remove_path(&first[0].parse().unwrap());
    until(|| names().is_empty()).await;
    // Nor does it wait for callers there.
    until(|| connections(from, relay.access.relay.address) == 0).await;
    until(|| names().len() == 1 && active(&connected) == 1).await;
    assert_ne!(names(), first);
    relay.stop().await;
}

/// A name is one listener's: two, at the addresses of one relay, would take it from each other.
#[tokio::test(flavor = "multi_thread")]
async fn a_relay_with_several_addresses_is_listened_at_once() {
    let keys = tempfile::tempdir().unwrap();
    let relay = start(keys.path(), "0.0.0.0:0");
    let port = relay.access.relay.address.port();
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = closed.local_addr().unwrap().port();
    let listener = bind("127.0.0.1", Carriers::Tcp, config()).await;
    let mut ticket = listener.listen().unwrap();
    let places = [
        ([127, 0, 0, 1], closed),
        ([127, 0, 0, 1], port),
        ([127, 0, 0, 2], port),
    ];
    let addresses = places.map(|(ip, port)| RelayAddress {
        address: SocketAddr::from((ip, port)),
        id: relay.access.relay.id,
    });
    listener.listen_at(&mut ticket, &addresses);
    let counters = || relay.handle.streams().unwrap();
    until(|| counters().listening == 1).await;
    // A listener that has lost its name tries again after a second.
    sleep(Duration::from_millis(2500)).await;
    assert_eq!((counters().listening, counters().accepted), (1, 1));
    relay.stop().await;
}

/// The access that a connection began with has ended when its relay starts anew: it is called with
/// the access that came later.
#[tokio::test(flavor = "multi_thread")]
async fn a_relay_is_called_again_with_renewed_access() {
    let keys = tempfile::tempdir().unwrap();
    let relay = start(keys.path(), "127.0.0.1:0");
    let address = relay.access.relay.address;
    let (listener, ticket) = hidden(&[&relay], config()).await;
    let now = || {
        SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap()
            .as_secs() as u32
    };
    // A first call that fails is repeated after 5 s.
    let ends = now() + 10;
    let relays = [access(keys.path(), relay.access.relay, ends)];
    let (_connector, connected, _accepted) = connect(&listener, &ticket, &relays, config()).await;
    until(|| active(&connected) == 1).await;
    until(|| now() > ends).await;
    let renewed = relay.access.clone();
    relay.stop().await;
    // The connection lives on while it has no path, by its idle timeout.
    until(|| active(&connected) == 0).await;
    assert_eq!(
        connected.add_relays(&[renewed]),
        0,
        "over TCP there are none but the ticket's"
    );
    let relay = start(keys.path(), &address.to_string());
    until(|| active(&connected) == 1).await;
    assert!(connected.stats().paths.iter().all(|path| path.relay));
    relay.stop().await;
}

/// Whoever has a ticket could keep any number of calls open without a word.
#[tokio::test(flavor = "multi_thread")]
async fn calls_through_one_relay_cant_take_all_the_room() {
    let keys = tempfile::tempdir().unwrap();
    let relay = start(keys.path(), "127.0.0.1:0");
    let (_listener, ticket) = hidden(&[&relay], config()).await;
    let name = listener_name(&listen_key(&ticket.secret, &relay.access.relay.id));
    let accounts = [[1; 8], [2; 8]];
    // A relay has its own bound for each account.
    let accesses = accounts.map(|own| access_of(own, keys.path(), relay.access.relay, u32::MAX));
    let calling = async {
        let mut calls = Vec::new();
        while calls.len() < 70 {
            let stream = TcpStream::connect(relay.access.relay.address);
            let stream = stream.await.unwrap();
            // The listener may not be there yet; then, a relay takes 20 in a second.
            match connect_through(stream, &accesses[calls.len() / 40], name).await {
                Ok(call) => calls.push(call),
                Err(_) => sleep(Duration::from_millis(20)).await,
            }
        }
        calls
    };
    let mut calls = timeout(LONG, calling).await.expect("in time");
    // Beyond 64 they are ended at once; the others have their ten seconds.
    let last = calls.last_mut().unwrap();
    let ended = timeout(Duration::from_secs(5), last.read(&mut [0])).await;
    assert!(matches!(ended, Ok(Ok(0) | Err(_))), "{ended:?}");
    relay.stop().await;
}

/// Two relays, the faster of which is killed on the way.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_relays_data_comes_by_the_other() {
    let keys = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [one, two] = keys
        .each_ref()
        .map(|keys| start(keys.path(), "127.0.0.1:0"));
    let (listener, ticket) = hidden(&[&one, &two], config()).await;
    let relays = [behind(&one, 80.0).await, behind(&two, 40.0).await];
    let (_connector, connected, accepted) = connect(&listener, &ticket, &relays, config()).await;
    until(|| active(&connected) == 2).await;
    let len = 30_000_000;
    let (mut send, _) = connected.open_bi().await.unwrap();
    let killing = async {
        until(|| connected.stats().bytes_acked > 8_000_000).await;
        let handle = one.handle.clone();
        one.stop().await;
        handle.streams().unwrap().forwarded_bytes
    };
    let receiving = async {
        let (_, mut receive) = accepted.accept_bi().await.unwrap();
        read_all(&mut receive, 5, len).await;
    };
    let all = async { tokio::join!(write_all(&mut send, 5, len), receiving, killing) };
    let ((), (), carried) = timeout(LONG, all).await.expect("in time");
    assert!(carried > 1_000_000, "it was in use: {carried}");
    let other = two.handle.streams().unwrap().forwarded_bytes;
    assert!(
        other + carried > len as u64,
        "all of it came through one of them: {other} {carried}"
    );
    two.stop().await;
}

/// Nobody reads at the far end: the sender stops at the session's credit, and the relay is left
/// with nothing.
#[tokio::test(flavor = "multi_thread")]
async fn memory_is_bounded_at_both_ends_and_the_relay_when_nobody_reads() {
    let small = Config {
        receive_window: 1 << 20,
        send_buffer: 2 << 20,
        ..config()
    };
    let keys = tempfile::tempdir().unwrap();
    let relay = start(keys.path(), "127.0.0.1:0");
    let (listener, ticket) = hidden(&[&relay], small.clone()).await;
    let relays = [relay.access.clone()];
    let (_connector, connected, accepted) = connect(&listener, &ticket, &relays, small).await;
    let (mut send, _) = connected.open_bi().await.unwrap();
    let (mut taken, piece) = (0, vec![7; 100_000]);
    while let Ok(written) = timeout(Duration::from_secs(1), send.write(&piece)).await {
        taken += written.unwrap();
        assert!(taken < 10_000_000, "it never stops");
    }
    assert!(accepted.stats().bytes_received <= 2 << 20);
    // The credit is what is at the receiver; the relay has passed all of it on.
    until(|| {
        let relay = relay.handle.streams().unwrap();
        relay.received_bytes == relay.forwarded_bytes
    })
    .await;
    assert!(relay.handle.streams().unwrap().received_bytes < 4 << 20);
    let (_, mut receive) = accepted.accept_bi().await.unwrap();
    let rest = async {
        send.shutdown().await.unwrap();
    };
    let read = async {
        let mut all = Vec::new();
        receive.read_to_end(&mut all).await.unwrap();
        all.len()
    };
    let both = async { tokio::join!(read, rest) };
    let (len, ()) = timeout(LONG, both).await.unwrap();
    assert_eq!(len, taken);
    relay.stop().await;
}

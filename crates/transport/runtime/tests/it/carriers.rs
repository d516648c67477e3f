//! Paths over TCP, on real sockets.

use std::net::SocketAddr;
use std::time::Duration;

use manyway_runtime::{
    CarrierKind, Carriers, Config, ConnectError, Connection, Endpoint, EndpointOptions, Event,
    Events, PathDownReason, PathEvent, PathState, TcpOptions, Ticket,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep, timeout};

use crate::common::{config, next_event, read_all, write_all};

/// Longer than anything here takes on a machine that has other things to do.
const LONG: Duration = Duration::from_secs(60);

async fn bind(addresses: &[&str], carriers: Carriers, config: Config) -> Endpoint {
    let paths = addresses.iter().map(|a| a.parse().unwrap()).collect();
    let tcp = TcpOptions {
        carriers,
        congestion: None,
    };
    let options = EndpointOptions {
        config,
        paths,
        tcp,
        ..EndpointOptions::default()
    };
    Endpoint::bind(options).await.unwrap()
}

async fn listener(addresses: &[&str], config: Config) -> (Endpoint, Ticket) {
    let listener = bind(addresses, Carriers::Tcp, config).await;
    let ticket = listener.listen().unwrap();
    listener.listen_tcp().unwrap();
    (listener, ticket)
}

/// A TCP hop that can be cut, stopped and counted: what a middlebox or a slow relay would be.
struct Hop {
    addr: SocketAddr,
    cut: tokio::sync::watch::Sender<bool>,
    tasks: tokio::task::JoinHandle<()>,
}

impl Hop {
    async fn start(ip: &str, target: SocketAddr) -> Self {
        let listener = TcpListener::bind((ip, 0)).await.unwrap();
        let addr = listener.local_addr().unwrap();
        let (cut, seen) = tokio::sync::watch::channel(false);
        let tasks = tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let mut seen = seen.clone();
                tokio::spawn(async move {
                    let mut near = near;
                    let mut far = TcpStream::connect(target).await.unwrap();
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
                        _ = seen.wait_for(|cut| *cut) => {}
                    }
                });
            }
        });
        Self { addr, cut, tasks }
    }

    fn cut(&self) {
        self.tasks.abort();
        self.cut.send_replace(true);
    }
}

fn tcp_paths(connection: &Connection) -> usize {
    let stats = connection.stats();
    let live = |p: &&manyway_runtime::PathStats| {
        p.carrier == CarrierKind::Tcp && p.state == PathState::Active
    };
    stats.paths.iter().filter(live).count()
}

async fn until(mut done: impl FnMut() -> bool) {
    let waited = timeout(LONG, async {
        while !done() {
            sleep(Duration::from_millis(20)).await;
        }
    });
    waited.await.expect("it never happened");
}

/// Why a path went down, the next that does.
async fn down(events: &mut Events) -> PathDownReason {
    loop {
        match next_event(events).await {
            // A machine under load stands still itself.
            Event::Path(PathEvent::Down {
                reason: PathDownReason::Stalled,
                ..
            }) => {}
            Event::Path(PathEvent::Down { reason, .. }) => return reason,
            _ => {}
        }
    }
}

async fn transfer(connected: &Connection, accepted: &Connection, len: usize) {
    let (mut send, _) = connected.open_bi().await.unwrap();
    let sending = write_all(&mut send, 5, len);
    let receiving = async {
        let (_, mut receive) = accepted.accept_bi().await.unwrap();
        read_all(&mut receive, 5, len).await;
    };
    timeout(LONG, async { tokio::join!(sending, receiving) })
        .await
        .expect("in time");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transfer_over_tcp_alone() {
    let (listener, ticket) = listener(&["127.0.0.1", "127.0.0.2"], config()).await;
    let connector = bind(&["127.0.0.3"], Carriers::Tcp, config()).await;
    let (connected, accepted) = tokio::join!(connector.connect(&ticket), listener.accept());
    let (connected, accepted) = (connected.unwrap(), accepted.unwrap());
    until(|| tcp_paths(&connected) == 2).await;
    transfer(&connected, &accepted, 30_000_000).await;
    let paths = connected.stats().paths;
    assert!(
        paths.iter().all(|p| p.carrier == CarrierKind::Tcp),
        "{paths:#?}"
    );
    assert_eq!(paths.len(), 2);
    connected.close(0x101, "done");
    let reason = timeout(LONG, accepted.closed()).await.unwrap();
    assert!(reason.to_string().contains("done"), "{reason}");
    // The connections end with it, on both sides.
    drop((connected, accepted));
    let port = ticket.addresses[0].port();
    timeout(LONG, listener.close()).await.unwrap();
    until(|| std::net::TcpListener::bind(("127.0.0.1", port)).is_ok()).await;
}

/// The ticket doesn't name it: the listener tells of it over the connection, and it is good when
/// the first address is gone.
#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_the_listener_gains_is_dialled_by_tcp() {
    let (listener, mut ticket) = listener(&["127.0.0.1"], config()).await;
    let hop = Hop::start("127.0.0.9", ticket.addresses[0]).await;
    ticket.addresses = vec![hop.addr];
    let connector = bind(&["127.0.0.3"], Carriers::Tcp, config()).await;
    let (connected, accepted) = tokio::join!(connector.connect(&ticket), listener.accept());
    let (connected, accepted) = (connected.unwrap(), accepted.unwrap());
    until(|| tcp_paths(&connected) == 1).await;
    listener
        .add_path("127.0.0.5".parse().unwrap())
        .await
        .unwrap();
    until(|| tcp_paths(&connected) == 2).await;
    let gained = |p: &&manyway_runtime::PathStats| p.remote.ip().to_string() == "127.0.0.5";
    assert_eq!(connected.stats().paths.iter().filter(gained).count(), 1);
    hop.cut();
    until(|| tcp_paths(&connected) == 1).await;
    transfer(&connected, &accepted, 3_000_000).await;
    let stats = connected.stats();
    let carried = stats.paths.iter().find(gained).unwrap();
    assert!(carried.bytes_sent > 3_000_000, "{stats:#?}");
    assert!(stats.paths.iter().all(|p| p.carrier == CarrierKind::Tcp));
}

#[tokio::test(flavor = "multi_thread")]
async fn where_udp_is_swallowed_auto_goes_by_tcp() {
    let (listener, mut ticket) = listener(&["127.0.0.1"], config()).await;
    // UDP to this address reaches a socket that says nothing; TCP reaches the listener.
    let hop = Hop::start("127.0.0.9", ticket.addresses[0]).await;
    let _swallows = std::net::UdpSocket::bind(hop.addr).unwrap();
    ticket.addresses = vec![hop.addr];
    let connector = bind(&["127.0.0.3"], Carriers::Auto, config()).await;
    let (connected, accepted) = tokio::join!(connector.connect(&ticket), listener.accept());
    let (connected, accepted) = (connected.unwrap(), accepted.unwrap());
    transfer(&connected, &accepted, 3_000_000).await;
    // UDP is tried with data now and then, of which nothing arrives.
    let paths = connected.stats().paths;
    let (tcp, udp): (Vec<_>, Vec<_>) = paths.iter().partition(|p| p.carrier == CarrierKind::Tcp);
    let carried: u64 = tcp.iter().map(|p| p.stream_bytes_sent).sum();
    assert!(carried >= 3_000_000, "{paths:#?}");
    assert!(udp.iter().all(|p| p.bytes_received == 0), "{paths:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn where_udp_works_auto_needs_no_tcp() {
    let (listener, ticket) = listener(&["127.0.0.1"], config()).await;
    let connector = bind(&["127.0.0.3"], Carriers::Auto, config()).await;
    let (connected, accepted) = tokio::join!(connector.connect(&ticket), listener.accept());
    let (connected, accepted) = (connected.unwrap(), accepted.unwrap());
    transfer(&connected, &accepted, 1_000_000).await;
    let udp = |p: &manyway_runtime::PathStats| {
        p.carrier == CarrierKind::Udp && p.state == PathState::Active
    };
    until(|| connected.stats().paths.iter().any(udp)).await;
    // A machine that slept may have dialled TCP in the meantime: it is given up again.
    until(|| tcp_paths(&connected) == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_carrier_killed_in_the_middle_loses_nothing() {
    let (listener, mut ticket) = listener(&["127.0.0.1"], config()).await;
    let target = ticket.addresses[0];
    let hops = [
        Hop::start("127.0.0.7", target).await,
        Hop::start("127.0.0.8", target).await,
    ];
    ticket.addresses = hops.iter().map(|hop| hop.addr).collect();
    let connector = bind(&["127.0.0.3"], Carriers::Tcp, config()).await;
    let (connected, accepted) = tokio::join!(connector.connect(&ticket), listener.accept());
    let (connected, accepted) = (connected.unwrap(), accepted.unwrap());
    until(|| tcp_paths(&connected) == 2).await;
    let (mut near, mut far) = (connected.events(), accepted.events());
    let len = 60_000_000;
    let (mut send, _) = connected.open_bi().await.unwrap();
    let killing = async {
        until(|| connected.stats().bytes_acked > 5_000_000).await;
        hops[0].cut();
    };
    let receiving = async {
        let (_, mut receive) = accepted.accept_bi().await.unwrap();
        read_all(&mut receive, 5, len).await;
    };
    let all = async { tokio::join!(write_all(&mut send, 5, len), receiving, killing) };
    timeout(LONG, all).await.expect("in time");
    // Who notices first tells the other, which may hear of it before it notices.
    let (near, far) = (down(&mut near).await, down(&mut far).await);
    assert!(
        [near, far].contains(&PathDownReason::CarrierClosed),
        "{near:?}, {far:?}"
    );
}

/// Whichever end removes it.
#[tokio::test(flavor = "multi_thread")]
async fn a_path_that_is_removed_takes_its_tcp_connection_along() {
    for of_listener in [false, true] {
        let two = ["127.0.0.1", "127.0.0.2"];
        let (ours, theirs) = match of_listener {
            true => (&two[..], &["127.0.0.3"][..]),
            false => (&["127.0.0.3"][..], &two[..]),
        };
        let (listener, ticket) = listener(ours, config()).await;
        let connector = bind(theirs, Carriers::Tcp, config()).await;
        let (connected, accepted) = tokio::join!(connector.connect(&ticket), listener.accept());
        let (connected, accepted) = (connected.unwrap(), accepted.unwrap());
        until(|| tcp_paths(&connected) == 2 && tcp_paths(&accepted) == 2).await;
        let (end, near, far) = match of_listener {
            true => (&listener, &accepted, &connected),
            false => (&connector, &connected, &accepted),
        };
        let mut events = near.events();
        end.remove_path(&"127.0.0.2".parse().unwrap());
        assert_eq!(down(&mut events).await, PathDownReason::LocalGone);
        until(|| tcp_paths(far) == 1).await;
        transfer(&connected, &accepted, 3_000_000).await;
        // Long enough for the connector to dial another.
        sleep(Duration::from_millis(700)).await;
        assert_eq!((tcp_paths(near), tcp_paths(far)), (1, 1));
        let left = near.stats().paths;
        let left = left.iter().find(|p| p.state == PathState::Active).unwrap();
        assert_eq!(left.name, "127.0.0.1");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_is_bounded_when_nobody_reads() {
    let small = Config {
        receive_window: 1 << 20,
        send_buffer: 2 << 20,
        ..config()
    };
    let (listener, ticket) = listener(&["127.0.0.1"], small.clone()).await;
    let connector = bind(&["127.0.0.3"], Carriers::Tcp, small).await;
    let (connected, accepted) = tokio::join!(connector.connect(&ticket), listener.accept());
    let (connected, accepted) = (connected.unwrap(), accepted.unwrap());
    let (mut send, _) = connected.open_bi().await.unwrap();
    let mut taken = 0;
    let piece = vec![7; 100_000];
    // Until nothing more is taken for a second.
    while let Ok(written) = timeout(Duration::from_secs(1), send.write(&piece)).await {
        taken += written.unwrap();
        assert!(taken < 10_000_000, "it never stops");
    }
    let stats = accepted.stats();
    assert!(stats.bytes_received <= 2 << 20, "{}", stats.bytes_received);
    // The carriers were drained all the same: what was sent has been acknowledged.
    until(|| {
        connected
            .stats()
            .paths
            .iter()
            .all(|p| p.bytes_in_flight == 0)
    })
    .await;
    // And it goes on.
    let (_, mut receive) = accepted.accept_bi().await.unwrap();
    let rest = async {
        send.shutdown().await.unwrap();
    };
    let read = async {
        let mut all = Vec::new();
        receive.read_to_end(&mut all).await.unwrap();
        all.len()
    };
    let (len, ()) = timeout(LONG, async { tokio::join!(read, rest) })
        .await
        .unwrap();
    assert_eq!(len, taken);
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_is_bounded_when_a_socket_isnt_read() {
    let small = Config {
        send_buffer: 8 << 20,
        idle_timeout: Duration::from_secs(600),
        ..config()
    };
    let (listener, mut ticket) = listener(&["127.0.0.1"], small.clone()).await;
    // A hop that passes the beginning on and then reads nothing any more.
    let target = ticket.addresses[0];
    let hop = TcpListener::bind("127.0.0.8:0").await.unwrap();
    ticket.addresses = vec![hop.local_addr().unwrap()];
    let (stop, mut stopped) = tokio::sync::watch::channel(false);
    let hopping = tokio::spawn(async move {
        let (mut near, _) = hop.accept().await.unwrap();
        let mut far = TcpStream::connect(target).await.unwrap();
        tokio::select! {
            _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
            _ = stopped.wait_for(|stop| *stop) => {}
        }
        // Both stay open, and nobody reads.
        std::future::pending::<()>().await;
        drop((near, far));
    });
    let connector = bind(&["127.0.0.3"], Carriers::Tcp, small).await;
    let (connected, accepted) = tokio::join!(connector.connect(&ticket), listener.accept());
    let (connected, _accepted) = (connected.unwrap(), accepted.unwrap());
    let (mut send, _) = connected.open_bi().await.unwrap();
    send.write_all(&[1; 1000]).await.unwrap();
    until(|| connected.stats().bytes_acked == 1000).await;
    stop.send_replace(true);
    let piece = vec![7; 100_000];
    let mut taken = 0;
    while let Ok(written) = timeout(Duration::from_secs(1), send.write(&piece)).await {
        taken += written.unwrap();
    }
    // The send buffer, and no more.
    assert!(taken <= (8 << 20) + 100_000, "{taken}");
    assert!(connected.stats().paths[0].bytes_in_flight <= 9 << 20);
    hopping.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn who_never_speaks_or_speaks_nonsense_is_sent_away() {
    let (listener, ticket) = listener(&["127.0.0.1"], config()).await;
    let addr = ticket.addresses[0];
    // A length that no record has ends it at once.
    for nonsense in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0, 0, 1], &[0xff, 0xff]] {
        let mut stream = TcpStream::connect(addr).await.unwrap();
        stream.write_all(nonsense).await.unwrap();
        let mut rest = Vec::new();
        let ended = timeout(LONG, stream.read_to_end(&mut rest)).await.unwrap();
        assert!(ended.is_err() || rest.is_empty());
    }
    // Records that mean nothing get no answer, and the connection its ten seconds.
    let began = Instant::now();
    let mut silent = TcpStream::connect(addr).await.unwrap();
    silent.write_all(&[0, 3, 1, 2, 3]).await.unwrap();
    let mut rest = Vec::new();
    let ended = timeout(LONG, silent.read_to_end(&mut rest)).await.unwrap();
    assert!(ended.is_err() || rest.is_empty());
    assert!(
        began.elapsed() > Duration::from_secs(9),
        "{:?}",
        began.elapsed()
    );
    drop(listener);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_host_cant_take_all_the_room() {
    let (listener, ticket) = listener(&["127.0.0.1"], config()).await;
    let addr = ticket.addresses[0];
    let mut silent = Vec::new();
    for _ in 0..200 {
        silent.push(TcpStream::connect(addr).await.unwrap());
    }
    // Beyond 64 they are ended at once; another host gets in all the same.
    let connector = bind(&["127.0.0.3"], Carriers::Tcp, config()).await;
    let (connected, accepted) = tokio::join!(connector.connect(&ticket), listener.accept());
    transfer(&connected.unwrap(), &accepted.unwrap(), 100_000).await;
    let mut ended = 0;
    for stream in &mut silent {
        let mut byte = [0];
        let read = timeout(Duration::from_millis(1), stream.read(&mut byte)).await;
        ended += usize::from(read.is_ok());
    }
    assert!(ended >= 200 - 64, "{ended}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_nobody_listens_on_is_named() {
    let free = std::net::TcpListener::bind("127.0.0.5:0").unwrap();
    let addr = free.local_addr().unwrap();
    drop(free);
    let (_listener, mut ticket) = listener(&["127.0.0.1"], config()).await;
    ticket.addresses = vec![addr];
    let config = Config {
        connect_timeout: Duration::from_secs(2),
        ..config()
    };
    let connector = bind(&["127.0.0.3"], Carriers::Tcp, config).await;
    let error = connector.connect(&ticket).await.unwrap_err();
    assert!(matches!(error, ConnectError::TimedOut(_)), "{error}");
    let text = error.to_string();
    assert!(text.contains(&format!("TCP to {addr}: ")), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hop_that_accepts_and_never_forwards_doesnt_hold_the_others_up() {
    let (listener, mut ticket) = listener(&["127.0.0.1"], config()).await;
    let dead = TcpListener::bind("127.0.0.8:0").await.unwrap();
    let target = ticket.addresses[0];
    ticket.addresses = vec![dead.local_addr().unwrap(), target];
    let connector = bind(&["127.0.0.3"], Carriers::Tcp, config()).await;
    let (connected, accepted) = tokio::join!(connector.connect(&ticket), listener.accept());
    let (connected, accepted) = (connected.unwrap(), accepted.unwrap());
    transfer(&connected, &accepted, 3_000_000).await;
    let stats = connected.stats();
    let used = stats.paths.iter().filter(|p| p.state == PathState::Active);
    assert!(used.into_iter().all(|p| p.remote == target));
}

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use manyway_network::{Change, Limit, LinkConfig, Loss, Queue, Timetable};
use manyway_units::{Rate, Time};

use super::*;

/// Long enough for a loaded machine; only failing tests wait for it.
const PATIENCE: Duration = Duration::from_secs(20);

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

fn link_config(mbps: f64, delay_ms: u64) -> LinkConfig {
    LinkConfig {
        queue: Queue::DropTail(Limit::Packets(1000)),
        ..LinkConfig::new(Rate::from_mbps(mbps), Duration::from_millis(delay_ms))
    }
}

fn start(target: &UdpSocket, forward: LinkConfig, reverse: LinkConfig) -> UdpLink {
    UdpLink::start(UdpLinkConfig {
        listen: "127.0.0.1:0".parse().unwrap(),
        target: target.local_addr().unwrap(),
        forward,
        reverse,
        header_bytes: UdpLinkConfig::HEADER_BYTES,
    })
    .unwrap()
}

#[test]
fn datagrams_get_through_both_ways_in_order() {
    let (server, client) = (socket(), socket());
    let link = start(&server, link_config(100.0, 2), link_config(100.0, 2));
    client.connect(link.local_addr()).unwrap();
    let mut buffer = [0; 2048];
    // Few enough at a time for the smallest default socket buffer.
    for round in 0..10u32 {
        let numbers = round * 20..(round + 1) * 20;
        for n in numbers.clone() {
            let mut payload = vec![0x5a; 1000];
            payload[..4].copy_from_slice(&n.to_be_bytes());
            client.send(&payload).unwrap();
        }
        for n in numbers.clone() {
            let (len, from) = server.recv_from(&mut buffer).unwrap();
            assert_eq!((len, &buffer[..4]), (1000, &n.to_be_bytes()[..]));
            // Answers are of another size, to tell the directions apart.
            server.send_to(&buffer[..600], from).unwrap();
        }
        for n in numbers {
            let len = client.recv(&mut buffer).unwrap();
            assert_eq!((len, &buffer[..4]), (600, &n.to_be_bytes()[..]));
        }
    }
    let stats = link.stats();
    assert_eq!(
        (stats.forward.delivered, stats.forward.bytes_delivered),
        (200, 200 * 1028)
    );
    assert_eq!(
        (stats.reverse.delivered, stats.reverse.bytes_delivered),
        (200, 200 * 628)
    );
    assert_eq!((stats.clients_refused, stats.send_errors), (0, 0));
}

#[test]
fn delay_and_rate_are_never_undercut() {
    let (server, client) = (socket(), socket());
    let link = start(&server, link_config(8.0, 30), link_config(1000.0, 20));
    client.connect(link.local_addr()).unwrap();
    let mut buffer = [0; 2048];
    let began = Instant::now();
    // 40 × 1000 B on the wire at 8 Mbps: 40 ms. A loaded machine makes it later, never earlier.
    for _ in 0..40 {
        client.send(&[1; 972]).unwrap();
    }
    let mut from = None;
    for _ in 0..40 {
        from = Some(server.recv_from(&mut buffer).unwrap().1);
    }
    let one_way = began.elapsed();
    assert!(one_way >= Duration::from_millis(70), "{one_way:?}");
    server.send_to(b"done", from.unwrap()).unwrap();
    client.recv(&mut buffer).unwrap();
    let round_trip = began.elapsed();
    assert!(round_trip >= Duration::from_millis(90), "{round_trip:?}");
}

#[test]
fn a_full_queue_drops() {
    let (server, client) = (socket(), socket());
    // 2 s a packet, so that a slow test machine can't drain it meanwhile.
    let slow = LinkConfig {
        queue: Queue::DropTail(Limit::Packets(2)),
        ..link_config(0.004, 0)
    };
    let link = start(&server, slow, link_config(1.0, 0));
    client.connect(link.local_addr()).unwrap();
    for _ in 0..10 {
        client.send(&[1; 972]).unwrap();
    }
    let deadline = Instant::now() + PATIENCE;
    while link.stats().forward.offered < 10 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    let stats = link.stats().forward;
    assert_eq!(stats.offered, stats.delivered + stats.dropped_queue);
    assert!(stats.offered == 10 && stats.dropped_queue >= 5, "{stats:?}");
}

#[test]
fn clients_are_kept_apart_and_a_link_that_is_down_is_dark() {
    let server = socket();
    let link = start(&server, link_config(100.0, 0), link_config(100.0, 0));
    let clients = [socket(), socket()];
    let mut buffer = [0; 64];
    for (name, client) in [b"one", b"two"].into_iter().zip(&clients) {
        client.send_to(name, link.local_addr()).unwrap();
        let (len, from) = server.recv_from(&mut buffer).unwrap();
        server.send_to(&buffer[..len], from).unwrap();
    }
    for (name, client) in [b"one", b"two"].into_iter().zip(&clients) {
        let len = client.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..len], name);
    }
    link.set_up(false);
    clients[0].send_to(b"lost", link.local_addr()).unwrap();
    let deadline = Instant::now() + PATIENCE;
    while link.stats().forward.dropped_down == 0 {
        assert!(Instant::now() < deadline, "{:?}", link.stats());
        std::thread::sleep(Duration::from_millis(2));
    }
    link.set_up(true);
    clients[0].send_to(b"back", link.local_addr()).unwrap();
    let (len, _) = server.recv_from(&mut buffer).unwrap();
    assert_eq!(&buffer[..len], b"back");
}

#[test]
fn a_timetable_begins_with_the_link() {
    let (server, client) = (socket(), socket());
    let change = |at, up| Change {
        at,
        up: Some(up),
        ..Change::default()
    };
    let up_later = LinkConfig {
        timetable: Timetable {
            changes: vec![
                change(Time::ZERO, false),
                change(Time::from_millis(100), true),
            ],
            period: None,
        },
        ..link_config(100.0, 0)
    };
    let began = Instant::now();
    let link = start(&server, up_later, link_config(100.0, 0));
    client.connect(link.local_addr()).unwrap();
    server
        .set_read_timeout(Some(Duration::from_millis(10)))
        .unwrap();
    let mut buffer = [0; 64];
    loop {
        client.send(b"knock").unwrap();
        if server.recv(&mut buffer).is_ok() {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "{:?}", link.stats());
    }
    assert!(began.elapsed() >= Duration::from_millis(100));
    let stats = link.stats().forward;
    assert_eq!(stats.offered, stats.delivered + stats.dropped_down);
}

#[test]
fn refuses_what_cannot_work_and_frees_its_address_when_dropped() {
    let server = socket();
    let link = start(&server, link_config(1.0, 1), link_config(1.0, 1));
    let config = UdpLinkConfig {
        listen: link.local_addr(),
        target: server.local_addr().unwrap(),
        forward: link_config(1.0, 1),
        reverse: link_config(1.0, 1),
        header_bytes: 28,
    };
    let error = UdpLink::start(config.clone()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    assert!(
        error.to_string().contains(&link.local_addr().to_string()),
        "{error}"
    );
    drop(link);
    drop(UdpLink::start(config.clone()).unwrap());

    let reverse = LinkConfig {
        loss: Loss::Bernoulli(2.0),
        ..link_config(1.0, 1)
    };
    let error = UdpLink::start(UdpLinkConfig { reverse, ..config }).unwrap_err();
    assert!(error.to_string().contains("`loss`"), "{error}");
}

/// A relay's place: its senders behind link 0 alone, its receiver behind link 1; a direct way over
/// both.
#[test]
fn links_are_shared_between_proxies_and_routes_differ_by_client() {
    let (relay, receiver, sender) = (socket(), socket(), socket());
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let links = [8.0, 1000.0].map(|mbps| [link_config(mbps, 5), link_config(mbps, 5)]);
    let at = |socket: &UdpSocket| socket.local_addr().unwrap();
    let network = UdpNetwork::start(UdpNetworkConfig {
        links: links.into(),
        proxies: vec![
            UdpProxy {
                listen: any,
                target: at(&receiver),
                route: vec![Hop::forward(0), Hop::forward(1)],
                others: Vec::new(),
            },
            UdpProxy {
                listen: any,
                target: at(&relay),
                route: vec![Hop::forward(0)],
                others: vec![(at(&receiver), vec![Hop::reverse(1)])],
            },
        ],
        header_bytes: 28,
    })
    .unwrap();
    let (direct, detour) = (
        network.proxy_addr(0).unwrap(),
        network.proxy_addr(1).unwrap(),
    );
    assert_eq!(network.proxy_addr(2), None);
    let mut buffer = [0; 2048];

    // The receiver shows itself to the relay, and is reached where it was seen.
    receiver.send_to(b"hello", detour).unwrap();
    let (_, seen) = relay.recv_from(&mut buffer).unwrap();
    let began = Instant::now();
    // Ten each of 1000 B on the wire at 8 Mbps: the link they share takes 20 ms for all, and each
    // has 5 ms of delay.
    for _ in 0..10 {
        sender.send_to(&[1; 972], direct).unwrap();
        sender.send_to(&[2; 972], detour).unwrap();
    }
    for _ in 0..10 {
        let (len, _) = relay.recv_from(&mut buffer).unwrap();
        relay.send_to(&buffer[..len], seen).unwrap();
    }
    let mut from = Vec::new();
    for _ in 0..20 {
        let (len, source) = receiver.recv_from(&mut buffer).unwrap();
        assert_eq!(len, 972);
        if buffer[0] == 2 {
            assert_eq!(source, detour);
        }
        from.push(source);
    }
    assert!(began.elapsed() >= Duration::from_millis(30));
    assert_eq!(from.iter().filter(|at| **at == detour).count(), 10);
    let offered = |hop| network.link_stats(hop).offered;
    assert_eq!(
        [Hop::forward(0), Hop::forward(1), Hop::reverse(1)].map(offered),
        [20, 20, 1]
    );
    assert_eq!((network.clients_refused(), network.send_errors()), (0, 0));
}

#[test]
fn a_route_over_a_link_that_isnt_there_is_refused() {
    let error = UdpNetwork::start(UdpNetworkConfig {
        links: vec![[link_config(1.0, 1), link_config(1.0, 1)]],
        proxies: vec![UdpProxy {
            listen: "127.0.0.1:0".parse().unwrap(),
            target: "127.0.0.1:9".parse().unwrap(),
            route: vec![Hop::forward(0), Hop::reverse(1)],
            others: Vec::new(),
        }],
        header_bytes: 28,
    })
    .unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    assert!(error.to_string().contains("link 1 of 1"), "{error}");
}

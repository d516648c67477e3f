//! Paths that are narrow, and one that goes dark: userspace links in front of the listener's
//! socket.

use std::net::SocketAddr;
use std::time::Duration;

use manyway_network::{Limit, LinkConfig, Queue};
use manyway_runtime::{Connection, Endpoint, Event, PathDownReason, PathEvent, PathStats};
use manyway_testbed::{UdpLink, UdpLinkConfig};
use tokio::io::AsyncReadExt;

use crate::common::{Data, config, endpoint, next_event, write_all};

/// A connection of which each path leads through a link of its own.
struct Linked {
    links: Vec<UdpLink>,
    connected: Connection,
    accepted: Connection,
    _endpoints: (Endpoint, Endpoint),
}

impl Linked {
    async fn new(rates: &[&str]) -> Self {
        let listener = endpoint(&["127.0.0.1"], config()).await;
        let connector = endpoint(&["127.0.0.1"], config()).await;
        let mut ticket = listener.listen().unwrap();
        let target = ticket.addresses[0];
        let links: Vec<_> = rates.iter().map(|rate| link(target, rate)).collect();
        ticket.addresses = links.iter().map(UdpLink::local_addr).collect();
        let (connected, accepted) = tokio::join!(connector.connect(&ticket), listener.accept());
        Self {
            links,
            connected: connected.unwrap(),
            accepted: accepted.unwrap(),
            _endpoints: (listener, connector),
        }
    }

    fn path(&self, link: usize) -> PathStats {
        let remote = self.links[link].local_addr();
        let paths = self.connected.stats().paths;
        paths.into_iter().find(|p| p.remote == remote).unwrap()
    }
}

fn link(target: SocketAddr, rate: &str) -> UdpLink {
    let link = LinkConfig {
        queue: Queue::DropTail(Limit::Packets(50)),
        ..LinkConfig::new(rate.parse().unwrap(), Duration::from_millis(5))
    };
    UdpLink::start(UdpLinkConfig {
        listen: "127.0.0.1:0".parse().unwrap(),
        target,
        forward: link.clone(),
        reverse: link,
        header_bytes: UdpLinkConfig::HEADER_BYTES,
    })
    .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn narrow_links_share_the_load() {
    let len = 5_000_000;
    let linked = Linked::new(&["40 Mbps", "20 Mbps"]).await;
    let (mut send, _receive) = linked.connected.open_bi().await.unwrap();
    let accepted = linked.accepted.clone();
    let reader = tokio::spawn(async move {
        let (_send, mut receive) = accepted.accept_bi().await.unwrap();
        crate::common::read_all(&mut receive, 11, len).await;
    });
    write_all(&mut send, 11, len).await;
    reader.await.unwrap();
    for link in [0, 1] {
        let path = linked.path(link);
        assert!(path.stream_bytes_sent > len as u64 / 50, "{path:#?}");
        // No packet passes a link faster than its propagation delay.
        assert!(path.min_rtt >= Duration::from_millis(10), "{path:#?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_two_links_goes_dark_and_nothing_is_lost() {
    let (len, before) = (5_000_000, 1_000_000);
    let linked = Linked::new(&["20 Mbps", "20 Mbps"]).await;
    let mut events = linked.connected.events();
    let sender = tokio::spawn({
        let connected = linked.connected.clone();
        async move {
            let (mut send, _receive) = connected.open_bi().await.unwrap();
            write_all(&mut send, 12, len).await;
        }
    });
    let (_send, mut receive) = linked.accepted.accept_bi().await.unwrap();
    let mut data = Data::new(12, len);
    let mut first = vec![0; before];
    receive.read_exact(&mut first).await.unwrap();
    assert!(data.take(before) == first);
    linked.links[0].set_up(false);
    let mut rest = Vec::new();
    receive.read_to_end(&mut rest).await.unwrap();
    assert!(data.take(len) == rest && rest.len() == len - before);
    sender.await.unwrap();
    let dark = linked.links[0].local_addr();
    loop {
        match next_event(&mut events).await {
            Event::Path(PathEvent::Down { remote, reason, .. }) if remote == dark => {
                break assert_eq!(reason, PathDownReason::Stalled);
            }
            other => assert!(!matches!(other, Event::Closed(_)), "{other:?}"),
        }
    }
}

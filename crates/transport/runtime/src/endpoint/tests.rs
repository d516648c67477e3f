//! How often a driver is woken.

use std::net::UdpSocket;
use std::pin::Pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc;
use std::task::{Context, Poll};
use std::thread;
use std::time::Instant;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::driver::Driver;

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const DELAY: Duration = Duration::from_millis(10);
/// Between two packets: 196 Mbps of full ones.
const SPACING: Duration = Duration::from_micros(60);

/// A driver whose turns are counted.
struct Counted(Driver, Arc<AtomicU64>);

impl Future for Counted {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.1.fetch_add(1, Relaxed);
        Pin::new(&mut self.0).poll(cx)
    }
}

fn config() -> Config {
    Config {
        max_datagram: 1472,
        ..Config::default()
    }
}

fn listener(turns: Arc<AtomicU64>) -> Endpoint {
    let place = Place {
        ip: HERE,
        device: None,
    };
    let sockets = Sockets::bind(&BTreeSet::from([place]), 0).unwrap();
    let session = session::Endpoint::new(Arc::new(config()), [7; 32]).unwrap();
    let selection = InterfaceSelection::default();
    let shared = Shared::new(Clock::start(), session, selection, TcpOptions::default());
    let endpoint = Endpoint::hold(shared.clone());
    tokio::spawn(Counted(Driver::new(shared, sockets), turns));
    endpoint
}

/// Sends on what `from` gets, each packet by itself, and counts it. Ends with the process.
fn link(from: UdpSocket, send: impl Fn(SocketAddr, &[u8]) + Send + 'static) -> Arc<AtomicU64> {
    let (enter, entered) = mpsc::channel::<(Instant, SocketAddr, Vec<u8>)>();
    let passed = Arc::new(AtomicU64::new(0));
    let count = passed.clone();
    thread::spawn(move || {
        let mut buffer = [0; 65_536];
        while let Ok((len, peer)) = from.recv_from(&mut buffer) {
            let _ = enter.send((Instant::now() + DELAY, peer, buffer[..len].to_vec()));
        }
    });
    thread::spawn(move || {
        let mut slot = Instant::now();
        for (due, peer, data) in entered {
            slot = due.max(slot + SPACING);
            thread::sleep(slot.saturating_duration_since(Instant::now()));
            send(peer, &data);
            count.fetch_add(1, Relaxed);
        }
    });
    passed
}

/// Links to `there` and back; where they begin, and how many packets have passed towards it.
fn links(there: SocketAddr) -> (SocketAddr, Arc<AtomicU64>) {
    let bind = || UdpSocket::bind((HERE, 0)).unwrap();
    let (near, far) = (bind(), bind());
    let entry = near.local_addr().unwrap();
    let host = Arc::new(Mutex::new(None));
    let known = host.clone();
    let (out, back) = (far.try_clone().unwrap(), near.try_clone().unwrap());
    let passed = link(near, move |peer, data| {
        *known.lock().unwrap() = Some(peer);
        let _ = out.send_to(data, there);
    });
    link(far, move |_, data| {
        let host = *host.lock().unwrap();
        let _ = back.send_to(data, host.unwrap());
    });
    (entry, passed)
}

/// The receiver's turns and packets in a transfer of some megabytes.
async fn transfer() -> (u64, u64) {
    const LEN: usize = 6_000_000;
    let turns = Arc::new(AtomicU64::new(0));
    let listener = listener(turns.clone());
    let mut ticket = listener.listen().unwrap();
    let (entry, passed) = links(ticket.addresses[0]);
    ticket.addresses = vec![entry];
    let options = EndpointOptions {
        config: config(),
        paths: vec![PathSelector::Address(HERE)],
        ..EndpointOptions::default()
    };
    let connector = Endpoint::bind(options).await.unwrap();
    let (connected, accepted) = tokio::join!(connector.connect(&ticket), listener.accept());
    let (connected, accepted) = (connected.unwrap(), accepted.unwrap());
    let write = async {
        let (mut send, _receive) = connected.open_bi().await.unwrap();
        send.write_all(&vec![1; LEN]).await.unwrap();
        send.shutdown().await.unwrap();
    };
    let read = async {
        let (_send, mut receive) = accepted.accept_bi().await.unwrap();
        let mut got = Vec::new();
        receive.read_to_end(&mut got).await.unwrap();
        assert_eq!(got.len(), LEN);
    };
    tokio::join!(write, read);
    (turns.load(Relaxed), passed.load(Relaxed))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dense_packets_take_a_turn_for_several() {
    // A host that is busy with other things may let the links carry too little for that.
    let mut seen = Vec::new();
    for _ in 0..5 {
        let (turns, packets) = transfer().await;
        if 2 * turns < packets {
            return;
        }
        seen.push((turns, packets));
    }
    panic!("turns and packets: {seen:?}");
}

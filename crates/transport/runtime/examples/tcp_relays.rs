//! Two relays over TCP, behind emulated links of 20 and 10 Mbit/s: what arrives, against the most
//! that can; and what memory it takes.
//!
//!     cargo run --release -p manyway-runtime --example tcp_relays
//!
//! The links are on the level of TCP: each takes from one connection and gives to another at its
//! rate, with 8 KiB and two socket buffers in between, and stops reading when it can't send on.
//! With one receiver the optimum of the paper's linear program is the sum of the links' rates.

#![allow(clippy::print_stdout, reason = "it is what this is for")]

use std::fs;
use std::time::Duration;

use manyway_runtime::{
    Carriers, Config, Connection, Endpoint, EndpointOptions, TcpOptions, Ticket,
};
use manyway_session::RelayAccess;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, sleep};

#[path = "../tests/it/relay.rs"]
mod relay;
#[path = "../tests/it/throttle.rs"]
mod throttle;

use relay::{Running, start};

const RATES: [f64; 2] = [20.0, 10.0];
/// What is sent each time, in bytes: 20 s at both links' rates.
const LEN: usize = 75_000_000;
/// From here on it counts as under way.
const RAMP: u64 = 10_000_000;
const RUNS: usize = 3;

#[tokio::main]
async fn main() {
    let before = memory();
    let mut highest = 0;
    for run in 1..=RUNS {
        highest = highest.max(measure(run).await);
    }
    println!(
        "memory of sender, receiver, two relays and links together: {} KiB before, at most {} KiB",
        before / 1024,
        highest / 1024
    );
}

/// One transfer; the most memory that it had.
async fn measure(run: usize) -> u64 {
    let keys = [0, 1].map(|_| tempfile::tempdir().expect("a directory"));
    let relays = keys
        .each_ref()
        .map(|keys| start(keys.path(), "127.0.0.1:0"));
    let (listener, ticket) = listener(&relays).await;
    let mut accesses = Vec::new();
    for (relay, mbps) in relays.iter().zip(RATES) {
        let mut access = relay.access.clone();
        let link = throttle::throttle(access.relay.address, mbps * 125_000.0).await;
        access.relay.address = link.expect("a link");
        accesses.push(access);
    }
    let connector = bind().await;
    let (sent, got) = tokio::join!(
        send(&connector, &ticket, &accesses),
        receive(&listener, LEN)
    );
    let (whole, steady, highest) = sent;
    assert_eq!(got, LEN, "nothing is lost");
    let most: f64 = RATES.iter().sum();
    println!(
        "run {run}: {whole:.2} Mbit/s from dialling to the end, {steady:.2} Mbit/s once under way; \
         optimum {most:.0}: {:.1} % and {:.1} %",
        100.0 * whole / most,
        100.0 * steady / most
    );
    for (relay, mbps) in relays.iter().zip(RATES) {
        let streams = relay.handle.streams().expect("a TCP side");
        println!(
            "  relay behind {mbps:.0} Mbit/s: {} bytes, {} streams",
            streams.forwarded_bytes, streams.spliced
        );
    }
    for relay in relays {
        relay.stop().await;
    }
    highest
}

async fn listener(relays: &[Running]) -> (Endpoint, Ticket) {
    let listener = bind().await;
    let mut ticket = listener.listen().expect("sockets");
    let addresses: Vec<_> = relays.iter().map(|it| it.access.relay).collect();
    listener.listen_at(&mut ticket, &addresses);
    ticket.addresses.clear();
    (listener, ticket)
}

async fn bind() -> Endpoint {
    let options = EndpointOptions {
        config: Config::default(),
        paths: vec!["127.0.0.1".parse().expect("an address")],
        tcp: TcpOptions {
            carriers: Carriers::Tcp,
            congestion: None,
        },
        ..EndpointOptions::default()
    };
    Endpoint::bind(options).await.expect("loopback")
}

/// Rates over the whole time and once under way, and the most memory meanwhile.
async fn send(connector: &Endpoint, ticket: &Ticket, relays: &[RelayAccess]) -> (f64, f64, u64) {
    let began = Instant::now();
    let connected = connector.connect_through(ticket, relays).await;
    let connected = connected.expect("a connection");
    let (mut send, _) = connected.open_bi().await.expect("a stream");
    let writing = async {
        let piece = vec![7; 250_000];
        for _ in 0..LEN / piece.len() {
            send.write_all(&piece).await.expect("a live connection");
        }
        send.shutdown().await.expect("a live connection");
    };
    let ((), steady, highest) = tokio::join!(writing, under_way(&connected), highest(&connected));
    let whole = mbps(LEN as u64, began.elapsed());
    connected.close(0, "done");
    (whole, steady, highest)
}

/// The rate from RAMP to near the end.
async fn under_way(connection: &Connection) -> f64 {
    let acked = || connection.stats().bytes_acked;
    while acked() < RAMP {
        sleep(Duration::from_millis(10)).await;
    }
    let (from, began) = (acked(), Instant::now());
    while acked() < LEN as u64 - RAMP / 10 {
        sleep(Duration::from_millis(10)).await;
    }
    mbps(acked() - from, began.elapsed())
}

async fn highest(connection: &Connection) -> u64 {
    let mut highest = 0;
    while connection.stats().bytes_acked < LEN as u64 {
        highest = highest.max(memory());
        sleep(Duration::from_millis(100)).await;
    }
    highest
}

async fn receive(listener: &Endpoint, len: usize) -> usize {
    let accepted = listener.accept().await.expect("an open endpoint");
    let (_, mut stream) = accepted.accept_bi().await.expect("a stream");
    let (mut buffer, mut total) = (vec![0; 1 << 18], 0);
    while total < len {
        match stream.read(&mut buffer).await.expect("a live connection") {
            0 => break,
            read => total += read,
        }
    }
    accepted.closed().await;
    total
}

fn mbps(bytes: u64, time: Duration) -> f64 {
    bytes as f64 * 8e-6 / time.as_secs_f64()
}

/// The process's memory in bytes.
fn memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let words = line.and_then(|line| line.split_whitespace().next());
    words.and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) * 1024
}

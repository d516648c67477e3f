//! CPU per byte over loopback by packet size, all sizes in turn in one run so that they share the
//! machine's mood.
//!
//! `cargo run --release -p manyway-runtime --example packet_sizes [megabytes] [rounds]`
#![allow(clippy::print_stdout)]

use std::time::Duration;

use bytes::Bytes;
use manyway_runtime::{Config, Endpoint, EndpointOptions};
use nix::sys::resource::{UsageWho, getrusage};
use tokio::io::AsyncWriteExt;

/// Datagrams of the base size, of Ethernet's with IPv4, and of jumbo frames.
const SIZES: [usize; 3] = [1200, 1472, 8952];

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let mut arguments = std::env::args().skip(1).filter_map(|a| a.parse().ok());
    let megabytes: usize = arguments.next().unwrap_or(500);
    let rounds: usize = arguments.next().unwrap_or(5);
    let mut spent = SIZES.map(|_| Vec::new());
    for _ in 0..rounds {
        for (size, spent) in SIZES.into_iter().zip(&mut spent) {
            spent.push(transfer(size, megabytes * 1_000_000).await);
        }
    }
    // The median: a round in which others had the machine counts for little.
    let medians = spent.map(|mut rounds| {
        rounds.sort_by(f64::total_cmp);
        rounds[rounds.len() / 2]
    });
    println!("packet   ns CPU per byte, both sides   against 1200");
    for (size, ns) in SIZES.into_iter().zip(medians) {
        println!("{size:>6}   {ns:>27.3}   {:>12.3}", ns / medians[0]);
    }
}

/// CPU time of this process in ns per byte for a transfer from one endpoint to another.
async fn transfer(size: usize, len: usize) -> f64 {
    let config = Config {
        max_datagram: size,
        initial_datagram: size,
        ..Config::default()
    };
    let (listener, connector) = (endpoint(&config).await, endpoint(&config).await);
    let ticket = listener.listen().expect("an address");
    let (connected, accepted) = tokio::join!(connector.connect(&ticket), listener.accept());
    let (connected, accepted) = (connected.expect("connected"), accepted.expect("accepted"));
    let before = cpu();
    let sender = tokio::spawn(async move {
        let (mut send, _receive) = connected.open_bi().await.expect("a stream");
        let chunk = Bytes::from(vec![7; 1 << 20]);
        let mut left = len;
        while left > 0 {
            let part = left.min(chunk.len());
            send.write_all(&chunk[..part]).await.expect("written");
            left -= part;
        }
        send.shutdown().await.expect("finished");
        connected
    });
    let (_send, mut receive) = accepted.accept_bi().await.expect("a stream");
    let mut sink = tokio::io::sink();
    let read = tokio::io::copy(&mut receive, &mut sink).await;
    assert_eq!(read.expect("read to the end"), len as u64);
    let spent = cpu() - before;
    drop(sender.await);
    spent.as_nanos() as f64 / len as f64
}

async fn endpoint(config: &Config) -> Endpoint {
    let options = EndpointOptions {
        config: config.clone(),
        paths: vec!["127.0.0.1".parse().expect("an address")],
        ..EndpointOptions::default()
    };
    Endpoint::bind(options).await.expect("a socket")
}

fn cpu() -> Duration {
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("always permitted");
    let time =
        |t: nix::sys::time::TimeVal| Duration::new(t.tv_sec() as u64, t.tv_usec() as u32 * 1000);
    time(usage.user_time()) + time(usage.system_time())
}

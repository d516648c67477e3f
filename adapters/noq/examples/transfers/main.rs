//! noq connections of two paths under coupled laws and under noq's own CUBIC, over emulated links
//! of this machine: `cargo run --release --example transfers -- [LAW…]`.
//!
//! The first column is a connection with two links to itself, of 20 and 10 Mbps. The others are one
//! whose two paths lie over one link of 20 Mbps, beside a connection of one path under noq's CUBIC.

#![allow(clippy::print_stdout, reason = "an example")]

#[allow(dead_code, reason = "tests use the rest")]
mod lab;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use manyway_network::LinkConfig;
use manyway_noq::Coupling;
use manyway_units::Rate;
use noq::{Connection, TransportConfig};

use lab::{Connected, Lab, multipath};

/// Left out: slow starts are no matter of laws.
const WARM_UP: Duration = Duration::from_secs(3);
const MEASURED: Duration = Duration::from_secs(10);
/// What noq does by itself.
const NOQ: &str = "noq";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut laws: Vec<String> = std::env::args().skip(1).collect();
    if laws.is_empty() {
        laws = [NOQ, "lia", "balia", "auto"].map(str::to_owned).to_vec();
    }
    for law in &laws {
        transport(law)?;
    }
    println!("            two links of its own    one link beside one flow");
    println!("law         Mbps                    Mbps   the other's   share");
    for law in &laws {
        let own = run(&[link(20.0, 10), link(10.0, 30)], &[(law, &[0, 1])]).await?;
        let flows: [(&str, &[usize]); 2] = [(law, &[0, 0]), (NOQ, &[0])];
        let shared = run(&[link(20.0, 10)], &flows).await?;
        let share = shared[0] / (shared[0] + shared[1]);
        println!(
            "{law:<12}{:<24.1}{:<7.1}{:<14.1}{share:.2}",
            own[0], shared[0], shared[1]
        );
    }
    Ok(())
}

fn link(mbps: f64, delay_ms: u64) -> LinkConfig {
    LinkConfig::new(Rate::from_mbps(mbps), Duration::from_millis(delay_ms))
}

/// For one connection.
fn transport(law: &str) -> anyhow::Result<Arc<TransportConfig>> {
    if law == NOQ {
        return Ok(Arc::new(multipath()));
    }
    let coupling = Coupling::new(law.parse()?)?;
    Ok(coupling.for_connection(&multipath()))
}

/// Goodput of each flow in Mbps, all at once. A flow is its law and the links of its paths.
async fn run(links: &[LinkConfig], flows: &[(&str, &[usize])]) -> anyhow::Result<Vec<f64>> {
    let routes: Vec<&[usize]> = flows.iter().map(|(_, route)| *route).collect();
    let lab = Lab::new(links, &routes)?;
    let mut receivers = Vec::new();
    let mut senders = Vec::new();
    for (index, (law, _)) in flows.iter().enumerate() {
        let ends = [transport(law)?, transport(law)?];
        let Connected { client, server, .. } = lab.connect(index, ends).await?;
        senders.push(tokio::spawn(send_on(client)));
        receivers.push(tokio::spawn(goodput(server)));
    }
    let mut mbps = Vec::new();
    for receiver in receivers {
        mbps.push(receiver.await??);
    }
    senders.iter().for_each(|sender| sender.abort());
    Ok(mbps)
}

/// Sends until it is stopped.
async fn send_on(connection: Connection) -> anyhow::Result<()> {
    let mut stream = connection.open_uni().await?;
    let chunk = vec![0x5a; 1 << 16];
    loop {
        stream.write_all(&chunk).await?;
    }
}

/// Mbps that arrive after the warm-up.
async fn goodput(connection: Connection) -> anyhow::Result<f64> {
    let mut stream = connection.accept_uni().await?;
    let mut buffer = vec![0; 1 << 16];
    let start = tokio::time::Instant::now();
    let mut bytes = 0;
    while start.elapsed() < WARM_UP + MEASURED {
        let read = stream.read(&mut buffer).await?;
        let read = read.context("the sender has ended the stream")?;
        if start.elapsed() > WARM_UP {
            bytes += read;
        }
    }
    Ok(bytes as f64 * 8e-6 / MEASURED.as_secs_f64())
}

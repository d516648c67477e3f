//! How much a registry has to do for a fleet: 100,000 relays with `--full`, a few without.
//!
//! `cargo run --release -p manyway-registry --example load -- --full`
//!
//! The registry is a process of its own with one thread, so it can't use more than one core. Its
//! CPU time and memory are the kernel's figures (/proc).

// What it measures is printed.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod driver;

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs};

use manyway_registry::api::HEARTBEAT_S;
use manyway_registry::server::{Connections, Server, ServerConfig};
use manyway_registry::store::Store;
use manyway_registry::{Core, Limits, RegistryKey, Tokens, tls};
use rand::SeedableRng;
use rand::rngs::ChaCha20Rng;

use driver::{Beats, Outcome, TOKENS, Target};

struct Size {
    relays: usize,
    connections: usize,
    rounds: usize,
    fresh: usize,
}

const FULL: Size = Size {
    relays: 100_000,
    connections: 5000,
    rounds: 2,
    fresh: 20_000,
};

const SHORT: Size = Size {
    relays: 2000,
    connections: 100,
    rounds: 1,
    fresh: 500,
};

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("--serve") => serve(),
        Some("--full") => measure(&FULL),
        None => measure(&SHORT),
        Some(other) => eprintln!("unknown option {other}: there is --full"),
    }
}

/// The registry: one thread, until standard input ends.
fn serve() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let key = RegistryKey::generate(&mut ChaCha20Rng::seed_from_u64(1));
        let limits = Limits {
            allow_private: true,
            relays_per_token: 1_000_000,
            // All come from one address.
            rate: 1_000_000,
            probes: 1_000_000,
            ..Limits::default()
        };
        let config = ServerConfig {
            listen: vec!["127.0.0.1:0".parse().expect("an address")],
            tls: tls::pinned_server(&key).expect("TLS"),
            core: Core::new(key, Tokens::parse(TOKENS).expect("tokens"), limits, [7; 32]),
            store: Store::Memory,
            connections: Connections {
                all: 100_000,
                per_source: 100_000,
                ..Connections::default()
            },
        };
        let server = Server::bind(config).await.expect("a port");
        println!("{} {}", server.addresses()[0], server.id());
        let ended = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()));
        server
            .run(async { ended.await.map(drop).unwrap_or(()) })
            .await;
    });
}

struct Registry {
    process: Child,
    target: Target,
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

impl Registry {
    fn start() -> Self {
        let program = env::current_exe().expect("a path");
        let mut process = Command::new(program)
            .arg("--serve")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let mut line = String::new();
        let stdout = process.stdout.take().expect("it is piped");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        let (address, key) = line.trim().split_once(' ').expect("two words");
        let target = Target::new(
            address.parse().expect("an address"),
            key.parse().expect("a key"),
        );
        Self { process, target }
    }

    /// CPU time so far, user and system.
    fn cpu(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.process.id())).expect("Linux");
        let fields: Vec<&str> = stat
            .rsplit_once(')')
            .expect("a name")
            .1
            .split(' ')
            .collect();
        let ticks: u64 = [12, 13]
            .iter()
            .map(|at| fields[*at].parse::<u64>().expect("a number"))
            .sum();
        // USER_HZ is 100 on every architecture that we know.
        Duration::from_millis(ticks * 10)
    }

    /// Resident memory in MB.
    fn memory(&self) -> f64 {
        let status =
            fs::read_to_string(format!("/proc/{}/status", self.process.id())).expect("Linux");
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .expect("a line");
        line.trim()
            .trim_end_matches(" kB")
            .parse::<f64>()
            .expect("a number")
            * 1024.0
            / 1e6
    }
}

fn measure(size: &Size) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let registry = Registry::start();
    let rate = size.relays as f64 / f64::from(HEARTBEAT_S);
    println!(
        "| what | requests | errors | per second | CPU of one core | CPU each | latency p50 / p99 \
         / max | memory |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let empty = registry.memory();
    println!("| the registry, empty | | | | | | | {empty:.0} MB |");

    let (start, before) = (Instant::now(), registry.cpu());
    let (leases, failed) = runtime.block_on(driver::enrol(&registry.target, size.relays, 32));
    let enrolled = Outcome {
        errors: failed,
        latencies: vec![Duration::ZERO; leases.len()],
        elapsed: start.elapsed(),
    };
    row("enrolments", &registry, before, &enrolled, false);

    let beats = Beats {
        connections: size.connections,
        rate,
        rounds: size.rounds,
    };
    let mut open = (Duration::ZERO, 0.0);
    let connected = || open = (registry.cpu(), registry.memory());
    let kept = runtime.block_on(driver::heartbeats(
        &registry.target,
        &leases,
        &beats,
        connected,
    ));
    let name = format!("heartbeats over {} kept connections", size.connections);
    row(&name, &registry, open.0, &kept, true);
    let each = (open.1 - empty) * 1e3 / size.connections as f64;
    println!(
        "| (at most {each:.0} kB per kept connection, the fleet included) | | | | | | | {:.0} MB |",
        open.1
    );

    let before = registry.cpu();
    let resumed = runtime.block_on(driver::fresh(&registry.target, &leases, size.fresh, 8));
    row(
        "a connection each, resumed",
        &registry,
        before,
        &resumed,
        true,
    );
    let before = registry.cpu();
    let anew = registry.target.without_resumption();
    let whole = runtime.block_on(driver::fresh(&anew, &leases, size.fresh, 8));
    row(
        "a connection each, whole handshake",
        &registry,
        before,
        &whole,
        true,
    );
    let errors = failed + kept.errors + resumed.errors + whole.errors;
    assert_eq!(errors, 0, "every request is answered");
}

fn row(name: &str, registry: &Registry, before: Duration, outcome: &Outcome, latency: bool) {
    let cpu = (registry.cpu() - before).as_secs_f64();
    let (count, seconds) = (outcome.latencies.len(), outcome.elapsed.as_secs_f64());
    let ms = |share| outcome.quantile(share).as_secs_f64() * 1e3;
    let latency = match latency {
        true => format!("{:.1} / {:.1} / {:.1} ms", ms(0.5), ms(0.99), ms(1.0)),
        false => String::new(),
    };
    println!(
        "| {name} | {count} | {} | {:.0} | {:.0} % | {:.0} µs | {latency} | {:.0} MB |",
        outcome.errors,
        count as f64 / seconds,
        100.0 * cpu / seconds,
        1e6 * cpu / count as f64,
        registry.memory(),
    );
}

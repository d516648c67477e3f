//! What a relay costs beside a plain forwarder that checks nothing, and how much memory its flows
//! take.
//!
//! `cargo run --release -p manyway-relay --example cost -- --out docs/results` writes `relay.md`
//! there; without `--out` it prints it, and `--quick` measures for a few seconds only. Both
//! forwarders read from a UDP socket on loopback in the same batches and write in the same way; the
//! plain one takes the destination from the header, checks nothing and strips nothing. What counts
//! is processor time of the forwarding thread per datagram that left it, so that other processes on
//! the machine disturb little; the two take turns.
#![allow(clippy::print_stdout)]

mod load;
mod plain;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use manyway_relay::server::{Server, ServerConfig};
use manyway_relay::{Config, Reason};
use nix::time::{ClockId, clock_gettime};

use load::Load;

/// Both begin with the same load and take turns; the median counts.
const ROUNDS: usize = 7;

/// The most that the relay may cost, in plain forwarders.
const TARGET: f64 = 1.25;

/// The most that a hundred thousand flows may add to the process's memory: 20 bytes a flow, less
/// than any table of flows would take, and more than an allocator's mood.
const GROWTH: i64 = 2_000_000;

/// What a forwarder did and what it took.
#[derive(Copy, Clone, Debug)]
struct Cost {
    packets: u64,
    nanos: f64,
}

impl Cost {
    fn per_packet(self) -> f64 {
        self.nanos / self.packets.max(1) as f64
    }
}

struct Scene {
    name: &'static str,
    flows: usize,
}

const SCENES: [Scene; 3] = [
    Scene {
        name: "one flow",
        flows: 1,
    },
    Scene {
        name: "100 flows, interleaved, runs of one",
        flows: 100,
    },
    Scene {
        name: "10,000 flows, interleaved, runs of one",
        flows: 10_000,
    },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let quick = arguments.iter().any(|argument| argument == "--quick");
    let out = arguments
        .iter()
        .position(|argument| argument == "--out")
        .and_then(|at| arguments.get(at + 1))
        .map(PathBuf::from);
    let (rounds, time) = match quick {
        true => (1, Duration::from_millis(300)),
        false => (ROUNDS, Duration::from_secs(2)),
    };
    let bench = Bench::new();
    let mut rows = String::new();
    for scene in SCENES {
        rows += &bench.row(&scene, rounds, time);
    }
    let (memory, constant) = bench.memory(if quick { 1000 } else { 100_000 });
    let text = format!(
        "# The relay's cost\n\n\
         Made by `cargo run --release -p manyway-relay --example cost -- --out docs/results`: \
         loopback, datagrams of 1200 bytes behind a grant of 33, sent as fast as one thread can; \
         processor time of the forwarding thread (kernel and user) per datagram that left it, \
         median of {rounds} rounds in which both take turns. The plain forwarder reads and writes \
         as the relay does (recvmmsg, GRO, GSO), takes the destination from the header and checks \
         and strips nothing. Interleaved flows come from one socket, each datagram for another \
         destination than the one before, so that each leaves in a call of its own. Target: at \
         most {TARGET} times the plain forwarder. Machine: {}.\n\n\
         | load | plain, ns | relay, ns | ratio | min - max | target | relay, packets per second \
         of a core |\n\
         |---|---|---|---|---|---|---|\n{rows}\n\
         ## Memory\n\n{memory}",
        machine()
    );
    match out {
        None => print!("{text}"),
        Some(dir) => {
            let file = dir.join("relay.md");
            if let Err(error) = std::fs::write(&file, &text) {
                println!("can't write {}: {error}", file.display());
                return ExitCode::FAILURE;
            }
            println!("{rows}{memory}");
        }
    }
    match constant {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// Processor, kernel, and how busy it was.
fn machine() -> String {
    let read = |file: &str| std::fs::read_to_string(file).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let models: Vec<&str> = cpuinfo
        .lines()
        .filter_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map(|(_, model)| model)
        .collect();
    let load = read("/proc/loadavg");
    format!(
        "{} × {}, Linux {}, load average {} at the end",
        models.len(),
        models.first().unwrap_or(&"an unknown processor"),
        read("/proc/sys/kernel/osrelease").trim(),
        load.split(' ').next().unwrap_or("unknown"),
    )
}

struct Bench {
    keys: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        Self {
            keys: tempfile::tempdir().expect("a directory for the keys"),
        }
    }

    fn server(&self) -> Server {
        let config = ServerConfig {
            listen: vec![SocketAddr::from(([127, 0, 0, 1], 0))],
            key_file: self.keys.path().join("relay.key"),
            rotate: Duration::from_secs(86_400),
            relay: Config {
                allow_private: true,
                ..Config::default()
            },
            streams: None,
        };
        Server::bind(config).expect("a relay on loopback")
    }

    /// The relay under a load for a while.
    fn relay(&self, load: &Load, time: Duration) -> Cost {
        let server = self.server();
        let (address, handle) = (server.addresses()[0], server.handle());
        let thread = named("relay", move || {
            server.run().expect("it runs");
            thread_time()
        });
        load.send(address, time);
        handle.stop();
        let nanos = thread.join().expect("it doesn't panic");
        let counters = handle.counters();
        for reason in Reason::ALL {
            let dropped = counters.dropped_for(reason);
            assert_eq!(dropped, 0, "dropped for {}", reason.name());
        }
        Cost {
            packets: counters.forwarded,
            nanos,
        }
    }

    fn plain(load: &Load, time: Duration) -> Cost {
        let plain = plain::Plain::bind();
        let address = plain.address();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = named("plain", move || {
            let packets = plain.run(&stopped);
            Cost {
                packets,
                nanos: thread_time(),
            }
        });
        load.send(address, time);
        stop.store(true, Ordering::Relaxed);
        thread.join().expect("it doesn't panic")
    }

    fn row(&self, scene: &Scene, rounds: usize, time: Duration) -> String {
        let load = Load::new(self.keys.path(), scene.flows);
        let mut plain = Vec::new();
        let mut relay = Vec::new();
        for _ in 0..rounds {
            plain.push(Self::plain(&load, time).per_packet());
            relay.push(self.relay(&load, time).per_packet());
        }
        let mut ratios: Vec<f64> = relay.iter().zip(&plain).map(|(r, p)| r / p).collect();
        let (plain, relay) = (median(&mut plain), median(&mut relay));
        let ratio = median(&mut ratios);
        format!(
            "| {} | {plain:.0} | {relay:.0} | {ratio:.2} | {:.2} - {:.2} | {} | {:.2} M |\n",
            scene.name,
            ratios[0],
            ratios[ratios.len() - 1],
            if ratio <= TARGET { "holds" } else { "missed" },
            1e3 / relay
        )
    }

    /// The resident memory of a relay's process with one flow and with many; whether it is the
    /// same.
    fn memory(&self, flows: usize) -> (String, bool) {
        let one = Load::new(self.keys.path(), 1);
        let many = Load::new(self.keys.path(), flows);
        let server = self.server();
        let (address, handle) = (server.addresses()[0], server.handle());
        let thread = thread::spawn(move || server.run());
        let time = Duration::from_secs(1);
        one.send(address, time);
        thread::sleep(Duration::from_millis(300));
        let (before, first) = (resident(), handle.counters());
        // Until each flow has surely had its turn, though some datagrams are lost on the way in.
        let enough = first.forwarded + 3 * flows as u64;
        while handle.counters().forwarded < enough {
            many.send(address, time);
            thread::sleep(Duration::from_millis(300));
        }
        let after = resident();
        let checks = handle.counters().checks - first.checks;
        handle.stop();
        thread.join().expect("it doesn't panic").expect("it runs");
        let growth = after as i64 - before as i64;
        let text = format!(
            "Resident memory of the process after one flow {:.1} MB, after {flows} flows {:.1} MB: \
             {} kB more (gate: at most {} kB). {} MB of it are the datagrams of the load. {checks} \
             grants were checked in between. The relay's own tables have a fixed size, to which a \
             test holds them.\n",
            before as f64 / 1e6,
            after as f64 / 1e6,
            growth / 1000,
            GROWTH / 1000,
            many.bytes() / 1_000_000,
        );
        (text, growth <= GROWTH)
    }
}

/// A thread with a name, for profilers.
fn named<T: Send + 'static>(
    name: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> thread::JoinHandle<T> {
    let thread = thread::Builder::new().name(name.into());
    thread.spawn(run).expect("a thread")
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Processor time of the calling thread so far, in nanoseconds.
fn thread_time() -> f64 {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("Linux has it");
    time.tv_sec() as f64 * 1e9 + time.tv_nsec() as f64
}

/// Resident bytes of this process.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("Linux has it");
    let pages = text
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<u64>().ok());
    pages.expect("a number") * 4096
}

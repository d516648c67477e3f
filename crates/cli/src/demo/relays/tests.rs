//! The demo's topology and files under the virtual clock, with real sessions and relays: every run
//! meets the demo's expectations.

use std::time::Duration;

use manyway_network::LinkConfig;
use manyway_session::{Config, PathStats};
use manyway_simulate::stack::{Relayed, RelayedSpec, Source, TrafficConfig};
use manyway_units::Time;

use super::result::{END, EPOCHS, GAIN, LITTLE};
use super::topology::USELESS;
use super::*;

/// The jitter of real hosts. Without it, all runs would be almost equal.
const JITTER: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// The sender is about to send this many bytes with `law`.
fn network(seed: u64, law: &str, bytes: u64, relays: usize) -> Relayed {
    let config = Config {
        cc: law.parse().unwrap(),
        max_datagram: DATAGRAM,
        detours: false,
        ..Config::default()
    };
    let link = |line: &DuplexLink| -> LinkConfig { line.config()[0].clone() };
    let mut links: Vec<LinkConfig> = LINKS.iter().map(link).collect();
    (links[ACCESS].jitter, links[ACCESS].seed) = (JITTER, seed);
    let mut net = Relayed::new(RelayedSpec {
        seed,
        client: config.clone(),
        server: config,
        client_traffic: TrafficConfig {
            sources: vec![Source { bytes: Some(bytes) }],
            ..TrafficConfig::default()
        },
        links,
        direct: Some(vec![ACCESS, CORE]),
        relays: EGRESS.map(|line| [vec![ACCESS], vec![line]]).to_vec(),
        ..RelayedSpec::default()
    })
    .expect("a valid configuration");
    net.connect().expect("addresses that fit");
    net.world.run_until(Time::from_millis(100));
    net.offer(0..relays);
    net
}

/// A transfer, from the connection on.
struct Run {
    seconds: f64,
    /// Loss epochs of the direct path.
    epochs: u64,
    /// Each second what was sent over all paths so far, and what of it through the useless relay.
    sent: Vec<[u64; 2]>,
}

impl Run {
    fn of(seed: u64, law: &str, bytes: u64, relays: usize) -> Self {
        let mut net = network(seed, law, bytes, relays);
        let mut sent = Vec::new();
        while net.server().traffic().goodput().total() < bytes {
            assert!(sent.len() < 600, "seed {seed}: {:#?}", net.client_stats());
            sent.push(sent_by(&mut net));
            let next = net.world.now() + SECOND;
            net.world.run_until(next);
        }
        let received = net.server().traffic().received().next().cloned();
        let received = received.expect("a stream");
        assert_eq!(received.mismatch, None);
        let paths = net.client_stats().paths;
        let direct = paths.iter().filter(|path| !path.relay);
        Run {
            seconds: received.ended.expect("all of it").as_secs_f64(),
            epochs: direct.map(|path| path.loss_events).sum(),
            sent,
        }
    }

    /// The useless relay's share between two seconds.
    fn share(&self, from: usize, to: usize) -> f64 {
        let [all, useless] = [0, 1].map(|n| self.sent[to][n] - self.sent[from][n]);
        useless as f64 / all as f64
    }
}

fn sent_by(net: &mut Relayed) -> [u64; 2] {
    let useless = net.access[USELESS].relay.address;
    let paths = net.client_stats().paths;
    let sum = |which: fn(&PathStats, SocketAddr) -> bool| {
        let these = paths.iter().filter(|path| which(path, useless));
        these.map(|path| path.stream_bytes_sent).sum()
    };
    [
        sum(|_, _| true),
        sum(|path, useless| path.relay && path.remote == useless),
    ]
}

/// Runs are cheap enough for some; `MANYWAY_DEMO_SEEDS` asks for more.
fn seeds() -> std::ops::Range<u64> {
    let wanted = std::env::var("MANYWAY_DEMO_SEEDS").ok();
    0..wanted.map_or(6, |n| n.parse().expect("a number of seeds"))
}

#[test]
fn in_every_run_relays_pay_and_the_useless_one_is_left() {
    let alone = Run::of(0, "reno", SINGLE_SIZE, 0);
    let alone = SINGLE_SIZE as f64 / alone.seconds;
    for seed in seeds() {
        let run = Run::of(seed, "mpath", SIZE, EGRESS.len());
        let ratio = SIZE as f64 / run.seconds / alone;
        assert!(ratio >= GAIN, "seed {seed}: {ratio}");
        assert!(run.epochs >= EPOCHS, "seed {seed}: {}", run.epochs);
        let last = run.sent.len() - 1;
        let early = run.share(0, last / 2);
        let late = run.share(last - END.as_secs() as usize, last);
        let falls = late < early || late == 0.0;
        assert!(falls && late < LITTLE, "seed {seed}: {early} {late}");
    }
}

//! Two connections through one bottleneck.

use std::time::Duration;

use manyway_control::LawSpec;
use manyway_network::LinkConfig;
use manyway_session::Config;
use manyway_units::{Rate, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::Serialize;

use manyway_simulate::World;
use manyway_simulate::stack::{Content, PairPath, PairSpec, SessionPair, Source, TrafficConfig};

use super::setup::config;

/// A connection with two subflows and a single-path Reno connection through one bottleneck: what
/// share does the first take?
///
/// 20 Mbps, 10 ms one way, sender jitter uniform in 0-1 ms per packet without reordering, no
/// pacing; the starts are staggered at random.
#[derive(Debug, Clone)]
pub(super) struct Fairness {
    /// The law of the connection with two subflows.
    pub(super) law: LawSpec,
    /// Decides keys, ties, jitter and starts.
    pub(super) seed: u64,
    /// Begin of the measurement, in seconds.
    pub(super) from: f64,
    /// End of the measurement, in seconds.
    pub(super) until: f64,
}

/// What one run of [`Fairness`] gave.
#[derive(Debug, Clone, Serialize)]
pub(super) struct FairnessRun {
    /// The seed.
    pub(super) seed: u64,
    /// Goodput of the connection with two subflows, in Mbps.
    pub(super) multipath_mbps: f64,
    /// Goodput of the single-path connection, in Mbps.
    pub(super) single_mbps: f64,
    /// The first as a fraction of both.
    pub(super) share: f64,
    /// Mean windows in packets, sampled every 100 ms: the two subflows', then the single path's.
    pub(super) windows: Vec<f64>,
    /// Mean smoothed round-trip time in ms over the same samples.
    pub(super) rtt_ms: Vec<f64>,
    /// Window cuts since the beginning.
    pub(super) loss_events: Vec<u64>,
    /// Packets declared lost since the beginning.
    pub(super) lost: Vec<u64>,
    /// Probe timeouts since the beginning.
    pub(super) timeouts: Vec<u64>,
}

/// Each connection starts at a random time before this.
const STAGGER: f64 = 5.0;
const SAMPLE: Duration = Duration::from_millis(100);

impl Fairness {
    /// Runs it.
    ///
    /// # Panics
    /// When a connection fails.
    pub(super) fn run(&self) -> FairnessRun {
        let mut world = World::new(self.seed);
        let bottleneck = LinkConfig::new(Rate::from_mbps(20.0), Duration::from_millis(10));
        let mut add = || {
            world
                .add_link(bottleneck.clone())
                .expect("a rate above zero")
        };
        let (forward, reverse) = (add(), add());
        let path = PairPath {
            forward: vec![forward],
            reverse: vec![reverse],
            jitter: Duration::from_millis(1),
            ..PairPath::default()
        };
        let mut add = |number, law: &LawSpec, paths| {
            let config = Config {
                pacing: false,
                ..config(law)
            };
            let zeros = TrafficConfig {
                content: Content::Zeros,
                ..TrafficConfig::default()
            };
            let spec = PairSpec {
                number,
                client: config.clone(),
                server: config,
                client_traffic: TrafficConfig {
                    sources: vec![Source::default()],
                    ..zeros.clone()
                },
                server_traffic: zeros,
                paths: vec![path.clone(); paths],
                server_sockets: false,
            };
            SessionPair::add(&mut world, self.seed, spec).expect("a valid configuration")
        };
        let pairs = [add(1, &self.law, 2), add(2, &LawSpec::reno(), 1)];

        let mut rng = Pcg64Mcg::seed_from_u64(self.seed);
        let mut starts = pairs
            .each_ref()
            .map(|pair| (rng.random_range(0.0..STAGGER), pair));
        starts.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (at, pair) in starts {
            world.run_until(Time::from_secs_f64(at));
            pair.connect(&mut world).expect("addresses that fit");
        }

        let (from, until) = (
            Time::from_secs_f64(self.from),
            Time::from_secs_f64(self.until),
        );
        world.run_until(from);
        let (mut windows, mut rtt_ms, mut samples) = (vec![0.0; 3], vec![0.0; 3], 0.0);
        let mut last = Vec::new();
        while world.now() < until {
            world.run_until((world.now() + SAMPLE).min(until));
            last = pairs
                .iter()
                .flat_map(|pair| {
                    world
                        .host_mut(pair.client)
                        .stats()
                        .expect("a connection")
                        .paths
                })
                .collect();
            samples += 1.0;
            for (n, path) in last.iter().enumerate() {
                windows[n] += path.window;
                rtt_ms[n] += path.rtt.as_secs_f64() * 1e3;
            }
        }
        let goodput = |n: usize| {
            let sink = world.host(pairs[n].server).traffic().goodput();
            sink.mean(from, until).mbps()
        };
        let (multipath, single) = (goodput(0), goodput(1));
        FairnessRun {
            seed: self.seed,
            multipath_mbps: multipath,
            single_mbps: single,
            share: multipath / (multipath + single),
            windows: windows.into_iter().map(|sum| sum / samples).collect(),
            rtt_ms: rtt_ms.into_iter().map(|sum| sum / samples).collect(),
            loss_events: last.iter().map(|path| path.loss_events).collect(),
            lost: last.iter().map(|path| path.packets_lost).collect(),
            timeouts: last.iter().map(|path| path.timeouts).collect(),
        }
    }
}

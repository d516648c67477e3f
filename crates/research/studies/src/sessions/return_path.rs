//! One connection whose acknowledgements meet a congested queue.

use std::time::Duration;

use manyway_control::LawSpec;
use manyway_network::{Limit, LinkConfig, Queue};
use manyway_units::{Rate, Time};
use serde::Serialize;

use manyway_simulate::World;
use manyway_simulate::stack::{Content, PairPath, PairSpec, SessionPair, Source, TrafficConfig};

use super::setup::config;

/// A connection over two paths of 10 Mbps, 25 ms one way, of which the first has its
/// acknowledgements come back through the queue of other connections' data: does its law take that
/// for congestion of the way there?
#[derive(Debug, Clone)]
pub(super) struct ReturnPath {
    /// The law.
    pub(super) law: LawSpec,
    /// Reno flows whose data goes over the first path's return path.
    pub(super) against: usize,
    /// Decides keys and ties.
    pub(super) seed: u64,
    /// Begin of the measurement, in seconds.
    pub(super) from: f64,
    /// End of the measurement.
    pub(super) until: f64,
}

/// What one run of [`ReturnPath`] gave.
#[derive(Debug, Clone, Serialize)]
pub(super) struct ReturnPathRun {
    /// The seed.
    pub(super) seed: u64,
    /// Bytes on each path's link there, headers included, during the measurement, as a fraction of
    /// its capacity.
    pub(super) utilisation: [f64; 2],
    /// Stream bytes read by the receiving application, in Mbps.
    pub(super) goodput_mbps: f64,
    /// Smoothed and smallest round-trip time of the first path at the end, in ms.
    pub(super) rtt_ms: [f64; 2],
    /// Window cuts of the first path since the beginning.
    pub(super) loss_events: u64,
    /// Probe timeouts of the first path since the beginning.
    pub(super) timeouts: u64,
}

const RATE_MBPS: f64 = 10.0;
const DELAY: Duration = Duration::from_millis(25);

impl ReturnPath {
    /// Runs it.
    ///
    /// # Panics
    /// When a connection fails.
    pub(super) fn run(&self) -> ReturnPathRun {
        let mut world = World::new(self.seed);
        let link = LinkConfig::new(Rate::from_mbps(RATE_MBPS), DELAY);
        // Up to 120 ms of queue.
        let deep = LinkConfig {
            queue: Queue::DropTail(Limit::Packets(100)),
            ..link.clone()
        };
        let mut add = |config: &LinkConfig| world.add_link(config.clone()).expect("a valid link");
        let there = [add(&link), add(&link)];
        let back = [add(&deep), add(&link)];
        let free = add(&link);
        let path = |forward, reverse| PairPath {
            forward: vec![forward],
            reverse: vec![reverse],
            ..PairPath::default()
        };
        let both = vec![path(there[0], back[0]), path(there[1], back[1])];
        let against = vec![path(back[0], free); self.against];
        let mut pairs = Vec::new();
        for (number, law, paths) in [(1, &self.law, both), (2, &LawSpec::reno(), against)] {
            if paths.is_empty() {
                continue;
            }
            let spec = bulk(number, law, paths);
            let pair =
                SessionPair::add(&mut world, self.seed, spec).expect("a valid configuration");
            pair.connect(&mut world).expect("addresses that fit");
            pairs.push(pair);
        }

        let (from, until) = (
            Time::from_secs_f64(self.from),
            Time::from_secs_f64(self.until),
        );
        world.run_until(from);
        let carried = |world: &World<_>| there.map(|link| world.link_stats(link).bytes_delivered);
        let before = carried(&world);
        world.run_until(until);
        let after = carried(&world);
        let span = until.since(from);
        let share = |n: usize| Rate::of(after[n] - before[n], span) / Rate::from_mbps(RATE_MBPS);
        let sink = world.host(pairs[0].server).traffic().goodput();
        let goodput_mbps = sink.mean(from, until).mbps();
        let stats = world.host_mut(pairs[0].client).stats();
        let first = &stats.expect("a connection").paths[0];
        ReturnPathRun {
            seed: self.seed,
            utilisation: [share(0), share(1)],
            goodput_mbps,
            rtt_ms: [first.rtt, first.min_rtt].map(|rtt| rtt.as_secs_f64() * 1e3),
            loss_events: first.loss_events,
            timeouts: first.timeouts,
        }
    }
}

/// An endless upload.
fn bulk(number: u8, law: &LawSpec, paths: Vec<PairPath>) -> PairSpec {
    let zeros = TrafficConfig {
        content: Content::Zeros,
        ..TrafficConfig::default()
    };
    PairSpec {
        number,
        client: config(law),
        server: config(law),
        client_traffic: TrafficConfig {
            sources: vec![Source::default()],
            ..zeros.clone()
        },
        server_traffic: zeros,
        paths,
        server_sockets: false,
    }
}

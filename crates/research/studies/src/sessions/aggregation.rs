//! One connection over several paths.

use std::time::Duration;

use manyway_control::LawSpec;
use manyway_network::LinkConfig;
use manyway_units::{Rate, Time};
use serde::Serialize;

use manyway_simulate::World;
use manyway_simulate::stack::{Content, PairPath, PairSpec, SessionPair, Source, TrafficConfig};

use super::setup::{PACKET_BYTES, config, payload_bytes};

/// One connection alone on paths without a common bottleneck: how much of their sum does it use,
/// and how soon?
#[derive(Debug, Clone)]
pub(super) struct Aggregation {
    /// Rate and one-way delay of each path, the same both ways.
    pub(super) paths: Vec<(Rate, Duration)>,
    /// The congestion-control law.
    pub(super) law: LawSpec,
    /// Sender jitter: each packet leaves late by a random time, uniform between 0 and this, without
    /// reordering.
    pub(super) jitter: Duration,
    /// Decides keys, ties and jitter.
    pub(super) seed: u64,
    /// Beginning of the measurement, in seconds after the beginning of connecting.
    pub(super) from: f64,
    /// End of the measurement.
    pub(super) until: f64,
}

/// What one run of [`Aggregation`] gave.
#[derive(Debug, Clone, Serialize)]
pub(super) struct AggregationRun {
    /// The seed.
    pub(super) seed: u64,
    /// Stream bytes read by the receiving application, in order, in Mbps: the mean over the
    /// measurement.
    pub(super) goodput_mbps: f64,
    /// The same as a fraction of the sum of the links' rates.
    pub(super) of_wire: f64,
    /// The same as a fraction of what the sum of the rates leaves after headers: Σ rate × payload
    /// bytes / packet bytes.
    pub(super) after_headers: f64,
    /// Seconds from the beginning of connecting to the first second in which 90 % of the sum after
    /// headers arrived; `None` if it never came to that.
    pub(super) ramp_up: Option<f64>,
    /// Each path at the end of the run.
    pub(super) paths: Vec<PathRun>,
}

/// One path at the end of a run.
#[derive(Debug, Clone, Serialize)]
pub(super) struct PathRun {
    /// Bytes on the forward link, headers included, during the measurement, as a fraction of its
    /// capacity.
    pub(super) utilisation: f64,
    /// Packets that the forward link's queue dropped since the beginning.
    pub(super) dropped: u64,
    /// Packets the sender sent since the beginning.
    pub(super) sent: u64,
    /// Packets that the sender declared lost.
    pub(super) lost: u64,
    /// Window cuts.
    pub(super) loss_events: u64,
    /// Probe timeouts.
    pub(super) timeouts: u64,
    /// Mean congestion window during the measurement, in packets, sampled every 100 ms.
    pub(super) window: f64,
}

/// The networks on which aggregation is judged: name, and rate in Mbps and one-way delay in ms of
/// each path.
pub(super) const NETWORKS: [(&str, &[(f64, u64)]); 3] = [
    ("20 + 20 Mbps, 10 ms", &[(20.0, 10), (20.0, 10)]),
    ("8 Mbps, 10 ms + 2 Mbps, 100 ms", &[(8.0, 10), (2.0, 100)]),
    ("100 + 100 Mbps, 10 ms", &[(100.0, 10), (100.0, 10)]),
];

/// Windows are sampled so often.
const SAMPLE: Duration = Duration::from_millis(100);
/// Ramp-up is judged over spans of this length.
const SPAN: Duration = Duration::from_secs(1);

impl Aggregation {
    /// Runs it.
    ///
    /// # Panics
    /// When a rate is zero or the connection fails.
    pub(super) fn run(&self) -> AggregationRun {
        let mut world = World::new(self.seed);
        let mut links = Vec::new();
        for &(rate, delay) in &self.paths {
            let config = LinkConfig::new(rate, delay);
            let mut add = || world.add_link(config.clone()).expect("a rate above zero");
            links.push((add(), add()));
        }
        let paths = links.iter().map(|&(forward, reverse)| PairPath {
            forward: vec![forward],
            reverse: vec![reverse],
            jitter: self.jitter,
            ..PairPath::default()
        });
        let zeros = TrafficConfig {
            content: Content::Zeros,
            ..TrafficConfig::default()
        };
        let spec = PairSpec {
            client: config(&self.law),
            server: config(&self.law),
            client_traffic: TrafficConfig {
                sources: vec![Source::default()],
                ..zeros.clone()
            },
            server_traffic: zeros,
            paths: paths.collect(),
            ..PairSpec::default()
        };
        let pair = SessionPair::add(&mut world, self.seed, spec).expect("a valid configuration");
        pair.connect(&mut world).expect("addresses that fit");

        let (from, until) = (
            Time::from_secs_f64(self.from),
            Time::from_secs_f64(self.until),
        );
        world.run_until(from);
        let carried = |world: &World<_>| -> Vec<u64> {
            links
                .iter()
                .map(|(link, _)| world.link_stats(*link).bytes_delivered)
                .collect()
        };
        let before = carried(&world);
        let mut windows = vec![0.0; links.len()];
        let mut samples = 0.0;
        while world.now() < until {
            world.run_until((world.now() + SAMPLE).min(until));
            let stats = world.host_mut(pair.client).stats().expect("a connection");
            samples += 1.0;
            for (sum, path) in windows.iter_mut().zip(&stats.paths) {
                *sum += path.window;
            }
        }
        let after = carried(&world);

        let sum: Rate = self.paths.iter().map(|(rate, _)| *rate).sum();
        let available = sum * (payload_bytes() as f64 / PACKET_BYTES as f64);
        let sink = world.host(pair.server).traffic().goodput().clone();
        let goodput = sink.mean(from, until);
        let stats = world.host_mut(pair.client).stats().expect("a connection");
        let path_run = |n: usize| PathRun {
            utilisation: Rate::of(after[n] - before[n], until.since(from)) / self.paths[n].0,
            dropped: world.link_stats(links[n].0).dropped_queue,
            sent: stats.paths[n].packets_sent,
            lost: stats.paths[n].packets_lost,
            loss_events: stats.paths[n].loss_events,
            timeouts: stats.paths[n].timeouts,
            window: windows[n] / samples,
        };
        AggregationRun {
            seed: self.seed,
            goodput_mbps: goodput.mbps(),
            of_wire: goodput / sum,
            after_headers: goodput / available,
            ramp_up: sink
                .first_reaching(available * 0.9, SPAN)
                .map(|end| (end - SPAN).as_secs_f64()),
            paths: (0..links.len()).map(path_run).collect(),
        }
    }
}

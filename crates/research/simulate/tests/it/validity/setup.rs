//! Experiments in a few words.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use manyway_control::{Options, SenderConfig, SlowStartKind};
use manyway_network::{LinkConfig, NamedLink, PathSpec, Topology};
use manyway_scenario::{AckPolicy, Experiment, Flow, Group, Measure, Session};
use manyway_simulate::packet::{RunResult, Simulation};
use manyway_units::{Rate, Time};

/// Bytes of a packet, and bits.
pub(crate) const PACKET: u32 = 1500;
pub(crate) const PACKET_BITS: f64 = PACKET as f64 * 8.0;

/// The rate of so many packets per second.
pub(crate) fn packets_per_second(packets: f64) -> Rate {
    Rate::from_bits_per_sec(packets * PACKET_BITS)
}

pub(crate) fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

/// These links, named `l0`, `l1`, …
pub(crate) fn named_links(links: impl IntoIterator<Item = LinkConfig>) -> Vec<NamedLink> {
    let named = links.into_iter().enumerate().map(|(n, config)| NamedLink {
        name: format!("l{n}"),
        config,
    });
    named.collect()
}

/// One link, and a path over it for each of these return paths.
pub(crate) fn one_link(config: LinkConfig, ways_back: &[Duration]) -> Topology {
    let paths = ways_back
        .iter()
        .enumerate()
        .map(|(n, &return_delay)| PathSpec {
            name: format!("p{n}"),
            links: vec![0],
            reverse: Vec::new(),
            return_delay,
        });
    Topology {
        links: vec![NamedLink {
            name: "bottleneck".to_owned(),
            config,
        }],
        paths: paths.collect(),
    }
}

/// An endless flow of full packets without headers: no pacing, standard slow start, each packet
/// acknowledged at once.
pub(crate) fn flow(law: &str, paths: &[usize]) -> Flow {
    Flow {
        name: law.to_owned(),
        group: 0,
        law: law.parse().expect("the law is known"),
        kernel: None,
        options: Options::default().with_slow_start(SlowStartKind::Standard),
        paths: paths.to_vec(),
        lifetimes: Vec::new(),
        access: None,
        extra_delay: Duration::ZERO,
        extra_return: Duration::ZERO,
        start: Time::ZERO,
        start_spread: Duration::ZERO,
        stop: None,
        size: None,
        pause: None,
        rate: None,
        unresponsive: false,
        fluid: None,
        headers: 0,
        jitter: Duration::ZERO,
        sender: SenderConfig {
            packet_size: PACKET,
            pacing: false,
            max_ack_delay: Duration::ZERO,
            ..SenderConfig::default()
        },
        ack: AckPolicy {
            every: 1,
            max_delay: Duration::ZERO,
            bytes: 40,
            times: true,
        },
        ecn: false,
        l4s: false,
        class: 0,
        session: Session::default(),
        relays: None,
    }
}

/// Runs to `until`, measured after `from`; seconds.
pub(crate) fn experiment(
    topology: Topology,
    flows: Vec<Flow>,
    (from, until): (f64, f64),
) -> Experiment {
    Experiment {
        name: "validity".to_owned(),
        topology,
        groups: vec![Group {
            name: "all".to_owned(),
            members: 0..flows.len(),
            stagger: None,
        }],
        flows,
        duration: seconds(until),
        measure: Measure {
            from: Time::ZERO + seconds(from),
            until: Time::ZERO + seconds(until),
            spans: Vec::new(),
            interval: seconds(0.1),
            series: Vec::new(),
            percentiles: Default::default(),
        },
    }
}

pub(crate) fn run(experiment: &Experiment, seed: u64) -> RunResult {
    let mut simulation = Simulation::new(experiment, seed).expect("the experiment is sound");
    simulation.run(&AtomicBool::new(false))
}

/// Jain's index of fairness.
pub(crate) fn jain(rates: &[f64]) -> f64 {
    let (sum, squares) = rates
        .iter()
        .fold((0.0, 0.0), |(s, q), x| (s + x, q + x * x));
    sum * sum / (rates.len() as f64 * squares)
}

/// Fails unless `measured` is within a share `tolerance` of `expected`.
#[track_caller]
pub(crate) fn assert_near(what: &str, measured: f64, expected: f64, tolerance: f64) {
    let off = measured / expected - 1.0;
    assert!(
        off.abs() <= tolerance,
        "{what}: measured {measured}, expected {expected}: {:+.2} %, allowed ±{:.2} %",
        off * 100.0,
        tolerance * 100.0
    );
}

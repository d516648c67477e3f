//! What must hold of any network and any flows: nothing comes from nothing, nothing is lost without
//! a count, everything ends that can.

mod any;

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use manyway_control::RetransmissionTimeout;
use manyway_network::{Limit, NamedLink, Timetable};
use manyway_scenario::{Distribution, Experiment, Flow};
use manyway_simulate::packet::{FlowResult, RunResult, Simulation, SubflowResult};
use manyway_units::Time;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::validity::setup::run;

/// Always the same experiments, unless PROPTEST_RNG_SEED asks for others (and PROPTEST_CASES for
/// more).
fn config() -> ProptestConfig {
    let config = ProptestConfig::default();
    ProptestConfig {
        cases: config.cases.max(1024),
        rng_seed: match config.rng_seed {
            RngSeed::Random => RngSeed::Fixed(3),
            fixed => fixed,
        },
        failure_persistence: None,
        ..config
    }
}

proptest! {
    #![proptest_config(config())]

    /// With links that come and go, private links, reverse links, joining and leaving subflows and
    /// all.
    #[test]
    fn nothing_comes_from_nothing(experiment in any::experiment(), seed: u64) {
        let mut simulation = Simulation::new(&experiment, seed).unwrap();
        let result = simulation.run(&AtomicBool::new(false));
        prop_assert!(result.complete);
        for (flow, result) in experiment.flows.iter().zip(&result.flows) {
            check_flow(&experiment, flow, result)?;
        }
        let links = experiment.topology.links.iter().zip(simulation.links());
        for ((named, link), result) in links.zip(&result.links) {
            let stats = link.stats();
            prop_assert_eq!(stats.offered, stats.delivered + stats.dropped());
            // The measurement may end a few packets earlier: those of the same nanosecond.
            prop_assert!(result.packets_offered <= stats.offered, "{result:?}");
            prop_assert!(result.packets_dropped <= result.packets_offered, "{result:?}");
            prop_assert!((0.0..=1.0 + 1e-9).contains(&result.utilisation), "{:?}", result);
            let fastest = fastest(named.config.rate.bits_per_sec(), &named.config.timetable);
            prop_assert!(result.load_bps <= fastest * (1.0 + 1e-9), "{:?}", result);
            prop_assert!(result.queue_mean_packets >= 0.0);
            if let Limit::Packets(limit) = named.config.queue.limit() {
                let most = f64::from(limit) * (1.0 + 1e-9);
                prop_assert!(result.queue_mean_packets <= most, "{result:?}");
            }
        }
        check_drops(&experiment, &simulation, &result)?;
        check_series(&experiment, &result)?;
        let again = run(&experiment, seed);
        // NaN is not equal to itself; the text tells all bits apart.
        prop_assert_eq!(format!("{result:?}"), format!("{again:?}"));
    }

    /// Transfers that nobody stops, over links that are up in the end and lose at most one packet
    /// in ten.
    #[test]
    fn what_can_end_ends(experiment in any::transfers(), seed: u64) {
        let result = run(&experiment, seed);
        for (flow, result) in experiment.flows.iter().zip(&result.flows) {
            check_flow(&experiment, flow, result)?;
            let size = flow.size.as_ref().and_then(Distribution::fixed);
            let Some(size) = size else { continue };
            let seconds = result.completion_s();
            prop_assert!(seconds.is_some(), "{} is not done: {:?}", flow.name, result);
            let bytes = result.goodput_bps * seconds.unwrap() / 8.0;
            prop_assert!(
                (bytes / size as f64 - 1.0).abs() < 1e-9,
                "{} delivered {bytes} of {size} bytes: {:?}", flow.name, result
            );
        }
    }
}

/// The highest rate that a link ever has, bits/s.
fn fastest(rate: f64, timetable: &Timetable) -> f64 {
    let changes = timetable.changes.iter().filter_map(|change| change.rate);
    changes.map(|rate| rate.bits_per_sec()).fold(rate, f64::max)
}

fn check_flow(
    experiment: &Experiment,
    flow: &Flow,
    result: &FlowResult,
) -> Result<(), TestCaseError> {
    check_transfers(experiment, flow, result)?;
    let mut capacity = 0.0;
    for (&path, subflow) in flow.paths.iter().zip(&result.subflows) {
        check_subflow(experiment, flow, path, subflow)?;
        let links = experiment.topology.paths[path].links.iter();
        let rates = links.map(|&link| {
            let config = &experiment.topology.links[link].config;
            fastest(config.rate.bits_per_sec(), &config.timetable)
        });
        capacity += rates.fold(f64::INFINITY, f64::min);
    }
    prop_assert!(
        result.goodput_bps <= capacity * (1.0 + 1e-9),
        "{} bps through {} bps: {:?}",
        result.goodput_bps,
        capacity,
        result
    );
    check_delivered(experiment, flow, result)
}

/// Transfers come one after the other, each no faster than alone, and all of each is delivered.
fn check_transfers(
    experiment: &Experiment,
    flow: &Flow,
    result: &FlowResult,
) -> Result<(), TestCaseError> {
    let most = match (&flow.size, &flow.pause) {
        (None, _) => 0,
        (Some(_), None) => 1,
        (Some(_), Some(_)) => usize::MAX,
    };
    prop_assert!(result.transfers.len() <= most);
    let mut over = result.start_s.unwrap_or(f64::INFINITY);
    let mut bytes = 0;
    for transfer in &result.transfers {
        prop_assert!(transfer.start_s >= over - 1e-9, "{:?}", result.transfers);
        prop_assert!(transfer.slowdown >= 1.0 - 1e-9, "{transfer:?}");
        over = transfer.start_s + transfer.took_s;
        bytes += transfer.bytes;
    }
    let measured = experiment.measure.until.since(experiment.measure.from);
    if measured == experiment.duration {
        let carried = result.carried_bps * measured.as_secs_f64() / 8.0;
        prop_assert!(carried >= bytes as f64 * (1.0 - 1e-9), "{carried} {bytes}");
    }
    Ok(())
}

/// A flow delivers no more than its application produces, and a subflow no more than it sends and
/// doesn't lose.
fn check_delivered(
    experiment: &Experiment,
    flow: &Flow,
    result: &FlowResult,
) -> Result<(), TestCaseError> {
    // Otherwise it is not known how long the flow was there.
    if !flow.start_spread.is_zero() {
        return Ok(());
    }
    let end = (Time::ZERO + experiment.duration).min(flow.stop.unwrap_or(Time::MAX));
    let seconds = end.since(flow.start).as_secs_f64();
    let completion = result.completion_s().filter(|_| flow.pause.is_none());
    let seconds = completion.unwrap_or(seconds);
    let payload = f64::from(flow.sender.packet_size - flow.headers) * 8.0;
    let packets = |rate: f64| rate * seconds / payload;
    if let Some(rate) = flow.rate {
        // The first packet is there at once.
        let produced = packets(rate.bits_per_sec()) + 1.0;
        prop_assert!(
            packets(result.goodput_bps) <= produced + 1e-6,
            "{:?}",
            result
        );
    }
    for subflow in &result.subflows {
        let arrived = (subflow.packets_sent - subflow.packets_lost) as f64;
        prop_assert!(
            packets(subflow.goodput_bps) <= arrived + 1e-6,
            "{:?}",
            subflow
        );
    }
    Ok(())
}

fn check_subflow(
    experiment: &Experiment,
    flow: &Flow,
    path: usize,
    result: &SubflowResult,
) -> Result<(), TestCaseError> {
    let spec = &experiment.topology.paths[path];
    let there = spec.links.iter().chain(&spec.reverse);
    let shortest = there.map(|&link| {
        let config = &experiment.topology.links[link].config;
        let changes = config
            .timetable
            .changes
            .iter()
            .filter_map(|change| change.delay);
        changes.fold(config.delay, Duration::min)
    });
    let shortest =
        shortest.sum::<Duration>() + spec.return_delay + flow.extra_delay + flow.extra_return;
    prop_assert!(
        result.rtt_mean_s.is_nan() || result.rtt_mean_s >= shortest.as_secs_f64() * (1.0 - 1e-9),
        "{:?}: the way takes {:?}",
        result,
        shortest
    );
    prop_assert!(
        result.window_mean_packets.is_nan() || result.window_mean_packets >= 1.0 - 1e-9,
        "{:?}",
        result
    );
    prop_assert!(result.packets_lost <= result.packets_sent, "{:?}", result);
    prop_assert!(
        result.loss_events <= result.packets_lost || flow.ecn,
        "{:?}",
        result
    );
    Ok(())
}

/// Where links are FIFO, each packet is acknowledged at once and no acknowledgement is lost,
/// senders take for lost only what is.
fn check_drops(
    experiment: &Experiment,
    simulation: &Simulation<'_>,
    result: &RunResult,
) -> Result<(), TestCaseError> {
    let simple = |flow: &Flow| {
        let reverse = |&path: &usize| !experiment.topology.paths[path].reverse.is_empty();
        flow.access.is_none() && flow.ack.every <= 1 && !flow.paths.iter().any(reverse)
    };
    if !experiment.flows.iter().all(simple) {
        return Ok(());
    }
    let subflows = || result.flows.iter().flat_map(|flow| &flow.subflows);
    let (sent, lost) = subflows().fold((0, 0), |(sent, lost), subflow| {
        (sent + subflow.packets_sent, lost + subflow.packets_lost)
    });
    let dropped: u64 = simulation
        .links()
        .iter()
        .map(|link| link.stats().dropped())
        .sum();
    let fifo = |link: &NamedLink| !link.config.overtaking && link.config.late.share == 0.0;
    // TCP's timeout takes for lost what is only late.
    let asks = |flow: &Flow| flow.sender.retransmission_timeout == RetransmissionTimeout::Probe;
    if experiment.topology.links.iter().all(fifo) && experiment.flows.iter().all(asks) {
        prop_assert!(lost <= dropped, "{} lost, {} dropped", lost, dropped);
    }
    if let [link] = result.links.as_slice()
        && experiment.flows.iter().all(|flow| flow.jitter.is_zero())
    {
        prop_assert_eq!(link.packets_offered, sent);
    }
    prop_assert!(dropped <= sent, "{} dropped of {}", dropped, sent);
    Ok(())
}

fn check_series(experiment: &Experiment, result: &RunResult) -> Result<(), TestCaseError> {
    for series in &result.series {
        let samples =
            (experiment.duration.as_secs_f64() / series.interval_s + 1e-9).floor() as usize;
        prop_assert_eq!(series.values.len(), samples, "{}", series.kind);
        // A path that its manager has closed has none.
        let managed = |flow: &Flow| {
            flow.name == series.of[0] && flow.law.path_manager().is_some() && flow.paths.len() > 1
        };
        let low = match series.kind.as_str() {
            "window" if !experiment.flows.iter().any(managed) => 1.0,
            _ => 0.0,
        };
        for (n, value) in series.values.iter().enumerate() {
            prop_assert!(
                value.is_nan() || *value >= low - 1e-9,
                "{} {:?} at {}: {}",
                series.kind,
                series.of,
                n,
                value
            );
        }
    }
    Ok(())
}

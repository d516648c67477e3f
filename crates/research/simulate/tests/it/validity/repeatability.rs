//! The same seed gives the same bits: across runs, and whatever the number of threads.

use manyway_network::{Limit, LinkConfig, Loss, Queue, Red};
use manyway_scenario::{AckPolicy, Experiment, Point, SeriesKind};
use manyway_simulate::batch::{self, Control, Level, Plan, Shard};
use manyway_simulate::packet::{RunResult, SimulationError};
use manyway_units::Rate;

use crate::validity::setup::{experiment, flow, one_link, run, seconds};

/// Everything that draws random numbers, and several paths, whose order might depend on something.
fn with_everything(law: &str) -> Experiment {
    let link = LinkConfig {
        queue: Queue::Red(Red::new(Limit::Packets(100), 10.0, 40.0)),
        loss: Loss::GilbertElliott {
            good_to_bad: 1e-3,
            bad_to_good: 0.5,
            good: 1e-4,
            bad: 0.5,
        },
        jitter: seconds(1e-3),
        ..LinkConfig::new(Rate::from_mbps(20.0), seconds(0.01))
    };
    let mut flow = flow(law, &[0, 1]);
    flow.jitter = seconds(1e-3);
    flow.start_spread = seconds(1.0);
    flow.access = Some(LinkConfig::new(Rate::from_mbps(50.0), seconds(1e-3)).into());
    flow.ack = AckPolicy {
        every: 2,
        max_delay: seconds(0.04),
        bytes: 52,
        times: true,
    };
    let topology = one_link(link, &[seconds(0.01), seconds(0.03)]);
    let mut experiment = experiment(topology, vec![flow; 4], (1.0, 6.0));
    experiment.measure.series = vec![
        SeriesKind::Rate,
        SeriesKind::Window,
        SeriesKind::Rtt,
        SeriesKind::Queue,
        SeriesKind::Load,
        SeriesKind::Drops,
    ];
    experiment
}

/// Every number of a result, to the bit.
fn bits(result: &RunResult) -> Vec<u64> {
    let mut bits = vec![result.seed, u64::from(result.complete)];
    for flow in &result.flows {
        bits.push(flow.goodput_bps.to_bits());
        bits.push(flow.completion_s().map_or(0, f64::to_bits));
        for subflow in &flow.subflows {
            bits.extend(subflow.spans_bps.iter().map(|rate| rate.to_bits()));
            bits.extend([
                subflow.goodput_bps.to_bits(),
                subflow.window_mean_packets.to_bits(),
                subflow.rtt_mean_s.to_bits(),
                subflow.loss_events,
                subflow.packets_sent,
                subflow.packets_lost,
                subflow.timeouts,
            ]);
        }
    }
    for link in &result.links {
        bits.extend([
            link.utilisation.to_bits(),
            link.load_bps.to_bits(),
            link.queue_mean_packets.to_bits(),
            link.packets_offered,
            link.packets_dropped,
            link.packets_marked,
        ]);
    }
    let values = result.series.iter().flat_map(|series| &series.values);
    bits.extend(values.map(|value| value.to_bits()));
    bits
}

#[test]
fn same_seed_same_bits_on_any_number_of_threads() {
    let points = ["lia", "olia", "cubic"].map(|law| Point {
        set: vec![("law".to_owned(), law.to_owned())],
        experiment: with_everything(law),
    });
    let on = |threads| {
        let plan = Plan {
            scenario: "everything",
            level: Level::Packet,
            points: &points,
            seed: 7,
            repeat: 4,
            threads,
            keep_series: true,
            shard: Shard::default(),
        };
        let mut all = Vec::new();
        let keep = |_: &_, result: &RunResult| {
            all.push(bits(result));
            Ok::<(), SimulationError>(())
        };
        let report = plan.run(batch::packet, keep, &Control::new());
        (all, format!("{:?}", report.expect("the runs are sound")))
    };
    let (one, report) = on(1);
    assert_eq!(one.len(), 12);
    for threads in [2, 3] {
        let (several, same) = on(threads);
        assert!(one == several, "{threads} threads change a bit");
        assert_eq!(report, same);
    }
    // The plan adds nothing: run by itself, a point gives what it gave there.
    for (index, bits_of_run) in one.iter().enumerate() {
        let experiment = &points[index / 4].experiment;
        let seed = 7 + index as u64 % 4;
        assert!(bits(&run(experiment, seed)) == *bits_of_run);
    }
    for (index, bits_of_run) in one.iter().enumerate() {
        assert!(
            one[..index].iter().all(|other| other != bits_of_run),
            "two seeds, one result"
        );
    }
}

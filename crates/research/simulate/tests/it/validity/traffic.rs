//! Sources that react to nothing, losses by period, and slow start up to a given threshold.

use std::time::Duration;

use manyway_network::{Limit, LinkConfig, Loss, Queue};
use manyway_scenario::{Flow, SeriesKind};
use manyway_units::Rate;

use crate::validity::setup::{
    PACKET_BITS, assert_near, experiment, flow, one_link, packets_per_second, run, seconds,
};

/// A flow of so many packets per second that reacts to nothing.
fn constant(packets: f64) -> Flow {
    Flow {
        rate: Some(Rate::from_bits_per_sec(packets * PACKET_BITS)),
        unresponsive: true,
        ..flow("reno", &[0])
    }
}

/// 1000 packets/s and 40 ms, with room for a bandwidth-delay product.
fn link() -> LinkConfig {
    LinkConfig {
        queue: Queue::DropTail(Limit::Packets(40)),
        ..LinkConfig::new(packets_per_second(1000.0), seconds(0.02))
    }
}

/// A load ρ > 1 that reacts to nothing gets the link's rate through, and loses 1 − 1/ρ.
#[test]
fn an_overload_loses_its_surplus() {
    let topology = one_link(link(), &[seconds(0.02)]);
    let result = run(
        &experiment(topology, vec![constant(1250.0)], (10.0, 110.0)),
        1,
    );
    let (flow, link) = (&result.flows[0], &result.links[0]);
    assert_near("goodput", flow.goodput_bps / PACKET_BITS, 1000.0, 1e-3);
    let sent = flow.subflows[0].packets_sent as f64;
    // Nothing is sent again, and no probes are sent.
    assert_near("sent", sent, 125_000.0, 1e-4);
    let lost = link.packets_dropped as f64 / link.packets_offered as f64;
    assert_near("lost", lost, 0.2, 1e-3);
    // The queue is full but for the part of a packet's time between a departure and the next
    // arrival.
    assert!((39.0..40.0).contains(&link.queue_mean_packets), "{link:?}");
}

/// What jitter brings late has arrived, with an acknowledgement for each packet and for several.
#[test]
fn a_load_has_its_rate_though_packets_overtake_each_other() {
    for every in [1, 2, 10] {
        let link = LinkConfig {
            jitter: seconds(0.1),
            overtaking: true,
            ..link()
        };
        let topology = one_link(link, &[seconds(0.02)]);
        let mut flow = constant(500.0);
        flow.ack.every = every;
        let result = run(&experiment(topology, vec![flow], (10.0, 110.0)), 1);
        let rate = result.flows[0].goodput_bps / PACKET_BITS;
        assert_near("goodput", rate, 500.0, 1e-3);
    }
}

/// Reno takes what a constant load leaves.
#[test]
fn reno_takes_the_rest() {
    let topology = one_link(link(), &[seconds(0.02)]);
    let flows = vec![constant(300.3), flow("reno", &[0])];
    let result = run(&experiment(topology, flows, (20.0, 220.0)), 1);
    let rate = |n: usize| result.flows[n].goodput_bps / PACKET_BITS;
    // It loses some packets when Reno fills the queue, and nothing else.
    assert!((0.97 * 300.3..=300.4).contains(&rate(0)), "{}", rate(0));
    assert_near("both", rate(0) + rate(1), 1000.0, 0.005);
}

/// The deterministic model of `periodic`, over a link that loses one packet in so many: the share
/// of 1/(R √p) is that of the pipe there, up to the parts of cycles at both ends.
#[test]
fn a_link_that_loses_by_period_is_the_periodic_model() {
    const ROUND: f64 = 0.1;
    for (every, pipe) in [(1000_u32, 1.170), (10_000, 1.205)] {
        let link = LinkConfig {
            loss: Loss::Periodic { every },
            queue: Queue::DropTail(Limit::Packets(1000)),
            ..LinkConfig::new(packets_per_second(1e6), seconds(ROUND / 2.0))
        };
        let topology = one_link(link, &[seconds(ROUND / 2.0)]);
        let until = 40.0 + 1000.0;
        let result = run(
            &experiment(topology, vec![flow("reno", &[0])], (40.0, until)),
            1,
        );
        let (flow, link) = (&result.flows[0], &result.links[0]);
        let lost = link.packets_dropped as f64 / link.packets_offered as f64;
        assert_near("losses", lost, 1.0 / f64::from(every), 0.01);
        let share = flow.goodput_bps / PACKET_BITS * ROUND / f64::from(every).sqrt();
        assert_near("throughput", share, pipe, 0.015);
    }
}

/// Slow start doubles the window in each round up to the threshold; then it grows by one packet a
/// round (RFC 5681, section 3.1).
#[test]
fn slow_start_ends_at_the_initial_threshold() {
    let link = LinkConfig {
        queue: Queue::DropTail(Limit::Packets(1000)),
        ..LinkConfig::new(packets_per_second(1e6), seconds(0.05))
    };
    let mut flow = flow("reno", &[0]);
    flow.options = flow.options.with_initial_threshold(64.0);
    let mut experiment = experiment(one_link(link, &[seconds(0.05)]), vec![flow], (0.0, 4.06));
    experiment.measure.series = vec![SeriesKind::Window];
    experiment.measure.interval = Duration::from_millis(100);
    let result = run(&experiment, 1);
    let windows = &result.series[0].values;
    // Shortly before the n-th round is acknowledged.
    assert_eq!(windows[..3], [10.0, 20.0, 40.0]);
    // 64 are reached within the round in which 40 are acknowledged; from then on …
    for (n, window) in windows.iter().enumerate().skip(4) {
        let grown = (n - 3) as f64;
        assert!((window - 64.0 - grown).abs() < 1.0, "{n}: {window}");
    }
}

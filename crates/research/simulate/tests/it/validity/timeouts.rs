//! One Reno flow over a link that loses many packets at random, against the formula of J. Padhye,
//! V. Firoiu, D. Towsley and J. Kurose, "Modeling TCP throughput: a simple model and its empirical
//! validation" (SIGCOMM 1998), eq. (30), with its timeouts.

use std::time::Duration;

use manyway_control::{LossDetection, RetransmissionTimeout};
use manyway_network::{Limit, LinkConfig, Loss, Queue};
use manyway_units::Rate;

use crate::validity::setup::{PACKET_BITS, experiment, flow, one_link, run, seconds};

/// Seconds, there and back.
const RTT: f64 = 0.1;
/// Seconds; more than the smoothed round-trip time and its variance.
const RTO: f64 = 0.2;

/// Packets per second at loss rate `p`, with an acknowledgement for each packet.
fn padhye(p: f64) -> f64 {
    let timeout = (3.0 * (3.0 * p / 8.0).sqrt()).min(1.0) * p * (1.0 + 32.0 * p * p);
    1.0 / (RTT * (2.0 * p / 3.0).sqrt() + RTO * timeout)
}

/// Packets per second, and timeouts.
fn reno(p: f64, detection: LossDetection, timeout: RetransmissionTimeout) -> (f64, u64) {
    let link = LinkConfig {
        queue: Queue::DropTail(Limit::Packets(100_000)),
        loss: Loss::Bernoulli(p),
        ..LinkConfig::new(Rate::from_mbps(100_000.0), seconds(RTT / 2.0))
    };
    let mut flow = flow("reno", &[0]);
    flow.sender.loss_detection = detection;
    flow.sender.retransmission_timeout = timeout;
    let topology = one_link(link, &[seconds(RTT / 2.0)]);
    let result = run(&experiment(topology, vec![flow], (10.0, 2010.0)), 1);
    let subflow = &result.flows[0].subflows[0];
    // The formula counts what is sent.
    (
        result.flows[0].goodput_bps / PACKET_BITS / (1.0 - p),
        subflow.timeouts,
    )
}

const TCP: RetransmissionTimeout = RetransmissionTimeout::Tcp {
    min: Duration::from_millis((RTO * 1e3) as u64),
};

/// The sender is faster than the formula, whatever its timeout: what is acknowledged behind a hole
/// makes room for new packets, so that almost all losses are found without a timeout.
#[test]
fn reno_is_faster_than_padhyes_formula() {
    for (p, most) in [(0.03, 1.12), (0.05, 1.2), (0.08, 1.33)] {
        let (rate, _) = reno(p, LossDetection::Packets, TCP);
        let over = rate / padhye(p);
        assert!((1.0..most).contains(&over), "{p}: {over}");
    }
}

/// Probes aren't why: with TCP's timeout there is hardly a difference. An eighth of a round trip
/// finds what three packets don't, and halves the timeouts.
#[test]
fn most_timeouts_are_avoided_by_time() {
    let p = 0.08;
    let (by_time, few) = reno(p, LossDetection::Fixed, TCP);
    let (probes, _) = reno(p, LossDetection::Fixed, RetransmissionTimeout::Probe);
    let (by_packets, many) = reno(p, LossDetection::Packets, TCP);
    assert!((probes / by_time - 1.0).abs() < 0.02, "{probes} {by_time}");
    assert!(by_time > 1.04 * by_packets, "{by_time} {by_packets}");
    assert!(many > 3 * few / 2 && few > 20, "{many} {few}");
}

//! One Reno flow over a link that loses many packets at random, against the formula of J. Padhye,
//! V. Firoiu, D. Towsley and J. Kurose, "Modeling TCP throughput: a simple model and its empirical
//! validation" (SIGCOMM 1998), eq. (30), with its timeouts.

use std::time::Duration;

use manyway_control::RetransmissionTimeout;
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
fn reno(p: f64, timeout: RetransmissionTimeout) -> (f64, u64) {
    let link = LinkConfig {
        queue: Queue::DropTail(Limit::Packets(100_000)),
        loss: Loss::Bernoulli(p),
        ..LinkConfig::new(Rate::from_mbps(100_000.0), seconds(RTT / 2.0))
    };
    let mut flow = flow("reno", &[0]);
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

#[test]
fn figures() {
    let tcp = RetransmissionTimeout::Tcp {
        min: Duration::from_secs_f64(RTO),
    };
    for p in [0.01, 0.02, 0.03, 0.05, 0.08] {
        println!(
            "{p} {} {:?} {:?}",
            padhye(p),
            reno(p, tcp),
            reno(p, RetransmissionTimeout::Probe)
        );
    }
}

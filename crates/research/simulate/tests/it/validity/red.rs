//! RED in a closed loop with Reno flows: the queue that it settles at, and its drop rate.
//!
//! RED drops with the probability p_b = max_p (q − min)/(max − min) at an average queue q (S. Floyd
//! and V. Jacobson, "Random early detection gateways for congestion avoidance", ToN 1(4), 1993,
//! section 4), spaced out so that the distances of drops are uniform: on 1 … 1/p_b (their section
//! 7), which makes one drop in 1/(2 p_b) packets, or, as ns-2's `wait_` has it, on 1/p_b … 2/p_b,
//! one in 3/(2 p_b) − 1/2.
//!
//! n flows of round-trip time R₀ + q/C share the capacity C by the square-root law, each at C/n =
//! c/((R₀ + q/C) √p). Where the two relations meet are the queue and the drop rate (A. Misra, T.
//! Ott and J. Baras, "The window distribution of multiple TCPs with random loss queues", GLOBECOM
//! 1999, who find this simple method the more accurate of two).
//!
//! c is 1.31 for independent losses, 1.22 for periodic ones; drops spaced out are in between. What
//! `random_loss` says about our sender applies, but that drops at a distance rarely hit the same
//! window twice: c = 1.31 (1 − 1.36 √p).

use manyway_network::{Limit, LinkConfig, Queue, Red};

use crate::validity::setup::{
    assert_near, experiment, flow, one_link, packets_per_second, run, seconds,
};

/// Packets per second.
const CAPACITY: f64 = 10_000.0;
/// Round-trip time without a queue, seconds.
const RTT: f64 = 0.04;
const FLOWS: usize = 30;

/// Flows of some 30 packets each. So flat a curve makes for a stable loop: C³R³/(4n²) · max_p/(max
/// − min) is about 1 (C. Hollot et al., "A control theoretic analysis of RED", INFOCOM 2001,
/// proposition 1), and the queue stays between the thresholds.
fn gate(wait: bool) -> Red {
    Red {
        max_p: 0.0125,
        wait,
        ..Red::new(Limit::Packets(10_000), 50.0, 2_050.0)
    }
}

/// Share of packets dropped at an average queue.
fn drop_rate(red: &Red, queue: f64) -> f64 {
    let p = red.max_p * (queue - red.min) / (red.max - red.min);
    match red.wait {
        true => 1.0 / (1.5 / p - 0.5),
        false => 2.0 * p,
    }
}

/// Where the curves meet: queue and drop rate, for a square-root law with this constant at a given
/// drop rate.
fn fixed_point(red: &Red, constant: impl Fn(f64) -> f64) -> (f64, f64) {
    let (mut low, mut high) = (red.min, red.max);
    for _ in 0..60 {
        let queue = (low + high) / 2.0;
        let p = drop_rate(red, queue);
        let load = FLOWS as f64 * constant(p) / ((RTT + queue / CAPACITY) * p.sqrt());
        match load > CAPACITY {
            true => low = queue,
            false => high = queue,
        }
    }
    (low, drop_rate(red, low))
}

fn check(wait: bool) {
    let red = gate(wait);
    let link = LinkConfig {
        queue: Queue::Red(red),
        ..LinkConfig::new(packets_per_second(CAPACITY), seconds(RTT / 2.0))
    };
    let mut flow = flow("reno", &[0]);
    flow.start_spread = seconds(1.0);
    let topology = one_link(link, &[seconds(RTT / 2.0)]);
    let result = run(&experiment(topology, vec![flow; FLOWS], (20.0, 120.0)), 1);
    let link = &result.links[0];
    assert!(link.utilisation > 0.999, "{link:?}");
    // RED looks at what waits, without the packet in service.
    let queue = link.queue_mean_packets - link.utilisation;
    let dropped = link.packets_dropped as f64 / link.packets_offered as f64;
    assert!(link.packets_dropped > 1500, "{link:?}");

    // The curve is linear between the thresholds, so it holds for means however the queue swings
    // there.
    assert_near(
        "drop rate at the mean queue",
        dropped,
        drop_rate(&red, queue),
        0.02,
    );
    // The textbook's constant leaves out recovery and whole packets, 1.36 √p: 6 to 7 %.
    let (textbook_queue, textbook_drops) = fixed_point(&red, |_| 1.31);
    assert_near("queue", queue, textbook_queue, 0.10);
    assert_near("drop rate", dropped, textbook_drops, 0.10);
    // With them. To first order: 2 p is 0.5 %, and flows that fill a link together don't vary
    // independently.
    let (expected_queue, expected_drops) = fixed_point(&red, |p| 1.31 * (1.0 - 1.36 * p.sqrt()));
    assert_near("queue, with recovery", queue, expected_queue, 0.03);
    assert_near("drop rate, with recovery", dropped, expected_drops, 0.03);
}

#[test]
fn as_ns_2_spaces_drops_out() {
    check(true);
}

#[test]
fn as_the_paper_spaces_drops_out() {
    check(false);
}

//! Reno flows that share a link, with equal and with unequal round-trip times.

use std::time::Duration;

use manyway_network::{Change, Limit, LinkConfig, Loss, Queue, Red, Timetable, Topology};
use manyway_scenario::Flow;
use manyway_simulate::packet::RunResult;
use manyway_units::{Rate, Time};

use crate::validity::setup::{
    PACKET_BITS, assert_near, experiment, flow, jain, one_link, packets_per_second, run, seconds,
};

/// `count` flows on each path, starting within a second.
fn flows(paths: usize, count: usize, jitter: f64) -> Vec<Flow> {
    let on = |path| Flow {
        jitter: seconds(jitter),
        start_spread: seconds(1.0),
        ..flow("reno", &[path])
    };
    (0..paths)
        .flat_map(|path| std::iter::repeat_n(on(path), count))
        .collect()
}

/// Jain's index of `count` flows with 500 packets/s and 50 ms each, over the time of some 300 loss
/// events of each. A bandwidth-delay product of queue.
fn fairness(count: usize, jitter: f64, red: bool) -> f64 {
    let product = 25 * count as u32;
    let queue = match red {
        true => {
            let (min, max) = (f64::from(product) / 4.0, f64::from(product));
            Queue::Red(Red::new(Limit::Packets(4 * product), min, max))
        }
        false => Queue::DropTail(Limit::Packets(product)),
    };
    let link = LinkConfig {
        queue,
        ..LinkConfig::new(packets_per_second(500.0 * count as f64), seconds(0.025))
    };
    let span = (20.0, 20.0 + 2000.0 / count.max(10) as f64);
    let topology = one_link(link, &[seconds(0.025)]);
    let result = run(&experiment(topology, flows(1, count, jitter), span), 1);
    let rates: Vec<f64> = result.flows.iter().map(|flow| flow.goodput_bps).collect();
    jain(&rates)
}

/// AIMD with equal parameters converges to equal shares (D.-M. Chiu and R. Jain, "Analysis of the
/// increase and decrease algorithms for congestion avoidance in computer networks", 1989). What is
/// left is chance: a flow's mean over k loss events scatters by some 1/√k.
#[test]
fn equal_flows_share_equally() {
    for count in [2, 10, 30] {
        for (jitter, red) in [(1e-3, false), (0.0, true), (0.0, false)] {
            let index = fairness(count, jitter, red);
            assert!(
                index >= 0.98,
                "{count} flows, jitter {jitter} s, RED {red}: {index}"
            );
        }
    }
}

/// Mean rate (packets/s) and round-trip time (s) of the flows on a path.
#[derive(Debug)]
struct Share {
    rate: f64,
    rtt: f64,
}

/// The shares of two paths, the first half of the flows and the second.
fn shares(result: &RunResult) -> [Share; 2] {
    let half = result.flows.len() / 2;
    [&result.flows[..half], &result.flows[half..]].map(|flows| Share {
        rate: flows.iter().map(|flow| flow.goodput_bps).sum::<f64>() / PACKET_BITS / half as f64,
        rtt: flows
            .iter()
            .map(|flow| flow.subflows[0].rtt_mean_s)
            .sum::<f64>()
            / half as f64,
    })
}

/// α in rate ∝ RTT^−α.
fn exponent([near, far]: &[Share; 2]) -> f64 {
    (near.rate / far.rate).ln() / (far.rtt / near.rtt).ln()
}

/// 30 and 120 ms, or 50 and 140 ms: return paths that differ.
fn two_ways(config: LinkConfig, near: f64, far: f64) -> Topology {
    one_link(config, &[near, far].map(seconds))
}

/// At equal loss rates the square-root law leaves the round-trip time alone: rates are as 1/RTT
/// (Mathis et al. 1997; J. Padhye, V. Firoiu, D. Towsley and J. Kurose, "Modeling TCP throughput",
/// SIGCOMM 1998). Whatever the sender does in recovery, it does in windows and round trips, so the
/// ratio is exact but for chance: 2000 and 8000 losses, of which a standard deviation of 1 % is
/// left.
#[test]
fn unequal_round_trips_at_equal_random_loss() {
    let link = LinkConfig {
        queue: Queue::DropTail(Limit::Packets(100_000)),
        loss: Loss::Bernoulli(2e-3),
        ..LinkConfig::new(Rate::from_mbps(100_000.0), seconds(0.01))
    };
    let topology = two_ways(link, 0.02, 0.11);
    let result = run(&experiment(topology, flows(2, 1, 0.0), (50.0, 5_050.0)), 1);
    assert!(result.flows[1].subflows[0].packets_lost > 2000);
    let [near, far] = shares(&result);
    assert_near(
        "ratio of rates",
        near.rate / far.rate,
        far.rtt / near.rtt,
        0.03,
    );
}

/// A queue for ten flows of each kind, 500 packets/s for each flow and 50 ms of that.
fn unequal(queue: impl Fn(u32) -> Queue, jitter: f64, each: usize, span: f64) -> [Share; 2] {
    let rate = 1_000.0 * each as f64;
    let product = (rate * 0.05) as u32;
    let link = LinkConfig {
        queue: queue(product),
        ..LinkConfig::new(packets_per_second(rate), seconds(0.01))
    };
    let topology = two_ways(link, 0.02, 0.11);
    let flows = flows(2, each, jitter);
    shares(&run(&experiment(topology, flows, (30.0, 30.0 + span)), 1))
}

/// RED drops a share of everybody's packets, whoever's they are: 1/RTT again, with the queue's
/// delay in the RTT. With ten flows of each kind a drop is nearly independent of the flow's last
/// one; chance leaves some 2 %.
#[test]
fn unequal_round_trips_at_red() {
    let red = |product: u32| {
        let (min, max) = (f64::from(product) / 4.0, f64::from(product) * 2.0);
        Queue::Red(Red {
            max_p: 0.02,
            ..Red::new(Limit::Packets(8 * product), min, max)
        })
    };
    let [near, far] = unequal(red, 0.0, 10, 200.0);
    assert_near(
        "ratio of rates",
        near.rate / far.rate,
        far.rtt / near.rtt,
        0.05,
    );
}

/// DropTail is somewhere between losses that hit packets (1/RTT) and losses that hit flows
/// (1/RTT²): "α between 1 and 2" (T. V. Lakshman and U. Madhow, "The performance of TCP/IP for
/// networks with high bandwidth-delay products and random loss", ToN 5(3), 1997).
#[test]
fn unequal_round_trips_at_drop_tail() {
    for (each, jitter) in [(1, 0.0), (1, 1e-3), (10, 0.0), (10, 1e-3)] {
        let queue = |product| Queue::DropTail(Limit::Packets(product));
        let shares = unequal(queue, jitter, each, 400.0 / each as f64);
        let exponent = exponent(&shares);
        assert!(
            (1.0..=2.0).contains(&exponent),
            "{each} of each kind, jitter {jitter} s: {exponent}"
        );
    }
}

/// Losses that hit all flows at once, every T: each window then grows by T/R a cycle and so has its
/// mean around 3/2 T/R, and the rate is 3/2 T/R²: as 1/RTT² (S. Floyd, "Connections with multiple
/// congested gateways in packet-switched networks", CCR 21(5), 1991; Lakshman and Madhow 1997). A
/// link without delay that is down for 50 ms every 15 s does that; pacing, at 1.25 windows per
/// round trip, sees to it that everybody sends something in that time, and the link is so fast that
/// there is no queue.
///
/// A cycle has T/R − 1.5 round trips of growth (see `periodic`), which makes the ratio ((T/R₁ −
/// 1.5)/(T/R₂ − 1.5))² R₂/R₁ · T/T, and what was lost must be sent again.
#[test]
fn unequal_round_trips_with_losses_at_the_same_time() {
    let (cycle, near, far) = (15.0, 0.1, 0.2);
    let change = |at: f64, up| Change {
        at: Time::ZERO + seconds(at),
        up: Some(up),
        ..Change::default()
    };
    let link = LinkConfig {
        queue: Queue::DropTail(Limit::Packets(100_000)),
        timetable: Timetable {
            changes: vec![change(0.6, false), change(0.65, true)],
            period: Some(seconds(cycle)),
        },
        ..LinkConfig::new(Rate::from_mbps(100_000.0), Duration::ZERO)
    };
    let mut flows = flows(2, 1, 0.0);
    for flow in &mut flows {
        flow.start_spread = Duration::ZERO;
        flow.sender.pacing = true;
    }
    // Ten halvings later nothing is left of slow start.
    let (from, cycles) = (10.0 * cycle, 20.0);
    let span = (from, from + cycles * cycle);
    let result = run(&experiment(two_ways(link, near, far), flows, span), 1);
    for flow in &result.flows {
        let subflow = &flow.subflows[0];
        assert_eq!(
            (subflow.loss_events, subflow.timeouts),
            (20, 0),
            "{subflow:?}"
        );
    }
    let shares = shares(&result);
    let growth = |rtt: f64| cycle / rtt - 1.5;
    let expected = growth(near) / growth(far) * (far / near);
    assert_near(
        "ratio of rates",
        shares[0].rate / shares[1].rate,
        expected,
        0.03,
    );
    assert_near("exponent", exponent(&shares), 2.0, 0.03);
}

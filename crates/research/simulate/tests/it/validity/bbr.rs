//! `bbr` where it is alone, and where it meets others.

use manyway_control::{LossDetection, SlowStartKind};
use manyway_network::{Limit, LinkConfig, Loss, Queue};
use manyway_scenario::{Flow, SeriesKind};
use manyway_simulate::packet::RunResult;
use manyway_units::{Rate, Time};

use crate::validity::setup::{PACKET_BITS, experiment, flow, jain, one_link, run, seconds};

/// 20 Mbps and 10 ms one way.
const MBPS: f64 = 20.0;

/// With a DropTail queue of so many bandwidth-delay products.
fn link(queue: f64, loss: f64) -> LinkConfig {
    let bytes = (MBPS * 1e6 / 8.0 * 0.02 * queue) as u64;
    LinkConfig {
        queue: Queue::DropTail(Limit::Bytes(bytes)),
        loss: Loss::Bernoulli(loss),
        ..LinkConfig::new(Rate::from_mbps(MBPS), seconds(0.01))
    }
}

fn paced(law: &str, path: usize, start: f64) -> Flow {
    let mut flow = flow(law, &[path]);
    flow.options.slow_start = SlowStartKind::HyStart;
    flow.sender.pacing = true;
    flow.sender.loss_detection = LossDetection::Adaptive;
    flow.start = Time::ZERO + seconds(start);
    flow.start_spread = seconds(0.2);
    flow
}

/// These laws, ten seconds apart, over one link, from second 30 to 90.
fn together(laws: &[&str], link: LinkConfig, seed: u64) -> RunResult {
    let topology = one_link(link, &vec![seconds(0.01); laws.len()]);
    let flows = laws.iter().enumerate();
    let flows = flows.map(|(n, law)| paced(law, n, 10.0 * n as f64));
    let mut experiment = experiment(topology, flows.collect(), (30.0, 90.0));
    experiment.measure.interval = seconds(0.01);
    experiment.measure.series = vec![SeriesKind::Queue];
    run(&experiment, seed)
}

/// Goodput of each flow, Mbps.
fn goodput(result: &RunResult) -> Vec<f64> {
    result
        .flows
        .iter()
        .map(|flow| flow.goodput_bps / 1e6)
        .collect()
}

/// The 95th percentile of the queueing delay while it is measured, ms.
fn delay(result: &RunResult) -> f64 {
    let mut queue = result.series[0].values[3000..].to_vec();
    queue.sort_by(f64::total_cmp);
    queue[queue.len() * 95 / 100] * PACKET_BITS / MBPS / 1e3
}

#[test]
fn alone_it_fills_the_link_and_not_the_queue() {
    for queue in [0.5, 1.0, 50.0] {
        let result = together(&["bbr"], link(queue, 0.0), 1);
        let (goodput, delay) = (goodput(&result)[0], delay(&result));
        assert!(goodput >= 0.95 * MBPS, "queue {queue}: {goodput} Mbps");
        assert!(delay < 20.0, "queue {queue}: {delay} ms");
    }
    // A queue that is almost none is enough for nine tenths of the link less the probes' losses.
    let result = together(&["bbr"], link(0.1, 0.0), 1);
    assert!(goodput(&result)[0] > 0.87 * MBPS);
}

/// On a path of 33 packets, a single lost one is more than 2 % of what is in flight: it ends a
/// probe, and each round trip with a loss costs a part of the rate until the next one.
#[test]
fn it_keeps_most_of_a_link_with_random_losses_below_two_percent() {
    let lossy = |law: &str, loss| goodput(&together(&[law], link(1.0, loss), 1))[0];
    assert!(lossy("bbr", 0.001) > 0.94 * MBPS);
    assert!(lossy("bbr", 0.01) > 0.8 * MBPS);
    assert!(lossy("cubic", 0.01) < 0.5 * MBPS);
    // More is congestion.
    assert!(lossy("bbr", 0.05) < 0.4 * MBPS);
}

#[test]
fn flows_that_come_one_after_the_other_share() {
    for (count, queue) in [(2, 0.1), (2, 1.0), (2, 20.0), (4, 1.0), (4, 4.0)] {
        let result = together(&vec!["bbr"; count], link(queue, 0.0), 1);
        let goodput = goodput(&result);
        assert!(jain(&goodput) > 0.95, "queue {queue}: {goodput:?}");
        assert!(
            goodput.iter().sum::<f64>() > 0.9 * MBPS,
            "queue {queue}: {goodput:?}"
        );
    }
}

/// No more than that neither starves: the draft promises no share.
#[test]
fn beside_cubic_and_reno_nobody_starves() {
    for queue in [0.1, 1.0, 4.0] {
        for laws in [["bbr", "cubic"], ["cubic", "bbr"], ["bbr", "reno"]] {
            let goodput = goodput(&together(&laws, link(queue, 0.0), 1));
            let least = goodput.iter().copied().fold(f64::INFINITY, f64::min);
            assert!(least > 0.2 * MBPS, "{laws:?}, queue {queue}: {goodput:?}");
        }
    }
}

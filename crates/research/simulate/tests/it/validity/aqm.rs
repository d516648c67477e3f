//! PIE and CoDel in a closed loop with Reno flows. (What CoDel does under a load that doesn't react
//! is a test of `manyway-network`.)

use manyway_network::{CoDel, Limit, LinkConfig, Pie, Queue};
use manyway_simulate::packet::RunResult;

use crate::validity::setup::{
    assert_near, experiment, flow, one_link, packets_per_second, run, seconds,
};

/// Packets per second.
const CAPACITY: f64 = 10_000.0;
/// Round-trip time without a queue, seconds.
const RTT: f64 = 0.04;
const FLOWS: usize = 30;

fn share(queue: Queue, ecn: bool) -> RunResult {
    let link = LinkConfig {
        queue,
        ..LinkConfig::new(packets_per_second(CAPACITY), seconds(RTT / 2.0))
    };
    let mut flow = flow("reno", &[0]);
    flow.start_spread = seconds(1.0);
    flow.ecn = ecn;
    let topology = one_link(link, &[seconds(RTT / 2.0)]);
    run(&experiment(topology, vec![flow; FLOWS], (20.0, 120.0)), 1)
}

/// The share of packets that flows lose which fill the link together, at this delay of the queue.
/// The law's constant is that of drops at a distance, as with RED: c = 1.31 (1 − 1.36 √p).
fn square_root_law(delay: f64) -> f64 {
    let window = CAPACITY / FLOWS as f64 * (RTT + delay);
    let mut p = (1.31 / window).powi(2);
    for _ in 0..50 {
        p = (1.31 * (1.0 - 1.36 * p.sqrt()) / window).powi(2);
    }
    p
}

/// PIE adds up the difference between the delay and its target until the mean difference is 0 (RFC
/// 8033, section 4.2), so the mean delay is the target, whatever the load; and the flows lose as
/// much as the square-root law says at that delay.
#[test]
fn pie_keeps_its_delay() {
    for target in [0.015, 0.03] {
        let pie = Pie {
            target: seconds(target),
            ..Pie::new(Limit::Packets(10_000))
        };
        let result = share(Queue::Pie(pie), false);
        let link = &result.links[0];
        let delay = (link.queue_mean_packets - link.utilisation) / CAPACITY;
        let dropped = link.packets_dropped as f64 / link.packets_offered as f64;
        assert_near("delay", delay, target, 0.03);
        let p = square_root_law(target);
        assert_near("drop rate", dropped, p, 0.05);
        assert!(link.utilisation > 0.99, "{link:?}");
    }
}

/// With marks instead of drops, nothing is lost, and the delay is the same.
#[test]
fn marks_do_what_drops_do() {
    let pie = Pie {
        ecn: true,
        ..Pie::new(Limit::Packets(10_000))
    };
    let result = share(Queue::Pie(pie), true);
    let link = &result.links[0];
    let delay = (link.queue_mean_packets - link.utilisation) / CAPACITY;
    assert_near("delay", delay, 0.015, 0.03);
    assert_eq!(link.packets_dropped, 0, "{link:?}");
    assert!(link.packets_marked > 1000, "{link:?}");

    let [drops, marks] = [false, true].map(|ecn| {
        let codel = CoDel {
            ecn,
            ..CoDel::new(Limit::Packets(10_000))
        };
        share(Queue::CoDel(codel), ecn)
    });
    let [drops, marks] = [&drops.links[0], &marks.links[0]];
    assert_eq!((marks.packets_dropped, drops.packets_marked), (0, 0));
    assert!(drops.packets_dropped > 1000 && marks.packets_marked > 1000);
    // The queue stands above the target while CoDel gets to the rate of drops that the flows need.
    // They lose, or are marked, as the square-root law says at the delay that comes of it.
    for link in [drops, marks] {
        let delay = (link.queue_mean_packets - link.utilisation) / CAPACITY;
        let told = (link.packets_dropped + link.packets_marked) as f64;
        let told = told / link.packets_offered as f64;
        assert_near("told", told, square_root_law(delay), 0.05);
        assert!((0.005..0.015).contains(&delay), "{link:?}");
        assert!(link.utilisation > 0.98, "{link:?}");
    }
}

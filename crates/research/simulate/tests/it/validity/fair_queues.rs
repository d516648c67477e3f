//! Queues that serve flows or classes apart. (Max-min shares of loads that don't react, and waiting
//! times by Cobham's formula, are tests of `manyway-network`.)

use manyway_network::{CoDel, Drr, FqCoDel, Limit, LinkConfig, Priority, Queue};
use manyway_scenario::Flow;
use manyway_simulate::packet::RunResult;
use manyway_units::Rate;

use crate::validity::setup::{
    PACKET_BITS, assert_near, experiment, flow, one_link, packets_per_second, run, seconds,
};

/// Packets per second.
const CAPACITY: f64 = 1000.0;

/// Two Reno flows, of 20 and 200 ms.
fn near_and_far(queue: Queue) -> [f64; 2] {
    let link = LinkConfig {
        queue,
        ..LinkConfig::new(packets_per_second(CAPACITY), seconds(0.01))
    };
    let topology = one_link(link, &[seconds(0.01), seconds(0.19)]);
    let flows = vec![flow("reno", &[0]), flow("reno", &[1])];
    let result = run(&experiment(topology, flows, (30.0, 330.0)), 1);
    let rate = |n: usize| result.flows[n].goodput_bps / PACKET_BITS;
    [rate(0), rate(1)]
}

/// Deficit round robin gives two flows that always have packets half the link each, whatever their
/// round-trip times (M. Shreedhar and G. Varghese, 1996). In one queue, the rates differ by some
/// (200/20)^α, α from 1 to 2.
#[test]
fn round_robin_knows_no_round_trip_times() {
    let limit = Limit::Packets(400);
    let [near, far] = near_and_far(Queue::Drr(Drr::new(limit)));
    assert_near("near", near, CAPACITY / 2.0, 0.01);
    assert_near("far", far, CAPACITY / 2.0, 0.01);
    let [near, far] = near_and_far(Queue::DropTail(Limit::Packets(40)));
    assert!(near / far > 3.0, "{near} {far}");
}

/// A thin flow of 50 packets/s beside four Reno flows that fill the link. Returns its mean
/// round-trip time beyond 40 ms, in packets' times.
fn thin_flow_waits(queue: Queue) -> (f64, RunResult) {
    let link = LinkConfig {
        queue,
        ..LinkConfig::new(packets_per_second(CAPACITY), seconds(0.02))
    };
    let topology = one_link(link, &[seconds(0.02)]);
    // No whole number of its packets' gaps is one of the link's, so that it finds the packet in
    // service at any point.
    let thin = Flow {
        rate: Some(Rate::from_bits_per_sec(49.57 * PACKET_BITS)),
        class: 1,
        ..flow("reno", &[0])
    };
    let bulk = Flow {
        start_spread: seconds(1.0),
        ..flow("reno", &[0])
    };
    let mut flows = vec![thin];
    flows.extend(vec![bulk; 4]);
    let result = run(&experiment(topology, flows, (30.0, 330.0)), 1);
    let rtt = result.flows[0].subflows[0].rtt_mean_s;
    ((rtt - 0.04) * CAPACITY, result)
}

/// FQ-CoDel that lets each flow keep a queue, so that bulk flows' queues are never empty, and never
/// new again.
fn patient_fq_codel(limit: Limit) -> Queue {
    let usual = FqCoDel::new(limit);
    Queue::FqCoDel(FqCoDel {
        codel: CoDel {
            target: seconds(0.1),
            interval: seconds(1.0),
            ..usual.codel
        },
        ..usual
    })
}

/// A thin flow's packet waits only for the rest of the packet in service, half a packet on average,
/// where its queue (RFC 8290, section 4.2) or its class goes first, and then takes its own time.
#[test]
fn thin_flows_go_first() {
    let limit = Limit::Packets(1000);
    for queue in [patient_fq_codel(limit), Queue::Priority(Priority { limit })] {
        let (waited, result) = thin_flow_waits(queue);
        let busy = result.links[0].utilisation;
        assert_near("wait", waited, 1.0 + busy / 2.0, 0.02);
        assert_near(
            "rate",
            result.flows[0].goodput_bps / PACKET_BITS,
            49.57,
            0.002,
        );
        assert!(busy > 0.98, "{busy}");
    }
    // DRR makes it wait for its turn behind the four others.
    let (waited, _) = thin_flow_waits(Queue::Drr(Drr::new(limit)));
    assert!((3.5..5.6).contains(&waited), "{waited}");
}

/// FQ-CoDel's bulk flows share what is left equally.
#[test]
fn bulk_flows_share_the_rest() {
    let (_, result) = thin_flow_waits(patient_fq_codel(Limit::Packets(1000)));
    let rest = result.links[0].utilisation * CAPACITY - 49.57;
    for flow in &result.flows[1..] {
        assert_near("share", flow.goodput_bps / PACKET_BITS, rest / 4.0, 0.02);
    }
}

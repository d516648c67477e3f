//! DCTCP, and DualPI2 with classic and L4S flows (RFC 8257, RFC 9332).

use manyway_network::{DualPi2, Limit, LinkConfig, Queue};
use manyway_scenario::{Flow, Percentiles};
use manyway_simulate::packet::{FlowResult, LinkResult, RunResult};

use crate::validity::setup::{
    assert_near, experiment, flow, one_link, packets_per_second, run, seconds,
};

/// Packets per second: 48 Mbps.
const CAPACITY: f64 = 4000.0;
/// Round-trip time without a queue, seconds.
const RTT: f64 = 0.03;

fn share(queue: DualPi2, flows: Vec<Flow>, capacity: f64, rtt: f64) -> RunResult {
    let link = LinkConfig {
        queue: Queue::DualPi2(queue),
        ..LinkConfig::new(packets_per_second(capacity), seconds(rtt / 2.0))
    };
    let topology = one_link(link, &[seconds(rtt / 2.0)]);
    let mut experiment = experiment(topology, flows, (30.0, 230.0));
    experiment.measure.percentiles = Percentiles {
        rtt: true,
        queue: true,
    };
    run(&experiment, 1)
}

fn classic(law: &str) -> Flow {
    let mut flow = flow(law, &[0]);
    flow.start_spread = seconds(1.0);
    flow
}

fn l4s() -> Flow {
    let mut flow = classic("dctcp");
    flow.l4s = true;
    flow.sender.pacing = true;
    flow
}

fn dual() -> DualPi2 {
    DualPi2::new(Limit::Packets(10_000))
}

/// The share of a link's packets that it dropped and marked.
fn told(link: &LinkResult) -> [f64; 2] {
    let share = |count: u64| count as f64 / link.packets_offered as f64;
    [share(link.packets_dropped), share(link.packets_marked)]
}

/// A lone DCTCP flow at a step: its windows are a sawtooth from W* + 1 down by a share α/2, where
/// W* = C (RTT + step), and α² (1 − α/4) = (2W* + 1)/(W* + 1)² (Alizadeh et al., "Data Center TCP",
/// SIGCOMM 2010, equation 6). The marks of a period are those of one round trip: α on average.
#[test]
fn a_lone_dctcp_flow_at_a_step() {
    for (capacity, rtt) in [(4000.0, 0.03), (10_000.0, 0.02)] {
        let result = share(dual(), vec![l4s()], capacity, rtt);
        let link = &result.links[0];
        let peak = capacity * (rtt + 0.001);
        let right = (2.0 * peak + 1.0) / (peak + 1.0_f64).powi(2);
        let mut alpha = right.sqrt();
        for _ in 0..50 {
            alpha = (right / (1.0 - alpha / 4.0)).sqrt();
        }
        let [dropped, marked] = told(link);
        assert_eq!(dropped, 0.0);
        assert_near("marks", marked, alpha, 0.1);
        let window = result.flows[0].subflows[0].window_mean_packets;
        let mean = (peak + 1.0) * (1.0 - alpha / 4.0);
        assert_near("window", window, mean, 0.03);
        assert!(link.utilisation > 0.9, "{link:?}");
    }
}

/// Classic flows alone: the controller adds up the error of the delay until the mean error is 0
/// (RFC 9332, appendix A.1), so the mean delay is the target.
#[test]
fn classic_flows_alone_have_the_target_as_delay() {
    for law in ["reno", "cubic"] {
        let result = share(dual(), vec![classic(law); 10], CAPACITY, RTT);
        let link = &result.links[0];
        let delay = (link.queue_mean_packets - link.utilisation) / CAPACITY;
        assert_near("delay", delay, 0.015, 0.01);
        assert!(link.utilisation > 0.999, "{link:?}");
    }
}

/// So many Reno flows, and as many DCTCP flows with L4S packets.
fn both(n: usize, rtt: f64) -> RunResult {
    let mut flows = vec![classic("reno"); n];
    flows.extend(vec![l4s(); n]);
    share(dual(), flows, CAPACITY, rtt)
}

/// The mean window and the packets sent, of these flows together.
fn windows(flows: &[FlowResult]) -> (f64, f64) {
    let subflows = || flows.iter().map(|flow| &flow.subflows[0]);
    let windows: f64 = subflows().map(|subflow| subflow.window_mean_packets).sum();
    let sent: u64 = subflows().map(|subflow| subflow.packets_sent).sum();
    (windows / flows.len() as f64, sent as f64)
}

/// The probabilities are coupled by a square, p_L = 2 √p_C (RFC 9332, equations 4 and 5), and each
/// kind has the window of its own law.
///
/// With marks at equal distances of 1/p packets, a DCTCP window of W is marked again in its round
/// trip after each y-th mark, y = Wp: it is cut by p/2 every n/y round trips, where n is the next
/// whole number above y, and grows by 1 − p in each. So y² = 2n (1 − p): y = √6 with few marks.
/// (With a cut in each round trip, it would be y = 2, as in RFC 9332, appendix C.)
#[test]
fn marks_and_drops_are_coupled() {
    let result = both(5, RTT);
    let link = &result.links[0];
    let ((reno, sent), (dctcp, sent_low)) =
        (windows(&result.flows[..5]), windows(&result.flows[5..]));
    let dropped = link.packets_dropped as f64 / sent;
    let marked = link.packets_marked as f64 / sent_low;
    assert_near("coupling", marked, 2.0 * dropped.sqrt(), 0.05);
    let y = (6.0 * (1.0 - marked)).sqrt();
    assert!((2.0..3.0).contains(&y), "{y}");
    assert_near("dctcp's window", dctcp, y / marked, 0.03);
    // The law's constant is that of drops at a distance, as with RED.
    let constant = 1.31 * (1.0 - 1.36 * dropped.sqrt());
    assert_near("reno's window", reno, constant / dropped.sqrt(), 0.03);
    // y/k and Reno's constant are about the same: that is what k = 2 is for.
    assert_near("windows", dctcp, reno, 0.05);
}

/// L4S packets wait for less than a millisecond beside flows that keep a queue of 15 ms.
#[test]
fn l4s_flows_wait_for_a_millisecond_at_most() {
    let result = both(5, RTT);
    for flow in &result.flows[5..] {
        let [_, _, p99] = flow.subflows[0].rtt_percentiles_s.expect("asked for");
        assert!(p99 < RTT + 0.001, "{p99}");
    }
    for flow in &result.flows[..5] {
        let [p50, ..] = flow.subflows[0].rtt_percentiles_s.expect("asked for");
        assert_near("classic delay", p50 - RTT, 0.015, 0.1);
    }
}

/// Windows of the same size over round-trip times that differ by the classic queue's delay alone:
/// both kinds have about half of the link where that is small.
#[test]
fn classic_and_l4s_flows_share_equally() {
    let result = both(10, 0.1);
    let rate = |flows: &[FlowResult]| flows.iter().map(|flow| flow.goodput_bps).sum::<f64>();
    let (reno, dctcp) = (rate(&result.flows[..10]), rate(&result.flows[10..]));
    let expected = 0.1005 / 0.1155;
    assert_near("rates", reno / dctcp, expected, 0.1);
    let share = reno / (reno + dctcp);
    assert!((0.43..0.5).contains(&share), "{share}");
}

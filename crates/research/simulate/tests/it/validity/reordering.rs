//! A flow over a link on which packets overtake each other: by jitter, or some by being late.
//! Nothing is lost but behind full queues, so a sender that tells the two apart has what it has
//! without overtaking.

use manyway_control::LossDetection;
use manyway_network::{Late, LinkConfig};
use manyway_units::Rate;

use crate::validity::setup::{experiment, flow, one_link, run, seconds};

/// Goodput in Mbps over 20 Mbps with 10 ms one way, and cuts, in 25 s after 5 s of start-up.
fn rate(law: &str, detection: LossDetection, change: fn(&mut LinkConfig)) -> (f64, u64) {
    rate_with_acks(law, detection, change, 1)
}

/// The same, with an ACK for so many packets.
fn rate_with_acks(
    law: &str,
    detection: LossDetection,
    change: fn(&mut LinkConfig),
    every: u32,
) -> (f64, u64) {
    let mut link = LinkConfig::new(Rate::from_mbps(20.0), seconds(0.01));
    change(&mut link);
    let mut flow = flow(law, &[0]);
    flow.sender.pacing = true;
    flow.sender.loss_detection = detection;
    flow.ack.every = every;
    let topology = one_link(link, &[seconds(0.01)]);
    let result = run(&experiment(topology, vec![flow], (5.0, 30.0)), 1);
    let flow = &result.flows[0];
    (flow.goodput_bps / 1e6, flow.subflows[0].loss_events)
}

/// Jitter of so many ms, by which packets overtake each other.
fn jitter<const MS: u32>(link: &mut LinkConfig) {
    in_order::<MS>(link);
    link.overtaking = true;
}

fn in_order<const MS: u32>(link: &mut LinkConfig) {
    link.jitter = seconds(f64::from(MS) / 1000.0);
}

fn late(link: &mut LinkConfig) {
    link.late = Late {
        share: 0.01,
        by: seconds(0.015),
    };
}

/// Compared with the same jitter in order, since longer delays alone cost Reno and its kin part of
/// a link whose queue is shorter; and with no lateness at all.
#[test]
fn adaptive_detection_has_what_there_is_without_overtaking() {
    type Change = fn(&mut LinkConfig);
    let networks: [(Change, Change); 3] = [
        (jitter::<5>, in_order::<5>),
        (jitter::<30>, in_order::<30>),
        (late, |_| ()),
    ];
    let adaptive = |law, change, every| rate_with_acks(law, LossDetection::Adaptive, change, every);
    for law in ["lia", "balia", "cubic", "olia", "bmc", "auto"] {
        for every in [1, 2, 4] {
            for (n, (overtaking, plain)) in networks.into_iter().enumerate() {
                let (goodput, cuts) = adaptive(law, overtaking, every);
                let (plain, _) = adaptive(law, plain, every);
                let what = format!("{law}, {n}, {every}: {goodput} of {plain} Mbps, {cuts} cuts");
                assert!(goodput > 0.97 * plain, "{what}");
            }
        }
    }
}

/// That's due to adaptive detection: fixed thresholds take what is overtaken for lost.
#[test]
fn fixed_detection_takes_overtaking_for_losses() {
    type Row = (fn(&mut LinkConfig), f64);
    let rows: [Row; 2] = [(jitter::<5>, 8.0), (jitter::<30>, 2.0)];
    for (change, most) in rows {
        let (goodput, cuts) = rate("lia", LossDetection::Fixed, change);
        assert!(goodput < most && cuts > 100, "{goodput} Mbps, {cuts} cuts");
    }
}

/// Without overtaking, the two do the same, to the packet.
#[test]
fn nothing_changes_where_nothing_is_overtaken() {
    for law in ["lia", "cubic", "wvegas"] {
        let [fixed, adaptive] =
            [LossDetection::Fixed, LossDetection::Adaptive].map(|d| rate(law, d, |_| ()));
        assert_eq!(fixed, adaptive, "{law}");
    }
}

//! `background`: it fills links that nobody else uses, and leaves the others' to them.

use manyway_network::LinkConfig;
use manyway_scenario::Flow;
use manyway_units::Time;

use crate::validity::adaptive::{alone, alone_with_queues, link, paced};
use crate::validity::setup::{experiment, one_link, run, seconds};

const LAW: &str = "background";
/// Rate in Mbps and one-way delay in seconds of the links.
const LINKS: [(f64, f64); 2] = [(20.0, 0.01), (100.0, 0.025)];

/// A flow on so many paths; it ends at a second, if one is given.
fn of(law: &str, paths: std::ops::Range<usize>, start: f64, stop: Option<f64>) -> Flow {
    let paths: Vec<usize> = paths.collect();
    let mut flow = paced(law, &paths, start);
    flow.stop = stop.map(|stop| Time::ZERO + seconds(stop));
    // As most receivers do it.
    flow.ack.every = 2;
    flow.ack.max_delay = seconds(0.025);
    flow.sender.max_ack_delay = flow.ack.max_delay;
    flow
}

/// Goodput of flows over one link between two seconds, Mbps each.
fn meet(link: &LinkConfig, flows: Vec<Flow>, span: (f64, f64)) -> Vec<f64> {
    let paths = flows.iter().map(|flow| flow.paths.len()).sum();
    let topology = one_link(link.clone(), &vec![link.delay; paths]);
    let result = run(&experiment(topology, flows, span), 1);
    let goodputs = result.flows.iter().map(|flow| flow.goodput_bps / 1e6);
    goodputs.collect()
}

/// What another flow keeps of what it has alone, beside subflows that start before or after it.
fn kept(other: &str, subflows: usize, link: &LinkConfig, starts: (f64, f64)) -> f64 {
    let span = (30.0, 90.0);
    let alone = meet(link, vec![of(other, 0..1, 0.0, None)], span)[0];
    let ours = of(LAW, 0..subflows, starts.0, None);
    let theirs = of(other, subflows..subflows + 1, starts.1, None);
    meet(link, vec![ours, theirs], span)[1] / alone
}

#[test]
fn alone_it_fills_the_links_with_short_queues() {
    for (mbps, delay) in LINKS {
        for queue in [0.5, 1.0, 4.0] {
            let links = || [(); 2].map(|()| link(mbps, delay, queue, 0.0));
            let (goodput, queueing) = alone_with_queues(LAW, links(), 10.0);
            let auto = alone("auto", links(), 10.0);
            assert!(goodput > 0.9 * auto, "{mbps} Mbps, {queue}: {goodput} Mbps");
            assert!(queueing < 0.01, "{mbps} Mbps, {queue}: {queueing} s");
        }
    }
}

#[test]
fn beside_others_it_takes_next_to_nothing() {
    for (mbps, delay) in LINKS {
        for other in ["cubic", "reno", "bbr"] {
            for (queue, starts) in [(1.0, (0.0, 20.0)), (1.0, (20.0, 0.0)), (4.0, (20.0, 0.0))] {
                let link = link(mbps, delay, queue, 0.0);
                let kept = kept(other, 2, &link, starts);
                let row = format!("{other}, {mbps} Mbps, queue {queue}, starts {starts:?}");
                assert!(kept >= 0.9, "{row}: {kept}");
            }
        }
        // Two more subflows are no second flow.
        let link = link(mbps, delay, 1.0, 0.0);
        assert!(kept("reno", 4, &link, (20.0, 0.0)) >= 0.9);
    }
    // `auto` in its place takes half.
    let link = link(20.0, 0.01, 1.0, 0.0);
    let others = vec![of("auto", 0..2, 0.0, None), of("reno", 2..3, 0.0, None)];
    assert!(meet(&link, others, (30.0, 90.0))[1] < 12.0);
}

/// Two subflows against one, whether they start together or 20 s apart: the one that comes late
/// takes the other's queue for part of the path, until it has stepped back.
#[test]
fn two_of_its_kind_share() {
    for (mbps, delay) in LINKS {
        for start in [0.0, 20.0] {
            let link = link(mbps, delay, 1.0, 0.0);
            let flows = vec![of(LAW, 0..2, 0.0, None), of(LAW, 2..3, start, None)];
            let [one, other] = meet(&link, flows, (60.0, 160.0))[..] else {
                panic!("two flows");
            };
            let share = one / (one + other);
            assert!(one + other > 0.9 * mbps, "{mbps} Mbps: {one} + {other}");
            assert!(
                (0.3..=0.7).contains(&share),
                "{mbps} Mbps, {start} s: {share}"
            );
        }
    }
}

#[test]
fn it_comes_back_when_the_other_flow_ends() {
    for (mbps, delay) in LINKS {
        let link = link(mbps, delay, 1.0, 0.0);
        let flows = vec![
            of(LAW, 0..2, 20.0, None),
            of("cubic", 2..3, 0.0, Some(60.0)),
        ];
        let goodput = meet(&link, flows, (75.0, 90.0))[0];
        assert!(goodput > 0.9 * mbps, "{goodput} of {mbps} Mbps");
    }
}

/// On the near link only: on the far one it can come to a standstill (`docs/laws.md`).
#[test]
fn random_losses_do_not_stop_it_on_a_short_path() {
    let (mbps, delay) = LINKS[0];
    let lossy = [(); 2].map(|()| link(mbps, delay, 1.0, 0.01));
    let goodput = alone(LAW, lossy, 10.0);
    assert!(goodput > 10.0, "{goodput} of 40 Mbps");
}

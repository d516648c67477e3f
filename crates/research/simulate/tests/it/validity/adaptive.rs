//! `auto` where it is alone, and where it meets others: single cells of the field matrix.

use manyway_control::LossDetection;
use manyway_network::{
    Change, Limit, LinkConfig, Loss, PathSpec, Policer, Queue, Timetable, Topology,
};
use manyway_scenario::{Experiment, Flow, SeriesKind};
use manyway_units::{Rate, Time};

use crate::validity::setup::{PACKET, experiment, flow, named_links, one_link, run, seconds};

/// A link of so many Mbps with a DropTail queue of so many bandwidth-delay products of itself.
pub(crate) fn link(mbps: f64, delay: f64, queue: f64, loss: f64) -> LinkConfig {
    let bytes = (mbps * 1e6 / 8.0 * 2.0 * delay * queue) as u64;
    LinkConfig {
        queue: Queue::DropTail(Limit::Bytes(bytes)),
        loss: Loss::Bernoulli(loss),
        ..LinkConfig::new(Rate::from_mbps(mbps), seconds(delay))
    }
}

/// A paced flow that starts after so many seconds, a little later with each seed.
pub(crate) fn paced(law: &str, paths: &[usize], start: f64) -> Flow {
    let mut flow = flow(law, paths);
    flow.options.slow_start = manyway_control::SlowStartKind::HyStart;
    flow.sender.pacing = true;
    flow.sender.loss_detection = LossDetection::Adaptive;
    flow.jitter = seconds(0.0005);
    flow.start = Time::ZERO + seconds(start);
    flow.start_spread = seconds(0.2);
    flow
}

/// An ACK for so many packets, or after 10 ms.
fn acknowledge(flow: &mut Flow, every: u32) {
    flow.ack.every = every;
    flow.ack.max_delay = seconds(0.01);
    flow.sender.max_ack_delay = flow.ack.max_delay;
}

/// Goodput in Mbps over links of its own, from this second on, for a minute.
pub(crate) fn alone(law: &str, links: [LinkConfig; 2], from: f64) -> f64 {
    run(&apart(law, links, (from, from + 60.0)), 1).flows[0].goodput_bps / 1e6
}

/// A flow over links of its own, measured between these seconds.
fn apart(law: &str, links: [LinkConfig; 2], measured: (f64, f64)) -> Experiment {
    let paths = links.iter().enumerate().map(|(n, link)| PathSpec {
        name: format!("p{n}"),
        links: vec![n],
        reverse: Vec::new(),
        return_delay: link.delay,
    });
    let topology = Topology {
        paths: paths.collect(),
        links: named_links(links),
    };
    let flows = vec![paced(law, &[0, 1], 0.0)];
    experiment(topology, flows, measured)
}

/// Goodput in Mbps as [`alone`] has it, and the 95th percentile of the queueing delay (what round
/// trips take longer than the first packet's), in seconds, on the worse path.
pub(crate) fn alone_with_queues(law: &str, links: [LinkConfig; 2], from: f64) -> (f64, f64) {
    let bases = links.each_ref().map(|link| {
        let sending = link.rate.time_for(PACKET.into());
        (sending + 2 * link.delay).as_secs_f64()
    });
    let mut experiment = apart(law, links, (from, from + 60.0));
    experiment.measure.series = vec![SeriesKind::Rtt];
    let result = run(&experiment, 1);
    let delays = result.series.iter().zip(bases).map(|(series, base)| {
        let first = (from / series.interval_s) as usize;
        let mut rtts = series.values[first..].to_vec();
        rtts.sort_by(f64::total_cmp);
        rtts[rtts.len() * 95 / 100] - base
    });
    let worse = delays.fold(0.0, f64::max);
    (result.flows[0].goodput_bps / 1e6, worse)
}

/// Subflows of one law beside one flow of another, over one link, measured for 100 s.
struct Beside<'a> {
    law: &'a str,
    paths: usize,
    other: &'a str,
    link: LinkConfig,
    /// When ours start, and the other flow.
    starts: (f64, f64),
    ack_every: u32,
}

impl Beside<'_> {
    /// The share of ours, for each of these seeds.
    fn shares(&self, seeds: std::ops::RangeInclusive<u64>) -> Vec<f64> {
        let ways_back = vec![self.link.delay; self.paths + 1];
        let own: Vec<usize> = (0..self.paths).collect();
        let topology = one_link(self.link.clone(), &ways_back);
        let mut flows = vec![
            paced(self.law, &own, self.starts.0),
            paced(self.other, &[self.paths], self.starts.1),
        ];
        for flow in flows.iter_mut().filter(|_| self.ack_every > 1) {
            acknowledge(flow, self.ack_every);
        }
        let experiment = experiment(topology, flows, (30.0, 130.0));
        let shares = seeds.map(|seed| {
            let result = run(&experiment, seed);
            let [ours, theirs] = [0, 1].map(|n| result.flows[n].goodput_bps);
            ours / (ours + theirs)
        });
        shares.collect()
    }

    /// The mean share of three seeds.
    fn share(&self) -> f64 {
        self.shares(1..=3).iter().sum::<f64>() / 3.0
    }
}

#[test]
fn random_losses_cost_it_little() {
    let lossy = |loss| link(20.0, 0.01, 1.0, loss);
    for (least, losses) in [
        (37.0, [0.001, 0.001]),
        (36.0, [0.01, 0.0]),
        (35.0, [0.01, 0.01]),
        (30.0, [0.05, 0.05]),
    ] {
        let goodput = alone("auto", losses.map(lossy), 10.0);
        assert!(goodput >= least, "{losses:?}: {goodput} Mbps");
    }
    // CUBIC takes them for congestion.
    assert!(alone("cubic", [lossy(0.01), lossy(0.01)], 10.0) < 20.0);
    let long = |mbps, delay| link(mbps, delay, 1.0, 5e-4);
    let goodput = alone("auto", [long(100.0, 0.05), long(30.0, 0.08)], 10.0);
    assert!(goodput >= 0.9 * 130.0, "{goodput} Mbps");
    let far = |mbps, delay| link(mbps, delay, 1.0, 5e-6);
    let goodput = alone("auto", [far(1000.0, 0.05), far(300.0, 0.08)], 30.0);
    assert!(goodput >= 1200.0, "{goodput} Mbps");
}

/// Goodput in Mbps over two links of 20 Mbps with these losses, in these seconds: the mean of ten
/// seeds, with an ACK for every tenth packet.
fn lossy(loss: Loss, measured: (f64, f64)) -> f64 {
    let link = LinkConfig {
        loss,
        ..link(20.0, 0.01, 1.0, 0.0)
    };
    let mut experiment = apart("auto", [link.clone(), link], measured);
    acknowledge(&mut experiment.flows[0], 10);
    let goodput = |seed| run(&experiment, seed).flows[0].goodput_bps / 1e6;
    (1..=10).map(goodput).sum::<f64>() / 10.0
}

/// It waits until it knows how frequent they are, but not for long if they aren't.
#[test]
fn random_losses_cost_it_little_from_the_first_seconds_on() {
    for (loss, least) in [(0.001, 33.5), (0.01, 33.5), (0.05, 28.0)] {
        let goodput = lossy(Loss::Bernoulli(loss), (2.0, 8.0));
        assert!(goodput >= least, "{loss}: {goodput} Mbps");
    }
}

/// Losses in bursts aren't more frequent than those that it knows.
#[test]
fn losses_in_bursts_cost_it_little() {
    for (burst, least) in [(3.0, 36.0), (10.0, 28.0)] {
        let bursts = Loss::GilbertElliott {
            good_to_bad: 0.01 / 0.99 / burst,
            bad_to_good: 1.0 / burst,
            good: 0.0,
            bad: 1.0,
        };
        let goodput = lossy(bursts, (10.0, 70.0));
        assert!(goodput >= least, "bursts of {burst}: {goodput} Mbps");
    }
}

/// The longer round trip isn't a queue for ever.
#[test]
fn random_losses_cost_it_little_once_round_trips_have_become_longer() {
    let longer = Change {
        at: Time::ZERO + seconds(30.0),
        delay: Some(seconds(0.04)),
        ..Change::default()
    };
    let rises = |loss| LinkConfig {
        timetable: Timetable {
            changes: vec![longer],
            period: None,
        },
        ..link(20.0, 0.01, 1.0, loss)
    };
    for (loss, least) in [(0.01, 33.0), (0.001, 36.0)] {
        let goodput = alone("auto", [rises(loss), rises(loss)], 80.0);
        assert!(goodput >= least, "{loss}: {goodput} Mbps");
    }
}

#[test]
fn a_deep_queue_stays_short_if_nobody_else_fills_it() {
    let jitter = |ms: f64| {
        [20.0, 10.0].map(|mbps| LinkConfig {
            jitter: seconds(ms / 1e3),
            ..link(mbps, 0.01, 50.0, 0.0)
        })
    };
    // Two rounds' growth is more of the queue than a trial takes away.
    let slow = [2.0, 1.0].map(|mbps| link(mbps, 0.01, 36.0, 0.0));
    for (links, from, sum, most) in [
        (jitter(0.0), 10.0, 30.0, 0.04),
        (jitter(8.0), 10.0, 30.0, 0.05),
        (slow, 30.0, 3.0, 0.05),
    ] {
        let (goodput, delay) = alone_with_queues("auto", links, from);
        assert!(goodput > 0.99 * sum, "{goodput} of {sum} Mbps");
        assert!(delay < most, "{delay} s");
    }
    // CUBIC fills them.
    assert!(alone_with_queues("cubic", jitter(0.0), 10.0).1 > 0.5);
}

/// While both paths still count as one group, a cut on one cuts the other, too. That costs most
/// behind a short queue: from second 10 on, the last pair has 0.987 of what CUBIC has.
#[test]
fn over_links_of_its_own_it_has_what_cubic_has() {
    for (from, links) in [
        (
            10.0,
            [link(20.0, 0.01, 1.0, 0.0), link(20.0, 0.01, 1.0, 0.0)],
        ),
        (10.0, [link(8.0, 0.01, 1.0, 0.0), link(2.0, 0.01, 1.0, 0.0)]),
        (
            30.0,
            [link(100.0, 0.025, 0.1, 0.0), link(100.0, 0.01, 1.0, 0.0)],
        ),
    ] {
        let [auto, cubic] = ["auto", "cubic"].map(|law| alone(law, links.clone(), from));
        assert!(auto > 0.99 * cubic, "{auto} and {cubic} Mbps: {links:?}");
    }
}

/// A policer has no queue, so nothing shows whether the paths share one.
#[test]
fn two_policed_paths_are_both_filled() {
    let policed = |delay| LinkConfig {
        policer: Some(Policer {
            rate: Rate::from_mbps(20.0),
            burst: 64_000,
        }),
        ..link(100.0, delay, 1.0, 0.0)
    };
    for delays in [[0.01, 0.01], [0.01, 0.03], [0.06, 0.01]] {
        let [auto, cubic] = ["auto", "cubic"].map(|law| alone(law, delays.map(policed), 10.0));
        assert!(auto > 0.93 * cubic, "{auto} and {cubic} Mbps: {delays:?}");
    }
}

/// Two subflows and four take what one CUBIC flow takes in their place: beside CUBIC, from a
/// twentieth of a bandwidth-delay product of queue to four, whoever came first.
#[test]
fn where_they_meet_others_all_subflows_take_what_one_cubic_flow_takes() {
    for (paths, mbps, delay, queue, starts) in [
        (2, 20.0, 0.01, 0.1, (0.0, 20.0)),
        (2, 20.0, 0.01, 1.0, (20.0, 0.0)),
        (2, 100.0, 0.025, 0.05, (0.0, 0.0)),
        (4, 100.0, 0.025, 0.5, (0.0, 20.0)),
        (4, 100.0, 0.025, 1.0, (20.0, 0.0)),
        (2, 20.0, 0.01, 4.0, (0.0, 0.0)),
    ] {
        let beside = Beside {
            law: "auto",
            paths,
            other: "cubic",
            link: link(mbps, delay, queue, 0.0),
            starts,
            ack_every: 1,
        };
        let auto = beside.share();
        assert!(
            (0.4..=0.6).contains(&auto),
            "{paths} subflows, {mbps} Mbps, queue {queue}, starts {starts:?}: {auto}"
        );
    }
    // Uncoupled, two paths are two flows.
    let cubic = Beside {
        law: "cubic",
        paths: 2,
        other: "cubic",
        link: link(20.0, 0.01, 1.0, 0.0),
        starts: (0.0, 0.0),
        ack_every: 1,
    };
    assert!(cubic.share() > 0.62);
}

/// Two packets are a queue in which flows lose one packet in ten at their smallest windows, and as
/// many when they grow, because the others give way.
#[test]
fn behind_two_packets_it_doesnt_take_losses_for_random() {
    for (other, start, ack_every) in [("cubic", 20.0, 2), ("cubic", 0.0, 10), ("reno", 20.0, 10)] {
        let beside = Beside {
            law: "auto",
            paths: 2,
            other,
            link: LinkConfig {
                queue: Queue::DropTail(Limit::Packets(2)),
                ..link(20.0, 0.01, 1.0, 0.0)
            },
            starts: (start, 0.0),
            ack_every,
        };
        let shares = beside.shares(1..=10);
        assert!(
            shares.iter().all(|share| *share < 0.7),
            "{other}, {start} s, ACK every {ack_every}: {shares:?}"
        );
    }
}

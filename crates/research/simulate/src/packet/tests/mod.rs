use std::sync::atomic::AtomicBool;
use std::time::Duration;

use manyway_control::{LawSpec, LossDetection, Options, SenderConfig, SlowStartKind};
use manyway_network::{Limit, LinkConfig, Loss, NamedLink, PathSpec, Queue, Topology};
use manyway_scenario::{
    AckPolicy, Distribution, Experiment, Flow, Group, Lifetime, Measure, SeriesKind, Session, Span,
};
use manyway_units::{Rate, Time};
use proptest::prelude::*;

use super::*;
use crate::draw::Drawn;

mod counted;
mod managed;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// A network of parallel links of these rates (Mbps), 10 ms each way, with a path over each.
fn parallel(rates: &[f64]) -> Topology {
    let links = rates.iter().enumerate().map(|(n, &rate)| NamedLink {
        name: format!("l{n}"),
        config: LinkConfig {
            queue: Queue::DropTail(Limit::Packets(50)),
            ..LinkConfig::new(Rate::from_mbps(rate), 10 * MS)
        },
    });
    let paths = (0..rates.len()).map(|n| PathSpec {
        name: format!("p{n}"),
        links: vec![n],
        reverse: Vec::new(),
        return_delay: 10 * MS,
    });
    Topology {
        links: links.collect(),
        paths: paths.collect(),
    }
}

fn flow(law: &str, paths: &[usize]) -> Flow {
    Flow {
        name: law.to_owned(),
        group: 0,
        law: law.parse::<LawSpec>().unwrap(),
        kernel: None,
        options: Options::default().with_slow_start(SlowStartKind::Standard),
        paths: paths.to_vec(),
        lifetimes: Vec::new(),
        access: None,
        extra_delay: Duration::ZERO,
        extra_return: Duration::ZERO,
        start: Time::ZERO,
        start_spread: Duration::ZERO,
        stop: None,
        size: None,
        pause: None,
        rate: None,
        unresponsive: false,
        fluid: None,
        headers: 0,
        jitter: Duration::ZERO,
        sender: SenderConfig {
            packet_size: 1500,
            pacing: false,
            max_ack_delay: Duration::ZERO,
            ..SenderConfig::default()
        },
        ack: AckPolicy {
            every: 1,
            max_delay: Duration::ZERO,
            bytes: 40,
            times: true,
        },
        ecn: false,
        l4s: false,
        class: 0,
        session: Session::default(),
        relays: None,
    }
}

/// What is drawn of a flow with a fixed size that starts at 0.
fn drawn(flow: &Flow) -> Drawn {
    Drawn {
        start: Time::ZERO,
        size: flow.size.as_ref().and_then(Distribution::fixed),
        next: None,
    }
}

fn experiment(topology: Topology, flows: Vec<Flow>, seconds: u64) -> Experiment {
    Experiment {
        name: "test".to_owned(),
        topology,
        groups: vec![Group {
            name: "all".to_owned(),
            members: 0..flows.len(),
            stagger: None,
        }],
        flows,
        duration: SECOND * seconds as u32,
        measure: Measure {
            from: Time::ZERO,
            until: Time::ZERO + SECOND * seconds as u32,
            spans: Vec::new(),
            interval: 100 * MS,
            series: Vec::new(),
            percentiles: Default::default(),
        },
    }
}

fn run(experiment: &Experiment, seed: u64) -> RunResult {
    let mut simulation = Simulation::new(experiment, seed).unwrap();
    simulation.run(&AtomicBool::new(false))
}

fn mbps(result: &RunResult, flow: usize) -> f64 {
    result.flows[flow].goodput_bps / 1e6
}

#[test]
fn one_flow_fills_its_link() {
    let mut experiment = experiment(parallel(&[12.0]), vec![flow("reno", &[0])], 60);
    experiment.measure.from = Time::from_millis(10_000);
    let result = run(&experiment, 1);
    // The queue of 50 packets exceeds the BDP of 20, so a halved window still fills the path.
    assert!(
        (11.99..=12.0).contains(&mbps(&result, 0)),
        "{}",
        mbps(&result, 0)
    );
    let link = &result.links[0];
    assert!(
        (0.999..=1.0).contains(&link.utilisation),
        "{}",
        link.utilisation
    );
    // 20 packets are on the wire and in the ACKs' way; the rest of the window waits.
    let subflow = &result.flows[0].subflows[0];
    let expected = subflow.window_mean_packets - 20.0;
    assert!(
        (link.queue_mean_packets - expected).abs() < 1.0,
        "{link:?} {subflow:?}"
    );
    // Little's law once more: the window is the rate times the round-trip time.
    let pipe = subflow.rtt_mean_s * 12e6 / 12_000.0;
    assert!(
        (pipe - subflow.window_mean_packets).abs() < 1.0,
        "{subflow:?}"
    );
    assert!(subflow.loss_events > 5 && subflow.timeouts == 0);
    assert!(result.complete);
}

#[test]
fn the_clock_is_exact() {
    // One packet of 12,000 bits at 12 Mbps: 1 ms, then 10 ms there and 10 ms back.
    let mut flow = flow("reno", &[0]);
    flow.size = Some(1.into());
    let result = run(&experiment(parallel(&[12.0]), vec![flow.clone()], 1), 1);
    let seconds = |result: &RunResult| result.flows[0].completion_s().unwrap();
    // A link is never faster than its rate, so a packet's time is rounded up to a nanosecond.
    let close = |seconds: f64, exact: f64| (0.0..1e-8).contains(&(seconds - exact));
    assert!(close(seconds(&result), 0.021), "{result:?}");
    // Ten packets leave as one window.
    flow.size = Some(15_000.into());
    let result = run(&experiment(parallel(&[12.0]), vec![flow.clone()], 1), 1);
    assert!(close(seconds(&result), 0.030), "{result:?}");
    // A private link of 120 Mbps and 2 ms in front, 3 ms more behind: each packet takes 0.1 + 2 ms
    // and 3 ms more.
    flow.access = Some(LinkConfig::new(Rate::from_mbps(120.0), 2 * MS).into());
    flow.extra_delay = 3 * MS;
    let result = run(&experiment(parallel(&[12.0]), vec![flow], 1), 1);
    assert!(close(seconds(&result), 0.0351), "{result:?}");
}

#[test]
fn same_seed_same_result() {
    let mut flows = vec![
        flow("balia", &[0, 1]),
        flow("reno", &[1]),
        flow("cubic", &[1]),
    ];
    for flow in &mut flows {
        flow.jitter = MS;
        flow.start_spread = SECOND;
    }
    let mut experiment = experiment(parallel(&[8.0, 4.0]), flows, 20);
    experiment.topology.links[0].config.loss = Loss::Bernoulli(0.001);
    experiment.measure.series = vec![SeriesKind::Window, SeriesKind::Queue];
    let results = [
        run(&experiment, 7),
        run(&experiment, 7),
        run(&experiment, 8),
    ];
    assert_eq!(format!("{:?}", results[0]), format!("{:?}", results[1]));
    assert_ne!(results[0].flows, results[2].flows);
}

#[test]
fn an_application_limits_its_flow() {
    let mut limited = flow("reno", &[0]);
    limited.rate = Some(Rate::from_mbps(3.0));
    let result = run(&experiment(parallel(&[12.0]), vec![limited], 20), 1);
    assert!(
        (mbps(&result, 0) - 3.0).abs() < 0.01,
        "{}",
        mbps(&result, 0)
    );
    // A window that isn't used doesn't grow without bounds.
    assert!(result.flows[0].subflows[0].window_mean_packets < 40.0);
    assert_eq!(result.links[0].packets_dropped, 0);
}

#[test]
fn starts_stops_and_spans() {
    let mut early = flow("reno", &[0]);
    early.stop = Some(Time::from_millis(10_000));
    let mut late = flow("reno", &[0]);
    late.start = Time::from_millis(20_000);
    let mut experiment = experiment(parallel(&[12.0]), vec![early, late], 30);
    let span = |name: &str, from, until| Span {
        name: name.to_owned(),
        from: Time::from_millis(from),
        until: Time::from_millis(until),
    };
    experiment.measure.spans = vec![
        span("a", 5_000, 15_000),
        span("b", 11_000, 20_000),
        span("c", 25_000, 30_000),
    ];
    experiment.measure.series = vec![SeriesKind::Window];
    let result = run(&experiment, 1);
    let spans = |flow: usize| &result.flows[flow].subflows[0].spans_bps;
    assert!(
        spans(0)[0] > 11.9e6 && spans(0)[1].is_nan() && spans(0)[2].is_nan(),
        "{:?}",
        spans(0)
    );
    assert!(
        spans(1)[0].is_nan() && spans(1)[1].is_nan() && spans(1)[2] > 11.9e6,
        "{:?}",
        spans(1)
    );
    // Goodput is of the time in which a flow was there.
    assert!(mbps(&result, 0) > 11.0 && mbps(&result, 1) > 11.0);
    let window = &result.series[1];
    assert_eq!(window.of, ["reno", "p0"]);
    assert_eq!(window.values.len(), 300);
    assert!(window.values[198].is_nan() && window.values[200] > 0.0);
}

#[test]
fn subflows_join_and_leave() {
    let mut joining = flow("lia", &[0, 1]);
    let lifetime = manyway_scenario::Lifetime {
        from: Time::from_millis(10_000),
        until: Some(Time::from_millis(20_000)),
    };
    joining.lifetimes = vec![Default::default(), lifetime];
    let mut experiment = experiment(parallel(&[12.0, 12.0]), vec![joining], 30);
    let span = |from, until| Span {
        name: String::new(),
        from: Time::from_millis(from),
        until: Time::from_millis(until),
    };
    experiment.measure.spans = vec![
        span(5_000, 10_000),
        span(12_000, 20_000),
        span(20_500, 30_000),
    ];
    let result = run(&experiment, 1);
    let spans = |path: usize| &result.flows[0].subflows[path].spans_bps;
    assert!(spans(0).iter().all(|rate| *rate > 11.9e6), "{:?}", spans(0));
    assert!(
        spans(1)[0] == 0.0 && spans(1)[1] > 9e6 && spans(1)[2] == 0.0,
        "{:?}",
        spans(1)
    );
}

#[test]
fn nothing_counts_once_a_flow_is_over() {
    // All of the first window arrives, over half a second; by the stop one packet has: 10 ms of
    // serialising, 20 ms of travel.
    let mut stopped = flow("reno", &[0]);
    stopped.sender.initial_window = 50.0;
    stopped.stop = Some(Time::from_millis(32));
    let mut leaving = flow("reno", &[1]);
    leaving.lifetimes = vec![Lifetime {
        from: Time::ZERO,
        until: Some(Time::from_millis(500)),
    }];
    let mut experiment = experiment(parallel(&[1.2, 12.0]), vec![stopped, leaving], 2);
    experiment.measure.series = vec![SeriesKind::Window, SeriesKind::Rtt];
    let result = run(&experiment, 1);
    assert!(
        (mbps(&result, 0) - 0.012 / 0.032).abs() < 1e-9,
        "{result:?}"
    );
    let left = &result.flows[1].subflows[0];
    assert!(left.window_mean_packets > 10.0, "{left:?}");
    for series in &result.series {
        assert!(series.values[19].is_nan(), "{series:?}");
    }
}

#[test]
fn what_is_measured_from_0_on_includes_the_first_burst() {
    let mut transfer = flow("reno", &[0]);
    transfer.size = Some(15_000.into());
    let experiment = experiment(parallel(&[12.0]), vec![transfer], 1);
    for seed in 0..20 {
        let result = run(&experiment, seed);
        assert_eq!(result.flows[0].subflows[0].packets_sent, 10);
        assert_eq!(result.links[0].packets_offered, 10);
    }
}

#[test]
fn data_that_was_given_up_and_arrives_after_all_counts_once() {
    let mut transfer = flow("lia", &[0, 1]);
    transfer.size = Some(15_000.into());
    let mut source = Source::new(&transfer, 0..2, drawn(&transfer), 1).unwrap();
    source.state = FlowState::Active;
    source.produce(Time::ZERO);
    source.backlog -= 3;
    source.on_lost(3);
    assert_eq!(source.on_acked_late(Time::ZERO, 1), 1);
    assert_eq!(source.backlog, 9);
    // The rest is under way, some of it twice: of the next nine one brings nothing new.
    source.backlog = 0;
    assert_eq!(source.on_acked_late(Time::ZERO, 1), 1);
    assert_eq!(source.on_acked(Time::ZERO, 5), 4);
    source.on_lost(4);
    source.backlog -= 4;
    assert_eq!((source.on_acked(Time::ZERO, 4), source.backlog), (4, 0));
    assert_eq!(source.finished, Some(Time::ZERO));
    assert_eq!(source.on_acked_late(Time::ZERO, 1), 0);
}

#[test]
fn nothing_arrives_that_was_not_sent() {
    // One packet of ten is there, is given up on one path, on another, and arrives on both and on a
    // third.
    let mut transfer = flow("lia", &[0, 1, 2]);
    transfer.size = Some(15_000.into());
    transfer.rate = Some(Rate::from_mbps(0.1));
    let mut source = Source::new(&transfer, 0..3, drawn(&transfer), 1).unwrap();
    source.state = FlowState::Active;
    source.produce(Time::ZERO);
    assert_eq!(source.backlog, 1);
    for _ in 0..2 {
        source.backlog -= 1;
        source.on_lost(1);
    }
    source.backlog -= 1;
    assert_eq!(source.on_acked_late(Time::ZERO, 2), 1);
    assert_eq!(source.on_acked(Time::ZERO, 1), 0);
    // The next one counts again.
    source.produce(Time::from_millis(120));
    source.backlog -= 1;
    assert_eq!(source.on_acked(Time::ZERO, 1), 1);
    assert_eq!(source.finished, None);
}

#[test]
fn a_transfer_over_two_paths_survives_the_loss_of_one() {
    let mut topology = parallel(&[12.0, 12.0]);
    let down = manyway_network::Change {
        at: Time::from_millis(1_000),
        up: Some(false),
        ..Default::default()
    };
    topology.links[1].config.timetable = manyway_network::Timetable {
        changes: vec![down],
        ..Default::default()
    };
    let mut transfer = flow("lia", &[0, 1]);
    transfer.size = Some(10_000_000.into());
    let result = run(&experiment(topology, vec![transfer], 60), 1);
    // 3 MB pass by the time of the failure at most, the rest takes the other path 4.7 s or more.
    let seconds = result.flows[0].completion_s().expect("the transfer ends");
    assert!((5.6..8.0).contains(&seconds), "{seconds}");
    // All data was delivered exactly once.
    let delivered: f64 = result.flows[0]
        .subflows
        .iter()
        .map(|s| s.goodput_bps)
        .sum::<f64>()
        * seconds
        / 8.0;
    assert!((delivered - 10_000_000.0).abs() < 1.0, "{delivered}");
}

/// Acknowledgements without times change nothing for a law that knows no one-way delays, also if
/// each packet has one.
#[test]
fn acknowledgements_can_leave_out_when_packets_arrived() {
    let rate = |times| {
        let mut flow = flow("reno", &[0]);
        flow.ack.times = times;
        let experiment = experiment(parallel(&[12.0]), vec![flow], 20);
        let mut simulation = Simulation::new(&experiment, 1).unwrap();
        assert_eq!(simulation.subflows[0].receiver.is_some(), !times);
        simulation.run(&AtomicBool::new(false)).flows[0].goodput_bps
    };
    assert_eq!(rate(true), rate(false));
}

#[test]
fn delayed_acknowledgements_halve_the_increase() {
    let growth = |every| {
        let mut flow = flow("reno", &[0]);
        flow.ack = AckPolicy {
            every,
            max_delay: 100 * MS,
            bytes: 40,
            times: true,
        };
        flow.sender.max_ack_delay = 100 * MS;
        let mut experiment = experiment(parallel(&[12.0]), vec![flow], 60);
        experiment.measure.from = Time::from_millis(10_000);
        run(&experiment, 1).flows[0].clone()
    };
    let (each, delayed) = (growth(1), growth(2));
    // A sender that counts bytes loses nothing by them (RFC 3465): the cycle stays, and so do the
    // losses.
    let ratio = delayed.subflows[0].loss_events as f64 / each.subflows[0].loss_events as f64;
    assert!((0.85..1.15).contains(&ratio), "{ratio}");
    assert!(delayed.goodput_bps > 11.9e6);
}

#[test]
fn acknowledgements_pass_reverse_queues() {
    let mut topology = parallel(&[12.0, 0.2]);
    topology.links[1].config.queue = Queue::DropTail(Limit::Packets(5));
    topology.paths[0].reverse = vec![1];
    topology.paths[0].return_delay = Duration::ZERO;
    let mut experiment = experiment(topology, vec![flow("reno", &[0])], 60);
    experiment.measure.from = Time::from_millis(10_000);
    let result = run(&experiment, 1);
    // 200 kbps carry 625 ACKs of 40 B per second, 1000 are sent: more than a third is lost, and
    // hardly any data is taken for lost.
    let back = &result.links[1];
    assert!(back.packets_dropped > back.packets_offered / 4, "{back:?}");
    assert!(mbps(&result, 0) > 11.0, "{result:?}");
    let subflow = &result.flows[0].subflows[0];
    assert!(
        (subflow.packets_lost as f64) < 0.01 * subflow.packets_sent as f64,
        "{subflow:?}"
    );
}

/// A queue of RED that marks.
fn marking() -> Queue {
    Queue::Red(manyway_network::Red {
        ecn: true,
        ..manyway_network::Red::new(Limit::Packets(500), 10.0, 30.0)
    })
}

/// One ECN-capable Reno flow over the only link, measured from 10 s to 60 s.
fn capable(topology: Topology) -> Experiment {
    let mut flow = flow("reno", &[0]);
    flow.ecn = true;
    let mut experiment = experiment(topology, vec![flow], 60);
    experiment.measure.from = Time::from_millis(10_000);
    experiment
}

#[test]
fn marks_instead_of_losses() {
    let mut topology = parallel(&[12.0]);
    topology.links[0].config.queue = marking();
    let result = run(&capable(topology), 1);
    assert!(result.links[0].packets_marked > 10, "{:?}", result.links);
    assert_eq!(result.links[0].packets_dropped, 0);
    assert_eq!(result.flows[0].subflows[0].packets_lost, 0);
    assert!(result.flows[0].subflows[0].loss_events > 10);
    assert!(mbps(&result, 0) > 10.0);
}

/// The same queue does the same whether it is in front of a shared link or of an access link.
#[test]
fn access_links_mark_too() {
    let mut topology = parallel(&[12.0]);
    topology.links[0].config.queue = marking();
    let shared = run(&capable(topology), 1).flows[0].subflows[0].clone();

    let mut experiment = capable(parallel(&[1000.0]));
    let access = LinkConfig {
        queue: marking(),
        ..LinkConfig::new(Rate::from_mbps(12.0), Duration::ZERO)
    };
    experiment.flows[0].access = Some(access.into());
    let access = run(&experiment, 1).flows[0].subflows[0].clone();
    assert_eq!(access.packets_lost, 0);
    let events = access.loss_events as f64 / shared.loss_events as f64;
    assert!((0.8..1.25).contains(&events), "{access:?} {shared:?}");
}

#[test]
fn a_run_can_be_stopped() {
    let experiment = experiment(parallel(&[1000.0]), vec![flow("reno", &[0])], 1000);
    let mut simulation = Simulation::new(&experiment, 1).unwrap();
    let result = simulation.run(&AtomicBool::new(true));
    assert!(!result.complete);
    assert!(simulation.now() < Time::from_millis(100_000));
}

#[test]
fn nonsense_is_refused() {
    let mut wrong = experiment(parallel(&[12.0]), vec![flow("reno", &[3])], 1);
    let message = |experiment: &Experiment| Simulation::new(experiment, 1).unwrap_err().to_string();
    assert_eq!(
        message(&wrong),
        "reno refers to path number 3, but there are only 1"
    );
    wrong.flows[0].paths = Vec::new();
    assert_eq!(message(&wrong), "reno has no paths");
    wrong.flows[0].paths = vec![0];
    wrong.topology.paths[0].links = vec![7];
    assert_eq!(
        message(&wrong),
        "p0 refers to link number 7, but there are only 1"
    );
    wrong.topology.paths[0].links = vec![0];
    wrong.topology.links[0].config.rate = Rate::ZERO;
    assert!(message(&wrong).starts_with("l0: "), "{}", message(&wrong));
}

#[test]
fn a_late_acknowledgement_does_not_count_for_the_next_transfer() {
    let mut transfer = flow("reno", &[0]);
    transfer.size = Some(15_000.into());
    transfer.pause = Some(1_000_000_000.into());
    let experiment = experiment(parallel(&[12.0]), vec![transfer], 9);
    let mut run = Simulation::new(&experiment, 1).unwrap();
    // The first transfer is over after 30 ms, and the second has begun after the pause.
    run.step(Time::from_millis(1031));
    assert_eq!(run.sources[0].transfers.len(), 1);
    let delivered = run.subflows[0].meter.read(run.now).delivered;
    run.outcome.clear();
    run.outcome.acked.push((0, true));
    run.settle(0);
    assert_eq!(run.subflows[0].meter.read(run.now).delivered, delivered);
    // One of its own does.
    let own = run.subflows[0].stale;
    run.outcome.clear();
    run.outcome.acked.push((own, true));
    run.settle(0);
    assert_eq!(run.subflows[0].meter.read(run.now).delivered, delivered + 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// What an endless flow does with most acknowledgements takes short cuts. A transfer that ends
    /// in a thousand years doesn't.
    #[test]
    fn an_endless_flow_is_a_long_transfer(
        law in prop::sample::select(vec!["reno", "lia", "cubic", "wvegas"]),
        detection in prop::sample::select(vec![
            LossDetection::Fixed,
            LossDetection::Packets,
            LossDetection::Adaptive,
        ]),
        (every, ecn) in (1u32..3, any::<bool>()),
        (loss, jitter) in (0.0..0.02, 0u32..20),
        back in prop::option::of((0.0..0.2, 0u32..20)),
        seed in any::<u64>(),
    ) {
        let mut topology = parallel(&[12.0, 1.0]);
        let disturb = |link: &mut NamedLink, loss: f64, jitter: u32| {
            link.config.loss = Loss::Bernoulli(loss);
            link.config.jitter = jitter * MS;
            link.config.overtaking = true;
        };
        if ecn {
            topology.links[0].config.queue = marking();
        }
        disturb(&mut topology.links[0], loss, jitter);
        if let Some((loss, jitter)) = back {
            disturb(&mut topology.links[1], loss, jitter);
            topology.paths[0].reverse = vec![1];
        }
        let of_size = |size: Option<u64>| {
            let mut flow = flow(law, &[0]);
            (flow.ecn, flow.size) = (ecn, size.map(Distribution::Fixed));
            (flow.sender.loss_detection, flow.sender.max_ack_delay) = (detection, 25 * MS);
            flow.ack = AckPolicy { every, max_delay: 25 * MS, bytes: 40, times: true };
            let result = run(&experiment(topology.clone(), vec![flow], 10), seed);
            format!("{:?} {:?}", result.flows[0].subflows, result.links)
        };
        prop_assert_eq!(of_size(None), of_size(Some(u64::MAX / 4)));
    }
}

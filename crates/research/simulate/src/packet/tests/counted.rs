//! What counts as carried, dropped and delivered, and when.

use manyway_network::{Change, Timetable};

use super::*;

fn series(result: &RunResult, kind: &str) -> Vec<f64> {
    let mut all = result.series.iter().filter(|series| series.kind == kind);
    all.next().unwrap().values.clone()
}

/// Packets that wait haven't left the link, whether the wire will lose them or not.
#[test]
fn what_waits_to_be_lost_is_neither_carried_nor_dropped() {
    let mut topology = parallel(&[10.0]);
    let link = &mut topology.links[0].config;
    link.queue = Queue::DropTail(Limit::Packets(1000));
    link.loss = Loss::Bernoulli(0.5);
    let mut flow = flow("reno", &[0]);
    flow.unresponsive = true;
    flow.rate = Some(Rate::from_mbps(40.0));
    let mut experiment = experiment(topology, vec![flow], 1);
    experiment.measure.series = vec![SeriesKind::Load, SeriesKind::Drops];
    let result = run(&experiment, 1);
    let link = &result.links[0];
    // 833 packets leave, and half of them arrive. 3333 come, of which 1000 wait.
    assert!((4.5e6..5.5e6).contains(&link.load_bps), "{link:?}");
    let lost = 833.0 - link.load_bps / 12_000.0;
    let dropped = (3333.0 - 1000.0 - 833.0) + lost;
    assert!(
        (link.packets_dropped as f64 - dropped).abs() < 3.0,
        "{link:?}"
    );
    let loads = series(&result, "load");
    assert!(
        loads.iter().all(|load| (2e6..8e6).contains(load)),
        "{loads:?}"
    );
    let drops: f64 = series(&result, "drops").iter().sum();
    assert!((drops - dropped).abs() < 3.0, "{drops}");
}

#[test]
fn what_an_outage_will_lose_waits_until_then() {
    let mut topology = parallel(&[10.0]);
    let link = &mut topology.links[0].config;
    link.queue = Queue::DropTail(Limit::Packets(400));
    link.timetable = Timetable {
        changes: vec![Change {
            at: Time::from_millis(3_050),
            up: Some(false),
            ..Change::default()
        }],
        period: None,
    };
    let mut flow = flow("reno", &[0]);
    flow.unresponsive = true;
    flow.rate = Some(Rate::from_mbps(12.0));
    let mut experiment = experiment(topology, vec![flow], 4);
    experiment.measure.interval = Duration::from_millis(100);
    experiment.measure.series = vec![SeriesKind::Load, SeriesKind::Drops];
    let result = run(&experiment, 1);
    let (loads, drops) = (series(&result, "load"), series(&result, "drops"));
    // The last that arrives left 10 ms before the outage.
    let steady = &loads[10..30];
    assert!(
        steady.iter().all(|load| (9.9e6..10.1e6).contains(load)),
        "{loads:?}"
    );
    assert!(
        (3.8e6..4.2e6).contains(&loads[30]) && loads[31] == 0.0,
        "{loads:?}"
    );
    // The queue fills at 2 Mbps, and the interval of the outage has all of it.
    assert!(drops[..30].iter().all(|drops| *drops < 25.0), "{drops:?}");
    assert!(drops[30] > 400.0 && drops[31] < 110.0, "{drops:?}");
}

#[test]
fn transfers_count_by_their_bytes() {
    let mut small = flow("reno", &[0, 1]);
    small.size = Some(100.into());
    small.pause = Some(Distribution::Fixed(100_000_000));
    let mut experiment = experiment(parallel(&[10.0, 10.0]), vec![small], 20);
    experiment.measure.spans = vec![Span {
        name: "late".to_owned(),
        from: Time::from_millis(10_000),
        until: Time::from_millis(20_000),
    }];
    let result = run(&experiment, 1);
    let flow = &result.flows[0];
    let of = |from: f64| {
        let over = flow.transfers.iter();
        let over = over.filter(|transfer| transfer.start_s + transfer.took_s > from);
        over.map(|transfer| transfer.bytes as f64 * 8.0)
            .sum::<f64>()
    };
    assert!(flow.transfers.len() > 100);
    let (all, late) = (of(0.0) / 20.0, of(10.0) / 10.0);
    assert!((flow.goodput_bps / all - 1.0).abs() < 1e-9, "{flow:?}");
    let spans: f64 = flow
        .subflows
        .iter()
        .map(|subflow| subflow.spans_bps[0])
        .sum();
    assert!((spans / late - 1.0).abs() < 1e-9, "{spans} {late}");
}

/// Transfers that come one after the other are fast while they are there; their rates have no sum.
#[test]
fn what_flows_have_carried_adds_up_to_the_link() {
    let mut flows = vec![flow("reno", &[0]); 101];
    for (n, short) in flows.iter_mut().enumerate().skip(1) {
        short.size = Some(60_000.into());
        short.start = Time::from_millis(200 * n as u64);
    }
    let result = run(&experiment(parallel(&[20.0]), flows, 21), 1);
    let sum = |of: fn(&FlowResult) -> f64| result.flows.iter().map(of).sum::<f64>();
    let carried = sum(|flow| flow.carried_bps);
    // 48 MB of 52.5 in 21 s.
    assert!((18e6..20e6).contains(&carried), "{carried}");
    assert!(sum(|flow| flow.goodput_bps) > 5.0 * carried);
    assert_eq!(result.flows[0].carried_bps, result.flows[0].goodput_bps);
    let short: f64 = result.flows[1..].iter().map(|flow| flow.carried_bps).sum();
    let complete = result
        .flows
        .iter()
        .filter(|flow| flow.completion_s().is_some());
    let sent = complete.count() as f64 * 60_000.0 * 8.0 / 21.0;
    assert!((sent..1.05 * sent).contains(&short), "{short} of {sent}");
}

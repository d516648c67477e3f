//! The format can say what the papers' experiments need; the experiments themselves are in
//! `scenarios/`.

use std::time::Duration;

use manyway_scenario::{Experiment, Point, Scenario};
use manyway_units::Time;

fn points(text: &str) -> Vec<Point> {
    let scenario = Scenario::parse(text, "paper.toml").unwrap_or_else(|error| panic!("{error}"));
    scenario.points().unwrap_or_else(|error| panic!("{error}"))
}

fn only(text: &str) -> Experiment {
    let mut points = points(text);
    assert_eq!(points.len(), 1);
    points.remove(0).experiment
}

fn secs(secs: u64) -> Time {
    Time::ZERO + Duration::from_secs(secs)
}

fn flow<'a>(experiment: &'a Experiment, name: &str) -> &'a manyway_scenario::Flow {
    experiment
        .flows
        .iter()
        .find(|flow| flow.name == name)
        .unwrap()
}

/// Balia, Table III and V: laws side by side, crowds of flows, delayed acknowledgements, flows that
/// come and go.
#[test]
fn balia() {
    let points = points(
        r#"
        name = "Table V"
        duration = "160 s"
        repeat = 20
        [links.one]
        rate = "20 Mbps"
        delay = "10 ms"
        queue = "50 packets"
        [links.two]
        rate = "20 Mbps"
        delay = "10 ms"
        queue = "50 packets"
        [paths.one]
        links = ["one"]
        [paths.two]
        links = ["two"]
        [defaults]
        law = "reno"
        jitter = "1 ms"
        pacing = false
        slow_start = "standard"
        ack_every = "2 packets"
        ack_delay = "40 ms"
        growth = "acks"
        headers = "105 B"
        [flows.multipath]
        paths = ["one", "two"]
        [flows.single]
        paths = ["two"]
        count = 5
        start = "40 s"
        stop = "80 s"
        start_spread = "100 ms"
        [measure]
        from = "20 s"
        series = ["window"]
        spans = [{ name = "busy", from = "40 s", until = "80 s" }]
        [sweep]
        "flows.multipath.law" = ["ewtcp", "semicoupled", "lia", "balia", "coupled", "olia"]
        "flows.*.window_floor" = ["1 packet", "1.5 packets", "2 packets"]
        "#,
    );
    assert_eq!(points.len(), 18);
    let last = &points[17].experiment;
    assert_eq!(last.flows[0].law.name(), "olia");
    assert_eq!(flow(last, "single.5").options.window_floor, Some(2.0));
    assert_eq!(flow(last, "single.5").stop, Some(secs(80)));
}

/// wVegas, Fig. 2(b): subflows join one by one, flows come and go.
#[test]
fn wvegas_fairness() {
    let experiment = only(
        r#"
        name = "Fig. 2(b)"
        duration = "300 s"
        links.l = { rate = "20 Mbps", delay = "50 ms", queue = "50 packets" }
        paths.a = { links = ["l"] }
        paths.b = { links = ["l"] }
        paths.c = { links = ["l"] }
        [defaults]
        law = "lia"
        packet_size = "1000 B"
        [flows]
        1 = { paths = ["a", { path = "b", start = "50 s" }, { path = "c", start = "150 s" }] }
        2 = { paths = ["a", "b"], start = "200 s" }
        3 = { paths = ["a"], stop = "250 s" }
        4 = { paths = ["a"], start = "100 s", stop = "250 s" }
        "#,
    );
    let joins: Vec<_> = flow(&experiment, "1")
        .lifetimes
        .iter()
        .map(|life| life.from)
        .collect();
    assert_eq!(joins, [secs(0), secs(50), secs(150)]);
    assert_eq!(flow(&experiment, "4").stop, Some(secs(250)));
}

/// wVegas, Fig. 2(c): a row of links, background that piles up, a link that fails.
#[test]
fn wvegas_domino() {
    let experiment = only(
        r#"
        name = "Fig. 2(c)"
        duration = "700 s"
        links.L1 = { rate = "10 Mbps", delay = "50 ms" }
        links.L2 = { rate = "10 Mbps", delay = "50 ms" }
        links.L3 = { rate = "10 Mbps", delay = "50 ms", timetable = [{ at = "600 s", up = false }] }
        paths = { p1.links = ["L1"], p2.links = ["L2"], p3.links = ["L3"] }
        defaults.law = "lia"
        flows.1.paths = ["p1", "p2"]
        flows.2.paths = ["p2", "p3"]
        flows.6 = { paths = ["p3"], start = "250 s", stop = "450 s" }
        flows.7 = { paths = ["p3"], start = "300 s", stop = "500 s" }
        "#,
    );
    let failure = &experiment.topology.links[2].config.timetable.changes[0];
    assert_eq!((failure.at, failure.up), (secs(600), Some(false)));
    assert_eq!(flow(&experiment, "7").start, secs(300));
}

/// BMC, Fig. 5.2-5.9: N weighted flows against N of TCP, receivers at n/3 ms behind a RED
/// bottleneck, N and the weight swept.
#[test]
fn bmc() {
    let points = points(
        r#"
        name = "BMC"
        duration = "100 s"
        [links.bottleneck]
        rate = "60 Mbps"
        delay = "20 ms"
        queue.red.limit = "300 packets"
        queue.red.min = "50 packets"
        queue.red.max = "150 packets"
        queue.red.max_p = 0.1
        queue.red.weight = 0.002
        [paths.p]
        links = ["bottleneck"]
        [defaults]
        paths = ["p"]
        access = { rate = "100 Mbps", delay = "2 ms" }
        extra_delay = "333.333 us"
        delay_step = "333.333 us"
        [flows.weighted]
        law = "reno"
        [flows.tcp]
        law = "reno"
        [sweep]
        "flows.*.count" = [1, 2, 4, 8, 16, 32, 48, 64]
        "flows.weighted.law" = ["ewtcp:a=0.64", "ewtcp:a=0.5625", { name = "ewtcp", a = 0.25 }]
        "#,
    );
    assert_eq!(points.len(), 24);
    let last = &points[23].experiment;
    assert_eq!(last.flows.len(), 128);
    // The 30th receiver is 10 ms away; its acknowledgements pass the sender's 2 ms too.
    let thirtieth = flow(last, "tcp.30");
    assert_eq!(thirtieth.extra_delay.as_micros(), 9_999);
    assert_eq!(thirtieth.extra_return.as_micros(), 11_999);
}

/// mPath, Fig. 7 and 13: paths over several links with a common first one, and flows behind narrow
/// access links of their own.
#[test]
fn mpath() {
    let experiment = only(
        r#"
        name = "Fig. 13"
        duration = "60 min"
        links.access = { rate = "20 Mbps", delay = "5 ms", queue = "20 packets" }
        links.core = { rate = "10 Mbps", delay = "20 ms", queue = "20 packets" }
        links.core2 = { rate = "12 Mbps", delay = "20 ms", queue = "20 packets" }
        links.core3 = { rate = "5 Mbps", delay = "20 ms", queue = "20 packets" }
        paths.direct.links = ["access", "core"]
        paths.proxy1.links = ["access", "core"]
        paths.proxy2.links = ["access", "core2"]
        paths.proxy3.links = ["access", "core3"]
        paths.segment.links = ["core2"]
        defaults.law = "reno"
        flows.mpath = { law = "lia", paths = ["direct", "proxy1", "proxy2", "proxy3"] }
        flows.a1 = { paths = ["segment"], start = "15 min", access = { rate = "6 Mbps" } }
        flows.a2 = { paths = ["segment"], start = "30 min", access = { rate = "8 Mbps" } }
        "#,
    );
    assert_eq!(flow(&experiment, "mpath").paths, [0, 1, 2, 3]);
    assert_eq!(experiment.topology.paths[2].links, [0, 2]);
    assert_eq!(
        experiment.topology.paths[2].return_delay,
        Duration::from_millis(25)
    );
    assert_eq!(
        flow(&experiment, "a2").access.as_ref().unwrap().rate.mbps(),
        8.0
    );
}

/// Overlay: demands, and paths of two hops each through one relay.
#[test]
fn overlay() {
    let experiment = only(
        r#"
        name = "two hops"
        duration = "20 s"
        links.up = { rate = "10 Mbps", delay = "5 ms" }
        links.r1 = { rate = "6 Mbps", delay = "5 ms" }
        links.r2 = { rate = "3 Mbps", delay = "5 ms" }
        paths = { r1.links = ["up", "r1"], r2.links = ["up", "r2"] }
        [flows.s]
        law = "reno"
        paths = ["r1", "r2"]
        rate = "6 Mbps"
        packet_size = "500 B"
        count = 4
        "#,
    );
    assert_eq!(experiment.flows[3].rate.unwrap().mbps(), 6.0);
}

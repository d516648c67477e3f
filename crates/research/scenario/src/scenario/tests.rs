use std::time::Duration;

use manyway_control::{Growth, LossDetection, Options, RetransmissionTimeout, SlowStartKind};
use manyway_network::{
    Change, CoDel, Drr, FqCoDel, Late, Limit, LinkConfig, Loss, Pie, Priority, Queue, Red,
    Timetable,
};
use manyway_units::{Rate, Time};

use super::*;
use crate::experiment::{AckPolicy, Lifetime, Measure, Percentiles, SeriesKind, Span};

const SMALL: &str = r#"
name = "small"
duration = "10 s"

[links.a]
rate = "10 Mbps"
delay = "10 ms"

[links.b]
rate = "20 Mbps"
delay = "5 ms"
queue = "50 packets"

[paths.p]
links = ["a"]

[paths.q]
links = ["b", "a"]

[paths.back]
links = ["b"]
reverse = ["a"]

[defaults]
law = "lia"

[flows.phone]
paths = ["p", { path = "q", start = "2 s", stop = "8 s" }]

[flows.desk]
law = "reno"
paths = ["back"]
"#;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// The small scenario with more text behind the first `at`.
fn with(at: &str, more: &str) -> Scenario {
    assert!(SMALL.contains(at), "{at}");
    let text = SMALL.replacen(at, &format!("{at}\n{more}"), 1);
    Scenario::parse(&text, "small.toml").unwrap_or_else(|error| panic!("{error}"))
}

fn points(scenario: &Scenario) -> Vec<Point> {
    scenario.points().unwrap_or_else(|error| panic!("{error}"))
}

fn only(scenario: &Scenario) -> Experiment {
    let points = points(scenario);
    assert_eq!(points.len(), 1);
    assert!(points[0].set.is_empty());
    points[0].experiment.clone()
}

fn labels(scenario: &Scenario) -> Vec<String> {
    let label = |point: &Point| {
        let parts = point
            .set
            .iter()
            .map(|(key, value)| format!("{key}={value}"));
        parts.collect::<Vec<_>>().join(" ")
    };
    points(scenario).iter().map(label).collect()
}

#[test]
fn what_is_not_said_is_as_documented() {
    let scenario = Scenario::parse(SMALL, "small.toml").unwrap();
    assert_eq!(
        (scenario.seed(), scenario.repeat(), scenario.about()),
        (1, 1, "")
    );
    let experiment = only(&scenario);
    let link = &experiment.topology.links[0].config;
    // 10 Mbps for 2 × 10 ms.
    assert_eq!(link.queue, Queue::DropTail(Limit::Bytes(25_000)));
    assert_eq!((link.loss, link.jitter), (Loss::None, Duration::ZERO));
    assert_eq!(link.timetable, Timetable::default());

    let flow = &experiment.flows[0];
    let options = Options::default().with_slow_start(SlowStartKind::HyStart);
    assert_eq!((flow.law.name(), flow.options), ("lia", options));
    assert_eq!(
        (flow.start, flow.start_spread, flow.stop),
        (Time::ZERO, Duration::ZERO, None)
    );
    assert_eq!(
        (flow.size.as_ref(), flow.rate, flow.access.as_ref()),
        (None, None, None)
    );
    assert_eq!(
        (flow.headers, flow.jitter, flow.ecn),
        (52, Duration::ZERO, false)
    );
    assert_eq!(
        (flow.extra_delay, flow.extra_return),
        (Duration::ZERO, Duration::ZERO)
    );
    let sender = &flow.sender;
    assert_eq!((sender.packet_size, sender.pacing), (1500, true));
    assert_eq!(
        (sender.initial_window, sender.max_ack_delay),
        (10.0, Duration::ZERO)
    );
    assert_eq!(
        flow.ack,
        AckPolicy {
            every: 1,
            max_delay: ms(40),
            bytes: 52,
            times: true,
        }
    );

    let measure = &experiment.measure;
    assert_eq!(
        (measure.from, measure.until),
        (Time::ZERO, Time::from_millis(10_000))
    );
    assert_eq!(measure.interval, ms(100));
    assert!(measure.series.is_empty() && measure.spans.is_empty());
}

#[test]
fn names_become_indices_and_ways_back() {
    let experiment = only(&Scenario::parse(SMALL, "small.toml").unwrap());
    let [p, q, back] = &experiment.topology.paths[..] else {
        panic!("{:?}", experiment.topology.paths);
    };
    assert_eq!((&p.links[..], &q.links[..]), (&[0][..], &[1, 0][..]));
    assert_eq!((p.return_delay, q.return_delay), (ms(10), ms(15)));
    assert_eq!(
        (&back.links[..], &back.reverse[..], back.return_delay),
        (&[1][..], &[0][..], Duration::ZERO)
    );
    let phone = &experiment.flows[0];
    assert_eq!(phone.paths, [0, 1]);
    let late = Lifetime {
        from: Time::from_millis(2000),
        until: Some(Time::from_millis(8000)),
    };
    assert_eq!(phone.lifetimes, [Lifetime::default(), late]);
    assert_eq!(experiment.flows[1].law.name(), "reno");
    assert_eq!(experiment.flows[1].paths, [2]);
}

#[test]
fn groups_become_flows_side_by_side() {
    let group = "count = 3\nstart = \"1 s\"\nstagger = \"100 ms\"\nextra_delay = \"1 \
        ms\"\ndelay_step = \"333 us\"\n\
                 access = { rate = \"100 Mbps\", delay = \"2 ms\" }";
    let experiment = only(&with("[flows.phone]", group));
    let names: Vec<_> = experiment
        .flows
        .iter()
        .map(|flow| flow.name.as_str())
        .collect();
    assert_eq!(names, ["phone.1", "phone.2", "phone.3", "desk"]);
    assert_eq!(
        experiment
            .flows
            .iter()
            .map(|flow| flow.group)
            .collect::<Vec<_>>(),
        [0, 0, 0, 1]
    );
    let groups: Vec<_> = experiment
        .groups
        .iter()
        .map(|group| (group.name.as_str(), group.members.clone()))
        .collect();
    assert_eq!(groups, [("phone", 0..3), ("desk", 3..4)]);
    let last = &experiment.flows[2];
    assert_eq!(last.start, Time::from_millis(1200));
    assert_eq!(last.extra_delay, Duration::from_micros(1666));
    // The return path has the access link's delay too.
    assert_eq!(last.extra_return, Duration::from_micros(3666));
    let access = last.access.as_ref().unwrap();
    assert_eq!(
        (access.rate, access.queue),
        (
            Rate::from_mbps(100.0),
            Queue::DropTail(Limit::Packets(1000))
        )
    );
    // A group may be empty.
    let experiment = only(&with("[flows.phone]", "count = 0"));
    assert_eq!(
        (experiment.flows.len(), experiment.groups[0].members.clone()),
        (1, 0..0)
    );
}

#[test]
fn everything_that_can_be_said_arrives() {
    let link = "loss = { good_to_bad = 0.01, bad_to_good = 0.5, good = 0.001 }\njitter = \"1 \
        ms\"\novertaking = true\nlate = { share = 0.02, by = \"5 ms\" }\n\
        timetable_period = \"9 s\"\n\
        timetable = [{ at = \"1 s\", rate = \"5 Mbps\", delay = \"30 ms\" }, \
        { at = \"2 s\", up = false }]\n\
        queue = { red = { limit = \"90 kB\", min = \"15 kB\", max = \"20 packets\", \
        max_p = 0.02, weight = \"auto\", gentle = false, \
        wait = false, ecn = true, mean_packet = \"1000 B\" } }";
    let flow = "size = \"1 MB\"\nrate = \"2 Mbps\"\nstart_spread = \"1 s\"\nstop = \"9 \
        s\"\npacket_size = \"1000 B\"\nheaders = \"40 B\"\n\
        jitter = \"1 ms\"\npacing = false\nslow_start = \"standard\"\ngrowth = \"acks\"\nrecovery \
        = \"grow\"\nloss_detection = \"adaptive\"\n\
        retransmission_timeout = { tcp = { min = \"200 ms\" } }\n\
        initial_window = \"2 packets\"\nwindow_floor = \"1.5 \
        packets\"\nthreshold_floor = \"2 packets\"\n\
        ack_every = \"2 packets\"\nack_delay = \"200 ms\"\nack_size = \"40 B\"\n\
        receive_times = false\necn = true";
    let mut scenario = with("[links.a]", link);
    for line in flow.lines() {
        let (key, value) = line.split_once(" = ").unwrap();
        scenario.set(&format!("flows.desk.{key}={value}")).unwrap();
    }
    let measure = "[measure]\nfrom = \"1 s\"\nuntil = \"9 s\"\ninterval = \"50 ms\"\nseries = \
        [\"rtt\", \"drops\"]\n\
        percentiles = [\"rtt\"]\n\
        spans = [{ name = \"a\", from = \"0 s\", until = \"2 s\" }]";
    let text = format!("{}\n{measure}\n", scenario.text());
    let mut both = Scenario::parse(&text, "small.toml").unwrap();
    for assignment in scenario.assignments() {
        both.set(assignment).unwrap();
    }
    let experiment = only(&both);
    let red = Red {
        max_p: 0.02,
        weight: Red::automatic_weight(Rate::from_mbps(10.0), 1000),
        gentle: false,
        wait: false,
        ecn: true,
        mean_packet: 1000,
        ..Red::new(Limit::Bytes(90_000), 15.0, 20.0)
    };
    let changes = vec![
        Change {
            at: Time::from_millis(1000),
            rate: Some(Rate::from_mbps(5.0)),
            delay: Some(ms(30)),
            up: None,
        },
        Change {
            at: Time::from_millis(2000),
            up: Some(false),
            ..Change::default()
        },
    ];
    let link = LinkConfig {
        queue: Queue::Red(red),
        loss: Loss::GilbertElliott {
            good_to_bad: 0.01,
            bad_to_good: 0.5,
            good: 0.001,
            bad: 1.0,
        },
        jitter: ms(1),
        overtaking: true,
        late: Late {
            share: 0.02,
            by: ms(5),
        },
        timetable: Timetable {
            changes,
            period: Some(Duration::from_secs(9)),
        },
        ..LinkConfig::new(Rate::from_mbps(10.0), ms(10))
    };
    assert_eq!(experiment.topology.links[0].config, link);

    let flow = &experiment.flows[1];
    let options = Options::default()
        .with_slow_start(SlowStartKind::Standard)
        .with_growth(Growth::Acks)
        .with_growth_in_recovery(true)
        .with_window_floor(1.5)
        .with_threshold_floor(2.0);
    assert_eq!(flow.options, options);
    assert_eq!(
        (flow.start_spread, flow.stop),
        (Duration::from_secs(1), Some(Time::from_millis(9000)))
    );
    assert_eq!(
        (flow.size.clone(), flow.rate),
        (Some(1_000_000.into()), Some(Rate::from_mbps(2.0)))
    );
    assert_eq!((flow.headers, flow.jitter, flow.ecn), (40, ms(1), true));
    let sender = &flow.sender;
    assert_eq!((sender.packet_size, sender.pacing), (1000, false));
    assert_eq!(sender.loss_detection, LossDetection::Adaptive);
    let timeout = RetransmissionTimeout::Tcp { min: ms(200) };
    assert_eq!(sender.retransmission_timeout, timeout);
    assert_eq!(
        (sender.initial_window, sender.max_ack_delay),
        (2.0, ms(200))
    );
    assert_eq!(
        flow.ack,
        AckPolicy {
            every: 2,
            max_delay: ms(200),
            bytes: 40,
            times: false,
        }
    );

    let span = Span {
        name: "a".to_owned(),
        from: Time::ZERO,
        until: Time::from_millis(2000),
    };
    let measure = Measure {
        from: Time::from_millis(1000),
        until: Time::from_millis(9000),
        spans: vec![span],
        interval: ms(50),
        series: vec![SeriesKind::Rtt, SeriesKind::Drops],
        percentiles: Percentiles {
            rtt: true,
            queue: false,
        },
    };
    assert_eq!(experiment.measure, measure);
}

#[test]
fn a_flows_own_key_replaces_the_default_as_a_whole() {
    let defaults = "access = { rate = \"1 Gbps\", delay = \"5 ms\" }\npaths = [\"p\"]";
    let mut scenario = with("[defaults]", defaults);
    scenario
        .set("flows.desk.access={ rate = \"2 Gbps\" }")
        .unwrap();
    let experiment = only(&scenario);
    let access = |flow: usize| experiment.flows[flow].access.as_ref().unwrap();
    assert_eq!(
        (access(0).rate, access(0).delay),
        (Rate::from_mbps(1000.0), ms(5))
    );
    assert_eq!(
        (access(1).rate, access(1).delay),
        (Rate::from_mbps(2000.0), Duration::ZERO)
    );
    assert_eq!(experiment.flows[0].paths, [0, 1]);
}

#[test]
fn swept_keys_may_be_dotted_with_or_without_quotes() {
    let sweep = "[sweep]\nlinks.a.delay = [\"1 ms\", \"2 ms\"]\n\"links.b.delay\" = [\"3 ms\"]";
    let scenario = Scenario::parse(&format!("{SMALL}\n{sweep}\n"), "small.toml").unwrap();
    assert_eq!(
        labels(&scenario),
        [
            "links.a.delay=1 ms links.b.delay=3 ms",
            "links.a.delay=2 ms links.b.delay=3 ms"
        ]
    );
    let delays: Vec<_> = points(&scenario)[1]
        .experiment
        .topology
        .links
        .iter()
        .map(|link| link.config.delay)
        .collect();
    assert_eq!(delays, [ms(2), ms(3)]);
}

#[test]
fn assignments_change_what_is_there_and_what_is_swept() {
    let sweep = "[sweep]\nlaw = [\"lia\", \"balia\"]\nduration = [\"5 s\", \"9 s\"]";
    let text = format!("{SMALL}\n{sweep}\n");
    let mut scenario = Scenario::parse(&text, "small.toml").unwrap();
    let all = [
        "law=lia duration=5 s",
        "law=lia duration=9 s",
        "law=balia duration=5 s",
        "law=balia duration=9 s",
    ];
    assert_eq!(labels(&scenario), all);
    assert_eq!(
        points(&scenario)[1].experiment.duration,
        Duration::from_secs(9)
    );
    // What is assigned is swept no longer.
    scenario.set("law = olia").unwrap();
    assert_eq!(labels(&scenario), ["duration=5 s", "duration=9 s"]);
    assert_eq!(points(&scenario)[0].experiment.flows[0].law.name(), "olia");
    // A sweep can be assigned too.
    scenario
        .set("sweep.law=[\"reno\", { name = \"ewtcp\", a = 0.25 }]")
        .unwrap();
    scenario.set("duration=\"7 s\"").unwrap();
    assert_eq!(
        labels(&scenario),
        ["law=reno", "law={ name = \"ewtcp\", a = 0.25 }"]
    );
    // What fails changes nothing.
    assert!(scenario.set("law=x").is_err());
    assert_eq!(scenario.assignments().len(), 3);
    assert_eq!(labels(&scenario).len(), 2);
}

#[test]
fn values_of_assignments_are_toml_or_plain_text() {
    let mut scenario = Scenario::parse(SMALL, "small.toml").unwrap();
    for assignment in [
        "links.a.rate=30Mbps",
        "links.b.rate = \"40 Mbps\"",
        "seed=0xff",
        "name=some words",
        "flows.desk.law=ewtcp:a=0.5",
        "defaults.pacing=false",
        "flows.phone.paths[1].start=3 s",
        "links.*.loss=0.01",
        "measure.interval=1 s",
    ] {
        scenario
            .set(assignment)
            .unwrap_or_else(|error| panic!("{error}"));
    }
    let experiment = only(&scenario);
    let rates: Vec<_> = experiment
        .topology
        .links
        .iter()
        .map(|link| link.config.rate.mbps())
        .collect();
    assert_eq!(rates, [30.0, 40.0]);
    assert!(
        experiment
            .topology
            .links
            .iter()
            .all(|link| link.config.loss == Loss::Bernoulli(0.01))
    );
    assert_eq!((scenario.seed(), scenario.name()), (255, "some words"));
    assert_eq!(experiment.flows[1].law.to_string(), "ewtcp:a=0.5");
    assert!(!experiment.flows[0].sender.pacing);
    assert_eq!(
        experiment.flows[0].lifetimes[1].from,
        Time::from_millis(3000)
    );
    assert_eq!(experiment.measure.interval, Duration::from_secs(1));
}

#[test]
fn cases_change_several_keys_together() {
    let sweep = "[sweep]\n\"flows.*.count\" = [1, 2]\ncases = [{}, \
        { duration = \"5 s\", \"flows.phone.law\" = \"balia\" }]";
    let mut scenario = Scenario::parse(&format!("{SMALL}\n{sweep}\n"), "small.toml").unwrap();
    let all = [
        "flows.*.count=1 duration= flows.phone.law=",
        "flows.*.count=1 duration=5 s flows.phone.law=balia",
        "flows.*.count=2 duration= flows.phone.law=",
        "flows.*.count=2 duration=5 s flows.phone.law=balia",
    ];
    assert_eq!(labels(&scenario), all);
    let last = &points(&scenario)[3].experiment;
    assert_eq!(
        (
            last.flows.len(),
            last.flows[0].law.name(),
            last.duration.as_secs()
        ),
        (4, "balia", 5)
    );
    scenario.set("duration=6 s").unwrap();
    assert_eq!(
        labels(&scenario)[1],
        "flows.*.count=1 flows.phone.law=balia"
    );
    assert_eq!(
        points(&scenario)[1].experiment.duration,
        Duration::from_secs(6)
    );
}

#[test]
fn cases_may_have_names() {
    let sweep = "[sweep]\ncases = [{ name = \"plain\" }, { name = \"short\", duration = \"5 s\" }]";
    let mut scenario = Scenario::parse(&format!("{SMALL}\n{sweep}\n"), "small.toml").unwrap();
    assert_eq!(labels(&scenario), ["case=plain", "case=short"]);
    assert_eq!(
        points(&scenario)[1].experiment.duration,
        Duration::from_secs(5)
    );
    // A case with nothing left to set is a case nevertheless.
    scenario.set("sweep.cases[0].duration=7 s").unwrap();
    scenario.set("law=balia").unwrap();
    assert_eq!(
        points(&scenario)[0].experiment.duration,
        Duration::from_secs(7)
    );
}

#[test]
fn defaults_that_nobody_takes_are_not_assigned() {
    let mut scenario = with("[flows.phone]", "law = \"balia\"");
    let error = scenario.set("law=reno").unwrap_err().to_string();
    assert!(
        error.contains("no flow uses") && error.contains("flows.phone.law"),
        "{error}"
    );
    scenario.set("flows.*.law=reno").unwrap();
    assert!(
        only(&scenario)
            .flows
            .iter()
            .all(|flow| flow.law.name() == "reno")
    );
}

#[test]
fn queues_arrive_with_their_parameters() {
    let queue = |text: &str| {
        let scenario = with("[links.a]", &format!("queue = {text}"));
        only(&scenario).topology.links[0].config.queue
    };
    let limit = Limit::Packets(99);
    assert_eq!(
        queue("{ codel = { limit = \"99 packets\" } }"),
        Queue::CoDel(CoDel::new(limit))
    );
    let codel = CoDel {
        limit,
        target: ms(2),
        interval: ms(30),
        ecn: true,
    };
    assert_eq!(
        queue(
            "{ codel = { limit = \"99 packets\", target = \"2 ms\", interval = \"30 ms\", ecn = \
             true } }"
        ),
        Queue::CoDel(codel)
    );
    assert_eq!(
        queue(
            "{ fq_codel = { limit = \"99 packets\", target = \"2 ms\", interval = \"30 ms\", ecn \
             = true, queues = 7, quantum = \"300 B\" } }"
        ),
        Queue::FqCoDel(FqCoDel {
            codel,
            queues: 7,
            quantum: 300
        })
    );
    assert_eq!(
        queue(
            "{ pie = { limit = \"99 packets\", target = \"2 ms\", update = \"3 ms\", burst = \"4 \
             ms\", ecn = true } }"
        ),
        Queue::Pie(Pie {
            limit,
            target: ms(2),
            update: ms(3),
            burst: ms(4),
            ecn: true
        })
    );
    assert_eq!(
        queue("{ drr = { limit = \"99 packets\", quantum = \"300 B\" } }"),
        Queue::Drr(Drr {
            limit,
            quantum: 300
        })
    );
    assert_eq!(
        queue("{ priority = { limit = \"99 packets\" } }"),
        Queue::Priority(Priority { limit })
    );
    let mut classed = with("[links.a]", "");
    classed.set("flows.desk.class=5").unwrap();
    assert_eq!(only(&classed).flows[1].class, 5);
}

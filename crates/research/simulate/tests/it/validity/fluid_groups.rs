//! Groups of flows as a fluid: closed forms, and the same scenario with all packets.

use std::sync::atomic::AtomicBool;

use manyway_control::{Path, WindowLaw};
use manyway_scenario::{Experiment, Scenario};
use manyway_simulate::packet::{FlowResult, RunResult, Simulation};

use crate::validity::setup::{assert_near, run};

/// E[w²]/E[w]² of windows with independent losses: 2/1.3098² (Ott, Kemperman, Mathis 1996).
const SPREAD: f64 = 1.1658;

fn experiment(text: &str) -> Experiment {
    let scenario = Scenario::parse(text, "fluid.toml").unwrap();
    scenario.packet_points().unwrap().remove(0).experiment
}

/// One link, and `flows`.
fn one_link(link: &str, flows: &str) -> Experiment {
    experiment(&format!(
        "name = \"fluid\"\nduration = \"100 s\"\n\
         [links.l]\ndelay = \"20 ms\"\n{link}\n\
         [links.m]\nrate = \"10 Gbps\"\ndelay = \"30 ms\"\nloss = 0.004\n\
         [paths.p]\nlinks = [\"l\"]\n[paths.q]\nlinks = [\"m\"]\n\
         [defaults]\nlaw = \"reno\"\npaths = [\"p\"]\nheaders = \"0 B\"\n\
         pacing = false\nslow_start = \"standard\"\njitter = \"1 ms\"\nstart_spread = \"2 s\"\n\
         {flows}\n[measure]\nfrom = \"40 s\"\n"
    ))
}

fn loss(flow: &FlowResult, path: usize) -> f64 {
    let subflow = &flow.subflows[path];
    subflow.packets_lost as f64 / subflow.packets_sent as f64
}

/// Where only the wire loses, nothing oscillates: the windows come to rest where each path's
/// increase and decrease are in balance, `(1 − p) I = p SPREAD D`, whatever the law. The tolerance
/// is that of windows that are still on their way after 40 s.
#[test]
fn each_law_rests_where_its_increase_and_decrease_balance() {
    for law in ["reno", "ewtcp:a=0.5", "lia", "balia", "semicoupled"] {
        let flows = format!(
            "[flows.f]\nlaw = \"{law}\"\npaths = [\"p\", \"q\"]\ncount = 500\nfluid = true"
        );
        let experiment = one_link("rate = \"10 Gbps\"\nloss = 0.001", &flows);
        let result = run(&experiment, 1);
        let subflows = &result.flows[0].subflows;
        let paths: Vec<Path<f64>> = subflows
            .iter()
            .map(|subflow| Path {
                window: subflow.window_mean_packets,
                rtt: subflow.rtt_mean_s,
            })
            .collect();
        let window_law = experiment.flows[0].law.window_law().unwrap();
        for (r, p) in [0.001, 0.004].into_iter().enumerate() {
            assert_near("loss", loss(&result.flows[0], r), p, 1e-3);
            let up = (1.0 - p) * window_law.increase(&paths, r);
            let down = p * SPREAD * window_law.decrease(&paths, r);
            assert_near(&format!("{law}, path {r}"), down, up, 0.005);
            // All that the windows allow is under way.
            let rate = subflows[r].goodput_bps / 12_000.0 / 500.0;
            let expected = paths[r].rate() * (1.0 - p);
            assert_near(&format!("{law}, rate {r}"), rate, expected, 0.005);
        }
        // Without queues, round trips are those of the wires, a packet's time and half the jitter.
        assert_near("RTT", subflows[0].rtt_mean_s, 0.040_501_2, 1e-4);
    }
}

/// Alone on a DropTail link, a class fills it and loses what its balance asks for, at a mean window
/// of what is under way. Around that it swings, as the queue runs full and drains: by up to a
/// quarter, which adds a few percent to the mean of w². Twice as many flows on twice the link are
/// the same.
#[test]
fn alone_on_drop_tail_it_fills_the_link_at_its_balance() {
    let class = |count: u32| {
        let link = format!(
            "rate = \"{count} Mbps\"\nqueue = \"{} packets\"",
            10 * count / 3
        );
        let flows = format!("[flows.f]\ncount = {count}\nfluid = true");
        run(&one_link(&link, &flows), 1)
    };
    let results = [100, 200].map(class);
    for (result, count) in results.iter().zip([100.0, 200.0]) {
        let (flow, link) = (&result.flows[0], &result.links[0]);
        assert!(link.utilisation > 0.999, "{}", link.utilisation);
        assert_near("load", link.load_bps, count * 1e6, 0.001);
        assert_near("goodput", flow.goodput_bps, count * 1e6, 0.002);
        let window = flow.subflows[0].window_mean_packets;
        let balance = 2.0 / (SPREAD * window * window);
        let p = loss(flow, 0);
        assert_near("loss", p / (1.0 - p), balance, 0.12);
        let drops = link.packets_dropped as f64 / link.packets_offered as f64;
        assert_near("drops", drops, p, 0.01);
        // Little: windows are what waits and what is on the wire, less what was lost and hasn't
        // been sent again, about as much as is lost in a round trip.
        let wire = count * 1e6 / 12_000.0 * 0.04;
        let under_way = link.queue_mean_packets + wire;
        assert_near("under way", window * count, under_way * (1.0 + p), 0.02);
    }
    let [one, two] = &results;
    let window = |result: &RunResult| result.flows[0].subflows[0].window_mean_packets;
    assert_near("windows", window(two), window(one), 0.02);
    assert_near(
        "losses",
        loss(&two.flows[0], 0),
        loss(&one.flows[0], 0),
        0.03,
    );
}

/// What a scenario's groups have, over several seeds.
struct Means {
    /// Mbps of each flow of each group.
    goodput: Vec<f64>,
    /// Of the first link: share of packets dropped, and delay in ms.
    drops: f64,
    delay: f64,
}

fn means(set: &[&str], seeds: u64) -> Means {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../scenarios/levels/fluid-group.toml"
    );
    let mut scenario = Scenario::load(file.as_ref()).unwrap();
    for assignment in set {
        scenario.set(assignment).unwrap();
    }
    let point = scenario.packet_points().unwrap().remove(0);
    let experiment = &point.experiment;
    let mut means = Means {
        goodput: vec![0.0; experiment.groups.len()],
        drops: 0.0,
        delay: 0.0,
    };
    let share = 1.0 / seeds as f64;
    for seed in 1..=seeds {
        let result = run(experiment, seed);
        for (mean, group) in means.goodput.iter_mut().zip(&experiment.groups) {
            let members = group.members.clone();
            let count: u32 = experiment.flows[members.clone()]
                .iter()
                .map(|flow| flow.count())
                .sum();
            let all = result.flows[members].iter().map(|flow| flow.goodput_bps);
            *mean += share * all.sum::<f64>() / f64::from(count) / 1e6;
        }
        let link = &result.links[0];
        means.drops += share * link.packets_dropped as f64 / link.packets_offered as f64;
        let rate = experiment.topology.links[0].config.rate.bits_per_sec();
        means.delay += share * link.queue_mean_packets * 12_000.0 / rate * 1e3;
    }
    means
}

/// A hundred flows are many: what they leave to others, lose and let wait is what as many packets
/// do. The means of single flows over five seeds have errors of 4 to 6 %; the tolerance is 15 %.
/// Losses and delays are means of everybody, and differ by the model alone.
#[test]
fn a_hundred_flows_as_a_fluid_do_what_their_packets_do() {
    for law in ["lia", "balia"] {
        let law = format!("flows.multi.law={law}");
        let of = |fluid: &str| {
            let fluid = format!("fluid={fluid}");
            means(&[&law, &fluid, "sweep.cases=[{ name = \"100\" }]"], 5)
        };
        let (packets, fluid) = (of("false"), of("true"));
        for (group, tolerance) in [0.15, 0.15, 0.01, 0.01].into_iter().enumerate() {
            let (measured, expected) = (fluid.goodput[group], packets.goodput[group]);
            assert_near(
                &format!("{law}, group {group}"),
                measured,
                expected,
                tolerance,
            );
        }
        assert_near("drops", fluid.drops, packets.drops, 0.1);
        assert_near("delay", fluid.delay, packets.delay, 0.06);
    }
}

/// Flows that come one by one, stop, and have a path for some of the time; downstream of a
/// bottleneck arrives what it lets through.
#[test]
fn a_class_comes_and_goes_and_loads_what_it_passes() {
    let experiment = experiment(
        "name = \"fluid\"\nduration = \"40 s\"\n\
         [links.narrow]\nrate = \"50 Mbps\"\ndelay = \"10 ms\"\nqueue = \"200 packets\"\n\
         [links.wide]\nrate = \"100 Mbps\"\ndelay = \"10 ms\"\nqueue = \"200 packets\"\n\
         [links.lone]\nrate = \"20 Mbps\"\ndelay = \"10 ms\"\nqueue = \"80 packets\"\n\
         [paths.p]\nlinks = [\"narrow\", \"wide\"]\n[paths.q]\nlinks = [\"lone\"]\n\
         [flows.f]\nlaw = \"reno\"\ncount = 50\nfluid = true\nheaders = \"0 B\"\n\
         paths = [\"p\", { path = \"q\", start = \"20 s\", stop = \"25 s\" }]\n\
         start = \"5 s\"\nstart_spread = \"10 s\"\nstop = \"30 s\"\n\
         [measure]\nseries = [\"load\", \"window\"]\ninterval = \"1 s\"\n",
    );
    let result = run(&experiment, 1);
    let series = |kind: &str, of: &str| {
        let mut all = result.series.iter();
        let found = all.find(|s| s.kind == kind && s.of.iter().any(|name| name == of));
        found.unwrap().values.clone()
    };
    let (narrow, wide, lone) = (
        series("load", "narrow"),
        series("load", "wide"),
        series("load", "lone"),
    );
    // Sample n is of the second before n + 1.
    assert!(narrow[..5].iter().all(|&load| load == 0.0));
    assert!(
        narrow[5] > 0.0 && narrow[5] < 0.9 * narrow[20],
        "{:?}",
        &narrow[5..8]
    );
    for second in 20..29 {
        assert_near("narrow", narrow[second], 50e6, 0.02);
        assert_near("wide", wide[second], 50e6, 0.05);
    }
    assert!(
        lone[..20]
            .iter()
            .chain(&lone[26..])
            .all(|&load| load == 0.0)
    );
    assert_near("lone", lone[23], 20e6, 0.05);
    assert!(narrow[31..].iter().all(|&load| load == 0.0));
    let windows = series("window", "q");
    assert!(windows[18].is_nan() && windows[22] > 1.0 && windows[26].is_nan());
    // Twenty-five seconds are counted, five of them on the second path.
    let subflows = &result.flows[0].subflows;
    assert_near("open, s", subflows[0].open_s, 25.0, 0.001);
    assert_near("open, s", subflows[1].open_s, 5.0, 0.005);
}

#[test]
fn the_same_seed_gives_the_same_bits() {
    let flows = "[flows.one]\n[flows.others]\ncount = 30\nfluid = true";
    let mut experiment = one_link("rate = \"30 Mbps\"\nqueue = \"100 packets\"", flows);
    experiment.measure.series = vec![manyway_scenario::SeriesKind::Queue];
    let result = run(&experiment, 7);
    assert_eq!(result, run(&experiment, 7));
    assert_ne!(result.flows, run(&experiment, 8).flows);
    // To record nothing changes nothing.
    experiment.measure.series.clear();
    assert_eq!(result.flows, run(&experiment, 7).flows);
}

/// Steps, not flows, cost time; and a class of any size is one entry.
#[test]
fn events_do_not_depend_on_the_number_of_flows() {
    let events = |count: u32| {
        let link = format!("rate = \"{count} Mbps\"\nqueue = \"{count} packets\"");
        let flows = format!("[flows.f]\ncount = {count}\nfluid = true");
        let experiment = one_link(&link, &flows);
        let mut simulation = Simulation::new(&experiment, 1).unwrap();
        simulation.run(&AtomicBool::new(false));
        (simulation.events(), experiment.flows.len())
    };
    let (few, many) = (events(10), events(100_000));
    assert_eq!(few.1, many.1);
    // The shortest round trip has the time of a packet, which makes steps a little shorter.
    assert!(many.0 < few.0 + few.0 / 10, "{few:?} {many:?}");
}

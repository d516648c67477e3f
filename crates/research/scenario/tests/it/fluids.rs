//! Groups that are a fluid at the packet level.

use std::fmt::Write;

use manyway_scenario::{Experiment, Scenario, ScenarioError};

const GOOD: &str = r#"name = "good"
duration = "60 s"

[links.near]
rate = "50 Mbps"
delay = "10 ms"
queue = "100 packets"

[links.far]
rate = "100 Mbps"
delay = "20 ms"

[paths.p1]
links = ["near"]

[paths.p2]
links = ["far"]
reverse = ["near"]

[flows.one]
law = "cubic"
paths = ["p1", "p2"]

[flows.others]
law = "lia"
paths = ["p1", "p2"]
count = 200000
fluid = true
"#;

fn scenario(text: &str) -> Scenario {
    Scenario::parse(text, "x.toml").expect("it can be read")
}

fn packets(text: &str) -> Result<Experiment, ScenarioError> {
    let mut points = scenario(text).packet_points()?;
    Ok(points.remove(0).experiment)
}

/// However many flows there are, they are one entry at the packet level. Elsewhere, each has its
/// own.
#[test]
fn a_fluid_is_one_flow_for_all() {
    let experiment = packets(GOOD).unwrap();
    let counts: Vec<_> = experiment.flows.iter().map(|flow| flow.count()).collect();
    assert_eq!(counts, [1, 200_000]);
    assert_eq!(experiment.count(), 200_001);
    assert_eq!(experiment.groups[1].members, 1..2);
    assert_eq!(experiment.flows[1].name, "others");
    let few = GOOD.replace("200000", "20");
    let points = scenario(&few).points().unwrap();
    let flows = &points[0].experiment.flows;
    assert_eq!(flows.len(), 21);
    assert!(flows.iter().all(|flow| flow.fluid.is_none()));
    // As without the key.
    let plain = scenario(&few.replace("fluid = true", ""));
    assert_eq!(points, plain.points().unwrap());
    assert_eq!(plain.packet_points().unwrap(), plain.points().unwrap());
    // None is no flow, of a fluid either.
    let none = packets(&GOOD.replace("200000", "0")).unwrap();
    assert_eq!(none.flows.len(), 1);
}

#[test]
fn what_no_fluid_can_be() {
    let group = "count = 200000\n";
    let cases = [
        ("law = \"lia\"", "law = \"olia\""),
        ("law = \"lia\"", "law = \"wvegas\""),
        (group, "size = \"1 MB\"\npause = \"1 s\"\n"),
        (group, "rate = \"1 Mbps\"\nstagger = \"10 ms\"\n"),
        (
            group,
            "delay_step = \"1 ms\"\naccess = { rate = \"1 Mbps\" }\n",
        ),
        (group, "stagger = { exponential = \"10 ms\" }\n"),
        (
            "queue = \"100 packets\"",
            "queue = { codel = { limit = \"100 packets\" } }",
        ),
        (
            "queue = \"100 packets\"",
            "policer = { rate = \"9 Mbps\", burst = \"9 kB\" }",
        ),
        (
            "queue = \"100 packets\"",
            "timetable = [{ at = \"5 s\", rate = \"9 Mbps\" }]",
        ),
    ];
    let mut transcript = String::new();
    for (from, to) in cases {
        let said = packets(&GOOD.replacen(from, to, 1)).expect_err(to);
        writeln!(transcript, "- {}\n+ {}\n{said}\n", from.trim(), to.trim()).unwrap();
    }
    let few = scenario(&GOOD.replace("200000", "2"));
    let (stack, live) = (few.session_points(), few.live_points());
    for said in [stack.expect_err("stack"), live.expect_err("live")] {
        writeln!(transcript, "{said}\n").unwrap();
    }
    insta::with_settings!({ omit_expression => true }, { insta::assert_snapshot!(transcript) });
}

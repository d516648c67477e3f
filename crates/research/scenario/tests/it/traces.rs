//! Links whose rate is a file's, or varies.

use std::fs;
use std::time::Duration;

use manyway_scenario::Scenario;
use manyway_units::{Rate, Time};

const SCENARIO: &str = r#"
name = "traced"
duration = "10 s"
[links.a]
trace = "traces/five"
delay = "10 ms"
[paths.p]
links = ["a"]
[flows.f]
law = "reno"
paths = ["p"]
"#;

/// The scenario in a folder of its own, with a trace of five opportunities in 10 ms.
fn loaded(assignment: Option<&str>) -> Result<manyway_scenario::Experiment, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("traced.toml");
    fs::write(&path, SCENARIO).unwrap();
    fs::create_dir(folder.path().join("traces")).unwrap();
    fs::write(folder.path().join("traces/five"), "1\n1\n3\n4\n10\n").unwrap();
    fs::write(folder.path().join("traces/none"), "1\none\n").unwrap();
    let table = "time_s,rate_bps,delay_s\n50,8e6,0.02\n51,2e6,0.03\n";
    fs::write(folder.path().join("traces/table.csv"), table).unwrap();
    fs::write(
        folder.path().join("traces/wrong.csv"),
        "time_s,rate_bps\n1\n",
    )
    .unwrap();
    let mut scenario = Scenario::load(&path).unwrap();
    if let Some(assignment) = assignment {
        scenario.set(assignment).unwrap();
    }
    let points = scenario.points().map_err(|error| error.to_string())?;
    Ok(points[0].experiment.clone())
}

#[test]
fn a_trace_is_found_beside_its_scenario() {
    let experiment = loaded(None).unwrap();
    let link = &experiment.topology.links[0].config;
    assert_eq!(link.rate, Rate::from_mbps(6.016));
    assert_eq!(link.timetable.period, Some(Duration::from_millis(10)));
    let at = |millis| link.at(Time::from_millis(millis)).rate;
    assert_eq!(at(1), Rate::from_mbps(24.064));
    assert_eq!(at(13), Rate::from_mbps(12.032));
}

#[test]
fn a_trace_that_cannot_work_is_refused() {
    let refused = |assignment, message: &str| {
        let error = loaded(Some(assignment)).unwrap_err();
        let place = error.contains("links.a.trace");
        assert!(place && error.contains(message), "{assignment}: {error}");
    };
    refused(
        "links.a.trace=traces/missing",
        "traces/missing: can't be read",
    );
    refused("links.a.trace=traces/none", "line 2 is not a whole number");
    refused("links.a.rate=5 Mbps", "leave them out");
    refused("links.a.timetable_period=5 s", "leave timetable_period out");
    refused(
        "links.a.trace=traces/wrong.csv",
        "line 2 has another number of columns",
    );
}

#[test]
fn a_table_of_measurements_is_a_trace() {
    let experiment = loaded(Some("links.a.trace=traces/table.csv")).unwrap();
    let link = &experiment.topology.links[0].config;
    let at = |millis| {
        let link = link.at(Time::from_millis(millis));
        (link.rate, link.delay)
    };
    let mbps = |rate, delay| (Rate::from_mbps(rate), Duration::from_millis(delay));
    assert_eq!(link.rate, Rate::from_mbps(8.0));
    assert_eq!((at(1), at(999)), (mbps(8.0, 20), mbps(8.0, 20)));
    assert_eq!((at(1000), at(9000)), (mbps(2.0, 30), mbps(2.0, 30)));
}

/// A scenario of two links that vary alike but for their names.
fn varied(more: &str) -> Result<manyway_scenario::Experiment, String> {
    let link = |name| {
        format!(
            "[links.{name}]\nrate = \"20 Mbps\"\ndelay = \"10 ms\"\n\
             varying = {{ interval = \"50 ms\", deviation = 0.5{more} }}\n"
        )
    };
    let links = link("a") + &link("b") + "[paths.p]";
    let rest = SCENARIO.split_once("[paths.p]").unwrap().1;
    let text = format!("name = \"varied\"\nduration = \"10 s\"\n{links}{rest}");
    let points = Scenario::parse(&text, "varied.toml").unwrap().points();
    let points = points.map_err(|error| error.to_string())?;
    Ok(points[0].experiment.clone())
}

#[test]
fn links_vary_by_their_names_and_seeds() {
    let tables = |more| {
        let links = varied(more).unwrap().topology.links;
        assert!(
            links
                .iter()
                .all(|link| link.config.rate == Rate::from_mbps(20.0))
        );
        links
            .into_iter()
            .map(|link| link.config.timetable)
            .collect::<Vec<_>>()
    };
    let [one, other] = &tables("")[..] else {
        panic!("two links")
    };
    assert_eq!(one.period, Some(Duration::from_millis(2048 * 50)));
    assert!(one != other && tables("")[0] == *one && tables(", seed = 2")[0] != *one);
    let memory = tables(", memory = 0.9");
    assert_ne!(memory[0], *one);
}

#[test]
fn what_cannot_vary_is_refused() {
    let refused = |more, message: &str| {
        let error = varied(more).unwrap_err();
        assert!(error.contains(message), "{more}: {error}");
    };
    refused(
        ", memory = 1.0",
        "links.a.varying.memory: 1 is not possible",
    );
    refused(
        ", outages = { every = \"20 s\" }",
        "links.a.varying.outages.lasting",
    );
    refused(
        ", outages = { every = \"20 s\", lasting = \"1 ms\" }",
        "links.a.varying.outages.lasting: 1ms is not possible: choose at least the interval",
    );
    refused(
        " }\ntimetable_period = \"5 s\"\nlate = { share = 0.1, by = \"1 ms\"",
        "links.a.varying: replaces `timetable`",
    );
}

#[test]
fn a_policer_has_room_for_a_packet() {
    let policed = |burst: &str| {
        let policer = format!("policer = {{ rate = \"5 Mbps\"{burst} }}");
        let text = SCENARIO.replace("trace = \"traces/five\"", "rate = \"20 Mbps\"");
        let text = text.replace("[paths.p]", &format!("{policer}\n[paths.p]"));
        let points = Scenario::parse(&text, "policed.toml").unwrap().points();
        points.map_err(|error| error.to_string())
    };
    let points = policed(", burst = \"1500 B\"").unwrap();
    let link = &points[0].experiment.topology.links[0].config;
    assert_eq!(link.capacity(Time::ZERO), Rate::from_mbps(5.0));
    let error = policed(", burst = \"1499 B\"").unwrap_err();
    assert!(
        error.contains("links.a.policer.burst: has no room"),
        "{error}"
    );
    let error = policed("").unwrap_err();
    assert!(error.contains("links.a.policer.burst"), "{error}");
}

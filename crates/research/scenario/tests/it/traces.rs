//! Links whose rate is a file's.

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
    refused("links.a.timetable_period=5 s", "leave them out");
}

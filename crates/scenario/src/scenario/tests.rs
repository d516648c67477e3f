use super::*;

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
links = ["b"]
reverse = ["a"]

[defaults]
law = "lia"

[flows.phone]
paths = ["p", { path = "q", start = "2 s" }]
count = 3
stagger = "100 ms"

[flows.desk]
law = "reno"
paths = ["q"]
"#;

fn small() -> Scenario {
    Scenario::parse(SMALL, "small.toml").unwrap()
}

fn only(scenario: &Scenario) -> Experiment {
    let points = scenario.points().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(points.len(), 1);
    points[0].experiment.clone()
}

#[test]
fn groups_become_flows() {
    let experiment = only(&small());
    let names: Vec<_> = experiment
        .flows
        .iter()
        .map(|flow| flow.name.as_str())
        .collect();
    assert_eq!(names, ["phone.1", "phone.2", "phone.3", "desk"]);
}

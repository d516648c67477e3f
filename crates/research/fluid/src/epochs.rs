//! The moments at which an experiment's network changes.

use std::collections::BTreeSet;

use manyway_network::LinkConfig;
use manyway_scenario::Experiment;
use manyway_units::Time;

/// When an experiment's network changes: flows and subflows that come and go, links whose timetable
/// says so. Begins with 0 and ends before the experiment does; at most `most` moments are found,
/// earliest first.
///
/// Between two of them the network is [`Network::at`](crate::Network::at) the first. Random starts
/// count as of their earliest.
pub fn epochs(experiment: &Experiment, most: usize) -> Vec<Time> {
    let end = Time::ZERO + experiment.duration;
    let mut moments = BTreeSet::from([Time::ZERO]);
    for flow in &experiment.flows {
        let lifetimes = flow.lifetimes.iter();
        let lifetimes = lifetimes.flat_map(|lifetime| [Some(lifetime.from), lifetime.until]);
        moments.extend(
            [Some(flow.start), flow.stop]
                .into_iter()
                .chain(lifetimes)
                .flatten(),
        );
        if let Some(access) = &flow.access {
            moments.extend(changes(access, end, most));
        }
    }
    for link in &experiment.topology.links {
        moments.extend(changes(&link.config, end, most));
    }
    let within = moments.into_iter().take_while(|&moment| moment < end);
    within.take(most.max(1)).collect()
}

/// A link's changes before `end`, round after round.
fn changes(link: &LinkConfig, end: Time, most: usize) -> Vec<Time> {
    let changes = &link.timetable.changes;
    let mut found = Vec::new();
    let mut round = Time::ZERO;
    while found.len() < most && !changes.is_empty() {
        let times = changes
            .iter()
            .map(|change| round + change.at.since(Time::ZERO));
        found.extend(times);
        match link.timetable.period {
            Some(period) if round + period < end && !period.is_zero() => round += period,
            _ => break,
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use manyway_scenario::Scenario;

    use super::*;
    use crate::Network;

    const FILE: &str = r#"
name = "comings and goings"
duration = "100 s"
[links.a]
rate = "10 Mbps"
delay = "10 ms"
timetable = [{ at = "5 s", rate = "4 Mbps" }, { at = "10 s", rate = "10 Mbps" }]
timetable_period = "40 s"
[links.b]
rate = "6 Mbps"
delay = "30 ms"
timetable = [{ at = "60 s", up = false }]
[paths.a]
links = ["a"]
[paths.b]
links = ["b"]
[defaults]
law = "balia"
[flows.both]
paths = ["a", { path = "b", start = "20 s" }]
[flows.late]
paths = ["b"]
start = "30 s"
stop = "95 s"
"#;

    #[test]
    fn an_experiment_is_cut_where_its_network_changes() {
        let scenario = Scenario::parse(FILE, "epochs.toml").unwrap();
        let experiment = &scenario.points().unwrap()[0].experiment;
        let seconds = |most| -> Vec<f64> {
            let moments = epochs(experiment, most);
            moments
                .into_iter()
                .map(|moment| moment.since(Time::ZERO).as_secs_f64())
                .collect()
        };
        let all = [
            0.0, 5.0, 10.0, 20.0, 30.0, 45.0, 50.0, 60.0, 85.0, 90.0, 95.0,
        ];
        assert_eq!(seconds(100), all);
        assert_eq!(seconds(3), all[..3]);

        let at = |seconds: u64| Network::at(experiment, Time::from_millis(1000 * seconds));
        let names = |network: &Network| -> Vec<String> {
            let routes = network.routes();
            routes
                .map(|(flow, route)| format!("{} over {}", network.flows[flow].name, route.name))
                .collect()
        };
        assert_eq!(names(&at(0)), ["both over a"]);
        assert_eq!(names(&at(20)), ["both over a", "both over b"]);
        assert_eq!(
            names(&at(30)),
            ["both over a", "both over b", "late over b"]
        );
        // The second link is down: who has nothing else isn't there.
        assert_eq!(names(&at(60)), ["both over a"]);
        assert_eq!(at(47).links[0].capacity, 4e6);
        assert_eq!(at(52).links[0].capacity, 10e6);
        assert!((at(20).flows[0].routes[1].rtt - 0.06).abs() < 1e-9);
    }
}

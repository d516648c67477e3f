//! Scenarios with an `[overlay]`: what they resolve to, and what is said about those that can't be
//! run.

use std::fmt::Write;

use manyway_control::rate_control::{Choice, Reselection};
use manyway_scenario::file::{Sharing, Start};
use manyway_scenario::{
    OverlayExperiment, RelayBandwidths, RelaySelection, Scenario, ScenarioError,
};

const GOOD: &str = r#"name = "good"
repeat = 3

[overlay]
sources = 20
demand = "1.2 Mbps"
skew = 0.5
ratio = 1.6
paths = 2
intervals = 100

[overlay.control]
increment = 0.01
"#;

fn points(text: &str, assignments: &[&str]) -> Result<Vec<OverlayExperiment>, ScenarioError> {
    let mut scenario = Scenario::parse(text, "scenarios/x.toml")?;
    for assignment in assignments {
        scenario.set(assignment)?;
    }
    let points = scenario.overlay_points()?;
    Ok(points.into_iter().map(|point| point.experiment).collect())
}

#[test]
fn defaults_are_the_papers() {
    let text = "name = \"x\"\n[overlay]\nsources = 4\ndemand = \"6 Mbps\"\n";
    let points = points(text, &[]).unwrap();
    let [only] = &points[..] else {
        panic!("{points:?}")
    };
    assert_eq!((only.sources, only.relays(), only.paths()), (4, 4, 8));
    assert_eq!(only.demands, [6e6]);
    assert_eq!(
        only.relays,
        RelayBandwidths::Skewed {
            count: 4,
            skew: 0.0,
            ratio: 1.0
        }
    );
    assert_eq!((only.start, only.sharing), (Start::Zero, Sharing::MaxMin));
    assert_eq!(
        (only.intervals, only.judged, only.iterations),
        (1000, 500, None)
    );
    let control = only.control;
    assert_eq!(
        (
            control.increment,
            control.grow,
            control.shrink,
            control.boost,
            only.tolerance
        ),
        (0.01, 1.1, 2.0, 0.0, None)
    );
    assert!(only.packets.is_none());
}

#[test]
fn all_of_it_can_be_said() {
    let text = r#"
        name = "x"
        [overlay]
        sources = 10
        demand = ["1 Mbps", "10 Mbps"]
        relays = 30
        skew = 1
        ratio = 2
        paths = 3
        choice = "proportional"
        bandwidth_error = 0.2
        sharing = "equal-loss"
        intervals = 200
        judged = 100
        band = 0.95
        control.increment = 0.1
        control.tolerance = 0.03
        control.grow = 1.2
        control.shrink = 1.1
        control.boost = 0.1
        control.start = "maxmin"
        reselect = { scheme = "1", satisfied = 0.9, iterations = 7 }
    "#;
    let only = points(text, &[]).unwrap().remove(0);
    let RelaySelection::Chosen(select) = &only.selection else {
        panic!("{only:?}")
    };
    assert_eq!(select.choice, Choice::Proportional { error: 0.2 });
    assert_eq!((select.paths, select.satisfied), (3, 0.9));
    assert_eq!(select.reselection, Reselection::Slowest);
    assert_eq!(
        (only.demands.len(), only.relays(), only.paths()),
        (2, 30, 30)
    );
    assert_eq!(
        (only.iterations, only.tolerance, only.band),
        (Some(7), Some(0.03), 0.95)
    );
    assert_eq!(
        (only.start, only.sharing),
        (Start::MaxMin, Sharing::EqualLoss)
    );
}

#[test]
fn selections_and_rates_may_be_given() {
    let text = r#"
        name = "x"
        [overlay]
        demand = "6 Mbps"
        bandwidths = ["6 Mbps", "3 Mbps"]
        selection = [[1], [2, 1]]
        control = { increment = "0.06 Mbps" }
    "#;
    let only = points(text, &[]).unwrap().remove(0);
    assert_eq!(only.relays, RelayBandwidths::Given(vec![6e6, 3e6]));
    assert_eq!(
        only.selection,
        RelaySelection::Given(vec![vec![0], vec![1, 0]])
    );
    assert_eq!((only.sources, only.paths()), (2, 3));
    assert!((only.control.increment - 0.01).abs() < 1e-12);
}

#[test]
fn connections_have_the_keys_of_flows() {
    let text = format!(
        "{GOOD}[overlay.packets]\nrtt = \"40 ms\"\n[defaults]\nlaw = \"cubic\"\npacket_size = \
         \"500 B\"\npacing = false\n"
    );
    let only = points(&text, &[]).unwrap().remove(0);
    let packets = only.packets.unwrap();
    assert_eq!(packets.connection.law.name(), "cubic");
    assert_eq!(packets.connection.sender.packet_size, 500);
    assert!(!packets.connection.sender.pacing);
    assert_eq!(packets.interval, 10 * packets.rtt);
}

#[test]
fn every_key_can_be_swept_and_assigned() {
    let text = format!(
        "{GOOD}[sweep]\n\"overlay.skew\" = [0, 0.5, 1]\n\"overlay.control.increment\" = [0.1, \"12 \
         kbps\"]\n"
    );
    assert_eq!(points(&text, &[]).unwrap().len(), 6);
    let one = points(&text, &["overlay.skew=1", "overlay.paths=4"]).unwrap();
    assert_eq!((one.len(), one[0].paths()), (2, 80));
}

#[test]
fn what_cannot_be_run_is_told() {
    let changes: [(&str, &str); 26] = [
        ("sources = 20", ""),
        ("sources = 20", "sources = 0"),
        ("sources = 20", "sources = 1000000"),
        ("demand = \"1.2 Mbps\"", ""),
        ("demand = \"1.2 Mbps\"", "demand = 1.2"),
        ("demand = \"1.2 Mbps\"", "demand = \"0 Mbps\""),
        ("demand = \"1.2 Mbps\"", "demand = [\"1 Mbps\", \"0 Mbps\"]"),
        ("demand = \"1.2 Mbps\"", "demand = []"),
        ("paths = 2", "paths = 21"),
        ("paths = 2", "paths = 0"),
        ("paths = 2", "choice = \"random\""),
        ("paths = 2", "bandwidth_error = 0.5"),
        (
            "paths = 2",
            "choice = \"proportional\"\nbandwidth_error = 1",
        ),
        ("paths = 2", "selection = [[1, 2]]"),
        ("sources = 20", "selection = [[1, 1], [], [3, 4]]"),
        ("skew = 0.5", "skew = -1"),
        ("ratio = 1.6", "ratio = 0"),
        ("skew = 0.5", "bandwidths = [\"1 Mbps\", \"0 bps\"]"),
        ("intervals = 100", "intervals = 0"),
        ("intervals = 100", "intervals = 100\njudged = 101"),
        ("intervals = 100", "band = 1"),
        ("increment = 0.01", "increment = 0"),
        ("increment = 0.01", "increment = \"2 Mbps\""),
        ("increment = 0.01", "grow = 1\nshrink = nan"),
        ("increment = 0.01", "tolerance = 1.5\nboost = -1"),
        ("increment = 0.01", "epsilon = 0.01"),
    ];
    let mut told = String::new();
    let mut case = |words: &str, text: &str| {
        let error = points(text, &[]).expect_err(words);
        writeln!(told, "# {words}\n{error}\n").unwrap();
    };
    for (from, to) in changes {
        assert!(GOOD.contains(from), "{from}");
        case(&format!("{from} -> {to}"), &GOOD.replacen(from, to, 1));
    }
    for more in [
        "[links.a]\nrate = \"1 Mbps\"\ndelay = \"1 ms\"",
        "[defaults]\nlaw = \"reno\"",
        "[overlay.reselect]\nsatisfied = 0",
        "[overlay.reselect]\niterations = 0",
        "[overlay.packets]\nqueue = \"50 packets\"",
        "[overlay.packets]\nrtt = \"40 ms\"\ninterval = \"10 ms\"\nsend_buffer = \"0 packets\"",
        "[overlay.packets]\nrtt = \"40 ms\"\ninterval = \"300 d\"",
        "[overlay.packets]\nrtt = \"40 ms\"\n[defaults]\nlaw = \"reno\"\ncount = 3\nrate = \"1 \
         Mbps\"",
        "[overlay.packets]\nrtt = \"40 ms\"\n[overlay.reselect]\nscheme = \"k\"",
    ] {
        case(more, &format!("{GOOD}{more}\n"));
    }
    let mixed = GOOD.replacen(
        "demand = \"1.2 Mbps\"",
        "demand = [\"1 Mbps\", \"10 Mbps\"]",
        1,
    );
    case(
        "a rate for increments where demands differ",
        &mixed.replacen("increment = 0.01", "increment = \"10 kbps\"", 1),
    );
    insta::with_settings!({ omit_expression => true }, { insta::assert_snapshot!(told) });
}

#[test]
fn the_two_kinds_of_scenarios_are_told_apart() {
    let overlay = Scenario::parse(GOOD, "x.toml").unwrap();
    assert!(overlay.is_overlay());
    insta::with_settings!({ omit_expression => true }, {
        insta::assert_snapshot!("no_flows", overlay.points().unwrap_err().to_string());
    });
    let flows = Scenario::parse("name = \"x\"\n", "x.toml").unwrap();
    assert!(!flows.is_overlay());
    insta::with_settings!({ omit_expression => true }, {
        insta::assert_snapshot!("no_overlay", flows.overlay_points().unwrap_err().to_string());
    });
}

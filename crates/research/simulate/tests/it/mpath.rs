//! Runs of law mPath, whose paths come and go: `tau` decides which relays are usable, and runs
//! don't depend on threads.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use manyway_scenario::Scenario;
use manyway_simulate::batch::{self, Control, Job, Level, Plan, Shard};
use manyway_simulate::packet::{RunResult, Simulation};

/// All results as text, so that not-a-number is equal to itself.
fn results(threads: usize) -> Vec<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scenarios/mpath/fig7.toml");
    let mut scenario = Scenario::load(&file).expect("the scenario is sound");
    scenario
        .set("duration=60 s")
        .expect("the duration is sound");
    let points = scenario.points().expect("the scenario is sound");
    let plan = Plan {
        scenario: scenario.name(),
        level: Level::Packet,
        points: &points,
        seed: 1,
        repeat: 2,
        threads,
        keep_series: true,
        shard: Shard::default(),
    };
    let mut all = Vec::new();
    let sink = |job: &Job, run: &RunResult| {
        let text = serde_json::to_string(run).expect("it is plain data");
        all.push((job.point, run.seed, text));
        Ok(())
    };
    plan.run(batch::packet, sink, &Control::new())
        .expect("it runs");
    all.sort();
    all.into_iter().map(|(_, _, text)| text).collect()
}

#[test]
fn one_thread_or_two_make_no_difference() {
    let one = results(1);
    assert_eq!(one.len(), 12);
    assert!(one == results(2));
    // Seeds do.
    assert_ne!(one[0], one[1]);
}

/// A direct path with a round trip of 20 ms, up to 40 with its queue, and one through a relay with
/// 200.
fn detour(law: &str) -> RunResult {
    let text = format!(
        r#"
        name = "Detour"
        duration = "20 s"
        [links.direct]
        rate = "6 Mbps"
        delay = "10 ms"
        [links.detour]
        rate = "6 Mbps"
        delay = "100 ms"
        [paths.direct]
        links = ["direct"]
        [paths.detour]
        links = ["detour"]
        [flows.f]
        law = "{law}"
        paths = ["direct", "detour"]
        "#
    );
    let scenario = Scenario::parse(&text, "detour.toml").expect("the scenario is sound");
    let point = scenario
        .points()
        .expect("the scenario is sound")
        .swap_remove(0);
    let mut simulation = Simulation::new(&point.experiment, 1).expect("the scenario is sound");
    simulation.run(&AtomicBool::new(false))
}

/// The paper's τ, in round-trip times of the direct path: an answer that takes longer counts as
/// none.
#[test]
fn a_relay_is_usable_within_tau_round_trips() {
    for (law, usable) in [
        ("mpath", false),
        ("mpath:tau=2", false),
        ("mpath:tau=12", true),
    ] {
        let result = detour(law);
        let path = &result.flows[0].subflows[1];
        assert_eq!(path.openings > 0, usable, "{law}: {path:?}");
        assert_eq!(path.goodput_bps > 2e6, usable, "{law}: {path:?}");
        if !usable {
            // Its answers are late, and no losses.
            let fate = (path.packets_lost, path.timeouts);
            assert_eq!(fate, (0, path.packets_sent), "{law}: {path:?}");
        }
    }
}

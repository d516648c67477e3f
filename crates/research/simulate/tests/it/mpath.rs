//! Runs of law mPath, whose paths come and go, don't depend on threads.

use std::path::Path;

use manyway_scenario::Scenario;
use manyway_simulate::batch::{self, Control, Job, Level, Plan, Shard};
use manyway_simulate::packet::RunResult;

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

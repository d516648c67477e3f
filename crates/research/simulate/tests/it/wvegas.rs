//! wVegas' delay of the way there, on the packet level: a short version of
//! `scenarios/wvegas/return-path.toml`, judged as in full.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use manyway_scenario::Scenario;
use manyway_simulate::packet::Simulation;

/// Goodput of the two paths, Mbps, with so many TCP flows on the first one's return path.
fn paths(law: &str, against: u32) -> [f64; 2] {
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scenarios/wvegas/return-path.toml");
    let mut scenario = Scenario::load(&file).unwrap();
    for set in [
        format!("law={law}"),
        format!("flows.against.count={against}"),
        "duration=90 s".to_owned(),
    ] {
        scenario.set(&set).unwrap();
    }
    let points = scenario.points().unwrap();
    // Every point that the file sweeps has the assigned values.
    let mut simulation = Simulation::new(&points[0].experiment, 1).unwrap();
    let run = simulation.run(&AtomicBool::new(false));
    let flow = run.flows.iter().find(|flow| flow.name == "one").unwrap();
    [0, 1].map(|n| flow.subflows[n].goodput_bps / 1e6)
}

#[test]
fn forward_delay_is_that_of_the_way_there() {
    for (law, against, range) in [
        ("wvegas", 0, 9.5..10.1),
        ("wvegas", 4, 0.0..1.0),
        ("wvegas:forward=1", 0, 9.5..10.1),
        ("wvegas:forward=1", 1, 8.5..10.1),
        ("wvegas:forward=1", 4, 8.5..10.1),
    ] {
        let [congested, free] = paths(law, against);
        assert!(range.contains(&congested), "{law}, {against}: {congested}");
        assert!(free > 9.5, "{law}, {against}: {free}");
    }
}

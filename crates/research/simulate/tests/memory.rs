//! The memory of a run with two thousand flows. Alone in its file, so that it has a process of its
//! own.
#![cfg(target_os = "linux")]

use std::path::Path;
use std::sync::atomic::AtomicBool;

use manyway_scenario::Scenario;
use manyway_simulate::packet::Simulation;

/// Peak resident size of this process, bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux says it");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
    let kilobytes: u64 = kilobytes.expect("in kB").parse().expect("a number");
    kilobytes * 1024
}

/// Runs S2-1000: 1000 flows of two subflows and 1000 of one, 6 Gbps, 10,000 packets in each queue,
/// some 60,000 under way.
fn check(duration: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scenarios/speed/s2-1000.toml");
    let mut scenario = Scenario::load(&file).expect("the scenario is sound");
    scenario
        .set(&format!("duration={duration}"))
        .expect("the duration is sound");
    let point = scenario.points().expect("the scenario is sound").remove(0);
    let mut simulation = Simulation::new(&point.experiment, 1).expect("the scenario is sound");
    let result = simulation.run(&AtomicBool::new(false));
    // All the flows have started, and queues have been full.
    assert!(
        result
            .links
            .iter()
            .all(|link| link.packets_dropped > 10_000),
        "{:?}",
        result.links
    );
    let peak = peak();
    assert!(peak <= 40_000_000, "{peak} bytes");
}

#[test]
fn two_thousand_flows_fit_in_40_megabytes() {
    check("3 s");
}

#[test]
#[ignore = "the whole 20 s: cargo test --release -p manyway-simulate --test memory -- --ignored"]
fn two_thousand_flows_fit_in_40_megabytes_to_the_end() {
    check("20 s");
}

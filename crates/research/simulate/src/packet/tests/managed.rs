//! Flows of law mPath: paths are probed, opened, closed and opened again.

use manyway_network::{Change, Timetable};
use manyway_scenario::Relays;

use super::*;

/// A direct path of 6 Mbps and candidates of these rates, Mbps.
fn candidates(rates: &[f64]) -> (Topology, Flow) {
    let all: Vec<f64> = std::iter::once(6.0).chain(rates.iter().copied()).collect();
    let paths: Vec<usize> = (0..all.len()).collect();
    (parallel(&all), flow("mpath", &paths))
}

fn goes_down(topology: &mut Topology, link: usize, at: u64, back: Option<u64>) {
    let change = |at, up| Change {
        at: Time::from_millis(at),
        up: Some(up),
        ..Change::default()
    };
    let mut changes = vec![change(at, false)];
    changes.extend(back.map(|at| change(at, true)));
    topology.links[link].config.timetable = Timetable {
        changes,
        ..Timetable::default()
    };
}

/// When each subflow sent its probes, in order of time.
fn probes(simulation: &Simulation) -> Vec<(Time, usize)> {
    let mut all = Vec::new();
    for (number, subflow) in simulation.subflows.iter().enumerate() {
        let probes = subflow.relay.iter().flat_map(|relay| &relay.probes);
        all.extend(probes.map(|probe| (probe.sent, number)));
    }
    all.sort();
    all
}

#[test]
fn probes_are_250_ms_apart_and_a_dead_relay_is_never_opened() {
    let (mut topology, flow) = candidates(&[6.0; 8]);
    goes_down(&mut topology, 3, 0, None);
    let experiment = experiment(topology, vec![flow], 60);
    let mut simulation = Simulation::new(&experiment, 1).unwrap();
    let result = simulation.run(&AtomicBool::new(false));
    let probes = probes(&simulation);
    // Two to the dead one, one to each other; the first when the direct path has answered, 22 ms
    // after the start.
    assert_eq!(probes.len(), 9, "{probes:?}");
    let first = probes[0].0.since(Time::ZERO);
    assert!((22 * MS..23 * MS).contains(&first), "{probes:?}");
    for pair in probes.windows(2) {
        assert_eq!(pair[1].0.since(pair[0].0), 250 * MS, "{probes:?}");
    }
    let subflows = &result.flows[0].subflows;
    assert_eq!(subflows[3].openings, 0);
    assert_eq!((subflows[3].packets_sent, subflows[3].packets_lost), (2, 2));
    assert_eq!(subflows[3].open_s, 0.0);
    for (n, subflow) in subflows.iter().enumerate().filter(|(n, _)| *n != 3) {
        assert!(subflow.openings >= 1, "{n}: {subflow:?}");
        assert!(subflow.goodput_bps > 3e6, "{n}: {subflow:?}");
    }
    assert_eq!(subflows[0].openings, 1);
    assert!((subflows[0].open_s - 60.0).abs() < 1e-9);
}

#[test]
fn the_server_gives_subsets() {
    let (topology, mut flow) = candidates(&[6.0; 8]);
    let mut relays = Relays {
        subset: Some(2),
        ..Relays::default()
    };
    relays.manager.max_relays = 4;
    flow.relays = Some(relays.into());
    let mut drawn = Vec::new();
    for seed in 0..4 {
        let experiment = experiment(topology.clone(), vec![flow.clone()], 60);
        let mut simulation = Simulation::new(&experiment, seed).unwrap();
        simulation.run(&AtomicBool::new(false));
        let mut probed: Vec<usize> = probes(&simulation).iter().map(|(_, n)| *n).collect();
        probed.sort();
        assert!(probed.len() == 4, "{probed:?}");
        drawn.push(probed);
    }
    drawn.dedup();
    assert!(drawn.len() > 1, "{drawn:?}");
}

#[test]
fn windows_of_closed_paths_are_0_and_counters_go_on() {
    let (mut topology, flow) = candidates(&[6.0]);
    goes_down(&mut topology, 1, 10_000, Some(12_000));
    let mut experiment = experiment(topology, vec![flow], 120);
    experiment.measure.series = vec![SeriesKind::Window, SeriesKind::Rate];
    let result = run(&experiment, 1);
    let relayed = &result.flows[0].subflows[1];
    assert!(relayed.openings >= 2, "{relayed:?}");
    let window = &result.series[1].values;
    let open = window.iter().filter(|window| **window > 0.0).count();
    // The path rests for a minute or more.
    assert!(
        (open as f64 * 0.1 - relayed.open_s).abs() < 1.0,
        "{open} {relayed:?}"
    );
    assert!(relayed.open_s < 60.0, "{relayed:?}");
    assert_eq!(window[150], 0.0);
    assert!(window[1190] > 0.0);
    let rate = &result.series[3].values;
    assert_eq!(rate[150], 0.0);
    assert!(rate[1190] > 3e6, "{}", rate[1190]);
    // While it is there, it fills its link.
    let packets = relayed.goodput_bps * 120.0 / 12_000.0;
    let fate = (relayed.packets_sent - relayed.packets_lost) as f64 - packets;
    assert!((-0.5..200.0).contains(&fate), "{fate} {relayed:?}");
}

/// Nothing is lost and nothing counted twice when relays fail in the middle of a transfer, for good
/// or for a moment, also while they are probed.
#[test]
fn a_transfer_survives_its_relays() {
    for (seed, (down, back)) in [
        (0_u64, None),
        (30, Some(40)),
        (290, Some(310)),
        (2_000, None),
        (2_000, Some(2_050)),
        (2_000, Some(4_000)),
        (3_000, Some(70_000)),
    ]
    .into_iter()
    .enumerate()
    .flat_map(|(n, case)| [(n as u64, case), (n as u64 + 100, case)])
    {
        let (mut topology, mut transfer) = candidates(&[6.0, 3.0, 6.0]);
        for link in 1..4 {
            let later = 7 * link as u64;
            goes_down(
                &mut topology,
                link,
                down + later,
                back.map(|back| back + later),
            );
        }
        transfer.size = Some(12_000_000.into());
        transfer.jitter = MS;
        let result = run(&experiment(topology, vec![transfer], 120), seed);
        let flow = &result.flows[0];
        let seconds = flow
            .completion_s()
            .unwrap_or_else(|| panic!("{down} {back:?}: {flow:?}"));
        let delivered = flow.goodput_bps * seconds / 8.0;
        assert!(
            (delivered - 12_000_000.0).abs() < 1.0,
            "{down} {back:?}: {delivered}"
        );
        // 16 s by the direct path alone.
        assert!(seconds < 20.0, "{down} {back:?}: {seconds}");
    }
}

#[test]
fn an_idle_source_opens_nothing() {
    let (topology, mut flow) = candidates(&[6.0; 4]);
    flow.rate = Some(Rate::from_mbps(1.0));
    let result = run(&experiment(topology, vec![flow], 30), 1);
    let subflows = &result.flows[0].subflows;
    assert!(subflows[1..].iter().all(|subflow| subflow.openings == 0));
    assert!((mbps(&result, 0) - 1.0).abs() < 0.01);
}

#[test]
fn a_manager_that_cannot_work_is_refused() {
    let (topology, mut flow) = candidates(&[6.0]);
    let mut relays = Relays::default();
    relays.manager.max_open = 0;
    flow.relays = Some(relays.into());
    let error = Simulation::new(&experiment(topology, vec![flow], 1), 1).unwrap_err();
    assert_eq!(
        error.to_string(),
        "mpath: path manager: max_open = 0 is out of range; allowed is 1 or more"
    );
}

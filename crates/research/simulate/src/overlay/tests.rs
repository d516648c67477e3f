use manyway_fluid::optimum::over_relays;
use manyway_scenario::Scenario;
use proptest::prelude::*;

use super::*;

/// Eight sources over ten relays whose second hops are scarce, and TCP connections for the packet
/// level.
const SMALL: &str = r#"
    name = "small"
    [overlay]
    sources = 8
    demand = "1.2 Mbps"
    relays = 10
    skew = 0.5
    ratio = 1
    sharing = "proportional"
    intervals = 120
    judged = 60
    control = { start = "maxmin", tolerance = 0.03 }
    packets = { rtt = "40 ms" }
    [defaults]
    law = "reno"
    packet_size = "500 B"
    pacing = false
    slow_start = "standard"
    jitter = "1 ms"
"#;

fn experiment(set: &[&str]) -> OverlayExperiment {
    let mut scenario = Scenario::parse(SMALL, "small.toml").unwrap();
    set.iter()
        .for_each(|assignment| scenario.set(assignment).unwrap());
    scenario.overlay_points().unwrap().remove(0).experiment
}

fn at(level: Level, experiment: &OverlayExperiment, seed: u64) -> OverlayRun {
    let never = AtomicBool::new(false);
    let run = match level {
        Level::Flow => flow(experiment, seed, &never, |_| {}),
        Level::Packet => packet(experiment, seed, &never, |_| {}),
    };
    run.unwrap().unwrap()
}

#[derive(Copy, Clone)]
enum Level {
    Flow,
    Packet,
}

fn best(experiment: &OverlayExperiment, seed: u64) -> f64 {
    let Setting { overlay, selection } = Setting::draw(experiment, seed).unwrap();
    let best = over_relays(&overlay.relays, &overlay.demands, &selection).unwrap();
    best.rates.iter().sum::<f64>() / overlay.demand()
}

/// The paper's simulation finds less than 7 %; it has ten times as many sources, and runs eight
/// times as long.
#[test]
fn over_tcp_it_comes_as_near_to_the_optimum_as_with_exact_rates() {
    for (law, seed) in [("reno", 1), ("reno", 2), ("cubic", 1), ("cubic", 2)] {
        let experiment = experiment(&[&format!("defaults.law={law}")]);
        let best = best(&experiment, seed);
        let (packet, flow) = (
            at(Level::Packet, &experiment, seed),
            at(Level::Flow, &experiment, seed),
        );
        for rate in [packet.rate, flow.rate] {
            assert!(
                rate <= best * 1.005 && rate >= best * 0.93,
                "{law}: {rate} of {best}"
            );
        }
        assert_eq!(packet.series.len(), 120);
    }
}

/// Each source draws its demand, and ε is a share of that.
#[test]
fn demands_may_differ() {
    let experiment = experiment(&[
        "overlay.demand=[\"1.2 Mbps\", \"3.6 Mbps\", \"6 Mbps\"]",
        "overlay.packets.rtt=20 ms",
    ]);
    let setting = Setting::draw(&experiment, 3).unwrap();
    let demands = &setting.overlay.demands;
    assert!(
        demands.iter().any(|demand| demand != &demands[0]),
        "{demands:?}"
    );
    assert!(
        demands
            .iter()
            .all(|demand| experiment.demands.contains(demand))
    );
    let total: f64 = setting.overlay.relays.iter().sum();
    assert!((total / setting.overlay.demand() - 1.0).abs() < 1e-9);
    let (best, run) = (best(&experiment, 3), at(Level::Packet, &experiment, 3));
    assert!(run.rate >= best * 0.93, "{} of {best}", run.rate);
}

/// Without a scarce relay, buckets are all that holds sources to their demands: no more than that
/// arrives, and hardly less.
#[test]
fn buckets_hold_sources_to_their_demands() {
    let experiment = experiment(&["overlay.ratio=20", "overlay.skew=0"]);
    let run = at(Level::Packet, &experiment, 1);
    assert!((run.rate - 1.0).abs() < 0.02, "{}", run.rate);
    // A packet more or less per connection at the interval's ends, of 120 per source.
    let most = run.series.iter().copied().fold(0.0, f64::max);
    assert!(most < 1.05, "{most}");
}

/// From nothing it is slower than with exact rates: an increment is half of a rate that was two
/// increments, of which the last round trip of an interval isn't back when it is judged; and a
/// packet more or less counts for more than δ at less than a quarter of the demand. A part of the
/// increments fails for that.
#[test]
fn from_nothing_it_rises_slowly() {
    let experiment = experiment(&[
        "overlay.ratio=20",
        "overlay.skew=0",
        "overlay.control.start=zero",
    ]);
    let (packet, flow) = (
        at(Level::Packet, &experiment, 1),
        at(Level::Flow, &experiment, 1),
    );
    let quarters = |run: &OverlayRun| [29, 59, 89, 119].map(|interval| run.series[interval]);
    assert!(
        quarters(&packet).is_sorted() && quarters(&packet)[3] > 0.3,
        "{packet:?}"
    );
    assert!(quarters(&packet)[3] < quarters(&flow)[3]);
}

#[test]
fn equal_seeds_give_equal_runs() {
    let experiment = experiment(&["overlay.intervals=20", "overlay.judged=10"]);
    for level in [Level::Flow, Level::Packet] {
        assert_eq!(at(level, &experiment, 1), at(level, &experiment, 1));
        assert_ne!(
            at(level, &experiment, 1).series,
            at(level, &experiment, 2).series
        );
    }
}

#[test]
fn stops_when_told_to() {
    let stop = AtomicBool::new(true);
    let experiment = experiment(&[]);
    assert_eq!(flow(&experiment, 1, &stop, |_| {}), Ok(None));
    assert_eq!(packet(&experiment, 1, &stop, |_| {}), Ok(None));
}

#[test]
fn a_search_says_how_long_it_took() {
    let text = "name = \"x\"\n[overlay]\nsources = 20\ndemand = \"1 Mbps\"\nratio = 2\nintervals = \
        100\ncontrol = { start = \"maxmin\" }\n";
    let text = format!("{text}[overlay.reselect]\nsatisfied = 0.9\niterations = 50\n");
    let scenario = Scenario::parse(&text, "x.toml").unwrap();
    let experiment = scenario.overlay_points().unwrap().remove(0).experiment;
    let run = at(Level::Flow, &experiment, 1);
    let search = run.search.unwrap();
    assert!(
        search.found && search.iterations < 50 && run.rate >= 0.9,
        "{run:?}"
    );
    let error = packet(&experiment, 1, &AtomicBool::new(false), |_| {}).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the packet level needs [overlay.packets] with the rtt: add it, or use --level flow"
    );
}

/// By seed.
const CHOSEN: u64 = 4;

/// The selection of `fig4a-080.toml` is the first, by seed from 1 on, of uniform ones whose optimum
/// rounds to the paper's 0.80.
#[test]
fn the_chosen_selection_is_the_first_with_the_papers_optimum() {
    let folder =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scenarios/overlay");
    let load = |name: &str| {
        let scenario = Scenario::load(&folder.join(name)).unwrap();
        scenario.overlay_points().unwrap().remove(0).experiment
    };
    let (uniform, chosen) = (load("fig4a.toml"), load("fig4a-080.toml"));
    let seed = (1..=CHOSEN).find(|&seed| best(&uniform, seed) >= 0.795);
    assert_eq!(seed, Some(CHOSEN));
    assert!(best(&uniform, CHOSEN) < 0.805);
    let same = Setting::draw(&uniform, CHOSEN).unwrap();
    assert_eq!(chosen.selection, RelaySelection::Given(same.selection));
    assert_eq!(Setting::draw(&chosen, 1).unwrap().overlay, same.overlay);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    /// Whatever the overlay, no more arrives than relays carry and sources have, but for what waits
    /// in queues and sockets for a moment.
    #[test]
    fn packets_keep_to_capacities(
        sources in 1..6_u32,
        ratio in 0.1..3.0_f64,
        skew in 0.0..2.0_f64,
        paths in 1..3_u32,
        cubic: bool,
        zero: bool,
        seed: u64,
    ) {
        let experiment = experiment(&[
            &format!("overlay.sources={sources}"),
            &format!("overlay.ratio={ratio:?}"),
            &format!("overlay.skew={skew:?}"),
            &format!("overlay.paths={paths}"),
            &format!("defaults.law={}", if cubic { "cubic" } else { "reno" }),
            &format!("overlay.control.start={}", if zero { "zero" } else { "maxmin" }),
            "overlay.intervals=60",
            "overlay.judged=30",
        ]);
        let run = at(Level::Packet, &experiment, seed);
        let best = best(&experiment, seed);
        // 30 intervals of 120 packets per source: 4 in each of two sockets and up to 50 in a queue
        // may be from before.
        prop_assert!(run.rate <= best * 1.05, "{} of {best}", run.rate);
        // From nothing, 60 intervals are not enough to get there.
        prop_assert!(zero || run.rate >= best * 0.7, "{} of {best}", run.rate);
    }
}

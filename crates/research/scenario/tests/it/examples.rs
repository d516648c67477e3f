//! The scenarios in the tree are good ones.

use std::path::{Path, PathBuf};

use manyway_scenario::{Point, Scenario};

fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../../scenarios")
        .join(name)
}

fn points(path: &Path) -> Vec<Point> {
    let scenario = Scenario::load(path).unwrap_or_else(|error| panic!("{error}"));
    // Those with flows of the kernel's have no others.
    let points = scenario.points().or_else(|_| scenario.live_points());
    points.unwrap_or_else(|error| panic!("{error}"))
}

/// Every `.toml` below the folder.
fn all_below(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let scenario = |path: &PathBuf| {
        path.extension()
            .is_some_and(|extension| extension == "toml")
    };
    let mut found: Vec<_> = files.into_iter().filter(scenario).collect();
    found.extend(folders.iter().flat_map(|folder| all_below(folder)));
    found
}

#[test]
fn every_scenario_in_the_tree_can_be_run() {
    let all = all_below(&folder(""));
    assert!(all.len() >= 5, "{all:?}");
    for path in all {
        let scenario = Scenario::load(&path).unwrap_or_else(|error| panic!("{error}"));
        match scenario.is_overlay() {
            true => assert!(!scenario.overlay_points().unwrap().is_empty()),
            false => assert!(!points(&path).is_empty()),
        }
    }
}

/// The papers' results stay what they are when a default changes.
#[test]
fn the_papers_scenarios_say_how_losses_are_found() {
    for paper in ["balia", "bmc", "mpath", "overlay", "speed", "wvegas"] {
        for path in all_below(&folder(paper)) {
            let text = std::fs::read_to_string(&path).unwrap();
            let has_senders = text.contains("\n[defaults]") || text.contains("\n[flows.");
            for key in ["\nloss_detection = ", "\nretransmission_timeout = "] {
                assert_eq!(text.contains(key), has_senders, "{}", path.display());
            }
        }
    }
}

#[test]
fn the_examples_have_the_points_they_speak_of() {
    let example = |name: &str| points(&folder("examples").join(name));

    let wifi = example("wifi-5g.toml");
    assert_eq!(
        wifi.iter()
            .map(|point| point.experiment.flows[0].paths.len())
            .collect::<Vec<_>>(),
        [1, 1, 2]
    );

    let isps = example("two-isps.toml");
    assert_eq!(isps.len(), 4);
    let download = isps[0].experiment.flows.last().unwrap();
    let path = &isps[0].experiment.topology.paths[download.paths[0]];
    assert_eq!(
        isps[0].experiment.topology.links[path.reverse[0]].name,
        "cable-up"
    );

    let shared = example("shared-bottleneck.toml");
    let laws: Vec<_> = shared
        .iter()
        .map(|point| point.experiment.flows[0].law.to_string())
        .collect();
    assert_eq!(laws, ["reno", "ewtcp:a=0.25", "lia", "balia", "olia"]);
    assert_eq!(shared[0].experiment.flows.len(), 9);

    let failure = example("path-failure.toml");
    assert_eq!(
        failure[0].experiment.topology.links[0]
            .config
            .timetable
            .changes
            .len(),
        2
    );
    assert_eq!(
        failure[0].experiment.flows[0].size,
        Some(150_000_000.into())
    );

    let incast = example("incast.toml");
    assert_eq!(incast.len(), 10);
    assert_eq!(incast[9].experiment.flows.len(), 64);
    assert!(incast[9].experiment.flows[0].ecn && !incast[8].experiment.flows[0].ecn);
}

#[test]
fn what_the_guide_shows_is_true() {
    let guide = std::fs::read_to_string(folder("../docs/scenarios.md")).unwrap();
    let mut blocks = guide
        .split("```toml\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next());
    let shown = Scenario::parse(blocks.next().unwrap(), "scenarios.md").unwrap();
    let shown: Vec<_> = shown
        .points()
        .unwrap()
        .into_iter()
        .map(|point| point.experiment)
        .collect();
    let example = points(&folder("examples/shared-bottleneck.toml"));
    let example: Vec<_> = example.into_iter().map(|point| point.experiment).collect();
    assert_eq!(shown, example);
    // Every key has its line.
    let keys = manyway_scenario::schema();
    for (table, keys) in keys["$defs"].as_object().unwrap() {
        let properties = keys["properties"].as_object().into_iter().flatten();
        for (key, _) in properties {
            assert!(
                guide.contains(&format!("`{key}`")),
                "{key} of {table} is not in the guide"
            );
        }
    }
}

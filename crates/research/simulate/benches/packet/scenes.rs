//! What is simulated: the scenario files of `scenarios/speed`.

use std::path::Path;

use manyway_scenario::{Experiment, Scenario};

pub(crate) struct Scene {
    pub(crate) name: &'static str,
    pub(crate) experiment: Experiment,
    /// The least ratio to the mover.
    pub(crate) bound: f64,
}

impl Scene {
    /// The links of data, without those of acknowledgements.
    pub(crate) fn forward(&self) -> impl Iterator<Item = usize> {
        let paths = &self.experiment.topology.paths;
        (0..self.experiment.topology.links.len())
            .filter(|link| paths.iter().any(|path| path.links.contains(link)))
    }
}

pub(crate) fn all() -> Vec<Scene> {
    [
        ("S1", "s1", 0.2),
        ("S1, ACKs as packets", "s1-reverse", 0.0),
        ("S2", "s2", 0.17),
        ("S2-100", "s2-100", 0.0),
        ("S2-1000", "s2-1000", 0.13),
    ]
    .into_iter()
    .map(|(name, file, bound)| load(name, file, bound))
    .collect()
}

/// One connection of law mPath with two paths, and one with two hundred.
pub(crate) fn paths() -> [Scene; 2] {
    [("2 paths", "mpath-2"), ("200 paths", "mpath-200")].map(|(name, file)| load(name, file, 0.0))
}

fn load(name: &'static str, file: &str, bound: f64) -> Scene {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scenarios/speed");
    let file = folder.join(file).with_extension("toml");
    let scenario = Scenario::load(&file).expect("the scenario is sound");
    let point = scenario.points().expect("the scenario is sound").remove(0);
    Scene {
        name,
        experiment: point.experiment,
        bound,
    }
}

//! What is simulated: the scenario files of `scenarios/speed`.

use std::path::Path;

use manyway_scenario::{Experiment, Scenario, ScenarioError};

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
        ("S1", "s1", 0.3),
        ("S1, ACKs as packets", "s1-reverse", 0.0),
        ("S2", "s2", 0.27),
        ("S2-100", "s2-100", 0.25),
        ("S2-1000", "s2-1000", 0.18),
    ]
    .into_iter()
    .map(|(name, file, bound)| load(name, file, bound))
    .collect()
}

/// One connection of law mPath with two paths, and one with two hundred.
pub(crate) fn paths() -> [Scene; 2] {
    [("2 paths", "mpath-2"), ("200 paths", "mpath-200")].map(|(name, file)| load(name, file, 0.0))
}

/// S1 spread over many links, a Reno flow on each; and S1 with many flows on ten links. Ten of
/// either are what many of them are compared with.
pub(crate) fn many() -> [Scene; 4] {
    [
        ("10 links, 10 flows", 10, 10, 1000),
        ("10,000 links, 10,000 flows", 10_000, 10_000, 3),
        ("10 links, 100 flows", 10, 100, 100),
        ("10 links, 10,000 flows", 10, 10_000, 3),
    ]
    .map(|(name, links, flows, seconds)| {
        let each = flows / links;
        let links = (0..links).map(|n| {
            format!(
                "[links.l{n}]\nrate = \"{} Mbps\"\ndelay = \"20 ms\"\nqueue = \"{} packets\"\n\
                 [paths.p{n}]\nlinks = [\"l{n}\"]\n\
                 [flows.f{n}]\npaths = [\"p{n}\"]\ncount = {each}\nstart_spread = \"1 s\"\n",
                6 * each,
                10 * each
            )
        });
        let text = format!(
            "name = \"{name}\"\nduration = \"{seconds} s\"\n[defaults]\nlaw = \"reno\"\n\
             packet_size = \"1500 B\"\npacing = false\nslow_start = \"standard\"\n\
             loss_detection = \"fixed\"\nretransmission_timeout = \"probe\"\n\
             access = {{ rate = \"1 Gbps\", delay = \"0 ms\", queue = \"1000 packets\" }}\n{}",
            links.collect::<String>()
        );
        scene(name, Scenario::parse(&text, "many.toml"), 0.0)
    })
}

fn load(name: &'static str, file: &str, bound: f64) -> Scene {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scenarios/speed");
    let file = folder.join(file).with_extension("toml");
    scene(name, Scenario::load(&file), bound)
}

fn scene(name: &'static str, scenario: Result<Scenario, ScenarioError>, bound: f64) -> Scene {
    let points = scenario.and_then(|scenario| scenario.points());
    let mut points = points.expect("the scenario is sound");
    Scene {
        name,
        experiment: points.swap_remove(0).experiment,
        bound,
    }
}

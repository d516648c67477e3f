//! What is drawn for the flows of a run before it begins: when each starts and how much it sends.

use std::time::Duration;

use manyway_scenario::{Distribution, Experiment, Flow};
use manyway_units::Time;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::events::mix;

/// What a run's seed makes of a flow.
#[derive(Debug)]
pub(crate) struct Drawn {
    pub(crate) start: Time,
    /// Payload bytes of its first transfer; endless without.
    pub(crate) size: Option<u64>,
    /// What comes after its first transfer, if it pauses.
    pub(crate) next: Option<Repeats>,
}

/// The transfers of a flow that pauses between them.
#[derive(Debug)]
pub(crate) struct Repeats {
    size: Distribution,
    pause: Distribution,
    rng: Pcg64Mcg,
}

impl Repeats {
    /// The next pause, and how many bytes of payload are sent then.
    pub(crate) fn draw(&mut self) -> (Duration, u64) {
        let pause = Duration::from_nanos(self.pause.at(self.rng.random()));
        (pause, self.size.at(self.rng.random()))
    }
}

/// What `seed` makes of each flow. Starts, sizes and the distances of starts have random numbers of
/// their own: a change of one leaves the others as they are.
pub(crate) fn draw(experiment: &Experiment, seed: u64) -> Vec<Drawn> {
    let mut starts = Pcg64Mcg::seed_from_u64(mix(seed ^ 0x7374_6172_7473));
    let mut drawn = Vec::with_capacity(experiment.flows.len());
    for (index, flow) in experiment.flows.iter().enumerate() {
        let spread = u64::try_from(flow.start_spread.as_nanos()).unwrap_or(u64::MAX);
        let start = flow.start + Duration::from_nanos(starts.random_range(0..=spread));
        drawn.push(first(flow, start, seed, index));
    }
    for (index, group) in experiment.groups.iter().enumerate() {
        let Some(stagger) = &group.stagger else {
            continue;
        };
        let mut rng = stream(seed, 0x7374_6167_6765_7273, index);
        let mut since = Duration::ZERO;
        for flow in drawn.get_mut(group.members.clone()).into_iter().flatten() {
            flow.start += since;
            since += Duration::from_nanos(stagger.at(rng.random()));
        }
    }
    drawn
}

fn first(flow: &Flow, start: Time, seed: u64, index: usize) -> Drawn {
    let mut rng = stream(seed, 0x0073_697a_6573, index);
    let size = flow.size.as_ref().map(|size| size.at(rng.random()));
    let next = flow.size.clone().zip(flow.pause.clone());
    let next = next.map(|(size, pause)| Repeats { size, pause, rng });
    Drawn { start, size, next }
}

fn stream(seed: u64, what: u64, index: usize) -> Pcg64Mcg {
    Pcg64Mcg::seed_from_u64(mix(seed ^ mix(index as u64 ^ what)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(flows: &str) -> Experiment {
        let text = format!(
            "name = \"Drawn\"\nduration = \"60 s\"\n\
             [links.l]\nrate = \"10 Mbps\"\ndelay = \"10 ms\"\n\
             [paths.p]\nlinks = [\"l\"]\n\
             [flows.f]\nlaw = \"reno\"\npaths = [\"p\"]\n{flows}\n"
        );
        let scenario = manyway_scenario::Scenario::parse(&text, "drawn.toml").unwrap();
        let points = scenario.points().unwrap();
        points[0].experiment.clone()
    }

    const POISSON: &str = "stagger = { exponential = \"20 ms\" }";

    #[test]
    fn a_change_of_one_leaves_the_others_as_they_are() {
        let starts = |flows: &str| -> Vec<Time> {
            let drawn = draw(&scenario(flows), 7);
            drawn.iter().map(|drawn| drawn.start).collect()
        };
        let sized = format!("{POISSON}\nsize = {{ published = \"web-search\" }}");
        assert_eq!(starts(POISSON), starts(&sized));
        let spread = "count = 5\nstart_spread = \"3 s\"";
        assert_eq!(
            starts(spread),
            starts(&format!("{spread}\nsize = \"1 MB\""))
        );
        let drawn = draw(&scenario(&sized), 7);
        let sizes: Vec<_> = drawn.iter().map(|drawn| drawn.size).collect();
        let fixed = sized.replace("{ exponential = \"20 ms\" }", "\"1 ms\"\ncount = 500");
        let others = draw(&scenario(&fixed), 7);
        assert!(
            others
                .iter()
                .map(|drawn| drawn.size)
                .eq(sizes[..500].iter().copied())
        );
    }

    /// Arrivals in 60 s of a Poisson process with 50 a second have mean and variance 3000.
    #[test]
    fn arrivals_are_a_poisson_process() {
        let experiment = scenario(POISSON);
        let end = Time::ZERO + experiment.duration;
        let counts = (0..200).map(|seed| {
            let drawn = draw(&experiment, seed);
            assert!(drawn.last().unwrap().start > end, "more would have come");
            drawn.iter().filter(|drawn| drawn.start < end).count() as f64
        });
        let counts: Vec<f64> = counts.collect();
        let mean = counts.iter().sum::<f64>() / 200.0;
        let variance = counts.iter().map(|n| (n - mean).powi(2)).sum::<f64>() / 199.0;
        assert!(
            (mean - 3001.0).abs() < 4.0 * (3000.0_f64 / 200.0).sqrt(),
            "{mean}"
        );
        // The standard deviation of the variance is √(2/199) of it.
        assert!((variance / 3000.0 - 1.0).abs() < 0.4, "{variance}");
    }

    #[test]
    fn pauses_and_sizes_follow_the_seed() {
        let experiment = scenario(
            "count = 2\nsize = { exponential = \"1 MB\" }\npause = { exponential = \"1 s\" }",
        );
        let next = |seed| {
            let mut drawn = draw(&experiment, seed);
            let mut draws = |n: usize| drawn[n].next.as_mut().unwrap().draw();
            [draws(0), draws(0), draws(1)]
        };
        assert_eq!(next(1), next(1));
        let all: std::collections::HashSet<_> = next(1).into_iter().chain(next(2)).collect();
        assert_eq!(all.len(), 6);
    }
}

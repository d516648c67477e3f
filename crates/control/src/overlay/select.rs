use super::{InvalidOverlay, check};
use crate::random::Random;

/// By what a relay is chosen (section 4 of the overlay paper); a source's relays are all different.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub enum Choice {
    /// All relays alike.
    #[default]
    Uniform,
    /// In proportion to the bandwidth that each relay is estimated to have; without an estimate above 0 only when no other is left.
    Proportional {
        /// The largest relative error of an estimate, 0 to below 1; the paper has 0.5. Each source is wrong about each relay by its own factor, drawn once from `1 ± error`, uniformly.
        error: f64,
    },
}

/// Which paths are chosen again.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Reselection {
    /// *k-reselection*: all paths of an unsatisfied source.
    #[default]
    All,
    /// *1-reselection*: the slowest path of an unsatisfied source, for a relay that it doesn't use.
    Slowest,
    /// The paper's baseline, to compare with: all paths of each source, satisfied or not. Its owner has to stop when all are satisfied.
    Everyone,
}

/// How a [`PathSelector`] chooses.
#[derive(Copy, Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SelectConfig {
    /// `k`: so many paths; at least 1.
    pub paths: usize,
    /// By what a relay is chosen.
    pub choice: Choice,
    /// What an unsatisfied source does.
    pub reselection: Reselection,
    /// A source is satisfied with this share of its demand; more than 0, at most 1. The paper means 1, which a source that goes on probing rarely has at every moment.
    pub satisfied: f64,
}

impl SelectConfig {
    /// Uniform choice of so many paths, k-reselection by sources that have less than 0.95 of their demand.
    pub fn new(paths: usize) -> Self {
        SelectConfig {
            paths,
            choice: Choice::default(),
            reselection: Reselection::default(),
            satisfied: 0.95,
        }
    }

    /// The same with another choice.
    #[must_use]
    pub fn with_choice(mut self, choice: Choice) -> Self {
        self.choice = choice;
        self
    }

    /// The same with another reselection.
    #[must_use]
    pub fn with_reselection(mut self, reselection: Reselection) -> Self {
        self.reselection = reselection;
        self
    }

    /// The same with another threshold.
    #[must_use]
    pub fn with_satisfied(mut self, satisfied: f64) -> Self {
        self.satisfied = satisfied;
        self
    }
}

/// One source's choice of relays, and of others while it isn't satisfied (section 4 of the overlay paper).
///
/// ```
/// use manyway_control::overlay::{PathSelector, SelectConfig};
///
/// // Two of five relays, of equal bandwidth for all that is known.
/// let mut selector = PathSelector::new(SelectConfig::new(2), &[1.0; 5], 7)?;
/// assert_eq!(selector.relays().len(), 2);
/// // 4 of 10 Mbps: others are tried; 10 of 10: nothing changes.
/// assert!(selector.reselect(&[1e6, 3e6], 10e6));
/// assert!(!selector.reselect(&[4e6, 6e6], 10e6));
/// # Ok::<(), manyway_control::overlay::InvalidOverlay>(())
/// ```
#[derive(Clone, Debug)]
pub struct PathSelector {
    config: SelectConfig,
    /// How a relay is weighted, by its index.
    weights: Vec<f64>,
    chosen: Vec<usize>,
    random: Random,
}

impl PathSelector {
    /// Chooses for the first time, of relays with these bandwidths (bits/s or any other unit; a uniform choice only counts them). Equal seeds make equal choices.
    ///
    /// # Errors
    /// [`InvalidOverlay`] if there are fewer relays than paths, or a number is out of range.
    pub fn new(
        config: SelectConfig,
        bandwidths: &[f64],
        seed: u64,
    ) -> Result<Self, InvalidOverlay> {
        check(config.paths > 0, "number of paths", 0.0, "1 or more")?;
        check(
            config.satisfied > 0.0 && config.satisfied <= 1.0,
            "satisfied",
            config.satisfied,
            "more than 0, at most 1",
        )?;
        if config.paths > bandwidths.len() {
            let (paths, relays) = (config.paths, bandwidths.len());
            return Err(InvalidOverlay::TooFewRelays { paths, relays });
        }
        let mut random = Random::new(seed);
        let weights = match config.choice {
            Choice::Uniform => vec![1.0; bandwidths.len()],
            Choice::Proportional { error } => {
                check(
                    (0.0..1.0).contains(&error),
                    "bandwidth error",
                    error,
                    "0 to below 1",
                )?;
                if let Some(&wrong) = bandwidths
                    .iter()
                    .find(|value| !(0.0..1e18).contains(*value))
                {
                    check(false, "bandwidth", wrong, "0 to 1e18")?;
                }
                let mut factor = || 1.0 + error * (2.0 * random.unit() - 1.0);
                bandwidths
                    .iter()
                    .map(|bandwidth| bandwidth * factor())
                    .collect()
            }
        };
        let mut selector = PathSelector {
            config,
            weights,
            chosen: Vec::new(),
            random,
        };
        selector.choose_all();
        Ok(selector)
    }

    /// The relays in use, as indices, one for each path.
    pub fn relays(&self) -> &[usize] {
        &self.chosen
    }

    /// Whether these rates of its paths satisfy a source with this demand.
    pub fn satisfied(&self, rates: &[f64], demand: f64) -> bool {
        rates.iter().sum::<f64>() >= self.config.satisfied * demand
    }

    /// Ends an iteration in which the paths had these rates (in their order, missing ones being 0) of a demand: chooses again if there is reason to. Says whether it did;
    /// the same relays may come up again.
    pub fn reselect(&mut self, rates: &[f64], demand: f64) -> bool {
        let satisfied = self.satisfied(rates, demand);
        match self.config.reselection {
            Reselection::Everyone => self.choose_all(),
            _ if satisfied => return false,
            Reselection::All => self.choose_all(),
            Reselection::Slowest => return self.replace_slowest(rates),
        }
        true
    }

    fn choose_all(&mut self) {
        self.chosen.clear();
        while self.chosen.len() < self.config.paths
            && let Some(relay) = self.draw()
        {
            self.chosen.push(relay);
        }
    }

    /// False if every relay is in use.
    fn replace_slowest(&mut self, rates: &[f64]) -> bool {
        let rate = |path: &usize| rates.get(*path).copied().unwrap_or(0.0);
        let slowest = (0..self.chosen.len()).min_by(|a, b| rate(a).total_cmp(&rate(b)));
        match (slowest, self.draw()) {
            (Some(path), Some(relay)) => {
                self.chosen[path] = relay;
                true
            }
            _ => false,
        }
    }

    /// A relay that isn't in use.
    fn draw(&mut self) -> Option<usize> {
        let weights = self.weights.iter().copied();
        self.random
            .weighted(weights, |relay| !self.chosen.contains(&relay))
    }
}

#[cfg(test)]
mod tests;

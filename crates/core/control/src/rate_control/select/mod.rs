//! Which relays a source uses, and which it tries while it isn't satisfied. It measures nothing.

use super::{InvalidConfig, check};
use crate::random::Random;

/// By what a relay is chosen (section 4 of the overlay paper); a source's relays are all different.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub enum Choice {
    /// All relays alike.
    #[default]
    Uniform,
    /// In proportion to the bandwidth that each relay is estimated to have; without an estimate
    /// above 0 only when no other is left.
    Proportional {
        /// The largest relative error of an estimate, 0 to below 1; the paper has 0.5. Each source
        /// is wrong about each relay by its own factor, drawn once from `1 ± error`, uniformly.
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
    /// The paper's baseline, to compare with: all paths of each source, satisfied or not. Its owner
    /// has to stop when all are satisfied.
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
    /// A source is satisfied with this share of its demand; more than 0, at most 1. The paper means
    /// 1, which a source that goes on probing rarely has at every moment.
    pub satisfied: f64,
}

impl SelectConfig {
    /// Uniform choice of so many paths, k-reselection by sources that have less than 0.95 of their
    /// demand.
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

/// One source's choice of relays, and of others while it isn't satisfied (section 4 of the overlay
/// paper).
///
/// ```
/// use manyway_control::rate_control::{PathSelector, SelectConfig};
///
/// // Two of five relays, of equal bandwidth for all that is known.
/// let mut selector = PathSelector::new(SelectConfig::new(2), &[1.0; 5], 7)?;
/// assert_eq!(selector.relays().len(), 2);
/// // 4 of 10 Mbps: others are tried; 10 of 10: nothing changes.
/// assert!(selector.reselect(&[1e6, 3e6], 10e6));
/// assert!(!selector.reselect(&[4e6, 6e6], 10e6));
/// # Ok::<(), manyway_control::rate_control::InvalidConfig>(())
/// ```
#[derive(Clone, Debug)]
pub struct PathSelector {
    config: SelectConfig,
    /// By index.
    relays: Vec<Candidate>,
    chosen: Vec<usize>,
    random: Random,
}

/// A relay to choose from.
#[derive(Copy, Clone, Debug)]
struct Candidate {
    /// How much it counts in a draw.
    weight: f64,
    /// By how much the source is wrong about its bandwidth.
    factor: f64,
    /// It may be drawn.
    open: bool,
}

impl PathSelector {
    /// Chooses for the first time, of relays with these bandwidths (bits/s or any other unit; a
    /// uniform choice only counts them). Equal seeds make equal choices.
    ///
    /// # Errors
    /// [`InvalidConfig`] if there are fewer relays than paths, or a number is out of range.
    pub fn new(config: SelectConfig, bandwidths: &[f64], seed: u64) -> Result<Self, InvalidConfig> {
        let mut selector = Self::empty(config, seed)?;
        if config.paths > bandwidths.len() {
            let (paths, relays) = (config.paths, bandwidths.len());
            return Err(InvalidConfig::TooFewRelays { paths, relays });
        }
        for &bandwidth in bandwidths {
            selector.add(bandwidth)?;
        }
        selector.choose_all();
        Ok(selector)
    }

    /// A source that knows of no relay yet: `add` tells of them, `fill` chooses.
    ///
    /// # Errors
    /// [`InvalidConfig`] if a number is out of range.
    pub(super) fn empty(config: SelectConfig, seed: u64) -> Result<Self, InvalidConfig> {
        check(config.paths > 0, "number of paths", 0.0, "1 or more")?;
        check(
            config.satisfied > 0.0 && config.satisfied <= 1.0,
            "satisfied",
            config.satisfied,
            "more than 0, at most 1",
        )?;
        if let Choice::Proportional { error } = config.choice {
            let fine = (0.0..1.0).contains(&error);
            check(fine, "bandwidth error", error, "0 to below 1")?;
        }
        Ok(PathSelector {
            config,
            relays: Vec::new(),
            chosen: Vec::new(),
            random: Random::new(seed),
        })
    }

    /// Another relay to choose from; its index is the number of those before.
    ///
    /// # Errors
    /// [`InvalidConfig`] if the choice goes by a bandwidth that is none.
    pub(super) fn add(&mut self, bandwidth: f64) -> Result<usize, InvalidConfig> {
        let factor = match self.config.choice {
            Choice::Uniform => 1.0,
            Choice::Proportional { error } => 1.0 + error * (2.0 * self.random.unit() - 1.0),
        };
        let index = self.relays.len();
        self.relays.push(Candidate {
            weight: 1.0,
            factor,
            open: true,
        });
        self.set_bandwidth(index, bandwidth)?;
        Ok(index)
    }

    /// What is believed of a relay's bandwidth from now on.
    ///
    /// # Errors
    /// [`InvalidConfig`] if the choice goes by it, and it is none.
    pub(super) fn set_bandwidth(
        &mut self,
        relay: usize,
        bandwidth: f64,
    ) -> Result<(), InvalidConfig> {
        if self.config.choice == Choice::Uniform {
            return Ok(());
        }
        let fine = (0.0..1e18).contains(&bandwidth);
        check(fine, "bandwidth", bandwidth, "0 to 1e18")?;
        if let Some(relay) = self.relays.get_mut(relay) {
            relay.weight = bandwidth * relay.factor;
        }
        Ok(())
    }

    /// Whether a relay may be drawn. One in use stays so until `fill` finds another, or
    /// `drop_relay` is called.
    pub(super) fn set_open(&mut self, relay: usize, open: bool) {
        if let Some(relay) = self.relays.get_mut(relay) {
            relay.open = open;
        }
    }

    /// Takes this relay into use, if there is room.
    pub(super) fn adopt(&mut self, relay: usize) {
        let known = relay < self.relays.len() && !self.chosen.contains(&relay);
        if known && self.chosen.len() < self.config.paths {
            self.chosen.push(relay);
        }
    }

    /// The relay is no more: it isn't in use, and isn't drawn.
    pub(super) fn drop_relay(&mut self, relay: usize) {
        self.set_open(relay, false);
        self.chosen.retain(|&other| other != relay);
    }

    /// Replaces relays in use that may not be drawn any more, as far as there are others, and draws
    /// further ones while there are fewer than paths. Whether anything has changed.
    pub(super) fn fill(&mut self) -> bool {
        let mut changed = false;
        for path in 0..self.chosen.len() {
            if !self.relays[self.chosen[path]].open
                && let Some(relay) = self.draw()
            {
                self.chosen[path] = relay;
                changed = true;
            }
        }
        while self.chosen.len() < self.config.paths
            && let Some(relay) = self.draw()
        {
            self.chosen.push(relay);
            changed = true;
        }
        changed
    }

    /// The relays in use, as indices, one for each path.
    pub fn relays(&self) -> &[usize] {
        &self.chosen
    }

    /// Whether these rates of its paths satisfy a source with this demand.
    pub fn satisfied(&self, rates: &[f64], demand: f64) -> bool {
        rates.iter().sum::<f64>() >= self.config.satisfied * demand
    }

    /// Ends an iteration in which the paths had these rates (in their order, missing ones being 0)
    /// of a demand: chooses again if there is reason to. Says whether it did; the same relays may
    /// come up again.
    pub fn reselect(&mut self, rates: &[f64], demand: f64) -> bool {
        let everyone = self.config.reselection == Reselection::Everyone;
        (everyone || !self.satisfied(rates, demand)) && self.choose_again(rates)
    }

    /// [`PathSelector::reselect`] of a source that isn't satisfied, whatever it has.
    pub(super) fn choose_again(&mut self, rates: &[f64]) -> bool {
        match self.config.reselection {
            Reselection::Slowest => self.replace_slowest(rates),
            Reselection::All | Reselection::Everyone => {
                self.choose_all();
                true
            }
        }
    }

    fn choose_all(&mut self) {
        let before = std::mem::take(&mut self.chosen);
        self.fill();
        // What may not be drawn is better than nothing.
        before.into_iter().for_each(|relay| self.adopt(relay));
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
        let weights = self.relays.iter().map(|relay| relay.weight);
        let free = |relay: usize| self.relays[relay].open && !self.chosen.contains(&relay);
        self.random.weighted(weights, free)
    }
}

#[cfg(test)]
mod tests;

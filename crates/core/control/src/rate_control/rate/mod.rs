use super::{InvalidConfig, check};
use crate::random::Random;

/// A rate increment has succeeded up to this relative error of floating-point sums, even with `δ =
/// 0`.
const ROUNDING: f64 = 1e-9;
/// Increment terms are kept below this: any rate is at its demand long before.
const MAX_BOOST: f64 = 1e9;

/// Constants of Fig. 2 of the overlay paper.
#[derive(Copy, Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RateConfig {
    /// `ε_s` as a share of the demand: 0.01 is the paper's choice; more than 0, at most 1.
    pub increment: f64,
    /// `δ`: an increment succeeds if this share of the rate or less is missing at the receiver; 0
    /// to below 1. The paper has 0 for exact rates, 0.03 for measured ones.
    pub tolerance: f64,
    /// `α`: success multiplies a path's increment term by it; more than 1, at most 1000.
    pub grow: f64,
    /// `γ`: failure divides it; more than 1, at most 1000.
    pub shrink: f64,
    /// `β(0)`, the increment term at first; 0 to 1000. 0 is AIAD, for good.
    pub boost: f64,
}

impl Default for RateConfig {
    fn default() -> Self {
        Self::aiad()
    }
}

impl RateConfig {
    /// Additive increment and decrement: `β(0) = 0`, with ε = 0.01, δ = 0.03, α = 1.1, γ = 2.
    pub fn aiad() -> Self {
        RateConfig {
            increment: 0.01,
            tolerance: 0.03,
            grow: 1.1,
            shrink: 2.0,
            boost: 0.0,
        }
    }

    /// Multiplicative increment and decrement: the same with `β(0) = 0.1`.
    pub fn mimd() -> Self {
        RateConfig {
            boost: 0.1,
            ..Self::aiad()
        }
    }

    /// The same with another ε.
    #[must_use]
    pub fn with_increment(mut self, increment: f64) -> Self {
        self.increment = increment;
        self
    }

    /// The same with another δ.
    #[must_use]
    pub fn with_tolerance(mut self, tolerance: f64) -> Self {
        self.tolerance = tolerance;
        self
    }

    fn check(&self) -> Result<(), InvalidConfig> {
        let above_one = |value: f64| value > 1.0 && value <= 1000.0;
        let RateConfig {
            increment,
            tolerance,
            grow,
            shrink,
            boost,
        } = *self;
        check(
            increment > 0.0 && increment <= 1.0,
            "increment",
            increment,
            "more than 0, at most 1",
        )?;
        check(
            (0.0..1.0).contains(&tolerance),
            "tolerance",
            tolerance,
            "0 to below 1",
        )?;
        check(above_one(grow), "grow", grow, "more than 1, at most 1000")?;
        check(
            above_one(shrink),
            "shrink",
            shrink,
            "more than 1, at most 1000",
        )?;
        check((0.0..=1000.0).contains(&boost), "boost", boost, "0 to 1000")
    }
}

/// One path of a [`RateController`].
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct PathState {
    /// `y`: the rate to send at, in the unit of the demand.
    pub rate: f64,
    /// `p`: how probable it is that the path is probed next, left aside that a failed one isn't
    /// tried twice in a row.
    pub probability: f64,
    /// `β`: by how much of its rate it is incremented, beside `ε_s`.
    pub boost: f64,
}

/// The application-level rate controller of the overlay paper (Fig. 2), for one source.
///
/// Once per control interval it probes one path: a little more rate there, and less on the others
/// if the demand is exceeded. If that arrives, it stays, and the path is probed more often and in
/// larger steps; otherwise it is undone, and another path is probed. A satisfied source goes on
/// probing: so it leaves room on crowded paths to others. With exact measurements, `ε → 0` and `β =
/// 0` the sum of all sources' rates becomes as large as it can be, if all have one destination and
/// each path one relay (Theorem 1).
///
/// Fig. 2 leaves open: "randomly select" is by the probabilities `p`; with one path a failed one is
/// probed again; a demand of 0 means all rates stay 0. Work per interval is O(k). All randomness is
/// from the seed.
#[derive(Clone, Debug)]
pub struct RateController {
    config: RateConfig,
    demand: f64,
    paths: Vec<PathState>,
    /// `g(n)`; `None` before the first interval.
    probed: Option<usize>,
    random: Random,
}

impl RateController {
    /// A controller before its first interval, for `demand` (`m`, bits/s or any other unit of
    /// rates) over as many paths as there are initial rates `y(0)`.
    ///
    /// # Errors
    /// [`InvalidConfig`] if a constant, the demand or a rate is out of range, if there are no
    /// paths, or if the rates exceed the demand in sum.
    pub fn new(
        config: RateConfig,
        demand: f64,
        initial: &[f64],
        seed: u64,
    ) -> Result<Self, InvalidConfig> {
        config.check()?;
        let rate = |value: f64| (0.0..1e18).contains(&value);
        check(rate(demand), "demand", demand, "0 to 1e18")?;
        check(!initial.is_empty(), "number of paths", 0.0, "1 or more")?;
        if let Some(&wrong) = initial.iter().find(|&&value| !rate(value)) {
            check(false, "initial rate", wrong, "0 to 1e18")?;
        }
        let total: f64 = initial.iter().sum();
        if total > demand * (1.0 + ROUNDING) {
            return Err(InvalidConfig::Initial { total, demand });
        }
        let path = |&rate: &f64| PathState {
            rate: rate.min(demand),
            probability: 1.0 / initial.len() as f64,
            boost: config.boost,
        };
        Ok(RateController {
            config,
            demand,
            paths: initial.iter().map(path).collect(),
            probed: None,
            random: Random::new(seed),
        })
    }

    /// Begins the next control interval, with what arrived of each path at the receiver in the one
    /// that ends (`x`, in the unit of the demand). The first time nothing has been measured, and it
    /// is ignored.
    ///
    /// What can't be a rate (missing, negative or not a number) counts as 0, and more than was sent
    /// as all of it.
    pub fn advance(&mut self, measured: &[f64]) {
        if self.demand == 0.0 {
            return;
        }
        let next = match self.probed {
            None => self.draw(None),
            Some(path) => {
                let arrived = measured.get(path).copied().unwrap_or(0.0);
                self.adjust(path, arrived)
            }
        };
        self.increment(next);
        self.probed = Some(next);
    }

    /// `y`, in the order of the paths: the rates for this interval, at most the demand in sum.
    pub fn rates(&self) -> impl ExactSizeIterator<Item = f64> + '_ {
        self.paths.iter().map(|path| path.rate)
    }

    /// The state of each path.
    pub fn paths(&self) -> &[PathState] {
        &self.paths
    }

    /// The path that is probed in this interval; `None` before the first one, and with a demand of
    /// 0.
    pub fn probed(&self) -> Option<usize> {
        self.probed
    }

    /// `m`.
    pub fn demand(&self) -> f64 {
        self.demand
    }

    /// Another demand from now on, `measured` being what arrives of each path: missing values count
    /// as 0, and so does what can't be a rate.
    ///
    /// Fig. 2 has constant demands. If the rates exceed the new one in sum, what is taken away is
    /// first what doesn't arrive anyway, on each path in proportion: a path that has become slow
    /// keeps no rate that another one needs.
    ///
    /// # Errors
    /// [`InvalidConfig`] if the demand is out of range; nothing has changed then.
    pub fn set_demand(&mut self, demand: f64, measured: &[f64]) -> Result<(), InvalidConfig> {
        check((0.0..1e18).contains(&demand), "demand", demand, "0 to 1e18")?;
        self.demand = demand;
        let idle = |(index, path): (usize, &PathState)| {
            let arrives = measured.get(index).copied().unwrap_or(0.0);
            (path.rate - arrives.max(0.0)).max(0.0).min(path.rate)
        };
        let idle: Vec<f64> = self.paths.iter().enumerate().map(idle).collect();
        let total = |paths: &[PathState]| paths.iter().map(|path| path.rate).sum::<f64>();
        let (excess, spare) = (total(&self.paths) - demand, idle.iter().sum::<f64>());
        if excess > 0.0 && spare > 0.0 {
            let share = (excess / spare).min(1.0);
            for (path, idle) in self.paths.iter_mut().zip(idle) {
                path.rate = (path.rate - share * idle).max(0.0);
            }
        }
        let rates = total(&self.paths);
        if rates > demand {
            self.paths
                .iter_mut()
                .for_each(|path| path.rate *= demand / rates);
        }
        Ok(())
    }

    /// `ε_s`, in the unit of the demand.
    fn step(&self) -> f64 {
        self.config.increment * self.demand
    }

    /// The parameter-adjustment step: what became of the increment on `path`, and which one is
    /// next.
    fn adjust(&mut self, path: usize, arrived: f64) -> usize {
        let (config, step) = (self.config, self.step());
        let state = &mut self.paths[path];
        // Not a number compares as a failure.
        let success = arrived >= state.rate * (1.0 - config.tolerance) * (1.0 - ROUNDING);
        if success {
            state.probability = (2.0 * state.probability).min(1.0);
            state.boost = (state.boost * config.grow).min(MAX_BOOST);
        } else {
            state.rate = ((state.rate - step) / (1.0 + state.boost)).max(0.0);
            state.probability /= 2.0;
            state.boost /= config.shrink;
        }
        self.normalise_probabilities();
        self.draw((!success).then_some(path))
    }

    /// A path by the probabilities, but not this one.
    fn draw(&mut self, but: Option<usize>) -> usize {
        let weights = self.paths.iter().map(|path| path.probability);
        let other = self.random.weighted(weights, |path| Some(path) != but);
        // With one path there is no other.
        other.unwrap_or(0)
    }

    fn normalise_probabilities(&mut self) {
        let total: f64 = self.paths.iter().map(|path| path.probability).sum();
        for path in &mut self.paths {
            path.probability /= total;
        }
    }

    /// The rate-increment step on `path`.
    fn increment(&mut self, path: usize) {
        let (step, demand) = (self.step(), self.demand);
        let state = &mut self.paths[path];
        let before = state.rate;
        state.rate = (before * (1.0 + state.boost) + step).min(demand);
        if state.rate == demand {
            // What the increment really was; 0 for a rounding error of it, so that AIAD stays AIAD.
            let boost = (demand - step) / before - 1.0;
            state.boost = if boost > ROUNDING {
                boost.min(MAX_BOOST)
            } else {
                0.0
            };
        }
        let room = demand - state.rate;
        let (left, right) = self.paths.split_at_mut(path);
        let total: f64 = left.iter().chain(&right[1..]).map(|other| other.rate).sum();
        if total > room {
            let others = left.iter_mut().chain(&mut right[1..]);
            others.for_each(|other| other.rate *= room / total);
        }
    }
}

#[cfg(test)]
mod tests;

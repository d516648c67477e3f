//! Sources that choose other relays until all are satisfied.

use manyway_control::rate_control::{PathSelector, SelectConfig};

use super::{InvalidFlows, Overlay, Rules, Run};

/// The overlay paper's whole heuristic (sections 4 and 5.3): choose paths, control rates, let
/// unsatisfied sources choose again, until there are none.
///
/// Each iteration begins with fresh controllers and rates ([`Rules::start`]), on the paths chosen.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Search {
    /// How relays are chosen, and when a source is satisfied.
    pub select: SelectConfig,
    /// How rates are controlled.
    pub rules: Rules,
    /// Control intervals of an iteration.
    pub intervals: usize,
    /// A source is judged by its mean rates in so many intervals at an iteration's end.
    pub judged: usize,
    /// Iterations at most.
    pub limit: usize,
}

/// What a [`Search`] came to.
#[derive(Debug, Copy, Clone, Default, PartialEq)]
pub struct Found {
    /// Iterations until all sources were satisfied, the first selection being one; `None` if they
    /// were not within the limit.
    pub iterations: Option<usize>,
    /// The normalised aggregate source rate with the first selection.
    pub first: f64,
    /// And with the last one.
    pub last: f64,
}

impl Search {
    /// A search over relays whose bandwidths are known as well as the choice's error says. Equal
    /// seeds give the same result, bit for bit.
    ///
    /// # Errors
    /// [`InvalidFlows`] if a number is out of range, or there are fewer relays than paths.
    pub fn run(&self, overlay: &Overlay, seed: u64) -> Result<Found, InvalidFlows> {
        let found = self.run_while(overlay, seed, |_| true)?;
        Ok(found.unwrap_or_default())
    }

    /// [`Search::run`], asking before each iteration, by its number from 0, whether to go on;
    /// `None` if it didn't.
    ///
    /// # Errors
    /// As of [`Search::run`].
    pub fn run_while(
        &self,
        overlay: &Overlay,
        seed: u64,
        mut go_on: impl FnMut(usize) -> bool,
    ) -> Result<Option<Found>, InvalidFlows> {
        let (intervals, judged) = (self.intervals, self.judged);
        if judged == 0 || judged > intervals {
            return Err(InvalidFlows::Judged { judged, intervals });
        }
        let mut selectors = selectors(overlay, self.select, seed)?;
        let mut found = Found {
            iterations: None,
            first: 0.0,
            last: 0.0,
        };
        for iteration in 1..=self.limit {
            if !go_on(iteration - 1) {
                return Ok(None);
            }
            let selection: Vec<Vec<usize>> = selectors
                .iter()
                .map(|selector| selector.relays().to_vec())
                .collect();
            // Other draws in each iteration.
            let run = Run::new(
                overlay,
                &selection,
                self.rules,
                seed.wrapping_add((iteration as u64) << 32),
            )?;
            let (rates, normalised) = self.settle(run);
            found.last = normalised;
            if iteration == 1 {
                found.first = normalised;
            }
            let own = || rates.chunks(self.select.paths).zip(&overlay.demands);
            let mut each = selectors.iter().zip(own());
            if each.all(|(selector, (own, &demand))| selector.satisfied(own, demand)) {
                found.iterations = Some(iteration);
                break;
            }
            for (selector, (own, &demand)) in selectors.iter_mut().zip(own()) {
                selector.reselect(own, demand);
            }
        }
        Ok(Some(found))
    }

    /// Each path's mean rate in the intervals that count, and the sum's over the demand.
    fn settle(&self, mut run: Run) -> (Vec<f64>, f64) {
        let mut rates = vec![0.0; run.rates().len()];
        let mut normalised = 0.0;
        let share = 1.0 / self.judged as f64;
        for interval in 0..self.intervals {
            run.step();
            if interval >= self.intervals - self.judged {
                normalised += share * run.normalised();
                for (mean, rate) in rates.iter_mut().zip(run.rates()) {
                    *mean += share * rate;
                }
            }
        }
        (rates, normalised)
    }
}

/// A selector for each source, with its first choice.
fn selectors(
    overlay: &Overlay,
    config: SelectConfig,
    seed: u64,
) -> Result<Vec<PathSelector>, InvalidFlows> {
    let own = |source: usize| seed.wrapping_mul(0xd134_2543_de82_ef95) ^ !(source as u64);
    let select = |source: usize| PathSelector::new(config, &overlay.relays, own(source));
    Ok((0..overlay.demands.len())
        .map(select)
        .collect::<Result<_, _>>()?)
}

impl Overlay {
    /// A first selection of relays for each source.
    ///
    /// # Errors
    /// [`InvalidFlows`] if there are fewer relays than paths, or a number is out of range.
    pub fn select(&self, config: SelectConfig, seed: u64) -> Result<Vec<Vec<usize>>, InvalidFlows> {
        let selectors = selectors(self, config, seed)?;
        Ok(selectors
            .iter()
            .map(|selector| selector.relays().to_vec())
            .collect())
    }
}

#[cfg(test)]
mod tests;

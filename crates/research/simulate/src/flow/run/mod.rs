//! Rate controllers over shared links, interval by interval.

use manyway_control::rate_control::{RateConfig, RateController};

use super::{InvalidFlows, SharedLinks, Sharing, Start, check_rates};
use crate::events::mix;

/// The overlay paper's setting: sources with one destination, and relays whose second hops are all
/// that limits them.
#[derive(Debug, Clone, PartialEq)]
pub struct Overlay {
    /// Bandwidth from each relay to the destination, bits/s or any other unit of rates.
    pub relays: Vec<f64>,
    /// `m_s` of each source, in the same unit.
    pub demands: Vec<f64>,
}

impl Overlay {
    /// Section 5: as many relays as sources, that of rank j with a bandwidth in proportion to
    /// `1/j^b` (`skew`, b), and `ratio` (f) times the demands in sum.
    pub fn skewed(demands: Vec<f64>, skew: f64, ratio: f64) -> Self {
        Overlay::with_relays(demands.len(), demands, skew, ratio)
    }

    /// The same with so many relays.
    pub fn with_relays(relays: usize, demands: Vec<f64>, skew: f64, ratio: f64) -> Self {
        let parts: Vec<f64> = (1..=relays).map(|rank| (rank as f64).powf(-skew)).collect();
        let unit = ratio * demands.iter().sum::<f64>() / parts.iter().sum::<f64>();
        Overlay {
            relays: parts.iter().map(|part| part * unit).collect(),
            demands,
        }
    }

    /// What all sources want.
    pub fn demand(&self) -> f64 {
        self.demands.iter().sum()
    }
}

/// By which rules a run goes.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub struct Rules {
    /// The constants of all controllers. Measurements are exact here: a tolerance of 0 is right.
    pub control: RateConfig,
    /// Rates to begin with.
    pub start: Start,
    /// Who loses on an overloaded link.
    pub sharing: Sharing,
}

/// Sources with rate controllers over chosen relays. All control intervals begin and end together.
#[derive(Clone, Debug)]
pub struct Run {
    links: SharedLinks,
    sharing: Sharing,
    demand: f64,
    controllers: Vec<RateController>,
    /// Where each source's paths begin, and the end.
    first: Vec<usize>,
    offered: Vec<f64>,
    rates: Vec<f64>,
}

impl Run {
    /// A run before its first interval. `selection` has the relays of each source. Equal seeds give
    /// the same run, bit for bit.
    ///
    /// # Errors
    /// [`InvalidFlows`] if the selection doesn't fit the setting, or a number is out of range.
    pub fn new(
        overlay: &Overlay,
        selection: &[Vec<usize>],
        rules: Rules,
        seed: u64,
    ) -> Result<Self, InvalidFlows> {
        let sources = overlay.demands.len();
        check_rates("demand of source", &overlay.demands)?;
        if selection.len() != sources {
            return Err(InvalidFlows::Selections {
                selections: selection.len(),
                sources,
            });
        }
        let paths: Vec<Vec<usize>> = selection
            .iter()
            .flatten()
            .map(|&relay| vec![relay])
            .collect();
        let links = SharedLinks::new(overlay.relays.clone(), &paths)?;
        let owners: Vec<usize> = (0..sources)
            .flat_map(|source| selection[source].iter().map(move |_| source))
            .collect();
        let rates = match rules.start {
            Start::Zero => vec![0.0; owners.len()],
            Start::MaxMin => links.fill_to_demands(&owners, &overlay.demands),
        };
        let mut first = vec![0];
        first.extend(selection.iter().scan(0, |end, relays| {
            *end += relays.len();
            Some(*end)
        }));
        let controller = |source: usize| {
            let initial = &rates[first[source]..first[source + 1]];
            let own = controller_seed(seed, source);
            RateController::new(rules.control, overlay.demands[source], initial, own)
        };
        let controllers = (0..sources).map(controller).collect::<Result<_, _>>()?;
        Ok(Run {
            links,
            sharing: rules.sharing,
            demand: overlay.demand(),
            controllers,
            first,
            offered: rates.clone(),
            rates,
        })
    }

    /// One control interval: every controller sets its rates by those of the interval before, and
    /// the links share them.
    pub fn step(&mut self) {
        for (controller, ends) in self.controllers.iter_mut().zip(self.first.windows(2)) {
            controller.advance(&self.rates[ends[0]..ends[1]]);
            for (offered, rate) in self.offered[ends[0]..ends[1]]
                .iter_mut()
                .zip(controller.rates())
            {
                *offered = rate;
            }
        }
        self.links
            .share(self.sharing, &self.offered, &mut self.rates);
    }

    /// What arrives of each path, source by source.
    pub fn rates(&self) -> &[f64] {
        &self.rates
    }

    /// What arrives of each path of a source.
    pub fn rates_of(&self, source: usize) -> &[f64] {
        &self.rates[self.first[source]..self.first[source + 1]]
    }

    /// What each source sends and has sent over its paths.
    pub fn controllers(&self) -> &[RateController] {
        &self.controllers
    }

    /// The normalised aggregate source rate `Σ x_s / Σ m_s`, 0 to 1; 1 without demands.
    pub fn normalised(&self) -> f64 {
        match self.demand > 0.0 {
            true => self.rates.iter().sum::<f64>() / self.demand,
            false => 1.0,
        }
    }

    /// Goes on for so many intervals, and has [`normalised`](Self::normalised) of each.
    pub fn series(&mut self, intervals: usize) -> Vec<f64> {
        let mut step = || {
            self.step();
            self.normalised()
        };
        (0..intervals).map(|_| step()).collect()
    }
}

/// The seed of a source's controller. Both numbers count up, and the generator's own state does so
/// too, by a constant: mixed, no sequence is another one a few draws later.
pub(crate) fn controller_seed(seed: u64, source: usize) -> u64 {
    mix(mix(seed) ^ source as u64)
}

#[cfg(test)]
mod tests;

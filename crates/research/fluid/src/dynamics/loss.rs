//! Window laws over time, with prices that are loss probabilities.

use std::ops::Range;

use manyway_control::Path;
use nalgebra::{DMatrix, DVector};
use num_dual::Dual64;

use super::System;
use crate::law::{FluidLaw, paths_at};
use crate::model::Model;
use crate::network::{Flow, Network};

/// The system (3)-(4) of Peng et al. over time: `ẋ_r = k_r (φ_r − q_r)`, `ṗ_l = γ_l (y_l − c_l)⁺`.
///
/// The state has `ln x_r` of all routes, rates in packets/s, and then `p_l` of all links. As `k_r`
/// has the factor `x_r`, rates that begin above 0 stay there, and the projection of eq. (3) never
/// acts: in logarithms that is so whatever the step. A floor for windows, which senders have and
/// the paper's model has not, is a projection of its own.
#[derive(Debug, Clone)]
pub struct LossModel<'a> {
    model: &'a Model,
    /// `γ_l` per second, for prices as loss probabilities, loads and capacities in bits/s.
    gains: Vec<f64>,
    /// What prices are around.
    prices: Vec<f64>,
    bounds: DVector<f64>,
}

impl<'a> LossModel<'a> {
    /// The model with link gains as of [`Model::gains`], without window floors.
    pub fn new(model: &'a Model) -> Self {
        let routes = model.network().routes().count();
        let links = model.network().links.len();
        let bounds = |i: usize, _| if i < routes { f64::NEG_INFINITY } else { 0.0 };
        LossModel {
            model,
            gains: model.gains(),
            prices: model.paces().into_iter().map(|pace| pace.price).collect(),
            bounds: DVector::from_fn(routes + links, bounds),
        }
    }

    /// The same with windows that don't fall below these packets, one for each route.
    #[must_use]
    pub fn with_floors(mut self, windows: &[f64]) -> Self {
        for (r, ((_, route), window)) in self.model.network().routes().zip(windows).enumerate() {
            self.bounds[r] = (window / route.rtt).ln();
        }
        self
    }

    /// The network.
    pub fn network(&self) -> &Network {
        self.model.network()
    }

    /// The state of these rates, in packets/s and positive, and prices.
    pub fn state(&self, rates: &[f64], prices: &[f64]) -> DVector<f64> {
        let values = rates.iter().map(|x| x.ln()).chain(prices.iter().copied());
        DVector::from_iterator(rates.len() + prices.len(), values)
    }

    /// Rates in packets/s.
    pub fn rates(&self, state: &DVector<f64>) -> Vec<f64> {
        let routes = state.len() - self.gains.len();
        state.iter().take(routes).map(|z| z.exp()).collect()
    }

    /// Prices.
    pub fn prices(&self, state: &DVector<f64>) -> Vec<f64> {
        let routes = state.len() - self.gains.len();
        state.iter().skip(routes).copied().collect()
    }

    fn sources(&self) -> impl Iterator<Item = Source<'_>> {
        let mut at = 0;
        let flows = self.model.network().flows.iter().zip(self.model.laws());
        flows.map(move |(flow, law)| {
            let routes = at..at + flow.routes.len();
            at = routes.end;
            Source { routes, flow, law }
        })
    }

    /// `q_r`.
    pub fn route_prices(&self, state: &DVector<f64>) -> Vec<f64> {
        self.model.route_prices(&self.prices(state))
    }
}

impl System for LossModel<'_> {
    fn bounds(&self) -> &DVector<f64> {
        &self.bounds
    }

    fn derivative(&self, state: &DVector<f64>) -> DVector<f64> {
        let network = self.model.network();
        let (rates, q) = (self.rates(state), self.route_prices(state));
        let mut slope = DVector::zeros(state.len());
        let mut loads = vec![0.0; network.links.len()];
        for source in self.sources() {
            let of = source.routes.clone();
            let paths = paths_at(&rates[of.clone()], &source.rtts());
            for (n, r) in of.enumerate() {
                let pace = source.law.gain(&paths, n) / rates[r];
                slope[r] = pace * (source.law.phi(&paths, n) - q[r]);
                for &link in &source.flow.routes[n].links {
                    loads[link] += rates[r] * source.flow.routes[n].packet;
                }
            }
        }
        let links = network.links.iter().zip(loads).zip(&self.gains);
        for (l, ((link, load), gain)) in links.enumerate() {
            slope[rates.len() + l] = gain * (load - link.capacity);
        }
        slope
    }

    fn jacobian(&self, state: &DVector<f64>) -> DMatrix<f64> {
        let (rates, q) = (self.rates(state), self.route_prices(state));
        let prices = rates.len();
        let mut jacobian = DMatrix::zeros(state.len(), state.len());
        for source in self.sources() {
            let of = source.routes.clone();
            source.fill(&mut jacobian, &rates[of.clone()], &q[of.clone()]);
            let paths = paths_at(&rates[of.clone()], &source.rtts());
            for (n, r) in of.enumerate() {
                let pace = source.law.gain(&paths, n) / rates[r];
                let route = &source.flow.routes[n];
                for &link in &route.links {
                    jacobian[(r, prices + link)] = -pace;
                    jacobian[(prices + link, r)] = self.gains[link] * rates[r] * route.packet;
                }
            }
        }
        jacobian
    }

    fn scale(&self, i: usize, value: f64) -> f64 {
        match i.checked_sub(self.bounds.len() - self.gains.len()) {
            // Of a logarithm: relative to the rate.
            None => 1.0,
            Some(link) => value + self.prices[link],
        }
    }
}

/// A flow, its law and where its routes are among all.
struct Source<'a> {
    routes: Range<usize>,
    flow: &'a Flow,
    law: &'a FluidLaw,
}

impl Source<'_> {
    fn rtts(&self) -> Vec<f64> {
        self.flow.routes.iter().map(|route| route.rtt).collect()
    }

    /// Enters `∂(ẋ_r/x_r)/∂ ln x_k`, by dual numbers.
    fn fill(&self, jacobian: &mut DMatrix<f64>, rates: &[f64], q: &[f64]) {
        let rtts = self.rtts();
        for (k, along) in self.routes.clone().enumerate() {
            let part = |(n, &x): (usize, &f64)| Dual64::new(x, if n == k { x } else { 0.0 });
            let rates: Vec<Dual64> = rates.iter().enumerate().map(part).collect();
            let path = |(&x, &rtt): (&Dual64, &f64)| Path {
                window: x * rtt,
                rtt: Dual64::from(rtt),
            };
            let paths: Vec<Path<Dual64>> = rates.iter().zip(&rtts).map(path).collect();
            for (n, r) in self.routes.clone().enumerate() {
                let pace = self.law.gain(&paths, n) / rates[n];
                jacobian[(r, along)] = (pace * (self.law.phi(&paths, n) - q[n])).eps;
            }
        }
    }
}

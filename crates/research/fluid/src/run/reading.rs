//! The physical quantities of a state: rates, windows, round-trip times and prices.

use nalgebra::DVector;

use crate::dynamics::{DelayModel, LossModel, System};

/// The quantities of a state, of one member of each class.
pub(super) struct Reading {
    /// Packets/s, by route.
    pub(super) rates: Vec<f64>,
    /// Packets, by route.
    pub(super) windows: Vec<f64>,
    /// Seconds, by route.
    pub(super) rtts: Vec<f64>,
    /// By link.
    pub(super) prices: Vec<f64>,
    /// What each route's links and its own loss come to.
    pub(super) route_prices: Vec<f64>,
}

/// A system of equations whose states can be read.
pub(super) trait Fluid: System {
    fn read(&self, state: &DVector<f64>) -> Reading;
}

impl Fluid for LossModel<'_> {
    fn read(&self, state: &DVector<f64>) -> Reading {
        let rates = self.rates(state);
        let rtts: Vec<f64> = self
            .network()
            .routes()
            .map(|(_, route)| route.rtt)
            .collect();
        // Where windows are below some 1.4 packets, the equations have prices above 1.
        let probability = |price: f64| price.min(1.0);
        let prices: Vec<f64> = self.prices(state).into_iter().map(probability).collect();
        let q = self.route_prices(state).into_iter().map(probability);
        Reading {
            route_prices: q.collect(),
            windows: rates.iter().zip(&rtts).map(|(x, rtt)| x * rtt).collect(),
            rates,
            rtts,
            prices,
        }
    }
}

impl Fluid for DelayModel {
    fn read(&self, state: &DVector<f64>) -> Reading {
        let prices = self.prices(state);
        let q = self.network().route_prices(&prices);
        let rtts = self
            .network()
            .routes()
            .zip(&q)
            .map(|((_, route), q)| route.rtt + q);
        let rtts: Vec<f64> = rtts.collect();
        Reading {
            windows: state.iter().take(rtts.len()).map(|z| z.exp()).collect(),
            rates: self.rates(state),
            rtts,
            prices,
            route_prices: q,
        }
    }
}

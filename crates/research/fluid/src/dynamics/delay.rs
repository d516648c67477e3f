//! wVegas over time, with prices that are queueing delays.

use nalgebra::{DMatrix, DVector};

use super::System;
use crate::network::{InvalidNetwork, Network};

/// wVegas as a fluid: eq. (11)-(12) of Cao et al. over continuous time, with prices that are
/// queueing delays.
///
/// A link's price is the time that its queue takes to drain, `λ̇_l = (y_l − c_l)⁺/c_l`: eq. (12)
/// with `γ = 1/c_l` per second. A source adjusts windows, as Vegas does, `ẇ_r = (x_r/τ_r) (U'(y_s)
/// − q_r)` with `U'(y) = α_s/y`: eq. (11) with the step `θ_r = x_r/τ_r` per second. Rates follow by
/// `x_r = w_r/(τ_r + q_r)`, so that queues are filled by acknowledgements' clock. In words: each
/// round trip, w changes by what the path ought to keep queued, `α_s x_r/y_s` packets, less what it
/// does, `x_r q_r`. (Vegas itself moves by one packet at most.) At rest all used paths of a flow
/// have one price, and rates are those of `max Σ α_s log y_s`.
///
/// The state has `ln w_r` of all routes, windows in packets, and then `λ_l` of all links in
/// seconds. A flow's [`weight`](crate::Flow::weight) is `α_s`, in packets.
#[derive(Debug, Clone)]
pub struct DelayModel {
    network: Network,
    bounds: DVector<f64>,
    /// What delays are around, in seconds.
    delay: f64,
    /// What each route wants queued at least, in packets.
    least: Vec<f64>,
}

impl DelayModel {
    /// A model of flows that all run wVegas, each with its weight for `α_s` in packets (the paper
    /// takes 10).
    ///
    /// # Errors
    /// What is wrong with the network.
    pub fn new(network: Network) -> Result<Self, InvalidNetwork> {
        network.validate()?;
        let routes = network.routes().count();
        let bounds = |i: usize, _| if i < routes { f64::NEG_INFINITY } else { 0.0 };
        let bounds = DVector::from_fn(routes + network.links.len(), bounds);
        let shares = network.rough_shares(1.0);
        let flows = network.flows.iter().zip(shares);
        let delays = flows.map(|(flow, share)| flow.weight * flow.routes[0].packet / share);
        let mut delays: Vec<f64> = delays.collect();
        delays.sort_by(f64::total_cmp);
        Ok(DelayModel {
            delay: delays[delays.len() / 2],
            least: vec![0.0; routes],
            network,
            bounds,
        })
    }

    /// The same with a floor below what paths ought to keep queued, in packets for each route: line
    /// 14 of Algorithm 3, where it is 2. Eq. (11)-(12) have none, and with one rates come to rest
    /// beside the optimum.
    #[must_use]
    pub fn with_least(mut self, least: Vec<f64>) -> Self {
        assert_eq!(least.len(), self.least.len(), "a floor for each route");
        self.least = least;
        self
    }

    /// The price that a flow expects on a route, `U'(y_s)`, and whether its floor makes it.
    fn expected(&self, (r, flow): (usize, usize), rate: f64, total: f64) -> (f64, bool) {
        let (by_total, by_floor) = (
            self.network.flows[flow].weight / total,
            self.least[r] / rate,
        );
        (by_total.max(by_floor), by_floor > by_total)
    }

    /// The network.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The state of these windows, in packets and positive, and queueing delays in seconds.
    pub fn state(&self, windows: &[f64], delays: &[f64]) -> DVector<f64> {
        let values = windows.iter().map(|w| w.ln()).chain(delays.iter().copied());
        DVector::from_iterator(windows.len() + delays.len(), values)
    }

    /// Rates in packets/s.
    pub fn rates(&self, state: &DVector<f64>) -> Vec<f64> {
        let q = self.network.route_prices(&self.prices(state));
        let routes = self.network.routes().zip(&q).zip(state);
        let rate = |(((_, route), q), z): (((usize, &crate::Route), &f64), &f64)| {
            z.exp() / (route.rtt + q)
        };
        routes.map(rate).collect()
    }

    /// Prices: queueing delays in seconds.
    pub fn prices(&self, state: &DVector<f64>) -> Vec<f64> {
        let routes = state.len() - self.network.links.len();
        state.iter().skip(routes).copied().collect()
    }
}

impl System for DelayModel {
    fn bounds(&self) -> &DVector<f64> {
        &self.bounds
    }

    fn derivative(&self, state: &DVector<f64>) -> DVector<f64> {
        let rates = self.rates(state);
        let totals = self.network.totals(&rates);
        let q = self.network.route_prices(&self.prices(state));
        let mut slope = DVector::zeros(state.len());
        let mut loads = vec![0.0; self.network.links.len()];
        for (r, (flow, route)) in self.network.routes().enumerate() {
            let (expected, _) = self.expected((r, flow), rates[r], totals[flow]);
            slope[r] = (expected - q[r]) / (route.rtt * (route.rtt + q[r]));
            for &link in &route.links {
                loads[link] += rates[r] * route.packet;
            }
        }
        for (l, (link, load)) in self.network.links.iter().zip(loads).enumerate() {
            slope[rates.len() + l] = load / link.capacity - 1.0;
        }
        slope
    }

    fn jacobian(&self, state: &DVector<f64>) -> DMatrix<f64> {
        let network = &self.network;
        let rates = self.rates(state);
        let totals = network.totals(&rates);
        let q = network.route_prices(&self.prices(state));
        let prices = rates.len();
        let mut jacobian = DMatrix::zeros(state.len(), state.len());
        let mut first = 0;
        for (s, flow) in network.flows.iter().enumerate() {
            let of = first..first + flow.routes.len();
            first = of.end;
            for (r, route) in of.clone().zip(&flow.routes) {
                let round_trip = route.rtt + q[r];
                let pace = 1.0 / (route.rtt * round_trip);
                let (expected, floor) = self.expected((r, s), rates[r], totals[s]);
                // By the rates of all of the flow's routes, which windows and delays make.
                for (k, other) in of.clone().zip(&flow.routes) {
                    let by_rate = match (floor, k == r) {
                        (false, _) => -pace * expected / totals[s] * rates[k],
                        (true, true) => -pace * expected,
                        (true, false) => 0.0,
                    };
                    jacobian[(r, k)] += by_rate;
                    for &link in &other.links {
                        jacobian[(r, prices + link)] -= by_rate / (other.rtt + q[k]);
                    }
                }
                let own = -pace - pace * (expected - q[r]) / round_trip;
                for &link in &route.links {
                    jacobian[(r, prices + link)] += own;
                    let share = rates[r] * route.packet / network.links[link].capacity;
                    jacobian[(prices + link, r)] = share;
                    for &along in &route.links {
                        jacobian[(prices + link, prices + along)] -= share / round_trip;
                    }
                }
            }
        }
        jacobian
    }

    fn scale(&self, i: usize, value: f64) -> f64 {
        match i < self.bounds.len() - self.network.links.len() {
            true => 1.0,
            false => value + self.delay,
        }
    }
}

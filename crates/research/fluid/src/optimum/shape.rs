//! The constraints that all programmes over a network share.

use super::into_bounds;
use super::program::{Program, Solved};
use crate::network::Network;

/// The linear part of all programmes over a network, without dimensions, so that the solver meets
/// numbers around 1: the first variables are the rates of all routes, each over its flow's unit,
/// and a link's row is over its capacity.
pub(super) struct Shape {
    pub(super) routes: usize,
    /// The routes over each link, with what one of their units takes of it.
    members: Vec<Vec<(usize, f64)>>,
    /// The routes of each flow, each with a 1.
    pub(super) own: Vec<Vec<(usize, f64)>>,
    /// Each flow's unit, in bits/s.
    pub(super) units: Vec<f64>,
}

impl Shape {
    /// With these units, one per flow.
    pub(super) fn of(network: &Network, units: Vec<f64>) -> Self {
        let mut members = vec![Vec::new(); network.links.len()];
        let mut own = vec![Vec::new(); network.flows.len()];
        for (n, (flow, route)) in network.routes().enumerate() {
            own[flow].push((n, 1.0));
            for &link in &route.links {
                members[link].push((n, units[flow] / network.links[link].capacity));
            }
        }
        Shape {
            routes: network.routes().count(),
            members,
            own,
            units,
        }
    }

    /// `A x ≤ c`, the first rows, one per link; `x ≥ 0`; `B x ≤ m`.
    pub(super) fn constrain(&self, network: &Network, program: &mut Program) {
        for members in &self.members {
            program.at_most(members.iter().copied(), 1.0);
        }
        for n in 0..self.routes {
            program.at_most([(n, -1.0)], 0.0);
        }
        for ((flow, own), unit) in network.flows.iter().zip(&self.own).zip(&self.units) {
            if let Some(demand) = flow.demand {
                program.at_most(own.iter().copied(), demand / unit);
            }
        }
    }

    /// The rates found, in bits/s and within bounds exactly.
    pub(super) fn rates(&self, network: &Network, solved: &Solved) -> Vec<f64> {
        let rates = network.routes().zip(&solved.variables);
        let mut rates: Vec<f64> = rates.map(|((flow, _), x)| x * self.units[flow]).collect();
        into_bounds(network, &mut rates);
        rates
    }
}

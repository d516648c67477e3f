//! Weights that turn flows over several routes into flows over one each: section III of Cao et al.

use super::concave;
use super::{Allocation, OptimumError};
use crate::network::{Flow, Network};

/// One step of Algorithm 2.
#[derive(Clone, Debug, PartialEq)]
pub struct Iterate {
    /// `k_{s,r}` of each route, of which a flow's sum to 1: those that the rates were computed
    /// with.
    pub weights: Vec<f64>,
    /// The rates for them, in bits/s.
    pub rates: Vec<f64>,
}

/// Routes with less of their flow's weight than this carry nothing: their rates are beyond what the
/// solver tells from 0.
const NOTHING: f64 = 1e-9;

/// The weight allocation problem's inner step: `maximise Σ_s α_s Σ_r k_{s,r} log x_{s,r}` with `A x
/// ≤ c` for these weights, of which there is one for each of [`Network::routes`]; a flow's weights
/// needn't sum to 1. Demands are left out: no route knows its part of them.
///
/// # Errors
/// [`OptimumError`] if the network is invalid, weights are missing or not positive, or the solver
/// gets nowhere.
pub fn weight_allocation(network: &Network, weights: &[f64]) -> Result<Allocation, OptimumError> {
    network.validate()?;
    let routes = network.routes().count();
    let fine = |&weight: &f64| weight > 0.0 && weight.is_finite();
    if weights.len() != routes || !weights.iter().all(fine) {
        return Err(OptimumError::Weights {
            given: weights.len(),
            routes,
        });
    }
    let split = |((flow, route), weight): ((usize, _), &f64)| Flow {
        name: network.flows[flow].name.clone(),
        weight: network.flows[flow].weight * weight,
        demand: None,
        routes: vec![Clone::clone(route)],
    };
    let split = Network {
        links: network.links.clone(),
        flows: network.routes().zip(weights).map(split).collect(),
    };
    concave::solve(&split, 1.0)
}

/// Algorithm 2 of Cao et al.: allocate by weights, make each weight the route's part of its flow's
/// rate, and again, for so many steps or until no weight changes by more than `tolerance`. Every
/// step is kept. At its fixed points all used routes of a flow have one price, so that the rates
/// are NUM's.
///
/// # Errors
/// As [`weight_allocation`].
pub fn reweight(
    network: &Network,
    initial: &[f64],
    (steps, tolerance): (usize, f64),
) -> Result<Vec<Iterate>, OptimumError> {
    let mut weights = initial.to_vec();
    let mut iterates = Vec::new();
    for _ in 0..steps {
        let rates = weight_allocation(network, &weights)?.rates;
        let totals = network.totals(&rates);
        let next = network.routes().zip(&rates);
        let next = next.map(|((flow, _), rate)| (rate / totals[flow]).max(NOTHING));
        let next: Vec<f64> = next.collect();
        let change = next.iter().zip(&weights);
        let change = change.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        let done = std::mem::replace(&mut weights, next);
        iterates.push(Iterate {
            weights: done,
            rates,
        });
        if change <= tolerance {
            break;
        }
    }
    Ok(iterates)
}

//! Max-min fair allocations, by a sequence of linear programmes.

use super::certificate::Certificate;
use super::program::Program;
use super::shape::Shape;
use super::{Allocation, OptimumError, SOLVED};
use crate::network::Network;

/// Max-min rates, level by level: the largest rate that all flows without a level can have is the
/// level of those that no other split could give more, which are those whose constraint has a
/// price.
pub(super) fn solve(network: &Network) -> Result<Allocation, OptimumError> {
    let mut levels: Vec<Option<f64>> = vec![None; network.flows.len()];
    let mut prices = vec![0.0; network.links.len()];
    let mut gap = 0.0f64;
    loop {
        let round = next_level(network, &levels)?;
        gap = gap.max(round.gap);
        for (price, new) in prices.iter_mut().zip(&round.prices) {
            if *price == 0.0 {
                *price = *new;
            }
        }
        for (s, level) in levels.iter_mut().enumerate() {
            let flow = &network.flows[s];
            if round.stuck[s] {
                *level = Some(round.level * flow.weight);
            }
        }
        if levels.iter().all(Option::is_some) {
            let certificate = Certificate { gap, residual: gap };
            let rates = round.rates;
            return Ok(Allocation {
                rates,
                prices,
                certificate,
            });
        }
    }
}

/// Duals above this are more than rounding: those of a level's flows sum to 1.
const PAID: f64 = 1e-6;

struct Round {
    /// Of all flows without a level, per weight, in bits/s.
    level: f64,
    rates: Vec<f64>,
    /// Whether a flow without a level has this one.
    stuck: Vec<bool>,
    prices: Vec<f64>,
    gap: f64,
}

/// How much less than its level a flow may have in later rounds, relatively: without any, nothing
/// feasible would have room around it, which solvers need.
const ROOM: f64 = 1e-7;

/// The level is over the least rough share per weight.
fn next_level(network: &Network, levels: &[Option<f64>]) -> Result<Round, OptimumError> {
    let shape = Shape::of(network, network.rough_shares(1.0));
    let per_weight = network.flows.iter().zip(&shape.units);
    let per_weight = per_weight.map(|(flow, unit)| unit / flow.weight);
    let unit = per_weight.fold(f64::INFINITY, f64::min);
    let mut cost = vec![0.0; shape.routes];
    cost.push(-1.0);
    let mut program = Program::minimise(cost);
    shape.constrain(network, &mut program);
    // What a unit of the level is to each flow.
    let steps = network.flows.iter().zip(&shape.units);
    let steps: Vec<f64> = steps.map(|(flow, own)| flow.weight * unit / own).collect();
    let mut rows = Vec::new();
    for (s, own) in shape.own.iter().enumerate() {
        let total = own.iter().map(|&(n, one)| (n, -one));
        rows.push(match levels[s] {
            Some(level) => program.at_most(total, -level / shape.units[s] * (1.0 - ROOM)),
            None => program.at_most(total.chain([(shape.routes, steps[s])]), 0.0),
        });
    }
    let unsolved = |status, gap| OptimumError::Unsolved { status, gap };
    let solved = program
        .solve()
        .map_err(|status| unsolved(status, f64::INFINITY))?;
    let level = solved.variables[shape.routes];
    let gap = solved.gap / level.max(0.0);
    let stuck = |(s, &row): (usize, &usize)| match levels[s] {
        Some(_) => false,
        None => solved.duals[row] * steps[s] > PAID,
    };
    let stuck: Vec<bool> = rows.iter().enumerate().map(stuck).collect();
    // Without a flow that is stuck there would be no end.
    if gap.is_nan() || gap > SOLVED || !stuck.contains(&true) {
        return Err(unsolved(solved.status.to_string(), gap));
    }
    let rates = shape.rates(network, &solved);
    let prices = network.links.iter().zip(&solved.duals);
    let prices = prices.map(|(link, dual)| match dual {
        dual if *dual > PAID => dual * unit / link.capacity,
        _ => 0.0,
    });
    Ok(Round {
        level: level * unit,
        rates,
        stuck,
        prices: prices.collect(),
        gap,
    })
}

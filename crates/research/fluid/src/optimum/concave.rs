//! The α-fair family, throughput and log included.

use clarabel::solver::SupportedConeT;

use super::certificate::{Certificate, utility};
use super::program::{FINE, Program, Solved, TOLERANCE};
use super::shape::Shape;
use super::{Allocation, OptimumError, SOLVED, into_bounds};
use crate::network::{Flow, Network};

/// Maximises `Σ α_s y_s^(1−a)/(1−a)`, or its limits at 0 and 1.
///
/// Conic programmes end with a small gap, and rates are off by the square root of it. So it is
/// followed by Newton steps: quadratic programmes about the point found, whose stationarity the
/// solver meets as it stands.
pub(super) fn solve(network: &Network, a: f64) -> Result<Allocation, OptimumError> {
    let (mut best, status) =
        Programme::of(network, a, network.rough_shares(a)).conic(network, a)?;
    let (mut in_vain, mut near) = (0, best.certificate.residual <= FAR);
    let mut point = best.rates.clone();
    if !near {
        // Where nobody has nothing, every step has a way on.
        let mut rough = network.rough_parts(a);
        into_bounds(network, &mut rough);
        for (rate, rough) in point.iter_mut().zip(rough) {
            *rate += 0.1 * (rough - *rate);
        }
    }
    for _ in 0..NEWTON_STEPS {
        if a == 0.0 || best.certificate.residual <= POLISHED || in_vain == IN_VAIN {
            break;
        }
        // In units of their own size, flows of very different sizes are as exact.
        let programme = Programme::of(network, a, network.totals(&point));
        let Some(next) = programme.newton(network, a, near) else {
            break;
        };
        let share = share_of_step(network, a, &point, &next.rates);
        for (rate, new) in point.iter_mut().zip(&next.rates) {
            *rate += share * (new - *rate);
        }
        near = next.certificate.residual <= FAR;
        in_vain += usize::from(near);
        if next.certificate.residual < best.certificate.residual {
            best = next;
            in_vain = 0;
        }
    }
    let Certificate { gap, .. } = best.certificate;
    if gap.is_nan() || gap > SOLVED {
        return Err(OptimumError::Unsolved { status, gap });
    }
    Ok(best)
}

const NEWTON_STEPS: usize = 40;

/// A residual from which steps don't begin.
const FAR: f64 = 1e-2;

/// The part of its rate that a flow keeps in a step that begins far away.
const LEFT: f64 = 0.1;

/// Steps near the optimum without any gain before the best is taken.
const IN_VAIN: usize = 3;

/// A residual that is good enough.
const POLISHED: f64 = 1e-8;

/// How much of a step to go: all of it, or half, a quarter and so on until the utility grows by a
/// part of what its slope promises.
///
/// A step between two feasible points stays feasible, and goes uphill as the utility is concave.
fn share_of_step(network: &Network, a: f64, from: &[f64], to: &[f64]) -> f64 {
    let [from, to] = [from, to].map(|rates| network.totals(rates));
    let gain = |share: f64| -> f64 {
        let one = |(s, flow): (usize, &Flow)| {
            let y = from[s] + share * (to[s] - from[s]);
            flow.weight * (utility(y, a) - utility(from[s], a))
        };
        network.flows.iter().enumerate().map(one).sum()
    };
    let (mut slope, mut scale) = (0.0, 0.0);
    for (s, flow) in network.flows.iter().enumerate() {
        slope += flow.weight * from[s].powf(-a) * (to[s] - from[s]);
        scale += flow.weight * from[s].powf(1.0 - a);
    }
    let level = slope.abs() <= LEVEL * scale;
    let mut shares = (0..50).map(|halvings| 0.5f64.powi(halvings));
    let share = shares.find(|&share| level || gain(share) >= 0.1 * share * slope);
    share.unwrap_or(0.0)
}

/// Slopes below this, in units of `Σ α_s y_s^(1−a)`, can't be told from rounding.
const LEVEL: f64 = 1e-7;

/// A network's optimum as a programme.
struct Programme {
    shape: Shape,
    /// Each flow's weight once its rate is in its unit: `α_s u_s^(1−a)`, over their mean.
    weights: Vec<f64>,
    mean_weight: f64,
}

impl Programme {
    fn of(network: &Network, a: f64, units: Vec<f64>) -> Self {
        let shape = Shape::of(network, units);
        let weights = network.flows.iter().zip(&shape.units);
        let mut weights: Vec<f64> = weights
            .map(|(flow, unit)| flow.weight * unit.powf(1.0 - a))
            .collect();
        let mean_weight = weights.iter().sum::<f64>() / weights.len() as f64;
        weights.iter_mut().for_each(|weight| *weight /= mean_weight);
        Programme {
            shape,
            weights,
            mean_weight,
        }
    }

    /// The whole programme at once. Beside the rates there is, where the utility is not linear, a
    /// bound `t_s` per flow that a cone keeps below it.
    fn conic(&self, network: &Network, a: f64) -> Result<(Allocation, String), OptimumError> {
        let mut program = Program::minimise(self.costs(a));
        self.shape.constrain(network, &mut program);
        let bounds = self.shape.routes..;
        for (bound, own) in bounds.zip(&self.shape.own).take_while(|_| a > 0.0) {
            let (bound, total, one) = (vec![(bound, 1.0)], own.clone(), Vec::new());
            let (cone, rows) = match a {
                1.0 => (
                    SupportedConeT::ExponentialConeT(),
                    [(bound, 0.0), (one, 1.0), (total, 0.0)],
                ),
                ..1.0 => (
                    SupportedConeT::PowerConeT(1.0 - a),
                    [(total, 0.0), (one, 1.0), (bound, 0.0)],
                ),
                _ => (
                    SupportedConeT::PowerConeT(1.0 / a),
                    [(bound, 0.0), (total, 0.0), (one, 1.0)],
                ),
            };
            program.in_cone(cone, rows);
        }
        let solved = program
            .solve(TOLERANCE)
            .map_err(|status| OptimumError::Unsolved {
                status,
                gap: f64::INFINITY,
            })?;
        let status = solved.status.to_string();
        Ok((self.allocation(network, a, &solved), status))
    }

    /// Maximises the utility's second-order expansion about the flows' units. Away from the optimum
    /// it would leave some with nothing.
    fn newton(&self, network: &Network, a: f64, near: bool) -> Option<Allocation> {
        let mut cost = vec![0.0; self.shape.routes];
        for (own, weight) in self.shape.own.iter().zip(&self.weights) {
            own.iter().for_each(|&(n, _)| cost[n] = -(1.0 + a) * weight);
        }
        let mut program = Program::minimise(cost);
        for (own, weight) in self.shape.own.iter().zip(&self.weights) {
            program.bend(own, a * weight);
        }
        self.shape.constrain(network, &mut program);
        for own in self.shape.own.iter().take_while(|_| !near) {
            program.at_most(own.iter().map(|&(n, one)| (n, -one)), -LEFT);
        }
        Some(self.allocation(network, a, &program.solve(FINE).ok()?))
    }

    fn costs(&self, a: f64) -> Vec<f64> {
        let (per_rate, per_bound) = match a {
            0.0 => (-1.0, None),
            1.0 => (0.0, Some(-1.0)),
            ..1.0 => (0.0, Some(-1.0 / (1.0 - a))),
            _ => (0.0, Some(1.0 / (a - 1.0))),
        };
        let mut costs = vec![0.0; self.shape.routes];
        for (own, weight) in self.shape.own.iter().zip(&self.weights) {
            own.iter().for_each(|&(n, _)| costs[n] = per_rate * weight);
        }
        if let Some(per_bound) = per_bound {
            costs.extend(self.weights.iter().map(|weight| weight * per_bound));
        }
        costs
    }

    fn allocation(&self, network: &Network, a: f64, solved: &Solved) -> Allocation {
        let rates = self.shape.rates(network, solved);
        let prices = network.links.iter().zip(&solved.duals);
        let prices: Vec<f64> = prices
            .map(|(link, dual)| dual.max(0.0) * self.mean_weight / link.capacity)
            .collect();
        let certificate = Certificate::of(network, a, &rates, &prices);
        Allocation {
            rates,
            prices,
            certificate,
        }
    }
}

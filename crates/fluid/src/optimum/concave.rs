//! The α-fair family, throughput and log included.

use clarabel::solver::SupportedConeT;

use super::certificate::Certificate;
use super::program::{Program, Solved};
use super::{Allocation, OptimumError, SOLVED, into_bounds};
use crate::network::Network;

/// Maximises `Σ α_s y_s^(1−a)/(1−a)`, or its limits at 0 and 1.
///
/// Conic programmes end with a small gap, and rates are off by the square root of it. So it is followed by Newton steps: quadratic programmes about the point
/// found, whose stationarity the solver meets as it stands.
pub(super) fn solve(network: &Network, a: f64) -> Result<Allocation, OptimumError> {
    let shape = Shape::of(network, a);
    let (mut best, status) = shape.conic(network, a)?;
    let mut point = best.clone();
    for _ in 0..NEWTON_STEPS {
        if a == 0.0 || best.certificate.residual <= POLISHED {
            break;
        }
        let Some(next) = shape.newton(network, a, &point) else {
            break;
        };
        point = next;
        if point.certificate.residual < best.certificate.residual {
            best = point.clone();
        }
    }
    let Certificate { gap, .. } = best.certificate;
    if gap.is_nan() || gap > SOLVED {
        return Err(OptimumError::Unsolved { status, gap });
    }
    Ok(best)
}

const NEWTON_STEPS: usize = 20;

/// The factor by which a step may change a flow's rate.
const TRUST: f64 = 2.0;

/// A residual that is as good as rounding allows.
const POLISHED: f64 = 1e-10;

/// The linear part of all programmes over a network, without dimensions, so that the solver meets numbers around 1: variables are the rates of all routes, each over its flow's
/// rough share, and a link's row is over its capacity.
struct Shape {
    routes: usize,
    /// The routes over each link, with what one of their units takes of it.
    members: Vec<Vec<(usize, f64)>>,
    /// The routes of each flow, each with a 1.
    own: Vec<Vec<(usize, f64)>>,
    /// Each flow's unit, in bits/s.
    units: Vec<f64>,
    /// Each flow's weight once its rate is in its unit: `α_s u_s^(1−a)`, over their mean.
    weights: Vec<f64>,
    mean_weight: f64,
}

impl Shape {
    fn of(network: &Network, a: f64) -> Self {
        let units = network.rough_shares(a);
        let mut members = vec![Vec::new(); network.links.len()];
        let mut own = vec![Vec::new(); network.flows.len()];
        for (n, (flow, route)) in network.routes().enumerate() {
            own[flow].push((n, 1.0));
            for &link in &route.links {
                members[link].push((n, units[flow] / network.links[link].capacity));
            }
        }
        let weights = network.flows.iter().zip(&units);
        let mut weights: Vec<f64> = weights
            .map(|(flow, unit)| flow.weight * unit.powf(1.0 - a))
            .collect();
        let mean_weight = weights.iter().sum::<f64>() / weights.len() as f64;
        weights.iter_mut().for_each(|weight| *weight /= mean_weight);
        Shape {
            routes: network.routes().count(),
            members,
            own,
            units,
            weights,
            mean_weight,
        }
    }

    /// `A x ≤ c`, the first rows, one per link; `x ≥ 0`; `B x ≤ m`.
    fn constrain(&self, network: &Network, program: &mut Program) {
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

    /// The whole programme at once. Beside the rates there is, where the utility is not linear, a bound `t_s` per flow that a cone keeps below it.
    fn conic(&self, network: &Network, a: f64) -> Result<(Allocation, String), OptimumError> {
        let mut program = Program::minimise(self.costs(a));
        self.constrain(network, &mut program);
        let bounds = self.routes..;
        for (bound, own) in bounds.zip(&self.own).take_while(|_| a > 0.0) {
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
        let solved = program.solve().map_err(|status| OptimumError::Unsolved {
            status,
            gap: f64::INFINITY,
        })?;
        let status = solved.status.to_string();
        Ok((self.allocation(network, a, &solved), status))
    }

    /// Maximises the utility's second-order expansion about an allocation.
    fn newton(&self, network: &Network, a: f64, about: &Allocation) -> Option<Allocation> {
        let totals = network.totals(&about.rates);
        let mut cost = vec![0.0; self.routes];
        let mut bends = Vec::new();
        for (s, own) in self.own.iter().enumerate() {
            let y = totals[s] / self.units[s];
            let marginal = self.weights[s] * y.powf(-a);
            let curvature = a * marginal / y;
            for &(n, _) in own {
                cost[n] = -marginal - curvature * y;
            }
            bends.push((own, curvature, y));
        }
        let mut program = Program::minimise(cost);
        for &(own, curvature, _) in &bends {
            program.bend(own, curvature);
        }
        self.constrain(network, &mut program);
        for (own, _, y) in bends {
            // The expansion is good for so much.
            program.at_most(own.iter().map(|&(n, one)| (n, -one)), -y / TRUST);
            program.at_most(own.iter().copied(), y * TRUST);
        }
        Some(self.allocation(network, a, &program.solve().ok()?))
    }

    fn costs(&self, a: f64) -> Vec<f64> {
        let (per_rate, per_bound) = match a {
            0.0 => (-1.0, None),
            1.0 => (0.0, Some(-1.0)),
            ..1.0 => (0.0, Some(-1.0 / (1.0 - a))),
            _ => (0.0, Some(1.0 / (a - 1.0))),
        };
        let mut costs = vec![0.0; self.routes];
        for (own, weight) in self.own.iter().zip(&self.weights) {
            own.iter().for_each(|&(n, _)| costs[n] = per_rate * weight);
        }
        if let Some(per_bound) = per_bound {
            costs.extend(self.weights.iter().map(|weight| weight * per_bound));
        }
        costs
    }

    fn allocation(&self, network: &Network, a: f64, solved: &Solved) -> Allocation {
        let rates = network.routes().zip(&solved.variables);
        let mut rates: Vec<f64> = rates.map(|((flow, _), x)| x * self.units[flow]).collect();
        into_bounds(network, &mut rates);
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

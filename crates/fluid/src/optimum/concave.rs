//! The α-fair family, throughput and log included.

use clarabel::solver::SupportedConeT;

use super::certificate::Certificate;
use super::program::{Program, Solved};
use super::shape::Shape;
use super::{Allocation, OptimumError, SOLVED};
use crate::network::Network;

/// Maximises `Σ α_s y_s^(1−a)/(1−a)`, or its limits at 0 and 1.
///
/// Conic programmes end with a small gap, and rates are off by the square root of it. So it is followed by Newton steps: quadratic programmes about the point
/// found, whose stationarity the solver meets as it stands.
pub(super) fn solve(network: &Network, a: f64) -> Result<Allocation, OptimumError> {
    let programmes = Programmes::of(network, a);
    let (mut best, status) = programmes.conic(network, a)?;
    let mut point = best.clone();
    let mut in_vain = 0;
    for _ in 0..NEWTON_STEPS {
        if a == 0.0 || best.certificate.residual <= POLISHED || in_vain == 3 {
            break;
        }
        let Some(next) = programmes.newton(network, a, &point) else {
            break;
        };
        point = next;
        in_vain += 1;
        if point.certificate.residual < best.certificate.residual {
            best = point.clone();
            in_vain = 0;
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

/// A residual that is good enough.
const POLISHED: f64 = 1e-8;

/// The programmes of one network and one `a`.
struct Programmes {
    shape: Shape,
    /// Each flow's weight once its rate is in its unit: `α_s u_s^(1−a)`, over their mean.
    weights: Vec<f64>,
    mean_weight: f64,
}

impl Programmes {
    fn of(network: &Network, a: f64) -> Self {
        let shape = Shape::of(network, a);
        let weights = network.flows.iter().zip(&shape.units);
        let mut weights: Vec<f64> = weights
            .map(|(flow, unit)| flow.weight * unit.powf(1.0 - a))
            .collect();
        let mean_weight = weights.iter().sum::<f64>() / weights.len() as f64;
        weights.iter_mut().for_each(|weight| *weight /= mean_weight);
        Programmes {
            shape,
            weights,
            mean_weight,
        }
    }

    /// The whole programme at once. Beside the rates there is, where the utility is not linear, a bound `t_s` per flow that a cone keeps below it.
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
        let mut cost = vec![0.0; self.shape.routes];
        let mut bends = Vec::new();
        for (s, own) in self.shape.own.iter().enumerate() {
            let y = totals[s] / self.shape.units[s];
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
        self.shape.constrain(network, &mut program);
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

//! How far an allocation can be from the optimum.

use crate::network::Network;

/// How far an allocation can be from the optimum, computed from its rates and prices alone: whoever
/// found them needn't be trusted.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Certificate {
    /// The duality gap: prices bound the utility of every possible sharing, and that bound is so
    /// far above what the rates reach. Relative, in units of `Σ α_s y_s^(1−a)`: for throughput a
    /// share of it, for log of `Σ α_s`. For max-min, the largest relative gap of its linear
    /// programmes.
    pub gap: f64,
    /// The largest violation of the Karush-Kuhn-Tucker conditions: marginal utilities against the
    /// cheapest route's price, and rates on dearer routes, both relative to the marginal utility;
    /// prices of links with room, relative to all that is paid. For max-min it is `gap`.
    pub residual: f64,
}

impl Certificate {
    /// For rates in bits/s that are within bounds, and prices per bit/s.
    pub(super) fn of(network: &Network, a: f64, rates: &[f64], prices: &[f64]) -> Self {
        let totals = network.totals(rates);
        let route_prices = network.route_prices(prices);
        let mut cheapest = vec![f64::INFINITY; network.flows.len()];
        let mut ceiling = vec![0.0; network.flows.len()];
        for ((flow, route), &price) in network.routes().zip(&route_prices) {
            cheapest[flow] = price.min(cheapest[flow]);
            let narrowest = route.links.iter().map(|&l| network.links[l].capacity);
            ceiling[flow] += narrowest.fold(f64::INFINITY, f64::min);
        }

        let paid = network.links.iter().zip(prices);
        let mut gap: f64 = paid.map(|(link, price)| link.capacity * price).sum();
        let (mut scale, mut residual) = (0.0, 0.0f64);
        for (s, flow) in network.flows.iter().enumerate() {
            let (y, price) = (totals[s], cheapest[s]);
            let most = flow.demand.map_or(ceiling[s], |m| ceiling[s].min(m));
            let wanted = wanted(flow.weight, a, price).min(most);
            gap += flow.weight * (utility(wanted, a) - utility(y, a)) - wanted * price;
            scale += flow.weight * y.powf(1.0 - a);
            let marginal = flow.weight * y.powf(-a);
            let mut off = 1.0 - price / marginal;
            if flow.demand.is_some_and(|m| y >= m * (1.0 - 1e-9)) {
                // A flow that has all it wants may pay less.
                off = off.min(0.0);
            }
            residual = residual.max(off.abs());
        }
        for (((flow, _), &price), &rate) in network.routes().zip(&route_prices).zip(rates) {
            let y = totals[flow];
            let marginal = network.flows[flow].weight * y.powf(-a);
            residual = residual.max(rate / y * (price - cheapest[flow]) / marginal);
        }
        let loads = network.loads(rates);
        for ((link, load), price) in network.links.iter().zip(loads).zip(prices) {
            let room = link.capacity - load;
            residual = residual.max(room * price / scale);
        }
        Certificate {
            gap: gap / scale,
            residual,
        }
    }
}

/// `y^(1−a)/(1−a)`, or its logarithmic limit.
pub(super) fn utility(y: f64, a: f64) -> f64 {
    if a == 1.0 {
        y.ln()
    } else {
        y.powf(1.0 - a) / (1.0 - a)
    }
}

/// The rate at which the marginal utility is this price.
fn wanted(weight: f64, a: f64, price: f64) -> f64 {
    match a {
        0.0 if weight > price => f64::INFINITY,
        0.0 => 0.0,
        _ => (weight / price).powf(1.0 / a),
    }
}

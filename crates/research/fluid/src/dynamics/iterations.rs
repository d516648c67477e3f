//! wVegas by steps, as the paper has it: eq. (11)-(12), and Algorithm 1.

use crate::network::{InvalidNetwork, Network};

/// Rates and prices after a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Iterate {
    /// Rate of each route in bits/s, in the order of [`Network::routes`].
    pub rates: Vec<f64>,
    /// Price `λ_l` of each link, in the utility's unit per bit/s.
    pub prices: Vec<f64>,
}

/// The step sizes of eq. (11)-(12), without dimensions: rates and prices are taken in units of
/// about what they will be, so that the same steps suit any network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Steps {
    /// `θ`, of rates; in Algorithm 1, which has none, it is only the step of rates on routes whose
    /// price is 0.
    pub theta: f64,
    /// `γ`, of prices.
    pub gamma: f64,
}

/// Where iterations begin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Start<'a> {
    /// Rate of each route in bits/s, positive.
    pub rates: &'a [f64],
    /// Price of each link, without dimensions as [`Steps`] are: 1 is about what prices come to.
    pub price: f64,
}

/// Eq. (11)-(12) of Cao et al. with `U_s = α_s log y_s`, `α_s` being the flows' weights: `x_r ←
/// [x_r + θ (α_s/y_s − q_r)]⁺`, then `λ_l ← [λ_l − γ (c_l − y_l)]⁺` at the new rates. Every step is
/// kept.
///
/// It converges if the steps are small enough. Where several splits of a flow are as good, which
/// one it ends at depends on where it begins, or it goes round them.
///
/// # Errors
/// What is wrong with the network, or that a rate for each route is needed.
pub fn approximate(
    network: &Network,
    start: &Start<'_>,
    (steps, count): (Steps, usize),
) -> Result<Vec<Iterate>, InvalidNetwork> {
    iterate(network, start, (steps, count), |x, price| {
        (x.rate + steps.theta * (x.expected - price)).max(0.0)
    })
}

/// Algorithm 1 of Cao et al., the weight adjustment: `x_r ← k_r α_s/q_r` with `k_r = x_r/y_s`,
/// which is eq. (11) with `θ = x_r/q_r`, and `x_r + θ` on routes whose price is 0. Prices as in
/// [`approximate`].
///
/// A price just above 0 makes a rate beyond all bounds of it, so that it takes very long from
/// prices of 0, and comes to rest in some tens of steps from prices of about 1 with `γ` up to 0.2;
/// larger ones oscillate.
///
/// # Errors
/// As [`approximate`].
pub fn adjust_weights(
    network: &Network,
    start: &Start<'_>,
    (steps, count): (Steps, usize),
) -> Result<Vec<Iterate>, InvalidNetwork> {
    iterate(network, start, (steps, count), |x, price| {
        match price > 0.0 {
            true => x.rate * x.expected / price,
            false => x.rate + steps.theta,
        }
    })
}

/// What a source knows of a route, without dimensions.
struct Known {
    rate: f64,
    /// `U'(y_s)`, the price that it expects.
    expected: f64,
}

fn iterate(
    network: &Network,
    start: &Start<'_>,
    (steps, count): (Steps, usize),
    next: impl Fn(Known, f64) -> f64,
) -> Result<Vec<Iterate>, InvalidNetwork> {
    network.validate()?;
    let routes = network.routes().count();
    let fine = |&rate: &f64| rate > 0.0 && rate.is_finite();
    if start.rates.len() != routes || !start.rates.iter().all(fine) {
        return Err(InvalidNetwork::unnamed(format!(
            "has {routes} routes, and {} rates were given to start from: give each route a \
             positive one",
            start.rates.len()
        )));
    }
    let unit = Units::of(network);
    let mut rates: Vec<f64> = start.rates.iter().map(|rate| rate / unit.rate).collect();
    let mut prices = vec![start.price; network.links.len()];
    let mut iterates = Vec::with_capacity(count);
    for _ in 0..count {
        let totals = network.totals(&rates);
        let q = network.route_prices(&prices);
        let flows: Vec<usize> = network.routes().map(|(flow, _)| flow).collect();
        for ((rate, flow), q) in rates.iter_mut().zip(flows).zip(q) {
            let weight = network.flows[flow].weight / unit.weight;
            let known = Known {
                rate: *rate,
                // A flow that sends nothing at all expects more than any price.
                expected: weight / totals[flow].max(LEAST),
            };
            *rate = next(known, q).min(MOST);
        }
        let links = network.links.iter().zip(network.loads(&rates));
        for (price, (link, load)) in prices.iter_mut().zip(links) {
            *price = (*price - steps.gamma * (link.capacity / unit.rate - load)).max(0.0);
        }
        iterates.push(Iterate {
            rates: rates.iter().map(|rate| rate * unit.rate).collect(),
            prices: prices
                .iter()
                .map(|price| price * unit.weight / unit.rate)
                .collect(),
        });
    }
    Ok(iterates)
}

/// A rate without dimensions that counts as nothing.
const LEAST: f64 = 1e-3;

/// Rates without dimensions don't exceed this, however small a price is.
const MOST: f64 = 1e9;

/// What makes rates and prices about 1.
struct Units {
    /// bits/s.
    rate: f64,
    /// Of utility.
    weight: f64,
}

impl Units {
    fn of(network: &Network) -> Self {
        let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
        Units {
            rate: mean(network.rough_shares(1.0)),
            weight: mean(network.flows.iter().map(|flow| flow.weight).collect()),
        }
    }
}

//! What a network would share out at best: rates that maximise a utility, with prices and a
//! certificate.
//!
//! `maximise Σ_s α_s U(y_s)` with `y = B x ≤ m`, `A x ≤ c`, `x ≥ 0`: NUM, problem (1) of Cao et
//! al., with demands `m`; for [`Utility::Throughput`] the linear programme P of the overlay paper.
//! An interior-point method of our own solves it, and `clarabel` the linear programmes of
//! throughput and max-min. Our own [`Certificate`] judges what comes out.
//!
//! ```
//! use manyway_fluid::optimum::{self, Utility};
//! use manyway_fluid::{Flow, Link, Network, Route};
//!
//! let route = |name: &str, links: &[usize]| Route {
//!     name: name.into(),
//!     links: links.into(),
//!     rtt: 0.1,
//!     packet: 8000.0,
//! };
//! let flow = |name: &str, routes: Vec<Route>| Flow {
//!     name: name.into(),
//!     weight: 1.0,
//!     demand: None,
//!     routes,
//! };
//! let network = Network {
//!     links: vec![
//!         Link { name: "top".into(), capacity: 6e6 },
//!         Link { name: "bottom".into(), capacity: 9e6 },
//!     ],
//!     flows: vec![
//!         flow("1", vec![route("top", &[0])]),
//!         flow("2", vec![route("top", &[0]), route("bottom", &[1])]),
//!         flow("3", vec![route("bottom", &[1])]),
//!     ],
//! };
//! // Fig. 1(a) of Cao et al.: 1 Mbps and 4 Mbps for flow 2.
//! let best = optimum::solve(&network, Utility::Log)?;
//! assert!((best.rates[1] / 1e6 - 1.0).abs() < 1e-4 && (best.rates[2] / 1e6 - 4.0).abs() < 1e-4);
//! assert!(best.certificate.gap < 1e-6);
//! # Ok::<(), optimum::OptimumError>(())
//! ```

use std::fmt;
use std::str::FromStr;

use crate::network::{InvalidNetwork, Network};
use alike::Alike;
pub use certificate::Certificate;
pub use overlay::over_relays;
pub use weights::{Iterate, reweight, weight_allocation};

mod alike;
mod certificate;
mod concave;
mod factor;
mod interior;
mod max_min;
mod overlay;
mod program;
mod shape;
mod weights;

/// Relative gaps up to this count as solved.
const SOLVED: f64 = 1e-6;

/// What to maximise over the flows' rates `y_s`.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum Utility {
    /// `Σ α_s y_s`.
    Throughput,
    /// `Σ α_s log y_s`: proportional fairness, the utility of wVegas.
    Log,
    /// `Σ α_s y_s^(1−a)/(1−a)` for this `a > 0`; 1 is [`Log`](Self::Log), more is more equal.
    AlphaFair(f64),
    /// The largest least `y_s/α_s`, then the largest second least, and so on.
    MaxMin,
}

impl Utility {
    /// `a` of the α-fair family; `None` for max-min.
    pub fn exponent(self) -> Option<f64> {
        match self {
            Utility::Throughput => Some(0.0),
            Utility::Log => Some(1.0),
            Utility::AlphaFair(a) => Some(a),
            Utility::MaxMin => None,
        }
    }
}

impl fmt::Display for Utility {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Utility::Throughput => f.write_str("throughput"),
            Utility::Log => f.write_str("log"),
            Utility::AlphaFair(a) => write!(f, "alpha={a}"),
            Utility::MaxMin => f.write_str("max-min"),
        }
    }
}

impl FromStr for Utility {
    type Err = InvalidUtility;

    fn from_str(text: &str) -> Result<Self, InvalidUtility> {
        match text {
            "throughput" => return Ok(Utility::Throughput),
            "log" => return Ok(Utility::Log),
            "max-min" => return Ok(Utility::MaxMin),
            _ => {}
        }
        let exponent = text.strip_prefix("alpha=").and_then(|a| a.parse().ok());
        match exponent {
            Some(a) if a > 0.0 && a <= 20.0 => Ok(Utility::AlphaFair(a)),
            _ => Err(InvalidUtility(text.chars().take(64).collect())),
        }
    }
}

/// A utility that isn't known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown utility {0:?}: choose log, alpha=NUMBER (more than 0, at most 20), max-min or \
     throughput"
)]
pub struct InvalidUtility(pub String);

/// How a network is shared out.
#[derive(Clone, Debug, PartialEq)]
pub struct Allocation {
    /// Rate of each route in bits/s, in the order of [`Network::routes`]; within all capacities and
    /// demands exactly. Where several splits are as good, it is one of them; the flows' totals are
    /// unique for strictly concave utilities.
    pub rates: Vec<f64>,
    /// Price of each link: by how much the utility grows per bit/s of capacity. For
    /// [`Utility::MaxMin`], of the first level that the link limits, by how much that level grows.
    pub prices: Vec<f64>,
    /// How far it can be from the optimum.
    pub certificate: Certificate,
}

/// Why there is no optimum.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum OptimumError {
    /// The network can't be computed with.
    #[error(transparent)]
    Network(#[from] InvalidNetwork),
    /// As many weights as routes are needed, all positive.
    #[error("{given} weights for {routes} routes: give each route a positive one")]
    Weights {
        /// How many were given.
        given: usize,
        /// How many routes there are.
        routes: usize,
    },
    /// More links share routes, directly or by way of others, than there is memory for.
    #[error(
        "routes join too many of the {links} links: at most some 10000 may all depend on each \
         other; leave out links that can't be bottlenecks"
    )]
    TooMeshed {
        /// The links that routes use.
        links: usize,
    },
    /// The solver came no nearer.
    #[error(
        "the solver stopped with {status} at a relative gap of {gap:.1e}: scale capacities or \
         weights so that they differ less"
    )]
    Unsolved {
        /// What the solver says.
        status: String,
        /// The gap of the best it has.
        gap: f64,
    },
}

/// Shares out a network. Flows that differ in nothing but their names are solved as one, and have
/// equal rates.
///
/// # Errors
/// [`OptimumError`] if the network is invalid, or if the solver doesn't come within a relative gap
/// of 1e-6.
pub fn solve(network: &Network, utility: Utility) -> Result<Allocation, OptimumError> {
    network.validate()?;
    let alike = Alike::of(network, utility);
    let few = match alike.is_whole() {
        true => network,
        false => &alike.network,
    };
    let mut best = match utility.exponent() {
        Some(a) => concave::solve(few, a)?,
        None => max_min::solve(few)?,
    };
    if !alike.is_whole() {
        best.rates = alike.share_out(&best.rates);
        // Sums of parts are a little off.
        into_bounds(network, &mut best.rates);
    }
    Ok(best)
}

/// Takes rates back into capacities and demands, by no more than they exceed them.
fn into_bounds(network: &Network, rates: &mut [f64]) {
    for rate in rates.iter_mut() {
        *rate = rate.max(0.0);
    }
    let totals = network.totals(rates);
    for ((flow, _), rate) in network.routes().zip(rates.iter_mut()) {
        if let Some(demand) = network.flows[flow].demand {
            *rate *= (demand / totals[flow]).min(1.0);
        }
    }
    let excess: Vec<f64> = network
        .loads(rates)
        .iter()
        .zip(&network.links)
        .map(|(load, link)| (load / link.capacity).max(1.0))
        .collect();
    for ((_, route), rate) in network.routes().zip(rates.iter_mut()) {
        *rate /= route.links.iter().map(|&l| excess[l]).fold(1.0, f64::max);
    }
}

#[cfg(test)]
mod tests;

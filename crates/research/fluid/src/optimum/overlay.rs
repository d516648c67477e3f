//! The optimum of the overlay paper: sources, relays and one destination.

use super::{Allocation, OptimumError, Utility, solve};
use crate::{Flow, Link, Network, Route};

/// Problem P of the overlay paper for sources that send to one destination through relays: the
/// largest sum of rates with each source's within its demand and each relay's within its bandwidth.
/// Rates are in the order of the sources, and of each source's relays in `selection`, which counts
/// them from 0.
///
/// ```
/// // Two sources of 6 Mbps, the first over relay 0 only, the second also over relay 1.
/// let best = manyway_fluid::optimum::over_relays(&[6e6, 4e6], &[6e6, 6e6], &[vec![0], vec![0, 1]])?;
/// assert!((best.rates.iter().sum::<f64>() - 10e6).abs() < 10.0);
/// # Ok::<(), manyway_fluid::optimum::OptimumError>(())
/// ```
///
/// # Errors
/// [`OptimumError`] if a number is out of range, a source has no relay or one that isn't there, or
/// no solution is found.
pub fn over_relays(
    bandwidths: &[f64],
    demands: &[f64],
    selection: &[Vec<usize>],
) -> Result<Allocation, OptimumError> {
    let link = |(index, &capacity): (usize, &f64)| Link {
        name: format!("relay {}", index + 1),
        capacity,
    };
    // Round trips and packets make no difference to it.
    let route = |&relay: &usize| Route {
        name: format!("relay {}", relay + 1),
        links: vec![relay],
        rtt: 0.1,
        packet: 8000.0,
    };
    let flow = |(source, (relays, &demand)): (usize, (&Vec<usize>, &f64))| Flow {
        name: format!("source {}", source + 1),
        weight: 1.0,
        demand: Some(demand),
        routes: relays.iter().map(route).collect(),
    };
    let network = Network {
        links: bandwidths.iter().enumerate().map(link).collect(),
        flows: selection
            .iter()
            .zip(demands)
            .enumerate()
            .map(flow)
            .collect(),
    };
    solve(&network, Utility::Throughput)
}

//! The linear programme, to compare with.

use manyway_fluid::optimum::{Utility, solve};
use manyway_fluid::{Flow, Link, Network, Route};

use super::Overlay;

/// Rates of all paths whose sum is largest: problem P of the overlay paper.
pub(super) fn largest(overlay: &Overlay, selection: &[Vec<usize>]) -> Vec<f64> {
    let links = overlay.relays.iter().map(|&capacity| Link {
        name: String::new(),
        capacity,
    });
    let route = |&relay: &usize| Route {
        name: String::new(),
        links: vec![relay],
        rtt: 0.1,
        packet: 8000.0,
    };
    let flow = |(relays, &demand): (&Vec<usize>, &f64)| Flow {
        name: String::new(),
        weight: 1.0,
        demand: Some(demand),
        routes: relays.iter().map(route).collect(),
    };
    let network = Network {
        links: links.collect(),
        flows: selection.iter().zip(&overlay.demands).map(flow).collect(),
    };
    solve(&network, Utility::Throughput).unwrap().rates
}

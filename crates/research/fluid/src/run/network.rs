//! The network of an epoch, with one flow for each class.

use std::collections::HashMap;

use manyway_scenario::Experiment;
use manyway_units::Time;

use super::classes::Class;
use crate::network::{Link, Network};

/// An epoch's network with one flow for each class: what it sends counts as often as there are
/// members.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Reduced {
    /// Packets of routes are as large as those of all members together, so that rates stay those of
    /// one; private links have room for all of them. A flow's weight is the number of members.
    pub(super) network: Network,
    /// The class of each of its flows.
    pub(super) classes: Vec<usize>,
    /// Class and index of the path in the flow, of each route.
    pub(super) subflows: Vec<(usize, usize)>,
    /// Bits of a packet of each route.
    pub(super) packets: Vec<f64>,
    /// Random loss on each route.
    pub(super) losses: Vec<f64>,
    /// How many of the network's links, the first ones, have names of the experiment.
    pub(super) named: usize,
}

impl Reduced {
    pub(super) fn at(experiment: &Experiment, classes: &[Class], now: Time) -> Self {
        let firsts = classes
            .iter()
            .map(|class| experiment.flows[class.members[0]].clone());
        let reduced = Experiment {
            flows: firsts.collect(),
            ..experiment.clone()
        };
        let by_name: HashMap<&str, usize> = reduced
            .flows
            .iter()
            .enumerate()
            .map(|(class, flow)| (flow.name.as_str(), class))
            .collect();
        let mut found = Reduced {
            network: Network::at(&reduced, now),
            classes: Vec::new(),
            subflows: Vec::new(),
            packets: Vec::new(),
            losses: Vec::new(),
            named: experiment.topology.links.len(),
        };
        let Network { links, flows } = &mut found.network;
        for flow in flows {
            let class = by_name[flow.name.as_str()];
            let size = classes[class].size();
            found.classes.push(class);
            flow.weight = size;
            let demand = flow.demand.take();
            if let Some(demand) = demand {
                links.push(Link {
                    name: format!("{}/application", flow.name),
                    capacity: demand * size,
                });
            }
            for route in &mut flow.routes {
                let spec = &reduced.flows[class];
                let path = |&path: &usize| reduced.topology.paths[path].name == route.name;
                let path = spec.paths.iter().position(path);
                found.subflows.push((class, path.unwrap_or(0)));
                found.packets.push(route.packet);
                let kept = |&link: &usize| match reduced.topology.links.get(link) {
                    Some(link) => 1.0 - link.config.loss.mean(),
                    None => 1.0 - spec.access.as_ref().map_or(0.0, |link| link.loss.mean()),
                };
                found
                    .losses
                    .push(1.0 - route.links.iter().map(kept).product::<f64>());
                for &link in route.links.iter().filter(|&&link| link >= found.named) {
                    links[link].capacity *= size;
                }
                if demand.is_some() {
                    route.links.push(links.len() - 1);
                }
                route.packet *= size;
            }
        }
        found
    }

    /// The share of each route's packets that wires don't lose. What queues drop isn't carried:
    /// where a link is full, rates are what it carries.
    pub(super) fn kept(&self) -> Vec<f64> {
        self.losses.iter().map(|loss| 1.0 - loss).collect()
    }

    /// Rates of all routes in bits/s, each that of one flow.
    pub(super) fn bits(&self, rates: &[f64]) -> Vec<f64> {
        rates
            .iter()
            .zip(&self.packets)
            .map(|(x, packet)| x * packet)
            .collect()
    }

    /// What belongs to the experiment's own links.
    pub(super) fn named(&self, of_links: &[f64]) -> Vec<f64> {
        of_links[..self.named].to_vec()
    }
}

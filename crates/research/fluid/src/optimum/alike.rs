//! Flows that differ in nothing but their names, taken as one.

use std::collections::HashMap;

use super::Utility;
use crate::network::{Flow, Network};

/// A network with one flow in the place of each set of `n` flows that have the same weight, demand
/// and links.
///
/// Utilities are concave, so an optimum stays one when such flows change places, and so does the
/// mean of all these: they may have equal rates. Together they have `n α U(y/n)` of a rate `y`,
/// which is one flow's utility by the weight `α n^a`, or `α n` where shares count per weight
/// ([`Utility::MaxMin`]). A link's price is the same in both networks.
pub(super) struct Alike {
    /// Its flows have their first member's name.
    pub(super) network: Network,
    /// For each of its flows, how many it stands for.
    members: Vec<f64>,
    /// For each flow of the whole network, who stands for it.
    flows: Vec<usize>,
}

/// What flows that are alike have in common.
#[derive(PartialEq, Eq, Hash)]
struct Key<'a> {
    weight: u64,
    demand: Option<u64>,
    routes: Vec<&'a [usize]>,
}

impl<'a> Key<'a> {
    fn of(flow: &'a Flow) -> Self {
        Key {
            weight: flow.weight.to_bits(),
            demand: flow.demand.map(f64::to_bits),
            routes: flow.routes.iter().map(|route| &route.links[..]).collect(),
        }
    }
}

impl Alike {
    pub(super) fn of(whole: &Network, utility: Utility) -> Self {
        let mut known = HashMap::new();
        let mut members: Vec<f64> = Vec::new();
        let mut network = Network {
            links: whole.links.clone(),
            flows: Vec::new(),
        };
        let flows = whole.flows.iter().map(|flow| {
            let number = *known.entry(Key::of(flow)).or_insert(members.len());
            if number == members.len() {
                members.push(0.0);
                network.flows.push(flow.clone());
            }
            members[number] += 1.0;
            number
        });
        let flows = flows.collect();
        for (flow, count) in network.flows.iter_mut().zip(&members) {
            flow.weight *= count.powf(utility.exponent().unwrap_or(1.0));
            flow.demand = flow.demand.map(|demand| demand * count);
        }
        Alike {
            network,
            members,
            flows,
        }
    }

    /// Whether no two flows are alike.
    pub(super) fn is_whole(&self) -> bool {
        self.flows.len() == self.members.len()
    }

    /// The rates of the whole network's routes by those of this one: all members have equal parts.
    pub(super) fn share_out(&self, rates: &[f64]) -> Vec<f64> {
        let mut rest = rates;
        let mut own = Vec::with_capacity(self.members.len());
        for flow in &self.network.flows {
            let (routes, others) = rest.split_at(flow.routes.len());
            own.push(routes);
            rest = others;
        }
        let parts = self.flows.iter().flat_map(|&number| {
            let members = self.members[number];
            own[number].iter().map(move |rate| rate / members)
        });
        parts.collect()
    }
}

//! The paper's networks, as fluid models.

use crate::law::FluidLaw;
use crate::model::Model;
use crate::network::{Flow, Link, Network, Route};
use manyway_control::laws::{AnyLaw, Reno};

/// Bits of every packet.
pub(super) const PACKET: f64 = 12_000.0;

/// Fig. 1 of Peng et al.: a source whose paths all pass one bottleneck, beside a single-path Reno
/// flow. All other links are wider.
#[derive(Clone, Debug, PartialEq)]
pub struct Fig1 {
    /// The bottleneck, packets/s.
    pub capacity: f64,
    /// Round-trip times of the source's paths, s.
    pub rtts: Vec<f64>,
    /// The Reno flow's.
    pub reno_rtt: f64,
    /// How much wider the other links are.
    pub wider: f64,
}

impl Fig1 {
    /// The model with this law on the source. Routes are the source's, then the Reno flow's.
    pub fn model(&self, law: FluidLaw) -> Model {
        let mut links = vec![link("bottleneck", self.capacity)];
        let mut route = |rtt: f64| {
            links.push(link("access", self.wider * self.capacity));
            self::route(vec![links.len() - 1, 0], rtt)
        };
        let routes = self.rtts.iter().map(|rtt| route(*rtt)).collect();
        let single = vec![route(self.reno_rtt)];
        let flows = vec![flow("source", routes), flow("reno", single)];
        model(
            links,
            flows,
            vec![law, FluidLaw::Window(AnyLaw::Reno(Reno))],
        )
    }
}

/// Fig. 2 of Peng et al.: one source over two links, and Reno flows on the second.
#[derive(Clone, Debug, PartialEq)]
pub struct Fig2 {
    /// Both links', packets/s.
    pub capacity: f64,
    /// All round-trip times, s.
    pub rtt: f64,
    /// Reno flows on the second link.
    pub reno: usize,
}

impl Fig2 {
    /// The model with this law on the source. Routes are the source's two, then the Reno flows'.
    pub fn model(&self, law: FluidLaw) -> Model {
        let links = vec![link("first", self.capacity), link("second", self.capacity)];
        let both = vec![route(vec![0], self.rtt), route(vec![1], self.rtt)];
        let mut flows = vec![flow("source", both)];
        flows.extend((0..self.reno).map(|_| flow("reno", vec![route(vec![1], self.rtt)])));
        let mut laws = vec![law];
        laws.resize(flows.len(), FluidLaw::Window(AnyLaw::Reno(Reno)));
        model(links, flows, laws)
    }
}

/// A source alone with a link for each path: its rates are the links' capacities.
#[cfg(test)]
pub(super) fn alone(capacities: &[f64], rtts: &[f64], law: FluidLaw) -> Model {
    let links = capacities.iter().map(|c| link("own", *c)).collect();
    let routes = rtts.iter().enumerate().map(|(l, rtt)| route(vec![l], *rtt));
    model(links, vec![flow("source", routes.collect())], vec![law])
}

fn link(name: &str, packets: f64) -> Link {
    Link {
        name: name.to_owned(),
        capacity: packets * PACKET,
    }
}

fn route(links: Vec<usize>, rtt: f64) -> Route {
    Route {
        name: String::new(),
        links,
        rtt,
        packet: PACKET,
    }
}

fn flow(name: &str, routes: Vec<Route>) -> Flow {
    Flow {
        name: name.to_owned(),
        weight: 1.0,
        demand: None,
        routes,
    }
}

fn model(links: Vec<Link>, flows: Vec<Flow>, laws: Vec<FluidLaw>) -> Model {
    Model::new(Network { links, flows }, laws).expect("a network of positive capacities and delays")
}

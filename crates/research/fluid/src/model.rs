//! Flows with laws on a network.

use nalgebra::DMatrix;

use crate::law::FluidLaw;
use crate::network::{InvalidNetwork, Network, Route};

/// Flows with laws on a network: the system (3)-(4) of Peng et al., `ẋ_r = k_r (φ_r − q_r)⁺`, `ṗ_l
/// = γ_l (y_l − c_l)⁺`, with `q_r` the sum of the prices on route r and `y_l` the load of link l.
///
/// Rates are in packets/s of the route's own packets, prices are loss probabilities, loads and
/// capacities bits/s. Demands are left out: a window law knows none.
#[derive(Clone, Debug)]
pub struct Model {
    network: Network,
    laws: Vec<FluidLaw>,
    /// Loss of each route that is not for lack of capacity.
    losses: Vec<f64>,
}

/// What is typical of a link.
pub(crate) struct Pace {
    /// Price of a route over it, loss probability.
    pub(crate) price: f64,
    /// Time constant of windows, seconds.
    pub(crate) time: f64,
}

impl Model {
    /// A model of one law per flow.
    ///
    /// # Errors
    /// What is wrong with the network, or that there are not as many laws as flows.
    pub fn new(network: Network, laws: Vec<FluidLaw>) -> Result<Self, InvalidNetwork> {
        network.validate()?;
        if laws.len() != network.flows.len() {
            return Err(InvalidNetwork::unnamed(format!(
                "has {} flows, but {} laws were given: give each flow one",
                network.flows.len(),
                laws.len()
            )));
        }
        Ok(Model {
            losses: vec![0.0; network.routes().count()],
            network,
            laws,
        })
    }

    /// The same with loss probabilities of routes that nobody's rate changes, such as those of
    /// radio links, one for each of [`Network::routes`]: they are added to `q_r`.
    #[must_use]
    pub fn with_losses(mut self, losses: Vec<f64>) -> Self {
        assert_eq!(
            losses.len(),
            self.losses.len(),
            "a loss probability for each route"
        );
        self.losses = losses;
        self
    }

    /// `q_r` of all routes at these prices: what their links ask for, and their own loss.
    pub fn route_prices(&self, prices: &[f64]) -> Vec<f64> {
        let mut q = self.network.route_prices(prices);
        for (q, loss) in q.iter_mut().zip(&self.losses) {
            *q += loss;
        }
        q
    }

    /// The network.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The flows' laws.
    pub fn laws(&self) -> &[FluidLaw] {
        &self.laws
    }

    /// Link gains `γ_l`, in loss probability per bit, with which prices are about as fast as
    /// sources: `p̂/(c T)`, `p̂` being what the loss of the link's routes is at about equal shares
    /// and `T = w τ/2` the time constant of their windows. Equal Reno flows on one link have a
    /// damping ratio of 1/√2 with it.
    pub fn gains(&self) -> Vec<f64> {
        let paces = self.paces().into_iter().zip(&self.network.links);
        paces
            .map(|(pace, link)| pace.price / (link.capacity * pace.time))
            .collect()
    }

    /// What prices and times are around on each link: means over its routes at about equal shares,
    /// weighted by rates.
    pub(crate) fn paces(&self) -> Vec<Pace> {
        let rates = self.rough_rates();
        let phis = self.phis(&rates);
        let mut sums = vec![(0.0, 0.0, 0.0); self.network.links.len()];
        for (((_, route), x), phi) in self.network.routes().zip(&rates).zip(&phis) {
            for &link in &route.links {
                let (load, price, time) = &mut sums[link];
                *load += x * route.packet;
                *price += x * route.packet * phi / route.links.len() as f64;
                *time += x * route.packet * x * route.rtt * route.rtt / 2.0;
            }
        }
        let pace = |(load, price, time): (f64, f64, f64)| match load > 0.0 {
            true => Pace {
                price: price / load,
                time: time / load,
            },
            // Nobody is there to be slow.
            false => Pace {
                price: 1.0,
                time: 1.0,
            },
        };
        sums.into_iter().map(pace).collect()
    }

    /// What prices come to at about equal shares: on each link, what the routes want for which it
    /// is the narrowest. Something to start from.
    pub(crate) fn rough_prices(&self) -> Vec<f64> {
        let rates = self.rough_rates();
        let phis = self.phis(&rates);
        let room = self.network.room(|flow| self.network.flows[flow].weight);
        let mut sums = vec![(0.0, 0.0); room.len()];
        for (((_, route), x), phi) in self.network.routes().zip(&rates).zip(&phis) {
            let by_room = |a: &&usize, b: &&usize| room[**a].total_cmp(&room[**b]);
            if let Some(&narrowest) = route.links.iter().min_by(by_room) {
                sums[narrowest].0 += x * route.packet * phi;
                sums[narrowest].1 += x * route.packet;
            }
        }
        sums.into_iter()
            .map(|(price, load)| if load > 0.0 { price / load } else { 0.0 })
            .collect()
    }

    /// The highest price at which each link is full: as if its routes had no other link and no
    /// other path, as loss or other routes only take rate away from it. Laws of a single path have
    /// `φ ∝ 1/x²`, so that the root of the price is the mean of `√φ` at equal shares, by load. A
    /// probability, so at most 1; also where no route is.
    pub(crate) fn full_prices(&self) -> Vec<f64> {
        let weight = |flow: usize| self.network.flows[flow].weight;
        let room = self.network.room(weight);
        let mut roots = vec![0.0; room.len()];
        for (flow, route) in self.network.routes() {
            for &link in &route.links {
                let load = room[link] * weight(flow);
                let alone = self.laws[flow].phis(&[load / route.packet], &[route.rtt]);
                roots[link] += load / self.network.links[link].capacity * alone[0].sqrt();
            }
        }
        let price = |root: f64| match root > 0.0 {
            true => (root * root).min(1.0),
            false => 1.0,
        };
        roots.into_iter().map(price).collect()
    }

    /// About equal shares of the narrowest link on each route, in packets/s: something to start
    /// from.
    pub(crate) fn rough_rates(&self) -> Vec<f64> {
        let parts = self.network.rough_parts(1.0);
        let routes = self.network.routes().zip(parts).enumerate();
        let rate = |(r, ((_, route), part)): (usize, ((usize, &Route), f64))| {
            (part / route.packet).min(self.most(r, route))
        };
        routes.map(rate).collect()
    }

    /// What Reno has at a route's own loss, in packets/s.
    pub(crate) fn most(&self, r: usize, route: &Route) -> f64 {
        (2.0 / self.losses[r]).sqrt() / route.rtt
    }

    /// `φ` of all routes at these rates.
    pub fn phis(&self, rates: &[f64]) -> Vec<f64> {
        self.per_flow(rates, |law, rates, rtts| law.phis(rates, rtts))
            .into_iter()
            .flat_map(|phis| phis.as_slice().to_vec())
            .collect()
    }

    /// `∂Φ/∂x` of all routes at these rates: a block for each flow.
    pub fn jacobian(&self, rates: &[f64]) -> DMatrix<f64> {
        let mut whole = DMatrix::zeros(rates.len(), rates.len());
        let mut at = 0;
        for block in self.per_flow(rates, |law, rates, rtts| law.jacobian(rates, rtts)) {
            let n = block.nrows();
            whole.view_mut((at, at), (n, n)).copy_from(&block);
            at += n;
        }
        whole
    }

    fn per_flow<T>(&self, rates: &[f64], of: impl Fn(&FluidLaw, &[f64], &[f64]) -> T) -> Vec<T> {
        let mut rest = rates;
        let flows = self.network.flows.iter().zip(&self.laws);
        flows
            .map(|(flow, law)| {
                let (own, others) = rest.split_at(flow.routes.len());
                rest = others;
                let rtts: Vec<f64> = flow.routes.iter().map(|route| route.rtt).collect();
                of(law, own, &rtts)
            })
            .collect()
    }
}

use nalgebra::{DMatrix, DVector};

use crate::law::FluidLaw;
use crate::network::{InvalidNetwork, Network};

/// Flows with laws on a network: the system (3)-(4) of Peng et al., `ẋ_r = k_r (φ_r − q_r)⁺`, `ṗ_l = γ_l (y_l − c_l)⁺`, with `q_r` the sum of the prices on route r and
/// `y_l` the load of link l.
///
/// Rates are in packets/s of the route's own packets, prices are loss probabilities, loads and capacities bits/s. Demands are left out: a window law knows none.
#[derive(Clone, Debug)]
pub struct Model {
    network: Network,
    laws: Vec<FluidLaw>,
}

/// Where a model rests: `φ_r ≤ q_r`, with equality where `x_r > 0`; `y_l ≤ c_l`, with equality where `p_l > 0` (eq. (8)-(9)).
#[derive(Clone, Debug, PartialEq)]
pub struct Equilibrium {
    /// `x_r` in packets/s, in the order of [`Network::routes`].
    pub rates: Vec<f64>,
    /// `p_l`, of every link.
    pub prices: Vec<f64>,
    /// The largest violation of (8)-(9): prices over `φ`'s typical size, rates over the flow's rough share, loads over capacities.
    pub residual: f64,
    /// Whether that is as small as asked for.
    pub converged: bool,
    /// Newton steps taken.
    pub steps: usize,
}

/// Newton steps that are tried.
const STEPS: usize = 300;

/// A residual as small as this is an equilibrium.
const TOLERANCE: f64 = 1e-10;

impl Model {
    /// A model of one law per flow.
    ///
    /// # Errors
    /// What is wrong with the network, or that there are not as many laws as flows.
    pub fn new(network: Network, laws: Vec<FluidLaw>) -> Result<Self, InvalidNetwork> {
        network.validate()?;
        if laws.len() != network.flows.len() {
            return Err(InvalidNetwork {
                part: "network",
                name: String::new(),
                problem: format!(
                    "has {} flows, but {} laws were given: give each flow one",
                    network.flows.len(),
                    laws.len()
                ),
            });
        }
        Ok(Model { network, laws })
    }

    /// The network.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The flows' laws.
    pub fn laws(&self) -> &[FluidLaw] {
        &self.laws
    }

    /// An equilibrium, by a primal-dual path-following Newton method on (8)-(9) as a complementarity problem. It always ends; whether it
    /// converged, it says. For laws that meet C1-C3 there is exactly one equilibrium; for others (Coupled) it is one of several.
    pub fn equilibrium(&self) -> Equilibrium {
        let scales = Scales::of(self);
        let mut point = Point::start(&scales);
        let mut best = self.equilibrium_at(&scales, &point, 0);
        for step in 1..=STEPS {
            if !self.newton(&scales, &mut point) {
                break;
            }
            let found = self.equilibrium_at(&scales, &point, step);
            if found.residual < best.residual {
                best = found;
            }
            if best.converged {
                break;
            }
        }
        best
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

    /// The conditions (8)-(9) without dimensions: `φ − q` of routes, and load over capacity less 1 of links.
    fn imbalance(&self, scales: &Scales, point: &Point) -> (DVector<f64>, DVector<f64>) {
        let rates = scales.rates(&point.x);
        let prices: Vec<f64> = point.p.iter().map(|p| p * scales.price).collect();
        let route_prices = self.network.route_prices(&prices);
        let phis = self.phis(&rates);
        let excess = phis.iter().zip(route_prices);
        let excess = excess.map(|(phi, q)| (phi - q) / scales.price);
        let excess = DVector::from_iterator(rates.len(), excess);
        (
            excess,
            &scales.usage * &point.x - DVector::repeat(prices.len(), 1.0),
        )
    }

    fn equilibrium_at(&self, scales: &Scales, point: &Point, steps: usize) -> Equilibrium {
        let (excess, overload) = self.imbalance(scales, point);
        let mut residual = 0.0f64;
        for (x, excess) in point.x.iter().zip(&excess) {
            // Positive: the rate should grow. Negative: only a rate of 0 can rest.
            let violation = excess.max(0.0).max(-excess.min(0.0) * x.min(1.0));
            residual = residual.max(violation);
        }
        for (p, overload) in point.p.iter().zip(&overload) {
            let violation = overload.max(0.0).max(-overload.min(0.0) * p.min(1.0));
            residual = residual.max(violation);
        }
        Equilibrium {
            rates: scales.rates(&point.x),
            prices: point.p.iter().map(|p| p * scales.price).collect(),
            residual,
            converged: residual <= TOLERANCE,
            steps,
        }
    }

    /// One step towards a tenth of the present complementarity; false if the linear system is singular.
    fn newton(&self, scales: &Scales, point: &mut Point) -> bool {
        let (n, links) = (point.x.len(), point.p.len());
        let (excess, overload) = self.imbalance(scales, point);
        let target = CENTRING * point.complementarity();
        let mut matrix = DMatrix::zeros(n + links, n + links);
        let rates = scales.rates(&point.x);
        let mut block = self.jacobian(&rates);
        for (column, unit) in scales.unit.iter().enumerate() {
            block.column_mut(column).scale_mut(unit / scales.price);
        }
        for r in 0..n {
            block[(r, r)] -= point.s[r] / point.x[r];
        }
        matrix.view_mut((0, 0), (n, n)).copy_from(&block);
        matrix.view_mut((n, 0), (links, n)).copy_from(&scales.usage);
        for (r, (_, route)) in self.network.routes().enumerate() {
            for &link in &route.links {
                matrix[(r, n + link)] = -1.0;
            }
        }
        let mut right = DVector::zeros(n + links);
        for r in 0..n {
            let slack = target / point.x[r] - point.s[r];
            right[r] = -(point.s[r] + excess[r]) - slack;
        }
        for l in 0..links {
            matrix[(n + l, n + l)] = -point.t[l] / point.p[l];
            let slack = target / point.p[l] - point.t[l];
            right[n + l] = -(point.t[l] + overload[l]) - slack;
        }
        let Some(step) = matrix.lu().solve(&right) else {
            return false;
        };
        if !step.iter().all(|value| value.is_finite()) {
            return false;
        }
        point.advance(&step, target);
        true
    }
}

/// How much of the complementarity is left by a full step.
const CENTRING: f64 = 0.1;

/// Units in which rates, prices and loads are around 1.
struct Scales {
    /// Of each route's rate, packets/s.
    unit: DVector<f64>,
    /// Of prices.
    price: f64,
    /// Load over capacity of each link per unit of each route.
    usage: DMatrix<f64>,
}

impl Scales {
    fn of(model: &Model) -> Self {
        let network = &model.network;
        let shares = network.rough_shares(1.0);
        let unit = network.routes().map(|(flow, route)| {
            let routes = network.flows[flow].routes.len() as f64;
            shares[flow] / routes / route.packet
        });
        let unit = DVector::from_vec(unit.collect());
        let mut usage = DMatrix::zeros(network.links.len(), unit.len());
        for (r, (_, route)) in network.routes().enumerate() {
            for &link in &route.links {
                usage[(link, r)] = unit[r] * route.packet / network.links[link].capacity;
            }
        }
        let mut phis = model.phis(unit.as_slice());
        phis.sort_by(f64::total_cmp);
        Scales {
            price: phis[phis.len() / 2],
            unit,
            usage,
        }
    }

    fn rates(&self, x: &DVector<f64>) -> Vec<f64> {
        x.component_mul(&self.unit).as_slice().to_vec()
    }
}

/// Rates and prices with their slacks, all positive: `s = q − φ`, `t = c − y` once feasible.
struct Point {
    x: DVector<f64>,
    s: DVector<f64>,
    p: DVector<f64>,
    t: DVector<f64>,
}

impl Point {
    fn start(scales: &Scales) -> Self {
        let (n, links) = (scales.unit.len(), scales.usage.nrows());
        Point {
            x: DVector::repeat(n, 1.0),
            s: DVector::repeat(n, 1.0),
            p: DVector::repeat(links, 1.0),
            t: DVector::repeat(links, 1.0),
        }
    }

    fn complementarity(&self) -> f64 {
        (self.x.dot(&self.s) + self.p.dot(&self.t)) / (self.x.len() + self.p.len()) as f64
    }

    /// Goes along a step of (x, p), slacks following, as far as everything stays positive and no rate changes by more than its linearisation can be good for.
    fn advance(&mut self, step: &DVector<f64>, target: f64) {
        let (n, links) = (self.x.len(), self.p.len());
        let (dx, dp) = (step.rows(0, n), step.rows(n, links));
        let ds = DVector::from_fn(n, |r, _| {
            target / self.x[r] - self.s[r] - self.s[r] / self.x[r] * dx[r]
        });
        let dt = DVector::from_fn(links, |l, _| {
            target / self.p[l] - self.t[l] - self.t[l] / self.p[l] * dp[l]
        });
        let mut length = 1.0f64;
        for (x, dx) in self.x.iter().zip(dx.iter()) {
            length = length.min(0.5 * x / dx.abs().max(0.5 * x));
        }
        let rest = [(&self.s, &ds), (&self.t, &dt)];
        let rest = rest.into_iter().flat_map(|(v, dv)| v.iter().zip(dv.iter()));
        for (value, change) in rest.chain(self.p.iter().zip(dp.iter())) {
            if *change < 0.0 {
                length = length.min(-0.95 * value / change);
            }
        }
        self.x += length * dx;
        self.p += length * dp;
        self.s += length * ds;
        self.t += length * dt;
    }
}

#[cfg(test)]
mod tests;

//! Where flows with laws on a network come to rest.

use nalgebra::{DMatrix, DVector};

use crate::dynamics::{Integrator, LossModel};
use crate::model::Model;

/// Where a model rests: `φ_r ≤ q_r`, with equality where `x_r > 0`; `y_l ≤ c_l`, with equality
/// where `p_l > 0` (eq. (8)-(9)).
#[derive(Clone, Debug, PartialEq)]
pub struct Equilibrium {
    /// `x_r` in packets/s, in the order of [`Network::routes`](crate::Network::routes).
    pub rates: Vec<f64>,
    /// `p_l`, of every link.
    pub prices: Vec<f64>,
    /// The largest violation of (8)-(9): prices over `φ`'s typical size, rates over the flow's
    /// rough share, loads over capacities.
    pub residual: f64,
    /// Whether that is as small as asked for.
    pub converged: bool,
    /// How it was found.
    pub method: Method,
    /// Newton steps taken.
    pub steps: usize,
}

/// How an equilibrium was found.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Method {
    /// By Newton's method alone.
    Newton,
    /// By Newton's method from where the trajectory had come to rest.
    Trajectory,
}

/// The fallback's tolerance, and how many steps and seconds it takes at most.
const SETTLING: (f64, usize, f64) = (1e-4, 3000, 1e7);

/// What a trajectory's end has for slacks and prices that are 0 there, without dimensions.
const NEAR: f64 = 1e-6;

/// Newton steps that are tried.
const STEPS: usize = 300;

/// A residual as small as this is an equilibrium.
const TOLERANCE: f64 = 1e-10;

impl Model {
    /// An equilibrium, by a primal-dual path-following Newton method on (8)-(9) as a
    /// complementarity problem; should that fail, by following the trajectory until it rests, and
    /// Newton's method from there. It always ends; whether it converged, it says. For laws that
    /// meet C1-C3 there is exactly one equilibrium; for others (Coupled) it is one of several.
    pub fn equilibrium(&self) -> Equilibrium {
        let scales = Scales::of(self);
        let direct = self.solve(&scales, Point::start(&scales), Method::Newton);
        match direct.converged {
            true => direct,
            false => self.settled(&scales, direct),
        }
    }

    /// Newton steps from a point: the best that is met.
    fn solve(&self, scales: &Scales, mut point: Point, method: Method) -> Equilibrium {
        let mut best = self.equilibrium_at(scales, &point, (method, 0));
        for step in 1..=STEPS {
            if best.converged || !self.newton(scales, &mut point) {
                break;
            }
            let found = self.equilibrium_at(scales, &point, (method, step));
            if found.residual < best.residual {
                best = found;
            }
        }
        best
    }

    /// The better of what the direct method found and of where the trajectory leads.
    fn settled(&self, scales: &Scales, direct: Equilibrium) -> Equilibrium {
        let system = LossModel::new(self);
        let start = system.state(&self.rough_rates(), &vec![0.0; self.network().links.len()]);
        let mut integrator = Integrator::new(&system, start, SETTLING.0);
        for _ in 0..SETTLING.1 {
            if integrator.step(SETTLING.2).is_err() || integrator.time() >= SETTLING.2 {
                break;
            }
        }
        let state = integrator.state();
        let point = Point::near(scales, &system.rates(state), &system.prices(state));
        let settled = self.solve(scales, point, Method::Trajectory);
        match settled.residual < direct.residual {
            true => settled,
            false => direct,
        }
    }

    /// The conditions (8)-(9) without dimensions: `φ − q` of routes, and load over capacity less 1
    /// of links.
    fn imbalance(&self, scales: &Scales, point: &Point) -> (DVector<f64>, DVector<f64>) {
        let rates = scales.rates(&point.x);
        let prices: Vec<f64> = point.p.iter().map(|p| p * scales.price).collect();
        let route_prices = self.route_prices(&prices);
        let phis = self.phis(&rates);
        let excess = phis.iter().zip(route_prices);
        let excess = excess.map(|(phi, q)| (phi - q) / scales.price);
        let excess = DVector::from_iterator(rates.len(), excess);
        (
            excess,
            &scales.usage * &point.x - DVector::repeat(prices.len(), 1.0),
        )
    }

    fn equilibrium_at(
        &self,
        scales: &Scales,
        point: &Point,
        (method, steps): (Method, usize),
    ) -> Equilibrium {
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
            method,
            steps,
        }
    }

    /// One step towards a tenth of the present complementarity; false if the linear system is
    /// singular.
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
        for (r, (_, route)) in self.network().routes().enumerate() {
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
        let network = model.network();
        let shares = network.rough_shares(1.0);
        let unit = network.routes().enumerate().map(|(r, (flow, route))| {
            let routes = network.flows[flow].routes.len() as f64;
            (shares[flow] / routes / route.packet).min(model.most(r, route))
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

    /// A point beside what a trajectory has come to.
    fn near(scales: &Scales, rates: &[f64], prices: &[f64]) -> Self {
        let near = |value: f64| value.max(NEAR);
        let x = DVector::from_iterator(
            rates.len(),
            rates
                .iter()
                .zip(&scales.unit)
                .map(|(x, unit)| near(x / unit)),
        );
        let p = DVector::from_iterator(prices.len(), prices.iter().map(|p| near(p / scales.price)));
        let (s, t) = (x.map(|x| NEAR / x), p.map(|p| NEAR / p));
        Point { x, s, p, t }
    }

    fn complementarity(&self) -> f64 {
        (self.x.dot(&self.s) + self.p.dot(&self.t)) / (self.x.len() + self.p.len()) as f64
    }

    /// Goes along a step of (x, p), slacks following, as far as everything stays positive and no
    /// rate changes by more than its linearisation can be good for.
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

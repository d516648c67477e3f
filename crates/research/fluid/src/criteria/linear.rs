//! The linearised system around an equilibrium, and its eigenvalues.

use nalgebra::{Complex, DMatrix, DVector, Schur};

use crate::equilibrium::Equilibrium;
use crate::law::{FluidLaw, paths_at};
use crate::model::Model;

/// The system (3)-(4) around an equilibrium, `δż = J* δz` with `J* = [[Λ_k ∂Φ/∂x, −Λ_k Hᵀ], [Λ_γ H,
/// 0]]` (Peng et al., section III-E).
///
/// Links without a price and routes without traffic are left out, as they don't move.
#[derive(Clone, Debug)]
pub struct Linearisation {
    /// `J*` for `(√(B/k) x, p/√γ)`, 1/s: there the quotient's denominator is the vector's length,
    /// and what couples rates and prices is skew. `B` are bits of a packet.
    matrix: DMatrix<f64>,
    /// Rates among its variables; they come first.
    rates: usize,
    eigenvalues: Vec<Complex<f64>>,
}

/// Rates and prices that are less than this part of the largest are nothing.
const NOTHING: f64 = 1e-6;

impl Linearisation {
    /// Around this equilibrium; `gamma` is `γ_l` of every link, the change of its loss probability
    /// per bit that arrives beyond its capacity.
    ///
    /// `None` if nothing moves, or if the eigenvalues weren't found.
    pub fn of(model: &Model, equilibrium: &Equilibrium, gamma: &[f64]) -> Option<Self> {
        let network = model.network();
        let largest = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
        let price = largest(&equilibrium.prices);
        let least = NOTHING * largest(&equilibrium.rates);
        let routes: Vec<usize> = kept(&equilibrium.rates, least);
        let links: Vec<usize> = kept(&equilibrium.prices, NOTHING * price);
        let (n, m) = (routes.len(), links.len());
        if n == 0 || m == 0 {
            return None;
        }
        let gains = gains(model, &equilibrium.rates);
        let jacobian = model.jacobian(&equilibrium.rates);
        let all: Vec<_> = network.routes().map(|(_, route)| route).collect();
        let root = |r: usize| (gains[r] * all[r].packet).sqrt();
        let mut matrix = DMatrix::zeros(n + m, n + m);
        for (a, &r) in routes.iter().enumerate() {
            for (b, &j) in routes.iter().enumerate() {
                matrix[(a, b)] = root(r) * jacobian[(r, j)] * root(j) / all[j].packet;
            }
            for (b, link) in links.iter().enumerate() {
                if all[r].links.contains(link) {
                    matrix[(a, n + b)] = -root(r) * gamma[*link].sqrt();
                    matrix[(n + b, a)] = root(r) * gamma[*link].sqrt();
                }
            }
        }
        Some(Linearisation {
            eigenvalues: eigenvalues(&matrix)?,
            matrix,
            rates: n,
        })
    }

    /// All eigenvalues of `J*`, 1/s.
    pub fn eigenvalues(&self) -> &[Complex<f64>] {
        &self.eigenvalues
    }

    /// The largest real part of an eigenvalue, 1/s: near the equilibrium distances shrink as
    /// `e^{at}`.
    pub fn abscissa(&self) -> f64 {
        let parts = self.eigenvalues.iter().map(|value| value.re);
        parts.fold(f64::NEG_INFINITY, f64::max)
    }

    /// The quotient of `λ̄(J*)`, `x^H [∂Φ/∂x]⁺ x / (x^H Λ_k⁻¹ x + p^H Λ_γ⁻¹ p)`, at each
    /// eigenvector, with its eigenvalue.
    ///
    /// As printed, `λ̄` is the quotient's maximum over all vectors, which is 0 for every law: take
    /// `x = 0`. At an eigenvector the quotient is the eigenvalue's real part (the proof of Theorem
    /// III.5), so that its maximum over those is [`abscissa`](Self::abscissa).
    pub fn quotients(&self) -> Vec<(Complex<f64>, f64)> {
        let values = self.eigenvalues.iter();
        values
            .filter_map(|value| Some((*value, self.quotient(&self.eigenvector(*value)?))))
            .collect()
    }

    fn quotient(&self, vector: &DVector<Complex<f64>>) -> f64 {
        let x = vector.rows(0, self.rates);
        let damping = self.matrix.view((0, 0), (self.rates, self.rates));
        let damped = x.dotc(&(damping.map(Complex::from) * x));
        damped.re / vector.norm_squared()
    }

    /// By inverse iteration; `None` where the shifted matrix can't be solved with.
    fn eigenvector(&self, value: Complex<f64>) -> Option<DVector<Complex<f64>>> {
        let n = self.matrix.nrows();
        let scale = self.matrix.amax();
        let shift = value + Complex::new(1e-9, 1e-9) * scale;
        let mut shifted = self.matrix.map(Complex::from);
        for r in 0..n {
            shifted[(r, r)] -= shift;
        }
        let factors = shifted.lu();
        // Any start that isn't orthogonal to what is sought.
        let mut vector = DVector::from_fn(n, |r, _| Complex::new(1.0, 0.1 * (r as f64 + 1.0)));
        for _ in 0..4 {
            vector = factors.solve(&vector)?;
            let size = vector.norm();
            vector.unscale_mut(size);
        }
        vector
            .iter()
            .all(|z| z.re.is_finite() && z.im.is_finite())
            .then_some(vector)
    }
}

/// `λ̄` of a source alone, at prices that stay: the largest eigenvalue of `Λ_k^{1/2} [∂Φ/∂x]⁺
/// Λ_k^{1/2}`, 1/s, which is the quotient's maximum over `p = 0`.
///
/// In some norm distances shrink at least as fast as `e^{λ̄t}`. Theorem III.5 (2) orders it for two
/// laws at one point.
pub fn at_fixed_prices(law: &FluidLaw, rates: &[f64], rtts: &[f64]) -> f64 {
    let paths = paths_at(rates, rtts);
    let jacobian = law.jacobian(rates, rtts);
    let roots = (0..rates.len()).map(|r| law.gain(&paths, r).sqrt());
    let roots: Vec<f64> = roots.collect();
    let scaled = DMatrix::from_fn(rates.len(), rates.len(), |r, j| {
        0.5 * (jacobian[(r, j)] + jacobian[(j, r)]) * roots[r] * roots[j]
    });
    scaled.symmetric_eigenvalues().max()
}

/// QR steps.
const STEPS: usize = 1000;

/// What is less than this part of the diagonal is nothing: some roundings, as they can go round in
/// circles.
const ROUNDING: f64 = 1e-14;

/// By Schur's form of `A + σ1`: a matrix that is nearly skew has next to nothing on its diagonal,
/// and what is small beside that never gets small enough.
///
/// The library's QR steps have no exceptional shifts and can go round in circles: then other forms
/// with the same eigenvalues are tried.
fn eigenvalues(matrix: &DMatrix<f64>) -> Option<Vec<Complex<f64>>> {
    let n = matrix.nrows();
    let reversed = DMatrix::from_fn(n, n, |r, c| matrix[(n - 1 - r, n - 1 - c)]);
    // As far from any structure as roundings are: a part of 1e-13 of the largest entry.
    let blurred = matrix.map_with_location(|r, c, entry| {
        let sign = f64::from((7 * r + 11 * c + r * c) as u32 % 13) - 6.0;
        entry + 1e-14 * sign * matrix.amax()
    });
    let forms = [matrix.clone(), matrix.transpose(), reversed, blurred];
    forms.iter().find_map(|form| {
        [1.0, 2.0, 5.0].into_iter().find_map(|part| {
            let shift = part * matrix.amax();
            let shifted = form + DMatrix::identity(n, n) * shift;
            let values = Schur::try_new(shifted, ROUNDING, STEPS)?.complex_eigenvalues();
            Some(values.iter().map(|value| value - shift).collect())
        })
    })
}

fn kept(values: &[f64], least: f64) -> Vec<usize> {
    (0..values.len()).filter(|&n| values[n] > least).collect()
}

/// `k_r` of all routes.
fn gains(model: &Model, rates: &[f64]) -> Vec<f64> {
    let mut gains = Vec::with_capacity(rates.len());
    for (flow, law) in model.network().flows.iter().zip(model.laws()) {
        let own = &rates[gains.len()..gains.len() + flow.routes.len()];
        let rtts: Vec<f64> = flow.routes.iter().map(|route| route.rtt).collect();
        let paths = paths_at(own, &rtts);
        gains.extend((0..own.len()).map(|r| law.gain(&paths, r)));
    }
    gains
}

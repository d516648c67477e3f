//! A source's rates at fixed prices.

use nalgebra::{DMatrix, DVector};

use crate::law::FluidLaw;

/// A source's answer to fixed prices: rates that solve (8), `x_r ≥ 0, φ_r ≤ q_r`, with equality
/// where `x_r > 0`.
///
/// It is sought along a path of `φ_r + μ/x_r = q_r` with `μ → 0`, by Newton steps in logarithms.
/// `from` is where to begin. `None` if no solution was found, which doesn't say that there is none.
pub(super) fn response(
    law: &FluidLaw,
    rtts: &[f64],
    prices: &[f64],
    from: Option<&[f64]>,
) -> Option<Vec<f64>> {
    let starts = [from.map(<[f64]>::to_vec), Some(alone(rtts, prices))];
    let source = Source { law, rtts, prices };
    starts.into_iter().flatten().find_map(|start| {
        let mut rates = DVector::from_vec(start);
        // Without a barrier first: every law but those that leave paths has a solution inside.
        if source.newton(&mut rates, &vec![0.0; prices.len()]) {
            return Some(rates.as_slice().to_vec());
        }
        source.along_barriers(rates)
    })
}

/// What Reno would send on each path, shared out.
fn alone(rtts: &[f64], prices: &[f64]) -> Vec<f64> {
    let paths = rtts.len() as f64;
    let rate = |(tau, q): (&f64, &f64)| 2f64.sqrt() / (tau * q.sqrt()) / paths;
    rtts.iter().zip(prices).map(rate).collect()
}

struct Source<'a> {
    law: &'a FluidLaw,
    rtts: &'a [f64],
    prices: &'a [f64],
}

/// Newton steps for one barrier.
const STEPS: usize = 60;

/// Barriers, each a tenth of the one before.
const BARRIERS: i32 = 12;

/// `φ` has to meet the price to this, relative.
const TOLERANCE: f64 = 1e-10;

impl Source<'_> {
    fn along_barriers(&self, mut rates: DVector<f64>) -> Option<Vec<f64>> {
        let whole: Vec<f64> = rates.iter().zip(self.prices).map(|(x, q)| x * q).collect();
        for step in 0..=BARRIERS {
            let barrier: Vec<f64> = whole.iter().map(|w| w * 10f64.powi(-step)).collect();
            if !self.newton(&mut rates, &barrier) {
                return None;
            }
        }
        Some(rates.as_slice().to_vec())
    }

    /// Solves `log(φ_r + μ_r/x_r) = log q_r`; false if it doesn't come to rest.
    fn newton(&self, rates: &mut DVector<f64>, barrier: &[f64]) -> bool {
        let mut point = rates.clone();
        for _ in 0..STEPS {
            let Some((residual, matrix)) = self.system(point.as_slice(), barrier) else {
                return false;
            };
            if residual.amax() < TOLERANCE {
                *rates = point;
                return true;
            }
            let Some(step) = matrix.lu().solve(&-residual) else {
                return false;
            };
            let length = (1.0 / step.amax()).min(1.0);
            for (rate, step) in point.iter_mut().zip(&step) {
                *rate *= (length * step).exp();
            }
        }
        false
    }

    fn system(&self, rates: &[f64], barrier: &[f64]) -> Option<(DVector<f64>, DMatrix<f64>)> {
        let phis = self.law.phis(rates, self.rtts);
        let jacobian = self.law.jacobian(rates, self.rtts);
        let n = rates.len();
        let total: Vec<f64> = (0..n).map(|r| phis[r] + barrier[r] / rates[r]).collect();
        let residual = DVector::from_fn(n, |r, _| (total[r] / self.prices[r]).ln());
        let matrix = DMatrix::from_fn(n, n, |r, j| {
            let own = if r == j { barrier[r] / rates[r] } else { 0.0 };
            (jacobian[(r, j)] * rates[j] - own) / total[r]
        });
        let finite = residual
            .iter()
            .chain(&matrix)
            .all(|value| value.is_finite());
        finite.then_some((residual, matrix))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTTS: [f64; 3] = [0.05, 0.08, 0.21];
    const PRICES: [f64; 3] = [1e-3, 4e-4, 2e-2];

    fn solved(text: &str) -> Vec<f64> {
        let law = FluidLaw::of(&text.parse().unwrap()).unwrap();
        response(&law, &RTTS, &PRICES, None).unwrap()
    }

    #[test]
    fn reno_answers_by_the_square_root_law() {
        for ((x, tau), q) in solved("reno").iter().zip(RTTS).zip(PRICES) {
            assert!((x * tau * (q / 2.0f64).sqrt() - 1.0).abs() < 1e-10);
        }
    }

    /// Eq. (35)-(36): `x_r = a_r √C / Σ a`, where ψ(C) = 1.
    #[test]
    fn the_class_answers_by_the_papers_closed_form() {
        let (beta, n) = (0.3f64, 2.0);
        let law = format!("generalized:beta={beta},n={n}");
        let a = |c: f64| {
            let terms = RTTS.iter().zip(PRICES);
            terms.map(move |(tau, q)| 2.0 * beta / (2.0 * beta + q * tau * tau * c - 2.0))
        };
        let products = RTTS.iter().zip(PRICES).map(|(tau, q)| q * tau * tau);
        let least = 2.0 / products.fold(f64::INFINITY, f64::min);
        let (mut low, mut high) = (least, 1e6 * least);
        for _ in 0..200 {
            let middle = 0.5 * (low + high);
            let psi: f64 = a(middle).map(|a| a.powf(n)).sum();
            (low, high) = if psi > 1.0 {
                (middle, high)
            } else {
                (low, middle)
            };
        }
        let sum: f64 = a(low).sum();
        for (x, a) in solved(&law).iter().zip(a(low)) {
            assert!((x / (a / sum * low.sqrt()) - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn coupled_takes_the_cheapest_path_alone() {
        let rates = solved("coupled");
        // qτ² is least on the first two: 2.5e-6 and 2.56e-6.
        let expected = 2f64.sqrt() / (RTTS[0] * PRICES[0].sqrt());
        assert!((rates[0] / expected - 1.0).abs() < 1e-6, "{rates:?}");
        assert!(rates[1] < 1e-6 * rates[0] && rates[2] < 1e-6 * rates[0]);
    }
}

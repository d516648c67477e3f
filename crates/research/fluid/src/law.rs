//! Window laws as fluids, by their own code.

use manyway_control::laws::{AnyLaw, AutoGroup, Fluid, Lia};
use manyway_control::{LawSpec, Path, Scalar, WindowLaw};
use nalgebra::{DMatrix, DVector};
use num_dual::Dual64;

/// A law as a fluid: `ẋ_r = k_r(x_s) (φ_r(x_s) − q_r)⁺` with `k_r = (x_r/τ_r) D_r` and `φ_r =
/// I_r/D_r`, by the very code of the window law (Peng et al., section II).
///
/// Rates are in packets/s, round-trip times in seconds, `φ` is a loss probability.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum FluidLaw {
    /// A window law of the registry, as it runs.
    Window(AnyLaw),
    /// Max, the paper's fluid of LIA: without the minimum with Reno's increase, `φ_r = 2
    /// max_k(x_k/τ_k)/(x_r τ_r S²)`.
    Max,
    /// A group of `auto` on Reno's line: `φ_r = (3/(1 + β)) ω_r/w_r²`.
    AutoGroup,
}

/// A law that can't stand beside others whose prices are losses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoFluid {
    /// The law has no fluid form.
    #[error(
        "{law} has no fluid form, as it is more than an increase and a decrease by windows and \
         round-trip times: run it with `manyway run --level packet`, or take its nearest window \
         law ({nearest})"
    )]
    None {
        /// The law's name.
        law: &'static str,
        /// The nearest laws with a fluid form.
        nearest: &'static str,
    },
    /// The law's prices are delays.
    #[error(
        "{law} has no fluid form, as it is more than an increase and a decrease by windows and \
         round-trip times: run it with `manyway run --level packet`, or see `manyway run --level \
         fluid`, which has {law} by its prices, and `manyway optimum`, which has its equilibrium"
    )]
    Delay {
        /// The law's name.
        law: &'static str,
    },
}

impl FluidLaw {
    /// The fluid of a law of the registry.
    ///
    /// # Errors
    /// [`NoFluid`] for laws with a memory and for controllers of their own.
    pub fn of(spec: &LawSpec) -> Result<Self, NoFluid> {
        let law = spec.name();
        match spec.fluid() {
            Fluid::Window(law) => Ok(FluidLaw::Window(law)),
            Fluid::None { nearest } => Err(NoFluid::None { law, nearest }),
            Fluid::Delay { .. } => Err(NoFluid::Delay { law }),
        }
    }

    /// Its name in tables.
    pub fn name(&self) -> &'static str {
        match self {
            FluidLaw::Window(law) => WindowLaw::name(law),
            FluidLaw::Max => "max",
            FluidLaw::AutoGroup => WindowLaw::name(&AutoGroup),
        }
    }

    /// `φ_r(x_s) = I_r/D_r`.
    pub fn phi<D: Scalar>(&self, paths: &[Path<D>], r: usize) -> D {
        match self {
            FluidLaw::Window(law) => law.increase(paths, r) / law.decrease(paths, r),
            FluidLaw::Max => Lia::linked(paths) / Lia.decrease(paths, r),
            FluidLaw::AutoGroup => AutoGroup.increase(paths, r) / AutoGroup.decrease(paths, r),
        }
    }

    /// `k_r(x_s) = (x_r/τ_r) D_r`, in packets²/s².
    pub fn gain<D: Scalar>(&self, paths: &[Path<D>], r: usize) -> D {
        let decrease = match self {
            FluidLaw::Window(law) => law.decrease(paths, r),
            FluidLaw::Max => Lia.decrease(paths, r),
            FluidLaw::AutoGroup => AutoGroup.decrease(paths, r),
        };
        paths[r].rate() / paths[r].rtt * decrease
    }

    /// `Φ_s` at these rates.
    pub fn phis(&self, rates: &[f64], rtts: &[f64]) -> DVector<f64> {
        let paths = paths_at(rates, rtts);
        DVector::from_fn(rates.len(), |r, _| self.phi(&paths, r))
    }

    /// `∂Φ_s/∂x_s`, exact to rounding by dual numbers; at ties of a maximum it is a one-sided
    /// derivative.
    pub fn jacobian(&self, rates: &[f64], rtts: &[f64]) -> DMatrix<f64> {
        let n = rates.len();
        let mut jacobian = DMatrix::zeros(n, n);
        for along in 0..n {
            let rate = |(r, &x): (usize, &f64)| Dual64::new(x, f64::from(u8::from(r == along)));
            let path = |(x, &rtt): (Dual64, &f64)| Path {
                window: x * rtt,
                rtt: Dual64::from(rtt),
            };
            let paths = rates.iter().enumerate().map(rate).zip(rtts).map(path);
            let paths: Vec<Path<Dual64>> = paths.collect();
            for r in 0..n {
                jacobian[(r, along)] = self.phi(&paths, r).eps;
            }
        }
        jacobian
    }
}

/// The paths of a source at these rates (packets/s) and round-trip times (s).
pub fn paths_at(rates: &[f64], rtts: &[f64]) -> Vec<Path<f64>> {
    let path = |(x, &rtt): (&f64, &f64)| Path {
        window: x * rtt,
        rtt,
    };
    rates.iter().zip(rtts).map(path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn law(text: &str) -> FluidLaw {
        FluidLaw::of(&text.parse().unwrap()).unwrap()
    }

    const RATES: [f64; 3] = [310.0, 120.0, 57.0];
    const RTTS: [f64; 3] = [0.05, 0.08, 0.21];

    /// The table of fluid models of Peng et al., section II.
    #[test]
    fn the_bridge_gives_the_papers_table() {
        let paths = paths_at(&RATES, &RTTS);
        let sum: f64 = RATES.iter().sum();
        let largest = RATES[0] / RTTS[0];
        for r in 0..3 {
            let (x, tau) = (RATES[r], RTTS[r]);
            let near = |text: &str, expected: f64| {
                let phi = law(text).phi(&paths, r);
                assert!(
                    (phi / expected - 1.0).abs() < 1e-12,
                    "{text} {phi} {expected}"
                );
                let gain = law(text).gain(&paths, r);
                assert!((gain / (x * x / 2.0) - 1.0).abs() < 1e-12, "{text}");
            };
            near("reno", 2.0 / (tau * x).powi(2));
            near("ewtcp:a=0.25", 0.5 / (tau * x).powi(2));
            near("coupled", 2.0 / (tau * sum).powi(2));
            // The paper's table has one τ less, which gives no pure number; I_r/D_r has both.
            near("semicoupled", 2.0 / (x * tau * tau * sum));
            let equal = 0.2 / RATES.len() as f64;
            let expected = 3.0 / 1.7 * (equal + 0.8 * x / sum) / (tau * x).powi(2);
            let group = FluidLaw::AutoGroup.phi(&paths, r);
            assert!((group / expected - 1.0).abs() < 1e-12, "{group} {expected}");
            let max = FluidLaw::Max.phi(&paths, r);
            let expected = 2.0 * largest / (x * tau * sum * sum);
            assert!((max / expected - 1.0).abs() < 1e-12);
        }
    }

    /// Eq. (16), whose gain is not Reno's, at β = 1/2, n = 2, η = 1/4.
    #[test]
    fn the_generalized_class_is_equation_16() {
        let paths = paths_at(&RATES, &RTTS);
        let sum: f64 = RATES.iter().sum();
        let norm = RATES.iter().map(|x| x * x).sum::<f64>().sqrt();
        let law = law("generalized:beta=0.5,n=2,eta=0.25");
        for r in 0..3 {
            let (x, tau) = (RATES[r], RTTS[r]);
            let phi = (x + norm) / (tau * tau * x * sum * sum);
            let gain = 0.5 * x * (x + 0.25 * (RATES[0] - x));
            assert!((law.phi(&paths, r) / phi - 1.0).abs() < 1e-12);
            assert!((law.gain(&paths, r) / gain - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn jacobians_are_what_differences_come_to() {
        for text in [
            "reno",
            "coupled",
            "semicoupled",
            "lia",
            "balia",
            "generalized:n=3",
        ] {
            let law = law(text);
            let exact = law.jacobian(&RATES, &RTTS);
            for along in 0..3 {
                let shifted = |by: f64| {
                    let mut rates = RATES;
                    rates[along] += by;
                    law.phis(&rates, &RTTS)
                };
                let step = 1e-4 * RATES[along];
                let about = (shifted(step) - shifted(-step)) / (2.0 * step);
                for r in 0..3 {
                    let scale = exact.amax();
                    assert!(
                        (exact[(r, along)] - about[r]).abs() < 1e-5 * scale,
                        "{text} {r} {along}"
                    );
                }
            }
        }
    }

    /// Balia as it runs, eq. (1)-(2), has `φ_r ∝ (1+α)(4+α)/min{α, 1.5}`, which falls until the cap
    /// takes over: there a path that gets less of the flow has the lower φ, against C2. Eq. (16),
    /// for which the paper proves it, only grows.
    #[test]
    fn balia_as_it_runs_is_not_monotone_before_its_cap() {
        let phi = |text: &str, alpha: f64| {
            // The total is the same, so that only the split differs.
            let rates = [100.0 * alpha / (1.0 + alpha), 100.0 / (1.0 + alpha)];
            law(text).phi(&paths_at(&rates, &[0.1, 0.1]), 1)
        };
        let relative = phi("balia", 1.5) / phi("balia", 1.0);
        assert!((relative - 2.5 * 5.5 / 15.0).abs() < 1e-12, "{relative}");
        assert!(phi("balia", 2.0) > phi("balia", 1.0));
        let class = [1.0, 1.2, 1.5, 2.0].map(|alpha| phi("generalized", alpha));
        assert!(class.is_sorted(), "{class:?}");
    }

    #[test]
    fn laws_with_a_memory_have_none() {
        let error = FluidLaw::of(&"olia".parse().unwrap()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "olia has no fluid form, as it is more than an increase and a decrease by windows and \
             round-trip times: run it with `manyway run --level packet`, or take its nearest \
             window law (coupled or lia)"
        );
    }
}

//! What `proof` calls proved in closed form, and docs/criteria.md writes down.

use proptest::prelude::*;

use super::super::*;
use super::law;

/// A member of eq. (16) with a source's state.
#[derive(Clone, Debug)]
struct Member {
    beta: f64,
    n: f64,
    point: Point,
}

fn member(betas: std::ops::Range<f64>) -> impl Strategy<Value = Member> {
    let norms = prop_oneof![(1.0f64..12.0).boxed(), Just(f64::INFINITY).boxed()];
    let path = ((1.0f64..4.0).prop_map(|e| 10f64.powf(e)), 0.01f64..0.3);
    let paths = prop::collection::vec(path, 2..=12);
    (betas, norms, paths).prop_map(|(beta, n, paths)| Member {
        beta,
        n,
        point: Point {
            rates: paths.iter().map(|path| path.0).collect(),
            rtts: paths.iter().map(|path| path.1).collect(),
        },
    })
}

impl Member {
    fn law(&self) -> FluidLaw {
        law(&format!("generalized:beta={},n={}", self.beta, self.n))
    }

    fn total(&self) -> f64 {
        self.point.rates.iter().sum()
    }

    /// `‖x‖_n` and `u`.
    fn norm(&self) -> (f64, Vec<f64>) {
        let rates = &self.point.rates;
        let largest = rates.iter().copied().fold(0.0, f64::max);
        if self.n.is_infinite() {
            let u = rates.iter().map(|x| if *x == largest { 1.0 } else { 0.0 });
            return (largest, u.collect());
        }
        let powers: Vec<f64> = rates.iter().map(|x| (x / largest).powf(self.n)).collect();
        let sum: f64 = powers.iter().sum();
        let norm = largest * sum.powf(1.0 / self.n);
        (norm, powers.iter().map(|power| power / sum).collect())
    }

    fn equal(mut self) -> Self {
        let rtt = self.point.rtts[0];
        self.point.rtts.fill(rtt);
        self
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// C4: `−τ_r² x_r u_r S³ / (4(βN + (1−β) Σ x_k u_k))`, whatever the round-trip times.
    #[test]
    fn column_sums(member in member(0.01..4.0)) {
        let Point { rates, rtts } = &member.point;
        let inverse = local::inverse(&member.law(), &member.point).unwrap();
        let (norm, u) = member.norm();
        let mean: f64 = rates.iter().zip(&u).map(|(x, u)| x * u).sum();
        for (r, column) in inverse.column_iter().enumerate() {
            let sizes: f64 = column.iter().map(|entry| entry.abs()).sum();
            let expected = -rtts[r].powi(2) * rates[r] * u[r] * member.total().powi(3)
                / (4.0 * (member.beta * norm + (1.0 - member.beta) * mean));
            let sum = column.sum();
            prop_assert!((sum - expected).abs() < 1e-8 * sizes, "{sum} {expected}");
        }
    }

    /// C1 for β = 1: `−(S²/2N) (Σ_A τ_r² x_r² (1 − X/S) + (X/2) Σ_A τ_r² x_r u_r)`, whatever the
    /// round-trip times.
    #[test]
    fn own_prices(
        member in member(1.0..1.0 + 1e-15),
        carried in prop::collection::vec(any::<bool>(), 12),
    ) {
        let member = Member { beta: 1.0, ..member };
        let Point { rates, rtts } = &member.point;
        let inverse = local::inverse(&member.law(), &member.point).unwrap();
        let (norm, u) = member.norm();
        let paths: Vec<usize> = (0..rates.len()).filter(|&r| carried[r]).collect();
        let traffic: f64 = paths.iter().map(|&r| rates[r]).sum();
        let (mut slope, mut sizes, mut expected) = (0.0, 0.0, 0.0);
        for &r in &paths {
            for &j in &paths {
                slope += inverse[(r, j)];
                sizes += inverse[(r, j)].abs();
            }
            let squares = rates[r] * (1.0 - traffic / member.total()) + 0.5 * traffic * u[r];
            let total = member.total().powi(2);
            expected -= rtts[r].powi(2) * rates[r] * squares * total / (2.0 * norm);
        }
        prop_assert!((slope - expected).abs() <= 1e-8 * sizes, "{slope} {expected}");
        prop_assert!(expected <= 0.0);
    }

    /// C1 for 0 < β ≤ 1 with equal round-trip times, any number of paths and any n.
    #[test]
    fn own_prices_at_equal_round_trip_times(member in member(0.01..1.0)) {
        let member = member.equal();
        let seen = local::own_price(&member.law(), &member.point).unwrap();
        prop_assert!(seen.value < 1e-9, "{seen:?}");
    }

    /// C2 for up to nine paths with equal round-trip times.
    #[test]
    fn nine_paths_are_safe(member in member(0.01..1.0)) {
        let mut member = member.equal();
        member.point.rates.truncate(9);
        member.point.rtts.truncate(9);
        let seen = local::definiteness(&member.law(), &member.point).unwrap();
        prop_assert!(seen.value < 0.0, "{seen:?}");
    }
}

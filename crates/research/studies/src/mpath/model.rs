//! The model of section 3, for one user with the direct path and one proxied path: eq. (3) to (7).

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::gate::{Gate, gate};

/// Section 2's factor of load aggregation.
const ALPHA: f64 = 0.5;
/// The access link's capacity, X_goal.
const ACCESS: f64 = 100.0;
/// So many shared losses are compared with eq. (7).
const LOSSES: usize = 4;

/// One user's loads, and what the links carry.
struct User {
    direct: f64,
    proxied: f64,
    /// X_goal of the direct path's core link.
    direct_core: f64,
    rng: Pcg64Mcg,
}

impl User {
    fn new(direct_core: f64, seed: u64) -> Self {
        Self {
            direct: ACCESS / 2.0,
            proxied: ACCESS / 2.0,
            direct_core,
            rng: Pcg64Mcg::seed_from_u64(seed),
        }
    }

    /// One step; whether there was a shared loss.
    fn step(&mut self) -> bool {
        let all = self.direct + self.proxied;
        if all > ACCESS {
            // Eq. (6).
            self.direct = self.direct / 2.0 + ALPHA * self.proxied / 2.0;
            self.proxied *= (1.0 - ALPHA) / 2.0;
            return true;
        }
        if self.direct > self.direct_core {
            // Eq. (4).
            self.direct /= 2.0;
            self.proxied += 1.0;
        } else if self.rng.random::<f64>() * all < self.direct {
            // Eq. (3).
            self.direct += 1.0;
        } else {
            self.proxied += 1.0;
        }
        false
    }

    /// Mean loads of the direct and the proxied path over many steps.
    fn means(mut self) -> (f64, f64) {
        const STEPS: u32 = 100_000;
        let (mut direct, mut proxied) = (0.0, 0.0);
        for _ in 0..STEPS {
            self.step();
            direct += self.direct;
            proxied += self.proxied;
        }
        (direct / f64::from(STEPS), proxied / f64::from(STEPS))
    }
}

/// The mean load of one AIMD flow on a link of this capacity, as in Chiu and Jain's model.
fn of_one_flow(capacity: f64) -> f64 {
    0.75 * capacity
}

/// Mean load of the proxied path right after each of the first shared losses, by eq. (7) and in
/// many runs of the steps.
fn after_losses() -> [(f64, f64); LOSSES] {
    const RUNS: u32 = 5000;
    let mut sums = [0.0; LOSSES];
    let mut first = 0.0;
    for seed in 0..RUNS {
        let mut user = User::new(f64::INFINITY, u64::from(seed) + 1);
        for (loss, sum) in sums.iter_mut().enumerate() {
            let mut before = user.proxied;
            while !user.step() {
                before = user.proxied;
            }
            if loss == 0 {
                first += before / f64::from(RUNS);
            }
            *sum += user.proxied / f64::from(RUNS);
        }
    }
    std::array::from_fn(|loss| {
        let theory = (1.0 - ALPHA).powi(loss as i32 + 1) * first / 2.0;
        (theory, sums[loss])
    })
}

/// What the section says of one proxied path.
pub(super) fn gates() -> Vec<Gate> {
    let by_loss = after_losses().map(|(theory, found)| 100.0 * (found / theory - 1.0));
    let losses = (1..=LOSSES).map(|k| format!("{k} losses"));
    let shown = by_loss.map(|off| format!("{off:+.1}")).join(", ");
    let core = [0.2, 0.5, 0.8].map(|share| (share, User::new(share * ACCESS, 1).means()));
    let named = |share: f64| format!("core link of {share} of the access link");
    let access = core
        .map(|(share, (direct, proxied))| (named(share), (direct + proxied) / of_one_flow(ACCESS)));
    let direct =
        core.map(|(share, (direct, _))| (named(share), direct / of_one_flow(share * ACCESS)));
    let (kept, redundant) = User::new(f64::INFINITY, 1).means();
    let list = |values: &[(String, f64)]| {
        let values = values.iter().map(|(_, value)| format!("{value:.2}"));
        values.collect::<Vec<_>>().join(", ")
    };
    vec![
        gate("mpath/figure-6").cases(losses.zip(by_loss), format!("{shown} %")),
        gate("mpath/figure-5-access").cases(access.clone(), list(&access)),
        gate("mpath/figure-5-direct").cases(direct.clone(), list(&direct)),
        gate("mpath/figure-5-redundant").value(
            redundant / (kept + redundant),
            format!("{:.4}", redundant / (kept + redundant)),
        ),
    ]
}

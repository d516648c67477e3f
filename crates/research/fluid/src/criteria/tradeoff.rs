//! Friendliness against responsiveness, on the paper's two networks.

use serde::Serialize;

use super::linear::{Linearisation, at_fixed_prices};
use super::testbed::{Fig1, Fig2, PACKET};
use crate::law::{FluidLaw, paths_at};

/// What a choice of law costs and brings (Table II of Peng et al.), on the paper's two networks.
#[derive(Copy, Clone, Debug, PartialEq, Serialize)]
pub struct Tradeoff {
    /// In Fig. 1, two paths of equal round-trip times through one bottleneck: their rate together
    /// over the Reno flow's beside them.
    pub shared: f64,
    /// In Fig. 2, a link of its own and one with a Reno flow: the path's rate on that link over the
    /// Reno flow's.
    pub beside: f64,
    /// In Fig. 2, how fast distances from the equilibrium shrink, 1/s: minus the spectral abscissa
    /// of `J*`.
    pub convergence: f64,
    /// In Fig. 2, how fast the source alone would correct its rates at fixed prices, 1/s: the
    /// slowest direction.
    pub correction: f64,
    /// In Fig. 2, the part of the source's rate that a loss takes, eq. (13).
    pub oscillation: f64,
}

/// The networks of [`tradeoff`]: links of 20 Mbps, all round-trip times 100 ms, packets of 1500 B.
pub const FIG_2: Fig2 = Fig2 {
    capacity: 20e6 / PACKET,
    rtt: 0.1,
    reno: 1,
};

/// RED's slope there: 10 packets of queue more lose 1 % more.
pub const SLOPE_PER_PACKET: f64 = 1e-3;

/// A law's; `None` if one of the two equilibria wasn't found.
pub fn tradeoff(law: FluidLaw) -> Option<Tradeoff> {
    let fig_1 = Fig1 {
        capacity: FIG_2.capacity,
        rtts: vec![FIG_2.rtt; 2],
        reno_rtt: FIG_2.rtt,
        wider: 2.0,
    };
    let shared = fig_1.model(law).equilibrium();
    let model = FIG_2.model(law);
    let beside = model.equilibrium();
    if !shared.converged || !beside.converged {
        return None;
    }
    let linear = Linearisation::of(&model, &beside, &[SLOPE_PER_PACKET / PACKET; 2])?;
    let (rates, rtts) = (&beside.rates[..2], [FIG_2.rtt; 2]);
    Some(Tradeoff {
        shared: (shared.rates[0] + shared.rates[1]) / shared.rates[2],
        beside: beside.rates[1] / beside.rates[2],
        convergence: -linear.abscissa(),
        correction: -at_fixed_prices(&law, rates, &rtts),
        oscillation: oscillation(&law, rates, &rtts, &beside.prices),
    })
}

/// `D_s(x) = (1/‖x‖₁) Σ τ_r q_r k_r / Σ τ_r q_r x_r`, eq. (13): the part of a source's rate that a
/// loss event takes in the mean, 1/2 for NewReno.
///
/// Rates in packets/s, round-trip times in seconds, `losses` are probabilities.
pub fn oscillation(law: &FluidLaw, rates: &[f64], rtts: &[f64], losses: &[f64]) -> f64 {
    let paths = paths_at(rates, rtts);
    let (mut taken, mut lost) = (0.0, 0.0);
    for r in 0..rates.len() {
        taken += rtts[r] * losses[r] * law.gain(&paths, r);
        lost += rtts[r] * losses[r] * rates[r];
    }
    taken / lost / rates.iter().sum::<f64>()
}

//! C3 and C5 and the end of C1: what happens as rates or prices go to 0 or without bound, seen over
//! twelve decades.

use super::domain::Point;
use super::local::Seen;
use super::verdict::Evidence;
use crate::law::FluidLaw;

/// Something that goes to 0 or grows without bound changes tenfold at least over the last six of so
/// many decades.
const FAR: f64 = 1e12;
const NEAR: f64 = 1e6;
const TENFOLD: f64 = 10.0;

/// C3, `φ_r = ∞` if and only if `x_r = 0`: how little `φ_r` grows as `x_r` vanishes, or how much as
/// the others vanish. More than 0 is a violation.
pub(super) fn only_empty_paths_pay(law: &FluidLaw, point: &Point) -> Option<Seen> {
    let mut worst: Option<Seen> = None;
    for r in 0..point.rates.len() {
        let own = Walk::of(law, point, r, |rate, own| if own { rate } else { 1.0 });
        let own = own.finite()?;
        let value = 1.0 - (own.far / own.near).log10() / TENFOLD.log10();
        keep(
            &mut worst,
            value,
            own.evidence("as the path's rate vanishes"),
        );
        let others = Walk::of(law, point, r, |rate, own| if own { 1.0 } else { rate });
        let others = others.finite()?;
        let value = (others.far / others.near).log10() / TENFOLD.log10() - 1.0;
        keep(
            &mut worst,
            value,
            others.evidence("as the others' rates vanish"),
        );
    }
    worst
}

/// C5, `φ_r → 0` as `x_r → ∞`: how little it falls. More than 0 is a violation.
pub(super) fn free_paths_fill(law: &FluidLaw, point: &Point) -> Option<Seen> {
    let mut worst = None;
    for r in 0..point.rates.len() {
        let walk = Walk::of(
            law,
            point,
            r,
            |rate, own| if own { rate.recip() } else { 1.0 },
        );
        let walk = walk.finite()?;
        let value = 1.0 + (walk.far / walk.near).log10() / TENFOLD.log10();
        keep(&mut worst, value, walk.evidence("as the path's rate grows"));
    }
    worst
}

fn keep(worst: &mut Option<Seen>, value: f64, evidence: Evidence) {
    if worst.as_ref().is_none_or(|worst| value > worst.value) {
        *worst = Some(Seen { value, evidence });
    }
}

/// `φ_r` six and twelve decades from a point.
struct Walk {
    path: usize,
    near: f64,
    far: f64,
}

impl Walk {
    /// `factor` of a rate that goes to 0, and whether it is the path's own.
    fn of(law: &FluidLaw, point: &Point, r: usize, factor: impl Fn(f64, bool) -> f64) -> Self {
        let at = |distance: f64| {
            let rates = point.rates.iter().enumerate();
            let rates = rates.map(|(k, x)| x * factor(distance.recip(), k == r));
            let rates: Vec<f64> = rates.collect();
            law.phis(&rates, &point.rtts)[r]
        };
        Walk {
            path: r + 1,
            near: at(NEAR),
            far: at(FAR),
        }
    }

    fn finite(self) -> Option<Self> {
        (self.near.is_finite() && self.far.is_finite() && self.near > 0.0 && self.far > 0.0)
            .then_some(self)
    }

    fn evidence(&self, when: &'static str) -> Evidence {
        Evidence::Limit {
            path: self.path,
            when,
            phi_after_1e6: self.near,
            phi_after_1e12: self.far,
        }
    }
}

//! The class of window laws of Peng et al., eq. (16).

use crate::law::{Path, Scalar, WindowLaw, largest_rate, smaller, total_rate};

/// The class of algorithms of Peng et al., eq. (16):
/// `k_r = ½ x_r (x_r + η(‖x‖_∞ − x_r))`, `φ_r = 2((1−β) x_r + β‖x‖_n) / (τ_r² x_r S²)`.
///
/// With `D_r = τ_r k_r/x_r`, `I_r = φ_r D_r` and `α_r = max_k{x_k}/x_r` these are the window rules
/// `I_r = ((1−β) x_r + β‖x‖_n) / (τ_r S²) · (1+η(α_r−1))` and `D_r = w_r/2 · (1+η(α_r−1))`.
///
/// A slow path's `D_r` may exceed its window, and the controller's floor is what is left of it.
/// [`cap`](Self::cap) bounds it, `D_r = w_r/2 · min{1+η(α_r−1), cap}`, and leaves `I_r` alone: that
/// is how the paper makes Balia of `(β, n, η) = (0.2, ∞, 0.5)` (end of section IV). Balia itself
/// has `D_r = w_r/2 · min{α_r, 1.5}`, eq. (2), which no cap gives; its `I_r`, eq. (1), is the one
/// here.
///
/// `(0, ·, 0)` is Coupled and `(1, 1, 0)` is Semicoupled; `(1, ∞, 0)` is LIA where all round-trip
/// times are equal.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Generalized {
    /// `β ≥ 0`: less is friendlier, more responds quicker. Theorem IV.1 promises a unique and
    /// stable equilibrium for `0 < β ≤ 1` with at most eight paths of equal round-trip times.
    pub beta: f64,
    /// `n ≥ 1`, the order of the norm, infinite for the maximum: more is friendlier, less responds
    /// quicker.
    pub n: f64,
    /// `η ≥ 0`: more responds quicker and oscillates more.
    pub eta: f64,
    /// The decrease in halves of the window is at most this; infinite for eq. (16) as it stands.
    pub cap: f64,
}

impl Generalized {
    /// `1+η(α_r−1)`, at least 1.
    #[inline]
    fn gain<D: Scalar>(&self, paths: &[Path<D>], r: usize) -> D {
        (largest_rate(paths) / paths[r].rate() - 1.0) * self.eta + 1.0
    }
}

impl WindowLaw for Generalized {
    #[inline]
    fn increase<D: Scalar>(&self, paths: &[Path<D>], r: usize) -> D {
        let total = total_rate(paths);
        let blend = paths[r].rate() * (1.0 - self.beta) + norm(paths, self.n) * self.beta;
        blend / (paths[r].rtt * total * total) * self.gain(paths, r)
    }

    #[inline]
    fn decrease<D: Scalar>(&self, paths: &[Path<D>], r: usize) -> D {
        paths[r].window / 2.0 * smaller(self.gain(paths, r), D::from(self.cap))
    }

    fn name(&self) -> &'static str {
        "generalized"
    }

    /// 1 with more than one path: section IV speaks of windows that a loss takes to 1, and section
    /// V gives Coupled and Balia, both of this class, that minimum.
    fn min_ssthresh(&self, paths: usize) -> f64 {
        if paths > 1 { 1.0 } else { 2.0 }
    }
}

/// `‖x‖_n = (Σ x_k^n)^{1/n}`, in packets/s.
#[inline]
fn norm<D: Scalar>(paths: &[Path<D>], n: f64) -> D {
    if n == 1.0 {
        return total_rate(paths);
    }
    let largest = largest_rate(paths);
    if n.is_infinite() {
        return largest;
    }
    // In units of the largest rate, a constant here, so that no power overflows and the derivatives
    // stay exact.
    let unit = largest.re();
    let shares = paths.iter().map(|path| path.rate() / unit);
    let powers: D = if n <= 64.0 && n.fract() == 0.0 {
        sum(shares.map(|share| share.powi(n as i32)))
    } else {
        sum(shares.map(|share| share.powf(n)))
    };
    powers.powf(1.0 / n) * unit
}

fn sum<D: Scalar>(of: impl Iterator<Item = D>) -> D {
    of.fold(D::from(0.0), |sum, value| sum + value)
}

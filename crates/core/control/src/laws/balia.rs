//! Balia, a window law.

use crate::law::{Path, Scalar, WindowLaw, largest_rate, smaller, total_rate};

/// Balia, the balanced linked adaptation of Peng et al., eq. (1)-(2), with `α_r = max_k{x_k}/x_r`:
/// `I_r = x_r/(τ_r S²) · (1+α_r)/2 · (4+α_r)/5`, `D_r = w_r/2 · min{α_r, 1.5}`.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Balia;

impl Balia {
    /// `α_r`, at least 1.
    #[inline]
    fn alpha<D: Scalar>(paths: &[Path<D>], r: usize) -> D {
        largest_rate(paths) / paths[r].rate()
    }
}

impl WindowLaw for Balia {
    #[inline]
    fn increase<D: Scalar>(&self, paths: &[Path<D>], r: usize) -> D {
        let alpha = Self::alpha(paths, r);
        let total = total_rate(paths);
        let base = paths[r].rate() / (paths[r].rtt * total * total);
        base * ((alpha + 1.0) / 2.0) * ((alpha + 4.0) / 5.0)
    }

    #[inline]
    fn decrease<D: Scalar>(&self, paths: &[Path<D>], r: usize) -> D {
        paths[r].window / 2.0 * smaller(Self::alpha(paths, r), D::from(1.5))
    }

    fn name(&self) -> &'static str {
        "balia"
    }

    /// 1 with more than one path (section V of the paper), else Reno's 2.
    fn min_ssthresh(&self, paths: usize) -> f64 {
        if paths > 1 { 1.0 } else { 2.0 }
    }
}

//! The fully coupled law, a window law.

use crate::law::{Path, Scalar, WindowLaw, total_rate};

/// Coupled (Kelly and Voice 2005, Han et al. 2006), as in section II of Peng et al.:
/// `I_r = (w_r/τ_r²) / S²`, `D_r = w_r/2`.
///
/// All traffic moves to the least congested paths, and windows that have become small grow back
/// slowly.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct FullyCoupled;

impl WindowLaw for FullyCoupled {
    #[inline]
    fn increase<D: Scalar>(&self, paths: &[Path<D>], r: usize) -> D {
        let total = total_rate(paths);
        paths[r].rate() / (paths[r].rtt * total * total)
    }

    #[inline]
    fn decrease<D: Scalar>(&self, paths: &[Path<D>], r: usize) -> D {
        paths[r].window / 2.0
    }

    fn name(&self) -> &'static str {
        "coupled"
    }

    /// 1 with more than one path (section V of the paper), else Reno's 2.
    fn min_ssthresh(&self, paths: usize) -> f64 {
        if paths > 1 { 1.0 } else { 2.0 }
    }
}

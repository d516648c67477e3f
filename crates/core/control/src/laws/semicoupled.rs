//! The semicoupled law, a window law.

use crate::law::{Path, Scalar, WindowLaw, total_rate};

/// Semicoupled (Wischik et al., NSDI 2011), as in section II of Peng et al.:
/// `I_r = 1/(τ_r S)`, `D_r = w_r/2`.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Semicoupled;

impl WindowLaw for Semicoupled {
    #[inline]
    fn increase<D: Scalar>(&self, paths: &[Path<D>], r: usize) -> D {
        (paths[r].rtt * total_rate(paths)).recip()
    }

    #[inline]
    fn decrease<D: Scalar>(&self, paths: &[Path<D>], r: usize) -> D {
        paths[r].window / 2.0
    }

    fn name(&self) -> &'static str {
        "semicoupled"
    }
}

//! EWTCP, a window law.

use crate::law::{Path, Scalar, WindowLaw};

/// EWTCP (Honda et al. 2009), as in section II of Peng et al.: Reno on every path, but weighted:
/// `I_r = a/w_r`, `D_r = w_r/2`.
///
/// In equilibrium a path takes `√a` times the window of a Reno flow with the same losses, so that n
/// paths through one bottleneck with `a = 1/n²` take one fair share in sum. The experiments of Peng
/// et al. use `a = 1`: Reno.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Ewtcp {
    /// The weight `a`; positive.
    pub a: f64,
}

impl WindowLaw for Ewtcp {
    #[inline]
    fn increase<D: Scalar>(&self, paths: &[Path<D>], r: usize) -> D {
        paths[r].window.recip() * self.a
    }

    #[inline]
    fn decrease<D: Scalar>(&self, paths: &[Path<D>], r: usize) -> D {
        paths[r].window / 2.0
    }

    fn name(&self) -> &'static str {
        "ewtcp"
    }
}

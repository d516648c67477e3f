//! Reno, the uncoupled baseline.

use crate::law::{Path, Scalar, WindowLaw};

/// Reno's additive increase and multiplicative decrease on every path by itself (RFC 5681 §3.1):
/// `I_r = 1/w_r`, `D_r = w_r/2`.
///
/// With several paths this is the uncoupled baseline: n paths through one bottleneck take n shares.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Reno;

impl WindowLaw for Reno {
    #[inline]
    fn increase<D: Scalar>(&self, paths: &[Path<D>], r: usize) -> D {
        paths[r].window.recip()
    }

    #[inline]
    fn decrease<D: Scalar>(&self, paths: &[Path<D>], r: usize) -> D {
        paths[r].window / 2.0
    }

    fn name(&self) -> &'static str {
        "reno"
    }
}

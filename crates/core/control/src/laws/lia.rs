//! LIA, a window law.

use crate::law::{Path, Scalar, WindowLaw, larger, smaller, total_rate};

/// LIA, the linked increases algorithm of RFC 6356 §3; "Max" in Peng et al.:
/// `I_r = min{ max_k(w_k/τ_k²) / S², 1/w_r }`, `D_r = w_r/2`.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Lia;

impl Lia {
    /// The linked increase alone, `max_k(w_k/τ_k²) / S²`, the same on every path: what the fluid
    /// models call Max have nothing else.
    #[inline]
    pub fn linked<D: Scalar>(paths: &[Path<D>]) -> D {
        let total = total_rate(paths);
        let best = paths
            .iter()
            .map(|p| p.rate() / p.rtt)
            .fold(D::from(0.0), larger);
        best / (total * total)
    }
}

impl WindowLaw for Lia {
    #[inline]
    fn increase<D: Scalar>(&self, paths: &[Path<D>], r: usize) -> D {
        smaller(Self::linked(paths), paths[r].window.recip())
    }

    #[inline]
    fn decrease<D: Scalar>(&self, paths: &[Path<D>], r: usize) -> D {
        paths[r].window / 2.0
    }

    fn name(&self) -> &'static str {
        "lia"
    }
}

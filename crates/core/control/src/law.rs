//! What a law is: the papers' `I_r` and `D_r` over any scalar, and helpers for their sums. No law
//! is defined here.

use std::fmt::Debug;
use std::ops::{Add, Div, Mul, Neg, Sub};

/// The numbers a law computes on: `f64` in the transport and the simulator, dual numbers (feature
/// `dual`) where the fluid model wants derivatives.
pub trait Scalar:
    Copy
    + From<f64>
    + Neg<Output = Self>
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Add<f64, Output = Self>
    + Sub<f64, Output = Self>
    + Mul<f64, Output = Self>
    + Div<f64, Output = Self>
{
    /// The value without its derivatives.
    fn re(&self) -> f64;
    /// `1/x`.
    fn recip(&self) -> Self;
    /// `xⁿ`, n an integer.
    fn powi(&self, n: i32) -> Self;
    /// `xⁿ`.
    fn powf(&self, n: f64) -> Self;
}

impl Scalar for f64 {
    #[inline]
    fn re(&self) -> f64 {
        *self
    }
    #[inline]
    fn recip(&self) -> Self {
        f64::recip(*self)
    }
    #[inline]
    fn powi(&self, n: i32) -> Self {
        f64::powi(*self, n)
    }
    #[inline]
    fn powf(&self, n: f64) -> Self {
        f64::powf(*self, n)
    }
}

#[cfg(feature = "dual")]
impl Scalar for num_dual::Dual64 {
    fn re(&self) -> f64 {
        self.re
    }
    fn recip(&self) -> Self {
        num_dual::DualNum::recip(self)
    }
    fn powi(&self, n: i32) -> Self {
        num_dual::DualNum::powi(self, n)
    }
    fn powf(&self, n: f64) -> Self {
        num_dual::DualNum::powf(self, n)
    }
}

/// What a window law sees of one path.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Path<D> {
    /// Congestion window `w_r`, in packets; at least 1.
    pub window: D,
    /// Round-trip time `τ_r`, in seconds; positive.
    pub rtt: D,
}

impl<D: Scalar> Path<D> {
    /// The rate `x_r = w_r/τ_r`, in packets/s.
    #[inline]
    pub fn rate(&self) -> D {
        self.window / self.rtt
    }
}

/// A congestion-control law in window form: the pair `I_r`, `D_r` of Peng et al., "Multipath TCP:
/// Analysis, Design and Implementation", section II.
///
/// `paths` are all paths of one source, never empty, and `r` indexes the path in question. Windows
/// are in packets of one size; whoever calls converts where paths have different packet sizes.
/// A law only speaks of congestion avoidance: slow start, window floors and timeouts belong to the
/// controller that runs it.
pub trait WindowLaw {
    /// `I_r`: packets added to path `r`'s window per acknowledged packet.
    fn increase<D: Scalar>(&self, paths: &[Path<D>], r: usize) -> D;

    /// `D_r`: packets taken from path `r`'s window at a loss event (at most one per round trip).
    fn decrease<D: Scalar>(&self, paths: &[Path<D>], r: usize) -> D;

    /// The law's name in the registry.
    fn name(&self) -> &'static str;

    /// The smallest slow-start threshold and window, in packets, when the source has `paths` paths.
    fn min_ssthresh(&self, paths: usize) -> f64 {
        let _ = paths;
        2.0
    }
}

/// A window law on `f64`, as [`Coupled`](crate::Coupled) runs it; object-safe, for callers that
/// pick a law at run time.
///
/// Implemented for every [`WindowLaw`]. A law that remembers what happened on its paths, which a
/// [`WindowLaw`] can't, implements it directly and keeps its memory by way of the `on_` methods:
/// they are told of every path, acknowledgement and loss event, also in slow start and recovery.
pub trait Law: Send + Debug {
    /// `I_r`, see [`WindowLaw::increase`]; it may be negative, and the controller's floor holds.
    fn increase(&self, paths: &[Path<f64>], r: usize) -> f64;
    /// `D_r`, see [`WindowLaw::decrease`].
    fn decrease(&self, paths: &[Path<f64>], r: usize) -> f64;
    /// The law's name in the registry.
    fn name(&self) -> &'static str;
    /// See [`WindowLaw::min_ssthresh`].
    fn min_ssthresh(&self, paths: usize) -> f64;

    /// A path was added behind the others; its packets have `packet_size` bytes.
    #[inline]
    fn on_path_added(&mut self, packet_size: u32) {
        let _ = packet_size;
    }
    /// Path `r` was removed, and the last one has taken its place ([`Vec::swap_remove`]).
    #[inline]
    fn on_path_removed(&mut self, r: usize) {
        let _ = r;
    }
    /// Path `r`'s packets have `bytes` bytes from now on.
    #[inline]
    fn on_packet_size(&mut self, r: usize, bytes: u32) {
        let _ = (r, bytes);
    }
    /// `packets` of path `r`, in its own size, were acknowledged, and its round-trip time is `rtt`
    /// seconds now.
    #[inline]
    fn on_acked(&mut self, r: usize, packets: f64, rtt: f64) {
        let _ = (r, packets, rtt);
    }
    /// Path `r` has a loss event; comes before [`decrease`](Self::decrease) is asked.
    #[inline]
    fn on_lost(&mut self, r: usize) {
        let _ = r;
    }
    /// `packets` of path `r` came marked Congestion Experienced; comes before the
    /// [`on_acked`](Self::on_acked) that counts them.
    #[inline]
    fn on_marked(&mut self, r: usize, packets: f64) {
        let _ = (r, packets);
    }
    /// Path `r` has a loss event by marks alone; comes before [`decrease`](Self::decrease) is
    /// asked.
    #[inline]
    fn on_cut_by_marks(&mut self, r: usize) {
        self.on_lost(r);
    }
    /// A round trip's worth of path `r`'s packets was acknowledged.
    #[inline]
    fn on_round_end(&mut self, r: usize) {
        let _ = r;
    }
    /// Whether packets that weren't marked let the window grow also in the round trip after a cut
    /// by marks, and those that were marked never do.
    #[inline]
    fn grows_between_marks(&self) -> bool {
        false
    }
    /// Path `r`'s last loss event was none: its packets came late.
    #[inline]
    fn on_spurious_loss(&mut self, r: usize) {
        let _ = r;
    }
}

impl<L: WindowLaw + Send + Debug> Law for L {
    #[inline]
    fn increase(&self, paths: &[Path<f64>], r: usize) -> f64 {
        WindowLaw::increase(self, paths, r)
    }
    #[inline]
    fn decrease(&self, paths: &[Path<f64>], r: usize) -> f64 {
        WindowLaw::decrease(self, paths, r)
    }
    fn name(&self) -> &'static str {
        WindowLaw::name(self)
    }
    fn min_ssthresh(&self, paths: usize) -> f64 {
        WindowLaw::min_ssthresh(self, paths)
    }
}

impl Law for Box<dyn Law> {
    fn increase(&self, paths: &[Path<f64>], r: usize) -> f64 {
        (**self).increase(paths, r)
    }
    fn decrease(&self, paths: &[Path<f64>], r: usize) -> f64 {
        (**self).decrease(paths, r)
    }
    fn name(&self) -> &'static str {
        (**self).name()
    }
    fn min_ssthresh(&self, paths: usize) -> f64 {
        (**self).min_ssthresh(paths)
    }
    fn on_path_added(&mut self, packet_size: u32) {
        (**self).on_path_added(packet_size);
    }
    fn on_path_removed(&mut self, r: usize) {
        (**self).on_path_removed(r);
    }
    fn on_packet_size(&mut self, r: usize, bytes: u32) {
        (**self).on_packet_size(r, bytes);
    }
    fn on_acked(&mut self, r: usize, packets: f64, rtt: f64) {
        (**self).on_acked(r, packets, rtt);
    }
    fn on_lost(&mut self, r: usize) {
        (**self).on_lost(r);
    }
    fn on_marked(&mut self, r: usize, packets: f64) {
        (**self).on_marked(r, packets);
    }
    fn on_cut_by_marks(&mut self, r: usize) {
        (**self).on_cut_by_marks(r);
    }
    fn on_round_end(&mut self, r: usize) {
        (**self).on_round_end(r);
    }
    fn grows_between_marks(&self) -> bool {
        (**self).grows_between_marks()
    }
    fn on_spurious_loss(&mut self, r: usize) {
        (**self).on_spurious_loss(r);
    }
}

/// The larger of two scalars, by their real parts.
#[inline]
pub(crate) fn larger<D: Scalar>(a: D, b: D) -> D {
    if b.re() > a.re() { b } else { a }
}

/// The smaller of two scalars, by their real parts.
#[inline]
pub(crate) fn smaller<D: Scalar>(a: D, b: D) -> D {
    if b.re() < a.re() { b } else { a }
}

/// `S = Σ x_k`, in packets/s.
#[inline]
pub(crate) fn total_rate<D: Scalar>(paths: &[Path<D>]) -> D {
    paths.iter().fold(D::from(0.0), |sum, p| sum + p.rate())
}

/// `max_k{x_k}`, in packets/s.
#[inline]
pub(crate) fn largest_rate<D: Scalar>(paths: &[Path<D>]) -> D {
    paths.iter().map(Path::rate).fold(D::from(0.0), larger)
}

//! Which paths share a bottleneck, and what each bottleneck carries: seen from the sender, by
//! losses and one-way delays.
//!
//! [`Watched`] is a controller around another one that looks on: per path it keeps the statistics
//! of RFC 8382 ([`Estimate`]) and mPath's loss intervals. [`Watched::groups`] joins the paths that
//! one of two signs holds together:
//!
//! * **Losses.** mPath (Section III-E) takes losses of two paths for correlated if their intervals,
//!   each from the sending of the last lost packet to the loss's detection, overlap. One overlap
//!   may be chance, the more so the more a path loses; so the overlaps of two paths have to be more
//!   than chance explains (binomial, [`BottleneckConfig::chance`]).
//! * **Delays.** RFC 8382 compares summary statistics of the one-way delay (skewness, variability,
//!   frequency of oscillation), because its flows may end at different hosts and can't exchange
//!   more. Here one sender sees all paths on one clock, so the delays themselves are compared: the
//!   interval means of two paths behind one queue rise and fall together, from each interval to the
//!   next. In simulated runs of eight seconds the summary statistics told paths of one link apart;
//!   they are kept to say whether a path is congested. It is the changes that are compared: the
//!   means themselves correlate between links that are merely alike.

mod estimator;
mod grouping;
mod losses;
mod watched;

use std::time::Duration;

pub use estimator::Estimate;
pub(crate) use grouping::{changes, in_common, joined};
pub use watched::{PathRecord, Watched};

/// Thresholds and intervals; the defaults are those that RFC 8382, Section 3, recommends, but for
/// `similarity` and `chance`, which it doesn't have.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct BottleneckConfig {
    /// `T`, the interval over which delays are averaged. A round trip at the least, or the sender's
    /// own rhythm is all that is seen.
    pub interval: Duration,
    /// `M`, intervals in the mean that skewness is measured against.
    pub skew_intervals: usize,
    /// `N`, intervals over which oscillations and losses are counted.
    pub intervals: usize,
    /// `c_h`: a path with a skewness below is congested, if it was before. It was: whoever looks
    /// here fills the paths, and slow start ends in a full queue. After it, a window that saws
    /// evens the skewness out, around `c_s` = 0.1.
    pub congested: f64,
    /// `p_l`: a path that loses a larger share of its packets is congested.
    pub lossy: f64,
    /// `p_v`: the mean has to move so many mean deviations away for an oscillation to count.
    pub significant: f64,
    /// Correlation of the changes of the interval means, from -1 to 1, from which on two paths'
    /// delays count as the same queue's: 0.7 is about where half of the variance is in common.
    pub similarity: f64,
    /// Overlaps of loss intervals that chance explains with this probability, or a larger one, say
    /// nothing.
    pub chance: f64,
}

impl Default for BottleneckConfig {
    fn default() -> Self {
        Self {
            interval: INTERVAL,
            skew_intervals: 30,
            intervals: 50,
            congested: 0.3,
            lossy: 0.05,
            significant: 0.7,
            similarity: 0.7,
            chance: 0.001,
        }
    }
}

/// RFC 8382's `T`.
pub(crate) const INTERVAL: Duration = Duration::from_millis(350);

/// Intervals with delays below which nothing is said about a path's oscillation or its likeness to
/// another's.
pub(crate) const ENOUGH_INTERVALS: usize = 10;

#[cfg(test)]
mod tests;

//! What all controllers have in common to choose, and the bounds of windows.

use manyway_units::Time;

use crate::controller::Ack;

/// How a path's window grows until its first loss.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum SlowStartKind {
    /// HyStart++ (RFC 9406): leaves slow start when the round-trip time grows, by way of
    /// conservative slow start. Growth also rests where a queue shows within a round, and is over
    /// if the queue stays. Overshoots the path far less.
    #[default]
    HyStart,
    /// Slow start until the first loss (RFC 5681 §3.1).
    Standard,
}

/// What an acknowledgement of several packets is worth to a growing window.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Growth {
    /// Every packet that it acknowledges (RFC 3465), so that growth doesn't depend on how often the
    /// receiver acknowledges.
    #[default]
    Bytes,
    /// One packet, however many it acknowledges (RFC 5681 §3.1, and Linux before 4.0): with an
    /// acknowledgement for every second packet windows grow half as fast in congestion avoidance,
    /// and by half instead of twofold per round trip in slow start.
    Acks,
}

/// What all controllers have in common to choose.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Options {
    /// The initial slow start. After a timeout it is always the standard one (RFC 9406 §4.2).
    pub slow_start: SlowStartKind,
    /// The smallest window and slow-start threshold, in packets; values below 1 and NaN count as 1.
    /// `None` takes the law's own, [`crate::WindowLaw::min_ssthresh`]: 2, or 1 for Balia and some
    /// others with more than one path.
    pub window_floor: Option<f64>,
    /// The smallest slow-start threshold, in packets, where it is to be above the smallest window:
    /// a window that was cut to less gets back there by slow start, as TCP's does in ns-2 (2, with
    /// windows down to 1).
    pub threshold_floor: Option<f64>,
    /// The slow-start threshold at the start, in packets; `None` for none before the first loss.
    /// BBR has none at all.
    pub initial_threshold: Option<f64>,
    /// What an acknowledgement of several packets counts for.
    pub growth: Growth,
    /// Windows also grow by acknowledgements of what was sent before the last cut, as the laws are
    /// printed: an increase for each acknowledgement, a decrease for each loss. RFC 9002 §7.3.2 and
    /// TCP wait until recovery is over, and so does the default.
    pub growth_in_recovery: bool,
}

impl Options {
    /// These options with another slow start.
    #[must_use]
    pub fn with_slow_start(mut self, kind: SlowStartKind) -> Self {
        self.slow_start = kind;
        self
    }

    /// These options with the window floor set to `packets`.
    #[must_use]
    pub fn with_window_floor(mut self, packets: f64) -> Self {
        self.window_floor = Some(packets);
        self
    }

    /// These options with the slow-start threshold's floor set to `packets`.
    #[must_use]
    pub fn with_threshold_floor(mut self, packets: f64) -> Self {
        self.threshold_floor = Some(packets);
        self
    }

    /// These options with a slow-start threshold of so many packets at the start.
    #[must_use]
    pub fn with_initial_threshold(mut self, packets: f64) -> Self {
        self.initial_threshold = Some(packets);
        self
    }

    /// These options with another way to count acknowledgements.
    #[must_use]
    pub fn with_growth(mut self, growth: Growth) -> Self {
        self.growth = growth;
        self
    }

    /// These options with windows that grow in recovery too, or that wait until it is over.
    #[must_use]
    pub fn with_growth_in_recovery(mut self, grows: bool) -> Self {
        self.growth_in_recovery = grows;
        self
    }

    /// Whether a window that was last cut at `cut` may grow by this acknowledgement; never by the
    /// one that brought the cut.
    #[inline]
    pub(crate) fn grows_by(&self, ack: &Ack, cut: Option<Time>) -> bool {
        let grows = !ack.in_recovery || self.growth_in_recovery && cut != Some(ack.now);
        grows && !ack.app_limited
    }

    /// What an acknowledgement of so many packets counts for when a window grows, in packets.
    #[inline]
    pub(crate) fn counted(&self, packets: f64) -> f64 {
        match self.growth {
            Growth::Bytes => packets,
            Growth::Acks => packets.min(1.0),
        }
    }

    /// The floor in force where the law's own would be `natural`.
    pub(crate) fn floor(&self, natural: f64) -> f64 {
        bounded(self.window_floor.unwrap_or(natural))
    }
}

/// Packets have `bytes` bytes from now on: sets `size` and converts `window`, as far as its floor
/// allows. How many of them one of before is.
pub(crate) fn resize(size: &mut f64, window: &mut f64, bytes: u32, floor: f64) -> f64 {
    let factor = *size / f64::from(bytes.max(1));
    *size = f64::from(bytes.max(1));
    *window = (*window * factor).clamp(floor, MAX_WINDOW);
    factor
}

/// No window grows beyond this many packets: 20 GB in flight, and far from where f64 loses packets.
pub(crate) const MAX_WINDOW: f64 = 16_777_216.0;

/// The nearest window that any path may have; 1 for NaN.
pub(crate) fn bounded(window: f64) -> f64 {
    if window.is_nan() {
        1.0
    } else {
        window.clamp(1.0, MAX_WINDOW)
    }
}

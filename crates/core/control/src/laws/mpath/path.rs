//! One path of mPath: its window, its last loss interval and its turn. It knows no other path.

use std::time::Duration;

use manyway_units::Time;

use crate::controller::{Loss, NewPath, PathVerdict, Target};
use crate::options::{MAX_WINDOW, Options, bounded, resize};
use crate::slow_start::SlowStart;

/// An acknowledgement counts as recent for so many round-trip times.
const RECENT_RTTS: u32 = 2;

/// One path as mPath sees it.
#[derive(Clone, Debug)]
pub(super) struct MpathPath {
    /// Packets of this path's size.
    pub(super) window: f64,
    /// Bytes of a packet.
    pub(super) size: f64,
    pub(super) rtt: Duration,
    /// When the last acknowledgement that lets the window grow arrived.
    pub(super) acknowledged: Option<Time>,
    /// The direct path's; a proxied path has none.
    pub(super) slow_start: SlowStart,
    /// The loss interval; `None` for a path that hasn't met loss, and for the direct one after a
    /// timeout.
    pub(super) interval: Option<Interval>,
    met_loss: bool,
    /// When the window was last cut.
    pub(super) cut_at: Option<Time>,
    /// The window just before the last loss, packets.
    pub(super) before: f64,
    /// The last loss has led to load aggregation.
    pub(super) aggregated: bool,
    /// What of this path's load that has given to the direct path, bytes.
    pub(super) given: f64,
    /// What else the last loss has changed.
    earlier: Option<Earlier>,
    /// Growth that the path is owed, packets; negative if it has had more than its share.
    pub(super) turn: f64,
    pub(super) verdict: PathVerdict,
}

/// A path's state before its last loss, its window aside.
#[derive(Clone, Debug)]
struct Earlier {
    slow_start: SlowStart,
    interval: Option<Interval>,
    met_loss: bool,
    verdict: PathVerdict,
}

/// From the sending of the last lost packet to the detection of its loss, both ends included.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Interval {
    sent: Time,
    detected: Time,
}

impl Interval {
    pub(super) fn of(loss: &Loss) -> Self {
        Interval {
            sent: loss.sent.min(loss.now),
            detected: loss.now,
        }
    }

    pub(super) fn overlaps(self, other: Interval) -> bool {
        self.sent <= other.detected && other.sent <= self.detected
    }
}

impl MpathPath {
    pub(super) fn new(path: &NewPath, options: &Options) -> Self {
        MpathPath {
            window: bounded(path.initial_window),
            size: f64::from(path.packet_size.max(1)),
            rtt: path.initial_rtt,
            acknowledged: None,
            slow_start: SlowStart::of(options),
            interval: None,
            met_loss: false,
            cut_at: None,
            before: 0.0,
            aggregated: false,
            given: 0.0,
            earlier: None,
            turn: 0.0,
            verdict: PathVerdict::Keep,
        }
    }

    #[inline]
    pub(super) fn bytes(&self) -> f64 {
        self.window * self.size
    }

    /// Never met loss.
    #[inline]
    pub(super) fn is_fresh(&self) -> bool {
        !self.met_loss
    }

    /// Has recently received an acknowledgement.
    pub(super) fn is_ready(&self, now: Time) -> bool {
        let recent = self.rtt.saturating_mul(RECENT_RTTS);
        self.acknowledged.is_some_and(|at| now.since(at) <= recent)
    }

    /// Whether this proxied path's last loss calls for aggregation, given the direct path's loss.
    pub(super) fn may_aggregate(&self, direct: Interval) -> bool {
        !self.aggregated && self.interval.is_some_and(|own| own.overlaps(direct))
    }

    #[inline]
    pub(super) fn grow(&mut self, bytes: f64) {
        self.window = (self.window + bytes / self.size).min(MAX_WINDOW);
    }

    pub(super) fn set_window(&mut self, window: f64, target: Target, floor: f64) {
        self.slow_start.resume(target);
        self.window = bounded(window).max(floor);
    }

    /// Growth of the direct path, which has its own in slow start.
    #[inline]
    pub(super) fn grow_avoiding(&mut self, bytes: f64) {
        if !self.slow_start.active(self.window) {
            self.grow(bytes);
        }
    }

    /// Packets of another size from now on, as many bytes.
    pub(super) fn resize(&mut self, bytes: u32, floor: f64) {
        let factor = resize(&mut self.size, &mut self.window, bytes, floor);
        self.before *= factor;
        self.turn *= factor;
        self.slow_start.rescale(factor);
        if let Some(earlier) = &mut self.earlier {
            earlier.slow_start.rescale(factor);
        }
    }

    /// A loss: half the window.
    pub(super) fn cut(&mut self, floor: f64, interval: Interval) {
        self.earlier = Some(Earlier {
            slow_start: self.slow_start.clone(),
            interval: self.interval,
            met_loss: self.met_loss,
            verdict: self.verdict,
        });
        self.before = self.window;
        self.given = 0.0;
        self.window = (self.window / 2.0).max(floor);
        self.interval = Some(interval);
        self.cut_at = Some(interval.detected);
        self.met_loss = true;
        self.aggregated = false;
    }

    /// The last loss was none. What this path has given to the direct one since, in bytes, is to be
    /// taken back.
    pub(super) fn restore(&mut self) -> Option<f64> {
        let earlier = self.earlier.take()?;
        self.window = self.window.max(self.before).min(MAX_WINDOW);
        self.slow_start = earlier.slow_start;
        self.interval = earlier.interval;
        self.met_loss = earlier.met_loss;
        self.verdict = earlier.verdict;
        Some(std::mem::take(&mut self.given))
    }

    pub(super) fn time_out(&mut self, floor: f64, is_direct: bool) {
        if is_direct {
            self.slow_start.restart(self.window, floor);
        } else {
            self.verdict = PathVerdict::TimedOut;
        }
        self.window = floor;
        self.interval = None;
        self.met_loss = true;
    }

    /// A proxied path becomes the direct one, and stays in congestion avoidance.
    pub(super) fn promote(&mut self, floor: f64) {
        self.window = self.window.max(floor);
        self.slow_start.set_threshold(self.window);
        self.interval = None;
        self.verdict = PathVerdict::Keep;
    }
}

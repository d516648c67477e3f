//! What is counted while a run goes on.

use manyway_units::Time;

/// Counters of a subflow that only grow: differences between two moments are what happened between
/// them.
#[derive(Debug, Copy, Clone, Default)]
pub(crate) struct Tally {
    /// Packets of data acknowledged for the first time.
    pub(crate) delivered: u64,
    /// Packets × nanoseconds of congestion window.
    pub(crate) window_area: f64,
    /// Nanoseconds during which the subflow was there.
    pub(crate) active: u64,
    /// Sum (ns) and number of round-trip time samples.
    pub(crate) rtt_sum: u64,
    pub(crate) rtt_samples: u64,
    /// How often it joined.
    pub(crate) openings: u64,
}

/// A subflow's counters, and the window as of the last change.
#[derive(Debug, Copy, Clone)]
pub(crate) struct Meter {
    tally: Tally,
    window: f64,
    /// [`Time::MAX`] while the subflow isn't there: time doesn't count.
    since: Time,
}

impl Meter {
    /// The meter of a subflow that isn't there yet.
    pub(crate) fn new() -> Self {
        Self {
            tally: Tally::default(),
            window: f64::NAN,
            since: Time::MAX,
        }
    }

    /// The subflow joins with this window, for the first time or once more.
    pub(crate) fn join(&mut self, now: Time, window: f64) {
        self.tally.openings += 1;
        self.window = window;
        self.since = now;
    }

    /// The subflow is closed and may be opened later: its window is 0 until then.
    pub(crate) fn close(&mut self, now: Time) {
        self.end(now);
        self.window = 0.0;
    }

    /// The window is this from now on.
    #[inline(always)]
    pub(crate) fn window(&mut self, now: Time, window: f64) {
        if self.is_over() {
            return;
        }
        let span = now.as_nanos().saturating_sub(self.since.as_nanos());
        // Signed, because unsigned conversions are slow.
        self.tally.window_area += self.window * (span as i64 as f64);
        self.tally.active += span;
        self.since = now;
        self.window = window;
    }

    /// The subflow has left, or its flow is over.
    pub(crate) fn end(&mut self, now: Time) {
        self.window(now, f64::NAN);
        self.window = f64::NAN;
        self.since = Time::MAX;
    }

    /// Whether it hasn't begun, or has ended.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.since == Time::MAX
    }

    /// The window, packets; NaN before it joins and once it is over.
    pub(crate) fn current(&self) -> f64 {
        self.window
    }

    #[inline]
    pub(crate) fn delivered(&mut self, packets: u64) {
        self.tally.delivered += packets;
    }

    #[inline(always)]
    pub(crate) fn rtt(&mut self, nanos: u64) {
        if self.is_over() {
            return;
        }
        self.tally.rtt_sum += nanos;
        self.tally.rtt_samples += 1;
    }

    /// The counters as of `now`.
    pub(crate) fn read(&mut self, now: Time) -> Tally {
        self.window(now, self.window);
        self.tally
    }
}

impl Tally {
    /// What happened since `earlier`.
    pub(crate) fn since(&self, earlier: &Tally) -> Tally {
        Tally {
            delivered: self.delivered - earlier.delivered,
            window_area: self.window_area - earlier.window_area,
            active: self.active - earlier.active,
            rtt_sum: self.rtt_sum - earlier.rtt_sum,
            rtt_samples: self.rtt_samples - earlier.rtt_samples,
            openings: self.openings - earlier.openings,
        }
    }

    /// Time average of the window, packets; NaN if there was no time.
    pub(crate) fn mean_window(&self) -> f64 {
        if self.active == 0 {
            f64::NAN
        } else {
            self.window_area / self.active as f64
        }
    }

    /// Mean of the round-trip time samples, seconds; NaN if there was none.
    pub(crate) fn mean_rtt(&self) -> f64 {
        if self.rtt_samples == 0 {
            f64::NAN
        } else {
            self.rtt_sum as f64 / self.rtt_samples as f64 * 1e-9
        }
    }
}

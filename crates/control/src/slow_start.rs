use std::time::Duration;

use crate::controller::Ack;
use crate::options::{MAX_WINDOW, SlowStartKind};

/// RFC 9406 §4.3.
const MIN_RTT_THRESH: u64 = 4_000_000;
const MAX_RTT_THRESH: u64 = 16_000_000;
const MIN_RTT_DIVISOR: u64 = 8;
const N_RTT_SAMPLE: f64 = 8.0;
const CSS_GROWTH_DIVISOR: f64 = 4.0;
const CSS_ROUNDS: u32 = 5;

/// One path's slow start and its threshold; shared by all controllers.
///
/// HyStart++ counts eight round-trip samples before it judges a round, with TCP's delayed
/// acknowledgements in mind: one per two packets. Our receiver acknowledges up to ten packets at
/// once, so a sample here counts for half the packets it acknowledges, but at least for one.
/// The limit L on the growth per acknowledgement is infinite, as for a paced sender.
#[derive(Clone, Debug)]
pub(crate) struct SlowStart {
    threshold: f64,
    phase: Phase,
    /// Smallest round-trip times of the last and the current round, ns; `u64::MAX` for none.
    last_min: u64,
    current_min: u64,
    samples: f64,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Phase {
    /// No delay watched: the `standard` kind, and every slow start but the first.
    Standard,
    /// HyStart++ in slow start.
    Watching,
    /// Conservative slow start, entered at this smallest round-trip time (ns), with rounds to go.
    Conservative { baseline: u64, rounds_left: u32 },
}

impl SlowStart {
    pub(crate) fn new(kind: SlowStartKind) -> Self {
        SlowStart {
            threshold: f64::INFINITY,
            phase: match kind {
                SlowStartKind::HyStart => Phase::Watching,
                SlowStartKind::Standard => Phase::Standard,
            },
            last_min: u64::MAX,
            current_min: u64::MAX,
            samples: 0.0,
        }
    }

    #[inline]
    pub(crate) fn active(&self, window: f64) -> bool {
        window < self.threshold
    }

    /// The slow-start threshold, packets; infinite before the first cut.
    pub(crate) fn threshold(&self) -> f64 {
        self.threshold
    }

    /// A cut (or an outside decision) sets the threshold, and ends HyStart++ for good (RFC 9406 §4.2).
    pub(crate) fn set_threshold(&mut self, threshold: f64) {
        self.threshold = threshold;
        self.phase = Phase::Standard;
    }

    /// Slow start again from the minimum. The loss event that led to the timeout has set the
    /// threshold; if nobody reported one, half the window it is (RFC 5681 eq. 4).
    pub(crate) fn restart(&mut self, window: f64, floor: f64) {
        let threshold = if self.threshold.is_finite() {
            self.threshold
        } else {
            window / 2.0
        };
        self.set_threshold(threshold.max(floor));
    }

    /// The window after `ack`, in slow start (the caller has asked `active`); not beyond the threshold.
    pub(crate) fn grow(&mut self, window: f64, ack: &Ack) -> f64 {
        let growth = match self.phase {
            Phase::Conservative { .. } => ack.packets / CSS_GROWTH_DIVISOR,
            _ => ack.packets,
        };
        (window + growth).min(self.threshold).min(MAX_WINDOW)
    }

    /// Watches the round-trip times of slow start (RFC 9406 §4.2).
    #[inline]
    pub(crate) fn on_ack(&mut self, ack: &Ack) {
        if self.phase != Phase::Standard && ack.rtt_sampled {
            self.on_sample(ack.rtt, ack.packets);
        }
    }

    /// The end of a round. When conservative slow start has run its course, the threshold becomes
    /// `window`: congestion avoidance begins.
    pub(crate) fn on_round_end(&mut self, window: f64) {
        if self.phase == Phase::Standard {
            return;
        }
        self.last_min = self.current_min;
        self.current_min = u64::MAX;
        self.samples = 0.0;
        if let Phase::Conservative { rounds_left, .. } = &mut self.phase {
            *rounds_left -= 1;
            if *rounds_left == 0 {
                self.set_threshold(window);
            }
        }
    }

    fn on_sample(&mut self, rtt: Duration, packets: f64) {
        let rtt = u64::try_from(rtt.as_nanos()).unwrap_or(u64::MAX - 1);
        self.current_min = self.current_min.min(rtt);
        self.samples += (packets / 2.0).max(1.0);
        if self.samples < N_RTT_SAMPLE {
            return;
        }
        match self.phase {
            Phase::Watching if self.last_min != u64::MAX => {
                let threshold =
                    (self.last_min / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH);
                if self.current_min >= self.last_min.saturating_add(threshold) {
                    self.phase = Phase::Conservative {
                        baseline: self.current_min,
                        rounds_left: CSS_ROUNDS,
                    };
                }
            }
            // The delay has gone down again: leaving was premature.
            Phase::Conservative { baseline, .. } if self.current_min < baseline => {
                self.phase = Phase::Watching;
            }
            _ => {}
        }
    }
}

//! Slow start of one path, with HyStart++. It owns the threshold, never the window.

use crate::controller::{Ack, Target};
use crate::options::{MAX_WINDOW, Options, SlowStartKind, bounded};
use crate::rtt::nanos;

/// RFC 9406 §4.3.
const MIN_RTT_THRESH: u64 = 4_000_000;
const MAX_RTT_THRESH: u64 = 16_000_000;
const MIN_RTT_DIVISOR: u64 = 8;
const N_RTT_SAMPLE: f64 = 8.0;
const CSS_GROWTH_DIVISOR: f64 = 4.0;
const CSS_ROUNDS: u32 = 5;
/// Conservative rounds once a path carries what it is known for: as much as one of slow start.
const KNOWN_ROUNDS: u32 = 3;
/// Within a round, a sixth more than the smallest round-trip time of the last one is a queue, but
/// 3 ms at least, and a sixth more of jitter than that round had. Lower bars make those leave too
/// early that join others.
const QUEUE_DIVISOR: u64 = 6;
const MIN_QUEUE: u64 = 3_000_000;

/// One path's slow start and its threshold; shared by all controllers.
///
/// HyStart++ counts eight round-trip samples before it judges a round, with TCP's delayed
/// acknowledgements in mind: one per two packets. Our receiver acknowledges up to ten packets at
/// once, so a sample here counts for half the packets it acknowledges, but at least for one.
/// The limit L on the growth per acknowledgement is infinite, as for a paced sender.
///
/// HyStart++ compares the smallest round-trip times of rounds. So it sees a queue only once one
/// stands when a round begins; by then the window is twice what the path holds and more. But a
/// window that leaves faster than the bottleneck takes it has a queue at its end a round before.
/// When eight samples in a row show that, growth rests until a whole round has shown whether the
/// queue stays. If it does, slow start is over; if not, it goes on.
#[derive(Clone, Debug)]
pub(crate) struct SlowStart {
    threshold: f64,
    /// An earlier path carried as much. Beyond it, slow start is conservative for so many rounds:
    /// packets that were spread over a round trip leave no queue at its end to be noticed.
    known: f64,
    beyond_known: u32,
    /// The smallest threshold, packets.
    least: f64,
    /// Nothing where no delay is watched: the `standard` kind, and every slow start but the first.
    hystart: Option<Box<HyStart>>,
}

/// What HyStart++ has seen, and concludes from it.
#[derive(Clone, Debug)]
struct HyStart {
    state: HyStartState,
    last: Seen,
    current: Seen,
    /// Up to eight samples of the current round.
    batch: Seen,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum HyStartState {
    /// In slow start.
    Watching,
    /// Conservative slow start, entered at this smallest round-trip time (ns), with rounds to go.
    Conservative { baseline: u64, rounds_left: u32 },
    /// The path seems full: within the current round, or since before it. It is if all round-trip
    /// times of a whole round are at least `bar`, ns.
    Resting { bar: u64, whole: bool },
}

/// Round-trip times, ns.
#[derive(Copy, Clone, Debug)]
struct Seen {
    min: u64,
    max: u64,
    samples: f64,
}

impl Seen {
    const NOTHING: Self = Seen {
        min: u64::MAX,
        max: 0,
        samples: 0.0,
    };

    fn add(&mut self, rtt: u64, samples: f64) {
        self.min = self.min.min(rtt);
        self.max = self.max.max(rtt);
        self.samples += samples;
    }

    fn are_enough(&self) -> bool {
        self.samples >= N_RTT_SAMPLE
    }

    /// A round whose smallest one is this has a queue, if these are those of the round before
    /// (RFC 9406 §4.2).
    fn longer(&self) -> u64 {
        let more = (self.min / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH);
        self.min.saturating_add(more)
    }

    /// The same for eight samples within a round: longer than the longest of the round before, too,
    /// since jitter holds up packets in a row.
    fn much_longer(&self) -> u64 {
        let more = (self.min / QUEUE_DIVISOR).max(MIN_QUEUE);
        let jitter = self.max.saturating_sub(self.min);
        let longest = self.max.saturating_add(jitter / QUEUE_DIVISOR);
        self.min.saturating_add(more).max(longest)
    }
}

impl SlowStart {
    pub(crate) fn new(kind: SlowStartKind) -> Self {
        SlowStart {
            threshold: f64::INFINITY,
            known: f64::INFINITY,
            beyond_known: 0,
            least: 0.0,
            hystart: (kind == SlowStartKind::HyStart).then(Box::default),
        }
    }

    /// Of the kind and with the thresholds that the options say.
    pub(crate) fn of(options: &Options) -> Self {
        SlowStart {
            least: options.threshold_floor.map_or(0.0, bounded),
            threshold: options.initial_threshold.map_or(f64::INFINITY, bounded),
            ..Self::new(options.slow_start)
        }
    }

    #[inline]
    pub(crate) fn active(&self, window: f64) -> bool {
        window < self.threshold
    }

    /// The slow-start threshold, packets; infinite before the first cut.
    #[cfg(test)]
    pub(crate) fn threshold(&self) -> f64 {
        self.threshold
    }

    #[cfg(test)]
    fn state(&self) -> Option<HyStartState> {
        self.hystart.as_ref().map(|hystart| hystart.state)
    }

    /// A cut (or an outside decision) sets the threshold, and ends HyStart++ for good (RFC 9406
    /// §4.2).
    pub(crate) fn set_threshold(&mut self, threshold: f64) {
        self.threshold = threshold.max(self.least);
        self.hystart = None;
    }

    /// The window was set.
    pub(crate) fn resume(&mut self, target: Target) {
        match target {
            Target::Unchanged => {}
            Target::Known(window) => (self.known, self.beyond_known) = (window, KNOWN_ROUNDS),
            Target::Threshold(threshold) => self.set_threshold(threshold),
        }
    }

    /// Packets are of another size from now on: one of before is `factor` of those.
    pub(crate) fn rescale(&mut self, factor: f64) {
        self.threshold = (self.threshold * factor).max(self.least);
        self.known *= factor;
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

    /// The window after an acknowledgement that counts for so many packets, in slow start (the
    /// caller has asked `active`); not beyond the threshold.
    pub(crate) fn grow(&mut self, window: f64, packets: f64) -> f64 {
        let growth = match self.hystart.as_ref().map(|hystart| hystart.state) {
            Some(HyStartState::Conservative { .. }) => packets / CSS_GROWTH_DIVISOR,
            Some(HyStartState::Resting { .. }) => 0.0,
            _ if window >= self.known && self.beyond_known > 0 => packets / CSS_GROWTH_DIVISOR,
            Some(HyStartState::Watching) | None => packets,
        };
        (window + growth).min(self.threshold).min(MAX_WINDOW)
    }

    /// Watches the round-trip times of slow start (RFC 9406 §4.2).
    #[inline(always)]
    pub(crate) fn on_ack(&mut self, ack: &Ack) {
        if let Some(hystart) = self.hystart.as_mut().filter(|_| ack.rtt_sampled) {
            hystart.on_sample(nanos(ack.rtt), ack.packets, ack.app_limited);
        }
    }

    /// The end of a round. When the path is known to be full, or conservative slow start has run
    /// its course, the threshold becomes `window`: congestion avoidance begins.
    pub(crate) fn on_round_end(&mut self, window: f64) {
        if window >= self.known {
            self.beyond_known = self.beyond_known.saturating_sub(1);
        }
        if let Some(hystart) = &mut self.hystart
            && hystart.on_round_end()
        {
            self.set_threshold(window);
        }
    }
}

impl Default for HyStart {
    fn default() -> Self {
        HyStart {
            state: HyStartState::Watching,
            last: Seen::NOTHING,
            current: Seen::NOTHING,
            batch: Seen::NOTHING,
        }
    }
}

impl HyStart {
    /// The end of a round; whether slow start ends with it.
    fn on_round_end(&mut self) -> bool {
        match &mut self.state {
            HyStartState::Watching => {}
            HyStartState::Conservative { rounds_left, .. } => {
                *rounds_left -= 1;
                if *rounds_left == 0 {
                    return true;
                }
            }
            HyStartState::Resting { whole, .. } if !*whole => *whole = true,
            HyStartState::Resting { bar, .. } => {
                if self.current.samples > 0.0 && self.current.min >= *bar {
                    return true;
                }
                self.state = HyStartState::Watching;
            }
        }
        self.last = self.current;
        self.current = Seen::NOTHING;
        self.batch = Seen::NOTHING;
        false
    }

    /// A round-trip time, ns, of an acknowledgement of so many packets.
    fn on_sample(&mut self, rtt: u64, packets: f64, app_limited: bool) {
        let samples = (packets / 2.0).max(1.0);
        self.current.add(rtt, samples);
        self.batch.add(rtt, samples);
        let bar = self.last.much_longer();
        let queued = self.batch.are_enough() && self.batch.min >= bar;
        if self.batch.are_enough() {
            self.batch = Seen::NOTHING;
        }
        let (judged, min) = (self.current.are_enough(), self.current.min);
        self.state = match self.state {
            HyStartState::Watching if judged && min >= self.last.longer() => {
                HyStartState::Conservative {
                    baseline: min,
                    rounds_left: CSS_ROUNDS,
                }
            }
            // The delay has gone down again: leaving was premature.
            HyStartState::Conservative { baseline, .. } if judged && min < baseline => {
                HyStartState::Watching
            }
            HyStartState::Watching | HyStartState::Conservative { .. }
                if queued && !app_limited =>
            {
                HyStartState::Resting { bar, whole: false }
            }
            state => state,
        };
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use manyway_units::Time;

    use super::*;
    use crate::controller::Slot;

    fn ack(rtt_ms: f64, packets: f64) -> Ack {
        let rtt = Duration::from_secs_f64(rtt_ms / 1e3);
        Ack {
            slot: Slot(0),
            now: Time::ZERO,
            packets,
            rtt,
            rtt_sampled: true,
            smoothed_rtt: rtt,
            min_rtt: rtt,
            sent: Time::ZERO,
            received: None,
            app_limited: false,
            in_recovery: false,
            delivery: None,
        }
    }

    /// One round of `acks` single-packet acknowledgements; the window after it.
    fn round(slow: &mut SlowStart, mut window: f64, acks: usize, rtt_ms: f64) -> f64 {
        for _ in 0..acks {
            let ack = ack(rtt_ms, 1.0);
            slow.on_ack(&ack);
            window = slow.grow(window, ack.packets);
        }
        slow.on_round_end(window);
        window
    }

    #[test]
    fn grows_by_what_is_acknowledged_up_to_the_threshold() {
        let mut slow = SlowStart::new(SlowStartKind::Standard);
        assert_eq!(slow.grow(10.0, 10.0), 20.0);
        slow.set_threshold(25.0);
        assert!(slow.active(20.0));
        assert_eq!(slow.grow(20.0, 10.0), 25.0);
        assert!(!slow.active(25.0));
    }

    #[test]
    fn conservative_for_five_rounds_after_the_delay_grew() {
        let mut slow = SlowStart::new(SlowStartKind::HyStart);
        let mut window = round(&mut slow, 10.0, 10, 40.0);
        assert_eq!(window, 20.0);
        // 40/8 = 5 ms is the threshold between 4 and 16: 44.9 doesn't reach it, 45 does.
        window = round(&mut slow, window, 20, 44.9);
        assert_eq!(window, 40.0);
        // Judged at the eighth sample: 8 packets at full growth less one, the rest at a quarter.
        window = round(&mut slow, window, 40, 44.9 + 5.7);
        assert_eq!(window, 40.0 + 7.0 + 33.0 / 4.0);
        for _ in 0..3 {
            window = round(&mut slow, window, 40, 55.0);
            assert!(slow.active(window));
        }
        window = round(&mut slow, window, 40, 55.0);
        assert!(!slow.active(window));
        assert_eq!(slow.threshold(), window);
    }

    #[test]
    fn resumes_when_the_delay_falls_again() {
        let mut slow = SlowStart::new(SlowStartKind::HyStart);
        let mut window = round(&mut slow, 10.0, 10, 40.0);
        window = round(&mut slow, window, 20, 46.0);
        assert!(matches!(
            slow.state(),
            Some(HyStartState::Conservative { .. })
        ));
        window = round(&mut slow, window, 20, 41.0);
        assert_eq!(slow.state(), Some(HyStartState::Watching));
        assert!(slow.active(window));
    }

    #[test]
    fn begins_with_the_threshold_of_the_options() {
        let mut slow = SlowStart::of(&Options::default().with_initial_threshold(32.0));
        assert!(slow.active(31.9) && !slow.active(32.0));
        assert_eq!(slow.grow(31.0, 10.0), 32.0);
        assert!(SlowStart::of(&Options::default()).active(1e6));
    }

    #[test]
    fn thresholds_are_clamped() {
        // 8 ms / 8 = 1 ms, but 4 at least; 400 ms / 8 = 50 ms, but 16 at most.
        for (base, below, above) in [(8.0, 11.9, 12.0), (400.0, 415.9, 416.0)] {
            let mut slow = SlowStart::new(SlowStartKind::HyStart);
            round(&mut slow, 10.0, 10, base);
            let mut calm = slow.clone();
            round(&mut calm, 20.0, 10, below);
            assert!(!matches!(
                calm.state(),
                Some(HyStartState::Conservative { .. })
            ));
            round(&mut slow, 20.0, 10, above);
            assert!(matches!(
                slow.state(),
                Some(HyStartState::Conservative { .. })
            ));
        }
    }

    #[test]
    fn two_acknowledgements_of_ten_are_eight_samples() {
        let mut slow = SlowStart::new(SlowStartKind::HyStart);
        round(&mut slow, 10.0, 10, 40.0);
        slow.on_ack(&ack(60.0, 10.0));
        assert_eq!(slow.state(), Some(HyStartState::Watching));
        slow.on_ack(&ack(60.0, 10.0));
        assert!(matches!(
            slow.state(),
            Some(HyStartState::Conservative { .. })
        ));
    }

    #[test]
    fn smoothed_times_are_no_samples() {
        let mut slow = SlowStart::new(SlowStartKind::HyStart);
        round(&mut slow, 10.0, 10, 40.0);
        for _ in 0..20 {
            slow.on_ack(&Ack {
                rtt_sampled: false,
                ..ack(60.0, 1.0)
            });
        }
        assert_eq!(slow.state(), Some(HyStartState::Watching));
    }

    #[test]
    fn restarts_towards_the_threshold_of_the_last_cut() {
        let mut slow = SlowStart::new(SlowStartKind::HyStart);
        slow.restart(100.0, 2.0);
        assert_eq!(slow.threshold(), 50.0);
        slow.set_threshold(30.0);
        slow.restart(30.0, 2.0);
        assert_eq!(slow.threshold(), 30.0);
        assert_eq!(slow.state(), None);
    }

    #[test]
    fn a_threshold_can_be_kept_above_the_window() {
        let mut slow = SlowStart::of(&Options::default().with_threshold_floor(2.0));
        assert!(slow.active(1e6));
        slow.set_threshold(1.5);
        assert_eq!(slow.threshold(), 2.0);
        assert!(slow.active(1.5) && !slow.active(2.0));
    }

    /// A round of eight acknowledgements after 42 ms, and another that has eight after 42 ms and
    /// eight that take so long.
    fn queue_within_a_round(rtt_ms: f64) -> (SlowStart, f64) {
        let mut slow = SlowStart::new(SlowStartKind::HyStart);
        let mut window = round(&mut slow, 10.0, 8, 42.0);
        for n in 0..16 {
            let ack = ack(if n < 8 { 42.0 } else { rtt_ms }, 1.0);
            slow.on_ack(&ack);
            window = slow.grow(window, 1.0);
        }
        (slow, window)
    }

    #[test]
    fn rests_when_a_queue_shows_within_a_round() {
        let (slow, window) = queue_within_a_round(48.9);
        assert_eq!((slow.state(), window), (Some(HyStartState::Watching), 34.0));
        let (slow, window) = queue_within_a_round(49.0);
        assert!(matches!(slow.state(), Some(HyStartState::Resting { .. })));
        assert_eq!(window, 33.0);
    }

    #[test]
    fn samples_are_counted_from_the_beginning_of_a_round() {
        let mut slow = SlowStart::new(SlowStartKind::HyStart);
        round(&mut slow, 10.0, 12, 42.0);
        // Four samples each: the first eight aren't all late, and four more are too few.
        for rtt in [42.0, 49.0, 49.0] {
            slow.on_ack(&ack(rtt, 8.0));
        }
        assert_eq!(slow.state(), Some(HyStartState::Watching));
        slow.on_ack(&ack(49.0, 8.0));
        assert!(matches!(slow.state(), Some(HyStartState::Resting { .. })));
    }

    #[test]
    fn slow_start_is_over_if_the_queue_stays_for_a_round() {
        let (mut slow, window) = queue_within_a_round(49.0);
        slow.on_round_end(window);
        assert!(
            slow.active(window),
            "a round in which it began says nothing"
        );
        assert_eq!(round(&mut slow, window, 16, 49.0), window, "no growth");
        assert_eq!((slow.threshold(), slow.state()), (window, None));
    }

    #[test]
    fn slow_start_goes_on_if_the_queue_goes() {
        let (mut slow, window) = queue_within_a_round(49.0);
        slow.on_round_end(window);
        slow.on_ack(&ack(48.9, 1.0));
        assert_eq!(round(&mut slow, window, 16, 49.0), window, "no growth");
        assert_eq!(slow.state(), Some(HyStartState::Watching));
        // A round without a measurement says nothing.
        let (mut slow, window) = queue_within_a_round(49.0);
        slow.on_round_end(window);
        slow.on_round_end(window);
        assert_eq!(slow.state(), Some(HyStartState::Watching));
    }

    /// A round of 40 to 55 ms: so may the next one be, and a sixth of 15 ms more.
    #[test]
    fn what_jitter_did_in_the_last_round_is_no_queue() {
        for (rtt, rests) in [(57.4, false), (57.5, true)] {
            let mut slow = SlowStart::new(SlowStartKind::HyStart);
            slow.on_ack(&ack(55.0, 1.0));
            round(&mut slow, 10.0, 8, 40.0);
            slow.on_ack(&ack(40.0, 16.0));
            slow.on_ack(&ack(rtt, 16.0));
            assert_eq!(
                matches!(slow.state(), Some(HyStartState::Resting { .. })),
                rests
            );
        }
    }

    #[test]
    fn a_queue_of_less_than_3_ms_is_none() {
        for (rtt, rests) in [(4.9, false), (5.0, true)] {
            let mut slow = SlowStart::new(SlowStartKind::HyStart);
            round(&mut slow, 10.0, 8, 2.0);
            slow.on_ack(&ack(2.0, 16.0));
            slow.on_ack(&ack(rtt, 16.0));
            assert_eq!(
                matches!(slow.state(), Some(HyStartState::Resting { .. })),
                rests
            );
        }
    }

    #[test]
    fn who_sends_less_than_the_window_makes_no_queue() {
        let mut slow = SlowStart::new(SlowStartKind::HyStart);
        round(&mut slow, 10.0, 8, 40.0);
        slow.on_ack(&ack(40.0, 16.0));
        slow.on_ack(&Ack {
            app_limited: true,
            ..ack(60.0, 16.0)
        });
        assert_eq!(slow.state(), Some(HyStartState::Watching));
    }

    #[test]
    fn a_quarter_as_fast_beyond_what_is_known_for_three_rounds() {
        for kind in [SlowStartKind::HyStart, SlowStartKind::Standard] {
            let mut slow = SlowStart::new(kind);
            slow.resume(Target::Known(200.0));
            // Rounds below don't count.
            slow.on_round_end(199.0);
            assert_eq!(slow.grow(199.0, 8.0), 207.0);
            slow.rescale(0.5);
            for window in [100.0, 125.0, 156.0] {
                assert_eq!(slow.grow(window, 8.0), window + 2.0);
                slow.on_round_end(window);
            }
            assert_eq!(slow.grow(195.0, 8.0), 203.0);
            slow.resume(Target::Unchanged);
            assert!(slow.active(1e6));
            slow.resume(Target::Threshold(300.0));
            assert!(slow.active(299.0) && !slow.active(300.0));
        }
    }
}

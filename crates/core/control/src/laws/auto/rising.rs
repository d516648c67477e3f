//! Whether a path's losses have become more frequent since it stopped answering them, and grew.
//! Random losses haven't; those by congestion have, also behind a queue too short to be seen. It
//! knows no window.

use std::time::Duration;

use manyway_units::Time;

/// Losses answer to the rate if they are more than so many times as frequent as before, …
const TIMES: f64 = 1.5;
/// … or than so many for each packet, however many there were (behind a queue of two packets, flows
/// lose as many at their smallest windows, and hardly more when they grow: others give way), …
const FREQUENT: f64 = 0.075;
/// … by this logarithm of a likelihood ratio.
const SURE: f64 = 4.0;
/// Random losses come in bursts, too. So for so many acknowledged packets after each loss, neither
/// these packets nor further losses count.
const BURST: f64 = 2.0;
/// Losses have an answer until so many are known, …
const ENOUGH: f64 = 10.0;
/// … or so many that are surely fewer than `FREQUENT`, …
const FEW: f64 = 4.0;
/// … or until the first is so long ago.
const LONG_ENOUGH: Duration = Duration::from_secs(3);
/// So many losses before, and so many since, count at most.
const COUNTED: f64 = 256.0;
/// Losses that have become more frequent are congestion for so long, and for twice as long each
/// time, …
const DOUBT: Duration = Duration::from_secs(4);
/// … up to so many doublings, …
const DOUBLINGS: u32 = 4;
/// … until so many losses in a row were as frequent as before.
const CALM: f64 = 1000.0;

/// How frequent a path's losses are.
#[derive(Clone, Debug, Default)]
pub(super) struct Rising {
    /// While they were answered, …
    before: Frequency,
    /// … and since they aren't.
    since: Frequency,
    /// Whether they are left without an answer.
    free: bool,
    /// Whether a round without a loss has passed since the window grew freely. Those that its last
    /// growth brings don't show how frequent losses are.
    steady: bool,
    /// Whether there was a loss in this round.
    lost: bool,
    /// Packets acknowledged since the last loss; neither met a full queue.
    apart: f64,
    /// When the first of those before was lost.
    first: Option<Time>,
    /// Until then all are congestion.
    doubt: Time,
    doublings: u32,
    /// Losses without an answer since the last doubt.
    calm: f64,
}

#[derive(Clone, Debug, Default)]
struct Frequency {
    losses: f64,
    packets: f64,
}

impl Frequency {
    fn count(&mut self) {
        self.losses += 1.0;
        if self.losses > COUNTED {
            (self.losses, self.packets) = (self.losses / 2.0, self.packets / 2.0);
        }
    }

    /// These losses, at most so many for each packet.
    fn at_most(&self, most: f64) -> Frequency {
        Frequency {
            losses: self.losses,
            packets: self.packets.max(self.losses / most),
        }
    }

    /// The log-likelihood ratio of this frequency to one with so many losses expected, but for what
    /// cancels out when two are added whose expectations sum to their losses.
    fn likelihood(&self, expected: f64) -> f64 {
        self.losses * (self.losses / expected).ln()
    }
}

impl Rising {
    /// Packets were acknowledged that met no full queue.
    pub(super) fn on_ack(&mut self, packets: f64) {
        self.apart += packets;
        let packets = (self.apart - BURST).min(packets).max(0.0);
        if self.free {
            self.since.packets += packets;
        } else if self.steady {
            self.before.packets += packets;
        }
    }

    /// The end of a round of the path, in slow start or not.
    pub(super) fn on_round_end(&mut self, slow_start: bool) {
        let lost = std::mem::take(&mut self.lost);
        self.steady = !slow_start && (self.steady || !lost);
    }

    /// A loss, whatever it met.
    pub(super) fn on_any_loss(&mut self) {
        self.lost = true;
    }

    /// A loss that met no full queue; `free` if such losses have no answer. True if they have
    /// become more frequent since.
    pub(super) fn on_loss(&mut self, free: bool, now: Time) -> bool {
        let burst = std::mem::take(&mut self.apart) < BURST;
        let was_free = std::mem::replace(&mut self.free, free);
        if was_free && !free {
            self.forget();
        } else if !was_free && free {
            self.since = Frequency::default();
        }
        if burst {
            return false;
        }
        if was_free && free {
            self.since.count();
            self.calm += 1.0;
            if self.calm > CALM {
                self.doublings = 0;
            }
            return self.rose();
        }
        // The loss that frees belongs to those before: one that began the time since would make
        // them look more frequent than they are.
        if self.steady {
            self.first.get_or_insert(now);
            self.before.count();
        }
        false
    }

    /// A likelihood ratio test of two Poisson rates: `TIMES` against more.
    fn rose(&self) -> bool {
        let (before, since) = (self.before.at_most(FREQUENT / TIMES), &self.since);
        let longer = TIMES * since.packets;
        if before.losses == 0.0 || longer == 0.0 {
            return false;
        }
        let usual = (before.losses + since.losses) / (before.packets + longer);
        let (less, more) = (before.packets * usual, longer * usual);
        since.losses > more && before.likelihood(less) + since.likelihood(more) > SURE
    }

    /// From now on, losses are congestion for a time.
    pub(super) fn doubt(&mut self, now: Time) {
        self.doubt = now + DOUBT * (1 << self.doublings);
        self.doublings = (self.doublings + 1).min(DOUBLINGS);
        (self.calm, self.free) = (0.0, false);
        self.forget();
    }

    fn forget(&mut self) {
        (self.before, self.first) = (Frequency::default(), None);
        self.steady = false;
    }

    /// Whether losses are left without an answer.
    pub(super) fn free(&self) -> bool {
        self.free
    }

    /// Whether losses have an answer for now, whatever they look like: because they had become more
    /// frequent, or because too few are known to tell whether they will.
    pub(super) fn answers(&self, now: Time) -> bool {
        let long = |first: Time| now.since(first) >= LONG_ENOUGH;
        let known = self.before.losses >= ENOUGH || self.few() || self.first.is_some_and(long);
        self.doubts(now) || !(self.free || known)
    }

    /// A likelihood ratio test of a Poisson rate: `FREQUENT` against less.
    fn few(&self) -> bool {
        let (losses, expected) = (self.before.losses, FREQUENT * self.before.packets);
        let fewer = expected - losses;
        losses >= FEW && fewer > 0.0 && self.before.likelihood(expected) + fewer > SURE
    }

    /// Whether losses are congestion because they had become more frequent.
    pub(super) fn doubts(&self, now: Time) -> bool {
        now < self.doubt
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A loss after so many packets that count.
    fn lose(rising: &mut Rising, packets: f64, free: bool) -> bool {
        rising.on_ack(BURST + packets);
        rising.on_loss(free, Time::ZERO)
    }

    /// So many losses without an answer, one for each so many packets: the first that tells.
    fn told(rising: &mut Rising, losses: usize, packets: f64) -> Option<usize> {
        (0..losses).find(|_| lose(rising, packets, true))
    }

    fn answered(losses: usize, packets: f64) -> Rising {
        let mut rising = Rising::default();
        rising.on_round_end(false);
        for _ in 0..losses {
            assert!(!lose(&mut rising, packets, false));
        }
        rising
    }

    #[test]
    fn losses_as_frequent_as_before_tell_nothing() {
        for packets in [30.0, 100.0, 1e6] {
            assert_eq!(told(&mut answered(3, packets), 2000, packets), None);
            assert_eq!(told(&mut answered(30, packets), 2000, packets / 1.1), None);
        }
    }

    #[test]
    fn more_frequent_ones_tell_the_sooner_the_more_frequent_they_are() {
        let after = |times: f64| told(&mut answered(250, 100.0), 2000, 100.0 / times);
        let after = [2.0, 4.0, 8.0, 32.0].map(|times| after(times).unwrap());
        assert!(after.is_sorted_by(|a, b| a > b), "{after:?}");
        assert!(after[0] < 200 && after[3] < 4, "{after:?}");
    }

    #[test]
    fn losses_of_more_than_7_percent_are_never_usual() {
        let after = |usual: f64, since: f64| told(&mut answered(16, usual), 2000, since);
        assert_eq!(after(20.0, 20.0), None);
        assert_eq!(after(5.0, 14.0), None);
        assert_eq!(after(5.0, 4.0), after(TIMES / FREQUENT, 4.0));
        assert!(after(5.0, 4.0).is_some_and(|n| n < 20));
    }

    /// It says nothing about how frequent losses are since.
    #[test]
    fn the_loss_that_frees_counts_before() {
        let mut rising = answered(20, 100.0);
        assert!(!lose(&mut rising, 100.0, true));
        assert_eq!((rising.before.losses, rising.since.losses), (21.0, 0.0));
        assert!(!lose(&mut rising, 10.0, true));
        assert_eq!((rising.before.losses, rising.since.losses), (21.0, 1.0));
    }

    #[test]
    fn losses_with_an_answer_again_are_counted_anew() {
        let mut rising = answered(20, 100.0);
        assert_eq!(told(&mut rising, 5, 100.0), None);
        assert!(!lose(&mut rising, 1.0, false));
        assert_eq!(rising.before.losses, 0.0);
        assert!(rising.answers(Time::ZERO));
        rising.on_round_end(false);
        for _ in 0..20 {
            lose(&mut rising, 100.0, false);
        }
        assert_eq!(told(&mut rising, 1, 100.0), None);
        assert_eq!((rising.before.losses, rising.since.losses), (21.0, 0.0));
    }

    #[test]
    fn losses_in_bursts_count_once() {
        let mut rising = answered(20, 100.0);
        for _ in 0..500 {
            rising.on_ack(100.0);
            for packets in [0.0, 1.9, 0.0] {
                rising.on_ack(packets);
                assert!(!rising.on_loss(true, Time::ZERO));
            }
        }
    }

    #[test]
    fn what_was_before_the_doubt_counts_no_more() {
        let mut rising = answered(100, 100.0);
        assert!(told(&mut rising, 100, 10.0).is_some());
        rising.doubt(Time::ZERO);
        rising.on_round_end(false);
        for _ in 0..100 {
            lose(&mut rising, 20.0, false);
        }
        assert_eq!(told(&mut rising, 100, 20.0), None);
    }

    /// Those that slow start brings, or growth without answers, are more frequent than usual.
    #[test]
    fn losses_count_after_a_round_without_any() {
        let known = |rising: &Rising| rising.before.losses;
        let lose = |rising: &mut Rising| {
            rising.on_any_loss();
            lose(rising, 1.0, false);
        };
        let mut rising = Rising::default();
        rising.on_round_end(true);
        lose(&mut rising);
        rising.on_round_end(false);
        lose(&mut rising);
        assert_eq!((known(&rising), rising.before.packets), (0.0, 0.0));
        rising.on_round_end(false);
        rising.on_round_end(false);
        lose(&mut rising);
        rising.on_round_end(false);
        lose(&mut rising);
        assert_eq!((known(&rising), rising.before.packets), (2.0, 2.0));
        rising.doubt(Time::ZERO);
        lose(&mut rising);
        assert_eq!(known(&rising), 0.0);
        rising.on_round_end(false);
        rising.on_round_end(false);
        lose(&mut rising);
        assert_eq!(known(&rising), 1.0);
    }

    #[test]
    fn losses_have_an_answer_until_enough_are_known_or_for_long_enough() {
        let now = Time::ZERO;
        assert!(answered(9, 20.0).answers(now));
        assert!(!answered(10, 20.0).answers(now));
        assert!(answered(4, 40.0).answers(now));
        assert!(!answered(4, 50.0).answers(now));
        assert!(answered(3, 1e6).answers(now));
        let one = answered(1, 100.0);
        assert!(one.answers(now + LONG_ENOUGH - Duration::from_millis(1)));
        assert!(!one.answers(now + LONG_ENOUGH));
        assert!(Rising::default().answers(now + LONG_ENOUGH));
        let mut doubted = answered(16, 100.0);
        doubted.doubt(now);
        assert!(doubted.answers(now + LONG_ENOUGH));
    }

    #[test]
    fn doubts_last_longer_each_time_until_losses_were_calm() {
        let mut rising = answered(10, 100.0);
        let mut now = Time::ZERO;
        let mut lasts = |rising: &mut Rising| {
            rising.doubt(now);
            let seconds = (0..1000).find(|s| !rising.doubts(now + Duration::from_secs(*s)));
            now += Duration::from_secs(1000);
            seconds.unwrap()
        };
        let seconds: Vec<u64> = (0..7).map(|_| lasts(&mut rising)).collect();
        assert_eq!(seconds, [4, 8, 16, 32, 64, 64, 64]);
        rising.on_round_end(false);
        lose(&mut rising, 100.0, false);
        assert_eq!(told(&mut rising, 1002, 100.0), None);
        assert_eq!(lasts(&mut rising), 4);
    }
}

//! When a subflow in the background gives way to others, by its round-trip times. It knows no
//! window.
//!
//! It gives way to any queue that stands at more than a few milliseconds, and steps back from time
//! to time: with next to nothing of its own under way it sees how long the path is without its
//! queue, and so do others like it, which may have taken this queue for part of the path.

use std::time::Duration;

use manyway_units::Time;

use super::seconds;

/// A queue that stands at more than so many seconds is too long: others may be in it.
const TARGET: f64 = 0.005;
/// So many samples tell how long a queue stands; fewer could be late by chance.
const SAMPLES: u32 = 8;
/// The smallest round-trip time is that of the last one or two such spans, so that a path that has
/// become longer isn't taken for a full one for ever.
const SPAN: Duration = Duration::from_secs(60);
/// A cut shows after so many round-trip times.
const SHOWS: f64 = 1.5;
/// No cut takes more than this part of the window.
const MOST: f64 = 0.5;
/// Between two steps back are so many seconds, …
const AGAIN_AT_LEAST: f64 = 10.0;
/// … and so many round-trip times; …
const AGAIN: f64 = 40.0;
/// … the first comes so many after slow start.
const AFTER_START: f64 = 2.0;
/// Packets sent after a step back fill the second round after it.
const ROUNDS: u32 = 2;
/// After so many looks in a row that found next to no queue, …
const CALM: u32 = 16;
/// … and so long after the last loss, nobody else is there.
const QUIET: Duration = Duration::from_secs(20);

/// One subflow's delays, and what it does about them.
#[derive(Clone, Debug)]
pub(super) struct Yielding {
    /// The smallest round-trip time in this span and in the one before, in seconds.
    base: [f64; 2],
    until: Time,
    /// The smallest round-trip time since the last look, and how many there were.
    least: f64,
    samples: u32,
    /// Before then, the last cut doesn't show.
    settles: Time,
    /// When to step back next.
    next: Time,
    /// Rounds since it stepped back, until it returns.
    back: Option<u32>,
    /// Looks in a row that found next to no queue.
    calm: u32,
    /// The last loss.
    lost: Option<Time>,
}

/// What to do at the end of a round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Step {
    Stay,
    /// Reduce the window to its minimum, and hold it there.
    Back,
    /// The window is as it was before.
    Return,
    /// Multiply the window by this factor.
    GiveWay(f64),
}

impl Default for Yielding {
    fn default() -> Self {
        Yielding {
            base: [f64::INFINITY; 2],
            until: Time::ZERO,
            least: f64::INFINITY,
            samples: 0,
            settles: Time::ZERO,
            next: Time::ZERO,
            back: None,
            calm: 0,
            lost: None,
        }
    }
}

impl Yielding {
    /// A round-trip time, in seconds. The window is of so many packets: one that is alone waits for
    /// its delayed acknowledgement, which looks like a queue.
    pub(super) fn on_sample(&mut self, now: Time, rtt: f64, window: f64) {
        if now >= self.until {
            self.base = [f64::INFINITY, self.base[0]];
            self.until = now + SPAN;
        }
        self.base[0] = self.base[0].min(rtt);
        if window >= 2.0 {
            self.least = self.least.min(rtt);
            self.samples += 1;
        }
    }

    /// Packets were lost.
    pub(super) fn on_loss(&mut self, now: Time) {
        self.lost = Some(now);
        self.calm = 0;
    }

    /// Whether it may grow fast.
    pub(super) fn is_alone(&self, now: Time) -> bool {
        self.calm >= CALM && self.lost.is_none_or(|lost| now.since(lost) > QUIET)
    }

    /// The end of a round on a path with this smoothed round-trip time in seconds, in slow start or
    /// not.
    pub(super) fn on_round_end(&mut self, now: Time, rtt: f64, starts: bool) -> Step {
        if let Some(rounds) = &mut self.back {
            *rounds += 1;
            return match *rounds {
                ROUNDS.. => Step::Return,
                _ => Step::Stay,
            };
        }
        if starts {
            self.next = now + seconds(AFTER_START * rtt);
        } else if now >= self.next {
            return Step::Back;
        }
        if now < self.settles {
            self.look_anew();
        }
        if self.samples < SAMPLES {
            return Step::Stay;
        }
        let base = self.base[0].min(self.base[1]);
        let standing = self.least - base;
        self.look_anew();
        self.calm = match standing < TARGET / 2.0 {
            true => self.calm.saturating_add(1),
            false => 0,
        };
        if standing > TARGET {
            let short = (base + TARGET / 2.0) / (base + standing);
            return Step::GiveWay(short.max(1.0 - MOST));
        }
        Step::Stay
    }

    /// Its window was cut.
    pub(super) fn settle(&mut self, now: Time, rtt: f64) {
        self.settles = now + seconds(SHOWS * rtt);
    }

    /// It has stepped back.
    pub(super) fn step_back(&mut self) {
        self.back = Some(0);
    }

    /// Whether it has stepped back, and not returned.
    pub(super) fn is_back(&self) -> bool {
        self.back.is_some()
    }

    /// It steps back no more. True if it did.
    pub(super) fn come_back(&mut self, now: Time, rtt: f64) -> bool {
        let back = self.back.take().is_some();
        if back {
            self.next = now + seconds(AGAIN_AT_LEAST.max(AGAIN * rtt));
            self.look_anew();
            self.settle(now, rtt);
        }
        back
    }

    fn look_anew(&mut self) {
        (self.least, self.samples) = (f64::INFINITY, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: f64 = 0.02;

    fn at(seconds: f64) -> Time {
        Time::ZERO + Duration::from_secs_f64(seconds)
    }

    /// Rounds of eight samples each of a queue of so many seconds, from `from` on: what each says.
    fn rounds(path: &mut Yielding, from: f64, queues: &[f64]) -> Vec<Step> {
        let round = |(number, queue): (usize, &f64)| {
            let now = at(from + number as f64 * RTT);
            for sample in 0..8 {
                // Jitter beside the queue: only the least counts.
                let jitter = 0.002 * f64::from(sample % 4);
                path.on_sample(now, RTT + queue + jitter, 10.0);
            }
            path.on_round_end(now, RTT, false)
        };
        queues.iter().enumerate().map(round).collect()
    }

    /// A subflow that knows its path, and won't step back for a while.
    fn known() -> Yielding {
        let mut path = Yielding::default();
        assert_eq!(rounds(&mut path, 1.0, &[0.0]), [Step::Back]);
        path.step_back();
        let back = rounds(&mut path, 1.02, &[0.0, 0.0]);
        assert_eq!(back, [Step::Stay, Step::Return]);
        assert!(path.come_back(at(1.04), RTT));
        path
    }

    #[test]
    fn it_gives_way_to_a_queue_by_what_that_is_too_long() {
        let mut path = known();
        assert_eq!(rounds(&mut path, 2.0, &[0.0, 0.004]), [Step::Stay; 2]);
        let [Step::GiveWay(factor)] = rounds(&mut path, 2.1, &[0.01])[..] else {
            panic!("a queue of 10 ms");
        };
        assert!((factor - 0.0225 / 0.03).abs() < 1e-9, "{factor}");
        // Until the cut shows, the queue says nothing.
        path.settle(at(2.1), RTT);
        assert_eq!(rounds(&mut path, 2.12, &[0.01]), [Step::Stay]);
        assert!(matches!(
            rounds(&mut path, 2.14, &[0.01])[..],
            [Step::GiveWay(_)]
        ));
        // Half of the window at most.
        assert_eq!(rounds(&mut path, 2.3, &[1.0]), [Step::GiveWay(0.5)]);
    }

    #[test]
    fn a_packet_alone_and_few_samples_say_nothing_of_the_queue() {
        let mut path = known();
        for step in 0..40 {
            path.on_sample(at(2.0), RTT + 0.025, 1.5);
            let step = path.on_round_end(at(2.0 + f64::from(step) * RTT), RTT, false);
            assert_eq!(step, Step::Stay);
        }
        let mut looks = 0;
        for step in 0..16 {
            path.on_sample(at(3.0), RTT + 0.025, 2.0);
            let step = path.on_round_end(at(3.0 + f64::from(step) * RTT), RTT, false);
            looks += u32::from(step != Step::Stay);
        }
        assert_eq!(looks, 2);
    }

    #[test]
    fn it_steps_back_after_slow_start_and_every_ten_seconds() {
        let mut path = Yielding::default();
        for step in 0..10 {
            assert_eq!(
                path.on_round_end(at(f64::from(step)), RTT, true),
                Step::Stay
            );
        }
        assert_eq!(path.on_round_end(at(9.03), RTT, false), Step::Stay);
        assert_eq!(path.on_round_end(at(9.04), RTT, false), Step::Back);
        let mut path = known();
        assert_eq!(path.on_round_end(at(11.0), RTT, false), Step::Stay);
        assert_eq!(path.on_round_end(at(11.05), RTT, false), Step::Back);
        // On long paths it is every 40 round trips.
        path.step_back();
        assert!(path.come_back(at(12.0), 1.0));
        assert_eq!(path.on_round_end(at(51.0), 1.0, false), Step::Stay);
        assert_eq!(path.on_round_end(at(52.0), 1.0, false), Step::Back);
    }

    #[test]
    fn a_longer_path_is_a_queue_for_two_minutes_at_most() {
        let mut path = known();
        let says = |path: &mut Yielding, from| rounds(path, from, &[0.1])[0];
        path.step_back();
        path.come_back(at(1.0), 100.0);
        for second in 160..220 {
            assert_eq!(says(&mut path, f64::from(second)), Step::GiveWay(0.5));
        }
        assert_eq!(says(&mut path, 221.0), Step::Stay);
    }

    #[test]
    fn it_is_alone_without_queue_and_long_after_losses() {
        let mut path = known();
        rounds(&mut path, 2.0, &[0.0; 15]);
        assert!(!path.is_alone(at(3.0)));
        rounds(&mut path, 3.0, &[0.001]);
        assert!(path.is_alone(at(3.0)));
        rounds(&mut path, 3.1, &[0.004]);
        assert!(!path.is_alone(at(3.1)));
        path.on_loss(at(3.2));
        rounds(&mut path, 3.2, &[0.0; 16]);
        assert!(!path.is_alone(at(23.0)));
        assert!(path.is_alone(at(23.3)));
    }
}

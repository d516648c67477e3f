//! The states in which a path spends its life: bandwidth probes and what lies between
//! (draft-ietf-ccwg-bbr §5.3.3.8).

use std::time::Duration;

use manyway_units::Time;

use super::super::state::{Feedback, State};
use super::{Path, Sample, too_high};
use crate::random::Random;

/// The share of the bound that is left to others (`Headroom`).
const HEADROOM: f64 = 0.15;
/// Between two bandwidth probes are at most so many rounds, Reno's cycle at 62 packets (§5.3.3.7).
const RENO_ROUNDS: f64 = 63.0;

impl Path {
    /// `StartProbeBW_DOWN`.
    pub(in crate::laws::bbr) fn start_down(&mut self, now: Time) {
        self.loss_in_round = false;
        self.bw_latest = 0.0;
        self.inflight_latest = 0.0;
        self.up_per_packet = f64::INFINITY;
        let mut random = Random::new(self.random ^ now.as_nanos());
        self.since_up = random.below(2) as u64;
        self.probe_wait = Duration::from_secs_f64(2.0 + random.unit());
        self.cycle_from = now;
        self.feedback = Feedback::Stopping;
        self.start_round();
        self.state = State::Down;
    }

    pub(super) fn start_refill(&mut self) {
        self.reset_shortterm();
        self.up_rounds = 0;
        self.up_acked = 0.0;
        self.probe_precautionary = false;
        self.feedback = Feedback::Refilling;
        self.start_round();
        self.state = State::Refill;
    }

    fn start_up(&mut self, sample: &Sample) {
        self.feedback = Feedback::Starting;
        self.start_round();
        self.reset_full();
        self.full_bw = sample.rate;
        self.state = State::Up;
        self.raise_slope();
    }

    pub(super) fn reset_shortterm(&mut self) {
        self.bw_shortterm = f64::INFINITY;
        self.inflight_shortterm = f64::INFINITY;
    }

    /// `UpdateProbeBWCyclePhase`.
    pub(super) fn update_cycle(&mut self, sample: &Sample) {
        if !self.full_reached || self.adapt_longterm(sample) {
            return;
        }
        let in_flight = sample.of.in_flight as f64;
        let state = self.state;
        match state {
            State::Down | State::Cruise if self.is_time_to_probe(sample.now) => {
                self.start_refill();
            }
            // The path has room for others, and no queue is left.
            State::Down
                if in_flight <= self.with_headroom()
                    && in_flight <= self.budgeted(self.max_bw.get() * self.known_rtt()) =>
            {
                self.state = State::Cruise;
            }
            State::Refill if self.round_start => {
                self.probe_sample = true;
                self.start_up(sample);
            }
            State::Up if self.is_time_to_go_down(sample) => {
                self.probe_too_high = false;
                self.start_down(sample.now);
            }
            _ => {}
        }
    }

    /// §5.3.3.7.
    fn is_time_to_probe(&self, now: Time) -> bool {
        let reno = (self.target() / self.size).min(RENO_ROUNDS);
        now > self.cycle_from + self.probe_wait || self.since_up as f64 >= reno
    }

    fn is_time_to_go_down(&mut self, sample: &Sample) -> bool {
        // With what was just acknowledged, no whole packet fits below the bound.
        let in_flight = sample.of.in_flight as f64 + sample.acked;
        if self.probe_too_high && in_flight + self.size > self.inflight_longterm {
            self.probe_precautionary = true;
            return true;
        }
        if self.is_window_limited(sample) && self.window >= self.inflight_longterm {
            self.reset_full();
            self.full_bw = sample.rate;
            return false;
        }
        self.full_now
    }

    /// `C.is_cwnd_limited`: the window was used up in the last round trip.
    fn is_window_limited(&self, sample: &Sample) -> bool {
        sample.of.peak as f64 + self.size > self.window
    }

    /// `TargetInflight`.
    pub(super) fn target(&self) -> f64 {
        self.bdp(1.0).min(self.window)
    }

    pub(super) fn with_headroom(&self) -> f64 {
        let headroom = (HEADROOM * self.inflight_longterm).max(self.size);
        if self.inflight_longterm.is_infinite() {
            return f64::INFINITY;
        }
        (self.inflight_longterm - headroom).max(self.least())
    }

    /// `RaiseInflightLongtermSlope`.
    fn raise_slope(&mut self) {
        let growth = f64::from(1_u32 << self.up_rounds);
        self.up_rounds = (self.up_rounds + 1).min(30);
        self.up_per_packet = (self.window / growth).max(self.size);
    }

    /// `ProbeInflightLongtermUpward`.
    fn raise_longterm(&mut self, sample: &Sample) {
        if !self.is_window_limited(sample) || self.window < self.inflight_longterm {
            return;
        }
        self.up_acked += sample.acked;
        if self.up_acked >= self.up_per_packet {
            let packets = (self.up_acked / self.up_per_packet).floor();
            self.up_acked -= packets * self.up_per_packet;
            self.inflight_longterm += packets * self.size;
        }
        if self.round_start {
            self.raise_slope();
        }
    }

    /// `AdaptLongTermModel`; true if it has decided on a state.
    fn adapt_longterm(&mut self, sample: &Sample) -> bool {
        if self.feedback == Feedback::Starting && self.round_start {
            self.feedback = Feedback::Arriving;
        }
        if self.feedback == Feedback::Stopping && self.round_start {
            self.probe_sample = false;
            self.feedback = Feedback::None;
            if self.state.is_probe_bw() && !sample.limited {
                self.max_bw.advance();
            }
            // All of a cautious probe has arrived: the next one needn't be.
            if self.state.is_probe_bw() && self.probe_precautionary && !self.probe_too_high {
                self.start_refill();
                return true;
            }
        }
        if !too_high(&sample.of) && self.inflight_longterm.is_finite() {
            let safe = sample.of.in_flight_then as f64;
            self.inflight_longterm = self.inflight_longterm.max(safe);
            if self.state == State::Up {
                self.raise_longterm(sample);
            }
        }
        false
    }
}

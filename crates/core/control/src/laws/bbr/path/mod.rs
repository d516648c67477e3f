//! One path's model and machine. It knows no other path, no sender and no clock.

mod losses;
mod probe_bw;

use std::time::Duration;

use manyway_units::Time;

use super::filters::{ExtraAcked, MaxBandwidth};
use super::state::{Feedback, State};
use crate::controller::{Ack, Delivery, NewPath};
use crate::options::{MAX_WINDOW, bounded};

/// The share of losses in a round trip that a path tolerates (`LossThresh`; these four: §2.8).
const LOSS_THRESHOLD: f64 = 0.02;
/// What remains at most cuts of a bound (`Beta`).
const BETA: f64 = 0.7;
/// The pacing rate stays this much below the bandwidth (`PacingMarginPercent`, §2.6).
const MARGIN: f64 = 0.01;
/// Startup ends with so many gaps in a round trip (`BBRStartupFullLossCnt`, §5.3.1.3).
const STARTUP_GAPS: u32 = 6;
/// Rounds without 25 % of growth that say that the path is full (§5.3.1.2).
const FULL_ROUNDS: u32 = 3;
const FULL_GROWTH: f64 = 1.25;
/// The longest that Drain takes, in rounds (§5.3.2).
const DRAIN_ROUNDS: u64 = 3;
/// §2.15.
const MIN_RTT_MEMORY: Duration = Duration::from_secs(10);
const PROBE_RTT_INTERVAL: Duration = Duration::from_secs(5);
const PROBE_RTT_DURATION: Duration = Duration::from_millis(200);
/// The largest send quantum, bytes, and the time that it lasts, seconds (§5.6.3).
const MAX_QUANTUM: f64 = 65_536.0;
const QUANTUM: f64 = 1e-3;

/// One path; names as in the draft where it has them. Volumes in bytes, rates in bytes/s, times in
/// seconds.
#[derive(Clone, Debug)]
pub(super) struct Path {
    /// Bytes of a packet.
    size: f64,
    /// The smallest window, packets.
    floor: f64,
    initial_window: f64,
    pub(super) window: f64,
    pacing_rate: Option<f64>,
    random: u64,

    pub(super) state: State,
    feedback: Feedback,
    delivered: u64,
    pub(super) rounds: u64,
    round_start: bool,
    next_round: u64,

    pub(super) max_bw: MaxBandwidth,
    /// `bw`: what the path is believed to carry now.
    pub(super) bw: f64,
    pub(super) bw_shortterm: f64,
    pub(super) inflight_shortterm: f64,
    pub(super) inflight_longterm: f64,
    pub(super) min_rtt: f64,
    min_rtt_at: Time,
    extra_acked: ExtraAcked,
    extra_from: Time,
    extra_delivered: f64,

    bw_latest: f64,
    inflight_latest: f64,
    loss_in_round: bool,
    loss_round: u64,
    loss_round_start: bool,
    /// Gaps in the packets of this round, and the last packet lost.
    gaps: u32,
    last_lost: Option<u64>,

    full_bw: f64,
    full_rounds: u32,
    full_now: bool,
    pub(super) full_reached: bool,
    drain_from: u64,

    probe_sample: bool,
    pub(super) probe_too_high: bool,
    probe_precautionary: bool,
    up_rounds: u32,
    up_acked: f64,
    up_per_packet: f64,
    pub(super) since_up: u64,
    pub(super) probe_wait: Duration,
    cycle_from: Time,

    probe_rtt_delay: f64,
    probe_rtt_at: Time,
    probe_rtt_expired: bool,
    probe_rtt_done: Option<Time>,
    probe_rtt_round: bool,
    /// What is delivered between these two doesn't show how fast the path is (`app_limited`).
    limited: [u64; 2],
    idle_restart: bool,

    recovering: bool,
    prior_window: f64,
    undo: Undo,
}

/// What a loss event changes, as it was before (§5.5.11.1).
#[derive(Copy, Clone, Debug)]
struct Undo {
    /// The probe that the losses ended.
    state: Option<State>,
    bw_shortterm: f64,
    inflight_shortterm: f64,
    inflight_longterm: f64,
}

/// An acknowledgement's sample (`RS`).
#[derive(Copy, Clone, Debug)]
struct Sample {
    now: Time,
    acked: f64,
    rtt: Option<f64>,
    /// 0 for none.
    rate: f64,
    limited: bool,
    of: Delivery,
}

impl Path {
    pub(super) fn new(path: &NewPath, floor: f64) -> Self {
        let size = f64::from(path.packet_size.max(1));
        let window = bounded(path.initial_window).max(floor) * size;
        Path {
            size,
            floor,
            initial_window: window,
            window,
            pacing_rate: None,
            random: path.now.as_nanos(),
            state: State::Startup,
            feedback: Feedback::None,
            delivered: 0,
            rounds: 0,
            round_start: false,
            next_round: 0,
            max_bw: MaxBandwidth::default(),
            bw: 0.0,
            bw_shortterm: f64::INFINITY,
            inflight_shortterm: f64::INFINITY,
            inflight_longterm: f64::INFINITY,
            min_rtt: f64::INFINITY,
            min_rtt_at: path.now,
            extra_acked: ExtraAcked::default(),
            extra_from: path.now,
            extra_delivered: 0.0,
            bw_latest: 0.0,
            inflight_latest: 0.0,
            loss_in_round: false,
            loss_round: 0,
            loss_round_start: false,
            gaps: 0,
            last_lost: None,
            full_bw: 0.0,
            full_rounds: 0,
            full_now: false,
            full_reached: false,
            drain_from: 0,
            probe_sample: false,
            probe_too_high: false,
            probe_precautionary: false,
            up_rounds: 0,
            up_acked: 0.0,
            up_per_packet: f64::INFINITY,
            since_up: 0,
            probe_wait: Duration::ZERO,
            cycle_from: path.now,
            probe_rtt_delay: f64::INFINITY,
            probe_rtt_at: path.now,
            probe_rtt_expired: false,
            probe_rtt_done: None,
            probe_rtt_round: false,
            limited: [0; 2],
            idle_restart: false,
            recovering: false,
            prior_window: 0.0,
            undo: Undo {
                state: None,
                bw_shortterm: f64::INFINITY,
                inflight_shortterm: f64::INFINITY,
                inflight_longterm: f64::INFINITY,
            },
        }
    }

    /// Tells paths apart that began at the same time: their probes shouldn't coincide.
    pub(super) fn seed(&mut self, slot: u64) {
        self.random ^= slot.rotate_right(16);
    }

    /// Packets.
    pub(super) fn window(&self) -> f64 {
        (self.window / self.size).clamp(self.floor, MAX_WINDOW)
    }

    pub(super) fn in_startup(&self) -> bool {
        self.state == State::Startup
    }

    pub(super) fn pacing_rate(&self) -> Option<f64> {
        self.pacing_rate
    }

    pub(super) fn resize(&mut self, bytes: u32) {
        self.size = f64::from(bytes.max(1));
    }

    /// §5.2.3.
    pub(super) fn on_ack(&mut self, ack: &Ack) {
        let Some(of) = ack.delivery else {
            return;
        };
        // A sample over less than a round trip isn't reliable (§4.1.2.3).
        let rate = of.rate().filter(|_| of.interval >= ack.min_rtt);
        let [from, until] = self.limited;
        let sample = Sample {
            now: ack.now,
            acked: ack.packets * self.size,
            rtt: ack.rtt_sampled.then_some(ack.rtt.as_secs_f64()),
            rate: rate.unwrap_or(0.0),
            limited: of.app_limited || (from..=until).contains(&of.delivered_before) && until > 0,
            of,
        };
        self.delivered = of.delivered;
        if self.pacing_rate.is_none() {
            let rtt = ack.smoothed_rtt.as_secs_f64().max(1e-3);
            self.pacing_rate = Some(self.state.pacing_gain() * self.initial_window / rtt);
        }
        if of.restarted {
            self.restart_from_idle(ack);
        }
        if self.recovering && !ack.in_recovery {
            self.recovering = false;
            self.restore_window();
        }
        self.update_model(&sample);
        self.set_pacing_rate();
        self.set_window(&sample);
    }

    /// `UpdateModelAndState`.
    fn update_model(&mut self, sample: &Sample) {
        self.update_latest(sample);
        self.update_round(sample);
        if sample.rate >= self.max_bw.get() || !sample.limited {
            self.max_bw.update(sample.rate);
        }
        if self.loss_round_start {
            self.adapt_lower_bounds();
        }
        self.update_extra_acked(sample);
        self.check_full(sample);
        self.check_startup_done(sample);
        self.check_drain_done(sample);
        self.update_cycle(sample);
        self.update_min_rtt(sample);
        self.check_probe_rtt(sample);
        if self.loss_round_start {
            self.bw_latest = sample.rate;
            self.inflight_latest = sample.of.volume() as f64;
        }
        self.bw = self.max_bw.get().min(self.bw_shortterm);
    }

    /// §5.5.10.3, `UpdateLatestDeliverySignals`.
    fn update_latest(&mut self, sample: &Sample) {
        self.bw_latest = self.bw_latest.max(sample.rate);
        self.inflight_latest = self.inflight_latest.max(sample.of.volume() as f64);
        self.loss_round_start = sample.of.delivered_before >= self.loss_round;
        if self.loss_round_start {
            self.loss_round = self.delivered;
        }
    }

    /// §5.5.1.
    fn update_round(&mut self, sample: &Sample) {
        self.round_start = sample.of.delivered_before >= self.next_round;
        if self.round_start {
            self.start_round();
            self.rounds += 1;
            self.since_up += 1;
            self.extra_acked.on_round();
        }
    }

    fn start_round(&mut self) {
        self.next_round = self.delivered;
    }

    /// §5.5.10.3: once a round trip with losses, outside of probes.
    fn adapt_lower_bounds(&mut self) {
        if self.loss_in_round && !self.state.is_probing() {
            if self.bw_shortterm.is_infinite() {
                self.bw_shortterm = self.max_bw.get();
            }
            if self.inflight_shortterm.is_infinite() {
                self.inflight_shortterm = self.window;
            }
            self.bw_shortterm = self.bw_latest.max(BETA * self.bw_shortterm);
            self.inflight_shortterm = self.inflight_latest.max(BETA * self.inflight_shortterm);
        }
        self.loss_in_round = false;
    }

    /// §5.5.9.
    fn update_extra_acked(&mut self, sample: &Sample) {
        let mut expected = self.bw * sample.now.since(self.extra_from).as_secs_f64();
        if self.extra_delivered <= expected {
            self.extra_delivered = 0.0;
            self.extra_from = sample.now;
            expected = 0.0;
        }
        self.extra_delivered += sample.acked;
        let extra = self.extra_delivered - expected;
        self.extra_acked.update(extra.min(self.window));
    }

    fn reset_full(&mut self) {
        self.full_bw = 0.0;
        self.full_rounds = 0;
        self.full_now = false;
    }

    /// §5.3.1.2.
    fn check_full(&mut self, sample: &Sample) {
        if self.full_now || !self.round_start || sample.limited {
            return;
        }
        if sample.rate >= self.full_bw * FULL_GROWTH {
            self.reset_full();
            self.full_bw = sample.rate;
            return;
        }
        self.full_rounds += 1;
        if self.full_rounds >= FULL_ROUNDS {
            self.full_now = true;
            self.full_reached = true;
        }
    }

    /// §5.3.1.
    fn check_startup_done(&mut self, sample: &Sample) {
        if self.loss_round_start {
            let gaps = std::mem::take(&mut self.gaps);
            self.last_lost = None;
            if self.state == State::Startup && gaps >= STARTUP_GAPS && too_high(&sample.of) {
                self.startup_lost();
            }
        }
        if self.state == State::Startup && self.full_reached {
            self.state = State::Drain;
            self.drain_from = self.rounds;
        }
    }

    /// Losses end Startup (§5.3.1.3).
    fn startup_lost(&mut self) {
        self.undo.state = Some(State::Startup);
        self.full_reached = true;
        self.inflight_longterm = self.bdp(1.0).max(self.inflight_latest);
    }

    /// §5.3.2.
    fn check_drain_done(&mut self, sample: &Sample) {
        let drained = sample.of.in_flight as f64 <= self.budgeted(self.bdp(1.0));
        let late = self.rounds > self.drain_from + DRAIN_ROUNDS;
        if self.state == State::Drain && (drained || late) {
            self.start_down(sample.now);
        }
    }

    /// §5.3.4.3.
    fn update_min_rtt(&mut self, sample: &Sample) {
        let now = sample.now;
        self.probe_rtt_expired = now > self.probe_rtt_at + PROBE_RTT_INTERVAL;
        if let Some(rtt) = sample.rtt
            && (rtt < self.probe_rtt_delay || self.probe_rtt_expired)
        {
            self.probe_rtt_delay = rtt;
            self.probe_rtt_at = now;
        }
        let expired = now > self.min_rtt_at + MIN_RTT_MEMORY;
        if self.probe_rtt_delay < self.min_rtt || expired {
            self.min_rtt = self.probe_rtt_delay;
            self.min_rtt_at = self.probe_rtt_at;
        }
    }

    fn check_probe_rtt(&mut self, sample: &Sample) {
        if self.state != State::ProbeRtt && self.probe_rtt_expired && !self.idle_restart {
            self.save_window();
            self.state = State::ProbeRtt;
            self.probe_rtt_done = None;
            self.feedback = Feedback::Stopping;
            self.limited[0] = self.delivered;
            self.start_round();
        }
        if self.state == State::ProbeRtt {
            self.limited[1] = self.delivered + sample.of.in_flight;
            if self.probe_rtt_done.is_some() {
                self.probe_rtt_round |= self.round_start;
                if self.probe_rtt_round {
                    self.check_probe_rtt_done(sample.now);
                }
            } else if sample.of.in_flight as f64 <= self.probe_rtt_window() {
                self.probe_rtt_done = Some(sample.now + PROBE_RTT_DURATION);
                self.probe_rtt_round = false;
                self.start_round();
            }
        }
        self.idle_restart = false;
    }

    fn check_probe_rtt_done(&mut self, now: Time) {
        if self.probe_rtt_done.is_some_and(|done| now > done) {
            self.probe_rtt_at = now;
            self.restore_window();
            // §5.3.4.4.
            self.reset_shortterm();
            if self.full_reached {
                self.start_down(now);
                self.state = State::Cruise;
            } else {
                self.state = State::Startup;
            }
        }
    }

    /// §5.4.
    fn restart_from_idle(&mut self, ack: &Ack) {
        self.idle_restart = true;
        self.extra_from = ack.sent;
        if self.state == State::ProbeRtt {
            self.check_probe_rtt_done(ack.now);
        }
    }

    fn save_window(&mut self) {
        let modulated = self.recovering || self.state == State::ProbeRtt;
        self.prior_window = match modulated {
            false => self.window,
            true => self.prior_window.max(self.window),
        };
    }

    fn restore_window(&mut self) {
        self.window = self.window.max(self.prior_window);
    }

    /// §5.6.2.
    fn set_pacing_rate(&mut self) {
        let rate = self.state.pacing_gain() * self.bw * (1.0 - MARGIN);
        let least = self.size;
        self.pacing_rate = match self.pacing_rate {
            Some(before) if !self.full_reached => Some(before.max(rate).max(least)),
            _ => Some(rate.max(least)),
        };
    }

    /// The smallest round-trip time; 0 before the first.
    fn known_rtt(&self) -> f64 {
        if self.min_rtt.is_finite() {
            self.min_rtt
        } else {
            0.0
        }
    }

    /// `BDPMultiple`.
    fn bdp(&self, gain: f64) -> f64 {
        if self.min_rtt.is_infinite() {
            return self.initial_window;
        }
        gain * self.bw * self.min_rtt
    }

    /// `MinPipeCwnd`.
    fn least(&self) -> f64 {
        self.floor * self.size
    }

    /// `QuantizationBudget`.
    fn budgeted(&self, volume: f64) -> f64 {
        let rate = self.pacing_rate.unwrap_or(0.0);
        let quantum = (rate * QUANTUM).min(MAX_QUANTUM).max(2.0 * self.size);
        let probe = if self.state == State::Up {
            2.0 * self.size
        } else {
            0.0
        };
        volume.max(quantum).max(self.least()) + probe
    }

    fn probe_rtt_window(&self) -> f64 {
        self.bdp(State::ProbeRtt.window_gain()).max(self.least())
    }

    /// §5.6.4.6.
    fn set_window(&mut self, sample: &Sample) {
        let extra = self.extra_acked.get(self.full_reached);
        let most = self.budgeted(self.bdp(self.state.window_gain()) + extra);
        let grown = self.window + sample.acked;
        if self.full_reached {
            self.window = grown.min(most);
        } else if self.window < most || (self.delivered as f64) < self.initial_window {
            self.window = grown;
        }
        self.window = self.window.max(self.least());
        if self.state == State::ProbeRtt {
            self.window = self.window.min(self.probe_rtt_window());
        }
        // §5.6.4.7.
        let longterm = match self.state {
            State::Down | State::Refill | State::Up => self.inflight_longterm,
            State::Cruise | State::ProbeRtt => self.with_headroom(),
            State::Startup | State::Drain => f64::INFINITY,
        };
        let most = longterm.min(self.inflight_shortterm).max(self.least());
        self.window = self.window.min(most).min(MAX_WINDOW * self.size);
    }
}

/// Whether so much was lost that what was in flight was too much (`IsInflightTooHigh`).
fn too_high(of: &Delivery) -> bool {
    of.lost as f64 > of.in_flight_then as f64 * LOSS_THRESHOLD
}

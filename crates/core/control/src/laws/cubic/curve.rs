//! One path's window by CUBIC (RFC 9438), for a whole flow or a share of one. It knows no other
//! path.

use manyway_units::Time;

use crate::controller::{Ack, NewPath, Target};
use crate::options::{MAX_WINDOW, Options, bounded, resize};
use crate::slow_start::SlowStart;

/// `C`, packets/s³ (RFC 9438 §5.1).
const C: f64 = 0.4;
/// `β_cubic` (RFC 9438 §4.6).
pub(in crate::laws) const BETA: f64 = 0.7;
/// `α_cubic = 3(1−β)/(1+β)` (RFC 9438 §4.3).
pub(in crate::laws) const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// One path's window; names as in RFC 9438 §4.1.2, windows in packets.
///
/// A subflow that is a share `ω` of a flow, and is cut whenever the flow is, grows `ω` times as
/// fast on the cubic curve and on Reno's line: all subflows of a flow have its `K`, and their
/// windows sum to its window.
///
/// If each of `n` such subflows is cut only for its own losses, it grows `n√n` times as slowly on
/// the curve and `√n` times as slowly on the line. Windows are proportional to `C^(1/4)` (RFC 9438
/// §5.1) and to `α^(1/2)` (§4.3). So at the same loss rate they would sum to one flow's with `n³`
/// and `n` if each loss hit one of them; and with 1 and 1 if each hit all of them. Bursts hit
/// several: this is the geometric mean of the two.
#[derive(Clone, Debug)]
pub(in crate::laws) struct Curve {
    window: f64,
    /// Bytes of a packet.
    size: f64,
    /// `ω`, above 0 and at most 1.
    share: f64,
    /// `n`, at least 1.
    alone: f64,
    pub(super) slow_start: SlowStart,
    /// The plateau: the window just before the last reduction, or less by fast convergence.
    pub(super) w_max: f64,
    /// The window just before the last reduction.
    cwnd_prior: f64,
    pub(super) stage: Stage,
    last_ack: Time,
    cut: Option<Time>,
    /// What the last cut has changed.
    before: Option<Before>,
}

/// What a reduction changes, as it was before (RFC 9438 §4.9.2).
#[derive(Clone, Debug)]
struct Before {
    cut: Option<Time>,
    window: f64,
    slow_start: SlowStart,
    w_max: f64,
    cwnd_prior: f64,
    stage: Stage,
}

#[derive(Copy, Clone, Debug)]
pub(super) enum Stage {
    /// Congestion avoidance starts with the next acknowledgement that may grow the window.
    Pending { after_loss: bool },
    /// Congestion avoidance since `epoch`; `k` in seconds.
    Avoidance { epoch: Time, k: f64, w_est: f64 },
}

impl Curve {
    pub(in crate::laws) fn new(path: &NewPath, options: &Options, floor: f64) -> Self {
        Curve {
            size: f64::from(path.packet_size.max(1)),
            share: 1.0,
            alone: 1.0,
            window: bounded(path.initial_window).max(floor),
            slow_start: SlowStart::of(options),
            w_max: 0.0,
            cwnd_prior: 0.0,
            stage: Stage::Pending { after_loss: false },
            last_ack: path.now,
            cut: None,
            before: None,
        }
    }

    pub(in crate::laws) fn window(&self) -> f64 {
        self.window
    }

    /// Bytes of a packet.
    pub(in crate::laws) fn size(&self) -> f64 {
        self.size
    }

    pub(in crate::laws) fn in_slow_start(&self) -> bool {
        self.slow_start.active(self.window)
    }

    /// When the window was last cut.
    pub(in crate::laws) fn cut(&self) -> Option<Time> {
        self.cut
    }

    /// Makes the path a share `ω` of a flow, and one of `alone` that are each cut only for their
    /// own losses. The curve goes on from where it is: `C·s³` stays.
    pub(in crate::laws) fn set_share(&mut self, share: f64, alone: f64) {
        let before = self.c();
        (self.share, self.alone) = (share, alone);
        let ratio = before / self.c();
        if let Stage::Avoidance { epoch, k, .. } = &mut self.stage {
            let elapsed = self.last_ack.since(*epoch).as_secs_f64();
            *k = elapsed - (elapsed - *k) * ratio.cbrt();
        }
    }

    pub(in crate::laws) fn on_ack(&mut self, ack: &Ack, options: &Options) {
        let slow = self.in_slow_start();
        if slow {
            self.slow_start.on_ack(ack);
        }
        let packets = options.counted(ack.packets);
        if !options.grows_by(ack, self.cut) {
            self.pause(ack.now);
        } else if slow {
            self.window = self.slow_start.grow(self.window, packets);
        } else {
            self.avoid(ack, packets);
        }
        self.last_ack = ack.now;
    }

    pub(in crate::laws) fn on_round_end(&mut self) {
        if self.in_slow_start() {
            self.slow_start.on_round_end(self.window);
        }
    }

    /// The window is at least this.
    pub(in crate::laws) fn raise(&mut self, floor: f64) {
        self.window = self.window.max(floor);
    }

    /// Grows by `packets` beyond the curve, which begins anew from there.
    pub(in crate::laws) fn lift(&mut self, packets: f64) {
        self.window = (self.window + packets).min(MAX_WINDOW);
        self.stage = Stage::Pending { after_loss: false };
    }

    /// Goes back to a smaller window; the curve begins anew from there.
    pub(in crate::laws) fn fall_back(&mut self, window: f64) {
        if window < self.window {
            self.window = window;
            self.stage = Stage::Pending { after_loss: false };
        }
    }

    /// See [`Controller::set_window`](crate::Controller::set_window). The curve begins anew from
    /// there.
    pub(in crate::laws) fn set_window(&mut self, window: f64, target: Target, floor: f64) {
        self.slow_start.resume(target);
        self.window = bounded(window).max(floor);
        self.stage = Stage::Pending { after_loss: false };
    }

    /// Time in which the application didn't use the window doesn't count as elapsed (RFC 9438
    /// §5.8).
    fn pause(&mut self, now: Time) {
        if let Stage::Avoidance { epoch, .. } = &mut self.stage {
            *epoch += now.since(self.last_ack);
        }
    }

    /// `packets` is what the acknowledgement counts for.
    fn avoid(&mut self, ack: &Ack, packets: f64) {
        let (epoch, k, w_est) = match self.stage {
            Stage::Pending { after_loss } => self.start_epoch(ack.now, after_loss),
            Stage::Avoidance { epoch, k, w_est } => (epoch, k, w_est),
        };
        let elapsed = ack.now.since(epoch).as_secs_f64();
        let rtt = ack.smoothed_rtt.as_secs_f64();

        // §4.3: what Reno with the same loss rate would have reached.
        let alpha = if w_est < self.cwnd_prior { ALPHA } else { 1.0 };
        let alpha = alpha * self.share / self.alone.sqrt();
        let w_est = w_est + alpha * packets / self.window;
        self.stage = Stage::Avoidance { epoch, k, w_est };

        let window = if self.w_cubic(elapsed - k) < w_est {
            w_est.max(self.window)
        } else {
            // §4.2, §4.4, §4.5.
            let target = self
                .w_cubic(elapsed + rtt - k)
                .clamp(self.window, 1.5 * self.window);
            (self.window + (target - self.window) / self.window * packets).min(target)
        };
        self.window = window.min(MAX_WINDOW);
    }

    /// `C`, for the share.
    fn c(&self) -> f64 {
        C * self.share / self.alone.powf(1.5)
    }

    /// `C·s³ + W_max`, `s` seconds from the plateau's middle (§4.2, fig. 1).
    fn w_cubic(&self, s: f64) -> f64 {
        self.c() * s * s * s + self.w_max
    }

    fn start_epoch(&mut self, now: Time, after_loss: bool) -> (Time, f64, f64) {
        let k = if after_loss {
            ((self.w_max - self.window).max(0.0) / self.c()).cbrt()
        } else {
            // §4.8, §4.10: after a timeout, or when slow start ended without a loss.
            self.w_max = self.window;
            0.0
        };
        (now, k, self.window)
    }

    /// The curve's constant is in packets: it goes on from where it is, with the plateau where it
    /// was in bytes.
    pub(in crate::laws) fn resize(&mut self, bytes: u32, floor: f64) {
        let factor = resize(&mut self.size, &mut self.window, bytes, floor);
        self.w_max *= factor;
        self.cwnd_prior *= factor;
        if let Some(before) = &mut self.before {
            before.window *= factor;
            before.slow_start.rescale(factor);
            before.w_max *= factor;
            before.cwnd_prior *= factor;
        }
        self.slow_start.rescale(factor);
        let c = self.c();
        if let Stage::Avoidance { epoch, k, w_est } = &mut self.stage {
            *epoch = self.last_ack;
            *k = ((self.w_max - self.window) / c).cbrt();
            *w_est *= factor;
        }
    }

    pub(in crate::laws) fn on_loss(&mut self, now: Time, floor: f64) {
        self.reduce(now, BETA, floor);
    }

    /// Multiplies the window by `factor`, which is below 1.
    pub(in crate::laws) fn reduce(&mut self, now: Time, factor: f64, floor: f64) {
        self.before = Some(Before {
            cut: self.cut,
            window: self.window,
            slow_start: self.slow_start.clone(),
            w_max: self.w_max,
            cwnd_prior: self.cwnd_prior,
            stage: self.stage,
        });
        self.cut = Some(now);
        self.cwnd_prior = self.window;
        // §4.7, fast convergence: less than last time, so somebody else needs room.
        self.w_max = if self.window < self.w_max {
            self.window * (1.0 + BETA) / 2.0
        } else {
            self.window
        };
        self.window = (self.window * factor).max(floor);
        self.slow_start.set_threshold(self.window);
        self.stage = Stage::Pending { after_loss: true };
    }

    /// §4.9.2: the loss event was none.
    pub(in crate::laws) fn restore(&mut self) {
        if let Some(before) = self.before.take() {
            self.cut = before.cut;
            self.window = self.window.max(before.window).min(MAX_WINDOW);
            self.slow_start = before.slow_start;
            self.w_max = before.w_max;
            self.cwnd_prior = before.cwnd_prior;
            self.stage = before.stage;
        }
    }

    pub(in crate::laws) fn on_timeout(&mut self, floor: f64) {
        self.slow_start.restart(self.window, floor);
        self.window = floor;
        self.stage = Stage::Pending { after_loss: false };
    }
}

//! CUBIC on every path, a controller of its own. It couples nothing.

use manyway_units::Time;

use crate::controller::{Ack, Controller, Loss, NewPath, Round, Slot};
use crate::options::{MAX_WINDOW, Options, bounded, resize};
use crate::slots::Slots;
use crate::slow_start::SlowStart;

/// `C`, packets/s³ (RFC 9438 §5.1).
const C: f64 = 0.4;
/// `β_cubic` (RFC 9438 §4.6).
const BETA: f64 = 0.7;
/// `α_cubic = 3(1−β)/(1+β)` (RFC 9438 §4.3).
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// CUBIC on every path by itself (RFC 9438): the uncoupled baseline that most hosts run.
#[derive(Clone, Debug)]
pub struct Cubic {
    options: Options,
    slots: Slots<CubicPath>,
}

impl Cubic {
    /// A controller without paths.
    pub fn new(options: Options) -> Self {
        Cubic {
            options,
            slots: Slots::new(),
        }
    }

    /// The smallest window of a path, in packets.
    pub fn window_floor(&self) -> f64 {
        self.options.floor(2.0)
    }
}

impl Controller for Cubic {
    fn name(&self) -> &'static str {
        "cubic"
    }

    fn add_path(&mut self, path: NewPath) -> Slot {
        self.slots.insert(CubicPath {
            size: f64::from(path.packet_size.max(1)),
            window: bounded(path.initial_window).max(self.window_floor()),
            slow_start: SlowStart::of(&self.options),
            w_max: 0.0,
            cwnd_prior: 0.0,
            stage: Stage::Pending { after_loss: false },
            last_ack: path.now,
            cut: None,
            before: None,
        })
    }

    fn remove_path(&mut self, slot: Slot) {
        self.slots.remove(slot);
    }

    fn set_packet_size(&mut self, slot: Slot, bytes: u32) {
        let floor = self.window_floor();
        if let Some(path) = self.slots.get_mut(slot) {
            path.resize(bytes, floor);
        }
    }

    fn on_ack(&mut self, ack: &Ack) {
        if let Some(path) = self.slots.get_mut(ack.slot) {
            path.on_ack(ack, &self.options);
        }
    }

    fn on_loss(&mut self, loss: &Loss) {
        let floor = self.window_floor();
        if let Some(path) = self.slots.get_mut(loss.slot) {
            path.cut = Some(loss.now);
            path.on_loss(floor);
        }
    }

    fn on_timeout(&mut self, slot: Slot, _now: Time) {
        let floor = self.window_floor();
        if let Some(path) = self.slots.get_mut(slot) {
            path.on_timeout(floor);
        }
    }

    fn on_spurious_loss(&mut self, slot: Slot, _now: Time) {
        if let Some(path) = self.slots.get_mut(slot) {
            path.restore();
        }
    }

    fn on_round_end(&mut self, round: &Round) {
        if let Some(path) = self.slots.get_mut(round.slot)
            && path.slow_start.active(path.window)
        {
            path.slow_start.on_round_end(path.window);
        }
    }

    fn window(&self, slot: Slot) -> f64 {
        self.slots.get(slot).map_or(0.0, |path| path.window)
    }

    fn in_slow_start(&self, slot: Slot) -> bool {
        self.slots
            .get(slot)
            .is_some_and(|path| path.slow_start.active(path.window))
    }
}

/// One path's window; names as in RFC 9438 §4.1.2, windows in packets.
#[derive(Clone, Debug)]
struct CubicPath {
    window: f64,
    /// Bytes of a packet.
    size: f64,
    slow_start: SlowStart,
    /// The plateau: the window just before the last reduction, or less by fast convergence.
    w_max: f64,
    /// The window just before the last reduction.
    cwnd_prior: f64,
    stage: Stage,
    last_ack: Time,
    cut: Option<Time>,
    /// What the last cut has changed.
    before: Option<Curve>,
}

/// What a reduction changes, as it was before (RFC 9438 §4.9.2).
#[derive(Clone, Debug)]
struct Curve {
    window: f64,
    slow_start: SlowStart,
    w_max: f64,
    cwnd_prior: f64,
    stage: Stage,
}

#[derive(Copy, Clone, Debug)]
enum Stage {
    /// Congestion avoidance starts with the next acknowledgement that may grow the window.
    Pending { after_loss: bool },
    /// Congestion avoidance since `epoch`; `k` in seconds.
    Avoidance { epoch: Time, k: f64, w_est: f64 },
}

impl CubicPath {
    fn on_ack(&mut self, ack: &Ack, options: &Options) {
        let slow = self.slow_start.active(self.window);
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

    /// `C·s³ + W_max`, `s` seconds from the plateau's middle (§4.2, fig. 1).
    fn w_cubic(&self, s: f64) -> f64 {
        C * s * s * s + self.w_max
    }

    fn start_epoch(&mut self, now: Time, after_loss: bool) -> (Time, f64, f64) {
        let k = if after_loss {
            ((self.w_max - self.window).max(0.0) / C).cbrt()
        } else {
            // §4.8, §4.10: after a timeout, or when slow start ended without a loss.
            self.w_max = self.window;
            0.0
        };
        (now, k, self.window)
    }

    /// The curve's constant is in packets: it goes on from where it is, with the plateau where it
    /// was in bytes.
    fn resize(&mut self, bytes: u32, floor: f64) {
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
        if let Stage::Avoidance { epoch, k, w_est } = &mut self.stage {
            *epoch = self.last_ack;
            *k = ((self.w_max - self.window) / C).cbrt();
            *w_est *= factor;
        }
    }

    fn on_loss(&mut self, floor: f64) {
        self.before = Some(Curve {
            window: self.window,
            slow_start: self.slow_start.clone(),
            w_max: self.w_max,
            cwnd_prior: self.cwnd_prior,
            stage: self.stage,
        });
        self.cwnd_prior = self.window;
        // §4.7, fast convergence: less than last time, so somebody else needs room.
        self.w_max = if self.window < self.w_max {
            self.window * (1.0 + BETA) / 2.0
        } else {
            self.window
        };
        self.window = (self.window * BETA).max(floor);
        self.slow_start.set_threshold(self.window);
        self.stage = Stage::Pending { after_loss: true };
    }

    /// §4.9.2: the loss event was none.
    fn restore(&mut self) {
        if let Some(before) = self.before.take() {
            self.window = self.window.max(before.window).min(MAX_WINDOW);
            self.slow_start = before.slow_start;
            self.w_max = before.w_max;
            self.cwnd_prior = before.cwnd_prior;
            self.stage = before.stage;
        }
    }

    fn on_timeout(&mut self, floor: f64) {
        self.slow_start.restart(self.window, floor);
        self.window = floor;
        self.stage = Stage::Pending { after_loss: false };
    }
}

#[cfg(test)]
mod tests;

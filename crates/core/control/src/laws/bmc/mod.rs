//! BMC, a controller of its own: windows and weights of all paths. Who moves weight is the
//! manager's business.

use manyway_units::Time;

use crate::controller::{Ack, Controller, Loss, NewPath, Round, Slot, Target};
use crate::options::{MAX_WINDOW, Options, bounded, resize};
use crate::slots::Slots;
use crate::slow_start::SlowStart;

mod manager;
mod weights;

pub use manager::Manager;
pub use weights::Weights;

pub(super) use manager::{EPOCHS, LEAST};
pub(super) use weights::{TOTAL, WEIGHTS};

use manager::{Measure, Measurement, Peak};

/// BMC, bidimensional-probe multipath congestion control (Honda, "Bidimensional-Probe Multipath
/// Congestion Control", Keio University 2009): subflow n runs weighted AIMD(`D_n²`, 1/2) and gets
/// `D_n` times what a TCP flow gets, and `Σ D_n = P` flow shares (eq. 3.1 to 3.6). One path alone
/// has `D = P`; with P = 1 it is Reno.
///
/// The aggressiveness manager is that alone, with fixed [`Weights`]. The proportion manager
/// (section 3.2) measures each subflow for J seconds and moves weight to where it achieves more:
/// see [`Manager`].
///
/// What the paper leaves open, and how it is here:
/// * Slow start is each subflow's own and not weighted, as in the paper's simulations (section
///   5.1): while it lasts, n paths are as aggressive as n flows. Timeouts likewise.
///   [`Bmc::with_weighted_slow_start`] makes it `D_n` packets for each one acknowledged.
/// * The smallest window is Reno's 2 whatever the weight: where the fair share is but a few
///   packets, a small weight gets more than its part.
/// * A path that joins gets the share of P that the policy gives it, and takes it from the others
///   in proportion; a path that leaves gives its share back in the same way. So `Σ D = P` always,
///   also while paths are still being opened.
#[derive(Clone, Debug)]
pub struct Bmc {
    name: &'static str,
    options: Options,
    weights: Weights,
    manager: Manager,
    weighted_slow_start: bool,
    slots: Slots<BmcPath>,
    /// Number of paths.
    paths: usize,
    /// The present interval of measurement, and when to look at it next.
    since: Time,
    due: Time,
    /// The last time known, for events that don't tell.
    now: Time,
}

#[derive(Clone, Debug)]
struct BmcPath {
    window: f64,
    /// Bytes of a packet.
    size: f64,
    slow_start: SlowStart,
    /// `D_n`.
    weight: f64,
    /// When the window was last cut.
    cut: Option<Time>,
    /// What that changed: window, slow start and the measurement's peak.
    before: Option<(f64, SlowStart, Peak)>,
    measurement: Measurement,
}

impl Bmc {
    /// A controller without paths; `name` is what [`Controller::name`] says.
    pub fn new(name: &'static str, weights: Weights, manager: Manager, options: Options) -> Self {
        Bmc {
            name,
            options,
            weights,
            manager,
            weighted_slow_start: false,
            slots: Slots::new(),
            paths: 0,
            since: Time::ZERO,
            due: Time::ZERO,
            now: Time::ZERO,
        }
    }

    /// In slow start, also after a timeout, a window grows by `D_n` packets (at most one) for each
    /// acknowledged, instead of one.
    #[must_use]
    pub fn with_weighted_slow_start(mut self, weighted: bool) -> Self {
        self.weighted_slow_start = weighted;
        self
    }

    /// The path's weight `D_n`, in flow shares; `None` for a slot not in use.
    pub fn weight(&self, slot: Slot) -> Option<f64> {
        Some(self.slots.get(slot)?.weight)
    }

    fn floor(&self) -> f64 {
        self.options.floor(2.0)
    }

    /// Scales all weights so that they sum to P.
    fn normalize(&mut self) {
        let total: f64 = self.slots.iter_mut().map(|path| path.weight).sum();
        let scale = self.weights.total() / total;
        for path in self.slots.iter_mut() {
            path.weight *= scale;
        }
    }

    /// Weights have changed: what was measured belongs to the old ones.
    fn restart(&mut self, now: Time) {
        (self.since, self.due) = (now, now);
        for path in self.slots.iter_mut() {
            path.measurement.forget();
        }
    }

    /// Looks at the interval of measurement, and acts if it is long enough.
    ///
    /// This takes O(n), so it is done at an eighth more of the interval's length each time: some
    /// tens of looks per interval. How long the interval has to be changes with every loss, so the
    /// end can't be known beforehand.
    fn look(&mut self, now: Time) {
        let elapsed = now.since(self.since).as_secs_f64();
        let mut longest = 0.0f64;
        for path in self.slots.iter_mut() {
            longest = longest.max(path.congestion_epoch());
        }
        let interval = self.manager.interval(longest);
        // A hair too short is rounding.
        if elapsed * (1.0 + 1e-6) < interval || elapsed <= 0.0 {
            self.due = self.since + seconds(interval.min(1.125 * elapsed));
            return;
        }
        let total = self.weights.total();
        let mut members: Vec<_> = self
            .slots
            .iter_mut()
            .map(|path| path.measure(elapsed, total))
            .collect();
        if self.manager.decide(&mut members) {
            for (path, member) in self.slots.iter_mut().zip(&members) {
                path.weight = member.share * total;
            }
            self.normalize();
        }
        self.since = now;
        self.due = now;
        for (path, member) in self.slots.iter_mut().zip(&members) {
            path.measurement.next(member);
        }
    }
}

impl Controller for Bmc {
    fn name(&self) -> &'static str {
        self.name
    }

    fn check_paths(&self, count: usize) -> Result<(), String> {
        self.weights.check(count)
    }

    fn add_path(&mut self, path: NewPath) -> Slot {
        self.paths += 1;
        let slot = self.slots.insert(BmcPath {
            window: bounded(path.initial_window).max(self.floor()),
            size: f64::from(path.packet_size.max(1)),
            slow_start: SlowStart::of(&self.options),
            weight: 0.0,
            cut: None,
            before: None,
            measurement: Measurement::new(path.initial_rtt.as_secs_f64()),
        });
        // The newcomer's share of the policy's weights for those present, the others' in
        // proportion.
        let mut present = 0.0;
        for (index, _) in self.slots.iter_indexed() {
            present += self.weights.of(index);
        }
        let share = self.weights.of(slot.index()) / present;
        let total = self.weights.total();
        for path in self.slots.iter_mut() {
            path.weight *= 1.0 - share;
        }
        if let Some(path) = self.slots.get_mut(slot) {
            path.weight = share * total;
        }
        self.normalize();
        self.now = self.now.max(path.now);
        self.restart(self.now);
        slot
    }

    fn remove_path(&mut self, slot: Slot) {
        if self.slots.remove(slot).is_some() {
            self.paths -= 1;
            if self.paths > 0 {
                self.normalize();
            }
            self.restart(self.now);
        }
    }

    fn set_packet_size(&mut self, slot: Slot, bytes: u32) {
        let floor = self.floor();
        if let Some(path) = self.slots.get_mut(slot) {
            let factor = resize(&mut path.size, &mut path.window, bytes, floor);
            path.slow_start.rescale(factor);
            path.measurement.rescale(factor);
            if let Some((window, slow_start, peak)) = &mut path.before {
                *window *= factor;
                slow_start.rescale(factor);
                peak.window *= factor;
            }
        }
    }

    #[inline]
    fn on_ack(&mut self, ack: &Ack) {
        let Some(path) = self.slots.get_mut(ack.slot) else {
            return;
        };
        if self.manager.moves() {
            path.measurement.on_ack(ack);
        }
        let slow = path.slow_start.active(path.window);
        if slow {
            path.slow_start.on_ack(ack);
        }
        if !self.options.grows_by(ack, path.cut) {
            return;
        }
        let packets = self.options.counted(ack.packets);
        path.window = if slow {
            let part = match self.weighted_slow_start {
                true => path.weight.min(1.0),
                false => 1.0,
            };
            path.slow_start.grow(path.window, part * packets)
        } else {
            let increase = path.weight * path.weight / path.window;
            (path.window + increase * packets).min(MAX_WINDOW)
        };
    }

    fn set_window(&mut self, slot: Slot, window: f64, target: Target) -> bool {
        let floor = self.floor();
        let Some(path) = self.slots.get_mut(slot) else {
            return false;
        };
        path.slow_start.resume(target);
        path.window = bounded(window).max(floor);
        true
    }

    fn on_loss(&mut self, loss: &Loss) {
        let floor = self.floor();
        if let Some(path) = self.slots.get_mut(loss.slot) {
            path.cut = Some(loss.now);
            let peak = path.measurement.on_loss(path.window);
            path.before = Some((path.window, path.slow_start.clone(), peak));
            path.window = (path.window / 2.0).max(floor);
            path.slow_start.set_threshold(path.window);
        }
    }

    fn on_timeout(&mut self, slot: Slot, _now: Time) {
        let floor = self.floor();
        if let Some(path) = self.slots.get_mut(slot) {
            path.measurement.peak.settled = true;
            path.slow_start.restart(path.window, floor);
            path.window = floor;
        }
    }

    fn on_spurious_loss(&mut self, slot: Slot, _now: Time) {
        if let Some(path) = self.slots.get_mut(slot)
            && let Some((window, slow_start, peak)) = path.before.take()
        {
            path.window = bounded(path.window.max(window));
            path.slow_start = slow_start;
            path.measurement.peak = peak;
        }
    }

    #[inline]
    fn on_round_end(&mut self, round: &Round) {
        self.now = self.now.max(round.now);
        let Some(path) = self.slots.get_mut(round.slot) else {
            return;
        };
        if path.slow_start.active(path.window) {
            path.slow_start.on_round_end(path.window);
        } else {
            path.measurement.peak.settled = true;
        }
        if self.manager.moves() && round.now >= self.due && self.paths > 1 {
            self.look(round.now);
        }
    }

    #[inline]
    fn window(&self, slot: Slot) -> f64 {
        self.slots.get(slot).map_or(0.0, |path| path.window)
    }

    #[inline]
    fn in_slow_start(&self, slot: Slot) -> bool {
        self.slots
            .get(slot)
            .is_some_and(|path| path.slow_start.active(path.window))
    }
}

impl BmcPath {
    /// The length of a congestion epoch in seconds: `bW/a + 1` round trips, W being the window at
    /// its end (section 3.2), which is the one at the last loss, or a larger one that the path has
    /// reached since.
    fn congestion_epoch(&self) -> f64 {
        let window = self.measurement.peak.window.max(self.window);
        (window / 2.0 / (self.weight * self.weight) + 1.0) * self.measurement.rtt
    }

    fn measure(&self, elapsed: f64, total: f64) -> Measure {
        self.measurement
            .finish(self.weight / total, elapsed, self.size)
    }
}

/// A span of so many seconds, no longer than a century.
fn seconds(s: f64) -> std::time::Duration {
    std::time::Duration::try_from_secs_f64(s.min(3e9)).unwrap_or_default()
}

#[cfg(test)]
mod tests;

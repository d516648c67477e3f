//! wVegas, a controller of its own: it acts on queueing delay at the end of each round.

use manyway_units::Time;

use crate::controller::{Ack, Controller, Loss, NewPath, Round, Slot};
use crate::options::{MAX_WINDOW, Options, bounded, resize};
use crate::slots::Slots;

mod config;

pub(super) use config::PARAMETERS;
pub use config::{Drain, WvegasConfig};

/// The smallest round-trip time taken for one, in seconds: rates must stay finite.
const MIN_RTT: f64 = 1e-6;

/// `alpha[r]` before the first equilibrium, in packets (Algorithm 3, line 4).
const INITIAL_ALPHA: f64 = 2.0;

/// Weight of the newest round in a path's usual rate and noise.
const USUAL_GAIN: f64 = 0.125;

/// What a drain leaves of the window that the path itself holds (line 23).
const BACKOFF: f64 = 0.5;

/// wVegas, weighted Vegas (Cao, Xu, Fu, "Delay-based Congestion Control for Multipath TCP", ICNP
/// 2012): each path keeps `α_r` packets queued, and the connection's `α` is shared out by the
/// paths' equilibrium rates, so that traffic moves to paths on which few packets in the queue make
/// a high rate.
///
/// This is the paper's Algorithm 3, and comments give its line numbers. It acts at the end of each
/// round. One path alone is TCP Vegas with `α = β = total_alpha`.
///
/// What the algorithm leaves to TCP Vegas, and how it is here:
/// * Slow start (whatever [`Options::slow_start`] says): the window doubles every other round trip;
///   the round between shows the queue without a burst in it. When `diff` exceeds γ, slow start
///   ends and the window goes to what the round trip without queue holds, plus γ, so that the
///   overshoot doesn't stay in the queue.
/// * A loss event halves the window, as in TCP Vegas' descendants in Linux and ns-3; persistent
///   congestion sets it to its floor and slow start begins again towards half of the window.
/// * Rounds of which packets were sent before the last cut, and rounds most of whose packets were
///   sent application-limited, say nothing about the present window: they adjust nothing. The base
///   round-trip time is learnt from them too.
///
/// Weights compare bytes/s where packet sizes differ. A base round-trip time that never existed,
/// all samples having met a queue, makes a path see a shorter queue than there is: it takes more
/// than its share until some drain shows it a shorter one (the paper's section III-B.3). One that
/// is no more, the route having become longer, looks like a queue that never empties: the path
/// keeps to its α until persistent congestion, which forgets the base.
#[derive(Clone, Debug)]
pub struct Wvegas {
    name: &'static str,
    options: Options,
    config: WvegasConfig,
    slots: Slots<VegasPath>,
    /// Number of paths.
    paths: usize,
    /// `Σ equilibrium_rates` (line 28), bytes/s; kept by differences, and summed anew every so
    /// often.
    total_rate: f64,
    /// Differences since it was last summed.
    changes: usize,
}

impl Wvegas {
    /// A controller without paths; `name` is what [`Controller::name`] says.
    pub fn new(name: &'static str, config: WvegasConfig, options: Options) -> Self {
        Wvegas {
            name,
            options,
            config,
            slots: Slots::new(),
            paths: 0,
            total_rate: 0.0,
            changes: 0,
        }
    }

    /// `alpha[r]`, the packets that the path aims to keep queued; `None` for a slot not in use.
    pub fn alpha(&self, slot: Slot) -> Option<f64> {
        Some(self.slots.get(slot)?.alpha)
    }

    /// The path's round-trip time without queues as far as it is known, in seconds; `None` before
    /// the first sample.
    pub fn base_rtt(&self, slot: Slot) -> Option<f64> {
        Some(self.slots.get(slot)?.base_rtt).filter(|base| base.is_finite())
    }

    fn floor(&self) -> f64 {
        self.options.floor(2.0)
    }

    fn initial_alpha(&self) -> f64 {
        INITIAL_ALPHA.max(self.config.min_alpha)
    }

    /// The base round-trip time before the first sample.
    fn given_base(&self) -> f64 {
        match self.config.base {
            base if base > 0.0 => base.max(MIN_RTT),
            _ => f64::INFINITY,
        }
    }

    /// Sets a path's equilibrium rate, in bytes/s; 0 for none.
    fn set_rate(&mut self, slot: Slot, rate: f64) {
        let Some(path) = self.slots.get_mut(slot) else {
            return;
        };
        self.total_rate += rate - std::mem::replace(&mut path.rate, rate);
        self.changes += 1;
        // Rounding adds up; a sum every n changes costs O(1) each.
        if self.changes > self.paths {
            self.changes = 0;
            self.total_rate = self.slots.iter_mut().map(|path| path.rate).sum();
        }
    }

    /// Lines 10 to 14, and 27 to 31: `α_r` by the path's share of all equilibrium rates. Of the
    /// other paths' weights nobody asks before their own next equilibrium.
    fn adjust_weight(&mut self, slot: Slot, rate: f64) {
        self.set_rate(slot, rate);
        let (total, config) = (self.total_rate, self.config);
        if let Some(path) = self.slots.get_mut(slot) {
            let weight = if total > 0.0 { path.rate / total } else { 1.0 };
            path.alpha = (weight.clamp(0.0, 1.0) * config.total_alpha).max(config.min_alpha);
        }
    }

    /// Lines 32 to 34.
    fn forget_equilibrium(&mut self, slot: Slot) {
        self.set_rate(slot, 0.0);
        let alpha = self.initial_alpha();
        let keeps = self.config.loss_keeps_alpha;
        if let Some(path) = self.slots.get_mut(slot) {
            path.queue_delay = 0.0;
            if !keeps {
                path.alpha = alpha;
            }
        }
    }

    /// A round of congestion avoidance: lines 9 to 26.
    fn avoid(&mut self, slot: Slot, seen: Seen) {
        let floor = self.floor();
        let Some(path) = self.slots.get_mut(slot) else {
            return;
        };
        let diff = path.window * seen.share;
        if diff >= path.alpha {
            let rate = path.window * path.size / seen.rtt;
            self.adjust_weight(slot, rate);
        }
        let drain = self.config.drain;
        let Some(path) = self.slots.get_mut(slot) else {
            return;
        };
        // Lines 15 to 18, with the new α.
        if diff < path.alpha {
            path.window += 1.0;
        } else if diff > path.alpha {
            path.window -= 1.0;
        }
        let watched = match drain {
            Drain::Never => false,
            Drain::AsPrinted => true,
            Drain::AtEquilibrium => diff >= path.alpha,
        };
        if watched {
            path.drain(seen);
        }
        path.window = path.window.clamp(floor, MAX_WINDOW);
    }
}

impl Controller for Wvegas {
    fn name(&self) -> &'static str {
        self.name
    }

    fn add_path(&mut self, path: NewPath) -> Slot {
        self.paths += 1;
        self.slots.insert(VegasPath {
            window: bounded(path.initial_window).max(self.floor()),
            size: f64::from(path.packet_size.max(1)),
            alpha: self.initial_alpha(),
            rate: 0.0,
            queue_delay: 0.0,
            usual_rate: 0.0,
            noise: 0.0,
            base_rtt: self.given_base(),
            base_one_way: f64::INFINITY,
            slow_start: true,
            threshold: self
                .options
                .initial_threshold
                .map_or(f64::INFINITY, bounded),
            // The first round is over with the first acknowledgement: the one after it is the first
            // to grow.
            grows: false,
            before: None,
            round: Samples::default(),
        })
    }

    fn remove_path(&mut self, slot: Slot) {
        self.set_rate(slot, 0.0);
        if self.slots.remove(slot).is_some() {
            self.paths -= 1;
        }
    }

    fn set_packet_size(&mut self, slot: Slot, bytes: u32) {
        let floor = self.floor();
        if let Some(path) = self.slots.get_mut(slot) {
            let factor = resize(&mut path.size, &mut path.window, bytes, floor);
            path.threshold *= factor;
            if let Some(before) = &mut path.before {
                before.window *= factor;
                before.threshold *= factor;
            }
            path.usual_rate *= factor;
            path.round.packets *= factor;
            path.round.limited *= factor;
        }
    }

    #[inline]
    fn on_ack(&mut self, ack: &Ack) {
        let measured = self.config.base <= 0.0;
        let Some(path) = self.slots.get_mut(ack.slot) else {
            return;
        };
        if ack.rtt_sampled {
            path.sample(ack, measured, self.config.forward);
        }
        let stale = ack.in_recovery && !self.options.growth_in_recovery;
        path.round.stale |= stale;
        path.round.packets += ack.packets;
        if ack.app_limited {
            path.round.limited += ack.packets;
        } else if path.slow_start && path.grows && !stale {
            let packets = self.options.counted(ack.packets);
            let grown = (path.window + packets).min(path.threshold);
            path.window = grown.min(MAX_WINDOW).max(path.window);
        }
    }

    fn on_loss(&mut self, loss: &Loss) {
        let floor = self.floor();
        let before = self.slots.get(loss.slot).map(Before::of);
        self.forget_equilibrium(loss.slot);
        if let Some(path) = self.slots.get_mut(loss.slot) {
            path.before = before;
            path.window = (path.window / 2.0).max(floor);
            path.threshold = path.window;
            path.slow_start = false;
            path.round.stale = true;
        }
    }

    fn on_timeout(&mut self, slot: Slot, _now: Time) {
        let (floor, base) = (self.floor(), self.given_base());
        self.forget_equilibrium(slot);
        if let Some(path) = self.slots.get_mut(slot) {
            // The loss event that led here has halved the window already, if there was one.
            if path.window != path.threshold {
                path.threshold = (path.window / 2.0).max(floor);
            }
            path.window = floor;
            path.slow_start = path.window < path.threshold;
            path.grows = true;
            path.round.stale = true;
            // It may be another way by now (RFC 9002 §5.2).
            path.base_rtt = base;
            path.base_one_way = f64::INFINITY;
            path.usual_rate = 0.0;
        }
    }

    fn on_spurious_loss(&mut self, slot: Slot, _now: Time) {
        let Some(path) = self.slots.get_mut(slot) else {
            return;
        };
        if let Some(before) = path.before.take() {
            path.window = path.window.max(before.window).min(MAX_WINDOW);
            path.threshold = before.threshold;
            path.slow_start = before.slow_start;
            path.alpha = before.alpha;
            path.queue_delay = before.queue_delay;
            path.round.stale = before.stale;
            self.set_rate(slot, before.rate);
        }
    }

    /// Line 7.
    fn on_round_end(&mut self, round: &Round) {
        let (gamma, least) = (self.config.gamma, self.config.least);
        let floor = self.floor();
        let Some(path) = self.slots.get_mut(round.slot) else {
            return;
        };
        let Some(seen) = path.end_round(least) else {
            return;
        };
        if path.slow_start {
            path.go_slow(seen, gamma, floor);
        } else {
            self.avoid(round.slot, seen);
        }
    }

    #[inline]
    fn window(&self, slot: Slot) -> f64 {
        self.slots.get(slot).map_or(0.0, |path| path.window)
    }

    #[inline]
    fn in_slow_start(&self, slot: Slot) -> bool {
        self.slots.get(slot).is_some_and(|path| path.slow_start)
    }
}

/// One path; names as in Algorithm 3, windows in packets, times in seconds.
#[derive(Clone, Debug)]
struct VegasPath {
    window: f64,
    /// Bytes of a packet.
    size: f64,
    alpha: f64,
    /// `equilibrium_rates[r]`, but in bytes/s; 0 for none.
    rate: f64,
    /// `queue_delays[r]`; 0 for none.
    queue_delay: f64,
    /// Windows per round trip at equilibrium, packets/s, smoothed; 0 before the first.
    usual_rate: f64,
    /// By how much round trips differ from what the window takes at that rate, on average.
    noise: f64,
    /// Infinite before the first sample.
    base_rtt: f64,
    /// The least one-way delay plus the clocks' difference; infinite before the first sample.
    base_one_way: f64,
    slow_start: bool,
    /// Where slow start ends at the latest.
    threshold: f64,
    /// The present round of slow start is one that grows.
    grows: bool,
    /// What the last loss has changed.
    before: Option<Before>,
    round: Samples,
}

/// What a loss changes, as it was before.
#[derive(Copy, Clone, Debug)]
struct Before {
    window: f64,
    threshold: f64,
    slow_start: bool,
    alpha: f64,
    queue_delay: f64,
    rate: f64,
    stale: bool,
}

impl Before {
    fn of(path: &VegasPath) -> Self {
        Before {
            window: path.window,
            threshold: path.threshold,
            slow_start: path.slow_start,
            alpha: path.alpha,
            queue_delay: path.queue_delay,
            rate: path.rate,
            stale: path.round.stale,
        }
    }
}

/// What a round's acknowledgements said.
#[derive(Copy, Clone, Debug, Default)]
struct Samples {
    /// `sampled_rtts[r]` and `sampled_num[r]`.
    rtts: f64,
    count: f64,
    least_rtt: f64,
    /// The same of one-way delays.
    one_ways: f64,
    one_way_count: f64,
    least_one_way: f64,
    /// Packets acknowledged, and those of them that were sent application-limited.
    packets: f64,
    limited: f64,
    /// The window was cut, or packets from before the last cut were acknowledged.
    stale: bool,
}

/// What a round has shown.
#[derive(Copy, Clone, Debug)]
struct Seen {
    /// The mean round-trip time (line 8).
    rtt: f64,
    /// `q = rtt − baseRTT` (line 19).
    queueing: f64,
    /// `q/rtt`: the share of the window that stands in the queue (line 9). By Little's law that
    /// holds for the queues on the way there alone, too.
    share: f64,
    /// Queueing is that of the way there.
    forward: bool,
}

impl VegasPath {
    #[inline]
    fn sample(&mut self, ack: &Ack, measured: bool, forward: bool) {
        let rtt = ack.rtt.as_secs_f64().max(MIN_RTT);
        self.round.rtts += rtt;
        self.round.count += 1.0;
        if self.round.count == 1.0 || rtt < self.round.least_rtt {
            self.round.least_rtt = rtt;
        }
        if measured {
            self.base_rtt = self.base_rtt.min(rtt);
        }
        if forward && let Some(one_way) = ack.one_way() {
            self.round.one_ways += one_way;
            self.round.one_way_count += 1.0;
            if self.round.one_way_count == 1.0 || one_way < self.round.least_one_way {
                self.round.least_one_way = one_way;
            }
            self.base_one_way = self.base_one_way.min(one_way);
        }
    }

    /// What the round has shown, if it may count, and a new one begins.
    fn end_round(&mut self, least: bool) -> Option<Seen> {
        let round = std::mem::take(&mut self.round);
        if round.count == 0.0 || round.stale || 2.0 * round.limited > round.packets {
            return None;
        }
        let typical = |sum: f64, count: f64, of_all: f64| if least { of_all } else { sum / count };
        let rtt = typical(round.rtts, round.count, round.least_rtt);
        let mut queueing = (rtt - self.base_rtt).max(0.0);
        if round.one_way_count > 0.0 {
            // Never more than on the whole round trip: a clock that runs away must not look like an
            // endless queue.
            let there = typical(round.one_ways, round.one_way_count, round.least_one_way);
            queueing = (there - self.base_one_way).clamp(0.0, queueing);
        }
        Some(Seen {
            rtt,
            queueing,
            share: queueing / rtt,
            forward: round.one_way_count > 0.0,
        })
    }

    /// The end of a round of slow start, as TCP Vegas has it.
    fn go_slow(&mut self, seen: Seen, gamma: f64, floor: f64) {
        self.grows = !self.grows;
        if self.window * seen.share > gamma {
            self.slow_start = false;
            let held = self.window * (1.0 - seen.share);
            self.window = self.window.min(held + gamma).max(floor);
        } else if self.window >= self.threshold {
            self.slow_start = false;
        }
    }

    /// Lines 19 to 25.
    fn drain(&mut self, seen: Seen) {
        let q = seen.queueing;
        if self.queue_delay == 0.0 || self.queue_delay > q {
            self.queue_delay = q;
        }
        let others = self.others_joined(seen) || !seen.forward;
        if q > 2.0 * self.queue_delay && others {
            self.window *= BACKOFF * (1.0 - seen.share);
            self.queue_delay = 0.0;
        }
    }

    /// For forward delay: whether others' packets are at least half of what the queue has grown by.
    /// When a queue on the return path shrinks, packets of the window stand in the queue on the way
    /// there instead; the rate is as it was, and nobody has joined. With others in the queue the
    /// window takes longer, by more than the round trip's own ups and downs.
    fn others_joined(&mut self, seen: Seen) -> bool {
        let rate = self.window / seen.rtt;
        if self.usual_rate == 0.0 {
            self.usual_rate = rate;
        }
        let longer = seen.rtt - self.window / self.usual_rate;
        let enough = (0.5 * (seen.queueing - self.queue_delay)).max(2.0 * self.noise);
        self.usual_rate += USUAL_GAIN * (rate - self.usual_rate);
        self.noise += USUAL_GAIN * (longer.abs() - self.noise);
        longer >= enough
    }
}

#[cfg(test)]
mod tests;

//! mPath, a controller of its own: windows of one direct path and many relayed ones. Which relays
//! there are is up to [`crate::paths`].

use manyway_units::Time;

use crate::controller::{Ack, Controller, Loss, NewPath, PathVerdict, Round, Slot, Target};
use crate::options::{MAX_WINDOW, Options};
use crate::slots::Slots;
use path::{Interval, MpathPath};

mod path;

/// mPath (Xu, Leong, Seah and Razeen, "mPath: High-Bandwidth Data Transfers with
/// Massively-Multipath Source Routing", section 2.3): AIMD over one direct path and any number of
/// proxied ones, with load aggregation onto the direct path.
///
/// The path added first is the direct one; if it is removed, the oldest of the others takes its
/// place. `w_0` is the direct path's window, `w_i` a proxied path's, `W` the sum over all.
///
/// * Each acknowledgement adds `1/W` per packet, about one packet per round trip over all paths.
///   The share `P = (w_0/W)ρ + (W − w_0)/W` of it is for the proxied paths, with `ρ` the share of
///   those that have not met loss, and `1 − P` for the direct one (eq. 1). The direct path has
///   TCP's slow start, proxied ones start with one packet in congestion avoidance.
/// * Growth goes to one proxied path at a time, a whole packet of it, out of those with a recent
///   acknowledgement: to those that have never met loss as long as there are any, else in
///   proportion to `w_i`.
/// * A loss halves the path's window. Each path keeps the interval from the sending of the last
///   lost packet to the detection of the loss; if a proxied path's overlaps the direct path's, they
///   share a bottleneck, and load is aggregated: `w_i = (w_i/2)(1 − min(α, w_0/Σw_j))`, and `w_0`
///   gains what is taken, with windows as they were before the losses and the sum over the proxied
///   paths whose losses overlap the same loss of the direct path. `w_0` never comes out of it
///   larger than before its own cut (eq. 6).
/// * A proxied path that is aggregated below one packet is [`PathVerdict::Drained`]; one with
///   persistent congestion, [`PathVerdict::TimedOut`]. Its window stays at one packet if its owner
///   keeps it all the same.
///
/// Where the paper leaves a choice:
/// * It draws lots; here both choices are made by error diffusion, which has the lots' mean without
///   their variance and needs no randomness: the direct path grows by `(1 − P)/W`, the rest is
///   saved until it is a packet, and proxied paths take turns by smooth weighted round robin. A
///   saved packet is given at most once per W acknowledgements, and W is at least the number of
///   paths: O(1) amortised.
/// * An acknowledgement is recent for two of the path's round-trip times, and only counts if it
///   lets the window grow. If no path has one, the direct path takes the growth.
/// * The losses of two paths are hardly ever detected at the same instant. Whichever comes second,
///   within the overlap, aggregates; each loss of a proxied path does so at most once.
/// * The interval is that of the last lost packet, whether it cut the window or belongs to a loss
///   event that had. Of packets found lost at once the newest counts.
/// * Where packet sizes differ, windows are compared in bytes.
#[derive(Clone, Debug)]
pub struct Mpath {
    /// `α`: the share of a proxied path's remaining window that moves to the direct path at a
    /// correlated loss.
    alpha: f64,
    options: Options,
    slots: Slots<MpathPath>,
    /// All paths, oldest first: the direct one, then the proxied ones.
    order: Vec<Slot>,
    /// `W − w_0`, bytes.
    proxied: f64,
    /// Proxied paths that have not met loss.
    fresh: usize,
    /// Growth saved for the proxied paths, bytes.
    saved: f64,
    /// `w_0` before its last cut, bytes.
    ceiling: f64,
    /// `Σw_j`: windows before their losses of the proxied paths whose losses overlap the direct
    /// path's last one, bytes.
    correlated: f64,
    /// `ceiling` and `correlated` before the direct path's last loss.
    earlier: (f64, f64),
}

impl Mpath {
    /// A controller without paths. `alpha` is the share of a proxied path's remaining window that
    /// moves to the direct path at a correlated loss; in (0, 1]. (`β` is for the path manager,
    /// [`crate::paths::ManagerConfig::beta`]: windows don't depend on it.)
    ///
    /// # Errors
    /// A sentence if `alpha` is out of range.
    pub fn new(alpha: f64, options: Options) -> Result<Self, String> {
        if !(alpha > 0.0 && alpha <= 1.0) {
            return Err(format!(
                "alpha = {alpha} is out of range; allowed is more than 0, at most 1"
            ));
        }
        Ok(Mpath {
            alpha,
            options,
            slots: Slots::new(),
            order: Vec::new(),
            proxied: 0.0,
            fresh: 0,
            saved: 0.0,
            ceiling: 0.0,
            correlated: 0.0,
            earlier: (0.0, 0.0),
        })
    }

    /// The direct path; `None` without any path.
    fn direct(&self) -> Option<Slot> {
        self.order.first().copied()
    }

    /// `P`, the share of all growth that is for the proxied paths (eq. 1): 0 without proxied paths.
    #[cfg(test)]
    fn probability(&self) -> f64 {
        let direct = self.direct().and_then(|slot| self.slots.get(slot));
        match (direct, self.order.len()) {
            (Some(direct), 2..) => self.share_of_proxied(direct.bytes()),
            _ => 0.0,
        }
    }

    /// Whether the losses last met by the direct path and by this proxied path overlap in time.
    #[cfg(test)]
    fn shares_bottleneck(&self, slot: Slot) -> bool {
        let interval = |slot| self.slots.get(slot)?.interval;
        let direct = self.direct().filter(|&direct| direct != slot);
        match (direct.and_then(interval), interval(slot)) {
            (Some(direct), Some(proxied)) => direct.overlaps(proxied),
            _ => false,
        }
    }

    /// The smallest window of the path in this slot, in packets: TCP's for the direct path.
    fn floor_of(&self, slot: Slot) -> f64 {
        let natural = if Some(slot) == self.direct() {
            2.0
        } else {
            1.0
        };
        self.options.floor(natural)
    }

    #[inline]
    fn share_of_proxied(&self, direct: f64) -> f64 {
        let rho = self.fresh as f64 / (self.order.len() - 1) as f64;
        (direct * rho + self.proxied) / (direct + self.proxied)
    }

    /// Congestion avoidance: `packets` of `size` bytes were acknowledged.
    #[inline]
    fn avoid(&mut self, direct: Slot, now: Time, (packets, size): (f64, f64)) {
        let Some(path) = self.slots.get(direct) else {
            return;
        };
        let bytes = path.bytes();
        let p = self.share_of_proxied(bytes);
        let growth = packets * size * size / (bytes + self.proxied);
        self.saved += p * growth;
        let unit = path.size;
        if let Some(path) = self.slots.get_mut(direct) {
            path.grow_avoiding((1.0 - p) * growth);
        }
        if self.saved >= unit {
            self.spend(now, unit);
        }
    }

    /// Gives the saved packets to one path.
    fn spend(&mut self, now: Time, unit: f64) {
        let bytes = (self.saved / unit).floor() * unit;
        self.saved -= bytes;
        let chosen = self.choose(now);
        let taker = chosen.or(self.direct());
        if let Some(path) = taker.and_then(|slot| self.slots.get_mut(slot)) {
            match chosen {
                Some(_) => path.grow(bytes),
                None => path.grow_avoiding(bytes),
            }
        }
        // All windows were looked at: so much the better against rounding errors.
        self.count();
    }

    /// The proxied path whose turn it is to grow.
    fn choose(&mut self, now: Time) -> Option<Slot> {
        let proxied = self.order.get(1..).unwrap_or_default();
        let path = |&slot: &Slot| self.slots.get(slot);
        let ready = proxied.iter().filter_map(path).filter(|p| p.is_ready(now));
        let (mut fresh, mut windows) = (0, 0.0);
        for path in ready {
            fresh += usize::from(path.is_fresh());
            windows += path.bytes();
        }
        let mut chosen: Option<(Slot, f64)> = None;
        for &slot in proxied {
            let Some(path) = self.slots.get_mut(slot).filter(|p| p.is_ready(now)) else {
                continue;
            };
            path.turn += match fresh {
                0 => path.bytes() / windows,
                _ if path.is_fresh() => 1.0 / fresh as f64,
                _ => continue,
            };
            if chosen.is_none_or(|(_, turn)| path.turn > turn) {
                chosen = Some((slot, path.turn));
            }
        }
        let (slot, _) = chosen?;
        self.slots.get_mut(slot)?.turn -= 1.0;
        Some(slot)
    }

    fn on_direct_loss(&mut self, direct: Slot, interval: Interval) {
        let floor = self.floor_of(direct);
        let Some(path) = self.slots.get_mut(direct) else {
            return;
        };
        self.earlier = (self.ceiling, self.correlated);
        self.ceiling = path.bytes();
        path.cut(floor, interval);
        path.slow_start.set_threshold(path.window);
        self.correlated = 0.0;
        self.aggregate_overlapping(direct, interval);
    }

    /// The proxied paths whose last losses overlap this loss of the direct path's and haven't led
    /// to aggregation yet.
    fn aggregate_overlapping(&mut self, direct: Slot, interval: Interval) {
        let mut together = Vec::new();
        for &slot in self.order.get(1..).unwrap_or_default() {
            if let Some(path) = self.slots.get(slot)
                && path.may_aggregate(interval)
            {
                self.correlated += path.before * path.size;
                together.push(slot);
            }
        }
        for slot in together {
            self.aggregate(direct, slot);
        }
    }

    fn on_proxied_loss(&mut self, direct: Slot, slot: Slot, interval: Interval) {
        let floor = self.floor_of(slot);
        if let Some(path) = self.slots.get_mut(slot) {
            path.cut(floor, interval);
        }
        self.aggregate_if_shared(direct, slot);
    }

    fn aggregate_if_shared(&mut self, direct: Slot, slot: Slot) {
        let interval = self.slots.get(direct).and_then(|path| path.interval);
        if let (Some(interval), Some(path)) = (interval, self.slots.get(slot))
            && path.may_aggregate(interval)
        {
            self.correlated += path.before * path.size;
            self.aggregate(direct, slot);
        }
    }

    /// Moves load of the proxied path at `slot`, which has been cut already, to the direct path.
    fn aggregate(&mut self, direct: Slot, slot: Slot) {
        let floor = self.floor_of(slot);
        let share = self.alpha.min(self.ceiling / self.correlated);
        let Some(path) = self.slots.get_mut(slot) else {
            return;
        };
        path.aggregated = true;
        let taken = path.window * share;
        let left = path.window - taken;
        if left < floor {
            path.verdict = PathVerdict::Drained;
        }
        // What the floor leaves to the path isn't given twice.
        let given = (path.window - left.max(floor)).max(0.0) * path.size;
        path.window = left.max(floor);
        let Some(path) = self.slots.get_mut(direct) else {
            return;
        };
        let given = given.min((self.ceiling - path.bytes()).max(0.0));
        path.grow(given);
        if let Some(path) = self.slots.get_mut(slot) {
            path.given = given;
        }
    }

    /// Counts anew what is known about all proxied paths.
    fn count(&mut self) {
        let path = |&slot: &Slot| self.slots.get(slot);
        let proxied = self.order.get(1..).unwrap_or_default();
        let proxied = proxied.iter().filter_map(path);
        (self.proxied, self.fresh) = proxied.fold((0.0, 0), |(bytes, fresh), path| {
            (bytes + path.bytes(), fresh + usize::from(path.is_fresh()))
        });
    }
}

impl Controller for Mpath {
    fn name(&self) -> &'static str {
        "mpath"
    }

    fn add_path(&mut self, path: NewPath) -> Slot {
        let is_direct = self.order.is_empty();
        let slot = self.slots.insert(MpathPath::new(&path, &self.options));
        self.order.push(slot);
        let floor = self.floor_of(slot);
        if let Some(path) = self.slots.get_mut(slot) {
            path.window = if is_direct {
                path.window.max(floor)
            } else {
                floor
            };
        }
        self.count();
        slot
    }

    fn remove_path(&mut self, slot: Slot) {
        let was_direct = Some(slot) == self.direct();
        if self.slots.remove(slot).is_none() {
            return;
        }
        self.order.retain(|&other| other != slot);
        if was_direct {
            (self.ceiling, self.correlated) = (0.0, 0.0);
            if let Some(heir) = self.direct() {
                let floor = self.floor_of(heir);
                if let Some(path) = self.slots.get_mut(heir) {
                    path.promote(floor);
                }
            }
        }
        if self.order.len() < 2 {
            self.saved = 0.0;
        }
        self.count();
    }

    fn set_packet_size(&mut self, slot: Slot, bytes: u32) {
        let floor = self.floor_of(slot);
        if let Some(path) = self.slots.get_mut(slot) {
            path.resize(bytes, floor);
        }
        self.count();
    }

    #[inline]
    fn on_ack(&mut self, ack: &Ack) {
        let Some(direct) = self.direct() else {
            return;
        };
        let Some(path) = self.slots.get_mut(ack.slot) else {
            return;
        };
        path.rtt = ack.smoothed_rtt;
        let slow = ack.slot == direct && path.slow_start.active(path.window);
        if slow {
            path.slow_start.on_ack(ack);
        }
        if !self.options.grows_by(ack, path.cut_at) {
            return;
        }
        path.acknowledged = Some(ack.now);
        let packets = self.options.counted(ack.packets);
        if slow {
            path.window = path.slow_start.grow(path.window, packets);
        } else if self.order.len() == 1 {
            path.window = (path.window + packets / path.window).min(MAX_WINDOW);
        } else {
            let size = path.size;
            self.avoid(direct, ack.now, (packets, size));
        }
    }

    /// The direct path's only: the others have no slow start.
    fn set_window(&mut self, slot: Slot, window: f64, target: Target) -> bool {
        let floor = self.floor_of(slot);
        // Proxied paths have no slow start.
        let may = Some(slot) == self.direct() || target == Target::Unchanged;
        let path = self.slots.get_mut(slot).filter(|_| may);
        let set = path.map(|path| path.set_window(window, target, floor));
        self.count();
        set.is_some()
    }

    fn on_loss(&mut self, loss: &Loss) {
        let Some(direct) = self.direct() else {
            return;
        };
        let interval = Interval::of(loss);
        if loss.slot == direct {
            self.on_direct_loss(direct, interval);
        } else {
            self.on_proxied_loss(direct, loss.slot, interval);
        }
        self.count();
    }

    fn on_further_loss(&mut self, loss: &Loss) {
        let (Some(direct), Some(path)) = (self.direct(), self.slots.get_mut(loss.slot)) else {
            return;
        };
        // After a timeout of the direct path there is no interval to go on with.
        if path.interval.is_none() {
            return;
        }
        let interval = Interval::of(loss);
        path.interval = Some(interval);
        if loss.slot == direct {
            self.aggregate_overlapping(direct, interval);
        } else {
            self.aggregate_if_shared(direct, loss.slot);
        }
        self.count();
    }

    fn on_timeout(&mut self, slot: Slot, _now: Time) {
        let floor = self.floor_of(slot);
        let is_direct = Some(slot) == self.direct();
        if let Some(path) = self.slots.get_mut(slot) {
            path.time_out(floor, is_direct);
        }
        self.count();
    }

    /// Load that other paths have given to the direct one on account of its loss stays there.
    fn on_spurious_loss(&mut self, slot: Slot, _now: Time) {
        let Some(given) = self.slots.get_mut(slot).and_then(MpathPath::restore) else {
            return;
        };
        let direct = self.direct();
        if Some(slot) == direct {
            (self.ceiling, self.correlated) = self.earlier;
        } else if let Some(direct) = direct {
            let floor = self.floor_of(direct);
            if let Some(path) = self.slots.get_mut(direct) {
                path.window = (path.window - given / path.size).max(floor);
            }
        }
        self.count();
    }

    #[inline]
    fn on_round_end(&mut self, round: &Round) {
        if Some(round.slot) == self.direct()
            && let Some(path) = self.slots.get_mut(round.slot)
            && path.slow_start.active(path.window)
        {
            path.slow_start.on_round_end(path.window);
        }
    }

    #[inline]
    fn window(&self, slot: Slot) -> f64 {
        self.slots.get(slot).map_or(0.0, |path| path.window)
    }

    #[inline]
    fn in_slow_start(&self, slot: Slot) -> bool {
        Some(slot) == self.direct()
            && self
                .slots
                .get(slot)
                .is_some_and(|path| path.slow_start.active(path.window))
    }

    fn verdict(&self, slot: Slot) -> PathVerdict {
        self.slots
            .get(slot)
            .map_or(PathVerdict::Keep, |path| path.verdict)
    }
}

#[cfg(test)]
mod tests;

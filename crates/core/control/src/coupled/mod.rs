//! The controller that runs a law: slow start, windows, floors and packet sizes of all paths. The
//! law alone decides by how much windows grow and shrink in congestion avoidance.

use manyway_units::Time;

use crate::controller::{Ack, Controller, Loss, NewPath, Round, Slot, Target};
use crate::law::{Law, Path};
use crate::options::{MAX_WINDOW, Options, bounded};
use crate::slots::{Slots, push};
use crate::slow_start::SlowStart;

/// Up to this many paths the law is evaluated at every acknowledgement.
const EXACT_PATHS: usize = 8;

/// The smallest round-trip time a law is shown, in seconds: a clock without resolution must not
/// make rates infinite.
const MIN_RTT: f64 = 1e-6;

/// The controller that runs a law over all paths of a connection: any
/// [`WindowLaw`](crate::WindowLaw), or a [`Law`] that remembers.
///
/// Slow start is each path's own; the law couples congestion avoidance. A law costs O(n) in the
/// number of paths, so with more than eight paths `I_r` is kept for n/8 acknowledgements of path r
/// (and computed anew at its loss, its round's end and when a path comes or goes): O(1) amortised.
#[derive(Clone, Debug)]
// What every acknowledgement touches comes first: see `Sender`.
#[repr(C)]
pub struct Coupled<L> {
    slots: Slots<Member>,
    /// What the law sees, without holes, windows in packets of each path's own size.
    paths: Vec<Path<f64>>,
    /// Paths have different packet sizes.
    mixed: bool,
    options: Options,
    law: L,
    /// Whose each of `paths` is.
    owners: Vec<Owner>,
    /// `paths` in packets of one size, where they differ.
    scratch: Vec<Path<f64>>,
    /// The smallest window of a path at present.
    floor: f64,
}

/// Whose a path is, and the bytes of its packets.
#[derive(Copy, Clone, Debug)]
struct Owner {
    slot: Slot,
    size: u32,
}

/// What a law isn't shown of a path. The little that every acknowledgement reads is together.
#[derive(Clone, Debug)]
struct Member {
    /// Index in `paths`.
    at: u32,
    /// `I_r` as last computed, good for `fresh` more acknowledgements.
    fresh: u32,
    increase: f64,
    slow_start: SlowStart,
    /// When the window was last cut, and whether by marks alone.
    cut: Option<Time>,
    by_marks: bool,
    /// Packets of the next acknowledgement that came marked.
    marked: f64,
    /// Window and slow start before that.
    before: Option<Box<(f64, SlowStart)>>,
}

impl Member {
    #[inline]
    fn at(&self) -> usize {
        self.at as usize
    }
}

impl<L: Law> Coupled<L> {
    /// A controller without paths.
    pub fn new(law: L, options: Options) -> Self {
        let floor = options.floor(law.min_ssthresh(0));
        Coupled {
            law,
            options,
            slots: Slots::new(),
            paths: Vec::new(),
            owners: Vec::new(),
            mixed: false,
            scratch: Vec::new(),
            floor,
        }
    }

    /// The law.
    pub fn law(&self) -> &L {
        &self.law
    }

    /// The smallest window of a path at present, in packets.
    pub fn window_floor(&self) -> f64 {
        self.floor
    }

    /// Evaluates the law for the path at `at`, its windows converted to that path's packets.
    #[inline(always)]
    fn evaluate(&mut self, at: usize, rule: impl Fn(&L, &[Path<f64>], usize) -> f64) -> f64 {
        if !self.mixed {
            return rule(&self.law, &self.paths, at);
        }
        let unit = f64::from(self.owners[at].size);
        self.scratch.clear();
        let sized = self.paths.iter().zip(&self.owners);
        self.scratch.extend(sized.map(|(p, owner)| Path {
            window: p.window * f64::from(owner.size) / unit,
            rtt: p.rtt,
        }));
        rule(&self.law, &self.scratch, at)
    }

    fn membership_changed(&mut self) {
        self.mixed = self
            .owners
            .windows(2)
            .any(|pair| pair[0].size != pair[1].size);
        for member in self.slots.iter_mut() {
            member.fresh = 0;
        }
        // With fewer paths the floor may rise.
        self.floor = self.options.floor(self.law.min_ssthresh(self.paths.len()));
        for path in &mut self.paths {
            path.window = path.window.max(self.floor);
        }
    }
}

impl<L: Law> Coupled<L> {
    /// A loss event, or one by marks alone.
    fn cut(&mut self, loss: &Loss, by_marks: bool) {
        let Some(member) = self.slots.get_mut(loss.slot) else {
            return;
        };
        let at = member.at();
        member.fresh = 0;
        member.cut = Some(loss.now);
        member.by_marks = by_marks;
        let before = (self.paths[at].window, member.slow_start.clone());
        member.before = Some(Box::new(before));
        match by_marks {
            true => self.law.on_cut_by_marks(at),
            false => self.law.on_lost(at),
        }
        let cut = self.evaluate(at, |law, paths, r| law.decrease(paths, r));
        let window = (self.paths[at].window - cut).max(self.floor);
        self.paths[at].window = window;
        if let Some(member) = self.slots.get_mut(loss.slot) {
            member.slow_start.set_threshold(window);
        }
    }
}

impl<L: Law> Controller for Coupled<L> {
    fn name(&self) -> &'static str {
        self.law.name()
    }

    fn add_path(&mut self, path: NewPath) -> Slot {
        let slot = self.slots.insert(Member {
            at: self.paths.len() as u32,
            fresh: 0,
            increase: 0.0,
            slow_start: SlowStart::of(&self.options),
            cut: None,
            by_marks: false,
            marked: 0.0,
            before: None,
        });
        let state = Path {
            window: bounded(path.initial_window),
            rtt: path.initial_rtt.as_secs_f64().max(MIN_RTT),
        };
        push(&mut self.paths, state);
        let size = path.packet_size.max(1);
        push(&mut self.owners, Owner { slot, size });
        self.law.on_path_added(size);
        self.membership_changed();
        slot
    }

    fn remove_path(&mut self, slot: Slot) {
        let Some(member) = self.slots.remove(slot) else {
            return;
        };
        self.paths.swap_remove(member.at());
        self.owners.swap_remove(member.at());
        self.law.on_path_removed(member.at());
        if let Some(moved) = self.owners.get(member.at())
            && let Some(moved) = self.slots.get_mut(moved.slot)
        {
            moved.at = member.at;
        }
        self.membership_changed();
    }

    fn set_packet_size(&mut self, slot: Slot, bytes: u32) {
        let Some(member) = self.slots.get_mut(slot) else {
            return;
        };
        let (at, size) = (member.at(), bytes.max(1));
        let factor = f64::from(self.owners[at].size) / f64::from(size);
        member.slow_start.rescale(factor);
        if let Some((window, slow_start)) = member.before.as_deref_mut() {
            *window *= factor;
            slow_start.rescale(factor);
        }
        let window = &mut self.paths[at].window;
        *window = bounded(*window * factor);
        self.owners[at].size = size;
        self.law.on_packet_size(at, size);
        // Increases in hand are in packets of before, and the floor is in packets.
        self.membership_changed();
    }

    // What it doesn't read of an acknowledgement, nobody computes.
    #[inline(always)]
    fn on_ack(&mut self, ack: &Ack) {
        let Some(member) = self.slots.get_mut(ack.slot) else {
            return;
        };
        let at = member.at();
        let path = &mut self.paths[at];
        path.rtt = ack.smoothed_rtt.as_secs_f64().max(MIN_RTT);
        self.law.on_acked(at, ack.packets, path.rtt);
        let slow = member.slow_start.active(path.window);
        if slow {
            member.slow_start.on_ack(ack);
        }
        let mut packets = self.options.counted(ack.packets);
        let mut grows = self.options.grows_by(ack, member.cut);
        if self.law.grows_between_marks() {
            packets = (packets - std::mem::take(&mut member.marked)).max(0.0);
            grows |= member.by_marks && !ack.app_limited;
        }
        if !grows {
            return;
        }
        if slow {
            path.window = member.slow_start.grow(path.window, packets);
            return;
        }
        let increase = if member.fresh > 0 {
            member.fresh -= 1;
            member.increase
        } else {
            let increase = self.evaluate(at, |law, paths, r| law.increase(paths, r));
            if self.paths.len() > EXACT_PATHS
                && let Some(member) = self.slots.get_mut(ack.slot)
            {
                member.increase = increase;
                member.fresh = (self.paths.len() / EXACT_PATHS) as u32 - 1;
            }
            increase
        };
        let path = &mut self.paths[at];
        path.window = (path.window + increase * packets).min(MAX_WINDOW);
        if increase < 0.0 {
            path.window = path.window.max(self.floor);
        }
    }

    fn set_window(&mut self, slot: Slot, window: f64, target: Target) -> bool {
        let Some(member) = self.slots.get_mut(slot) else {
            return false;
        };
        member.fresh = 0;
        member.slow_start.resume(target);
        self.paths[member.at()].window = bounded(window).max(self.floor);
        true
    }

    fn on_marked(&mut self, slot: Slot, packets: f64) {
        if let Some(member) = self.slots.get_mut(slot) {
            if self.law.grows_between_marks() {
                member.marked += packets;
            }
            self.law.on_marked(member.at(), packets);
        }
    }

    fn on_loss(&mut self, loss: &Loss) {
        self.cut(loss, false);
    }

    fn on_ecn(&mut self, loss: &Loss) {
        self.cut(loss, true);
    }

    fn on_timeout(&mut self, slot: Slot, _now: Time) {
        let floor = self.floor;
        let Some(member) = self.slots.get_mut(slot) else {
            return;
        };
        member.fresh = 0;
        let window = &mut self.paths[member.at()].window;
        member.slow_start.restart(*window, floor);
        *window = floor;
    }

    fn on_spurious_loss(&mut self, slot: Slot, _now: Time) {
        let Some(member) = self.slots.get_mut(slot) else {
            return;
        };
        if let Some((window, slow_start)) = member.before.take().map(|before| *before) {
            member.fresh = 0;
            member.slow_start = slow_start;
            let path = &mut self.paths[member.at()];
            path.window = bounded(path.window.max(window));
            self.law.on_spurious_loss(member.at());
        }
    }

    #[inline]
    fn on_round_end(&mut self, round: &Round) {
        if let Some(member) = self.slots.get_mut(round.slot) {
            member.fresh = 0;
            self.law.on_round_end(member.at());
            let window = self.paths[member.at()].window;
            if member.slow_start.active(window) {
                member.slow_start.on_round_end(window);
            }
        }
    }

    #[inline]
    fn window(&self, slot: Slot) -> f64 {
        self.slots
            .get(slot)
            .map_or(0.0, |member| self.paths[member.at()].window)
    }

    #[inline]
    fn in_slow_start(&self, slot: Slot) -> bool {
        self.slots
            .get(slot)
            .is_some_and(|member| member.slow_start.active(self.paths[member.at()].window))
    }
}

#[cfg(test)]
mod tests;

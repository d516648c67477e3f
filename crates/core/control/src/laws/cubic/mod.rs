//! CUBIC on every path, a controller of its own. It couples nothing.

mod curve;

use manyway_units::Time;

use crate::controller::{Ack, Controller, Loss, NewPath, Round, Slot, Target};
use crate::options::Options;
use crate::slots::Slots;

pub(super) use curve::{ALPHA, BETA, Curve};

/// CUBIC on every path by itself (RFC 9438): the uncoupled baseline that most hosts run.
#[derive(Clone, Debug)]
pub struct Cubic {
    options: Options,
    slots: Slots<Curve>,
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
        let curve = Curve::new(&path, &self.options, self.window_floor());
        self.slots.insert(curve)
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

    fn set_window(&mut self, slot: Slot, window: f64, target: Target) -> bool {
        let floor = self.window_floor();
        let path = self.slots.get_mut(slot);
        path.map(|path| path.set_window(window, target, floor))
            .is_some()
    }

    fn on_loss(&mut self, loss: &Loss) {
        let floor = self.window_floor();
        if let Some(path) = self.slots.get_mut(loss.slot) {
            path.on_loss(loss.now, floor);
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
        if let Some(path) = self.slots.get_mut(round.slot) {
            path.on_round_end();
        }
    }

    fn window(&self, slot: Slot) -> f64 {
        self.slots.get(slot).map_or(0.0, Curve::window)
    }

    fn in_slow_start(&self, slot: Slot) -> bool {
        self.slots.get(slot).is_some_and(Curve::in_slow_start)
    }
}

#[cfg(test)]
mod tests;

//! BBR version 3 on every path, a controller of its own. It couples nothing.

mod filters;
mod path;
mod state;

use manyway_units::Time;

use crate::controller::{Ack, Controller, Loss, LostPacket, NewPath, Round, Slot};
use crate::options::Options;
use crate::slots::Slots;
use path::Path;

/// BBRv3 on every path by itself (draft-ietf-ccwg-bbr-06, sections 4 and 5): a model of each path's
/// bandwidth and round-trip time instead of a window that grows until something is lost.
///
/// What differs from the draft, and why:
///
/// * The controller doesn't hear of packets as they leave, so what the draft does when a path
///   restarts from idle (§5.4) comes with the first acknowledgement after that.
/// * The sender knows loss events of one round trip, not episodes that last until everything is
///   repaired. Only the last event is undone (§5.5.11).
/// * A timeout is persistent congestion (RFC 9002 §7.6), and takes the window to its minimum.
/// * Congestion marks, which the draft leaves open, count as losses above the threshold, once a
///   round trip.
/// * There is no send quantum: the sender's pacer lets 1 ms or two packets leave at once, which is
///   what the draft's quantum is.
#[derive(Clone, Debug)]
pub struct Bbr {
    options: Options,
    slots: Slots<Path>,
}

impl Bbr {
    /// The smallest window that keeps packets and acknowledgements flowing (`MinPipeCwnd`, §2.8).
    const MIN_PIPE: f64 = 4.0;

    /// A controller without paths.
    pub fn new(options: Options) -> Self {
        Bbr {
            options,
            slots: Slots::new(),
        }
    }

    /// The smallest window of a path, in packets.
    pub fn window_floor(&self) -> f64 {
        self.options.floor(Self::MIN_PIPE)
    }
}

impl Controller for Bbr {
    fn name(&self) -> &'static str {
        "bbr"
    }

    fn rate_based(&self) -> bool {
        true
    }

    fn add_path(&mut self, path: NewPath) -> Slot {
        let floor = self.window_floor();
        let slot = self.slots.insert(Path::new(&path, floor));
        if let Some(path) = self.slots.get_mut(slot) {
            path.seed(slot.index() as u64);
        }
        slot
    }

    fn remove_path(&mut self, slot: Slot) {
        self.slots.remove(slot);
    }

    fn set_packet_size(&mut self, slot: Slot, bytes: u32) {
        if let Some(path) = self.slots.get_mut(slot) {
            path.resize(bytes);
        }
    }

    fn on_ack(&mut self, ack: &Ack) {
        if let Some(path) = self.slots.get_mut(ack.slot) {
            path.on_ack(ack);
        }
    }

    fn on_loss(&mut self, loss: &Loss) {
        if let Some(path) = self.slots.get_mut(loss.slot) {
            path.on_loss();
        }
    }

    fn on_packet_lost(&mut self, packet: &LostPacket) {
        if let Some(path) = self.slots.get_mut(packet.slot) {
            path.on_packet_lost(packet);
        }
    }

    fn on_ecn(&mut self, loss: &Loss) {
        if let Some(path) = self.slots.get_mut(loss.slot) {
            path.on_mark(loss.now);
        }
    }

    fn on_timeout(&mut self, slot: Slot, _now: Time) {
        if let Some(path) = self.slots.get_mut(slot) {
            path.on_timeout();
        }
    }

    fn on_spurious_loss(&mut self, slot: Slot, now: Time) {
        if let Some(path) = self.slots.get_mut(slot) {
            path.undo(now);
        }
    }

    /// The draft counts rounds by what is delivered, and begins new ones with its phases.
    fn on_round_end(&mut self, _round: &Round) {}

    fn window(&self, slot: Slot) -> f64 {
        self.slots.get(slot).map_or(0.0, Path::window)
    }

    fn in_slow_start(&self, slot: Slot) -> bool {
        self.slots.get(slot).is_some_and(Path::in_startup)
    }

    fn pacing_rate(&self, slot: Slot) -> Option<f64> {
        self.slots.get(slot)?.pacing_rate()
    }
}

#[cfg(test)]
mod tests;

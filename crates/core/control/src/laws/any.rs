//! Calls on [`AnyController`] go to the controller that it is, without dynamic dispatch.

use manyway_units::Time;

use super::AnyController;
use crate::controller::{
    Ack, Controller, Loss, LostPacket, NewPath, PathVerdict, Round, Slot, Target,
};

/// What is to be done with a controller of a known type.
pub trait Visitor {
    /// What comes of it.
    type Output;

    /// Does it.
    fn visit<C: Controller>(self, controller: &mut C) -> Self::Output;
}

impl AnyController {
    /// Shows the visitor the controller that this is: whoever calls it several times in a row, as a
    /// sender does at an acknowledgement, looks only once which one it is.
    #[inline]
    pub fn show<V: Visitor>(&mut self, visitor: V) -> V::Output {
        each!(self, controller => visitor.visit(controller))
    }
}

impl Controller for AnyController {
    fn name(&self) -> &'static str {
        each!(self, controller => controller.name())
    }
    fn check_paths(&self, count: usize) -> Result<(), String> {
        each!(self, controller => controller.check_paths(count))
    }
    fn rate_based(&self) -> bool {
        each!(self, controller => controller.rate_based())
    }
    fn add_path(&mut self, path: NewPath) -> Slot {
        each!(self, controller => controller.add_path(path))
    }
    fn remove_path(&mut self, slot: Slot) {
        each!(self, controller => controller.remove_path(slot));
    }
    fn set_packet_size(&mut self, slot: Slot, bytes: u32) {
        each!(self, controller => controller.set_packet_size(slot, bytes));
    }
    fn set_window(&mut self, slot: Slot, window: f64, target: Target) -> bool {
        each!(self, controller => controller.set_window(slot, window, target))
    }
    #[inline]
    fn on_ack(&mut self, ack: &Ack) {
        each!(self, controller => controller.on_ack(ack));
    }
    #[inline]
    fn on_loss(&mut self, loss: &Loss) {
        each!(self, controller => controller.on_loss(loss));
    }
    fn on_further_loss(&mut self, loss: &Loss) {
        each!(self, controller => controller.on_further_loss(loss));
    }
    fn on_packet_lost(&mut self, packet: &LostPacket) {
        each!(self, controller => controller.on_packet_lost(packet));
    }
    fn on_marked(&mut self, slot: Slot, packets: f64) {
        each!(self, controller => controller.on_marked(slot, packets));
    }
    #[inline]
    fn on_ecn(&mut self, loss: &Loss) {
        each!(self, controller => controller.on_ecn(loss));
    }
    fn on_timeout(&mut self, slot: Slot, now: Time) {
        each!(self, controller => controller.on_timeout(slot, now));
    }
    fn on_spurious_loss(&mut self, slot: Slot, now: Time) {
        each!(self, controller => controller.on_spurious_loss(slot, now));
    }
    #[inline]
    fn on_round_end(&mut self, round: &Round) {
        each!(self, controller => controller.on_round_end(round));
    }
    #[inline]
    fn window(&self, slot: Slot) -> f64 {
        each!(self, controller => controller.window(slot))
    }
    #[inline]
    fn in_slow_start(&self, slot: Slot) -> bool {
        each!(self, controller => controller.in_slow_start(slot))
    }
    #[inline]
    fn pacing_rate(&self, slot: Slot) -> Option<f64> {
        each!(self, controller => controller.pacing_rate(slot))
    }
    fn verdict(&self, slot: Slot) -> PathVerdict {
        each!(self, controller => controller.verdict(slot))
    }
    fn group(&self, slot: Slot) -> Option<usize> {
        each!(self, controller => controller.group(slot))
    }
}

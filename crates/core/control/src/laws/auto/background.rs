//! What `auto` does in the background: its groups have a small part of a flow's weight, and give
//! way to every queue.

use manyway_units::Time;

use crate::controller::Round;
use crate::options::Options;

use super::yielding::Step;
use super::{Auto, Subflow, TRIAL, seconds};

/// What the weights of a group sum to.
pub(super) const WEIGHT: f64 = 0.1;
/// The part of a window that is left after a loss.
pub(super) const BETA: f64 = 0.5;
/// Windows that step back to less would wait for delayed acknowledgements.
const LEAST: f64 = 2.0;

impl Auto {
    /// A controller without paths, for transfers to which everything else on their paths comes
    /// first.
    pub fn background(options: Options) -> Self {
        Auto {
            background: true,
            ..Auto::new(options)
        }
    }

    /// The end of a round in the background: gives way, steps back or returns.
    pub(super) fn give_way(&mut self, round: &Round) {
        let floor = self.floor();
        let Some(path) = self.slots.get_mut(round.slot) else {
            return;
        };
        let (now, rtt, starts) = (round.now, path.queue.rtt(), path.curve.in_slow_start());
        let step = match &mut path.yielding {
            Some(yielding) => yielding.on_round_end(now, rtt, starts),
            None => Step::Stay,
        };
        let factor = match step {
            Step::Stay => return,
            Step::Return => return path.come_back(now),
            Step::Back => 0.0,
            Step::GiveWay(factor) => factor,
        };
        let held = now + seconds(TRIAL * rtt);
        for slot in self.behind_queue_of(round.slot, now) {
            let Some(path) = self.slots.get_mut(slot) else {
                continue;
            };
            path.lost = false;
            if step == Step::Back {
                path.come_back(now);
                path.held = held;
            }
            let Some(yielding) = &mut path.yielding else {
                continue;
            };
            if step == Step::Back {
                path.curve.reduce(now, factor, floor.max(LEAST));
                yielding.step_back();
            } else if !yielding.is_back() {
                path.curve.reduce(now, factor, floor);
                yielding.settle(now, path.queue.rtt());
            }
        }
    }
}

impl Subflow {
    /// If it has stepped back, its window is as it was before.
    pub(super) fn come_back(&mut self, now: Time) {
        let rtt = self.queue.rtt();
        let yielding = self.yielding.as_mut();
        if yielding.is_some_and(|yielding| yielding.come_back(now, rtt)) {
            self.held = now;
            self.curve.restore();
        }
    }
}

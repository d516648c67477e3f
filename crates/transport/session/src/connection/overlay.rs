//! How fast on each carrier: the overlay paper's application-level rate controller over the paths
//! that control congestion themselves.
//!
//! Once per interval it is told what arrived of each path, which is what the receiver's ACKs say:
//! how many bytes, and by the receiver's clock when. To begin with, and whenever carriers come or
//! go, the paths are filled as TCP lets them (the paper's *maxmin* procedure); when that gains
//! nothing any more, the controller takes over with the rates found.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use manyway_control::Arrived;
use manyway_control::rate_control::{RateController, RoundRobin};
use manyway_units::Time;
use manyway_wire::PathId;
use rand::RngExt;

use crate::stats::PathState;

use super::Connection;

/// The shortest control interval, and how many round trips of the slowest carrier it has at least:
/// what an increment does has to be seen in it.
const INTERVAL: Duration = Duration::from_millis(500);
const ROUND_TRIPS: u32 = 4;
const LONGEST_INTERVAL: Duration = Duration::from_secs(5);
/// The demand of a source without a limit: so much of the largest aggregate delivered lately.
const AMBITION: f64 = 1.25;
const LATELY: Duration = Duration::from_secs(10);
/// Filling is over when the aggregate has grown by less than this in so many intervals, but not
/// before and not later than that.
const GROWTH: f64 = 1.05;
const FLAT_INTERVALS: u32 = 2;
const FILLING: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(10)];
/// The receiver's clock is believed if an interval by it is so long in terms of ours.
const PLAUSIBLE: std::ops::RangeInclusive<f64> = 0.25..=2.0;

/// The state of a connection's rate control.
#[derive(Debug, Default)]
pub(super) struct Overlay {
    /// The end of the interval; `None` while there are no carriers.
    next: Option<Time>,
    began: Time,
    paths: Vec<PathId>,
    stage: Stage,
    /// What had arrived at the beginning of the interval.
    seen: BTreeMap<PathId, Arrived>,
    /// Delivered rates of the last intervals, bytes/s.
    delivered: VecDeque<(Time, f64)>,
    /// There was nothing to send for a moment: what was measured says nothing about the paths.
    starved: bool,
    cycle: RoundRobin,
}

#[derive(Debug)]
enum Stage {
    Filling { since: Time, best: f64, flat: u32 },
    Controlled(Box<RateController>),
}

impl Default for Stage {
    fn default() -> Self {
        Stage::Filling {
            since: Time::ZERO,
            best: 0.0,
            flat: 0,
        }
    }
}

impl Overlay {
    pub(super) fn timeout(&self) -> Option<Time> {
        self.next
    }

    /// There is nothing to send.
    pub(super) fn on_starved(&mut self) {
        self.starved = true;
    }

    pub(super) fn is_filling(&self) -> bool {
        matches!(self.stage, Stage::Filling { .. })
    }

    /// The source's demand, bytes/s: its limit, or somewhat more than it has got.
    fn demand(&self, limit: Option<f64>) -> f64 {
        let most = self.delivered.iter().map(|&(_, rate)| rate);
        limit.unwrap_or(AMBITION * most.fold(0.0, f64::max))
    }

    fn note_delivered(&mut self, now: Time, rate: f64) {
        self.delivered.push_back((now, rate));
        while self
            .delivered
            .front()
            .is_some_and(|&(at, _)| at + LATELY < now)
        {
            self.delivered.pop_front();
        }
    }

    /// What arrived of a path in the interval, bytes/s. An interval is from one arrival to another,
    /// by the receiver's clock: so records that are few don't make the rate jump. A receiver whose
    /// clock makes no sense is measured by ours.
    fn measure(&mut self, id: PathId, arrived: Arrived, elapsed: Duration) -> f64 {
        let before = self.seen.insert(id, arrived).unwrap_or_default();
        let bytes = arrived.bytes.saturating_sub(before.bytes) as f64;
        let ours = elapsed.as_secs_f64();
        if bytes == 0.0 || ours <= 0.0 {
            return 0.0;
        }
        let theirs = match (before.at, arrived.at) {
            (Some(before), Some(at)) if at > before => at.since(before).as_secs_f64(),
            _ => ours,
        };
        let span = if PLAUSIBLE.contains(&(theirs / ours)) {
            theirs
        } else {
            ours
        };
        bytes / span
    }
}

impl Connection {
    /// A carrier is in use, or isn't any more.
    pub(super) fn wake_overlay(&mut self, now: Time) {
        if self.carriers.overlay.next.is_none() && !self.carriers.paths.is_empty() {
            self.carriers.overlay.next = Some(now);
        }
    }

    /// Ends a control interval if it is time.
    pub(super) fn drive_overlay(&mut self, now: Time) {
        if self.carriers.overlay.next.is_none_or(|at| at > now) {
            return;
        }
        let active = |&&index: &&usize| self.paths[index].state == PathState::Active;
        let mut paths: Vec<(PathId, usize)> = self
            .carriers
            .paths
            .iter()
            .filter(active)
            .map(|&index| (self.paths[index].id, index))
            .collect();
        paths.sort_unstable();
        let overlay = &mut self.carriers.overlay;
        let elapsed = now.since(overlay.began);
        let measured: Vec<f64> = paths
            .iter()
            .filter_map(|&(id, index)| Some((id, self.paths[index].sender.carried()?.arrived())))
            .map(|(id, arrived)| overlay.measure(id, arrived, elapsed))
            .collect();
        let (known, now_there) = (&overlay.paths, paths.iter().map(|&(id, _)| id));
        let same = known.iter().copied().eq(now_there.clone());
        let starved = std::mem::take(&mut overlay.starved);
        overlay.began = now;
        if same {
            overlay.note_delivered(now, measured.iter().sum());
            self.control_rates(now, &paths, &measured, starved);
        } else {
            overlay.paths = now_there.collect();
            overlay.seen.retain(|id, _| overlay.paths.contains(id));
            overlay.stage = Stage::Filling {
                since: now,
                best: 0.0,
                flat: 0,
            };
            self.hold_to(now, &paths, None);
        }
        let interval = INTERVAL.max(ROUND_TRIPS * self.carrier_rtt());
        let next = now + interval.min(LONGEST_INTERVAL);
        self.carriers.overlay.next = (!self.carriers.paths.is_empty()).then_some(next);
    }

    fn control_rates(
        &mut self,
        now: Time,
        paths: &[(PathId, usize)],
        measured: &[f64],
        starved: bool,
    ) {
        let limit = self.config.limit.map(|limit| limit.bytes_per_sec());
        let Some(config) = self.config.rate_control else {
            return;
        };
        // Who had nothing to send learns nothing of the paths.
        if starved || paths.is_empty() {
            return;
        }
        let seed = self.rng.random();
        let overlay = &mut self.carriers.overlay;
        let demand = overlay.demand(limit);
        let total: f64 = measured.iter().sum();
        match &mut overlay.stage {
            Stage::Filling { since, best, flat } => {
                if total > *best * GROWTH {
                    (*best, *flat) = (total, 0);
                } else {
                    *flat += 1;
                }
                let so_far = now.since(*since);
                let full = *flat >= FLAT_INTERVALS && so_far >= FILLING[0];
                if total == 0.0 || !(full || so_far >= FILLING[1]) {
                    return;
                }
                let share = (demand / total).min(1.0);
                let initial: Vec<f64> = measured.iter().map(|rate| rate * share).collect();
                match RateController::new(config, demand, &initial, seed) {
                    Ok(mut controller) => {
                        controller.advance(&[]);
                        overlay.stage = Stage::Controlled(Box::new(controller));
                    }
                    Err(error) => {
                        tracing::debug!(%error, "rates stay the carriers' own");
                        return;
                    }
                }
            }
            Stage::Controlled(controller) => {
                if controller.set_demand(demand, measured).is_err() {
                    return;
                }
                controller.advance(measured);
            }
        }
        let Stage::Controlled(controller) = &self.carriers.overlay.stage else {
            return;
        };
        let rates: Vec<f64> = controller.rates().collect();
        tracing::trace!(demand, ?rates, ?measured, "rates");
        self.hold_to(now, paths, Some(&rates));
    }

    /// Holds the paths to these rates, or leaves them to their carriers.
    fn hold_to(&mut self, now: Time, paths: &[(PathId, usize)], rates: Option<&[f64]>) {
        for (at, &(_, index)) in paths.iter().enumerate() {
            let rate = rates.and_then(|rates| rates.get(at).copied());
            if let Some(sender) = self.paths[index].sender.carried_mut() {
                sender.set_rate(now, rate);
            }
            self.refresh(now, index);
        }
    }

    /// The *maxmin* procedure: while the rates of a source with a limit are being found, its
    /// carriers take turns.
    pub(super) fn next_in_turn(&mut self) -> Option<usize> {
        let overlay = &self.carriers.overlay;
        if self.limiter.is_none() || !overlay.is_filling() || self.carriers.paths.len() < 2 {
            return None;
        }
        let ready = |at: usize| {
            let index = self.carriers.paths[at];
            self.paths[index].indexed.ready.is_some()
        };
        let mut cycle = overlay.cycle;
        let next = cycle.next(self.carriers.paths.len(), ready)?;
        self.carriers.overlay.cycle = cycle;
        Some(self.carriers.paths[next])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrived(bytes: u64, ms: u64) -> Arrived {
        Arrived {
            bytes,
            at: Some(Time::from_millis(ms)),
        }
    }

    #[test]
    fn rates_are_the_receivers_unless_they_are_nonsense() {
        let mut overlay = Overlay::default();
        let half = Duration::from_millis(500);
        let id = PathId(3);
        overlay.measure(id, arrived(0, 100), half);
        // By the receiver's clock between two arrivals.
        assert_eq!(overlay.measure(id, arrived(40_000, 500), half), 100_000.0);
        // No time at all, time that runs backwards, or far too much of it: by ours.
        assert_eq!(overlay.measure(id, arrived(80_000, 500), half), 80_000.0);
        assert_eq!(overlay.measure(id, arrived(90_000, 100), half), 20_000.0);
        assert_eq!(
            overlay.measure(id, arrived(100_000, 1 << 40), half),
            20_000.0
        );
        assert_eq!(overlay.measure(id, arrived(100_000, 1 << 41), half), 0.0);
    }

    #[test]
    fn a_source_without_a_limit_wants_a_quarter_more_than_it_got_lately() {
        let mut overlay = Overlay::default();
        overlay.note_delivered(Time::from_millis(0), 8.0);
        overlay.note_delivered(Time::from_millis(9000), 4.0);
        assert_eq!(overlay.demand(None), 10.0);
        assert_eq!(overlay.demand(Some(3.0)), 3.0);
        overlay.note_delivered(Time::from_millis(10_001), 1.0);
        assert_eq!(overlay.demand(None), 5.0);
    }
}

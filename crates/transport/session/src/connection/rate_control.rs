//! How fast on each carrier: the overlay paper's application-level rate controller over the paths
//! that control congestion themselves.
//!
//! Once per interval it is told what arrived of each path, which is what the receiver's ACKs say:
//! how many bytes, and by the receiver's clock when. To begin with, and whenever carriers come or
//! go, the paths are filled as TCP lets them (the paper's *maxmin* procedure); when that gains
//! nothing any more, the controller takes over with the rates found.
//!
//! It owns the controller and what it measured. The rates it sets are kept by the paths' senders.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use manyway_control::Arrived;
use manyway_control::rate_control::{RateConfig, RateController, RoundRobin};
use manyway_units::{Rate, Time};
use manyway_wire::PathId;
use rand::{Rng, RngExt};

use crate::config::Config;
use crate::stats::PathState;

use super::paths::PathSet;

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
pub(super) struct RateControl {
    /// How rates are controlled; `None` leaves them to the carriers.
    config: Option<RateConfig>,
    /// The source's limit, bytes/s.
    limit: Option<f64>,
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

impl RateControl {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            config: config.rate_control,
            limit: config.limit.map(|limit| limit.bytes_per_sec()),
            ..Self::default()
        }
    }

    pub(super) fn set_limit(&mut self, limit: Option<Rate>) {
        self.limit = limit.map(Rate::bytes_per_sec);
    }

    pub(super) fn timeout(&self) -> Option<Time> {
        self.next
    }

    /// There is nothing to send.
    pub(super) fn on_starved(&mut self) {
        self.starved = true;
    }

    fn is_filling(&self) -> bool {
        matches!(self.stage, Stage::Filling { .. })
    }

    /// The source's demand, bytes/s: its limit, or somewhat more than it has got.
    fn demand(&self) -> f64 {
        let most = self.delivered.iter().map(|&(_, rate)| rate);
        self.limit.unwrap_or(AMBITION * most.fold(0.0, f64::max))
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

    /// A path carries data from now on: perhaps a carrier's.
    pub(super) fn on_path_up(&mut self, now: Time, paths: &PathSet) {
        if self.next.is_none() && !paths.on_carriers().is_empty() {
            self.next = Some(now);
        }
    }

    /// Ends a control interval if it is time. The paths that are to be held to another rate, in
    /// bytes/s, or left to their carriers.
    pub(super) fn on_timeout(
        &mut self,
        now: Time,
        paths: &PathSet,
        rng: &mut impl Rng,
    ) -> Vec<(usize, Option<f64>)> {
        if self.next.is_none_or(|at| at > now) {
            return Vec::new();
        }
        let on_carriers = paths.on_carriers().iter();
        let mut active: Vec<(PathId, usize)> = on_carriers
            .map(|&index| (paths[index].id(), index))
            .filter(|&(_, index)| paths[index].state() == PathState::Active)
            .collect();
        active.sort_unstable();
        let elapsed = now.since(self.began);
        let measured: Vec<f64> = active
            .iter()
            .filter_map(|&(id, index)| Some((id, paths[index].sender().carried()?.arrived())))
            .map(|(id, arrived)| self.measure(id, arrived, elapsed))
            .collect();
        let same = active.iter().map(|(id, _)| id).eq(&self.paths);
        let starved = std::mem::take(&mut self.starved);
        self.began = now;
        let interval = INTERVAL.max(ROUND_TRIPS * slowest_rtt(paths));
        let next = now + interval.min(LONGEST_INTERVAL);
        self.next = (!paths.on_carriers().is_empty()).then_some(next);
        let indices = active.iter().map(|&(_, index)| index);
        if same {
            self.note_delivered(now, measured.iter().sum());
            // Who had nothing to send learns nothing of the paths.
            let idle = starved || active.is_empty();
            let rates = (!idle).then(|| self.control(now, &measured, rng));
            return indices.zip(rates.into_iter().flatten().map(Some)).collect();
        }
        self.paths = active.iter().map(|&(id, _)| id).collect();
        self.seen.retain(|id, _| self.paths.contains(id));
        self.stage = Stage::Filling {
            since: now,
            best: 0.0,
            flat: 0,
        };
        indices.map(|index| (index, None)).collect()
    }

    /// The rates of the paths from now on, in bytes/s; none if they stay as they are.
    fn control(&mut self, now: Time, measured: &[f64], rng: &mut impl Rng) -> Vec<f64> {
        let Some(config) = self.config else {
            return Vec::new();
        };
        let seed = rng.random();
        let demand = self.demand();
        let total: f64 = measured.iter().sum();
        match &mut self.stage {
            Stage::Filling { since, best, flat } => {
                if total > *best * GROWTH {
                    (*best, *flat) = (total, 0);
                } else {
                    *flat += 1;
                }
                let so_far = now.since(*since);
                let full = *flat >= FLAT_INTERVALS && so_far >= FILLING[0];
                if total == 0.0 || !(full || so_far >= FILLING[1]) {
                    return Vec::new();
                }
                let share = (demand / total).min(1.0);
                let initial: Vec<f64> = measured.iter().map(|rate| rate * share).collect();
                match RateController::new(config, demand, &initial, seed) {
                    Ok(mut controller) => {
                        controller.advance(&[]);
                        self.stage = Stage::Controlled(Box::new(controller));
                    }
                    Err(error) => {
                        tracing::debug!(%error, "rates stay the carriers' own");
                        return Vec::new();
                    }
                }
            }
            Stage::Controlled(controller) => {
                if controller.set_demand(demand, measured).is_err() {
                    return Vec::new();
                }
                controller.advance(measured);
            }
        }
        let Stage::Controlled(controller) = &self.stage else {
            return Vec::new();
        };
        let rates: Vec<f64> = controller.rates().collect();
        tracing::trace!(demand, ?rates, ?measured, "rates");
        rates
    }

    /// The *maxmin* procedure: while the rates of a source with a limit are being found, its
    /// carriers take turns.
    pub(super) fn next_in_turn(&mut self, paths: &PathSet) -> Option<usize> {
        if !self.is_filling() {
            return None;
        }
        let carriers = paths.on_carriers();
        let ready = |at: usize| paths.is_ready(carriers[at]);
        let next = self.cycle.next(carriers.len(), ready)?;
        Some(carriers[next])
    }
}

/// The round trip of the slowest carrier.
fn slowest_rtt(paths: &PathSet) -> Duration {
    let rtts = paths.on_carriers().iter();
    let slowest = rtts.map(|&index| paths[index].sender().rtt().smoothed());
    slowest.max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_pcg::Pcg64Mcg;

    use super::*;

    fn arrived(bytes: u64, ms: u64) -> Arrived {
        Arrived {
            bytes,
            at: Some(Time::from_millis(ms)),
        }
    }

    #[test]
    fn rates_are_the_receivers_unless_they_are_nonsense() {
        let mut rates = RateControl::default();
        let half = Duration::from_millis(500);
        let id = PathId(3);
        rates.measure(id, arrived(0, 100), half);
        // By the receiver's clock between two arrivals.
        assert_eq!(rates.measure(id, arrived(40_000, 500), half), 100_000.0);
        // No time at all, time that runs backwards, or far too much of it: by ours.
        assert_eq!(rates.measure(id, arrived(80_000, 500), half), 80_000.0);
        assert_eq!(rates.measure(id, arrived(90_000, 100), half), 20_000.0);
        assert_eq!(rates.measure(id, arrived(100_000, 1 << 40), half), 20_000.0);
        assert_eq!(rates.measure(id, arrived(100_000, 1 << 41), half), 0.0);
    }

    #[test]
    fn a_source_without_a_limit_wants_a_quarter_more_than_it_got_lately() {
        let mut rates = RateControl::default();
        rates.note_delivered(Time::from_millis(0), 8.0);
        rates.note_delivered(Time::from_millis(9000), 4.0);
        assert_eq!(rates.demand(), 10.0);
        rates.limit = Some(3.0);
        assert_eq!(rates.demand(), 3.0);
        rates.limit = None;
        rates.note_delivered(Time::from_millis(10_001), 1.0);
        assert_eq!(rates.demand(), 5.0);
    }

    /// A source with a limit of 30 kB/s over two carriers.
    fn filling() -> (RateControl, Pcg64Mcg) {
        let rates = RateControl {
            config: Some(RateConfig::aiad()),
            limit: Some(30_000.0),
            ..RateControl::default()
        };
        (rates, Pcg64Mcg::seed_from_u64(4))
    }

    #[test]
    fn carriers_fill_until_two_intervals_gain_nothing() {
        let (mut rates, mut rng) = filling();
        let mut measured = |ms: u64, each: f64| {
            let found = rates.control(Time::from_millis(ms), &[each, each], &mut rng);
            (found, rates.is_filling())
        };
        for (ms, each) in [(0, 0.0), (500, 10e3), (1000, 20e3), (1500, 20e3)] {
            assert_eq!(measured(ms, each), (Vec::new(), true), "{ms} ms");
        }
        let (found, filling) = measured(2000, 20e3);
        assert!(!filling);
        assert!((found.iter().sum::<f64>() - 30e3).abs() < 1.0, "{found:?}");
        let near = |rate: &f64| (14e3..16e3).contains(rate);
        assert!(found.iter().all(near), "{found:?}");
        let (found, _) = measured(2500, 15e3);
        assert!(found.len() == 2 && found.iter().all(near), "{found:?}");
    }

    #[test]
    fn carriers_that_never_stop_growing_fill_for_ten_seconds() {
        let (mut rates, mut rng) = filling();
        let mut each = 1000.0;
        for ms in (500..10_000).step_by(500) {
            each *= 1.5;
            let found = rates.control(Time::from_millis(ms), &[each, each], &mut rng);
            assert_eq!((found, rates.is_filling()), (Vec::new(), true), "{ms} ms");
        }
        let end = Time::from_millis(10_000);
        assert_eq!(
            rates.control(end, &[0.0, 0.0], &mut rng),
            [],
            "no rates from nothing"
        );
        assert_eq!(rates.control(end, &[each, each], &mut rng).len(), 2);
        assert!(!rates.is_filling());
    }
}

//! Whether relays are worth their use: what all paths deliver with them, and what the direct ones
//! deliver alone, in turn.
//!
//! It sees sums only, and never a path.

use std::time::Duration;

use manyway_units::Time;

use super::rates::{Measure, Rates, Seen, Wander};

/// Relays that carry a smaller part of all aren't judged: it's no use, and costs nothing.
const SMALL: f64 = 0.04;
/// They have to add at least this part of what the direct paths have alone, …
const LEAST: f64 = 0.03;
/// … and this part of what they carry: the rest is what the direct paths don't carry any more.
const NEW: f64 = 1.0 / 3.0;
/// They do if it is so many standard errors more, …
const UNSURE: f64 = 0.7;
/// … and needs no second look if it is so many.
const SURE: f64 = 5.0;
/// While the relays are in use, this part of what all paths have is the most that the direct ones
/// need to have for relays to add something without any doubt.
const PLAIN: f64 = 0.85;
/// What is known of their gain counts so much less with each new measurement.
const MEMORY: f64 = 0.7;
/// If one is so many standard errors away from what is known, the network is another one: what is
/// known is forgotten.
const SURPRISE: f64 = 4.0;
/// Relays that carry a part of all that is so many times as large as when they were last judged are
/// judged anew.
const OUTGROWN: f64 = 1.5;
/// Paths settle for so many round trips at least once others come or go, …
const SETTLE_ROUNDS: u32 = 6;
/// … and until slow start is over, but not for more than so many, …
const SETTLE_ROUNDS_MOST: u32 = 16;
/// … and this long.
const SETTLE: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(3)];
/// A gain found for the first time is looked at again after this long, …
const CONFIRM: Duration = Duration::from_secs(3);
/// … and one that was found again after this long, then twice as long, …
const USED: Duration = Duration::from_secs(10);
/// … and relays that add nothing after this long, then twice as long, …
const SPARE: Duration = Duration::from_secs(15);
/// … and so on up to this.
const LONGEST: Duration = Duration::from_secs(120);
/// Trials that find nothing take at most this part of all bytes, the first one aside.
const BUDGET: f64 = 0.025;
/// If the direct paths have less than this part of what they had when the relays were found
/// useless, the relays are tried early, …
const FALLEN: f64 = 0.7;
/// … and below this one all is forgotten, what trials have cost included.
const CHANGED: f64 = 0.5;
/// The direct paths' windows are raised in so many steps, a round trip apart: no burst fills a
/// queue.
const STEPS: u32 = 3;
/// A trial is over after so many round trips if all paths have less than this part of what the
/// direct ones have alone.
const BROKEN: (u32, f64) = (4, 0.75);
/// No trial is earlier after the one before than this.
const EARLIEST: Duration = Duration::from_secs(5);

/// What is done at a time, and until when.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Phase {
    /// The direct paths alone, to see what they have.
    Alone,
    /// All paths, to see what they have.
    All,
    /// The relays add something: they are in use, and looked at again then.
    Used(Time),
    /// The relays add nothing: they are kept for want of others, and tried again then.
    Spare(Time),
}

/// What is to be done about the direct paths' windows.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Windows {
    /// Note them: the relays come into use.
    Note,
    /// Raise them towards what was noted, the last of so many times: the relays are out of use, and
    /// have nothing under way.
    Restore(u32),
}

/// What is known of the worth of relays.
#[derive(Debug)]
pub(super) struct Worth {
    phase: Phase,
    since: Time,
    measure: Option<Measure>,
    /// What the direct paths had alone when that was last measured.
    alone: Option<Rates>,
    /// What all paths had when that was last measured.
    all: Option<Rates>,
    gain: Gain,
    /// How what the direct paths have alone wanders, and what all paths have.
    wander: [Wander; 2],
    /// The relays are out of use, and the direct paths' windows still have to be raised so often.
    restores: u32,
    /// The last outcome: the relays add something. And how many times in a row it was that.
    used: bool,
    same: u32,
    /// Bytes that trials cost which found nothing, all of them and the last one: what relays
    /// carried, and what would have arrived without them.
    spent: u64,
    last: u64,
    /// Bytes delivered when `spent` was 0, and delivered and relayed ones when the phase began.
    from: u64,
    delivered: u64,
    relayed: u64,
}

/// The relays' gain as a part of what the direct paths have: a mean, weighted by how sure each
/// measurement is.
#[derive(Copy, Clone, Debug, Default)]
struct Gain {
    weight: f64,
    sum: f64,
}

impl Gain {
    fn add(&mut self, gain: f64, error: f64) {
        let weight = 1.0 / (error * error);
        if self.weight > 0.0 {
            let off = (gain - self.sum / self.weight).abs();
            if off > SURPRISE * error.hypot(1.0 / self.weight.sqrt()) {
                *self = Self::default();
            }
        }
        self.weight = MEMORY * self.weight + weight;
        self.sum = MEMORY * self.sum + weight * gain;
    }

    /// Whether there is one beyond what is needed, by so many standard errors, if rates vary so
    /// much besides.
    fn is_material(&self, errors: f64, varies: f64) -> bool {
        let error = (1.0 / self.weight.sqrt()).hypot(varies);
        self.weight > 0.0 && self.sum / self.weight > errors * error
    }
}

impl Worth {
    pub(super) fn new(now: Time) -> Self {
        Self {
            phase: Phase::Alone,
            since: now,
            measure: None,
            alone: None,
            all: None,
            gain: Gain::default(),
            wander: Default::default(),
            restores: 0,
            used: false,
            same: 0,
            spent: 0,
            last: 0,
            from: 0,
            delivered: 0,
            relayed: 0,
        }
    }

    /// Whether relays carry data.
    pub(super) fn uses_relays(&self) -> bool {
        matches!(self.phase, Phase::All | Phase::Used(_))
    }

    /// There is a relay that wasn't there before: what is known of the others says nothing of it.
    pub(super) fn on_new_relay(&mut self, now: Time) {
        if let Phase::Spare(at) = &mut self.phase {
            *at = now.min(*at);
            (self.gain, self.same) = (Gain::default(), 0);
        }
    }

    /// Takes what there is to see now into account; called often while there is something to send.
    pub(super) fn look(&mut self, seen: &Seen) -> Option<Windows> {
        let before = self.uses_relays();
        self.go_on(seen);
        let after = self.uses_relays();
        if after {
            self.restores = 0;
        } else if before {
            self.restores = STEPS;
        }
        let done = STEPS - self.restores;
        let next = self.since + seen.rtt * (3 + 2 * done) / 2;
        if self.restores > 0 && seen.now >= next {
            self.restores -= 1;
            return Some(Windows::Restore(self.restores + 1));
        }
        (after && !before).then_some(Windows::Note)
    }

    fn go_on(&mut self, seen: &Seen) {
        match (seen.direct, seen.relays) {
            (None, _) => {
                // What carries is used. Those who come aren't interrupted at once.
                (self.gain, self.same, self.all) = (Gain::default(), 0, None);
                return self.enter(Phase::Used(seen.now + CONFIRM), seen);
            }
            (Some(_), None) => return self.enter(Phase::Alone, seen),
            _ => {}
        }
        match self.phase {
            Phase::Alone | Phase::All if !seen.unsatisfied => self.enter(self.phase, seen),
            Phase::Alone => {
                if let Some(rates) = self.measured(seen) {
                    self.alone = Some(rates);
                    self.enter(Phase::All, seen);
                }
            }
            Phase::All => {
                if let Some(rates) = self.broken(seen).or_else(|| self.measured(seen)) {
                    self.judge(seen, &rates);
                }
            }
            Phase::Used(at) => self.use_on(seen, at),
            Phase::Spare(at) => self.spare_on(seen, at),
        }
    }

    fn enter(&mut self, phase: Phase, seen: &Seen) {
        (self.phase, self.since, self.measure) = (phase, seen.now, None);
        (self.delivered, self.relayed) = (seen.delivered, seen.relayed);
    }

    /// What paths have that were begun with, once they have settled and that was measured.
    fn measured(&mut self, seen: &Seen) -> Option<Rates> {
        let (settled, rtt) = match self.phase {
            Phase::Alone => (seen.direct, seen.direct_rtt),
            _ => (seen.relays, seen.rtt),
        };
        let Some(measure) = &mut self.measure else {
            let [shortest, longest] = SETTLE;
            // What others had under way arrives within a round trip of theirs.
            let least = (SETTLE_ROUNDS * rtt)
                .max(2 * seen.rtt)
                .clamp(shortest, longest);
            let most = (SETTLE_ROUNDS_MOST * rtt).clamp(10 * shortest, longest);
            let after = seen.now.since(self.since);
            if after >= most || after >= least && settled == Some(true) {
                self.measure = Some(Measure::new(seen, rtt));
            }
            return None;
        };
        // The less there is without relays, the sooner they are back.
        let so_far = measure.so_far(seen).filter(|so_far| {
            let all = self.all.filter(|_| self.phase == Phase::Alone);
            all.is_some_and(|all| so_far.rate < PLAIN * all.rate)
        });
        measure.take(seen).or(so_far)
    }

    /// Whether relays add something, so many standard errors more than they need to.
    fn is_material(&self, errors: f64) -> bool {
        let varies = self
            .wander
            .iter()
            .map(Wander::deviation)
            .fold(0.0, f64::max);
        self.gain
            .is_material(errors, varies * std::f64::consts::SQRT_2)
    }

    /// What all paths have, if that is so little that a trial is over at once.
    fn broken(&self, seen: &Seen) -> Option<Rates> {
        let (rounds, part) = BROKEN;
        let after = seen.now.since(self.since);
        let rates = Rates {
            rate: seen.delivered.saturating_sub(self.delivered) as f64 / after.as_secs_f64(),
            error: 1.0 - part,
            relayed: 1.0,
        };
        let broken = rates.rate < part * self.alone?.rate;
        (after >= (rounds * seen.rtt).max(SETTLE[0]) && broken).then_some(rates)
    }

    fn judge(&mut self, seen: &Seen, all: &Rates) {
        let Some(alone) = self.alone.filter(|_| all.relayed >= SMALL) else {
            self.measure = None;
            return;
        };
        let rate = all.rate / alone.rate.max(1.0);
        let relayed = all.relayed * rate;
        // No more than what they carry. If the direct paths have more with them than alone, that is
        // the network's doing, and says how much it varies.
        let gain = (rate - 1.0).min(relayed);
        let more = (rate - relayed - 1.0).max(0.0);
        let error = all.error.hypot(alone.error).hypot(more);
        let needed = LEAST.max(NEW * all.relayed);
        self.gain.add(gain - needed, error);
        let took = seen.now.since(self.since).as_secs_f64();
        let missed = alone.rate * took - seen.delivered.saturating_sub(self.delivered) as f64;
        let cost = seen.relayed.saturating_sub(self.relayed) + missed.max(0.0) as u64;
        let now = seen.now;
        let same = match self.is_material(UNSURE) == self.used {
            true => self.same,
            false => 0,
        };
        let pause = |first: Duration, n: u32| (first * (1 << n.min(4))).min(LONGEST);
        self.all = Some(*all);
        let phase = match self.is_material(UNSURE) {
            true if same == 0 && !self.is_material(SURE) => Phase::Used(now + CONFIRM),
            true => Phase::Used(now + pause(USED, same)),
            false => {
                self.spent += cost;
                self.last = cost;
                Phase::Spare(now + pause(SPARE, same))
            }
        };
        self.used = matches!(phase, Phase::Used(_));
        self.same = same + 1;
        self.enter(phase, seen);
    }

    fn use_on(&mut self, seen: &Seen, at: Time) {
        let Some(measure) = self.measure.as_mut().filter(|_| seen.unsatisfied) else {
            self.measure = seen.unsatisfied.then(|| Measure::new(seen, seen.rtt));
            return;
        };
        if let Some(rates) = measure.take(seen) {
            self.measure = None;
            let judged = seen.now >= self.since + CONFIRM && self.gain.weight > 0.0;
            let outgrown = |all: Rates| rates.relayed > OUTGROWN * all.relayed;
            if judged && self.all.is_some_and(outgrown) {
                return self.enter(Phase::Alone, seen);
            }
            self.wander[1].add(rates.rate);
            // How much rates vary is known better now than after the trial.
            if judged && !self.is_material(UNSURE) {
                self.last = seen.relayed.saturating_sub(self.relayed);
                self.spent += self.last;
                (self.used, self.same) = (false, 1);
                return self.enter(Phase::Spare(seen.now + SPARE), seen);
            }
        }
        if seen.now >= at {
            let relayed = seen.relayed.saturating_sub(self.relayed) as f64;
            let delivered = seen.delivered.saturating_sub(self.delivered) as f64;
            match relayed >= SMALL * delivered {
                true => self.enter(Phase::Alone, seen),
                false => self.enter(Phase::Used(seen.now + USED), seen),
            }
        }
    }

    fn spare_on(&mut self, seen: &Seen, at: Time) {
        let Some(measure) = &mut self.measure else {
            self.measure = Some(Measure::new(seen, seen.direct_rtt));
            return;
        };
        if !seen.unsatisfied {
            self.measure = None;
            return;
        }
        let Some(rates) = measure.take(seen) else {
            return;
        };
        self.measure = None;
        self.wander[0].add(rates.rate);
        let part = self
            .alone
            .map_or(1.0, |alone| rates.rate / alone.rate.max(1.0));
        let early = seen.now >= self.since + EARLIEST;
        if part < CHANGED && early {
            self.wander = Default::default();
            (self.spent, self.last, self.from) = (0, 0, seen.delivered);
            (self.gain, self.same) = (Gain::default(), 0);
        }
        let due = seen.now >= at || part < FALLEN && early;
        let total = seen.delivered.saturating_sub(self.from) as f64;
        let affordable = (self.spent + self.last) as f64 <= BUDGET * total || self.spent == 0;
        if due && affordable {
            // What the direct paths have by now is known.
            let mean = self.wander[0].mean().filter(|_| seen.now >= at);
            self.alone = Some(Rates {
                rate: mean.unwrap_or(rates.rate),
                ..rates
            });
            self.enter(Phase::All, seen);
        }
    }
}

//! The choice of relays where these come and go: it keeps what is known of each relay and when to
//! judge. It opens no path; its owner does.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use manyway_units::Time;

use super::select::{Choice, PathSelector, Reselection, SelectConfig};
use super::{InvalidConfig, check};
use crate::paths::RelayKey;

/// How a [`LiveSelector`] chooses, and how long it looks before it judges.
#[derive(Copy, Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct LiveConfig {
    /// How many relays, by what, and what happens if they don't satisfy.
    pub select: SelectConfig,
    /// The source's demand, bytes/s. Without one it is never judged, and keeps its choice.
    pub demand: Option<f64>,
    /// The first choice waits this long for relays that haven't answered, from the first one on
    /// that has: or it would be one of the nearest relays.
    pub gather: Duration,
    /// The first part of an iteration, in which rates settle.
    pub settle: Duration,
    /// The second part, by which the source is judged.
    pub judge: Duration,
    /// Either part has at least so many round trips of the slowest path.
    pub round_trips: u32,
    /// A source that its relays have satisfied stays with them as long as it has this share of its
    /// demand; not more than what satisfies. With one threshold satisfied sources over TCP chose
    /// again now and then (`docs/overlay.md`, "Live").
    pub keep: f64,
    /// When fewer relays than wanted have been alive for this long, that is told.
    pub patience: Duration,
}

impl LiveConfig {
    /// Iterations of 10 s, or of 80 round trips if these take longer: half to settle, half to be
    /// judged. The paper doesn't say how long one is; its study finds rates settled after some tens
    /// of control intervals.
    pub fn new(select: SelectConfig, demand: Option<f64>) -> Self {
        LiveConfig {
            select,
            demand,
            gather: Duration::from_secs(2),
            settle: Duration::from_secs(5),
            judge: Duration::from_secs(5),
            round_trips: 40,
            keep: 0.9,
            patience: Duration::from_secs(10),
        }
    }
}

/// What is known of a relay.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// It hasn't answered yet.
    Unanswered,
    /// It would carry a path, or carries one that works.
    Alive,
    /// It doesn't answer any more, is leaving, or rests after a failure. One in use is replaced
    /// when there is one that is alive.
    Dead,
    /// It is no candidate any more.
    Gone,
}

/// Counters of a connection; what a [`LiveSelector`] judges by is how they grow.
#[derive(Copy, Clone, Debug, Default)]
pub struct Measured<'a> {
    /// Bytes that have arrived over all paths, those without a relay too, each once.
    pub delivered: u64,
    /// How long there was nothing to send.
    pub starved: Duration,
    /// The round trip of the slowest path.
    pub rtt: Duration,
    /// Bytes that have arrived through relays; those in use at least.
    pub relays: &'a [(RelayKey, u64)],
}

/// Why the relays in use have changed.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum Reason {
    /// It is the first choice.
    First,
    /// A place was free: a relay was lost, or one has come up where there were too few.
    Vacancy,
    /// The source had this rate of its demand (bytes/s) in the iteration that is over.
    Unsatisfied {
        /// What it had.
        rate: f64,
        /// What it wants.
        demand: f64,
    },
}

/// What a [`LiveSelector`] has to say.
#[derive(Clone, Debug, PartialEq)]
pub enum Selected {
    /// Other relays are in use: see [`LiveSelector::relays`].
    Changed {
        /// Why.
        reason: Reason,
        /// No longer.
        dropped: Vec<RelayKey>,
        /// From now on.
        taken: Vec<RelayKey>,
    },
    /// For long there have been fewer relays alive than paths are wanted. Told once.
    Few {
        /// Relays that are alive.
        alive: usize,
        /// Relays that are known.
        known: usize,
    },
}

/// How often a [`LiveSelector`] has judged and what came of it.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub struct Judgements {
    /// Iterations that were judged.
    pub iterations: u64,
    /// Those in which the source wasn't satisfied and chose again.
    pub reselections: u64,
    /// The rate of the last one, bytes/s, and whether it satisfied.
    pub last: Option<(f64, bool)>,
}

/// Nothing to send for more than this share of the time: the rate says nothing about the paths.
const STARVED: f64 = 0.1;
/// A relay through which nothing came weighs as much as this share of the mean all the same: it may
/// have been somebody else's fault.
const LEAST_WEIGHT: f64 = 0.05;

/// A source's choice of relays where these come and go: a [`PathSelector`], and when to ask it.
///
/// Up to `k` relays are in use, all different. The first choice is made when all have answered, or
/// some time after the first. Then time is divided into iterations: rates settle, rates are judged,
/// and a source that hasn't got its demand chooses again by k- or 1-reselection (section 4 of the
/// overlay paper). A relay that dies is replaced at once by one that is alive, if there is one, and
/// another iteration begins.
///
/// By which bandwidths a proportional choice goes, nobody tells a live source. A relay that was in
/// use counts as much as it carried in its last iteration (at least 0.05 of the mean; in one that
/// satisfied, as much as before if that was more, since it wasn't asked for all it has). One that
/// wasn't counts as the mean of those, but not more than the relay allows
/// ([`LiveSelector::set_bound`]); without any of these all count alike.
///
/// The owner tells what it knows ([`LiveSelector::set`]), calls [`LiveSelector::on_timeout`] in
/// time, and makes paths of [`LiveSelector::relays`]. Work is O(relays) per call.
#[derive(Clone, Debug)]
pub struct LiveSelector {
    config: LiveConfig,
    selector: PathSelector,
    relays: Vec<KnownRelay>,
    index: BTreeMap<RelayKey, usize>,
    stage: Stage,
    /// Since when there have been too few; and that it was told.
    few_since: Option<Time>,
    few_told: bool,
    judgements: Judgements,
    /// The relays in use have satisfied.
    content: bool,
    selected: VecDeque<Selected>,
}

#[derive(Copy, Clone, Debug)]
struct KnownRelay {
    relay: RelayKey,
    liveness: Liveness,
    /// Bytes/s that it carried, and that it allows.
    carried: Option<f64>,
    bound: Option<f64>,
}

/// How far an iteration has come.
#[derive(Clone, Debug)]
enum Stage {
    /// Before the first choice; since when a relay has been alive.
    Gathering {
        since: Option<Time>,
    },
    /// There is nothing to judge, or nobody to judge by.
    Keeping,
    Settling {
        since: Time,
        until: Time,
    },
    Judging {
        since: Time,
        until: Time,
        before: Before,
    },
}

/// Counters at the beginning of the part that is judged.
#[derive(Clone, Debug)]
struct Before {
    delivered: u64,
    starved: Duration,
    relays: BTreeMap<RelayKey, u64>,
}

impl LiveSelector {
    /// A source that knows no relays yet. Equal seeds make equal choices.
    ///
    /// # Errors
    /// [`InvalidConfig`] if a number is out of range.
    pub fn new(config: LiveConfig, seed: u64) -> Result<Self, InvalidConfig> {
        let demand = config.demand.unwrap_or(1.0);
        let fine = demand > 0.0 && demand.is_finite();
        check(fine, "demand", demand, "more than 0 bytes/s")?;
        let fine = config.select.reselection != Reselection::Everyone;
        let others = "unsatisfied sources' alone: all of their paths, or the slowest";
        check(fine, "reselection", f64::NAN, others)?;
        let fine = config.keep > 0.0 && config.keep <= config.select.satisfied;
        check(
            fine,
            "keep",
            config.keep,
            "more than 0, at most what satisfies",
        )?;
        let fine = !config.settle.is_zero() && !config.judge.is_zero();
        check(
            fine,
            "iteration",
            0.0,
            "more than 0 s to settle and to judge",
        )?;
        Ok(LiveSelector {
            config,
            selector: PathSelector::empty(config.select, seed)?,
            relays: Vec::new(),
            index: BTreeMap::new(),
            stage: Stage::Gathering { since: None },
            few_since: None,
            few_told: false,
            judgements: Judgements::default(),
            content: false,
            selected: VecDeque::new(),
        })
    }

    /// The settings.
    pub fn config(&self) -> &LiveConfig {
        &self.config
    }

    /// The relays in use, at most as many as paths are wanted. One that is dead stays while no
    /// other one is alive.
    pub fn relays(&self) -> impl Iterator<Item = RelayKey> {
        self.selector
            .relays()
            .iter()
            .map(|&index| self.relays[index].relay)
    }

    /// Whether a relay is in use.
    pub fn uses(&self, relay: RelayKey) -> bool {
        self.relays().any(|other| other == relay)
    }

    /// How many relays are alive, in use or not.
    pub fn alive(&self) -> usize {
        self.count(Liveness::Alive)
    }

    /// Whether the first choice has been made.
    pub fn has_chosen(&self) -> bool {
        !matches!(self.stage, Stage::Gathering { .. })
    }

    /// What has been judged so far.
    pub fn judgements(&self) -> Judgements {
        self.judgements
    }

    /// What has happened since the last call.
    pub fn next_selected(&mut self) -> Option<Selected> {
        self.selected.pop_front()
    }

    /// What is known of a relay by now: nothing happens before [`LiveSelector::on_timeout`].
    pub fn set(&mut self, relay: RelayKey, liveness: Liveness) {
        let index = match self.index.get(&relay) {
            Some(&index) => index,
            None if liveness == Liveness::Gone => return,
            None => self.add(relay),
        };
        self.relays[index].liveness = liveness;
        self.selector.set_open(index, liveness == Liveness::Alive);
    }

    /// No more than this goes through the relay, bytes/s, as far as is known before it is used.
    pub fn set_bound(&mut self, relay: RelayKey, bytes_per_sec: f64) {
        if let Some(&index) = self.index.get(&relay) {
            self.relays[index].bound = Some(bytes_per_sec.max(0.0));
        }
    }

    /// The connection came about through this relay: it is one of the first choice.
    pub fn adopt(&mut self, relay: RelayKey) {
        if matches!(self.stage, Stage::Gathering { .. })
            && let Some(&index) = self.index.get(&relay)
        {
            self.selector.adopt(index);
        }
    }

    /// When [`LiveSelector::on_timeout`] must be called, if nothing is [`set`](LiveSelector::set)
    /// before.
    pub fn timeout(&self) -> Option<Time> {
        let stage = match &self.stage {
            Stage::Gathering { since } => since.map(|since| since + self.config.gather),
            Stage::Keeping => None,
            Stage::Settling { until, .. } | Stage::Judging { until, .. } => Some(*until),
        };
        let few = self.few_since.filter(|_| !self.few_told);
        let few = few.map(|since| since + self.config.patience);
        stage.into_iter().chain(few).min()
    }

    /// Does what is due: harmless at any time.
    pub fn on_timeout(&mut self, now: Time, measured: &Measured<'_>) {
        let before: Vec<usize> = self.selector.relays().to_vec();
        for index in before.iter().copied() {
            if self.relays[index].liveness == Liveness::Gone {
                self.selector.drop_relay(index);
            }
        }
        let reason = self.advance(now, measured);
        self.tell_change(now, &before, reason);
        self.mind_few(now);
    }

    fn add(&mut self, relay: RelayKey) -> usize {
        let index = self.relays.len();
        self.index.insert(relay, index);
        self.relays.push(KnownRelay {
            relay,
            liveness: Liveness::Unanswered,
            carried: None,
            bound: None,
        });
        // A bandwidth of one is fine.
        self.selector.add(1.0).ok();
        index
    }

    fn count(&self, liveness: Liveness) -> usize {
        let of = |candidate: &&KnownRelay| candidate.liveness == liveness;
        self.relays.iter().filter(of).count()
    }

    /// Goes on in the iteration, or to the next one; chooses, if it is time. Why, if anything is
    /// chosen.
    fn advance(&mut self, now: Time, measured: &Measured<'_>) -> Reason {
        if let Stage::Gathering { since } = self.stage {
            let alive = self.count(Liveness::Alive) > 0 || !self.selector.relays().is_empty();
            let since = since.or(alive.then_some(now));
            let over = since.is_some_and(|since| since + self.config.gather <= now);
            if !over && (since.is_none() || self.count(Liveness::Unanswered) > 0) {
                self.stage = Stage::Gathering { since };
                return Reason::First;
            }
            self.weigh();
            self.selector.fill();
            self.begin(now);
            return Reason::First;
        }
        if let Some(reason) = self.judge(now, measured) {
            return reason;
        }
        self.weigh();
        self.selector.fill();
        Reason::Vacancy
    }

    fn begin(&mut self, now: Time) {
        self.content = false;
        self.stage = match self.config.demand {
            Some(_) => Stage::Settling {
                since: now,
                until: now + self.config.settle,
            },
            None => Stage::Keeping,
        };
    }

    /// Chooses again if an iteration is over that hasn't satisfied; says so.
    fn judge(&mut self, now: Time, measured: &Measured<'_>) -> Option<Reason> {
        let demand = self.config.demand?;
        let least = measured.rtt.saturating_mul(self.config.round_trips);
        match &self.stage {
            Stage::Settling { since, until } if *until <= now => {
                // The round trips of the new paths are known only now.
                let (since, until) = (*since, *since + self.config.settle.max(least));
                self.stage = match until > now {
                    true => Stage::Settling { since, until },
                    false => self.judging(now, measured, least),
                };
                None
            }
            Stage::Judging {
                since,
                until,
                before,
            } if *until <= now => {
                let span = now.since(*since);
                let starved = measured.starved.saturating_sub(before.starved);
                let seconds = span.as_secs_f64().max(1e-9);
                let bytes = measured.delivered.saturating_sub(before.delivered);
                let rate = bytes as f64 / seconds;
                let satisfied = self.selector.satisfied(&[rate], demand)
                    || self.content && rate >= self.config.keep * demand;
                if !satisfied && starved.as_secs_f64() > STARVED * seconds {
                    self.stage = self.judging(now, measured, least);
                    return None;
                }
                let rates = self.rates(measured, &before.relays.clone(), seconds);
                self.note_carried(&rates, satisfied);
                self.judgements.iterations += 1;
                self.judgements.last = Some((rate, satisfied));
                if satisfied {
                    self.content = true;
                    self.stage = self.judging(now, measured, least);
                    return None;
                }
                self.weigh();
                if self.selector.choose_again(&rates) {
                    self.judgements.reselections += 1;
                }
                self.begin(now);
                Some(Reason::Unsatisfied { rate, demand })
            }
            _ => None,
        }
    }

    fn judging(&self, now: Time, measured: &Measured<'_>, least: Duration) -> Stage {
        Stage::Judging {
            since: now,
            until: now + self.config.judge.max(least),
            before: Before {
                delivered: measured.delivered,
                starved: measured.starved,
                relays: measured.relays.iter().copied().collect(),
            },
        }
    }

    /// Of each path in use, bytes/s; 0 for one that nothing is known of.
    fn rates(
        &self,
        measured: &Measured<'_>,
        before: &BTreeMap<RelayKey, u64>,
        seconds: f64,
    ) -> Vec<f64> {
        let rate = |relay: RelayKey| {
            let mut counters = measured.relays.iter();
            let now = counters.find(|(other, _)| *other == relay)?.1;
            let earlier = before.get(&relay).copied().unwrap_or(0);
            Some(now.saturating_sub(earlier) as f64 / seconds)
        };
        self.relays()
            .map(|relay| rate(relay).unwrap_or(0.0))
            .collect()
    }

    fn note_carried(&mut self, rates: &[f64], satisfied: bool) {
        for (&index, &rate) in self.selector.relays().iter().zip(rates) {
            let carried = &mut self.relays[index].carried;
            *carried = Some(match *carried {
                Some(earlier) if satisfied => rate.max(earlier),
                _ => rate,
            });
        }
    }

    /// Tells the selector what is believed of each relay.
    fn weigh(&mut self) {
        if self.config.select.choice == Choice::Uniform {
            return;
        }
        let known: Vec<f64> = self.relays.iter().filter_map(|r| r.carried).collect();
        let mean = match known.len() {
            0 => None,
            n => Some(known.iter().sum::<f64>() / n as f64).filter(|mean| *mean > 0.0),
        };
        // Without a word from anybody all are alike; a bound is comparable with others of its kind.
        let highest = self.relays.iter().filter_map(|r| r.bound);
        let highest = highest.fold(0.0, f64::max);
        for (index, relay) in self.relays.iter().enumerate() {
            let weight = match (relay.carried, relay.bound, mean) {
                (Some(rate), _, Some(mean)) => rate.max(LEAST_WEIGHT * mean),
                (None, Some(bound), Some(mean)) => bound.min(mean),
                (None, None, Some(mean)) => mean,
                (_, Some(bound), None) => bound,
                (_, None, None) if highest > 0.0 => highest,
                (_, None, None) => 1.0,
            };
            self.selector.set_bandwidth(index, weight.min(1e17)).ok();
        }
    }

    fn tell_change(&mut self, now: Time, before: &[usize], reason: Reason) {
        let after = self.selector.relays();
        let only = |some: &[usize], others: &[usize]| -> Vec<RelayKey> {
            let only = some.iter().filter(|index| !others.contains(index));
            only.map(|&index| self.relays[index].relay).collect()
        };
        let (dropped, taken) = (only(before, after), only(after, before));
        let choosing = matches!(self.stage, Stage::Gathering { .. });
        if choosing || dropped.is_empty() && taken.is_empty() {
            return;
        }
        if reason == Reason::Vacancy {
            self.begin(now);
        }
        self.selected.push_back(Selected::Changed {
            reason,
            dropped,
            taken,
        });
    }

    fn mind_few(&mut self, now: Time) {
        let alive = self.count(Liveness::Alive);
        let known = self.relays.len() - self.count(Liveness::Gone);
        if alive >= self.config.select.paths || known == 0 {
            self.few_since = None;
            return;
        }
        let since = *self.few_since.get_or_insert(now);
        if since + self.config.patience <= now && !self.few_told {
            self.few_told = true;
            self.selected.push_back(Selected::Few { alive, known });
        }
    }
}

#[cfg(test)]
mod tests;

//! `auto`, adaptive coupling: subflows that share a bottleneck take together what one CUBIC flow
//! takes there, and losses that don't come from full queues aren't taken for congestion.
//!
//! * **Groups.** Subflows whose delays change alike share a queue ([`delays`]) and form a group;
//!   until there is evidence, all do. A group is cut as one flow is: all of it, once for what was
//!   sent before the last cut. Its subflows share one flow's growth, in proportion to their rates.
//!   Where no queue can be seen, each is cut for its own losses only, and grows more slowly.
//! * **Random loss.** Losses by congestion fall into full queues, random ones fall anywhere
//!   ([`queue`]). While losses of a subflow don't prefer full queues, it doesn't answer those that
//!   meet none, and it grows exponentially while there is no queue, until losses become more
//!   frequent ([`rising`]).
//! * **Long queues.** A group takes a little of a long queue away and sees how much goes. If the
//!   queue is its own ([`trial`]), it cuts it short; else it goes on as if it hadn't asked.
//!
//! In the background ([`background`]) a group has a tenth of a flow's weight instead, and gives way
//! to every queue ([`yielding`]), whosever it is.

mod background;
mod delays;
mod queue;
mod rising;
mod trial;
mod yielding;

use std::time::Duration;

use manyway_units::Time;

use crate::bottleneck::joined;
use crate::controller::{Ack, Controller, Loss, NewPath, Round, Slot, Target};
use crate::law::{Path, Scalar, WindowLaw, total_rate};
use crate::options::Options;
use crate::slots::Slots;

use super::cubic::{ALPHA, BETA, Curve};
use delays::{Delays, Likeness};
use queue::Queue;
use rising::Rising;
use trial::{Trial, Whose};
use yielding::Yielding;

/// Above this likeness of their delays two subflows come together, …
const TOGETHER: f64 = 0.6;
/// … and below this one they part.
const APART: f64 = 0.3;
/// Subflows of a group are cut together only above this one: being cut together makes those alike
/// that aren't behind one queue, so that they would never part.
const SAME: f64 = 0.8;
/// A subflow that has had no round for so many round-trip times has nothing in the queue.
const SILENT: f64 = 4.0;
/// A subflow with so many times another's rate has nearly all losses of a common queue itself.
const FASTER: f64 = 16.0;
/// How often groups are formed, and their growth is split, anew.
const REGROUP: Duration = Duration::from_secs(1);
/// The part of a group's growth that is split equally, so that no subflow starves.
const EQUAL: f64 = 0.2;
/// Rates are averaged over about so many seconds.
const RATE_SPAN: f64 = 1.0;
/// A subflow that has had no round for so long has no rate.
const DARK: Duration = Duration::from_secs(2);
/// Growth for each acknowledged packet while losses are random and there is no queue.
const GROWTH: f64 = 0.06;
/// A queue that stands at more than this many seconds is too long, if it is ours.
const LONG: f64 = 0.030;
/// To learn whose it is, we take so many seconds of it away, …
const ASK: f64 = 0.020;
/// … not before the last loss is so many round-trip times ago, …
const SETTLED: f64 = 4.0;
/// … and if it isn't ours, not again before so many have passed, …
const AGAIN: f64 = 32.0;
/// … and so many seconds.
const AGAIN_AT_LEAST: f64 = 2.0;
/// A trial is over after so many round-trip times.
const TRIAL: f64 = 4.0;
/// Neither a trial nor its outcome leaves less than this part of a window.
const LEAST: f64 = 0.5;

/// Adaptive coupling.
#[derive(Clone, Debug)]
pub struct Auto {
    options: Options,
    background: bool,
    slots: Slots<Subflow>,
    /// When to form groups next.
    regroup: Time,
}

#[derive(Clone, Debug)]
struct Subflow {
    curve: Curve,
    queue: Queue,
    rising: Rising,
    /// The window while losses were last answered.
    answered: f64,
    delays: Delays,
    /// In the background only.
    yielding: Option<Box<Yielding>>,
    /// Its own trial of the group's queue.
    trial: Option<Trial>,
    /// Until then a trial is under way, so the window doesn't grow.
    held: Time,
    /// Until then there is no trial.
    settles: Time,
    /// Whether the last trial found the queue ours.
    alone: bool,
    /// Those with the same number share a bottleneck.
    group: usize,
    /// How many of these, itself included, are each cut only for their own losses, because no queue
    /// shows whether they share one.
    alone_of: f64,
    /// Whether it lost packets in the event that brought its group's last cut.
    lost: bool,
    /// Whether its last loss was left without an answer.
    ignored: bool,
    /// The window when this round began, and when the one before did.
    before: [f64; 2],
    /// Goodput, bytes/s.
    rate: f64,
    /// Bytes acknowledged in this round, and when it began.
    acked: f64,
    began: Time,
}

/// A subflow's part `ω` of the growth of a group of `count` subflows, where it has this share of
/// their rates.
fn part<D: Scalar>(share: D, count: f64) -> D {
    share * (1.0 - EQUAL) + EQUAL / count
}

/// What [`Auto`] is for a group of subflows while their windows grow on Reno's line (RFC 9438
/// §4.3), as they do where round trips are short or windows small, and if losses cut only the
/// subflows that have them: `I_r = ω_r α/w_r` and `D_r = (1 − β) w_r` with `ω_r = 1/(5n) + (4/5)
/// x_r/S` for n subflows. For analysis: no transfer runs it.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct AutoGroup;

impl WindowLaw for AutoGroup {
    fn increase<D: Scalar>(&self, paths: &[Path<D>], r: usize) -> D {
        let share = paths[r].rate() / total_rate(paths);
        part(share, paths.len() as f64) * ALPHA / paths[r].window
    }

    fn decrease<D: Scalar>(&self, paths: &[Path<D>], r: usize) -> D {
        paths[r].window * (1.0 - BETA)
    }

    fn name(&self) -> &'static str {
        "auto-group"
    }
}

impl Auto {
    /// A controller without paths.
    pub fn new(options: Options) -> Self {
        Auto {
            options,
            background: false,
            slots: Slots::new(),
            regroup: Time::ZERO,
        }
    }

    /// The smallest window of a path, in packets: two for all of the connection.
    fn floor(&self) -> f64 {
        let several = self.slots.iter_indexed().nth(1).is_some();
        self.options.floor(if several { 1.0 } else { 2.0 })
    }

    fn members(&mut self, group: usize) -> impl Iterator<Item = &mut Subflow> {
        self.slots.iter_mut().filter(move |p| p.group == group)
    }

    /// Splits the group's growth.
    fn weigh(&mut self, group: usize) {
        let total = match self.background {
            true => background::WEIGHT,
            false => 1.0,
        };
        let rates = self.members(group).map(|path| path.rate);
        let (count, sum) = rates.fold((0.0, 0.0), |(n, sum), rate| (n + 1.0, sum + rate));
        for path in self.members(group) {
            let share = if sum > 0.0 {
                path.rate / sum
            } else {
                1.0 / count
            };
            path.curve
                .set_share(total * part(share, count), path.alone_of);
        }
    }

    /// Forms the groups from what is known of the paths' delays, and splits their growth.
    fn regroup(&mut self, now: Time) {
        let dark = |path: &&mut Subflow| now.since(path.began) > DARK;
        self.slots
            .iter_mut()
            .filter(dark)
            .for_each(|path| path.rate = 0.0);
        let paths: Vec<&Subflow> = self.slots.iter_indexed().map(|(_, path)| path).collect();
        let mut groups = joined(&paths, |first, second| {
            let now = first.group == second.group;
            let enough = if now { APART } else { TOGETHER };
            match first.likeness(second) {
                Likeness::Known(likeness) => likeness > enough,
                Likeness::Unknown | Likeness::Unseen => now,
            }
        });
        let members = || paths.iter().zip(&groups);
        let alone = members().map(|(path, group)| {
            let others = members().filter(|(other, of)| *of == group && other.rate > 0.0);
            let unseen = others.filter(|(other, _)| {
                !std::ptr::eq(*path, **other) && path.likeness(other) == Likeness::Unseen
            });
            1.0 + unseen.count() as f64
        });
        let alone: Vec<f64> = alone.collect();
        for (path, (group, alone)) in self.slots.iter_mut().zip(groups.iter().zip(alone)) {
            (path.group, path.alone_of) = (*group, alone);
        }
        groups.sort_unstable();
        groups.dedup();
        groups.into_iter().for_each(|group| self.weigh(group));
    }

    /// Whether the path's losses have become more frequent since they have no answer. If so, all
    /// paths answer theirs for a time.
    fn rose(&mut self, loss: &Loss) -> bool {
        let floor = self.floor();
        let Some(path) = self.slots.get_mut(loss.slot) else {
            return false;
        };
        let random = path.random(loss.now);
        path.rising.on_any_loss();
        let rose = !path.queue.overflows() && path.rising.on_loss(random, loss.now);
        if rose {
            for path in self.slots.iter_mut() {
                path.doubt(loss.now, floor);
            }
        }
        rose
    }

    /// The subflows of the path's group that may be behind its queue, itself included.
    fn behind_queue_of(&self, slot: Slot, now: Time) -> Vec<Slot> {
        let Some(path) = self.slots.get(slot) else {
            return Vec::new();
        };
        let all = self.slots.iter_indexed();
        let all = all.map(|(index, other)| (Slot(index), other));
        let members = all.filter(|(_, other)| other.group == path.group);
        let behind = members.filter(|(at, other)| *at == slot || !other.is_apart(path, now));
        behind.map(|(slot, _)| slot).collect()
    }

    /// Cuts the path's group, unless the loss belongs to its last cut.
    fn cut(&mut self, loss: &Loss) {
        let floor = self.floor();
        let beta = match self.background {
            true => background::BETA,
            false => BETA,
        };
        self.abandon(loss);
        let Some(path) = self.slots.get_mut(loss.slot) else {
            return;
        };
        path.ignored = false;
        path.lost = true;
        if path.curve.cut().is_some_and(|cut| loss.sent < cut) {
            return;
        }
        let hit = match path.queue.is_full() || path.rising.doubts(loss.now) {
            true => self.behind_queue_of(loss.slot, loss.now),
            false => vec![loss.slot],
        };
        for slot in hit {
            let own = slot == loss.slot;
            if let Some(path) = self.slots.get_mut(slot)
                && (own || !path.was_just_cut(loss.now))
            {
                path.lost = own;
                path.alone = false;
                path.settles = loss.now + seconds(SETTLED * path.queue.rtt());
                path.come_back(loss.now);
                path.curve.reduce(loss.now, beta, floor);
            }
        }
    }

    /// Ends a trial of the path's group, as if it had not been.
    fn abandon(&mut self, loss: &Loss) {
        let Some(path) = self.slots.get(loss.slot) else {
            return;
        };
        let (group, held) = (path.group, path.held);
        if loss.now < held {
            for path in self.members(group).filter(|path| path.held == held) {
                path.trial = None;
                path.held = loss.now;
                if let Some(yielding) = &mut path.yielding {
                    yielding.come_back(loss.now, path.queue.rtt());
                }
                path.curve.restore();
            }
        }
    }

    /// Takes a little of the queue away that stands at so many seconds at the path, to learn whose
    /// it is.
    fn ask(&mut self, round: &Round, standing: f64) {
        let floor = self.floor();
        let Some(path) = self.slots.get_mut(round.slot) else {
            return;
        };
        let rtt = path.queue.base() + standing;
        let factor = (1.0 - ASK / rtt).max(BETA);
        path.trial = Some(Trial::new(standing, (1.0 - factor) * rtt));
        let held = round.now + seconds(TRIAL * rtt);
        for slot in self.behind_queue_of(round.slot, round.now) {
            if let Some(path) = self.slots.get_mut(slot) {
                path.lost = false;
                path.held = held;
                // What stands was sent two rounds ago; growth since isn't seen yet.
                let grown = path.curve.window() / path.before[1];
                let factor = factor / grown.max(1.0);
                path.curve.reduce(round.now, factor.max(LEAST), floor);
            }
        }
    }

    /// A trial's outcome: a queue of ours is cut short, or else everything is as it was before.
    fn answer(&mut self, round: &Round, standing: f64, whose: Whose) {
        let floor = self.floor();
        let Some(path) = self.slots.get_mut(round.slot) else {
            return;
        };
        path.trial = None;
        let (group, held, queue) = (path.group, path.held, &path.queue);
        let short = (queue.base() + LONG / 2.0) / (queue.base() + standing);
        let settles = match whose {
            Whose::Unclear => SETTLED * queue.rtt(),
            _ => (AGAIN * queue.rtt()).max(AGAIN_AT_LEAST),
        };
        let settles = round.now + seconds(settles);
        let ours = whose == Whose::Ours;
        for path in self.members(group).filter(|path| path.held == held) {
            let sure = std::mem::replace(&mut path.alone, ours);
            path.held = round.now;
            if !ours {
                path.settles = settles;
                path.curve.restore();
            } else if sure && short < 1.0 {
                path.curve.reduce(round.now, short.max(LEAST), floor);
            }
        }
    }

    /// Goes on with the path's trial, or begins one if the queue is long.
    fn keep_short(&mut self, round: &Round, standing: f64) {
        let Some(path) = self.slots.get_mut(round.slot) else {
            return;
        };
        if let Some(trial) = &mut path.trial {
            if let Some(whose) = trial.on_round_end(standing) {
                self.answer(round, standing, whose);
            }
        } else if standing > LONG && round.now >= path.settles.max(path.held) {
            self.ask(round, standing);
        }
    }
}

impl Subflow {
    /// Whether its losses are random, as far as is known.
    fn random(&self, now: Time) -> bool {
        self.queue.random() && !self.rising.answers(now)
    }

    /// Losses that had no answer were congestion: the window is what it was before them.
    fn doubt(&mut self, now: Time, floor: f64) {
        self.rising.doubt(now);
        self.queue.is_congested();
        self.curve.fall_back(self.answered.max(floor));
    }

    /// What their delays say about a common queue: a long one that hardly changes isn't unseen.
    fn likeness(&self, other: &Subflow) -> Likeness {
        match self.delays.likeness(&other.delays) {
            Likeness::Unseen if !(self.queue.is_empty() && other.queue.is_empty()) => {
                Likeness::Unknown
            }
            likeness => likeness,
        }
    }

    /// Whether its last cut, by a loss or for a trial, is less than a round trip ago, so that no
    /// queue has felt it yet: others with shorter round trips may lose more packets meanwhile.
    fn was_just_cut(&self, now: Time) -> bool {
        let cut = self.curve.cut();
        cut.is_some_and(|cut| now.since(cut).as_secs_f64() < self.queue.rtt())
    }

    /// Whether it can't be behind the queue of another one, which has packets there now.
    fn is_apart(&self, other: &Subflow, now: Time) -> bool {
        let starts = self.curve.in_slow_start() && self.queue.is_empty();
        let silent = now.since(self.began).as_secs_f64() > SILENT * self.queue.rtt();
        let unlike = match self.likeness(other) {
            Likeness::Unknown => false,
            Likeness::Unseen => true,
            Likeness::Known(likeness) => likeness < SAME,
        };
        let faster = self.rate > FASTER * other.rate;
        starts || silent || unlike || faster || self.queue.is_shorter(&other.queue)
    }
}

/// At most an hour, whatever the round-trip time.
fn seconds(seconds: f64) -> Duration {
    const LONGEST: Duration = Duration::from_secs(3600);
    Duration::try_from_secs_f64(seconds).map_or(LONGEST, |time| time.min(LONGEST))
}

impl Controller for Auto {
    fn name(&self) -> &'static str {
        match self.background {
            true => "background",
            false => "auto",
        }
    }

    fn add_path(&mut self, path: NewPath) -> Slot {
        if self.slots.iter_indexed().next().is_none() {
            self.regroup = path.now + REGROUP;
        }
        let paths = self.slots.iter_indexed();
        let fastest = paths.max_by(|(_, a), (_, b)| a.rate.total_cmp(&b.rate));
        let group = fastest.map_or(0, |(_, path)| path.group);
        let curve = Curve::new(&path, &self.options, self.options.floor(2.0));
        let before = [curve.window(); 2];
        let slot = self.slots.insert(Subflow {
            curve,
            queue: Queue::default(),
            rising: Rising::default(),
            answered: f64::INFINITY,
            delays: Delays::default(),
            yielding: self.background.then(Box::default),
            trial: None,
            held: path.now,
            settles: path.now,
            alone: false,
            group,
            alone_of: 1.0,
            lost: false,
            ignored: false,
            before,
            rate: 0.0,
            acked: 0.0,
            began: path.now,
        });
        self.weigh(group);
        slot
    }

    fn remove_path(&mut self, slot: Slot) {
        if let Some(path) = self.slots.remove(slot) {
            self.weigh(path.group);
            let floor = self.floor();
            for path in self.slots.iter_mut() {
                path.curve.raise(floor);
            }
        }
    }

    fn set_packet_size(&mut self, slot: Slot, bytes: u32) {
        let floor = self.floor();
        if let Some(path) = self.slots.get_mut(slot) {
            let size = path.curve.size();
            path.curve.resize(bytes, floor);
            let ratio = size / path.curve.size();
            path.answered *= ratio;
            path.before = path.before.map(|window| window * ratio);
        }
    }

    fn on_ack(&mut self, ack: &Ack) {
        let Some(path) = self.slots.get_mut(ack.slot) else {
            return;
        };
        path.acked += ack.packets * path.curve.size();
        if ack.rtt_sampled {
            let rtt = ack.rtt.as_secs_f64();
            path.delays
                .on_sample(ack.now, ack.one_way().unwrap_or(rtt), rtt);
            let window = path.curve.window();
            path.queue.on_ack(ack, window);
            if let Some(yielding) = &mut path.yielding {
                yielding.on_sample(ack.now, rtt, window);
            }
        }
        // Nothing recovers from a loss that wasn't answered.
        let in_recovery = ack.in_recovery && !path.ignored;
        let ack = Ack {
            in_recovery,
            app_limited: ack.app_limited || ack.now < path.held,
            ..*ack
        };
        path.curve.on_ack(&ack, &self.options);
        if !path.queue.overflows() {
            path.rising.on_ack(ack.packets);
        }
        if !path.rising.free() {
            path.answered = path.curve.window();
        }
        let free = match &path.yielding {
            Some(yielding) => yielding.is_alone(ack.now),
            None => path.random(ack.now) && path.queue.is_empty(),
        };
        if free && !path.curve.in_slow_start() && self.options.grows_by(&ack, None) {
            path.curve.lift(GROWTH * self.options.counted(ack.packets));
        }
    }

    fn set_window(&mut self, slot: Slot, window: f64, target: Target) -> bool {
        let floor = self.floor();
        let path = self.slots.get_mut(slot);
        path.map(|path| path.curve.set_window(window, target, floor))
            .is_some()
    }

    fn on_loss(&mut self, loss: &Loss) {
        let Some(path) = self.slots.get_mut(loss.slot) else {
            return;
        };
        if let Some(yielding) = &mut path.yielding {
            yielding.on_loss(loss.now);
        }
        let congestion = path.queue.on_loss(loss.packets, path.curve.window());
        let congestion = congestion || path.rising.answers(loss.now);
        if self.rose(loss) || congestion {
            self.cut(loss);
        } else if let Some(path) = self.slots.get_mut(loss.slot) {
            path.ignored = true;
            path.lost = false;
        }
    }

    fn on_further_loss(&mut self, loss: &Loss) {
        if let Some(path) = self.slots.get_mut(loss.slot) {
            path.queue.on_lost(loss.packets, path.curve.window());
        }
        if self.rose(loss) {
            self.cut(loss);
        }
    }

    fn on_ecn(&mut self, loss: &Loss) {
        if let Some(path) = self.slots.get_mut(loss.slot)
            && let Some(yielding) = &mut path.yielding
        {
            yielding.on_loss(loss.now);
        }
        self.cut(loss);
    }

    fn on_timeout(&mut self, slot: Slot, _now: Time) {
        let floor = self.floor();
        if let Some(path) = self.slots.get_mut(slot) {
            path.queue = Queue::default();
            (path.trial, path.held) = (None, Time::ZERO);
            path.yielding = path.yielding.take().map(|_| Box::default());
            path.ignored = false;
            path.curve.on_timeout(floor);
        }
    }

    fn on_spurious_loss(&mut self, slot: Slot, _now: Time) {
        let Some(path) = self.slots.get_mut(slot).filter(|path| path.lost) else {
            return;
        };
        path.lost = false;
        let (group, cut) = (path.group, path.curve.cut());
        let hit = |path: &&mut Subflow| path.curve.cut() == cut;
        if self.members(group).filter(hit).any(|path| path.lost) {
            return;
        }
        for path in self.members(group).filter(hit) {
            path.curve.restore();
        }
    }

    fn on_round_end(&mut self, round: &Round) {
        let Some(path) = self.slots.get_mut(round.slot) else {
            return;
        };
        path.rising.on_round_end(path.curve.in_slow_start());
        path.curve.on_round_end();
        let standing = path.queue.on_round_end();
        let took = round.now.since(path.began).as_secs_f64();
        if took > 0.0 {
            path.rate += (took / RATE_SPAN).min(1.0) * (path.acked / took - path.rate);
            (path.acked, path.began) = (0.0, round.now);
        }
        if self.background {
            self.give_way(round);
        } else if let Some(standing) = standing {
            self.keep_short(round, standing);
        }
        if let Some(path) = self.slots.get_mut(round.slot) {
            path.before = [path.curve.window(), path.before[0]];
        }
        if round.now >= self.regroup {
            self.regroup = round.now + REGROUP;
            self.regroup(round.now);
        }
    }

    fn window(&self, slot: Slot) -> f64 {
        self.slots.get(slot).map_or(0.0, |path| path.curve.window())
    }

    fn in_slow_start(&self, slot: Slot) -> bool {
        self.slots
            .get(slot)
            .is_some_and(|path| path.curve.in_slow_start())
    }

    fn group(&self, slot: Slot) -> Option<usize> {
        self.slots.get(slot).map(|path| path.group)
    }
}

#[cfg(test)]
mod tests;

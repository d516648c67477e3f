//! mPath's path manager: it probes relays, and decides which of them carry a path. It opens nothing
//! and knows no packet; its owner carries out its commands.

use std::collections::VecDeque;
use std::time::Duration;

use manyway_units::Time;

use super::book::{Book, State};
use super::config::{InvalidManagerConfig, ManagerConfig, Reuse};
use super::key::{PathKey, RelayKey};
use crate::controller::PathVerdict;
use crate::random::Random;

/// What a path manager has to know. Events that name a relay it has no use for at the moment are
/// ignored.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum Event<'a> {
    /// The direct path works, or its smoothed round-trip time has changed: τ follows it. Probing
    /// begins with the first.
    DirectRtt(Duration),
    /// The answer to [`Command::MoreRelays`], or relays known from elsewhere; those known already
    /// don't count.
    Relays(&'a [RelayKey]),
    /// A relay's probe was acknowledged.
    Answered(RelayKey),
    /// So many bytes were acknowledged on the path through a relay.
    Delivered {
        /// The relay.
        relay: RelayKey,
        /// Newly acknowledged bytes.
        bytes: u64,
    },
    /// A loss event on a path, of those that cut its window.
    Loss {
        /// The path.
        path: PathKey,
        /// Its window just before, in packets.
        window: f64,
    },
    /// A probe timeout on a path: nothing was acknowledged for a while. On a proxied path it is the
    /// end of it; on the direct path it counts as a loss.
    Timeout {
        /// The path.
        path: PathKey,
        /// Its window just before, in packets.
        window: f64,
    },
    /// What the controller thinks of the path through a relay: see [`crate::Controller::verdict`].
    Verdict {
        /// The relay.
        relay: RelayKey,
        /// The verdict.
        verdict: PathVerdict,
    },
    /// The path through a relay is gone, or couldn't be opened: not by a command.
    Gone(RelayKey),
    /// Whether there is data that the open paths can't carry at once. Without it there are neither
    /// probes nor new paths; a manager starts with it.
    Unsatisfied(bool),
}

/// What the owner is to do.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Send a packet of data through the relay, outside all windows, and report its acknowledgement
    /// as [`Event::Answered`].
    Probe(RelayKey),
    /// The last probe through the relay has waited too long: send its data again.
    Resend(RelayKey),
    /// Open a path through the relay, with a window of one packet.
    Open(RelayKey),
    /// Close the path through the relay; what it has in flight must be sent again on others.
    Close {
        /// The relay.
        relay: RelayKey,
        /// The relay won't be used again.
        for_good: bool,
    },
    /// Every relay on the list has been probed: get more and report them as [`Event::Relays`], even
    /// if there are none.
    MoreRelays,
}

/// How many relays are in which state.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct RelayCounts {
    /// Known, and not probed to the end.
    pub candidates: usize,
    /// They answer, and have never been used.
    pub unused: usize,
    /// Their paths are open.
    pub open: usize,
    /// Their paths were closed for now.
    pub resting: usize,
    /// Silent, or closed for good.
    pub unusable: usize,
}

/// mPath's choice of proxied paths (Xu, Leong, Seah and Razeen, "mPath: High-Bandwidth Data
/// Transfers with Massively-Multipath Source Routing", sections 2.1 and 2.3), for the windows of
/// [`crate::laws::Mpath`].
///
/// * **Probing**: one relay every 250 ms, at random, with a packet of data. Acknowledged within `τ
///   = 2·RTT_0` it is available; without an acknowledgement in time twice in a row, unusable. (The
///   second probe follows before other relays' first.) When all have been probed, more are asked
///   for.
/// * **Creation**: a loss on the direct path with window `w_0` creates `β·w_0` proxied paths
///   (rounded, at least one), but only if every open one has met loss: through available relays
///   never used, at random; if there are none, through the best one seen ([`Reuse`]).
/// * **Dropping**: a drained path is closed for now. One that times out is closed too, for good if
///   it delivered well below what the other proxied paths did on the average in its lifetime.
///
/// What the paper leaves open: a path is judged by what it contributed only if its relay has been
/// in use for a while ([`ManagerConfig::trial`]), as one packet lost in a queue that others have
/// filled says nothing about the path. And, its own words being "may be reused at a later time": a
/// relay whose path was closed for now rests, twice as long each time ([`ManagerConfig::rest`]), so
/// that a path which is found useless again and again costs less and less. It is used before that
/// if there is no other proxied path, and the direct one times out.
///
/// The owner passes events and the clock, and takes commands until there are none. All randomness
/// is from the seed. Work per event is O(1), but for a creation when all relays have been used,
/// which looks at each; memory is bounded by [`ManagerConfig::max_relays`].
#[derive(Clone, Debug)]
pub struct PathManager {
    config: ManagerConfig,
    random: Random,
    book: Book,
    /// Positions in the book: waiting for their first probe; for their next one; available and
    /// never used; probed lately.
    first: Vec<usize>,
    again: VecDeque<usize>,
    unused: Vec<usize>,
    probed: Vec<usize>,
    /// `RTT_0`; `None` until the direct path works.
    rtt: Option<Duration>,
    next_probe: Time,
    /// A request for relays is under way.
    asked: bool,
    next_request: Time,
    unsatisfied: bool,
    commands: VecDeque<Command>,
}

impl PathManager {
    /// A manager that knows no relays yet. Equal seeds make equal choices.
    ///
    /// # Errors
    /// [`InvalidManagerConfig`] if a field of `config` is out of its range.
    pub fn new(config: ManagerConfig, seed: u64) -> Result<Self, InvalidManagerConfig> {
        config.check()?;
        Ok(PathManager {
            config,
            random: Random::new(seed),
            book: Book::default(),
            first: Vec::new(),
            again: VecDeque::new(),
            unused: Vec::new(),
            probed: Vec::new(),
            rtt: None,
            next_probe: Time::ZERO,
            asked: false,
            next_request: Time::ZERO,
            unsatisfied: true,
            commands: VecDeque::new(),
        })
    }

    /// Takes an event, and does what is due by `now`.
    pub fn handle(&mut self, now: Time, event: Event<'_>) {
        match event {
            Event::DirectRtt(rtt) => self.rtt = Some(rtt),
            Event::Relays(relays) => self.on_relays(now, relays),
            Event::Answered(relay) => self.on_answer(now, relay),
            Event::Delivered { relay, bytes } => {
                // Nothing becomes due by it, and there are many.
                if let Some(at) = self.open_at(relay) {
                    self.book.deliver(at, bytes);
                }
                return;
            }
            Event::Loss {
                path: PathKey::Direct,
                window,
            } => self.create(now, window, false),
            Event::Timeout {
                path: PathKey::Direct,
                window,
            } => self.create(now, window, self.book.open() == 0),
            Event::Loss {
                path: PathKey::Via(relay),
                ..
            } => {
                if let Some(at) = self.open_at(relay) {
                    self.book.meet_loss(at);
                }
            }
            Event::Timeout {
                path: PathKey::Via(relay),
                ..
            } => self.on_proxied_timeout(now, relay),
            Event::Verdict { relay, verdict } => match verdict {
                PathVerdict::Keep => {}
                PathVerdict::Drained => self.close(now, relay, false),
                PathVerdict::TimedOut => self.on_proxied_timeout(now, relay),
            },
            Event::Gone(relay) => {
                if let Some(at) = self.open_at(relay) {
                    let until = self.rest(at, now);
                    self.book.close_path(at, now, State::Resting { until });
                }
            }
            Event::Unsatisfied(unsatisfied) => self.unsatisfied = unsatisfied,
        }
        self.on_timeout(now);
    }

    /// The next thing to do.
    pub fn next_command(&mut self) -> Option<Command> {
        self.commands.pop_front()
    }

    /// When [`PathManager::on_timeout`] must be called, if no event comes before.
    pub fn timeout(&self) -> Option<Time> {
        let deadlines = self.probed.iter().map(|&at| match self.book.get(at).state {
            // An answer at the last moment is in time.
            State::Probed { until, .. } => until + Duration::from_nanos(1),
            _ => Time::MAX,
        });
        let probe = self.may_probe().then_some(self.next_probe);
        let request = self.wants_relays().then_some(self.next_request);
        deadlines.chain(probe).chain(request).min()
    }

    /// The time given by [`PathManager::timeout`] has come; harmless at any other time.
    pub fn on_timeout(&mut self, now: Time) {
        self.expire(now);
        if self.may_probe() && self.next_probe <= now {
            self.probe(now);
        }
        if self.wants_relays() && self.next_request <= now {
            self.asked = true;
            self.commands.push_back(Command::MoreRelays);
        }
    }

    /// How many relays are in which state. O(n).
    pub fn counts(&self) -> RelayCounts {
        let mut counts = RelayCounts::default();
        for record in self.book.records() {
            *match record.state {
                State::Waiting { .. } | State::Probed { .. } => &mut counts.candidates,
                State::Unused => &mut counts.unused,
                State::Open(_) => &mut counts.open,
                State::Resting { .. } => &mut counts.resting,
                State::Unusable => &mut counts.unusable,
            } += 1;
        }
        counts
    }

    /// Whether there is a path through the relay, as far as commands and events say.
    pub fn is_open(&self, relay: RelayKey) -> bool {
        self.open_at(relay).is_some()
    }

    fn open_at(&self, relay: RelayKey) -> Option<usize> {
        let at = self.book.position(relay)?;
        matches!(self.book.get(at).state, State::Open(_)).then_some(at)
    }

    fn on_relays(&mut self, now: Time, relays: &[RelayKey]) {
        let known = self.book.len();
        for &relay in relays {
            if self.book.len() == self.config.max_relays {
                break;
            }
            self.first.extend(self.book.insert(relay));
        }
        self.asked = false;
        if self.book.len() == known {
            self.next_request = now + self.config.ask_again;
        }
    }

    /// Whether a relay waits for a probe and may have one.
    fn may_probe(&self) -> bool {
        let candidates = !self.first.is_empty() || !self.again.is_empty();
        self.unsatisfied && self.rtt.is_some() && candidates
    }

    /// Whether more relays are wanted: all have been probed, and there is room for more.
    fn wants_relays(&self) -> bool {
        let probed = self.first.is_empty() && self.again.is_empty() && self.probed.is_empty();
        let room = self.book.len() < self.config.max_relays;
        self.unsatisfied && self.rtt.is_some() && probed && room && !self.asked
    }

    fn probe(&mut self, now: Time) {
        let Some(rtt) = self.rtt else {
            return;
        };
        let next = self.again.pop_front();
        let Some(at) = next.or_else(|| self.random.take(&mut self.first)) else {
            return;
        };
        // No round trip is longer than an hour, and no clock so coarse that it takes no time.
        let patience = (rtt.as_secs_f64() * self.config.probe_patience).clamp(1e-6, 3600.0);
        let record = self.book.get_mut(at);
        if let State::Waiting { strikes } = record.state {
            let until = now + Duration::from_secs_f64(patience);
            record.state = State::Probed { strikes, until };
            self.probed.push(at);
            self.commands.push_back(Command::Probe(record.relay));
            self.next_probe = now + self.config.probe_interval;
        }
    }

    fn on_answer(&mut self, now: Time, relay: RelayKey) {
        // First the probes that are late, this one perhaps among them.
        self.expire(now);
        let Some(at) = self.book.position(relay) else {
            return;
        };
        let record = self.book.get_mut(at);
        if matches!(record.state, State::Probed { .. }) {
            record.state = State::Unused;
            self.probed.retain(|&other| other != at);
            self.unused.push(at);
        }
    }

    /// Probes that have waited too long.
    fn expire(&mut self, now: Time) {
        let (book, again, limit) = (&mut self.book, &mut self.again, self.config.strikes);
        let commands = &mut self.commands;
        self.probed.retain(|&at| {
            let record = book.get_mut(at);
            let State::Probed { strikes, until } = record.state else {
                return false;
            };
            if until >= now {
                return true;
            }
            commands.push_back(Command::Resend(record.relay));
            let strikes = strikes + 1;
            record.state = if strikes >= limit {
                State::Unusable
            } else {
                again.push_back(at);
                State::Waiting { strikes }
            };
            false
        });
    }

    /// A loss on the direct path, whose window was `window` packets. If it is the only path and is
    /// silent, it leaves us `stranded`.
    fn create(&mut self, now: Time, window: f64, stranded: bool) {
        if !self.unsatisfied || !self.book.all_met_loss() {
            return;
        }
        // The cast saturates, and gives 0 for NaN.
        let wanted = ((self.config.beta * window).round() as usize).max(1);
        let room = self.config.max_open.saturating_sub(self.book.open());
        let wanted = wanted.min(room);
        if self.unused.is_empty() && wanted > 0 {
            let best = self.best(now, stranded);
            return best.into_iter().for_each(|at| self.open(now, at));
        }
        for _ in 0..wanted {
            let Some(at) = self.random.take(&mut self.unused) else {
                return;
            };
            self.open(now, at);
        }
    }

    /// The best relay of those that may be used again now, if it is good enough. One that hasn't
    /// been tried for long could be anything. Who is `stranded` doesn't wait until one has rested.
    fn best(&self, now: Time, stranded: bool) -> Option<usize> {
        let mut best: Option<(usize, f64)> = None;
        let mut worst_open: Option<f64> = None;
        for (at, record) in self.book.records().enumerate() {
            let tried = record.age(now) >= self.config.trial;
            let rate = if tried {
                record.rate(now)
            } else {
                f64::INFINITY
            };
            match record.state {
                State::Open(_) if tried => {
                    worst_open = Some(worst_open.map_or(rate, |worst| worst.min(rate)));
                }
                State::Resting { until }
                    if (stranded || until <= now) && best.is_none_or(|(_, most)| rate > most) =>
                {
                    best = Some((at, rate));
                }
                _ => {}
            }
        }
        let (at, rate) = best?;
        let wanted = match self.config.reuse {
            Reuse::Best => worst_open.is_none_or(|worst| rate > worst),
            Reuse::BestIdle => true,
        };
        wanted.then_some(at)
    }

    fn open(&mut self, now: Time, at: usize) {
        self.book.open_path(at, now);
        self.commands
            .push_back(Command::Open(self.book.get(at).relay));
    }

    fn on_proxied_timeout(&mut self, now: Time, relay: RelayKey) {
        let Some(at) = self.open_at(relay) else {
            return;
        };
        let contribution = self.book.contribution(at, now);
        let tried = self.book.get(at).age(now) >= self.config.trial;
        let poor = tried && contribution.is_some_and(|share| share < self.config.poor_share);
        self.close(now, relay, poor);
    }

    fn close(&mut self, now: Time, relay: RelayKey, for_good: bool) {
        let Some(at) = self.open_at(relay) else {
            return;
        };
        let state = if for_good {
            State::Unusable
        } else {
            let until = self.rest(at, now);
            State::Resting { until }
        };
        self.book.close_path(at, now, state);
        self.commands.push_back(Command::Close { relay, for_good });
    }

    /// Until when the relay is left alone if its path is closed for now.
    fn rest(&mut self, at: usize, now: Time) -> Time {
        let record = self.book.get_mut(at);
        let times = 1_u32 << record.closings.min(20);
        record.closings = record.closings.saturating_add(1);
        now + self
            .config
            .rest
            .saturating_mul(times)
            .min(self.config.max_rest)
    }
}

#[cfg(test)]
mod tests;

//! Service times on a link whose rate and delay change by a timetable.

use super::fine::{Fine, service_time, time_per_byte};
use super::nanos;
use crate::{Change, LinkConfig, Timetable};

/// A timetable at work: what a link is like at any time, and how long packets take on it.
#[derive(Debug, Clone)]
pub(crate) struct Schedule {
    track: Track,
    /// Where the latest offer is.
    now: Cursor,
    /// Where the last packet in the queue is served.
    service: Cursor,
    /// When the link goes down next, as seen from `now`.
    next_down: u64,
}

/// What a link is like for a while.
#[derive(Debug, Copy, Clone, PartialEq)]
pub(crate) struct State {
    /// [`time_per_byte`] of its rate.
    pub(crate) per_byte: u64,
    /// Nanoseconds.
    pub(crate) delay: u64,
    pub(crate) up: bool,
}

/// What becomes of a packet that gets served.
#[derive(Debug, Copy, Clone, PartialEq)]
pub(crate) struct Service {
    /// When it leaves the queue: served, or because the link goes down.
    pub(crate) ends: Fine,
    /// Time spent on it.
    pub(crate) busy: Fine,
    /// Whether it is served to the end.
    pub(crate) complete: bool,
}

impl Service {
    #[inline]
    pub(crate) fn new(start: Fine, ends: Fine, complete: bool) -> Self {
        Self {
            ends,
            busy: Fine::from_bits(ends.bits().saturating_sub(start.bits())),
            complete,
        }
    }
}

/// Bits of a fraction of a byte. A packet of 2^32 bytes still takes 2^124 units of 2^-28 bytes ×
/// 2^-31 ns at 1 bps.
const WORK_BITS: u32 = 28;
/// A time that does not come.
const NEVER: u64 = u64::MAX;

impl Schedule {
    /// `None` if nothing ever changes. The configuration is valid.
    pub(crate) fn new(config: &LinkConfig) -> Option<Self> {
        if config.timetable.is_empty() {
            return None;
        }
        let track = Track::new(config);
        let start = track.locate(0);
        Some(Self {
            next_down: track.next_down(start.changes),
            now: start,
            service: start,
            track,
        })
    }

    /// The time is `now`: when the link went down since the latest time, if it did.
    pub(crate) fn advance(&mut self, now: u64) -> Option<u64> {
        if !self.track.seek(&mut self.now, now) {
            return None;
        }
        let down = self.next_down;
        self.next_down = self.track.next_down(self.now.changes);
        (down <= now).then_some(down)
    }

    /// What the link is like now.
    pub(crate) fn state(&self) -> State {
        self.now.state
    }

    /// Whether the link goes down before `at`, which loses what is queued or on the wire until
    /// then.
    pub(crate) fn goes_down_before(&self, at: u64) -> bool {
        self.next_down < at
    }

    /// The propagation delay of packets that depart at `at`, the end of the service computed last.
    pub(crate) fn delay_at(&mut self, at: u64) -> u64 {
        self.track.seek(&mut self.service, at);
        self.service.state.delay
    }

    /// Serves so many bytes from `start` on, across changes of the rate, until the link goes down.
    pub(crate) fn serve(&mut self, start: Fine, bytes: u32) -> Service {
        if self.is_down_at(start.floor()) {
            return Service::new(start, start, false);
        }
        self.track.seek(&mut self.service, start.floor());
        let ends = start.plus(service_time(self.service.state.per_byte, bytes));
        match ends <= Fine::from_nanos(self.service.until) || self.service.until == NEVER {
            true => Service::new(start, ends, true),
            false => self.serve_across(start, bytes),
        }
    }

    /// From a state of the link into the next ones.
    #[cold]
    fn serve_across(&mut self, start: Fine, bytes: u32) -> Service {
        let (mut at, mut work) = (start, u128::from(bytes) << WORK_BITS);
        loop {
            let per_byte = u128::from(self.service.state.per_byte);
            let need = (work * per_byte).div_ceil(1 << WORK_BITS);
            let until = Fine::from_nanos(self.service.until);
            let finish = at.plus(Fine::from_bits(need));
            if finish <= until || self.service.until == NEVER {
                return Service::new(start, finish, true);
            }
            // `need` is more than what is left of this state, so that something is left of the
            // work.
            work -= ((until.bits() - at.bits()) << WORK_BITS) / per_byte;
            at = until;
            if self.is_down_at(self.service.until) {
                return Service::new(start, at, false);
            }
            let rounds = self.track.rounds(&self.service, work);
            work -= rounds.work;
            at = Fine::from_nanos(at.floor().saturating_add(rounds.time));
            self.track.seek(&mut self.service, at.floor());
        }
    }

    /// Whether a packet whose turn comes at `at` finds the link gone down.
    fn is_down_at(&self, at: u64) -> bool {
        self.next_down <= at && self.next_down < NEVER
    }
}

/// The changes of a timetable, and the state after each.
#[derive(Debug, Clone)]
struct Track {
    /// Before the first change.
    initial: State,
    /// After each change in the first round …
    first: Box<[Step]>,
    /// … and in all others: what a change doesn't mention comes from the round before.
    later: Box<[Step]>,
    /// Indices of the changes that take the link down.
    downs: Box<[usize]>,
    /// Nanoseconds; 0 without.
    period: u64,
    /// Work done in a whole round but the first, in 2^-28 bytes.
    work_per_round: u128,
}

#[derive(Debug, Copy, Clone)]
struct Step {
    /// Nanoseconds from the start of the round.
    at: u64,
    state: State,
}

/// A place on a [`Track`].
#[derive(Debug, Copy, Clone)]
struct Cursor {
    /// How many changes there have been.
    changes: u64,
    state: State,
    /// From the last change …
    since: u64,
    /// … to the next.
    until: u64,
}

/// Whole rounds of a timetable.
struct Rounds {
    time: u64,
    work: u128,
}

impl Track {
    fn new(config: &LinkConfig) -> Self {
        let Timetable { changes, period } = &config.timetable;
        let initial = State {
            per_byte: time_per_byte(config.rate),
            delay: nanos(config.delay),
            up: true,
        };
        let mut state = initial;
        let mut round = || -> Box<[Step]> {
            let step = |change: &Change| {
                state = state.after(change);
                Step {
                    at: change.at.as_nanos(),
                    state,
                }
            };
            changes.iter().map(step).collect()
        };
        let (first, later) = (round(), round());
        let goes_down =
            |(index, change): (usize, &Change)| (change.up == Some(false)).then_some(index);
        let mut track = Self {
            initial,
            first,
            later,
            downs: changes.iter().enumerate().filter_map(goes_down).collect(),
            period: period.map_or(0, nanos),
            work_per_round: 0,
        };
        track.work_per_round = track.work_of_a_round();
        track
    }

    /// 0 without rounds.
    fn work_of_a_round(&self) -> u128 {
        let ends = self.later.iter().skip(1).map(|step| step.at);
        let last = self
            .later
            .first()
            .map(|step| step.at.saturating_add(self.period));
        let work = |(step, end): (&Step, u64)| {
            let time = Fine::from_nanos(end - step.at).bits();
            (time << WORK_BITS) / u128::from(step.state.per_byte)
        };
        match self.period {
            0 => 0,
            _ => self.later.iter().zip(ends.chain(last)).map(work).sum(),
        }
    }

    /// Puts a cursor where it belongs at `at`; whether that is elsewhere.
    #[inline]
    fn seek(&self, cursor: &mut Cursor, at: u64) -> bool {
        let there = cursor.since <= at && (at < cursor.until || cursor.until == NEVER);
        if !there {
            *cursor = self.locate(at);
        }
        !there
    }

    fn locate(&self, at: u64) -> Cursor {
        let round = at.checked_div(self.period).unwrap_or(0);
        let within = at - round * self.period;
        let done = self.first.partition_point(|step| step.at <= within) as u64;
        let changes = round * self.first.len() as u64 + done;
        Cursor {
            changes,
            state: match changes.checked_sub(1) {
                None => self.initial,
                Some(last) => self.step(last).state,
            },
            since: changes.checked_sub(1).map_or(0, |last| self.time_of(last)),
            until: self.time_of(changes),
        }
    }

    /// The change number `number`, if there is one.
    fn step(&self, number: u64) -> Step {
        let len = self.first.len() as u64;
        let steps = if number < len {
            &self.first
        } else {
            &self.later
        };
        steps[(number % len) as usize]
    }

    /// When change number `number` happens, in ns; [`NEVER`] if it does not.
    fn time_of(&self, number: u64) -> u64 {
        let round = number / self.first.len() as u64;
        if round > 0 && self.period == 0 {
            return NEVER;
        }
        let start = round.saturating_mul(self.period);
        start.saturating_add(self.step(number).at)
    }

    /// When the link goes down for the first time after so many changes, in ns; [`NEVER`] if it
    /// does not.
    fn next_down(&self, changes: u64) -> u64 {
        let Some(&first) = self.downs.first() else {
            return NEVER;
        };
        let len = self.first.len() as u64;
        let (round, within) = (changes / len, (changes % len) as usize);
        let next = self.downs.partition_point(|&down| down < within);
        self.time_of(match self.downs.get(next) {
            Some(&down) => round * len + down as u64,
            None => (round + 1) * len + first as u64,
        })
    }

    /// As many whole rounds after a cursor's end as are shorter than `work`, so that a packet that
    /// takes many is served in a few steps.
    fn rounds(&self, cursor: &Cursor, work: u128) -> Rounds {
        let steady = cursor.changes >= self.first.len() as u64;
        // Two rounds at least, for less is not worth it; a link that goes down in a round never
        // serves for a whole one.
        if !steady || !self.downs.is_empty() || work <= 2 * self.work_per_round || self.period == 0
        {
            return Rounds { time: 0, work: 0 };
        }
        let rounds = (work - 1) / self.work_per_round;
        let time = rounds.saturating_mul(u128::from(self.period));
        Rounds {
            time: u64::try_from(time).unwrap_or(NEVER),
            work: rounds * self.work_per_round,
        }
    }
}

impl State {
    fn after(self, change: &Change) -> State {
        State {
            per_byte: change.rate.map_or(self.per_byte, time_per_byte),
            delay: change.delay.map_or(self.delay, nanos),
            up: change.up.unwrap_or(self.up),
        }
    }
}

//! What is known about each relay.

use std::collections::HashMap;
use std::time::Duration;

use manyway_units::Time;

use super::key::RelayKey;

/// All relays ever heard of, in the order in which they came.
#[derive(Clone, Debug, Default)]
pub(super) struct Book {
    records: Vec<Record>,
    /// Never iterated over: its order is not reproducible.
    index: HashMap<RelayKey, usize>,
    open: usize,
    /// Open paths that have not met loss.
    fresh: usize,
    /// Bytes delivered over all relays together, and the seconds that their paths have been open in
    /// sum up to `at`.
    delivered: u64,
    path_seconds: f64,
    at: Time,
}

/// What is known about a relay.
#[derive(Clone, Debug)]
pub(super) struct Record {
    pub(super) relay: RelayKey,
    pub(super) state: State,
    /// Bytes delivered by its paths, and how long they were open, the present one left out of the
    /// latter.
    delivered: u64,
    open_for: Duration,
    /// Times its path was closed for now.
    pub(super) closings: u32,
}

#[derive(Copy, Clone, Debug, PartialEq)]
pub(super) enum State {
    /// Waits for a probe, after so many without an answer in time.
    Waiting { strikes: u32 },
    /// Its probe is to be answered in time.
    Probed { strikes: u32, until: Time },
    /// Answers, and has never been used.
    Unused,
    /// Has a path.
    Open(Life),
    /// Its path was closed; not to be used before this time.
    Resting { until: Time },
    /// Never again.
    Unusable,
}

/// An open path, and the state of the book when it was opened.
#[derive(Copy, Clone, Debug, PartialEq)]
pub(super) struct Life {
    since: Time,
    met_loss: bool,
    own: u64,
    all: u64,
    path_seconds: f64,
}

impl Book {
    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    pub(super) fn open(&self) -> usize {
        self.open
    }

    /// Whether every open path has met loss.
    pub(super) fn all_met_loss(&self) -> bool {
        self.fresh == 0
    }

    pub(super) fn records(&self) -> impl Iterator<Item = &Record> {
        self.records.iter()
    }

    pub(super) fn position(&self, relay: RelayKey) -> Option<usize> {
        self.index.get(&relay).copied()
    }

    pub(super) fn get(&self, at: usize) -> &Record {
        &self.records[at]
    }

    pub(super) fn get_mut(&mut self, at: usize) -> &mut Record {
        &mut self.records[at]
    }

    /// A new relay's position; `None` if it is known already.
    pub(super) fn insert(&mut self, relay: RelayKey) -> Option<usize> {
        let at = self.records.len();
        if self.index.contains_key(&relay) {
            return None;
        }
        self.index.insert(relay, at);
        self.records.push(Record {
            relay,
            state: State::Waiting { strikes: 0 },
            delivered: 0,
            open_for: Duration::ZERO,
            closings: 0,
        });
        Some(at)
    }

    pub(super) fn open_path(&mut self, at: usize, now: Time) {
        self.advance(now);
        self.open += 1;
        self.fresh += 1;
        let (all, path_seconds) = (self.delivered, self.path_seconds);
        let record = &mut self.records[at];
        record.state = State::Open(Life {
            since: now,
            met_loss: false,
            own: record.delivered,
            all,
            path_seconds,
        });
    }

    /// Closes the path at `at`, if it is open, and leaves its relay in `state`.
    pub(super) fn close_path(&mut self, at: usize, now: Time, state: State) {
        self.advance(now);
        let record = &mut self.records[at];
        if let State::Open(life) = record.state {
            self.open -= 1;
            self.fresh -= usize::from(!life.met_loss);
            record.open_for += now.since(life.since);
            record.state = state;
        }
    }

    pub(super) fn meet_loss(&mut self, at: usize) {
        if let State::Open(life) = &mut self.records[at].state
            && !life.met_loss
        {
            life.met_loss = true;
            self.fresh -= 1;
        }
    }

    pub(super) fn deliver(&mut self, at: usize, bytes: u64) {
        let record = &mut self.records[at];
        record.delivered = record.delivered.saturating_add(bytes);
        self.delivered = self.delivered.saturating_add(bytes);
    }

    /// What the open path at `at` has delivered, as a share of what the other proxied paths did on
    /// the average in its lifetime; `None` if there were no others, or if they delivered nothing.
    pub(super) fn contribution(&mut self, at: usize, now: Time) -> Option<f64> {
        self.advance(now);
        let record = &self.records[at];
        let State::Open(life) = record.state else {
            return None;
        };
        let seconds = now.since(life.since).as_secs_f64();
        let own = record.delivered.saturating_sub(life.own) as f64;
        let others = self.delivered.saturating_sub(life.all) as f64 - own;
        let other_seconds = self.path_seconds - life.path_seconds - seconds;
        // Below a nanosecond it is rounding.
        if seconds < 1e-9 || other_seconds < 1e-9 || others <= 0.0 {
            return None;
        }
        Some(own / seconds / (others / other_seconds))
    }

    /// Brings the paths' time in sum up to date.
    fn advance(&mut self, now: Time) {
        self.path_seconds += now.since(self.at).as_secs_f64() * self.open as f64;
        self.at = self.at.max(now);
    }
}

impl Record {
    /// How long its paths have been open altogether.
    pub(super) fn age(&self, now: Time) -> Duration {
        let present = match self.state {
            State::Open(life) => now.since(life.since),
            _ => Duration::ZERO,
        };
        self.open_for + present
    }

    /// Bytes per second over its paths' lives; 0 for a relay that was never used.
    pub(super) fn rate(&self, now: Time) -> f64 {
        let seconds = self.age(now).as_secs_f64();
        if seconds > 0.0 {
            self.delivered as f64 / seconds
        } else {
            0.0
        }
    }
}

//! CoDel (RFC 8289): drops at the exit what has waited for too long.

use std::time::Duration;

use super::Limit;
use super::held::{Fifo, Held};
use crate::InvalidLink;

/// Controlled Delay: when packets have waited for longer than `target` for a whole `interval`, it
/// drops one, and then others in ever shorter intervals, `interval`/√n, until one has waited for
/// less.
#[derive(Debug, Copy, Clone, PartialEq)]
pub struct CoDel {
    /// How much the queue holds at most, the packet in service included.
    pub limit: Limit,
    /// `TARGET`: how long packets may wait for good.
    pub target: Duration,
    /// `INTERVAL`: the longest round-trip time that flows usually have.
    pub interval: Duration,
    /// Marks ECN-capable packets instead of dropping them.
    pub ecn: bool,
}

impl CoDel {
    /// CoDel with this limit and the RFC's parameters: 5 ms, 100 ms, no marks.
    pub fn new(limit: Limit) -> Self {
        Self {
            limit,
            target: Duration::from_millis(5),
            interval: Duration::from_millis(100),
            ecn: false,
        }
    }

    /// As part of the queue `name`.
    pub(super) fn validate(&self, name: &str) -> Result<(), InvalidLink> {
        let wrong = |field: &str, time: Duration, allowed| {
            let (field, shown) = (format!("queue.{name}.{field}"), format!("{time:?}"));
            Err(InvalidLink::new(field, shown, allowed))
        };
        if self.target < Duration::from_micros(1) {
            return wrong("target", self.target, "choose at least 1 us");
        }
        if self.interval < self.target {
            let allowed = "choose at least as long a time as `target`";
            return wrong("interval", self.interval, allowed);
        }
        Ok(())
    }
}

/// CoDel at work on one queue. Names are those of RFC 8289, section 5.
#[derive(Debug, Clone)]
pub(crate) struct Control {
    /// In ns.
    target: u64,
    /// In ns.
    interval: u64,
    ecn: bool,
    /// `MAXPACKET`: the largest packet so far, in bytes; a queue with no more never drops.
    largest: u64,
    /// `first_above_time_`, in ns.
    first_above: Option<u64>,
    /// `drop_next_`, in ns.
    drop_next: u64,
    /// `count_`: drops since the dropping state began.
    count: u64,
    /// `lastcount_`: the same when it began.
    last_count: u64,
    dropping: bool,
}

impl Control {
    /// The configuration is valid.
    pub(crate) fn new(codel: &CoDel) -> Self {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Self {
            target: nanos(codel.target),
            interval: nanos(codel.interval),
            ecn: codel.ecn,
            largest: 0,
            first_above: None,
            drop_next: 0,
            count: 0,
            last_count: 0,
            dropping: false,
        }
    }

    /// The next packet to be sent at `now`, and whether it is marked. Those dropped before it are
    /// added to `dropped`.
    pub(crate) fn take(
        &mut self,
        fifo: &mut Fifo,
        now: u64,
        dropped: &mut Vec<Held>,
    ) -> Option<(Held, bool)> {
        let (mut held, mut late) = self.look(fifo, now)?;
        if !self.dropping {
            if !late {
                return Some((held, false));
            }
            return self.begin(held, fifo, now, dropped);
        }
        self.dropping = late;
        while self.dropping && now >= self.drop_next {
            self.count += 1;
            if self.ecn && held.ecn {
                self.drop_next = self.after(self.drop_next);
                return Some((held, true));
            }
            dropped.push(held);
            (held, late) = self.look(fifo, now)?;
            self.dropping = late;
            if late {
                self.drop_next = self.after(self.drop_next);
            }
        }
        Some((held, false))
    }

    /// Enters the dropping state with this packet.
    fn begin(
        &mut self,
        held: Held,
        fifo: &mut Fifo,
        now: u64,
        dropped: &mut Vec<Held>,
    ) -> Option<(Held, bool)> {
        let marked = self.ecn && held.ecn;
        let next = match marked {
            true => Some(held),
            false => {
                dropped.push(held);
                self.look(fifo, now).map(|(held, _)| held)
            }
        };
        self.dropping = next.is_some();
        let fresh = self.count.saturating_sub(self.last_count);
        let lately = now < self.drop_next.saturating_add(16 * self.interval);
        self.count = if fresh > 1 && lately { fresh } else { 1 };
        self.last_count = self.count;
        self.drop_next = self.after(now);
        next.map(|held| (held, marked))
    }

    /// `dodequeue`: the next packet, and whether it may be dropped.
    fn look(&mut self, fifo: &mut Fifo, now: u64) -> Option<(Held, bool)> {
        let Some(held) = fifo.pop() else {
            self.first_above = None;
            self.dropping = false;
            return None;
        };
        self.largest = self.largest.max(u64::from(held.bytes));
        if now - held.at < self.target || fifo.bytes() <= self.largest {
            self.first_above = None;
            return Some((held, false));
        }
        match self.first_above {
            Some(at) => Some((held, now >= at)),
            None => {
                self.first_above = Some(now.saturating_add(self.interval));
                Some((held, false))
            }
        }
    }

    /// `control_law`: when the next packet is dropped if one was due at `at`.
    fn after(&self, at: u64) -> u64 {
        at.saturating_add((self.interval as f64 / (self.count as f64).sqrt()) as u64)
    }
}

/// One queue of all flows.
#[derive(Debug, Clone)]
pub(crate) struct CoDelQueue {
    fifo: Fifo,
    control: Control,
}

impl CoDelQueue {
    pub(crate) fn new(codel: &CoDel) -> Self {
        Self {
            fifo: Fifo::default(),
            control: Control::new(codel),
        }
    }

    pub(crate) fn push(&mut self, held: Held) {
        self.fifo.push(held);
    }

    pub(crate) fn take(&mut self, now: u64, dropped: &mut Vec<Held>) -> Option<(Held, bool)> {
        self.control.take(&mut self.fifo, now, dropped)
    }

    pub(crate) fn pop(&mut self) -> Option<Held> {
        self.fifo.pop()
    }
}

#[cfg(test)]
mod tests;

//! What is to be expected of a path: what the scheduler asks of it.

use std::time::Duration;

use manyway_control::Controller;
use manyway_control::scheduler::Pipe;
use manyway_units::Time;

use super::super::copies::Cursor;
use super::super::packet::Payload;
use super::path::{Path, TRUSTED};

impl Path {
    /// What became of packets.
    pub(super) fn note_fates(&mut self, acked: usize, lost: usize) {
        if lost > 0 {
            self.unbroken = 0;
        }
        let acked = u32::try_from(acked).unwrap_or(u32::MAX);
        self.unbroken = self.unbroken.saturating_add(acked).min(TRUSTED);
    }

    /// How much later than by its round-trip time a packet has to be expected: by a probe timeout
    /// on a path that loses packets.
    pub(super) fn recovery(&self) -> Duration {
        match self.unbroken < TRUSTED {
            true => self.sender.pto(),
            false => Duration::ZERO,
        }
    }

    /// What a scheduler wants to know of it.
    pub(super) fn pipe(&self, controller: &dyn Controller) -> Pipe {
        let rtt = (self.delivery_key() as f64 * 1e-9).max(1e-6);
        let windowed = self.sender.windowed();
        Pipe {
            rtt,
            deviation: self.sender.rtt().variance().as_secs_f64(),
            window: self.rate(controller) * rtt,
            recovery: self.recovery().as_secs_f64(),
            in_flight: self.sender.bytes_in_flight() as f64,
            packet: self.mtu.size() as f64,
            slow_start: windowed.is_some_and(|s| controller.in_slow_start(s.slot())),
        }
    }

    /// How much of the data it has carried, where every path carries all of it.
    pub(crate) fn copied(&self) -> Cursor {
        self.copied
    }

    /// It has carried more. Its place is brought up to date with the datagram that it left in.
    pub(crate) fn set_copied(&mut self, copied: Cursor) {
        self.copied = copied;
    }

    /// Copies what a packet in flight carries that another path would deliver sooner, which takes
    /// it `delivery`: the oldest, and each packet at most once in its life.
    pub(super) fn take_overtaken(&mut self, now: Time, delivery: Duration) -> Option<Payload> {
        let mut expected = Duration::from_nanos(self.delivery_key());
        // While a queue grows, the mean of round trips lags behind. That one of them was somewhat
        // longer says little.
        let latest = self.sender.rtt().latest();
        if latest > 2 * delivery {
            expected = expected.max(latest);
        }
        expected += self.recovery();
        let later = expected.checked_sub(delivery).filter(|l| !l.is_zero())?;
        let mut from = self.overtaken.max(self.reinjected);
        // What should have arrived by then was sent at that time or before.
        let by = |span: Duration| {
            let since = now.as_nanos().checked_sub(span.as_nanos() as u64);
            since.map_or(0, |at| self.sender.first_sent_after(Time::from_nanos(at)))
        };
        // A carrier declares nothing lost: what is overdue shows that it is slower than expected.
        let is_overdue = self.facts().reliable && from < by(expected + delivery);
        if !is_overdue {
            from = from.max(by(later));
        }
        let mut taken = None;
        self.sender.outstanding(from, 1, |number, payload| {
            taken = Some((number + 1, payload.clone()));
        });
        let (next, payload) = taken?;
        self.overtaken = next;
        Some(payload)
    }
}

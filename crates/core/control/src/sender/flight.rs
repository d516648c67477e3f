//! Sent packets whose fate is open. It decides no fate.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use manyway_units::Time;

use super::types::Sent;

/// Packets without acknowledgement that are remembered when nothing else is in flight: a path that
/// only ever sends acknowledgements must not remember them all.
const MAX_IDLE: usize = 64;

/// Sent packets, in a ring indexed by packet number. Its front is the oldest packet whose fate is
/// open, so loss detection only ever looks there.
#[derive(Clone, Debug)]
pub(super) struct Flight<P> {
    /// Packet number of the ring's front.
    base: u64,
    ring: VecDeque<Entry<P>>,
    /// Ack-eliciting packets in the ring and their bytes.
    packets: u64,
    bytes: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Entry<P> {
    pub(super) at: Time,
    /// `None` once acknowledged.
    pub(super) sent: Option<Sent<P>>,
}

impl<P> Flight<P> {
    pub(super) fn new() -> Self {
        Self::starting_at(0)
    }

    /// The first packet will have this number.
    pub(super) fn starting_at(number: u64) -> Self {
        Flight {
            base: number,
            ring: VecDeque::new(),
            packets: 0,
            bytes: 0,
        }
    }

    #[inline]
    pub(super) fn next(&self) -> u64 {
        self.base + self.ring.len() as u64
    }

    /// The number of the oldest packet in the ring: the fate of all before it is known.
    #[inline]
    pub(super) fn oldest(&self) -> u64 {
        self.base
    }

    /// Packets that take memory, whether or not they ask for an acknowledgement.
    #[inline]
    pub(super) fn entries(&self) -> usize {
        self.ring.len()
    }

    #[inline]
    pub(super) fn packets(&self) -> u64 {
        self.packets
    }

    #[inline]
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    #[inline]
    pub(super) fn push(&mut self, at: Time, sent: Sent<P>) -> u64 {
        let number = self.next();
        if sent.ack_eliciting {
            self.packets += 1;
            self.bytes += u64::from(sent.bytes);
        } else if self.packets == 0 && self.ring.len() >= MAX_IDLE {
            self.ring.pop_front();
            self.base += 1;
        }
        self.ring.push_back(Entry {
            at,
            sent: Some(sent),
        });
        number
    }

    /// Takes every packet in `range` that is still open, in ascending order.
    #[inline]
    pub(super) fn acknowledge(
        &mut self,
        range: RangeInclusive<u64>,
        mut taken: impl FnMut(u64, Time, Sent<P>),
    ) {
        let (start, end) = (*range.start().max(&self.base), *range.end());
        if end < start {
            return;
        }
        let first = (start - self.base) as usize;
        let count = (end - start) as usize + 1;
        for (number, entry) in (start..).zip(self.ring.iter_mut().skip(first).take(count)) {
            if let Some(sent) = entry.sent.take() {
                if sent.ack_eliciting {
                    self.packets -= 1;
                    self.bytes -= u64::from(sent.bytes);
                }
                taken(number, entry.at, sent);
            }
        }
    }

    /// The oldest packet in the ring.
    #[inline]
    pub(super) fn front(&self) -> Option<(u64, &Entry<P>)> {
        Some((self.base, self.ring.front()?))
    }

    /// Takes packet `number`, with the time when it was sent, if it is the oldest in the ring, open
    /// and ack-eliciting.
    #[inline]
    pub(super) fn take_oldest(&mut self, number: u64) -> Option<(Time, Sent<P>)> {
        let entry = self.ring.front_mut().filter(|_| number == self.base)?;
        let sent = entry.sent.take_if(|sent| sent.ack_eliciting)?;
        let at = entry.at;
        self.ring.pop_front();
        self.base += 1;
        self.packets -= 1;
        self.bytes -= u64::from(sent.bytes);
        Some((at, sent))
    }

    /// Removes the oldest packet, whatever its state.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<Entry<P>> {
        let entry = self.ring.pop_front()?;
        self.base += 1;
        if let Some(sent) = entry.sent.as_ref().filter(|sent| sent.ack_eliciting) {
            self.packets -= 1;
            self.bytes -= u64::from(sent.bytes);
        }
        Some(entry)
    }

    #[cfg(test)]
    pub(super) fn sent_at(&self, number: u64) -> Option<Time> {
        let index = usize::try_from(number.checked_sub(self.base)?).ok()?;
        Some(self.ring.get(index)?.at)
    }

    /// The first packet that was sent after `at`, by the order of sending.
    pub(super) fn first_after(&self, at: Time) -> u64 {
        self.base + self.ring.partition_point(|entry| entry.at <= at) as u64
    }

    /// Packets in flight from `number` on.
    pub(super) fn iter_from(&self, number: u64) -> impl Iterator<Item = (u64, &Sent<P>)> {
        let skip = number.saturating_sub(self.base).min(self.ring.len() as u64);
        (self.base + skip..)
            .zip(self.ring.range(skip as usize..))
            .filter_map(|(number, entry)| Some((number, entry.sent.as_ref()?)))
            .filter(|(_, sent)| sent.ack_eliciting)
    }

    /// What the packets in flight carry, from `number` on.
    pub(super) fn payloads_from(&mut self, number: u64) -> impl Iterator<Item = (u64, &mut P)> {
        let skip = number.saturating_sub(self.base).min(self.ring.len() as u64);
        (self.base + skip..)
            .zip(self.ring.range_mut(skip as usize..))
            .filter_map(|(number, entry)| Some((number, entry.sent.as_mut()?)))
            .filter(|(_, sent)| sent.ack_eliciting)
            .map(|(number, sent)| (number, &mut sent.payload))
    }

    /// Empties the ring and yields the payloads that were in flight.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = P> + use<P> {
        self.drain_numbered().map(|(_, payload)| payload)
    }

    /// [`Flight::drain`] with the packets' numbers.
    pub(super) fn drain_numbered(&mut self) -> impl Iterator<Item = (u64, P)> + use<P> {
        let first = self.base;
        self.base = self.next();
        self.packets = 0;
        self.bytes = 0;
        (first..)
            .zip(std::mem::take(&mut self.ring))
            .filter_map(|(number, entry)| Some((number, entry.sent?)))
            .filter(|(_, sent)| sent.ack_eliciting)
            .map(|(number, sent)| (number, sent.payload))
    }
}

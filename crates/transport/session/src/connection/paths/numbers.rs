//! Packet numbers as they stand in headers: the path's sender counts packets, and some numbers are
//! left out.
//!
//! A receiver that acknowledges what it never got would make us send ever faster. It can't tell a
//! number that was left out from a packet that was lost, so whoever invents acknowledgements soon
//! acknowledges one of those (RFC 9000 §21.4).
//!
//! It owns the numbers left out and translates between the two ways to count. The path's sender
//! knows nothing of it: for loss detection and counters, packets are consecutive.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use manyway_control::AckError;
use rand::rngs::ChaCha20Rng;
use rand::{RngExt, SeedableRng};

use super::migration::Ranges;

/// Numbers left out that are remembered: those among the last 130,000 or so, more than can be in
/// flight on a path.
const MAX_SKIPPED: usize = 512;

/// Which numbers a path's packets have.
#[derive(Debug)]
pub(crate) struct Numbers {
    /// Without it, none is left out.
    rng: Option<ChaCha20Rng>,
    /// The newest numbers left out, ascending.
    skipped: VecDeque<u64>,
    /// How many were left out before these.
    forgotten: u64,
    /// The next number to be left out.
    next: u64,
}

/// Why an acknowledgement can't be true.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Untrue {
    #[error("{0}")]
    Ack(#[from] AckError),
    #[error("packet {0} is acknowledged, but that number was left out")]
    Skipped(u64),
}

impl Numbers {
    pub(crate) fn new(seed: Option<[u8; 32]>) -> Self {
        let mut numbers = Self {
            rng: seed.map(ChaCha20Rng::from_seed),
            skipped: VecDeque::new(),
            forgotten: 0,
            next: 0,
        };
        numbers.draw(0);
        numbers.leave_out(0);
        numbers
    }

    /// The number in the header of the path's next packet, its `packet`th.
    pub(crate) fn of_next(&self, packet: u64) -> u64 {
        packet + self.forgotten + self.skipped.len() as u64
    }

    /// The number of the `packet`th packet, which has left and isn't so old that it is forgotten.
    pub(crate) fn of(&self, packet: u64) -> u64 {
        let mut number = self.of_next(packet);
        // The newest of those left out may have come after it.
        for &skipped in self.skipped.iter().rev() {
            if skipped < number {
                break;
            }
            number -= 1;
        }
        number
    }

    /// The path's `packet`th packet leaves.
    pub(crate) fn on_sent(&mut self, packet: u64) {
        self.leave_out(self.of_next(packet) + 1);
    }

    /// Leaves out the number that comes next, if it is the one to be.
    fn leave_out(&mut self, mut number: u64) {
        while number == self.next {
            if self.skipped.len() == MAX_SKIPPED {
                self.skipped.pop_front();
                self.forgotten += 1;
            }
            self.skipped.push_back(number);
            number += 1;
            self.draw(number);
        }
    }

    /// Each number from `from` on is left out with a probability of 1/256, whatever came before:
    /// the gaps tell nothing of the next one.
    fn draw(&mut self, from: u64) {
        let Some(rng) = &mut self.rng else {
            self.next = u64::MAX;
            return;
        };
        self.next = from;
        while rng.random::<u8>() != 0 {
            self.next += 1;
        }
    }

    /// Counts the packets in the ranges of an ACK, newest first, as their sender does, which has
    /// sent `sent` so far, into `ranges`. The newest range and those that reach up to packet
    /// `settled` come out: what is older is settled, or its numbers are forgotten. An ACK repeats
    /// its ranges many times, and going through all of them would cost more than the news.
    ///
    /// # Errors
    /// One of them was never sent.
    pub(crate) fn to_packets(
        &self,
        ack: impl Iterator<Item = RangeInclusive<u64>>,
        (settled, sent): (u64, u64),
        ranges: &mut Ranges,
    ) -> Result<(), Untrue> {
        ranges.clear();
        let next = self.of_next(sent);
        // How many of those left out lie below the range.
        let mut below = self.skipped.len();
        for range in ack {
            let (start, end) = (*range.start(), *range.end());
            if end >= next {
                // One that comes next and is left out isn't sent, either.
                return Err(AckError::NeverSent { packet: end, next }.into());
            }
            let above = |below: usize| below > 0 && self.skipped[below - 1] > end;
            // Mostly, the one number left out that parts this range from the last.
            below -= usize::from(above(below));
            // Found by halving: ACKs of a few bytes each would have us count through all of them.
            if above(below) {
                below = self.skipped.partition_point(|skipped| *skipped <= end);
            }
            if let Some(&skipped) = below
                .checked_sub(1)
                .and_then(|newest| self.skipped.get(newest))
                && skipped >= start
            {
                return Err(Untrue::Skipped(skipped));
            }
            if below == 0 && self.forgotten > 0 {
                break;
            }
            let shift = self.forgotten + below as u64;
            let range = start - shift..=end - shift;
            match ranges.last_mut() {
                Some(_) if *range.end() < settled => break,
                // What a number left out has parted is one range.
                Some(last) if *last.start() == range.end() + 1 => {
                    *last = *range.start()..=*last.end();
                }
                _ => ranges.push(range),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn seed(n: u64) -> Option<[u8; 32]> {
        let mut seed = [7; 32];
        seed[..8].copy_from_slice(&n.to_be_bytes());
        Some(seed)
    }

    /// The numbers of the first `count` packets.
    fn send(numbers: &mut Numbers, count: u64) -> Vec<u64> {
        let send = |packet| {
            let number = numbers.of_next(packet);
            numbers.on_sent(packet);
            number
        };
        (0..count).map(send).collect()
    }

    /// What an ACK of these ranges says while nothing is settled.
    fn to_packets(numbers: &Numbers, ack: Ranges, sent: u64) -> Result<Ranges, Untrue> {
        let mut packets = Ranges::new();
        numbers.to_packets(ack.into_iter(), (0, sent), &mut packets)?;
        Ok(packets)
    }

    #[test]
    fn one_number_in_256_is_left_out_and_the_gaps_vary() {
        let mut gaps = BTreeMap::new();
        let mut total = 0;
        for n in 0..200 {
            let sent = send(&mut Numbers::new(seed(n)), 20_000);
            total += sent.last().expect("some") + 1 - 20_000;
            let pairs = sent.windows(2);
            let skips: Vec<u64> = pairs.filter(|p| p[1] > p[0] + 1).map(|p| p[0]).collect();
            for pair in skips.windows(2) {
                *gaps.entry((pair[1] - pair[0]) / 128).or_insert(0u32) += 1;
            }
        }
        // 4,000,000 / 255, with a standard deviation of 125.
        assert!((15_200..16_200).contains(&total), "{total}");
        // Without memory: of what is left, each further 128 numbers end four in ten gaps.
        let of = |n| f64::from(gaps[&n]);
        for n in 0..6 {
            let share = of(n + 1) / of(n);
            assert!((0.5..0.72).contains(&share), "{n}: {share}, {gaps:?}");
        }
    }

    /// Who acknowledges a thousand packets that it didn't get is caught by the ACK that says so,
    /// which is within a round trip, in at least 95 of 100 cases (98 are expected).
    #[test]
    fn invented_acknowledgements_are_caught() {
        let caught = (0..1000).filter(|&n| {
            let mut numbers = Numbers::new(seed(n));
            let sent = send(&mut numbers, 5000);
            // It got the first 2000, and claims to have got all of the next thousand numbers.
            let from = sent[1999];
            to_packets(&numbers, vec![from..=from + 1000], 5000).is_err()
        });
        let caught = caught.count();
        assert!((950..1000).contains(&caught), "{caught}");
    }

    #[test]
    fn what_was_never_sent_is_not_acknowledged() {
        let mut numbers = Numbers::new(seed(1));
        let sent = send(&mut numbers, 1000);
        let last = *sent.last().expect("some");
        assert_eq!(
            to_packets(&numbers, vec![last..=last], 1000),
            Ok(vec![999..=999])
        );
        let next = numbers.of_next(1000);
        assert_eq!(
            to_packets(&numbers, vec![next..=next], 1000),
            Err(AckError::NeverSent { packet: next, next }.into())
        );
    }

    #[test]
    fn a_number_left_out_at_the_end_is_not_acknowledged() {
        // As soon as it is left out, before any packet after it.
        let mut numbers = Numbers::new(seed(1));
        let mut packet = 0;
        let left_out = loop {
            let number = numbers.of_next(packet);
            numbers.on_sent(packet);
            packet += 1;
            if numbers.of_next(packet) > number + 1 {
                break number + 1;
            }
        };
        let untrue = to_packets(&numbers, vec![left_out..=left_out], packet);
        assert_eq!(untrue, Err(Untrue::Skipped(left_out)));
    }

    #[test]
    fn memory_is_bounded_and_old_ranges_say_nothing() {
        let mut numbers = Numbers::new(seed(2));
        let sent = send(&mut numbers, 1_000_000);
        assert_eq!(numbers.skipped.len(), MAX_SKIPPED);
        let newest = sent[999_990];
        let ranges = vec![newest..=newest, sent[10]..=sent[10]];
        assert_eq!(
            to_packets(&numbers, ranges, 1_000_000),
            Ok(vec![999_990..=999_990])
        );
        // This far back, all is known.
        let oldest = sent[1_000_000 - 100_000];
        assert_eq!(numbers.of(1_000_000 - 100_000), oldest);
        let known = to_packets(&numbers, vec![oldest..=oldest], 1_000_000);
        assert_eq!(known, Ok(vec![900_000..=900_000]));
    }

    proptest! {
        /// Whatever arrives: an honest ACK comes out as what its sender counted.
        #[test]
        fn honest_acks_mean_the_packets_that_arrived(
            n in 0u64..1000,
            arrived in prop::collection::vec(any::<bool>(), 1..2000),
            settled in 0u64..2000,
        ) {
            let mut numbers = Numbers::new(seed(n));
            let sent = send(&mut numbers, arrived.len() as u64);
            let of: Vec<u64> = (0..sent.len()).map(|at| numbers.of(at as u64)).collect();
            prop_assert_eq!(&of, &sent);
            let ranges_of = |numbers: &mut dyn Iterator<Item = u64>| {
                let mut ranges: Ranges = Vec::new();
                for number in numbers {
                    match ranges.last_mut() {
                        Some(last) if last.end() + 1 == number => *last = *last.start()..=number,
                        _ => ranges.push(number..=number),
                    }
                }
                ranges.reverse();
                ranges
            };
            let got = || arrived.iter().enumerate().filter(|(_, a)| **a).map(|(at, _)| at as u64);
            let ranges = ranges_of(&mut got().map(|at| sent[at as usize]));
            let packets = to_packets(&numbers, ranges.clone(), arrived.len() as u64);
            prop_assert_eq!(packets, Ok(ranges_of(&mut got())));
            // Of what is settled, nothing is told in a range of its own but the newest.
            let mut open = Ranges::new();
            let count = (settled, arrived.len() as u64);
            prop_assert_eq!(numbers.to_packets(ranges.into_iter(), count, &mut open), Ok(()));
            prop_assert!(open.iter().skip(1).all(|range| *range.end() >= settled));
            let told: Vec<u64> = open.iter().cloned().flatten().collect();
            prop_assert!(told.iter().all(|&at| arrived[at as usize]));
            let missing = got().filter(|&at| at >= settled && !told.contains(&at));
            prop_assert_eq!(missing.count(), 0);
            prop_assert_eq!(told.is_empty(), got().next().is_none());
        }
    }
}

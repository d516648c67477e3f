//! Links whose rate was recorded.

use std::time::Duration;

use manyway_units::{Rate, Time};

use crate::{Change, Timetable};

/// Bytes that go at an opportunity: a packet of 1500 with its frame's 4, as Mahimahi counts.
const OPPORTUNITY: u64 = 1504;
/// What a link has while a trace has nothing.
const IDLE_BPS: f64 = 1.0;

/// A rate over time, from the beginning again when it is over.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    mean: Rate,
    timetable: Timetable,
}

/// What is wrong with a trace, and in which line.
#[derive(Debug, Copy, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line} {message}")]
pub struct InvalidTrace {
    /// Counted from 1; the last one where something is missing.
    pub line: usize,
    /// What is wrong with it.
    pub message: &'static str,
}

impl Trace {
    /// A trace in Mahimahi's format (R. Netravali et al., 2015; `mm-link`): each line is a time in
    /// milliseconds at which 1504 bytes may go, and the last one is also when it begins again.
    ///
    /// Mahimahi hands such an opportunity to whole packets at one instant. Here its bytes go
    /// evenly within the millisecond that begins at that time; what nobody uses is lost in both.
    ///
    /// # Errors
    /// If a line is no whole number or less than the one before, or if the last isn't above 0.
    pub fn mahimahi(text: &str) -> Result<Self, InvalidTrace> {
        // Milliseconds with opportunities, and how many.
        let mut slots: Vec<(u64, u64)> = Vec::new();
        let (mut count, mut line) = (0, 0);
        for (index, written) in text.lines().enumerate() {
            line = index + 1;
            let fault = |message| InvalidTrace { line, message };
            if written.trim().is_empty() {
                continue;
            }
            let at = written.trim().parse();
            let at = at.map_err(|_| fault("is not a whole number of milliseconds"))?;
            if at > MOST {
                return Err(fault("is later than a year"));
            }
            count += 1;
            match slots.last_mut() {
                Some((last, _)) if at < *last => {
                    return Err(fault("is less than the one before"));
                }
                Some((last, opportunities)) if at == *last => *opportunities += 1,
                _ => slots.push((at, 1)),
            }
        }
        let Some(&(period, at_the_end)) = slots.last().filter(|(period, _)| *period > 0) else {
            let message = "has to be a time after 0: then the trace begins again";
            return Err(InvalidTrace { line, message });
        };
        // The end is the next beginning.
        slots.pop();
        match slots.first_mut() {
            Some((0, opportunities)) => *opportunities += at_the_end,
            _ => slots.insert(0, (0, at_the_end)),
        }
        Ok(Self {
            mean: rate(count, period),
            timetable: Timetable {
                changes: changes(&slots, period),
                period: Some(Duration::from_millis(period)),
            },
        })
    }

    /// All bytes that can go over the time of the trace.
    pub fn mean(&self) -> Rate {
        self.mean
    }

    /// The rate over time; the first change is at 0.
    pub fn into_timetable(self) -> Timetable {
        self.timetable
    }
}

/// A year in milliseconds.
const MOST: u64 = 365 * 24 * 3_600_000;

fn rate(opportunities: u64, millis: u64) -> Rate {
    Rate::of(opportunities * OPPORTUNITY, Duration::from_millis(millis))
}

/// `slots` begin at 0 and end before `period`.
fn changes(slots: &[(u64, u64)], period: u64) -> Vec<Change> {
    let mut changes: Vec<Change> = Vec::new();
    let mut change = |at: u64, rate: Rate| {
        if changes.last().is_none_or(|last| last.rate != Some(rate)) {
            changes.push(Change {
                at: Time::from_millis(at),
                rate: Some(rate),
                ..Change::default()
            });
        }
    };
    let next = slots.iter().skip(1).map(|(at, _)| *at).chain([period]);
    for ((at, opportunities), next) in slots.iter().zip(next) {
        change(*at, rate(*opportunities, 1));
        if at + 1 < next {
            change(at + 1, Rate::from_bits_per_sec(IDLE_BPS));
        }
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Limit, Link, LinkConfig, Packet, Queue, Verdict};

    fn rates(text: &str) -> Vec<(u64, f64)> {
        let timetable = Trace::mahimahi(text).unwrap().into_timetable();
        let rates = timetable.changes.iter().map(|change| {
            let mbps = change.rate.unwrap().bits_per_sec() / 1e6;
            (change.at.as_micros() / 1000, (mbps * 1e3).round() / 1e3)
        });
        rates.collect()
    }

    #[test]
    fn opportunities_become_rates() {
        // 1504 bytes in a millisecond are 12.032 Mbps.
        assert_eq!(
            rates("1\n1\n3\n4\n10\n"),
            [(0, 12.032), (1, 24.064), (2, 0.0), (3, 12.032), (5, 0.0)]
        );
        assert_eq!(rates("1"), [(0, 12.032)]);
        assert_eq!(rates("0\n2\n2\n"), [(0, 36.096), (1, 0.0)]);
        let trace = Trace::mahimahi("1\n1\n3\n4\n10\n").unwrap();
        assert_eq!(trace.mean(), Rate::from_mbps(6.016));
        assert_eq!(
            trace.into_timetable().period,
            Some(Duration::from_millis(10))
        );
    }

    #[test]
    fn a_link_carries_what_the_trace_has() {
        let text = "2\n2\n2\n50\n51\n51\n90\n100\n";
        let trace = Trace::mahimahi(text).unwrap();
        let mut link = Link::new(LinkConfig {
            queue: Queue::DropTail(Limit::Packets(1000)),
            rate: trace.mean(),
            timetable: trace.into_timetable(),
            ..LinkConfig::new(Rate::from_mbps(1.0), Duration::ZERO)
        })
        .unwrap();
        let left: Vec<f64> = (0..18)
            .map(|_| match link.offer(Time::ZERO, Packet::new(1504)) {
                Verdict::Delivered { departs, .. } => departs.as_secs_f64() * 1e3,
                dropped => panic!("{dropped:?}"),
            })
            .collect();
        // Each packet has left when its opportunity's millisecond is over, in the second round too.
        let due = [
            0, 2, 2, 2, 50, 51, 51, 90, 100, 102, 102, 102, 150, 151, 151, 190, 200, 202,
        ];
        for (left, due) in left.iter().zip(due) {
            let due = f64::from(due);
            assert!(*left > due && *left <= due + 1.001, "{left} for {due}");
        }
    }

    #[test]
    fn what_is_no_trace_is_refused() {
        let refused = |text, line, message: &str| {
            let error = Trace::mahimahi(text).unwrap_err();
            assert_eq!(error.line, line, "{text:?}: {error}");
            assert!(error.message.contains(message), "{text:?}: {error}");
        };
        refused("1\n2.5\n", 2, "whole number");
        refused("1\n-2\n", 2, "whole number");
        refused("5\n4\n", 2, "less");
        refused("0\n0\n", 2, "after 0");
        refused("", 0, "after 0");
        refused("1\n99999999999999\n", 2, "year");
    }
}

//! Links whose rate was recorded.

use std::time::Duration;

use manyway_units::{Rate, Time};

use crate::{Change, Timetable};

/// Bytes that go at an opportunity: a packet of 1500 with its frame's 4, as Mahimahi counts.
const OPPORTUNITY: u64 = 1504;
/// What a link has while a trace has nothing.
const IDLE_BPS: f64 = 1.0;

/// A rate over time, and perhaps a delay.
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
            let line = line.max(1);
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

    /// A table with the columns `time_s`, `rate_bps` and perhaps `delay_s` (one-way), in any order,
    /// under a line with their names, which may be in quotes. A row holds until the next one; times
    /// count from the first row, and may be Unix times. The table doesn't begin again by itself:
    /// see [`Trace::repeating`].
    ///
    /// # Errors
    /// A column that is missing or unknown, or a row whose time isn't at least a microsecond after
    /// the one before or is more than a year after the first one, whose rate is above 10 Tbps, or
    /// whose delay is longer than a year.
    pub fn csv(text: &str) -> Result<Self, InvalidTrace> {
        // What some programs write in front of UTF-8.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut lines = (1..)
            .zip(text.lines())
            .filter(|(_, written)| !written.trim().is_empty());
        let nothing = InvalidTrace {
            line: 1,
            message: "has to have the columns' names: time_s,rate_bps,delay_s",
        };
        let (line, names) = lines.next().ok_or(nothing)?;
        let columns = Columns::of(names).ok_or(InvalidTrace { line, ..nothing })?;
        let mut rows: Vec<Change> = Vec::new();
        let (mut begin, mut last) = (None, line);
        for (line, written) in lines {
            last = line;
            let fault = |message| InvalidTrace { line, message };
            let row = columns.row(written).map_err(fault)?;
            let since = row.at.checked_sub(*begin.get_or_insert(row.at));
            let at = since.map(|since| Time::ZERO + since);
            let earliest = rows.last().map(|row| row.at + Timetable::SPACING);
            let at = at.filter(|at| earliest.is_none_or(|earliest| *at >= earliest));
            let at = at.ok_or(fault("has a time that isn't at least a microsecond later"))?;
            if at > Time::from_millis(MOST) {
                return Err(fault(
                    "has a time that is more than a year after the first one",
                ));
            }
            rows.push(Change {
                at,
                rate: Some(row.rate),
                delay: row.delay,
                up: None,
            });
        }
        let mean = mean(&rows).ok_or(InvalidTrace {
            line: last,
            message: "is the last one: a row with a time and a rate has to follow",
        })?;
        Ok(Self {
            mean,
            timetable: Timetable {
                changes: rows,
                period: None,
            },
        })
    }

    /// The same, from the beginning again after `period`, until which the last rate holds.
    #[must_use]
    pub fn repeating(mut self, period: Duration) -> Self {
        self.timetable.period = Some(period);
        let rows = &self.timetable.changes;
        let last = rows.last().map(|row| row.at.since(Time::ZERO));
        // A period that ends before the last row is told of where the timetable is checked.
        if let Some(rest) = last.and_then(|last| period.checked_sub(last)) {
            let bits = bits(rows) + bits_of(rows.last()) * rest.as_secs_f64();
            self.mean = Rate::from_bits_per_sec(bits / period.as_secs_f64());
        }
        self
    }

    /// The mean over the trace's period; without one, from its first row to the last, which has no
    /// weight then, as nobody knows how long it holds.
    pub fn mean(&self) -> Rate {
        self.mean
    }

    /// The rate over time; the first change is at 0.
    pub fn into_timetable(self) -> Timetable {
        self.timetable
    }
}

/// Where the columns of a table are.
struct Columns {
    count: usize,
    time: usize,
    rate: usize,
    delay: Option<usize>,
}

/// What a row says.
struct Row {
    /// From any origin.
    at: Duration,
    rate: Rate,
    delay: Option<Duration>,
}

impl Columns {
    fn of(names: &str) -> Option<Self> {
        let name = |cell| str::trim_matches(str::trim(cell), '"');
        let names: Vec<&str> = names.split(',').map(name).collect();
        let find = |name: &str| names.iter().position(|other| *other == name);
        let columns = Self {
            count: names.len(),
            time: find("time_s")?,
            rate: find("rate_bps")?,
            delay: find("delay_s"),
        };
        // Each of them once, and no other.
        let known = 2 + usize::from(columns.delay.is_some());
        (columns.count == known).then_some(columns)
    }

    fn row(&self, written: &str) -> Result<Row, &'static str> {
        let cells: Vec<&str> = written.split(',').map(str::trim).collect();
        if cells.len() != self.count {
            return Err("has another number of columns than the names");
        }
        let number = |column: usize| cells[column].parse::<f64>().ok();
        let seconds = |column| {
            let seconds = number(column).filter(|seconds| *seconds < MOST as f64 / 1e3)?;
            Duration::try_from_secs_f64(seconds).ok()
        };
        let at = instant(cells[self.time]).ok_or("has a time that isn't a number of seconds")?;
        let rate = number(self.rate).filter(|rate| (0.0..=10e12).contains(rate));
        let rate = rate.ok_or("has a rate that isn't 0 to 10e12 bits/s")?;
        let delay = match self.delay {
            Some(column) => {
                Some(seconds(column).ok_or("has a delay that isn't 0 to a year in seconds")?)
            }
            None => None,
        };
        Ok(Row {
            at,
            rate: Rate::from_bits_per_sec(rate.max(IDLE_BPS)),
            delay,
        })
    }
}

/// A time in seconds from any origin, exact to the nanosecond also if that is long ago: a double
/// has a quarter of a microsecond at Unix times.
fn instant(written: &str) -> Option<Duration> {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match written.split_once('.') {
        Some((whole, part)) if digits(whole) && digits(part) => {
            let part = format!("0.{part}").parse().ok()?;
            let part = Duration::try_from_secs_f64(part).ok()?;
            Duration::from_secs(whole.parse().ok()?).checked_add(part)
        }
        _ => Duration::try_from_secs_f64(written.parse().ok()?).ok(),
    }
}

/// The mean rate from the first row to the last; that of the only one. `None` without a row.
fn mean(rows: &[Change]) -> Option<Rate> {
    let (first, last) = (rows.first()?, rows.last()?);
    let span = last.at.since(first.at).as_secs_f64();
    if span == 0.0 {
        return first.rate;
    }
    Some(Rate::from_bits_per_sec(bits(rows) / span))
}

/// What goes from the first row to the last.
fn bits(rows: &[Change]) -> f64 {
    let bits = rows
        .windows(2)
        .map(|pair| bits_of(pair.first()) * pair[1].at.since(pair[0].at).as_secs_f64());
    bits.sum()
}

/// A row's rate, in bits/s.
fn bits_of(row: Option<&Change>) -> f64 {
    let rate = row.and_then(|row| row.rate);
    rate.map_or(0.0, |rate| rate.bits_per_sec())
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
        refused("", 1, "after 0");
        refused("1\n99999999999999\n", 2, "year");
    }

    #[test]
    fn a_table_has_times_rates_and_delays() {
        let text = "rate_bps, time_s, delay_s\n1e6, 100.5, 0.01\n\n3e6,102.5,0.02\n0,103.5,0.5\n";
        let trace = Trace::csv(text).unwrap();
        // Two seconds of 1 Mbps and one of 3.
        assert!((trace.mean().bits_per_sec() - 5e6 / 3.0).abs() < 1e-3);
        let trace = trace.repeating(Duration::from_secs(4));
        // The last row holds for another second.
        assert!((trace.mean().bits_per_sec() - 5e6 / 4.0).abs() < 1.0);
        let timetable = trace.into_timetable();
        assert_eq!(timetable.period, Some(Duration::from_secs(4)));
        let changes = timetable.changes.iter().map(|change| {
            let rate = change.rate.unwrap().bits_per_sec();
            (
                change.at.as_micros(),
                rate,
                change.delay.unwrap().as_millis(),
            )
        });
        let expected = [(0, 1e6, 10), (2_000_000, 3e6, 20), (3_000_000, 1.0, 500)];
        assert_eq!(changes.collect::<Vec<_>>(), expected);
        let later = Trace::csv("time_s,rate_bps\n0,1e6\n3,9e6").unwrap();
        assert_eq!(later.mean(), Rate::from_mbps(1.0));
        let later = later.repeating(Duration::from_secs(4));
        assert_eq!(later.mean(), Rate::from_mbps(3.0));
        let one = Trace::csv("time_s,rate_bps\n7,2e6").unwrap();
        assert_eq!(one.mean(), Rate::from_mbps(2.0));
        assert_eq!(one.into_timetable().changes[0].delay, None);
    }

    #[test]
    fn a_table_may_be_as_other_programs_write_it() {
        let text = "\u{feff}\"time_s\",\"rate_bps\"\r\n1700000000.1,1e6\r\n1700000000.3,2e6\r\n";
        let changes = Trace::csv(text).unwrap().into_timetable().changes;
        let times: Vec<u64> = changes.iter().map(|change| change.at.as_nanos()).collect();
        assert_eq!(times, [0, 200_000_000]);
    }

    #[test]
    fn a_wrong_table_is_told_by_its_line() {
        for (text, line, message) in [
            ("", 1, "names"),
            ("time_s,rate_bps", 1, "a row"),
            ("\ntime_s,bps\n0,1", 2, "names"),
            ("time_s,rate_bps,loss\n0,1,0", 1, "names"),
            ("time_s,rate_bps\n0,1\n0,1", 3, "microsecond"),
            ("time_s,rate_bps\n5,1\n4,1", 3, "microsecond"),
            ("time_s,rate_bps\n0,-1", 2, "rate"),
            ("time_s,rate_bps\n0,NaN", 2, "rate"),
            ("time_s,rate_bps\n-1,1", 2, "time"),
            ("time_s,rate_bps\n1.x,1", 2, "time"),
            (
                "time_s,rate_bps\n5,1\n40000000,1",
                3,
                "more than a year after",
            ),
            ("time_s,rate_bps\n0,1,2", 2, "number of columns"),
            ("time_s,rate_bps,delay_s\n0,1,inf", 2, "delay"),
        ] {
            let error = Trace::csv(text).unwrap_err();
            assert_eq!(error.line, line, "{text:?}: {error}");
            assert!(error.message.contains(message), "{text:?}: {error}");
        }
    }
}

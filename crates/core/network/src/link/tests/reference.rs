//! Links with timetables against a second model that goes from event to event and looks nothing up
//! in advance.

use std::collections::VecDeque;

use super::*;
use crate::{Change, Timetable};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

/// What a link is like from some moment on, in ns.
#[derive(Debug, Copy, Clone)]
struct Phase {
    at: u64,
    per_byte: u128,
    delay: u64,
    up: bool,
}

/// All phases until `horizon` (in ns), spelled out.
fn phases(config: &LinkConfig, horizon: u64) -> Vec<Phase> {
    let mut phase = Phase {
        at: 0,
        per_byte: u128::from(time_per_byte(config.rate)),
        delay: nanos(config.delay),
        up: true,
    };
    let mut phases = vec![phase];
    let Timetable { changes, period } = &config.timetable;
    let rounds = period.map_or(1, |period| horizon / nanos(period) + 2);
    for round in 0..rounds {
        for change in changes {
            phase.at = round * nanos(period.unwrap_or_default()) + change.at.as_nanos();
            if let Some(rate) = change.rate {
                phase.per_byte = u128::from(time_per_byte(rate));
            }
            phase.delay = change.delay.map_or(phase.delay, nanos);
            phase.up = change.up.unwrap_or(phase.up);
            phases.push(phase);
        }
    }
    phases
}

/// A packet that waits or is being served.
#[derive(Debug, Copy, Clone)]
struct Job {
    number: usize,
    bytes: u32,
    /// Left to be served, in 2^-28 bytes.
    work: u128,
    offered: u64,
}

struct Model {
    phases: Vec<Phase>,
    phase: usize,
    limit: usize,
    /// Served up to here, in 2^-31 ns.
    clock: u128,
    queue: VecDeque<Job>,
    /// Packet, departure, arrival.
    wire: VecDeque<(usize, u64, u64)>,
    fates: Vec<Option<Verdict>>,
    sojourn: u128,
}

impl Model {
    fn new(phases: Vec<Phase>, limit: usize) -> Self {
        Self {
            phases,
            phase: 0,
            limit,
            clock: 0,
            queue: VecDeque::new(),
            wire: VecDeque::new(),
            fates: Vec::new(),
            sojourn: 0,
        }
    }

    fn offer(&mut self, now: u64, bytes: u32) {
        self.run_until(now);
        let number = self.fates.len();
        self.fates.push(None);
        if !self.phases[self.phase].up {
            self.fates[number] = Some(DOWN);
        } else if self.queue.len() >= self.limit {
            self.fates[number] = Some(FULL);
        } else {
            if self.queue.is_empty() {
                self.clock = self.clock.max(u128::from(now) << 31);
            }
            self.queue.push_back(Job {
                number,
                bytes,
                work: u128::from(bytes) << 28,
                offered: now,
            });
        }
    }

    fn run_until(&mut self, now: u64) {
        while let Some(&next) = self.phases.get(self.phase + 1)
            && next.at <= now
        {
            self.serve_until(next.at);
            self.arrive_until(next.at);
            // The rest of the packet in service is served at the new rate.
            let end = u128::from(next.at) << 31;
            if let Some(head) = self.queue.front_mut()
                && self.clock < end
            {
                head.work -= ((end - self.clock) << 28) / self.phases[self.phase].per_byte;
                self.clock = end;
            }
            self.phase += 1;
            if !next.up {
                self.lose_everything(next.at);
            }
        }
        self.serve_until(now);
        self.arrive_until(now);
    }

    fn serve_until(&mut self, now: u64) {
        while let Some(&head) = self.queue.front() {
            let need = (head.work * self.phases[self.phase].per_byte).div_ceil(1 << 28);
            if self.clock + need > u128::from(now) << 31 {
                return;
            }
            self.clock += need;
            let departs = self.clock.div_ceil(1 << 31) as u64;
            let then = self.phases.iter().rfind(|phase| phase.at <= departs);
            let arrives = departs + then.unwrap().delay;
            let ahead = self.wire.back().map_or(0, |&(_, _, arrives)| arrives);
            let arrives = arrives.max(ahead);
            self.wire.push_back((head.number, departs, arrives));
            self.sojourn += u128::from(departs - head.offered);
            self.queue.pop_front();
        }
    }

    fn arrive_until(&mut self, now: u64) {
        while let Some(&(number, departs, arrives)) = self.wire.front()
            && arrives <= now
        {
            self.fates[number] = Some(Verdict::Delivered {
                departs: Time::from_nanos(departs),
                arrives: Time::from_nanos(arrives),
                marked: false,
            });
            self.wire.pop_front();
        }
    }

    fn lose_everything(&mut self, now: u64) {
        for job in self.queue.drain(..) {
            self.fates[job.number] = Some(DOWN);
            self.sojourn += u128::from(now - job.offered);
        }
        for (number, _, _) in self.wire.drain(..) {
            self.fates[number] = Some(DOWN);
        }
    }
}

/// Gaps in ns and bytes; everything is over by `spare` ns after the last offer.
fn compare(
    config: LinkConfig,
    offers: &[(u64, u32)],
    spare: u64,
) -> Result<Vec<Option<Verdict>>, TestCaseError> {
    let Limit::Packets(limit) = config.queue.limit() else {
        panic!("not in this model");
    };
    let horizon = offers.iter().map(|(gap, _)| gap).sum::<u64>() + spare;
    let mut model = Model::new(phases(&config, horizon), limit as usize);
    let mut link = link(config);
    let mut now = 0;
    let mut verdicts = Vec::new();
    for &(gap, bytes) in offers {
        now += gap;
        model.offer(now, bytes);
        let time = Time::from_nanos(now);
        verdicts.push(Some(link.offer(time, Packet::new(bytes))));
        let waiting: u64 = model.queue.iter().map(|job| u64::from(job.bytes)).sum();
        prop_assert_eq!(link.backlog_packets(time), model.queue.len());
        prop_assert_eq!(link.backlog_bytes(time), waiting);
    }
    model.run_until(horizon);
    prop_assert_eq!(&verdicts, &model.fates);
    prop_assert_eq!(link.stats().sojourn, duration(model.sojourn));
    Ok(verdicts)
}

fn changes() -> impl Strategy<Value = Change> {
    let delays = (0u64..2_000_000).prop_map(Duration::from_nanos);
    (
        // A distance from the one before.
        1000u64..2_000_000,
        prop::option::of((1u64..200).prop_map(|mbps| Rate::from_mbps(mbps as f64))),
        prop::option::of(delays),
        prop::option::weighted(0.3, any::<bool>()),
    )
        .prop_map(|(gap, rate, delay, up)| Change {
            at: Time::from_nanos(gap),
            rate,
            // A change says something.
            delay: match (rate, delay, up) {
                (None, None, None) => Some(MS),
                (_, delay, _) => delay,
            },
            up,
        })
}

prop_compose! {
    /// Changes 1 µs to 2 ms apart; repeating or not.
    pub(super) fn timetables()(
        mut changes in prop::collection::vec(changes(), 0..6),
        from_zero: bool,
        period in prop::option::of(1000u64..2_000_000),
    ) -> Timetable {
        let mut at = Time::ZERO;
        for (index, change) in changes.iter_mut().enumerate() {
            if index > 0 || !from_zero {
                at += change.at.since(Time::ZERO);
            }
            change.at = at;
        }
        let period = period.map(|rest| at.since(Time::ZERO) + Duration::from_nanos(rest));
        Timetable { changes, period }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn equals_the_model_that_goes_from_event_to_event(
        timetable in timetables(),
        mbps in 1u64..200,
        delay_us in 0u64..2000,
        limit in 1u32..12,
        offers in prop::collection::vec((0u64..500_000, 1u32..3000), 1..120),
    ) {
        let config = LinkConfig {
            timetable,
            queue: packets(limit),
            ..LinkConfig::new(Rate::from_mbps(mbps as f64), Duration::from_micros(delay_us))
        };
        // Twelve packets of 3000 B take 288 ms at 1 Mbps.
        compare(config, &offers, 300_000_000)?;
    }

    #[test]
    fn packets_that_take_many_rounds(
        rates in prop::collection::vec(100_000u64..1_000_000, 1..4),
        spacing in 1000u64..3000,
        offers in prop::collection::vec((0u64..1_000_000, 1u32..30), 1..6),
    ) {
        // A byte takes up to 80 µs, a round a few µs.
        let change = |(index, &bits): (usize, &u64)| Change {
            at: Time::from_nanos(index as u64 * spacing),
            rate: Some(Rate::from_bits_per_sec(bits as f64)),
            ..Change::default()
        };
        let timetable = Timetable {
            period: Some(Duration::from_nanos(rates.len() as u64 * spacing)),
            changes: rates.iter().enumerate().map(change).collect(),
        };
        let config = LinkConfig { timetable, delay: MS, ..twenty_mbps(packets(5)) };
        compare(config, &offers, 20_000_000)?;
    }

    #[test]
    fn never_faster_than_the_rate_between_any_two_departures(
        timetable in timetables(),
        offers in prop::collection::vec((0u64..500_000, 1u32..3000), 1..40),
    ) {
        let config = LinkConfig { timetable, ..twenty_mbps(packets(12)) };
        let phases = phases(&config, 400_000_000);
        // Bytes that the rates amount to from 0 to `at`, in ns.
        let capacity = |at: u64| -> f64 {
            let ends = phases.iter().skip(1).map(|next| next.at.min(at)).chain([at]);
            let bytes = |(phase, end): (&Phase, u64)| {
                end.saturating_sub(phase.at) as f64 * 2.0_f64.powi(31) / phase.per_byte as f64
            };
            phases.iter().zip(ends).map(bytes).sum()
        };
        let mut link = link(config);
        let mut now = 0;
        let mut departures = Vec::new();
        for (gap, bytes) in offers {
            now += gap;
            let verdict = link.offer(Time::from_nanos(now), Packet::new(bytes));
            if let Verdict::Delivered { departs, .. } = verdict {
                departures.push((capacity(departs.as_nanos()), f64::from(bytes)));
            }
        }
        for (first, &(from, _)) in departures.iter().enumerate() {
            let mut sum = 0.0;
            for &(until, bytes) in &departures[first + 1..] {
                sum += bytes;
                // Departures are rounded up to a nanosecond, at up to 200 Mbps.
                prop_assert!(sum <= until - from + 0.026, "{} > {} - {}", sum, until, from);
            }
        }
    }
}

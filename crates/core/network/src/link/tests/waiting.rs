//! Links whose queue decides about packets when they leave it.

use std::collections::HashMap;

use super::reference::timetables;
use super::*;
use crate::{CoDel, Drr, FqCoDel, Priority, Ticket};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Offers packets, each a gap in ns after the one before, and asks for decisions when they are due:
/// what becomes of each. `look` sees the link after each offer.
pub(super) fn drive(
    link: &mut Link,
    offers: &[(u64, Packet)],
    mut look: impl FnMut(&Link, Time),
) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    let mut waiting: HashMap<Ticket, usize> = HashMap::new();
    let mut now = Time::ZERO;
    let decide = |link: &mut Link,
                  until: Time,
                  verdicts: &mut Vec<Verdict>,
                  waiting: &mut HashMap<Ticket, usize>| {
        while let Some(at) = link.next_decision().filter(|at| *at <= until) {
            let Some((ticket, verdict)) = link.decide(at) else {
                panic!("no decision at {at:?}");
            };
            verdicts[waiting.remove(&ticket).unwrap()] = verdict;
        }
    };
    for (gap, packet) in offers {
        now += Duration::from_nanos(*gap);
        decide(link, now, &mut verdicts, &mut waiting);
        let verdict = link.offer(now, *packet);
        if let Verdict::Queued(ticket) = verdict {
            let before = waiting.insert(ticket, verdicts.len());
            assert_eq!(before, None, "{ticket:?} is taken");
        }
        verdicts.push(verdict);
        look(link, now);
    }
    decide(link, Time::MAX, &mut verdicts, &mut waiting);
    assert!(waiting.is_empty(), "{waiting:?} wait for ever");
    verdicts
}

fn offers() -> impl Strategy<Value = Vec<(u64, Packet)>> {
    prop::collection::vec(
        (0u64..2_000_000, (40u32..1501).prop_map(Packet::new)),
        1..300,
    )
}

proptest! {
    /// CoDel that never finds a delay too long, and priorities of one class, are DropTail: with the
    /// same draws from the same generators where nobody takes the link down, and with the same
    /// times when somebody does.
    #[test]
    fn what_never_decides_otherwise_is_drop_tail(
        mbps in 0.1..200.0_f64,
        limit in prop_oneof![
            (1u32..40).prop_map(Limit::Packets),
            (1500u64..60_000).prop_map(Limit::Bytes),
        ],
        timetable in prop_oneof![Just(crate::Timetable::default()), timetables()],
        offers in offers(),
        seed: u64,
    ) {
        let random = timetable.is_empty();
        let config = LinkConfig {
            queue: Queue::DropTail(limit),
            loss: if random { Loss::Bernoulli(0.1) } else { Loss::None },
            jitter: if random { MS } else { Duration::ZERO },
            timetable,
            seed,
            ..LinkConfig::new(Rate::from_mbps(mbps), MS)
        };
        let run = |queue| {
            let mut link = link(LinkConfig { queue, ..config.clone() });
            let mut readings = Vec::new();
            let verdicts = drive(&mut link, &offers, |link, now| {
                readings.push((link.backlog_bytes(now), link.backlog_packets(now)));
            });
            (verdicts, readings, link.stats_at(Time::MAX))
        };
        let expected = run(Queue::DropTail(limit));
        let year = Duration::from_secs(365 * 86_400);
        let lazy = CoDel { target: year, interval: year, ..CoDel::new(limit) };
        let lazy = run(Queue::CoDel(lazy));
        prop_assert_eq!(&lazy.0, &expected.0);
        prop_assert_eq!(lazy.1, expected.1);
        prop_assert_eq!(lazy.2.busy, expected.2.busy);
        prop_assert_eq!(run(Queue::Priority(Priority { limit })).0, expected.0);
    }
}

/// A link that is taken down loses what waits, and begins empty.
#[test]
fn a_link_taken_down_loses_what_waits() {
    let mut link = link(twenty_mbps(Queue::Drr(Drr::new(Limit::Packets(10)))));
    let first = offer(&mut link, 0, 1500);
    assert_eq!(first, delivered(600, 10_600));
    let tickets: Vec<Verdict> = (0..3).map(|_| offer(&mut link, 0, 1500)).collect();
    let queued = |n| Verdict::Queued(Ticket(n));
    // The first packet's ticket is free again.
    assert_eq!(tickets, [queued(0), queued(1), queued(2)]);
    let at = Time::from_micros;
    link.set_up(at(1000), false);
    let mut decided = Vec::new();
    while link.next_decision().is_some() {
        decided.extend(link.decide(at(1000)));
    }
    let down = Verdict::Dropped(DropReason::Down);
    // One went into service at 600 µs: whoever carries it asks whether it survived.
    assert_eq!(
        decided,
        [
            (Ticket(0), delivered(1200, 11_200)),
            (Ticket(1), down),
            (Ticket(2), down)
        ]
    );
    assert!(!link.survived(at(0), 1500));
    assert_eq!(offer(&mut link, 2000, 1500), down);
    link.set_up(at(3000), true);
    assert_eq!(offer(&mut link, 3000, 1500), delivered(3600, 13_600));
    assert_eq!(link.stats().dropped_down, 4);
}

/// Packets of 600 µs with Poisson arrivals of these loads, by class: the mean time that each
/// class's packets wait until they are served, in packets' times.
fn waits(queue: Queue, loads: &[f64]) -> Vec<f64> {
    const PACKETS: usize = 400_000;
    let mut link = link(twenty_mbps(queue));
    let mut random = Pcg64Mcg::seed_from_u64(5);
    let load: f64 = loads.iter().sum();
    let mut offers = Vec::new();
    for _ in 0..PACKETS {
        let gap = -(1.0 - random.random::<f64>()).ln() * 600e3 / load;
        let mut draw = random.random::<f64>() * load;
        let class = loads.iter().position(|part| {
            draw -= part;
            draw < 0.0
        });
        let class = class.unwrap_or(0) as u8;
        offers.push((
            gap as u64,
            Packet {
                class,
                flow: u32::from(class),
                ..Packet::new(1500)
            },
        ));
    }
    let verdicts = drive(&mut link, &offers, |_, _| {});
    let mut sums = vec![(0.0, 0.0); loads.len()];
    let mut now = Time::ZERO;
    for ((gap, packet), verdict) in offers.iter().zip(verdicts) {
        now += Duration::from_nanos(*gap);
        let Verdict::Delivered { departs, .. } = verdict else {
            panic!("{verdict:?}");
        };
        let (sum, count) = &mut sums[usize::from(packet.class)];
        *sum += departs.since(now).as_secs_f64() / 600e-6 - 1.0;
        *count += 1.0;
    }
    sums.iter().map(|(sum, count)| sum / count).collect()
}

/// A. Cobham, "Priority assignment in waiting line problems", 1954: with R = ρ/2, the mean rest of
/// a service of constant length that an arrival finds, class k waits for R / ((1 − σ_above)
/// (1 − σ_above − ρ_k)), σ_above being the load of all higher classes.
#[test]
fn priorities_wait_as_cobham_says() {
    let limit = Limit::Packets(100_000);
    let loads = [0.3, 0.2, 0.3];
    let found = waits(Queue::Priority(Priority { limit }), &loads);
    let rest = 0.8 / 2.0;
    let mut above = 0.0;
    for (class, load) in loads.iter().enumerate().rev() {
        let exact = rest / ((1.0 - above) * (1.0 - above - load));
        let error = found[class] / exact - 1.0;
        // Waiting times at a load of 0.8 are correlated over some hundred packets.
        assert!(
            error.abs() < 0.03,
            "class {class}: {} {exact}",
            found[class]
        );
        above += load;
    }
    // The mean over all packets is that of any queue that doesn't look at lengths (Kleinrock's
    // conservation law), as of M/D/1: ρ/(2(1 − ρ)).
    let mean = |found: &[f64]| {
        let sum: f64 = found.iter().zip(&loads).map(|(w, load)| w * load).sum();
        sum / 0.8
    };
    for queue in [
        Queue::Priority(Priority { limit }),
        Queue::Drr(Drr::new(limit)),
        Queue::DropTail(limit),
    ] {
        let mean = mean(&waits(queue, &loads));
        assert!((mean / 2.0 - 1.0).abs() < 0.02, "{queue:?}: {mean}");
    }
}

/// Flows that send at constant rates, as shares of the link: what each gets through in the long
/// run.
fn shares(queue: Queue, loads: &[f64]) -> Vec<f64> {
    const SECONDS: f64 = 60.0;
    let mut link = link(twenty_mbps(queue));
    let mut arrivals = Vec::new();
    let mut random = Pcg64Mcg::seed_from_u64(9);
    for (flow, load) in loads.iter().enumerate() {
        let gap = 600e-6 / load;
        let phase: f64 = random.random();
        let count = (SECONDS / gap) as u64;
        arrivals.extend((0..count).map(|n| ((gap * (n as f64 + phase) * 1e9) as u64, flow)));
    }
    arrivals.sort_unstable();
    let mut before = 0;
    let offers: Vec<(u64, Packet)> = arrivals
        .iter()
        .map(|&(at, flow)| {
            let flow = flow as u32;
            let packet = Packet {
                flow,
                ..Packet::new(1500)
            };
            (at - std::mem::replace(&mut before, at), packet)
        })
        .collect();
    let verdicts = drive(&mut link, &offers, |_, _| {});
    let mut sent = vec![0.0; loads.len()];
    for ((_, packet), verdict) in offers.iter().zip(verdicts) {
        if let Verdict::Delivered { departs, .. } = verdict
            && departs <= Time::from_secs_f64(SECONDS)
        {
            sent[packet.flow as usize] += 600e-6 / SECONDS;
        }
    }
    sent
}

/// Fair queues share a link max-min fairly: who wants less than a fair share gets it all, and the
/// others divide the rest equally.
#[test]
fn fair_queues_are_max_min_fair() {
    let loads = [0.05, 0.15, 0.4, 0.9];
    // 0.05 and 0.15 are served; of the rest, 0.8, there are two halves.
    let exact = [0.05, 0.15, 0.4, 0.4];
    let limit = Limit::Packets(200);
    for queue in [
        Queue::Drr(Drr::new(limit)),
        Queue::FqCoDel(FqCoDel::new(limit)),
    ] {
        for (found, exact) in shares(queue, &loads).iter().zip(exact) {
            assert!((found - exact).abs() < 0.005, "{queue:?}: {found} {exact}");
        }
    }
    // DropTail gives each what it sends, as far as it goes.
    let found = shares(Queue::DropTail(limit), &loads);
    assert!((found[3] - 0.9 / 1.5).abs() < 0.05, "{found:?}");
}

/// Under a constant overload that doesn't react, CoDel's n-th drop in a row comes interval/√n after
/// the one before (RFC 8289, section 5.3), so that the rate of drops grows linearly in time.
#[test]
fn codel_drops_ever_faster_under_overload() {
    let mut link = link(twenty_mbps(Queue::CoDel(CoDel::new(Limit::Packets(
        100_000,
    )))));
    // 5 % more than the link carries: the surplus is 83 packets/s.
    let gap = (600_000.0 / 1.05) as u64;
    let offers = vec![(gap, Packet::new(1500)); 16_000];
    let mut dropped = Vec::new();
    drive(&mut link, &offers, |link, now| {
        let count = link.stats().dropped_early;
        if dropped.last().is_none_or(|&(_, last)| last < count) && count > 0 {
            dropped.push((now.as_secs_f64(), count));
        }
    });
    let first = dropped[0].0;
    // The target of 5 ms is reached after 0.1 s, as a queue of one second's surplus is 50 ms.
    assert!((0.19..0.22).contains(&first), "{first}");
    // The surplus of t seconds is 83 t, and (t/0.2)² are dropped: after 3.3 s the queue is empty.
    // Until shortly before, CoDel goes on.
    for (at, count) in dropped.into_iter().filter(|(at, _)| *at < 3.0) {
        let due: f64 = (1..count).map(|n| 0.1 / (n as f64).sqrt()).sum();
        assert!((at - first - due).abs() < 2e-3, "drop {count} at {at}");
        assert!(count < 250);
    }
}

//! A fluid beside the packets: what is counted, closed forms, and the packets that it stands for.

use super::*;
use crate::random::{Generator, Purpose, generator};
use crate::{FluidStats, Policer};
use proptest::prelude::*;
use rand::RngExt;

const BYTES: u32 = 1500;
/// Of the links here.
const MBPS: f64 = 100.0;
/// Nanoseconds that a packet takes there.
const SERVICE: f64 = 120_000.0;

fn with_fluid(queue: Queue) -> Link {
    link(config(queue)).with_fluid(BYTES).unwrap()
}

fn config(queue: Queue) -> LinkConfig {
    LinkConfig {
        queue,
        ..LinkConfig::new(Rate::from_mbps(MBPS), MS)
    }
}

fn load(share: f64) -> Rate {
    Rate::from_mbps(MBPS * share)
}

/// Times of a Poisson process, in ns.
struct Arrivals {
    random: Generator,
    at: f64,
    /// Mean distance.
    distance: f64,
}

impl Arrivals {
    /// Packets that make this share of the link's rate.
    fn of(share: f64, seed: u64) -> Self {
        Self {
            random: generator(seed, Purpose::Jitter),
            at: 0.0,
            distance: SERVICE / share,
        }
    }

    fn next(&mut self) -> Time {
        self.at -= self.distance * (1.0 - self.random.random::<f64>()).ln();
        Time::from_nanos(self.at as u64)
    }
}

/// What becomes of packets.
#[derive(Debug, Default)]
struct Fates {
    packets: f64,
    dropped: f64,
    /// Nanoseconds in the queue.
    sojourn: f64,
}

impl Fates {
    fn offer(&mut self, link: &mut Link, now: Time) {
        self.packets += 1.0;
        match link.offer(now, Packet::new(BYTES)) {
            Verdict::Delivered { departs, .. } => {
                self.sojourn += departs.since(now).as_nanos() as f64;
            }
            _ => self.dropped += 1.0,
        }
    }

    fn loss(&self) -> f64 {
        self.dropped / self.packets
    }

    fn mean_sojourn(&self) -> f64 {
        self.sojourn / (self.packets - self.dropped)
    }
}

/// Packets that make a share of the rate beside a fluid that makes another.
fn beside_fluid(limit: u32, fluid: f64, share: f64, count: u32) -> (Fates, Link) {
    let mut link = with_fluid(packets(limit));
    let (mut arrivals, mut fates) = (Arrivals::of(share, 1), Fates::default());
    link.set_fluid(Time::ZERO, load(fluid));
    for _ in 0..count {
        fates.offer(&mut link, arrivals.next());
    }
    (fates, link)
}

/// The same beside packets that come as a Poisson process, and those.
fn beside_packets(limit: u32, others: f64, share: f64, count: u32) -> (Fates, Fates, Link) {
    let mut link = link(config(packets(limit)));
    let (mut arrivals, mut fates) = (Arrivals::of(share, 1), Fates::default());
    let (mut other, mut others) = (Arrivals::of(others, 2), Fates::default());
    let mut next = other.next();
    for _ in 0..count {
        let now = arrivals.next();
        while next <= now {
            others.offer(&mut link, next);
            next = other.next();
        }
        fates.offer(&mut link, now);
    }
    (fates, others, link)
}

#[track_caller]
fn assert_near(what: &str, measured: f64, expected: f64, tolerance: f64) {
    assert!(
        (measured - expected).abs() <= tolerance,
        "{what}: measured {measured}, expected {expected} ± {tolerance}"
    );
}

/// The fluid is many packets that nobody follows: packets beside it lose as many, and wait as long,
/// as beside those, and the fluid loses as much as they would. 200,000 packets of each kind have
/// statistical errors of 1 % or less of a wait, and of 0.002 of a loss; what is left is that a
/// Brownian motion isn't a sum of packets, at most 2 % of a wait and a fifteenth of a loss.
#[test]
fn a_fluid_does_what_its_packets_would() {
    for limit in [20, 100] {
        for (fluid, share) in [
            (0.3, 0.75),
            (0.7, 0.1),
            (0.85, 0.1),
            (0.95, 0.1),
            (1.15, 0.1),
        ] {
            let row = format!("limit {limit}, fluid {fluid}, packets {share}");
            let (fates, link) = beside_fluid(limit, fluid, share, 200_000);
            let (expected, others, model) = beside_packets(limit, fluid, share, 200_000);
            let near = |what: &str, measured: f64, expected: f64, tolerance: f64| {
                assert_near(&format!("{row}: {what}"), measured, expected, tolerance);
            };
            let (wait, waited) = (fates.mean_sojourn(), expected.mean_sojourn());
            near("sojourn, ns", wait, waited, 0.03 * waited);
            let loss = expected.loss();
            near("loss of packets", fates.loss(), loss, 0.002 + loss / 15.0);
            let end = Time::from_nanos(link.latest_offer);
            let FluidStats { offered, lost } = link.fluid_at(end).unwrap();
            let loss = others.loss();
            near(
                "loss of the fluid",
                lost / offered,
                loss,
                0.002 + loss / 15.0,
            );
            let came = offered / f64::from(BYTES);
            near(
                "fluid, packets",
                came,
                others.packets,
                0.01 * others.packets,
            );
            let mean = |link: &Link| {
                let queue = link.stats().sojourn.as_nanos() as f64;
                queue / link.latest_offer as f64
            };
            near(
                "queue, packets",
                mean(&link),
                mean(&model),
                0.1 + 0.02 * mean(&model),
            );
        }
    }
}

/// Poisson arrivals of a load ρ and constant packets: a packet waits for ρ/(2(1 − ρ)) others on
/// average (Pollaczek and Khinchine), here one of few beside the fluid. The tolerance is three
/// times the statistical error, which grows with the load.
#[test]
fn packets_wait_for_the_fluid_as_in_m_d_1() {
    for (fluid, tolerance) in [(0.5, 0.02), (0.8, 0.03), (0.9, 0.06)] {
        let (fates, link) = beside_fluid(10_000, fluid, 0.01, 100_000);
        let waits = fates.mean_sojourn() / SERVICE - 1.0;
        let all = fluid + 0.01;
        let expected = all / (2.0 * (1.0 - all));
        assert_near(&format!("{fluid}"), waits, expected, tolerance * expected);
        let busy = link.stats().busy.as_nanos() as f64 / link.latest_offer as f64;
        assert_near("busy", busy, all, 0.005);
    }
}

/// A load above the rate keeps the queue full, and loses what is too much.
#[test]
fn what_is_too_much_is_lost() {
    for share in [1.05, 1.5, 4.0] {
        let mut link = with_fluid(packets(50));
        link.set_fluid(Time::ZERO, load(share));
        for ms in 1..20_000 {
            link.set_fluid(Time::from_millis(ms), load(share));
        }
        let FluidStats { offered, lost } = link.fluid_at(Time::from_millis(20000)).unwrap();
        // 170,000 packets and more: their number has an error of 0.0025, and the loss that of ρ.
        assert_near("loss", lost / offered, 1.0 - 1.0 / share, 0.006);
        let stats = link.stats_at(Time::from_millis(20000));
        assert_near("busy, s", stats.busy.as_secs_f64(), 20.0, 0.02);
        let queue = stats.sojourn.as_secs_f64() / 20.0;
        // Below the limit by ρ/(2(ρ − 1)) packets on average.
        let expected = 50.0 - share / (2.0 * (share - 1.0));
        assert_near("queue", queue, expected, 1.0);
        assert!(link.waiting_s(Time::from_millis(20000)) <= 50.0 * SERVICE * 1e-9);
    }
}

#[test]
fn the_wire_loses_its_share_of_the_fluid() {
    let lossy = LinkConfig {
        loss: Loss::Bernoulli(0.1),
        ..config(packets(50))
    };
    let mut link = link(lossy).with_fluid(BYTES).unwrap();
    link.set_fluid(Time::ZERO, load(0.5));
    let FluidStats { offered, lost } = link.fluid_at(Time::from_millis(10000)).unwrap();
    assert_near("loss", lost / offered, 0.1, 1e-9);
    let stats = link.stats_at(Time::from_millis(10000));
    assert_eq!(stats.offered, stats.delivered + stats.dropped());
    assert_eq!(stats.dropped_random, (lost / 1500.0) as u64);
}

#[test]
fn links_that_cannot_carry_a_fluid_say_so() {
    let wrong = |config: LinkConfig| link(config).with_fluid(BYTES).unwrap_err().field;
    let red = Red::new(Limit::Packets(50), 5.0, 15.0);
    assert_eq!(wrong(config(Queue::Red(red))), "queue");
    let policer = Some(Policer {
        rate: Rate::from_mbps(1.0),
        burst: 3000,
    });
    assert_eq!(
        wrong(LinkConfig {
            policer,
            ..config(packets(50))
        }),
        "policer"
    );
    let change = crate::Change {
        at: Time::from_millis(1000),
        rate: Some(Rate::from_mbps(1.0)),
        ..crate::Change::default()
    };
    let timetable = crate::Timetable {
        changes: vec![change],
        period: None,
    };
    assert_eq!(
        wrong(LinkConfig {
            timetable,
            ..config(packets(50))
        }),
        "timetable"
    );
}

fn limits() -> impl Strategy<Value = Limit> {
    prop_oneof![
        (1u32..40).prop_map(Limit::Packets),
        (1500u64..60_000).prop_map(Limit::Bytes),
    ]
}

proptest! {
    /// Whatever flows and comes: no work is lost track of, nothing overtakes, and the queue keeps
    /// to its limit.
    #[test]
    fn everything_is_accounted_for(
        limit in limits(),
        seed: u64,
        steps in prop::collection::vec(
            (0u64..3_000_000, 0.0..3.0_f64, any::<bool>(), 40u32..1501),
            1..300,
        ),
    ) {
        let config = LinkConfig { seed, ..config(Queue::DropTail(limit)) };
        let mut link = link(config).with_fluid(BYTES).unwrap();
        let most = match limit {
            Limit::Packets(packets) => u64::from(packets) * u64::from(BYTES),
            Limit::Bytes(bytes) => bytes,
        };
        let (mut now, mut last) = (Time::ZERO, Time::ZERO);
        let (mut accepted, mut before) = (0.0, FluidStats::default());
        for (gap, share, sets, bytes) in steps {
            now += Duration::from_nanos(gap);
            if sets {
                link.set_fluid(now, load(share));
            } else if let Verdict::Delivered { departs, .. } = link.offer(now, Packet::new(bytes)) {
                prop_assert!(departs >= last);
                // A byte takes 80 ns.
                prop_assert!(departs.since(now).as_nanos() as u64 <= 80 * most + 1);
                last = departs;
                accepted += f64::from(bytes);
            }
            let fluid = link.fluid_at(now).unwrap();
            prop_assert!(fluid.offered >= before.offered && fluid.lost >= before.lost);
            prop_assert!(fluid.lost <= fluid.offered);
            before = fluid;
            let stats = link.stats_at(now);
            // Taken, served and waiting, in bytes; the last byte of each may be counted either way.
            let taken = accepted + fluid.offered - fluid.lost;
            let served = stats.busy.as_nanos() as f64 / 80.0;
            let waits = link.waiting_s(now) * 1e9 / 80.0;
            prop_assert!((taken - served - waits).abs() <= 2.0, "{} {} {}", taken, served, waits);
            prop_assert!(waits <= most as f64 + 2.0, "{} bytes wait", waits);
            prop_assert!(stats.busy <= now.since(Time::ZERO));
            prop_assert_eq!(stats.offered, stats.delivered + stats.dropped());
            // To look changes nothing.
            prop_assert_eq!(stats, link.stats_at(now));
        }
    }

    /// A link with room for a fluid that never comes decides as DropTail does.
    #[test]
    fn without_inflow_it_is_drop_tail(
        limit in 1u32..40,
        gaps in prop::collection::vec(0u64..400_000, 1..300),
    ) {
        let (mut plain, mut fluid) = (link(config(packets(limit))), with_fluid(packets(limit)));
        let mut now = Time::ZERO;
        for gap in gaps {
            now += Duration::from_nanos(gap);
            let packet = Packet::new(BYTES);
            prop_assert_eq!(plain.offer(now, packet), fluid.offer(now, packet));
            let (expected, stats) = (plain.stats_at(now), fluid.stats_at(now));
            prop_assert_eq!(expected.busy, stats.busy);
            prop_assert_eq!(expected.dropped(), stats.dropped());
        }
        // Until the queue has run empty, so that halves of packets in service are whole ones.
        let end = now + Duration::from_secs(1);
        let (expected, stats) = (plain.stats_at(end).sojourn, fluid.stats_at(end).sojourn);
        let difference = expected.as_secs_f64() - stats.as_secs_f64();
        prop_assert!(difference.abs() <= 1e-3 * expected.as_secs_f64() + 1e-6);
    }
}

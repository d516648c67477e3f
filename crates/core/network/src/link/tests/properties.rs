use super::reference::timetables;
use super::*;
use crate::{Change, Policer, Timetable};
use proptest::prelude::*;

fn limits() -> impl Strategy<Value = Limit> {
    prop_oneof![
        (1u32..40).prop_map(Limit::Packets),
        (1500u64..60_000).prop_map(Limit::Bytes),
    ]
}

fn queues() -> impl Strategy<Value = Queue> {
    let reds = (
        limits(),
        0.0..20.0_f64,
        0.1..20.0_f64,
        0.01..1.0_f64,
        0.001..1.0_f64,
        any::<[bool; 3]>(),
    )
        .prop_map(|(limit, min, more, max_p, weight, [gentle, wait, ecn])| {
            Queue::Red(Red {
                max_p,
                weight,
                gentle,
                wait,
                ecn,
                ..Red::new(limit, min, min + more)
            })
        });
    prop_oneof![limits().prop_map(Queue::DropTail), reds]
}

fn policers() -> impl Strategy<Value = Policer> {
    (0.1..2000.0_f64, 1u64..60_000).prop_map(|(mbps, burst)| Policer {
        rate: Rate::from_mbps(mbps),
        burst,
    })
}

fn losses() -> impl Strategy<Value = Loss> {
    let bursts = (0.0..=1.0_f64, 0.01..=1.0_f64, 0.0..0.5_f64, 0.0..=1.0_f64).prop_map(
        |(good_to_bad, bad_to_good, good, bad)| Loss::GilbertElliott {
            good_to_bad,
            bad_to_good,
            good,
            bad,
        },
    );
    prop_oneof![
        Just(Loss::None),
        (0.0..0.5_f64).prop_map(Loss::Bernoulli),
        bursts
    ]
}

prop_compose! {
    /// Anything a link can have.
    fn configs()(
        mbps in 0.1..2000.0_f64,
        delay_us in 0u64..50_000,
        policer in prop::option::weighted(0.2, policers()),
        queue in queues(),
        loss in losses(),
        jitter_us in prop_oneof![Just(0), 0u64..5000],
        overtaking: bool,
        late in prop_oneof![Just(0.0), 0.0..1.0_f64],
        timetable in prop_oneof![Just(Timetable::default()), timetables()],
        seed: u64,
    ) -> LinkConfig {
        LinkConfig {
            policer,
            queue,
            loss,
            jitter: Duration::from_micros(jitter_us),
            overtaking,
            late: Late {
                share: late,
                by: Duration::from_millis(3),
            },
            timetable,
            seed,
            ..LinkConfig::new(Rate::from_mbps(mbps), Duration::from_micros(delay_us))
        }
    }
}

/// Gaps in ns, bytes, and whether ECN-capable.
fn offers() -> impl Strategy<Value = Vec<(u64, Packet)>> {
    let packets = (40u32..1501, any::<bool>()).prop_map(|(bytes, ecn)| Packet { bytes, ecn });
    prop::collection::vec((0u64..2_000_000, packets), 1..300)
}

fn run(config: &LinkConfig, offers: &[(u64, Packet)]) -> Vec<Verdict> {
    let mut link = link(config.clone());
    let mut now = Time::ZERO;
    let offer = |(gap, packet): &(u64, Packet)| {
        now += Duration::from_nanos(*gap);
        link.offer(now, *packet)
    };
    offers.iter().map(offer).collect()
}

proptest! {
    #[test]
    fn fifo_and_everything_accounted_for(config in configs(), offers in offers()) {
        let mut link = link(config.clone());
        let in_order = !config.overtaking && config.late.share == 0.0;
        let (mut now, mut last) = (Time::ZERO, (Time::ZERO, Time::ZERO));
        let mut seen = LinkStats::default();
        for (gap, packet) in offers {
            now += Duration::from_nanos(gap);
            seen.offered += 1;
            match link.offer(now, packet) {
                Verdict::Delivered { departs, arrives, marked } => {
                    prop_assert!(departs > now && departs >= last.0);
                    prop_assert!(arrives >= departs);
                    prop_assert!(!in_order || arrives >= last.1);
                    prop_assert!(!marked || packet.ecn);
                    last = (departs, arrives);
                    seen.delivered += 1;
                    seen.bytes_delivered += u64::from(packet.bytes);
                }
                Verdict::Dropped(DropReason::Policed) => seen.dropped_policed += 1,
                Verdict::Dropped(DropReason::QueueFull) => seen.dropped_queue += 1,
                Verdict::Dropped(DropReason::RedEarly) => seen.dropped_early += 1,
                Verdict::Dropped(DropReason::RedForced) => seen.dropped_forced += 1,
                Verdict::Dropped(DropReason::RandomLoss) => seen.dropped_random += 1,
                Verdict::Dropped(DropReason::Down) => seen.dropped_down += 1,
            }
            match config.queue.limit() {
                Limit::Bytes(limit) => prop_assert!(link.backlog_bytes(now) <= limit),
                Limit::Packets(limit) => prop_assert!(link.backlog_packets(now) <= limit as usize),
            }
            let stats = link.stats_at(now);
            prop_assert!(stats.busy <= now.since(Time::ZERO), "busier than the time that passed");
            prop_assert!(stats.sojourn >= stats.busy, "a packet in service is in the queue");
        }
        let stats = link.stats();
        let LinkStats { busy, sojourn, marked, .. } = stats;
        prop_assert_eq!(LinkStats { busy, sojourn, marked, ..seen }, stats);
        prop_assert_eq!(stats.offered, stats.delivered + stats.dropped());
    }

    #[test]
    fn never_faster_than_the_rate(mbps in 0.1..2000.0_f64, queue in queues(), offers in offers()) {
        let config = LinkConfig { queue, ..LinkConfig::new(Rate::from_mbps(mbps), MS) };
        let mut link = link(config);
        let mut now = Time::ZERO;
        let mut departures = Vec::new();
        for (gap, packet) in offers {
            now += Duration::from_nanos(gap);
            if let Verdict::Delivered { departs, arrives, .. } = link.offer(now, packet) {
                prop_assert_eq!(arrives, departs + MS);
                let least = Rate::from_mbps(mbps).time_for(u64::from(packet.bytes));
                prop_assert!(departs.since(now) + Duration::from_nanos(1) >= least);
                departures.push((departs, u64::from(packet.bytes)));
            }
        }
        for (first, &(from, _)) in departures.iter().enumerate() {
            let mut bytes = 0;
            for &(until, more) in &departures[first + 1..] {
                bytes += more;
                // Each departure is rounded up to a nanosecond.
                let least = Rate::from_mbps(mbps).time_for(bytes);
                prop_assert!(until.since(from) + Duration::from_nanos(2) >= least);
            }
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_verdicts(config in configs(), offers in offers()) {
        prop_assert_eq!(run(&config, &offers), run(&config, &offers));
    }

    #[test]
    fn a_plain_link_is_one_with_an_idle_timetable(
        mbps in 0.1..2000.0_f64, limit in limits(), offers in offers(),
    ) {
        // The fast way and the general one.
        let plain = LinkConfig {
            queue: Queue::DropTail(limit),
            ..LinkConfig::new(Rate::from_mbps(mbps), MS)
        };
        let change = Change { at: Time::ZERO, up: Some(true), ..Change::default() };
        let timetable = Timetable { changes: vec![change], period: None };
        let general = LinkConfig { timetable, ..plain.clone() };
        prop_assert_eq!(run(&plain, &offers), run(&general, &offers));
    }

    #[test]
    fn nothing_valid_panics(
        bits_exponent in 0.0..1023.0_f64,
        delays in [any::<u64>(), any::<u64>(), any::<u64>()],
        queue in queues(),
        at in prop::collection::vec(any::<u64>(), 0..4),
        period: Option<u64>,
        offers in prop::collection::vec((any::<u64>(), any::<u32>()), 1..30),
        by_hand: Option<u64>,
    ) {
        let mut at = at;
        at.sort_unstable();
        let rate = Rate::from_bits_per_sec(bits_exponent.exp2());
        let change = |at: &u64| Change {
            at: Time::from_nanos(*at),
            rate: at.is_multiple_of(3).then_some(rate * 0.5),
            delay: at.is_multiple_of(5).then_some(Duration::MAX),
            up: at.is_multiple_of(2).then_some(at.is_multiple_of(4)),
        };
        let timetable = Timetable {
            changes: at.iter().map(change).collect(),
            period: period.map(Duration::from_nanos),
        };
        let config = LinkConfig {
            queue,
            timetable,
            jitter: Duration::from_nanos(delays[0]),
            loss: Loss::Bernoulli(0.1),
            ..LinkConfig::new(rate, Duration::from_nanos(delays[1]))
        };
        prop_assume!(config.validate().is_ok());
        let mut link = link(config);
        for (now, bytes) in offers {
            let now = Time::from_nanos(now);
            link.offer(now, Packet { bytes, ecn: true });
            link.stats_at(now);
            if let Some(bit) = by_hand {
                link.set_up(now, now.as_nanos() >> (bit % 64) & 1 == 0);
            }
        }
        link.stats();
    }
}

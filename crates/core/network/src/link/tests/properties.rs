use super::reference::timetables;
use super::waiting::drive;
use super::*;
use crate::{Change, CoDel, Drr, DualPi2, FqCoDel, Pie, Policer, Priority, Timetable};
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
    let pies = (limits(), 1u64..30_000, any::<bool>()).prop_map(|(limit, us, ecn)| {
        Queue::Pie(Pie {
            target: Duration::from_micros(us),
            ecn,
            ..Pie::new(limit)
        })
    });
    let codels = || {
        let codels = (limits(), 1u64..5000, 1u64..20, any::<bool>());
        codels.prop_map(|(limit, us, times, ecn)| CoDel {
            target: Duration::from_micros(us),
            interval: Duration::from_micros(us * times),
            ecn,
            ..CoDel::new(limit)
        })
    };
    let duals = (limits(), 1u64..30_000, 1u64..30_000, 0.1..20.0_f64);
    let duals = duals.prop_map(|(limit, target, update, coupling)| DualPi2 {
        target: Duration::from_micros(target),
        update: Duration::from_micros(update),
        coupling,
        ..DualPi2::new(limit)
    });
    let quanta = 64u32..3000;
    let fqs = (codels(), 1u32..6, quanta.clone());
    let fqs = fqs.prop_map(|(codel, queues, quantum)| FqCoDel {
        codel,
        queues,
        quantum,
    });
    prop_oneof![
        2 => limits().prop_map(Queue::DropTail),
        2 => reds,
        1 => pies,
        1 => codels().prop_map(Queue::CoDel),
        1 => (limits(), quanta).prop_map(|(limit, quantum)| Queue::Drr(Drr { limit, quantum })),
        1 => fqs.prop_map(Queue::FqCoDel),
        1 => limits().prop_map(|limit| Queue::Priority(Priority { limit })),
        1 => duals.prop_map(Queue::DualPi2),
    ]
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
    let packets = (40u32..1501, any::<[bool; 2]>(), 0u32..5, 0u8..9);
    let packets = packets.prop_map(|(bytes, [ecn, l4s], flow, class)| Packet {
        bytes,
        ecn,
        l4s,
        flow,
        class,
    });
    prop::collection::vec((0u64..2_000_000, packets), 1..300)
}

fn run(config: &LinkConfig, offers: &[(u64, Packet)]) -> Vec<Verdict> {
    drive(&mut link(config.clone()), offers, |_, _| {})
}

/// A plain link, and one that does the same by the general way.
fn plain_and_general(mbps: f64, limit: Limit) -> (LinkConfig, LinkConfig) {
    let plain = LinkConfig {
        queue: Queue::DropTail(limit),
        ..LinkConfig::new(Rate::from_mbps(mbps), MS)
    };
    let change = Change {
        at: Time::ZERO,
        up: Some(true),
        ..Change::default()
    };
    let timetable = Timetable {
        changes: vec![change],
        period: None,
    };
    let general = LinkConfig {
        timetable,
        ..plain.clone()
    };
    (plain, general)
}

proptest! {
    #[test]
    fn fifo_and_everything_accounted_for(config in configs(), offers in offers()) {
        let mut link = link(config.clone());
        let in_order = !config.overtaking && config.late.share == 0.0;
        let fifo = matches!(
            config.queue,
            Queue::DropTail(_) | Queue::Red(_) | Queue::Pie(_) | Queue::CoDel(_)
        );
        let (mut amounts, mut carried) = (Vec::new(), Vec::new());
        let mut left = Vec::new();
        let verdicts = drive(&mut link, &offers, |link, now| {
            amounts.push((now, link.backlog_bytes(now), link.backlog_packets(now)));
            carried.push((now, link.carried_bytes(now)));
            let stats = link.stats_at(now);
            assert!(stats.busy <= now.since(Time::ZERO), "busier than the time that passed");
            assert!(stats.sojourn >= stats.busy, "a packet in service is in the queue");
        });
        let (mut now, mut last) = (Time::ZERO, (Time::ZERO, Time::ZERO));
        let mut seen = LinkStats::default();
        for ((gap, packet), verdict) in offers.into_iter().zip(verdicts) {
            now += Duration::from_nanos(gap);
            seen.offered += 1;
            match verdict {
                Verdict::Delivered { departs, arrives, marked } => {
                    prop_assert!(departs > now && (!fifo || departs >= last.0));
                    prop_assert!(arrives >= departs);
                    prop_assert!(!in_order || !fifo || arrives >= last.1);
                    prop_assert!(!marked || packet.ecn || packet.l4s);
                    last = (departs, arrives);
                    left.push((departs, u64::from(packet.bytes)));
                    seen.delivered += 1;
                    seen.bytes_delivered += u64::from(packet.bytes);
                }
                Verdict::Dropped(DropReason::Policed) => seen.dropped_policed += 1,
                Verdict::Dropped(DropReason::QueueFull) => seen.dropped_queue += 1,
                Verdict::Dropped(DropReason::Early) => seen.dropped_early += 1,
                Verdict::Dropped(DropReason::Forced) => seen.dropped_forced += 1,
                Verdict::Dropped(DropReason::RandomLoss) => seen.dropped_random += 1,
                Verdict::Dropped(DropReason::Down) => seen.dropped_down += 1,
                Verdict::Queued(_) => prop_assert!(false, "nobody decided"),
            }
        }
        for (_, bytes, packets) in amounts {
            match config.queue.limit() {
                Limit::Bytes(limit) => prop_assert!(bytes <= limit),
                Limit::Packets(limit) => prop_assert!(packets <= limit as usize),
            }
        }
        for (now, bytes) in carried {
            let by_then = left.iter().filter(|(departs, _)| *departs <= now);
            prop_assert_eq!(bytes, by_then.map(|(_, bytes)| bytes).sum::<u64>());
        }
        let stats = link.stats();
        let LinkStats { busy, sojourn, marked, .. } = stats;
        prop_assert_eq!(LinkStats { busy, sojourn, marked, ..seen }, stats);
        prop_assert_eq!(stats.offered, stats.delivered + stats.dropped());
    }

    #[test]
    fn never_faster_than_the_rate(mbps in 0.1..2000.0_f64, queue in queues(), offers in offers()) {
        let config = LinkConfig { queue, ..LinkConfig::new(Rate::from_mbps(mbps), MS) };
        let verdicts = run(&config, &offers);
        let mut now = Time::ZERO;
        let mut departures = Vec::new();
        for ((gap, packet), verdict) in offers.into_iter().zip(verdicts) {
            now += Duration::from_nanos(gap);
            if let Verdict::Delivered { departs, arrives, .. } = verdict {
                prop_assert_eq!(arrives, departs + MS);
                let least = Rate::from_mbps(mbps).time_for(u64::from(packet.bytes));
                prop_assert!(departs.since(now) + Duration::from_nanos(1) >= least);
                departures.push((departs, u64::from(packet.bytes)));
            }
        }
        departures.sort_unstable();
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
        let (plain, general) = plain_and_general(mbps, limit);
        prop_assert_eq!(run(&plain, &offers), run(&general, &offers));
    }

    #[test]
    fn packets_of_one_size_are_known_without_a_list(
        mbps in 0.1..2000.0_f64, limit in limits(), offers in offers(),
        bytes in 1u32..3000, alike in 0usize..60, down in prop::option::of(0usize..60),
    ) {
        // The way for packets of one size, up to one of another, and the general one.
        let (plain, general) = plain_and_general(mbps, limit);
        let (mut plain, mut general) = (link(plain), link(general));
        let mut now = Time::ZERO;
        for (number, (gap, packet)) in offers.into_iter().enumerate() {
            now += Duration::from_nanos(gap);
            let bytes = if number < alike { bytes } else { packet.bytes };
            let packet = Packet { bytes, ..packet };
            if let Some(down) = down {
                for link in [&mut plain, &mut general] {
                    link.set_up(now, !(down..down + 3).contains(&number));
                }
            }
            prop_assert_eq!(plain.offer(now, packet), general.offer(now, packet));
            for later in [now, now + Duration::from_micros(50)] {
                let backlog =
                    |link: &Link| (link.backlog_packets(later), link.backlog_bytes(later));
                prop_assert_eq!(backlog(&plain), backlog(&general));
                prop_assert_eq!(plain.stats_at(later), general.stats_at(later));
            }
            prop_assert_eq!(plain.stats(), general.stats());
        }
    }

    #[test]
    fn nothing_valid_panics(
        bits_exponent in 0.0..43.0_f64,
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
            link.offer(now, Packet {
                bytes,
                ecn: true,
                l4s: bytes & 2 == 0,
                flow: bytes,
                class: bytes as u8,
            });
            link.stats_at(now);
            link.decide(now);
            if let Some(bit) = by_hand {
                link.set_up(now, now.as_nanos() >> (bit % 64) & 1 == 0);
            }
        }
        link.stats();
    }
}

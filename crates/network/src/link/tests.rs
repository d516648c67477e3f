use super::*;
use crate::{Loss, Queue};
use manyway_units::Rate;
use proptest::prelude::*;

const MS: Duration = Duration::from_millis(1);

fn link(config: LinkConfig) -> Link {
    Link::new(config).unwrap()
}

fn twenty_mbps(queue: Queue) -> LinkConfig {
    LinkConfig {
        queue,
        ..LinkConfig::new(Rate::from_mbps(20.0), 10 * MS)
    }
}

fn delivered(departs_us: u64, arrives_us: u64) -> Verdict {
    Verdict::Delivered {
        departs: Time::from_micros(departs_us),
        arrives: Time::from_micros(arrives_us),
        marked: false,
    }
}

#[test]
fn departures_and_arrivals_are_exact() {
    let mut link = link(twenty_mbps(Queue::DropTail(Limit::Packets(100))));
    // 1500 B at 20 Mbps take 600 us.
    assert_eq!(
        link.offer(Time::ZERO, Packet::new(1500)),
        delivered(600, 10_600)
    );
    assert_eq!(
        link.offer(Time::ZERO, Packet::new(1500)),
        delivered(1200, 11_200)
    );
    assert_eq!(
        link.offer(Time::from_micros(1100), Packet::new(500)),
        delivered(1400, 11_400)
    );
    assert_eq!(
        link.offer(Time::from_micros(1400), Packet::new(500)),
        delivered(1600, 11_600)
    );
    // After an idle time the link starts afresh.
    assert_eq!(
        link.offer(Time::from_micros(5000), Packet::new(1500)),
        delivered(5600, 15_600)
    );
    let stats = link.stats();
    assert_eq!(
        (stats.offered, stats.delivered, stats.bytes_delivered),
        (5, 5, 5500)
    );
    assert_eq!(stats.busy, Duration::from_micros(2200));
}

#[test]
fn fractions_of_a_nanosecond_add_up() {
    // 3 Mbps: 1 B takes 2666.66… ns, so 3000 B take 8 ms, however they are cut.
    let config = LinkConfig {
        queue: Queue::DropTail(Limit::Packets(u32::MAX)),
        ..LinkConfig::new(Rate::from_mbps(3.0), Duration::ZERO)
    };
    let mut link = link(config);
    let last = (0..3000)
        .map(|_| link.offer(Time::ZERO, Packet::new(1)))
        .last()
        .unwrap();
    let Verdict::Delivered { departs, .. } = last else {
        panic!("{last:?}");
    };
    let nanos = departs.as_nanos();
    assert!((8_000_000..=8_000_001).contains(&nanos), "{nanos}");
}

#[test]
fn drop_tail_counts_the_packet_in_service() {
    let mut by_packets = link(twenty_mbps(Queue::DropTail(Limit::Packets(2))));
    let mut by_bytes = link(twenty_mbps(Queue::DropTail(Limit::Bytes(3000))));
    for link in [&mut by_packets, &mut by_bytes] {
        let full = Verdict::Dropped(DropReason::QueueFull);
        assert_eq!(
            link.offer(Time::ZERO, Packet::new(1500)),
            delivered(600, 10_600)
        );
        assert_eq!(
            link.offer(Time::ZERO, Packet::new(1500)),
            delivered(1200, 11_200)
        );
        assert_eq!(link.offer(Time::ZERO, Packet::new(1500)), full);
        assert_eq!(
            link.offer(Time::from_nanos(599_999), Packet::new(1500)),
            full
        );
        // The first one has just left.
        assert_eq!(
            link.offer(Time::from_micros(600), Packet::new(1500)),
            delivered(1800, 11_800)
        );
        assert_eq!(link.backlog_packets(Time::from_micros(600)), 2);
        assert_eq!(link.backlog_bytes(Time::from_micros(1200)), 1500);
        assert_eq!(link.stats().dropped_queue, 2);
    }
    // A packet that fits the bytes that are left passes by its size.
    assert_eq!(
        by_bytes.offer(Time::from_micros(1200), Packet::new(1501)),
        Verdict::Dropped(DropReason::QueueFull)
    );
    assert_eq!(
        by_bytes.offer(Time::from_micros(1200), Packet::new(1500)),
        delivered(2400, 12_400)
    );
}

#[test]
fn one_bandwidth_delay_product() {
    assert_eq!(
        Queue::bandwidth_delay(Rate::from_mbps(20.0), 10 * MS),
        Queue::DropTail(Limit::Bytes(50_000))
    );
}

#[test]
fn loss_rate_is_as_configured_and_loss_takes_its_time_on_the_link() {
    let config = LinkConfig {
        loss: Loss::Bernoulli(0.1),
        seed: 7,
        ..twenty_mbps(Queue::DropTail(Limit::Packets(10)))
    };
    let mut link = link(config);
    let mut now = Time::ZERO;
    for _ in 0..100_000 {
        now += Duration::from_micros(600);
        link.offer(now, Packet::new(1500));
    }
    let stats = link.stats();
    // Standard deviation of the count: sqrt(100000 × 0.1 × 0.9) = 95; four of them.
    assert!(stats.dropped_random.abs_diff(10_000) < 380, "{stats:?}");
    assert_eq!(stats.dropped_queue, 0);
    assert_eq!(stats.busy, Duration::from_secs(60));
}

#[test]
fn a_link_that_goes_down_loses_what_is_under_way() {
    let mut link = link(twenty_mbps(Queue::DropTail(Limit::Packets(10))));
    let (first, later) = (Time::ZERO, Time::from_micros(11_000));
    link.offer(first, Packet::new(1500));
    link.offer(later, Packet::new(1500));
    assert!(link.survived(first, 1500));
    link.set_up(Time::from_micros(12_000), false);
    assert!(!link.is_up());
    assert_eq!(
        link.offer(Time::from_micros(12_500), Packet::new(1500)),
        Verdict::Dropped(DropReason::Down)
    );
    assert!(!link.survived(later, 1500));
    link.set_up(Time::from_micros(13_000), true);
    let back = Time::from_micros(13_000);
    assert_eq!(
        link.offer(back, Packet::new(1500)),
        delivered(13_600, 23_600)
    );
    assert!(link.survived(back, 1500));
    let stats = link.stats();
    assert_eq!(
        (stats.offered, stats.delivered, stats.dropped_down),
        (4, 2, 2)
    );
    assert_eq!(stats.bytes_delivered, 3000);
}

#[test]
fn refuses_what_cannot_work_by_name() {
    let good = twenty_mbps(Queue::DropTail(Limit::Packets(1)));
    let message = |config: LinkConfig| Link::new(config).unwrap_err().to_string();
    assert!(
        message(LinkConfig {
            rate: Rate::ZERO,
            ..good.clone()
        })
        .contains("`rate`")
    );
    for loss in [1.0, -0.1, f64::NAN] {
        assert!(
            message(LinkConfig {
                loss: Loss::Bernoulli(loss),
                ..good.clone()
            })
            .contains("`loss`")
        );
    }
    for limit in [Limit::Bytes(0), Limit::Packets(0)] {
        let queue = Queue::DropTail(limit);
        assert!(
            message(LinkConfig {
                queue,
                ..good.clone()
            })
            .contains("`queue.limit`")
        );
    }
}

#[test]
fn extremes_saturate() {
    let config = LinkConfig {
        queue: Queue::DropTail(Limit::Packets(u32::MAX)),
        ..LinkConfig::new(Rate::from_bits_per_sec(1.0), Duration::MAX)
    };
    let mut link = link(config);
    for _ in 0..4 {
        let never = Verdict::Delivered {
            departs: Time::MAX,
            arrives: Time::MAX,
            marked: false,
        };
        assert_eq!(link.offer(Time::MAX, Packet::new(u32::MAX)), never);
    }
}

fn limits() -> impl Strategy<Value = Limit> {
    prop_oneof![
        (1u32..40).prop_map(Limit::Packets),
        (1500u64..60_000).prop_map(Limit::Bytes),
    ]
}

prop_compose! {
    fn configs()(mbps in 0.1..2000.0_f64, delay_us in 0u64..50_000, limit in limits(), loss in 0.0..0.5_f64, seed: u64) -> LinkConfig {
        LinkConfig {
            queue: Queue::DropTail(limit),
            loss: Loss::Bernoulli(loss),
            seed,
            ..LinkConfig::new(Rate::from_mbps(mbps), Duration::from_micros(delay_us))
        }
    }
}

proptest! {
    #[test]
    fn fifo_conserving_and_never_faster_than_the_rate(
        config in configs(),
        offers in prop::collection::vec((0u64..2_000_000, 40u32..1501), 1..300),
    ) {
        let mut link = link(config.clone());
        let (mut now, mut last) = (Time::ZERO, Time::ZERO);
        let mut seen = LinkStats::default();
        for (gap, bytes) in offers {
            now += Duration::from_nanos(gap);
            seen.offered += 1;
            match link.offer(now, Packet::new(bytes)) {
                Verdict::Delivered { departs, arrives, .. } => {
                    prop_assert!(arrives >= last, "out of order");
                    prop_assert_eq!(arrives, departs + config.delay);
                    prop_assert!(departs.since(now) >= config.rate.time_for(u64::from(bytes)) - Duration::from_nanos(1));
                    last = arrives;
                    seen.delivered += 1;
                    seen.bytes_delivered += u64::from(bytes);
                    // All that was ever delivered departed after the beginning of time.
                    let possible = config.rate.bytes_per_sec() * departs.as_secs_f64();
                    prop_assert!(seen.bytes_delivered as f64 <= possible * (1.0 + 1e-12));
                }
                Verdict::Dropped(DropReason::QueueFull) => seen.dropped_queue += 1,
                Verdict::Dropped(DropReason::RandomLoss) => seen.dropped_random += 1,
                Verdict::Dropped(other) => prop_assert!(false, "{:?}", other),
            }
            match config.queue {
                Queue::DropTail(Limit::Bytes(limit)) => prop_assert!(link.backlog_bytes(now) <= limit),
                Queue::DropTail(Limit::Packets(limit)) => prop_assert!(link.backlog_packets(now) <= limit as usize),
                Queue::Red(_) => unreachable!(),
            }
        }
        let stats = link.stats();
        prop_assert_eq!(LinkStats { busy: stats.busy, ..seen }, stats);
        prop_assert_eq!(stats.offered, stats.delivered + stats.dropped_queue + stats.dropped_random + stats.dropped_down);
    }

    #[test]
    fn the_same_seed_gives_the_same_verdicts(config in configs(), gaps in prop::collection::vec(0u64..1_000_000, 1..200)) {
        let run = || {
            let mut link = link(config.clone());
            let mut now = Time::ZERO;
            let offer = |gap: &u64| {
                now += Duration::from_nanos(*gap);
                link.offer(now, Packet::new(1200))
            };
            gaps.iter().map(offer).collect::<Vec<_>>()
        };
        prop_assert_eq!(run(), run());
    }
}

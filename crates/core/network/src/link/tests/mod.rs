use super::*;
use crate::{Late, Loss, Queue, Red};
use manyway_units::Rate;

mod fluid;
mod open_loop;
mod properties;
mod reference;
mod timetable;
mod waiting;

const MS: Duration = Duration::from_millis(1);

fn link(config: LinkConfig) -> Link {
    Link::new(config).unwrap()
}

/// 1500 B take 600 µs.
fn twenty_mbps(queue: Queue) -> LinkConfig {
    LinkConfig {
        queue,
        ..LinkConfig::new(Rate::from_mbps(20.0), 10 * MS)
    }
}

fn packets(limit: u32) -> Queue {
    Queue::DropTail(Limit::Packets(limit))
}

fn delivered(departs_us: u64, arrives_us: u64) -> Verdict {
    Verdict::Delivered {
        departs: Time::from_micros(departs_us),
        arrives: Time::from_micros(arrives_us),
        marked: false,
    }
}

fn offer(link: &mut Link, at_us: u64, bytes: u32) -> Verdict {
    link.offer(Time::from_micros(at_us), Packet::new(bytes))
}

const FULL: Verdict = Verdict::Dropped(DropReason::QueueFull);
const DOWN: Verdict = Verdict::Dropped(DropReason::Down);

#[test]
fn departures_and_arrivals_are_exact() {
    let mut link = link(twenty_mbps(packets(100)));
    assert_eq!(offer(&mut link, 0, 1500), delivered(600, 10_600));
    assert_eq!(offer(&mut link, 0, 1500), delivered(1200, 11_200));
    assert_eq!(offer(&mut link, 1100, 500), delivered(1400, 11_400));
    assert_eq!(offer(&mut link, 1400, 500), delivered(1600, 11_600));
    // After an idle time the link starts afresh.
    assert_eq!(offer(&mut link, 5000, 1500), delivered(5600, 15_600));
    assert_eq!(link.busy_until(), Time::from_micros(5600));
    let stats = link.stats();
    assert_eq!(
        (stats.offered, stats.delivered, stats.bytes_delivered),
        (5, 5, 5500)
    );
    assert_eq!(stats.busy, Duration::from_micros(2200));
    // 600 + 1200 + 300 + 200 + 600.
    assert_eq!(stats.sojourn, Duration::from_micros(2900));
}

#[test]
fn busy_time_and_queue_are_known_at_any_moment() {
    let mut link = link(twenty_mbps(packets(100)));
    for _ in 0..3 {
        offer(&mut link, 100, 1500);
    }
    let at = |us| {
        let stats = link.stats_at(Time::from_micros(us));
        (stats.busy.as_micros(), stats.sojourn.as_micros())
    };
    // Until 700 µs three packets are there, then two, then one: the integral of the queue.
    assert_eq!(at(100), (0, 0));
    assert_eq!(at(400), (300, 900));
    assert_eq!(at(1000), (900, 1800 + 600));
    assert_eq!(at(2000), (1800, 1800 + 1200 + 600));
    assert_eq!(link.stats_at(Time::MAX), link.stats());
}

#[test]
fn fractions_of_a_nanosecond_add_up() {
    // 3 Mbps: 1 B takes 2666.66… ns, so 3000 B take 8 ms, however they are cut.
    let mut link = link(LinkConfig {
        queue: packets(u32::MAX),
        ..LinkConfig::new(Rate::from_mbps(3.0), Duration::ZERO)
    });
    for _ in 0..3000 {
        offer(&mut link, 0, 1);
    }
    let nanos = link.busy_until().as_nanos();
    assert!((8_000_000..=8_000_001).contains(&nanos), "{nanos}");
}

#[test]
fn drop_tail_counts_the_packet_in_service() {
    let mut by_packets = link(twenty_mbps(packets(2)));
    let mut by_bytes = link(twenty_mbps(Queue::DropTail(Limit::Bytes(3000))));
    for link in [&mut by_packets, &mut by_bytes] {
        assert_eq!(offer(link, 0, 1500), delivered(600, 10_600));
        assert_eq!(offer(link, 0, 1500), delivered(1200, 11_200));
        assert_eq!(offer(link, 0, 1500), FULL);
        let almost = Time::from_nanos(599_999);
        assert_eq!(link.offer(almost, Packet::new(1500)), FULL);
        // The first one has just left.
        assert_eq!(offer(link, 600, 1500), delivered(1800, 11_800));
        assert_eq!(link.backlog_packets(Time::from_micros(600)), 2);
        assert_eq!(link.backlog_bytes(Time::from_micros(1200)), 1500);
        assert_eq!(link.stats().dropped_queue, 2);
    }
    // A packet that fits the bytes that are left passes by its size.
    assert_eq!(offer(&mut by_bytes, 1200, 1501), FULL);
    assert_eq!(offer(&mut by_bytes, 1200, 1500), delivered(2400, 12_400));
}

/// 1500 B take 1,714,285 5/7 ns.
#[test]
fn room_is_known_to_fractions_of_a_nanosecond() {
    let config = LinkConfig {
        queue: packets(2),
        ..LinkConfig::new(Rate::from_mbps(7.0), Duration::ZERO)
    };
    let mut link = link(config);
    let mut departs = |now| match link.offer(Time::from_nanos(now), Packet::new(1500)) {
        Verdict::Delivered { departs, .. } => Some(departs.as_nanos()),
        _ => None,
    };
    assert_eq!(departs(0), Some(1_714_286));
    assert_eq!(departs(0), Some(3_428_572));
    // Another has room once one has left, which is 2/7 ns before a whole nanosecond …
    assert_eq!(departs(1_714_285), None);
    assert_eq!(departs(1_714_286), Some(5_142_858));
    // … then 4/7 …
    assert_eq!(departs(3_428_571), None);
    assert_eq!(departs(3_428_572), Some(6_857_143));
    // … and 6/7.
    assert_eq!(departs(5_142_857), None);
    assert_eq!(departs(5_142_858), Some(8_571_429));
}

#[test]
fn one_bandwidth_delay_product() {
    let rate = Rate::from_mbps(20.0);
    let bytes = |bytes| Queue::DropTail(Limit::Bytes(bytes));
    assert_eq!(Queue::bandwidth_delay(rate, 10 * MS), bytes(50_000));
    assert_eq!(Queue::bandwidth_delay(rate, Duration::ZERO), bytes(15_000));
}

#[test]
fn loss_rate_is_as_configured_and_loss_takes_its_time_on_the_link() {
    let mut link = link(LinkConfig {
        loss: Loss::Bernoulli(0.1),
        seed: 7,
        ..twenty_mbps(packets(10))
    });
    for n in 1..=100_000 {
        offer(&mut link, n * 600, 1500);
    }
    let stats = link.stats();
    // Standard deviation of the count: sqrt(100000 × 0.1 × 0.9) = 95; four of them.
    assert!(stats.dropped_random.abs_diff(10_000) < 380, "{stats:?}");
    assert_eq!(stats.dropped_queue, 0);
    assert_eq!(stats.busy, Duration::from_secs(60));
    assert_eq!(stats.bytes_delivered, stats.delivered * 1500);
}

#[test]
fn jitter_is_uniform_and_keeps_the_order() {
    let config = LinkConfig {
        jitter: 4 * MS,
        seed: 3,
        ..twenty_mbps(packets(1000))
    };
    // Far enough apart that nothing is held up by the packet before.
    let mut sparse = link(config.clone());
    let mut sum = 0.0;
    const PACKETS: u64 = 40_000;
    for n in 0..PACKETS {
        let Verdict::Delivered {
            departs, arrives, ..
        } = offer(&mut sparse, n * 10_000, 1500)
        else {
            panic!("packet {n} dropped");
        };
        let extra = arrives.since(departs).checked_sub(10 * MS).unwrap();
        assert!(extra <= 4 * MS, "{extra:?}");
        sum += extra.as_secs_f64();
    }
    // The mean of uniform 0-4 ms has a standard deviation of 4 ms/sqrt(12 × 40000) = 5.8 µs; four
    // of them.
    let mean = sum / PACKETS as f64;
    assert!((mean - 2e-3).abs() < 23e-6, "{mean}");

    let mut dense = link(config);
    let mut last = Time::ZERO;
    let mut together = 0;
    for n in 0..1000 {
        let verdict = offer(&mut dense, n * 600, 1500);
        let Verdict::Delivered { arrives, .. } = verdict else {
            panic!("{verdict:?}");
        };
        assert!(arrives >= last);
        together += u32::from(arrives == last);
        last = arrives;
    }
    // 600 µs apart with up to 4 ms of jitter: many would overtake.
    assert!(together > 300, "{together}");
}

/// When packets that are offered 600 µs apart, as fast as the link carries them, take on the wire.
fn wire_times(config: &LinkConfig, packets: u64) -> Vec<Duration> {
    let mut link = link(config.clone());
    let time = |n: u64| match offer(&mut link, n * 600, 1500) {
        Verdict::Delivered {
            departs, arrives, ..
        } => arrives.since(departs),
        dropped => panic!("{dropped:?}"),
    };
    (0..packets).map(time).collect()
}

#[test]
fn packets_overtake_each_other_by_jitter_where_they_may() {
    let config = LinkConfig {
        jitter: 4 * MS,
        overtaking: true,
        seed: 3,
        ..twenty_mbps(packets(1000))
    };
    let times = wire_times(&config, 40_000);
    let range = 10 * MS..=14 * MS;
    assert!(times.iter().all(|time| range.contains(time)));
    // Four standard deviations of the mean, as above: nobody waits for anybody.
    let mean = times.iter().map(Duration::as_secs_f64).sum::<f64>() / times.len() as f64;
    assert!((mean - 12e-3).abs() < 23e-6, "{mean}");
    // The next one leaves 600 µs later: it comes first if it draws that much less, which it does
    // with probability (3.4/4)²/2 = 0.361; four standard deviations of 40,000 are 0.01.
    let overtaken = times
        .windows(2)
        .filter(|pair| pair[0] > pair[1] + MS * 6 / 10);
    let share = overtaken.count() as f64 / times.len() as f64;
    assert!((share - 0.361).abs() < 0.01, "{share}");
}

#[test]
fn late_packets_are_overtaken_and_the_others_stay_in_order() {
    let config = LinkConfig {
        late: Late {
            share: 0.05,
            by: 5 * MS,
        },
        seed: 3,
        ..twenty_mbps(packets(1000))
    };
    let times = wire_times(&config, 40_000);
    let late = times.iter().filter(|&&time| time == 15 * MS).count();
    assert!(times.iter().all(|&time| time == 10 * MS || time == 15 * MS));
    // Four standard deviations: 4 × sqrt(40000 × 0.05 × 0.95) = 174.
    assert!(late.abs_diff(2000) < 174, "{late}");

    let wrong = LinkConfig {
        late: Late {
            share: 1.5,
            ..config.late
        },
        ..config
    };
    let error = Link::new(wrong).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the link's `late.share` is 1.5: choose a probability from 0 to 1"
    );
}

#[test]
fn impairments_do_not_change_each_others_draws() {
    let base = LinkConfig {
        seed: 11,
        ..twenty_mbps(packets(1000))
    };
    let verdicts = |loss: Loss, jitter: Duration, late: f64| -> Vec<Verdict> {
        let mut link = link(LinkConfig {
            loss,
            jitter,
            late: Late {
                share: late,
                by: MS,
            },
            ..base.clone()
        });
        (0..2000)
            .map(|n| offer(&mut link, n * 1000, 1500))
            .collect()
    };
    let lossy = Loss::Bernoulli(0.2);
    let all = verdicts(lossy, MS, 0.3);
    let loss = verdicts(lossy, Duration::ZERO, 0.0);
    let jitter = verdicts(Loss::None, MS, 0.0);
    let late = verdicts(Loss::None, Duration::ZERO, 0.3);
    let arrival = |verdict: &Verdict| match verdict {
        Verdict::Delivered { arrives, .. } => *arrives,
        dropped => panic!("{dropped:?}"),
    };
    let mut losses = 0;
    for (n, all) in all.iter().enumerate() {
        let lost = Verdict::Dropped(DropReason::RandomLoss);
        assert_eq!(*all == lost, loss[n] == lost);
        if *all == lost {
            losses += 1;
            continue;
        }
        let plain = Time::from_micros(n as u64 * 1000 + 600) + 10 * MS;
        let lateness = arrival(&late[n]).since(plain);
        assert_eq!(arrival(all), arrival(&jitter[n]) + lateness);
    }
    assert!(losses > 300, "{losses}");
}

#[test]
fn a_link_that_goes_down_loses_what_is_under_way() {
    let mut link = link(twenty_mbps(packets(10)));
    let (first, later) = (Time::ZERO, Time::from_micros(11_000));
    offer(&mut link, 0, 1500);
    offer(&mut link, 11_000, 1500);
    assert!(link.survived(first, 1500));
    link.set_up(Time::from_micros(11_500), false);
    assert!(!link.is_up());
    assert_eq!(offer(&mut link, 12_500, 1500), DOWN);
    assert!(!link.survived(later, 1500));
    link.set_up(Time::from_micros(13_000), true);
    assert_eq!(offer(&mut link, 13_000, 1500), delivered(13_600, 23_600));
    assert!(link.survived(Time::from_micros(13_000), 1500));
    let stats = link.stats();
    assert_eq!(
        (stats.offered, stats.delivered, stats.dropped_down),
        (4, 2, 2)
    );
    assert_eq!(stats.bytes_delivered, 3000);
    // The second one was served, and there, for 500 µs only.
    assert_eq!(stats.busy, Duration::from_micros(1700));
    assert_eq!(stats.sojourn, Duration::from_micros(1700));
}

#[test]
fn red_drops_early_marks_and_counts() {
    let red = Red {
        ecn: true,
        ..Red::new(Limit::Packets(60), 5.0, 15.0)
    };
    let mut link = link(twenty_mbps(Queue::Red(red)));
    let mut marks = 0;
    for n in 0..50_000 {
        // 5 % more than the link carries; every fourth packet can't be marked.
        let packet = Packet {
            bytes: 1500,
            ecn: n % 4 != 0,
            ..Packet::new(1500)
        };
        let at = Time::from_nanos(n * 571_429);
        if let Verdict::Delivered { marked, .. } = link.offer(at, packet) {
            assert!(packet.ecn || !marked);
            marks += u64::from(marked);
        }
    }
    let stats = link.stats();
    assert_eq!(stats.marked, marks);
    assert!(marks > 1000 && stats.dropped_early > 300, "{stats:?}");
    assert_eq!(stats.offered, stats.delivered + stats.dropped());
}

#[test]
fn extremes_saturate() {
    let config = LinkConfig {
        queue: packets(u32::MAX),
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

#[test]
fn what_the_wire_would_lose_is_gone_when_the_link_goes_down() {
    let mut link = link(LinkConfig {
        loss: Loss::Periodic { every: 2 },
        ..twenty_mbps(packets(100))
    });
    let at = Time::from_micros;
    for _ in 0..10 {
        offer(&mut link, 0, 1500);
    }
    // Four have left, of which the wire loses two.
    assert_eq!(link.carried_bytes(at(2_500)), 3000);
    assert_eq!(link.stats_at(at(2_500)).dropped_random, 2);
    link.set_up(at(2_500), false);
    assert_eq!(link.stats_at(at(2_500)).dropped_random, 5);
    assert_eq!(link.backlog_bytes(at(2_500)), 0);
    assert!(link.carried_bytes(at(2_500)) <= 7500);
}

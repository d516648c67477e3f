use super::*;
use crate::link::time_per_byte;
use manyway_units::Rate;

/// Thresholds 5 and 15 packets, `max_p` 0.04.
fn red() -> Red {
    Red {
        max_p: 0.04,
        ..Red::new(Limit::Packets(100), 5.0, 15.0)
    }
}

/// A gate whose average is `average` already.
fn gate(red: Red, average: f64) -> Gate {
    Gate {
        average,
        ..Gate::new(red, 1)
    }
}

/// A packet that finds so many waiting; at 20 Mbps 1500 B take 600 µs.
fn arrival(waiting: u64) -> Arrival {
    Arrival {
        now: 0,
        ecn: false,
        room: true,
        waiting_packets: waiting,
        waiting_bytes: waiting * 1500,
        free_at: 0,
        idle: false,
        per_byte: time_per_byte(Rate::from_mbps(20.0)),
    }
}

const ACCEPTED: Admission = Admission::Accepted { marked: false };
const MARKED: Admission = Admission::Accepted { marked: true };

#[test]
fn the_average_by_hand() {
    let mut gate = gate(
        Red {
            weight: 0.25,
            ..red()
        },
        0.0,
    );
    let mut average = |waiting| {
        gate.admit(arrival(waiting));
        gate.average()
    };
    assert_eq!(average(0), 0.0);
    assert_eq!(average(4), 1.0);
    assert_eq!(average(4), 1.75);
    assert_eq!(average(0), 1.3125);
}

#[test]
fn idle_time_counts_as_so_many_packets() {
    let halving = Red {
        weight: 0.5,
        ..red()
    };
    let after = |idle_since, now| Arrival {
        now,
        free_at: idle_since,
        idle: true,
        ..arrival(0)
    };
    // 600 µs per packet: 2399 µs are three, and one for the packet itself.
    let mut idle = gate(halving, 16.0);
    idle.admit(after(1_000_000, 3_399_000));
    assert_eq!(idle.average(), 1.0);
    // Less than a packet.
    let mut busy = gate(halving, 16.0);
    busy.admit(after(1_000_000, 1_599_999));
    assert_eq!(busy.average(), 8.0);
    // A packet that was dropped meanwhile has accounted for the time until then.
    let mut twice = gate(halving, 16.0);
    let dropped = Arrival {
        room: false,
        ..after(0, 600_000)
    };
    assert_eq!(twice.admit(dropped), Admission::Full);
    twice.admit(after(0, 1_200_000));
    assert_eq!(twice.average(), 1.0);
    // Smaller packets, more of them.
    let mut small = gate(
        Red {
            mean_packet: 500,
            ..halving
        },
        16.0,
    );
    small.admit(after(0, 600_000));
    assert_eq!(small.average(), 1.0);
    // Idle for ever.
    let mut ages = gate(red(), 16.0);
    ages.admit(after(0, u64::MAX));
    assert_eq!(ages.average(), 0.0);
}

#[test]
fn the_probability_rises_between_the_thresholds_and_gently_above() {
    let (red, near) = (red(), |a: f64, b: f64| (a - b).abs() < 1e-12);
    for (average, p) in [
        (0.0, 0.0),
        (4.999, 0.0),
        (5.0, 0.0),
        (10.0, 0.02),
        (14.0, 0.036),
    ] {
        assert!(near(red.probability(average), p), "{average}");
    }
    // From 0.04 at 15 to 1 at 30.
    for (average, p) in [(15.0, 0.04), (22.5, 0.52), (30.0, 1.0), (1e9, 1.0)] {
        assert!(near(red.probability(average), p), "{average}");
    }
    let harsh = Red {
        gentle: false,
        ..red
    };
    assert_eq!(harsh.probability(15.0), 1.0);
    assert!(near(harsh.probability(14.0), 0.036));
}

/// Distances between early drops at a constant average.
fn distances(red: Red, average: u64, drops: usize) -> Vec<u64> {
    let mut gate = gate(red, average as f64);
    let (mut distances, mut since) = (Vec::new(), 0);
    while distances.len() <= drops {
        since += 1;
        match gate.admit(arrival(average)) {
            Admission::Early => distances.push(std::mem::take(&mut since)),
            admission => assert_eq!(admission, ACCEPTED),
        }
    }
    // The first one starts elsewhere.
    distances.split_off(1)
}

#[test]
fn drops_are_spaced_uniformly() {
    const DROPS: usize = 4000;
    // p = 0.02: with `wait` 50 … 99, without 1 … 49.
    for (wait, low, high) in [(true, 50, 99), (false, 1, 49)] {
        let distances = distances(Red { wait, ..red() }, 10, DROPS);
        assert_eq!(distances.iter().min(), Some(&low));
        assert_eq!(distances.iter().max(), Some(&high));
        let mean = distances.iter().sum::<u64>() as f64 / DROPS as f64;
        let expected = (low + high) as f64 / 2.0;
        // Uniform on n values: variance (n² − 1)/12.
        let deviation = ((high - low + 1) as f64 / 12.0_f64.sqrt()) / (DROPS as f64).sqrt();
        assert!(
            (mean - expected).abs() < 4.0 * deviation,
            "{wait}: {mean} {expected}"
        );
        // The lower half as often as the upper: binomial.
        let lower = distances.iter().filter(|d| **d < (low + high) / 2).count();
        let share = ((low + high) / 2 - low) as f64 / (high - low + 1) as f64;
        let deviation = (share * (1.0 - share) * DROPS as f64).sqrt();
        assert!((lower as f64 - share * DROPS as f64).abs() < 4.0 * deviation);
    }
}

#[test]
fn the_drop_rate_is_that_of_the_formula_at_every_average() {
    const DROPS: usize = 2000;
    for average in [6, 8, 12, 14, 18, 24] {
        let p = red().probability(average as f64);
        let distances = distances(red(), average, DROPS);
        let mean = distances.iter().sum::<u64>() as f64 / DROPS as f64;
        // 3/(2p) − 1/2 where 1/p is a whole number; in general the mean of the distribution that
        // p_a amounts to.
        let (mut expected, mut survive, mut count) = (0.0, 1.0, 0.0);
        while survive > 1e-12 {
            expected += survive;
            count += 1.0;
            survive *= match count * p {
                done if done < 1.0 => 1.0,
                done if done < 2.0 => 1.0 - (p / (2.0 - done)).min(1.0),
                _ => 0.0,
            };
        }
        assert!(
            (expected - (1.5 / p - 0.5)).abs() < 0.6,
            "{expected} at {p}"
        );
        // Within 1/p … 2/p: a standard deviation of at most 1/(2p).
        let deviation = 0.5 / p / (DROPS as f64).sqrt();
        assert!(
            (mean - expected).abs() < 4.0 * deviation,
            "{average}: {mean} {expected}"
        );
    }
}

#[test]
fn crossing_the_threshold_starts_the_count_afresh() {
    // p = 1/2 without `wait`: the second packet at the latest.
    let harsh = Red {
        max_p: 1.0,
        wait: false,
        ..red()
    };
    let mut gate = gate(harsh, 10.0);
    gate.count = 1000;
    assert_eq!(gate.admit(arrival(10)), ACCEPTED);
    assert_eq!(gate.count, 1);
    // A queue of one packet or none is left alone and ends the crossing, whatever the average.
    gate.count = 1000;
    assert_eq!(gate.admit(arrival(1)), ACCEPTED);
    assert_eq!(gate.admit(arrival(10)), ACCEPTED);
    assert_eq!(gate.count, 1);
    assert_eq!(gate.admit(arrival(10)), Admission::Early);
    assert_eq!(gate.count, 0);
}

#[test]
fn far_above_everything_is_dropped() {
    for (gentle, average) in [(false, 15), (true, 30)] {
        let mut gate = gate(Red { gentle, ..red() }, average as f64);
        for _ in 0..10 {
            assert_eq!(gate.admit(arrival(average)), Admission::Forced);
            assert_eq!(gate.count, 0);
        }
    }
}

#[test]
fn capable_packets_are_marked_below_the_upper_threshold_and_dropped_above() {
    let marking = Red { ecn: true, ..red() };
    let decisions = |average: u64, ecn: bool| {
        let mut gate = gate(marking, average as f64);
        let mut seen = std::collections::HashSet::new();
        for _ in 0..2000 {
            seen.insert(gate.admit(Arrival {
                ecn,
                ..arrival(average)
            }));
        }
        seen
    };
    assert_eq!(decisions(10, true), [ACCEPTED, MARKED].into());
    assert_eq!(decisions(10, false), [ACCEPTED, Admission::Early].into());
    assert_eq!(decisions(20, true), [ACCEPTED, Admission::Early].into());
    assert_eq!(decisions(40, true), [Admission::Forced].into());
    // Marking takes the place of dropping, packet for packet.
    let early = |ecn| {
        let mut gate = gate(marking, 10.0);
        let arrival = Arrival { ecn, ..arrival(10) };
        let verdicts = (0..2000).map(|_| gate.admit(arrival) == ACCEPTED);
        verdicts.collect::<Vec<_>>()
    };
    assert_eq!(early(true), early(false));
}

#[test]
fn a_full_queue_drops_what_would_have_been_marked() {
    let marking = Red { ecn: true, ..red() };
    let mut gate = gate(marking, 10.0);
    for _ in 0..2000 {
        let full = Arrival {
            ecn: true,
            room: false,
            ..arrival(10)
        };
        assert_eq!(gate.admit(full), Admission::Full);
        assert_eq!(gate.count, 0);
    }
}

#[test]
fn a_queue_in_bytes_is_measured_in_typical_packets() {
    let by_bytes = Red {
        limit: Limit::Bytes(150_000),
        ..red()
    };
    let (mut packets, mut bytes) = (gate(red(), 0.0), gate(by_bytes, 0.0));
    let mut drops = 0;
    for n in 0..20_000 {
        // Back and forth across the thresholds.
        let waiting = 2 + n / 500 % 20;
        let decision = packets.admit(arrival(waiting));
        assert_eq!(bytes.admit(arrival(waiting)), decision);
        drops += u32::from(decision != ACCEPTED);
    }
    assert!(drops > 100, "{drops}");
}

#[test]
fn powers_by_squaring() {
    assert_eq!(power(0.5, 0), 1.0);
    assert_eq!(power(0.5, 10), 1.0 / 1024.0);
    assert_eq!(power(1.0, u64::MAX), 1.0);
    assert_eq!(power(0.998, u64::MAX), 0.0);
    assert!((power(0.998, 1000) - 0.998_f64.powf(1000.0)).abs() < 1e-12);
}

#[test]
fn the_automatic_weight_averages_over_a_second() {
    // 10,000 packets/s.
    let weight = Red::automatic_weight(Rate::from_mbps(120.0), 1500);
    assert!((weight - 1e-4).abs() < 1e-8, "{weight}");
}

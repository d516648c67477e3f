use super::*;

/// A gate past its burst, whose queue had this delay in seconds when it set this probability.
fn gate(pie: Pie, probability: f64, delay: f64) -> Gate {
    Gate {
        probability,
        delay,
        burst: 0.0,
        next_update: u64::MAX,
        ..Gate::new(pie, 7)
    }
}

fn pie() -> Pie {
    Pie::new(Limit::Packets(1000))
}

fn arrival(ecn: bool) -> Arrival {
    Arrival {
        now: 0,
        ecn,
        room: true,
        waiting_packets: 100,
        waiting_bytes: 150_000,
        free_at: 0,
        idle: false,
        per_byte: 1,
    }
}

/// Section 5.4: no packet is dropped until the probabilities add up to 0.85, and each with
/// probability p from then on: 0.85/p + 1/p − 1 packets from drop to drop.
#[test]
fn drops_keep_their_distance() {
    for p in [0.01, 0.05] {
        let mut gate = gate(pie(), p, 0.015);
        let mut distances = Vec::new();
        let mut distance = 0_u32;
        while distances.len() < 20_000 {
            distance += 1;
            if gate.admit(arrival(false)) == Admission::Early {
                distances.push(distance);
                distance = 0;
            }
        }
        let first = (0.85_f64 / p).ceil();
        let mean = distances.iter().map(|&d| f64::from(d)).sum::<f64>() / 20_000.0;
        // A geometric distribution's standard deviation is below 1/p.
        let error = 4.0 / p / 20_000_f64.sqrt();
        let exact = first - 1.0 + 1.0 / p;
        assert!((mean - exact).abs() < error, "{mean} for {exact}");
        let (least, most) = (distances.iter().min(), distances.iter().max());
        assert!(f64::from(*least.unwrap()) >= first);
        // The sum of the probabilities is rounded.
        assert!(f64::from(*most.unwrap()) <= (8.5 / p).ceil() + 1.0);
    }
}

/// Section 4.2 by hand.
#[test]
fn the_probability_moves_by_delay_and_trend() {
    let after = |p: f64, old: f64, delay: f64| {
        let mut gate = gate(pie(), p, old);
        gate.update(delay);
        gate.probability
    };
    let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
    // 0.125 · 5 ms + 1.25 · 10 ms
    let step = 0.125 * 0.005 + 1.25 * 0.01;
    close(after(0.0, 0.010, 0.020), step / 2048.0);
    close(after(5e-6, 0.010, 0.020), 5e-6 + step / 512.0);
    close(after(5e-5, 0.010, 0.020), 5e-5 + step / 128.0);
    close(after(5e-4, 0.010, 0.020), 5e-4 + step / 32.0);
    close(after(5e-3, 0.010, 0.020), 5e-3 + step / 8.0);
    close(after(0.05, 0.010, 0.020), 0.05 + step / 2.0);
    close(after(0.5, 0.010, 0.020), 0.5 + step);
    // Section 5.5: large steps are cut.
    close(after(0.5, 0.010, 1.0), 0.52);
    close(after(0.99, 0.010, 1.0), 1.0);
    // At the target it stays; an empty queue takes it back.
    close(after(0.05, 0.015, 0.015), 0.05);
    close(after(0.5, 0.0, 0.0), (0.5 - 0.125 * 0.015) * 0.98);
    close(after(1e-9, 0.0, 0.0), 0.0);
}

/// Section 4.4.
#[test]
fn bursts_pass() {
    let mut gate = Gate::new(pie(), 1);
    // The queue is 100 ms long from now on.
    let mut decided = Vec::new();
    for ms in 0..2000_u64 {
        let now = ms * 1_000_000;
        let arrival = Arrival {
            now,
            free_at: now + 100_000_000,
            ..arrival(false)
        };
        if gate.admit(arrival) == Admission::Early {
            decided.push(ms);
        }
    }
    assert!(decided[0] > 150 && decided.len() > 100, "{decided:?}");
    // After an idle time that makes the probability 0, a burst passes again.
    let idle = Arrival {
        now: 60_000_000_000,
        free_at: 2_100_000_000,
        ..arrival(false)
    };
    gate.admit(idle);
    assert_eq!((gate.probability, gate.burst), (0.0, 0.150));
}

#[test]
fn short_queues_are_left_alone() {
    let never = |mut gate: Gate, arrival: Arrival| {
        (0..10_000).all(|_| gate.admit(arrival) != Admission::Early)
    };
    let short = Arrival {
        waiting_bytes: 3000,
        ..arrival(false)
    };
    assert!(never(gate(pie(), 0.5, 0.020), short));
    assert!(never(gate(pie(), 0.1, 0.007), arrival(false)));
    assert!(!never(gate(pie(), 0.1, 0.008), arrival(false)));
    assert!(!never(gate(pie(), 0.3, 0.007), arrival(false)));
}

/// Section 5.1.
#[test]
fn marks_below_ten_percent() {
    let seen = |p: f64, ecn: bool, capable: bool| {
        let mut gate = gate(Pie { ecn, ..pie() }, p, 0.015);
        let all = (0..1000).map(|_| gate.admit(arrival(capable)));
        all.collect::<std::collections::HashSet<_>>()
    };
    let accepted = Admission::Accepted { marked: false };
    let marked = Admission::Accepted { marked: true };
    assert_eq!(seen(0.09, true, true), [accepted, marked].into());
    assert_eq!(seen(0.09, true, false), [accepted, Admission::Early].into());
    assert_eq!(seen(0.09, false, true), [accepted, Admission::Early].into());
    assert_eq!(seen(0.11, true, true), [accepted, Admission::Early].into());
}

#[test]
fn a_long_silence_costs_little_and_full_queues_drop() {
    let mut gate = Gate::new(pie(), 1);
    for now in [0, u64::MAX / 2, u64::MAX] {
        let full = Arrival {
            now,
            free_at: u64::MAX,
            room: false,
            ..arrival(false)
        };
        assert_eq!(gate.admit(full), Admission::Full);
    }
}

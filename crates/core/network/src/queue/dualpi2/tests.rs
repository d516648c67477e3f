use super::*;

const MS: u64 = 1_000_000;

fn packet(at: u64, ecn: bool, l4s: bool) -> Held {
    Held {
        ticket: 0,
        at,
        bytes: 1500,
        ecn: ecn || l4s,
        l4s,
        flow: 0,
        class: 0,
    }
}

/// A queue with this base probability, which isn't adjusted.
fn queue(base: f64) -> DualPi2Queue {
    let config = DualPi2 {
        update: Duration::from_secs(1_000_000),
        ..DualPi2::new(Limit::Packets(1000))
    };
    DualPi2Queue {
        base,
        ..DualPi2Queue::new(&config)
    }
}

/// Of 10,000 packets of a kind that don't wait: how many are marked, and dropped.
fn told(base: f64, ecn: bool, l4s: bool) -> (usize, usize) {
    let mut queue = queue(base);
    let (mut marked, mut dropped) = (0, Vec::new());
    for n in 0..10_000 {
        queue.push(packet(n, ecn, l4s));
        let taken = queue.take(n, &mut dropped);
        marked += usize::from(taken.is_some_and(|(_, marked)| marked));
    }
    (marked, dropped.len())
}

/// p_CL = k p' and p_C = p'^2 (section 4.1, equations 4 and 5).
#[test]
fn the_probabilities_are_coupled_by_a_square() {
    let near = |found: usize, expected: f64| found.abs_diff(expected as usize) <= 1;
    for base in [0.02, 0.1, 0.3] {
        let (marked, dropped) = told(base, false, true);
        assert!(
            near(marked, 20_000.0 * base) && dropped == 0,
            "{base}: {marked}"
        );
        let (marked, dropped) = told(base, false, false);
        assert!(
            near(dropped, 10_000.0 * base * base) && marked == 0,
            "{base}: {dropped}"
        );
        let (marked, dropped) = told(base, true, false);
        assert!(
            near(marked, 10_000.0 * base * base) && dropped == 0,
            "{base}: {marked}"
        );
    }
}

/// From p_C = 1/k^2 on, marks say nothing more: ECN-capable packets are dropped like others, and
/// all L4S packets that get through are marked (section 4.2.3).
#[test]
fn overload_drops_both_alike() {
    for (ecn, l4s) in [(true, false), (false, false), (false, true)] {
        let (marked, dropped) = told(0.6, ecn, l4s);
        assert!(dropped.abs_diff(3600) <= 1, "{dropped}");
        assert_eq!(marked, if l4s { 10_000 - dropped } else { 0 });
    }
}

/// Packets that wait for more than a millisecond are marked, the first one apart: its turn comes
/// with the next.
#[test]
fn low_latency_marks_begin_at_a_step() {
    let mut queue = queue(0.0);
    let mut marks = Vec::new();
    for wait in [MS, MS - 1, MS + 1, MS + 1, 2 * MS, MS, 5 * MS] {
        queue.push(packet(10 * MS, false, true));
        marks.push(queue.take(10 * MS + wait, &mut Vec::new()).unwrap().1);
    }
    assert_eq!(marks, [false, false, false, true, true, false, true]);
}

/// L4S packets go first, unless a classic one has waited for more than 50 ms longer.
#[test]
fn classic_packets_wait_for_the_shift_at_most() {
    for (waits, low_first) in [(0, true), (49, true), (50, true), (51, false)] {
        let mut queue = queue(0.0);
        queue.push(packet(10 * MS, false, false));
        queue.push(packet((10 + waits) * MS, false, true));
        let (first, _) = queue.take(100 * MS, &mut Vec::new()).unwrap();
        assert_eq!(first.l4s, low_first, "{waits}");
        let (second, _) = queue.take(100 * MS, &mut Vec::new()).unwrap();
        assert_ne!(first.l4s, second.l4s);
        assert_eq!(queue.take(100 * MS, &mut Vec::new()), None);
    }
}

/// p' changes by 0.16 Hz of the error of the delay and by 3 Hz of its change, at each update, and
/// is 0 after an idle time.
#[test]
fn the_controller_acts_on_the_longer_delay() {
    let mut queue = DualPi2Queue::new(&DualPi2::new(Limit::Packets(1000)));
    queue.push(packet(2 * MS, false, false));
    queue.push(packet(6 * MS, false, true));
    // At 16 ms, the classic packet has waited for 14 ms; at 32 ms, for 30.
    queue.catch_up(16 * MS);
    let first = 0.16 * (0.014 - 0.015) + 3.0 * 0.014;
    assert!((queue.base - first).abs() < 1e-12, "{}", queue.base);
    queue.catch_up(33 * MS);
    let second = first + 0.16 * (0.030 - 0.015) + 3.0 * 0.016;
    assert!((queue.base - second).abs() < 1e-12, "{}", queue.base);
    // The L4S packet alone: 42 ms at 48 ms.
    queue.classic.fifo.pop();
    queue.catch_up(48 * MS);
    let third = second + 0.16 * (0.042 - 0.015) + 3.0 * 0.012;
    assert!((queue.base - third).abs() < 1e-12, "{}", queue.base);
    queue.low.fifo.pop();
    queue.catch_up(64 * MS);
    let fourth = (third - 0.16 * 0.015 - 3.0 * 0.042).max(0.0);
    assert!((queue.base - fourth).abs() < 1e-12, "{}", queue.base);
    queue.base = 0.5;
    queue.catch_up(164 * MS);
    // Six more updates.
    assert!(
        (queue.base - (0.5 - 6.0 * 0.16 * 0.015)).abs() < 1e-12,
        "{}",
        queue.base
    );
    queue.catch_up(100_000 * MS);
    assert_eq!(queue.base, 0.0);
}

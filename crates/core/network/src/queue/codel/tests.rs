use super::*;

const MS: u64 = 1_000_000;

fn packet(at: u64, ecn: bool) -> Held {
    Held {
        ticket: 0,
        at,
        bytes: 1500,
        ecn,
        l4s: false,
        flow: 0,
        class: 0,
    }
}

fn codel(ecn: bool) -> CoDel {
    CoDel {
        ecn,
        ..CoDel::new(Limit::Packets(1000))
    }
}

/// Takes a packet every `step` ns from a queue in which all have waited for 20 ms, and there are
/// always three: the times of drops and marks.
fn standing(control: &mut Control, from: u64, until: u64, step: u64, ecn: bool) -> [Vec<u64>; 2] {
    let mut fifo = Fifo::default();
    let [mut drops, mut marks] = [Vec::new(), Vec::new()];
    for now in (from..until).step_by(step as usize) {
        while fifo.len() < 5 {
            fifo.push(packet(now - 20 * MS, ecn));
        }
        let mut dropped = Vec::new();
        let (_, marked) = control.take(&mut fifo, now, &mut dropped).unwrap();
        drops.extend(dropped.iter().map(|_| now));
        marks.extend(marked.then_some(now));
    }
    [drops, marks]
}

/// Drop n + 1 is due interval/√n after drop n; the first one an interval after the queue was first
/// seen too long. After t, there have been about (t/2 interval)² (the sum of 1/√n is 2√n).
#[test]
fn drops_follow_the_control_law() {
    let mut control = Control::new(&codel(false));
    // Fine steps, so that no drop is late by more.
    let step = MS / 10;
    let [drops, _] = standing(&mut control, 100 * MS, 10_100 * MS, step, false);
    let mut due = 200.0 * MS as f64;
    for (n, drop) in drops.iter().enumerate() {
        let late = *drop as f64 - due;
        assert!(
            (-1.0 - n as f64..=step as f64).contains(&late),
            "{n}: {late}"
        );
        // Roundings to a nanosecond add up.
        due += 100.0 * MS as f64 / ((n + 1) as f64).sqrt();
    }
    let expected = (9_900.0_f64 / 200.0).powi(2);
    let found = drops.len() as f64;
    assert!((found / expected - 1.0).abs() < 0.05, "{found} {expected}");
}

#[test]
fn marks_replace_drops_at_the_same_times() {
    let run = |ecn| {
        standing(
            &mut Control::new(&codel(ecn)),
            100 * MS,
            3000 * MS,
            MS / 10,
            true,
        )
    };
    let [drops, none] = run(false);
    let [no_drops, marks] = run(true);
    assert!(none.is_empty() && no_drops.is_empty());
    assert_eq!(drops, marks);
    assert!(drops.len() > 100);
    // Packets that can't be marked are dropped.
    let mut control = Control::new(&codel(true));
    let [drops, marks] = standing(&mut control, 100 * MS, 3000 * MS, MS / 10, false);
    assert!(marks.is_empty() && drops.len() > 100);
}

/// A packet that waited for less than the target ends the dropping state; soon after, it begins
/// where it was, as the same load is probably back.
#[test]
fn a_short_break_is_no_new_beginning() {
    let again = |pause: u64| {
        let mut control = Control::new(&codel(false));
        standing(&mut control, 100 * MS, 2100 * MS, MS, false);
        let (before, mut fifo) = (control.count, Fifo::default());
        let begins = 2100 * MS + pause;
        fifo.push(packet(begins, false));
        assert!(control.take(&mut fifo, begins, &mut Vec::new()).is_some());
        assert!(!control.dropping && control.first_above.is_none());
        standing(&mut control, begins, begins + 101 * MS, MS, false);
        assert!(control.dropping);
        (before, control.count)
    };
    let (before, count) = again(100 * MS);
    assert_eq!(count, before - 1);
    assert_eq!(again(2000 * MS).1, 1);
}

#[test]
fn short_delays_and_single_packets_are_left_alone() {
    let mut control = Control::new(&codel(false));
    let mut dropped = Vec::new();
    let mut fifo = Fifo::default();
    for ms in 100..5000 {
        let now = ms * MS;
        // Several that have waited for just less than the target …
        while fifo.len() < 5 {
            fifo.push(packet(now - 5 * MS + 1, false));
        }
        control.take(&mut fifo, now, &mut dropped);
        fifo = Fifo::default();
    }
    for ms in 5000..9000 {
        // … or a packet with another one behind it, however long they have waited.
        fifo.push(packet(1, false));
        fifo.push(packet(1, false));
        control.take(&mut fifo, ms * MS, &mut dropped);
        fifo.pop();
    }
    assert!(dropped.is_empty());
    assert_eq!(control.take(&mut fifo, 9000 * MS, &mut dropped), None);
}

#[test]
fn what_cannot_work_is_refused() {
    let field = |codel: CoDel| codel.validate("codel").unwrap_err().field;
    let target = Duration::ZERO;
    assert_eq!(
        field(CoDel {
            target,
            ..codel(false)
        }),
        "queue.codel.target"
    );
    let interval = Duration::from_millis(4);
    let short = CoDel {
        interval,
        ..codel(false)
    };
    assert_eq!(field(short), "queue.codel.interval");
}

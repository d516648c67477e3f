//! Which losses are random, and doubt.

use super::*;

#[test]
fn losses_that_dont_prefer_full_queues_are_random() {
    let mut bench = Bench::settled(&[100.0]);
    assert!(bench.windows()[0] < 150.0, "the first one is answered");
    let mut answered = Vec::new();
    for event in 0..12 {
        bench.rounds(20, |_, round| f64::from(u8::from(round == 10)));
        let before = bench.windows()[0];
        bench.lose(0, Duration::ZERO);
        if bench.windows()[0] < before {
            answered.push(event);
        }
    }
    // Those of the first seconds have an answer, until it is known how frequent losses are.
    assert_eq!(answered, [0, 1, 2, 3]);
    let before = bench.windows()[0];
    bench.rounds(12, |_, _| 0.0);
    let growth = (bench.windows()[0] / before).ln() / 12.0;
    assert!((growth - 0.06).abs() < 0.005, "{growth}");
}

#[test]
fn one_loss_says_little_and_none_where_all_packets_meet_full_queues() {
    let random = |bench: &Bench| bench.auto.slots.get(bench.slots[0]).unwrap().queue.random();
    let mut bench = Bench::settled(&[100.0]);
    for _ in 0..4 {
        bench.rounds(20, |_, _| 0.0);
        bench.lose(0, Duration::ZERO);
    }
    assert!(random(&bench));
    let mut noisy = bench.clone();
    for still in [true, false] {
        bench.rounds(20, |_, _| 0.0);
        bench.rounds(1, |_, _| 20.0);
        bench.lose(0, Duration::ZERO);
        assert_eq!(random(&bench), still);
    }
    noisy.rounds(150, |_, _| 5.0);
    for _ in 0..4 {
        noisy.lose(0, Duration::ZERO);
        noisy.rounds(5, |_, _| 5.0);
        assert!(random(&noisy));
    }
}

/// Nine in ten packets meet more than half of the most.
#[test]
fn losses_are_random_in_spite_of_jitter() {
    const DELAYS: [f64; 10] = [0.2, 0.6, 0.7, 0.8, 0.9, 1.0, 0.55, 0.65, 0.75, 0.85];
    let mut bench = Bench::settled(&[100.0]);
    for event in 0..60 {
        bench.rounds(7, |_, round| DELAYS[(7 * event + round) % 10]);
        bench.lose(0, Duration::ZERO);
    }
    assert!(path(&mut bench, 0).queue.random());
}

/// With 8 ms of jitter, many packets meet what looks like a full queue.
#[test]
fn jitter_is_no_full_queue() {
    let mut bench = Bench::settled(&[100.0]);
    let mut samples = 0;
    let mut jitter = |bench: &mut Bench, rounds: usize, queue: f64| {
        for _ in 0..rounds {
            bench.now += RTT;
            let window = bench.windows()[0];
            for _ in 0..8 {
                samples += 1;
                let delay = (queue + 8.0 * noise(samples, 0)) / 1e3;
                bench.ack(0, window / 8.0, Duration::from_secs_f64(delay));
            }
            bench.end_round(0);
        }
    };
    let cuts = |bench: &mut Bench| {
        let before = bench.windows()[0];
        bench.lose(0, Duration::ZERO);
        bench.windows()[0] < before
    };
    let (mut full, mut answered) = (0, 0);
    for event in 0..80 {
        jitter(&mut bench, 7, 0.0);
        full += usize::from(event >= 50 && path(&mut bench, 0).queue.overflows());
        answered += usize::from(cuts(&mut bench) && event >= 50);
    }
    // Only several in a row raise doubt.
    assert!(full > 8 && 2 * answered < full, "{answered} of {full}");
    jitter(&mut bench, 7, 40.0);
    assert!(cuts(&mut bench), "a queue stands behind the jitter");
}

#[test]
fn losses_that_meet_full_queues_are_congestion_however_short_these_are() {
    for most in [1.3, 20.0, 400.0] {
        let mut bench = Bench::settled(&[100.0]);
        for _ in 0..8 {
            bench.rounds(20, |_, round| most * round as f64 / 19.0);
            let before = bench.windows()[0];
            bench.lose(0, Duration::ZERO);
            assert!(bench.windows()[0] < before, "{most} ms");
        }
    }
}

#[test]
fn while_losses_are_random_full_queues_and_heavy_losses_still_count() {
    let mut bench = Bench::settled(&[100.0]);
    for _ in 0..8 {
        bench.rounds(20, |_, _| 0.0);
        bench.lose(0, Duration::ZERO);
    }
    let mut heavy = bench.auto.clone();
    bench.rounds(5, |_, round| 4.0 * round as f64);
    let before = bench.windows()[0];
    bench.lose(0, Duration::ZERO);
    assert!(bench.windows()[0] < before);

    let slot = bench.slots[0];
    let loss = Loss {
        slot,
        now: bench.now,
        sent: bench.now,
        packets: 2.0 * heavy.window(slot),
    };
    heavy.on_further_loss(&loss);
    let before = heavy.window(slot);
    heavy.on_loss(&loss);
    assert!(heavy.window(slot) < before);
}

/// Rounds over a link without a queue that loses one packet in 1,000, and one in 20 of those above
/// 150 in a round: the window before each.
fn shallow(bench: &mut Bench, rounds: usize) -> Vec<f64> {
    let mut due = 0.0;
    let one = |_| {
        let window = bench.windows()[0];
        bench.now += RTT;
        due += window / 1000.0 + (window - 150.0).max(0.0) / 20.0;
        let losses = due as usize;
        for n in 0..=losses {
            bench.ack(0, window / (losses + 1) as f64, Duration::ZERO);
            match n {
                n if n == losses => bench.end_round(0),
                0 => bench.lose(0, Duration::ZERO),
                _ => bench.auto.on_further_loss(&Loss {
                    slot: bench.slots[0],
                    now: bench.now,
                    sent: bench.now,
                    packets: 1.0,
                }),
            }
        }
        due = due.fract();
        window
    };
    (0..rounds).map(one).collect()
}

#[test]
fn losses_that_answer_to_the_rate_are_congestion_for_a_time() {
    let mut bench = Bench::settled(&[100.0]);
    let windows = shallow(&mut bench, 10_000);
    let high = |windows: &[f64]| windows.iter().filter(|w| **w > 150.0).count();
    assert!(windows.iter().all(|window| *window < 300.0));
    assert!((1..1000).contains(&high(&windows)), "{}", high(&windows));
    // The same losses without the limit are random.
    let mut bench = Bench::settled(&[100.0]);
    for round in 0..1000 {
        bench.rounds(1, |_, _| 0.0);
        if round % 5 == 0 {
            bench.lose(0, Duration::ZERO);
        }
    }
    assert!(bench.windows()[0] > 1e6);
}

/// One subflow whose losses are random: one in 1,000 packets, without a queue.
fn random() -> Bench {
    let mut bench = Bench::settled(&[100.0]);
    while !path(&mut bench, 0).rising.free() {
        bench.rounds(10, |_, _| 0.0);
        bench.lose(0, Duration::ZERO);
    }
    bench
}

#[test]
fn in_doubt_a_loss_that_meets_no_queue_cuts_all_subflows() {
    let mut bench = Bench::settled(&[30.0, 30.0]);
    bench.rounds(4, |_, _| 0.0);
    let now = bench.now;
    for n in 0..2 {
        path(&mut bench, n).rising.doubt(now);
    }
    let before = bench.windows();
    bench.lose(0, Duration::ZERO);
    assert!(bench.windows()[1] < before[1]);
}

#[test]
fn doubt_takes_the_window_back_to_what_it_was_while_losses_were_answered() {
    let mut bench = random();
    let before = path(&mut bench, 0).answered;
    bench.rounds(30, |_, _| 0.0);
    assert!(bench.windows()[0] > 2.0 * before);
    let (slot, now) = (bench.slots[0], bench.now);
    bench.auto.set_packet_size(slot, 500);
    path(&mut bench, 0).doubt(now, 1.0);
    assert!((bench.windows()[0] / before - 2.0).abs() < 1e-9);
    assert!(!path(&mut bench, 0).queue.random());
}

/// The path's own round trip becomes longer, as on another route: no queue does that.
#[test]
fn losses_are_random_again_once_a_longer_round_trip_is_usual() {
    let mut bench = random();
    let mut answered = Vec::new();
    for event in 0..200 {
        bench.rounds(8, |_, _| 25.0);
        let before = bench.windows()[0];
        bench.lose(0, Duration::ZERO);
        if bench.windows()[0] < before {
            answered.push(event);
        }
    }
    // The 125th is that of second 40: until then, the longer one counts as a queue.
    let last = *answered.last().unwrap();
    assert!((100..140).contains(&last), "{answered:?}");
    assert!(bench.windows()[0] > 1e6);
}

/// One loss in fifty packets that meet a queue of so many milliseconds; as many packets between
/// them meet none, and a hundred times as many before met a full one. True if doubt rises.
fn doubts_losses_that_meet(queue: f64) -> bool {
    let mut bench = random();
    bench.rounds(100, |_, _| 20.0);
    (0..10).any(|_| {
        bench.rounds(1, |_, _| 0.0);
        bench.now += RTT;
        for _ in 0..bench.windows()[0] as usize / 50 {
            bench.ack(0, 50.0, Duration::from_secs_f64(queue / 1e3));
            bench.lose(0, Duration::ZERO);
        }
        bench.end_round(0);
        let now = bench.now;
        path(&mut bench, 0).rising.doubts(now)
    })
}

#[test]
fn only_losses_that_meet_no_full_queue_raise_doubt() {
    assert!(doubts_losses_that_meet(0.0));
    assert!(!doubts_losses_that_meet(20.0));
}

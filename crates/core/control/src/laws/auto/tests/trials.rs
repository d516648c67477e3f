//! Long queues, and trials of whose they are.

use super::*;

/// Rounds over a link that holds 100 packets on the way, where others have `others` of them. The
/// queue after each, in ms, and our window.
fn fill(bench: &mut Bench, rounds: usize, others: f64) -> Vec<(f64, f64)> {
    let one = |_| {
        let window = bench.windows()[0];
        let queue = 40.0 * ((window + others) / 100.0 - 1.0).max(0.0);
        bench.rounds(1, |_, _| queue);
        (queue, window)
    };
    (0..rounds).map(one).collect()
}

#[test]
fn a_long_queue_that_is_ours_is_kept_short() {
    let mut bench = Bench::settled(&[150.0]);
    fill(&mut bench, 1000, 0.0);
    for (queue, window) in fill(&mut bench, 3000, 0.0) {
        assert!(queue < 40.0 && window >= 100.0, "{queue} ms, {window}");
    }
}

/// A link that holds three packets on the way: two rounds' growth is more of its queue than a trial
/// takes away, and the queue that a round meets is that of the window two rounds ago.
#[test]
fn a_long_queue_of_ours_is_kept_short_where_windows_are_small() {
    let mut bench = Bench::settled(&[9.0]);
    let mut sent = [bench.windows()[0]; 2];
    let mut longest: f64 = 0.0;
    for round in 0..3000 {
        let queue = 40.0 * (sent[1] / 3.0 - 1.0).max(0.0);
        bench.rounds(1, |_, _| queue);
        sent = [bench.windows()[0], sent[0]];
        if round >= 1000 {
            longest = longest.max(queue);
        }
    }
    assert!(longest < 80.0, "{longest} ms");
}

#[test]
fn a_long_queue_of_others_isnt_left_to_them() {
    let mut bench = Bench::settled(&[150.0]);
    let start = bench.windows()[0];
    let windows = fill(&mut bench, 2000, 120.0);
    assert!(
        bench.windows()[0] > 1.5 * start,
        "{start} {:?}",
        bench.windows()
    );
    // Two rounds of every 34 or more with a little less.
    let less = windows.windows(2).filter(|pair| pair[1].1 < pair[0].1);
    assert!((10..=60).contains(&less.count()));
}

/// The first of twenty rounds in which windows fall, and whose, while the queues, in ms, stay what
/// `queue` says.
fn first_dip(bench: &mut Bench, queue: impl Fn(usize) -> f64) -> (usize, Vec<usize>) {
    for round in 0..20 {
        let before = bench.windows();
        bench.rounds(1, |n, _| queue(n));
        let after = bench.windows();
        let fell: Vec<usize> = (0..after.len()).filter(|&n| after[n] < before[n]).collect();
        if !fell.is_empty() {
            return (round, fell);
        }
    }
    panic!("no window fell");
}

#[test]
fn two_trials_in_a_row_are_believed() {
    let mut bench = Bench::settled(&[285.0]);
    let windows = fill(&mut bench, 40, 0.0);
    let drops = windows.windows(2).map(|pair| pair[1].1 / pair[0].1);
    let drops: Vec<f64> = drops.filter(|drop| *drop < 0.97).collect();
    assert!(
        drops[0] > 0.8 && drops[1] > 0.8 && (0.5..0.6).contains(&drops[2]),
        "{drops:?}"
    );
}

/// Just before its first trial, with a queue of 60 ms.
fn before_a_trial() -> Bench {
    let mut bench = Bench::settled(&[100.0]);
    let (rounds, _) = first_dip(&mut bench.clone(), |_| 60.0);
    bench.rounds(rounds, |_, _| 60.0);
    bench
}

#[test]
fn a_trial_leaves_half_of_a_window_that_has_grown_fast() {
    let mut bench = before_a_trial();
    path(&mut bench, 0).before = [10.0; 2];
    let before = bench.windows()[0];
    bench.rounds(1, |_, _| 60.0);
    let left = bench.windows()[0] / before;
    assert!((0.5..0.52).contains(&left), "{left}");
}

#[test]
fn smaller_packets_arent_growth() {
    let mut same = before_a_trial();
    let mut smaller = same.clone();
    smaller.auto.set_packet_size(smaller.slots[0], 500);
    let cuts = [&mut same, &mut smaller].map(|bench| {
        let before = bench.windows()[0];
        bench.rounds(1, |_, _| 60.0);
        bench.windows()[0] / before
    });
    assert!((cuts[0] - cuts[1]).abs() < 0.01, "{cuts:?}");
}

#[test]
fn in_a_trial_windows_stand_still() {
    let mut bench = Bench::settled(&[150.0]);
    let (mut last, mut now) = (0.0, bench.windows()[0]);
    while now >= last {
        fill(&mut bench, 1, 0.0);
        (last, now) = (now, bench.windows()[0]);
    }
    fill(&mut bench, 1, 0.0);
    assert_eq!(bench.windows()[0], now);
}

/// The link's rate may have changed.
#[test]
fn a_queue_that_jumps_in_a_trial_is_soon_asked_about_again() {
    let mut bench = Bench::settled(&[100.0]);
    first_dip(&mut bench, |_| 60.0);
    bench.rounds(2, |_, _| 120.0);
    first_dip(&mut bench, |_| 120.0);
    // Now it stands: others fill it.
    bench.rounds(2, |_, _| 120.0);
    let before = bench.windows();
    bench.rounds(20, |_, _| 120.0);
    assert!(bench.windows()[0] > before[0]);
}

#[test]
fn there_is_no_trial_before_a_loss_has_had_its_effect() {
    let mut bench = Bench::settled(&[100.0]);
    bench.rounds(10, |_, _| 0.0);
    bench.rounds(1, |_, _| 20.0);
    bench.lose(0, Duration::ZERO);
    let (round, _) = first_dip(&mut bench, |_| 60.0);
    assert!((3..12).contains(&round), "{round}");
}

#[test]
fn a_trial_leaves_subflows_with_another_queue_alone() {
    let mut bench = Bench::settled(&[100.0, 100.0]);
    let (_, paths) = first_dip(&mut bench, |n| if n == 0 { 60.0 } else { 6.0 });
    assert_eq!(paths, [0]);
}

#[test]
fn a_loss_in_a_trial_is_answered_as_if_there_had_been_none() {
    let mut bench = Bench::settled(&[150.0]);
    let (mut last, mut now) = (0.0, bench.windows()[0]);
    while now >= last {
        fill(&mut bench, 1, 120.0);
        (last, now) = (now, bench.windows()[0]);
    }
    bench.lose(0, RTT);
    let cut = bench.windows()[0];
    assert!((cut / last - 0.7).abs() < 0.02, "{last} {now} {cut}");
}

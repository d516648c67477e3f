use super::*;

const RTT: Duration = Duration::from_millis(40);

/// Subflows of `auto` in congestion avoidance, each fed a window of acknowledgements per round.
#[derive(Clone)]
struct Bench {
    auto: Auto,
    slots: Vec<Slot>,
    now: Time,
}

impl Bench {
    fn new(windows: &[f64]) -> Self {
        let options = Options::default().with_slow_start(crate::SlowStartKind::Standard);
        let mut auto = Auto::new(options);
        let now = Time::from_secs_f64(1.0);
        let slots: Vec<Slot> = windows
            .iter()
            .map(|&initial_window| {
                auto.add_path(NewPath {
                    now,
                    initial_window,
                    packet_size: 1000,
                    initial_rtt: RTT,
                })
            })
            .collect();
        Bench { auto, slots, now }
    }

    fn windows(&self) -> Vec<f64> {
        self.slots.iter().map(|s| self.auto.window(*s)).collect()
    }

    fn ack(&mut self, n: usize, packets: f64, queue: Duration) {
        self.ack_of(n, packets, RTT, RTT + queue);
    }

    fn ack_of(&mut self, n: usize, packets: f64, min_rtt: Duration, rtt: Duration) {
        self.auto.on_ack(&Ack {
            slot: self.slots[n],
            now: self.now,
            packets,
            rtt,
            rtt_sampled: true,
            smoothed_rtt: rtt,
            min_rtt,
            sent: self.now,
            received: None,
            app_limited: false,
            in_recovery: false,
            delivery: None,
        });
    }

    fn groups(&self) -> Vec<usize> {
        let groups = self.slots.iter().map(|slot| self.auto.group(*slot));
        groups.map(Option::unwrap).collect()
    }

    /// Of the first two.
    fn likeness(&self) -> f64 {
        let [one, other] = [0, 1].map(|n| self.auto.slots.get(self.slots[n]).unwrap());
        one.delays.likeness(&other.delays).unwrap()
    }

    /// A round of `rounds` for all, in which the queues, in ms, are what `queue` says.
    fn rounds(&mut self, rounds: usize, queue: impl Fn(usize, usize) -> f64) {
        for round in 0..rounds {
            self.now += RTT;
            for n in 0..self.slots.len() {
                let delay = Duration::from_secs_f64(queue(n, round) / 1e3);
                let window = self.auto.window(self.slots[n]);
                for _ in 0..4 {
                    self.ack(n, window / 4.0, delay);
                }
                self.end_round(n);
            }
        }
    }

    fn end_round(&mut self, n: usize) {
        let (slot, now) = (self.slots[n], self.now);
        self.auto.on_round_end(&Round { slot, now });
    }

    /// A packet that was sent so long ago is lost.
    fn lose(&mut self, n: usize, ago: Duration) {
        self.auto.on_loss(&Loss {
            slot: self.slots[n],
            now: self.now,
            sent: Time::ZERO + (self.now.since(Time::ZERO) - ago),
            packets: 1.0,
        });
    }

    /// Out of slow start.
    fn settled(windows: &[f64]) -> Self {
        let mut bench = Self::new(windows);
        bench.rounds(1, |_, _| 0.0);
        for n in 0..windows.len() {
            bench.lose(n, Duration::ZERO);
        }
        bench.rounds(2, |_, _| 0.0);
        bench
    }
}

/// Noise of its own for each number, from 0 to 1.
fn noise(n: usize, round: usize) -> f64 {
    let mut x = (n as u64 + 1) * 0x9e37_79b9 + round as u64 / 9 * 0x85eb_ca6b;
    x ^= x >> 15;
    x = x.wrapping_mul(0x2c1b_3c6d_7297_a2d9);
    (x >> 40) as f64 / f64::from(1 << 24)
}

#[test]
fn until_there_is_evidence_all_subflows_are_one_flow() {
    let mut bench = Bench::settled(&[50.0, 20.0]);
    bench.rounds(1, |_, _| 5.0);
    let before = bench.windows();
    bench.lose(1, Duration::ZERO);
    let after = bench.windows();
    for (before, after) in before.iter().zip(&after) {
        assert!((after / before - 0.7).abs() < 1e-9, "{before} {after}");
    }
    // The other's loss belongs to the same event.
    bench.now += RTT / 2;
    bench.lose(0, RTT);
    assert_eq!(bench.windows(), after);
    bench.now += RTT;
    bench.lose(0, RTT / 2);
    assert!(bench.windows()[1] < after[1]);
}

#[test]
fn a_subflow_with_another_queue_isnt_cut() {
    let mut bench = Bench::settled(&[30.0, 30.0]);
    bench.rounds(5, |n, _| if n == 0 { 20.0 } else { 4.0 });
    let before = bench.windows();
    bench.lose(0, Duration::ZERO);
    assert!(bench.windows()[0] < before[0]);
    assert_eq!(bench.windows()[1], before[1]);
    // One that just started may have a share of it before it can tell.
    let mut bench = Bench::settled(&[30.0, 30.0]);
    bench.rounds(5, |n, _| if n == 0 { 20.0 } else { 8.0 });
    let before = bench.windows();
    bench.lose(0, Duration::ZERO);
    assert!(bench.windows()[1] < before[1]);
}

/// Its round trip is six times as long as that of the subflow that loses packets, so that its first
/// cut has no effect yet.
#[test]
fn losses_of_a_faster_subflow_cut_a_slower_one_once_a_round_trip() {
    let slow = RTT * 6;
    let mut bench = Bench::settled(&[50.0, 50.0]);
    bench.end_round(1);
    for _ in 0..16 {
        bench.now += RTT;
        bench.ack(0, 5.0, RTT);
        bench.ack_of(1, 5.0, slow, slow * 2);
    }
    let mut factors = Vec::new();
    for _ in 0..12 {
        bench.now += RTT * 3 / 2;
        let before = bench.windows();
        bench.lose(0, RTT);
        let after = bench.windows();
        factors.push([0, 1].map(|n| after[n] / before[n]));
    }
    let cuts = [0, 1].map(|n| factors.iter().filter(|cut| cut[n] < 0.8).count());
    // All in less than two of its round trips, queue included.
    assert_eq!(cuts, [12, 2], "{factors:?}");
}

#[test]
fn a_silent_subflow_isnt_cut() {
    let silent_for = |round_trips: u32| {
        let mut bench = Bench::settled(&[30.0, 30.0]);
        bench.rounds(5, |_, _| 20.0);
        let before = bench.windows();
        let (slot, round) = (bench.slots[0], RTT + Duration::from_millis(20));
        for _ in 0..round_trips {
            bench.now += round;
            bench.ack(0, 1.0, Duration::from_millis(20));
            let now = bench.now;
            bench.auto.on_round_end(&Round { slot, now });
        }
        bench.lose(0, Duration::ZERO);
        bench.windows()[1] < before[1]
    };
    assert!(silent_for(3));
    assert!(!silent_for(5));
}

/// Their delays change alike, but not as behind one queue: being cut together does that.
#[test]
fn subflows_that_are_only_a_little_alike_arent_cut_together() {
    let cut_with_noise = |own: f64| {
        let mut bench = Bench::settled(&[30.0, 30.0]);
        bench.rounds(300, |n, round| {
            20.0 + 10.0 * noise(7, round) + own * noise(n, round)
        });
        let likeness = bench.likeness();
        let before = bench.windows();
        bench.lose(0, Duration::ZERO);
        assert!(bench.windows()[0] < before[0]);
        assert_eq!(bench.groups(), [0, 0]);
        (likeness, bench.windows()[1] < before[1])
    };
    let (likeness, cut) = cut_with_noise(2.0);
    assert!(likeness > 0.9 && cut, "{likeness}");
    let (likeness, cut) = cut_with_noise(8.0);
    assert!((0.4..0.75).contains(&likeness) && !cut, "{likeness}");
}

#[test]
fn a_loss_that_meets_no_queue_cuts_no_other_subflow() {
    let mut bench = Bench::settled(&[30.0, 30.0]);
    bench.rounds(4, |_, _| 5.0);
    bench.lose(0, Duration::ZERO);
    bench.rounds(4, |_, _| 0.1);
    let before = bench.windows();
    bench.lose(0, Duration::ZERO);
    assert!(bench.windows()[0] < before[0]);
    assert_eq!(bench.windows()[1], before[1]);
}

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
        drops[0] > 0.8 && drops[1] > 0.8 && drops[2] < 0.6,
        "{drops:?}"
    );
}

#[test]
fn smaller_packets_arent_growth() {
    let mut same = Bench::settled(&[100.0]);
    let (rounds, _) = first_dip(&mut same.clone(), |_| 60.0);
    same.rounds(rounds, |_, _| 60.0);
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
fn a_subflow_that_has_just_started_isnt_cut_with_the_others() {
    let mut bench = Bench::settled(&[30.0]);
    bench.slots.push(bench.auto.add_path(NewPath {
        now: bench.now,
        initial_window: 10.0,
        packet_size: 1000,
        initial_rtt: RTT,
    }));
    bench.rounds(3, |n, _| if n == 0 { 4.0 } else { 2.0 });
    let before = bench.windows();
    bench.lose(0, Duration::ZERO);
    assert!(bench.windows()[0] < before[0]);
    assert_eq!(bench.windows()[1], before[1]);
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

#[test]
fn subflows_whose_delays_change_apart_are_flows_of_their_own() {
    let mut apart = Bench::settled(&[30.0, 30.0]);
    apart.rounds(300, |n, round| 8.0 * noise(n, round));
    apart.rounds(1, |_, _| 9.0);
    let before = apart.windows();
    apart.lose(0, Duration::ZERO);
    assert!(apart.windows()[0] < before[0]);
    assert_eq!(apart.windows()[1], before[1]);
    // Together again, once they change alike.
    apart.rounds(400, |_, round| 8.0 * noise(0, round));
    apart.rounds(1, |_, _| 9.0);
    let before = apart.windows();
    apart.lose(0, Duration::ZERO);
    assert!(apart.windows()[1] < before[1]);
}

#[test]
fn a_new_subflow_joins_the_fastest_group_and_brings_no_groups_together() {
    let mut bench = Bench::settled(&[30.0, 60.0]);
    bench.rounds(300, |n, round| 8.0 * noise(n, round));
    bench.slots.push(bench.auto.add_path(NewPath {
        now: bench.now,
        initial_window: 10.0,
        packet_size: 1000,
        initial_rtt: RTT,
    }));
    bench.rounds(30, |n, round| 8.0 * noise(n, round));
    let groups = bench.groups();
    assert_ne!(groups[0], groups[1]);
    assert_eq!(groups[2], groups[1]);
}

#[test]
fn together_they_grow_as_one_flow() {
    let mut one = Bench::settled(&[60.0]);
    let mut four = Bench::settled(&[15.0; 4]);
    for rounds in [50, 100, 150] {
        one.rounds(rounds, |_, _| 1.0);
        four.rounds(rounds, |_, _| 1.0);
        let (one, four) = (one.windows()[0], four.windows().iter().sum::<f64>());
        assert!((four / one - 1.0).abs() < 0.02, "{one} {four}");
    }
}

#[test]
fn a_subflow_that_went_dark_leaves_its_growth_to_the_others() {
    let grown = |dark: bool| {
        let mut bench = Bench::settled(&[30.0, 30.0]);
        bench.rounds(50, |_, _| 1.0);
        if dark {
            bench.slots.pop();
        }
        bench.rounds(100, |_, _| 1.0);
        bench.lose(0, Duration::ZERO);
        let cut = bench.windows()[0];
        bench.rounds(100, |_, _| 1.0);
        bench.windows()[0] / cut
    };
    let (alone, both) = (grown(true), grown(false));
    assert!(alone > 1.05 * both, "{alone} {both}");
}

#[test]
fn losses_that_dont_prefer_full_queues_are_random() {
    let mut bench = Bench::settled(&[100.0]);
    assert!(bench.windows()[0] < 150.0, "the first one is answered");
    let mut answered = Vec::new();
    for event in 0..8 {
        bench.rounds(20, |_, round| f64::from(u8::from(round == 10)));
        let before = bench.windows()[0];
        bench.lose(0, Duration::ZERO);
        if bench.windows()[0] < before {
            answered.push(event);
        }
    }
    assert!(answered.is_empty(), "{answered:?}");
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
        bench.rounds(1, |_, _| 0.0);
        due += window / 1000.0 + (window - 150.0).max(0.0) / 20.0;
        for n in 0..due as usize {
            match n {
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

fn path(bench: &mut Bench, n: usize) -> &mut Subflow {
    bench.auto.slots.get_mut(bench.slots[n]).unwrap()
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

/// One loss in fifty packets that meet a queue of so many milliseconds; as many packets between
/// them meet none, and a hundred times as many before met a full one. True if doubt rises.
fn doubts_losses_that_meet(queue: f64) -> bool {
    let mut bench = random();
    bench.rounds(100, |_, _| 20.0);
    (0..10).any(|_| {
        bench.rounds(1, |_, _| 0.0);
        bench.rounds(1, |_, _| queue);
        let one_in_fifty = bench.windows()[0] as usize / 50;
        (0..one_in_fifty).for_each(|_| bench.lose(0, Duration::ZERO));
        let now = bench.now;
        path(&mut bench, 0).rising.doubts(now)
    })
}

#[test]
fn only_losses_that_meet_no_full_queue_raise_doubt() {
    assert!(doubts_losses_that_meet(0.0));
    assert!(!doubts_losses_that_meet(20.0));
}

#[test]
fn no_round_trip_time_is_too_long_to_wait_for() {
    assert_eq!(seconds(1e30), Duration::from_secs(3600));
    assert_eq!(seconds(1e-3), Duration::from_millis(1));
}

#[test]
fn a_cut_is_undone_for_all_when_nobodys_packets_were_lost() {
    let mut bench = Bench::settled(&[50.0, 20.0]);
    bench.rounds(1, |_, _| 5.0);
    let before = bench.windows();
    bench.lose(0, Duration::ZERO);
    bench.lose(1, RTT);
    bench.auto.on_spurious_loss(bench.slots[0], bench.now);
    assert!(bench.windows()[0] < before[0]);
    bench.auto.on_spurious_loss(bench.slots[1], bench.now);
    assert_eq!(bench.windows(), before);
}

use super::*;

mod random;
mod trials;

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
        match one.likeness(other) {
            Likeness::Known(likeness) => likeness,
            unknown => panic!("{unknown:?}"),
        }
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

fn path(bench: &mut Bench, n: usize) -> &mut Subflow {
    bench.auto.slots.get_mut(bench.slots[n]).unwrap()
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
        if factors.len() == 1 {
            // It waits for its own round trips before a trial.
            let waits = path(&mut bench, 1).settles.since(bench.now);
            assert!(waits > 4 * slow, "{waits:?}");
        }
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

/// If it shared their queue, it would have most of its losses.
#[test]
fn losses_of_a_much_slower_subflow_dont_cut_a_faster_one() {
    for (times, cut) in [(12.0, true), (20.0, false)] {
        let mut bench = Bench::settled(&[10.0, 10.0 * times]);
        bench.rounds(5, |_, _| 20.0);
        let before = bench.windows();
        bench.lose(0, Duration::ZERO);
        assert!(bench.windows()[0] < before[0]);
        assert_eq!(bench.windows()[1] < before[1], cut);
        // Its own losses cut the slower one, too.
        bench.now += RTT * 2;
        bench.lose(1, RTT);
        assert!(bench.windows()[1] < before[1]);
    }
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
        one.rounds(rounds, |_, round| 8.0 * noise(0, round));
        four.rounds(rounds, |_, round| 8.0 * noise(0, round));
        let (one, four) = (one.windows()[0], four.windows().iter().sum::<f64>());
        assert!((four / one - 1.0).abs() < 0.02, "{one} {four}");
    }
}

/// Behind a policer, say: nothing shows whether they share it.
#[test]
fn where_no_queue_shows_each_subflow_is_cut_alone() {
    let cuts_others = |queue: f64| {
        let mut bench = Bench::settled(&[30.0, 30.0]);
        bench.rounds(150, |_, _| queue);
        let before = bench.windows();
        bench.lose(0, Duration::ZERO);
        assert!(bench.windows()[0] < before[0]);
        assert_eq!(bench.groups(), [0, 0]);
        bench.windows()[1] < before[1]
    };
    assert!(!cuts_others(0.1));
    // A long queue that hardly changes may still be one queue.
    assert!(cuts_others(20.0));
}

#[test]
fn subflows_that_are_cut_alone_grow_more_slowly() {
    let mut bench = Bench::settled(&[30.0; 4]);
    bench.rounds(150, |_, _| 0.1);
    (0..4).for_each(|n| bench.lose(n, Duration::ZERO));
    let before = bench.windows()[0];
    bench.rounds(20, |_, _| 0.1);
    // A quarter of a flow, half as fast on Reno's line; the curve is a little faster here.
    let grown = (bench.windows()[0] - before) / 20.0;
    assert!(grown > ALPHA / 8.0 && grown < ALPHA / 4.0, "{grown}");
}

/// Those that are known to be behind other queues, and those that are dark, don't count.
#[test]
fn only_its_group_makes_a_subflow_grow_more_slowly() {
    let mut bench = Bench::settled(&[30.0; 3]);
    bench.rounds(300, |n, round| 8.0 * noise(n.min(1), round));
    assert_eq!(bench.groups(), [0, 1, 1]);
    bench.rounds(600, |_, _| 0.1);
    assert_eq!(bench.groups(), [0, 1, 1]);
    let alone_of = |bench: &mut Bench| [0, 1, 2].map(|n| path(bench, n).alone_of);
    assert_eq!(alone_of(&mut bench), [1.0, 2.0, 2.0]);
    let dark = bench.slots.pop();
    bench.rounds(100, |_, _| 0.1);
    bench.slots.extend(dark);
    assert_eq!(alone_of(&mut bench)[..2], [1.0, 1.0]);
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

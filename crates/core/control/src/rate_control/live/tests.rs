use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn config(paths: usize, reselection: Reselection, demand: Option<f64>) -> LiveConfig {
    LiveConfig::new(
        SelectConfig::new(paths).with_reselection(reselection),
        demand,
    )
}

/// Relays of these bandwidths, bytes/s, used by one source that asks for all it can get.
struct Bench {
    selector: LiveSelector,
    bandwidths: Vec<f64>,
    now: Time,
    direct: f64,
    delivered: f64,
    through: Vec<(RelayKey, u64)>,
    starved: Duration,
    changes: Vec<(Time, Reason)>,
    few: Vec<Selected>,
}

impl Bench {
    fn new(config: LiveConfig, bandwidths: &[f64], seed: u64) -> Self {
        let mut selector = LiveSelector::new(config, seed).unwrap();
        for n in 0..bandwidths.len() {
            selector.set(RelayKey(n as u64), Liveness::Alive);
        }
        Self {
            selector,
            bandwidths: bandwidths.to_vec(),
            now: Time::ZERO,
            direct: 0.0,
            delivered: 0.0,
            through: (0..bandwidths.len())
                .map(|n| (RelayKey(n as u64), 0))
                .collect(),
            starved: Duration::ZERO,
            changes: Vec::new(),
            few: Vec::new(),
        }
    }

    /// A second goes by, in which the paths in use carry what they can, up to the demand.
    fn step(&mut self) {
        let used: Vec<usize> = self
            .selector
            .relays()
            .map(|relay| relay.0 as usize)
            .collect();
        let all = self.direct + used.iter().map(|&n| self.bandwidths[n]).sum::<f64>();
        let demand = self.selector.config().demand.unwrap_or(f64::INFINITY);
        let share = (demand / all.max(1e-9)).min(1.0);
        self.delivered += all * share;
        for n in used {
            self.through[n].1 += (self.bandwidths[n] * share) as u64;
        }
        self.now += SECOND;
        self.look();
    }

    fn look(&mut self) {
        let measured = Measured {
            delivered: self.delivered as u64,
            starved: self.starved,
            rtt: Duration::from_millis(20),
            relays: &self.through,
        };
        self.selector.on_timeout(self.now, &measured);
        while let Some(selected) = self.selector.next_selected() {
            match selected {
                Selected::Changed { reason, .. } => self.changes.push((self.now, reason)),
                few @ Selected::Few { .. } => self.few.push(few),
            }
        }
    }

    fn used(&self) -> BTreeSet<u64> {
        self.selector.relays().map(|relay| relay.0).collect()
    }

    fn run(&mut self, seconds: u32) {
        (0..seconds).for_each(|_| self.step());
    }
}

/// Six relays, of which two together satisfy: there are 15 pairs. By k-reselection each iteration
/// finds it with a probability of 1/15, so 200 iterations fail with one of 1e-6. By 1-reselection
/// one of the two good ones is soon there, stays as it is the faster one, and the other is drawn
/// with a probability of 1/4 in each: 200 fail with less than 1e-24.
#[test]
fn both_reselections_find_the_relays_that_satisfy() {
    let bandwidths = [1e5, 1e5, 5e5, 1e5, 5e5, 1e5];
    for reselection in [Reselection::All, Reselection::Slowest] {
        for seed in 0..20 {
            let mut bench = Bench::new(config(2, reselection, Some(1e6)), &bandwidths, seed);
            bench.run(2000);
            assert_eq!(
                bench.used(),
                BTreeSet::from([2, 4]),
                "{reselection:?} {seed}"
            );
            let judged = bench.selector.judgements();
            assert_eq!(judged.last, Some((1e6, true)));
            assert!(judged.reselections < 200, "{judged:?}");
            // Satisfied, it never chooses again.
            let changes = bench.changes.len();
            bench.run(300);
            assert_eq!(bench.changes.len(), changes);
            assert!(bench.selector.judgements().iterations > judged.iterations + 30);
        }
    }
}

#[test]
fn the_rate_without_relays_counts() {
    let mut bench = Bench::new(config(1, Reselection::All, Some(1e6)), &[1e5, 1e5, 1e5], 1);
    bench.direct = 9e5;
    bench.run(100);
    assert_eq!(bench.changes.len(), 1, "{:?}", bench.changes);
}

/// What has satisfied once may do so a little less; what hasn't may not.
#[test]
fn a_source_that_was_satisfied_isnt_moved_by_a_moment() {
    let mut bench = Bench::new(config(1, Reselection::Slowest, Some(1e6)), &[0.0; 9], 1);
    bench.direct = 0.96e6;
    bench.run(20);
    bench.direct = 0.92e6;
    bench.run(50);
    assert_eq!(bench.selector.judgements().reselections, 0);
    bench.direct = 0.89e6;
    bench.run(20);
    bench.direct = 0.92e6;
    let before = bench.selector.judgements().reselections;
    assert!(before > 0);
    bench.run(50);
    assert!(bench.selector.judgements().reselections >= before + 4);
}

#[test]
fn without_a_demand_only_the_dead_are_replaced() {
    for seed in 0..20 {
        let mut bench = Bench::new(config(2, Reselection::All, None), &[1.0; 5], seed);
        bench.run(100);
        let first = bench.used();
        assert_eq!((first.len(), bench.changes.len()), (2, 1));
        let dead = *first.first().unwrap();
        bench.selector.set(RelayKey(dead), Liveness::Dead);
        bench.look();
        let second = bench.used();
        assert!(!second.contains(&dead) && second.len() == 2);
        assert_eq!(second.intersection(&first).count(), 1);
        assert_eq!(bench.changes[1], (bench.now, Reason::Vacancy));
        // Nobody else is left: what is dead is kept, and what is gone is not.
        for relay in 0..5 {
            bench.selector.set(RelayKey(relay), Liveness::Dead);
        }
        bench.look();
        assert_eq!(bench.used(), second);
        bench
            .selector
            .set(RelayKey(*second.first().unwrap()), Liveness::Gone);
        bench.look();
        assert_eq!(bench.used().len(), 1);
        bench.selector.set(RelayKey(dead), Liveness::Alive);
        bench.look();
        assert_eq!(
            bench.used(),
            BTreeSet::from([dead]),
            "in the dead one's place"
        );
        assert_eq!(bench.selector.judgements(), Judgements::default());
    }
}

#[test]
fn the_first_choice_waits_for_those_that_are_far_away() {
    let seeds = 0..400;
    let late = seeds.clone().filter(|&seed| {
        let mut bench = Bench::new(config(1, Reselection::All, None), &[1.0, 1.0], seed);
        bench.selector.set(RelayKey(1), Liveness::Unanswered);
        bench.look();
        assert_eq!(bench.used().len(), 0);
        bench.now += SECOND;
        bench.selector.set(RelayKey(1), Liveness::Alive);
        bench.look();
        bench.used().contains(&1)
    });
    // Half of 400, with a standard deviation of 10.
    assert!((150..=250).contains(&late.count()));
    // But not for ever.
    let mut bench = Bench::new(config(1, Reselection::All, None), &[1.0, 1.0], 1);
    bench.selector.set(RelayKey(1), Liveness::Unanswered);
    bench.look();
    assert_eq!(bench.selector.timeout(), Some(Time::ZERO + 2 * SECOND));
    bench.run(2);
    assert_eq!(bench.used(), BTreeSet::from([0]));
}

#[test]
fn the_relay_that_led_there_is_one_of_the_first() {
    for seed in 0..20 {
        let mut bench = Bench::new(config(2, Reselection::All, None), &[1.0; 5], seed);
        bench.selector.adopt(RelayKey(3));
        bench.look();
        assert!(bench.used().contains(&3) && bench.used().len() == 2);
        bench.selector.adopt(RelayKey(4));
        assert_eq!(bench.used().len(), 2);
    }
}

#[test]
fn that_too_few_are_alive_is_told_once() {
    let mut bench = Bench::new(config(3, Reselection::All, Some(1e9)), &[1.0; 4], 1);
    bench.selector.set(RelayKey(0), Liveness::Unanswered);
    bench.selector.set(RelayKey(1), Liveness::Dead);
    bench.run(9);
    assert_eq!(bench.used(), BTreeSet::from([2, 3]));
    assert!(bench.few.is_empty());
    bench.run(100);
    assert_eq!(bench.few, [Selected::Few { alive: 2, known: 4 }]);
}

#[test]
fn a_source_with_nothing_to_send_isnt_judged() {
    let mut bench = Bench::new(config(1, Reselection::All, Some(1e6)), &[1e5; 3], 1);
    for _ in 0..100 {
        bench.starved += SECOND / 4;
        bench.step();
    }
    assert_eq!(bench.selector.judgements().iterations, 0);
    bench.run(20);
    assert!(bench.selector.judgements().iterations > 0);
}

#[test]
fn iterations_are_longer_where_round_trips_are() {
    let mut selector = LiveSelector::new(config(1, Reselection::All, Some(1e6)), 1).unwrap();
    selector.set(RelayKey(0), Liveness::Alive);
    let measured = Measured {
        rtt: Duration::from_millis(500),
        ..Measured::default()
    };
    selector.on_timeout(Time::ZERO, &measured);
    let mut now = Time::ZERO;
    while selector.judgements().iterations == 0 {
        now = selector.timeout().unwrap();
        selector.on_timeout(now, &measured);
    }
    assert_eq!(now, Time::ZERO + 40 * SECOND);
}

/// Relays that carried something are drawn by it, and others by the mean of these, within what they
/// allow.
#[test]
fn a_proportional_choice_goes_by_use() {
    let select = SelectConfig::new(1).with_choice(Choice::Proportional { error: 0.0 });
    let mut counts = [0_i32; 4];
    for seed in 0..4000 {
        let mut selector = LiveSelector::new(LiveConfig::new(select, Some(1e9)), seed).unwrap();
        for n in 0..4 {
            selector.set(RelayKey(n), Liveness::Alive);
            selector.set_bound(RelayKey(n), if n == 3 { 1.0 } else { 1e9 });
        }
        selector.relays[0].carried = Some(3.0);
        selector.relays[1].carried = Some(1.0);
        selector.on_timeout(Time::ZERO, &Measured::default());
        counts[selector.relays().next().unwrap().0 as usize] += 1;
    }
    // 3, 1, their mean of 2, and 1: in 7ths of 4000, with standard deviations up to 32.
    for (count, share) in counts.iter().zip([3.0, 1.0, 2.0, 1.0]) {
        let expected = share / 7.0 * 4000.0;
        assert!((f64::from(*count) - expected).abs() < 160.0, "{counts:?}");
    }
}

#[test]
fn what_cannot_work_is_said() {
    let new = |config: LiveConfig| {
        LiveSelector::new(config, 1)
            .map(drop)
            .unwrap_err()
            .to_string()
    };
    assert!(new(config(0, Reselection::All, None)).contains("number of paths"));
    assert!(new(config(1, Reselection::All, Some(0.0))).contains("demand"));
    assert!(new(config(1, Reselection::Everyone, None)).contains("reselection"));
    let mut none = config(1, Reselection::All, Some(1.0));
    none.judge = Duration::ZERO;
    assert!(new(none).contains("iteration"));
}

#[derive(Clone, Debug)]
enum Step {
    Set(u64, Liveness),
    Wait(u64, u64),
}

fn step() -> impl Strategy<Value = Step> {
    let liveness = prop_oneof![
        3 => Just(Liveness::Alive),
        2 => Just(Liveness::Dead),
        1 => Just(Liveness::Unanswered),
        1 => Just(Liveness::Gone),
    ];
    prop_oneof![
        (0..8_u64, liveness).prop_map(|(relay, liveness)| Step::Set(relay, liveness)),
        (0..20_000_u64, 0..2_000_000_u64).prop_map(|(ms, bytes)| Step::Wait(ms, bytes)),
    ]
}

proptest! {
    /// Never more relays than paths, never one twice, never a dead one while one that is alive is
    /// idle; and time goes on.
    #[test]
    fn whatever_happens_to_relays(
        paths in 1..5_usize,
        slowest: bool,
        proportional: bool,
        demand in proptest::option::of(1.0..1e6_f64),
        seed: u64,
        steps in proptest::collection::vec(step(), 1..60),
    ) {
        let choice = match proportional {
            true => Choice::Proportional { error: 0.5 },
            false => Choice::Uniform,
        };
        let reselection = if slowest { Reselection::Slowest } else { Reselection::All };
        let select = SelectConfig::new(paths).with_choice(choice).with_reselection(reselection);
        let mut selector = LiveSelector::new(LiveConfig::new(select, demand), seed).unwrap();
        let (mut now, mut delivered, mut standings) = (Time::ZERO, 0, BTreeMap::new());
        let (mut used, mut chosen) = (BTreeSet::new(), false);
        for step in steps {
            match step {
                Step::Set(relay, liveness) => {
                    selector.set(RelayKey(relay), liveness);
                    standings.insert(RelayKey(relay), liveness);
                }
                Step::Wait(ms, bytes) => {
                    now += Duration::from_millis(ms);
                    delivered += bytes;
                }
            }
            let relays: Vec<_> = (0..8).map(|n| (RelayKey(n), delivered / (n + 2))).collect();
            let measured = Measured { delivered, relays: &relays, ..Measured::default() };
            selector.on_timeout(now, &measured);
            while let Some(selected) = selector.next_selected() {
                if let Selected::Changed { dropped, taken, .. } = selected {
                    chosen = true;
                    prop_assert!(dropped.iter().all(|relay| used.remove(relay)));
                    prop_assert!(taken.iter().all(|relay| used.insert(*relay)));
                }
            }
            let now_used: Vec<RelayKey> = selector.relays().collect();
            prop_assert!(now_used.len() <= paths);
            prop_assert_eq!(
                used.iter().copied().collect::<BTreeSet<_>>(),
                now_used.iter().copied().collect()
            );
            prop_assert_eq!(used.len(), now_used.len(), "one twice");
            let liveness = |relay: &RelayKey| standings.get(relay).copied();
            prop_assert!(!used.iter().any(|relay| liveness(relay) == Some(Liveness::Gone)));
            let idle = standings
                .iter()
                .any(|(relay, s)| *s == Liveness::Alive && !used.contains(relay));
            let worse = used.iter().any(|relay| liveness(relay) != Some(Liveness::Alive));
            if chosen {
                prop_assert!(!idle || !worse && used.len() == paths);
            }
            prop_assert!(selector.timeout().is_none_or(|at| at > now));
        }
    }
}

use manyway_wire::relay::RelayType;

use super::super::core::tests::{exchange, grant, new_path, paths};
use super::super::paths::{NewPath, RelayHeader};
use super::rates::Wander;
use super::*;

const STEP: Duration = Duration::from_millis(20);
const RTT: Duration = Duration::from_millis(40);

/// What paths carry, in bytes per step: the direct ones alone, all together, and the relays' part
/// of that.
#[derive(Copy, Clone)]
struct Carries {
    direct: u64,
    all: u64,
    relays: u64,
}

/// A transfer over such paths.
struct Transfer {
    worth: Worth,
    seen: Seen,
    windows: Vec<Windows>,
}

impl Transfer {
    fn new() -> Self {
        let seen = Seen {
            now: Time::ZERO,
            unsatisfied: true,
            delivered: 0,
            relayed: 0,
            direct: Some(true),
            relays: Some(true),
            direct_rtt: RTT,
            rtt: RTT,
        };
        Self {
            worth: Worth::new(Time::ZERO),
            seen,
            windows: Vec::new(),
        }
    }

    /// The relays' part of what is carried in this time.
    fn run(&mut self, time: Duration, carries: Carries) -> f64 {
        let (delivered, relayed) = (self.seen.delivered, self.seen.relayed);
        let end = self.seen.now + time;
        while self.seen.now < end {
            self.seen.now += STEP;
            let used = match self.seen.direct {
                Some(_) => self.worth.uses_relays(),
                None => true,
            };
            self.seen.delivered += if used { carries.all } else { carries.direct };
            self.seen.relayed += if used { carries.relays } else { 0 };
            self.windows.extend(self.worth.look(&self.seen));
        }
        (self.seen.relayed - relayed) as f64 / (self.seen.delivered - delivered) as f64
    }
}

const SHARED: Carries = Carries {
    direct: 10_000,
    all: 10_000,
    relays: 5_000,
};
const APART: Carries = Carries {
    direct: 10_000,
    all: 20_000,
    relays: 10_000,
};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn relays_behind_the_direct_paths_bottleneck_carry_next_to_nothing() {
    let mut transfer = Transfer::new();
    let first = transfer.run(seconds(60), SHARED);
    assert!(first < 0.02, "{first}");
    assert!(!transfer.worth.uses_relays());
    // However long it takes.
    let later = transfer.run(seconds(3600), SHARED);
    assert!(later > 0.0 && later < 0.02, "{later}");
}

#[test]
fn relays_that_add_something_are_used_but_for_a_look_now_and_then() {
    let mut transfer = Transfer::new();
    let share = transfer.run(seconds(60), APART);
    assert!(share > 0.48, "{share}");
    let share = transfer.run(seconds(600), APART);
    assert!(share > 0.495, "{share}");
    // They are dropped soon after they have become useless, though not at once.
    let share = transfer.run(seconds(200), SHARED);
    assert!(share < 0.35, "{share}");
    assert!(!transfer.worth.uses_relays());
}

/// The direct paths fall to a third, which the relays aren't behind.
#[test]
fn relays_are_tried_early_if_the_direct_paths_have_less_than_before() {
    let mut transfer = Transfer::new();
    transfer.run(seconds(300), SHARED);
    let fallen = Carries {
        direct: 3_000,
        all: 8_000,
        relays: 5_000,
    };
    let share = transfer.run(seconds(10), fallen);
    assert!(share > 0.4, "{share}");
    assert!(transfer.worth.uses_relays());
}

#[test]
fn without_a_direct_path_relays_are_used_and_not_put_aside_at_once_when_one_comes() {
    let mut transfer = Transfer::new();
    transfer.run(seconds(30), SHARED);
    assert!(!transfer.worth.uses_relays());
    transfer.seen.direct = None;
    transfer.run(seconds(10), SHARED);
    assert!(transfer.worth.uses_relays());
    transfer.seen.direct = Some(true);
    transfer.run(seconds(2), SHARED);
    assert!(transfer.worth.uses_relays());
    transfer.run(seconds(10), SHARED);
    assert!(!transfer.worth.uses_relays());
}

/// What the bottleneck has varies more from one measurement to the next than relays could add.
#[test]
fn chance_doesnt_make_relays_behind_the_bottleneck_useful() {
    let mut random = 1u64;
    let mut shares: Vec<f64> = (0..101)
        .map(|_| {
            let mut transfer = Transfer::new();
            let (mut log, mut relayed) = (0.0, 0.0);
            for _ in 0..200 {
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                let step = (random >> 40) as f64 / f64::from(1 << 24) - 0.5;
                log = 0.9 * log + 0.6 * step;
                let all = (10_000.0 * f64::exp(log)) as u64;
                let carries = Carries {
                    direct: all,
                    all,
                    relays: all / 3,
                };
                relayed += transfer.run(Duration::from_millis(200), carries);
            }
            relayed / 200.0
        })
        .collect();
    shares.sort_by(f64::total_cmp);
    let (median, high) = (shares[50], shares[90]);
    assert!(median > 0.0 && median < 0.05, "{median}");
    assert!(high < 0.12, "{high}");
}

#[test]
fn a_trial_that_does_harm_is_broken_off() {
    let harmed = Carries {
        direct: 10_000,
        all: 6_000,
        relays: 2_000,
    };
    let mut transfer = Transfer::new();
    transfer.run(seconds(120), harmed);
    let lost = 120 * 50 * 10_000 - transfer.seen.delivered;
    // Half a second of what the direct paths have, in all trials.
    assert!(lost > 0 && lost < 250_000, "{lost}");
}

#[test]
fn a_new_relay_is_tried_within_the_budget() {
    let mut transfer = Transfer::new();
    transfer.run(seconds(200), SHARED);
    assert!(!transfer.worth.uses_relays());
    transfer.worth.on_new_relay(transfer.seen.now);
    transfer.run(seconds(5), APART);
    assert!(transfer.worth.uses_relays());
    // Whoever brings new ones all the time doesn't make others carry everything.
    let mut transfer = Transfer::new();
    let (mut relayed, mut all) = (0.0, 0.0);
    for _ in 0..600 {
        transfer.worth.on_new_relay(transfer.seen.now);
        relayed += transfer.run(seconds(1), SHARED);
        all += 1.0;
    }
    assert!(relayed / all < 0.04, "{}", relayed / all);
}

#[test]
fn nothing_is_learned_while_there_is_nothing_to_send() {
    let mut transfer = Transfer::new();
    transfer.seen.unsatisfied = false;
    transfer.run(seconds(60), SHARED);
    assert!(transfer.windows.is_empty() && !transfer.worth.uses_relays());
}

/// As a lossy relay, which carries next to nothing while its window is small.
const FEW: Carries = Carries {
    direct: 10_000,
    all: 10_700,
    relays: 800,
};

impl Transfer {
    /// Just after so many trials in which relays carried so much, and were found to add something.
    fn after_trials(trials: u32, carries: Carries) -> Self {
        let mut transfer = Self::new();
        for _ in 0..trials {
            for used in [true, false] {
                while transfer.worth.uses_relays() == used {
                    transfer.run(STEP, carries);
                }
            }
            transfer.run(seconds(1), carries);
            assert!(transfer.worth.uses_relays());
        }
        transfer
    }
}

/// That the direct paths vary by more than relays had added when they carried next to nothing
/// doesn't say that they add nothing when they carry more.
#[test]
fn relays_that_have_grown_since_they_were_judged_are_judged_anew() {
    let mut transfer = Transfer::after_trials(2, FEW);
    let shares = (0..15).flat_map(|_| {
        [9_000, 11_000].map(|direct| {
            let carries = Carries {
                direct,
                all: direct + 10_000,
                relays: 10_000,
            };
            transfer.run(seconds(1), carries)
        })
    });
    let share = shares.sum::<f64>() / 30.0;
    assert!(share > 0.4, "{share}");
}

/// Paths that haven't settled yet have a rate of their own, once.
#[test]
fn what_happens_once_isnt_how_much_a_rate_varies() {
    let deviation = |rates: &[f64]| {
        let mut wander = Wander::default();
        rates.iter().for_each(|rate| wander.add(*rate));
        wander.deviation()
    };
    assert_eq!(deviation(&[]), 0.0);
    assert_eq!(deviation(&[100.0]), 0.0);
    assert_eq!(deviation(&[50.0, 100.0, 100.0]), 0.0);
    assert!((deviation(&[90.0, 110.0]) - 0.148).abs() < 0.001);
    assert!((deviation(&[90.0, 110.0].repeat(20)) - 0.148).abs() < 0.001);
    assert!((deviation(&[80.0, 90.0, 100.0, 110.0, 120.0]) - 0.148).abs() < 0.001);
    // It says nothing about what was long ago.
    assert_eq!(deviation(&[[50.0; 9], [100.0; 9]].concat()), 0.0);
}

/// Relays of a law that gives them a share slowly aren't judged before they have one.
#[test]
fn relays_that_carry_little_are_let_be() {
    let mut transfer = Transfer::new();
    let slow = Carries {
        direct: 10_000,
        all: 10_000,
        relays: 300,
    };
    transfer.run(seconds(120), slow);
    assert!(transfer.worth.uses_relays());
    transfer.run(seconds(5), SHARED);
    assert!(!transfer.worth.uses_relays());
}

#[test]
fn windows_are_noted_before_a_trial_and_restored_after_it() {
    let mut transfer = Transfer::new();
    transfer.run(seconds(10), SHARED);
    assert_eq!(
        transfer.windows,
        [
            Windows::Note,
            Windows::Restore(3),
            Windows::Restore(2),
            Windows::Restore(1),
        ]
    );
}

#[test]
fn what_came_through_relays_is_kept_when_their_paths_fall_silent_or_are_closed() {
    let mut paths = paths(true);
    let mut detours = Detours::new(Time::ZERO, &Config::default());
    let mut open = |id, relay| {
        let new = NewPath {
            relay,
            ..new_path(id)
        };
        let index = paths.add(Time::ZERO, new, None);
        paths.on_validated(index, Some(RTT));
        exchange(Time::ZERO + RTT, &mut paths, index, 1, 1);
        index
    };
    let header = || Some(RelayHeader::back(grant(RelayType::Forward4), 1));
    let [direct, first, second] =
        [(1, None), (2, header()), (3, header())].map(|(id, relay)| open(id, relay));
    let relayed = |paths: &PathSet, detours: &Detours| {
        let view = View {
            paths,
            unsatisfied: true,
            acked: 3600,
        };
        seen(Time::ZERO, &view, detours.closed).relayed
    };
    assert_eq!(relayed(&paths, &detours), 2400);
    paths.stall(Time::ZERO, first);
    assert_eq!(relayed(&paths, &detours), 2400);
    for index in [second, direct] {
        detours.on_closing(&paths[index]);
        paths.close(Time::ZERO, index);
        assert_eq!(relayed(&paths, &detours), 2400);
    }
}

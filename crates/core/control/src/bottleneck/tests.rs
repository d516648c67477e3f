use std::f64::consts::TAU;

use manyway_units::Time;
use proptest::prelude::*;

use super::estimator::Estimator;
use super::grouping::{Observed, groups};
use super::losses::{LossInterval, LossLog, chance_of_overlaps};
use super::*;
use crate::{
    Ack, AckInfo, Controller, LawSpec, Loss, NewPath, Options, Outcome, Sender, SenderConfig, Sent,
};

const MS: Duration = Duration::from_millis(1);

fn config() -> BottleneckConfig {
    BottleneckConfig {
        interval: 100 * MS,
        ..BottleneckConfig::default()
    }
}

/// An estimator that has seen a delay every 5 ms for `span`.
fn seen(span: Duration, delay: impl Fn(f64) -> f64) -> (Estimator, Option<Estimate>) {
    let mut estimator = Estimator::new(config());
    let mut now = Time::from_millis(3);
    while now < Time::ZERO + span {
        let at = now.as_secs_f64();
        estimator.on_acked(now, 1.0, Some(delay(at)));
        now += 5 * MS;
    }
    let estimate = estimator.estimate(now);
    (estimator, estimate)
}

/// A queue that is mostly empty, with a burst now and then.
fn idle(at: f64) -> f64 {
    if at % 1.0 < 0.1 {
        0.05
    } else {
        0.001 * at.fract()
    }
}

/// A queue that a sawtooth with this period fills.
fn busy(period: f64) -> impl Fn(f64) -> f64 {
    move |at| 0.2 + 0.05 * (at / period).fract().sqrt()
}

#[test]
fn a_queue_that_is_mostly_empty_is_no_bottleneck_and_one_that_is_mostly_full_is() {
    let (_, quiet) = seen(5000 * MS, idle);
    let quiet = quiet.expect("enough was seen");
    assert!(!quiet.congested && quiet.skewness > 0.5, "{quiet:?}");
    let (_, full) = seen(5000 * MS, busy(1.0));
    let full = full.expect("enough was seen");
    assert!(full.congested && full.skewness < 0.1, "{full:?}");
}

#[test]
fn losses_make_a_bottleneck_of_any_queue() {
    let (mut estimator, _) = seen(5000 * MS, idle);
    let now = Time::from_millis(5000);
    estimator.on_lost(now, 40.0);
    let estimate = estimator.estimate(now + 200 * MS).expect("enough was seen");
    // A thousand arrived in those five seconds.
    assert!((estimate.loss - 40.0 / 1040.0).abs() < 1e-3, "{estimate:?}");
    assert!(!estimate.congested);
    estimator.on_lost(now, 100.0);
    assert!(
        estimator
            .estimate(now + 400 * MS)
            .is_some_and(|e| e.congested)
    );
}

#[test]
fn oscillations_are_counted_per_interval() {
    // Five half waves in fifty intervals.
    let (_, slow) = seen(5000 * MS, |at| 0.1 + 0.02 * (TAU * at / 2.0).sin());
    assert_eq!(slow.and_then(|e| e.frequency), Some(4.0 / 50.0));
    let (_, flat) = seen(5000 * MS, |_| 0.1);
    assert_eq!(flat.and_then(|e| e.frequency), Some(0.0));
    let (_, short) = seen(800 * MS, busy(0.3));
    assert_eq!(
        short.map(|e| e.frequency),
        Some(None),
        "too little was seen"
    );
    assert_eq!(seen(100 * MS, idle).1, None);
}

#[test]
fn memory_is_bounded_and_the_constant_in_the_delays_does_not_matter() {
    let (long, _) = seen(Duration::from_secs(600), busy(1.0));
    assert!(long.means().count() <= 50);
    let plain = seen(5000 * MS, busy(1.0)).1.expect("enough");
    let shifted = seen(5000 * MS, |at| busy(1.0)(at) - 1e6).1.expect("enough");
    assert_eq!(plain.congested, shifted.congested);
    assert!((plain.variability - shifted.variability).abs() < 1e-6);
}

fn log(intervals: impl IntoIterator<Item = (u64, u64)>) -> LossLog {
    let mut log = LossLog::default();
    for (from, to) in intervals {
        log.on_loss(LossInterval::new(
            Time::from_millis(from),
            Time::from_millis(to),
        ));
    }
    log
}

#[test]
fn losses_at_the_same_times_are_no_chance_and_others_are() {
    let span = Duration::from_secs(20);
    let at = |shift: u64| log((0..10).map(move |n| (n * 1700 + shift, n * 1700 + shift + 50)));
    assert!(chance_of_overlaps(&at(0), &at(30), span) < 1e-6);
    assert_eq!(chance_of_overlaps(&at(0), &at(800), span), 1.0);
    // One of ten: with ten intervals of 0.1 s in 20 s that happens in four cases of ten.
    let mut once = at(800);
    once.on_loss(LossInterval::new(
        Time::from_millis(13_610),
        Time::from_millis(13_640),
    ));
    let chance = chance_of_overlaps(&at(0), &once, span);
    assert!((0.2..1.0).contains(&chance), "{chance}");
    // Whoever is always losing tells nothing.
    let always = log((0..200).map(|n| (n * 100, n * 100 + 100)));
    assert!(chance_of_overlaps(&at(0), &always, span) > 0.5);
    assert_eq!(chance_of_overlaps(&LossLog::default(), &at(0), span), 1.0);
}

#[test]
fn further_losses_move_an_events_interval() {
    let mut losses = log([(0, 10)]);
    losses.on_further_loss(LossInterval::new(
        Time::from_millis(100),
        Time::from_millis(110),
    ));
    assert_eq!(losses.len(), 1);
    let span = Duration::from_secs(100);
    assert_eq!(chance_of_overlaps(&losses, &log([(5, 6)]), span), 1.0);
    assert!(chance_of_overlaps(&losses, &log([(105, 106)]), span) < 1e-3);
}

#[test]
fn paths_behind_one_queue_are_together_and_others_are_not() {
    let queues: [&dyn Fn(f64) -> f64; 4] = [
        &busy(1.0),
        &|at| 0.3 + busy(1.0)(at),
        // As busy, but another queue.
        &|at| busy(1.0)(at + 0.43),
        &idle,
    ];
    let seen: Vec<_> = queues.iter().map(|queue| seen(8000 * MS, queue)).collect();
    let means: Vec<Vec<_>> = seen.iter().map(|(e, _)| e.means().collect()).collect();
    let nothing = LossLog::default();
    let observed: Vec<Observed<'_>> = seen
        .iter()
        .zip(&means)
        .map(|(_, means)| Observed {
            means,
            losses: &nothing,
        })
        .collect();
    assert_eq!(groups(&config(), 8000 * MS, &observed), [0, 0, 1, 2]);
    // Losses at the same time say more than delays.
    let at_once = log((0..10).map(|n| (n * 700, n * 700 + 40)));
    let mut lossy = observed.clone();
    (lossy[0].losses, lossy[3].losses) = (&at_once, &at_once);
    assert_eq!(groups(&config(), 8000 * MS, &lossy), [0, 0, 1, 0]);
    assert_eq!(groups(&config(), 8000 * MS, &[]), [0usize; 0]);
}

#[test]
fn a_watched_controller_is_the_one_inside() {
    let run = |controller: &mut dyn Controller| {
        let mut sender = Sender::<()>::new(SenderConfig::default(), Time::ZERO, controller);
        let mut outcome = Outcome::default();
        let mut windows = Vec::new();
        for n in 0..2000u64 {
            let now = Time::from_millis(n * 2);
            sender.on_sent(
                now,
                Sent {
                    bytes: 1200,
                    ack_eliciting: true,
                    app_limited: false,
                    payload: (),
                },
            );
            if n >= 10 && n % 37 != 0 {
                let ranges = [n - 10..=n - 10];
                let ack = AckInfo {
                    largest: n - 10,
                    ranges: &ranges,
                    delay: Duration::ZERO,
                    ce_count: None,
                    receive_time: Some(now + 7 * MS),
                    elsewhere: false,
                };
                sender
                    .on_ack(now, ack, controller, &mut outcome)
                    .expect("sent before");
                outcome.clear();
            }
            windows.push(controller.window(sender.slot()));
        }
        (windows, sender.slot())
    };
    let law = || LawSpec::lia().controller(&Options::default());
    let mut watched = Watched::new(law(), config());
    let (plain, _) = run(&mut law());
    let (same, slot) = run(&mut watched);
    assert_eq!(plain, same);
    let record = watched.path(slot).expect("a path");
    assert!(record.bytes_acked() > 1000.0 * 1200.0);
    assert!(record.bytes_lost() > 20.0 * 1200.0 && record.loss_events() > 5);
    assert!(record.estimate(Time::from_millis(4000)).is_some());
    watched.restart(Time::from_millis(4000));
    assert_eq!(watched.path(slot).map(|r| r.bytes_acked()), Some(0.0));
    assert_eq!(watched.groups(Time::from_millis(4000), &[slot]), [0]);
    watched.remove_path(slot);
    assert!(watched.path(slot).is_none());
    // Late calls do no harm.
    watched.on_loss(&Loss {
        slot,
        now: Time::ZERO,
        sent: Time::ZERO,
        packets: 1.0,
    });
    assert_eq!(watched.groups(Time::ZERO, &[slot]), [0]);
}

proptest! {
    /// Whatever is seen: no panic, statistics within their bounds, and groups that are a numbering
    /// of the paths.
    #[test]
    fn any_delays_and_losses_are_borne(
        steps in prop::collection::vec((0usize..4, 0u64..400, -1e3f64..1e3, any::<bool>()), 0..300),
    ) {
        let mut watched = Watched::new(
            LawSpec::reno().controller(&Options::default()),
            config(),
        );
        let path = NewPath {
            now: Time::ZERO,
            initial_window: 10.0,
            packet_size: 1200,
            initial_rtt: 100 * MS,
        };
        let slots: Vec<_> = (0..4).map(|_| watched.add_path(path)).collect();
        let mut now = Time::from_millis(5000);
        for (n, wait, delay, lost) in steps {
            let slot = slots[n];
            // Now and then the clock is the one of an earlier packet.
            now = if wait < 3 {
                Time::from_micros(now.as_micros().saturating_sub(50_000))
            } else {
                now + MS * wait as u32
            };
            if lost {
                watched.on_loss(&Loss { slot, now, sent: Time::from_millis(4000), packets: 2.0 });
            } else {
                let sent = Time::from_secs_f64(2000.0);
                watched.on_ack(&Ack {
                    slot, now, packets: 1.5, rtt: 20 * MS, rtt_sampled: true, smoothed_rtt: 20 * MS,
                    min_rtt: 10 * MS, sent, received: Some(Time::from_secs_f64(2000.0 + delay)),
                    app_limited: false, in_recovery: false, delivery: None,
                });
            }
        }
        for slot in &slots {
            let record = watched.path(*slot).expect("a path");
            if let Some(estimate) = record.estimate(now) {
                prop_assert!((-1.0..=1.0).contains(&estimate.skewness));
                prop_assert!((0.0..=1.0).contains(&estimate.loss));
                prop_assert!(estimate.variability >= 0.0);
                prop_assert!(estimate.frequency.is_none_or(|f| (0.0..=1.0).contains(&f)));
            }
        }
        let groups = watched.groups(now, &slots);
        prop_assert_eq!(groups.len(), 4);
        let mut most = 0;
        for group in groups {
            prop_assert!(group <= most);
            most = most.max(group + 1);
        }
    }

    /// The order of the paths doesn't decide who is with whom.
    #[test]
    fn groups_do_not_depend_on_the_order(
        shifts in prop::collection::vec(0u32..3, 2..6),
        turn in 0usize..6,
    ) {
        let series = |shift: u32| {
            seen(4000 * MS, move |at| busy(0.9)(at + f64::from(shift) * 0.31))
        };
        let seen: Vec<_> = shifts.iter().map(|shift| series(*shift)).collect();
        let means: Vec<Vec<_>> = seen.iter().map(|(e, _)| e.means().collect()).collect();
        let nothing = LossLog::default();
        let observed: Vec<Observed<'_>> = seen.iter().zip(&means)
            .map(|(_, means)| Observed { means, losses: &nothing })
            .collect();
        let one = groups(&config(), 4000 * MS, &observed);
        let turn = turn % observed.len();
        let mut turned = observed.clone();
        turned.rotate_left(turn);
        let mut other = groups(&config(), 4000 * MS, &turned);
        other.rotate_right(turn);
        for a in 0..one.len() {
            for b in 0..a {
                prop_assert_eq!(one[a] == one[b], other[a] == other[b]);
                if shifts[a] == shifts[b] {
                    prop_assert_eq!(one[a], one[b]);
                }
            }
        }
    }
}

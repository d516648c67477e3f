//! Every controller of the registry, whatever happens to it.

use std::time::Duration;

use manyway_units::Time;
use proptest::prelude::*;

use crate::controller::{
    Ack, Controller, Delivery, Loss, LostPacket, NewPath, Round, Slot, Target,
};
use crate::law::WindowLaw;
use crate::options::{Growth, MAX_WINDOW, Options, SlowStartKind};
use crate::registry::{LawSpec, laws, tests::spec_from};

/// The smallest window where `paths` share the law: the window law's own, and for the others two
/// packets, or one for some with more than one path.
fn natural_floor(law: &LawSpec, paths: usize) -> f64 {
    match law.window_law() {
        Some(law) => law.min_ssthresh(paths),
        None if paths > 1 && ["auto", "background", "mpath", "olia"].contains(&law.name()) => 1.0,
        None if law.name() == "bbr" => 4.0,
        None => 2.0,
    }
}

/// A path of those there are, by number; an event for none at all goes to a slot that isn't in use.
type Which = usize;

#[derive(Clone, Debug)]
enum Step {
    Add {
        window: f64,
        size: u32,
        rtt: Duration,
    },
    Remove(Which),
    Resize(Which, u32),
    Ack(Which, AnyAck),
    Loss(Which, f64),
    Ecn(Which),
    Timeout(Which),
    Spurious(Which),
    Set(Which, f64, Target),
    Round(Which),
}

#[derive(Clone, Debug)]
struct AnyAck {
    packets: f64,
    rtt: Duration,
    smoothed: Duration,
    sampled: bool,
    received: Option<u64>,
    limited: bool,
    recovering: bool,
    delivery: Option<Delivery>,
}

/// Anything that isn't a contradiction in itself.
fn delivery() -> impl Strategy<Value = Delivery> {
    let bytes = || prop_oneof![Just(0), 0..200_000u64, 0..1u64 << 50];
    let flags = any::<[bool; 2]>();
    (
        bytes(),
        bytes(),
        rtt(),
        flags,
        bytes(),
        bytes(),
        bytes(),
        bytes(),
    )
        .prop_map(
            |(before, volume, interval, [app_limited, restarted], then, lost, now, peak)| {
                Delivery {
                    delivered: before + volume,
                    delivered_before: before,
                    interval,
                    app_limited,
                    restarted,
                    in_flight_then: then,
                    lost,
                    in_flight: now,
                    peak,
                }
            },
        )
}

/// None, huge and everything between.
fn rtt() -> impl Strategy<Value = Duration> {
    prop_oneof![
        1 => Just(Duration::ZERO),
        1 => Just(Duration::MAX),
        1 => (1..1000u64).prop_map(Duration::from_nanos),
        4 => (1..2_000_000u64).prop_map(Duration::from_micros),
        4 => (50..200u64).prop_map(Duration::from_millis),
    ]
}

fn any_ack() -> impl Strategy<Value = AnyAck> {
    let packets = prop_oneof![6 => 0.0..20.0f64, 1 => 0.0..2000.0f64, 1 => Just(0.0)];
    let often = proptest::bool::weighted(0.9);
    let seldom = proptest::bool::weighted(0.1);
    let received = any::<Option<u64>>();
    let delivery = proptest::option::weighted(0.9, delivery());
    (
        packets,
        rtt(),
        rtt(),
        often,
        received,
        seldom,
        seldom,
        delivery,
    )
        .prop_map(
            |(packets, rtt, smoothed, sampled, received, limited, recovering, delivery)| AnyAck {
                packets,
                rtt,
                smoothed,
                sampled,
                received,
                limited,
                recovering,
                delivery,
            },
        )
}

fn step() -> impl Strategy<Value = Step> {
    let window = prop_oneof![
        1 => Just(f64::NAN), 1 => Just(f64::INFINITY), 4 => -5.0..1e9f64, 8 => 1.0..100.0f64
    ];
    let which = any::<Which>;
    let target = prop_oneof![
        Just(Target::Unchanged),
        window.clone().prop_map(Target::Known),
        window.clone().prop_map(Target::Threshold),
    ];
    let set = (which(), window.clone(), target);
    prop_oneof![
        2 => (window, any::<u32>(), rtt())
            .prop_map(|(window, size, rtt)| Step::Add { window, size, rtt }),
        1 => which().prop_map(Step::Remove),
        1 => (which(), any::<u32>()).prop_map(|(path, size)| Step::Resize(path, size)),
        20 => (which(), any_ack()).prop_map(|(path, ack)| Step::Ack(path, ack)),
        3 => (which(), 0.0..2000.0f64).prop_map(|(path, packets)| Step::Loss(path, packets)),
        1 => which().prop_map(Step::Ecn),
        1 => which().prop_map(Step::Timeout),
        1 => which().prop_map(Step::Spurious),
        1 => set.prop_map(|(path, window, target)| Step::Set(path, window, target)),
        5 => which().prop_map(Step::Round),
    ]
}

fn apply(controller: &mut dyn Controller, slots: &mut Vec<Slot>, now: Time, step: &Step) {
    let nobody = Slot(7 + slots.len());
    let pick = |n: Which| slots.get(n % slots.len().max(1)).copied();
    let slot = |n: Which| pick(n).unwrap_or(nobody);
    let loss = |n: Which, packets: f64| Loss {
        slot: slot(n),
        now,
        sent: now,
        packets,
    };
    match step {
        &Step::Add { window, size, rtt } => {
            let slot = controller.add_path(NewPath {
                now,
                initial_window: window,
                packet_size: size,
                initial_rtt: rtt,
            });
            assert!(!slots.contains(&slot), "a slot in use was handed out");
            slots.push(slot);
        }
        &Step::Remove(n) => {
            if let Some(slot) = pick(n) {
                controller.remove_path(slot);
                slots.retain(|&other| other != slot);
                assert_eq!(controller.window(slot), 0.0);
                assert!(!controller.in_slow_start(slot));
            }
        }
        &Step::Resize(n, size) => controller.set_packet_size(slot(n), size),
        Step::Ack(n, ack) => controller.on_ack(&Ack {
            slot: slot(*n),
            now,
            packets: ack.packets,
            rtt: ack.rtt,
            rtt_sampled: ack.sampled,
            smoothed_rtt: ack.smoothed,
            min_rtt: ack.rtt.min(ack.smoothed),
            sent: now,
            received: ack.received.map(Time::from_nanos),
            app_limited: ack.limited,
            in_recovery: ack.recovering,
            delivery: ack.delivery,
        }),
        &Step::Loss(n, packets) => {
            controller.on_loss(&loss(n, packets));
            controller.on_packet_lost(&LostPacket {
                slot: slot(n),
                now,
                number: n as u64,
                bytes: 1 + packets as u64,
                delivered: now.as_nanos(),
                in_flight_then: 1 + (packets * 30.0) as u64,
                lost: 1 + 2 * packets as u64,
                app_limited: packets > 1000.0,
            });
        }
        &Step::Ecn(n) => controller.on_ecn(&loss(n, 0.0)),
        &Step::Timeout(n) => controller.on_timeout(slot(n), now),
        &Step::Set(n, window, target) => {
            let sets = controller.set_window(slot(n), window, target);
            assert!(!sets || pick(n).is_some());
        }
        &Step::Spurious(n) => controller.on_spurious_loss(slot(n), now),
        &Step::Round(n) => controller.on_round_end(&Round { slot: slot(n), now }),
    }
}

fn options() -> impl Strategy<Value = Options> {
    let floor = prop_oneof![
        3 => Just(None),
        3 => (1.0..4.0f64).prop_map(Some),
        1 => Just(Some(f64::NAN)),
        1 => Just(Some(0.0)),
    ];
    let start = prop_oneof![Just(SlowStartKind::HyStart), Just(SlowStartKind::Standard)];
    let growth = prop_oneof![Just(Growth::Bytes), Just(Growth::Acks)];
    let (threshold, initial) = (floor.clone(), floor.clone());
    (floor, threshold, initial, start, growth, any::<bool>()).prop_map(
        |(floor, threshold, initial, slow_start, growth, recovering)| Options {
            slow_start,
            initial_threshold: initial,
            window_floor: floor,
            threshold_floor: threshold,
            growth,
            growth_in_recovery: recovering,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Windows are numbers, finite and at least the floor; nothing panics, removed paths are gone
    /// and others don't notice.
    #[test]
    fn windows_are_finite_and_never_below_the_floor(
        steps in proptest::collection::vec(
            (step(), prop_oneof![9 => 0..50u64, 1 => 0..7_200_000u64]),
            0..300,
        ),
        options in options(),
        fractions in proptest::array::uniform4(0.0..=1.0f64),
        as_shipped in any::<bool>(),
    ) {
        for law in laws() {
            let spec = if as_shipped { law } else { spec_from(law.name(), fractions) };
            let mut controller = spec.controller(&options);
            let mut slots = Vec::new();
            let mut now = Time::ZERO;
            for (step, millis) in &steps {
                now += Duration::from_millis(*millis);
                apply(&mut controller, &mut slots, now, step);
                let natural = natural_floor(&spec, slots.len());
                // No number counts as one packet, and so does less than one.
                let floor = options.window_floor.map_or(natural, |floor| floor.max(1.0));
                for &slot in &slots {
                    let window = controller.window(slot);
                    prop_assert!(window.is_finite(), "{spec} {window} {step:?}");
                    prop_assert!(window >= floor, "{spec} {window} {step:?}");
                    prop_assert!(window <= MAX_WINDOW, "{spec} {window} {step:?}");
                    let _ = (controller.in_slow_start(slot), controller.verdict(slot));
                }
            }
        }
    }
}

/// Packets of another size don't change what is in flight: whatever the law, the window stays what
/// it is in bytes, and so do the others'.
#[test]
fn windows_keep_their_bytes_when_packets_change_their_size() {
    for spec in laws() {
        let name = spec.name();
        for slow_start in [true, false] {
            let mut controller = spec.controller(&Options::default());
            let new = |initial_window| NewPath {
                now: Time::ZERO,
                initial_window,
                packet_size: 1200,
                initial_rtt: Duration::from_millis(50),
            };
            let slots = [
                controller.add_path(new(40.0)),
                controller.add_path(new(60.0)),
            ];
            let mut now = Time::from_millis(50);
            if !slow_start {
                for slot in slots {
                    controller.on_loss(&Loss {
                        slot,
                        now,
                        sent: now,
                        packets: 1.0,
                    });
                }
            }
            let ack = |slot, now| Ack {
                slot,
                now,
                packets: 2.0,
                rtt: Duration::from_millis(50),
                rtt_sampled: true,
                smoothed_rtt: Duration::from_millis(50),
                min_rtt: Duration::from_millis(50),
                sent: Time::ZERO,
                received: None,
                app_limited: false,
                in_recovery: false,
                delivery: None,
            };
            now += Duration::from_millis(60);
            for slot in slots {
                controller.on_ack(&ack(slot, now));
            }
            let before = slots.map(|slot| controller.window(slot));
            let slow = slots.map(|slot| controller.in_slow_start(slot));
            controller.set_packet_size(slots[0], 1472);
            let after = slots.map(|slot| controller.window(slot));
            assert!(
                (after[0] * 1472.0 - before[0] * 1200.0).abs() < 1e-6 * before[0] * 1200.0,
                "{name}: {before:?} {after:?}"
            );
            assert_eq!(after[1], before[1], "{name}");
            assert_eq!(
                slots.map(|slot| controller.in_slow_start(slot)),
                slow,
                "{name}"
            );
            // It goes on from there without a jump: at most what was acknowledged is added.
            now += Duration::from_millis(1);
            controller.on_ack(&ack(slots[0], now));
            let grown = controller.window(slots[0]) - after[0];
            assert!((0.0..=2.0).contains(&grown), "{name}: {grown}");
            // And back again.
            let window = controller.window(slots[0]) * 1472.0;
            controller.set_packet_size(slots[0], 1200);
            let back = controller.window(slots[0]) * 1200.0;
            assert!(
                (back - window).abs() < 1e-6 * window,
                "{name}: {window} {back}"
            );
        }
    }
}

/// A cut that is undone leaves no trace: from then on each law does what it would have done without
/// the loss.
#[test]
fn a_spurious_loss_changes_nothing() {
    for spec in laws() {
        for lost_before in [false, true] {
            let begun = || {
                let mut controller = spec.controller(&Options::default());
                let slots = [20.0, 30.0].map(|initial_window| {
                    controller.add_path(NewPath {
                        now: Time::ZERO,
                        initial_window,
                        packet_size: 1200,
                        initial_rtt: Duration::from_millis(50),
                    })
                });
                (controller, slots)
            };
            let ((mut controller, slots), (mut calm, _)) = (begun(), begun());
            let loss = |slot, millis| Loss {
                slot,
                now: Time::from_millis(millis),
                sent: Time::from_millis(millis - 50),
                packets: 1.0,
            };
            // Two seconds, a round trip at a time, with a queue that comes and goes.
            let run = |controller: &mut dyn Controller, from: u64| {
                for round in 0..40 {
                    let now = Time::from_millis(from + 50 * round);
                    let rtt = Duration::from_millis(50 + round % 7);
                    for &slot in &slots {
                        // Windows of slow start become large.
                        let packets = (controller.window(slot) / 100.0).max(1.0);
                        for _ in 0..(controller.window(slot) / packets) as u32 {
                            controller.on_ack(&Ack {
                                slot,
                                now,
                                packets,
                                rtt,
                                rtt_sampled: true,
                                smoothed_rtt: rtt,
                                min_rtt: Duration::from_millis(50),
                                sent: now,
                                received: None,
                                app_limited: false,
                                in_recovery: false,
                                delivery: None,
                            });
                        }
                        controller.on_round_end(&Round { slot, now });
                    }
                }
                slots
                    .iter()
                    .map(|&slot| controller.window(slot))
                    .collect::<Vec<_>>()
            };
            if lost_before {
                for controller in [&mut controller, &mut calm] {
                    for &slot in &slots {
                        controller.on_loss(&loss(slot, 100));
                    }
                    run(controller, 200);
                }
            }
            for &slot in &slots {
                let before = controller.window(slot);
                // Apart from each other, so that they aren't correlated.
                let at = 3000 + 500 * slot.index() as u64;
                controller.on_loss(&loss(slot, at));
                // A relayed path of mPath begins with its floor, and a law that models the path
                // cuts when the round trip is over.
                let cut = controller.window(slot) < before;
                assert!(cut || before == 1.0 || controller.rate_based(), "{spec}");
                controller.on_spurious_loss(slot, Time::from_millis(at + 10));
                assert_eq!(controller.window(slot), before, "{spec}");
                controller.on_spurious_loss(slot, Time::from_millis(at + 20));
                assert_eq!(controller.window(slot), before, "{spec}");
            }
            assert_eq!(
                run(&mut controller, 4000),
                run(&mut calm, 4000),
                "{spec}, lost before: {lost_before}"
            );
            // And another loss is as if it were the first.
            for controller in [&mut controller, &mut calm] {
                controller.on_loss(&loss(slots[0], 6100));
            }
            assert_eq!(controller.window(slots[0]), calm.window(slots[0]), "{spec}");
        }
    }
}

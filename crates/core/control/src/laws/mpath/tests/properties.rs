use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Add {
        size: u32,
        window: f64,
    },
    Remove(usize),
    Ack {
        path: usize,
        packets: f64,
        rtt_us: u64,
        idle: bool,
        old: bool,
    },
    Loss {
        path: usize,
        age_us: u64,
    },
    Timeout(usize),
    Round(usize),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let path = 0..12_usize;
    prop_oneof![
        2 => (1..9000_u32, prop_oneof![0.0..1e3, Just(f64::NAN), Just(f64::INFINITY)])
            .prop_map(|(size, window)| Step::Add { size, window }),
        1 => path.clone().prop_map(Step::Remove),
        20 => (
            path.clone(),
            0.0..40.0_f64,
            0..300_000_u64,
            prop::bool::weighted(0.1),
            prop::bool::weighted(0.1),
        )
            .prop_map(|(path, packets, rtt_us, idle, old)| Step::Ack {
                path,
                packets,
                rtt_us,
                idle,
                old,
            }),
        5 => (path.clone(), 0..500_000_u64).prop_map(|(path, age_us)| Step::Loss { path, age_us }),
        1 => path.clone().prop_map(Step::Timeout),
        2 => path.prop_map(Step::Round),
        5 => (0..200_000_u64).prop_map(Step::Wait),
    ]
}

/// Everything that must hold at any time.
fn sound(mpath: &Mpath, slots: &[Slot]) -> Result<(), TestCaseError> {
    let p = mpath.probability();
    prop_assert!((0.0..=1.0 + 1e-12).contains(&p), "{p}");
    prop_assert!(mpath.saved.is_finite() && mpath.saved >= 0.0);
    let mut proxied = 0.0;
    for &slot in slots {
        let Some(path) = mpath.slots.get(slot) else {
            prop_assert_eq!(mpath.window(slot), 0.0);
            continue;
        };
        let window = mpath.window(slot);
        prop_assert!(
            window.is_finite() && window >= mpath.floor_of(slot),
            "{path:?}"
        );
        prop_assert!(window <= MAX_WINDOW);
        prop_assert!(path.turn.is_finite());
        if mpath.direct() == Some(slot) {
            prop_assert_eq!(mpath.verdict(slot), PathVerdict::Keep);
        } else {
            proxied += path.bytes();
        }
    }
    prop_assert!((mpath.proxied - proxied).abs() <= 1e-6 * (1.0 + proxied));
    Ok(())
}

fn total(mpath: &Mpath) -> f64 {
    let paths = mpath.order.iter().filter_map(|&slot| mpath.slots.get(slot));
    paths.map(MpathPath::bytes).sum()
}

proptest! {
    #[test]
    fn sound_whatever_happens(
        steps in prop::collection::vec(step(), 0..300),
        alpha in prop_oneof![Just(1.0), 0.001..1.0],
        floor in prop::option::of(0.5..4.0),
    ) {
        let options = Options { window_floor: floor, ..Options::default() };
        let mut mpath = Mpath::new(alpha, options).unwrap();
        let mut now = ms(1000);
        // As many as ever get a slot: calls that name free ones are among the steps.
        let slots: Vec<_> = (0..12).map(Slot).collect();
        for step in steps {
            let before = total(&mpath);
            let direct = mpath.direct();
            let w0 = direct.map_or(0.0, |slot| mpath.window(slot));
            match step {
                Step::Add { size, window } if mpath.order.len() < slots.len() => {
                    let initial_rtt = Duration::from_micros(50);
                    mpath.add_path(NewPath {
                        now,
                        initial_window: window,
                        packet_size: size,
                        initial_rtt,
                    });
                }
                Step::Add { .. } => {}
                Step::Remove(path) => mpath.remove_path(slots[path]),
                Step::Ack { path, packets, rtt_us, idle, old } => {
                    let rtt = Duration::from_micros(rtt_us);
                    mpath.on_ack(&Ack {
                        packets,
                        rtt,
                        smoothed_rtt: rtt,
                        min_rtt: rtt,
                        app_limited: idle,
                        in_recovery: old,
                        ..ack(slots[path], now)
                    });
                    let total = total(&mpath);
                    prop_assert!(total >= before * (1.0 - 1e-12));
                }
                Step::Loss { path, age_us } => {
                    let sent = Time::from_nanos(now.as_nanos() - age_us * 1000);
                    mpath.on_loss(&Loss { slot: slots[path], now, sent, packets: 1.0 });
                    prop_assert!(
                        total(&mpath) <= before * (1.0 + 1e-12),
                        "{before} {}",
                        total(&mpath)
                    );
                    if direct == Some(slots[path]) {
                        // Eq. (6): what aggregation gives back is no more than what the loss took.
                        prop_assert!(mpath.window(slots[path]) <= w0 * (1.0 + 1e-12));
                    } else if let Some(direct) = direct {
                        // Up to the window before the direct path's own cut, if it was below.
                        let size = mpath.slots.get(direct).unwrap().size;
                        let most = w0.max(mpath.ceiling / size);
                        prop_assert!(mpath.window(direct) <= most * (1.0 + 1e-12));
                    }
                }
                Step::Timeout(path) => {
                    mpath.on_timeout(slots[path], now);
                    prop_assert!(total(&mpath) <= before * (1.0 + 1e-12));
                }
                Step::Round(path) => mpath.on_round_end(&Round { slot: slots[path], now }),
                Step::Wait(us) => now += Duration::from_micros(us),
            }
            sound(&mpath, &slots)?;
        }
    }

    /// Any number of shared losses: the proxied path's window falls by (1 − α)/2 each, and no load
    /// is lost beyond the halving (eq. 7).
    #[test]
    fn shared_losses_drain_exponentially(
        alpha in 0.1..1.0_f64,
        w0 in 50.0..1000.0_f64,
        share in 0.1..1.0_f64,
    ) {
        let (mut mpath, slots) = with_windows(alpha, &[w0, w0 * share]);
        let (mut x0, mut xp) = (w0, w0 * share);
        for k in 0..20 {
            let (sent, now) = (1000 * k, 1000 * k + 100);
            lose(&mut mpath, slots[0], sent, now);
            lose(&mut mpath, slots[1], sent, now);
            let moved = alpha.min(x0 / xp) * xp / 2.0;
            (x0, xp) = (x0 / 2.0 + moved, xp / 2.0 - moved);
            if xp < 1.0 || x0 < 4.0 {
                prop_assert!(x0 < 4.0 || mpath.verdict(slots[1]) == PathVerdict::Drained);
                break;
            }
            prop_assert!((mpath.window(slots[0]) / x0 - 1.0).abs() < 1e-9);
            prop_assert!((mpath.window(slots[1]) / xp - 1.0).abs() < 1e-9);
        }
    }
}

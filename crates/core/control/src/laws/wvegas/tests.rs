use std::time::Duration;

use proptest::prelude::*;

use super::*;

/// wVegas over some paths, fed rounds of acknowledgements.
struct Bench {
    wvegas: Wvegas,
    now: Time,
}

impl Bench {
    fn new(config: WvegasConfig) -> Self {
        Bench {
            wvegas: Wvegas::new("wvegas", config, Options::default()),
            now: Time::ZERO,
        }
    }

    fn draining(drain: Drain) -> Self {
        Self::new(WvegasConfig {
            drain,
            ..WvegasConfig::default()
        })
    }

    fn path(&mut self, window: f64) -> Slot {
        self.wvegas.add_path(NewPath {
            now: self.now,
            initial_window: window,
            packet_size: 1000,
            initial_rtt: Duration::from_millis(100),
        })
    }

    /// A path in congestion avoidance that has seen an empty queue.
    fn avoiding(&mut self, window: f64, base_ms: f64) -> Slot {
        let slot = self.path(window);
        let path = self.wvegas.slots.get_mut(slot).unwrap();
        path.slow_start = false;
        path.base_rtt = base_ms / 1e3;
        slot
    }

    fn ack(&self, slot: Slot, rtt_ms: f64) -> Ack {
        let rtt = Duration::from_secs_f64(rtt_ms / 1e3);
        Ack {
            slot,
            now: self.now,
            packets: 1.0,
            rtt,
            rtt_sampled: true,
            smoothed_rtt: rtt,
            min_rtt: rtt,
            sent: self.now,
            received: None,
            app_limited: false,
            in_recovery: false,
            delivery: None,
        }
    }

    /// A round with these samples; the window after it.
    fn round(&mut self, slot: Slot, rtts_ms: &[f64]) -> f64 {
        for &rtt in rtts_ms {
            self.wvegas.on_ack(&self.ack(slot, rtt));
        }
        self.end(slot)
    }

    fn end(&mut self, slot: Slot) -> f64 {
        let now = self.now;
        self.wvegas.on_round_end(&Round { slot, now });
        self.wvegas.window(slot)
    }

    fn lose(&mut self, slot: Slot) {
        let (now, sent) = (self.now, self.now);
        let packets = 1.0;
        self.wvegas.on_loss(&Loss {
            slot,
            now,
            sent,
            packets,
        });
    }

    fn alpha(&self, slot: Slot) -> f64 {
        self.wvegas.alpha(slot).unwrap()
    }
}

fn close(got: f64, want: f64) {
    assert!((got - want).abs() <= 1e-6 * want.abs(), "{got} {want}");
}

/// Lines 8 to 18 and 27 to 34, worked by hand: two paths, one of 100 ms and one of 50 ms.
#[test]
fn algorithm_3_round_by_round() {
    let mut b = Bench::new(WvegasConfig {
        drain: Drain::Never,
        loss_keeps_alpha: true,
        ..WvegasConfig::default()
    });
    let long = b.avoiding(20.0, 100.0);
    let short = b.avoiding(10.0, 50.0);

    // diff = 0 < 2.
    assert_eq!(b.round(long, &[100.0, 100.0]), 21.0);
    // The mean is 110 ms, whatever the smoothed one is: diff = 21 · 10/110 = 1.9.
    assert_eq!(b.round(long, &[105.0, 115.0]), 22.0);
    assert_eq!(b.alpha(long), 2.0);
    // 22.2 · 10/110 would be above 2; 22 · 11/111 = 2.18 is: the rate is the only one known, weight
    // 1, α = 10; 2.18 < 10.
    assert_eq!(b.round(long, &[111.0]), 23.0);
    assert_eq!(b.alpha(long), 10.0);
    let long_rate = 22.0 / 0.111;

    // diff = 10 · 13/63 = 2.06; the rates are 198.2 and 158.7, and α is adjusted before the window
    // is: 2.06 < 4.45.
    assert_eq!(b.round(short, &[63.0]), 11.0);
    let short_rate = 10.0 / 0.063;
    close(b.alpha(short), 10.0 * short_rate / (short_rate + long_rate));
    // The other path's α stays until its own next equilibrium.
    assert_eq!(b.alpha(long), 10.0);

    // diff = 23/2 = 11.5 ≥ 10: rate 115, α = 10 · 115/(115 + 158.7) = 4.2 < 11.5.
    assert_eq!(b.round(long, &[200.0]), 22.0);
    close(b.alpha(long), 1150.0 / (115.0 + short_rate));

    // Lines 32 to 34: the short path's rate counts no more, its α stays.
    let alpha = b.alpha(short);
    b.lose(short);
    assert_eq!(b.wvegas.window(short), 5.5);
    assert_eq!(b.alpha(short), alpha);
    // diff = 22 · 25/125 = 4.4 ≥ 4.2: alone again, α = 10 > 4.4.
    assert_eq!(b.round(long, &[125.0]), 23.0);
    close(b.alpha(long), 10.0);
}

/// A path that has lost doesn't keep its part of `total_alpha` when the others share all of it.
#[test]
fn a_loss_takes_alpha_back_unless_as_printed() {
    for (loss_keeps_alpha, want) in [(true, 5.0), (false, 2.0)] {
        let mut b = Bench::new(WvegasConfig {
            loss_keeps_alpha,
            ..WvegasConfig::default()
        });
        let slots = [0, 1].map(|_| b.avoiding(20.0, 100.0));
        for slot in slots {
            b.round(slot, &[200.0]);
        }
        close(b.alpha(slots[1]), 5.0);
        b.lose(slots[1]);
        close(b.alpha(slots[1]), want);
        b.round(slots[0], &[200.0]);
        close(b.alpha(slots[0]), 10.0);
    }
}

/// A rate far below the other's: α would be 0.2, its lower bound is 2 (line 14).
#[test]
fn alpha_has_a_floor() {
    let mut b = Bench::draining(Drain::Never);
    let fast = b.avoiding(1000.0, 100.0);
    let slow = b.avoiding(20.0, 100.0);
    b.round(fast, &[110.0]);
    b.round(slow, &[120.0]);
    assert_eq!(b.alpha(slow), 2.0);
    // diff = 20 · 20/120 = 3.3 > 2.
    assert_eq!(b.wvegas.window(slow), 19.0);
}

/// Lines 15 to 18 say nothing of `diff = α`: 8 packets of which a quarter are queued, with α = 2.
#[test]
fn at_alpha_the_window_stays() {
    let mut b = Bench::new(WvegasConfig {
        total_alpha: 2.0,
        drain: Drain::Never,
        ..WvegasConfig::default()
    });
    let slot = b.avoiding(8.0, 750.0);
    assert_eq!(b.round(slot, &[1000.0]), 8.0);
    assert_eq!(b.round(slot, &[1001.0]), 7.0);
}

/// Lines 19 to 25: a queue of 1.1 ms after one of 0.5 ms, 0.24 packets, halves the window.
#[test]
fn the_drain_rule_as_printed() {
    let mut b = Bench::draining(Drain::AsPrinted);
    let slot = b.avoiding(20.0, 100.0);
    // No queueing delay leaves the least one unknown.
    assert_eq!(b.round(slot, &[100.0]), 21.0);
    assert_eq!(b.round(slot, &[100.5]), 22.0);
    assert_eq!(b.round(slot, &[101.0]), 23.0);
    // One more packet, and then half of what fits without queue.
    close(b.round(slot, &[101.1]), 24.0 * 0.5 * 100.0 / 101.1);
    // Forgotten: the next delay is the least again.
    let window = b.round(slot, &[101.1]);
    close(window, 24.0 * 0.5 * 100.0 / 101.1 + 1.0);
    // A loss makes it forget, too.
    b.lose(slot);
    b.end(slot);
    close(b.round(slot, &[109.0]), window / 2.0 + 1.0);
}

#[test]
fn the_repaired_drain_rule_looks_at_equilibria_only() {
    let mut b = Bench::draining(Drain::AtEquilibrium);
    let slot = b.avoiding(20.0, 100.0);
    // diff = 10 = α: 100 ms is the least queueing delay at equilibrium.
    assert_eq!(b.round(slot, &[200.0]), 20.0);
    // Off equilibrium no delay counts, neither as least nor as too long.
    assert_eq!(b.round(slot, &[100.5]), 21.0);
    assert_eq!(b.round(slot, &[103.0]), 22.0);
    // diff = 22 · 199/299 = 14.6: not yet twice as long.
    assert_eq!(b.round(slot, &[299.0]), 21.0);
    // 201 > 2 · 100.
    close(b.round(slot, &[301.0]), 20.0 * 0.5 * 100.0 / 301.0);
}

#[test]
fn slow_start_doubles_every_other_round_and_ends_at_gamma() {
    let mut b = Bench::draining(Drain::AtEquilibrium);
    let slot = b.path(10.0);
    assert!(b.wvegas.in_slow_start(slot));
    // The sender's first round is over with the first acknowledgement, and is no round trip to wait
    // for.
    assert_eq!(b.round(slot, &[100.0]), 10.0);
    assert_eq!(b.round(slot, &[100.0; 10]), 20.0);
    assert_eq!(b.round(slot, &[100.0; 20]), 20.0);
    // diff = 20/101 is below γ = 1.
    assert_eq!(b.round(slot, &[101.0; 20]), 40.0);
    assert!(b.wvegas.in_slow_start(slot));
    // 40 packets, of which 8 are queued: back to 32, and γ.
    close(b.round(slot, &[125.0; 40]), 33.0);
    assert!(!b.wvegas.in_slow_start(slot));
    assert_eq!(b.alpha(slot), 2.0);
    // Avoidance: 33/5 = 6.6 ≥ 2, and α becomes 10.
    close(b.round(slot, &[125.0]), 34.0);
}

#[test]
fn losses_halve_and_timeouts_start_again_up_to_half() {
    let mut b = Bench::draining(Drain::AtEquilibrium);
    let slot = b.path(40.0);
    b.lose(slot);
    assert_eq!(b.wvegas.window(slot), 20.0);
    assert!(!b.wvegas.in_slow_start(slot));
    // With the loss event that led to it: up to its window.
    b.wvegas.on_timeout(slot, b.now);
    assert_eq!(b.wvegas.window(slot), 2.0);
    assert!(b.wvegas.in_slow_start(slot));
    // The round of the loss says nothing.
    assert_eq!(b.end(slot), 2.0);
    for _ in 0..20 {
        let acks = b.wvegas.window(slot) as usize;
        b.round(slot, &vec![100.0; acks]);
        if !b.wvegas.in_slow_start(slot) {
            break;
        }
    }
    assert!((20.0..=21.0).contains(&b.wvegas.window(slot)));
    // Without one: up to half.
    let path = b.wvegas.slots.get_mut(slot).unwrap();
    path.window = 30.0;
    b.wvegas.on_timeout(slot, b.now);
    assert_eq!(b.wvegas.slots.get(slot).unwrap().threshold, 15.0);
}

#[test]
fn rounds_that_say_nothing_adjust_nothing() {
    let mut b = Bench::draining(Drain::AsPrinted);
    let slot = b.avoiding(20.0, 100.0);
    // No sample at all.
    assert_eq!(b.end(slot), 20.0);
    let unsampled = Ack {
        rtt_sampled: false,
        ..b.ack(slot, 100.0)
    };
    b.wvegas.on_ack(&unsampled);
    assert_eq!(b.end(slot), 20.0);
    // From before the last cut, one of them is enough; application-limited, most must be.
    for (limited, recovering, want) in [(0, 1, 20.0), (3, 0, 20.0), (2, 0, 21.0)] {
        for n in 0..5 {
            let ack = b.ack(slot, 100.0);
            b.wvegas.on_ack(&Ack {
                app_limited: n < limited,
                in_recovery: n < recovering,
                ..ack
            });
        }
        assert_eq!(b.end(slot), want);
    }
    // But a shorter round trip is a shorter round trip.
    let ack = b.ack(slot, 90.0);
    b.wvegas.on_ack(&Ack {
        in_recovery: true,
        ..ack
    });
    b.end(slot);
    assert_eq!(b.wvegas.base_rtt(slot), Some(0.09));
}

/// A host holds single packets back: that is noise to the least of a round's samples, and a queue
/// to their mean.
#[test]
fn the_least_of_a_round_instead_of_its_mean() {
    for (least, want) in [(false, 19.0), (true, 21.0)] {
        let mut b = Bench::new(WvegasConfig {
            least,
            min_alpha: 5.0,
            total_alpha: 5.0,
            ..WvegasConfig::default()
        });
        let slot = b.avoiding(20.0, 100.0);
        // On average 150 ms, a third of 20 packets; at least 110, 1.8 packets.
        assert_eq!(b.round(slot, &[170.0, 110.0, 170.0]), want);
    }
    let mut b = Bench::new(WvegasConfig {
        least: true,
        forward: true,
        ..WvegasConfig::default()
    });
    let slot = b.avoiding(20.0, 100.0);
    for there in [50, 90, 60, 80] {
        let received = Some(b.now + Duration::from_millis(there));
        let ack = b.ack(slot, 200.0);
        b.wvegas.on_ack(&Ack { received, ..ack });
        if there == 50 {
            assert_eq!(b.end(slot), 21.0);
        }
    }
    // 10 ms of 200: diff = 21/20 < 2.
    assert_eq!(b.end(slot), 22.0);
}

/// A base round-trip time that never existed looks like a path without queue; given, it is the
/// given one.
#[test]
fn a_base_that_never_existed() {
    let mut b = Bench::draining(Drain::AtEquilibrium);
    let slot = b.path(20.0);
    b.lose(slot);
    b.end(slot);
    assert_eq!(b.wvegas.base_rtt(slot), None);
    for n in 1..20 {
        assert_eq!(b.round(slot, &[150.0]), 10.0 + f64::from(n));
    }
    let mut b = Bench::new(WvegasConfig {
        base: 0.1,
        ..WvegasConfig::default()
    });
    let slot = b.path(20.0);
    // 20 packets with a third of them in the queue: slow start is over, at 13.3 and γ.
    close(b.round(slot, &[150.0; 20]), 20.0 * 100.0 / 150.0 + 1.0);
    assert_eq!(b.wvegas.base_rtt(slot), Some(0.1));
}

/// Persistent congestion may mean another way: the base round-trip time is measured anew, but one
/// that was given stays.
#[test]
fn a_timeout_forgets_the_base() {
    for (base, want) in [(0.0, 0.25), (0.1, 0.1)] {
        let mut b = Bench::new(WvegasConfig {
            base,
            ..WvegasConfig::default()
        });
        let slot = b.path(10.0);
        b.round(slot, &[100.0; 10]);
        assert_eq!(b.wvegas.base_rtt(slot), Some(0.1));
        b.wvegas.on_timeout(slot, b.now);
        b.end(slot);
        b.round(slot, &[250.0; 2]);
        assert_eq!(b.wvegas.base_rtt(slot), Some(want));
    }
}

#[test]
fn forward_delay_leaves_the_way_back_out() {
    let mut b = Bench::new(WvegasConfig {
        forward: true,
        ..WvegasConfig::default()
    });
    let slot = b.avoiding(20.0, 100.0);
    b.now = Time::ZERO + Duration::from_secs(1000);
    let offset = Duration::from_secs(77);
    let one_way = |b: &Bench, rtt_ms: f64, one_way_ms: f64| Ack {
        received: Some(b.now + offset + Duration::from_secs_f64(one_way_ms / 1e3)),
        ..b.ack(slot, rtt_ms)
    };
    // The round trip doubles, the way there is as it was.
    for rtt in [100.0, 200.0] {
        b.wvegas.on_ack(&one_way(&b, rtt, 50.0));
        b.end(slot);
    }
    assert_eq!(b.wvegas.window(slot), 22.0);
    // 25 ms of 200 are on the way there: diff = 22 · 25/200 = 2.75 ≥ 2, at a rate of 22/0.2.
    b.wvegas.on_ack(&one_way(&b, 200.0, 75.0));
    assert_eq!(b.end(slot), 23.0);
    close(b.alpha(slot), 10.0);
    close(b.wvegas.total_rate, 110.0 * 1000.0);
    // A clock that runs away shows no longer queue than the round trip.
    b.wvegas.on_ack(&one_way(&b, 110.0, 5e6));
    assert_eq!(b.end(slot), 24.0);
    // Who doesn't say has the round trip.
    assert_eq!(b.round(slot, &[200.0]), 23.0);
}

/// A queue on the return path that shrinks leaves the window's packets to the queue on the way
/// there: nobody has joined.
#[test]
fn forward_delay_drains_what_others_queued() {
    for (rtt, drained) in [(200.0, false), (300.0, true)] {
        let mut b = Bench::new(WvegasConfig {
            forward: true,
            ..WvegasConfig::default()
        });
        let slot = b.avoiding(60.0, 100.0);
        let mut round = |rtt_ms: f64, there_ms: f64| {
            let received = Time::ZERO + Duration::from_secs_f64(there_ms / 1e3);
            b.wvegas.on_ack(&Ack {
                received: Some(received),
                ..b.ack(slot, rtt_ms)
            });
            b.end(slot)
        };
        assert_eq!(round(100.0, 50.0), 61.0);
        // 40 ms there and 60 back: diff = 61 · 0.2 = 12.2 > α = 10.
        assert_eq!(round(200.0, 90.0), 60.0);
        // 100 ms there: twice as much and more.
        let left = if drained {
            59.0 * 0.5 * (1.0 - 100.0 / rtt)
        } else {
            59.0
        };
        close(round(rtt, 150.0), left);
    }
}

#[test]
fn paths_come_and_go() {
    let mut b = Bench::draining(Drain::Never);
    let one = b.avoiding(20.0, 100.0);
    let two = b.avoiding(20.0, 100.0);
    b.round(one, &[200.0]);
    b.round(two, &[200.0]);
    close(b.alpha(two), 5.0);
    b.wvegas.remove_path(one);
    assert_eq!(b.wvegas.window(one), 0.0);
    assert_eq!(b.wvegas.alpha(one), None);
    close(b.wvegas.total_rate, 100.0 * 1000.0);
    b.round(two, &[200.0]);
    close(b.alpha(two), 10.0);
    // Late calls do nothing.
    b.wvegas.remove_path(one);
    b.lose(one);
    b.wvegas.on_timeout(one, b.now);
    assert_eq!(b.round(one, &[100.0]), 0.0);
    close(b.wvegas.total_rate, 95.0 * 1000.0);
}

#[derive(Clone, Debug)]
enum Step {
    Add {
        window: f64,
        size: u32,
    },
    Remove(usize),
    Ack {
        path: usize,
        rtt: Duration,
        received: Option<u64>,
        packets: f64,
        limited: bool,
        recovering: bool,
    },
    Loss(usize),
    Timeout(usize),
    Round(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let rtt = prop_oneof![
        Just(Duration::ZERO),
        Just(Duration::MAX),
        (1..1_000_000_000u64).prop_map(Duration::from_nanos),
        (0..400u64).prop_map(Duration::from_millis),
    ];
    let ack = (
        0..6usize,
        rtt,
        any::<Option<u64>>(),
        0.0..40.0f64,
        any::<bool>(),
        any::<bool>(),
    );
    prop_oneof![
        2 => (any::<f64>(), any::<u32>()).prop_map(|(window, size)| Step::Add { window, size }),
        1 => (0..6usize).prop_map(Step::Remove),
        20 => ack.prop_map(|(path, rtt, received, packets, limited, recovering)| Step::Ack {
            path,
            rtt,
            received,
            packets,
            limited: limited && recovering,
            recovering: recovering && !limited,
        }),
        2 => (0..6usize).prop_map(Step::Loss),
        1 => (0..6usize).prop_map(Step::Timeout),
        10 => (0..6usize).prop_map(Step::Round),
    ]
}

impl Bench {
    fn apply(&mut self, slots: &mut Vec<Slot>, step: &Step) {
        match *step {
            Step::Add { window, size } => {
                let added = self.wvegas.add_path(NewPath {
                    now: self.now,
                    initial_window: window,
                    packet_size: size,
                    initial_rtt: Duration::ZERO,
                });
                if !slots.contains(&added) {
                    slots.push(added);
                }
            }
            Step::Remove(n) => self.wvegas.remove_path(Slot(n)),
            Step::Ack {
                path,
                rtt,
                received,
                packets,
                limited,
                recovering,
            } => {
                let ack = Ack {
                    rtt,
                    packets,
                    received: received.map(Time::from_nanos),
                    app_limited: limited,
                    in_recovery: recovering,
                    ..self.ack(Slot(path), 1.0)
                };
                self.wvegas.on_ack(&ack);
            }
            Step::Loss(n) => self.lose(Slot(n)),
            Step::Timeout(n) => self.wvegas.on_timeout(Slot(n), self.now),
            Step::Round(n) => {
                self.end(Slot(n));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_state_is_sound(
        steps in proptest::collection::vec(step(), 0..400),
        forward in any::<bool>(),
        least in any::<bool>(),
        drain in prop_oneof![
            Just(Drain::Never),
            Just(Drain::AsPrinted),
            Just(Drain::AtEquilibrium),
        ],
        total_alpha in 1e-6..1e6f64,
        base in prop_oneof![Just(0.0), 1e-9..3600.0f64],
    ) {
        let mut b = Bench::new(WvegasConfig {
            total_alpha,
            forward,
            least,
            drain,
            base,
            ..WvegasConfig::default()
        });
        let mut slots = Vec::new();
        for step in &steps {
            b.apply(&mut slots, step);
            let mut total = 0.0;
            for path in b.wvegas.slots.iter_mut() {
                prop_assert!((2.0..=MAX_WINDOW).contains(&path.window), "{path:?}");
                prop_assert!((2.0..=total_alpha.max(2.0)).contains(&path.alpha), "{path:?}");
                prop_assert!(path.rate >= 0.0 && path.rate.is_finite(), "{path:?}");
                prop_assert!(path.queue_delay >= 0.0 && path.queue_delay.is_finite(), "{path:?}");
                prop_assert!(path.base_rtt > 0.0, "{path:?}");
                total += path.rate;
            }
            prop_assert!(b.wvegas.total_rate.is_finite());
            if b.wvegas.changes == 0 {
                prop_assert!((b.wvegas.total_rate - total).abs() <= 1e-9 * total.max(1.0));
            }
        }
    }

    /// One path alone is TCP Vegas with α = β = `total_alpha` (and its α is never the initial 2
    /// when that would matter).
    #[test]
    fn alone_it_is_vegas(
        rounds in proptest::collection::vec((50.0..200.0f64, 0..40u32), 1..200),
        total_alpha in 2.0..50.0f64,
    ) {
        let mut b = Bench::new(WvegasConfig {
            total_alpha,
            drain: Drain::Never,
            ..WvegasConfig::default()
        });
        let slot = b.avoiding(20.0, 50.0);
        let mut vegas = 20.0f64;
        for (rtt, what) in rounds {
            if what == 0 {
                b.lose(slot);
                b.end(slot);
                vegas = (vegas / 2.0).max(2.0);
                continue;
            }
            let backlog = (vegas / 0.05 - vegas / (rtt / 1e3)) * 0.05;
            // Exactly at α both rest; next to it rounding would decide.
            prop_assume!((backlog - total_alpha).abs() > 1e-6);
            vegas = if backlog < total_alpha { vegas + 1.0 } else { (vegas - 1.0).max(2.0) };
            prop_assert_eq!(b.round(slot, &[rtt]), vegas);
        }
    }
}

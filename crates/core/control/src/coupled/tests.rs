use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::*;
use crate::law::{Scalar, WindowLaw};
use crate::laws::{Balia, Cubic, Lia, Reno};
use crate::options::{Growth, SlowStartKind};
use crate::registry::LawSpec;

fn new_path(window: f64, size: u32, rtt_ms: u64) -> NewPath {
    NewPath {
        now: Time::ZERO,
        initial_window: window,
        packet_size: size,
        initial_rtt: Duration::from_millis(rtt_ms),
    }
}

fn ack(slot: Slot, packets: f64, rtt_ms: u64) -> Ack {
    let rtt = Duration::from_millis(rtt_ms);
    Ack {
        slot,
        now: Time::ZERO,
        packets,
        rtt,
        rtt_sampled: true,
        smoothed_rtt: rtt,
        min_rtt: rtt,
        sent: Time::ZERO,
        received: None,
        app_limited: false,
        in_recovery: false,
        delivery: None,
    }
}

fn loss(slot: Slot) -> Loss {
    Loss {
        slot,
        now: Time::ZERO,
        sent: Time::ZERO,
        packets: 1.0,
    }
}

/// A path that a first loss has taken to congestion avoidance with `window` packets.
fn avoiding<L: Law>(controller: &mut Coupled<L>, window: f64, size: u32, rtt_ms: u64) -> Slot {
    let slot = controller.add_path(new_path(window, size, rtt_ms));
    let member = controller.slots.get_mut(slot).unwrap();
    member.slow_start.set_threshold(window);
    slot
}

#[test]
fn growth_by_acknowledgements_takes_each_for_one_packet_at_most() {
    for (growth, slow, avoided) in [(Growth::Bytes, 13.0, 10.3), (Growth::Acks, 11.0, 10.1)] {
        let options = Options::default()
            .with_slow_start(SlowStartKind::Standard)
            .with_growth(growth);
        for name in ["reno", "cubic"] {
            let mut controller = name.parse::<LawSpec>().unwrap().controller(&options);
            let path = controller.add_path(new_path(10.0, 1500, 50));
            controller.on_ack(&ack(path, 3.0, 50));
            assert_eq!(controller.window(path), slow, "{name}");
        }
        let mut reno = Coupled::new(Reno, options);
        let path = avoiding(&mut reno, 10.0, 1500, 50);
        reno.on_ack(&ack(path, 3.0, 50));
        assert!((reno.window(path) - avoided).abs() < 1e-12);
        // Less than a packet is what it is.
        let before = reno.window(path);
        reno.on_ack(&ack(path, 0.5, 50));
        assert!((reno.window(path) - before - 0.5 / before).abs() < 1e-12);
    }
}

#[test]
fn slow_start_is_each_paths_own_and_avoidance_is_coupled() {
    let mut lia = Coupled::new(Lia, Options::default());
    let a = lia.add_path(new_path(10.0, 1500, 50));
    let b = avoiding(&mut lia, 10.0, 1500, 50);
    assert!(lia.in_slow_start(a) && !lia.in_slow_start(b));
    lia.on_ack(&ack(a, 10.0, 50));
    assert_eq!(lia.window(a), 20.0);
    // max(w)/W² with w = 20 and 10.
    lia.on_ack(&ack(b, 1.0, 50));
    assert!((lia.window(b) - 10.0 - 20.0 / 900.0).abs() < 1e-12);
}

#[test]
fn reno_grows_by_one_packet_a_window_and_halves() {
    let mut reno = Coupled::new(Reno, Options::default());
    let slot = avoiding(&mut reno, 10.0, 1500, 50);
    for _ in 0..10 {
        reno.on_ack(&ack(slot, 1.0, 50));
    }
    assert!((reno.window(slot) - 11.0).abs() < 0.05);
    let before = reno.window(slot);
    reno.on_loss(&loss(slot));
    assert_eq!(reno.window(slot), before / 2.0);
    assert_eq!(
        reno.slots.get(slot).unwrap().slow_start.threshold(),
        before / 2.0
    );
    assert!(!reno.in_slow_start(slot));
}

#[test]
fn unused_windows_and_old_packets_grow_nothing() {
    let mut reno = Coupled::new(Reno, Options::default());
    for slot in [
        avoiding(&mut reno, 10.0, 1500, 50),
        reno.add_path(new_path(10.0, 1500, 50)),
    ] {
        reno.on_ack(&Ack {
            app_limited: true,
            ..ack(slot, 5.0, 50)
        });
        reno.on_ack(&Ack {
            in_recovery: true,
            ..ack(slot, 5.0, 50)
        });
        assert_eq!(reno.window(slot), 10.0);
    }
}

#[test]
fn old_packets_grow_windows_where_they_are_told_to() {
    let options = Options::default().with_growth_in_recovery(true);
    let old = |slot| Ack {
        in_recovery: true,
        ..ack(slot, 5.0, 50)
    };
    let mut reno = Coupled::new(Reno, options);
    let slot = avoiding(&mut reno, 10.0, 1500, 50);
    reno.on_ack(&Ack {
        app_limited: true,
        ..old(slot)
    });
    assert_eq!(reno.window(slot), 10.0);
    reno.on_ack(&old(slot));
    assert_eq!(reno.window(slot), 10.5);
    // Not by the acknowledgement that brought the cut, but by those behind it.
    let cut = loss(slot);
    reno.on_loss(&cut);
    reno.on_ack(&Ack {
        now: cut.now,
        ..old(slot)
    });
    assert_eq!(reno.window(slot), 5.25);
    reno.on_ack(&Ack {
        now: cut.now + Duration::from_millis(1),
        ..old(slot)
    });
    assert!(reno.window(slot) > 6.0);
    for (grows, window) in [(false, 10.0), (true, 15.0)] {
        let options = options.with_growth_in_recovery(grows);
        let mut cubic = Cubic::new(options);
        let slot = cubic.add_path(new_path(10.0, 1500, 50));
        cubic.on_ack(&old(slot));
        assert_eq!(cubic.window(slot), window);
    }
}

/// RFC 6356 in bytes on paths with different packet sizes (there MSS_i differs by subflow).
#[test]
fn laws_compare_bytes_where_packet_sizes_differ() {
    let mut lia = Coupled::new(Lia, Options::default());
    let small = avoiding(&mut lia, 30.0, 1000, 20);
    let large = avoiding(&mut lia, 10.0, 4000, 40);
    // Bytes: 30,000 and 40,000. cwnd/rtt²: 7.5e7 and 2.5e7; Σ cwnd/rtt: 1.5e6 + 1e6.
    let increase = 7.5e7 / 2.5e6f64.powi(2);
    lia.on_ack(&ack(small, 1.0, 20));
    assert!((lia.window(small) - 30.0 - increase * 1000.0).abs() < 1e-9);
    let mut lia = Coupled::new(Lia, Options::default());
    avoiding(&mut lia, 30.0, 1000, 20);
    let slot = avoiding(&mut lia, 10.0, 4000, 40);
    assert_eq!(slot, large);
    lia.on_ack(&ack(large, 1.0, 40));
    assert!((lia.window(large) - 10.0 - increase * 4000.0).abs() < 1e-9);
}

#[test]
fn balia_may_go_to_one_packet_while_it_has_another_path() {
    let mut balia = Coupled::new(Balia, Options::default());
    let a = avoiding(&mut balia, 4.0, 1500, 50);
    let b = avoiding(&mut balia, 40.0, 1500, 50);
    balia.on_loss(&loss(a));
    // α = 10, capped: three quarters of two.
    assert_eq!(balia.window(a), 1.0);
    balia.on_timeout(b, Time::ZERO);
    assert_eq!(balia.window(b), 1.0);
    balia.remove_path(b);
    assert_eq!(balia.window(b), 0.0);
    assert_eq!(balia.window(a), 2.0);
}

#[test]
fn a_timeout_slow_starts_to_the_last_threshold() {
    let mut reno = Coupled::new(Reno, Options::default());
    let slot = reno.add_path(new_path(40.0, 1500, 50));
    reno.on_loss(&loss(slot));
    reno.on_timeout(slot, Time::ZERO);
    assert_eq!(reno.window(slot), 2.0);
    assert!(reno.in_slow_start(slot));
    reno.on_ack(&ack(slot, 30.0, 50));
    assert_eq!(reno.window(slot), 20.0);
}

#[test]
fn the_floor_is_an_option() {
    let options = Options::default().with_window_floor(1.5);
    let mut balia = Coupled::new(Balia, options);
    let a = avoiding(&mut balia, 2.0, 1500, 50);
    avoiding(&mut balia, 40.0, 1500, 50);
    balia.on_loss(&loss(a));
    assert_eq!(balia.window(a), 1.5);
    for nonsense in [f64::NAN, -3.0, 0.0] {
        let options = Options::default().with_window_floor(nonsense);
        assert_eq!(Coupled::new(Lia, options).window_floor(), 1.0);
    }
}

#[test]
fn slots_are_reused_and_late_calls_ignored() {
    let mut lia = Coupled::new(Lia, Options::default());
    let slots: Vec<_> = (0..3)
        .map(|i| lia.add_path(new_path(10.0 + f64::from(i), 1500, 50)))
        .collect();
    lia.remove_path(slots[0]);
    lia.remove_path(slots[0]);
    lia.on_loss(&loss(slots[0]));
    lia.on_timeout(slots[0], Time::ZERO);
    lia.on_ack(&ack(slots[0], 5.0, 50));
    assert_eq!(lia.paths.len(), 2);
    assert_eq!(lia.window(slots[1]), 11.0);
    assert_eq!(lia.window(slots[2]), 12.0);
    assert_eq!(lia.add_path(new_path(20.0, 1500, 50)), slots[0]);
    assert_eq!(lia.window(slots[0]), 20.0);
}

/// Reno that counts its evaluations, each of which would be O(n) for a coupled law.
#[derive(Debug, Default)]
struct Counted(Arc<AtomicUsize>);

impl WindowLaw for Counted {
    fn increase<D: Scalar>(&self, paths: &[Path<D>], r: usize) -> D {
        self.0.fetch_add(1, Ordering::Relaxed);
        WindowLaw::increase(&Reno, paths, r)
    }
    fn decrease<D: Scalar>(&self, paths: &[Path<D>], r: usize) -> D {
        WindowLaw::decrease(&Reno, paths, r)
    }
    fn name(&self) -> &'static str {
        "counted"
    }
}

#[test]
fn the_law_is_evaluated_every_eighth_of_n_acknowledgements() {
    for (paths, want) in [(1, 800), (8, 800), (16, 400), (64, 100), (200, 32)] {
        let count = Arc::new(AtomicUsize::new(0));
        let mut controller = Coupled::new(Counted(count.clone()), Options::default());
        let slots: Vec<_> = (0..paths)
            .map(|_| avoiding(&mut controller, 10.0, 1500, 50))
            .collect();
        for _ in 0..800 {
            controller.on_ack(&ack(slots[0], 1.0, 50));
        }
        assert_eq!(count.load(Ordering::Relaxed), want, "{paths} paths");
        // What the path's own events and membership changes throw away is computed anew.
        controller.on_round_end(&Round {
            slot: slots[0],
            now: Time::ZERO,
        });
        controller.on_ack(&ack(slots[0], 1.0, 50));
        controller.on_loss(&loss(slots[0]));
        controller.on_ack(&ack(slots[0], 1.0, 50));
        avoiding(&mut controller, 10.0, 1500, 50);
        controller.on_ack(&ack(slots[0], 1.0, 50));
        assert_eq!(count.load(Ordering::Relaxed), want + 3, "{paths} paths");
    }
}

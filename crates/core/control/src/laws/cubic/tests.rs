use std::time::Duration;

use super::curve::Stage;
use super::*;
use crate::options::SlowStartKind;

const SLOT: Slot = Slot(0);

/// A CUBIC path with a window in congestion avoidance, fed a window of acknowledgements per round.
struct Pipe {
    cubic: Cubic,
    now: Time,
    rtt: Duration,
}

impl Pipe {
    fn new(window: f64, rtt_ms: u64) -> Self {
        let options = Options::default().with_slow_start(SlowStartKind::Standard);
        let mut cubic = Cubic::new(options);
        let rtt = Duration::from_millis(rtt_ms);
        cubic.add_path(NewPath {
            now: Time::ZERO,
            initial_window: window,
            packet_size: 1200,
            initial_rtt: rtt,
        });
        Pipe {
            cubic,
            now: Time::ZERO,
            rtt,
        }
    }

    fn window(&self) -> f64 {
        self.cubic.window(SLOT)
    }

    fn lose(&mut self) {
        self.cubic.on_loss(&Loss {
            slot: SLOT,
            now: self.now,
            sent: self.now,
            packets: 1.0,
        });
    }

    fn ack(&mut self, packets: f64, app_limited: bool) {
        self.cubic.on_ack(&Ack {
            slot: SLOT,
            now: self.now,
            packets,
            rtt: self.rtt,
            rtt_sampled: true,
            smoothed_rtt: self.rtt,
            min_rtt: self.rtt,
            sent: Time::ZERO,
            received: None,
            app_limited,
            in_recovery: false,
            delivery: None,
        });
    }

    /// A round trip in which the whole window is acknowledged, in single packets spread evenly.
    fn round(&mut self) {
        let packets = self.window() as u32;
        for _ in 0..packets {
            self.now += self.rtt / packets;
            self.ack(1.0, false);
        }
    }

    fn path(&self) -> &Curve {
        self.cubic.slots.get(SLOT).unwrap()
    }
}

/// W_max = 1000, so K = (300/0.4)^(1/3) = 9.086 s: concave up to 1000, flat there, then convex.
#[test]
fn the_window_follows_the_cubic() {
    let mut pipe = Pipe::new(1000.0, 100);
    pipe.lose();
    assert_eq!(pipe.window(), 700.0);
    let k = 750f64.cbrt();
    let mut steps = Vec::new();
    while pipe.now < Time::from_millis(15_000) {
        let before = pipe.window();
        pipe.round();
        steps.push(pipe.window() - before);
        // The target is one round trip ahead (§4.2), the epoch began with the first
        // acknowledgement.
        let t = pipe.now.as_secs_f64();
        let want = 0.4 * (t - k).powi(3) + 1000.0;
        let error = (pipe.window() - want).abs() / want;
        assert!(error < 0.01, "at {t} s {} against {want}", pipe.window());
    }
    let at = |seconds: f64| steps[(seconds * 10.0) as usize];
    assert!(
        at(1.0) > 2.0 * at(5.0) && at(5.0) > 2.0 * at(8.8),
        "concave"
    );
    assert!(at(9.0) < 0.1, "plateau");
    assert!(at(14.0) > 2.0 * at(11.5), "convex");
}

#[test]
fn fast_convergence_lowers_the_plateau() {
    let mut pipe = Pipe::new(100.0, 100);
    pipe.lose();
    assert_eq!(pipe.path().w_max, 100.0);
    pipe.lose();
    assert!((pipe.path().w_max - 70.0 * 0.85).abs() < 1e-9);
    assert!((pipe.window() - 49.0).abs() < 1e-9);
}

/// With a short round trip and a small window Reno would be faster than the cubic: the window grows
/// by α = 0.529 a round trip up to the old window, then by 1.
#[test]
fn small_windows_grow_as_renos_would() {
    let mut pipe = Pipe::new(20.0, 10);
    pipe.lose();
    assert_eq!(pipe.window(), 14.0);
    for _ in 0..8 {
        let before = pipe.window();
        pipe.round();
        let step = pipe.window() - before;
        // Windows aren't whole and rounds are: hence a twelfth.
        assert!(step <= ALPHA && step > ALPHA * 11.0 / 12.0, "{step}");
    }
    while pipe.window() < 20.0 {
        pipe.round();
    }
    let before = pipe.window();
    pipe.round();
    let step = pipe.window() - before;
    assert!(step <= 1.0 && step > 0.95, "{step}");
}

/// At least as fast as a target of 1.5 windows a round trip allows, never faster (§4.2).
#[test]
fn the_target_is_clamped() {
    let mut pipe = Pipe::new(10.0, 1000);
    pipe.lose();
    let mut last = pipe.window();
    for _ in 0..40 {
        pipe.round();
        assert!(pipe.window() <= last * 1.5 + 1.0);
        last = pipe.window();
    }
    assert!(last > 1000.0);
}

#[test]
fn idle_time_does_not_count() {
    let mut busy = Pipe::new(1000.0, 100);
    busy.lose();
    for _ in 0..20 {
        busy.round();
    }
    let mut idle = Pipe {
        cubic: busy.cubic.clone(),
        ..busy
    };
    // Ten seconds of a trickle, then the same round as the busy one.
    for _ in 0..100 {
        idle.now += Duration::from_millis(100);
        idle.ack(1.0, true);
    }
    assert_eq!(idle.window(), busy.window());
    busy.round();
    idle.round();
    assert!((idle.window() - busy.window()).abs() < 1e-6);
}

#[test]
fn leaving_slow_start_without_a_loss_starts_at_the_plateau() {
    let mut pipe = Pipe::new(50.0, 100);
    let path = pipe.cubic.slots.get_mut(SLOT).unwrap();
    path.slow_start.set_threshold(50.0);
    pipe.ack(1.0, false);
    assert_eq!(pipe.path().w_max, 50.0);
    assert!(matches!(pipe.path().stage, Stage::Avoidance { k, .. } if k == 0.0));
}

#[test]
fn a_timeout_slow_starts_to_the_threshold_of_the_loss() {
    let mut pipe = Pipe::new(100.0, 100);
    pipe.lose();
    pipe.cubic.on_timeout(SLOT, pipe.now);
    assert_eq!(pipe.window(), 2.0);
    assert!(pipe.cubic.in_slow_start(SLOT));
    pipe.ack(100.0, false);
    assert_eq!(pipe.window(), 70.0);
    assert!(!pipe.cubic.in_slow_start(SLOT));
    pipe.ack(1.0, false);
    assert_eq!(pipe.path().w_max, 70.0);
}

/// The curve neither jumps nor starts anew when the path's share of the flow changes.
#[test]
fn another_share_goes_on_from_where_the_curve_is() {
    for (share, alone) in [(0.25, 1.0), (0.5, 1.0), (4.0, 1.0), (1.0, 4.0), (0.5, 2.0)] {
        let mut pipe = Pipe::new(1000.0, 100);
        pipe.lose();
        (0..30).for_each(|_| pipe.round());
        let before = pipe.window();
        pipe.round();
        let step = pipe.window() - before;
        let path = pipe.cubic.slots.get_mut(SLOT).unwrap();
        path.set_share(share, alone);
        let before = pipe.window();
        pipe.round();
        // The slope is 3·C·s², with s as the cube root of 1/C.
        let next = pipe.window() - before;
        let expected = step * share.cbrt() / alone.sqrt();
        assert!(
            (next / expected - 1.0).abs() < 0.1,
            "{share}, {alone}: {next} {expected}"
        );
    }
}

#[test]
fn one_of_four_that_are_cut_alone_has_half_of_renos_growth() {
    let steps = [1.0, 4.0].map(|alone| {
        let mut pipe = Pipe::new(100.0, 10);
        let path = pipe.cubic.slots.get_mut(SLOT).unwrap();
        path.set_share(1.0, alone);
        pipe.lose();
        pipe.round();
        let before = pipe.window();
        pipe.round();
        pipe.window() - before
    });
    assert!((steps[1] / steps[0] - 0.5).abs() < 0.01, "{steps:?}");
}

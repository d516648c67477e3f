use std::time::{Duration, Instant};

use manyway_control::registry::laws;
use manyway_control::{Law, Path};
use noq_proto::congestion::{Controller, ControllerFactory};

mod recorder;

use super::*;
use crate::path::Batch;

const MTU: u16 = 1200;
const RTTS: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(50)];

/// Two paths of one connection, as noq drives them.
struct Pair {
    now: Instant,
    group: Group,
    paths: Vec<CoupledPath>,
    sent: u64,
}

impl Pair {
    fn new(law: &str) -> Self {
        let coupling = Coupling::new(law.parse().unwrap()).unwrap();
        let group = Group::new(coupling.law.controller(&coupling.options));
        let now = Instant::now();
        let path = || CoupledPath::new(&group, now, MTU);
        Pair {
            now,
            paths: vec![path(), path()],
            group,
            sent: 0,
        }
    }

    /// Path `r` sends so many packets, and a round-trip time later one ACK acknowledges them.
    fn ack(&mut self, r: usize, packets: u64) {
        let sent = self.now;
        self.now += RTTS[r];
        for _ in 0..packets {
            self.sent += 1;
            self.paths[r].on_packet_acked(Batch {
                bytes: u64::from(MTU),
                largest: self.sent,
                sent,
                app_limited: false,
                smoothed_rtt: RTTS[r],
                min_rtt: RTTS[r],
            });
        }
        self.paths[r].on_end_acks(self.now, 0, false, Some(self.sent));
    }

    /// A packet of path `r` that was sent just now is lost.
    fn lose(&mut self, r: usize) {
        let sent = self.now;
        self.now += Duration::from_millis(1);
        let bytes = u64::from(MTU);
        self.paths[r].on_congestion_event(self.now, sent, false, false, bytes, self.sent);
    }

    /// Windows in packets, and round-trip times, as a law sees them.
    fn state(&self) -> Vec<Path<f64>> {
        let rtts = RTTS.iter().map(Duration::as_secs_f64);
        let window = |path: &CoupledPath| {
            let shared = path.member().lock();
            manyway_control::Controller::window(&shared.controller, path.member().slot())
        };
        let windows = self.paths.iter().map(window);
        let paths = windows.zip(rtts);
        paths.map(|(window, rtt)| Path { window, rtt }).collect()
    }

    /// Both paths out of slow start, with windows of their own.
    fn in_congestion_avoidance(law: &str) -> Self {
        let mut pair = Pair::new(law);
        pair.ack(0, 10);
        pair.ack(0, 20);
        pair.ack(1, 10);
        for r in [0, 1] {
            pair.lose(r);
            pair.now += Duration::from_millis(1);
            // What was sent before the cut doesn't count.
            pair.ack(r, 1);
            assert!(!pair.paths[r].in_slow_start());
        }
        pair
    }
}

#[test]
fn a_window_grows_as_the_law_says_with_its_siblings_in_view() {
    for name in ["lia", "olia", "balia", "coupled", "ewtcp", "reno"] {
        let spec: LawSpec = name.parse().unwrap();
        let law = spec.window_law();
        for r in [0, 1] {
            let mut pair = Pair::in_congestion_avoidance(name);
            let before = pair.state();
            pair.ack(r, 2);
            let after = pair.state();
            assert_eq!(after[1 - r], before[1 - r], "{name}: the sibling's window");
            // OLIA remembers, so it is no law of windows and round-trip times alone.
            if let Some(law) = &law {
                let expected = 2.0 * Law::increase(law, &before, r);
                let grown = after[r].window - before[r].window;
                assert!(
                    (grown - expected).abs() < 1e-9,
                    "{name}: {grown}, not {expected}"
                );
            }
        }
    }
}

/// Beside a sibling a LIA window grows slower than alone; a Reno window doesn't care.
#[test]
fn a_sibling_slows_growth_down_under_lia_only() {
    let growth = |law: &str, siblings: bool| {
        let mut pair = Pair::in_congestion_avoidance(law);
        if !siblings {
            pair.paths.truncate(1);
        }
        let before = pair.state()[0].window;
        pair.ack(0, 1);
        pair.state()[0].window - before
    };
    assert!(growth("lia", true) < 0.9 * growth("lia", false));
    assert_eq!(growth("reno", true), growth("reno", false));
}

#[test]
fn windows_are_cut_once_for_what_was_in_flight() {
    let mut pair = Pair::in_congestion_avoidance("reno");
    pair.ack(0, 1);
    let before = pair.paths[0].window();
    let sent = pair.now;
    let bytes = u64::from(MTU);
    pair.now += RTTS[0];
    pair.paths[0].on_congestion_event(pair.now, sent, false, false, bytes, 0);
    let cut = pair.paths[0].window();
    assert!(cut.abs_diff(before / 2) <= 1, "{before} to {cut}");
    let later = pair.now + Duration::from_millis(1);
    pair.paths[0].on_congestion_event(later, sent, false, false, bytes, 0);
    pair.paths[0].on_congestion_event(later, sent, false, true, 0, 0);
    assert_eq!(pair.paths[0].window(), cut, "same event");
    pair.paths[0].on_congestion_event(later, later, false, true, 0, 0);
    assert!(pair.paths[0].window() < cut, "a mark is an event, too");
}

#[test]
fn acknowledgements_of_what_was_sent_before_a_cut_dont_open_the_window() {
    let mut pair = Pair::in_congestion_avoidance("reno");
    let sent = pair.now;
    pair.lose(0);
    let cut = pair.paths[0].window();
    pair.now = sent;
    pair.ack(0, 4);
    assert_eq!(pair.paths[0].window(), cut);
    pair.ack(0, 4);
    assert!(pair.paths[0].window() > cut);
}

#[test]
fn a_spurious_cut_is_undone_once() {
    let mut pair = Pair::in_congestion_avoidance("balia");
    let before = pair.paths[0].window();
    pair.paths[0].on_spurious_congestion_event();
    let first = pair.paths[0].window();
    assert!(first > before, "the cut of the preparation is undone");
    pair.paths[0].on_spurious_congestion_event();
    assert_eq!(pair.paths[0].window(), first);
    // A mark says that the queue was there.
    pair.now += RTTS[0];
    let now = pair.now;
    pair.paths[0].on_congestion_event(now, now, false, true, 0, 0);
    let marked = pair.paths[0].window();
    pair.paths[0].on_spurious_congestion_event();
    assert_eq!(pair.paths[0].window(), marked);
}

#[test]
fn persistent_congestion_starts_again_from_the_smallest_window() {
    let mut pair = Pair::in_congestion_avoidance("lia");
    pair.now += RTTS[0];
    let now = pair.now;
    let bytes = 5 * u64::from(MTU);
    pair.paths[0].on_congestion_event(now, now, true, false, bytes, 0);
    assert_eq!(pair.paths[0].window(), 2 * u64::from(MTU));
    assert!(pair.paths[0].in_slow_start());
}

#[test]
fn a_window_stays_what_it_is_in_bytes_when_packets_grow() {
    let mut pair = Pair::in_congestion_avoidance("lia");
    let before = pair.paths[0].window();
    pair.paths[0].on_mtu_update(1452);
    assert!(pair.paths[0].window().abs_diff(before) <= 1);
    // Never less than noq needs to send anything.
    pair.paths[0].on_mtu_update(u16::MAX);
    assert!(pair.paths[0].window() >= u64::from(u16::MAX));
}

#[test]
fn the_first_acknowledgement_counts_with_the_time_it_took() {
    let mut pair = Pair::in_congestion_avoidance("lia");
    let now = pair.now;
    let mut third = CoupledPath::new(&pair.group, now, MTU);
    let initial = Duration::from_millis(333);
    third.on_packet_acked(Batch {
        bytes: u64::from(MTU),
        largest: 0,
        sent: now,
        app_limited: false,
        smoothed_rtt: initial,
        min_rtt: initial,
    });
    third.on_end_acks(now + RTTS[0], 0, false, Some(0));
    let expected = {
        let mut paths = pair.state();
        paths.push(Path {
            window: third.window() as f64 / f64::from(MTU),
            rtt: RTTS[0].as_secs_f64(),
        });
        let law = "lia".parse::<LawSpec>().unwrap().window_law().unwrap();
        Law::increase(&law, &paths, 0)
    };
    let before = pair.state()[0].window;
    pair.ack(0, 1);
    let grown = pair.state()[0].window - before;
    assert!((grown - expected).abs() < 1e-9, "{grown}, not {expected}");
}

/// noq clones a controller when a path's port changes, and for `congestion_state`.
#[test]
fn clones_are_the_same_path_and_the_last_one_takes_it_along() {
    let mut pair = Pair::in_congestion_avoidance("lia");
    let twin = pair.paths[0].clone_box();
    assert_eq!(pair.paths[1].coupled_paths(), 2);
    pair.ack(0, 3);
    assert_eq!(twin.window(), pair.paths[0].window());
    pair.paths.remove(0);
    assert_eq!(pair.paths[0].coupled_paths(), 2);
    let twin = twin.into_any().downcast::<CoupledPath>().unwrap();
    assert_eq!(twin.coupled_paths(), 2);
    drop(twin);
    assert_eq!(pair.paths[0].coupled_paths(), 1);
}

#[test]
fn each_connection_has_a_group_of_its_own() {
    let coupling = Coupling::new("lia".parse().unwrap()).unwrap();
    let build = || {
        let group = Group::new(coupling.law.controller(&coupling.options));
        Arc::new(Factory::new(group))
    };
    let now = Instant::now();
    let (first, second) = (build(), build());
    let paths = [first.clone(), first, second].map(|factory| factory.build(now, MTU));
    let counts = paths.map(|path| path.into_any().downcast::<CoupledPath>().unwrap());
    let counts = counts.each_ref().map(|path| path.coupled_paths());
    assert_eq!(counts, [2, 2, 1]);
}

#[test]
fn laws_that_noq_cant_carry_are_refused_by_name() {
    let mut refused = Vec::new();
    for law in laws() {
        match Coupling::new(law.clone()) {
            Ok(_) => {}
            Err(error) => {
                assert!(error.to_string().starts_with(law.name()), "{error}");
                refused.push(law.name());
            }
        }
    }
    assert_eq!(refused, ["bbr", "mpath"]);
}

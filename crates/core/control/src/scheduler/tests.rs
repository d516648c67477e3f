use std::time::Duration;

use manyway_units::Time;

use super::*;

const T0: Time = Time::ZERO;

/// 1 MB/s at 10 ms.
fn fast() -> Pipe {
    Pipe {
        rtt: 0.01,
        deviation: 0.0,
        recovery: 0.0,
        window: 10_000.0,
        in_flight: 10_000.0,
        packet: 1000.0,
        slow_start: false,
    }
}

/// 100 kB/s at 100 ms.
fn slow() -> Pipe {
    Pipe {
        rtt: 0.1,
        in_flight: 0.0,
        ..fast()
    }
}

/// So much to send, and a window that never is in the way.
fn unsent(bytes: u64) -> Backlog {
    Backlog {
        unsent: bytes,
        unacked: 0,
        credit: 1 << 40,
    }
}

/// To send without end, into a window of so many bytes.
fn window(credit: u64) -> Backlog {
    Backlog {
        unsent: 1 << 40,
        unacked: 0,
        credit,
    }
}

#[test]
fn names_are_read_as_they_are_written() {
    for scheduler in Scheduler::ALL {
        assert_eq!(scheduler.to_string().parse(), Ok(scheduler));
    }
    assert_eq!(Scheduler::ALL[0], Scheduler::default());
    let unknown = "rr".parse::<Scheduler>().expect_err("unknown").to_string();
    for scheduler in Scheduler::ALL {
        assert!(unknown.contains(&format!("`{scheduler}`")), "{unknown}");
    }
}

#[test]
fn some_never_wait() {
    for scheduler in [Scheduler::MinRtt, Scheduler::Redundant] {
        let mut waiting = Waiting::new(scheduler);
        for backlog in [unsent(1), window(0)] {
            assert!(!waiting.better_to_wait(T0, &slow(), &fast(), backlog));
        }
    }
}

#[test]
fn earliest_delivery_waits_for_a_short_rest_or_a_tight_window() {
    let mut waiting = Waiting::new(Scheduler::EarliestDelivery);
    let mut wait = |slow: Pipe, fast: Pipe, b| waiting.better_to_wait(T0, &slow, &fast, b);
    assert!(
        wait(slow(), fast(), unsent(89_000)),
        "99 ms are less than 100"
    );
    assert!(!wait(slow(), fast(), unsent(91_000)));
    // Doubled each round trip, the window takes nine of them for 511 times as much.
    let starting = Pipe {
        slow_start: true,
        ..fast()
    };
    assert!(wait(slow(), starting, unsent(5_100_000)));
    assert!(!wait(slow(), starting, unsent(5_200_000)));
    // 50 ms later, or earlier, for who loses packets.
    let lossy = |pipe| Pipe {
        recovery: 0.05,
        ..pipe
    };
    assert!(wait(lossy(slow()), fast(), unsent(139_000)));
    assert!(!wait(lossy(slow()), fast(), unsent(141_000)));
    assert!(wait(lossy(slow()), lossy(fast()), unsent(89_000)));
    assert!(!wait(lossy(slow()), lossy(fast()), unsent(91_000)));
    // Ten windows: 100 kB.
    assert!(wait(slow(), fast(), window(99_000)));
    assert!(!wait(slow(), fast(), window(101_000)));
    let near = Pipe {
        rtt: 0.019,
        ..slow()
    };
    assert!(!wait(near, fast(), window(1000)), "not much slower");
}

/// Lim et al. 2017, Algorithm 1.
#[test]
fn ecf_waits_while_that_completes_the_transfer_sooner_and_doesnt_flip() {
    let mut waiting = Waiting::new(Scheduler::Ecf);
    let mut wait = |slow: Pipe, b| waiting.better_to_wait(T0, &slow, &fast(), b);
    // 1 + k/10 kB round trips of 10 ms are less than 100 ms.
    assert!(!wait(slow(), unsent(91_000)));
    assert!(wait(slow(), unsent(89_000)));
    // Once it waits, 125 ms.
    assert!(wait(slow(), unsent(114_000)));
    assert!(!wait(slow(), unsent(116_000)));
    assert!(!wait(slow(), unsent(114_000)), "it has stopped to wait");
    // On the slow path it takes a round trip at least: less than two of the fast one are worth it.
    let near = Pipe {
        rtt: 0.019,
        ..slow()
    };
    assert!(!wait(near, unsent(1000)));
    let unsteady = Pipe {
        rtt: 0.021,
        deviation: 0.002,
        ..slow()
    };
    assert!(
        !wait(unsteady, unsent(1000)),
        "21 ms aren't two round trips and 2 ms"
    );
    assert!(wait(
        Pipe {
            deviation: 0.0,
            ..unsteady
        },
        unsent(1000)
    ));
    assert!(
        !wait(slow(), window(0)),
        "the window is none of its business"
    );
}

/// Ferlin et al. 2016, §III.
#[test]
fn blest_keeps_the_send_window_for_the_fast_path() {
    let mut waiting = Waiting::new(Scheduler::Blest);
    let mut wait = |slow: Pipe, fast: Pipe, b| waiting.better_to_wait(T0, &slow, &fast, b);
    // (10 + 9/2) packets in each of ten round trips, times 1.2, and the packet itself: 175 kB.
    assert!(wait(slow(), fast(), window(174_000)));
    assert!(!wait(slow(), fast(), window(176_000)));
    let busy = Pipe {
        in_flight: 50_000.0,
        ..slow()
    };
    assert!(wait(busy, fast(), window(224_000)));
    assert!(!wait(busy, fast(), window(226_000)));
    let sent = Backlog {
        unacked: 50_000,
        ..window(176_000)
    };
    assert!(
        !wait(busy, fast(), sent),
        "the window is what was sent, and the rest"
    );
    // 10 kB, 20 kB, ... 5120 kB: 10.23 MB.
    let starting = Pipe {
        slow_start: true,
        ..fast()
    };
    assert!(wait(slow(), starting, window(12_270_000)));
    assert!(!wait(slow(), starting, window(12_280_000)));
    assert!(
        !wait(slow(), fast(), unsent(1)),
        "the rest is none of its business"
    );
}

#[test]
fn blest_grows_careful_while_the_window_is_blocked() {
    let mut waiting = Waiting::new(Scheduler::Blest);
    let mut now = T0;
    // What the window must have beside one packet, over 145 kB: λ.
    let mut lambda = |blocked: bool, rounds: u32| {
        for _ in 0..rounds {
            now += Duration::from_millis(10);
            if blocked {
                waiting.on_blocked();
            }
            waiting.better_to_wait(now, &slow(), &fast(), window(0));
        }
        let enough = |kb: u64| {
            !waiting
                .clone()
                .better_to_wait(now, &slow(), &fast(), window(kb))
        };
        let least = (0..400_000).step_by(10).find(|&window| enough(window));
        (least.expect("enough") as f64 - 1000.0) / 145_000.0
    };
    for (blocked, rounds, expected) in [
        (false, 1, 1.19),
        (true, 1, 1.23),
        (true, 9, 1.3),
        (false, 3, 1.27),
        (false, 90, 1.0),
    ] {
        let lambda = lambda(blocked, rounds);
        assert!((lambda - expected).abs() < 1e-3, "{lambda} for {expected}");
    }
}

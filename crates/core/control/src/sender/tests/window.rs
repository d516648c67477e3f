//! The congestion window and the pacer.

use super::*;

#[test]
fn windows_that_are_not_used_are_reported() {
    let limited = |b: &Bench| b.controller.acks.last().unwrap().app_limited;
    let mut b = Bench::new(false);
    // 20 packets of window; 14 in flight is three quarters less one.
    b.send(13).wait(50).ack(&[0..=0]);
    assert!(limited(&b));
    b.send(2).wait(50).ack(&[0..=1]);
    assert!(!limited(&b));
    b.controller.slow_start = true;
    let mut b = Bench::new(false);
    b.controller.slow_start = true;
    b.send(8).wait(50).ack(&[0..=0]);
    assert!(limited(&b));
    b.send(2).wait(50).ack(&[0..=1]);
    assert!(!limited(&b));
    // And what the owner says counts.
    let number = b.send_one(true, true);
    b.ack(&[0..=number]);
    assert!(limited(&b));
}

#[test]
fn use_of_the_window_is_forgotten_after_two_rounds() {
    let mut b = Bench::new(false);
    b.send(20).wait(50).ack(&[0..=19]);
    assert!(!b.controller.acks.last().unwrap().app_limited);
    let mut limited = Vec::new();
    for number in 20..24 {
        b.send(1).wait(50).ack(&[number..=number]);
        limited.push(b.controller.acks.last().unwrap().app_limited);
    }
    assert_eq!(limited, [false, true, true, true]);
}

#[test]
fn the_window_limits_packets_in_flight() {
    let mut b = Bench::new(false);
    assert_eq!(b.permit(), Permit::Now { packets: 20 });
    b.send(19);
    assert_eq!(b.permit(), Permit::Now { packets: 1 });
    b.controller.window = 19.99;
    assert_eq!(b.permit(), Permit::WindowFull);
    b.controller.window = 20.0 - 1e-9;
    assert_eq!(b.permit(), Permit::Now { packets: 1 });
    b.controller.window = 1.0;
    assert_eq!(b.permit(), Permit::WindowFull);
}

/// 20 packets of 1000 bytes in 40 ms, 1.25 times over: a packet every 1.6 ms, two at once.
#[test]
fn pacing_spreads_the_window_over_the_round_trip() {
    let mut b = Bench::new(true);
    b.sender.seed_rtt(Duration::from_millis(40));
    b.sender.update_pacer(&b.controller);
    assert!((b.sender.pacer.rate() - 625_000.0).abs() < 1e-6);
    let (start, mut left) = (b.now, Vec::new());
    while left.len() < 20 {
        match b.permit() {
            Permit::Now { packets } => {
                assert!(packets <= 2);
                left.push(b.now.since(start).as_micros());
                b.send(1);
            }
            Permit::Paced(at) => {
                assert!(at > b.now);
                b.now = at;
                assert!(matches!(b.permit(), Permit::Now { .. }));
            }
            Permit::WindowFull => panic!("20 packets fit"),
        }
    }
    let want: Vec<u128> = [0].into_iter().chain((0..19).map(|i| i * 1600)).collect();
    assert_eq!(left, want);
    assert_eq!(b.permit(), Permit::WindowFull);
}

/// 1000 packets of 1000 bytes in 10 ms, doubled in slow start: 200 packets a millisecond.
#[test]
fn bursts_are_a_millisecond_on_fast_paths() {
    let mut b = Bench::new(true);
    b.controller.window = 1000.0;
    b.controller.slow_start = true;
    b.sender.seed_rtt(Duration::from_millis(10));
    b.sender.update_pacer(&b.controller);
    b.wait(100);
    assert_eq!(b.permit(), Permit::Now { packets: 200 });
    b.send(200);
    // Half a burst at a time.
    assert_eq!(
        b.permit(),
        Permit::Paced(b.now + Duration::from_micros(500))
    );
    b.now += Duration::from_micros(500);
    assert_eq!(b.permit(), Permit::Now { packets: 100 });
}

#[test]
fn probes_ignore_the_pacer_but_are_charged() {
    let mut b = Bench::new(true);
    b.sender.seed_rtt(Duration::from_millis(40));
    b.sender.update_pacer(&b.controller);
    b.send(4);
    // Two packets overdrawn: three to go, 1.6 ms each.
    assert_eq!(
        b.permit(),
        Permit::Paced(b.now + Duration::from_micros(4800))
    );
}

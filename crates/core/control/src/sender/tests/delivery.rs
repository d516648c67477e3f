//! What is measured for rate-based controllers (draft-ietf-ccwg-bbr §4.1).

use super::*;
use crate::controller::Delivery;

/// 20 packets of window, 1 MB/s: a packet each millisecond.
fn bench() -> Bench {
    let config = SenderConfig {
        packet_size: 1000,
        pacing: false,
        initial_rtt: Duration::from_millis(40),
        ..SenderConfig::default()
    };
    let controller = Recorder {
        rate_based: true,
        pacing_rate: Some(1e6),
        ..Recorder::default()
    };
    Bench::for_controller(config, controller)
}

fn sample(b: &Bench) -> Delivery {
    b.controller.acks.last().unwrap().delivery.unwrap()
}

/// Ten packets, one each millisecond, the last at 10 ms; then one is acknowledged each millisecond
/// and another sent, until 30 are.
fn stream(b: &mut Bench) {
    for _ in 0..10 {
        b.wait(1).send(1);
    }
    for number in 0..20 {
        b.wait(1).ack(&[number..=number]).send(1);
    }
}

#[test]
fn only_rate_based_controllers_get_samples() {
    let mut b = Bench::new(false);
    b.send(2).wait(40).ack(&[0..=0]);
    assert_eq!(b.controller.acks[0].delivery, None);
    assert!(!b.sender.config().pacing);
    assert!(bench().sender.config().pacing);
}

#[test]
fn the_rate_is_that_of_sending_or_of_acknowledging_whichever_is_slower() {
    let mut b = bench();
    stream(&mut b);
    // Packet 19 was sent when 10 were acknowledged, 10 ms ago.
    let last = sample(&b);
    assert_eq!((last.delivered, last.delivered_before), (20_000, 10_000));
    assert_eq!(last.interval, Duration::from_millis(10));
    assert_eq!(last.rate(), Some(1e6));
    assert!(!last.app_limited && !last.restarted);
    assert_eq!(
        (last.in_flight_then, last.in_flight, last.lost),
        (10_000, 9_000, 0)
    );

    // All that is in flight is acknowledged at once, early: no faster than it was sent.
    b.wait(1).ack(&[20..=29]);
    assert_eq!(sample(&b).rate(), Some(1e6));

    // Late, and it is no faster than it was acknowledged.
    let mut b = bench();
    stream(&mut b);
    b.wait(20).ack(&[20..=29]);
    let late = sample(&b);
    assert_eq!(
        (late.volume(), late.interval),
        (10_000, Duration::from_millis(20))
    );
}

#[test]
fn the_first_sample_is_a_round_trip_long() {
    let mut b = bench();
    b.send(4).wait(40).ack(&[0..=3]);
    assert_eq!(sample(&b).volume(), 4000);
    assert_eq!(sample(&b).interval, Duration::from_millis(40));
    // Nothing was in flight: the time without packets doesn't count.
    b.wait(500).send(4).wait(40).ack(&[4..=7]);
    assert_eq!(sample(&b).volume(), 4000);
    assert_eq!(sample(&b).interval, Duration::from_millis(40));
}

#[test]
fn what_follows_a_gap_in_the_data_is_limited_until_the_gap_has_left() {
    let mut b = bench();
    // Without room for more.
    b.controller.window = 1.0;
    b.send(3);
    b.send_one(true, true);
    b.wait(5).send(2).wait(40).ack(&[0..=3]);
    assert!(!sample(&b).app_limited, "sent before the gap");
    b.send(2).wait(1).ack(&[4..=5]);
    assert!(sample(&b).app_limited, "behind the gap");
    b.send(1).wait(40).ack(&[6..=7]);
    assert!(sample(&b).app_limited, "sent while the gap was under way");
    b.wait(40).ack(&[8..=8]);
    assert!(!sample(&b).app_limited);
}

/// A scheduler that prefers other paths says nothing, and the window is still open.
#[test]
fn a_path_that_is_given_less_than_it_could_carry_is_limited() {
    let mut b = bench();
    for number in 0..8 {
        b.wait(20).send(1).wait(20).ack(&[number..=number]);
    }
    assert!(sample(&b).app_limited);
    assert!(sample(&b).restarted);
    // A full window isn't, however long the acknowledgement takes.
    let mut b = bench();
    b.send(20)
        .wait(100)
        .ack(&[0..=9])
        .send(10)
        .wait(100)
        .ack(&[10..=29]);
    assert!(!sample(&b).app_limited && !sample(&b).restarted);
}

#[test]
fn lost_packets_are_reported_one_by_one() {
    let mut b = bench();
    b.send(8).wait(40).ack(&[7..=7, 0..=1]);
    let lost: Vec<_> = b
        .controller
        .lost
        .iter()
        .map(|p| (p.number, p.lost))
        .collect();
    assert_eq!(lost, [(2, 1000), (3, 2000), (4, 3000)]);
    let first = b.controller.lost[0];
    assert_eq!((first.in_flight_then, first.delivered), (3000, 3000));
    assert_eq!((first.bytes, first.app_limited), (1000, false));
    assert_eq!(sample(&b).lost, 3000);
    // The event comes before its packets.
    assert_eq!(b.controller.losses.len(), 1);
    b.send(2).wait(40).ack(&[9..=9]);
    assert_eq!(
        sample(&b).lost,
        2000,
        "5 and 6 were under way when 9 was sent"
    );
}

#[test]
fn the_controller_sets_the_pace() {
    let mut b = bench();
    b.send(2).wait(40).ack(&[0..=1]);
    assert!((b.sender.pacer.rate() - 1e6).abs() < 1.0);
    b.controller.pacing_rate = Some(5e5);
    b.send(2).wait(40).ack(&[2..=3]);
    assert!((b.sender.pacer.rate() - 5e5).abs() < 1.0);
    b.send(2);
    assert_eq!(b.permit(), Permit::Paced(b.now + Duration::from_millis(2)));
}

#[test]
fn measuring_remembers_no_more_than_the_flight() {
    let mut b = bench();
    b.send(5).wait(40).ack(&[2..=2]);
    b.sender.reopen(b.now, &mut b.controller);
    for _ in 0..1000 {
        let number = b.sender.next_packet_number();
        b.send(1).wait(1).ack(&[number..=number]);
    }
    let delivery = b.sender.delivery.as_ref().unwrap();
    assert!(delivery.remembered() <= 2);
}

//! What is lost, when it is known, and what that costs.

use super::*;

#[test]
fn three_packets_later_is_lost() {
    let mut b = Bench::new(false);
    b.send(5).wait(50).ack(&[3..=3]);
    assert_eq!(b.lost(), [0]);
    let loss = b.controller.losses[0];
    assert_eq!((loss.packets, loss.sent), (1.0, Time::from_millis(1000)));
    assert_eq!(b.sender.bytes_in_flight(), 3000);
}

#[test]
fn nine_eighths_of_a_round_trip_later_is_lost() {
    let mut b = Bench::new(false);
    b.send(2).wait(80).ack(&[1..=1]);
    assert_eq!(b.lost(), []);
    // 80 ms · 9/8 after it was sent.
    assert_eq!(b.sender.timeout(), Some(Time::from_millis(1090)));
    assert_eq!(b.timer(), TimerEvent::Nothing);
    b.sleep();
    assert_eq!(b.timer(), TimerEvent::LossDetected);
    assert_eq!(b.lost(), [0]);
    assert_eq!(b.sender.timeout(), None);
}

#[test]
fn one_cut_per_round_trip() {
    let mut b = Bench::new(false);
    b.send(10).wait(50).ack(&[3..=3]);
    b.wait(1).ack(&[6..=6]);
    assert_eq!(b.lost(), [1, 2]);
    assert!(b.controller.acks.last().unwrap().in_recovery);
    b.ack(&[9..=9]);
    assert_eq!(b.lost(), [4, 5]);
    assert_eq!(b.controller.losses.len(), 1);
    // Packets sent since then may cut again, and grow the window.
    b.send(10).wait(50).ack(&[10..=10]);
    assert!(!b.controller.acks.last().unwrap().in_recovery);
    assert_eq!(b.lost(), [7, 8]);
    assert_eq!(b.controller.losses.len(), 1);
    b.ack(&[15..=15]);
    assert_eq!(b.lost(), [11, 12]);
    assert_eq!(b.controller.losses.len(), 2);
    assert_eq!(b.sender.stats().loss_events, 2);
    assert_eq!(b.sender.stats().packets_lost, 9);
}

#[test]
fn congestion_marks_cut_once_per_round_trip() {
    let mut b = Bench::new(false);
    b.send(10).wait(50);
    let ranges = [0..=1];
    let mut ack = AckInfo {
        largest: 1,
        ranges: &ranges,
        delay: Duration::ZERO,
        ce_count: Some(1),
        receive_time: None,
        elsewhere: false,
    };
    b.ack_info(ack).unwrap();
    b.ack_info(ack).unwrap();
    let ranges = [0..=2];
    (ack.largest, ack.ranges, ack.ce_count) = (2, &ranges, Some(3));
    b.ack_info(ack).unwrap();
    assert_eq!(
        (b.controller.marks.len(), b.controller.losses.len()),
        (1, 0)
    );
    assert_eq!(b.sender.stats().ce_marks, 3);
    // A loss in the same round trip doesn't cut again, and neither does a count that shrinks.
    let ranges = [6..=6];
    (ack.largest, ack.ranges, ack.ce_count) = (6, &ranges, Some(0));
    b.ack_info(ack).unwrap();
    assert_eq!(b.lost(), [3]);
    assert_eq!(
        (b.controller.marks.len(), b.controller.losses.len()),
        (1, 0)
    );
}

/// What an ACK that was overtaken says of marks, a newer one has said already, or will say.
#[test]
fn marks_count_with_a_newer_packet_only() {
    let mut b = Bench::new(false);
    b.send(10).wait(50).ack(&[1..=1]);
    let ranges = [0..=0];
    let mut ack = AckInfo {
        largest: 0,
        ranges: &ranges,
        delay: Duration::ZERO,
        ce_count: Some(1),
        receive_time: None,
        elsewhere: false,
    };
    b.ack_info(ack).unwrap();
    assert_eq!(
        (b.controller.marks.len(), b.sender.stats().ce_marks),
        (0, 0)
    );
    let ranges = [2..=2];
    (ack.largest, ack.ranges) = (2, &ranges);
    b.ack_info(ack).unwrap();
    assert_eq!(
        (b.controller.marks.len(), b.sender.stats().ce_marks),
        (1, 1)
    );
}

#[test]
fn probe_timeouts_back_off() {
    let mut b = Bench::new(false);
    b.send(1).wait(40).ack(&[0..=0]);
    assert_eq!(b.sender.timeout(), None);
    // 40 + 4·20 + 10 ms.
    assert_eq!(b.sender.pto(), Duration::from_millis(130));
    b.send(1);
    let mut waits = Vec::new();
    for count in 1..=12 {
        let before = b.now;
        b.sleep();
        waits.push(b.now.since(before).as_millis());
        assert_eq!(b.timer(), TimerEvent::Probe { count });
    }
    assert_eq!(waits[..4], [130, 260, 520, 1040]);
    assert_eq!(waits[11], 60_000);
    assert_eq!(b.sender.stats().timeouts, 12);
    assert_eq!(b.controller.losses.len(), 0);
    b.ack(&[1..=1]);
    assert_eq!(b.sender.pto_count(), 0);
}

#[test]
fn a_probe_restarts_the_timer() {
    let mut b = Bench::new(false);
    b.send(1).wait(40).ack(&[0..=0]).send(1).sleep();
    assert_eq!(b.timer(), TimerEvent::Probe { count: 1 });
    b.send(1);
    assert_eq!(b.sender.timeout(), Some(b.now + Duration::from_millis(260)));
    assert_eq!(b.timer(), TimerEvent::Nothing);
}

#[test]
fn persistent_congestion_needs_a_long_run_of_losses() {
    // After two samples of 40 ms the PTO is 40 + 4·15 + 10 ms: the run must be longer than 330 ms.
    for (gap, timeouts) in [(330, 0), (331, 1)] {
        let mut b = Bench::new(false);
        b.send(1).wait(40).ack(&[0..=0]);
        b.send(1).wait(gap).send(1).wait(1).send(3).wait(40);
        b.ack(&[5..=5]);
        assert_eq!(b.lost(), [1, 2]);
        assert_eq!(b.controller.timeouts, timeouts, "{gap}");
        assert_eq!(b.controller.losses.len(), 1);
    }
}

#[test]
fn an_acknowledgement_within_the_run_is_no_persistent_congestion() {
    let mut b = Bench::new(false);
    b.send(1).wait(40).ack(&[0..=0]);
    b.send(1).wait(200).send(1).wait(300).send(4).wait(40);
    b.ack(&[6..=6, 2..=2]);
    assert_eq!(b.lost(), [1, 3]);
    assert_eq!(b.controller.timeouts, 0);
}

#[test]
fn losses_before_the_first_sample_are_no_persistent_congestion() {
    let mut b = Bench::new(false);
    b.send(1)
        .wait(5000)
        .send(1)
        .wait(1)
        .send(3)
        .wait(40)
        .ack(&[4..=4]);
    assert_eq!(b.lost(), [0, 1]);
    assert_eq!(b.controller.timeouts, 0);
}

#[test]
fn persistent_congestion_takes_the_minimum_anew() {
    let mut b = Bench::new(false);
    b.send(1).wait(40).ack(&[0..=0]);
    b.send(1).wait(2000).send(1).wait(1).send(3).wait(70);
    b.ack(&[5..=5]);
    assert_eq!(b.controller.timeouts, 1);
    assert_eq!(b.sender.rtt().min(), Duration::from_millis(70));
    assert_eq!(b.sender.stats().persistent_congestions, 1);
}

#[test]
fn one_packet_leaves_at_the_beginning_of_recovery() {
    let mut b = Bench::new(false);
    b.send(20).wait(40).ack(&[3..=3]);
    assert_eq!(b.lost(), [0]);
    // 16 packets are open, and the window has been cut to less.
    b.controller.window = 10.0;
    assert_eq!(
        b.sender.permit(b.now, &b.controller),
        Permit::Now { packets: 1 }
    );
    b.send(1);
    assert_eq!(b.sender.permit(b.now, &b.controller), Permit::WindowFull);
    // It belongs to the period: if it is lost too, the window is cut once.
    b.wait(1).send(3).wait(20).ack(&[23..=23, 3..=19]);
    assert_eq!(b.lost(), [1, 2, 20]);
    assert_eq!(b.sender.stats().loss_events, 1);
}

#[test]
fn one_packet_leaves_in_each_period() {
    let mut b = Bench::new(false);
    b.send(20).wait(40).ack(&[3..=3]);
    b.controller.window = 10.0;
    b.send(1);
    // Losses of the same period give no second one, those of the next do.
    b.wait(1).ack(&[5..=5, 3..=3]);
    assert_eq!(b.lost(), [1, 2]);
    assert_eq!(b.sender.permit(b.now, &b.controller), Permit::WindowFull);
    b.send(4).wait(40).ack(&[24..=24, 5..=20]);
    assert_eq!(b.lost(), [4, 21]);
    b.controller.window = 1.0;
    assert_eq!(
        b.sender.permit(b.now, &b.controller),
        Permit::Now { packets: 1 }
    );
}

#[test]
fn a_late_acknowledgement_of_the_oldest_leaves_the_next_overdue() {
    let mut b = Bench::new(false);
    b.send(3).wait(40).ack(&[2..=2]);
    // Packets 0 and 1 were overtaken by one that was sent two later: lost 9/8 round trips after
    // they were sent.
    b.wait(1).ack(&[0..=0]);
    assert_eq!(b.acked(), [0]);
    // The latest round trip is 41 ms by now.
    assert_eq!(b.sleep().now, Time::from_micros(1_000_000 + 41_000 * 9 / 8));
    assert_eq!(b.timer(), TimerEvent::LossDetected);
    assert_eq!(b.lost(), [1]);
}

#[test]
fn a_late_acknowledgement_of_a_lost_packet_is_counted() {
    let mut b = Bench::new(false);
    b.send(8).wait(50).ack(&[5..=5]);
    assert_eq!(b.lost(), [0, 1, 2]);
    b.wait(1).ack(&[5..=5, 1..=2]);
    assert_eq!(b.acked(), []);
    assert_eq!(b.sender.stats().spurious_losses, 2);
    b.wait(1).ack(&[5..=5, 1..=2]);
    assert_eq!(b.sender.stats().spurious_losses, 2);
    // Too late to be sure, and forgotten.
    b.wait(5000).ack(&[5..=5, 0..=2]);
    assert_eq!(b.sender.stats().spurious_losses, 2);
}

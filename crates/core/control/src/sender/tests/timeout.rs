//! TCP's retransmission timeout.

use super::*;

const MIN: Duration = Duration::from_millis(200);

fn bench(loss_detection: LossDetection) -> Bench {
    let mut b = Bench::with(SenderConfig {
        packet_size: 1000,
        pacing: false,
        loss_detection,
        retransmission_timeout: RetransmissionTimeout::Tcp { min: MIN },
        ..SenderConfig::default()
    });
    b.send(1).wait(40).ack(&[0..=0]);
    b
}

#[test]
fn all_in_flight_is_lost_and_the_window_starts_again() {
    let mut b = bench(LossDetection::Fixed);
    b.send(5).sleep();
    assert_eq!(b.timer(), TimerEvent::Expired);
    assert_eq!(b.lost(), [1, 2, 3, 4, 5]);
    assert_eq!(b.sender.bytes_in_flight(), 0);
    assert_eq!((b.controller.losses.len(), b.controller.timeouts), (1, 1));
    assert_eq!(b.controller.losses[0].packets, 5.0);
    // One packet, until something is acknowledged.
    assert_eq!(b.permit(), Permit::Now { packets: 1 });
    b.send(1);
    assert_eq!(b.permit(), Permit::WindowFull);
    b.wait(40).ack(&[6..=6]);
    assert_eq!(b.permit(), Permit::Now { packets: 20 });
    assert_eq!(b.sender.stats().timeouts, 1);
    assert_eq!(b.sender.stats().persistent_congestions, 0);
}

#[test]
fn it_backs_off_and_has_a_minimum() {
    let mut b = bench(LossDetection::Fixed);
    let mut waits = Vec::new();
    for _ in 0..10 {
        let before = b.now;
        b.send(1).sleep();
        waits.push(b.now.since(before).as_millis());
        assert_eq!(b.timer(), TimerEvent::Expired);
    }
    assert_eq!(waits[..4], [200, 400, 800, 1600]);
    assert_eq!(waits[9], 60_000);
    // After one sample of 400 ms: 400 + 4·200 ms, and 10 ms for which an ACK may be held.
    let mut b = Bench::with(*bench(LossDetection::Fixed).sender.config());
    assert_eq!(
        b.send(1).sender.timeout(),
        Some(b.now + Duration::from_secs(1))
    );
    b.wait(400).ack(&[0..=0]).send(1);
    assert_eq!(
        b.sender.timeout(),
        Some(b.now + Duration::from_millis(1210))
    );
}

/// A window of one packet, whose acknowledgement the receiver holds each time: that is no loss,
/// however short the least timeout.
#[test]
fn a_held_acknowledgement_comes_in_time() {
    let held = Duration::from_millis(58);
    let mut b = Bench::with(SenderConfig {
        max_ack_delay: held,
        retransmission_timeout: RetransmissionTimeout::Tcp {
            min: Duration::from_millis(1),
        },
        ..*bench(LossDetection::Fixed).sender.config()
    });
    b.send(1).wait(20).ack(&[0..=0]);
    for number in 1..50 {
        b.send(1);
        let comes = b.now + Duration::from_millis(20) + held;
        assert!(b.sender.timeout() > Some(comes), "packet {number}");
        b.now = comes;
        b.ack_info(AckInfo {
            largest: number,
            ranges: &[number..=number],
            delay: held,
            ce_count: None,
            receive_time: None,
            elsewhere: false,
        })
        .unwrap();
    }
    assert_eq!(b.sender.stats().timeouts, 0);
}

/// RFC 6298 §5: a packet starts the timer only if it isn't running, an acknowledgement starts it
/// anew.
#[test]
fn it_runs_from_the_last_acknowledgement() {
    let mut b = bench(LossDetection::Fixed);
    b.send(1);
    let due = b.now + MIN;
    b.wait(30).send(1);
    assert_eq!(b.sender.timeout(), Some(due));
    b.wait(20).ack(&[1..=1]);
    assert_eq!(b.sender.timeout(), Some(b.now + MIN));
}

/// Without the time threshold, two packets behind a lost one don't show the loss.
#[test]
fn where_packets_alone_tell_the_timeout_finds_the_rest() {
    let mut b = bench(LossDetection::Packets);
    b.send(3).wait(40).ack(&[2..=3]);
    assert_eq!(b.sender.timeout(), Some(b.now + MIN));
    assert_eq!(b.sleep().timer(), TimerEvent::Expired);
    assert_eq!(b.lost(), [1]);
    let mut b = bench(LossDetection::Packets);
    b.send(4).wait(40).ack(&[2..=4]);
    assert_eq!(b.lost(), [1]);
}

/// A delay as long as a timeout isn't congestion: where detection adapts, it is undone.
#[test]
fn a_timeout_that_was_too_early_is_undone() {
    for (detection, undone) in [(LossDetection::Adaptive, 1), (LossDetection::Fixed, 0)] {
        let mut b = bench(detection);
        b.send(3).sleep().timer();
        b.send(1).wait(10).ack(&[1..=3]);
        assert_eq!(b.controller.spurious, undone, "{detection:?}");
        assert_eq!(b.sender.stats().spurious_losses, 3);
    }
}

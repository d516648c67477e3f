//! Packets that others overtake, told from lost ones by adaptive detection.

use super::*;

fn adaptive() -> Bench {
    Bench::with(SenderConfig {
        pacing: false,
        packet_size: 1000,
        loss_detection: LossDetection::Adaptive,
        ..SenderConfig::default()
    })
}

/// 20 packets at 1000 ms, of which the first was acknowledged after 40 ms.
fn sampled() -> Bench {
    let mut b = adaptive();
    b.send(20).wait(40).ack(&[0..=0]);
    b
}

#[test]
fn until_something_is_overtaken_three_packets_later_is_lost() {
    let mut b = sampled();
    b.ack(&[4..=4, 0..=0]);
    assert_eq!(b.lost(), [1]);
    assert_eq!(b.controller.losses.len(), 1);
}

#[test]
fn once_something_is_overtaken_time_alone_decides() {
    let mut b = sampled();
    b.ack(&[2..=2, 0..=0]).wait(10).ack(&[0..=2]);
    // Packet 1 took 10 ms longer than the round trip of 40 ms: a quarter more than that is allowed.
    b.ack(&[19..=19, 0..=2]);
    assert_eq!(b.lost(), []);
    let base = b.sender.rtt().latest().max(b.sender.rtt().smoothed());
    let due = Time::from_millis(1000) + base + Duration::from_micros(12_500);
    assert_eq!(b.sender.timeout(), Some(due));
    b.sleep();
    assert_eq!(b.timer(), TimerEvent::LossDetected);
    assert_eq!(b.lost(), (3..19).collect::<Vec<_>>());
}

#[test]
fn a_loss_event_whose_packets_all_come_late_is_undone() {
    let mut b = sampled();
    b.ack(&[5..=5, 0..=0]);
    assert_eq!(b.lost(), [1, 2]);
    // The same event: one more.
    b.ack(&[6..=6, 5..=5, 0..=0]);
    assert_eq!(b.lost(), [3]);
    b.wait(5).ack(&[5..=6, 1..=2, 0..=0]);
    assert_eq!(b.controller.spurious, 0);
    b.wait(5).ack(&[5..=6, 0..=3]);
    assert_eq!(b.controller.spurious, 1);
    let stats = b.sender.stats();
    assert_eq!((stats.spurious_losses, stats.undone_events), (3, 1));
    // What was sent before is no longer in recovery, and the next loss is a new event.
    b.ack(&[5..=7, 0..=3]);
    assert!(!b.controller.acks.last().unwrap().in_recovery);
    b.ack(&[5..=7, 0..=3]);
    assert_eq!(b.controller.spurious, 1);
    b.wait(100).timer();
    b.ack(&[19..=19, 5..=7, 0..=3]);
    assert_eq!(b.controller.losses.len(), 2);
}

#[test]
fn one_packet_that_is_really_lost_keeps_the_cut() {
    let mut b = sampled();
    b.ack(&[5..=5, 0..=0]).wait(5).ack(&[5..=5, 2..=2, 0..=0]);
    b.wait(200).ack(&[19..=19, 5..=5, 2..=2, 0..=0]);
    assert_eq!(b.controller.spurious, 0);
    assert!(b.sender.stats().spurious_losses > 0);
}

#[test]
fn fixed_detection_undoes_nothing() {
    let mut b = Bench::new(false);
    b.send(20).wait(40).ack(&[0..=0]);
    b.ack(&[5..=5, 0..=0]).wait(5).ack(&[0..=5]);
    assert_eq!(b.sender.stats().spurious_losses, 2);
    assert_eq!(b.controller.spurious, 0);
    b.ack(&[9..=9, 0..=5]);
    assert_eq!(b.lost(), [6]);
}

#[test]
fn a_mark_is_no_loss_that_could_be_undone() {
    let mut b = sampled();
    b.ack(&[5..=5, 0..=0]);
    b.send(5).wait(40).ack(&[20..=20, 5..=5, 0..=0]);
    let mut ack = AckInfo {
        largest: 24,
        ranges: &[20..=24, 5..=5, 0..=0],
        delay: Duration::ZERO,
        ce_count: Some(1),
        receive_time: None,
        elsewhere: false,
    };
    b.ack_info(ack).unwrap();
    assert_eq!(b.controller.marks.len(), 1);
    (ack.largest, ack.ranges) = (24, &[0..=24]);
    b.ack_info(ack).unwrap();
    assert_eq!(b.controller.spurious, 0);
}

#[test]
fn what_was_learnt_is_forgotten() {
    let mut b = sampled();
    b.ack(&[2..=2, 0..=0]).wait(10).ack(&[0..=2]).ack(&[0..=19]);
    // Two spans of two seconds later, three packets decide again.
    for _ in 0..5 {
        b.wait(1000).send(1);
        let last = b.sender.next_packet_number() - 1;
        b.wait(40).ack(&[0..=last]);
    }
    b.send(5);
    let last = b.sender.next_packet_number() - 1;
    b.wait(40).ack(&[last..=last, 0..=last - 5]);
    assert_eq!(b.lost(), [last - 4, last - 3]);
}

#[test]
fn a_peer_that_acknowledges_very_late_teaches_no_more_than_a_probe_timeout() {
    let mut b = sampled();
    b.ack(&[2..=2, 0..=0]).wait(60_000).ack(&[0..=2]);
    b.send(5).wait(40);
    b.ack(&[24..=24, 0..=19]);
    let (rtt, pto) = (b.sender.rtt(), b.sender.pto());
    let base = rtt.latest().max(rtt.smoothed());
    let sent = b.now - Duration::from_millis(40);
    assert!(b.sender.timeout().unwrap() <= sent + base + pto);
}

//! A path that leads elsewhere, and one whose packets change their size.

use super::*;

#[test]
fn what_is_abandoned_is_sent_again_and_no_loss_event() {
    let mut b = Bench::new(false);
    b.send(6).wait(50).ack(&[0..=1]);
    b.send(2);
    b.outcome.clear();
    b.sender.abandon_flight(b.now, &mut b.outcome);
    assert_eq!(b.lost(), [2, 3, 4, 5, 6, 7]);
    assert_eq!((b.sender.bytes_in_flight(), b.sender.timeout()), (0, None));
    assert!(b.controller.losses.is_empty() && b.controller.further.is_empty());
    // The round-trip time stays; late acknowledgements of before are nobody's.
    assert_eq!(b.sender.rtt().smoothed(), Duration::from_millis(50));
    b.send(4).wait(50).ack(&[8..=8, 2..=5]);
    assert_eq!((b.acked(), b.lost()), (vec![8], vec![]));
    // From here on losses count again.
    b.send(8).wait(50).ack(&[18..=19, 8..=8]);
    assert_eq!(b.lost(), [9, 10, 11, 12, 13, 14, 15, 16]);
    assert_eq!(b.controller.losses.len(), 1);
    let stats = b.sender.stats();
    assert_eq!((stats.packets_lost, stats.loss_events), (14, 1));
}

#[test]
fn marks_of_before_are_not_new_after_a_restart() {
    let mut b = Bench::new(false);
    let marked = |b: &mut Bench, number: u64, ce| {
        b.ack_info(AckInfo {
            largest: number,
            ranges: &[number..=number],
            delay: Duration::ZERO,
            ce_count: Some(ce),
            receive_time: None,
            elsewhere: false,
        })
        .unwrap();
    };
    b.send(2).wait(50);
    marked(&mut b, 1, 5);
    assert_eq!(b.controller.marks.len(), 1);
    b.sender.reopen(b.now, &mut b.controller);
    b.send(2).wait(50);
    // The peer counts on.
    marked(&mut b, 3, 5);
    assert_eq!(b.controller.marks.len(), 1);
    b.send(1).wait(50);
    marked(&mut b, 4, 6);
    assert_eq!(b.controller.marks.len(), 2);
}

#[test]
fn a_window_is_counted_in_packets_of_the_size_they_have() {
    let mut b = Bench::new(false);
    b.send(10);
    assert_eq!(b.permit(), Permit::Now { packets: 10 });
    b.sender.set_packet_size(2000, &mut b.controller);
    assert_eq!(b.controller.size, 2000);
    // A controller that means it halves its window; this one's is set by hand: 20 packets are
    // 40,000 bytes now.
    assert_eq!(b.permit(), Permit::Now { packets: 15 });
    b.controller.window = 10.0;
    assert_eq!(b.permit(), Permit::Now { packets: 5 });
    // What was sent before counts for what it was.
    b.wait(50).ack(&[0..=9]);
    assert_eq!(b.controller.acks.last().unwrap().packets, 5.0);
    b.controller.size = 0;
    b.sender.set_packet_size(2000, &mut b.controller);
    assert_eq!(b.controller.size, 0, "no news");
}

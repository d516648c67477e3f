use std::ops::RangeInclusive;

use super::*;
use crate::controller::Loss;

mod moving;
mod properties;

/// A controller with a window set by hand that writes down what it is told.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    window: f64,
    size: u32,
    slow_start: bool,
    paths: usize,
    acks: Vec<Ack>,
    losses: Vec<Loss>,
    further: Vec<Loss>,
    marks: Vec<Loss>,
    timeouts: usize,
    rounds: usize,
}

impl Controller for Recorder {
    fn name(&self) -> &'static str {
        "recorder"
    }
    fn add_path(&mut self, _path: NewPath) -> Slot {
        self.paths += 1;
        Slot(0)
    }
    fn remove_path(&mut self, _slot: Slot) {
        self.paths -= 1;
    }
    fn set_packet_size(&mut self, _slot: Slot, bytes: u32) {
        self.size = bytes;
    }
    fn on_ack(&mut self, ack: &Ack) {
        self.acks.push(*ack);
    }
    fn on_loss(&mut self, loss: &Loss) {
        self.losses.push(*loss);
    }
    fn on_further_loss(&mut self, loss: &Loss) {
        self.further.push(*loss);
    }
    fn on_ecn(&mut self, loss: &Loss) {
        self.marks.push(*loss);
    }
    fn on_timeout(&mut self, _slot: Slot, _now: Time) {
        self.timeouts += 1;
    }
    fn on_round_end(&mut self, _round: &Round) {
        self.rounds += 1;
    }
    fn window(&self, _slot: Slot) -> f64 {
        self.window
    }
    fn in_slow_start(&self, _slot: Slot) -> bool {
        self.slow_start
    }
}

/// A sender with its controller and a clock in milliseconds. A packet's payload is its number.
struct Bench {
    sender: Sender<u64>,
    controller: Recorder,
    now: Time,
    outcome: Outcome<u64>,
}

impl Bench {
    fn new(pacing: bool) -> Self {
        Bench::with(SenderConfig {
            pacing,
            packet_size: 1000,
            ..SenderConfig::default()
        })
    }

    fn with(config: SenderConfig) -> Self {
        let mut controller = Recorder {
            window: 20.0,
            ..Recorder::default()
        };
        let now = Time::from_millis(1000);
        Bench {
            sender: Sender::new(config, now, &mut controller),
            controller,
            now,
            outcome: Outcome::default(),
        }
    }

    fn wait(&mut self, ms: u64) -> &mut Self {
        self.now += Duration::from_millis(ms);
        self
    }

    fn send(&mut self, packets: u64) -> &mut Self {
        for _ in 0..packets {
            self.send_one(true, false);
        }
        self
    }

    fn send_one(&mut self, ack_eliciting: bool, app_limited: bool) -> u64 {
        let number = self.sender.next_packet_number();
        let sent = Sent {
            bytes: 1000,
            ack_eliciting,
            app_limited,
            payload: number,
        };
        assert_eq!(self.sender.on_sent(self.now, sent), number);
        number
    }

    fn try_ack(&mut self, ranges: &[RangeInclusive<u64>]) -> Result<(), AckError> {
        self.ack_info(AckInfo {
            largest: ranges.first().map_or(0, |range| *range.end()),
            ranges,
            delay: Duration::ZERO,
            ce_count: None,
            receive_time: None,
        })
    }

    fn ack_info(&mut self, ack: AckInfo<'_>) -> Result<(), AckError> {
        self.outcome.clear();
        self.sender
            .on_ack(self.now, ack, &mut self.controller, &mut self.outcome)
    }

    fn ack(&mut self, ranges: &[RangeInclusive<u64>]) -> &mut Self {
        self.try_ack(ranges).unwrap();
        self
    }

    fn timer(&mut self) -> TimerEvent {
        self.outcome.clear();
        self.sender
            .on_timeout(self.now, &mut self.controller, &mut self.outcome)
    }

    /// Goes to the time of the next timer.
    fn sleep(&mut self) -> &mut Self {
        self.now = self.sender.timeout().unwrap();
        self
    }

    fn permit(&self) -> Permit {
        self.sender.permit(self.now, &self.controller)
    }

    fn acked(&self) -> Vec<u64> {
        self.outcome
            .acked
            .iter()
            .map(|&(number, _)| number)
            .collect()
    }

    fn lost(&self) -> Vec<u64> {
        self.outcome
            .lost
            .iter()
            .map(|&(number, _)| number)
            .collect()
    }
}

#[test]
fn acknowledged_packets_come_back_once_in_order() {
    let mut b = Bench::new(false);
    b.send(6).wait(50).ack(&[3..=4, 0..=1]);
    assert_eq!(b.acked(), [0, 1, 3, 4]);
    assert_eq!(b.outcome.acked[2], (3, 3));
    assert_eq!(b.sender.bytes_in_flight(), 2000);
    b.ack(&[4..=4, 0..=2]);
    assert_eq!(b.acked(), [2]);
    b.ack(&[4..=4, 0..=2]);
    assert_eq!(b.acked(), []);
    assert_eq!(b.sender.bytes_in_flight(), 1000);
    assert_eq!(b.sender.stats().bytes_acked, 5000);
    let last = b.controller.acks.last().unwrap();
    assert_eq!((last.packets, last.rtt_sampled), (1.0, false));
}

#[test]
fn a_path_opened_again_goes_on_counting() {
    let mut b = Bench::new(false);
    b.send(4).wait(50).ack(&[0..=0]);
    b.sender.reopen(b.now, &mut b.controller);
    assert_eq!(b.controller.paths, 1);
    assert_eq!(b.sender.bytes_in_flight(), 0);
    assert!(!b.sender.rtt().has_sample());
    assert_eq!(b.sender.timeout(), None);
    assert_eq!(b.sender.next_packet_number(), 4);
    // What was under way before is nobody's any more.
    b.ack(&[0..=3]);
    assert_eq!((b.acked(), b.controller.acks.len()), (vec![], 1));
    b.send(2).wait(40).ack(&[5..=5, 2..=3]);
    assert_eq!(b.acked(), [5]);
    assert_eq!(b.sender.rtt().smoothed(), Duration::from_millis(40));
    let stats = b.sender.stats();
    assert_eq!((stats.packets_sent, stats.bytes_acked), (6, 2000));
}

#[test]
fn numbers_may_start_anywhere() {
    let mut controller = Recorder::default();
    let mut sender = Sender::<u64>::new(SenderConfig::default(), Time::ZERO, &mut controller);
    sender = sender.starting_at(2);
    assert_eq!(sender.next_packet_number(), 2);
    assert_eq!(sender.packets_in_flight(), 0);
}

#[test]
fn more_losses_of_an_event_are_told_apart() {
    let mut b = Bench::new(false);
    b.send(8).wait(50).ack(&[3..=3]);
    b.wait(1).ack(&[7..=7]);
    assert_eq!(b.lost(), [1, 2, 4]);
    assert_eq!(
        (b.controller.losses.len(), b.controller.further.len()),
        (1, 1)
    );
    let further = b.controller.further[0];
    assert_eq!((further.packets, further.now), (3.0, b.now));
}

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
    // Packets 0 and 1 were overtaken by one that was sent two later: lost 9/8 round trips after they were sent.
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

#[test]
fn packets_that_elicit_nothing_are_not_in_flight() {
    let mut b = Bench::new(false);
    b.send_one(false, false);
    assert_eq!((b.sender.bytes_in_flight(), b.sender.timeout()), (0, None));
    b.send(4).wait(50);
    b.ack(&[4..=4]);
    // Neither lost nor in the way of what follows it.
    assert_eq!(b.lost(), [1]);
    b.send_one(false, false);
    b.ack(&[5..=5]);
    assert_eq!(b.acked(), [5]);
    assert_eq!(b.controller.acks.last().unwrap().packets, 0.0);
    assert!(b.sender.retire(&mut b.controller).eq([3]));
}

#[test]
fn a_silent_peer_does_not_fill_memory_with_acknowledgements() {
    let mut b = Bench::new(false);
    for _ in 0..100_000 {
        b.send_one(false, false);
    }
    assert!(b.sender.sent_at(99_999).is_some());
    assert!(b.sender.sent_at(99_000).is_none());
}

#[test]
fn impossible_acknowledgements_are_errors_and_change_nothing() {
    let mut b = Bench::new(false);
    b.send(5).wait(50);
    assert_eq!(
        b.try_ack(&[0..=5]),
        Err(AckError::NeverSent { packet: 5, next: 5 })
    );
    assert_eq!(b.try_ack(&[]), Err(AckError::Empty));
    let reversed = RangeInclusive::new(4, 3);
    for ranges in [
        vec![4..=4, 4..=4],
        vec![4..=4, 0..=4],
        vec![1..=2, 3..=4],
        vec![3..=4, reversed],
    ] {
        assert!(matches!(
            b.try_ack(&ranges),
            Err(AckError::Disordered { .. })
        ));
    }
    let ranges = [0..=3];
    let wrong_largest = AckInfo {
        largest: 4,
        ranges: &ranges,
        delay: Duration::ZERO,
        ce_count: None,
        receive_time: None,
    };
    assert!(b.ack_info(wrong_largest).is_err());
    assert_eq!(b.sender.packets_in_flight(), 5);
    assert!(b.controller.acks.is_empty() && !b.sender.rtt().has_sample());
    let error = b.try_ack(&[9..=9]).unwrap_err().to_string();
    assert_eq!(
        error,
        "packet 9 is acknowledged, but only packets below 5 have been sent"
    );
}

#[test]
fn samples_take_the_peers_delay_off() {
    let mut b = Bench::new(false);
    b.send(1).wait(40).ack(&[0..=0]);
    b.send(1).wait(60);
    let ranges = [1..=1];
    b.ack_info(AckInfo {
        largest: 1,
        ranges: &ranges,
        delay: Duration::from_millis(500),
        ce_count: None,
        receive_time: Some(Time::from_millis(77)),
    })
    .unwrap();
    let ack = b.controller.acks.last().unwrap();
    // No more than the 10 ms that the peer has promised.
    assert_eq!(ack.rtt, Duration::from_millis(50));
    assert_eq!(b.sender.rtt().latest(), Duration::from_millis(60));
    // It left at 1.040 s by our clock and arrived at 0.077 s by theirs.
    assert!((ack.one_way().unwrap() - (0.077 - 1.040)).abs() < 1e-12);
}

#[test]
fn rounds_end_when_what_was_sent_after_their_start_is_acknowledged() {
    let mut b = Bench::new(false);
    b.send(4).wait(50).ack(&[0..=0]);
    assert_eq!(b.controller.rounds, 1);
    b.send(2).ack(&[0..=3]);
    assert_eq!(b.controller.rounds, 1);
    b.ack(&[0..=4]);
    assert_eq!(b.controller.rounds, 2);
}

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
    assert!((b.sender.pacing_rate() - 625_000.0).abs() < 1e-6);
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

#[test]
fn seeds_yield_to_samples() {
    let mut b = Bench::new(false);
    b.sender.seed_rtt(Duration::from_millis(30));
    assert_eq!(b.sender.rtt().smoothed(), Duration::from_millis(30));
    b.sender.seed_rtt(Duration::from_millis(90));
    assert_eq!(b.sender.rtt().smoothed(), Duration::from_millis(30));
}

#[test]
fn outstanding_packets_are_listed_oldest_first() {
    let mut b = Bench::new(false);
    b.send(3);
    b.send_one(false, false);
    b.send(3).wait(50).ack(&[1..=1]);
    let numbers = |from| -> Vec<u64> {
        let list = b.sender.outstanding_from(from);
        list.map(|(number, sent)| {
            assert_eq!(number, sent.payload);
            number
        })
        .collect()
    };
    assert_eq!(numbers(0), [0, 2, 4, 5, 6]);
    assert_eq!(numbers(3), [4, 5, 6]);
    assert_eq!(numbers(6), [6]);
    assert_eq!(numbers(7), []);
    assert_eq!(numbers(u64::MAX), []);
    assert_eq!(b.sender.outstanding().count(), 5);
    assert_eq!(b.sender.oldest_sent(), Some(Time::from_millis(1000)));
    assert_eq!(b.sender.sent_at(7), None);
}

#[test]
fn a_retired_sender_is_silent() {
    let mut b = Bench::new(false);
    b.send(5).wait(50).ack(&[1..=1]);
    assert!(b.sender.retire(&mut b.controller).eq([0, 2, 3, 4]));
    assert_eq!(b.controller.paths, 0);
    assert_eq!(b.sender.retire(&mut b.controller).count(), 0);
    assert_eq!(b.controller.paths, 0);
    assert_eq!(b.permit(), Permit::WindowFull);
    let calls = b.controller.acks.len();
    b.ack(&[0..=4]);
    assert_eq!((b.controller.acks.len(), b.acked()), (calls, vec![]));
    assert_eq!((b.sender.timeout(), b.sender.bytes_in_flight()), (None, 0));
    assert_eq!(b.timer(), TimerEvent::Nothing);
}

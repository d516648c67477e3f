use std::ops::RangeInclusive;

use super::*;
use crate::controller::{Ack, Loss, LostPacket, Round};

mod delivery;
mod moving;
mod properties;
mod recovery;
mod reordering;
mod timeout;
mod window;

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
    spurious: usize,
    rounds: usize,
    rate_based: bool,
    pacing_rate: Option<f64>,
    lost: Vec<LostPacket>,
}

impl Controller for Recorder {
    fn name(&self) -> &'static str {
        "recorder"
    }
    fn rate_based(&self) -> bool {
        self.rate_based
    }
    fn on_packet_lost(&mut self, packet: &LostPacket) {
        self.lost.push(*packet);
    }
    fn pacing_rate(&self, _slot: Slot) -> Option<f64> {
        self.pacing_rate
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
    fn on_spurious_loss(&mut self, _slot: Slot, _now: Time) {
        self.spurious += 1;
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
        Self::for_controller(config, Recorder::default())
    }

    fn for_controller(config: SenderConfig, mut controller: Recorder) -> Self {
        controller.window = 20.0;
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
            elsewhere: false,
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
    assert!(b.sender.flight.sent_at(99_999).is_some());
    assert!(b.sender.flight.sent_at(99_000).is_none());
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
        elsewhere: false,
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
        elsewhere: false,
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
fn what_came_back_elsewhere_gives_no_sample() {
    let mut b = Bench::new(false);
    b.send(1).wait(40).ack(&[0..=0]);
    b.send(2).wait(20);
    // One packet, which is the oldest in flight, and then more than that.
    for ranges in [[1..=1], [0..=2]] {
        b.ack_info(AckInfo {
            largest: *ranges[0].end(),
            ranges: &ranges,
            delay: Duration::ZERO,
            ce_count: None,
            receive_time: None,
            elsewhere: true,
        })
        .unwrap();
        assert!(!b.controller.acks.last().unwrap().rtt_sampled);
    }
    assert_eq!(b.controller.acks.len(), 3);
    assert_eq!(b.sender.rtt().min(), Duration::from_millis(40));
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
    assert_eq!(b.sender.flight.sent_at(7), None);
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

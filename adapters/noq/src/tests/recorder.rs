//! What the laws hear of noq's calls.

use std::sync::{Arc, Mutex};

use manyway_control::laws::AnyController;
use manyway_control::{Ack, Loss, NewPath, Round, Slot};
use manyway_units::Time;

use super::*;

const MS: Duration = Duration::from_millis(1);

#[derive(Debug, Clone, PartialEq)]
enum Call {
    Ack(Ack),
    Round(Round),
    Loss(Loss),
    FurtherLoss(Loss),
    Mark(Loss),
    Spurious(Time),
    Timeout(Time),
}

/// A controller that writes down what it hears, and whose windows are half a packet.
#[derive(Debug)]
struct Recorder {
    slots: AnyController,
    calls: Arc<Mutex<Vec<Call>>>,
}

impl Recorder {
    fn note(&self, call: Call) {
        self.calls.lock().unwrap().push(call);
    }
}

impl manyway_control::Controller for Recorder {
    fn name(&self) -> &'static str {
        "recorder"
    }
    fn add_path(&mut self, path: NewPath) -> Slot {
        self.slots.add_path(path)
    }
    fn remove_path(&mut self, slot: Slot) {
        self.slots.remove_path(slot);
    }
    fn set_packet_size(&mut self, _slot: Slot, _bytes: u32) {}
    fn on_ack(&mut self, ack: &Ack) {
        self.note(Call::Ack(*ack));
    }
    fn on_loss(&mut self, loss: &Loss) {
        self.note(Call::Loss(*loss));
    }
    fn on_further_loss(&mut self, loss: &Loss) {
        self.note(Call::FurtherLoss(*loss));
    }
    fn on_ecn(&mut self, loss: &Loss) {
        self.note(Call::Mark(*loss));
    }
    fn on_timeout(&mut self, _slot: Slot, now: Time) {
        self.note(Call::Timeout(now));
    }
    fn on_spurious_loss(&mut self, _slot: Slot, now: Time) {
        self.note(Call::Spurious(now));
    }
    fn on_round_end(&mut self, round: &Round) {
        self.note(Call::Round(*round));
    }
    fn window(&self, _slot: Slot) -> f64 {
        0.5
    }
    fn in_slow_start(&self, _slot: Slot) -> bool {
        false
    }
}

/// A path that was made at `start`, and what its controller has heard since the last look.
struct Recorded {
    start: Instant,
    path: CoupledPath,
    slot: Slot,
    calls: Arc<Mutex<Vec<Call>>>,
}

impl Recorded {
    fn new() -> Self {
        let calls = Arc::new(Mutex::new(Vec::new()));
        let recorder = Recorder {
            slots: LawSpec::reno().controller(&Options::default()),
            calls: calls.clone(),
        };
        let start = Instant::now();
        let path = CoupledPath::new(&Group::new(recorder), start, MTU);
        Recorded {
            start,
            slot: path.member().slot(),
            path,
            calls,
        }
    }

    fn heard(&self) -> Vec<Call> {
        std::mem::take(&mut *self.calls.lock().unwrap())
    }

    /// A packet was acknowledged that was sent so many ms after the start.
    fn acked(&mut self, number: u64, sent: u32) {
        self.path.on_packet_acked(Batch {
            bytes: u64::from(MTU),
            largest: number,
            sent: self.start + sent * MS,
            app_limited: number.is_multiple_of(2),
            smoothed_rtt: 30 * MS,
            min_rtt: 15 * MS,
        });
    }

    fn end_acks(&mut self, at: u32, largest: u64) {
        self.path
            .on_end_acks(self.start + at * MS, 0, false, Some(largest));
    }

    fn lost(&mut self, at: u32, sent: u32, bytes: u64, is_ecn: bool) {
        let [now, sent] = [at, sent].map(|ms| self.start + ms * MS);
        self.path
            .on_congestion_event(now, sent, false, is_ecn, bytes, 0);
    }

    fn loss(&self, at: u64, sent: u64, packets: f64) -> Loss {
        Loss {
            slot: self.slot,
            now: Time::from_millis(at),
            sent: Time::from_millis(sent),
            packets,
        }
    }
}

#[test]
fn an_ack_is_one_call_and_ends_a_round_if_it_was_sent_in_it() {
    let mut recorded = Recorded::new();
    let slot = recorded.slot;
    // The newest packet comes first, so that it isn't simply the last that counts.
    recorded.acked(3, 1);
    recorded.acked(2, 0);
    assert_eq!(recorded.heard(), [], "the ACK may go on");
    recorded.end_acks(21, 3);
    let first = Ack {
        slot,
        now: Time::from_millis(21),
        packets: 2.0,
        rtt: 20 * MS,
        rtt_sampled: true,
        // What noq says before there is a sample isn't measured.
        smoothed_rtt: 20 * MS,
        min_rtt: 20 * MS,
        sent: Time::from_millis(1),
        received: None,
        app_limited: false,
        in_recovery: false,
        delivery: None,
    };
    let round = |at| {
        let now = Time::from_millis(at);
        Call::Round(Round { slot, now })
    };
    assert_eq!(recorded.heard(), [Call::Ack(first), round(21)]);

    // A late one: no sample, and no round.
    recorded.acked(0, 0);
    recorded.end_acks(25, 3);
    let late = Ack {
        now: Time::from_millis(25),
        packets: 1.0,
        rtt: 30 * MS,
        rtt_sampled: false,
        smoothed_rtt: 30 * MS,
        min_rtt: 15 * MS,
        sent: Time::ZERO,
        app_limited: true,
        ..first
    };
    assert_eq!(recorded.heard(), [Call::Ack(late)]);

    recorded.acked(5, 21);
    recorded.end_acks(33, 5);
    let next = Ack {
        now: Time::from_millis(33),
        packets: 1.0,
        rtt: 12 * MS,
        smoothed_rtt: 30 * MS,
        min_rtt: 12 * MS,
        sent: Time::from_millis(21),
        ..first
    };
    assert_eq!(recorded.heard(), [Call::Ack(next), round(33)]);
    recorded.end_acks(34, 5);
    assert_eq!(recorded.heard(), [], "nothing new");
}

#[test]
fn losses_are_told_once_as_an_event_and_then_as_further_ones() {
    let mut recorded = Recorded::new();
    let bytes = 2 * u64::from(MTU) + u64::from(MTU) / 2;
    recorded.lost(10, 0, bytes, false);
    recorded.lost(11, 10, bytes, false);
    recorded.lost(12, 5, 0, true);
    recorded.lost(20, 11, 0, true);
    let expected = [
        Call::Loss(recorded.loss(10, 0, 2.5)),
        Call::FurtherLoss(recorded.loss(11, 10, 2.5)),
        Call::Mark(recorded.loss(20, 11, 0.0)),
    ];
    assert_eq!(recorded.heard(), expected);
    let [now, sent] = [40, 30].map(|ms| recorded.start + ms * MS);
    recorded
        .path
        .on_congestion_event(now, sent, true, false, bytes, 0);
    let expected = [
        Call::Loss(recorded.loss(40, 30, 2.5)),
        Call::Timeout(Time::from_millis(40)),
    ];
    assert_eq!(recorded.heard(), expected);
}

#[test]
fn a_spurious_event_leaves_no_recovery_behind() {
    let mut recorded = Recorded::new();
    let in_recovery = |recorded: &mut Recorded, sent| {
        recorded.acked(1, sent);
        recorded.end_acks(50, 1);
        let heard = recorded.heard();
        let Some(Call::Ack(ack)) = heard.first() else {
            panic!("{heard:?}");
        };
        ack.in_recovery
    };
    recorded.lost(10, 0, 1, false);
    recorded.lost(20, 15, 1, false);
    recorded.heard();
    assert!(in_recovery(&mut recorded, 15));
    recorded.path.on_sent(recorded.start + 60 * MS, 1, 2);
    recorded.path.on_spurious_congestion_event();
    assert_eq!(recorded.heard(), [Call::Spurious(Time::from_millis(60))]);
    assert!(!in_recovery(&mut recorded, 15), "as before that event, …");
    assert!(in_recovery(&mut recorded, 10), "… which had one before it");
}

#[test]
fn noq_may_always_send_a_packet() {
    let recorded = Recorded::new();
    assert_eq!(recorded.path.window(), u64::from(MTU));
}

//! The sender against a model that knows every packet's fate, under random and hostile input.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::options::Options;
use crate::registry;

#[derive(Clone, Debug)]
enum Step {
    Send {
        bytes: u32,
        eliciting: bool,
        limited: bool,
    },
    /// Acknowledge the packets whose bits are set, counted down from the newest but `skip`.
    Ack {
        skip: u64,
        bits: u64,
        delay_ms: u64,
        ce: Option<u64>,
    },
    /// Ranges made of arbitrary numbers near or beyond what was sent.
    Hostile {
        largest: u64,
        ranges: Vec<(u64, u64)>,
    },
    Timer,
    Sleep,
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let number = prop_oneof![0..80u64, any::<u64>()];
    prop_oneof![
        8 => (1..2000u32, prop::bool::weighted(0.8), any::<bool>())
            .prop_map(|(bytes, eliciting, limited)| Step::Send { bytes, eliciting, limited }),
        4 => (0..6u64, any::<u64>(), 0..100u64, proptest::option::of(0..50u64))
            .prop_map(|(skip, bits, delay_ms, ce)| Step::Ack { skip, bits, delay_ms, ce }),
        1 => (number.clone(), proptest::collection::vec((number.clone(), number), 0..6))
            .prop_map(|(largest, ranges)| Step::Hostile { largest, ranges }),
        1 => Just(Step::Timer),
        2 => Just(Step::Sleep),
        3 => prop_oneof![0..3_000u64, 0..2_000_000u64].prop_map(Step::Wait),
    ]
}

/// Ack-eliciting packets in flight and their sizes; the others in flight or forgotten.
#[derive(Default)]
struct Model {
    open: BTreeMap<u64, u32>,
    quiet: BTreeMap<u64, u32>,
}

impl Model {
    /// Every packet handed out must have been open.
    fn settle(&mut self, outcome: &Outcome<u64>) -> Result<(), TestCaseError> {
        for &(number, payload) in &outcome.acked {
            prop_assert_eq!(number, payload);
            let known = self.open.remove(&number).or(self.quiet.remove(&number));
            prop_assert!(known.is_some(), "{} acknowledged twice", number);
        }
        for &(number, payload) in &outcome.lost {
            prop_assert_eq!(number, payload);
            prop_assert!(self.open.remove(&number).is_some(), "{} lost twice", number);
        }
        Ok(())
    }
}

fn ranges_from_bits(next: u64, skip: u64, bits: u64) -> Vec<RangeInclusive<u64>> {
    let mut ranges: Vec<RangeInclusive<u64>> = Vec::new();
    let numbers = (0..64).filter(|bit| bits >> bit & 1 == 1);
    for number in numbers.filter_map(|bit| next.checked_sub(1 + skip + bit)) {
        match ranges.last_mut() {
            Some(last) if *last.start() == number + 1 => *last = number..=*last.end(),
            _ => ranges.push(number..=number),
        }
    }
    ranges
}

fn run<C: Controller + ?Sized>(
    steps: &[Step],
    config: SenderConfig,
    controller: &mut C,
) -> Result<(), TestCaseError> {
    let mut now = Time::from_millis(1);
    let mut sender = Sender::<u64>::new(config, now, controller);
    let mut model = Model::default();
    let mut outcome = Outcome::default();
    for step in steps {
        outcome.clear();
        let before = sender.stats();
        match step {
            Step::Send {
                bytes,
                eliciting,
                limited,
            } => {
                let payload = sender.next_packet_number();
                sender.on_sent(
                    now,
                    Sent {
                        bytes: *bytes,
                        ack_eliciting: *eliciting,
                        app_limited: *limited,
                        payload,
                    },
                );
                let list = if *eliciting {
                    &mut model.open
                } else {
                    &mut model.quiet
                };
                list.insert(payload, *bytes);
            }
            Step::Ack {
                skip,
                bits,
                delay_ms,
                ce,
            } => {
                let ranges = ranges_from_bits(sender.next_packet_number(), *skip, *bits);
                if let Some(first) = ranges.first() {
                    let ack = AckInfo {
                        largest: *first.end(),
                        ranges: &ranges,
                        delay: Duration::from_millis(*delay_ms),
                        ce_count: *ce,
                        receive_time: Some(Time::from_millis(*delay_ms)),
                        elsewhere: false,
                    };
                    prop_assert!(sender.on_ack(now, ack, controller, &mut outcome).is_ok());
                    for range in &ranges {
                        let left = model.open.range(range.clone()).filter(|(number, _)| {
                            !outcome.acked.iter().any(|(acked, _)| acked == *number)
                        });
                        prop_assert_eq!(left.count(), 0, "acknowledged but not handed out");
                    }
                }
            }
            Step::Hostile { largest, ranges } => {
                let ranges: Vec<_> = ranges
                    .iter()
                    .map(|&(a, b)| RangeInclusive::new(a, b))
                    .collect();
                let ack = AckInfo {
                    largest: *largest,
                    ranges: &ranges,
                    delay: Duration::MAX,
                    ce_count: Some(u64::MAX),
                    receive_time: Some(Time::MAX),
                    elsewhere: false,
                };
                let result = sender.on_ack(now, ack, controller, &mut outcome);
                if *largest >= sender.next_packet_number() {
                    prop_assert!(result.is_err());
                }
                if result.is_err() {
                    prop_assert!(outcome.acked.is_empty() && outcome.lost.is_empty());
                }
            }
            Step::Timer => {
                sender.on_timeout(now, controller, &mut outcome);
            }
            Step::Sleep => {
                if let Some(due) = sender.timeout() {
                    now = now.max(due);
                    let event = sender.on_timeout(now, controller, &mut outcome);
                    prop_assert_ne!(event, TimerEvent::Nothing);
                    // Time moves on: no timer fires forever at one instant.
                    prop_assert!(
                        sender
                            .timeout()
                            .is_none_or(|next| next > now || event == TimerEvent::LossDetected)
                    );
                }
            }
            Step::Wait(micros) => now += Duration::from_micros(*micros),
        }
        model.settle(&outcome)?;

        let in_flight: u64 = model.open.values().map(|&bytes| u64::from(bytes)).sum();
        prop_assert_eq!(sender.bytes_in_flight(), in_flight);
        prop_assert_eq!(sender.packets_in_flight(), model.open.len() as u64);
        let listed: Vec<u64> = sender.outstanding().map(|(number, _)| number).collect();
        prop_assert!(listed.iter().eq(model.open.keys()));
        let after = sender.stats();
        prop_assert!(after.loss_events <= before.loss_events + 1);
        prop_assert!(after.packets_lost - before.packets_lost == outcome.lost.len() as u64);
        prop_assert_eq!(sender.timeout().is_some(), !model.open.is_empty());
        if let Permit::Paced(at) = sender.permit(now, controller) {
            prop_assert!(at > now);
            let then = sender.permit(at, controller);
            prop_assert!(matches!(then, Permit::Now { .. }), "{:?}", then);
        }
        let window = controller.window(sender.slot());
        prop_assert!(window.is_finite() && window >= 1.0);
    }
    let rest: Vec<u64> = sender.retire(controller).collect();
    prop_assert!(rest.iter().eq(model.open.keys()));
    prop_assert_eq!(sender.bytes_in_flight(), 0);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn every_packet_is_settled_once(
        steps in proptest::collection::vec(step(), 0..250),
        law in 0..registry::laws().count(),
        pacing in any::<bool>(),
        packet_threshold in 0..6u32,
        initial_rtt_ms in 0..400u64,
    ) {
        let config = SenderConfig {
            pacing,
            packet_threshold,
            initial_rtt: Duration::from_millis(initial_rtt_ms),
            ..SenderConfig::default()
        };
        let law = registry::laws().nth(law).unwrap();
        let mut controller = law.controller(&Options::default());
        run(&steps, config, &mut controller)?;
    }

    /// The window is cut at most once among packets of one flight.
    #[test]
    fn one_cut_per_flight(lost in proptest::collection::btree_set(0..60u64, 1..40)) {
        let mut b = Bench::new(false);
        b.controller.window = 60.0;
        b.send(60).wait(40);
        for number in (0..60).filter(|number| !lost.contains(number)) {
            b.ack(&[number..=number]);
        }
        while b.sender.packets_in_flight() > 0 && b.sender.timeout().is_some() {
            b.sleep();
            if let TimerEvent::Probe { .. } = b.timer() {
                break;
            }
        }
        prop_assert!(b.controller.losses.len() <= 1);
        prop_assert_eq!(b.controller.timeouts, 0);
    }
}

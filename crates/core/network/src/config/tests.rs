use super::*;
use crate::{Change, Limit, Link, Red};
use manyway_units::Time;

fn plain() -> LinkConfig {
    LinkConfig::new(Rate::from_mbps(20.0), Duration::from_millis(10))
}

/// The field and the message.
fn error(config: LinkConfig) -> (String, String) {
    let error = config.validate().unwrap_err();
    assert_eq!(Link::new(config).unwrap_err(), error);
    (error.field.clone(), error.to_string())
}

fn assert_refused(config: LinkConfig, field: &str, message: &str) {
    let (found, text) = error(config);
    assert_eq!((found.as_str(), text.as_str()), (field, message));
}

#[test]
fn rates() {
    for rate in [Rate::ZERO, Rate::from_bits_per_sec(0.5)] {
        let (field, message) = error(LinkConfig { rate, ..plain() });
        assert_eq!(field, "rate");
        assert!(message.ends_with("choose at least 1 bps (to cut a link off, take it down)"));
    }
    let rate = Rate::from_mbps(10_000_000.0);
    assert_eq!(LinkConfig { rate, ..plain() }.validate(), Ok(()));
    let rate = Rate::from_mbps(10_000_001.0);
    let (field, message) = error(LinkConfig { rate, ..plain() });
    assert_eq!(field, "rate");
    assert!(message.ends_with("choose at most 10 Tbps"), "{message}");
}

#[test]
fn losses() {
    for p in [1.0, -0.1, f64::NAN] {
        let loss = Loss::Bernoulli(p);
        let (field, message) = error(LinkConfig { loss, ..plain() });
        assert_eq!(field, "loss");
        let expected =
            format!("the link's `loss` is {p}: choose a probability of at least 0 and less than 1");
        assert_eq!(message, expected);
    }
    let bursts = |[good_to_bad, bad_to_good, good, bad]: [f64; 4]| LinkConfig {
        loss: Loss::GilbertElliott {
            good_to_bad,
            bad_to_good,
            good,
            bad,
        },
        ..plain()
    };
    assert_eq!(bursts([0.0, 1.0, 0.0, 1.0]).validate(), Ok(()));
    for (index, field) in ["good_to_bad", "bad_to_good", "good", "bad"]
        .into_iter()
        .enumerate()
    {
        for wrong in [1.5, -0.1, f64::NAN] {
            let mut values = [0.1, 0.1, 0.1, 0.1];
            values[index] = wrong;
            assert_eq!(error(bursts(values)).0, format!("loss.{field}"));
        }
    }
    assert_refused(
        bursts([0.1, 0.0, 0.0, 1.0]),
        "loss.bad_to_good",
        "the link's `loss.bad_to_good` is 0: choose a probability greater than 0 and at most 1",
    );
    assert_eq!(error(bursts([0.1, 0.1, 1.0, 1.0])).0, "loss.good");
}

#[test]
fn queues() {
    let with = |queue| LinkConfig { queue, ..plain() };
    for limit in [Limit::Bytes(0), Limit::Packets(0)] {
        for (queue, field) in [
            (Queue::DropTail(limit), "queue"),
            (Queue::Red(Red::new(limit, 1.0, 2.0)), "queue.red.limit"),
        ] {
            let message =
                format!("the link's `{field}` is 0: a queue has room for at least one packet");
            assert_refused(with(queue), field, &message);
        }
    }
    let red = Red::new(Limit::Packets(100), 5.0, 15.0);
    assert_eq!(with(Queue::Red(red)).validate(), Ok(()));
    let refused = |red, field: &str| {
        let (found, message) = error(with(Queue::Red(red)));
        assert_eq!(found, format!("queue.red.{field}"));
        assert!(message.contains(": choose "), "{message}");
    };
    for wrong in [-1.0, f64::NAN, f64::INFINITY] {
        let min = wrong;
        refused(Red { min, ..red }, "min");
    }
    for wrong in [5.0, 4.0, f64::NAN, f64::INFINITY] {
        let max = wrong;
        refused(Red { max, ..red }, "max");
    }
    for wrong in [0.0, -0.1, 1.1, f64::NAN] {
        let (max_p, weight) = (wrong, wrong);
        refused(Red { max_p, ..red }, "max_p");
        refused(Red { weight, ..red }, "weight");
    }
    let mean_packet = 0;
    refused(Red { mean_packet, ..red }, "mean_packet");
}

#[test]
fn timetables() {
    let with = |at: &[u64], period: Option<u64>| LinkConfig {
        timetable: Timetable {
            changes: at
                .iter()
                .map(|&at| Change {
                    at: Time::from_nanos(at),
                    up: Some(false),
                    ..Change::default()
                })
                .collect(),
            period: period.map(Duration::from_nanos),
        },
        ..plain()
    };
    assert_eq!(with(&[0, 1000], Some(2000)).validate(), Ok(()));
    assert_eq!(with(&[500], Some(1000)).validate(), Ok(()));
    assert_eq!(with(&[], Some(0)).validate(), Ok(()));
    for wrong in [[1000, 1999], [1000, 1000], [1000, 0]] {
        assert_refused(
            with(&wrong, None),
            "timetable[1].at",
            &format!(
                "the link's `timetable[1].at` is {:?}: changes are in the order of time, \
                 at least 1 µs after the one before",
                Time::from_nanos(wrong[1])
            ),
        );
    }
    for (at, period) in [(&[0, 1000][..], 1999), (&[1500, 5000], 5000), (&[5], 0)] {
        assert_refused(
            with(at, Some(period)),
            "timetable_period",
            &format!(
                "the link's `timetable_period` is {:?}: choose one that ends at least 1 µs after \
                 the last change",
                Duration::from_nanos(period)
            ),
        );
    }
    // It may end sooner after the last change if the first one is late enough.
    assert_eq!(with(&[1000, 5000], Some(5001)).validate(), Ok(()));

    let mut slow = with(&[0, 1000], None);
    slow.timetable.changes[1].rate = Some(Rate::ZERO);
    assert_eq!(error(slow).0, "timetable[1].rate");
    let mut idle = with(&[0], None);
    idle.timetable.changes[0].up = None;
    assert_refused(
        idle,
        "timetable[0]",
        "the link's `timetable[0]` is empty: a change has a rate, a delay, or says up or \
         down",
    );
}

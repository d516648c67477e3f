//! Timetables, worked out by hand: at 20 Mbps 1500 B take 600 µs, at 10 Mbps 1200 µs, at 40 Mbps
//! 300 µs.

use super::*;
use crate::{Change, Timetable};

fn at(us: u64) -> Change {
    Change {
        at: Time::from_micros(us),
        ..Change::default()
    }
}

fn rate(us: u64, mbps: f64) -> Change {
    Change {
        rate: Some(Rate::from_mbps(mbps)),
        ..at(us)
    }
}

fn delay(us: u64, delay_ms: u64) -> Change {
    Change {
        delay: Some(Duration::from_millis(delay_ms)),
        ..at(us)
    }
}

fn up(us: u64, up: bool) -> Change {
    Change {
        up: Some(up),
        ..at(us)
    }
}

fn link_with(changes: Vec<Change>, period_us: Option<u64>) -> Link {
    let timetable = Timetable {
        changes,
        period: period_us.map(Duration::from_micros),
    };
    link(LinkConfig {
        timetable,
        ..twenty_mbps(packets(10))
    })
}

#[test]
fn a_packet_in_service_goes_on_at_the_new_rate() {
    let mut link = link_with(vec![rate(300, 10.0), rate(1500, 40.0)], None);
    // Half of it at 20 Mbps in 300 µs, half at 10 Mbps in 600 µs.
    assert_eq!(offer(&mut link, 0, 1500), delivered(900, 10_900));
    // Half of it at 10 Mbps until 1500 µs, half at 40 Mbps in 150 µs.
    assert_eq!(offer(&mut link, 0, 1500), delivered(1650, 11_650));
    assert_eq!(offer(&mut link, 0, 1500), delivered(1950, 11_950));
    // For good.
    assert_eq!(offer(&mut link, 60_000, 1500), delivered(60_300, 70_300));
    assert_eq!(link.stats().busy, Duration::from_micros(2250));
    assert_eq!(
        link.stats().sojourn,
        Duration::from_micros(900 + 1650 + 1950 + 300)
    );
}

#[test]
fn changes_come_round_again() {
    let mut link = link_with(vec![rate(0, 40.0), rate(400, 10.0)], Some(1000));
    // 40 Mbps: 400 µs are 2000 B; 10 Mbps: 600 µs are 750 B.
    assert_eq!(offer(&mut link, 0, 2000), delivered(400, 10_400));
    assert_eq!(offer(&mut link, 0, 750), delivered(1000, 11_000));
    assert_eq!(offer(&mut link, 0, 2000), delivered(1400, 11_400));
    // Many rounds later, across the change in one.
    assert_eq!(
        offer(&mut link, 5_000_000, 2375),
        delivered(5_000_700, 5_010_700)
    );
    // Ten rounds and a bit: 27,500 B, and 1000 B at 40 Mbps.
    assert_eq!(
        offer(&mut link, 8_000_000, 28_500),
        delivered(8_010_200, 8_020_200)
    );
}

#[test]
fn what_a_change_leaves_open_stays_from_round_to_round() {
    let mut link = link_with(vec![delay(100, 5), rate(500, 40.0)], Some(1000));
    // In the first round 20 Mbps until 500 µs: 1250 B.
    assert_eq!(offer(&mut link, 0, 1250), delivered(500, 5500));
    // 40 Mbps ever since.
    assert_eq!(offer(&mut link, 1050, 1500), delivered(1350, 6350));
}

#[test]
fn a_falling_delay_lets_nobody_overtake() {
    let mut link = link_with(vec![delay(900, 2), delay(20_000, 30)], None);
    assert_eq!(offer(&mut link, 0, 1500), delivered(600, 10_600));
    // 2 ms from 1200 µs on would be 3200 µs.
    assert_eq!(offer(&mut link, 0, 1500), delivered(1200, 10_600));
    assert_eq!(offer(&mut link, 9000, 1500), delivered(9600, 11_600));
    // It departs when the delay changes: the new one counts.
    assert_eq!(offer(&mut link, 19_400, 1500), delivered(20_000, 50_000));
}

#[test]
fn going_down_loses_the_queue_and_the_wire() {
    let mut link = link_with(vec![up(11_000, false), up(15_000, true)], None);
    // There at 11 ms exactly: delivered. 600 µs later: still on the wire.
    assert_eq!(offer(&mut link, 400, 1500), delivered(1000, 11_000));
    assert_eq!(offer(&mut link, 1000, 1500), DOWN);
    // Not served by then, and two behind it that are not even begun.
    for _ in 0..3 {
        assert_eq!(offer(&mut link, 10_900, 1500), DOWN);
    }
    assert_eq!(link.backlog_packets(Time::from_micros(10_900)), 3);
    assert_eq!(link.backlog_packets(Time::from_micros(11_000)), 0);
    assert_eq!(offer(&mut link, 11_000, 1500), DOWN);
    assert_eq!(offer(&mut link, 14_999, 1500), DOWN);
    assert_eq!(offer(&mut link, 15_000, 1500), delivered(15_600, 25_600));
    let stats = link.stats();
    assert_eq!(
        (stats.offered, stats.delivered, stats.dropped_down),
        (8, 2, 6)
    );
    assert_eq!(stats.bytes_delivered, 3000);
    // Three packets to the end and one for 100 µs; each of the three in the queue was there for 100
    // µs.
    assert_eq!(stats.busy, Duration::from_micros(1900));
    assert_eq!(stats.sojourn, Duration::from_micros(2100));
}

#[test]
fn a_queue_that_went_down_is_empty_for_the_discipline() {
    let mut link = link_with(vec![up(100, false), up(200, true)], None);
    for _ in 0..10 {
        assert_eq!(offer(&mut link, 0, 1500), DOWN);
    }
    assert_eq!(offer(&mut link, 0, 1500), FULL);
    // Ten find room again.
    for n in 1..=10 {
        let verdict = delivered(200 + 600 * n, 10_200 + 600 * n);
        assert_eq!(offer(&mut link, 200, 1500), verdict);
    }
    assert_eq!(offer(&mut link, 200, 1500), FULL);
}

#[test]
fn a_lost_packet_holds_up_nobody_after_the_link_is_back() {
    let changes = vec![
        delay(0, 100),
        up(2000, false),
        delay(3000, 1),
        up(4000, true),
    ];
    let mut link = link_with(changes, None);
    // It would arrive at 100.6 ms.
    assert_eq!(offer(&mut link, 0, 1500), DOWN);
    assert_eq!(offer(&mut link, 4000, 1500), delivered(4600, 5600));
}

#[test]
fn up_and_down_for_ever() {
    // Down for the second half of every 10 ms; 1 ms of delay.
    let changes = vec![delay(0, 1), up(1, true), up(5000, false)];
    let mut link = link_with(changes, Some(10_000));
    for round in [0, 1, 2, 1_000_000] {
        let start = round * 10_000 + 1;
        assert_eq!(
            offer(&mut link, start, 1500),
            delivered(start + 600, start + 1600)
        );
        assert_eq!(
            offer(&mut link, start + 3399, 1500),
            delivered(start + 3999, start + 4999)
        );
        assert_eq!(offer(&mut link, start + 3399, 1500), DOWN);
        assert_eq!(offer(&mut link, start + 4999, 1500), DOWN);
        assert_eq!(offer(&mut link, start + 9998, 1500), DOWN);
    }
}

#[test]
fn by_hand_and_by_timetable() {
    let mut link = link_with(vec![rate(1000, 10.0), up(50_000, false)], None);
    assert_eq!(offer(&mut link, 0, 1500), delivered(600, 10_600));
    // 1000 B by 1 ms, 14,000 B at 10 Mbps.
    assert_eq!(offer(&mut link, 600, 15_000), delivered(12_200, 22_200));
    // Cut short: the next one starts at the first rate again.
    link.set_up(Time::from_micros(700), false);
    assert_eq!(link.busy_until(), Time::from_micros(700));
    link.set_up(Time::from_micros(800), true);
    assert_eq!(offer(&mut link, 800, 500), delivered(1000, 11_000));
    assert_eq!(link.stats().busy, Duration::from_micros(900));
    assert_eq!(offer(&mut link, 60_000, 500), DOWN);
    assert!(link.is_up());
}

#[test]
fn red_counts_a_time_that_the_link_was_down_as_idle() {
    let red = Red {
        weight: 0.5,
        ..Red::new(Limit::Packets(60), 100.0, 200.0)
    };
    let timetable = Timetable {
        changes: vec![up(300, false), up(1500, true)],
        period: None,
    };
    let mut link = link(LinkConfig {
        timetable,
        ..twenty_mbps(Queue::Red(red))
    });
    for _ in 0..4 {
        offer(&mut link, 0, 1500);
    }
    // 0, 0, 1 and 2 waited: ((0/2 + 0)/2 + 1/2)/2 + 2/2.
    let average = |link: &Link| match link.rest.gate.as_deref() {
        Some(Gate::Red(gate)) => gate.average(),
        other => panic!("{other:?}"),
    };
    assert_eq!(average(&link), 1.25);
    // 1200 µs are two packets, and one for the packet itself.
    offer(&mut link, 1500, 1500);
    assert_eq!(average(&link), 1.25 / 8.0);
}

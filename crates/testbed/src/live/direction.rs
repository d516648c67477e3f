//! One direction of a link: packets in with a time, packets out with a time.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use manyway_network::{DropReason, Link, LinkStats, Verdict};
use manyway_units::Time;

use super::delays::Delays;
use crate::traffic::Traffic;

/// What the log has a line for.
pub(crate) const SLOT: Duration = Duration::from_millis(10);
/// What stands above the log's columns: when a slot began, in seconds since 1970, and of the
/// packets that were offered in it: the mean time that accepted ones take until their last bit has
/// left the queue, their number and bytes, those that the queue dropped, and those lost otherwise.
pub(crate) const COLUMNS: &str = "time,queue_ms,packets,bytes,dropped,lost";

/// A link with what is under way on it, how late its packets leave, and a log of its queue.
#[derive(Debug)]
pub(crate) struct Direction<W> {
    traffic: Traffic<Box<[u8]>>,
    route: Arc<[usize]>,
    late: Delays,
    log: W,
    /// When the link's time began, in seconds since 1970.
    epoch: f64,
    slot: Slot,
}

#[derive(Debug, Default)]
struct Slot {
    number: u64,
    packets: u64,
    bytes: u64,
    waited: Duration,
    dropped: u64,
    lost: u64,
}

impl<W: Write> Direction<W> {
    /// The log's first line is written at once.
    pub(crate) fn new(link: Link, epoch: f64, mut log: W) -> io::Result<Self> {
        writeln!(log, "{COLUMNS}")?;
        Ok(Self {
            traffic: Traffic::new(vec![link]),
            route: [0].into(),
            late: Delays::default(),
            log,
            epoch,
            slot: Slot::default(),
        })
    }

    /// A packet enters.
    ///
    /// # Errors
    /// If the log can't be written.
    pub(crate) fn enter(&mut self, now: Time, packet: &[u8]) -> io::Result<()> {
        let number = now.as_nanos() / SLOT.as_nanos() as u64;
        if number != self.slot.number {
            self.write_slot()?;
            self.slot.number = number;
        }
        let bytes = u32::try_from(packet.len()).unwrap_or(u32::MAX);
        let slot = &mut self.slot;
        match self.traffic.offer(now, &self.route, bytes, packet.into()) {
            Some(Verdict::Delivered { departs, .. }) => {
                slot.packets += 1;
                slot.bytes += u64::from(bytes);
                slot.waited += departs.since(now);
            }
            Some(Verdict::Dropped(DropReason::RandomLoss | DropReason::Down)) => slot.lost += 1,
            _ => slot.dropped += 1,
        }
        Ok(())
    }

    /// When the next packet leaves.
    pub(crate) fn next(&self) -> Option<Time> {
        self.traffic.next_arrival()
    }

    /// A packet that has to leave by `now`, the earliest first.
    pub(crate) fn leave(&mut self, now: Time) -> Option<Box<[u8]>> {
        let (due, packet) = self.traffic.take(now)?;
        self.late.add(now.since(due));
        Some(packet)
    }

    /// Writes what is left of the log; what happened, and how late packets left.
    ///
    /// # Errors
    /// If the log can't be written.
    pub(crate) fn finish(mut self) -> io::Result<(LinkStats, Delays)> {
        self.write_slot()?;
        self.log.flush()?;
        let stats = self.traffic.link_mut(0).map(|link| link.stats());
        Ok((stats.unwrap_or_default(), self.late))
    }

    /// Slots without packets have no line.
    fn write_slot(&mut self) -> io::Result<()> {
        let Slot {
            number,
            packets,
            bytes,
            waited,
            dropped,
            lost,
        } = std::mem::take(&mut self.slot);
        if packets + dropped + lost == 0 {
            return Ok(());
        }
        let time = self.epoch + number as f64 * SLOT.as_secs_f64();
        let queued = waited.as_secs_f64() * 1e3 / packets.max(1) as f64;
        writeln!(
            self.log,
            "{time:.2},{queued:.3},{packets},{bytes},{dropped},{lost}"
        )
    }
}

#[cfg(test)]
mod tests {
    use manyway_network::{Change, Link};
    use manyway_network::{Late, Limit, LinkConfig, Loss, Packet, Queue, Timetable};
    use manyway_units::Rate;

    use super::*;

    /// 20 Mbps, 10 ms, 20 kB of queue, and all that a link can do to a packet.
    fn config() -> LinkConfig {
        LinkConfig {
            queue: Queue::DropTail(Limit::Bytes(20_000)),
            loss: Loss::Bernoulli(0.05),
            jitter: Duration::from_millis(7),
            overtaking: true,
            late: Late {
                share: 0.02,
                by: Duration::from_millis(20),
            },
            timetable: Timetable {
                changes: vec![Change {
                    at: Time::from_millis(300),
                    rate: Some(Rate::from_mbps(5.0)),
                    ..Change::default()
                }],
                period: None,
            },
            seed: 7,
            ..LinkConfig::new(Rate::from_mbps(20.0), Duration::from_millis(10))
        }
    }

    /// Bursts of packets of several sizes, by a small generator: when, and what.
    fn offered() -> Vec<(Time, Vec<u8>)> {
        let mut state = 1_u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
            (state >> 33) % below
        };
        let mut now = 0;
        (0..2000_u32)
            .map(|number| {
                now += [0, 0, 100, 900][draw(4) as usize] * draw(1000);
                let mut packet = vec![0; 40 + draw(1460) as usize];
                packet[..4].copy_from_slice(&number.to_be_bytes());
                (Time::from_nanos(now), packet)
            })
            .collect()
    }

    /// What the simulator does: each packet that isn't dropped, by the time of its arrival.
    fn simulated(offered: &[(Time, Vec<u8>)]) -> (Vec<(Time, Vec<u8>)>, LinkStats) {
        let mut link = Link::new(config()).unwrap();
        let mut arrived = Vec::new();
        for (now, packet) in offered {
            let verdict = link.offer(*now, Packet::new(packet.len() as u32));
            if let Verdict::Delivered { arrives, .. } = verdict {
                arrived.push((arrives, packet.clone()));
            }
        }
        arrived.sort_by_key(|(at, _)| *at);
        (arrived, link.stats())
    }

    #[test]
    fn packets_leave_as_in_the_simulator() {
        let offered = offered();
        let (expected, stats) = simulated(&offered);
        assert!(stats.dropped_queue > 50 && stats.dropped_random > 50);
        let in_order = |(_, packet): &(Time, Vec<u8>)| packet[..4].to_vec();
        assert!(!expected.iter().map(in_order).is_sorted(), "some overtake");

        let link = Link::new(config()).unwrap();
        let mut direction = Direction::new(link, 0.0, io::sink()).unwrap();
        let mut left = Vec::new();
        let mut leave_until = |direction: &mut Direction<_>, until: Time| {
            while let Some(due) = direction.next().filter(|due| *due <= until) {
                assert_eq!(direction.leave(due - Duration::from_nanos(1)), None);
                left.push((due, direction.leave(due).unwrap().into_vec()));
            }
        };
        for (now, packet) in &offered {
            leave_until(&mut direction, *now);
            direction.enter(*now, packet).unwrap();
        }
        leave_until(&mut direction, Time::MAX);
        assert_eq!(left, expected);
        let (counted, late) = direction.finish().unwrap();
        assert_eq!(counted, stats);
        assert_eq!(
            (late.count(), late.most()),
            (stats.delivered, Duration::ZERO)
        );
    }

    /// Whoever comes late changes neither what is lost nor when the others were due.
    #[test]
    fn lateness_is_counted_and_changes_nothing() {
        let offered = offered();
        let (expected, stats) = simulated(&offered);
        let link = Link::new(config()).unwrap();
        let mut direction = Direction::new(link, 0.0, io::sink()).unwrap();
        let late = Duration::from_micros(1500);
        let mut left = Vec::new();
        for (now, packet) in &offered {
            direction.enter(*now, packet).unwrap();
        }
        while let Some(due) = direction.next() {
            left.push((due, direction.leave(due + late).unwrap().into_vec()));
        }
        assert_eq!(left, expected);
        let (counted, measured) = direction.finish().unwrap();
        assert_eq!(counted, stats);
        assert_eq!((measured.count(), measured.most()), (stats.delivered, late));
    }

    #[test]
    fn the_log_has_a_line_for_each_slot_with_packets() {
        let link = LinkConfig {
            queue: Queue::DropTail(Limit::Packets(2)),
            ..LinkConfig::new(Rate::from_mbps(8.0), Duration::from_millis(1))
        };
        let mut log = Vec::new();
        let link = Link::new(link).unwrap();
        let mut direction = Direction::new(link, 1000.0, &mut log).unwrap();
        // A thousand bytes take a millisecond; the third finds no room.
        for at in [0, 0, 0, 35] {
            direction.enter(Time::from_millis(at), &[0; 1000]).unwrap();
        }
        direction.finish().unwrap();
        assert_eq!(
            String::from_utf8(log).unwrap(),
            format!("{COLUMNS}\n1000.00,1.500,2,2000,1,0\n1000.03,1.000,1,1000,0,0\n")
        );
    }
}

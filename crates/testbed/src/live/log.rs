//! A log of what enters a network, in slots of time.

use std::fmt;
use std::io::{self, Write};
use std::time::Duration;

use manyway_network::{DropReason, Verdict};
use manyway_units::Time;

/// What the log has a line for.
const SLOT: Duration = Duration::from_millis(10);
/// What stands above the log's columns: when a slot began, in seconds since 1970, and of the
/// packets that were offered in it: the mean time that accepted ones take until their last bit has
/// left the first queue, their number and bytes, those that the queue dropped, and those lost
/// otherwise.
const COLUMNS: &str = "time,queue_ms,packets,bytes,dropped,lost";

/// The log, with the slot that isn't over.
pub(crate) struct Log {
    out: Box<dyn Write + Send>,
    /// When the network's time began, in seconds since 1970.
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

impl Log {
    /// Writes the first line at once.
    ///
    /// # Errors
    /// If it can't be written.
    pub(crate) fn new(mut out: Box<dyn Write + Send>, epoch: f64) -> io::Result<Self> {
        writeln!(out, "{COLUMNS}")?;
        Ok(Self {
            out,
            epoch,
            slot: Slot::default(),
        })
    }

    /// A packet of so many bytes enters, and its first link says this of it.
    ///
    /// # Errors
    /// If the slot before can't be written.
    pub(crate) fn add(
        &mut self,
        now: Time,
        bytes: u32,
        verdict: Option<Verdict>,
    ) -> io::Result<()> {
        let number = now.as_nanos() / SLOT.as_nanos() as u64;
        if number != self.slot.number {
            self.write_slot()?;
            self.slot.number = number;
        }
        let slot = &mut self.slot;
        match verdict {
            Some(Verdict::Delivered { departs, .. }) => {
                slot.packets += 1;
                slot.bytes += u64::from(bytes);
                slot.waited += departs.since(now);
            }
            // Only of queues that decide later, which nobody logs.
            Some(Verdict::Queued(_)) => {
                slot.packets += 1;
                slot.bytes += u64::from(bytes);
            }
            Some(Verdict::Dropped(DropReason::RandomLoss | DropReason::Down)) => slot.lost += 1,
            _ => slot.dropped += 1,
        }
        Ok(())
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// If it can't be written.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        self.write_slot()?;
        self.out.flush()
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
            self.out,
            "{time:.2},{queued:.3},{packets},{bytes},{dropped},{lost}"
        )
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut log = f.debug_struct("Log");
        log.field("epoch", &self.epoch).field("slot", &self.slot);
        log.finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use manyway_network::{Limit, Link, LinkConfig, Packet, Queue};
    use manyway_units::Rate;

    use super::*;

    /// Keeps what is written for the test.
    #[derive(Default, Clone)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_log_has_a_line_for_each_slot_with_packets() {
        let link = LinkConfig {
            queue: Queue::DropTail(Limit::Packets(2)),
            ..LinkConfig::new(Rate::from_mbps(8.0), Duration::from_millis(1))
        };
        let mut link = Link::new(link).unwrap();
        let kept = Kept::default();
        let mut log = Log::new(Box::new(kept.clone()), 1000.0).unwrap();
        // A thousand bytes take a millisecond; the third finds no room.
        for at in [0, 0, 0, 35] {
            let now = Time::from_millis(at);
            let verdict = link.offer(now, Packet::new(1000));
            log.add(now, 1000, Some(verdict)).unwrap();
        }
        log.finish().unwrap();
        let text = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        assert_eq!(
            text,
            format!("{COLUMNS}\n1000.00,1.500,2,2000,1,0\n1000.03,1.000,1,1000,0,0\n")
        );
    }
}

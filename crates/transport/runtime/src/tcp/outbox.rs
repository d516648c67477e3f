//! The queue between the driver and a carrier's task: records that wait to be written.

use std::net::IpAddr;
use std::sync::Arc;

use manyway_wire::{RECORD_HEADER_LEN, record_header};
use tokio::sync::Notify;

/// Bytes that wait for a connection which no path runs on: answers to INITs, which nobody has to
/// get.
const MAX_UNUSED: usize = 64 << 10;
/// Bytes that wait at the most. The session hands over less; what comes on top would be a mistake
/// of ours, and the connection ends.
const MAX_WAITING: usize = 4 << 20;

/// The way out of one TCP connection.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// Records, with their lengths in front.
    records: Vec<u8>,
    /// Bytes of packets in them.
    packets: u64,
    pub(crate) ready: Arc<Notify>,
    pub(crate) end: End,
    /// The other end's address, if it dialled us.
    pub(crate) caller: Option<IpAddr>,
}

/// Whether a connection is to end.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum End {
    /// It goes on.
    #[default]
    Open,
    /// When all is written.
    Flush,
    /// Now.
    Abort,
}

/// What there is to write.
#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) records: Vec<u8>,
    pub(crate) packets: u64,
}

impl Outbox {
    /// Of a connection that `caller` has dialled, or that we have.
    pub(crate) fn new(caller: Option<IpAddr>) -> Self {
        Self {
            caller,
            ..Self::default()
        }
    }

    /// Adds packets of `segment` bytes each, the last of which may be shorter.
    pub(crate) fn push(&mut self, packets: &[u8], segment: usize, used: bool) {
        let most = if used { MAX_WAITING } else { MAX_UNUSED };
        for packet in packets.chunks(segment.max(1)) {
            let Ok(header) = record_header(packet.len()) else {
                tracing::warn!(bytes = packet.len(), "a packet that doesn't fit a record");
                self.end = End::Abort;
                break;
            };
            if self.records.len() + packet.len() + RECORD_HEADER_LEN > most {
                if used {
                    tracing::warn!(
                        bytes = self.records.len(),
                        "too many bytes wait to be written"
                    );
                    self.end = End::Abort;
                }
                break;
            }
            self.records.extend_from_slice(&header);
            self.records.extend_from_slice(packet);
            self.packets += packet.len() as u64;
        }
        self.ready.notify_one();
    }

    /// Takes all of it; `spare` is memory to go on with.
    pub(crate) fn take(&mut self, mut spare: Vec<u8>) -> Option<Load> {
        if self.records.is_empty() {
            return None;
        }
        spare.clear();
        Some(Load {
            records: std::mem::replace(&mut self.records, spare),
            packets: std::mem::take(&mut self.packets),
        })
    }

    /// Ends it, sooner rather than later.
    pub(crate) fn finish(&mut self, end: End) {
        if self.end != End::Abort {
            self.end = end;
        }
        self.ready.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_become_records_and_are_taken_at_once() {
        let mut outbox = Outbox::default();
        assert!(outbox.take(Vec::new()).is_none());
        outbox.push(b"aaabbbc", 3, true);
        let load = outbox.take(Vec::new()).unwrap();
        assert_eq!(load.records, b"\0\x03aaa\0\x03bbb\0\x01c");
        assert_eq!(load.packets, 7);
        assert!(outbox.take(Vec::new()).is_none());
    }

    #[test]
    fn what_nobody_writes_is_bounded() {
        let mut outbox = Outbox::default();
        let packet = [7; 1200];
        (0..1000).for_each(|_| outbox.push(&packet, 1200, false));
        assert!(outbox.records.len() <= MAX_UNUSED);
        assert_eq!(outbox.end, End::Open);
        (0..10_000).for_each(|_| outbox.push(&packet, 1200, true));
        assert!(outbox.records.len() <= MAX_WAITING);
        assert_eq!(outbox.end, End::Abort);
    }
}

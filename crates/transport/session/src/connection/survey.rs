//! What the paths are worth, found out without moving data: filler goes out as data would, and what
//! comes of it is watched.

use std::ops::Bound;

use bytes::BufMut;
use manyway_units::Time;
use manyway_wire::Frame;

use crate::stats::{PathState, PathSurvey};

use super::Connection;
use super::path::Under;
use super::transmit::{Packet, SMALLEST_CHUNK};

impl Connection {
    /// Sends so many bytes that say nothing, besides whatever there is to send, as fast as
    /// congestion control and [`Config::limit`](crate::Config::limit) allow. What was asked for
    /// before and hasn't left is forgotten.
    pub fn fill(&mut self, now: Time, bytes: u64) {
        self.filler = bytes;
        if let Some(watched) = self.controllers.watched() {
            watched.restart(now);
        }
        self.survey_from = now;
        self.drive_detours(now);
    }

    /// Filler that hasn't left yet, in bytes.
    pub fn unsent_filler(&self) -> u64 {
        self.filler
    }

    /// What was seen of every path over UDP in use since [`Connection::fill`]; empty without
    /// [`Config::watch`](crate::Config::watch).
    pub fn survey(&mut self, now: Time) -> Vec<PathSurvey> {
        let in_use = |state| matches!(state, PathState::Active | PathState::Stalled);
        let slot_of = |&index: &usize| {
            let path = &self.paths[index];
            let watched = in_use(path.state) && path.under == Under::Law;
            let sender = path.sender.windowed().filter(|_| watched)?;
            Some((index, sender.slot()))
        };
        let (used, slots): (Vec<usize>, Vec<_>) = self.by_id.values().filter_map(slot_of).unzip();
        let Some(watched) = self.controllers.watched() else {
            return Vec::new();
        };
        let groups = watched.groups(now, &slots);
        let records: Vec<_> = slots
            .iter()
            .map(|slot| {
                let record = watched.path(*slot)?;
                Some((
                    record.bytes_acked(),
                    record.bytes_lost(),
                    record.loss_events(),
                    record.estimate(now),
                ))
            })
            .collect();
        let span = now.since(self.survey_from);
        used.iter()
            .zip(groups)
            .zip(records)
            .filter_map(|((&index, group), record)| {
                let (acked, lost, loss_events, estimate) = record?;
                let path = &self.paths[index];
                Some(PathSurvey {
                    path: path.stats(self.controllers.of(path)),
                    span,
                    bytes_acked: acked as u64,
                    bytes_lost: lost as u64,
                    loss_events: loss_events as u64,
                    estimate,
                    group,
                })
            })
            .collect()
    }

    /// Whether there is something to send that may fill the paths.
    pub(super) fn has_data(&self) -> bool {
        self.filler > 0 || self.streams.has_data()
    }

    /// The next path that may send: whichever delivers soonest, filler is to tell of all of them.
    pub(super) fn choose_in_turn(&mut self) -> Option<usize> {
        let after = (Bound::Excluded(self.filled), Bound::Unbounded);
        let next = self.ready.range(after).next().or(self.ready.first());
        self.filled = *next?;
        Some(self.filled.1)
    }

    /// Fills the packet up with what is still to be sent that says nothing.
    pub(super) fn write_filler(
        &mut self,
        now: Time,
        end: usize,
        packet: &mut Packet,
        buf: &mut Vec<u8>,
    ) {
        let room = end.saturating_sub(buf.len());
        if self.filler == 0 || room < SMALLEST_CHUNK {
            return;
        }
        Frame::Filler.encode(buf);
        buf.put_bytes(0, room - 1);
        packet.ack_eliciting = true;
        self.filler = self.filler.saturating_sub(room as u64);
        if let Some(limiter) = &mut self.limiter {
            limiter.spend(now, room);
        }
    }
}

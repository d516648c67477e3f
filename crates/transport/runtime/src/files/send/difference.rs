//! Sends what a receiver doesn't have of a file: it has told the hashes of the groups that it has.

use super::super::progress::Progress;
use super::super::summary::Kept;
use super::outbox::Outbox;
use super::reading::Reading;
use super::stop::Stop;
use manyway_transfer::message::{BASIS_WINDOW, MAX_DATA};
use manyway_transfer::{Digest, GROUP, Message};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TryRecvError;

/// The receiver goes on telling hashes when it hears what became of them.
const MOST_KEPT: u64 = BASIS_WINDOW as u64 / 4;

/// The groups that a receiver has, file by file.
pub(super) struct Difference {
    /// `None` ends a file's list.
    basis: mpsc::Receiver<Option<Digest>>,
    group: Box<[u8]>,
    /// Groups of the current file that needn't be sent, and the receiver hasn't heard of it yet.
    kept: u64,
}

impl Difference {
    pub(super) fn new(basis: mpsc::Receiver<Option<Digest>>) -> Self {
        Self {
            basis,
            group: Box::default(),
            kept: 0,
        }
    }

    /// Sends a file. Its hash, and how many bytes weren't sent.
    pub(super) fn send(
        &mut self,
        mut reading: Reading<'_>,
        out: &mut Outbox,
        progress: &Progress,
    ) -> Result<(Digest, u64), Stop> {
        let (mut listed, mut left_out) = (true, 0);
        while reading.remaining() > 0 {
            let there = if listed { self.next(out)? } else { None };
            listed = there.is_some();
            let len = reading.remaining().min(GROUP) as usize;
            if self.group.len() < len {
                self.group = vec![0; GROUP as usize].into();
            }
            let group = &mut self.group[..len];
            reading.fill(group)?;
            if listed && there == reading.last_group() {
                self.kept += 1;
                left_out += len as u64;
                progress.leave_out(Kept::part(len as u64));
                if self.kept == MOST_KEPT {
                    self.tell_kept(out)?;
                    out.flush()?;
                }
                continue;
            }
            self.tell_kept(out)?;
            let mut rest = &self.group[..len];
            while !rest.is_empty() {
                let room = out.content(rest.len().min(MAX_DATA))?;
                let now = room.len();
                room.copy_from_slice(&rest[..now]);
                out.commit(now);
                rest = &rest[now..];
            }
        }
        self.tell_kept(out)?;
        Ok((reading.end(out)?, left_out))
    }

    /// The next group that the receiver has; `None`: it has no more of this file.
    fn next(&mut self, out: &mut Outbox) -> Result<Option<Digest>, Stop> {
        match self.basis.try_recv() {
            Ok(next) => return Ok(next),
            Err(TryRecvError::Disconnected) => return Err(Stop::Gone),
            Err(TryRecvError::Empty) => {}
        }
        // It may wait for our word before it says more.
        self.tell_kept(out)?;
        out.flush()?;
        self.basis.blocking_recv().ok_or(Stop::Gone)
    }

    fn tell_kept(&mut self, out: &mut Outbox) -> Result<(), Stop> {
        match std::mem::take(&mut self.kept) {
            0 => Ok(()),
            kept => out.message(&Message::Kept(kept)),
        }
    }
}

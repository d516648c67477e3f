//! Sends what a receiver doesn't have of a file: it has told the hashes of the groups that it has.

use super::super::progress::Progress;
use super::super::summary::Kept;
use super::outbox::Outbox;
use super::reading::Reading;
use super::stop::Stop;
use manyway_transfer::message::{BASIS_WINDOW, MAX_DATA, MAX_HOLE};
use manyway_transfer::{Cause, Digest, Entry, GROUP, Message, groups};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TryRecvError;

/// The receiver goes on telling hashes when it hears what became of them.
const MOST_PASSED: u64 = BASIS_WINDOW as u64 / 4;
const _: () = assert!(MOST_PASSED <= MAX_HOLE);

/// The groups that a receiver has, file by file.
pub(super) struct Difference {
    /// `None` ends a file's list.
    basis: mpsc::Receiver<Option<Digest>>,
    /// Of the current file: how many groups were heard of, and whether there may be more.
    heard: u64,
    listed: bool,
    group: Box<[u8]>,
    /// Groups of the current file that aren't sent, and the receiver hasn't heard of it yet: those
    /// that it has, or those in a hole.
    passed: Message,
}

impl Difference {
    pub(super) fn new(basis: mpsc::Receiver<Option<Digest>>) -> Self {
        Self {
            basis,
            heard: 0,
            listed: true,
            group: Box::default(),
            passed: Message::Kept(0),
        }
    }

    /// The next file's turn has come.
    pub(super) fn begin(&mut self) {
        (self.heard, self.listed) = (0, true);
        self.passed = Message::Kept(0);
    }

    /// The rest of a file can't be sent: says so, and passes over what the receiver tells of it.
    pub(super) fn leave_out(
        &mut self,
        entry: &Entry,
        cause: Cause,
        out: &mut Outbox,
    ) -> Result<(), Stop> {
        self.passed = Message::Kept(0);
        out.message(&Message::LeftOut(cause))?;
        while self.heard < groups(entry.size) && self.next(out)?.is_some() {}
        Ok(())
    }

    /// Sends a file. Its hash, and how many bytes weren't sent.
    pub(super) fn send(
        &mut self,
        reading: &mut Reading<'_>,
        out: &mut Outbox,
        progress: &Progress,
    ) -> Result<(Digest, u64), Stop> {
        let mut left_out = 0;
        while reading.remaining() > 0 {
            let there = self.next(out)?;
            if reading.hole() > 0 {
                let len = reading.pass()?;
                if there.is_some() && there == reading.last_group() {
                    left_out += len;
                }
                progress.leave_out(Kept::part(len));
                self.pass(Message::Hole, out)?;
                continue;
            }
            let len = reading.remaining().min(GROUP) as usize;
            if self.group.len() < len {
                self.group = vec![0; GROUP as usize].into();
            }
            let group = &mut self.group[..len];
            reading.fill(group)?;
            if there.is_some() && there == reading.last_group() {
                left_out += len as u64;
                progress.leave_out(Kept::part(len as u64));
                self.pass(Message::Kept, out)?;
                continue;
            }
            self.tell_passed(out)?;
            let mut rest = &self.group[..len];
            while !rest.is_empty() {
                let room = out.content(rest.len().min(MAX_DATA))?;
                let now = room.len();
                room.copy_from_slice(&rest[..now]);
                out.commit(now);
                rest = &rest[now..];
            }
        }
        self.tell_passed(out)?;
        Ok((reading.end(out)?, left_out))
    }

    /// The next group that the receiver has; `None`: it has no more of this file.
    fn next(&mut self, out: &mut Outbox) -> Result<Option<Digest>, Stop> {
        if !self.listed {
            return Ok(None);
        }
        let next = match self.basis.try_recv() {
            Ok(next) => next,
            Err(TryRecvError::Disconnected) => return Err(Stop::Gone),
            Err(TryRecvError::Empty) => {
                // It may wait for our word before it says more.
                self.tell_passed(out)?;
                out.flush()?;
                self.basis.blocking_recv().ok_or(Stop::Gone)?
            }
        };
        self.listed = next.is_some();
        self.heard += u64::from(self.listed);
        Ok(next)
    }

    /// Notes a group that isn't sent, of which `how` tells.
    fn pass(&mut self, how: fn(u64) -> Message, out: &mut Outbox) -> Result<(), Stop> {
        if self.passed.kind() != how(0).kind() {
            self.tell_passed(out)?;
        }
        let groups = self.passed_groups() + 1;
        self.passed = how(groups);
        if groups == MOST_PASSED {
            self.tell_passed(out)?;
            out.flush()?;
        }
        Ok(())
    }

    fn passed_groups(&self) -> u64 {
        match self.passed {
            Message::Kept(groups) | Message::Hole(groups) => groups,
            _ => 0,
        }
    }

    fn tell_passed(&mut self, out: &mut Outbox) -> Result<(), Stop> {
        match std::mem::replace(&mut self.passed, Message::Kept(0)) {
            Message::Kept(0) | Message::Hole(0) => Ok(()),
            passed => out.message(&passed),
        }
    }
}

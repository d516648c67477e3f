//! A stream's receiving side: what has arrived, what may arrive, and how it ends.

use std::time::Duration;

use bytes::Bytes;
use manyway_units::Time;

use super::StreamId;
use super::assembler::Assembler;
use super::error::{ReadError, StreamsError};
use super::types::MAX_OFFSET;
use super::window::Window;

#[derive(Debug)]
pub(super) struct RecvHalf {
    assembler: Assembler,
    pub(super) window: Window,
    /// The offset behind the highest byte received: what counts against the windows.
    highest: u64,
    final_size: Option<u64>,
    state: State,
    /// The reader waits for news.
    waiting: bool,
}

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum State {
    /// The application reads.
    Open,
    /// The peer's reset, with its code, which the application hasn't seen yet.
    Reset(u64),
    /// The application doesn't want the rest; whether STOP_SENDING is due.
    Stopped { code: u64, due: bool },
    /// The application has seen the end or the reset.
    Over,
}

/// A frame's claim about a stream.
#[derive(Copy, Clone, Debug)]
pub(super) struct Claim {
    pub(super) stream: StreamId,
    pub(super) offset: u64,
    pub(super) len: u64,
    /// Whether the stream ends behind these bytes.
    pub(super) fin: bool,
}

impl RecvHalf {
    pub(super) fn new(window: Window) -> Self {
        RecvHalf {
            assembler: Assembler::default(),
            window,
            highest: 0,
            final_size: None,
            state: State::Open,
            waiting: true,
        }
    }

    /// The direction that a unidirectional stream of ours doesn't have.
    pub(super) fn absent() -> Self {
        RecvHalf {
            final_size: Some(0),
            state: State::Over,
            ..RecvHalf::new(Window::new(0, 0))
        }
    }

    // What the peer does.

    /// How many bytes the claim adds to the stream's highest offset, if it may be made. Changes
    /// nothing.
    pub(super) fn check(&self, claim: Claim) -> Result<u64, StreamsError> {
        let Claim {
            stream,
            offset,
            len,
            fin,
        } = claim;
        let end = offset.checked_add(len).filter(|&end| end <= MAX_OFFSET);
        let end = end.ok_or(StreamsError::OffsetOverflow {
            stream,
            offset,
            len,
        })?;
        let contradiction = match self.final_size {
            Some(known) => (end > known || (fin && end != known)).then_some(known),
            None => (fin && end < self.highest).then_some(self.highest),
        };
        if let Some(known) = contradiction {
            return Err(StreamsError::FinalSize {
                stream,
                known,
                claimed: end,
            });
        }
        let limit = self.window.limit();
        if end > limit {
            return Err(StreamsError::StreamFlowControl { stream, end, limit });
        }
        Ok(end.saturating_sub(self.highest))
    }

    /// Takes the bytes of a checked claim. Returns how many of the added ones are thrown away.
    pub(super) fn on_data(&mut self, now: Time, claim: Claim, data: &[u8], added: u64) -> u64 {
        self.window.on_data(now);
        self.highest += added;
        if claim.fin {
            self.final_size = Some(self.highest);
        }
        match self.state {
            State::Open => {
                self.assembler.insert(claim.offset, data);
                0
            }
            State::Stopped { .. } => added,
            // The final size is known: nothing can be added.
            State::Reset(_) | State::Over => 0,
        }
    }

    /// How far the peer has come beyond the first byte that is missing, if the reader waits for it.
    /// The window grows by that.
    pub(super) fn grow_for_gap(&mut self) -> u64 {
        if !matches!(self.state, State::Open) || self.assembler.is_readable() {
            return 0;
        }
        let behind = self.highest - self.assembler.read_offset();
        self.window.on_gap(behind);
        behind
    }

    /// Takes the peer's reset, whose claim (everything up to the final size) was checked. Returns
    /// the bytes that the application won't read any more.
    pub(super) fn on_reset(&mut self, code: u64, added: u64) -> u64 {
        self.highest += added;
        let complete = self
            .final_size
            .is_some_and(|end| self.assembler.is_complete(end));
        self.final_size = Some(self.highest);
        match self.state {
            // Everything came before the reset: the application needn't know of it.
            State::Open if complete => 0,
            State::Open => {
                self.state = State::Reset(code);
                self.throw_away()
            }
            State::Stopped { .. } => added,
            State::Reset(_) | State::Over => 0,
        }
    }

    /// Whether the reader waited, and has something to read now: once.
    pub(super) fn take_news(&mut self) -> bool {
        let news = self.waiting
            && match self.state {
                State::Open => self.assembler.is_readable() || self.at_end(),
                State::Reset(_) => true,
                State::Stopped { .. } | State::Over => false,
            };
        self.waiting &= !news;
        news
    }

    /// Bytes that the application has to read, or may have to, in all.
    pub(super) fn promised(&self) -> u64 {
        match (self.state, self.final_size) {
            (State::Open, None) => self.window.promised(),
            (State::Open, Some(_)) => self.highest - self.assembler.read_offset(),
            // What comes is thrown away.
            (State::Reset(_) | State::Stopped { .. } | State::Over, _) => 0,
        }
    }

    /// How far the receive window may grow from now on, in bytes.
    pub(super) fn limit_window(&mut self, most: u64) {
        self.window.limit_to(most);
    }

    /// The receive window in bytes.
    pub(super) fn window_size(&self) -> u64 {
        self.window.size()
    }

    // What the application does.

    /// Bytes in order, or `None` for the end.
    pub(super) fn read(
        &mut self,
        now: Time,
        rtt: Duration,
        max: usize,
    ) -> Result<Option<Bytes>, ReadError> {
        match self.state {
            State::Open => {}
            State::Reset(code) => {
                self.state = State::Over;
                return Err(ReadError::Reset(code));
            }
            State::Stopped { .. } | State::Over => return Err(ReadError::Closed),
        }
        if let Some(data) = self.assembler.take(max) {
            self.window.read(now, rtt, data.len() as u64);
            return Ok(Some(data));
        }
        if self.at_end() {
            self.state = State::Over;
            return Ok(None);
        }
        if !self.assembler.is_readable() {
            self.waiting = true;
        }
        Err(ReadError::Blocked)
    }

    /// Returns the bytes that the application won't read any more.
    pub(super) fn stop(&mut self, code: u64) -> Result<u64, ReadError> {
        match self.state {
            State::Open => {
                let complete = self
                    .final_size
                    .is_some_and(|end| self.assembler.is_complete(end));
                self.state = State::Stopped {
                    code,
                    due: !complete,
                };
                Ok(self.throw_away())
            }
            State::Reset(_) => {
                self.state = State::Over;
                Ok(0)
            }
            State::Stopped { .. } | State::Over => Err(ReadError::Closed),
        }
    }

    // Control frames.

    /// The code of the STOP_SENDING frame to be sent, if one is due; it counts as sent from now on.
    pub(super) fn take_stop(&mut self) -> Option<u64> {
        match &mut self.state {
            State::Stopped { code, due } if *due => {
                *due = false;
                Some(*code)
            }
            _ => None,
        }
    }

    pub(super) fn on_stop_lost(&mut self) {
        if let State::Stopped { due, .. } = &mut self.state {
            *due |= self.final_size.is_none();
        }
    }

    pub(super) fn wants_stop(&self) -> bool {
        matches!(self.state, State::Stopped { due: true, .. })
    }

    /// Whether the peer should be told a new limit: not once it has said where the stream ends.
    pub(super) fn wants_limit(&self) -> bool {
        self.window.is_due() && self.final_size.is_none() && self.state == State::Open
    }

    /// Whether nothing is left to do, and the application knows.
    pub(super) fn is_over(&self) -> bool {
        match self.state {
            State::Over => true,
            // A STOP_SENDING that is due still goes out: it spares the peer retransmissions.
            State::Stopped { due, .. } => self.final_size.is_some() && !due,
            State::Open | State::Reset(_) => false,
        }
    }

    /// Bytes that count as received and not as consumed.
    #[cfg(test)]
    pub(super) fn unread(&self) -> u64 {
        match self.state {
            State::Open => self.highest - self.assembler.read_offset(),
            State::Reset(_) | State::Stopped { .. } | State::Over => 0,
        }
    }

    /// Bytes allocated for what has arrived.
    pub(super) fn allocated(&self) -> usize {
        self.assembler.allocated()
    }

    /// Lets go of what wasn't read: it never will be, and nothing more comes.
    pub(super) fn discard(&mut self) {
        self.throw_away();
    }

    fn at_end(&self) -> bool {
        self.final_size == Some(self.assembler.read_offset())
    }

    fn throw_away(&mut self) -> u64 {
        let unread = self.highest - self.assembler.read_offset();
        self.assembler = Assembler::default();
        unread
    }
}

//! All streams of a connection: what the peer sends.

use std::time::Duration;

use manyway_units::Time;
use manyway_wire::MAX_STREAM_COUNT;

use super::error::StreamsError;
use super::recv::{Claim, RecvHalf};
use super::set::{Streams, limit_to_share};
use super::types::StreamEvent;
use super::window::Window;
use super::{StreamId, StreamKind};

impl Streams {
    /// A STREAM frame arrived. `rtt` tunes the windows: the longest (smoothed) of the paths in use,
    /// since that is how long a new limit or a lost piece may take.
    ///
    /// # Errors
    /// The peer broke the protocol: the connection must close. Nothing of the frame was taken.
    pub fn on_stream(
        &mut self,
        now: Time,
        rtt: Duration,
        id: StreamId,
        offset: u64,
        data: &[u8],
        fin: bool,
    ) -> Result<(), StreamsError> {
        self.rtt = rtt;
        let len = data.len() as u64;
        let claim = Claim {
            stream: id,
            offset,
            len,
            fin,
        };
        self.on_claim(claim, |recv, window, added| {
            window.on_data(now);
            let unread = recv.on_data(now, claim, data, added);
            window.on_gap(recv.grow_for_gap());
            unread
        })
    }

    /// A RESET_STREAM frame arrived.
    ///
    /// # Errors
    /// As [`on_stream`](Self::on_stream).
    pub fn on_reset(
        &mut self,
        id: StreamId,
        code: u64,
        final_size: u64,
    ) -> Result<(), StreamsError> {
        let claim = Claim {
            stream: id,
            offset: final_size,
            len: 0,
            fin: true,
        };
        self.on_claim(claim, |recv, _, added| recv.on_reset(code, added))
    }

    /// A STOP_SENDING frame arrived: our sending side is reset with its code.
    ///
    /// # Errors
    /// The frame names a stream that can't exist.
    pub fn on_stop(&mut self, id: StreamId, code: u64) -> Result<(), StreamsError> {
        if !self.admit_sent(id)? {
            return Ok(());
        }
        if let Some(stream) = self.streams.get_mut(&id)
            && stream.send.on_stop(code)
        {
            self.events.push_back(StreamEvent::Stopped { id, code });
            self.stop_waiting(id);
            self.settle(id);
            self.wake_writers(id);
        }
        Ok(())
    }

    /// A MAX_DATA frame arrived. A lower value than before is harmless.
    pub fn on_max_data(&mut self, max: u64) {
        self.peer.max_data = self.peer.max_data.max(max);
    }

    /// A MAX_STREAM_DATA frame arrived. A lower value than before is harmless.
    ///
    /// # Errors
    /// The frame names a stream that can't exist.
    pub fn on_max_stream_data(&mut self, id: StreamId, max: u64) -> Result<(), StreamsError> {
        if self.admit_sent(id)?
            && let Some(stream) = self.streams.get_mut(&id)
        {
            stream.send.on_max(max);
            self.settle(id);
        }
        Ok(())
    }

    /// A MAX_STREAMS frame arrived. A lower value than before is harmless.
    pub fn on_max_streams(&mut self, kind: StreamKind, count: u64) {
        let ours = &mut self.ours[kind as usize];
        ours.limit = ours.limit.max(count.min(MAX_STREAM_COUNT));
        if ours.waiting && ours.opened < ours.limit {
            ours.waiting = false;
            self.events.push_back(StreamEvent::Available);
        }
    }

    /// As `admit`, for a frame about the direction in which this side sends.
    fn admit_sent(&mut self, id: StreamId) -> Result<bool, StreamsError> {
        match self.config.sends_on(id) {
            true => self.admit(id),
            false => Err(StreamsError::Direction { stream: id }),
        }
    }

    /// Whether the stream a frame names is open, after opening it if the peer may. False when it is
    /// over.
    fn admit(&mut self, id: StreamId) -> Result<bool, StreamsError> {
        if self.streams.contains_key(&id) {
            return Ok(true);
        }
        let number = id.index() + 1;
        if self.is_ours(id) {
            let known = number <= self.ours[id.kind() as usize].opened;
            return if known {
                Ok(false)
            } else {
                Err(StreamsError::NeverOpened { stream: id })
            };
        }
        let theirs = &self.theirs[id.kind() as usize];
        let (opened, limit) = (theirs.opened, theirs.limit);
        if number > limit {
            return Err(StreamsError::StreamLimit { stream: id, limit });
        }
        if number <= opened {
            return Ok(false);
        }
        self.peer_opens(id.kind(), number);
        Ok(true)
    }

    /// Checks a claim against the limits of the stream and of the connection, and only then takes
    /// it: `take` gets the connection's window and the number of bytes the claim adds, and returns
    /// how many bytes nobody will read.
    fn on_claim(
        &mut self,
        claim: Claim,
        take: impl FnOnce(&mut RecvHalf, &mut Window, u64) -> u64,
    ) -> Result<(), StreamsError> {
        let id = claim.stream;
        if !self.config.receives_on(id) {
            return Err(StreamsError::Direction { stream: id });
        }
        if !self.admit(id)? {
            return Ok(());
        }
        let Some(stream) = self.streams.get_mut(&id) else {
            return Ok(());
        };
        let added = stream.recv.check(claim)?;
        let (total, limit) = (self.received.saturating_add(added), self.window.limit());
        if total > limit {
            return Err(StreamsError::ConnectionFlowControl {
                stream: id,
                total,
                limit,
            });
        }
        self.received = total;
        if self.config.has_shares() {
            limit_to_share(&mut stream.recv, &self.config, &self.window, &self.ledger);
        }
        let unread = take(&mut stream.recv, &mut self.window, added);
        self.window.discard(unread);
        let unread = total.saturating_sub(self.window.consumed());
        self.most_unread = self.most_unread.max(unread);
        if stream.recv.take_news() {
            self.events.push_back(StreamEvent::Readable(id));
        }
        if stream.settle_control(id, &mut self.ledger) {
            self.drop_stream(id);
        }
        self.make_room();
        Ok(())
    }
}

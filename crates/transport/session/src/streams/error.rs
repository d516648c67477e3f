//! What can go wrong: for the application, and in what the peer does.

use super::StreamId;

/// Why no stream could be opened.
#[derive(Copy, Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OpenError {
    /// All streams the peer allows are open. [`StreamEvent::Available`](super::StreamEvent)
    /// follows.
    #[error("the peer allows {limit} streams so far: wait until one of them closes")]
    Limit {
        /// How many streams the peer allowed in all.
        limit: u64,
    },
}

/// Why nothing could be written to, or done with, a stream's sending side.
#[derive(Copy, Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WriteError {
    /// The send buffer is full. [`StreamEvent::Writable`](super::StreamEvent) follows.
    #[error("the send buffer is full: wait until the stream is writable")]
    Blocked,
    /// The peer doesn't want the stream's bytes.
    #[error("the peer stopped the stream with code {0}")]
    Stopped(u64),
    /// Finished or reset before, or never opened.
    #[error("the stream's sending side was finished or reset before, or never opened")]
    Closed,
}

/// Why nothing could be read from, or done with, a stream's receiving side.
#[derive(Copy, Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ReadError {
    /// Nothing has arrived. [`StreamEvent::Readable`](super::StreamEvent) follows.
    #[error("nothing to read yet: wait until the stream is readable")]
    Blocked,
    /// The peer abandoned the stream.
    #[error("the peer reset the stream with code {0}")]
    Reset(u64),
    /// Its end or its reset was read before, or it was stopped, or never opened.
    #[error("the stream's receiving side was read to its end or stopped before, or never opened")]
    Closed,
}

/// The peer broke the protocol; the text is the reason for CLOSE.
#[derive(Copy, Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StreamsError {
    /// A stream beyond the limit this side set.
    #[error("stream {stream}: more than the {limit} streams of its kind allowed so far")]
    StreamLimit {
        /// The stream named by the frame.
        stream: StreamId,
        /// How many streams of its kind the peer may open in all.
        limit: u64,
    },
    /// A frame for a stream that is this side's to open, and isn't open.
    #[error("stream {stream}: it is the other side's to open and was never opened")]
    NeverOpened {
        /// The stream named by the frame.
        stream: StreamId,
    },
    /// A frame about the direction that a unidirectional stream doesn't have.
    #[error("stream {stream}: it is unidirectional, and a frame is about its other direction")]
    Direction {
        /// The stream named by the frame.
        stream: StreamId,
    },
    /// Data past the stream's limit.
    #[error("stream {stream}: data up to offset {end} passes the stream's limit of {limit}")]
    StreamFlowControl {
        /// The stream.
        stream: StreamId,
        /// The offset behind the frame's last byte, or the final size.
        end: u64,
        /// The limit this side announced.
        limit: u64,
    },
    /// Data past the connection's limit.
    #[error("stream {stream}: {total} bytes in all pass the connection's limit of {limit}")]
    ConnectionFlowControl {
        /// The stream whose frame did it.
        stream: StreamId,
        /// The bytes of all streams, with this frame.
        total: u64,
        /// The limit this side announced.
        limit: u64,
    },
    /// Two frames contradict each other about where a stream ends.
    #[error("stream {stream}: it ends at {known}, but a frame says {claimed}")]
    FinalSize {
        /// The stream.
        stream: StreamId,
        /// The final size, or how far data has come, known before.
        known: u64,
        /// What the frame said.
        claimed: u64,
    },
    /// An offset that the wire format can't say.
    #[error("stream {stream}: offset {offset} and {len} bytes pass 2^62 - 1")]
    OffsetOverflow {
        /// The stream.
        stream: StreamId,
        /// The frame's offset.
        offset: u64,
        /// The frame's length.
        len: u64,
    },
}

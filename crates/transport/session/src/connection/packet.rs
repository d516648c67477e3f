//! A packet: what it carries until its fate is known, and what is noted while it is written.
//!
//! Nothing here knows a path, a key or a queue: the types are shared by those who do.

use manyway_wire::Frame;

use crate::streams::StreamRange;

/// Room in a datagram below which no stream data is added: the frame's own header would be most of
/// it.
pub(super) const SMALLEST_CHUNK: usize = 32;

/// What a packet carried that has to arrive; kept by the path's sender until the packet is acked or
/// lost.
#[derive(Clone, Debug, Default)]
pub(super) struct Payload {
    pub(super) epoch: u8,
    /// The packet is larger than every path carries.
    pub(super) large: bool,
    pub(super) stream: Option<StreamRange>,
    /// Further stream ranges, rare enough that the allocation doesn't matter.
    pub(super) more: Vec<StreamRange>,
    pub(super) control: Vec<Frame<'static>>,
}

impl Payload {
    pub(super) fn ranges(&self) -> impl Iterator<Item = &StreamRange> {
        self.stream.iter().chain(&self.more)
    }

    /// Stream bytes in it.
    pub(super) fn stream_bytes(&self) -> u64 {
        self.ranges().map(|range| u64::from(range.len)).sum()
    }

    /// What has to leave again while the packet may yet arrive: from now on, another packet has the
    /// control frames.
    pub(super) fn hand_on(&mut self) -> Self {
        let control = std::mem::take(&mut self.control);
        Self {
            control,
            ..self.clone()
        }
    }

    pub(super) fn push(&mut self, range: StreamRange) {
        if self.stream.is_none() {
            self.stream = Some(range);
        } else {
            self.more.push(range);
        }
    }
}

/// A datagram under construction.
#[derive(Debug, Default)]
pub(super) struct Packet {
    pub(super) payload: Payload,
    pub(super) ack_eliciting: bool,
    pub(super) stream_bytes: u64,
    /// It carries datagrams of the application.
    pub(super) datagrams: bool,
    /// Fill the datagram up: the path has to carry this size.
    pub(super) pad: bool,
    /// It answers a probe timeout or keeps the path alive.
    pub(super) probe: bool,
    /// It is the first to this address.
    pub(super) first_challenge: bool,
    /// It goes to an address under challenge, or asks whether the path carries its size: the path
    /// expects no acknowledgement of it, and its loss says nothing.
    pub(super) aside: bool,
}

impl Packet {
    /// One that the path expects no acknowledgement of.
    pub(super) fn aside() -> Self {
        Self {
            aside: true,
            ..Self::default()
        }
    }

    /// Appends a frame if it ends before `end`; whether it did.
    pub(super) fn push(buf: &mut Vec<u8>, end: usize, frame: &Frame<'_>) -> bool {
        let fits = buf.len() + frame.encoded_len() <= end;
        if fits {
            frame.encode(buf);
        }
        fits
    }
}

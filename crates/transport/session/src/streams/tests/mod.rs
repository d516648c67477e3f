//! Tests of the stream layer as a whole: against a model over a bad network, rule by rule, and with
//! hostile frames.

mod ends;
mod hostile;
mod model;
mod network;
mod rules;
mod shares;

use std::time::Duration;

use bytes::Bytes;
use manyway_units::Time;
use manyway_wire::Frame;

use super::*;

const RTT: Duration = Duration::from_millis(20);

/// Bytes of a STREAM frame beside its `len` bytes of data.
fn overhead(stream: StreamId, offset: u64, len: usize) -> usize {
    let frame = Frame::Stream {
        stream,
        offset,
        fin: false,
        data: &vec![0; len],
    };
    frame.encoded_len() - len
}

/// The byte at an offset of a stream, in the direction from the initiator or from the listener.
fn byte(stream: StreamId, from_initiator: bool, offset: u64) -> u8 {
    let mixed = (offset ^ stream.0 << 40 ^ u64::from(from_initiator) << 60)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 56) as u8
}

fn bytes_of(stream: StreamId, from_initiator: bool, offset: u64, len: u64) -> Vec<u8> {
    (offset..offset + len)
        .map(|at| byte(stream, from_initiator, at))
        .collect()
}

/// An initiator and a listener that know each other's limits.
fn pair(config: StreamsConfig) -> (Streams, Streams) {
    let side = |initiator| {
        let mut streams = Streams::new(StreamsConfig {
            initiator,
            ..config
        });
        let (all, one) = (config.initial_window(), config.initial_stream_window());
        streams.set_peer_limits(all, one, config.max_streams);
        streams
    };
    (side(true), side(false))
}

fn small() -> StreamsConfig {
    StreamsConfig {
        initiator: true,
        initial_receive_window: 4 << 10,
        max_receive_window: 64 << 10,
        window_shares: 1,
        send_buffer: 32 << 10,
        max_streams: 4,
    }
}

fn write(streams: &mut Streams, id: StreamId, data: &[u8]) -> Result<usize, WriteError> {
    streams.write(id, &mut Bytes::copy_from_slice(data))
}

/// Everything the side wants to send, as one flight; nothing is lost, nothing is acked.
fn flush(
    from: &mut Streams,
    to: &mut Streams,
    now: Time,
) -> (Vec<StreamRange>, Vec<Frame<'static>>) {
    let (mut ranges, mut controls) = (vec![], vec![]);
    while let Some(control) = from.poll_control() {
        apply(to, &control).expect("a valid frame");
        controls.push(control);
    }
    while let Some(chunk) = from.next_chunk(1200, true) {
        let StreamRange {
            stream,
            offset,
            fin,
            ..
        } = chunk.range;
        to.on_stream(now, RTT, stream, offset, &chunk.data, fin)
            .expect("a valid frame");
        ranges.push(chunk.range);
    }
    (ranges, controls)
}

fn read_all(streams: &mut Streams, now: Time, id: StreamId) -> Vec<u8> {
    let mut all = vec![];
    while let Ok(Some(data)) = streams.read(now, id, usize::MAX) {
        all.extend_from_slice(&data);
    }
    all
}

fn apply(to: &mut Streams, control: &Frame<'_>) -> Result<(), StreamsError> {
    match *control {
        Frame::MaxData { max } => to.on_max_data(max),
        Frame::MaxStreams { kind, count } => to.on_max_streams(kind, count),
        Frame::MaxStreamData { stream, max } => to.on_max_stream_data(stream, max)?,
        Frame::ResetStream {
            stream,
            code,
            final_size,
        } => to.on_reset(stream, code, final_size)?,
        Frame::StopSending { stream, code } => to.on_stop(stream, code)?,
        ref other => unreachable!("{other:?} is no frame of the streams"),
    }
    Ok(())
}

fn ack(streams: &mut Streams, flight: (Vec<StreamRange>, Vec<Frame<'static>>)) {
    flight.0.iter().for_each(|range| streams.on_acked(range));
    flight
        .1
        .iter()
        .for_each(|control| streams.on_control_acked(control));
}

fn events(streams: &mut Streams) -> Vec<StreamEvent> {
    std::iter::from_fn(|| streams.poll_event()).collect()
}

impl Streams {
    /// Bytes allocated for received data.
    fn allocated(&self) -> usize {
        self.streams.values().map(|s| s.recv.allocated()).sum()
    }

    /// Checks sums and queues against the streams themselves.
    fn check_books(&self) {
        let sum = |f: fn(&super::send::SendHalf) -> u64| -> u64 {
            self.streams.values().map(|s| f(&s.send)).sum()
        };
        assert_eq!(self.ledger.unsent, sum(|s| s.unsent()));
        assert_eq!(self.ledger.lost, sum(|s| s.lost()));
        assert_eq!(self.ledger.unacked, sum(|s| s.unacked()));
        assert_eq!(self.ledger.buffered, sum(|s| s.buffered()));
        let any = |f: fn(&super::send::SendHalf) -> bool| self.streams.values().any(|s| f(&s.send));
        assert_eq!(!self.ledger.resend.is_empty(), any(|s| s.wants_resend()));
        let fresh = self.ledger.has_fresh();
        assert_eq!(fresh, any(|s| s.sendable() > 0));
        let promised: u64 = self.streams.values().map(|s| s.recv.promised()).sum();
        assert_eq!(self.ledger.promised, promised);
        let unread: u64 = self.streams.values().map(|s| s.recv.unread()).sum();
        assert_eq!(
            self.received,
            self.window.consumed() + unread,
            "credit leaks"
        );
        let share = (64 << 10).min(self.config.send_buffer / 8);
        assert!(
            self.ledger.buffered <= self.config.send_buffer + share * self.streams.len() as u64
        );
        let blocks = 2 * 65536 * self.streams.len() as u64;
        let most = (self.window.size() + blocks) * 9 / 8;
        assert!(
            self.allocated() as u64 <= most,
            "{} bytes held, {most} allowed",
            self.allocated()
        );
        assert_eq!(self.ledger.received, self.allocated());
        assert!(self.window.size() <= self.config.max_receive_window);
    }
}

//! The application on a host: bulk sources and a sink that checks what arrives.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use manyway_session::streams::{ReadError, StreamEvent, WriteError};
use manyway_session::{CloseReason, Connection, ConnectionHandle, Endpoint, Event, StreamId};
use manyway_units::Time;

use super::pattern;
use crate::measure::Goodput;

/// What a host's application does with each of its connections.
#[derive(Debug, Clone)]
pub struct TrafficConfig {
    /// A stream for each is opened as soon as the connection is established; with none, the
    /// application only reads.
    pub sources: Vec<Source>,
    /// What the streams carry, both those that are sent and those that are read.
    pub content: Content,
    /// Length of the intervals by which arrivals are counted.
    pub interval: Duration,
}

/// A bulk source: writes whenever there is room.
#[derive(Debug, Copy, Clone, Default)]
pub struct Source {
    /// Bytes until the stream is finished; `None` for a source that never ends.
    pub bytes: Option<u64>,
}

/// What a stream carries.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub enum Content {
    /// [`pattern::fill`]; what is read is compared byte by byte.
    Pattern,
    /// Zeros; what is read is only counted.
    Zeros,
}

impl Default for TrafficConfig {
    fn default() -> Self {
        Self {
            sources: Vec::new(),
            content: Content::Pattern,
            interval: Duration::from_millis(100),
        }
    }
}

/// The application of a host: bulk sources, a sink for whatever the peer sends, and a record of
/// both.
#[derive(Debug)]
pub struct Traffic {
    config: TrafficConfig,
    connection: Option<ConnectionHandle>,
    connected: Option<Time>,
    closed: Option<(Time, CloseReason)>,
    log: Vec<(Time, Event)>,
    /// Streams that we opened; the peer only ends its side of them.
    own: BTreeSet<(ConnectionHandle, StreamId)>,
    sending: BTreeMap<(ConnectionHandle, StreamId), Sending>,
    received: BTreeMap<(ConnectionHandle, StreamId), Received>,
    /// Streams with something to read while the application doesn't.
    unread: Option<BTreeSet<(ConnectionHandle, StreamId)>>,
    finished: Vec<(Time, StreamId)>,
    goodput: Goodput,
}

#[derive(Debug)]
struct Sending {
    /// Bytes handed to the stream so far.
    offset: u64,
    end: Option<u64>,
    /// Made, but not taken yet.
    pending: Bytes,
}

/// What was read from one stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Received {
    /// Bytes read, in order.
    pub bytes: u64,
    /// When the stream's end was read.
    pub ended: Option<Time>,
    /// The offset of the first byte that wasn't what it should be.
    pub mismatch: Option<u64>,
    /// The code with which the peer gave the stream up.
    pub reset: Option<u64>,
}

/// Bytes written and read at a time.
const CHUNK: usize = 64 << 10;

impl Traffic {
    pub(super) fn new(config: TrafficConfig) -> Self {
        Self {
            goodput: Goodput::new(config.interval),
            config,
            connection: None,
            connected: None,
            closed: None,
            log: Vec::new(),
            own: BTreeSet::new(),
            sending: BTreeMap::new(),
            received: BTreeMap::new(),
            unread: None,
            finished: Vec::new(),
        }
    }

    /// The connection that was established first.
    pub fn connection(&self) -> Option<ConnectionHandle> {
        self.connection
    }

    /// When the first connection was established.
    pub fn connected(&self) -> Option<Time> {
        self.connected
    }

    /// When and why a connection ended last.
    pub fn closed(&self) -> Option<&(Time, CloseReason)> {
        self.closed.as_ref()
    }

    /// Every event but those of streams.
    pub fn log(&self) -> &[(Time, Event)] {
        &self.log
    }

    /// What was read, by stream that the peer opened, in the order of connections and stream ids.
    pub fn received(&self) -> impl ExactSizeIterator<Item = &Received> {
        self.received.values()
    }

    /// When which of our streams was wholly acknowledged.
    pub fn finished(&self) -> &[(Time, StreamId)] {
        &self.finished
    }

    /// Bytes read, over all streams, by interval of time.
    pub fn goodput(&self) -> &Goodput {
        &self.goodput
    }

    pub(super) fn set_reading(&mut self, now: Time, endpoint: &mut Endpoint, reading: bool) {
        if !reading {
            self.unread.get_or_insert_default();
            return;
        }
        for (handle, stream) in self.unread.take().unwrap_or_default() {
            if let Some(connection) = endpoint.connection(handle) {
                self.read(now, handle, connection, stream);
            }
        }
    }

    pub(super) fn on_event(
        &mut self,
        now: Time,
        endpoint: &mut Endpoint,
        handle: ConnectionHandle,
        event: Event,
    ) {
        let stream_event = match event {
            Event::Stream(event) => event,
            event => {
                self.note(now, handle, &event);
                let connected = event == Event::Connected;
                self.log.push((now, event));
                if let Some(connection) = endpoint.connection(handle).filter(|_| connected) {
                    self.start_sources(handle, connection);
                }
                return;
            }
        };
        let Some(connection) = endpoint.connection(handle) else {
            return;
        };
        match stream_event {
            StreamEvent::Opened => {
                while let Some(stream) = connection.accept() {
                    self.read(now, handle, connection, stream);
                }
            }
            StreamEvent::Readable(stream) => self.read(now, handle, connection, stream),
            StreamEvent::Writable(stream) => self.write(handle, connection, stream),
            StreamEvent::Finished(stream) => self.finished.push((now, stream)),
            StreamEvent::Stopped { id, .. } => drop(self.sending.remove(&(handle, id))),
            StreamEvent::Available => {}
        }
    }

    fn note(&mut self, now: Time, handle: ConnectionHandle, event: &Event) {
        match event {
            Event::Connected => {
                self.connection.get_or_insert(handle);
                self.connected.get_or_insert(now);
            }
            Event::Closed(reason) => self.closed = Some((now, reason.clone())),
            _ => {}
        }
    }

    fn start_sources(&mut self, handle: ConnectionHandle, connection: &mut Connection) {
        for source in self.config.sources.clone() {
            let Ok(stream) = connection.open() else {
                return;
            };
            let sending = Sending {
                offset: 0,
                end: source.bytes,
                pending: Bytes::new(),
            };
            self.own.insert((handle, stream));
            self.sending.insert((handle, stream), sending);
            self.write(handle, connection, stream);
        }
    }

    fn write(&mut self, handle: ConnectionHandle, connection: &mut Connection, stream: StreamId) {
        let Some(sending) = self.sending.get_mut(&(handle, stream)) else {
            return;
        };
        loop {
            if sending.pending.is_empty() {
                sending.pending = sending.next(self.config.content, stream);
                if sending.pending.is_empty() {
                    // Our last word; a stream that is over by now needs none.
                    let _ = connection.finish(stream);
                    self.sending.remove(&(handle, stream));
                    return;
                }
            }
            match connection.write(stream, &mut sending.pending) {
                Ok(taken) => sending.offset += taken as u64,
                Err(WriteError::Blocked) => return,
                Err(_) => {
                    self.sending.remove(&(handle, stream));
                    return;
                }
            }
        }
    }

    fn read(
        &mut self,
        now: Time,
        handle: ConnectionHandle,
        connection: &mut Connection,
        stream: StreamId,
    ) {
        if let Some(unread) = &mut self.unread {
            unread.insert((handle, stream));
            return;
        }
        if self.own.contains(&(handle, stream)) {
            // Its end is to be read, or the stream stays.
            while matches!(connection.read(now, stream, CHUNK), Ok(Some(_))) {}
            return;
        }
        let received = self.received.entry((handle, stream)).or_default();
        loop {
            match connection.read(now, stream, CHUNK) {
                Ok(Some(data)) => {
                    if self.config.content == Content::Pattern && received.mismatch.is_none() {
                        received.mismatch =
                            pattern::first_mismatch(stream.0, received.bytes, &data);
                    }
                    received.bytes += data.len() as u64;
                    self.goodput.record(now, data.len() as u64);
                }
                Ok(None) => {
                    received.ended = Some(now);
                    // The other direction has nothing to say; its end lets the stream go.
                    let _ = connection.finish(stream);
                    return;
                }
                Err(ReadError::Reset(code)) => {
                    received.reset = Some(code);
                    return;
                }
                Err(ReadError::Blocked | ReadError::Closed) => return,
            }
        }
    }
}

impl Sending {
    /// The next bytes to write; none at the end.
    fn next(&self, content: Content, stream: StreamId) -> Bytes {
        static ZEROS: [u8; CHUNK] = [0; CHUNK];
        let left = self
            .end
            .map_or(u64::MAX, |end| end.saturating_sub(self.offset));
        let len = left.min(CHUNK as u64) as usize;
        match content {
            Content::Zeros => Bytes::from_static(&ZEROS[..len]),
            Content::Pattern => {
                let mut chunk = vec![0; len];
                pattern::fill(stream.0, self.offset, &mut chunk);
                chunk.into()
            }
        }
    }
}

//! The application on a host: bulk sources and a sink that checks what arrives.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use manyway_session::streams::{ReadError, StreamEvent, WriteError};
use manyway_session::{CloseReason, Connection, ConnectionHandle, Endpoint, Event, StreamId};
use manyway_units::{Rate, Time};

use super::files::{FileTransfer, Files};
use super::pattern::{self, PIECE};
use crate::draw::Repeats;
use crate::measure::Goodput;

/// What a host's application does with each of its connections.
#[derive(Debug, Clone)]
pub struct TrafficConfig {
    /// A stream for each is opened as soon as the connection is established; with none, the
    /// application only reads.
    pub sources: Vec<Source>,
    /// What it does about transfers of files, in place of bare streams.
    pub files: Option<FileTraffic>,
    /// How fast each source has data; `None` for at once.
    pub pace: Option<Pace>,
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

/// A side of a transfer of files.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub enum FileTraffic {
    /// It sends these, as soon as the connection is established.
    Send(Files),
    /// It takes what comes.
    Receive,
}

/// The rate at which an application produces what it sends.
#[derive(Debug, Copy, Clone, PartialEq)]
pub struct Pace {
    /// Bytes of data over time.
    pub rate: Rate,
    /// Bytes that it writes at a time; at least 1.
    pub piece: u64,
}

/// What a stream carries.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub enum Content {
    /// Bytes that depend on stream and position; what is read is compared byte by byte.
    Pattern,
    /// Zeros; what is read is only counted.
    Zeros,
}

impl Default for TrafficConfig {
    fn default() -> Self {
        Self {
            sources: Vec::new(),
            files: None,
            pace: None,
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
    transfers: BTreeMap<(ConnectionHandle, StreamId), Transfer>,
    received: BTreeMap<(ConnectionHandle, StreamId), Received>,
    /// Streams with something to read while the application doesn't.
    unread: Option<BTreeSet<(ConnectionHandle, StreamId)>>,
    finished: Vec<(Time, StreamId)>,
    /// What comes after a source's stream is over.
    repeats: Option<Repeats>,
    /// Sources that begin after a pause: when, on which connection, and their bytes.
    resting: BTreeSet<(Time, ConnectionHandle, u64)>,
    resumed: Vec<(Time, u64)>,
    /// The first stream of which something else was read than what was sent.
    faulty: Option<(ConnectionHandle, StreamId)>,
    goodput: Goodput,
}

/// A transfer of files over a stream.
#[derive(Debug)]
struct Transfer {
    files: FileTransfer,
    /// Made, but not taken yet.
    pending: Bytes,
}

#[derive(Debug)]
struct Sending {
    /// Bytes handed to the stream so far.
    offset: u64,
    end: Option<u64>,
    /// Made, but not taken yet.
    pending: Bytes,
    /// When it began.
    since: Time,
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
    /// What is wrong with what arrived of a transfer of files.
    pub failure: Option<String>,
}

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
            transfers: BTreeMap::new(),
            received: BTreeMap::new(),
            unread: None,
            finished: Vec::new(),
            repeats: None,
            resting: BTreeSet::new(),
            resumed: Vec::new(),
            faulty: None,
        }
    }

    /// After each of its transfers, a source pauses, then makes another one over a new stream.
    pub(super) fn repeat(&mut self, repeats: Repeats) {
        self.repeats = Some(repeats);
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

    /// When sources began again after a pause, and with how many bytes.
    pub fn resumed(&self) -> &[(Time, u64)] {
        &self.resumed
    }

    /// The first stream of which something else was read than what was sent.
    pub fn faulty(&self) -> Option<&Received> {
        self.received.get(&self.faulty?)
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

    /// When an application that takes its time has more to write, or a pause is over.
    pub(super) fn timeout(&self) -> Option<Time> {
        let pace = self.config.pace.as_ref();
        let sending = pace.map(|pace| self.sending.values().filter_map(|s| s.more_at(pace)));
        let rested = self.resting.first().map(|(at, ..)| *at);
        sending.into_iter().flatten().chain(rested).min()
    }

    /// Writes what was made by now, and goes on after pauses.
    pub(super) fn on_timeout(&mut self, now: Time, endpoint: &mut Endpoint) {
        while let Some(&next @ (at, handle, bytes)) = self.resting.first()
            && at <= now
        {
            self.resting.remove(&next);
            if let Some(connection) = endpoint.connection(handle) {
                self.resumed.push((now, bytes));
                let bytes = Some(bytes);
                self.start_source(now, handle, connection, Source { bytes });
            }
        }
        let Some(pace) = self.config.pace else {
            return;
        };
        let due = self.sending.iter();
        let due = due.filter(|(_, sending)| sending.more_at(&pace).is_some_and(|at| at <= now));
        let due: Vec<_> = due.map(|(key, _)| *key).collect();
        for (handle, stream) in due {
            match endpoint.connection(handle) {
                Some(connection) => self.write(now, handle, connection, stream),
                None => drop(self.sending.remove(&(handle, stream))),
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
                    self.start_sources(now, handle, connection);
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
                    if self.config.files == Some(FileTraffic::Receive) {
                        let files = FileTransfer::receiver();
                        self.start_transfer(handle, connection, stream, files);
                    }
                    self.read(now, handle, connection, stream);
                }
            }
            StreamEvent::Readable(stream) => self.read(now, handle, connection, stream),
            StreamEvent::Writable(stream) => self.write(now, handle, connection, stream),
            StreamEvent::Finished(stream) => {
                if !self.transfers.contains_key(&(handle, stream)) {
                    self.finished.push((now, stream));
                    if let Some(repeats) = &mut self.repeats {
                        let (pause, bytes) = repeats.draw();
                        self.resting.insert((now + pause, handle, bytes));
                    }
                }
            }
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

    fn start_sources(&mut self, now: Time, handle: ConnectionHandle, connection: &mut Connection) {
        if let Some(FileTraffic::Send(files)) = self.config.files
            && let Ok(stream) = connection.open()
        {
            self.start_transfer(handle, connection, stream, FileTransfer::sender(files));
        }
        for source in self.config.sources.clone() {
            self.start_source(now, handle, connection, source);
        }
    }

    fn start_source(
        &mut self,
        now: Time,
        handle: ConnectionHandle,
        connection: &mut Connection,
        source: Source,
    ) {
        let Ok(stream) = connection.open() else {
            return;
        };
        let sending = Sending {
            offset: 0,
            end: source.bytes,
            pending: Bytes::new(),
            since: now,
        };
        self.own.insert((handle, stream));
        self.sending.insert((handle, stream), sending);
        self.write(now, handle, connection, stream);
    }

    fn start_transfer(
        &mut self,
        handle: ConnectionHandle,
        connection: &mut Connection,
        stream: StreamId,
        files: FileTransfer,
    ) {
        let transfer = Transfer {
            files,
            pending: Bytes::new(),
        };
        let transfer = self.transfers.entry((handle, stream)).or_insert(transfer);
        transfer.write(connection, stream);
    }

    /// Reads what a transfer's other side says, and answers.
    fn read_transfer(
        &mut self,
        now: Time,
        handle: ConnectionHandle,
        connection: &mut Connection,
        stream: StreamId,
    ) {
        let Some(transfer) = self.transfers.get_mut(&(handle, stream)) else {
            return;
        };
        let received = self.received.entry((handle, stream)).or_default();
        while let Ok(Some(data)) = connection.read(now, stream, PIECE) {
            if let Err(problem) = transfer.files.take(now, &data) {
                received.failure.get_or_insert(problem);
                self.faulty.get_or_insert((handle, stream));
                return;
            }
        }
        let fresh = transfer.files.received() - received.bytes;
        received.bytes += fresh;
        self.goodput.record(now, fresh);
        if transfer.files.is_done() && received.ended.is_none() {
            received.ended = Some(now);
            self.finished.push((now, stream));
        }
        transfer.write(connection, stream);
    }

    fn write(
        &mut self,
        now: Time,
        handle: ConnectionHandle,
        connection: &mut Connection,
        stream: StreamId,
    ) {
        if let Some(transfer) = self.transfers.get_mut(&(handle, stream)) {
            return transfer.write(connection, stream);
        }
        let Some(sending) = self.sending.get_mut(&(handle, stream)) else {
            return;
        };
        loop {
            if sending.pending.is_empty() {
                sending.pending = sending.next(now, &self.config, stream);
                if sending.pending.is_empty() {
                    if sending.end != Some(sending.offset) {
                        // The application has no more yet.
                        return;
                    }
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
        if self.transfers.contains_key(&(handle, stream)) {
            return self.read_transfer(now, handle, connection, stream);
        }
        if self.own.contains(&(handle, stream)) {
            // Its end is to be read, or the stream stays.
            while matches!(connection.read(now, stream, PIECE), Ok(Some(_))) {}
            return;
        }
        let received = self.received.entry((handle, stream)).or_default();
        loop {
            match connection.read(now, stream, PIECE) {
                Ok(Some(data)) => {
                    if self.config.content == Content::Pattern && received.mismatch.is_none() {
                        received.mismatch =
                            pattern::first_mismatch(stream.0, received.bytes, &data);
                        if received.mismatch.is_some() {
                            self.faulty.get_or_insert((handle, stream));
                        }
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

impl Transfer {
    /// Writes as much as the stream takes.
    fn write(&mut self, connection: &mut Connection, stream: StreamId) {
        loop {
            if self.pending.is_empty() {
                self.pending = self.files.next();
            }
            if self.pending.is_empty() || connection.write(stream, &mut self.pending).is_err() {
                return;
            }
        }
    }
}

impl Sending {
    /// The next bytes to write; none at the end, or if there are none yet.
    fn next(&self, now: Time, config: &TrafficConfig, stream: StreamId) -> Bytes {
        static ZEROS: [u8; PIECE] = [0; PIECE];
        let end = self.end.unwrap_or(u64::MAX);
        let made = config
            .pace
            .map_or(u64::MAX, |pace| pace.made(now.since(self.since)));
        let left = made.min(end).saturating_sub(self.offset);
        let len = left.min(PIECE as u64) as usize;
        Bytes::from_static(match config.content {
            Content::Zeros => &ZEROS[..len],
            Content::Pattern => pattern::piece(stream.0, self.offset, len),
        })
    }

    /// When the application has more to write; `None` while the stream takes nothing.
    fn more_at(&self, pace: &Pace) -> Option<Time> {
        let at = self.since + pace.takes(self.offset);
        self.pending.is_empty().then_some(at)
    }
}

impl Pace {
    /// Bytes made in so much time: the first piece is there at once.
    fn made(&self, elapsed: Duration) -> u64 {
        let pieces = elapsed.as_nanos() as f64 / self.piece_nanos();
        (pieces as u64 + 1).saturating_mul(self.piece.max(1))
    }

    /// How long it takes until more than so many bytes are made.
    fn takes(&self, bytes: u64) -> Duration {
        let pieces = bytes / self.piece.max(1);
        let nanos = (pieces as f64 * self.piece_nanos()).ceil() as u64;
        let takes = Duration::from_nanos(nanos);
        // Both round: what is due must be there.
        match self.made(takes) > bytes {
            true => takes,
            false => takes + Duration::from_nanos(1),
        }
    }

    fn piece_nanos(&self) -> f64 {
        self.piece.max(1) as f64 * 1e9 / self.rate.bytes_per_sec().max(1e-3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_is_kept_piece_by_piece() {
        // 1 MB/s in pieces of 1000 bytes: one every ms.
        let pace = Pace {
            rate: Rate::from_mbps(8.0),
            piece: 1000,
        };
        let ms = Duration::from_millis;
        assert_eq!(pace.made(ms(0)), 1000);
        assert_eq!(pace.made(ms(5) - Duration::from_nanos(1)), 5000);
        assert_eq!(pace.made(ms(5)), 6000);
        assert_eq!(pace.takes(5999), ms(5));
        assert_eq!(pace.takes(6000), ms(6));
        // At any rate there is more when it says so.
        for mbps in [0.001, 0.3, 7.7, 1e5] {
            let pace = Pace {
                rate: Rate::from_mbps(mbps),
                piece: 1434,
            };
            for bytes in [0, 1, 1434, 10_000_007] {
                assert!(pace.made(pace.takes(bytes)) > bytes);
            }
        }
    }
}

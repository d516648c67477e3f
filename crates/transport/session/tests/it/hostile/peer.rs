//! A peer with a valid ticket that says whatever it likes, against an endpoint of ours.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use manyway_session::crypto::{KeyLimits, Opener, Sealer, Suite};
use manyway_session::handshake::{Established, Initiator, InitiatorConfig};
use manyway_session::{PathId, Ticket};
use manyway_units::Time;
use manyway_wire::{
    AckInfo, ConnectionId, DATA_HEADER_LEN, DataHeader, Frame, Frames, TransportParameters,
    encode_ack,
};
use rand::rngs::ChaCha20Rng;
use rand::{RngExt, SeedableRng};

/// Room for frames in a datagram of 1200 bytes.
pub(crate) const ROOM: usize = 1200 - DATA_HEADER_LEN - manyway_wire::TAG_LEN;

/// Where a peer's datagrams go.
pub(crate) trait Target {
    fn take(&mut self, from: SocketAddr, data: Vec<u8>);
}

/// The other side of one connection.
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    sealer: Sealer,
    opener: Opener,
    /// The victim's connection ids, by path.
    pub(crate) cids: BTreeMap<PathId, ConnectionId>,
    next: BTreeMap<PathId, u64>,
    /// Packets that came, by path: ranges, ascending.
    heard: BTreeMap<PathId, Vec<RangeInclusive<u64>>>,
    /// The path of each of our own connection ids.
    ours: BTreeMap<ConnectionId, PathId>,
    /// Bytes sent, and received.
    pub(crate) sent: u64,
    pub(crate) received: u64,
    /// The code and the words of a CLOSE that came.
    pub(crate) closed: Option<(u64, String)>,
}

impl Peer {
    pub(crate) fn new(address: SocketAddr, established: Established) -> Self {
        let Established {
            sealer,
            opener,
            local_cid,
            remote_cid,
            ..
        } = established;
        Self {
            address,
            sealer,
            opener,
            cids: BTreeMap::from([(PathId(0), remote_cid)]),
            next: BTreeMap::new(),
            heard: BTreeMap::new(),
            ours: BTreeMap::from([(local_cid, PathId(0))]),
            sent: 0,
            received: 0,
            closed: None,
        }
    }

    /// One datagram with these frames, on path 0.
    pub(crate) fn say(&mut self, target: &mut impl Target, frames: &[Frame<'_>]) {
        self.say_on(target, PathId(0), frames);
    }

    /// One datagram with these frames on a path.
    pub(crate) fn say_on(&mut self, target: &mut impl Target, path: PathId, frames: &[Frame<'_>]) {
        let mut plain = Vec::new();
        frames.iter().for_each(|frame| frame.encode(&mut plain));
        self.send(target, path, &plain);
    }

    /// One datagram with this plaintext on a path.
    pub(crate) fn send(&mut self, target: &mut impl Target, path: PathId, plain: &[u8]) {
        if let Some(datagram) = self.seal(path, plain) {
            self.sent += datagram.len() as u64;
            target.take(self.address, datagram);
        }
    }

    /// A datagram with this plaintext on a path, if the victim has given out its id.
    pub(crate) fn seal(&mut self, path: PathId, plain: &[u8]) -> Option<Vec<u8>> {
        let &cid = self.cids.get(&path)?;
        let number = self.next.entry(path).or_default();
        let header = DataHeader {
            cid,
            epoch: self.sealer.epoch(),
            pn_low: *number as u32,
        };
        let mut datagram = header.to_bytes().to_vec();
        datagram.extend_from_slice(plain);
        self.sealer
            .seal(path.0, *number, &mut datagram, 0, DATA_HEADER_LEN)
            .expect("within the limits");
        *number += 1;
        Some(datagram)
    }

    /// Our own id for a path has been announced.
    pub(crate) fn issue(&mut self, path: PathId, cid: ConnectionId) {
        self.ours.insert(cid, path);
    }

    /// Whether a datagram is for this connection.
    pub(crate) fn owns(&self, datagram: &[u8]) -> bool {
        DataHeader::decode(datagram).is_ok_and(|header| self.ours.contains_key(&header.cid))
    }

    /// The next packet on a path has a number so far above the last.
    pub(crate) fn skip(&mut self, path: PathId, numbers: u64) {
        *self.next.entry(path).or_default() += numbers;
    }

    /// Hears a datagram and answers nothing.
    pub(crate) fn overhear(&mut self, now: Time, mut datagram: Vec<u8>) {
        self.open(now, &mut datagram, &mut Vec::new());
    }

    /// Says that everything has arrived that did.
    pub(crate) fn acknowledge(&mut self, target: &mut impl Target) {
        for (path, ranges) in self.heard.clone() {
            self.claim(target, path, ranges.into_iter().rev());
        }
    }

    /// Says that these packets have arrived, newest first.
    pub(crate) fn claim(
        &mut self,
        target: &mut impl Target,
        path: PathId,
        ranges: impl Iterator<Item = RangeInclusive<u64>> + Clone,
    ) {
        let mut plain = Vec::new();
        let info = AckInfo {
            path,
            delay_us: 0,
            receive_time_us: 0,
            ecn: None,
        };
        encode_ack(&mut plain, &info, ranges, ROOM);
        self.send(target, PathId(0), &plain);
    }

    /// The newest packet that came on a path.
    pub(crate) fn largest(&self, path: PathId) -> Option<u64> {
        self.heard.get(&path)?.last().map(|range| *range.end())
    }

    pub(crate) fn note(&mut self, path: PathId, number: u64) {
        let ranges = self.heard.entry(path).or_default();
        match ranges.last_mut() {
            Some(last) if last.end() + 1 == number => *last = *last.start()..=number,
            _ => ranges.push(number..=number),
        }
        // As many as an honest receiver reports.
        let surplus = ranges.len().saturating_sub(32);
        ranges.drain(..surplus);
    }

    /// Opens a datagram; challenges in it are added to the others.
    pub(crate) fn open(
        &mut self,
        now: Time,
        datagram: &mut [u8],
        answers: &mut Vec<(PathId, [u8; 8])>,
    ) {
        let Ok(header) = DataHeader::decode(datagram) else {
            return;
        };
        let path = self.ours.get(&header.cid).copied().unwrap_or(PathId(0));
        let largest = self.largest(path);
        let number = manyway_wire::expand_pn(header.pn_low, largest);
        let second = Duration::from_secs(1);
        let opened = self.opener.open(
            now,
            second,
            path.0,
            number,
            header.epoch,
            datagram,
            DATA_HEADER_LEN,
        );
        let Ok(plain) = opened else {
            return;
        };
        self.note(path, number);
        for frame in Frames::new(plain).map_while(Result::ok) {
            match frame {
                Frame::PathId { path, cid } => {
                    self.cids.insert(path, cid);
                }
                Frame::PathChallenge { data } => answers.push((path, data)),
                Frame::Close { code, reason } => self.closed = Some((code, reason.to_owned())),
                _ => {}
            }
        }
    }
}

/// The first step of a handshake.
pub(crate) fn initiator(ticket: &Ticket, seed: u64) -> Initiator {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let cid = ConnectionId(rng.random());
    let config = InitiatorConfig {
        ticket,
        identity: None,
        params: params(cid),
        suite: Suite::default(),
        limits: KeyLimits::default(),
    };
    Initiator::new(config, &mut rng).expect("a sound ticket")
}

thread_local! {
    /// After so many milliseconds of silence, peers of this thread say that they are gone.
    pub(crate) static MAX_IDLE_MS: Cell<u64> = const { Cell::new(30_000) };
}

pub(crate) fn params(cid: ConnectionId) -> TransportParameters {
    TransportParameters {
        max_idle_ms: MAX_IDLE_MS.get(),
        initial_max_data: 1 << 40,
        initial_max_stream_data: 1 << 40,
        initial_max_streams: 1 << 20,
        max_paths: 1 << 20,
        max_datagram: 8952,
        ..TransportParameters::new(cid)
    }
}

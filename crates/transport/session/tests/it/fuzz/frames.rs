//! Every frame there is, with any contents.

use std::net::SocketAddr;

use manyway_session::{PathId, RelayId, StreamId};
use manyway_wire::relay::{Consent, ForwardHeader, Grant, MAC_LEN, Mac, RateClass};
use manyway_wire::{AckInfo, ConnectionId, EcnCounts, Frame, StreamKind, encode_ack};

use super::super::hostile::peer::Peer;
use super::choices::Choices;

/// What a datagram is to be full of: a kind of frame, whose numbers grow from one to the next.
#[derive(Copy, Clone, Debug)]
pub(super) struct Recipe {
    kind: usize,
    a: u64,
    b: u64,
    /// By how much the numbers grow.
    step: (u64, u64),
    len: usize,
    extra: u8,
}

/// The kind that is stream data.
const STREAM: usize = 0;
const KINDS: usize = 20;

/// Stream data: there are four versions of every byte.
fn content(stream: StreamId, offset: u64, version: u8) -> u8 {
    (offset.wrapping_mul(7).wrapping_add(stream.0) as u8) ^ (offset / 251) as u8 ^ (version & 3)
}

/// Addresses that somebody may name: those of others, private ones, and our own.
fn named(n: u64) -> SocketAddr {
    let [.., high, low] = n.to_be_bytes();
    match n % 5 {
        0 | 1 => SocketAddr::from(([203, 0, high, low], 53)),
        2 => SocketAddr::from(([10, 0, high, low], 53)),
        3 => SocketAddr::from(([198, 51, 100, low % 4], 4433)),
        _ => SocketAddr::from(([127, 0, 0, low], 53)),
    }
}

impl Recipe {
    pub(super) fn choose(choices: &mut Choices<'_>) -> Self {
        let kind = choices.below(KINDS);
        let (a, b) = (choices.number(), choices.number());
        let steps = choices.byte();
        let len = usize::from(choices.byte()) * 4;
        Self {
            kind,
            a,
            b,
            step: (u64::from(steps & 7), u64::from(steps >> 3)),
            len,
            extra: choices.byte(),
        }
    }

    /// The next frame's numbers.
    pub(super) fn advance(&mut self) {
        self.a = self.a.saturating_add(self.step.0);
        let data = if self.kind == STREAM { self.len } else { 0 };
        self.b = self.b.saturating_add(self.step.1 + data as u64);
    }

    /// Writes one frame. What the peer has to know of it, it is told.
    pub(super) fn write(&self, plain: &mut Vec<u8>, peer: &mut Peer) {
        let (a, b, extra) = (self.a, self.b, self.extra);
        let path = PathId(a as u32);
        let data: Vec<u8>;
        let frame = match self.kind {
            STREAM => {
                let stream = StreamId(a);
                let end = b.saturating_add(self.len as u64);
                data = (b..end).map(|at| content(stream, at, extra)).collect();
                Frame::Stream {
                    stream,
                    offset: b,
                    fin: extra & 8 > 0,
                    data: &data,
                }
            }
            1 => Frame::PathResponse { data: [extra; 8] },
            2 => Frame::Ping,
            3 if extra & 1 > 0 => {
                data = vec![extra; self.len];
                Frame::Datagram { data: &data }
            }
            3 => Frame::Filler,
            4 => Frame::Padding { len: self.len + 1 },
            5 => Frame::ResetStream {
                stream: StreamId(a),
                code: extra.into(),
                final_size: b,
            },
            6 => Frame::StopSending {
                stream: StreamId(a),
                code: b,
            },
            7 => Frame::MaxData { max: b },
            8 => Frame::MaxStreamData {
                stream: StreamId(a),
                max: b,
            },
            9 => Frame::MaxStreams {
                kind: StreamKind::ALL[(a % 2) as usize],
                count: b,
            },
            10 => Frame::PathChallenge {
                data: a.to_be_bytes(),
            },
            11 => {
                let cid = ConnectionId((a << 8 | b & 0xff).to_be_bytes());
                peer.issue(path, cid);
                Frame::PathId { path, cid }
            }
            12 => Frame::PathAbandon { path, code: b },
            13 => Frame::Addresses {
                seq: a,
                addresses: (0..self.len as u64 / 16).map(|n| named(b + n)).collect(),
            },
            14 => Frame::Relay {
                slot: a as u16 % 256,
                seq: b,
                relay: (extra > 0).then(|| (named(b), RelayId([extra; 32]))),
            },
            15 => Frame::Consent {
                slot: a as u16 % 256,
                seq: b,
                consent: Consent {
                    key: extra,
                    issued: a as u32,
                    address: named(b),
                    mac: Mac([extra; MAC_LEN]),
                },
            },
            16 => Frame::Grant {
                path,
                seq: b,
                grant: Grant::from(ForwardHeader {
                    key: extra,
                    class: RateClass::new(extra % 8).unwrap_or_default(),
                    expires: a as u32,
                    tag: [extra; 8],
                    destination: named(b),
                    check: [extra; 4],
                    mac: Mac([extra; MAC_LEN]),
                }),
            },
            17 => return self.acknowledge(plain, peer),
            18 => Frame::Close {
                code: a,
                reason: "so\nit \u{202e}is",
            },
            // Not a frame at all, or what is left of one.
            _ => return plain.extend_from_slice(&[a as u8, b as u8, extra]),
        };
        frame.encode(plain);
    }

    /// Says that packets have arrived: those up to a little before or behind the newest one that
    /// did, with gaps.
    fn acknowledge(&self, plain: &mut Vec<u8>, peer: &Peer) {
        let path = PathId(self.a as u32);
        let newest = peer.largest(path).unwrap_or(0);
        let largest = (newest + self.b).saturating_sub(u64::from(self.extra & 15));
        let (run, gap) = (self.len as u64 / 4, 2 + self.step.1);
        let ranges = (0..8).map_while(|n: u64| {
            let end = largest.checked_sub(n * (run + gap))?;
            Some(end.saturating_sub(run)..=end)
        });
        let info = AckInfo {
            path,
            delay_us: u64::from(self.extra) << 8,
            receive_time_us: self.b,
            ecn: (self.extra & 16 > 0).then_some(EcnCounts {
                ect0: self.b,
                ect1: 0,
                ce: self.extra.into(),
            }),
        };
        encode_ack(plain, &info, ranges, 512);
    }
}

//! What a peer with a ticket can do that costs most.

use std::net::SocketAddr;

use manyway_session::{PathId, StreamId};
use manyway_wire::Frame;

use super::peer::{Peer, Target};

/// One datagram of the worst kind.
pub(crate) fn worst(kind: u64, n: u64, peer: &mut Peer, target: &mut impl Target) {
    let newest = peer.cids.keys().next_back().map_or(0, |path| path.0);
    match kind {
        // A byte in each place where it costs most, in as many streams as there may be.
        0 => {
            let frames: Vec<_> = (0..100)
                .map(|k| Frame::Stream {
                    stream: StreamId(4 * (k % 2)),
                    offset: (n * 100 + k) * 97 % (2 << 20) / (1 + k % 2),
                    fin: false,
                    data: b"x",
                })
                .collect();
            peer.say(target, &frames);
        }
        // Every path there may be, far ahead in its numbers, and never an answer.
        1 => {
            let path = PathId((n % 255) as u32 + 1);
            peer.skip(path, 60_000);
            peer.say_on(target, path, &[Frame::Ping]);
        }
        // Path ids, used up as fast as they come.
        2 => {
            let abandon = Frame::PathAbandon {
                path: PathId(newest),
                code: 0,
            };
            peer.say(target, &[abandon]);
        }
        // Questions whose answers nobody acknowledges.
        3 => peer.say(
            target,
            &[Frame::PathChallenge {
                data: n.to_be_bytes(),
            }],
        ),
        // Data, in order, that nobody reads.
        4 => {
            let data = [3; 1100];
            let frame = Frame::Stream {
                stream: StreamId(0),
                offset: n * 1100 % (2 << 20),
                fin: false,
                data: &data,
            };
            peer.say(target, &[frame]);
        }
        // Streams that are opened, stopped and reset; ids, addresses and relays.
        5 => {
            let stream = StreamId(4 * (2 + n % 126));
            let code = 1;
            let reset = Frame::ResetStream {
                stream,
                code,
                final_size: 0,
            };
            let relay = Frame::Relay {
                slot: (n % 256) as u16,
                seq: n,
                relay: Some((
                    SocketAddr::from(([203, 0, 113, 7], 1 + (n % 60_000) as u16)),
                    manyway_session::RelayId([n as u8; 32]),
                )),
            };
            let addresses = (0..32)
                .map(|k| SocketAddr::from(([203, 0, 113, 8], 1 + ((n * 32 + k) % 60_000) as u16)))
                .collect();
            let addresses = Frame::Addresses { seq: n, addresses };
            let stop = Frame::StopSending { stream, code };
            peer.say(target, &[stop, reset, relay, addresses, Frame::Ping]);
        }
        _ => peer.say(target, &[Frame::Ping]),
    }
}

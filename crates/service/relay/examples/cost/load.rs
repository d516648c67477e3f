//! Datagrams with genuine grants, and somebody who sends them.

use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use manyway_relay::keys::GrantTerms;
use manyway_relay::server::open_keys;
use manyway_wire::relay::{GRANT_LIFE, Grant, RateClass};
use quinn_udp::{Transmit, UdpSocketState};

/// Bytes of what is forwarded.
const PAYLOAD: usize = 1200;
const SEGMENT: usize = PAYLOAD + 33;
/// Datagrams of a send call.
const BATCH: usize = 53;

/// Datagrams of many flows, one behind the other, and the socket that their grants are for.
pub(crate) struct Load {
    socket: UdpSocket,
    state: UdpSocketState,
    /// Where it all ends: nobody reads, so that the rest of the way costs as little as possible.
    _sink: UdpSocket,
    bytes: Vec<u8>,
}

impl Load {
    /// `flows` flows towards as many addresses, in turns. The relay's keys are those in the
    /// directory.
    pub(crate) fn new(keys: &Path, flows: usize) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let state = UdpSocketState::new((&socket).into()).expect("a socket");
        let sink = UdpSocket::bind("0.0.0.0:0").expect("a socket");
        let (from, port) = (address(&socket), address(&sink).port());
        let keys = open_keys(&keys.join("relay.key")).expect("keys");
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let expires = now.expect("it is after 1970") + GRANT_LIFE;
        // Each flow is an account, so that the sketch of rates works as hard as it can.
        let grant = |flow: usize| {
            let [_, a, b, c] = (flow as u32 + (1 << 16)).to_be_bytes();
            keys.grant(&GrantTerms {
                source: from,
                destination: SocketAddr::from(([127, a, b, c], port)),
                class: RateClass::MAX,
                tag: (flow as u64).to_be_bytes(),
                expires: expires.as_secs() as u32,
            })
        };
        let grants: Vec<Grant> = (0..flows).map(grant).collect();
        // At least one batch.
        let count = flows.max(BATCH).next_multiple_of(BATCH);
        let mut bytes = Vec::with_capacity(count * SEGMENT);
        for at in 0..count {
            bytes.extend_from_slice(grants[at % flows].as_bytes());
            bytes.resize((at + 1) * SEGMENT, 0x40);
        }
        Self {
            socket,
            state,
            _sink: sink,
            bytes,
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Sends all of it over and over.
    pub(crate) fn send(&self, to: SocketAddr, time: Duration) {
        let end = Instant::now() + time;
        for batch in self.bytes.chunks(BATCH * SEGMENT).cycle() {
            let transmit = Transmit {
                destination: to,
                ecn: None,
                contents: batch,
                segment_size: Some(SEGMENT),
                src_ip: None,
            };
            // A full socket is what we want: what is lost on the way in costs the forwarder
            // nothing.
            if self
                .state
                .try_send((&self.socket).into(), &transmit)
                .is_err()
            {
                std::thread::yield_now();
            }
            if Instant::now() >= end {
                return;
            }
        }
    }
}

fn address(socket: &UdpSocket) -> SocketAddr {
    socket.local_addr().expect("it is bound")
}

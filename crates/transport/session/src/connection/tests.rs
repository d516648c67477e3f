//! What no peer brings about, but a connection has to survive.

use std::net::SocketAddr;
use std::sync::Arc;

use manyway_units::Time;
use manyway_wire::Frame;
use rand::SeedableRng;
use rand::rngs::ChaCha20Rng;

use crate::budget::MAX_CONTROL;
use crate::{
    CloseReason, Config, ConnectionHandle, Endpoint, Event, Incoming, Local, LocalId, Secrets,
};

fn address(side: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1 + side as u8], 4433))
}

/// Hands over what both ends send, until nothing is left; what the listener tells.
fn talk(ends: &mut [Endpoint; 2]) -> Vec<(ConnectionHandle, Event)> {
    let (mut buf, mut told, mut quiet) = (Vec::new(), Vec::new(), 0);
    while quiet < 2 {
        quiet += 1;
        for side in 0..2 {
            while ends[side].poll_transmit(Time::ZERO, 1, &mut buf).is_some() {
                quiet = 0;
                let incoming = Incoming {
                    local: LocalId(1),
                    remote: address(side),
                    ecn: None,
                    data: &mut buf,
                };
                ends[1 - side].handle_datagram(Time::ZERO, incoming);
            }
        }
        told.extend(std::iter::from_fn(|| ends[1].poll_event()));
    }
    told
}

#[test]
fn a_peer_that_causes_too_many_control_frames_is_closed() {
    let secrets = Secrets::generate(&mut ChaCha20Rng::from_seed([9; 32]));
    let ticket = secrets.ticket(vec![address(1)]);
    let mut ends = [0, 1].map(|side| {
        let config = Arc::new(Config::default());
        let mut end = Endpoint::new(config, [1 + side as u8; 32]).expect("a valid one");
        let local = Local {
            id: LocalId(1),
            name: "if1".into(),
            addr: address(side),
            mtu: None,
        };
        end.add_local(Time::ZERO, local);
        end
    });
    ends[1].listen(secrets);
    let client = ends[0].connect(Time::ZERO, &ticket).expect("a pair");
    ends[0].handle_timeout(Time::ZERO);
    let handle = talk(&mut ends)[0].0;
    for (frames, closes) in [(MAX_CONTROL, false), (MAX_CONTROL + 1, true)] {
        let server = ends[1].connection(handle).expect("alive");
        let outbox = server.traffic.outbox();
        (0..frames).for_each(|_| outbox.say(Frame::Ping));
        // Any packet of the peer's.
        let peer = ends[0].connection(client).expect("alive");
        peer.traffic.outbox().say(Frame::Ping);
        let mut buf = Vec::new();
        ends[0]
            .poll_transmit(Time::ZERO, 1, &mut buf)
            .expect("the packet");
        let incoming = Incoming {
            local: LocalId(1),
            remote: address(0),
            ecn: None,
            data: &mut buf,
        };
        ends[1].handle_datagram(Time::ZERO, incoming);
        let why = |(_, event)| match event {
            Event::Closed(CloseReason::Protocol(why)) => Some(why),
            _ => None,
        };
        let closed = talk(&mut ends).into_iter().find_map(why);
        assert_eq!(closed.is_some(), closes, "{closed:?}");
        assert!(closed.is_none_or(|why| why.contains("2048 control frames")));
    }
}

//! Relays that grant whatever they are asked for, and paths through them: for this module's tests.

use manyway_units::Time;
use manyway_wire::relay::{
    Access, Consent, ConsentReply, ForwardHeader, Grant, Hello, Mac, Mint, Minted, Proof,
    RateClass, RelayReply, RelayType, Voucher, VoucherTerms,
};
use manyway_wire::{MAX_RELAYS, PathId};

use super::super::core::tests::{address, new_path};
use super::super::paths::{NewPath, PathSet, PathTransport};
use super::routes::Routes;
use crate::driver::{Local, LocalId};
use crate::relays::{News, RelayAccess, RelayAddress, RelayClient, RelayId, RelayRoute};

pub(super) const T0: Time = Time::ZERO;

pub(super) fn seconds(seconds: u64) -> Time {
    Time::from_millis(1000 * seconds)
}

/// One of an interface's sockets.
pub(super) fn local(id: u32, name: &str) -> Local {
    Local {
        id: LocalId(id),
        name: name.into(),
        addr: address(100 + id as u8),
        mtu: None,
    }
}

/// The right to use a relay, which has this number.
pub(super) fn relay(last: u8) -> RelayAccess {
    let id = RelayId([last; RelayId::LEN]);
    let terms = VoucherTerms {
        relay: id,
        signer: id,
        account: [0; 8],
        class: RateClass::MAX,
        expires: u32::MAX,
        client: id,
    };
    RelayAccess {
        relay: RelayAddress {
            address: address(last),
            id,
        },
        access: Access {
            voucher: Voucher {
                terms,
                signature: [0; 64],
            },
            seed: [0; 32],
        },
    }
}

fn grant(tag: u8, expires: u8) -> Grant {
    let mut bytes = [0; ForwardHeader::LEN_V4];
    (bytes[0], bytes[6], bytes[7]) = (RelayType::Forward4 as u8, expires, tag);
    Grant::decode(&bytes).expect("a grant")
}

/// The listener consents to every relay, and these grant what they are asked for. What has come of
/// it.
pub(super) fn answer(client: &mut RelayClient, now: Time) -> Vec<News> {
    grant_all(client, now);
    client.take_news()
}

/// The listener consents to every relay, and these grant what they are asked for, for 120 seconds.
pub(super) fn grant_all(client: &mut RelayClient, now: Time) {
    let consent = Consent {
        key: 0,
        issued: now.since(T0).as_secs() as u32,
        address: address(200),
        mac: Mac([0; 8]),
    };
    for slot in 0..MAX_RELAYS as u16 {
        client.on_consent(now, slot, u64::MAX, consent);
    }
    while let Some(datagram) = client.poll(now) {
        let reply = match Hello::decode(&datagram.data) {
            Ok(hello) => RelayReply::Consent(ConsentReply {
                nonce: hello.nonce,
                consent,
                proof: Proof {
                    key: 0,
                    issued: consent.issued,
                    mac: Mac([0; 8]),
                },
            }),
            Err(_) => RelayReply::Minted(Minted {
                nonce: Mint::decode(&datagram.data).expect("a MINT").0.nonce,
                now: 0,
                there: grant(1, 120),
                back: grant(2, 120),
            }),
        };
        let from = (datagram.local, datagram.remote);
        assert!(client.on_reply(now, from, &reply), "it was asked for");
    }
}

/// Routes from sockets through relays, all of them with grants.
pub(super) fn granted(locals: &[Local], relays: &[RelayAccess]) -> (Routes, Vec<RelayRoute>) {
    let mut routes = Routes::new(RelayClient::new([3; 32], locals.to_vec()));
    routes.client.add(T0, relays);
    let mut all = Vec::new();
    for news in answer(&mut routes.client, T0) {
        let News::Granted(route) = news else {
            panic!("{news:?}");
        };
        routes.on_granted(route);
        all.push(route);
    }
    (routes, all)
}

/// Begins a path on a route.
pub(super) fn begin(
    paths: &mut PathSet,
    routes: &mut Routes,
    (route, id): (RelayRoute, u32),
    transport: PathTransport,
) -> usize {
    let start = routes.begin(T0, route, PathId(id)).expect("it may begin");
    let new = NewPath {
        local: start.local,
        remote: start.relay,
        transport,
        relay: Some(start.header),
        ..new_path(id)
    };
    paths.add(T0, new, None)
}

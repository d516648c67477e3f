//! The two state machines against real relays, silent ones and strangers.

mod client;
mod registrar;

use std::collections::BTreeMap;
use std::time::Duration;

use manyway_relay::{AccountTag, Action, Config, Keys, Relay, keys::public_key};
use manyway_wire::relay::{
    Consent, Grant, RateClass, Refusal, RelayReply, RelayType, Stale, StaleReason,
};
use proptest::prelude::*;
use rand::SeedableRng;
use rand::rngs::ChaCha20Rng;

use super::registrar::Fresh;
use super::*;
use crate::driver::{ConnectionHandle, Local};

const UNIX: Duration = Duration::from_secs(1_800_000_000);
const SECOND: Duration = Duration::from_secs(1);

fn addr(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

fn local(id: u32, at: &str) -> Local {
    Local {
        id: LocalId(id),
        name: format!("if{id}"),
        addr: addr(at),
        mtu: None,
    }
}

fn locals(list: &[Local]) -> BTreeMap<LocalId, Local> {
    list.iter().map(|l| (l.id, l.clone())).collect()
}

fn relay_at(n: u32) -> RelayAddress {
    RelayAddress {
        address: SocketAddr::from((std::net::Ipv4Addr::from(0xc633_6400 + n), 443)),
        id: RelayId([n as u8; 32]),
    }
}

fn user(n: u64) -> Registrant {
    Registrant::Connection(ConnectionHandle(n))
}

/// A real relay, and the right to use it.
fn relay(seed: u64) -> (Relay, RelayAccess) {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let keys = Keys::generate(UNIX, &mut rng);
    let config = Config {
        allow_private: true,
        ..Config::default()
    };
    let client = [7; 32];
    let class = RateClass::new(3).expect("a class");
    let voucher = keys.vouch([1; 8], class, u32::MAX, public_key(&client));
    let access = RelayAccess {
        relay: RelayAddress {
            address: addr("198.51.100.1:443"),
            id: keys.id(),
        },
        access: Access {
            voucher,
            seed: client,
        },
    };
    (Relay::new(config, keys, &mut rng), access)
}

fn answer(relay: &mut Relay, now: Time, from: SocketAddr, data: &[u8]) -> Option<RelayReply> {
    match relay.handle(UNIX + now.since(Time::ZERO), from, data) {
        Action::Reply(reply) => Some(RelayReply::decode(reply.as_bytes()).expect("a reply")),
        _ => None,
    }
}

/// Everything a registrar sends until `end`, with the time.
fn greetings(registrar: &mut Registrar, list: &[Local], end: Time) -> Vec<(Time, Datagram)> {
    let locals = locals(list);
    let mut sent = Vec::new();
    while let Some(at) = registrar.timeout().filter(|at| *at <= end) {
        let before = sent.len();
        while let Some(datagram) = registrar.poll(at, &locals, &mut |_, _| true) {
            sent.push((at, datagram));
        }
        assert!(
            sent.len() > before || registrar.timeout() != Some(at),
            "no progress at {at:?}"
        );
    }
    sent
}

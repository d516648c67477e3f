//! Relays, as both ends of a connection see them: who consents, who mints, and when to ask again.
//!
//! A path through a relay is a path like any other. Its datagrams have a header, the grant, which
//! the relay removes. A grant names the destination and can't be forged. `docs/protocol.md`,
//! "Relays", specifies what the two ends tell each other about relays, `docs/relays.md` what they
//! tell a relay.

mod client;
mod registrar;

use std::net::SocketAddr;
use std::time::Duration;

use aws_lc_rs::signature::Ed25519KeyPair;
use bytes::Bytes;
use manyway_units::{Bucket, Time};
use manyway_wire::relay::{
    Access, CONSENT_LIFE, Challenge, ListenerName, Peer, RelayTicket, SIGNATURE_LEN, StreamConnect,
};

use crate::driver::LocalId;

pub(crate) use client::{HEED, News, RelayClient, RelayRoute};
pub(crate) use manyway_wire::relay::RelayId;
pub(crate) use registrar::{Fresh, Registrant, Registrar, is_host};

/// A relay's key, and one of its addresses.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelayAddress {
    /// The address.
    pub address: SocketAddr,
    /// The key. Another relay at this address doesn't count.
    pub id: RelayId,
}

/// A relay with access: its address, and the right to ask it for grants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayAccess {
    /// The relay.
    pub relay: RelayAddress,
    /// The voucher and the client's key.
    pub access: Access,
}

impl RelayAddress {
    /// The addresses of a pasted relay that are used: the first of each family.
    pub fn of(ticket: &RelayTicket) -> Vec<Self> {
        let first = |v4: bool| ticket.addresses.iter().find(|a| a.is_ipv4() == v4);
        let firsts = [first(true), first(false)].into_iter().flatten();
        let with_id = |&address: &SocketAddr| Self {
            address,
            id: ticket.relay,
        };
        firsts.map(with_id).collect()
    }
}

impl RelayAccess {
    /// The same addresses with access; none if the text has no access.
    pub fn of(ticket: &RelayTicket) -> Vec<Self> {
        let Some(access) = &ticket.access else {
            return Vec::new();
        };
        let with_access = |relay| Self {
            relay,
            access: access.clone(),
        };
        RelayAddress::of(ticket)
            .into_iter()
            .map(with_access)
            .collect()
    }

    /// The request that asks the relay, over TCP, to connect this stream with the listener under
    /// `name`. It is valid only on the connection that got the challenge.
    pub fn stream_connect(
        &self,
        challenge: &Challenge,
        name: ListenerName,
    ) -> [u8; StreamConnect::LEN] {
        let connect = StreamConnect {
            peer: Peer::Name(name),
            voucher: self.access.voucher,
        };
        connect.seal(challenge, |message| self.sign(message))
    }

    /// The rate that the voucher allows, in bytes/s.
    pub(crate) fn bound(&self) -> f64 {
        self.access.voucher.terms.class.bytes_per_second() as f64
    }

    /// Signs as the client that the voucher names. Returns zeros if the seed doesn't belong to its
    /// key: the relay will refuse them.
    fn sign(&self, message: &[u8]) -> [u8; SIGNATURE_LEN] {
        let mut bytes = [0; SIGNATURE_LEN];
        if let Ok(pair) = Ed25519KeyPair::from_seed_unchecked(&self.access.seed) {
            bytes.copy_from_slice(pair.sign(message).as_ref());
        }
        bytes
    }
}

/// A datagram to a relay that belongs to no path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Datagram {
    pub(crate) local: LocalId,
    pub(crate) remote: SocketAddr,
    pub(crate) data: Bytes,
}

/// The age up to which we use a proof. The relay accepts it for twice as long, by its own clock.
const PROOF_LIFE: Duration = CONSENT_LIFE.checked_div(2).expect("not zero");

/// Datagrams to relays per second, so that two hundred relays at once cause no burst.
const PER_SECOND: f64 = 250.0;
/// How many may leave at once.
const BURST: f64 = 16.0;

/// When datagrams to relays may leave.
#[derive(Debug)]
pub(crate) struct Pace(Bucket);

impl Default for Pace {
    fn default() -> Self {
        Self(Bucket::new(PER_SECOND, BURST, Time::ZERO))
    }
}

impl Pace {
    pub(crate) fn permits(&self, now: Time) -> bool {
        self.0.permit(now, 1.0).is_ok()
    }

    /// When the next datagram may leave.
    pub(crate) fn next(&self) -> Time {
        self.0.ready(1.0)
    }

    pub(crate) fn note(&mut self, now: Time) {
        self.0.spend(now, 1.0);
    }
}

#[cfg(test)]
mod tests;

//! Relays, as both ends of a connection see them: who consents, who mints, and what is asked again
//! when.
//!
//! A path through a relay is a path like any other, with a header in front of its datagrams that
//! the relay takes off: a grant, which names where the datagram goes and can't be forged.
//! `docs/protocol.md`, "Relays", has what the two ends say to each other about them,
//! `docs/relays.md` what is said to a relay.

mod client;
mod registrar;

use std::net::SocketAddr;
use std::time::Duration;

use aws_lc_rs::signature::Ed25519KeyPair;
use bytes::Bytes;
use manyway_units::Time;
use manyway_wire::relay::{
    Access, CONSENT_LIFE, Challenge, ListenerName, Peer, RelayTicket, SIGNATURE_LEN, StreamConnect,
};

use crate::driver::LocalId;

pub(crate) use client::{HEED, News, RelayClient, RelayRoute};
pub(crate) use manyway_wire::relay::RelayId;
pub(crate) use registrar::{Fresh, Registrant, Registrar, is_host};

/// Who a relay is, and one of its addresses.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelayAddress {
    /// Where it is.
    pub address: SocketAddr,
    /// Who it is: another one at this address isn't meant.
    pub id: RelayId,
}

/// A relay that may be used: where it is, and the right to ask it for grants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayAccess {
    /// The relay.
    pub relay: RelayAddress,
    /// The voucher and the client's key.
    pub access: Access,
}

impl RelayAddress {
    /// The addresses of a pasted relay that are tried: the first of each family.
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
    /// The same with the right to use it; none if the text gives none.
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

    /// What asks the relay, over TCP, to connect this stream with who listens there under `name`.
    /// It is good for the connection that got the challenge alone.
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

    /// What the right to use it allows, in bytes/s.
    pub(crate) fn bound(&self) -> f64 {
        self.access.voucher.terms.class.bytes_per_second() as f64
    }

    /// Signs as the client that the voucher names. Zeros if the seed isn't one of its key: the
    /// relay will refuse them.
    fn sign(&self, message: &[u8]) -> [u8; SIGNATURE_LEN] {
        let mut bytes = [0; SIGNATURE_LEN];
        if let Ok(pair) = Ed25519KeyPair::from_seed_unchecked(&self.access.seed) {
            bytes.copy_from_slice(pair.sign(message).as_ref());
        }
        bytes
    }
}

/// A datagram to a relay that isn't on any path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Datagram {
    pub(crate) local: LocalId,
    pub(crate) remote: SocketAddr,
    pub(crate) data: Bytes,
}

/// A proof of ours is shown up to this age: the relay takes it for twice as long, by a clock that
/// isn't ours.
const PROOF_LIFE: Duration = CONSENT_LIFE.checked_div(2).expect("not zero");

/// Datagrams to relays leave this far apart on the average: two hundred relays at once are no
/// burst.
const SPACING: Duration = Duration::from_millis(4);
/// So many may leave at once.
const BURST: u32 = 16;

/// A token bucket for datagrams to relays.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// When the bucket would be full.
    full_at: Time,
}

impl Pace {
    pub(crate) fn permits(&self, now: Time) -> bool {
        self.next() <= now
    }

    /// When the next datagram may leave.
    pub(crate) fn next(&self) -> Time {
        let full = self.full_at.since(Time::ZERO);
        Time::ZERO + full.saturating_sub(SPACING * (BURST - 1))
    }

    pub(crate) fn note(&mut self, now: Time) {
        self.full_at = self.full_at.max(now) + SPACING;
    }
}

#[cfg(test)]
mod tests;

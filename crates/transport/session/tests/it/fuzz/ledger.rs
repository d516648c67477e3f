//! What the endpoint has sent where, held against the limits of `docs/protocol.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use manyway_units::Time;
use manyway_wire::relay::RelayType;

/// What may go to named addresses once, and each second (`session::budget`).
const NAMED_ONCE: u64 = 30_000;
const NAMED_PER_SECOND: u64 = 10_000;

#[derive(Debug, Default)]
struct Account {
    came: u64,
    went: u64,
    asked: Vec<[u8; 8]>,
    /// It has answered, or needs not to.
    proven: bool,
    /// A peer has named it.
    named: bool,
}

/// Bytes by address.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    accounts: BTreeMap<SocketAddr, Account>,
    /// Where the handshakes took place: an answer to a challenge there counts from anywhere.
    homes: BTreeSet<SocketAddr>,
    /// All that peers have sent.
    received: u64,
    /// Bytes that greet relays which peers have named. None of them answers.
    greetings: u64,
}

impl Ledger {
    fn account(&mut self, address: SocketAddr) -> &mut Account {
        self.accounts.entry(address).or_default()
    }

    /// The address is one of the ticket's, the only one of a handshake, or the far end of a TCP
    /// connection.
    pub(super) fn exempt(&mut self, address: SocketAddr) {
        self.account(address).proven = true;
    }

    pub(super) fn handshake(&mut self, address: SocketAddr) {
        self.homes.insert(address);
    }

    /// A peer has named the address.
    pub(super) fn named(&mut self, address: SocketAddr) {
        self.account(address).named = true;
    }

    pub(super) fn came(&mut self, from: SocketAddr, bytes: usize) {
        self.received += bytes as u64;
        self.account(from).came += bytes as u64;
    }

    pub(super) fn went(&mut self, to: SocketAddr, datagram: &[u8]) {
        let bytes = datagram.len() as u64;
        match RelayType::of(datagram) {
            Some(RelayType::Hello) => self.greetings += bytes,
            _ => self.account(to).went += bytes,
        }
    }

    pub(super) fn asked(&mut self, to: SocketAddr, challenge: [u8; 8]) {
        let asked = &mut self.account(to).asked;
        if !asked.contains(&challenge) {
            asked.push(challenge);
        }
    }

    /// An answer leaves from there.
    pub(super) fn answered(&mut self, from: SocketAddr, challenge: [u8; 8]) {
        for (address, account) in &mut self.accounts {
            let counts = *address == from || self.homes.contains(address);
            account.proven |= counts && account.asked.contains(&challenge);
        }
    }

    /// All bytes that came.
    pub(super) fn received(&self) -> u64 {
        self.received
    }

    /// To an address that hasn't answered goes at most three times what came from it. What goes
    /// beyond to those that peers have named, relays included, has a budget for all together.
    pub(super) fn check(&self, now: Time, peers: usize) {
        let mut named = self.greetings;
        for (address, account) in self.accounts.iter().filter(|(_, a)| !a.proven) {
            let (came, went) = (account.came, account.went);
            let beyond = went.saturating_sub(3 * came);
            if came == 0 || account.named {
                named += beyond;
            } else {
                assert!(beyond == 0, "{address}: {went} bytes for {came}");
            }
        }
        let seconds = now.as_secs_f64().ceil() as u64;
        let peers = peers as u64;
        let most = peers * NAMED_ONCE + self.received.min(peers * NAMED_PER_SECOND * seconds);
        assert!(named <= most, "{named} bytes to others, of {most}");
    }
}

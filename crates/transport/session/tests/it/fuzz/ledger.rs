//! What the endpoint has sent where, held against the limits of `docs/protocol.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use manyway_units::Time;
use manyway_wire::relay::{HELLO_LEN, RelayType};

/// What may go to named addresses once, and each second (`session::budget`).
const NAMED_ONCE: u64 = 30_000;
const NAMED_PER_SECOND: u64 = 10_000;
/// A connection may have so many relays greeted at once, and one more each second, so often.
const RELAYS_AT_ONCE: u64 = 256;
const GREETINGS: u64 = 12;

#[derive(Debug, Default)]
struct Account {
    came: u64,
    went: u64,
    asked: Vec<[u8; 8]>,
    /// It has answered, or needs not to.
    proven: bool,
}

/// Bytes by address.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    accounts: BTreeMap<SocketAddr, Account>,
    /// Where the handshakes took place: an answer to a challenge there counts from anywhere.
    homes: BTreeSet<SocketAddr>,
    /// All that peers have sent.
    received: u64,
    /// Bytes that greet relays which peers have named.
    greetings: u64,
}

impl Ledger {
    fn account(&mut self, address: SocketAddr) -> &mut Account {
        self.accounts.entry(address).or_default()
    }

    /// The address is one of the ticket's, or the far end of a TCP connection.
    pub(super) fn exempt(&mut self, address: SocketAddr) {
        self.account(address).proven = true;
    }

    pub(super) fn handshake(&mut self, address: SocketAddr) {
        self.homes.insert(address);
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

    /// To an address that hasn't answered goes at most three times what came from it. Where nothing
    /// came from, somebody has named it, and all those together have a budget. Relays that peers
    /// name have one of their own.
    pub(super) fn check(&self, now: Time, peers: usize) {
        let mut named = 0;
        for (address, account) in self.accounts.iter().filter(|(_, a)| !a.proven) {
            if account.came == 0 {
                named += account.went;
                continue;
            }
            let (came, went) = (account.came, account.went);
            assert!(went <= 3 * came, "{address}: {went} bytes for {came}");
        }
        let seconds = now.as_secs_f64().ceil() as u64;
        let most = NAMED_ONCE + self.received.min(NAMED_PER_SECOND * seconds);
        assert!(named <= most, "{named} bytes to others, of {most}");
        let relays = peers as u64 * (RELAYS_AT_ONCE + seconds);
        let most = relays * GREETINGS * HELLO_LEN as u64;
        let greetings = self.greetings;
        assert!(greetings <= most, "{greetings} bytes to relays, of {most}");
    }
}

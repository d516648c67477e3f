//! The listener's side: HELLOs to the relays that authenticated peers name, so that these have its
//! consent and its NAT lets them through. The listener also sends LISTEN to relays of its own
//! choice, where initiators with a ticket find it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use manyway_units::{Backoff, Time};
use manyway_wire::relay::{
    Consent, ConsentReply, HELLO_INTERVAL, HELLO_LEN, Hello, Listen, ListenerName, Nonce, RelayId,
};
use rand::rngs::ChaCha20Rng;
use rand::{RngExt, SeedableRng};

use super::{Datagram, PROOF_LIFE, Pace, RelayAddress};
use crate::driver::{ConnectionHandle, Local, LocalId, compatible, may_be_named};

/// The interval after which a relay that doesn't answer gets another greeting. It doubles each
/// time, up to [`SELDOM`].
const REPEAT: Backoff = Backoff::new(Duration::from_millis(500), SELDOM);
const SELDOM: Duration = Duration::from_secs(60);
/// After this many HELLOs without an answer, a peer's relay gets no more until somebody asks for it
/// again.
const PATIENCE: u32 = 12;
/// After this many, the next local address is tried.
const PER_LOCAL: u32 = 3;
/// The smallest interval between two HELLOs to a relay that somebody asks for. After it, one that
/// nobody's peer has paid for is asked for again.
const AT_LEAST: Duration = Duration::from_secs(1);
/// The most relays to greet at a time, over all connections.
const MAX_KEPT: usize = 1024;

/// On whose behalf a relay is greeted.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Registrant {
    /// Those who have a ticket that names the relay.
    Ticket(NameKey),
    /// The peer of a connection.
    Connection(ConnectionHandle),
    /// This endpoint: it wants to know its own address.
    Observation,
}

/// [`ListenerName`] with an order.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NameKey([u8; ListenerName::LEN]);

impl std::fmt::Debug for NameKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ListenerName(..)")
    }
}

impl From<ListenerName> for Registrant {
    fn from(name: ListenerName) -> Self {
        Registrant::Ticket(NameKey(name.0))
    }
}

/// A relay's new consent.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fresh {
    pub(crate) relay: RelayAddress,
    pub(crate) consent: Consent,
}

/// Bytes that a relay was sent on account of each connection whose peer has named it.
pub(crate) type Charges = BTreeMap<ConnectionHandle, u64>;

/// Charges a connection with so many bytes to an address that its peer has named; whether it may
/// send them.
pub(crate) type Charge<'a> = &'a mut dyn FnMut(ConnectionHandle, u64) -> bool;

#[derive(Debug)]
struct Registration {
    users: BTreeSet<Registrant>,
    /// For HELLOs that nobody has answered.
    charges: Charges,
    local: Option<LocalId>,
    nonce: Nonce,
    unanswered: u32,
    last_sent: Option<Time>,
    next: Option<Time>,
    consent: Option<(ConsentReply, Time)>,
    /// The name that LISTEN announces next.
    announced: Option<Registrant>,
}

/// All relays with which this endpoint keeps in touch.
#[derive(Debug)]
pub(crate) struct Registrar {
    rng: ChaCha20Rng,
    kept: BTreeMap<RelayAddress, Registration>,
    pace: Pace,
    wake: Option<Time>,
}

impl Registrar {
    pub(crate) fn new(seed: [u8; 32]) -> Self {
        Self {
            rng: ChaCha20Rng::from_seed(seed),
            kept: BTreeMap::new(),
            pace: Pace::default(),
            wake: None,
        }
    }

    /// Greets a relay from now on. Returns its consent, if there is a fresh one.
    pub(crate) fn want(
        &mut self,
        now: Time,
        relay: RelayAddress,
        user: Registrant,
        locals: &BTreeMap<LocalId, Local>,
    ) -> Option<Fresh> {
        let ip = relay.address.ip();
        // Those with a ticket look there for as long as they like: our network may come up later.
        let waits = matches!(user, Registrant::Ticket(_));
        let reachable = waits || locals.values().any(|l| compatible(l.addr.ip(), ip));
        let room = self.kept.contains_key(&relay) || self.kept.len() < MAX_KEPT;
        if !reachable || !room || !is_host(relay.address) {
            return None;
        }
        let kept = self
            .kept
            .entry(relay)
            .or_insert_with(|| Registration::new(now));
        kept.users.insert(user);
        if kept.next.is_none() {
            kept.greet_soon(now);
        }
        let fresh = kept
            .consent
            .filter(|(_, at)| now.since(*at) < 2 * HELLO_INTERVAL);
        self.reschedule();
        fresh.map(|(reply, _)| Fresh {
            relay,
            consent: reply.consent,
        })
    }

    /// Greets the relay again soon: somebody has reason to believe that its last answer no longer
    /// holds.
    pub(crate) fn refresh(&mut self, now: Time, relay: RelayAddress) {
        if let Some(kept) = self.kept.get_mut(&relay) {
            kept.greet_soon(now);
            self.reschedule();
        }
    }

    /// As [`Registrar::refresh`], for the relay at this address.
    pub(crate) fn refresh_at(&mut self, now: Time, address: SocketAddr) {
        for (_, kept) in self.kept.range_mut(all_at(address)) {
            kept.greet_soon(now);
        }
        self.reschedule();
    }

    /// This user no longer needs the relay.
    pub(crate) fn drop_user(&mut self, relay: RelayAddress, user: Registrant) {
        if let Some(kept) = self.kept.get_mut(&relay) {
            if kept.lose(user) {
                self.kept.remove(&relay);
            }
            self.reschedule();
        }
    }

    /// The user is gone.
    pub(crate) fn forget(&mut self, user: Registrant) {
        if self.kept.is_empty() {
            return;
        }
        self.kept.retain(|_, kept| !kept.lose(user));
        self.reschedule();
    }

    /// The sockets have changed: relays greeted from a lost one will be greeted from another.
    pub(crate) fn on_locals(&mut self, now: Time, locals: &BTreeMap<LocalId, Local>) {
        for kept in self.kept.values_mut() {
            let gone = kept.local.is_some_and(|id| !locals.contains_key(&id));
            if gone || kept.consent.is_none() {
                (kept.local, kept.unanswered, kept.consent) = (None, 0, None);
                kept.greet_soon(now);
            }
        }
        self.reschedule();
    }

    /// Our addresses, as seen by relays that we greet for our own sake.
    pub(crate) fn observed(&self) -> Vec<SocketAddr> {
        let own = |user: &Registrant| !matches!(user, Registrant::Connection(_));
        let kept = self.kept.values().filter(|kept| kept.users.iter().any(own));
        let mut seen: Vec<SocketAddr> = kept
            .filter_map(|kept| Some(kept.consent?.0.consent.address))
            .collect();
        seen.sort_unstable();
        seen.dedup();
        seen
    }

    /// The relays that tickets name and that haven't answered, each by one of its addresses.
    pub(crate) fn silent(&self) -> Vec<SocketAddr> {
        let in_ticket = |user: &Registrant| matches!(user, Registrant::Ticket(_));
        let named = || {
            let kept = self.kept.iter();
            kept.filter(|(_, kept)| kept.users.iter().any(in_ticket))
        };
        let answered = named().filter(|(_, kept)| kept.consent.is_some());
        let answered: BTreeSet<RelayId> = answered.map(|(relay, _)| relay.id).collect();
        let silent = named().filter(|(relay, _)| !answered.contains(&relay.id));
        let silent: BTreeMap<RelayId, SocketAddr> =
            silent.map(|(relay, _)| (relay.id, relay.address)).collect();
        silent.into_values().collect()
    }

    pub(crate) fn timeout(&self) -> Option<Time> {
        self.wake
    }

    /// The next HELLO or LISTEN that is due. A relay that hasn't answered, and that only peers have
    /// named, is greeted at the expense of one of them.
    pub(crate) fn poll(
        &mut self,
        now: Time,
        locals: &BTreeMap<LocalId, Local>,
        charge: Charge<'_>,
    ) -> Option<Datagram> {
        if self.wake.is_none_or(|at| at > now) {
            return None;
        }
        let mut datagram = None;
        while datagram.is_none() && self.pace.permits(now) {
            let due = |(&relay, kept): (&RelayAddress, &Registration)| Some((kept.next?, relay));
            let first = self.kept.iter().filter_map(due).min();
            let Some((_, relay)) = first.filter(|(at, _)| *at <= now) else {
                break;
            };
            datagram = self.greet(now, relay, locals, charge);
        }
        if datagram.is_some() {
            self.pace.note(now);
        }
        self.reschedule();
        datagram
    }

    fn greet(
        &mut self,
        now: Time,
        relay: RelayAddress,
        locals: &BTreeMap<LocalId, Local>,
        charge: Charge<'_>,
    ) -> Option<Datagram> {
        let kept = self.kept.get_mut(&relay)?;
        kept.next = None;
        let mut local = kept.local;
        if local.is_none() || kept.unanswered > 0 && kept.unanswered % PER_LOCAL == 0 {
            local = kept.next_local(relay.address, locals);
        }
        if local != kept.local {
            kept.consent = None;
        }
        let over = kept.unanswered >= PATIENCE && kept.names().next().is_none();
        let proven = kept.consent.is_some();
        if !over && local.is_some() && !proven && !kept.pay(charge) {
            kept.next = Some(now + AT_LEAST);
            return None;
        }
        kept.local = local;
        let local = local.filter(|_| !over)?;
        kept.next = Some(now + REPEAT.delay(kept.unanswered));
        if kept.unanswered == 0 {
            kept.nonce = Nonce(self.rng.random());
        }
        kept.unanswered += 1;
        kept.last_sent = Some(now);
        if kept.unanswered > 1 {
            // The name has its turn after the answer.
            kept.announced = None;
        }
        Some(Datagram {
            local,
            remote: relay.address,
            data: kept.greeting(now, relay.id).into(),
        })
    }

    /// Takes a relay's answer to our last greeting. Returns the consent, who wants it, and the
    /// charges that are to be refunded.
    pub(crate) fn on_reply(
        &mut self,
        now: Time,
        (local, from): (LocalId, SocketAddr),
        reply: &ConsentReply,
    ) -> Option<(Fresh, Vec<Registrant>, Charges)> {
        let mut there = self.kept.range_mut(all_at(from));
        let (&relay, kept) = there.find(|(_, kept)| {
            kept.unanswered > 0 && kept.nonce == reply.nonce && kept.local == Some(local)
        })?;
        // Names are announced one after the other, each with the consent that this answer brought.
        let more = kept.next_name();
        kept.unanswered = 0;
        kept.consent = Some((*reply, now));
        kept.next = Some(if more { now } else { now + HELLO_INTERVAL });
        let users = kept.users.iter().copied().collect();
        let charges = std::mem::take(&mut kept.charges);
        self.reschedule();
        let consent = reply.consent;
        Some((Fresh { relay, consent }, users, charges))
    }

    fn reschedule(&mut self) {
        let next = self.kept.values().filter_map(|kept| kept.next).min();
        self.wake = next.map(|at| at.max(self.pace.next()));
    }
}

impl Registration {
    fn new(now: Time) -> Self {
        Self {
            users: BTreeSet::new(),
            charges: Charges::new(),
            local: None,
            nonce: Nonce([0; 8]),
            unanswered: 0,
            last_sent: None,
            next: Some(now),
            consent: None,
            announced: None,
        }
    }

    /// Whether there is no user without this one.
    fn lose(&mut self, user: Registrant) -> bool {
        self.users.remove(&user);
        if let Registrant::Connection(handle) = user {
            self.charges.remove(&handle);
        }
        self.users.is_empty()
    }

    /// The next socket, of those from which the relay can be reached, and by our own will or a
    /// peer's may be.
    fn next_local(&self, relay: SocketAddr, locals: &BTreeMap<LocalId, Local>) -> Option<LocalId> {
        let chosen = |user: &Registrant| !matches!(user, Registrant::Connection(_));
        let ours = self.users.iter().any(chosen);
        let may = |local: IpAddr| ours || may_be_named(local, relay);
        let fits = |local: IpAddr| compatible(local, relay.ip()) && may(local);
        let fitting = || locals.values().filter(|l| fits(l.addr.ip()));
        let after = fitting().find(|l| self.local.is_none_or(|last| l.id > last));
        after.or_else(|| fitting().next()).map(|l| l.id)
    }

    /// Whether a HELLO may go to an address that hasn't answered: if we have chosen it, or a peer
    /// that has named it may make us send so much.
    fn pay(&mut self, charge: Charge<'_>) -> bool {
        let bytes = HELLO_LEN as u64;
        let mut peers = Vec::new();
        for user in &self.users {
            match user {
                Registrant::Connection(handle) => peers.push(*handle),
                Registrant::Ticket(_) | Registrant::Observation => return true,
            }
        }
        let payer = peers.into_iter().find(|handle| charge(*handle, bytes));
        if let Some(handle) = payer {
            *self.charges.entry(handle).or_default() += bytes;
        }
        payer.is_some()
    }

    /// As soon as the rules allow.
    fn greet_soon(&mut self, now: Time) {
        let earliest = self.last_sent.map_or(now, |at| (at + AT_LEAST).max(now));
        self.next = Some(self.next.map_or(earliest, |next| next.min(earliest)));
        self.unanswered = self.unanswered.min(PER_LOCAL - 1);
    }

    fn names(&self) -> impl Iterator<Item = (Registrant, ListenerName)> {
        self.users.iter().filter_map(|user| match user {
            Registrant::Ticket(name) => Some((*user, ListenerName(name.0))),
            Registrant::Connection(_) | Registrant::Observation => None,
        })
    }

    /// Moves on to the next name. Returns false if all have had their turn.
    fn next_name(&mut self) -> bool {
        let last = self.announced;
        let next = self
            .names()
            .find(|(user, _)| last.is_none_or(|last| *user > last));
        self.announced = next.map(|(user, _)| user);
        next.is_some()
    }

    /// LISTEN, for the name whose turn it is or for none, while there is a proof to show: relays
    /// answer senders with a proof even if a flood of spoofed HELLOs uses up the share of all
    /// others. Every other repetition is a HELLO: the proof may no longer hold, because our NAT has
    /// rebound or the relay has lost its keys.
    fn greeting(&self, now: Time, relay: RelayId) -> Vec<u8> {
        let nonce = self.nonce;
        let name = self.announced.and_then(|user| {
            let found = self.names().find(|(other, _)| *other == user);
            found.map(|(_, name)| name)
        });
        let proof = self
            .consent
            .filter(|(_, at)| now.since(*at) < PROOF_LIFE && self.unanswered % 2 == 1);
        match proof {
            Some((reply, _)) => Listen {
                nonce,
                relay,
                name: name.unwrap_or(ListenerName::NONE),
                proof: reply.proof,
            }
            .to_bytes()
            .into(),
            None => Hello { nonce, relay }.to_bytes().into(),
        }
    }
}

fn all_at(address: SocketAddr) -> std::ops::RangeInclusive<RelayAddress> {
    let at = |byte| RelayAddress {
        address,
        id: RelayId([byte; RelayId::LEN]),
    };
    at(0)..=at(u8::MAX)
}

/// Whether a single host can have this address.
pub(crate) fn is_host(address: SocketAddr) -> bool {
    let ip = address.ip();
    let broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
    address.port() != 0 && !ip.is_multicast() && !ip.is_unspecified() && !broadcast
}

//! The listener's side: HELLOs to the relays that authenticated peers name, so that these have its consent and its NAT lets them through.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use manyway_units::Time;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::messages::{self, Consented, TXID_LEN};
use super::{Datagram, Pace};
use crate::connection::compatible;
use crate::endpoint::{ConnectionHandle, Local, LocalId};

/// A relay that answers is greeted so often: well within what NATs remember of UDP.
const INTERVAL: Duration = Duration::from_secs(15);
/// One that doesn't answer is greeted again after this long, then after twice as long each time.
const FIRST_REPEAT: Duration = Duration::from_millis(500);
/// After so many HELLOs without an answer the relay is left alone until somebody asks for it again.
const PATIENCE: u32 = 12;
/// After so many, the next local address is tried.
const PER_LOCAL: u32 = 3;
/// Two HELLOs to a relay are at least this far apart, whoever asks.
const AT_LEAST: Duration = Duration::from_secs(1);
/// Relays greeted at a time, over all connections.
const MAX_KEPT: usize = 1024;

/// On whose behalf a relay is greeted.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum KeptFor {
    /// The host's own user: first contact goes through it.
    Owner,
    /// The peer of a connection.
    Connection(ConnectionHandle),
}

/// A relay's word that it will forward to us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cookie {
    pub(crate) bytes: Bytes,
    /// Our address as the relay sees it.
    pub(crate) observed: SocketAddr,
    pub(crate) since: Time,
    pub(crate) lifetime: Duration,
}

#[derive(Debug)]
struct Kept {
    users: BTreeSet<KeptFor>,
    local: Option<LocalId>,
    txid: [u8; TXID_LEN],
    unanswered: u32,
    last_sent: Option<Time>,
    next: Option<Time>,
    cookie: Option<Cookie>,
}

/// All relays that this endpoint keeps in touch with.
#[derive(Debug)]
pub(crate) struct Keeper {
    rng: Pcg64Mcg,
    kept: BTreeMap<SocketAddr, Kept>,
    pace: Pace,
    wake: Option<Time>,
}

impl Keeper {
    pub(crate) fn new(seed: [u8; 16]) -> Self {
        Self {
            rng: Pcg64Mcg::from_seed(seed),
            kept: BTreeMap::new(),
            pace: Pace::default(),
            wake: None,
        }
    }

    /// Greets a relay from now on. The cookie, if one is there that is fresh enough.
    pub(crate) fn want(
        &mut self,
        now: Time,
        relay: SocketAddr,
        user: KeptFor,
        locals: &BTreeMap<LocalId, Local>,
    ) -> Option<Cookie> {
        let reachable = locals.values().any(|l| compatible(l.addr.ip(), relay.ip()));
        let room = self.kept.contains_key(&relay) || self.kept.len() < MAX_KEPT;
        if !reachable || !room || !is_host(relay) {
            return None;
        }
        let kept = self.kept.entry(relay).or_insert_with(|| Kept {
            users: BTreeSet::new(),
            local: None,
            txid: [0; TXID_LEN],
            unanswered: 0,
            last_sent: None,
            next: Some(now),
            cookie: None,
        });
        kept.users.insert(user);
        if kept.next.is_none() {
            kept.greet_soon(now);
        }
        let fresh = |cookie: &&Cookie| now.since(cookie.since) < INTERVAL * 2;
        let cookie = kept.cookie.as_ref().filter(fresh).cloned();
        self.reschedule();
        cookie
    }

    /// Somebody has a reason to believe that what the relay said doesn't hold any more.
    pub(crate) fn refresh(&mut self, now: Time, relay: SocketAddr) {
        if let Some(kept) = self.kept.get_mut(&relay) {
            kept.greet_soon(now);
            self.reschedule();
        }
    }

    /// The user needs the relay no more.
    pub(crate) fn drop_user(&mut self, relay: SocketAddr, user: KeptFor) {
        if let Some(kept) = self.kept.get_mut(&relay) {
            kept.users.remove(&user);
            if kept.users.is_empty() {
                self.kept.remove(&relay);
            }
            self.reschedule();
        }
    }

    /// The user is gone.
    pub(crate) fn forget(&mut self, user: KeptFor) {
        self.kept.retain(|_, kept| {
            kept.users.remove(&user);
            !kept.users.is_empty()
        });
        self.reschedule();
    }

    /// The sockets have changed: relays that were greeted from one that is gone are greeted from another.
    pub(crate) fn on_locals(&mut self, now: Time, locals: &BTreeMap<LocalId, Local>) {
        for kept in self.kept.values_mut() {
            let gone = kept.local.is_some_and(|id| !locals.contains_key(&id));
            if gone || kept.cookie.is_none() {
                (kept.local, kept.unanswered) = (None, 0);
                kept.greet_soon(now);
            }
        }
        self.reschedule();
    }

    pub(crate) fn timeout(&self) -> Option<Time> {
        self.wake
    }

    /// The next HELLO that is due.
    pub(crate) fn poll(
        &mut self,
        now: Time,
        locals: &BTreeMap<LocalId, Local>,
    ) -> Option<Datagram> {
        if self.wake.is_none_or(|at| at > now) || !self.pace.permits(now) {
            return None;
        }
        let due = |(&relay, kept): (&SocketAddr, &Kept)| Some((kept.next?, relay));
        let first = self.kept.iter().filter_map(due).min();
        let (_, relay) = first.filter(|(at, _)| *at <= now)?;
        let datagram = self.greet(now, relay, locals);
        self.reschedule();
        datagram
    }

    fn greet(
        &mut self,
        now: Time,
        relay: SocketAddr,
        locals: &BTreeMap<LocalId, Local>,
    ) -> Option<Datagram> {
        let kept = self.kept.get_mut(&relay)?;
        let turn = kept.local.is_none() || kept.unanswered >= PER_LOCAL && kept.unanswered % PER_LOCAL == 0;
        if turn {
            kept.local = next_local(kept.local, relay.ip(), locals);
        }
        let Some(local) = kept.local.filter(|_| kept.unanswered < PATIENCE) else {
            kept.next = None;
            return None;
        };
        self.rng.fill_bytes(&mut kept.txid);
        kept.next = Some(now + FIRST_REPEAT.saturating_mul(2u32.pow(kept.unanswered.min(8))).min(INTERVAL * 4));
        kept.unanswered += 1;
        kept.last_sent = Some(now);
        self.pace.note(now);
        Some(Datagram {
            local,
            remote: relay,
            data: messages::hello(kept.txid).into(),
        })
    }

    /// Takes a relay's answer to our last HELLO: the cookie, and who wants to know.
    pub(crate) fn on_consented(
        &mut self,
        now: Time,
        local: LocalId,
        from: SocketAddr,
        answer: &Consented<'_>,
    ) -> Option<(Cookie, Vec<KeptFor>)> {
        let kept = self.kept.get_mut(&from)?;
        if kept.unanswered == 0 || kept.local != Some(local) || kept.txid != answer.txid {
            return None;
        }
        kept.unanswered = 0;
        kept.next = Some(now + INTERVAL.min(answer.lifetime / 2));
        let cookie = Cookie {
            bytes: Bytes::copy_from_slice(answer.cookie),
            observed: answer.observed,
            since: now,
            lifetime: answer.lifetime,
        };
        kept.cookie = Some(cookie.clone());
        let users = kept.users.iter().copied().collect();
        self.reschedule();
        Some((cookie, users))
    }

    /// Cookies of the relays that are greeted for this user.
    pub(crate) fn cookies(&self, user: KeptFor) -> impl Iterator<Item = (SocketAddr, &Cookie)> {
        let of_user = move |(&relay, kept): (&SocketAddr, &'_ Kept)| {
            kept.users.contains(&user).then_some(relay)
        };
        self.kept
            .iter()
            .filter_map(move |entry| Some((of_user(entry)?, entry.1.cookie.as_ref()?)))
    }

    fn reschedule(&mut self) {
        let next = self.kept.values().filter_map(|kept| kept.next).min();
        self.wake = next.map(|at| at.max(self.pace.next()));
    }
}

impl Kept {
    /// As soon as the rules allow.
    fn greet_soon(&mut self, now: Time) {
        let earliest = self.last_sent.map_or(now, |at| (at + AT_LEAST).max(now));
        self.next = Some(self.next.map_or(earliest, |next| next.min(earliest)));
        self.unanswered = self.unanswered.min(PER_LOCAL - 1);
    }
}

/// The socket after this one, of those from which the relay can be reached.
fn next_local(
    last: Option<LocalId>,
    relay: IpAddr,
    locals: &BTreeMap<LocalId, Local>,
) -> Option<LocalId> {
    let mut fitting = locals.values().filter(|l| compatible(l.addr.ip(), relay));
    let first = fitting.clone().next()?.id;
    let after = fitting.find(|l| last.is_none_or(|last| l.id > last));
    Some(after.map_or(first, |l| l.id))
}

/// Whether a single host can have this address.
fn is_host(address: SocketAddr) -> bool {
    let ip = address.ip();
    let broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
    address.port() != 0 && !ip.is_multicast() && !ip.is_unspecified() && !broadcast
}

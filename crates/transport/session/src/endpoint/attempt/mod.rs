//! Connecting: copies of INIT to every address pair until one is answered.

mod relayed;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use manyway_units::{Backoff, Time};
use manyway_wire::{COOKIE_VALUE_LEN, ConnectionId, Cookie, OtherVersion, Reply, Ticket, VERSION};
use rand::RngExt;

use crate::connection::{Connection, RelayHeader, Start};
use crate::driver::compatible;
use crate::event::{CloseReason, Event};
use crate::handshake::{Established, HandshakeError, Initiator, InitiatorConfig, Places};

use relayed::Relayed;

use super::{ConnectError, ConnectionHandle, Endpoint, Incoming, Local, LocalId, Owner, Queued};

/// Copies of INIT to different address pairs leave this far apart.
const STAGGER: Duration = Duration::from_millis(250);
/// A copy that goes unanswered is repeated after this.
const REPEAT: Backoff = Backoff::new(STAGGER, Duration::from_secs(4));
/// Cookies taken for one address pair: a listener's secret changes rarely.
const MAX_COOKIES: u32 = 8;

/// A handshake under way from our side.
#[derive(Debug)]
pub(super) struct Attempt {
    initiator: Initiator,
    pub(super) cid: ConnectionId,
    pairs: Vec<Pair>,
    started: Time,
    deadline: Time,
    addresses: Vec<SocketAddr>,
    relayed: Option<Relayed>,
}

/// What a REPLY came to.
struct Answered {
    result: Result<Established, HandshakeError>,
    rtt: Option<Duration>,
    /// It came through a relay.
    relay: Option<RelayHeader>,
}

#[derive(Debug)]
struct Pair {
    local: LocalId,
    remote: SocketAddr,
    sent: u32,
    first_sent: Time,
    next: Time,
    /// What the listener, under load, wants to see again.
    cookie: Option<[u8; COOKIE_VALUE_LEN]>,
    cookies: u32,
    /// What is sent arrives: it needn't be repeated.
    reliable: bool,
}

impl Attempt {
    /// A socket is there: pairs of it are tried as well.
    pub(super) fn add_local(&mut self, now: Time, local: &Local) {
        let reachable = self
            .addresses
            .iter()
            .filter(|r| compatible(local.addr.ip(), r.ip()));
        self.pairs
            .extend(reachable.map(|remote| Pair::new(local.id, *remote, now)));
        if let Some(relayed) = &mut self.relayed {
            relayed.add_local(now, local);
        }
    }

    /// A carrier is there, to this address: an INIT goes there at once.
    pub(super) fn add_carrier(&mut self, now: Time, local: LocalId, remote: SocketAddr) {
        let mut pair = Pair::new(local, remote, now);
        pair.reliable = true;
        self.pairs.push(pair);
    }

    /// The listener may be there too.
    pub(super) fn add_remotes(&mut self, now: Time, locals: &[Local], remotes: &[SocketAddr]) {
        let mut further = 0;
        for remote in remotes {
            if self.addresses.contains(remote) {
                continue;
            }
            self.addresses.push(*remote);
            for local in locals
                .iter()
                .filter(|l| compatible(l.addr.ip(), remote.ip()))
            {
                self.pairs
                    .push(Pair::new(local.id, *remote, now + STAGGER * further));
                further += 1;
            }
        }
    }

    pub(super) fn cids(&self) -> Vec<ConnectionId> {
        let relayed = self.relayed.iter().flat_map(Relayed::cids);
        relayed.chain([self.cid]).collect()
    }

    pub(super) fn remove_local(&mut self, id: LocalId) {
        self.pairs.retain(|p| p.local != id);
        if let Some(relayed) = &mut self.relayed {
            relayed.remove_local(id);
        }
    }

    /// When the next copy of INIT is due, or the end.
    pub(super) fn timeout(&self) -> Time {
        let relayed = self.relayed.as_ref().and_then(Relayed::timeout);
        let pairs = self.pairs.iter().map(|p| p.next);
        pairs
            .chain(relayed)
            .min()
            .map_or(self.deadline, |next| next.min(self.deadline))
    }
}

impl Attempt {
    /// What came of a REPLY; `None` if it isn't to anything that was sent from there to there.
    fn on_reply(
        &mut self,
        now: Time,
        incoming: &Incoming<'_>,
        reply: &Reply<'_>,
    ) -> Option<Answered> {
        if reply.receiver_cid != self.cid {
            return self.relayed.as_mut()?.on_reply(now, incoming, reply);
        }
        let pair = asked(&mut self.pairs, incoming)?;
        // With several copies under way it can't be told which one was answered.
        let rtt = (pair.sent == 1).then(|| now.since(pair.first_sent));
        Some(Answered {
            result: self.initiator.on_reply(incoming.data),
            rtt,
            relay: None,
        })
    }
}

/// The pair of addresses on which this may be an answer.
fn asked<'a>(pairs: &'a mut [Pair], incoming: &Incoming<'_>) -> Option<&'a mut Pair> {
    let mut pairs = pairs.iter_mut();
    pairs.find(|p| p.local == incoming.local && p.remote == incoming.remote && p.sent > 0)
}

impl Pair {
    fn new(local: LocalId, remote: SocketAddr, first: Time) -> Self {
        Self {
            local,
            remote,
            sent: 0,
            first_sent: first,
            next: first,
            cookie: None,
            cookies: 0,
            reliable: false,
        }
    }
}

impl Endpoint {
    /// Starts to connect to a listener; [`Event::Connected`] or [`Event::Closed`] tells how it
    /// went.
    ///
    /// # Errors
    /// No socket of ours can reach any of the ticket's addresses, or the ticket is unusable.
    pub fn connect(
        &mut self,
        now: Time,
        ticket: &Ticket,
    ) -> Result<ConnectionHandle, ConnectError> {
        self.begin_attempt(now, ticket, None, &[])
    }

    fn begin_attempt(
        &mut self,
        now: Time,
        ticket: &Ticket,
        relayed: Option<Relayed>,
        relays: &[SocketAddr],
    ) -> Result<ConnectionHandle, ConnectError> {
        let mut pairs = Vec::new();
        for remote in &ticket.addresses {
            for local in self
                .locals
                .values()
                .filter(|l| self.config.udp && compatible(l.addr.ip(), remote.ip()))
            {
                let first = now + STAGGER * pairs.len() as u32;
                pairs.push(Pair::new(local.id, *remote, first));
            }
        }
        if pairs.is_empty() && relayed.is_none() && self.config.udp {
            return Err(ConnectError::NoPair {
                addresses: with_relays(&ticket.addresses, relays),
                remedy: self.pair_remedy(&ticket.addresses, relays),
            });
        }
        let cid = self.new_cid();
        let params = self.params(cid);
        let initiator = Initiator::new(
            InitiatorConfig {
                ticket,
                identity: self.config.identity.as_ref(),
                params,
                suite: self.config.suite,
                limits: self.key_limits(),
            },
            &mut self.rng,
        )?;
        let handle = ConnectionHandle(self.next_handle);
        self.next_handle += 1;
        self.cids.insert(cid, Owner::Attempt(handle));
        let deadline = now + self.config.connect_timeout;
        let addresses = ticket.addresses.clone();
        self.attempts.insert(
            handle,
            Attempt {
                initiator,
                cid,
                pairs,
                started: now,
                deadline,
                addresses,
                relayed,
            },
        );
        self.register(now, handle);
        Ok(handle)
    }

    pub(super) fn on_reply(&mut self, now: Time, incoming: Incoming<'_>) {
        let Ok(reply) = Reply::decode(incoming.data) else {
            return;
        };
        let Some(&Owner::Attempt(handle)) = self.cids.get(&reply.receiver_cid) else {
            return;
        };
        let Some(attempt) = self.attempts.get_mut(&handle) else {
            return;
        };
        let Some(answered) = attempt.on_reply(now, &incoming, &reply) else {
            return;
        };
        let Answered { result, rtt, relay } = answered;
        match result {
            Ok(established) => {
                self.established(now, handle, established, &incoming, (rtt, relay));
            }
            Err(error) if error.is_fatal() => {
                self.fail_attempt(handle, CloseReason::Protocol(error.to_string()))
            }
            Err(error) => tracing::debug!(remote = %incoming.remote, %error, "REPLY ignored"),
        }
    }

    /// The listener is under load: the INIT goes out once more to this address, with the cookie.
    pub(super) fn on_cookie(&mut self, now: Time, incoming: Incoming<'_>) {
        let Ok(cookie) = Cookie::decode(incoming.data) else {
            return;
        };
        let Some(&Owner::Attempt(handle)) = self.cids.get(&cookie.receiver_cid) else {
            return;
        };
        let Some(attempt) = self.attempts.get_mut(&handle) else {
            return;
        };
        let Some(pair) = asked(&mut attempt.pairs, &incoming) else {
            return;
        };
        let value = match attempt.initiator.on_cookie(incoming.data) {
            Ok(value) => value,
            Err(error) => {
                tracing::debug!(remote = %incoming.remote, %error, "COOKIE ignored");
                return;
            }
        };
        // A replayed COOKIE must not make us send: only one that is news does.
        if pair.cookie == Some(value) || pair.cookies == MAX_COOKIES {
            return;
        }
        pair.cookie = Some(value);
        pair.cookies += 1;
        pair.next = now;
        if pair.sent == 1 {
            // The one INIT that was sent is answered: the round-trip time is that of the next one.
            pair.sent = 0;
        }
        self.drive_attempt(now, handle);
    }

    /// The listener speaks another version: it is no use to go on.
    pub(super) fn on_other_version(&mut self, incoming: &Incoming<'_>) {
        let Ok(answer) = OtherVersion::decode(incoming.data) else {
            return;
        };
        let Some(&Owner::Attempt(handle)) = self.cids.get(&answer.receiver_cid) else {
            return;
        };
        let Some(attempt) = self.attempts.get_mut(&handle) else {
            return;
        };
        if asked(&mut attempt.pairs, incoming).is_none() {
            return;
        }
        match attempt.initiator.on_other_version(incoming.data) {
            Ok(theirs) => {
                let ours = VERSION;
                self.fail_attempt(handle, CloseReason::OtherVersion { ours, theirs });
            }
            Err(error) => tracing::debug!(remote = %incoming.remote, %error, "VERSION ignored"),
        }
    }

    fn established(
        &mut self,
        now: Time,
        handle: ConnectionHandle,
        established: Established,
        incoming: &Incoming<'_>,
        (rtt, relay): (Option<Duration>, Option<RelayHeader>),
    ) {
        let Some(attempt) = self.attempts.remove(&handle) else {
            return;
        };
        for cid in attempt.cids() {
            self.cids.remove(&cid);
        }
        let Some((local, facts)) = self.place(incoming.local) else {
            return;
        };
        let local = local.clone();
        let elapsed = now.since(attempt.started);
        tracing::debug!(remote = %incoming.remote, ?elapsed, "connected");
        let start = Start {
            initiator: true,
            established,
            local,
            remote: incoming.remote,
            // The answer came from there.
            validated: true,
            places: Places::default(),
            facts,
            rtt,
            relay,
            locals: self.locals.values().cloned().collect(),
            remotes: attempt.addresses,
            choices: self.rng.random(),
            secrets: self.rng.random(),
            named_in_all: self.named.clone(),
            memory: self.memory.clone(),
            relays: attempt.relayed.map(Relayed::into_client),
        };
        self.connections
            .insert(handle, Connection::new(now, self.config.clone(), start));
        self.settle(now, handle);
        self.offer_carriers(now, handle);
        self.touch(handle);
    }

    /// Sends the copies of INIT that are due, or gives up.
    pub(super) fn drive_attempt(&mut self, now: Time, handle: ConnectionHandle) {
        let Some(attempt) = self.attempts.get_mut(&handle) else {
            return;
        };
        if attempt.deadline <= now {
            let addresses = list(&attempt.addresses);
            let relays = attempt.relayed.as_ref().map(Relayed::contacts);
            let relays = relays.unwrap_or_default();
            self.fail_attempt(handle, CloseReason::ConnectTimedOut { addresses, relays });
            return;
        }
        for pair in attempt.pairs.iter_mut().filter(|p| p.next <= now) {
            if pair.sent == 0 {
                pair.first_sent = now;
            }
            pair.next = match pair.reliable {
                true => Time::MAX,
                false => now + REPEAT.delay(pair.sent),
            };
            pair.sent += 1;
            let data = match &pair.cookie {
                Some(cookie) => attempt.initiator.datagram_with(cookie).into(),
                None => Bytes::copy_from_slice(attempt.initiator.datagram()),
            };
            self.queue.push_back(Queued {
                local: pair.local,
                remote: pair.remote,
                data,
            });
        }
        self.drive_relayed(now, handle);
        self.register(now, handle);
    }

    fn fail_attempt(&mut self, handle: ConnectionHandle, reason: CloseReason) {
        self.events.push_back((handle, Event::Closed(reason)));
        self.forget(handle);
    }

    fn pair_remedy(&self, addresses: &[SocketAddr], relays: &[SocketAddr]) -> &'static str {
        let loopback = |addr: &SocketAddr| addr.ip().is_loopback();
        if self.locals.is_empty() {
            "no interface is up"
        } else if addresses.is_empty() && relays.is_empty() {
            "get another ticket, or access to its relays"
        } else if addresses.iter().chain(relays).all(loopback) {
            "a loopback address leads to its own host only: run this there, bound to loopback"
        } else if self.locals.values().all(|l| loopback(&l.addr)) {
            "only loopback is bound here; connect this host to a network, or name an interface"
        } else {
            "one side has only IPv4, the other only IPv6"
        }
    }
}

fn with_relays(addresses: &[SocketAddr], relays: &[SocketAddr]) -> String {
    let relays = relays.iter().map(|relay| format!("relay {relay}"));
    let all: Vec<String> = addresses
        .iter()
        .map(SocketAddr::to_string)
        .chain(relays)
        .collect();
    match all.is_empty() {
        true => "none".to_owned(),
        false => all.join(", "),
    }
}

fn list(addresses: &[SocketAddr]) -> String {
    addresses
        .iter()
        .map(SocketAddr::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}

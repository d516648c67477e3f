//! Decides whether, and to whom, a TCP connection's bytes are forwarded.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use manyway_wire::relay::{
    CallToken, Challenge, ForwardHeader, Hello, Listen, ListenKey, ListenerName, Mint, Peer,
    RateClass, Refusal, RelayId, RelayType, StreamAnswer, StreamConnect, StreamListen,
    StreamRefusal, StreamReply, StreamRequest, canonical,
};
use rand::CryptoRng;

use crate::address::{Kind, kind};
use crate::bucket::{Allowance, Bucket, Sketch};
use crate::keys::{Keys, verify};
use crate::rates::{Account, CELLS, Rates};
use crate::relay::{source, standing};
use crate::stream_counters::{Ending, StreamCounters};
use crate::{AccountTag, Config, Revoked, StreamLimits};

/// CONNECTs per second whose two signatures the relay checks: a sixteenth of a processor core. A
/// stream lasts long.
const VERIFICATIONS: u64 = 500;
/// CONNECTs and LISTENs per second from one source, with bursts of twice as many.
const SOURCE_REQUESTS: u64 = 20;
/// PINGs per second on one connection, with bursts of twice as many.
const PINGS: u64 = 2;

/// A TCP connection, as the relay's parts name it. Never used twice.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(u64);

/// What to do about a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Send this answer and read on.
    Reply(StreamReply),
    /// Confirm that it listens now. If another connection had its name before, tell and close that
    /// one.
    Listening(Option<ConnectionId>),
    /// Send this on the listener's connection and wait for its answer.
    Call(ConnectionId, StreamReply),
    /// Confirm to both, and splice this connection with the initiator's.
    Splice(ConnectionId, StreamTerms),
    /// Send this refusal and close.
    Refuse(StreamRefusal),
    /// Close in silence.
    Close,
}

/// The account that a stream counts against, and its rate.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct StreamTerms {
    /// Where [`Rates`] counts it.
    pub account: Account,
    /// Its rate.
    pub class: RateClass,
}

/// Decides about TCP connections without sockets and clock. It keeps an entry per connection, at
/// most [`StreamLimits::connections`] of them, until the connection is closed.
pub struct Gate {
    config: Config,
    limits: StreamLimits,
    keys: Keys,
    revoked: Revoked,
    rates: Arc<Rates>,
    connections: HashMap<ConnectionId, Connection>,
    /// How many connections haven't yet said what they are for.
    new: usize,
    /// For each source, how many of these it has and the oldest of them. The last entry names the
    /// first one to make way.
    crowds: BTreeSet<(usize, Reverse<ConnectionId>)>,
    names: HashMap<ListenerName, ConnectionId>,
    calls: HashMap<CallToken, ConnectionId>,
    sources: HashMap<[u8; 8], Source>,
    /// The number of streams of each account.
    accounts: HashMap<AccountTag, usize>,
    requests: Sketch,
    verifications: Bucket,
    next: u64,
    leaving: bool,
    counters: StreamCounters,
}

/// The connections of a source.
#[derive(Default)]
struct Source {
    all: usize,
    new: BTreeSet<ConnectionId>,
    listeners: usize,
}

impl Source {
    fn crowd(&self) -> Option<(usize, Reverse<ConnectionId>)> {
        Some((self.new.len(), Reverse(*self.new.first()?)))
    }
}

struct Connection {
    from: SocketAddr,
    role: Role,
}

enum Role {
    /// It has sent nothing, or only HELLO.
    New(Option<Challenge>),
    /// It can be called. `ringing` are the connections that wait for its answer.
    Listener {
        name: ListenerName,
        ringing: HashSet<CallToken>,
        pings: Bucket,
    },
    /// It waits for a listener.
    Caller {
        listener: ConnectionId,
        token: CallToken,
        tag: AccountTag,
        terms: StreamTerms,
    },
    /// One end of a stream. The initiator's end has the account.
    Spliced(Option<AccountTag>),
    /// The relay has told it to close.
    Over,
}

impl Gate {
    /// A gate that decides with these keys. `rng` serves hash tables only.
    pub fn new(
        config: Config,
        limits: StreamLimits,
        keys: Keys,
        rates: Arc<Rates>,
        rng: &mut (impl CryptoRng + ?Sized),
    ) -> Self {
        Self {
            config,
            limits,
            keys,
            revoked: Revoked::default(),
            rates,
            connections: HashMap::new(),
            new: 0,
            crowds: BTreeSet::new(),
            names: HashMap::new(),
            calls: HashMap::new(),
            sources: HashMap::new(),
            accounts: HashMap::new(),
            requests: Sketch::new(CELLS, || rng.next_u64()),
            verifications: Bucket::default(),
            next: 0,
            leaving: false,
            counters: StreamCounters::default(),
        }
    }

    /// Uses other keys from now on: those of the same relay after a rotation.
    pub fn set_keys(&mut self, keys: Keys) {
        self.keys = keys;
    }

    /// Refuses these accounts from now on, and no others. Returns the connections of their
    /// initiators, which have to end.
    pub fn set_revoked(&mut self, revoked: Revoked) -> Vec<ConnectionId> {
        self.revoked = revoked;
        let mut ending = Vec::new();
        for (id, connection) in &self.connections {
            if let Role::Caller { tag, .. } | Role::Spliced(Some(tag)) = &connection.role
                && self.revoked.contains(tag)
            {
                ending.push(*id);
            }
        }
        ending
    }

    /// Promises nothing new from now on. Returns the listeners, which should be told.
    pub fn leave(&mut self) -> Vec<ConnectionId> {
        self.leaving = true;
        self.names.values().copied().collect()
    }

    /// The counters, and the numbers of connections, listeners and streams.
    pub fn counters(&self) -> StreamCounters {
        let listening = self.names.len() as u64;
        let streams = self.accounts.values().map(|count| *count as u64).sum();
        StreamCounters {
            connections: self.connections.len() as u64,
            listening,
            streams,
            ..self.counters
        }
    }

    /// Counts the end of a connection that something outside the gate decided.
    pub fn ended(&mut self, why: Ending) {
        self.counters.end(why);
    }

    /// Admits an accepted connection. Returns the connection that has to make way for it, if any,
    /// or `None` if the new one should be closed at once.
    pub fn open(&mut self, from: SocketAddr) -> Option<(ConnectionId, Option<ConnectionId>)> {
        self.counters.accepted += 1;
        let from = canonical(from);
        let refused = self.refuses(from);
        if let Some(why) = refused {
            self.counters.end(why);
            return None;
        }
        let evicted = match self.new < self.limits.new && !self.is_full() {
            true => None,
            // A genuine client has sent its first message within some round trips, and a few
            // sources push out only each other.
            false => self.crowds.last().map(|(_, Reverse(oldest))| *oldest),
        };
        if let Some(id) = evicted {
            self.counters.end(Ending::Evicted);
            self.closed(id);
        }
        let id = ConnectionId(self.next);
        self.next += 1;
        let role = Role::New(None);
        self.connections.insert(id, Connection { from, role });
        self.sources.entry(source(from)).or_default().all += 1;
        self.set_new(id, true);
        Some((id, evicted))
    }

    fn is_full(&self) -> bool {
        self.connections.len() >= self.limits.connections
    }

    fn refuses(&self, from: SocketAddr) -> Option<Ending> {
        if kind(from) == Kind::Never || self.config.own.contains(&from) {
            return Some(Ending::Address);
        }
        let (new, all) = self
            .sources
            .get(&source(from))
            .map_or((0, 0), |own| (own.new.len(), own.all));
        if new >= self.limits.new_per_source || all >= self.limits.per_source {
            return Some(Ending::Source);
        }
        (self.is_full() && self.new == 0).then_some(Ending::Full)
    }

    /// Decides on a connection's message, which has as many bytes as [`stream_request_len`] says,
    /// or fewer if it isn't one. `now` is Unix time and never goes back; `rng` makes what nobody
    /// may guess.
    ///
    /// [`stream_request_len`]: manyway_wire::relay::stream_request_len
    pub fn receive(
        &mut self,
        now: Duration,
        id: ConnectionId,
        message: &[u8],
        rng: &mut (impl CryptoRng + ?Sized),
    ) -> Step {
        let outcome = match StreamRequest::decode(message) {
            Ok(StreamRequest::Hello(relay)) => self.hello(id, relay, rng),
            Ok(StreamRequest::Connect(connect, signature)) => {
                self.connect(now, id, &connect, &signature, rng)
            }
            Ok(StreamRequest::Listen(listen)) => self.listen(now, id, listen),
            Ok(StreamRequest::Answer(answer)) => self.answer(id, answer),
            Ok(StreamRequest::Ping) => self.ping(now, id),
            Err(_) => self.datagram(message),
        };
        outcome.unwrap_or_else(|no| {
            self.leave_role(id, Role::Over);
            match no {
                No::Refused(reason) => {
                    self.counters.refuse(reason);
                    Step::Refuse(reason)
                }
                No::Closed(why) => {
                    self.counters.end(why);
                    Step::Close
                }
            }
        })
    }

    /// The initiator has waited in vain, for this reason.
    pub fn uncalled(&mut self, id: ConnectionId, reason: StreamRefusal) {
        self.leave_role(id, Role::Over);
        self.counters.refuse(reason);
    }

    /// Forgets a closed connection.
    pub fn closed(&mut self, id: ConnectionId) {
        self.leave_role(id, Role::Over);
        let Some(connection) = self.connections.remove(&id) else {
            return;
        };
        let key = source(connection.from);
        if let Some(counts) = self.sources.get_mut(&key) {
            counts.all -= 1;
            if counts.all == 0 {
                self.sources.remove(&key);
            }
        }
    }

    fn hello(
        &mut self,
        id: ConnectionId,
        relay: RelayId,
        rng: &mut (impl CryptoRng + ?Sized),
    ) -> Outcome {
        self.first(id, relay)?;
        let mut challenge = Challenge([0; 16]);
        rng.fill_bytes(&mut challenge.0);
        // It still counts as new: HELLO proves nothing.
        self.set_role(id, Role::New(Some(challenge)));
        Ok(Step::Reply(StreamReply::Welcome(challenge)))
    }

    fn listen(&mut self, now: Duration, id: ConnectionId, listen: StreamListen) -> Outcome {
        self.first(id, listen.relay)?;
        self.stays()?;
        self.request(now, id)?;
        let name = name_of(&listen.key);
        let before = self.names.get(&name).copied();
        let own = self.source_of(id).map_or(0, |counts| counts.listeners);
        let full =
            self.names.len() >= self.limits.listeners || own >= self.limits.listeners_per_source;
        if before.is_none() && full {
            return Err(StreamRefusal::Busy.into());
        }
        if let Some(before) = before {
            self.leave_role(before, Role::Over);
            self.counters.refuse(StreamRefusal::Replaced);
        }
        let role = Role::Listener {
            name,
            ringing: HashSet::new(),
            pings: Bucket::default(),
        };
        self.leave_role(id, role);
        self.names.insert(name, id);
        if let Some(counts) = self.source_of(id) {
            counts.listeners += 1;
        }
        Ok(Step::Listening(before))
    }

    fn connect(
        &mut self,
        now: Duration,
        id: ConnectionId,
        connect: &StreamConnect,
        signature: &[u8; 64],
        rng: &mut (impl CryptoRng + ?Sized),
    ) -> Outcome {
        let challenge = match self.connections.get(&id).map(|found| &found.role) {
            Some(Role::New(Some(challenge))) => *challenge,
            _ => return Err(Ending::Malformed.into()),
        };
        let terms = &connect.voucher.terms;
        if terms.relay != self.keys.id() {
            return Err(Ending::OtherRelay.into());
        }
        self.stays()?;
        let Peer::Name(name) = connect.peer else {
            return Err(StreamRefusal::ForUdp.into());
        };
        let seconds = now.as_secs() as u32;
        let signers = (self.keys.id(), &self.config.trusted[..]);
        standing(terms, signers, &self.revoked, seconds).map_err(No::from)?;
        let listener = *self.names.get(&name).ok_or(StreamRefusal::UnknownName)?;
        let tag = AccountTag::in_voucher(terms);
        let streams = self.accounts.get(&tag).copied().unwrap_or_default();
        if streams >= self.limits.per_account {
            return Err(StreamRefusal::Account.into());
        }
        self.request(now, id)?;
        self.verified(now, connect, &challenge, signature)?;
        let token = self.ring(listener, rng)?;
        let highest = self.config.highest_class.unwrap_or(RateClass::MAX);
        let account = self.rates.account(&tag);
        self.rates.usage.called(account.place);
        let terms = StreamTerms {
            account,
            class: terms.class.min(highest),
        };
        *self.accounts.entry(tag).or_default() += 1;
        self.calls.insert(token, id);
        self.counters.calls += 1;
        let role = Role::Caller {
            listener,
            token,
            tag,
            terms,
        };
        self.leave_role(id, role);
        Ok(Step::Call(listener, StreamReply::Call(token)))
    }

    /// Whether the right keys have signed the request and its voucher: the expensive part.
    fn verified(
        &mut self,
        now: Duration,
        connect: &StreamConnect,
        challenge: &Challenge,
        signature: &[u8; 64],
    ) -> Result<(), No> {
        if !self
            .verifications
            .take(now, Allowance::events(1, VERIFICATIONS))
        {
            return Err(StreamRefusal::Busy.into());
        }
        let (terms, voucher) = (&connect.voucher.terms, &connect.voucher.signature);
        let genuine = verify(&terms.client, &connect.signed_bytes(challenge), signature)
            && verify(&terms.signer, &terms.signed_bytes(), voucher);
        match genuine {
            true => Ok(()),
            false => Err(StreamRefusal::Voucher.into()),
        }
    }

    /// A token for a call of this listener, unless it has too many.
    fn ring(
        &mut self,
        listener: ConnectionId,
        rng: &mut (impl CryptoRng + ?Sized),
    ) -> Result<CallToken, No> {
        let most = self.limits.ringing;
        match self.connections.get_mut(&listener).map(|it| &mut it.role) {
            Some(Role::Listener { ringing, .. }) if ringing.len() < most => {
                let mut token = CallToken([0; 16]);
                rng.fill_bytes(&mut token.0);
                ringing.insert(token);
                Ok(token)
            }
            _ => Err(StreamRefusal::Busy.into()),
        }
    }

    fn answer(&mut self, id: ConnectionId, answer: StreamAnswer) -> Outcome {
        self.first(id, answer.relay)?;
        let caller = self.calls.get(&answer.token).copied();
        let caller = caller.ok_or(StreamRefusal::CallOver)?;
        let Some(Role::Caller { tag, terms, .. }) =
            self.connections.get(&caller).map(|found| &found.role)
        else {
            return Err(StreamRefusal::CallOver.into());
        };
        let (tag, terms) = (*tag, *terms);
        // Count it for its account before taking its initiator role away, so that it is counted
        // throughout.
        *self.accounts.entry(tag).or_default() += 1;
        self.leave_role(caller, Role::Spliced(Some(tag)));
        self.leave_role(id, Role::Spliced(None));
        self.counters.spliced += 1;
        Ok(Step::Splice(caller, terms))
    }

    fn ping(&mut self, now: Duration, id: ConnectionId) -> Outcome {
        match self.connections.get(&id).map(|found| &found.role) {
            Some(Role::Listener { pings, .. }) => {
                match pings.take(now, Allowance::events(1, PINGS)) {
                    true => Ok(Step::Reply(StreamReply::Ping)),
                    false => Err(Ending::Flood.into()),
                }
            }
            _ => Err(Ending::Malformed.into()),
        }
    }

    /// A message of the UDP protocol. The relay says so to a client that knows it, or that shows
    /// something it made.
    fn datagram(&self, message: &[u8]) -> Outcome {
        let relay = match RelayType::of(message) {
            Some(RelayType::Hello) => Hello::decode(message).ok().map(|it| it.relay),
            Some(RelayType::Listen) => Listen::decode(message).ok().map(|it| it.relay),
            Some(RelayType::Mint) => Mint::decode(message)
                .ok()
                .map(|(it, _)| it.voucher.terms.relay),
            Some(RelayType::Forward4 | RelayType::Forward6) => {
                let header = ForwardHeader::decode(message).ok();
                let made = header.and_then(|header| {
                    let key = self.keys.by_id(header.key)?;
                    Some(key.made_for_another(&header))
                });
                match made {
                    Some(true) => Some(self.keys.id()),
                    _ => return Err(Ending::Forged.into()),
                }
            }
            _ => None,
        };
        match relay {
            Some(relay) if relay == self.keys.id() => Err(StreamRefusal::ForUdp.into()),
            Some(_) => Err(Ending::OtherRelay.into()),
            None => Err(Ending::Malformed.into()),
        }
    }

    /// Whether a message can be a connection's first one and names this relay.
    fn first(&self, id: ConnectionId, relay: RelayId) -> Result<(), No> {
        let connection = self.connections.get(&id).ok_or(Ending::Malformed)?;
        if !matches!(connection.role, Role::New(None)) {
            return Err(Ending::Malformed.into());
        }
        if relay != self.keys.id() {
            return Err(Ending::OtherRelay.into());
        }
        if kind(connection.from) == Kind::Private && !self.config.allow_private {
            return Err(StreamRefusal::Address.into());
        }
        Ok(())
    }

    fn stays(&self) -> Result<(), No> {
        match self.leaving {
            false => Ok(()),
            true => Err(StreamRefusal::Leaving.into()),
        }
    }

    /// Counts a request against its source's budget.
    fn request(&mut self, now: Duration, id: ConnectionId) -> Result<(), No> {
        let connection = self.connections.get(&id).ok_or(Ending::Malformed)?;
        let cells = self.requests.cells(&source(connection.from));
        let allowance = Allowance::events(1, SOURCE_REQUESTS);
        match self.requests.take(cells, now, allowance) {
            true => Ok(()),
            false => Err(StreamRefusal::Busy.into()),
        }
    }

    /// Gives a connection another role, and frees what it held in the old one.
    fn leave_role(&mut self, id: ConnectionId, next: Role) {
        self.set_new(id, false);
        match self.set_role(id, next) {
            Some(Role::Listener { name, .. }) => {
                if let Some(counts) = self.source_of(id) {
                    counts.listeners -= 1;
                }
                if self.names.get(&name) == Some(&id) {
                    self.names.remove(&name);
                }
            }
            Some(Role::Caller {
                listener,
                token,
                tag,
                ..
            }) => {
                self.calls.remove(&token);
                self.give_back(tag);
                if let Some(Role::Listener { ringing, .. }) =
                    self.connections.get_mut(&listener).map(|it| &mut it.role)
                {
                    ringing.remove(&token);
                }
            }
            Some(Role::Spliced(Some(tag))) => self.give_back(tag),
            _ => {}
        }
    }

    /// Counts a connection among the new ones, or no longer.
    fn set_new(&mut self, id: ConnectionId, is_new: bool) {
        let Some(connection) = self.connections.get(&id) else {
            return;
        };
        let Some(own) = self.sources.get_mut(&source(connection.from)) else {
            return;
        };
        if let Some(crowd) = own.crowd() {
            self.crowds.remove(&crowd);
        }
        match is_new {
            true => self.new += usize::from(own.new.insert(id)),
            false => self.new -= usize::from(own.new.remove(&id)),
        }
        if let Some(crowd) = own.crowd() {
            self.crowds.insert(crowd);
        }
    }

    fn source_of(&mut self, id: ConnectionId) -> Option<&mut Source> {
        let from = self.connections.get(&id)?.from;
        self.sources.get_mut(&source(from))
    }

    fn give_back(&mut self, tag: AccountTag) {
        if let Some(count) = self.accounts.get_mut(&tag) {
            *count -= 1;
            if *count == 0 {
                self.accounts.remove(&tag);
            }
        }
    }

    fn set_role(&mut self, id: ConnectionId, role: Role) -> Option<Role> {
        let connection = self.connections.get_mut(&id)?;
        Some(std::mem::replace(&mut connection.role, role))
    }
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gate")
            .field("counters", &self.counters())
            .finish_non_exhaustive()
    }
}

/// The name of a listener with this key.
pub fn name_of(key: &ListenKey) -> ListenerName {
    let hash = digest(&SHA256, &key.hashed_bytes());
    let mut name = [0; ListenerName::LEN];
    name.copy_from_slice(&hash.as_ref()[..ListenerName::LEN]);
    ListenerName(name)
}

type Outcome = Result<Step, No>;

/// Why the relay doesn't serve a connection.
enum No {
    /// The relay tells the client.
    Refused(StreamRefusal),
    /// The relay stays silent.
    Closed(Ending),
}

impl From<StreamRefusal> for No {
    fn from(reason: StreamRefusal) -> Self {
        Self::Refused(reason)
    }
}

impl From<Ending> for No {
    fn from(why: Ending) -> Self {
        Self::Closed(why)
    }
}

impl From<Refusal> for No {
    fn from(reason: Refusal) -> Self {
        Self::Refused(match reason {
            Refusal::VoucherExpired => StreamRefusal::VoucherExpired,
            Refusal::Revoked => StreamRefusal::Revoked,
            _ => StreamRefusal::Voucher,
        })
    }
}

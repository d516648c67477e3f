//! The initiator's side: from a relay's address to the two grants that a path through it needs.
//!
//! For each relay the listener's consent is asked for (RELAY, answered by CONSENT). With it, each
//! local socket gets a consent of its own from the relay (HELLO) and then the grants (MINT). They
//! are renewed whenever the listener sends a newer consent, which it does in time, and when the
//! relay calls them stale. Who doesn't answer is asked ever more rarely, and in the end given up.

mod known;
mod leaving;
mod replies;
mod requests;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use manyway_units::{Backoff, Time};
use manyway_wire::relay::{Grant, ListenerName, Nonce, Peer, Proof, Refusal};
use rand::SeedableRng;
use rand::rngs::ChaCha20Rng;

use super::{Pace, RelayAccess, RelayAddress};
use crate::driver::{Local, LocalId};
pub(crate) use leaving::HEED;
use leaving::Stay;

/// A request is repeated after this long, then after twice as long each time.
const REPEAT: Backoff = Backoff::new(Duration::from_millis(500), FIRST_ASKING);
/// Requests without an answer after which the listener is asked for a new consent.
const TRIES: u32 = 4;
/// The listener is asked again after this long, then after twice as long each time.
const FIRST_ASKING: Duration = Duration::from_secs(5);
const ASKING: Backoff = Backoff::new(FIRST_ASKING, Duration::from_secs(320));
/// So often in vain, over a quarter of an hour in all, before the relay is given up.
const ROUNDS: u32 = 8;
/// The listener renews its consent by itself; it is asked if that is this late.
const OVERDUE: Duration = Duration::from_secs(75);
/// Two series of requests that something urgent asks for are at least this far apart.
const URGENT: Duration = Duration::from_secs(1);
/// A grant isn't used any more this long before its end: it has to get there, too.
const MARGIN: Duration = Duration::from_secs(2);

/// The way from a socket of ours through a relay: at most one path.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RelayRoute(pub(crate) u64);

/// What has come of a route.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// It has its first grants.
    Granted(RelayRoute),
    /// It has newer grants.
    Renewed(RelayRoute),
    /// The relay says that it is leaving, or somebody does in its name.
    Leaving(RelayRoute),
    /// It is leaving: it gives nothing any more.
    Left(RelayRoute),
    /// It isn't leaving, or not any more.
    Stays(RelayRoute),
    /// The relay at this address refuses what it has granted before.
    Refused(SocketAddr, Refusal),
    /// It is no more: socket or relay are gone, or the relay refuses or doesn't answer.
    Gone(RelayRoute),
}

/// A request to the listener.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ask {
    pub(crate) slot: u16,
    pub(crate) seq: u64,
    pub(crate) relay: Option<RelayAddress>,
}

/// What a path through a relay needs.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Grants {
    /// Goes in front of our datagrams.
    pub(crate) there: Grant,
    /// Goes in front of the listener's.
    pub(crate) back: Grant,
    expires: Time,
}

#[derive(Debug)]
struct Relay {
    info: RelayAccess,
    /// Of the first RELAY about it and of the newest.
    first_seq: u64,
    seq: u64,
    peer: Option<Peer>,
    /// What the listener is known by at the relay, if it is: good even when it can't tell us
    /// anything.
    name: Option<ListenerName>,
    /// When the listener is asked once more, and how often that was in vain.
    ask_at: Option<Time>,
    asked: u32,
    refused: Option<Refusal>,
}

#[derive(Debug)]
struct RouteState {
    slot: u16,
    local: LocalId,
    relay: SocketAddr,
    grants: Option<Grants>,
    /// That we get what is sent to our own address, and when the relay said so.
    own: Option<(Proof, Time)>,
    /// When new grants are wanted, if nobody else says so.
    mint_at: Option<Time>,
    /// Of the request under way.
    nonce: Nonce,
    /// Requests without an answer.
    sent: u32,
    /// When the next request is due.
    next: Option<Time>,
    last_sent: Option<Time>,
    rounds: u32,
    stay: Stay,
    /// When it last turned out that the relay stays after all.
    stayed: Option<Time>,
}

/// Every relay that a connection, or the attempt at one, may use.
#[derive(Debug)]
pub(crate) struct RelayClient {
    rng: ChaCha20Rng,
    locals: Vec<Local>,
    relays: BTreeMap<u16, Relay>,
    /// The last RELAY of slots that are empty.
    emptied: BTreeMap<u16, u64>,
    states: BTreeMap<RelayRoute, RouteState>,
    next_route: u64,
    pace: Pace,
    wake: Option<Time>,
    asks: Vec<Ask>,
    news: Vec<News>,
}

impl RelayClient {
    pub(crate) fn new(seed: [u8; 32], locals: Vec<Local>) -> Self {
        Self {
            rng: ChaCha20Rng::from_seed(seed),
            locals,
            relays: BTreeMap::new(),
            emptied: BTreeMap::new(),
            states: BTreeMap::new(),
            next_route: 1,
            pace: Pace::default(),
            wake: None,
            asks: Vec::new(),
            news: Vec::new(),
        }
    }

    /// What a route's path needs, as long as it is valid.
    pub(crate) fn grants(&self, now: Time, route: RelayRoute) -> Option<&Grants> {
        let grants = self.states.get(&route)?.grants.as_ref()?;
        (now + MARGIN < grants.expires).then_some(grants)
    }

    /// A route's socket and relay.
    pub(crate) fn ends(&self, route: RelayRoute) -> Option<(&Local, SocketAddr)> {
        let state = self.states.get(&route)?;
        let local = self.locals.iter().find(|local| local.id == state.local)?;
        Some((local, state.relay))
    }

    pub(crate) fn route(&self, local: LocalId, relay: SocketAddr) -> Option<RelayRoute> {
        let mut states = self.states.iter();
        let (&route, _) = states.find(|(_, state)| state.local == local && state.relay == relay)?;
        Some(route)
    }

    /// All relays with their routes, and why one gave no grants the last time.
    pub(crate) fn relays(
        &self,
    ) -> impl Iterator<Item = (RelayAddress, Option<Refusal>, Vec<RelayRoute>)> {
        self.relays
            .iter()
            .map(|(&slot, relay)| (relay.info.relay, relay.refused, self.routes_of(slot)))
    }

    /// All relays, with what access to them allows (bytes/s) and their routes.
    pub(crate) fn bounds(&self) -> Vec<(RelayAddress, f64, Vec<RelayRoute>)> {
        self.relays
            .iter()
            .map(|(&slot, relay)| (relay.info.relay, relay.info.bound(), self.routes_of(slot)))
            .collect()
    }

    /// The relay that a route leads through.
    pub(crate) fn relay_of(&self, route: RelayRoute) -> Option<RelayAddress> {
        let slot = self.states.get(&route)?.slot;
        Some(self.relays.get(&slot)?.info.relay)
    }

    /// Routes that have had grants.
    pub(crate) fn granted(&self) -> Vec<RelayRoute> {
        let granted = self
            .states
            .iter()
            .filter(|(_, state)| state.grants.is_some());
        granted.map(|(&route, _)| route).collect()
    }

    pub(crate) fn take_asks(&mut self) -> Vec<Ask> {
        std::mem::take(&mut self.asks)
    }

    pub(crate) fn take_news(&mut self) -> Vec<News> {
        std::mem::take(&mut self.news)
    }

    pub(crate) fn has_news(&self) -> bool {
        !self.news.is_empty() || !self.asks.is_empty()
    }

    /// When [`RelayClient::poll`] has something to do.
    pub(crate) fn timeout(&self) -> Option<Time> {
        self.wake
    }

    /// The next time is found when something changes, not with every packet.
    fn reschedule(&mut self) {
        let requests = self.states.values().filter_map(RouteState::due).min();
        let requests = requests.map(|at| at.max(self.pace.next()));
        let asks = self.relays.values().filter_map(|relay| relay.ask_at).min();
        self.wake = requests.into_iter().chain(asks).min();
    }
}

impl RouteState {
    fn due(&self) -> Option<Time> {
        [self.next, self.mint_at].into_iter().flatten().min()
    }

    fn awaits(&self, nonce: Nonce) -> bool {
        self.sent > 0 && self.nonce == nonce
    }
}

impl Relay {
    fn ask(&self, slot: u16) -> Ask {
        Ask {
            slot,
            seq: self.seq,
            relay: Some(self.info.relay),
        }
    }

    /// The request that follows is a new one; the one after that will be later.
    fn ask_again(&mut self, now: Time) {
        self.seq += 1;
        self.ask_at = Some(now + ASKING.delay(self.asked));
        self.asked += 1;
    }
}

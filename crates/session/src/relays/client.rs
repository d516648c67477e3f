//! The initiator's side: from a relay's address to the two grants that a path through it needs.
//!
//! For each relay the listener's consent is asked for (RELAY, answered by CONSENT). With it, each local socket gets a consent of its own from the
//! relay (HELLO) and then the grants (MINT). They are renewed whenever the listener sends a newer consent, which it does in time, and when the
//! relay calls them stale. Who doesn't answer is asked ever more rarely, and in the end given up.

mod leaving;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use manyway_units::Time;
use manyway_wire::relay::{
    Consent, ConsentReply, Grant, Hello, ListenerName, Mint, Minted, Nonce, Peer, Proof, Refusal,
    Refused, RelayReply, Stale, StaleReason,
};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::{Datagram, PROOF_LIFE, Pace, RelayAccess, RelayAddress};
use crate::connection::compatible;
use crate::endpoint::{Local, LocalId};
pub(crate) use leaving::HEED;
use leaving::Stay;

/// A request is repeated after this long, then after twice as long each time.
const FIRST_REPEAT: Duration = Duration::from_millis(500);
/// Requests without an answer after which the listener is asked for a new consent.
const TRIES: u32 = 4;
/// The listener is asked again after this long, then after twice as long each time.
const FIRST_ASKING: Duration = Duration::from_secs(5);
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
pub(crate) struct Lane(pub(crate) u64);

/// What has come of a lane.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// It has its first grants.
    Granted(Lane),
    /// It has newer grants.
    Renewed(Lane),
    /// The relay says that it is leaving, or somebody does in its name.
    Leaving(Lane),
    /// It is leaving: it gives nothing any more.
    Left(Lane),
    /// It isn't leaving, or not any more.
    Stays(Lane),
    /// It is no more: socket or relay are gone, or the relay refuses or doesn't answer.
    Gone(Lane),
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
    /// What the listener is known by at the relay, if it is: good even when it can't tell us anything.
    name: Option<ListenerName>,
    /// When the listener is asked once more, and how often that was in vain.
    ask_at: Option<Time>,
    asked: u32,
    refused: Option<Refusal>,
}

#[derive(Debug)]
struct Way {
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
    rng: Pcg64Mcg,
    locals: Vec<Local>,
    relays: BTreeMap<u16, Relay>,
    /// The last RELAY of slots that are empty.
    emptied: BTreeMap<u16, u64>,
    ways: BTreeMap<Lane, Way>,
    next_lane: u64,
    pace: Pace,
    wake: Option<Time>,
    asks: Vec<Ask>,
    news: Vec<News>,
}

impl RelayClient {
    pub(crate) fn new(seed: [u8; 16], locals: Vec<Local>) -> Self {
        Self {
            rng: Pcg64Mcg::from_seed(seed),
            locals,
            relays: BTreeMap::new(),
            emptied: BTreeMap::new(),
            ways: BTreeMap::new(),
            next_lane: 1,
            pace: Pace::default(),
            wake: None,
            asks: Vec::new(),
            news: Vec::new(),
        }
    }

    /// Takes relays into use, but for those beyond [`MAX_RELAYS`](manyway_wire::MAX_RELAYS); those known already get the access given
    /// from now on. How many were new.
    pub(crate) fn add(&mut self, now: Time, relays: &[RelayAccess]) -> usize {
        let added = relays
            .iter()
            .filter(|info| self.add_one(now, info).is_some());
        let added = added.count();
        self.reschedule();
        added
    }

    fn add_one(&mut self, now: Time, info: &RelayAccess) -> Option<u16> {
        if let Some(slot) = self.slot_of(info.relay.address) {
            if let Some(known) = self.relays.get_mut(&slot)
                && known.info.relay == info.relay
            {
                known.info = info.clone();
            }
            return None;
        }
        let mut slots = 0..manyway_wire::MAX_RELAYS as u16;
        let slot = slots.find(|slot| !self.relays.contains_key(slot))?;
        let seq = self.emptied.remove(&slot).map_or(0, |seq| seq + 1);
        let relay = Relay {
            info: info.clone(),
            first_seq: seq,
            seq,
            peer: None,
            name: None,
            ask_at: Some(now + FIRST_ASKING),
            asked: 0,
            refused: None,
        };
        self.asks.push(relay.ask(slot));
        self.relays.insert(slot, relay);
        for local in self.locals.clone() {
            self.add_way(slot, info.relay.address, &local);
        }
        Some(slot)
    }

    /// A relay at which the listener is known by a name: no connection is needed to mint there.
    pub(crate) fn add_named(&mut self, now: Time, info: &RelayAccess, name: ListenerName) {
        if let Some(slot) = self.add_one(now, info) {
            if let Some(relay) = self.relays.get_mut(&slot) {
                (relay.peer, relay.name, relay.ask_at) = (Some(Peer::Name(name)), Some(name), None);
            }
            self.start_all(now, slot);
        }
        self.reschedule();
    }

    fn remove_slot(&mut self, slot: u16) {
        let Some(relay) = self.relays.remove(&slot) else {
            return;
        };
        let seq = relay.seq + 1;
        self.emptied.insert(slot, seq);
        self.asks.push(Ask {
            slot,
            seq,
            relay: None,
        });
        self.remove_ways(|way| way.slot == slot);
    }

    /// Gives a lane up for good; the relay goes with its last lane.
    pub(crate) fn remove(&mut self, lane: Lane) {
        let Some(slot) = self.ways.get(&lane).map(|way| way.slot) else {
            return;
        };
        self.ways.remove(&lane);
        self.news.push(News::Gone(lane));
        if !self.ways.values().any(|way| way.slot == slot) {
            self.remove_slot(slot);
        }
        self.reschedule();
    }

    pub(crate) fn add_local(&mut self, now: Time, local: &Local) {
        self.locals.retain(|l| l.id != local.id);
        self.locals.push(local.clone());
        let relays: Vec<_> = self
            .relays
            .iter()
            .map(|(&slot, relay)| (slot, relay.info.relay.address))
            .collect();
        for (slot, address) in relays {
            if let Some(lane) = self.add_way(slot, address, local) {
                self.start(now, lane);
            }
        }
        self.reschedule();
    }

    pub(crate) fn remove_local(&mut self, id: LocalId) {
        self.locals.retain(|l| l.id != id);
        self.remove_ways(|way| way.local == id);
        self.reschedule();
    }

    /// The listener consents to the relay that was in the slot when RELAY number `seq` was sent.
    pub(crate) fn on_consent(&mut self, now: Time, slot: u16, seq: u64, consent: Consent) {
        let Some(relay) = self.relays.get_mut(&slot) else {
            return;
        };
        let older = |peer: &Peer| match peer {
            Peer::Consent(known) => known.issued > consent.issued,
            Peer::Name(_) => false,
        };
        if seq < relay.first_seq || relay.peer.as_ref().is_some_and(older) {
            return;
        }
        relay.peer = Some(Peer::Consent(consent));
        relay.ask_at = Some(now + OVERDUE);
        self.start_all(now, slot);
        self.reschedule();
    }

    /// Takes what a relay says; whether it was meant for us.
    pub(crate) fn on_reply(
        &mut self,
        now: Time,
        (local, from): (LocalId, SocketAddr),
        reply: &RelayReply,
    ) -> bool {
        let Some(lane) = self.lane(local, from) else {
            return false;
        };
        let taken = match reply {
            RelayReply::Consent(reply) => self.on_proof(now, lane, reply),
            RelayReply::Minted(minted) => self.on_minted(now, lane, minted),
            RelayReply::Refused(refused) => self.on_refused(now, lane, refused),
            RelayReply::Stale(stale) => self.on_stale(now, lane, stale),
        };
        self.reschedule();
        taken
    }

    fn on_proof(&mut self, now: Time, lane: Lane, reply: &ConsentReply) -> bool {
        let Some(way) = self
            .ways
            .get_mut(&lane)
            .filter(|way| way.awaits(reply.nonce))
        else {
            return false;
        };
        way.own = Some((reply.proof, now));
        (way.sent, way.next) = (0, Some(now));
        self.on_stay(now, lane);
        true
    }

    fn on_minted(&mut self, now: Time, lane: Lane, minted: &Minted) -> bool {
        let Some(way) = self
            .ways
            .get_mut(&lane)
            .filter(|way| way.awaits(minted.nonce))
        else {
            return false;
        };
        let ends = minted.there.expires().min(minted.back.expires());
        let lifetime = Duration::from_secs(ends.saturating_sub(minted.now).into());
        let first = way.grants.is_none();
        way.grants = Some(Grants {
            there: minted.there,
            back: minted.back,
            expires: now + lifetime,
        });
        (way.sent, way.rounds) = (0, 0);
        (way.next, way.mint_at) = (None, None);
        if let Some(relay) = self.relays.get_mut(&way.slot) {
            (relay.asked, relay.refused) = (0, None);
            if matches!(relay.peer, Some(Peer::Name(_))) {
                way.mint_at = Some(now + lifetime / 2);
            }
        }
        self.news.push(match first {
            true => News::Granted(lane),
            false => News::Renewed(lane),
        });
        self.on_stay(now, lane);
        true
    }

    fn on_refused(&mut self, now: Time, lane: Lane, refused: &Refused) -> bool {
        let Some(way) = self
            .ways
            .get_mut(&lane)
            .filter(|way| way.awaits(refused.nonce))
        else {
            return false;
        };
        (way.sent, way.next, way.own) = (0, None, None);
        let slot = way.slot;
        tracing::debug!(relay = %way.relay, reason = %refused.reason, "no grants");
        if let Some(relay) = self.relays.get_mut(&slot) {
            relay.refused = Some(refused.reason);
        }
        match refused.reason {
            Refusal::Voucher | Refusal::VoucherExpired | Refusal::Address => self.remove(lane),
            Refusal::Leaving => {
                self.on_left(lane);
                self.next_round(now, lane);
            }
            Refusal::Consent | Refusal::UnknownName => self.next_round(now, lane),
            Refusal::Busy => {
                if let Some(way) = self.ways.get_mut(&lane) {
                    way.next = Some(now + FIRST_ASKING);
                }
            }
        }
        true
    }

    fn on_stale(&mut self, now: Time, lane: Lane, stale: &Stale) -> bool {
        let Some(way) = self.ways.get_mut(&lane) else {
            return false;
        };
        if !way
            .grants
            .as_ref()
            .is_some_and(|g| stale.concerns(&g.there))
        {
            return false;
        }
        match stale.reason {
            StaleReason::Leaving => self.on_leaving(now, lane),
            StaleReason::Moved => {
                way.own = None;
                self.refresh(now, lane);
            }
            StaleReason::Expired => self.distrust(now, lane),
        }
        true
    }

    /// New grants, unless they are being asked for.
    fn refresh(&mut self, now: Time, lane: Lane) {
        let Some(way) = self.ways.get(&lane) else {
            return;
        };
        if way.next.is_none() && way.last_sent.is_none_or(|at| at + URGENT <= now) {
            self.start(now, lane);
        }
    }

    /// The path doesn't answer: the relay may have forgotten everything, its keys included. So from the beginning.
    pub(crate) fn distrust(&mut self, now: Time, lane: Lane) {
        let Some(way) = self.ways.get_mut(&lane) else {
            return;
        };
        way.own = None;
        if let Some(relay) = self.relays.get_mut(&way.slot)
            && relay.asked == 0
        {
            relay.ask_again(now);
            relay.peer = relay.name.map(Peer::Name).or(relay.peer);
            self.asks.push(relay.ask(way.slot));
        }
        self.refresh(now, lane);
        self.reschedule();
    }

    /// What a lane's path needs, as long as it is valid.
    pub(crate) fn grants(&self, now: Time, lane: Lane) -> Option<&Grants> {
        let grants = self.ways.get(&lane)?.grants.as_ref()?;
        (now + MARGIN < grants.expires).then_some(grants)
    }

    /// A lane's socket and relay.
    pub(crate) fn ends(&self, lane: Lane) -> Option<(&Local, SocketAddr)> {
        let way = self.ways.get(&lane)?;
        let local = self.locals.iter().find(|local| local.id == way.local)?;
        Some((local, way.relay))
    }

    pub(crate) fn lane(&self, local: LocalId, relay: SocketAddr) -> Option<Lane> {
        let mut ways = self.ways.iter();
        let (&lane, _) = ways.find(|(_, way)| way.local == local && way.relay == relay)?;
        Some(lane)
    }

    /// All relays with their lanes, and why one gave no grants the last time.
    pub(crate) fn relays(
        &self,
    ) -> impl Iterator<Item = (RelayAddress, Option<Refusal>, Vec<Lane>)> {
        self.relays
            .iter()
            .map(|(&slot, relay)| (relay.info.relay, relay.refused, self.lanes_of(slot)))
    }

    /// Lanes that have had grants.
    pub(crate) fn granted(&self) -> Vec<Lane> {
        let granted = self.ways.iter().filter(|(_, way)| way.grants.is_some());
        granted.map(|(&lane, _)| lane).collect()
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

    /// Does what is due; the next datagram to send.
    pub(crate) fn poll(&mut self, now: Time) -> Option<Datagram> {
        if self.wake.is_none_or(|at| at > now) {
            return None;
        }
        self.ask_overdue(now);
        let mut datagram = None;
        while datagram.is_none() && self.pace.permits(now) {
            let due =
                |(&lane, way): (&Lane, &Way)| Some((way.due().filter(|at| *at <= now)?, lane));
            let Some((_, lane)) = self.ways.iter().filter_map(due).min() else {
                break;
            };
            datagram = self.request(now, lane);
        }
        if datagram.is_some() {
            self.pace.note(now);
        }
        self.reschedule();
        datagram
    }

    /// The HELLO or MINT that is due on this lane; or the end of a series.
    fn request(&mut self, now: Time, lane: Lane) -> Option<Datagram> {
        let way = self.ways.get_mut(&lane)?;
        way.next = None;
        if way.mint_at.is_some_and(|at| at <= now) {
            (way.mint_at, way.sent) = (None, 0);
        }
        if way.sent >= TRIES {
            way.own = None;
            self.next_round(now, lane);
            return None;
        }
        let relay = self.relays.get(&way.slot)?;
        // Without the listener's consent there is nothing to ask for.
        let peer = relay.peer?;
        if way.sent == 0 {
            way.nonce = Nonce(self.rng.random());
        }
        let nonce = way.nonce;
        let own = way.own.filter(|(_, at)| now.since(*at) < PROOF_LIFE);
        let data = match own {
            None => {
                let relay = relay.info.relay.id;
                Vec::from(Hello { nonce, relay }.to_bytes())
            }
            Some((proof, _)) => {
                let mint = Mint {
                    nonce,
                    proof,
                    peer,
                    voucher: relay.info.access.voucher,
                };
                Vec::from(mint.seal(|message| relay.info.sign(message)))
            }
        };
        way.next = Some(now + FIRST_REPEAT * 2u32.pow(way.sent));
        way.sent += 1;
        way.last_sent = Some(now);
        Some(Datagram {
            local: way.local,
            remote: way.relay,
            data: data.into(),
        })
    }

    /// The relay gave no grants: again, with a newer consent of the listener's, or never.
    fn next_round(&mut self, now: Time, lane: Lane) {
        if self
            .ways
            .get(&lane)
            .is_some_and(|way| way.stay == Stay::Doubted)
        {
            self.on_left(lane);
        }
        let Some(way) = self.ways.get_mut(&lane) else {
            return;
        };
        (way.sent, way.next) = (0, None);
        way.rounds += 1;
        if way.rounds > ROUNDS {
            self.remove(lane);
            return;
        }
        let Some(relay) = self.relays.get_mut(&way.slot) else {
            return;
        };
        relay.peer = relay.name.map(Peer::Name).or(relay.peer);
        if relay.name.is_some() {
            way.next = Some(now + FIRST_ASKING.min(FIRST_REPEAT * 2u32.pow(way.rounds)));
        }
        if relay.asked == 0 && (relay.name.is_none() || way.grants.is_some()) {
            relay.ask_again(now);
            self.asks.push(relay.ask(way.slot));
        }
    }

    /// Relays to which the listener has brought no consent for long.
    fn ask_overdue(&mut self, now: Time) {
        let mut given_up = Vec::new();
        for (&slot, relay) in &mut self.relays {
            if relay.ask_at.is_none_or(|at| at > now) {
                continue;
            }
            if relay.asked >= ROUNDS {
                given_up.push(slot);
                continue;
            }
            relay.ask_again(now);
            self.asks.push(relay.ask(slot));
        }
        for slot in given_up {
            self.remove_slot(slot);
        }
    }

    fn start_all(&mut self, now: Time, slot: u16) {
        for lane in self.lanes_of(slot) {
            self.start(now, lane);
        }
    }

    fn start(&mut self, now: Time, lane: Lane) {
        if let Some(way) = self.ways.get_mut(&lane) {
            (way.sent, way.next) = (0, Some(now));
        }
    }

    fn add_way(&mut self, slot: u16, relay: SocketAddr, local: &Local) -> Option<Lane> {
        if !compatible(local.addr.ip(), relay.ip()) || self.lane(local.id, relay).is_some() {
            return None;
        }
        let lane = Lane(self.next_lane);
        self.next_lane += 1;
        let way = Way {
            slot,
            local: local.id,
            relay,
            grants: None,
            own: None,
            mint_at: None,
            nonce: Nonce(self.rng.random()),
            sent: 0,
            next: None,
            last_sent: None,
            rounds: 0,
            stay: Stay::Yes,
            stayed: None,
        };
        self.ways.insert(lane, way);
        Some(lane)
    }

    fn remove_ways(&mut self, gone: impl Fn(&Way) -> bool) {
        let news = &mut self.news;
        self.ways.retain(|&lane, way| {
            let gone = gone(way);
            if gone {
                news.push(News::Gone(lane));
            }
            !gone
        });
    }

    fn slot_of(&self, address: SocketAddr) -> Option<u16> {
        let mut relays = self.relays.iter();
        let (&slot, _) = relays.find(|(_, relay)| relay.info.relay.address == address)?;
        Some(slot)
    }

    fn lanes_of(&self, slot: u16) -> Vec<Lane> {
        let ways = self.ways.iter().filter(|(_, way)| way.slot == slot);
        ways.map(|(&lane, _)| lane).collect()
    }

    /// The next time is found when something changes, not with every packet.
    fn reschedule(&mut self) {
        let requests = self.ways.values().filter_map(Way::due).min();
        let requests = requests.map(|at| at.max(self.pace.next()));
        let asks = self.relays.values().filter_map(|relay| relay.ask_at).min();
        self.wake = requests.into_iter().chain(asks).min();
    }
}

impl Way {
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
        self.ask_at = Some(now + FIRST_ASKING * 2u32.pow(self.asked.min(6)));
        self.asked += 1;
    }
}

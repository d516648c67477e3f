//! Decides what happens to a datagram.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use manyway_wire::relay::{
    CONSENT_LIFE, Consent, ConsentReply, ForwardHeader, GRANT_LIFE, Grant, Hello, Listen,
    ListenerName, Mint, Minted, Nonce, Peer, Proof, RateClass, Refusal, Refused, RelayId,
    RelayType, Stale, StaleReason, Voucher, VoucherTerms, canonical, is_relay_datagram,
};
use rand::CryptoRng;

use crate::address::{Kind, kind};
use crate::bucket::{Allowance, Bucket, Sketch};
use crate::keys::{GrantTerms, Keys, verify};
use crate::listeners::Listeners;
use crate::rates::{Account, CELLS, Rates};
use crate::{AccountTag, Counters, Reason, Reply, Revoked};

/// Answers per second to one source, with bursts of twice as many. A source is an IPv4 address or
/// an IPv6 /64: many users may be behind one, and each says HELLO four times a minute.
const SOURCE_REPLIES: u64 = 100;
/// The weights of a LISTEN and a MINT among them: the former takes room, the latter time.
const LISTEN_WEIGHT: u64 = 10;
const MINT_WEIGHT: u64 = 5;
/// Answers per second to all sources together: 800 kB/s.
const ALL_REPLIES: u64 = 20_000;
/// MINTs per second whose two signatures the relay checks: a quarter of a processor core.
const VERIFICATIONS: u64 = 2_000;
/// STALE messages per second about one grant from one address.
const STALE_REPLIES: u64 = 1;

/// Sets of listeners' names: 32,768 entries.
const LISTENER_SETS: usize = 1 << 13;

/// The policy that a relay's operator sets.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The keys whose vouchers are good, besides the relay's own.
    pub trusted: Vec<RelayId>,
    /// The relay's own addresses, to which it never forwards.
    pub own: Vec<SocketAddr>,
    /// Forward to private addresses and this host, too: for relays inside one network, and tests.
    pub allow_private: bool,
    /// Bytes per second that the relay forwards altogether; unlimited if `None`.
    pub limit: Option<u64>,
    /// The highest class that a voucher can have here, whatever it says.
    pub highest_class: Option<RateClass>,
}

/// What to do with a datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Forward it.
    Forward {
        /// Its destination.
        to: SocketAddr,
        /// The number of bytes at its front to remove.
        header_len: usize,
        /// A message to its sender in addition.
        notice: Option<Reply>,
    },
    /// Answer its sender.
    Reply(Reply),
    /// Drop it.
    Drop(Reason),
}

/// A relay without sockets and clock. Its memory doesn't grow.
pub struct Relay {
    config: Config,
    keys: Keys,
    revoked: Revoked,
    rates: Arc<Rates>,
    sources: Sketch,
    listeners: Listeners,
    /// Budgets for answers to sources that haven't proved their address, and to those that have.
    replies: [Bucket; 2],
    verifications: Bucket,
    /// The last grant that passed: the following packets of its run need no check.
    last: Option<Checked>,
    leaving: bool,
    counters: Counters,
}

/// A checked grant, and its source.
#[derive(Copy, Clone)]
struct Checked {
    from: SocketAddr,
    /// The header, zeros behind it.
    header: [u8; Grant::MAX_LEN],
    terms: Terms,
}

impl Checked {
    /// Whether a datagram belongs to the same run.
    fn covers(&self, from: SocketAddr, datagram: &[u8]) -> bool {
        self.from == from && datagram.starts_with(&self.header[..self.terms.header_len])
    }
}

/// What remains of a grant after the check.
#[derive(Copy, Clone)]
struct Terms {
    to: SocketAddr,
    header_len: usize,
    expires: u32,
    class: RateClass,
    account: Account,
}

type Outcome = Result<Action, Reason>;

impl std::fmt::Debug for Relay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Relay")
            .field("id", &self.id())
            .finish_non_exhaustive()
    }
}

impl Relay {
    /// A relay with these keys. `rng` serves hash tables only, so that nobody can choose whom to
    /// collide with.
    pub fn new(config: Config, keys: Keys, rng: &mut (impl CryptoRng + ?Sized)) -> Self {
        let mut random = || rng.next_u64();
        let own = config.own.iter().copied().map(canonical).collect();
        Self {
            rates: Arc::new(Rates::new(config.limit, &mut random)),
            sources: Sketch::new(CELLS, &mut random),
            listeners: Listeners::new(LISTENER_SETS, &mut random),
            config: Config { own, ..config },
            keys,
            revoked: Revoked::default(),
            replies: Default::default(),
            verifications: Bucket::default(),
            last: None,
            leaving: false,
            counters: Counters::default(),
        }
    }

    /// The relay's id.
    pub fn id(&self) -> RelayId {
        self.keys.id()
    }

    /// The relay's keys.
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Uses other keys from now on: those of the same relay after a rotation.
    pub fn set_keys(&mut self, keys: Keys) {
        self.keys = keys;
        self.last = None;
    }

    /// Refuses these accounts from now on, and no others. Grants that they have end by themselves,
    /// at most [`GRANT_LIFE`] after the last one.
    pub fn set_revoked(&mut self, revoked: Revoked) {
        self.revoked = revoked;
    }

    /// Grants nothing new from now on, and tells senders to look for another relay.
    pub fn leave(&mut self) {
        self.leaving = true;
    }

    /// The accounts' rate limits, shared with the TCP side.
    pub fn rates(&self) -> Arc<Rates> {
        Arc::clone(&self.rates)
    }

    /// The counters so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Counts datagrams that the kernel didn't take as dropped instead of forwarded.
    pub fn lost(&mut self, datagrams: u64, bytes: u64) {
        self.counters.dropped[Reason::Socket as usize] += datagrams;
        self.counters.forwarded = self.counters.forwarded.saturating_sub(datagrams);
        self.counters.forwarded_bytes = self.counters.forwarded_bytes.saturating_sub(bytes);
    }

    /// Bytes that its tables occupy: the same whatever the number of flows.
    pub fn memory(&self) -> usize {
        size_of::<Self>()
            + self.rates.accounts.memory()
            + self.rates.usage.memory()
            + self.sources.memory()
            + self.listeners.memory()
    }

    /// Decides on a datagram that came from `from`. `now` is Unix time and never goes back.
    pub fn handle(&mut self, now: Duration, from: SocketAddr, datagram: &[u8]) -> Action {
        self.counters.received += 1;
        self.counters.received_bytes += datagram.len() as u64;
        let from = canonical(from);
        let outcome = match RelayType::of(datagram) {
            Some(RelayType::Forward4 | RelayType::Forward6) => self.forward(now, from, datagram),
            Some(RelayType::Hello) => self.hello(now, from, datagram),
            Some(RelayType::Listen) => self.listen(now, from, datagram),
            Some(RelayType::Mint) => self.mint(now, from, datagram),
            // No message from a relay makes a relay send anything.
            _ => Err(Reason::Malformed),
        };
        outcome.unwrap_or_else(|reason| {
            self.counters.drop(reason);
            Action::Drop(reason)
        })
    }

    fn forward(&mut self, now: Duration, from: SocketAddr, datagram: &[u8]) -> Outcome {
        let terms = match &self.last {
            Some(last) if last.covers(from, datagram) => last.terms,
            _ => match self.check(now, from, datagram)? {
                Ok(terms) => terms,
                Err(stale) => return Ok(stale),
            },
        };
        let (seconds, expires) = (now.as_secs(), u64::from(terms.expires));
        if seconds >= expires || expires > seconds + GRANT_LIFE.as_secs() {
            return self.stale(now, from, datagram, StaleReason::Expired);
        }
        let payload = &datagram[terms.header_len..];
        if payload.is_empty() || is_relay_datagram(payload) {
            return Err(Reason::Nested);
        }
        let allowance = Allowance::class(datagram.len(), terms.class);
        if !self
            .rates
            .accounts
            .take(terms.account.cells, now, allowance)
        {
            return Err(Reason::AccountRate);
        }
        if let Some(limit) = self.rates.limit
            && !self
                .rates
                .total
                .take(now, Allowance::bytes(payload.len(), limit))
        {
            return Err(Reason::TotalRate);
        }
        self.counters.forwarded += 1;
        self.counters.forwarded_bytes += payload.len() as u64;
        self.rates
            .usage
            .forwarded(terms.account.place, payload.len());
        let notice = match self.leaving {
            true => self.stale(now, from, datagram, StaleReason::Leaving).ok(),
            false => None,
        };
        Ok(Action::Forward {
            to: terms.to,
            header_len: terms.header_len,
            notice: match notice {
                Some(Action::Reply(reply)) => Some(reply),
                _ => None,
            },
        })
    }

    /// Checks a grant's codes, and remembers it if they are right.
    fn check(
        &mut self,
        now: Duration,
        from: SocketAddr,
        datagram: &[u8],
    ) -> Result<Result<Terms, Action>, Reason> {
        self.counters.checks += 1;
        let header = ForwardHeader::decode(datagram).map_err(|_| Reason::Malformed)?;
        let key = self.keys.by_id(header.key).ok_or(Reason::Forged)?;
        if !key.made(&header, from) {
            if !key.made_for_another(&header) {
                return Err(Reason::Forged);
            }
            return self.stale(now, from, datagram, StaleReason::Moved).map(Err);
        }
        let terms = Terms {
            to: header.destination,
            header_len: header.encoded_len(),
            expires: header.expires,
            class: header.class,
            account: self.rates.account(&AccountTag(header.tag)),
        };
        let mut bytes = [0; Grant::MAX_LEN];
        bytes[..terms.header_len].copy_from_slice(&datagram[..terms.header_len]);
        self.last = Some(Checked {
            from,
            header: bytes,
            terms,
        });
        Ok(Ok(terms))
    }

    /// Tells the sender once a second what is wrong with its grant.
    fn stale(
        &mut self,
        now: Duration,
        from: SocketAddr,
        datagram: &[u8],
        reason: StaleReason,
    ) -> Outcome {
        let header = ForwardHeader::decode(datagram).map_err(|_| Reason::Malformed)?;
        // Sources that change their address or have many grants share the source's limit.
        let mut key = [0; 26];
        key[..18].copy_from_slice(&endpoint(from));
        key[18..].copy_from_slice(&header.mac.0);
        let cells = self.sources.cells(&key);
        if !self
            .sources
            .take(cells, now, Allowance::once(STALE_REPLIES))
        {
            return Err(Reason::Stale);
        }
        self.admit(now, from, Shown::Nothing, 1)
            .map_err(|_| Reason::Stale)?;
        self.counters.stale += 1;
        let stale = Stale {
            reason,
            now: now.as_secs() as u32,
            mac: header.mac,
        };
        Ok(self.reply(&stale.to_bytes()))
    }

    fn hello(&mut self, now: Duration, from: SocketAddr, datagram: &[u8]) -> Outcome {
        let hello = Hello::decode(datagram).map_err(|_| Reason::Malformed)?;
        self.meant(&hello.relay)?;
        self.serves(from)?;
        self.stays()?;
        self.admit(now, from, Shown::Nothing, 1)?;
        Ok(self.consent(now, from, hello.nonce))
    }

    fn listen(&mut self, now: Duration, from: SocketAddr, datagram: &[u8]) -> Outcome {
        let listen = Listen::decode(datagram).map_err(|_| Reason::Malformed)?;
        self.meant(&listen.relay)?;
        self.proved(now, from, &listen.proof)?;
        self.serves(from)?;
        self.stays()?;
        if listen.name == ListenerName::NONE {
            self.admit(now, from, Shown::Address, 1)?;
        } else {
            self.admit(now, from, Shown::Address, LISTEN_WEIGHT)?;
            let seconds = now.as_secs() as u32;
            self.listeners.insert(listen.name, from, seconds);
        }
        Ok(self.consent(now, from, listen.nonce))
    }

    fn consent(&mut self, now: Duration, from: SocketAddr, nonce: Nonce) -> Action {
        self.counters.consents += 1;
        let (key, issued) = (self.keys.current(), now.as_secs() as u32);
        let reply = ConsentReply {
            nonce,
            consent: key.consent(issued, from),
            proof: key.proof(issued, from),
        };
        self.reply(&reply.to_bytes())
    }

    fn mint(&mut self, now: Duration, from: SocketAddr, datagram: &[u8]) -> Outcome {
        let (mint, signature) = Mint::decode(datagram).map_err(|_| Reason::Malformed)?;
        let signed = datagram.try_into().map_err(|_| Reason::Malformed)?;
        self.meant(&mint.voucher.terms.relay)?;
        // From here on, the sender is known to receive what is sent to it. So the relay may tell it
        // what is wrong.
        self.proved(now, from, &mint.proof)?;
        self.serves(from)?;
        self.admit(now, from, Shown::Address, MINT_WEIGHT)?;
        let granted = self.peer(now, &mint).and_then(|peer| {
            self.vouched(now, &mint.voucher, signed, &signature)?;
            Ok(peer)
        });
        let (nonce, now) = (mint.nonce, now.as_secs() as u32);
        Ok(match granted {
            Ok(peer) => {
                self.counters.minted += 1;
                let terms = &mint.voucher.terms;
                let account = self.rates.account(&AccountTag::in_voucher(terms));
                self.rates.usage.minted(account.place);
                let there = self.grant(terms, from, peer);
                let own = At {
                    address: from,
                    since: mint.proof.issued,
                };
                let back = self.grant(terms, peer.address, own);
                let minted = Minted {
                    nonce,
                    now,
                    there,
                    back,
                };
                let mut bytes = Vec::with_capacity(manyway_wire::relay::MINTED_MAX_LEN);
                minted.encode(&mut bytes);
                self.reply(&bytes)
            }
            Err(reason) => {
                self.counters.refused += 1;
                let refused = Refused { nonce, reason, now };
                self.reply(&refused.to_bytes())
            }
        })
    }

    /// The other end, if it wants to be reached. This check is as cheap as possible.
    fn peer(&self, now: Duration, mint: &Mint) -> Result<At, Refusal> {
        if self.leaving {
            return Err(Refusal::Leaving);
        }
        let seconds = now.as_secs() as u32;
        let terms = &mint.voucher.terms;
        let signers = (self.keys.id(), &self.config.trusted[..]);
        standing(terms, signers, &self.revoked, seconds)?;
        let at = match &mint.peer {
            Peer::Consent(consent) => {
                self.consents(now, consent).ok_or(Refusal::Consent)?;
                At {
                    address: consent.address,
                    since: consent.issued,
                }
            }
            Peer::Name(name) => {
                let found = self.listeners.find(name, seconds);
                let (address, since) = found.ok_or(Refusal::UnknownName)?;
                At { address, since }
            }
        };
        self.serves(at.address).map_err(|_| Refusal::Address)?;
        Ok(at)
    }

    /// Whether the right keys have signed the voucher and the request: the expensive part.
    fn vouched(
        &mut self,
        now: Duration,
        voucher: &Voucher,
        datagram: &[u8; manyway_wire::relay::MINT_LEN],
        signature: &[u8; 64],
    ) -> Result<(), Refusal> {
        let budget = Allowance::events(1, VERIFICATIONS);
        if !self.verifications.take(now, budget) {
            return Err(Refusal::Busy);
        }
        let terms = &voucher.terms;
        let genuine = verify(&terms.client, &Mint::signed_bytes(datagram), signature)
            && verify(&terms.signer, &terms.signed_bytes(), &voucher.signature);
        genuine.then_some(()).ok_or(Refusal::Voucher)
    }

    /// A grant to send from `source` to `to`.
    fn grant(&self, terms: &VoucherTerms, source: SocketAddr, to: At) -> Grant {
        let highest = self.config.highest_class.unwrap_or(RateClass::MAX);
        self.keys.grant(&GrantTerms {
            source,
            destination: to.address,
            class: terms.class.min(highest),
            tag: AccountTag::in_voucher(terms).0,
            expires: to.since.saturating_add(GRANT_LIFE.as_secs() as u32),
        })
    }

    /// Whether this relay is the one that a request is for.
    fn meant(&self, relay: &RelayId) -> Result<(), Reason> {
        match *relay == self.keys.id() {
            true => Ok(()),
            false => Err(Reason::OtherRelay),
        }
    }

    /// Whether an address may be an end of a flow.
    fn serves(&self, address: SocketAddr) -> Result<(), Reason> {
        let kind = kind(address);
        let served = kind == Kind::Public || kind == Kind::Private && self.config.allow_private;
        match served && !self.config.own.contains(&address) {
            true => Ok(()),
            false => Err(Reason::Address),
        }
    }

    fn stays(&self) -> Result<(), Reason> {
        match self.leaving {
            false => Ok(()),
            true => Err(Reason::Leaving),
        }
    }

    /// Whether somebody at `from` has recently received an answer of this relay.
    fn proved(&self, now: Duration, from: SocketAddr, proof: &Proof) -> Result<(), Reason> {
        let key = self.keys.by_id(proof.key).ok_or(Reason::Forged)?;
        if !key.made_proof(proof, from) {
            return Err(Reason::Forged);
        }
        fresh(now, proof.issued).ok_or(Reason::Stale)
    }

    fn consents(&self, now: Duration, consent: &Consent) -> Option<()> {
        let key = self.keys.by_id(consent.key)?;
        key.made_consent(consent)
            .then(|| fresh(now, consent.issued))?
    }

    /// Counts an answer against the budgets of its source and of all sources. Sources that have
    /// proved their address have budgets of their own, which spoofers can't use up.
    fn admit(
        &mut self,
        now: Duration,
        from: SocketAddr,
        shown: Shown,
        weight: u64,
    ) -> Result<(), Reason> {
        let mut key = [shown as u8; 9];
        key[1..].copy_from_slice(&source(from));
        let cells = self.sources.cells(&key);
        let allowance = Allowance::events(weight, SOURCE_REPLIES);
        let all = Allowance::events(1, ALL_REPLIES);
        let admitted =
            self.sources.take(cells, now, allowance) && self.replies[shown as usize].take(now, all);
        match admitted {
            true => Ok(()),
            false => Err(Reason::RequestRate),
        }
    }

    fn reply(&mut self, bytes: &[u8]) -> Action {
        self.counters.reply_bytes += bytes.len() as u64;
        Action::Reply(Reply::new(bytes))
    }
}

/// Whether a voucher names the relay or a key that it trusts as its signer, and is still valid.
pub(crate) fn standing(
    terms: &VoucherTerms,
    (own, trusted): (RelayId, &[RelayId]),
    revoked: &Revoked,
    seconds: u32,
) -> Result<(), Refusal> {
    if terms.signer != own && !trusted.contains(&terms.signer) {
        return Err(Refusal::Voucher);
    }
    if terms.expires <= seconds {
        return Err(Refusal::VoucherExpired);
    }
    match !revoked.is_empty() && revoked.contains(&AccountTag::in_voucher(terms)) {
        true => Err(Refusal::Revoked),
        false => Ok(()),
    }
}

/// What a request proves about its sender.
#[derive(Copy, Clone)]
enum Shown {
    /// Nothing: anybody may have sent it from this address.
    Nothing = 0,
    /// The sender has recently received what was sent to its address.
    Address = 1,
}

/// An address, and when somebody there last asked to be reached.
#[derive(Copy, Clone)]
struct At {
    address: SocketAddr,
    since: u32,
}

/// Whether something issued at that time is still fresh. Setting back a relay's clock doesn't
/// prolong it.
fn fresh(now: Duration, issued: u32) -> Option<()> {
    let age = now.as_secs().checked_sub(issued.into())?;
    (age <= CONSENT_LIFE.as_secs()).then_some(())
}

/// The unit of a rate limit: an IPv4 address, or an IPv6 network of 64 bits.
pub(crate) fn source(from: SocketAddr) -> [u8; 8] {
    match from.ip() {
        IpAddr::V4(ip) => (0xffff << 32 | u64::from(ip.to_bits())).to_be_bytes(),
        IpAddr::V6(ip) => ((ip.to_bits() >> 64) as u64).to_be_bytes(),
    }
}

fn endpoint(from: SocketAddr) -> [u8; 18] {
    let mut bytes = [0; 18];
    let ip = match from.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    bytes[..16].copy_from_slice(&ip.octets());
    bytes[16..].copy_from_slice(&from.port().to_be_bytes());
    bytes
}

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use manyway_units::Time;
use manyway_wire::relay::Grant;
use manyway_wire::{
    AnyInit, ConnectionId, DataHeader, DecodeError, Init, MAC2_LEN, OtherVersion, PeerId, Reply,
    Signed, TICKET_ID_LEN, TransportParameters, VERSION, expand_pn,
};
use rand::rngs::ChaCha20Rng;
use rand::{Rng, SeedableRng};
use zeroize::Zeroizing;

use super::cookie::{self, Gate, LoadLimits, Standing};
use super::noise::{self, Noise};
use super::places::{Place, Places};
use super::secrets::{Mac1, Secrets};
use super::{Established, prologue};
use crate::crypto::{KeyLimits, Suite};

/// RFC 9002 §6.2.2: a probe timeout before anything was measured.
const INITIAL_PTO: Duration = Duration::from_millis(999);

/// Bytes of a Noise ephemeral key, the first field of message 1.
const EPHEMERAL_LEN: usize = noise::KEY_LEN;

/// How a responder is set up.
pub struct ResponderConfig {
    /// What belongs to the ticket that this responder answers for.
    pub secrets: Secrets,
    /// The AEAD for packets; the initiators must be set to the same.
    pub suite: Suite,
    /// How far to use each packet key.
    pub limits: KeyLimits,
    /// How many handshakes may be half-open; further ones are dropped. 1024 by default.
    pub max_half_open: usize,
    /// How long a handshake may stay half-open. 10 s by default.
    pub lifetime: Duration,
    /// When to ask for cookies.
    pub load: LoadLimits,
    /// Decides all keys: from the operating system in production, never used twice.
    pub seed: [u8; 32],
}

impl ResponderConfig {
    /// The defaults, for `secrets`.
    pub fn new(secrets: Secrets, seed: [u8; 32]) -> ResponderConfig {
        ResponderConfig {
            secrets,
            suite: Suite::default(),
            limits: KeyLimits::default(),
            max_half_open: 1024,
            lifetime: Duration::from_secs(10),
            load: LoadLimits::default(),
            seed,
        }
    }
}

/// What came of an INIT.
#[derive(Debug)]
pub enum Outcome {
    /// Send this to where the INIT came from. It is no longer than the INIT.
    Reply {
        /// The REPLY.
        datagram: Bytes,
        /// Our connection id for path 0, which the peer's first sealed packet will carry.
        cid: ConnectionId,
        /// Whether this is a new half-open handshake, not a copy of an earlier answer.
        fresh: bool,
    },
    /// Send this to where the INIT came from: a COOKIE, a sixteenth of the INIT's size.
    Cookie {
        /// The COOKIE.
        datagram: Bytes,
    },
    /// Send this to where the INIT came from: its sender has the ticket, and speaks another version
    /// of the protocol.
    OtherVersion {
        /// The VERSION, which is shorter than a COOKIE.
        datagram: Bytes,
        /// The sender's version.
        theirs: u8,
    },
    /// Send nothing.
    Ignored(Ignored),
}

/// Why an INIT gets no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Ignored {
    /// The datagram is no INIT.
    #[error("the INIT is malformed: {0}")]
    Malformed(DecodeError),
    /// The INIT names another ticket.
    #[error(
        "the INIT was made with ticket {}, which belongs to another listener or is out of date: \
         its sender needs a new ticket", hex(.0)
    )]
    OtherTicket([u8; 8]),
    /// `mac1` is wrong.
    #[error("the INIT was damaged on the way, or its sender doesn't hold the ticket's secret")]
    BadMac,
    /// Another INIT had the same ephemeral key: a forgery by a holder of the ticket.
    #[error("the INIT reuses the ephemeral key of another one")]
    ReusedEphemeral,
    /// A late copy or a replay of the INIT of a connection that exists or existed.
    #[error("the INIT's connection is already established")]
    AlreadyEstablished,
    /// As many handshakes are half-open as may be.
    #[error("{limit} handshakes are half-open already: try again in some seconds")]
    Full {
        /// The limit.
        limit: usize,
    },
    /// Handshakes with a cookie come faster than they may, or one host has too many under way.
    #[error("handshakes of this ticket, or of this host, come faster than they may: try again")]
    TooMany,
    /// The Noise message doesn't authenticate.
    #[error(
        "the INIT doesn't decrypt: its sender's ticket has another public key (a new ticket is \
         needed) or its sender uses another suite than {suite} (set the same on both sides)"
    )]
    DoesNotDecrypt {
        /// The suite that this side is set to.
        suite: Suite,
    },
    /// The initiator's transport parameters can't be understood.
    #[error("the INIT's transport parameters are invalid ({0}): both sides need the same release")]
    Parameters(DecodeError),
    /// The header's connection id isn't the one in the transport parameters.
    #[error("the INIT's header and its transport parameters name different connection ids")]
    ConnectionIdMismatch,
    /// Our own new connection id is in use already.
    #[error("the connection id chosen for the INIT's connection is in use: choose another")]
    ConnectionIdTaken,
}

/// What has happened at a responder, in numbers.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponderStats {
    /// INITs that began a half-open handshake.
    pub accepted: u64,
    /// INITs answered from the cache.
    pub copies: u64,
    /// INITs answered with a COOKIE.
    pub cookies: u64,
    /// Half-open handshakes without a cookie that made room for one with.
    pub evicted: u64,
    /// INITs dropped because the table was full.
    pub full: u64,
    /// INITs ignored for other reasons.
    pub ignored: u64,
    /// Half-open handshakes that became connections.
    pub established: u64,
    /// Half-open handshakes given up.
    pub expired: u64,
    /// Packets to half-open handshakes that didn't open.
    pub forged: u64,
}

impl std::ops::Add for ResponderStats {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        ResponderStats {
            accepted: self.accepted + other.accepted,
            copies: self.copies + other.copies,
            cookies: self.cookies + other.cookies,
            evicted: self.evicted + other.evicted,
            full: self.full + other.full,
            ignored: self.ignored + other.ignored,
            established: self.established + other.established,
            expired: self.expired + other.expired,
            forged: self.forged + other.forged,
        }
    }
}

/// The first sealed packet of a new connection, opened.
#[derive(Debug)]
pub struct Opened<'a> {
    /// The connection, no longer half-open.
    pub established: Established,
    /// The packet's number.
    pub packet_number: u64,
    /// The packet's plaintext: frames.
    pub payload: &'a mut [u8],
    /// Where the handshake's answers went. The packet itself may be a copy from elsewhere.
    pub places: Places,
}

/// The listening side of the handshakes of one ticket.
pub struct Responder {
    config: ResponderConfig,
    pub(super) mac1: Mac1,
    prologue: Vec<u8>,
    rng: ChaCha20Rng,
    half_open: BTreeMap<ConnectionId, HalfOpen>,
    by_ephemeral: BTreeMap<Ephemeral, ConnectionId>,
    deadlines: BTreeSet<(Time, ConnectionId)>,
    established: Remembered,
    gate: Gate,
    stats: ResponderStats,
}

type Ephemeral = [u8; EPHEMERAL_LEN];

struct HalfOpen {
    established: Established,
    ephemeral: Ephemeral,
    /// Noise message 1. Nobody but the owner of the ephemeral key can make another one with it.
    message: Box<[u8]>,
    reply: Bytes,
    standing: Standing,
    deadline: Time,
    places: Places,
}

impl Responder {
    /// A responder without half-open handshakes.
    pub fn new(config: ResponderConfig) -> Responder {
        let mut rng = ChaCha20Rng::from_seed(config.seed);
        Responder {
            gate: Gate::new(config.load, &mut rng),
            mac1: Mac1::new(config.secrets.psk()),
            prologue: prologue(&config.secrets.ticket_id(), config.suite),
            rng,
            half_open: BTreeMap::new(),
            by_ephemeral: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            established: Remembered::new(config.max_half_open),
            stats: ResponderStats::default(),
            config,
        }
    }

    /// Takes a datagram that may be an INIT, from `remote`. `make_params` is asked for our
    /// transport parameters, with a connection id that is new, only when a half-open handshake
    /// begins.
    pub fn on_init(
        &mut self,
        now: Time,
        remote: SocketAddr,
        datagram: &[u8],
        make_params: impl FnOnce() -> TransportParameters,
    ) -> Outcome {
        self.expire(now);
        match self.answer(now, remote, datagram, make_params) {
            Ok(outcome) => outcome,
            Err(reason) => {
                match reason {
                    Ignored::Full { .. } => self.stats.full += 1,
                    _ => self.stats.ignored += 1,
                }
                Outcome::Ignored(reason)
            }
        }
    }

    /// INITs may come through this relay: some are answered even under load, though a COOKIE
    /// couldn't get back through it.
    pub fn expect_through(&mut self, relay: SocketAddr) {
        self.gate.expect_through(relay);
    }

    /// Tries whether `packet`, a whole datagram with this `header`, is the first sealed packet of a
    /// half-open handshake. If so the peer has proven that it holds the ticket and was no replay:
    /// the handshake leaves the table as a connection. A forged packet changes nothing, but the
    /// contents of `packet` may be lost.
    pub fn try_open<'a>(
        &mut self,
        now: Time,
        header: &DataHeader,
        packet: &'a mut [u8],
    ) -> Option<Opened<'a>> {
        self.expire(now);
        let half_open = self.half_open.get_mut(&header.cid)?;
        let packet_number = expand_pn(header.pn_low, None);
        let opened = half_open.established.opener.open(
            now,
            INITIAL_PTO,
            0,
            packet_number,
            header.epoch,
            packet,
            DataHeader::LEN,
        );
        let Ok(payload) = opened else {
            self.stats.forged += 1;
            return None;
        };
        let HalfOpen {
            established,
            ephemeral,
            places,
            ..
        } = self.remove(header.cid)?;
        self.established.insert(ephemeral);
        self.stats.established += 1;
        Some(Opened {
            established,
            packet_number,
            payload,
            places,
        })
    }

    /// The answer to a half-open handshake's INIT goes to where that came from.
    pub fn note_reply(&mut self, cid: &ConnectionId, place: Place) {
        if let Some(half_open) = self.half_open.get_mut(cid) {
            half_open.places.note(place);
        }
    }

    /// Whether a half-open handshake has this connection id.
    pub fn contains(&self, cid: &ConnectionId) -> bool {
        self.half_open.contains_key(cid)
    }

    /// What a half-open handshake's peer wants to have in front of our datagrams.
    pub fn grant(&self, cid: &ConnectionId) -> Option<Grant> {
        self.half_open.get(cid)?.established.peer.grant
    }

    /// Gives up the half-open handshakes whose time is over.
    pub fn expire(&mut self, now: Time) {
        while let Some(&(deadline, cid)) = self.deadlines.first()
            && deadline <= now
        {
            self.remove(cid);
            self.stats.expired += 1;
        }
    }

    /// When [`expire`](Responder::expire) has something to do.
    pub fn timeout(&self) -> Option<Time> {
        self.deadlines.first().map(|&(deadline, _)| deadline)
    }

    /// How many handshakes are half-open.
    pub fn len(&self) -> usize {
        self.half_open.len()
    }

    /// Whether no handshake is half-open.
    pub fn is_empty(&self) -> bool {
        self.half_open.is_empty()
    }

    /// What the ticket's secrets are.
    pub fn secrets(&self) -> &Secrets {
        &self.config.secrets
    }

    /// What has happened so far.
    pub fn stats(&self) -> ResponderStats {
        self.stats
    }

    /// The cheap checks first: nothing is decrypted for a sender without the ticket, for a copy or
    /// when there is no room.
    fn answer(
        &mut self,
        now: Time,
        remote: SocketAddr,
        datagram: &[u8],
        make_params: impl FnOnce() -> TransportParameters,
    ) -> Result<Outcome, Ignored> {
        let init = match Init::decode(datagram) {
            Ok(init) => init,
            Err(DecodeError::UnsupportedVersion { .. }) => return self.other_version(datagram),
            Err(error) => return Err(Ignored::Malformed(error)),
        };
        self.check_sender(init.ticket_id, init.authenticated, init.mac1)?;
        let ephemeral = *init.noise.first_chunk().ok_or(self.does_not_decrypt())?;
        if let Some(copy) = self.cached(&ephemeral, init.noise)? {
            self.stats.copies += 1;
            return Ok(copy);
        }
        let signed = &datagram[..datagram.len() - MAC2_LEN];
        let proven = self
            .gate
            .proves(now, &mut self.rng, remote, signed, &init.mac2);
        let full = self.half_open.len() >= self.config.max_half_open;
        let standing = if proven {
            let host = cookie::host(remote);
            if !self.gate.admits_proven(now, host) {
                return Err(Ignored::TooMany);
            }
            Standing::Proven(host)
        } else if !full && self.gate.admits_unproven(now) {
            Standing::Unproven
        } else if self.gate.admits_relayed(now, remote) {
            Standing::Relayed(remote)
        } else {
            return Ok(self.cookie(now, remote, &init));
        };
        self.make_room(standing)?;
        let (cid, half_open) = self.accept(now, &init, ephemeral, standing, make_params)?;
        let datagram = half_open.reply.clone();
        self.insert(cid, half_open);
        self.stats.accepted += 1;
        Ok(Outcome::Reply {
            datagram,
            cid,
            fresh: true,
        })
    }

    /// Whoever doesn't hold the ticket gets no answer.
    fn check_sender(
        &self,
        ticket_id: [u8; TICKET_ID_LEN],
        authenticated: &[u8],
        mac1: &[u8],
    ) -> Result<(), Ignored> {
        if ticket_id != self.config.secrets.ticket_id() {
            return Err(Ignored::OtherTicket(ticket_id));
        }
        match self.mac1.verify(authenticated, mac1) {
            true => Ok(()),
            false => Err(Ignored::BadMac),
        }
    }

    /// Nothing is kept for it, and it is a fraction of the INIT's size: like a COOKIE, it needs no
    /// limit of its own.
    fn other_version(&self, datagram: &[u8]) -> Result<Outcome, Ignored> {
        let init = AnyInit::decode(datagram).map_err(Ignored::Malformed)?;
        self.check_sender(init.ticket_id, init.authenticated, init.mac1)?;
        let answer = OtherVersion {
            version: VERSION,
            receiver_cid: init.sender_cid,
        };
        let sign = |answer: &[u8]| self.mac1.sign(&[answer, init.mac1].concat());
        Ok(Outcome::OtherVersion {
            datagram: answer.seal(sign).into(),
            theirs: init.version,
        })
    }

    /// The earlier answer to the same INIT.
    fn cached(&self, ephemeral: &Ephemeral, message: &[u8]) -> Result<Option<Outcome>, Ignored> {
        if self.established.contains(ephemeral) {
            return Err(Ignored::AlreadyEstablished);
        }
        let Some((cid, half_open)) = self
            .by_ephemeral
            .get(ephemeral)
            .and_then(|cid| self.half_open.get_key_value(cid))
        else {
            return Ok(None);
        };
        if *half_open.message != *message {
            return Err(Ignored::ReusedEphemeral);
        }
        Ok(Some(Outcome::Reply {
            datagram: half_open.reply.clone(),
            cid: *cid,
            fresh: false,
        }))
    }

    /// Under load: who wants an answer has to be where it seems to be.
    fn cookie(&mut self, now: Time, remote: SocketAddr, init: &Signed<'_, Init<'_>>) -> Outcome {
        let value = self.gate.value(now, &mut self.rng, remote);
        let nonce = cookie::nonce(&mut self.rng);
        let datagram = cookie::seal(&self.mac1, init.sender_cid, init.mac1, nonce, &value);
        self.stats.cookies += 1;
        Outcome::Cookie {
            datagram: datagram.into(),
        }
    }

    /// Who brings a cookie takes the place of the oldest handshake without one.
    fn make_room(&mut self, standing: Standing) -> Result<(), Ignored> {
        let limit = self.config.max_half_open;
        if self.half_open.len() < limit {
            return Ok(());
        }
        let unproven = |cid: &ConnectionId| {
            let half_open = self.half_open.get(cid);
            half_open.is_some_and(|h| h.standing == Standing::Unproven)
        };
        let oldest = matches!(standing, Standing::Proven(_))
            .then(|| self.deadlines.iter().find(|(_, cid)| unproven(cid)))
            .flatten();
        let Some(&(_, cid)) = oldest else {
            return Err(Ignored::Full { limit });
        };
        self.remove(cid);
        self.stats.evicted += 1;
        Ok(())
    }

    /// Reads message 1 and writes message 2: the expensive part.
    fn accept(
        &mut self,
        now: Time,
        init: &Init<'_>,
        ephemeral: Ephemeral,
        standing: Standing,
        make_params: impl FnOnce() -> TransportParameters,
    ) -> Result<(ConnectionId, HalfOpen), Ignored> {
        let mut seed = Zeroizing::new([0; 32]);
        self.rng.fill_bytes(&mut *seed);
        let mut state = Noise {
            private_key: self.config.secrets.private_key(),
            psk: self.config.secrets.psk(),
            prologue: &self.prologue,
            seed,
        }
        .responder()
        .map_err(|_| self.does_not_decrypt())?;
        let mut params = vec![0; init.noise.len()];
        let len = state
            .read_message(init.noise, &mut params)
            .map_err(|_| self.does_not_decrypt())?;
        let peer = TransportParameters::decode(&params[..len]).map_err(Ignored::Parameters)?;
        if peer.cid != init.sender_cid {
            return Err(Ignored::ConnectionIdMismatch);
        }
        // Proven once a packet opens.
        let key = peer.identity.then(|| state.get_remote_static()).flatten();
        let identity = key.and_then(|key| Some(PeerId(key.try_into().ok()?)));

        let params = make_params();
        if self.half_open.contains_key(&params.cid) {
            return Err(Ignored::ConnectionIdTaken);
        }
        let mut message = [0; manyway_wire::MAX_REPLY_NOISE];
        // Fails only for a peer's ephemeral key of low order.
        let len = state
            .write_message(&params.to_bytes(), &mut message)
            .map_err(|_| self.does_not_decrypt())?;
        let reply = Reply {
            receiver_cid: init.sender_cid,
            noise: &message[..len],
        };
        let (sealer, opener) = noise::finish(state, self.config.suite, self.config.limits);
        let half_open = HalfOpen {
            established: Established {
                sealer,
                opener,
                local_cid: params.cid,
                remote_cid: peer.cid,
                identity,
                peer,
            },
            ephemeral,
            message: init.noise.into(),
            reply: reply.seal(|bytes| self.mac1.sign(bytes)).into(),
            standing,
            deadline: now + self.config.lifetime,
            places: Places::default(),
        };
        Ok((params.cid, half_open))
    }

    fn does_not_decrypt(&self) -> Ignored {
        Ignored::DoesNotDecrypt {
            suite: self.config.suite,
        }
    }

    fn insert(&mut self, cid: ConnectionId, half_open: HalfOpen) {
        self.gate.on_inserted(half_open.standing);
        self.by_ephemeral.insert(half_open.ephemeral, cid);
        self.deadlines.insert((half_open.deadline, cid));
        self.half_open.insert(cid, half_open);
    }

    fn remove(&mut self, cid: ConnectionId) -> Option<HalfOpen> {
        let half_open = self.half_open.remove(&cid)?;
        self.gate.on_removed(half_open.standing);
        self.by_ephemeral.remove(&half_open.ephemeral);
        self.deadlines.remove(&(half_open.deadline, cid));
        Some(half_open)
    }

    /// Whether the three views of the table agree.
    #[cfg(test)]
    pub(super) fn is_consistent(&self) -> bool {
        self.half_open.len() == self.by_ephemeral.len()
            && self.half_open.len() == self.deadlines.len()
            && self.half_open.iter().all(|(cid, half_open)| {
                self.by_ephemeral.get(&half_open.ephemeral) == Some(cid)
                    && self.deadlines.contains(&(half_open.deadline, *cid))
            })
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl fmt::Debug for Responder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Responder")
            .field("secrets", &self.config.secrets)
            .field("suite", &self.config.suite)
            .field("half_open", &self.half_open.len())
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}

/// The ephemeral keys of the newest connections, so that late copies of their INITs (copies go to
/// several addresses) don't begin handshakes again. An INIT forgotten here and replayed makes a
/// half-open handshake that nobody can complete.
struct Remembered {
    known: BTreeSet<Ephemeral>,
    oldest_first: VecDeque<Ephemeral>,
    limit: usize,
}

impl Remembered {
    fn new(limit: usize) -> Remembered {
        Remembered {
            known: BTreeSet::new(),
            oldest_first: VecDeque::new(),
            limit,
        }
    }

    fn contains(&self, ephemeral: &Ephemeral) -> bool {
        self.known.contains(ephemeral)
    }

    fn insert(&mut self, ephemeral: Ephemeral) {
        if !self.known.insert(ephemeral) {
            return;
        }
        self.oldest_first.push_back(ephemeral);
        if self.oldest_first.len() > self.limit
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}

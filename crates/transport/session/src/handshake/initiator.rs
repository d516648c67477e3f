use std::fmt;

use bytes::Bytes;
use manyway_wire::{
    COOKIE_VALUE_LEN, ConnectionId, Cookie, DecodeError, INIT_LEN, Init, MAC1_LEN, MAC2_LEN,
    OtherVersion, PeerId, Reply, Ticket, TransportParameters, VERSION,
};
use rand::CryptoRng;
use snow::HandshakeState;
use zeroize::Zeroizing;

use super::cookie;
use super::identity::Identity;
use super::noise::{self, Noise};
use super::secrets::Mac1;
use super::{Established, prologue};
use crate::crypto::{KeyLimits, Suite};

/// Why a handshake doesn't go on.
///
/// Only [`is_fatal`](HandshakeError::is_fatal) errors end it: anybody can send a datagram that
/// looks like a reply, so the others mean that this datagram is dropped and the genuine one
/// awaited.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// The ticket holds no usable public key.
    #[error("the ticket's public key is not usable: ask for a new ticket")]
    UnusableTicket,
    /// The datagram is no reply.
    #[error("the reply is malformed: {0}")]
    Malformed(DecodeError),
    /// The reply answers another connection attempt.
    #[error("the reply is for another connection attempt")]
    OtherAttempt,
    /// `mac1` is wrong.
    #[error("the reply was damaged on the way, or its sender doesn't hold the ticket's secret")]
    BadMac,
    /// The Noise message doesn't authenticate.
    #[error(
        "the reply is not from the listener that made the ticket: another host answers at its \
         address, or the ticket was altered; ask for a new ticket"
    )]
    NotTheListener,
    /// The listener says that it speaks another version, and names ours.
    #[error("the listener refuses our version of the protocol, and speaks the same")]
    SameVersion,
    /// A reply was accepted before; this one is a copy.
    #[error("the handshake is already complete")]
    AlreadyComplete,
    /// The genuine listener sent transport parameters that can't be understood.
    #[error(
        "the listener's transport parameters are invalid ({0}): both sides need the same release"
    )]
    Parameters(DecodeError),
    /// No reply came. The listener doesn't answer what it can't authenticate, so all of these look
    /// the same from here.
    #[error(
        "no answer from the listener: it isn't running or can't be reached, the ticket belongs to \
         another listener or is out of date (ask for a new one), or the listener doesn't use the \
         suite {suite} (set the same on both sides)"
    )]
    NoReply {
        /// The suite that this side is set to.
        suite: Suite,
    },
}

impl HandshakeError {
    /// Whether the connection attempt is over.
    pub fn is_fatal(&self) -> bool {
        matches!(
            self,
            HandshakeError::UnusableTicket
                | HandshakeError::Parameters(_)
                | HandshakeError::NoReply { .. }
        )
    }
}

/// What an initiator starts from.
pub struct InitiatorConfig<'a> {
    /// The listener's ticket.
    pub ticket: &'a Ticket,
    /// Who we prove to be to the listener; `None` for a key that nobody sees again.
    pub identity: Option<&'a Identity>,
    /// Our transport parameters, with our connection id for path 0.
    pub params: TransportParameters,
    /// The AEAD for packets; the listener must be set to the same.
    pub suite: Suite,
    /// How far to use each packet key.
    pub limits: KeyLimits,
}

/// The connecting side of a handshake.
pub struct Initiator {
    /// Gone once a reply was accepted.
    state: Option<HandshakeState>,
    datagram: Bytes,
    pub(super) mac1: Mac1,
    local_cid: ConnectionId,
    listener: PeerId,
    suite: Suite,
    limits: KeyLimits,
}

impl Initiator {
    /// Makes the INIT. Its ephemeral key, and without an identity its static one, come from `rng`:
    /// same generator state, same datagram.
    ///
    /// # Errors
    /// [`HandshakeError::UnusableTicket`] if the ticket's public key is a point of low order.
    pub fn new<R: CryptoRng + ?Sized>(
        config: InitiatorConfig<'_>,
        rng: &mut R,
    ) -> Result<Initiator, HandshakeError> {
        let ticket = config.ticket;
        let once;
        let identity = match config.identity {
            Some(identity) => identity,
            None => {
                once = Identity::generate(rng);
                &once
            }
        };
        let params = TransportParameters {
            identity: config.identity.is_some(),
            ..config.params
        };
        let mut seed = Zeroizing::new([0; 32]);
        rng.fill_bytes(&mut *seed);
        let mut state = Noise {
            private_key: identity.private_key(),
            psk: &ticket.secret,
            prologue: &prologue(&ticket.id, config.suite),
            seed,
        }
        .initiator(&ticket.public_key)
        .map_err(|_| HandshakeError::UnusableTicket)?;

        let mut message = [0; manyway_wire::MAX_INIT_NOISE];
        let len = state
            .write_message(&params.to_bytes(), &mut message)
            .map_err(|_| HandshakeError::UnusableTicket)?;
        let mac1 = Mac1::new(&ticket.secret);
        let init = Init {
            sender_cid: config.params.cid,
            ticket_id: ticket.id,
            noise: &message[..len],
            mac2: [0; MAC2_LEN],
        };
        Ok(Initiator {
            state: Some(state),
            datagram: init.seal(|bytes| mac1.sign(bytes)).into(),
            mac1,
            local_cid: config.params.cid,
            listener: PeerId(ticket.public_key),
            suite: config.suite,
            limits: config.limits,
        })
    }

    /// The INIT: send identical copies of it to as many addresses as you like.
    pub fn datagram(&self) -> &[u8] {
        &self.datagram
    }

    /// The INIT for an address whose listener has given us this cookie.
    pub fn datagram_with(&self, cookie: &[u8; COOKIE_VALUE_LEN]) -> Vec<u8> {
        let mut datagram = self.datagram.to_vec();
        let (signed, mac2) = datagram.split_at_mut(INIT_LEN - MAC2_LEN);
        mac2.copy_from_slice(&cookie::mac2(cookie, signed));
        datagram
    }

    /// Takes a datagram that may be the listener's COOKIE: what
    /// [`datagram_with`](Self::datagram_with) needs for the address that it came from.
    ///
    /// # Errors
    /// None of them is [fatal](HandshakeError::is_fatal): drop the datagram and go on waiting.
    pub fn on_cookie(&self, datagram: &[u8]) -> Result<[u8; COOKIE_VALUE_LEN], HandshakeError> {
        if self.state.is_none() {
            return Err(HandshakeError::AlreadyComplete);
        }
        let cookie = Cookie::decode(datagram).map_err(HandshakeError::Malformed)?;
        if cookie.receiver_cid != self.local_cid {
            return Err(HandshakeError::OtherAttempt);
        }
        cookie::open(&self.mac1, &cookie, self.init_mac1()).ok_or(HandshakeError::BadMac)
    }

    /// Takes a datagram that may be the answer of a listener that speaks another version of the
    /// protocol: which one. It ends the attempt.
    ///
    /// # Errors
    /// None of them is [fatal](HandshakeError::is_fatal): drop the datagram and go on waiting.
    pub fn on_other_version(&self, datagram: &[u8]) -> Result<u8, HandshakeError> {
        if self.state.is_none() {
            return Err(HandshakeError::AlreadyComplete);
        }
        let answer = OtherVersion::decode(datagram).map_err(HandshakeError::Malformed)?;
        if answer.receiver_cid != self.local_cid {
            return Err(HandshakeError::OtherAttempt);
        }
        let signed = [answer.authenticated, self.init_mac1()].concat();
        if !self.mac1.verify(&signed, answer.mac1) {
            return Err(HandshakeError::BadMac);
        }
        match answer.version {
            VERSION => Err(HandshakeError::SameVersion),
            other => Ok(other),
        }
    }

    fn init_mac1(&self) -> &[u8] {
        &self.datagram[INIT_LEN - MAC2_LEN - MAC1_LEN..INIT_LEN - MAC2_LEN]
    }

    /// Takes a datagram that may be the listener's REPLY.
    ///
    /// # Errors
    /// Any that isn't [fatal](HandshakeError::is_fatal) leaves the initiator as it was: drop the
    /// datagram and go on waiting.
    pub fn on_reply(&mut self, datagram: &[u8]) -> Result<Established, HandshakeError> {
        let state = self.state.as_mut().ok_or(HandshakeError::AlreadyComplete)?;
        let reply = Reply::decode(datagram).map_err(HandshakeError::Malformed)?;
        if reply.receiver_cid != self.local_cid {
            return Err(HandshakeError::OtherAttempt);
        }
        if !self.mac1.verify(reply.authenticated, reply.mac1) {
            return Err(HandshakeError::BadMac);
        }
        let mut params = vec![0; reply.noise.len()];
        // On failure snow restores its state as it was before the message.
        let len = state
            .read_message(reply.noise, &mut params)
            .map_err(|_| HandshakeError::NotTheListener)?;
        let state = self.state.take().ok_or(HandshakeError::AlreadyComplete)?;
        let peer =
            TransportParameters::decode(&params[..len]).map_err(HandshakeError::Parameters)?;
        let (sealer, opener) = noise::finish(state, self.suite, self.limits);
        Ok(Established {
            sealer,
            opener,
            local_cid: self.local_cid,
            remote_cid: peer.cid,
            identity: Some(self.listener),
            peer,
        })
    }

    /// The error to report when the time for an answer is over.
    pub fn no_reply(&self) -> HandshakeError {
        HandshakeError::NoReply { suite: self.suite }
    }
}

impl fmt::Debug for Initiator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Initiator")
            .field("local_cid", &self.local_cid)
            .field("complete", &self.state.is_none())
            .field("suite", &self.suite)
            .finish_non_exhaustive()
    }
}

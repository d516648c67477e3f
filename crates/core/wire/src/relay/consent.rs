use std::net::SocketAddr;

use bytes::BufMut;

use super::{
    ADDRESS_LEN, ListenerName, MAC_LEN, Mac, NONCE_LEN, Nonce, RelayId, RelayType, get_address,
    get_zeros, put_address,
};
use crate::DecodeError;
use crate::reader::{Reader, exactly};

/// Bytes of every HELLO: more than its answer has.
pub const HELLO_LEN: usize = 64;

/// Bytes of every LISTEN.
pub const LISTEN_LEN: usize = 1 + NONCE_LEN + RelayId::LEN + ListenerName::LEN + Proof::LEN;

/// Bytes of the answer to both.
pub const CONSENT_LEN: usize = 1 + NONCE_LEN + Consent::LEN + MAC_LEN;

const HELLO_PADDING: usize = HELLO_LEN - 1 - NONCE_LEN - RelayId::LEN;

const _: () = assert!(CONSENT_LEN <= HELLO_LEN && CONSENT_LEN <= LISTEN_LEN);

/// Asks a relay for a consent to the address from which it is sent.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The answer contains it.
    pub nonce: Nonce,
    /// The relay. Another relay doesn't answer, so strangers who don't know it get no answer.
    pub relay: RelayId,
}

impl Hello {
    /// The datagram.
    pub fn to_bytes(&self) -> [u8; HELLO_LEN] {
        let mut bytes = [0; HELLO_LEN];
        let mut buf = &mut bytes[..];
        buf.put_u8(RelayType::Hello as u8);
        buf.put_slice(&self.nonce.0);
        buf.put_slice(&self.relay.0);
        bytes
    }

    /// Reads a whole datagram.
    ///
    /// # Errors
    /// It isn't a HELLO, has another length, or its padding isn't zero.
    pub fn decode(datagram: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = RelayType::Hello.open(datagram, HELLO_LEN)?;
        let hello = Self {
            nonce: Nonce(reader.array("a HELLO's nonce")?),
            relay: RelayId(reader.array("a HELLO's relay")?),
        };
        get_zeros(&mut reader, HELLO_PADDING, "a HELLO's padding")?;
        Ok(hello)
    }
}

/// Asks a relay to let others reach the sender's address under a name, until the sender is silent
/// for [`CONSENT_LIFE`](super::CONSENT_LIFE). The relay answers as to a HELLO.
///
/// Without a name, it is a HELLO from a sender who has proved its address. Renew a consent with it:
/// a flood of HELLOs from spoofed addresses doesn't keep the relay from answering it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// The answer contains it.
    pub nonce: Nonce,
    /// The relay.
    pub relay: RelayId,
    /// The name, or [`ListenerName::NONE`]. Anyone who knows it can take it over, so it should be
    /// hard to guess, and few should know it.
    pub name: ListenerName,
    /// The proof from the last answer to the same source address. A spoofed source has none.
    pub proof: Proof,
}

impl Listen {
    /// The datagram.
    pub fn to_bytes(&self) -> [u8; LISTEN_LEN] {
        let mut bytes = [0; LISTEN_LEN];
        let mut buf = &mut bytes[..];
        buf.put_u8(RelayType::Listen as u8);
        buf.put_slice(&self.nonce.0);
        buf.put_slice(&self.relay.0);
        buf.put_slice(&self.name.0);
        self.proof.encode(&mut buf);
        bytes
    }

    /// Reads a whole datagram.
    ///
    /// # Errors
    /// It isn't a LISTEN, or has another length.
    pub fn decode(datagram: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = RelayType::Listen.open(datagram, LISTEN_LEN)?;
        Ok(Self {
            nonce: Nonce(reader.array("a LISTEN's nonce")?),
            relay: RelayId(reader.array("a LISTEN's relay")?),
            name: ListenerName(reader.array("a LISTEN's name")?),
            proof: Proof::get(&mut reader)?,
        })
    }
}

/// A relay's answer to HELLO and LISTEN.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct ConsentReply {
    /// The request's nonce.
    pub nonce: Nonce,
    /// The consent to the request's source address, for those who may send there.
    pub consent: Consent,
    /// A proof that its holder is at that address, for the relay alone, in LISTEN and MINT. It has
    /// a MAC of its own, since others get the consent and could send from spoofed addresses.
    pub proof: Proof,
}

impl ConsentReply {
    /// The datagram. The proof has the consent's key and time.
    pub fn to_bytes(&self) -> [u8; CONSENT_LEN] {
        let mut bytes = [0; CONSENT_LEN];
        let mut buf = &mut bytes[..];
        buf.put_u8(RelayType::Consent as u8);
        buf.put_slice(&self.nonce.0);
        buf.put_slice(&self.consent.to_bytes());
        buf.put_slice(&self.proof.mac.0);
        bytes
    }

    /// Reads a whole datagram.
    ///
    /// # Errors
    /// It isn't a CONSENT, or has another length.
    pub fn decode(datagram: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = RelayType::Consent.open(datagram, CONSENT_LEN)?;
        let nonce = Nonce(reader.array("a CONSENT's nonce")?);
        let consent = Consent::get(&mut reader)?;
        let proof = Proof {
            key: consent.key,
            issued: consent.issued,
            mac: Mac(reader.array("a CONSENT's proof")?),
        };
        Ok(Self {
            nonce,
            consent,
            proof,
        })
    }
}

/// A relay's statement that somebody at `address` receives what is sent there, and has asked for
/// the relay's service. Its holder passes it on to those who may send to it through the relay.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Consent {
    /// The relay's key that made the MAC.
    pub key: u8,
    /// When it was issued: Unix time in seconds by the relay's clock.
    pub issued: u32,
    /// The address, as the relay sees it.
    pub address: SocketAddr,
    /// Covers all of these.
    pub mac: Mac,
}

impl Consent {
    /// Bytes of a consent.
    pub const LEN: usize = 1 + 4 + ADDRESS_LEN + MAC_LEN;

    /// The consent's bytes.
    pub fn to_bytes(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        let mut buf = &mut bytes[..];
        buf.put_u8(self.key);
        buf.put_u32(self.issued);
        put_address(&mut buf, self.address);
        buf.put_slice(&self.mac.0);
        bytes
    }

    /// Reads a consent. Only the relay can tell whether it is genuine.
    ///
    /// # Errors
    /// It has another length.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        exactly(bytes, Self::LEN, "a consent")?;
        Self::get(&mut Reader::new(bytes))
    }

    pub(crate) fn get(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            key: reader.u8("a consent's key")?,
            issued: reader.u32("a consent's time")?,
            address: get_address(reader)?,
            mac: Mac(reader.array("a consent's MAC")?),
        })
    }
}

/// Proves to the relay that a datagram's sender receives what is sent to its source address. Keep
/// it secret.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// The relay's key that made the MAC.
    pub key: u8,
    /// When it was issued: Unix time in seconds by the relay's clock.
    pub issued: u32,
    /// Covers these and the address.
    pub mac: Mac,
}

impl Proof {
    /// Bytes of a proof.
    pub const LEN: usize = 1 + 4 + MAC_LEN;

    pub(super) fn encode(&self, buf: &mut impl BufMut) {
        buf.put_u8(self.key);
        buf.put_u32(self.issued);
        buf.put_slice(&self.mac.0);
    }

    pub(crate) fn get(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            key: reader.u8("a proof's key")?,
            issued: reader.u32("a proof's time")?,
            mac: Mac(reader.array("a proof's MAC")?),
        })
    }
}

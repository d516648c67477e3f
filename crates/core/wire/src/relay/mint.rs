use bytes::BufMut;

use super::{
    Consent, Grant, ListenerName, NONCE_LEN, Nonce, Proof, RelayType, SIGNATURE_LEN, VOUCHER_LEN,
    Voucher, get_zeros,
};
use crate::DecodeError;
use crate::reader::{Reader, exactly};

/// Bytes of every MINT.
pub const MINT_LEN: usize = UNSIGNED_LEN + SIGNATURE_LEN;

/// Bytes of the longest MINTED.
pub const MINTED_MAX_LEN: usize = 1 + NONCE_LEN + 4 + 2 * Grant::MAX_LEN;

/// Bytes of every REFUSED.
pub const REFUSED_LEN: usize = 1 + NONCE_LEN + 1 + 4;

const UNSIGNED_LEN: usize = 1 + NONCE_LEN + Proof::LEN + Peer::LEN + VOUCHER_LEN;

const _: () = assert!(MINTED_MAX_LEN <= MINT_LEN && REFUSED_LEN <= MINT_LEN);

/// The context in front of a MINT when it is signed.
const CONTEXT: &[u8] = b"manyway relay mint 1";

/// Asks a relay for grants between the sender's address and a peer's, in both directions.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Mint {
    /// The answer contains it.
    pub nonce: Nonce,
    /// A proof that the sender receives what is sent to its source address.
    pub proof: Proof,
    /// The other end.
    pub peer: Peer,
    /// The voucher of the account that pays.
    pub voucher: Voucher,
}

/// The other end of a flow through a relay.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    /// The host that has passed on this consent.
    Consent(Consent),
    /// The host that listens at the relay under this name.
    Name(ListenerName),
}

impl Mint {
    /// The datagram. `sign` signs with the key that the voucher names as the client's.
    pub fn seal(&self, sign: impl FnOnce(&[u8]) -> [u8; SIGNATURE_LEN]) -> [u8; MINT_LEN] {
        let mut bytes = [0; MINT_LEN];
        let mut buf = &mut bytes[..];
        buf.put_u8(RelayType::Mint as u8);
        buf.put_slice(&self.nonce.0);
        self.proof.encode(&mut buf);
        self.peer.encode(&mut buf);
        buf.put_slice(&self.voucher.to_bytes());
        let (unsigned, signature) = bytes.split_at_mut(UNSIGNED_LEN);
        signature.copy_from_slice(&sign(&signed_bytes(unsigned)));
        bytes
    }

    /// Reads a whole datagram: the message and its signature over [`Mint::signed_bytes`]. Checks
    /// neither this signature nor the voucher's.
    ///
    /// # Errors
    /// It isn't a MINT, has another length, or a field has a value without meaning.
    pub fn decode(datagram: &[u8]) -> Result<(Self, [u8; SIGNATURE_LEN]), DecodeError> {
        let mut reader = RelayType::Mint.open(datagram, MINT_LEN)?;
        let mint = Self {
            nonce: Nonce(reader.array("a MINT's nonce")?),
            proof: Proof::get(&mut reader)?,
            peer: Peer::get(&mut reader)?,
            voucher: Voucher::get(&mut reader)?,
        };
        Ok((mint, reader.array("a MINT's signature")?))
    }

    /// The bytes of a MINT of [`MINT_LEN`] bytes that its signature covers.
    pub fn signed_bytes(datagram: &[u8; MINT_LEN]) -> Vec<u8> {
        signed_bytes(&datagram[..UNSIGNED_LEN])
    }
}

fn signed_bytes(unsigned: &[u8]) -> Vec<u8> {
    [CONTEXT, unsigned].concat()
}

impl Peer {
    const LEN: usize = 1 + Consent::LEN;

    pub(super) fn encode(&self, buf: &mut impl BufMut) {
        match self {
            Self::Consent(consent) => {
                buf.put_u8(1);
                buf.put_slice(&consent.to_bytes());
            }
            Self::Name(name) => {
                buf.put_u8(2);
                buf.put_slice(&name.0);
                buf.put_bytes(0, Consent::LEN - ListenerName::LEN);
            }
        }
    }

    pub(super) fn get(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let what = "the peer";
        match reader.u8(what)? {
            1 => Consent::get(reader).map(Self::Consent),
            2 => {
                let name = ListenerName(reader.array(what)?);
                get_zeros(reader, Consent::LEN - ListenerName::LEN, what)?;
                Ok(Self::Name(name))
            }
            _ => Err(DecodeError::Malformed { what }),
        }
    }
}

/// A relay's answer to a [`Mint`] that it grants.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Minted {
    /// The request's nonce.
    pub nonce: Nonce,
    /// The relay's clock: Unix time in seconds.
    pub now: u32,
    /// The grant for packets from the request's sender to its peer.
    pub there: Grant,
    /// The grant for packets from the peer to the request's sender: pass it on, encrypted.
    pub back: Grant,
}

impl Minted {
    /// Writes the datagram.
    pub fn encode(&self, buf: &mut impl BufMut) {
        buf.put_u8(RelayType::Minted as u8);
        buf.put_slice(&self.nonce.0);
        buf.put_u32(self.now);
        buf.put_slice(self.there.as_bytes());
        buf.put_slice(self.back.as_bytes());
    }

    /// Reads a whole datagram.
    ///
    /// # Errors
    /// It isn't a MINTED, or one of the grants is malformed.
    pub fn decode(datagram: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(datagram);
        RelayType::Minted.expect(&mut reader)?;
        let minted = Self {
            nonce: Nonce(reader.array("a MINTED's nonce")?),
            now: reader.u32("a MINTED's time")?,
            there: Grant::get(&mut reader)?,
            back: Grant::get(&mut reader)?,
        };
        let expected = datagram.len() - reader.rest().len();
        exactly(datagram, expected, "a MINTED")?;
        Ok(minted)
    }
}

/// A relay's answer to a [`Mint`] that it refuses. Only a sender with a proved address gets one.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The request's nonce.
    pub nonce: Nonce,
    /// The reason.
    pub reason: Refusal,
    /// The relay's clock: Unix time in seconds.
    pub now: u32,
}

/// Why a relay grants nothing.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[repr(u8)]
pub enum Refusal {
    /// No key that the relay trusts has signed the voucher, or its client hasn't signed the MINT.
    #[error("the relay doesn't accept the voucher: ask its operator for a new one")]
    Voucher = 1,
    /// The voucher has expired.
    #[error("the voucher for the relay has expired: ask for a new one")]
    VoucherExpired = 2,
    /// The peer's consent isn't this relay's, or is too old.
    #[error("the relay has no fresh consent from the listener")]
    Consent = 3,
    /// Nobody listens under the name.
    #[error("the relay doesn't know the listener")]
    UnknownName = 4,
    /// The relay doesn't forward to such addresses.
    #[error("the relay doesn't forward to or from addresses of this kind")]
    Address = 5,
    /// The relay is about to stop.
    #[error("the relay is about to stop")]
    Leaving = 6,
    /// The relay has no capacity for it now.
    #[error("the relay is too busy")]
    Busy = 7,
    /// The operator has revoked the account's access.
    #[error("the relay's operator has revoked this access")]
    Revoked = 8,
}

impl Refused {
    /// The datagram.
    pub fn to_bytes(&self) -> [u8; REFUSED_LEN] {
        let mut bytes = [0; REFUSED_LEN];
        let mut buf = &mut bytes[..];
        buf.put_u8(RelayType::Refused as u8);
        buf.put_slice(&self.nonce.0);
        buf.put_u8(self.reason as u8);
        buf.put_u32(self.now);
        bytes
    }

    /// Reads a whole datagram.
    ///
    /// # Errors
    /// It isn't a REFUSED, has another length or an unknown reason.
    pub fn decode(datagram: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = RelayType::Refused.open(datagram, REFUSED_LEN)?;
        let nonce = Nonce(reader.array("a REFUSED's nonce")?);
        let what = "a REFUSED's reason";
        let reason = match reader.u8(what)? {
            1 => Refusal::Voucher,
            2 => Refusal::VoucherExpired,
            3 => Refusal::Consent,
            4 => Refusal::UnknownName,
            5 => Refusal::Address,
            6 => Refusal::Leaving,
            7 => Refusal::Busy,
            8 => Refusal::Revoked,
            _ => return Err(DecodeError::Malformed { what }),
        };
        let now = reader.u32("a REFUSED's time")?;
        Ok(Self { nonce, reason, now })
    }
}

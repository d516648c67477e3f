use std::fmt;

use bytes::BufMut;

use super::{RelayId, SIGNATURE_LEN};
use crate::DecodeError;
use crate::reader::{Reader, exactly};

/// Bytes of a voucher.
pub const VOUCHER_LEN: usize = TERMS_LEN + SIGNATURE_LEN;

const TERMS_LEN: usize = RelayId::LEN + 32 + 8 + 1 + 4 + 32;

/// The context in front of the terms when they are signed, so that the signature is valid for
/// nothing else.
const CONTEXT: &[u8] = b"manyway relay voucher 1";

/// An account's rate class: 2^class Mbit/s, both directions together.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RateClass(u8);

impl RateClass {
    /// The highest class: about 32 Gbit/s.
    pub const MAX: Self = Self(15);

    /// Class `number`, if there is one.
    #[inline]
    pub fn new(number: u8) -> Option<Self> {
        (number <= Self::MAX.0).then_some(Self(number))
    }

    /// The highest class whose rate is at most `bytes_per_second`; `None` if even the lowest is
    /// faster.
    pub fn within(bytes_per_second: u64) -> Option<Self> {
        (0..=Self::MAX.0)
            .rev()
            .map(Self)
            .find(|class| class.bytes_per_second() <= bytes_per_second)
    }

    /// The class's number.
    #[inline]
    pub fn number(self) -> u8 {
        self.0
    }

    /// The class's rate.
    pub fn bytes_per_second(self) -> u64 {
        125_000 << self.0
    }

    pub(super) fn get(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let what = "a rate class";
        let value = reader.u8(what)?;
        Self::new(value).ok_or(DecodeError::TooLarge {
            what,
            value: value.into(),
            limit: Self::MAX.0.into(),
        })
    }
}

/// What a key that a relay trusts says about one of the relay's clients.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct VoucherTerms {
    /// The relay. The voucher is valid at no other.
    pub relay: RelayId,
    /// The signer's Ed25519 public key.
    pub signer: RelayId,
    /// The account whose traffic counts: a number with a meaning for the signer only.
    pub account: [u8; 8],
    /// The account's rate class.
    pub class: RateClass,
    /// When it ends: Unix time in seconds.
    pub expires: u32,
    /// The client's Ed25519 public key. It has to sign each MINT, so others who see a voucher can't
    /// use it.
    pub client: RelayId,
}

/// Signed [`VoucherTerms`].
#[derive(Copy, Clone, PartialEq, Eq)]
pub struct Voucher {
    /// The terms.
    pub terms: VoucherTerms,
    /// By `terms.signer`, over [`VoucherTerms::signed_bytes`]. Decoding doesn't check it.
    pub signature: [u8; SIGNATURE_LEN],
}

impl VoucherTerms {
    /// The bytes that the signature covers.
    pub fn signed_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(CONTEXT.len() + TERMS_LEN);
        bytes.put_slice(CONTEXT);
        self.encode(&mut bytes);
        bytes
    }

    /// The voucher with the signature that `sign` makes.
    pub fn seal(self, sign: impl FnOnce(&[u8]) -> [u8; SIGNATURE_LEN]) -> Voucher {
        Voucher {
            terms: self,
            signature: sign(&self.signed_bytes()),
        }
    }

    fn encode(&self, buf: &mut impl BufMut) {
        buf.put_slice(&self.relay.0);
        buf.put_slice(&self.signer.0);
        buf.put_slice(&self.account);
        buf.put_u8(self.class.number());
        buf.put_u32(self.expires);
        buf.put_slice(&self.client.0);
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            relay: RelayId(reader.array("a voucher's relay")?),
            signer: RelayId(reader.array("a voucher's signer")?),
            account: reader.array("a voucher's account")?,
            class: RateClass::get(reader)?,
            expires: reader.u32("a voucher's expiry")?,
            client: RelayId(reader.array("a voucher's client")?),
        })
    }
}

impl Voucher {
    /// The voucher's bytes.
    pub fn to_bytes(&self) -> [u8; VOUCHER_LEN] {
        let mut bytes = [0; VOUCHER_LEN];
        let mut buf = &mut bytes[..];
        self.terms.encode(&mut buf);
        buf.put_slice(&self.signature);
        bytes
    }

    /// Reads a voucher. Doesn't check its signature.
    ///
    /// # Errors
    /// The length is wrong or the class unknown.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        exactly(bytes, VOUCHER_LEN, "a voucher")?;
        Self::get(&mut Reader::new(bytes))
    }

    pub(super) fn get(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            terms: VoucherTerms::get(reader)?,
            signature: reader.array("a voucher's signature")?,
        })
    }
}

impl fmt::Debug for Voucher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Voucher")
            .field("terms", &self.terms)
            .finish_non_exhaustive()
    }
}

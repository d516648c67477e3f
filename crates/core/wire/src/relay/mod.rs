//! The messages of relays. `docs/relays.md` specifies the protocol and the threats that shaped it.
//!
//! A relay keeps no state per flow. A packet carries its destination and a [`Grant`] in front of
//! its payload; the relay checks the grant, strips it and forwards the payload. To mint a grant, a
//! relay needs a consent from each end, which proves that the end receives at its address and asked
//! this relay to forward.
//!
//! Lengths are fixed, so equal headers compare as bytes, and every reply is shorter than its
//! request. The caller makes and checks signatures and MACs; this crate only knows which bytes they
//! cover.

mod consent;
mod forward;
mod mint;
mod stream;
#[cfg(test)]
mod tests;
mod ticket;
mod voucher;

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use bytes::BufMut;

pub use consent::{
    CONSENT_LEN, Consent, ConsentReply, HELLO_LEN, Hello, LISTEN_LEN, Listen, Proof,
};
pub use forward::{ForwardHeader, Grant, STALE_LEN, Stale, StaleReason};
pub use mint::{MINT_LEN, MINTED_MAX_LEN, Mint, Minted, Peer, REFUSED_LEN, Refusal, Refused};
pub use stream::{
    CallToken, Challenge, ListenKey, STREAM_REPLY_MAX_LEN, STREAM_REQUEST_MAX_LEN, StreamAnswer,
    StreamConnect, StreamListen, StreamRefusal, StreamReply, StreamRequest, StreamType,
    stream_reply_len, stream_request_len,
};
pub use ticket::{Access, MAX_RELAY_ADDRESSES, RelayTicket};
pub use voucher::{RateClass, VOUCHER_LEN, Voucher, VoucherTerms};

use crate::reader::{Reader, exactly};
use crate::text::{BASE32, encoded_len};
use crate::{DecodeError, TextError};

/// How long after its issue a relay accepts a consent for minting, by the relay's clock.
pub const CONSENT_LIFE: Duration = Duration::from_secs(60);

/// How long after the issue of its destination's consent a grant is valid: nobody gets forwarded
/// packets longer than this after its last consent.
pub const GRANT_LIFE: Duration = Duration::from_secs(120);

/// How often a listener that wants to be reachable renews its consent, which also keeps its NAT's
/// mapping alive.
pub const HELLO_INTERVAL: Duration = Duration::from_secs(15);

/// Bytes of a [`Mac`].
pub const MAC_LEN: usize = 8;

/// Bytes of an Ed25519 signature.
pub const SIGNATURE_LEN: usize = 64;

/// Bytes of a [`Nonce`].
pub const NONCE_LEN: usize = 8;

/// Bytes of an address in a message: IPv6 address (IPv4 mapped into it) and port.
const ADDRESS_LEN: usize = 16 + 2;

/// The type of a datagram to or from a relay, by its first byte. The session's datagrams begin with
/// 0x01 to 0x1f.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RelayType {
    /// A [`Grant`] towards an IPv4 address, then the payload to forward.
    Forward4 = 0x20,
    /// A [`Grant`] towards an IPv6 address, then the payload to forward.
    Forward6 = 0x21,
    /// Asks for a consent: [`Hello`].
    Hello = 0x22,
    /// Answers HELLO and LISTEN: [`ConsentReply`].
    Consent = 0x23,
    /// Asks for grants: [`Mint`].
    Mint = 0x24,
    /// Answers MINT: [`Minted`].
    Minted = 0x25,
    /// Answers a packet whose grant no longer holds: [`Stale`].
    Stale = 0x26,
    /// Asks to be reachable under a name: [`Listen`].
    Listen = 0x27,
    /// Answers MINT: [`Refused`].
    Refused = 0x28,
}

impl RelayType {
    /// The type that `datagram` claims; `None` if it isn't a relay's.
    #[inline]
    pub fn of(datagram: &[u8]) -> Option<Self> {
        match datagram.first()? {
            0x20 => Some(Self::Forward4),
            0x21 => Some(Self::Forward6),
            0x22 => Some(Self::Hello),
            0x23 => Some(Self::Consent),
            0x24 => Some(Self::Mint),
            0x25 => Some(Self::Minted),
            0x26 => Some(Self::Stale),
            0x27 => Some(Self::Listen),
            0x28 => Some(Self::Refused),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Forward4 | Self::Forward6 => "a FORWARD",
            Self::Hello => "a HELLO",
            Self::Consent => "a CONSENT",
            Self::Mint => "a MINT",
            Self::Minted => "a MINTED",
            Self::Stale => "a STALE",
            Self::Listen => "a LISTEN",
            Self::Refused => "a REFUSED",
        }
    }

    /// A reader behind the type byte of a datagram of exactly `len` bytes.
    fn open(self, datagram: &[u8], len: usize) -> Result<Reader<'_>, DecodeError> {
        let mut reader = Reader::new(datagram);
        self.expect(&mut reader)?;
        exactly(datagram, len, self.name())?;
        Ok(reader)
    }

    fn expect(self, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        let found = reader.u8("the datagram's type")?;
        if found == self as u8 {
            return Ok(());
        }
        Err(DecodeError::WrongType {
            expected: self.name(),
            found,
        })
    }
}

/// Whether a datagram has a type that only relays and their clients exchange, known to this release
/// or not: its first byte is 0x20 to 0x2f. A relay never forwards such a datagram, so nothing that
/// leaves a relay makes another relay act.
#[inline]
pub fn is_relay_datagram(datagram: &[u8]) -> bool {
    datagram.first().is_some_and(|first| first >> 4 == 2)
}

/// A datagram from a relay, as its clients read it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum RelayReply {
    /// The answer to HELLO or LISTEN.
    Consent(ConsentReply),
    /// The requested grants.
    Minted(Minted),
    /// The refusal.
    Refused(Refused),
    /// A grant no longer holds.
    Stale(Stale),
}

impl RelayReply {
    /// Reads any datagram from a relay to its clients. Match the nonce, or for STALE the grant,
    /// before you believe it: nothing else authenticates replies.
    ///
    /// # Errors
    /// The datagram is none of these, or malformed.
    pub fn decode(datagram: &[u8]) -> Result<Self, DecodeError> {
        match RelayType::of(datagram) {
            Some(RelayType::Minted) => Minted::decode(datagram).map(Self::Minted),
            Some(RelayType::Refused) => Refused::decode(datagram).map(Self::Refused),
            Some(RelayType::Stale) => Stale::decode(datagram).map(Self::Stale),
            _ => ConsentReply::decode(datagram).map(Self::Consent),
        }
    }
}

/// A relay's identity: its Ed25519 public key. Its text is 52 characters of base32, without a
/// checksum.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelayId(pub [u8; Self::LEN]);

impl RelayId {
    /// Bytes of an id.
    pub const LEN: usize = 32;
}

impl fmt::Display for RelayId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&BASE32.encode(&self.0))
    }
}

impl fmt::Debug for RelayId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for RelayId {
    type Err = TextError;

    /// Reads an id's text. Ignores white space around it.
    fn from_str(text: &str) -> Result<Self, TextError> {
        let what = "key";
        let text = text.trim();
        let found = text.chars().count();
        if found != encoded_len(Self::LEN) {
            return Err(TextError::WrongLength { what, found });
        }
        BASE32
            .decode(text.as_bytes())
            .ok()
            .and_then(|bytes| Some(Self(bytes.try_into().ok()?)))
            .ok_or(TextError::Checksum { what })
    }
}

/// Random bytes of a request that its reply repeats: only those who see the request can answer it.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct Nonce(pub [u8; NONCE_LEN]);

/// A relay's authentication code. `Debug` doesn't show it. Compare it in constant time.
#[derive(Copy, Clone, PartialEq, Eq, Hash)]
pub struct Mac(pub [u8; MAC_LEN]);

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mac(..)")
    }
}

/// The name under which initiators find a listener at a relay. `Debug` doesn't show it.
#[derive(Copy, Clone, PartialEq, Eq, Hash)]
pub struct ListenerName(pub [u8; Self::LEN]);

impl ListenerName {
    /// Bytes of a name.
    pub const LEN: usize = 16;

    /// No name: a LISTEN with it only renews a consent.
    pub const NONE: Self = Self([0; Self::LEN]);
}

impl fmt::Debug for ListenerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ListenerName(..)")
    }
}

/// `address` in its only form here: IPv4 as such, never mapped into IPv6, without scope and flow
/// label.
#[inline]
pub fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Writes an address as 18 bytes, IPv4 mapped into IPv6.
fn put_address(buf: &mut impl BufMut, address: SocketAddr) {
    let ip: Ipv6Addr = match address.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    buf.put_slice(&ip.octets());
    buf.put_u16(address.port());
}

fn get_address(reader: &mut Reader<'_>) -> Result<SocketAddr, DecodeError> {
    let ip = Ipv6Addr::from(reader.array::<16>("an IP address")?);
    let port = reader.u16("a port")?;
    Ok(SocketAddr::new(ip.to_canonical(), port))
}

fn get_zeros(reader: &mut Reader<'_>, len: usize, what: &'static str) -> Result<(), DecodeError> {
    match reader.take(len, what)?.iter().all(|byte| *byte == 0) {
        true => Ok(()),
        false => Err(DecodeError::Malformed { what }),
    }
}

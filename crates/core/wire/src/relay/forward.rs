use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use bytes::BufMut;

use super::{MAC_LEN, Mac, RateClass, RelayType};
use crate::DecodeError;
use crate::reader::{Reader, exactly};

/// Bytes of every STALE: fewer than the shortest FORWARD has.
pub const STALE_LEN: usize = 1 + 1 + 4 + MAC_LEN;

const _: () = assert!(STALE_LEN < ForwardHeader::LEN_V4);

/// The header of a packet for a relay to forward. Its fields are the grant: its holder can send
/// from the address for which it was minted, and from no other, until it expires.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct ForwardHeader {
    /// The relay's key that made the codes.
    pub key: u8,
    /// The account's rate class.
    pub class: RateClass,
    /// When it ends: Unix time in seconds by the relay's clock.
    pub expires: u32,
    /// The account whose rate the packets count against: the relay's hash of the signer and the
    /// account.
    pub tag: [u8; 8],
    /// The packet's destination.
    pub destination: SocketAddr,
    /// Covers all of these. It shows the relay that it made a grant that doesn't hold.
    pub check: [u8; 4],
    /// Covers all of these and the packet's source address.
    pub mac: Mac,
}

impl ForwardHeader {
    /// Bytes of a header towards an IPv4 address.
    pub const LEN_V4: usize = Self::FIXED_LEN + 4 + 2 + 4 + MAC_LEN;
    /// Bytes of a header towards an IPv6 address.
    pub const LEN_V6: usize = Self::FIXED_LEN + 16 + 2 + 4 + MAC_LEN;

    const FIXED_LEN: usize = 1 + 1 + 1 + 4 + 8;

    /// Bytes of this header.
    #[inline]
    pub fn encoded_len(&self) -> usize {
        match self.destination {
            SocketAddr::V4(_) => Self::LEN_V4,
            SocketAddr::V6(_) => Self::LEN_V6,
        }
    }

    /// Writes the header.
    pub fn encode(&self, buf: &mut impl BufMut) {
        buf.put_u8(match self.destination {
            SocketAddr::V4(_) => RelayType::Forward4 as u8,
            SocketAddr::V6(_) => RelayType::Forward6 as u8,
        });
        buf.put_u8(self.key);
        buf.put_u8(self.class.number());
        buf.put_u32(self.expires);
        buf.put_slice(&self.tag);
        match self.destination.ip() {
            IpAddr::V4(ip) => buf.put_slice(&ip.octets()),
            IpAddr::V6(ip) => buf.put_slice(&ip.octets()),
        }
        buf.put_u16(self.destination.port());
        buf.put_slice(&self.check);
        buf.put_slice(&self.mac.0);
    }

    /// Reads the header in front of a datagram, which may be longer.
    ///
    /// # Errors
    /// The datagram isn't a FORWARD or is cut short, its class is unknown, or its destination is an
    /// IPv4 address mapped into IPv6 (an address has one header only).
    #[inline]
    pub fn decode(datagram: &[u8]) -> Result<Self, DecodeError> {
        let what = "a FORWARD's header";
        match RelayType::of(datagram) {
            Some(RelayType::Forward4) => {
                let (bytes, _) = datagram
                    .split_first_chunk::<{ Self::LEN_V4 }>()
                    .ok_or(DecodeError::Truncated { what })?;
                Self::fields(bytes, Ipv4Addr::from(part::<_, 4>(bytes, 15)).into())
            }
            Some(RelayType::Forward6) => {
                let (bytes, _) = datagram
                    .split_first_chunk::<{ Self::LEN_V6 }>()
                    .ok_or(DecodeError::Truncated { what })?;
                let ip = Ipv6Addr::from(part::<_, 16>(bytes, 15));
                if ip.to_ipv4_mapped().is_some() {
                    let what = "a FORWARD's destination";
                    return Err(DecodeError::Malformed { what });
                }
                Self::fields(bytes, ip.into())
            }
            _ => Err(match datagram.first() {
                Some(&found) => DecodeError::WrongType {
                    expected: RelayType::Forward4.name(),
                    found,
                },
                None => DecodeError::Truncated { what },
            }),
        }
    }

    /// The fields of a whole header. Relays do this for every packet, so it checks nothing twice.
    #[inline]
    fn fields<const N: usize>(bytes: &[u8; N], ip: IpAddr) -> Result<Self, DecodeError> {
        let behind = N - MAC_LEN - 4 - 2;
        let (what, limit) = ("a rate class", RateClass::MAX.number());
        Ok(Self {
            key: bytes[1],
            class: RateClass::new(bytes[2]).ok_or(DecodeError::TooLarge {
                what,
                value: bytes[2].into(),
                limit: limit.into(),
            })?,
            expires: u32::from_be_bytes(part(bytes, 3)),
            tag: part(bytes, 7),
            destination: SocketAddr::new(ip, u16::from_be_bytes(part(bytes, behind))),
            check: part(bytes, behind + 2),
            mac: Mac(part(bytes, behind + 6)),
        })
    }
}

/// `M` bytes from `at` on, which must exist.
#[inline]
fn part<const N: usize, const M: usize>(bytes: &[u8; N], at: usize) -> [u8; M] {
    let mut part = [0; M];
    part.copy_from_slice(&bytes[at..at + M]);
    part
}

/// The bytes of a [`ForwardHeader`]: put them in front of a packet and send that to the relay.
#[derive(Copy, Clone, PartialEq, Eq)]
pub struct Grant {
    // Zeros follow the header, so that equal grants are equal bytes.
    bytes: [u8; ForwardHeader::LEN_V6],
    header: ForwardHeader,
}

impl Grant {
    /// Bytes of the longest grant.
    pub const MAX_LEN: usize = ForwardHeader::LEN_V6;

    /// The bytes in front of a packet.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.header.encoded_len()]
    }

    /// The header's fields.
    pub fn header(&self) -> &ForwardHeader {
        &self.header
    }

    /// The packets' destination.
    pub fn destination(&self) -> SocketAddr {
        self.header.destination
    }

    /// When it ends: Unix time in seconds by the relay's clock.
    pub fn expires(&self) -> u32 {
        self.header.expires
    }

    /// Reads a whole grant.
    ///
    /// # Errors
    /// As [`ForwardHeader::decode`], or the length is wrong.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let grant = Self::in_front_of(bytes)?;
        exactly(bytes, grant.as_bytes().len(), "a grant")?;
        Ok(grant)
    }

    /// Reads the grant in front of a datagram.
    ///
    /// # Errors
    /// As [`ForwardHeader::decode`].
    pub fn in_front_of(datagram: &[u8]) -> Result<Self, DecodeError> {
        let header = ForwardHeader::decode(datagram)?;
        let len = header.encoded_len();
        let mut bytes = [0; ForwardHeader::LEN_V6];
        bytes[..len].copy_from_slice(&datagram[..len]);
        Ok(Self { bytes, header })
    }

    pub(crate) fn get(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let grant = Self::in_front_of(reader.rest())?;
        reader.take(grant.as_bytes().len(), "a grant")?;
        Ok(grant)
    }
}

impl From<ForwardHeader> for Grant {
    /// The header's bytes. Encodes a mapped IPv4 destination as IPv4.
    fn from(mut header: ForwardHeader) -> Self {
        header.destination = super::canonical(header.destination);
        let mut bytes = [0; ForwardHeader::LEN_V6];
        header.encode(&mut &mut bytes[..]);
        Self { bytes, header }
    }
}

impl fmt::Debug for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grant")
            .field("destination", &self.header.destination)
            .field("expires", &self.header.expires)
            .finish_non_exhaustive()
    }
}

/// A relay's message that one of its grants doesn't hold, or soon won't.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Stale {
    /// The reason.
    pub reason: StaleReason,
    /// The relay's clock: Unix time in seconds.
    pub now: u32,
    /// The grant's MAC, so that only those who have seen the grant can send this.
    pub mac: Mac,
}

/// Why a grant doesn't hold.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum StaleReason {
    /// It has expired.
    Expired = 1,
    /// It was minted for another source address, for example because a NAT has changed its mapping.
    /// Ask for a new consent, then for new grants.
    Moved = 2,
    /// The relay still forwards, but is about to stop.
    Leaving = 3,
}

impl Stale {
    /// The datagram.
    pub fn to_bytes(&self) -> [u8; STALE_LEN] {
        let mut bytes = [0; STALE_LEN];
        let mut buf = &mut bytes[..];
        buf.put_u8(RelayType::Stale as u8);
        buf.put_u8(self.reason as u8);
        buf.put_u32(self.now);
        buf.put_slice(&self.mac.0);
        bytes
    }

    /// Reads a whole datagram.
    ///
    /// # Errors
    /// It isn't a STALE, has another length or an unknown reason.
    pub fn decode(datagram: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = RelayType::Stale.open(datagram, STALE_LEN)?;
        let what = "a STALE's reason";
        let reason = match reader.u8(what)? {
            1 => StaleReason::Expired,
            2 => StaleReason::Moved,
            3 => StaleReason::Leaving,
            _ => return Err(DecodeError::Malformed { what }),
        };
        Ok(Self {
            reason,
            now: reader.u32("a STALE's time")?,
            mac: Mac(reader.array("a STALE's MAC")?),
        })
    }

    /// Whether it concerns this grant.
    pub fn concerns(&self, grant: &Grant) -> bool {
        self.mac == grant.header().mac
    }
}

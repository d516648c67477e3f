use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::DecodeError;
use crate::reader::Reader;
use crate::sink::Sink;

/// The most addresses in an ADDRESSES frame or in a ticket.
pub const MAX_ADDRESSES: usize = 32;

/// Bytes of the shortest address: family, IPv4 address, port.
const MIN_LEN: usize = 1 + 4 + 2;

/// The addresses that are encoded: the first [`MAX_ADDRESSES`].
pub(crate) fn sendable(addresses: &[SocketAddr]) -> &[SocketAddr] {
    &addresses[..addresses.len().min(MAX_ADDRESSES)]
}

/// Writes the addresses without their count. Drops an IPv6 scope or flow label, which means nothing
/// on another host.
pub(crate) fn put_list(out: &mut impl Sink, addresses: &[SocketAddr]) {
    for address in sendable(addresses) {
        match address.ip() {
            IpAddr::V4(ip) => {
                out.byte(4);
                out.slice(&ip.octets());
            }
            IpAddr::V6(ip) => {
                out.byte(6);
                out.slice(&ip.octets());
            }
        }
        out.slice(&address.port().to_be_bytes());
    }
}

/// Reads `count` addresses. Allocates for no more than the present bytes can hold.
pub(crate) fn get_list(
    reader: &mut Reader<'_>,
    count: u64,
) -> Result<Vec<SocketAddr>, DecodeError> {
    let limit = MAX_ADDRESSES as u64;
    if count > limit {
        return Err(DecodeError::TooLarge {
            what: "the number of addresses",
            value: count,
            limit,
        });
    }
    let count = count as usize;
    if reader.rest().len() < count * MIN_LEN {
        return Err(DecodeError::Truncated {
            what: "the list of addresses",
        });
    }
    (0..count).map(|_| get(reader)).collect()
}

/// An address or none, which is family 0.
pub(crate) fn get_optional(reader: &mut Reader<'_>) -> Result<Option<SocketAddr>, DecodeError> {
    if reader.rest().first() == Some(&0) {
        reader.u8("an address's family")?;
        return Ok(None);
    }
    get(reader).map(Some)
}

fn get(reader: &mut Reader<'_>) -> Result<SocketAddr, DecodeError> {
    let ip = match reader.u8("an address's family")? {
        4 => IpAddr::V4(Ipv4Addr::from(reader.array::<4>("an IPv4 address")?)),
        6 => IpAddr::V6(Ipv6Addr::from(reader.array::<16>("an IPv6 address")?)),
        _ => {
            return Err(DecodeError::Malformed {
                what: "an address's family",
            });
        }
    };
    Ok(SocketAddr::new(ip, reader.u16("an address's port")?))
}

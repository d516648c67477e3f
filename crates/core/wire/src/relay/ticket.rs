use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use bytes::BufMut;

use super::{RelayId, VOUCHER_LEN, Voucher};
use crate::reader::{Reader, exactly};
use crate::text::{TextError, TextFormat};
use crate::{DecodeError, address};

/// The most addresses in a [`RelayTicket`].
pub const MAX_RELAY_ADDRESSES: usize = 8;

/// A relay as people paste it: its key, its addresses and, for some, access to it.
///
/// It is `mr1` and base32 of the fields and a CRC-32, as a session's [`Ticket`](crate::Ticket).
/// With [`Access`] in it, it is a secret, which `Debug` doesn't show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayTicket {
    /// The relay's key.
    pub relay: RelayId,
    /// Its addresses. Only the first [`MAX_RELAY_ADDRESSES`] are encoded.
    pub addresses: Vec<SocketAddr>,
    /// Whether it is known to forward streams over TCP at these addresses, too.
    pub tcp: bool,
    /// Allows its holder to ask for grants. A listener needs none.
    pub access: Option<Access>,
}

/// A voucher, and its client's key.
#[derive(Clone, PartialEq, Eq)]
pub struct Access {
    /// The voucher: `terms.client` is the public key of `seed`, and `terms.relay` the relay.
    pub voucher: Voucher,
    /// The seed of the client's Ed25519 key.
    pub seed: [u8; 32],
}

impl RelayTicket {
    /// The same relay without access: for listeners, screens and logs.
    pub fn without_access(&self) -> Self {
        Self {
            access: None,
            ..self.clone()
        }
    }
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access")
            .field("voucher", &self.voucher)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for RelayTicket {
    /// The relay's text. Treat it as a secret if it has access.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let addresses = &self.addresses[..self.addresses.len().min(MAX_RELAY_ADDRESSES)];
        let mut bytes = Vec::with_capacity(MAX_LEN + 4);
        bytes.put_slice(&self.relay.0);
        bytes.put_u8(addresses.len() as u8);
        address::put_list(&mut bytes, addresses);
        let flag = |is: bool, flag| if is { flag } else { 0 };
        bytes.put_u8(flag(self.access.is_some(), ACCESS) | flag(self.tcp, TCP));
        if let Some(access) = &self.access {
            bytes.put_slice(&access.voucher.to_bytes());
            bytes.put_slice(&access.seed);
        }
        f.write_str(&TEXT.encode(bytes))
    }
}

impl FromStr for RelayTicket {
    type Err = TextError;

    /// Reads a relay's text. Ignores white space around it.
    fn from_str(text: &str) -> Result<Self, TextError> {
        let body = TEXT.decode(text)?;
        decode(&body).map_err(|error| TEXT.malformed(error))
    }
}

pub(super) const TEXT: TextFormat = TextFormat {
    what: "relay",
    prefix: "mr1",
    min: MIN_LEN,
    max: MAX_LEN,
};

/// The flags that its last fixed byte may have.
const ACCESS: u8 = 1;
const TCP: u8 = 2;

/// Bytes without addresses and access.
pub(super) const MIN_LEN: usize = RelayId::LEN + 1 + 1;
/// Bytes with the most addresses and access.
pub(super) const MAX_LEN: usize = MIN_LEN + MAX_RELAY_ADDRESSES * (1 + 16 + 2) + VOUCHER_LEN + 32;

fn decode(body: &[u8]) -> Result<RelayTicket, DecodeError> {
    let mut reader = Reader::new(body);
    let relay = RelayId(reader.array("its key")?);
    let what = "its number of addresses";
    let count = reader.u8(what)?;
    if usize::from(count) > MAX_RELAY_ADDRESSES {
        return Err(DecodeError::TooLarge {
            what,
            value: count.into(),
            limit: MAX_RELAY_ADDRESSES as u64,
        });
    }
    let addresses = address::get_list(&mut reader, count.into())?;
    let what = "its flags";
    let flags = reader.u8(what)?;
    if flags & !(ACCESS | TCP) != 0 {
        return Err(DecodeError::Malformed { what });
    }
    let what = "its access";
    let access = match flags & ACCESS {
        0 => None,
        _ => Some(Access {
            voucher: Voucher::get(&mut reader)?,
            seed: reader.array(what)?,
        }),
    };
    if access
        .as_ref()
        .is_some_and(|access| access.voucher.terms.relay != relay)
    {
        return Err(DecodeError::Malformed { what });
    }
    exactly(body, body.len() - reader.rest().len(), "it")?;
    Ok(RelayTicket {
        relay,
        addresses,
        tcp: flags & TCP != 0,
        access,
    })
}

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::LazyLock;

use bytes::BufMut;
use data_encoding::{DecodeKind, Encoding, Specification};

use crate::reader::Reader;
use crate::{DecodeError, MAX_ADDRESSES, TICKET_ID_LEN, address};

/// What a listener hands out so that others can connect: where it is, who it is, and the right to ask.
///
/// Written as `mw1` and base32 (RFC 4648, lower case, no padding) of the fields below and a CRC-32 that finds any
/// one or two wrong characters. Whoever holds the text can connect, so `Debug` shows neither it nor the secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Ticket {
    /// Version of the ticket's format: [`Ticket::VERSION`].
    pub version: u8,
    /// What the listener finds the secret by.
    pub id: [u8; TICKET_ID_LEN],
    /// The listener's static X25519 key.
    pub public_key: [u8; 32],
    /// The pre-shared key of the handshake.
    pub secret: [u8; 32],
    /// Where the listener can be reached; only the first [`MAX_ADDRESSES`] are written, without IPv6 scopes.
    pub addresses: Vec<SocketAddr>,
}

/// Why a text is no ticket. Never quotes the text, which may hold a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TicketError {
    /// It doesn't begin like one.
    #[error("this is not a ticket: tickets begin with \"{PREFIX}\"")]
    WrongPrefix,
    /// It begins like one of another version.
    #[error(
        "the ticket is of a version that this release doesn't know: install the same release on both hosts"
    )]
    UnknownVersion,
    /// It has too many or too few characters.
    #[error("the ticket has {found} characters, and no ticket has: copy it again, as a whole")]
    WrongLength {
        /// Characters it has.
        found: usize,
    },
    /// It has a character that no ticket has.
    #[error(
        "the ticket has {character:?} at position {position}, which no ticket has: copy it again"
    )]
    BadCharacter {
        /// Position in characters, from 1.
        position: usize,
        /// The character.
        character: char,
    },
    /// The checksum is wrong.
    #[error("the ticket is damaged: copy it again")]
    Checksum,
    /// The checksum is right, but what it covers makes no sense.
    #[error("the ticket is malformed: {0}; ask for a new one")]
    Malformed(DecodeError),
}

impl Ticket {
    /// The version of the format that this crate reads and writes.
    pub const VERSION: u8 = 1;
}

impl fmt::Display for Ticket {
    /// The ticket's text: treat it as the secret that it is.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = Vec::with_capacity(MAX_LEN);
        bytes.put_slice(&self.id);
        bytes.put_slice(&self.public_key);
        bytes.put_slice(&self.secret);
        bytes.put_u8(address::sendable(&self.addresses).len() as u8);
        address::put_list(&mut bytes, &self.addresses);
        bytes.put_u32(checksum(&bytes));
        write!(f, "{PREFIX}{}", BASE32.encode(&bytes))
    }
}

impl FromStr for Ticket {
    type Err = TicketError;

    /// Reads a ticket's text; white space around it is ignored.
    fn from_str(text: &str) -> Result<Self, TicketError> {
        let text = text.trim();
        let digits = text
            .strip_prefix(PREFIX)
            .ok_or_else(|| wrong_prefix(text))?;
        if let Some((at, character)) = digits.chars().enumerate().find(|(_, c)| !is_digit(*c)) {
            let position = PREFIX.len() + at + 1;
            return Err(TicketError::BadCharacter {
                position,
                character,
            });
        }
        let wrong_length = TicketError::WrongLength { found: text.len() };
        if !(encoded_len(MIN_LEN)..=encoded_len(MAX_LEN)).contains(&digits.len()) {
            return Err(wrong_length);
        }
        let bytes = BASE32
            .decode(digits.as_bytes())
            .map_err(|error| match error.kind {
                DecodeKind::Length => wrong_length,
                _ => TicketError::Checksum,
            })?;
        let (body, sum) = bytes.split_last_chunk().ok_or(TicketError::Checksum)?;
        if checksum(body) != u32::from_be_bytes(*sum) {
            return Err(TicketError::Checksum);
        }
        decode(body).map_err(TicketError::Malformed)
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket")
            .field("version", &self.version)
            .field("id", &self.id)
            .field("public_key", &self.public_key)
            .field("addresses", &self.addresses)
            .finish_non_exhaustive()
    }
}

const PREFIX: &str = "mw1";

/// Bytes without addresses, with the checksum.
const MIN_LEN: usize = TICKET_ID_LEN + 32 + 32 + 1 + 4;
/// Bytes with all addresses, all of them IPv6.
const MAX_LEN: usize = MIN_LEN + MAX_ADDRESSES * (1 + 16 + 2);

const DIGITS: &str = "abcdefghijklmnopqrstuvwxyz234567";

static BASE32: LazyLock<Encoding> = LazyLock::new(|| {
    let mut specification = Specification::new();
    specification.symbols.push_str(DIGITS);
    specification
        .encoding()
        .expect("32 different characters are an alphabet")
});

fn is_digit(character: char) -> bool {
    matches!(character, 'a'..='z' | '2'..='7')
}

/// Characters of `bytes` bytes.
const fn encoded_len(bytes: usize) -> usize {
    (bytes * 8).div_ceil(5)
}

fn decode(body: &[u8]) -> Result<Ticket, DecodeError> {
    let mut reader = Reader::new(body);
    let id = reader.array("its id")?;
    let public_key = reader.array("its public key")?;
    let secret = reader.array("its secret")?;
    let count = reader.u8("its number of addresses")?;
    let addresses = address::get_list(&mut reader, count.into())?;
    if !reader.is_empty() {
        let expected = body.len() - reader.rest().len();
        return Err(DecodeError::WrongLength {
            what: "it",
            expected,
            found: body.len(),
        });
    }
    Ok(Ticket {
        version: Ticket::VERSION,
        id,
        public_key,
        secret,
        addresses,
    })
}

fn wrong_prefix(text: &str) -> TicketError {
    let newer = text
        .strip_prefix("mw")
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    if newer {
        TicketError::UnknownVersion
    } else {
        TicketError::WrongPrefix
    }
}

/// CRC-32 (the polynomial of IEEE 802.3, reflected) of the prefix and `bytes`.
fn checksum(bytes: &[u8]) -> u32 {
    let all = PREFIX.as_bytes().iter().chain(bytes);
    !all.fold(!0, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            crc >> 1 ^ (0xedb8_8320 * (crc & 1))
        })
    })
}

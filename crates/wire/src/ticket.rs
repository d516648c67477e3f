use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use data_encoding::BASE32_NOPAD;

use crate::frame::{put_address, read_address};
use crate::varint::Reader;
use crate::{DecodeError, MAX_ADDRESSES};

/// How every ticket begins; the digit is its format's version.
const PREFIX: &str = "mw1";
/// Characters of the longest ticket: room for every address as IPv6.
const MAX_LEN: usize = 1200;

/// What a listener hands to a peer, out of band, so that it may connect: whoever has it may send.
#[derive(Clone, PartialEq, Eq)]
pub struct Ticket {
    /// Names the ticket to its listener.
    pub id: [u8; 8],
    /// The listener's static X25519 key.
    pub public_key: [u8; 32],
    /// The pre-shared secret.
    pub secret: [u8; 32],
    /// Where the listener can be reached; at most [`MAX_ADDRESSES`].
    pub addresses: Vec<SocketAddr>,
}

/// Why a text is no ticket.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TicketError {
    /// It doesn't start as tickets do.
    #[error("this is no ticket: a ticket starts with `mw1`")]
    Prefix,
    /// A character that no ticket has.
    #[error("the ticket is damaged: character {position} is {character:?}; copy it again")]
    Character {
        /// Where, counted from 1.
        position: usize,
        /// Which.
        character: char,
    },
    /// Shorter or longer than any ticket.
    #[error("the ticket is incomplete or has something else appended: it has {0} characters; copy it again")]
    Length(usize),
    /// The checksum doesn't match.
    #[error("the ticket is damaged: its checksum doesn't match; copy it again")]
    Checksum,
    /// The checksum is right, but its content isn't.
    #[error("the ticket is of another release ({0}): both sides need the same release")]
    Content(DecodeError),
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&self.id);
        bytes.extend_from_slice(&self.public_key);
        bytes.extend_from_slice(&self.secret);
        let addresses = &self.addresses[..self.addresses.len().min(MAX_ADDRESSES)];
        bytes.push(addresses.len() as u8);
        for address in addresses {
            put_address(&mut bytes, address);
        }
        let checksum = crc32(&bytes);
        bytes.extend_from_slice(&checksum.to_be_bytes());
        write!(f, "{PREFIX}{}", BASE32_NOPAD.encode(&bytes).to_ascii_lowercase())
    }
}

impl FromStr for Ticket {
    type Err = TicketError;

    fn from_str(text: &str) -> Result<Self, TicketError> {
        let text = text.trim();
        let has_prefix = text.get(..PREFIX.len()).is_some_and(|p| p.eq_ignore_ascii_case(PREFIX));
        if !has_prefix {
            return Err(TicketError::Prefix);
        }
        if text.len() > MAX_LEN {
            return Err(TicketError::Length(text.len()));
        }
        let bad = text.chars().enumerate().skip(PREFIX.len()).find(|(_, c)| !matches!(c, 'a'..='z' | 'A'..='Z' | '2'..='7'));
        if let Some((at, character)) = bad {
            return Err(TicketError::Character { position: at + 1, character });
        }
        let body = text[PREFIX.len()..].to_ascii_uppercase();
        // With only good characters what can be wrong is the length or the unused bits at the end.
        let bytes = BASE32_NOPAD.decode(body.as_bytes()).map_err(|error| match error.kind {
            data_encoding::DecodeKind::Length => TicketError::Length(text.len()),
            _ => TicketError::Checksum,
        })?;
        let (content, checksum) = bytes.split_last_chunk().ok_or(TicketError::Length(text.len()))?;
        if crc32(content) != u32::from_be_bytes(*checksum) {
            return Err(TicketError::Checksum);
        }
        decode(content).map_err(TicketError::Content)
    }
}

fn decode(content: &[u8]) -> Result<Ticket, DecodeError> {
    const WHAT: &str = "ticket";
    let mut reader = Reader::new(content);
    let id = reader.array(WHAT)?;
    let public_key = reader.array(WHAT)?;
    let secret = reader.array(WHAT)?;
    let count = reader.u8(WHAT)?;
    if usize::from(count) > MAX_ADDRESSES {
        return Err(DecodeError::Invalid { what: WHAT });
    }
    let addresses = (0..count).map(|_| read_address(&mut reader, WHAT)).collect::<Result<_, _>>()?;
    if !reader.is_empty() {
        return Err(DecodeError::TrailingBytes { what: WHAT });
    }
    Ok(Ticket { id, public_key, secret, addresses })
}

impl fmt::Debug for Ticket {
    /// Without the secret: logs are read by others.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}

/// CRC-32 (IEEE 802.3), bit by bit: it detects every burst of up to 32 bits, so every one or two
/// neighbouring characters; tickets are short enough that a table isn't worth it.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| crc >> 1 ^ (0xedb8_8320 & (crc & 1).wrapping_neg()))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ticket() -> Ticket {
        Ticket {
            id: [1; 8],
            public_key: [2; 32],
            secret: [0xa5; 32],
            addresses: vec![
                "192.0.2.1:4433".parse().expect("an address"),
                "[2001:db8::1]:4433".parse().expect("an address"),
            ],
        }
    }

    #[test]
    fn text_is_stable() {
        insta::assert_snapshot!(ticket().to_string());
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn upper_case_and_blanks_around_are_fine() {
        let text = format!("  {}\n", ticket().to_string().to_ascii_uppercase());
        assert_eq!(text.parse(), Ok(ticket()));
    }

    #[test]
    fn debug_hides_the_secret() {
        let text = format!("{:?}", ticket());
        assert!(!text.contains("165") && !text.contains("a5"), "{text}");
    }

    #[test]
    fn errors_say_what_is_wrong() {
        let text = ticket().to_string();
        assert_eq!("hello".parse::<Ticket>(), Err(TicketError::Prefix));
        assert_eq!("".parse::<Ticket>(), Err(TicketError::Prefix));
        assert!(text[..40].parse::<Ticket>().is_err());
        let mut marked = text.clone();
        marked.replace_range(9..10, "1");
        assert_eq!(marked.parse::<Ticket>(), Err(TicketError::Character { position: 10, character: '1' }));
        assert!(matches!("mw1".parse::<Ticket>(), Err(TicketError::Length(3))));
        assert!(matches!(format!("mw1{}", "a".repeat(2000)).parse::<Ticket>(), Err(TicketError::Length(_))));
    }

    #[test]
    fn every_single_wrong_character_is_noticed() {
        let text = ticket().to_string();
        for at in 0..text.len() {
            for wrong in "abcdefghijklmnopqrstuvwxyz234567".chars() {
                let mut flipped = text.clone();
                flipped.replace_range(at..=at, &wrong.to_string());
                if flipped != text {
                    assert!(flipped.parse::<Ticket>().is_err(), "{flipped}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn two_wrong_characters_are_noticed(a in 3usize..150, b in 3usize..150, x in "[a-z2-7]", y in "[a-z2-7]") {
            let text = ticket().to_string();
            let mut flipped = text.clone();
            for (at, wrong) in [(a, &x), (b, &y)] {
                let at = at.min(text.len() - 1);
                flipped.replace_range(at..=at, wrong);
            }
            prop_assert!(flipped == text || flipped.parse::<Ticket>().is_err());
        }

        #[test]
        fn round_trip(id: [u8; 8], public_key: [u8; 32], secret: [u8; 32], ports in prop::collection::vec(any::<u16>(), 0..=32)) {
            let addresses = ports.iter().map(|p| SocketAddr::new([192, 0, 2, (p >> 8) as u8].into(), *p)).collect();
            let ticket = Ticket { id, public_key, secret, addresses };
            prop_assert_eq!(ticket.to_string().parse(), Ok(ticket));
        }

        #[test]
        fn any_text_is_safe(text in "(mw1)?\\\\PC{0,200}") {
            let _ = text.parse::<Ticket>();
        }
    }
}

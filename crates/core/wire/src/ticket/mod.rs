mod lent;

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use bytes::BufMut;

pub use self::lent::{
    LentAccess, LentRegistry, LentRelay, MAX_CREDENTIAL_LEN, MAX_LENT_URLS, MAX_URL_LEN,
};
use crate::reader::Reader;
use crate::relay::{RelayId, RelayTicket};
use crate::text::{TextError, TextFormat};
use crate::{DecodeError, MAX_ADDRESSES, TICKET_ID_LEN, address};

/// A text by which a listener admits others: where it is, who it is, and a secret.
///
/// It is `mw1` and base32 (RFC 4648, lower case, no padding) of the fields below and a CRC-32 that
/// detects any one or two wrong characters. Anyone who has the text can connect, so `Debug` shows
/// neither it nor the secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Ticket {
    /// Version of the ticket's format: [`Ticket::VERSION`].
    pub version: u8,
    /// The id by which the listener finds the secret.
    pub id: [u8; TICKET_ID_LEN],
    /// The listener's static X25519 key.
    pub public_key: [u8; 32],
    /// The pre-shared key of the handshake.
    pub secret: [u8; 32],
    /// The listener's addresses. Only the first [`MAX_ADDRESSES`] are encoded, without IPv6 scopes.
    pub addresses: Vec<SocketAddr>,
    /// Relays at which the listener can be found under a name that derives from the secret. Only
    /// the first [`MAX_TICKET_RELAYS`] are encoded.
    pub relays: Vec<(SocketAddr, RelayId)>,
    /// Access that comes with it.
    pub lent: LentAccess,
}

/// The most relays in a ticket.
pub const MAX_TICKET_RELAYS: usize = 8;

impl Ticket {
    /// The version of the format that this crate reads and writes.
    pub const VERSION: u8 = 1;

    /// Those of its relays that it gives access to.
    pub fn relays_with_access(&self) -> Vec<RelayTicket> {
        self.lent.relay_tickets(&self.relays)
    }

    /// The same ticket for holders with access of their own, which is shorter.
    pub fn without_access(&self) -> Self {
        Self {
            lent: LentAccess::default(),
            ..self.clone()
        }
    }
}

impl fmt::Display for Ticket {
    /// The ticket's text. Treat it as the secret that it is.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = Vec::with_capacity(MAX_LEN + 4);
        bytes.put_slice(&self.id);
        bytes.put_slice(&self.public_key);
        bytes.put_slice(&self.secret);
        bytes.put_u8(address::sendable(&self.addresses).len() as u8);
        address::put_list(&mut bytes, &self.addresses);
        let relays = &self.relays[..self.relays.len().min(MAX_TICKET_RELAYS)];
        if !relays.is_empty() || !self.lent.is_empty() {
            bytes.put_u8(relays.len() as u8);
            for (address, id) in relays {
                address::put_list(&mut bytes, &[*address]);
                bytes.put_slice(&id.0);
            }
        }
        if !self.lent.is_empty() {
            self.lent.encode(relays, &mut bytes);
        }
        f.write_str(&TEXT.encode(bytes))
    }
}

impl FromStr for Ticket {
    type Err = TextError;

    /// Reads a ticket's text. Ignores white space around it.
    fn from_str(text: &str) -> Result<Self, TextError> {
        let body = TEXT.decode(text)?;
        decode(&body).map_err(|error| TEXT.malformed(error))
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket")
            .field("version", &self.version)
            .field("id", &self.id)
            .field("public_key", &self.public_key)
            .field("addresses", &self.addresses)
            .field("relays", &self.relays)
            .field("lent", &self.lent)
            .finish_non_exhaustive()
    }
}

const TEXT: TextFormat = TextFormat {
    what: "ticket",
    prefix: "mw1",
    min: MIN_LEN,
    max: MAX_LEN,
};

/// Bytes without addresses.
const MIN_LEN: usize = TICKET_ID_LEN + 32 + 32 + 1;
/// Bytes with the most addresses, all of them IPv6, and the most access.
const MAX_LEN: usize = MIN_LEN
    + MAX_ADDRESSES * (1 + 16 + 2)
    + 1
    + MAX_TICKET_RELAYS * (1 + 16 + 2 + RelayId::LEN)
    + LentAccess::MAX_LEN;

fn decode(body: &[u8]) -> Result<Ticket, DecodeError> {
    let mut reader = Reader::new(body);
    let id = reader.array("its id")?;
    let public_key = reader.array("its public key")?;
    let secret = reader.array("its secret")?;
    let count = reader.u8("its number of addresses")?;
    let addresses = address::get_list(&mut reader, count.into())?;
    let relays = relays(&mut reader)?;
    let lent = match reader.is_empty() {
        true => LentAccess::default(),
        false => LentAccess::get(&mut reader, &relays)?,
    };
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
        relays,
        lent,
    })
}

/// A ticket without relays and access ends before them, so it is as short as it can be.
fn relays(reader: &mut Reader<'_>) -> Result<Vec<(SocketAddr, RelayId)>, DecodeError> {
    if reader.is_empty() {
        return Ok(Vec::new());
    }
    let what = "its number of relays";
    let count = reader.u8(what)?;
    if count == 0 && reader.is_empty() {
        return Err(DecodeError::TooSmall {
            what,
            value: 0,
            limit: 1,
        });
    }
    if usize::from(count) > MAX_TICKET_RELAYS {
        return Err(DecodeError::TooLarge {
            what,
            value: count.into(),
            limit: MAX_TICKET_RELAYS as u64,
        });
    }
    let mut relay = || {
        let address = address::get_list(reader, 1)?;
        let id = RelayId(reader.array("a relay's key")?);
        Ok((address[0], id))
    };
    (0..count).map(|_| relay()).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;
    use crate::fuzzing;
    use crate::text::{BASE32, CHECKSUM_LEN, DIGITS, crc, encoded_len};

    fn example() -> Ticket {
        Ticket {
            version: Ticket::VERSION,
            id: *b"ticketid",
            public_key: [0x11; 32],
            secret: [0x7e; 32],
            addresses: vec![
                "192.0.2.1:4433".parse().unwrap(),
                "[2001:db8::1]:4433".parse().unwrap(),
            ],
            relays: Vec::new(),
            lent: LentAccess::default(),
        }
    }

    fn with_relays() -> Ticket {
        Ticket {
            relays: vec![
                ("192.0.2.9:443".parse().unwrap(), RelayId([0xaa; 32])),
                ("[2001:db8::9]:443".parse().unwrap(), RelayId([0xbb; 32])),
            ],
            ..example()
        }
    }

    #[test]
    fn relays_come_back() {
        let ticket = with_relays();
        assert_eq!(ticket.to_string().parse::<Ticket>(), Ok(ticket.clone()));
        let many = Ticket {
            relays: vec![ticket.relays[0]; MAX_TICKET_RELAYS + 1],
            ..ticket
        };
        let read: Ticket = many.to_string().parse().unwrap();
        assert_eq!(read.relays.len(), MAX_TICKET_RELAYS);
        // None of them may be said to be there.
        let mut bytes = vec![0; MIN_LEN];
        bytes.push(0);
        assert!(TEXT.encode(bytes).parse::<Ticket>().is_err());
    }

    #[test]
    fn the_text_is_stable() {
        // CRC-32's usual check value.
        assert_eq!(!crc(!0, b"123456789"), 0xcbf4_3926);
        insta::assert_snapshot!(example());
    }

    #[test]
    fn white_space_around_it_is_ignored() {
        assert_eq!(format!("  {}\r\n", example()).parse(), Ok(example()));
    }

    #[test]
    fn debug_shows_no_secret() {
        let text = format!("{:?}", example());
        assert!(!text.contains("126") && !text.contains("7e"), "{text}");
        assert!(text.contains("192.0.2.1:4433"));
    }

    #[test]
    fn errors_say_what_is_wrong() {
        let text = example().to_string();
        let error = |text: &str| text.parse::<Ticket>().unwrap_err();
        let what = "ticket";
        let wrong_prefix = TextError::WrongPrefix {
            what,
            prefix: "mw1",
        };
        assert_eq!(error(""), wrong_prefix.clone());
        assert_eq!(error("https://example.org"), wrong_prefix.clone());
        assert_eq!(error("mw2abc"), TextError::UnknownVersion { what });
        assert_eq!(error("mw1"), TextError::WrongLength { what, found: 3 });
        assert_eq!(
            error(&text[..50]),
            TextError::WrongLength { what, found: 50 }
        );
        assert!(
            matches!(error(&text.repeat(20)), TextError::BadCharacter { .. }),
            "a 1 inside"
        );
        assert!(matches!(
            error(&format!("mw1{}", "a".repeat(20_000))),
            TextError::WrongLength { .. }
        ));
        let broken = format!("{}\n{}", &text[..60], &text[60..]);
        assert_eq!(
            error(&broken),
            TextError::BadCharacter {
                what,
                position: 61,
                character: '\n'
            }
        );
        assert_eq!(error(&text.to_uppercase()), wrong_prefix);
        assert_eq!(
            error(&format!("{}é{}", &text[..9], &text[10..])),
            TextError::BadCharacter {
                what,
                position: 10,
                character: 'é'
            }
        );
    }

    /// Text with a right checksum whose content is wrong.
    #[test]
    fn content_is_checked_behind_the_checksum() {
        let text = |bytes: Vec<u8>| TEXT.encode(bytes);
        let mut bytes = vec![0; MIN_LEN];
        assert!(text(bytes.clone()).parse::<Ticket>().is_ok());
        bytes.push(0);
        let error = text(bytes.clone()).parse::<Ticket>().unwrap_err();
        assert!(
            matches!(
                error,
                TextError::Malformed {
                    error: DecodeError::TooSmall { value: 0, .. },
                    ..
                }
            ),
            "{error}"
        );
        bytes[72] = 33;
        let error = text(bytes.clone()).parse::<Ticket>().unwrap_err();
        assert!(
            matches!(
                error,
                TextError::Malformed {
                    error: DecodeError::TooLarge { value: 33, .. },
                    ..
                }
            ),
            "{error}"
        );
        bytes[72] = 1;
        let error = text(bytes).parse::<Ticket>().unwrap_err();
        assert!(
            matches!(
                error,
                TextError::Malformed {
                    error: DecodeError::Truncated { .. },
                    ..
                }
            ),
            "{error}"
        );
    }

    #[test]
    fn texts_have_exactly_their_length() {
        let error = |bytes: Vec<u8>| TEXT.encode(bytes).parse::<Ticket>().unwrap_err();
        for len in [MIN_LEN - 1, MAX_LEN + 1] {
            let error = error(vec![0; len]);
            assert!(matches!(error, TextError::WrongLength { .. }), "{error}");
        }
        let relays = vec![("192.0.2.1:1".parse().unwrap(), RelayId([1; 32]))];
        let ticket = Ticket {
            relays,
            ..example()
        };
        let mut bytes = TEXT.decode(&ticket.to_string()).unwrap();
        bytes.push(0);
        let cut = error(bytes);
        let truncated = |error| matches!(error, DecodeError::Truncated { .. });
        assert!(
            matches!(cut, TextError::Malformed { error, .. } if truncated(error)),
            "{cut}"
        );
        let lends = Ticket {
            lent: LentAccess {
                relays: Vec::new(),
                registry: Some(LentRegistry {
                    urls: vec!["https://a".to_owned()],
                    seed: [0; 32],
                    credential: "b".to_owned(),
                }),
            },
            ..ticket
        };
        let mut bytes = TEXT.decode(&lends.to_string()).unwrap();
        let expected = bytes.len();
        bytes.push(0);
        let too_long = DecodeError::WrongLength {
            what: "it",
            expected,
            found: expected + 1,
        };
        assert_eq!(error(bytes), TEXT.malformed(too_long));
    }

    #[test]
    fn every_wrong_character_is_found() {
        let text = example().to_string();
        for at in 0..text.len() {
            for wrong in (0..128u8).map(char::from) {
                let mut flipped = text.clone();
                flipped.replace_range(at..=at, wrong.encode_utf8(&mut [0; 4]));
                if flipped != text {
                    flipped.parse::<Ticket>().expect_err(&flipped);
                }
            }
        }
    }

    /// Proves for tickets of every length that any two wrong characters are found: the checksum is
    /// linear, so it is enough that no two ways to change one character change the checksum alike.
    #[test]
    fn every_two_wrong_characters_are_found() {
        // What counts is the distance from the end, so the longest ticket stands for all with its
        // padding bits, and there are as many paddings as remainders of a length by 5.
        for len in MAX_LEN..=MAX_LEN + 4 {
            let bits = syndromes(len);
            let mut seen = HashSet::new();
            for at in 0..encoded_len(len) {
                for change in 1u8..32 {
                    // A change of the padding is found without the checksum.
                    let Some(positions) = changed_bits(len, at, change) else {
                        continue;
                    };
                    let syndrome = positions.iter().fold(0, |sum, &bit| sum ^ bits[bit]);
                    assert!(
                        syndrome != 0 && seen.insert(syndrome),
                        "character {at} of {len} bytes"
                    );
                }
            }
        }
    }

    /// What the checksum of `len` bytes, the last four of which are the sum, says to each bit
    /// alone: from the end, one step of the checksum a byte.
    fn syndromes(len: usize) -> Vec<u32> {
        let mut syndromes = vec![0; 8 * len];
        let (body, sum) = syndromes.split_at_mut(8 * (len - CHECKSUM_LEN));
        for (bit, syndrome) in sum.iter_mut().rev().enumerate() {
            *syndrome = 1 << bit;
        }
        let mut byte: [u32; 8] = std::array::from_fn(|bit| crc(0, &[0x80 >> bit]));
        for bits in body.rchunks_mut(8) {
            bits.copy_from_slice(&byte);
            byte = byte.map(|state| crc(state, &[0]));
        }
        syndromes
    }

    /// The model behind the proof is what a wrong character really does.
    #[test]
    fn a_wrong_character_changes_the_bytes_as_modelled() {
        let bytes = [0; 100];
        let syndromes = syndromes(bytes.len());
        let text = BASE32.encode(&bytes);
        for (at, change) in (0..text.len()).flat_map(|at| (1u8..32).map(move |change| (at, change)))
        {
            let mut wrong = text.clone().into_bytes();
            wrong[at] = DIGITS.as_bytes()[usize::from(change)];
            let model = flipped(bytes.len(), at, change);
            assert_eq!(BASE32.decode(&wrong).ok(), model);
            let Some(model) = model else { continue };
            let (body, sum) = model.split_last_chunk().expect("long enough");
            let bits = changed_bits(bytes.len(), at, change).unwrap();
            assert_eq!(
                crc(0, body) ^ u32::from_be_bytes(*sum),
                bits.iter().fold(0, |sum, &bit| sum ^ syndromes[bit])
            );
        }
    }

    /// The bytes in which a ticket of `len` bytes changes when `change` is added to its base32
    /// digit `at`.
    fn flipped(len: usize, at: usize, change: u8) -> Option<Vec<u8>> {
        let mut bytes = vec![0; len];
        for position in changed_bits(len, at, change)? {
            bytes[position / 8] |= 0x80 >> (position % 8);
        }
        Some(bytes)
    }

    /// The bits that change; `None` if one of them is of the padding.
    fn changed_bits(len: usize, at: usize, change: u8) -> Option<Vec<usize>> {
        let bits = (0..5).filter(|bit| change >> (4 - bit) & 1 == 1);
        let positions = bits.map(|bit| 5 * at + bit);
        positions
            .map(|position| (position < 8 * len).then_some(position))
            .collect()
    }

    proptest! {
        #[test]
        fn round_trip(
            id: [u8; 8],
            public_key: [u8; 32],
            secret: [u8; 32],
            addresses in prop::collection::vec(
                (any::<bool>(), any::<[u8; 16]>(), any::<u16>()).prop_map(
                    |(v6, ip, port)| match v6 {
                        true => SocketAddr::new(ip.into(), port),
                        false => SocketAddr::new([ip[0], ip[1], ip[2], ip[3]].into(), port),
                    },
                ),
                0..=MAX_ADDRESSES,
            ),
        ) {
            let relays = Vec::new();
            let ticket = Ticket {
                version: Ticket::VERSION,
                id,
                public_key,
                secret,
                addresses,
                relays,
                lent: LentAccess::default(),
            };
            let text = ticket.to_string();
            prop_assert_eq!(text.parse(), Ok(ticket));
            fuzzing::ticket(text.as_bytes());
        }

        #[test]
        fn two_wrong_characters(
            a: prop::sample::Index,
            b: prop::sample::Index,
            x in "[a-z2-7]",
            y in "[a-z2-7]",
        ) {
            let text = example().to_string();
            let mut flipped = text.clone();
            for (at, wrong) in [(a.index(text.len()), x), (b.index(text.len()), y)] {
                flipped.replace_range(at..=at, &wrong);
            }
            prop_assert!(flipped == text || flipped.parse::<Ticket>().is_err(), "{}", flipped);
        }

        #[test]
        fn every_prefix_is_refused(cut: prop::sample::Index) {
            let text = example().to_string();
            prop_assert!(text[..cut.index(text.len())].parse::<Ticket>().is_err());
        }

        #[test]
        fn anything_is_safe(
            bytes: Vec<u8>,
            text in "(mw1)?\\PC{0,300}",
            digits in "mw1[a-z2-7]{120,400}",
        ) {
            fuzzing::ticket(&bytes);
            fuzzing::ticket(text.as_bytes());
            fuzzing::ticket(digits.as_bytes());
        }
    }
}

use std::fmt;
use std::net::SocketAddr;

use bytes::BufMut;

use super::MAX_TICKET_RELAYS;
use crate::DecodeError;
use crate::reader::Reader;
use crate::relay::{Access, RelayId, RelayTicket, VOUCHER_LEN, Voucher};

/// The most URLs of a registry in a ticket.
pub const MAX_LENT_URLS: usize = 4;
/// The most bytes of such a URL: a host name's 253, and room for scheme, port and key.
pub const MAX_URL_LEN: usize = 320;
/// The most bytes of a registry's credential.
pub const MAX_CREDENTIAL_LEN: usize = 512;

/// Access that a listener lends to whoever holds its ticket, so that they need none of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LentAccess {
    /// To relays that the ticket names, at most once to each; others aren't encoded.
    pub relays: Vec<LentRelay>,
    /// To a registry.
    pub registry: Option<LentRegistry>,
}

/// Access to one relay of a ticket, which is that of the voucher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LentRelay {
    /// Whether the relay is known to forward streams over TCP, too.
    pub tcp: bool,
    /// The access.
    pub access: Access,
}

/// Access to a registry without a token, for as long as the registry has it so.
#[derive(Clone, PartialEq, Eq)]
pub struct LentRegistry {
    /// Where the registry is: the first [`MAX_LENT_URLS`] are encoded. This crate checks no more
    /// than that they are printable ASCII.
    pub urls: Vec<String>,
    /// The seed of the key for the relays.
    pub seed: [u8; 32],
    /// What the registry gave for that key: printable ASCII.
    pub credential: String,
}

impl fmt::Debug for LentRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LentRegistry")
            .field("urls", &self.urls)
            .finish_non_exhaustive()
    }
}

/// A ticket's relays, as it encodes them.
type Named = [(SocketAddr, RelayId)];

impl LentAccess {
    /// The most bytes that it takes in a ticket.
    pub(super) const MAX_LEN: usize = 1
        + MAX_TICKET_RELAYS * (1 + 1 + VOUCHER_LEN - RelayId::LEN + 32)
        + 1
        + MAX_LENT_URLS * (2 + MAX_URL_LEN)
        + 32
        + 2
        + MAX_CREDENTIAL_LEN;

    pub(super) fn is_empty(&self) -> bool {
        self.relays.is_empty() && self.registry.is_none()
    }

    /// The relays with their addresses.
    pub(super) fn relay_tickets(&self, named: &Named) -> Vec<RelayTicket> {
        let ticket = |lent: &LentRelay| {
            let relay = lent.access.voucher.terms.relay;
            let here = named.iter().filter(|(_, id)| *id == relay);
            RelayTicket {
                relay,
                addresses: here.map(|(address, _)| *address).collect(),
                tcp: lent.tcp,
                access: Some(lent.access.clone()),
            }
        };
        self.relays.iter().map(ticket).collect()
    }

    pub(super) fn encode(&self, named: &Named, bytes: &mut Vec<u8>) {
        let count_at = bytes.len();
        bytes.put_u8(0);
        let mut done: Vec<RelayId> = Vec::new();
        for lent in &self.relays {
            let relay = lent.access.voucher.terms.relay;
            let Some(at) = named.iter().position(|(_, id)| *id == relay) else {
                continue;
            };
            if done.contains(&relay) {
                continue;
            }
            done.push(relay);
            bytes.put_u8(at as u8);
            bytes.put_u8(lent.tcp.into());
            bytes.put_slice(&lent.access.voucher.to_bytes()[RelayId::LEN..]);
            bytes.put_slice(&lent.access.seed);
        }
        bytes[count_at] = done.len() as u8;
        let Some(registry) = &self.registry else {
            bytes.put_u8(0);
            return;
        };
        let urls = &registry.urls[..registry.urls.len().min(MAX_LENT_URLS)];
        bytes.put_u8(urls.len() as u8);
        for url in urls {
            put_text(bytes, url);
        }
        bytes.put_slice(&registry.seed);
        put_text(bytes, &registry.credential);
    }

    pub(super) fn get(reader: &mut Reader<'_>, named: &Named) -> Result<Self, DecodeError> {
        let what = "its number of relays with access";
        let count = bounded(what, reader.u8(what)?, MAX_TICKET_RELAYS)?;
        let mut relays: Vec<LentRelay> = Vec::new();
        for _ in 0..count {
            let lent = LentRelay::get(reader, named)?;
            let relay = lent.access.voucher.terms.relay;
            if relays.iter().any(|known| known.relay() == relay) {
                return Err(DecodeError::Malformed { what });
            }
            relays.push(lent);
        }
        let what = "its number of a registry's URLs";
        let registry = match bounded(what, reader.u8(what)?, MAX_LENT_URLS)? {
            0 => None,
            count => Some(LentRegistry::get(reader, count)?),
        };
        let lent = Self { relays, registry };
        // A ticket that lends nothing ends before.
        match lent.is_empty() {
            true => Err(DecodeError::Malformed { what: "its access" }),
            false => Ok(lent),
        }
    }
}

impl LentRelay {
    fn relay(&self) -> RelayId {
        self.access.voucher.terms.relay
    }

    fn get(reader: &mut Reader<'_>, named: &Named) -> Result<Self, DecodeError> {
        let what = "a relay with access";
        let at = usize::from(reader.u8(what)?);
        let (_, relay) = named.get(at).ok_or(DecodeError::Malformed { what })?;
        // Each relay has one number: that of its first address.
        if named[..at].iter().any(|(_, earlier)| earlier == relay) {
            return Err(DecodeError::Malformed { what });
        }
        let tcp = match reader.u8(what)? {
            0 => false,
            1 => true,
            _ => return Err(DecodeError::Malformed { what }),
        };
        let rest = reader.take(VOUCHER_LEN - RelayId::LEN, "a relay's voucher")?;
        let voucher = Voucher::decode(&[&relay.0[..], rest].concat())?;
        let seed = reader.array("a relay's access")?;
        Ok(Self {
            tcp,
            access: Access { voucher, seed },
        })
    }
}

impl LentRegistry {
    fn get(reader: &mut Reader<'_>, urls: usize) -> Result<Self, DecodeError> {
        let url = |_| get_text(reader, "a registry's URL", MAX_URL_LEN);
        let urls = (0..urls).map(url).collect::<Result<_, _>>()?;
        Ok(Self {
            urls,
            seed: reader.array("the seed of its access to a registry")?,
            credential: get_text(reader, "a registry's credential", MAX_CREDENTIAL_LEN)?,
        })
    }
}

fn bounded(what: &'static str, value: u8, limit: usize) -> Result<usize, DecodeError> {
    match usize::from(value) <= limit {
        true => Ok(value.into()),
        false => Err(DecodeError::TooLarge {
            what,
            value: value.into(),
            limit: limit as u64,
        }),
    }
}

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    bytes.put_u16(text.len() as u16);
    bytes.put_slice(text.as_bytes());
}

/// It goes onto screens and into the heads of requests.
fn get_text(
    reader: &mut Reader<'_>,
    what: &'static str,
    limit: usize,
) -> Result<String, DecodeError> {
    let len = usize::from(reader.u16(what)?);
    if len > limit {
        return Err(DecodeError::TooLarge {
            what,
            value: len as u64,
            limit: limit as u64,
        });
    }
    let bytes = reader.take(len, what)?;
    match !bytes.is_empty() && bytes.iter().all(u8::is_ascii_graphic) {
        true => Ok(bytes.iter().map(|&byte| char::from(byte)).collect()),
        false => Err(DecodeError::Malformed { what }),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::relay::{RateClass, VoucherTerms};
    use crate::{Ticket, fuzzing};

    fn named() -> Vec<(SocketAddr, RelayId)> {
        let at = |text: &str, id| (text.parse().unwrap(), RelayId([id; 32]));
        vec![
            at("192.0.2.9:443", 0xaa),
            at("[2001:db8::9]:443", 0xaa),
            at("192.0.2.10:443", 0xbb),
        ]
    }

    fn relay(id: u8, tcp: bool) -> LentRelay {
        let terms = VoucherTerms {
            relay: RelayId([id; 32]),
            signer: RelayId([4; 32]),
            account: [5; 8],
            class: RateClass::MAX,
            expires: 1_900_000_000,
            client: RelayId([6; 32]),
        };
        LentRelay {
            tcp,
            access: Access {
                voucher: terms.seal(|_| [7; 64]),
                seed: [0x7e; 32],
            },
        }
    }

    fn registry() -> LentRegistry {
        LentRegistry {
            urls: vec!["https://registry.example:45180#key".to_owned(); 2],
            seed: [0x7e; 32],
            credential: "credential".to_owned(),
        }
    }

    fn ticket(lent: LentAccess) -> Ticket {
        Ticket {
            version: Ticket::VERSION,
            id: *b"ticketid",
            public_key: [0x11; 32],
            secret: [0x7e; 32],
            addresses: vec!["192.0.2.1:4433".parse().unwrap()],
            relays: named(),
            lent,
        }
    }

    fn read(ticket: &Ticket) -> Ticket {
        ticket.to_string().parse().unwrap()
    }

    #[test]
    fn it_comes_back_with_the_relays_addresses() {
        let lent = LentAccess {
            relays: vec![relay(0xbb, true), relay(0xaa, false)],
            registry: Some(registry()),
        };
        for lent in [
            lent.clone(),
            LentAccess {
                registry: None,
                ..lent.clone()
            },
            LentAccess {
                relays: Vec::new(),
                ..lent
            },
        ] {
            let ticket = ticket(lent);
            assert_eq!(read(&ticket), ticket);
            assert!(!format!("{ticket:?}").contains("126"), "{ticket:?}");
        }
        // To a registry alone.
        let bare = Ticket {
            relays: Vec::new(),
            ..ticket(LentAccess {
                relays: Vec::new(),
                registry: Some(registry()),
            })
        };
        assert_eq!(read(&bare), bare);
        let both = ticket(LentAccess {
            relays: vec![relay(0xbb, true), relay(0xaa, false)],
            registry: None,
        });
        let relays = both.relays_with_access();
        assert_eq!(relays.len(), 2);
        assert_eq!((relays[0].addresses.len(), relays[0].tcp), (1, true));
        assert_eq!((relays[1].addresses.len(), relays[1].tcp), (2, false));
        assert_eq!(
            relays[1].to_string().parse().as_ref(),
            Ok(&relays[1]),
            "a good one by itself"
        );
    }

    #[test]
    fn what_leads_nowhere_is_left_out() {
        let ticket = ticket(LentAccess {
            relays: vec![relay(0xcc, true), relay(0xaa, true), relay(0xaa, false)],
            registry: None,
        });
        assert_eq!(read(&ticket).lent.relays, [relay(0xaa, true)]);
    }

    #[test]
    fn the_longest_fits() {
        let relays: Vec<_> = (0..MAX_TICKET_RELAYS as u8)
            .map(|id| ("[2001:db8::9]:443".parse().unwrap(), RelayId([id; 32])))
            .collect();
        let ticket = Ticket {
            addresses: vec!["[2001:db8::1]:1".parse().unwrap(); crate::MAX_ADDRESSES],
            relays,
            ..ticket(LentAccess {
                relays: (0..MAX_TICKET_RELAYS as u8)
                    .map(|id| relay(id, true))
                    .collect(),
                registry: Some(LentRegistry {
                    urls: vec!["u".repeat(MAX_URL_LEN); MAX_LENT_URLS],
                    seed: [1; 32],
                    credential: "c".repeat(MAX_CREDENTIAL_LEN),
                }),
            })
        };
        assert_eq!(read(&ticket), ticket);
    }

    #[test]
    fn nonsense_is_refused() {
        let get = |bytes: &[u8]| LentAccess::get(&mut Reader::new(bytes), &named());
        let good = |tcp: u8, at: u8| {
            let voucher = relay(0xaa, true).access.voucher.to_bytes();
            let mut bytes = vec![at, tcp];
            bytes.extend(&voucher[RelayId::LEN..]);
            bytes.extend([1; 32]);
            bytes
        };
        let relays = |all: &[Vec<u8>]| {
            let all = [&[all.len() as u8][..], &all.concat(), &[0]].concat();
            get(&all)
        };
        assert!(relays(&[good(1, 0), good(0, 2)]).is_ok());
        assert!(relays(&[good(1, 0), good(0, 0)]).is_err(), "twice");
        assert!(relays(&[good(1, 1)]).is_err(), "by its second address");
        assert!(relays(&[good(1, 3)]).is_err(), "not in the ticket");
        assert!(relays(&[good(2, 0)]).is_err(), "an unknown flag");
        assert!(relays(&[]).is_err(), "nothing at all");
        assert!(get(&[9]).is_err(), "more relays than a ticket has");
        assert!(get(&[0, 5]).is_err(), "too many URLs");
        let with = |url: &[u8], credential: &[u8]| {
            let mut bytes = vec![0, 1];
            for (text, before) in [(url, false), (credential, true)] {
                if before {
                    bytes.extend([1; 32]);
                }
                bytes.put_u16(text.len() as u16);
                bytes.extend(text);
            }
            get(&bytes)
        };
        assert!(with(b"https://a", b"b").is_ok());
        let long = [b'a'; 513];
        for wrong in [&b""[..], b"a\r\nHost: b", b"a b", b"\x1b[2J", &long] {
            assert!(with(wrong, b"b").is_err(), "{wrong:?}");
            assert!(with(b"a", wrong).is_err(), "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(
            tail in prop::collection::vec(any::<u8>(), 0..600),
            relays in 0usize..3,
        ) {
            LentAccess::get(&mut Reader::new(&tail), &named()[..relays]).ok();
        }

        #[test]
        fn damage_is_found(at: prop::sample::Index, digit in "[a-z2-7]") {
            let mut text = ticket(LentAccess {
                relays: vec![relay(0xaa, true)],
                registry: Some(registry()),
            })
            .to_string();
            let at = at.index(text.len());
            let before = text.clone();
            text.replace_range(at..=at, &digit);
            prop_assert!(text == before || text.parse::<Ticket>().is_err());
            fuzzing::ticket(text.as_bytes());
        }
    }
}

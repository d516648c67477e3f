//! What a code's host hands to its guest.

use std::fmt;

use manyway_wire::relay::RelayTicket;
use manyway_wire::{MAX_TICKET_RELAYS, Ticket};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::Grant;
use crate::api;

/// The most characters of a credential.
const MAX_CREDENTIAL: usize = 512;

/// Everything that a guest needs to reach the host.
#[derive(Clone)]
pub struct Parcel {
    /// The host's ticket.
    pub ticket: Ticket,
    /// Relays that the host has named, with access: at most as many as a ticket names.
    pub relays: Vec<RelayTicket>,
    /// Access to the registry.
    pub grant: Grant,
}

/// JSON. A later release may add fields.
#[derive(Serialize, Deserialize)]
struct Content {
    ticket: String,
    #[serde(default)]
    relays: Vec<String>,
    /// The seed of the key for the relays: 32 bytes.
    seed: String,
    credential: String,
}

impl Parcel {
    pub(super) fn encode(&self) -> Zeroizing<Vec<u8>> {
        let content = Content {
            ticket: self.ticket.to_string(),
            relays: self.relays.iter().map(ToString::to_string).collect(),
            seed: api::encode(&*self.grant.seed),
            credential: self.grant.credential.to_string(),
        };
        Zeroizing::new(serde_json::to_vec(&content).expect("texts are JSON"))
    }

    /// Who knows the code may still send nonsense: `None`.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let content: Content = serde_json::from_slice(bytes).ok()?;
        let relays = content.relays.iter().map(|text| text.parse().ok());
        let relays: Vec<RelayTicket> = relays.collect::<Option<_>>()?;
        let all_give_access = relays.iter().all(|relay| relay.access.is_some());
        // It goes into the head of a request.
        let credential = Zeroizing::new(content.credential);
        let good = (1..=MAX_CREDENTIAL).contains(&credential.len())
            && credential.bytes().all(|byte| byte.is_ascii_graphic());
        if relays.len() > MAX_TICKET_RELAYS || !all_give_access || !good {
            return None;
        }
        Some(Self {
            ticket: content.ticket.parse().ok()?,
            relays,
            grant: Grant {
                seed: Zeroizing::new(api::decode(&content.seed)?),
                credential,
            },
        })
    }
}

impl fmt::Debug for Parcel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Parcel(..)")
    }
}

#[cfg(test)]
mod tests {
    use manyway_relay::Keys;
    use manyway_wire::relay::{Access, RateClass, RelayId};
    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand::rngs::ChaCha20Rng;
    use serde_json::{Value, json};

    use super::*;

    fn relay(access: bool) -> RelayTicket {
        let now = std::time::Duration::from_secs(1_800_000_000);
        let keys = Keys::generate(now, &mut ChaCha20Rng::seed_from_u64(1));
        let voucher = keys.vouch([1; 8], RateClass::MAX, u32::MAX, RelayId([2; 32]));
        RelayTicket {
            relay: keys.id(),
            addresses: vec!["192.0.2.1:7".parse().unwrap()],
            tcp: true,
            access: access.then_some(Access {
                voucher,
                seed: [3; 32],
            }),
        }
    }

    fn parcel(relays: usize) -> Parcel {
        Parcel {
            ticket: Ticket {
                version: Ticket::VERSION,
                id: [5; 8],
                public_key: [1; 32],
                secret: [2; 32],
                addresses: vec!["192.0.2.1:9".parse().unwrap()],
                relays: Vec::new(),
            },
            relays: vec![relay(true); relays],
            grant: Grant {
                seed: Zeroizing::new([4; 32]),
                credential: Zeroizing::new("credential".to_owned()),
            },
        }
    }

    #[test]
    fn a_parcel_is_read_as_it_was_written_and_shows_no_secret() {
        for relays in [0, MAX_TICKET_RELAYS] {
            let sent = parcel(relays);
            let read = Parcel::decode(&sent.encode()).unwrap();
            assert_eq!((&read.ticket, &read.relays), (&sent.ticket, &sent.relays));
            assert_eq!(read.grant.seed, sent.grant.seed);
            assert_eq!(read.grant.credential, sent.grant.credential);
            assert_eq!(format!("{read:?}"), "Parcel(..)");
            assert!(sent.encode().len() <= crate::pairing::MAX_CONTENT);
        }
    }

    /// Whoever has made the code may send anything.
    #[test]
    fn nonsense_is_refused() {
        let good: Value = serde_json::from_slice(&parcel(1).encode()).unwrap();
        let accepts = |field: &str, value: Value| {
            let mut changed = good.clone();
            changed[field] = value;
            Parcel::decode(&serde_json::to_vec(&changed).unwrap()).is_some()
        };
        assert!(accepts("another", json!(1)), "a later release's");
        let text = relay(true).to_string();
        assert!(accepts("relays", json!(vec![&text; MAX_TICKET_RELAYS])));
        assert!(!accepts(
            "relays",
            json!(vec![&text; MAX_TICKET_RELAYS + 1])
        ));
        assert!(!accepts("relays", json!([relay(false).to_string()])));
        assert!(!accepts("relays", json!(["mr1"])));
        assert!(!accepts("ticket", json!("mw1")));
        assert!(!accepts("seed", json!("AAAA")));
        for credential in ["", "a\r\nHost: b", "a b", "\u{1b}[2J", &"a".repeat(513)] {
            assert!(!accepts("credential", json!(credential)), "{credential:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes: Vec<u8>) {
            Parcel::decode(&bytes);
        }
    }
}

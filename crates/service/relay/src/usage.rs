//! What each account has used, in a table of fixed size.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::exposition::Exposition;
use crate::{AccountTag, Invites};

/// The most accounts with counters of their own. Those that come later share one place.
const MOST: usize = 1000;

/// What accounts have used since the relay's start, over UDP and TCP. Only accounts that a trusted
/// signer has vouched for come here, so strangers can't fill the table.
pub(crate) struct Usage {
    places: Mutex<HashMap<AccountTag, u16>>,
    /// The last place is that of all accounts without their own.
    counts: Box<[Counts]>,
}

/// An account's place in the table.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place(u16);

#[derive(Default)]
struct Counts {
    mints: AtomicU64,
    packets: AtomicU64,
    bytes: AtomicU64,
    calls: AtomicU64,
    stream_bytes: AtomicU64,
}

impl Default for Usage {
    fn default() -> Self {
        Self {
            places: Mutex::new(HashMap::with_capacity(MOST)),
            counts: (0..=MOST).map(|_| Counts::default()).collect(),
        }
    }
}

impl Usage {
    /// The place of an account whose voucher, or whose grant, is genuine.
    pub(crate) fn place(&self, account: &AccountTag) -> Place {
        let mut places = self.places();
        let next = places.len();
        match places.get(account) {
            Some(place) => Place(*place),
            None if next < MOST => {
                places.insert(*account, next as u16);
                Place(next as u16)
            }
            None => Place(MOST as u16),
        }
    }

    /// Counts an answer to MINT with grants.
    pub(crate) fn minted(&self, place: Place) {
        self.at(place).mints.fetch_add(1, Relaxed);
    }

    /// Counts a packet over UDP. Only one thread may call it: it saves the time of two atomic
    /// additions per packet.
    pub(crate) fn forwarded(&self, place: Place, bytes: usize) {
        let Counts {
            packets: all_packets,
            bytes: all_bytes,
            ..
        } = self.at(place);
        all_packets.store(all_packets.load(Relaxed) + 1, Relaxed);
        all_bytes.store(all_bytes.load(Relaxed) + bytes as u64, Relaxed);
    }

    /// Counts a call of a listener over TCP.
    pub(crate) fn called(&self, place: Place) {
        self.at(place).calls.fetch_add(1, Relaxed);
    }

    /// Counts bytes of a stream over TCP.
    pub(crate) fn streamed(&self, place: Place, bytes: usize) {
        self.at(place).stream_bytes.fetch_add(bytes as u64, Relaxed);
    }

    /// The bytes that it occupies at most, without the map's own bookkeeping.
    pub(crate) fn memory(&self) -> usize {
        size_of_val(&*self.counts) + MOST * size_of::<(AccountTag, u16)>()
    }

    /// Adds the counters of all accounts: those that are no invitations have no name.
    pub(crate) fn expose(&self, text: &mut Exposition, invites: &Invites) {
        let mut accounts: Vec<(AccountTag, u16)> =
            self.places().iter().map(|(tag, at)| (*tag, *at)).collect();
        accounts.sort_unstable();
        let accounts: Vec<([String; 2], &Counts)> = accounts
            .into_iter()
            .map(|(tag, at)| {
                let invite = invites.get(&tag);
                let name = invite.and_then(|invite| invite.name.clone());
                let labels = [tag.to_string(), name.unwrap_or_default()];
                (labels, &self.counts[usize::from(at)])
            })
            .chain([(["other".to_owned(), String::new()], &self.counts[MOST])])
            .collect();
        for (name, help, count) in FAMILIES {
            let name = format!("manyway_relay_account_{name}_total");
            text.family(&name, "counter", help);
            for ([account, invite], counts) in &accounts {
                let labels = [("account", account.as_str()), ("name", invite)];
                text.sample(&name, &labels, count(counts).load(Relaxed));
            }
        }
    }

    fn at(&self, place: Place) -> &Counts {
        &self.counts[usize::from(place.0)]
    }

    fn places(&self) -> MutexGuard<'_, HashMap<AccountTag, u16>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type Family = (&'static str, &'static str, fn(&Counts) -> &AtomicU64);

const FAMILIES: [Family; 5] = [
    (
        "mints",
        "Answers to MINT with grants, by account.",
        |counts| &counts.mints,
    ),
    (
        "packets",
        "Datagrams that passed all checks, by account.",
        |counts| &counts.packets,
    ),
    (
        "bytes",
        "Their bytes, without the grants, by account.",
        |counts| &counts.bytes,
    ),
    (
        "calls",
        "Calls to listeners over TCP, by account.",
        |counts| &counts.calls,
    ),
    (
        "stream_bytes",
        "Bytes read from streams over TCP, by account.",
        |counts| &counts.stream_bytes,
    ),
];

#[cfg(test)]
mod tests {
    use manyway_wire::relay::RateClass;

    use super::*;
    use crate::invites::Invite;

    fn tag(number: u64) -> AccountTag {
        AccountTag(number.to_be_bytes())
    }

    fn exposed(usage: &Usage, invites: &Invites) -> String {
        let mut text = Exposition::default();
        usage.expose(&mut text, invites);
        text.into_text()
    }

    #[test]
    fn an_account_is_counted_by_itself_and_named_if_it_is_an_invitations() {
        let usage = Usage::default();
        let [alice, nameless] = [tag(2), tag(1)].map(|tag| usage.place(&tag));
        usage.minted(alice);
        usage.forwarded(alice, 1200);
        usage.forwarded(alice, 300);
        usage.called(nameless);
        usage.streamed(nameless, 65_536);
        assert_eq!(usage.place(&tag(2)), alice);
        let mut invites = Invites::default();
        let invite = Invite {
            account: tag(2),
            name: Some("alice".to_owned()),
            class: RateClass::MAX,
            created: 0,
            expires: u32::MAX,
            revoked: false,
        };
        invites.add(invite).unwrap();
        let text = exposed(&usage, &invites);
        let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let sample = |name: &str, of: [u64; 3]| {
            let account = ["0000000000000001", "0000000000000002", "other"];
            let names = ["", "alice", ""];
            [0, 1, 2].map(|at| {
                let (account, name_of, value) = (account[at], names[at], of[at]);
                format!(
                    "manyway_relay_account_{name}_total{{account=\"{account}\",\
                     name=\"{name_of}\"}} {value}"
                )
            })
        };
        let expected = [
            sample("mints", [0, 1, 0]),
            sample("packets", [0, 2, 0]),
            sample("bytes", [0, 1500, 0]),
            sample("calls", [1, 0, 0]),
            sample("stream_bytes", [65_536, 0, 0]),
        ]
        .concat();
        assert_eq!(samples, expected);
    }

    #[test]
    fn any_number_of_accounts_takes_bounded_room() {
        let usage = Usage::default();
        let memory = usage.memory();
        for number in 0..3 * MOST as u64 {
            let place = usage.place(&tag(number));
            usage.forwarded(place, 10);
        }
        usage.forwarded(usage.place(&tag(0)), 10);
        assert_eq!(usage.places().len(), MOST);
        assert_eq!(usage.memory(), memory);
        let text = exposed(&usage, &Invites::default());
        assert_eq!(text.lines().count(), FAMILIES.len() * (2 + MOST + 1));
        let own = "packets_total{account=\"0000000000000000\",name=\"\"} 2\n";
        let others = format!(
            "packets_total{{account=\"other\",name=\"\"}} {}\n",
            2 * MOST
        );
        assert!(text.contains(own) && text.contains(&others));
    }
}

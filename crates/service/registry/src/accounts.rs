//! The accounts of clients: one for each client that the token file names, and what it has used.

use std::collections::BTreeMap;
use std::sync::Arc;

use aws_lc_rs::hmac;
use manyway_relay::AccountTag;
use manyway_relay::exposition::Exposition;
use manyway_wire::relay::RelayId;

use crate::tokens::{Holder, Role};
use crate::{RegistryKey, Tokens};

/// Who may enrol, and the accounts of clients. A token file has a bounded number of tokens, and so
/// this has a bounded number of accounts.
pub(crate) struct Accounts {
    key: hmac::Key,
    tokens: Tokens,
    accounts: BTreeMap<[u8; 8], Account>,
}

struct Account {
    name: Arc<str>,
    used: Used,
}

/// What an account has used since the registry's start.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Used {
    /// Credentials given.
    pub(crate) enrolments: u64,
    /// Requests for vouchers that were answered.
    pub(crate) voucher_requests: u64,
    /// Vouchers given.
    pub(crate) vouchers: u64,
    /// Codes made.
    pub(crate) codes: u64,
    /// Requests refused although the credential is good.
    pub(crate) refused: u64,
}

impl Accounts {
    pub(crate) fn new(key: &RegistryKey, tokens: Tokens) -> Self {
        let secret = key.derive(b"manyway registry accounts");
        let mut accounts = Self {
            key: hmac::Key::new(hmac::HMAC_SHA256, &*secret),
            tokens: Tokens::default(),
            accounts: BTreeMap::new(),
        };
        accounts.set_tokens(tokens);
        accounts
    }

    /// Uses other tokens from now on. Accounts that stay keep their counters.
    pub(crate) fn set_tokens(&mut self, tokens: Tokens) {
        self.tokens = tokens;
        let mut before = std::mem::take(&mut self.accounts);
        let clients = self.tokens.names(Role::Client).cloned();
        self.accounts = clients
            .map(|name| {
                let account = self.of(&name);
                let known = before.remove(&account);
                let used = known.map(|known| known.used).unwrap_or_default();
                (account, Account { name, used })
            })
            .collect();
    }

    /// The holder of a token of this role.
    pub(crate) fn holder(&self, role: Role, token: &str) -> Option<&Holder> {
        self.tokens.holder(role, token)
    }

    /// Whether a token of this name may enrol relays.
    pub(crate) fn has_relays(&self, name: &str) -> bool {
        self.tokens.names(Role::Relay).any(|known| **known == *name)
    }

    /// The account of a client's name: the same for all registries with one key.
    pub(crate) fn of(&self, name: &str) -> [u8; 8] {
        let mut account = [0; 8];
        account.copy_from_slice(&hmac::sign(&self.key, name.as_bytes()).as_ref()[..8]);
        account
    }

    /// The counters of an account; `None` if no client has it any more.
    pub(crate) fn used(&mut self, account: &[u8; 8]) -> Option<&mut Used> {
        self.accounts
            .get_mut(account)
            .map(|account| &mut account.used)
    }

    /// Adds the counters of all accounts, with the tags by which relays know them. `registry` is
    /// the key that signs the vouchers.
    pub(crate) fn expose(&self, text: &mut Exposition, registry: &RelayId) {
        let tags: Vec<(String, &Account)> = self
            .accounts
            .iter()
            .map(|(id, account)| (AccountTag::of(registry, id).to_string(), account))
            .collect();
        for (name, help, count) in FAMILIES {
            let name = format!("manyway_registry_account_{name}_total");
            text.family(&name, "counter", help);
            for (tag, account) in &tags {
                let called = manyway_units::printable(&account.name, 64);
                let labels = [("account", tag.as_str()), ("name", &called)];
                text.sample(&name, &labels, count(&account.used));
            }
        }
    }
}

type Family = (&'static str, &'static str, fn(&Used) -> u64);

const FAMILIES: [Family; 5] = [
    ("enrolments", "Credentials given, by account.", |used| {
        used.enrolments
    }),
    (
        "voucher_requests",
        "Requests for vouchers that were answered, by account.",
        |used| used.voucher_requests,
    ),
    ("vouchers", "Vouchers given, by account.", |used| {
        used.vouchers
    }),
    ("codes", "One-time codes made, by account.", |used| {
        used.codes
    }),
    (
        "refused",
        "Requests refused although the credential is good, by account.",
        |used| used.refused,
    ),
];

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::ChaCha20Rng;

    use super::*;

    fn accounts(text: &str) -> Accounts {
        let key = RegistryKey::generate(&mut ChaCha20Rng::seed_from_u64(1));
        Accounts::new(&key, Tokens::parse(text).unwrap())
    }

    const FILE: &str = "relay cheap 0123456789abcdef0123\n\
        client lab abcdefabcdefabcdefabcd\n\
        client home bbcdefabcdefabcdefabcd 4\n";

    #[test]
    fn accounts_stay_while_their_names_do() {
        let mut accounts = accounts(FILE);
        let [lab, home] = ["lab", "home"].map(|name| accounts.of(name));
        accounts.used(&lab).unwrap().vouchers = 7;
        accounts.used(&home).unwrap().vouchers = 9;
        assert!(accounts.has_relays("cheap") && !accounts.has_relays("lab"));
        // Another token for one, the other and the relays' are gone.
        let other = "client lab cccdefabcdefabcdefabcd\n";
        accounts.set_tokens(Tokens::parse(other).unwrap());
        assert_eq!(accounts.used(&lab).unwrap().vouchers, 7);
        assert_eq!(accounts.used(&home), None);
        assert!(!accounts.has_relays("cheap"));
        // A name that comes back begins anew.
        accounts.set_tokens(Tokens::parse(FILE).unwrap());
        assert_eq!(accounts.used(&home), Some(&mut Used::default()));
    }
}

//! What names an account at a relay, and the accounts whose access is revoked.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::HEXLOWER;
use manyway_wire::relay::{RelayId, VoucherTerms};

/// What names an account in grants, in metrics and in the list of invitations. It contains who
/// signs the account's vouchers, so accounts of different signers are different. It is no secret.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccountTag(pub [u8; 8]);

impl AccountTag {
    /// The tag of a signer's account: the first bytes of a SHA-256 hash.
    pub fn of(signer: &RelayId, account: &[u8; 8]) -> Self {
        let message = [b"manyway relay account", &signer.0[..], account].concat();
        let hash = digest(&SHA256, &message);
        let mut tag = [0; 8];
        tag.copy_from_slice(&hash.as_ref()[..8]);
        Self(tag)
    }

    /// The tag of the account that a voucher is for.
    pub fn in_voucher(terms: &VoucherTerms) -> Self {
        Self::of(&terms.signer, &terms.account)
    }
}

impl fmt::Display for AccountTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

impl fmt::Debug for AccountTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is no account's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an account has 16 digits from 0 to 9 and a to f")]
pub struct NoAccount;

impl FromStr for AccountTag {
    type Err = NoAccount;

    fn from_str(text: &str) -> Result<Self, NoAccount> {
        let bytes = HEXLOWER.decode(text.as_bytes()).map_err(|_| NoAccount)?;
        bytes.try_into().map(Self).map_err(|_| NoAccount)
    }
}

/// Accounts that a relay refuses, whoever vouches for them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Revoked(
    // Sorted.
    Arc<[AccountTag]>,
);

impl Revoked {
    /// Whether the account is one of them.
    pub fn contains(&self, account: &AccountTag) -> bool {
        self.0.binary_search(account).is_ok()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<AccountTag> for Revoked {
    fn from_iter<T: IntoIterator<Item = AccountTag>>(accounts: T) -> Self {
        let mut accounts: Vec<AccountTag> = accounts.into_iter().collect();
        accounts.sort_unstable();
        Self(accounts.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_survives_as_text_and_other_texts_are_none() {
        let tag = AccountTag::of(&RelayId([1; 32]), &[2; 8]);
        assert_eq!(tag.to_string().parse(), Ok(tag));
        assert_eq!(tag.to_string().len(), 16);
        for wrong in ["", "12", "0123456789abcdeg", "0123456789abcdef0", "alice"] {
            assert_eq!(wrong.parse::<AccountTag>(), Err(NoAccount), "{wrong}");
        }
    }

    #[test]
    fn accounts_of_different_signers_are_different() {
        let of = |signer, account| AccountTag::of(&RelayId([signer; 32]), &[account; 8]);
        assert_ne!(of(1, 1), of(2, 1));
        assert_ne!(of(1, 1), of(1, 2));
    }

    #[test]
    fn all_that_are_revoked_are_found_and_no_others() {
        let tags = |numbers: &[u8]| numbers.iter().map(|n| AccountTag([*n; 8])).collect();
        let revoked: Revoked = tags(&[9, 3, 7, 3]);
        for number in 0..12 {
            let found = revoked.contains(&AccountTag([number; 8]));
            assert_eq!(found, [3, 7, 9].contains(&number), "{number}");
        }
        assert!(!Revoked::default().contains(&AccountTag([0; 8])));
    }
}

//! A relay's invitations: to whom its operator has given access, and whose access is revoked.
//!
//! An invitation is a voucher that the relay itself has signed, so the relay accepts it without
//! this list. The list is what an operator looks at, and what the relay asks whom to refuse.

use std::collections::BTreeMap;

use manyway_wire::relay::RateClass;

use crate::{AccountTag, Revoked};

const HEADER: &str = "manyway relay invites 1";
/// The most entries: a file of a megabyte.
const MOST: usize = 10_000;
/// The most bytes of a name.
const NAME: usize = 64;

/// An invitation, or another account that the relay refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invite {
    /// Its account.
    pub account: AccountTag,
    /// What the operator calls it.
    pub name: Option<String>,
    /// The class of its rate.
    pub class: RateClass,
    /// When it was made, or revoked if the list didn't have it before: Unix time in seconds.
    pub created: u32,
    /// When it ends: Unix time in seconds; `u32::MAX` if nobody knows.
    pub expires: u32,
    /// Whether the relay refuses it.
    pub revoked: bool,
}

/// A relay's invitations that haven't ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Invites(BTreeMap<AccountTag, Invite>);

/// What is wrong with a list of invitations, or with a change of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvitesError {
    /// The text is something else, or has another version.
    #[error("this isn't a relay's list of invitations: its first line isn't \"{HEADER}\"")]
    Header,
    /// A line has the wrong form.
    #[error(
        "line {0} isn't \"invite ACCOUNT CREATED EXPIRES CLASS NAME\" (or \"revoked …\"), or its \
         account is there twice: correct or remove the line"
    )]
    Line(usize),
    /// The name isn't one.
    #[error(
        "a name for an invitation begins with a letter, has only letters, digits, `-`, `_` and \
         `.`, at most {NAME}, and looks like neither a RELAY nor an account"
    )]
    Name,
    /// Another invitation has the name.
    #[error(
        "another invitation has the name {0} already, that of account {1}: choose another one, or \
         revoke that one first"
    )]
    Taken(String, AccountTag),
    /// There is no room.
    #[error("there are {MOST} invitations already, which is the most: wait until some have ended")]
    Full,
}

impl Invites {
    /// Reads what [`Invites::to_text`] wrote, which people may have edited. Empty lines and lines
    /// that begin with # don't count.
    ///
    /// # Errors
    /// What is wrong, by line.
    pub fn parse(text: &str) -> Result<Self, InvitesError> {
        let mut lines = (1..).zip(text.lines().map(str::trim));
        if lines.next().map(|(_, first)| first) != Some(HEADER) {
            return Err(InvitesError::Header);
        }
        let mut list = Self::default();
        for (number, line) in lines.filter(|(_, it)| !it.is_empty() && !it.starts_with('#')) {
            let invite = Invite::parse(line).ok_or(InvitesError::Line(number))?;
            list.room()?;
            if list.0.insert(invite.account, invite).is_some() {
                return Err(InvitesError::Line(number));
            }
        }
        Ok(list)
    }

    /// The list as text for a file, one entry a line.
    pub fn to_text(&self) -> String {
        let mut text = format!("{HEADER}\n");
        for invite in self.iter() {
            text.push_str(&invite.line());
        }
        text
    }

    /// Adds an invitation.
    ///
    /// # Errors
    /// Its name isn't one or is taken, or there is no room.
    pub fn add(&mut self, invite: Invite) -> Result<(), InvitesError> {
        if let Some(name) = &invite.name {
            if !is_name(name) {
                return Err(InvitesError::Name);
            }
            if let Some(other) = self.named(name).filter(|other| !other.revoked) {
                return Err(InvitesError::Taken(name.clone(), other.account));
            }
        }
        self.room()?;
        self.0.insert(invite.account, invite);
        Ok(())
    }

    /// Revokes the access of `account`. Takes the rest from `unknown` if the list doesn't have the
    /// account. Returns the entry as it was before, if there was one.
    ///
    /// # Errors
    /// There is no room.
    pub fn revoke(
        &mut self,
        account: AccountTag,
        unknown: impl FnOnce() -> Invite,
    ) -> Result<Option<Invite>, InvitesError> {
        if let Some(known) = self.0.get_mut(&account) {
            let before = known.clone();
            known.revoked = true;
            return Ok(Some(before));
        }
        self.room()?;
        let invite = Invite {
            account,
            revoked: true,
            ..unknown()
        };
        self.0.insert(account, invite);
        Ok(None)
    }

    /// Forgets those that have ended, whose vouchers no relay accepts any more. `now` is Unix time
    /// in seconds.
    pub fn forget_ended(&mut self, now: u32) {
        self.0.retain(|_, invite| invite.expires > now);
    }

    /// The invitation of this account.
    pub fn get(&self, account: &AccountTag) -> Option<&Invite> {
        self.0.get(account)
    }

    /// The invitation of this name: the one that isn't revoked, if there is one.
    pub fn named(&self, name: &str) -> Option<&Invite> {
        let same = || self.iter().filter(|it| it.name.as_deref() == Some(name));
        same().find(|it| !it.revoked).or_else(|| same().next())
    }

    /// All of them, by account.
    pub fn iter(&self) -> impl Iterator<Item = &Invite> {
        self.0.values()
    }

    /// The accounts that the relay refuses.
    pub fn revoked(&self) -> Revoked {
        let revoked = self.iter().filter(|invite| invite.revoked);
        revoked.map(|invite| invite.account).collect()
    }

    fn room(&self) -> Result<(), InvitesError> {
        match self.0.len() < MOST {
            true => Ok(()),
            false => Err(InvitesError::Full),
        }
    }
}

impl Invite {
    fn line(&self) -> String {
        let state = if self.revoked { "revoked" } else { "invite" };
        let name = self.name.as_deref().unwrap_or("-");
        let class = self.class.number();
        let (account, created, expires) = (self.account, self.created, self.expires);
        format!("{state} {account} {created} {expires} {class} {name}\n")
    }

    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let revoked = match words.next()? {
            "invite" => false,
            "revoked" => true,
            _ => return None,
        };
        let invite = Self {
            revoked,
            account: words.next()?.parse().ok()?,
            created: words.next()?.parse().ok()?,
            expires: words.next()?.parse().ok()?,
            class: RateClass::new(words.next()?.parse().ok()?)?,
            name: match words.next()? {
                "-" => None,
                name => Some(is_name(name).then(|| name.to_owned())?),
            },
        };
        words.next().is_none().then_some(invite)
    }
}

/// Whether a text can name an invitation, and nothing else.
fn is_name(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.len() <= NAME
        && text.chars().all(allowed)
        && !text.starts_with("mr1")
        && text.parse::<AccountTag>().is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u32 = 1_800_000_000;

    fn invite(number: u32, name: Option<&str>) -> Invite {
        Invite {
            account: AccountTag(u64::from(number).to_be_bytes()),
            name: name.map(str::to_owned),
            class: RateClass::new(6).unwrap(),
            created: NOW,
            expires: NOW + 100,
            revoked: false,
        }
    }

    fn list(names: &[Option<&str>]) -> Invites {
        let mut list = Invites::default();
        for (number, name) in (1..).zip(names) {
            list.add(invite(number, *name)).unwrap();
        }
        list
    }

    fn tag(number: u64) -> AccountTag {
        AccountTag(number.to_be_bytes())
    }

    #[test]
    fn what_is_written_is_read() {
        let mut list = list(&[Some("alice"), None, Some("Bob.2_x-y")]);
        list.revoke(tag(2), || unreachable!()).unwrap();
        let text = list.to_text();
        assert_eq!(
            text,
            "manyway relay invites 1\n\
             invite 0000000000000001 1800000000 1800000100 6 alice\n\
             revoked 0000000000000002 1800000000 1800000100 6 -\n\
             invite 0000000000000003 1800000000 1800000100 6 Bob.2_x-y\n"
        );
        assert_eq!(Invites::parse(&text), Ok(list.clone()));
        let edited = text.replace("revoked", "\n# mine\n  revoked");
        assert_eq!(Invites::parse(&edited), Ok(list));
    }

    #[test]
    fn what_is_revoked_is_refused_until_it_ends() {
        let mut list = list(&[Some("alice"), Some("bob")]);
        assert_eq!(list.revoked(), Revoked::default());
        let before = list.revoke(tag(1), || unreachable!()).unwrap();
        assert_eq!(before, Some(invite(1, Some("alice"))));
        assert!(list.revoked().contains(&tag(1)) && !list.revoked().contains(&tag(2)));
        // Twice is no error, and the caller sees that it was before.
        let before = list.revoke(tag(1), || unreachable!()).unwrap().unwrap();
        assert!(before.revoked);
        // One that the list doesn't have.
        let before = list.revoke(tag(9), || invite(0, None)).unwrap();
        assert_eq!(before, None);
        assert!(list.revoked().contains(&tag(9)));
        list.forget_ended(NOW + 99);
        assert_eq!(list.iter().count(), 3);
        list.forget_ended(NOW + 100);
        assert_eq!(list, Invites::default());
    }

    #[test]
    fn a_name_is_of_one_that_is_valid() {
        let mut list = list(&[Some("alice")]);
        let taken = InvitesError::Taken("alice".to_owned(), tag(1));
        assert_eq!(list.add(invite(2, Some("alice"))), Err(taken));
        list.revoke(tag(1), || unreachable!()).unwrap();
        assert_eq!(list.named("alice").map(|it| it.account), Some(tag(1)));
        list.add(invite(2, Some("alice"))).unwrap();
        assert_eq!(list.named("alice").map(|it| it.account), Some(tag(2)));
        assert_eq!(list.named("bob"), None);
        let long = "a".repeat(NAME + 1);
        for wrong in ["", "-", "1st", "a b", "a\n", "mr1x", "a\u{1b}", "ö", &long] {
            let error = list.add(invite(3, Some(wrong)));
            assert_eq!(error, Err(InvitesError::Name), "{wrong:?}");
        }
        let account = Some("abcdef0123456789");
        assert_eq!(list.add(invite(3, account)), Err(InvitesError::Name));
    }

    #[test]
    fn damage_is_named_by_line() {
        let good = list(&[Some("alice"), None]).to_text();
        assert_eq!(Invites::parse(""), Err(InvitesError::Header));
        assert_eq!(Invites::parse("x"), Err(InvitesError::Header));
        for (wrong, right) in [
            ("invite 0000000000000002", "admit 0000000000000002"),
            ("0000000000000002", "2"),
            ("0000000000000002", "0000000000000001"),
            (" 6 -", " 16 -"),
            (" 6 -", " 6"),
            (" 6 -", " 6 - -"),
            (" 6 -", " 6 a\u{1b}b"),
        ] {
            let text = good.replace(wrong, right);
            assert_eq!(Invites::parse(&text), Err(InvitesError::Line(3)), "{text}");
        }
    }

    #[test]
    fn there_are_at_most_so_many() {
        let mut list = Invites::default();
        for number in 0..MOST as u32 {
            list.add(invite(number, None)).unwrap();
        }
        assert_eq!(list.add(invite(u32::MAX, None)), Err(InvitesError::Full));
        let unknown = list.revoke(tag(1 << 40), || invite(0, None));
        assert_eq!(unknown, Err(InvitesError::Full));
        assert!(list.revoke(tag(0), || unreachable!()).is_ok());
        let text = list.to_text();
        assert_eq!(Invites::parse(&text), Ok(list));
        let more = format!("{text}{}", invite(u32::MAX, None).line());
        assert_eq!(Invites::parse(&more), Err(InvitesError::Full));
    }
}

//! The list of a relay's invitations: `manyway relay --invite`, `--invites` and `--revoke`.

use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::anyhow;
use chrono::DateTime;
use manyway::Rate;
use manyway_relay::invites::{Invite, Invites, InvitesError};
use manyway_relay::server::{InvitesFile, InvitesFileError, open_keys};
use manyway_relay::{AccountTag, NoAccount};
use manyway_units::printable;
use manyway_wire::relay::{GRANT_LIFE, RateClass, RelayTicket, VoucherTerms};

use crate::exit::usage;
use crate::screen::Screen;
use crate::summary::print_text;
use crate::ticket;

/// Adds the invitation that a voucher is.
///
/// # Errors
/// Its name isn't one or is taken, or the list can't be changed.
pub(crate) fn record(
    key_file: &Path,
    voucher: &VoucherTerms,
    name: Option<&str>,
) -> anyhow::Result<()> {
    let now = now()?;
    let invite = Invite {
        name: name.map(str::to_owned),
        ..of_voucher(voucher, now)
    };
    let added = InvitesFile::beside(key_file).change(now, |list| list.add(invite));
    added.map_err(|error| match error {
        InvitesFileError::Change(why @ (InvitesError::Name | InvitesError::Taken(..))) => {
            usage(format!("`--invite-name`: {why}"))
        }
        error => error.into(),
    })
}

/// Prints the invitations that haven't ended, the oldest first.
///
/// # Errors
/// The list can't be read, or standard output failed.
pub(crate) fn list(key_file: &Path) -> anyhow::Result<()> {
    exists(key_file)?;
    let mut list = InvitesFile::beside(key_file).read()?;
    list.forget_ended(seconds(now()?));
    print_text(&table(&list))
}

/// Revokes an invitation, by its name, its account or its RELAY.
///
/// # Errors
/// There is no such invitation, or the list can't be changed.
pub(crate) fn revoke(screen: &Screen, key_file: &Path, which: &str) -> anyhow::Result<()> {
    exists(key_file)?;
    let (file, now) = (InvitesFile::beside(key_file), now()?);
    let unknown = match ticket_of(which)? {
        Some(ticket) => of_voucher(&own_voucher(&ticket, key_file)?, now),
        None => Invite {
            // Whoever vouches for it decides when it ends.
            expires: u32::MAX,
            ..unlisted(account_of(which, &file.read()?)?, now)
        },
    };
    let before = file.change(now, |list| list.revoke(unknown.account, || unknown.clone()))?;
    let account = unknown.account;
    let who = match before.as_ref().and_then(|invite| invite.name.as_deref()) {
        Some(name) => format!("{name} (account {account})"),
        None => format!("Account {account}"),
    };
    screen.say(&match before.is_some_and(|invite| invite.revoked) {
        true => format!("{who} was revoked before"),
        false => format!(
            "{who} is revoked: the relay refuses it from now on. Its grants end within {} s, and a \
             relay that runs ends its streams over TCP.",
            GRANT_LIFE.as_secs()
        ),
    });
    Ok(())
}

fn now() -> anyhow::Result<Duration> {
    Ok(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?)
}

fn seconds(time: Duration) -> u32 {
    u32::try_from(time.as_secs()).unwrap_or(u32::MAX)
}

/// Whoever names another file than the relay's should notice: its list or its key are of no use.
pub(crate) fn exists(key_file: &Path) -> anyhow::Result<()> {
    match key_file.try_exists()? {
        true => Ok(()),
        false => Err(anyhow!(
            "there is no relay's key at {}: run this as the relay's user, with its `--key-file`",
            key_file.display()
        )),
    }
}

fn unlisted(account: AccountTag, now: Duration) -> Invite {
    Invite {
        account,
        name: None,
        class: RateClass::MAX,
        created: seconds(now),
        expires: u32::MAX,
        revoked: false,
    }
}

fn of_voucher(voucher: &VoucherTerms, now: Duration) -> Invite {
    Invite {
        class: voucher.class,
        expires: voucher.expires,
        ..unlisted(AccountTag::in_voucher(voucher), now)
    }
}

/// The RELAY, if the text is one or names a file with one.
fn ticket_of(which: &str) -> anyhow::Result<Option<RelayTicket>> {
    let text = match which.strip_prefix('@') {
        Some(file) => ticket::read_file(file.as_ref())?,
        None if which.starts_with("mr1") => which.to_owned(),
        None => return Ok(None),
    };
    // The text itself stays out of the message: it is a secret.
    let ticket = text.trim().parse();
    ticket
        .map(Some)
        .map_err(|error| usage(format!("`--revoke`: this isn't a RELAY: {error}")))
}

/// The voucher of a RELAY of this relay.
fn own_voucher(ticket: &RelayTicket, key_file: &Path) -> anyhow::Result<VoucherTerms> {
    if ticket.relay != open_keys(key_file)?.id() {
        return Err(usage(
            "`--revoke`: this is the RELAY of another relay: check `--key-file`",
        ));
    }
    let access = ticket.access.as_ref();
    let access = access.ok_or_else(|| usage("`--revoke`: this RELAY gives no access"))?;
    Ok(access.voucher.terms)
}

/// The account that a text names, or that the invitation of this name has.
fn account_of(which: &str, list: &Invites) -> anyhow::Result<AccountTag> {
    if let Ok(account) = which.parse() {
        return Ok(account);
    }
    let named = list.named(which).map(|invite| invite.account);
    named.ok_or_else(|| {
        usage(format!(
            "`--revoke`: no invitation is called {}: `--invites` lists them; {NoAccount}",
            printable(which, 64)
        ))
    })
}

const HEAD: [&str; 6] = [
    "ACCOUNT",
    "NAME",
    "RATE",
    "CREATED (UTC)",
    "ENDS (UTC)",
    "STATE",
];

/// A line for each, in columns.
fn table(list: &Invites) -> String {
    let mut invites: Vec<&Invite> = list.iter().collect();
    invites.sort_by_key(|invite| (invite.created, invite.account));
    let mut rows = vec![HEAD.map(str::to_owned)];
    rows.extend(invites.into_iter().map(row));
    let mut widths = [0; HEAD.len()];
    for (width, at) in widths.iter_mut().zip(0..) {
        *width = rows.iter().map(|row| row[at].len()).max().unwrap_or(0);
    }
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().zip(widths);
        let cells: Vec<String> = cells
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

fn row(invite: &Invite) -> [String; HEAD.len()] {
    let state = if invite.revoked { "revoked" } else { "valid" };
    [
        invite.account.to_string(),
        invite.name.clone().unwrap_or_else(|| "-".to_owned()),
        Rate::from_mbps(f64::from(1 << invite.class.number())).to_string(),
        date(invite.created),
        date(invite.expires),
        state.to_owned(),
    ]
}

fn date(seconds: u32) -> String {
    let date = DateTime::from_timestamp(seconds.into(), 0).filter(|_| seconds < u32::MAX);
    date.map_or_else(
        || "unknown".to_owned(),
        |date| date.format("%Y-%m-%d %H:%M").to_string(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_has_columns_and_the_oldest_first() {
        let invite = |number: u8, created, name: Option<&str>, class| Invite {
            name: name.map(str::to_owned),
            class: RateClass::new(class).unwrap(),
            created,
            expires: created + 365 * 86_400,
            ..unlisted(AccountTag([number; 8]), Duration::ZERO)
        };
        let mut list = Invites::default();
        list.add(invite(2, 1_800_000_000, Some("alice"), 6))
            .unwrap();
        list.add(invite(1, 1_800_090_000, None, 15)).unwrap();
        let blocked = AccountTag([3; 8]);
        list.revoke(blocked, || {
            unlisted(blocked, Duration::from_secs(1_800_100_000))
        })
        .unwrap();
        list.revoke(AccountTag([2; 8]), || unreachable!()).unwrap();
        insta::assert_snapshot!("invites", table(&list));
    }
}

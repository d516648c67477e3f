//! Access to a relay of ours: a new account with its key.

use std::time::{Duration, SystemTime};

use anyhow::Context;
use manyway_relay::Keys;
use manyway_relay::keys::public_key;
use manyway_wire::relay::{Access, RateClass};
use rand::TryRng;
use rand::rngs::SysRng;

/// Makes an account and signs the voucher for its key.
pub(crate) fn new_account(keys: &Keys, class: RateClass, time: Duration) -> anyhow::Result<Access> {
    let (mut seed, mut account) = ([0; 32], [0; 8]);
    SysRng
        .try_fill_bytes(&mut seed)
        .and_then(|()| SysRng.try_fill_bytes(&mut account))
        .context("the system gives no random numbers")?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    let expires = u32::try_from((now + time).as_secs()).unwrap_or(u32::MAX);
    let voucher = keys.vouch(account, class, expires, public_key(&seed));
    Ok(Access { voucher, seed })
}

use std::time::Duration;

use manyway_wire::relay::RateClass;

use crate::bucket::{Allowance, Bucket, Sketch};
use crate::exposition::Exposition;
use crate::usage::{Place, Usage};
use crate::{AccountTag, Invites};

/// Token buckets per row of the sketches for accounts and for sources, 256 KiB each: small enough
/// for a processor's cache. If a thousand accounts use up their rates, far more than a relay can
/// carry, another account finds both its cells in use with a probability of 0.4 %.
pub(crate) const CELLS: usize = 1 << 14;
/// The rates left to each account and to all together, and what each has used, over UDP and TCP.
pub struct Rates {
    pub(crate) accounts: Sketch,
    pub(crate) usage: Usage,
    pub(crate) total: Bucket,
    pub(crate) limit: Option<u64>,
}

impl Rates {
    /// Bytes per second altogether, if limited. `random` gives the hash's keys.
    pub fn new(limit: Option<u64>, random: impl FnMut() -> u64) -> Self {
        Self {
            accounts: Sketch::new(CELLS, random),
            usage: Usage::default(),
            total: Bucket::default(),
            limit,
        }
    }

    /// Where an account with a genuine voucher or grant is counted.
    pub(crate) fn account(&self, tag: &AccountTag) -> Account {
        Account {
            cells: self.accounts.cells(&tag.0),
            place: self.usage.place(tag),
        }
    }

    /// Adds what each account has used since the relay's start. Those of invitations have names.
    pub fn expose(&self, text: &mut Exposition, invites: &Invites) {
        self.usage.expose(text, invites);
    }

    /// How long an account has to wait until it may send again.
    pub fn delay(&self, account: Account, class: RateClass, now: Duration) -> Duration {
        let burst = Allowance::class(0, class).burst;
        let own = self.accounts.delay(account.cells, now, burst);
        match self.limit {
            Some(limit) => own.max(self.total.delay(now, Allowance::bytes(0, limit).burst)),
            None => own,
        }
    }

    /// Counts bytes that an account has sent over TCP.
    pub fn charge(&self, account: Account, class: RateClass, now: Duration, len: usize) {
        let cost = Allowance::class(len, class).cost;
        self.accounts.charge(account.cells, now, cost);
        self.usage.streamed(account.place, len);
        if let Some(limit) = self.limit {
            self.total.charge(now, Allowance::bytes(len, limit).cost);
        }
    }
}

/// Where [`Rates`] counts an account.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Its cells in the sketch.
    pub(crate) cells: [usize; 2],
    pub(crate) place: Place,
}

impl std::fmt::Debug for Rates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rates")
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

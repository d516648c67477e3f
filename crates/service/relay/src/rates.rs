use std::time::Duration;

use manyway_wire::relay::RateClass;

use crate::bucket::{Allowance, Bucket, Sketch};

/// Token buckets per row of the sketches for accounts and for sources, 256 KiB each: small enough
/// for a processor's cache. If a thousand accounts use up their rates, far more than a relay can
/// carry, another account finds both its cells in use with a probability of 0.4 %.
pub(crate) const CELLS: usize = 1 << 14;
/// The rates left to each account and to all together, over UDP and TCP.
pub struct Rates {
    pub(crate) accounts: Sketch,
    pub(crate) total: Bucket,
    pub(crate) limit: Option<u64>,
}

impl Rates {
    /// Bytes per second altogether, if limited. `random` gives the hash's keys.
    pub fn new(limit: Option<u64>, random: impl FnMut() -> u64) -> Self {
        Self {
            accounts: Sketch::new(CELLS, random),
            total: Bucket::default(),
            limit,
        }
    }

    /// The account's cells, by its tag.
    pub(crate) fn cells(&self, tag: &[u8; 8]) -> [usize; 2] {
        self.accounts.cells(tag)
    }

    /// How long an account has to wait until it may send again.
    pub fn delay(&self, account: [usize; 2], class: RateClass, now: Duration) -> Duration {
        let burst = Allowance::class(0, class).burst;
        let own = self.accounts.delay(account, now, burst);
        match self.limit {
            Some(limit) => own.max(self.total.delay(now, Allowance::bytes(0, limit).burst)),
            None => own,
        }
    }

    /// Counts bytes that an account has sent.
    pub fn charge(&self, account: [usize; 2], class: RateClass, now: Duration, len: usize) {
        let cost = Allowance::class(len, class).cost;
        self.accounts.charge(account, now, cost);
        if let Some(limit) = self.limit {
            self.total.charge(now, Allowance::bytes(len, limit).cost);
        }
    }
}

impl std::fmt::Debug for Rates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rates")
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

//! Where the registry keeps leases.

mod etcd;
mod etcd_json;

use std::sync::{Arc, Mutex};

use crate::{Core, Record};

pub use etcd::{Etcd, StoreError};

/// Where leases are. In both cases, every registry has all relays in its own memory and answers
/// clients from there.
pub enum Store {
    /// In this registry's memory: leases end with it, and relays enrol again at their next
    /// heartbeat.
    Memory,
    /// In etcd, as etcd's leases: several registries serve one fleet, and each may die.
    Etcd(Box<Etcd>),
}

impl Store {
    /// Stores a new lease. Returns `false` if the stored one is as new or newer.
    pub(crate) async fn enrol(&self, record: &Record) -> Result<bool, StoreError> {
        match self {
            Self::Memory => Ok(true),
            Self::Etcd(etcd) => etcd.enrol(record).await,
        }
    }

    /// Prolongs a lease. Returns `false` if it has ended, and `None` if the registry's memory
    /// decides.
    pub(crate) async fn renew(&self, lease: i64) -> Result<Option<bool>, StoreError> {
        match self {
            Self::Memory => Ok(None),
            Self::Etcd(etcd) => etcd.renew(lease).await.map(Some),
        }
    }

    /// Notes that a relay has left, until its lease ends.
    pub(crate) async fn leave(&self, record: &Record) -> Result<(), StoreError> {
        match self {
            Self::Memory => Ok(()),
            Self::Etcd(etcd) => etcd.leave(record).await,
        }
    }

    /// Whether the store ends leases.
    pub(crate) fn ends_leases(&self) -> bool {
        matches!(self, Self::Etcd(_))
    }

    /// Loads the registry's memory. Resolves once it is loaded, to a future that keeps it up to
    /// date.
    pub(crate) async fn follow(
        self: &Arc<Self>,
        core: &Arc<Mutex<Core>>,
    ) -> Result<Option<tokio::task::JoinHandle<()>>, StoreError> {
        let Self::Etcd(etcd) = &**self else {
            return Ok(None);
        };
        let revision = etcd.load(core).await?;
        let (store, core) = (Arc::clone(self), Arc::clone(core));
        Ok(Some(tokio::spawn(async move {
            if let Self::Etcd(etcd) = &*store {
                etcd.follow(&core, revision).await;
            }
        })))
    }
}

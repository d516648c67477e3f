//! A relay as `manyway relay` runs it, on a thread of this process.

use std::net::{Ipv4Addr, SocketAddr};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use manyway::{RelayAccess, RelayAddress};
use manyway_relay::Config;
use manyway_relay::server::{Handle, Server, ServerConfig, ServerError, open_keys};
use manyway_wire::relay::{Access, RateClass, RelayId};
use tempfile::TempDir;

use crate::access::new_account;

/// How long vouchers are good.
const DAY: Duration = Duration::from_secs(86_400);

/// A running relay; dropping it stops it.
#[derive(Debug)]
pub(super) struct Relay {
    /// Its own, not what others reach it by.
    pub(super) address: SocketAddr,
    id: RelayId,
    access: Access,
    running: Running,
    _keys: TempDir,
}

struct Running {
    handle: Handle,
    thread: Option<JoinHandle<Result<(), ServerError>>>,
}

impl Relay {
    pub(super) fn start() -> anyhow::Result<Self> {
        let keys = TempDir::with_prefix("manyway-relay").context("no place for a relay's key")?;
        let key_file = keys.path().join("relay.key");
        let server = Server::bind(ServerConfig {
            listen: vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 0))],
            key_file: key_file.clone(),
            rotate: DAY,
            streams: None,
            relay: Config {
                allow_private: true,
                ..Config::default()
            },
        })?;
        let access = new_account(&open_keys(&key_file)?, RateClass::MAX, DAY)?;
        let (id, handle) = (server.id(), server.handle());
        let address = *server
            .addresses()
            .first()
            .context("the relay has no address")?;
        let thread = std::thread::Builder::new().name("relay".into());
        let thread = thread.spawn(move || server.run());
        Ok(Self {
            address,
            id,
            access,
            running: Running {
                handle,
                thread: Some(thread.context("can't start a relay's thread")?),
            },
            _keys: keys,
        })
    }

    /// The right to use it, at the address that others reach it by.
    pub(super) fn access(&self, at: SocketAddr) -> RelayAccess {
        RelayAccess {
            relay: RelayAddress {
                address: at,
                id: self.id,
            },
            access: self.access.clone(),
        }
    }

    /// Packets that it has sent on.
    pub(super) fn forwarded(&self) -> u64 {
        self.running.handle.counters().forwarded
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.handle.stop();
        if let Some(Ok(Err(error))) = self.thread.take().map(JoinHandle::join) {
            tracing::warn!(%error, "a relay ended before its time");
        }
    }
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Running(..)")
    }
}

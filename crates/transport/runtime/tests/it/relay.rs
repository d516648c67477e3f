//! A relay with a TCP side, on loopback.

use std::io;
use std::path::Path;
use std::time::Duration;

use manyway_relay::keys::public_key;
use manyway_relay::server::{Handle, Server, ServerConfig, StreamConfig, open_keys};
use manyway_relay::{Config, StreamLimits};
use manyway_session::{Access, RelayAccess, RelayAddress};
use manyway_wire::relay::RateClass;

pub(crate) struct Running {
    pub(crate) handle: Handle,
    pub(crate) access: RelayAccess,
    task: tokio::task::JoinHandle<io::Result<()>>,
}

/// A relay with the keys in `keys`, over TCP alone as far as these tests see.
pub(crate) fn start(keys: &Path, listen: &str) -> Running {
    let key_file = keys.join("relay.key");
    let config = ServerConfig {
        listen: vec!["127.0.0.1:0".parse().unwrap()],
        key_file: key_file.clone(),
        rotate: Duration::from_secs(86_400),
        relay: Config {
            allow_private: true,
            ..Config::default()
        },
        streams: Some(StreamConfig {
            listen: vec![listen.parse().unwrap()],
            limits: StreamLimits {
                call: Duration::from_millis(500),
                ..StreamLimits::default()
            },
        }),
    };
    let mut server = Server::bind(config).unwrap();
    let address = server.stream_addresses()[0];
    let task = tokio::spawn(server.take_streams().unwrap().run());
    let relay = RelayAddress {
        address,
        id: server.id(),
    };
    Running {
        handle: server.handle(),
        access: access(keys, relay, u32::MAX),
        task,
    }
}

/// Access until then, in Unix seconds.
pub(crate) fn access(keys: &Path, relay: RelayAddress, until: u32) -> RelayAccess {
    access_of([1; 8], keys, relay, until)
}

/// The same on another account.
pub(crate) fn access_of(
    account: [u8; 8],
    keys: &Path,
    relay: RelayAddress,
    until: u32,
) -> RelayAccess {
    let seed = [5; 32];
    let own = open_keys(&keys.join("relay.key")).unwrap();
    let voucher = own.vouch(account, RateClass::MAX, until, public_key(&seed));
    let access = Access { voucher, seed };
    RelayAccess { relay, access }
}

impl Running {
    pub(crate) async fn stop(self) {
        self.handle.stop();
        self.task.await.unwrap().unwrap();
    }
}

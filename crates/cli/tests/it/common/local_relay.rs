//! Relays, endpoints and traffic in this process, on real sockets. The tests in `src` use this file
//! as well.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use manyway::relay::RelayId;
use manyway::{Config, Connection, Endpoint, EndpointOptions, PathSelector};
use manyway_relay::server::{Handle, Server, ServerConfig, ServerError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;

/// Only tests that fail wait this long.
const PATIENCE: Duration = Duration::from_secs(300);
pub(crate) const LOOPBACK: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// A relay on a thread of its own.
pub(crate) struct LocalRelay {
    pub(crate) id: RelayId,
    pub(crate) address: SocketAddr,
    pub(crate) handle: Handle,
    thread: Option<JoinHandle<Result<(), ServerError>>>,
}

impl LocalRelay {
    pub(crate) fn start(key_file: PathBuf, trusted: Vec<RelayId>) -> Self {
        let server = Server::bind(ServerConfig {
            listen: vec![LOOPBACK],
            key_file,
            rotate: Duration::from_secs(86_400),
            streams: None,
            relay: manyway_relay::Config {
                allow_private: true,
                trusted,
                ..Default::default()
            },
        });
        let server = server.unwrap();
        Self {
            id: server.id(),
            address: server.addresses()[0],
            handle: server.handle(),
            thread: Some(std::thread::spawn(move || server.run())),
        }
    }

    pub(crate) fn stop(&mut self) {
        self.handle.stop();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap().unwrap();
        }
    }
}

impl Drop for LocalRelay {
    fn drop(&mut self) {
        self.handle.stop();
    }
}

/// An endpoint on loopback.
pub(crate) async fn endpoint(config: Config) -> Endpoint {
    let options = EndpointOptions {
        config,
        paths: vec![PathSelector::Address(LOOPBACK.ip())],
        ..EndpointOptions::default()
    };
    Endpoint::bind(options).await.unwrap()
}

/// Sends data from one end to the other until the connection closes.
pub(crate) async fn keep_busy(connection: &Connection, accepted: Connection) -> JoinSet<()> {
    let (mut send, _) = connection.open_bi().await.unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move { while send.write_all(&[0x5a; 1 << 14]).await.is_ok() {} });
    tasks.spawn(async move {
        let (_, mut receive) = accepted.accept_bi().await.unwrap();
        let mut piece = vec![0; 1 << 14];
        while let Ok(1..) = receive.read(&mut piece).await {}
    });
    tasks
}

/// Waits until the condition holds.
pub(crate) async fn until(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "{what}: not within {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

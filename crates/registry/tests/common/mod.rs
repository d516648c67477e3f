//! A registry and relays on loopback. Each test uses a part of this.
#![allow(dead_code)]

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use manyway_registry::client::{Client, Membership, Relay as Enrolling};
use manyway_registry::server::{Connections, Server, ServerConfig};
use manyway_registry::store::Store;
use manyway_registry::{Core, Limits, RegistryKey, RegistryUrl, Role, Token, Tokens, tls};
use manyway_relay::keys::public_key;
use manyway_relay::{Action, Config, Keys, Relay};
use manyway_wire::relay::RelayId;
use rand::SeedableRng;
use rand::rngs::ChaCha20Rng;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub(crate) const TOKENS: &str = "relay cheap 0123456789abcdef0123\nclient lab abcdefabcdefabcdefabcd 3\n";

pub(crate) fn rng(seed: u64) -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(seed)
}

pub(crate) fn key(seed: u64) -> RegistryKey {
    RegistryKey::generate(&mut rng(seed))
}

pub(crate) fn token(role: Role) -> Token {
    Token::from_text(TOKENS, role).unwrap()
}

pub(crate) fn limits() -> Limits {
    Limits {
        allow_private: true,
        // All come from 127.0.0.1.
        rate: 100_000,
        ..Limits::default()
    }
}

pub(crate) fn core(key: &RegistryKey, limits: Limits) -> Core {
    Core::new(key.clone(), Tokens::parse(TOKENS).unwrap(), limits, [7; 32])
}

/// A registry that runs.
pub(crate) struct Registry {
    pub(crate) address: SocketAddr,
    pub(crate) url: RegistryUrl,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Registry {
    pub(crate) async fn start() -> Self {
        Self::with(&key(1), limits(), Store::Memory).await
    }

    pub(crate) async fn with(key: &RegistryKey, limits: Limits, store: Store) -> Self {
        let config = ServerConfig {
            listen: "127.0.0.1:0".parse().unwrap(),
            tls: tls::pinned_server(key).unwrap(),
            core: core(key, limits),
            store,
            connections: Connections::default(),
        };
        let server = Server::bind(config).await.unwrap();
        let address = server.address();
        let url = format!("https://{address}#{}", key.id()).parse().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(server.run(async {
            stopped.await.ok();
        }));
        Self {
            address,
            url,
            stop: Some(stop),
            task,
        }
    }

    /// As if its host were gone: nothing is finished.
    pub(crate) async fn kill(&mut self) {
        self.task.abort();
        (&mut self.task).await.ok();
    }

    pub(crate) async fn end(mut self) {
        self.stop.take();
        (&mut self.task).await.unwrap();
    }

    pub(crate) fn client(&self) -> Client {
        client(std::slice::from_ref(&self.url))
    }
}

pub(crate) fn client(urls: &[RegistryUrl]) -> Client {
    Client::new(urls, token(Role::Client), &mut rng(9)).unwrap()
}

/// A relay's decisions on a socket, which is all that is needed of one here.
pub(crate) struct TestRelay {
    pub(crate) address: SocketAddr,
    pub(crate) seed: [u8; 32],
    stop: Arc<AtomicBool>,
}

impl TestRelay {
    pub(crate) fn start(seed: u8, trusted: RelayId) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let address = socket.local_addr().unwrap();
        let seed = [seed; 32];
        let text = format!(
            "manyway relay keys 1\nidentity {}\ncodes 0 0 {}\n",
            hex(&seed),
            hex(&[3; 32])
        );
        let keys = Keys::from_text(&text).unwrap();
        let config = Config {
            allow_private: true,
            trusted: vec![trusted],
            ..Config::default()
        };
        let mut relay = Relay::new(config, keys, &mut rng(5));
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        std::thread::spawn(move || {
            let mut buffer = [0; 2000];
            while !stopped.load(Ordering::Relaxed) {
                let Ok((len, from)) = socket.recv_from(&mut buffer) else {
                    continue;
                };
                let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
                if let Action::Reply(reply) = relay.handle(now, from, &buffer[..len]) {
                    socket.send_to(reply.as_bytes(), from).unwrap();
                }
            }
        });
        Self {
            address,
            seed,
            stop,
        }
    }

    pub(crate) fn id(&self) -> RelayId {
        public_key(&self.seed)
    }

    pub(crate) fn membership(&self, urls: &[RegistryUrl]) -> Membership {
        let relay = Enrolling::new(self.seed, vec![self.address]);
        Membership::new(urls, token(Role::Relay), relay).unwrap()
    }
}

impl Drop for TestRelay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Waits for what comes soon; the patience is for machines under load.
pub(crate) async fn eventually(what: &str, mut look: impl AsyncFnMut() -> bool) {
    let start = Instant::now();
    while !look().await {
        assert!(start.elapsed() < Duration::from_secs(120), "{what} never came");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

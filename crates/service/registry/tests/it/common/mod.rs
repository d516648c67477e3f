//! A registry and relays on loopback.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use manyway_registry::api::{encode, enrolment_bytes};
use manyway_registry::client::{Client, Membership, RelayDescriptor};
use manyway_registry::server::{Connections, Handle, Server, ServerConfig};
use manyway_registry::store::Store;
use manyway_registry::{Core, Limits, RegistryKey, RegistryUrl, Role, Token, Tokens, tls};
use manyway_relay::keys::{public_key, sign};
use manyway_relay::{Action, Config, Keys, Relay};
use manyway_wire::relay::{Challenge, RelayId, StreamReply, StreamRequest, StreamType};
use rand::SeedableRng;
use rand::rngs::ChaCha20Rng;
use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

pub(crate) const TOKENS: &str =
    "relay cheap 0123456789abcdef0123\nclient lab abcdefabcdefabcdefabcd 3\n";

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
    pub(crate) handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Registry {
    pub(crate) async fn start() -> Self {
        Self::with(&key(1), limits(), Store::Memory).await
    }

    pub(crate) async fn bounded(connections: Connections) -> Self {
        Self::with_all(&key(1), limits(), Store::Memory, connections).await
    }

    pub(crate) async fn with(key: &RegistryKey, limits: Limits, store: Store) -> Self {
        Self::with_all(key, limits, store, Connections::default()).await
    }

    async fn with_all(
        key: &RegistryKey,
        limits: Limits,
        store: Store,
        connections: Connections,
    ) -> Self {
        let config = ServerConfig {
            listen: vec!["127.0.0.1:0".parse().unwrap(), "[::1]:0".parse().unwrap()],
            tls: tls::pinned_server(key).unwrap(),
            core: core(key, limits),
            store,
            connections,
        };
        let server = Server::bind(config).await.unwrap();
        let address = server.addresses()[0];
        let handle = server.handle();
        let url = format!("https://{address}#{}", key.id()).parse().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(server.run(async {
            stopped.await.ok();
        }));
        Self {
            address,
            url,
            handle,
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
        socket
            .set_read_timeout(Some(Duration::from_millis(50)))
            .unwrap();
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
                let now = SystemTime::now()
                    .duration_since(SystemTime::UNIX_EPOCH)
                    .unwrap();
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
        let seed = self.seed;
        let relay = RelayDescriptor::new(self.id(), vec![self.address], move |bytes| {
            sign(&seed, bytes)
        });
        Membership::new(urls, token(Role::Relay), relay).unwrap()
    }

    /// One that says that it takes TCP too.
    pub(crate) fn membership_over_tcp(&self, urls: &[RegistryUrl]) -> Membership {
        let seed = self.seed;
        let relay = RelayDescriptor::new(self.id(), vec![self.address], move |bytes| {
            sign(&seed, bytes)
        });
        Membership::new(urls, token(Role::Relay), relay.over_tcp(true)).unwrap()
    }

    /// Answers one HELLO over TCP at its address, with this id.
    pub(crate) fn answer_over_tcp(&self, id: RelayId) -> std::thread::JoinHandle<()> {
        let listener = TcpListener::bind(self.address).unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut hello = [0; StreamType::Hello.len()];
            stream.read_exact(&mut hello).unwrap();
            // As a relay does: another's id isn't answered.
            if hello[..] == StreamRequest::Hello(id).to_bytes()[..] {
                let welcome = StreamReply::Welcome(Challenge([5; 16]));
                stream.write_all(&welcome.to_bytes()).unwrap();
            }
        })
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
        assert!(
            start.elapsed() < Duration::from_secs(120),
            "{what} never came"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

pub(crate) const RELAY_TOKEN: &str = "0123456789abcdef0123";
pub(crate) const CLIENT_TOKEN: &str = "abcdefabcdefabcdefabcd";

/// One request as anybody could send it: status, and the body if it is JSON.
pub(crate) async fn ask(
    registry: &Registry,
    method: &str,
    path: &str,
    bearer: &str,
    body: &str,
) -> (u16, Value) {
    let text = format!(
        "{method} {path} HTTP/1.1\r\nHost: r\r\nConnection: close\r\nAuthorization: Bearer \
         {bearer}\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let answer = raw(registry, text.as_bytes()).await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok())
        .unwrap_or(0);
    (status, serde_json::from_str(body).unwrap_or_default())
}

/// Bytes in TLS, and all that comes back.
pub(crate) async fn raw(registry: &Registry, request: &[u8]) -> String {
    let tls = tls::pinned_client(registry.url.pin.unwrap()).unwrap();
    let stream = TcpStream::connect(registry.address).await.unwrap();
    let name = ServerName::from(registry.address.ip());
    let mut stream = TlsConnector::from(tls).connect(name, stream).await.unwrap();
    // The registry may have heard enough before the end.
    stream.write_all(request).await.ok();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.ok();
    String::from_utf8(answer).unwrap()
}

/// The body of an enrolment, signed with `seed`.
pub(crate) async fn enrolment(
    registry: &Registry,
    relay: &TestRelay,
    seed: [u8; 32],
    addresses: &[SocketAddr],
) -> String {
    let (_, body) = ask(registry, "GET", "/v1/challenge", "", "").await;
    let challenge = body["challenge"].as_str().unwrap().to_owned();
    let signed = enrolment_bytes(&registry.url.pin.unwrap().0, &challenge, addresses, false);
    json!({
        "relay": relay.id().to_string(),
        "addresses": addresses,
        "challenge": challenge,
        "signature": encode(&sign(&seed, &signed)),
    })
    .to_string()
}

//! A fleet's heartbeats, as load on a registry.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use manyway_registry::api::{encode, enrolment_bytes};
use manyway_registry::tls;
use manyway_relay::keys::{public_key, sign};
use manyway_wire::relay::{Consent, ConsentReply, Hello, Mac, Proof, RelayId};
use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep_until, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

pub(crate) const TOKENS: &str = "relay load 0123456789abcdef0123\n";
const TOKEN: &str = "0123456789abcdef0123";
/// Longer than this, an answer counts as an error.
const PATIENCE: Duration = Duration::from_secs(30);

/// The registry under load.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    pub(crate) key: RelayId,
    pub(crate) tls: Arc<ClientConfig>,
}

/// What became of the requests.
#[derive(Default)]
pub(crate) struct Outcome {
    pub(crate) errors: usize,
    /// Of the answers that came.
    pub(crate) latencies: Vec<Duration>,
    pub(crate) elapsed: Duration,
}

impl Outcome {
    fn add(&mut self, answer: Option<(u16, Value)>, since: Instant) {
        match answer {
            Some((200, _)) => self.latencies.push(since.elapsed()),
            _ => self.errors += 1,
        }
    }

    async fn join(mut tasks: JoinSet<Self>, start: Instant) -> Self {
        let mut all = Self::default();
        while let Some(outcome) = tasks.join_next().await {
            let outcome = outcome.expect("no task panics");
            all.errors += outcome.errors;
            all.latencies.extend(outcome.latencies);
        }
        all.latencies.sort_unstable();
        all.elapsed = start.elapsed();
        all
    }

    /// The latency that this share of the answers doesn't exceed.
    pub(crate) fn quantile(&self, share: f64) -> Duration {
        let at = (share * self.latencies.len() as f64) as usize;
        let last = self.latencies.len().saturating_sub(1);
        self.latencies
            .get(at.min(last))
            .copied()
            .unwrap_or_default()
    }
}

impl Target {
    pub(crate) fn new(address: SocketAddr, key: RelayId) -> Self {
        let tls = tls::pinned_client(key).expect("TLS");
        Self { address, key, tls }
    }

    /// The same, with a whole handshake each time.
    pub(crate) fn without_resumption(&self) -> Self {
        let mut tls = (*self.tls).clone();
        tls.resumption = Resumption::disabled();
        Self {
            tls: Arc::new(tls),
            ..self.clone()
        }
    }

    async fn connect(&self) -> Option<Connection> {
        let stream = TcpStream::connect(self.address).await.ok()?;
        stream.set_nodelay(true).ok()?;
        let name = ServerName::from(self.address.ip());
        let stream = TlsConnector::from(Arc::clone(&self.tls)).connect(name, stream);
        Some(Connection(stream.await.ok()?))
    }
}

struct Connection(TlsStream<TcpStream>);

impl Connection {
    async fn ask(
        &mut self,
        method: &str,
        path: &str,
        bearer: &str,
        body: &str,
    ) -> Option<(u16, Value)> {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: r\r\nAuthorization: Bearer \
             {bearer}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        timeout(PATIENCE, self.exchange(request.as_bytes()))
            .await
            .ok()?
    }

    async fn exchange(&mut self, request: &[u8]) -> Option<(u16, Value)> {
        self.0.write_all(request).await.ok()?;
        self.0.flush().await.ok()?;
        let mut buffer = Vec::with_capacity(1024);
        loop {
            if self.0.read_buf(&mut buffer).await.ok()? == 0 {
                return None;
            }
            let text = str::from_utf8(&buffer).ok()?;
            let Some((head, body)) = text.split_once("\r\n\r\n") else {
                continue;
            };
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length?.parse().ok()? {
                let status = head.split(' ').nth(1)?.parse().ok()?;
                return Some((status, serde_json::from_str(body).unwrap_or_default()));
            }
        }
    }
}

/// Answers HELLO for whatever relay it names, as if all were at this address.
pub(crate) fn answer_hellos() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let address = socket.local_addr().expect("an address");
    std::thread::spawn(move || {
        let mut buffer = [0; 100];
        while let Ok((len, from)) = socket.recv_from(&mut buffer) {
            let Ok(hello) = Hello::decode(&buffer[..len]) else {
                continue;
            };
            let mac = Mac([0; 8]);
            let (key, issued) = (0, 0);
            let reply = ConsentReply {
                nonce: hello.nonce,
                consent: Consent {
                    key,
                    issued,
                    address: from,
                    mac,
                },
                proof: Proof { key, issued, mac },
            };
            socket.send_to(&reply.to_bytes(), from).ok();
        }
    });
    address
}

/// Enrols `count` relays over so many connections; their leases, and how many failed.
pub(crate) async fn enrol(
    target: &Target,
    count: usize,
    connections: usize,
) -> (Vec<String>, usize) {
    let address = answer_hellos();
    let mut tasks = JoinSet::new();
    for first in 0..connections {
        let target = target.clone();
        tasks.spawn(async move {
            let mut leases = Vec::new();
            let mut connection = target.connect().await.expect("a connection");
            for number in (first..count).step_by(connections) {
                leases.push(enrol_one(&target, &mut connection, number, address).await);
            }
            leases
        });
    }
    let (mut leases, mut failed) = (Vec::with_capacity(count), 0);
    while let Some(some) = tasks.join_next().await {
        for lease in some.expect("no task panics") {
            match lease {
                Some(lease) => leases.push(lease),
                None => failed += 1,
            }
        }
    }
    (leases, failed)
}

async fn enrol_one(
    target: &Target,
    connection: &mut Connection,
    number: usize,
    at: SocketAddr,
) -> Option<String> {
    let mut seed = [1; 32];
    seed[..8].copy_from_slice(&(number as u64).to_be_bytes());
    let (_, body) = connection.ask("GET", "/v1/challenge", "", "").await?;
    let challenge = body["challenge"].as_str()?;
    let signed = enrolment_bytes(&target.key.0, challenge, &[at], false);
    let body = json!({
        "relay": public_key(&seed).to_string(),
        "addresses": [at],
        "challenge": challenge,
        "signature": encode(&sign(&seed, &signed)),
    });
    let (_, enrolled) = connection
        .ask("POST", "/v1/relays", TOKEN, &body.to_string())
        .await?;
    Some(enrolled["lease"].as_str()?.to_owned())
}

/// How the heartbeats of a fleet come.
pub(crate) struct Beats {
    /// Connections that are kept open; each is shared by as many relays.
    pub(crate) connections: usize,
    /// All together, per second, at even distances whether answers come or not.
    pub(crate) rate: f64,
    /// Each relay's.
    pub(crate) rounds: usize,
}

/// Heartbeats over connections that stay. `connected` is called once all are open.
pub(crate) async fn heartbeats(
    target: &Target,
    leases: &[String],
    beats: &Beats,
    connected: impl FnOnce(),
) -> Outcome {
    let mut open = Vec::with_capacity(beats.connections);
    for _ in 0..beats.connections {
        open.push(target.connect().await.expect("a connection"));
    }
    connected();
    let start = Instant::now();
    let mut tasks = JoinSet::new();
    for (first, mut connection) in open.into_iter().enumerate() {
        let own: Vec<String> = leases
            .iter()
            .skip(first)
            .step_by(beats.connections)
            .cloned()
            .collect();
        let (connections, rate, rounds, relays) =
            (beats.connections, beats.rate, beats.rounds, leases.len());
        tasks.spawn(async move {
            let mut outcome = Outcome::default();
            for round in 0..rounds {
                for (n, lease) in own.iter().enumerate() {
                    let number = round * relays + n * connections + first;
                    let due = start + Duration::from_secs_f64(number as f64 / rate);
                    sleep_until(due.into()).await;
                    // From when it was due: a registry that falls behind is seen.
                    outcome.add(
                        connection.ask("POST", "/v1/heartbeat", lease, "").await,
                        due,
                    );
                }
            }
            outcome
        });
    }
    Outcome::join(tasks, start).await
}

/// `count` heartbeats with a connection each, from so many tasks, one after the other in each.
pub(crate) async fn fresh(
    target: &Target,
    leases: &[String],
    count: usize,
    tasks: usize,
) -> Outcome {
    let start = Instant::now();
    let mut all = JoinSet::new();
    for first in 0..tasks {
        let target = target.clone();
        let own: Vec<String> = (first..count)
            .step_by(tasks)
            .map(|n| leases[n % leases.len()].clone())
            .collect();
        all.spawn(async move {
            let mut outcome = Outcome::default();
            for lease in own {
                let since = Instant::now();
                let answer = match target.connect().await {
                    Some(mut connection) => {
                        connection.ask("POST", "/v1/heartbeat", &lease, "").await
                    }
                    None => None,
                };
                outcome.add(answer, since);
            }
            outcome
        });
    }
    Outcome::join(all, start).await
}

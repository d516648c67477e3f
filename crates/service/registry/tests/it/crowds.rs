//! Clients that hold connections and do nothing with them, or as little as possible.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader, Lines, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use crate::common::{
    CLIENT_TOKEN, RELAY_TOKEN, Registry, TestRelay, ask, enrolment, eventually, key,
};
use manyway_registry::api::{encode, enrolment_bytes};
use manyway_registry::server::Connections;
use manyway_registry::{RegistryUrl, Tokens, tls};
use manyway_relay::keys::sign;
use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// How long tests wait for what takes a second on an idle machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// The pause between bytes of a slow client.
const DRIP: Duration = Duration::from_millis(30);
/// A time limit that no test reaches.
const LONG: Duration = Duration::from_secs(3600);
/// The time limit under test.
const SHORT: Duration = Duration::from_millis(300);

/// Bounds whose time limits no test reaches.
fn patient() -> Connections {
    Connections {
        handshake: LONG,
        head: LONG,
        body: LONG,
        answer: LONG,
        ..Connections::default()
    }
}

async fn dial(host: u8, address: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    // So that unread answers soon fill the buffers.
    socket.set_recv_buffer_size(4096)?;
    socket.bind((Ipv4Addr::new(127, 0, 0, host), 0).into())?;
    socket.connect(address).await
}

async fn shake(stream: TcpStream, url: &RegistryUrl) -> std::io::Result<TlsStream<TcpStream>> {
    let tls = tls::pinned_client(url.pin.unwrap()).unwrap();
    let name = ServerName::from(stream.peer_addr()?.ip());
    TlsConnector::from(tls).connect(name, stream).await
}

async fn secured(registry: &Registry) -> TlsStream<TcpStream> {
    connect(1, registry).await
}

fn request(line: &str, bearer: &str, body: &str) -> String {
    format!(
        "{line} HTTP/1.1\r\nHost: r\r\nAuthorization: Bearer {bearer}\r\nContent-Length: \
         {}\r\n\r\n{body}",
        body.len()
    )
}

/// The status of the next answer, after which the connection is open for a request.
async fn status(stream: &mut TlsStream<TcpStream>) -> u16 {
    let mut answer = [0; 2000];
    let len = timeout(PATIENCE, stream.read(&mut answer)).await;
    let answer = str::from_utf8(&answer[..len.unwrap().unwrap()]).unwrap();
    answer["HTTP/1.1 ".len()..][..3].parse().unwrap()
}

async fn exchange(stream: &mut TlsStream<TcpStream>, line: &str, bearer: &str, body: &str) -> u16 {
    let text = request(line, bearer, body);
    stream.write_all(text.as_bytes()).await.unwrap();
    status(stream).await
}

/// Waits until the registry has closed the connection.
async fn is_closed(mut stream: impl AsyncRead + Unpin) {
    let mut rest = Vec::new();
    let end = stream.read_to_end(&mut rest);
    timeout(PATIENCE, end).await.expect("it stays open").ok();
}

/// Sends a byte now and then, and waits until the registry has closed the connection.
async fn drips(stream: impl AsyncRead + AsyncWrite + Unpin, bytes: impl Iterator<Item = u8>) {
    let (read, mut write) = tokio::io::split(stream);
    let drip = async {
        for byte in bytes {
            if write.write_all(&[byte]).await.is_err() || write.flush().await.is_err() {
                break;
            }
            sleep(DRIP).await;
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = is_closed(read) => {}
        () = drip => {}
    }
}

#[tokio::test]
async fn a_handshake_that_takes_too_long_is_cut_off() {
    let registry = Registry::bounded(Connections {
        handshake: SHORT,
        ..patient()
    })
    .await;
    is_closed(dial(1, registry.address).await.unwrap()).await;
    // The begin of a ClientHello of 16 kB.
    let hello = [0x16, 3, 1, 0x3f, 0xff, 1, 0, 0x3f, 0xfb, 3, 3];
    let hello = hello.into_iter().chain(std::iter::repeat(0));
    drips(dial(1, registry.address).await.unwrap(), hello).await;
}

#[tokio::test]
async fn a_head_that_takes_too_long_is_cut_off_and_so_is_who_asks_nothing_more() {
    let registry = Registry::bounded(Connections {
        head: SHORT,
        ..patient()
    })
    .await;
    is_closed(secured(&registry).await).await;
    let head = b"GET /health HTTP/1.1\r\nHost: r\r\nX: ";
    let head = head.iter().copied().chain(std::iter::repeat(b'y'));
    drips(secured(&registry).await, head).await;
    let mut idle = secured(&registry).await;
    idle.write_all(b"GET /health HTTP/1.1\r\nHost: r\r\n\r\n")
        .await
        .unwrap();
    let mut answer = [0; 12];
    idle.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");
    is_closed(idle).await;
}

#[tokio::test]
async fn a_body_that_takes_too_long_is_cut_off() {
    let registry = Registry::bounded(Connections {
        body: SHORT,
        ..patient()
    })
    .await;
    // Where a body is read, and where none is.
    for path in ["/v1/clients", "/health", "/nowhere"] {
        let head = format!("POST {path} HTTP/1.1\r\nHost: r\r\nContent-Length: 9999\r\n\r\n");
        let mut stream = secured(&registry).await;
        stream.write_all(head.as_bytes()).await.unwrap();
        drips(stream, std::iter::repeat(b' ')).await;
    }
}

#[tokio::test]
async fn who_does_not_read_the_answers_is_cut_off() {
    let registry = Registry::bounded(Connections {
        answer: SHORT,
        ..patient()
    })
    .await;
    let mut stream = secured(&registry).await;
    let ask = async {
        let request = b"GET /v1/openapi.json HTTP/1.1\r\nHost: r\r\n\r\n";
        while stream.write_all(request).await.is_ok() {}
    };
    timeout(PATIENCE, ask).await.expect("it stays open");
}

/// The same program as a registry of its own, with few files.
struct SmallRegistry {
    process: Child,
    said: Lines<BufReader<ChildStdout>>,
    url: RegistryUrl,
    address: SocketAddr,
}

impl SmallRegistry {
    fn start(files: u32) -> Self {
        let program = std::env::current_exe().unwrap();
        let limited = format!("ulimit -n {files} && exec \"$0\" \"$@\"");
        let mut process = Command::new("sh")
            .args(["-c", &limited])
            .arg(program)
            .args([
                "--ignored",
                "--exact",
                "--nocapture",
                "crowds::small_registry",
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(process.stdout.take().unwrap());
        let mut said = stdout.lines();
        let mut lines = said.by_ref().map(Result::unwrap);
        let url = lines.find_map(|line| Some(line[line.find("https://")?..].to_owned()));
        let url = url.expect("a registry");
        let (address, _) = url["https://".len()..].split_once('#').unwrap();
        Self {
            process,
            said,
            address: address.parse().unwrap(),
            url: url.parse().unwrap(),
        }
    }

    /// Opens all the files that it may, or closes them again.
    fn hoard(&mut self, all: bool) {
        let stdin = self.process.stdin.as_mut().unwrap();
        stdin.write_all(&[b'0' + u8::from(all), b'\n']).unwrap();
        assert_eq!(self.said.next().unwrap().unwrap(), "done");
    }

    /// User and system, in ticks of the system's clock: 10 ms.
    fn cpu(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process.id())).unwrap();
        let fields = stat.rsplit_once(')').unwrap().1.split_whitespace();
        fields
            .skip(11)
            .take(2)
            .map(|it| it.parse::<u64>().unwrap())
            .sum()
    }

    /// One request over a connection of its own: its status and body.
    async fn ask(&self, request: &str, bearer: &str, body: &str) -> std::io::Result<(u16, Value)> {
        let stream = dial(1, self.address).await?;
        let mut stream = shake(stream, &self.url).await?;
        let text = format!(
            "{request} HTTP/1.1\r\nHost: r\r\nConnection: close\r\nAuthorization: Bearer \
             {bearer}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(text.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
        let status = head.split(' ').nth(1).and_then(|it| it.parse().ok());
        let body = serde_json::from_str(body).unwrap_or_default();
        Ok((status.unwrap_or(0), body))
    }

    /// The lease of a relay.
    async fn enrol(&self, relay: &TestRelay) -> String {
        let (_, answer) = self.ask("GET /v1/challenge", "", "").await.unwrap();
        let challenge = answer["challenge"].as_str().unwrap();
        let addresses = [relay.address];
        let signed = enrolment_bytes(&key(1).id().0, challenge, &addresses, false);
        let body = json!({
            "relay": relay.id().to_string(),
            "addresses": addresses,
            "challenge": challenge,
            "signature": encode(&sign(&relay.seed, &signed)),
        })
        .to_string();
        let enrolled = self.ask("POST /v1/relays", RELAY_TOKEN, &body);
        let (status, answer) = enrolled.await.unwrap();
        assert_eq!(status, 200, "{answer}");
        answer["lease"].as_str().unwrap().to_owned()
    }
}

impl Drop for SmallRegistry {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// For [`SmallRegistry`]: serves until standard input ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "other tests start it"]
async fn small_registry() {
    let registry = Registry::bounded(Connections::default()).await;
    writeln!(std::io::stdout(), "\n{}", registry.url).unwrap();
    tokio::task::spawn_blocking(|| {
        let mut hoard = Vec::new();
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            hoard.clear();
            // The registry itself may have files open for a moment, and no others then.
            for _ in 0..if line == "1" { 20 } else { 0 } {
                hoard.extend(
                    std::iter::repeat_with(|| File::open("/dev/null")).map_while(Result::ok),
                );
                std::thread::sleep(Duration::from_millis(10));
            }
            writeln!(std::io::stdout(), "done").unwrap();
        }
    })
    .await
    .unwrap();
    registry.end().await;
}

/// Takes connections from some addresses, as fast as it can, for as long as it isn't aborted: half
/// of them say nothing, half finish TLS's handshake.
fn flood(registry: &SmallRegistry, hosts: std::ops::Range<u8>) -> tokio::task::JoinSet<()> {
    let mut floods = tokio::task::JoinSet::new();
    for host in hosts {
        let (address, url) = (registry.address, registry.url.clone());
        floods.spawn(async move {
            let mut silent = VecDeque::new();
            let mut shaken = VecDeque::new();
            loop {
                silent.push_back(dial(host, address).await);
                if let Ok(stream) = dial(host, address).await {
                    shaken.push_back(timeout(SHORT, shake(stream, &url)).await);
                }
                if silent.len() > 100 {
                    silent.pop_front();
                    shaken.pop_front();
                }
                tokio::task::yield_now().await;
            }
        });
    }
    floods
}

/// A relay keeps its lease, with a new connection for each heartbeat, and another one enrols, while
/// a few addresses open more connections than the registry has files.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_few_addresses_dont_shut_a_registry() {
    let registry = SmallRegistry::start(128);
    let relay = TestRelay::start(1, key(1).id());
    let lease = registry.enrol(&relay).await;
    // As many connections as a source may have, and more than there may be altogether.
    for hosts in [2..4, 2..12] {
        let _flood = flood(&registry, hosts.clone());
        sleep(Duration::from_secs(1)).await;
        for beat in 0..5 {
            let beats = timeout(PATIENCE, registry.ask("POST /v1/heartbeat", &lease, ""));
            let answer = beats.await.expect("in time");
            let answer = answer.unwrap_or_else(|error| panic!("{hosts:?} {beat}: {error}"));
            assert_eq!(answer.0, 200, "{hosts:?} {beat}");
        }
        let late = TestRelay::start(hosts.end, key(1).id());
        registry.enrol(&late).await;
    }
}

/// It waits, and doesn't burn a processor meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_registry_without_files_goes_on_when_there_are_some() {
    let mut registry = SmallRegistry::start(128);
    registry.hoard(true);
    let before = registry.cpu();
    let shut = timeout(Duration::from_secs(2), registry.ask("GET /health", "", ""));
    assert!(
        !matches!(shut.await, Ok(Ok((200, _)))),
        "it has no file for that"
    );
    let spent = registry.cpu() - before;
    assert!(spent < 20, "{spent} ticks of 200");
    registry.hoard(false);
    let open = timeout(PATIENCE, registry.ask("GET /health", "", ""));
    assert_eq!(open.await.expect("in time").unwrap().0, 200);
}

async fn with_two_places() -> Registry {
    Registry::bounded(Connections {
        all: 2,
        per_source: 2,
        ..patient()
    })
    .await
}

async fn connect(host: u8, registry: &Registry) -> TlsStream<TcpStream> {
    let stream = dial(host, registry.address).await.unwrap();
    shake(stream, &registry.url).await.unwrap()
}

async fn is_empty(registry: &Registry) {
    has(registry, "connections 0").await;
}

/// Waits until the metrics say so.
async fn has(registry: &Registry, sample: &str) {
    let line = format!("\nmanyway_registry_{sample}\n");
    let said = async || registry.handle.to_prometheus().contains(&line);
    eventually(sample, said).await;
}

/// A lease that was given up, and one whose token is gone.
#[tokio::test]
async fn a_lease_that_is_over_proves_nothing() {
    for (line, revoked, expected) in [
        ("POST /v1/heartbeat", false, 410),
        ("POST /v1/leave", false, 410),
        ("POST /v1/heartbeat", true, 401),
    ] {
        let registry = with_two_places().await;
        let mut leases = Vec::new();
        for seed in [1, 2] {
            let relay = TestRelay::start(seed, key(1).id());
            let body = enrolment(&registry, &relay, relay.seed, &[relay.address]).await;
            let (_, enrolled) = ask(&registry, "POST", "/v1/relays", RELAY_TOKEN, &body).await;
            leases.push(enrolled["lease"].as_str().unwrap().to_owned());
        }
        if !revoked {
            ask(&registry, "POST", "/v1/leave", &leases[1], "").await;
        }
        is_empty(&registry).await;
        let connect = async |host| connect(host, &registry).await;
        let mut good = connect(2).await;
        assert_eq!(
            exchange(&mut good, "POST /v1/heartbeat", &leases[0], "").await,
            200
        );
        if revoked {
            registry.handle.set_tokens(Tokens::default());
        }
        let mut over = connect(3).await;
        assert_eq!(exchange(&mut over, line, &leases[1], "").await, expected);
        let _new = connect(4).await;
        is_closed(over).await;
        assert_eq!(exchange(&mut good, "GET /health", "", "").await, 200);
    }
}

/// Whoever has proven itself and waits for an answer isn't interrupted, although it came first.
#[tokio::test]
async fn a_listener_that_waits_keeps_its_place() {
    let registry = with_two_places().await;
    let client = json!({ "client": key(1).id().to_string() }).to_string();
    let (_, enrolled) = ask(&registry, "POST", "/v1/clients", CLIENT_TOKEN, &client).await;
    let credential = enrolled["credential"].as_str().unwrap();
    is_empty(&registry).await;
    let name = encode(&[2; 16]);
    let listen = json!({ "owner": encode(&[1; 16]), "sealed": "x", "wait_s": 25 }).to_string();
    let text = request(&format!("PUT /v1/meetings/{name}"), credential, &listen);
    let mut listener = connect(2, &registry).await;
    listener.write_all(text.as_bytes()).await.unwrap();
    has(&registry, "listeners 1").await;
    let mut idle = connect(3, &registry).await;
    assert_eq!(
        exchange(&mut idle, "POST /v1/clients", CLIENT_TOKEN, &client).await,
        200
    );
    let mut caller = connect(4, &registry).await;
    is_closed(idle).await;
    let call = format!("POST /v1/meetings/{name}/callers");
    let called = exchange(&mut caller, &call, "", r#"{"sealed":"y"}"#).await;
    assert_eq!((called, status(&mut listener).await), (200, 200));
}

/// However valid what they have shown is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_few_addresses_that_send_no_bodies_dont_shut_a_registry() {
    let registry = SmallRegistry::start(128);
    let relay = TestRelay::start(1, key(1).id());
    let lease = registry.enrol(&relay).await;
    let mut held = Vec::new();
    // More than there are places.
    for host in (2..7).cycle().take(5 * 14) {
        let stream = dial(host, registry.address).await.unwrap();
        let Ok(mut stream) = shake(stream, &registry.url).await else {
            continue;
        };
        assert_eq!(
            exchange(&mut stream, "POST /v1/heartbeat", &lease, "").await,
            200
        );
        let head = b"POST /v1/vouchers HTTP/1.1\r\nHost: r\r\nContent-Length: 9\r\n\r\n";
        stream.write_all(head).await.unwrap();
        held.push(stream);
    }
    let beat = timeout(PATIENCE, registry.ask("POST /v1/heartbeat", &lease, ""));
    assert_eq!(beat.await.expect("in time").expect("a place").0, 200);
}

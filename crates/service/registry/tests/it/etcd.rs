//! Two registries on one real etcd.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use crate::common::{self, Registry, TestRelay, client, eventually, key, limits};
use data_encoding::BASE64;
use manyway_registry::client::ClientError;
use manyway_registry::store::{Etcd, Store, StoreError};
use serde_json::{Value, json};
use tempfile::TempDir;

struct EtcdProcess {
    process: Child,
    address: SocketAddr,
    _dir: TempDir,
}

impl Drop for EtcdProcess {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// Debian's etcd-server, installed if need be.
fn installed() -> bool {
    let there = || {
        Command::new("etcd")
            .arg("--version")
            .stdout(Stdio::null())
            .status()
            .is_ok()
    };
    if there() {
        return true;
    }
    let install = "export DEBIAN_FRONTEND=noninteractive; sudo=; [ $(id -u) = 0 ] || sudo='sudo \
        -n'; ($sudo apt-get update -q; $sudo apt-get install -y -q --no-install-recommends \
        etcd-server) >&2";
    Command::new("sh")
        .args(["-c", install])
        .stdin(Stdio::null())
        .status()
        .ok();
    there()
}

/// `None`, and loudly so, where there is none and none can be had.
fn start() -> Option<EtcdProcess> {
    if !installed() {
        let note = "\n*** NOT TESTED: registries on etcd. There is no etcd, and apt-get can't \
            install one: install Debian's etcd-server.\n";
        // Not by a macro, whose output the test runner keeps back.
        std::io::stderr().write_all(note.as_bytes()).unwrap();
        assert!(std::env::var_os("MANYWAY_REQUIRE_ETCD").is_none(), "{note}");
        return None;
    }
    // An address of its own for each: a port that is free now may be another test's etcd's soon.
    static STARTED: AtomicU8 = AtomicU8::new(0);
    let host = Ipv4Addr::new(127, 0, 77, STARTED.fetch_add(1, Ordering::Relaxed) + 1);
    let listener = || TcpListener::bind((host, 0)).unwrap();
    let (client, member) = (listener(), listener());
    let (address, peer) = (client.local_addr().unwrap(), member.local_addr().unwrap());
    drop((client, member));
    let dir = TempDir::new().unwrap();
    let (url, peer) = (format!("http://{address}"), format!("http://{peer}"));
    let process = Command::new("etcd")
        .args(["--data-dir", dir.path().to_str().unwrap()])
        .args([
            "--listen-client-urls",
            &url,
            "--advertise-client-urls",
            &url,
        ])
        .args([
            "--listen-peer-urls",
            &peer,
            "--initial-advertise-peer-urls",
            &peer,
        ])
        .args([
            "--initial-cluster",
            &format!("default={peer}"),
            "--unsafe-no-fsync",
        ])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    Some(EtcdProcess {
        process,
        address,
        _dir: dir,
    })
}

impl EtcdProcess {
    fn url(&self) -> String {
        format!("etcd://{}", self.address)
    }

    async fn ready(&self) {
        eventually("etcd", async || {
            self.try_ask("kv/range", &json!({"key": "AA=="})).is_some()
        })
        .await;
    }

    async fn registry(&self) -> Registry {
        let store = Etcd::connect(&self.url(), key(1).id()).await.unwrap();
        Registry::with(&key(1), limits(), Store::Etcd(Box::new(store))).await
    }

    /// Asks etcd itself.
    fn try_ask(&self, path: &str, body: &Value) -> Option<Value> {
        let body = body.to_string();
        let mut stream = TcpStream::connect(self.address).ok()?;
        let head = format!(
            "POST /v3/{path} HTTP/1.0\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all((head + &body).as_bytes()).ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        let (head, body) = text.split_once("\r\n\r\n")?;
        head.contains(" 200 ")
            .then(|| serde_json::from_str(body).unwrap())
    }

    /// Relays' keys with the revision of their last change and their lease.
    fn relays(&self) -> Vec<(String, String, String)> {
        let (from, to) = (
            BASE64.encode(b"/manyway/relays/"),
            BASE64.encode(b"/manyway/relays0"),
        );
        let found = self
            .try_ask("kv/range", &json!({"key": from, "range_end": to}))
            .unwrap();
        let kvs = found["kvs"].as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        kvs.iter()
            .map(|kv| {
                (
                    text(&kv["key"]),
                    text(&kv["mod_revision"]),
                    text(&kv["lease"]),
                )
            })
            .collect()
    }
}

const RELAYS: u8 = 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_registries_on_one_etcd_one_may_die() {
    let Some(mut etcd) = start() else { return };
    etcd.ready().await;
    let (mut a, b) = (etcd.registry().await, etcd.registry().await);
    let urls = [a.url.clone(), b.url.clone()];
    let other_way = [b.url.clone(), a.url.clone()];
    let relays: Vec<TestRelay> = (1..=RELAYS)
        .map(|n| TestRelay::start(n, key(1).id()))
        .collect();
    let mut members = Vec::new();
    for (n, relay) in relays.iter().enumerate() {
        let mut member = relay.membership(if n % 2 == 0 { &urls } else { &other_way });
        member.enrol().await.unwrap();
        members.push(member);
    }
    // Both know all, whoever enrolled them.
    for url in &urls {
        let mut client = client(std::slice::from_ref(url));
        eventually("all relays", async || {
            client.subset(50).await.unwrap().len() == usize::from(RELAYS)
        })
        .await;
    }

    // Sources that ask all the time, one of them first at the registry that dies.
    let stop = Arc::new(AtomicBool::new(false));
    let sources: Vec<_> = [&urls, &other_way]
        .map(|urls| {
            let (mut client, stop) = (client(urls), Arc::clone(&stop));
            tokio::spawn(async move {
                let mut asked = 0;
                while !stop.load(Ordering::Relaxed) {
                    let found = client.subset(50).await.expect("no source sees an error");
                    assert_eq!(found.len(), usize::from(RELAYS), "no relay is lost");
                    asked += 1;
                    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
                }
                asked
            })
        })
        .into();
    let before = etcd.relays();
    a.kill().await;
    for member in &mut members {
        member.heartbeat().await.unwrap();
    }
    stop.store(true, Ordering::Relaxed);
    for source in sources {
        assert!(source.await.unwrap() > 0);
    }
    assert_eq!(
        etcd.relays(),
        before,
        "leases were renewed; nobody had to enrol again"
    );

    // A lease that ends takes its relay along; its next heartbeat brings it back.
    etcd.try_ask("lease/revoke", &json!({"ID": before[0].2}))
        .unwrap();
    let mut client = client(&urls);
    eventually("the end of the relay", async || {
        client.subset(50).await.unwrap().len() == usize::from(RELAYS) - 1
    })
    .await;
    for member in &mut members {
        member.heartbeat().await.unwrap();
    }
    assert_eq!(client.subset(50).await.unwrap().len(), usize::from(RELAYS));
    members[3].leave().await.unwrap();
    assert_eq!(
        client.subset(50).await.unwrap().len(),
        usize::from(RELAYS) - 1
    );

    // A third one finds all when it starts.
    let third = etcd.registry().await;
    assert_eq!(
        third.client().subset(50).await.unwrap().len(),
        usize::from(RELAYS) - 1
    );

    // Without etcd, leases can't be renewed, and sources don't notice.
    etcd.process.kill().unwrap();
    etcd.process.wait().unwrap();
    let failed = members[0].heartbeat().await.unwrap_err();
    assert!(
        matches!(
            failed,
            ClientError::Refused { status: 503, .. } | ClientError::Unreachable { .. }
        ),
        "{failed}"
    );
    assert_eq!(
        client.subset(50).await.unwrap().len(),
        usize::from(RELAYS) - 1
    );
}

#[tokio::test]
async fn registries_of_one_fleet_have_one_key() {
    let Some(etcd) = start() else { return };
    etcd.ready().await;
    let _first = etcd.registry().await;
    let other = Etcd::connect(&etcd.url(), key(2).id()).await.err().unwrap();
    assert!(
        matches!(&other, StoreError::OtherRegistry(first) if *first == key(1).id().to_string()),
        "{other}"
    );
}

/// The repetition goes to the other registry, after the relay has left.
#[tokio::test]
async fn enrolments_are_not_repeated_at_another_registry() {
    let Some(etcd) = start() else { return };
    etcd.ready().await;
    let (a, b) = (etcd.registry().await, etcd.registry().await);
    let relay = TestRelay::start(1, key(1).id());
    let request = common::enrolment(&a, &relay, relay.seed, &[relay.address]).await;
    let enrolled = common::ask(&a, "POST", "/v1/relays", common::RELAY_TOKEN, &request).await;
    assert_eq!(enrolled.0, 200, "{}", enrolled.1);
    let lease = enrolled.1["lease"].as_str().unwrap();
    assert_eq!(common::ask(&a, "POST", "/v1/leave", lease, "").await.0, 204);
    let again = common::ask(&b, "POST", "/v1/relays", common::RELAY_TOKEN, &request).await;
    assert_eq!(
        (again.0, again.1["error"]["code"].as_str()),
        (409, Some("repeated"))
    );
}

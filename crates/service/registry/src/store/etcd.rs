//! Keeps leases in etcd, through the JSON gateway that every etcd serves on its client port. The
//! generated gRPC client (`etcd-client`) needs `protoc` to build; we need five calls.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::Method;
use manyway_wire::relay::RelayId;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep;

use super::etcd_json::{
    Alive, Change, Line, PREFIX, PREFIX_END, REGISTRY, Range, Txn, Watched, base64, key, put, text,
};
use crate::api::LEASE_S;
use crate::http::{Ask, Endpoint, HttpError, Link};
use crate::{Core, Record, RelayTable, tls};

/// The time limit for one answer.
const WAIT: Duration = Duration::from_secs(5);
/// The pause before a lost connection to etcd is opened again.
const PAUSE: Duration = Duration::from_millis(250);
/// How long a watch may say nothing before it is opened again.
const SILENCE: Duration = Duration::from_secs(60);
/// The most renewals in one request, and the most that wait.
const BATCH: usize = 500;
const QUEUE: usize = 8192;
/// Relays read by one request.
const PAGE: usize = 1000;
/// The longest answer, and the longest line of a stream.
const LONGEST: usize = 16 << 20;

/// Why the store failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The URL is invalid.
    #[error("a store is \"memory\" or etcd://HOST:PORT[,HOST:PORT…] (etcds:// with TLS)")]
    Url,
    /// TLS can't be used.
    #[error(transparent)]
    Tls(#[from] tls::TlsError),
    /// No etcd answers.
    #[error("etcd doesn't answer: {0}")]
    Http(#[from] HttpError),
    /// etcd refuses.
    #[error("etcd refuses ({status}): {message}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// Its message.
        message: String,
    },
    /// Its answer makes no sense to us.
    #[error("etcd's answer to {0} isn't understood: it has to be version 3.4 or newer")]
    Answer(&'static str),
    /// It didn't answer in time.
    #[error("etcd didn't answer in time")]
    Slow,
    /// The relays in it are another registry's.
    #[error(
        "the relays in this etcd are those of registry {0}: give all registries of a fleet the \
         same --key-file"
    )]
    OtherRegistry(String),
}

type Renewal = (i64, oneshot::Sender<Option<bool>>);

/// A client of etcd.
pub struct Etcd {
    endpoints: Arc<[Endpoint]>,
    renewals: mpsc::Sender<Renewal>,
    renewer: tokio::task::AbortHandle,
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.renewer.abort();
    }
}

impl Etcd {
    /// A client for `etcd://HOST:PORT[,HOST:PORT…]`, after a check that its relays are this
    /// registry's. Runs within tokio.
    ///
    /// # Errors
    /// The URL is wrong, no etcd answers, or it has another registry's relays.
    pub async fn connect(url: &str, registry: RelayId) -> Result<Self, StoreError> {
        let endpoints: Arc<[Endpoint]> = endpoints(url)?.into();
        let (renewals, queue) = mpsc::channel(QUEUE);
        let renewer = tokio::spawn(renew(Arc::clone(&endpoints), queue)).abort_handle();
        let etcd = Self {
            endpoints,
            renewals,
            renewer,
        };
        etcd.claim(registry).await?;
        Ok(etcd)
    }

    /// One fleet has one key: relays trust nobody else's vouchers.
    async fn claim(&self, registry: RelayId) -> Result<(), StoreError> {
        let (key, value) = (base64(REGISTRY), base64(&registry.to_string()));
        let txn = json!({
            "compare": [{
                "key": key,
                "target": "CREATE",
                "result": "EQUAL",
                "create_revision": "0",
            }],
            "success": [{"request_put": {"key": key, "value": value}}],
        });
        self.call::<Txn>("/v3/kv/txn", &txn).await?;
        let range: Range = self.call("/v3/kv/range", &json!({"key": key})).await?;
        let found = range.kvs.first().and_then(|kv| text(&kv.value));
        match found {
            Some(found) if found == registry.to_string() => Ok(()),
            Some(found) => Err(StoreError::OtherRegistry(found)),
            None => Err(StoreError::Answer("range")),
        }
    }

    /// A lease of etcd's with the record on it.
    pub(super) async fn enrol(&self, record: &Record) -> Result<bool, StoreError> {
        let found = self.find(&record.relay).await?;
        let mut unchanged_since = 0;
        if let Some((known, revision)) = found {
            if known.challenged >= record.challenged {
                return Ok(false);
            }
            unchanged_since = revision;
        }
        let grant = json!({"ID": record.lease.to_string(), "TTL": LEASE_S.to_string()});
        self.call::<Value>("/v3/lease/grant", &grant).await?;
        // Somebody else may have enrolled the relay meanwhile. Then this record is the older one,
        // or the next attempt will succeed.
        let txn: Txn = self
            .call("/v3/kv/txn", &put(record, unchanged_since))
            .await?;
        Ok(txn.succeeded)
    }

    pub(super) async fn leave(&self, record: &Record) -> Result<(), StoreError> {
        let Some((known, revision)) = self.find(&record.relay).await? else {
            return Ok(());
        };
        if known.lease == record.lease {
            let left = Record {
                left: true,
                ..known
            };
            self.call::<Txn>("/v3/kv/txn", &put(&left, revision))
                .await?;
        }
        Ok(())
    }

    async fn find(&self, relay: &RelayId) -> Result<Option<(Record, i64)>, StoreError> {
        let range: Range = self
            .call("/v3/kv/range", &json!({"key": key(relay)}))
            .await?;
        let found = range.kvs.first();
        Ok(found.and_then(|kv| Some((kv.record()?, kv.mod_revision))))
    }

    /// Whether the lease continues. Renewals that arrive while one batch is being processed form
    /// the next one.
    pub(super) async fn renew(&self, lease: i64) -> Result<bool, StoreError> {
        let (answer, answered) = oneshot::channel();
        self.renewals
            .try_send((lease, answer))
            .map_err(|_| StoreError::Slow)?;
        answered.await.ok().flatten().ok_or(StoreError::Slow)
    }

    /// Replaces the registry's relays by those in etcd. Returns etcd's revision.
    pub(super) async fn load(&self, core: &Mutex<Core>) -> Result<i64, StoreError> {
        let mut relays = RelayTable::default();
        let (mut from, mut revision) = (base64(PREFIX), 0);
        loop {
            let ask = json!({
                "key": from, "range_end": base64(PREFIX_END),
                "limit": PAGE.to_string(), "revision": revision.to_string(),
            });
            let range: Range = self.call("/v3/kv/range", &ask).await?;
            if revision == 0 {
                revision = range.header.revision;
            }
            for record in range.kvs.iter().filter_map(|kv| kv.record()) {
                relays.insert(record, Duration::MAX);
            }
            match range.kvs.last().and_then(|kv| text(&kv.key)) {
                // The next possible key.
                Some(last) if range.more => from = base64(&format!("{last}\0")),
                _ => break,
            }
        }
        *lock(core).relays_mut() = relays;
        Ok(revision)
    }

    /// Applies changes as etcd reports them, for ever. The relays stay known while no etcd answers.
    pub(super) async fn follow(&self, core: &Mutex<Core>, mut revision: i64) {
        loop {
            for endpoint in &*self.endpoints {
                loop {
                    match watch(endpoint, core, &mut revision, SILENCE).await {
                        Ok(Watch::Silent) => continue,
                        Ok(Watch::Over) => {}
                        Err(error) => tracing::warn!(%error, "the watch on etcd ended"),
                    }
                    break;
                }
                sleep(PAUSE).await;
            }
            // etcd may have dropped the missed changes by now.
            match self.load(core).await {
                Ok(loaded) => revision = loaded,
                Err(error) => tracing::warn!(%error, "can't read the relays again"),
            }
        }
    }

    /// Asks one etcd after the other.
    async fn call<T: DeserializeOwned>(
        &self,
        path: &'static str,
        body: &Value,
    ) -> Result<T, StoreError> {
        let mut last = StoreError::Url;
        for endpoint in &*self.endpoints {
            match call(endpoint, path, body).await {
                Err(error @ StoreError::Http(_)) => last = error,
                done => return done,
            }
        }
        Err(last)
    }
}

fn ask(path: &str, body: Vec<u8>) -> Ask<'_> {
    Ask {
        method: Method::POST,
        path,
        bearer: None,
        body,
        limit: LONGEST,
        wait: WAIT,
    }
}

async fn call<T: DeserializeOwned>(
    endpoint: &Endpoint,
    path: &'static str,
    body: &Value,
) -> Result<T, StoreError> {
    let mut link = endpoint.open().await?;
    let answer = link.ask(ask(path, body.to_string().into_bytes())).await?;
    if !answer.status.is_success() {
        let message: String = String::from_utf8_lossy(&answer.body)
            .chars()
            .take(200)
            .collect();
        let status = answer.status.as_u16();
        return Err(StoreError::Refused { status, message });
    }
    serde_json::from_slice(&answer.body).map_err(|_| StoreError::Answer(path))
}

/// Follows the changes after `revision` until the connection ends, or nothing has come for
/// `silence`: an etcd that has gone says nothing either.
async fn watch(
    endpoint: &Endpoint,
    core: &Mutex<Core>,
    revision: &mut i64,
    silence: Duration,
) -> Result<Watch, StoreError> {
    let mut link = endpoint.open().await?;
    let body = json!({"create_request": {
        "key": base64(PREFIX), "range_end": base64(PREFIX_END),
        "start_revision": (*revision + 1).to_string(),
    }});
    let answer = link.send(ask("/v3/watch", body.to_string().into_bytes()));
    let answer = tokio::time::timeout(WAIT, answer).await;
    let mut body = answer.map_err(|_| StoreError::Slow)??.into_body();
    let mut buffer = Vec::new();
    loop {
        let Ok(frame) = tokio::time::timeout(silence, body.frame()).await else {
            return Ok(Watch::Silent);
        };
        let Some(frame) = frame else {
            return Ok(Watch::Over);
        };
        let Ok(data) = frame.map_err(|_| StoreError::Answer("watch"))?.into_data() else {
            continue;
        };
        buffer.extend_from_slice(&data);
        while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = buffer.drain(..=end).collect();
            let line: Line<Watched> =
                serde_json::from_slice(&line).map_err(|_| StoreError::Answer("watch"))?;
            let watched = line.result.ok_or(StoreError::Answer("watch"))?;
            if watched.compact_revision > 0 {
                return Ok(Watch::Over);
            }
            if watched.canceled {
                return Err(StoreError::Answer("watch"));
            }
            apply(core, &watched);
            // That of the header may be ahead of the events.
            let seen = watched.events.iter().map(|event| event.revision()).max();
            *revision = seen.unwrap_or(0).max(*revision);
        }
        if buffer.len() > LONGEST {
            return Err(StoreError::Answer("watch"));
        }
    }
}

/// How a watch ended.
#[derive(Debug, PartialEq, Eq)]
enum Watch {
    /// Nothing has come for long. The next watch goes on after the last revision.
    Silent,
    /// The connection did, or etcd has dropped changes that we haven't seen.
    Over,
}

fn apply(core: &Mutex<Core>, watched: &Watched) {
    let mut core = lock(core);
    for change in watched.events.iter().filter_map(|event| event.change()) {
        match change {
            Change::Is(record) => core.relays_mut().insert(record, Duration::MAX),
            Change::Gone(relay) => {
                core.relays_mut().remove(&relay);
            }
        }
    }
}

/// Sends renewals in batches over one connection, and opens a new one when it breaks.
async fn renew(endpoints: Arc<[Endpoint]>, mut queue: mpsc::Receiver<Renewal>) {
    let mut link = None;
    let mut batch: Vec<Renewal> = Vec::new();
    while queue.recv_many(&mut batch, BATCH).await > 0 {
        let ids: Vec<i64> = batch.iter().map(|(id, _)| *id).collect();
        let mut alive = None;
        for _ in 0..=endpoints.len() {
            match renew_batch(&endpoints, &mut link, &ids).await {
                Ok(found) => {
                    alive = Some(found);
                    break;
                }
                Err(error) => {
                    tracing::warn!(%error, "can't renew leases in etcd");
                    link = None;
                }
            }
        }
        for (id, answer) in batch.drain(..) {
            let alive = alive
                .as_ref()
                .map(|alive| alive.get(&id).is_some_and(|ttl| *ttl > 0));
            answer.send(alive).ok();
        }
    }
}

async fn renew_batch(
    endpoints: &[Endpoint],
    link: &mut Option<Link>,
    ids: &[i64],
) -> Result<HashMap<i64, i64>, StoreError> {
    let open = match link {
        Some(open) if open.is_open() => open,
        _ => link.insert(open_any(endpoints).await?),
    };
    let body: String = ids
        .iter()
        .map(|id| format!("{{\"ID\":\"{id}\"}}\n"))
        .collect();
    let answer = open
        .ask(ask("/v3/lease/keepalive", body.into_bytes()))
        .await?;
    let mut alive = HashMap::with_capacity(ids.len());
    for line in serde_json::Deserializer::from_slice(&answer.body).into_iter::<Line<Alive>>() {
        let line = line.map_err(|_| StoreError::Answer("keepalive"))?;
        let result = line.result.ok_or(StoreError::Answer("keepalive"))?;
        alive.insert(result.id, result.ttl);
    }
    match ids.iter().all(|id| alive.contains_key(id)) {
        true => Ok(alive),
        false => Err(StoreError::Answer("keepalive")),
    }
}

async fn open_any(endpoints: &[Endpoint]) -> Result<Link, StoreError> {
    let mut last = StoreError::Url;
    for endpoint in endpoints {
        match endpoint.open().await {
            Ok(link) => return Ok(link),
            Err(error) => last = error.into(),
        }
    }
    Err(last)
}

fn endpoints(url: &str) -> Result<Vec<Endpoint>, StoreError> {
    let (hosts, tls) = match (url.strip_prefix("etcd://"), url.strip_prefix("etcds://")) {
        (Some(hosts), _) => (hosts, None),
        (_, Some(hosts)) => (hosts, Some(tls::system_client()?)),
        _ => return Err(StoreError::Url),
    };
    hosts
        .trim_end_matches('/')
        .split(',')
        .map(|host| {
            let (host, port) = host.rsplit_once(':').ok_or(StoreError::Url)?;
            let host = host.trim_start_matches('[').trim_end_matches(']');
            if host.is_empty() || host.contains(['/', '@']) {
                return Err(StoreError::Url);
            }
            Ok(Endpoint {
                host: host.to_owned(),
                port: port.parse().map_err(|_| StoreError::Url)?,
                tls: tls.clone(),
            })
        })
        .collect()
}

fn lock(core: &Mutex<Core>) -> std::sync::MutexGuard<'_, Core> {
    core.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::ChaCha20Rng;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;
    use crate::{Limits, Tokens};

    #[test]
    fn urls_of_stores() {
        let read = |url: &str| {
            let found = endpoints(url).map(|all| {
                all.into_iter()
                    .map(|e| (e.host, e.port))
                    .collect::<Vec<_>>()
            });
            found.ok()
        };
        assert_eq!(
            read("etcd://a:1,[::1]:2/"),
            Some(vec![("a".into(), 1), ("::1".into(), 2)])
        );
        let over_tls = |url: &str| endpoints(url).unwrap().iter().all(|e| e.tls.is_some());
        assert!(over_tls("etcds://a:1,b:2") && !over_tls("etcd://a:1"));
        for wrong in [
            "a:1",
            "http://a:1",
            "etcd://",
            "etcd://a",
            "etcd://:1",
            "etcd://a:x",
            "etcd://a:1/b:2",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    /// Answers a watch with these lines, says nothing more, and tells what it was asked for.
    async fn answer(etcd: &TcpListener, lines: &[Value]) -> String {
        let (mut stream, _) = etcd.accept().await.unwrap();
        let mut asked = vec![0; 4096];
        let mut read = 0;
        while !asked[..read].ends_with(b"}}") {
            read += stream.read(&mut asked[read..]).await.unwrap();
        }
        let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let answer = format!(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{lines}\r\n",
            lines.len()
        );
        stream.write_all(answer.as_bytes()).await.unwrap();
        let mut end = [0; 1];
        assert_eq!(stream.read(&mut end).await.unwrap(), 0);
        String::from_utf8_lossy(&asked[..read]).into_owned()
    }

    #[tokio::test]
    async fn a_silent_watch_is_opened_again_where_it_was() {
        let etcd = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = Endpoint {
            host: "127.0.0.1".into(),
            port: etcd.local_addr().unwrap().port(),
            tls: None,
        };
        let key = crate::RegistryKey::generate(&mut ChaCha20Rng::seed_from_u64(1));
        let core = Core::new(key, Tokens::default(), Limits::default(), [7; 32]);
        let core = Mutex::new(core);
        let mut revision = 6;
        let created = json!({"result": {"header": {"revision": "9"}, "created": true}});
        let events = json!({"result": {"header": {"revision": "9"}, "events": [
            {"kv": {"key": base64("/manyway/relays/x"), "mod_revision": "7"}},
            {"type": "DELETE", "kv": {"key": base64("/manyway/relays/x"), "mod_revision": "8"}},
        ]}});
        let lost = json!({"result": {"canceled": true, "compact_revision": "12"}});
        for (lines, before, ended, after) in [
            (vec![created.clone()], 6, Watch::Silent, 6),
            (vec![created, events], 6, Watch::Silent, 8),
            (vec![lost], 8, Watch::Over, 8),
        ] {
            let silence = Duration::from_millis(200);
            let (watched, asked) = tokio::join!(
                watch(&endpoint, &core, &mut revision, silence),
                answer(&etcd, &lines)
            );
            assert_eq!(watched.unwrap(), ended);
            assert!(
                asked.contains(&format!(r#""start_revision":"{}""#, before + 1)),
                "{asked}"
            );
            assert_eq!(revision, after);
        }
    }
}

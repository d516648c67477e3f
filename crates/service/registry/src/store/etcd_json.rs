//! The part of etcd's v3 API that we use, in its gateway's JSON: 64-bit numbers are strings, bytes
//! are base64.

use std::net::SocketAddr;

use data_encoding::BASE64;
use manyway_wire::relay::{MAX_RELAY_ADDRESSES, RelayId};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::Record;

pub(super) const PREFIX: &str = "/manyway/relays/";
/// The first key behind all keys with that prefix.
pub(super) const PREFIX_END: &str = "/manyway/relays0";
/// The key that names the fleet's registry.
pub(super) const REGISTRY: &str = "/manyway/registry";

/// A record as etcd keeps it, under [`PREFIX`] and the relay's id.
#[derive(Serialize, Deserialize)]
struct Stored {
    addresses: Vec<SocketAddr>,
    /// Missing in records from before relays took TCP.
    #[serde(default)]
    tcp: bool,
    owner: String,
    lease: i64,
    challenged: u64,
    left: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Header {
    #[serde(deserialize_with = "number")]
    pub(super) revision: i64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct KeyValue {
    pub(super) key: String,
    pub(super) value: String,
    #[serde(deserialize_with = "number")]
    pub(super) mod_revision: i64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Range {
    pub(super) header: Header,
    pub(super) kvs: Vec<KeyValue>,
    pub(super) more: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Txn {
    pub(super) succeeded: bool,
}

/// A line of a stream.
#[derive(Debug, Deserialize)]
pub(super) struct Line<T> {
    pub(super) result: Option<T>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Alive {
    #[serde(rename = "ID", deserialize_with = "number")]
    pub(super) id: i64,
    #[serde(rename = "TTL", deserialize_with = "number")]
    pub(super) ttl: i64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Watched {
    pub(super) canceled: bool,
    /// If not 0, what was asked for is older than what etcd still has.
    #[serde(deserialize_with = "number")]
    pub(super) compact_revision: i64,
    pub(super) events: Vec<Event>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Event {
    #[serde(rename = "type")]
    kind: String,
    kv: KeyValue,
}

/// What an event says about a relay.
pub(super) enum Change {
    Is(Record),
    Gone(RelayId),
}

impl Event {
    /// `None` if it doesn't concern a relay, or can't be parsed.
    pub(super) fn change(&self) -> Option<Change> {
        match &*self.kind {
            "DELETE" => self.kv.relay().map(Change::Gone),
            _ => self.kv.record().map(Change::Is),
        }
    }

    /// etcd's revision after it.
    pub(super) fn revision(&self) -> i64 {
        self.kv.mod_revision
    }
}

impl KeyValue {
    fn relay(&self) -> Option<RelayId> {
        let key = text(&self.key)?;
        key.strip_prefix(PREFIX)?.parse().ok()
    }

    /// The record, if it is one: others may write to the same etcd.
    pub(super) fn record(&self) -> Option<Record> {
        let relay = self.relay()?;
        let stored: Stored = serde_json::from_str(&text(&self.value)?).ok()?;
        (stored.addresses.len() <= MAX_RELAY_ADDRESSES).then(|| Record {
            relay,
            addresses: stored.addresses.into(),
            tcp: stored.tcp,
            owner: stored.owner.into(),
            lease: stored.lease,
            challenged: stored.challenged,
            left: stored.left,
        })
    }
}

pub(super) fn text(base64: &str) -> Option<String> {
    String::from_utf8(BASE64.decode(base64.as_bytes()).ok()?).ok()
}

pub(super) fn base64(text: &str) -> String {
    BASE64.encode(text.as_bytes())
}

pub(super) fn key(relay: &RelayId) -> String {
    base64(&format!("{PREFIX}{relay}"))
}

/// "Put this record if its key was last changed at that revision", 0 for never.
pub(super) fn put(record: &Record, unchanged_since: i64) -> Value {
    let key = key(&record.relay);
    let stored = Stored {
        addresses: record.addresses.to_vec(),
        tcp: record.tcp,
        owner: record.owner.to_string(),
        lease: record.lease,
        challenged: record.challenged,
        left: record.left,
    };
    let value = base64(&json!(stored).to_string());
    json!({
        "compare": [{
            "key": key,
            "target": "MOD",
            "result": "EQUAL",
            "mod_revision": unchanged_since.to_string(),
        }],
        "success": [{
            "request_put": {
                "key": key,
                "value": value,
                "lease": record.lease.to_string(),
            },
        }],
    })
}

/// A number that is a string, or missing if it is 0.
fn number<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_comes_back_and_one_from_before_there_was_tcp_is_read() {
        let record = Record {
            relay: RelayId([3; 32]),
            addresses: Box::new(["192.0.2.1:45170".parse().unwrap()]),
            tcp: true,
            owner: "cheap".into(),
            lease: 7,
            challenged: 9,
            left: false,
        };
        let put = put(&record, 0);
        let put = &put["success"][0]["request_put"];
        let read = |value: String| {
            let key = put["key"].as_str().unwrap().to_owned();
            let pair = KeyValue {
                key,
                value,
                mod_revision: 1,
            };
            pair.record().unwrap()
        };
        let value = put["value"].as_str().unwrap();
        assert_eq!(read(value.to_owned()), record);
        let old = text(value).unwrap().replace("\"tcp\":true,", "");
        let old = base64(&old.replace(",\"tcp\":true", ""));
        assert_ne!(old, value);
        assert_eq!(
            read(old),
            Record {
                tcp: false,
                ..record.clone()
            }
        );
    }
}

//! What the tests share: endpoints on loopback addresses, and data that is recognised.

use std::time::Duration;

use manyway_runtime::{Config, Connection, Endpoint, EndpointOptions, Event, Events};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

pub(crate) fn config() -> Config {
    Config {
        connect_timeout: Duration::from_secs(20),
        ..Config::default()
    }
}

/// An endpoint on these addresses.
pub(crate) async fn endpoint(addresses: &[&str], config: Config) -> Endpoint {
    let paths = addresses.iter().map(|a| a.parse().unwrap()).collect();
    Endpoint::bind(EndpointOptions {
        config,
        paths,
        ..EndpointOptions::default()
    })
    .await
    .unwrap()
}

/// The next event, which must come within a minute.
pub(crate) async fn next_event(events: &mut Events) -> Event {
    let event = timeout(Duration::from_secs(60), events.recv()).await;
    event.expect("an event").expect("a live connection")
}

/// A listener and a connector, and the connection between them.
pub(crate) struct Pair {
    pub(crate) listener: Endpoint,
    pub(crate) connector: Endpoint,
    pub(crate) accepted: Connection,
    pub(crate) connected: Connection,
}

pub(crate) async fn pair(listener: &[&str], connector: &[&str]) -> Pair {
    pair_with(listener, connector, config()).await
}

pub(crate) async fn pair_with(listener: &[&str], connector: &[&str], config: Config) -> Pair {
    let listener = endpoint(listener, config.clone()).await;
    let connector = endpoint(connector, config).await;
    let ticket = listener.listen().unwrap();
    let (connected, accepted) = tokio::join!(connector.connect(&ticket), listener.accept());
    Pair {
        listener,
        connector,
        accepted: accepted.unwrap(),
        connected: connected.unwrap(),
    }
}

/// `len` bytes that tell their position and their seed, in pieces.
pub(crate) struct Data {
    state: u64,
    left: usize,
}

impl Data {
    pub(crate) fn new(seed: u64, len: usize) -> Self {
        Self {
            state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            left: len,
        }
    }

    pub(crate) fn take(&mut self, most: usize) -> Vec<u8> {
        let len = most.min(self.left);
        self.left -= len;
        let byte = |_| {
            self.state ^= self.state << 13;
            self.state ^= self.state >> 7;
            self.state ^= self.state << 17;
            self.state as u8
        };
        (0..len).map(byte).collect()
    }
}

pub(crate) async fn write_all(send: &mut (impl AsyncWrite + Unpin), seed: u64, len: usize) {
    let mut data = Data::new(seed, len);
    loop {
        let piece = data.take(100_000);
        if piece.is_empty() {
            break;
        }
        send.write_all(&piece).await.unwrap();
    }
    send.shutdown().await.unwrap();
}

pub(crate) async fn read_all(receive: &mut (impl AsyncRead + Unpin), seed: u64, len: usize) {
    let mut data = Data::new(seed, len);
    let mut buf = vec![0; 70_000];
    let mut total = 0;
    loop {
        let n = receive.read(&mut buf).await.unwrap();
        if n == 0 {
            break;
        }
        total += n;
        assert!(
            data.take(n) == buf[..n],
            "wrong bytes before offset {total}"
        );
    }
    assert_eq!(total, len);
}

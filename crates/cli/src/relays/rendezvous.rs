//! Rendezvous at a registry: two peers behind NAT exchange their addresses.
//!
//! Only peers that hold the same ticket meet, and nothing but addresses passes.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use manyway::{Endpoint, RelayAddress, Ticket};
use manyway_registry::client::{Client, ClientError, Meeting, MeetingError};
use rand::rngs::ChaCha20Rng;
use tokio::time::{sleep, timeout};

/// How long one request of a listener waits for callers.
const WAIT: Duration = Duration::from_secs(25);
/// Delay after a request that failed.
const RETRY: Duration = Duration::from_secs(5);
/// How long to wait for the registry to report our public address.
const OBSERVATION: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(20);
/// Most addresses that a peer leaves, and most that we accept from it.
const MAX_ADDRESSES: usize = 8;

/// One peer at a registry.
pub(super) struct Rendezvous {
    client: Client,
    rng: ChaCha20Rng,
    meeting: Meeting,
}

impl Rendezvous {
    pub(super) fn new(client: Client, mut rng: ChaCha20Rng, ticket: &Ticket) -> Self {
        Self {
            meeting: Meeting::new(ticket, &mut rng),
            client,
            rng,
        }
    }

    /// As the listener: leaves our addresses and opens our NAT towards every caller.
    pub(super) async fn listen(mut self, endpoint: Endpoint) -> Infallible {
        self.observe_own_address(&endpoint).await;
        loop {
            let here = encode(&own_addresses(&endpoint));
            let callers = self
                .meeting
                .listen(&mut self.client, &here, WAIT, &mut self.rng)
                .await;
            match callers {
                Ok(callers) => {
                    for caller in &callers {
                        let addresses = decode(caller);
                        tracing::debug!(?addresses, "a peer called");
                        endpoint.open_towards(&addresses);
                    }
                }
                Err(error) => {
                    tracing::debug!(%error, "the rendezvous failed");
                    sleep(RETRY).await;
                }
            }
        }
    }

    /// As a caller: leaves our addresses and returns the listener's, none if it isn't waiting.
    pub(super) async fn call(mut self, endpoint: Endpoint) -> Vec<SocketAddr> {
        self.observe_own_address(&endpoint).await;
        let here = encode(&own_addresses(&endpoint));
        let called = self
            .meeting
            .call(&mut self.client, &here, &mut self.rng)
            .await;
        match called {
            Ok(left) => decode(&left),
            Err(MeetingError::Client(ClientError::Refused { code, .. }))
                if code == "nobody_listens" =>
            {
                Vec::new()
            }
            Err(error) => {
                tracing::debug!(%error, "the rendezvous failed");
                Vec::new()
            }
        }
    }

    /// Learns our public address from the registry, if it answers.
    async fn observe_own_address(&mut self, endpoint: &Endpoint) {
        let observers = self.client.observers().await;
        let observers: Vec<RelayAddress> = observers
            .into_iter()
            .map(|(address, id)| RelayAddress { address, id })
            .collect();
        endpoint.observe_at(&observers);
        let seen = async {
            while endpoint.observed().is_empty() {
                sleep(POLL).await;
            }
        };
        timeout(OBSERVATION, seen).await.ok();
    }
}

/// Our addresses: public ones first, then those of our sockets, for peers on the same network.
fn own_addresses(endpoint: &Endpoint) -> Vec<SocketAddr> {
    let mut here = endpoint.observed();
    let own = endpoint.locals().into_iter().map(|(_, addr)| addr);
    here.extend(own.filter(|addr| !addr.ip().is_loopback()));
    let mut seen = std::collections::BTreeSet::new();
    here.retain(|addr| seen.insert(*addr));
    here.truncate(MAX_ADDRESSES);
    here
}

/// Comma-separated text.
fn encode(addresses: &[SocketAddr]) -> Vec<u8> {
    let texts: Vec<String> = addresses.iter().map(SocketAddr::to_string).collect();
    texts.join(",").into_bytes()
}

/// The peer's addresses. The peer may be anybody who holds the ticket, so nonsense is left out.
fn decode(left: &[u8]) -> Vec<SocketAddr> {
    let text = std::str::from_utf8(left).unwrap_or_default();
    let addresses = text.split(',').filter_map(|text| text.parse().ok());
    addresses.take(MAX_ADDRESSES).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_were_written_and_nonsense_is_left_out() {
        let addresses: Vec<SocketAddr> = (1..=20u16)
            .map(|port| match port % 2 {
                0 => SocketAddr::from(([192, 0, 2, 1], port)),
                _ => SocketAddr::from(([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1], port)),
            })
            .collect();
        assert_eq!(
            decode(&encode(&addresses[..MAX_ADDRESSES])),
            addresses[..MAX_ADDRESSES]
        );
        assert_eq!(decode(&encode(&addresses)), addresses[..MAX_ADDRESSES]);
        assert_eq!(
            decode(b"x,192.0.2.1:7,,[::1"),
            [SocketAddr::from(([192, 0, 2, 1], 7))]
        );
        assert_eq!(decode(&[0xff, 0x2c]), []);
        assert_eq!(decode(b""), []);
    }
}

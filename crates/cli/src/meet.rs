//! Meetings at a registry: how two ends behind NAT find each other.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use manyway::{Endpoint, RelayAddress, Ticket};
use manyway_registry::client::{Client, ClientError, Meeting, MeetingError};
use rand::rngs::ChaCha20Rng;
use tokio::time::{sleep, timeout};

/// How long a listener waits for callers at a time.
const WAIT: Duration = Duration::from_secs(25);
/// After a failure.
const PAUSE: Duration = Duration::from_secs(5);
/// Our own address is waited for this long: a registry is a round trip away, or it doesn't answer.
const OBSERVING: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(20);
/// Addresses that are left, or taken of somebody else.
const MOST: usize = 8;

/// One end at a registry.
pub(crate) struct Meet {
    client: Client,
    rng: ChaCha20Rng,
    meeting: Meeting,
}

impl Meet {
    pub(crate) fn new(client: Client, mut rng: ChaCha20Rng, ticket: &Ticket) -> Self {
        Self {
            meeting: Meeting::new(ticket, &mut rng),
            client,
            rng,
        }
    }

    /// As the listener: leaves our addresses, and opens our NAT to every caller.
    pub(crate) async fn listen(mut self, endpoint: Endpoint) -> Infallible {
        self.observe(&endpoint).await;
        loop {
            let here = written(&here(&endpoint));
            let callers = self
                .meeting
                .listen(&mut self.client, &here, WAIT, &mut self.rng)
                .await;
            match callers {
                Ok(callers) => {
                    for caller in &callers {
                        let addresses = read(caller);
                        tracing::debug!(?addresses, "a caller");
                        endpoint.open_towards(&addresses);
                    }
                }
                Err(error) => {
                    tracing::debug!(%error, "no meeting");
                    sleep(PAUSE).await;
                }
            }
        }
    }

    /// As a caller: leaves our addresses, and takes the listener's. Empty if it isn't there.
    pub(crate) async fn call(mut self, endpoint: Endpoint) -> Vec<SocketAddr> {
        self.observe(&endpoint).await;
        let here = written(&here(&endpoint));
        let called = self
            .meeting
            .call(&mut self.client, &here, &mut self.rng)
            .await;
        match called {
            Ok(left) => read(&left),
            Err(MeetingError::Client(ClientError::Refused { code, .. }))
                if code == "nobody_listens" =>
            {
                Vec::new()
            }
            Err(error) => {
                tracing::debug!(%error, "no meeting");
                Vec::new()
            }
        }
    }

    /// Learns our address, if anybody tells.
    async fn observe(&mut self, endpoint: &Endpoint) {
        let observers = self.client.observers().await;
        let observers: Vec<RelayAddress> = observers
            .into_iter()
            .map(|(address, id)| RelayAddress { address, id })
            .collect();
        endpoint.observe_at(&observers);
        let seen = async {
            while endpoint.observed().is_empty() {
                sleep(LOOK).await;
            }
        };
        timeout(OBSERVING, seen).await.ok();
    }
}

/// As others see us first; then our sockets' own, for those on the same network.
fn here(endpoint: &Endpoint) -> Vec<SocketAddr> {
    let mut here = endpoint.observed();
    let own = endpoint.locals().into_iter().map(|(_, addr)| addr);
    here.extend(own.filter(|addr| !addr.ip().is_loopback()));
    let mut seen = std::collections::BTreeSet::new();
    here.retain(|addr| seen.insert(*addr));
    here.truncate(MOST);
    here
}

/// Addresses as they are left: texts with commas between them.
fn written(addresses: &[SocketAddr]) -> Vec<u8> {
    let texts: Vec<String> = addresses.iter().map(SocketAddr::to_string).collect();
    texts.join(",").into_bytes()
}

/// What the other side has left, which holds the ticket and may be anybody who does.
fn read(left: &[u8]) -> Vec<SocketAddr> {
    let text = std::str::from_utf8(left).unwrap_or_default();
    let addresses = text.split(',').filter_map(|text| text.parse().ok());
    addresses.take(MOST).collect()
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
        assert_eq!(read(&written(&addresses[..MOST])), addresses[..MOST]);
        assert_eq!(read(&written(&addresses)), addresses[..MOST]);
        assert_eq!(
            read(b"x,192.0.2.1:7,,[::1"),
            [SocketAddr::from(([192, 0, 2, 1], 7))]
        );
        assert_eq!(read(&[0xff, 0x2c]), []);
        assert_eq!(read(b""), []);
    }
}

//! Relays that a registry gives: `--registry`, `--relays`, `--token-file`.
//!
//! Owns the registry's client during a transfer: gets relays, renews access to them, fetches more
//! when the connection asks. It never ends a connection because the registry fails.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::time::Duration;

use manyway::relay::{LentRegistry, RelayId, RelayTicket};
use manyway::{Carriers, Connection, Event, Events, PathEvent, RelayAccess, Ticket};
use manyway_registry::Role;
use manyway_registry::client::{Client, ClientError};
use rand::rngs::ChaCha20Rng;
use tokio::time::{Instant, sleep_until};

use super::rng;
use crate::args::RelaySourceArgs;
use crate::screen::Screen;
use crate::state::token;

/// Vouchers are valid for two hours, which leaves a registry an hour to come back.
const INTERVALS: Intervals = Intervals {
    renew: Duration::from_secs(3600),
    retry: Duration::from_secs(60),
};
/// Most relays in one refresh request.
const MAX_REFRESH: usize = 200;

/// A registry client, with a key pair of its own or with borrowed access; `None` without a
/// registry.
pub(super) fn client(
    args: &RelaySourceArgs,
    borrowed: Option<&LentRegistry>,
) -> anyhow::Result<Option<(Client, ChaCha20Rng)>> {
    if args.registry.is_empty() {
        return Ok(None);
    }
    let mut rng = rng()?;
    let client = match (&args.token_file, borrowed) {
        (_, Some(lent)) => Client::borrowed(&args.registry, lent)?,
        (Some(file), None) => Client::new(&args.registry, token(file, Role::Client)?, &mut rng)?,
        (None, None) => return Ok(None),
    };
    Ok(Some((client, rng)))
}

/// The relays that a registry gives to one side of a transfer.
pub(super) struct RegistryRelays {
    client: Client,
    count: u16,
    carrier: Carriers,
    offered: BTreeSet<RelayId>,
    /// The relays of the ticket. Over TCP they are useful even if UDP through them fails.
    named: Vec<RelayId>,
    /// The registry didn't answer last time, and the user has been told.
    unreachable: bool,
    intervals: Intervals,
}

/// Intervals between requests to the registry.
#[derive(Copy, Clone, Debug)]
struct Intervals {
    /// Between renewals of access.
    renew: Duration,
    /// After a request that failed.
    retry: Duration,
}

impl RegistryRelays {
    pub(super) fn new(client: Client, count: u16, carrier: Carriers) -> Self {
        Self {
            client,
            count,
            carrier,
            offered: BTreeSet::new(),
            named: Vec::new(),
            unreachable: false,
            intervals: INTERVALS,
        }
    }

    pub(super) async fn enrol(&mut self) -> Result<(), ClientError> {
        self.client.enrol().await
    }

    /// Access for whoever holds our ticket.
    pub(super) async fn lend(
        &mut self,
        rng: &mut ChaCha20Rng,
    ) -> Result<LentRegistry, ClientError> {
        self.client.lend(rng).await
    }

    /// Transfers go on while the registry is unreachable, and the user reads so once. A refusal is
    /// an error, since only the user can correct it.
    pub(super) fn tolerate_outage<T>(
        &mut self,
        screen: &Screen,
        result: Result<T, ClientError>,
    ) -> anyhow::Result<Option<T>> {
        match result {
            Ok(done) => {
                self.unreachable = false;
                Ok(Some(done))
            }
            Err(error @ (ClientError::Refused { .. } | ClientError::NoRegistry)) => {
                Err(error.into())
            }
            Err(error) => {
                if let Some(news) = self.note_outage(&error) {
                    screen.say(&news);
                }
                Ok(None)
            }
        }
    }

    /// The message for the user, unless the outage has been reported before.
    fn note_outage(&mut self, error: &ClientError) -> Option<String> {
        if std::mem::replace(&mut self.unreachable, true) {
            tracing::debug!(%error, "the registry is still unreachable");
            return None;
        }
        Some(format!("{error}; manyway continues with the relays it has"))
    }

    /// Relays for a ticket that has room for this many. All accept TCP if the listener accepts
    /// nothing else. If it accepts both, half of them do, and those come first.
    pub(super) async fn for_own_ticket(
        &mut self,
        room: u16,
    ) -> Result<Vec<RelayTicket>, ClientError> {
        let count = self.count.min(room);
        let over_tcp = match self.carrier {
            Carriers::Udp => 0,
            Carriers::Auto => count.div_ceil(2),
            Carriers::Tcp => count,
        };
        let mut found = self.client.subset_with(count, over_tcp).await?;
        found.retain(|relay| relay.tcp || self.carrier != Carriers::Tcp);
        Ok(found)
    }

    /// The relays at which the ticket's listener waits, and as many others as `--relays` asks for.
    /// Over TCP the others lead nowhere, because a listener connects to the relays of its ticket
    /// only.
    pub(super) async fn for_ticket(
        &mut self,
        ticket: &Ticket,
    ) -> Result<Vec<RelayAccess>, ClientError> {
        // Another connection than the last one's: it knows none of them.
        self.offered.clear();
        let mut named: Vec<RelayId> = ticket.relays.iter().map(|(_, id)| *id).collect();
        named.sort_unstable();
        named.dedup();
        let mut found = match named.is_empty() {
            true => Vec::new(),
            false => self.client.refresh(&named).await?,
        };
        self.named = found.iter().map(|relay| relay.relay).collect();
        match self.carrier {
            Carriers::Tcp => found.retain(|relay| relay.tcp),
            _ => found.extend(self.client.subset(self.count).await?),
        }
        Ok(self.unseen(found))
    }

    /// Leaves out relays that the connection was offered before: drawing a dropped relay again
    /// doesn't improve it.
    fn unseen(&mut self, found: Vec<RelayTicket>) -> Vec<RelayAccess> {
        let new = found
            .into_iter()
            .filter(|ticket| self.offered.insert(ticket.relay));
        new.flat_map(|ticket| RelayAccess::of(&ticket)).collect()
    }

    /// Renews access and fetches relays for as long as it is polled. No failure of the registry
    /// ends the connection.
    pub(super) async fn maintain(
        &mut self,
        tell: impl Fn(&str),
        connection: Connection,
        mut events: Events,
    ) -> Infallible {
        let mut next = self.next_request(true);
        loop {
            let done = tokio::select! {
                () = sleep_until(next) => {
                    let done = self.renew(&connection).await;
                    next = self.next_request(done.is_ok());
                    done
                }
                event = events.recv() => match event {
                    Some(Event::Path(PathEvent::MoreRelays)) => self.fetch_more(&connection).await,
                    Some(_) => continue,
                    None => std::future::pending().await,
                },
            };
            match done {
                Ok(()) => self.unreachable = false,
                Err(error) => {
                    if let Some(news) = self.note_outage(&error) {
                        tell(&news);
                    }
                }
            }
        }
    }

    /// When to ask the registry again: soon after a failure, or while it has given no relay yet.
    fn next_request(&self, answered: bool) -> Instant {
        let interval = match answered && !self.offered.is_empty() {
            true => self.intervals.renew,
            false => self.intervals.retry,
        };
        Instant::now() + interval
    }

    /// Renews access to the registry's relays that the connection hasn't given up, or fetches the
    /// first relays if there are none.
    async fn renew(&mut self, connection: &Connection) -> Result<(), ClientError> {
        if self.offered.is_empty() {
            return self.fetch_more(connection).await;
        }
        let known: BTreeSet<RelayId> = connection
            .stats()
            .relays
            .iter()
            .map(|relay| relay.id)
            .chain(self.named.iter().copied())
            .filter(|id| self.offered.contains(id))
            .collect();
        let known: Vec<RelayId> = known.into_iter().collect();
        for some in known.chunks(MAX_REFRESH) {
            let renewed = self.client.refresh(some).await?;
            let renewed: Vec<_> = renewed.iter().flat_map(RelayAccess::of).collect();
            connection.add_relays(&renewed);
            tracing::debug!(relays = renewed.len(), "access renewed");
        }
        Ok(())
    }

    async fn fetch_more(&mut self, connection: &Connection) -> Result<(), ClientError> {
        if self.carrier == Carriers::Tcp {
            return Ok(());
        }
        let found = self.client.subset(self.count).await?;
        let new = self.unseen(found);
        let added = connection.add_relays(&new);
        tracing::debug!(added, "more relays");
        Ok(())
    }
}

#[cfg(test)]
mod tests;

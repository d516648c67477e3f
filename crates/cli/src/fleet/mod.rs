//! Relays that a registry knows: `--registry`, `--relays`, `--token-file`.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use manyway::relay::{MAX_TICKET_RELAYS, RelayId, RelayTicket};
use manyway::{
    Carriers, Connection, Endpoint, Event, PathEvent, RelayAccess, RelayAddress, Ticket,
};
use manyway_registry::Role;
use manyway_registry::client::{Client, ClientError};
use rand::SeedableRng;
use rand::rngs::{ChaCha20Rng, SysRng};
use tokio::sync::broadcast::{Receiver, error::RecvError};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::args::{Pick, Relays};
use crate::exit::{Interrupted, Stop};
use crate::meet::Meet;
use crate::pick;
use crate::registry::token;
use crate::relays;
use crate::screen::Screen;

/// Vouchers are good for two hours: there is time for a registry to come back.
const PACE: Pace = Pace {
    renew: Duration::from_secs(3600),
    retry: Duration::from_secs(60),
};
/// Relays that a registry vouches for at once.
const AT_ONCE: usize = 200;

/// What a listener hears that wants TCP alone.
const NONE_OVER_TCP: &str = "The registry knows no relay that takes TCP (manyway relay --tcp), so \
    the ticket names none of its relays";
/// And who dials.
const TICKET_WITHOUT_TCP: &str = "The ticket names no relay that is known to take TCP: with \
    --carrier tcp its owner is looked for at its own addresses alone. To be found at a relay, it \
    needs --carrier tcp or auto and --registry or --via, too";

/// What `--via` and a registry give.
pub(crate) struct Detours {
    args: Relays,
    carrier: Carriers,
    via: Vec<RelayTicket>,
    fleet: Option<Fleet>,
    screen: Screen,
    /// So many of the relays are wanted at a time.
    pick: Option<u16>,
}

impl Detours {
    /// Reads the options; a token that the registry doesn't accept is known at once.
    pub(crate) async fn of(
        screen: &Screen,
        args: &Relays,
        carrier: Carriers,
    ) -> anyhow::Result<Self> {
        Self::picking(screen, args, carrier, &Pick::default()).await
    }

    /// The same, of which so many relays are used at a time.
    pub(crate) async fn picking(
        screen: &Screen,
        args: &Relays,
        carrier: Carriers,
        pick: &Pick,
    ) -> anyhow::Result<Self> {
        let via = relays::read(&args.via)?;
        let named = via.iter().map(|relay| relay.relay).collect();
        pick::check_number(pick.pick, &named, args)?;
        let mut fleet = Fleet::of(args, carrier)?;
        if let Some(fleet) = &mut fleet {
            let enrolled = fleet.client.enrol().await;
            fleet.excuse(screen, enrolled)?;
        }
        Ok(Self {
            args: args.clone(),
            carrier,
            via,
            fleet,
            screen: screen.clone(),
            pick: pick.pick,
        })
    }

    /// Whether who dials has the right to use those of `--via`.
    pub(crate) fn check_access(&self) -> anyhow::Result<()> {
        relays::with_access(&self.via).map(drop)
    }

    /// What who waits to be dialled is found at, as far as a ticket has room.
    pub(crate) async fn found_at(&mut self) -> anyhow::Result<Vec<RelayAddress>> {
        let mut found = relays::addresses(&self.via);
        let room = MAX_TICKET_RELAYS.saturating_sub(found.len());
        if let Some(fleet) = self.fleet.as_mut().filter(|_| room > 0) {
            let more = fleet.for_waiting_at(room as u16).await;
            let more = fleet.excuse(&self.screen, more)?;
            if self.carrier == Carriers::Tcp && more.as_ref().is_some_and(Vec::is_empty) {
                self.screen.say(NONE_OVER_TCP);
            }
            let more = relays::addresses(&more.unwrap_or_default());
            found.extend(more.into_iter().take(room));
        }
        Ok(found)
    }

    /// Waits at the registry, if there is one, for those who hold the ticket, until the result is
    /// dropped.
    pub(crate) fn await_callers(
        &self,
        endpoint: &Endpoint,
        ticket: &Ticket,
    ) -> anyhow::Result<Caretaker> {
        let mut tasks = JoinSet::new();
        if let Some(meet) = self.meet(ticket)? {
            tasks.spawn(meet.listen(endpoint.clone()));
        }
        Ok(Caretaker(tasks))
    }

    /// Those who meet exchange addresses for UDP.
    fn meet(&self, ticket: &Ticket) -> anyhow::Result<Option<Meet>> {
        if self.carrier == Carriers::Tcp {
            return Ok(None);
        }
        let client = client(&self.args)?;
        Ok(client.map(|(client, rng)| Meet::new(client, rng, ticket)))
    }

    /// Connects to the ticket's owner, through relays too, and looks after these until the result
    /// is dropped.
    pub(crate) async fn dial(
        &mut self,
        endpoint: &Endpoint,
        ticket: &Ticket,
        stop: &Stop,
    ) -> anyhow::Result<(Connection, Caretaker)> {
        let mut relays = relays::with_access(&self.via)?;
        let mut tasks = JoinSet::new();
        let (tell, told) = watch::channel(Vec::new());
        if let Some(meet) = self.meet(ticket)? {
            let endpoint = endpoint.clone();
            tasks.spawn(async move {
                tell.send(meet.call(endpoint).await).ok();
                std::future::pending().await
            });
        }
        let dialled = async {
            if let Some(fleet) = &mut self.fleet {
                let found = fleet.for_ticket(ticket).await;
                let found = fleet.excuse(&self.screen, found)?;
                if self.carrier == Carriers::Tcp
                    && relays.is_empty()
                    && found.as_ref().is_some_and(Vec::is_empty)
                {
                    self.screen.say(TICKET_WITHOUT_TCP);
                }
                let answered = found.is_some();
                relays.extend(found.unwrap_or_default());
                let known: BTreeSet<RelayId> = relays.iter().map(|r| r.relay.id).collect();
                if let Some(pick) = self.pick.map(usize::from)
                    && answered
                    && known.len() < pick
                {
                    self.screen.say(&pick::too_few(pick, known.len()));
                }
            }
            let met = met(told.clone());
            anyhow::Ok(endpoint.connect_met(ticket, &relays, met).await?)
        };
        let connection: Connection = tokio::select! {
            dialled = dialled => dialled,
            () = stop.requested() => Err(Interrupted.into()),
        }?;
        // Perhaps it was found at a relay first: a direct path is welcome all the same.
        let found = connection.clone();
        tasks.spawn(async move {
            found.add_remotes(&met(told).await);
            std::future::pending().await
        });
        if let Some(fleet) = self.fleet.take() {
            let (screen, connection) = (self.screen.clone(), connection.clone());
            let tell = move |news: &str| screen.say(news);
            let events = connection.events();
            tasks.spawn(fleet.follow(tell, connection, events));
        }
        Ok((connection, Caretaker(tasks)))
    }
}

/// The addresses that a meeting has told; never without one.
async fn met(mut told: watch::Receiver<Vec<SocketAddr>>) -> Vec<SocketAddr> {
    let found = told.wait_for(|addresses| !addresses.is_empty()).await;
    match found.map(|addresses| addresses.clone()) {
        Ok(addresses) => addresses,
        Err(_) => std::future::pending().await,
    }
}

/// A client with keys of its own, if a registry is named.
fn client(args: &Relays) -> anyhow::Result<Option<(Client, ChaCha20Rng)>> {
    let (Some(file), false) = (&args.token_file, args.registry.is_empty()) else {
        return Ok(None);
    };
    let mut rng =
        ChaCha20Rng::try_from_rng(&mut SysRng).context("the system gives no random numbers")?;
    let client = Client::new(&args.registry, token(file, Role::Client)?, &mut rng)?;
    Ok(Some((client, rng)))
}

/// Renews access and fetches relays for as long as it is held.
#[must_use]
pub(crate) struct Caretaker(#[allow(dead_code)] JoinSet<Infallible>);

/// A registry's client, and what has come of it.
struct Fleet {
    client: Client,
    count: u16,
    carrier: Carriers,
    offered: BTreeSet<RelayId>,
    /// Those of the ticket: over TCP they are of use however they do over UDP.
    named: Vec<RelayId>,
    /// The registry was last heard to be away, and the user knows.
    away: bool,
    pace: Pace,
}

/// How often the registry is asked.
#[derive(Copy, Clone, Debug)]
struct Pace {
    /// For new access.
    renew: Duration,
    /// Again, after it was asked in vain.
    retry: Duration,
}

impl Fleet {
    fn of(args: &Relays, carrier: Carriers) -> anyhow::Result<Option<Self>> {
        let client = client(args)?;
        Ok(client.map(|(client, _)| Self {
            client,
            count: args.relays,
            carrier,
            offered: BTreeSet::new(),
            named: Vec::new(),
            away: false,
            pace: PACE,
        }))
    }

    /// Files go without a registry that is away, and the user is told once; what it refuses, the
    /// user has to mend.
    fn excuse<T>(
        &mut self,
        screen: &Screen,
        result: Result<T, ClientError>,
    ) -> anyhow::Result<Option<T>> {
        match result {
            Ok(done) => {
                self.away = false;
                Ok(Some(done))
            }
            Err(error @ (ClientError::Refused { .. } | ClientError::NoRegistry)) => {
                Err(error.into())
            }
            Err(error) => {
                if let Some(news) = self.note_away(&error) {
                    screen.say(&news);
                }
                Ok(None)
            }
        }
    }

    /// What the user hasn't heard yet.
    fn note_away(&mut self, error: &ClientError) -> Option<String> {
        if std::mem::replace(&mut self.away, true) {
            tracing::debug!(%error, "the registry is still away");
            return None;
        }
        Some(format!("{error}; going on with the relays that there are"))
    }

    /// For a ticket with so much room: those that take TCP if there is nothing else, half of them
    /// if there may be; they come first.
    async fn for_waiting_at(&mut self, room: u16) -> Result<Vec<RelayTicket>, ClientError> {
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

    /// Those that the ticket names, since its owner is found there, and as many others as were
    /// asked for. Over TCP the latter lead nowhere: a listener keeps a connection open at those of
    /// its ticket alone.
    async fn for_ticket(&mut self, ticket: &Ticket) -> Result<Vec<RelayAccess>, ClientError> {
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
        Ok(self.new_ones(found))
    }

    /// Those that weren't offered before: one that was dropped doesn't get better by being drawn
    /// again.
    fn new_ones(&mut self, found: Vec<RelayTicket>) -> Vec<RelayAccess> {
        let new = found
            .into_iter()
            .filter(|ticket| self.offered.insert(ticket.relay));
        new.flat_map(|ticket| RelayAccess::of(&ticket)).collect()
    }

    /// Whatever happens to the registry, the connection goes on.
    async fn follow(
        mut self,
        tell: impl Fn(&str),
        connection: Connection,
        mut events: Receiver<Event>,
    ) -> Infallible {
        let mut next = self.pause(true);
        loop {
            let done = tokio::select! {
                () = sleep_until(next) => {
                    let done = self.renew(&connection).await;
                    next = self.pause(done.is_ok());
                    done
                }
                event = events.recv() => match event {
                    Ok(Event::Path(PathEvent::MoreRelays)) => self.fetch_more(&connection).await,
                    Ok(_) | Err(RecvError::Lagged(_)) => continue,
                    Err(RecvError::Closed) => std::future::pending().await,
                },
            };
            match done {
                Ok(()) => self.away = false,
                Err(error) => {
                    if let Some(news) = self.note_away(&error) {
                        tell(&news);
                    }
                }
            }
        }
    }

    /// When to ask for access again. Who has no relay yet, since no registry answered, doesn't wait
    /// as long as who has some.
    fn pause(&self, answered: bool) -> Instant {
        let pause = match answered && !self.offered.is_empty() {
            true => self.pace.renew,
            false => self.pace.retry,
        };
        Instant::now() + pause
    }

    /// New access to those that haven't been given up; those of `--via` alone keep theirs. If there
    /// are none, the first ones.
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
        for some in known.chunks(AT_ONCE) {
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
        let new = self.new_ones(found);
        let added = connection.add_relays(&new);
        tracing::debug!(added, "more relays");
        Ok(())
    }
}

#[cfg(test)]
mod tests;

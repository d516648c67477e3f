//! The side that waits: it says how to reach it, by a ticket or a code, and takes the first
//! transfer.

use std::cell::Cell;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use manyway::{Connection, Endpoint, Event, RelayAddress, Ticket};
use manyway_units::format_duration;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::args::{NetworkArgs, TicketArgs};
use crate::diagnosis::Diagnosis;
use crate::door::Door;
use crate::exit::{Expired, Interrupted, NeverCame, NobodyCame, Stop, is_the_networks, words};
use crate::relays::{BackgroundTasks, OfferedCode, RelaySources, SILENT};
use crate::reports::Reports;
use crate::screen::Screen;
use crate::{options, qr, ticket};

/// How long whoever has used a code may take to begin a transfer. Only with `--retry`, it may try
/// again later.
const GUEST: Duration = Duration::from_secs(120);

/// How long a listener waits for its interfaces to come up.
const NETWORK: Duration = Duration::from_secs(3);
/// When one has come up, others often follow at once.
const OTHERS: Duration = Duration::from_secs(1);
const NO_NETWORK: &str = "This host has no network yet, so no other host can reach it. manyway \
    writes the ticket again when the network is up.";

/// Whether nobody else can reach its maker.
fn leads_nowhere(ticket: &Ticket) -> bool {
    ticket.addresses.iter().all(|a| a.ip().is_loopback())
}

/// Returns once the endpoint has an address that others may reach.
async fn until_online(endpoint: &Endpoint) {
    // Subscribed first: what comes in between is seen twice, not never.
    let mut events = endpoint.events();
    let outside = |addr: &SocketAddr| !addr.ip().is_loopback();
    if endpoint.locals().iter().any(|(_, addr)| outside(addr)) {
        return;
    }
    loop {
        match events.recv().await {
            Some(Event::LocalAdded { addr, .. }) if outside(&addr) => return,
            Some(_) => {}
            None => std::future::pending().await,
        }
    }
}

/// Whether this host has addresses that others may reach, and the ticket names none of them.
fn is_elsewhere(endpoint: &Endpoint, ticket: &Ticket) -> bool {
    let mut outside = ticket::outside(endpoint).peekable();
    outside.peek().is_some() && !outside.any(|addr| ticket.addresses.contains(&addr))
}

/// Writes the ticket again when no address in it is this host's any more: with the same secrets, so
/// the first one stays valid.
async fn announce_again(
    screen: Screen,
    reports: Reports,
    endpoint: Endpoint,
    options: TicketArgs,
    mut ticket: Ticket,
) -> Infallible {
    // Subscribed first: what comes in between is seen twice, not never.
    let mut events = endpoint.events();
    loop {
        if is_elsewhere(&endpoint, &ticket) {
            sleep(OTHERS).await;
        }
        // It may be gone again.
        if is_elsewhere(&endpoint, &ticket) {
            let why = match leads_nowhere(&ticket) {
                true => "The network is up",
                false => "This host has another address now",
            };
            let published = ticket::readdress(&mut ticket, &endpoint, &options).and_then(|()| {
                ticket::publish(&screen, &ticket, &options, |ticket| {
                    format!("{why}. This ticket replaces the one before:\n\n  {ticket}\n")
                })
            });
            match published {
                Ok(()) => reports.listening(&ticket, &options),
                Err(error) => screen.error(&format!("manyway: {}", words(&error))),
            }
        }
        loop {
            match events.recv().await {
                Some(Event::LocalAdded { .. } | Event::LocalRemoved { .. }) => break,
                Some(_) => {}
                None => std::future::pending().await,
            }
        }
    }
}

/// Says which of these relays, which are reached over UDP alone, don't answer: nobody can reach
/// this host through them. Without a network, that says nothing about a relay.
async fn tell_of_silent_relays(
    screen: Screen,
    endpoint: Endpoint,
    via: Vec<RelayAddress>,
    follows_interfaces: bool,
) -> Infallible {
    if follows_interfaces {
        until_online(&endpoint).await;
    }
    sleep(SILENT).await;
    let silent = endpoint.silent_relays().into_iter();
    for at in silent.filter(|at| via.iter().any(|relay| relay.address == *at)) {
        screen.say(&Diagnosis::RelayDown(at).to_string());
    }
    std::future::pending().await
}

/// What came of a connection that a peer opened.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Visit {
    /// Whether something began on it.
    pub(crate) begun: bool,
    /// Whether the peer may come back with the same ticket: the network ended it.
    pub(crate) may_return: bool,
}

impl Visit {
    /// That of a connection on which something began and ended so.
    pub(crate) fn of<T>(ended: &anyhow::Result<T>) -> Self {
        Self {
            begun: true,
            may_return: ended.as_ref().is_err_and(is_the_networks),
        }
    }
}

/// Why a listener that serves one connection after another has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Served {
    /// The user stopped it, perhaps in the midst of something.
    Stopped { interrupted: bool },
    /// The time of `--expire` is over, and everybody who came in it has gone.
    Expired,
    /// Whoever used the code has gone, and nobody else can come.
    GuestGone,
}

impl Served {
    /// Tells the user.
    pub(crate) fn tell(self, screen: &Screen) {
        screen.say(match self {
            Self::Stopped { .. } => "stopped",
            Self::Expired => "stopped: the ticket has expired (`--expire`)",
            Self::GuestGone => "stopped: the other side has ended, and a code works only once",
        });
    }
}

/// A command that waits.
pub(crate) struct Listener<'a> {
    pub(crate) screen: &'a Screen,
    pub(crate) stop: &'a Stop,
    pub(crate) reports: &'a Reports,
    pub(crate) door: &'a Door,
    pub(crate) network: &'a NetworkArgs,
    pub(crate) ticket: &'a TicketArgs,
    /// Whether a code says how to reach it.
    pub(crate) code: bool,
    pub(crate) retry: Option<Duration>,
    /// Whether somebody has begun something.
    pub(crate) begun: Cell<bool>,
    /// What to do on the other host. It takes what to add behind "On the other host", and the
    /// ticket or the code.
    pub(crate) instructions: &'a dyn Fn(&str, &str) -> String,
}

impl Listener<'_> {
    /// Listens, and says how. If that is by a code, it has been used when this returns. The tasks
    /// wait for callers.
    pub(crate) async fn announce(
        &self,
        relays: &mut RelaySources,
    ) -> anyhow::Result<BackgroundTasks> {
        let named = relays.for_own_ticket().await?;
        self.await_network().await;
        let endpoint = self.door.endpoint();
        options::listen_tcp(endpoint, self.network)?;
        let mut ticket = ticket::listen(self.door, self.ticket, &named)?;
        if self.lends() {
            relays.lend(&mut ticket).await?;
        }
        let watch = tell_of_silent_relays(
            self.screen.clone(),
            endpoint.clone(),
            relays.via_udp_alone(),
            self.follows_interfaces(),
        );
        if self.code {
            let mut tasks = relays.await_callers(endpoint, &ticket)?;
            tasks.spawn(watch);
            let offered = relays.offer_code(&ticket, self.stop).await?;
            self.show(&offered);
            let over = async {
                tokio::select! {
                    () = self.stop.requested() => anyhow::Error::from(NobodyCame),
                    expired = self.door.expired() => expired.into(),
                }
            };
            offered.used(over).await?;
            return Ok(tasks);
        }
        ticket::publish(self.screen, &ticket, self.ticket, |ticket| {
            (self.instructions)("", &ticket.to_string())
        })?;
        self.reports.listening(&ticket, self.ticket);
        let mut tasks = relays.await_callers(endpoint, &ticket)?;
        tasks.spawn(watch);
        if self.follows_interfaces() {
            if leads_nowhere(&ticket) {
                self.screen.say(NO_NETWORK);
            }
            tasks.spawn(announce_again(
                self.screen.clone(),
                self.reports.clone(),
                endpoint.clone(),
                self.ticket.clone(),
                ticket,
            ));
        }
        Ok(tasks)
    }

    /// Whether access goes with the ticket. One that stays valid at later starts outlives access to
    /// a registry.
    fn lends(&self) -> bool {
        !self.ticket.keep_access && (self.code || self.door.secrets().is_none())
    }

    /// Whether manyway chooses the interfaces, and so takes those that come up later.
    fn follows_interfaces(&self) -> bool {
        self.network.interfaces.is_empty()
    }

    /// Waits a moment for an address that others can reach: interfaces may still be coming up.
    async fn await_network(&self) {
        if self.follows_interfaces() {
            timeout(NETWORK, until_online(self.door.endpoint()))
                .await
                .ok();
        }
    }

    fn show(&self, offered: &OfferedCode) {
        let (code, registry) = (offered.code(), &offered.registry);
        let wanted = self.ticket.expire.unwrap_or(Duration::MAX);
        let life = offered.life().min(wanted);
        match self.screen.is_quiet() {
            true => self.screen.error(&code.to_string()),
            false => {
                let with = format!(", with MANYWAY_REGISTRY={registry}");
                self.screen.say(&format!(
                    "{}\nThe code works once, within {}.",
                    (self.instructions)(&with, &code.to_string()),
                    format_duration(life)
                ));
                if self.ticket.qr {
                    qr::show(self.screen, &code.to_string());
                }
            }
        }
        self.reports.offering(&code, registry, life);
    }

    /// What `arrival` makes of the first connection that begins something.
    pub(crate) async fn first<T>(
        &self,
        arrival: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<T> {
        let limit = GUEST.max(self.retry.unwrap_or_default());
        let again = self.begun.get();
        tokio::select! {
            first = arrival => {
                self.begun.set(true);
                first.map_err(|error| self.of_guest(error, again))
            }
            () = self.stop.requested() => Err(match again {
                true => Interrupted.into(),
                false => NobodyCame.into(),
            }),
            () = sleep(limit), if self.code => Err(NeverCame { limit, again }.into()),
        }
    }

    /// Somebody has used the code, so it isn't that nobody came.
    fn of_guest(&self, error: anyhow::Error, again: bool) -> anyhow::Error {
        match error.downcast() {
            Ok(Expired { life: limit }) if self.code => NeverCame { limit, again }.into(),
            Ok(expired) => expired.into(),
            Err(other) => other,
        }
    }

    /// Serves one connection after another, several at a time.
    ///
    /// # Errors
    /// Nobody came within `--expire`, or to use the code; or the sockets were closed.
    pub(crate) async fn serve<V>(&self, visit: impl Fn(Connection) -> V) -> anyhow::Result<Served>
    where
        V: Future<Output = Visit> + Send + 'static,
    {
        let mut running = JoinSet::new();
        let mut never = pin!(sleep(GUEST));
        let mut came = false;
        let mut expired = None;
        loop {
            tokio::select! {
                accepted = self.door.accept(), if expired.is_none() => match accepted {
                    Ok(connection) => {
                        came = true;
                        running.spawn(visit(connection));
                    }
                    Err(error) if error.is::<Expired>() => expired = Some(error),
                    Err(error) => return Err(error),
                },
                Some(ended) = running.join_next() => {
                    let gone = ended.map_or(true, |visit| !visit.may_return);
                    match self.code && running.is_empty() {
                        true if gone => return Ok(Served::GuestGone),
                        true => self.screen.say(
                            "The network ended the connection; manyway waits for the other side \
                             to come back.",
                        ),
                        false => {}
                    }
                }
                () = &mut never, if self.code && !came => {
                    return Err(NeverCame { limit: GUEST, again: false }.into());
                }
                () = self.stop.requested() => break,
            }
            if running.is_empty()
                && let Some(error) = expired.take()
            {
                return if came {
                    Ok(Served::Expired)
                } else {
                    Err(self.of_guest(error, false))
                };
            }
        }
        // Each closes its connection.
        let mut interrupted = false;
        while let Some(ended) = running.join_next().await {
            interrupted |= ended.map_or(true, |visit| visit.begun);
        }
        Ok(Served::Stopped { interrupted })
    }
}

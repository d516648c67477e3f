//! The relays of one side of a transfer, from `--via` and `--registry`.
//!
//! [`RelaySources`] owns both sources: it lists relays in a ticket, dials through relays, and keeps
//! them up to date while the connection lasts. A listener's ticket lends access to both, which the
//! initiator adds to its own. It never picks paths; that is the session's part.

mod code;
mod registry;
mod rendezvous;
pub(crate) mod selection;
mod via;

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use manyway::relay::{LentRegistry, LentRelay, MAX_TICKET_RELAYS, RelayId, RelayTicket};
use manyway::{
    Carriers, CloseReason, ConnectError, Connection, Endpoint, RelayAddress, RelayState, Ticket,
};
use manyway_registry::client::{ClientError, PairingError};
use rand::SeedableRng;
use rand::rngs::{ChaCha20Rng, SysRng};
use tokio::sync::{Mutex, watch};
use tokio::task::JoinSet;
use tokio::time::sleep;

pub(crate) use self::code::OfferedCode;
use self::registry::{RegistryRelays, client};
use self::rendezvous::Rendezvous;
use crate::args::RelaySourceArgs;
use crate::close::ClosedByPeer;
use crate::diagnosis::{Diagnosis, Missing, NoAnswer};
use crate::exit::{Interrupted, Stop, usage};
use crate::screen::Screen;
use crate::text::Line;
use crate::ticket::Invitation;

/// What a listener reads that accepts TCP only.
const NO_TCP_RELAY: &str = "The registry lists no relay that accepts TCP (`manyway relay --tcp`), \
    so the ticket names none of its relays";
/// The same of one that accepts UDP, too.
const NO_RELAY_TO_NAME: &str = "The registry lists no relay, so the ticket names none";
/// What an initiator reads whose registry has nothing to offer.
const NO_RELAY: &str = "The registry lists no relay: manyway uses direct paths, and asks it again \
    every minute";
/// What an initiator reads that connects over TCP only.
const TICKET_WITHOUT_TCP: &str = "The ticket names no relay that is known to accept TCP, so with \
    `--carrier tcp` manyway tries the listener's own addresses only. To be reachable through a \
    relay, the listener needs `--carrier tcp` or `auto`, and `--registry` or `--via`";

/// What a user reads who names a registry and no token.
const CODES_ALONE: &str = "Without your token (`--token-file`), the registry is used for one-time \
    codes, and not for relays.";
/// What a listener with `--code` reads, before what the registry's outage is.
const NO_CODE: &str = "`--code` needs a registry: try again later, or leave it out and give the \
    other side the ticket";

/// How long a relay may take to answer before the user is told.
pub(crate) const SILENT: Duration = Duration::from_secs(5);

/// The relays of `--via` and those of a registry.
pub(crate) struct RelaySources {
    args: RelaySourceArgs,
    carrier: Carriers,
    via: Vec<RelayTicket>,
    /// Whoever looks after a connection's relays has it; the next connection takes over.
    registry: Option<Arc<Mutex<RegistryRelays>>>,
    /// Access to the registry that came with the ticket.
    borrowed: Option<LentRegistry>,
    screen: Screen,
    /// How many relays to use at a time.
    pick: Option<u16>,
}

/// Says which of these relays, which are reached over UDP alone, an initiator can't use, though it
/// has a connection without them.
async fn tell_of_useless_relays(
    screen: Screen,
    connection: Connection,
    via: Vec<RelayAddress>,
) -> Infallible {
    sleep(SILENT).await;
    let named = |at| via.iter().any(|relay| relay.address == at);
    let relays = connection.stats().relays.into_iter();
    for relay in relays.filter(|relay| named(relay.address)) {
        let problem = match (relay.state, relay.refused) {
            (RelayState::Available | RelayState::InUse, _) => continue,
            (RelayState::Waiting, Some(why)) => Diagnosis::RelayRefuses(relay.address, why),
            (RelayState::Waiting, None) => Diagnosis::RelayDown(relay.address),
        };
        screen.say(&problem.to_string());
    }
    std::future::pending().await
}

impl RelaySources {
    /// Reads the options.
    pub(crate) fn read(
        screen: &Screen,
        args: &RelaySourceArgs,
        carrier: Carriers,
        pick: Option<u16>,
    ) -> anyhow::Result<Self> {
        let via = via::read(&args.via)?;
        let named = via.iter().map(|relay| relay.relay).collect();
        selection::check_count(pick, &named, args)?;
        Ok(Self {
            args: args.clone(),
            carrier,
            via,
            registry: None,
            borrowed: None,
            screen: screen.clone(),
            pick,
        })
    }

    /// Gets ready: to dial the listener of an invitation, whose ticket it returns, or to listen,
    /// with a code or not.
    pub(crate) async fn open(
        &mut self,
        invitation: Option<Invitation>,
        code: bool,
        stop: &Stop,
    ) -> anyhow::Result<Option<Ticket>> {
        match invitation {
            Some(invitation) => self.accept(invitation, stop).await.map(Some),
            None => self.get_ready(code, stop).await.map(|()| None),
        }
    }

    /// Gets ready to listen. With `--code`, nobody could come without the registry.
    pub(crate) async fn get_ready(&mut self, code: bool, stop: &Stop) -> anyhow::Result<()> {
        if !code {
            return self.enrol(stop).await;
        }
        let checked = self.check_registry(stop).await.map(drop);
        checked.map_err(|error| match error.downcast().map(PairingError::Client) {
            Ok(outage) if outage.is_outage() => anyhow::Error::new(outage).context(NO_CODE),
            Ok(refusal) => refusal.into(),
            Err(other) => other,
        })
    }

    /// Gets ready to dial the listener of an invitation, whose ticket it returns. That uses a code
    /// up, so everything else that can fail should come before.
    pub(crate) async fn accept(
        &mut self,
        invitation: Invitation,
        stop: &Stop,
    ) -> anyhow::Result<Ticket> {
        let ticket = match invitation {
            Invitation::Ticket(ticket) => {
                self.borrow(&ticket)?;
                ticket
            }
            Invitation::Code(code) => {
                let ticket = self.redeem(&code, stop).await?;
                // It is to the registry of the code; the user's token may be for another.
                self.borrowed.clone_from(&ticket.lent.registry);
                ticket
            }
        };
        self.enrol(stop).await?;
        Ok(ticket)
    }

    /// Uses the access to a registry that a ticket lends, unless the user has a token for one.
    pub(crate) fn borrow(&mut self, ticket: &Ticket) -> anyhow::Result<()> {
        let Some(lent) = &ticket.lent.registry else {
            return Ok(());
        };
        if self.args.token_file.is_some() {
            return Ok(());
        }
        let urls = lent.urls.iter().map(|url| url.parse());
        self.args.registry = urls.collect::<Result<_, _>>().map_err(|error| {
            usage(format!(
                "the ticket has a wrong URL for its registry: {error}. Ask for a new ticket"
            ))
        })?;
        self.borrowed = Some(lent.clone());
        Ok(())
    }

    /// Lends the holders of the ticket our access to its relays and to the registry.
    ///
    /// # Errors
    /// The registry refuses.
    pub(crate) async fn lend(&mut self, ticket: &mut Ticket) -> anyhow::Result<()> {
        let lent = |relay: &RelayTicket| {
            Some(LentRelay {
                tcp: relay.tcp,
                access: relay.access.clone()?,
            })
        };
        ticket.lent.relays = self.via.iter().filter_map(lent).collect();
        if let Some(registry) = &self.registry {
            let mut registry = registry.lock().await;
            let lent = registry.lend(&mut rng()?).await;
            ticket.lent.registry = registry.tolerate_outage(&self.screen, lent)?;
        }
        Ok(())
    }

    /// Enrols at the registry, so that a token that it refuses fails at once. One that doesn't
    /// answer is told.
    async fn enrol(&mut self, stop: &Stop) -> anyhow::Result<()> {
        if self.lacks_token() {
            self.screen.say(CODES_ALONE);
            return Ok(());
        }
        if let Some((mut registry, enrolled)) = self.try_to_enrol(stop).await? {
            registry.tolerate_outage(&self.screen, enrolled)?;
            self.registry = Some(Arc::new(Mutex::new(registry)));
        }
        Ok(())
    }

    /// Whether nothing gives access to the registry's relays. Whoever exports its URL for
    /// one-time codes needs none.
    fn lacks_token(&self) -> bool {
        let named = !self.args.registry.is_empty();
        named && self.args.token_file.is_none() && self.borrowed.is_none()
    }

    /// Enrols at the registry, if there is one. Returns whether there is.
    ///
    /// # Errors
    /// The registry doesn't answer, or refuses.
    pub(crate) async fn check_registry(&mut self, stop: &Stop) -> anyhow::Result<bool> {
        let Some((registry, enrolled)) = self.try_to_enrol(stop).await? else {
            return Ok(false);
        };
        enrolled?;
        self.registry = Some(Arc::new(Mutex::new(registry)));
        Ok(true)
    }

    /// The registry, if there is one, and what it says to our token.
    async fn try_to_enrol(
        &self,
        stop: &Stop,
    ) -> anyhow::Result<Option<(RegistryRelays, Result<(), ClientError>)>> {
        if self.lacks_token() {
            return Err(usage(
                "`--registry` needs your token for it: name the file with `--token-file` (you need \
                 none if the ticket or the code gives access)",
            ));
        }
        let client = client(&self.args, self.borrowed.as_ref())?;
        let Some(mut registry) =
            client.map(|(client, _)| RegistryRelays::new(client, self.args.relays, self.carrier))
        else {
            return Ok(None);
        };
        let enrolled = tokio::select! {
            enrolled = registry.enrol() => enrolled,
            () = stop.requested() => return Err(Interrupted.into()),
        };
        Ok(Some((registry, enrolled)))
    }

    /// Checks that every relay of `--via` comes with access, which the initiator needs.
    pub(crate) fn check_access(&self) -> anyhow::Result<()> {
        via::with_access(&self.via).map(drop)
    }

    /// Those of `--via`.
    pub(crate) fn via(&self) -> &[RelayTicket] {
        &self.via
    }

    /// The addresses of those of `--via` that can be reached over UDP alone.
    pub(crate) fn via_udp_alone(&self) -> Vec<RelayAddress> {
        via::udp_alone(&self.via, self.carrier)
    }

    /// The relays that a listener names in its ticket, as many as fit.
    pub(crate) async fn for_own_ticket(&mut self) -> anyhow::Result<Vec<RelayAddress>> {
        let mut found = via::addresses(&self.via);
        let room = MAX_TICKET_RELAYS.saturating_sub(found.len());
        if let Some(registry) = self.registry.as_ref().filter(|_| room > 0) {
            let mut registry = registry.lock().await;
            let more = registry.for_own_ticket(room as u16).await;
            let more = registry.tolerate_outage(&self.screen, more)?;
            if more.as_ref().is_some_and(Vec::is_empty) {
                self.screen.say(match self.carrier {
                    Carriers::Tcp => NO_TCP_RELAY,
                    Carriers::Udp | Carriers::Auto => NO_RELAY_TO_NAME,
                });
            }
            let more = via::addresses(&more.unwrap_or_default());
            found.extend(more.into_iter().take(room));
        }
        Ok(found)
    }

    /// Waits at the registry, if there is one, for peers that hold the ticket, until the result is
    /// dropped.
    pub(crate) fn await_callers(
        &self,
        endpoint: &Endpoint,
        ticket: &Ticket,
    ) -> anyhow::Result<BackgroundTasks> {
        let mut tasks = JoinSet::new();
        if let Some(rendezvous) = self.rendezvous(ticket)? {
            tasks.spawn(rendezvous.listen(endpoint.clone()));
        }
        Ok(BackgroundTasks(tasks))
    }

    /// A rendezvous exchanges UDP addresses, so there is none with TCP only.
    fn rendezvous(&self, ticket: &Ticket) -> anyhow::Result<Option<Rendezvous>> {
        if self.carrier == Carriers::Tcp {
            return Ok(None);
        }
        let client = client(&self.args, self.borrowed.as_ref())?;
        Ok(client.map(|(client, rng)| Rendezvous::new(client, rng, ticket)))
    }

    /// Connects to the listener that printed the ticket, directly and through relays, and keeps the
    /// registry's relays up to date until the result is dropped.
    pub(crate) async fn dial(
        &mut self,
        endpoint: &Endpoint,
        ticket: &Ticket,
        stop: &Stop,
    ) -> anyhow::Result<(Connection, BackgroundTasks)> {
        let mut relays = via::with_access(&self.via)?;
        let mut tasks = JoinSet::new();
        let (tell, peer_addresses) = watch::channel(Vec::new());
        if let Some(rendezvous) = self.rendezvous(ticket)? {
            let endpoint = endpoint.clone();
            tasks.spawn(async move {
                tell.send(rendezvous.call(endpoint).await).ok();
                std::future::pending().await
            });
        }
        let dialled = async {
            let mut registry = match &self.registry {
                Some(registry) => Some(registry.clone().lock_owned().await),
                None => None,
            };
            let mut missing = self.lacks_token().then_some(Missing::Token);
            if let Some(registry) = &mut registry {
                let found = registry.for_ticket(ticket).await;
                let found = registry.tolerate_outage(&self.screen, found)?;
                if self.carrier == Carriers::Tcp
                    && relays.is_empty()
                    && ticket.lent.relays.is_empty()
                    && found.as_ref().is_some_and(Vec::is_empty)
                {
                    self.screen.say(TICKET_WITHOUT_TCP);
                }
                if self.carrier != Carriers::Tcp
                    && self.borrowed.is_none()
                    && found.as_ref().is_some_and(Vec::is_empty)
                {
                    self.screen.say(NO_RELAY);
                }
                let answered = found.is_some();
                missing = (!answered).then_some(Missing::Answer);
                relays.extend(found.unwrap_or_default());
                let lent = ticket.relays_with_access().into_iter().map(|r| r.relay);
                let known: BTreeSet<RelayId> =
                    relays.iter().map(|r| r.relay.id).chain(lent).collect();
                if let Some(pick) = self.pick.map(usize::from)
                    && answered
                    && known.len() < pick
                {
                    self.screen.say(&selection::too_few(pick, known.len()));
                }
            }
            let met = met(peer_addresses.clone());
            let connected = endpoint.connect_met(ticket, &relays, met).await;
            let connection: Connection = connected.map_err(|error| diagnosed(error, missing))?;
            anyhow::Ok((connection, registry))
        };
        let (connection, registry) = tokio::select! {
            dialled = dialled => dialled,
            () = stop.requested() => Err(Interrupted.into()),
            never = show_waiting(&self.screen) => match never {},
        }?;
        // The connection may have come up through a relay: try the peer's own addresses as well.
        let found = connection.clone();
        tasks.spawn(async move {
            found.add_remotes(&met(peer_addresses).await);
            std::future::pending().await
        });
        let (screen, via) = (self.screen.clone(), self.via_udp_alone());
        tasks.spawn(tell_of_useless_relays(screen, connection.clone(), via));
        if let Some(mut registry) = registry {
            let (screen, connection) = (self.screen.clone(), connection.clone());
            let tell = move |news: &str| screen.say(news);
            let events = connection.events();
            tasks.spawn(async move { registry.maintain(tell, connection, events).await });
        }
        Ok((connection, BackgroundTasks(tasks)))
    }
}

/// Why nobody answered, in a sentence; `-v` has all that was observed. A peer that refuses us says
/// so as soon as it knows who we are: before the connection is established here, or after.
fn diagnosed(error: ConnectError, missing: Option<Missing>) -> anyhow::Error {
    match error {
        // Waiting doesn't mend that.
        ConnectError::Ended(reason @ CloseReason::OtherVersion { .. }) => {
            anyhow::anyhow!("{reason}")
        }
        ConnectError::Ended(reason) => match ClosedByPeer::of(&reason, "") {
            Some(closed) => closed.into(),
            None => ConnectError::Ended(reason).into(),
        },
        ConnectError::TimedOut(seen) => {
            tracing::info!("{seen}");
            NoAnswer(Diagnosis::of(&seen).without_registry(missing)).into()
        }
        error => error.into(),
    }
}

fn rng() -> anyhow::Result<ChaCha20Rng> {
    ChaCha20Rng::try_from_rng(&mut SysRng).context("the system provides no random numbers")
}

/// Says on a terminal that nobody has answered yet, if that takes longer than usual.
async fn show_waiting(screen: &Screen) -> Infallible {
    const USUAL: Duration = Duration::from_secs(1);
    sleep(USUAL).await;
    let block = screen.block();
    if screen.redraws() && !screen.is_quiet() {
        block.show(vec![Line::from("connecting: no answer yet")]);
    }
    std::future::pending().await
}

/// The peer's addresses from a rendezvous. Never resolves if there are none.
async fn met(mut peer_addresses: watch::Receiver<Vec<SocketAddr>>) -> Vec<SocketAddr> {
    let found = peer_addresses
        .wait_for(|addresses| !addresses.is_empty())
        .await;
    match found.map(|addresses| addresses.clone()) {
        Ok(addresses) => addresses,
        Err(_) => std::future::pending().await,
    }
}

/// Tasks that renew access, fetch relays and meet peers; dropping it ends them.
#[must_use]
pub(crate) struct BackgroundTasks(JoinSet<Infallible>);

impl BackgroundTasks {
    /// One more.
    pub(crate) fn spawn(&mut self, task: impl Future<Output = Infallible> + Send + 'static) {
        self.0.spawn(task);
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::close::NOT_ALLOWED;
    use crate::exit::{Class, is_the_networks};

    /// It isn't the network's fault, so `--retry` doesn't try again.
    #[test]
    fn a_peer_that_refuses_us_at_once_has_refused_us() {
        let refused = CloseReason::Peer {
            code: NOT_ALLOWED,
            reason: "only friends".to_owned(),
        };
        let error = diagnosed(ConnectError::Ended(refused), None);
        assert_eq!(
            error.to_string(),
            "the peer closed the connection: only friends"
        );
        assert_eq!(Class::of(&error), Class::Refused);
        assert!(!is_the_networks(&error));
        let unsaid = CloseReason::Peer {
            code: 1,
            reason: String::new(),
        };
        let error = diagnosed(ConnectError::Ended(unsaid), None);
        assert!(is_the_networks(&error));
    }
}

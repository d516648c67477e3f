//! Where peers come in: everybody who has the ticket, or only those that `--allow-peer` names.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use manyway::{Connection, Endpoint, PeerId, Secrets};
use tokio::time::{Instant, sleep_until};

use crate::args::TicketArgs;
use crate::close::NOT_ALLOWED;
use crate::exit::{Expired, usage};
use crate::identity;
use crate::peers::{self, Peers};
use crate::screen::Screen;

/// Most strangers that a user reads about: ids cost nothing.
const MAX_TOLD: usize = 16;

/// What a stranger without an identity reads.
const ANONYMOUS: &str = "only peers that its user has allowed may connect, and this host has no \
    identity: run `manyway id` here, and give the id that it prints to that user";

/// The connections that peers open to an endpoint.
#[derive(Debug)]
pub(crate) struct Door {
    endpoint: Endpoint,
    screen: Screen,
    allowed: Option<Allowed>,
    /// When it shuts, and how long it has been open then.
    until: Option<(Instant, Duration)>,
    /// Strangers that the user knows of.
    told: Mutex<BTreeSet<Option<PeerId>>>,
}

/// Those who may connect, and what belongs to the ticket that leads to us.
#[derive(Debug)]
struct Allowed {
    names: BTreeMap<PeerId, String>,
    secrets: Secrets,
}

impl Door {
    /// One that is as open as the options say. `file` is that of our identity.
    ///
    /// # Errors
    /// A name isn't known, or this host has no identity to be found by.
    pub(crate) fn new(
        screen: &Screen,
        endpoint: &Endpoint,
        file: Option<&Path>,
        options: &TicketArgs,
    ) -> anyhow::Result<Self> {
        let allowed = match options.allow_peer.as_slice() {
            [] => None,
            who => Some(Allowed::read(who, file)?),
        };
        Ok(Self {
            endpoint: endpoint.clone(),
            screen: screen.clone(),
            allowed,
            until: options.expire.map(|life| (Instant::now() + life, life)),
            told: Mutex::default(),
        })
    }

    /// One that admits whoever has the ticket.
    #[cfg(test)]
    pub(crate) fn open(endpoint: &Endpoint) -> Self {
        Self {
            endpoint: endpoint.clone(),
            screen: Screen::quiet(),
            allowed: None,
            until: None,
            told: Mutex::default(),
        }
    }

    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The secrets of a ticket that lasts: only with a list of those who may use it.
    pub(crate) fn secrets(&self) -> Option<&Secrets> {
        self.allowed.as_ref().map(|allowed| &allowed.secrets)
    }

    /// The next connection that may come in.
    ///
    /// # Errors
    /// [`Expired`], or the endpoint is closed.
    pub(crate) async fn accept(&self) -> anyhow::Result<Connection> {
        loop {
            let connection = tokio::select! {
                accepted = self.endpoint.accept() => accepted.context("the sockets were closed")?,
                expired = self.expired() => return Err(expired.into()),
            };
            if self.admits(&connection) {
                return Ok(connection);
            }
        }
    }

    /// Resolves when the time of `--expire` is over.
    pub(crate) async fn expired(&self) -> Expired {
        match self.until {
            Some((until, life)) => {
                sleep_until(until).await;
                Expired { life }
            }
            None => std::future::pending().await,
        }
    }

    /// Whether it may stay: others are told why not.
    fn admits(&self, connection: &Connection) -> bool {
        let Some(allowed) = &self.allowed else {
            return true;
        };
        let peer = connection.peer_identity();
        if let Some(name) = peer.and_then(|id| allowed.names.get(&id)) {
            tracing::info!("{name} has connected");
            return true;
        }
        let reason = match peer {
            Some(id) => format!(
                "only peers that its user has allowed may connect: there, `--allow-peer {id}` \
                 admits this host"
            ),
            None => ANONYMOUS.to_owned(),
        };
        connection.close(NOT_ALLOWED, &reason);
        self.tell(peer);
        false
    }

    /// Once for each stranger.
    fn tell(&self, peer: Option<PeerId>) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() >= MAX_TOLD || !told.insert(peer) {
            return;
        }
        self.screen.say(&match peer {
            Some(id) => match peers::name(id) {
                Some(name) => format!("refused {name}: `--allow-peer {name}` would admit it"),
                None => format!("refused a peer: `--allow-peer {id}` would admit it"),
            },
            None => "refused a peer without an identity".to_owned(),
        });
    }
}

impl Allowed {
    fn read(who: &[String], file: Option<&Path>) -> anyhow::Result<Self> {
        let secrets = identity::read(file)?.ok_or_else(|| {
            usage(
                "`--allow-peer` makes a ticket that lasts, which needs an identity: run `manyway \
                 id` once, and then this again",
            )
        })?;
        let mut names = BTreeMap::new();
        let mut known: Option<Peers> = None;
        for who in who {
            let id = match peers::is_name(who) {
                true => {
                    let peers = match known.take() {
                        Some(peers) => peers,
                        None => Peers::read()?,
                    };
                    known.insert(peers).find(who)?.id()
                }
                false => who
                    .parse()
                    .map_err(|error| usage(format!("`--allow-peer`: {error}")))?,
            };
            names.insert(id, who.clone());
        }
        Ok(Self { names, secrets })
    }
}

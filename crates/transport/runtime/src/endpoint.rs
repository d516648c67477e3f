//! The endpoint: a set of sockets, and all connections over them.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use manyway_session::{
    self as session, CloseReason, Config, ConfigError, RelayAccess, RelayAddress, Secrets, Ticket,
};
use manyway_wire::MAX_ADDRESSES;
use nix::net::if_::if_nametoindex;
use rand::SeedableRng;
use rand::rngs::{ChaCha20Rng, SysRng};

use crate::addresses::{InterfaceAddress, interface_addresses};
use crate::clock::Clock;
use crate::connection::Connection;
use crate::driver::shared::Shared;
use crate::driver::slot::ConnectionState;
use crate::driver::sockets::Sockets;
use crate::driver::thread;
use crate::driver::watch::SCAN;
use crate::error::{BindError, ConnectError};
use crate::event::{Event, Events};
use crate::interfaces::{InterfaceSelection, PathSelector, Place};
use crate::log::Log;
use crate::problem::{PathPair, PathProblem, foresee, is_impossible};
use crate::tcp::dial::{keep_dialled, targets};
use crate::tcp::{self, Carriers, TcpOptions};
use crate::unanswered::Unanswered;

/// Longest wait of [`Endpoint::close`].
const LONGEST_CLOSE: Duration = Duration::from_secs(2);
/// Ports that the system chooses are tried so often until one is free for TCP as well.
const PORT_TRIES: u32 = 16;

/// How to bind an [`Endpoint`].
#[derive(Clone, Debug, Default)]
pub struct EndpointOptions {
    /// How connections behave.
    pub config: Config,
    /// The ways out of the host to use. Empty: every interface that is up and leads outside this
    /// host (bridges to containers and guests don't), or loopback if none does.
    pub paths: Vec<PathSelector>,
    /// UDP port of every socket; 0 for any, the same on all addresses where possible.
    pub port: u16,
    /// What is done about TCP; without [`Endpoint::listen_tcp`] none is accepted.
    pub tcp: TcpOptions,
    /// Directory for a qlog file of each path, made if missing: packets, congestion windows and
    /// round-trip times, for [qvis](https://qvis.quictools.info). A file has at most 256 MiB, and
    /// is whole after [`Endpoint::close`].
    pub qlog: Option<PathBuf>,
}

/// A set of sockets, one per local address, and every connection over them.
///
/// A cheap handle; the sockets live in a thread of their own until every endpoint, connection and
/// stream handle is gone and the connections have said goodbye. Interfaces that come and go are
/// followed. Handles may be used from any runtime, and outlive the one in which they were made.
///
/// Before the program ends, await [`Endpoint::close`]. The sockets' thread ends with the process,
/// and peers that it hasn't told of the end by then wait for their idle timeout.
#[derive(Debug)]
pub struct Endpoint {
    shared: Arc<Shared>,
}

impl Endpoint {
    /// Binds a socket to every address that `options` name. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// An interface or address doesn't exist or can't be bound, or the configuration can't work.
    pub async fn bind(options: EndpointOptions) -> Result<Self, BindError> {
        let EndpointOptions {
            config,
            paths,
            port,
            tcp,
            qlog: log_dir,
        } = options;
        if let Some(congestion) = &tcp.congestion {
            congestion.check()?;
        }
        if config.connect_timeout.is_zero() {
            return Err(BindError::Config(ConfigError::OutOfRange {
                field: "connect_timeout",
                range: "more than 0",
            }));
        }
        let config = Config {
            udp: config.udp && tcp.carriers != Carriers::Tcp,
            ..config
        };
        let log = log_dir.map(Log::new).transpose()?;
        let config = match &log {
            Some(log) => Config {
                observers: Some(log.observers()),
                ..config
            },
            None => config,
        };
        let present = scan().await?;
        let selection = select(paths, &present)?;
        let mut seed = [0; 32];
        aws_lc_rs::rand::fill(&mut seed).map_err(|_| BindError::Random)?;
        let session = session::Endpoint::new(Arc::new(config), seed)?;
        let places = selection.places(&present);
        let shared = Shared::new(Clock::start(), session, selection, tcp);
        let endpoint = Self::hold(shared.clone());
        let bind = move |shared: &Shared| bind_sockets(&places, port, &shared.tcp);
        thread::start(shared.clone(), bind).await?;
        if let Some(log) = log {
            log.keep(&shared)?;
        }
        Ok(endpoint)
    }

    fn hold(shared: Arc<Shared>) -> Self {
        shared.look(|state| state.handles += 1);
        Self { shared }
    }

    /// Accepts connections from holders of the returned ticket, which names this endpoint's
    /// addresses. Its secret is new; its key is that of [`Config::identity`], if there is one. Each
    /// connection is told of addresses that the endpoint gains later.
    ///
    /// # Errors
    /// The system gave no random numbers for the ticket's secrets, or the endpoint is closed.
    pub fn listen(&self) -> Result<Ticket, BindError> {
        let mut rng = ChaCha20Rng::try_from_rng(&mut SysRng).map_err(|_| BindError::Random)?;
        let identity = self.shared.look(|state| match state.closing {
            true => Err(BindError::Closed),
            false => Ok(state.session.identity().cloned()),
        })?;
        let secrets = match identity {
            Some(identity) => Secrets::of(&identity, &mut rng),
            None => Secrets::generate(&mut rng),
        };
        Ok(self.listen_by(secrets, session::Endpoint::listen))
    }

    /// As [`Endpoint::listen`], with the secrets of an earlier ticket, so that copies of it work
    /// again: those who have one find the same peer, wherever it listens, and are told of its
    /// addresses when they have connected. Nobody answers at a closed endpoint.
    pub fn listen_with(&self, secrets: Secrets) -> Ticket {
        self.listen_by(secrets, session::Endpoint::listen_again)
    }

    /// An address is in the ticket, or connections are told of it.
    fn listen_by(
        &self,
        secrets: Secrets,
        listen: impl FnOnce(&mut session::Endpoint, Secrets),
    ) -> Ticket {
        self.shared.act(|state| {
            let addresses = state.locals.values().map(|(_, addr)| *addr);
            let ticket = secrets.ticket(addresses.take(MAX_ADDRESSES).collect());
            listen(&mut state.session, secrets);
            ticket
        })
    }

    /// Accepts TCP connections too, on the addresses and the port of the sockets, from peers that
    /// can't use UDP or don't want to. May be called outside a tokio runtime.
    ///
    /// # Errors
    /// None of the addresses can be bound, as when another program listens on the port, or the
    /// endpoint is closed.
    pub fn listen_tcp(&self) -> Result<(), BindError> {
        tcp::listen::listen(&self.shared)
    }

    /// Registers with these relays and names them in the ticket. A holder of the ticket who may use
    /// one of the relays can then connect through it, even if none of this endpoint's addresses can
    /// be reached; over TCP too, unless that is switched off. A ticket has room for 8 relays.
    pub fn listen_at(&self, ticket: &mut Ticket, relays: &[RelayAddress]) {
        tcp::relay_accept::listen_at(&self.shared, &ticket.secret, relays);
        let now = self.shared.clock.now();
        self.shared
            .act(|state| state.session.listen_at(now, ticket.id, relays));
        let named = relays.iter().map(|relay| (relay.address, relay.id));
        ticket.relays.extend(named);
    }

    /// The relays of [`Endpoint::listen_at`] that haven't answered so far, each by one of its
    /// addresses.
    pub fn silent_relays(&self) -> Vec<SocketAddr> {
        self.shared.look(|state| state.session.silent_relays())
    }

    /// Asks these relays or registries repeatedly which address our datagrams come from, which also
    /// keeps a NAT's mapping alive.
    pub fn observe_at(&self, observers: &[RelayAddress]) {
        let now = self.shared.clock.now();
        self.shared
            .act(|state| state.session.observe_at(now, observers));
    }

    /// Our addresses as the observers have reported them so far.
    pub fn observed(&self) -> Vec<SocketAddr> {
        self.shared.look(|state| state.session.observed())
    }

    /// Opens our NAT for a peer that is about to connect from one of these addresses, by sending
    /// each a few empty datagrams.
    pub fn open_towards(&self, addresses: &[SocketAddr]) {
        let now = self.shared.clock.now();
        self.shared
            .act(|state| state.session.open_towards(now, addresses));
    }

    /// The sockets: their interface or address, and the address they are bound to.
    pub fn locals(&self) -> Vec<(String, SocketAddr)> {
        self.shared
            .look(|state| state.locals.values().cloned().collect())
    }

    /// What this host's tables say about the ways to these addresses, before anything is sent: each
    /// local address with each address of its family, and what speaks against the pair.
    ///
    /// # Errors
    /// The system's interfaces can't be listed.
    pub async fn foresee(
        &self,
        remotes: &[SocketAddr],
    ) -> Result<Vec<(PathPair, Option<PathProblem>)>, BindError> {
        let present = scan().await?;
        let places = self.shared.look(|state| state.selection.places(&present));
        let pairs = places.iter().flat_map(|place| {
            let fits = |remote: &&SocketAddr| !is_impossible(place.ip, **remote);
            remotes.iter().filter(fits).map(|&remote| {
                let pair = PathPair {
                    name: place.name(),
                    local: place.ip,
                    remote,
                };
                let kind = foresee(place, remote.ip());
                let problem = kind.map(|kind| PathProblem::new(place, remote, kind));
                (pair, problem)
            })
        });
        Ok(pairs.collect())
    }

    /// The next connection that a peer opened; `None` when the endpoint is closed.
    pub async fn accept(&self) -> Option<Connection> {
        let handle = self.shared.act_until(&self.shared.incoming, |state| {
            let handle = state.waiting.pop_front();
            let held = handle.and_then(|handle| {
                state.slots.get_mut(&handle)?.handles += 1;
                Some(handle)
            });
            if held.is_some() {
                Some(held)
            } else {
                state.closing.then_some(None)
            }
        });
        Some(Connection::new(self.shared.clone(), handle.await?))
    }

    /// Connects to the listener that made the ticket, over every pair of addresses that can reach
    /// each other, and through the relays that the ticket gives access to. Dropping the future
    /// gives the attempt up.
    ///
    /// # Errors
    /// The listener didn't answer, the ticket can't be used from here, or the endpoint was closed.
    pub async fn connect(&self, ticket: &Ticket) -> Result<Connection, ConnectError> {
        self.connect_through(ticket, &[]).await
    }

    /// As [`Endpoint::connect`]; if no address can be reached, it connects through the relays that
    /// the ticket names and that `relays` or the ticket itself gives access to. It then offers all
    /// of them to the connection: see [`Connection::add_relays`].
    ///
    /// # Errors
    /// As [`Endpoint::connect`].
    pub async fn connect_through(
        &self,
        ticket: &Ticket,
        relays: &[RelayAccess],
    ) -> Result<Connection, ConnectError> {
        self.connect_met(ticket, relays, std::future::pending())
            .await
    }

    /// As [`Endpoint::connect_through`], and also at the addresses that `met` returns: those that
    /// the listener has left at a meeting place. The listener should send to our addresses at the
    /// same time ([`Endpoint::open_towards`]).
    ///
    /// # Errors
    /// As [`Endpoint::connect`].
    pub async fn connect_met(
        &self,
        ticket: &Ticket,
        relays: &[RelayAccess],
        met: impl Future<Output = Vec<SocketAddr>>,
    ) -> Result<Connection, ConnectError> {
        let relays = with_lent(ticket, relays);
        let connection = self.dial(ticket, &relays).await?;
        self.answered(connection, ticket, &relays, met).await
    }

    /// Begins to connect.
    async fn dial(
        &self,
        ticket: &Ticket,
        relays: &[RelayAccess],
    ) -> Result<Connection, ConnectError> {
        self.reach_loopback(ticket).await?;
        let now = self.shared.clock.now();
        let targets = targets(ticket, relays);
        let handle = self.shared.act(|state| {
            if state.closing {
                return Err(ConnectError::Closed);
            }
            let handle = state.session.connect_through(now, ticket, relays)?;
            state.on_connecting(handle, targets.iter().map(|to| to.address).collect());
            Ok(handle)
        })?;
        keep_dialled(&self.shared, handle, targets);
        Ok(Connection::new(self.shared.clone(), handle))
    }

    /// Waits for the listener's answer.
    async fn answered(
        &self,
        connection: Connection,
        ticket: &Ticket,
        relays: &[RelayAccess],
        met: impl Future<Output = Vec<SocketAddr>>,
    ) -> Result<Connection, ConnectError> {
        let (handle, signals) = (connection.handle(), connection.signals().clone());
        let state = self.shared.act_until(&signals.state, |state| {
            let state = state.slots.get(&handle)?.state.clone();
            (!matches!(state, ConnectionState::Connecting)).then_some(state)
        });
        let mut state = pin!(state);
        let state = tokio::select! {
            state = &mut state => state,
            addresses = met => {
                connection.add_remotes(&addresses);
                state.await
            }
        };
        match state {
            ConnectionState::Closed(
                CloseReason::ConnectTimedOut { relays: asked, .. },
                problems,
            ) => {
                let has_access = |id| relays.iter().any(|access| access.relay.id == id);
                let closed = ticket.relays.iter().filter(|(_, id)| !has_access(*id));
                Err(ConnectError::TimedOut(Box::new(Unanswered {
                    addresses: ticket.addresses.clone(),
                    udp: self.shared.tcp.carriers != Carriers::Tcp,
                    locals: self.locals().iter().map(|(_, addr)| addr.ip()).collect(),
                    problems,
                    tcp: self.shared.look(|state| state.tcp_outcomes(handle)),
                    relays: asked,
                    closed_relays: closed.map(|(address, _)| *address).collect(),
                })))
            }
            ConnectionState::Closed(CloseReason::Local, _) => Err(ConnectError::Closed),
            ConnectionState::Closed(reason, _) => Err(ConnectError::Ended(reason)),
            ConnectionState::Connecting | ConnectionState::Established => {
                connection.add_relays(relays);
                Ok(connection)
            }
        }
    }

    /// A ticket of this very host, with nothing but loopback addresses, asks for a loopback socket.
    async fn reach_loopback(&self, ticket: &Ticket) -> Result<(), ConnectError> {
        let only_loopback =
            ticket.addresses.iter().all(|a| a.ip().is_loopback()) && !ticket.addresses.is_empty();
        let automatic = self.shared.look(|state| {
            state.selection.everything
                && !state
                    .locals
                    .values()
                    .any(|(_, addr)| addr.ip().is_loopback())
        });
        if only_loopback && automatic {
            let add = self.add_path(PathSelector::Address(Ipv4Addr::LOCALHOST.into()));
            add.await.map_err(|_| ConnectError::Closed)?;
        }
        Ok(())
    }

    /// Adds a way out of the host; live connections start to use it.
    ///
    /// # Errors
    /// There is no such interface or address now, or the endpoint is closed. An address that can't
    /// be bound is tried again each second.
    pub async fn add_path(&self, selector: PathSelector) -> Result<(), BindError> {
        let present = scan().await?;
        let places = check(&selector, &present)?;
        let mut events = self.events();
        let added = self.shared.act(|state| {
            if state.stop {
                return Err(BindError::Closed);
            }
            state.selection.excluded.remove(&selector);
            state.selection.selectors.insert(selector);
            state.places = Some(state.selection.places(&present));
            Ok(!state
                .locals
                .values()
                .any(|(_, addr)| places.contains(&addr.ip())))
        })?;
        if added {
            // The driver binds it in its next turn.
            let bound = async {
                loop {
                    match events.recv().await {
                        Some(Event::LocalAdded { addr, .. }) if places.contains(&addr.ip()) => {
                            break;
                        }
                        Some(_) => {}
                        None => break,
                    }
                }
            };
            let _ = tokio::time::timeout(SCAN, bound).await;
        }
        Ok(())
    }

    /// Stops using an interface or address. Data in flight on its paths moves to the others.
    pub fn remove_path(&self, selector: &PathSelector) {
        self.shared.act(|state| {
            state.selection.selectors.remove(selector);
            state.selection.excluded.insert(selector.clone());
        });
        self.shared.rescan.notify_one();
    }

    /// Events of the local sockets from now on: which came and went, and why no path works from
    /// one. They end when the endpoint is closed.
    pub fn events(&self) -> Events {
        self.shared.look(|state| state.events())
    }

    /// Closes every connection, tells the peers, and gives the sockets back, those that listen for
    /// TCP too. Handles that remain see [`CloseReason::Local`].
    pub async fn close(self) {
        let now = self.shared.clock.now();
        self.shared
            .act(|state| state.close_all(now, &self.shared.incoming));
        let clock = self.shared.clock;
        let drained = self.shared.act_until(&self.shared.idle, |state| {
            (state.stopped || state.is_drained(clock.now())).then_some(())
        });
        // A round trip of seconds is no reason to keep the program from ending.
        let _ = tokio::time::timeout(LONGEST_CLOSE, drained).await;
        self.shared.act(|state| state.stop = true);
        self.shared
            .act_until(&self.shared.idle, |state| state.is_gone().then_some(()))
            .await;
    }
}

impl Clone for Endpoint {
    fn clone(&self) -> Self {
        Self::hold(self.shared.clone())
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        let now = self.shared.clock.now();
        self.shared.act(|state| state.let_endpoint_go(now));
    }
}

/// This access, and the ticket's own to other relays.
fn with_lent(ticket: &Ticket, relays: &[RelayAccess]) -> Vec<RelayAccess> {
    let mut all = relays.to_vec();
    for lent in ticket.relays_with_access() {
        if !relays.iter().any(|own| own.relay.id == lent.relay) {
            all.extend(RelayAccess::of(&lent));
        }
    }
    all
}

async fn scan() -> Result<Vec<InterfaceAddress>, BindError> {
    let scanned = match tokio::task::spawn_blocking(interface_addresses).await {
        Ok(scanned) => scanned,
        // The runtime ends, and this task with it: there is nobody to tell.
        Err(stopped) if stopped.is_cancelled() => std::future::pending().await,
        Err(stopped) => Err(stopped.into()),
    };
    scanned.map_err(BindError::Interfaces)
}

/// What the endpoint wants sockets on, every selector of which must mean something now.
fn select(
    paths: Vec<PathSelector>,
    present: &[InterfaceAddress],
) -> Result<InterfaceSelection, BindError> {
    for selector in &paths {
        check(selector, present)?;
    }
    let mut selection = InterfaceSelection {
        everything: paths.is_empty(),
        selectors: paths.into_iter().collect(),
        ..InterfaceSelection::default()
    };
    if selection.places(present).is_empty() {
        selection
            .selectors
            .insert(PathSelector::Address(Ipv4Addr::LOCALHOST.into()));
    }
    Ok(selection)
}

/// The addresses that a selector means now.
fn check(
    selector: &PathSelector,
    present: &[InterfaceAddress],
) -> Result<BTreeSet<IpAddr>, BindError> {
    let places = InterfaceSelection {
        selectors: BTreeSet::from([selector.clone()]),
        ..InterfaceSelection::default()
    }
    .places(present);
    if !places.is_empty() {
        return Ok(places.into_iter().map(|place| place.ip).collect());
    }
    let available = available(present);
    Err(match selector {
        PathSelector::Address(ip) => BindError::NoAddress { ip: *ip, available },
        // One that has no address at all isn't among those present.
        PathSelector::Interface(name) if if_nametoindex(name.as_str()).is_ok() => {
            BindError::Unusable {
                name: name.clone(),
                available,
            }
        }
        PathSelector::Interface(name) => BindError::NoInterface {
            name: name.clone(),
            available,
        },
    })
}

/// "eth0 (192.0.2.7, 2001:db8::7), wlan0 (198.51.100.3)"
fn available(present: &[InterfaceAddress]) -> String {
    let names: BTreeSet<_> = present.iter().map(|a| &a.interface).collect();
    let usable = names.into_iter().filter_map(|name| {
        let selector = PathSelector::Interface(name.clone());
        let selection = InterfaceSelection {
            selectors: BTreeSet::from([selector]),
            ..InterfaceSelection::default()
        };
        let addresses: Vec<_> = selection
            .places(present)
            .iter()
            .map(|place| place.ip.to_string())
            .collect();
        (!addresses.is_empty()).then(|| format!("{name} ({})", addresses.join(", ")))
    });
    let usable: Vec<_> = usable.collect();
    if usable.is_empty() {
        "none: no interface is up".into()
    } else {
        usable.join(", ")
    }
}

/// Where the system chooses the port, one that no TCP connection has: [`Endpoint::listen_tcp`]
/// wants the same.
fn bind_sockets(
    places: &BTreeSet<Place>,
    port: u16,
    tcp: &TcpOptions,
) -> Result<Sockets, BindError> {
    let matters = port == 0 && tcp.carriers != Carriers::Udp;
    for _ in 0..PORT_TRIES {
        let sockets = Sockets::bind(places, port)?;
        if !matters || sockets.are_free_for_tcp() {
            return Ok(sockets);
        }
    }
    Sockets::bind(places, port)
}

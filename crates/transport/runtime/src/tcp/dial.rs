//! Dials one TCP connection for each pair of addresses that needs one, for as long as the session
//! lives and including addresses that the listener gains later. If a pair leads to a relay, the
//! dialler asks the relay to connect it with the listener.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Weak};
use std::time::Duration;

use manyway_session::{
    CarrierKind, ConnectionHandle, ListenerName, LocalId, PathState, Purpose, RelayAccess, RelayId,
    Ticket, listen_key, listener_name,
};
use manyway_units::Backoff;
use manyway_wire::MAX_RELAYS;
use tokio::net::TcpSocket;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use crate::driver::shared::{Shared, State};
use crate::driver::slot::ConnectionState;
use crate::interfaces::Place;
use crate::problem::{self, foresee};
use crate::tcp_relay::connect_through;
use crate::unanswered::TcpResult;

use super::Carriers;
use super::carrier::{NewCarrier, start};
use super::listen::device;
use super::options::{Congestion, connecting};
use super::outbox::End;

/// Time between the dials of two pairs, as between INITs.
const STAGGER: Duration = Duration::from_millis(250);
/// How long UDP alone is tried where it is preferred.
const HEAD_START: Duration = Duration::from_millis(500);
/// A pair of a live connection without UDP gets TCP after this: by then UDP's challenges were
/// repeated twice.
const UDP_PATIENCE: Duration = Duration::from_secs(3);
/// How long a TCP connection may take to be set up.
const DIALLING: Duration = Duration::from_secs(10);
/// Before a pair that failed is dialled again.
const RETRY: Backoff = Backoff::new(Duration::from_secs(5), Duration::from_secs(60));

/// A local socket, and an address of the listener's or of a relay.
type Pair = (LocalId, SocketAddr);

/// Where to dial.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    /// Set if a relay is there: it is asked to connect us with the listener.
    route: Option<Box<RelayRoute>>,
}

/// The way to a listener through a relay.
#[derive(Clone, Debug)]
struct RelayRoute {
    access: RelayAccess,
    listener: ListenerName,
}

/// The listener's addresses, and those relays that it listens at, as the ticket says, and that we
/// have access to.
pub(crate) fn targets(ticket: &Ticket, relays: &[RelayAccess]) -> Vec<Target> {
    let direct = ticket.addresses.iter().map(|&address| Target {
        address,
        route: None,
    });
    let named = relays.iter().filter(|access| {
        let mut listed = ticket.relays.iter();
        listed.any(|(_, id)| *id == access.relay.id)
    });
    let through = named.map(|access| {
        let listener = listener_name(&listen_key(&ticket.secret, &access.relay.id));
        Target {
            address: access.relay.address,
            route: Some(Box::new(RelayRoute {
                access: access.clone(),
                listener,
            })),
        }
    });
    direct.chain(through).collect()
}

/// The state of a pair.
#[derive(Debug, Default)]
struct Line {
    route: Option<Box<RelayRoute>>,
    carrier: Option<LocalId>,
    dialling: bool,
    failures: u32,
    retry: Option<Instant>,
    /// Since when UDP hasn't worked there.
    without_udp: Option<Instant>,
}

struct Dialler {
    shared: Weak<Shared>,
    handle: ConnectionHandle,
    targets: Vec<Target>,
    began: Instant,
    lines: BTreeMap<Pair, Line>,
    dials: JoinSet<(Pair, io::Result<LocalId>, TcpResult)>,
}

/// What a turn needs to know about the connection.
struct View {
    established: bool,
    locals: BTreeMap<LocalId, (String, SocketAddr)>,
    /// Local address and remote of UDP paths that work without a relay.
    udp: Vec<(SocketAddr, SocketAddr)>,
    /// Whether any UDP path works.
    any_udp: bool,
    live: Vec<LocalId>,
    /// Further addresses that the listener has told since.
    told: Vec<SocketAddr>,
    /// Newer access to relays.
    renewed: Vec<RelayAccess>,
    /// The relays that may be dialled; `None` for all.
    picked: Option<Vec<RelayId>>,
    mode: Carriers,
    congestion: Option<Congestion>,
}

/// Dials these for a connection, or an attempt at one, from every local address that fits.
pub(crate) fn keep_dialled(shared: &Arc<Shared>, handle: ConnectionHandle, targets: Vec<Target>) {
    if shared.tcp.carriers == Carriers::Udp {
        return;
    }
    let dialler = Dialler {
        shared: Arc::downgrade(shared),
        handle,
        targets,
        began: Instant::now(),
        lines: BTreeMap::new(),
        dials: JoinSet::new(),
    };
    let tasks = match shared.tcp_tasks() {
        Ok(tasks) => tasks,
        Err(error) => return tracing::warn!(%error, "can't connect over TCP"),
    };
    shared.look(|state| state.expect_access(handle));
    tasks.spawn(dialler.run());
}

impl Dialler {
    async fn run(mut self) {
        let mut ticks = interval(STAGGER);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                Some(dialled) = self.dials.join_next() => {
                    if let Ok((pair, result, outcome)) = dialled {
                        self.on_dialled(pair, result, outcome);
                    }
                    continue;
                }
            }
            let Some(shared) = self.shared.upgrade() else {
                return;
            };
            let Some(view) = self.look(&shared) else {
                return;
            };
            self.renew(&view.renewed);
            self.turn(&shared, &view);
        }
    }

    /// `None` when there is nothing to dial for any more.
    fn look(&self, shared: &Shared) -> Option<View> {
        shared.look(|state| {
            let established = match state.slots.get(&self.handle)?.state {
                ConnectionState::Connecting => false,
                ConnectionState::Established => true,
                ConnectionState::Closed(..) => return None,
            };
            let renewed = state.take_access(self.handle);
            let connection = state.session.connection(self.handle);
            let told = connection.as_ref().map(|c| c.peer_addresses().to_vec());
            let picked = connection.as_ref().and_then(|c| c.relays_to_dial());
            let stats = connection.map(|c| c.stats());
            let udp = stats
                .iter()
                .flat_map(|stats| &stats.paths)
                .filter(|path| path.carrier == CarrierKind::Udp && path.state == PathState::Active);
            (!state.stop).then(|| View {
                established,
                any_udp: udp.clone().next().is_some(),
                udp: udp
                    .filter(|path| !path.relay)
                    .map(|path| (path.local, path.remote))
                    .collect(),
                locals: state.locals.clone(),
                live: state.live_carriers(),
                told: told.unwrap_or_default(),
                renewed,
                picked,
                mode: shared.tcp.carriers,
                congestion: shared.tcp.congestion.clone(),
            })
        })
    }

    fn turn(&mut self, shared: &Arc<Shared>, view: &View) {
        let now = Instant::now();
        self.note_ended(now, view);
        self.draw_lines(view);
        let Self { lines, .. } = self;
        let mut wanted = Vec::new();
        for (&(local, remote), line) in lines.iter_mut() {
            let addr = view.locals[&local].1;
            // A relay is the last resort: any way by UDP will do instead.
            let works = match line.route {
                Some(_) => view.any_udp,
                None => view.udp.contains(&(addr, remote)),
            };
            if works {
                line.without_udp = None;
            } else {
                line.without_udp.get_or_insert(now);
            }
            if view.mode == Carriers::Auto && works {
                // UDP has come up after all.
                if let Some(id) = line.carrier.take() {
                    shared.act(|state| state.end_carrier(id));
                }
                continue;
            }
            let idle = line.carrier.is_none() && !line.dialling;
            if idle && line.retry.is_none_or(|at| at <= now) {
                wanted.push((local, remote));
            }
        }
        wanted.retain(|pair| self.is_time(now, view, pair));
        // While nobody has answered, one after the other.
        if !view.established {
            wanted.truncate(1);
        } else if view.picked.is_some() {
            self.offer_relays(shared, now, view);
            wanted.retain(|pair| self.is_picked(view, pair));
        }
        for pair in wanted {
            if !self.is_taken(view, &pair) && self.may_dial(shared, view, &pair) {
                self.dial(shared, view, pair);
            }
        }
    }

    /// A line for each pair that there is now.
    fn draw_lines(&mut self, view: &View) {
        let Self { lines, targets, .. } = self;
        let told = view.told.iter().map(|&address| Target {
            address,
            route: None,
        });
        // What the ticket says of an address comes last, and holds.
        let targets: Vec<Target> = told.chain(targets.iter().cloned()).collect();
        let known: BTreeSet<SocketAddr> = targets.iter().map(|target| target.address).collect();
        lines.retain(|(local, remote), line| {
            let busy = line.carrier.is_some() || line.dialling;
            view.locals.contains_key(local) && (busy || known.contains(remote))
        });
        for (&local, (_, addr)) in &view.locals {
            for target in &targets {
                if !problem::is_impossible(addr.ip(), target.address) {
                    let line = lines.entry((local, target.address)).or_default();
                    line.route = target.route.clone();
                }
            }
        }
    }

    /// From now on relays are asked with the access that was given last.
    fn renew(&mut self, renewed: &[RelayAccess]) {
        let routes = self.targets.iter_mut().filter_map(|t| t.route.as_mut());
        for route in routes {
            let relay = route.access.relay;
            let newer = renewed.iter().rev().find(|new| new.relay == relay);
            if let Some(newer) = newer {
                route.access = newer.clone();
            }
        }
    }

    fn is_time(&self, now: Instant, view: &View, pair: &Pair) -> bool {
        match (view.mode, view.established) {
            (Carriers::Udp, _) => false,
            (Carriers::Tcp, _) => true,
            (Carriers::Auto, false) => self.began + HEAD_START <= now,
            (Carriers::Auto, true) => {
                let since = self.lines.get(pair).and_then(|line| line.without_udp);
                since.is_some_and(|since| since + UDP_PATIENCE <= now)
            }
        }
    }

    /// Whether the session lets this address be dialled: the peer may have named somebody else's.
    fn may_dial(&self, shared: &Shared, view: &View, pair: &Pair) -> bool {
        let named = self
            .lines
            .get(pair)
            .is_some_and(|line| line.route.is_none())
            && !self.targets.iter().any(|target| target.address == pair.1);
        if !named {
            return true;
        }
        let local = view.locals[&pair.0].1.ip();
        let now = shared.clock.now();
        shared.look(|state| {
            let connection = state.session.connection(self.handle);
            connection.is_some_and(|c| c.may_dial(now, local, pair.1))
        })
    }

    /// Tells the session which relays it may pick: those that could be dialled.
    fn offer_relays(&self, shared: &Shared, now: Instant, view: &View) {
        let mut relays: Vec<RelayAccess> = Vec::new();
        for (pair, line) in &self.lines {
            if let Some(route) = &line.route
                && self.is_time(now, view, pair)
                && !relays
                    .iter()
                    .any(|known| known.relay.id == route.access.relay.id)
            {
                relays.push(route.access.clone());
            }
        }
        shared.act(|state| {
            if let Some(connection) = state.session.connection(self.handle) {
                connection.relays_over_tcp(&relays);
            }
        });
    }

    fn is_picked(&self, view: &View, pair: &Pair) -> bool {
        let route = self.lines.get(pair).and_then(|line| line.route.as_ref());
        match (route, &view.picked) {
            (Some(route), Some(picked)) => picked.contains(&route.access.relay.id),
            _ => true,
        }
    }

    /// Whether the interface already has a connection to the relay at another address of it:
    /// several would take several shares of a common bottleneck.
    fn is_taken(&self, view: &View, pair: &Pair) -> bool {
        let relay = |line: &Line| Some(line.route.as_ref()?.access.relay.id);
        let name = |local| view.locals.get(local).map(|(name, _)| name);
        let wanted = self.lines.get(pair).and_then(relay);
        let others = self.lines.iter().filter(|(other, _)| *other != pair);
        wanted.is_some()
            && others
                .filter(|((local, _), line)| relay(line) == wanted && name(local) == name(&pair.0))
                .any(|(_, line)| line.dialling || line.carrier.is_some())
    }

    fn note_ended(&mut self, now: Instant, view: &View) {
        for line in self.lines.values_mut() {
            if let Some(id) = line.carrier
                && !view.live.contains(&id)
            {
                line.carrier = None;
                // One that is closed because others are picked hasn't failed.
                if line.route.is_none() || view.picked.is_none() {
                    line.fail(now);
                }
            }
        }
    }

    fn dial(&mut self, shared: &Arc<Shared>, view: &View, pair: Pair) {
        let Some(line) = self.lines.get_mut(&pair) else {
            return;
        };
        line.dialling = true;
        let route = line.route.clone();
        let (name, addr) = view.locals[&pair.0].clone();
        let (shared, handle, congestion) = (shared.clone(), self.handle, view.congestion.clone());
        self.dials.spawn(async move {
            let from = SocketAddr::new(addr.ip(), 0);
            let relay = route.is_some();
            let dialled = connect(from, &name, pair.1, congestion.as_ref()).await;
            let dialled = match (dialled, route) {
                (Ok(stream), Some(route)) => {
                    let connected = connect_through(stream, &route.access, route.listener).await;
                    connected.map_err(io::Error::other)
                }
                (dialled, _) => dialled,
            };
            let started = dialled.and_then(|stream| {
                let purpose = Purpose::Dialled(handle);
                start(
                    &shared,
                    NewCarrier {
                        stream,
                        name: name.clone(),
                        purpose,
                        relay,
                    },
                )
            });
            let outcome = match &started {
                Ok(_) => TcpResult::Connected,
                Err(error) => failure(error, &name, from.ip(), pair.1.ip()),
            };
            (pair, started, outcome)
        });
    }

    fn on_dialled(&mut self, pair: Pair, result: io::Result<LocalId>, outcome: TcpResult) {
        let remote = pair.1;
        let Some(line) = self.lines.get_mut(&pair) else {
            return;
        };
        line.dialling = false;
        let to = (remote, line.route.is_some());
        let handle = self.handle;
        if let Some(shared) = self.shared.upgrade() {
            shared.look(|state| state.note_tcp(handle, to, outcome));
        }
        match result {
            Ok(id) => {
                line.carrier = Some(id);
                line.failures = 0;
            }
            Err(error) => {
                tracing::debug!(%remote, %error, "can't open a TCP connection");
                line.fail(Instant::now());
                if let Some(shared) = self.shared.upgrade() {
                    let at = shared.clock.now();
                    let relay = line.route.as_ref().map(|route| route.access.relay.id);
                    shared.act(|state| {
                        let connection = state.session.connection(handle);
                        if let (Some(connection), Some(relay)) = (connection, relay) {
                            connection.on_dial_failed(at, relay);
                        }
                    });
                }
            }
        }
    }
}

impl Line {
    fn fail(&mut self, now: Instant) {
        self.retry = Some(now + RETRY.delay(self.failures));
        self.failures += 1;
    }
}

/// What became of a TCP connection that failed. Who says that there is no way, this host's tables
/// or somebody on it?
fn failure(error: &io::Error, name: &str, from: IpAddr, to: IpAddr) -> TcpResult {
    match TcpResult::of(error) {
        TcpResult::Unreachable if foresee(&Place::named(name, from), to).is_some() => {
            TcpResult::NoRoute
        }
        result => result,
    }
}

/// A connection from this address, set up in time.
pub(crate) async fn connect(
    from: SocketAddr,
    name: &str,
    to: SocketAddr,
    congestion: Option<&Congestion>,
) -> io::Result<tokio::net::TcpStream> {
    let socket = connecting(from, device(name), congestion)?;
    let socket = TcpSocket::from_std_stream(socket.into());
    match timeout(DIALLING, socket.connect(to)).await {
        Ok(connected) => connected,
        Err(_) => Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "no answer within 10 s",
        )),
    }
}

impl State {
    /// Access to relays that is given from now on is kept for who dials.
    fn expect_access(&mut self, handle: ConnectionHandle) {
        if let Some(slot) = self.slots.get_mut(&handle) {
            slot.access = Some(BTreeMap::new());
        }
    }

    /// Access to relays was given.
    pub(crate) fn note_access(&mut self, handle: ConnectionHandle, relays: &[RelayAccess]) {
        let slot = self.slots.get_mut(&handle);
        if let Some(kept) = slot.and_then(|slot| slot.access.as_mut()) {
            let relays = relays.iter().take(MAX_RELAYS);
            kept.extend(relays.map(|access| (access.relay.address, access.clone())));
        }
    }

    fn take_access(&mut self, handle: ConnectionHandle) -> Vec<RelayAccess> {
        let slot = self.slots.get_mut(&handle);
        let kept = slot.and_then(|slot| slot.access.as_mut());
        kept.map_or_else(Vec::new, |kept| {
            std::mem::take(kept).into_values().collect()
        })
    }

    fn live_carriers(&self) -> Vec<LocalId> {
        self.carriers.keys().copied().collect()
    }

    fn end_carrier(&mut self, id: LocalId) {
        if let Some(outbox) = self.carriers.get_mut(&id) {
            outbox.finish(End::Flush);
        }
    }
}

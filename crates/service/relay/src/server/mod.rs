//! The relay on sockets: one thread, batches in both directions.

mod forward;
mod invites_file;
mod key_file;
mod metrics;
mod requests;
mod socket;
mod splice;
mod streams;

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use manyway_os::{ClockCheck, UnixClock, tcp_listener};
use manyway_wire::relay::{GRANT_LIFE, RelayId};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rand::SeedableRng;
use rand::rngs::ChaCha20Rng;
use rand::rngs::SysRng;

pub use invites_file::{InvitesFile, InvitesFileError};
pub use key_file::{KeyFile, KeyFileError};
pub use metrics::{MetricsError, serve_metrics};
pub use streams::{StreamServer, affordable_connections};

use crate::exposition::Exposition;
use crate::{Config, Counters, Gate, Invites, Keys, Rates, Relay, StreamCounters, StreamLimits};
use forward::Forwarder;
use invites_file::Watched;
use requests::Requests;
use socket::Socket;
use streams::Hub;

/// A relay's configuration.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// The addresses on which it listens: at most one of each family, since it must forward from
    /// the address to which its clients have said HELLO.
    pub listen: Vec<SocketAddr>,
    /// The path of its key file. Its list of invitations is beside it ([`InvitesFile`]), and the
    /// server follows it.
    pub key_file: PathBuf,
    /// The interval at which it makes new keys: at least two minutes.
    pub rotate: Duration,
    /// Its policy. The server adds the addresses on which it listens to `own`.
    pub relay: Config,
    /// Its TCP side, if it forwards streams over TCP, too.
    pub streams: Option<StreamConfig>,
}

/// The configuration of a relay's TCP side.
#[derive(Clone, Debug, Default)]
pub struct StreamConfig {
    /// The addresses on which it listens, at most one of each family. If empty, it uses those of
    /// UDP.
    pub listen: Vec<SocketAddr>,
    /// The most connections that it serves.
    pub limits: StreamLimits,
}

/// Why a relay can't start.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// No address to listen on.
    #[error("a relay needs an address to listen on")]
    NoAddress,
    /// Two addresses have the same family.
    #[error(
        "{0} and {1} are of the same family: listen on at most one address per family, since the \
         relay must forward from the address that got the listener's HELLO"
    )]
    SameFamily(SocketAddr, SocketAddr),
    /// The socket can't be bound.
    #[error("can't listen on {address} over {over}: {}", bind_problem(.error))]
    Bind {
        /// The address.
        address: SocketAddr,
        /// `UDP` or `TCP`.
        over: &'static str,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// The keys can't be read or written.
    #[error(transparent)]
    Keys(#[from] KeyFileError),
    /// The list of invitations can't be read.
    #[error(transparent)]
    Invites(#[from] InvitesFileError),
    /// The system provides no randomness.
    #[error("the system gives no random numbers")]
    Random,
    /// Waiting for the sockets failed.
    #[error("can't wait for the sockets: {0}")]
    Poll(#[source] io::Error),
}

fn bind_problem(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            "another program uses the port: stop it or choose another one".into()
        }
        io::ErrorKind::AddrNotAvailable => "this host doesn't have the address".into(),
        io::ErrorKind::PermissionDenied => {
            "not permitted: ports below 1024 need CAP_NET_BIND_SERVICE".into()
        }
        _ => error.to_string(),
    }
}

/// A relay with its sockets bound, not yet running.
pub struct Server {
    sockets: Vec<Socket>,
    forwarder: Forwarder,
    keys: KeyFile,
    invites: Watched,
    rotate: Duration,
    rng: ChaCha20Rng,
    clock: UnixClock,
    check: ClockCheck,
    streams: Option<StreamServer>,
    shared: Arc<Shared>,
}

struct Shared {
    counters: Mutex<Counters>,
    rates: Arc<Rates>,
    invites: Mutex<Invites>,
    /// The TCP side, if there is one.
    hub: OnceLock<Arc<Hub>>,
    requests: Arc<Requests>,
}

impl Shared {
    fn invites(&self) -> MutexGuard<'_, Invites> {
        self.invites.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Controls a running [`Server`] from elsewhere.
#[derive(Clone)]
pub struct Handle(Arc<Shared>);

impl Handle {
    /// The relay's counters, at most a tenth of a second old.
    pub fn counters(&self) -> Counters {
        *self
            .0
            .counters
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The counters of its TCP side, if it has one.
    pub fn streams(&self) -> Option<StreamCounters> {
        self.0.hub.get().map(|hub| hub.counters())
    }

    /// All counters in Prometheus' text format, version 0.0.4.
    pub fn to_prometheus(&self) -> String {
        let mut text = Exposition::default();
        self.counters().expose(&mut text);
        if let Some(streams) = self.streams() {
            streams.expose(&mut text);
        }
        self.0.rates.expose(&mut text, &self.0.invites());
        text.into_text()
    }

    /// Asks the relay to grant nothing new and to tell senders to use other paths.
    pub fn leave(&self) {
        self.0.requests.leave();
    }

    /// Asks the relay to stop. It stops within a tenth of a second.
    pub fn stop(&self) {
        self.0.requests.stop();
    }
}

/// How often the relay publishes counters, looks at the requests of a [`Handle`] and checks whether
/// its keys are due for renewal.
const TICK: Duration = Duration::from_millis(100);

/// Reads from a socket before the other one gets its turn.
const TURNS: usize = 4;

impl Server {
    /// Reads or makes the keys, and binds the sockets.
    ///
    /// # Errors
    /// [`ServerError`], each with its remedy.
    pub fn bind(config: ServerConfig) -> Result<Self, ServerError> {
        check_addresses(&config.listen)?;
        let mut rng = ChaCha20Rng::try_from_rng(&mut SysRng).map_err(|_| ServerError::Random)?;
        let clock = UnixClock::start();
        let keys = KeyFile::open(&config.key_file, clock.now(), &mut rng)?;
        let (sockets, stream_sockets) = bind_sockets(&config)?;
        let mut decides = config.relay;
        decides.own.extend(sockets.iter().map(Socket::address));
        let relay = Relay::new(decides.clone(), keys.keys(), &mut rng);
        let (invites, list) = InvitesFile::beside(&config.key_file).watch()?;
        let shared = Arc::new(Shared {
            counters: Mutex::default(),
            rates: relay.rates(),
            invites: Mutex::default(),
            hub: OnceLock::new(),
            requests: Arc::default(),
        });
        let streams = config.streams.map(|StreamConfig { limits, .. }| {
            let (keys, rates) = (keys.keys(), relay.rates());
            let gate = Gate::new(decides, limits.clone(), keys, rates, &mut rng);
            let rng = ChaCha20Rng::from_rng(&mut rng);
            let hub = Arc::new(Hub::new(gate, limits, clock, rng, relay.rates()));
            shared.hub.set(Arc::clone(&hub)).ok();
            StreamServer {
                sockets: stream_sockets,
                hub,
                requests: Arc::clone(&shared.requests),
            }
        });
        let mut server = Self {
            streams,
            sockets,
            forwarder: Forwarder::new(relay),
            keys,
            invites,
            rotate: config.rotate.max(GRANT_LIFE),
            rng,
            clock,
            check: ClockCheck::new(clock),
            shared,
        };
        server.set_invites(list);
        Ok(server)
    }

    /// The relay's id.
    pub fn id(&self) -> RelayId {
        self.forwarder.relay().id()
    }

    /// The addresses on which it listens, with the ports that the system chose.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.sockets.iter().map(Socket::address).collect()
    }

    /// The addresses on which it listens over TCP, before the first call of
    /// [`Server::take_streams`].
    pub fn stream_addresses(&self) -> Vec<SocketAddr> {
        self.streams
            .iter()
            .flat_map(StreamServer::addresses)
            .collect()
    }

    /// Its TCP side, once: run it on a tokio runtime beside [`Server::run`].
    pub fn take_streams(&mut self) -> Option<StreamServer> {
        self.streams.take()
    }

    /// A handle to control it while it runs.
    pub fn handle(&self) -> Handle {
        Handle(Arc::clone(&self.shared))
    }

    /// Forwards until somebody stops it. Blocks, so give it a thread.
    ///
    /// # Errors
    /// The system can't wait for the sockets any more.
    pub fn run(mut self) -> Result<(), ServerError> {
        let mut next_tick = Instant::now();
        while !self.shared.requests.is_stopping() {
            let ready = self.wait(next_tick.saturating_duration_since(Instant::now()))?;
            for (at, _) in ready.iter().enumerate().filter(|(_, ready)| **ready) {
                for _ in 0..TURNS {
                    if !self.forwarder.serve(&self.sockets, at, self.clock.now()) {
                        break;
                    }
                }
            }
            if Instant::now() >= next_tick {
                next_tick = Instant::now() + TICK;
                self.tick();
            }
        }
        self.tick();
        Ok(())
    }

    /// The sockets with something to read.
    fn wait(&self, timeout: Duration) -> Result<Vec<bool>, ServerError> {
        let mut fds: Vec<PollFd<'_>> = self
            .sockets
            .iter()
            .map(|socket| PollFd::new(socket.as_fd(), PollFlags::POLLIN))
            .collect();
        // Rounded up: a remainder of less than a millisecond would be a busy loop.
        let timeout = PollTimeout::try_from(timeout.as_millis() as u32 as i32 + 1)
            .unwrap_or(PollTimeout::ZERO);
        match poll(&mut fds, timeout) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(ServerError::Poll(error.into())),
        }
        Ok(fds.iter().map(|fd| fd.any().unwrap_or(false)).collect())
    }

    fn tick(&mut self) {
        if self.shared.requests.is_leaving() {
            self.forwarder.relay_mut().leave();
        }
        let counters = *self.forwarder.relay().counters();
        *self
            .shared
            .counters
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = counters;
        self.sockets.iter_mut().for_each(Socket::recover);
        self.renew_keys();
        self.check.check();
        if let Some(list) = self.invites.changed() {
            self.set_invites(list);
        }
    }

    /// Refuses the accounts that the list says are revoked, from now on.
    fn set_invites(&mut self, list: Invites) {
        let revoked = list.revoked();
        self.forwarder.relay_mut().set_revoked(revoked.clone());
        if let Some(hub) = self.shared.hub.get() {
            hub.set_revoked(revoked);
        }
        *self.shared.invites() = list;
    }

    /// The new keys are on disk before the first code is made with them.
    fn renew_keys(&mut self) {
        let now = self.clock.now();
        if now < self.keys.newest() + self.rotate {
            return;
        }
        match self.keys.rotate(now, &mut self.rng) {
            Ok(Some(keys)) => {
                tracing::info!(
                    "new keys; the previous ones hold until their last grant has expired"
                );
                self.forwarder.relay_mut().set_keys(keys);
                if let Some(hub) = self.shared.hub.get() {
                    hub.set_keys(self.keys.keys());
                }
            }
            Ok(None) => {}
            Err(error) => tracing::error!(
                %error,
                "can't renew the keys: keeping the old ones, and trying again every minute"
            ),
        }
    }
}

/// Binds all sockets: for UDP, and for TCP if streams are wanted. If the system chooses the port,
/// it is one that is free for both.
fn bind_sockets(config: &ServerConfig) -> Result<(Vec<Socket>, Vec<socket2::Socket>), ServerError> {
    let chosen = config.listen.iter().any(|address| address.port() == 0);
    let mut attempts = if chosen { 16 } else { 1 };
    loop {
        attempts -= 1;
        let sockets = bind_all(&config.listen, "UDP", Socket::bind)?;
        let Some(streams) = &config.streams else {
            return Ok((sockets, Vec::new()));
        };
        let listen = match streams.listen.is_empty() {
            true => sockets.iter().map(Socket::address).collect(),
            false => streams.listen.clone(),
        };
        check_addresses(&listen)?;
        match bind_all(&listen, "TCP", |address| {
            tcp_listener(address, streams.limits.buffer)
        }) {
            Err(ServerError::Bind { error, .. })
                if attempts > 0 && error.kind() == io::ErrorKind::AddrInUse => {}
            bound => return Ok((sockets, bound?)),
        }
    }
}

fn bind_all<T>(
    addresses: &[SocketAddr],
    over: &'static str,
    bind: impl Fn(SocketAddr) -> io::Result<T>,
) -> Result<Vec<T>, ServerError> {
    let failed = |address| {
        move |error| ServerError::Bind {
            address,
            over,
            error,
        }
    };
    let bound = addresses
        .iter()
        .map(|&address| bind(address).map_err(failed(address)));
    bound.collect()
}

fn check_addresses(listen: &[SocketAddr]) -> Result<(), ServerError> {
    if listen.is_empty() {
        return Err(ServerError::NoAddress);
    }
    for v4 in [true, false] {
        let mut same = listen.iter().filter(|address| address.is_ipv4() == v4);
        if let (Some(one), Some(two)) = (same.next(), same.next()) {
            return Err(ServerError::SameFamily(*one, *two));
        }
    }
    Ok(())
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("id", &self.id())
            .field("addresses", &self.addresses())
            .finish_non_exhaustive()
    }
}

/// The keys of a file, for callers that don't run the relay, for example to hand out access.
///
/// # Errors
/// As [`KeyFile::open`].
pub fn open_keys(path: &std::path::Path) -> Result<Keys, ServerError> {
    let mut rng = ChaCha20Rng::try_from_rng(&mut SysRng).map_err(|_| ServerError::Random)?;
    Ok(KeyFile::open(path, UnixClock::start().now(), &mut rng)?.keys())
}

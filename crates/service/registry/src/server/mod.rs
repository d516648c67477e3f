//! The registry's server: HTTPS and UDP sockets around [`Core`].

mod accept;
mod asked;
mod listen;
mod metrics;
mod observe;
mod places;
mod probe;
mod prompt;
mod routes;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use manyway_os::{ClockCheck, UnixClock};
use manyway_relay::exposition::Exposition;
use manyway_wire::relay::RelayId;
use rustls::ServerConfig as TlsConfig;
use tokio::net::TcpListener;
use tokio::sync::{Notify, Semaphore};

use crate::store::{Store, StoreError};
use crate::{Core, Problem, Tokens, api};

pub use accept::Connections;
pub(crate) use asked::read;
use places::Places;
pub use routes::openapi;

/// A registry's configuration.
pub struct ServerConfig {
    /// The addresses for HTTPS, and for UDP, where it answers HELLOs of hosts that ask for their
    /// address. All have one port. If the system is to choose it, they have port 0.
    pub listen: Vec<SocketAddr>,
    /// Its certificate.
    pub tls: Arc<TlsConfig>,
    /// Its policy.
    pub core: Core,
    /// Its store for leases.
    pub store: Store,
    /// Bounds on connections.
    pub connections: Connections,
}

/// Why a registry can't start.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The address can't be bound.
    #[error("can't listen on {address}: {error}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// No address to listen on.
    #[error("a registry needs an address to listen on")]
    NoAddress,
    /// The addresses have different ports.
    #[error(
        "{0} and {1} have different ports: listen on one port, since clients know the registry by \
         one"
    )]
    Ports(SocketAddr, SocketAddr),
    /// The store can't be used.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The least time between two log lines about a failing store.
const LOG_PAUSE: Duration = Duration::from_secs(10);

/// What all requests share.
struct App {
    core: Arc<Mutex<Core>>,
    store: Arc<Store>,
    clock: UnixClock,
    prober: probe::Prober,
    about: api::About,
    // Calls to a listener's name wake it, and now and then so do calls to other names.
    calls: [Notify; 256],
    // As `calls`, for the mailboxes with a number.
    mail: [Notify; 256],
    waiting: Semaphore,
    places: Arc<Places>,
    requests: metrics::Requests,
    /// The time limit for a body.
    body: Duration,
    /// When a failure of the store was last logged.
    logged: Mutex<Option<Instant>>,
}

impl App {
    fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answer to a request. While the store is away, all requests fail, and the log has only
    /// some of them.
    fn store_failed(&self, error: &StoreError) -> Problem {
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.is_none_or(|at| at.elapsed() >= LOG_PAUSE) {
            *logged = Some(Instant::now());
            tracing::warn!(%error, "the store failed; not logged again for 10 s");
        }
        Problem::Store
    }
}

/// A registry with bound sockets that doesn't run yet.
pub struct Server {
    app: Arc<App>,
    listeners: Vec<TcpListener>,
    addresses: Vec<SocketAddr>,
    tls: Arc<TlsConfig>,
    connections: Connections,
    tasks: Vec<tokio::task::AbortHandle>,
}

impl Server {
    /// Binds the sockets, and loads the relays from the store.
    ///
    /// # Errors
    /// [`ServerError`].
    pub async fn bind(config: ServerConfig) -> Result<Self, ServerError> {
        let connections = config.connections.affordable();
        let (listeners, addresses) = listen::bind(&config.listen)?;
        let failed = |error| ServerError::Bind {
            address: addresses[0],
            error,
        };
        let id = config.core.id();
        let core = Arc::new(Mutex::new(config.core));
        let store = Arc::new(config.store);
        let follower = store.follow(&core).await?;
        let clock = UnixClock::start();
        let mut tasks: Vec<_> = follower.iter().map(|task| task.abort_handle()).collect();
        let mut observe_port = None;
        for &address in &addresses {
            match observe::serve(address, id, Arc::clone(&core), clock) {
                Ok(task) => {
                    tasks.push(task);
                    observe_port = Some(address.port());
                }
                Err(error) => tracing::warn!(
                    %error,
                    "no UDP port at {address}: nobody learns its address there"
                ),
            }
        }
        let prober = probe::Prober::start(connections.outgoing())
            .await
            .map_err(failed)?;
        let about = api::About {
            registry: id.to_string(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            heartbeat_s: api::HEARTBEAT_S,
            lease_s: api::LEASE_S,
            observe_port,
        };
        let app = Arc::new(App {
            core,
            store,
            clock,
            prober,
            about,
            calls: std::array::from_fn(|_| Notify::new()),
            mail: std::array::from_fn(|_| Notify::new()),
            waiting: Semaphore::new(connections.waiting()),
            places: Places::new(connections.all, connections.per_source),
            requests: metrics::Requests::default(),
            body: connections.body,
            logged: Mutex::default(),
        });
        tasks.push(tokio::spawn(tick(Arc::clone(&app))).abort_handle());
        Ok(Self {
            app,
            listeners,
            addresses,
            tls: config.tls,
            connections,
            tasks,
        })
    }

    /// The addresses on which it listens, with the port that the system chose.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// A handle to look at it and to change it while it runs.
    pub fn handle(&self) -> Handle {
        Handle(Arc::clone(&self.app))
    }

    /// Its key.
    pub fn id(&self) -> RelayId {
        self.app.core().id()
    }

    /// The numbers of usable relays and of listeners that can be found now.
    pub fn counts(&self) -> (usize, usize) {
        let core = self.app.core();
        (core.relays().usable(), core.listeners())
    }

    /// Serves until `stop` resolves. Running requests then get a few seconds.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let router = routes::router(Arc::clone(&self.app));
        let room = (self.connections, &self.app.places);
        accept::run(&self.listeners, &self.tls, router, room, stop).await;
    }
}

/// Looks at a running [`Server`], and changes it.
#[derive(Clone)]
pub struct Handle(Arc<App>);

impl Handle {
    /// Uses other tokens from now on: see [`Core::set_tokens`].
    pub fn set_tokens(&self, tokens: Tokens) {
        self.0.core().set_tokens(tokens);
    }

    /// All counters in Prometheus' text format, version 0.0.4.
    pub fn to_prometheus(&self) -> String {
        let mut text = Exposition::default();
        self.0.places.expose(&mut text);
        self.0.requests.expose(&mut text);
        self.0.core().expose(&mut text);
        text.into_text()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.tasks.iter().for_each(tokio::task::AbortHandle::abort);
    }
}

/// Ends leases, at most a second late, and checks the clock.
async fn tick(app: Arc<App>) {
    let mut check = ClockCheck::new(app.clock);
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        check.check();
        app.core().tick(app.clock.now());
    }
}

//! A sender and a registry that starts, dies and comes back, on real sockets.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use manyway::{Config, Endpoint, RelayState};
use manyway_registry::client::{Membership, RelayDescriptor};
use manyway_registry::server::{Connections, Server as Registry, ServerConfig as RegistryConfig};
use manyway_registry::store::Store;
use manyway_registry::{Core, Limits, RegistryKey, RegistryUrl, Token, Tokens, tls};
use manyway_relay::server::open_keys;
use rand::SeedableRng;
use tempfile::TempDir;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::sleep;

use self::local_relay::{LocalRelay, endpoint, keep_busy, until};
use super::*;

#[path = "../../../tests/it/common/local_relay.rs"]
mod local_relay;

const TOKENS: &str = "relay cheap 0123456789abcdef0123\nclient lab abcdefabcdefabcdefabcd\n";
const LONG: Duration = Duration::from_secs(7200);

fn key() -> RegistryKey {
    RegistryKey::generate(&mut ChaCha20Rng::from_seed([1; 32]))
}

/// A registry that can be killed and started again where it was.
struct Host {
    address: SocketAddr,
    running: Option<JoinHandle<()>>,
    voucher_life: Duration,
}

impl Host {
    async fn start(voucher_life: Duration) -> Self {
        let mut host = Self {
            address: "127.0.0.1:0".parse().unwrap(),
            running: None,
            voucher_life,
        };
        host.run().await;
        host
    }

    async fn run(&mut self) {
        let limits = Limits {
            allow_private: true,
            rate: 10_000,
            voucher_life: self.voucher_life,
            ..Limits::default()
        };
        let tokens = Tokens::parse(TOKENS).unwrap();
        let registry = Registry::bind(RegistryConfig {
            listen: vec![self.address],
            tls: tls::pinned_server(&key()).unwrap(),
            core: Core::new(key(), tokens, limits, [7; 32]),
            store: Store::Memory,
            connections: Connections::default(),
        });
        let registry = registry.await.unwrap();
        self.address = registry.addresses()[0];
        self.running = Some(tokio::spawn(registry.run(std::future::pending())));
    }

    async fn kill(&mut self) {
        let running = self.running.take().unwrap();
        running.abort();
        running.await.ok();
    }

    fn url(&self) -> RegistryUrl {
        let url = format!("https://{}#{}", self.address, key().id());
        url.parse().unwrap()
    }

    fn relays(&self, token: &str, intervals: Intervals) -> RegistryRelays {
        let token = Token::from_text(token, Role::Client).unwrap();
        let mut rng = ChaCha20Rng::from_seed([2; 32]);
        RegistryRelays {
            client: Client::new(&[self.url()], token, &mut rng).unwrap(),
            count: 50,
            carrier: Carriers::Udp,
            offered: BTreeSet::new(),
            named: Vec::new(),
            unreachable: false,
            intervals,
        }
    }
}

/// A relay that enrols at a registry.
struct Relay {
    member: Membership,
    local: LocalRelay,
}

impl Relay {
    fn start(dir: &TempDir, name: &str, registry: &Host) -> Self {
        let key_file = dir.path().join(name);
        let local = LocalRelay::start(key_file.clone(), vec![key().id()]);
        let keys = open_keys(&key_file).unwrap();
        let enrolling =
            RelayDescriptor::new(local.id, vec![local.address], move |bytes| keys.sign(bytes));
        let token = Token::from_text(TOKENS, Role::Relay).unwrap();
        Self {
            member: Membership::new(&[registry.url()], token, enrolling).unwrap(),
            local,
        }
    }
}

fn config(law: &str) -> Config {
    Config {
        cc: law.parse().unwrap(),
        limit: Some(manyway::Rate::from_mbps(8.0)),
        ..Config::default()
    }
}

/// A connection over which something is sent all the time.
struct Busy {
    connection: Connection,
    ticket: Ticket,
    tasks: JoinSet<()>,
    ends: [Endpoint; 2],
}

impl Busy {
    async fn start(law: &str) -> Self {
        let ends = [endpoint(config(law)).await, endpoint(config(law)).await];
        let ticket = ends[0].listen().unwrap();
        let (connected, accepted) = tokio::join!(ends[1].connect(&ticket), ends[0].accept());
        let (connection, accepted) = (connected.unwrap(), accepted.unwrap());
        let tasks = keep_busy(&connection, accepted).await;
        Self {
            connection,
            ticket,
            tasks,
            ends,
        }
    }

    /// Fetches the first relays and looks after them, telling what it tells.
    async fn tended_by(&mut self, mut relays: RegistryRelays) -> Arc<Mutex<Vec<String>>> {
        // As after dialling: a registry that isn't there is no reason not to begin.
        if let Ok(first) = relays.for_ticket(&self.ticket).await {
            self.connection.add_relays(&first);
        }
        self.followed_by(relays)
    }

    fn followed_by(&mut self, mut relays: RegistryRelays) -> Arc<Mutex<Vec<String>>> {
        let told = Arc::new(Mutex::new(Vec::new()));
        let tell = {
            let told = Arc::clone(&told);
            move |news: &str| told.lock().unwrap().push(news.to_owned())
        };
        let (connection, events) = (self.connection.clone(), self.connection.events());
        self.tasks.spawn(async move {
            relays.maintain(tell, connection, events).await;
        });
        told
    }

    fn relays(&self, state: RelayState) -> usize {
        let relays = self.connection.stats().relays;
        relays.iter().filter(|relay| relay.state == state).count()
    }

    async fn goes_on(&self) {
        let before = self.connection.stats().bytes_acked;
        until("data goes on", || {
            self.connection.stats().bytes_acked > before + (1 << 17)
        })
        .await;
    }
}

fn unix() -> Duration {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap()
}

fn often() -> Intervals {
    Intervals {
        renew: Duration::from_millis(300),
        retry: Duration::from_millis(100),
    }
}

/// Of two connections that begin with vouchers for eight seconds, one renews: it gets grants after
/// they have ended, the other one is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn access_is_renewed_before_it_ends() {
    let life = Duration::from_secs(8);
    let registry = Host::start(life).await;
    let dir = TempDir::new().unwrap();
    let mut relays = ["renewed", "not"].map(|name| Relay::start(&dir, name, &registry));
    let mut senders = [Busy::start("lia").await, Busy::start("lia").await];
    for ((relay, sender), renew) in relays.iter_mut().zip(&mut senders).zip([life / 4, LONG]) {
        relay.member.enrol().await.unwrap();
        let intervals = Intervals {
            renew,
            retry: renew,
        };
        sender.tended_by(registry.relays(TOKENS, intervals)).await;
        until("the relay is used", || {
            sender.relays(RelayState::InUse) == 1
        })
        .await;
        relay.member.leave().await.unwrap();
    }
    let ended = unix() + life + Duration::from_secs(1);
    // The one that renews goes on asking for its relay, which has to be there for that.
    relays[0].member.enrol().await.unwrap();
    until("the first vouchers end", || unix() > ended).await;
    let minted = relays[0].local.handle.counters().minted;
    // For a path from elsewhere, a sender asks at once; for one that it has, once a minute.
    for sender in &senders {
        let elsewhere = "127.0.0.2".parse().unwrap();
        sender.ends[1].add_path(elsewhere).await.unwrap();
    }
    until("new grants", || {
        relays[0].local.handle.counters().minted > minted
    })
    .await;
    until("a refusal", || {
        relays[1].local.handle.counters().refused > 0
    })
    .await;
    assert_eq!(relays[0].local.handle.counters().refused, 0);
    assert_eq!(senders[0].relays(RelayState::InUse), 1);
    senders[0].goes_on().await;
    senders[1].goes_on().await;
}

/// The law mpath asks for more when all relays have been tried; one that is stopped is left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn relays_are_dropped_and_others_are_fetched() {
    let registry = Host::start(LONG).await;
    let dir = TempDir::new().unwrap();
    let mut relays = ["one", "two"].map(|name| Relay::start(&dir, name, &registry));
    let mut sender = Busy::start("mpath").await;
    relays[0].member.enrol().await.unwrap();
    let mut source = registry.relays(TOKENS, often());
    let first = source.for_ticket(&sender.ticket).await.unwrap();
    assert_eq!(first.len(), 1);
    // For a second connection, after a lost one.
    let again = source.for_ticket(&sender.ticket).await.unwrap();
    assert_eq!(again[0].relay.id, first[0].relay.id);
    assert_eq!(sender.connection.add_relays(&first), 1);
    // There before the first has been tried; the sender learns of it when it asks.
    relays[1].member.enrol().await.unwrap();
    let told = sender.followed_by(source);
    let known = |id: RelayId| {
        let relays = sender.connection.stats().relays;
        relays.iter().any(|relay| relay.id == id)
    };
    until("the other one is fetched", || known(relays[1].member.id())).await;
    until("it is probed", || {
        relays[1].local.handle.counters().forwarded > 0
    })
    .await;
    relays[0].member.leave().await.unwrap();
    relays[0].local.stop();
    // The other one adds nothing to a direct path on loopback, so it may be left by now, too.
    sender.goes_on().await;
    assert_eq!(*told.lock().unwrap(), [] as [String; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_registry_that_goes_away_is_told_of_once_and_found_again() {
    let mut registry = Host::start(LONG).await;
    let dir = TempDir::new().unwrap();
    let mut relay = Relay::start(&dir, "one", &registry);
    relay.member.enrol().await.unwrap();
    let mut sender = Busy::start("lia").await;
    let told = sender.tended_by(registry.relays(TOKENS, often())).await;
    until("the relay is used", || {
        sender.relays(RelayState::InUse) == 1
    })
    .await;
    for times in 1..=2 {
        registry.kill().await;
        until("it is told", || told.lock().unwrap().len() == times).await;
        assert!(told.lock().unwrap()[times - 1].contains("no registry answers"));
        // Asked in vain ten times.
        sleep(10 * often().retry).await;
        sender.goes_on().await;
        assert_eq!(told.lock().unwrap().len(), times, "once");
        assert_eq!(sender.relays(RelayState::InUse), 1);
        registry.run().await;
        // Its leases are gone, so access to a relay that it doesn't know isn't renewed; that is no
        // error.
        relay.member.heartbeat().await.unwrap();
        // The sender asks again, successfully.
        sleep(40 * often().retry).await;
    }
    assert_eq!(told.lock().unwrap().len(), 2);
}

/// Nobody was there when the sender began: its first relays come when the registry does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_relays_come_late_if_the_registry_does() {
    let mut registry = Host::start(LONG).await;
    let dir = TempDir::new().unwrap();
    let mut relay = Relay::start(&dir, "one", &registry);
    registry.kill().await;
    let mut sender = Busy::start("lia").await;
    let intervals = Intervals {
        renew: LONG,
        ..often()
    };
    let told = sender.tended_by(registry.relays(TOKENS, intervals)).await;
    until("it is told", || told.lock().unwrap().len() == 1).await;
    registry.run().await;
    relay.member.enrol().await.unwrap();
    until("the relay is used", || {
        sender.relays(RelayState::InUse) == 1
    })
    .await;
    assert_eq!(told.lock().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_registry_that_refuses_is_told_of_once_and_ends_nothing() {
    let registry = Host::start(LONG).await;
    let mut sender = Busy::start("lia").await;
    let unknown = "client lab fedcbafedcbafedcbafedc";
    let told = sender.tended_by(registry.relays(unknown, often())).await;
    until("it is told", || !told.lock().unwrap().is_empty()).await;
    sleep(10 * often().retry).await;
    sender.goes_on().await;
    let told = told.lock().unwrap();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0].contains("the registry says: the registry knows no such token"),
        "{told:?}"
    );
}

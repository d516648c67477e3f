//! Two sessions and a network that breaks between them in every way, by a plan drawn from a seed.

use std::fmt;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use manyway_network::{Limit, LinkConfig, Loss, Queue};
use manyway_session::{CloseReason, Config, PathState, PathStats};
use manyway_units::{Rate, Time};
use rand::rngs::ChaCha20Rng;
use rand::{RngExt, SeedableRng};

use super::clock::Clock;
use super::host::SessionHost;
use super::pair::{PairPath, PairSpec, SessionPair};
use super::traffic::{Source, TrafficConfig};
use crate::{HostId, Impairments, LinkId, Route, SocketId, World};

/// A transfer in both directions and what goes wrong meanwhile.
#[derive(Debug, Clone, PartialEq)]
pub struct FaultPlan {
    /// The seed that the plan comes from; the run draws from it, too.
    pub seed: u64,
    /// One to three paths. No fault lasts more than five seconds, so the transfer has to end well.
    pub paths: Vec<PathPlan>,
    /// Bytes from the client to the server.
    pub upload: u64,
    /// Bytes from the server to the client.
    pub download: u64,
    /// By how many microseconds a second the client's clock runs fast, and the server's.
    pub drift: [i32; 2],
    /// What goes wrong, by the time at which it begins.
    pub faults: Vec<Fault>,
}

/// A path of a [`FaultPlan`], the same in both directions.
#[derive(Debug, Clone, PartialEq)]
pub struct PathPlan {
    /// Its rate, Mbps.
    pub mbps: f64,
    /// One-way delay.
    pub delay: Duration,
    /// What it loses all the time.
    pub loss: Loss,
}

/// Something that goes wrong for a while.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    /// When it begins, since the connection was asked for.
    pub at: Duration,
    /// How long it lasts.
    pub lasts: Duration,
    /// What it is.
    pub what: What,
}

/// One of the two ends.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub enum End {
    /// Who connects.
    Client,
    /// Who listens.
    Server,
}

/// What goes wrong. Paths are indices.
#[derive(Debug, Clone, PartialEq)]
pub enum What {
    /// A path loses everything in one direction, towards this end, or in both.
    Dark(usize, Option<End>),
    /// A path duplicates, reorders, corrupts or cuts off what it carries.
    Impaired(usize, Impairments),
    /// A path carries packets up to this size only, in bytes with IPv4 and UDP headers.
    Mtu(usize, u32),
    /// A NAT gives one end of a path another port; with `true` another address. For good.
    Rebound(usize, End, bool),
    /// The client's interface goes and comes back.
    Removed(usize),
    /// An end's machine stands still.
    Frozen(End),
    /// An end's clock leaps ahead by as long as this lasts.
    Leap(End),
    /// An end's application doesn't read.
    Stalled(End),
}

const MS: Duration = Duration::from_millis(1);
/// Faults are over by then.
const STORM: Duration = Duration::from_secs(12);
/// How long a transfer of a few hundred kilobytes may take after that.
const PATIENCE: Duration = Duration::from_secs(600);
const LONGEST: Duration = Duration::from_secs(5);

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (at, lasts) = (self.at.as_secs_f64(), self.lasts.as_secs_f64());
        write!(f, "{at:.3} s, for {lasts:.3} s: {:?}", self.what)
    }
}

impl FaultPlan {
    /// The plan of this seed.
    pub fn new(seed: u64) -> Self {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let paths: Vec<_> = (0..rng.random_range(1..=3))
            .map(|_| PathPlan::draw(&mut rng))
            .collect();
        let mut faults: Vec<_> = (0..rng.random_range(0..=8))
            .map(|_| Fault::draw(&mut rng, paths.len()))
            .collect();
        faults.sort_by_key(|fault| fault.at);
        let drift = match rng.random_bool(0.5) {
            true => [rng.random_range(-200..=200), rng.random_range(-200..=200)],
            false => [0, 0],
        };
        Self {
            seed,
            paths,
            upload: rng.random_range(0..400_000),
            download: rng.random_range(0..200_000),
            drift,
            faults,
        }
    }

    /// Runs the plan.
    ///
    /// # Errors
    /// What the sessions did and shouldn't have: a byte that is wrong, missing or sent too often, a
    /// connection that ended for another reason than silence, a transfer that doesn't end, a storm
    /// of packets, a panic.
    pub fn run(&self) -> Result<(), String> {
        let run = AssertUnwindSafe(|| Storm::new(self).and_then(|storm| storm.run(self)));
        catch_unwind(run).unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            Err(format!("panic: {}", text.unwrap_or("of another kind")))
        })
    }

    /// How long the first path is silent, or seems so, in all.
    fn silence(&self) -> Duration {
        let silent = |fault: &&Fault| match fault.what {
            What::Dark(path, _) | What::Removed(path) => path == 0,
            What::Frozen(_) | What::Leap(_) => true,
            _ => false,
        };
        self.faults
            .iter()
            .filter(silent)
            .map(|fault| fault.lasts)
            .sum()
    }

    /// The plan with those faults only, by index.
    #[must_use]
    pub fn only(&self, indices: &[usize]) -> Self {
        let faults = indices.iter().filter_map(|&at| self.faults.get(at));
        Self {
            faults: faults.cloned().collect(),
            ..self.clone()
        }
    }

    /// Indices of the faults without which `fails` no longer says so: taking away any one of them
    /// makes the failure go.
    pub fn minimised(&self, fails: impl Fn(&Self) -> bool) -> Vec<usize> {
        let mut kept: Vec<_> = (0..self.faults.len()).collect();
        let mut at = 0;
        while at < kept.len() {
            let mut fewer = kept.clone();
            fewer.remove(at);
            if fails(&self.only(&fewer)) {
                kept = fewer;
                at = 0;
            } else {
                at += 1;
            }
        }
        kept
    }
}

impl PathPlan {
    fn draw(rng: &mut ChaCha20Rng) -> Self {
        Self {
            mbps: rng.random_range(1.0..50.0),
            delay: MS * rng.random_range(1..100),
            loss: match rng.random_range(0..3) {
                0 => Loss::None,
                1 => Loss::Bernoulli(rng.random_range(0.0..0.05)),
                // Bursts of ten packets on average.
                _ => Loss::GilbertElliott {
                    good_to_bad: rng.random_range(0.0..0.005),
                    bad_to_good: 0.1,
                    good: 0.0,
                    bad: rng.random_range(0.3..1.0),
                },
            },
        }
    }

    fn link(&self) -> LinkConfig {
        let rate = Rate::from_mbps(self.mbps);
        let product = rate.times_delay(2 * self.delay).bytes();
        LinkConfig {
            queue: Queue::DropTail(Limit::Bytes(product.max(6_000))),
            loss: self.loss,
            ..LinkConfig::new(rate, self.delay)
        }
    }
}

impl Fault {
    fn draw(rng: &mut ChaCha20Rng, paths: usize) -> Self {
        let at = MS * rng.random_range(0..10_000);
        let path = rng.random_range(0..paths);
        let end = match rng.random_bool(0.5) {
            true => End::Client,
            false => End::Server,
        };
        let what = match rng.random_range(0..8) {
            0 => What::Dark(path, rng.random_bool(0.5).then_some(end)),
            1 => What::Impaired(
                path,
                Impairments {
                    duplicate: rng.random_range(0.0..0.3),
                    reorder: rng.random_range(0.0..0.5),
                    reorder_by: MS * rng.random_range(0..200),
                    corrupt: rng.random_range(0.0..0.1),
                    truncate: rng.random_range(0.0..0.05),
                },
            ),
            2 => What::Mtu(path, rng.random_range(1_280..1_500)),
            3 => What::Rebound(path, end, rng.random_bool(0.3)),
            4 => What::Removed(path),
            5 => What::Frozen(end),
            6 => What::Leap(end),
            _ => What::Stalled(end),
        };
        Self {
            at,
            lasts: rng.random_range(MS..LONGEST.min(STORM - at)),
            what,
        }
    }
}

/// A plan under way.
struct Storm {
    world: World<SessionHost>,
    pair: SessionPair,
    links: Vec<[LinkId; 2]>,
    /// The client's socket on each path, and the server's only one.
    sockets: (Vec<SocketId>, SocketId),
    impairments: Vec<Impairments>,
    mtu: Vec<Option<u32>>,
    rebound: u16,
    /// For each of the client's interfaces, how many faults keep it away.
    away: Vec<u32>,
}

impl Storm {
    fn new(plan: &FaultPlan) -> Result<Self, String> {
        let mut world = World::new(plan.seed);
        let mut links = Vec::new();
        let mut paths = Vec::new();
        for path in &plan.paths {
            let mut add = || {
                world
                    .add_link(path.link())
                    .map_err(|error| error.to_string())
            };
            let (there, back) = (add()?, add()?);
            links.push([there, back]);
            paths.push(PairPath {
                forward: vec![there],
                reverse: vec![back],
                ..PairPath::default()
            });
        }
        let traffic = |bytes| TrafficConfig {
            sources: vec![Source { bytes: Some(bytes) }],
            ..TrafficConfig::default()
        };
        let spec = PairSpec {
            number: 0,
            client: Config::default(),
            server: Config::default(),
            client_traffic: traffic(plan.upload),
            server_traffic: traffic(plan.download),
            paths,
            server_sockets: false,
        };
        let pair = SessionPair::add(&mut world, plan.seed, spec).map_err(|e| e.to_string())?;
        for (host, ppm) in [pair.client, pair.server].into_iter().zip(plan.drift) {
            world.host_mut(host).set_clock(Clock::drifting(ppm));
        }
        pair.connect(&mut world)
            .map_err(|error| error.to_string())?;
        let count = plan.paths.len();
        Ok(Self {
            world,
            pair,
            links,
            sockets: ((0..count as u32).map(SocketId).collect(), SocketId(0)),
            impairments: vec![Impairments::default(); count],
            mtu: vec![None; count],
            rebound: 0,
            away: vec![0; count],
        })
    }

    fn run(mut self, plan: &FaultPlan) -> Result<(), String> {
        let mut changes: Vec<_> = plan
            .faults
            .iter()
            .flat_map(|fault| {
                [
                    (fault.at, fault, true),
                    (fault.at + fault.lasts, fault, false),
                ]
            })
            .collect();
        changes.sort_by_key(|(at, ..)| *at);
        for (at, fault, begins) in changes {
            self.world.run_until(Time::ZERO + at);
            self.change(&fault.what, fault.lasts, begins);
        }
        let (client, server) = (self.pair.client, self.pair.server);
        let over = |host: &SessionHost| host.traffic().closed().is_some();
        let read = |host: &SessionHost| host.traffic().received().any(|it| it.ended.is_some());
        let rested = self
            .world
            .run_while(10 * MS, Time::ZERO + PATIENCE, |world| {
                let both = [world.host(client), world.host(server)];
                !both.iter().all(|host| read(host)) && !both.iter().any(|host| over(host))
            });
        self.check(plan, rested)
    }

    fn check(&self, plan: &FaultPlan, rested: bool) -> Result<(), String> {
        let hosts = [
            ("client", self.pair.client, plan.download),
            ("server", self.pair.server, plan.upload),
        ];
        let mut complete = 0;
        for (name, host, bytes) in hosts {
            let traffic = self.world.host(host).traffic();
            for received in traffic.received() {
                if let Some(at) = received.mismatch {
                    return Err(format!("{name}: byte {at} is wrong"));
                }
                if received.bytes > bytes || (received.ended.is_some() && received.bytes < bytes) {
                    return Err(format!("{name}: {} of {bytes} bytes", received.bytes));
                }
                complete += usize::from(received.ended.is_some());
            }
            if let Some((at, reason)) = traffic.closed() {
                // The handshake has 15 s: several silences may leave it none of them, and a burst
                // of losses, which lasts for a number of packets, may take all INITs or REPLYs.
                let hopeless = plan.silence() > LONGEST || !self.carried_both_ways();
                if hopeless && matches!(reason, CloseReason::ConnectTimedOut { .. }) {
                    return Ok(());
                }
                return Err(format!("{name} ended at {at:?}: {reason}"));
            }
        }
        if !rested || complete < 2 {
            return Err(format!("not done after {PATIENCE:?}"));
        }
        // Retransmissions, probes and acknowledgements of what there was to say, and the keep-alive
        // of a storm.
        let worth = 50 * (plan.upload + plan.download) / 1_000 + 5_000;
        let sent = self.world.stats().sent;
        match sent > worth {
            true => Err(format!(
                "{sent} datagrams for what {worth} must suffice for"
            )),
            false => Ok(()),
        }
    }

    /// Whether the network has delivered anything at all on one path in each direction.
    fn carried_both_ways(&self) -> bool {
        let carried = |link| self.world.link_stats(link).delivered > 0;
        self.links
            .iter()
            .any(|[there, back]| carried(*there) && carried(*back))
    }

    fn host(&self, end: End) -> HostId {
        match end {
            End::Client => self.pair.client,
            End::Server => self.pair.server,
        }
    }

    fn change(&mut self, what: &What, lasts: Duration, begins: bool) {
        let now = self.world.now();
        match *what {
            What::Dark(path, towards) => {
                let [there, back] = self.links[path];
                if towards != Some(End::Client) {
                    self.world.set_link_up(there, !begins);
                }
                if towards != Some(End::Server) {
                    self.world.set_link_up(back, !begins);
                }
            }
            What::Impaired(path, impairments) => {
                self.impairments[path] = if begins {
                    impairments
                } else {
                    Impairments::default()
                };
                self.route(path);
            }
            What::Mtu(path, mtu) => {
                self.mtu[path] = begins.then_some(mtu);
                self.route(path);
            }
            What::Rebound(path, end, address) if begins => {
                // Nobody finds a listener that moves before it was reached, or while the client is
                // away.
                let server = self.world.host(self.pair.server).traffic();
                let is_known = server.connected().is_some() && self.away.iter().all(|&it| it == 0);
                if end == End::Client || is_known {
                    self.rebind(path, end, address);
                }
            }
            What::Rebound(..) => {}
            What::Removed(path) => self.remove(path, begins),
            What::Frozen(end) => self.world.set_frozen(self.host(end), begins),
            What::Leap(end) if begins => self.world.host_mut(self.host(end)).leap(lasts),
            What::Leap(_) => {}
            What::Stalled(end) => {
                let host = self.host(end);
                self.world.host_mut(host).set_reading(now, !begins);
            }
        }
    }

    /// Says anew how a path's packets get there.
    fn route(&mut self, path: usize) {
        let (client, server) = self.pair.addresses[path];
        let [there, back] = self.links[path];
        for (from, to, link) in [(client, server, there), (server, client, back)] {
            let route = Route {
                impairments: self.impairments[path],
                mtu: self.mtu[path],
                ..Route::over([link])
            };
            self.world.add_route(from, to, route);
        }
    }

    fn rebind(&mut self, path: usize, end: End, address: bool) {
        self.rebound += 1;
        let (client, server) = self.pair.addresses[path];
        let moved = |old: SocketAddr| match address {
            true => SocketAddr::from(([198, 51, 100, self.rebound as u8], old.port())),
            false => SocketAddr::new(old.ip(), 50_000 + self.rebound),
        };
        let before = self.pair.addresses.clone();
        match end {
            End::Client => self.pair.addresses[path].0 = moved(client),
            // The server has one socket for all paths.
            End::Server => {
                let to = moved(server);
                self.pair.addresses.iter_mut().for_each(|pair| pair.1 = to);
            }
        }
        // If both move before either has heard of it, nobody finds the other any more.
        if !self.finds(End::Client) && !self.finds(End::Server) {
            self.pair.addresses = before;
            return;
        }
        let (host, socket) = match end {
            End::Client => (self.pair.client, self.sockets.0[path]),
            End::Server => (self.pair.server, self.sockets.1),
        };
        let (client, server) = self.pair.addresses[path];
        let to = if end == End::Client { client } else { server };
        self.world.rebind(host, socket, to, false);
        for path in 0..self.links.len() {
            self.route(path);
        }
    }

    /// Whether one of this end's paths leads to where the other end is.
    fn finds(&mut self, end: End) -> bool {
        let host = self.host(end);
        let Some(stats) = self.world.host_mut(host).stats() else {
            // The listener is where the ticket says until the handshake is through.
            return end == End::Client
                && self
                    .pair
                    .ticket
                    .addresses
                    .contains(&self.pair.addresses[0].1);
        };
        let leads = |path: &PathStats| {
            self.pair.addresses.iter().any(|(client, server)| {
                path.remote == if end == End::Client { *server } else { *client }
            })
        };
        let mut open = stats
            .paths
            .iter()
            .filter(|path| path.state != PathState::Closed);
        open.any(leads)
    }

    fn remove(&mut self, path: usize, begins: bool) {
        let now = self.world.now();
        let client = self.pair.client;
        if begins {
            self.away[path] += 1;
            let socket = self.sockets.0[path];
            self.world.host_mut(client).remove_local(now, socket);
            return;
        }
        self.away[path] -= 1;
        if self.away[path] > 0 {
            return;
        }
        let address = self.pair.addresses[path].0;
        let socket = self.world.add_socket(client, address);
        self.sockets.0[path] = socket;
        let name = format!("path{path}");
        self.world
            .host_mut(client)
            .add_local(now, socket, &name, address, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_plan() {
        assert_eq!(FaultPlan::new(7), FaultPlan::new(7));
        assert_ne!(FaultPlan::new(7), FaultPlan::new(8));
    }

    #[test]
    fn only_what_a_failure_needs_is_kept() {
        let plan = (0..)
            .map(FaultPlan::new)
            .find(|plan| plan.faults.len() == 8);
        let plan = plan.unwrap();
        let needed = [plan.faults[2].clone(), plan.faults[5].clone()];
        let kept = plan.minimised(|less| needed.iter().all(|it| less.faults.contains(it)));
        assert_eq!(kept, [2, 5]);
        assert_eq!(plan.only(&kept).faults, needed);
    }
}

//! Several links between UDP sockets, some of them shared by several ways.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use manyway_units::Time;
use socket2::SockRef;

use super::plane::{Exit, Plane};
use crate::{InvalidLink, Link, LinkConfig, LinkStats};

/// How a [`UdpNetwork`] is set up. The links' timetables begin when it starts.
#[derive(Debug, Clone, Default)]
pub struct UdpNetworkConfig {
    /// The links, each as its forward and its reverse direction; hops name them by their place
    /// here.
    pub links: Vec<[LinkConfig; 2]>,
    /// Where datagrams enter, and how they go on.
    pub gates: Vec<UdpGate>,
    /// Bytes that count on the links beside each datagram's payload; 28 are an IPv4 and a UDP
    /// header.
    pub header_bytes: u32,
}

/// An address that clients send to, and what lies between it and the target. Each client has an
/// upstream socket of its own, as behind a NAT.
#[derive(Debug, Clone)]
pub struct UdpGate {
    /// Where clients send to; port 0 lets the system choose ([`UdpNetwork::gate`] tells).
    pub listen: SocketAddr,
    /// Where their datagrams go.
    pub target: SocketAddr,
    /// The way of a client's datagrams; what the target answers goes the same way back.
    pub route: Vec<Hop>,
    /// Clients who come another way: a relay has its senders on one side and its receivers on the
    /// other.
    pub others: Vec<(SocketAddr, Vec<Hop>)>,
}

/// A link in one of its directions.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub struct Hop {
    /// The link's place in [`UdpNetworkConfig::links`].
    pub link: usize,
    /// Whether clients' datagrams cross it in its reverse direction.
    pub reverse: bool,
}

impl Hop {
    /// Clients' datagrams cross the link in its forward direction.
    pub fn forward(link: usize) -> Self {
        Self {
            link,
            reverse: false,
        }
    }

    /// Clients' datagrams cross the link in its reverse direction.
    pub fn reverse(link: usize) -> Self {
        Self {
            link,
            reverse: true,
        }
    }

    /// Its place among all directions of all links.
    fn lane(self) -> usize {
        2 * self.link + usize::from(self.reverse)
    }

    fn back(self) -> Self {
        Self {
            reverse: !self.reverse,
            ..self
        }
    }
}

/// A running network of userspace links; dropping it stops its threads and closes its sockets.
#[derive(Debug)]
pub struct UdpNetwork {
    gates: Vec<SocketAddr>,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
pub(super) struct Shared {
    header_bytes: u32,
    origin: Instant,
    stop: AtomicBool,
    clients_refused: AtomicU64,
    pub(super) send_errors: AtomicU64,
    pub(super) plane: Plane,
}

/// How soon a thread that waits for datagrams notices that it has to stop.
const POLL: Duration = Duration::from_millis(50);
/// A client that sent nothing for so long makes room for a new one.
const CLIENT_IDLE: Duration = Duration::from_secs(60);
/// Asked for; the operating system may grant less.
const SOCKET_BUFFER: usize = 8 << 20;
/// Larger than any UDP payload.
const RECEIVE_BUFFER: usize = 1 << 16;

impl UdpNetwork {
    /// Clients served at a time by each gate.
    pub const MAX_CLIENTS: usize = 64;

    /// Binds the gates and starts the threads.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] when a link's configuration can't work or a route names a
    /// link that isn't there, else what the operating system says about binding a gate or starting
    /// threads; the message names the address.
    pub fn start(config: UdpNetworkConfig) -> io::Result<Self> {
        check_routes(&config)?;
        let invalid = |error: InvalidLink| io::Error::new(io::ErrorKind::InvalidInput, error);
        let lanes = config.links.into_iter().flatten();
        let lanes = lanes.map(Link::new).collect::<Result<_, _>>();
        let shared = Arc::new(Shared {
            header_bytes: config.header_bytes,
            origin: Instant::now(),
            stop: AtomicBool::new(false),
            clients_refused: AtomicU64::new(0),
            send_errors: AtomicU64::new(0),
            plane: Plane::new(lanes.map_err(invalid)?),
        });
        // Should a thread fail to start, dropping `network` stops the others.
        let mut network = UdpNetwork {
            gates: Vec::new(),
            shared,
            threads: Vec::new(),
        };
        network.spawn("links", |shared| shared.plane.deliver(&shared))?;
        for gate in config.gates {
            let gate = Arc::new(Gate {
                socket: Arc::new(bind(gate.listen)?),
                config: gate,
            });
            network.gates.push(gate.socket.local_addr()?);
            network.spawn("link-clients", move |shared| serve(&shared, &gate))?;
        }
        Ok(network)
    }

    /// The address of a gate, by its place in the configuration; `None` if there are fewer.
    pub fn gate(&self, number: usize) -> Option<SocketAddr> {
        self.gates.get(number).copied()
    }

    /// Takes both directions of a link down, which loses all that is under way, or brings them up
    /// again.
    pub fn set_up(&self, link: usize, up: bool) {
        let now = self.shared.now();
        for hop in [Hop::forward(link), Hop::reverse(link)] {
            self.shared
                .plane
                .with_link(hop.lane(), |link| link.set_up(now, up));
        }
    }

    /// What happened on one direction of a link so far; nothing if it isn't there.
    pub fn link_stats(&self, hop: Hop) -> LinkStats {
        let stats = self.shared.plane.with_link(hop.lane(), |link| link.stats());
        stats.unwrap_or_default()
    }

    /// Datagrams from new clients, refused because their gate had [`UdpNetwork::MAX_CLIENTS`]
    /// already.
    pub fn clients_refused(&self) -> u64 {
        self.shared.clients_refused.load(Ordering::Relaxed)
    }

    /// Datagrams that the operating system would not send on.
    pub fn send_errors(&self) -> u64 {
        self.shared.send_errors.load(Ordering::Relaxed)
    }

    fn spawn(
        &mut self,
        name: &str,
        run: impl FnOnce(Arc<Shared>) + Send + 'static,
    ) -> io::Result<()> {
        let shared = self.shared.clone();
        let builder = std::thread::Builder::new().name(name.to_owned());
        self.threads.push(builder.spawn(move || run(shared))?);
        Ok(())
    }
}

impl Drop for UdpNetwork {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.shared.plane.wake();
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so already.
            let _ = thread.join();
        }
    }
}

fn check_routes(config: &UdpNetworkConfig) -> io::Result<()> {
    for gate in &config.gates {
        let others = gate.others.iter().map(|(_, route)| route);
        for hop in others.chain([&gate.route]).flatten() {
            if hop.link >= config.links.len() {
                let links = config.links.len();
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    format!(
                        "the gate to {} names link {} of {links}, counted from 0",
                        gate.target, hop.link
                    ),
                ));
            }
        }
    }
    Ok(())
}

impl Shared {
    pub(super) fn now(&self) -> Time {
        Time::ZERO + self.origin.elapsed()
    }

    pub(super) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn wire_bytes(&self, payload: usize) -> u32 {
        u32::try_from(payload)
            .unwrap_or(u32::MAX)
            .saturating_add(self.header_bytes)
    }

    fn offer(&self, route: &Arc<[usize]>, payload: &[u8], exit: Exit) {
        let bytes = self.wire_bytes(payload.len());
        self.plane.offer(self.now(), route, bytes, payload, exit);
    }
}

/// A gate's socket, which its clients' answers leave from, too.
#[derive(Debug)]
struct Gate {
    config: UdpGate,
    socket: Arc<UdpSocket>,
}

impl Gate {
    /// The directions of links that a client's datagrams cross.
    fn route(&self, client: SocketAddr) -> &[Hop] {
        let own = self.config.others.iter().find(|(who, _)| *who == client);
        own.map_or(&self.config.route, |(_, route)| route)
    }
}

/// A client's upstream socket and the thread that waits on it for answers.
struct Client {
    upstream: Arc<UdpSocket>,
    route: Arc<[usize]>,
    last_heard: Instant,
    gone: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Client {
    fn end(self) {
        self.gone.store(true, Ordering::Relaxed);
        let _ = self.thread.join();
    }
}

/// Receives from a gate's clients until the network stops.
fn serve(shared: &Arc<Shared>, gate: &Arc<Gate>) {
    let mut clients: HashMap<SocketAddr, Client> = HashMap::new();
    let mut buffer = vec![0; RECEIVE_BUFFER];
    while !shared.stopped() {
        // Errors are timeouts, or ICMP messages about earlier datagrams: nothing that concerns the
        // next one.
        let Ok((len, from)) = gate.socket.recv_from(&mut buffer) else {
            continue;
        };
        if !clients.contains_key(&from) {
            match admit(shared, gate, &mut clients, from) {
                Some(client) => clients.insert(from, client),
                None => {
                    shared.clients_refused.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
            };
        }
        if let Some(client) = clients.get_mut(&from) {
            client.last_heard = Instant::now();
            let exit = Exit::Upstream(client.upstream.clone());
            shared.offer(&client.route, &buffer[..len], exit);
        }
    }
    for (_, client) in clients {
        client.end();
    }
}

fn admit(
    shared: &Arc<Shared>,
    gate: &Arc<Gate>,
    clients: &mut HashMap<SocketAddr, Client>,
    from: SocketAddr,
) -> Option<Client> {
    if clients.len() >= UdpNetwork::MAX_CLIENTS {
        let (&oldest, client) = clients.iter().min_by_key(|(_, client)| client.last_heard)?;
        if client.last_heard.elapsed() < CLIENT_IDLE {
            return None;
        }
        clients.remove(&oldest)?.end();
    }
    start_client(shared, gate, from).ok()
}

fn start_client(shared: &Arc<Shared>, gate: &Arc<Gate>, from: SocketAddr) -> io::Result<Client> {
    let target = gate.config.target;
    let any = match target {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    let upstream = Arc::new(bind(any)?);
    upstream.connect(target)?;
    let gone = Arc::new(AtomicBool::new(false));
    let route = gate.route(from);
    let there = route.iter().map(|hop| hop.lane()).collect();
    let back: Arc<[usize]> = route.iter().rev().map(|hop| hop.back().lane()).collect();
    let thread = {
        let (shared, gate) = (shared.clone(), gate.clone());
        let (upstream, gone) = (upstream.clone(), gone.clone());
        std::thread::Builder::new()
            .name("link-answers".to_owned())
            .spawn(move || {
                let exit = || Exit::Client(gate.socket.clone(), from);
                pass_answers(&shared, &upstream, &gone, |payload| {
                    shared.offer(&back, payload, exit());
                });
            })?
    };
    Ok(Client {
        upstream,
        route: there,
        last_heard: Instant::now(),
        gone,
        thread,
    })
}

/// Receives what the target answers to one client, until the client or the network is gone.
fn pass_answers(shared: &Shared, upstream: &UdpSocket, gone: &AtomicBool, pass: impl Fn(&[u8])) {
    let mut buffer = vec![0; RECEIVE_BUFFER];
    while !shared.stopped() && !gone.load(Ordering::Relaxed) {
        if let Ok(len) = upstream.recv(&mut buffer) {
            pass(&buffer[..len]);
        }
    }
}

fn bind(addr: SocketAddr) -> io::Result<UdpSocket> {
    let explain =
        |error: io::Error| io::Error::new(error.kind(), format!("cannot bind UDP {addr}: {error}"));
    let socket = UdpSocket::bind(addr).map_err(explain)?;
    socket.set_read_timeout(Some(POLL))?;
    // The links work with smaller buffers too, only less well when their threads get the CPU late.
    let sock = SockRef::from(&socket);
    let _ = sock.set_recv_buffer_size(SOCKET_BUFFER);
    let _ = sock.set_send_buffer_size(SOCKET_BUFFER);
    Ok(socket)
}

//! A userspace UDP link: the network model under the wall clock, for demonstrations and tests on one machine, without root.
//!
//! Clients send to the link's address; their datagrams pass the `forward` link to the target, whose answers pass the
//! `reverse` link back. Each client has an upstream socket of its own, as behind a NAT. ECN marks are not carried over.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use manyway_units::Time;
use socket2::SockRef;

use crate::{Link, LinkConfig, LinkStats};

mod pipe;

use pipe::Pipe;

/// How a [`UdpLink`] is set up. The links' timetables begin when it starts.
#[derive(Debug, Clone)]
pub struct UdpLinkConfig {
    /// Where clients send to; port 0 lets the system choose ([`UdpLink::local_addr`] tells).
    pub listen: SocketAddr,
    /// Where their datagrams go.
    pub target: SocketAddr,
    /// From the clients to the target.
    pub forward: LinkConfig,
    /// From the target to the clients.
    pub reverse: LinkConfig,
    /// Bytes that count on the links beside each datagram's payload; 28 are an IPv4 and a UDP header.
    pub header_bytes: u32,
}

impl UdpLinkConfig {
    /// Bytes of an IPv4 and a UDP header.
    pub const HEADER_BYTES: u32 = 28;
}

/// What happened on a [`UdpLink`] so far.
#[derive(Debug, Copy, Clone, PartialEq, Eq, Default)]
pub struct UdpLinkStats {
    /// From the clients to the target.
    pub forward: LinkStats,
    /// From the target to the clients.
    pub reverse: LinkStats,
    /// Datagrams from new clients, refused because there were [`UdpLink::MAX_CLIENTS`] already.
    pub clients_refused: u64,
    /// Datagrams that the operating system would not send on.
    pub send_errors: u64,
}

/// A running userspace link; dropping it stops its threads and closes its sockets.
#[derive(Debug)]
pub struct UdpLink {
    local_addr: SocketAddr,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    config: UdpLinkConfig,
    socket: UdpSocket,
    origin: Instant,
    stop: AtomicBool,
    clients_refused: AtomicU64,
    send_errors: AtomicU64,
    forward: Pipe,
    reverse: Pipe,
}

/// How soon a thread that waits for datagrams notices that it has to stop.
const POLL: Duration = Duration::from_millis(50);
/// A client that sent nothing for so long makes room for a new one.
const CLIENT_IDLE: Duration = Duration::from_secs(60);
/// Asked for; the operating system may grant less.
const SOCKET_BUFFER: usize = 8 << 20;
/// Larger than any UDP payload.
const RECEIVE_BUFFER: usize = 1 << 16;

impl UdpLink {
    /// Clients served at a time.
    pub const MAX_CLIENTS: usize = 64;

    /// Binds `listen` and starts the threads.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] when a link's configuration can't work, else what the operating system says about
    /// binding `listen` or starting threads; the message names the address.
    pub fn start(config: UdpLinkConfig) -> io::Result<Self> {
        let invalid = |error| io::Error::new(io::ErrorKind::InvalidInput, error);
        let forward = Pipe::new(Link::new(config.forward.clone()).map_err(invalid)?);
        let reverse = Pipe::new(Link::new(config.reverse.clone()).map_err(invalid)?);
        let socket = bind(config.listen)?;
        let shared = Arc::new(Shared {
            config,
            origin: Instant::now(),
            stop: AtomicBool::new(false),
            clients_refused: AtomicU64::new(0),
            send_errors: AtomicU64::new(0),
            forward,
            reverse,
            socket,
        });
        let local_addr = shared.socket.local_addr()?;
        let mut link = UdpLink {
            local_addr,
            shared,
            threads: Vec::new(),
        };
        // Should one of them fail to start, dropping `link` stops the others.
        link.spawn("link-forward", |shared| shared.forward.deliver(&shared))?;
        link.spawn("link-reverse", |shared| shared.reverse.deliver(&shared))?;
        link.spawn("link-clients", |shared| serve_clients(&shared))?;
        Ok(link)
    }

    /// The address that clients send to.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Takes both directions down, which loses all that is under way, or brings them up again.
    pub fn set_up(&self, up: bool) {
        let now = self.shared.now();
        self.shared.forward.link().set_up(now, up);
        self.shared.reverse.link().set_up(now, up);
    }

    /// What happened so far.
    pub fn stats(&self) -> UdpLinkStats {
        UdpLinkStats {
            forward: self.shared.forward.link().stats(),
            reverse: self.shared.reverse.link().stats(),
            clients_refused: self.shared.clients_refused.load(Ordering::Relaxed),
            send_errors: self.shared.send_errors.load(Ordering::Relaxed),
        }
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

impl Drop for UdpLink {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.shared.forward.wake();
        self.shared.reverse.wake();
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so already.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn now(&self) -> Time {
        Time::ZERO + self.origin.elapsed()
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn wire_bytes(&self, payload: usize) -> u32 {
        u32::try_from(payload)
            .unwrap_or(u32::MAX)
            .saturating_add(self.config.header_bytes)
    }
}

/// A client's upstream socket and the thread that waits on it for answers.
struct Client {
    upstream: Arc<UdpSocket>,
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

/// Receives from clients until the link stops.
fn serve_clients(shared: &Arc<Shared>) {
    let mut clients: HashMap<SocketAddr, Client> = HashMap::new();
    let mut buffer = vec![0; RECEIVE_BUFFER];
    while !shared.stopped() {
        // Errors are timeouts, or ICMP messages about earlier datagrams: nothing that concerns the next one.
        let Ok((len, from)) = shared.socket.recv_from(&mut buffer) else {
            continue;
        };
        if !clients.contains_key(&from) {
            match admit(shared, &mut clients, from) {
                Some(client) => clients.insert(from, client),
                None => {
                    shared.clients_refused.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
            };
        }
        if let Some(client) = clients.get_mut(&from) {
            client.last_heard = Instant::now();
            let exit = pipe::Exit::Upstream(client.upstream.clone());
            shared
                .forward
                .offer(shared.now(), shared.wire_bytes(len), &buffer[..len], exit);
        }
    }
    for (_, client) in clients {
        client.end();
    }
}

fn admit(
    shared: &Arc<Shared>,
    clients: &mut HashMap<SocketAddr, Client>,
    from: SocketAddr,
) -> Option<Client> {
    if clients.len() >= UdpLink::MAX_CLIENTS {
        let (&oldest, client) = clients.iter().min_by_key(|(_, client)| client.last_heard)?;
        if client.last_heard.elapsed() < CLIENT_IDLE {
            return None;
        }
        clients.remove(&oldest)?.end();
    }
    start_client(shared, from).ok()
}

fn start_client(shared: &Arc<Shared>, from: SocketAddr) -> io::Result<Client> {
    let any = match shared.config.target {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    let upstream = Arc::new(bind(any)?);
    upstream.connect(shared.config.target)?;
    let gone = Arc::new(AtomicBool::new(false));
    let thread = {
        let (shared, upstream, gone) = (shared.clone(), upstream.clone(), gone.clone());
        std::thread::Builder::new()
            .name("link-answers".to_owned())
            .spawn(move || pass_answers(&shared, &upstream, from, &gone))?
    };
    Ok(Client {
        upstream,
        last_heard: Instant::now(),
        gone,
        thread,
    })
}

/// Receives what the target answers to one client, until the client or the link is gone.
fn pass_answers(shared: &Shared, upstream: &UdpSocket, client: SocketAddr, gone: &AtomicBool) {
    let mut buffer = vec![0; RECEIVE_BUFFER];
    while !shared.stopped() && !gone.load(Ordering::Relaxed) {
        if let Ok(len) = upstream.recv(&mut buffer) {
            let exit = pipe::Exit::Client(client);
            shared
                .reverse
                .offer(shared.now(), shared.wire_bytes(len), &buffer[..len], exit);
        }
    }
}

fn bind(addr: SocketAddr) -> io::Result<UdpSocket> {
    let explain =
        |error: io::Error| io::Error::new(error.kind(), format!("cannot bind UDP {addr}: {error}"));
    let socket = UdpSocket::bind(addr).map_err(explain)?;
    socket.set_read_timeout(Some(POLL))?;
    // The link works with smaller buffers too, only less well when its threads get the CPU late.
    let sock = SockRef::from(&socket);
    let _ = sock.set_recv_buffer_size(SOCKET_BUFFER);
    let _ = sock.set_send_buffer_size(SOCKET_BUFFER);
    Ok(socket)
}

/// A panic in another thread leaves the counters as they are: usable.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;

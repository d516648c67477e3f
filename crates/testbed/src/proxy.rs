//! Where clients' datagrams enter the links, and where answers leave for them.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use socket2::SockRef;

use crate::config::UdpProxy;
use crate::forwarder::{Exit, Forwarder};

/// Clients served at a time.
pub(crate) const MAX_CLIENTS: usize = 64;
/// How soon a thread that waits for datagrams notices that it has to stop.
const POLL: Duration = Duration::from_millis(50);
/// A client that sent nothing for so long makes room for a new one.
const CLIENT_IDLE: Duration = Duration::from_secs(60);
/// Asked for; the operating system may grant less.
const SOCKET_BUFFER: usize = 8 << 20;
/// Larger than any UDP payload.
const RECEIVE_BUFFER: usize = 1 << 16;

/// A [`UdpProxy`] at work: its socket receives from clients, and sends the target's answers to
/// them.
#[derive(Debug)]
pub(crate) struct Proxy {
    config: UdpProxy,
    socket: Arc<UdpSocket>,
    local_addr: SocketAddr,
    clients_refused: AtomicU64,
}

/// A client's upstream socket and the thread that waits on it for answers.
struct Client {
    upstream: Arc<UdpSocket>,
    route: Arc<[usize]>,
    last_heard: Instant,
    gone: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

type Clients = HashMap<SocketAddr, Client>;

impl Proxy {
    pub(crate) fn bind(config: UdpProxy) -> io::Result<Self> {
        let socket = Arc::new(bind(config.listen)?);
        Ok(Self {
            local_addr: socket.local_addr()?,
            socket,
            config,
            clients_refused: AtomicU64::new(0),
        })
    }

    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    pub(crate) fn clients_refused(&self) -> u64 {
        self.clients_refused.load(Ordering::Relaxed)
    }

    /// Receives from clients until the network stops.
    pub(crate) fn serve(&self, forwarder: &Arc<Forwarder>) {
        let mut clients = Clients::new();
        let mut buffer = vec![0; RECEIVE_BUFFER];
        while !forwarder.stopped() {
            // Errors are timeouts, or ICMP messages about earlier datagrams: nothing that concerns
            // the next one.
            let Ok((len, from)) = self.socket.recv_from(&mut buffer) else {
                continue;
            };
            if !clients.contains_key(&from) {
                match self.admit(forwarder, &mut clients, from) {
                    Some(client) => clients.insert(from, client),
                    None => {
                        self.clients_refused.fetch_add(1, Ordering::Relaxed);
                        continue;
                    }
                };
            }
            if let Some(client) = clients.get_mut(&from) {
                client.last_heard = Instant::now();
                let exit = Exit::Upstream(client.upstream.clone());
                forwarder.offer(&client.route, &buffer[..len], exit);
            }
        }
        for (_, client) in clients {
            client.end();
        }
    }

    fn admit(
        &self,
        forwarder: &Arc<Forwarder>,
        clients: &mut Clients,
        from: SocketAddr,
    ) -> Option<Client> {
        if clients.len() >= MAX_CLIENTS {
            let (&oldest, client) = clients.iter().min_by_key(|(_, client)| client.last_heard)?;
            if client.last_heard.elapsed() < CLIENT_IDLE {
                return None;
            }
            clients.remove(&oldest)?.end();
        }
        self.start_client(forwarder, from).ok()
    }

    fn start_client(&self, forwarder: &Arc<Forwarder>, from: SocketAddr) -> io::Result<Client> {
        let target = self.config.target;
        let any = match target {
            SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
            SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
        };
        let upstream = Arc::new(bind(any)?);
        upstream.connect(target)?;
        let gone = Arc::new(AtomicBool::new(false));
        let hops = self.config.route_of(from);
        let route = hops.iter().map(|hop| hop.direction()).collect();
        let back = hops.iter().rev().map(|hop| hop.back().direction());
        let back: Arc<[usize]> = back.collect();
        let thread = {
            let (forwarder, socket) = (forwarder.clone(), self.socket.clone());
            let (upstream, gone) = (upstream.clone(), gone.clone());
            std::thread::Builder::new()
                .name("link-answers".to_owned())
                .spawn(move || {
                    let stopped = || forwarder.stopped() || gone.load(Ordering::Relaxed);
                    receive_answers(&upstream, stopped, |payload| {
                        let exit = Exit::Client(socket.clone(), from);
                        forwarder.offer(&back, payload, exit);
                    });
                })?
        };
        Ok(Client {
            upstream,
            route,
            last_heard: Instant::now(),
            gone,
            thread,
        })
    }
}

impl Client {
    fn end(self) {
        self.gone.store(true, Ordering::Relaxed);
        let _ = self.thread.join();
    }
}

/// Receives what the target answers to one client.
fn receive_answers(upstream: &UdpSocket, stopped: impl Fn() -> bool, pass_on: impl Fn(&[u8])) {
    let mut buffer = vec![0; RECEIVE_BUFFER];
    while !stopped() {
        if let Ok(len) = upstream.recv(&mut buffer) {
            pass_on(&buffer[..len]);
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

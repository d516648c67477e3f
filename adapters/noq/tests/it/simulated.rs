//! noq's protocol, without its sockets, over the links of `manyway-network` under a virtual clock.
//! A figure doesn't depend on the speed of the machine.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use manyway_network::{Link, LinkConfig, Packet, Verdict};
use manyway_units::Time;
use noq_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig,
    Event, FourTuple, PathStatus, StreamId, Transmit, TransportConfig,
};

use crate::lab::identity;

/// An IPv4 and a UDP header.
const HEADERS: u32 = 28;
const PORT: u16 = 4433;

/// A client that sends as fast as it may, over one path or several.
pub(crate) struct Flow {
    /// For this flow's connection alone.
    pub(crate) transport: Arc<TransportConfig>,
    /// The links of its paths, by their indices.
    pub(crate) links: Vec<usize>,
    /// When it begins.
    pub(crate) starts: Duration,
}

/// Clients, a server, and the links between them.
pub(crate) struct Network {
    /// The instant of the virtual clock's time 0.
    epoch: Instant,
    now: Time,
    hosts: [Host; 2],
    /// Both directions of each link: to the server, and back.
    links: Vec<[Link; 2]>,
    /// The link of each server address.
    routes: BTreeMap<IpAddr, usize>,
    flying: BinaryHeap<Reverse<Flying>>,
    /// How many datagrams have ever been sent, to order those that arrive together.
    sent: u64,
    clients: Vec<Client>,
    config: ClientConfig,
}

struct Host {
    endpoint: Endpoint,
    connections: BTreeMap<ConnectionHandle, Connection>,
}

struct Client {
    flow: Flow,
    /// The server's addresses, one for each path.
    addresses: Vec<SocketAddr>,
    /// Once it has begun.
    handle: Option<ConnectionHandle>,
    /// The server's end.
    peer: Option<ConnectionHandle>,
    stream: Option<StreamId>,
    paths: usize,
    received: u64,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Flying {
    arrives: Time,
    number: u64,
    /// 1 for the server.
    host: usize,
    remote: SocketAddr,
    local: IpAddr,
    data: Vec<u8>,
}

impl Network {
    /// Links are given with their way to the server and the way back.
    pub(crate) fn new(links: Vec<[LinkConfig; 2]>, flows: Vec<Flow>) -> Self {
        let (server, config) = identity().unwrap();
        let both = |link: [LinkConfig; 2]| link.map(|way| Link::new(way).unwrap());
        let host = |seed: u8, server| {
            let mut config = EndpointConfig::default();
            config.rng_seed(Some([seed; 32]));
            Host {
                endpoint: Endpoint::new(Arc::new(config), server, true),
                connections: BTreeMap::new(),
            }
        };
        let mut routes = BTreeMap::new();
        let mut address = |link: usize| {
            let last = u8::try_from(routes.len() + 1).unwrap();
            let ip = IpAddr::from([10, 1, 0, last]);
            routes.insert(ip, link);
            SocketAddr::from((ip, PORT))
        };
        let client = |flow: Flow| Client {
            addresses: flow.links.iter().map(|link| address(*link)).collect(),
            flow,
            handle: None,
            peer: None,
            stream: None,
            paths: 1,
            received: 0,
        };
        let clients = flows.into_iter().map(client).collect();
        Network {
            epoch: Instant::now(),
            now: Time::ZERO,
            hosts: [host(1, None), host(2, Some(Arc::new(server)))],
            links: links.into_iter().map(both).collect(),
            routes,
            flying: BinaryHeap::new(),
            sent: 0,
            clients,
            config,
        }
    }

    /// What the server has received from each flow so far, in bytes.
    pub(crate) fn received(&self) -> Vec<u64> {
        self.clients.iter().map(|client| client.received).collect()
    }

    /// Runs until then.
    pub(crate) fn run_until(&mut self, end: Duration) {
        let end = Time::ZERO + end;
        while let Some(next) = self.next().filter(|next| *next <= end) {
            self.now = next.max(self.now);
            self.begin_flows();
            while let Some(Reverse(first)) = self.flying.peek()
                && first.arrives <= self.now
            {
                let Reverse(datagram) = self.flying.pop().unwrap();
                self.deliver(datagram);
            }
            for host in [0, 1] {
                let handles: Vec<_> = self.hosts[host].connections.keys().copied().collect();
                for handle in handles {
                    self.turn(host, handle);
                }
            }
        }
        self.now = end;
    }

    fn instant(&self) -> Instant {
        self.epoch + self.now.since(Time::ZERO)
    }

    /// When something happens next.
    fn next(&self) -> Option<Time> {
        let arrival = self.flying.peek().map(|Reverse(first)| first.arrives);
        let idle = self.clients.iter().filter(|client| client.handle.is_none());
        let starts = idle.map(|client| Time::ZERO + client.flow.starts);
        let connections = self.hosts.iter().flat_map(|host| host.connections.values());
        let timers = connections.filter_map(|connection| connection.poll_timeout());
        let timers = timers.map(|at| Time::ZERO + at.saturating_duration_since(self.epoch));
        arrival.into_iter().chain(starts).chain(timers).min()
    }

    fn begin_flows(&mut self) {
        let now = self.instant();
        for client in &mut self.clients {
            let due = Time::ZERO + client.flow.starts <= self.now;
            if due && client.handle.is_none() {
                let mut config = self.config.clone();
                config.transport_config(client.flow.transport.clone());
                let remote = client.addresses[0];
                let started = self.hosts[0]
                    .endpoint
                    .connect(now, config, remote, "localhost");
                let (handle, connection) = started.unwrap();
                self.hosts[0].connections.insert(handle, connection);
                client.handle = Some(handle);
            }
        }
    }

    fn deliver(&mut self, datagram: Flying) {
        let now = self.instant();
        let path = FourTuple::new(datagram.remote, Some(datagram.local));
        let host = &mut self.hosts[datagram.host];
        let mut answer = Vec::new();
        let data = BytesMut::from(&datagram.data[..]);
        let event = host.endpoint.handle(now, path, None, data, &mut answer);
        match event {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                if let Some(connection) = host.connections.get_mut(&handle) {
                    connection.handle_event(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                let accepted = host.endpoint.accept(incoming, now, &mut answer, None);
                let (handle, connection) = accepted.unwrap();
                host.connections.insert(handle, connection);
                // A flow's first path is its own.
                let first = SocketAddr::from((datagram.local, PORT));
                let mut clients = self.clients.iter_mut();
                let client = clients.find(|client| client.addresses[0] == first);
                client.unwrap().peer = Some(handle);
            }
            Some(DatagramEvent::Response(_)) => panic!("a datagram for nobody"),
            None => {}
        }
    }

    /// Lets a connection do what it can.
    fn turn(&mut self, at: usize, handle: ConnectionHandle) {
        let now = self.instant();
        let host = &mut self.hosts[at];
        let connection = host.connections.get_mut(&handle).unwrap();
        if connection.poll_timeout().is_some_and(|due| due <= now) {
            connection.handle_timeout(now);
        }
        while let Some(event) = connection.poll() {
            if let Event::ConnectionLost { reason } = event {
                panic!("host {at}: {reason}");
            }
        }
        match at {
            0 => {
                let mut clients = self.clients.iter_mut();
                let client = clients.find(|client| client.handle == Some(handle));
                client.unwrap().write(connection, now);
            }
            _ => {
                let read = read_all(connection);
                let mut clients = self.clients.iter_mut();
                if let Some(client) = clients.find(|client| client.peer == Some(handle)) {
                    client.received += read;
                }
            }
        }
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(event) = host.endpoint.handle_event(handle, event) {
                connection.handle_event(event);
            }
        }
        let mut transmits = Vec::new();
        let mut data = Vec::new();
        while let Some(transmit) = connection.poll_transmit(now, NonZeroUsize::MIN, &mut data) {
            transmits.push((transmit, std::mem::take(&mut data)));
        }
        for (transmit, data) in transmits {
            self.send(at, &transmit, data);
        }
    }

    fn send(&mut self, from: usize, transmit: &Transmit, data: Vec<u8>) {
        let client = SocketAddr::from((Ipv4Addr::new(10, 0, 0, 1), PORT));
        let (server, remote, local) = match from {
            0 => (transmit.destination.ip(), client, transmit.destination.ip()),
            _ => {
                let server = transmit.src_ip.unwrap();
                (server, SocketAddr::from((server, PORT)), client.ip())
            }
        };
        let link = &mut self.links[self.routes[&server]][from];
        let bytes = HEADERS + u32::try_from(transmit.size).unwrap();
        if let Verdict::Delivered { arrives, .. } = link.offer(self.now, Packet::new(bytes)) {
            self.sent += 1;
            self.flying.push(Reverse(Flying {
                arrives,
                number: self.sent,
                host: 1 - from,
                remote,
                local,
                data,
            }));
        }
    }
}

impl Client {
    /// Opens the paths that are due, and writes what the connection takes.
    fn write(&mut self, connection: &mut Connection, now: Instant) {
        if connection.is_handshaking() {
            return;
        }
        while self.paths < self.addresses.len() {
            let path = FourTuple::from_remote(self.addresses[self.paths]);
            // Until the peer has issued connection ids for the path, this fails.
            if connection
                .open_path(path, PathStatus::Available, now)
                .is_err()
            {
                break;
            }
            self.paths += 1;
        }
        if self.stream.is_none() {
            self.stream = connection.streams().open(Dir::Uni);
        }
        if let Some(stream) = self.stream {
            let chunk = [0x5a; 1 << 14];
            while connection.send_stream(stream).write(&chunk).is_ok() {}
        }
    }
}

/// Reads all that has arrived; how many bytes.
fn read_all(connection: &mut Connection) -> u64 {
    let mut bytes = 0;
    let mut streams = Vec::new();
    while let Some(stream) = connection.streams().accept(Dir::Uni) {
        streams.push(stream);
    }
    // A client opens one stream, the first.
    if streams.is_empty() {
        streams.push(StreamId::new(noq_proto::Side::Client, Dir::Uni, 0));
    }
    for stream in streams {
        let mut stream = connection.recv_stream(stream);
        let Ok(mut chunks) = stream.read(true) else {
            continue;
        };
        while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
            bytes += chunk.bytes.len() as u64;
        }
        let _ = chunks.finalize();
    }
    bytes
}

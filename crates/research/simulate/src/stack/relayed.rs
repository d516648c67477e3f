//! A client and a server, joined by relays.

use std::net::SocketAddr;

use manyway_network::LinkConfig;
use manyway_session::{
    Config, ConfigError, ConnectError, ConnectionHandle, ConnectionStats, RelayAccess,
    RelayAddress, Secrets, Ticket,
};
use manyway_units::Time;
use rand::SeedableRng;
use rand::rngs::ChaCha20Rng;

use super::host::SessionHost;
use super::node::Node;
use super::relay::RelayHost;
use super::traffic::TrafficConfig;
use crate::events::mix;
use crate::{HostId, Impairments, LinkId, Route, World};

/// A client and a server, with or without a direct path, and relays between them.
#[derive(Debug, Clone, Default)]
pub struct RelayedSpec {
    /// Decides everything random.
    pub seed: u64,
    /// The client's configuration.
    pub client: Config,
    /// The server's configuration.
    pub server: Config,
    /// What the client's application does.
    pub client_traffic: TrafficConfig,
    /// What the server's application does.
    pub server_traffic: TrafficConfig,
    /// One-way links, by which legs name them. Each exists twice, once for each direction.
    pub links: Vec<LinkConfig>,
    /// Links of the direct path, as indices; `None` for none.
    pub direct: Option<Vec<usize>>,
    /// For each relay the links to it from the client, and from it to the server.
    pub relays: Vec<[Vec<usize>; 2]>,
    /// Further interfaces of the client.
    pub uplinks: Vec<Uplink>,
    /// So many of the relays are in the ticket: the server can be found there.
    pub named: usize,
    /// What goes wrong on the direct path.
    pub impairments: Impairments,
}

/// A further interface of the client's, with a socket of its own.
#[derive(Debug, Clone, Default)]
pub struct Uplink {
    /// Links of its direct path, as indices; `None` for none.
    pub direct: Option<Vec<usize>>,
    /// Links to each relay, as far as there is a way.
    pub relays: Vec<Option<Vec<usize>>>,
}

/// Such hosts in a world.
#[derive(Debug)]
pub struct Relayed {
    /// The world.
    pub world: World<Node>,
    /// The host that connects.
    pub client: HostId,
    /// The host that listens.
    pub server: HostId,
    /// The relays.
    pub relays: Vec<HostId>,
    /// What the client may use them by.
    pub access: Vec<RelayAccess>,
    /// Each link towards the server, and its twin back.
    pub links: Vec<[LinkId; 2]>,
    /// What the client connects with.
    pub ticket: Ticket,
}

/// The client's address.
const CLIENT: SocketAddr = addr([10, 0, 0, 1]);
/// The server's address.
const SERVER: SocketAddr = addr([10, 0, 0, 2]);

const fn addr(ip: [u8; 4]) -> SocketAddr {
    SocketAddr::new(
        std::net::IpAddr::V4(std::net::Ipv4Addr::new(ip[0], ip[1], ip[2], ip[3])),
        4433,
    )
}

impl Relayed {
    /// Builds the world. Nothing is sent before [`Relayed::connect`].
    ///
    /// # Errors
    /// One of the configurations doesn't hold together.
    ///
    /// # Panics
    /// A leg names a link that isn't there, or a link's configuration can't work.
    pub fn new(spec: RelayedSpec) -> Result<Self, ConfigError> {
        let seed = mix(spec.seed);
        let mut world = World::new(spec.seed);
        let links: Vec<[LinkId; 2]> = spec
            .links
            .iter()
            .map(|config| {
                [(); 2].map(|()| {
                    world
                        .add_link(config.clone())
                        .expect("a link that can work")
                })
            })
            .collect();
        let end =
            |config, seed, traffic| SessionHost::new(config, seed, traffic).map(Node::Session);
        let client = world.add_host(end(spec.client, mix(seed ^ 1), spec.client_traffic)?);
        let server = world.add_host(end(spec.server, mix(seed ^ 2), spec.server_traffic)?);
        let ends = [(client, "eth0", CLIENT), (server, "eth0", SERVER)];
        let uplinks: Vec<_> = (1u8..).zip(&spec.uplinks).collect();
        let names: Vec<String> = uplinks.iter().map(|(n, _)| format!("eth{n}")).collect();
        let more = uplinks.iter().zip(&names);
        let more = more.map(|((n, _), name)| (client, name.as_str(), addr([10, 0, *n, 1])));
        for (host, name, at) in ends.into_iter().chain(more) {
            let (now, socket) = (world.now(), world.add_socket(host, at));
            session(&mut world, host).add_local(now, socket, name, at, None);
        }
        let route = |world: &mut World<Node>, [from, to]: [SocketAddr; 2], leg: &[usize], bad| {
            let over = |direction: usize| -> Vec<LinkId> {
                leg.iter().map(|&n| links[n][direction]).collect()
            };
            let mut back = over(1);
            back.reverse();
            for ([from, to], links) in [([from, to], over(0)), ([to, from], back)] {
                let route = Route {
                    links,
                    impairments: bad,
                    ..Route::default()
                };
                world.add_route(from, to, route);
            }
        };
        if let Some(leg) = &spec.direct {
            route(&mut world, [CLIENT, SERVER], leg, spec.impairments);
        }
        for (n, uplink) in &uplinks {
            if let Some(leg) = &uplink.direct {
                let from = addr([10, 0, *n, 1]);
                route(&mut world, [from, SERVER], leg, spec.impairments);
            }
        }
        let (mut relays, mut access) = (Vec::new(), Vec::new());
        for (n, [up, down]) in (0u16..).zip(&spec.relays) {
            let at = addr([10, 1, (n >> 8) as u8, n as u8]);
            let mut relay = RelayHost::new(mix(seed ^ 0x100 ^ u64::from(n) << 16));
            access.push(relay.access(at));
            let host = world.add_host(Node::Relay(relay));
            world.add_socket(host, at);
            route(&mut world, [CLIENT, at], up, Impairments::default());
            route(&mut world, [at, SERVER], down, Impairments::default());
            for (i, uplink) in &uplinks {
                if let Some(Some(up)) = uplink.relays.get(usize::from(n)) {
                    let from = addr([10, 0, *i, 1]);
                    route(&mut world, [from, at], up, Impairments::default());
                }
            }
            relays.push(host);
        }
        let secrets = Secrets::generate(&mut ChaCha20Rng::seed_from_u64(mix(seed ^ 3)));
        let mut ticket = secrets.ticket(vec![SERVER]);
        let listener = session(&mut world, server);
        listener.listen(secrets);
        let named: Vec<RelayAddress> = access[..spec.named].iter().map(|a| a.relay).collect();
        ticket.relays = named
            .iter()
            .map(|relay| (relay.address, relay.id))
            .collect();
        listener
            .endpoint_mut()
            .listen_at(Time::ZERO, ticket.id, &named);
        Ok(Self {
            world,
            client,
            server,
            relays,
            access,
            links,
            ticket,
        })
    }

    /// Lets the client connect now.
    ///
    /// # Errors
    /// What [`SessionHost::connect`] says.
    pub fn connect(&mut self) -> Result<ConnectionHandle, ConnectError> {
        let (now, ticket) = (self.world.now(), self.ticket.clone());
        let client = session(&mut self.world, self.client).endpoint_mut();
        client.connect_through(now, &ticket, &self.access)
    }

    /// Offers the client these relays, of all there are.
    pub fn offer(&mut self, relays: std::ops::Range<usize>) {
        let now = self.world.now();
        let client = session(&mut self.world, self.client);
        let handle = client.traffic().connection();
        let connection = handle.and_then(|handle| client.endpoint_mut().connection(handle));
        if let Some(connection) = connection {
            connection.add_relays(now, &self.access[relays]);
        }
    }

    /// The host that connects.
    pub fn client(&mut self) -> &mut SessionHost {
        session(&mut self.world, self.client)
    }

    /// The host that listens.
    pub fn server(&mut self) -> &mut SessionHost {
        session(&mut self.world, self.server)
    }

    /// A relay.
    ///
    /// # Panics
    /// There are fewer.
    pub fn relay(&mut self, n: usize) -> &mut RelayHost {
        self.world.host_mut(self.relays[n]).relay_mut()
    }

    /// The client's counters; empty without a connection.
    pub fn client_stats(&mut self) -> ConnectionStats {
        self.client().stats().unwrap_or_default()
    }
}

fn session(world: &mut World<Node>, host: HostId) -> &mut SessionHost {
    world.host_mut(host).session_mut()
}

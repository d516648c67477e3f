//! A client and a server, joined by direct paths.

use std::net::SocketAddr;
use std::time::Duration;

use manyway_session::{Config, ConfigError, ConnectError, ConnectionHandle, Secrets, Ticket};
use rand::SeedableRng;
use rand::rngs::ChaCha20Rng;

use super::host::SessionHost;
use super::traffic::TrafficConfig;
use crate::events::mix;
use crate::{HostId, Impairments, LinkId, Route, World};

/// Two hosts that will talk to each other: a client that connects and a server that listens.
#[derive(Debug, Clone, Default)]
pub struct PairSpec {
    /// Tells the pairs of one world apart: the first byte but one of their addresses.
    pub number: u8,
    /// The client's configuration.
    pub client: Config,
    /// The server's configuration.
    pub server: Config,
    /// What the client's application does.
    pub client_traffic: TrafficConfig,
    /// What the server's application does.
    pub server_traffic: TrafficConfig,
    /// A client socket each.
    pub paths: Vec<PairPath>,
    /// Give the server a socket for each path too, reachable on that path alone, instead of one for
    /// all.
    pub server_sockets: bool,
}

/// How one path of a [`PairSpec`] runs through the world.
#[derive(Debug, Clone, Default)]
pub struct PairPath {
    /// Links from the client to the server.
    pub forward: Vec<LinkId>,
    /// Links from the server to the client.
    pub reverse: Vec<LinkId>,
    /// Sender jitter of the client, see [`Route::jitter`].
    pub jitter: Duration,
    /// What goes wrong, in both directions.
    pub impairments: Impairments,
    /// The largest packet that the interfaces at its ends take, in bytes; 1500 without one.
    pub interface: Option<u32>,
    /// The largest packet that gets through, in bytes.
    pub mtu: Option<u32>,
}

/// A pair of hosts in a world.
#[derive(Debug, Clone)]
pub struct SessionPair {
    /// The host that connects.
    pub client: HostId,
    /// The host that listens.
    pub server: HostId,
    /// What the client connects with.
    pub ticket: Ticket,
    /// Client and server address of each path.
    pub addresses: Vec<(SocketAddr, SocketAddr)>,
}

impl SessionPair {
    /// Adds the two hosts with their sockets and routes to `world`; `seed` decides their keys.
    /// Nothing is sent before [`SessionPair::connect`].
    ///
    /// # Errors
    /// One of the configurations doesn't hold together.
    pub fn add(
        world: &mut World<SessionHost>,
        seed: u64,
        spec: PairSpec,
    ) -> Result<Self, ConfigError> {
        let now = world.now();
        let seed = mix(seed ^ u64::from(spec.number) << 32);
        let client = world.add_host(SessionHost::new(
            spec.client,
            mix(seed ^ 1),
            spec.client_traffic,
        )?);
        let server = world.add_host(SessionHost::new(
            spec.server,
            mix(seed ^ 2),
            spec.server_traffic,
        )?);
        let mut addresses = Vec::new();
        for (n, path) in (0..).zip(&spec.paths) {
            let near = SocketAddr::from(([10, spec.number, n, 1], 4433));
            let far_path = if spec.server_sockets { n } else { 0 };
            let far = SocketAddr::from(([10, spec.number, far_path, 2], 4433));
            let socket = world.add_socket(client, near);
            world.host_mut(client).add_local(
                now,
                socket,
                &format!("path{n}"),
                near,
                path.interface,
            );
            if n == far_path {
                let socket = world.add_socket(server, far);
                world.host_mut(server).add_local(
                    now,
                    socket,
                    &format!("path{n}"),
                    far,
                    path.interface,
                );
            }
            let there = Route {
                links: path.forward.clone(),
                jitter: path.jitter,
                impairments: path.impairments,
                mtu: path.mtu,
                ..Route::default()
            };
            let back = Route {
                links: path.reverse.clone(),
                impairments: path.impairments,
                mtu: path.mtu,
                ..Route::default()
            };
            world.add_route(near, far, there);
            world.add_route(far, near, back);
            addresses.push((near, far));
        }
        let secrets = Secrets::generate(&mut ChaCha20Rng::seed_from_u64(mix(seed ^ 3)));
        let mut far: Vec<SocketAddr> = addresses.iter().map(|(_, far)| *far).collect();
        far.dedup();
        let ticket = secrets.ticket(far);
        world.host_mut(server).listen(secrets);
        Ok(Self {
            client,
            server,
            ticket,
            addresses,
        })
    }

    /// Lets the client connect now.
    ///
    /// # Errors
    /// What [`SessionHost::connect`] says.
    pub fn connect(
        &self,
        world: &mut World<SessionHost>,
    ) -> Result<ConnectionHandle, ConnectError> {
        let now = world.now();
        world.host_mut(self.client).connect(now, &self.ticket)
    }
}

//! noq connections between UDP sockets of this machine, over emulated links. Each path goes to an
//! address of its own, 127.0.0.1 and so on, where a link begins.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use manyway_network::LinkConfig;
use manyway_testbed::{Hop, UdpNetwork, UdpNetworkConfig, UdpProxy};
use noq::rustls::RootCertStore;
use noq::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use noq::{
    ClientConfig, Connection, Endpoint, Path, PathError, PathStatus, ServerConfig, TransportConfig,
};

/// An IPv4 and a UDP header.
const HEADERS: u32 = 28;

/// Clients and their servers, with links between them.
pub(crate) struct Lab {
    flows: Vec<Flow>,
    config: ClientConfig,
    /// The links work as long as this is there.
    _network: UdpNetwork,
}

struct Flow {
    client: Endpoint,
    server: Endpoint,
    server_config: ServerConfig,
    /// Where its paths begin.
    addresses: Vec<SocketAddr>,
}

/// Both ends of a connection.
pub(crate) struct Connected {
    /// The end that opened it.
    pub(crate) client: Connection,
    /// The other one.
    pub(crate) server: Connection,
    /// The client's paths.
    pub(crate) paths: Vec<Path>,
}

impl Lab {
    /// A network of `links`, the same in both directions. A flow is a client with a server, and
    /// names the link of each of its paths.
    pub(crate) fn new(links: &[LinkConfig], flows: &[&[usize]]) -> anyhow::Result<Self> {
        let (server_config, config) = identity()?;
        let mut proxies = Vec::new();
        let mut started = Vec::new();
        for flow in flows {
            let server = Endpoint::server(server_config.clone(), loopback(1))?;
            for (index, link) in flow.iter().enumerate() {
                proxies.push(UdpProxy {
                    listen: loopback(u8::try_from(index + 1)?),
                    target: server.local_addr()?,
                    route: vec![Hop::forward(*link)],
                    others: Vec::new(),
                });
            }
            // Paths lead to different loopback addresses, so the client isn't bound to one.
            let client = Endpoint::client(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)))?;
            started.push((client, server, flow.len()));
        }
        let network = UdpNetwork::start(UdpNetworkConfig {
            links: links
                .iter()
                .map(|link| [link.clone(), link.clone()])
                .collect(),
            proxies,
            header_bytes: HEADERS,
        })?;
        let mut addresses = (0..).map_while(|index| network.proxy_addr(index));
        let flows = started.into_iter().map(|(client, server, paths)| Flow {
            client,
            server,
            server_config: server_config.clone(),
            addresses: addresses.by_ref().take(paths).collect(),
        });
        Ok(Lab {
            flows: flows.collect(),
            config,
            _network: network,
        })
    }

    /// Connects a flow's client with its server, over all paths. Each end has a transport
    /// configuration for this connection alone.
    pub(crate) async fn connect(
        &self,
        flow: usize,
        [at_client, at_server]: [Arc<TransportConfig>; 2],
    ) -> anyhow::Result<Connected> {
        let flow = &self.flows[flow];
        let mut config = self.config.clone();
        config.transport_config(at_client);
        let connecting = flow
            .client
            .connect_with(config, flow.addresses[0], "localhost")?;
        let accepted = async {
            let incoming = flow.server.accept().await.context("the server is gone")?;
            // The endpoint's own configuration would be one for all connections.
            let mut config = flow.server_config.clone();
            config.transport_config(at_server);
            anyhow::Ok(incoming.accept_with(Arc::new(config))?.await?)
        };
        let connected = async { anyhow::Ok(connecting.await?) };
        let (client, server) = tokio::try_join!(connected, accepted)?;
        let mut paths = vec![client.path(noq::PathId::ZERO).context("no first path")?];
        for address in &flow.addresses[1..] {
            paths.push(open_path(&client, *address).await?);
        }
        Ok(Connected {
            client,
            server,
            paths,
        })
    }
}

/// Sends `data` from one end to the other; what arrived.
pub(crate) async fn send(
    from: &Connection,
    to: &Connection,
    data: &[u8],
) -> anyhow::Result<Vec<u8>> {
    let sent = async {
        let mut stream = from.open_uni().await?;
        stream.write_all(data).await?;
        stream.finish()?;
        anyhow::Ok(())
    };
    let received = async {
        let mut stream = to.accept_uni().await?;
        anyhow::Ok(stream.read_to_end(usize::MAX).await?)
    };
    let ((), data) = tokio::try_join!(sent, received)?;
    Ok(data)
}

/// noq's settings for connections of some paths, with its own CUBIC on each.
pub(crate) fn multipath() -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport.max_concurrent_multipath_paths(4);
    transport
}

/// A server's identity, and clients that know it.
pub(crate) fn identity() -> anyhow::Result<(ServerConfig, ClientConfig)> {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])?;
    let certificate = CertificateDer::from(made.cert);
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let mut server = ServerConfig::with_single_cert(vec![certificate.clone()], key.into())?;
    server.transport_config(Arc::new(multipath()));
    let mut roots = RootCertStore::empty();
    roots.add(certificate)?;
    let client = ClientConfig::with_root_certificates(Arc::new(roots))?;
    Ok((server, client))
}

fn loopback(last: u8) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::new(127, 0, 0, last), 0))
}

/// Opens a path as soon as the server has issued connection ids for it.
async fn open_path(connection: &Connection, address: SocketAddr) -> anyhow::Result<Path> {
    loop {
        match connection.open_path(address, PathStatus::Available).await {
            Ok(path) => return Ok(path),
            Err(PathError::RemoteCidsExhausted) => {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

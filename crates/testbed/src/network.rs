//! Several links between UDP sockets, some of them shared by several routes.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use manyway_network::{InvalidLink, Link, LinkStats};

use crate::config::{Hop, UdpNetworkConfig};
use crate::forwarder::Forwarder;
use crate::proxy::{self, Proxy};

/// A running network of emulated links; dropping it stops its threads and closes its sockets.
#[derive(Debug)]
pub struct UdpNetwork {
    forwarder: Arc<Forwarder>,
    proxies: Vec<Arc<Proxy>>,
    threads: Vec<JoinHandle<()>>,
}

impl UdpNetwork {
    /// Clients served at a time by each proxy.
    pub const MAX_CLIENTS: usize = proxy::MAX_CLIENTS;

    /// Binds the proxies and starts the threads.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] when a link's configuration can't work or a route names a
    /// link that isn't there, else what the operating system says about binding a proxy or starting
    /// threads; the message names the address.
    pub fn start(config: UdpNetworkConfig) -> io::Result<Self> {
        config.check_routes()?;
        let invalid = |error: InvalidLink| io::Error::new(io::ErrorKind::InvalidInput, error);
        let links = config.links.into_iter().flatten();
        let links = links.map(Link::new).collect::<Result<_, _>>();
        let forwarder = Forwarder::new(links.map_err(invalid)?, config.header_bytes);
        // Should a thread fail to start, dropping `network` stops the others.
        let mut network = UdpNetwork {
            forwarder: Arc::new(forwarder),
            proxies: Vec::new(),
            threads: Vec::new(),
        };
        network.spawn("links", |forwarder| forwarder.run())?;
        for config in config.proxies {
            let proxy = Arc::new(Proxy::bind(config)?);
            network.proxies.push(proxy.clone());
            network.spawn("link-clients", move |forwarder| proxy.serve(&forwarder))?;
        }
        Ok(network)
    }

    /// The address of a proxy, by its index in the configuration; `None` if there are fewer.
    pub fn proxy_addr(&self, index: usize) -> Option<SocketAddr> {
        self.proxies.get(index).map(|proxy| proxy.local_addr())
    }

    /// Takes both directions of a link down, which loses all that is under way, or brings them up
    /// again.
    pub fn set_up(&self, link: usize, up: bool) {
        let now = self.forwarder.now();
        for hop in [Hop::forward(link), Hop::reverse(link)] {
            self.forwarder
                .with_link(hop.direction(), |link| link.set_up(now, up));
        }
    }

    /// What happened on one direction of a link so far; nothing if it isn't there.
    pub fn link_stats(&self, hop: Hop) -> LinkStats {
        let stats = self
            .forwarder
            .with_link(hop.direction(), |link| link.stats());
        stats.unwrap_or_default()
    }

    /// Datagrams from new clients, refused because their proxy had [`UdpNetwork::MAX_CLIENTS`]
    /// already.
    pub fn clients_refused(&self) -> u64 {
        self.proxies
            .iter()
            .map(|proxy| proxy.clients_refused())
            .sum()
    }

    /// Datagrams that the operating system would not send on.
    pub fn send_errors(&self) -> u64 {
        self.forwarder.send_errors()
    }

    fn spawn(
        &mut self,
        name: &str,
        run: impl FnOnce(Arc<Forwarder>) + Send + 'static,
    ) -> io::Result<()> {
        let forwarder = self.forwarder.clone();
        let builder = std::thread::Builder::new().name(name.to_owned());
        self.threads.push(builder.spawn(move || run(forwarder))?);
        Ok(())
    }
}

impl Drop for UdpNetwork {
    fn drop(&mut self) {
        self.forwarder.stop();
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so already.
            let _ = thread.join();
        }
    }
}

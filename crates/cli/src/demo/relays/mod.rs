//! `manyway demo --relays`: mPath's Fig. 7 on this host, with real relays. One of them is useless,
//! because its path shares the direct path's bottleneck.

mod relay;
mod result;
mod shares;
#[cfg(test)]
mod tests;
mod topology;

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::Context;
use manyway::control::LawSpec;
use manyway::{Config, Endpoint, RelayAccess};
use manyway_testbed::{Hop, UdpLinkConfig, UdpNetwork, UdpNetworkConfig, UdpProxy};
use manyway_units::ByteSize;

use self::relay::LocalRelay;
use self::result::{Demo, Transfer};
use self::topology::{ACCESS, CORE, DATAGRAM, DuplexLink, EGRESS, LINKS};
use super::files::{Copies, Original, check_size};
use super::trial::{Route, Trial, TrialConfig, endpoint};
use crate::args::DemoArgs;
use crate::screen::Screen;

/// What the direct path carries in 20 s: long enough to make slow start negligible.
const SINGLE_SIZE: u64 = 11_000_000;
/// Takes about two and a half minutes with relays. The direct path reaches 200 loss epochs within
/// 100 s.
const SIZE: u64 = 150_000_000;

pub(super) async fn run(screen: &Screen, args: &DemoArgs) -> anyhow::Result<Demo> {
    let size = args.size.map_or(SIZE, ByteSize::bytes);
    check_size(size)?;
    let law = args.cc.clone().unwrap_or_else(LawSpec::mpath);
    let copies = Copies::new()?;
    let single_size = size.min(SINGLE_SIZE);
    let sources = (
        copies.create("single.bin", single_size).await?,
        copies.create("relays.bin", size).await?,
    );
    screen.say(&result::introduction());
    let relays: Vec<LocalRelay> = EGRESS
        .iter()
        .map(|_| LocalRelay::start())
        .collect::<Result<_, _>>()?;

    let name = "the direct path alone";
    // The law with which the paper compares mPath.
    let single_law = LawSpec::reno();
    let setup = Setup::new(&single_law, &relays[..0]).await?;
    screen.say(&format!(
        "{name}, law {single_law}: {}",
        ByteSize::new(single_size)
    ));
    let single = setup.run(screen, &sources.0, &copies, name).await?;

    let name = "the direct path and three relays";
    let setup = Setup::new(&law, &relays).await?;
    screen.say(&format!("{name}, law {law}: {}", ByteSize::new(size)));
    let all = setup.run(screen, &sources.1, &copies, name).await?;
    let forwarded = relays.iter().map(LocalRelay::forwarded).collect();
    Ok(Demo {
        single: Transfer {
            law: single_law,
            size: single_size,
            digest: sources.0.digest,
            trial: single,
        },
        all: Transfer {
            law,
            size,
            digest: sources.1.digest,
            trial: all,
        },
        forwarded,
    })
}

/// A receiver, and the emulated network between it and the sender.
struct Setup {
    receiver: Endpoint,
    network: UdpNetwork,
    session: Config,
    access: Vec<RelayAccess>,
}

impl Setup {
    async fn new(law: &LawSpec, relays: &[LocalRelay]) -> anyhow::Result<Self> {
        let session = Config {
            cc: law.clone(),
            max_datagram: DATAGRAM,
            // It shows what the law makes of them.
            detours: false,
            ..Config::default()
        };
        let receiver = endpoint(session.clone()).await?;
        let at = *receiver
            .listen()?
            .addresses
            .first()
            .context("the receiver has no address")?;
        let network = UdpNetwork::start(UdpNetworkConfig {
            links: LINKS.iter().map(DuplexLink::config).collect(),
            proxies: proxies(at, relays),
            header_bytes: UdpLinkConfig::HEADER_BYTES,
        })
        .context("can't start the emulated links")?;
        let access = (1..)
            .zip(relays)
            .map(|(proxy, relay)| Ok(relay.access(near(&network, proxy)?)))
            .collect::<anyhow::Result<_>>()?;
        Ok(Self {
            receiver,
            network,
            session,
            access,
        })
    }

    async fn run(
        self,
        screen: &Screen,
        source: &Original,
        copies: &Copies,
        name: &str,
    ) -> anyhow::Result<Trial> {
        let mut ticket = self.receiver.listen()?;
        // The sender knows only the near end of the direct path.
        ticket.addresses = vec![near(&self.network, 0)?];
        let relays = (1..).zip(&self.access);
        let relays = relays.map(|(number, access)| Route {
            near: access.relay.address,
            name: format!("relay {number}"),
        });
        let direct = Route {
            near: ticket.addresses[0],
            name: "direct".to_owned(),
        };
        let config = TrialConfig {
            screen,
            session: self.session,
            routes: std::iter::once(direct).chain(relays).collect(),
            ticket,
            relays: &self.access,
            source: &source.path,
            target: &copies.target(name),
        };
        let trial = Trial::run(&config, self.receiver).await;
        trial.with_context(|| format!("the transfer over {name} failed"))
    }
}

/// The direct path's near end, then each relay's address. Packets to a relay pass the access link,
/// packets from it to the receiver the relay's own link.
fn proxies(receiver: SocketAddr, relays: &[LocalRelay]) -> Vec<UdpProxy> {
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let direct = UdpProxy {
        listen,
        target: receiver,
        route: vec![Hop::forward(ACCESS), Hop::forward(CORE)],
        others: Vec::new(),
    };
    let through = |(relay, behind): (&LocalRelay, usize)| UdpProxy {
        listen,
        target: relay.address,
        route: vec![Hop::forward(ACCESS)],
        others: vec![(receiver, vec![Hop::reverse(behind)])],
    };
    let relays = relays.iter().zip(EGRESS).map(through);
    std::iter::once(direct).chain(relays).collect()
}

fn near(network: &UdpNetwork, proxy: usize) -> anyhow::Result<SocketAddr> {
    let addr = network.proxy_addr(proxy);
    addr.context("the emulated network has no such proxy")
}

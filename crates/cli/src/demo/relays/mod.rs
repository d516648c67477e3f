//! `manyway demo --relays`: mPath's Fig. 7 on this host. Real relays, of which one adds nothing
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

use self::relay::Relay;
use self::result::{Demo, Part};
use self::topology::{ACCESS, BEHIND, CORE, DATAGRAM, LINES, Line};
use super::files::{Copies, Original, check_size};
use super::trial::{Setting, Trial, Way, endpoint};
use crate::args::DemoArgs;
use crate::screen::Screen;

/// What the direct path carries in 20 s: long enough that slow start doesn't count.
const SINGLE_SIZE: u64 = 11_000_000;
/// With relays, about two and a half minutes: 200 loss epochs of the direct path take less than 100
/// s.
const SIZE: u64 = 150_000_000;
pub(super) async fn play(screen: &Screen, args: &DemoArgs) -> anyhow::Result<Demo> {
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
    let relays: Vec<Relay> = BEHIND
        .iter()
        .map(|_| Relay::start())
        .collect::<Result<_, _>>()?;

    let name = "the direct path alone";
    // What mPath is compared with in its paper.
    let single_law = LawSpec::reno();
    let stage = Stage::set(&single_law, &relays[..0]).await?;
    screen.say(&format!(
        "{name}, law {single_law}: {}",
        ByteSize::new(single_size)
    ));
    let single = stage.run(screen, &sources.0, &copies, name).await?;

    let name = "the direct path and three relays";
    let stage = Stage::set(&law, &relays).await?;
    screen.say(&format!("{name}, law {law}: {}", ByteSize::new(size)));
    let all = stage.run(screen, &sources.1, &copies, name).await?;
    let forwarded = relays.iter().map(Relay::forwarded).collect();
    Ok(Demo {
        single: Part {
            law: single_law,
            size: single_size,
            digest: sources.0.digest,
            trial: single,
        },
        all: Part {
            law,
            size,
            digest: sources.1.digest,
            trial: all,
        },
        forwarded,
    })
}

/// A receiver, the links, and relays between them.
struct Stage {
    receiver: Endpoint,
    network: UdpNetwork,
    config: Config,
    access: Vec<RelayAccess>,
}

impl Stage {
    async fn set(law: &LawSpec, relays: &[Relay]) -> anyhow::Result<Self> {
        let config = Config {
            cc: law.clone(),
            max_datagram: DATAGRAM,
            ..Config::default()
        };
        let receiver = endpoint(config.clone()).await?;
        let at = *receiver
            .listen()?
            .addresses
            .first()
            .context("the receiver has no address")?;
        let network = UdpNetwork::start(UdpNetworkConfig {
            links: LINES.iter().map(Line::config).collect(),
            proxies: proxies(at, relays),
            header_bytes: UdpLinkConfig::HEADER_BYTES,
        })
        .context("can't start the links")?;
        let access = (1..)
            .zip(relays)
            .map(|(proxy, relay)| Ok(relay.access(near(&network, proxy)?)))
            .collect::<anyhow::Result<_>>()?;
        Ok(Self {
            receiver,
            network,
            config,
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
        // The sender knows the near end of the direct path only.
        ticket.addresses = vec![near(&self.network, 0)?];
        let relays = (1..).zip(&self.access);
        let relays = relays.map(|(number, access)| Way {
            near: access.relay.address,
            name: format!("relay {number}"),
        });
        let direct = Way {
            near: ticket.addresses[0],
            name: "direct".to_owned(),
        };
        let setting = Setting {
            screen,
            config: self.config,
            ways: std::iter::once(direct).chain(relays).collect(),
            ticket,
            relays: &self.access,
            source: &source.path,
            target: &copies.target(name),
        };
        let trial = Trial::run(&setting, self.receiver).await;
        trial.with_context(|| format!("the transfer over {name} failed"))
    }
}

/// The direct path's near end, then each relay's address: its senders are behind the access link,
/// the receiver behind the relay's own.
fn proxies(receiver: SocketAddr, relays: &[Relay]) -> Vec<UdpProxy> {
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let direct = UdpProxy {
        listen,
        target: receiver,
        route: vec![Hop::forward(ACCESS), Hop::forward(CORE)],
        others: Vec::new(),
    };
    let through = |(relay, behind): (&Relay, usize)| UdpProxy {
        listen,
        target: relay.address,
        route: vec![Hop::forward(ACCESS)],
        others: vec![(receiver, vec![Hop::reverse(behind)])],
    };
    let relays = relays.iter().zip(BEHIND).map(through);
    std::iter::once(direct).chain(relays).collect()
}

fn near(network: &UdpNetwork, proxy: usize) -> anyhow::Result<SocketAddr> {
    let addr = network.proxy_addr(proxy);
    addr.context("the links have no such proxy")
}

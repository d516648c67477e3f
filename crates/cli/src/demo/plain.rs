//! The demo over independent links: the best link alone, then all of them.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::Context;
use manyway::Config;
use manyway::control::LawSpec;
use manyway_testbed::{UdpLink, UdpLinkConfig};
use manyway_units::ByteSize;

use super::files::{Copies, check_size};
use super::result::{Demo, LinkTrial};
use super::trial::{Route, Trial, TrialConfig, endpoint};
use crate::args::DemoArgs;
use crate::link::{self, LinkSpec};
use crate::screen::Screen;

/// How long the file takes over the best link alone: long enough to make slow start negligible.
const SINGLE: Duration = Duration::from_secs(15);

/// What the networks of most hosts carry: IP packets of 1500 bytes. Loopback would carry 65,536.
const DATAGRAM: usize = 1500 - UdpLinkConfig::HEADER_BYTES as usize;

pub(super) async fn run(screen: &Screen, args: &DemoArgs) -> anyhow::Result<Demo> {
    let links = args.links.clone();
    let best = link::best(&links).context("no links")?;
    let cc = args.cc.clone().unwrap_or_default();
    let size = args
        .size
        .map_or_else(|| links[best].carries_in(SINGLE), ByteSize::bytes);
    check_size(size)?;
    let copies = Copies::new()?;
    let source = copies.create("random.bin", size).await?;
    screen.say(&format!(
        "Sending a file of {} random bytes with law {cc}.",
        ByteSize::new(size)
    ));

    let transfer_over = async |name: &'static str, links: &[LinkSpec]| {
        screen.say(&format!("{name}: {}", link::list(links)));
        let target = copies.target(name);
        let trial = transfer(screen, &cc, links, (&source.path, &target)).await;
        let trial = trial.with_context(|| format!("the transfer over the {name} failed"))?;
        anyhow::Ok(LinkTrial {
            links: links.to_vec(),
            trial,
        })
    };
    let single = transfer_over("best link alone", &links[best..=best]).await?;
    let all = transfer_over("all links", &links).await?;
    Ok(Demo {
        size,
        digest: source.digest,
        cc,
        links,
        best,
        single,
        all,
    })
}

async fn transfer(
    screen: &Screen,
    cc: &LawSpec,
    specs: &[LinkSpec],
    (source, target): (&std::path::Path, &std::path::Path),
) -> anyhow::Result<Trial> {
    let session = Config {
        cc: cc.clone(),
        max_datagram: DATAGRAM,
        ..Config::default()
    };
    let receiver = endpoint(session.clone()).await?;
    let mut ticket = receiver.listen()?;
    let at = *ticket
        .addresses
        .first()
        .context("the receiver has no address")?;
    let links = start_links(specs, at)?;
    // The sender knows only the links' near ends, so it has one path through each.
    ticket.addresses = links.iter().map(UdpLink::local_addr).collect();
    let routes = ticket.addresses.iter().zip(specs);
    let routes = routes.map(|(&near, spec)| Route {
        near,
        name: spec.to_string(),
    });
    let trial = TrialConfig {
        screen,
        session,
        routes: routes.collect(),
        ticket,
        relays: &[],
        source,
        target,
    };
    Trial::run(&trial, receiver).await
}

fn start_links(links: &[LinkSpec], target: SocketAddr) -> anyhow::Result<Vec<UdpLink>> {
    let start = |link: &LinkSpec| {
        UdpLink::start(UdpLinkConfig {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            target,
            forward: link.config(),
            reverse: link.config(),
            header_bytes: UdpLinkConfig::HEADER_BYTES,
        })
        .with_context(|| format!("can't start the link {link}"))
    };
    links.iter().map(start).collect()
}

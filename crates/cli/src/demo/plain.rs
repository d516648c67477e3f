//! The demo over links of one hop each: the best alone, then all.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::Context;
use manyway::Config;
use manyway::control::LawSpec;
use manyway_testbed::{UdpLink, UdpLinkConfig};
use manyway_units::ByteSize;

use super::files::{Copies, check_size};
use super::result::{Demo, Over};
use super::trial::{Setting, Trial, Way, endpoint};
use crate::args::DemoArgs;
use crate::link::{self, LinkSpec};
use crate::screen::Screen;

/// The file takes this long over the best link alone: long enough that slow start doesn't count.
const SINGLE: Duration = Duration::from_secs(15);

pub(super) async fn play(screen: &Screen, args: &DemoArgs) -> anyhow::Result<Demo> {
    let links = args.links.clone();
    let best = link::best(&links).context("no links")?;
    let cc = args.cc.clone().unwrap_or_else(LawSpec::lia);
    let size = args
        .size
        .map_or_else(|| links[best].carries_in(SINGLE), ByteSize::bytes);
    check_size(size)?;
    let copies = Copies::new()?;
    let source = copies.create("random.bin", size).await?;
    screen.say(&format!(
        "A file of {} random bytes, law {cc}.",
        ByteSize::new(size)
    ));

    let run = async |name: &'static str, links: &[LinkSpec]| {
        screen.say(&format!("{name}: {}", link::list(links)));
        let target = copies.target(name);
        let trial = transfer(screen, &cc, links, (&source.path, &target)).await;
        let trial = trial.with_context(|| format!("the transfer over the {name} failed"))?;
        anyhow::Ok(Over {
            links: links.to_vec(),
            trial,
        })
    };
    let single = run("best link alone", &links[best..=best]).await?;
    let all = run("all links", &links).await?;
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
    let config = Config {
        cc: cc.clone(),
        ..Config::default()
    };
    let receiver = endpoint(config.clone()).await?;
    let mut ticket = receiver.listen()?;
    let at = *ticket
        .addresses
        .first()
        .context("the receiver has no address")?;
    let links = start_links(specs, at)?;
    // The sender knows the links' near ends only, so it has one path through each.
    ticket.addresses = links.iter().map(UdpLink::local_addr).collect();
    let ways = ticket.addresses.iter().zip(specs);
    let ways = ways.map(|(&near, spec)| Way {
        near,
        name: spec.to_string(),
    });
    let setting = Setting {
        screen,
        config,
        ways: ways.collect(),
        ticket,
        relays: &[],
        source,
        target,
    };
    Trial::run(&setting, receiver).await
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

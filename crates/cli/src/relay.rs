//! `manyway relay`: starts the relay's server, enrols it, prints invitations.

use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use manyway::{ByteSize, Rate};
use manyway_registry::Role;
use manyway_registry::client::{ClientError, Membership, RelayDescriptor, registry_keys};
use manyway_relay::address::{Kind, kind};
use manyway_relay::server::{
    Handle, Server, ServerConfig, ServerError, StreamConfig, affordable_connections, open_keys,
};
use manyway_relay::{Config, StreamLimits};
use manyway_units::format_duration;
use manyway_wire::relay::{GRANT_LIFE, MAX_RELAY_ADDRESSES, RateClass, RelayTicket};
use tokio::sync::oneshot;

use crate::access::new_account;
use crate::args::{RelayArgs, TcpArgs};
use crate::exit::{Stop, usage};
use crate::screen::Screen;
use crate::{families, invites, metrics, state};

/// A leaving relay ends after this long without traffic.
const IDLE: Duration = Duration::from_secs(2);
/// In kbps. Less would forward nothing that anybody waits for.
const LOWEST_LIMIT: f64 = 100.0;
/// Somebody has to get it and use it.
const SHORTEST_INVITATION: Duration = Duration::from_secs(60);
/// From about what Linux takes at least.
const BUFFERS: RangeInclusive<ByteSize> = ByteSize::new(4 << 10)..=ByteSize::new(1 << 30);

pub(crate) async fn run(screen: &Screen, args: RelayArgs) -> anyhow::Result<()> {
    let mut config = config(&args)?;
    if args.access.invite {
        return invite(&args, &config);
    }
    if args.access.invites {
        return invites::list(&config.key_file);
    }
    if let Some(which) = &args.access.revoke {
        return invites::revoke(screen, &config.key_file, which);
    }
    // What concerns invitations alone needs no registry, which the environment may name.
    if !args.enrolment.registry.is_empty() && args.enrolment.token_file.is_none() {
        return Err(usage(
            "`--registry` needs the relay's token for it: name the file with `--token-file`, or \
             unset MANYWAY_REGISTRY to run the relay without a registry",
        ));
    }
    let key_file = config.key_file.clone();
    config
        .relay
        .trusted
        .extend(registry_keys(&args.enrolment.registry).await?);
    let stop = Stop::listen(false);
    config.listen = families::available(screen, &config.listen);
    let mut server = Server::bind(config)?;
    let member = membership(&args, &key_file, &server)?;
    let handle = server.handle();
    if let Some(address) = args.metrics {
        let counted = handle.clone();
        metrics::serve(screen, address, move || counted.to_prometheus()).await?;
    }
    announce(screen, &server, &args);
    if let Some(streams) = server.take_streams() {
        tokio::spawn(async move {
            if let Err(error) = streams.run().await {
                tracing::error!(%error, "the relay no longer forwards streams over TCP");
            }
        });
    }
    let (ended, end) = oneshot::channel();
    let thread = std::thread::Builder::new().name("relay".into());
    let thread = thread.spawn(move || ended.send(server.run()).ok());
    thread.context("can't start the relay's thread")?;
    let (leave, leaving) = oneshot::channel::<()>();
    let member = member.map(|member| tokio::spawn(keep_lease(member, screen.clone(), leaving)));
    tokio::select! {
        result = end => result.unwrap_or_else(|_| {
            Err(ServerError::Poll(io::Error::other("the relay's thread ended")))
        })?,
        () = stop.requested() => {
            drop(leave);
            drain(screen, &handle, args.drain).await;
        }
    }
    if let Some(member) = member {
        member.await?;
    }
    let counters = handle.counters();
    let bytes = ByteSize::new(counters.forwarded_bytes);
    screen.say(&format!(
        "Forwarded {bytes} in {} packets",
        counters.forwarded
    ));
    if let Some(streams) = handle.streams() {
        let bytes = ByteSize::new(streams.forwarded_bytes);
        screen.say(&format!("and {bytes} in {} streams", streams.spliced));
    }
    Ok(())
}

/// The relay's membership at the registry, if the options name one.
fn membership(
    args: &RelayArgs,
    key_file: &Path,
    server: &Server,
) -> anyhow::Result<Option<Membership>> {
    let Some(file) = args
        .enrolment
        .token_file
        .as_ref()
        .filter(|_| !args.enrolment.registry.is_empty())
    else {
        return Ok(None);
    };
    let token = state::token(file, Role::Relay)?;
    let addresses = reachable(args, &server.addresses());
    if addresses.is_empty() {
        return Err(usage(
            "a registry needs the relay's address: give it with `--advertise ADDR:PORT` (or, \
             inside one network, use `--allow-private`)",
        ));
    }
    let keys = open_keys(key_file)?;
    let relay = RelayDescriptor::new(keys.id(), addresses, move |bytes| keys.sign(bytes));
    let relay = relay.over_tcp(same_over_tcp(
        &server.addresses(),
        &server.stream_addresses(),
    ));
    Ok(Some(Membership::new(
        &args.enrolment.registry,
        token,
        relay,
    )?))
}

/// Keeps the lease until the relay leaves, then gives it up.
async fn keep_lease(member: Membership, screen: Screen, leaving: oneshot::Receiver<()>) {
    let stop = async {
        leaving.await.ok();
    };
    let tell = |outcome: Result<(), &ClientError>| match outcome {
        Ok(()) => screen.say("Enrolled at the registry"),
        Err(error) => screen.error(&format!(
            "Can't enrol at the registry, trying again: {error}"
        )),
    };
    member.run(stop, tell).await;
}

/// Refuses what would make a relay or an invitation that is of no use.
fn check(args: &RelayArgs) -> anyhow::Result<()> {
    let times = [
        ("--rotate", args.rotate, GRANT_LIFE),
        (
            "--invite-time",
            args.access.invite_time,
            SHORTEST_INVITATION,
        ),
    ];
    if let Some((option, _, least)) = times.iter().find(|(_, time, least)| time < least) {
        let least = format_duration(*least);
        return Err(usage(format!("`{option}` must be at least {least}")));
    }
    let is_low = |limit: Rate| limit.bits_per_sec() < 1e3 * LOWEST_LIMIT;
    if args.limits.limit.is_some_and(is_low) {
        return Err(usage(format!(
            "`--limit` must be at least {LOWEST_LIMIT}kbps"
        )));
    }
    let (least, most) = (BUFFERS.start(), BUFFERS.end());
    if args
        .tcp
        .tcp_buffer
        .is_some_and(|size| !BUFFERS.contains(&size))
    {
        return Err(usage(format!("`--tcp-buffer` must be {least} to {most}")));
    }
    let is_none = |address: &&SocketAddr| address.port() == 0 || address.ip().is_unspecified();
    match args.advertise.iter().find(is_none) {
        Some(address) => Err(usage(format!(
            "`--advertise {address}` leads nowhere: give the address and port at which peers reach \
             the relay"
        ))),
        None => Ok(()),
    }
}

fn config(args: &RelayArgs) -> anyhow::Result<ServerConfig> {
    check(args)?;
    let highest_class = args
        .limits
        .account_limit
        .map(|rate| class(rate, "--account-limit"))
        .transpose()?;
    Ok(ServerConfig {
        listen: args.listen.clone(),
        key_file: match &args.key_file {
            Some(file) => file.clone(),
            None => state::file("relay.key")?,
        },
        rotate: args.rotate,
        relay: Config {
            trusted: args.access.trust.clone(),
            own: args.advertise.clone(),
            allow_private: args.limits.allow_private,
            limit: args.limits.limit.map(|rate| rate.bytes_per_sec() as u64),
            highest_class,
        },
        streams: args.tcp.tcp.then(|| streams(&args.tcp)),
    })
}

fn streams(args: &TcpArgs) -> StreamConfig {
    let wanted = args.tcp_connections as usize;
    let connections = wanted.min(affordable_connections().unwrap_or(wanted));
    if connections < wanted {
        tracing::warn!(
            connections,
            "the limit of open files allows fewer TCP connections than requested: raise it \
             (ulimit -n, LimitNOFILE=)"
        );
    }
    StreamConfig {
        listen: args.tcp_listen.clone(),
        limits: StreamLimits {
            connections: wanted,
            buffer: args.tcp_buffer.map(|size| size.bytes() as usize),
            ..StreamLimits::default()
        }
        .within(connections),
    }
}

/// Prints the relay's identity, without access: access is a secret, and the output may be a log.
fn announce(screen: &Screen, server: &Server, args: &RelayArgs) {
    let addresses = server.addresses();
    let listed: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    screen.say(&format!(
        "Relay {} listens on {}",
        server.id(),
        listed.join(" and ")
    ));
    let over_tcp = server.stream_addresses();
    if !over_tcp.is_empty() {
        let listed: Vec<String> = over_tcp.iter().map(ToString::to_string).collect();
        screen.say(&format!("Streams over TCP on {}", listed.join(" and ")));
    }
    let tcp = same_over_tcp(&addresses, &over_tcp);
    if !over_tcp.is_empty() && !tcp {
        screen.say(
            "Peers look for streams over TCP at the relay's UDP addresses: with another \
             `--tcp-listen`, neither a RELAY nor a registry announces them",
        );
    }
    let reachable = reachable(args, &addresses);
    if reachable.is_empty() {
        screen.say(
            "This host has no public address: give the relay's with `--advertise`, or use \
             `--allow-private`",
        );
        return;
    }
    if args.advertise.is_empty() && ambiguous(&args.listen, &reachable) {
        screen.say(
            "This host has several addresses of one family: name the relay's with `--listen`, or \
             forwarded packets may leave from an address that receivers don't know",
        );
    }
    let ticket = RelayTicket {
        relay: server.id(),
        addresses: reachable,
        tcp,
        access: None,
    };
    screen.say(&format!(
        "RELAY for listeners, which need no access: {ticket}"
    ));
    screen.say("`manyway relay --invite` prints a RELAY with access");
}

/// Prints a new account's RELAY on standard output.
fn invite(args: &RelayArgs, config: &ServerConfig) -> anyhow::Result<()> {
    invites::exists(&config.key_file)?;
    let keys = open_keys(&config.key_file)?;
    let addresses = reachable(args, &args.listen);
    if addresses.is_empty() {
        return Err(usage(
            "peers can't reach the relay: give its address with `--advertise ADDR:PORT` (or, \
             inside one network, use `--allow-private`)",
        ));
    }
    if let Some(any) = addresses.iter().find(|address| address.port() == 0) {
        return Err(usage(format!(
            "{any} has no port: give the relay's port with `--listen` or `--advertise`"
        )));
    }
    let class = match args.access.invite_rate {
        Some(rate) => class(rate, "--invite-rate")?,
        None => RateClass::MAX,
    };
    let access = new_account(&keys, class, args.access.invite_time)?;
    let name = args.access.invite_name.as_deref();
    invites::record(&config.key_file, &access.voucher.terms, name)?;
    let ticket = RelayTicket {
        relay: keys.id(),
        addresses,
        tcp: args.tcp.tcp
            && (args.tcp.tcp_listen.is_empty()
                || same_over_tcp(&args.listen, &args.tcp.tcp_listen)),
        access: Some(access),
    };
    writeln!(io::stdout(), "{ticket}").context("can't write to standard output")
}

fn class(rate: Rate, option: &str) -> anyhow::Result<RateClass> {
    RateClass::within(rate.bytes_per_sec() as u64)
        .ok_or_else(|| usage(format!("`{option}` must be at least 1Mbps")))
}

/// The addresses to publish: those of `--advertise`, otherwise those of this host that the relay
/// would serve.
fn reachable(args: &RelayArgs, listen: &[SocketAddr]) -> Vec<SocketAddr> {
    let mut addresses = args.advertise.clone();
    if addresses.is_empty() {
        let hosts = if_addrs::get_if_addrs().unwrap_or_default();
        let hosts: Vec<IpAddr> = hosts.iter().map(if_addrs::Interface::ip).collect();
        addresses = listen
            .iter()
            .flat_map(|&address| expand(address, &hosts))
            .filter(|address| match kind(SocketAddr::new(address.ip(), 1)) {
                Kind::Public => true,
                Kind::Private => args.limits.allow_private,
                Kind::Never => false,
            })
            .collect();
    }
    addresses.truncate(MAX_RELAY_ADDRESSES);
    addresses
}

/// Whether the relay accepts TCP at every UDP address: a RELAY has one address for both.
fn same_over_tcp(over_udp: &[SocketAddr], over_tcp: &[SocketAddr]) -> bool {
    !over_tcp.is_empty() && over_udp.iter().all(|address| over_tcp.contains(address))
}

/// Whether the system has to choose among several source addresses.
fn ambiguous(listen: &[SocketAddr], reachable: &[SocketAddr]) -> bool {
    let wildcards = listen
        .iter()
        .filter(|address| address.ip().is_unspecified());
    wildcards.into_iter().any(|wildcard| {
        let same = |address: &&SocketAddr| address.is_ipv4() == wildcard.is_ipv4();
        reachable.iter().filter(same).count() > 1
    })
}

/// The host's addresses for a wildcard, without loopback, which other hosts can't reach.
fn expand(address: SocketAddr, hosts: &[IpAddr]) -> Vec<SocketAddr> {
    if !address.ip().is_unspecified() {
        return vec![address];
    }
    let same = hosts
        .iter()
        .filter(|host| host.is_ipv4() == address.is_ipv4() && !host.is_loopback());
    same.map(|host| SocketAddr::new(*host, address.port()))
        .collect()
}

/// Goes on forwarding for a while, so that senders can move to other paths.
async fn drain(screen: &Screen, handle: &Handle, time: Duration) {
    handle.leave();
    screen.say("Stopping: telling senders to use other paths. Press Ctrl-C again to stop at once.");
    let waited = async {
        loop {
            let before = forwarded(handle);
            tokio::time::sleep(IDLE).await;
            if forwarded(handle) == before {
                return;
            }
        }
    };
    tokio::time::timeout(time, waited).await.ok();
    handle.stop();
}

/// Packets forwarded over UDP and bytes over TCP so far.
fn forwarded(handle: &Handle) -> (u64, u64) {
    let streams = handle.streams().unwrap_or_default();
    (handle.counters().forwarded, streams.forwarded_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(addresses: &[&str]) -> Vec<SocketAddr> {
        addresses.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn wildcards_are_expanded_within_their_family() {
        let hosts: Vec<IpAddr> = ["127.0.0.1", "192.0.2.1", "2001:db8::1", "::1"]
            .map(|text| text.parse().unwrap())
            .to_vec();
        let expanded = |text: &str| expand(text.parse().unwrap(), &hosts);
        assert_eq!(expanded("0.0.0.0:7"), list(&["192.0.2.1:7"]));
        assert_eq!(expanded("[::]:7"), list(&["[2001:db8::1]:7"]));
        assert_eq!(expanded("127.0.0.1:7"), list(&["127.0.0.1:7"]));
    }

    #[test]
    fn several_source_addresses_are_noticed() {
        let wildcard = list(&["0.0.0.0:7", "[::]:7"]);
        let one_each = list(&["192.0.2.1:7", "[2001:db8::1]:7"]);
        assert!(!ambiguous(&wildcard, &one_each));
        let two = list(&["192.0.2.1:7", "[2001:db8::1]:7", "[2001:db8::2]:7"]);
        assert!(ambiguous(&wildcard, &two));
        assert!(!ambiguous(&list(&["[2001:db8::2]:7"]), &two));
    }
}

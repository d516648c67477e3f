//! `manyway doctor`: checks this host's network, its relays and the way to a listener.
//!
//! It sends no files, and leaves the listener waiting.

mod relays;
mod report;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use manyway::{
    CarrierKind, Connection, Endpoint, Event, PathPair, PathProblem, PathStats, ProblemKind, Ticket,
};
use manyway_os::udp::{RECEIVE_BUFFER, SEND_BUFFER, has_buffer_limits, udp_socket};
use manyway_registry::client::ClientError;
use manyway_units::ByteSize;
use tokio::time::timeout;

use crate::args::DoctorArgs;
use crate::close::{ClosedByPeer, DONE};
use crate::diagnosis::NoAnswer;
use crate::exit::{Interrupted, Stop, usage, words};
use crate::relays::RelaySources;
use crate::screen::Screen;
use crate::ticket::Invitation;
use crate::{options, paths, ticket};
use report::{Kind, Report};

/// Addresses of no host (RFC 5737 and 3849), which stand for the Internet: nothing is sent there.
const INTERNET: [&str; 2] = ["192.0.2.1:9", "[2001:db8::1]:9"];

pub(crate) async fn run(screen: &Screen, args: DoctorArgs) -> anyhow::Result<()> {
    let given = args.ticket.as_deref().or(args.to.as_deref());
    let ticket = match given.map(ticket::read).transpose()? {
        Some(Invitation::Code(_)) => {
            return Err(usage(
                "a code works once, and `doctor` would use it up: give it a ticket",
            ));
        }
        Some(Invitation::Ticket(ticket)) => Some(ticket),
        None => None,
    };
    let mut sources = RelaySources::read(screen, &args.relays, args.network.carrier, None)?;
    let stop = Stop::listen(false);
    let endpoint = options::bind(&args.network).await?;
    let mut report = Report::default();
    buffers(&mut report);
    let checked = async {
        if let Some(ticket) = &ticket {
            listener(&mut report, &endpoint, &mut sources, ticket, &stop).await?;
        } else {
            interfaces(&mut report, &endpoint).await?;
            registry(&mut report, &mut sources, &stop).await?;
        }
        relays::check(&mut report, &args.network, sources.via()).await
    };
    let result = checked.await;
    endpoint.close().await;
    result?;
    report.show(screen, args.json)
}

/// Whether the registry answers, and accepts the token.
async fn registry(
    report: &mut Report,
    sources: &mut RelaySources,
    stop: &Stop,
) -> anyhow::Result<()> {
    match sources.check_registry(stop).await {
        Ok(true) => report.fine(Kind::Registry, "the registry answers and knows you"),
        Ok(false) => {}
        Err(error) if error.is::<Interrupted>() => return Err(error),
        Err(error) => {
            let mut text = words(&error);
            if let Some(ClientError::Unreachable { .. }) = error.downcast_ref() {
                text += ". Check its URL, that it runs, and that no firewall blocks its TCP port.";
            }
            report.problem(Kind::Registry, text);
        }
    }
    Ok(())
}

/// The sizes that the system gives to UDP sockets.
fn buffers(report: &mut Report) {
    let Ok(socket) = udp_socket(SocketAddr::from(([127, 0, 0, 1], 0)), None) else {
        return;
    };
    let sizes = [
        ("rmem_max", socket.recv_buffer_size(), RECEIVE_BUFFER),
        ("wmem_max", socket.send_buffer_size(), SEND_BUFFER),
    ];
    let mut fine = true;
    for (name, size, wanted) in sizes {
        // Linux tells twice the size that was asked for.
        let Ok(size) = size.map(|size| size / 2) else {
            continue;
        };
        if size < wanted && has_buffer_limits() {
            fine = false;
            report.faster(format!(
                "Larger UDP buffers, because this host limits them to {}: `sysctl \
                 net.core.{name}={wanted}`",
                ByteSize::new(size as u64)
            ));
        }
    }
    if fine {
        report.fine(Kind::Buffers, "UDP buffers are large enough");
    }
}

/// Whether each interface has a route to the Internet.
async fn interfaces(report: &mut Report, endpoint: &Endpoint) -> anyhow::Result<()> {
    let internet = INTERNET.map(|text| text.parse().expect("an address"));
    let pairs = endpoint.foresee(&internet).await?;
    if pairs.is_empty() {
        report.problem(
            Kind::Interface,
            "no interface has an address that others can reach. Connect this host to a network.",
        );
    }
    let mut good = 0;
    for (name, pairs) in by_interface(pairs, |(pair, _)| pair) {
        let addresses: Vec<String> = pairs.iter().map(|(p, _)| p.local.to_string()).collect();
        let addresses = addresses.join(", ");
        let works = pairs.iter().any(|(_, problem)| problem.is_none());
        good += usize::from(works);
        let problem = pairs.into_iter().find_map(|(_, problem)| problem);
        match problem.filter(|_| !works) {
            None => report.fine(
                Kind::Interface,
                format!("{name} ({addresses}) has a route to the Internet"),
            ),
            Some(problem) if problem.tunnel => report.fine(
                Kind::Interface,
                format!("{name} ({addresses}) leads to its own network only"),
            ),
            Some(problem) => {
                report.problem(Kind::Interface, to_internet(&problem));
                report.faster(too(&name));
            }
        }
    }
    if good == 1 {
        report.faster(
            "A second interface with its own uplink, on this host or on the other: Wi-Fi, a phone \
             or another provider.",
        );
    }
    Ok(())
}

/// Advice for an interface that carries nothing.
fn too(name: &str) -> String {
    format!("{name} in addition: see its problem above.")
}

fn to_internet(problem: &PathProblem) -> String {
    let name = &problem.name;
    match &problem.kind {
        ProblemKind::NoRoute => format!(
            "{name} has no route to the Internet: `{}`",
            problem.route_command()
        ),
        ProblemKind::ReversePathFilter { route } => format!(
            "{name} drops answers from the Internet, because the route there leaves by {route} and \
             the reverse-path filter is strict: `sysctl net.ipv4.conf.{name}.rp_filter=2`"
        ),
        _ => problem.to_string(),
    }
}

/// Connects, and checks each pair of addresses.
async fn listener(
    report: &mut Report,
    endpoint: &Endpoint,
    sources: &mut RelaySources,
    ticket: &Ticket,
    stop: &Stop,
) -> anyhow::Result<()> {
    sources.borrow(ticket)?;
    registry(report, sources, stop).await?;
    let dialled = sources.dial(endpoint, ticket, stop).await;
    let (connection, _tasks) = match dialled {
        Ok(dialled) => dialled,
        Err(error) => {
            let text = match error.downcast_ref::<NoAnswer>() {
                Some(NoAnswer(diagnosis)) => diagnosis.to_string(),
                None => words(&error),
            };
            report.problem(Kind::Listener, text);
            return interfaces(report, endpoint).await;
        }
    };
    paths::settle(&connection).await;
    let ended = connection.close_reason();
    if let Some(closed) = ended.and_then(|reason| ClosedByPeer::of(&reason, "")) {
        report.problem(Kind::Listener, closed.to_string());
        return interfaces(report, endpoint).await;
    }
    report.fine(Kind::Listener, "the listener answers, and knows the ticket");
    let checked = pairs(report, endpoint, &connection, ticket).await;
    connection.close(DONE, "");
    checked
}

async fn pairs(
    report: &mut Report,
    endpoint: &Endpoint,
    connection: &Connection,
    ticket: &Ticket,
) -> anyhow::Result<()> {
    let stats = connection.stats();
    let active = || stats.paths.iter().filter(|p| p.state.works());
    let pairs = endpoint.foresee(&ticket.addresses).await?;
    let learned = learned(connection).await;
    for (name, pairs) in by_interface(pairs, |(pair, _)| pair) {
        for (pair, _) in &pairs {
            let answers = active().find(|path| {
                !path.relay && path.local.ip() == pair.local && path.remote == pair.remote
            });
            if let Some(path) = answers {
                report.fine(Kind::Path, describe(path));
            }
        }
        if active().any(|path| path.name == name) {
            continue;
        }
        // What sending has shown says more than this host's tables. One line is enough: it is the
        // same for most addresses of the listener.
        let foreseen = pairs.iter().find_map(|(_, problem)| problem.as_ref());
        match (learned.get(&name).or(foreseen), pairs.first()) {
            (Some(problem), _) => report.problem(Kind::Path, problem),
            (None, Some((pair, _))) => report.problem(
                Kind::Path,
                format!(
                    "nothing comes back from {} over {name}: check that its network has access to \
                     the Internet",
                    pair.remote
                ),
            ),
            (None, None) => continue,
        }
        report.faster(too(&name));
    }
    for path in active().filter(|path| path.relay) {
        report.fine(Kind::Path, describe(path));
    }
    for relay in &stats.relays {
        if let Some(why) = &relay.refused {
            let at = relay.address;
            report.problem(
                Kind::Relay,
                format!("the relay {at} doesn't forward: {why}"),
            );
        }
    }
    advise(report, &active().collect::<Vec<_>>());
    Ok(())
}

/// What the connection has found out about interfaces that carry nothing, by their names.
async fn learned(connection: &Connection) -> BTreeMap<String, PathProblem> {
    let mut problems = BTreeMap::new();
    let mut events = connection.events();
    while let Ok(Some(event)) = timeout(Duration::ZERO, events.recv()).await {
        if let Event::PathProblem(problem) = event
            && problem.kind != ProblemKind::Silent
        {
            problems.insert(problem.name.clone(), problem);
        }
    }
    problems
}

fn describe(path: &PathStats) -> String {
    let carrier = match path.carrier {
        CarrierKind::Udp => "UDP",
        CarrierKind::Tcp => "TCP",
    };
    let relay = if path.relay { "relay " } else { "" };
    let rtt = path.rtt.as_secs_f64() * 1e3;
    let (name, remote) = (&path.name, path.remote);
    format!("{name} → {relay}{remote}: answers over {carrier} in {rtt:.1} ms")
}

fn advise(report: &mut Report, active: &[&PathStats]) {
    for path in active
        .iter()
        .filter(|path| path.carrier == CarrierKind::Tcp)
    {
        let udp =
            |other: &&&PathStats| other.name == path.name && other.carrier == CarrierKind::Udp;
        if !active.iter().any(|other| udp(&other)) {
            report.faster(format!(
                "UDP on {}, where only TCP gets through: open UDP port {} on the way.",
                path.name,
                path.remote.port()
            ));
        }
    }
    if active.len() == 1 {
        report.faster(
            "A second path: another interface on this host or on the other, or a relay (`--via`).",
        );
    }
    if active.len() > 1 {
        report.faster("`manyway paths` measures what each path adds.");
    }
}

fn by_interface<T>(items: Vec<T>, pair: impl Fn(&T) -> &PathPair) -> BTreeMap<String, Vec<T>> {
    let mut groups: BTreeMap<String, Vec<T>> = BTreeMap::new();
    for item in items {
        groups
            .entry(pair(&item).name.clone())
            .or_default()
            .push(item);
    }
    groups
}

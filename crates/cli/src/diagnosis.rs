//! Why nobody answered: one sentence and one remedy, chosen from what was observed.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use manyway::{PathProblem, ProblemKind, RelayHeard, TcpOutcome, TcpResult, Unanswered};
use manyway_wire::relay::Refusal;

/// The likeliest reason for an attempt to connect that nobody answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Diagnosis {
    /// Somebody takes TCP connections there, but doesn't know the ticket.
    OtherTicket(SocketAddr),
    /// The ticket has loopback addresses only, and wasn't made here.
    ThisHostOnly,
    /// Nobody listens there.
    PortClosed(SocketAddr),
    /// Nobody takes TCP connections there, and this side uses no UDP.
    NoTcp(SocketAddr),
    /// The ticket's relay isn't among this side's.
    NoRelayAccess(SocketAddr),
    /// The same, and this side has named a registry, which would give access.
    NoRelaysOfRegistry(SocketAddr, Missing),
    /// The relay doesn't take this side's voucher.
    RelayAccessUnknown(SocketAddr),
    /// By the relay's clock, this side's voucher has expired.
    RelayAccessOver(SocketAddr),
    /// The relay has another reason, in words.
    RelayRefuses(SocketAddr, String),
    /// The relay doesn't answer.
    RelayDown(SocketAddr),
    /// The relay answers, but the listener doesn't behind it.
    NotAtRelay(SocketAddr),
    /// Nothing leaves this host, or no answer reaches it.
    Here(PathProblem),
    /// This host has no address that fits any of these.
    NoNetwork(IpAddr),
    /// No host has this address in our own network.
    HostGone(IpAddr),
    /// Somebody on the way rejects it.
    Rejected(SocketAddr),
    /// Nobody listens at an address of another private network, which other hosts may have.
    ClosedElsewhere(SocketAddr),
    /// The ticket has only addresses of another private network.
    Private(SocketAddr),
    /// Nothing came back.
    Silent(SocketAddr),
    /// Nothing came back from an address of our own network.
    SilentNearby(SocketAddr),
    /// The ticket names nothing.
    NoAddress,
}

/// Why this side has no access to a registry's relays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// The user has named no token.
    Token,
    /// The registry hasn't answered.
    Answer,
}

impl Diagnosis {
    /// The same, where a registry is named that gives no access.
    pub(crate) fn without_registry(self, missing: Option<Missing>) -> Self {
        match (self, missing) {
            (Self::NoRelayAccess(at), Some(missing)) => Self::NoRelaysOfRegistry(at, missing),
            (other, _) => other,
        }
    }

    /// The surest evidence comes first: what somebody has said, then what this host's tables say,
    /// and silence last.
    pub(crate) fn of(seen: &Unanswered) -> Self {
        other_ticket(seen)
            .or_else(|| this_host_only(seen))
            .or_else(|| port_closed(seen))
            .or_else(|| relay_said(seen))
            .or_else(|| here(seen))
            .or_else(|| relay_silent(seen))
            .or_else(|| rejected(seen))
            .or_else(|| silent(seen))
            .unwrap_or(Self::NoAddress)
    }
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherTicket(at) => write!(
                f,
                "{at} is reachable, but doesn't answer to this ticket, which is probably an old \
                 one, or this network's sign-in page answers in its place. Use the listener's \
                 newest ticket, or sign in with a browser."
            ),
            Self::ThisHostOnly => f.write_str(
                "the ticket leads only to the host that made it, which had no network at that \
                 time. Start the listener again, and use its new ticket.",
            ),
            Self::PortClosed(at) => write!(
                f,
                "nothing listens at {at}. Start the listener, and use its newest ticket."
            ),
            Self::NoTcp(at) => write!(
                f,
                "nothing takes TCP connections at {at}, and `--carrier tcp` uses nothing else. \
                 Start the listener without `--carrier udp`, and use its newest ticket."
            ),
            Self::NoRelayAccess(at) => write!(
                f,
                "the listener waits at the relay {at}, but this side has no access to it. Ask the \
                 relay's operator for a RELAY, and name it with `--via`."
            ),
            Self::NoRelaysOfRegistry(at, Missing::Token) => write!(
                f,
                "the listener waits at the relay {at}, but this side has no access to it. If the \
                 registry lists that relay, name the file with your token (`--token-file`)."
            ),
            Self::NoRelaysOfRegistry(at, Missing::Answer) => write!(
                f,
                "the listener waits at the relay {at}, to which this side has no access, since the \
                 registry doesn't answer. Try again later."
            ),
            Self::RelayAccessUnknown(at) => write!(
                f,
                "the relay {at} doesn't accept this side's access. Ask its operator for a new \
                 RELAY."
            ),
            Self::RelayAccessOver(at) => write!(
                f,
                "this side's access to the relay {at} has expired. Ask its operator for a new \
                 RELAY. If it is new, check the date of the relay's host."
            ),
            Self::RelayRefuses(at, why) => write!(
                f,
                "the relay {at} doesn't forward: {why}. Use another relay."
            ),
            Self::RelayDown(at) => write!(
                f,
                "the relay {at} doesn't answer. Check that it runs and that no firewall blocks its \
                 port, or use another relay."
            ),
            Self::NotAtRelay(at) => write!(
                f,
                "the relay {at} works, but the listener doesn't wait there. Start the listener, \
                 and use its newest ticket."
            ),
            Self::Here(problem) => write!(f, "{problem}"),
            Self::NoNetwork(ip) => write!(
                f,
                "this host has no network that could lead to {ip}. Connect it to one with IPv{}.",
                if ip.is_ipv4() { 4 } else { 6 }
            ),
            Self::HostGone(ip) => write!(
                f,
                "no host in this network has the address {ip}: the listener's host is off, or it \
                 is in another network with the same addresses. Switch it on and use its newest \
                 ticket, or use a relay (`--via` on both sides)."
            ),
            Self::Rejected(at) => write!(
                f,
                "a firewall or router rejects what this host sends to {at}. Open UDP and TCP port \
                 {} there, or use a relay (`--via` on both sides).",
                at.port()
            ),
            Self::ClosedElsewhere(at) => write!(
                f,
                "nothing listens at {at}, or another host has this private address here. Start \
                 the listener and use its newest ticket, or use a relay (`--via` on both sides)."
            ),
            Self::Private(at) => write!(
                f,
                "{} is a private address, so only hosts in its own network reach it. Forward UDP \
                 and TCP port {} on the listener's router and start the listener with `--port {} \
                 --advertise PUBLIC-ADDRESS`, or use a relay (`--via` on both sides).",
                at.ip(),
                at.port(),
                at.port()
            ),
            Self::Silent(at) => write!(
                f,
                "a firewall drops what this host sends to {at}, or that host is off. Open UDP and \
                 TCP port {} there, or use a relay (`--via` on both sides).",
                at.port()
            ),
            Self::SilentNearby(at) => write!(
                f,
                "nothing comes back from {at}, in this host's own network: the listener's host is \
                 off, or its firewall drops what arrives. Switch it on, or open UDP and TCP port \
                 {} there.",
                at.port()
            ),
            Self::NoAddress => {
                f.write_str("the ticket names no address. Use the listener's newest ticket.")
            }
        }
    }
}

/// Nobody answered, for this reason.
#[derive(Debug)]
pub(crate) struct NoAnswer(pub(crate) Diagnosis);

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no answer: {}", self.0)
    }
}

impl std::error::Error for NoAnswer {}

fn other_ticket(seen: &Unanswered) -> Option<Diagnosis> {
    let direct = seen.tcp.iter().filter(|outcome| !outcome.relay);
    let mut connected = direct.filter(|outcome| outcome.result == TcpResult::Connected);
    connected
        .next()
        .map(|outcome| Diagnosis::OtherTicket(outcome.remote))
}

fn this_host_only(seen: &Unanswered) -> Option<Diagnosis> {
    let loopback = |address: &SocketAddr| address.ip().is_loopback();
    let only = !seen.addresses.is_empty() && seen.addresses.iter().all(loopback);
    // Bound to loopback by its user's wish, this side means this host.
    let leads_outside = seen.locals.iter().any(|ip| !ip.is_loopback());
    let relays = !seen.relays.is_empty() || !seen.closed_relays.is_empty();
    (only && leads_outside && !relays).then_some(Diagnosis::ThisHostOnly)
}

fn port_closed(seen: &Unanswered) -> Option<Diagnosis> {
    // Another host of our own network may have a private address of the listener's.
    let mut sure = refusals(seen).filter(|at| !is_elsewhere(seen, at.ip()));
    let at = sure.next()?;
    Some(match seen.udp {
        true => Diagnosis::PortClosed(at),
        false => Diagnosis::NoTcp(at),
    })
}

fn refusals(seen: &Unanswered) -> impl Iterator<Item = SocketAddr> {
    let udp = of_listener(seen, ProblemKind::Refused);
    let tcp = seen.tcp.iter().filter(|outcome| !outcome.relay);
    let tcp = tcp.filter(|outcome| outcome.result == TcpResult::Refused);
    // This host's own firewall may refuse in the listener's place.
    let forbidden = |at: &SocketAddr| of_listener(seen, ProblemKind::Forbidden).any(|f| f == *at);
    udp.chain(tcp.map(|outcome| outcome.remote))
        .filter(move |at| !forbidden(at))
}

/// The addresses of the listener that UDP has this problem with.
fn of_listener(seen: &Unanswered, kind: ProblemKind) -> impl Iterator<Item = SocketAddr> {
    let problems = seen.problems.iter();
    let problems = problems.filter(move |problem| problem.kind == kind);
    let remotes = problems.map(|problem| problem.remote);
    remotes.filter(|remote| seen.addresses.contains(remote))
}

/// What a relay, or its host, has told us.
fn relay_said(seen: &Unanswered) -> Option<Diagnosis> {
    let heard = |wanted: fn(RelayHeard) -> bool| {
        let mut contacts = seen.relays.iter();
        contacts.find(|contact| wanted(contact.heard))
    };
    let absent = heard(|heard| {
        use RelayHeard::{Granted, Refused};
        matches!(
            heard,
            Granted | Refused(Refusal::UnknownName | Refusal::Consent)
        )
    });
    if let Some(contact) = absent {
        return Some(Diagnosis::NotAtRelay(contact.address));
    }
    if let Some(contact) = heard(|heard| matches!(heard, RelayHeard::Refused(_)))
        && let RelayHeard::Refused(reason) = contact.heard
    {
        return Some(match reason {
            Refusal::Voucher => Diagnosis::RelayAccessUnknown(contact.address),
            Refusal::VoucherExpired => Diagnosis::RelayAccessOver(contact.address),
            reason => Diagnosis::RelayRefuses(contact.address, reason.to_string()),
        });
    }
    for outcome in streams(seen) {
        match &outcome.result {
            TcpResult::Connected => return Some(Diagnosis::NotAtRelay(outcome.remote)),
            TcpResult::Other(words) => {
                let prefix = format!("the relay at {}: ", outcome.remote);
                let why = words.strip_prefix(&prefix).unwrap_or(words);
                return Some(Diagnosis::RelayRefuses(outcome.remote, why.to_owned()));
            }
            TcpResult::Refused => return Some(Diagnosis::RelayDown(outcome.remote)),
            _ => {}
        }
    }
    None
}

fn streams(seen: &Unanswered) -> impl Iterator<Item = &TcpOutcome> {
    seen.tcp.iter().filter(|outcome| outcome.relay)
}

/// The relays that we have asked.
fn asked(seen: &Unanswered) -> impl Iterator<Item = SocketAddr> {
    let contacts = seen.relays.iter().map(|contact| contact.address);
    contacts.chain(streams(seen).map(|outcome| outcome.remote))
}

fn relay_silent(seen: &Unanswered) -> Option<Diagnosis> {
    let down = asked(seen).next().map(Diagnosis::RelayDown);
    down.or_else(|| {
        let closed = seen.closed_relays.first();
        closed.map(|address| Diagnosis::NoRelayAccess(*address))
    })
}

/// Something stands in the way of every pair of addresses, a relay's included: a second uplink
/// without a route is no reason.
fn here(seen: &Unanswered) -> Option<Diagnosis> {
    let here = |problem: &&PathProblem| {
        !matches!(
            problem.kind,
            ProblemKind::Refused | ProblemKind::Rejected | ProblemKind::Silent
        )
    };
    let of_pair = |local: IpAddr, remote: SocketAddr| {
        let mut problems = seen.problems.iter().filter(here);
        problems.find(|problem| problem.local == local && problem.remote == remote)
    };
    let mut found = Vec::new();
    let remotes = || seen.addresses.iter().copied().chain(asked(seen));
    for &local in &seen.locals {
        let fits = |remote: &SocketAddr| {
            remote.is_ipv4() == local.is_ipv4() && remote.ip().is_loopback() == local.is_loopback()
        };
        for remote in remotes().filter(fits) {
            found.push(of_pair(local, remote)?);
        }
    }
    // What forbids it says more than a route that one of several interfaces hasn't got.
    let said = found.iter().find(|p| p.kind != ProblemKind::NoRoute);
    match said.or(found.first()) {
        Some(problem) => Some(Diagnosis::Here((*problem).clone())),
        None => remotes().next().map(|at| Diagnosis::NoNetwork(at.ip())),
    }
}

fn rejected(seen: &Unanswered) -> Option<Diagnosis> {
    let udp = of_listener(seen, ProblemKind::Rejected);
    let tcp = seen.tcp.iter().filter(|outcome| !outcome.relay);
    let tcp = tcp.filter(|outcome| outcome.result == TcpResult::Unreachable);
    let mut said = udp
        .chain(tcp.map(|outcome| outcome.remote))
        .filter(|at| !is_elsewhere(seen, at.ip()));
    let at = said.next()?;
    // Within a network there is no router: its host doesn't answer to the address.
    Some(match is_near(seen, at.ip()) {
        true => Diagnosis::HostGone(at.ip()),
        false => Diagnosis::Rejected(at),
    })
}

fn silent(seen: &Unanswered) -> Option<Diagnosis> {
    let reachable = |at: &&SocketAddr| !is_elsewhere(seen, at.ip());
    match seen.addresses.iter().find(reachable) {
        Some(at) if is_near(seen, at.ip()) => Some(Diagnosis::SilentNearby(*at)),
        Some(at) => Some(Diagnosis::Silent(*at)),
        // Whoever refuses is there, so the network isn't what's in the way.
        None => match refusals(seen).next() {
            Some(at) => Some(Diagnosis::ClosedElsewhere(at)),
            None => seen.addresses.first().map(|at| Diagnosis::Private(*at)),
        },
    }
}

/// A private address, and probably not of our own network.
fn is_elsewhere(seen: &Unanswered, ip: IpAddr) -> bool {
    is_private(ip) && !is_near(seen, ip)
}

fn is_private(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => {
            // RFC 6598: between a provider's customers and its NAT.
            let shared = ip.octets()[0] == 100 && ip.octets()[1] & 0xc0 == 64;
            ip.is_private() || ip.is_link_local() || shared
        }
        IpAddr::V6(ip) => ip.is_unique_local() || ip.is_unicast_link_local(),
    }
}

/// Most networks have this size, or are smaller.
fn is_near(seen: &Unanswered, ip: IpAddr) -> bool {
    seen.locals.iter().any(|local| match (local, ip) {
        (IpAddr::V4(a), IpAddr::V4(b)) => a.octets()[..3] == b.octets()[..3],
        (IpAddr::V6(a), IpAddr::V6(b)) => a.octets()[..8] == b.octets()[..8],
        _ => false,
    })
}

#[cfg(test)]
mod tests;

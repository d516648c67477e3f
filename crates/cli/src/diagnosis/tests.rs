use manyway::{RelayContact, TcpOutcome};

use super::*;

const RELAY: &str = "198.51.100.4:45170";
const LISTENER: &str = "203.0.113.5:4433";

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// Two uplinks, the second without a route.
fn seen(addresses: &[&str]) -> Unanswered {
    let addresses: Vec<SocketAddr> = addresses.iter().map(|text| at(text)).collect();
    let locals = ["192.168.1.2", "10.0.0.2"].map(|ip| ip.parse().unwrap());
    let no_route = addresses
        .iter()
        .map(|&remote| problem(locals[1], remote, ProblemKind::NoRoute));
    Unanswered {
        problems: no_route.collect(),
        addresses,
        locals: locals.to_vec(),
        udp: true,
        ..Unanswered::default()
    }
}

fn problem(local: IpAddr, remote: SocketAddr, kind: ProblemKind) -> PathProblem {
    PathProblem {
        name: if local == IpAddr::from([10, 0, 0, 2]) {
            "wlan0".to_owned()
        } else {
            "eth0".to_owned()
        },
        local,
        remote,
        kind,
        tunnel: false,
    }
}

fn on_first(kind: ProblemKind) -> PathProblem {
    problem("192.168.1.2".parse().unwrap(), at(LISTENER), kind)
}

fn tcp(remote: &str, relay: bool, result: TcpResult) -> TcpOutcome {
    TcpOutcome {
        remote: at(remote),
        relay,
        result,
    }
}

fn contact(heard: RelayHeard) -> RelayContact {
    RelayContact {
        address: at(RELAY),
        heard,
    }
}

#[test]
fn each_sentence() {
    let mut said = String::new();
    let mut say = |what: &str, change: &dyn Fn(&mut Unanswered)| {
        let mut observed = seen(&[LISTENER]);
        change(&mut observed);
        said += &format!("{what}:\n  {}\n", NoAnswer(Diagnosis::of(&observed)));
    };
    say("wrong ticket", &|seen| {
        seen.tcp = vec![tcp(LISTENER, false, TcpResult::Connected)];
    });
    say("listener without a network", &|seen| {
        seen.addresses = vec![at("127.0.0.1:4433")];
        seen.problems = vec![on_first(ProblemKind::Refused)];
    });
    say("closed port", &|seen| {
        seen.problems.push(on_first(ProblemKind::Refused));
    });
    say("closed port over TCP", &|seen| {
        seen.tcp = vec![tcp(LISTENER, false, TcpResult::Refused)];
    });
    say("no TCP there, and no UDP here", &|seen| {
        seen.udp = false;
        seen.problems.clear();
        seen.tcp = vec![tcp(LISTENER, false, TcpResult::Refused)];
    });
    say("default-deny firewall", &|seen| {
        seen.tcp = vec![tcp(LISTENER, false, TcpResult::Silent)];
    });
    say("rejecting firewall", &|seen| {
        seen.problems.push(on_first(ProblemKind::Rejected));
    });
    say("host gone", &|seen| {
        seen.addresses = vec![at("192.168.1.9:4433")];
        seen.tcp = vec![tcp("192.168.1.9:4433", false, TcpResult::Unreachable)];
    });
    say("private address", &|seen| {
        seen.addresses = vec![at("192.168.2.2:4433")];
    });
    say("closed port at a private address", &|seen| {
        seen.addresses = vec![at("192.168.2.2:4433")];
        seen.tcp = vec![tcp("192.168.2.2:4433", false, TcpResult::Refused)];
    });
    say("relay without access", &|seen| {
        seen.closed_relays = vec![at(RELAY)];
    });
    say("relay that doesn't know the access", &|seen| {
        seen.relays = vec![contact(RelayHeard::Refused(Refusal::Voucher))];
    });
    say("relay's access over", &|seen| {
        seen.relays = vec![contact(RelayHeard::Refused(Refusal::VoucherExpired))];
    });
    say("relay busy", &|seen| {
        seen.relays = vec![contact(RelayHeard::Refused(Refusal::Busy))];
    });
    say("relay over TCP refuses", &|seen| {
        let words = format!("the relay at {RELAY}: it is about to stop");
        seen.tcp = vec![tcp(RELAY, true, TcpResult::Other(words))];
    });
    say("relay down", &|seen| {
        seen.relays = vec![contact(RelayHeard::Nothing)];
    });
    say("relay without the listener", &|seen| {
        seen.relays = vec![contact(RelayHeard::Refused(Refusal::UnknownName))];
    });
    say("no route at all", &|seen| {
        seen.problems.push(on_first(ProblemKind::NoRoute));
    });
    say("reverse-path filter", &|seen| {
        let route = "ppp0".to_owned();
        let kind = ProblemKind::ReversePathFilter { route };
        seen.problems.push(on_first(kind));
    });
    say("local firewall", &|seen| {
        seen.problems.push(on_first(ProblemKind::Forbidden));
    });
    say("local firewall that resets TCP", &|seen| {
        seen.problems.push(on_first(ProblemKind::Forbidden));
        seen.tcp = vec![tcp(LISTENER, false, TcpResult::Refused)];
    });
    let relays_too = |seen: &mut Unanswered, kind: ProblemKind| {
        let [first, second] = [seen.locals[0], seen.locals[1]];
        seen.relays = vec![contact(RelayHeard::Nothing)];
        let no_route = problem(second, at(RELAY), ProblemKind::NoRoute);
        let of_first = [LISTENER, RELAY].map(|to| problem(first, at(to), kind.clone()));
        seen.problems.push(no_route);
        seen.problems.extend(of_first);
    };
    say("no route to the relay, either", &|seen| {
        relays_too(seen, ProblemKind::NoRoute);
    });
    say("reverse-path filter, before a relay, too", &|seen| {
        let route = "ppp0".to_owned();
        relays_too(seen, ProblemKind::ReversePathFilter { route });
    });
    say("the relay's host refuses", &|seen| {
        seen.relays = vec![contact(RelayHeard::Nothing)];
        seen.tcp = vec![tcp(RELAY, true, TcpResult::Refused)];
    });
    say("no network", &|seen| {
        seen.locals = vec!["127.0.0.1".parse().unwrap()];
        seen.problems.clear();
        seen.relays = vec![contact(RelayHeard::Nothing)];
    });
    say("no address", &|seen| {
        *seen = Unanswered::default();
    });
    let mut observed = seen(&[LISTENER]);
    observed.closed_relays = vec![at(RELAY)];
    for (what, missing) in [
        ("registry without a token", Missing::Token),
        ("registry that doesn't answer", Missing::Answer),
    ] {
        let diagnosis = Diagnosis::of(&observed).without_registry(Some(missing));
        said += &format!("{what}:\n  {}\n", NoAnswer(diagnosis));
    }
    insta::assert_snapshot!("sentences", said);
}

/// A second uplink without a route isn't why a firewall drops what the first one sends.
#[test]
fn a_route_is_no_advice_behind_a_firewall() {
    let silent = Diagnosis::of(&seen(&[LISTENER]));
    assert_eq!(silent, Diagnosis::Silent(at(LISTENER)));
}

#[test]
fn who_has_said_something_is_believed_first() {
    let mut observed = seen(&["192.168.2.2:4433", LISTENER]);
    // Of several addresses, the one that can be the listener's is named.
    assert_eq!(Diagnosis::of(&observed), Diagnosis::Silent(at(LISTENER)));
    // Another host here may have the private address, and says nothing about the listener.
    observed.tcp = vec![tcp("192.168.2.2:4433", false, TcpResult::Refused)];
    assert_eq!(Diagnosis::of(&observed), Diagnosis::Silent(at(LISTENER)));
    observed.relays = vec![contact(RelayHeard::Nothing)];
    assert_eq!(Diagnosis::of(&observed), Diagnosis::RelayDown(at(RELAY)));
    observed.problems.push(on_first(ProblemKind::Refused));
    assert_eq!(
        Diagnosis::of(&observed),
        Diagnosis::PortClosed(at(LISTENER))
    );
    observed
        .tcp
        .push(tcp(LISTENER, false, TcpResult::Connected));
    assert_eq!(
        Diagnosis::of(&observed),
        Diagnosis::OtherTicket(at(LISTENER))
    );
}

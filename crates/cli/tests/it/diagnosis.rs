//! Failures of connections, each provoked in network namespaces: what the user reads. Skipped
//! without root.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::process::{ChildStderr, Command, Stdio};
use std::sync::mpsc;
use std::thread::spawn;

use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
use aws_lc_rs::hmac::{self, HMAC_SHA256};
use manyway::Ticket;
use manyway_testbed::live;
use manyway_wire::{AnyInit, MAC1_LEN, MAC2_LEN, OtherVersion};

use serde_json::Value;

use crate::common::place::Place;
use crate::common::{Finished, Running, eventually, secret, skipped};

/// The client's host with three uplinks, a router, and the listener's host.
///
/// ```text
/// client  eth0   10.1.0.2     default route
///         wlan0  10.2.0.2     no route
///         wlan1  10.3.0.2     default route, strict reverse-path filter
/// router  10.1.0.1, 10.2.0.1, 10.3.0.1, 203.0.113.1
/// listener eth0  203.0.113.5 (also 203.0.113.6 for a relay, and the private 192.168.77.2)
/// ```
struct Hosts {
    place: Place,
    names: [String; 3],
}

const CLIENT: usize = 0;
const ROUTER: usize = 1;
const LISTENER: usize = 2;

fn succeeds(command: &str) -> bool {
    let mut words = command.split(' ');
    let mut run = Command::new(words.next().unwrap());
    run.args(words).stdout(Stdio::null()).stderr(Stdio::null());
    run.status().is_ok_and(|status| status.success())
}

/// Whether namespaces and firewalls can be made here.
fn able() -> bool {
    let able = succeeds("unshare --net nft add table ip any") && succeeds("ip -V");
    if !able {
        skipped("it takes root, ip and nft to make hosts with firewalls");
    }
    able
}

impl Hosts {
    fn new(test: &str) -> Self {
        let id = std::process::id();
        let hosts = Self {
            place: Place::new(),
            names: ["c", "r", "l"].map(|host| format!("mw-{test}-{id}-{host}")),
        };
        for name in &hosts.names {
            assert!(succeeds(&format!("ip netns add {name}")), "{name}");
        }
        for host in [CLIENT, ROUTER, LISTENER] {
            hosts.inside(host, "ip link set lo up");
            hosts.set(host, "net.ipv4.conf.all.rp_filter", "0");
            hosts.set(host, "net.ipv4.conf.default.rp_filter", "0");
            // Addresses of IPv6 come later, and each test says what there is.
            hosts.set(host, "net.ipv6.conf.default.disable_ipv6", "1");
        }
        hosts.set(ROUTER, "net.ipv4.ip_forward", "1");
        hosts.link(
            (CLIENT, "eth0", "10.1.0.2/24"),
            (ROUTER, "port1", "10.1.0.1/24"),
        );
        hosts.link(
            (CLIENT, "wlan0", "10.2.0.2/24"),
            (ROUTER, "port2", "10.2.0.1/24"),
        );
        hosts.link(
            (CLIENT, "wlan1", "10.3.0.2/24"),
            (ROUTER, "port3", "10.3.0.1/24"),
        );
        hosts.link(
            (LISTENER, "eth0", "203.0.113.5/24"),
            (ROUTER, "port4", "203.0.113.1/24"),
        );
        hosts.inside(LISTENER, "ip addr add 203.0.113.6/24 dev eth0");
        hosts.inside(LISTENER, "ip addr add 192.168.77.2/24 dev eth0");
        hosts.inside(LISTENER, "ip route add default via 203.0.113.1");
        hosts.inside(CLIENT, "ip route add default via 10.1.0.1");
        hosts.inside(
            CLIENT,
            "ip route append default via 10.3.0.1 dev wlan1 metric 9000",
        );
        hosts.set(CLIENT, "net.ipv4.conf.wlan1.rp_filter", "1");
        hosts
    }

    fn link(
        &self,
        (a, dev_a, addr_a): (usize, &str, &str),
        (b, dev_b, addr_b): (usize, &str, &str),
    ) {
        let (ns_a, ns_b) = (&self.names[a], &self.names[b]);
        let pair =
            format!("ip link add {dev_a} netns {ns_a} type veth peer name {dev_b} netns {ns_b}");
        assert!(succeeds(&pair), "{pair}");
        for (host, dev, addr) in [(a, dev_a, addr_a), (b, dev_b, addr_b)] {
            self.inside(host, &format!("ip addr add {addr} dev {dev}"));
            self.inside(host, &format!("ip link set {dev} up"));
        }
    }

    fn inside(&self, host: usize, command: &str) {
        let command = format!("ip netns exec {} {command}", self.names[host]);
        assert!(succeeds(&command), "{command}");
    }

    /// Sets a system parameter of a host.
    fn set(&self, host: usize, name: &str, value: &str) {
        let file = format!("/proc/sys/{}", name.replace('.', "/"));
        live::inside(&self.names[host], || fs::write(&file, value)).unwrap();
    }

    /// Rules of a firewall, for a chain of this hook.
    fn firewall(&self, host: usize, hook: &str, rules: &str) {
        let rules = format!(
            "table ip f {{\n chain c {{\n type filter hook {hook} priority 0;\n{rules}\n }}\n}}\n"
        );
        let file = self.place.path("rules");
        fs::write(&file, rules).unwrap();
        self.inside(host, &format!("nft -f {}", file.display()));
    }

    /// The program on a host, with all interfaces.
    fn start(&self, host: usize, arguments: &[&str]) -> Running {
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", &self.names[host]])
            .arg(env!("CARGO_BIN_EXE_manyway"))
            .args(arguments)
            .current_dir(self.place.path("."))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Running(command.spawn().unwrap())
    }

    /// A listener at this port, whose ticket is in a file of that name.
    fn listen(&self, port: &str, more: &[&str]) -> Running {
        let file = format!("ticket-{port}");
        fs::remove_file(self.place.path(&file)).ok();
        let path = ["--path", "203.0.113.5"];
        let path = if more.contains(&"--path") {
            &[][..]
        } else {
            &path
        };
        let common = ["recv", "in", "--port", port, "--ticket-file", &file];
        let listener = self.start(LISTENER, &[&common[..], path, more].concat());
        self.place.wait_for(&file);
        listener
    }

    /// Sends a file to the listener at this port.
    fn send(&self, port: &str, more: &[&str]) -> Running {
        let ticket = format!("@ticket-{port}");
        let common = ["send", "film.mkv", "--to", &ticket];
        self.start(CLIENT, &[&common[..], more].concat())
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for name in &self.names {
            succeeds(&format!("ip netns del {name}"));
        }
    }
}

/// What a process says on standard error, line by line.
struct Said {
    lines: mpsc::Receiver<String>,
    all: String,
}

impl Said {
    fn by(running: &mut Running) -> Self {
        let stderr: ChildStderr = running.0.stderr.take().unwrap();
        let (tell, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                if tell.send(line).is_err() {
                    break;
                }
            }
        });
        Self {
            lines,
            all: String::new(),
        }
    }

    /// Waits for a line with these words, and returns it.
    fn wait_for(&mut self, words: &str) -> String {
        eventually(words, || {
            let line = self.lines.try_recv().ok()?;
            self.all += &format!("{line}\n");
            line.contains(words).then_some(line)
        })
    }
}

/// A relay on the listener's host, and a RELAY with access to it in the file `relay`.
fn relay(hosts: &Hosts) -> Running {
    let at = ["--listen", "203.0.113.6:45170", "--key-file", "relay.key"];
    let common = [&["relay", "--allow-private"], &at[..]].concat();
    let mut relay = hosts.start(LISTENER, &common);
    Said::by(&mut relay).wait_for(" listens on ");
    let invited = hosts.start(LISTENER, &[&common[..], &["--invite"]].concat());
    secret(&hosts.place.path("relay"), &invited.finish().ok().stdout);
    relay
}

/// Answers an INIT as a listener of this version of the protocol would (`docs/protocol.md`).
fn answer_as(socket: &UdpSocket, ticket: &Ticket, version: u8) {
    let mut init = [0; 1500];
    let (len, initiator) = socket.recv_from(&mut init).unwrap();
    let mac1 = &init[len - MAC2_LEN - MAC1_LEN..len - MAC2_LEN];
    let secret = Salt::none(HKDF_SHA256).extract(&ticket.secret);
    let key = secret.expand(&[b"manyway mac1"], HMAC_SHA256).unwrap();
    let answer = OtherVersion {
        version,
        receiver_cid: AnyInit::decode(&init[..len]).unwrap().sender_cid,
    };
    let sign = |bytes: &[u8]| {
        let code = hmac::sign(&key.into(), &[bytes, mac1].concat());
        *code.as_ref().first_chunk().unwrap()
    };
    socket.send_to(&answer.seal(sign), initiator).unwrap();
}

#[test]
fn each_failure_has_its_sentence() {
    if !able() {
        return;
    }
    let hosts = Hosts::new("why");
    // Of what comes in, ports 4002 and 4006 to 4010 are closed by a firewall.
    let rules = "udp dport { 4002, 4006-4010 } drop\n tcp dport { 4002, 4006-4010 } drop\n\
                 udp dport 4003 reject with icmp admin-prohibited\n\
                 tcp dport 4003 reject with icmp admin-prohibited";
    hosts.firewall(LISTENER, "input", rules);
    let end = |listener: Running| {
        listener.interrupt();
        listener.finish();
    };
    let mut failures: Vec<(&str, Running)> = Vec::new();

    end(hosts.listen("4001", &[]));
    failures.push(("closed port", hosts.send("4001", &[])));

    let _denied = hosts.listen("4002", &[]);
    failures.push(("default-deny firewall", hosts.send("4002", &[])));
    let _rejected = hosts.listen("4003", &[]);
    // It says so over the first uplink: that nothing comes over the others says less.
    failures.push(("firewall that rejects", hosts.send("4003", &[])));

    end(hosts.listen("4004", &[]));
    let old = fs::read(hosts.place.path("ticket-4004")).unwrap();
    let _renewed = hosts.listen("4004", &[]);
    fs::write(hosts.place.path("ticket-4004"), old).unwrap();
    failures.push(("old ticket", hosts.send("4004", &[])));

    let other_release = |port: &str, version| {
        end(hosts.listen(port, &[]));
        let ticket = fs::read_to_string(hosts.place.path(&format!("ticket-{port}"))).unwrap();
        let ticket: Ticket = ticket.trim().parse().unwrap();
        let at = format!("203.0.113.5:{port}");
        let socket = live::inside(&hosts.names[LISTENER], || UdpSocket::bind(at)).unwrap();
        let answering = spawn(move || answer_as(&socket, &ticket, version));
        (hosts.send(port, &["--carrier", "udp"]), answering)
    };
    let (sender, newer) = other_release("4005", 200);
    failures.push(("newer release", sender));
    let (sender, older) = other_release("4011", 2);
    failures.push(("older release", sender));

    let _over_udp = hosts.listen("4012", &["--carrier", "udp"]);
    let over_tcp = hosts.send("4012", &["--carrier", "tcp"]);
    failures.push(("TCP alone to UDP alone", over_tcp));

    let _behind_nat = hosts.listen("4006", &["--path", "192.168.77.2"]);
    failures.push(("private address behind NAT", hosts.send("4006", &[])));

    // In the network of the client's first uplink, nobody has the one address, and the router's
    // firewall drops what comes for the other.
    let rules = "udp dport 4013 drop\n tcp dport 4013 drop";
    hosts.firewall(ROUTER, "input", rules);
    let nearby = |port: &str, address: &str| {
        end(hosts.listen(port, &[]));
        let file = hosts.place.path(&format!("ticket-{port}"));
        let mut ticket: Ticket = fs::read_to_string(&file).unwrap().trim().parse().unwrap();
        ticket.addresses = vec![format!("{address}:{port}").parse().unwrap()];
        fs::write(file, ticket.to_string()).unwrap();
        hosts.send(port, &["--path", "eth0"])
    };
    let silent = nearby("4013", "10.1.0.1");
    failures.push(("silent host in the same network", silent));
    let gone = nearby("4014", "10.1.0.77");
    failures.push(("no such host in the same network", gone));

    let first_relay = relay(&hosts);
    let via = ["--via", "@relay"];
    let _relayed = hosts.listen("4007", &[&via[..], &["--keep-access"]].concat());
    failures.push(("relay without access", hosts.send("4007", &[])));
    let absent = hosts.listen("4008", &via);
    absent.signal("KILL");
    // Nobody answers there from now on, and the relay's memory of it needn't end.
    let forgotten = fs::read_to_string(hosts.place.path("ticket-4008")).unwrap();
    let mut forgotten: Ticket = forgotten.trim().parse().unwrap();
    forgotten.secret[0] ^= 1;
    fs::write(hosts.place.path("ticket-4008"), forgotten.to_string()).unwrap();
    failures.push(("relay without the listener", hosts.send("4008", &via)));

    let only = |interface: &str| hosts.send("4002", &["--path", interface]);
    failures.push(("no route", only("wlan0")));
    failures.push(("reverse-path filter", only("wlan1")));
    // A ticket that names a relay changes nothing about that.
    let _beside_relay = hosts.listen("4010", &via);
    let only = |interface: &str| hosts.send("4010", &[&via[..], &["--path", interface]].concat());
    failures.push(("no route, and a relay", only("wlan0")));
    failures.push(("reverse-path filter, and a relay", only("wlan1")));

    let mut said = String::new();
    let mut note = |(what, sender): (&str, Running)| {
        let Finished { code, stderr, .. } = sender.finish();
        said += &format!("{what}: status {code}\n{stderr}");
    };
    for failure in failures {
        note(failure);
    }
    newer.join().unwrap();
    older.join().unwrap();
    // It has to be there until the others have ended.
    let _down = hosts.listen("4009", &via);
    end(first_relay);
    note(("relay down", hosts.send("4009", &via)));
    for interface in ["eth0", "wlan0", "wlan1"] {
        hosts.inside(CLIENT, &format!("ip link set {interface} down"));
    }
    note(("no network, and a relay", hosts.send("4009", &via)));
    note(("no network", hosts.send("4001", &[])));
    insta::assert_snapshot!("sentences", said);
}

#[test]
fn uplinks_that_carry_nothing_and_an_outage_are_told() {
    if !able() {
        return;
    }
    let hosts = Hosts::new("half");
    // The third uplink works in this test.
    hosts.set(CLIENT, "net.ipv4.conf.wlan1.rp_filter", "2");
    let _listener = hosts.listen("4001", &[]);
    // Long enough for what follows.
    let slowly = ["--limit", "200kbps", "--scheduler", "redundant"];
    let mut sender = hosts.send("4001", &slowly);
    let mut said = Said::by(&mut sender);
    let unused = said.wait_for("wlan0 has no route");
    let lost = "iifname port3 drop\n oifname port3 drop";
    hosts.firewall(ROUTER, "forward", lost);
    let down = said.wait_for("is down");
    hosts.inside(ROUTER, "nft flush ruleset");
    let up = said.wait_for("is up again");
    hosts.firewall(ROUTER, "forward", "drop");
    let before = said.all.len();
    let line = said.wait_for("outage since");
    assert!(!line.contains("left"), "{line}");
    // An outage shows at once, and two seconds of it are told.
    if !said.all[before..].contains("is down") {
        said.wait_for("is down");
    }
    hosts.inside(ROUTER, "nft flush ruleset");
    said.wait_for("is up again");
    sender.interrupt();
    let told = [&*unused, &down, &up];
    insta::assert_snapshot!("half_used", told.join("\n"));
}

#[test]
fn the_outage_of_an_only_path_is_an_event() {
    if !able() {
        return;
    }
    let hosts = Hosts::new("one");
    let _listener = hosts.listen("4001", &[]);
    let one = ["--path", "eth0", "--limit", "200kbps", "--progress", "json"];
    let mut sender = hosts.send("4001", &one);
    let events = BufReader::new(sender.0.stdout.take().unwrap()).lines();
    let mut events = events.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    let mut until = |name: &str| {
        let event = events.find(|event| event["event"] == name);
        event.unwrap_or_else(|| panic!("no {name}"))
    };
    until("path_up");
    until("progress");
    hosts.firewall(ROUTER, "forward", "drop");
    let down = until("path_down");
    assert_eq!(
        (&down["name"], &down["reason"]),
        (&"eth0".into(), &"stalled".into())
    );
    // One may be under way.
    until("progress");
    let outage = until("progress");
    assert_eq!(outage["paths"][0]["state"], "stalled", "{outage}");
    assert!(outage["eta_seconds"].is_null(), "{outage}");
    let mut said = Said::by(&mut sender);
    let down = said.wait_for("is down");
    hosts.inside(ROUTER, "nft flush ruleset");
    until("path_up");
    let again = until("progress");
    assert_eq!(again["paths"][0]["state"], "active", "{again}");
    let up = said.wait_for("is up again");
    sender.interrupt();
    insta::assert_snapshot!("only_path", format!("{down}\n{up}"));
}

/// The other side only knows that nothing comes.
#[test]
fn a_host_that_loses_its_network_is_told_so() {
    if !able() {
        return;
    }
    let hosts = Hosts::new("lost");
    let receiver = hosts.listen("4001", &["--once"]);
    let mut sender = hosts.send("4001", &["--path", "eth0", "--limit", "200kbps"]);
    let mut said = Said::by(&mut sender);
    said.wait_for(" s: ");
    hosts.inside(CLIENT, "ip link set eth0 down");
    said.wait_for("is down: its interface is gone");
    let told = said.wait_for("the connection was lost");
    let words = "this host has lost its network, and nothing came for 30 s: connect it again";
    assert!(told.contains(words), "{told}");
    assert_eq!(sender.finish().code, 5);
    let received = receiver.finish();
    let words = "the peer sent nothing for 30 s: check that it still runs";
    assert!(received.stderr.contains(words), "{received:?}");
}

/// Shorter than what an explanation of a path takes while it runs.
#[test]
fn a_short_transfer_tells_of_an_uplink_without_a_route() {
    if !able() {
        return;
    }
    let hosts = Hosts::new("short");
    let _listener = hosts.listen("4001", &["--once"]);
    let paths = ["--path", "eth0", "--path", "wlan0"];
    let sent = hosts.send("4001", &paths).finish().ok();
    let told = sent
        .stderr
        .lines()
        .filter(|line| line.contains("wlan0 has no route"));
    assert_eq!(told.count(), 1, "{}", sent.stderr);
}

#[test]
fn a_listener_without_a_network_says_so_and_writes_its_ticket_again() {
    if !able() {
        return;
    }
    let hosts = Hosts::new("late");
    let _relay = relay(&hosts);
    let ticket = || {
        let text = fs::read_to_string(hosts.place.path("late")).ok()?;
        text.trim().parse::<Ticket>().ok()
    };
    hosts.inside(CLIENT, "ip link set eth0 down");
    hosts.inside(CLIENT, "ip link set wlan0 down");
    hosts.inside(CLIENT, "ip link set wlan1 down");
    let mut listener = hosts.start(
        CLIENT,
        &["recv", "in", "--ticket-file", "late", "--via", "@relay"],
    );
    let mut said = Said::by(&mut listener);
    let offline = said.wait_for("has no network yet");
    let first = ticket().unwrap();
    assert!(first.addresses.iter().all(|a| a.ip().is_loopback()));
    hosts.inside(CLIENT, "ip link set eth0 up");
    hosts.inside(CLIENT, "ip route add default via 10.1.0.1");
    let online = said.wait_for("The network is up");
    insta::assert_snapshot!("offline", format!("{offline}\n{online}"));
    let second = eventually("the second ticket", || {
        ticket().filter(|ticket| ticket.addresses != first.addresses)
    });
    assert_eq!(second.secret, first.secret);
    let hosts_named: Vec<String> = second
        .addresses
        .iter()
        .map(|a| a.ip().to_string())
        .collect();
    assert_eq!(hosts_named, ["10.1.0.2"]);
    // It is good.
    let sender = hosts.start(LISTENER, &["send", "film.mkv", "--to", "@late"]);
    sender.finish().ok();
    // The relay, too, has heard of the listener since then.
    let mut relayed = second;
    relayed.addresses = vec!["203.0.113.9:9".parse().unwrap()];
    secret(&hosts.place.path("relayed"), &relayed.to_string());
    let line = ["send", "photos", "--to", "@relayed"];
    hosts.start(LISTENER, &line).finish().ok();
    listener.interrupt();
    listener.finish().ok();
    let told = said
        .lines
        .iter()
        .any(|line| line.contains("doesn't answer"));
    assert!(!told, "{}", said.all);
}

#[test]
fn an_interface_without_an_address_exists() {
    if !able() {
        return;
    }
    let hosts = Hosts::new("bare");
    hosts.inside(CLIENT, "ip addr flush dev wlan0");
    for (interface, words) in [
        (
            "wlan0",
            "interface `wlan0` is down or has no usable address",
        ),
        ("wlan9", "there is no interface `wlan9`"),
        (
            "10.9.9.9",
            "no interface that is up has the address 10.9.9.9",
        ),
    ] {
        let ended = hosts
            .start(CLIENT, &["recv", "in", "--path", interface])
            .finish();
        assert!(ended.code == 2 && ended.stderr.contains(words), "{ended:?}");
    }
}

#[test]
fn a_listener_that_gets_another_address_writes_its_ticket_again() {
    if !able() {
        return;
    }
    let hosts = Hosts::new("moved");
    let ticket = || {
        let text = fs::read_to_string(hosts.place.path("moved")).ok()?;
        text.trim().parse::<Ticket>().ok()
    };
    hosts.inside(CLIENT, "ip link set wlan0 down");
    let mut listener = hosts.start(CLIENT, &["recv", "in", "--ticket-file", "moved"]);
    let mut said = Said::by(&mut listener);
    said.wait_for("On the sending host");
    let first = ticket().unwrap();
    // Whoever has the first one still finds it by the other uplink.
    hosts.inside(CLIENT, "ip addr del 10.3.0.2/24 dev wlan1");
    hosts.inside(CLIENT, "ip addr add 10.3.0.9/24 dev wlan1");
    hosts.inside(CLIENT, "ip addr del 10.1.0.2/24 dev eth0");
    hosts.inside(CLIENT, "ip link set wlan1 down");
    hosts.inside(CLIENT, "ip addr add 10.1.0.9/24 dev eth0");
    hosts.inside(CLIENT, "ip route add default via 10.1.0.1");
    said.wait_for("This host has another address now");
    let second = eventually("the second ticket", || {
        ticket().filter(|ticket| ticket.addresses != first.addresses)
    });
    assert_eq!(second.secret, first.secret);
    let hosts_named: Vec<_> = second
        .addresses
        .iter()
        .map(|a| a.ip().to_string())
        .collect();
    assert_eq!(hosts_named, ["10.1.0.9"]);
    let sender = hosts.start(LISTENER, &["send", "film.mkv", "--to", "@moved"]);
    sender.finish().ok();
    listener.interrupt();
    listener.finish().ok();
}

/// The program's words, without round-trip times.
fn timeless(text: &str) -> String {
    let lines = text.lines().map(|line| match line.find(" in ") {
        Some(at) if line.ends_with(" ms") => line[..at].to_owned(),
        _ => match line.split_once(", with a round-trip time") {
            Some((front, _)) => front.to_owned(),
            None => line.to_owned(),
        },
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_doctor_finds_what_is_wrong() {
    if !able() {
        return;
    }
    let hosts = Hosts::new("doctor");
    let doctor = |host: usize, arguments: &[&str]| {
        let finished = hosts
            .start(host, &[&["doctor"], arguments].concat())
            .finish();
        let said = timeless(&finished.stderr);
        (format!("status {}\n{said}\n", finished.code), finished)
    };
    let (fine, _) = doctor(LISTENER, &[]);
    insta::assert_snapshot!("doctor_fine", fine);
    let (interfaces, _) = doctor(CLIENT, &[]);
    insta::assert_snapshot!("doctor_interfaces", interfaces);

    let _relay = relay(&hosts);
    let _listener = hosts.listen("4001", &[]);
    let (pairs, _) = doctor(CLIENT, &["@ticket-4001", "--via", "@relay"]);
    insta::assert_snapshot!("doctor_pairs", pairs);
    // One line for each interface, however many addresses the listener has, and what sending shows.
    let several = hosts.listen("4003", &["--path", "eth0"]);
    hosts.firewall(CLIENT, "output", "oifname \"wlan1\" udp dport 4003 drop");
    let (forbidden, _) = doctor(CLIENT, &["@ticket-4003"]);
    let problems = forbidden.lines().filter(|line| line.starts_with("problem"));
    let problems = problems.collect::<Vec<_>>();
    assert_eq!(problems.len(), 2, "{forbidden}");
    assert!(
        problems[0].contains("wlan0 has no route to "),
        "{forbidden}"
    );
    assert!(
        problems[1].contains("the local firewall forbids it"),
        "{forbidden}"
    );
    hosts.inside(CLIENT, "nft flush ruleset");
    drop(several);
    let (two, _) = doctor(
        CLIENT,
        &["@ticket-4001", "--path", "eth0", "--path", "wlan0"],
    );
    let guide = include_str!("../../../../docs/guide.md");
    let (_, shown) = guide.split_once("$ manyway doctor @ticket\n").unwrap();
    let (shown, _) = shown.split_once("```").unwrap();
    let shown = timeless(&shown.replace(":4433", ":4001"));
    assert_eq!(two, format!("status 1\n{shown}\n"));
    // What it advises helps, though another interface has had the same advice.
    let command = shown.split('`').nth(1).unwrap();
    hosts.inside(CLIENT, &command.replace("GATEWAY", "10.2.0.1"));
    let (mended, _) = doctor(CLIENT, &["@ticket-4001", "--path", "wlan0"]);
    let works = "ok       wlan0 → 203.0.113.5:4001: answers over UDP";
    assert!(mended.contains(works), "{mended}");
    let listener = hosts.listen("4002", &[]);
    listener.interrupt();
    listener.finish();
    let ask = ["@ticket-4002", "--json"];
    let (_, finished) = doctor(CLIENT, &ask);
    assert_eq!(finished.code, 3);
    let json = finished.json();
    let checks = json["checks"].as_array().unwrap();
    let listener = checks.iter().find(|check| check["kind"] == "listener");
    let message = listener.unwrap()["message"].as_str().unwrap();
    assert!(
        message.contains("nothing listens at 203.0.113.5:4002"),
        "{message}"
    );
}

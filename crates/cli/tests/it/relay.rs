//! `manyway relay` as its operators run it.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use crate::common::eventually;
use crate::common::relay::{Relay, invitation, run};
use manyway_relay::keys::sign;
use manyway_wire::relay::{Hello, Mint, Minted, Nonce, Peer, RateClass, RelayReply, RelayTicket};
use tempfile::TempDir;

fn client() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    socket
}

fn ask(socket: &UdpSocket, relay: SocketAddr, datagram: &[u8]) -> RelayReply {
    socket.send_to(datagram, relay).unwrap();
    let mut buffer = [0; 2000];
    let (len, _) = socket.recv_from(&mut buffer).unwrap();
    RelayReply::decode(&buffer[..len]).unwrap()
}

/// Grants between two sockets by way of an invitation.
fn grants(relay: SocketAddr, ticket: &RelayTicket, from: &UdpSocket, to: &UdpSocket) -> Minted {
    let nonce = Nonce([1; 8]);
    let hello = Hello {
        nonce,
        relay: ticket.relay,
    };
    let consent = |socket| match ask(socket, relay, &hello.to_bytes()) {
        RelayReply::Consent(reply) => reply,
        other => panic!("{other:?}"),
    };
    let access = ticket.access.as_ref().unwrap();
    let mint = Mint {
        nonce,
        proof: consent(from).proof,
        peer: Peer::Consent(consent(to).consent),
        voucher: access.voucher,
    };
    match ask(from, relay, &mint.seal(|bytes| sign(&access.seed, bytes))) {
        RelayReply::Minted(minted) => minted,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_invitation_is_all_that_a_client_needs() {
    let dir = TempDir::new().unwrap();
    let relay = Relay::start(dir.path(), &[]);
    let ticket = invitation(dir.path(), relay.address);
    assert_eq!(ticket.addresses, [relay.address]);
    let (a, b) = (client(), client());
    let minted = grants(relay.address, &ticket, &a, &b);
    for (from, to, grant) in [(&a, &b, minted.there), (&b, &a, minted.back)] {
        let packet = [grant.as_bytes(), b"\x10 hello"].concat();
        from.send_to(&packet, relay.address).unwrap();
        let mut buffer = [0; 100];
        let (len, _) = to.recv_from(&mut buffer).unwrap();
        assert_eq!(&buffer[..len], b"\x10 hello");
    }
    relay.end();
}

/// With the log as loud as it gets, after real traffic and a rotation.
#[test]
fn secrets_never_appear_in_logs() {
    let dir = TempDir::new().unwrap();
    // A key that is old enough to be renewed at once.
    let key_file = dir.path().join("relay.key");
    run(dir.path(), &["--invite", "--listen", "127.0.0.1:1"]).ok();
    let text = fs::read_to_string(&key_file).unwrap();
    let created = text.lines().nth(2).unwrap().split(' ').nth(2).unwrap();
    let old = text.replace(created, "1000000000");
    fs::write(&key_file, &old).unwrap();

    let relay = Relay::start(dir.path(), &["-vvv", "--rotate", "1 s"]);
    let renewed = eventually("new keys", || {
        fs::read_to_string(&key_file)
            .ok()
            .filter(|text| text.lines().count() == 4)
    });
    let ticket = invitation(dir.path(), relay.address);
    let (a, b) = (client(), client());
    let minted = grants(relay.address, &ticket, &a, &b);
    let packet = [minted.there.as_bytes(), b"\x10 hello"].concat();
    a.send_to(&packet, relay.address).unwrap();
    b.recv_from(&mut [0; 100]).unwrap();
    let said = relay.end();
    assert!(said.contains("new keys"), "the log is on: {said}");
    let secrets: Vec<&str> = renewed
        .lines()
        .skip(1)
        .filter_map(|line| line.rsplit(' ').next())
        .collect();
    assert_eq!(secrets.len(), 3);
    for secret in secrets {
        assert!(!said.contains(&secret[..16]), "{said}");
    }
    let access = ticket.access.as_ref().unwrap();
    assert!(!said.contains(&ticket.to_string()[60..]), "{said}");
    for bytes in [
        &access.seed[..],
        &minted.there.header().mac.0,
        &access.voucher.signature,
    ] {
        let list = format!("{bytes:?}");
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(
            !said.contains(list.trim_matches(['[', ']'])) && !said.contains(&hex[..16]),
            "{said}"
        );
    }
}

#[test]
fn what_listeners_get_has_no_access_in_it() {
    let dir = TempDir::new().unwrap();
    let relay = Relay::start(dir.path(), &["--advertise", "203.0.113.7:45170"]);
    let id = relay.said.split(' ').nth(1).unwrap().to_owned();
    let said = relay.end();
    let public = said.split_whitespace().find(|word| word.starts_with("mr1"));
    let public: RelayTicket = public.unwrap().parse().unwrap();
    assert_eq!(public.relay.to_string(), id);
    assert_eq!(public.addresses, ["203.0.113.7:45170".parse().unwrap()]);
    assert!(public.access.is_none());
    let invited = run(
        dir.path(),
        &["--invite", "--advertise", "203.0.113.7:45170"],
    )
    .ok();
    let invited: RelayTicket = invited.stdout.parse().unwrap();
    assert_eq!(invited.without_access(), public);
    assert_eq!(invited.access.unwrap().voucher.terms.class, RateClass::MAX);
    let limited = [
        "--invite",
        "--advertise",
        "203.0.113.7:45170",
        "--invite-rate",
        "100Mbps",
    ];
    let limited: RelayTicket = run(dir.path(), &limited).ok().stdout.parse().unwrap();
    let terms = limited.access.unwrap().voucher.terms;
    assert_eq!(terms.class.bytes_per_second(), 8_000_000, "64 Mbit/s");
}

#[test]
fn it_ends_when_asked_and_says_so() {
    let dir = TempDir::new().unwrap();
    let relay = Relay::start(dir.path(), &[]);
    relay.process.signal("TERM");
    let mut said = relay.said;
    let mut stderr = relay.stderr;
    stderr.read_to_string(&mut said).unwrap();
    relay.process.finish().ok();
    assert!(said.contains("Leaving"), "{said}");
}

#[test]
fn metrics_are_there() {
    let dir = TempDir::new().unwrap();
    let relay = Relay::start(dir.path(), &["--metrics", "127.0.0.1:0"]);
    let url = relay
        .said
        .split_whitespace()
        .find(|word| word.starts_with("http://"));
    let url = url.unwrap().trim_start_matches("http://");
    let (address, path) = url.split_once('/').unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!("GET /{path} HTTP/1.0\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(
        text.contains("\nmanyway_relay_forwarded_packets_total 0\n"),
        "{text}"
    );
    relay.end();
}

#[test]
fn errors_say_what_to_do() {
    let dir = TempDir::new().unwrap();
    let fails = |arguments: &[&str], code: i32, words: &[&str]| {
        let finished = run(dir.path(), arguments);
        assert_eq!(finished.code, code, "{finished:?}");
        for word in words {
            assert!(
                finished.stderr.contains(word),
                "{word}: {}",
                finished.stderr
            );
        }
    };
    let holder = UdpSocket::bind("127.0.0.1:0").unwrap();
    let taken = holder.local_addr().unwrap().to_string();
    fails(
        &["--listen", &taken],
        1,
        &[&taken, "another program uses the port"],
    );
    let two = "127.0.0.1:0,127.0.0.2:0";
    fails(&["--listen", two], 1, &["same family"]);
    fails(&["--listen", "127.0.0.1"], 2, &["--listen"]);
    fails(&["--trust", "abc"], 2, &["the key has 3 characters"]);
    fails(
        &["--account-limit", "10kbps"],
        2,
        &["`--account-limit` must be at least 1Mbps"],
    );
    fails(
        &["--invite", "--listen", "127.0.0.1:0"],
        2,
        &["has no port"],
    );
    let metrics = ["--listen", "127.0.0.1:0", "--metrics", "192.0.2.1:1"];
    fails(&metrics, 1, &["can't serve metrics on 192.0.2.1:1"]);
    let key = dir.path().join("relay.key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    fails(
        &["--listen", "127.0.0.1:0"],
        1,
        &["mode 0644", "chmod 600 relay.key"],
    );
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&key, "what is this").unwrap();
    fails(
        &["--listen", "127.0.0.1:0"],
        1,
        &["relay.key can't be used", "isn't a relay's key file"],
    );
}

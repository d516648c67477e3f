//! `manyway relay` as its operators run it.

use std::fs;
use std::io::Read;
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use crate::common::relay::{Relay, invitation, relay, run};
use crate::common::service::metrics;
use crate::common::{Running, eventually, manyway, secret};
use manyway_relay::keys::sign;
use manyway_wire::relay::{
    Hello, Mint, Minted, Nonce, Peer, RateClass, Refusal, RelayReply, RelayTicket,
};
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
    match mint(relay, ticket, from, to) {
        RelayReply::Minted(minted) => minted,
        other => panic!("{other:?}"),
    }
}

fn mint(relay: SocketAddr, ticket: &RelayTicket, from: &UdpSocket, to: &UdpSocket) -> RelayReply {
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
    ask(from, relay, &mint.seal(|bytes| sign(&access.seed, bytes)))
}

/// Without the line of names.
fn listed(dir: &Path) -> Vec<String> {
    let list = run(dir, &["--invites"]).ok().stdout;
    list.lines().skip(1).map(str::to_owned).collect()
}

#[test]
fn invitations_are_listed_and_a_running_relay_refuses_those_that_are_revoked() {
    let dir = TempDir::new().unwrap();
    let relay = Relay::start(dir.path(), &["--metrics", "127.0.0.1:0"]);
    let address = relay.address.to_string();
    let invite = |more: &[&str]| {
        let line = [&["--invite", "--listen", &address], more].concat();
        run(dir.path(), &line)
    };
    let ann = invite(&["--invite-name", "ann", "--invite-rate", "64Mbps"]).ok();
    let ann: RelayTicket = ann.stdout.parse().unwrap();
    let nameless: RelayTicket = invite(&[]).ok().stdout.parse().unwrap();
    let lines = listed(dir.path());
    assert_eq!(lines.len(), 2);
    let line = lines.iter().find(|line| line.contains("ann")).unwrap();
    assert!(
        line.contains("64 Mbps") && line.ends_with("valid"),
        "{line}"
    );
    let account = line.split(' ').next().unwrap();

    let (a, b) = (client(), client());
    grants(relay.address, &ann, &a, &b);
    let counted = format!("account_mints_total{{account=\"{account}\",name=\"ann\"}} 1\n");
    let counted = eventually("a count", || {
        Some(metrics(&relay.said)).filter(|text| text.contains(&counted))
    });
    let named = counted.lines().filter(|line| line.contains("mints_total{"));
    assert_eq!(named.count(), 2, "ann and all others: {counted}");

    let refused = |ticket: &RelayTicket| {
        eventually("a refusal", || {
            // A relay answers one address so often only.
            std::thread::sleep(Duration::from_millis(200));
            match mint(relay.address, ticket, &a, &b) {
                RelayReply::Refused(refused) => Some(refused.reason),
                _ => None,
            }
        })
    };
    let said = run(dir.path(), &["--revoke", "ann"]).ok().stderr;
    let told = format!("ann (account {account}) is revoked");
    assert!(said.contains(&told) && said.contains("120 s"), "{said}");
    assert_eq!(refused(&ann), Refusal::Revoked);
    grants(relay.address, &nameless, &a, &b);
    fs::write(dir.path().join("text"), nameless.to_string()).unwrap();
    run(dir.path(), &["--revoke", "@text"]).ok();
    assert_eq!(refused(&nameless), Refusal::Revoked);
    let lines = listed(dir.path());
    assert!(lines.len() == 2 && lines.iter().all(|line| line.ends_with("revoked")));
    let said = run(dir.path(), &["--revoke", account]).ok().stderr;
    assert!(said.contains("was revoked before"), "{said}");

    // Whoever invites ann again gives her another account.
    let again = invite(&["--invite-name", "ann"]).ok();
    grants(relay.address, &again.stdout.parse().unwrap(), &a, &b);
    for (line, code, words) in [
        (
            &["--invite", "--invite-name", "ann"][..],
            2,
            "another invitation has the name ann",
        ),
        (
            &["--invite", "--invite-name", "1"],
            2,
            "begins with a letter",
        ),
        (&["--revoke", "bob"], 2, "no invitation is called bob"),
        (&["--revoke", "mr1abc"], 2, "this isn't a RELAY"),
        (&["--revoke", "@missing"], 1, "can't read missing"),
        (&["--revoke", "ann", "--invites"], 2, "cannot be used with"),
    ] {
        let failed = run(dir.path(), &[line, &["--listen", &address]].concat());
        assert!(
            failed.code == code && failed.stderr.contains(words),
            "{failed:?}"
        );
    }
    let elsewhere = TempDir::new().unwrap();
    let invite = ["--invite", "--listen", &address];
    for line in [&["--invites"][..], &["--revoke", "ann"], &invite] {
        let failed = run(elsewhere.path(), line);
        assert!(
            failed.stderr.contains("no relay's key at relay.key"),
            "{failed:?}"
        );
    }
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
    // A relay doesn't begin with a list that it can't read.
    relay.end();
    secret(&dir.path().join("relay.key.invites"), "mine");
    let failed = run(dir.path(), &["--listen", "127.0.0.1:0"]);
    assert!(failed.code == 1, "{failed:?}");
    let words = "relay.key.invites: this isn't a relay's list of invitations";
    assert!(failed.stderr.contains(words), "{failed:?}");
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
    Relay::start(dir.path(), &[]).end();
    let text = fs::read_to_string(&key_file).unwrap();
    let created = text.lines().nth(2).unwrap().split(' ').nth(2).unwrap();
    let old = text.replace(created, "1000000000");
    fs::write(&key_file, &old).unwrap();

    let relay = Relay::start(dir.path(), &["-vvv", "--rotate", "2 min"]);
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

/// A relay that no interface of this side leads to.
#[test]
fn doctor_names_a_relay_that_it_cant_try() {
    let dir = TempDir::new().unwrap();
    Relay::start(dir.path(), &[]).end();
    let far = ["--invite", "--advertise", "203.0.113.7:45170"];
    let far = run(dir.path(), &far).ok().stdout;
    secret(&dir.path().join("far"), &far);
    let doctor = ["doctor", "--via", "@far", "--path", "127.0.0.1"];
    let said = Running(manyway(dir.path(), &doctor).spawn().unwrap()).finish();
    assert_eq!(said.code, 1, "{said:?}");
    let words = "the relay 203.0.113.7:45170: no local address can reach";
    assert!(
        said.stderr.contains(words) && !said.stderr.contains("()"),
        "{said:?}"
    );
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
    assert!(said.contains("Stopping: telling senders"), "{said}");
}

#[test]
fn metrics_are_there() {
    let dir = TempDir::new().unwrap();
    let relay = Relay::start(dir.path(), &["--metrics", "127.0.0.1:0"]);
    let text = metrics(&relay.said);
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
    for (options, words) in [
        (["--limit", "99kbps"], "`--limit` must be at least 100kbps"),
        (["--rotate", "1 s"], "`--rotate` must be at least 2 min"),
        (["--invite-time", "59 s"], "must be at least 1 min"),
        (["--tcp-buffer", "0B"], "must be 4 KiB to 1 GiB"),
        (["--advertise", "203.0.113.1:0"], "leads nowhere"),
        (["--advertise", "[::]:45170"], "leads nowhere"),
    ] {
        fails(&options, 2, &[options[0], words]);
    }
    // Whoever sends by codes has the variable, too; it says nothing about invitations.
    let with_registry = |more: &str| {
        let mut command = relay(dir.path(), &["--listen", "127.0.0.1:1", more]);
        let url = format!("https://127.0.0.1:1#{}", "a".repeat(52));
        Running(command.env("MANYWAY_REGISTRY", url).spawn().unwrap()).finish()
    };
    with_registry("--invite").ok();
    let told = with_registry("--tcp");
    assert!(
        told.code == 2 && told.stderr.contains("--token-file"),
        "{told:?}"
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

//! `manyway registry` and the relays that it lists, as their operators run them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::service::Service;
use crate::common::{self, Running, manyway, skipped};
use manyway_registry::client::Client;
use manyway_registry::{RegistryUrl, Role, Token};
use manyway_wire::relay::RelayTicket;
use rand::SeedableRng;
use rand::rngs::ChaCha20Rng;
use tempfile::TempDir;

fn subset(dir: &Path, url: &RegistryUrl) -> Vec<RelayTicket> {
    let tokens = fs::read_to_string(dir.join("tokens")).unwrap();
    let token = Token::from_text(&tokens, Role::Client).unwrap();
    let mut client = Client::new(
        std::slice::from_ref(url),
        token,
        &mut ChaCha20Rng::seed_from_u64(1),
    )
    .unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(client.subset(50)).unwrap()
}

#[test]
fn relays_are_found_while_they_run_and_tokens_are_in_no_log() {
    let dir = TempDir::new().unwrap();
    let registry = Service::registry(dir.path());
    let url = registry.url();
    let first = Service::relay(dir.path(), &url.to_string(), "a.key");
    let second = Service::relay(dir.path(), &url.to_string(), "b.key");
    let found = subset(dir.path(), &url);
    assert_eq!(found.len(), 2);
    for ticket in &found {
        let said = [&first.said, &second.said];
        assert!(
            said.iter()
                .any(|said| said.contains(&ticket.relay.to_string()))
        );
        let access = ticket.access.as_ref().unwrap();
        assert_eq!(Some(access.voucher.terms.signer), url.pin);
    }
    let mut said = first.end();
    assert_eq!(subset(dir.path(), &url).len(), 1, "it has left");
    said += &second.end();
    said += &registry.end();
    assert!(said.contains("enrolled relay="), "the log is on: {said}");
    let tokens = fs::read_to_string(dir.path().join("tokens")).unwrap();
    for line in tokens.lines() {
        let token = line.split(' ').nth(2).unwrap();
        assert!(token.len() == 32 && !said.contains(token));
    }
    let key = fs::read_to_string(dir.path().join("registry.key")).unwrap();
    assert!(!said.contains(key.lines().nth(1).unwrap()));
}

#[test]
fn errors_say_what_to_do() {
    let dir = TempDir::new().unwrap();
    let fails = |arguments: &[&str], words: &[&str]| {
        let finished = Running(manyway(dir.path(), arguments).spawn().unwrap()).finish();
        assert_ne!(finished.code, 0, "{finished:?}");
        for word in words {
            assert!(
                finished.stderr.contains(word),
                "{word}: {}",
                finished.stderr
            );
        }
    };
    let registry = |more: &[&'static str]| {
        [
            &[
                "registry",
                "--listen",
                "127.0.0.1:0",
                "--key-file",
                "k",
                "--token-file",
                "t",
            ],
            more,
        ]
        .concat()
    };
    fails(&registry(&["--store", "redis://x"]), &["etcd://HOST:PORT"]);
    fails(
        &registry(&["--store", "etcd://127.0.0.1:1"]),
        &["etcd doesn't answer", "127.0.0.1:1"],
    );
    fails(&registry(&["--tls-cert", "c.pem"]), &["--tls-key"]);
    fails(
        &registry(&["--tls-cert", "c.pem", "--tls-key", "k.pem"]),
        &["c.pem"],
    );
    fs::write(dir.path().join("t"), "relay x short").unwrap();
    fs::set_permissions(dir.path().join("t"), fs::Permissions::from_mode(0o600)).unwrap();
    fails(&registry(&[]), &["t: the token in line 1", "openssl rand"]);
    fs::set_permissions(dir.path().join("t"), fs::Permissions::from_mode(0o644)).unwrap();
    fails(&registry(&[]), &["chmod 600"]);
    let url = "https://127.0.0.1:1#aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    let relay = [
        "relay",
        "--listen",
        "127.0.0.1:0",
        "--allow-private",
        "--key-file",
        "r",
    ];
    fails(
        &[&relay[..], &["--registry", url]].concat(),
        &["--token-file"],
    );
    fails(
        &[&relay[..], &["--registry", "http://x", "--token-file", "t"]].concat(),
        &["begins with https://"],
    );
    fails(
        &[&relay[..], &["--registry", url, "--token-file", "none"]].concat(),
        &["none doesn't exist", "operator"],
    );
}

#[test]
fn a_token_file_that_changes_counts_at_once_and_metrics_tell_of_its_names() {
    let dir = TempDir::new().unwrap();
    let mut registry = Service::registry_with(dir.path(), &["--metrics", "127.0.0.1:0"]);
    let url = registry.url();
    assert_eq!(subset(dir.path(), &url).len(), 0);
    let file = dir.path().join("tokens");
    let before = fs::read_to_string(&file).unwrap();
    let other = "client others abcdefabcdefabcdefabcd\n";
    common::secret(
        &file,
        &format!("{}\n{other}", before.lines().next().unwrap()),
    );
    registry.hear("Tokens now: 1 for relays, 1 for clients");
    assert_eq!(subset(dir.path(), &url).len(), 0);
    let text = common::service::metrics(&registry.said);
    let enrolled = "manyway_registry_account_enrolments_total{account=\"";
    let accounts: Vec<&str> = text.lines().filter(|l| l.starts_with(enrolled)).collect();
    let [account] = accounts[..] else {
        panic!("{text}")
    };
    assert!(account.ends_with("\",name=\"others\"} 1"), "{account}");
    // The old name's token, as somebody has it who must not use it any more.
    let old = dir.path().join("old");
    fs::create_dir(&old).unwrap();
    common::secret(&old.join("tokens"), &before);
    let line = ["doctor", "--json", "--path", "127.0.0.1", "--token-file"];
    let doctor = |tokens: &str| {
        let mut command = manyway(dir.path(), &line);
        command.args([tokens, "--registry", &url.to_string()]);
        Running(command.spawn().unwrap()).finish().stdout
    };
    assert!(doctor("old/tokens").contains("the registry knows no such token"));
    // A mistake doesn't shut anybody out.
    common::secret(&file, "client others short");
    registry.hear("tokens: the token in line 1");
    assert!(registry.said.contains("keeps the previous tokens"));
    common::secret(&dir.path().join("others"), other);
    assert!(doctor("others").contains("knows you"));
    registry.end();
}

#[test]
fn it_listens_on_both_families_at_one_port() {
    let dir = TempDir::new().unwrap();
    let line = [
        "registry",
        "--listen",
        "0.0.0.0:0,[::]:0",
        "--host",
        "r.example",
    ];
    let files = ["--key-file", "k", "--token-file", "t"];
    let mut registry = Service::start(dir.path(), &[&line[..], &files].concat());
    registry.hear("--registry https://");
    let url = registry.url();
    let listens = format!("listens on 0.0.0.0:{0} and [::]:{0}\n", url.port);
    assert!(registry.said.contains(&listens), "{}", registry.said);
    registry.end();
    let two = ["registry", "--listen", "127.0.0.1:1,[::1]:2"];
    let failed = Running(
        manyway(dir.path(), &[&two[..], &files].concat())
            .spawn()
            .unwrap(),
    );
    let failed = failed.finish();
    assert!(failed.stderr.contains("have different ports"), "{failed:?}");
}

/// A host of its own, with the default addresses. Skipped without root.
#[test]
fn where_ipv6_is_off_ipv4_is_served_and_that_is_said() {
    let script = "ip link set lo up && echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6 && \
        exec \"$0\" \"$@\"";
    let alone = |program: &str| {
        let mut command = Command::new("unshare");
        command.args(["--net", "sh", "-c", script, program]);
        command
    };
    if !alone("true")
        .output()
        .is_ok_and(|made| made.status.success())
    {
        skipped("it takes root and ip to make a host without IPv6");
        return;
    }
    let dir = TempDir::new().unwrap();
    for (line, heard, port) in [
        (
            ["registry", "--token-file", "t"],
            "--registry https://",
            45180,
        ),
        (
            ["relay", "--advertise", "203.0.113.7:1"],
            "RELAY for listeners",
            45170,
        ),
    ] {
        let mut command = alone(env!("CARGO_BIN_EXE_manyway"));
        command.args(line).args(["--key-file", line[0]]);
        command.current_dir(dir.path()).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut service = Service::run(command);
        service.hear(heard);
        let said = service.end();
        assert_eq!(said.matches("This host has no IPv6").count(), 1, "{said}");
        let listens = format!("listens on 0.0.0.0:{port}\n");
        assert!(said.contains(&listens), "{said}");
    }
}

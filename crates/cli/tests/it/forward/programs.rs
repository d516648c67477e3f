//! Other programs' connections: by SOCKS, curl and ssh.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::{Served, backwards, closed_port, connect, content, ends, fed, server};
use crate::common::{Running, eventually};

/// A SOCKS client that asks for an IPv4 address; its socket once it is told that it is connected.
fn by_socks(proxy: u16, target: u16) -> (u8, TcpStream) {
    let mut tcp = connect(proxy);
    let [high, low] = target.to_be_bytes();
    tcp.write_all(&[5, 1, 0]).unwrap();
    tcp.read_exact(&mut [0; 2]).unwrap();
    tcp.write_all(&[5, 1, 0, 1, 127, 0, 0, 1, high, low])
        .unwrap();
    let mut answer = [0; 10];
    tcp.read_exact(&mut answer).unwrap();
    (answer[1], tcp)
}

#[test]
fn a_socks_proxy_connects_from_the_other_side() {
    let target = server(backwards);
    let closed = closed_port();
    let served = Served::allowing(&[target, closed]);
    let (mut forward, ports) = served.forward(&["-D", "0"]);
    let (code, mut tcp) = by_socks(ports[0], target);
    assert_eq!(code, 0);
    tcp.write_all(b"socks").unwrap();
    tcp.shutdown(Shutdown::Write).unwrap();
    let mut heard = String::new();
    tcp.read_to_string(&mut heard).unwrap();
    assert_eq!(heard, "skcos");
    // RFC 1928's codes: not allowed, and refused.
    assert_eq!(by_socks(ports[0], closed_port()).0, 2);
    assert_eq!(by_socks(ports[0], closed).0, 5);

    // Nonsense is answered by an end, and the next one is served.
    let mut tcp = connect(ports[0]);
    tcp.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    ends(tcp);
    forward.hear("a program speaks HTTP, it seems: choose this port as its SOCKS5 proxy");
    let mut tcp = connect(ports[0]);
    tcp.write_all(&[5, 1, 0, 5, 2, 0, 1]).unwrap();
    let mut answer = [0; 12];
    tcp.read_exact(&mut answer).unwrap();
    assert_eq!(answer[..4], [5, 0, 5, 7]);
    forward.hear("a program sent SOCKS command 2");
    assert_eq!(by_socks(ports[0], target).0, 0);
}

/// Whether a program is there; a test without it says so and passes.
fn there_is(program: &str) -> bool {
    let found = Command::new("sh")
        .args(["-c", &format!("command -v {program}")])
        .output();
    let found = found.is_ok_and(|output| output.status.success());
    if !found {
        let mut stderr = std::io::stderr();
        writeln!(stderr, "skipped: it takes {program}").unwrap();
        assert!(
            std::env::var_os("MANYWAY_REQUIRE_SSH").is_none(),
            "{program}"
        );
    }
    found
}

#[test]
fn curl_fetches_through_the_proxy() {
    if !there_is("curl") {
        return;
    }
    let target = server(|mut tcp: TcpStream| {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            tcp.read_exact(&mut byte).unwrap();
            head.extend(byte);
        }
        let body = content(2_000_000, 3);
        let head = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2000000\r\n\r\n";
        tcp.write_all(head.as_bytes()).unwrap();
        tcp.write_all(&body).unwrap();
    });
    let served = Served::start(&["--allow", &format!("localhost:{target}")]);
    let (_forward, ports) = served.forward(&["-D", "0"]);
    let output = Command::new("curl")
        .args([
            "--silent",
            "--show-error",
            "--max-time",
            "60",
            "--noproxy",
            "",
        ])
        .arg("--proxy")
        .arg(format!("socks5h://127.0.0.1:{}", ports[0]))
        .arg(format!("http://localhost:{target}/x"))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.stdout == content(2_000_000, 3));
}

/// A server of ssh on loopback, and a key that it takes.
struct Sshd {
    process: Running,
    port: u16,
}

impl Sshd {
    fn start(dir: &Path) -> Self {
        for name in ["host", "key"] {
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f", name])
                .current_dir(dir)
                .status();
            assert!(made.unwrap().success());
        }
        let port = closed_port();
        let shown = dir.display();
        let config = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {shown}/host\nPidFile none\n\
             AuthorizedKeysFile {shown}/key.pub\nStrictModes no\nUsePAM no\n\
             PermitRootLogin prohibit-password\n"
        );
        std::fs::write(dir.join("config"), config).unwrap();
        // It separates privileges there, if it has any.
        std::fs::create_dir_all("/run/sshd").ok();
        let mut command = Command::new("/usr/sbin/sshd");
        command.args(["-D", "-e", "-f", "config"]).current_dir(dir);
        command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .stdin(Stdio::null());
        let process = Running(command.spawn().unwrap());
        eventually("sshd", || TcpStream::connect(("127.0.0.1", port)).ok());
        Self { process, port }
    }

    /// The arguments by which ssh reaches it through `served`, from the directory of the key.
    fn through(served: &Served) -> Vec<String> {
        let proxy = format!(
            "ProxyCommand={} connect --stdio -q --path 127.0.0.1 @{}/ticket",
            env!("CARGO_BIN_EXE_manyway"),
            served.path().display()
        );
        let options = [
            proxy.as_str(),
            "StrictHostKeyChecking=no",
            "UserKnownHostsFile=/dev/null",
            "LogLevel=ERROR",
            "IdentitiesOnly=yes",
            "BatchMode=yes",
        ];
        let options = options.iter().flat_map(|option| ["-o", option]);
        let all = ["-F", "none", "-T", "-i", "key"].into_iter().chain(options);
        all.map(str::to_owned).collect()
    }
}

#[test]
fn ssh_goes_through_connect_as_its_proxy_command() {
    if !there_is("/usr/sbin/sshd") || !there_is("ssh") {
        return;
    }
    let dir = TempDir::new().unwrap();
    let sshd = Sshd::start(dir.path());
    let served = Served::allowing(&[sshd.port]);
    let mut command = Command::new("ssh");
    command
        .args(Sshd::through(&served))
        .args(["anywhere", "cat; exit 7"])
        .current_dir(dir.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let sent = content(1_000_000, 9);
    let (heard, ended) = fed(Running(command.spawn().unwrap()), &sent);
    assert_eq!(ended.code, 7, "{ended:?}");
    assert!(heard == sent, "{} of {}", heard.len(), sent.len());
    drop(sshd.process);
}

#[test]
fn rsync_copies_a_tree_over_that_ssh() {
    if !there_is("/usr/sbin/sshd") || !there_is("ssh") || !there_is("rsync") {
        return;
    }
    let dir = TempDir::new().unwrap();
    let sshd = Sshd::start(dir.path());
    let served = Served::allowing(&[sshd.port]);
    std::fs::create_dir_all(dir.path().join("from/deep")).unwrap();
    for (name, seed) in [("from/a", 4), ("from/deep/b", 5)] {
        std::fs::write(dir.path().join(name), content(700_000, seed)).unwrap();
    }
    let ssh: Vec<String> = Sshd::through(&served)
        .iter()
        .map(|word| format!("'{word}'"))
        .collect();
    let copied = Command::new("rsync")
        .args([
            "-a",
            "--timeout=60",
            "-e",
            &format!("ssh {}", ssh.join(" ")),
        ])
        .arg("from/")
        .arg(format!("anywhere:{}/to/", dir.path().display()))
        .current_dir(dir.path())
        .output()
        .unwrap();
    assert!(
        copied.status.success(),
        "{}",
        String::from_utf8_lossy(&copied.stderr)
    );
    for (name, seed) in [("to/a", 4), ("to/deep/b", 5)] {
        assert!(std::fs::read(dir.path().join(name)).unwrap() == content(700_000, seed));
    }
    drop(sshd.process);
}

//! `serve`, `forward` and `connect`: TCP connections of other programs between two processes.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::{JoinHandle, spawn};
use std::time::Duration;

use manyway::{CloseReason, Endpoint, EndpointOptions, Ticket};
use manyway_wire::forward::{HEADER_LEN, Header, Reply, Request};
use socket2::SockRef;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::common::service::Service;
use crate::common::transfer::Transfer;
use crate::common::{Finished, Running, eventually, manyway};

/// Only tests that fail wait this long.
const PATIENCE: Duration = Duration::from_secs(60);

fn content(len: usize, seed: u32) -> Vec<u8> {
    let word = |n: u32| {
        n.wrapping_add(seed)
            .wrapping_mul(2_654_435_761)
            .to_le_bytes()
    };
    (0..len as u32).flat_map(word).take(len).collect()
}

/// A TCP server on loopback that does the same with every connection, each in a thread.
fn server(serve: impl Fn(TcpStream) + Send + Clone + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    spawn(move || {
        for tcp in listener.incoming() {
            let serve = serve.clone();
            let tcp = tcp.unwrap();
            tcp.set_read_timeout(Some(PATIENCE)).unwrap();
            spawn(move || serve(tcp));
        }
    });
    port
}

/// Reads to the end, and only then sends it back.
fn backwards(mut tcp: TcpStream) {
    let mut bytes = Vec::new();
    tcp.read_to_end(&mut bytes).unwrap();
    bytes.reverse();
    tcp.write_all(&bytes).unwrap();
}

fn echo(mut tcp: TcpStream) {
    let mut piece = [0; 1 << 14];
    while let Ok(len @ 1..) = tcp.read(&mut piece) {
        if tcp.write_all(&piece[..len]).is_err() {
            return;
        }
    }
}

/// A port that nobody listens on.
fn closed_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

fn connect(port: u16) -> TcpStream {
    let tcp = TcpStream::connect(("127.0.0.1", port)).unwrap();
    tcp.set_read_timeout(Some(PATIENCE)).unwrap();
    tcp
}

/// `manyway serve` in a directory, with its ticket there.
struct Served {
    dir: TempDir,
    service: Service,
}

impl Served {
    fn start(options: &[&str]) -> Self {
        let dir = TempDir::new().unwrap();
        let common = [
            "serve",
            "--path",
            "127.0.0.1",
            "--ticket-file",
            "ticket",
            "-v",
        ];
        let mut service = Service::start(dir.path(), &[&common, options].concat());
        service.hear("On the other host");
        Self { dir, service }
    }

    fn allowing(ports: &[u16]) -> Self {
        let targets: Vec<String> = ports
            .iter()
            .map(|port| format!("127.0.0.1:{port}"))
            .collect();
        let options: Vec<&str> = targets
            .iter()
            .flat_map(|t| ["--allow", t.as_str()])
            .collect();
        Self::start(&options)
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn ticket(&self) -> Ticket {
        let text = std::fs::read_to_string(self.path().join("ticket")).unwrap();
        text.trim().parse().unwrap()
    }

    /// `manyway forward` with these options, and the ports that it listens on.
    fn forward(&self, options: &[&str]) -> (Service, Vec<u16>) {
        let common = ["forward", "@ticket", "--path", "127.0.0.1"];
        let mut service = Service::start(self.path(), &[&common, options].concat());
        let wanted = options.len() / 2;
        let mut ports = Vec::new();
        while ports.len() < wanted {
            let seen = service.said.len();
            service.hear_more();
            let line = &service.said[seen..];
            if let Some(rest) = line.strip_prefix("Forwarding ") {
                let (at, _) = rest.split_once(' ').unwrap();
                let (_, port) = at.rsplit_once(':').unwrap();
                ports.push(port.parse().unwrap());
            }
        }
        (service, ports)
    }

    /// `-L` to a port of this host.
    fn forward_to(&self, port: u16) -> (Service, u16) {
        let (service, ports) = self.forward(&["-L", &format!("0:127.0.0.1:{port}")]);
        (service, ports[0])
    }

    fn connect(&self, options: &[&str]) -> Running {
        let common = ["connect", "--stdio", "@ticket", "-q"];
        let mut command = manyway(self.path(), &[&common, options].concat());
        command
            .env("MANYWAY_PATH", "127.0.0.1")
            .stdin(Stdio::piped());
        Running(command.spawn().unwrap())
    }
}

fn fed(mut running: Running, bytes: &[u8]) -> (Vec<u8>, Finished) {
    let mut stdin = running.0.stdin.take().unwrap();
    let bytes = bytes.to_vec();
    let feeder = spawn(move || stdin.write_all(&bytes).ok());
    let mut heard = Vec::new();
    let mut stdout = running.0.stdout.take().unwrap();
    stdout.read_to_end(&mut heard).unwrap();
    feeder.join().unwrap();
    (heard, running.finish())
}

#[test]
fn connections_go_through_byte_by_byte_and_each_direction_ends_by_itself() {
    let target = server(backwards);
    let served = Served::allowing(&[target]);
    let (_forward, port) = served.forward_to(target);
    let one = |n: u32| {
        spawn(move || {
            let sent = content(100_000 * n as usize, n);
            let mut tcp = connect(port);
            tcp.write_all(&sent).unwrap();
            tcp.shutdown(Shutdown::Write).unwrap();
            let mut heard = Vec::new();
            tcp.read_to_end(&mut heard).unwrap();
            heard.reverse();
            assert!(heard == sent, "{n}: {} of {}", heard.len(), sent.len());
        })
    };
    let all: Vec<JoinHandle<()>> = (0..20).map(one).collect();
    all.into_iter().for_each(|one| one.join().unwrap());
}

/// A server that ends its direction first still gets all that its client sends.
#[test]
fn the_server_may_end_its_direction_first() {
    let (tell, told) = std::sync::mpsc::channel();
    let target = server(move |mut tcp: TcpStream| {
        tcp.write_all(b"welcome").unwrap();
        tcp.shutdown(Shutdown::Write).unwrap();
        let mut bytes = Vec::new();
        tcp.read_to_end(&mut bytes).unwrap();
        tell.send(bytes).unwrap();
    });
    let served = Served::allowing(&[target]);
    let (_forward, port) = served.forward_to(target);
    let mut tcp = connect(port);
    let mut heard = Vec::new();
    tcp.read_to_end(&mut heard).unwrap();
    assert_eq!(heard, b"welcome");
    let sent = content(1_000_000, 1);
    tcp.write_all(&sent).unwrap();
    drop(tcp);
    assert!(told.recv_timeout(PATIENCE).unwrap() == sent);
    // The same by standard input and output.
    let (heard, ended) = fed(served.connect(&[]), &sent);
    assert_eq!(heard, b"welcome");
    ended.ok();
    assert!(told.recv_timeout(PATIENCE).unwrap() == sent);
}

#[test]
fn a_reset_arrives_as_a_reset() {
    // From the server's side …
    let target = server(|mut tcp: TcpStream| {
        tcp.read_exact(&mut [0; 1]).unwrap();
        SockRef::from(&tcp)
            .set_linger(Some(Duration::ZERO))
            .unwrap();
    });
    // … and from the client's.
    let (tell, told) = std::sync::mpsc::channel();
    let reader = server(move |mut tcp: TcpStream| {
        let end = tcp.read_to_end(&mut Vec::new());
        tell.send(end.map_err(|error| error.kind())).unwrap();
    });
    let served = Served::allowing(&[target, reader]);
    let (_forward, port) = served.forward_to(target);
    let mut tcp = connect(port);
    tcp.write_all(b"x").unwrap();
    let error = tcp.read(&mut [0; 1]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);

    let (_forward, port) = served.forward_to(reader);
    let mut tcp = connect(port);
    tcp.write_all(b"x").unwrap();
    SockRef::from(&tcp)
        .set_linger(Some(Duration::ZERO))
        .unwrap();
    drop(tcp);
    let end = told.recv_timeout(PATIENCE).unwrap();
    assert_eq!(end, Err(ErrorKind::ConnectionReset));
    // `connect` says so.
    let (heard, ended) = fed(served.connect(&[]), b"x");
    assert!(heard.is_empty());
    assert_eq!(ended.code, 5, "{ended:?}");
    assert!(
        ended.stderr.contains("was reset on the other side"),
        "{ended:?}"
    );
}

#[test]
fn a_target_that_is_closed_or_not_allowed_is_named_and_the_connection_ends() {
    let (closed, other) = (closed_port(), server(echo));
    let served = Served::allowing(&[closed]);
    let (mut forward, port) = served.forward_to(closed);
    assert_eq!(connect(port).read(&mut [0; 1]).unwrap_or(0), 0);
    forward.hear(&format!("nobody listens on 127.0.0.1:{closed}"));
    let (mut forward, port) = served.forward_to(other);
    assert_eq!(connect(port).read(&mut [0; 1]).unwrap_or(0), 0);
    let words = format!("127.0.0.1:{other} isn't allowed: the user of `manyway serve` can allow");
    forward.hear(&words);

    let target = format!("127.0.0.1:{other}");
    let refused = fed(served.connect(&[&target]), b"").1;
    assert_eq!(refused.code, 4, "{refused:?}");
    assert!(refused.stderr.contains(&words), "{refused:?}");
    let unreachable = fed(served.connect(&[]), b"").1;
    assert_eq!(unreachable.code, 3, "{unreachable:?}");
    assert!(
        unreachable.stderr.contains("nobody listens on"),
        "{unreachable:?}"
    );
    // A name isn't the address that it has.
    let named = fed(served.connect(&[&format!("localhost:{closed}")]), b"").1;
    assert_eq!(named.code, 4, "{named:?}");
}

/// A program that reads nothing of a large answer holds up itself alone.
#[test]
fn who_reads_nothing_does_not_hold_up_others() {
    let flood = server(|mut tcp: TcpStream| {
        let piece = [7; 1 << 16];
        while tcp.write_all(&piece).is_ok() {}
    });
    let target = server(backwards);
    let served = Served::allowing(&[flood, target]);
    let options = [flood, target].map(|port| format!("0:127.0.0.1:{port}"));
    let (_forward, ports) = served.forward(&["-L", &options[0], "-L", &options[1]]);
    let stalled: Vec<TcpStream> = (0..7).map(|_| connect(ports[0])).collect();
    // Until what they get fits nowhere any more, in the kernel or in a window.
    std::thread::sleep(Duration::from_secs(2));
    let sent = content(3_000_000, 1);
    let mut tcp = connect(ports[1]);
    tcp.write_all(&sent).unwrap();
    tcp.shutdown(Shutdown::Write).unwrap();
    let mut heard = Vec::new();
    tcp.read_to_end(&mut heard).unwrap();
    heard.reverse();
    assert!(heard == sent);
    drop(stalled);
}

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
    assert_eq!(tcp.read(&mut [0; 1]).unwrap_or(0), 0);
    forward.hear("a program doesn't speak SOCKS5: its first byte is 0x47");
    let mut tcp = connect(ports[0]);
    tcp.write_all(&[5, 1, 0, 5, 2, 0, 1]).unwrap();
    let mut answer = [0; 12];
    tcp.read_exact(&mut answer).unwrap();
    assert_eq!(answer[..4], [5, 0, 5, 7]);
    forward.hear("a program asks for SOCKS command 2");
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

#[test]
fn the_other_side_listens_where_its_user_allows() {
    let target = server(backwards);
    let served = Served::start(&["--allow-listen", "0"]);
    let (_forward, ports) = served.forward(&["-R", &format!("0:127.0.0.1:{target}")]);
    for n in 0..3 {
        let mut tcp = connect(ports[0]);
        let sent = content(300_000, n);
        tcp.write_all(&sent).unwrap();
        tcp.shutdown(Shutdown::Write).unwrap();
        let mut heard = Vec::new();
        tcp.read_to_end(&mut heard).unwrap();
        heard.reverse();
        assert!(heard == sent);
    }
    // It may listen nowhere else, and connect to nothing.
    let refused = |options: &[&str]| {
        let common = ["forward", "@ticket", "--path", "127.0.0.1"];
        let mut command = manyway(served.path(), &[&common, options].concat());
        Running(command.spawn().unwrap()).finish()
    };
    let ended = refused(&["-R", "0.0.0.0:0:127.0.0.1:1"]);
    assert_eq!(ended.code, 4, "{ended:?}");
    let words = "listening on 0.0.0.0:0 isn't allowed: the user of `manyway serve` can allow it \
                 with `--allow-listen 0.0.0.0:0`";
    assert!(ended.stderr.contains(words), "{ended:?}");
    let ended = fed(served.connect(&["127.0.0.1:1"]), b"").1;
    assert_eq!(ended.code, 4, "{ended:?}");
    let ended = fed(served.connect(&[]), b"").1;
    assert!(
        ended.stderr.contains("there is no default target"),
        "{ended:?}"
    );
}

#[test]
fn a_listener_there_ends_with_the_forward() {
    let served = Served::start(&["--allow-listen", "0"]);
    let (forward, ports) = served.forward(&["-R", "0:127.0.0.1:1"]);
    drop(connect(ports[0]));
    assert!(forward.end().ends_with("stopped\n"));
    eventually("the port's end", || {
        TcpStream::connect(("127.0.0.1", ports[0]))
            .is_err()
            .then_some(())
    });
}

#[test]
fn standard_input_and_output_reach_a_target() {
    let target = server(backwards);
    let served = Served::allowing(&[target]);
    let sent = content(2_000_000, 5);
    let (mut heard, ended) = fed(served.connect(&[]), &sent);
    assert_eq!(ended.ok().stderr, "");
    heard.reverse();
    assert!(heard == sent);
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
}

#[test]
fn ssh_goes_through_connect_as_its_proxy_command() {
    if !there_is("/usr/sbin/sshd") || !there_is("ssh") {
        return;
    }
    let dir = TempDir::new().unwrap();
    let sshd = Sshd::start(dir.path());
    let served = Served::allowing(&[sshd.port]);
    let proxy = format!(
        "ProxyCommand={} connect --stdio -q --path 127.0.0.1 @{}/ticket",
        env!("CARGO_BIN_EXE_manyway"),
        served.path().display()
    );
    let mut command = Command::new("ssh");
    command
        .args([
            "-F",
            "none",
            "-T",
            "-o",
            &proxy,
            "-o",
            "StrictHostKeyChecking=no",
        ])
        .args(["-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR"])
        .args([
            "-o",
            "IdentitiesOnly=yes",
            "-o",
            "BatchMode=yes",
            "-i",
            "key",
        ])
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
fn tickets_for_something_else_are_told_apart() {
    // A receiver's of files, given to these commands …
    let transfer = Transfer::new(1000);
    let receiver = transfer.receiver(&[]);
    transfer.ticket();
    let run = |dir: &Path, arguments: &[&str]| {
        let mut command = manyway(dir, arguments);
        command.env("MANYWAY_PATH", "127.0.0.1");
        Running(command.spawn().unwrap()).finish()
    };
    for wrong in [
        &["forward", "@ticket", "-L", "0:localhost:80"][..],
        &["connect", "--stdio", "@ticket", "localhost:80"],
    ] {
        let ended = run(transfer.path(), wrong);
        assert!([1, 5].contains(&ended.code), "{ended:?}");
        assert!(ended.stderr.contains("files"), "{ended:?}");
    }
    // … which goes on waiting.
    transfer.send(&["--to", "@ticket"]);
    transfer.check(receiver);

    // That of `serve`, given to the others.
    let served = Served::allowing(&[1]);
    std::fs::write(served.path().join("file"), "x").unwrap();
    for (wrong, words) in [
        (&["send", "file", "--to", "@ticket"][..], "not for files"),
        (&["recv", "@ticket"], "not for files"),
        (&["send", "-", "--to", "@ticket"], "not for a pipe"),
        (&["recv", "@ticket", "-"], "not for a pipe"),
    ] {
        let ended = run(served.path(), wrong);
        assert_ne!(ended.code, 0, "{ended:?}");
        assert!(ended.stderr.contains(words), "{wrong:?}: {ended:?}");
    }
    // And one that nobody serves any more.
    let ticket = served.ticket().to_string();
    served.service.end();
    let mut command = manyway(
        transfer.path(),
        &["forward", "-L", "0:localhost:80", &ticket],
    );
    command.env("MANYWAY_PATH", "127.0.0.1");
    let ended = Running(command.spawn().unwrap()).finish();
    assert_eq!(ended.code, 3, "{ended:?}");
}

async fn endpoint() -> Endpoint {
    let options = EndpointOptions {
        paths: vec!["127.0.0.1".parse().unwrap()],
        ..EndpointOptions::default()
    };
    Endpoint::bind(options).await.unwrap()
}

/// As many streams as are allowed, that say nothing or nonsense, cost others nothing.
#[tokio::test(flavor = "multi_thread")]
async fn streams_without_end_are_held_back_and_others_served() {
    let target = tokio::task::spawn_blocking(|| server(echo)).await.unwrap();
    let served = tokio::task::spawn_blocking(move || Served::allowing(&[target]))
        .await
        .unwrap();
    let hostile = endpoint().await;
    let connection = hostile.connect(&served.ticket()).await.unwrap();
    let mut silent = Vec::new();
    let opened = async {
        loop {
            let (mut send, receive) = connection.open_bi().await.unwrap();
            send.write_all(b"m").await.unwrap();
            silent.push((send, receive));
        }
    };
    let waits = tokio::time::timeout(Duration::from_secs(2), opened).await;
    assert!(waits.is_err(), "they have no end");
    assert_eq!(silent.len(), 128);

    // Nonsense on one of them frees its place, and is told as a reset.
    let (send, receive) = &mut silent[0];
    send.write_all(b"onsense and more of it").await.unwrap();
    let answer = receive.read_to_end(&mut Vec::new()).await.unwrap_err();
    assert_eq!(answer.kind(), ErrorKind::ConnectionReset);
    silent.remove(0);
    let (mut send, mut receive) = connection.open_bi().await.unwrap();
    let request = Request::Connect(Some(format!("127.0.0.1:{target}").parse().unwrap()));
    send.write_all(&[request.encode(), b"hello".to_vec()].concat())
        .await
        .unwrap();
    let mut header = [0; HEADER_LEN];
    receive.read_exact(&mut header).await.unwrap();
    let header = Header::decode(header).unwrap();
    let mut body = vec![0; header.len];
    receive.read_exact(&mut body).await.unwrap();
    assert_eq!(Reply::decode(header.kind, &body), Ok(Reply::done()));
    let mut heard = [0; 5];
    receive.read_exact(&mut heard).await.unwrap();
    assert_eq!(&heard, b"hello");
    // An honest peer beside it.
    let honest = tokio::task::spawn_blocking(move || {
        let (heard, ended) = fed(served.connect(&[]), b"honest");
        ended.ok();
        (heard, served)
    });
    assert_eq!(honest.await.unwrap().0, b"honest");
    hostile.close().await;
}

/// Older and newer releases are told which version is there.
#[tokio::test(flavor = "multi_thread")]
async fn another_version_is_answered_with_a_sentence() {
    let served = tokio::task::spawn_blocking(|| Served::allowing(&[1]))
        .await
        .unwrap();
    let other = endpoint().await;
    let connection = other.connect(&served.ticket()).await.unwrap();
    let (mut send, mut receive) = connection.open_bi().await.unwrap();
    send.write_all(b"mwfw\x02\x00\x00\x00").await.unwrap();
    let mut answer = Vec::new();
    receive.read_to_end(&mut answer).await.unwrap();
    let (header, body) = answer.split_first_chunk().unwrap();
    let header = Header::decode(*header).unwrap();
    let reply = Reply::decode(header.kind, body).unwrap();
    assert!(
        reply
            .reason
            .contains("install the same release on both hosts"),
        "{reply:?}"
    );
    other.close().await;
}

#[test]
fn either_side_may_be_stopped_and_says_so() {
    let target = server(echo);
    let served = Served::allowing(&[target]);
    // With a connection open.
    let (forward, port) = served.forward_to(target);
    let mut open = connect(port);
    open.write_all(b"x").unwrap();
    open.read_exact(&mut [0; 1]).unwrap();
    assert!(forward.end().ends_with("stopped\n"));
    assert_eq!(
        open.read(&mut [0; 1]).unwrap_err().kind(),
        ErrorKind::ConnectionReset
    );
    // And the side that serves.
    let (mut forward, port) = served.forward_to(target);
    let mut open = connect(port);
    open.write_all(b"x").unwrap();
    open.read_exact(&mut [0; 1]).unwrap();
    let said = served.service.end();
    assert!(said.ends_with("stopped\n"), "{said}");
    forward.hear("manyway: the peer closed the connection: its user stopped it");
    assert_eq!(
        open.read(&mut [0; 1]).unwrap_err().kind(),
        ErrorKind::ConnectionReset
    );
    assert_eq!(forward.process.finish().code, 5);
}

#[test]
fn what_is_served_and_forwarded_has_to_be_said() {
    let dir = TempDir::new().unwrap();
    for (arguments, words) in [
        (&["serve"][..], "`serve` lets nothing through by itself"),
        (&["serve", "--allow", "localhost"], "this is not HOST:PORT"),
        (&["forward", "@ticket"], "say what to forward"),
        (
            &["forward", "-L", "80:80", "@ticket"],
            "this is not [BIND:]PORT:HOST:PORT",
        ),
        (
            &["forward", "-D", "1080"],
            "name the ticket of the other side",
        ),
        (&["connect", "--stdio"], "name the ticket of the other side"),
        (
            &["connect", "--stdio", "mw1x", "nonsense"],
            "a target is HOST:PORT",
        ),
        (&["connect", "mw1x"], "--stdio"),
    ] {
        let ended = Running(manyway(dir.path(), arguments).spawn().unwrap()).finish();
        assert_eq!(ended.code, 2, "{arguments:?}: {ended:?}");
        assert!(ended.stderr.contains(words), "{arguments:?}: {ended:?}");
    }
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let at: SocketAddr = taken.local_addr().unwrap();
    let forward = format!("{}:localhost:80", at.port());
    let ticket = Served::allowing(&[1]).ticket().to_string();
    let mut command = manyway(dir.path(), &["forward", "-L", &forward, &ticket]);
    let ended = Running(command.spawn().unwrap()).finish();
    assert_eq!(ended.code, 1, "{ended:?}");
    let words = format!(
        "can't listen on localhost:{}: Address already in use",
        at.port()
    );
    assert!(ended.stderr.contains(&words), "{ended:?}");
}

/// A peer that closes while a stream opens is no panic.
#[tokio::test(flavor = "multi_thread")]
async fn who_goes_at_once_leaves_nothing_behind() {
    let served = tokio::task::spawn_blocking(|| Served::allowing(&[1]))
        .await
        .unwrap();
    let peer = endpoint().await;
    for _ in 0..5 {
        let connection = peer.connect(&served.ticket()).await.unwrap();
        let (mut send, _receive) = connection.open_bi().await.unwrap();
        send.write_all(&Request::Connect(None).encode())
            .await
            .unwrap();
        connection.close(0x100, "");
        assert_eq!(connection.closed().await, CloseReason::Local);
    }
    peer.close().await;
    let said = tokio::task::spawn_blocking(move || served.service.end())
        .await
        .unwrap();
    assert!(
        said.ends_with("stopped\n") && !said.contains("panicked"),
        "{said}"
    );
}

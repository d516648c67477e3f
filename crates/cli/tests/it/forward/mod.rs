//! `serve`, `forward` and `connect`: TCP connections of other programs between two processes.

mod peers;
mod programs;

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Stdio;
use std::thread::{JoinHandle, spawn};
use std::time::Duration;

use manyway::Ticket;
use socket2::SockRef;
use tempfile::TempDir;

use crate::common::service::Service;
use crate::common::{Finished, Running, eventually, manyway};

const CODE: &str = "7-guitar-saddle-orbit";

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

/// Waits for its end, or for its reset; nothing comes before.
fn ends(mut tcp: TcpStream) {
    match tcp.read(&mut [0; 1]) {
        Ok(0) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        other => panic!("{other:?}"),
    }
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

/// The service reads nothing, so that the program can't send all that it has.
#[test]
fn a_reset_arrives_however_much_waits_before_it() {
    let (hand, accepted) = std::sync::mpsc::channel();
    let target = server(move |tcp| hand.send(tcp).unwrap());
    let served = Served::allowing(&[target]);
    let (_forward, port) = served.forward_to(target);
    let mut program = connect(port);
    let service = accepted.recv_timeout(PATIENCE).unwrap();
    program
        .set_write_timeout(Some(Duration::from_millis(500)))
        .unwrap();
    while program.write_all(&[7; 1 << 16]).is_ok() {}
    SockRef::from(&program)
        .set_linger(Some(Duration::ZERO))
        .unwrap();
    drop(program);
    let error = eventually("the reset", || service.take_error().unwrap());
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
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
    ends(connect(port));
    forward.hear(&format!("nobody listens on 127.0.0.1:{closed}"));
    let (mut forward, port) = served.forward_to(other);
    ends(connect(port));
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

/// Its user is the one who can start it.
#[test]
fn a_closed_target_of_this_side_is_named_here() {
    let closed = closed_port();
    let served = Served::start(&["--allow-listen", "0"]);
    let back = format!("0:127.0.0.1:{closed}");
    let (mut forward, ports) = served.forward(&["-R", &back]);
    ends(connect(ports[0]));
    forward.hear(&format!("manyway: nobody listens on 127.0.0.1:{closed}"));
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
    // That nobody listens at its target may be told after that.
    assert!(forward.end().contains("stopped\n"));
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
    // It may be started again.
    let words = "the peer closed the connection: its user stopped it; trying again in 1 s";
    forward.hear(words);
    assert_eq!(
        open.read(&mut [0; 1]).unwrap_err().kind(),
        ErrorKind::ConnectionReset
    );
    assert!(forward.end().ends_with("stopped\n"));
}

/// `serve` dies without a word, and is started again: whoever connects then gets through.
#[test]
fn a_forward_waits_for_its_peer_to_come_back() {
    let target = server(echo);
    let dir = TempDir::new().unwrap();
    let id = Running(manyway(dir.path(), &["id"]).spawn().unwrap()).finish();
    let (id, port) = (id.ok().stdout, closed_port().to_string());
    let there = format!("127.0.0.1:{}", closed_port());
    let target = format!("127.0.0.1:{target}");
    let serve = || {
        let common = ["serve", "--path", "127.0.0.1", "--ticket-file", "ticket"];
        let lasting = ["--port", &port, "--allow-peer", id.trim()];
        let allowed = ["--allow", &target, "--allow-listen", &there];
        let mut service = Service::start(dir.path(), &[&common[..], &lasting, &allowed].concat());
        service.hear("On the other host");
        service
    };
    let mut service = serve();
    let (from, back) = (format!("0:{target}"), format!("{there}:{target}"));
    let common = ["forward", "@ticket", "--path", "127.0.0.1"];
    let ways = ["-L", &from, "-R", &back];
    let mut forward = Service::start(dir.path(), &[&common[..], &ways].concat());
    let works = |said: &str| {
        let ways = said.split("Forwarding ").skip(1);
        let ports = ways.map(|way| {
            let (at, _) = way.split_once(' ').unwrap();
            at.rsplit_once(':').unwrap().1.parse().unwrap()
        });
        assert_eq!(ports.clone().count(), 2, "{said}");
        for port in ports {
            let mut tcp = connect(port);
            tcp.write_all(b"x").unwrap();
            tcp.read_exact(&mut [0; 1]).unwrap();
        }
    };
    let last = format!(" → {target} there\n");
    forward.hear(&last);
    works(&forward.said);
    service.process.0.kill().unwrap();
    service.process.0.wait().unwrap();
    // As a lost connection does that the other side hasn't noticed.
    let held = TcpListener::bind(&there).unwrap();
    let service = serve();
    forward.hear("trying again in 1 s");
    forward.hear("trying again in 2 s");
    drop(held);
    forward.said.clear();
    forward.hear(&last);
    works(&forward.said);
    assert!(forward.end().ends_with("stopped\n"));
    service.end();
}

/// ssh ends its ProxyCommand by SIGHUP. The other side learns that at once, and not by silence.
#[test]
fn who_is_hung_up_on_ends_the_connection_there() {
    // The test's own `nohup` would hold for what it starts, too.
    if manyway_os::ignores_hangup() {
        return;
    }
    let (tell, told) = std::sync::mpsc::channel();
    let target = server(move |mut tcp: TcpStream| {
        for _ in 0..2 {
            let read = tcp.read(&mut [0; 1]);
            tell.send(read.map_err(|error| error.kind())).unwrap();
        }
    });
    let served = Served::allowing(&[target]);
    let mut connected = served.connect(&[]);
    connected.0.stdin.as_mut().unwrap().write_all(b"x").unwrap();
    assert_eq!(told.recv_timeout(PATIENCE).unwrap(), Ok(1));
    connected.signal("HUP");
    let ended = connected.finish();
    assert_eq!((ended.code, &*ended.stderr), (5, ""), "{ended:?}");
    // Silence takes 30 s.
    let end = told.recv_timeout(Duration::from_secs(15)).unwrap();
    assert_eq!(end, Err(ErrorKind::ConnectionReset));
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
        (
            &["tun", CODE, "--address", "10.77.0.2/24", "--code"],
            "`--code` makes a code for the other side",
        ),
        (
            &[
                "tun",
                CODE,
                "--address",
                "10.77.0.2/24",
                "--allow-peer",
                "ann",
            ],
            "`--allow-peer` is for the side that waits",
        ),
        (
            &["send", "-", "--to", CODE, "--ticket-file", "ticket"],
            "`--ticket-file` is for the side that waits",
        ),
        (
            &["recv", CODE, "--allow-peer", "ann"],
            "`--allow-peer` is for the side that waits",
        ),
        (
            &["send", ".", "there:", "--ticket-file", "ticket"],
            "`--ticket-file` is for the side that waits",
        ),
        (
            &["send", "-", "--metrics", "127.0.0.1:1"],
            "leave out --metrics",
        ),
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
        "listens on localhost:{}: end it, or choose another",
        at.port()
    );
    assert!(ended.stderr.contains(&words), "{ended:?}");
}

//! `manyway tun` between two hosts, each a network namespace, over two emulated links of 20 Mbps
//! and 10 ms. Skipped without root.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use manyway_testbed::live;

use crate::common::place::Place;
use crate::common::uplinks::{HERE, Hosts, LINK, THERE, able};
use crate::common::{Running, eventually};

/// The time over which a rate is taken.
const SPAN: Duration = Duration::from_secs(2);

impl Hosts {
    /// Both ends of a tunnel: 10.77.0.1 waits, 10.77.0.2 connects.
    fn tunnel(&self) -> [Running; 2] {
        let arguments = [
            "tun",
            "--address",
            "10.77.0.1/24",
            "--ticket-file",
            "ticket",
        ];
        let waits = self.start(HERE, &arguments, "waits");
        self.place.wait_for("ticket");
        let connects = self.connect();
        [waits, connects]
    }

    fn connect(&self) -> Running {
        let arguments = ["tun", "@ticket", "--address", "10.77.0.2/24"];
        self.start(THERE, &arguments, "connects")
    }

    fn says(&self, said: &str, text: &str) {
        eventually(text, || {
            fs::read_to_string(self.place.path(said))
                .ok()?
                .contains(text)
                .then_some(())
        });
    }

    fn has_device(&self, host: usize) -> bool {
        self.ip(host, "link show mw0")
    }

    fn listen(&self, port: u16) -> TcpListener {
        let at = SocketAddr::from(([10, 77, 0, 1], port));
        live::inside(&self.names[HERE], || TcpListener::bind(at)).unwrap()
    }

    /// A TCP connection from 10.77.0.2, as soon as the tunnel carries it.
    fn dial(&self, port: u16) -> TcpStream {
        let to = SocketAddr::from(([10, 77, 0, 1], port));
        eventually("a connection through the tunnel", || {
            let dial = || TcpStream::connect_timeout(&to, Duration::from_secs(5));
            live::inside(&self.names[THERE], dial).ok()
        })
    }
}

/// A TCP connection through the tunnel that never has enough.
struct Bulk {
    read: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
}

impl Bulk {
    fn start(hosts: &Hosts, port: u16) -> Self {
        let listener = hosts.listen(port);
        let mut client = hosts.dial(port);
        let (mut server, _) = listener.accept().unwrap();
        let bulk = Self {
            read: Arc::default(),
            stop: Arc::default(),
        };
        let (read, stop) = (bulk.read.clone(), bulk.stop.clone());
        spawn(move || {
            let mut buf = vec![0; 1 << 16];
            while let Ok(len @ 1..) = server.read(&mut buf) {
                read.fetch_add(len as u64, Ordering::Relaxed);
            }
        });
        spawn(move || {
            let data = vec![7; 1 << 16];
            while !stop.load(Ordering::Relaxed) && client.write_all(&data).is_ok() {}
        });
        bulk
    }

    fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// What arrives in a while, in bits per second.
    fn rate(&self) -> f64 {
        let (began, before) = (Instant::now(), self.read());
        sleep(SPAN);
        (self.read() - before) as f64 * 8.0 / began.elapsed().as_secs_f64()
    }
}

impl Drop for Bulk {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// A rate depends on who else uses the machine; that it is reached at all shows that both links
/// carry the connection.
#[test]
fn tcp_in_the_tunnel_gets_more_than_a_link_has_and_outlives_one() {
    if !able() {
        return;
    }
    let hosts = Hosts::new("both");
    let [_waits, connects] = hosts.tunnel();
    let bulk = Bulk::start(&hosts, 5001);
    let mut rates = Vec::new();
    eventually("1.5 links", || {
        rates.push(bulk.rate());
        (rates.last() > Some(&(1.5 * LINK))).then_some(())
    });
    assert!(hosts.ip(THERE, "link set link1 down"));
    let before = bulk.read();
    eventually("bytes over the other link", || {
        (bulk.read() > before + 4_000_000).then_some(())
    });
    drop(bulk);

    // The device goes with the process, however that ends; the other side waits for the next one.
    connects.signal("KILL");
    eventually("no device", || (!hosts.has_device(THERE)).then_some(()));
    assert!(hosts.has_device(HERE));
    drop(connects);
    let _again = hosts.connect();
    let listener = hosts.listen(5002);
    hosts.dial(5002).write_all(b"again").unwrap();
    let mut text = String::new();
    listener
        .accept()
        .unwrap()
        .0
        .read_to_string(&mut text)
        .unwrap();
    assert_eq!(text, "again");
}

#[test]
fn both_sides_need_addresses_of_their_own_and_the_newest_has_the_tunnel() {
    if !able() {
        return;
    }
    let hosts = Hosts::new("one");
    let [waits, first] = hosts.tunnel();
    hosts.says(
        "waits",
        "The tunnel is open to 10.77.0.2, for packets of 1280 bytes.",
    );
    for (said, address, words) in [
        (
            "same",
            "10.77.0.1/24",
            "both sides have the address 10.77.0.1: change it on one side",
        ),
        (
            "elsewhere",
            "10.78.0.2/24",
            "10.78.0.2 is in none of the waiting side's networks (10.77.0.0/24): choose",
        ),
    ] {
        let wrong = ["tun", "@ticket", "--address", address, "--name", "mw1"];
        assert_ne!(hosts.start(THERE, &wrong, said).finish().code, 0);
        hosts.says(said, words);
        hosts.says("waits", words);
    }
    let files = ["send", "/etc/hostname", "--to", "@ticket"];
    let files = hosts.start(THERE, &files, "files").finish();
    assert_eq!(files.code, 1);
    hosts.says(
        "files",
        "its ticket is for `manyway tun`, and not for files",
    );
    let smaller = [
        "tun",
        "@ticket",
        "--address",
        "10.77.0.3/24",
        "--name",
        "mw2",
        "--mtu",
        "1000",
    ];
    let second = hosts.start(THERE, &smaller, "second");
    hosts.says(
        "waits",
        "The tunnel is open to 10.77.0.3, for packets of 1000 bytes.",
    );
    assert_ne!(first.finish().code, 0);
    hosts.says(
        "connects",
        "another host with the ticket has taken over the tunnel",
    );
    assert!(hosts.ip(HERE, "link set mw0 down") && hosts.ip(HERE, "link set mw0 up"));
    second.interrupt();
    assert_eq!(second.finish().code, 0);
    hosts.says("second", "stopped");
    assert!(hosts.ip(HERE, "link del mw0"));
    let ended = waits.finish();
    assert_ne!(ended.code, 0);
    hosts.says("waits", "somebody has deleted the network device mw0");
}

#[test]
fn a_ticket_for_something_else_is_told() {
    if !able() {
        return;
    }
    let hosts = Hosts::new("else");
    let serve = [
        "serve",
        "--allow",
        "localhost:22",
        "--ticket-file",
        "served",
    ];
    let _serves = hosts.start(HERE, &serve, "serves");
    hosts.place.wait_for("served");
    let tun = ["tun", "@served", "--address", "10.77.0.2/24"];
    assert_ne!(hosts.start(THERE, &tun, "connects").finish().code, 0);
    hosts.says("connects", "its ticket is for something else");
    let [_waits, _] = hosts.tunnel();
    let forward = ["forward", "-L", "8080:localhost:80", "@ticket"];
    assert_ne!(hosts.start(THERE, &forward, "forwards").finish().code, 0);
    hosts.says("forwards", "this ticket is for `manyway tun`");
}

/// The links have packets of 1500 bytes.
#[test]
fn a_tunnel_whose_packets_fit_no_path_says_so() {
    if !able() {
        return;
    }
    let hosts = Hosts::new("room");
    let address = ["tun", "--mtu", "1450", "--address"];
    let waits = [&address[..], &["10.77.0.1/24", "--ticket-file", "ticket"]].concat();
    let _waits = hosts.start(HERE, &waits, "waits");
    hosts.place.wait_for("ticket");
    let connects = [&address[..], &["10.77.0.2/24", "@ticket"]].concat();
    let _connects = hosts.start(THERE, &connects, "connects");
    for said in ["waits", "connects"] {
        hosts.says(
            said,
            "no path has room for packets of 1450 bytes. Start both",
        );
    }
}

/// Its packets take the links: as a path beside them it would carry the same bytes again.
#[test]
fn a_tunnel_is_no_path_for_others() {
    if !able() {
        return;
    }
    let hosts = Hosts::new("paths");
    let _tunnel = hosts.tunnel();
    hosts.says("waits", "The tunnel is open");
    fs::write(hosts.place.path("file"), vec![7; 3_000_000]).unwrap();
    let listen = ["recv", "in", "--ticket-file", "files"];
    let _receives = hosts.start(HERE, &listen, "receives");
    hosts.place.wait_for("files");
    let send = ["send", "file", "--to", "@files", "-v"];
    assert_eq!(hosts.start(THERE, &send, "sends").finish().code, 0);
    let said = fs::read_to_string(hosts.place.path("sends")).unwrap();
    assert!(said.contains("10.1.2.1"), "{said}");
    assert!(!said.contains("10.77.0."), "{said}");
}

#[test]
fn what_cannot_be_is_told_before_there_is_a_device() {
    let place = Place::new();
    for (arguments, says) in [
        (&["--address", "10.77.0.1"][..], "10.77.0.1/24"),
        (&["--address", "127.0.0.1/8"], "can't be a host's address"),
        (&["--address", "fd77::1/64", "--mtu", "1000"], "--mtu 1280"),
        (&["--address", "10.77.0.1/24", "--mtu", "500"], "500"),
        (
            &["--address", "10.77.0.1/24", "--route", "10.0.0.1/8"],
            "the network is 10.0.0.0/8",
        ),
        (
            &["--address", "10.77.0.1/24", "--path", "192.0.2.1"],
            "needs the interface's name",
        ),
        (&["mw1x", "--address", "10.77.0.1/24"], "ticket"),
        (&[], "--address"),
    ] {
        let done = place.run(&[&["tun"], arguments].concat());
        assert_eq!(done.code, 2, "{arguments:?}: {}", done.stderr);
        assert!(done.stderr.contains(says), "{arguments:?}: {}", done.stderr);
    }
}

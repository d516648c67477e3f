//! A link in real time between two network namespaces. Skipped without root.
#![cfg(all(feature = "live", target_os = "linux"))]

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::UdpSocket;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, setns};

/// Long enough for a loaded machine; only failing tests wait for it.
const PATIENCE: Duration = Duration::from_secs(20);
const SCENARIO: &str = r#"
name = "live"
duration = "1 s"
[links.a]
rate = "8 Mbps"
delay = "20 ms"
queue = "50 packets"
[paths.a]
links = ["a"]
[flows.main]
paths = ["a"]
law = "reno"
"#;

fn ip(arguments: &str) -> bool {
    let mut ip = Command::new("ip");
    ip.args(arguments.split(' ')).stderr(Stdio::null());
    ip.status().is_ok_and(|status| status.success())
}

/// Two namespaces, gone with this.
struct Namespaces([String; 2]);

impl Namespaces {
    fn new() -> Option<Self> {
        let names = ["a", "b"].map(|end| format!("manyway-{}-{end}", std::process::id()));
        let made = Self(names);
        made.0
            .iter()
            .all(|name| ip(&format!("netns add {name}")))
            .then_some(made)
    }

    fn socket(&self, end: usize) -> UdpSocket {
        let namespace = File::open(format!("/run/netns/{}", self.0[end])).unwrap();
        let bind = || {
            setns(namespace, CloneFlags::CLONE_NEWNET).unwrap();
            UdpSocket::bind(format!("10.9.0.{}:9", end + 1)).unwrap()
        };
        let socket = std::thread::scope(|scope| scope.spawn(bind).join().unwrap());
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in &self.0 {
            ip(&format!("netns del {name}"));
        }
    }
}

/// The program, killed with this.
struct Testbed(Child, BufReader<ChildStdout>);

impl Drop for Testbed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(scenario: &str, ends: &[String; 2]) -> Testbed {
    let mut child = Command::new(env!("CARGO_BIN_EXE_testbed"))
        .args(["link", scenario, "--link", "a"])
        .args(["--from", &format!("{}:l", ends[0])])
        .args(["--to", &format!("{}:l", ends[1])])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let said = BufReader::new(child.stdout.take().unwrap());
    let mut testbed = Testbed(child, said);
    let mut line = String::new();
    testbed.1.read_line(&mut line).unwrap();
    assert_eq!(line, "up\n");
    for (end, name) in ends.iter().enumerate() {
        let last = end + 1;
        assert!(ip(&format!("-n {name} addr add 10.9.0.{last}/24 dev l")));
        assert!(ip(&format!("-n {name} link set dev l up")));
    }
    testbed
}

#[test]
fn a_link_has_its_rate_delay_and_queue_and_ends_with_its_device() {
    let Some(namespaces) = Namespaces::new() else {
        let reason = "skipped: it takes root to make network namespaces";
        writeln!(std::io::stderr(), "{reason}").unwrap();
        return;
    };
    let mut scenario = tempfile::NamedTempFile::new().unwrap();
    scenario.write_all(SCENARIO.as_bytes()).unwrap();
    let path = scenario.path().to_str().unwrap();
    let mut testbed = start(path, &namespaces.0);

    let [here, there] = [0, 1].map(|end| namespaces.socket(end));
    let mut buffer = [0; 2048];
    let began = Instant::now();
    here.send_to(b"ping", "10.9.0.2:9").unwrap();
    let (len, from) = there.recv_from(&mut buffer).unwrap();
    there.send_to(&buffer[..len], from).unwrap();
    here.recv(&mut buffer).unwrap();
    assert!(began.elapsed() >= Duration::from_millis(40), "both ways");

    // A thousand bytes with their headers take a millisecond, and the queue holds fifty.
    let began = Instant::now();
    for _ in 0..200 {
        here.send_to(&[0; 972], "10.9.0.2:9").unwrap();
    }
    let sent = began.elapsed();
    let mut received = 0;
    there
        .set_read_timeout(Some(Duration::from_millis(500)))
        .unwrap();
    let mut last = began;
    while there.recv(&mut buffer).is_ok() {
        received += 1;
        last = Instant::now();
    }
    let took = last - began;
    assert!(received >= 50, "{received}");
    // Those that found room while the others were being sent, too.
    let most = 52 + sent.as_millis() as u64;
    assert!(received <= most, "{received} of 200, sent in {sent:?}");
    let least = Duration::from_millis(20 + received);
    assert!(took >= least, "{received} packets in {took:?}");

    assert!(ip(&format!("-n {} link del dev l", namespaces.0[0])));
    let deadline = Instant::now() + PATIENCE;
    while testbed.0.try_wait().unwrap().is_none() {
        assert!(Instant::now() < deadline, "runs on without its device");
        std::thread::sleep(Duration::from_millis(10));
    }
    let mut text = String::new();
    testbed.1.read_to_string(&mut text).unwrap();
    let reports: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(reports.len(), 2, "{text}");
    let number = |report: usize, key: &str| reports[report][key].as_u64().unwrap();
    assert!(number(0, "delivered") > received, "{text}");
    assert_eq!(
        number(0, "offered"),
        number(0, "delivered") + number(0, "dropped_by_queue")
    );
    assert!(number(1, "delivered") >= 1 && number(1, "lost") == 0);
    let late = &reports[0]["late_us"];
    assert!(late["median"].as_f64() <= late["max"].as_f64(), "{text}");
}

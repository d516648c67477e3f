//! `manyway testbed` and `manyway run --level live`. Skipped without root.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use manyway_testbed::live;
use serde_json::Value;
use tempfile::TempDir;

use crate::common::{self, Finished, Running, install, skipped};

/// Only failing tests wait for it.
const PATIENCE: Duration = Duration::from_secs(30);

const TWO: &str = r#"name = "two"
duration = "6 s"
[links]
a = { rate = "8 Mbps", delay = "10 ms", queue = "50 packets" }
b = { rate = "4 Mbps", delay = "20 ms" }
[paths]
a = { links = ["a"] }
b = { links = ["b"] }
[flows.ours]
law = "cubic"
paths = ["a", "b"]
[measure]
from = "3 s"
"#;

fn place() -> TempDir {
    let place = TempDir::new().unwrap();
    fs::write(place.path().join("two.toml"), TWO).unwrap();
    place
}

/// Whether namespaces can be made here.
fn root() -> bool {
    let able = Command::new("unshare")
        .args([
            "--mount",
            "--pid",
            "--fork",
            "--net",
            "test",
            "-e",
            "/dev/net/tun",
        ])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !able {
        skipped("it takes root and TUN devices to make live networks");
    }
    able
}

fn run(place: &TempDir, arguments: &[&str]) -> Finished {
    Running(common::manyway(place.path(), arguments).spawn().unwrap()).finish()
}

fn waits_until(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Whether a process has this word on its command line; zombies have none.
fn lives(word: &str) -> bool {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let mut lines = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    lines.any(|line| String::from_utf8_lossy(&line).contains(word))
}

/// Whether a process has this command line.
fn lives_as(line: &str) -> bool {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let mut lines = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    lines.any(|own| own == line.as_bytes())
}

#[test]
fn a_command_runs_at_the_sender_and_reaches_the_receiver_over_each_path() {
    if !root() {
        return;
    }
    let script = "echo $TESTBED_PATHS $TESTBED_SENDER $TESTBED_RECEIVER; \
                  ip netns exec receiver ip -o -4 addr show dev path2; \
                  ping -q -c 3 -i 0.2 10.0.1.2 >&2; exit 7";
    let place = place();
    let done = run(
        &place,
        &["testbed", "run", "two.toml", "--", "sh", "-c", script],
    );
    assert_eq!(done.code, 7, "{}", done.stderr);
    assert!(
        done.stdout
            .starts_with("a,b 10.0.1.1,10.0.2.1 10.0.1.2,10.0.2.2\n"),
        "{}",
        done.stdout
    );
    assert!(done.stdout.contains("10.0.2.2/24"), "{}", done.stdout);
    assert!(
        done.stderr.contains("late at the 99th percentile"),
        "{}",
        done.stderr
    );
}

#[test]
fn nothing_is_left_when_it_is_killed() {
    if !root() {
        return;
    }
    let place = place();
    // A number that nobody else sleeps for.
    let word = format!("{}.5", 100_000 + std::process::id());
    for signal in ["-KILL", "-TERM"] {
        let arguments = ["testbed", "run", "two.toml", "--", "sleep", &word];
        let mut running = common::manyway(place.path(), &arguments).spawn().unwrap();
        let sleeps = format!("sleep\0{word}\0");
        // The command itself, whose line begins with its name.
        waits_until("the command doesn't start", || lives_as(&sleeps));
        let pid = running.id().to_string();
        assert!(
            Command::new("kill")
                .args([signal, &pid])
                .status()
                .unwrap()
                .success()
        );
        running.wait().unwrap();
        waits_until("something lives on", || !lives(&word));
    }
}

#[test]
fn a_network_stands_until_it_is_taken_down() {
    if !root() {
        return;
    }
    let place = place();
    let names = ["x", "y"].map(|name| format!("test-{}-{name}", std::process::id()));
    for name in &names {
        let done = run(&place, &["testbed", "up", "two.toml", "--name", name]);
        assert_eq!(done.code, 0, "{}", done.stderr);
        assert!(
            done.stderr.contains("10.0.2.1 at the sender"),
            "{}",
            done.stderr
        );
        let again = run(&place, &["testbed", "up", "two.toml", "--name", name]);
        assert_ne!(again.code, 0);
        assert!(again.stderr.contains("stands already"), "{}", again.stderr);
    }
    for name in &names {
        let done = run(&place, &["testbed", "down", name]);
        assert_eq!(done.code, 0, "{}", done.stderr);
        let again = run(&place, &["testbed", "down", name]);
        assert_eq!(again.code, 2, "{}", again.stderr);
    }
}

/// How fast depends on the machine; that flows run and are counted doesn't.
#[test]
fn flows_of_ours_and_of_the_kernel_run_live() {
    if !root() {
        return;
    }
    let place = place();
    let kernel = "[flows.kernel]\nlaw = \"kernel:tcp:cubic\"\npaths = [\"a\"]\n[measure]";
    let text = TWO.replace("[measure]", kernel);
    fs::write(place.path().join("both.toml"), text).unwrap();
    let done = run(&place, &["run", "both.toml", "--level", "live", "--json"]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    let object: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(object["level"], "live");
    assert_eq!(object["groups"][1]["law"], "kernel:tcp:cubic");
    for flow in object["flows"].as_array().unwrap() {
        let goodput = flow["goodput_bps"]["mean"].as_f64().unwrap();
        assert!(goodput > 0.0 && goodput < 12e6, "{flow}");
        assert_eq!(flow["subflows"][0]["loss_events"]["n"], 0);
    }
    for group in object["groups"].as_array().unwrap() {
        let rate = |name: &str| group[name]["mean"].as_f64().unwrap();
        let (all, mean) = (rate("total_bps"), rate("goodput_bps"));
        assert!((all / mean - 1.0).abs() < 0.02, "{group}");
    }
    assert!(object["emulator"]["late_p99_s"].as_f64().unwrap() > 0.0);
}

#[test]
fn levels_stand_beside_the_live_one() {
    if !root() {
        return;
    }
    let place = place();
    let levels = ["compare", "two.toml", "--levels", "packet,live", "--json"];
    let done = run(&place, &levels);
    assert_eq!(done.code, 0, "{}", done.stderr);
    let object: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(object["levels"], serde_json::json!(["packet", "live"]));
    let levels = &object["points"][0]["parts"][0]["groups"][0]["levels"];
    for level in ["packet", "live"] {
        let goodput = levels[level]["goodput_bps"]["mean"].as_f64().unwrap();
        assert!(goodput > 0.0 && goodput < 12e6, "{level}: {levels}");
    }
    let remark = object["remarks"][0].as_str().unwrap();
    assert!(remark.contains("at the 99th percentile"), "{remark}");
}

#[test]
fn a_run_that_is_interrupted_ends_and_says_so() {
    if !root() {
        return;
    }
    let place = place();
    // A law that no other test has, as the program writes it: without a zero at the end.
    let law = format!("ewtcp:a=0.1{}1", std::process::id());
    let set = format!("flows.ours.law={law}");
    let arguments = [
        "run", "two.toml", "--level", "live", "--repeat", "2", "--json",
    ];
    let arguments = [&arguments[..], &["--set", &set]].concat();
    let running = Running(common::manyway(place.path(), &arguments).spawn().unwrap());
    let sends = format!("--cc\0{law}");
    waits_until("the first run doesn't start", || lives(&sends));
    waits_until("the first run doesn't end", || !lives(&sends));
    waits_until("the second run doesn't start", || lives(&sends));
    running.interrupt();
    let done = running.finish();
    assert_eq!(done.code, 1, "{}", done.stderr);
    assert!(
        done.stderr.contains("one run is missing"),
        "{}",
        done.stderr
    );
    assert_eq!(done.json()["unfinished"], 1);
    waits_until("something lives on", || !lives(&law));
}

/// Whoever may not make namespaces hears of it before anything else happens.
#[test]
fn without_root_it_says_what_it_takes() {
    if !root() {
        return;
    }
    let place = place();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    // Where it was built, others may not look.
    let program = place.path().join("manyway");
    install(env!("CARGO_BIN_EXE_manyway").as_ref(), &program);
    for arguments in [
        &["run", "two.toml", "--level", "live"][..],
        &["compare", "two.toml", "--levels", "packet,live"],
        &["testbed", "up", "two.toml"],
        &["testbed", "run", "two.toml", "--", "true"],
    ] {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
        command.arg(&program).args(arguments);
        command.current_dir(place.path());
        let done = command.output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains("takes root: run it with sudo"), "{said}");
    }
}

/// Where devices or MPTCP can't be had, however that came about.
#[test]
fn what_the_host_lacks_is_named() {
    if !root() {
        return;
    }
    let place = place();
    let mptcp = "flows.ours={ law = \"kernel:mptcp:reno\", paths = [\"a\"] }";
    for (apart, lose, law, said) in [
        (
            "--mount",
            "mount -t tmpfs none /dev/net",
            "flows.ours.law=lia",
            "live links need the kernel's TUN devices: `modprobe tun`",
        ),
        (
            "--net",
            "echo 0 > /proc/sys/net/mptcp/enabled",
            mptcp,
            "it takes a kernel with CONFIG_MPTCP, and `sysctl net.mptcp.enabled=1`",
        ),
    ] {
        let script = format!("{lose} && exec \"$0\" \"$@\"");
        let mut command = Command::new("unshare");
        command.args([apart, "sh", "-c", &script, env!("CARGO_BIN_EXE_manyway")]);
        command.args(["run", "two.toml", "--level", "live", "--set", law]);
        let done = command.current_dir(place.path()).output().unwrap();
        let stderr = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(2), "{lose}: {stderr}");
        assert!(stderr.contains(said), "{lose}: {stderr}");
    }
}

#[test]
fn what_the_kernel_lacks_is_named() {
    if !root() {
        return;
    }
    let place = place();
    for law in ["kernel:tcp:nosuchlaw", "kernel:mptcp:nosuchlaw"] {
        let set = format!("flows.ours={{ law = \"{law}\", paths = [\"a\"] }}");
        let done = run(
            &place,
            &["run", "two.toml", "--level", "live", "--set", &set],
        );
        assert_eq!(done.code, 2, "{}", done.stderr);
        let said = format!("{law}: this kernel has no congestion control nosuchlaw; it has ");
        assert!(done.stderr.contains(&said), "{}", done.stderr);
        let hint = done.stderr.contains("`manyway kernel load LAW`");
        assert_eq!(hint, law.contains("mptcp"), "{}", done.stderr);
    }
}

fn ip(arguments: &str) -> bool {
    let mut ip = Command::new("ip");
    ip.args(arguments.split(' ')).stderr(Stdio::null());
    ip.status().is_ok_and(|status| status.success())
}

/// Two namespaces with names, gone with this.
struct Namespaces([String; 2]);

impl Namespaces {
    fn new() -> Self {
        let made = Self(["a", "b"].map(|end| format!("manyway-{}-{end}", std::process::id())));
        for name in &made.0 {
            assert!(ip(&format!("netns add {name}")));
        }
        made
    }

    fn socket(&self, end: usize) -> UdpSocket {
        let bind = || UdpSocket::bind(format!("10.9.0.{}:9", end + 1));
        let socket = live::inside(&self.0[end], bind).unwrap();
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

/// A link between them, killed with this.
struct Link(Child, BufReader<ChildStdout>);

impl Drop for Link {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Link {
    fn start(place: &TempDir, ends: &[String; 2]) -> Self {
        let ends_of = [0, 1].map(|end| format!("{}:l", ends[end]));
        let arguments = [
            "testbed",
            "link",
            "two.toml",
            "a",
            "--here",
            &ends_of[0],
            "--there",
        ];
        let arguments = [&arguments[..], &[&ends_of[1]]].concat();
        let mut child = common::manyway(place.path(), &arguments).spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        let mut link = Self(child, said);
        let mut line = String::new();
        link.1.read_line(&mut line).unwrap();
        assert_eq!(line, "up\n");
        for (end, name) in ends.iter().enumerate() {
            let last = end + 1;
            assert!(ip(&format!("-n {name} addr add 10.9.0.{last}/24 dev l")));
            assert!(ip(&format!("-n {name} link set dev l up")));
        }
        link
    }
}

#[test]
fn a_link_has_its_rate_delay_and_queue_and_ends_with_its_device() {
    if !root() {
        return;
    }
    let place = place();
    let namespaces = Namespaces::new();
    let mut link = Link::start(&place, &namespaces.0);

    let [here, there] = [0, 1].map(|end| namespaces.socket(end));
    let mut buffer = [0; 2048];
    let began = Instant::now();
    here.send_to(b"ping", "10.9.0.2:9").unwrap();
    let (len, from) = there.recv_from(&mut buffer).unwrap();
    there.send_to(&buffer[..len], from).unwrap();
    here.recv(&mut buffer).unwrap();
    assert!(began.elapsed() >= Duration::from_millis(20), "both ways");

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
    let least = Duration::from_millis(10 + received);
    assert!(took >= least, "{received} packets in {took:?}");

    assert!(ip(&format!("-n {} link del dev l", namespaces.0[0])));
    let deadline = Instant::now() + PATIENCE;
    while link.0.try_wait().unwrap().is_none() {
        assert!(Instant::now() < deadline, "it runs on without its device");
        std::thread::sleep(Duration::from_millis(10));
    }
    let mut text = String::new();
    link.1.read_to_string(&mut text).unwrap();
    let reports: Vec<Value> = text
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

//! The program on this host's kernel. It takes root, BTF and MPTCP; where they are missing the
//! tests do nothing, unless `MANYWAY_REQUIRE_KERNEL` is set.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketType, ipproto, sockopt};

const PROGRAM: &str = env!("CARGO_BIN_EXE_manyway-kernel");
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

/// The kernel is one for all tests; `None` where it can't be had.
fn kernel() -> Option<MutexGuard<'static, ()>> {
    static ALONE: Mutex<()> = Mutex::new(());
    let there = rustix::process::geteuid().is_root()
        && Path::new("/sys/kernel/btf/vmlinux").exists()
        && Path::new("/proc/sys/net/mptcp/enabled").exists();
    assert!(
        there || std::env::var_os("MANYWAY_REQUIRE_KERNEL").is_none(),
        "these tests take root and a kernel with BTF and MPTCP"
    );
    there.then(|| ALONE.lock().unwrap_or_else(|broken| broken.into_inner()))
}

/// Runs the program to its end: what it said, on either stream, if it had that status.
fn run(arguments: &[&str], succeeds: bool) -> String {
    let Output {
        status,
        stdout,
        stderr,
    } = Command::new(PROGRAM).args(arguments).output().unwrap();
    let said = String::from_utf8([stdout, stderr].concat()).unwrap();
    assert_eq!(status.success(), succeeds, "{arguments:?}: {said}");
    said
}

fn available(name: &str) -> bool {
    let names = std::fs::read_to_string(AVAILABLE).unwrap();
    names.split_whitespace().any(|one| one == name)
}

/// What the kernel keeps of programs and maps that are manyway's.
fn kept() -> usize {
    use libbpf_rs::query::{MapInfoIter, ProgInfoIter};
    let maps = MapInfoIter::default().filter(|map| {
        let name = map.name.to_string_lossy();
        name.starts_with("manyway")
    });
    // Names of the programs in laws.bpf.c.
    let programs = ProgInfoIter::default().filter(|program| {
        let name = program.name.to_string_lossy();
        ["start", "undo", "event"].contains(&&*name) || name.ends_with("_grow")
    });
    maps.count() + programs.count()
}

/// The same, once what earlier tests have left to the kernel is gone.
fn settled() -> usize {
    let mut last = (kept(), Instant::now());
    while last.1.elapsed() < Duration::from_secs(1) {
        thread::sleep(Duration::from_millis(10));
        let now = kept();
        if now != last.0 {
            last = (now, Instant::now());
        }
    }
    last.0
}

/// The kernel removes what nobody refers to a moment later.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(
            begin.elapsed() < Duration::from_secs(20),
            "{what} within 20 s"
        );
        thread::sleep(Duration::from_millis(10));
    }
}

/// A socket whose connections have the congestion control. On an MPTCP socket an unknown name is
/// no error: what it has afterwards tells.
fn socket(mptcp: bool, control: &str) -> OwnedFd {
    let protocol = if mptcp { ipproto::MPTCP } else { ipproto::TCP };
    let socket =
        rustix::net::socket(AddressFamily::INET, SocketType::STREAM, Some(protocol)).unwrap();
    sockopt::set_tcp_congestion(&socket, control).unwrap();
    assert_eq!(sockopt::tcp_congestion(&socket).unwrap(), control);
    socket
}

/// Sends bytes over the loopback device, there and back.
fn exchange(mptcp: bool, control: &str, listener: &TcpListener, bytes: usize) {
    let address = listener.local_addr().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut stream = listener.accept().unwrap().0;
            let mut all = Vec::new();
            stream.read_to_end(&mut all).unwrap();
            stream.write_all(&all).unwrap();
        });
        let socket = socket(mptcp, control);
        rustix::net::connect(&socket, &address).unwrap();
        let mut stream = TcpStream::from(socket);
        let sent: Vec<u8> = (0..bytes).map(|n| (n % 251) as u8).collect();
        stream.write_all(&sent).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut back = Vec::new();
        stream.read_to_end(&mut back).unwrap();
        assert!(back == sent);
    });
}

fn listener(mptcp: bool, control: &str) -> TcpListener {
    let socket = socket(mptcp, control);
    rustix::net::bind(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
    rustix::net::listen(&socket, 16).unwrap();
    TcpListener::from(socket)
}

#[test]
fn every_law_loads_and_goes() {
    let Some(_alone) = kernel() else { return };
    let before = settled();
    for law in [
        "lia",
        "olia",
        "balia",
        "coupled",
        "semicoupled",
        "ewtcp:a=0.25",
    ] {
        let said = run(&["load", law, "--as", "mwtest"], true);
        assert!(
            said.starts_with(&format!("{law} is loaded as mwtest")),
            "{said}"
        );
        assert!(available("mwtest"));
        let name = law.split(':').next().unwrap();
        let list = run(&["list"], true);
        let line = list.lines().find(|line| line.starts_with("mwtest "));
        let words: Vec<_> = line.unwrap().split_whitespace().collect();
        assert_eq!(words, ["mwtest", name, "0"]);
        for mptcp in [false, true] {
            exchange(mptcp, "mwtest", &listener(mptcp, "mwtest"), 5_000_000);
        }
        run(&["unload", "mwtest"], true);
        assert!(!available("mwtest"));
        until("nothing is left", || kept() == before);
    }
}

#[test]
fn names_that_exist_or_that_are_not_there_are_said() {
    let Some(_alone) = kernel() else { return };
    let said = run(&["load", "lia", "--as", "reno"], false);
    assert!(
        said.contains("reno already, which manyway hasn't loaded"),
        "{said}"
    );
    run(&["load", "lia", "--as", "mwtest"], true);
    let said = run(&["load", "balia", "--as", "mwtest"], false);
    assert!(said.contains("`manyway kernel unload mwtest`"), "{said}");
    run(&["unload", "mwtest"], true);
    let said = run(&["unload", "mwtest"], false);
    assert!(
        said.contains("has loaded no congestion control called \"mwtest\""),
        "{said}"
    );
    let said = run(&["unload", "reno"], false);
    assert!(said.contains("the kernel has it from elsewhere"), "{said}");
    let said = run(&["load", "cubic"], false);
    assert!(
        said.contains("the kernel can't run cubic: it can run lia, "),
        "{said}"
    );
    let said = run(&["load", "lia", "--as", "sixteen-letters-"], false);
    assert!(said.contains("1 to 15 letters"), "{said}");
}

#[test]
fn sockets_keep_what_is_unloaded_until_they_close() {
    let Some(_alone) = kernel() else { return };
    let before = settled();
    run(&["load", "balia", "--as", "mwtest"], true);
    let held = socket(true, "mwtest");
    let said = run(&["unload", "mwtest"], true);
    assert!(said.contains("still use it"), "{said}");
    assert!(!available("mwtest") && kept() > before);
    drop(held);
    until("nothing is left", || kept() == before);
}

#[test]
fn a_load_that_is_killed_has_happened_or_has_not() {
    let Some(_alone) = kernel() else { return };
    let before = settled();
    let begin = Instant::now();
    run(&["load", "olia", "--as", "mwtest"], true);
    let whole = begin.elapsed();
    run(&["unload", "mwtest"], true);
    const TIMES: u32 = 40;
    let mut killed = 0;
    for step in 0..TIMES {
        let mut child = Command::new(PROGRAM)
            .args(["load", "olia", "--as", "mwtest"])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        thread::sleep(whole * step / TIMES);
        child.kill().unwrap();
        killed += u32::from(!child.wait().unwrap().success());
        if available("mwtest") {
            run(&["unload", "mwtest"], true);
        }
        until("nothing is left", || kept() == before);
    }
    assert!(killed > 0, "no load was killed");
}

/// A flow of a scenario at the live level, by the program that `MANYWAY` names.
#[test]
fn a_scenario_runs_a_law_that_is_loaded() {
    const SCENARIO: &str = r#"
        name = "kernel law"
        duration = "4 s"
        [links.a]
        rate = "8 Mbps"
        delay = "10 ms"
        [links.b]
        rate = "4 Mbps"
        delay = "20 ms"
        [paths.a]
        links = ["a"]
        [paths.b]
        links = ["b"]
        [flows.f]
        law = "kernel:mptcp:mwtest"
        paths = ["a", "b"]
        [measure]
        from = "2 s"
    "#;
    let (Some(_alone), Some(manyway)) = (kernel(), std::env::var_os("MANYWAY")) else {
        return;
    };
    let before = settled();
    run(&["load", "balia", "--as", "mwtest"], true);
    let file = std::env::temp_dir().join(format!("manyway-kernel-{}.toml", std::process::id()));
    std::fs::write(&file, SCENARIO).unwrap();
    let program = Command::new(manyway)
        .args(["run", "--level", "live", "--repeat", "1", "--json"])
        .arg(&file)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The listener has the law, too.
    let uses = || -> u32 {
        let list = run(&["list"], true);
        let line = list.lines().find(|line| line.starts_with("mwtest "));
        let uses = line.and_then(|line| line.split_whitespace().last());
        uses.and_then(|uses| uses.parse().ok()).unwrap_or(0)
    };
    until("subflows use it", || uses() > 2);
    let done = program.wait_with_output().unwrap();
    std::fs::remove_file(&file).unwrap();
    let said = String::from_utf8([done.stdout, done.stderr].concat()).unwrap();
    assert!(done.status.success(), "{said}");
    let goodput = said.split("\"goodput_bps\":{\"mean\":").nth(1);
    let goodput = goodput.and_then(|rest| rest.split(',').next()?.parse::<f64>().ok());
    // More than over the faster path alone.
    assert!(goodput.is_some_and(|bps| bps > 8e6), "{said}");
    run(&["unload", "mwtest"], true);
    until("nothing is left", || kept() == before);
}

#[test]
fn a_thousand_connections_leave_nothing() {
    let Some(_alone) = kernel() else { return };
    let before = settled();
    run(&["load", "olia", "--as", "mwtest"], true);
    let loaded = settled();
    let listener = listener(true, "mwtest");
    for _ in 0..1000 {
        exchange(true, "mwtest", &listener, 20_000);
    }
    drop(listener);
    until("no socket uses it", || {
        let list = run(&["list"], true);
        list.lines()
            .any(|line| line.split_whitespace().eq(["mwtest", "olia", "0"]))
    });
    assert_eq!(kept(), loaded);
    run(&["unload", "mwtest"], true);
    until("nothing is left", || kept() == before);
}

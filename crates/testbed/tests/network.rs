//! A whole live network with flows of the kernel's. Skipped without root.
#![cfg(all(feature = "live", target_os = "linux"))]

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use manyway_scenario::Scenario;
use manyway_testbed::live::{Means, Outcome, missing, run};
use manyway_units::Time;

/// Set in the namespaces where the network is made.
const INSIDE: &str = "TESTBED_TEST_INSIDE";

/// A path over two links, one of them shared with the second flow, and a path of its own.
const SCENARIO: &str = r#"
name = "network"
duration = "4 s"
[links]
a = { rate = "6 Mbps", delay = "5 ms" }
b = { rate = "4 Mbps", delay = "20 ms" }
shared = { rate = "4 Mbps", delay = "5 ms" }
[paths]
a = { links = ["a", "shared"], return_delay = "30 ms" }
b = { links = ["b"] }
shared = { links = ["shared"] }
[flows.main]
law = "kernel:mptcp:cubic"
paths = ["a", "b"]
[flows.other]
law = "kernel:tcp:reno"
paths = ["shared"]
start = "500 ms"
[flows.small]
law = "kernel:tcp:cubic"
paths = ["b"]
size = "50 kB"
[measure]
from = "1 s"
"#;

/// Runs this test once more in namespaces of its own; whether this is that run.
fn inside(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let missing = missing();
    if !missing.is_empty() {
        let reason = format!("skipped: {}\n", missing.join("; "));
        std::io::stderr().write_all(reason.as_bytes()).unwrap();
        return false;
    }
    std::fs::create_dir_all("/run/netns").unwrap();
    let status = Command::new("unshare")
        .args([
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
            "sh",
            "-c",
        ])
        .arg("mount -t tmpfs testbed /run/netns && exec \"$@\"")
        .arg("sh")
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(INSIDE, "1")
        .stdin(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success(), "{status}");
    false
}

fn outcome() -> Outcome {
    let scenario = Scenario::parse(SCENARIO, "network.toml").unwrap();
    let experiment = scenario.live_points().unwrap().remove(0).experiment;
    let means = Means {
        program: Path::new("/none"),
        scratch: Path::new("/none"),
    };
    run(&experiment, 1, &means, &AtomicBool::new(false), |_| {}).unwrap()
}

#[test]
fn flows_of_the_kernel_share_a_network() {
    if !inside("flows_of_the_kernel_share_a_network") {
        return;
    }
    let outcome = outcome();
    assert!(outcome.complete);
    let (from, to) = (Time::from_millis(1000), Time::from_millis(4000));
    let (before, after) = (outcome.at(from).unwrap(), outcome.at(to).unwrap());
    let seconds = after.reading.at.since(before.reading.at).as_secs_f64();
    let mbps = |bytes: u64| bytes as f64 * 8e-6 / seconds;
    let goodputs: Vec<f64> = (0..2)
        .map(|flow| mbps(after.received[flow] - before.received[flow]))
        .collect();
    let shown = format!("{goodputs:?} {after:?}");
    // No link carries more than its rate, whatever the machine's load; and all flows move. A
    // receiver may read at once what came before out of order, so there is room above.
    assert!(goodputs[0] > 0.5 && goodputs[0] < 8.0 * 1.2, "{shown}");
    assert!(goodputs[1] > 0.1 && goodputs[1] < 4.0 * 1.2, "{shown}");
    for (link, most) in [(0, 6.0), (1, 4.0), (2, 4.0)] {
        let carried = after.reading.links[link].carried - before.reading.links[link].carried;
        // A packet more at most than fits.
        assert!(
            mbps(carried) <= most + 1500.0 * 8e-6 / seconds,
            "{link}: {shown}"
        );
    }
    // Both subflows of MPTCP were there, with their delays: 5 + 5 + 30 ms, and 20 + 20.
    for (subflow, [there, back]) in [
        (0, [0.010, 0.030]),
        (1, [0.020, 0.020]),
        (2, [0.005, 0.005]),
    ] {
        let counts = after.reading.subflows[subflow];
        assert!(
            counts.sent > 10 && counts.payload > 10_000,
            "{subflow}: {shown}"
        );
        for ((sum, number), least) in counts.transit.into_iter().zip([there, back]) {
            assert!(sum / number as f64 >= least, "{subflow}: {shown}");
        }
    }
    // It is over, and took longer than its bytes take on the link.
    let took = outcome.took[2].expect("the small transfer is over");
    assert!(took > Duration::from_millis(100), "{took:?}");
    assert_eq!(after.received[2], 50_000);
    assert!(
        Path::new("/run/netns").read_dir().unwrap().next().is_none(),
        "namespaces are left"
    );
}

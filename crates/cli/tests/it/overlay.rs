//! `manyway run` of scenarios with an `[overlay]`, as their users run it.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use crate::common::{self, Finished, Running};
use tempfile::TempDir;

fn run(arguments: &[&str]) -> Finished {
    let scenarios = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let arguments = [&["run"], arguments].concat();
    Running(common::manyway(&scenarios, &arguments).spawn().unwrap()).finish()
}

/// Fig. 3, shorter.
const FIG3: [&str; 8] = [
    "overlay/fig3.toml",
    "--level=flow",
    "--repeat=2",
    "--set=overlay.intervals=1000",
    "--set=overlay.judged=500",
    "--set=sweep.\"overlay.sharing\"=[\"max-min\", \"proportional\"]",
    "--threads=2",
    "--seed=5",
];

#[test]
fn the_controller_beside_the_optimum() {
    insta::assert_snapshot!("control", run(&FIG3).ok().stderr);
}

#[test]
fn a_single_run_has_no_interval() {
    let once = ["--json", "--repeat=1"];
    let done = run(&[&FIG3[..2], &once, &FIG3[3..]].concat()).ok();
    let report: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
    let point = &report["points"][0];
    assert!(point["rate"]["mean"].is_f64(), "{point}");
    assert!(point["rate"]["ci95"].is_null(), "{point}");
    assert!(point["control"]["optimum"]["ci95"].is_null(), "{point}");
}

#[test]
fn reselection_until_everybody_is_satisfied() {
    let done = run(&[
        "overlay/fig7.toml",
        "--level=flow",
        "--repeat=3",
        "--set=overlay.sources=20",
        "--set=overlay.intervals=100",
        "--set=overlay.judged=50",
        "--set=overlay.reselect.iterations=20",
        "--set=overlay.choice=uniform",
        "--set=overlay.skew=1",
        "--set=sweep.\"overlay.ratio\"=[1.6, 2.2]",
    ]);
    insta::assert_snapshot!("reselection", done.ok().stderr);
}

/// The controller over TCP connections; the flow level has the same selections and optima.
#[test]
fn packets_and_flows_of_one_file() {
    let at = |level: &str| {
        let done = run(&[
            "overlay/packets.toml",
            level,
            "--json",
            "--repeat=2",
            "--set=overlay.sources=10",
            "--set=overlay.intervals=60",
            "--set=overlay.judged=30",
            "--set=overlay.skew=0.5",
            "--set=overlay.ratio=1",
            "--set=sweep.cases=[{ name = \"1.2 Mbps\" }]",
        ]);
        done.ok().json()
    };
    let (packet, flow) = (at("--level=packet"), at("--level=flow"));
    assert_eq!(
        (&packet["level"], &flow["level"]),
        (&"packet".into(), &"flow".into())
    );
    let (packet, flow) = (&packet["points"][0], &flow["points"][0]);
    assert_eq!(
        (packet["runs"].as_u64(), &packet["sharing"]),
        (Some(2), &serde_json::Value::Null)
    );
    assert_eq!(flow["sharing"], "proportional");
    assert_eq!(packet["control"]["optimum"], flow["control"]["optimum"]);
    for point in [packet, flow] {
        let below = point["control"]["below_optimum"]["max"].as_f64().unwrap();
        assert!((-0.01..0.07).contains(&below), "{point}");
    }
}

#[test]
fn results_go_into_a_folder_and_are_the_same_each_time() {
    let place = TempDir::new().unwrap();
    let write = |name: &str| {
        let out = place.path().join(name);
        let arguments = [&FIG3[..], &["--out", out.to_str().unwrap()]].concat();
        let told = run(&arguments).ok().stderr;
        assert!(
            told.contains("result.json, runs.csv, rates.csv and a plot"),
            "{told}"
        );
        let read = |file: &str| fs::read_to_string(out.join(file)).unwrap();
        ["result.json", "runs.csv", "rates.csv", "rates.svg"].map(read)
    };
    let files = write("one");
    assert_eq!(files[1].lines().count(), 1 + 4 * 2);
    // The first repetition of each point.
    assert_eq!(files[2].lines().count(), 1 + 4 * 1000);
    assert!(files[3].contains("</svg>"));
    assert_eq!(files, write("two"));
}

#[test]
fn what_cannot_be_run_is_said() {
    let cases: [&[&str]; 9] = [
        &["overlay/fig3.toml"],
        &["overlay/fig3.toml", "--level=fluid"],
        &["overlay/fig3.toml", "--level=flow,packet"],
        &["examples/wifi-5g.toml", "--level=flow"],
        &[
            "overlay/fig4a.toml",
            "--level=flow",
            "--set=overlay.paths=101",
        ],
        &[
            "overlay/fig4a.toml",
            "--level=flow",
            "--set=overlay.demand=0 Mbps",
        ],
        &[
            "overlay/fig4a.toml",
            "--level=flow",
            "--set=overlay.control.increment=2",
        ],
        &[
            "overlay/fig4a.toml",
            "--level=flow",
            "--set=overlay.control.shrink=0.5",
        ],
        &["overlay/fig4a.toml", "--level=flow", "--set=increment=0.5"],
    ];
    let mut told = String::new();
    for arguments in cases {
        let done = run(arguments);
        assert_eq!((done.code, done.stdout.as_str()), (2, ""), "{arguments:?}");
        writeln!(
            told,
            "$ manyway run {}\n{}",
            arguments.join(" "),
            done.stderr
        )
        .unwrap();
    }
    insta::assert_snapshot!("errors", told);
}

//! `manyway reproduce` as its users run it.

use std::fs;
use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use crate::common::{self, Finished, Running, eventually};

fn start(dir: &Path, arguments: &[&str]) -> Running {
    let arguments = [&["reproduce"], arguments].concat();
    Running(common::manyway(dir, &arguments).spawn().unwrap())
}

fn run(dir: &Path, arguments: &[&str]) -> Finished {
    start(dir, arguments).finish()
}

#[test]
fn what_cannot_be_done_is_said() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("file"), "").unwrap();
    let said = [
        &["olia"][..],
        &["mpath/table-1"],
        &["balia/table-3/x"],
        &["balia/figure-1", "--out", "file/report"],
        &["--quick", "--full"],
    ]
    .map(|arguments| {
        let finished = run(dir.path(), arguments);
        assert_eq!(finished.code, 2, "{finished:?}");
        format!(
            "$ manyway reproduce {}\n{}",
            arguments.join(" "),
            finished.stderr
        )
    });
    insta::assert_snapshot!(said.join("\n"));
    assert!(!dir.path().join("manyway-report").exists());
}

/// `criteria` is the quickest study.
#[test]
fn a_study_runs_once_and_the_report_is_the_same() {
    let dir = TempDir::new().unwrap();
    let asked = ["balia/table-2", "--quick", "--out"];
    let report = |out: &str| {
        let finished = run(dir.path(), &[&asked[..], &[out]].concat()).ok();
        let read = |name| fs::read_to_string(dir.path().join(out).join(name)).unwrap();
        (finished.stderr, read("report.html"), read("report.json"))
    };
    let (said, html, json) = report("one");
    assert!(!said.contains("kept"), "{said}");
    assert!(
        said.contains("1 holds in order") || said.contains("1 doesn't hold"),
        "{said}"
    );
    let (said, again_html, again_json) = report("one");
    assert!(said.starts_with("1 of 1 studies were kept\n"), "{said}");
    assert!(
        html == again_html && json == again_json,
        "from what was kept"
    );
    let (_, new_html, new_json) = report("two");
    assert!(html == new_html && json == new_json, "run again");

    let json: Value = serde_json::from_str(&json).unwrap();
    let claim = &json["papers"][0]["claims"][0];
    assert_eq!(claim["id"], "balia/table-2");
    assert_eq!(claim["command"], "manyway reproduce balia/table-2 --quick");
    assert_eq!(claim["gates"][2]["gate"], "balia/table-2-norm");
    assert_eq!(claim["gates"][2]["cases"][0]["bound"], 1.0);
    assert!(claim["gates"][2]["cause"].is_string());
    assert!(html.contains("<svg") && html.contains("prefers-color-scheme: dark"));
    // What another program has kept is nothing to this one.
    let kept = dir.path().join("one/studies/criteria-short.json");
    let other = fs::read_to_string(&kept).unwrap();
    let code: Value = serde_json::from_str(&other).unwrap();
    let code = code["code"].as_str().unwrap();
    fs::write(&kept, other.replace(code, "another")).unwrap();
    let (said, ..) = report("one");
    assert!(!said.contains("kept"), "{said}");
}

#[test]
fn an_illustration_needs_no_study() {
    let dir = TempDir::new().unwrap();
    let finished = run(dir.path(), &["mpath/figure-1"]).ok();
    assert!(
        finished.stderr.starts_with("1 illustration\n"),
        "{finished:?}"
    );
    assert!(dir.path().join("manyway-report/report.html").exists());
}

#[test]
fn a_full_report_comes_with_its_data() {
    let dir = TempDir::new().unwrap();
    let finished = run(dir.path(), &["mpath/figure-1", "--full"]).ok();
    let said = "manyway-report/manyway-results.tar has everything, with how to cite it\n";
    assert!(finished.stderr.ends_with(said), "{finished:?}");
    let archive = fs::read(dir.path().join("manyway-report/manyway-results.tar")).unwrap();
    let names = ["CITATION.cff", "claims/mpath.toml", "report.html"];
    for name in names.map(|name| format!("manyway-results/{name}")) {
        let mut parts = archive.windows(name.len());
        assert!(parts.any(|part| part == name.as_bytes()), "{name}");
    }
}

#[test]
fn what_is_finished_survives_an_interruption() {
    let dir = TempDir::new().unwrap();
    let running = start(dir.path(), &["mpath/figure-7", "--out", "out"]);
    eventually("the folder", || {
        dir.path().join("out/studies").exists().then_some(())
    });
    running.interrupt();
    let finished = running.finish();
    assert_eq!(finished.code, 1, "{finished:?}");
    let said = "manyway: stopped: 0 of 1 studies are kept; run the same command to continue";
    assert!(finished.stderr.contains(said), "{finished:?}");
    assert!(!dir.path().join("out/report.html").exists());
}

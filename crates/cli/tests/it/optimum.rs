//! `manyway optimum` as its users run it.

use std::path::Path;

use crate::common::{self, Finished, Running};

fn optimum(arguments: &[&str]) -> Finished {
    let scenarios = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let arguments = [&["optimum"], arguments].concat();
    Running(common::manyway(&scenarios, &arguments).spawn().unwrap()).finish()
}

#[test]
fn every_epoch_of_table_2_has_the_papers_optimum() {
    insta::assert_snapshot!(optimum(&["wvegas/table2.toml"]).ok().stderr);
}

#[test]
fn one_moment_shows_prices() {
    insta::assert_snapshot!(optimum(&["wvegas/fig2a.toml", "--at", "10 s"]).ok().stderr);
}

#[test]
fn json_is_one_object() {
    let run = optimum(&["wvegas/table2.toml", "--json"]).ok();
    assert_eq!(run.stdout.lines().count(), 1);
    let result = run.json();
    assert_eq!(result["epochs"].as_array().unwrap().len(), 4);
    assert!(result["gap"].as_f64().unwrap() < 1e-6);
    let two = &result["flows"][1];
    assert_eq!(
        (&two["name"], &two["subflows"][1]["path"]),
        (&"two".into(), &"bottom".into())
    );
    let rate = two["subflows"][1]["rate_bps"].as_f64().unwrap();
    assert!((rate - 4e6).abs() < 100.0, "{rate}");
    let top = &result["links"][0];
    assert_eq!(top["name"], "top");
    // A flow alone with 5 Mbps pays 1/5 per Mbps.
    assert!((top["price"].as_f64().unwrap() * 1e6 - 0.2).abs() < 1e-4);
    assert!((top["load_bps"].as_f64().unwrap() - 6e6).abs() < 1.0);
}

#[test]
fn members_with_the_same_share_a_row() {
    let folder = tempfile::TempDir::new().unwrap();
    let file = folder.path().join("crowd.toml");
    let text = r#"
name = "crowd"
duration = "60 s"
links.a = { rate = "90 Mbps", delay = "10 ms", queue = "100 packets" }
links.b = { rate = "45 Mbps", delay = "10 ms", queue = "100 packets" }
paths.a.links = ["a"]
paths.b.links = ["b"]
flows.two = { law = "balia", paths = ["a", "b"], count = 3000 }
flows.one = { law = "reno", paths = ["a"], count = 3000 }
flows.alone = { law = "reno", paths = ["b"] }
flows.late = { law = "reno", paths = ["a"], count = 4, start = "10 s", stagger = "10 s" }
"#;
    std::fs::write(&file, text).unwrap();
    let run = optimum(&[file.to_str().unwrap(), "--at", "35 s"]).ok();
    insta::assert_snapshot!(run.stderr);
    let run = optimum(&[file.to_str().unwrap(), "--at", "35 s", "--json"]).ok();
    let flows = run.json()["flows"].as_array().unwrap().len();
    assert_eq!(flows, 6_004);
}

#[test]
fn what_cannot_be_done_is_said() {
    let errors = [
        &["bmc/fig5-10.toml"][..],
        &["wvegas/fig2a.toml", "--at", "4000 s"],
        &["wvegas/fig2a.toml", "--utility", "alpha=0"],
        &["wvegas/fig2a.toml", "--set", "links.five.rate=0 bps"],
        &["missing.toml"],
    ];
    let told = errors.map(|arguments| {
        let run = optimum(arguments);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{run:?}");
        format!("$ manyway optimum {}\n{}", arguments.join(" "), run.stderr)
    });
    insta::assert_snapshot!(told.join("\n"));
}

#[test]
fn epochs_that_are_not_computed_belong_to_no_other() {
    let place = tempfile::TempDir::new().unwrap();
    let scenario = "name = \"changing\"\nduration = \"60 s\"\n\
                    [links.l]\nrate = \"10 Mbps\"\ndelay = \"10 ms\"\n\
                    timetable = [{ at = \"50 ms\", rate = \"2 Mbps\" }, \
                    { at = \"100 ms\", rate = \"10 Mbps\" }]\ntimetable_period = \"150 ms\"\n\
                    [paths.p]\nlinks = [\"l\"]\n[flows.f]\nlaw = \"reno\"\npaths = [\"p\"]\n";
    std::fs::write(place.path().join("changing.toml"), scenario).unwrap();
    let arguments = ["optimum", "changing.toml", "--json"];
    let run = Running(common::manyway(place.path(), &arguments).spawn().unwrap()).finish();
    let result = run.ok().json();
    let epochs = result["epochs"].as_array().unwrap();
    assert_eq!(epochs.len(), 200);
    let last = epochs.last().unwrap();
    let length = last["until_s"].as_f64().unwrap() - last["from_s"].as_f64().unwrap();
    assert!(length < 0.11, "{last}");
}

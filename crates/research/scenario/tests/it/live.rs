//! Files with flows of the kernel's, and others that run live.

use manyway_scenario::{KernelProtocol, Scenario};

fn file(flow: &str) -> String {
    format!(
        "name = \"live\"\nduration = \"60 s\"\n\
         [links]\na = {{ rate = \"50 Mbps\", delay = \"10 ms\" }}\n\
         [paths]\np1 = {{ links = [\"a\"] }}\np2 = {{ links = [\"a\"] }}\n\
         [flows.main]\n{flow}\n"
    )
}

fn live(flow: &str) -> Result<manyway_scenario::Experiment, String> {
    let scenario = Scenario::parse(&file(flow), "live.toml");
    let points = scenario.and_then(|scenario| scenario.live_points());
    let points = points.map_err(|error| error.to_string());
    points.map(|mut points| points.remove(0).experiment)
}

#[test]
fn laws_of_the_kernel_are_resolved_for_the_live_level() {
    let experiment = live("law = \"kernel:mptcp:balia\"\npaths = [\"p1\", \"p2\"]").unwrap();
    let flow = &experiment.flows[0];
    let kernel = flow.kernel.as_ref().unwrap();
    assert_eq!(kernel.protocol, KernelProtocol::Mptcp);
    assert_eq!(kernel.name, "balia");
    assert_eq!(flow.law_name(), "kernel:mptcp:balia");

    let ours = live("law = \"balia\"\npaths = [\"p1\", \"p2\"]").unwrap();
    assert_eq!(ours.flows[0].kernel, None);
    // As sessions have it.
    assert_eq!((ours.flows[0].ack.every, ours.flows[0].headers), (10, 66));
}

#[test]
fn the_other_levels_refuse_them() {
    let text = file("law = \"kernel:tcp:bbr\"\npaths = [\"p1\"]");
    let scenario = Scenario::parse(&text, "live.toml").unwrap();
    for points in [scenario.points(), scenario.session_points()] {
        let error = points.unwrap_err().to_string();
        assert_eq!(
            error,
            "live.toml:9:7: flows.main.law: only the live level runs kernel:tcp:bbr: choose \
             --level live, or another law"
        );
    }
}

#[test]
fn what_cant_run_live_is_an_error_that_names_the_key() {
    let wrong = [
        "law = \"kernel:tcp:bbr\"\npaths = [\"p1\", \"p2\"]",
        "law = \"kernel:sctp:bbr\"\npaths = [\"p1\"]",
        "law = \"kernel:tcp:bbr\"\npaths = [\"p1\"]\npacing = true",
        "law = \"lia\"\npaths = [\"p1\"]\nslow_start = \"standard\"",
        "law = \"lia\"\npaths = [{ path = \"p1\", start = \"5 s\" }]",
        "law = \"lia\"\npaths = [\"p1\"]\necn = true",
        "law = \"lia\"\npaths = [\"p1\"]\nwindow_floor = \"2 packets\"",
        "law = \"lia\"\npaths = [\"p1\", { path = \"p2\", relay = true }]",
        "law = \"mpath\"\npaths = [\"p1\", \"p2\"]",
        "law = \"lia\"\npaths = [\"p1\"]\nsize = \"1 MB\"\nfiles = 3",
        "law = \"kernel:tcp:bbr\"\npaths = [\"p1\"]\nsealing = \"checksum\"",
        "law = \"lia\"\npaths = [\"p1\"]\nsize = { exponential = \"1 MB\" }",
        "law = \"kernel:tcp:bbr\"\npaths = [\"p1\"]\nstagger = { exponential = \"1 s\" }",
        "law = \"lia\"\npaths = [\"p1\"]\nsize = \"1 MB\"\npause = \"1 s\"",
    ];
    let errors: Vec<String> = wrong.iter().map(|flow| live(flow).unwrap_err()).collect();
    insta::assert_snapshot!(errors.join("\n"));
}

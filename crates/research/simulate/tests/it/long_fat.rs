//! `auto` over two long fast links: random losses, and a burst of losses.

use manyway_simulate::packet::RunResult;

use crate::stack::{OF_SESSIONS, run_packets, run_sessions};

/// When the links lose everything for a tenth of a second.
const BURST: usize = 40;

/// 100 + 30 Mbps of 50 and 80 ms one way, `scale` times as fast, with this share of packets lost at
/// random, and `more` in each link.
fn network(scale: u32, loss: f64, more: &str) -> String {
    let link = |name: &str, mbps: u32, ms: u32| {
        format!(
            "[links.{name}]\nrate = \"{} Mbps\"\ndelay = \"{ms} ms\"\nloss = {loss:e}\n{more}\n\
             [paths.{name}]\nlinks = [\"{name}\"]\n",
            mbps * scale
        )
    };
    format!(
        "name = \"long-fat\"\nduration = \"60 s\"\n{}{}\
         [defaults]\nloss_detection = \"adaptive\"\n\
         [flows.f]\nlaw = \"auto\"\npaths = [\"a\", \"b\"]\n\
         [measure]\nfrom = \"10 s\"\nseries = [\"rate\"]\ninterval = \"100 ms\"\n",
        link("a", 100, 50),
        link("b", 30, 80)
    )
}

/// The flow's rate over all paths from one second to another.
fn rate(run: &RunResult, from: f64, until: f64) -> f64 {
    let of = |values: &[f64]| {
        let place = |at: f64| (at * 10.0).round() as usize;
        let span = &values[place(from)..place(until)];
        span.iter().sum::<f64>() / span.len() as f64
    };
    run.series.iter().map(|series| of(&series.values)).sum()
}

#[test]
fn sessions_fill_it_in_spite_of_random_losses() {
    for seed in 1..=3 {
        let run = run_sessions(&network(1, 5e-4, ""), seed);
        let carried = run.flows[0].goodput_bps / 1e6 / OF_SESSIONS;
        assert!(carried >= 0.9 * 130.0, "seed {seed}: {carried} Mbps");
    }
}

/// An ACK that answers a probe timeout comes back on the other path, too, and sooner. If it counted
/// for the path's round-trip time, the path would seem to have a full queue from then on, and the
/// sessions would have 0.8 of what they had.
#[test]
fn it_is_back_soon_after_a_burst_of_losses() {
    let burst = format!(
        "timetable = [{{ at = \"{BURST} s\", up = false }}, {{ at = \"{BURST}.1 s\", up = true }}]"
    );
    for (level, run, scale, loss) in [
        (
            "packet",
            run_packets as fn(&str, u64) -> RunResult,
            10,
            5e-6,
        ),
        ("stack", run_sessions, 1, 5e-4),
    ] {
        for seed in 1..=2 {
            let run = run(&network(scale, loss, &burst), seed);
            let burst = BURST as f64;
            let before = rate(&run, burst - 10.0, burst);
            let part = rate(&run, burst + 5.0, burst + 15.0) / before;
            assert!(
                part >= 0.9,
                "{level}, seed {seed}: {part} of {before} bits/s"
            );
        }
    }
}

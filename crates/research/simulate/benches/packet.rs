//! The speed of the packet level: packets forwarded by the bottlenecks per second of one thread,
//! beside a bare mover.
//!
//! The mover pushes packets through the same links by the same events, with fixed windows and
//! nothing else: no congestion control, no loss, no measurement. It is what this machine can do at
//! best, so the ratio says what the senders and the laws cost, on any machine.
//!
//! In "S1, ACKs as packets", acknowledgements take a link of their own; elsewhere they arrive after
//! a constant delay, which other simulators don't offer, so only this scene is like theirs. The
//! mover has no such scene.
//!
//! Beside that, what a packet costs in a connection of 200 paths and in one of two; and with `--
//! many`, only then since it takes minutes, among 10,000 links or flows beside one among few.
//!
//! All rates are by processor time. The scenes take turns, and the median of the rounds counts: no
//! round is left out, and none is repeated.
//!
//! `cargo bench -p manyway-simulate --bench packet` prints a table and fails if a ratio is below
//! its bound; with `-- --guard`, if it is below half of it, for machines that do other things at
//! the same time. Between two builds, medians of S1 fell to 0.6 of what they are alone.
#![allow(clippy::print_stdout)]

#[path = "packet/mover.rs"]
mod mover;
#[path = "packet/scenes.rs"]
mod scenes;

use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use manyway_report::{Column, Table};
use manyway_simulate::packet::Simulation;
use nix::time::{ClockId, clock_gettime};

use mover::Mover;
use scenes::Scene;

/// An odd number, so that one of them is the median.
const ROUNDS: u64 = 7;

fn main() -> ExitCode {
    // `cargo test --benches` only wants to know that it runs.
    let rounds = if std::env::args().any(|arg| arg == "--bench") {
        ROUNDS
    } else {
        1
    };
    let guard = std::env::args().any(|arg| arg == "--guard");
    let slack = if guard { 0.5 } else { 1.0 };
    let only = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    let chosen = |name: &str| {
        only.as_ref()
            .is_none_or(|only| name.eq_ignore_ascii_case(only))
    };
    let mut failed = false;
    let mut scenes = scenes::all();
    scenes.retain(|scene| chosen(scene.name));
    let speeds = measure(&scenes, rounds);
    let mut table = Table::new([
        Column::left("scene"),
        Column::right("packets"),
        Column::right("events a packet"),
        Column::right("M/s"),
        Column::right("ns/packet"),
        Column::right("mover M/s"),
        Column::right("ratio"),
        Column::right("at least"),
    ]);
    for (scene, speed) in scenes.iter().zip(&speeds) {
        let ratio = speed.ratio;
        failed |= ratio.is_some_and(|ratio| ratio < slack * scene.bound);
        let or_none = |text: Option<String>| text.unwrap_or_default();
        table.row([
            scene.name.to_owned(),
            speed.packets.to_string(),
            format!("{:.2}", speed.events as f64 / speed.packets as f64),
            format!("{:.2}", speed.ours / 1e6),
            format!("{:.0}", 1e9 / speed.ours),
            or_none(speed.bare.map(|bare| format!("{:.1}", bare / 1e6))),
            or_none(ratio.map(|ratio| format!("{ratio:.3}"))),
            or_none(ratio.map(|_| format!("{:.2}", scene.bound))),
        ]);
    }
    if !scenes.is_empty() {
        println!("{table}");
    }
    let rate = |name: &str| {
        let at = scenes.iter().position(|scene| scene.name == name)?;
        Some(speeds[at].ours)
    };
    if let (Some(few), Some(many)) = (rate("S2"), rate("S2-1000")) {
        println!(
            "a packet among 2000 flows costs {:.2} times one among 20",
            few / many
        );
    }
    if only.as_deref() == Some("many") {
        failed |= !many(rounds);
    }
    if chosen("paths") {
        failed |= !paths(rounds, if guard { 0.75 } else { 1.0 });
    }
    if failed && rounds > 1 {
        println!("below its bound");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// A packet among 10,000 links should cost at most this many times one among ten, and one among
/// 10,000 flows at most so many times one among a hundred: 250 and 130 ns where few take 109. It
/// isn't so: it was 11 and 4 times on a virtual machine, 683 and 266 ns where few took 60 and 66.
/// By a profile, most of that is loads from main memory. The version of 21 November 2026 beside it
/// took longer: this one takes 0.69 to 0.75 and 0.80 to 0.85 of its time, where 0.41 and 0.59 are
/// the aim.
const MOST_AMONG: [f64; 2] = [2.3, 1.2];

/// Whether it is so.
fn many(rounds: u64) -> bool {
    let scenes = scenes::many();
    let speeds = measure(&scenes, rounds.min(3));
    let mut held = true;
    for (n, most) in MOST_AMONG.into_iter().enumerate() {
        let [few, many] = [2 * n, 2 * n + 1];
        let ratio = speeds[few].ours / speeds[many].ours;
        println!(
            "{}: {:.0} ns/packet; {}: {:.0}, {ratio:.2} times that, at most {most:.1}",
            scenes[few].name,
            1e9 / speeds[few].ours,
            scenes[many].name,
            1e9 / speeds[many].ours,
        );
        held &= ratio <= most;
    }
    held
}

/// A packet of a connection of 200 paths should cost at most twice one of two, which is about what
/// it does; this much is an error.
const MOST: f64 = 2.5;

/// Whether it is so.
fn paths(rounds: u64, slack: f64) -> bool {
    let scenes = scenes::paths();
    let speeds = measure(&scenes, rounds);
    for (speed, scene) in speeds.iter().zip(&scenes) {
        println!("mPath, {}: {:.0} ns/packet", scene.name, 1e9 / speed.ours);
    }
    let ratio = speeds[0].ours / speeds[1].ours;
    println!("a packet among 200 paths costs {ratio:.2} times one among two, at most {MOST:.1}");
    ratio * slack <= MOST
}

/// The medians of several runs.
struct Speed {
    packets: u64,
    events: u64,
    /// Packets per second.
    ours: f64,
    /// The mover's.
    bare: Option<f64>,
    /// Of the rounds' own ratios: what slows the machine down slows both.
    ratio: Option<f64>,
}

/// All scenes, in turns. Each round has another seed; the counts are the last one's.
fn measure(scenes: &[Scene], rounds: u64) -> Vec<Speed> {
    let mut runs: Vec<Vec<Run>> = scenes.iter().map(|_| Vec::new()).collect();
    let mut moved: Vec<Vec<f64>> = scenes.iter().map(|_| Vec::new()).collect();
    for round in 0..rounds {
        for ((scene, runs), moved) in scenes.iter().zip(&mut runs).zip(&mut moved) {
            runs.push(simulate(scene, round));
            moved.extend(mover(scene));
        }
    }
    let speed = |(runs, moved): (Vec<Run>, Vec<f64>)| Speed {
        packets: runs.last().map_or(0, |run| run.packets),
        events: runs.last().map_or(0, |run| run.events),
        ours: median(runs.iter().map(|run| run.rate).collect()).expect("it ran"),
        ratio: median(
            runs.iter()
                .zip(&moved)
                .map(|(run, bare)| run.rate / bare)
                .collect(),
        ),
        bare: median(moved),
    };
    runs.into_iter().zip(moved).map(speed).collect()
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

struct Run {
    packets: u64,
    events: u64,
    /// Packets per second.
    rate: f64,
}

fn simulate(scene: &Scene, seed: u64) -> Run {
    let mut simulation = Simulation::new(&scene.experiment, seed).expect("the scene is sound");
    let from = processor_time();
    simulation.run(&AtomicBool::new(false));
    let took = processor_time() - from;
    let packets = scene
        .forward()
        .map(|link| simulation.links()[link].stats().delivered);
    let packets = packets.sum();
    Run {
        packets,
        events: simulation.events(),
        rate: packets as f64 / took.as_secs_f64(),
    }
}

fn mover(scene: &Scene) -> Option<f64> {
    let mut mover = Mover::new(scene)?;
    let from = processor_time();
    let packets = mover.run();
    Some(packets as f64 / (processor_time() - from).as_secs_f64())
}

fn processor_time() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)
        .expect("there is a clock")
        .into()
}

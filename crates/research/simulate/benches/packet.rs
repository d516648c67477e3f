//! The speed of the packet level: packets forwarded by the bottlenecks per second of one thread,
//! beside a bare mover.
//!
//! The mover pushes packets through the same links by the same events, with fixed windows and
//! nothing else: no congestion control, no loss, no measurement. It is what this machine can do at
//! best, so the ratio says what the senders and the laws cost, on any machine.
//!
//! Beside that, what a packet costs in a connection of 200 paths and in one of two; the mover has
//! no part in it.
//!
//! `cargo bench -p manyway-simulate --bench packet` prints a table and fails if a ratio is below
//! its bound; with `-- --guard`, if it is below three quarters of it, for machines that do other
//! things at the same time.
#![allow(clippy::print_stdout)]

#[path = "packet/mover.rs"]
mod mover;
#[path = "packet/scenes.rs"]
mod scenes;

use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use manyway_report::{Column, Table};
use manyway_simulate::packet::Simulation;

use mover::Mover;
use scenes::Scene;

/// Each side runs so often at least, in turns; the fastest run counts, which other processes
/// disturb least.
const ROUNDS: usize = 5;
/// A scene of half a second could fall into somebody else's: while it is below its bound it is run
/// for so long. What has become slow stays so.
const PATIENCE: Duration = Duration::from_secs(30);

fn main() -> ExitCode {
    // `cargo test --benches` only wants to know that it runs.
    let rounds = if std::env::args().any(|arg| arg == "--bench") {
        ROUNDS
    } else {
        1
    };
    let mut table = Table::new([
        Column::left("scene"),
        Column::right("packets"),
        Column::right("M/s"),
        Column::right("ns/packet"),
        Column::right("mover M/s"),
        Column::right("ratio"),
        Column::right("at least"),
    ]);
    let guard = std::env::args().any(|arg| arg == "--guard");
    let slack = if guard { 0.75 } else { 1.0 };
    let mut failed = false;
    let mut costs = Vec::new();
    let only = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    let chosen = |scene: &Scene| {
        only.as_ref()
            .is_none_or(|name| scene.name.eq_ignore_ascii_case(name))
    };
    for scene in scenes::all().into_iter().filter(chosen) {
        let speed = Speed::of(&scene, rounds, slack);
        let ratio = speed.ours / speed.bare;
        failed |= ratio < slack * scene.bound;
        costs.push(1e9 / speed.ours);
        table.row([
            scene.name.to_owned(),
            speed.packets.to_string(),
            format!("{:.2}", speed.ours / 1e6),
            format!("{:.0}", 1e9 / speed.ours),
            format!("{:.1}", speed.bare / 1e6),
            format!("{ratio:.3}"),
            format!("{:.2}", scene.bound),
        ]);
    }
    println!("{table}");
    if let [_, few, _, many] = costs.as_slice() {
        println!(
            "a packet among 2000 flows costs {:.2} times one among 20",
            many / few
        );
    }
    failed |= !paths(rounds, only.as_deref(), slack);
    if failed && rounds > 1 {
        println!("below its bound");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// A packet of a connection of 200 paths should cost at most twice one of two, which is about what
/// it does; this much is an error.
const MOST: f64 = 2.5;

/// Whether it is so, if `only` this or everything is to be run.
fn paths(rounds: usize, only: Option<&str>, slack: f64) -> bool {
    if only.is_some_and(|name| !name.eq_ignore_ascii_case("paths")) {
        return true;
    }
    let mut rates = [0.0_f64; 2];
    let scenes = scenes::paths();
    again(rounds, |round| {
        for (rate, scene) in rates.iter_mut().zip(&scenes) {
            *rate = rate.max(simulate(scene, round).rate);
        }
        rates[0] / rates[1] * slack <= MOST
    });
    let ratio = rates[0] / rates[1];
    for (rate, scene) in rates.iter().zip(&scenes) {
        println!("mPath, {}: {:.0} ns/packet", scene.name, 1e9 / rate);
    }
    println!("a packet among 200 paths costs {ratio:.2} times one among two, at most {MOST:.1}");
    ratio * slack <= MOST
}

/// The fastest of several runs.
#[derive(Default)]
struct Speed {
    packets: u64,
    /// Packets per second.
    ours: f64,
    /// The mover's.
    bare: f64,
}

impl Speed {
    fn of(scene: &Scene, rounds: usize, slack: f64) -> Self {
        let mut speed = Speed::default();
        again(rounds, |round| {
            let run = simulate(scene, round);
            speed.packets = run.packets;
            speed.ours = speed.ours.max(run.rate);
            speed.bare = speed.bare.max(mover(scene).rate);
            speed.ours >= slack * scene.bound * speed.bare
        });
        speed
    }
}

/// Measures in so many rounds, and in more while the result isn't good enough.
fn again(rounds: usize, mut measure: impl FnMut(u64) -> bool) {
    let started = Instant::now();
    for round in 0.. {
        let good = measure(round);
        let patient = rounds > 1 && started.elapsed() < PATIENCE;
        if round + 1 >= rounds as u64 && (good || !patient) {
            return;
        }
    }
}

struct Run {
    packets: u64,
    /// Packets per second.
    rate: f64,
}

fn simulate(scene: &Scene, seed: u64) -> Run {
    let mut simulation = Simulation::new(&scene.experiment, seed).expect("the scene is sound");
    let started = Instant::now();
    simulation.run(&AtomicBool::new(false));
    let seconds = started.elapsed().as_secs_f64();
    let packets = simulation
        .links()
        .iter()
        .map(|link| link.stats().delivered)
        .sum();
    Run {
        packets,
        rate: packets as f64 / seconds,
    }
}

fn mover(scene: &Scene) -> Run {
    let mut mover = Mover::new(scene);
    let started = Instant::now();
    let packets = mover.run();
    Run {
        packets,
        rate: packets as f64 / started.elapsed().as_secs_f64(),
    }
}

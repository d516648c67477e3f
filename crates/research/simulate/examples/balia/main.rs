//! Runs the experiments of the Balia paper (`scenarios/balia`) and writes tables with the paper's
//! numbers beside ours, two figures, and the results as JSON.
//!
//! `cargo run --release -p manyway-simulate --example balia -- [--full] [--out DIR]`
//!
//! Without `--full` it is a short version with fewer runs. The figures go to `images` beside `DIR`.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod figures;
mod markdown;
mod tables;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use serde::Serialize;
use tables::gates::{self, Gate};
use tables::{Aggregation, Friendliness, Oscillation, Responsiveness, Variant};

struct Options {
    full: bool,
    out: Option<PathBuf>,
}

/// All that was measured. The first variant of each is the scenario as its file has it, which the
/// gates are about.
#[derive(Serialize)]
struct Results {
    gates: Vec<Gate>,
    friendliness: Vec<Of<Friendliness>>,
    aggregation: Vec<Of<Aggregation>>,
    responsiveness: Vec<Of<Responsiveness>>,
    oscillation: Vec<Of<Oscillation>>,
}

/// A variant's rows, one per law.
#[derive(Serialize)]
struct Of<R> {
    variant: Variant,
    rows: Vec<R>,
}

fn main() -> ExitCode {
    let options = match parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("{error}\nusage: balia [--full] [--out DIR]");
            return ExitCode::from(2);
        }
    };
    match show(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("some gates don't hold");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn parse(mut args: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options {
        full: false,
        out: None,
    };
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--full" => options.full = true,
            "--out" => options.out = Some(args.next().ok_or("--out needs a directory")?.into()),
            other => return Err(format!("unknown argument {other:?}")),
        }
    }
    Ok(options)
}

/// True if all gates hold.
fn show(options: &Options) -> Result<bool, String> {
    let results = match options.full {
        true => measure(20, 8)?,
        false => measure(4, 2)?,
    };
    let page = markdown::page(&results);
    println!("{page}");
    if let Some(dir) = &options.out {
        write(dir, &page, &results)
            .map_err(|error| format!("can't write the results to {}: {error}", dir.display()))?;
    }
    Ok(results.gates.iter().all(|gate| gate.holds))
}

/// With so many runs per law of each file, and so many under other conditions.
fn measure(repeat: u32, otherwise: u32) -> Result<Results, String> {
    let new = |name: &str, set: &str| {
        let variant = Variant::plain(otherwise);
        let name = name.to_owned();
        Variant { name, ..variant }.and(set)
    };
    let red = "links.*.queue={ red = { limit = \"50 packets\", min = \"12 packets\", max = \"36 packets\", weight = \"auto\" } }";
    let friendliness = each(
        tables::friendliness,
        [
            Variant::plain(repeat),
            new("no jitter", "jitter=0 s"),
            new("jitter of at most 0.5 ms", "jitter=0.5 ms"),
            new("jitter of at most 5 ms", "jitter=5 ms"),
            new("window floor 1", "flows.multipath.window_floor=1 packets"),
            new(
                "window floor 1.5",
                "flows.multipath.window_floor=1.5 packets",
            ),
            new("window floor 2", "flows.multipath.window_floor=2 packets"),
            new("RED, 12 to 36 of 50 packets", red),
            new("windows grow in recovery, too", "recovery=grow"),
            new("delayed ACKs as in Table V", "ack_every=2 packets")
                .and("ack_delay=10 ms")
                .and("growth=acks"),
        ],
    )?;
    let aggregation = each(
        tables::aggregation,
        [
            Variant::plain(repeat),
            new("queues of 20 packets", "links.*.queue=20 packets"),
            new("delayed ACKs as in Table V", "ack_every=2 packets")
                .and("ack_delay=10 ms")
                .and("growth=acks"),
        ],
    )?;
    let floor = "flows.multipath.window_floor";
    let responsiveness = each(
        tables::responsiveness,
        [
            Variant::plain(repeat),
            new("ACKs held for at most 1 ms", "ack_delay=1 ms"),
            new("at most 20 ms", "ack_delay=20 ms").and("duration=600 s"),
            new("at most 40 ms", "ack_delay=40 ms").and("duration=900 s"),
            new("at most 40 ms, window floor 2", "ack_delay=40 ms")
                .and(&format!("{floor}=2 packets")),
            new("window floor 1", &format!("{floor}=1 packets")),
            new("an ACK per packet", "ack_every=1 packets"),
            new("the five start within 5 s", "flows.single.start_spread=5 s"),
            new("windows grow in recovery, too", "recovery=grow"),
        ],
    )?;
    let oscillation = each(tables::oscillation, [Variant::plain(repeat)])?;
    Ok(Results {
        gates: [
            gates::friendliness(&friendliness[0].rows),
            gates::aggregation(&aggregation[0].rows),
            gates::responsiveness(&responsiveness[0].rows),
            gates::oscillation(&oscillation[0].rows),
        ]
        .concat(),
        friendliness,
        aggregation,
        responsiveness,
        oscillation,
    })
}

fn each<R, const N: usize>(
    table: impl Fn(&Variant) -> Result<Vec<R>, String>,
    variants: [Variant; N],
) -> Result<Vec<Of<R>>, String> {
    let rows = variants.into_iter().map(|variant| {
        let began = Instant::now();
        let rows = table(&variant)?;
        let what = std::any::type_name::<R>();
        let what = what.rsplit("::").next().unwrap_or(what);
        eprintln!(
            "{what}, {}: {:.1} s",
            variant.name,
            began.elapsed().as_secs_f64()
        );
        Ok(Of { variant, rows })
    });
    rows.collect()
}

fn write(dir: &Path, page: &str, results: &Results) -> Result<(), String> {
    let told = |error: std::io::Error| error.to_string();
    let images = dir.join("../images");
    fs::create_dir_all(dir).map_err(told)?;
    fs::create_dir_all(&images).map_err(told)?;
    fs::write(dir.join("balia.md"), page).map_err(told)?;
    let json = serde_json::to_string_pretty(results).map_err(|error| error.to_string())?;
    fs::write(dir.join("balia.json"), json + "\n").map_err(told)?;
    for (name, svg) in [
        ("balia-fig3.svg", figures::oscillation()?),
        ("balia-fig4.svg", figures::trajectories()?),
    ] {
        fs::write(images.join(name), svg).map_err(told)?;
    }
    Ok(())
}

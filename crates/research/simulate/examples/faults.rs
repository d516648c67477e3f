//! Runs transfers between production sessions over networks that break, by plans drawn from seeds:
//!
//! ```sh
//! cargo run --release -p manyway-simulate --features stack --example faults -- --count 10000
//! ```
//!
//! A failure is reduced to the faults that it needs, and printed as the command that repeats it.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;

use manyway_simulate::stack::FaultPlan;
use rayon::prelude::*;

const USAGE: &str = "usage: faults [--seed FIRST] [--count N] [--only FAULT,FAULT…]";

struct Args {
    seed: u64,
    count: u64,
    only: Option<Vec<usize>>,
}

fn args() -> Option<Args> {
    let mut args = Args {
        seed: 0,
        count: 1,
        only: None,
    };
    let mut given = std::env::args().skip(1);
    while let Some(name) = given.next() {
        let value = given.next()?;
        match name.as_str() {
            "--seed" => args.seed = value.parse().ok()?,
            "--count" => args.count = value.parse().ok()?,
            "--only" => {
                let indices = value.split(',').filter(|it| !it.is_empty());
                args.only = Some(indices.map(|it| it.parse().ok()).collect::<Option<_>>()?);
            }
            _ => return None,
        }
    }
    Some(args)
}

fn main() -> ExitCode {
    let Some(args) = args() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let plan = |seed| match &args.only {
        Some(indices) => FaultPlan::new(seed).only(indices),
        None => FaultPlan::new(seed),
    };
    let seeds = (args.seed..args.seed.saturating_add(args.count)).into_par_iter();
    let failed: Vec<_> = seeds
        .filter_map(|seed| plan(seed).run().err().map(|error| (seed, error)))
        .collect();
    for (seed, error) in &failed {
        println!("seed {seed}: {error}");
    }
    if let Some((seed, _)) = failed.first() {
        let whole = plan(*seed);
        let kept = whole.minimised(|less| less.run().is_err());
        let least = whole.only(&kept);
        println!("\nThe first one, reduced: {:?}", least.paths);
        println!("upload {}, download {}", least.upload, least.download);
        println!("drift {:?} ppm", least.drift);
        for fault in &least.faults {
            println!("{fault}");
        }
        if let Err(error) = least.run() {
            println!("{error}");
        }
        let indices: Vec<_> = kept.iter().map(usize::to_string).collect();
        println!(
            "\ncargo run --release -p manyway-simulate --features stack --example faults -- \
             --seed {seed} --only {:?}",
            indices.join(",")
        );
    }
    println!("{} of {} plans failed", failed.len(), args.count);
    if failed.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

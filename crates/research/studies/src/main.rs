//! Runs the experiments of the papers: `cargo run --release -p manyway-studies -- --help`.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use clap::{Parser, Subcommand};
use manyway_studies::{
    Extent, Failure, Gate, Outcome, Reference, STUDIES, Size, Study, find, pair_scenario,
    rewrite_command, write,
};

/// Runs the experiments of the papers and checks what came out.
///
/// Each study prints a page of Markdown. A study fails if a gate misses its limits by more than
/// the bound that claims/*.toml records for it, if a recorded bound isn't needed any more, or if
/// its headline values aren't those of its reference file.
#[derive(Parser)]
#[command(name = "manyway-studies")]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
struct Args {
    /// Studies to run, or `all`
    #[arg(value_name = "STUDY", required = true, value_parser = names())]
    studies: Vec<String>,

    /// Run all points and repetitions, as on the pages in docs/results [default: a sample]
    #[arg(long)]
    full: bool,

    /// Write the page, its plots, and all results as JSON to this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Print only the gates, not the whole page
    #[arg(long)]
    gates: bool,

    /// Add N to every seed; headline values and recorded bounds aren't compared then
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    seed: u32,

    /// Make the headline values of this run the reference
    #[arg(long, conflicts_with = "seed")]
    write_reference: bool,

    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// List the studies
    List,
    /// Print a pair of the study `planetlab` as a scenario for `manyway run`
    PlanetlabPair {
        /// Number of the network, from 1 on
        network: u64,
        /// Number of the pair, from 0 on
        pair: usize,
        /// The run of TCP instead of mPath's
        #[arg(long)]
        tcp: bool,
    },
}

fn names() -> PossibleValuesParser {
    let names = STUDIES.iter().map(|study| study.name());
    PossibleValuesParser::new(names.chain(["all"]))
}

fn main() -> ExitCode {
    let args = Args::parse();
    let lines = tracing_subscriber::fmt().with_writer(std::io::stderr);
    let lines = lines.with_ansi(false).with_target(false).with_level(false);
    lines.without_time().init();
    let done = match &args.command {
        Some(Command::List) => {
            for study in STUDIES {
                println!("{:<18} {}", study.name(), study.reproduces());
            }
            Ok(true)
        }
        Some(Command::PlanetlabPair { network, pair, tcp }) => {
            match pair_scenario(*network, *pair, *tcp) {
                Some(text) => {
                    println!("{text}");
                    Ok(true)
                }
                None => Err("there is no such pair".into()),
            }
        }
        None => run_all(&args),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

/// Runs the studies that were asked for; true if all of them passed.
fn run_all(args: &Args) -> Result<bool, Failure> {
    let all = args.studies.iter().any(|name| name == "all");
    let chosen: Vec<&dyn Study> = match all {
        true => STUDIES.to_vec(),
        false => args.studies.iter().filter_map(|name| find(name)).collect(),
    };
    let mut passed = true;
    for study in chosen {
        passed &= run(study, args)?;
    }
    Ok(passed)
}

fn run(study: &dyn Study, args: &Args) -> Result<bool, Failure> {
    let extent = Extent {
        size: match args.full {
            true => Size::Full,
            false => Size::Short,
        },
        seed: args.seed.into(),
    };
    let outcome = study.run(extent)?;
    match args.gates {
        true => println!("{}:\n\n{}", study.name(), Gate::markdown(&outcome.gates)),
        false => println!("{}", outcome.page),
    }
    if let Some(dir) = &args.out {
        write(dir, study, extent, &outcome)
            .map_err(|error| format!("can't write to {}: {error}", dir.display()))?;
    }
    let faults = outcome.faults(study.name(), extent);
    for fault in &faults {
        eprintln!("{}: {fault}", study.name());
    }
    let expected = check(study, extent, args.write_reference, &outcome)?;
    Ok(faults.is_empty() && expected)
}

/// Whether the headline values are those of the reference, which may be these from now on.
fn check(
    study: &dyn Study,
    extent: Extent,
    rewrite: bool,
    outcome: &Outcome,
) -> Result<bool, Failure> {
    if extent.seed != 0 {
        return Ok(true);
    }
    let mut reference = Reference::load(study)?;
    if rewrite {
        reference.expect(extent.size, &outcome.headline);
        reference.save(study)?;
        return Ok(true);
    }
    let mismatches = reference.compare(extent.size, &outcome.headline);
    if mismatches.is_empty() {
        return Ok(true);
    }
    eprintln!(
        "{}: other headline values than in its reference:",
        study.name()
    );
    for mismatch in &mismatches {
        eprintln!("  {mismatch}");
    }
    let command = rewrite_command(study, extent.size);
    eprintln!("If this is what they should be now: `{command}`");
    Ok(false)
}

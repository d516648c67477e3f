//! mPath on a synthetic PlanetLab: Fig. 18 to 23 of the mPath paper (sections 4.3 to 4.5) on
//! generated networks.
//!
//! `cargo run --release -p manyway-simulate --example planetlab -- [--full] [--out DIR]`
//!
//! Without `--full` it is a short version with fewer pairs and shorter runs. The figures go to
//! `images` beside `DIR`. `--dump NETWORK.PAIR` prints that pair's run as a scenario for `manyway
//! run`; with `--tcp` the run of TCP.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod assumptions;
mod experiments;
mod geography;
mod network;
#[path = "../papers/mod.rs"]
#[allow(dead_code, reason = "shared with other examples")]
mod papers;
mod report;
mod runs;
mod scenario;
mod statistics;
#[cfg(test)]
mod tests;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use assumptions::{Assumptions, Background};
use experiments::{Size, alone, listed, networks, together};
use network::Network;
use report::{Results, Variant};
use scenario::{Law, Run};

struct Options {
    full: bool,
    out: Option<PathBuf>,
    /// Network and pair to print.
    dump: Option<(u64, usize)>,
    tcp: bool,
}

fn main() -> ExitCode {
    let options = match parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(error) => {
            eprintln!(
                "{error}\nusage: planetlab [--full] [--out DIR] | --dump NETWORK.PAIR [--tcp]"
            );
            return ExitCode::from(2);
        }
    };
    let done = match options.dump {
        Some(which) => dump(which, options.tcp),
        None => show(&options),
    };
    match done {
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
        dump: None,
        tcp: false,
    };
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--full" => options.full = true,
            "--tcp" => options.tcp = true,
            "--out" => {
                options.out = Some(PathBuf::from(args.next().ok_or("--out needs a directory")?))
            }
            "--dump" => {
                let which = args.next().ok_or("--dump needs NETWORK.PAIR")?;
                let parts = which.split_once('.');
                let parsed = parts
                    .and_then(|(network, pair)| Some((network.parse().ok()?, pair.parse().ok()?)));
                let full = Size::full();
                let known = parsed.filter(|&(network, pair)| {
                    (1..=full.networks).contains(&network) && pair < full.pairs
                });
                options.dump = Some(known.ok_or_else(|| {
                    format!(
                        "{which:?} is no pair: write NETWORK.PAIR, networks 1 to {} and pairs \
                        0 to {}",
                        full.networks,
                        full.pairs - 1
                    )
                })?);
            }
            other => return Err(format!("unknown argument {other:?}")),
        }
    }
    Ok(options)
}

impl Size {
    fn full() -> Self {
        Size {
            networks: 10,
            pairs: 50,
            few: 5,
            varied: 3,
            duration_s: 600,
            together_s: 300,
            lists: vec![1, 5, 10, 20, 50, 100],
            together: vec![(50, 2), (100, 1)],
            relaying: vec![(50, 1), (100, 1), (200, 1)],
        }
    }

    fn short() -> Self {
        Size {
            networks: 2,
            pairs: 10,
            few: 2,
            varied: 2,
            duration_s: 120,
            together_s: 60,
            lists: vec![10],
            together: vec![(20, 1)],
            relaying: vec![(20, 1)],
        }
    }
}

/// Prints a pair's run as a scenario.
fn dump((seed, number): (u64, usize), tcp: bool) -> Result<bool, String> {
    let network = Network::new(Assumptions {
        seed,
        ..Assumptions::default()
    });
    let size = Size::full();
    let run = Run {
        law: if tcp {
            Law::Tcp
        } else {
            Law::Mpath(network.relays.len())
        },
        pairs: vec![network.pairs(size.pairs)[number]],
        duration_s: size.duration_s,
        epoch: 0,
        series: true,
    };
    println!("{}", network.scenario(&run));
    Ok(true)
}

fn show(options: &Options) -> Result<bool, String> {
    let size = if options.full {
        Size::full()
    } else {
        Size::short()
    };
    let out = options.out.as_deref();
    let results = measure(size, |results| match out {
        Some(out) => write(out, &page(results), results),
        None => Ok(()),
    })?;
    println!("{}", page(&results));
    Ok(results.gates.iter().all(|gate| gate.holds))
}

/// All experiments. `save` gets what is known after each, as the whole takes long.
fn measure(size: Size, save: impl Fn(&Results) -> Result<(), String>) -> Result<Results, String> {
    let assumptions = Assumptions::default();
    let networks = networks(size.networks, &assumptions);
    let pairs = alone("alone", &networks, (size.pairs, size.duration_s))?;
    let mut results = Results {
        comparison: report::compare_alone(&pairs),
        gates: report::gates(&pairs),
        pairs,
        lists: Vec::new(),
        together: Vec::new(),
        relaying: Vec::new(),
        variants: Vec::new(),
        assumptions,
        size,
    };
    save(&results)?;
    let size = results.size.clone();
    results.lists = listed(&networks, &results.pairs, &size)?;
    save(&results)?;
    results.together = together(&networks, (&size.together, false), size.together_s)?;
    results.relaying = together(&networks, (&size.relaying, true), size.together_s)?;
    save(&results)?;
    vary(&mut results, save)?;
    Ok(results)
}

type Change = fn(&mut Assumptions);

/// Other assumptions, one at a time.
const VARIANTS: [(&str, Change); 7] = [
    ("core links congested half as often", |assumed| {
        assumed.congested /= 2.0
    }),
    ("up to nine other slices on a node", |assumed| {
        assumed.slices = 9
    }),
    ("nothing varies over time", |assumed| assumed.sway = 0.0),
    ("half the rates", |assumed| assumed.scale /= 2.0),
    ("queues twice as long", |assumed| assumed.queue_s *= 2.0),
    ("dropped relays are tried again (best-idle)", |assumed| {
        assumed.manager = "{ reuse = \"best-idle\" }";
    }),
    (ELASTIC, |assumed| {
        assumed.background = Background::Elastic(4)
    }),
];
/// It takes long, so it is done for fewer pairs.
const ELASTIC: &str = "four Reno flows on each congested link";

fn vary(
    results: &mut Results,
    save: impl Fn(&Results) -> Result<(), String>,
) -> Result<(), String> {
    let size = results.size.clone();
    let first = |name, count| {
        let few = results.pairs.iter().filter(|pair| pair.number < count);
        Variant {
            name,
            pairs: few.cloned().collect(),
        }
    };
    let least = size.varied.div_ceil(2);
    results.variants = vec![
        first("as above", size.varied),
        first("as above, the first few", least),
    ];
    for (name, change) in VARIANTS {
        let mut changed = results.assumptions.clone();
        change(&mut changed);
        let networks = networks(size.networks, &changed);
        let count = if name == ELASTIC { least } else { size.varied };
        let pairs = alone(name, &networks, (count, size.duration_s))?;
        results.variants.push(Variant { name, pairs });
        save(results)?;
    }
    Ok(())
}

fn page(results: &Results) -> String {
    let size = &results.size;
    include_str!("../papers/planetlab.md")
        .replace("{networks}", &size.networks.to_string())
        .replace("{pairs}", &results.pairs.len().to_string())
        .replace(
            "{minutes}",
            &format!("{}", f64::from(size.duration_s) / 60.0),
        )
        .replace("{few}", &size.few.to_string())
        .replace(
            "{at once}",
            &format!("{}", f64::from(size.together_s) / 60.0),
        )
        .replace("{comparison}", &report::comparison(&results.comparison))
        .replace("{groups}", &report::groups(&results.pairs))
        .replace("{lists}", &report::lists(&results.lists))
        .replace(
            "{together}",
            &report::together(&results.together, &results.relaying),
        )
        .replace("{variants}", &report::variants(&results.variants))
        .replace("{gates}", &papers::gates(&results.gates))
}

fn write(out: &Path, text: &str, results: &Results) -> Result<(), String> {
    let told = |error: std::io::Error| format!("can't write to {}: {error}", out.display());
    let images = out.parent().unwrap_or(out).join("images");
    fs::create_dir_all(out).map_err(told)?;
    fs::create_dir_all(&images).map_err(told)?;
    fs::write(out.join("planetlab.md"), text).map_err(told)?;
    let json = serde_json::to_string(results).map_err(|error| error.to_string())?;
    fs::write(out.join("planetlab.json"), json + "\n").map_err(told)?;
    for (name, svg) in report::figures(results)? {
        fs::write(images.join(name).with_extension("svg"), svg).map_err(told)?;
    }
    Ok(())
}

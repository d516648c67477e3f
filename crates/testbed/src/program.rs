//! The program's commands.

use std::error::Error;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser};
use manyway_network::{Change, Limit, LinkConfig, Queue};
use manyway_scenario::{Experiment, Scenario};
use manyway_testbed::live::{End, Report, TunLink};
use manyway_units::{Rate, Time};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

/// Faster than anything that a link meets: the way back if the scenario has no link for it.
const WAY_BACK_MBPS: f64 = 100_000.0;

/// A scenario's links in real time
#[derive(Debug, Parser)]
enum Command {
    /// Print the links and paths of a scenario's case, as JSON
    Show(Place),
    /// Be one link between two network namespaces, until a signal or the end of a device
    ///
    /// Makes a TUN device at each end, prints `up`, and at the end one JSON object for each
    /// direction: what happened to its packets, and how late they left, in microseconds.
    Link(LinkArgs),
}

/// Which case of which scenario.
#[derive(Debug, Args)]
struct Place {
    /// The scenario's file
    file: PathBuf,
    /// The case of its sweep; needed only where there are several
    #[arg(long)]
    case: Option<String>,
    /// Set a key first, e.g. links.a.rate=10Mbps; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

#[derive(Debug, Args)]
struct LinkArgs {
    #[command(flatten)]
    place: Place,
    /// The link's name in the scenario
    #[arg(long)]
    link: String,
    /// Where packets enter that cross it
    #[arg(long, value_name = "NAMESPACE:DEVICE")]
    from: End,
    /// Where they leave, and where those enter that come back
    #[arg(long, value_name = "NAMESPACE:DEVICE")]
    to: End,
    /// The link that comes back; without, its delay, and dark when it is
    #[arg(long, value_name = "LINK")]
    back: Option<String>,
    /// Seed of all that is random
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// CSV of the queue: a line for each 10 ms in which packets enter
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
}

type Failure = Box<dyn Error>;

pub(crate) fn main() -> ExitCode {
    let done = match Command::parse() {
        Command::Show(place) => show(&place),
        Command::Link(args) => link(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "testbed: {error}");
            ExitCode::FAILURE
        }
    }
}

fn show(place: &Place) -> Result<(), Failure> {
    let experiment = place.experiment()?;
    let end = Time::ZERO + experiment.duration;
    let span = [experiment.measure.from, end].map(Time::as_secs_f64);
    let topology = &experiment.topology;
    let links = topology.links.iter().map(|link| {
        let config = &link.config;
        let about = json!({
            "rate_bps": mean_rate(config, span),
            "delay_s": config.delay.as_secs_f64(),
            "loss": config.loss.mean(),
        });
        (link.name.clone(), about)
    });
    let named = |link: &usize| topology.links[*link].name.as_str();
    let paths = topology.paths.iter().map(|path| {
        let (there, back) = [&path.links, &path.reverse]
            .map(|links| links.iter().map(named).collect::<Vec<_>>())
            .into();
        (
            path.name.clone(),
            json!({ "links": there, "reverse": back }),
        )
    });
    let about = json!({
        "links": links.collect::<Value>(),
        "paths": paths.collect::<Value>(),
        "flows": experiment.flows.iter().map(|flow| {
            let paths = flow.paths.iter().map(|path| topology.paths[*path].name.as_str());
            json!({ "name": flow.name, "law": flow.law.to_string(),
                "paths": paths.collect::<Vec<_>>() })
        }).collect::<Vec<_>>(),
    });
    writeln!(io::stdout(), "{about}")?;
    Ok(())
}

/// The mean over a span of what a link can carry, in bits per second.
fn mean_rate(link: &LinkConfig, [from, to]: [f64; 2]) -> f64 {
    const STEPS: u32 = 10_000;
    let at = |step: u32| from + (to - from) * (f64::from(step) + 0.5) / f64::from(STEPS);
    let rate = |step| {
        let now = Time::from_secs_f64(at(step));
        f64::from(u8::from(link.at(now).up)) * link.capacity(now).bits_per_sec()
    };
    (0..STEPS).map(rate).sum::<f64>() / f64::from(STEPS)
}

fn link(args: &LinkArgs) -> Result<(), Failure> {
    let experiment = args.place.experiment()?;
    let mut there = find(&experiment, &args.link)?;
    let mut back = match &args.back {
        Some(name) => find(&experiment, name)?,
        None => way_back(&there),
    };
    there.seed = args.seed;
    back.seed = !args.seed;
    let log: Box<dyn Write + Send> = match &args.log {
        Some(path) => Box::new(BufWriter::new(create(path)?)),
        None => Box::new(io::sink()),
    };
    // All threads leave them to the one that waits for them.
    let mut signals = SigSet::empty();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        signals.add(signal);
    }
    signals.thread_block()?;
    let ended = || {
        let _ = kill(Pid::this(), Signal::SIGTERM);
    };
    let ends = [args.from.clone(), args.to.clone()];
    let running = TunLink::start(&ends, [there, back], [log, Box::new(io::sink())], ended)?;
    writeln!(io::stdout(), "up")?;
    signals.wait()?;
    for (report, direction) in running.stop()?.iter().zip(["there", "back"]) {
        writeln!(io::stdout(), "{}", said(report, &args.link, direction))?;
    }
    Ok(())
}

fn find(experiment: &Experiment, name: &str) -> Result<LinkConfig, Failure> {
    let links = &experiment.topology.links;
    match links.iter().find(|link| link.name == name) {
        Some(link) => Ok(link.config.clone()),
        None => {
            let names: Vec<_> = links.iter().map(|link| link.name.as_str()).collect();
            Err(format!("no link {name}; there are {}", names.join(", ")).into())
        }
    }
}

/// As long, and dark at the same times.
fn way_back(there: &LinkConfig) -> LinkConfig {
    let mut back = LinkConfig::new(Rate::from_mbps(WAY_BACK_MBPS), there.delay);
    back.queue = Queue::DropTail(Limit::Packets(u32::MAX));
    back.timetable = there.timetable.clone();
    let changes = back.timetable.changes.drain(..);
    let ups = changes.filter(|change| change.up.is_some());
    let ups = ups.map(|change| Change {
        rate: None,
        delay: None,
        ..change
    });
    back.timetable.changes = ups.collect();
    back
}

fn said(report: &Report, link: &str, direction: &str) -> Value {
    let micros = |delay: Duration| (delay.as_secs_f64() * 1e7).round() / 10.0;
    let (stats, late) = (&report.stats, &report.late);
    json!({
        "link": link,
        "direction": direction,
        "offered": stats.offered,
        "delivered": stats.delivered,
        "bytes": stats.bytes_delivered,
        "dropped_by_queue": stats.dropped() - stats.dropped_random - stats.dropped_down,
        "lost": stats.dropped_random + stats.dropped_down,
        "refused": report.refused,
        "real_time": report.real_time,
        "late_us": {
            "median": micros(late.percentile(0.5)),
            "p99": micros(late.percentile(0.99)),
            "max": micros(late.most()),
        },
    })
}

fn create(path: &Path) -> Result<File, Failure> {
    File::create(path).map_err(|error| format!("{}: {error}", path.display()).into())
}

impl Place {
    fn experiment(&self) -> Result<Experiment, Failure> {
        let mut scenario = Scenario::load(&self.file)?;
        for assignment in &self.set {
            scenario.set(assignment)?;
        }
        let is_case = |set: &[(String, String)]| match &self.case {
            Some(case) => set.iter().any(|(_, value)| value == case),
            None => true,
        };
        let points = scenario.points()?;
        let names = || {
            let cases = points.iter().flat_map(|point| &point.set);
            let mut names: Vec<_> = cases.map(|(_, value)| value.as_str()).collect();
            names.dedup();
            names.join("; ")
        };
        match points.iter().find(|point| is_case(&point.set)) {
            Some(point) => Ok(point.experiment.clone()),
            None => Err(format!("no such case; there are: {}", names()).into()),
        }
    }
}

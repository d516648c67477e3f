//! `manyway testbed`: a scenario's network between two namespaces, around a command or standing.

pub(crate) mod isolation;
mod link;
mod standing;

use std::io::Write as _;
use std::os::unix::net::UnixListener;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};
use manyway_scenario::{Experiment, Point};
use manyway_testbed::live::{self, Emulator, Network, Plan, Punctuality, Reading};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};

use self::isolation::Ending;
use crate::args::testbed::{NetworkOfArgs, TestbedArgs, TestbedCommand, TestbedRunArgs, UpArgs};
use crate::exit::{Stop, usage};
use crate::scenario;
use crate::screen::Screen;

/// A run in which a packet in a hundred left later than this was late.
pub(crate) const LATE_MS: f64 = 1.0;

/// Ends what a standing network says of itself.
const READY: &str = "ready";

pub(crate) async fn run(screen: &Screen, args: TestbedArgs) -> anyhow::Result<()> {
    match args.command {
        TestbedCommand::Run(args) => around(screen, &args).await,
        TestbedCommand::Up(args) => up(screen, &args).await,
        TestbedCommand::Down(args) => {
            let name = standing::down(args.name.as_deref()).map_err(|e| usage(e.to_string()))?;
            screen.say(&format!("testbed {name} is down"));
            Ok(())
        }
        TestbedCommand::Link(args) => link::run(&args).await,
        TestbedCommand::Show(args) => link::show(&args),
    }
}

/// A network that works.
struct Testbed {
    experiment: Experiment,
    // The emulator ends before its devices.
    emulator: Emulator,
    network: Network,
}

impl Testbed {
    fn start(experiment: Experiment, seed: u64) -> anyhow::Result<Self> {
        let plan = Plan::of_paths(&experiment).map_err(usage)?;
        let network = Network::up(plan)?;
        Ok(Self {
            emulator: network.go(seed)?,
            experiment,
            network,
        })
    }

    /// The names of its paths and their addresses at both ends, separated by commas.
    fn variables(&self) -> [(&'static str, String); 3] {
        let ways = self.network.plan().ways_of(0).iter();
        let addresses = |end: usize| {
            let addresses: Vec<String> = ways
                .clone()
                .map(|way| way.addresses[end].to_string())
                .collect();
            addresses.join(",")
        };
        let paths = self.experiment.topology.paths.iter();
        let names: Vec<&str> = paths.map(|path| path.name.as_str()).collect();
        [
            ("TESTBED_PATHS", names.join(",")),
            ("TESTBED_SENDER", addresses(0)),
            ("TESTBED_RECEIVER", addresses(1)),
        ]
    }

    /// Its paths, a line each.
    fn about(&self) -> String {
        let ways = self.network.plan().ways_of(0).iter();
        let paths = self.experiment.topology.paths.iter();
        let line = |(path, way): (&manyway_network::PathSpec, &live::Way)| {
            let [from, to] = way.addresses;
            format!(
                "path {}: {from} at the sender, {to} at the receiver",
                path.name
            )
        };
        paths.zip(ways).map(line).collect::<Vec<_>>().join("\n")
    }
}

/// An experiment with the network, and the seed.
fn chosen(args: &NetworkOfArgs) -> anyhow::Result<(Experiment, u64)> {
    let scenario = scenario::load(&args.file, &args.assignments);
    let scenario = scenario.map_err(|error| usage(error.to_string()))?;
    // Whatever level its flows are for: they don't run.
    let points = scenario::points(&scenario).map_err(|error| usage(error.to_string()))?;
    let fits = |set: &[(String, String)]| match &args.case {
        Some(case) => set.iter().any(|(_, value)| value == case),
        None => true,
    };
    let mut fitting = points.iter().filter(|point| fits(&point.set));
    let seed = args.seed.unwrap_or(scenario.seed());
    match fitting.next() {
        // The others may have other flows.
        Some(first) if fitting.all(|other| has_network_of(other, first)) => {
            Ok((first.experiment.clone(), seed))
        }
        _ => {
            let sets = points.iter().flat_map(|point| &point.set);
            let mut values: Vec<&str> = sets.map(|(_, value)| value.as_str()).collect();
            values.dedup();
            Err(usage(format!(
                "{} has several networks: choose one by a value of its sweep with --case, or set \
                 the keys that it sweeps with --set; its values are {}",
                args.file.display(),
                values.join("; ")
            )))
        }
    }
}

fn has_network_of(one: &Point, other: &Point) -> bool {
    one.experiment.topology == other.experiment.topology
}

/// `testbed run`.
async fn around(screen: &Screen, args: &TestbedRunArgs) -> anyhow::Result<()> {
    let (experiment, seed) = chosen(&args.network)?;
    if !isolation::is_inside() {
        return isolation::run_inside(Ending::Own).await;
    }
    // Ctrl-C is for the command, which decides what it means.
    let stop = Stop::listen(false);
    let testbed = Testbed::start(experiment, seed)?;
    let mut command = Command::new(&args.command[0]);
    command.args(&args.command[1..]).envs(testbed.variables());
    let sender = testbed.network.plan().hosts[0].sender.clone();
    let started = live::inside(&sender, || command.spawn());
    let mut child = started.with_context(|| args.command[0].display().to_string())?;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    };
    drop(stop);
    let reading = testbed.emulator.read();
    let names: Vec<String> = testbed
        .experiment
        .topology
        .links
        .iter()
        .map(|link| link.name.clone())
        .collect();
    let punctuality = Punctuality::of(&testbed.emulator.stop()?);
    screen.say(&links_text(&names, &reading));
    screen.say(&late_text(&punctuality));
    // The first process of the namespace takes all others with it.
    let signal = || 128 + status.signal().unwrap_or_default();
    std::process::exit(status.code().unwrap_or_else(signal))
}

/// What happened on the links.
fn links_text(names: &[String], reading: &Reading) -> String {
    let line = |(name, link): (&String, &live::LinkReading)| {
        let stats = &link.stats;
        let waited = stats.sojourn.as_secs_f64() * 1e3 / stats.delivered.max(1) as f64;
        format!(
            "link {name}: {} packets, {} dropped, {waited:.1} ms in its queue on average",
            stats.offered,
            stats.dropped()
        )
    };
    names
        .iter()
        .zip(&reading.links)
        .map(line)
        .collect::<Vec<_>>()
        .join("\n")
}

/// How late packets left, and whether that is too late.
pub(crate) fn late_text(punctuality: &Punctuality) -> String {
    let millis = |time: std::time::Duration| time.as_secs_f64() * 1e3;
    let mut text = format!(
        "packets left the emulator {:.3} ms late at the 99th percentile (median {:.3} ms, most \
         {:.3} ms)",
        millis(punctuality.p99),
        millis(punctuality.median),
        millis(punctuality.most)
    );
    if millis(punctuality.p99) > LATE_MS {
        text.push_str(&format!(
            "; LATE: with more than {LATE_MS} ms, this machine is too slow or too busy for such \
             links, and the results are wrong"
        ));
    }
    if !punctuality.real_time {
        text.push_str("; it had no real time (SCHED_FIFO)");
    }
    text
}

/// `testbed up`.
async fn up(screen: &Screen, args: &UpArgs) -> anyhow::Result<()> {
    let (experiment, seed) = chosen(&args.network)?;
    let name = named(args)?;
    if isolation::is_inside() {
        return stand(standing::take(&name)?, Testbed::start(experiment, seed)?);
    }
    // Before anything is made; the other process takes it again.
    drop(standing::take(&name)?);
    let mut child = isolation::leave_inside()?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (Some(stdout), Some(mut stderr)) = (stdout, stderr) else {
        bail!("no pipes");
    };
    let mut lines = BufReader::new(stdout).lines();
    let mut about = String::new();
    while let Some(line) = lines.next_line().await? {
        if line == READY {
            let holder = standing::holder(&name)?;
            screen.say(&format!(
                "testbed {name} stands\n{about}\n\
                 at the sender:    nsenter --target {holder} --mount --pid ip netns exec sender \
                 bash\n\
                 at the receiver:  nsenter --target {holder} --mount --pid ip netns exec receiver \
                 bash\n\
                 take it down:     manyway testbed down {name}"
            ));
            return Ok(());
        }
        about.push_str(&line);
        about.push('\n');
    }
    let mut said = String::new();
    stderr.read_to_string(&mut said).await?;
    bail!("the testbed didn't start: {}", said.trim())
}

fn named(args: &UpArgs) -> anyhow::Result<String> {
    let file = Path::new(&args.network.file);
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let name = args.name.clone().unwrap_or(stem.into_owned());
    let usual = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.len() > 60 || !name.chars().all(usual) {
        return Err(usage(format!(
            "{name:?} can't be the name of a testbed: choose 1 to 60 letters, digits, -, _ and . \
             with --name"
        )));
    }
    Ok(name)
}

/// Holds the network until it is to go.
fn stand(listener: UnixListener, testbed: Testbed) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout();
    writeln!(stdout, "{}\n{READY}", testbed.about().trim_end())?;
    stdout.flush()?;
    standing::wait(listener)?;
    drop(testbed);
    // The caller waits for the end of this process, which ends all others here.
    std::process::exit(0)
}

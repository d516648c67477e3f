//! `manyway run --level live`: the scenario's links in real time, its flows as `manyway` processes
//! and connections of the kernel's. The testbed runs them; what it saw becomes a result like the
//! packet level's, with which it shares tables and plots.

mod result;

use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use manyway_results::Sheet;
use manyway_scenario::Experiment;
use manyway_simulate::batch::{Control, Report, Running};
use manyway_simulate::packet::RunResult;
use manyway_testbed::live::{self, Means, Punctuality};
use serde::Serialize;

use super::testbed::isolation::{self, Ending};
use super::testbed::{LATE_MS, late_text};
use crate::exit::usage;
use crate::run::folder::Folder;
use crate::run::goodput::Column;
use crate::run::level::{self, Level, Request};
use crate::run::packet::Packet;
use crate::screen::Screen;

/// What is sent and received, within [`isolation::PRIVATE`].
const SCRATCH: &str = ".files";

/// How long runs may take to end after Ctrl-C.
const GRACE: Duration = Duration::from_secs(5);

/// Checks a request with live networks, and carries it out in namespaces of its own.
pub(crate) async fn isolated<L: Level>(
    screen: &Screen,
    request: Request<'_>,
) -> anyhow::Result<()> {
    if isolation::is_inside() {
        return level::carry_out::<L>(screen, request).await;
    }
    L::prepare(request)?;
    isolation::run_inside(Ending::Told(GRACE)).await
}

/// A checked request.
#[derive(Debug)]
pub(crate) struct Live(Packet);

/// The results, and how well the emulator kept time.
#[derive(Debug, Serialize)]
pub(crate) struct LiveReport {
    #[serde(flatten)]
    report: Report,
    emulator: EmulatorReport,
}

/// Over all runs, the worst.
#[derive(Debug, Serialize)]
struct EmulatorReport {
    /// How late packets left the emulator, seconds: the median, the 99th percentile, the most.
    late_median_s: f64,
    late_p99_s: f64,
    late_max_s: f64,
    /// Whether that is too late for the results to count.
    late: bool,
    /// Whether it had real time.
    real_time: bool,
    #[serde(skip)]
    punctuality: Punctuality,
}

impl Level for Live {
    type Report = LiveReport;

    fn prepare(request: Request<'_>) -> anyhow::Result<Self> {
        let file = request.file.display().to_string();
        let packet = Packet::live(request)?;
        isolation::check()?;
        for point in packet.points() {
            let checked = check(&point.experiment);
            checked.map_err(|problem| usage(format!("{file}: {problem}")))?;
        }
        Ok(Self(packet))
    }

    fn sheets(&self) -> Vec<Sheet> {
        self.0.sheets()
    }

    fn run(self, control: &Control, folder: Option<&mut Folder>) -> anyhow::Result<LiveReport> {
        let program = std::env::current_exe()?;
        let scratch = Path::new(isolation::PRIVATE).join(SCRATCH);
        std::fs::create_dir_all(&scratch)?;
        let worst = Mutex::new(None::<Punctuality>);
        let report = self.0.run_by(control, folder, |experiment, run| {
            let (result, punctuality) = one(experiment, run, &program, &scratch)?;
            let mut worst = worst
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            *worst = Some(worst.map_or(punctuality, |worst| worst.worse(punctuality)));
            Ok(result)
        })?;
        let worst = worst
            .into_inner()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let punctuality = worst.unwrap_or_default();
        let seconds = |time: Duration| time.as_secs_f64();
        Ok(LiveReport {
            report,
            emulator: EmulatorReport {
                late_median_s: seconds(punctuality.median),
                late_p99_s: seconds(punctuality.p99),
                late_max_s: seconds(punctuality.most),
                late: seconds(punctuality.p99) * 1e3 > LATE_MS,
                real_time: punctuality.real_time,
                punctuality,
            },
        })
    }
}

impl level::Report for LiveReport {
    fn summary(&self) -> String {
        format!("{}\n\n{}", self.report.summary(), self.emulator.text())
    }

    fn columns(&self) -> Vec<Column> {
        vec![Column::measured(&self.report)]
    }

    fn remarks(&self) -> Vec<String> {
        vec![self.emulator.text()]
    }

    fn unfinished(&self) -> u64 {
        self.report.unfinished
    }
}

impl EmulatorReport {
    fn text(&self) -> String {
        format!("Live, in the worst run: {}.", late_text(&self.punctuality))
    }
}

/// Whether this host has what an experiment takes.
///
/// # Errors
/// What it lacks.
fn check(experiment: &Experiment) -> Result<(), String> {
    live::check_laws(experiment)?;
    let (needed, room) = (live::memory(experiment), room());
    if needed > room {
        return Err(format!(
            "what the flows send and receive lies in memory: that is up to {} MB, and half of the \
             free memory is {} MB: choose a shorter duration or lower rates",
            needed / 1_000_000,
            room / 1_000_000
        ));
    }
    live::Plan::of_flows(experiment).map(drop)
}

/// Half of the memory that is free, in bytes: a file system in memory has no more.
fn room() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.map_or(u64::MAX, |kib| kib * 1024 / 2)
}

fn one(
    experiment: &Experiment,
    run: &Running<'_>,
    program: &Path,
    scratch: &Path,
) -> anyhow::Result<(RunResult, Punctuality)> {
    let means = Means { program, scratch };
    let progress = |done| run.progress(done);
    let outcome = live::run(experiment, run.seed(), &means, run.stop_flag(), progress)?;
    let result = result::of(experiment, run.seed(), &outcome);
    Ok((result, outcome.punctuality))
}

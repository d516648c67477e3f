//! The files of `--out`: each appears under its name when it is complete.

use std::fs::{self, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use csv::Writer;
use manyway_scenario::{Experiment, Point};
use manyway_simulate::batch::{Job, Report};
use manyway_simulate::packet::{FlowResult, RunResult};
use tempfile::NamedTempFile;

use super::plots;
use super::setting;
use crate::exit::usage;

/// A folder that results go to, and the files that are being written.
#[derive(Debug)]
pub(super) struct Folder {
    dir: PathBuf,
    flows: Sheet,
    subflows: Sheet,
    links: Sheet,
    series: Sheet,
    plots: Vec<(String, NamedTempFile)>,
    /// Number of points, and whether they set anything.
    points: usize,
    swept: bool,
    /// Last, so that it goes when the files are gone.
    _created: Created,
}

/// A file of rows under headings.
#[derive(Debug)]
struct Sheet {
    name: &'static str,
    rows: Writer<NamedTempFile>,
}

/// What every row of a table of runs begins with.
const RUN: [&str; 3] = ["point", "repetition", "seed"];
const FLOW: [&str; 5] = ["group", "flow", "goodput_bps", "share", "completion_s"];
const SUBFLOW: [&str; 11] = [
    "group",
    "flow",
    "path",
    "goodput_bps",
    "share",
    "window_mean_packets",
    "rtt_mean_s",
    "loss_events",
    "packets_sent",
    "packets_lost",
    "timeouts",
];
const LINK: [&str; 7] = [
    "link",
    "utilisation",
    "load_bps",
    "queue_mean_packets",
    "packets",
    "drops",
    "marks",
];
const SERIES: [&str; 7] = ["point", "seed", "kind", "of", "path", "time_s", "value"];

impl Folder {
    /// Creates what is missing, and the files under temporary names: from here on the folder can be written to.
    ///
    /// # Errors
    ///
    /// Wrong usage if it can't be; nothing is left behind then.
    pub(super) fn create(dir: &Path, points: &[Point]) -> anyhow::Result<Self> {
        Self::open(dir, points).map_err(|error| {
            let dir = dir.display();
            usage(format!(
                "can't write into {dir}: {error}; --out DIR names another folder"
            ))
        })
    }

    fn open(dir: &Path, points: &[Point]) -> io::Result<Self> {
        let created = Created::make(dir)?;
        let keys: Vec<String> = points
            .first()
            .map(|point| {
                point
                    .set
                    .iter()
                    .map(|(key, _)| format!("set.{key}"))
                    .collect()
            })
            .unwrap_or_default();
        let spans = points
            .first()
            .map_or(&[][..], |point| &point.experiment.measure.spans);
        let spans: Vec<String> = spans
            .iter()
            .map(|span| format!("goodput_bps.{}", span.name))
            .collect();
        let sheet = |name, columns: &[&str], more: &[String]| {
            let more = more.iter().map(String::as_str);
            let columns = columns.iter().copied().chain(more);
            let keys = keys.iter().map(String::as_str);
            Sheet::create(dir, name, RUN.into_iter().chain(keys).chain(columns))
        };
        Ok(Self {
            flows: sheet("flows.csv", &FLOW, &[])?,
            subflows: sheet("subflows.csv", &SUBFLOW, &spans)?,
            links: sheet("links.csv", &LINK, &[])?,
            series: Sheet::create(dir, "series.csv", SERIES)?,
            plots: Vec::new(),
            points: points.len(),
            swept: !keys.is_empty(),
            dir: dir.to_owned(),
            _created: created,
        })
    }

    /// Adds the rows of a run, and the plots if it is the first of its point.
    pub(super) fn take(&mut self, job: &Job, point: &Point, run: &RunResult) -> anyhow::Result<()> {
        let dir = self.dir.display().to_string();
        let rows = self.add_rows(job, point, run);
        rows.with_context(|| format!("can't write the results into {dir}"))?;
        if job.repetition == 0 {
            self.add_plots(job, point, run)?;
        }
        Ok(())
    }

    fn add_rows(&mut self, job: &Job, point: &Point, run: &RunResult) -> csv::Result<()> {
        let number = (job.point + 1).to_string();
        let seed = job.seed.to_string();
        let mut head = vec![
            number.clone(),
            (job.repetition + 1).to_string(),
            seed.clone(),
        ];
        head.extend(point.set.iter().map(|(_, value)| value.clone()));
        let all: f64 = run.flows.iter().map(|flow| flow.goodput_bps).sum();
        for (index, flow) in run.flows.iter().enumerate() {
            let names = [group_of(&point.experiment, index), flow.name.clone()];
            self.flows.row(
                head.iter()
                    .chain(&names)
                    .cloned()
                    .chain(flow_cells(flow, all)),
            )?;
            for subflow in &flow.subflows {
                let share = subflow.goodput_bps / flow.goodput_bps;
                let cells = [
                    subflow.path.clone(),
                    number_cell(subflow.goodput_bps),
                    number_cell(share),
                    number_cell(subflow.window_mean_packets),
                    number_cell(subflow.rtt_mean_s),
                    subflow.loss_events.to_string(),
                    subflow.packets_sent.to_string(),
                    subflow.packets_lost.to_string(),
                    subflow.timeouts.to_string(),
                ];
                let spans = subflow.spans_bps.iter().map(|rate| number_cell(*rate));
                self.subflows
                    .row(head.iter().chain(&names).cloned().chain(cells).chain(spans))?;
            }
        }
        for link in &run.links {
            let cells = [
                link.name.clone(),
                number_cell(link.utilisation),
                number_cell(link.load_bps),
                number_cell(link.queue_mean_packets),
                link.packets_offered.to_string(),
                link.packets_dropped.to_string(),
                link.packets_marked.to_string(),
            ];
            self.links.row(head.iter().cloned().chain(cells))?;
        }
        for series in &run.series {
            let mut names = series.of.iter().map(String::as_str);
            let (of, path) = (names.next().unwrap_or(""), names.next().unwrap_or(""));
            for (n, value) in (1_u32..).zip(&series.values) {
                if value.is_finite() {
                    let time = number_cell(f64::from(n) * series.interval_s);
                    let value = number_cell(*value);
                    self.series
                        .row([&number, &seed, &series.kind, of, path, &time, &value])?;
                }
            }
        }
        Ok(())
    }

    fn add_plots(&mut self, job: &Job, point: &Point, run: &RunResult) -> anyhow::Result<()> {
        let name = &point.experiment.name;
        let of = format!("{name}, {}seed {}", setting(point), job.seed);
        for picture in plots::draw(&point.experiment, &run.series, &of)? {
            let file_name = match self.swept {
                true => {
                    let width = self.points.to_string().len();
                    format!("{}-{:0width$}.svg", picture.name, job.point + 1)
                }
                false => format!("{}.svg", picture.name),
            };
            let mut file = temporary(&self.dir)?;
            file.write_all(picture.svg.as_bytes())
                .with_context(|| format!("can't write the plots into {}", self.dir.display()))?;
            self.plots.push((file_name, file));
        }
        Ok(())
    }

    /// Gives the files their names, with `report` as another one, and tells about them.
    pub(super) fn finish(self, report: &Report) -> anyhow::Result<String> {
        let dir = self.dir.clone();
        let plots = match self.plots.len() {
            0 => String::new(),
            1 => " and a plot".to_owned(),
            n => format!(" and {n} plots"),
        };
        self.put_in_place(report)
            .with_context(|| format!("can't write the results into {}", dir.display()))?;
        let names = "result.json, flows.csv, subflows.csv, links.csv, series.csv";
        Ok(format!("\nIn {}: {names}{plots}", dir.display()))
    }

    fn put_in_place(self, report: &Report) -> io::Result<()> {
        let mut result = BufWriter::new(temporary(&self.dir)?);
        serde_json::to_writer(&mut result, report)?;
        result.write_all(b"\n")?;
        let result = result
            .into_inner()
            .map_err(io::IntoInnerError::into_error)?;
        let mut files = self.plots;
        files.push(("result.json".to_owned(), result));
        for sheet in [self.flows, self.subflows, self.links, self.series] {
            let file = sheet
                .rows
                .into_inner()
                .map_err(|error| io::Error::other(error.to_string()))?;
            files.push((sheet.name.to_owned(), file));
        }
        for (name, file) in files {
            file.persist(self.dir.join(name))
                .map_err(|error| error.error)?;
        }
        Ok(())
    }
}

impl Sheet {
    fn create<'a>(
        dir: &Path,
        name: &'static str,
        headings: impl IntoIterator<Item = &'a str>,
    ) -> io::Result<Self> {
        let rows = csv::WriterBuilder::new()
            .buffer_capacity(1 << 16)
            .from_writer(temporary(dir)?);
        let mut sheet = Self { name, rows };
        sheet.row(headings)?;
        Ok(sheet)
    }

    fn row<S: AsRef<[u8]>>(&mut self, cells: impl IntoIterator<Item = S>) -> csv::Result<()> {
        self.rows.write_record(cells)
    }
}

/// A file beside its final place. What is left of one after a crash begins with `.manyway-`.
fn temporary(dir: &Path) -> io::Result<NamedTempFile> {
    tempfile::Builder::new()
        .prefix(".manyway-")
        // As any other file: what the umask leaves of this.
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(dir)
}

/// A folder that goes away again when it is still empty at the end, if it was us who created it.
#[derive(Debug)]
struct Created(Option<PathBuf>);

impl Created {
    fn make(dir: &Path) -> io::Result<Self> {
        let missing = !dir.exists();
        fs::create_dir_all(dir)?;
        Ok(Self(missing.then(|| dir.to_owned())))
    }
}

impl Drop for Created {
    fn drop(&mut self) {
        if let Some(dir) = &self.0 {
            // Fails when there is something in it, as it should.
            fs::remove_dir(dir).ok();
        }
    }
}

fn group_of(experiment: &Experiment, flow: usize) -> String {
    let flow = experiment.flows.get(flow);
    let group = flow.and_then(|flow| experiment.groups.get(flow.group));
    group.map(|group| group.name.clone()).unwrap_or_default()
}

fn flow_cells(flow: &FlowResult, all: f64) -> [String; 3] {
    [
        number_cell(flow.goodput_bps),
        number_cell(flow.goodput_bps / all),
        number_cell(flow.completion_s.unwrap_or(f64::NAN)),
    ]
}

/// The shortest text that reads as the same number; nothing where there is nothing to say.
fn number_cell(value: f64) -> String {
    match value.is_finite() {
        true => value.to_string(),
        false => String::new(),
    }
}

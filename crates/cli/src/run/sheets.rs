//! The results of single runs as CSV: tidy tables, one row for each thing of each run.

use std::io;
use std::path::Path;

use csv::Writer;
use indexmap::IndexSet;
use manyway_scenario::{Experiment, Point};
use manyway_simulate::batch::Job;
use manyway_simulate::packet::{FlowResult, LinkResult, RunResult, Series, SubflowResult};
use tempfile::NamedTempFile;

use super::files::temporary;

/// What every row of a table of runs begins with, before what the point sets.
const RUN: [&str; 3] = ["point", "repetition", "seed"];
const FLOW: [&str; 5] = ["group", "flow", "goodput_bps", "share", "completion_s"];
/// Behind these come the named spans of time.
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

/// The tables while they are being written.
#[derive(Debug)]
pub(super) struct Sheets {
    flows: Sheet,
    subflows: Sheet,
    links: Sheet,
    series: Sheet,
    /// What some of the points set.
    keys: Vec<String>,
    /// The named spans of time that some of the points have.
    spans: Vec<String>,
}

type Sheet = Writer<NamedTempFile>;

impl Sheets {
    /// Their names, in the order of [`Sheets::into_files`].
    pub(super) const NAMES: [&str; 4] = ["flows.csv", "subflows.csv", "links.csv", "series.csv"];

    /// Tables with headings and no rows.
    pub(super) fn create(dir: &Path, points: &[Point]) -> io::Result<Self> {
        let sets = points.iter().flat_map(|point| &point.set);
        let keys = distinct(sets.map(|(key, _)| key));
        let measures = points.iter().map(|point| &point.experiment.measure);
        let spans = measures.flat_map(|measure| &measure.spans);
        let spans = distinct(spans.map(|span| &span.name));

        let owned = |columns: &[&str]| columns.iter().map(|&name| name.to_owned()).collect();
        let mut run: Vec<String> = owned(&RUN);
        run.extend(keys.iter().map(|key| format!("set.{key}")));
        let of_runs = |columns: &[&str]| [run.clone(), owned(columns)].concat();
        let mut subflow = of_runs(&SUBFLOW);
        subflow.extend(spans.iter().map(|name| format!("goodput_bps.{name}")));
        Ok(Self {
            flows: sheet(dir, &of_runs(&FLOW))?,
            subflows: sheet(dir, &subflow)?,
            links: sheet(dir, &of_runs(&LINK))?,
            series: sheet(dir, &owned(&SERIES))?,
            keys,
            spans,
        })
    }

    /// Adds the rows of a run.
    pub(super) fn add(&mut self, job: &Job, point: &Point, run: &RunResult) -> csv::Result<()> {
        let number = (job.point + 1).to_string();
        let seed = job.seed.to_string();
        let mut head = vec![number, (job.repetition + 1).to_string(), seed];
        let value_of = |key: &String| {
            let pair = point.set.iter().find(|(set, _)| set == key);
            pair.map(|(_, value)| value.clone()).unwrap_or_default()
        };
        head.extend(self.keys.iter().map(value_of));
        let all = run.flows.iter().map(|flow| flow.goodput_bps).sum();
        for (index, flow) in run.flows.iter().enumerate() {
            let names = [group_of(&point.experiment, index), flow.name.clone()];
            let head = head.iter().chain(&names).cloned();
            self.flows
                .write_record(head.clone().chain(flow_cells(flow, all)))?;
            for subflow in &flow.subflows {
                let cells = subflow_cells(subflow, flow.goodput_bps);
                let spans = self
                    .spans
                    .iter()
                    .map(|name| span_cell(point, subflow, name));
                self.subflows
                    .write_record(head.clone().chain(cells).chain(spans))?;
            }
        }
        for link in &run.links {
            self.links
                .write_record(head.iter().cloned().chain(link_cells(link)))?;
        }
        for series in &run.series {
            self.add_series(&head[0], &head[2], series)?;
        }
        Ok(())
    }

    /// A row for each value; times without one have none.
    fn add_series(&mut self, point: &str, seed: &str, series: &Series) -> csv::Result<()> {
        let mut names = series.of.iter().map(String::as_str);
        let (of, path) = (names.next().unwrap_or(""), names.next().unwrap_or(""));
        for (n, value) in (1_u32..)
            .zip(&series.values)
            .filter(|(_, value)| value.is_finite())
        {
            let (time, value) = (number(f64::from(n) * series.interval_s), number(*value));
            self.series
                .write_record([point, seed, &series.kind, of, path, &time, &value])?;
        }
        Ok(())
    }

    /// The files, everything written.
    pub(super) fn into_files(self) -> io::Result<[NamedTempFile; 4]> {
        let file = |sheet: Sheet| {
            sheet
                .into_inner()
                .map_err(|error| io::Error::other(error.to_string()))
        };
        Ok([
            file(self.flows)?,
            file(self.subflows)?,
            file(self.links)?,
            file(self.series)?,
        ])
    }
}

fn sheet(dir: &Path, headings: &[String]) -> io::Result<Sheet> {
    let mut sheet = csv::WriterBuilder::new()
        .buffer_capacity(1 << 16)
        .from_writer(temporary(dir)?);
    sheet.write_record(headings)?;
    Ok(sheet)
}

/// Each name once, in order: a sweep's points need not all have the same.
fn distinct<'a>(names: impl Iterator<Item = &'a String>) -> Vec<String> {
    let names: IndexSet<&String> = names.collect();
    names.into_iter().cloned().collect()
}

fn group_of(experiment: &Experiment, flow: usize) -> String {
    let flow = experiment.flows.get(flow);
    let group = flow.and_then(|flow| experiment.groups.get(flow.group));
    group.map(|group| group.name.clone()).unwrap_or_default()
}

fn flow_cells(flow: &FlowResult, all: f64) -> [String; 3] {
    [
        number(flow.goodput_bps),
        number(flow.goodput_bps / all),
        number(flow.completion_s.unwrap_or(f64::NAN)),
    ]
}

fn subflow_cells(subflow: &SubflowResult, flow_bps: f64) -> [String; 9] {
    [
        subflow.path.clone(),
        number(subflow.goodput_bps),
        number(subflow.goodput_bps / flow_bps),
        number(subflow.window_mean_packets),
        number(subflow.rtt_mean_s),
        subflow.loss_events.to_string(),
        subflow.packets_sent.to_string(),
        subflow.packets_lost.to_string(),
        subflow.timeouts.to_string(),
    ]
}

/// Goodput in the span of this name, if the point has one.
fn span_cell(point: &Point, subflow: &SubflowResult, name: &str) -> String {
    let spans = &point.experiment.measure.spans;
    let index = spans.iter().position(|span| span.name == name);
    let rate = index.and_then(|index| subflow.spans_bps.get(index));
    number(rate.copied().unwrap_or(f64::NAN))
}

fn link_cells(link: &LinkResult) -> [String; 7] {
    [
        link.name.clone(),
        number(link.utilisation),
        number(link.load_bps),
        number(link.queue_mean_packets),
        link.packets_offered.to_string(),
        link.packets_dropped.to_string(),
        link.packets_marked.to_string(),
    ]
}

/// The shortest text that reads as the same number; nothing where there is nothing to say.
fn number(value: f64) -> String {
    match value.is_finite() {
        true => value.to_string(),
        false => String::new(),
    }
}

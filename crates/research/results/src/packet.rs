//! The packet level's and the stack level's results of single runs as tidy tables: one row for each
//! flow, subflow, link, transfer or sample of each run.

use indexmap::IndexSet;
use manyway_scenario::{Experiment, Percentiles, Point};
use manyway_simulate::batch::Job;
use manyway_simulate::packet::{FlowResult, LinkResult, RunResult, SubflowResult, TransferResult};

use crate::tables::{Sheet, Tables, number};

const FLOWS: &str = "flows.csv";
const SUBFLOWS: &str = "subflows.csv";
const LINKS: &str = "links.csv";
const TRANSFERS: &str = "transfers.csv";
const SERIES_OF_RUNS: &str = "series.csv";

/// The first columns of a table of runs, before those of the swept keys.
const RUN: [&str; 3] = ["point", "repetition", "seed"];
const FLOW: [&str; 5] = ["group", "flow", "goodput_bps", "share", "completion_s"];
/// The columns of the named spans of time follow these.
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
/// What the columns of percentiles end with.
const SHARES: [&str; 3] = ["p50", "p95", "p99"];
const TRANSFER: [&str; 6] = ["group", "flow", "bytes", "start_s", "took_s", "slowdown"];
const SERIES: [&str; 7] = ["point", "seed", "kind", "of", "path", "time_s", "value"];

/// The tables of runs of certain points, on which some of the columns depend.
#[derive(Debug)]
pub struct Rows {
    /// The keys that some of the points set.
    keys: Vec<String>,
    /// The named spans of time that some of the points have.
    spans: Vec<String>,
    /// Whether some flows have an end.
    finite: bool,
    /// Whether some points have percentiles.
    percentiles: Percentiles,
}

impl Rows {
    /// The tables for runs of these points.
    pub fn of(points: &[Point]) -> Self {
        let sets = points.iter().flat_map(|point| &point.set);
        let measures = points.iter().map(|point| &point.experiment.measure);
        let spans = measures.flat_map(|measure| &measure.spans);
        let mut flows = points.iter().flat_map(|point| &point.experiment.flows);
        Self {
            keys: distinct(sets.map(|(key, _)| key)),
            spans: distinct(spans.map(|span| &span.name)),
            finite: flows.any(|flow| flow.size.is_some()),
            percentiles: points.iter().fold(Percentiles::default(), |any, point| {
                let own = point.experiment.measure.percentiles;
                Percentiles {
                    rtt: any.rtt || own.rtt,
                    queue: any.queue || own.queue,
                }
            }),
        }
    }

    /// The tables with their headings.
    pub fn sheets(&self) -> Vec<Sheet> {
        let of_runs = |name, columns: &[&str]| {
            let mut sheet = Sheet::new(name, &RUN);
            let keys = self.keys.iter().map(|key| format!("set.{key}"));
            sheet.columns.extend(keys);
            let columns = columns.iter().map(|&column| column.to_owned());
            sheet.columns.extend(columns);
            sheet
        };
        let mut subflows = of_runs(SUBFLOWS, &SUBFLOW);
        let mut links = of_runs(LINKS, &LINK);
        let percentiles = |of: &str| SHARES.map(|share| format!("{of}_{share}_s"));
        if self.percentiles.rtt {
            subflows.columns.extend(percentiles("rtt"));
        }
        if self.percentiles.queue {
            links.columns.extend(percentiles("queue_delay"));
        }
        let spans = self.spans.iter().map(|name| format!("goodput_bps.{name}"));
        subflows.columns.extend(spans);
        let mut sheets = vec![of_runs(FLOWS, &FLOW), subflows, links];
        sheets.extend(self.finite.then(|| of_runs(TRANSFERS, &TRANSFER)));
        sheets.push(Sheet::new(SERIES_OF_RUNS, &SERIES));
        sheets
    }

    /// Adds the rows of a run of `point`.
    ///
    /// # Errors
    /// If a row can't be taken.
    pub fn add<T: Tables>(
        &self,
        tables: &mut T,
        job: &Job,
        point: &Point,
        run: &RunResult,
    ) -> Result<(), T::Error> {
        let number = (job.point + 1).to_string();
        let seed = job.seed.to_string();
        let mut head = vec![number, (job.repetition + 1).to_string(), seed];
        let value_of = |key: &String| {
            let pair = point.set.iter().find(|(set, _)| set == key);
            pair.map(|(_, value)| value.clone()).unwrap_or_default()
        };
        head.extend(self.keys.iter().map(value_of));
        let all = run.flows.iter().map(|flow| flow.carried_bps).sum();
        let came = run.flows.iter().enumerate();
        let came = came.filter(|(_, flow)| flow.start_s.is_some());
        for (index, flow) in came {
            let names = [group_of(&point.experiment, index), flow.name.clone()];
            let head = head.iter().chain(&names).cloned();
            tables.row(FLOWS, head.clone().chain(flow_cells(flow, all)))?;
            for transfer in &flow.transfers {
                let cells = transfer_cells(transfer);
                tables.row(TRANSFERS, head.clone().chain(cells))?;
            }
            for subflow in &flow.subflows {
                let cells = subflow_cells(subflow, flow);
                let spans = self.spans.iter();
                let spans = spans.map(|name| span_cell(point, subflow, name));
                let rtts = share_cells(self.percentiles.rtt, subflow.rtt_percentiles_s);
                let head = head.clone();
                tables.row(SUBFLOWS, head.chain(cells).chain(rtts).chain(spans))?;
            }
        }
        for link in &run.links {
            let delays = link.queue_delay_percentiles_s;
            let delays = share_cells(self.percentiles.queue, delays);
            tables.row(
                LINKS,
                head.iter().cloned().chain(link_cells(link)).chain(delays),
            )?;
        }
        for series in &run.series {
            let mut names = series.of.iter().map(String::as_str);
            let (of, path) = (names.next().unwrap_or(""), names.next().unwrap_or(""));
            let head = [&head[0], &head[2], &series.kind, of, path];
            tables.series(SERIES_OF_RUNS, &head, series.interval_s, &series.values)?;
        }
        Ok(())
    }
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
        number(while_there(flow, flow.goodput_bps)),
        number(flow.carried_bps / all),
        number(flow.completion_s().unwrap_or(f64::NAN)),
    ]
}

/// A rate of a flow, which has none in a measured time in which it wasn't there.
fn while_there(flow: &FlowResult, rate: f64) -> f64 {
    match flow.active_s > 0.0 {
        true => rate,
        false => f64::NAN,
    }
}

fn transfer_cells(transfer: &TransferResult) -> [String; 4] {
    [
        transfer.bytes.to_string(),
        number(transfer.start_s),
        number(transfer.took_s),
        number(transfer.slowdown),
    ]
}

fn subflow_cells(subflow: &SubflowResult, flow: &FlowResult) -> [String; 9] {
    let seen = |count: u64| match subflow.is_opaque() {
        true => String::new(),
        false => count.to_string(),
    };
    [
        subflow.path.clone(),
        number(while_there(flow, subflow.goodput_bps)),
        number(subflow.goodput_bps / flow.goodput_bps),
        number(subflow.window_mean_packets),
        number(subflow.rtt_mean_s),
        seen(subflow.loss_events),
        subflow.packets_sent.to_string(),
        subflow.packets_lost.to_string(),
        seen(subflow.timeouts),
    ]
}

/// Percentiles, if there are columns for them.
fn share_cells(shown: bool, of: Option<[f64; 3]>) -> impl Iterator<Item = String> + Clone {
    let cells = shown.then(|| of.unwrap_or([f64::NAN; 3]).map(number));
    cells.into_iter().flatten()
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

//! Sums up the results of single runs into the estimates of a point, one run at a time. A tally
//! keeps moments, never a run; what it reports is in [`report`](super::report).

use indexmap::IndexMap;
use manyway_scenario::{Experiment, Flow, Group, Span};
use manyway_units::Time;

use super::report::{
    FlowReport, GroupReport, LinkReport, Measured, Percentiles, SpanReport, SubflowReport,
};
use crate::measure::{Estimate, Moments, jain_of_groups, quantile};
use crate::packet::{FlowResult, LinkResult, RunResult, SubflowResult};

/// Sums up the runs of one point.
#[derive(Debug)]
pub(super) struct Tally<'a> {
    experiment: &'a Experiment,
    runs: u32,
    flows: Vec<FlowTally>,
    groups: Vec<GroupTally>,
    links: Vec<LinkTally>,
    jain: Moments,
}

#[derive(Debug, Clone, Default)]
struct FlowTally {
    /// Runs in which it started.
    started: u32,
    goodput: Moments,
    share: Moments,
    completion: Moments,
    spans: Spans,
    subflows: Vec<SubflowTally>,
}

/// How much is measured of a subflow.
const VALUES: usize = 11;

/// A subflow's moments, in the order of [`values`].
#[derive(Debug, Clone, Default)]
struct SubflowTally {
    values: [Moments; VALUES],
    spans: Spans,
}

/// Goodput in each named span of time.
#[derive(Debug, Clone, Default)]
struct Spans(Vec<Moments>);

#[derive(Debug, Clone, Default)]
struct GroupTally {
    goodput: Moments,
    min: Moments,
    median: Moments,
    max: Moments,
    total: Moments,
    share: Moments,
    jain: Moments,
    started: Moments,
    completed: Moments,
    completion: Spread,
    slowdown: Spread,
    spans: Spans,
    /// By index of the path, in the order in which members name them.
    paths: IndexMap<usize, SubflowTally>,
}

/// What each run's transfers were like.
#[derive(Debug, Clone, Default)]
struct Spread {
    mean: Moments,
    most: Moments,
    percentiles: [Moments; 3],
}

#[derive(Debug, Clone, Default)]
struct LinkTally {
    utilisation: Moments,
    load: Moments,
    queue: Moments,
    delays: [Moments; 3],
    packets: Moments,
    drops: Moments,
    drop_rate: Moments,
    marks: Moments,
}

impl<'a> Tally<'a> {
    pub(super) fn new(experiment: &'a Experiment) -> Self {
        let flow = |flow: &Flow| FlowTally {
            subflows: vec![SubflowTally::default(); flow.paths.len()],
            ..FlowTally::default()
        };
        Self {
            experiment,
            runs: 0,
            flows: experiment.flows.iter().map(flow).collect(),
            groups: vec![GroupTally::default(); experiment.groups.len()],
            links: vec![LinkTally::default(); experiment.topology.links.len()],
            jain: Moments::default(),
        }
    }

    /// Takes in one run of the experiment.
    pub(super) fn add(&mut self, run: &RunResult) {
        self.runs += 1;
        let all: f64 = run.flows.iter().map(|flow| flow.carried_bps).sum();
        for (tally, flow) in self.flows.iter_mut().zip(&run.flows) {
            tally.add(flow, all);
        }
        for (tally, group) in self.groups.iter_mut().zip(&self.experiment.groups) {
            let paths = self.experiment.flows.get(group.members.clone());
            let flows = run.flows.get(group.members.clone());
            if let (Some(paths), Some(flows)) = (paths, flows) {
                tally.add(paths, flows, all);
            }
        }
        for (tally, link) in self.links.iter_mut().zip(&run.links) {
            tally.add(link);
        }
        let there = run.flows.iter().zip(&self.experiment.flows);
        let there = there.filter(|(flow, _)| flow.active_s > 0.0);
        let each = there.map(|(result, flow)| each_of(flow, result));
        self.jain.add(or_nan(jain_of_groups(each)));
    }

    /// The means of the runs taken in so far.
    pub(super) fn measured(self) -> Measured {
        let experiment = self.experiment;
        let flows = self.flows.iter().zip(&experiment.flows);
        let groups = self.groups.iter().zip(&experiment.groups);
        let links = self.links.iter().zip(&experiment.topology.links);
        Measured {
            runs: self.runs,
            measured_from_s: seconds(experiment.measure.from),
            measured_until_s: seconds(experiment.measure.until),
            flows: flows
                .filter(|(tally, _)| tally.started > 0)
                .map(|(tally, flow)| tally.report(flow, experiment))
                .collect(),
            groups: groups
                .map(|(tally, group)| tally.report(group, experiment))
                .collect(),
            links: links
                .map(|(tally, link)| tally.report(link.name.clone()))
                .collect(),
            jain: self.jain.estimate(),
        }
    }
}

impl FlowTally {
    fn add(&mut self, flow: &FlowResult, all: f64) {
        if flow.start_s.is_none() {
            return;
        }
        self.started += 1;
        self.share.add(flow.carried_bps / all);
        let mut times = Moments::default();
        let took = flow.transfers.iter().map(|transfer| transfer.took_s);
        took.for_each(|time| times.add(time));
        self.completion.add(or_nan(times.mean()));
        self.spans.add(spans_of(flow));
        // Its rates at other times say nothing.
        if flow.active_s <= 0.0 {
            return;
        }
        self.goodput.add(flow.goodput_bps);
        for (tally, subflow) in self.subflows.iter_mut().zip(&flow.subflows) {
            tally.add(
                values(subflow, flow.goodput_bps, 1),
                subflow.spans_bps.iter().copied(),
            );
        }
    }

    fn report(&self, flow: &Flow, experiment: &Experiment) -> FlowReport {
        let subflows = self.subflows.iter().zip(&flow.paths);
        FlowReport {
            name: flow.name.clone(),
            group: experiment
                .groups
                .get(flow.group)
                .map(|group| group.name.clone())
                .unwrap_or_default(),
            count: flow.count(),
            goodput_bps: always(self.goodput),
            share: self.share.estimate(),
            completed: flow.size.as_ref().map(|_| self.completion.count()),
            completion_s: self.completion.estimate(),
            spans: self.spans.report(experiment),
            subflows: subflows
                .map(|(tally, &path)| tally.report(path, experiment))
                .collect(),
        }
    }
}

/// What is measured of a subflow, each of so many equal flows; its share is that of its flow's
/// goodput.
fn values(subflow: &SubflowResult, flow_bps: f64, flows: u32) -> [f64; VALUES] {
    let flows = f64::from(flows);
    let seen = |count: u64| match subflow.is_opaque() {
        true => f64::NAN,
        false => count as f64 / flows,
    };
    let [p50, p95, p99] = subflow.rtt_percentiles_s.unwrap_or([f64::NAN; 3]);
    [
        subflow.goodput_bps / flows,
        subflow.goodput_bps / flow_bps,
        subflow.window_mean_packets,
        subflow.rtt_mean_s,
        seen(subflow.loss_events),
        subflow.packets_sent as f64 / flows,
        subflow.packets_lost as f64 / flows,
        seen(subflow.timeouts),
        p50,
        p95,
        p99,
    ]
}

impl SubflowTally {
    fn add(&mut self, values: [f64; VALUES], spans: impl IntoIterator<Item = f64>) {
        for (moments, value) in self.values.iter_mut().zip(values) {
            moments.add(value);
        }
        self.spans.add(spans);
    }

    fn report(&self, path: usize, experiment: &Experiment) -> SubflowReport {
        let [
            goodput,
            share,
            window,
            rtt,
            loss_events,
            sent,
            lost,
            timeouts,
            rtts @ ..,
        ] = self.values;
        let path = experiment.topology.paths.get(path);
        SubflowReport {
            path: path.map(|path| path.name.clone()).unwrap_or_default(),
            goodput_bps: always(goodput),
            share: share.estimate(),
            window_mean_packets: window.estimate(),
            rtt_mean_s: rtt.estimate(),
            rtt_percentiles_s: percentiles(rtts),
            loss_events: always(loss_events),
            packets_sent: always(sent),
            packets_lost: always(lost),
            timeouts: always(timeouts),
            spans: self.spans.report(experiment),
        }
    }
}

impl Spans {
    fn add(&mut self, rates: impl IntoIterator<Item = f64>) {
        for (index, rate) in rates.into_iter().enumerate() {
            if index == self.0.len() {
                self.0.push(Moments::default());
            }
            self.0[index].add(rate);
        }
    }

    fn means(&self) -> impl Iterator<Item = f64> {
        self.0.iter().map(|span| or_nan(span.mean()))
    }

    fn report(&self, experiment: &Experiment) -> Vec<SpanReport> {
        let spans = self.0.iter().zip(&experiment.measure.spans);
        let report = |(moments, span): (&Moments, &Span)| SpanReport {
            name: span.name.clone(),
            goodput_bps: always(*moments),
        };
        spans.map(report).collect()
    }
}

/// The goodput of each flow that a row stands for, and how many there are.
fn each_of(flow: &Flow, result: &FlowResult) -> (f64, f64) {
    let count = f64::from(flow.count());
    (result.goodput_bps / count, count)
}

/// A flow's goodput in each span: its subflows' together.
fn spans_of(flow: &FlowResult) -> impl Iterator<Item = f64> {
    let spans = flow
        .subflows
        .first()
        .map_or(0, |subflow| subflow.spans_bps.len());
    let rate = |span: usize| {
        let rates = flow
            .subflows
            .iter()
            .filter_map(move |subflow| subflow.spans_bps.get(span));
        rates.sum()
    };
    (0..spans).map(rate)
}

impl GroupTally {
    /// Takes in one run's `results` of the group's `flows`.
    fn add(&mut self, flows: &[Flow], results: &[FlowResult], all: f64) {
        // Who would have come too late is nobody.
        let (flows, results): (Vec<&Flow>, Vec<&FlowResult>) = flows
            .iter()
            .zip(results)
            .filter(|(_, result)| result.start_s.is_some())
            .unzip();
        let both = || flows.iter().zip(&results);
        let count = flows.iter().map(|flow| f64::from(flow.count())).sum();
        self.started.add(count);
        // Those that were over before, or came later, have no goodput.
        let there = || both().filter(|(_, result)| result.active_s > 0.0);
        let each = there().map(|(flow, result)| each_of(flow, result));
        self.jain.add(or_nan(jain_of_groups(each.clone())));
        let mut goodputs: Vec<f64> = each.map(|(goodput, _)| goodput).collect();
        let sum: f64 = there().map(|(_, result)| result.goodput_bps).sum();
        let total: f64 = results.iter().map(|flow| flow.carried_bps).sum();
        self.total.add(total);
        self.share.add(total / all);
        let count: f64 = there().map(|(flow, _)| f64::from(flow.count())).sum();
        self.goodput.add(sum / count);
        goodputs.sort_by(f64::total_cmp);
        if let [min, .., max] | [min @ max] = goodputs[..] {
            let n = goodputs.len();
            self.min.add(min);
            self.max.add(max);
            self.median
                .add((goodputs[(n - 1) / 2] + goodputs[n / 2]) / 2.0);
        }
        let mut spans = Spans::default();
        for (flow, result) in both() {
            let flows = f64::from(flow.count());
            spans.add(spans_of(result).map(|rate| rate / flows));
        }
        self.spans.add(spans.means());
        self.add_completions(&results);
        self.add_subflows(&flows, &results);
    }

    fn add_completions(&mut self, results: &[&FlowResult]) {
        let transfers = || results.iter().flat_map(|flow| &flow.transfers);
        self.completed.add(transfers().count() as f64);
        self.completion.add(transfers().map(|done| done.took_s));
        self.slowdown.add(transfers().map(|done| done.slowdown));
    }

    /// The mean subflow over each path is one sample of the run.
    fn add_subflows(&mut self, flows: &[&Flow], results: &[&FlowResult]) {
        let mut means: IndexMap<usize, SubflowTally> = IndexMap::new();
        for (flow, result) in flows.iter().zip(results) {
            if result.active_s <= 0.0 {
                continue;
            }
            for (path, subflow) in flow.paths.iter().zip(&result.subflows) {
                let spans = subflow.spans_bps.iter();
                let spans = spans.map(|rate| rate / f64::from(flow.count()));
                let mean = means.entry(*path).or_default();
                mean.add(values(subflow, result.goodput_bps, flow.count()), spans);
            }
        }
        for (path, mean) in means {
            let values = mean.values.map(|value| or_nan(value.mean()));
            let path = self.paths.entry(path).or_default();
            path.add(values, mean.spans.means());
        }
    }

    fn report(&self, group: &Group, experiment: &Experiment) -> GroupReport {
        let members = experiment
            .flows
            .get(group.members.clone())
            .unwrap_or_default();
        let finite = members.iter().any(|flow| flow.size.is_some());
        let paths = self.paths.iter();
        GroupReport {
            name: group.name.clone(),
            count: members.iter().map(|flow| u64::from(flow.count())).sum(),
            started: self.started.estimate().filter(|_| group.stagger.is_some()),
            law: members.first().map(Flow::law_name),
            goodput_bps: always(self.goodput),
            goodput_min_bps: always(self.min),
            goodput_median_bps: always(self.median),
            goodput_max_bps: always(self.max),
            total_bps: always(self.total),
            share: self.share.estimate(),
            jain: self.jain.estimate(),
            completed: self.completed.estimate().filter(|_| finite),
            completion_s: self.completion.mean.estimate(),
            completion_max_s: self.completion.most.estimate(),
            completion_percentiles_s: percentiles(self.completion.percentiles),
            slowdown: self.slowdown.mean.estimate(),
            slowdown_percentiles: percentiles(self.slowdown.percentiles),
            spans: self.spans.report(experiment),
            subflows: paths
                .map(|(path, tally)| tally.report(*path, experiment))
                .collect(),
        }
    }
}

impl Spread {
    /// Takes in one run's values.
    fn add(&mut self, values: impl Iterator<Item = f64>) {
        let mut sorted: Vec<f64> = values.collect();
        let mut mean = Moments::default();
        sorted.iter().for_each(|value| mean.add(*value));
        sorted.sort_by(f64::total_cmp);
        self.mean.add(or_nan(mean.mean()));
        self.most.add(sorted.last().copied().unwrap_or(f64::NAN));
        for (moments, share) in self.percentiles.iter_mut().zip([0.5, 0.95, 0.99]) {
            moments.add(or_nan(quantile(&sorted, share)));
        }
    }
}

/// The median, the 95th and the 99th percentile, if there is a value.
fn percentiles(moments: [Moments; 3]) -> Option<Percentiles> {
    let [p50, p95, p99] = moments.map(|moments| moments.estimate());
    Some(Percentiles {
        p50: p50?,
        p95: p95?,
        p99: p99?,
    })
}

impl LinkTally {
    fn add(&mut self, link: &LinkResult) {
        let (packets, drops) = (link.packets_offered as f64, link.packets_dropped as f64);
        self.utilisation.add(link.utilisation);
        self.load.add(link.load_bps);
        self.queue.add(link.queue_mean_packets);
        let delays = link.queue_delay_percentiles_s.into_iter().flatten();
        for (moments, delay) in self.delays.iter_mut().zip(delays) {
            moments.add(delay);
        }
        self.packets.add(packets);
        self.drops.add(drops);
        self.drop_rate.add(drops / packets);
        self.marks.add(link.packets_marked as f64);
    }

    fn report(&self, name: String) -> LinkReport {
        LinkReport {
            name,
            utilisation: always(self.utilisation),
            load_bps: always(self.load),
            queue_mean_packets: always(self.queue),
            queue_delay_percentiles_s: percentiles(self.delays),
            packets: always(self.packets),
            drops: always(self.drops),
            drop_rate: self.drop_rate.estimate(),
            marks: always(self.marks),
        }
    }
}

/// Exact where it can be: 120 s is 120.
fn seconds(time: Time) -> f64 {
    time.since(Time::ZERO).as_secs_f64()
}

/// Nothing to say is NaN among samples: [`Moments`] leaves it out.
fn or_nan(value: Option<f64>) -> f64 {
    value.unwrap_or(f64::NAN)
}

/// The estimate of something that every run measures; a report needs at least one run.
fn always(moments: Moments) -> Estimate {
    moments.estimate().unwrap_or_default()
}

//! When to look at the counters, and what comes of it.

use std::collections::BTreeMap;

use manyway_control::SenderStats;
use manyway_network::{Link, LinkStats};
use manyway_scenario::{Experiment, Flow, Measure, SeriesKind};
use manyway_units::Time;

use super::meter::Tally;
use super::result::{FlowResult, LinkResult, Series, SubflowResult, TransferResult};
use crate::alone::Alone;
use crate::histogram::Durations;
use crate::trace::Tap;

/// What a level shows the recorder. Subflows are numbered over all flows, in the experiment's
/// order.
pub(crate) trait View {
    /// The topology's links.
    fn links(&self) -> &[Link];

    /// A flow as it stands.
    fn flow(&self, index: usize) -> FlowView;

    /// The transfers of a flow that are complete, in the order of time.
    fn transfers(&self, index: usize) -> &[Transfer];

    /// A subflow's counters as of `now`.
    fn read(&mut self, subflow: usize, now: Time) -> (Tally, SenderStats);

    /// The median, the 95th and the 99th percentile of a subflow's round-trip times in the measured
    /// time, seconds, if they are measured.
    fn rtts(&self, subflow: usize) -> Option<[f64; 3]>;

    /// A subflow's state as of `at`.
    fn sample(&mut self, subflow: usize, at: Time) -> SubflowView;
}

/// What the recorder has to know of a flow.
#[derive(Debug, Copy, Clone)]
pub(crate) struct FlowView {
    pub(crate) start: Time,
    pub(crate) stop: Time,
    pub(crate) finished: Option<Time>,
    /// Payload bytes in a unit of what its subflows deliver.
    pub(crate) unit: u32,
}

impl FlowView {
    /// Bytes of data in a unit, on the average of `delivered` ones of which so many bytes are
    /// padding.
    fn data(&self, delivered: u64, padding: u64) -> f64 {
        let all = delivered * u64::from(self.unit);
        match padding {
            0 => self.unit.into(),
            _ => all.saturating_sub(padding) as f64 / delivered.max(1) as f64,
        }
    }
}

/// Bytes that fill up the last packets of the transfers that were over between two times.
fn padding(transfers: &[Transfer], unit: u32, (from, until): (Time, Time)) -> u64 {
    let over = transfers
        .iter()
        .filter(|transfer| from < transfer.ended && transfer.ended <= until);
    let unit = u64::from(unit);
    over.map(|transfer| transfer.bytes.next_multiple_of(unit) - transfer.bytes)
        .sum()
}

/// A transfer that is complete.
#[derive(Debug, Copy, Clone)]
pub(crate) struct Transfer {
    pub(crate) bytes: u64,
    pub(crate) began: Time,
    pub(crate) ended: Time,
}

/// What the recorder samples of a subflow.
#[derive(Debug, Copy, Clone)]
pub(crate) struct SubflowView {
    /// Packets; NaN while it isn't there, but 0 for one that may be opened.
    pub(crate) window: f64,
    /// Smoothed, seconds; NaN without a sample.
    pub(crate) rtt: f64,
    /// Units delivered so far, and payload bytes in each; `None` while it isn't there.
    pub(crate) delivered: Option<(u64, u32)>,
}

/// Reads the counters at the edges of the measured time, of each span and of each interval of the
/// series.
#[derive(Debug)]
pub(crate) struct Recorder {
    measure: Measure,
    link_names: Vec<String>,
    path_names: Vec<String>,
    /// Edges not reached yet, the last first.
    edges: Vec<(Time, Edge)>,
    subflows: Vec<SubflowRecord>,
    links: Vec<LinkRecord>,
    series: Vec<Recording>,
    next_sample: Option<Time>,
    /// When the run ends.
    end: Time,
    /// How long the transfers of each flow that ends some take at least, by the flow's index.
    alone: BTreeMap<usize, Alone>,
    /// What the measured time really was.
    from: Time,
    until: Time,
}

#[derive(Debug, Copy, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Edge {
    Begin,
    BeginSpan(usize),
    EndSpan(usize),
    End,
}

/// A subflow's counters.
#[derive(Debug, Clone, Default)]
struct SubflowRecord {
    /// At the beginning; then what happened between the beginning and the end.
    measured: (Tally, SenderStats),
    /// Packets delivered: at a span's beginning, then within it.
    spans: Vec<u64>,
}

/// A link's readings at the beginning and at the end.
#[derive(Debug, Copy, Clone, Default)]
struct LinkRecord {
    begin: LinkReading,
    end: LinkReading,
}

/// A link's counters without what is still waiting.
#[derive(Debug, Copy, Clone, Default)]
struct LinkReading {
    stats: LinkStats,
    /// Bytes that have left.
    carried: u64,
}

/// One kind of series of all subflows or links.
#[derive(Debug)]
struct Recording {
    kind: SeriesKind,
    /// The counters at the last sample, where differences are recorded.
    last: Vec<u64>,
    values: Vec<Vec<f64>>,
}

impl Recorder {
    pub(crate) fn new(experiment: &Experiment) -> Self {
        let measure = experiment.measure.clone();
        let end = Time::ZERO + experiment.duration;
        let (from, until) = (measure.from.min(end), measure.until.min(end));
        let mut edges = vec![(from, Edge::Begin), (until, Edge::End)];
        for (index, span) in measure.spans.iter().enumerate() {
            edges.push((span.from.min(end), Edge::BeginSpan(index)));
            edges.push((span.until.min(end), Edge::EndSpan(index)));
        }
        edges.sort();
        edges.reverse();
        let subflows: usize = experiment.flows.iter().map(|flow| flow.paths.len()).sum();
        let links = experiment.topology.links.len();
        let series = measure.series.iter().map(|&kind| {
            let count = if of_links(kind) { links } else { subflows };
            Recording {
                kind,
                last: vec![0; count],
                values: vec![Vec::new(); count],
            }
        });
        let record = SubflowRecord {
            spans: vec![0; measure.spans.len()],
            ..SubflowRecord::default()
        };
        let topology = &experiment.topology;
        let flows = experiment.flows.iter().enumerate();
        let finite = flows.filter(|(_, flow)| flow.size.is_some());
        let alone = finite.map(|(index, flow)| (index, Alone::of(topology, flow)));
        let samples = !measure.series.is_empty() && !measure.interval.is_zero();
        Self {
            link_names: experiment
                .topology
                .links
                .iter()
                .map(|link| link.name.clone())
                .collect(),
            path_names: experiment
                .topology
                .paths
                .iter()
                .map(|path| path.name.clone())
                .collect(),
            edges,
            subflows: vec![record; subflows],
            links: vec![LinkRecord::default(); links],
            series: series.collect(),
            next_sample: samples.then_some(Time::ZERO + measure.interval),
            end,
            alone: alone.collect(),
            from,
            until,
            measure,
        }
    }

    /// When [`Recorder::on_time`] is due next.
    pub(crate) fn next(&self) -> Option<Time> {
        let edge = self.edges.last().map(|(at, _)| *at);
        edge.into_iter().chain(self.next_sample).min()
    }

    /// Reads what is due at `now`, and says when it is due again.
    pub(crate) fn on_time(&mut self, now: Time, view: &mut impl View) -> Option<Time> {
        while let Some(&(at, edge)) = self.edges.last()
            && at <= now
        {
            self.edges.pop();
            self.on_edge(now, edge, view);
        }
        while let Some(at) = self.next_sample.filter(|at| *at <= now) {
            self.sample(at, view);
            self.next_sample = Some(at + self.measure.interval);
        }
        self.next()
    }

    /// Reads what is still open: the run ends at `now`.
    pub(crate) fn finish(&mut self, now: Time, view: &mut impl View) {
        self.on_time(now, view);
        self.next_sample = None;
        while let Some((_, edge)) = self.edges.pop() {
            if matches!(edge, Edge::End | Edge::EndSpan(_)) {
                self.on_edge(now, edge, view);
            }
        }
        self.from = self.from.min(now);
        self.until = self.until.min(now);
    }

    fn on_edge(&mut self, now: Time, edge: Edge, view: &mut impl View) {
        for (index, record) in self.subflows.iter_mut().enumerate() {
            match edge {
                Edge::Begin => record.measured = view.read(index, now),
                Edge::End => record.end(view.read(index, now)),
                Edge::BeginSpan(span) => record.spans[span] = view.read(index, now).0.delivered,
                Edge::EndSpan(span) => {
                    let delivered = view.read(index, now).0.delivered;
                    record.spans[span] = delivered - record.spans[span].min(delivered);
                }
            }
        }
        for (record, link) in self.links.iter_mut().zip(view.links()) {
            match edge {
                Edge::Begin => record.begin = LinkReading::of(link, now),
                Edge::End => record.end = LinkReading::of(link, now),
                Edge::BeginSpan(_) | Edge::EndSpan(_) => {}
            }
        }
    }

    fn sample(&mut self, at: Time, view: &mut impl View) {
        let interval = self.measure.interval.as_secs_f64();
        for recording in &mut self.series {
            let kind = recording.kind;
            let values = recording.values.iter_mut().zip(&mut recording.last);
            for (index, (values, last)) in values.enumerate() {
                let mut sample = Sample { last, interval };
                values.push(match of_links(kind) {
                    true => link_value(kind, &view.links()[index], at, &mut sample),
                    false => subflow_value(kind, view.sample(index, at), &mut sample),
                });
            }
        }
    }

    pub(crate) fn flows(&self, flows: &[Flow], view: &impl View) -> Vec<FlowResult> {
        let mut records = self.subflows.iter().enumerate();
        let results = flows.iter().enumerate().map(|(index, flow)| {
            let known = view.flow(index);
            let ended = known.finished.unwrap_or(Time::MAX).min(known.stop);
            let there = (known.start, ended);
            let active = self.until.min(ended).since(self.from.max(known.start));
            let active = active.as_secs_f64();
            let measured = self.until.since(self.from).as_secs_f64();
            // Packets are full ones where data is counted in packets.
            let whole = known.unit > 1;
            let arrives = known.start < known.stop.min(self.end);
            let transfers = view.transfers(index).iter().map(|transfer| {
                let took_s = transfer.ended.since(transfer.began).as_secs_f64();
                TransferResult {
                    bytes: transfer.bytes,
                    start_s: transfer.began.as_secs_f64(),
                    took_s,
                    slowdown: took_s / self.alone[&index].seconds(transfer.bytes, whole),
                }
            });
            let own = records.by_ref().take(flow.paths.len());
            let own: Vec<(usize, &SubflowRecord)> = own.collect();
            let padding = |times| padding(view.transfers(index), known.unit, times);
            let delivered = own.iter().map(|(_, record)| record.measured.0.delivered);
            let data = known.data(delivered.sum(), padding((self.from, self.until)));
            let spans = self.measure.spans.iter().enumerate();
            let spans: Vec<f64> = spans
                .map(|(n, span)| {
                    let delivered = own.iter().map(|(_, record)| record.spans[n]);
                    known.data(delivered.sum(), padding((span.from, span.until)))
                })
                .collect();
            let mut carried_bps = 0.0;
            let subflows = flow.paths.iter().zip(own).map(|(&path, (number, record))| {
                let (tally, stats) = record.measured;
                let bits = tally.delivered as f64 * data * 8.0;
                carried_bps += per_second(bits, measured);
                SubflowResult {
                    path: self.path_names[path].clone(),
                    goodput_bps: per_second(bits, active),
                    spans_bps: self.spans(record, &spans, there),
                    window_mean_packets: tally.mean_window(),
                    rtt_mean_s: tally.mean_rtt(),
                    rtt_percentiles_s: view.rtts(number),
                    loss_events: stats.loss_events,
                    packets_sent: stats.packets_sent,
                    packets_lost: stats.packets_lost,
                    timeouts: stats.timeouts,
                    openings: tally.openings,
                    open_s: tally.active as f64 * 1e-9,
                }
            });
            let subflows: Vec<SubflowResult> = subflows.collect();
            FlowResult {
                name: flow.name.clone(),
                goodput_bps: subflows.iter().map(|subflow| subflow.goodput_bps).sum(),
                active_s: active,
                carried_bps,
                start_s: arrives.then(|| known.start.as_secs_f64()),
                transfers: transfers.collect(),
                subflows,
            }
        });
        results.collect()
    }

    /// Rates in the spans while the flow was `there`, with the bytes of data in a unit in each;
    /// NaN where it wasn't.
    fn spans(&self, record: &SubflowRecord, data: &[f64], there: (Time, Time)) -> Vec<f64> {
        let spans = self.measure.spans.iter().zip(&record.spans).zip(data);
        let rates = spans.map(|((span, &units), data)| {
            let (from, until) = (span.from.max(there.0), span.until.min(there.1));
            match from < until {
                true => units as f64 * data * 8.0 / until.since(from).as_secs_f64(),
                false => f64::NAN,
            }
        });
        rates.collect()
    }

    /// Number of links of the topology.
    pub(crate) fn links_count(&self) -> usize {
        self.link_names.len()
    }

    pub(crate) fn links(&self, tap: Option<&Tap>) -> Vec<LinkResult> {
        let seconds = self.until.since(self.from).as_secs_f64();
        let delays = tap.map_or(&[][..], Tap::delays).iter().map(Some);
        let delays = delays.chain(std::iter::repeat(None));
        let records = self.links.iter().zip(&self.link_names).zip(delays);
        let results = records.map(|((LinkRecord { begin, end }, name), delays)| {
            let (before, after) = (&begin.stats, &end.stats);
            // Of a fluid, these are rounded.
            let carried = end.carried.saturating_sub(begin.carried) as f64 * 8.0;
            let waited = after.sojourn.saturating_sub(before.sojourn);
            let busy = after.busy.saturating_sub(before.busy);
            LinkResult {
                name: name.clone(),
                utilisation: per_second(busy.as_secs_f64(), seconds),
                load_bps: per_second(carried, seconds),
                queue_mean_packets: per_second(waited.as_secs_f64(), seconds),
                queue_delay_percentiles_s: delays.map(Durations::percentiles),
                packets_offered: after.offered - before.offered,
                packets_dropped: after.dropped() - before.dropped(),
                packets_marked: after.marked - before.marked,
            }
        });
        results.collect()
    }

    pub(crate) fn series(&mut self, flows: &[Flow]) -> Vec<Series> {
        let subflows: Vec<Vec<String>> = flows
            .iter()
            .flat_map(|flow| {
                let of = |&path: &usize| vec![flow.name.clone(), self.path_names[path].clone()];
                flow.paths.iter().map(of).collect::<Vec<_>>()
            })
            .collect();
        let links: Vec<Vec<String>> = self
            .link_names
            .iter()
            .map(|name| vec![name.clone()])
            .collect();
        let interval_s = self.measure.interval.as_secs_f64();
        let mut result = Vec::new();
        for recording in self.series.drain(..) {
            let owners = if of_links(recording.kind) {
                &links
            } else {
                &subflows
            };
            result.extend(
                owners
                    .iter()
                    .zip(recording.values)
                    .map(|(of, values)| Series {
                        kind: name_of(recording.kind).to_owned(),
                        of: of.clone(),
                        interval_s,
                        values,
                    }),
            );
        }
        result
    }
}

impl SubflowRecord {
    /// The counters at the end.
    fn end(&mut self, (tally, mut stats): (Tally, SenderStats)) {
        let (before, counted) = &self.measured;
        stats.packets_sent -= counted.packets_sent;
        stats.packets_lost -= counted.packets_lost;
        stats.loss_events -= counted.loss_events;
        stats.timeouts -= counted.timeouts;
        self.measured = (tally.since(before), stats);
    }
}

impl LinkReading {
    fn of(link: &Link, now: Time) -> Self {
        Self {
            stats: link.stats_at(now),
            carried: link.carried_bytes(now),
        }
    }
}

fn subflow_value(kind: SeriesKind, known: SubflowView, sample: &mut Sample<'_>) -> f64 {
    match (kind, known.delivered) {
        (SeriesKind::Window, _) => known.window,
        (SeriesKind::Rtt, _) => known.rtt,
        (SeriesKind::Rate, Some((delivered, unit))) => {
            sample.per_second(delivered) * f64::from(unit) * 8.0
        }
        _ => f64::NAN,
    }
}

fn link_value(kind: SeriesKind, link: &Link, at: Time, sample: &mut Sample<'_>) -> f64 {
    match kind {
        SeriesKind::Queue => link.backlog_packets(at) as f64,
        SeriesKind::Load => sample.per_second(link.carried_bytes(at)) * 8.0,
        SeriesKind::Drops => sample.difference(link.stats_at(at).dropped()) as f64,
        _ => f64::NAN,
    }
}

/// What a difference is taken to.
struct Sample<'a> {
    last: &'a mut u64,
    /// Seconds.
    interval: f64,
}

impl Sample<'_> {
    fn difference(&mut self, count: u64) -> u64 {
        count.saturating_sub(std::mem::replace(self.last, count))
    }

    fn per_second(&mut self, count: u64) -> f64 {
        self.difference(count) as f64 / self.interval
    }
}

fn of_links(kind: SeriesKind) -> bool {
    match kind {
        SeriesKind::Rate | SeriesKind::Window | SeriesKind::Rtt => false,
        SeriesKind::Queue | SeriesKind::Load | SeriesKind::Drops => true,
    }
}

fn name_of(kind: SeriesKind) -> &'static str {
    match kind {
        SeriesKind::Rate => "rate",
        SeriesKind::Window => "window",
        SeriesKind::Rtt => "rtt",
        SeriesKind::Queue => "queue",
        SeriesKind::Load => "load",
        SeriesKind::Drops => "drops",
    }
}

/// `amount` per second; 0 if there was no time.
fn per_second(amount: f64, seconds: f64) -> f64 {
    if seconds > 0.0 { amount / seconds } else { 0.0 }
}

//! What a live run saw, as a result: differences between moments. A flow's goodput is what its
//! receiver read; its subflows share it by the payload that came over each.

use manyway_network::LinkStats;
use manyway_scenario::{Distribution, Experiment, SeriesKind};
use manyway_simulate::Alone;
use manyway_simulate::packet::{
    FlowResult, LinkResult, RunResult, Series, SubflowResult, TransferResult,
};
use manyway_testbed::live::{LinkReading, Moment, Outcome, SubflowReading};
use manyway_units::Time;

/// Two moments and what happened between them.
#[derive(Clone, Copy)]
struct Between<'a> {
    before: &'a Moment,
    after: &'a Moment,
}

pub(super) fn of(experiment: &Experiment, seed: u64, outcome: &Outcome) -> RunResult {
    let measure = &experiment.measure;
    let links = match Between::of(outcome, measure.from, measure.until) {
        Some(between) => links(experiment, between),
        None => Vec::new(),
    };
    let mut first = 0;
    let flows = (0..experiment.flows.len()).map(|index| {
        let flow = self::flow(experiment, outcome, index, first);
        first += experiment.flows[index].paths.len();
        flow
    });
    RunResult {
        seed,
        flows: flows.collect(),
        links,
        series: measure
            .series
            .iter()
            .flat_map(|kind| series(experiment, outcome, *kind))
            .collect(),
        complete: outcome.complete,
    }
}

impl<'a> Between<'a> {
    fn of(outcome: &'a Outcome, from: Time, until: Time) -> Option<Self> {
        let (before, after) = (outcome.at(from)?, outcome.at(until)?);
        Some(Self { before, after })
    }

    fn seconds(self) -> f64 {
        self.after
            .reading
            .at
            .since(self.before.reading.at)
            .as_secs_f64()
    }

    fn bytes(self, flow: usize) -> f64 {
        self.after.received[flow].saturating_sub(self.before.received[flow]) as f64
    }

    fn subflow(self, index: usize) -> SubflowReading {
        let before = &self.before.reading.subflows[index];
        let after = &self.after.reading.subflows[index];
        let transit = [0, 1].map(|way| {
            let (before, after) = (before.transit[way], after.transit[way]);
            (after.0 - before.0, after.1 - before.1)
        });
        SubflowReading {
            sent: after.sent - before.sent,
            // One that was under way may be lost, and one that was late may not be.
            lost: after.lost.saturating_sub(before.lost),
            payload: after.payload - before.payload,
            transit,
        }
    }

    /// A flow's goodput over each of its subflows, bits/s, if it was there for `seconds`.
    fn goodputs(self, flow: usize, subflows: &[SubflowReading], seconds: f64) -> Vec<f64> {
        let all: u64 = subflows.iter().map(|subflow| subflow.payload).sum();
        let rate = match seconds > 0.0 && all > 0 {
            true => self.bytes(flow) * 8.0 / seconds / all as f64,
            false => 0.0,
        };
        subflows
            .iter()
            .map(|subflow| subflow.payload as f64 * rate)
            .collect()
    }

    fn subflows(self, first: usize, count: usize) -> Vec<SubflowReading> {
        (first..first + count)
            .map(|index| self.subflow(index))
            .collect()
    }
}

fn flow(experiment: &Experiment, outcome: &Outcome, index: usize, first: usize) -> FlowResult {
    let flow = &experiment.flows[index];
    let count = flow.paths.len();
    let start = outcome.starts[index];
    let took = outcome.took[index].map(|took| start + took);
    let end = [flow.stop, took]
        .into_iter()
        .flatten()
        .fold(Time::MAX, Time::min);
    let goodputs = |from: Time, until: Time| {
        // It counts while it is there.
        let (begin, over) = (from.max(start), until.min(end));
        match Between::of(outcome, begin, until) {
            Some(between) if over > begin => {
                let seconds = match over < until {
                    true => over.since(between.before.reading.at).as_secs_f64(),
                    false => between.seconds(),
                };
                between.goodputs(index, &between.subflows(first, count), seconds)
            }
            _ => vec![f64::NAN; count],
        }
    };
    let measure = &experiment.measure;
    let rates = goodputs(measure.from, measure.until);
    let spans: Vec<Vec<f64>> = measure
        .spans
        .iter()
        .map(|span| goodputs(span.from, span.until))
        .collect();
    let between = Between::of(outcome, measure.from, measure.until);
    let subflow = |n: usize| {
        let counts = between
            .map(|between| between.subflow(first + n))
            .unwrap_or_default();
        let mean = |(sum, number): (f64, u64)| sum / number as f64;
        SubflowResult {
            path: experiment.topology.paths[flow.paths[n]].name.clone(),
            goodput_bps: rates[n],
            spans_bps: spans.iter().map(|span| span[n]).collect(),
            window_mean_packets: f64::NAN,
            rtt_mean_s: mean(counts.transit[0]) + mean(counts.transit[1]),
            rtt_percentiles_s: None,
            loss_events: 0,
            packets_sent: counts.sent,
            packets_lost: counts.lost,
            timeouts: 0,
            openings: 1,
            open_s: between.map_or(0.0, Between::seconds),
        }
    };
    let size = flow.size.as_ref().and_then(Distribution::fixed);
    let transfer = outcome.took[index].zip(size).map(|(took, bytes)| {
        let alone = Alone::of(&experiment.topology, flow).seconds(bytes, false);
        TransferResult {
            bytes,
            start_s: start.as_secs_f64(),
            took_s: took.as_secs_f64(),
            slowdown: took.as_secs_f64() / alone,
        }
    });
    FlowResult {
        name: flow.name.clone(),
        goodput_bps: rates.iter().sum(),
        active_s: (measure.until.min(end).since(measure.from.max(start))).as_secs_f64(),
        carried_bps: between.map_or(0.0, |all| all.bytes(index) * 8.0 / all.seconds()),
        start_s: Some(start.as_secs_f64()),
        transfers: transfer.into_iter().collect(),
        subflows: (0..count).map(subflow).collect(),
    }
}

fn links(experiment: &Experiment, between: Between<'_>) -> Vec<LinkResult> {
    let seconds = between.seconds();
    let readings = between
        .before
        .reading
        .links
        .iter()
        .zip(&between.after.reading.links);
    let named = experiment.topology.links.iter().zip(readings);
    let one =
        |(link, (before, after)): (&manyway_network::NamedLink, (&LinkReading, &LinkReading))| {
            let (a, b): (&LinkStats, &LinkStats) = (&before.stats, &after.stats);
            let load_bps = (after.carried - before.carried) as f64 * 8.0 / seconds;
            LinkResult {
                name: link.name.clone(),
                utilisation: b.busy.saturating_sub(a.busy).as_secs_f64() / seconds,
                load_bps,
                queue_mean_packets: b.sojourn.saturating_sub(a.sojourn).as_secs_f64() / seconds,
                queue_delay_percentiles_s: None,
                packets_offered: b.offered - a.offered,
                packets_dropped: b.dropped() - a.dropped(),
                packets_marked: b.marked - a.marked,
            }
        };
    named.map(one).collect()
}

/// The series of one kind; nobody sees windows and the senders' round-trip times.
fn series(experiment: &Experiment, outcome: &Outcome, kind: SeriesKind) -> Vec<Series> {
    let interval = experiment.measure.interval;
    let mut ends = vec![Time::ZERO];
    while let Some(last) = ends.last().copied()
        && last + interval <= Time::ZERO + experiment.duration
    {
        ends.push(last + interval);
    }
    let steps: Vec<Between<'_>> = ends
        .windows(2)
        .filter_map(|two| Between::of(outcome, two[0], two[1]))
        .collect();
    let series = |name: &str, of: Vec<String>, value: &dyn Fn(Between<'_>) -> f64| Series {
        kind: name.to_owned(),
        of,
        interval_s: interval.as_secs_f64(),
        values: steps.iter().map(|step| value(*step)).collect(),
    };
    let per_link = |name: &str, value: fn(&LinkReading, &LinkReading, f64) -> f64| {
        let named = experiment.topology.links.iter().enumerate();
        let one = |(index, link): (usize, &manyway_network::NamedLink)| {
            series(name, vec![link.name.clone()], &|step: Between<'_>| {
                let (before, after) = (&step.before.reading, &step.after.reading);
                value(&before.links[index], &after.links[index], step.seconds())
            })
        };
        named.map(one).collect()
    };
    match kind {
        SeriesKind::Rate => {
            let mut all = Vec::new();
            let mut first = 0;
            for (index, flow) in experiment.flows.iter().enumerate() {
                let count = flow.paths.len();
                for (n, path) in flow.paths.iter().enumerate() {
                    let path = experiment.topology.paths[*path].name.clone();
                    all.push(series("rate", vec![flow.name.clone(), path], &|step| {
                        let subflows = step.subflows(first, count);
                        step.goodputs(index, &subflows, step.seconds())[n]
                    }));
                }
                first += count;
            }
            all
        }
        SeriesKind::Queue => per_link("queue", |_, after, _| after.backlog as f64),
        SeriesKind::Load => per_link("load", |before, after, seconds| {
            (after.carried - before.carried) as f64 * 8.0 / seconds
        }),
        SeriesKind::Drops => per_link("drops", |before, after, _| {
            (after.stats.dropped() - before.stats.dropped()) as f64
        }),
        SeriesKind::Window | SeriesKind::Rtt => Vec::new(),
    }
}

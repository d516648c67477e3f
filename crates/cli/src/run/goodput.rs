//! What levels have in common: the goodput of each group of flows in each part of the time, as
//! `manyway compare` puts it side by side. This module defines that and means over flows and time;
//! it asks no level.

use std::collections::BTreeMap;
use std::ops::Range;

use manyway_scenario::{Experiment, Flow};
use manyway_simulate::batch::{Measured, Report, SpanReport};
use manyway_simulate::measure::Estimate;
use manyway_units::Time;

/// What a goodput is of, at a point of the sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Of {
    /// Index of the point.
    pub(super) point: usize,
    /// Index in [`parts`].
    pub(super) part: usize,
    /// Index of the group.
    pub(super) group: usize,
    /// Index of the path in the group's flows; `None` for all of its mean flow.
    pub(super) path: Option<usize>,
}

/// What a level says, for one column beside those of others.
#[derive(Debug, Clone, Default)]
pub(crate) struct Column {
    /// The level's name, or another one for something more that it says.
    pub(super) name: &'static str,
    /// Goodput of a group's mean flow, bits/s; what is missing isn't known.
    pub(super) goodputs: BTreeMap<Of, Estimate>,
}

/// A part of the time that is compared.
#[derive(Debug, Clone)]
pub(super) struct Part {
    /// The span's name, if it has one.
    pub(super) name: Option<String>,
    pub(super) from: Time,
    pub(super) until: Time,
}

/// The spans that the scenario names, or else all of the measured time.
pub(super) fn parts(experiment: &Experiment) -> Vec<Part> {
    let measure = &experiment.measure;
    let named = measure.spans.iter().map(|span| Part {
        name: Some(span.name.clone()),
        from: span.from,
        until: span.until,
    });
    let named: Vec<Part> = named.collect();
    match named.is_empty() {
        true => vec![Part {
            name: None,
            from: measure.from,
            until: measure.until,
        }],
        false => named,
    }
}

impl Column {
    /// The column of a level that simulates.
    pub(crate) fn measured(report: &Report) -> Self {
        let mut column = Self {
            name: report.level.name(),
            goodputs: BTreeMap::new(),
        };
        for (swept, measured) in report.points() {
            let point = swept.map_or(0, |swept| swept.point as usize - 1);
            column.enter_measured(point, measured);
        }
        column
    }

    fn enter_measured(&mut self, point: usize, measured: &Measured) {
        for (group, report) in measured.groups.iter().enumerate() {
            let of = |path| Of {
                point,
                part: 0,
                group,
                path,
            };
            self.enter_parts(of(None), report.goodput_bps, &report.spans);
            for (n, subflow) in report.subflows.iter().enumerate() {
                self.enter_parts(of(Some(n)), subflow.goodput_bps, &subflow.spans);
            }
        }
    }

    fn enter_parts(&mut self, of: Of, whole: Estimate, spans: &[SpanReport]) {
        let spans = spans.iter().enumerate();
        let mut known: Vec<(Of, Estimate)> = spans
            .map(|(part, span)| (Of { part, ..of }, span.goodput_bps))
            .collect();
        if known.is_empty() {
            known.push((of, whole));
        }
        // Who wasn't there has none.
        let known = known.into_iter().filter(|(_, goodput)| goodput.n > 0);
        self.goodputs.extend(known);
    }

    /// Enters what a level computes for a point's subflows: `rate` gets a part of the time, a flow
    /// and the index of one of its paths, and gives bits/s without headers.
    pub(super) fn enter_computed(
        &mut self,
        point: usize,
        experiment: &Experiment,
        rate: impl Fn(usize, usize, usize) -> Option<f64>,
    ) {
        for part in 0..parts(experiment).len() {
            for (group, known) in experiment.groups.iter().enumerate() {
                let members = || known.members.clone();
                let paths = members()
                    .next()
                    .map_or(0, |n| experiment.flows[n].paths.len());
                let of = |path| Of {
                    point,
                    part,
                    group,
                    path,
                };
                let all = members().map(|flow| {
                    let rates = (0..paths).filter_map(|path| rate(part, flow, path));
                    rates.reduce(|sum, rate| sum + rate)
                });
                let mut enter = |of, mean: Option<f64>| {
                    let estimate = mean.map(|mean| Estimate {
                        mean,
                        ci95: None,
                        n: 1,
                    });
                    self.goodputs
                        .extend(estimate.map(|estimate| (of, estimate)));
                };
                enter(of(None), mean(all));
                for path in 0..paths {
                    let each = members().map(|flow| rate(part, flow, path));
                    enter(of(Some(path)), mean(each));
                }
            }
        }
    }
}

/// The mean of those that are known.
fn mean(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let known: Vec<f64> = values.flatten().collect();
    (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
}

/// The mean of what holds from one moment to the next over those of a part of the time in which a
/// flow is there; `None` if it never is.
pub(super) fn over_time(
    part: &Part,
    flow: &Flow,
    values: impl Iterator<Item = (Range<Time>, f64)>,
) -> Option<f64> {
    let (begin, end) = (part.from.max(flow.start), part.until);
    let end = end.min(flow.stop.unwrap_or(Time::MAX));
    let mut sum = 0.0;
    for (when, value) in values {
        let (from, until) = (when.start.max(begin), when.end.min(end));
        if from < until {
            sum += value * until.since(from).as_secs_f64();
        }
    }
    (begin < end).then(|| sum / end.since(begin).as_secs_f64())
}

#[cfg(test)]
mod tests {
    use manyway_scenario::Scenario;

    use super::*;

    fn flow() -> Flow {
        let text = "name = \"one\"\nduration = \"4 s\"\n\
                    [links.a]\nrate = \"1 Mbps\"\ndelay = \"1 ms\"\n\
                    [paths.a]\nlinks = [\"a\"]\n\
                    [flows.one]\nlaw = \"reno\"\npaths = [\"a\"]\n";
        let scenario = Scenario::parse(text, "one.toml").unwrap();
        scenario.points().unwrap()[0].experiment.flows[0].clone()
    }

    #[test]
    fn a_mean_over_time_is_of_the_time_in_which_the_flow_is_there() {
        let at = |ms| Time::from_millis(ms);
        let part = Part {
            name: None,
            from: at(1000),
            until: at(4000),
        };
        let mut flow = flow();
        let mean = |flow: &Flow| {
            let values = [
                (at(0)..at(2000), 1.0),
                (at(2000)..at(3500), 0.0),
                (at(3500)..at(9000), 4.0),
                (at(9000)..at(9500), 100.0),
            ];
            over_time(&part, flow, values.into_iter())
        };
        assert_eq!(mean(&flow), Some(1.0));
        flow.start = at(3000);
        assert_eq!(mean(&flow), Some(2.0));
        flow.stop = Some(at(3500));
        assert_eq!(mean(&flow), Some(0.0));
        flow.stop = Some(at(3000));
        assert_eq!(mean(&flow), None);
    }
}

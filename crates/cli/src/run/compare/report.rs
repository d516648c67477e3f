//! The comparison as programs read it: the object that `--json` prints. All rates are without
//! headers. This module orders what the levels say and computes the differences between them.

use indexmap::IndexMap;
use manyway_scenario::{Experiment, Point};
use manyway_simulate::measure::Estimate;
use manyway_units::Time;
use serde::Serialize;

use crate::run::goodput::{Column, Of, Part, parts};

/// What a level says.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) columns: Vec<Column>,
    pub(super) remarks: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Comparison {
    pub(super) scenario: String,
    /// The columns, in their order: each differs from the one before it.
    pub(super) levels: Vec<&'static str>,
    seed: u64,
    /// Repetitions of each point at the levels that simulate.
    pub(super) repeat: u32,
    pub(super) points: Vec<PointResult>,
    pub(super) remarks: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct PointResult {
    /// What the sweep sets here.
    pub(super) set: IndexMap<String, String>,
    pub(super) parts: Vec<PartResult>,
}

/// A part of the time: a named span, or all that is measured.
#[derive(Debug, Serialize)]
pub(super) struct PartResult {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    pub(super) from_s: f64,
    pub(super) until_s: f64,
    pub(super) groups: Vec<Group>,
}

#[derive(Debug, Serialize)]
pub(super) struct Group {
    pub(super) name: String,
    pub(super) count: usize,
    pub(super) law: String,
    /// Of its mean flow; without those levels that have none.
    pub(super) levels: Levels,
    pub(super) subflows: Vec<Subflow>,
}

#[derive(Debug, Serialize)]
pub(super) struct Subflow {
    pub(super) path: String,
    pub(super) levels: Levels,
}

pub(super) type Levels = IndexMap<&'static str, Value>;

/// What is less than this part of the goodput beside it counts as none.
const NOTHING: f64 = 1e-6;

/// What one level has.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Value {
    /// Bits/s without headers.
    pub(super) goodput_bps: Estimate,
    /// From the level before it that has a value; null for the first.
    pub(super) difference: Option<Difference>,
}

/// How far a level is from another one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Difference {
    /// Over the other one's goodput.
    pub(super) relative: f64,
    /// Half the width of its 95 % confidence interval, by that of both means; null without any.
    pub(super) ci95: Option<f64>,
}

/// A line of a table.
pub(super) struct Row<'a> {
    pub(super) group: &'a str,
    pub(super) count: usize,
    pub(super) law: &'a str,
    /// The only path, or that of a subflow; `None` for all of a flow with several.
    pub(super) path: Option<&'a str>,
    pub(super) is_subflow: bool,
    pub(super) levels: &'a Levels,
}

impl Answer {
    /// A level that has nothing to say but this.
    pub(super) fn remark(text: String) -> Self {
        Self {
            columns: Vec::new(),
            remarks: vec![text],
        }
    }
}

impl Comparison {
    pub(super) fn new(
        (scenario, seed, repeat): (String, u64, u32),
        points: &[Point],
        answers: &[Answer],
    ) -> Self {
        let columns = || answers.iter().flat_map(|answer| &answer.columns);
        let mut remarks = Vec::new();
        for remark in answers.iter().flat_map(|answer| &answer.remarks) {
            if !remarks.contains(remark) {
                remarks.push(remark.clone());
            }
        }
        let point = |(n, point): (usize, &Point)| {
            let known = |of: Of| {
                let of = Of { point: n, ..of };
                let values = columns().filter_map(|column| {
                    column
                        .goodputs
                        .get(&of)
                        .map(|goodput| (column.name, *goodput))
                });
                side_by_side(values)
            };
            PointResult {
                set: point.set.iter().cloned().collect(),
                parts: parts(&point.experiment)
                    .iter()
                    .enumerate()
                    .map(|(n, part)| PartResult::new(&point.experiment, n, part, known))
                    .collect(),
            }
        };
        Self {
            scenario,
            levels: columns().map(|column| column.name).collect(),
            seed,
            repeat,
            points: points.iter().enumerate().map(point).collect(),
            remarks,
        }
    }
}

impl PartResult {
    fn new(experiment: &Experiment, part: usize, is: &Part, known: impl Fn(Of) -> Levels) -> Self {
        let seconds = |time: Time| time.since(Time::ZERO).as_secs_f64();
        let group = |(group, known_as): (usize, &manyway_scenario::Group)| {
            let first = experiment.flows.get(known_as.members.start)?;
            let of = |path| Of {
                point: 0,
                part,
                group,
                path,
            };
            let subflow = |(n, &path): (usize, &usize)| Subflow {
                path: experiment.topology.paths[path].name.clone(),
                levels: known(of(Some(n))),
            };
            (!known_as.members.is_empty()).then(|| Group {
                name: known_as.name.clone(),
                count: known_as.members.len(),
                law: first.law_name(),
                levels: known(of(None)),
                subflows: first.paths.iter().enumerate().map(subflow).collect(),
            })
        };
        Self {
            name: is.name.clone(),
            from_s: seconds(is.from),
            until_s: seconds(is.until),
            groups: experiment
                .groups
                .iter()
                .enumerate()
                .filter_map(group)
                .collect(),
        }
    }

    /// A row for each group that sends, and for each of its paths where there are several.
    pub(super) fn rows(&self) -> Vec<Row<'_>> {
        let sends = |levels: &Levels| levels.values().any(|value| value.goodput_bps.mean > 0.0);
        let mut rows = Vec::new();
        for group in self.groups.iter().filter(|group| sends(&group.levels)) {
            let row = |path, is_subflow, levels| Row {
                group: &group.name,
                count: group.count,
                law: &group.law,
                path,
                is_subflow,
                levels,
            };
            match group.subflows.as_slice() {
                [only] => rows.push(row(Some(&*only.path), false, &group.levels)),
                several => {
                    rows.push(row(None, false, &group.levels));
                    let each = several.iter();
                    rows.extend(each.map(|it| row(Some(&*it.path), true, &it.levels)));
                }
            }
        }
        rows
    }
}

/// Each value with its difference from the one before.
fn side_by_side(values: impl Iterator<Item = (&'static str, Estimate)>) -> Levels {
    let mut before: Option<Estimate> = None;
    let levels = values.map(|(name, goodput_bps)| {
        let difference = before.and_then(|before| Difference::of(goodput_bps, before));
        before = Some(goodput_bps);
        let value = Value {
            goodput_bps,
            difference,
        };
        (name, value)
    });
    levels.collect()
}

impl Difference {
    /// `None` from nothing, or from what a solver leaves of it.
    fn of(one: Estimate, other: Estimate) -> Option<Self> {
        let ratio = one.mean / other.mean;
        // By the ratio's linear approximation; the two means are independent.
        let share = |estimate: Estimate| estimate.ci95.map(|ci95| ci95 / estimate.mean);
        let ci95 = match (share(one), share(other)) {
            (None, None) => None,
            (one, other) => Some(ratio * one.unwrap_or(0.0).hypot(other.unwrap_or(0.0))),
        };
        (other.mean > NOTHING * one.mean).then(|| Self {
            relative: ratio - 1.0,
            ci95: ci95.filter(|ci95| ci95.is_finite()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_level_differs_from_the_one_before() {
        let estimate = |mean, ci95| Estimate { mean, ci95, n: 5 };
        let levels = side_by_side(
            [
                ("fluid", estimate(10.0, None)),
                ("packet", estimate(8.0, Some(0.4))),
                ("stack", estimate(12.0, Some(0.8))),
                ("nothing", estimate(0.0, Some(0.0))),
                ("after nothing", estimate(1.0, Some(0.1))),
                ("next to nothing", estimate(1e-7, None)),
                ("after that", estimate(1.0, None)),
            ]
            .into_iter(),
        );
        let of = |name: &str| levels[name].difference;
        assert_eq!(of("fluid"), None);
        let packet = of("packet").unwrap();
        assert!((packet.relative + 0.2).abs() < 1e-12, "{packet:?}");
        assert!((packet.ci95.unwrap() - 0.04).abs() < 1e-12, "{packet:?}");
        let stack = of("stack").unwrap();
        assert!((stack.relative - 0.5).abs() < 1e-12, "{stack:?}");
        // 1.5 times the root of 0.05² + (1/15)².
        assert!((stack.ci95.unwrap() - 0.125).abs() < 1e-12, "{stack:?}");
        assert_eq!(of("nothing").unwrap().relative, -1.0);
        assert_eq!(of("after nothing"), None);
        assert_eq!(of("after that"), None);
    }
}

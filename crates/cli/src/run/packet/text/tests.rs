use manyway_simulate::batch::{
    FlowReport, GroupReport, Level, LinkReport, Measured, Percentiles, PointReport, Report,
    Results, SpanReport, SubflowReport,
};
use manyway_simulate::measure::Estimate;

use super::*;

/// Values that look like a run's; with `repeated`, a confidence interval of a twentieth of each.
struct Sample {
    repeated: bool,
}

impl Sample {
    fn estimate(&self, mean: f64) -> Estimate {
        self.within(mean, mean / 20.0)
    }

    fn within(&self, mean: f64, ci95: f64) -> Estimate {
        Estimate {
            mean,
            ci95: self.repeated.then_some(ci95),
            n: if self.repeated { 20 } else { 1 },
        }
    }

    fn subflow(&self, path: &str, mbps: f64, share: f64) -> SubflowReport {
        let lost = if self.repeated { 31.4 } else { 31.0 };
        SubflowReport {
            path: path.to_owned(),
            goodput_bps: self.estimate(mbps * 1e6),
            share: Some(self.estimate(share)),
            window_mean_packets: Some(self.estimate(mbps * 4.25)),
            rtt_mean_s: (mbps > 0.0).then_some(self.estimate(0.0525)),
            rtt_percentiles_s: None,
            loss_events: self.estimate(lost),
            packets_sent: self.estimate(1e5),
            packets_lost: self.estimate(lost),
            timeouts: self.estimate(0.0),
            spans: Vec::new(),
        }
    }

    fn flow(&self, name: &str, paths: &[(&str, f64)], all: f64) -> FlowReport {
        let mbps: f64 = paths.iter().map(|(_, mbps)| mbps).sum();
        let subflow = |(path, of): &(&str, f64)| self.subflow(path, *of, of / mbps);
        FlowReport {
            name: name.to_owned(),
            group: name.split('.').next().unwrap_or(name).to_owned(),
            count: 1,
            goodput_bps: self.estimate(mbps * 1e6),
            share: Some(self.estimate(mbps / all)),
            completed: None,
            completion_s: None,
            spans: Vec::new(),
            subflows: paths.iter().map(subflow).collect(),
        }
    }

    fn percentiles(&self, values: [f64; 3]) -> Percentiles {
        let [p50, p95, p99] = values.map(|value| self.estimate(value));
        Percentiles { p50, p95, p99 }
    }

    /// `count` flows like `flow`.
    fn group(&self, law: &str, count: u64, flow: &FlowReport) -> GroupReport {
        let share = flow.share.map(|share| share.mean * count as f64);
        let goodput = flow.goodput_bps.mean;
        GroupReport {
            name: flow.group.clone(),
            count,
            started: None,
            law: Some(law.to_owned()),
            goodput_bps: flow.goodput_bps,
            goodput_min_bps: self.estimate(goodput * 0.75),
            goodput_median_bps: self.estimate(goodput),
            goodput_max_bps: self.estimate(goodput * 1.25),
            total_bps: self.estimate(goodput * count as f64),
            share: share.map(|share| self.estimate(share)),
            jain: Some(self.estimate(0.96)),
            completed: flow
                .completed
                .map(|completed| self.estimate(f64::from(completed) / 20.0 * count as f64)),
            completion_s: flow.completion_s,
            completion_max_s: flow
                .completion_s
                .map(|time| self.estimate(time.mean * 1.25)),
            completion_percentiles_s: flow
                .completion_s
                .map(|time| self.percentiles([time.mean, time.mean * 1.1, time.mean * 1.2])),
            slowdown: flow.completion_s.map(|_| self.estimate(2.3)),
            slowdown_percentiles: flow.completion_s.map(|_| self.percentiles([2.0, 3.1, 4.4])),
            spans: Vec::new(),
            subflows: flow.subflows.clone(),
        }
    }

    fn link(&self, name: &str, drops: f64, marks: f64) -> LinkReport {
        LinkReport {
            name: name.to_owned(),
            utilisation: self.within(0.9921, 0.01 / 20.0),
            load_bps: self.within(59.526e6, 6e5 / 20.0),
            queue_mean_packets: self.estimate(62.73),
            queue_delay_percentiles_s: None,
            packets: self.estimate(5e5),
            drops: self.estimate(drops),
            drop_rate: Some(self.estimate(drops / 5e5)),
            marks: self.estimate(marks),
        }
    }

    fn report(&self, results: Results) -> Report {
        Report {
            scenario: "two bottlenecks".to_owned(),
            level: Level::Packet,
            seed: 7,
            repeat: if self.repeated { 20 } else { 1 },
            unfinished: 0,
            results,
        }
    }

    fn measured(&self, flows: Vec<FlowReport>, groups: Vec<GroupReport>) -> Measured {
        Measured {
            runs: if self.repeated { 20 } else { 1 },
            measured_from_s: 10.0,
            measured_until_s: 120.0,
            flows,
            groups,
            links: vec![
                self.link("first", 1038.0, 0.0),
                self.link("second", 3289.0, 0.0),
            ],
            jain: Some(self.estimate(0.777)),
        }
    }

    /// Two flows, one of them over two paths; groups of their own.
    fn few(&self) -> Measured {
        let multi = self.flow("multi", &[("first", 15.08), ("second", 0.99)], 22.5);
        let mut single = self.flow("single", &[("second", 6.43)], 22.5);
        single.completed = Some(if self.repeated { 17 } else { 1 });
        single.completion_s = Some(self.estimate(42.5));
        let groups = vec![
            self.group("balia", 1, &multi),
            self.group("ewtcp:a=0.25", 1, &single),
        ];
        self.measured(vec![multi, single], groups)
    }

    /// Two hundred flows in two groups.
    fn many(&self) -> Measured {
        let multi = self.flow("multi", &[("first", 5.88), ("second", 2.56)], 1178.0);
        let single = self.flow("single", &[("second", 3.34)], 1178.0);
        let groups = vec![
            self.group("lia", 100, &multi),
            self.group("reno", 100, &single),
        ];
        let flows = std::iter::repeat_n(multi, 100).chain(std::iter::repeat_n(single, 100));
        self.measured(flows.collect(), groups)
    }

    fn sweep(&self, points: impl IntoIterator<Item = (&'static str, Measured)>) -> Report {
        let points = (1..)
            .zip(points)
            .map(|(point, (law, measured))| PointReport {
                point,
                set: [("law".to_owned(), law.to_owned())].into_iter().collect(),
                measured,
            });
        self.report(Results::Sweep {
            points: points.collect(),
        })
    }
}

const ONCE: Sample = Sample { repeated: false };
const OFTEN: Sample = Sample { repeated: true };

#[test]
fn a_sweep_of_one_point_has_no_plural() {
    let text = summary(&ONCE.sweep([("lia", ONCE.few())]));
    assert!(!text.contains("point"), "{text}");
}

#[test]
fn few_flows_are_shown_one_by_one() {
    insta::assert_snapshot!("once", summary(&ONCE.report(Results::Point(ONCE.few()))));
    insta::assert_snapshot!("often", summary(&OFTEN.report(Results::Point(OFTEN.few()))));
}

#[test]
fn many_flows_are_shown_by_group() {
    insta::assert_snapshot!("many", summary(&ONCE.report(Results::Point(ONCE.many()))));
}

#[test]
fn spans_transfers_and_marks_have_columns() {
    let mut measured = OFTEN.many();
    for group in &mut measured.groups {
        let span = |name: &str, mbps: f64| SpanReport {
            name: name.to_owned(),
            goodput_bps: OFTEN.within(mbps * 1e6, 2e4),
        };
        group.spans = vec![span("alone", 2.5), span("shared", 1.25)];
    }
    measured.groups[1].completed = Some(OFTEN.estimate(99.5));
    measured.groups[1].completion_s = Some(ONCE.estimate(0.0581));
    measured.groups[1].completion_max_s = Some(ONCE.estimate(0.62));
    measured.links[0].marks = OFTEN.within(12.5, 0.0);
    insta::assert_snapshot!(
        "columns",
        summary(&OFTEN.report(Results::Point(measured.clone())))
    );
    let sweep = OFTEN.sweep([("lia", OFTEN.many()), ("balia", measured)]);
    insta::assert_snapshot!("sweep", summary(&sweep));
}

#[test]
fn percentiles_have_tables() {
    let mut measured = ONCE.few();
    let rtts = ONCE.percentiles([0.0501, 0.0612, 0.1834]);
    let subflows = measured
        .groups
        .iter_mut()
        .flat_map(|group| &mut group.subflows);
    subflows.for_each(|subflow| subflow.rtt_percentiles_s = Some(rtts));
    let delays = ONCE.percentiles([0.0021, 0.0142, 0.0153]);
    measured.links[1].queue_delay_percentiles_s = Some(delays);
    insta::assert_snapshot!(
        "percentiles",
        summary(&ONCE.report(Results::Point(measured)))
    );
}

#[test]
fn what_is_left_out_is_said() {
    let mut measured = ONCE.many();
    measured.groups = std::iter::repeat_n(measured.groups[0].clone(), 25).collect();
    measured.links = (1..=30)
        .map(|n| ONCE.link(&format!("link {n}"), 0.0, 0.0))
        .collect();
    let text = summary(&ONCE.report(Results::Point(measured.clone())));
    assert!(text.contains("5 more groups are in --json."), "{text}");
    assert!(text.ends_with("10 more links are in --json."), "{text}");
    let text = summary(&ONCE.sweep([("lia", measured)]));
    assert!(
        text.contains("link 4") && !text.contains("link 5"),
        "{text}"
    );
    assert!(text.ends_with("--json has all groups and links."), "{text}");
}

#[test]
fn nothing_to_say_is_a_dash() {
    let idle = ONCE.flow("idle", &[("first", 0.0)], 0.0);
    let mut idle = ONCE.measured(
        vec![idle.clone(), idle.clone()],
        vec![ONCE.group("lia", 2, &idle)],
    );
    idle.jain = None;
    let text = summary(&ONCE.report(Results::Point(idle)));
    assert!(text.contains("goodput: -"), "{text}");
    assert!(!text.contains("NaN 0") && !text.contains("inf"), "{text}");
}

#[test]
fn a_stop_shows_in_the_summary() {
    let mut second = OFTEN.many();
    second.runs = 3;
    second.measured_until_s = 60.0;
    let mut report = OFTEN.sweep([("lia", OFTEN.many()), ("balia", second)]);
    report.unfinished = 37;
    let text = summary(&report);
    let (head, table) = text.split_once("\n\n").unwrap();
    assert!(
        head.ends_with("; STOPPED: 23 of 60 runs are over"),
        "{head}"
    );
    assert!(!head.contains("measured from"), "the points differ: {head}");
    let runs: Vec<&str> = table
        .lines()
        .take(3)
        .filter_map(|row| row.split_whitespace().nth(1))
        .collect();
    assert_eq!(runs, ["runs", "20", "3"]);
}

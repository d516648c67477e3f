use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use manyway_control::LawSpec;
use manyway_control::{Options, SenderConfig};
use manyway_network::{LinkConfig, NamedLink, PathSpec, Topology};
use manyway_scenario::{AckPolicy, Experiment, Flow, Group, Measure, Point, Session, Span};
use manyway_units::{Rate, Time};
use proptest::prelude::*;

use super::*;
use crate::measure::{Estimate, Summary, jain};
use crate::packet::{FlowResult, LinkResult, Series, SubflowResult, TransferResult};

/// Two paths over a link each; `pairs` flows over both in the group `mp`, one transfer of 1 MB over
/// the second in `sp`.
fn experiment(pairs: usize) -> Experiment {
    let flow = |group: usize, name: String, paths: Range<usize>| Flow {
        name,
        group,
        law: LawSpec::new(["lia", "reno"][group], []).unwrap(),
        kernel: None,
        options: Options::default(),
        lifetimes: vec![Default::default(); paths.len()],
        paths: paths.collect(),
        access: None,
        extra_delay: Duration::ZERO,
        extra_return: Duration::ZERO,
        start: Time::ZERO,
        start_spread: Duration::from_millis(100),
        stop: None,
        size: (group == 1).then_some(1_000_000.into()),
        pause: None,
        rate: None,
        unresponsive: false,
        fluid: None,
        headers: 40,
        jitter: Duration::ZERO,
        sender: SenderConfig::default(),
        ack: AckPolicy {
            every: 1,
            max_delay: Duration::ZERO,
            bytes: 40,
            times: true,
        },
        ecn: false,
        l4s: false,
        class: 0,
        session: Session::default(),
        relays: None,
    };
    let mut flows: Vec<Flow> = (1..=pairs)
        .map(|n| flow(0, format!("mp.{n}"), 0..2))
        .collect();
    flows.push(flow(1, "sp".to_owned(), 1..2));
    let numbers = 1..=2;
    Experiment {
        name: "test".to_owned(),
        topology: Topology {
            links: numbers
                .clone()
                .map(|n| NamedLink {
                    name: format!("link {n}"),
                    config: LinkConfig::new(
                        Rate::from_mbps(10.0 * n as f64),
                        Duration::from_millis(10),
                    ),
                })
                .collect(),
            paths: numbers
                .map(|n| PathSpec {
                    name: format!("path {n}"),
                    links: vec![n - 1],
                    reverse: Vec::new(),
                    return_delay: Duration::from_millis(10),
                })
                .collect(),
        },
        groups: vec![
            Group {
                name: "mp".to_owned(),
                members: 0..pairs,
                stagger: None,
            },
            Group {
                name: "sp".to_owned(),
                members: pairs..pairs + 1,
                stagger: None,
            },
        ],
        flows,
        duration: Duration::from_secs(4),
        measure: Measure {
            from: Time::from_millis(1000),
            until: Time::from_millis(4000),
            spans: vec![Span {
                name: "late".to_owned(),
                from: Time::from_millis(3000),
                until: Time::from_millis(4000),
            }],
            interval: Duration::from_millis(500),
            series: Vec::new(),
            percentiles: Default::default(),
        },
    }
}

/// Numbers made of the seed and each thing's position; nothing is simulated.
fn made_up(experiment: &Experiment, seed: u64) -> RunResult {
    let number = |a: usize, b: usize| (seed * 7 + a as u64 * 5 + b as u64 * 3) as f64 % 11.0 + 1.0;
    let flows = experiment.flows.iter().enumerate().map(|(f, flow)| {
        let subflows: Vec<SubflowResult> = flow
            .paths
            .iter()
            .map(|&path| SubflowResult {
                path: String::new(),
                goodput_bps: number(f, path) * 1e6,
                spans_bps: vec![number(f, path) * 2e6],
                window_mean_packets: number(f, path + 2),
                rtt_mean_s: if path == 0 {
                    f64::NAN
                } else {
                    0.01 * number(f, path + 3)
                },
                rtt_percentiles_s: Some([1.0, 2.0, 3.0].map(|n| n * 0.01 * number(f, path + 3))),
                loss_events: number(f, path + 4) as u64,
                packets_sent: 100,
                packets_lost: number(f, path + 5) as u64,
                timeouts: 0,
                openings: 1,
                open_s: 1.0,
            })
            .collect();
        let goodput_bps: f64 = subflows.iter().map(|subflow| subflow.goodput_bps).sum();
        // A transfer that ends was there for half of the time.
        let part = if flow.size.is_some() { 0.5 } else { 1.0 };
        let done = flow.size.iter().filter(|_| seed.is_multiple_of(2));
        let transfers = done.map(|size| TransferResult {
            bytes: size.at(0.5),
            start_s: 0.0,
            took_s: number(f, 9),
            slowdown: 2.0 * number(f, 9),
        });
        FlowResult {
            name: String::new(),
            goodput_bps,
            active_s: part,
            carried_bps: part * goodput_bps,
            start_s: Some(0.0),
            transfers: transfers.collect(),
            subflows,
        }
    });
    RunResult {
        seed,
        flows: flows.collect(),
        links: (0..experiment.topology.links.len())
            .map(|l| LinkResult {
                name: String::new(),
                utilisation: 0.05 * number(l, 1),
                load_bps: 1e6 * number(l, 2),
                queue_mean_packets: number(l, 3),
                queue_delay_percentiles_s: None,
                packets_offered: 1000,
                packets_dropped: number(l, 4) as u64,
                packets_marked: 0,
            })
            .collect(),
        series: vec![Series {
            kind: "queue".to_owned(),
            of: vec!["link 1".to_owned()],
            interval_s: 0.5,
            values: vec![seed as f64; 8],
        }],
        complete: true,
    }
}

fn points(counts: &[usize]) -> Vec<Point> {
    counts
        .iter()
        .map(|&pairs| Point {
            set: match counts.len() {
                1 => Vec::new(),
                _ => vec![("flows.mp.count".to_owned(), pairs.to_string())],
            },
            experiment: experiment(pairs),
        })
        .collect()
}

fn plan(points: &[Point]) -> Plan<'_> {
    Plan {
        scenario: "made up",
        level: Level::Packet,
        points,
        seed: 10,
        repeat: 4,
        threads: 2,
        keep_series: false,
        shard: Shard::default(),
    }
}

type Outcome = Result<(Report, Vec<(Job, RunResult)>), BatchError<String>>;

/// Runs `plan` and collects what the sink gets.
fn collect(
    plan: &Plan<'_>,
    level: impl Fn(&Experiment, &Running<'_>) -> Result<RunResult, String> + Sync,
    control: &Control,
) -> Outcome {
    let mut runs = Vec::new();
    let sink = |job: &Job, run: &RunResult| {
        runs.push((*job, run.clone()));
        Ok(())
    };
    let report = plan.run(level, sink, control)?;
    Ok((report, runs))
}

fn all(plan: &Plan<'_>) -> (Report, Vec<(Job, RunResult)>) {
    let level = |experiment: &Experiment, run: &Running<'_>| Ok(made_up(experiment, run.seed()));
    collect(plan, level, &Control::new()).unwrap()
}

fn measured(report: &Report) -> &Measured {
    let Results::Point(measured) = &report.results else {
        panic!("a sweep");
    };
    measured
}

#[test]
fn means_and_intervals_are_those_of_the_runs() {
    let points = points(&[2]);
    let (report, runs) = all(&plan(&points));
    assert_eq!((report.seed, report.repeat, report.unfinished), (10, 4, 0));
    assert_eq!(
        runs.iter().map(|(job, _)| job.seed).collect::<Vec<_>>(),
        [10, 11, 12, 13]
    );
    let measured = measured(&report);
    assert_eq!(measured.runs, 4);
    let check = |estimate: Option<Estimate>, of: &dyn Fn(&RunResult) -> f64| {
        let samples: Vec<f64> = runs.iter().map(|(_, run)| of(run)).collect();
        let expected = Summary::of(&samples).unwrap();
        let estimate = estimate.unwrap();
        assert!((estimate.mean - expected.mean).abs() <= 1e-9 * expected.mean.abs());
        assert!(
            (estimate.ci95.unwrap() - expected.ci95.unwrap()).abs() <= 1e-9 * expected.mean.abs()
        );
        assert_eq!(estimate.n, 4);
    };
    let flow = &measured.flows[1];
    assert_eq!((flow.name.as_str(), flow.group.as_str()), ("mp.2", "mp"));
    let all = |run: &RunResult| run.flows.iter().map(|flow| flow.carried_bps).sum::<f64>();
    check(Some(flow.goodput_bps), &|run| run.flows[1].goodput_bps);
    check(flow.share, &|run| run.flows[1].goodput_bps / all(run));
    let subflow = &flow.subflows[1];
    assert_eq!(subflow.path, "path 2");
    check(subflow.rtt_mean_s, &|run| {
        run.flows[1].subflows[1].rtt_mean_s
    });
    check(subflow.share, &|run| {
        run.flows[1].subflows[1].goodput_bps / run.flows[1].goodput_bps
    });
    check(Some(subflow.loss_events), &|run| {
        run.flows[1].subflows[1].loss_events as f64
    });
    let span = &subflow.spans[0];
    assert_eq!(span.name, "late");
    check(Some(span.goodput_bps), &|run| {
        run.flows[1].subflows[1].spans_bps[0]
    });
    let whole = &flow.spans[0];
    check(Some(whole.goodput_bps), &|run| {
        run.flows[1].subflows[0].spans_bps[0] + run.flows[1].subflows[1].spans_bps[0]
    });
    let group = &measured.groups[0].spans[0];
    check(Some(group.goodput_bps), &|run| {
        let flows = run.flows[..2].iter().flat_map(|flow| &flow.subflows);
        flows.map(|subflow| subflow.spans_bps[0]).sum::<f64>() / 2.0
    });
    let link = &measured.links[1];
    check(Some(link.utilisation), &|run| run.links[1].utilisation);
    check(link.drop_rate, &|run| {
        run.links[1].packets_dropped as f64 / 1000.0
    });
    check(measured.jain, &|run| {
        let x: Vec<f64> = run.flows.iter().map(|flow| flow.goodput_bps).collect();
        x.iter().sum::<f64>().powi(2) / (3.0 * x.iter().map(|x| x * x).sum::<f64>())
    });
}

#[test]
fn what_no_run_could_say_is_null_and_completions_count_the_complete() {
    let points = points(&[1]);
    let (report, runs) = all(&plan(&points));
    let measured = measured(&report);
    assert_eq!(measured.flows[0].subflows[0].rtt_mean_s, None);
    assert_eq!(measured.flows[0].completed, None);
    let transfer = &measured.flows[1];
    assert_eq!(transfer.completed, Some(2), "the even seeds, 10 and 12");
    let times: Vec<f64> = runs
        .iter()
        .filter_map(|(_, run)| run.flows[1].completion_s())
        .collect();
    let completion = transfer.completion_s.unwrap();
    assert_eq!(
        (completion.mean, completion.n),
        ((times[0] + times[1]) / 2.0, 2)
    );
    let group = &measured.groups[1];
    assert_eq!(group.completed.unwrap().mean, 0.5);
    assert_eq!(group.completion_s, transfer.completion_s);
    assert_eq!(group.completion_max_s, transfer.completion_s);
    // Its rate counts while it is there; sums and shares are those of the whole time.
    let (rate, total) = (group.goodput_bps.mean, group.total_bps.mean);
    assert!(
        (total - rate / 2.0).abs() <= 1e-9 * rate,
        "{total} of {rate}"
    );
    let all: f64 = measured
        .groups
        .iter()
        .map(|group| group.total_bps.mean)
        .sum();
    let shares = measured
        .groups
        .iter()
        .map(|group| group.share.unwrap().mean);
    assert!((shares.sum::<f64>() - 1.0).abs() < 1e-9 && total < all);
}

#[test]
fn groups_sum_up_their_members() {
    let points = points(&[3]);
    let plan = Plan {
        repeat: 1,
        ..plan(&points)
    };
    let (report, runs) = all(&plan);
    let group = &measured(&report).groups[0];
    let run = &runs[0].1;
    let mut goodputs: Vec<f64> = run.flows[..3].iter().map(|flow| flow.goodput_bps).collect();
    goodputs.sort_by(f64::total_cmp);
    assert_eq!((group.count, group.law.as_deref()), (3, Some("lia")));
    assert_eq!(group.total_bps.mean, goodputs.iter().sum::<f64>());
    assert_eq!(group.goodput_bps.mean, group.total_bps.mean / 3.0);
    let spread = [
        group.goodput_min_bps,
        group.goodput_median_bps,
        group.goodput_max_bps,
    ];
    assert_eq!(spread.map(|estimate| estimate.mean), goodputs[..]);
    assert_eq!(group.goodput_bps.ci95, None, "one run has no interval");
    assert_eq!(group.subflows.len(), 2);
    let second: f64 = run.flows[..3]
        .iter()
        .map(|flow| flow.subflows[1].window_mean_packets)
        .sum();
    assert!((group.subflows[1].window_mean_packets.unwrap().mean - second / 3.0).abs() < 1e-12);
    assert_eq!(group.subflows[0].rtt_mean_s, None);
}

/// It was over before, say: its rate of 0 would make the others look slower and less alike.
#[test]
fn who_was_not_there_in_the_measured_time_has_no_goodput() {
    let points = points(&[3]);
    let plan = Plan {
        repeat: 1,
        ..plan(&points)
    };
    let level = |experiment: &Experiment, run: &Running<'_>| {
        let mut result = made_up(experiment, run.seed());
        let flow = &mut result.flows[0];
        (flow.active_s, flow.goodput_bps, flow.carried_bps) = (0.0, 0.0, 0.0);
        flow.subflows.iter_mut().for_each(|it| it.goodput_bps = 0.0);
        Ok(result)
    };
    let (report, runs) = collect(&plan, level, &Control::new()).unwrap();
    let others = &runs[0].1.flows[1..3];
    let goodputs = [0, 1].map(|n| others[n].goodput_bps);
    let group = &measured(&report).groups[0];
    assert_eq!(group.goodput_bps.mean, goodputs.iter().sum::<f64>() / 2.0);
    assert_eq!(group.total_bps.mean, goodputs.iter().sum::<f64>());
    let least = goodputs[0].min(goodputs[1]);
    assert_eq!(group.goodput_min_bps.mean, least);
    assert_eq!(group.jain.unwrap().mean, jain(goodputs).unwrap());
    let first = others.iter().map(|flow| flow.subflows[0].goodput_bps);
    let mean = first.sum::<f64>() / 2.0;
    assert!((group.subflows[0].goodput_bps.mean / mean - 1.0).abs() < 1e-12);
    assert_eq!(measured(&report).flows[0].goodput_bps.n, 0);
    let all = runs[0].1.flows.iter().map(|flow| flow.goodput_bps);
    let everywhere = measured(&report).jain.unwrap().mean;
    assert!(everywhere > jain(all).unwrap(), "{everywhere}");
}

#[test]
fn series_are_kept_of_the_first_repetition_unless_asked() {
    let points = points(&[1, 2]);
    let kept = |keep_series| {
        let (_, runs) = all(&Plan {
            keep_series,
            ..plan(&points)
        });
        runs.iter()
            .map(|(_, run)| run.series.len())
            .collect::<Vec<_>>()
    };
    assert_eq!(kept(false), [1, 0, 0, 0, 1, 0, 0, 0]);
    assert_eq!(kept(true), [1; 8]);
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let points = points(&[1, 2, 3]);
    let bytes = |threads| {
        let (report, runs) = all(&Plan {
            threads,
            ..plan(&points)
        });
        let runs: Vec<RunResult> = runs.into_iter().map(|(_, run)| run).collect();
        let text = |value| serde_json::to_string(&value).unwrap();
        text(serde_json::to_value(report).unwrap()) + &text(serde_json::to_value(runs).unwrap())
    };
    let one = bytes(1);
    for threads in [0, 2, 7, 100] {
        assert!(bytes(threads) == one, "{threads} threads");
    }
}

/// Lets the run with seed 10 end only when `others` runs have started; the number that had when it
/// ended.
fn slow_first_run(plan: &Plan<'_>, others: u64) -> (Vec<Job>, u64) {
    let started = (Mutex::new(0), Condvar::new());
    let seen = AtomicU64::new(0);
    let level = |experiment: &Experiment, run: &Running<'_>| {
        let (count, moved) = &started;
        let mut count = count.lock().unwrap();
        *count += 1;
        moved.notify_all();
        if run.seed() == 10 {
            while *count < others {
                count = moved.wait(count).unwrap();
            }
            drop(count);
            // A chance for more to start than should.
            (0..1000).for_each(|_| std::thread::yield_now());
            seen.store(*started.0.lock().unwrap(), Ordering::SeqCst);
        }
        Ok(made_up(experiment, run.seed()))
    };
    let mut jobs = Vec::new();
    let sink = |job: &Job, _: &RunResult| -> Result<(), String> {
        jobs.push(*job);
        Ok(())
    };
    plan.run(level, sink, &Control::new()).unwrap();
    (jobs, seen.into_inner())
}

#[test]
fn a_slow_run_does_not_change_the_order() {
    let points = points(&[1]);
    let plan = Plan {
        repeat: 2000,
        ..plan(&points)
    };
    let (jobs, _) = slow_first_run(&plan, 1000);
    assert!(jobs.iter().map(|job| job.repetition).eq(0..2000));
}

#[test]
fn few_results_of_large_runs_wait_for_their_turn() {
    let points = points(&[50_000]);
    let plan = Plan {
        repeat: 12,
        threads: 3,
        ..plan(&points)
    };
    // Two subflows and a flow each: there is room for one beside those of the threads.
    assert_eq!(plan.room(), 1);
    let (jobs, started) = slow_first_run(&plan, 4);
    assert_eq!((jobs.len(), started), (12, 4));
}

#[test]
fn a_stop_keeps_what_is_over() {
    let points = points(&[1, 2]);
    let plan = Plan {
        threads: 1,
        ..plan(&points)
    };
    let control = Control::new();
    let level = |experiment: &Experiment, run: &Running<'_>| {
        if control.over() == 5 {
            control.stop();
        }
        let complete = !run.stop_flag().load(Ordering::Relaxed);
        Ok(RunResult {
            complete,
            ..made_up(experiment, run.seed())
        })
    };
    let (report, runs) = collect(&plan, level, &control).unwrap();
    assert_eq!((runs.len(), report.unfinished), (5, 3));
    let runs: Vec<u32> = report.points().map(|(_, measured)| measured.runs).collect();
    assert_eq!(runs, [4, 1]);
    assert!(control.is_stopped());
}

#[test]
fn a_stop_before_the_first_result_leaves_nothing() {
    let points = points(&[1]);
    let control = Control::new();
    control.stop();
    let level =
        |_: &Experiment, _: &Running<'_>| -> Result<RunResult, String> { panic!("started") };
    let stopped = collect(&plan(&points), level, &control).unwrap_err();
    assert!(matches!(stopped, BatchError::Stopped));
    assert_eq!(stopped.to_string(), "stopped before the first run was over");
}

#[test]
fn an_error_ends_the_batch_and_names_the_first_run_that_failed() {
    let points = points(&[1]);
    let plan = Plan {
        repeat: 100,
        ..plan(&points)
    };
    let control = Control::new();
    let level = |experiment: &Experiment, run: &Running<'_>| match run.seed() {
        12.. => Err("no such law".to_owned()),
        seed => Ok(made_up(experiment, seed)),
    };
    let failed = collect(&plan, level, &control).unwrap_err();
    assert_eq!(failed.to_string(), "the run with seed 12: no such law");
    assert!(control.over() < 100 && control.is_stopped());

    let full = |job: &Job, _: &RunResult| match job.repetition {
        3 => Err("disk full".to_owned()),
        _ => Ok(()),
    };
    let level = |experiment: &Experiment, run: &Running<'_>| Ok(made_up(experiment, run.seed()));
    let failed = plan.run(level, full, &Control::new()).unwrap_err();
    assert_eq!(
        failed.to_string(),
        "the result of the run with seed 13: disk full"
    );
}

#[test]
fn a_panic_in_a_run_doesn_t_leave_the_others_waiting() {
    let points = points(&[50_000]);
    let plan = Plan {
        repeat: 8,
        ..plan(&points)
    };
    let level = |experiment: &Experiment, run: &Running<'_>| -> Result<RunResult, String> {
        match run.seed() {
            11 => panic!("a bug"),
            seed => Ok(made_up(experiment, seed)),
        }
    };
    let run = || collect(&plan, level, &Control::new());
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err());
}

#[test]
fn progress_counts_the_parts_of_runs() {
    let points = points(&[1]);
    let plan = Plan {
        threads: 1,
        ..plan(&points)
    };
    let control = Control::new();
    assert_eq!((control.runs(), control.fraction()), (0, 0.0));
    let seen = Mutex::new(Vec::new());
    let level = |experiment: &Experiment, run: &Running<'_>| {
        for done in [0.5, 0.25, f64::NAN] {
            run.progress(done);
            seen.lock().unwrap().push(control.fraction());
        }
        Ok(made_up(experiment, run.seed()))
    };
    collect(&plan, level, &control).unwrap();
    let halves = [0.125, 0.375, 0.625, 0.875].map(|at| [at; 3]);
    assert_eq!(*seen.lock().unwrap(), halves.as_flattened());
    assert_eq!(
        (control.runs(), control.over(), control.fraction()),
        (4, 4, 1.0)
    );
}

#[test]
fn the_object_for_programs() {
    let single = points(&[1]);
    let (report, _) = all(&Plan {
        repeat: 2,
        ..plan(&single)
    });
    let object = Object::new(&report);
    insta::assert_snapshot!("single", serde_json::to_string_pretty(&object).unwrap());
    let text = serde_json::to_string(&object).unwrap();
    let back: Object<Report> = serde_json::from_str(&text).unwrap();
    assert_eq!((back.version, back.report), (2, report));

    let swept = points(&[1, 2]);
    let (report, _) = all(&Plan {
        repeat: 1,
        ..plan(&swept)
    });
    let json = serde_json::to_value(Object::new(&report)).unwrap();
    assert!(json.get("flows").is_none() && json.get("links").is_none());
    assert_eq!(json["points"][1]["set"]["flows.mp.count"], "2");
    assert_eq!(json["points"][1]["point"], 2);
    assert_eq!(json["points"][1]["flows"].as_array().unwrap().len(), 3);
    assert_eq!(serde_json::from_value::<Report>(json).unwrap(), report);
}

/// docs/run.schema.json is written by `MANYWAY_UPDATE_SCHEMA=1 cargo test -p manyway-simulate`.
#[test]
fn the_schema_in_the_documentation_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/run.schema.json");
    let schema = serde_json::to_string_pretty(&schema()).unwrap() + "\n";
    if std::env::var_os("MANYWAY_UPDATE_SCHEMA").is_some() {
        std::fs::write(path, &schema).unwrap();
    }
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        committed == schema,
        "docs/run.schema.json is old: MANYWAY_UPDATE_SCHEMA=1 cargo test -p manyway-simulate"
    );
}

proptest! {
    /// Stopped anywhere, on any number of threads: what is over is a part of the whole, in order,
    /// and all runs are accounted for.
    #[test]
    fn whatever_is_over_counts(threads in 1_usize..5, repeat in 1_u32..6, stop_at in 0_u64..20) {
        let points = points(&[1, 2, 1]);
        let plan = Plan { threads, repeat, ..plan(&points) };
        let control = Control::new();
        let started = AtomicU64::new(0);
        let late = AtomicBool::new(false);
        let level = |experiment: &Experiment, run: &Running<'_>| {
            if started.fetch_add(1, Ordering::SeqCst) == stop_at {
                control.stop();
                late.store(true, Ordering::SeqCst);
            }
            let complete = !late.load(Ordering::SeqCst);
            Ok(RunResult { complete, ..made_up(experiment, run.seed()) })
        };
        match collect(&plan, level, &control) {
            Ok((report, runs)) => {
                prop_assert_eq!(runs.len() as u64 + report.unfinished, plan.jobs());
                prop_assert!(runs.is_sorted_by_key(|(job, _)| (job.point, job.repetition)));
                let counted: u32 = report.points().map(|(_, measured)| measured.runs).sum();
                prop_assert_eq!(counted as usize, runs.len());
            }
            Err(error) => prop_assert!(matches!(error, BatchError::Stopped)),
        }
    }
}

//! The Emulab experiments of the mPath paper (`scenarios/mpath`), with the paper's numbers beside
//! ours.

use manyway_simulate::packet::{RunResult, SubflowResult};
use serde_json::Value;

use crate::failure::Failure;
use crate::gate::Gate;
use crate::measured::{self, goodput};
use crate::page::Page;
use crate::runs::Source;
use crate::statistics::mean;
use crate::study::{Extent, Outcome, Study};
use crate::table::Table;

/// The study.
pub(crate) struct MpathPaper;

const QUEUES: [&str; 3] = ["10 packets", "20 packets", "50 packets"];
const FIG7: [&str; 6] = [
    "all, Mbps",
    "direct",
    "path 1",
    "path 2",
    "path 3",
    "path 1 last open, min",
];
/// Columns of [`FIG7`].
const ALL: usize = 0;
const DIRECT: usize = 1;
const ONE: usize = 2;
const GONE: usize = 5;
/// Spans of Fig. 12's scenario, minutes, and the TCP flow whose window is of interest in each.
const FIG12: [(&str, usize, usize); 5] = [
    ("tcp-1", 5, 20),
    ("tcp-1", 25, 40),
    ("tcp-2", 65, 80),
    ("tcp-2", 85, 100),
    ("tcp-2", 105, 120),
];

impl Study for MpathPaper {
    fn name(&self) -> &'static str {
        "mpath"
    }

    fn reproduces(&self) -> &'static str {
        "mPath (Xu et al. 2013): the Emulab experiments, Fig. 7 to 14, α and β, packet level"
    }

    fn run(&self, extent: Extent) -> Result<Outcome, Failure> {
        measure(extent)
    }
}

type Measure = fn(&RunResult) -> Vec<f64>;

fn measure(extent: Extent) -> Result<Outcome, Failure> {
    let runs = extent.runs(10, 2);
    let run = |scenario: &str, set: &[&str], columns: &[&str], measure: Measure| {
        Table::run(Source::new(scenario, set), runs, columns, measure)
    };
    let fig7 = run("mpath/fig7", &[], &FIG7, paths)?;
    let fig7_short = run("mpath/fig7", &[SHORT_SWEEP], &FIG7, paths)?;
    let variants = VARIANTS
        .iter()
        .map(|(_, set)| run("mpath/fig7", set, &FIG7, paths))
        .collect::<Result<Vec<_>, _>>()?;
    let columns = ["all, Mbps", "direct", "path 3"];
    let fig9 = run("mpath/fig9", &[], &columns, both)?;
    let columns = ["all, Mbps", "direct", "proxied", "proxied path open, s"];
    let fig10 = run("mpath/fig10", &[], &columns, access)?;
    let fig12 = run("mpath/fig12", &[], &FIG12_COLUMNS, friendliness)?;
    let fig13 = run("mpath/fig13", &[], &FIG13_COLUMNS, joining)?;
    let fig13_short = run("mpath/fig13", &SHORT_QUEUES, &FIG13_COLUMNS, joining)?;
    let narrow = ["links.access.rate=17 Mbps"];
    let fig13_narrow = run("mpath/fig13", &narrow, &FIG13_COLUMNS, joining)?;
    let alpha = run("mpath/alpha", &[], &FIG7, paths)?;
    let beta = run("mpath/beta", &[], &BETA_COLUMNS, creation)?;
    let gates = [
        fig7_gates(&fig7),
        vec![gone_gate(&fig7_short, "5 packets")],
        fig9_gates(&fig9),
        fig10_gates(&fig10),
        fig12_gates(&fig12),
        fig13_gates(&fig13, "queues of 20 packets", Some(FILLED)),
        fig13_gates(&fig13_short, "queues of 5 packets", Some(FILLED)),
        fig13_gates(&fig13_narrow, "an access link of 17 Mbps", None),
        alpha_gates(&alpha),
        beta_gates(&beta),
    ]
    .concat();
    let others: String = VARIANTS
        .iter()
        .zip(&variants)
        .map(|((name, _), table)| format!("{name}:\n\n{}\n", table.markdown(&[])))
        .collect();
    let page = Page::new(include_str!("page.md"))
        .fill("repeat", &runs.repeat.to_string())
        .fill("gates", &Gate::markdown(&gates))
        .fill(
            "fig7",
            &fig7.markdown(&[
                ("paper, mPath", &["14.31", "about 7", "", "", "", "11"]),
                ("paper, TCP", &["7.21", "7.21", "", "", "", ""]),
            ]),
        )
        .fill("fig7-short", &fig7_short.markdown(&[]))
        .fill("variants", &others)
        .fill("fig9", &fig9.markdown(&[]))
        .fill(
            "fig10",
            &fig10.markdown(&[
                ("paper, mPath", &["4.36", "", "", ""]),
                ("paper, TCP", &["4.40", "4.40", "", ""]),
            ]),
        )
        .fill("fig12", &fig12.markdown(&[]))
        .fill(
            "fig13",
            &fig13.markdown(&[("paper", &["", "12.0", "11.4", "10.6", "within 2"])]),
        )
        .fill("fig13-short", &fig13_short.markdown(&[]))
        .fill("fig13-narrow", &fig13_narrow.markdown(&[]))
        .fill("alpha", &alpha.markdown(&[]))
        .fill("beta", &beta.markdown(&[]))
        .text();
    let headline = [
        fig7.headline("Fig. 7", &[], ALL..ALL + 1),
        fig9.headline("Fig. 9", &[], ALL..ALL + 1),
        fig10.headline("Fig. 10", &[], ALL..ALL + 1),
        fig12.headline("Fig. 12", &[], 5..7),
        fig13.headline("Fig. 14", &[], 0..5),
        alpha.headline("α", &[], ALL..ALL + 1),
        beta.headline("β", &[], ALL..ALL + 1),
    ]
    .concat();
    let mut tables = vec![fig7, fig7_short];
    tables.extend(variants);
    tables.extend([
        fig9,
        fig10,
        fig12,
        fig13,
        fig13_short,
        fig13_narrow,
        alpha,
        beta,
    ]);
    Ok(Outcome {
        page,
        gates,
        tables,
        headline,
        figures: Vec::new(),
        details: Value::Null,
    })
}

/// Queues with which a TCP flow has what it has in the paper's Fig. 7, 7.21 of 10 Mbps, or nearly.
const SHORT_SWEEP: &str = "sweep.\"links.*.queue\"=[\"5 packets\"]";
const SHORT_QUEUES: [&str; 7] = [
    "links.access.queue=5 packets",
    "links.core.queue=5 packets",
    "links.proxy-2.queue=5 packets",
    "links.proxy-3.queue=5 packets",
    "flows.tcp-1.access.queue=5 packets",
    "flows.tcp-2.access.queue=5 packets",
    "flows.tcp-3.access.queue=5 packets",
];

/// Fig. 7 with one thing changed.
const VARIANTS: [(&str, &[&str]); 4] = [
    (
        "A round trip of 30 ms",
        &[
            "links.core.delay=10 ms",
            "links.proxy-2.delay=10 ms",
            "links.proxy-3.delay=10 ms",
        ],
    ),
    (
        "A round trip of 100 ms",
        &[
            "links.core.delay=45 ms",
            "links.proxy-2.delay=45 ms",
            "links.proxy-3.delay=45 ms",
        ],
    ),
    ("No jitter", &["defaults.jitter=0 ms"]),
    (
        "Relays whose paths were closed are used again, the best one first",
        &[
            "sweep.cases=[{ name = \"mpath\" }]",
            "flows.source.relays={ reuse = \"best-idle\" }",
        ],
    ),
];

/// The subflow of the flow `source` on this path, if there is one.
fn subflow<'a>(run: &'a RunResult, path: &str) -> Option<&'a SubflowResult> {
    let source = run.flows.iter().find(|flow| flow.name == "source")?;
    source.subflows.iter().find(|subflow| subflow.path == path)
}

/// Its goodput, Mbps.
fn rate(run: &RunResult, path: &str) -> f64 {
    subflow(run, path).map_or(0.0, |subflow| subflow.goodput_bps / 1e6)
}

/// Its window over time, a value per second.
fn window<'a>(run: &'a RunResult, flow: &str, path: &str) -> &'a [f64] {
    let mut series = run.series.iter();
    let found = series.find(|one| one.kind == "window" && one.of[0] == flow && one.of[1] == path);
    found.map_or(&[], |series| &series.values)
}

/// When the path was last open, minutes.
fn last_open(run: &RunResult, path: &str) -> f64 {
    let window = window(run, "source", path);
    let last = window.iter().rposition(|window| *window > 0.0);
    last.map_or(0.0, |second| (second + 1) as f64 / 60.0)
}

fn paths(run: &RunResult) -> Vec<f64> {
    let mut row = vec![goodput(run, "source")];
    row.extend(["direct", "one", "two", "three"].map(|path| rate(run, path)));
    row.push(last_open(run, "one"));
    row
}

fn both(run: &RunResult) -> Vec<f64> {
    vec![
        goodput(run, "source"),
        measured::subflow(run, "source", 0),
        rate(run, "three"),
    ]
}

fn access(run: &RunResult) -> Vec<f64> {
    vec![
        goodput(run, "source"),
        measured::subflow(run, "source", 0),
        rate(run, "proxy"),
        subflow(run, "proxy").map_or(0.0, |subflow| subflow.open_s),
    ]
}

const FIG12_COLUMNS: [&str; 8] = [
    "TCP-1 alone, packets",
    "TCP-1 beside mPath",
    "TCP-2 beside mPath",
    "TCP-2 alone",
    "TCP-2 beside TCP-3",
    "loses beside mPath, %",
    "loses beside TCP, %",
    "mPath alone, Mbps",
];

/// Mean windows of TCP flows alone and in company.
fn friendliness(run: &RunResult) -> Vec<f64> {
    let mut row: Vec<f64> = FIG12
        .iter()
        .map(|&(flow, from, until)| {
            // At the very end of a flow it has no window any more.
            let window = &window(run, flow, "direct")[from * 60..until * 60 - 1];
            mean(window)
        })
        .collect();
    let loss = |with: f64, alone: f64| 100.0 * (1.0 - with / alone);
    let beside_mpath = (loss(row[1], row[0]) + loss(row[2], row[3])) / 2.0;
    let beside_tcp = loss(row[4], row[3]);
    row.extend([beside_mpath, beside_tcp, span(run, 2)]);
    row
}

/// Goodput of the flow `source` in a span, Mbps.
fn span(run: &RunResult, n: usize) -> f64 {
    let source = run.flows.iter().filter(|flow| flow.name == "source");
    let subflows = source.flat_map(|flow| &flow.subflows);
    subflows.map(|subflow| subflow.spans_bps[n]).sum::<f64>() / 1e6
}

const FIG13_COLUMNS: [&str; 5] = [
    "no TCP flow, Mbps",
    "one",
    "two",
    "three",
    "path 2 dropped, min after the third",
];

fn joining(run: &RunResult) -> Vec<f64> {
    let mut row: Vec<f64> = (0..4).map(|n| span(run, n)).collect();
    // The first moment after 45 min at which it isn't open; the end if there is none.
    let late = window(run, "source", "two").iter().skip(45 * 60);
    let open = late.take_while(|window| **window > 0.0).count();
    row.push(open as f64 / 60.0);
    row
}

const BETA_COLUMNS: [&str; 5] = [
    "all, Mbps",
    "direct",
    "proxied paths open, mean",
    "relays used",
    "access link 80 % loaded, min",
];

fn creation(run: &RunResult) -> Vec<f64> {
    let source = run.flows.iter().find(|flow| flow.name == "source");
    let relays = &source.expect("the flow").subflows[1..];
    let open: f64 = relays.iter().map(|relay| relay.open_s).sum();
    let used = relays.iter().filter(|relay| relay.openings > 0).count();
    let mut series = run.series.iter();
    let load = series.find(|one| one.kind == "load" && one.of[0] == "access");
    let load = &load.expect("the load").values;
    let full = load
        .windows(10)
        .position(|span| span.iter().sum::<f64>() >= 10.0 * 32e6)
        .unwrap_or(load.len());
    vec![
        goodput(run, "source"),
        rate(run, "direct"),
        open / load.len() as f64,
        used as f64,
        full as f64 / 60.0,
    ]
}

fn listed(values: impl Iterator<Item = f64>, digits: usize) -> String {
    let values: Vec<String> = values.map(|value| format!("{value:.digits$}")).collect();
    values.join(", ")
}

fn fig7_gates(table: &Table) -> Vec<Gate> {
    let mpath = QUEUES.map(|queue| table.means(&[queue, "mpath"]));
    let tcp = QUEUES.map(|queue| table.means(&[queue, "tcp"])[ALL]);
    let ratios: Vec<f64> = mpath
        .iter()
        .zip(tcp)
        .map(|(row, tcp)| row[ALL] / tcp)
        .collect();
    let core: Vec<f64> = mpath
        .iter()
        .zip(tcp)
        .map(|(row, tcp)| (row[DIRECT] + row[ONE]) / tcp)
        .collect();
    let ratio = 14.31 / 7.21;
    let mut gates = vec![
        Gate::new(
            "Fig. 7: 1.98 times what TCP has, within 10 %, with queues of 10, 20 and 50 packets",
            listed(ratios.iter().copied(), 2),
            ratios.iter().all(|r| (r / ratio - 1.0).abs() <= 0.1),
        ),
        Gate::new(
            "Fig. 7: the direct path and path 1 together have at least 80 % of what TCP has",
            format!("{} %", listed(core.iter().map(|share| 100.0 * share), 0)),
            core.iter().all(|share| *share >= 0.8),
        ),
    ];
    gates.extend(QUEUES.map(|queue| gone_gate(table, queue)));
    gates
}

fn gone_gate(table: &Table, queue: &str) -> Gate {
    let gone = table.row(&[queue, "mpath"]).values[GONE].median;
    let gate = Gate::new(
        format!("Fig. 7: path 1 is gone before minute 15 in the median, queues of {queue}"),
        format!("minute {gone:.1}"),
        gone < 15.0,
    );
    Gate {
        // Found with these.
        explained: (queue != "10 packets").then_some("small windows meet few of the losses"),
        ..gate
    }
}

fn fig9_gates(table: &Table) -> Vec<Gate> {
    let ratio = table.means(&["mpath"])[ALL] / table.means(&["tcp"])[ALL];
    vec![Gate::new(
        "Fig. 9, only proxy 3: 1.5 times what TCP has, as the capacities are, within 10 %",
        format!("{ratio:.2}"),
        (ratio / 1.5 - 1.0).abs() <= 0.1,
    )]
}

fn fig10_gates(table: &Table) -> Vec<Gate> {
    let off = QUEUES.map(|queue| {
        let (mpath, tcp) = (table.means(&[queue, "mpath"]), table.means(&[queue, "tcp"]));
        100.0 * (mpath[ALL] / tcp[ALL] - 1.0)
    });
    vec![Gate::new(
        "Fig. 10, only the access link is full: -3 % to +6 % of what TCP has",
        format!("{} %", listed(off.into_iter(), 1)),
        off.iter().all(|off| (-3.0..=6.0).contains(off)),
    )]
}

fn fig12_gates(table: &Table) -> Vec<Gate> {
    let row = table.means(&[]);
    let found = |n: usize| format!("{:.0} %", row[n]);
    vec![
        Gate::new(
            "Fig. 12: a TCP flow loses at most 35 % of its window beside mPath (the paper has 25 \
             %)",
            found(5),
            row[5] <= 35.0,
        ),
        Gate::new(
            "Fig. 12: and about half of it, 40 to 60 %, beside a second TCP flow",
            found(6),
            (40.0..=60.0).contains(&row[6]),
        ),
    ]
}

/// Why the last TCP flow of Fig. 14 takes more of mPath than it does in the paper.
const FILLED: &str =
    "three quarters of the capacity are left, and our mPath filled all of it before";

fn fig13_gates(table: &Table, with: &str, explained: Option<&'static str>) -> Vec<Gate> {
    let row = table.means(&[]);
    let (two, three) = (row[2] / row[1], row[3] / row[1]);
    let third = Gate::new(
        format!("Fig. 14, {with}: with three 0.88 ± 0.10"),
        format!("{three:.2}"),
        (three - 0.88).abs() <= 0.1,
    );
    let dropped = table.row(&[]).values[4].median;
    vec![
        Gate::new(
            format!(
                "Fig. 14, {with}: with two TCP flows on path 2 what mPath has is 0.95 ± 0.10 of \
                 that with one"
            ),
            format!("{two:.2}"),
            (two - 0.95).abs() <= 0.1,
        ),
        Gate { explained, ..third },
        Gate::new(
            format!(
                "Fig. 14, {with}: path 2 is dropped within 2 minutes of the third, in the median"
            ),
            format!("{dropped:.1} min"),
            dropped <= 2.0,
        ),
    ]
}

fn alpha_gates(table: &Table) -> Vec<Gate> {
    let at = |alpha: &str| table.means(&[alpha])[ALL];
    let gone = |alpha: &str| table.row(&[alpha]).values[GONE].median;
    let best = at("mpath");
    let above = ["mpath:alpha=0.875", "mpath:alpha=1"].map(at);
    let slow = ["mpath:alpha=0.125", "mpath:alpha=0.25"].map(gone);
    vec![
        Gate::new(
            "α above 0.75 costs throughput: 0.875 and 1 have less than 95 % of what 0.5 has",
            format!(
                "{} %",
                listed(above.iter().map(|rate| 100.0 * rate / best), 0)
            ),
            above.iter().all(|rate| *rate < 0.95 * best),
        ),
        Gate::new(
            "α of 0.25 and less takes more than 30 minutes to drop path 1, in the median of runs \
             of 60",
            format!("minute {}", listed(slow.iter().copied(), 0)),
            slow.iter().all(|minute| *minute > 30.0),
        ),
    ]
}

fn beta_gates(table: &Table) -> Vec<Gate> {
    let direct = |beta: &str| table.means(&[beta])[DIRECT];
    let full = |beta: &str| table.means(&[beta])[4];
    let chosen = direct("mpath");
    let above = ["mpath:beta=0.5", "mpath:beta=0.75", "mpath:beta=1"].map(direct);
    let (slow, quick) = (full("mpath:beta=0.05"), full("mpath"));
    vec![
        Gate::new(
            "β of 0.5 and more: the direct path has less than with 0.25",
            format!(
                "{} against {chosen:.2} Mbps",
                listed(above.iter().copied(), 2)
            ),
            above.iter().all(|rate| *rate < chosen),
        ),
        Gate::new(
            "β below 0.25 takes longer to find enough paths",
            format!("{slow:.1} min with 0.05, {quick:.1} with 0.25"),
            slow > quick,
        ),
    ]
}

//! The Emulab experiments of the mPath paper (`scenarios/mpath`), with the paper's numbers beside
//! ours.

mod model;
mod windows;

use manyway_simulate::packet::{RunResult, SubflowResult};
use serde_json::Value;

use crate::claims::number;
use crate::extent::{Extent, Size};
use crate::failure::Failure;
use crate::gate::{Gate, GateRow, gate};
use crate::measured::{self, goodput};
use crate::ours::Ours;
use crate::page::Page;
use crate::planetlab::buffers;
use crate::runs::Source;
use crate::statistics::mean;
use crate::study::{Outcome, Study};
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
const FIG10: [&str; 4] = ["all, Mbps", "direct", "proxied", "proxied path open, s"];
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
        "mPath (Xu et al. 2013): the Emulab experiments, Fig. 7 to 14, α, β and τ, packet level"
    }

    fn cost(&self, size: Size) -> u32 {
        match size {
            Size::Short => 39,
            Size::Full => 600,
        }
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
    let columns = [&FIG7[..], &windows::FIG8].concat();
    let both_parts = |run: &RunResult| [paths(run), windows::fig8(run)].concat();
    let fig7_all = run("mpath/fig7", &[], &columns, both_parts)?;
    let fig7 = fig7_all.part(0..FIG7.len());
    let fig8 = fig7_all.part(FIG7.len()..columns.len());
    let fig7_short = run("mpath/fig7", &[SHORT_SWEEP], &FIG7, paths)?;
    let variants = VARIANTS
        .iter()
        .map(|(_, set)| run("mpath/fig7", set, &FIG7, paths))
        .collect::<Result<Vec<_>, _>>()?;
    let columns = ["all, Mbps", "direct", "path 3"];
    let fig9 = run("mpath/fig9", &[], &columns, both)?;
    let columns = [&FIG10[..], &windows::FIG11].concat();
    let both_parts = |run: &RunResult| [access(run), windows::fig11(run)].concat();
    let fig10_all = run("mpath/fig10", &[], &columns, both_parts)?;
    let fig10 = fig10_all.part(0..FIG10.len());
    let fig11 = fig10_all.part(FIG10.len()..columns.len());
    let fig12 = run("mpath/fig12", &[], &FIG12_COLUMNS, friendliness)?;
    let fig13 = run("mpath/fig13", &[], &FIG13_COLUMNS, joining)?;
    let fig13_short = run("mpath/fig13", &SHORT_QUEUES, &FIG13_COLUMNS, joining)?;
    let narrow = ["links.access.rate=17 Mbps"];
    let fig13_narrow = run("mpath/fig13", &narrow, &FIG13_COLUMNS, joining)?;
    let alpha = run("mpath/alpha", &[], &FIG7, paths)?;
    let beta = run("mpath/beta", &[], &BETA_COLUMNS, creation)?;
    let long = [BETA_SWEEP, "duration=30 min"];
    let beta_long = run("mpath/beta", &long, &BETA_COLUMNS, creation)?;
    let wide = [&long[..], &["links.access.rate=400 Mbps"]].concat();
    let beta_wide = run("mpath/beta", &wide, &BETA_COLUMNS, creation)?;
    let buffers = buffers::measure(extent)?;
    let gates = [
        fig7_gates(&fig7, &fig7_short),
        fig9_gates(&fig9),
        fig10_gates(&fig10),
        windows::gates(&fig8, &fig11, &QUEUES),
        fig12_gates(&fig12),
        fig13_gates(&fig13, &fig13_short, &fig13_narrow),
        alpha_gates(&alpha),
        beta_gates(&beta, &beta_long, &beta_wide),
        model::gates()?,
        buffers::gates(&buffers, extent),
    ]
    .concat();
    let others: String = VARIANTS
        .iter()
        .zip(&variants)
        .map(|((name, _), table)| format!("{name}:\n\n{}\n", table.markdown(&[])))
        .collect();
    let page = Page::new(include_str!("page.md"))
        .fill("repeat", &runs.repeat.to_string())
        .fill("buffers", &buffers::markdown(&buffers))
        .fill("gates", &Gate::markdown(&gates))
        .fill(
            "fig7",
            &fig7.markdown(&[
                ("paper, mPath", &["14.31", "about 7", "", "", "", "11"]),
                ("paper, TCP", &["7.21", "7.21", "", "", "", ""]),
            ]),
        )
        .fill("fig7-short", &fig7_short.markdown(&[]))
        .fill("fig8", &fig8.markdown(&[]))
        .fill("variants", &others)
        .fill("fig9", &fig9.markdown(&[]))
        .fill(
            "fig10",
            &fig10.markdown(&[
                ("paper, mPath", &["4.36", "", "", ""]),
                ("paper, TCP", &["4.40", "4.40", "", ""]),
            ]),
        )
        .fill("fig11", &fig11.markdown(&[]))
        .fill("fig12", &fig12.markdown(&[]))
        .fill(
            "fig13",
            &fig13.markdown(&[("paper", &["", "12.0", "11.4", "10.6", "within 2"])]),
        )
        .fill("fig13-short", &fig13_short.markdown(&[]))
        .fill("fig13-narrow", &fig13_narrow.markdown(&[]))
        .fill("alpha", &alpha.markdown(&[]))
        .fill("beta", &beta.markdown(&[]))
        .fill("beta-long", &beta_long.markdown(&[]))
        .fill("beta-wide", &beta_wide.markdown(&[]))
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
    let ours = ours(&fig7, &fig9, &fig10, &fig12, &fig13);
    let mut tables = vec![fig7_all, fig7_short];
    tables.extend(variants);
    tables.extend([
        fig9,
        fig10_all,
        fig12,
        fig13,
        fig13_short,
        fig13_narrow,
        alpha,
        beta,
        beta_long,
        beta_wide,
    ]);
    Ok(Outcome {
        page,
        gates,
        ours,
        tables,
        headline,
        figures: windows::figures(extent)?,
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

/// The values of β that Fig. 25's drop is between.
const BETA_SWEEP: &str = "sweep.\"flows.source.law\"=[\"mpath:beta=0.75\", \"mpath:beta=1\"]";

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

/// Rates of queues in the middle of those that are tried.
const MPATH: &str = "mPath (queues of 20 packets here)";
const TCP: &str = "TCP (queues of 20 packets here)";
/// Its time with the shortest of the queues.
const LAST_OPEN: &str = "path 1 last open (queues of 10 packets here)";

/// What stands beside the paper's numbers.
fn ours(fig7: &Table, fig9: &Table, fig10: &Table, fig12: &Table, fig13: &Table) -> Vec<Ours> {
    let of = |claim, name, table: &Table, point: &[&str]| {
        Ours::mean(claim, name, &table.row(point).values[ALL])
    };
    let mut ours = vec![
        of("mpath/figure-7", MPATH, fig7, &["20 packets", "mpath"]),
        of("mpath/figure-7", TCP, fig7, &["20 packets", "tcp"]),
        of("mpath/figure-10", MPATH, fig10, &["20 packets", "mpath"]),
        of("mpath/figure-10", TCP, fig10, &["20 packets", "tcp"]),
    ];
    for queue in QUEUES {
        let name = format!("mPath, queues of {queue}");
        ours.push(Ours::exact("mpath/figure-7", name, ratio(fig7, queue)));
    }
    let gone = fig7.row(&["10 packets", "mpath"]).values[GONE];
    ours.push(Ours::mean("mpath/figure-8", LAST_OPEN, &gone));
    let part = fig9.means(&["mpath"])[ALL] / fig9.means(&["tcp"])[ALL];
    ours.push(Ours::exact("mpath/figure-9", "mPath", part));
    let lost = &fig12.row(&[]).values;
    for (n, name) in [(5, "beside mPath"), (6, "beside TCP")] {
        ours.push(Ours::mean("mpath/figure-12", name, &lost[n]));
    }
    let joining = &fig13.row(&[]).values;
    for (n, name) in [
        (1, "one TCP flow"),
        (2, "two"),
        (3, "three"),
        (4, "path 2 dropped"),
    ] {
        ours.push(Ours::mean("mpath/figure-14", name, &joining[n]));
    }
    ours
}

/// What mPath has over what TCP has.
fn ratio(fig7: &Table, queue: &str) -> f64 {
    fig7.means(&[queue, "mpath"])[ALL] / fig7.means(&[queue, "tcp"])[ALL]
}

/// What a queue is called in cases.
fn queues(queue: &str) -> String {
    format!("queues of {queue}")
}

fn fig7_gates(table: &Table, short: &Table) -> Vec<Gate> {
    let paper = number("mpath/figure-7", MPATH) / number("mpath/figure-7", TCP);
    let ratios = QUEUES.map(|queue| ratio(table, queue));
    let core = QUEUES.map(|queue| {
        let (mpath, tcp) = (table.means(&[queue, "mpath"]), table.means(&[queue, "tcp"]));
        (mpath[DIRECT] + mpath[ONE]) / tcp[ALL]
    });
    let by_queue = |values: [f64; 3]| QUEUES.map(queues).into_iter().zip(values);
    let gone = |table: &Table, queue| table.row(&[queue, "mpath"]).values[GONE].median;
    let mut minutes = vec![(queues("5 packets"), gone(short, "5 packets"))];
    minutes.extend(QUEUES.map(|queue| (queues(queue), gone(table, queue))));
    let found = minutes
        .iter()
        .map(|(case, minute)| format!("{case}: {minute:.1}"));
    let found: Vec<String> = found.collect();
    vec![
        gate("mpath/figure-7-ratio").cases(
            by_queue(ratios.map(|ratio| 100.0 * (ratio / paper - 1.0))),
            listed(ratios.into_iter(), 2),
        ),
        gate("mpath/figure-7-direct").cases(
            by_queue(core),
            format!("{} %", listed(core.iter().map(|share| 100.0 * share), 0)),
        ),
        gate("mpath/figure-8-gone").cases(minutes, found.join(", ")),
    ]
}

fn fig9_gates(table: &Table) -> Vec<Gate> {
    let ratio = table.means(&["mpath"])[ALL] / table.means(&["tcp"])[ALL];
    let paper = number("mpath/figure-9", "mPath");
    vec![gate("mpath/figure-9").value(100.0 * (ratio / paper - 1.0), format!("{ratio:.2}"))]
}

fn fig10_gates(table: &Table) -> Vec<Gate> {
    let off = QUEUES.map(|queue| {
        let (mpath, tcp) = (table.means(&[queue, "mpath"]), table.means(&[queue, "tcp"]));
        100.0 * (mpath[ALL] / tcp[ALL] - 1.0)
    });
    vec![gate("mpath/figure-10").cases(
        QUEUES.map(queues).into_iter().zip(off),
        format!("{} %", listed(off.into_iter(), 1)),
    )]
}

fn fig12_gates(table: &Table) -> Vec<Gate> {
    let row = table.means(&[]);
    vec![
        gate("mpath/figure-12-mpath").value(row[5], format!("{:.0} %", row[5])),
        gate("mpath/figure-12-tcp").value(row[6], format!("{:.0} %", row[6])),
    ]
}

/// With queues of 20 and of 5 packets, and with an access link of 17 Mbps.
fn fig13_gates(table: &Table, short: &Table, narrow: &Table) -> Vec<Gate> {
    const NARROW: &str = "an access link of 17 Mbps";
    let of_one = |table: &Table, flows: usize| {
        let row = table.means(&[]);
        row[flows] / row[1]
    };
    let dropped = |table: &Table| table.row(&[]).values[4].median;
    let all = [(queues("20 packets"), table), (queues("5 packets"), short)];
    let with = |value: &dyn Fn(&Table) -> f64| -> Vec<(String, f64)> {
        let two = all.iter();
        two.map(|(case, table)| (case.clone(), value(table)))
            .collect()
    };
    let and_narrow = |value: &dyn Fn(&Table) -> f64| {
        let mut cases = with(value);
        cases.push((NARROW.to_owned(), value(narrow)));
        cases
    };
    let shown = |cases: &[(String, f64)], digits: usize| {
        let shown = cases
            .iter()
            .map(|(case, value)| format!("{case}: {value:.digits$}"));
        shown.collect::<Vec<_>>().join(", ")
    };
    let two = and_narrow(&|table| of_one(table, 2));
    let three = with(&|table| of_one(table, 3));
    let minutes = and_narrow(&dropped);
    let narrow = of_one(narrow, 3);
    let found = [shown(&two, 2), shown(&three, 2), shown(&minutes, 1)];
    let [two_found, three_found, minutes_found] = found;
    vec![
        gate("mpath/figure-14-two").cases(two, two_found),
        gate("mpath/figure-14-three").cases(three, three_found),
        gate("mpath/figure-14-three-narrow").value(narrow, format!("{narrow:.2}")),
        gate("mpath/figure-14-dropped").cases(minutes, minutes_found),
    ]
}

fn alpha_gates(table: &Table) -> Vec<Gate> {
    let part = |alpha: &str| table.means(&[alpha])[ALL] / table.means(&["mpath"])[ALL];
    let gone = |alpha: &str| table.row(&[alpha]).values[GONE].median;
    let above = ["mpath:alpha=0.875", "mpath:alpha=1"].map(part);
    let slow = ["mpath:alpha=0.125", "mpath:alpha=0.25"].map(gone);
    vec![
        gate("mpath/figure-24-throughput").cases(
            ["α = 0.875", "α = 1"].into_iter().zip(above),
            format!("{} %", listed(above.iter().map(|part| 100.0 * part), 0)),
        ),
        gate("mpath/figure-24-slow").cases(
            ["α = 0.125", "α = 0.25"].into_iter().zip(slow),
            format!("minute {}", listed(slow.iter().copied(), 0)),
        ),
    ]
}

/// As it is, over half an hour, and then with a wide access link, too.
fn beta_gates(table: &Table, long: &Table, wide: &Table) -> Vec<Gate> {
    let direct = |beta: &str| table.means(&[beta])[DIRECT];
    let full = |beta: &str| table.means(&[beta])[4];
    let drop = |row: GateRow, table: &Table| {
        let [most, less] = ["mpath:beta=1", "mpath:beta=0.75"].map(|beta| table.means(&[beta])[0]);
        let found = format!("{most:.1} Mbps with 1, {less:.1} with 0.75");
        row.value(most / less, found)
    };
    let chosen = direct("mpath");
    let above = ["mpath:beta=0.5", "mpath:beta=0.75", "mpath:beta=1"].map(direct);
    let (slow, quick) = (full("mpath:beta=0.05"), full("mpath"));
    let cases = ["β = 0.5", "β = 0.75", "β = 1"].into_iter();
    vec![
        gate("mpath/figure-25-direct").cases(
            cases.zip(above.map(|rate| rate / chosen)),
            format!(
                "{} against {chosen:.2} Mbps",
                listed(above.iter().copied(), 2)
            ),
        ),
        drop(gate("mpath/figure-25-drop"), table),
        drop(gate("mpath/figure-25-drop-long"), long),
        drop(gate("mpath/figure-25-drop-wide"), wide),
        gate("mpath/figure-25-slow").value(
            slow / quick,
            format!("{slow:.1} min with 0.05, {quick:.1} with 0.25"),
        ),
    ]
}

//! The experiments of the wVegas paper (`scenarios/wvegas`), with the paper's numbers beside ours.

use manyway_simulate::packet::RunResult;
use serde_json::Value;

use crate::claims::number;
use crate::extent::{Extent, Size};
use crate::failure::Failure;
use crate::gate::{Gate, gate};
use crate::measured::{goodput, subflow};
use crate::ours::Ours;
use crate::page::Page;
use crate::runs::Source;
use crate::statistics::{jain, mean};
use crate::study::{Outcome, Study};
use crate::table::{Table, with_interval};

/// The study.
pub(crate) struct WvegasPaper;

/// Table II's optimum: flow 2-1 and 2-2 in each interval, Mbps.
const OPTIMUM: [f64; 8] = [1.0, 4.0, 0.0, 4.5, 2.25, 1.5, 1.0, 4.0];
/// The entry that the floor of α holds up: flow 2-1 in 100-200 s.
const FLOORED: usize = 2;
const SHIFTING: [&str; 10] = [
    "2-1, 0-100 s",
    "2-2",
    "2-1, 100-200 s",
    "2-2",
    "2-1, 200-300 s",
    "2-2",
    "2-1, 300-360 s",
    "2-2",
    "variation of 1 s means",
    "of w/RTT",
];
/// Fig. 6: the flows there are in each interval of 50 s.
const PRESENT: [&[&str]; 6] = [
    &["one", "three"],
    &["one", "three"],
    &["one", "three", "four"],
    &["one", "three", "four"],
    &["one", "two", "three", "four"],
    &["one", "two"],
];

/// What a run gives under a table's columns.
type Measure = fn(&RunResult) -> Vec<f64>;
/// Rows that a table begins with.
type Given<const N: usize> = [(&'static str, &'static [&'static str]); N];

const PAPERS_TABLE2: Given<3> = [
    (
        "optimum",
        &[
            "1.00", "4.00", "0.00", "4.50", "2.25", "1.50", "1.00", "4.00", "", "",
        ],
    ),
    (
        "paper, wVegas",
        &[
            "1.08", "3.53", "0.15", "4.19", "1.93", "1.62", "0.97", "3.64", "", "",
        ],
    ),
    (
        "paper, LIA",
        &[
            "2.59", "1.89", "1.65", "2.69", "0.67", "3.83", "0.45", "2.01", "", "",
        ],
    ),
];
const PAPERS_FIG2A: Given<1> = [(
    "optimum",
    &["3.1028", "1.8972", "1.2056", "8.7944", "4.7944"],
)];

/// Table II again, with one thing changed, for what its means of 1 s consist of.
const VARIATIONS: [(&str, &[&str]); 4] = [
    ("as in Table II", &[]),
    (
        "other flows 3 ms further away",
        &[
            "flows.one.extra_delay=1.5 ms",
            "flows.three.extra_delay=1.5 ms",
        ],
    ),
    ("jitter of up to 10 ms", &["jitter=10 ms"]),
    ("senders that pace", &["pacing=true"]),
];

impl Study for WvegasPaper {
    fn name(&self) -> &'static str {
        "wvegas"
    }

    fn reproduces(&self) -> &'static str {
        "wVegas (Cao, Xu and Fu 2012): Table II and Fig. 1 to 8, packet level"
    }

    fn cost(&self, size: Size) -> u32 {
        match size {
            Size::Short => 22,
            Size::Full => 120,
        }
    }

    fn run(&self, extent: Extent) -> Result<Outcome, Failure> {
        measure(extent)
    }
}

fn measure(extent: Extent) -> Result<Outcome, Failure> {
    let runs = extent.runs(10, 4);
    let run = |scenario: &str, set: &[&str], columns: &[&str], measure: Measure| {
        Table::run(Source::new(scenario, set), runs, columns, measure)
    };
    let table2 = run("wvegas/table2", &[], &SHIFTING, shifting)?;
    let mut variations = Vec::new();
    for (_, set) in VARIATIONS {
        let laws = ["sweep.law=[\"wvegas\", \"wvegas:drain=0\", \"lia\"]"];
        let set = [&laws[..], set].concat();
        variations.push(run("wvegas/table2", &set, &SHIFTING, shifting)?);
    }
    let fig1b = run(
        "wvegas/fig1b",
        &[],
        &["each flow", "one hop", "two hops"],
        ring,
    )?;
    let fig2a_columns = ["s1", "s2 top", "s2 bottom", "s3", "s4"];
    let fig2a = run("wvegas/fig2a", &[], &fig2a_columns, equilibrium)?;
    let fig5 = run("wvegas/fig5", &[], &SHIFTING, shifting)?;
    let fig6 = run("wvegas/fig6", &[], &FAIRNESS_COLUMNS, fairness)?;
    let fig7 = run("wvegas/fig7", &[], &SHIFTING, shifting)?;
    let fig8 = run("wvegas/fig8", &[], &DOMINO_COLUMNS, domino)?;
    let back_columns = ["path a", "path b", "one of the TCP flows"];
    let back = run("wvegas/return-path", &[], &back_columns, return_path)?;
    let tcp = run("wvegas/beside-reno", &[], &BESIDE_COLUMNS, beside_reno)?;
    let gates = [
        table2_gates(&table2, &variations),
        fig1b_gates(&fig1b),
        fig2a_gates(&fig2a),
        fig5_gates(&fig5),
        fig6_gates(&fig6),
        fig7_gates(&fig7),
        return_path_gates(&back),
    ]
    .concat();
    let page = Page::new(include_str!("page.md"))
        .fill("repeat", &runs.repeat.to_string())
        .fill("gates", &Gate::markdown(&gates))
        .fill("table2", &table2.markdown(&PAPERS_TABLE2))
        .fill("variations", &variations_markdown(&variations))
        .fill("fig1b", &fig1b.markdown(&[("optimum", &["9", "9", "0"])]))
        .fill("fig2a", &fig2a.markdown(&PAPERS_FIG2A))
        .fill("fig5", &fig5.markdown(&[]))
        .fill("fig6", &fig6.markdown(&[]))
        .fill("fig7", &fig7.markdown(&[]))
        .fill("fig8", &fig8.markdown(&[]))
        .fill("return", &back.markdown(&[]))
        .fill("reno", &tcp.markdown(&[]))
        .text();
    let headline = [
        table2.headline("Table II", &["wvegas"], [0, 2, 4, 6]),
        table2.headline("Table II", &["lia"], [0, 2, 4, 6]),
        fig1b.headline("Fig. 1(b)", &["wvegas"], 0..1),
        fig1b.headline("Fig. 1(b)", &["wvegas:min_alpha=0.1"], 0..1),
        fig2a.headline("Fig. 2(a)", &["wvegas", "0 ms"], 0..5),
        fig6.headline("Fig. 6", &["wvegas"], 6..9),
        back.headline("return path", &["wvegas"], 0..1),
        back.headline("return path", &["wvegas:forward=1"], 0..1),
        tcp.headline("beside Reno", &["wvegas"], 2..3),
    ]
    .concat();
    let ours = ours(&table2, &fig1b, &fig2a);
    let mut tables = vec![table2, fig1b, fig2a, fig5, fig6, fig7, fig8, back, tcp];
    tables.extend(variations);
    Ok(Outcome {
        page,
        gates,
        ours,
        tables,
        headline,
        figures: Vec::new(),
        details: Value::Null,
    })
}

/// Flow 2's subflows in each span, and how much their means of 1 s change from one to the next
/// within the spans.
fn shifting(run: &RunResult) -> Vec<f64> {
    let two = run
        .flows
        .iter()
        .find(|flow| flow.name == "two")
        .expect("flow two");
    let spans = 0..two.subflows[0].spans_bps.len();
    let rates = spans.flat_map(|span| {
        two.subflows
            .iter()
            .map(move |subflow| subflow.spans_bps[span] / 1e6)
    });
    rates
        .chain([variation(&of(run, "rate")), variation(&instantaneous(run))])
        .collect()
}

/// A quantity over time of flow 2's subflows.
fn of(run: &RunResult, kind: &str) -> Vec<Vec<f64>> {
    let series = run.series.iter();
    let series = series.filter(|series| series.kind == kind && series.of[0] == "two");
    series.map(|series| series.values.clone()).collect()
}

/// Rates as the paper's figures have them, window over round-trip time, bits/s: packets are of 1000
/// B.
fn instantaneous(run: &RunResult) -> Vec<Vec<f64>> {
    let both = of(run, "window").into_iter().zip(of(run, "rtt"));
    let rate = |(window, rtt): (&f64, &f64)| 8000.0 * window / rtt;
    both.map(|(windows, rtts)| windows.iter().zip(&rtts).map(rate).collect())
        .collect()
}

/// The mean change from one second to the next within the spans, Mbps.
fn variation(rates: &[Vec<f64>]) -> f64 {
    let spans = [(20, 100), (120, 200), (220, 300), (320, 360)];
    let parts = rates
        .iter()
        .flat_map(|rates| spans.map(|(from, until)| &rates[from..until]));
    let changes: Vec<f64> = parts
        .flat_map(|part| part.windows(2).map(|pair| (pair[1] - pair[0]).abs()))
        .collect();
    mean(&changes) / 1e6
}

fn equilibrium(run: &RunResult) -> Vec<f64> {
    vec![
        goodput(run, "s1"),
        subflow(run, "s2", 0),
        subflow(run, "s2", 1),
        goodput(run, "s3"),
        goodput(run, "s4"),
    ]
}

const FAIRNESS_COLUMNS: [&str; 9] = [
    "0-50 s",
    "50-100 s",
    "100-150 s",
    "150-200 s",
    "200-250 s",
    "250-300 s",
    "furthest from equal, %",
    "least Jain",
    "least utilisation",
];

/// Flow one's share of what is equal in each interval, and of all flows the furthest from it.
fn fairness(run: &RunResult) -> Vec<f64> {
    let mut row = Vec::new();
    let (mut furthest, mut least_jain, mut utilisation) = (0.0f64, 1.0f64, 1.0f64);
    for (span, present) in PRESENT.iter().enumerate() {
        let rates: Vec<f64> = present
            .iter()
            .map(|name| span_rate(run, name, span))
            .collect();
        let total: f64 = rates.iter().sum();
        let equal = 20.0 / rates.len() as f64;
        let off = rates.iter().map(|rate| (rate / equal - 1.0).abs());
        furthest = off.fold(furthest, f64::max);
        least_jain = least_jain.min(jain(&rates));
        utilisation = utilisation.min(total / 20.0);
        row.push(rates[0] / equal);
    }
    row.extend([100.0 * furthest, least_jain, utilisation]);
    row
}

fn span_rate(run: &RunResult, flow: &str, span: usize) -> f64 {
    let flow = run
        .flows
        .iter()
        .find(|known| known.name == flow)
        .expect("the flow");
    flow.subflows
        .iter()
        .map(|subflow| subflow.spans_bps[span])
        .sum::<f64>()
        / 1e6
}

const DOMINO_COLUMNS: [&str; 10] = [
    "1, 200-250 s",
    "2",
    "3",
    "4",
    "5",
    "1, 400-450 s",
    "2",
    "3",
    "4",
    "5",
];

/// Flows 1 to 5 before link 3 has other load, and with four other flows on it.
fn domino(run: &RunResult) -> Vec<f64> {
    let flows = ["one", "two", "three", "four", "five"];
    let spans = [0, 4].into_iter();
    spans
        .flat_map(|span| flows.map(|flow| span_rate(run, flow, span)))
        .collect()
}

/// Means over the three flows: all of a flow, and its paths.
fn ring(run: &RunResult) -> Vec<f64> {
    let mean = |n: usize| {
        let rates = ["one", "two", "three"].map(|flow| subflow(run, flow, n));
        rates.iter().sum::<f64>() / 3.0
    };
    vec![mean(0) + mean(1), mean(0), mean(1)]
}

fn return_path(run: &RunResult) -> Vec<f64> {
    let against = run
        .flows
        .iter()
        .filter(|flow| flow.name.starts_with("against"));
    let rates: Vec<f64> = against.map(|flow| flow.goodput_bps / 1e6).collect();
    let each = rates.iter().sum::<f64>() / rates.len().max(1) as f64;
    vec![subflow(run, "one", 0), subflow(run, "one", 1), each]
}

const BESIDE_COLUMNS: [&str; 5] = [
    "the law",
    "TCP",
    "the law's share, %",
    "its loss events per minute",
    "TCP's",
];

fn beside_reno(run: &RunResult) -> Vec<f64> {
    let (own, tcp) = (goodput(run, "one"), goodput(run, "tcp"));
    // Measured for four minutes.
    let losses = |n: usize| run.flows[n].subflows[0].loss_events as f64 / 4.0;
    vec![own, tcp, 100.0 * own / (own + tcp), losses(0), losses(1)]
}

/// The last two columns of each table, a row for each law.
fn variations_markdown(tables: &[Table]) -> String {
    let mut page =
        "| | law | means of 1 s | window over round-trip time |\n|---|---|--:|--:|\n".to_owned();
    for ((what, _), table) in VARIATIONS.iter().zip(tables) {
        for row in &table.rows {
            let [seconds, instants] = [8, 9].map(|n| with_interval(&row.values[n]));
            page += &format!(
                "| {what} | {} | {seconds} | {instants} |\n",
                row.point.join(", ")
            );
        }
    }
    page
}

fn table2_gates(table: &Table, variations: &[Table]) -> Vec<Gate> {
    let ours = table.means(&["wvegas"]);
    let lia = table.means(&["lia"]);
    let rms = |row: &[f64]| distance(row, OPTIMUM);
    let furthest = furthest(&ours);
    let papers = number_by_span("wvegas/table-2-lia");
    let from_papers = distance(&lia, papers);
    let [paced, paced_lia] =
        ["wvegas", "lia"].map(|law| variations[VARIATIONS.len() - 1].means(&[law])[8]);
    vec![
        gate("wvegas/table-2-entries").value(furthest, format!("furthest {furthest:.2}")),
        gate("wvegas/table-2-floor").value(ours[FLOORED], format!("{:.2}", ours[FLOORED])),
        gate("wvegas/table-2-error").value(
            rms(&ours) / rms(&lia),
            format!("{:.3} against {:.3}", rms(&ours), rms(&lia)),
        ),
        gate("wvegas/table-2-lia-far").value(rms(&lia), format!("{:.3} Mbps", rms(&lia))),
        gate("wvegas/table-2-lia-entries").value(from_papers, format!("{from_papers:.2} Mbps")),
        gate("wvegas/table-2-variation").value(
            paced / paced_lia,
            format!(
                "{paced:.3} against {paced_lia:.3} (not pacing {:.3} against {:.3}; of window over \
                 round-trip time {:.3} against {:.3})",
                ours[8], lia[8], ours[9], lia[9]
            ),
        ),
    ]
}

/// The root mean square difference of Table II's entries, Mbps.
fn distance(row: &[f64], from: [f64; 8]) -> f64 {
    let squares = row.iter().zip(from).map(|(a, b)| (a - b).powi(2));
    (squares.sum::<f64>() / 8.0).sqrt()
}

/// How far an entry of Table II is from the optimum at most, Mbps; but for the one that the floor
/// of α holds up.
fn furthest(row: &[f64]) -> f64 {
    let entries = row.iter().zip(OPTIMUM).enumerate();
    let entries = entries.filter(|(n, _)| *n != FLOORED);
    entries
        .map(|(_, (rate, best))| (rate - best).abs())
        .fold(0.0, f64::max)
}

/// Table II's columns, as the claims call them.
fn entries() -> impl Iterator<Item = String> {
    let spans = ["0-100 s", "100-200 s", "200-300 s", "300-360 s"];
    spans
        .into_iter()
        .flat_map(|span| ["2-1", "2-2"].map(|subflow| format!("{subflow}, {span}")))
}

/// The paper's row of Table II that this claim has, Mbps.
fn number_by_span(claim: &str) -> [f64; 8] {
    let mut numbers = entries().map(|name| number(claim, &name));
    std::array::from_fn(|_| numbers.next().unwrap_or(f64::NAN))
}

/// What stands beside the paper's numbers.
fn ours(table2: &Table, fig1b: &Table, fig2a: &Table) -> Vec<Ours> {
    let mut ours = Vec::new();
    for (claim, law) in [("wvegas/table-2", "wvegas"), ("wvegas/table-2-lia", "lia")] {
        let values = entries().zip(&table2.row(&[law]).values);
        ours.extend(values.map(|(name, value)| Ours::mean(claim, name, value)));
    }
    let each = &fig1b.row(&["wvegas"]).values[0];
    ours.push(Ours::mean("wvegas/figure-1b", "each flow", each));
    let rates = fig2a
        .columns
        .iter()
        .zip(&fig2a.row(&["wvegas", "0 ms"]).values);
    ours.extend(rates.map(|(name, rate)| Ours::mean("wvegas/figure-3b", name.as_str(), rate)));
    ours
}

/// What the floor of α leaves of Fig. 1(b)'s 9 Mbps. A queueing delay of q on each link: the long
/// path's 2 packets, its floor, stand in two queues, so its rate is 1/q; both paths together have
/// 10/q, as weights share out 10 packets by rates; a link carries 11/q = 9 Mbps.
const FLOORED_RING: f64 = 90.0 / 11.0;

fn fig1b_gates(table: &Table) -> Vec<Gate> {
    let ours = table.means(&["wvegas"])[0];
    let low = table.means(&["wvegas:min_alpha=0.1"])[0];
    vec![
        gate("wvegas/figure-1b").value(ours, format!("{ours:.2}")),
        gate("wvegas/figure-1b-arithmetic")
            .value(100.0 * (ours / FLOORED_RING - 1.0), format!("{ours:.2}")),
        gate("wvegas/figure-1b-floor").value(low, format!("{low:.2}")),
    ]
}

fn fig2a_gates(table: &Table) -> Vec<Gate> {
    let off = |point: [&str; 2]| -> Vec<(String, f64)> {
        let optimum = |name: &String| number("wvegas/figure-3b", name);
        let rates = table.columns.iter().zip(table.means(&point));
        rates
            .map(|(name, rate)| (name.clone(), 100.0 * (rate / optimum(name) - 1.0)))
            .collect()
    };
    let furthest = |point: [&str; 2]| {
        let off = off(point);
        off.iter()
            .fold(0.0f64, |most, (_, off)| most.max(off.abs()))
    };
    let found = format!(
        "furthest {:.1} % (with 1 ms of jitter {:.1} %; told the true base {:.1} %, told it with \
         the jitter's mean in it {:.1} %)",
        furthest(["wvegas", "0 ms"]),
        furthest(["wvegas", "1 ms"]),
        furthest(["wvegas:base=0.1", "1 ms"]),
        furthest(["wvegas:base=0.1005", "1 ms"]),
    );
    let lia = off(["lia", "0 ms"]);
    let two = lia.iter().filter(|(name, _)| name.starts_with("s2"));
    let two: Vec<_> = two
        .map(|(name, off)| (name.clone(), 1.0 + off / 100.0))
        .collect();
    vec![
        gate("wvegas/figure-3b").cases(off(["wvegas", "0 ms"]), found),
        gate("wvegas/figure-3c").cases(
            two.clone(),
            format!(
                "{:.2} and {:.2} of their shares (with 1 ms of jitter {:.2} and {:.2})",
                two[0].1,
                two[1].1,
                1.0 + off(["lia", "1 ms"])[1].1 / 100.0,
                1.0 + off(["lia", "1 ms"])[2].1 / 100.0
            ),
        ),
    ]
}

/// Traffic shifts as in Table II, however many packets are to be queued.
fn fig5_gates(table: &Table) -> Vec<Gate> {
    let packets = [
        ("5 packets", "wvegas:total_alpha=5"),
        ("10 packets", "wvegas"),
        ("15 packets", "wvegas:total_alpha=15"),
    ];
    let off = packets.map(|(name, law)| (name, furthest(&table.means(&[law]))));
    let found = off
        .map(|(name, off)| format!("{name}: {off:.2}"))
        .join(", ");
    let lower = furthest(&table.means(&["wvegas:total_alpha=5,min_alpha=0.5"]));
    vec![
        gate("wvegas/figure-5").cases(off, found),
        gate("wvegas/figure-5-floor").value(lower, format!("{lower:.2}")),
    ]
}

/// The same, whatever the round-trip time of flow 2-2.
fn fig7_gates(table: &Table) -> Vec<Gate> {
    let off = |law: &str| -> Vec<(String, f64)> {
        let rows = table.rows.iter().filter(|row| row.point[0] == law);
        rows.map(|row| {
            let rates: Vec<f64> = row.values.iter().map(|rate| rate.mean).collect();
            (row.point[1].clone(), furthest(&rates))
        })
        .collect()
    };
    let most = |off: &[(String, f64)]| off.iter().map(|(_, off)| *off).fold(0.0, f64::max);
    let (own, lia) = (off("wvegas"), off("lia"));
    let found = format!("{:.2} at most (LIA {:.2})", most(&own), most(&lia));
    vec![gate("wvegas/figure-7").cases(own, found)]
}

/// Rates of path a, whose return path is congested by so many TCP flows.
fn return_path_gates(table: &Table) -> Vec<Gate> {
    let rate = |law: &str, flows: &str| table.means(&[law, flows])[0];
    let kept = ["1", "4"].map(|flows| rate("wvegas:forward=1", flows));
    let lost = ["1", "4"].map(|flows| rate("wvegas", flows));
    let both = |rates: [f64; 2]| ["1 TCP flow", "4 TCP flows"].into_iter().zip(rates);
    vec![
        gate("manyway/return-path-forward").cases(
            both(kept),
            format!("{:.1} and {:.1} of 10 Mbps", kept[0], kept[1]),
        ),
        gate("manyway/return-path-round-trip").cases(
            both(lost),
            format!("{:.1} and {:.1} of 10 Mbps", lost[0], lost[1]),
        ),
    ]
}

fn fig6_gates(table: &Table) -> Vec<Gate> {
    let (row, lia) = (table.means(&["wvegas"]), table.means(&["lia"]));
    // Of the means over all runs, as the paper's bars are.
    vec![
        gate("wvegas/figure-6-shares").value(row[6], format!("{:.0} %", row[6])),
        gate("wvegas/figure-6-jain").value(row[7], format!("{:.3}", row[7])),
        gate("wvegas/figure-6-utilisation").value(row[8], format!("{:.3}", row[8])),
        gate("wvegas/figure-6b").value(
            (1.0 - lia[7]) / (1.0 - row[7]),
            format!("Jain's index {:.3}, wVegas' {:.3}", lia[7], row[7]),
        ),
    ]
}

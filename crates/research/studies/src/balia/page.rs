//! The results as a page: the paper's numbers beside ours.

use std::fmt::Write as _;

use manyway_report::{Column, Table};
use manyway_simulate::measure::Summary;

use super::tables::paper;
use super::tables::{Aggregation, Friendliness, Oscillation, Responsiveness, STIRRING};
use super::{Of, Results};
use crate::gate::Gate;

pub(crate) fn page(results: &Results, gates: &[Gate]) -> String {
    let runs = |index: usize| results.friendliness[index].variant.runs.repeat;
    let (repeat, otherwise) = (runs(0), runs(1));
    let mut out = String::new();
    let _ = write!(
        out,
        "# Balia's experiments\n\n\
         Section V of \"Multipath TCP: Analysis, Design and Implementation\" (Peng, Walid, Hwang \
         and Low) at the packet level: the scenarios are [scenarios/balia](../../scenarios/balia), \
         which say what the paper leaves open and what we chose. Made by `cargo run --release -p \
         manyway-studies -- balia --full --out docs/results`; every run repeats bit for \
         bit. {repeat} runs per law, {otherwise} under other conditions; ± is half the 95 % \
         interval of the mean. Max is LIA. What to make of it is [in the \
         overview](README.md#balias-experiments).\n\n"
    );
    out += &Gate::markdown(gates);
    out.push('\n');
    friendliness(&mut out, &results.friendliness);
    unequal_rtts(&mut out, &results.unequal_rtts[0]);
    aggregation(&mut out, &results.aggregation);
    responsiveness(&mut out, &results.responsiveness);
    oscillation(&mut out, &results.oscillation[0].rows);
    out
}

fn friendliness(out: &mut String, variants: &[Of<Friendliness>]) {
    heading(out, "Table III: friendliness");
    let _ = writeln!(
        out,
        "30 multipath flows over two links of 60 Mbps, 30 Reno flows on the second. Goodput of a \
         flow, Mbps.\n"
    );
    let mut table = Table::new(
        [
            "multipath, paper",
            "ours",
            "off",
            "single path, paper",
            "ours",
            "off",
        ]
        .into_iter()
        .fold(vec![Column::left("law")], |mut columns, heading| {
            columns.push(Column::right(heading));
            columns
        }),
    );
    for row in &variants[0].rows {
        let Some(theirs) = paper::of(&row.law) else {
            continue;
        };
        table.row([
            name(&row.law).to_owned(),
            format!("{:.2}", theirs.multipath),
            with_interval(&row.multipath, 3),
            off(row.multipath.mean, theirs.multipath),
            format!("{:.3}", theirs.single),
            with_interval(&row.single, 3),
            off(row.single.mean, theirs.single),
        ]);
    }
    let _ = writeln!(out, "{}", table.markdown());
    let _ = writeln!(out, "Under other conditions, multipath / single path:\n");
    let cell = |row: &Friendliness| format!("{:.2} / {:.2}", row.multipath.mean, row.single.mean);
    let theirs = |law: &paper::Column| format!("{:.2} / {:.2}", law.multipath, law.single);
    let _ = writeln!(out, "{}", compared(variants, theirs, |row| &row.law, cell));
}

fn unequal_rtts(out: &mut String, Of { variant, rows }: &Of<Friendliness>) {
    heading(out, "Unequal round-trip times: friendliness");
    let _ = writeln!(
        out,
        "Five multipath flows over 8 Mbps, 10 ms and 2 Mbps, 100 ms, and five Reno flows on the \
         second. Goodput of a flow, Mbps, in {} runs per law.\n",
        variant.runs.repeat
    );
    let columns = ["multipath", "single path"].map(Column::right);
    let mut table = Table::new(std::iter::once(Column::left("law")).chain(columns));
    for row in rows {
        table.row([
            name(&row.law).to_owned(),
            with_interval(&row.multipath, 3),
            with_interval(&row.single, 3),
        ]);
    }
    let _ = writeln!(out, "{}", table.markdown());
    let _ = writeln!(
        out,
        "We chose five flows of each kind after trying others (10 runs each). With one of each \
         kind, single paths have 0.92, 1.32, 1.25, 1.39, 1.32 and 1.40 Mbps, in the order of the \
         rows; with Reno over WiFi, one of each 3.72, 4.40, 4.68, 4.11, 4.17 and 4.20, five of \
         each 0.743, 0.845, 0.886, 0.882, 0.894 and 0.846, and 30 of each 0.124, 0.124, 0.124, \
         0.142, 0.142 and 0.124. EWTCP leaves them least everywhere, within the intervals; the \
         others change places.\n"
    );
}

fn aggregation(out: &mut String, variants: &[Of<Aggregation>]) {
    heading(out, "Table IV: WiFi and 3G");
    let _ = writeln!(
        out,
        "One multipath flow over 8 Mbps, 10 ms and 2 Mbps, 100 ms. Goodput, Mbps, of 9.30 after \
         headers; (utilisation of both links together / of 3G).\n"
    );
    let cell = |row: &Aggregation| {
        format!(
            "{} ({:.3} / {:.3})",
            with_interval(&row.goodput, 3),
            row.utilisation.mean,
            row.slow_link.mean
        )
    };
    let theirs = |law: &paper::Column| format!("{:.2}", law.aggregation);
    let _ = writeln!(out, "{}", compared(variants, theirs, |row| &row.law, cell));
}

fn responsiveness(out: &mut String, variants: &[Of<Responsiveness>]) {
    heading(out, "Table V: responsiveness");
    let _ = writeln!(
        out,
        "One multipath flow over two links of 20 Mbps; five Reno flows on the second from 40 s to \
         80 s. The columns describe the window on the second path, in packets: its average before \
         the five flows start, its value as they leave, the mean time until it has {STIRRING} \
         packets, and the time until it is back at its average. SP-TCP: the five's goodput \
         together.\n"
    );
    let mut table = Table::new([
        Column::left("law"),
        Column::right("average"),
        Column::right("at 80 s"),
        Column::right(format!("to {STIRRING} packets, s")),
        Column::right("convergence, mean, s"),
        Column::right("longest, s"),
        Column::right("paper, s"),
        Column::right("ours/paper"),
        Column::right("SP-TCP, Mbps"),
        Column::right("paper, Mbps"),
    ]);
    for row in &variants[0].rows {
        let Some(theirs) = paper::of(&row.law) else {
            continue;
        };
        let stirred: Vec<f64> = row.stirred.iter().copied().flatten().collect();
        let of = |value: Option<f64>, digits: usize| {
            value.map_or_else(|| "never".to_owned(), |value| format!("{value:.digits$}"))
        };
        table.row([
            name(&row.law).to_owned(),
            format!("{:.1}", row.average_window),
            format!("{:.1}", row.window_then),
            of(Summary::of(&stirred).map(|summary| summary.mean), 1),
            row.mean()
                .map_or_else(|| "never".to_owned(), |mean| with_interval(&mean, 1)),
            of(row.longest(), 1),
            format!("{:.2}", theirs.convergence),
            of(row.longest().map(|longest| longest / theirs.convergence), 2),
            with_interval(&row.single, 2),
            format!("{:.2}", theirs.singles),
        ]);
    }
    let _ = writeln!(out, "{}", table.markdown());
    let _ = writeln!(
        out,
        "Fig. 4, one run of each law: the window on the second path, and the throughput of the \
         multipath flow and of the five single-path flows, as means of 1 s.\n"
    );
    for (what, file) in [
        ("Windows on the second path", "balia-fig4"),
        ("Throughput of the multipath flow", "balia-fig4-multipath"),
        ("Throughput of the single-path flows", "balia-fig4-single"),
    ] {
        let _ = writeln!(out, "![{what}]({file}.svg)");
    }
    out.push('\n');
    let _ = writeln!(
        out,
        "Under other conditions, the longest convergence, s (mean) / SP-TCP, Mbps:\n"
    );
    let cell = |row: &Responsiveness| {
        let times = match (row.longest(), row.mean()) {
            (Some(longest), Some(mean)) => format!("{longest:.1} ({:.1})", mean.mean),
            _ => "longer than the run".to_owned(),
        };
        format!("{times} / {:.1}", row.single.mean)
    };
    let theirs = |law: &paper::Column| format!("{:.1} / {:.1}", law.convergence, law.singles);
    let _ = writeln!(out, "{}", compared(variants, theirs, |row| &row.law, cell));
}

fn oscillation(out: &mut String, rows: &[Oscillation]) {
    heading(out, "Fig. 3: window oscillation");
    let _ = writeln!(
        out,
        "One link of 20 Mbps; Reno on one path, every other law on two over this link. *Cut*: \
         the mean part of the window, or of the sum of both windows, that a cut takes away. \
         *Deviation*: the standard deviation over the mean of the same quantity. The paper's \
         measure D of oscillation is the cut: 1/2 for Reno, less for two paths.\n"
    );
    let mut table = Table::new([
        Column::left("law"),
        Column::right("subflows"),
        Column::right("cut"),
        Column::right("deviation"),
    ]);
    for row in rows {
        table.row([
            name(&row.law).to_owned(),
            row.subflows.to_string(),
            with_interval(&row.cut, 3),
            with_interval(&row.deviation, 3),
        ]);
    }
    let _ = writeln!(out, "{}", table.markdown());
    let _ = writeln!(out, "![Windows of Balia and Reno](balia-fig3.svg)");
}

/// A table with a column for each law and a row for each variant, below the paper's.
fn compared<R>(
    variants: &[Of<R>],
    theirs: impl Fn(&paper::Column) -> String,
    law: impl Fn(&R) -> &str,
    cell: impl Fn(&R) -> String,
) -> String {
    let columns = paper::columns();
    let laws = columns.iter().map(|column| Column::right(name(column.law)));
    let mut table = Table::new(std::iter::once(Column::left("")).chain(laws));
    let cells = columns.iter().map(theirs);
    table.row(std::iter::once("paper".to_owned()).chain(cells));
    for Of { variant, rows } in variants {
        let cells = columns.iter().map(|column| {
            let row = rows.iter().find(|row| law(row) == column.law);
            row.map_or_else(String::new, &cell)
        });
        table.row(std::iter::once(variant.name.clone()).chain(cells));
    }
    table.markdown()
}

fn heading(out: &mut String, text: &str) {
    let _ = writeln!(out, "## {text}\n");
}

fn name(law: &str) -> &str {
    match law {
        "ewtcp" => "EWTCP",
        "semicoupled" => "Semicoupled",
        "lia" => "Max",
        "balia" => "Balia",
        "coupled" => "Coupled",
        "olia" => "OLIA",
        "reno" => "Reno",
        other => other,
    }
}

fn with_interval(summary: &Summary, digits: usize) -> String {
    format!(
        "{:.digits$} ± {:.digits$}",
        summary.mean,
        summary.ci95.unwrap_or(0.0)
    )
}

fn off(ours: f64, theirs: f64) -> String {
    format!("{:+.1} %", 100.0 * (ours / theirs - 1.0))
}

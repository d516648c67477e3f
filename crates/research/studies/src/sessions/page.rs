//! The page.

use std::fmt::Write as _;

use super::fairness::FairnessRun;
use super::{Measurement, Results, ReturnPathRow};
use crate::gate::Gate;
use crate::statistics::summary;

pub(crate) fn markdown(study: &str, results: &Results, gates: &[Gate]) -> String {
    let Measurement { seeds, from, until } = results.aggregation_measurement;
    let (payload, packet) = (results.payload_bytes, results.packet_bytes);
    let mut out = String::new();
    let _ = write!(
        out,
        "# Aggregation and fairness under the virtual clock\n\n\
         Production sessions (handshake, sealing, streams, scheduler, congestion control) over \
         virtual links: one-way delays, DropTail of one bandwidth-delay product (rate × round \
         trip), outer packets of {packet} bytes. Made by `cargo run --release -p manyway-studies \
         -- {study} --full --out docs/results`; every run repeats bit for bit.\n\n\
         {gates}\
         ## Aggregation\n\n\
         One connection alone, mean goodput (stream bytes read in order) over {from}-{until} s, \
         median of {seeds} seeds. Without sender jitter nothing in such a run is random but keys, \
         so seeds hardly matter; with it they do. *After headers* is \
         the fraction of Σ rate × {payload}/{packet}: {payload} stream \
         bytes in a packet of {packet} (28 IPv4 and UDP, 14 header, 16 tag, {frame} frame header); \
         *of the wire* is the fraction of Σ rate. Ramp-up: from the first handshake packet to the \
         beginning of the first second in which 90 % of the sum after headers arrived.\n\n\
         | network | sender jitter | law | after headers | min - max | of the wire | ramp-up, s \
         |\n|---|---|---|---|---|---|---|\n",
        gates = match gates {
            [] => String::new(),
            gates => Gate::markdown(gates) + "\n",
        },
        frame = packet - 28 - 14 - 16 - payload,
    );
    for row in &results.aggregation {
        let ramp_up = match row.ramp_up {
            Some(ramp_up) if ramp_up.runs == row.runs.len() => format!("{:.1}", ramp_up.median),
            Some(ramp_up) => format!(
                "{:.1} ({} of {} runs)",
                ramp_up.median,
                ramp_up.runs,
                row.runs.len()
            ),
            None => "never".to_owned(),
        };
        let _ = writeln!(
            out,
            "| {} | {} | {} | {:.3} | {:.3} - {:.3} | {:.3} | {ramp_up} |",
            row.network,
            if row.jitter_ms == 0 {
                "none".to_owned()
            } else {
                format!("0-{} ms", row.jitter_ms)
            },
            row.law,
            row.after_headers.median,
            row.after_headers.min,
            row.after_headers.max,
            row.of_wire.median,
        );
    }
    let Measurement { seeds, from, until } = results.fairness_measurement;
    let _ = write!(
        out,
        "\n## Fairness\n\n\
         Two subflows of one connection against one single-path Reno connection through a \
         bottleneck of 20 Mbps and 10 ms one way; {seeds} seeds, {from}-{until} s, staggered \
         starts, sender jitter uniform in 0-1 ms per packet without reordering, no pacing. \
         Share of the connection with two subflows, mean and 95 % interval.\n\n\
         | law | share | 95 % interval | min - max | multipath, Mbps | single path, Mbps | \
         windows, packets |\n|---|---|---|---|---|---|---|\n",
    );
    for row in &results.fairness {
        let mean = |of: fn(&FairnessRun) -> f64| summary(row.runs.iter().map(of)).mean;
        let share = row.share;
        let _ = writeln!(
            out,
            "| {} | {:.3} | ± {:.3} | {:.3} - {:.3} | {:.2} | {:.2} | {:.1} + {:.1}, {:.1} |",
            row.law,
            share.mean,
            share.ci95.unwrap_or(0.0),
            share.min,
            share.max,
            mean(|run| run.multipath_mbps),
            mean(|run| run.single_mbps),
            mean(|run| run.windows[0]),
            mean(|run| run.windows[1]),
            mean(|run| run.windows[2]),
        );
    }
    out += &return_path_markdown(&results.return_path);
    out
}

fn return_path_markdown(rows: &[ReturnPathRow]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let mut out = "\n## A congested return path\n\n\
        One connection over two paths of 10 Mbps, 25 ms one way. The ACKs of path 1 come back \
        through a DropTail queue of 100 packets (120 ms), which the Reno flows in the second \
        column fill. Columns *path 1* and *path 2*: the part of each link's capacity that is used \
        from 20 s to 80 s.\n\n\
        | law | Reno flows on the return path | path 1 | path 2 | goodput, Mbps | path 1's round \
        trip at the end, ms |\n|---|--:|--:|--:|--:|--:|\n"
        .to_owned();
    for ReturnPathRow { law, against, run } in rows {
        let ([one, two], goodput, [rtt, _]) = (run.utilisation, run.goodput_mbps, run.rtt_ms);
        let _ = writeln!(
            out,
            "| {law} | {against} | {one:.3} | {two:.3} | {goodput:.2} | {rtt:.0} |"
        );
    }
    out
}

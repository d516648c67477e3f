//! The page.

use std::fmt::Write;

use manyway_fluid::criteria::{Criterion, Domain, Row, Verdict};
use manyway_report::{Column, Table};

use super::Results;
use super::edges::Pair;
use crate::gate::Gate;

const HEAD: &str = "\
# Design criteria: Table I, its limits, and the trade-offs of Table II

This page evaluates sections III and IV of Peng, Walid, Hwang and Low, \"Multipath TCP: \
Analysis, Design and Implementation\", on the laws' own code. [criteria.md](../criteria.md) \
explains the criteria and their evaluation.

Made by `cargo run --release -p manyway-studies -- criteria --full --out docs/results`, which \
writes everything to `criteria.json`, too. Without `--full` it draws fewer points.
";

pub(crate) fn markdown(results: &Results, gates: &[Gate]) -> String {
    let mut text = HEAD.to_owned();
    text += "\n";
    text += &Gate::markdown(gates);
    for (n, (name, rows)) in results.tables.iter().enumerate() {
        let title = match n {
            0 => "Table I",
            _ => "Outside its hypotheses",
        };
        let _ = write!(text, "\n## {title}: {name}\n\n");
        text += &domain(&rows[0].found.domain);
        text += "\n";
        text += &cells(rows);
        text += if n == 0 { NOTES } else { "" };
        text += "\nEvidence, by law:\n\n";
        for row in rows {
            evidence(&mut text, row, n == 0);
        }
    }
    text += &edges(results);
    text += &curves(results);
    text
}

const NOTES: &str = "
C2 and C3 share a column in the paper. The row *generalized* is the class of eq. (16) with 0 < β \
≤ 1, 24 members; *max* is the paper's fluid of LIA, without the minimum with Reno's increase. \
*lia*, *balia* and *reno* are the implemented laws, which the paper's table doesn't have. The \
implemented Balia, eq. (1)-(2), is not a member of its class, which has (β, n, η) = (0.2, ∞, \
0.5). Whether a routing matrix has full row rank (C3) depends on the network. The Jacobians of \
*max*, *generalized* with n = ∞, *lia* and *balia* jump where the largest rates tie. C0 and C2 \
require continuous ones, so they are evaluated off ties.
";

fn domain(domain: &Domain) -> String {
    format!(
        "{} random points (seed {}), rates over {} decades, the largest at least {} % above the \
         next; then a search from the worst of them.\n",
        domain.samples,
        domain.seed,
        domain.decades,
        100.0 * Domain::OFF_TIES
    )
}

pub(crate) fn holds(holds: Option<bool>) -> &'static str {
    match holds {
        Some(true) => "yes",
        Some(false) => "no",
        None => "undefined",
    }
}

fn cells(rows: &[Row]) -> String {
    let columns = Criterion::ALL.map(|criterion| Column::left(criterion.to_string()));
    let mut table = Table::new([Column::left("law")].into_iter().chain(columns));
    for row in rows {
        let cells = row.found.verdicts.iter().enumerate().map(|(n, verdict)| {
            let own = holds(verdict.holds);
            match row.paper {
                Some(paper) if verdict.holds != Some(paper[n]) => {
                    format!("**{own}** (paper: {})", holds(Some(paper[n])))
                }
                _ => own.to_owned(),
            }
        });
        table.row([row.label.clone()].into_iter().chain(cells));
    }
    table.markdown()
}

/// What each cell rests on. Outside the hypotheses, only what breaks.
fn evidence(text: &mut String, row: &Row, all: bool) {
    let shown: Vec<&Verdict> = row
        .found
        .verdicts
        .iter()
        .filter(|verdict| all || verdict.holds != Some(true))
        .collect();
    if shown.is_empty() {
        return;
    }
    let _ = writeln!(text, "- **{}**", row.label);
    for verdict in shown {
        let _ = writeln!(text, "  - {}: {}", verdict.criterion, told(verdict));
    }
}

fn told(verdict: &Verdict) -> String {
    let member = |law: &str| match law.starts_with("generalized:") {
        true => format!("`{law}`, "),
        false => String::new(),
    };
    match (&verdict.witness, &verdict.undefined) {
        (Some(witness), _) => format!("no. {}{witness}", member(&witness.law)),
        (None, Some(reason)) => format!("undefined: {reason}"),
        (None, None) => {
            let proved = verdict.theorem.map_or_else(
                || "no proof is known to us".to_owned(),
                |theorem| format!("proved: {theorem}"),
            );
            format!("yes at {} points; {proved}", verdict.points)
        }
    }
}

fn edges(results: &Results) -> String {
    let mut text = PATHS.to_owned();
    let mut table = Table::new(
        [Column::right("β"), Column::right("n")]
            .into_iter()
            .chain(["1 + 8/β", "first broken at"].map(Column::right))
            .chain([Column::left("witness")]),
    );
    for limit in &results.edges.paths {
        let (first, witness) = match &limit.broken {
            Some((paths, verdict)) => (
                paths.to_string(),
                verdict
                    .witness
                    .as_ref()
                    .map(|witness| shortened(&witness.point.rates)),
            ),
            None => ("none found".to_owned(), None),
        };
        let norm = limit.n.replace("inf", "∞");
        let cells = [limit.beta.to_string(), norm, limit.limit.to_string(), first];
        table.row(cells.into_iter().chain(witness));
    }
    text += &table.markdown();
    text += RATIOS;
    let mut table = Table::new([
        Column::left("law"),
        Column::right("paths"),
        Column::right("ratio"),
    ]);
    for limit in &results.edges.ratios {
        table.row([
            limit.law.to_owned(),
            limit.paths.to_string(),
            format!("{:.2}", limit.ratio),
        ]);
    }
    text += &table.markdown();
    text += ORDERS;
    let mut table = Table::new(
        [
            "first",
            "second",
            "φ of the first is larger",
            "its Jacobian is lower",
            "witness",
        ]
        .map(Column::left),
    );
    for (phi, jacobian) in results.edges.phis.iter().zip(&results.edges.jacobians) {
        let word = |pair: &Pair| holds(Some(pair.order.holds)).to_owned();
        let witness = jacobian.order.witness.as_ref().map(ToString::to_string);
        table.row([
            phi.first.to_owned(),
            phi.second.to_owned(),
            word(phi),
            word(jacobian),
            witness.unwrap_or_default(),
        ]);
    }
    text += &table.markdown();
    text
}

/// Rates with those that are alike counted.
fn shortened(rates: &[f64]) -> String {
    let mut parts: Vec<(String, usize)> = Vec::new();
    for rate in rates {
        let rate = format!("{rate:.2}");
        let rate = rate.trim_end_matches('0').trim_end_matches('.').to_owned();
        match parts.iter_mut().find(|(own, _)| *own == rate) {
            Some((_, count)) => *count += 1,
            None => parts.push((rate, 1)),
        }
    }
    let parts: Vec<String> = parts
        .iter()
        .map(|(rate, count)| match count {
            1 => rate.clone(),
            _ => format!("{count} × {rate}"),
        })
        .collect();
    format!("x = {} packets/s", parts.join(", "))
}

const PATHS: &str = "
## How many paths C2 bears

Round-trip times are equal, and rates range over 6 decades. Theorem IV.1 covers at most 8 paths, \
for every β and n. Nine are also safe, because Lemma G.1 is strict off ties. With n = ∞, ten \
aren't, for any β: three paths nearly tie, and the others carry almost nothing. With n = 1, one \
path carries almost everything, and the limit is 1 + 8/β \
([proof](../criteria.md#how-many-paths)). η doesn't matter, because it isn't in φ. We found the \
limits by bisection; *first broken at* is the smallest number of paths for which the search \
found a violation:

";

const RATIOS: &str = "
## How unequal round-trip times may be

The table has the smallest ratio of the longest to the shortest round-trip time at which the \
search found a violation of C2, by bisection, with rates over 3 decades. If one path carries \
everything, the limit is √8 = 2.83 for Semicoupled on two paths.

";

const ORDERS: &str = "
## The orders of section IV-A

Round-trip times are equal, with 2 to 8 paths. The order of φ is the paper's, so the order of \
friendliness follows (Theorem III.4). The order of the Jacobians, which the paper's order of \
responsiveness needs (Theorem III.5), differs: only EWTCP's is below the others'. Two paths are \
enough to show this: at a witness, `Δxᵀ(∂Φ̂/∂x − ∂Φ̃/∂x)Δx` should be negative.

";

fn curves(results: &Results) -> String {
    let mut text = CURVES.to_owned();
    let headings = [
        "shared",
        "beside",
        "correction, 1/s",
        "convergence, 1/s",
        "oscillation",
    ];
    let columns = headings.map(Column::right);
    let mut table = Table::new([Column::left("law")].into_iter().chain(columns));
    for (law, found) in &results.curves.laws {
        // Less than this is what is left of 0.
        let number = |value: f64| format!("{:.4}", if value.abs() < 1e-5 { 0.0 } else { value });
        let values = [
            found.shared,
            found.beside,
            found.correction,
            found.convergence,
            found.oscillation,
        ];
        table.row([format!("`{law}`")].into_iter().chain(values.map(number)));
    }
    text += &table.markdown();
    text += "\n";
    for (name, _) in &results.curves.plots {
        let _ = writeln!(text, "![{name}](criteria-{name}.svg)");
    }
    if !results.full {
        text += "\nA short version: fewer points.\n";
    }
    text
}

const CURVES: &str = "
## Table II: what β, n and η do

The table has results for two networks with links of 20 Mbps, round-trip times of 100 ms, \
packets of 1500 B, and a RED slope of 0.1 % per packet of queue:

- *shared*: two paths through one bottleneck beside a Reno flow (Fig. 1), their total rate \
divided by the Reno flow's. In closed form √(1 + β(2^{1/n} − 1)): 1 for n = ∞ and every β.
- *beside*: one unshared link, and one shared with a Reno flow (Fig. 2): the path's rate on the \
latter divided by the Reno flow's.
- *correction*: how fast the source would return at fixed prices, in the slowest direction: the \
quotient of λ̄ over p = 0, at the equilibrium of Fig. 2. The paper's λ̄ as printed, over all (x, \
p), is 0 for every law.
- *convergence*: minus the spectral abscissa of J* there, which is the network's actual rate of \
convergence.
- *oscillation*: eq. (13), the part of its rate that a loss takes from the source; 1/2 for NewReno \
on one path.

";

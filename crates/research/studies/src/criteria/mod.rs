//! Table I of Peng et al. with its evidence, what breaks outside its hypotheses, the orders of
//! section IV and the trade-offs of Table II.
//!
//! In short it draws fewer points. A gate fails if a cell of Table I isn't reproduced, or if
//! something else has changed that is known.

mod curves;
mod edges;
mod page;

use manyway_fluid::criteria::{Criterion, Domain, Row, Rtts, Subject, table_1};
use serde_json::{Value, json};

use crate::extent::{Extent, Size};
use crate::failure::Failure;
use crate::gate::{Gate, gate};
use crate::headline::Headline;
use crate::ours::Ours;
use crate::study::{Figure, Outcome, Study};

/// The study.
pub(crate) struct DesignCriteria;

impl Study for DesignCriteria {
    fn name(&self) -> &'static str {
        "criteria"
    }

    fn reproduces(&self) -> &'static str {
        "design criteria (Peng et al. 2016): Tables I and II, and the limits of the theorems"
    }

    fn cost(&self, size: Size) -> u32 {
        match size {
            Size::Short => 6,
            Size::Full => 300,
        }
    }

    fn run(&self, extent: Extent) -> Result<Outcome, Failure> {
        let within = Domain {
            samples: if extent.full() { 20_000 } else { 500 },
            ..Domain::default()
        };
        let within = Domain {
            seed: within.seed.wrapping_add(extent.seed),
            ..within
        };
        let results = Results {
            full: extent.full(),
            tables: tables(&within),
            edges: edges::Edges::find(extent.full(), &within)?,
            curves: curves::Curves::draw()?,
        };
        let gates = results.gates();
        let figures = results.curves.plots.iter();
        let figures =
            figures.map(|(name, plot)| Figure::new(format!("criteria-{name}"), plot.clone()));
        Ok(Outcome {
            page: page::markdown(&results, &gates),
            gates,
            ours: results.ours(),
            tables: Vec::new(),
            headline: results.headline(),
            figures: figures.collect(),
            details: results.json(),
        })
    }
}

/// All there is to show.
struct Results {
    full: bool,
    tables: Vec<(&'static str, Vec<Row>)>,
    edges: edges::Edges,
    curves: curves::Curves,
}

/// Table I under its hypotheses, and outside them.
fn tables(within: &Domain) -> Vec<(&'static str, Vec<Row>)> {
    let ten = Domain {
        paths: 10..=10,
        samples: within.samples / 4,
        ..within.clone()
    };
    let unequal = Domain {
        rtts: Rtts::Between(0.01, 0.3),
        samples: within.samples / 2,
        ..within.clone()
    };
    [
        ("2 to 8 paths, equal round-trip times", within.clone()),
        ("10 paths, equal round-trip times", ten),
        (
            "2 to 8 paths, round-trip times between 10 and 300 ms",
            unequal,
        ),
    ]
    .into_iter()
    .map(|(name, domain)| (name, table_1(&domain)))
    .collect()
}

impl Results {
    fn gates(&self) -> Vec<Gate> {
        let within = &self.tables[0].1;
        let mut gates = vec![cells(within), coupled(within), balia(within)];
        gates.extend(self.edges.gates());
        gates.extend(self.curves.gates());
        gates
    }

    /// What stands beside the paper's numbers: cells of Table I that hold.
    fn ours(&self) -> Vec<Ours> {
        let printed = self.tables[0].1.iter().filter(|row| row.paper.is_some());
        let counts = printed.map(|row| {
            let verdicts = row.found.verdicts.iter();
            let met = verdicts
                .filter(|verdict| verdict.holds == Some(true))
                .count();
            let law = row.label.split(',').next().unwrap_or_default();
            Ours::exact("balia/table-1", law, met as f64)
        });
        counts.collect()
    }

    fn headline(&self) -> Vec<Headline> {
        let paths = self.edges.paths.iter().map(|limit| {
            let first = limit.broken.as_ref().map_or(f64::NAN, |(n, _)| *n as f64);
            let name = format!("C2, β = {}, n = {}: fewest paths", limit.beta, limit.n);
            Headline::exact(name, first)
        });
        let ratios = self.edges.ratios.iter().map(|limit| {
            let name = format!(
                "C2, {}, {} paths: least ratio of RTTs",
                limit.law, limit.paths
            );
            Headline::rounded(name, limit.ratio)
        });
        let laws = self.curves.laws.iter().flat_map(|(law, found)| {
            [
                ("shared", found.shared),
                ("beside", found.beside),
                ("correction, 1/s", found.correction),
            ]
            .map(|(what, value)| Headline::rounded(format!("Table II, {law}: {what}"), value))
        });
        paths.chain(ratios).chain(laws).collect()
    }

    fn json(&self) -> Value {
        let tables: Vec<Value> = self
            .tables
            .iter()
            .map(|(name, rows)| {
                let rows: Vec<Value> = rows.iter().map(row).collect();
                json!({"where": name, "domain": rows_domain(&self.tables, name), "rows": rows})
            })
            .collect();
        json!({
            "table_1": tables,
            "edges": self.edges.json(),
            "table_2": self.curves.json(),
        })
    }
}

fn rows_domain(tables: &[(&'static str, Vec<Row>)], name: &str) -> Value {
    let (_, rows) = tables
        .iter()
        .find(|(own, _)| *own == name)
        .expect("it is one of them");
    json!(rows[0].found.domain)
}

fn row(row: &Row) -> Value {
    let mut found = json!({"law": row.label, "jump_at_ties": row.found.jump_at_ties});
    for (n, verdict) in row.found.verdicts.iter().enumerate() {
        found[verdict.criterion.to_string()] = json!(verdict);
        found[verdict.criterion.to_string()]["paper"] = json!(row.paper.map(|paper| paper[n]));
    }
    found
}

/// The cells that the paper has, law by law.
fn cells(rows: &[Row]) -> Gate {
    let printed = || rows.iter().filter(|row| row.paper.is_some());
    let differ = printed().map(|row| (row.label.as_str(), row.disagreements().len() as f64));
    let found = printed().map(|row| {
        let verdicts = row.found.verdicts.iter();
        let cells: Vec<String> = verdicts
            .map(|verdict| format!("{} {}", verdict.criterion, page::holds(verdict.holds)))
            .collect();
        format!("{}: {}", row.label, cells.join(", "))
    });
    let found: Vec<String> = found.collect();
    gate("balia/table-1-cells").cases(differ, found.join("; "))
}

/// Of Coupled's cells those that can't be evaluated, which has to be C4.
fn coupled(rows: &[Row]) -> Gate {
    let row = rows.iter().find(|row| row.label == "coupled");
    let verdicts = &row.expect("Table I has it").found.verdicts;
    let open = verdicts.iter().filter(|verdict| verdict.holds.is_none());
    let open: Vec<_> = open.collect();
    let only_c4 = open
        .iter()
        .all(|verdict| verdict.criterion == Criterion::C4);
    let words = open.iter().filter_map(|verdict| verdict.undefined.clone());
    gate("balia/table-1-coupled").value(
        if only_c4 { open.len() as f64 } else { f64::NAN },
        words.collect::<Vec<_>>().join("; "),
    )
}

fn balia(rows: &[Row]) -> Gate {
    let row = rows.iter().find(|row| row.label == "balia");
    let found = &row.expect("Table I has it").found;
    let broken: Vec<Criterion> = found
        .verdicts
        .iter()
        .filter(|verdict| verdict.holds == Some(false))
        .map(|verdict| verdict.criterion)
        .collect();
    let expected = [Criterion::C0, Criterion::C1, Criterion::C2];
    let differ = broken.iter().filter(|own| !expected.contains(own)).count()
        + expected
            .iter()
            .filter(|known| !broken.contains(known))
            .count();
    gate("balia/balia-as-run").value(differ as f64, format!("broken: {broken:?}"))
}

/// A law by name.
fn subject(text: &str) -> Result<Subject, Failure> {
    Ok(Subject::law(text)?)
}

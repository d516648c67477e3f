//! Table I of Peng et al. with its evidence, what breaks outside its hypotheses, the orders of
//! section IV and the trade-offs of Table II.
//!
//! `cargo run --release -p manyway-fluid --example criteria -- [--full] [--out DIR]`
//!
//! Without `--full` it draws fewer points. It fails if a cell of Table I isn't reproduced, or if
//! something else has changed that is known.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod curves;
mod edges;
mod page;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use manyway_fluid::criteria::{Criterion, Domain, Row, Rtts, Subject, table_1};
use serde_json::{Value, json};

fn main() -> ExitCode {
    match show() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("some gates don't hold");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

/// Something that must be found, and whether it was.
struct Gate {
    what: String,
    found: String,
    holds: bool,
}

/// All there is to show.
struct Results {
    full: bool,
    tables: Vec<(&'static str, Vec<Row>)>,
    edges: edges::Edges,
    curves: curves::Curves,
}

fn show() -> Result<bool, String> {
    let (mut full, mut out) = (false, None);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--full" => full = true,
            "--out" => out = Some(PathBuf::from(args.next().ok_or("--out needs a directory")?)),
            other => {
                return Err(format!(
                    "unknown argument {other:?}\nusage: criteria [--full] [--out DIR]"
                ));
            }
        }
    }
    let results = Results {
        full,
        tables: tables(full),
        edges: edges::Edges::find(full)?,
        curves: curves::Curves::draw()?,
    };
    let gates = results.gates();
    let text = page::markdown(&results, &gates);
    println!("{text}");
    if let Some(dir) = out {
        write(&dir, &results, &gates, &text)?;
    }
    Ok(gates.iter().all(|gate| gate.holds))
}

fn domain(full: bool) -> Domain {
    Domain {
        samples: if full { 20_000 } else { 500 },
        ..Domain::default()
    }
}

/// Table I under its hypotheses, and outside them.
fn tables(full: bool) -> Vec<(&'static str, Vec<Row>)> {
    let within = domain(full);
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
        ("2 to 8 paths, equal round-trip times", within),
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

fn write(dir: &Path, results: &Results, gates: &[Gate], text: &str) -> Result<(), String> {
    let told = |error: std::io::Error| format!("can't write to {}: {error}", dir.display());
    fs::create_dir_all(dir).map_err(told)?;
    let text = text.trim_end().to_owned() + "\n";
    fs::write(dir.join("criteria.md"), text).map_err(told)?;
    let json = serde_json::to_string_pretty(&results.json(gates)).map_err(|e| e.to_string())?;
    fs::write(dir.join("criteria.json"), json + "\n").map_err(told)?;
    for (name, svg) in &results.curves.pictures {
        fs::write(dir.join(format!("criteria-{name}.svg")), svg).map_err(told)?;
    }
    Ok(())
}

impl Results {
    fn gates(&self) -> Vec<Gate> {
        let within = &self.tables[0].1;
        let printed = within.iter().filter(|row| row.paper.is_some());
        let mut gates: Vec<Gate> = printed.map(cells).collect();
        gates.extend([coupled(within), balia(within)]);
        gates.extend(self.edges.gates());
        gates.extend(self.curves.gates());
        gates
    }

    fn json(&self, gates: &[Gate]) -> Value {
        let gates: Vec<Value> = gates
            .iter()
            .map(|gate| json!({"what": gate.what, "found": gate.found, "holds": gate.holds}))
            .collect();
        let tables: Vec<Value> = self
            .tables
            .iter()
            .map(|(name, rows)| {
                let rows: Vec<Value> = rows.iter().map(row).collect();
                json!({"where": name, "domain": rows_domain(&self.tables, name), "rows": rows})
            })
            .collect();
        json!({
            "gates": gates,
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

/// The cells of a row that the paper has.
fn cells(row: &Row) -> Gate {
    let differ = row.disagreements();
    let found = row.found.verdicts.iter();
    let cells: Vec<String> = found
        .map(|verdict| format!("{} {}", verdict.criterion, page::holds(verdict.holds)))
        .collect();
    Gate {
        what: format!("Table I, {}: no cell differs from the paper's", row.label),
        found: cells.join(", "),
        holds: differ.is_empty(),
    }
}

fn coupled(rows: &[Row]) -> Gate {
    let of = |label: &str| {
        let row = rows.iter().find(|row| row.label == label);
        row.expect("Table I has it").found.of(Criterion::C4)
    };
    let undefined = of("coupled");
    Gate {
        what: "Table I, coupled: only C4 can't be evaluated, as the Jacobian has no inverse"
            .to_owned(),
        found: undefined.undefined.clone().unwrap_or_default(),
        holds: undefined.holds.is_none(),
    }
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
    Gate {
        what: "Balia as run, eq. (1)-(2): C0, C1 and C2 are broken by two paths already, the \
            others hold"
            .to_owned(),
        found: format!("broken: {broken:?}"),
        holds: broken == [Criterion::C0, Criterion::C1, Criterion::C2],
    }
}

/// A law by name.
fn subject(text: &str) -> Result<Subject, String> {
    Subject::law(text).map_err(|error| error.to_string())
}

//! The fluid model beside the packet level and the optimum, with tables and figures.
//!
//! `cargo run --release -p manyway-simulate --example fluid -- [--full] [--out DIR]`
//!
//! Without `--full` it is a short version with fewer runs. The figures go to `images` beside `DIR`.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod friendliness;
#[path = "../papers/mod.rs"]
#[allow(dead_code, reason = "shared with other examples")]
mod papers;
mod theory;
mod wvegas;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use manyway_scenario::{Point, Scenario};
use papers::{Results, show};

fn main() -> ExitCode {
    show("fluid", (20, 2), page)
}

/// A picture and its name.
type Figure = (&'static str, String);

fn page(repeat: u32) -> Result<(String, Results), String> {
    let theory = theory::check()?;
    let friendliness = friendliness::compare(repeat)?;
    let wvegas = wvegas::compare(repeat.min(10))?;
    let mut figures: Vec<Figure> = theory.figures;
    figures.extend(wvegas.figures);
    draw(&figures)?;
    let text = include_str!("../papers/fluid.md")
        .replace("{repeat}", &repeat.to_string())
        .replace("{theory}", &theory.text)
        .replace("{bias}", &friendliness.bias)
        .replace("{shares}", &friendliness.shares)
        .replace("{losses}", &friendliness.losses)
        .replace("{table3}", &friendliness.table3)
        .replace("{smallest}", &friendliness.smallest_window)
        .replace("{coupled}", &friendliness.coupled)
        .replace("{iterations}", &wvegas.iterations)
        .replace("{domino}", &wvegas.domino);
    let gates = [theory.gates, friendliness.gates, wvegas.gates];
    let gates = gates.into_iter().flatten().collect();
    let tables = [friendliness.tables, wvegas.tables];
    let tables = tables.into_iter().flatten().collect();
    Ok((text, Results { gates, tables }))
}

/// Writes the figures to `images` beside the results, if these are written.
fn draw(figures: &[Figure]) -> Result<(), String> {
    let mut args = std::env::args().skip_while(|arg| arg != "--out").skip(1);
    let Some(out) = args.next().map(PathBuf::from) else {
        return Ok(());
    };
    let images = out.parent().unwrap_or(Path::new(".")).join("images");
    let told = |error: std::io::Error| format!("can't write to {}: {error}", images.display());
    fs::create_dir_all(&images).map_err(told)?;
    for (name, svg) in figures {
        fs::write(images.join(name).with_extension("svg"), svg).map_err(told)?;
    }
    Ok(())
}

/// The points of a scenario with keys set.
fn points(scenario: &str, set: &[&str]) -> Result<Vec<Point>, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scenarios");
    let told = |error: manyway_scenario::ScenarioError| error.to_string();
    let mut file = Scenario::load(&folder.join(scenario).with_extension("toml")).map_err(told)?;
    for assignment in set {
        file.set(assignment).map_err(told)?;
    }
    file.points().map_err(told)
}

/// A table of cells as Markdown.
fn markdown(columns: &[&str], rows: &[Vec<String>]) -> String {
    let mut page = format!("| {} |\n|---|", columns.join(" | "));
    page += &"--:|".repeat(columns.len() - 1);
    page.push('\n');
    for row in rows {
        page += &format!("| {} |\n", row.join(" | "));
    }
    page
}

//! The overlay paper's study (Fig. 3 to 7, and its simulation of packets) from `scenarios/overlay`,
//! and tables with its numbers beside ours.
//!
//! `cargo run --release -p manyway-simulate --example overlay -- [--full] [--out DIR]`
//!
//! Without `--full` it is a sample: fewer selections where these can tell, fewer iterations at
//! most, shorter runs of packets, and of heterogeneous demands none. With `--out` the figures are
//! drawn, too.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod figures;
mod packets;
#[path = "../papers/mod.rs"]
#[allow(dead_code, reason = "shared with other examples")]
mod papers;
mod rates;
mod selection;
mod study;

use std::process::ExitCode;

use papers::{Gate, Results, Table, show};
use study::Study;

/// Selections of each point with and without `--full`.
const REPEAT: (u32, u32) = (30, 2);

fn main() -> ExitCode {
    show("overlay", REPEAT, page)
}

/// A part of the page: its tables by their names in the text, what must hold, and what the figures
/// show.
#[derive(Default)]
struct Part {
    tables: Vec<(&'static str, Table)>,
    gates: Vec<Gate>,
    studies: Vec<(&'static str, Study)>,
}

fn page(repeat: u32) -> Result<(String, Results), String> {
    let full = repeat == REPEAT.0;
    let parts = [
        rates::part(full, repeat)?,
        packets::part(full)?,
        selection::part(full, repeat)?,
    ];
    let mut text = include_str!("../papers/overlay.md").replace("{repeat}", &repeat.to_string());
    let (mut gates, mut tables) = (Vec::new(), Vec::new());
    for part in parts {
        figures::write(&part.studies)?;
        gates.extend(part.gates);
        for (name, table) in part.tables {
            text = text.replace(&format!("{{{name}}}"), &table.markdown(&[]));
            tables.push(table);
        }
    }
    // What only a full run has.
    for name in ["fig4h", "fig5h", "fig5h-most"] {
        text = text.replace(&format!("{{{name}}}"), "(Only with `--full`.)\n");
    }
    Ok((text, Results { gates, tables }))
}

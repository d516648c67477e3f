//! The overlay paper's study (Fig. 3 to 7, and its simulation of packets) from `scenarios/overlay`,
//! with its numbers beside ours.
//!
//! In short it is a sample: fewer selections where these can tell, fewer iterations at most,
//! shorter runs of packets, and no heterogeneous demands.

mod figures;
mod packets;
mod rates;
mod selection;
mod sweep;

use serde_json::Value;

use crate::extent::{Extent, Size};
use crate::failure::Failure;
use crate::gate::Gate;
use crate::headline::Headline;
use crate::ours::Ours;
use crate::page::Page;
use crate::study::{Figure, Outcome, Study};
use crate::table::Table;

/// Selections of each point in a full run.
const REPEAT: u32 = 30;

/// The study.
pub(crate) struct OverlayPaper;

impl Study for OverlayPaper {
    fn name(&self) -> &'static str {
        "overlay"
    }

    fn reproduces(&self) -> &'static str {
        "application-level multipath over TCP: Fig. 3 to 7, by flows and by packets"
    }

    fn cost(&self, size: Size) -> u32 {
        match size {
            Size::Short => 36,
            Size::Full => 1140,
        }
    }

    fn run(&self, extent: Extent) -> Result<Outcome, Failure> {
        measure(extent)
    }
}

/// A part of the page, with its tables by their names in the text.
#[derive(Default)]
struct Part {
    tables: Vec<(&'static str, Table)>,
    headline: Vec<Headline>,
    gates: Vec<Gate>,
    ours: Vec<Ours>,
    figures: Vec<Figure>,
}

/// Values that depend on those of the linear programme.
fn rounded(headline: Vec<Headline>) -> Vec<Headline> {
    let rounded = headline
        .into_iter()
        .map(|Headline { name, value }| Headline::rounded(name, value));
    rounded.collect()
}

fn measure(extent: Extent) -> Result<Outcome, Failure> {
    let runs = extent.runs(REPEAT, 2);
    let parts = [
        rates::part(extent, runs)?,
        packets::part(extent)?,
        selection::part(extent, runs)?,
    ];
    let mut page = Page::new(include_str!("page.md")).fill("repeat", &runs.repeat.to_string());
    let (mut gates, mut tables) = (Vec::new(), Vec::new());
    let (mut headline, mut figures, mut ours) = (Vec::new(), Vec::new(), Vec::new());
    for part in parts {
        headline.extend(part.headline);
        figures.extend(part.figures);
        gates.extend(part.gates);
        ours.extend(part.ours);
        for (name, table) in part.tables {
            page = page.fill(name, &table.markdown(&[]));
            tables.push(table);
        }
    }
    if !extent.full() {
        for name in ["fig4h", "fig4s", "fig5h", "fig5h-most"] {
            page = page.fill(name, "(Only with `--full`.)");
        }
    }
    Ok(Outcome {
        page: page.fill("gates", &Gate::markdown(&gates)).text(),
        gates,
        ours,
        tables,
        headline,
        figures,
        details: Value::Null,
    })
}

//! The fluid model beside the packet level and the optimum.

mod friendliness;
mod theory;
mod wvegas;

use serde_json::Value;

use crate::extent::{Extent, Size};
use crate::failure::Failure;
use crate::gate::Gate;
use crate::page::Page;
use crate::study::{Outcome, Study};

/// The study.
pub(crate) struct FluidModel;

impl Study for FluidModel {
    fn name(&self) -> &'static str {
        "fluid"
    }

    fn reproduces(&self) -> &'static str {
        "laws as fluids beside packets and optima: Balia's Fig. 2 and Table III, wVegas' Fig. 8"
    }

    fn cost(&self, size: Size) -> u32 {
        match size {
            Size::Short => 11,
            Size::Full => 200,
        }
    }

    fn run(&self, extent: Extent) -> Result<Outcome, Failure> {
        measure(extent)
    }
}

fn measure(extent: Extent) -> Result<Outcome, Failure> {
    let runs = extent.runs(20, 2);
    let theory = theory::check()?;
    let friendliness = friendliness::compare(runs)?;
    let wvegas = wvegas::compare(runs.at_most(10))?;
    let gates = [theory.gates, friendliness.gates, wvegas.gates].concat();
    let page = Page::new(include_str!("page.md"))
        .fill("repeat", &runs.repeat.to_string())
        .fill("gates", &Gate::markdown(&gates))
        .fill("theory", &theory.text)
        .fill("bias", &friendliness.bias)
        .fill("shares", &friendliness.shares)
        .fill("losses", &friendliness.losses)
        .fill("table3", &friendliness.table3)
        .fill("smallest", &friendliness.smallest_window)
        .fill("coupled", &friendliness.coupled)
        .fill("iterations", &wvegas.iterations)
        .fill("domino", &wvegas.domino)
        .text();
    Ok(Outcome {
        page,
        gates,
        ours: wvegas.ours,
        tables: [friendliness.tables, wvegas.tables].concat(),
        headline: [theory.headline, friendliness.headline, wvegas.headline].concat(),
        figures: [theory.figures, wvegas.figures].concat(),
        details: Value::Null,
    })
}

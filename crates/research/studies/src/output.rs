//! Outcomes as files.

use std::fs;
use std::io;
use std::path::Path;

use serde_json::json;

use crate::extent::Extent;
use crate::study::{Outcome, Study};

/// Writes an outcome into a directory: `NAME.md`, the plots that it shows, and everything as
/// `NAME.json`.
///
/// # Errors
///
/// When a file can't be written or a plot can't be drawn.
pub fn write(
    dir: &Path,
    study: &dyn Study,
    extent: Extent,
    outcome: &Outcome,
) -> Result<(), io::Error> {
    fs::create_dir_all(dir)?;
    let file = dir.join(study.name());
    let page = outcome.page.trim_end().to_owned() + "\n";
    fs::write(file.with_extension("md"), page)?;
    for figure in &outcome.figures {
        let svg = figure.plot.svg().map_err(io::Error::other)?;
        fs::write(dir.join(&figure.name).with_extension("svg"), svg)?;
    }
    let json = json!({
        "study": study.name(),
        "size": extent.size.name(),
        "seed": extent.seed,
        "headline": outcome.headline,
        "gates": outcome.gates,
        "ours": outcome.ours,
        "tables": outcome.tables,
        "details": outcome.details,
    });
    let json = serde_json::to_string_pretty(&json)?;
    fs::write(file.with_extension("json"), json + "\n")
}

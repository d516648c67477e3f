//! The papers' claims beside what the studies found: which studies they need, what is kept of those
//! that have run, and the report.
//!
//! A caller selects claims, runs the studies that the [`Store`] doesn't have yet, and writes the
//! [`Report`], which is made of kept results alone: so it is the same, byte for byte, whether they
//! are new or old.

mod archive;
mod html;
mod report;
mod selection;
mod store;
mod verdict;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::extent::Size;

pub use report::Report;
pub use selection::{Selection, UnknownClaim};
pub use store::{Kept, Store};
pub use verdict::Verdict;

/// The report's files in a folder.
#[derive(Debug)]
pub struct Written {
    /// For people.
    pub html: PathBuf,
    /// The same for programs.
    pub json: PathBuf,
    /// Of full runs: these two and all that they were made from, in one file.
    pub archive: Option<PathBuf>,
}

/// Makes the report of these claims from kept results, and writes it.
///
/// # Errors
///
/// When a file can't be written.
pub fn write_report(
    dir: &Path,
    selection: &Selection,
    size: Size,
    kept: &[Kept],
) -> io::Result<(Report, Written)> {
    let report = Report::new(selection, size, kept);
    let names = ["report.html", "report.json"];
    let [html, json] = names.map(|name| dir.join(name));
    fs::write(&html, html::page(&report))?;
    fs::write(&json, serde_json::to_string_pretty(&report)? + "\n")?;
    let mut files: Vec<PathBuf> = kept.iter().flat_map(Kept::files).collect();
    files.extend(names.map(PathBuf::from));
    let archive = match size {
        Size::Full => Some(archive::write(dir, &files)?),
        Size::Short => None,
    };
    let written = Written {
        html,
        json,
        archive,
    };
    Ok((report, written))
}

//! Results for people: aligned tables and SVG plots.
//!
//! A [`Table`] lays out cells as text or Markdown, a [`Plot`] draws named series as SVG, and
//! [`Bars`] do so with numbers beside each other. The same input gives the same bytes, so that
//! reports can be committed and compared. This crate never reads or writes a file, and knows
//! neither levels nor experiments: its callers choose every name, unit and number.

mod bars;
mod plot;
mod table;

pub use bars::{Bar, Bars, Group};
pub use plot::{Kind, Mark, Plot, PlotError, Series};
pub use table::{Column, Table};

//! Results for people: aligned tables and SVG plots.
//!
//! This room is pure and knows results, not how they were made: a [`Table`] of cells, a [`Plot`] of
//! named series. The same input gives the same bytes, so that reports can be committed and
//! compared.

mod plot;
mod table;

pub use plot::{Kind, Mark, Plot, PlotError, Series};
pub use table::{Column, Table};

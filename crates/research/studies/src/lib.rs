//! The experiments of the papers, as a library with one harness.
//!
//! A [`Study`] reproduces one paper's experiments. It runs at a [`Size`] and gives an [`Outcome`]:
//! a page of Markdown, tables, gates, plots, and a few headline values. [`STUDIES`] lists them all.
//! The same seeds give the same outcome, bit for bit, on any number of threads.
//!
//! [`claims`] has what the papers say, and what is asked of each [`Gate`]: its limits, and the
//! recorded bounds of values that miss them, which may not get worse.
//!
//! [`Reference`] holds the headline values that a study is expected to have, and
//! [`write`](fn@write) puts an outcome into a directory. The program `manyway-studies` does both:
//!
//! ```sh
//! cargo run --release -p manyway-studies -- wvegas --full --out docs/results
//! ```
//!
//! This room holds no model: laws, links and solvers are those of `control`, `network`, `simulate`
//! and `fluid`. It opens no socket, and `simulate` and `fluid` never look at it.

mod balia;
mod bmc;
pub mod claims;
mod criteria;
mod extent;
mod failure;
mod fair;
mod fluid;
mod gate;
mod headline;
mod measured;
mod mpath;
mod optima;
mod ours;
mod output;
mod overlay;
mod page;
mod planetlab;
mod progress;
mod reference;
mod registry;
pub mod reproduce;
mod runs;
mod sessions;
mod statistics;
mod study;
mod table;
mod wvegas;

pub use extent::{Extent, Size};
pub use failure::Failure;
pub use gate::{Case, Fault, Gate, GateRow};
pub use headline::Headline;
pub use ours::Ours;
pub use output::write;
pub use planetlab::pair_scenario;
pub use reference::{Mismatch, Reference, ReferenceError, rewrite_command};
pub use registry::{STUDIES, find};
pub use study::{Figure, Outcome, Study};
pub use table::{Row, Table};

//! What the levels of simulation make of a scenario, for programs: objects that are serialised as
//! JSON, and tidy tables with a row for each thing of each run.
//!
//! `manyway run`, `manyway optimum` and `manyway criteria` write what this crate makes, and the
//! Python package hands the same on. The crate chooses names, units and columns. It computes no
//! result, writes no file, and has no text for people but errors and remarks.

pub mod criteria;
pub mod files;
pub mod fluid;
pub mod naming;
pub mod optimum;
pub mod overlay;
pub mod packet;
mod tables;

pub use tables::{Sheet, Tables, number};

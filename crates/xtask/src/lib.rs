//! Checks of the source tree that the compiler doesn't make; `cargo test -p manyway-xtask` runs
//! them.
//!
//! Owns how a crate's files and their imports are read. Knows no other room, and changes no file.

mod graph;
mod modules;
mod text;

pub use graph::cycles;
pub use modules::{Crate, Edge, ParseError};
pub use text::{Overlong, anchors, broken_links, links, overlong_lines};

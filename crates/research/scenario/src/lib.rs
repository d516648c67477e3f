//! Scenario files: one TOML file says what a network is like, who sends over it and what is
//! measured.
//!
//! This crate owns the file's format, sweeps, assignments, and errors that name line and key. It
//! resolves all of it into the types of `manyway-network` and `manyway-control`, and never runs
//! anything: every level of simulation takes the same [`Experiment`].
//!
//! [`Scenario`] is a file as written, with assignments made to it; [`Scenario::points`] resolves it
//! into [`Experiment`]s, one for each combination of what it sweeps; [`Scenario::overlay_points`]
//! does the same for a file with an `[overlay]`. The guide is `docs/scenarios.md`.

mod assign;
mod distribution;
mod experiment;
mod fault;
pub mod file;
pub mod generate;
mod kernel;
mod overlay;
mod problem;
pub mod quantity;
mod resolve;
mod scenario;
mod schema;
mod sweep;
mod tree;

pub use distribution::Distribution;
pub use experiment::Sealing;
pub use experiment::{
    AckPolicy, Experiment, Flow, Group, Lifetime, Measure, Percentiles, Relays, SeriesKind,
    Session, Span,
};
pub use kernel::{KernelLaw, KernelProtocol};
pub use overlay::{OverlayExperiment, OverlayNetwork, RelayBandwidths, RelaySelection};
pub use problem::{Place, Problem, ScenarioError};
pub use scenario::{MAX_FILE, OverlayPoint, Point, Scenario};
pub use schema::schema;

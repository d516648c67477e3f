//! Scenario files: one TOML file says what a network is like, who sends over it and what is measured.

mod experiment;

pub use experiment::{AckPolicy, Experiment, Flow, Group, Lifetime, Measure, SeriesKind, Span};

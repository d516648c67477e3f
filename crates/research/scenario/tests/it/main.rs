//! Scenario files, good and bad ones.

mod errors;
mod examples;
mod fluids;
mod hostile;
mod live;
mod overlay;
mod papers;
mod schema;
mod sessions;
mod traces;

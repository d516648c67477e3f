//! The packet level against what others have derived: closed forms, square-root laws, fixed points;
//! and what must hold of any network. `docs/validity.md` has the numbers side by side.

mod adaptive;
mod aqm;
mod arrivals;
mod background;
mod bbr;
mod conservation;
mod fair_queues;
mod fluid_groups;
mod l4s;
mod periodic;
mod random_loss;
mod red;
mod reordering;
mod repeatability;
mod sawtooth;
mod setup;
mod sharing;
mod timeouts;
mod traffic;

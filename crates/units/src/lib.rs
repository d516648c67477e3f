//! The vocabulary every room of manyway shares: points in time, rates and sizes, and how people write them.
//!
//! Nothing here reads a clock. A [`Time`] is handed in by whoever runs the code: the wall clock in
//! the transport, the event queue in a simulation.

mod time;

pub use time::Time;

//! The vocabulary every room of manyway shares: points in time, rates and sizes, how people write
//! them, how long to wait before another try, how much may leave by now, and how to show a text
//! that came from elsewhere.
//!
//! Nothing here reads a clock. A [`Time`] is handed in by whoever runs the code: the wall clock in
//! the transport, the event queue in a simulation.

mod backoff;
mod bucket;
mod duration;
mod printable;
mod rate;
mod size;
mod text;
mod time;

pub use backoff::Backoff;
pub use bucket::Bucket;
pub use duration::{format_duration, parse_duration};
pub use printable::printable;
pub use rate::Rate;
pub use size::{ByteSize, Decimal};
pub use text::ParseQuantityError;
pub use time::Time;

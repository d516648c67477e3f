//! Laws by name: parsing, checking and listing them.
//!
//! The registry owns the text form of laws and its errors. The entries themselves stand in
//! [`crate::laws`], one for each law, and a program can [`add`] others. The registry never asks
//! which law it has in hand, and nobody outside of it compares a law by its name: [`LawSpec`] tells
//! what a law can do.

mod add;
mod error;
mod spec;

pub use crate::capabilities::{Capabilities, Signal};
pub use crate::parameter::{Parameter, Range};
pub use add::add;
pub use error::LawError;
pub use spec::LawSpec;

/// All laws with their defaults, in the order in which to list them.
pub fn laws() -> impl Iterator<Item = LawSpec> {
    LawSpec::all()
}

#[cfg(test)]
pub(crate) mod tests;

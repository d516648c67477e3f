//! The laws, a file each.

mod balia;
pub(crate) mod cubic;
mod lia;
mod reno;

pub use balia::Balia;
pub use cubic::Cubic;
pub use lia::Lia;
pub use reno::Reno;

#[cfg(test)]
mod tests;

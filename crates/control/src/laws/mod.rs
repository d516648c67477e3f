//! The laws, a file each.

mod balia;
pub(crate) mod cubic;
mod ewtcp;
mod fully_coupled;
mod generalized;
mod lia;
mod olia;
mod reno;
mod semicoupled;

pub use balia::Balia;
pub use cubic::Cubic;
pub use ewtcp::Ewtcp;
pub use fully_coupled::FullyCoupled;
pub use generalized::Generalized;
pub use lia::Lia;
pub use olia::Olia;
pub use reno::Reno;
pub use semicoupled::Semicoupled;

#[cfg(test)]
mod tests;

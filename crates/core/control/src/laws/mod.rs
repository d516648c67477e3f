//! The laws, a file each.

mod balia;
mod bmc;
pub(crate) mod cubic;
mod ewtcp;
mod fully_coupled;
mod generalized;
mod lia;
mod mpath;
mod olia;
mod reno;
mod semicoupled;
mod wvegas;

pub use balia::Balia;
pub use bmc::{Bmc, Manager, Weights};
pub use cubic::Cubic;
pub use ewtcp::Ewtcp;
pub use fully_coupled::FullyCoupled;
pub use generalized::Generalized;
pub use lia::Lia;
pub use mpath::{Mpath, MpathRules};
pub use olia::Olia;
pub use reno::Reno;
pub use semicoupled::Semicoupled;
pub use wvegas::{Drain, Wvegas, WvegasConfig};

#[cfg(test)]
mod tests;

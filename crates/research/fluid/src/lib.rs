//! Theory that runs: what a network would share out at best, and what laws make of it in the limit
//! of a fluid.
//!
//! [`Network`] is the network of Peng et al. and of Cao et al.: links with capacities, flows with
//! routes over them. [`optimum`] shares it out by a utility, to a certificate. A [`Model`] gives
//! each flow a law of the transport as a [`FluidLaw`], and has an [`Equilibrium`].

pub mod criteria;
pub mod dynamics;
mod epochs;
mod equilibrium;
mod law;
mod network;
pub mod optimum;
pub mod run;

pub use epochs::epochs;
pub use equilibrium::{Equilibrium, Method, Model};
pub use law::{FluidLaw, NoFluid, paths_at};
pub use network::{Flow, InvalidNetwork, Link, Network, Remark, Route};

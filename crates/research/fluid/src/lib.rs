//! Theory that runs: the best allocation of a network, and the one that laws come to in the limit
//! of a fluid.
//!
//! This crate owns differential equations, equilibria, the design criteria, and optima with their
//! certificates. It evaluates the laws' own code and retypes no formula of theirs; it knows no
//! packets, and draws random numbers only to sample points.
//!
//! [`Network`] is the network of Peng et al. and of Cao et al.: links with capacities, flows with
//! routes over them. [`optimum`] shares it out by a utility, to a certificate. A [`Model`] gives
//! each flow a law of the transport as a [`FluidLaw`], and has an [`Equilibrium`].

pub mod criteria;
pub mod dynamics;
mod epochs;
mod equilibrium;
mod law;
mod model;
mod network;
pub mod optimum;
pub mod run;

pub use epochs::epochs;
pub use equilibrium::{Equilibrium, Method};
pub use law::{FluidLaw, NoFluid, paths_at};
pub use model::Model;
pub use network::{Flow, InvalidNetwork, Link, Network, Remark, Route};

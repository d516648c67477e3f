//! Coupled multipath congestion control for [noq](https://docs.rs/noq): the laws of
//! [`manyway_control`] behind noq's [`congestion::Controller`](noq_proto::congestion::Controller).
//!
//! noq gives each path of a connection a congestion controller of its own, so two paths through one
//! bottleneck take two flows' shares of it. A [`Coupling`] gives the paths of a connection one
//! controller between them.
//!
//! ```
//! use manyway_noq::Coupling;
//! use noq::TransportConfig;
//!
//! // Once:
//! let coupling = Coupling::new("lia".parse()?)?;
//! let mut transport = TransportConfig::default();
//! transport.max_concurrent_multipath_paths(4);
//!
//! // For every connection anew, before `Endpoint::connect_with` or `Incoming::accept_with`:
//! let own = coupling.for_connection(&transport);
//! # let _ = own;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The sender's side alone decides: a peer needs no coupling, nor need it know of ours. What noq
//! doesn't tell a controller, and what laws lose by that, stands in the crate's README.

mod group;
mod path;

use std::sync::Arc;

use manyway_control::registry::Signal;
use manyway_control::{LawSpec, Options};
use noq_proto::TransportConfig;

use group::Group;
use path::Factory;

pub use path::CoupledPath;

/// A law for the connections of a program, with options that all laws have.
#[derive(Clone, Debug)]
pub struct Coupling {
    law: LawSpec,
    options: Options,
}

impl Coupling {
    /// Couples paths by `law`.
    ///
    /// # Errors
    /// [`Unsupported`] if the law needs what noq doesn't offer.
    pub fn new(law: LawSpec) -> Result<Self, Unsupported> {
        let needs = law.capabilities();
        if needs.signal == Signal::Rate {
            return Err(Unsupported::Rate { law: law.name() });
        }
        if !needs.paced {
            return Err(Unsupported::Pacing { law: law.name() });
        }
        Ok(Coupling {
            law,
            options: Options::default(),
        })
    }

    /// The same with other options than the default ones.
    #[must_use]
    pub fn with_options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// `base` for **one** connection, whose paths are coupled with each other.
    ///
    /// Connections that get the same result are coupled as if they were one: a server that puts it
    /// into its endpoint's configuration makes all its clients share one flow's rate.
    /// [`CoupledPath::coupled_paths`] shows that.
    pub fn for_connection(&self, base: &TransportConfig) -> Arc<TransportConfig> {
        let group = Group::new(self.law.controller(&self.options));
        let mut own = base.clone();
        own.congestion_controller_factory(Arc::new(Factory::new(group)));
        Arc::new(own)
    }
}

/// A law that can't run behind noq's controller trait.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsupported {
    /// The law works from the rate at which packets are delivered.
    #[error(
        "{law} needs samples of the delivery rate, which noq doesn't give a congestion controller: \
         choose a law that acts on losses or delay, such as lia, balia or auto (noq has a BBRv3 of \
         its own, uncoupled)"
    )]
    Rate {
        /// Its name.
        law: &'static str,
    },
    /// The law must not be paced.
    #[error(
        "{law} recognises a common bottleneck by simultaneous losses, which pacing spreads, and \
         noq paces: choose another law, such as lia, balia or auto"
    )]
    Pacing {
        /// Its name.
        law: &'static str,
    },
}

/// The README's program compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(test)]
mod tests;

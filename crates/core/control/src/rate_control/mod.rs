//! Multipath above the transport: how fast on each path, and through which relays, for paths that
//! control congestion themselves.
//!
//! The heuristic of the overlay paper ("Application-level multipath data transfer via TCP",
//! sections 3 and 4). A source has a demand `m` and `k` paths, each through a relay. Its
//! [`RateController`] sets how fast it writes to each path, by what arrived at the receiver; its
//! [`PathSelector`] chooses the relays, and others as long as the source isn't satisfied; a
//! [`LiveSelector`] does so where relays come and go. [`RoundRobin`] is the *maxmin* procedure,
//! which finds rates to begin with, and a [`Bucket`](manyway_units::Bucket) per path holds it to
//! its rate. They own rates and choices, and never touch sockets or clocks: the owner measures what
//! arrives, and calls once per control interval.
//!
//! ```
//! use manyway_control::rate_control::{RateConfig, RateController};
//!
//! // 6 Mbps of data; the first path carries 2 Mbps, the second 5.
//! let mut controller = RateController::new(RateConfig::aiad(), 6e6, &[0.0, 0.0], 1)?;
//! let arrives = |offered: Vec<f64>| vec![offered[0].min(2e6), offered[1].min(5e6)];
//! let mut measured = vec![0.0, 0.0];
//! for _ in 0..1000 {
//!     controller.advance(&measured);
//!     measured = arrives(controller.rates().collect());
//! }
//! assert!(measured.iter().sum::<f64>() > 0.97 * 6e6);
//! # Ok::<(), manyway_control::rate_control::InvalidConfig>(())
//! ```

mod live;
mod rate;
mod round_robin;
mod select;

pub use live::{Judgements, LiveConfig, LiveSelector, Liveness, Measured, Reason, Selected};
pub use rate::{PathState, RateConfig, RateController};
pub use round_robin::RoundRobin;
pub use select::{Choice, PathSelector, Reselection, SelectConfig};

/// Settings with which there is nothing to control or to choose.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum InvalidConfig {
    /// A number out of its range.
    #[error("{field} = {value} is out of range; allowed is {allowed}")]
    Field {
        /// Which one.
        field: &'static str,
        /// Its value.
        value: f64,
        /// What is allowed instead.
        allowed: &'static str,
    },
    /// Rates to begin with that exceed the demand.
    #[error("initial rates of {total} in sum exceed the demand of {demand}: scale them down")]
    Initial {
        /// Their sum.
        total: f64,
        /// The demand.
        demand: f64,
    },
    /// More paths than relays.
    #[error(
        "{paths} paths need as many relays, but there are {relays}: choose fewer paths, \
         or add relays"
    )]
    TooFewRelays {
        /// Paths wanted.
        paths: usize,
        /// Relays to choose from.
        relays: usize,
    },
}

/// Fails unless `fine`.
fn check(
    fine: bool,
    field: &'static str,
    value: f64,
    allowed: &'static str,
) -> Result<(), InvalidConfig> {
    match fine {
        true => Ok(()),
        false => Err(InvalidConfig::Field {
            field,
            value,
            allowed,
        }),
    }
}

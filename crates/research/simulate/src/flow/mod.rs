//! The flow level: rates of application-limited flows over shared links, one control interval after
//! the other, without packets or delays.
//!
//! The numerical study of the overlay paper (section 5) is on this level. What a controller finds
//! depends on who loses on an overloaded link, so there are three rules for it ([`Sharing`]), and
//! every result has to say which one it is with. [`SharedLinks`] knows rates at one moment, [`Run`]
//! has sources with the rate controller of [`manyway_control::rate_control`], and [`Search`] lets
//! unsatisfied sources choose other relays.
//!
//! ```
//! use manyway_control::rate_control::RateConfig;
//! use manyway_simulate::flow::{Overlay, Rules, Run, Sharing, Start};
//!
//! // Two sources of 6 Mbps; each may use the relay of 6 Mbps, the second one also another of 6 Mbps.
//! let overlay = Overlay { relays: vec![6e6, 6e6], demands: vec![6e6, 6e6] };
//! let rules = Rules { control: RateConfig::aiad().with_tolerance(0.0), start: Start::MaxMin, sharing: Sharing::MaxMin };
//! let mut run = Run::new(&overlay, &[vec![0], vec![0, 1]], rules, 1)?;
//! assert_eq!(run.rates(), [3e6, 3e6, 3e6]);
//! for _ in 0..200 {
//!     run.step();
//! }
//! assert!(run.normalised() > 0.97);
//! # Ok::<(), manyway_simulate::flow::InvalidFlows>(())
//! ```

mod convergence;
mod links;
#[cfg(test)]
mod program;
mod run;
mod search;

pub use convergence::Convergence;
pub use links::SharedLinks;
pub use manyway_scenario::file::{Sharing, Start};
pub(crate) use run::controller_seed;
pub use run::{Overlay, Rules, Run};
pub use search::{Found, Search};

use manyway_control::rate_control::InvalidConfig;

/// Flows that can't be computed with.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum InvalidFlows {
    /// A capacity or demand that is none.
    #[error("{what} {index} is {value}: it must be a finite number of 0 or more")]
    Rate {
        /// Link or source.
        what: &'static str,
        /// Which one, from 0.
        index: usize,
        /// Its value.
        value: f64,
    },
    /// A path over a link that isn't there, or twice over the same one, or over none.
    #[error(
        "path {path} has links {links:?} of {count}: it needs one or more different ones, counted \
         from 0"
    )]
    Path {
        /// Which path, from 0.
        path: usize,
        /// Its links.
        links: Vec<usize>,
        /// How many links there are.
        count: usize,
    },
    /// Not as many selections as sources.
    #[error("{selections} selections of paths for {sources} sources: give each source its own")]
    Selections {
        /// Selections given.
        selections: usize,
        /// How many sources there are.
        sources: usize,
    },
    /// Intervals of a search that leave nothing to judge by.
    #[error(
        "a search judged by {judged} of {intervals} intervals: it must be 1 or more, and no more \
         than there are"
    )]
    Judged {
        /// Intervals judged by.
        judged: usize,
        /// Intervals of an iteration.
        intervals: usize,
    },
    /// A controller's or a selector's settings.
    #[error(transparent)]
    Overlay(#[from] InvalidConfig),
}

/// Fails unless these are rates.
fn check_rates(what: &'static str, values: &[f64]) -> Result<(), InvalidFlows> {
    let wrong = values
        .iter()
        .position(|&value| !(value >= 0.0 && value.is_finite()));
    match wrong {
        Some(index) => Err(InvalidFlows::Rate {
            what,
            index,
            value: values[index],
        }),
        None => Ok(()),
    }
}

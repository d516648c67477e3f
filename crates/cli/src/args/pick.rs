//! Choosing among relays.

use clap::{Args, ValueEnum};
use manyway::Rate;
use manyway::control::rate_control::{Choice, Reselection};

/// Which of the relays are used at a time.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Relays")]
pub(crate) struct Pick {
    /// Go through this many of the relays at a time, and try others while they don't suffice
    ///
    /// The direct paths are used besides. A relay that dies or leaves is replaced by another one.
    /// What suffices is said by --demand or --limit; without either the first choice is kept. Takes
    /// the place of the path manager of --cc mpath. For whoever connects (--to, HOST:DIR).
    #[arg(long, value_name = "K", env = "MANYWAY_PICK", hide_env_values = true,
          value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) pick: Option<u16>,

    /// How --pick chooses: all relays alike [default], or in proportion to the bandwidth that they
    /// are believed to have
    ///
    /// Of a relay that was in use that is what it carried; of others what its operator allows you,
    /// but no more than the mean of those that were in use.
    #[arg(
        long,
        value_name = "uniform|proportional",
        env = "MANYWAY_CHOICE",
        hide_env_values = true,
        hide_possible_values = true,
        requires = "pick"
    )]
    pub(crate) choice: Option<ChoiceName>,

    /// What --pick replaces when the relays don't suffice: all of them [default], or the slowest
    #[arg(
        long,
        value_name = "all|slowest",
        env = "MANYWAY_RESELECT",
        hide_env_values = true,
        hide_possible_values = true,
        requires = "pick"
    )]
    pub(crate) reselect: Option<ReselectName>,

    /// What suffices, over all paths together, e.g. 50Mbps [default: --limit]
    ///
    /// It is no bound: what is sent beyond it, only --limit says.
    #[arg(
        long,
        value_name = "RATE",
        env = "MANYWAY_DEMAND",
        hide_env_values = true,
        requires = "pick"
    )]
    pub(crate) demand: Option<Rate>,
}

/// `--choice`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ChoiceName {
    Uniform,
    Proportional,
}

/// `--reselect`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReselectName {
    All,
    Slowest,
}

impl From<ChoiceName> for Choice {
    fn from(name: ChoiceName) -> Self {
        match name {
            ChoiceName::Uniform => Choice::Uniform,
            // What is believed is wrong by itself: nothing needs to be added.
            ChoiceName::Proportional => Choice::Proportional { error: 0.0 },
        }
    }
}

impl From<ReselectName> for Reselection {
    fn from(name: ReselectName) -> Self {
        match name {
            ReselectName::All => Reselection::All,
            ReselectName::Slowest => Reselection::Slowest,
        }
    }
}

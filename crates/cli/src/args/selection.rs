//! `--pick`: relay selection.

use clap::{Args, ValueEnum};
use manyway::Rate;
use manyway::control::rate_control::{Choice, Reselection};

/// Which relays a sender uses at a time.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Relays")]
pub(crate) struct SelectionArgs {
    /// Number of relays to use at a time; manyway replaces them while they don't meet the demand
    ///
    /// manyway also uses the direct paths. It replaces a relay that fails or leaves. `--demand` or
    /// `--limit` sets the rate to reach; without either, manyway keeps its first choice. `--pick`
    /// replaces the path manager of `--cc mpath`. Only the initiator, which is the side that
    /// connects (`--to`, HOST:DIR), can use it.
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) pick: Option<u16>,

    /// How `--pick` chooses relays: with equal probability [default], or in proportion to their
    /// estimated bandwidth
    ///
    /// manyway estimates the bandwidths itself. For a relay that it has used, the estimate is the
    /// rate that the relay carried. For any other relay, it is the rate that the relay's operator
    /// allows you, but at most the mean of the used relays.
    #[arg(
        long,
        value_name = "uniform|proportional",
        hide_possible_values = true,
        requires = "pick"
    )]
    pub(crate) choice: Option<ChoiceName>,

    /// Relays that `--pick` replaces when they don't meet the demand: all [default], or the slowest
    #[arg(
        long,
        value_name = "all|slowest",
        hide_possible_values = true,
        requires = "pick"
    )]
    pub(crate) reselect: Option<ReselectName>,

    /// Rate to reach over all paths together, e.g. 50Mbps [default: `--limit`]
    ///
    /// The demand doesn't limit the sending rate; only `--limit` does.
    #[arg(long, value_name = "RATE", requires = "pick")]
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
            // Estimates are wrong by themselves: the selector needn't add an error.
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

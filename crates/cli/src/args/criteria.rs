//! `criteria`: what a law promises as a fluid.

use std::ops::RangeInclusive;
use std::str::FromStr;

use clap::Args;
use manyway_fluid::criteria::Rtts;

/// Say which design criteria a law meets, with points where it doesn't
///
/// C0 to C5 of Peng et al. say whether a law has a utility, one equilibrium, a stable one, and a
/// predictable friendliness. They are evaluated at random states of one source and at worse ones
/// nearby. Without LAW, Table I of the paper: all laws, and where the result differs from what is
/// printed.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct CriteriaArgs {
    /// A window law with its parameters, e.g. balia or generalized:beta=0.5,n=4; or max, the
    /// paper's fluid of lia
    #[arg(value_name = "LAW")]
    pub(crate) law: Option<String>,

    /// Paths of the source: a number, or the least and the most, e.g. 2..8 (which is the default)
    #[arg(long, value_name = "N")]
    pub(crate) paths: Option<Paths>,

    /// Round-trip times: one for all paths; two to draw between, e.g. '10 ms..300 ms'; or one for
    /// each path, with commas
    #[arg(long, value_name = "TIMES", default_value = "100 ms", value_parser = rtts)]
    pub(crate) rtts: Rtts,

    /// Points to draw
    #[arg(
        long,
        value_name = "N",
        default_value_t = 2000,
        value_parser = clap::value_parser!(u32).range(1..=1_000_000)
    )]
    pub(crate) samples: u32,

    /// The same seed gives the same points
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,

    /// Print the result as one JSON object on standard output
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
}

const EXAMPLES: &str = "\
Examples:
  manyway criteria
  manyway criteria balia
  manyway criteria semicoupled --paths 2 --rtts '20 ms,100 ms'
  manyway criteria generalized:beta=1 --paths 10 --json > criteria.json";

/// The most paths of a source.
const MOST_PATHS: usize = 64;

/// How many paths a source has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Paths(pub(crate) RangeInclusive<usize>);

impl FromStr for Paths {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "should be a number of paths from 2 to {MOST_PATHS}, or two with .. between, e.g. \
                 2..8"
            )
        };
        let number = |text: &str| text.trim().parse().map_err(|_| wrong());
        let (least, most) = match text.split_once("..") {
            Some((least, most)) => (number(least)?, number(most.trim_start_matches('='))?),
            None => (number(text)?, number(text)?),
        };
        match least >= 2 && least <= most && most <= MOST_PATHS {
            true => Ok(Paths(least..=most)),
            false => Err(wrong()),
        }
    }
}

fn rtts(text: &str) -> Result<Rtts, String> {
    let seconds = |text: &str| -> Result<f64, String> {
        let time = manyway_units::parse_duration(text.trim()).map_err(|error| error.to_string())?;
        match time.is_zero() {
            true => Err("a round-trip time should be more than 0".to_owned()),
            false => Ok(time.as_secs_f64()),
        }
    };
    if let Some((low, high)) = text.split_once("..") {
        let (low, high) = (seconds(low)?, seconds(high)?);
        return match low <= high {
            true => Ok(Rtts::Between(low, high)),
            false => Err("the first time should be the shorter one".to_owned()),
        };
    }
    let each: Vec<f64> = text.split(',').map(seconds).collect::<Result<_, _>>()?;
    match each[..] {
        [one] => Ok(Rtts::Equal(one)),
        _ if each.len() > MOST_PATHS => Err(format!("{MOST_PATHS} paths are the most")),
        _ => Ok(Rtts::Each(each)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_a_number_or_two() {
        let paths = |text: &str| text.parse::<Paths>().map(|paths| paths.0);
        assert_eq!(paths("2..8"), Ok(2..=8));
        assert_eq!(paths("2..=8"), Ok(2..=8));
        assert_eq!(paths("10"), Ok(10..=10));
        for wrong in ["1", "", "8..2", "2..65", "2..", "x", "1..3", "-2"] {
            assert!(paths(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn round_trip_times_are_one_two_or_many() {
        assert_eq!(rtts("100 ms"), Ok(Rtts::Equal(0.1)));
        assert_eq!(rtts("10ms..300 ms"), Ok(Rtts::Between(0.01, 0.3)));
        assert_eq!(rtts("20 ms, 100 ms"), Ok(Rtts::Each(vec![0.02, 0.1])));
        for wrong in [
            "",
            "100",
            "0 ms",
            "300 ms..10 ms",
            "10 ms..",
            "10 ms,,",
            "-1 s",
        ] {
            assert!(rtts(wrong).is_err(), "{wrong}");
        }
    }
}

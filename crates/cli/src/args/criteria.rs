//! `criteria`: which design criteria a law meets as a fluid.

use std::ops::RangeInclusive;
use std::str::FromStr;

use clap::Args;
use manyway_fluid::criteria::Rtts;

/// Evaluate which design criteria a law meets, and print counterexamples for the others
///
/// The criteria C0 to C5 of Peng et al. concern whether a law has a utility, one equilibrium, a
/// stable equilibrium, and a predictable friendliness. manyway evaluates them at random states of
/// one source and searches for worse states nearby. Without LAW, it prints Table I of the paper,
/// with `balia`, `lia` and `reno` added, and marks results that differ from the printed ones.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CriteriaArgs {
    /// Window law with its parameters, e.g. balia or generalized:beta=0.5,n=4; or max, the paper's
    /// fluid of lia
    #[arg(value_name = "LAW")]
    pub(crate) law: Option<String>,

    /// Number of paths of the source, or a range, e.g. 2..8 [default: 2..8]
    #[arg(long, value_name = "N")]
    pub(crate) paths: Option<Paths>,

    /// Round-trip times: one for all paths, a range to draw from, e.g. '10 ms..300 ms', or one for
    /// each path, separated by commas
    #[arg(long, value_name = "TIMES", default_value = "100 ms", value_parser = rtts)]
    pub(crate) rtts: Rtts,

    /// Number of random points
    #[arg(
        long,
        value_name = "N",
        default_value_t = 2000,
        value_parser = clap::value_parser!(u32).range(1..=1_000_000)
    )]
    pub(crate) samples: u32,

    /// Seed of the random points
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

/// Most paths of a source.
const MAX_PATHS: usize = 64;

/// How many paths a source has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Paths(pub(crate) RangeInclusive<usize>);

impl FromStr for Paths {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("expected a number of paths from 2 to {MAX_PATHS}, or a range, e.g. 2..8");
        let number = |text: &str| text.trim().parse().map_err(|_| wrong());
        let (least, most) = match text.split_once("..") {
            Some((least, most)) => (number(least)?, number(most.trim_start_matches('='))?),
            None => (number(text)?, number(text)?),
        };
        match least >= 2 && least <= most && most <= MAX_PATHS {
            true => Ok(Paths(least..=most)),
            false => Err(wrong()),
        }
    }
}

fn rtts(text: &str) -> Result<Rtts, String> {
    let seconds = |text: &str| -> Result<f64, String> {
        let time = manyway_units::parse_duration(text.trim()).map_err(|error| error.to_string())?;
        match time.is_zero() {
            true => Err("a round-trip time must be greater than 0".to_owned()),
            false => Ok(time.as_secs_f64()),
        }
    };
    if let Some((low, high)) = text.split_once("..") {
        let (low, high) = (seconds(low)?, seconds(high)?);
        return match low <= high {
            true => Ok(Rtts::Between(low, high)),
            false => Err("a range must begin with the shorter time".to_owned()),
        };
    }
    let each: Vec<f64> = text.split(',').map(seconds).collect::<Result<_, _>>()?;
    match each[..] {
        [one] => Ok(Rtts::Equal(one)),
        _ if each.len() > MAX_PATHS => Err(format!("a source has at most {MAX_PATHS} paths")),
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

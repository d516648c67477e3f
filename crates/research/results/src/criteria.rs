//! Which design criteria a law meets: where to look, and what was found.

use std::ops::RangeInclusive;
use std::str::FromStr;

use manyway_fluid::criteria::{Criteria, Criterion, Domain, Row, Rtts, Tradeoff};
use serde_json::{Value, json};

/// Most paths of a source.
const MAX_PATHS: usize = 64;

/// How many paths a source has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths(pub RangeInclusive<usize>);

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

/// Round-trip times as text: one, a range, or one for each path.
///
/// # Errors
/// If it is none of these.
pub fn rtts(text: &str) -> Result<Rtts, String> {
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

/// The domain with so many paths, or as many as there are round-trip times; otherwise the default.
///
/// # Errors
/// If the two don't fit together.
pub fn domain(
    paths: Option<&Paths>,
    rtts: &Rtts,
    samples: usize,
    seed: u64,
) -> Result<Domain, String> {
    let default = Domain::default();
    let paths = paths.map(|paths| paths.0.clone());
    let paths = match (rtts, paths) {
        (Rtts::Each(each), Some(paths)) if paths != (each.len()..=each.len()) => {
            return Err(format!(
                "`--rtts` gives round-trip times of {} paths: leave `--paths` out, or set it to {}",
                each.len(),
                each.len()
            ));
        }
        (Rtts::Each(each), _) => each.len()..=each.len(),
        (_, Some(paths)) => paths,
        (_, None) => default.paths,
    };
    Ok(Domain {
        paths,
        rtts: rtts.clone(),
        samples,
        seed,
        ..default
    })
}

/// What was found about a law: the criteria at the top level, each with `holds` and `witness`.
pub fn one_law(found: &Criteria, tradeoff: Option<Tradeoff>) -> Value {
    let mut object = criteria(found);
    object["domain"] = json!(found.domain);
    object["tradeoff"] = json!(tradeoff);
    object
}

/// What was found about the laws of the paper's table, with what is printed there as `paper`.
pub fn whole_table(domain: &Domain, rows: &[Row]) -> Value {
    let laws = rows.iter().map(|row| {
        let mut object = criteria(&row.found);
        for (n, criterion) in Criterion::ALL.iter().enumerate() {
            let paper = row.paper.map(|paper| paper[n]);
            object[criterion.to_string()]["paper"] = json!(paper);
        }
        object
    });
    json!({"domain": domain, "laws": laws.collect::<Vec<Value>>()})
}

fn criteria(found: &Criteria) -> Value {
    let mut object = json!({"law": found.law, "jump_at_ties": found.jump_at_ties});
    for verdict in &found.verdicts {
        object[verdict.criterion.to_string()] = json!(verdict);
    }
    object
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

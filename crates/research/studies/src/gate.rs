//! What must hold of results, and how far what doesn't may be off.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use crate::claims::{Claim, Paper, Terms, terms};
use crate::extent::{Extent, Size};
use crate::ours::or_nan;

/// A gate of `claims/*.toml`, measured.
#[derive(Debug, Clone)]
pub struct Gate {
    /// Which one.
    pub row: GateRow,
    /// What was found, for people.
    pub found: String,
    /// What was found: one value, or one for each case.
    pub cases: Vec<Case>,
}

/// A row for a gate in `claims/*.toml`.
#[derive(Debug, Copy, Clone)]
pub struct GateRow {
    /// Its file.
    pub paper: &'static Paper,
    /// The claim that it is a gate of.
    pub claim: &'static Claim,
    /// What it asks for.
    pub terms: &'static Terms,
}

/// A value of a gate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Empty for a gate's only value.
    pub name: String,
    /// In the gate's unit.
    #[serde(deserialize_with = "or_nan")]
    pub value: f64,
}

/// The gate `paper/name`, whose values are to come.
///
/// # Panics
///
/// When there is none. A test compares the names in the code with those of the files.
pub(crate) fn gate(id: &str) -> GateRow {
    let (paper, claim, terms) = terms(id);
    GateRow {
        paper,
        claim,
        terms,
    }
}

impl GateRow {
    /// With its only value.
    pub(crate) fn value(self, value: f64, found: impl Into<String>) -> Gate {
        self.cases([("", value)], found)
    }

    /// With a value for each case.
    pub(crate) fn cases<S: Into<String>>(
        self,
        cases: impl IntoIterator<Item = (S, f64)>,
        found: impl Into<String>,
    ) -> Gate {
        let cases = cases.into_iter().map(|(name, value)| Case {
            name: name.into(),
            value,
        });
        Gate {
            row: self,
            found: found.into(),
            cases: cases.collect(),
        }
    }

    /// `paper/name`.
    pub fn id(&self) -> String {
        format!("{}/{}", self.paper.name, self.terms.name)
    }
}

/// What is wrong with a gate.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
    /// A value misses the limits, and no bound is recorded for it.
    Missed {
        /// Of this case.
        case: String,
        /// The value.
        value: f64,
    },
    /// A value is beyond its recorded bound.
    Worse {
        /// Of this case.
        case: String,
        /// The value.
        value: f64,
        /// The bound.
        bound: f64,
    },
    /// A value is within the limits, and there is a bound for it still.
    Better {
        /// Of this case.
        case: String,
        /// The value.
        value: f64,
        /// The bound.
        bound: f64,
    },
    /// There is a bound for a case that the study doesn't have.
    NoCase {
        /// That case.
        case: String,
    },
    /// The study has no value at all.
    Empty,
}

impl Gate {
    /// Whether it holds.
    pub fn holds(&self) -> bool {
        let limits = self.row.terms.limits();
        !self.cases.is_empty() && self.cases.iter().all(|case| limits.hold(case.value))
    }

    /// What makes a run of this extent fail: values beyond their limits and bounds, and bounds that
    /// aren't needed. Bounds are those of the studies' own seeds: with others, values that have one
    /// aren't judged.
    pub fn faults(&self, extent: Extent) -> Vec<Fault> {
        let Terms { known, .. } = self.row.terms;
        let limits = self.row.terms.limits();
        let mut faults = Vec::new();
        for Case { name, value } in &self.cases {
            let (case, value, holds) = (name.clone(), *value, limits.hold(*value));
            match known.of(extent.size, name) {
                None if holds => {}
                None => faults.push(Fault::Missed { case, value }),
                Some(_) if extent.seed != 0 => {}
                Some(bound) if holds => faults.push(Fault::Better { case, value, bound }),
                Some(bound) if limits.hold_to(bound, value) => {}
                Some(bound) => faults.push(Fault::Worse { case, value, bound }),
            }
        }
        let has = |name: &str| self.cases.iter().any(|case| case.name == name);
        let unused = known.all(extent.size).filter(|(name, _)| !has(name));
        faults.extend(unused.map(|(case, _)| Fault::NoCase {
            case: case.to_owned(),
        }));
        if self.cases.is_empty() {
            faults.push(Fault::Empty);
        }
        faults
    }

    /// Gates as a table in Markdown.
    pub fn markdown(gates: &[Gate]) -> String {
        let rows = gates.iter().map(|gate| {
            let GateRow { claim, terms, .. } = gate.row;
            let holds = match (gate.holds(), &terms.cause) {
                (true, _) => "yes".to_owned(),
                (false, Some(cause)) => format!("**no**: {cause}"),
                (false, None) => "**no**".to_owned(),
            };
            let what = terms.what();
            format!("| {}: {what} | {} | {holds} |\n", claim.place, gate.found)
        });
        format!(
            "| what | found | holds |\n|---|---|---|\n{}",
            rows.collect::<String>()
        )
    }
}

impl Fault {
    /// What is wrong, with the gate's name and what to do about it.
    pub fn words(&self, gate: &Gate, size: Size) -> String {
        let GateRow { paper, terms, .. } = gate.row;
        let (id, limits, unit) = (gate.row.id(), terms.limits(), &terms.unit);
        let key = match size {
            Size::Short => "known.short",
            Size::Full => "known.full",
        };
        let of = |case: &str| match case {
            "" => String::new(),
            case => format!(" of {case:?}"),
        };
        let file = format!("claims/{}.toml", paper.name);
        match self {
            Fault::Missed { case, value } => {
                format!("{id}: {value} {unit}{}, asked for is {limits}", of(case))
            }
            Fault::Worse { case, value, bound } => format!(
                "{id}: {value} {unit}{} is worse than its recorded bound, {bound} ({key} in \
                 {file})",
                of(case)
            ),
            Fault::Better { case, value, bound } => format!(
                "{id}: {value} {unit}{} is within its limits now: remove its recorded bound, \
                 {bound}, from {key} in {file}",
                of(case)
            ),
            Fault::NoCase { case } => format!(
                "{id}: the study has no value{}: remove its recorded bound from {key} in {file}",
                of(case)
            ),
            Fault::Empty => format!("{id}: the study has no value"),
        }
    }
}

/// The form of it in a study's JSON file.
impl Serialize for Gate {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;
        let terms = self.row.terms;
        let mut object = serializer.serialize_struct("Gate", 8)?;
        object.serialize_field("gate", &self.row.id())?;
        object.serialize_field("kind", &terms.kind)?;
        object.serialize_field("what", &terms.what())?;
        object.serialize_field("limits", &terms.limits())?;
        object.serialize_field("unit", &terms.unit)?;
        object.serialize_field("found", &self.found)?;
        object.serialize_field("cases", &self.cases)?;
        object.serialize_field("holds", &self.holds())?;
        object.end()
    }
}

/// Values that don't rise from each to the next.
pub(crate) fn not_rising(values: &[f64]) -> f64 {
    let pairs = values.windows(2);
    // One that isn't a number is out of order, too.
    let rises = |pair: &&[f64]| pair[0].partial_cmp(&pair[1]) == Some(Ordering::Less);
    pairs.filter(|pair| !rises(pair)).count() as f64
}

/// Values that don't fall from each to the next.
pub(crate) fn not_falling(values: &[f64]) -> f64 {
    let negated: Vec<f64> = values.iter().map(|value| -value).collect();
    not_rising(&negated)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A gate with a limit of at least 0.9, and bounds for two cases of short runs.
    fn row() -> GateRow {
        let text = r#"
            name = "share"
            what = "at least {at_least}"
            at_least = 0.9
            unit = "of the link"
            from = "ours"
            why = "a test"
            known.short = { "short queue" = 0.74, "no queue" = 0.5 }
            cause = "queues"
            tested = "with longer ones"
        "#;
        let terms: &'static Terms = Box::leak(Box::new(toml::from_str(text).unwrap()));
        GateRow {
            terms,
            ..gate("manyway/aggregation")
        }
    }

    fn faults(short_queue: f64, no_queue: f64, extent: Extent) -> Vec<Fault> {
        let cases = [
            ("long queue", 0.95),
            ("short queue", short_queue),
            ("no queue", no_queue),
        ];
        let gate = row().cases(cases, "");
        assert!(!gate.holds() || short_queue.min(no_queue) >= 0.9);
        gate.faults(extent)
    }

    const SHORT: Extent = Extent {
        size: Size::Short,
        seed: 0,
    };

    #[test]
    fn what_misses_its_limits_may_not_get_worse() {
        assert_eq!(faults(0.75, 0.5, SHORT), []);
        let worse = Fault::Worse {
            case: "short queue".to_owned(),
            value: 0.73,
            bound: 0.74,
        };
        assert_eq!(faults(0.73, 0.5, SHORT), [worse]);
        let nothing = faults(f64::NAN, 0.5, SHORT);
        assert!(matches!(&nothing[..], [Fault::Worse { .. }]), "{nothing:?}");
    }

    #[test]
    fn what_holds_again_asks_for_its_bound_to_be_removed() {
        let found = faults(0.9, 0.5, SHORT);
        let better = Fault::Better {
            case: "short queue".to_owned(),
            value: 0.9,
            bound: 0.74,
        };
        assert_eq!(found, std::slice::from_ref(&better));
        let gate = row().cases([("short queue", 0.9)], "");
        assert_eq!(
            better.words(&gate, Size::Short),
            "manyway/share: 0.9 of the link of \"short queue\" is within its limits now: remove \
             its recorded bound, 0.74, from known.short in claims/manyway.toml"
        );
        let gone = [Fault::NoCase {
            case: "no queue".to_owned(),
        }];
        let known = row().cases([("short queue", 0.8)], "").faults(SHORT);
        assert_eq!(known, gone);
    }

    #[test]
    fn bounds_are_those_of_a_size_and_of_the_studies_own_seeds() {
        let full = Extent {
            size: Size::Full,
            ..SHORT
        };
        let missed = faults(0.75, 0.95, full);
        assert!(matches!(&missed[..], [Fault::Missed { .. }]), "{missed:?}");
        let other = Extent { seed: 1, ..SHORT };
        assert_eq!(faults(0.1, 0.95, other), []);
        assert_eq!(row().cases([("", 0.0); 0], "").faults(full), [Fault::Empty]);
        assert!(!row().cases([("", 0.0); 0], "").holds());
    }

    /// The mechanism on a gate of the papers' that is known to be red.
    #[test]
    fn a_red_gate_of_a_paper_is_held_at_its_bound() {
        let at = |factor: f64| {
            let row = gate("mpath/figure-14-three");
            let known: Vec<(&str, f64)> = row.terms.known.all(Size::Short).collect();
            assert!(!known.is_empty());
            let cases = known.iter().map(|(name, bound)| (*name, bound * factor));
            row.cases(cases, "").faults(SHORT).len()
        };
        assert_eq!(at(1.0), 0);
        assert_eq!(at(0.99), 2, "worse");
        assert_eq!(at(1.1), 2, "within the limits");
    }

    #[test]
    fn values_out_of_order_are_counted() {
        assert_eq!(not_rising(&[1.0, 2.0, 2.0, 3.0]), 1.0);
        assert_eq!(not_rising(&[1.0, f64::NAN, 3.0]), 2.0);
        assert_eq!(not_falling(&[3.0, 2.0, 1.0]), 0.0);
        assert_eq!(not_falling(&[1.0, 2.0]), 1.0);
    }
}

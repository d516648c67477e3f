//! Table I of Peng et al.: as printed, and as evaluated here.

use super::domain::Domain;
use super::evaluate;
use super::subject::Subject;
use super::verdict::{Criteria, Criterion};

/// A law of Table I.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// What it is called here.
    pub label: String,
    /// C0 to C5 as printed, if the paper has the row.
    pub paper: Option<[bool; 6]>,
    /// C0 to C5 as found.
    pub found: Criteria,
}

/// Table I as printed: laws as [`Subject`] knows them, and C0 to C5. C2 and C3 share a column
/// there.
pub const PAPER: [(&str, [bool; 6]); 5] = [
    ("ewtcp", [true, true, true, true, true, true]),
    ("coupled", [true, true, false, false, true, true]),
    ("semicoupled", [false, true, true, true, true, true]),
    ("max", [false, true, true, true, true, true]),
    ("generalized", [false, true, true, true, true, true]),
];

/// Laws beside the paper's: those that run where its fluid differs, and the baseline.
const BESIDE: [&str; 3] = ["balia", "lia", "reno"];

/// Table I over a domain. The row of `generalized` is the class, [`Subject::class`].
pub fn table_1(domain: &Domain) -> Vec<Row> {
    let printed = PAPER.iter().map(|(name, paper)| (*name, Some(*paper)));
    let beside = BESIDE.iter().map(|name| (*name, None));
    let rows = printed.chain(beside).map(|(name, paper)| {
        let subject = match name {
            "generalized" => Subject::class(),
            name => Subject::law(name).expect("the registry has this law, and it has a fluid form"),
        };
        Row {
            label: subject.label().to_owned(),
            paper,
            found: evaluate(&subject, domain),
        }
    });
    rows.collect()
}

impl Row {
    /// Cells that say something else than the paper. Undefined ones aren't among them.
    pub fn disagreements(&self) -> Vec<Criterion> {
        let Some(paper) = self.paper else {
            return Vec::new();
        };
        let verdicts = self.found.verdicts.iter().zip(paper);
        let differ =
            verdicts.filter(|(found, paper)| found.holds.is_some_and(|holds| holds != *paper));
        differ.map(|(found, _)| found.criterion).collect()
    }
}

//! Table I of Peng et al.: as printed, and as evaluated here.

use std::sync::atomic::AtomicBool;

use super::domain::Domain;
use super::evaluate_until;
use super::search::NEVER;
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
const PAPER: [(&str, [bool; 6]); 4] = [
    ("ewtcp", [true, true, true, true, true, true]),
    ("coupled", [true, true, false, false, true, true]),
    ("semicoupled", [false, true, true, true, true, true]),
    ("max", [false, true, true, true, true, true]),
];

/// Table I's last row, the paper's own class of laws.
const PAPER_CLASS: [bool; 6] = [false, true, true, true, true, true];

/// Laws beside the paper's: those that run where its fluid differs, and the baseline.
const BESIDE: [&str; 3] = ["balia", "lia", "reno"];

/// Table I over a domain: the paper's laws, its class ([`Subject::class`]), and the laws beside.
pub fn table_1(domain: &Domain) -> Vec<Row> {
    let rows = table_1_until(domain, &NEVER);
    rows.expect("nobody stops it")
}

/// [`table_1`], which ends soon once `stop` is set: `None` then.
pub fn table_1_until(domain: &Domain, stop: &AtomicBool) -> Option<Vec<Row>> {
    let law = |name| Subject::law(name).expect("the registry has this law, with a fluid form");
    let printed = PAPER.map(|(name, paper)| (law(name), Some(paper)));
    let class = (Subject::class(), Some(PAPER_CLASS));
    let beside = BESIDE.map(|name| (law(name), None));
    let rows = printed.into_iter().chain([class]).chain(beside);
    let row = |(subject, paper): (Subject, _)| {
        Some(Row {
            label: subject.label().to_owned(),
            paper,
            found: evaluate_until(&subject, domain, stop)?,
        })
    };
    rows.map(row).collect()
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

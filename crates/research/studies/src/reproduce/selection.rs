//! `PAPER` or `PAPER/ITEM`.

use std::fmt;

use crate::claims::{self, Claim, Paper};
use crate::registry::STUDIES;
use crate::study::Study;

/// Claims of the papers.
#[derive(Debug)]
pub struct Selection {
    /// Each paper that has some, with these.
    pub papers: Vec<(&'static Paper, Vec<&'static Claim>)>,
}

/// There is no such paper or claim.
#[derive(Debug, PartialEq, Eq)]
pub struct UnknownClaim {
    asked: String,
    /// A paper that there is, if only its claim is unknown.
    paper: Option<&'static str>,
    known: Vec<&'static str>,
}

impl Selection {
    /// All claims of the five papers, of one of them, or a single one.
    ///
    /// # Errors
    ///
    /// An unknown paper or claim; the error lists the known ones.
    pub fn of(asked: Option<&str>) -> Result<Self, UnknownClaim> {
        let Some(asked) = asked else {
            let papers = claims::papers().iter();
            return Ok(Selection {
                papers: papers
                    .map(|paper| (paper, paper.claims.iter().collect()))
                    .collect(),
            });
        };
        let unknown = |paper, known| UnknownClaim {
            asked: asked.to_owned(),
            paper,
            known,
        };
        let (name, item) = match asked.split_once('/') {
            Some((name, item)) => (name, Some(item)),
            None => (asked, None),
        };
        let names = || claims::papers().iter().map(|paper| paper.name).collect();
        let paper = claims::papers().iter().find(|paper| paper.name == name);
        let paper = paper.ok_or_else(|| unknown(None, names()))?;
        let items = || {
            paper
                .claims
                .iter()
                .map(|claim| claim.item.as_str())
                .collect()
        };
        let chosen = match item {
            None => paper.claims.iter().collect(),
            Some(item) => vec![
                paper
                    .claim(item)
                    .ok_or_else(|| unknown(Some(paper.name), items()))?,
            ],
        };
        Ok(Selection {
            papers: vec![(paper, chosen)],
        })
    }

    /// The studies that these claims need, each once, in the order in which all of them run.
    pub fn studies(&self) -> Vec<&'static dyn Study> {
        let needs = |study: &str| {
            let mut papers = self.papers.iter();
            papers.any(|(paper, claims)| claims.iter().any(|claim| needed(paper, claim, study)))
        };
        let studies = STUDIES.iter().copied();
        studies.filter(|study| needs(study.name())).collect()
    }
}

/// Whether a claim needs a study: its own, or that of another claim's gate that judges it, too.
fn needed(paper: &Paper, claim: &Claim, study: &str) -> bool {
    let also = claim.also.iter().filter_map(|name| paper.gate(name));
    let also = also.map(|(other, _)| &other.study);
    std::iter::once(&claim.study)
        .chain(also)
        .any(|own| own.as_deref() == Some(study))
}

impl fmt::Display for UnknownClaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What was asked for may hold anything.
        let asked = self.asked.escape_debug();
        match self.paper {
            None => write!(f, "no paper is called `{asked}`: there are ")?,
            Some(paper) => write!(f, "{paper} has no item `{asked}`: it has ")?,
        }
        f.write_str(&self.known.join(", "))
    }
}

impl std::error::Error for UnknownClaim {}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(asked: Option<&str>) -> Vec<&'static str> {
        let studies = Selection::of(asked).unwrap().studies();
        studies.iter().map(|study| study.name()).collect()
    }

    #[test]
    fn claims_say_which_studies_they_need() {
        let all = names(None);
        assert!(all.contains(&"balia") && all.contains(&"planetlab"));
        assert!(!all.contains(&"fair"), "no paper has it");
        assert_eq!(names(Some("balia/table-3")), ["balia"]);
        assert_eq!(names(Some("balia/table-1")), ["criteria"]);
        assert_eq!(names(Some("bmc/figure-5-18")), ["bmc"]);
        assert_eq!(names(Some("wvegas")), ["wvegas", "fluid"]);
        assert!(names(Some("balia/figure-1")).is_empty(), "an illustration");
    }

    #[test]
    fn who_asks_for_something_else_is_told_what_there_is() {
        let told = |asked: &str| Selection::of(Some(asked)).unwrap_err().to_string();
        assert_eq!(
            told("olia"),
            "no paper is called `olia`: there are balia, wvegas, bmc, mpath, overlay"
        );
        let item = told("wvegas/table-3\u{1b}[2J");
        assert!(
            item.starts_with("wvegas has no item `wvegas/table-3\\u{1b}[2J`: it has table-1, ")
        );
        assert!(told("manyway").starts_with("no paper"), "not a paper");
        assert!(told("").starts_with("no paper is called ``"));
        assert!(told("balia/").starts_with("balia has no item `balia/`"));
    }
}

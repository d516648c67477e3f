//! What a report says, for people and for programs.

use serde::Serialize;

use super::selection::Selection;
use super::store::{Kept, KeptFigure};
use super::verdict::Verdict;
use crate::claims::{Claim, GateKind, Kind, Level, Limits, Number, Origin, Paper, Terms};
use crate::extent::Size;
use crate::gate::{Case, Gate};
use crate::ours::Ours;

/// Claims of papers, and what became of them.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The program and its version.
    pub program: String,
    /// `short` or `full`.
    pub size: &'static str,
    /// The papers that were asked for.
    pub papers: Vec<PaperReport>,
}

/// A paper's claims.
#[derive(Debug, Serialize)]
pub struct PaperReport {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its title.
    pub title: &'static str,
    /// What became of its claims.
    pub claims: Vec<ClaimReport>,
}

/// A claim and what became of it.
#[derive(Debug, Serialize)]
pub struct ClaimReport {
    /// `paper/item`.
    pub id: String,
    /// Where it is in the paper.
    pub place: &'static str,
    /// What it is.
    pub kind: Kind,
    /// What the paper says.
    pub claim: &'static str,
    /// What became of it.
    pub verdict: Verdict,
    /// The command that makes this report of it; none of an illustration.
    pub command: Option<String>,
    /// The study that measures it.
    pub study: Option<&'static str>,
    /// The levels that it is measured at.
    pub levels: &'static [Level],
    /// The paper's numbers and ours.
    pub numbers: Vec<NumberReport>,
    /// What judges it.
    pub gates: Vec<GateReport>,
    #[serde(skip)]
    pub(super) figures: Vec<KeptFigure>,
}

/// A number of the paper's and ours.
#[derive(Debug, Serialize)]
pub struct NumberReport {
    /// What it is.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// The paper's.
    pub paper: &'static Number,
    /// Ours, if there is one at this size.
    pub ours: Option<Ours>,
}

/// A gate and what was measured of it.
#[derive(Debug, Serialize)]
pub struct GateReport {
    /// `paper/name`.
    pub gate: String,
    /// What it is about.
    pub kind: GateKind,
    /// What must hold.
    pub what: String,
    /// The limits of its values.
    pub limits: Limits,
    /// Their unit.
    pub unit: &'static str,
    /// Where they come from.
    pub from: Origin,
    /// The reason for them.
    pub why: &'static str,
    /// Whether it holds; none if it wasn't measured, as at this size.
    pub holds: Option<bool>,
    /// What was found, for people.
    pub found: String,
    /// What was found.
    pub cases: Vec<CaseReport>,
    /// Why values miss the limits, if some do.
    pub cause: Option<&'static str>,
    /// How that was tested.
    pub tested: Option<&'static str>,
}

/// A value of a gate.
#[derive(Debug, Serialize)]
pub struct CaseReport {
    /// Its name and value.
    #[serde(flatten)]
    pub case: Case,
    /// Whether it is within the limits.
    pub holds: bool,
    /// Its recorded bound, if it has one.
    pub bound: Option<f64>,
}

impl Report {
    /// Of these claims, by what is kept of their studies at this size.
    pub fn new(selection: &Selection, size: Size, kept: &[Kept]) -> Self {
        let gates: Vec<Gate> = kept.iter().flat_map(Kept::gates).collect();
        let papers = selection.papers.iter().map(|&(paper, ref claims)| {
            let claims = claims.iter().map(|&claim| {
                let found = Found {
                    size,
                    gates: &gates,
                    kept,
                };
                found.claim(paper, claim)
            });
            PaperReport {
                name: paper.name,
                title: &paper.title,
                claims: claims.collect(),
            }
        });
        Report {
            program: format!("manyway {}", env!("CARGO_PKG_VERSION")),
            size: size.name(),
            papers: papers.collect(),
        }
    }

    /// All claims.
    pub fn claims(&self) -> impl Iterator<Item = &ClaimReport> {
        self.papers.iter().flat_map(|paper| &paper.claims)
    }

    /// How many claims have a verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        let claims = self.claims();
        claims.filter(|claim| claim.verdict == verdict).count()
    }

    /// Claims that are judged at this size.
    pub fn judged(&self) -> usize {
        let verdicts = [Verdict::Holds, Verdict::HoldsInOrder, Verdict::Fails];
        verdicts.map(|verdict| self.count(verdict)).iter().sum()
    }
}

/// What there is to say of a claim.
struct Found<'a> {
    size: Size,
    gates: &'a [Gate],
    kept: &'a [Kept],
}

impl Found<'_> {
    fn claim(&self, paper: &'static Paper, claim: &'static Claim) -> ClaimReport {
        let id = format!("{}/{}", paper.name, claim.item);
        let names = claim.gates.iter().map(|terms| &terms.name);
        let names: Vec<&String> = names.chain(&claim.also).collect();
        let measured = |name: &String| {
            let mut gates = self.gates.iter();
            gates.find(|gate| gate.row.paper.name == paper.name && gate.row.terms.name == *name)
        };
        let judging: Vec<&Gate> = names.iter().filter_map(|name| measured(name)).collect();
        let gates = names.iter().filter_map(|name| {
            let (_, terms) = paper.gate(name)?;
            Some(self.gate(format!("{}/{name}", paper.name), terms, measured(name)))
        });
        let numbers = claim.numbers().map(|(unit, name, number)| {
            let all = self.kept.iter().flat_map(|kept| &kept.ours);
            let mut ours = all.filter(|ours| ours.claim == id && ours.name == name);
            NumberReport {
                name,
                unit,
                paper: number,
                ours: ours.next().cloned(),
            }
        });
        let figures = claim.figures.iter().filter_map(|name| {
            let mut all = self.kept.iter().flat_map(|kept| &kept.figures);
            all.find(|figure| figure.name == *name).cloned()
        });
        let command = match (claim.kind, self.size) {
            (Kind::Illustration, _) => None,
            (_, Size::Short) => Some(format!("manyway reproduce {id} --quick")),
            (_, Size::Full) => Some(format!("manyway reproduce {id} --full")),
        };
        ClaimReport {
            verdict: Verdict::of(claim, &judging),
            place: &claim.place,
            kind: claim.kind,
            claim: &claim.claim,
            command: command.filter(|_| claim.study.is_some()),
            study: claim.study.as_deref(),
            levels: &claim.levels,
            numbers: numbers.collect(),
            gates: gates.collect(),
            figures: figures.collect(),
            id,
        }
    }

    fn gate(&self, id: String, terms: &'static Terms, measured: Option<&Gate>) -> GateReport {
        let limits = terms.limits();
        let cases = measured.map_or(&[][..], |gate| &gate.cases).iter();
        let cases = cases.map(|case| CaseReport {
            holds: limits.hold(case.value),
            bound: terms.known.of(self.size, &case.name),
            case: case.clone(),
        });
        let holds = measured.map(Gate::holds);
        let missed = holds == Some(false);
        GateReport {
            gate: id,
            kind: terms.kind,
            what: terms.what(),
            limits,
            unit: &terms.unit,
            from: terms.from,
            why: &terms.why,
            holds,
            found: measured.map_or_else(String::new, |gate| gate.found.clone()),
            cases: cases.collect(),
            cause: terms.cause.as_deref().filter(|_| missed),
            tested: terms.tested.as_deref().filter(|_| missed),
        }
    }
}

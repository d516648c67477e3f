//! What is kept of studies that have run.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use crate::claims;
use crate::extent::Size;
use crate::failure::Failure;
use crate::gate::{Case, Gate, GateRow};
use crate::ours::Ours;
use crate::study::{Outcome, Study};

/// The folder of kept results.
#[derive(Debug)]
pub struct Store {
    dir: PathBuf,
    code: String,
}

/// What the report needs of a study that has run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    /// The code that it ran with.
    code: String,
    study: String,
    size: String,
    gates: Vec<KeptGate>,
    pub(crate) ours: Vec<Ours>,
    pub(crate) figures: Vec<KeptFigure>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeptGate {
    /// `paper/name`.
    gate: String,
    found: String,
    cases: Vec<Case>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeptFigure {
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) svg: String,
}

impl Store {
    /// Results in `dir/studies`, of this code: anything that changes a result must change its name.
    ///
    /// # Errors
    ///
    /// When files can't be written there.
    pub fn open(dir: &Path, code: String) -> io::Result<Self> {
        let dir = dir.join("studies");
        fs::create_dir_all(&dir)?;
        // Whether that is possible shows now, not after minutes of work.
        NamedTempFile::new_in(&dir)?;
        Ok(Store { dir, code })
    }

    /// The result of a study that has run at this size with this code.
    pub fn kept(&self, study: &dyn Study, size: Size) -> Option<Kept> {
        let text = fs::read_to_string(self.path(study, size)).ok()?;
        let kept: Kept = serde_json::from_str(&text).ok()?;
        let this = kept.code == self.code && kept.study == study.name();
        let whole = kept.gates.iter().all(|gate| row(&gate.gate).is_some());
        (this && kept.size == size.name() && whole).then_some(kept)
    }

    /// Keeps a result. What is kept is read again, so that a report doesn't depend on when its
    /// studies ran.
    ///
    /// # Errors
    ///
    /// When that isn't possible, and for a plot that can't be drawn.
    pub fn keep(&self, study: &dyn Study, size: Size, outcome: &Outcome) -> Result<Kept, Failure> {
        let figures = outcome.figures.iter().map(|figure| {
            Ok(KeptFigure {
                name: figure.name.clone(),
                title: figure.plot.title.clone(),
                svg: figure.plot.svg()?,
            })
        });
        let gates = outcome.gates.iter().map(|gate| KeptGate {
            gate: gate.row.id(),
            found: gate.found.clone(),
            cases: gate.cases.clone(),
        });
        let kept = Kept {
            code: self.code.clone(),
            study: study.name().to_owned(),
            size: size.name().to_owned(),
            gates: gates.collect(),
            ours: outcome.ours.clone(),
            figures: figures.collect::<Result<_, Failure>>()?,
        };
        let mut file = NamedTempFile::new_in(&self.dir)?;
        serde_json::to_writer_pretty(&mut file, &kept)?;
        file.write_all(b"\n")?;
        file.persist(self.path(study, size))?;
        let again = self.kept(study, size);
        again.ok_or_else(|| format!("what {} gave can't be read again", study.name()).into())
    }

    fn path(&self, study: &dyn Study, size: Size) -> PathBuf {
        self.dir
            .join(format!("{}-{}.json", study.name(), size.name()))
    }
}

impl Kept {
    /// The gates, beside their rows.
    pub(crate) fn gates(&self) -> impl Iterator<Item = Gate> {
        self.gates.iter().filter_map(|kept| {
            Some(Gate {
                row: row(&kept.gate)?,
                found: kept.found.clone(),
                cases: kept.cases.clone(),
            })
        })
    }
}

fn row(id: &str) -> Option<GateRow> {
    let (paper, name) = id.split_once('/')?;
    let paper = claims::all().iter().find(|known| known.name == paper)?;
    let (claim, terms) = paper.gate(name)?;
    Some(GateRow {
        paper,
        claim,
        terms,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::gate::gate;
    use crate::registry::find;

    fn outcome() -> Outcome {
        let cases = [("a", 0.1 + 0.2), ("b", f64::NAN)];
        Outcome {
            page: String::new(),
            gates: vec![gate("manyway/aggregation").cases(cases, "found <b>")],
            ours: vec![Ours::exact("balia/table-5", "ewtcp", f64::INFINITY)],
            tables: Vec::new(),
            headline: Vec::new(),
            figures: Vec::new(),
            details: Value::Null,
        }
    }

    #[test]
    fn what_is_kept_is_that_of_the_same_code_study_and_size() {
        let dir = tempfile::tempdir().unwrap();
        let [sessions, balia] = ["sessions", "balia"].map(|name| find(name).unwrap());
        let open = |code: &str| Store::open(dir.path(), code.to_owned()).unwrap();
        let store = open("one");
        assert!(store.kept(sessions, Size::Short).is_none());
        let kept = store.keep(sessions, Size::Short, &outcome()).unwrap();
        let gates: Vec<Gate> = kept.gates().collect();
        assert_eq!(gates[0].row.id(), "manyway/aggregation");
        assert_eq!(gates[0].cases[0].value, 0.1 + 0.2);
        assert!(gates[0].cases[1].value.is_nan() && kept.ours[0].mean.is_nan());
        assert!(open("one").kept(sessions, Size::Short).is_some());
        assert!(open("two").kept(sessions, Size::Short).is_none());
        assert!(store.kept(sessions, Size::Full).is_none());
        assert!(store.kept(balia, Size::Short).is_none());
        let path = store.path(sessions, Size::Short);
        fs::write(&path, &fs::read(&path).unwrap()[..100]).unwrap();
        assert!(store.kept(sessions, Size::Short).is_none(), "cut off");
    }

    #[test]
    fn a_folder_that_cant_be_written_to_is_told_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(Store::open(&file, String::new()).is_err());
    }
}

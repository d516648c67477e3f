//! What is kept of studies that have run.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use crate::claims;
use crate::extent::{Extent, Size};
use crate::failure::Failure;
use crate::gate::{Case, Gate, GateRow};
use crate::ours::Ours;
use crate::output;
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
    /// Full runs also leave all that they gave in `dir/data`.
    ///
    /// # Errors
    ///
    /// When files can't be written there.
    pub fn open(dir: &Path, code: String) -> io::Result<Self> {
        let studies = dir.join("studies");
        fs::create_dir_all(&studies)?;
        // Whether that is possible shows now, not after minutes of work.
        NamedTempFile::new_in(&studies)?;
        Ok(Store {
            dir: dir.to_owned(),
            code,
        })
    }

    /// The result of a study that has run at this size with this code.
    pub fn kept(&self, study: &dyn Study, size: Size) -> Option<Kept> {
        let text = fs::read_to_string(self.path(study, size)).ok()?;
        let kept: Kept = serde_json::from_str(&text).ok()?;
        let this = kept.code == self.code && kept.study == study.name();
        let mut files = kept.files().into_iter();
        let whole = kept.gates.iter().all(|gate| row(&gate.gate).is_some())
            && files.all(|file| self.dir.join(file).exists());
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
        if size == Size::Full {
            output::write(&self.dir.join("data"), study, Extent::of(size), outcome)?;
        }
        let mut file = NamedTempFile::new_in(self.dir.join("studies"))?;
        serde_json::to_writer_pretty(&mut file, &kept)?;
        file.write_all(b"\n")?;
        file.persist(self.path(study, size))?;
        let again = self.kept(study, size);
        again.ok_or_else(|| format!("what {} gave can't be read again", study.name()).into())
    }

    fn path(&self, study: &dyn Study, size: Size) -> PathBuf {
        self.dir.join(file(study.name(), size.name()))
    }
}

/// Where a study's result is, below the folder.
fn file(study: &str, size: &str) -> PathBuf {
    format!("studies/{study}-{size}.json").into()
}

impl Kept {
    /// The files that hold it, below the folder.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        let mut files = vec![file(&self.study, &self.size)];
        if self.size == Size::Full.name() {
            let texts = ["md", "json"].map(|ending| format!("data/{}.{ending}", self.study));
            let plots = self.figures.iter();
            let plots = plots.map(|figure| format!("data/{}.svg", figure.name));
            files.extend(texts.into_iter().chain(plots).map(PathBuf::from));
        }
        files
    }

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
        let kept = store.keep(sessions, Size::Full, &outcome()).unwrap();
        let there = |file: &PathBuf| dir.path().join(file).exists();
        assert!(kept.files().len() == 3 && kept.files().iter().all(there));
        fs::remove_file(dir.path().join("data/sessions.json")).unwrap();
        assert!(
            store.kept(sessions, Size::Full).is_none(),
            "its data is gone"
        );
    }

    #[test]
    fn a_folder_that_cant_be_written_to_is_told_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(Store::open(&file, String::new()).is_err());
    }
}

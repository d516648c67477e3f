//! The files of `--out`: each appears under its name when it is complete.

use std::fs::{self, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use manyway_scenario::Point;
use manyway_simulate::batch::{Job, Object, Report};
use manyway_simulate::packet::RunResult;
use tempfile::NamedTempFile;

use super::plots;
use super::setting;
use super::sheets::Sheets;
use crate::exit::usage;

const RESULT: &str = "result.json";

/// A folder that results go to, and the files that are being written.
#[derive(Debug)]
pub(super) struct Folder {
    dir: PathBuf,
    sheets: Sheets,
    plots: Vec<(String, NamedTempFile)>,
    /// Number of points.
    points: usize,
    /// Last, so that it goes when the files are gone.
    _created: Created,
}

impl Folder {
    /// Creates what is missing, and the files under temporary names: from here on the folder can be
    /// written to.
    ///
    /// # Errors
    ///
    /// Wrong usage if it can't be; nothing is left behind then.
    pub(super) fn create(dir: &Path, points: &[Point]) -> anyhow::Result<Self> {
        Self::open(dir, points).map_err(|error| {
            let dir = dir.display();
            usage(format!(
                "can't write into {dir}: {error}; --out DIR names another folder"
            ))
        })
    }

    fn open(dir: &Path, points: &[Point]) -> io::Result<Self> {
        let created = Created::make(dir)?;
        Ok(Self {
            dir: dir.to_owned(),
            sheets: Sheets::create(dir, points)?,
            plots: Vec::new(),
            points: points.len(),
            _created: created,
        })
    }

    /// Adds the rows of a run, and the plots if it is the first of its point.
    pub(super) fn take(&mut self, job: &Job, point: &Point, run: &RunResult) -> anyhow::Result<()> {
        let added = self.sheets.add(job, point, run);
        added.with_context(|| cant_write(&self.dir))?;
        if job.repetition > 0 {
            return Ok(());
        }
        let name = &point.experiment.name;
        let of = format!("{name}, {}seed {}", setting(point), job.seed);
        for picture in plots::draw(&point.experiment, &run.series, &of)? {
            let file = self.file(picture.svg.as_bytes());
            let file = file.with_context(|| cant_write(&self.dir))?;
            self.plots.push((self.plot_name(picture.name, job), file));
        }
        Ok(())
    }

    /// `rates.svg`, or `rates-07.svg` for the seventh of many points.
    fn plot_name(&self, kind: &str, job: &Job) -> String {
        match self.points > 1 {
            true => {
                let width = self.points.to_string().len();
                format!("{kind}-{:0width$}.svg", job.point + 1)
            }
            false => format!("{kind}.svg"),
        }
    }

    fn file(&self, contents: &[u8]) -> io::Result<NamedTempFile> {
        let mut file = temporary(&self.dir)?;
        file.write_all(contents)?;
        Ok(file)
    }

    /// Gives the files their names, with `report` as another one, and tells about them.
    pub(super) fn finish(self, report: &Report) -> anyhow::Result<String> {
        let dir = self.dir.clone();
        let plots = match self.plots.len() {
            0 => String::new(),
            1 => " and a plot".to_owned(),
            n => format!(" and {n} plots"),
        };
        self.put_in_place(report)
            .with_context(|| cant_write(&dir))?;
        let sheets = Sheets::NAMES.join(", ");
        Ok(format!("\nIn {}: {RESULT}, {sheets}{plots}", dir.display()))
    }

    fn put_in_place(self, report: &Report) -> io::Result<()> {
        let mut result = BufWriter::new(temporary(&self.dir)?);
        serde_json::to_writer(&mut result, &Object::new(report))?;
        result.write_all(b"\n")?;
        let result = result
            .into_inner()
            .map_err(io::IntoInnerError::into_error)?;
        let sheets = Sheets::NAMES
            .map(str::to_owned)
            .into_iter()
            .zip(self.sheets.into_files()?);
        let files = sheets
            .chain(self.plots)
            .chain([(RESULT.to_owned(), result)]);
        for (name, file) in files {
            file.persist(self.dir.join(name))
                .map_err(|error| error.error)?;
        }
        Ok(())
    }
}

fn cant_write(dir: &Path) -> String {
    format!("can't write the results into {}", dir.display())
}

/// A file beside its final place. What is left of one after a crash begins with `.manyway-`.
pub(super) fn temporary(dir: &Path) -> io::Result<NamedTempFile> {
    tempfile::Builder::new()
        .prefix(".manyway-")
        // As any other file: what the umask leaves of this.
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(dir)
}

/// A folder that goes away again when it is still empty at the end, if it was us who created it.
#[derive(Debug)]
pub(super) struct Created(Option<PathBuf>);

impl Created {
    pub(super) fn make(dir: &Path) -> io::Result<Self> {
        let missing = !dir.exists();
        fs::create_dir_all(dir)?;
        Ok(Self(missing.then(|| dir.to_owned())))
    }
}

impl Drop for Created {
    fn drop(&mut self) {
        if let Some(dir) = &self.0 {
            // Fails when there is something in it, as it should.
            fs::remove_dir(dir).ok();
        }
    }
}

//! The folder of `--out`: tables, plots and the result's object. Each file has a temporary name
//! until everything is complete, and an abandoned folder leaves nothing behind. This module doesn't
//! know what the rows and pictures mean.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use csv::Writer;
use manyway_os::file::system_error;
use manyway_results::files::{PLOTS, RESULT, is_part};
use manyway_results::{Sheet, Tables};
use serde::Serialize;
use tempfile::{NamedTempFile, TempPath};

use super::naming::number_of;
use crate::exit::usage;

/// A folder that results go to, and the files that are being written.
#[derive(Debug)]
pub(crate) struct Folder {
    dir: PathBuf,
    sheets: Vec<(&'static str, Writer<NamedTempFile>)>,
    plots: Vec<(String, NamedTempFile)>,
    /// What others have written.
    others: Vec<(String, TempPath)>,
    /// Last, so that it goes when the files are gone.
    _created: Created,
}

impl Folder {
    /// Creates what is missing, and the sheets with their headings: from here on the folder can be
    /// written to.
    ///
    /// # Errors
    ///
    /// Wrong usage if it can't be; nothing is left behind then.
    pub(super) fn create(dir: &Path, sheets: &[Sheet]) -> anyhow::Result<Self> {
        Self::open(dir, sheets).map_err(|error| {
            let dir = dir.display();
            usage(format!(
                "can't write into {dir}: {error}; --out DIR names another folder"
            ))
        })
    }

    fn open(dir: &Path, sheets: &[Sheet]) -> io::Result<Self> {
        let created = Created::make(dir)?;
        let mut writers = Vec::new();
        for sheet in sheets {
            let mut writer = csv::WriterBuilder::new()
                .buffer_capacity(1 << 16)
                .from_writer(temporary(dir)?);
            writer.write_record(&sheet.columns)?;
            writers.push((sheet.name, writer));
        }
        Ok(Self {
            dir: dir.to_owned(),
            sheets: writers,
            plots: Vec::new(),
            others: Vec::new(),
            _created: created,
        })
    }

    /// Adds a picture: `rates.svg`, or `rates-07.svg` for the seventh of many.
    pub(super) fn plot(
        &mut self,
        name: &str,
        index: usize,
        of: usize,
        svg: &str,
    ) -> anyhow::Result<()> {
        debug_assert!(
            PLOTS.contains(&name),
            "{name} would stay beside later results"
        );
        let name = match of {
            0 | 1 => format!("{name}.svg"),
            _ => format!("{name}-{}.svg", number_of(index, of)),
        };
        let write = || -> io::Result<NamedTempFile> {
            let mut file = temporary(&self.dir)?;
            file.write_all(svg.as_bytes())?;
            Ok(file)
        };
        let file = write().with_context(|| cant_write(&self.dir))?;
        self.plots.push((name, file));
        Ok(())
    }

    /// Adds a file that somebody has written beside its final place: `packets.csv`, or
    /// `packets-07.csv` for the seventh of many.
    pub(super) fn keep(&mut self, name: &str, index: usize, of: usize, file: TempPath) {
        let name = match name.rsplit_once('.') {
            Some((stem, extension)) if of > 1 => {
                format!("{stem}-{}.{extension}", number_of(index, of))
            }
            _ => name.to_owned(),
        };
        self.others.push((name, file));
    }

    /// Gives the files their names, with `object` as another one, and tells about them.
    pub(super) fn finish(self, object: &impl Serialize) -> anyhow::Result<String> {
        let dir = self.dir.clone();
        let plots = match self.plots.len() {
            0 => String::new(),
            1 => " and a plot".to_owned(),
            n => format!(" and {n} plots"),
        };
        let mut names = vec![RESULT];
        names.extend(self.sheets.iter().map(|(name, _)| name));
        // One by one, they are too many.
        let logs: Vec<&str> = self.others.iter().map(|(name, _)| &name[..]).collect();
        let many = format!("{} logs of packets", logs.len());
        match logs.len() {
            0..=2 => names.extend(logs),
            _ => names.push(&many),
        }
        let names = names.join(", ");
        self.put_in_place(object)
            .with_context(|| cant_write(&dir))?;
        Ok(format!("\nIn {}: {names}{plots}", dir.display()))
    }

    fn put_in_place(self, object: &impl Serialize) -> io::Result<()> {
        let again = self.dir.join(RESULT).is_file();
        let mut result = BufWriter::new(temporary(&self.dir)?);
        serde_json::to_writer(&mut result, object)?;
        result.write_all(b"\n")?;
        let result = result
            .into_inner()
            .map_err(io::IntoInnerError::into_error)?;
        let mut files = self.plots;
        for (name, sheet) in self.sheets {
            let file = sheet
                .into_inner()
                .map_err(|error| io::Error::other(error.to_string()))?;
            files.push((name.to_owned(), file));
        }
        files.push((RESULT.to_owned(), result));
        let mut written = BTreeSet::new();
        for (name, file) in self.others {
            file.persist(self.dir.join(&name))
                .map_err(|error| error.error)?;
            written.insert(name);
        }
        for (name, file) in files {
            file.persist(self.dir.join(&name))
                .map_err(|error| error.error)?;
            written.insert(name);
        }
        // Without a result, no run was here: whatever there is, is somebody else's.
        if again {
            remove_older(&self.dir, &written)?;
        }
        Ok(())
    }
}

/// Removes the tables, pictures and logs of an earlier run that the new one has no successors for.
fn remove_older(dir: &Path, written: &BTreeSet<String>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let older = |name: &str| is_part(name) && !written.contains(name);
        if name.to_str().is_some_and(older) && entry.file_type()?.is_file() {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

impl Tables for Folder {
    type Error = anyhow::Error;

    fn row<T: AsRef<[u8]>>(
        &mut self,
        sheet: &str,
        cells: impl IntoIterator<Item = T>,
    ) -> anyhow::Result<()> {
        let mut sheets = self.sheets.iter_mut();
        let (_, writer) = sheets
            .find(|(name, _)| *name == sheet)
            .with_context(|| format!("no sheet is called {sheet}"))?;
        writer
            .write_record(cells)
            .with_context(|| cant_write(&self.dir))
    }
}

fn cant_write(dir: &Path) -> String {
    format!("can't write the results into {}", dir.display())
}

/// What the name of a file that isn't complete begins with: a crash may leave such ones.
pub(super) const TEMPORARY: &str = ".manyway-";

/// A file beside its final place.
pub(super) fn temporary(dir: &Path) -> io::Result<NamedTempFile> {
    tempfile::Builder::new()
        .prefix(TEMPORARY)
        // As any other file: what the umask leaves of this.
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(dir)
        .map_err(system_error)
}

/// A folder that goes away again when it is still empty at the end, if it was us who created it.
#[derive(Debug)]
struct Created(Option<PathBuf>);

impl Created {
    fn make(dir: &Path) -> io::Result<Self> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let names = fs::read_dir(dir).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    fn results(dir: &Path, plots: usize, logs: &[&str]) {
        // Transfers are complete in the first run only.
        let sheets = ["flows.csv", "transfers.csv"].map(|name| Sheet::new(name, &["x"]));
        let mut folder = Folder::create(dir, &sheets[..plots]).unwrap();
        for n in 0..plots {
            folder.plot("rates", n, plots, "<svg/>").unwrap();
        }
        for name in logs {
            let log = temporary(dir).unwrap().into_temp_path();
            folder.keep(name, 0, 1, log);
        }
        folder.finish(&()).unwrap();
    }

    #[test]
    fn new_results_replace_all_of_older_ones_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let users = [
            "my-rates.svg",
            "packets-a.csv",
            "qlog-mine.sqlog",
            "rates-x.svg",
            "my-flows.csv",
        ];
        let logs = [
            "packets.csv",
            "packets.pcapng",
            "qlog-0-a-sender-0-path-0.sqlog",
        ];
        // Without a result, this is somebody else's.
        for name in users.iter().chain(&["rates-3.svg"]) {
            fs::write(dir.path().join(name), "").unwrap();
        }
        results(dir.path(), 2, &logs);
        let plots = ["rates-1.svg", "rates-2.svg", "rates-3.svg"];
        let others = [&plots[..], &["flows.csv", "transfers.csv", RESULT]].concat();
        let all = [&users[..], &logs, &others].concat();
        assert_eq!(names(dir.path()).len(), all.len());
        results(dir.path(), 1, &logs[..1]);
        let mut left = [
            &users[..],
            &["flows.csv", "packets.csv", "rates.svg", RESULT],
        ]
        .concat();
        left.sort_unstable();
        assert_eq!(names(dir.path()), left);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn an_error_has_no_name_that_nobody_gave() {
        let sheet = Sheet::new("flows.csv", &["x"]);
        let error = Folder::create(Path::new("/sys"), &[sheet]).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("can't write into /sys"), "{error}");
        assert!(!error.contains(TEMPORARY), "{error}");
    }
}

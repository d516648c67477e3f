//! The folder of `--out`: tables, plots and the result's object. Each file has a temporary name
//! until everything is complete, and an abandoned folder leaves nothing behind. This module doesn't
//! know what the rows and pictures mean.

use std::fs::{self, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use csv::Writer;
use manyway_results::{Sheet, Tables};
use serde::Serialize;
use tempfile::{NamedTempFile, TempPath};

use super::naming::number_of;
use crate::exit::usage;

const RESULT: &str = "result.json";

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
        for (name, file) in self.others {
            file.persist(self.dir.join(name))
                .map_err(|error| error.error)?;
        }
        for (name, file) in files {
            file.persist(self.dir.join(name))
                .map_err(|error| error.error)?;
        }
        Ok(())
    }
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

//! The paths that a user asks to send, and the files below them.

use super::super::error::TransferError;
use super::super::receive::is_temporary;
use super::super::summary::Skipped;
use manyway_transfer::failure::Side;
use manyway_transfer::{
    Cause, Entry, Failure, FailureCode, Kind, NameError, NameProblem, SafeName, Timestamp,
};
use manyway_units::printable;
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use walkdir::WalkDir;

/// Files and directories to send, each under the last component of its path.
#[derive(Clone, Debug)]
pub struct Sources(Vec<Source>);

#[derive(Clone, Debug)]
struct Source {
    name: SafeName,
    path: PathBuf,
}

impl Sources {
    /// Checks the paths: they exist, can be sent, and have names that differ. `.` and `..` go by
    /// the name of the directory they stand for. Symbolic links given here are followed.
    ///
    /// # Errors
    /// Names the path that cannot be sent, and says why.
    pub fn new<P: AsRef<Path>>(paths: impl IntoIterator<Item = P>) -> Result<Self, TransferError> {
        let mut sources = Vec::new();
        for path in paths {
            sources.push(source(path.as_ref())?);
        }
        // The manifest's order; equal names become neighbours.
        sources.sort_by(|a, b| a.name.cmp(&b.name));
        if let Some([a, b]) = sources.windows(2).find(|pair| pair[0].name == pair[1].name) {
            let reason = format_args!(
                "{} and {} would both be called `{}` at the receiver; rename one, or send them one \
                 after the other",
                a.path.display(),
                b.path.display(),
                a.name
            );
            return Err(Failure::new(FailureCode::Conflict, reason).into());
        }
        if sources.is_empty() {
            return Err(Failure::new(
                FailureCode::Other,
                "nothing to send: name a file or a directory",
            )
            .into());
        }
        Ok(Self(sources))
    }

    /// The names at the top, sorted.
    pub fn names(&self) -> impl Iterator<Item = &SafeName> {
        self.0.iter().map(|source| &source.name)
    }

    /// Everything, in the manifest's order.
    pub(super) fn list<E: From<Failure>>(
        &self,
        skipped: &mut Skipped,
        mut each: impl FnMut(Entry) -> Result<(), E>,
    ) -> Result<(), E> {
        for source in &self.0 {
            for item in WalkDir::new(&source.path).sort_by_file_name() {
                let item = item.map_err(|error| walk_failure(source, error))?;
                let name = source.name_of(item.path())?;
                let metadata = item
                    .metadata()
                    .map_err(|error| walk_failure(source, error))?;
                if metadata.is_symlink() {
                    skipped.add(&name, "a symbolic link");
                    continue;
                }
                let entry = entry_of(name, &metadata);
                if let Kind::LeftOut(cause) = entry.kind {
                    skipped.add(&entry.name, cause);
                }
                each(entry)?;
            }
        }
        Ok(())
    }

    /// Where an entry of [`Sources::list`] lies.
    pub(super) fn path_of(&self, name: &SafeName) -> PathBuf {
        let at = self
            .0
            .partition_point(|source| source.name.as_str() < name.top());
        let root = &self.0[at].path;
        match name.as_str().split_once('/') {
            Some((_, below)) => root.join(below),
            None => root.clone(),
        }
    }
}

impl Source {
    /// What the receiver may know of a path: where it is below what was given.
    fn below(&self, path: &Path) -> PathBuf {
        let below = path.strip_prefix(&self.path).unwrap_or(Path::new(""));
        Path::new(self.name.as_str()).join(below)
    }

    /// The name of something at or below this source.
    fn name_of(&self, path: &Path) -> Result<SafeName, Failure> {
        let below = path.strip_prefix(&self.path).unwrap_or(Path::new(""));
        if below.as_os_str().is_empty() {
            return Ok(self.name.clone());
        }
        let name = below
            .to_str()
            .ok_or_else(|| not_utf8(path))
            .and_then(|below| SafeName::parse(&format!("{}/{below}", self.name.as_str())));
        name.map_err(|error| unsendable(&self.below(path), &error).only_here(path.display()))
    }
}

/// A manifest's entry for what is there.
fn entry_of(name: SafeName, metadata: &Metadata) -> Entry {
    let kind = match metadata.file_type() {
        file if file.is_file() && is_temporary(name.file_name()) => {
            Kind::LeftOut(Cause::Incomplete)
        }
        file if file.is_file() => Kind::File,
        file if file.is_dir() => Kind::Directory,
        _ => Kind::LeftOut(Cause::Special),
    };
    let mut entry = Entry::new(name, kind);
    if entry.is_file() {
        entry.size = metadata.len();
    }
    entry.mode = metadata.mode() as u16 & Entry::MODE_MASK;
    entry.mtime = mtime_of(metadata);
    entry
}

pub(super) fn mtime_of(metadata: &Metadata) -> Timestamp {
    Timestamp {
        seconds: metadata.mtime(),
        nanos: u32::try_from(metadata.mtime_nsec()).unwrap_or(0),
    }
}

fn source(given: &Path) -> Result<Source, Failure> {
    let shown = given.display().to_string();
    let path = fs::canonicalize(given).map_err(|error| not_there(&shown, &error))?;
    let metadata = fs::metadata(&path).map_err(|error| not_there(&shown, &error))?;
    if !metadata.is_file() && !metadata.is_dir() {
        let reason = "cannot be sent: it is neither a file nor a directory";
        return Err(Failure::new(FailureCode::Read, reason).of(&shown));
    }
    let Some(name) = given.file_name().or_else(|| path.file_name()) else {
        let reason = "has no name of its own to send it under; name the directories inside it";
        return Err(Failure::new(FailureCode::UnsafeName, reason).of(&shown));
    };
    let name = safe(name).map_err(|error| unsendable(given, &error))?;
    Ok(Source { name, path })
}

fn safe(name: &OsStr) -> Result<SafeName, NameError> {
    SafeName::parse(name.to_str().ok_or_else(|| not_utf8(Path::new(name)))?)
}

fn not_utf8(path: &Path) -> NameError {
    NameError {
        name: printable(&path.to_string_lossy(), 80),
        problem: NameProblem::NotUtf8,
    }
}

fn unsendable(path: &Path, error: &NameError) -> Failure {
    let reason = format_args!(
        "cannot be sent: {}; rename it, or leave it out",
        error.problem
    );
    Failure::new(FailureCode::UnsafeName, reason).of(path.display().to_string())
}

fn not_there(shown: &str, error: &io::Error) -> Failure {
    let code = match error.kind() {
        io::ErrorKind::NotFound => FailureCode::Vanished,
        io::ErrorKind::PermissionDenied => FailureCode::Permission,
        _ => FailureCode::Read,
    };
    Failure::new(code, format_args!("cannot be sent: {error}")).of(shown)
}

fn walk_failure(source: &Source, error: walkdir::Error) -> Failure {
    let path = error.path().unwrap_or(&source.path).to_owned();
    let error = error
        .into_io_error()
        .unwrap_or_else(|| io::Error::other("a loop of directories"));
    let shown = source.below(&path).display().to_string();
    Failure::disk(Side::Sender, "listing", shown, &error).only_here(path.display())
}

//! The paths that a user asks to send, and the files below them.

use super::super::error::TransferError;
use super::super::receive::is_temporary;
use super::super::summary::Skipped;
use super::details::Details;
use manyway_os::file::open_without_links;
use manyway_transfer::failure::Side;
use manyway_transfer::{
    Cause, Entry, Failure, FailureCode, Filter, Hello, Kind, Manifest, NameError, NameProblem,
    Role, SafeName, Scope, Target, Timestamp,
};
use manyway_units::printable;
use nix::fcntl::AT_FDCWD;
use std::collections::{HashMap, hash_map};
use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use walkdir::{DirEntry, WalkDir};

/// Files and directories to send, each under the last component of its path, and what of them.
#[derive(Clone, Debug)]
pub struct Sources {
    /// Sorted by name. One without a name stands alone.
    given: Vec<Source>,
    pub(super) scope: Scope,
    max_size: Option<u64>,
    /// What beside the usual is told of them, if the receiver wants it.
    features: u64,
}

#[derive(Clone, Debug)]
struct Source {
    /// `None`: not the directory itself, but what is in it.
    name: Option<SafeName>,
    path: PathBuf,
    /// Device and inode, of a directory.
    directory: Option<(u64, u64)>,
}

impl Sources {
    /// Checks the paths: they exist, can be sent, and have names that differ. `.` and `..` go by
    /// the name of the directory they stand for. Symbolic links given here are followed.
    ///
    /// # Errors
    /// Names the path that cannot be sent, and says why.
    pub fn new<P: AsRef<Path>>(paths: impl IntoIterator<Item = P>) -> Result<Self, TransferError> {
        let mut given = Vec::new();
        for path in paths {
            given.push(source(path.as_ref())?);
        }
        // The manifest's order; equal names become neighbours.
        given.sort_by(|a, b| a.name.cmp(&b.name));
        let clash = given.windows(2).find(|pair| pair[0].name == pair[1].name);
        if let Some(
            [
                Source {
                    name: Some(name),
                    path,
                    ..
                },
                other,
            ],
        ) = clash
        {
            let reason = format_args!(
                "{} and {} would both be called `{name}` at the receiver; rename one, or send them \
                 one after the other",
                path.display(),
                other.path.display(),
            );
            return Err(Failure::new(FailureCode::Conflict, reason).into());
        }
        if given.is_empty() {
            return Err(Failure::new(
                FailureCode::Other,
                "nothing to send: name a file or a directory",
            )
            .into());
        }
        Ok(Self::of(given))
    }

    /// Also sends extended attributes (those whose names begin with `user.`) and ACLs, or some of
    /// them, if the receiver wants them. Only Linux has them.
    pub fn with_attributes(mut self, attributes: bool, acls: bool) -> Self {
        let wanted = [(attributes, Hello::ATTRIBUTES), (acls, Hello::ACLS)];
        for (_, feature) in wanted.into_iter().filter(|(wanted, _)| *wanted) {
            self.features |= feature;
        }
        self
    }

    /// What a sender of them says at first.
    pub fn hello(&self) -> Hello {
        Hello {
            features: self.features,
            ..Hello::new(Role::Sender)
        }
    }

    /// What is in a directory, instead of the directory itself.
    ///
    /// # Errors
    /// Names the path that is no directory, and says why.
    pub fn contents(dir: impl AsRef<Path>) -> Result<Self, TransferError> {
        let (path, metadata) = find(dir.as_ref())?;
        if !metadata.is_dir() {
            let reason = "it is not a directory: name it without the slash at its end";
            let failure = Failure::new(FailureCode::Read, reason);
            return Err(failure.of(dir.as_ref().display().to_string()).into());
        }
        let directory = identity(&metadata);
        let mut sources = Self::of(vec![Source {
            name: None,
            path,
            directory,
        }]);
        sources.scope.top = true;
        Ok(sources)
    }

    fn of(given: Vec<Source>) -> Self {
        Self {
            given,
            scope: Scope::default(),
            max_size: None,
            features: Hello::OWNERS,
        }
    }

    /// The same, without the names that the filter doesn't take.
    pub fn filter(mut self, filter: Filter) -> Self {
        self.scope.filter = filter;
        self
    }

    /// The same, without files of more bytes.
    pub fn max_size(mut self, bytes: u64) -> Self {
        self.max_size = Some(bytes);
        self
    }

    /// The same, to learn what would be sent and deleted: [`SendSummary::planned`] and
    /// [`SendSummary::deleted`].
    ///
    /// [`SendSummary::planned`]: super::super::SendSummary::planned
    /// [`SendSummary::deleted`]: super::super::SendSummary::deleted
    pub fn dry_run(mut self) -> Self {
        self.scope.dry_run = true;
        self
    }

    /// The names given, sorted; none of a directory's contents.
    pub fn names(&self) -> impl Iterator<Item = &SafeName> {
        self.given.iter().filter_map(|source| source.name.as_ref())
    }

    /// Everything, in the manifest's order.
    pub(super) fn list<E: From<Failure>>(
        &self,
        mut details: Details,
        skipped: &mut Skipped,
        mut each: impl FnMut(Entry) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut names = Names::default();
        for source in &self.given {
            let walk = WalkDir::new(&source.path).min_depth(source.name.is_none().into());
            let mut walk = walk.sort_by_file_name().into_iter();
            while let Some(item) = walk.next() {
                let item = match item {
                    Err(error) if error.depth() > 0 && is_gone(error.io_error()) => continue,
                    item => item.map_err(|error| walk_failure(source, error))?,
                };
                let is_directory = item.file_type().is_dir();
                let name = match source.name_of(item.path()) {
                    Ok(name) => name,
                    Err(failure) => {
                        skipped.add(failure.name.unwrap_or_default(), failure.reason);
                        if is_directory {
                            walk.skip_current_dir();
                        }
                        continue;
                    }
                };
                if !self.scope.filter.takes(&name, is_directory) {
                    if is_directory {
                        walk.skip_current_dir();
                    }
                    continue;
                }
                let (metadata, target) = match look(&item) {
                    Ok(found) => found,
                    Err(error) if item.depth() == 0 => {
                        return Err(list_failure(source, item.path(), &error).into());
                    }
                    Err(error) => {
                        if is_directory {
                            walk.skip_current_dir();
                        }
                        // What is gone isn't the sender's any more.
                        if !is_gone(Some(&error)) {
                            let failure = list_failure(source, item.path(), &error);
                            skipped.add(&name, failure.reason);
                            each(Entry::new(name, Kind::LeftOut(Cause::Unreadable)))?;
                        }
                        continue;
                    }
                };
                let mut entry = entry_of(name, &metadata);
                if let Some(target) = target
                    && entry.kind == Kind::LeftOut(Cause::Special)
                {
                    let target = target.to_str().and_then(Target::parse);
                    entry.kind = target.map_or(Kind::LeftOut(Cause::Target), Kind::Symlink);
                }
                // On purpose: that is nothing to report.
                if self.max_size.is_some_and(|most| entry.size > most) {
                    each(Entry::new(entry.name, Kind::LeftOut(Cause::TooLarge)))?;
                    continue;
                }
                if entry.is_file() && !names.look(&metadata, &mut entry) {
                    skipped.add(
                        &entry.name,
                        "a hard link, sent as another file: too many files",
                    );
                }
                details.add(&mut entry, &metadata, item.path(), skipped);
                if let Kind::LeftOut(cause) = entry.kind {
                    skipped.add(&entry.name, cause);
                }
                each(entry)?;
            }
            source.is_still_there()?;
        }
        Ok(())
    }

    /// Opens a file of [`Sources::list`], and never through a symbolic link: what was given has
    /// been followed, and nobody may lead the sender elsewhere since. `last` is what was opened of
    /// the same source before.
    pub(super) fn open(&self, name: &SafeName, last: &mut Opened) -> io::Result<File> {
        let is_before = |source: &Source| match &source.name {
            Some(given) => given.as_str() < name.top(),
            None => false,
        };
        let number = self.given.partition_point(is_before);
        let source = &self.given[number];
        let below = match (&source.name, name.as_str().split_once('/')) {
            (None, _) => name.as_str(),
            (Some(_), Some((_, below))) => below,
            (Some(_), None) => return open_without_links(AT_FDCWD, &source.path),
        };
        let dir = match last.0.take() {
            Some((other, dir)) if other == number => dir,
            _ => open_without_links(AT_FDCWD, &source.path)?,
        };
        let (_, dir) = last.0.insert((number, dir));
        open_without_links(dir, Path::new(below))
    }
}

/// The directory of the source from which a file was opened last.
#[derive(Debug, Default)]
pub(super) struct Opened(Option<(usize, File)>);

impl Source {
    /// What the receiver may know of a path: where it is below what was given.
    fn below(&self, path: &Path) -> PathBuf {
        let below = path.strip_prefix(&self.path).unwrap_or(Path::new(""));
        match &self.name {
            Some(name) if below.as_os_str().is_empty() => name.as_str().into(),
            Some(name) => Path::new(name.as_str()).join(below),
            None => below.to_owned(),
        }
    }

    /// Nothing of a directory that went while it was listed is in the list, which looks as if its
    /// user had removed it all.
    fn is_still_there(&self) -> Result<(), Failure> {
        let now = fs::metadata(&self.path);
        let now = now.map_err(|error| list_failure(self, &self.path, &error))?;
        if self.directory.is_some() && identity(&now) != self.directory {
            let reason = "another directory has taken its place since manyway began (was it \
                          unmounted?): see that it is there, and run the same command again";
            let shown = self.below(&self.path).display().to_string();
            let failure = Failure::new(FailureCode::Read, reason).of(shown);
            return Err(failure.only_here(self.path.display()));
        }
        Ok(())
    }

    /// The name of something at or below this source.
    fn name_of(&self, path: &Path) -> Result<SafeName, Failure> {
        let below = self.below(path);
        let name = below.to_str().ok_or_else(|| not_utf8(path));
        let name = name.and_then(SafeName::parse);
        name.map_err(|error| unsendable(&below, &error).only_here(path.display()))
    }
}

fn identity(metadata: &Metadata) -> Option<(u64, u64)> {
    metadata.is_dir().then(|| (metadata.dev(), metadata.ino()))
}

/// Files with several names of which some may still come, by device and inode.
#[derive(Default)]
struct Names {
    /// Numbers of the files, and how many names are missing.
    found: HashMap<(u64, u64), (u64, u64)>,
    /// How many there were.
    shared: u64,
}

impl Names {
    /// Makes a hard link of a file's entry if the file has been listed by another name. `false`:
    /// there are more such files than can be told apart.
    fn look(&mut self, metadata: &Metadata, entry: &mut Entry) -> bool {
        if metadata.nlink() < 2 {
            return true;
        }
        match self.found.entry((metadata.dev(), metadata.ino())) {
            hash_map::Entry::Occupied(mut found) => {
                let (number, missing) = found.get_mut();
                *entry = Entry::new(entry.name.clone(), Kind::HardLink(*number));
                *missing -= 1;
                if *missing == 0 {
                    found.remove();
                }
            }
            hash_map::Entry::Vacant(_) if self.shared == Manifest::MAX_SHARED => return false,
            hash_map::Entry::Vacant(new) => {
                new.insert((self.shared, metadata.nlink() - 1));
                entry.shared = true;
                self.shared += 1;
            }
        }
        true
    }
}

/// What there is to know of something, and where it leads if it is a link. A directory can be
/// listed: else its entry would say that it is empty.
fn look(item: &DirEntry) -> io::Result<(Metadata, Option<PathBuf>)> {
    let metadata = fs::symlink_metadata(item.path())?;
    if metadata.is_dir() {
        fs::read_dir(item.path())?;
    }
    let is_link = metadata.is_symlink();
    let target = is_link.then(|| fs::read_link(item.path())).transpose()?;
    Ok((metadata, target))
}

fn is_gone(error: Option<&io::Error>) -> bool {
    error.is_some_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// A manifest's entry for what is there.
fn entry_of(name: SafeName, metadata: &Metadata) -> Entry {
    let kind = match metadata.file_type() {
        file if file.is_dir() => Kind::Directory,
        // A receiver refuses everything if there is such a name, in whatever case.
        _ if is_temporary(&name.file_name().to_ascii_lowercase()) => {
            Kind::LeftOut(Cause::Incomplete)
        }
        file if file.is_file() => Kind::File,
        _ => Kind::LeftOut(Cause::Special),
    };
    let mut entry = Entry::new(name, kind);
    if entry.is_file() {
        entry.size = metadata.len();
        entry.holes = entry.size.saturating_sub(metadata.blocks() * 512);
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

fn find(given: &Path) -> Result<(PathBuf, Metadata), Failure> {
    let found = fs::canonicalize(given).and_then(|path| {
        let metadata = fs::metadata(&path)?;
        Ok((path, metadata))
    });
    found.map_err(|error| not_there(&given.display().to_string(), &error))
}

fn source(given: &Path) -> Result<Source, Failure> {
    let (path, metadata) = find(given)?;
    let shown = given.display().to_string();
    if !metadata.is_file() && !metadata.is_dir() {
        let reason = "cannot be sent: it is neither a file nor a directory (`send -` sends what a \
                      program writes)";
        return Err(Failure::new(FailureCode::Read, reason).of(&shown));
    }
    let Some(name) = given.file_name().or_else(|| path.file_name()) else {
        let reason = "has no name under which manyway could send it; name the directories inside \
                      it";
        return Err(Failure::new(FailureCode::UnsafeName, reason).of(&shown));
    };
    let name = safe(name).map_err(|error| unsendable(given, &error))?;
    Ok(Source {
        name: Some(name),
        path,
        directory: identity(&metadata),
    })
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
    list_failure(source, &path, &error)
}

fn list_failure(source: &Source, path: &Path, error: &io::Error) -> Failure {
    let shown = source.below(path).display().to_string();
    Failure::disk(Side::Sender, "listing", shown, error).only_here(path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Its list would be short, and the receiver would delete what isn't in it.
    #[test]
    fn a_directory_that_goes_while_it_is_listed_is_an_error() {
        let at = tempfile::tempdir().unwrap();
        let (dir, away) = (at.path().join("dir"), at.path().join("away"));
        fs::create_dir(&dir).unwrap();
        for name in ["a", "b", "c"] {
            fs::write(dir.join(name), "").unwrap();
        }
        let list = |sources: &Sources, act: &dyn Fn()| {
            let mut names = Vec::new();
            let agreed = manyway_transfer::Agreement {
                version: 0,
                features: 0,
            };
            let (details, skipped) = (Details::new(agreed), &mut Skipped::default());
            let listed: Result<(), Failure> = sources.list(details, skipped, |entry| {
                names.push(entry.name.to_string());
                if names.len() == 2 {
                    act();
                }
                Ok(())
            });
            listed
                .map(|()| names)
                .map_err(|failure| failure.to_string())
        };
        for sources in [Sources::new([&dir]), Sources::contents(&dir)] {
            let sources = sources.unwrap();
            assert!(list(&sources, &|| ()).is_ok());
            let moved = list(&sources, &|| fs::rename(&dir, &away).unwrap());
            assert!(moved.unwrap_err().contains("No such file"));
            fs::create_dir(&dir).unwrap();
            let replaced = list(&sources, &|| ());
            assert!(replaced.unwrap_err().contains("has taken its place"));
            fs::remove_dir(&dir).unwrap();
            fs::rename(&away, &dir).unwrap();
            // A file may be replaced.
            let file = Sources::new([dir.join("a")]).unwrap();
            fs::write(dir.join("new"), "").unwrap();
            fs::rename(dir.join("new"), dir.join("a")).unwrap();
            assert_eq!(list(&file, &|| ()), Ok(vec!["a".to_owned()]));
        }
    }

    #[test]
    fn files_with_several_names_are_known_within_bounds() {
        let at = tempfile::tempdir().unwrap();
        let paths = ["a", "b", "c", "d"].map(|name| at.path().join(name));
        for pair in paths.chunks(2) {
            fs::write(&pair[0], "").unwrap();
            fs::hard_link(&pair[0], &pair[1]).unwrap();
        }
        let mut names = Names {
            shared: Manifest::MAX_SHARED - 1,
            ..Names::default()
        };
        let looked = paths.map(|path| {
            let name = SafeName::parse(path.file_name().unwrap().to_str().unwrap());
            let mut entry = Entry::new(name.unwrap(), Kind::File);
            let known = names.look(&fs::metadata(&path).unwrap(), &mut entry);
            (known, entry.shared, entry.kind)
        });
        let link = Kind::HardLink(Manifest::MAX_SHARED - 1);
        let other = (false, false, Kind::File);
        let first = (true, true, Kind::File);
        assert_eq!(looked, [first, (true, false, link), other.clone(), other]);
        // All names of it have come.
        assert!(names.found.is_empty());
    }
}

//! The directories of the sockets. They are the user's alone: what is in them is his, too.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;

/// A directory can't be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DirError {
    /// Somebody else's socket could be in it.
    #[error(
        "{0} isn't a directory of yours: remove it, or set XDG_RUNTIME_DIR to a directory that is"
    )]
    Foreign(PathBuf),
    /// Others can look into it.
    #[error("other users can look into {path} (mode {mode:04o}): run chmod 700 {path}")]
    Mode {
        /// The directory.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// The system refuses.
    #[error("can't use {path}: {error}")]
    System {
        /// The directory.
        path: PathBuf,
        /// What it says.
        error: io::Error,
    },
}

/// Where sockets may be, the best place first. Programs that cron or ssh starts often have no
/// runtime directory, so readers look into all of them.
pub(crate) fn places() -> Vec<PathBuf> {
    let user = geteuid().as_raw();
    // That of another user, if `su` has kept it, is no place for our files.
    let own = |dir: &PathBuf| {
        let metadata = fs::metadata(dir);
        dir.is_absolute() && metadata.is_ok_and(|it| it.is_dir() && it.uid() == user)
    };
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let runtime = runtime.filter(own).map(|dir| dir.join("manyway"));
    let temporary = std::env::temp_dir().join(format!("manyway-{user}"));
    runtime.into_iter().chain([temporary]).collect()
}

/// Makes the directory, unless it is there.
///
/// # Errors
/// It isn't the user's alone, or can't be made.
pub(super) fn make(dir: &Path) -> Result<(), DirError> {
    match DirBuilder::new().mode(0o700).create(dir) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(system(dir, error)),
    }
    check(dir).map(drop)
}

/// Whether the directory is there.
///
/// # Errors
/// It isn't the user's alone.
pub(crate) fn check(dir: &Path) -> Result<bool, DirError> {
    // Not what a link leads to: it may lead elsewhere later.
    let metadata = match fs::symlink_metadata(dir) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(system(dir, error)),
    };
    let (path, mode) = (dir.to_owned(), metadata.mode() & 0o7777);
    if !metadata.is_dir() || metadata.uid() != geteuid().as_raw() {
        return Err(DirError::Foreign(path));
    }
    match mode & 0o077 {
        0 => Ok(true),
        _ => Err(DirError::Mode { path, mode }),
    }
}

fn system(dir: &Path, error: io::Error) -> DirError {
    DirError::System {
        path: dir.to_owned(),
        error,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn only_what_is_the_users_alone_will_do() {
        let place = tempfile::tempdir().unwrap();
        let [dir, link, file] = ["dir", "link", "file"].map(|name| place.path().join(name));
        assert!(matches!(check(&dir), Ok(false)));
        make(&dir).unwrap();
        make(&dir).unwrap();
        assert_eq!(fs::metadata(&dir).unwrap().mode() & 0o7777, 0o700);
        assert!(matches!(check(&dir), Ok(true)));

        symlink(&dir, &link).unwrap();
        fs::write(&file, "").unwrap();
        for path in [&link, &file] {
            assert!(matches!(make(path), Err(DirError::Foreign(_))), "{path:?}");
        }
        for mode in [0o750, 0o701, 0o777] {
            fs::set_permissions(&dir, fs::Permissions::from_mode(mode)).unwrap();
            let said = check(&dir).unwrap_err().to_string();
            let remedy = format!("run chmod 700 {}", dir.display());
            assert!(said.ends_with(&remedy), "{said}");
        }
        let below = place.path().join("no/dir");
        assert!(matches!(make(&below), Err(DirError::System { .. })));
    }
}

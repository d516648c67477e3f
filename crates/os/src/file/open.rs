use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat, readlinkat};
use nix::sys::stat::Mode;

/// For reading, without waiting for a pipe's other end.
const READ: OFlag = {
    // Where it isn't the default.
    #[cfg(target_os = "linux")]
    let how = OFlag::O_LARGEFILE;
    #[cfg(not(target_os = "linux"))]
    let how = OFlag::O_RDONLY;
    how.union(OFlag::O_NONBLOCK)
        .union(OFlag::O_NOFOLLOW)
        .union(OFlag::O_CLOEXEC)
};

/// A directory on the way: it needn't be readable, where the system can do without.
const THROUGH: OFlag = {
    #[cfg(target_os = "linux")]
    let how = OFlag::O_PATH;
    #[cfg(not(target_os = "linux"))]
    let how = OFlag::O_RDONLY;
    how.union(OFlag::O_DIRECTORY)
        .union(OFlag::O_NOFOLLOW)
        .union(OFlag::O_CLOEXEC)
};

/// Opens what is at `path` in a directory for reading, and never through a symbolic link: neither
/// it nor a directory on the way is one. It doesn't wait for a pipe's other end. Of an absolute
/// path, not every system minds the directories on the way.
///
/// # Errors
/// `ELOOP`: there is a symbolic link. Otherwise the system's.
pub fn open_without_links(dir: impl AsFd, path: &Path) -> io::Result<File> {
    let opened = match at_once(dir.as_fd(), path) {
        // Before Linux 5.6, and under some sandboxes.
        Err(Errno::ENOSYS | Errno::EPERM) => one_by_one(dir.as_fd(), path),
        opened => opened,
    };
    Ok(opened?.into())
}

#[cfg(target_os = "linux")]
fn at_once(dir: BorrowedFd<'_>, path: &Path) -> Result<OwnedFd, Errno> {
    use nix::fcntl::{OpenHow, ResolveFlag, openat2};
    let how = OpenHow::new()
        .flags(READ)
        .resolve(ResolveFlag::RESOLVE_NO_SYMLINKS);
    openat2(dir, path, how)
}

#[cfg(not(target_os = "linux"))]
fn at_once(_: BorrowedFd<'_>, _: &Path) -> Result<OwnedFd, Errno> {
    Err(Errno::ENOSYS)
}

fn one_by_one(dir: BorrowedFd<'_>, path: &Path) -> Result<OwnedFd, Errno> {
    // The directories at its beginning may be closed to us.
    if path.is_absolute() {
        return openat(dir, path, READ, Mode::empty());
    }
    let mut opened: Option<OwnedFd> = None;
    let mut components = path.iter().peekable();
    while let Some(name) = components.next() {
        let dir = opened.as_ref().map_or(dir, |fd| fd.as_fd());
        let how = match components.peek() {
            Some(_) => THROUGH,
            None => READ,
        };
        let next = match openat(dir, name, how, Mode::empty()) {
            // Systems say it in several ways.
            Err(_) if readlinkat(dir, name).is_ok() => Err(Errno::ELOOP),
            next => next,
        };
        opened = Some(next?);
    }
    opened.ok_or(Errno::ENOENT)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read;
    use std::os::unix::fs::symlink;

    use nix::fcntl::AT_FDCWD;

    use super::*;

    #[test]
    fn links_are_followed_nowhere() {
        let at = tempfile::tempdir().unwrap();
        let root = at.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(root.join("a/b/file"), "content").unwrap();
        symlink("a", root.join("link")).unwrap();
        symlink("b", root.join("a/c")).unwrap();
        symlink("file", root.join("a/b/other")).unwrap();
        let dir = File::open(&root).unwrap();
        let fallback = |path: &str| one_by_one(dir.as_fd(), Path::new(path)).map(File::from);
        let whole = |path: &str| open_without_links(&dir, Path::new(path));
        for path in ["a/b/file", "a/b", "a"] {
            assert!(fallback(path).is_ok() && whole(path).is_ok(), "{path}");
        }
        let mut text = String::new();
        fallback("a/b/file")
            .unwrap()
            .read_to_string(&mut text)
            .unwrap();
        assert_eq!(text, "content");
        for (path, problem) in [
            ("link/b/file", Errno::ELOOP),
            ("a/c/file", Errno::ELOOP),
            ("a/c", Errno::ELOOP),
            ("a/b/other", Errno::ELOOP),
            ("a/b/none", Errno::ENOENT),
            ("a/b/file/x", Errno::ENOTDIR),
        ] {
            assert_eq!(fallback(path).err(), Some(problem), "{path}");
            let error = whole(path).unwrap_err().raw_os_error();
            assert_eq!(error, Some(problem as i32), "{path}");
        }
        let absolute = |path: &str| open_without_links(AT_FDCWD, &root.join(path));
        assert!(absolute("a/b/file").is_ok() && absolute("a/b/other").is_err());
        assert!(!cfg!(target_os = "linux") || absolute("link/b/file").is_err());
    }

    /// Nobody may hang.
    #[test]
    fn a_pipe_is_opened_at_once() {
        let at = tempfile::tempdir().unwrap();
        nix::unistd::mkfifo(&at.path().join("pipe"), Mode::S_IRWXU).unwrap();
        let dir = File::open(at.path()).unwrap();
        assert!(open_without_links(&dir, Path::new("pipe")).is_ok());
        assert!(one_by_one(dir.as_fd(), Path::new("pipe")).is_ok());
    }
}

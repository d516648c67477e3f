use std::os::fd::BorrowedFd;

use nix::errno::Errno;
use nix::fcntl::{AtFlags, renameat};
use nix::sys::stat::fstatat;
use nix::unistd::{UnlinkatFlags, linkat, unlinkat};

/// Renames a file of a directory unless the new name exists, atomically where the file system can.
///
/// # Errors
/// `EEXIST`: something has the new name. Otherwise the system's.
pub fn rename_new(dir: BorrowedFd<'_>, from: &str, to: &str) -> Result<(), Errno> {
    match without_replacing(dir, from, to) {
        // Not every file system knows the flag.
        Err(Errno::EINVAL | Errno::ENOSYS | Errno::ENOTSUP) => by_link(dir, from, to),
        other => other,
    }
}

#[cfg(target_os = "linux")]
fn without_replacing(dir: BorrowedFd<'_>, from: &str, to: &str) -> Result<(), Errno> {
    // nix has this call for glibc alone.
    use rustix::fs::{RenameFlags, renameat_with};
    renameat_with(dir, from, dir, to, RenameFlags::NOREPLACE)
        .map_err(|error| Errno::from_raw(error.raw_os_error()))
}

#[cfg(not(target_os = "linux"))]
fn without_replacing(_: BorrowedFd<'_>, _: &str, _: &str) -> Result<(), Errno> {
    Err(Errno::ENOSYS)
}

/// The same by a hard link, or, where there are none, by looking first.
fn by_link(dir: BorrowedFd<'_>, from: &str, to: &str) -> Result<(), Errno> {
    match linkat(dir, from, dir, to, AtFlags::empty()) {
        Ok(()) => unlinkat(dir, from, UnlinkatFlags::NoRemoveDir),
        Err(Errno::EPERM | Errno::ENOTSUP | Errno::ENOSYS | Errno::EMLINK) => {
            match fstatat(dir, to, AtFlags::AT_SYMLINK_NOFOLLOW) {
                Err(Errno::ENOENT) => renameat(dir, from, dir, to),
                _ => Err(Errno::EEXIST),
            }
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn the_fallback_for_naming_does_not_replace() {
        let at = tempfile::tempdir().unwrap();
        let dir = File::open(at.path()).unwrap();
        let path = |name: &str| at.path().join(name);
        std::fs::write(path("new"), "new").unwrap();
        std::fs::write(path("old"), "old").unwrap();
        for rename in [by_link, rename_new] {
            assert_eq!(rename(dir.as_fd(), "new", "old"), Err(Errno::EEXIST));
            assert_eq!(std::fs::read(path("old")).unwrap(), b"old");
        }
        by_link(dir.as_fd(), "new", "other").unwrap();
        assert!(!path("new").exists());
        assert_eq!(std::fs::read(path("other")).unwrap(), b"new");
    }
}

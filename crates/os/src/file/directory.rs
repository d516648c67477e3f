use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;

/// Where an open directory is now; `None` where the system doesn't say.
pub fn path_of(dir: impl AsFd) -> Option<PathBuf> {
    let fd = dir.as_fd().as_raw_fd();
    std::fs::read_link(format!("/proc/self/fd/{fd}")).ok()
}

/// Is something mounted on `name` in a directory? A part of the same file system has the same
/// device (`mount --bind`): only the system knows. Says no where it can't be found out.
#[cfg(target_os = "linux")]
pub fn is_mount_point(dir: impl AsFd, name: &str) -> bool {
    use nix::errno::Errno;
    use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2};
    let how = OpenHow::new()
        .flags(OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::RESOLVE_NO_XDEV);
    // Before Linux 5.6, and under some sandboxes, nobody says.
    matches!(openat2(dir, name, how), Err(Errno::EXDEV))
}

/// Nobody says.
#[cfg(not(target_os = "linux"))]
pub fn is_mount_point(_dir: impl AsFd, _name: &str) -> bool {
    false
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn mount_points_are_seen_and_directories_have_paths() {
        let root = File::open("/").unwrap();
        assert!(is_mount_point(&root, "proc"));
        let at = tempfile::tempdir().unwrap();
        let here = at.path().canonicalize().unwrap();
        std::fs::create_dir(here.join("dir")).unwrap();
        let dir = File::open(&here).unwrap();
        assert!(!is_mount_point(&dir, "dir") && !is_mount_point(&dir, "nothing"));
        assert_eq!(path_of(&dir), Some(here));
    }
}

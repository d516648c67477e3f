//! Directories that can't be received into, or only in part.

use super::changes::SmallDisk;
use super::sync::Bound;
use super::*;
use nix::unistd::geteuid;
use tempfile::tempdir;

/// A directory that nobody may write to. For root, that is a file system, if it may mount one.
struct ReadOnly<'a> {
    at: &'a Path,
    _disk: Option<SmallDisk>,
}

impl<'a> ReadOnly<'a> {
    fn new(at: &'a Path) -> Option<Self> {
        if geteuid().is_root() {
            let disk = SmallDisk::mount(at, "size=1m,ro")?;
            return Some(Self {
                at,
                _disk: Some(disk),
            });
        }
        set_mode(at, 0o555);
        Some(Self { at, _disk: None })
    }
}

impl Drop for ReadOnly<'_> {
    fn drop(&mut self) {
        // So that it can be removed.
        let _ = fs::set_permissions(self.at, fs::Permissions::from_mode(0o755));
    }
}

#[tokio::test]
async fn what_cannot_be_written_to_is_named_and_nothing_is_left() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    fs::create_dir_all(from.path().join("top/sub")).unwrap();
    fs::write(from.path().join("top/sub/a"), "a").unwrap();
    fs::write(from.path().join("file"), "file").unwrap();
    for (path, sub, doing) in [
        ("file", "", "file: creating failed"),
        ("top", "", "top: creating the directory failed"),
        ("top", "top/sub", "top/sub/a: creating failed"),
    ] {
        let at = to.path().join(sub);
        fs::create_dir_all(&at).unwrap();
        let Some(closed) = ReadOnly::new(&at) else {
            // Root that may not mount.
            return;
        };
        let sent = from.path().join(path);
        let (sent, received) = transfer([sent], to.path(), ReceiveOptions::default()).await;
        let received = received.unwrap_err();
        assert_eq!(received.code(), Some(FailureCode::Permission));
        assert_eq!(sent.unwrap_err().code(), Some(FailureCode::Permission));
        let told = received.to_string();
        let remedy = "receive into a directory that can be written to";
        assert!(told.starts_with(doing) && told.ends_with(remedy), "{told}");
        assert_eq!(names(&at), [""; 0]);
        drop(closed);
    }
}

/// Files get their names beside where they are written, so another file system is no obstacle. Only
/// names of one file can't be on two.
#[tokio::test]
async fn a_file_system_in_the_directory_is_filled() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    fs::create_dir_all(from.path().join("top/sub")).unwrap();
    fs::write(from.path().join("top/a"), content(100_000)).unwrap();
    fs::hard_link(from.path().join("top/a"), from.path().join("top/sub/a")).unwrap();
    fs::write(from.path().join("top/sub/b"), content(200_000)).unwrap();
    let at = to.path().join("top/sub");
    fs::create_dir_all(&at).unwrap();
    let Some(_disk) = SmallDisk::mount(&at, "size=8m") else {
        // Not root.
        return;
    };
    for _ in 0..2 {
        let top = [from.path().join("top")];
        let (_, received) = transfer(top, to.path(), policy(Policy::Overwrite)).await;
        let altered = received.unwrap().altered;
        assert_eq!(altered.count, 1);
        assert!(
            altered.examples[0].starts_with("top/sub/a: a hard link"),
            "{altered:?}"
        );
        assert_eq!(names(to.path()), ["top", "top/a", "top/sub", "top/sub/b"]);
        assert_eq!(fs::read(at.join("b")).unwrap(), content(200_000));
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_file_that_is_a_mount_point_stays() {
    let (from, to, other) = (tempdir().unwrap(), tempdir().unwrap(), tempdir().unwrap());
    fs::write(from.path().join("file"), "new").unwrap();
    fs::write(to.path().join("file"), "old").unwrap();
    fs::write(other.path().join("theirs"), "theirs").unwrap();
    let theirs = other.path().join("theirs");
    let Some(mounted) = Bound::mount(&theirs, to.path().join("file")) else {
        // Not root.
        return;
    };
    let file = [from.path().join("file")];
    let (_, received) = transfer(file, to.path(), policy(Policy::Overwrite)).await;
    let told = received.unwrap_err().to_string();
    assert!(told.starts_with("file: naming failed"), "{told}");
    assert!(
        told.ends_with("something is mounted there: unmount it, or leave it out"),
        "{told}"
    );
    drop(mounted);
    assert_eq!(names(to.path()), ["file"]);
    assert_eq!(fs::read(&theirs).unwrap(), b"theirs");
    assert_eq!(fs::read(to.path().join("file")).unwrap(), b"old");
}

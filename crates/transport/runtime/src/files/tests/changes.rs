//! Files that change under the sender, and disks that fail under the receiver.

use super::disk::TestDisk;
use super::*;
use nix::errno::Errno;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use tempfile::tempdir;

/// A transfer of `top/{a, f, z}`, `f` being of 6 MB, with `act` done to `f` when the `n`-th frame
/// of kind `at` passes. Returns what both sides say; the receiver must have nothing but what was
/// complete.
async fn meddled(at: FrameKind, n: usize, act: impl Fn(&Path)) -> (TransferError, TransferError) {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    let top = from.path().join("top");
    fs::create_dir(&top).unwrap();
    for (name, len) in [("a", 10), ("f", 6_000_000), ("z", 10)] {
        fs::write(top.join(name), content(len)).unwrap();
    }
    let victim = top.join("f");
    let ((sender, link_a), (link_b, receiver)) = (pair(), pair());
    let mut seen = 0;
    let hook = |kind| {
        seen += usize::from(kind == at);
        if kind == at && seen == n {
            act(&victim);
        }
    };
    let ((), sent, received) = tokio::join!(
        carry(link_a, link_b, hook),
        send(sender, Sources::new([&top]).unwrap(), Progress::new()),
        receive(
            receiver,
            to.path(),
            ReceiveOptions::default(),
            Progress::new()
        )
    );
    let left = finals(to.path());
    assert!(left == ["top", "top/a"], "{left:?}");
    (sent.unwrap_err(), received.unwrap_err())
}

fn check(ends: (TransferError, TransferError), code: FailureCode, cause: &str) {
    let (sent, received) = ends;
    assert_eq!((sent.code(), received.code()), (Some(code), Some(code)));
    assert!(
        sent.to_string().starts_with("top/f: ") && sent.to_string().contains(cause),
        "{sent}"
    );
    assert_eq!(
        received.to_string(),
        format!("the other side gave up: {sent}")
    );
}

fn resize(path: &Path, len: u64) {
    fs::File::options()
        .write(true)
        .open(path)
        .unwrap()
        .set_len(len)
        .unwrap();
}

#[tokio::test]
async fn a_file_that_shrinks() {
    let before = meddled(FrameKind::Accept, 1, |f| resize(f, 999)).await;
    check(
        before,
        FailureCode::Changed,
        "shrank from 6000000 to 999 bytes",
    );
    let during = meddled(FrameKind::Data, 2, |f| resize(f, 999)).await;
    check(
        during,
        FailureCode::Changed,
        "shrank from 6000000 to 999 bytes",
    );
}

#[tokio::test]
async fn a_file_that_grows() {
    let before = meddled(FrameKind::Accept, 1, |f| resize(f, 7_000_000)).await;
    check(
        before,
        FailureCode::Changed,
        "grew from 6000000 to 7000000 bytes",
    );
    let during = meddled(FrameKind::Data, 2, |f| resize(f, 7_000_000)).await;
    check(
        during,
        FailureCode::Changed,
        "grew from 6000000 to 7000000 bytes",
    );
}

#[tokio::test]
async fn a_file_that_is_written_to() {
    let rewrite = |f: &Path| {
        fs::File::options()
            .write(true)
            .open(f)
            .unwrap()
            .write_all(b"other")
            .unwrap()
    };
    check(
        meddled(FrameKind::Data, 2, rewrite).await,
        FailureCode::Changed,
        "it was written to",
    );
}

#[tokio::test]
async fn a_file_that_vanishes_or_is_something_else() {
    let vanished = meddled(FrameKind::Accept, 1, |f| fs::remove_file(f).unwrap()).await;
    check(
        vanished,
        FailureCode::Vanished,
        "opening failed at the sender: No such file",
    );
    let directory = |f: &Path| {
        fs::remove_file(f).unwrap();
        fs::create_dir(f).unwrap();
    };
    check(
        meddled(FrameKind::Accept, 1, directory).await,
        FailureCode::Changed,
        "no longer a regular file",
    );
    let link = |f: &Path| {
        fs::remove_file(f).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", f).unwrap();
    };
    check(
        meddled(FrameKind::Accept, 1, link).await,
        FailureCode::Read,
        "symbolic link",
    );
    // A pipe must not hang the sender.
    let pipe = |f: &Path| {
        fs::remove_file(f).unwrap();
        nix::unistd::mkfifo(f, nix::sys::stat::Mode::S_IRWXU).unwrap();
    };
    check(
        meddled(FrameKind::Accept, 1, pipe).await,
        FailureCode::Changed,
        "no longer a regular file",
    );
}

/// A name inside a directory that the other side could not take: found while listing, said on both
/// sides.
#[tokio::test]
async fn names_found_below_that_cannot_travel() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    let top = from.path().join("top");
    fs::create_dir(&top).unwrap();
    fs::write(top.join("line\nbreak"), "").unwrap();
    let (sent, received) = transfer([&top], to.path(), ReceiveOptions::default()).await;
    let sent = sent.unwrap_err().to_string();
    assert!(
        sent.contains(
            "top/line\\nbreak: cannot be sent: it has the control character 0x0a; rename it"
        ),
        "{sent}"
    );
    // Where it is concerns only the sender.
    let here = format!(" ({})", top.join("line\\nbreak").display());
    let told = sent.strip_suffix(&here).expect(&sent);
    assert!(received.unwrap_err().to_string().ends_with(told));
    assert_eq!(names(to.path()), [""; 0]);
}

#[tokio::test]
async fn a_disk_that_fails() {
    for (errno, code, cause) in [
        (
            28,
            FailureCode::DiskFull,
            "No space left on device (os error 28); make room there",
        ),
        (122, FailureCode::DiskFull, "quota"),
        (5, FailureCode::Write, "Input/output error"),
    ] {
        let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
        for (name, len) in [("a", 1000), ("big.iso", 6_000_000), ("z", 1)] {
            fs::write(from.path().join(name), content(len)).unwrap();
        }
        let options = ReceiveOptions {
            disk: Some(TestDisk::that_fails_after(
                2_000_000,
                Errno::from_raw(errno),
            )),
            ..ReceiveOptions::default()
        };
        let paths = ["a", "big.iso", "z"].map(|name| from.path().join(name));
        let (sent, received) = transfer(&paths, to.path(), options).await;
        let (sent, received) = (sent.unwrap_err(), received.unwrap_err());
        assert_eq!((sent.code(), received.code()), (Some(code), Some(code)));
        let text = received.to_string();
        assert!(
            text.starts_with("big.iso: writing failed at the receiver: "),
            "{text}"
        );
        assert!(
            text.to_lowercase().contains(&cause.to_lowercase()),
            "{text}"
        );
        assert_eq!(sent.to_string(), format!("the other side gave up: {text}"));
        assert_eq!(finals(to.path()), ["a"]);
    }
}

/// A small file system; only where we may mount one.
pub(super) struct SmallDisk(PathBuf);

impl SmallDisk {
    pub(super) fn mount(at: &Path, size: &str) -> Option<Self> {
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", size, "manyway-test"])
            .arg(at);
        let mounted = nix::unistd::geteuid().is_root() && mount.output().ok()?.status.success();
        mounted.then(|| Self(at.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // What sweeps part files may have it open a little longer.
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

#[tokio::test]
async fn a_disk_that_is_really_full() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    let Some(disk) = SmallDisk::mount(to.path(), "size=1m") else {
        // Not root: the test above has injected the same error.
        return;
    };
    fs::write(from.path().join("big"), content(3 << 20)).unwrap();
    for (check_space, cause) in [
        (true, "there isn't enough room on the receiver's disk"),
        (false, "No space left on device"),
    ] {
        let options = ReceiveOptions {
            check_space,
            ..ReceiveOptions::default()
        };
        let (sent, received) = transfer([from.path().join("big")], to.path(), options).await;
        let (sent, received) = (sent.unwrap_err().to_string(), received.unwrap_err());
        assert_eq!(received.code(), Some(FailureCode::DiskFull));
        assert!(
            sent.contains(cause) && received.to_string().contains(cause),
            "{sent}"
        );
        assert_eq!(finals(to.path()), [""; 0]);
    }
    drop(disk);
}

/// The receiver looks at the free space again while content arrives, also where that goes into the
/// hole of a file that has its length already.
#[tokio::test]
async fn a_disk_that_others_fill_meanwhile_keeps_its_reserve() {
    let number = &blake3::hash(b"f").to_hex()[..8];
    for left in [false, true] {
        let to = tempdir().unwrap();
        let Some(disk) = SmallDisk::mount(to.path(), "size=64m") else {
            // Not root.
            return;
        };
        let dir = to.path().join("in");
        if left {
            fs::create_dir(&dir).unwrap();
            let part = dir.join(format!(".f.manyway-part-{number}"));
            fs::File::create(&part).unwrap().set_len(17 << 20).unwrap();
        }
        let (ours, theirs) = pair();
        let script = async {
            let mut sender = Puppet::greeted(ours, Role::Sender).await;
            sender.offer(vec![entry("f", Kind::File, 17 << 20)]).await;
            while sender.hear().await.unwrap() != Message::Accept {}
            // It would fit, but leave less than the hundredth that stays free.
            fs::write(to.path().join("other"), vec![1; 95 << 19]).unwrap();
            sender.data(&vec![0; 17 << 20]).await;
            sender.hear_failure().await.to_string()
        };
        let receiving = receive(theirs, &dir, ReceiveOptions::default(), Progress::new());
        let (told, received) = tokio::join!(script, receiving);
        assert_eq!(received.unwrap_err().code(), Some(FailureCode::DiskFull));
        assert!(told.starts_with("there isn't enough room"), "{told}");
        assert_eq!(finals(&dir), [""; 0]);
        drop(disk);
    }
}

/// A file of one byte takes a block.
#[tokio::test]
async fn many_small_files_leave_the_reserve() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    let Some(disk) = SmallDisk::mount(to.path(), "size=64m") else {
        // Not root.
        return;
    };
    let top = from.path().join("top");
    fs::create_dir(&top).unwrap();
    for n in 0..4110 {
        fs::write(top.join(n.to_string()), "x").unwrap();
    }
    fs::write(to.path().join("other"), vec![1; 95 << 19]).unwrap();
    let dir = to.path().join("in");
    let (_, received) = transfer([&top], &dir, ReceiveOptions::default()).await;
    let error = received.unwrap_err().to_string();
    assert!(error.starts_with("there isn't enough room"), "{error}");
    drop(disk);
}

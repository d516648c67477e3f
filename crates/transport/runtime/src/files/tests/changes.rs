//! Files that change under the sender, and disks that fail under the receiver.

use super::disk::TestDisk;
use super::limits::offer_many;
use super::resume::{checking, cut_off, file, overwriting, whole};
use super::*;
use manyway_transfer::Cause;
use nix::errno::Errno;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use tempfile::tempdir;

/// What is at the receiver of `top/f` before.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Before {
    Nothing,
    /// Another version, and one of `top/z`.
    Other,
    /// What an interrupted transfer has left.
    Part,
}

const BEFORE: [Before; 3] = [Before::Nothing, Before::Other, Before::Part];
const SIZE: usize = 6_000_000;

/// A transfer of `top/{a, f, g, z}`, `f` being of 6 MB and `g` another name of it, with `act` done
/// to `f` when the `n`-th frame of kind `at` passes. All but `f` and `g` arrives, and both sides
/// say so; why `f` doesn't is `cause`, and `told` to the receiver. The same again completes it.
async fn meddled(at: FrameKind, n: usize, act: impl Fn(&Path), cause: &str, told: Cause) {
    for before in BEFORE {
        let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
        let top = from.path().join("top");
        let mut old = content(SIZE);
        file(&from, "top/a", &content(10));
        file(&from, "top/f", &old);
        fs::hard_link(top.join("f"), top.join("g")).unwrap();
        let options = || overwriting();
        let victim = top.join("f");
        if before == Before::Part {
            cut_off(&top, to.path(), options(), 20 * GROUP).await;
        }
        file(&from, "top/z", &content(9 * GROUP as usize));
        if before == Before::Other {
            file(&to, "top/z", &content(8 * GROUP as usize));
            // Nothing of it is kept: the sender can't be far ahead of what passes.
            old.iter_mut().for_each(|byte| *byte ^= 1);
            file(&to, "top/f", &old[..5_000_000]);
        }
        let is_there = before == Before::Other;
        let there = is_there.then(|| old[..5_000_000].to_vec());

        let ((sender, link_a), (link_b, receiver)) = (pair(), pair());
        let mut seen = 0;
        let hook = |kind| {
            seen += usize::from(kind == at);
            if kind == at && seen == n {
                act(&victim);
            }
        };
        let progress = [Progress::new(), Progress::new()];
        let ((), sent, received) = tokio::join!(
            carry(link_a, link_b, hook),
            send(sender, Sources::new([&top]).unwrap(), progress[0].clone()),
            receive(receiver, to.path(), options(), progress[1].clone())
        );
        let (sent, received) = (sent.unwrap(), received.unwrap());
        let [ours, theirs] = [&sent.skipped, &received.skipped];
        assert_eq!((ours.count, theirs.count), (1, 1), "{before:?}");
        let why = &ours.examples[0];
        assert!(why.starts_with("top/f: ") && why.contains(cause), "{why}");
        assert_eq!(theirs.examples, [format!("top/f: {told}")]);
        let link = "top/g: a hard link to a file that isn't here";
        assert_eq!(
            (sent.altered.count, &*received.altered.examples),
            (1, &[link.to_owned()][..])
        );
        let arrived = 10 + 9 * GROUP;
        assert_eq!((sent.file_count, sent.bytes), (2, arrived));
        assert_eq!((received.file_count, received.bytes), (2, arrived));
        assert_eq!(sent.files, received.files);
        for progress in progress {
            assert_eq!(progress.bytes_done(), progress.bytes_total(), "{before:?}");
            assert_eq!(progress.files_done(), progress.files_total(), "{before:?}");
        }
        let z = fs::read(to.path().join("top/z")).unwrap();
        assert!(z == content(z.len()) && z.len() as u64 == 9 * GROUP);
        assert!(
            fs::read(to.path().join("top/f")).ok() == there,
            "{before:?}"
        );
        let left = names(to.path()).len() - finals(to.path()).len();
        assert!(told != Cause::Vanished || left == 0, "{before:?}");

        let _ = fs::remove_dir(&victim).or_else(|_| fs::remove_file(&victim));
        fs::rename(top.join("g"), &victim).unwrap();
        fs::write(&victim, content(SIZE)).unwrap();
        let kept = whole(&from, &to, options()).await;
        assert!(left == 0 || kept.bytes > arrived, "{before:?}: {kept:?}");
        assert_eq!(finals(to.path()), ["top", "top/a", "top/f", "top/z"]);
        assert_eq!(names(to.path()), finals(to.path()));
    }
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
    for (at, n) in [(FrameKind::Accept, 1), (FrameKind::Data, 2)] {
        let cause = "shrank from 6000000 to 999 bytes";
        meddled(at, n, |f| resize(f, 999), cause, Cause::Changed).await;
    }
}

#[tokio::test]
async fn a_file_that_grows() {
    for (at, n) in [(FrameKind::Accept, 1), (FrameKind::Data, 2)] {
        let cause = "grew from 6000000 to 7000000 bytes";
        meddled(at, n, |f| resize(f, 7_000_000), cause, Cause::Changed).await;
    }
}

#[tokio::test]
async fn a_file_that_is_written_to() {
    let rewrite = |f: &Path| {
        let mut file = fs::File::options().write(true).open(f).unwrap();
        file.write_all(b"other").unwrap();
    };
    let cause = "it was written to";
    meddled(FrameKind::Data, 2, rewrite, cause, Cause::Changed).await;
}

#[tokio::test]
async fn a_file_that_vanishes_or_is_something_else() {
    let at = FrameKind::Accept;
    let vanish = |f: &Path| fs::remove_file(f).unwrap();
    let cause = "opening failed at the sender: No such file";
    meddled(at, 1, vanish, cause, Cause::Vanished).await;
    let directory = |f: &Path| {
        fs::remove_file(f).unwrap();
        fs::create_dir(f).unwrap();
    };
    meddled(at, 1, directory, "no longer a regular file", Cause::Changed).await;
    let link = |f: &Path| {
        fs::remove_file(f).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", f).unwrap();
    };
    meddled(at, 1, link, "symbolic link", Cause::Changed).await;
    // A pipe must not hang the sender.
    let pipe = |f: &Path| {
        fs::remove_file(f).unwrap();
        nix::unistd::mkfifo(f, nix::sys::stat::Mode::S_IRWXU).unwrap();
    };
    meddled(at, 1, pipe, "no longer a regular file", Cause::Changed).await;
}

/// What the system makes up as it is read says that it has no bytes.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_file_without_its_true_size_is_not_taken_for_an_empty_one() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    file(&from, "empty", b"");
    let paths = [Path::new("/proc/cpuinfo"), &from.path().join("empty")];
    let (sent, received) = transfer(paths, to.path(), ReceiveOptions::default()).await;
    let (sent, received) = (sent.unwrap(), received.unwrap());
    let why = "cpuinfo: has more content than the 0 bytes that its file system says; send a copy \
               of it";
    assert_eq!(sent.skipped.examples, [why]);
    assert_eq!(
        received.skipped.examples,
        [format!("cpuinfo: {}", Cause::Changed)]
    );
    assert_eq!(names(to.path()), ["empty"]);
}

/// Who may write to a directory that another user sends could have them send another's files.
#[tokio::test]
async fn a_directory_that_becomes_a_link_leads_nowhere() {
    for given in ["top", "top/a"] {
        let (from, to, others) = (tempdir().unwrap(), tempdir().unwrap(), tempdir().unwrap());
        for name in ["top/a/b/f", "top/a/g"] {
            file(&from, name, b"public");
            let secret = name.replace("top/", "");
            file(&others, &secret, b"secret");
            for path in [from.path().join(name), others.path().join(secret)] {
                set_time(&path, 1_000_000_000, 0);
            }
        }
        // The way to what is given may be a link.
        let way = from.path().join("way");
        std::os::unix::fs::symlink("top", &way).unwrap();
        let given = from.path().join(given.replace("top", "way"));
        let ((sender, link_a), (link_b, receiver)) = (pair(), pair());
        let swap = |kind| {
            if kind == FrameKind::Accept {
                let dir = from.path().join("top/a");
                fs::rename(&dir, from.path().join("gone")).unwrap();
                std::os::unix::fs::symlink(others.path().join("a"), &dir).unwrap();
            }
        };
        let ((), sent, received) = tokio::join!(
            carry(link_a, link_b, swap),
            send(sender, Sources::new([&given]).unwrap(), Progress::new()),
            receive(
                receiver,
                to.path(),
                ReceiveOptions::default(),
                Progress::new()
            )
        );
        let skipped = sent.unwrap().skipped;
        assert_eq!(skipped.count, 2, "{skipped:?}");
        let why = &skipped.examples[0];
        assert!(
            why.contains("a/b/f: ") && why.contains("symbolic link"),
            "{why}"
        );
        assert_eq!(received.unwrap().skipped.count, 2);
        assert!(
            names(to.path())
                .iter()
                .all(|name| !name.ends_with(['f', 'g']))
        );
    }
}

/// The receiver may have told of less than a file's groups, and go on only when it hears more.
#[tokio::test]
async fn a_long_file_that_vanishes() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    for (name, size) in [("top/f", 5000 * GROUP), ("top/z", GROUP)] {
        for dir in [&from, &to] {
            file(dir, name, b"");
            resize(&dir.path().join(name), size);
        }
    }
    let top = from.path().join("top");
    let ((sender, link_a), (link_b, receiver)) = (pair(), pair());
    let vanish = |kind| {
        if kind == FrameKind::Accept {
            fs::remove_file(top.join("f")).unwrap();
        }
    };
    let ((), sent, received) = tokio::join!(
        carry(link_a, link_b, vanish),
        send(sender, Sources::new([&top]).unwrap(), Progress::new()),
        receive(
            receiver,
            to.path(),
            checking(Policy::Refuse),
            Progress::new()
        )
    );
    let (sent, received) = (sent.unwrap(), received.unwrap());
    assert_eq!((sent.skipped.count, received.skipped.count), (1, 1));
    assert_eq!((sent.kept.bytes, received.file_count), (GROUP, 1));
}

/// Names inside a directory that the other side could not take are left out, with what is below.
#[tokio::test]
async fn names_found_below_that_cannot_travel() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    for name in ["top/a", "top/line\nbreak", "top/back\\slash/f", "top/z"] {
        file(&from, name, b"");
    }
    let top = from.path().join("top");
    let (sent, received) = transfer([&top], to.path(), ReceiveOptions::default()).await;
    let (sent, received) = (sent.unwrap(), received.unwrap());
    assert_eq!((sent.skipped.count, received.file_count), (2, 2));
    let why = "top/line\\nbreak: cannot be sent: it has the control character 0x0a; rename it";
    let examples = &sent.skipped.examples;
    assert!(
        examples[0].starts_with("top/back\\slash: cannot be sent: "),
        "{examples:?}"
    );
    assert!(examples[1].starts_with(why), "{examples:?}");
    assert_eq!(names(to.path()), ["top", "top/a", "top/z"]);
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

/// The list of entries takes room, too, while it comes.
#[tokio::test]
async fn a_long_list_leaves_the_reserve() {
    let to = tempdir().unwrap();
    // The list is looked at when it has 16 MiB.
    let Some(disk) = SmallDisk::mount(to.path(), "size=16534k") else {
        // Not root.
        return;
    };
    let (ours, theirs) = pair();
    let script = async {
        let mut sender = Puppet::greeted(ours, Role::Sender).await;
        offer_many(&mut sender, 66_000).await;
        sender.hear_failure().await.to_string()
    };
    let receiving = receive(
        theirs,
        to.path(),
        ReceiveOptions::default(),
        Progress::new(),
    );
    let (told, received) = tokio::join!(script, receiving);
    assert_eq!(received.unwrap_err().code(), Some(FailureCode::DiskFull));
    assert!(told.starts_with("there isn't enough room"), "{told}");
    drop(disk);
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

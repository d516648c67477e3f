//! What is left out on purpose, what is deleted, and dry runs.

use super::*;
use manyway_transfer::Scope;
use nix::errno::Errno;
use std::os::unix::fs::symlink;
use tempfile::{TempDir, tempdir};

pub(super) fn deleting() -> ReceiveOptions {
    ReceiveOptions {
        policy: Policy::Overwrite,
        delete: true,
        ..ReceiveOptions::default()
    }
}

/// Makes files of some bytes, and directories (names that end with `/`).
pub(super) fn make(at: &TempDir, names: &[&str]) {
    for name in names {
        let path = at.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        match name.ends_with('/') {
            true => fs::create_dir_all(&path).unwrap(),
            false => fs::write(&path, name.repeat(10)).unwrap(),
        }
    }
}

pub(super) async fn sync(
    sources: Sources,
    to: &TempDir,
    options: ReceiveOptions,
) -> Result<(SendSummary, ReceiveSummary), TransferError> {
    let (ours, theirs) = pair();
    let sent = send(ours, sources, Progress::new());
    let received = receive(theirs, to.path(), options, Progress::new());
    let (sent, received) = tokio::join!(sent, received);
    Ok((sent?, received?))
}

pub(super) fn filter(rules: &[&str]) -> Filter {
    let mut filter = Filter::default();
    rules.iter().for_each(|rule| filter.push(rule).unwrap());
    filter
}

#[tokio::test]
async fn what_is_left_out_is_not_sent() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    make(
        &from,
        &[
            "top/a.txt",
            "top/a.o",
            "top/cache/x",
            "top/d/e.o",
            "top/d/f/",
        ],
    );
    fs::write(from.path().join("top/large"), [0; 1001]).unwrap();
    fs::write(from.path().join("top/small"), [0; 1000]).unwrap();
    fs::hard_link(
        from.path().join("top/large"),
        from.path().join("top/larger"),
    )
    .unwrap();
    let sources = Sources::new([from.path().join("top")]).unwrap();
    let sources = sources
        .filter(filter(&["- *.o", "- cache/"]))
        .max_size(1000);
    let (sent, _) = sync(sources, &to, ReceiveOptions::default()).await.unwrap();
    let expected = ["top", "top/a.txt", "top/d", "top/d/f", "top/small"];
    assert_eq!(names(to.path()), expected);
    // On purpose: nothing that its user has to hear of.
    assert_eq!(sent.skipped.count, 0);
}

#[tokio::test]
async fn the_contents_of_a_directory_stand_at_the_top() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    make(&from, &["b/c", "a"]);
    let sources = Sources::contents(from.path()).unwrap();
    assert_eq!(sources.names().count(), 0);
    sync(sources, &to, ReceiveOptions::default()).await.unwrap();
    assert_eq!(snapshot(to.path()), snapshot(from.path()));
    let error = Sources::contents(from.path().join("a")).unwrap_err();
    assert!(error.to_string().contains("not a directory"), "{error}");
}

/// A link may lead to what is beside it, if that is sent.
#[tokio::test]
async fn links_at_the_top_are_safe_if_the_top_is_sent() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    make(&from, &["a", "d/b"]);
    for (link, target) in [("link", "d/b"), ("out", "../a"), ("d/up", "../a")] {
        std::os::unix::fs::symlink(target, from.path().join(link)).unwrap();
    }
    let sources = Sources::contents(from.path()).unwrap();
    let (_, received) = sync(sources, &to, ReceiveOptions::default()).await.unwrap();
    assert_eq!(names(to.path()), ["a", "d", "d/b", "d/up", "link"]);
    assert_eq!(received.altered.count, 1);
}

/// Who opens `todo.txt` in an editor would write a file that decides which programs run.
#[tokio::test]
async fn links_to_dotfiles_at_the_top_need_consent() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    make(&from, &["d/b"]);
    for (link, target) in [
        ("todo.txt", ".bashrc"),
        ("d/key", "../.ssh/id"),
        ("d/fine", ".b"),
    ] {
        std::os::unix::fs::symlink(target, from.path().join(link)).unwrap();
    }
    let sources = || Sources::contents(from.path()).unwrap();
    let (_, received) = sync(sources(), &to, ReceiveOptions::default())
        .await
        .unwrap();
    assert_eq!(names(to.path()), ["d", "d/b", "d/fine"]);
    assert_eq!(received.altered.count, 2);
    let allowed = ReceiveOptions {
        dotfiles: Dotfiles::Allow,
        ..policy(Policy::Overwrite)
    };
    sync(sources(), &to, allowed).await.unwrap();
    assert_eq!(
        names(to.path()),
        ["d", "d/b", "d/fine", "d/key", "todo.txt"]
    );
}

/// Only with consent, only in directories that were sent, and never what the sender may have.
#[tokio::test]
async fn what_the_sender_does_not_have_goes() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    make(&from, &["top/a", "top/d/b", "top/kept.o", "top/huge"]);
    fs::write(from.path().join("top/huge"), [0; 100_000]).unwrap();
    make(
        &to,
        &[
            "beside/x",
            "file",
            "top/old",
            "top/d/old",
            "top/gone/deep/x",
            "top/gone/y",
            "top/other.o",
            "top/half/x",
            "top/half/y.o",
            "top/huge",
            "top/.hidden",
            "top/.a.manyway-part-01234567",
        ],
    );
    std::os::unix::fs::symlink(to.path().join("beside"), to.path().join("top/link")).unwrap();
    let before = snapshot(to.path());
    let sources = Sources::new([from.path().join("top")]).unwrap();
    let sources = sources.filter(filter(&["- *.o"])).max_size(50_000);

    // The receiver's user hasn't agreed.
    let kept = sync(sources.clone(), &to, policy(Policy::Overwrite)).await;
    assert_eq!(kept.unwrap().1.deleted.count, 0);
    assert!(before.keys().all(|name| to.path().join(name).exists()));

    let (sent, received) = sync(sources.clone().dry_run(), &to, deleting())
        .await
        .unwrap();
    let gone = [
        "top/d/old",
        "top/.hidden",
        "top/gone/deep/x",
        "top/gone/deep",
        "top/gone/y",
        "top/gone",
        "top/half/x",
        "top/link",
        "top/old",
    ];
    assert_eq!(sent.deleted.names, gone);
    assert_eq!(sent.deleted.count, 9);
    assert_eq!(received.deleted, sent.deleted);
    assert!(received.dry_run);
    assert!(
        before
            .keys()
            .all(|name| to.path().join(name).symlink_metadata().is_ok())
    );

    let (sent, _) = sync(sources, &to, deleting()).await.unwrap();
    assert_eq!(sent.deleted.names, gone);
    let left = [
        "beside",
        "beside/x",
        "file",
        "top",
        "top/.a.manyway-part-01234567",
        "top/a",
        "top/d",
        "top/d/b",
        "top/half",
        "top/half/y.o",
        "top/huge",
        "top/other.o",
    ];
    assert_eq!(names(to.path()), left);
}

/// At the top, only a directory's contents say what is missing, and hidden names only go where they
/// could come.
#[tokio::test]
async fn at_the_top_names_go_if_it_is_a_directory_of_the_sender() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    make(&from, &["a"]);
    make(&to, &["old", ".profile"]);
    let file = Sources::new([from.path().join("a")]).unwrap();
    sync(file, &to, deleting()).await.unwrap();
    assert_eq!(names(to.path()), [".profile", "a", "old"]);
    let all = || Sources::contents(from.path()).unwrap();
    sync(all(), &to, deleting()).await.unwrap();
    assert_eq!(names(to.path()), [".profile", "a"]);
    let options = ReceiveOptions {
        dotfiles: Dotfiles::Allow,
        ..deleting()
    };
    sync(all(), &to, options).await.unwrap();
    assert_eq!(names(to.path()), ["a"]);
}

/// Names that exist get a number then: nothing says what is missing.
#[tokio::test]
async fn nothing_goes_where_names_may_differ() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    make(&from, &["top/a"]);
    make(&to, &["top/old"]);
    let options = ReceiveOptions {
        policy: Policy::Rename,
        ..deleting()
    };
    let sources = Sources::new([from.path().join("top")]).unwrap();
    sync(sources, &to, options).await.unwrap();
    assert!(to.path().join("top/old").exists());
}

/// A transfer that fails has deleted nothing.
#[tokio::test]
async fn nothing_goes_before_all_is_there() {
    let to = tempdir().unwrap();
    make(&to, &["top/old"]);
    let (ours, theirs) = pair();
    let play = async {
        let mut sender = Puppet::greeted(ours, Role::Sender).await;
        let entries = vec![
            entry("top", Kind::Directory, 0),
            entry("top/a", Kind::File, 10),
        ];
        sender.offer(entries).await;
        // The directory is there.
        assert_eq!(sender.hear().await, Some(Message::Wants(vec![1])));
        assert_eq!(sender.hear().await, Some(Message::Accept));
        sender.data(b"short").await;
        drop(sender);
    };
    let receiving = receive(theirs, to.path(), deleting(), Progress::new());
    let ((), received) = tokio::join!(play, receiving);
    received.unwrap_err();
    assert!(to.path().join("top/old").exists());
}

/// Also a part of the same file system, and a single file; only where we may mount.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn what_is_mounted_stays() {
    let (from, to, other) = (tempdir().unwrap(), tempdir().unwrap(), tempdir().unwrap());
    make(&from, &["top/a"]);
    make(&to, &["top/gone/mounted/", "top/gone/x", "top/file"]);
    make(&other, &["precious"]);
    make(&from, &["another/f"]);
    make(&to, &["another/f/mounted/", "another/f/x"]);
    let third = Bound::mount(other.path(), to.path().join("another/f/mounted"));
    let directory = Bound::mount(other.path(), to.path().join("top/gone/mounted"));
    let file = Bound::mount(&other.path().join("precious"), to.path().join("top/file"));
    let (Some(_directory), Some(_file)) = (directory, file) else {
        // Not root.
        return;
    };
    let sources = || Sources::new([from.path().join("top")]).unwrap();
    let (sent, _) = sync(sources().dry_run(), &to, deleting()).await.unwrap();
    assert_eq!(sent.deleted.names, ["top/gone/x"]);
    let (sent, _) = sync(sources(), &to, deleting()).await.unwrap();
    assert_eq!(sent.deleted.names, ["top/gone/x"]);
    // It keeps a file from the place of the directory.
    assert!(third.is_some());
    let another = Sources::new([from.path().join("another")]).unwrap();
    let error = sync(another, &to, deleting()).await.unwrap_err();
    assert_eq!(error.code(), Some(FailureCode::Conflict));
    assert!(to.path().join("another/f/x").exists());
    assert_eq!(names(other.path()), ["precious"]);
}

/// A path that leads to a part of another directory, too.
pub(super) struct Bound(std::path::PathBuf);

impl Bound {
    pub(super) fn mount(what: &Path, at: std::path::PathBuf) -> Option<Self> {
        let mut mount = std::process::Command::new("mount");
        mount.arg("--bind").arg(what).arg(&at);
        let mounted = nix::unistd::geteuid().is_root() && mount.output().ok()?.status.success();
        mounted.then(|| Self(at))
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        let mut umount = std::process::Command::new("umount");
        // What sweeps part files may have it open a little longer.
        let _ = umount.arg("--lazy").arg(&self.0).status();
    }
}

/// More than one message holds.
#[tokio::test]
async fn many_names_go() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    make(&from, &["top/a"]);
    let gone: Vec<String> = (100..400)
        .map(|n| format!("top/{}{n}", "x".repeat(240)))
        .collect();
    make(&to, &gone.iter().map(String::as_str).collect::<Vec<_>>());
    let sources = Sources::new([from.path().join("top")]).unwrap();
    let (sent, received) = sync(sources, &to, deleting()).await.unwrap();
    assert_eq!(sent.deleted.names, gone);
    assert_eq!(received.deleted, sent.deleted);
    assert_eq!(names(to.path()), ["top", "top/a"]);
}

/// A directory that has the sender's time keeps it, and no other.
#[tokio::test]
async fn directories_keep_the_senders_time() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    make(&from, &["top/a", "top/d/b"]);
    for dir in ["top/d", "top"] {
        set_time(&from.path().join(dir), 1_000_000_000, 5);
    }
    let sources = || Sources::new([from.path().join("top")]).unwrap();
    sync(sources(), &to, deleting()).await.unwrap();
    make(&to, &["top/old", "top/d/old"]);
    set_time(&to.path().join("top"), 1_000_000_000, 5);
    set_time(&to.path().join("top/d"), 1_000_000_001, 5);
    sync(sources(), &to, deleting()).await.unwrap();
    let time = |dir: &str| fs::metadata(to.path().join(dir)).unwrap().mtime();
    assert_eq!(time("top"), 1_000_000_000);
    assert!(time("top/d") > 1_000_000_001);
    assert_eq!(names(to.path()), ["top", "top/a", "top/d", "top/d/b"]);
}

/// As owners that aren't root see them.
#[tokio::test]
async fn what_is_in_read_only_directories_changes() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    make(&from, &["top/a", "top/gone/x", "top/sub/b", "top/sub/c"]);
    let set = |at: &TempDir, names: &[&str], mode| {
        for name in names {
            let mode = fs::Permissions::from_mode(mode);
            fs::set_permissions(at.path().join(name), mode).unwrap();
        }
    };
    let mode = |name| fs::metadata(to.path().join(name)).unwrap().mode() & 0o7777;
    let options = |options| ReceiveOptions {
        disk: Some(super::disk::TestDisk::that_obeys_modes()),
        ..options
    };
    let top = || Sources::new([from.path().join("top")]).unwrap();
    set(&from, &["top/gone", "top/sub", "top"], 0o555);
    sync(top(), &to, options(deleting())).await.unwrap();
    assert_eq!((mode("top"), mode("top/sub")), (0o555, 0o555));

    set(&from, &["top", "top/gone", "top/sub"], 0o755);
    fs::remove_dir_all(from.path().join("top/gone")).unwrap();
    fs::remove_file(from.path().join("top/sub/c")).unwrap();
    fs::write(from.path().join("top/sub/b"), "changed").unwrap();
    make(&from, &["top/new/d"]);
    symlink("a", from.path().join("top/link")).unwrap();
    set(&from, &["top/sub"], 0o500);
    let with_modes = ReceiveOptions {
        keep_modes: true,
        ..deleting()
    };
    sync(top(), &to, options(with_modes)).await.unwrap();
    let there = names(&to.path().join("top"));
    assert_eq!(there, ["a", "link", "new", "new/d", "sub", "sub/b"]);
    let changed = fs::read(to.path().join("top/sub/b")).unwrap();
    assert_eq!(changed, b"changed");
    assert_eq!((mode("top"), mode("top/sub")), (0o755, 0o500));

    // One that isn't updated keeps its mode.
    set(&to, &["top/new", "top"], 0o555);
    fs::remove_dir_all(from.path().join("top")).unwrap();
    make(&from, &["top/new/e"]);
    sync(top(), &to, options(ReceiveOptions::default()))
        .await
        .unwrap();
    assert_eq!(finals(&to.path().join("top/new")), ["d", "e"]);
    assert_eq!((mode("top"), mode("top/new")), (0o555, 0o555));
    set(&to, &["top", "top/new", "top/sub"], 0o755);
    set(&from, &["top", "top/new"], 0o755);
}

#[tokio::test]
async fn what_cannot_go_says_so() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    make(&from, &["top/a"]);
    make(&to, &["top/old"]);
    let options = ReceiveOptions {
        disk: Some(disk::TestDisk::that_cannot_remove(
            Errno::EPERM,
            Errno::EPERM,
        )),
        ..deleting()
    };
    let sources = Sources::new([from.path().join("top")]).unwrap();
    let error = sync(sources, &to, options).await.unwrap_err().to_string();
    assert!(
        error.contains("top/old") && error.contains("deleting"),
        "{error}"
    );
}

/// Of two receivers that delete, or beside one that fills a directory.
#[tokio::test]
async fn what_goes_or_comes_meanwhile_is_no_failure() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    make(&from, &["top/a"]);
    make(&to, &["top/old", "top/d/"]);
    let options = ReceiveOptions {
        disk: Some(disk::TestDisk::that_cannot_remove(
            Errno::ENOTEMPTY,
            Errno::ENOENT,
        )),
        ..deleting()
    };
    let sources = Sources::new([from.path().join("top")]).unwrap();
    let (sent, _) = sync(sources, &to, options).await.unwrap();
    assert_eq!(sent.deleted.count, 0);
}

/// A sender's user who stops it may have seen what goes.
#[tokio::test]
async fn nothing_more_goes_without_the_sender() {
    let to = tempdir().unwrap();
    make(&to, &["top/1", "top/2", "top/3"]);
    let (ours, theirs) = pair();
    let (told, mut hear) = tokio::sync::mpsc::unbounded_channel();
    let play = async {
        let mut sender = Puppet::greeted(ours, Role::Sender).await;
        sender.offer(vec![entry("top", Kind::Directory, 0)]).await;
        hear.recv().await.unwrap();
    };
    let options = ReceiveOptions {
        disk: Some(disk::TestDisk::that_tells_of("remove", told, disk::PAUSE)),
        ..deleting()
    };
    let receiving = receive(theirs, to.path(), options, Progress::new());
    let ((), received) = tokio::join!(play, receiving);
    assert!(matches!(
        received.unwrap_err(),
        TransferError::Stream { .. }
    ));
    assert_eq!(names(to.path()), ["top", "top/2", "top/3"]);
}

/// What a dry run would send, and that it sends nothing.
#[tokio::test]
async fn a_dry_run_says_what_would_be_sent() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    make(
        &from,
        &["top/same", "top/new", "top/changed", "top/old/same"],
    );
    let top = from.path().join("top");
    fs::write(top.join("changed"), content(200_000)).unwrap();
    symlink("same", top.join("link")).unwrap();
    fs::hard_link(top.join("same"), top.join("twin")).unwrap();
    let sources = || Sources::new([from.path().join("top")]).unwrap();
    sync(sources(), &to, deleting()).await.unwrap();
    fs::remove_file(to.path().join("top/new")).unwrap();
    fs::write(to.path().join("top/changed"), content(100_000)).unwrap();
    symlink("new", top.join("new link")).unwrap();
    fs::hard_link(top.join("same"), top.join("twin two")).unwrap();
    fs::create_dir(top.join("new directory")).unwrap();
    fs::remove_file(to.path().join("top/link")).unwrap();
    symlink("elsewhere", to.path().join("top/link")).unwrap();
    let before = snapshot(to.path());
    // It doesn't sweep, either.
    let part = ".x.manyway-part-01234567";
    make(&to, &[part]);
    let options = ReceiveOptions {
        keep_parts: std::time::Duration::ZERO,
        ..deleting()
    };
    let (sent, received) = sync(sources().dry_run(), &to, options).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    fs::remove_file(to.path().join(part)).unwrap();
    use PlannedKind::{Directory, File, HardLink, Symlink};
    let mut planned: Vec<_> = sent.planned.iter().collect();
    planned.sort_by_key(|planned| &planned.name);
    let planned: Vec<_> = planned
        .iter()
        .map(|planned| (planned.name.as_str(), planned.kind, planned.in_part))
        .collect();
    assert_eq!(
        planned,
        [
            ("top/changed", File, true),
            ("top/link", Symlink, false),
            ("top/new", File, false),
            ("top/new directory", Directory, false),
            ("top/new link", Symlink, false),
            ("top/twin two", HardLink, false),
        ]
    );
    assert_eq!((sent.kept.files, sent.files.len()), (2, 0));
    assert!(received.dry_run);
    assert_eq!(snapshot(to.path()), before);
}

/// Who isn't asked for a dry run must not end as if it were one, and a scope comes first, once.
#[tokio::test]
async fn scopes_come_first_and_dry_runs_are_the_senders() {
    let from = tempdir().unwrap();
    make(&from, &["a"]);
    let (ours, theirs) = pair();
    let play = async {
        let mut receiver = Puppet::greeted(theirs, Role::Receiver).await;
        let mut totals = None;
        while totals.is_none() {
            if let Some(Message::Offered(offered)) = receiver.hear().await {
                totals = Some(offered);
            }
        }
        let (totals, altered) = (totals.unwrap(), 0);
        receiver.say(&Message::Done { totals, altered }).await;
        receiver.hear_failure().await
    };
    let sources = Sources::new([from.path().join("a")]).unwrap();
    let (failure, sent) = tokio::join!(play, send(ours, sources, Progress::new()));
    sent.unwrap_err();
    assert!(failure.reason.contains("unexpected Done"), "{failure}");

    let scope = || Message::Scope(Scope::default());
    let file = || Message::Entries(vec![entry("f", Kind::File, 1)]);
    for said in [[scope(), scope()], [file(), scope()]] {
        let to = tempdir().unwrap();
        let (ours, theirs) = pair();
        let play = async {
            let mut sender = Puppet::greeted(ours, Role::Sender).await;
            for message in &said {
                sender.say(message).await;
            }
            // Who has taken the scope says something of this.
            sender.say(&Message::Bye).await;
            sender.hear_failure().await
        };
        let receiving = receive(theirs, to.path(), deleting(), Progress::new());
        let (failure, received) = tokio::join!(play, receiving);
        received.unwrap_err();
        assert!(failure.reason.contains("unexpected Scope"), "{failure}");
    }
}

/// Each of two senders has files that the other doesn't have. They don't delete each other's.
#[tokio::test]
async fn two_that_delete_in_a_directory_come_one_after_the_other() {
    for contents in [true, false] {
        let (one, two, to) = (tempdir().unwrap(), tempdir().unwrap(), tempdir().unwrap());
        make(&one, &["top/a"]);
        make(&two, &["top/b"]);
        let sources = |from: &TempDir| {
            let path = from.path().join("top");
            match contents {
                true => Sources::contents(path).unwrap(),
                false => Sources::new([path]).unwrap(),
            }
        };
        let (told, mut named) = tokio::sync::mpsc::unbounded_channel();
        let first = ReceiveOptions {
            disk: Some(disk::TestDisk::that_tells_of_names(told, || {
                std::thread::sleep(disk::PAUSE);
            })),
            ..deleting()
        };
        let first = sync(sources(&one), &to, first);
        let second = async {
            // The other has its file in its place, and deletes nothing yet.
            named.recv().await.unwrap();
            sync(sources(&two), &to, deleting()).await
        };
        let (first, second) = tokio::join!(first, second);
        assert!(first.unwrap().0.deleted.names.is_empty());
        let (there, gone): (&[&str], _) = match contents {
            true => (&["b"], "a"),
            false => (&["top", "top/b"], "top/a"),
        };
        assert_eq!(second.unwrap().0.deleted.names, [gone]);
        assert_eq!(names(to.path()), there);
    }
}

/// Others have nothing to do with it.
#[tokio::test]
async fn those_that_delete_in_different_directories_do_not_wait() {
    let (one, two, to) = (tempdir().unwrap(), tempdir().unwrap(), tempdir().unwrap());
    make(&one, &["one/a"]);
    make(&two, &["two/b"]);
    let sources = |from: &TempDir, name| Sources::new([from.path().join(name)]).unwrap();
    let (told, mut named) = tokio::sync::mpsc::unbounded_channel();
    let (release, released) = std::sync::mpsc::channel();
    let first = ReceiveOptions {
        disk: Some(disk::TestDisk::that_tells_of_names(told, move || {
            let _ = released.recv_timeout(std::time::Duration::from_secs(60));
        })),
        ..deleting()
    };
    let first = sync(sources(&one, "one"), &to, first);
    let second = async {
        named.recv().await.unwrap();
        sync(sources(&two, "two"), &to, deleting()).await.unwrap();
        release.send(()).expect("the first stands still as yet");
    };
    let (first, ()) = tokio::join!(first, second);
    first.unwrap();
    assert_eq!(names(to.path()), ["one", "one/a", "two", "two/b"]);
}

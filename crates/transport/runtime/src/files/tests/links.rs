//! Symbolic links: which are taken, and how they get their names.

use super::*;
use manyway_transfer::Target;
use receive::{Disk, Os};
use std::os::unix::fs::symlink;
use tempfile::tempdir;

fn links(links: Links, with: Policy) -> ReceiveOptions {
    ReceiveOptions {
        links,
        ..policy(with)
    }
}

fn link_entry(name: &str, target: &str) -> Entry {
    entry(name, Kind::Symlink(Target::parse(target).unwrap()), 0)
}

/// Where a link points.
fn target(path: &Path) -> String {
    let target = fs::read_link(path).unwrap();
    target.to_str().unwrap().to_owned()
}

/// A directory `top` with files and links, all of which are safe.
fn tree(from: &Path) -> std::path::PathBuf {
    let top = from.join("top");
    fs::create_dir_all(top.join("a/b")).unwrap();
    fs::write(top.join("a/file"), "file").unwrap();
    symlink("a/file", top.join("to file")).unwrap();
    symlink("../../a", top.join("a/b/up")).unwrap();
    symlink("nowhere", top.join("dangling")).unwrap();
    let mtime = manyway_transfer::Timestamp {
        seconds: 1_000_000_000,
        nanos: 5,
    };
    let dir = fs::File::open(&top).unwrap();
    Os.restore_link(std::os::fd::AsFd::as_fd(&dir), "dangling", mtime)
        .unwrap();
    for dir in ["", "a", "a/b"] {
        set_time(&top.join(dir), 999_999_999, 7);
    }
    top
}

#[tokio::test]
async fn links_arrive_with_their_targets_and_times() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    let top = tree(from.path());
    for policy in [Policy::Refuse, Policy::Overwrite, Policy::Refuse] {
        let options = links(Links::Safe, policy);
        let (sent, received) = transfer([&top], to.path(), options).await;
        let (sent, received) = (sent.unwrap(), received.unwrap());
        assert_eq!(snapshot(to.path()), snapshot(from.path()));
        assert_eq!(
            (sent.symlinks, sent.file_count, sent.altered.count),
            (3, 1, 0)
        );
        assert_eq!((received.symlinks, received.altered.count), (3, 0));
    }
}

/// Nothing happens to a link that is there; another file or link is in the way, as for files.
#[tokio::test]
async fn existing_names_are_treated_as_for_files() {
    for (there, refused) in [
        ("same", false),
        ("link", true),
        ("file", true),
        ("dir", true),
    ] {
        for policy in [Policy::Refuse, Policy::Overwrite, Policy::Rename] {
            let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
            let top = from.path().join("top");
            fs::create_dir(&top).unwrap();
            symlink("a", top.join("l")).unwrap();
            fs::create_dir(to.path().join("top")).unwrap();
            let at = to.path().join("top/l");
            match there {
                "same" => symlink("a", &at).unwrap(),
                "link" => symlink("b", &at).unwrap(),
                "file" => fs::write(&at, "b").unwrap(),
                _ => fs::create_dir(&at).unwrap(),
            }
            let before = snapshot(to.path());
            let (_, received) = transfer([&top], to.path(), links(Links::Safe, policy)).await;
            match policy {
                Policy::Rename => {
                    received.unwrap();
                    assert_eq!(target(&to.path().join("top (1)/l")), "a");
                    assert_eq!(snapshot(to.path())["top/l"], before["top/l"]);
                }
                Policy::Overwrite if there != "dir" => {
                    received.unwrap();
                    assert_eq!(target(&at), "a");
                }
                _ if refused => {
                    let error = received.unwrap_err();
                    assert_eq!(error.code(), Some(FailureCode::Conflict), "{there}");
                    assert_eq!(snapshot(to.path()), before);
                }
                _ => {
                    received.unwrap();
                    assert_eq!(snapshot(to.path())["top/l"], before["top/l"]);
                }
            }
            assert_eq!(finals(to.path()), names(to.path()), "{there} {policy:?}");
        }
    }
}

/// What stands where an unsafe link would go isn't in its way.
#[tokio::test]
async fn the_receiver_decides_which_links_it_takes() {
    let from = tempdir().unwrap();
    let top = from.path().join("top");
    fs::create_dir(&top).unwrap();
    for (name, target) in [("out", "/etc/passwd"), ("up", "../x"), ("in", "x")] {
        symlink(target, top.join(name)).unwrap();
    }
    for (choice, taken) in [
        (Links::Safe, &["in"][..]),
        (Links::All, &["in", "out", "up"]),
        (Links::None, &[]),
    ] {
        let to = tempdir().unwrap();
        fs::create_dir(to.path().join("top")).unwrap();
        if choice != Links::All {
            fs::write(to.path().join("top/out"), "mine").unwrap();
        }
        let (sent, received) = transfer([&top], to.path(), links(choice, Policy::Refuse)).await;
        let (sent, received) = (sent.unwrap(), received.unwrap());
        let arrived: Vec<_> = ["in", "out", "up"]
            .into_iter()
            .filter(|name| to.path().join("top").join(name).is_symlink())
            .collect();
        assert_eq!(arrived, taken, "{choice:?}");
        let missing = 3 - taken.len();
        assert_eq!(sent.altered.count, missing as u64);
        assert_eq!(received.altered.count, missing as u64);
        assert_eq!(received.altered.examples.len(), missing);
        assert_eq!((sent.skipped.count, received.skipped.count), (0, 0));
    }
}

/// A link whose target can't travel is an entry all the same, and keeps what the receiver has.
#[tokio::test]
async fn a_target_that_cannot_travel_is_left_out() {
    use std::os::unix::ffi::OsStrExt;
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    let top = from.path().join("top");
    fs::create_dir(&top).unwrap();
    symlink(std::ffi::OsStr::from_bytes(b"caf\xe9"), top.join("l")).unwrap();
    let (sent, received) = transfer([&top], to.path(), links(Links::All, Policy::Refuse)).await;
    let sent = sent.unwrap();
    assert_eq!((sent.skipped.count, sent.altered.count), (1, 0));
    assert!(sent.skipped.examples[0].starts_with("top/l: a symbolic link whose target"));
    assert_eq!(received.unwrap().skipped, sent.skipped);
    assert_eq!(names(to.path()), ["top"]);
}

/// Whatever is left under the temporary name, and whoever left it.
#[tokio::test]
async fn what_a_killed_receiver_left_is_not_in_the_way() {
    let (from, to, elsewhere) = (tempdir().unwrap(), tempdir().unwrap(), tempdir().unwrap());
    let top = from.path().join("top");
    fs::create_dir(&top).unwrap();
    symlink("a", top.join("l")).unwrap();
    fs::create_dir(to.path().join("top")).unwrap();
    let number = &blake3::hash(b"l").to_hex()[..8];
    let left = to.path().join(format!("top/.l.manyway-part-{number}"));
    symlink(elsewhere.path(), &left).unwrap();
    let (_, received) = transfer([&top], to.path(), links(Links::Safe, Policy::Refuse)).await;
    received.unwrap();
    assert_eq!(names(to.path()), ["top", "top/l"]);
    // A file of that name is another's.
    fs::remove_file(to.path().join("top/l")).unwrap();
    fs::write(&left, "mine").unwrap();
    let (_, received) = transfer([&top], to.path(), links(Links::Safe, Policy::Refuse)).await;
    received.unwrap();
    assert_eq!(target(&to.path().join("top/l")), "a");
    assert_eq!(fs::read(&left).unwrap(), b"mine");
}

/// What a sender made by hand offers, and how the receiver ends.
async fn offered(to: &Path, entries: Vec<Entry>, content: &[u8]) -> Result<(), TransferError> {
    let (ours, theirs) = pair();
    let totals = {
        let mut totals = manyway_transfer::Totals::default();
        entries.iter().for_each(|entry| totals.add(entry));
        totals
    };
    let files = totals.files;
    let play = async {
        let mut sender = Puppet::greeted(ours, Role::Sender).await;
        sender.offer(entries).await;
        for _ in 0..files {
            if !content.is_empty() {
                sender.data(content).await;
            }
            sender.trailer(content).await;
        }
        while let Some(message) = sender.hear().await {
            if matches!(message, Message::Done { .. }) {
                sender.say(&Message::Bye).await;
            }
        }
    };
    let options = links(Links::All, Policy::Overwrite);
    let receiving = receive(theirs, to, options, Progress::new());
    let (received, ()) = tokio::join!(receiving, play);
    received.map(|_| ())
}

/// A link to a place, and then a file in that place: within a transfer, and over two.
#[tokio::test]
async fn nothing_is_received_through_a_link() {
    let (to, outside) = (tempdir().unwrap(), tempdir().unwrap());
    let place = outside.path().to_str().unwrap();
    let file = || entry("d/f", Kind::File, 4);
    let error = offered(to.path(), vec![link_entry("d", place), file()], b"evil").await;
    assert_eq!(error.unwrap_err().code(), Some(FailureCode::Protocol));
    assert!(names(to.path()).is_empty());

    offered(to.path(), vec![link_entry("d", place)], b"")
        .await
        .unwrap();
    assert_eq!(target(&to.path().join("d")), place);
    let entries = vec![entry("d", Kind::Directory, 0), file()];
    // The directory replaces the link.
    offered(to.path(), entries, b"evil").await.unwrap();
    assert_eq!(names(to.path()), ["d", "d/f"]);
    assert!(!to.path().join("d").is_symlink() && names(outside.path()).is_empty());

    // A file replaces the link, not what it leads to.
    fs::write(outside.path().join("mine"), "mine").unwrap();
    let mine = outside.path().join("mine");
    offered(
        to.path(),
        vec![link_entry("f", mine.to_str().unwrap())],
        b"",
    )
    .await
    .unwrap();
    offered(to.path(), vec![entry("f", Kind::File, 4)], b"evil")
        .await
        .unwrap();
    assert_eq!(fs::read(&mine).unwrap(), b"mine");
    assert_eq!(fs::read(to.path().join("f")).unwrap(), b"evil");
}

/// It would be a word on another file.
#[tokio::test]
async fn no_link_has_the_name_of_an_incomplete_file() {
    let to = tempdir().unwrap();
    let part = link_entry("d/.a.manyway-part-01234567", "a");
    let entries = vec![entry("d", Kind::Directory, 0), part];
    let error = offered(to.path(), entries, b"").await.unwrap_err();
    assert_eq!(error.code(), Some(FailureCode::Refused));
    assert!(names(to.path()).is_empty());
}

/// A directory `top` with a file of three names, and one beside it.
fn with_hard_links(from: &Path) -> std::path::PathBuf {
    let top = from.join("top");
    fs::create_dir_all(top.join("a/b")).unwrap();
    fs::create_dir_all(top.join("c")).unwrap();
    fs::write(top.join("a/b/one"), content(100_000)).unwrap();
    for other in ["a/two", "c/three"] {
        fs::hard_link(top.join("a/b/one"), top.join(other)).unwrap();
    }
    fs::write(top.join("c/else"), "else").unwrap();
    top
}

/// The three names are of one file.
fn are_one(top: &Path) {
    let inode = |name: &str| fs::metadata(top.join(name)).unwrap().ino();
    let [one, two, three] = ["a/b/one", "a/two", "c/three"].map(inode);
    assert_eq!((one, one), (two, three));
    assert_eq!(fs::metadata(top.join("a/two")).unwrap().nlink(), 3);
    assert_eq!(fs::read(top.join("c/three")).unwrap(), content(100_000));
}

#[tokio::test]
async fn names_of_one_file_are_names_of_one_file() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    let top = with_hard_links(from.path());
    let arrived = to.path().join("top");
    let again = async |policy, sends| {
        let (sent, received) = transfer([&top], to.path(), links(Links::Safe, policy)).await;
        let (sent, received) = (sent.unwrap(), received.unwrap());
        assert_eq!(
            (sent.file_count, sent.hard_links, received.hard_links),
            (2, 2, 2)
        );
        assert_eq!((sent.files.len(), received.altered.count), (sends, 0));
    };
    again(Policy::Refuse, 2).await;
    are_one(&arrived);
    assert_eq!(snapshot(to.path()), snapshot(from.path()));
    // All of it is there.
    again(Policy::Refuse, 0).await;
    again(Policy::Overwrite, 0).await;
    are_one(&arrived);
    // One name is missing, another is of something else.
    fs::remove_file(arrived.join("a/two")).unwrap();
    again(Policy::Refuse, 0).await;
    are_one(&arrived);
    fs::remove_file(arrived.join("c/three")).unwrap();
    fs::write(arrived.join("c/three"), "another").unwrap();
    again(Policy::Overwrite, 0).await;
    are_one(&arrived);
    // The file is another; its further names go with it.
    fs::write(top.join("a/two"), content(100_001)).unwrap();
    fs::write(top.join("a/two"), content(100_000)).unwrap();
    set_time(&top.join("a/two"), 5, 5);
    fs::write(arrived.join("a/b/one"), "old").unwrap();
    again(Policy::Overwrite, 1).await;
    are_one(&arrived);
    again(Policy::Rename, 2).await;
    are_one(&to.path().join("top (1)"));
    are_one(&arrived);
    assert_eq!(finals(to.path()), names(to.path()));
}

/// Under refuse, another file by the name of a link is in the way.
#[tokio::test]
async fn a_file_in_the_place_of_a_hard_link_is_a_conflict() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    let top = with_hard_links(from.path());
    fs::create_dir_all(to.path().join("top/c")).unwrap();
    fs::write(to.path().join("top/c/three"), "mine").unwrap();
    let (_, received) = transfer([&top], to.path(), links(Links::Safe, Policy::Refuse)).await;
    assert_eq!(received.unwrap_err().code(), Some(FailureCode::Conflict));
    assert_eq!(names(to.path()), ["top", "top/c", "top/c/three"]);
}

/// The name of a file alone, at the top, too.
#[tokio::test]
async fn the_file_of_a_link_may_have_another_name_here() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    let paths = ["x", "y"].map(|name| from.path().join(name));
    fs::write(&paths[0], "x").unwrap();
    fs::hard_link(&paths[0], &paths[1]).unwrap();
    fs::write(to.path().join("x"), "mine").unwrap();
    let (_, received) = transfer(&paths, to.path(), links(Links::Safe, Policy::Rename)).await;
    received.unwrap();
    let inode = |name: &str| fs::metadata(to.path().join(name)).unwrap().ino();
    assert_eq!(inode("x (1)"), inode("y"));
    assert_ne!(inode("x"), inode("y"));
}

/// Where there are no hard links, the copy lacks a name, and both sides say so.
#[tokio::test]
async fn a_disk_without_hard_links_is_no_reason_to_fail() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    let top = with_hard_links(from.path());
    let options = ReceiveOptions {
        disk: Some(super::disk::TestDisk::that_cannot_link()),
        ..policy(Policy::Refuse)
    };
    let (sent, received) = transfer([&top], to.path(), options).await;
    assert_eq!(sent.unwrap().altered.count, 2);
    let altered = received.unwrap().altered;
    assert_eq!(altered.count, 2);
    assert!(
        altered.examples[0].starts_with("top/a/two: a hard link"),
        "{altered:?}"
    );
    let all = [
        "top",
        "top/a",
        "top/a/b",
        "top/a/b/one",
        "top/c",
        "top/c/else",
    ];
    assert_eq!(names(to.path()), all);
}

/// Another process puts something else where the file was noted: that gets no other name.
#[tokio::test]
async fn a_file_that_is_replaced_meanwhile_is_not_linked_to() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    let top = with_hard_links(from.path());
    let one = to.path().join("top/a/b/one");
    let options = ReceiveOptions {
        disk: Some(super::disk::TestDisk::that_replaces_before_it_links(one)),
        ..policy(Policy::Refuse)
    };
    let (_, received) = transfer([&top], to.path(), options).await;
    assert_eq!(received.unwrap().altered.count, 2);
    let all = [
        "top",
        "top/a",
        "top/a/b",
        "top/a/b/one",
        "top/c",
        "top/c/else",
    ];
    assert_eq!(names(to.path()), all);
}

/// A hard link leads to a file of the same transfer, or nowhere.
#[tokio::test]
async fn a_link_to_what_was_not_offered_ends_the_transfer() {
    let to = tempdir().unwrap();
    fs::write(to.path().join("mine"), "mine").unwrap();
    let alone = vec![entry("a", Kind::HardLink(0), 0)];
    let error = offered(to.path(), alone, b"").await.unwrap_err();
    assert_eq!(error.code(), Some(FailureCode::Protocol));
    assert_eq!(names(to.path()), ["mine"]);
}

/// What is there gets modes and times if they are asked for, and only then.
#[tokio::test]
async fn modes_and_times_are_brought_up_to_date() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    let top = with_hard_links(from.path());
    let arrived = to.path().join("top");
    transfer([&top], to.path(), policy(Policy::Refuse))
        .await
        .1
        .unwrap();
    let before = snapshot(to.path());
    set_mode(&top.join("c/else"), 0o604);
    set_mode(&top.join("a/two"), 0o640);
    set_mode(&top.join("a"), 0o701);
    for dir in ["", "a"] {
        set_time(&top.join(dir), 77, 7);
    }
    for keep_modes in [false, true] {
        for with in [Policy::Refuse, Policy::Overwrite] {
            let options = ReceiveOptions {
                keep_modes,
                ..policy(with)
            };
            let (sent, received) = transfer([&top], to.path(), options).await;
            assert_eq!(received.unwrap().altered.count, 0);
            assert!(sent.unwrap().files.is_empty());
            match keep_modes && with == Policy::Overwrite {
                true => assert_eq!(snapshot(to.path()), snapshot(from.path())),
                false => assert_eq!(snapshot(to.path()), before),
            }
        }
    }
    are_one(&arrived);
    // Another name of a file, of which the sender knows nothing, keeps its mode.
    let (other, file) = (to.path().join("other"), arrived.join("c/else"));
    fs::hard_link(&file, &other).unwrap();
    set_mode(&top.join("c/else"), 0o777);
    let options = ReceiveOptions {
        keep_modes: true,
        ..policy(Policy::Overwrite)
    };
    let (_, received) = transfer([&top], to.path(), options).await;
    assert_eq!(received.unwrap().altered.count, 1);
    assert_eq!(fs::metadata(&other).unwrap().mode() & 0o777, 0o604);
}

/// Two receivers that make a link of the same name use the same temporary one.
#[tokio::test]
async fn a_link_that_two_make_is_one_of_theirs() {
    let (one, two, to) = (tempdir().unwrap(), tempdir().unwrap(), tempdir().unwrap());
    for (from, target) in [(&one, "a"), (&two, "b")] {
        fs::create_dir(from.path().join("top")).unwrap();
        symlink(target, from.path().join("top/link")).unwrap();
    }
    let (told, mut made) = tokio::sync::mpsc::unbounded_channel();
    let options = ReceiveOptions {
        disk: Some(disk::TestDisk::that_tells_of(
            "restore link",
            told,
            disk::PAUSE / 4,
        )),
        ..policy(Policy::Overwrite)
    };
    let first = transfer([one.path().join("top")], to.path(), options);
    let second = async {
        made.recv().await.unwrap();
        let options = policy(Policy::Overwrite);
        transfer([two.path().join("top")], to.path(), options).await
    };
    let (first, second) = tokio::join!(first, second);
    first.1.unwrap();
    second.1.unwrap();
    assert_eq!(target(&to.path().join("top/link")), "b");
    assert_eq!(names(to.path()), ["top", "top/link"]);
}

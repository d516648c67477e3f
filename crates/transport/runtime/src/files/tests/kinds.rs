//! Names that are of another kind at the receiver.

use super::sync::{deleting, filter, make, sync};
use super::*;
use manyway_transfer::GROUP;
use std::os::unix::fs::symlink;
use tempfile::{TempDir, tempdir};

/// Directories that are files or links at the sender, and the other way round.
fn other_kinds() -> (TempDir, TempDir, TempDir) {
    let (from, to, outside) = (tempdir().unwrap(), tempdir().unwrap(), tempdir().unwrap());
    make(&from, &["top/file", "top/dir/x", "top/led/y"]);
    symlink("file", from.path().join("top/link")).unwrap();
    let twin = from.path().join("top/twin");
    fs::hard_link(from.path().join("top/file"), twin).unwrap();
    make(
        &to,
        &[
            "top/file/a",
            "top/file/b/c",
            "top/link/d",
            "top/twin/",
            "top/dir",
        ],
    );
    make(&outside, &["precious"]);
    symlink(outside.path(), to.path().join("top/file/out")).unwrap();
    symlink(outside.path(), to.path().join("top/led")).unwrap();
    (from, to, outside)
}

#[tokio::test]
async fn what_is_another_kind_is_replaced() {
    let (from, to, outside) = other_kinds();
    let before = snapshot(to.path());
    let sources = || Sources::new([from.path().join("top")]).unwrap();
    let refused = sync(sources(), &to, policy(Policy::Overwrite)).await;
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("and 2 more"), "{refused}");
    assert_eq!(snapshot(to.path()), before);

    let (sent, received) = sync(sources().dry_run(), &to, deleting()).await.unwrap();
    let mut gone = sent.deleted.names.clone();
    assert_eq!(received.deleted, sent.deleted);
    assert_eq!(snapshot(to.path()), before);
    let planned = sent.planned.iter().map(|planned| planned.name.as_str());
    let mut planned: Vec<_> = planned.collect();
    planned.sort_unstable();
    let new = [
        "top/dir",
        "top/dir/x",
        "top/file",
        "top/led",
        "top/led/y",
        "top/link",
        "top/twin",
    ];
    assert_eq!(planned, new);

    let (sent, received) = sync(sources(), &to, deleting()).await.unwrap();
    assert_eq!(sent.deleted, received.deleted);
    let mut went = sent.deleted.names.clone();
    let inside = |name: &str| went.iter().position(|other| other == name).unwrap();
    assert!(inside("top/file/b/c") < inside("top/file/b"));
    assert!(inside("top/file/b") < inside("top/file"));
    gone.sort_unstable();
    went.sort_unstable();
    let all = [
        "top/file",
        "top/file/a",
        "top/file/b",
        "top/file/b/c",
        "top/file/out",
        "top/link",
        "top/link/d",
        "top/twin",
    ];
    assert_eq!(
        (&gone[..], &went[..]),
        (&all.map(String::from)[..], &gone[..])
    );
    let (there, here) = (names(to.path()), names(from.path()));
    assert_eq!(there, here);
    let top = to.path().join("top");
    assert!(top.join("link").is_symlink() && !top.join("led").is_symlink());
    let inode = |name: &str| fs::metadata(top.join(name)).unwrap().ino();
    assert_eq!(inode("file"), inode("twin"));
    assert_eq!(names(outside.path()), ["precious"]);
}

/// It is a conflict before anything comes, and a directory's other content stays, too.
#[tokio::test]
async fn a_directory_stays_with_what_deletion_keeps_in_it() {
    let ask = ReceiveOptions {
        dotfiles: Dotfiles::Ask(std::sync::Arc::new(|_, _| true)),
        ..deleting()
    };
    let allow = ReceiveOptions {
        dotfiles: Dotfiles::Allow,
        ..deleting()
    };
    for (new, old, contents, options, goes) in [
        (
            "top/f",
            &["top/f/a", "top/f/b/x.o"][..],
            false,
            deleting(),
            false,
        ),
        // The rule is for directories only.
        ("top/cache", &["top/cache/a"], false, deleting(), false),
        ("f", &["f/a"], false, deleting(), false),
        ("f", &["f/a"], true, deleting(), true),
        (".f", &[".f/a"], true, ask, false),
        (".f", &[".f/a"], true, allow, true),
    ] {
        let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
        make(&from, &[new, "g"]);
        make(&to, old);
        let first = new.split('/').next().unwrap();
        let sources = match contents {
            true => Sources::contents(from.path()).unwrap(),
            false => Sources::new([from.path().join(first)]).unwrap(),
        };
        let sources = sources.filter(filter(&["- *.o", "- cache/"]));
        let before = snapshot(to.path());
        let dry = sync(sources.clone().dry_run(), &to, options.clone()).await;
        assert_eq!(
            (dry.is_ok(), snapshot(to.path())),
            (goes, before.clone()),
            "{old:?}"
        );
        match sync(sources, &to, options).await {
            Ok(_) => assert!(goes && to.path().join(new).is_file(), "{old:?}"),
            Err(error) => {
                let error = error.to_string();
                let told = format!("{new}: at the receiver `--delete` keeps the directory");
                assert!(!goes && error.contains(&told), "{error}");
                assert_eq!(snapshot(to.path()), before);
            }
        }
    }
}

/// Nobody can go on with them there; but somebody may be writing one.
#[tokio::test]
async fn incomplete_files_go_with_their_directory() {
    for written in [false, true] {
        let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
        make(&from, &["top/f"]);
        let parts = [
            "top/f/d/.x.manyway-part-01234567",
            "top/gone/.y.manyway-part-01234567",
        ];
        make(&to, &parts);
        let held = parts.map(|part| fs::File::open(to.path().join(part)).unwrap());
        if written {
            held.iter().for_each(|file| file.try_lock().unwrap());
        }
        let before = snapshot(to.path());
        let sources = || Sources::new([from.path().join("top")]).unwrap();
        let dry = sync(sources().dry_run(), &to, deleting()).await;
        assert_eq!(snapshot(to.path()), before);
        let synced = sync(sources(), &to, deleting()).await;
        for result in [dry, synced] {
            match result {
                Ok((sent, _)) => {
                    assert!(!written);
                    // The user doesn't know them.
                    assert_eq!(sent.deleted.names, ["top/f/d", "top/f", "top/gone"]);
                }
                Err(error) => assert!(written && error.to_string().contains("keeps the directory")),
            }
        }
        match written {
            true => assert_eq!(snapshot(to.path()), before),
            false => assert_eq!(names(to.path()), ["top", "top/f"]),
        }
    }
}

/// Deletion alone replaces nothing: names that exist are refused.
#[tokio::test]
async fn without_overwriting_a_directory_stays() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    make(&from, &["top/f"]);
    make(&to, &["top/f/a"]);
    let options = ReceiveOptions {
        policy: Policy::Refuse,
        ..deleting()
    };
    let sources = Sources::new([from.path().join("top")]).unwrap();
    let error = sync(sources, &to, options.clone()).await.unwrap_err();
    let error = error.to_string();
    assert!(
        error.contains("top/f") && error.contains("--delete"),
        "{error}"
    );
    assert!(to.path().join("top/f/a").is_file());
    // At the top, `--delete` doesn't help.
    make(&from, &["g"]);
    make(&to, &["g/a"]);
    let sources = Sources::new([from.path().join("g")]).unwrap();
    let error = sync(sources, &to, options).await.unwrap_err();
    let error = error.to_string();
    assert!(
        error.contains("move it away") && !error.contains("--delete"),
        "{error}"
    );
}

/// Where `A` and `a` are one to the disk, it could be a file of this transfer.
#[tokio::test]
async fn a_file_with_two_names_makes_no_way_for_a_directory() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    make(&from, &["top/f/a"]);
    make(&to, &["top/f"]);
    let file = to.path().join("top/f");
    fs::hard_link(&file, to.path().join("other")).unwrap();
    let sources = || Sources::new([from.path().join("top")]).unwrap();
    let error = sync(sources(), &to, deleting()).await.unwrap_err();
    let error = error.to_string();
    let told = "top/f: at the receiver that name is a file with another name (a hard link)";
    assert!(error.contains(told), "{error}");
    // Advice that has been followed is none.
    assert!(!error.contains("--overwrite"), "{error}");
    assert!(file.is_file());
    fs::remove_file(to.path().join("other")).unwrap();
    sync(sources(), &to, deleting()).await.unwrap();
    assert!(file.join("a").is_file());
}

/// A name that no sender has stays, and is seen before anything goes.
#[tokio::test]
async fn a_directory_with_a_name_that_is_not_utf8_stays_whole() {
    use std::os::unix::ffi::OsStrExt;
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    make(&from, &["top/f"]);
    make(&to, &["top/f/a"]);
    let strange = to
        .path()
        .join("top/f")
        .join(std::ffi::OsStr::from_bytes(b"\xff"));
    if fs::write(&strange, "x").is_err() {
        return;
    }
    let sources = Sources::new([from.path().join("top")]).unwrap();
    let error = sync(sources, &to, deleting()).await.unwrap_err();
    assert!(
        error.to_string().contains("`--delete` keeps the directory"),
        "{error}"
    );
    assert!(to.path().join("top/f/a").is_file() && strange.is_file());
}

/// A directory that came, or got something that stays, while the file was on its way.
#[tokio::test]
async fn a_directory_goes_only_as_it_was_and_when_the_file_is_there() {
    for (old, comes) in [
        (&["top/f/old"][..], None),
        (&["top/f/old"], Some("top/f/.x.manyway-part-01234567")),
        (&["top/"], Some("top/f/new")),
    ] {
        let to = tempdir().unwrap();
        make(&to, old);
        let (ours, theirs) = pair();
        let play = async {
            let mut sender = Puppet::greeted(ours, Role::Sender).await;
            let entries = vec![
                entry("top", Kind::Directory, 0),
                entry("top/f", Kind::File, 1),
            ];
            sender.offer(entries).await;
            while sender.hear().await != Some(Message::Accept) {}
            make(&to, comes.as_slice());
            let Some(new) = comes else {
                // Its end says that this isn't all.
                return;
            };
            let written = fs::File::open(to.path().join(new)).unwrap();
            written.try_lock().unwrap();
            sender.data(b"x").await;
            sender.trailer(b"x").await;
            while !matches!(sender.hear().await, None | Some(Message::Failure(_))) {}
        };
        let receiving = receive(theirs, to.path(), deleting(), Progress::new());
        let ((), received) = tokio::join!(play, receiving);
        let error = received.unwrap_err();
        let code = error.code();
        assert_eq!(code, comes.map(|_| FailureCode::Conflict), "{comes:?}");
        // Advice that has been followed is none.
        let keeps = error.to_string().contains("`--delete` keeps the directory");
        assert_eq!(keeps, comes == Some("top/f/.x.manyway-part-01234567"));
        let there = comes.unwrap_or("top/f/old");
        assert!(to.path().join(there).exists(), "{there}");
    }
}

/// What the sender hasn't finished, it may have thought better of.
#[tokio::test]
async fn no_directory_goes_once_the_transfer_has_failed() {
    let to = tempdir().unwrap();
    make(&to, &["top/f/old"]);
    // It is compared, and written only if it differs: the disk has time for one thing.
    fs::write(to.path().join("top/g"), content(GROUP as usize)).unwrap();
    let (ours, theirs) = pair();
    let (told, mut hear) = tokio::sync::mpsc::unbounded_channel();
    let play = async {
        let mut sender = Puppet::greeted(ours, Role::Sender).await;
        let entries = vec![
            entry("top", Kind::Directory, 0),
            entry("top/f", Kind::File, 1),
            entry("top/g", Kind::File, GROUP),
        ];
        sender.offer(entries).await;
        while sender.hear().await != Some(Message::Accept) {}
        sender.data(b"x").await;
        sender.trailer(b"x").await;
        // The first file is complete, and has no name yet.
        hear.recv().await.unwrap();
        sender.say(&Message::Bye).await;
        sender
    };
    let options = ReceiveOptions {
        disk: Some(disk::TestDisk::that_tells_of(
            "sync file",
            told,
            disk::PAUSE,
        )),
        ..deleting()
    };
    let receiving = receive(theirs, to.path(), options, Progress::new());
    let (_connected, received) = tokio::join!(play, receiving);
    let error = received.unwrap_err().to_string();
    assert!(error.contains("unexpected Bye"), "{error}");
    assert!(to.path().join("top/f/old").is_file());
}

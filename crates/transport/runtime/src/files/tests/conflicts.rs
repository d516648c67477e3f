use super::*;
use std::os::unix::fs::symlink;
use tempfile::{TempDir, tempdir};

/// `top/{a.txt, sub/b.txt}` and `c.txt` to send, and a receiving directory with `held` in it.
fn scene(held: &[&str]) -> (TempDir, TempDir) {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    for (dir, text, files) in [
        (&from, "new", &["top/a.txt", "top/sub/b.txt", "c.txt"][..]),
        (&to, "old", held),
    ] {
        for file in files {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            if text == "old" {
                set_time(&path, 1_000_000_000, 0);
            }
        }
    }
    (from, to)
}

async fn run(
    (from, to): &(TempDir, TempDir),
    with: Policy,
) -> (
    Result<SendSummary, TransferError>,
    Result<ReceiveSummary, TransferError>,
) {
    let paths = ["top", "c.txt"].map(|name| from.path().join(name));
    transfer(&paths, to.path(), policy(with)).await
}

fn read(dir: &TempDir, name: &str) -> String {
    fs::read_to_string(dir.path().join(name)).unwrap()
}

#[tokio::test]
async fn refusing_happens_before_any_content_and_changes_nothing() {
    let scene = scene(&["c.txt", "top/a.txt", "top/other"]);
    let before = snapshot(scene.1.path());
    let (ours, theirs) = pair();
    let sources = Sources::new(["top", "c.txt"].map(|name| scene.0.path().join(name))).unwrap();
    let progress = Progress::new();
    let (sent, received) = tokio::join!(
        send(ours, sources, progress.clone()),
        receive(
            theirs,
            scene.1.path(),
            ReceiveOptions::default(),
            Progress::new()
        )
    );
    let (sent, received) = (sent.unwrap_err(), received.unwrap_err());
    assert!(
        matches!((&sent, &received), (TransferError::There(a), TransferError::Here(b)) if a == b)
    );
    assert_eq!(received.code(), Some(FailureCode::Conflict));
    assert_eq!(
        received.to_string(),
        "c.txt: it exists already at the receiver; receive with --overwrite to replace it, with \
         --rename to keep both (and 1 more: top/a.txt)"
    );
    assert_eq!(progress.bytes_done(), 0);
    assert_eq!(snapshot(scene.1.path()), before);
}

#[tokio::test]
async fn refusing_fills_existing_directories_and_leaves_their_modes() {
    let scene = scene(&["top/other"]);
    set_mode(&scene.1.path().join("top"), 0o711);
    let (sent, received) = run(&scene, Policy::Refuse).await;
    assert_eq!(sent.unwrap().files, received.unwrap().files);
    assert_eq!(
        names(scene.1.path()),
        [
            "c.txt",
            "top",
            "top/a.txt",
            "top/other",
            "top/sub",
            "top/sub/b.txt"
        ]
    );
    assert_eq!(
        fs::metadata(scene.1.path().join("top")).unwrap().mode() & 0o7777,
        0o711
    );
}

#[tokio::test]
async fn overwriting_replaces_files_and_links_but_not_what_links_point_to() {
    let scene = scene(&["c.txt", "target"]);
    let top = scene.1.path().join("top");
    fs::create_dir(&top).unwrap();
    symlink(scene.1.path().join("target"), top.join("a.txt")).unwrap();
    let (sent, received) = run(&scene, Policy::Overwrite).await;
    sent.unwrap();
    received.unwrap();
    assert_eq!(read(&scene.1, "c.txt"), "new");
    assert_eq!(read(&scene.1, "top/a.txt"), "new");
    assert!(!top.join("a.txt").is_symlink());
    assert_eq!(read(&scene.1, "target"), "old");
}

#[tokio::test]
async fn renaming_leaves_everything_alone_and_tells_the_sender() {
    let scene = scene(&["c.txt", "c (1).txt", "top/a.txt", "top (1)"]);
    let before = snapshot(scene.1.path());
    let (sent, received) = run(&scene, Policy::Rename).await;
    let (sent, received) = (sent.unwrap(), received.unwrap());
    let after = snapshot(scene.1.path());
    let created: Vec<_> = after
        .keys()
        .filter(|name| !before.contains_key(*name))
        .collect();
    assert_eq!(
        created,
        [
            "c (2).txt",
            "top (2)",
            "top (2)/a.txt",
            "top (2)/sub",
            "top (2)/sub/b.txt"
        ]
    );
    let unchanged = |name: &String| name == "top" || after[name] == before[name];
    assert!(before.keys().all(unchanged), "{before:?} {after:?}");
    let saved: Vec<_> = sent
        .files
        .iter()
        .map(|file| file.saved_as.as_deref().unwrap())
        .collect();
    assert_eq!(saved, ["c (2).txt", "top (2)/a.txt", "top (2)/sub/b.txt"]);
    assert!(received.files.iter().map(|file| &file.name).eq(saved));
}

#[tokio::test]
async fn kinds_that_do_not_fit_are_refused_but_directories_replace_files() {
    for (held, name, cause) in [
        (&["top"][..], "top:", "not a directory"),
        (&["c.txt/x"], "c.txt:", "; move it away"),
        (&["top/a.txt/x"], "top/a.txt:", "--overwrite --delete"),
        (&["top/sub"], "top/sub:", "not a directory"),
    ] {
        for with in [Policy::Refuse, Policy::Overwrite] {
            if with == Policy::Overwrite && cause == "not a directory" {
                let scene = scene(held);
                let (sent, received) = run(&scene, with).await;
                assert_eq!(sent.unwrap().deleted.count, 0);
                received.unwrap();
                let all = ["c.txt", "top", "top/a.txt", "top/sub", "top/sub/b.txt"];
                assert_eq!(names(scene.1.path()), all);
                continue;
            }
            let scene = scene(held);
            let before = snapshot(scene.1.path());
            let (sent, received) = run(&scene, with).await;
            let (sent, received) = (
                sent.unwrap_err().to_string(),
                received.unwrap_err().to_string(),
            );
            assert!(
                sent.contains(&received) && received.starts_with(name) && received.contains(cause),
                "{sent}"
            );
            assert_eq!(snapshot(scene.1.path()), before);
        }
        let scene = scene(held);
        run(&scene, Policy::Rename).await.1.unwrap();
    }
}

#[tokio::test]
async fn a_link_inside_the_directory_leads_nowhere() {
    let outside = tempdir().unwrap();
    for with in [Policy::Refuse, Policy::Overwrite, Policy::Rename] {
        for link in ["top", "top/sub"] {
            let scene = scene(&[]);
            let link = scene.1.path().join(link);
            fs::create_dir_all(link.parent().unwrap()).unwrap();
            symlink(outside.path(), &link).unwrap();
            let (sent, received) = run(&scene, with).await;
            assert_eq!(names(outside.path()), [""; 0]);
            assert_eq!(link.is_symlink(), with != Policy::Overwrite);
            if with != Policy::Refuse {
                assert_eq!(sent.unwrap().files.len(), received.unwrap().files.len());
            } else {
                let (sent, received) = (
                    sent.unwrap_err().to_string(),
                    received.unwrap_err().to_string(),
                );
                assert!(
                    sent.contains(&received) && received.contains("symbolic link"),
                    "{sent}"
                );
            }
        }
    }
}

/// What appears after the check, while content is on its way, is met at the time of naming.
#[tokio::test]
async fn a_name_taken_during_the_transfer() {
    for with in [Policy::Refuse, Policy::Overwrite, Policy::Rename] {
        let to = tempdir().unwrap();
        let (ours, theirs) = pair();
        let script = async {
            let mut sender = Puppet::greeted(ours, Role::Sender).await;
            sender.offer(vec![entry("f", Kind::File, 3)]).await;
            assert_eq!(sender.hear().await, Some(Message::Accept));
            sender.data(b"new").await;
            fs::write(to.path().join("f"), "old").unwrap();
            sender.trailer(b"new").await;
            sender.hear().await
        };
        let (heard, received) = tokio::join!(
            script,
            receive(theirs, to.path(), policy(with), Progress::new())
        );
        let read = |name| fs::read_to_string(to.path().join(name)).unwrap();
        match with {
            Policy::Refuse => {
                assert!(
                    received
                        .unwrap_err()
                        .to_string()
                        .starts_with("f: it exists already")
                );
                assert!(matches!(
                    heard,
                    Some(Message::Failure(failure)) if failure.code == FailureCode::Conflict
                ));
                assert_eq!(
                    (names(to.path()), read("f")),
                    (vec!["f".to_owned()], "old".to_owned())
                );
            }
            Policy::Overwrite => {
                received.unwrap();
                assert_eq!((names(to.path()).len(), read("f")), (1, "new".to_owned()));
            }
            Policy::Rename => {
                assert_eq!(received.unwrap().files[0].name, "f (1)");
                assert_eq!(
                    (read("f"), read("f (1)")),
                    ("old".to_owned(), "new".to_owned())
                );
            }
        }
    }
}

/// A directory that turns into a link between the check and its use.
#[tokio::test]
async fn a_link_put_in_place_during_the_transfer() {
    let (to, outside) = (tempdir().unwrap(), tempdir().unwrap());
    fs::create_dir(to.path().join("d")).unwrap();
    let (ours, theirs) = pair();
    let script = async {
        let mut sender = Puppet::greeted(ours, Role::Sender).await;
        let entries = vec![
            entry("a", Kind::File, 1),
            entry("d", Kind::Directory, 0),
            entry("d/f", Kind::File, 1),
        ];
        sender.offer(entries).await;
        // The directory is there.
        assert_eq!(sender.hear().await, Some(Message::Wants(vec![1 << 2])));
        assert_eq!(sender.hear().await, Some(Message::Accept));
        fs::remove_dir(to.path().join("d")).unwrap();
        symlink(outside.path(), to.path().join("d")).unwrap();
        for _ in 0..2 {
            sender.data(b"x").await;
            sender.trailer(b"x").await;
        }
        sender.hear_failure().await
    };
    let receiving = receive(
        theirs,
        to.path(),
        policy(Policy::Overwrite),
        Progress::new(),
    );
    let (heard, received) = tokio::join!(script, receiving);
    assert!(heard.reason.contains("symbolic link"), "{heard}");
    assert_eq!(received.unwrap_err().to_string(), heard.to_string());
    assert_eq!(names(outside.path()), [""; 0]);
    assert_eq!(names(to.path()), ["a", "d"]);
}

/// A sender offers these, of which two are files, each of them `x`. Once `a` is there, the disk
/// calls it `b`, as if that were one name in other letters; then the sender goes on.
async fn where_a_is_b(to: &Path, with: Policy, entries: Vec<Entry>) -> String {
    let (ours, theirs) = pair();
    let (a, is_file) = (to.join("a"), entries[0].is_file());
    // Once there is a part file in a directory, the receiver has it open.
    let is_there = || match is_file {
        true => a.exists(),
        false => fs::read_dir(&a).is_ok_and(|mut dir| dir.next().is_some()),
    };
    let script = async {
        let mut sender = Puppet::greeted(ours, Role::Sender).await;
        sender.offer(entries).await;
        while sender.hear().await != Some(Message::Accept) {}
        sender.data(b"x").await;
        if is_file {
            sender.trailer(b"x").await;
        }
        while !is_there() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        fs::rename(&a, to.join("b")).unwrap();
        if !is_file {
            sender.trailer(b"x").await;
        }
        sender.data(b"x").await;
        sender.trailer(b"x").await;
        sender.hear_failure().await
    };
    let receiving = receive(theirs, to, policy(with), Progress::new());
    let (heard, received) = tokio::join!(script, receiving);
    let received = received.unwrap_err();
    assert_eq!(received.code(), Some(FailureCode::Conflict));
    assert_eq!(received.to_string(), heard.to_string());
    heard.to_string()
}

#[tokio::test]
async fn names_that_are_one_to_the_disk_are_no_reason_to_replace() {
    let told = "b: the receiver's file system doesn't distinguish this name from another one";
    for with in [Policy::Refuse, Policy::Overwrite] {
        let to = tempdir().unwrap();
        let mut entries = vec![entry("a", Kind::File, 1), entry("b", Kind::File, 1)];
        // Nothing but the time tells them apart.
        entries[0].mtime.seconds += 1;
        let said = where_a_is_b(to.path(), with, entries).await;
        assert!(said.starts_with(told), "{said}");
        assert_eq!(names(to.path()), ["b"]);
        assert_eq!(
            fs::metadata(to.path().join("b")).unwrap().mtime(),
            1_000_000_001
        );

        let to = tempdir().unwrap();
        let entries = vec![
            entry("a", Kind::Directory, 0),
            entry("a/x", Kind::File, 1),
            entry("b", Kind::Directory, 0),
            entry("b/y", Kind::File, 1),
        ];
        let said = where_a_is_b(to.path(), with, entries).await;
        assert!(said.starts_with(told), "{said}");
        assert_eq!(finals(to.path()), ["b", "b/x"]);
    }
}

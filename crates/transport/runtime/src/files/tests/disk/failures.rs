//! A disk that fails.

use super::crashes::Case;
use super::*;

#[tokio::test]
async fn a_disk_that_fails_at_any_operation_is_named_with_the_cause() {
    for (kind, doing) in [
        ("make dir", "top: creating the directory failed"),
        ("mark", "top: creating the directory failed"),
        ("create", "top/a: creating failed"),
        ("write", "top/a: writing failed"),
        ("restore", "top/a: setting mode and time failed"),
        ("symlink", "top/link: making the link failed"),
        ("restore link", "top/link: making the link failed"),
        ("sync file", "syncing failed"),
        ("rename", "top/a: naming failed"),
        ("sync dir", "syncing failed"),
    ] {
        for (errno, code, cause) in [
            (
                Errno::ENOSPC,
                FailureCode::DiskFull,
                "No space left on device",
            ),
            (Errno::EIO, FailureCode::Write, "Input/output error"),
        ] {
            let mut failed = false;
            let none_kept = ReceiveOptions {
                keep_parts: std::time::Duration::ZERO,
                ..ReceiveOptions::default()
            };
            let case = Case::new(none_kept);
            let to = case.to();
            let run = case.run(to.path(), move |op| {
                let now = op.kind() == kind && !std::mem::replace(&mut failed, op.kind() == kind);
                now.then_some(errno)
            });
            let run = run.await;
            let (sent, received) = (run.ends.0.as_ref(), run.ends.1.as_ref());
            let (sent, received) = (sent.unwrap_err(), received.unwrap_err());
            let text = received.to_string();
            assert!(
                text.contains(doing) && text.contains(cause),
                "{kind}: {text}"
            );
            assert_eq!((sent.code(), received.code()), (Some(code), Some(code)));
            assert_eq!(sent.to_string(), format!("the other side gave up: {text}"));
            case.check(to.path());
            let left = names(to.path());
            let size = |name: &String| fs::metadata(to.path().join(name)).unwrap().len();
            let parts = left.iter().filter(|name| name.contains(".manyway-part-"));
            assert!(parts.map(size).all(|size| size == 0), "{left:?}");
        }
    }
}

/// What a disk has failed to take may be in memory alone, whence the next transfer would read it.
#[tokio::test]
async fn what_cannot_be_synced_does_not_stay() {
    let mut written = HashMap::new();
    let case = Case::new(ReceiveOptions::default());
    let to = case.to();
    let run = case.run(to.path(), move |op| {
        if let Op::Write { file, len } = op {
            *written.entry(*file).or_insert(0) += len;
        }
        let fails = |file| written.get(file).is_some_and(|&len| len > 10);
        matches!(op, Op::SyncFile { file } if fails(file)).then_some(Errno::EIO)
    });
    run.await.ends.1.unwrap_err();
    let mut left = names(to.path());
    left.retain(|name| to.path().join(name).is_file());
    assert!(left.iter().all(|name| !name.contains(".b.")), "{left:?}");
}

/// Another transfer could go on with a part that is about to be removed.
#[tokio::test]
async fn an_old_part_is_locked_while_it_is_removed() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    fs::write(from.path().join("f"), "f").unwrap();
    let part = to.path().join(".old.manyway-part-01234567");
    fs::write(&part, "old").unwrap();
    let (at, (seen, locked)) = (part.clone(), std::sync::mpsc::channel());
    let disk = TestDisk::new(&Progress::new(), move |op| {
        if matches!(op, Op::Remove { name, .. } if name.contains(".old.")) {
            seen.send(fs::File::open(&at).unwrap().try_lock().is_err())
                .unwrap();
        }
        None
    });
    let options = ReceiveOptions {
        keep_parts: std::time::Duration::ZERO,
        disk: Some(disk),
        ..ReceiveOptions::default()
    };
    std::thread::sleep(std::time::Duration::from_millis(50));
    let ends = transfer([from.path().join("f")], to.path(), options).await;
    ends.1.unwrap();
    assert!(locked.recv().unwrap());
}

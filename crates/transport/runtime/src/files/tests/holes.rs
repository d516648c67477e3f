//! Files with holes: they stay, aren't sent, and take no room.

use super::*;
use std::os::unix::fs::FileExt;
use tempfile::tempdir;

/// A file of so many bytes with data in some places, and holes around it.
fn sparse(path: &Path, size: u64, data: &[(u64, usize)]) {
    let file = fs::File::create(path).unwrap();
    file.set_len(size).unwrap();
    for &(at, len) in data {
        file.write_all_at(&content(len), at).unwrap();
    }
    // What the disk needs beside the data is known then.
    file.sync_all().unwrap();
    set_time(path, 1_234_567, 89);
}

fn allocated(path: &Path) -> u64 {
    fs::metadata(path).unwrap().blocks() * 512
}

/// The copy is the same and takes no more room, but for 1 %.
fn same(copy: &Path, original: &Path) {
    assert!(fs::read(copy).unwrap() == fs::read(original).unwrap());
    let (theirs, ours) = (allocated(copy), allocated(original));
    assert!(theirs <= ours + ours / 100, "{theirs} of {ours} bytes");
}

/// Bytes that were in Data frames, as far as the sender knows.
async fn sent_to(path: &Path, to: &Path, options: ReceiveOptions) -> u64 {
    let (ours, theirs) = pair();
    let progress = Progress::new();
    let (sent, received) = tokio::join!(
        send(ours, Sources::new([path]).unwrap(), progress.clone()),
        receive(theirs, to, options, Progress::new())
    );
    assert_eq!(received.unwrap().kept, sent.unwrap().kept);
    progress.bytes_done()
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn holes_stay_holes_and_are_not_sent() {
    const MIB: u64 = 1 << 20;
    // In blocks of 4 KiB, half of them holes: all of it is sent, and half of it written.
    let comb: Vec<_> = (0..64).map(|n| (n * 8192, 4096)).collect();
    for (name, size, data, most) in [
        ("all", 64 * MIB, &[][..], 0),
        ("small", 10_000, &[], 0),
        ("long", 300 * MIB, &[(200 * MIB, 100)], GROUP),
        ("begins", 9 * MIB + 5, &[(8 * MIB + 7, 100)], 2 * GROUP),
        ("ends", 9 * MIB + 5, &[(0, 100)], GROUP),
        (
            "middle",
            9 * MIB,
            &[(0, 70_000), (8 * MIB, 1 << 20)],
            2 * MIB,
        ),
        ("comb", 64 * 8192, &comb, 64 * 8192),
        ("none", 100_000, &[(0, 100_000)], 100_000),
    ] {
        let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
        let file = from.path().join(name);
        sparse(&file, size, data);
        let sent = sent_to(&file, to.path(), ReceiveOptions::default()).await;
        same(&to.path().join(name), &file);
        assert_eq!(snapshot(to.path()), snapshot(from.path()));
        assert!(sent <= most, "{name}: {sent} bytes sent");
    }
}

/// What was there in its place is gone, in memory and on the disk.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_hole_replaces_what_is_there() {
    let (from, file) = (tempdir().unwrap(), "file");
    let original = from.path().join(file);
    sparse(
        &original,
        40 * GROUP,
        &[(3 * GROUP, 10), (30 * GROUP, 100_000)],
    );
    let number = &blake3::hash(b"file").to_hex()[..8];
    let part = format!(".file.manyway-part-{number}");
    let mut zeros = fs::read(&original).unwrap();
    zeros.truncate(20 * GROUP as usize);
    for (there, bytes) in [
        (part.as_str(), content(35 * GROUP as usize)),
        (&part, content(50 * GROUP as usize)),
        (file, content(40 * GROUP as usize)),
        (file, zeros),
    ] {
        let to = tempdir().unwrap();
        let old = fs::File::create(to.path().join(there)).unwrap();
        old.write_all_at(&bytes, 0).unwrap();
        old.sync_all().unwrap();
        set_mode(&to.path().join(there), 0o600);
        let sent = sent_to(&original, to.path(), policy(Policy::Overwrite)).await;
        same(&to.path().join(file), &original);
        assert!(sent < 6 * GROUP, "{there}: {sent} bytes sent");
        assert_eq!(names(to.path()), ["file"]);
    }
    // What an interrupted transfer of it leaves has holes already.
    let to = tempdir().unwrap();
    let left = to.path().join(&part);
    sparse(&left, 20 * GROUP, &[(3 * GROUP, 10)]);
    set_mode(&left, 0o600);
    let sent = sent_to(&original, to.path(), policy(Policy::Refuse)).await;
    same(&to.path().join(file), &original);
    assert!(sent < 3 * GROUP, "{sent} bytes sent");
}

/// What an interrupted update has left goes on with the holes and the content of the old file.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_interrupted_update_keeps_holes() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    let (original, copy) = (from.path().join("f"), to.path().join("f"));
    let part = super::resume::left(&to, "", "f");
    let data = [(10 * GROUP, 100_000), (500 * GROUP, 400_000)];
    sparse(&copy, 900 * GROUP, &data);
    for (path, size, data) in [
        (&part, 202 * GROUP, &data[..1]),
        (&original, 900 * GROUP + 1, &data),
    ] {
        sparse(path, size, data);
        let new = fs::File::options().write(true).open(path).unwrap();
        // In place of holes, of content in the part, and of content after it.
        let changes = [2, 11, 200, 201, 202, 203, 204, 501, 800].into_iter();
        for at in changes.map(|group| group * GROUP).filter(|&at| at < size) {
            new.write_all_at(b"new", at).unwrap();
        }
        new.sync_all().unwrap();
    }
    let sent = sent_to(&original, to.path(), policy(Policy::Overwrite)).await;
    same(&copy, &original);
    assert!(sent <= 5 * GROUP, "{sent} bytes sent");
    assert_eq!(names(to.path()), ["f"]);
}

/// Holes of a file whose content is there don't make another file of it.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_same_content_without_holes_stays() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    let (original, copy) = (from.path().join("f"), to.path().join("f"));
    sparse(&original, 10 * GROUP, &[(3 * GROUP, 10)]);
    fs::write(&copy, fs::read(&original).unwrap()).unwrap();
    let inode = fs::metadata(&copy).unwrap().ino();
    let options = ReceiveOptions {
        checksum: true,
        ..policy(Policy::Refuse)
    };
    sent_to(&original, to.path(), options).await;
    assert_eq!(fs::metadata(&copy).unwrap().ino(), inode);
}

/// An offer of so many bytes of which so many are said to lie in holes, and what comes of it.
async fn offered(size: u64, holes: u64, allowance: Option<Allowance>) -> Option<FailureCode> {
    let to = tempdir().unwrap();
    let options = ReceiveOptions {
        allowance,
        ..ReceiveOptions::default()
    };
    let (ours, theirs) = pair();
    let play = async {
        let mut sender = Puppet::greeted(ours, Role::Sender).await;
        let file = entry("f", Kind::File, size);
        sender.offer(vec![Entry { holes, ..file }]).await;
        match sender.hear().await {
            Some(Message::Accept) => None,
            Some(Message::Failure(failure)) => Some(failure.code),
            other => panic!("{other:?}"),
        }
    };
    let receiving = receive(theirs, to.path(), options, Progress::new());
    tokio::join!(receiving, play).1
}

/// They are hashed, though they take no room: without a word of the user, not without end.
#[tokio::test]
async fn holes_count_as_content_but_not_as_room() {
    const TIB: u64 = 1 << 40;
    assert_eq!(offered(4 * TIB, 4 * TIB, None).await, None);
    let refused = Some(FailureCode::Refused);
    assert_eq!(offered(5 * TIB, 5 * TIB, None).await, refused);
    // Longer than any disk here.
    let much = 1 << 55;
    let full = Some(FailureCode::DiskFull);
    assert_eq!(offered(much, 0, None).await, full);
    assert_eq!(offered(much, much / 2, None).await, full);
    let allowance = |bytes| Some(Allowance::new(bytes));
    assert_eq!(offered(much, much, allowance(much)).await, None);
    assert_eq!(offered(much, much, allowance(much - 1)).await, refused);
}

/// A sender that says only that there are holes: they are in its allowance, and not on the disk.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_hole_costs_no_disk() {
    let to = tempdir().unwrap();
    let allowance = Allowance::new(10 << 30);
    let options = ReceiveOptions {
        allowance: Some(allowance.clone()),
        keep_parts: std::time::Duration::ZERO,
        ..ReceiveOptions::default()
    };
    let (ours, theirs) = pair();
    let play = async {
        let mut sender = Puppet::greeted(ours, Role::Sender).await;
        let size = 1 << 30;
        let file = entry("f", Kind::File, size);
        sender
            .offer(vec![Entry {
                holes: size,
                ..file
            }])
            .await;
        assert_eq!(sender.hear().await, Some(Message::Accept));
        for _ in 0..16 {
            sender.say(&Message::Hole(1024)).await;
        }
        // One too many.
        sender.say(&Message::Hole(1)).await;
        sender.hear_failure().await
    };
    let receiving = receive(theirs, to.path(), options, Progress::new());
    let (received, failure) = tokio::join!(receiving, play);
    assert_eq!(failure.code, FailureCode::Protocol, "{failure}");
    received.unwrap_err();
    assert_eq!(allowance.left(), 9 << 30);
    assert!(names(to.path()).is_empty());
}

/// Within a group, content comes first; between files, nothing does.
#[tokio::test]
async fn a_hole_in_the_wrong_place_ends_the_transfer() {
    for (size, before) in [(2 * GROUP, 1), (0, 0)] {
        let to = tempdir().unwrap();
        let (ours, theirs) = pair();
        let play = async {
            let mut sender = Puppet::greeted(ours, Role::Sender).await;
            sender.offer(vec![entry("f", Kind::File, size)]).await;
            assert_eq!(sender.hear().await, Some(Message::Accept));
            sender.data(&content(before)).await;
            sender.say(&Message::Hole(1)).await;
            sender.hear_failure().await
        };
        let receiving = receive(
            theirs,
            to.path(),
            ReceiveOptions::default(),
            Progress::new(),
        );
        let (received, failure) = tokio::join!(receiving, play);
        assert_eq!(failure.code, FailureCode::Protocol, "{failure}");
        received.unwrap_err();
        assert!(names(to.path()).is_empty());
    }
}

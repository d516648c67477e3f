//! Groups of files that are there, of which the receiver tells the sender.

use super::resume::{G, checking, file, left, overwriting, whole};
use super::*;
use manyway_transfer::{GROUP, group_hash};
use std::time::Duration;
use tempfile::tempdir;

/// What a sender may do with files of which it was told the groups.
#[tokio::test]
async fn senders_that_keep_what_is_not_there() {
    let bytes = content(3 * G);
    let hash = |index: usize| group_hash(3 * GROUP, index as u64, &bytes[index * G..][..G]);
    let whole = Message::Trailer(Digest(*blake3::hash(&bytes).as_bytes()));
    for (script, problem) in [
        (vec![Message::Kept(3)], "unexpected Kept frame"),
        (vec![Message::Kept(u64::MAX)], "unexpected Kept frame"),
        (
            vec![Message::Kept(2)],
            "only 131072 of the 196608 announced bytes arrived",
        ),
        (
            vec![Message::Kept(2), Message::Accept],
            "unexpected Accept frame",
        ),
    ] {
        let to = tempdir().unwrap();
        file(&to, "top", &bytes[..2 * G]);
        set_time(&to.path().join("top"), 5, 0);
        let (ours, theirs) = pair();
        let play = async {
            let mut sender = Puppet::greeted(ours, Role::Sender).await;
            sender
                .offer(vec![entry("top", Kind::File, 3 * GROUP)])
                .await;
            assert_eq!(sender.hear().await, Some(Message::Wants(vec![2])));
            assert_eq!(sender.hear().await, Some(Message::Accept));
            assert_eq!(
                sender.hear().await,
                Some(Message::Basis(vec![hash(0), hash(1)]))
            );
            assert_eq!(sender.hear().await, Some(Message::Basis(Vec::new())));
            for message in script.iter().chain([&whole]) {
                sender.say(message).await;
            }
            sender.hear_failure().await.to_string()
        };
        let receiving = receive(theirs, to.path(), overwriting(), Progress::new());
        let (told, received) = tokio::join!(play, receiving);
        assert!(received.is_err() && told.contains(problem), "{told}");
        assert_eq!(fs::read(to.path().join("top")).unwrap(), &bytes[..2 * G]);
    }
}

/// What a receiver may tell of groups, and when.
#[tokio::test]
async fn receivers_that_tell_too_much() {
    let hashes = |n: usize| Message::Basis(vec![Digest([0; 32]); n]);
    let many = |n: usize| (0..n).map(|_| hashes(1024)).collect::<Vec<_>>();
    for (script, problem) in [
        (vec![Message::Wants(vec![1, 1])], "Wants frame's numbers"),
        (vec![hashes(1)], "unexpected Basis frame"),
        (
            [vec![Message::Accept], many(4), vec![hashes(0)]].concat(),
            "Basis frame's numbers",
        ),
        (
            vec![Message::Accept, Message::Wants(vec![1])],
            "unexpected Wants frame",
        ),
    ] {
        let from = tempdir().unwrap();
        file(&from, "top", &content(40 * G));
        let (ours, theirs) = pair();
        let play = async {
            let mut receiver = Puppet::greeted(theirs, Role::Receiver).await;
            while !matches!(receiver.hear().await, Some(Message::Offered(_))) {}
            for message in &script {
                receiver.say(message).await;
            }
            receiver.hear_failure().await.to_string()
        };
        let sources = Sources::new([from.path().join("top")]).unwrap();
        let (told, sent) = tokio::join!(play, send(ours, sources, Progress::new()));
        assert!(sent.is_err() && told.contains(problem), "{told}");
    }
}

/// More groups than the sender may be told before it has answered.
#[tokio::test]
async fn a_basis_longer_than_the_window() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    let len = 5000 * GROUP;
    for dir in [&from, &to] {
        let at = dir.path().join("top");
        fs::File::create(&at).unwrap().set_len(len).unwrap();
    }
    use std::os::unix::fs::FileExt;
    let to_file = fs::File::options()
        .write(true)
        .open(to.path().join("top"))
        .unwrap();
    to_file.write_all_at(b"x", 4500 * GROUP).unwrap();
    let kept = whole(&from, &to, checking(Policy::Overwrite)).await;
    assert_eq!(kept.bytes, len - GROUP);
}

/// A sender that is slow to answer doesn't make the receiver open everything meanwhile.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn few_files_are_open_at_a_time() {
    let to = tempdir().unwrap();
    let entries: Vec<_> = (100..600)
        .map(|n| entry(&format!("f{n}"), Kind::File, 10))
        .collect();
    for name in entries.iter().map(|entry| entry.name.as_str()) {
        file(&to, name, &content(10));
        fs::write(left(&to, "", name), content(10)).unwrap();
    }
    let (ours, theirs) = pair();
    let play = async {
        let mut sender = Puppet::greeted(ours, Role::Sender).await;
        sender.offer(entries).await;
        let mut told = 0;
        while told < 10 {
            if let Some(Message::Basis(hashes)) = sender.hear().await {
                told += hashes.len();
            }
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
        let open = fs::read_dir("/proc/self/fd").unwrap().flatten();
        open.filter(|fd| fs::read_link(fd.path()).is_ok_and(|at| at.starts_with(to.path())))
            .count()
    };
    let options = checking(Policy::Overwrite);
    let receiving = receive(theirs, to.path(), options, Progress::new());
    let (open, _) = tokio::join!(play, receiving);
    assert!(open < 100, "{open}");
}

/// A file that changes after its groups were told isn't kept as what it was; nor if nothing else is
/// to be written: it would count as verified, and get the sender's time.
#[tokio::test]
async fn what_changes_after_it_was_told_is_not_kept() {
    for kept in [2, 3] {
        let to = tempdir().unwrap();
        let path = to.path().join("top");
        let (old, mut new) = (content(3 * G), content(3 * G));
        if kept == 2 {
            new[2 * G] ^= 1;
        }
        file(&to, "top", &old);
        set_time(&path, 5, 0);
        let (ours, theirs) = pair();
        let play = async {
            let mut sender = Puppet::greeted(ours, Role::Sender).await;
            let offered = entry("top", Kind::File, 3 * GROUP);
            sender.offer(vec![offered]).await;
            while !matches!(sender.hear().await, Some(Message::Basis(told)) if told.len() == 3) {}
            let mut other = old.clone();
            other[G] ^= 1;
            fs::write(&path, &other).unwrap();
            // As a program does that puts the time back.
            set_time(&path, 5, 0);
            sender.say(&Message::Kept(kept)).await;
            if kept == 2 {
                sender.data(&new[2 * G..]).await;
            }
            sender.trailer(&new).await;
            (sender.hear_failure().await.to_string(), other)
        };
        let receiving = receive(theirs, to.path(), overwriting(), Progress::new());
        let ((told, other), received) = tokio::join!(play, receiving);
        let failed = received.is_err() && told.contains("BLAKE3 hash");
        assert!(failed, "{kept}: {told}");
        assert!(fs::read(&path).unwrap() == other);
    }
}

/// A sender that doesn't read what it is told doesn't keep a receiver at work that has failed.
#[tokio::test]
async fn a_sender_that_does_not_read_what_it_is_told() {
    let to = tempdir().unwrap();
    let len = 5000 * GROUP;
    let there = fs::File::create(to.path().join("top")).unwrap();
    there.set_len(len).unwrap();
    let (ours, theirs) = pair();
    let progress = Progress::new();
    let (dir, told) = (to.path().to_owned(), progress.clone());
    let receiving =
        tokio::spawn(async move { receive(theirs, dir, checking(Policy::Overwrite), told).await });
    let mut sender = Puppet::greeted(ours, Role::Sender).await;
    sender.offer(vec![entry("top", Kind::File, len)]).await;
    while sender.hear().await != Some(Message::Accept) {}
    // Until all that is between the two is full.
    tokio::time::sleep(Duration::from_secs(2)).await;
    sender.say(&Message::Accept).await;
    let begun = std::time::Instant::now();
    // Ours, and that of the call.
    while std::sync::Arc::strong_count(&progress) > 2 {
        assert!(begun.elapsed() < Duration::from_secs(20));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    drop(sender);
    receiving.await.unwrap().unwrap_err();
}

//! What a receiver's user doesn't want: other people's modes, hidden files, too much, too little
//! discretion.

use super::*;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::tempdir;

#[tokio::test]
async fn the_umask_holds_unless_modes_are_kept() {
    let umask = u32::from(manyway_os::umask());
    for (keep_modes, mask) in [(false, umask), (true, 0)] {
        let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
        let top = from.path().join("top");
        fs::create_dir(&top).unwrap();
        fs::write(top.join("f"), "f").unwrap();
        set_mode(&top.join("f"), 0o6777);
        set_mode(&top, 0o1777);
        let options = ReceiveOptions {
            keep_modes,
            ..ReceiveOptions::default()
        };
        let (_, received) = transfer([&top], to.path(), options).await;
        received.unwrap();
        for name in ["top", "top/f"] {
            let mode = fs::metadata(to.path().join(name)).unwrap().mode() & 0o7777;
            // A file's special bits take its owner and group.
            let special = if keep_modes && name == "top" {
                0o1000
            } else {
                0
            };
            assert_eq!(mode, special | 0o777 & !mask, "{name}");
        }
    }
}

/// `.bashrc`, `.ssh/` and `top/.hidden`, with what the receiver does about dots.
async fn with_dots(dotfiles: Dotfiles, names_at_top: &[&str]) -> (String, Vec<String>) {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    for dir in [".ssh", "top"] {
        fs::create_dir(from.path().join(dir)).unwrap();
    }
    for file in [".bashrc", ".ssh/key", "top/.hidden"] {
        fs::write(from.path().join(file), "x").unwrap();
    }
    let paths = names_at_top.iter().map(|name| from.path().join(name));
    let options = ReceiveOptions {
        dotfiles,
        ..ReceiveOptions::default()
    };
    let (sent, received) = transfer(paths, to.path(), options).await;
    let said = match (sent, received) {
        (Ok(_), Ok(_)) => String::new(),
        (Err(sent), Err(received)) => {
            assert_eq!(received.code(), Some(FailureCode::Refused));
            assert_eq!(
                sent.to_string(),
                format!("the other side gave up: {received}")
            );
            received.to_string()
        }
        other => panic!("{other:?}"),
    };
    (said, names(to.path()))
}

#[tokio::test]
async fn hidden_names_at_the_top_are_refused_unless_allowed() {
    let all = [".bashrc", ".ssh", "top"];
    let (said, left) = with_dots(Dotfiles::Refuse, &all).await;
    assert!(
        said.starts_with(".bashrc: ")
            && said.contains("(and 1 more)")
            && said.contains("--allow-dotfiles"),
        "{said}"
    );
    assert_eq!(left, [""; 0]);
    let (said, left) = with_dots(Dotfiles::Refuse, &["top"]).await;
    assert_eq!(
        (said.as_str(), left),
        ("", names_of(&["top", "top/.hidden"]))
    );
    let (said, left) = with_dots(Dotfiles::Allow, &all).await;
    let everything = [".bashrc", ".ssh", ".ssh/key", "top", "top/.hidden"];
    assert_eq!((said.as_str(), left), ("", names_of(&everything)));
}

fn names_of(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn the_user_may_be_asked_about_hidden_names() {
    for answer in [true, false] {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let questions = asked.clone();
        let ask: AskDotfiles = Arc::new(move |names, count| {
            let names: Vec<_> = names.iter().map(ToString::to_string).collect();
            questions.lock().unwrap().push((names, count));
            answer
        });
        let (said, left) = with_dots(Dotfiles::Ask(ask.clone()), &[".bashrc", ".ssh"]).await;
        assert_eq!((said.is_empty(), left.is_empty()), (answer, !answer));
        let question = (names_of(&[".bashrc", ".ssh"]), 2);
        assert_eq!(*asked.lock().unwrap(), [question]);
        // Nothing to ask about.
        let (said, _) = with_dots(Dotfiles::Ask(ask), &["top"]).await;
        assert_eq!((said.as_str(), asked.lock().unwrap().len()), ("", 1));
    }
}

fn allowing(allowance: &Allowance) -> ReceiveOptions {
    ReceiveOptions {
        allowance: Some(allowance.clone()),
        ..ReceiveOptions::default()
    }
}

#[tokio::test]
async fn more_than_the_allowance_is_refused_before_content_flows() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    for (name, len) in [("a", 600), ("b", 400), ("c", 1)] {
        fs::write(from.path().join(name), content(len)).unwrap();
    }
    let path = |name: &str| from.path().join(name);
    let allowance = Allowance::new(1000);
    let all = ["a", "b", "c"].map(path);
    let (sent, received) = transfer(&all, to.path(), allowing(&allowance)).await;
    let (sent, received) = (sent.unwrap_err(), received.unwrap_err());
    assert_eq!(received.code(), Some(FailureCode::Refused));
    assert!(
        received.to_string().contains("1.001 kB of content"),
        "{received}"
    );
    let told = sent.to_string();
    assert!(
        told.contains("--max-total") && !told.contains("100"),
        "{told}"
    );
    assert_eq!(names(to.path()), [""; 0]);
    assert_eq!(allowance.left(), 1000);

    // To the last byte, over several transfers.
    for (name, left) in [("a", 400), ("b", 0)] {
        let (_, received) = transfer([path(name)], to.path(), allowing(&allowance)).await;
        received.unwrap();
        assert_eq!(allowance.left(), left);
    }
    let (_, received) = transfer([path("c")], to.path(), allowing(&allowance)).await;
    assert_eq!(received.unwrap_err().code(), Some(FailureCode::Refused));
}

/// Empty files with names of 250 bytes, in messages that aren't too long.
pub(super) async fn offer_many(sender: &mut Puppet, files: usize) {
    let named = |n: usize| entry(&format!("{n:0>250}"), Kind::File, 0);
    let mut totals = manyway_transfer::Totals::default();
    for first in (0..files).step_by(200) {
        let entries: Vec<_> = (first..files.min(first + 200)).map(named).collect();
        entries.iter().for_each(|entry| totals.add(entry));
        sender.say(&Message::Entries(entries)).await;
    }
    sender.say(&Message::Offered(totals)).await;
}

/// A receiver keeps each until its transfer is over.
#[tokio::test]
async fn the_lists_of_several_senders_count_together() {
    let to = tempdir().unwrap();
    let allowance = Allowance::new(1_500_000);
    // 3 MB, of which 2 MiB are in memory; says how the receiver answers.
    let offer = async |ends| {
        let mut sender = Puppet::greeted(ends, Role::Sender).await;
        offer_many(&mut sender, 12_000).await;
        loop {
            match sender.hear().await.unwrap() {
                Message::Accept => break Ok(sender),
                Message::Failure(failure) => break Err(failure.code),
                _ => {}
            }
        }
    };
    let receiver = |ends| receive(ends, to.path(), allowing(&allowance), Progress::new());
    let [first, second, third] = [pair(), pair(), pair()];
    let two = async {
        let sender = offer(first.0).await.ok().unwrap();
        // One that is accepted all the same is gone at once.
        let refused = async { offer(second.0).await.err() };
        let (refused, received) = tokio::join!(refused, receiver(second.1));
        assert_eq!(refused, Some(FailureCode::Refused));
        assert_eq!(received.unwrap_err().code(), Some(FailureCode::Refused));
        drop(sender);
    };
    let (_, received) = tokio::join!(two, receiver(first.1));
    received.unwrap_err();
    let one = async { drop(offer(third.0).await.ok().unwrap()) };
    let (_, received) = tokio::join!(one, receiver(third.1));
    received.unwrap_err();
    assert_eq!(allowance.left(), 1_500_000);
}

/// Offers a file of ten bytes, waits until that is accepted, then follows the script.
async fn with_a_file(
    dir: &Path,
    options: ReceiveOptions,
    script: impl AsyncFnOnce(&mut Puppet),
) -> (String, TransferError) {
    let (ours, theirs) = pair();
    let play = async {
        let mut sender = Puppet::greeted(ours, Role::Sender).await;
        sender.offer(vec![entry("f", Kind::File, 10)]).await;
        assert_eq!(sender.hear().await, Some(Message::Accept));
        script(&mut sender).await;
        sender.hear_failure().await.to_string()
    };
    let (told, received) = tokio::join!(play, receive(theirs, dir, options, Progress::new()));
    (told, received.unwrap_err())
}

#[tokio::test]
async fn more_than_was_announced_is_not_written() {
    let to = tempdir().unwrap();
    let allowance = Allowance::new(15);
    let (told, _) = with_a_file(to.path(), allowing(&allowance), async |sender| {
        sender.data(&content(20)).await;
    })
    .await;
    assert!(told.contains("more bytes arrived than the 10"), "{told}");
    assert_eq!(names(to.path()), [""; 0]);
    assert_eq!(allowance.left(), 15);
}

#[tokio::test]
async fn a_directory_that_is_renamed_meanwhile_is_no_success() {
    let around = tempdir().unwrap();
    let (dir, moved) = (around.path().join("in"), around.path().join("moved"));
    fs::create_dir(&dir).unwrap();
    for empty_one_instead in [false, true] {
        let (told, error) = with_a_file(&dir, ReceiveOptions::default(), async |sender| {
            fs::rename(&dir, &moved).unwrap();
            if empty_one_instead {
                fs::create_dir(&dir).unwrap();
            }
            sender.data(b"0123456789").await;
            sender.trailer(b"0123456789").await;
        })
        .await;
        assert_eq!(
            told,
            "the receiving directory was renamed or replaced during the transfer"
        );
        let moved_to = moved.canonicalize().unwrap();
        assert_eq!(
            error.to_string(),
            format!(
                "{told} ({}: the files are in {})",
                dir.display(),
                moved_to.display()
            )
        );
        assert_eq!(names(&moved), ["f"]);
        fs::remove_file(moved.join("f")).unwrap();
        let _ = fs::remove_dir(&dir);
        fs::rename(&moved, &dir).unwrap();
    }
}

#[tokio::test]
async fn the_sender_is_not_told_where_the_files_would_go() {
    let (from, around) = (tempdir().unwrap(), tempdir().unwrap());
    fs::write(from.path().join("f"), "f").unwrap();
    let file = around.path().join("file");
    fs::write(&file, "").unwrap();
    let dir = file.join("in");
    let (sent, received) = transfer([from.path().join("f")], &dir, ReceiveOptions::default()).await;
    let (sent, received) = (
        sent.unwrap_err().to_string(),
        received.unwrap_err().to_string(),
    );
    let told = sent.strip_prefix("the other side gave up: ").unwrap();
    assert_eq!(received, format!("{told} ({})", dir.display()));
    assert!(
        told.starts_with("the receiving directory: opening failed"),
        "{told}"
    );
}

#[tokio::test]
async fn what_a_killed_receiver_left_is_removed_in_time() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    fs::write(from.path().join("f"), "f").unwrap();
    let left = to.path().join(".film.manyway-part-0123abcd");
    fs::write(&left, "half").unwrap();
    for keep_parts in [ReceiveOptions::default().keep_parts, Duration::ZERO] {
        let options = ReceiveOptions {
            keep_parts,
            policy: Policy::Overwrite,
            ..ReceiveOptions::default()
        };
        let (_, received) = transfer([from.path().join("f")], to.path(), options).await;
        received.unwrap();
        assert!(keep_parts.is_zero() || left.exists());
    }
    // The transfer doesn't wait for it.
    for _ in 0..10_000 {
        if !left.exists() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("it is still there");
}

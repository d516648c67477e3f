//! Transfers that go on where others have ended that were to replace a file.

use super::resume::{G, cut_off, file, left, overwriting, whole};
use super::*;
use crate::files::Allowance;
use tempfile::{TempDir, tempdir};

/// What the sender has of `top`, and what the receiver has, which is older.
struct Update {
    from: TempDir,
    to: TempDir,
    old: Vec<u8>,
    new: Vec<u8>,
}

impl Update {
    /// The new file has `groups` groups and a bit, and differs from the old one in its first 20 and
    /// its last but one.
    fn new(old: usize, groups: usize) -> Self {
        let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
        let old = content(old);
        let mut new = content(groups * G + 17);
        new[..20 * G].iter_mut().for_each(|byte| *byte ^= 1);
        new[groups * G - 3] ^= 1;
        file(&from, "top", &new);
        file(&to, "top", &old);
        set_time(&to.path().join("top"), 5, 0);
        Self { from, to, old, new }
    }

    async fn cut_off(&self, options: ReceiveOptions, bytes: u64) {
        cut_off(
            &self.from.path().join("top"),
            self.to.path(),
            options,
            bytes,
        )
        .await;
        assert!(fs::read(self.to.path().join("top")).unwrap() == self.old);
    }

    /// What the interrupted transfers have left.
    fn part(&self) -> Vec<u8> {
        fs::read(left(&self.to, "", "top")).unwrap()
    }

    /// Bytes in groups that neither the part has, as far as it reaches, nor the old file beyond.
    fn missing(&self) -> u64 {
        let part = self.part();
        let whole = match part.len() < self.new.len() {
            true => part.len() / G,
            false => self.new.len().div_ceil(G),
        };
        let differs = |(index, group): &(usize, &[u8])| {
            let there = if *index < whole { &part } else { &self.old };
            let at = index * G;
            there.get(at..at + group.len()) != Some(*group)
        };
        let groups = self.new.chunks(G).enumerate().filter(differs);
        groups.map(|(_, group)| group.len() as u64).sum()
    }

    /// The update once more, to its end. Bytes that weren't sent.
    async fn complete(&self, options: ReceiveOptions) -> u64 {
        let kept = whole(&self.from, &self.to, options).await;
        assert!(fs::read(self.to.path().join("top")).unwrap() == self.new);
        assert_eq!(names(self.to.path()), ["top"]);
        kept.bytes
    }
}

/// Whatever comes after the part is taken from the file that is there, as far as it is the same.
#[tokio::test]
async fn an_interrupted_update_keeps_what_is_there() {
    // As long, shorter, longer, and shorter than what is left of the update.
    for old in [100 * G + 17, 60 * G + 5, 150 * G, 10 * G] {
        // Within what differs, after it (the next transfer ends at once), and more than once.
        for cuts in [&[4][..], &[12], &[19], &[20, 0], &[5, 5, 5]] {
            let update = Update::new(old, 100);
            for cut in cuts {
                let bytes = cut * GROUP + GROUP / 2;
                update.cut_off(overwriting(), bytes).await;
            }
            let case = format!("{old} {cuts:?}");
            let (part, missing) = (update.part().len(), update.missing());
            assert!(part >= 4 * G, "{case}: {part}");
            if old > 100 * G {
                let sent: u64 = cuts.iter().sum();
                assert!(missing <= (23 - sent) * GROUP, "{case}: {missing}");
            }
            let kept = update.complete(overwriting()).await;
            assert_eq!(kept, update.new.len() as u64 - missing, "{case}");
        }
    }
}

/// A part may be damaged, or as long as the new file: what it has counts.
#[tokio::test]
async fn a_part_counts_as_far_as_it_reaches() {
    let update = Update::new(100 * G, 100);
    let all = update.new.len() as u64;
    let mut longer = update.new.clone();
    longer[30 * G] ^= 1;
    longer.extend(content(3 * G));
    for (part, missing) in [
        (&longer[..40 * G + 1], 2 * GROUP + 17),
        (&longer[..100 * G], GROUP + 17),
        (&longer, GROUP),
        // No group is whole: the old file's first one counts, and differs.
        (&update.new[..G - 1], 21 * GROUP + 17),
    ] {
        fs::write(left(&update.to, "", "top"), part).unwrap();
        assert_eq!(update.missing(), missing);
        assert_eq!(update.complete(overwriting()).await, all - missing);
        file(&update.to, "top", &update.old);
        set_time(&update.to.path().join("top"), 5, 0);
    }
}

/// What makes the incomplete file longer counts, from wherever it comes.
#[tokio::test]
async fn the_allowance_holds_for_what_is_copied_into_a_part() {
    let update = Update::new(100 * G, 100);
    update.cut_off(overwriting(), 12 * GROUP).await;
    let rest = (update.new.len() - update.part().len()) as u64;
    let options = |bytes| {
        let allowance = Allowance::new(bytes);
        let options = ReceiveOptions {
            allowance: Some(allowance.clone()),
            ..overwriting()
        };
        (allowance, options)
    };
    let (_, less) = options(rest - 1);
    let ends = transfer([update.from.path().join("top")], update.to.path(), less).await;
    assert_eq!(ends.1.unwrap_err().code(), Some(FailureCode::Refused));
    let (allowance, enough) = options(rest + 5);
    assert!(update.complete(enough).await > 70 * GROUP);
    assert_eq!(allowance.left(), 5);
}

/// What is kept of a file stays as closed as it was, also if it was copied before the interruption.
/// A file of which nothing can be kept has no say.
#[tokio::test]
async fn an_interrupted_update_opens_nothing() {
    let umask = u32::from(manyway_os::umask());
    for (old, keep_modes, mode) in [
        (100 * G, false, 0o600),
        (15 * G, false, 0o600),
        (100 * G, true, 0o644),
        (G - 1, false, 0o644 & !umask),
    ] {
        let options = || ReceiveOptions {
            keep_modes,
            ..overwriting()
        };
        let update = Update::new(old, 100);
        set_mode(&update.from.path().join("top"), 0o644);
        set_mode(&update.to.path().join("top"), 0o600);
        update.cut_off(options(), 19 * GROUP).await;
        update.complete(options()).await;
        let new = fs::metadata(update.to.path().join("top")).unwrap().mode();
        assert_eq!(new & 0o777, mode, "{old} {keep_modes}");
    }
}

#[tokio::test]
async fn a_changed_file_gets_its_mode_unless_that_opens_what_is_kept() {
    let umask = u32::from(manyway_os::umask());
    for (old, sent, mode) in [
        (0o644, 0o755, 0o755),
        (0o600, 0o711, 0o711),
        (0o755, 0o600, 0o600),
        (0o600, 0o644, 0o600),
        (0o640, 0o755, 0o751),
    ] {
        let update = Update::new(100 * G, 100);
        let paths = [&update.from, &update.to].map(|dir| dir.path().join("top"));
        set_mode(&paths[0], sent);
        set_mode(&paths[1], old);
        let (_, received) = transfer([&paths[0]], update.to.path(), overwriting()).await;
        let received = received.unwrap();
        assert!(received.kept.bytes > 70 * GROUP);
        let case = format!("{old:o} {sent:o}");
        let new = fs::metadata(&paths[1]).unwrap().mode() & 0o777;
        assert_eq!(new, mode & !umask, "{case}");
        let told = received.altered.examples;
        assert_eq!(
            told.len(),
            usize::from(new != sent & !umask),
            "{case}: {told:?}"
        );
        assert!(told.iter().all(|told| told.contains("--perms")), "{told:?}");
    }
}

/// What somebody does to the file that is there, after its groups were told.
#[tokio::test]
async fn what_changes_beside_a_part_is_not_kept() {
    let (old, mut new) = (content(4 * G), content(4 * G));
    new[0] ^= 1;
    new[3 * G] ^= 1;
    let mut other = old.clone();
    other[2 * G] ^= 1;
    for (change, problem) in [
        ("written", Some("BLAKE3 hash")),
        ("cut", Some("reading what was there")),
        ("replaced", None),
        ("removed", None),
    ] {
        let to = tempdir().unwrap();
        let path = to.path().join("top");
        file(&to, "top", &old);
        set_time(&path, 5, 0);
        fs::write(left(&to, "", "top"), &new[..G]).unwrap();
        let (ours, theirs) = pair();
        let play = async {
            let mut sender = Puppet::greeted(ours, Role::Sender).await;
            let offered = entry("top", Kind::File, 4 * GROUP);
            sender.offer(vec![offered]).await;
            while !matches!(sender.hear().await, Some(Message::Basis(told)) if told.len() == 4) {}
            match change {
                "written" => fs::write(&path, &other).unwrap(),
                "cut" => fs::write(&path, &old[..2 * G]).unwrap(),
                "replaced" => {
                    fs::write(to.path().join("new"), &other).unwrap();
                    fs::rename(to.path().join("new"), &path).unwrap();
                }
                _ => fs::remove_file(&path).unwrap(),
            }
            let before = fs::read(&path).ok();
            sender.say(&Message::Kept(3)).await;
            sender.data(&new[3 * G..]).await;
            sender.trailer(&new).await;
            let told = match problem {
                Some(_) => sender.hear_failure().await.to_string(),
                None => {
                    while !matches!(sender.hear().await, Some(Message::Done { .. })) {}
                    sender.say(&Message::Bye).await;
                    String::new()
                }
            };
            (told, before)
        };
        let receiving = receive(theirs, to.path(), overwriting(), Progress::new());
        let ((told, before), received) = tokio::join!(play, receiving);
        assert_eq!(received.is_err(), problem.is_some(), "{change}");
        assert!(told.contains(problem.unwrap_or("")), "{change}: {told}");
        let after = fs::read(&path).ok();
        match problem {
            Some(_) => assert!(after == before, "{change}"),
            None => assert!(after.as_ref() == Some(&new), "{change}"),
        }
    }
}

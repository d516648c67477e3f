//! Transfers that go on where others have ended, and files that are there already.

use super::*;
use manyway_transfer::GROUP;
use proptest::prelude::*;
use std::time::Duration;
use tempfile::{TempDir, tempdir};

pub(super) const G: usize = GROUP as usize;

pub(super) fn file(dir: &TempDir, name: &str, bytes: &[u8]) {
    let path = dir.path().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, bytes).unwrap();
    set_time(&path, 1_000_000_000, 123_456_789);
}

/// Whether a transfer has locked the directory in which it deletes, or else an incomplete file.
fn is_held(to: &Path, deletes: bool, contents: bool) -> bool {
    let is_locked = |path: &Path| {
        let locked = fs::File::open(path).map(|file| file.try_lock());
        matches!(locked, Ok(Err(fs::TryLockError::WouldBlock)))
    };
    let top = to.join("top");
    if deletes {
        return is_locked(if contents { to } else { &top });
    }
    let parts = fs::read_dir(top).into_iter().flatten().flatten();
    let mut parts = parts
        .filter(|part| crate::files::receive::is_temporary(&part.file_name().to_string_lossy()));
    // Another transfer waits for a file that holds a group. It was locked before that: this does
    // not come between creating and locking.
    let is_worth_it = |path: &Path| fs::metadata(path).is_ok_and(|found| found.len() >= GROUP);
    parts.any(|part| is_worth_it(&part.path()) && is_locked(&part.path()))
}

/// A sender that was killed says nothing more, and its connection isn't given up for long. Another
/// transfer waits for the incomplete file, for a directory or for all of what is received.
#[tokio::test]
async fn a_silent_transfer_gives_way_to_one_that_waits_for_it() {
    for (deletes, contents) in [(false, false), (true, false), (true, true)] {
        let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
        file(&from, "top/file", &content(20 * G));
        let top = from.path().join("top");
        let sources = || match contents {
            true => Sources::contents(&top).unwrap(),
            false => Sources::new([&top]).unwrap(),
        };
        let options = ReceiveOptions {
            delete: deletes,
            ..overwriting()
        };
        let ((killed, (out, mut back)), ((reader, mut on), receiver)) = (pair(), pair());
        let first = tokio::spawn(send(killed, sources(), Progress::new()));
        let silent = async {
            // With less than a group, nobody waits for the file.
            let bytes = if deletes { GROUP / 2 } else { 5 * GROUP };
            let (mut out, mut reader) = (out.take(bytes), reader);
            tokio::select! {
                _ = tokio::io::copy(&mut out, &mut on) => {}
                _ = tokio::io::copy(&mut reader, &mut back) => {}
            }
            // Both of its streams stay open. The second begins once the first holds what it needs.
            while !is_held(to.path(), deletes, contents) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            let begun = std::time::Instant::now();
            let (ours, theirs) = pair();
            let second = tokio::join!(
                send(ours, sources(), Progress::new()),
                receive(theirs, to.path(), options.clone(), Progress::new())
            );
            first.abort();
            (second, begun.elapsed(), on)
        };
        let old = receive(receiver, to.path(), options.clone(), Progress::new());
        let case = format!("delete {deletes}, contents {contents}");
        let both = async { tokio::join!(silent, old) };
        let both = tokio::time::timeout(Duration::from_secs(60), both).await;
        let (((sent, received), took, _on), old) = both.expect(&case);
        assert_eq!(received.unwrap().kept, sent.unwrap().kept, "{case}");
        assert!(took < Duration::from_secs(15), "{case}: {took:?}");
        let old = old.unwrap_err().to_string();
        assert!(old.contains("the sender was silent"), "{case}: {old}");
        let copy = match contents {
            true => to.path().join("file"),
            false => to.path().join("top/file"),
        };
        assert_eq!(fs::read(copy).unwrap(), content(20 * G), "{case}");
    }
}

/// A transfer whose connection dies when the sender has sent so many bytes.
pub(super) async fn cut_off(from: &Path, to: &Path, options: ReceiveOptions, bytes: u64) {
    let ((sender, (out, mut back)), ((reader, mut on), receiver)) = (pair(), pair());
    let link = async {
        let mut out = out.take(bytes);
        let mut reader = reader;
        tokio::select! {
            _ = tokio::io::copy(&mut out, &mut on) => {}
            _ = tokio::io::copy(&mut reader, &mut back) => {}
        }
        drop((out, on, reader, back));
    };
    let sources = Sources::new([from]).unwrap();
    let ((), _, _) = tokio::join!(
        link,
        send(sender, sources, Progress::new()),
        receive(receiver, to, options, Progress::new())
    );
}

/// A whole transfer of `top`, and what both sides say was there.
pub(super) async fn whole(from: &TempDir, to: &TempDir, options: ReceiveOptions) -> Kept {
    let (sent, received) = transfer([from.path().join("top")], to.path(), options).await;
    let (sent, received) = (sent.unwrap(), received.unwrap());
    assert_eq!((sent.kept, &sent.files), (received.kept, &received.files));
    for file in &sent.files {
        let here = fs::read(to.path().join(&file.name)).unwrap();
        assert_eq!(file.blake3, Digest(*blake3::hash(&here).as_bytes()));
    }
    sent.kept
}

pub(super) fn overwriting() -> ReceiveOptions {
    policy(Policy::Overwrite)
}

pub(super) fn checking(with: Policy) -> ReceiveOptions {
    ReceiveOptions {
        checksum: true,
        ..policy(with)
    }
}

#[tokio::test]
async fn what_is_there_with_its_size_and_time_is_not_sent() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    for (name, len) in [("top/a", 10), ("top/b", 200_000), ("top/d/c", 0)] {
        file(&from, name, &content(len));
    }
    assert_eq!(
        whole(&from, &to, ReceiveOptions::default()).await,
        Kept::default()
    );
    let before = snapshot(to.path());
    let all = Kept {
        files: 3,
        bytes: 200_010,
    };
    assert_eq!(whole(&from, &to, ReceiveOptions::default()).await, all);
    assert_eq!(snapshot(to.path()), before);
    // Another time, another file.
    set_time(&to.path().join("top/a"), 1_000_000_001, 0);
    let ends = transfer(
        [from.path().join("top")],
        to.path(),
        ReceiveOptions::default(),
    )
    .await;
    assert_eq!(ends.0.unwrap_err().code(), Some(FailureCode::Conflict));
    let others = Kept {
        files: 2,
        bytes: 200_000,
    };
    assert_eq!(whole(&from, &to, overwriting()).await, others);
    assert_eq!(snapshot(to.path())["top/a"], before["top/a"]);
}

/// File systems keep times in units of their own. A file that another program wrote may have any
/// time: where the file system keeps nanoseconds, whole seconds are no cut ones.
#[tokio::test]
async fn a_time_that_the_file_system_has_cut_is_the_same() {
    const SECOND: i128 = 1_000_000_000;
    for unit in [1, 100, 1000, 10_000_000, SECOND, 2 * SECOND] {
        let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
        file(&from, "top/a", b"one");
        file(&from, "top/d/b", b"one");
        set_time(&from.path().join("top/a"), 999_999_999, 123_456_789);
        let options = || ReceiveOptions {
            disk: Some(super::disk::TestDisk::that_cuts_times(unit)),
            ..overwriting()
        };
        whole(&from, &to, options()).await;
        assert_eq!(whole(&from, &to, options()).await.files, 2, "{unit}");
        assert_eq!(finals(to.path()), ["top", "top/a", "top/d", "top/d/b"]);
        let refuse = ReceiveOptions {
            policy: Policy::Refuse,
            ..options()
        };
        assert_eq!(whole(&from, &to, refuse).await.files, 2, "{unit}");
        for (seconds, nanos, units) in [
            (999_999_999, 123_456_789, 1),
            (999_999_999, 123_456_700, 100),
            (999_999_999, 123_456_000, 1000),
            (999_999_999, 120_000_000, 10_000_000),
            (999_999_999, 0, SECOND),
            (999_999_998, 0, 2 * SECOND),
            (999_999_999, 123_456_780, 0),
            (999_999_999, 123_456_800, 0),
            (1_000_000_000, 0, 0),
            (999_999_998, 5, 0),
        ] {
            let there = to.path().join("top/a");
            set_time(&there, seconds, nanos);
            // One time of the status in a hundred looks cut by chance.
            while fs::metadata(&there).unwrap().ctime_nsec() % 100 == 0 {
                set_time(&there, seconds, nanos);
            }
            // The very time is always the same.
            let same = 1 + u64::from(units == unit || units == 1);
            let dry = Sources::new([from.path().join("top")]).unwrap().dry_run();
            let changed = || fs::metadata(to.path().join("top")).unwrap().modified();
            let before = changed().unwrap();
            let (dry, _) = super::sync::sync(dry, &to, options()).await.unwrap();
            assert_eq!(changed().unwrap(), before);
            // Without a file that it makes, it goes by the time of the status, which isn't cut.
            let sends = dry
                .planned
                .iter()
                .any(|planned| planned.name.as_str() == "top/a");
            assert_eq!(sends, units != 1, "{unit}: {seconds}.{nanos}");
            let kept = whole(&from, &to, options()).await.files;
            assert_eq!(kept, same, "{unit}: {seconds}.{nanos}");
        }
    }
}

#[tokio::test]
async fn checksums_compare_content() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    let (a, b) = (content(3 * G + 5), content(10));
    file(&from, "top/a", &a);
    file(&from, "top/b", &b);
    file(&to, "top/a", &a);
    // It has the size and the time, and isn't the same.
    file(&to, "top/b", &[0; 10]);
    let there = a.len() as u64;
    let by_time = whole(&from, &to, ReceiveOptions::default()).await;
    assert_eq!(by_time.bytes, there + 10);
    let paths = [from.path().join("top")];
    let ends = transfer(&paths, to.path(), checking(Policy::Refuse)).await;
    assert_eq!(
        ends.1.unwrap_err().to_string(),
        "top/b: it exists already at the receiver; receive with --overwrite to replace it, with \
         --rename to keep both"
    );
    let kept = whole(&from, &to, checking(Policy::Overwrite)).await;
    assert_eq!((kept.files, kept.bytes), (0, there));
    assert_eq!(fs::read(to.path().join("top/b")).unwrap(), b);
    // Once the content is the same, the time doesn't matter.
    set_time(&to.path().join("top/a"), 5, 0);
    let kept = whole(&from, &to, checking(Policy::Refuse)).await;
    assert_eq!(kept.bytes, there + 10);
    let seconds = || fs::metadata(to.path().join("top/a")).unwrap().mtime();
    assert_eq!(seconds(), 5);
    whole(&from, &to, checking(Policy::Overwrite)).await;
    assert_eq!(seconds(), 1_000_000_000);
}

/// A sender may keep what it doesn't know: that stays as closed as it was.
#[tokio::test]
async fn what_is_kept_is_not_opened_to_others() {
    let bytes = content(2 * G);
    for (keep_modes, new) in [(false, 0o600), (true, 0o644)] {
        for changed in [false, true] {
            let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
            let mut sent = bytes.clone();
            sent[G] ^= u8::from(changed);
            file(&from, "top", &sent);
            file(&to, "top", &bytes);
            set_mode(&to.path().join("top"), 0o600);
            let options = ReceiveOptions {
                keep_modes,
                ..checking(Policy::Overwrite)
            };
            let kept = whole(&from, &to, options).await;
            assert_eq!(kept.bytes, if changed { GROUP } else { 2 * GROUP });
            let mode = fs::metadata(to.path().join("top")).unwrap().mode() & 0o777;
            assert_eq!(mode, new, "{keep_modes} {changed}");
        }
    }
}

/// Of a file that has changed, only the groups that differ are sent, and the new file is a new one.
#[tokio::test]
async fn a_changed_file_is_sent_in_part() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    let old = content(10 * G + 100);
    let mut new = old.clone();
    new[3 * G] ^= 1;
    for (name, new) in [
        ("changed", new),
        ("grown", content(12 * G)),
        ("cut", content(5 * G + 1)),
    ] {
        let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
        file(&from, "top/f", &new);
        file(&to, "top/f", &old);
        set_time(&to.path().join("top/f"), 77, 0);
        let open = fs::File::open(to.path().join("top/f")).unwrap();
        let kept = whole(&from, &to, overwriting()).await;
        let same = match name {
            "changed" => 9 * G + 100,
            "grown" => 10 * G,
            _ => 5 * G + 1,
        };
        assert_eq!(kept.bytes, same as u64, "{name}");
        assert_eq!(finals(to.path()), ["top", "top/f"]);
        // Whoever has the old one open goes on reading that.
        let mut reader = &open;
        let mut seen = Vec::new();
        std::io::Read::read_to_end(&mut reader, &mut seen).unwrap();
        assert!(seen == old, "{name}");
    }
    drop((from, to));
}

/// What an interrupted transfer has left is found by its place, and used as far as its content is
/// right.
#[tokio::test]
async fn an_interrupted_transfer_goes_on_where_it_was() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    let len = 100 * G + 17;
    file(&from, "top/a", &content(100));
    file(&from, "top/b", &content(len));
    set_time(&from.path().join("top"), 500_000_000, 0);
    set_mode(&from.path().join("top"), 0o751);
    let options = || ReceiveOptions {
        keep_modes: true,
        ..ReceiveOptions::default()
    };
    let top = from.path().join("top");
    let damage = |at: usize| {
        let left = names(to.path());
        let part = left
            .iter()
            .find(|name| name.starts_with("top/.b.manyway-part-"));
        let path = to.path().join(part.expect("it stays"));
        let mut bytes = fs::read(&path).unwrap();
        bytes[at] ^= 1;
        fs::write(&path, &bytes).unwrap();
        bytes.len() as u64
    };
    cut_off(&top, to.path(), options(), 40 * GROUP).await;
    let first = damage(2 * G);
    assert!(first > 35 * GROUP && first < 40 * GROUP, "{first}");
    // Again, and again.
    cut_off(&top, to.path(), options(), 20 * GROUP).await;
    let second = damage(7 * G);
    assert!(second > first + 15 * GROUP, "{first} {second}");
    let kept = whole(&from, &to, options()).await;
    let (whole_groups, damaged) = (second / GROUP, 1);
    assert_eq!(
        (kept.files, kept.bytes),
        (1, 100 + (whole_groups - damaged) * GROUP)
    );
    assert_eq!(snapshot(to.path()), snapshot(from.path()));
}

/// A file of which a part was there gets the mode that a new one would get.
#[tokio::test]
async fn the_umask_holds_for_what_is_gone_on_with() {
    let umask = u32::from(manyway_os::umask());
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    file(&from, "top", &content(5 * G));
    set_mode(&from.path().join("top"), 0o777);
    let top = from.path().join("top");
    cut_off(&top, to.path(), ReceiveOptions::default(), 3 * GROUP).await;
    assert!(whole(&from, &to, ReceiveOptions::default()).await.bytes > 0);
    let mode = fs::metadata(to.path().join("top")).unwrap().mode() & 0o777;
    assert_eq!(mode, 0o777 & !umask);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Wherever transfers are cut off, and whatever was there, the last one completes the tree, and
    /// nothing under a final name is ever anything but the source.
    #[test]
    fn transfers_cut_off_anywhere_add_up(
        cuts in prop::collection::vec(0..40 * GROUP, 1..6),
        sizes in prop::collection::vec(0..12 * GROUP, 1..6),
        overwrite in any::<bool>(),
        checksum in any::<bool>(),
    ) {
        let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
        for (n, len) in sizes.iter().enumerate() {
            let bytes = content(*len as usize + n);
            file(&from, &format!("top/{}/f{n}", n % 2), &bytes);
            if overwrite && n % 3 == 0 {
                let there = to.path().join(format!("top/{}/f{n}", n % 2));
                fs::create_dir_all(there.parent().unwrap()).unwrap();
                fs::write(&there, [&bytes[..bytes.len() / 2], b"other"].concat()).unwrap();
            }
        }
        let options = || ReceiveOptions {
            checksum,
            keep_modes: true,
            ..policy(if overwrite { Policy::Overwrite } else { Policy::Refuse })
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let top = from.path().join("top");
        runtime.block_on(async {
            for cut in cuts {
                cut_off(&top, to.path(), options(), cut).await;
                for name in finals(to.path()) {
                    let (there, here) = (from.path().join(&name), to.path().join(&name));
                    if here.is_file() && !overwrite {
                        assert!(fs::read(there).unwrap() == fs::read(here).unwrap(), "{name}");
                    }
                }
            }
            whole(&from, &to, options()).await;
        });
        let (source, mut target) = (snapshot(from.path()), snapshot(to.path()));
        if overwrite {
            // Directories that were there keep their mode and time.
            target.retain(|name, _| source.contains_key(name));
            let files = |all: &BTreeMap<String, String>| {
                let mut all = all.clone();
                all.retain(|_, what| what.contains(" file of "));
                all
            };
            prop_assert_eq!(files(&source), files(&target));
        } else {
            prop_assert_eq!(source, target);
        }
    }
}

/// Where transfers leave what is incomplete.
pub(super) fn left(to: &TempDir, above: &str, name: &str) -> std::path::PathBuf {
    let number = &blake3::hash(name.as_bytes()).to_hex()[..8];
    to.path()
        .join(above)
        .join(format!(".{name}.manyway-part-{number}"))
}

/// A file that has another name elsewhere is replaced, not changed.
#[tokio::test]
async fn a_file_with_two_names_keeps_its_mode_and_time() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    let bytes = content(2 * G + 1);
    file(&from, "top/f", &bytes);
    file(&to, "twin", &bytes);
    let twin = to.path().join("twin");
    set_mode(&twin, 0o600);
    set_time(&twin, 5, 0);
    fs::create_dir(to.path().join("top")).unwrap();
    fs::hard_link(&twin, to.path().join("top/f")).unwrap();
    let kept = whole(&from, &to, checking(Policy::Overwrite)).await;
    assert_eq!(kept.bytes, bytes.len() as u64);
    let (twin, new) = (
        fs::metadata(twin).unwrap(),
        fs::metadata(to.path().join("top/f")).unwrap(),
    );
    assert_eq!((twin.mode() & 0o777, twin.mtime()), (0o600, 5));
    assert_eq!(new.mtime(), 1_000_000_000);
}

/// What is copied fills the disk, too, and so does a file whose part was there and is gone.
#[tokio::test]
async fn the_allowance_holds_for_what_is_written() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    let (old, size) = (content(4 * G), 4 * GROUP);
    let mut new = old.clone();
    new[3 * G] ^= 1;
    file(&from, "top/f", &new);
    file(&to, "top/f", &old);
    set_time(&to.path().join("top/f"), 5, 0);
    let allowance = crate::files::Allowance::new(size + GROUP);
    let options = |policy| ReceiveOptions {
        allowance: Some(allowance.clone()),
        policy,
        ..ReceiveOptions::default()
    };
    assert_eq!(
        whole(&from, &to, options(Policy::Overwrite)).await.bytes,
        3 * GROUP
    );
    assert_eq!(allowance.left(), GROUP);
    // Somebody is at work on the part: there will be another file.
    fs::remove_file(to.path().join("top/f")).unwrap();
    let part = left(&to, "top", "f");
    fs::write(&part, &new[..3 * G]).unwrap();
    set_mode(&part, 0o600);
    let other = fs::File::open(&part).unwrap();
    other.lock().unwrap();
    let paths = [from.path().join("top")];
    let work = async {
        for seconds in 10.. {
            set_time(&part, seconds, 0);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let transferring = transfer(&paths, to.path(), options(Policy::Refuse));
    let ends = tokio::select! {
        ends = transferring => ends,
        () = work => unreachable!(),
    };
    assert_eq!(ends.1.unwrap_err().code(), Some(FailureCode::Refused));
    assert_eq!(allowance.left(), 0);
    assert_eq!(finals(to.path()), ["top"]);
}

//! What interrupted transfers leave, and who else has a hand on it.

use super::resume::{G, checking, cut_off, file, left, overwriting, whole};
use super::sync::sync;
use super::*;
use manyway_transfer::GROUP;
use std::time::Duration;
use tempfile::tempdir;

/// A transfer that was thought dead may place a file while another one receives it, on any file
/// system.
#[tokio::test]
async fn a_file_that_another_transfer_places_meanwhile() {
    for unit in [1, 2] {
        let to = tempdir().unwrap();
        let bytes = content(100);
        let (ours, theirs) = pair();
        let play = async {
            let mut sender = Puppet::greeted(ours, Role::Sender).await;
            let mut file = entry("f", Kind::File, 100);
            file.mtime.seconds += 1;
            sender.offer(vec![file]).await;
            assert_eq!(sender.hear().await, Some(Message::Accept));
            fs::write(to.path().join("f"), &bytes).unwrap();
            set_time(&to.path().join("f"), 1_000_000_002 - unit, 0);
            sender.data(&bytes).await;
            sender.trailer(&bytes).await;
            while !matches!(sender.hear().await, None | Some(Message::Done { .. })) {}
            sender.say(&Message::Bye).await;
        };
        let unit = i128::from(unit) * 1_000_000_000;
        let options = ReceiveOptions {
            disk: Some(super::disk::TestDisk::that_cuts_times(unit)),
            ..ReceiveOptions::default()
        };
        let receiving = receive(theirs, to.path(), options, Progress::new());
        let ((), received) = tokio::join!(play, receiving);
        received.unwrap();
        assert_eq!(names(to.path()), ["f"]);
    }
}

/// A name that somebody else takes while its file comes: what has come stays for another transfer.
#[tokio::test]
async fn a_complete_file_whose_name_is_taken_is_kept() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    let bytes = content(3 * G + 1);
    file(&from, "top", &bytes);
    let (ours, theirs) = pair();
    let play = async {
        let mut sender = Puppet::greeted(ours, Role::Sender).await;
        let size = bytes.len() as u64;
        sender.offer(vec![entry("top", Kind::File, size)]).await;
        assert_eq!(sender.hear().await, Some(Message::Accept));
        fs::write(to.path().join("top"), "mine").unwrap();
        sender.data(&bytes).await;
        sender.trailer(&bytes).await;
        sender.hear_failure().await
    };
    let options = ReceiveOptions::default;
    let receiving = receive(theirs, to.path(), options(), Progress::new());
    let (heard, received) = tokio::join!(play, receiving);
    assert_eq!(heard.code, FailureCode::Conflict);
    received.unwrap_err();
    assert_eq!(fs::read(to.path().join("top")).unwrap(), b"mine");
    fs::remove_file(to.path().join("top")).unwrap();
    let kept = whole(&from, &to, options()).await;
    assert_eq!(kept.bytes, bytes.len() as u64);
    assert_eq!(names(to.path()), ["top"]);
}

/// A part that is longer than the file, one with its final mode, and one of which there
/// are two names.
#[tokio::test]
async fn strange_parts() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    let bytes = content(4 * G + 3);
    file(&from, "top/f", &bytes);
    cut_off(
        &from.path().join("top"),
        to.path(),
        ReceiveOptions::default(),
        3 * GROUP,
    )
    .await;
    let left = names(to.path());
    let part = left
        .iter()
        .find(|name| name.starts_with("top/.f."))
        .unwrap();
    let part = to.path().join(part);
    let longer = [&bytes[..], &bytes[..]].concat();
    let lay = |mode: u32| {
        let _ = fs::remove_file(to.path().join("top/f"));
        fs::write(&part, &longer).unwrap();
        set_mode(&part, mode);
    };
    lay(0o600);
    let all = bytes.len() as u64;
    assert_eq!(
        whole(&from, &to, ReceiveOptions::default()).await.bytes,
        all
    );
    // A receiver that is killed right before it names the file leaves it with its final mode.
    for mode in [0o644, 0o444, 0o666] {
        lay(mode);
        let kept = whole(&from, &to, ReceiveOptions::default()).await;
        assert_eq!((kept.bytes, part.exists()), (all, false));
    }
    // Until it is complete, it is its owner's alone.
    let _ = fs::remove_file(to.path().join("top/f"));
    fs::write(&part, &bytes[..2 * G]).unwrap();
    set_mode(&part, 0o644);
    let top = from.path().join("top");
    cut_off(&top, to.path(), ReceiveOptions::default(), GROUP / 2).await;
    assert_eq!(fs::metadata(&part).unwrap().mode() & 0o777, 0o600);
    lay(0o600);
    fs::hard_link(&part, to.path().join("other")).unwrap();
    assert_eq!(whole(&from, &to, ReceiveOptions::default()).await.bytes, 0);
    assert!(fs::read(to.path().join("other")).unwrap() == longer);
}

/// The connection of a transfer may be lost without its knowledge: the next one waits for its end.
/// One that is at work isn't waited for.
#[tokio::test(flavor = "multi_thread")]
async fn a_part_that_another_transfer_has_open() {
    for alive in [false, true] {
        let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
        let bytes = content(8 * G);
        file(&from, "top", &bytes);
        let (ours, theirs) = pair();
        let dir = to.path().to_owned();
        let first = tokio::spawn(async move {
            receive(theirs, dir, ReceiveOptions::default(), Progress::new()).await
        });
        let mut sender = Puppet::greeted(ours, Role::Sender).await;
        sender
            .offer(vec![entry("top", Kind::File, 8 * GROUP)])
            .await;
        assert_eq!(sender.hear().await, Some(Message::Accept));
        sender.data(&bytes[..3 * G]).await;
        while fs::metadata(
            to.path()
                .join(names(to.path()).first().unwrap_or(&String::new())),
        )
        .is_ok_and(|part| part.len() < 3 * GROUP || part.is_dir())
        {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let (done, mut is_done) = tokio::sync::oneshot::channel();
        let other = async {
            // What was on its way is still written, and then nothing more.
            let (most, pause) = if alive { (usize::MAX, 100) } else { (5, 10) };
            for group in bytes[3 * G..].chunks(1000).take(most) {
                let pause = tokio::time::sleep(Duration::from_millis(pause));
                tokio::select! {
                    _ = &mut is_done => break,
                    () = pause => sender.data(group).await,
                }
            }
            if !alive {
                tokio::time::sleep(Duration::from_millis(2400)).await;
            }
            drop(sender);
            first.await.unwrap().unwrap_err();
        };
        let second = async {
            let kept = whole(&from, &to, ReceiveOptions::default()).await;
            done.send(()).unwrap();
            kept
        };
        let (kept, ()) = tokio::join!(second, other);
        assert_eq!(kept.bytes, if alive { 0 } else { 3 * GROUP });
        assert!(fs::read(to.path().join("top")).unwrap() == bytes);
    }
}

/// Whatever has the name of an incomplete file or directory and isn't one, stays, and hinders
/// nothing.
#[tokio::test]
async fn names_of_parts_that_are_taken() {
    let (from, elsewhere) = (tempdir().unwrap(), tempdir().unwrap());
    file(&from, "top/f", &content(3 * G));
    fs::write(elsewhere.path().join("secret"), content(2 * G)).unwrap();
    for obstacle in ["directory", "pipe", "socket", "link", "twin"] {
        let to = tempdir().unwrap();
        let secret = elsewhere.path().join("secret");
        let lay = |at: &Path| match obstacle {
            "directory" => fs::create_dir(at).unwrap(),
            "pipe" => nix::unistd::mkfifo(at, nix::sys::stat::Mode::S_IRWXU).unwrap(),
            "socket" => drop(std::os::unix::net::UnixListener::bind(at).unwrap()),
            "link" => std::os::unix::fs::symlink(&secret, at).unwrap(),
            _ => fs::hard_link(&secret, at).unwrap(),
        };
        lay(&left(&to, "", "top"));
        whole(&from, &to, ReceiveOptions::default()).await;
        fs::remove_file(to.path().join("top/f")).unwrap();
        lay(&left(&to, "top", "f"));
        whole(&from, &to, ReceiveOptions::default()).await;
        for part in [left(&to, "", "top"), left(&to, "top", "f")] {
            assert!(part.symlink_metadata().is_ok(), "{obstacle}");
        }
        assert_eq!(names(to.path()).len(), 4, "{obstacle}");
        assert!(fs::read(&secret).unwrap() == content(2 * G), "{obstacle}");
    }
}

/// A file system may give what we make to another user: it is ours all the same. What that user has
/// laid elsewhere isn't.
#[tokio::test]
async fn parts_that_belong_to_another_user() {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    const THEIRS: u32 = 54_321;
    let from = tempdir().unwrap();
    file(&from, "top/f", &content(20 * G));
    set_mode(&from.path().join("top"), 0o751);
    let top = from.path().join("top");
    for made_for in [Some(THEIRS), Some(THEIRS + 1), None] {
        let to = tempdir().unwrap();
        let on = |owner: Option<u32>| ReceiveOptions {
            disk: owner.map(|owner| disk::TestDisk::that_gives_files_to(owner) as _),
            keep_modes: true,
            ..ReceiveOptions::default()
        };
        cut_off(&top, to.path(), on(Some(THEIRS)), 10 * GROUP).await;
        let part = left(&to, "top", "f");
        assert_eq!(fs::metadata(&part).unwrap().uid(), THEIRS);
        // A dry run makes nothing to find out whose it is.
        let changed = || fs::metadata(to.path().join("top")).unwrap().modified();
        let before = changed().unwrap();
        let dry = Sources::new([&top]).unwrap().dry_run();
        sync(dry, &to, on(made_for)).await.unwrap();
        assert_eq!(changed().unwrap(), before);
        let kept = whole(&from, &to, on(made_for)).await.bytes;
        if made_for == Some(THEIRS) {
            assert!(kept > 5 * GROUP, "{kept}");
            assert_eq!(snapshot(to.path()), snapshot(from.path()));
        } else {
            assert_eq!(kept, 0);
            assert_eq!(
                names(to.path()).len(),
                4,
                "the mark, the part, and both names"
            );
        }
    }
}

/// Nor is one of another user removed for its age.
#[tokio::test]
async fn old_parts_that_belong_to_another_user() {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    const THEIRS: u32 = 54_321;
    let from = tempdir().unwrap();
    file(&from, "top/f", &content(G));
    for ours in [false, true] {
        let to = tempdir().unwrap();
        let old = to.path().join(".old.manyway-part-01234567");
        fs::write(&old, "x").unwrap();
        std::os::unix::fs::chown(&old, Some(THEIRS), None).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        let options = ReceiveOptions {
            keep_parts: Duration::from_millis(1),
            disk: ours.then(|| disk::TestDisk::that_gives_files_to(THEIRS) as _),
            ..ReceiveOptions::default()
        };
        whole(&from, &to, options).await;
        let end = std::time::Instant::now() + Duration::from_secs(if ours { 60 } else { 1 });
        while old.exists() && std::time::Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(old.exists(), !ours);
    }
}

/// Parts stay only where the next transfer looks for them.
#[tokio::test]
async fn parts_that_no_transfer_finds_do_not_stay() {
    let from = tempdir().unwrap();
    file(&from, "f", &content(20 * G));
    for rename in [false, true] {
        let to = tempdir().unwrap();
        let mut options = ReceiveOptions::default();
        match rename {
            true => options.policy = Policy::Rename,
            false => fs::create_dir(left(&to, "", "f")).unwrap(),
        }
        let before = names(to.path());
        cut_off(&from.path().join("f"), to.path(), options, 10 * GROUP).await;
        assert_eq!(names(to.path()), before);
    }
}

#[tokio::test]
async fn what_an_interrupted_transfer_left_outlives_one_with_other_names() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    file(&from, "f", &content(20 * G));
    let path = from.path().join("f");
    cut_off(&path, to.path(), ReceiveOptions::default(), 10 * GROUP).await;
    let before = fs::read(left(&to, "", "f")).unwrap();
    let options = ReceiveOptions {
        policy: Policy::Rename,
        ..ReceiveOptions::default()
    };
    transfer([path], to.path(), options).await.1.unwrap();
    assert!(fs::read(left(&to, "", "f")).unwrap() == before);
}

/// Who could send such names could have a directory that exists get another mode.
#[tokio::test]
async fn what_has_the_name_of_a_part_is_not_sent_and_not_taken() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    file(&from, "top/d/f", b"f");
    let parts = [".d.Manyway-Part-0123ABCD", ".d.manyway-part-0123abcd"];
    for part in parts {
        file(&from, &format!("top/{part}"), b"");
    }
    // A receiver that was killed may have left a link, too.
    let link = ".l.manyway-part-0123abcd";
    std::os::unix::fs::symlink("d", from.path().join("top").join(link)).unwrap();
    let ends = transfer(
        [from.path().join("top")],
        to.path(),
        ReceiveOptions::default(),
    )
    .await;
    let skipped = ends.0.unwrap().skipped;
    assert_eq!(
        skipped.examples,
        [parts[0], parts[1], link].map(|name| format!("top/{name}: an incomplete file"))
    );
    ends.1.unwrap();
    assert_eq!(names(to.path()), ["top", "top/d", "top/d/f"]);
    for name in parts {
        let (ours, theirs) = pair();
        let play = async {
            let mut sender = Puppet::greeted(ours, Role::Sender).await;
            sender
                .offer(vec![
                    entry("top", Kind::Directory, 0),
                    entry(&format!("top/{name}"), Kind::File, 0),
                ])
                .await;
            sender.hear_failure().await
        };
        let receiving = receive(theirs, to.path(), overwriting(), Progress::new());
        let (told, received) = tokio::join!(play, receiving);
        assert_eq!(received.unwrap_err().code(), Some(FailureCode::Refused));
        assert_eq!(told.name.as_deref(), Some(&*format!("top/{name}")));
    }
}

/// A directory that nobody may write to gets its mode when its content is complete.
#[tokio::test]
async fn an_incomplete_directory_can_be_written_to() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    file(&from, "top/a", &content(10));
    file(&from, "top/f", &content(20 * G));
    let top = from.path().join("top");
    set_mode(&top, 0o555);
    let mode = || fs::metadata(to.path().join("top")).unwrap().mode() & 0o777;
    cut_off(&top, to.path(), ReceiveOptions::default(), 10 * GROUP).await;
    assert_eq!(mode() & 0o700, 0o700);
    whole(&from, &to, ReceiveOptions::default()).await;
    assert_eq!(mode(), 0o555);
}

/// A receiver that nobody wants any more doesn't wait for another transfer's end.
#[tokio::test]
async fn nothing_waits_for_a_part_when_the_transfer_is_over() {
    for lost in [false, true] {
        let to = tempdir().unwrap();
        let part = left(&to, "", "f");
        fs::write(&part, content(3 * G)).unwrap();
        set_mode(&part, 0o600);
        let other = fs::File::open(&part).unwrap();
        other.lock().unwrap();
        let (ours, (reader, writer)) = pair();
        let (cut, is_cut) = tokio::sync::oneshot::channel::<()>();
        let progress = Progress::new();
        let (dir, told) = (to.path().to_owned(), progress.clone());
        let receiving = tokio::spawn(async move {
            let reader = reader.chain(Broken(is_cut));
            receive((reader, writer), dir, ReceiveOptions::default(), told).await
        });
        let mut sender = Puppet::greeted(ours, Role::Sender).await;
        sender.offer(vec![entry("f", Kind::File, 4 * GROUP)]).await;
        while sender.hear().await != Some(Message::Accept) {}
        if lost {
            let _ = sender.writer.shutdown().await;
            drop(cut);
        } else {
            receiving.abort();
        }
        let begun = std::time::Instant::now();
        while std::sync::Arc::strong_count(&progress) > 1 {
            assert!(begun.elapsed() < Duration::from_secs(20), "{lost}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// A stream that fails when it is told to.
struct Broken(tokio::sync::oneshot::Receiver<()>);

impl tokio::io::AsyncRead for Broken {
    fn poll_read(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
        _: &mut tokio::io::ReadBuf<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        let cut = std::pin::Pin::new(&mut self.0).poll(context);
        cut.map(|_| Err(std::io::ErrorKind::ConnectionReset.into()))
    }
}

/// A file that may not be replaced is what counts, not what an interrupted transfer has left.
#[tokio::test]
async fn a_part_beside_a_file_that_stays() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    let bytes = content(3 * G);
    file(&from, "top/f", &bytes);
    file(&to, "top/f", &bytes);
    set_time(&to.path().join("top/f"), 5, 0);
    let part = left(&to, "top", "f");
    fs::write(&part, &bytes[..G]).unwrap();
    set_mode(&part, 0o600);
    let kept = whole(&from, &to, checking(Policy::Refuse)).await;
    assert_eq!(kept.bytes, 3 * GROUP);
}

/// The clock has leapt ahead since the transfer was interrupted: all parts look old, also to the
/// transfer that goes on with them.
#[tokio::test]
async fn what_is_needed_is_not_too_old() {
    const FILES: usize = 80;
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    let name = |n: usize| format!("top/{n:02}");
    for n in 0..FILES {
        file(&from, &name(n), &content(G + n + 1));
        let file_name = name(n)[4..].to_owned();
        let number = &blake3::hash(file_name.as_bytes()).to_hex()[..8];
        let part = format!("top/.{file_name}.manyway-part-{number}");
        file(&to, &part, &content(G));
    }
    std::thread::sleep(Duration::from_millis(2100));
    // Most are opened when the first are complete: there is time to remove the others.
    let mut pause = Some(Duration::from_millis(500));
    let disk = disk::TestDisk::that_waits_before_it_writes(move || pause.take());
    let options = ReceiveOptions {
        keep_parts: Duration::from_secs(2),
        disk: Some(disk),
        ..ReceiveOptions::default()
    };
    let kept = whole(&from, &to, options).await;
    assert_eq!(kept.bytes, (FILES * G) as u64);
}

/// A file that differs at its end is copied up to there, in steps that a `--timeout` sees, and not
/// for a transfer that is over.
#[tokio::test]
async fn what_is_copied_is_seen_and_in_vain_when_the_transfer_is_over() {
    const GROUPS: usize = 100;
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    let mut bytes = content(GROUPS * G);
    file(&to, "top", &bytes);
    bytes[GROUPS * G - 1] ^= 1;
    file(&from, "top", &bytes);
    set_time(&from.path().join("top"), 1_000_000_001, 0);
    let sources = || Sources::new([from.path().join("top")]).unwrap();

    let (written, mut steps) = tokio::sync::mpsc::unbounded_channel();
    let disk = disk::TestDisk::that_waits_before_it_writes(move || {
        written.send(()).unwrap();
        Some(Duration::from_millis(10))
    });
    let options = ReceiveOptions {
        disk: Some(disk),
        keep_parts: Duration::ZERO,
        ..overwriting()
    };
    let (ours, theirs) = pair();
    let both = async {
        tokio::join!(
            send(ours, sources(), Progress::new()),
            receive(theirs, to.path(), options, Progress::new())
        )
    };
    tokio::select! {
        _ = both => panic!("it wasn't over"),
        _ = steps.recv() => {}
    }
    let mut more = 0;
    while steps.recv().await.is_some() {
        more += 1;
    }
    assert!(more < GROUPS / 2, "{more}");

    let ((ours, theirs), progress) = (pair(), Progress::new());
    let (_, received) = tokio::join!(
        send(ours, sources(), Progress::new()),
        receive(theirs, to.path(), overwriting(), progress.clone())
    );
    received.unwrap();
    let part = progress.bytes_done() as usize;
    assert_eq!(
        (part, progress.bytes_copied() as usize),
        (G, (GROUPS - 1) * G)
    );
    assert_eq!(fs::read(to.path().join("top")).unwrap(), bytes);
}

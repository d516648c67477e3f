use super::*;
use proptest::prelude::*;
use std::os::unix::fs::symlink;
use tempfile::tempdir;

#[tokio::test]
async fn a_tree_arrives_as_it_is() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    let top = from.path().join("täp dir");
    fs::create_dir_all(top.join("empty dir")).unwrap();
    fs::create_dir_all(top.join("b/c/d")).unwrap();
    fs::write(top.join("b/c/d/deep"), content(3)).unwrap();
    fs::write(top.join("empty"), "").unwrap();
    fs::write(top.join("large"), content((2 << 20) + 17)).unwrap();
    fs::write(top.join("b.c"), content(256 << 10)).unwrap();
    for (path, mode, seconds, nanos) in [
        ("b/c/d/deep", 0o400, 5, 123_456_789),
        ("empty", 0o755, 1_700_000_000, 1),
        ("large", 0o666, 4_000_000_000, 999_999_999),
        ("b/c/d", 0o500, 86_400, 0),
        ("empty dir", 0o777, 7, 7),
        ("", 0o700, 77, 77),
    ] {
        set_mode(&top.join(path), mode);
        set_time(&top.join(path), seconds, nanos);
    }

    let options = ReceiveOptions {
        keep_modes: true,
        ..ReceiveOptions::default()
    };
    let (sent, received) = transfer([&top], to.path(), options).await;
    let (sent, received) = (sent.unwrap(), received.unwrap());
    assert_eq!(snapshot(to.path()), snapshot(from.path()));
    assert_eq!(sent.files, received.files);
    assert_eq!((sent.directories, sent.skipped.count), (5, 0));
    assert_eq!(sent.bytes, 3 + (2 << 20) + 17 + (256 << 10));
    let large = sent
        .files
        .iter()
        .find(|f| f.name == "täp dir/large")
        .unwrap();
    assert_eq!(
        large.blake3.to_string(),
        blake3::hash(&content((2 << 20) + 17)).to_hex().to_string()
    );
}

#[tokio::test]
async fn several_paths_and_no_special_bits_by_default() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    for name in ["z", "a", "m"] {
        fs::write(from.path().join(name), name).unwrap();
    }
    set_mode(&from.path().join("m"), 0o6755);
    let paths = ["z", "a", "m"].map(|name| from.path().join(name));
    let options = ReceiveOptions::default();
    let (sent, received) = transfer(&paths, to.path(), options).await;
    assert_eq!(sent.unwrap().files.len(), 3);
    received.unwrap();
    assert_eq!(names(to.path()), ["a", "m", "z"]);
    assert_eq!(
        fs::metadata(to.path().join("m")).unwrap().mode() & 0o7700,
        0o700
    );
}

#[tokio::test]
async fn many_small_files_and_progress() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    let top = from.path().join("many");
    for dir in 0..12 {
        let dir = top.join(format!("directory number {dir}"));
        fs::create_dir_all(&dir).unwrap();
        for file in 0..100 {
            fs::write(
                dir.join(format!("a file with a rather long name {file}")),
                content(file),
            )
            .unwrap();
        }
    }
    let (ours, theirs) = pair();
    let (sending, receiving) = (Progress::new(), Progress::new());
    let (sent, received) = tokio::join!(
        send(ours, Sources::new([&top]).unwrap(), sending.clone()),
        receive(
            theirs,
            to.path(),
            ReceiveOptions::default(),
            receiving.clone()
        )
    );
    assert_eq!(sent.unwrap().files, received.unwrap().files);
    assert_eq!(snapshot(to.path()), snapshot(from.path()));
    for progress in [sending, receiving] {
        assert_eq!(progress.phase(), Phase::Done);
        assert_eq!(
            (progress.files_done(), progress.files_total()),
            (1200, 1200)
        );
        assert_eq!(
            (progress.bytes_done(), progress.bytes_total()),
            (12 * 4950, 12 * 4950)
        );
    }
}

#[tokio::test]
async fn links_and_special_files() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    let top = from.path().join("top");
    fs::create_dir(&top).unwrap();
    fs::write(from.path().join("outside"), "outside").unwrap();
    symlink(from.path().join("outside"), top.join("link")).unwrap();
    symlink(from.path(), top.join("loop")).unwrap();
    nix::unistd::mkfifo(&top.join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    fs::write(top.join("file"), "file").unwrap();
    symlink(from.path().join("outside"), from.path().join("given")).unwrap();

    let (sent, received) = transfer(
        [top, from.path().join("given")],
        to.path(),
        ReceiveOptions::default(),
    )
    .await;
    let sent = sent.unwrap();
    assert_eq!((sent.skipped.count, sent.altered.count), (1, 2));
    let pipe = "top/pipe: a device, a pipe or a socket";
    assert_eq!(sent.skipped.examples, [pipe]);
    let out = "a symbolic link that leads out of the sent directory (`--links all`)";
    let received = received.unwrap();
    assert_eq!(received.skipped, sent.skipped);
    assert_eq!(
        received.altered.examples,
        [format!("top/link: {out}"), format!("top/loop: {out}")]
    );
    assert_eq!(names(to.path()), ["given", "top", "top/file"]);
    assert_eq!(fs::read(to.path().join("given")).unwrap(), b"outside");
}

#[tokio::test]
async fn the_receiving_directory_is_made_and_may_be_a_link() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    fs::write(from.path().join("f"), "f").unwrap();
    let (real, link) = (to.path().join("new/dir"), to.path().join("link"));
    let (_, received) = transfer([from.path().join("f")], &real, ReceiveOptions::default()).await;
    received.unwrap();
    symlink(&real, &link).unwrap();
    let (_, received) = transfer([from.path().join("f")], &link, policy(Policy::Rename)).await;
    assert_eq!(received.unwrap().files[0].name, "f (1)");
    assert_eq!(names(&real), ["f", "f (1)"]);
}

#[test]
fn paths_that_cannot_be_sent_are_refused_before_anything_else() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let from = tempdir().unwrap();
    let at = |name: &str| from.path().join(name);
    fs::create_dir(at("d")).unwrap();
    fs::write(at("same"), "").unwrap();
    fs::write(at("d/same"), "").unwrap();
    fs::write(at("back\\slash"), "").unwrap();
    let latin1 = from.path().join(OsStr::from_bytes(b"caf\xe9"));
    fs::write(&latin1, "").unwrap();
    let error = |paths: &[&Path]| Sources::new(paths).unwrap_err();

    let twice = error(&[&at("same"), &at("d/same")]);
    assert_eq!(twice.code(), Some(FailureCode::Conflict));
    assert!(
        twice.to_string().contains("would both be called `same`"),
        "{twice}"
    );
    assert!(
        error(&[Path::new("/")])
            .to_string()
            .contains("name the directories inside")
    );
    assert!(
        error(&[&at("missing")])
            .to_string()
            .contains("missing: cannot be sent: No such file")
    );
    assert!(
        error(&[&at("back\\slash")])
            .to_string()
            .contains("backslash; rename it")
    );
    assert!(error(&[&latin1]).to_string().contains("not UTF-8"));
    assert!(
        error(&[Path::new("/dev/null")])
            .to_string()
            .contains("neither a file nor a directory")
    );
    assert!(error(&[]).to_string().contains("nothing to send"));

    let top = |path: &Path| {
        Sources::new([path])
            .unwrap()
            .names()
            .next()
            .unwrap()
            .to_string()
    };
    let own_name = from.path().file_name().unwrap().to_str().unwrap();
    assert_eq!(top(&at("d/..")), own_name);
    assert_eq!(top(&at(".")), own_name);
    assert_eq!(top(&at("d/")), "d");
    let here = std::env::current_dir().unwrap();
    assert_eq!(
        top(Path::new(".")),
        here.file_name().unwrap().to_str().unwrap()
    );
}

/// A small random tree: for each of its files, directories on the way, a mode and a content length.
fn forest() -> impl Strategy<Value = BTreeMap<String, (u32, usize)>> {
    let mode = prop_oneof![Just(0o600u32), Just(0o644), Just(0o755), Just(0o440)];
    let len = prop_oneof![Just(0usize), 1..100usize, 200_000..600_000usize];
    prop::collection::btree_map("(d[a-c ./]{0,2}x/){0,4}[f-h.]{1,3}-", (mode, len), 1..8)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn random_trees_arrive_as_they_are(files in forest(), pipe in 1usize..70_000) {
        let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
        let top = from.path().join("top");
        for (name, (mode, len)) in files {
            let path = top.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, content(len)).unwrap();
            set_mode(&path, mode);
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (ours, theirs) = duplex(pipe);
            let options = ReceiveOptions { keep_modes: true, ..ReceiveOptions::default() };
            let (sent, received) = tokio::join!(
                send(split(ours), Sources::new([&top]).unwrap(), Progress::new()),
                receive(split(theirs), to.path(), options, Progress::new())
            );
            prop_assert_eq!(sent.unwrap().files, received.unwrap().files);
            Ok(())
        })?;
        prop_assert_eq!(snapshot(to.path()), snapshot(from.path()));
    }
}

/// Both futures may be spawned.
#[tokio::test]
async fn transfers_run_as_tasks() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    fs::write(from.path().join("f"), "f").unwrap();
    let (ours, theirs) = pair();
    let sources = Sources::new([from.path().join("f")]).unwrap();
    let sending = tokio::spawn(send(ours, sources, Progress::new()));
    let dir = to.path().to_owned();
    let receiving = receive(theirs, dir, ReceiveOptions::default(), Progress::new());
    let received = tokio::spawn(receiving).await.unwrap().unwrap();
    assert_eq!(sending.await.unwrap().unwrap().files, received.files);
}

/// A stream whose end nobody acknowledges.
struct Endless<W>(W);

impl<W: tokio::io::AsyncWrite + Unpin> tokio::io::AsyncWrite for Endless<W> {
    fn poll_write(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
        bytes: &[u8],
    ) -> std::task::Poll<std::io::Result<usize>> {
        std::pin::Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        std::pin::Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        let _ = std::pin::Pin::new(&mut self.0).poll_shutdown(context);
        std::task::Poll::Pending
    }
}

/// The sender has said that it knows everything: a round trip for the end of the stream would be
/// one too many.
#[tokio::test]
async fn a_receiver_does_not_wait_for_its_end_to_be_acknowledged() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    fs::write(from.path().join("f"), "f").unwrap();
    let sources = Sources::new([from.path().join("f")]).unwrap();
    let (ours, (reader, writer)) = pair();
    let begun = std::time::Instant::now();
    let options = ReceiveOptions::default();
    let theirs = (reader, Endless(writer));
    let (sent, received) = tokio::join!(
        send(ours, sources, Progress::new()),
        receive(theirs, to.path(), options, Progress::new())
    );
    assert_eq!(sent.unwrap().files.len(), received.unwrap().files.len());
    // It waited for five seconds.
    assert!(begun.elapsed() < std::time::Duration::from_secs(4));
}

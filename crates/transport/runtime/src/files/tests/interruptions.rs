use super::*;
use proptest::prelude::*;
use std::time::Duration;
use tempfile::tempdir;
use tokio::io::{AsyncRead, AsyncWrite};

/// Passes on bytes until the limit or the end of the stream, then closes.
async fn pass<R: AsyncRead + Unpin, W: AsyncWrite + Unpin>(reader: R, mut writer: W, limit: u64) {
    let _ = tokio::io::copy(&mut reader.take(limit), &mut writer).await;
}

/// A transfer whose connection dies after so many bytes in one of its directions.
async fn interrupted(from: &Path, to: &Path, there: u64, back: u64) -> [Option<TransferError>; 2] {
    let ((sender, (from_sender, to_sender)), ((from_receiver, to_receiver), receiver)) =
        (pair(), pair());
    let link = async {
        tokio::select! {
            () = pass(from_sender, to_receiver, there) => {}
            () = pass(from_receiver, to_sender, back) => {}
        }
        // Both directions are gone now, with all that was on its way.
    };
    let sources = Sources::new([from]).unwrap();
    let ((), sent, received) = tokio::join!(
        link,
        send(sender, sources, Progress::new()),
        receive(receiver, to, ReceiveOptions::default(), Progress::new())
    );
    [sent.err(), received.err()]
}

fn source(dir: &Path) -> std::path::PathBuf {
    let top = dir.join("top");
    fs::create_dir_all(top.join("d")).unwrap();
    for (name, len) in [("a", 10), ("b", 700_000), ("c", 0), ("d/e", 300_000)] {
        fs::write(top.join(name), content(len)).unwrap();
    }
    top
}

/// Everything at the receiver is whole, under its own name, and was sent.
fn check_whole(from: &Path, to: &Path) -> Result<(), TestCaseError> {
    for name in finals(to) {
        let (source, target) = (from.join(&name), to.join(&name));
        prop_assert!(source.exists(), "{} was not sent", name);
        if source.is_file() {
            prop_assert!(
                fs::read(source).unwrap() == fs::read(target).unwrap(),
                "{} is not whole",
                name
            );
        }
    }
    Ok(())
}

const BYTES_THERE: u64 = 1_000_010 + 400;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_connection_lost_anywhere(
        there in prop_oneof![0..600u64, 0..BYTES_THERE, Just(u64::MAX)],
        back in prop_oneof![0..60u64, Just(u64::MAX)],
    ) {
        let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
        let top = source(from.path());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let ends = runtime.block_on(interrupted(&top, to.path(), there, back));
        check_whole(from.path(), to.path())?;
        for error in ends.iter().flatten() {
            let lost = matches!(error, TransferError::Stream { .. });
            prop_assert!(
                lost && error.to_string().starts_with("the connection was lost "),
                "{}",
                error
            );
        }
        let whole = snapshot(to.path()) == snapshot(from.path());
        // Who says that it succeeded is right, and before the end nobody does.
        prop_assert!(whole || ends.iter().all(Option::is_some), "{:?}", ends);
        prop_assert!(there >= 1_000_010 || !whole);
    }
}

#[tokio::test]
async fn a_lost_connection_names_the_file_under_way() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    let top = source(from.path());
    let [sent, received] = interrupted(&top, to.path(), 200_000, u64::MAX).await;
    let text = sent.unwrap().to_string();
    assert!(
        text.starts_with("the connection was lost while sending top/"),
        "{text}"
    );
    let text = received.unwrap().to_string();
    assert!(
        text.starts_with("the connection was lost while receiving top/b: "),
        "{text}"
    );
    assert_eq!(finals(to.path()), ["top", "top/a"]);
}

/// Dropping the receiving future removes an incomplete file without a whole group; the sender gets
/// an error.
#[tokio::test]
async fn a_cancelled_receiver_leaves_no_incomplete_file() {
    let to = tempdir().unwrap();
    let (ours, theirs) = pair();
    let mut receiving = Box::pin(receive(
        theirs,
        to.path(),
        ReceiveOptions::default(),
        Progress::new(),
    ));
    let script = async {
        let mut sender = Puppet::greeted(ours, Role::Sender).await;
        sender.offer(vec![entry("f", Kind::File, 100_000)]).await;
        assert_eq!(sender.hear().await, Some(Message::Accept));
        sender.data(&content(50_000)).await;
        while names(to.path()).is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        sender
    };
    let mut sender = tokio::select! {
        sender = script => sender,
        _ = &mut receiving => panic!("it has nothing to end for"),
    };
    let [partial] = &names(to.path())[..] else {
        panic!("one file");
    };
    assert!(partial.starts_with(".f.manyway-part-"), "{partial}");
    assert_eq!(
        fs::metadata(to.path().join(partial)).unwrap().mode() & 0o777,
        0o600
    );
    drop(receiving);
    assert_eq!(sender.hear().await, None);
    // The blocking thread notices by itself.
    for _ in 0..10_000 {
        // What goes meanwhile can't be looked at.
        if fs::read_dir(to.path()).unwrap().next().is_none() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("still there: {:?}", names(to.path()));
}

/// A receiver that has said why it ends is heard even when its end of the stream is gone.
#[tokio::test]
async fn last_words_explain_a_broken_stream() {
    let from = tempdir().unwrap();
    fs::write(from.path().join("f"), content(1 << 20)).unwrap();
    let (ours, theirs) = pair();
    let script = async {
        let mut receiver = Puppet::greeted(theirs, Role::Receiver).await;
        while !matches!(receiver.hear().await, Some(Message::Offered(_))) {}
        receiver.say(&Message::Accept).await;
        let failure = manyway_transfer::Failure::new(FailureCode::DiskFull, "no room").of("f");
        receiver.say(&Message::Failure(failure)).await;
    };
    let sources = Sources::new([from.path().join("f")]).unwrap();
    let ((), sent) = tokio::join!(script, send(ours, sources, Progress::new()));
    assert_eq!(
        sent.unwrap_err().to_string(),
        "the other side gave up: f: no room"
    );
}

use super::*;
use manyway_transfer::{Renamed, Saved, Totals};
use std::time::Duration;
use tempfile::tempdir;

/// Plays a sender made by hand against a real receiver; returns what the receiver said and how it
/// ended. Nothing may be left in its directory but `allowed`, and nothing beside it.
async fn against_receiver(
    script: impl AsyncFnOnce(&mut Puppet),
    allowed: &[&str],
) -> (String, TransferError) {
    let around = tempdir().unwrap();
    let dir = around.path().join("in");
    let (ours, theirs) = pair();
    let play = async {
        let mut sender = Puppet::greeted(ours, Role::Sender).await;
        script(&mut sender).await;
        let failure = sender.hear_failure().await;
        // Keep pouring: the receiver must end all the same.
        sender.raw(&[5; 100_000]).await;
        failure.to_string()
    };
    let receiving = receive(theirs, &dir, ReceiveOptions::default(), Progress::new());
    let (told, received) = tokio::time::timeout(Duration::from_secs(60), async {
        tokio::join!(play, receiving)
    })
    .await
    .expect("an end");
    assert_eq!(names(&dir), allowed);
    assert_eq!(fs::read_dir(around.path()).unwrap().count(), 1);
    (told, received.unwrap_err())
}

/// A manifest entry as its bytes, whatever its name.
fn raw_entry(name: &str) -> Vec<u8> {
    let mut body = Vec::new();
    let mut len = name.len();
    while len >= 0x80 {
        body.push(len as u8 | 0x80);
        len >>= 7;
    }
    body.push(len as u8);
    body.extend_from_slice(name.as_bytes());
    body.extend_from_slice(&[0, 1, 0, 0, 0xa4, 0x03, 0, 0, 0, 0]);
    let mut frame = Header::new(FrameKind::Entries, body.len())
        .encode()
        .to_vec();
    frame.extend_from_slice(&body);
    frame
}

#[tokio::test]
async fn hostile_names_are_refused_and_touch_nothing() {
    for (name, problem) in [
        ("../../etc/passwd", "`..`"),
        ("/etc/passwd", "absolute"),
        ("a/../../b", "`..`"),
        ("nul\0byte", "control character 0x00"),
        ("\u{1b}[2Jclear", "control character 0x1b"),
        ("..\\windows", "backslash"),
        (&"n".repeat(10_000), "10000 bytes"),
        (&"n".repeat(300), "300 bytes"),
        (&["d"; 100].join("/"), "64 directories deep"),
        ("", "empty"),
    ] {
        let script = async |sender: &mut Puppet| sender.raw(&raw_entry(name)).await;
        let (told, error) = against_receiver(script, &[]).await;
        assert_eq!(
            error.code(),
            Some(FailureCode::UnsafeName),
            "{name:?}: {error}"
        );
        assert_eq!(error.to_string(), told);
        assert!(
            told.contains(problem) && told.len() < 300 && !told.contains('\u{1b}'),
            "{told}"
        );
    }
}

#[tokio::test]
async fn manifests_that_break_the_rules() {
    type Entries = Vec<(&'static str, Kind)>;
    let cases: [(Entries, &str); 4] = [
        (
            vec![("d/f", Kind::File)],
            "without the directory that holds it",
        ),
        (
            vec![("f", Kind::File), ("f", Kind::File)],
            "names nothing twice",
        ),
        (
            vec![("f", Kind::File), ("f/g", Kind::File)],
            "without the directory that holds it",
        ),
        (vec![("b", Kind::File), ("a", Kind::File)], "sorted"),
    ];
    for (entries, problem) in cases {
        let entries: Vec<_> = entries
            .into_iter()
            .map(|(name, kind)| entry(name, kind, 0))
            .collect();
        let script = async |sender: &mut Puppet| sender.offer(entries).await;
        let (told, error) = against_receiver(script, &[]).await;
        assert!(
            told.contains(problem) && error.to_string() == told,
            "{told}"
        );
    }
    let lies = Totals {
        entries: 9,
        files: 9,
        bytes: 9,
        ..Totals::default()
    };
    let (told, _) = against_receiver(
        async |sender| sender.say(&Message::Offered(lies)).await,
        &[],
    )
    .await;
    assert!(told.contains("but announced"), "{told}");
}

#[tokio::test]
async fn an_offer_beyond_the_free_space_is_refused_at_once() {
    let huge =
        async |sender: &mut Puppet| sender.offer(vec![entry("f", Kind::File, 1 << 60)]).await;
    let (told, error) = against_receiver(huge, &[]).await;
    assert_eq!(error.code(), Some(FailureCode::DiskFull));
    assert_eq!(
        told,
        "there isn't enough room on the receiver's disk; make room there, or receive into a \
         directory on another disk"
    );
    // How much there is concerns only the receiver.
    let here = error.to_string();
    let missing = "are free, 1.153 EB are still to be received";
    assert!(here.starts_with(&told) && here.contains(missing), "{here}");
}

/// Offers `good` and `bad` of ten bytes each, sends `good`, then follows the script.
async fn with_content(script: impl AsyncFnOnce(&mut Puppet)) -> (String, TransferError) {
    let whole = async |sender: &mut Puppet| {
        sender
            .offer(vec![
                entry("a good", Kind::File, 10),
                entry("bad", Kind::File, 10),
            ])
            .await;
        assert_eq!(sender.hear().await, Some(Message::Accept));
        sender.data(b"0123456789").await;
        sender.trailer(b"0123456789").await;
        script(sender).await;
    };
    against_receiver(whole, &["a good"]).await
}

#[tokio::test]
async fn content_that_is_not_what_was_announced() {
    let (told, error) = with_content(async |sender| {
        sender.data(b"0123456789").await;
        sender.trailer(b"9876543210").await;
    })
    .await;
    assert_eq!(error.code(), Some(FailureCode::Mismatch));
    assert!(
        told.starts_with("bad: its BLAKE3 hash is") && error.to_string() == told,
        "{told}"
    );

    let (told, _) = with_content(async |sender| sender.data(b"0123456789+").await).await;
    assert!(
        told.starts_with("bad: more bytes arrived than the 10 announced"),
        "{told}"
    );

    let (told, _) = with_content(async |sender| {
        sender.data(b"012").await;
        sender.trailer(b"012").await;
    })
    .await;
    assert!(
        told.starts_with("bad: only 3 of the 10 announced bytes"),
        "{told}"
    );
}

#[tokio::test]
async fn frames_that_have_no_place() {
    for (frame, problem) in [
        (vec![0, 0, 0, 0], "unknown kind 0"),
        (vec![0x7f, 0, 0, 0], "unknown kind 127"),
        (vec![5, 0xff, 0xff, 0xff], "Data frame of 16777215 bytes"),
        (vec![5, 0, 0, 0], "Data frame of 0 bytes"),
        (vec![2, 1, 0, 1], "Entries frame of 65537 bytes"),
        (vec![3, 0, 0, 1, 0xff], "malformed Offered frame"),
        (Message::Accept.to_bytes(), "unexpected Accept frame"),
        (Message::Bye.to_bytes(), "unexpected Bye frame"),
        (
            Message::Hello(Hello::new(Role::Sender)).to_bytes(),
            "unexpected Hello frame",
        ),
    ] {
        let (told, error) = with_content(async |sender| sender.raw(&frame).await).await;
        assert!(
            told.contains(problem) && error.code() == Some(FailureCode::Protocol),
            "{told}"
        );
    }
    // Content before the receiver has agreed.
    let early = async |sender: &mut Puppet| sender.data(b"early").await;
    let (told, _) = against_receiver(early, &[]).await;
    assert!(told.contains("unexpected Data frame"), "{told}");
}

#[tokio::test]
async fn a_sender_that_gives_up_is_heard_and_leaves_nothing() {
    let (to, (ours, theirs)) = (tempdir().unwrap(), pair());
    let script = async {
        let mut sender = Puppet::greeted(ours, Role::Sender).await;
        sender.offer(vec![entry("f", Kind::File, 10)]).await;
        assert_eq!(sender.hear().await, Some(Message::Accept));
        sender.data(b"01234").await;
        let failure =
            manyway_transfer::Failure::new(FailureCode::Changed, "it shrank\u{1b}[1m").of("f");
        sender.say(&Message::Failure(failure)).await;
        assert_eq!(sender.hear().await, None);
    };
    let ((), received) = tokio::join!(
        script,
        receive(
            theirs,
            to.path(),
            ReceiveOptions::default(),
            Progress::new()
        )
    );
    let error = received.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the other side gave up: f: it shrank\\u{1b}[1m"
    );
    assert_eq!(names(to.path()), [""; 0]);
}

#[tokio::test]
async fn two_of_a_kind_and_strangers() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    fs::write(from.path().join("f"), "f").unwrap();
    let sources = || Sources::new([from.path().join("f")]).unwrap();

    let (a, b) = pair();
    let (a, b) = tokio::join!(
        send(a, sources(), Progress::new()),
        send(b, sources(), Progress::new())
    );
    for error in [a.unwrap_err(), b.unwrap_err()] {
        assert!(
            error.to_string().contains("both sides want to send"),
            "{error}"
        );
    }

    let (a, stranger) = pair();
    let mut stranger = Puppet::new(stranger);
    stranger
        .raw(b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n")
        .await;
    drop(stranger);
    let error = receive(a, to.path(), ReceiveOptions::default(), Progress::new())
        .await
        .unwrap_err();
    assert!(error.to_string().contains("unknown kind 71"), "{error}");

    let (a, ancient) = pair();
    let script = async {
        let mut ancient = Puppet::new(ancient);
        let hello = Hello {
            version: 0,
            ..Hello::new(Role::Sender)
        };
        ancient.say(&Message::Hello(hello)).await;
        ancient.hear_failure().await
    };
    let receiving = receive(a, to.path(), ReceiveOptions::default(), Progress::new());
    let (told, error) = tokio::join!(script, receiving);
    assert!(told.reason.contains("update the older side"), "{told}");
    assert_eq!(error.unwrap_err().to_string(), told.to_string());
    assert_eq!(names(to.path()), [""; 0]);
}

/// Plays a receiver made by hand against a real sender of two files.
async fn against_sender(script: impl AsyncFnOnce(&mut Puppet)) -> TransferError {
    let from = tempdir().unwrap();
    fs::write(from.path().join("a"), content(100)).unwrap();
    fs::write(from.path().join("b"), content(5 << 20)).unwrap();
    let sources = Sources::new(["a", "b"].map(|name| from.path().join(name))).unwrap();
    let (ours, theirs) = pair();
    let play = async {
        let mut receiver = Puppet::greeted(theirs, Role::Receiver).await;
        while !matches!(receiver.hear().await, Some(Message::Offered(_))) {}
        script(&mut receiver).await;
        receiver.hear_failure().await
    };
    let (told, sent) = tokio::join!(play, send(ours, sources, Progress::new()));
    let error = sent.unwrap_err();
    assert_eq!(error.to_string(), told.to_string());
    error
}

#[tokio::test]
async fn receivers_that_break_the_rules() {
    let saved = |files: u64, renamed: &[u64]| {
        let name = SafeName::parse("x").unwrap();
        let renamed = renamed
            .iter()
            .map(|&file| Renamed {
                file,
                name: name.clone(),
            })
            .collect();
        Message::Saved(Saved { files, renamed })
    };
    let done = |bytes| Message::Done {
        totals: Totals {
            entries: 2,
            files: 2,
            bytes,
            ..Totals::default()
        },
        altered: 0,
    };
    let all = 100 + (5 << 20);
    for (said, problem) in [
        (vec![done(all)], "unexpected Done"),
        (vec![Message::Accept, Message::Accept], "unexpected Accept"),
        (vec![Message::Accept, Message::Bye], "unexpected Bye"),
        (vec![Message::Accept, done(all)], "unexpected Done"),
        (
            vec![Message::Accept, saved(3, &[])],
            "Saved frame's numbers",
        ),
        (
            vec![Message::Accept, saved(0, &[])],
            "Saved frame's numbers",
        ),
        (
            vec![Message::Accept, saved(1, &[]), saved(1, &[])],
            "Saved frame's numbers",
        ),
        (
            vec![Message::Accept, saved(1, &[1])],
            "Saved frame's numbers",
        ),
        (
            vec![Message::Accept, saved(2, &[1, 1])],
            "Saved frame's numbers",
        ),
    ] {
        let error = against_sender(async |receiver| {
            for message in &said {
                receiver.say(message).await;
            }
        })
        .await;
        assert!(error.to_string().contains(problem), "{said:?}: {error}");
        assert_eq!(error.code(), Some(FailureCode::Protocol));
    }
    // Wrong in number, at the right time.
    let totals = [
        Totals {
            entries: 2,
            files: 2,
            bytes: 1,
            ..Totals::default()
        },
        Totals {
            entries: 2,
            files: 1,
            bytes: all,
            ..Totals::default()
        },
    ];
    for totals in totals {
        let error = against_sender(async |receiver| {
            receiver.say(&Message::Accept).await;
            for _ in 0..2 {
                while !matches!(receiver.hear().await, Some(Message::Trailer(_))) {}
            }
            let altered = 0;
            receiver.say(&Message::Done { totals, altered }).await;
        })
        .await;
        assert!(
            error.to_string().contains("Done frame's numbers"),
            "{error}"
        );
    }
}

const PATIENCE: Duration = Duration::from_secs(15);

/// Begins a transfer as a side of this role, with a peer that says this much, then a byte now and
/// then.
async fn begun_with(
    role: Role,
    said: &[u8],
    then: &'static [u8],
) -> Result<Talk<ReadHalf<DuplexStream>, WriteHalf<DuplexStream>>, TransferError> {
    let (ours, (_reader, mut writer)) = pair();
    writer.write_all(said).await.unwrap();
    let trickle = tokio::spawn(async move {
        for byte in then.iter().cycle() {
            tokio::time::sleep(Duration::from_secs(1)).await;
            if writer.write_all(&[*byte]).await.is_err() {
                break;
            }
        }
        // Silent, but there.
        std::future::pending::<()>().await;
    });
    let result = begin(ours, Hello::new(role), PATIENCE).await;
    trickle.abort();
    result
}

fn hello_of(role: Role) -> Vec<u8> {
    Message::Hello(Hello::new(role)).to_bytes()
}

/// Who opens a stream has some time to say hello.
#[tokio::test(start_paused = true)]
async fn who_says_no_hello_is_not_waited_for() {
    let hello = hello_of(Role::Sender);
    for said in [&[][..], &hello[..3], &hello[..hello.len() - 1]] {
        let begun = tokio::time::Instant::now();
        let error = begun_with(Role::Receiver, said, b"").await.unwrap_err();
        assert_eq!(begun.elapsed().as_secs(), 15);
        assert!(error.to_string().contains("no hello"), "{error}");
    }
    for said in [Message::Accept.to_bytes(), vec![0xff; 9]] {
        assert!(begun_with(Role::Receiver, &said, b"").await.is_err());
    }
    // Two receivers.
    let said = hello_of(Role::Receiver);
    assert!(begun_with(Role::Receiver, &said, b"").await.is_err());
}

/// And a sender that has said hello, to offer something: silence and a byte a second are no offer.
#[tokio::test(start_paused = true)]
async fn who_offers_nothing_is_not_waited_for() {
    let hello = hello_of(Role::Sender);
    let entries = Message::Entries(vec![entry("a", Kind::File, 1)]).to_bytes();
    let long = Header::new(FrameKind::Entries, 60_000).encode();
    let almost = [&hello[..], &entries[..entries.len() - 1]].concat();
    let endless = [&hello[..], &long].concat();
    for (said, then) in [(&hello, &b""[..]), (&almost, b""), (&endless, b"x")] {
        let begun = tokio::time::Instant::now();
        let error = begun_with(Role::Receiver, said, then).await.unwrap_err();
        assert_eq!(begun.elapsed().as_secs(), 15);
        assert!(error.to_string().contains("no offer"), "{error}");
    }
    let content = [&hello[..], &Header::new(FrameKind::Data, 1).encode(), b"x"].concat();
    assert!(begun_with(Role::Receiver, &content, b"").await.is_err());
    // Receivers have nothing to offer.
    let hello = hello_of(Role::Receiver);
    begun_with(Role::Sender, &hello, b"").await.unwrap();
}

/// What was read to begin is part of the transfer.
#[tokio::test]
async fn a_transfer_goes_on_from_where_it_began() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = from.path().join("a");
    fs::write(&file, "content").unwrap();
    for sender_is_dialled in [true, false] {
        let target = to.path().join(sender_is_dialled.to_string());
        let (ours, theirs) = pair();
        let sources = Sources::new([&file]).unwrap();
        let options = ReceiveOptions::default();
        let hellos = (sources.hello(), options.hello());
        let sending = async {
            match sender_is_dialled {
                true => {
                    let talk = begin(ours, hellos.0, PATIENCE).await?;
                    send(talk, sources, Progress::new()).await
                }
                false => send(ours, sources, Progress::new()).await,
            }
        };
        let receiving = async {
            match sender_is_dialled {
                true => receive(theirs, &target, options, Progress::new()).await,
                false => {
                    let talk = begin(theirs, hellos.1, PATIENCE).await?;
                    receive(talk, &target, options, Progress::new()).await
                }
            }
        };
        let (sent, received) = tokio::join!(sending, receiving);
        assert_eq!(sent.unwrap().bytes, received.unwrap().bytes);
        assert_eq!(fs::read_to_string(target.join("a")).unwrap(), "content");
    }
}

/// The first name goes out at once, however long it takes to list the rest.
#[tokio::test]
async fn an_offer_begins_with_its_first_name() {
    let from = tempfile::tempdir().unwrap();
    for name in ["a", "b", "c"] {
        fs::write(from.path().join(name), name).unwrap();
    }
    let (ours, theirs) = pair();
    let sources = Sources::new([from.path()]).unwrap();
    let sending = tokio::spawn(async move { send(ours, sources, Progress::new()).await });
    let mut receiver = Puppet::greeted(theirs, Role::Receiver).await;
    let mut lengths = Vec::new();
    while let Some(Message::Entries(entries)) = receiver.hear().await {
        lengths.push(entries.len());
    }
    assert_eq!(lengths, [1, 3]);
    sending.abort();
}

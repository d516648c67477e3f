//! How connections and streams end, and what those who wait then hear.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use crate::common::{Pair, config, endpoint, next_event, pair, pair_with};
use manyway_runtime::{CloseReason, Config, ConnectError, Event, PathEvent, ReadError, WriteError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

const LO: [&str; 1] = ["127.0.0.1"];

/// However late somebody asks for them.
#[tokio::test]
async fn events_are_those_since_the_connection_began() {
    // The peer's side is kept, or it would close the connection before this one does.
    let kept = pair(&LO, &LO).await;
    let connected = &kept.connected;
    connected.close(0x107, "over");
    connected.closed().await;
    let mut events = connected.events();
    let both = async { (events.recv().await, events.recv().await) };
    let (first, last) = timeout(Duration::from_secs(10), both)
        .await
        .expect("they have been");
    assert!(
        matches!(first, Some(Event::Path(PathEvent::Up { .. }))),
        "{first:?}"
    );
    assert_eq!(last, Some(Event::Closed(CloseReason::Local)));
}

/// For who holds the handles and has waited, and who comes later.
#[tokio::test]
async fn nothing_follows_the_last_event() {
    let kept = pair(&LO, &LO).await;
    let (mut events, mut of_endpoint) = (kept.connected.events(), kept.connector.events());
    let waiting = async {
        while let Some(event) = events.recv().await {
            if event == Event::Closed(CloseReason::Local) {
                break;
            }
        }
        (events.recv().await, of_endpoint.recv().await)
    };
    let all = async { tokio::join!(waiting, kept.connector.clone().close()) };
    let (last, ()) = timeout(Duration::from_secs(10), all).await.expect("ends");
    assert_eq!(last, (None, None));
    let mut late = (kept.connected.events(), kept.connector.events());
    let late = async {
        while late.0.recv().await.is_some() {}
        late.1.recv().await
    };
    assert_eq!(timeout(Duration::from_secs(10), late).await, Ok(None));
}

#[tokio::test]
async fn close_tells_the_peer_code_and_reason_and_wakes_everyone() {
    let Pair {
        connected,
        accepted,
        ..
    } = pair(&LO, &LO).await;
    let (mut send, mut receive) = connected.open_bi().await.unwrap();
    send.write_all(b"x").await.unwrap();
    let (mut far_send, mut far_receive) = accepted.accept_bi().await.unwrap();
    far_receive.read_exact(&mut [0]).await.unwrap();
    let mut events = accepted.events();
    let expected = CloseReason::Peer {
        code: 0x107,
        reason: "that's enough".into(),
    };
    let (read, stopped, stream, closed, ()) = tokio::join!(
        far_receive.read_chunk(1),
        far_send.stopped(),
        accepted.accept_bi(),
        accepted.closed(),
        async { connected.close(0x107, "that's enough") },
    );
    assert_eq!(closed, expected);
    assert!(matches!(read, Err(ReadError::Lost(lost)) if lost.0 == expected));
    assert_eq!(stopped.unwrap_err().0, expected);
    assert_eq!(stream.unwrap_err().0, expected);
    assert_eq!(accepted.close_reason(), Some(expected.clone()));
    while next_event(&mut events).await != Event::Closed(expected.clone()) {}
    // Our own side.
    assert_eq!(connected.closed().await, CloseReason::Local);
    assert_eq!(
        send.write_all(b"y").await.unwrap_err().kind(),
        ErrorKind::ConnectionAborted
    );
    assert_eq!(
        receive.read(&mut [0]).await.unwrap_err().kind(),
        ErrorKind::ConnectionAborted
    );
    assert!(connected.open_bi().await.is_err());
    assert_eq!(
        far_send.write_all(b"y").await.unwrap_err().kind(),
        ErrorKind::ConnectionReset
    );
}

#[tokio::test]
async fn dropping_the_last_handle_closes_with_code_zero() {
    let Pair {
        connected,
        accepted,
        ..
    } = pair(&LO, &LO).await;
    let second = connected.clone();
    let streams = connected.open_bi().await.unwrap();
    drop(connected);
    drop(second);
    // A stream still holds the connection.
    assert_eq!(accepted.close_reason(), None);
    drop(streams);
    assert_eq!(
        accepted.closed().await,
        CloseReason::Peer {
            code: 0,
            reason: String::new()
        }
    );
}

#[tokio::test]
async fn unidirectional_streams_go_either_way_and_make_room_when_read() {
    let one = Config {
        max_streams: 1,
        ..config()
    };
    let Pair {
        connected,
        accepted,
        ..
    } = pair_with(&LO, &LO, one).await;
    for (from, to) in [(&connected, &accepted), (&accepted, &connected)] {
        let mut first = from.open_uni().await.unwrap();
        first.write_all(b"first").await.unwrap();
        let second = async {
            let mut second = from.open_uni().await.unwrap();
            second.write_all(b"second").await.unwrap();
            second.shutdown().await.unwrap();
        };
        let reader = async {
            let mut text = String::new();
            let mut receive = to.accept_uni().await.unwrap();
            first.shutdown().await.unwrap();
            receive.read_to_string(&mut text).await.unwrap();
            let mut receive = to.accept_uni().await.unwrap();
            receive.read_to_string(&mut text).await.unwrap();
            text
        };
        let both = async { tokio::join!(second, reader) };
        let ((), text) = timeout(Duration::from_secs(60), both).await.expect("room");
        assert_eq!(text, "firstsecond");
    }
    // Their limit is not that of the other kind.
    let (mut send, _) = connected.open_bi().await.unwrap();
    send.finish().unwrap();
    accepted.accept_bi().await.unwrap();
}

#[tokio::test]
async fn a_stream_dropped_unfinished_is_reset_and_one_unread_is_stopped() {
    let Pair {
        connected,
        accepted,
        ..
    } = pair(&LO, &LO).await;
    let (mut send, receive) = connected.open_bi().await.unwrap();
    send.write_all(b"part").await.unwrap();
    let (mut far_send, mut far_receive) = accepted.accept_bi().await.unwrap();
    far_receive.read_exact(&mut [0; 4]).await.unwrap();
    drop(send);
    assert_eq!(
        far_receive.read_chunk(9).await,
        Err(ReadError::Reset(0)),
        "a part is not the whole"
    );
    assert_eq!(far_receive.read_chunk(9).await, Err(ReadError::Reset(0)));
    drop(receive);
    assert_eq!(far_send.stopped().await, Ok(Some(0)));
    assert_eq!(
        far_send.write_bytes("x".into()).await,
        Err(WriteError::Stopped(0))
    );

    let (mut send, mut receive) = connected.open_bi().await.unwrap();
    send.write_all(b"again").await.unwrap();
    let (mut far_send, mut far_receive) = accepted.accept_bi().await.unwrap();
    send.reset(42);
    assert_eq!(send.write_bytes("x".into()).await, Err(WriteError::Closed));
    loop {
        match far_receive.read_chunk(9).await {
            Ok(Some(_)) => {}
            end => break assert_eq!(end, Err(ReadError::Reset(42))),
        }
    }
    far_send.write_all(b"y").await.unwrap();
    receive.read_exact(&mut [0]).await.unwrap();
    receive.stop(43);
    assert_eq!(receive.read_chunk(1).await, Err(ReadError::Closed));
    assert_eq!(far_send.stopped().await, Ok(Some(43)));
    assert_eq!(
        far_send.shutdown().await.unwrap_err().kind(),
        ErrorKind::BrokenPipe
    );
}

#[tokio::test]
async fn nobody_waits_for_a_stream_that_was_reset() {
    let Pair {
        connected,
        accepted: _accepted,
        ..
    } = pair(&LO, &LO).await;
    for finished in [false, true] {
        let (mut send, _receive) = connected.open_bi().await.unwrap();
        send.write_all(&[1; 100_000]).await.unwrap();
        if finished {
            send.finish().unwrap();
        }
        send.reset(42);
        let both = async { (send.shutdown().await, send.stopped().await) };
        let (shutdown, stopped) = timeout(Duration::from_secs(10), both)
            .await
            .expect("there is nothing to wait for");
        let error = shutdown.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotConnected, "{error}");
        assert_eq!(stopped, Ok(None));
    }
}

#[tokio::test]
async fn what_arrived_before_the_close_can_still_be_read() {
    let Pair {
        connected,
        accepted,
        ..
    } = pair(&LO, &LO).await;
    let (mut send, _receive) = connected.open_bi().await.unwrap();
    send.write_all(b"last words").await.unwrap();
    send.shutdown().await.unwrap();
    connected.close(0, "");
    accepted.closed().await;
    let (_, mut receive) = accepted.accept_bi().await.unwrap();
    let mut text = String::new();
    receive.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "last words");
}

#[tokio::test]
async fn a_peer_that_reads_to_the_end_and_closes_at_once_has_everything() {
    for _ in 0..20 {
        let Pair {
            connected,
            accepted,
            ..
        } = pair(&["127.0.0.1", "127.0.0.2"], &LO).await;
        let reader = tokio::spawn(async move {
            let (_send, mut receive) = accepted.accept_bi().await.unwrap();
            tokio::io::copy(&mut receive, &mut tokio::io::sink())
                .await
                .unwrap()
        });
        let (mut send, _receive) = connected.open_bi().await.unwrap();
        send.write_all(&vec![1; 100_000]).await.unwrap();
        // Not an error, though the end of the connection follows right behind.
        send.shutdown().await.unwrap();
        assert_eq!(reader.await.unwrap(), 100_000);
    }
}

#[tokio::test]
async fn closing_an_endpoint_says_goodbye_to_everyone() {
    let Pair {
        connected,
        accepted,
        listener,
        connector,
    } = pair(&LO, &LO).await;
    let again = listener.clone();
    let waiting = tokio::spawn(async move { again.accept().await });
    connector.close().await;
    assert_eq!(
        accepted.closed().await,
        CloseReason::Peer {
            code: 0,
            reason: String::new()
        }
    );
    assert_eq!(connected.closed().await, CloseReason::Local);
    assert!(connected.open_bi().await.is_err());
    listener.close().await;
    assert!(waiting.await.unwrap().is_none());
}

#[tokio::test]
async fn who_waits_for_a_listener_that_ends_reads_why() {
    let listener = endpoint(&LO, config()).await;
    let connector = endpoint(&LO, config()).await;
    let ticket = listener.listen().unwrap();
    // Nobody accepts it, but its session acknowledges what comes.
    let connected = connector.connect(&ticket).await.unwrap();
    let (mut send, _receive) = connected.open_bi().await.unwrap();
    send.write_all(b"x").await.unwrap();
    send.shutdown().await.unwrap();
    listener.close().await;
    let closed = timeout(Duration::from_secs(10), connected.closed()).await;
    let expected = CloseReason::Peer {
        code: CloseReason::REFUSED,
        reason: "the listener takes no more connections: it has ended, or its ticket was for one \
                 transfer; start it again"
            .into(),
    };
    assert_eq!(closed.expect("it is told"), expected);
}

#[tokio::test]
async fn a_listener_whose_last_handle_is_gone_turns_newcomers_away() {
    let listener = endpoint(&LO, config()).await;
    let connector = endpoint(&LO, config()).await;
    let ticket = listener.listen().unwrap();
    let first = connector.connect(&ticket).await.unwrap();
    let held = listener.accept().await.unwrap();
    drop(listener);
    // `held` keeps the sockets, but nobody can accept any more.
    match connector.connect(&ticket).await {
        Ok(second) => assert!(matches!(
            second.closed().await,
            CloseReason::Peer {
                code: CloseReason::REFUSED,
                ..
            }
        )),
        Err(error) => assert!(
            matches!(
                error,
                ConnectError::Ended(CloseReason::Peer {
                    code: CloseReason::REFUSED,
                    ..
                })
            ),
            "{error}"
        ),
    }
    assert_eq!((first.close_reason(), held.close_reason()), (None, None));
}

#[tokio::test]
async fn a_peer_that_falls_silent_times_out() {
    let config = Config {
        idle_timeout: Duration::from_secs(3),
        ..config()
    };
    let Pair {
        connected,
        listener,
        accepted,
        connector: _connector,
    } = pair_with(&LO, &LO, config).await;
    let (mut send, _receive) = connected.open_bi().await.unwrap();
    send.write_all(b"are you there?").await.unwrap();
    // Its socket is gone without a word.
    listener.remove_path(&"127.0.0.1".parse().unwrap());
    let reason = connected.closed().await;
    assert!(matches!(reason, CloseReason::TimedOut { .. }), "{reason:?}");
    assert_eq!(
        send.write_all(b"?").await.unwrap_err().kind(),
        ErrorKind::TimedOut
    );
    assert!(matches!(
        accepted.closed().await,
        CloseReason::TimedOut { .. }
    ));
}

#[tokio::test]
async fn who_waits_to_be_accepted_is_bounded() {
    let config = Config {
        max_connections_per_host: 1000,
        ..config()
    };
    let listener = endpoint(&["127.0.0.1"], config.clone()).await;
    let connector = endpoint(&["127.0.0.1"], config).await;
    let ticket = listener.listen().unwrap();
    let mut waiting = Vec::new();
    for _ in 0..64 {
        waiting.push(connector.connect(&ticket).await.unwrap());
    }
    // The refusal may come before the call returns.
    let reason = match connector.connect(&ticket).await {
        Ok(refused) => refused.closed().await,
        Err(ConnectError::Ended(reason)) => reason,
        Err(other) => panic!("{other}"),
    };
    let busy = "too many connections wait for the listener: try again later";
    let expected = CloseReason::Peer {
        code: CloseReason::OVERLOADED,
        reason: busy.into(),
    };
    assert_eq!(reason, expected);
    assert!(
        waiting
            .iter()
            .all(|connection| connection.close_reason().is_none())
    );
    listener.accept().await.unwrap();
    let late = connector.connect(&ticket).await.unwrap();
    assert_eq!(late.close_reason(), None);
}

/// Those who asked and have gone again don't keep others out.
#[tokio::test]
async fn who_has_gone_makes_room_for_others_that_wait() {
    let config = Config {
        max_connections_per_host: 1000,
        ..config()
    };
    let listener = endpoint(&LO, config.clone()).await;
    let connector = endpoint(&LO, config).await;
    let ticket = listener.listen().unwrap();
    let mut waiting = Vec::new();
    for _ in 0..64 {
        waiting.push(connector.connect(&ticket).await.unwrap());
    }
    waiting.remove(10).close(0x107, "too late");
    let began = Instant::now();
    loop {
        // The listener hears of the end a little later.
        if let Ok(connected) = connector.connect(&ticket).await
            && timeout(Duration::from_millis(200), connected.closed())
                .await
                .is_err()
        {
            waiting.push(connected);
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(10), "no room");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for _ in 0..64 {
        let accepted = timeout(Duration::from_secs(10), listener.accept()).await;
        let accepted = accepted.expect("as many as before").unwrap();
        assert_eq!(accepted.close_reason(), None);
        waiting.push(accepted);
    }
}

#[tokio::test]
async fn a_read_without_room_is_not_the_end() {
    let kept = pair(&LO, &LO).await;
    let mut send = kept.connected.open_uni().await.unwrap();
    send.write_all(b"x").await.unwrap();
    let mut receive = kept.accepted.accept_uni().await.unwrap();
    assert_eq!(receive.read_chunk(0).await, Ok(Some("".into())));
    assert_eq!(receive.read_chunk(9).await, Ok(Some("x".into())));
    send.finish().unwrap();
    assert_eq!(receive.read_chunk(9).await, Ok(None));
    assert_eq!(receive.read_chunk(0).await, Ok(None));
}

//! Peers that want something else, or no good.

use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use manyway::{CloseReason, Endpoint, EndpointOptions};
use manyway_wire::forward::{HEADER_LEN, Header, Reply, Request};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{Served, echo, fed, server};
use crate::common::transfer::Transfer;
use crate::common::{Running, manyway};

#[test]
fn tickets_for_something_else_are_told_apart() {
    // A receiver's of files, given to these commands …
    let transfer = Transfer::new(1000);
    let receiver = transfer.receiver(&[]);
    transfer.ticket();
    let run = |dir: &Path, arguments: &[&str]| {
        let mut command = manyway(dir, arguments);
        command.env("MANYWAY_PATH", "127.0.0.1");
        Running(command.spawn().unwrap()).finish()
    };
    for wrong in [
        &["forward", "@ticket", "-L", "0:localhost:80"][..],
        &["connect", "--stdio", "@ticket", "localhost:80"],
    ] {
        let ended = run(transfer.path(), wrong);
        assert!([1, 5].contains(&ended.code), "{ended:?}");
        assert!(ended.stderr.contains("files"), "{ended:?}");
    }
    // … which goes on waiting.
    transfer.send(&["--to", "@ticket"]);
    transfer.check(receiver);

    // That of `serve`, given to the others.
    let served = Served::allowing(&[1]);
    std::fs::write(served.path().join("file"), "x").unwrap();
    for (wrong, words) in [
        (&["send", "file", "--to", "@ticket"][..], "not for files"),
        (&["recv", "@ticket"], "not for files"),
        (&["send", "-", "--to", "@ticket"], "not for a pipe"),
        (&["recv", "@ticket", "-"], "not for a pipe"),
    ] {
        let ended = run(served.path(), wrong);
        assert_ne!(ended.code, 0, "{ended:?}");
        assert!(ended.stderr.contains(words), "{wrong:?}: {ended:?}");
    }
    // And one that nobody serves any more.
    let ticket = served.ticket().to_string();
    served.service.end();
    let mut command = manyway(
        transfer.path(),
        &["forward", "-L", "0:localhost:80", "--retry", "0", &ticket],
    );
    command.env("MANYWAY_PATH", "127.0.0.1");
    let ended = Running(command.spawn().unwrap()).finish();
    assert_eq!(ended.code, 3, "{ended:?}");
}

async fn endpoint() -> Endpoint {
    let options = EndpointOptions {
        paths: vec!["127.0.0.1".parse().unwrap()],
        ..EndpointOptions::default()
    };
    Endpoint::bind(options).await.unwrap()
}

/// As many streams as are allowed, that say nothing or nonsense, cost others nothing.
#[tokio::test(flavor = "multi_thread")]
async fn streams_without_end_are_held_back_and_others_served() {
    let target = tokio::task::spawn_blocking(|| server(echo)).await.unwrap();
    let served = tokio::task::spawn_blocking(move || Served::allowing(&[target]))
        .await
        .unwrap();
    let hostile = endpoint().await;
    let connection = hostile.connect(&served.ticket()).await.unwrap();
    let mut silent = Vec::new();
    let opened = async {
        loop {
            let (mut send, receive) = connection.open_bi().await.unwrap();
            send.write_all(b"m").await.unwrap();
            silent.push((send, receive));
        }
    };
    let waits = tokio::time::timeout(Duration::from_secs(2), opened).await;
    assert!(waits.is_err(), "they have no end");
    assert_eq!(silent.len(), 128);

    // Nonsense on one of them frees its place, and is told as a reset.
    let (send, receive) = &mut silent[0];
    send.write_all(b"onsense and more of it").await.unwrap();
    let answer = receive.read_to_end(&mut Vec::new()).await.unwrap_err();
    assert_eq!(answer.kind(), ErrorKind::ConnectionReset);
    silent.remove(0);
    let (mut send, mut receive) = connection.open_bi().await.unwrap();
    let request = Request::Connect(Some(format!("127.0.0.1:{target}").parse().unwrap()));
    send.write_all(&[request.encode(), b"hello".to_vec()].concat())
        .await
        .unwrap();
    let mut header = [0; HEADER_LEN];
    receive.read_exact(&mut header).await.unwrap();
    let header = Header::decode(header).unwrap();
    let mut body = vec![0; header.len];
    receive.read_exact(&mut body).await.unwrap();
    assert_eq!(Reply::decode(header.kind, &body), Ok(Reply::done()));
    let mut heard = [0; 5];
    receive.read_exact(&mut heard).await.unwrap();
    assert_eq!(&heard, b"hello");
    // An honest peer beside it.
    let honest = tokio::task::spawn_blocking(move || {
        let (heard, ended) = fed(served.connect(&[]), b"honest");
        ended.ok();
        (heard, served)
    });
    assert_eq!(honest.await.unwrap().0, b"honest");
    hostile.close().await;
}

/// Older and newer releases are told which version is there.
#[tokio::test(flavor = "multi_thread")]
async fn another_version_is_answered_with_a_sentence() {
    let served = tokio::task::spawn_blocking(|| Served::allowing(&[1]))
        .await
        .unwrap();
    let other = endpoint().await;
    let connection = other.connect(&served.ticket()).await.unwrap();
    let (mut send, mut receive) = connection.open_bi().await.unwrap();
    send.write_all(b"mwfw\x02\x00\x00\x00").await.unwrap();
    let mut answer = Vec::new();
    receive.read_to_end(&mut answer).await.unwrap();
    let (header, body) = answer.split_first_chunk().unwrap();
    let header = Header::decode(*header).unwrap();
    let reply = Reply::decode(header.kind, body).unwrap();
    assert!(
        reply
            .reason
            .contains("install the same release on both hosts"),
        "{reply:?}"
    );
    other.close().await;
}

/// A peer that closes while a stream opens is no panic.
#[tokio::test(flavor = "multi_thread")]
async fn who_goes_at_once_leaves_nothing_behind() {
    let served = tokio::task::spawn_blocking(|| Served::allowing(&[1]))
        .await
        .unwrap();
    let peer = endpoint().await;
    for _ in 0..5 {
        let connection = peer.connect(&served.ticket()).await.unwrap();
        let (mut send, _receive) = connection.open_bi().await.unwrap();
        send.write_all(&Request::Connect(None).encode())
            .await
            .unwrap();
        connection.close(0x100, "");
        assert_eq!(connection.closed().await, CloseReason::Local);
    }
    peer.close().await;
    let said = tokio::task::spawn_blocking(move || served.service.end())
        .await
        .unwrap();
    assert!(
        said.ends_with("stopped\n") && !said.contains("panicked"),
        "{said}"
    );
}

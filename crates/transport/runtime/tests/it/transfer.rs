//! Data over several loopback addresses, each of which is a path.

use crate::common::{Data, Pair, next_event, pair, read_all, write_all};
use std::time::Duration;

use bytes::Bytes;
use manyway_runtime::{Event, PathState};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

const THREE: [&str; 3] = ["127.0.0.1", "127.0.0.2", "127.0.0.3"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_megabytes_both_ways_and_every_pair_of_addresses_is_a_path() {
    let len = 50_000_000;
    let Pair {
        connected,
        accepted,
        listener,
        connector,
    } = pair(&["127.0.0.1", "127.0.0.2"], &THREE).await;
    let there = tokio::spawn({
        let connected = connected.clone();
        async move {
            let (mut send, mut receive) = connected.open_bi().await.unwrap();
            tokio::join!(write_all(&mut send, 1, len), read_all(&mut receive, 2, len));
        }
    });
    let (mut send, mut receive) = accepted.accept_bi().await.unwrap();
    tokio::join!(write_all(&mut send, 2, len), read_all(&mut receive, 1, len));
    there.await.unwrap();
    for connection in [&connected, &accepted] {
        let stats = connection.stats();
        assert!(
            stats.bytes_acked >= len as u64 && stats.bytes_received >= len as u64,
            "{stats:#?}"
        );
        // On a busy machine a path may stall for a moment; it comes back.
        let active = || connection.stats().paths.into_iter();
        while active().filter(|p| p.state == PathState::Active).count() < 6 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    assert_eq!(listener.locals().len(), 2);
    assert_eq!(connector.locals().len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_streams_than_the_peer_allows_at_once() {
    let Pair {
        connected,
        accepted,
        ..
    } = pair(&["127.0.0.1"], &["127.0.0.1"]).await;
    let streams = 300;
    let echo = tokio::spawn(async move {
        let mut tasks = Vec::new();
        for _ in 0..streams {
            let (mut send, mut receive) = accepted.accept_bi().await.unwrap();
            tasks.push(tokio::spawn(async move {
                tokio::io::copy(&mut receive, &mut send).await.unwrap();
                send.shutdown().await.unwrap();
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
    });
    let mut tasks = Vec::new();
    for n in 0..streams {
        let connected = connected.clone();
        tasks.push(tokio::spawn(async move {
            let len = 1 + n as usize * 331;
            let (mut send, mut receive) = connected.open_bi().await.unwrap();
            tokio::join!(write_all(&mut send, n, len), read_all(&mut receive, n, len));
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    echo.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_local_address_vanishes_in_mid_transfer_and_another_appears() {
    let len = 30_000_000;
    let Pair {
        connected,
        accepted,
        connector,
        ..
    } = pair(&["127.0.0.1"], &["127.0.0.2", "127.0.0.3"]).await;
    let mut events = connected.events();
    let sender = tokio::spawn({
        let connected = connected.clone();
        async move {
            let (mut send, _) = connected.open_bi().await.unwrap();
            write_all(&mut send, 7, len).await;
        }
    });
    let (_send, mut receive) = accepted.accept_bi().await.unwrap();
    let mut first = vec![0; 5_000_000];
    receive.read_exact(&mut first).await.unwrap();
    connector.remove_path(&"127.0.0.2".parse().unwrap());
    let mut data = Data::new(7, len);
    assert!(data.take(first.len()) == first);
    // The reader waits here, so the transfer can't be over before the address is gone.
    loop {
        match next_event(&mut events).await {
            Event::LocalRemoved { name, addr } => {
                break assert_eq!(
                    (name.as_str(), addr.ip().to_string()),
                    ("127.0.0.2", name.clone())
                );
            }
            other => assert!(!matches!(other, Event::Closed(_)), "{other:?}"),
        }
    }
    connector
        .add_path("127.0.0.4".parse().unwrap())
        .await
        .unwrap();
    let mut rest = Vec::new();
    receive.read_to_end(&mut rest).await.unwrap();
    assert_eq!(rest.len(), len - first.len());
    assert!(data.take(len) == rest);
    sender.await.unwrap();
    let locals: Vec<_> = connector
        .locals()
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(locals, ["127.0.0.3", "127.0.0.4"]);
    // The new address becomes a path of the live connection, sooner or later.
    while !connected
        .stats()
        .paths
        .iter()
        .any(|p| p.name == "127.0.0.4" && p.state == PathState::Active)
    {
        next_event(&mut events).await;
    }
    let gone = connected
        .stats()
        .paths
        .into_iter()
        .find(|p| p.name == "127.0.0.2")
        .unwrap();
    assert_eq!(gone.state, PathState::Closed);
}

#[tokio::test]
async fn chunks_pass_without_copies_and_empty_streams_end() {
    let Pair {
        connected,
        accepted,
        ..
    } = pair(&["127.0.0.1"], &["127.0.0.1"]).await;
    let (mut send, mut back) = connected.open_bi().await.unwrap();
    send.write_bytes(Bytes::from_static(b"zero copy"))
        .await
        .unwrap();
    send.write_bytes(Bytes::new()).await.unwrap();
    send.finish().unwrap();
    let (mut answer, mut receive) = accepted.accept_bi().await.unwrap();
    assert_eq!(send.id(), receive.id());
    let mut text = Vec::new();
    while let Some(chunk) = receive.read_chunk(4).await.unwrap() {
        assert!(!chunk.is_empty() && chunk.len() <= 4);
        text.extend_from_slice(&chunk);
    }
    assert_eq!(text, b"zero copy");
    assert_eq!(
        receive.read_chunk(4).await.unwrap(),
        None,
        "the end stays the end"
    );
    assert_eq!(
        send.stopped().await.unwrap(),
        None,
        "the peer has everything"
    );
    answer.shutdown().await.unwrap();
    assert_eq!(back.read_chunk(usize::MAX).await.unwrap(), None);
}

/// Loopback takes packets of 64 KiB: the library's own limit, that of jumbo frames, is found while
/// data flows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn packets_grow_to_what_the_interface_takes() {
    // A machine under load loses packets, and a search that has lost some ends for ten minutes.
    for _ in 0..5 {
        if timeout(Duration::from_secs(20), packets_grow())
            .await
            .is_ok()
        {
            return;
        }
    }
    panic!("they don't grow");
}

async fn packets_grow() {
    let Pair {
        connected,
        accepted,
        ..
    } = pair(&["127.0.0.1"], &["127.0.0.1"]).await;
    let sink = async {
        let (_send, mut receive) = accepted.accept_bi().await.unwrap();
        tokio::io::copy(&mut receive, &mut tokio::io::sink()).await
    };
    let source = async {
        let (mut send, _receive) = connected.open_bi().await.unwrap();
        let chunk = vec![1; 1 << 20];
        let most = 8952;
        while connected.stats().paths[0].packet_size < most {
            send.write_all(&chunk).await.unwrap();
        }
        send.shutdown().await.unwrap();
    };
    tokio::join!(sink, source).0.unwrap();
}

//! Whether tasks that always have something to do let others run.

use std::time::Duration;

use crate::common::{Pair, config, pair_with};
use bytes::Bytes;
use manyway_runtime::Config;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

const LO: [&str; 1] = ["127.0.0.1"];

/// Repeats what is always ready, until a timer ends it.
async fn is_stopped_by_a_timer(what: &str, mut repeat: impl AsyncFnMut()) {
    let endless = async {
        // Rather than hang for ever.
        for _ in 0..3_000_000 {
            repeat().await;
        }
    };
    let ended = timeout(Duration::from_millis(1), endless).await;
    assert!(ended.is_err(), "{what} let no timer run");
}

#[tokio::test]
async fn streams_that_are_always_ready_let_timers_run() {
    let config = Config {
        send_buffer: 1 << 24,
        receive_window: 1 << 24,
        ..config()
    };
    let Pair {
        connected,
        accepted,
        ..
    } = pair_with(&LO, &LO, config).await;
    let (mut send, _) = connected.open_bi().await.unwrap();
    is_stopped_by_a_timer("write", async || send.write_all(b"x").await.unwrap()).await;
    let x = Bytes::from_static(b"x");
    is_stopped_by_a_timer("write_bytes", async || {
        send.write_bytes(x.clone()).await.unwrap();
    })
    .await;
    send.write_all(&vec![1; 4_000_000]).await.unwrap();
    send.shutdown().await.unwrap();
    let (_, mut receive) = accepted.accept_bi().await.unwrap();
    is_stopped_by_a_timer("read", async || {
        receive.read_exact(&mut [0]).await.unwrap();
    })
    .await;
    is_stopped_by_a_timer("read_chunk", async || {
        receive.read_chunk(1).await.unwrap().unwrap();
    })
    .await;
}

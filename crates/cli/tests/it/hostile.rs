//! What a hostile peer can do to the program's user.

use manyway::{Endpoint, EndpointOptions, Ticket};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::common::transfer::Transfer;

/// A reason for CLOSE that clears the screen, forges a line and turns the rest around.
const REASON: &str = "\u{1b}[2J\rmanyway: all is well\nReceived film.mkv \u{202e}\u{200b}";

#[tokio::test]
async fn a_reason_for_closing_does_not_act_on_the_terminal() {
    let transfer = Transfer::new(0);
    let receiver = transfer.receiver(&[]);
    let ticket: Ticket = transfer.ticket().trim().parse().unwrap();
    let options = EndpointOptions {
        paths: vec!["127.0.0.1".parse().unwrap()],
        ..EndpointOptions::default()
    };
    let endpoint = Endpoint::bind(options).await.unwrap();
    let connection = endpoint.connect(&ticket).await.unwrap();
    let (mut send, mut receive) = connection.open_bi().await.unwrap();
    send.write_all(b"\x01").await.unwrap();
    // Its hello: the transfer has begun.
    receive.read_exact(&mut [0]).await.unwrap();
    connection.close(0x101, REASON);
    let ended = tokio::task::spawn_blocking(|| receiver.finish()).await;
    let ended = ended.unwrap();
    assert_eq!(ended.code, 1, "{ended:?}");
    let said = ended.stderr.trim_end();
    assert!(
        said.ends_with(r"\u{1b}[2J\rmanyway: all is well\nReceived film.mkv \u{202e}\u{200b}"),
        "{said:?}"
    );
    assert!(!said.contains(char::is_control), "{said:?}");
    endpoint.close().await;
}

//! A server that sends back what it gets, and its client.
//!
//! ```sh
//! cargo run --example echo                     # prints a ticket and serves until it is stopped
//! cargo run --example echo -- mw1… 'hello'     # sends a line and prints the answer
//! ```

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example prints"
)]

use anyhow::{Context, ensure};
use manyway::{Connection, Endpoint, EndpointOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// What the client accepts as an answer, in bytes.
const LONGEST: u64 = 1 << 20;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let endpoint = Endpoint::bind(EndpointOptions::default()).await?;
    match arguments.as_slice() {
        [] => serve(&endpoint).await,
        [ticket, text] => ask(endpoint, ticket, text).await,
        _ => anyhow::bail!("usage: echo [TICKET TEXT]"),
    }
}

async fn serve(endpoint: &Endpoint) -> anyhow::Result<()> {
    eprintln!("{}", endpoint.listen()?);
    while let Some(connection) = endpoint.accept().await {
        tokio::spawn(async move {
            if let Err(error) = echo(&connection).await {
                eprintln!("{error:#}");
            }
        });
    }
    Ok(())
}

/// One stream after the other, until the client closes the connection.
async fn echo(connection: &Connection) -> anyhow::Result<()> {
    while let Ok((mut send, mut receive)) = connection.accept_bi().await {
        tokio::io::copy(&mut receive, &mut send).await?;
        send.finish()?;
    }
    Ok(())
}

async fn ask(endpoint: Endpoint, ticket: &str, text: &str) -> anyhow::Result<()> {
    let ticket = ticket
        .parse()
        .context("the first argument is the server's ticket")?;
    let connection = endpoint.connect(&ticket).await?;
    let (mut send, receive) = connection.open_bi().await?;
    send.write_all(text.as_bytes()).await?;
    send.finish()?;
    let mut answer = String::new();
    receive.take(LONGEST).read_to_string(&mut answer).await?;
    ensure!(answer == text, "the answer differs: {answer:?}");
    for path in connection.stats().paths {
        eprintln!("{} → {}: round trip {:?}", path.name, path.remote, path.rtt);
    }
    println!("{answer}");
    connection.close(0, "done");
    endpoint.close().await;
    Ok(())
}

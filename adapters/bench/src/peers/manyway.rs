//! manyway's library: a stream over all paths.

use std::net::SocketAddr;

use anyhow::Context;
use bytes::Bytes;
use manyway::{Connection, Endpoint, EndpointOptions, PathSelector};

use crate::end::{CHUNK, Way, done, parts, ready};

pub(super) async fn receive(at: &[SocketAddr]) -> anyhow::Result<()> {
    let endpoint = endpoint(at.iter().copied()).await?;
    ready(&endpoint.listen()?.to_string());
    let connection = endpoint.accept().await.context("the endpoint is open")?;
    let (_, mut stream) = connection.accept_bi().await?;
    while stream.read_chunk(CHUNK).await?.is_some() {}
    done(sent(&connection));
    connection.close(0, "all is here");
    endpoint.close().await;
    Ok(())
}

pub(super) async fn send(bytes: usize, ticket: &str, ways: &[Way]) -> anyhow::Result<()> {
    let endpoint = endpoint(ways.iter().map(|(from, _)| *from)).await?;
    let connection = endpoint.connect(&ticket.parse()?).await?;
    let (mut stream, _receive) = connection.open_bi().await?;
    let chunk = Bytes::from(vec![7; CHUNK]);
    for part in parts(bytes) {
        stream.write_bytes(chunk.slice(..part)).await?;
    }
    stream.finish()?;
    connection.closed().await;
    done(sent(&connection));
    endpoint.close().await;
    Ok(())
}

async fn endpoint(at: impl Iterator<Item = SocketAddr>) -> anyhow::Result<Endpoint> {
    let options = EndpointOptions {
        paths: at.map(|at| PathSelector::Address(at.ip())).collect(),
        ..EndpointOptions::default()
    };
    Ok(Endpoint::bind(options).await?)
}

fn sent(connection: &Connection) -> u64 {
    let stats = connection.stats();
    stats.paths.iter().map(|path| path.packets_sent).sum()
}

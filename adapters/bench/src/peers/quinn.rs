//! quinn: a connection over each way, each with a part of the bytes.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context;
use bytes::Bytes;
use quinn::{
    AckFrequencyConfig, ClientConfig, Connection, Endpoint, ServerConfig, TransportConfig,
};
use tokio::task::JoinSet;

use super::tls;
use crate::end::{CHUNK, Way, done, parts, ready};

pub(super) async fn receive(at: &[SocketAddr]) -> anyhow::Result<()> {
    let (certificate, key, text) = tls::certificate()?;
    let config = ServerConfig::with_single_cert(vec![certificate], key)?;
    let endpoints = at.iter().map(|at| Endpoint::server(config.clone(), *at));
    let endpoints = endpoints.collect::<Result<Vec<_>, _>>()?;
    ready(&text);
    let mut tasks = JoinSet::new();
    for endpoint in endpoints {
        tasks.spawn(async move {
            let connection = endpoint.accept().await.context("it is open")?.await?;
            let mut stream = connection.accept_uni().await?;
            while stream.read_chunk(CHUNK, true).await?.is_some() {}
            let sent = sent(&connection);
            connection.close(0u32.into(), b"all is here");
            endpoint.wait_idle().await;
            Ok(sent)
        });
    }
    total(tasks).await
}

pub(super) async fn send(
    bytes: usize,
    certificate: &str,
    ways: &[Way],
    ack_every: u32,
) -> anyhow::Result<()> {
    let mut config = ClientConfig::with_root_certificates(tls::roots(certificate)?)?;
    let mut transport = TransportConfig::default();
    if ack_every > 0 {
        let mut acks = AckFrequencyConfig::default();
        acks.ack_eliciting_threshold((ack_every - 1).into());
        transport.ack_frequency_config(Some(acks));
    }
    config.transport_config(Arc::new(transport));
    let mut tasks = JoinSet::new();
    for (from, to) in ways.iter().copied() {
        let (config, bytes) = (config.clone(), bytes / ways.len());
        tasks.spawn(async move {
            let endpoint = Endpoint::client(from)?;
            let connection = endpoint.connect_with(config, to, tls::NAME)?.await?;
            let mut stream = connection.open_uni().await?;
            let chunk = Bytes::from(vec![7; CHUNK]);
            for part in parts(bytes) {
                stream.write_chunk(chunk.slice(..part)).await?;
            }
            stream.finish()?;
            connection.closed().await;
            Ok(sent(&connection))
        });
    }
    total(tasks).await
}

fn sent(connection: &Connection) -> u64 {
    connection.stats().udp_tx.datagrams
}

async fn total(mut tasks: JoinSet<anyhow::Result<u64>>) -> anyhow::Result<()> {
    let mut sent = 0;
    while let Some(task) = tasks.join_next().await {
        sent += task??;
    }
    done(sent);
    Ok(())
}

//! noq: one connection with a path over each way.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use noq::{
    AckFrequencyConfig, ClientConfig, Connection, Endpoint, FourTuple, PathError, PathStatus,
    ServerConfig, TransportConfig,
};
use tokio::time::sleep;

use super::tls;
use crate::end::{CHUNK, Way, done, parts, ready};

/// Paths that either end may open.
const PATHS: u32 = 8;

pub(super) async fn receive(at: &[SocketAddr]) -> anyhow::Result<()> {
    let (certificate, key, text) = tls::certificate()?;
    let mut config = ServerConfig::with_single_cert(vec![certificate], key)?;
    config.transport_config(Arc::new(transport()));
    let port = at.first().context("no address")?.port();
    let endpoint = Endpoint::server(config, (Ipv4Addr::UNSPECIFIED, port).into())?;
    ready(&text);
    let connection = endpoint.accept().await.context("it is open")?.await?;
    let mut stream = connection.accept_uni().await?;
    while stream.read_chunk(CHUNK).await?.is_some() {}
    done(sent(&connection));
    connection.close(0u32.into(), b"all is here");
    endpoint.wait_all_draining().await;
    Ok(())
}

pub(super) async fn send(
    bytes: usize,
    certificate: &str,
    ways: &[Way],
    ack_every: u32,
) -> anyhow::Result<()> {
    let mut config = ClientConfig::with_root_certificates(tls::roots(certificate)?)?;
    let mut transport = transport();
    if ack_every > 0 {
        let mut acks = AckFrequencyConfig::default();
        acks.ack_eliciting_threshold((ack_every - 1).into());
        transport.ack_frequency_config(Some(acks));
    }
    config.transport_config(Arc::new(transport));
    let endpoint = Endpoint::client((Ipv4Addr::UNSPECIFIED, 0).into())?;
    let (_, first) = ways.first().context("no way")?;
    let connection = endpoint.connect_with(config, *first, tls::NAME)?.await?;
    connection.handshake_confirmed().await?;
    for (from, to) in &ways[1..] {
        let way = FourTuple::new(*to, Some(from.ip()));
        loop {
            match connection.open_path(way, PathStatus::Available).await {
                Ok(_) => break,
                // The receiver has yet to issue them.
                Err(PathError::RemoteCidsExhausted) => sleep(Duration::from_millis(5)).await,
                Err(error) => return Err(error.into()),
            }
        }
    }
    let mut stream = connection.open_uni().await?;
    let chunk = Bytes::from(vec![7; CHUNK]);
    for part in parts(bytes) {
        stream.write_chunk(chunk.slice(..part)).await?;
    }
    stream.finish()?;
    connection.closed().await;
    done(sent(&connection));
    Ok(())
}

fn transport() -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport.max_concurrent_multipath_paths(PATHS);
    transport
}

fn sent(connection: &Connection) -> u64 {
    connection.stats().udp_tx.datagrams
}

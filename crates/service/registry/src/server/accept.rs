//! Accepts connections: TLS, HTTP/1.1, and bounds on their number and duration.

use std::collections::HashMap;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tower_service::Service;

use crate::core::source;

/// Bounds on connections.
#[derive(Copy, Clone, Debug)]
pub struct Connections {
    /// The most connections altogether. Each takes about 40 kB.
    pub all: usize,
    /// The most connections from one address (IPv4, or IPv6 /64).
    pub per_source: usize,
}

impl Default for Connections {
    fn default() -> Self {
        Self {
            all: 50_000,
            per_source: 1000,
        }
    }
}

/// The time limit for TLS's handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// The time limit for a request's head, and between requests: two heartbeats and a half.
const IDLE: Duration = Duration::from_secs(75);
/// The time that running requests get at the end.
const LAST: Duration = Duration::from_secs(3);
/// The most bytes to read ahead. Heads are never longer.
const BUFFER: usize = 8192 + 4096;

/// The source of a request.
#[derive(Copy, Clone, Debug)]
pub(super) struct From(pub(super) SocketAddr);

/// The number of connections of each source.
#[derive(Default)]
struct Sources(Mutex<HashMap<[u8; 8], usize>>);

/// A connection's place in its source's count.
struct Place {
    sources: Arc<Sources>,
    key: [u8; 8],
}

impl Sources {
    fn enter(self: &Arc<Self>, from: SocketAddr, most: usize) -> Option<Place> {
        let key = source(from);
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(key).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        Some(Place {
            sources: Arc::clone(self),
            key,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self
            .sources
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.key);
            }
        }
    }
}

pub(super) async fn run(
    listener: &TcpListener,
    tls: &Arc<ServerConfig>,
    router: Router,
    bounds: Connections,
    stop: impl Future<Output = ()>,
) {
    let acceptor = TlsAcceptor::from(Arc::clone(tls));
    let sources = Arc::new(Sources::default());
    let (stopping, stopped) = watch::channel(false);
    let mut connections = JoinSet::new();
    let mut stop = pin!(stop);
    loop {
        while connections.try_join_next().is_some() {}
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut stop => break,
        };
        let (stream, from) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // For example, no file descriptors are left. That may pass.
                tracing::warn!(%error, "can't accept a connection");
                sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        if connections.len() >= bounds.all {
            continue;
        }
        let Some(place) = sources.enter(from, bounds.per_source) else {
            continue;
        };
        let (acceptor, router, stopped) = (acceptor.clone(), router.clone(), stopped.clone());
        connections.spawn(async move {
            serve(acceptor, stream, from, router, stopped).await;
            drop(place);
        });
    }
    stopping.send(true).ok();
    timeout(LAST, async {
        while connections.join_next().await.is_some() {}
    })
    .await
    .ok();
}

async fn serve(
    acceptor: TlsAcceptor,
    stream: TcpStream,
    from: SocketAddr,
    router: Router,
    mut stopped: watch::Receiver<bool>,
) {
    stream.set_nodelay(true).ok();
    let stream = match timeout(HANDSHAKE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%from, %error, "the TLS handshake failed"),
        Err(_) => return tracing::debug!(%from, "the TLS handshake timed out"),
    };
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(From(from));
        let mut router = router.clone();
        async move { router.call(request).await }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE)
        .max_buf_size(BUFFER)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = &mut connection => ended,
        // Changes once, to true.
        _ = stopped.changed() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%from, %error, "a connection broke");
    }
}

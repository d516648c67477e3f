use std::future::Future;
use std::io;
use std::net::SocketAddr;

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use tokio::net::TcpListener;

/// Why the metrics can't be served.
#[derive(Debug, thiserror::Error)]
#[error("can't serve metrics on {address}: {error}")]
pub struct MetricsError {
    address: SocketAddr,
    #[source]
    error: io::Error,
}

/// Binds to `address`. Returns the bound address, and a future that serves `GET /metrics`, what
/// `text` says in Prometheus' text format, and `GET /health`.
///
/// # Errors
/// The address can't be bound.
pub async fn serve_metrics(
    address: SocketAddr,
    text: impl Fn() -> String + Clone + Send + Sync + 'static,
) -> Result<(SocketAddr, impl Future<Output = io::Result<()>>), MetricsError> {
    let failed = |error| MetricsError { address, error };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    let metrics = move || async move { ([(CONTENT_TYPE, "text/plain; version=0.0.4")], text()) };
    let router = Router::new()
        .route("/metrics", get(metrics))
        .route("/health", get(async || "ok\n"));
    Ok((bound, async move { axum::serve(listener, router).await }))
}

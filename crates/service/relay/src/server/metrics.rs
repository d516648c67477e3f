use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

/// So many connections at a time; more wait in the system's queue.
const CONNECTIONS: usize = 16;
/// A connection has one request, and so much time for it and its answer.
const LASTS: Duration = Duration::from_secs(10);
/// Bytes of a request's head.
const HEAD: usize = 8 * 1024;
/// After an error, such as too many open files.
const PAUSE: Duration = Duration::from_secs(1);

/// Why the metrics can't be served.
#[derive(Debug, thiserror::Error)]
#[error("can't serve metrics on {address}: {error}. Name a free address of this host.")]
pub struct MetricsError {
    address: SocketAddr,
    #[source]
    error: io::Error,
}

/// Binds to `address`. Returns the bound address, and a future that serves `GET /metrics`, what
/// `text` says in Prometheus' text format, and `GET /health`.
///
/// It serves 16 connections at a time and ends each after ten seconds. Strangers who open
/// connections and say nothing can delay others' requests for that long.
///
/// # Errors
/// The address can't be bound.
pub async fn serve_metrics(
    address: SocketAddr,
    text: impl Fn() -> String + Clone + Send + Sync + 'static,
) -> Result<(SocketAddr, impl Future<Output = ()>), MetricsError> {
    let failed = |error| MetricsError { address, error };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((bound, serve(listener, text, LASTS)))
}

async fn serve(
    listener: TcpListener,
    text: impl Fn() -> String + Clone + Send + Sync + 'static,
    lasts: Duration,
) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "can't take a request for metrics");
                sleep(PAUSE).await;
                continue;
            }
        };
        let text = text.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let answer = answer(&request, &text);
                async move { Ok::<_, Infallible>(answer) }
            });
            let serving = http1::Builder::new()
                .keep_alive(false)
                .max_buf_size(HEAD)
                .serve_connection(TokioIo::new(stream), service);
            if !matches!(timeout(lasts, serving).await, Ok(Ok(()))) {
                tracing::debug!("a request for metrics broke off");
            }
            drop(place);
        });
    }
}

fn answer<B>(request: &Request<B>, text: &impl Fn() -> String) -> Response<Full<Bytes>> {
    let body = match request.uri().path() {
        "/metrics" => Some((text(), "text/plain; version=0.0.4")),
        "/health" => Some(("ok\n".to_owned(), "text/plain")),
        _ => None,
    };
    let mut response = Response::new(Full::default());
    match body {
        None => *response.status_mut() = StatusCode::NOT_FOUND,
        Some(_) if !matches!(*request.method(), Method::GET | Method::HEAD) => {
            *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
            let allowed = HeaderValue::from_static("GET, HEAD");
            response.headers_mut().insert(ALLOW, allowed);
        }
        Some((text, kind)) => {
            *response.body_mut() = Full::from(text);
            let kind = HeaderValue::from_static(kind);
            response.headers_mut().insert(CONTENT_TYPE, kind);
        }
    }
    response
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;

    #[tokio::test]
    async fn who_says_nothing_makes_room_after_a_while() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let text = || "text\n".to_owned();
        tokio::spawn(serve(listener, text, Duration::from_millis(100)));
        let mut silent = Vec::new();
        for _ in 0..CONNECTIONS {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream
            .write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n")
            .await
            .unwrap();
        let mut answer = String::new();
        // One request, and the connection ends.
        let reading = stream.read_to_string(&mut answer);
        timeout(LASTS, reading).await.unwrap().unwrap();
        assert!(answer.ends_with("text\n"), "{answer}");
    }

    #[test]
    fn other_methods_and_paths_are_refused() {
        for (method, path, status) in [
            (Method::GET, "/metrics", 200),
            (Method::HEAD, "/health", 200),
            (Method::POST, "/metrics", 405),
            (Method::GET, "/other", 404),
        ] {
            let request = Request::builder().method(&method).uri(path).body(());
            let response = answer(&request.unwrap(), &String::new);
            assert_eq!(response.status(), status, "{method} {path}");
        }
    }
}

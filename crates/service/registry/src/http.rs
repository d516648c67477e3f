//! A minimal HTTP client for relays, clients and the store: one request after another over a
//! connection, with limits on time and size.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::tls::{Trust, trust};

/// The time limit for connecting, and for TLS.
const CONNECT: Duration = Duration::from_secs(5);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The connection failed.
    #[error("can't reach {host}:{port}: {error}")]
    Connect {
        /// The host.
        host: String,
        /// Its port.
        port: u16,
        /// The error of the system or of TLS.
        #[source]
        error: io::Error,
    },
    /// Somebody else answers.
    #[error(
        "the server at {host}:{port} has another key than the one in the URL: ask the registry's \
         operator for the URL that it prints now"
    )]
    OtherKey {
        /// The host.
        host: String,
        /// Its port.
        port: u16,
    },
    /// Nobody vouches for the server, and the URL doesn't have its key.
    #[error(
        "can't tell whether the server at {host}:{port} is the registry: copy the registry's URL \
         whole, with the # and the key behind it"
    )]
    NoKey {
        /// The host.
        host: String,
        /// Its port.
        port: u16,
    },
    /// The other side isn't authentic, or doesn't speak HTTP.
    #[error("the exchange broke off: {0}")]
    Broken(String),
    /// Nothing arrived in time.
    #[error("no answer in time")]
    Timeout,
    /// The answer was too long.
    #[error("the answer is longer than {0} bytes, or broke off")]
    Body(usize),
}

/// A server's address.
#[derive(Clone)]
pub(crate) struct Endpoint {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) tls: Option<Arc<ClientConfig>>,
}

/// A complete answer.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) body: Bytes,
}

/// A connection.
pub(crate) struct Link {
    sender: SendRequest<Full<Bytes>>,
    host: HeaderValue,
    task: AbortHandle,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A request.
#[derive(Clone)]
pub(crate) struct Ask<'a> {
    pub(crate) method: Method,
    pub(crate) path: &'a str,
    /// The value for `Authorization: Bearer`.
    pub(crate) bearer: Option<&'a str>,
    pub(crate) body: Vec<u8>,
    /// The most bytes of the answer.
    pub(crate) limit: usize,
    pub(crate) wait: Duration,
}

impl Endpoint {
    pub(crate) async fn open(&self) -> Result<Link, HttpError> {
        let failed = |error| {
            let (host, port) = (self.host.clone(), self.port);
            match trust(&error) {
                Trust::OtherKey => HttpError::OtherKey { host, port },
                Trust::Unknown => HttpError::NoKey { host, port },
                Trust::Unasked => HttpError::Connect { host, port, error },
            }
        };
        let late = || io::Error::from(io::ErrorKind::TimedOut);
        let stream = timeout(CONNECT, TcpStream::connect((&*self.host, self.port))).await;
        let stream = stream.unwrap_or_else(|_| Err(late())).map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        let Some(tls) = &self.tls else {
            return self.shake(TokioIo::new(stream)).await;
        };
        let name = ServerName::try_from(self.host.clone())
            .map_err(|error| failed(io::Error::other(error)))?;
        let tls = TlsConnector::from(Arc::clone(tls)).connect(name, stream);
        let stream = timeout(CONNECT, tls).await;
        self.shake(TokioIo::new(
            stream.unwrap_or_else(|_| Err(late())).map_err(failed)?,
        ))
        .await
    }

    async fn shake<T>(&self, io: T) -> Result<Link, HttpError>
    where
        T: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
    {
        let (sender, connection) = handshake(io).await.map_err(broken)?;
        let task = tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::trace!(%error, "a connection ended");
            }
        });
        let host = match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        };
        Ok(Link {
            sender,
            host: HeaderValue::try_from(host)
                .map_err(|error| HttpError::Broken(error.to_string()))?,
            task: task.abort_handle(),
        })
    }
}

impl Link {
    /// Whether the connection can probably take another request.
    pub(crate) fn is_open(&self) -> bool {
        !self.sender.is_closed()
    }

    /// Sends a request and waits for the complete answer.
    pub(crate) async fn ask(&mut self, ask: Ask<'_>) -> Result<Answer, HttpError> {
        let (wait, limit) = (ask.wait, ask.limit);
        in_time(wait, async {
            let response = self.send(ask).await?;
            let status = response.status();
            let body = Limited::new(response.into_body(), limit).collect().await;
            let body = body.map_err(|_| HttpError::Body(limit))?.to_bytes();
            Ok(Answer { status, body })
        })
        .await
    }

    /// Sends a request. The caller reads the answer's body, and limits it.
    pub(crate) async fn send(&mut self, ask: Ask<'_>) -> Result<Response<Incoming>, HttpError> {
        let mut request = Request::builder()
            .method(ask.method)
            .uri(ask.path)
            .header(HOST, self.host.clone())
            .header(CONTENT_TYPE, "application/json");
        if let Some(bearer) = ask.bearer {
            let mut value = HeaderValue::try_from(format!("Bearer {bearer}")).map_err(broken)?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        let request = request.body(Full::from(ask.body)).map_err(broken)?;
        self.sender.ready().await.map_err(broken)?;
        self.sender.send_request(request).await.map_err(broken)
    }
}

async fn in_time<T>(
    wait: Duration,
    work: impl Future<Output = Result<T, HttpError>>,
) -> Result<T, HttpError> {
    timeout(wait, work).await.unwrap_or(Err(HttpError::Timeout))
}

fn broken(error: impl std::fmt::Display) -> HttpError {
    HttpError::Broken(error.to_string())
}

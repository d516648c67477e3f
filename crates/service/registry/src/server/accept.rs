//! Accepts connections: TLS, HTTP/1.1, and bounds on their number and duration.

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
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
use tokio::task::{JoinSet, yield_now};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tower_service::Service;

use super::places::{Evicted, Place, Places};
use super::prompt::Prompt;

/// Bounds on connections.
#[derive(Copy, Clone, Debug)]
pub struct Connections {
    /// The most connections altogether. Each takes about 40 kB. There are fewer if the limit of
    /// open files is lower.
    pub all: usize,
    /// The most connections from one address (IPv4, or IPv6 /64).
    pub per_source: usize,
    /// The time limit for TLS's handshake.
    pub handshake: Duration,
    /// The time limit for a request's head, from the handshake or the previous answer on.
    pub head: Duration,
    /// The time limit for a request's body, from the head on.
    pub body: Duration,
    /// The time limit for sending an answer once the client has stopped reading.
    pub answer: Duration,
}

impl Default for Connections {
    fn default() -> Self {
        Self {
            all: 50_000,
            per_source: 1000,
            handshake: Duration::from_secs(10),
            head: Duration::from_secs(20),
            body: Duration::from_secs(10),
            answer: Duration::from_secs(20),
        }
    }
}

/// Files for everything but connections: other sockets, the runtime, the store.
const RESERVE: usize = 64;

impl Connections {
    /// These bounds, lowered to what fits into `files` open files. An eighth of the files is for
    /// probing relays over TCP. If the bounds are lowered, a source gets at most a quarter of all.
    fn within(self, files: usize) -> Self {
        let all = (files.saturating_sub(RESERVE) / 8 * 7).max(8);
        match all < self.all {
            true => Self {
                all,
                per_source: self.per_source.min(all / 4),
                ..self
            },
            false => self,
        }
    }

    /// These bounds, lowered to what the system's limit of open files allows. Logs the result.
    pub(super) fn affordable(self) -> Self {
        let Some(files) = manyway_os::open_files() else {
            return self;
        };
        let affordable = self.within(files);
        let (all, per_source) = (affordable.all, affordable.per_source);
        match all < self.all {
            true => tracing::warn!(
                files,
                "at most {all} connections, {per_source} from one address: raise the limit of \
                 open files for more (ulimit -n, LimitNOFILE=)"
            ),
            false => tracing::info!(
                files,
                "at most {all} connections, {per_source} from one address"
            ),
        }
        affordable
    }

    /// How many relays the registry probes over TCP at a time.
    pub(super) fn outgoing(&self) -> usize {
        (self.all / 7).max(1)
    }

    /// How many listeners may wait for callers at a time, so that others find room meanwhile.
    pub(super) fn waiting(&self) -> usize {
        self.all / 2
    }
}

/// The time that running requests get at the end.
const LAST: Duration = Duration::from_secs(3);
/// The most bytes to read ahead. Heads are never longer.
const BUFFER: usize = 8192 + 4096;
/// The pause when the system has no file descriptors left.
const EXHAUSTED: Duration = Duration::from_millis(50);

/// The source of a request, and the place of its connection.
#[derive(Clone)]
pub(super) struct From {
    pub(super) address: SocketAddr,
    pub(super) place: Arc<Place>,
}

pub(super) async fn run(
    listeners: &[TcpListener],
    tls: &Arc<ServerConfig>,
    router: Router,
    (bounds, places): (Connections, &Arc<Places>),
    stop: impl Future<Output = ()>,
) {
    let acceptor = TlsAcceptor::from(Arc::clone(tls));
    let mut turn = 0;
    let (stopping, stopped) = watch::channel(false);
    let mut connections = JoinSet::new();
    let mut stop = pin!(stop);
    loop {
        while connections.try_join_next().is_some() {}
        let accepted = tokio::select! {
            accepted = accept(listeners, turn) => accepted,
            () = &mut stop => break,
        };
        turn += 1;
        let (stream, from) = match accepted {
            Ok(accepted) => accepted,
            Err(error) if is_about_one(&error) => continue,
            Err(error) => {
                // For example, no file descriptors are left. That may pass.
                tracing::warn!(%error, "can't accept a connection");
                places.make_way();
                sleep(EXHAUSTED).await;
                continue;
            }
        };
        let Some((place, evicted)) = places.enter(from) else {
            continue;
        };
        let client = Client {
            from,
            place: Arc::new(place),
            bounds,
        };
        let (acceptor, router, stopped) = (acceptor.clone(), router.clone(), stopped.clone());
        connections.spawn(client.serve(acceptor, stream, router, evicted, stopped));
        // An evicted connection closes its file before the next one is accepted.
        yield_now().await;
    }
    stopping.send(true).ok();
    timeout(LAST, async {
        while connections.join_next().await.is_some() {}
    })
    .await
    .ok();
}

/// Accepts at any of the listeners. In each turn, another one comes first.
async fn accept(listeners: &[TcpListener], turn: usize) -> io::Result<(TcpStream, SocketAddr)> {
    poll_fn(|context| {
        let first = turn % listeners.len().max(1);
        let (before, after) = listeners.split_at(first);
        for listener in after.iter().chain(before) {
            if let Poll::Ready(accepted) = listener.poll_accept(context) {
                return Poll::Ready(accepted);
            }
        }
        Poll::Pending
    })
    .await
}

/// Whether an error of accepting is that of the connection that came.
fn is_about_one(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionReset | Interrupted
    )
}

struct Client {
    from: SocketAddr,
    place: Arc<Place>,
    bounds: Connections,
}

impl Client {
    async fn serve(
        self,
        acceptor: TlsAcceptor,
        stream: TcpStream,
        router: Router,
        evicted: Evicted,
        stopped: watch::Receiver<bool>,
    ) {
        let from = self.from;
        tokio::select! {
            () = self.converse(acceptor, stream, router, stopped) => {}
            _ = evicted => tracing::debug!(%from, "others need the room"),
        }
    }

    async fn converse(
        self,
        acceptor: TlsAcceptor,
        stream: TcpStream,
        router: Router,
        mut stopped: watch::Receiver<bool>,
    ) {
        let Self {
            from: address,
            place,
            bounds,
        } = self;
        stream.set_nodelay(true).ok();
        let stream = match timeout(bounds.handshake, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                return tracing::debug!(%address, %error, "the TLS handshake failed");
            }
            Err(_) => return tracing::debug!(%address, "the TLS handshake timed out"),
        };
        let service = service_fn(move |mut request: Request<Incoming>| {
            let place = Arc::clone(&place);
            request.extensions_mut().insert(From {
                address,
                place: Arc::clone(&place),
            });
            let mut router = router.clone();
            async move {
                let answer = router.call(request).await;
                // It was since its body had come.
                place.set_busy(false);
                answer
            }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(bounds.head)
            .max_buf_size(BUFFER)
            .serve_connection(TokioIo::new(Prompt::new(stream, bounds.answer)), service);
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
            tracing::debug!(%address, %error, "a connection broke");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A flood at one address doesn't keep others from the next one.
    #[tokio::test]
    async fn listeners_take_turns() {
        let bind = || TcpListener::bind("127.0.0.1:0");
        let listeners = [bind().await.unwrap(), bind().await.unwrap()];
        let mut callers = Vec::new();
        for listener in &listeners {
            for _ in 0..2 {
                let to = listener.local_addr().unwrap();
                callers.push(TcpStream::connect(to).await.unwrap());
            }
        }
        for turn in 0..4 {
            let (stream, _) = accept(&listeners, turn).await.unwrap();
            let at = listeners[turn % 2].local_addr().unwrap();
            assert_eq!(stream.local_addr().unwrap(), at, "turn {turn}");
        }
        // Where nobody else waits, the same one is accepted at again.
        let to = listeners[0].local_addr().unwrap();
        let _last = TcpStream::connect(to).await.unwrap();
        let (stream, _) = accept(&listeners, 1).await.unwrap();
        assert_eq!(stream.local_addr().unwrap(), to);
    }

    #[test]
    fn connections_fit_into_the_files_that_there_are() {
        let of = |files| {
            let bounds = Connections::default().within(files);
            (
                bounds.all,
                bounds.per_source,
                bounds.outgoing(),
                bounds.waiting(),
            )
        };
        assert_eq!(of(1024), (840, 210, 120, 420));
        assert_eq!(of(128), (56, 14, 8, 28));
        assert_eq!(of(0), (8, 2, 1, 4));
        assert_eq!(of(usize::MAX), (50_000, 1000, 7142, 25_000));
        for files in 80..100_000 {
            let (all, _, outgoing, _) = of(files);
            assert!(all + outgoing + RESERVE <= files, "{files}");
        }
    }
}

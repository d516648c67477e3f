//! Streams through a relay over TCP, for the caller and for the listener. `docs/relays.md`
//! specifies the messages.
//!
//! Once the relay has connected them, each end holds a TCP connection whose bytes are the other
//! end's. The relay opens no connection itself: a listener keeps one open, over which the relay
//! announces callers, and opens another one to answer each.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use manyway_session::{ListenKey, ListenerName, RelayAccess, RelayAddress, RelayId};
use manyway_units::Backoff;
use manyway_wire::DecodeError;
use manyway_wire::relay::{
    STREAM_REPLY_MAX_LEN, StreamAnswer, StreamListen, StreamRefusal, StreamReply, StreamRequest,
    stream_reply_len,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// How long a relay may take to connect two streams: longer than it waits for the listener.
const CONNECT_TIME: Duration = Duration::from_secs(15);
/// How long a relay may take to say anything else.
const ANSWER_TIME: Duration = Duration::from_secs(10);
/// How often a listener pings the relay, which forgets listeners after a minute of silence.
const PING_INTERVAL: Duration = Duration::from_secs(15);
/// Calls answered at a time: honest callers don't need more.
const CALLS: usize = 16;
/// Before a relay that failed is tried again.
const RETRY: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));

/// Why a stream through a relay failed.
#[derive(Debug, thiserror::Error)]
#[error("the relay at {relay}: {problem}")]
pub struct TcpRelayError {
    /// Where the relay is.
    pub relay: SocketAddr,
    /// What is wrong with it.
    pub problem: TcpRelayProblem,
}

/// What is wrong with a relay.
#[derive(Debug, thiserror::Error)]
pub enum TcpRelayProblem {
    /// It can't be reached, or the connection broke.
    #[error("{0}: is it running with --tcp, and does a firewall let its TCP port through?")]
    Io(#[from] io::Error),
    /// It accepted the connection and then sent nothing.
    #[error(
        "it accepted the connection but has sent nothing for {} s: use another relay",
        .0.as_secs()
    )]
    Silent(Duration),
    /// It closed the connection without an answer, as it does when a caller names another relay.
    #[error(
        "it closed the connection without an answer: another relay may have its address now, or it \
         has no room for more connections"
    )]
    Closed,
    /// It refused, and said why.
    #[error(transparent)]
    Refused(#[from] StreamRefusal),
    /// Its answer isn't a relay's.
    #[error("it doesn't answer like a manyway relay ({0}): check its address")]
    Garbled(#[from] DecodeError),
    /// It is about to stop.
    #[error("it is about to stop")]
    Leaving,
}

impl TcpRelayProblem {
    /// This host has no address that could reach it.
    fn is_ours(&self) -> bool {
        use io::ErrorKind::{AddrNotAvailable, NetworkUnreachable};
        let ours = [AddrNotAvailable, NetworkUnreachable];
        matches!(self, Self::Io(error) if ours.contains(&error.kind()))
    }

    fn at(self, relay: SocketAddr) -> TcpRelayError {
        TcpRelayError {
            relay,
            problem: self,
        }
    }
}

/// Asks the relay at the other end of `stream` to connect it with the listener called `name`, on
/// the account that `relay` gives access to. The next byte of the stream is the listener's.
///
/// # Errors
/// [`TcpRelayError`]: the relay refuses, or doesn't answer within 15 seconds.
pub async fn connect_through(
    mut stream: TcpStream,
    relay: &RelayAccess,
    name: ListenerName,
) -> Result<TcpStream, TcpRelayError> {
    let address = relay.relay.address;
    let connected = async {
        stream.set_nodelay(true)?;
        let hello = StreamRequest::Hello(relay.relay.id).to_bytes();
        stream.write_all(&hello).await?;
        let challenge = match read_reply(&mut stream).await? {
            StreamReply::Welcome(challenge) => challenge,
            other => return Err(unexpected(other)),
        };
        let connect = relay.stream_connect(&challenge, name);
        stream.write_all(&connect).await?;
        accepted(&mut stream).await
    };
    within(CONNECT_TIME, connected)
        .await
        .map_err(|problem| problem.at(address))?;
    Ok(stream)
}

/// How it goes with a relay that a [`TcpRelayListener`] is to be called through.
#[derive(Clone, Debug)]
pub enum ListenStatus {
    /// The first attempt is under way.
    Connecting,
    /// Callers can reach it.
    Listening,
    /// They can't; it is tried again.
    Failed(Arc<TcpRelayError>),
}

/// Lets others reach us through a relay over TCP, until it is dropped. It connects to the relay as
/// often as needed.
pub struct TcpRelayListener {
    streams: mpsc::Receiver<TcpStream>,
    status: watch::Receiver<ListenStatus>,
    task: JoinHandle<()>,
}

impl TcpRelayListener {
    /// Listens at `relay` under the [name](manyway_session::listener_name) of `key`, at the first
    /// of its addresses that answers: a name is one listener's. `connect` opens a connection to the
    /// relay, by whatever interface and with whatever options are wanted: one to be called on, and
    /// one for each call.
    pub fn start<C, F>(
        relay: RelayId,
        addresses: Vec<SocketAddr>,
        key: ListenKey,
        connect: C,
    ) -> Self
    where
        C: Fn(SocketAddr) -> F + Send + Sync + 'static,
        F: Future<Output = io::Result<TcpStream>> + Send + 'static,
    {
        let (accepted, streams) = mpsc::channel(CALLS);
        let (tell, status) = watch::channel(ListenStatus::Connecting);
        let listener = Listener {
            relay,
            addresses,
            key,
            connect: Arc::new(connect),
            accepted,
            calls: Arc::new(Semaphore::new(CALLS)),
            tell,
        };
        let task = tokio::spawn(listener.run());
        Self {
            streams,
            status,
            task,
        }
    }

    /// The next caller's stream. The next byte of it is the caller's. Cancel safe.
    pub async fn accept(&mut self) -> TcpStream {
        match self.streams.recv().await {
            Some(stream) => stream,
            // The task ends with this value alone, or with the runtime.
            None => std::future::pending().await,
        }
    }

    /// Whether callers can reach us, now and whenever that changes.
    pub fn status(&self) -> watch::Receiver<ListenStatus> {
        self.status.clone()
    }
}

impl Drop for TcpRelayListener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl fmt::Debug for TcpRelayListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpRelayListener")
            .field("status", &*self.status.borrow())
            .finish_non_exhaustive()
    }
}

struct Listener<C> {
    relay: RelayId,
    addresses: Vec<SocketAddr>,
    key: ListenKey,
    connect: Arc<C>,
    accepted: mpsc::Sender<TcpStream>,
    calls: Arc<Semaphore>,
    tell: watch::Sender<ListenStatus>,
}

impl<C, F> Listener<C>
where
    C: Fn(SocketAddr) -> F + Send + Sync + 'static,
    F: Future<Output = io::Result<TcpStream>> + Send + 'static,
{
    async fn run(self) {
        let mut failures = 0;
        loop {
            let error = self.listen_somewhere().await;
            if matches!(*self.tell.borrow(), ListenStatus::Listening) {
                failures = 0;
            }
            tracing::debug!(%error, "not listening at the relay");
            self.tell.send_replace(ListenStatus::Failed(error.into()));
            sleep(RETRY.delay(failures)).await;
            failures += 1;
        }
    }

    /// Listens at the first address where that is possible until it ends, and says why it has. Of
    /// several errors, the first counts that isn't this host's lack of an address.
    async fn listen_somewhere(&self) -> TcpRelayError {
        let mut first: Option<TcpRelayError> = None;
        for &address in &self.addresses {
            let listening = self.tell.subscribe();
            let relay = RelayAddress {
                address,
                id: self.relay,
            };
            let error = self.listen(relay).await.at(address);
            if listening.has_changed().is_ok_and(|changed| changed) {
                return error;
            }
            if first.as_ref().is_none_or(|first| first.problem.is_ours()) {
                first = Some(error);
            }
        }
        match first {
            Some(error) => error,
            None => std::future::pending().await,
        }
    }

    /// Listens until that ends, and says why it has.
    async fn listen(&self, relay: RelayAddress) -> TcpRelayProblem {
        let request = StreamRequest::Listen(StreamListen {
            relay: relay.id,
            key: self.key,
        });
        let mut stream = match open(&*self.connect, relay, request).await {
            Ok(stream) => stream,
            Err(problem) => return problem,
        };
        self.tell.send_replace(ListenStatus::Listening);
        let (mut read, mut write) = stream.split();
        let mut next = tokio::time::interval(PING_INTERVAL);
        let mut unanswered = false;
        let mut buffer = ReplyBuffer::default();
        loop {
            tokio::select! {
                reply = buffer.read(&mut read) => match reply {
                    Ok(StreamReply::Ping) => unanswered = false,
                    Ok(StreamReply::Call(token)) => self.answer(relay, token),
                    Ok(StreamReply::Leaving) => return TcpRelayProblem::Leaving,
                    Ok(other) => return unexpected(other),
                    Err(problem) => return problem,
                },
                _ = next.tick() => {
                    if unanswered {
                        return TcpRelayProblem::Silent(PING_INTERVAL);
                    }
                    unanswered = true;
                    if let Err(error) = write.write_all(&StreamRequest::Ping.to_bytes()).await {
                        return error.into();
                    }
                }
            }
        }
    }

    /// Takes a call, beside others. A relay that makes more calls than there are callers gains
    /// nothing.
    fn answer(&self, relay: RelayAddress, token: manyway_wire::relay::CallToken) {
        let Ok(permit) = Arc::clone(&self.calls).try_acquire_owned() else {
            tracing::debug!(relay = %relay.address, "too many simultaneous calls");
            return;
        };
        let request = StreamRequest::Answer(StreamAnswer {
            relay: relay.id,
            token,
        });
        let (connect, accepted) = (Arc::clone(&self.connect), self.accepted.clone());
        tokio::spawn(async move {
            match open(&*connect, relay, request).await {
                Ok(stream) => {
                    accepted.send(stream).await.ok();
                }
                Err(problem) => {
                    let error = problem.at(relay.address);
                    tracing::debug!(%error, "a call failed");
                }
            }
            drop(permit);
        });
    }
}

/// A connection to the relay on which it has said OK to `request`.
async fn open<C, F>(
    connect: &C,
    relay: RelayAddress,
    request: StreamRequest,
) -> Result<TcpStream, TcpRelayProblem>
where
    C: Fn(SocketAddr) -> F,
    F: Future<Output = io::Result<TcpStream>>,
{
    within(ANSWER_TIME, async {
        let mut stream = connect(relay.address).await?;
        stream.set_nodelay(true)?;
        stream.write_all(&request.to_bytes()).await?;
        accepted(&mut stream).await?;
        Ok(stream)
    })
    .await
}

async fn within<T>(
    time: Duration,
    work: impl Future<Output = Result<T, TcpRelayProblem>>,
) -> Result<T, TcpRelayProblem> {
    timeout(time, work)
        .await
        .unwrap_or(Err(TcpRelayProblem::Silent(time)))
}

async fn accepted(stream: &mut TcpStream) -> Result<(), TcpRelayProblem> {
    match read_reply(stream).await? {
        StreamReply::Ok => Ok(()),
        other => Err(unexpected(other)),
    }
}

fn unexpected(reply: StreamReply) -> TcpRelayProblem {
    match reply {
        StreamReply::Refused(reason) => reason.into(),
        StreamReply::Leaving => TcpRelayProblem::Leaving,
        _ => DecodeError::Malformed {
            what: "the order of its messages",
        }
        .into(),
    }
}

async fn read_reply(stream: &mut TcpStream) -> Result<StreamReply, TcpRelayProblem> {
    ReplyBuffer::default().read(stream).await
}

/// What has come of a relay's message. It never takes a byte of what follows the message.
#[derive(Default)]
struct ReplyBuffer {
    bytes: [u8; STREAM_REPLY_MAX_LEN],
    len: usize,
}

impl ReplyBuffer {
    /// The next message. Cancel safe.
    async fn read(
        &mut self,
        stream: &mut (impl tokio::io::AsyncRead + Unpin),
    ) -> Result<StreamReply, TcpRelayProblem> {
        loop {
            let wanted = match self.len {
                0 => 1,
                _ => stream_reply_len(self.bytes[0]).ok_or(DecodeError::WrongType {
                    expected: "a relay's message",
                    found: self.bytes[0],
                })?,
            };
            if self.len == wanted && self.len > 0 {
                let message = &self.bytes[..std::mem::take(&mut self.len)];
                return Ok(StreamReply::decode(message)?);
            }
            match stream.read(&mut self.bytes[self.len..wanted]).await? {
                0 => return Err(TcpRelayProblem::Closed),
                read => self.len += read,
            }
        }
    }
}

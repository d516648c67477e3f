//! The relay's TCP side: a task for each connection until it is spliced, then a task for each
//! stream.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use manyway_os::{UnixClock, open_files};
use manyway_wire::relay::{STREAM_REQUEST_MAX_LEN, StreamRefusal, StreamReply, stream_request_len};
use rand::rngs::ChaCha20Rng;
use socket2::Socket;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};

use super::requests::Requests;
use super::splice::{Passed, Splicer};
use crate::gate::{ConnectionId, Step, StreamTerms};
use crate::{Ending, Gate, Keys, Rates, Revoked, StreamCounters, StreamLimits};

/// The most messages that wait for a connection's task. A listener has at most as many calls.
const POSTS: usize = 64;
/// How long to wait when the system has no file descriptors left.
const EXHAUSTED: Duration = Duration::from_millis(100);
/// How often it looks at the requests of a [`Handle`](super::Handle).
const TICK: Duration = Duration::from_millis(100);

/// Bound TCP sockets that don't run yet.
pub struct StreamServer {
    pub(super) sockets: Vec<Socket>,
    pub(super) hub: Arc<Hub>,
    pub(super) requests: Arc<Requests>,
}

/// What the tasks of all connections share.
pub(super) struct Hub {
    state: Mutex<State>,
    limits: StreamLimits,
    rates: Arc<Rates>,
    clock: UnixClock,
    passed: Passed,
}

struct State {
    gate: Gate,
    rng: ChaCha20Rng,
    posts: HashMap<ConnectionId, mpsc::Sender<Post>>,
}

/// A message from one connection's task to another's.
enum Post {
    /// Send this to the listener.
    Say(StreamReply),
    /// The listener has answered, on this connection.
    Answered(TcpStream, Member, StreamTerms),
    /// Send this, if anything, and end.
    End(Option<StreamReply>),
}

impl Hub {
    pub(super) fn new(
        gate: Gate,
        limits: StreamLimits,
        clock: UnixClock,
        rng: ChaCha20Rng,
        rates: Arc<Rates>,
    ) -> Self {
        let state = State {
            gate,
            rng,
            posts: HashMap::new(),
        };
        Self {
            state: Mutex::new(state),
            limits,
            rates,
            clock,
            passed: Passed::default(),
        }
    }

    pub(super) fn set_keys(&self, keys: Keys) {
        self.state().gate.set_keys(keys);
    }

    /// Refuses these accounts from now on, and ends their streams.
    pub(super) fn set_revoked(&self, revoked: Revoked) {
        let mut state = self.state();
        for id in state.gate.set_revoked(revoked) {
            let end = StreamReply::Refused(StreamRefusal::Revoked);
            state.post(id, Post::End(Some(end)));
        }
    }

    pub(super) fn counters(&self) -> StreamCounters {
        StreamCounters {
            received_bytes: self.passed.received.load(Ordering::Relaxed),
            forwarded_bytes: self.passed.forwarded.load(Ordering::Relaxed),
            copied: self.passed.copied.load(Ordering::Relaxed),
            ..self.state().gate.counters()
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the listeners, once.
    fn leave(&self) {
        let mut state = self.state();
        for id in state.gate.leave() {
            state.post(id, Post::Say(StreamReply::Leaving));
        }
    }

    fn receive(&self, id: ConnectionId, message: &[u8]) -> Step {
        let now = self.clock.now();
        let State { gate, rng, .. } = &mut *self.state();
        gate.receive(now, id, message, rng)
    }

    fn ended(&self, why: Ending) {
        self.state().gate.ended(why);
    }
}

impl State {
    /// Whether the other task can take it.
    fn post(&mut self, id: ConnectionId, post: Post) -> bool {
        let sender = self.posts.get(&id);
        sender.is_some_and(|sender| sender.try_send(post).is_ok())
    }
}

/// A connection's place in the gate, held as long as this lives.
struct Member {
    hub: Arc<Hub>,
    id: ConnectionId,
}

impl Drop for Member {
    fn drop(&mut self) {
        let mut state = self.hub.state();
        state.gate.closed(self.id);
        state.posts.remove(&self.id);
    }
}

/// The most connections that the process can have, once it has raised its limit of open files as
/// far as it may. Half a stream is a socket and a pipe. `None` if the system doesn't say.
pub fn affordable_connections() -> Option<usize> {
    Some((open_files()?.saturating_sub(64) / 3).max(2))
}

impl StreamServer {
    /// The addresses on which it listens, with the ports that the system chose.
    pub fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        let local = |socket: &Socket| socket.local_addr().ok()?.as_socket();
        self.sockets.iter().filter_map(local)
    }

    /// Serves until somebody stops the relay, on the tokio runtime that awaits it.
    ///
    /// # Errors
    /// The sockets can't be used with tokio.
    pub async fn run(self) -> io::Result<()> {
        let Self {
            sockets,
            hub,
            requests,
        } = self;
        let mut tasks = JoinSet::new();
        for socket in sockets {
            let listener = TcpListener::from_std(socket.into())?;
            tasks.spawn(accept(listener, Arc::clone(&hub)));
        }
        let mut left = false;
        while !requests.is_stopping() {
            if requests.is_leaving() && !left {
                left = true;
                hub.leave();
            }
            tokio::time::sleep(TICK).await;
        }
        Ok(())
    }
}

impl std::fmt::Debug for StreamServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StreamServer").finish_non_exhaustive()
    }
}

async fn accept(listener: TcpListener, hub: Arc<Hub>) {
    let mut tasks = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = tasks.join_next() => continue,
        };
        match accepted {
            Ok((stream, from)) => {
                if let Some((member, posts)) = enter(&hub, from) {
                    tasks.spawn(serve(member, stream, posts));
                }
            }
            Err(error) if is_about_one(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "can't accept TCP connections now");
                tokio::time::sleep(EXHAUSTED).await;
            }
        }
    }
}

/// Whether an error of accepting concerns the connection that came.
fn is_about_one(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionReset | Interrupted
    )
}

fn enter(hub: &Arc<Hub>, from: SocketAddr) -> Option<(Member, mpsc::Receiver<Post>)> {
    let mut state = hub.state();
    let (id, evicted) = state.gate.open(from)?;
    if let Some(evicted) = evicted {
        state.post(evicted, Post::End(None));
    }
    let (sender, posts) = mpsc::channel(POSTS);
    state.posts.insert(id, sender);
    let hub = Arc::clone(hub);
    Some((Member { hub, id }, posts))
}

/// The purpose that a connection turns out to have.
enum Kind {
    Caller,
    Listener,
    Answer(ConnectionId, StreamTerms),
    Nothing,
}

async fn serve(member: Member, mut stream: TcpStream, mut posts: mpsc::Receiver<Post>) {
    let limits = &member.hub.limits;
    let greeted = timeout(limits.handshake, greet(&member, &mut stream, &mut posts)).await;
    let kind = match greeted {
        Ok(Ok(kind)) => kind,
        Ok(Err(_)) => return member.hub.ended(Ending::Left),
        Err(_) => return member.hub.ended(Ending::Slow),
    };
    match kind {
        Kind::Nothing => {}
        Kind::Caller => call(member, stream, posts).await,
        Kind::Listener => listen(&member, stream, posts).await,
        Kind::Answer(caller, terms) => {
            let hub = Arc::clone(&member.hub);
            let post = Post::Answered(stream, member, terms);
            // The post holds a member. If it can't be delivered, it must be dropped without the
            // lock.
            let sender = hub.state().posts.get(&caller).cloned();
            if let Some(sender) = sender {
                sender.try_send(post).ok();
            }
        }
    }
}

/// Reads messages until the connection's purpose is clear.
async fn greet(
    member: &Member,
    stream: &mut TcpStream,
    posts: &mut mpsc::Receiver<Post>,
) -> io::Result<Kind> {
    let mut reader = MessageReader::default();
    loop {
        let message = tokio::select! {
            message = reader.read(stream) => message?,
            // Others need its place.
            _ = posts.recv() => return Ok(Kind::Nothing),
        };
        match member.hub.receive(member.id, message) {
            Step::Reply(reply) => stream.write_all(&reply.to_bytes()).await?,
            Step::Listening(before) => {
                if let Some(before) = before {
                    let end = Post::End(Some(StreamReply::Refused(StreamRefusal::Replaced)));
                    member.hub.state().post(before, end);
                }
                stream.write_all(&StreamReply::Ok.to_bytes()).await?;
                return Ok(Kind::Listener);
            }
            Step::Call(listener, call) => {
                member.hub.state().post(listener, Post::Say(call));
                return Ok(Kind::Caller);
            }
            Step::Splice(caller, terms) => return Ok(Kind::Answer(caller, terms)),
            Step::Refuse(reason) => {
                tracing::debug!(%reason, "refused");
                refuse(stream, reason).await?;
                return Ok(Kind::Nothing);
            }
            Step::Close => return Ok(Kind::Nothing),
        }
    }
}

async fn refuse(stream: &mut TcpStream, reason: StreamRefusal) -> io::Result<()> {
    stream
        .write_all(&StreamReply::Refused(reason).to_bytes())
        .await?;
    stream.shutdown().await
}

/// Waits for the listener, and then forwards.
async fn call(member: Member, mut stream: TcpStream, mut posts: mpsc::Receiver<Post>) {
    let hub = Arc::clone(&member.hub);
    let posted = timeout(hub.limits.call, posts.recv()).await;
    let (mut other, answered, terms) = match posted {
        Ok(Some(Post::Answered(other, answered, terms))) => (other, answered, terms),
        posted => {
            let reason = match posted {
                Ok(Some(Post::End(Some(StreamReply::Refused(reason))))) => reason,
                _ => StreamRefusal::NoAnswer,
            };
            hub.state().gate.uncalled(member.id, reason);
            let told = refuse(&mut stream, reason);
            timeout(hub.limits.handshake, told).await.ok();
            return;
        }
    };
    let ok = StreamReply::Ok.to_bytes();
    let told = async {
        other.write_all(&ok).await?;
        stream.write_all(&ok).await
    };
    let why = match timeout(hub.limits.handshake, told).await {
        Ok(Ok(())) => {
            let splicer = Splicer {
                rates: &hub.rates,
                terms,
                clock: hub.clock,
                passed: &hub.passed,
                idle: hub.limits.idle,
                zero_copy: hub.limits.splice,
            };
            tokio::select! {
                // First, since it also sees to it that what is cut off ends with a reset.
                biased;
                why = splicer.run(&stream, &other) => why,
                () = revoked(&mut posts) => Ending::Revoked,
            }
        }
        _ => Ending::Broken,
    };
    hub.ended(why);
    drop((stream, other));
    drop((member, answered));
}

/// Resolves when the account's access is revoked. Nobody else posts anything to a stream.
async fn revoked(posts: &mut mpsc::Receiver<Post>) {
    if posts.recv().await.is_none() {
        std::future::pending().await
    }
}

/// Keeps a listener until it is silent or gone, or until another one takes its name.
async fn listen(member: &Member, mut stream: TcpStream, mut posts: mpsc::Receiver<Post>) {
    let limits = &member.hub.limits;
    let (mut read, mut write) = stream.split();
    let mut reader = MessageReader::default();
    // Calls don't prolong it.
    let mut silent_at = Instant::now() + limits.silence;
    loop {
        let (reply, ends) = tokio::select! {
            message = timeout_at(silent_at, reader.read(&mut read)) => match message {
                Ok(Ok(message)) => match member.hub.receive(member.id, message) {
                    Step::Reply(reply) => {
                        silent_at = Instant::now() + limits.silence;
                        (reply, false)
                    }
                    Step::Refuse(reason) => (StreamReply::Refused(reason), true),
                    _ => return,
                },
                Ok(Err(_)) => return member.hub.ended(Ending::Left),
                Err(_) => return member.hub.ended(Ending::Idle),
            },
            post = posts.recv() => match post {
                Some(Post::Say(reply)) => (reply, false),
                Some(Post::End(Some(reply))) => (reply, true),
                _ => return,
            },
        };
        let said = timeout(limits.handshake, write.write_all(&reply.to_bytes())).await;
        if ends || !matches!(said, Ok(Ok(()))) {
            return;
        }
    }
}

/// Reads messages, and never a byte behind them.
struct MessageReader {
    bytes: [u8; STREAM_REQUEST_MAX_LEN],
    len: usize,
}

impl Default for MessageReader {
    fn default() -> Self {
        Self {
            bytes: [0; STREAM_REQUEST_MAX_LEN],
            len: 0,
        }
    }
}

impl MessageReader {
    /// The next message; only its first byte if no message begins with that. Cancel safe.
    async fn read(
        &mut self,
        stream: &mut (impl tokio::io::AsyncRead + Unpin),
    ) -> io::Result<&[u8]> {
        loop {
            let wanted = match self.len {
                0 => 1,
                _ => stream_request_len(self.bytes[0]).unwrap_or(1),
            };
            if self.len > 0 && self.len == wanted {
                self.len = 0;
                return Ok(&self.bytes[..wanted]);
            }
            match stream.read(&mut self.bytes[self.len..wanted]).await? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => self.len += read,
            }
        }
    }
}

//! The handle of a connection: opens and accepts streams, reports statistics and events, closes.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use manyway_session::streams::OpenError;
use manyway_session::{
    self as session, CloseReason, Config, ConfigError, ConnectionHandle, ConnectionStats,
    PathSurvey, PeerId, RelayAccess, StreamId,
};

use manyway_units::Rate;
use tokio::task::coop::poll_proceed;

use crate::connection_ref::ConnectionRef;
use crate::driver::shared::{Shared, State};
use crate::driver::slot::{ConnectionState, SendState, Signals, Slot};
use crate::driver::waiters::Waiters;
use crate::error::{ConnectionLost, DatagramError};
use crate::event::Events;
use crate::stream::{RecvStream, SendStream};

/// A connection over every path that works between two hosts.
///
/// A cheap handle. Dropping the last handle and the last stream closes the connection with code 0
/// and loses what the peer hasn't acknowledged by then, so await
/// [`AsyncWriteExt::shutdown`](tokio::io::AsyncWriteExt::shutdown) on each stream that matters.
/// Before the program ends, await [`Endpoint::close`](crate::Endpoint::close): the end of the
/// process takes along what hasn't left yet. The peer then learns of the connection's end by its
/// idle timeout alone.
#[derive(Debug)]
pub struct Connection {
    connection: ConnectionRef,
    signals: Arc<Signals>,
}

impl Connection {
    /// Takes over one reference that was counted already.
    pub(crate) fn new(shared: Arc<Shared>, handle: ConnectionHandle) -> Self {
        let signals =
            shared.look(|state| state.slots.get(&handle).map(|slot| slot.signals.clone()));
        Self {
            connection: ConnectionRef { shared, handle },
            signals: signals.unwrap_or_default(),
        }
    }

    pub(crate) fn handle(&self) -> ConnectionHandle {
        self.connection.handle
    }

    pub(crate) fn signals(&self) -> &Arc<Signals> {
        &self.signals
    }

    /// Opens a stream; waits while the peer allows no more. The peer hears of it with its first
    /// bytes, or its end.
    ///
    /// # Errors
    /// The connection is over.
    pub async fn open_bi(&self) -> Result<(SendStream, RecvStream), ConnectionLost> {
        let id = self.open(session::Connection::open).await?;
        Ok((self.send_half(id), self.recv_half(id)))
    }

    /// Opens a stream on which only this side sends; as [`open_bi`](Self::open_bi) otherwise.
    ///
    /// # Errors
    /// The connection is over.
    pub async fn open_uni(&self) -> Result<SendStream, ConnectionLost> {
        let id = self.open(session::Connection::open_uni).await?;
        Ok(self.send_half(id))
    }

    /// The next stream that the peer opened.
    ///
    /// # Errors
    /// The connection is over, and every stream that was opened before has been accepted.
    pub async fn accept_bi(&self) -> Result<(SendStream, RecvStream), ConnectionLost> {
        let id = self.accept(session::Connection::accept).await?;
        Ok((self.send_half(id), self.recv_half(id)))
    }

    /// The next stream that the peer opened and on which only it sends. A peer may open as many as
    /// [`Config::max_streams`](crate::Config::max_streams), whether or not this side accepts any.
    ///
    /// # Errors
    /// As [`accept_bi`](Self::accept_bi).
    pub async fn accept_uni(&self) -> Result<RecvStream, ConnectionLost> {
        let id = self.accept(session::Connection::accept_uni).await?;
        Ok(self.recv_half(id))
    }

    async fn open(
        &self,
        open: fn(&mut session::Connection) -> Result<StreamId, OpenError>,
    ) -> Result<StreamId, ConnectionLost> {
        let action = |state: &mut State| match state.established(self.connection.handle) {
            Ok((connection, _)) => match open(connection) {
                Ok(id) => Some(Ok(id)),
                Err(OpenError::Limit { .. }) => None,
            },
            Err(lost) => Some(Err(lost)),
        };
        let shared = &self.connection.shared;
        shared.act_until(&self.signals.available, action).await
    }

    async fn accept(
        &self,
        accept: fn(&mut session::Connection) -> Option<StreamId>,
    ) -> Result<StreamId, ConnectionLost> {
        let handle = self.connection.handle;
        let action = |state: &mut State| {
            // What arrived before the end may still be accepted and read.
            match state.session.connection(handle).and_then(accept) {
                Some(id) => Some(Ok(id)),
                None => state.established(handle).err().map(Err),
            }
        };
        let shared = &self.connection.shared;
        shared.act_until(&self.signals.opened, action).await
    }

    fn send_half(&self, id: StreamId) -> SendStream {
        let add = |slot: &mut Slot| slot.sends.insert(id, SendState::default());
        SendStream::new(self.half(add), id)
    }

    fn recv_half(&self, id: StreamId) -> RecvStream {
        let add = |slot: &mut Slot| slot.receives.insert(id, None);
        RecvStream::new(self.half(add), id)
    }

    /// Counts another handle of the connection, and lets `add` note what it is for.
    fn half<R>(&self, add: impl FnOnce(&mut Slot) -> R) -> ConnectionRef {
        let connection = self.connection.clone();
        let slots = |state: &mut State| state.slots.get_mut(&connection.handle).map(add);
        connection.shared.look(slots);
        connection
    }

    /// Most bytes of a datagram that can be sent; `None` unless both sides have set
    /// [`Config::datagram`](crate::Config::datagram).
    pub fn max_datagram(&self) -> Option<usize> {
        let connection = |state: &mut State| {
            state
                .session
                .connection(self.connection.handle)?
                .max_datagram()
        };
        self.connection.shared.look(connection)
    }

    /// Sends a datagram (RFC 9221), which arrives once, late, behind later ones, or never. Waits
    /// while too many wait to leave; one that has waited for 50 ms is dropped. Datagrams leave
    /// before stream data. Nothing is sent if the future is dropped.
    ///
    /// # Errors
    /// The datagram is too large, the peer takes none, or the connection is over.
    pub async fn send_datagram(&self, data: Bytes) -> Result<(), DatagramError> {
        let shared = &self.connection.shared;
        self.in_turn(
            |slot| &mut slot.datagram_senders,
            |waiting, cx| {
                let now = shared.clock.now();
                shared.act(|state| {
                    let (connection, slot) = state.established(self.connection.handle)?;
                    match connection.send_datagram(now, data.clone()) {
                        Ok(()) => Poll::Ready(Ok(())),
                        Err(session::DatagramError::Blocked) => {
                            slot.datagram_senders.wait(waiting, cx)
                        }
                        Err(error) => Poll::Ready(Err(error.into())),
                    }
                })
            },
        )
        .await
    }

    /// The next datagram that arrived. When too many wait to be taken, the oldest is dropped.
    /// Nothing is lost if the future is dropped. If the two sides don't exchange datagrams
    /// ([`max_datagram`](Self::max_datagram) is `None`), it waits for the connection's end.
    ///
    /// # Errors
    /// The connection is over, and all that arrived before has been taken.
    pub async fn recv_datagram(&self) -> Result<Bytes, ConnectionLost> {
        let handle = self.connection.handle;
        self.in_turn(
            |slot| &mut slot.datagram_readers,
            |waiting, cx| {
                self.connection.shared.look(|state| {
                    let connection = state.session.connection(handle);
                    if let Some(data) = connection.and_then(session::Connection::recv_datagram) {
                        return Poll::Ready(Ok(data));
                    }
                    let (_, slot) = state.established(handle)?;
                    slot.datagram_readers.wait(waiting, cx)
                })
            },
        )
        .await
    }

    /// Polls until it is ready; a task for which it always is lets others run all the same. It may
    /// wait among `waiters` under the key that it gets, and is forgotten there if it is given up.
    async fn in_turn<R>(
        &self,
        waiters: fn(&mut Slot) -> &mut Waiters,
        mut poll: impl FnMut(&mut Option<u64>, &mut Context<'_>) -> Poll<R>,
    ) -> R {
        let mut waiting = Waiting {
            connection: &self.connection,
            waiters,
            key: None,
        };
        poll_fn(|cx| {
            let turn = ready!(poll_proceed(cx));
            let polled = poll(&mut waiting.key, cx);
            if polled.is_ready() {
                turn.made_progress();
            }
            polled
        })
        .await
    }

    /// Counters of the connection and of each path, as of now.
    pub fn stats(&self) -> ConnectionStats {
        let connection =
            |state: &mut State| Some(state.session.connection(self.connection.handle)?.stats());
        self.connection.shared.look(connection).unwrap_or_default()
    }

    /// Offers relays to go through, at any time and in any number; the connection keeps 256 at a
    /// time. Only the side that dialled can offer them. Relays that are known already get the new
    /// access, over TCP too. Returns how many were new.
    ///
    /// With the law `mpath`, relays are candidates: the connection probes them and uses those that
    /// prove useful. With any other law, it opens a path through each as soon as the relay and the
    /// other side agree. [`ConnectionStats::relays`] has their state.
    pub fn add_relays(&self, relays: &[RelayAccess]) -> usize {
        let now = self.connection.shared.clock.now();
        let add = |state: &mut State| {
            state.note_access(self.connection.handle, relays);
            let connection = state.session.connection(self.connection.handle)?;
            Some(connection.add_relays(now, relays))
        };
        self.connection.shared.act(add).unwrap_or(0)
    }

    /// Adds addresses of the listener, which are then tried like those in the ticket. Only the side
    /// that dialled can add them.
    pub fn add_remotes(&self, addresses: &[SocketAddr]) {
        let now = self.connection.shared.clock.now();
        self.connection.shared.act(|state| {
            state
                .session
                .add_remotes(now, self.connection.handle, addresses);
        });
    }

    /// Sends at no more than this rate from now on, in place of
    /// [`Config::limit`](crate::Config::limit); `None`: as fast as congestion control allows.
    ///
    /// # Errors
    /// [`Config::limit`](crate::Config::limit) can't be so low. The limit stays as it is.
    pub fn set_limit(&self, limit: Option<Rate>) -> Result<(), ConfigError> {
        let config = Config {
            limit,
            ..Config::default()
        };
        config.validate()?;
        let now = self.connection.shared.clock.now();
        let set = |state: &mut State| {
            let connection = state.session.connection(self.connection.handle)?;
            connection.set_limit(now, limit);
            Some(())
        };
        self.connection.shared.act(set);
        Ok(())
    }

    /// Sends this many bytes of filler for [`Connection::survey`], within congestion control and
    /// [`Config::limit`](crate::Config::limit); 0 stops it. The peer needs to do nothing.
    pub fn fill(&self, bytes: u64) {
        let now = self.connection.shared.clock.now();
        let fill = |state: &mut State| {
            state
                .session
                .connection(self.connection.handle)?
                .fill(now, bytes);
            Some(())
        };
        self.connection.shared.act(fill);
    }

    /// Measurements of every path in use since [`Connection::fill`]; empty without
    /// [`Config::watch`](crate::Config::watch).
    pub fn survey(&self) -> Vec<PathSurvey> {
        let now = self.connection.shared.clock.now();
        let survey = |state: &mut State| {
            Some(
                state
                    .session
                    .connection(self.connection.handle)?
                    .survey(now),
            )
        };
        self.connection.shared.look(survey).unwrap_or_default()
    }

    /// Bytes of [`Connection::fill`] that haven't left yet.
    pub fn unsent_filler(&self) -> u64 {
        let unsent = |state: &mut State| {
            Some(
                state
                    .session
                    .connection(self.connection.handle)?
                    .unsent_filler(),
            )
        };
        self.connection.shared.look(unsent).unwrap_or(0)
    }

    /// Events of the paths and of the end, since the connection began: of those that have been, the
    /// last 256. [`Event::Closed`](crate::Event::Closed) is the last one.
    pub fn events(&self) -> Events {
        let handle = &self.connection.handle;
        let events = |state: &mut State| state.slots.get(handle).map(Slot::events);
        self.connection.shared.look(events).unwrap_or_default()
    }

    /// Closes the connection and tells the peer why. What it hasn't acknowledged yet is dropped.
    /// Codes below 0x100 are the protocol's own; of the reason, 1024 bytes are sent.
    ///
    /// This returns before the peer is told. A program that ends right after it must await
    /// [`Endpoint::close`](crate::Endpoint::close), or the peer may hear of the end by its idle
    /// timeout alone.
    pub fn close(&self, code: u64, reason: &str) {
        let now = self.connection.shared.clock.now();
        self.connection
            .shared
            .act(|state| state.close(now, self.connection.handle, code, reason));
    }

    /// Waits for the connection's end, and tells its reason.
    pub async fn closed(&self) -> CloseReason {
        let reason = self
            .connection
            .shared
            .act_until(&self.signals.state, |state| {
                match state.slots.get(&self.connection.handle) {
                    Some(slot) => match &slot.state {
                        ConnectionState::Closed(reason, _) => Some(reason.clone()),
                        _ => None,
                    },
                    None => Some(CloseReason::Local),
                }
            });
        reason.await
    }

    /// Whom the peer has proven to be: the listener that made our ticket, or an initiator with an
    /// [identity](crate::Config::identity). `None` for an initiator without one: it holds the
    /// ticket, and nobody knows it again.
    pub fn peer_identity(&self) -> Option<PeerId> {
        self.connection
            .shared
            .look(|state| state.session.connection(self.connection.handle)?.peer())
    }

    /// The reason of the connection's end, if it is over.
    pub fn close_reason(&self) -> Option<CloseReason> {
        self.connection.shared.look(|state| {
            state
                .established(self.connection.handle)
                .err()
                .map(|lost| lost.0)
        })
    }
}

/// A task among a connection's waiters.
struct Waiting<'a> {
    connection: &'a ConnectionRef,
    waiters: fn(&mut Slot) -> &mut Waiters,
    key: Option<u64>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let Some(key) = self.key else { return };
        let ConnectionRef { shared, handle } = self.connection;
        let forget = |state: &mut State| {
            let slot = state.slots.get_mut(handle)?;
            (self.waiters)(slot).give_up(key)
        };
        drop(shared.look(forget));
    }
}

impl Clone for Connection {
    fn clone(&self) -> Self {
        Self {
            connection: self.connection.clone(),
            signals: self.signals.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use std::task::Wake;

    use crate::{Endpoint, EndpointOptions};

    use super::*;

    /// A task of its own.
    #[derive(Default)]
    struct Task(AtomicBool);

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Relaxed);
        }
    }

    async fn endpoint() -> Endpoint {
        let config = Config {
            datagram: Some(1000),
            ..Config::default()
        };
        let options = EndpointOptions {
            config,
            paths: vec!["127.0.0.1".parse().unwrap()],
            ..EndpointOptions::default()
        };
        Endpoint::bind(options).await.unwrap()
    }

    #[tokio::test]
    async fn who_gives_up_leaves_no_waker_and_who_waits_is_woken() {
        let (listener, connector) = (endpoint().await, endpoint().await);
        let ticket = listener.listen().unwrap();
        let (connected, accepted) = tokio::join!(connector.connect(&ticket), listener.accept());
        let (connected, accepted) = (connected.unwrap(), accepted.unwrap());
        let handle = accepted.handle();
        let waiting = || {
            let readers = |state: &mut State| state.slots[&handle].datagram_readers.len();
            accepted.connection.shared.look(readers)
        };
        let task = Arc::new(Task::default());
        let waker = task.clone().into();
        let mut patient = pin!(accepted.recv_datagram());
        let mut poll = || patient.as_mut().poll(&mut Context::from_waker(&waker));
        assert!(poll().is_pending() && poll().is_pending());
        for _ in 0..100 {
            let other = Arc::new(Task::default()).into();
            let mut given_up = pin!(accepted.recv_datagram());
            let polled = given_up.as_mut().poll(&mut Context::from_waker(&other));
            assert!(polled.is_pending());
            assert_eq!(waiting(), 2);
        }
        assert_eq!(waiting(), 1);
        let sent = connected.send_datagram("x".into()).await;
        assert_eq!(sent, Ok(()));
        while !task.0.load(Relaxed) {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        assert_eq!(poll(), Poll::Ready(Ok("x".into())));
    }
}

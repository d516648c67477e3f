//! A connection: streams, statistics, events and its end.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use manyway_session::streams::OpenError;
use manyway_session::{
    CloseReason, ConnectionHandle, ConnectionStats, PathSurvey, Purpose, RelayAccess, StreamId,
};
use tokio::net::TcpStream;
use tokio::sync::broadcast;

use crate::driver::shared::{Phase, SendState, Shared, Signals, State};
use crate::error::ConnectionLost;
use crate::event::Event;
use crate::stream::{RecvStream, SendStream};
use crate::tcp::carrier::{NewCarrier, start};

/// A connection over every path that works between two hosts.
///
/// A cheap handle. When the last one is gone, and every stream of the connection, the connection is
/// closed with code 0; what the peer hasn't acknowledged by then is lost, so wait for
/// [`AsyncWriteExt::shutdown`](tokio::io::AsyncWriteExt::shutdown) of what matters.
#[derive(Debug)]
pub struct Connection {
    hold: Hold,
    signals: Arc<Signals>,
}

impl Connection {
    /// Takes over one holding that was counted already.
    pub(crate) fn new(shared: Arc<Shared>, handle: ConnectionHandle) -> Self {
        let signals =
            shared.look(|state| state.slots.get(&handle).map(|slot| slot.signals.clone()));
        Self {
            hold: Hold { shared, handle },
            signals: signals.unwrap_or_default(),
        }
    }

    pub(crate) fn handle(&self) -> ConnectionHandle {
        self.hold.handle
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
        let handle = self.hold.handle;
        let id = self
            .hold
            .shared
            .act_until(&self.signals.available, |state| {
                match state.established(handle) {
                    Ok((connection, _)) => match connection.open() {
                        Ok(id) => Some(Ok(id)),
                        Err(OpenError::Limit { .. }) => None,
                    },
                    Err(lost) => Some(Err(lost)),
                }
            });
        let id = id.await?;
        Ok(self.hold.shared.look(|state| self.halves(state, id)))
    }

    /// The next stream that the peer opened.
    ///
    /// # Errors
    /// The connection is over, and every stream that was opened before has been accepted.
    pub async fn accept_bi(&self) -> Result<(SendStream, RecvStream), ConnectionLost> {
        let handle = self.hold.handle;
        let id = self.hold.shared.act_until(&self.signals.opened, |state| {
            // What arrived before the end may still be accepted and read.
            match state
                .session
                .connection(handle)
                .and_then(|connection| connection.accept())
            {
                Some(id) => Some(Ok(id)),
                None => state.established(handle).err().map(Err),
            }
        });
        let id = id.await?;
        Ok(self.hold.shared.look(|state| self.halves(state, id)))
    }

    fn halves(&self, state: &mut State, id: StreamId) -> (SendStream, RecvStream) {
        if let Some(slot) = state.slots.get_mut(&self.hold.handle) {
            slot.handles += 2;
            slot.sends.insert(id, SendState::default());
            slot.receives.insert(id, None);
        }
        let hold = || Hold {
            shared: self.hold.shared.clone(),
            handle: self.hold.handle,
        };
        (SendStream::new(hold(), id), RecvStream::new(hold(), id))
    }

    /// Counters of the connection and of each path, as of now.
    pub fn stats(&self) -> ConnectionStats {
        let connection =
            |state: &mut State| Some(state.session.connection(self.hold.handle)?.stats());
        self.hold.shared.look(connection).unwrap_or_default()
    }

    /// Offers relays to go through, as many as there may be (the side that dialled only; 256 at a
    /// time are kept). More can follow at any time. How many were new. Those that are known already
    /// are asked with the access given now, over TCP too.
    ///
    /// With the law `mpath` they are candidates that are probed and used as they prove useful; with
    /// any other one, a path is opened through each as soon as the relay and the other side agree.
    /// What has come of them is in [`ConnectionStats::relays`].
    pub fn add_relays(&self, relays: &[RelayAccess]) -> usize {
        let now = self.hold.shared.clock.now();
        let add = |state: &mut State| {
            state.note_access(self.hold.handle, relays);
            let connection = state.session.connection(self.hold.handle)?;
            Some(connection.add_relays(now, relays))
        };
        self.hold.shared.act(add).unwrap_or(0)
    }

    /// Opens another path over this TCP connection, which leads to the other side in a way of the
    /// caller's, as through a relay (the side that dialled only). `name` is what people call it.
    ///
    /// # Errors
    /// The TCP connection is broken already, or this connection has no use for it.
    pub fn add_carrier(&self, stream: TcpStream, name: &str) -> io::Result<()> {
        let new = NewCarrier {
            stream,
            name: name.to_owned(),
            purpose: Purpose::Dialled(self.hold.handle),
            relay: false,
        };
        start(&self.hold.shared, new).map(drop)
    }

    /// The listener may be at these addresses too: they are tried as the ticket's are (the side
    /// that dialled only).
    pub fn add_remotes(&self, addresses: &[SocketAddr]) {
        let now = self.hold.shared.clock.now();
        self.hold.shared.act(|state| {
            state.session.add_remotes(now, self.hold.handle, addresses);
        });
    }

    /// Sends so many bytes that say nothing, within congestion control and
    /// [`Config::limit`](crate::Config::limit), for [`Connection::survey`]; 0 ends it. The peer
    /// needs to do nothing.
    pub fn fill(&self, bytes: u64) {
        let now = self.hold.shared.clock.now();
        let fill = |state: &mut State| {
            state.session.connection(self.hold.handle)?.fill(now, bytes);
            Some(())
        };
        self.hold.shared.act(fill);
    }

    /// What was seen of every path in use since [`Connection::fill`]; empty without
    /// [`Config::watch`](crate::Config::watch).
    pub fn survey(&self) -> Vec<PathSurvey> {
        let now = self.hold.shared.clock.now();
        let survey =
            |state: &mut State| Some(state.session.connection(self.hold.handle)?.survey(now));
        self.hold.shared.look(survey).unwrap_or_default()
    }

    /// Bytes of [`Connection::fill`] that haven't left yet.
    pub fn unsent_filler(&self) -> u64 {
        let unsent =
            |state: &mut State| Some(state.session.connection(self.hold.handle)?.unsent_filler());
        self.hold.shared.look(unsent).unwrap_or(0)
    }

    /// News of the paths, and of the end, from now on.
    pub fn events(&self) -> broadcast::Receiver<Event> {
        self.hold
            .shared
            .look(|state| match state.slots.get(&self.hold.handle) {
                Some(slot) => slot.events.subscribe(),
                None => broadcast::channel(1).1,
            })
    }

    /// Closes the connection and tells the peer why. What it hasn't acknowledged yet is dropped.
    /// Codes below 0x100 are the protocol's own; of the reason, 1024 bytes are sent.
    pub fn close(&self, code: u64, reason: &str) {
        let now = self.hold.shared.clock.now();
        self.hold
            .shared
            .act(|state| state.close(now, self.hold.handle, code, reason));
    }

    /// Waits for the connection's end, and tells its reason.
    pub async fn closed(&self) -> CloseReason {
        let reason = self.hold.shared.act_until(&self.signals.phase, |state| {
            match state.slots.get(&self.hold.handle) {
                Some(slot) => match &slot.phase {
                    Phase::Closed(reason, _) => Some(reason.clone()),
                    _ => None,
                },
                None => Some(CloseReason::Local),
            }
        });
        reason.await
    }

    /// The reason of the connection's end, if it is over.
    pub fn close_reason(&self) -> Option<CloseReason> {
        self.hold
            .shared
            .look(|state| state.established(self.hold.handle).err().map(|lost| lost.0))
    }
}

impl Clone for Connection {
    fn clone(&self) -> Self {
        Self {
            hold: self.hold.clone(),
            signals: self.signals.clone(),
        }
    }
}

/// Keeps a connection open.
#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) shared: Arc<Shared>,
    pub(crate) handle: ConnectionHandle,
}

impl Clone for Hold {
    fn clone(&self) -> Self {
        self.shared.look(|state| {
            state
                .slots
                .get_mut(&self.handle)
                .map(|slot| slot.handles += 1)
        });
        Self {
            shared: self.shared.clone(),
            handle: self.handle,
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let now = self.shared.clock.now();
        self.shared.act(|state| state.let_go(now, self.handle));
    }
}

//! Accepts TCP connections on the addresses and the port of the UDP sockets.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Weak};
use std::time::Duration;

use manyway_session::Purpose;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::driver::shared::{Kept, Shared, State};
use crate::error::BindError;
use crate::event::{Event, Events};

use super::carrier::{NewCarrier, start};
use super::options::listening;
use super::outbox::End;

/// Connections on which nobody has said anything that counts: in all, and of one host.
const MAX_UNSPOKEN: usize = 512;
const MAX_UNSPOKEN_OF_HOST: usize = 64;
/// Out of file descriptors, say: accepting goes on after this.
const PAUSE: Duration = Duration::from_millis(100);

/// Listens at every local address, on the port of its socket, and follows those that come and go.
///
/// # Errors
/// None can be bound; what the first one says. Or the endpoint is closed.
pub(crate) fn listen(shared: &Arc<Shared>) -> Result<(), BindError> {
    // Subscribed first: what comes in between is seen twice, not never.
    let (events, locals) = shared.look(|state| {
        if state.closing {
            return Err(BindError::Closed);
        }
        let locals: Vec<_> = state.locals.values().cloned().collect();
        Ok((state.events(), locals))
    })?;
    // Their sockets belong to its reactor.
    let tasks = shared.tcp_tasks().map_err(BindError::Thread)?;
    let _entered = tasks.enter();
    let mut listeners = Listeners {
        shared: Arc::downgrade(shared),
        running: BTreeMap::new(),
    };
    let mut failed = None;
    for (name, addr) in locals {
        if let Err(error) = listeners.add(&name, addr) {
            tracing::warn!(%addr, %error, "can't accept TCP connections at this address");
            failed.get_or_insert(BindError::Socket {
                addr,
                device: device(&name).map(str::to_owned),
                error,
            });
        }
    }
    match failed {
        Some(error) if listeners.running.is_empty() => Err(error),
        _ => {
            tokio::spawn(listeners.follow(events));
            Ok(())
        }
    }
}

/// A socket is called by its device, or by its address where the routing rules choose the device.
pub(crate) fn device(name: &str) -> Option<&str> {
    name.parse::<IpAddr>().is_err().then_some(name)
}

struct Listeners {
    shared: Weak<Shared>,
    running: BTreeMap<SocketAddr, JoinHandle<()>>,
}

impl Listeners {
    fn add(&mut self, name: &str, addr: SocketAddr) -> io::Result<()> {
        if self.running.contains_key(&addr) {
            return Ok(());
        }
        let closed = || io::Error::other("the endpoint is closed");
        let shared = self.shared.upgrade().ok_or_else(closed)?;
        let kept = shared.keep().ok_or_else(closed)?;
        let socket = listening(addr, device(name))?;
        let listener = Listener {
            socket: TcpListener::from_std(socket.into())?,
            _kept: kept,
        };
        let task = tokio::spawn(accept(self.shared.clone(), listener, name.to_owned()));
        self.running.insert(addr, task);
        Ok(())
    }

    async fn follow(mut self, mut events: Events) {
        loop {
            match events.recv().await {
                Some(Event::LocalAdded { name, addr }) => {
                    if let Err(error) = self.add(&name, addr) {
                        tracing::warn!(
                            %addr,
                            %error,
                            "can't accept TCP connections at this address"
                        );
                    }
                }
                Some(Event::LocalRemoved { addr, .. }) => {
                    if let Some(task) = self.running.remove(&addr) {
                        task.abort();
                    }
                }
                Some(_) => {}
                None => break,
            }
            let stopped = |shared: Arc<Shared>| shared.look(|state| state.stop);
            if self.shared.upgrade().is_none_or(stopped) {
                break;
            }
        }
    }
}

impl Drop for Listeners {
    fn drop(&mut self) {
        self.running.values().for_each(JoinHandle::abort);
    }
}

/// Until it is dropped, closing the endpoint isn't over.
struct Listener {
    // Dropped first: then the port is free.
    socket: TcpListener,
    _kept: Kept,
}

async fn accept(shared: Weak<Shared>, listener: Listener, name: String) {
    loop {
        let accepted = listener.socket.accept().await;
        let Some(shared) = shared.upgrade() else {
            return;
        };
        if shared.look(|state| state.stop) {
            return;
        }
        let (stream, remote) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::debug!(%error, "can't accept a TCP connection");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        if !shared.act(|state| state.make_room(remote.ip())) {
            tracing::debug!(%remote, "too many TCP connections from this host carry no path");
            continue;
        }
        let new = NewCarrier {
            stream,
            name: name.clone(),
            purpose: Purpose::Accepted,
            relay: false,
        };
        if let Err(error) = start(&shared, new) {
            tracing::debug!(%remote, %error, "no session needs this TCP connection");
        }
    }
}

impl State {
    /// Whether another connection of this host, which may be a relay, may be taken. Where there are
    /// too many in all, the oldest one goes: who means it has been heard by then.
    pub(super) fn make_room(&mut self, host: IpAddr) -> bool {
        let Self {
            carriers, session, ..
        } = self;
        let unspoken = |(id, outbox): &(&_, &super::outbox::Outbox)| {
            outbox.caller.is_some() && outbox.end == End::Open && !session.carrier_in_use(**id)
        };
        let waiting: Vec<_> = carriers
            .iter()
            .filter(unspoken)
            .map(|(&id, outbox)| (id, outbox.caller))
            .collect();
        let same = |(_, caller): &&(_, Option<IpAddr>)| *caller == Some(host);
        if waiting.iter().filter(same).count() >= MAX_UNSPOKEN_OF_HOST {
            return false;
        }
        if waiting.len() >= MAX_UNSPOKEN
            && let Some(outbox) = waiting.first().and_then(|(id, _)| carriers.get_mut(id))
        {
            outbox.finish(End::Abort);
        }
        true
    }
}

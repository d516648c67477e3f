//! Accepts TCP connections that relays pass on: the listener keeps a connection open to each relay,
//! over which the relay announces callers.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use manyway_session::{Purpose, RelayAddress, RelayId, listen_key};
use tokio::net::TcpStream;
use tokio::time::interval;

use crate::driver::shared::Shared;
use crate::event::{Event, Events};
use crate::problem;
use crate::tcp_relay::{ListenStatus, TcpRelayListener};

use super::Carriers;
use super::carrier::{NewCarrier, start};
use super::dial::connect;

/// How often to look whether the endpoint is still there.
const LOOK: Duration = Duration::from_secs(1);

/// Listens at these relays for the holders of a ticket with this secret, as long as the endpoint
/// lives.
pub(crate) fn listen_at(shared: &Arc<Shared>, secret: &[u8; 32], relays: &[RelayAddress]) {
    if shared.tcp.carriers == Carriers::Udp {
        return;
    }
    let tasks = match shared.tcp_tasks() {
        Ok(tasks) => tasks,
        Err(error) => return tracing::warn!(%error, "can't listen at relays over TCP"),
    };
    let mut addresses: BTreeMap<_, Vec<SocketAddr>> = BTreeMap::new();
    for relay in relays {
        addresses.entry(relay.id).or_default().push(relay.address);
    }
    for (relay, addresses) in addresses {
        let key = listen_key(secret, &relay);
        let from = Arc::downgrade(shared);
        let start = move || {
            let from = from.clone();
            TcpRelayListener::start(relay, addresses.clone(), key, move |to| {
                open(from.clone(), to)
            })
        };
        let events = shared.look(|state| state.events());
        tasks.spawn(accept(Arc::downgrade(shared), relay, start, events));
    }
}

async fn accept(
    shared: Weak<Shared>,
    relay: RelayId,
    start_listener: impl Fn() -> TcpRelayListener,
    mut events: Events,
) {
    let mut looks = interval(LOOK);
    let mut listener = start_listener();
    let mut status = listener.status();
    let mut told = false;
    loop {
        let stream = tokio::select! {
            stream = listener.accept() => Some(stream),
            Some(event) = events.recv() => {
                // The connection to the relay may have used it.
                if matches!(event, Event::LocalRemoved { .. }) {
                    listener = start_listener();
                    status = listener.status();
                }
                None
            }
            _ = looks.tick() => None,
        };
        let Some(shared) = shared.upgrade().filter(|shared| is_open(shared)) else {
            return;
        };
        // Where there is UDP, a relay may well be without TCP.
        if shared.tcp.carriers == Carriers::Tcp
            && let ListenStatus::Failed(error) = &*status.borrow_and_update()
            && !std::mem::replace(&mut told, true)
        {
            tracing::warn!(%error, "can't listen at this relay over TCP; trying again");
        }
        let Some(stream) = stream else { continue };
        let Some(name) = name_of(&shared, &stream) else {
            continue;
        };
        // All calls that a relay passes on count as its own.
        let remote = stream.peer_addr();
        if remote.is_ok_and(|remote| !shared.act(|state| state.make_room(remote.ip()))) {
            tracing::debug!(?relay, "too many calls through this relay carry no path");
            continue;
        }
        let new = NewCarrier {
            stream,
            name,
            purpose: Purpose::Accepted,
            relay: true,
        };
        if let Err(error) = start(&shared, new) {
            tracing::debug!(?relay, %error, "no session needs this call");
        }
    }
}

/// What people call the connection's way out of the host, unless its socket has gone meanwhile.
fn name_of(shared: &Shared, stream: &TcpStream) -> Option<String> {
    let from = stream.local_addr().ok()?.ip();
    shared.look(|state| {
        let mut locals = state.locals.values();
        let (name, _) = locals.find(|(_, addr)| addr.ip() == from)?;
        Some(name.clone())
    })
}

fn is_open(shared: &Shared) -> bool {
    shared.look(|state| !state.closing && !state.stop)
}

/// A connection to the relay from the first local address that can reach it.
async fn open(shared: Weak<Shared>, to: SocketAddr) -> io::Result<TcpStream> {
    let gone = || io::Error::other("the endpoint is closed");
    let shared = shared.upgrade().ok_or_else(gone)?;
    let congestion = shared.tcp.congestion.clone();
    let locals = shared.look(|state| state.locals.values().cloned().collect::<Vec<_>>());
    drop(shared);
    let mut failed = io::Error::new(
        io::ErrorKind::AddrNotAvailable,
        "no local address can reach it",
    );
    for (name, addr) in locals {
        if problem::is_impossible(addr.ip(), to) {
            continue;
        }
        let from = SocketAddr::new(addr.ip(), 0);
        match connect(from, &name, to, congestion.as_ref()).await {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

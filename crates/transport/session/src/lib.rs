//! The manyway session protocol, sans-IO: one encrypted connection over every path two hosts have.
//!
//! [`Endpoint`] owns the sockets' names, the handshakes and the connections; a driver hands it
//! datagrams and the time, and takes datagrams, deadlines and events out of it. The same code runs
//! under tokio in `manyway-runtime` and under a virtual clock in `manyway-simulate`.
//! `docs/protocol.md` has the wire format.

pub mod crypto;
pub mod handshake;
pub mod streams;

mod budget;
mod carrier;
mod config;
mod connection;
mod driver;
mod endpoint;
mod event;
mod limit;
mod observe;
mod received;
mod relays;
mod stats;

pub use carrier::{Carrier, CarrierError, Facts, MAX_RECORD, Purpose};
pub use config::{Config, ConfigError};
pub use connection::Connection;
pub use driver::{ConnectionHandle, Ecn, Incoming, Local, LocalId, SendErrorKind, Transmit};
pub use endpoint::{ConnectError, Endpoint};
pub use event::{
    CloseReason, DatagramError, DatagramEvent, Event, PathDownReason, PathEvent, PickReason,
    RelayContact, RelayHeard,
};
pub use observe::{NewPath, Observer, Observers, PacketEvent, PathObservers};
pub use relays::{RelayAccess, RelayAddress};
pub use stats::{
    CarrierKind, ConnectionStats, DatagramStats, PathState, PathStats, PathSurvey, RelayState,
    RelayStats, SelectionStats,
};

pub use handshake::{Identity, Secrets, listen_key, listener_name};
pub use manyway_wire::relay::{Access, ListenKey, ListenerName, RelayId, RelayTicket};
pub use manyway_wire::{
    LentAccess, LentRegistry, LentRelay, MAX_TICKET_RELAYS, PathId, PeerId, StreamId, Ticket,
};

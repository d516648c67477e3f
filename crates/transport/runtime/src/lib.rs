//! The tokio edge of manyway: sockets, interfaces, timers, the async API and files on disk.
//!
//! This crate owns every I/O handle of an endpoint and one thread per endpoint that moves datagrams
//! between them and `manyway-session`. It never decides what a packet says, which path it takes or
//! how fast it leaves: the session does.
//!
//! [`Endpoint`] binds a UDP socket per local address and runs all connections over them.
//! [`Connection`] is the handle that both sides hold; they write to [`SendStream`] and read from
//! [`RecvStream`]:
//!
//! ```no_run
//! use manyway_runtime::{Endpoint, EndpointOptions};
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let receiver = Endpoint::bind(EndpointOptions::default()).await?;
//! let ticket = receiver.listen()?;
//!
//! let sender = Endpoint::bind(EndpointOptions::default()).await?;
//! let connection = sender.connect(&ticket).await?;
//! let (mut send, _) = connection.open_bi().await?;
//! send.write_all(b"over every path").await?;
//! send.shutdown().await?; // the other side has it
//!
//! let accepted = receiver.accept().await.ok_or("closed")?;
//! let (_, mut receive) = accepted.accept_bi().await?;
//! let mut text = String::new();
//! receive.read_to_string(&mut text).await?;
//! # Ok(()) }
//! ```
//!
//! When a path doesn't work, [`Event::PathProblem`] names the local address and the remedy.

pub mod files;

mod addresses;
mod clock;
mod connection;
mod connection_ref;
mod driver;
mod endpoint;
mod error;
mod event;
mod interfaces;
mod log;
mod problem;
mod socket;
mod stream;
mod tcp;
pub mod tcp_relay;
mod timer;
mod unanswered;

pub use connection::Connection;
pub use endpoint::{Endpoint, EndpointOptions};
pub use error::{BindError, ConnectError, ConnectionLost, DatagramError, ReadError, WriteError};
pub use event::{Event, Events};
pub use interfaces::{PathSelector, PathSelectorError};
pub use problem::{PathPair, PathProblem, ProblemKind};
pub use stream::{RecvStream, SendStream};
pub use tcp::{Carriers, CarriersError, Congestion, CongestionError, TcpOptions};
pub use unanswered::{TcpOutcome, TcpResult, Unanswered};

pub use manyway_session::{
    CarrierKind, CloseReason, Config, ConnectionStats, DatagramStats, Identity, PathDownReason,
    PathEvent, PathId, PathState, PathStats, PathSurvey, PeerId, RelayAccess, RelayAddress,
    RelayState, RelayStats, Secrets, StreamId, Ticket,
};

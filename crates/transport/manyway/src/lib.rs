//! Move data over every path you have.
//!
//! A [`Connection`] runs over all pairs of local interfaces and peer addresses that carry packets,
//! at the same time, with one coupled congestion controller over all of them: where paths share a
//! bottleneck, they together aim at the share of one TCP flow. Everything is encrypted and
//! authenticated end to end; a [`Ticket`] is all that one side must know of the other.
//!
//! ```
//! use manyway::{Endpoint, EndpointOptions};
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // One side listens. Its ticket goes to the other side: over the phone, ssh, a QR code.
//! let listener = Endpoint::bind(EndpointOptions {
//!     paths: vec!["127.0.0.1".parse()?],
//!     ..EndpointOptions::default()
//! })
//! .await?;
//! let ticket = listener.listen()?;
//! let echo = tokio::spawn(async move {
//!     let connection = listener.accept().await.expect("the endpoint is open");
//!     let (mut send, mut receive) = connection.accept_bi().await?;
//!     tokio::io::copy(&mut receive, &mut send).await?;
//!     send.finish()?;
//!     connection.closed().await;
//!     Ok::<_, std::io::Error>(())
//! });
//!
//! // The other side connects: over every interface, unless told otherwise.
//! let endpoint = Endpoint::bind(EndpointOptions {
//!     paths: vec!["127.0.0.1".parse()?],
//!     ..EndpointOptions::default()
//! })
//! .await?;
//! let connection = endpoint.connect(&ticket).await?;
//! let (mut send, mut receive) = connection.open_bi().await?;
//! send.write_all(b"over every path").await?;
//! send.finish()?;
//! let mut answer = String::new();
//! receive.read_to_string(&mut answer).await?;
//! assert_eq!(answer, "over every path");
//! for path in connection.stats().paths {
//!     println!("{} → {}: {} bytes sent", path.name, path.remote, path.bytes_sent);
//! }
//! connection.close(0, "done");
//! endpoint.close().await;
//! echo.await??;
//! # Ok(())
//! # }
//! ```
//!
//! # Who is there
//!
//! A peer without an [`Identity`] makes new keys for each connection. With one, others know it
//! again: the side that connects proves it in the handshake, and a listener's tickets lead to it
//! and nobody else. [`Connection::peer_identity`] has the other side's, and
//! [`Endpoint::listen_with`] makes tickets last as long as their [`Secrets`] are kept.
//!
//! ```
//! use manyway::{Config, Endpoint, EndpointOptions, Identity, Secrets};
//! use rand::SeedableRng;
//! use rand::rngs::{ChaCha20Rng, SysRng};
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let options = || EndpointOptions {
//! #     paths: vec!["127.0.0.1".parse().unwrap()],
//! #     ..EndpointOptions::default()
//! # };
//! let mut rng = ChaCha20Rng::try_from_rng(&mut SysRng)?;
//! // Keep the bytes of both in files that nobody else can read, and you are the same again.
//! let ann = Identity::generate(&mut rng);
//! let office = Secrets::generate(&mut rng);
//! let office = Secrets::from_bytes(&*office.to_bytes())?;
//!
//! let listener = Endpoint::bind(options()).await?;
//! let ticket = listener.listen_with(office.clone());
//! let config = Config {
//!     identity: Some(ann.clone()),
//!     ..Config::default()
//! };
//! let endpoint = Endpoint::bind(EndpointOptions { config, ..options() }).await?;
//! let connection = endpoint.connect(&ticket).await?;
//! assert_eq!(connection.peer_identity(), Some(office.id()));
//!
//! let (mut send, _) = connection.open_bi().await?;
//! send.finish()?;
//! let accepted = listener.accept().await.expect("the endpoint is open");
//! if accepted.peer_identity() != Some(ann.id()) {
//!     accepted.close(0x101, "this listener is for Ann");
//! }
//! # assert!(accepted.close_reason().is_none());
//! # Ok(())
//! # }
//! ```
//!
//! # Streams and datagrams
//!
//! By default, one stream may take the connection's whole receive window, as a large transfer
//! wants: a stream that you don't read then stops the others. If there are several,
//! [`Config::window_shares`] of 8 leaves each its own part. Tasks that wait for data are woken
//! together, at most once a millisecond, so that bulk data costs little; what you write leaves at
//! once.
//!
//! [`Connection::open_uni`] opens a stream on which only this side sends, and
//! [`Connection::accept_uni`] takes the peer's. Datagrams go once and may get lost, for what would
//! rather be lost than late:
//!
//! ```
//! # use manyway::{Config, Endpoint, EndpointOptions};
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Both sides say how large their datagrams may be.
//! let options = || EndpointOptions {
//!     paths: vec!["127.0.0.1".parse().unwrap()],
//!     config: Config {
//!         datagram: Some(1000),
//!         ..Config::default()
//!     },
//!     ..EndpointOptions::default()
//! };
//! let listener = Endpoint::bind(options()).await?;
//! let ticket = listener.listen()?;
//! let endpoint = Endpoint::bind(options()).await?;
//! let connection = endpoint.connect(&ticket).await?;
//! let accepted = listener.accept().await.expect("the endpoint is open");
//!
//! assert_eq!(connection.max_datagram(), Some(1000));
//! connection.send_datagram("over one path".into()).await?;
//! assert_eq!(accepted.recv_datagram().await?, "over one path");
//! # Ok(())
//! # }
//! ```
//!
//! Relays come as text from whoever runs them, or from a registry: with the feature `registry`,
//! [`registry::Client`] asks one for some. They lend their paths to the side that dialled:
//!
//! ```no_run
//! # #[cfg(feature = "registry")]
//! # async fn relays(connection: manyway::Connection) -> Result<(), Box<dyn std::error::Error>> {
//! use manyway::RelayAccess;
//! use manyway::registry::{Client, RegistryUrl, Role, Token};
//! use rand::SeedableRng;
//! use rand::rngs::{ChaCha20Rng, SysRng};
//!
//! let url: RegistryUrl = std::env::var("MANYWAY_REGISTRY")?.parse()?;
//! let token = Token::from_text(&std::fs::read_to_string("token")?, Role::Client)?;
//! let mut rng = ChaCha20Rng::try_from_rng(&mut SysRng)?;
//! let mut registry = Client::new(&[url], token, &mut rng)?;
//! let relays = registry.subset(4).await?;
//! let relays: Vec<_> = relays.iter().flat_map(RelayAccess::of).collect();
//! connection.add_relays(&relays);
//! # Ok(())
//! # }
//! ```
//!
//! This crate is a thin facade: the rooms behind it are `manyway-control` (congestion control),
//! `manyway-session` (the protocol, without I/O) and `manyway-runtime` (sockets, tokio, disk).

pub use manyway_runtime::{
    BindError, Carriers, CarriersError, Congestion, CongestionError, ConnectError, Connection,
    ConnectionLost, DatagramError, Endpoint, EndpointOptions, Event, Events, PathPair, PathProblem,
    PathSelector, PathSelectorError, ProblemKind, ReadError, RecvStream, SendStream, TcpOptions,
    TcpOutcome, TcpResult, Unanswered, WriteError,
};
/// Why a ticket can't be used from here: see [`ConnectError::Ticket`].
pub use manyway_session::ConnectError as TicketError;
pub use manyway_session::crypto::{Suite, UnknownSuite};
pub use manyway_session::handshake::{HandshakeError, SecretsError};
pub use manyway_session::{
    CarrierKind, CloseReason, Config, ConfigError, ConnectionStats, DatagramStats, Identity,
    PathDownReason, PathEvent, PathId, PathState, PathStats, PathSurvey, PeerId, PickReason,
    RelayAccess, RelayAddress, RelayContact, RelayHeard, RelayState, RelayStats, Secrets,
    SelectionStats, StreamId, Ticket,
};
pub use manyway_units::{ByteSize, Rate, Time, printable};
/// Why bytes or a text, such as a ticket's, can't be read.
pub use manyway_wire::{DecodeError, StreamKind, TextError};

/// Congestion control: the laws, the coupled controller, the subflow sender. [`Config::cc`] takes a
/// [`control::LawSpec`], which parses from text: `"ewtcp:a=0.25".parse()`.
pub use manyway_control as control;

/// Relays as people paste them: see [`Connection::add_relays`].
pub mod relay {
    /// Why a relay grants nothing: see [`RelayHeard`](crate::RelayHeard).
    pub use manyway_wire::relay::Refusal;

    pub use manyway_session::{
        Access, LentAccess, LentRegistry, LentRelay, MAX_TICKET_RELAYS, RelayId, RelayTicket,
    };
}

/// What happens to the packets of each path: see [`Config::observers`].
pub mod observe {
    pub use manyway_session::{NewPath, Observer, Observers, PacketEvent, PathObservers};
}

/// Registries, for those who use them: relays with access, meetings of peers behind NAT, and
/// one-time codes for tickets.
#[cfg(feature = "registry")]
pub mod registry {
    pub use manyway_registry::client::{
        Client, ClientError, Hosted, MAX_LEFT, Meeting, MeetingError, PairingError, redeem,
    };
    pub use manyway_registry::{
        Code, CodeError, HttpError, PORT, RegistryUrl, Role, Token, TokenFileError, UrlError, Words,
    };
}

/// The programs of `docs/embed.md`.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/embed.md")]
struct Embed;

/// Files and directories over a pair of streams: see [`send`](files::send) and
/// [`receive`](files::receive).
pub mod files {
    pub use manyway_runtime::files::{
        Allowance, AskDotfiles, Deleted, Dotfiles, FileSummary, Filter, Hello, Kept, Links, Phase,
        Planned, PlannedKind, Progress, ReceiveOptions, ReceiveSummary, Role, RuleError,
        SendSummary, Skipped, Sources, Talk, TransferError, Transfers, begin, receive, send,
    };
    pub use manyway_transfer::{Digest, Failure, FailureCode, Policy, SafeName};
}

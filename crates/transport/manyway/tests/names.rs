//! What the crate's functions take and return can be named through it alone.

use manyway::{
    Config, ConnectError, HandshakeError, PathSelector, PathSelectorError, RelayHeard, Secrets,
    SecretsError, StreamId, StreamKind, Suite, TextError, Ticket, TicketError, UnknownSuite,
};

/// The error of whoever calls it.
fn ticket(text: &str) -> Result<Ticket, TextError> {
    text.parse()
}

fn selector(text: &str) -> Result<PathSelector, PathSelectorError> {
    text.parse()
}

fn suite(text: &str) -> Result<Suite, UnknownSuite> {
    text.parse()
}

fn secrets(bytes: &[u8]) -> Result<Secrets, SecretsError> {
    Secrets::from_bytes(bytes)
}

fn kind(id: StreamId) -> StreamKind {
    id.kind()
}

#[test]
fn errors_and_parts_have_names() {
    assert!(ticket("no ticket").is_err() && selector("a/b").is_err());
    assert!(suite("rot13").is_err() && secrets(b"short").is_err());
    assert_eq!(
        kind(StreamId::new(true, StreamKind::Unidirectional, 0)),
        StreamKind::Unidirectional
    );
    let unusable = TicketError::Handshake(HandshakeError::UnusableTicket);
    assert!(matches!(
        ConnectError::Ticket(unusable),
        ConnectError::Ticket(TicketError::Handshake(_))
    ));
    let busy = RelayHeard::Refused(manyway::relay::Refusal::Busy);
    assert!(matches!(busy, RelayHeard::Refused(_)));
    let config = Config::default();
    assert_eq!(config.suite, Suite::Aes256Gcm);
    let observers: Option<manyway::observe::Observers> = config.observers;
    assert!(observers.is_none());
}

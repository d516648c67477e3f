use crate::handshake::HandshakeError;

/// Why a connection can't be attempted.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// No socket fits any of the ticket's addresses.
    #[error("no local address can reach any of the ticket's addresses ({addresses}): {remedy}")]
    NoPair {
        /// The ticket's addresses, and those of its relays that may be used.
        addresses: String,
        /// What to do.
        remedy: &'static str,
    },
    /// The ticket can't be used.
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
}

//! Errors of a transfer.

use manyway_transfer::{Failure, FailureCode, NameError, ProtocolError};
use std::io;

/// Why a transfer did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// Something went wrong on this side. The other side was told.
    #[error("{0}")]
    Here(Failure),
    /// Something went wrong on the other side.
    #[error("the other side gave up: {0}")]
    There(Failure),
    /// The stream ended or failed under the transfer.
    #[error("the connection was lost {doing}: {source}")]
    Stream {
        /// What was going on: "while sending notes.txt".
        doing: String,
        /// The stream's error; [`io::ErrorKind::UnexpectedEof`] if it just ended.
        source: io::Error,
    },
}

impl TransferError {
    /// The class of a failure on either side; `None` if the connection was lost.
    pub fn code(&self) -> Option<FailureCode> {
        match self {
            TransferError::Here(failure) | TransferError::There(failure) => Some(failure.code),
            TransferError::Stream { .. } => None,
        }
    }
}

impl From<Failure> for TransferError {
    fn from(failure: Failure) -> Self {
        TransferError::Here(failure)
    }
}

impl From<ProtocolError> for TransferError {
    fn from(error: ProtocolError) -> Self {
        TransferError::Here(error.into())
    }
}

impl From<NameError> for TransferError {
    fn from(error: NameError) -> Self {
        TransferError::Here(error.into())
    }
}

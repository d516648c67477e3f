use manyway_wire::DecodeError;

use crate::streams::StreamsError;

/// The peer broke a rule: what goes into CLOSE.
#[derive(Debug)]
pub(super) struct Violation(pub(super) String);

impl From<DecodeError> for Violation {
    fn from(error: DecodeError) -> Self {
        Violation(error.to_string())
    }
}

impl From<StreamsError> for Violation {
    fn from(error: StreamsError) -> Self {
        Violation(error.to_string())
    }
}

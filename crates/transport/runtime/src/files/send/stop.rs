use manyway_transfer::Failure;

/// Why the producer stops early.
#[derive(Debug)]
pub(super) enum Stop {
    /// Something is wrong here.
    Failure(Failure),
    /// Nobody wants the rest.
    Gone,
}

impl<T: Into<Failure>> From<T> for Stop {
    fn from(failure: T) -> Self {
        Stop::Failure(failure.into())
    }
}

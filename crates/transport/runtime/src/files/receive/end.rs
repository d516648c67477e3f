use manyway_transfer::Failure;

/// Why the consumer ends early.
#[derive(Debug)]
pub(super) enum End {
    /// Something is wrong here.
    Here(Failure),
    /// The sender says that something is wrong there.
    There(Failure),
    /// The stream is at its end, or the committer has failed.
    Gone,
}

impl<T: Into<Failure>> From<T> for End {
    fn from(failure: T) -> Self {
        End::Here(failure.into())
    }
}

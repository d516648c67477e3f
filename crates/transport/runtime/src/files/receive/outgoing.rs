/// What the blocking threads hand to the async side.
pub(super) enum Outgoing {
    /// A frame to send.
    Frame(Vec<u8>),
    /// The last frame: after it, only the sender's farewell is awaited.
    Last(Vec<u8>),
    /// The disk has failed: read no more.
    Stop,
}

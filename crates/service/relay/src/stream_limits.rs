use std::time::Duration;

/// How many TCP connections a relay serves, and for how long.
#[derive(Clone, Debug)]
pub struct StreamLimits {
    /// Connections altogether. A stream takes two, a listener one.
    pub connections: usize,
    /// Connections that haven't said what they are for. When more come, the oldest of the source
    /// that has most of them makes way.
    pub new: usize,
    /// The same from one source: an IPv4 address or an IPv6 /64.
    pub new_per_source: usize,
    /// Connections from one source.
    pub per_source: usize,
    /// Streams on one account.
    pub per_account: usize,
    /// Listeners.
    pub listeners: usize,
    /// Listeners from one source.
    pub listeners_per_source: usize,
    /// Calls that a listener hasn't answered.
    pub ringing: usize,
    /// How long a connection may take to say what it is for.
    pub handshake: Duration,
    /// How long a listener may take to answer a call.
    pub call: Duration,
    /// How long a listener may be silent.
    pub silence: Duration,
    /// How long a stream may stand still.
    pub idle: Duration,
    /// Bytes of each of a socket's two buffers in the kernel; `None` leaves them to the system.
    pub buffer: Option<usize>,
    /// Splice if the system can, and copy otherwise.
    pub splice: bool,
}

impl Default for StreamLimits {
    fn default() -> Self {
        Self {
            connections: 4096,
            new: 512,
            new_per_source: 32,
            per_source: 256,
            per_account: 64,
            listeners: 1024,
            listeners_per_source: 64,
            ringing: 16,
            handshake: Duration::from_secs(10),
            call: Duration::from_secs(10),
            silence: Duration::from_secs(60),
            idle: Duration::from_secs(120),
            buffer: None,
            splice: true,
        }
    }
}

impl StreamLimits {
    /// These limits with at most so many connections. Of fewer than 4096, newcomers get an eighth,
    /// listeners a quarter, and one source a quarter of each kind.
    #[must_use]
    pub fn within(self, connections: usize) -> Self {
        let connections = connections.min(self.connections);
        let (new, listeners) = (connections.div_ceil(8), connections.div_ceil(4));
        Self {
            connections,
            new: self.new.min(new),
            new_per_source: self.new_per_source.min(new.div_ceil(4)),
            per_source: self.per_source.min(connections.div_ceil(4)),
            listeners: self.listeners.min(listeners),
            listeners_per_source: self.listeners_per_source.min(listeners.div_ceil(4)),
            ..self
        }
    }
}

//! What a law needs and can do, so that nobody has to ask for its name. Knows no law.

use std::fmt;

/// What tells a law that a path is congested.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Signal {
    /// Lost or marked packets.
    Loss,
    /// Lost or marked packets, and queueing delay without any loss.
    LossAndDelay,
    /// Queueing delay; losses too, but they are the exception.
    Delay,
    /// The rate of delivery; losses beyond a share.
    Rate,
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Loss => "losses",
            Self::LossAndDelay => "losses, delay",
            Self::Delay => "delay",
            Self::Rate => "delivery rate, losses",
        })
    }
}

/// What a law needs from its surroundings.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct Capabilities {
    /// What tells it that a path is congested.
    pub signal: Signal,
    /// Its senders may spread packets over the round trip. A law that recognises a common
    /// bottleneck by simultaneous losses must not be paced: paced flows lose at different times.
    pub paced: bool,
    /// It can use the times at which packets arrived by the peer's clock
    /// ([`crate::Ack::received`]).
    pub receive_times: bool,
}

impl Capabilities {
    /// A law that acts on losses, may be paced and doesn't need receive times.
    pub(crate) const LOSS: Self = Capabilities {
        signal: Signal::Loss,
        paced: true,
        receive_times: false,
    };
    /// A law that acts on losses, and on the delay of a queue that is its own.
    pub(crate) const LOSS_AND_DELAY: Self = Capabilities {
        signal: Signal::LossAndDelay,
        receive_times: true,
        ..Self::LOSS
    };
    /// A law that models the path, and sets the pace.
    pub(crate) const RATE: Self = Capabilities {
        signal: Signal::Rate,
        ..Self::LOSS
    };
    /// A law that acts on delay, of the round trip or of one way.
    pub(crate) const DELAY: Self = Capabilities {
        signal: Signal::Delay,
        receive_times: true,
        ..Self::LOSS
    };
}

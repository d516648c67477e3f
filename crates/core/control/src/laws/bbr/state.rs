//! The states of BBR's machine and their gains. It decides no transition.

/// Where a path is (draft-ietf-ccwg-bbr §5.1).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The rate doubles each round trip, until it no longer helps.
    Startup,
    /// The queue of that is drained.
    Drain,
    /// `ProbeBW_DOWN`: slower than the path.
    Down,
    /// `ProbeBW_CRUISE`: as fast as the path, with room for others.
    Cruise,
    /// `ProbeBW_REFILL`: a round trip to fill the path again.
    Refill,
    /// `ProbeBW_UP`: faster than the path.
    Up,
    /// Half a bandwidth-delay product, to see the round-trip time without a queue.
    ProbeRtt,
}

impl State {
    /// The rate over the path's bandwidth (§5.6.1).
    pub(super) fn pacing_gain(self) -> f64 {
        match self {
            // 4 ln 2: the least that doubles the rate in a round trip.
            State::Startup => 2.77,
            State::Drain => 0.5,
            State::Down => 0.9,
            State::Cruise | State::Refill | State::ProbeRtt => 1.0,
            State::Up => 1.25,
        }
    }

    /// The window over the bandwidth-delay product (§5.6.1).
    pub(super) fn window_gain(self) -> f64 {
        match self {
            State::Up => 2.25,
            State::ProbeRtt => 0.5,
            _ => 2.0,
        }
    }

    /// Whether this is one of the states in which a path spends its life.
    pub(super) fn is_probe_bw(self) -> bool {
        matches!(
            self,
            State::Down | State::Cruise | State::Refill | State::Up
        )
    }

    /// Whether it looks for more bandwidth now.
    pub(super) fn is_probing(self) -> bool {
        matches!(self, State::Startup | State::Refill | State::Up)
    }
}

/// What acknowledgements tell of a bandwidth probe (§2.13, `ack_phase`).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Feedback {
    /// Nothing.
    None,
    /// The pipe is being filled.
    Refilling,
    /// The probe is under way, its acknowledgements aren't.
    Starting,
    /// They are.
    Arriving,
    /// The probe is over, its acknowledgements aren't.
    Stopping,
}

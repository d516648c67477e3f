//! The hosts of a world with relays.

use manyway_units::Time;

use super::host::SessionHost;
use super::relay::RelayHost;
use crate::{Arrival, Departure, Host};

/// A host of a world in which sessions go through relays.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there are few")]
pub enum Node {
    /// An end.
    Session(SessionHost),
    /// A relay.
    Relay(RelayHost),
}

impl Host for Node {
    fn handle_datagram(&mut self, now: Time, arrival: Arrival<'_>) {
        match self {
            Node::Session(host) => host.handle_datagram(now, arrival),
            Node::Relay(host) => host.handle_datagram(now, arrival),
        }
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut Vec<u8>) -> Option<Departure> {
        match self {
            Node::Session(host) => host.poll_transmit(now, buf),
            Node::Relay(host) => host.poll_transmit(now, buf),
        }
    }

    fn timeout(&self) -> Option<Time> {
        match self {
            Node::Session(host) => host.timeout(),
            Node::Relay(host) => host.timeout(),
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        match self {
            Node::Session(host) => host.handle_timeout(now),
            Node::Relay(host) => host.handle_timeout(now),
        }
    }
}

impl Node {
    /// The session of an end.
    ///
    /// # Panics
    /// It is a relay.
    pub fn session(&self) -> &SessionHost {
        match self {
            Node::Session(session) => session,
            Node::Relay(_) => unreachable!("ends are sessions"),
        }
    }

    /// The session of an end.
    ///
    /// # Panics
    /// It is a relay.
    pub fn session_mut(&mut self) -> &mut SessionHost {
        match self {
            Node::Session(session) => session,
            Node::Relay(_) => unreachable!("ends are sessions"),
        }
    }

    /// The relay.
    ///
    /// # Panics
    /// It is an end.
    pub fn relay_mut(&mut self) -> &mut RelayHost {
        match self {
            Node::Relay(relay) => relay,
            Node::Session(_) => unreachable!("relays are relays"),
        }
    }
}

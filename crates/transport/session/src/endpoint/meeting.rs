//! Two ends behind NAT: each learns its address as others see it, and both send at once
//! (simultaneous open).
//!
//! How they tell each other is not the session's concern: a registry's meeting does
//! (`docs/registry.md`).

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use manyway_units::Time;

use crate::driver::compatible;
use crate::relays::{Registrant, RelayAddress, is_host};

use super::{ConnectionHandle, Endpoint, LocalId};

/// When openings to an address leave, counted from the call: for about as long as the other side's
/// first INITs take to come.
const AT: [Duration; 5] = [
    Duration::ZERO,
    Duration::from_millis(250),
    Duration::from_millis(750),
    Duration::from_millis(1750),
    Duration::from_millis(3750),
];
/// Addresses taken of one caller, or of a listener that is met.
const MOST_OF_ONE: usize = 8;
/// Openings that wait: more than this are not promised.
const MOST_WAITING: usize = 512;

/// A datagram that is due later.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Opening {
    at: Time,
    local: LocalId,
    remote: SocketAddr,
}

impl Endpoint {
    /// Asks these, who answer HELLO as relays do, which address our datagrams come from, again and
    /// again: that keeps a NAT's mapping too.
    pub fn observe_at(&mut self, now: Time, observers: &[RelayAddress]) {
        for observer in observers {
            self.registrar
                .want(now, *observer, Registrant::Observation, &self.locals);
        }
    }

    /// Our addresses as the observers, and the relays at which we can be found, see them.
    pub fn observed(&self) -> Vec<SocketAddr> {
        self.registrar.observed()
    }

    /// Sends openings to somebody who is about to connect from these addresses, from every socket
    /// that can: then our NAT lets them in. They say nothing, are as short as can be, and few,
    /// since nobody has proved to be there.
    pub fn open_towards(&mut self, now: Time, addresses: &[SocketAddr]) {
        let addresses = addresses.iter().filter(|a| is_host(**a)).take(MOST_OF_ONE);
        for &remote in addresses {
            let locals = self.locals.values();
            let reaching = locals.filter(|l| compatible(l.addr.ip(), remote.ip()));
            for local in reaching {
                for after in AT {
                    if self.openings.len() < MOST_WAITING {
                        self.openings.insert(Opening {
                            at: now + after,
                            local: local.id,
                            remote,
                        });
                    }
                }
            }
        }
        self.send_openings(now);
    }

    /// The listener may be at these addresses too: they are tried as the ticket's are, whether the
    /// connection is there or still to be made.
    pub fn add_remotes(&mut self, now: Time, handle: ConnectionHandle, addresses: &[SocketAddr]) {
        let addresses = addresses.iter().filter(|a| is_host(**a)).take(MOST_OF_ONE);
        let addresses: Vec<SocketAddr> = addresses.copied().collect();
        if let Some(connection) = self.connections.get_mut(&handle) {
            connection.add_remotes(now, &addresses);
            self.settle(now, handle);
            self.touch(handle);
        } else if let Some(attempt) = self.attempts.get_mut(&handle) {
            let locals: Vec<_> = self.locals.values().cloned().collect();
            attempt.add_remotes(now, &locals, &addresses);
            self.drive_attempt(now, handle);
        }
    }

    pub(super) fn next_opening(&self) -> Option<Time> {
        let first = self.openings.first()?;
        Some(first.at.max(self.opening_pace.next()))
    }

    pub(super) fn send_openings(&mut self, now: Time) {
        while let Some(opening) = self.openings.pop_first() {
            if opening.at > now || !self.opening_pace.permits(now) {
                self.openings.insert(opening);
                return;
            }
            self.opening_pace.note(now);
            let data = Bytes::from_static(&manyway_wire::OPENING);
            self.enqueue(opening.local, opening.remote, data);
        }
    }
}

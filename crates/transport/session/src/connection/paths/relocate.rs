//! Paths that lead elsewhere: from another socket of ours, or to another address of the peer's.

use std::net::SocketAddr;
use std::time::Duration;

use manyway_units::Time;
use rand::CryptoRng;

use crate::driver::{Local, LocalId, compatible};
use crate::handshake::Places;
use crate::stats::PathState;

use super::super::packet::Payload;
use super::{Moved, Path, PathSet, PathTransport};

impl PathSet {
    /// Path 0 begins at one of the places where the handshake was answered, and has to find out at
    /// which the peer is (listener only).
    pub(crate) fn start_from(
        &mut self,
        now: Time,
        index: usize,
        places: &Places,
        rng: &mut impl CryptoRng,
    ) {
        let path = &mut self.slab[index];
        path.challenge(now, rng);
        for place in places.of(path.local.id) {
            let bytes = (place.received, place.sent);
            if place.remote == path.remote {
                path.validation.on_handshake(bytes.0, bytes.1);
            } else if !path.facts().reliable {
                path.migration.suspect(now, place.remote, bytes, rng);
            }
        }
    }

    /// The path between these two addresses.
    pub(crate) fn between(&self, local: LocalId, remote: SocketAddr) -> Option<usize> {
        let mut paths = self.slab.iter();
        let (index, _) = paths.find(|(_, p)| p.local.id == local && p.remote == remote)?;
        Some(index)
    }

    /// Whether a path that isn't one of these is active.
    pub(crate) fn is_active_without(&self, gone: &[usize]) -> bool {
        let mut paths = self.slab.iter();
        paths.any(|(index, p)| p.state == PathState::Active && !gone.contains(&index))
    }

    /// The one of these paths that an initiator goes on with from another socket: a direct one, for
    /// a relay's grants are for the old address; an active one, if there is any.
    pub(crate) fn to_go_on_from(&self, gone: &[usize]) -> Option<usize> {
        let direct = |p: &Path| p.relay().is_none() && p.transport() == PathTransport::Coupled;
        let direct = gone.iter().copied().filter(|&index| direct(&self[index]));
        direct.min_by_key(|&index| (self[index].state != PathState::Active, self[index].id))
    }

    /// The path's socket is gone, and it waits for another one. Whether it carried data.
    pub(crate) fn unbind(&mut self, now: Time, index: usize) -> bool {
        self.slab[index].unbound = true;
        let active = self.slab[index].state == PathState::Active;
        if active {
            self.stall(now, index);
        }
        active
    }

    /// Whether there are paths, and all have lost their sockets.
    pub(crate) fn are_unbound(&self) -> bool {
        let mut paths = self.slab.iter().map(|(_, path)| path.unbound).peekable();
        paths.peek().is_some() && paths.all(|unbound| unbound)
    }

    /// Paths without a socket that this one would fit, and from where no other leads to the same
    /// address.
    pub(crate) fn unbound(&self, local: &Local) -> Vec<usize> {
        let bound = |remote| {
            let mut others = self.slab.iter().filter(|(_, other)| !other.unbound);
            others.any(|(_, other)| other.local.id == local.id && other.remote == remote)
        };
        self.indices(|p| {
            p.unbound
                && !p.facts().reliable
                && compatible(local.addr.ip(), p.remote.ip())
                && !bound(p.remote)
        })
    }

    /// The path goes on from another socket of ours, and to this address of its relay if it has
    /// one: a listener can't open another path. What was in flight comes back.
    pub(crate) fn rebind(
        &mut self,
        now: Time,
        index: usize,
        local: &Local,
        remote: SocketAddr,
    ) -> Vec<(u64, Payload)> {
        let path = &mut self.slab[index];
        path.local = local.clone();
        path.unbound = false;
        if path.remote != remote {
            path.relay_before = Some(std::mem::replace(&mut path.remote, remote));
        }
        // The peer learns our new address from it.
        path.probe();
        path.migration = Default::default();
        self.lead_elsewhere(now, index, None, true)
    }

    /// Nobody waits any more for what is in flight.
    pub(crate) fn abandon_flight(&mut self, now: Time, index: usize) {
        self.slab[index].abandon_flight(now);
    }

    /// Moves the path if the peer's address has changed for good.
    pub(crate) fn migrate(&mut self, now: Time, index: usize) -> Option<Moved> {
        let path = &mut self.slab[index];
        let remote = path.destination(now)?;
        let chosen = path.migration.take(remote)?;
        let previous = std::mem::replace(&mut path.remote, remote);
        path.validation = chosen.validation;
        path.respond = chosen.respond.or(path.respond.take());
        // Where it answered it may need to be heard at once: the peer's sender may be waiting for
        // ACKs.
        path.received.ack_now();
        let id = path.id();
        let after = now.since(chosen.since);
        tracing::debug!(path = id.0, %previous, %remote, ?after, "the peer's address changed");
        let fresh = previous.ip() != remote.ip();
        let rtt = chosen.answered.flatten();
        let in_flight = self.lead_elsewhere(now, index, rtt.filter(|_| fresh), fresh);
        Some(Moved {
            previous,
            rtt,
            in_flight,
        })
    }

    /// What is in flight went to where nobody is any more; that is no sign of congestion, and it
    /// comes back. With `fresh`, it is another network path, and what was learned of the old one
    /// counts for nothing (RFC 9000 §9.4).
    fn lead_elsewhere(
        &mut self,
        now: Time,
        index: usize,
        rtt: Option<Duration>,
        fresh: bool,
    ) -> Vec<(u64, Payload)> {
        let in_flight = self.slab[index].abandon_flight(now);
        if fresh {
            let (local, remote) = (self.slab[index].local.clone(), self.slab[index].remote);
            let limit = self.datagram_limit(&local, remote);
            self.slab[index].mtu.restart(now, limit);
            self.apply_mtu(index);
            let path = &mut self.slab[index];
            path.sender
                .reopen(now, self.controllers.of_mut(path.transport()));
            path.marks.restart(self.config.ecn);
            if let Some(rtt) = rtt {
                path.sender.seed_rtt(rtt);
            }
        }
        let path = &mut self.slab[index];
        path.reinjected = path.sender.next_packet_number();
        in_flight
    }
}

//! Carriers: TCP connections that the driver has set up, or accepted.

use std::collections::BTreeMap;

use manyway_units::Time;
use manyway_wire::PathId;

use crate::carrier::{Carrier, CarrierError, Facts, Purpose};
use crate::driver::{ConnectionHandle, Local, LocalId};
use crate::event::PathDownReason;

use super::Endpoint;

/// A carrier, and whose it is.
#[derive(Debug)]
pub(super) struct CarrierEntry {
    carrier: Carrier,
    owner: Option<(ConnectionHandle, PathId)>,
}

impl Endpoint {
    /// A carrier was set up. It carries one path, and is the driver's to close when
    /// [`poll_carrier_over`](Endpoint::poll_carrier_over) says so.
    ///
    /// One that was dialled carries the INIT of its attempt to connect, or a new path of its
    /// connection. One that was accepted is that of the first path whose packet opens on it.
    ///
    /// # Errors
    /// It isn't what a path can run on, or nobody wants it.
    pub fn add_carrier(&mut self, now: Time, carrier: Carrier) -> Result<(), CarrierError> {
        let (id, remote) = (carrier.local.id, carrier.remote);
        if !carrier.facts.is_carrier() {
            return Err(CarrierError::Facts);
        }
        if self.locals.contains_key(&id) || self.carriers.contains_key(&id) {
            return Err(CarrierError::Taken);
        }
        let held = CarrierEntry {
            carrier: carrier.clone(),
            owner: None,
        };
        let Purpose::Dialled(handle) = carrier.purpose else {
            self.carriers.insert(id, held);
            return Ok(());
        };
        if let Some(attempt) = self.attempts.get_mut(&handle) {
            attempt.add_carrier(now, id, remote);
            self.carriers.insert(id, held);
            self.drive_attempt(now, handle);
            return Ok(());
        }
        let wanted = match self.connections.get_mut(&handle) {
            Some(connection) => connection.offer_carrier(now, carrier),
            None => false,
        };
        if !wanted {
            return Err(CarrierError::Unwanted);
        }
        self.carriers.insert(id, held);
        self.settle(now, handle);
        self.touch(handle);
        Ok(())
    }

    /// A carrier has ended, whoever ended it: what was in flight on it goes over other paths.
    pub fn remove_carrier(&mut self, now: Time, id: LocalId) {
        self.take_carrier(now, id, PathDownReason::CarrierClosed);
    }

    /// A socket is gone: the carriers that leave the host where it did are over.
    pub(super) fn remove_carriers_of(&mut self, now: Time, local: &Local) {
        let leaves_there = |held: &&CarrierEntry| {
            let of = &held.carrier.local;
            of.name == local.name && of.addr.ip() == local.addr.ip()
        };
        let held = self.carriers.values().filter(leaves_there);
        let over: Vec<LocalId> = held.map(|held| held.carrier.local.id).collect();
        for id in over {
            self.take_carrier(now, id, PathDownReason::LocalGone);
            self.carriers_over.push_back(id);
        }
    }

    fn take_carrier(&mut self, now: Time, id: LocalId, reason: PathDownReason) {
        let Some(held) = self.carriers.remove(&id) else {
            return;
        };
        self.queue.retain(|q| q.local != id);
        let handle = match (held.owner, held.carrier.purpose) {
            (Some((handle, _)), _) | (None, Purpose::Dialled(handle)) => handle,
            (None, Purpose::Accepted) => return,
        };
        if let Some(attempt) = self.attempts.get_mut(&handle) {
            attempt.remove_local(id);
            self.register(now, handle);
        }
        if let Some(connection) = self.connections.get_mut(&handle) {
            connection.remove_carrier(now, id, reason);
            self.settle(now, handle);
            self.touch(handle);
        }
    }

    /// The driver has written so many bytes of packets more to a carrier: there is room for as
    /// many.
    pub fn on_carrier_written(&mut self, now: Time, id: LocalId, bytes: u64) {
        let owner = self.carriers.get(&id).and_then(|held| held.owner);
        if let Some((handle, _)) = owner
            && let Some(connection) = self.connections.get_mut(&handle)
        {
            connection.on_carrier_written(now, id, bytes);
            self.settle(now, handle);
            self.touch(handle);
        }
    }

    /// The rate at which a carrier delivers, bytes/s, if that is known.
    pub fn carrier_rate(&self, id: LocalId) -> Option<f64> {
        let (handle, _) = self.carriers.get(&id)?.owner?;
        self.connections.get(&handle)?.carrier_rate(id)
    }

    /// Whether a path runs on a carrier: one that was accepted and isn't in use soon is nobody's.
    pub fn carrier_in_use(&self, id: LocalId) -> bool {
        self.carriers
            .get(&id)
            .is_some_and(|held| held.owner.is_some())
    }

    /// The next carrier that nobody needs any more: to be closed when what was handed over for it
    /// is written.
    pub fn poll_carrier_over(&mut self) -> Option<LocalId> {
        self.carriers_over.pop_front()
    }

    /// Where a datagram came in, or one can leave.
    pub(super) fn place(&self, id: LocalId) -> Option<(&Local, Facts)> {
        Self::find(&self.locals, &self.carriers, id)
    }

    pub(super) fn find<'a>(
        locals: &'a BTreeMap<LocalId, Local>,
        carriers: &'a BTreeMap<LocalId, CarrierEntry>,
        id: LocalId,
    ) -> Option<(&'a Local, Facts)> {
        if let Some(local) = locals.get(&id) {
            return Some((local, Facts::datagrams(usize::MAX)));
        }
        let held = carriers.get(&id)?;
        Some((&held.carrier.local, held.carrier.facts))
    }

    /// A carrier carries one path, whatever somebody copies onto it.
    pub(super) fn may_carry(&self, id: LocalId, handle: ConnectionHandle, path: PathId) -> bool {
        match self.carriers.get(&id).and_then(|held| held.owner) {
            Some(owner) => owner == (handle, path),
            None => true,
        }
    }

    /// The attempt has become a connection, on one of its carriers or elsewhere: the others can
    /// carry further paths.
    pub(super) fn offer_carriers(&mut self, now: Time, handle: ConnectionHandle) {
        let of_attempt = |held: &&CarrierEntry| {
            held.owner.is_none() && held.carrier.purpose == Purpose::Dialled(handle)
        };
        let left: Vec<Carrier> = self
            .carriers
            .values()
            .filter(of_attempt)
            .map(|held| held.carrier.clone())
            .collect();
        for carrier in left {
            let id = carrier.local.id;
            if let Some(connection) = self.connections.get_mut(&handle)
                && !connection.offer_carrier(now, carrier)
            {
                self.carriers_over.push_back(id);
            }
        }
        self.settle(now, handle);
    }

    /// A path runs on the carrier.
    pub(super) fn on_carrier_opened(&mut self, id: LocalId, owner: ConnectionHandle, path: PathId) {
        if let Some(held) = self.carriers.get_mut(&id) {
            held.owner = Some((owner, path));
        }
    }

    /// No path runs on the carrier any more, and none will.
    pub(super) fn on_carrier_over(&mut self, id: LocalId) {
        if self.carriers.contains_key(&id) {
            self.carriers_over.push_back(id);
        }
    }

    /// The connection or attempt is no more.
    pub(super) fn forget_carriers(&mut self, handle: ConnectionHandle) {
        let of_handle = |held: &CarrierEntry| match (held.owner, held.carrier.purpose) {
            (Some((owner, _)), _) => owner == handle,
            (None, Purpose::Dialled(owner)) => owner == handle,
            (None, Purpose::Accepted) => false,
        };
        let over = self.carriers.iter().filter(|(_, held)| of_handle(held));
        self.carriers_over.extend(over.map(|(&id, _)| id));
    }
}

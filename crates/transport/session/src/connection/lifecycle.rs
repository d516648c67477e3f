//! A path's life: opened on a pair of addresses, validated, up and down, closed.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use manyway_units::Time;
use manyway_wire::{ConnectionId, Frame, PathId};
use rand::{Rng, RngExt};

use crate::driver::{Local, LocalId, compatible};
use crate::event::{Event, PathDownReason};
use crate::stats::PathState;

use super::mtu::Mtu;
use super::path::{NewPath, Path, Under};
use super::{CidChange, Connection, MAX_CLOSED_PATHS, Phase, SPARE_PATHS, requeue};

impl Connection {
    /// A socket was added: the initiator pairs it up, the listener tells the peer.
    pub(crate) fn add_local(&mut self, now: Time, local: &Local) {
        if self.initiator {
            let Some(pairs) = &mut self.pairs else {
                return;
            };
            pairs.add_local(local.clone());
            self.open_paths(now);
            self.add_local_to_detours(now, local);
        } else {
            self.gained.retain(|a| *a != local.addr);
            self.gained.push(local.addr);
            // The peer takes 32 at most; the newest are the likeliest to work.
            let first = self
                .gained
                .len()
                .saturating_sub(manyway_wire::MAX_ADDRESSES);
            self.gained.drain(..first);
            self.announce_addresses();
            self.rehome_paths(now, local);
        }
    }

    /// A socket is gone: its paths' data goes over the others.
    pub(crate) fn remove_local(
        &mut self,
        now: Time,
        id: LocalId,
        locals: &BTreeMap<LocalId, Local>,
    ) {
        let gone: Vec<usize> = self
            .paths
            .iter()
            .filter(|(_, p)| p.local.id == id)
            .map(|(index, _)| index)
            .collect();
        if !self.initiator && gone.len() == self.paths.len() {
            // A listener can't open paths: without any, nobody could tell the peer where we are
            // now.
            for index in gone {
                self.paths[index].homeless = true;
                if self.paths[index].state == PathState::Active {
                    self.paths[index].state = PathState::Stalled;
                    self.paths[index].stalled_since = now;
                    self.path_down(index, PathDownReason::LocalGone);
                }
                self.refresh(now, index);
            }
            for local in locals.values() {
                self.rehome_paths(now, local);
            }
            return;
        }
        for index in gone {
            self.close_path(now, index, PathDownReason::LocalGone, true);
        }
        if let Some(pairs) = &mut self.pairs {
            pairs.remove_local(id);
        }
        self.remove_local_from_detours(now, id);
    }

    /// Gives paths that have lost their socket this one.
    fn rehome_paths(&mut self, now: Time, local: &Local) {
        let fitting: Vec<usize> = self
            .paths
            .iter()
            .filter(|(_, p)| {
                p.homeless && !p.facts.reliable && compatible(local.addr.ip(), p.remote.ip())
            })
            .map(|(index, _)| index)
            .collect();
        for index in fitting {
            self.rehome(now, index, local);
        }
    }

    /// Gives up the path between these two addresses, unless it is the last one.
    pub(crate) fn close_pair(
        &mut self,
        now: Time,
        local: LocalId,
        remote: SocketAddr,
        reason: PathDownReason,
    ) {
        let index = self
            .paths
            .iter()
            .find(|(_, p)| p.local.id == local && p.remote == remote)
            .map(|(index, _)| index);
        if let Some(index) = index
            && self.paths.len() > 1
        {
            self.close_path(now, index, reason, true);
        }
    }

    /// Gives all connection ids back.
    pub(crate) fn retire_all(&mut self) {
        let ids: Vec<PathId> = self.local_cids.keys().copied().collect();
        for id in ids {
            self.retire_cids(id);
        }
    }

    fn announce_addresses(&mut self) {
        self.gained_seq += 1;
        self.control
            .retain(|c| !matches!(c, Frame::Addresses { .. }));
        self.control.push_back(Frame::Addresses {
            seq: self.gained_seq,
            addresses: self.gained.clone(),
        });
    }

    pub(super) fn max_paths(&self) -> usize {
        self.peer_max_paths.min(self.config.max_paths as usize)
    }

    pub(super) fn create_path(&mut self, now: Time, new: NewPath) -> usize {
        let (id, under, local) = (new.id, new.under, new.local.id);
        self.next_path = self.next_path.max(id.0 + 1);
        let mtu = match under {
            // Nothing to look for: it takes what it says.
            Under::Own(facts) => Mtu::new(facts.max_packet, facts.max_packet),
            Under::Law | Under::Trial => Mtu::new(
                self.base_size(),
                self.datagram_limit(&new.local, new.remote),
            ),
        };
        let path = Path::new(
            now,
            new,
            mtu,
            &self.config,
            self.peer_ack_delay,
            self.controllers.of_mut(under),
        );
        let index = self.paths.insert(path);
        self.by_id.insert(id, index);
        if let Under::Own(_) = under {
            self.carriers.on_created(index, local, id);
        }
        index
    }

    /// Tells the peer connection ids for path ids ahead of those in use.
    pub(super) fn issue_cids(&mut self) {
        while self.next_local_cid < self.next_path.saturating_add(SPARE_PATHS) {
            let path = PathId(self.next_local_cid);
            self.next_local_cid += 1;
            let mut cid = [0; 8];
            self.rng.fill_bytes(&mut cid);
            let cid = ConnectionId(cid);
            self.local_cids.insert(path, cid);
            self.cid_changes.push(CidChange::Issued { cid, path });
            self.control.push_back(Frame::PathId { path, cid });
        }
    }

    /// Opens paths on the pairs that have none (initiator only).
    pub(super) fn open_paths(&mut self, now: Time) {
        self.open_on_carriers(now);
        while self.paths.len() < self.max_paths() {
            let Some((local, remote)) = self.pairs.as_ref().and_then(|p| p.next(now)) else {
                return;
            };
            let id = PathId(self.next_path);
            // Without the peer's connection id for it the path has to wait for the PATH_ID frame.
            let Some(&remote_cid) = self.remote_cids.get(&id) else {
                return;
            };
            let local_id = local.id;
            let initial_rtt = self
                .active
                .first()
                .map(|&(_, best)| self.paths[best].sender.rtt().smoothed());
            let index = self.create_path(
                now,
                NewPath {
                    id,
                    local,
                    remote,
                    remote_cid: Some(remote_cid),
                    under: Under::Law,
                    through: None,
                    initial_rtt,
                },
            );
            let challenge = self.rng.random();
            self.paths[index].validation.start(now, challenge);
            if let Some(pairs) = &mut self.pairs {
                pairs.on_opened(local_id, remote, id);
            }
            self.issue_cids();
            self.refresh(now, index);
        }
    }

    /// The address has answered: the path carries data from now on.
    pub(super) fn validated(&mut self, now: Time, index: usize, rtt: Option<Duration>) {
        let path = &mut self.paths[index];
        path.validation.set_validated();
        if let Some(rtt) = rtt {
            path.sender.seed_rtt(rtt);
        }
        if path.state != PathState::Validating {
            return;
        }
        if path.under == Under::Trial {
            self.on_trial_answered(index);
            return;
        }
        path.state = PathState::Active;
        if let Some(pairs) = &mut self.pairs {
            pairs.on_validated(path.local.id, path.remote);
        }
        self.on_detour_validated(index);
        self.note_working(index);
        self.path_up(index);
        self.refresh(now, index);
        self.wake_overlay(now);
    }

    pub(super) fn path_up(&mut self, index: usize) {
        let path = &self.paths[index];
        self.events.push_back(Event::PathUp {
            path: path.id,
            name: path.local.name.clone(),
            remote: path.remote,
        });
    }

    pub(super) fn path_down(&mut self, index: usize, reason: PathDownReason) {
        let path = &self.paths[index];
        let (name, remote) = (path.local.name.clone(), path.remote);
        self.events.push_back(Event::PathDown {
            path: path.id,
            name,
            remote,
            reason,
        });
    }

    /// Takes a path out for good; what was in flight on it is sent over the others.
    pub(super) fn close_path(
        &mut self,
        now: Time,
        index: usize,
        reason: PathDownReason,
        tell: bool,
    ) {
        self.note_closing(now, index, reason);
        self.unindex(index);
        self.place_backups(now);
        let was_up = self.paths[index].state != PathState::Validating;
        if was_up {
            self.path_down(index, reason);
        }
        let mut path = self.paths.remove(index);
        self.by_id.remove(&path.id);
        self.attention.retain(|&i| i != index);
        if let Phase::Closing { owed, .. } = &mut self.phase {
            owed.retain(|&i| i != index);
        }
        path.state = PathState::Closed;
        let stats = path.stats(self.controllers.of(&path));
        for payload in path.sender.retire(self.controllers.of_mut(path.under)) {
            requeue(&mut self.streams, &mut self.control, payload);
        }
        if was_up {
            self.closed_paths.push_back(stats);
            if self.closed_paths.len() > MAX_CLOSED_PATHS {
                self.closed_paths.pop_front();
            }
        }
        self.retire_cids(path.id);
        if let Under::Own(_) = path.under {
            self.carriers.on_closed(index, path.local.id);
        }
        if tell {
            self.control.push_back(Frame::PathAbandon {
                path: path.id,
                code: 0,
            });
        }
        match path.lane() {
            Some(lane) => self.on_lane_closed(now, lane, path.id),
            None => {
                if let Some(pairs) = &mut self.pairs
                    && !path.facts.reliable
                {
                    pairs.on_closed(now, path.local.id, path.remote);
                }
            }
        }
    }

    pub(super) fn retire_cids(&mut self, id: PathId) {
        self.remote_cids.remove(&id);
        self.early_grants.remove(&id);
        if let Some(cid) = self.local_cids.remove(&id) {
            self.cid_changes.push(CidChange::Retired { cid });
        }
    }
}

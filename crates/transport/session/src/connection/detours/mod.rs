//! The initiator's paths through relays: which are opened, tried again and closed.
//!
//! Three policies: where the user wants so many relays and no more, a selection decides
//! ([`super::selection`]); else with the law `mpath` its path manager does ([`manager`]), and with
//! any other law there is a path through every relay that grants one.

mod candidates;
mod manager;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use manyway_units::{Backoff, Time};
use manyway_wire::relay::{Consent, Grant, RelayReply};
use manyway_wire::{Frame, PathId};
use rand::RngExt;

use crate::driver::{Local, LocalId, Transmit};
use crate::event::PathDownReason;
use crate::relays::{Lane, News, RelayAccess, RelayClient};
use crate::stats::{PathState, RelayState, RelayStats};

use super::Connection;
use super::path::{NewPath, Through, Under};
use super::receive::Violation;
use manager::Manager;

/// A lane whose path failed gets another one after this long, then after twice as long, up to a
/// minute.
const RETRY: Backoff = Backoff::new(Duration::from_secs(5), Duration::from_secs(60));
/// Without room for a path or a valid grant, the lane is looked at again after this long.
const PUT_OFF: Duration = Duration::from_millis(500);

/// All that an initiator knows of relays.
#[derive(Debug)]
pub(super) struct Detours {
    client: RelayClient,
    /// Those with grants.
    lanes: BTreeMap<Lane, Usable>,
    manager: Option<Manager>,
    /// Trials that were answered while a packet was looked at.
    answered: Vec<(Lane, PathId)>,
    /// Counts GRANT frames.
    grants: u64,
    wake: Option<Time>,
}

/// A lane with grants.
#[derive(Debug, Default)]
struct Usable {
    path: Option<PathId>,
    failures: u32,
    retry_at: Time,
    /// The relay is leaving, or is said to be: nothing new is begun there.
    leaving: bool,
    /// The manager was told that it is gone.
    forgotten: bool,
    /// It really leaves.
    left: bool,
    /// Its last path failed, and the relay hasn't been heard since.
    failed: bool,
    /// The round-trip time that a trial or a path has found.
    rtt: Option<Duration>,
}

impl Detours {
    pub(super) fn timeout(&self) -> Option<Time> {
        [self.client.timeout(), self.wake]
            .into_iter()
            .flatten()
            .min()
    }

    /// When a lane without a path may have one again.
    fn retry(&self, now: Time) -> Option<Time> {
        let waiting = self
            .lanes
            .values()
            .filter(|l| !l.leaving && l.path.is_none());
        waiting
            .map(|lane| lane.retry_at)
            .filter(|at| *at > now)
            .min()
    }

    fn reschedule(&mut self, now: Time) {
        self.wake = match &self.manager {
            Some(manager) => manager.timeout(),
            None => self.retry(now),
        };
    }
}

impl Connection {
    /// Offers relays to go through, as many as there may be; more can follow at any time. How many
    /// were new.
    ///
    /// With [`Config::selection`](crate::Config::selection) they are what it chooses from. Else,
    /// with the law `mpath`, they are candidates that its path manager probes and uses as it sees
    /// fit; with any other one, a path is opened through each as soon as the relay and the listener
    /// agree. Without UDP they are of no use here.
    pub fn add_relays(&mut self, now: Time, relays: &[RelayAccess]) -> usize {
        if !self.initiator || self.is_closed() || !self.config.udp {
            return 0;
        }
        if self.detours.is_none() {
            let client = self.new_client();
            self.detours = Some(Box::new(self.new_detours(client)));
        }
        let added = self
            .detours
            .as_mut()
            .map_or(0, |detours| detours.client.add(now, relays));
        self.drive_detours(now);
        added
    }

    /// The attempt to connect went through relays, path 0 perhaps as well.
    pub(super) fn take_over_relays(
        &mut self,
        now: Time,
        client: RelayClient,
        path0: Option<Through>,
    ) {
        let mut detours = self.new_detours(client);
        if let Some(lane) = path0.and_then(|through| through.lane) {
            detours.lanes.entry(lane).or_default().path = Some(PathId(0));
        }
        for lane in detours.client.granted() {
            detours.lanes.entry(lane).or_default();
            if let Some(manager) = &mut detours.manager {
                manager.on_candidate(now, lane);
            }
        }
        self.detours = Some(Box::new(detours));
        self.drive_detours(now);
    }

    fn new_client(&mut self) -> RelayClient {
        let locals = self.pairs.as_ref().map(|p| p.locals().to_vec());
        RelayClient::new(self.rng.random(), locals.unwrap_or_default())
    }

    fn new_detours(&mut self, client: RelayClient) -> Detours {
        let manager = Manager::of(&self.config.cc, self.rng.random());
        Detours {
            client,
            lanes: BTreeMap::new(),
            manager: manager.filter(|_| self.selection.is_none()),
            answered: Vec::new(),
            grants: 0,
            wake: None,
        }
    }

    pub(super) fn add_local_to_detours(&mut self, now: Time, local: &Local) {
        if let Some(detours) = &mut self.detours {
            detours.client.add_local(now, local);
            self.drive_detours(now);
        }
    }

    pub(super) fn remove_local_from_detours(&mut self, now: Time, id: LocalId) {
        if let Some(detours) = &mut self.detours {
            detours.client.remove_local(id);
            self.drive_detours(now);
        }
    }

    pub(super) fn on_consent(
        &mut self,
        now: Time,
        slot: u16,
        seq: u64,
        consent: Consent,
    ) -> Result<(), Violation> {
        if !self.initiator {
            return Err(Violation("CONSENT: only the listener consents".into()));
        }
        if let Some(detours) = &mut self.detours {
            detours.client.on_consent(now, slot, seq, consent);
        }
        Ok(())
    }

    /// Takes what a relay says; whether it was meant for us.
    pub(crate) fn on_relay_reply(
        &mut self,
        now: Time,
        from: (LocalId, SocketAddr),
        reply: &RelayReply,
    ) -> bool {
        let Some(detours) = &mut self.detours else {
            return false;
        };
        let taken = detours.client.on_reply(now, from, reply);
        if taken {
            self.drive_detours(now);
        }
        taken
    }

    /// A HELLO or MINT that is due.
    pub(super) fn transmit_to_relay(&mut self, now: Time, buf: &mut Vec<u8>) -> Option<Transmit> {
        let datagram = self.detours.as_mut()?.client.poll(now)?;
        buf.clear();
        buf.extend_from_slice(&datagram.data);
        Some(Transmit {
            local: datagram.local,
            remote: datagram.remote,
            ecn: false,
            len: buf.len(),
            segment_size: None,
        })
    }

    /// The grant that the peer needs on a path, with the number of its frame.
    pub(super) fn way_back(&self, now: Time, index: usize) -> Option<(u64, Grant)> {
        let detours = self.detours.as_ref()?;
        let through = self.paths[index].through?;
        let grants = detours.client.grants(now, through.lane?)?;
        Some((through.seq, grants.back))
    }

    pub(super) fn on_detour_timer(&mut self, now: Time) {
        let due = |detours: &Detours| detours.timeout().is_some_and(|at| at <= now);
        if self.detours.as_deref().is_some_and(due) {
            self.run_detours(now);
        }
    }

    /// Does what has become necessary; costs nothing if that is nothing.
    pub(super) fn drive_detours(&mut self, now: Time) {
        let news = |d: &Detours| d.client.has_news() || !d.answered.is_empty();
        if self.detours.as_deref().is_some_and(news) {
            self.run_detours(now);
        }
    }

    fn run_detours(&mut self, now: Time) {
        let Some(detours) = &mut self.detours else {
            return;
        };
        for ask in detours.client.take_asks() {
            self.control
                .retain(|c| !matches!(c, Frame::Relay { slot, .. } if *slot == ask.slot));
            self.control.push_back(Frame::Relay {
                slot: ask.slot,
                seq: ask.seq,
                relay: ask.relay.map(|relay| (relay.address, relay.id)),
            });
        }
        let answered = std::mem::take(&mut detours.answered);
        let news = detours.client.take_news();
        for news in news {
            match news {
                News::Granted(lane) => self.on_first_grants(now, lane),
                News::Renewed(lane) => self.on_renewed_grants(now, lane),
                News::Leaving(lane) => self.on_lane_leaving(now, lane),
                News::Left(lane) => self.on_lane_left(now, lane),
                News::Stays(lane) => self.on_lane_stays(now, lane),
                News::Gone(lane) => self.on_lane_gone(now, lane),
            }
        }
        for (lane, path) in answered {
            self.on_trial_over(now, lane, path);
        }
        if self.is_managed() {
            self.manage(now, None, None);
        } else if self.selection.is_some() {
            self.wake_selection();
        } else {
            self.open_detours(now);
        }
        if let Some(detours) = &mut self.detours {
            detours.reschedule(now);
        }
    }

    fn on_first_grants(&mut self, now: Time, lane: Lane) {
        if let Some(detours) = &mut self.detours {
            detours.lanes.entry(lane).or_default();
            if let Some(manager) = &mut detours.manager {
                manager.on_candidate(now, lane);
            }
        }
    }

    /// The path goes on with the new grants; if it was silent, it is time to ask whether it is now.
    fn on_renewed_grants(&mut self, now: Time, lane: Lane) {
        if let Some(usable) = self.detours.as_mut().and_then(|d| d.lanes.get_mut(&lane)) {
            usable.failed = false;
        }
        let Some(index) = self.path_on(lane) else {
            return;
        };
        let Some(through) = self.through(now, lane) else {
            return;
        };
        let Some(detours) = &self.detours else {
            return;
        };
        let Some(grants) = detours.client.grants(now, lane) else {
            return;
        };
        let (path, seq, grant) = (self.paths[index].id, through.seq, grants.back);
        self.paths[index].through = Some(through);
        self.control
            .retain(|c| !matches!(c, Frame::Grant { path: other, .. } if *other == path));
        self.control.push_back(Frame::Grant { path, seq, grant });
        let silent = self.paths[index].sender.pto_count() >= 2;
        if silent || self.paths[index].state == PathState::Stalled {
            self.paths[index].probes = self.paths[index].probes.max(1);
        }
        self.refresh(now, index);
    }

    /// The relay tells senders to go elsewhere: its path carries nothing new while there is another
    /// one.
    fn on_lane_leaving(&mut self, now: Time, lane: Lane) {
        if let Some(usable) = self.detours.as_mut().and_then(|d| d.lanes.get_mut(&lane)) {
            usable.leaving = true;
        }
        if let Some(index) = self.path_on(lane) {
            self.set_backup(now, index, true);
        }
    }

    /// It really leaves: its path stays open for want of a better one, but the manager has to look
    /// for others.
    fn on_lane_left(&mut self, now: Time, lane: Lane) {
        self.on_lane_leaving(now, lane);
        if let Some(usable) = self.detours.as_mut().and_then(|d| d.lanes.get_mut(&lane)) {
            usable.left = true;
        }
        if let Some(detours) = &mut self.detours
            && let Some(usable) = detours.lanes.get_mut(&lane)
            && let Some(manager) = &mut detours.manager
        {
            usable.forgotten = true;
            manager.on_gone(now, lane);
        }
    }

    fn on_lane_stays(&mut self, now: Time, lane: Lane) {
        let Some(usable) = self.detours.as_mut().and_then(|d| d.lanes.get_mut(&lane)) else {
            return;
        };
        (usable.leaving, usable.left) = (false, false);
        let forgotten = std::mem::take(&mut usable.forgotten);
        if let Some(index) = self.path_on(lane) {
            self.set_backup(now, index, false);
        }
        if !forgotten {
            return;
        }
        // For the manager it has no path, and rests; the last path there is isn't given up for
        // that.
        if self.paths.len() > 1 {
            self.close_lane(now, lane, PathDownReason::Dropped);
        }
    }

    /// Socket or relay are gone, or the relay gives nothing any more.
    fn on_lane_gone(&mut self, now: Time, lane: Lane) {
        if let Some(index) = self.path_on(lane)
            && self.paths.len() > 1
        {
            self.close_path(now, index, PathDownReason::RelayGone, true);
        }
        if let Some(detours) = &mut self.detours {
            detours.lanes.remove(&lane);
            if let Some(manager) = &mut detours.manager {
                manager.on_gone(now, lane);
            }
        }
    }

    /// A path through every relay that grants one.
    fn open_detours(&mut self, now: Time) {
        let Some(detours) = &self.detours else {
            return;
        };
        let due = |lane: &Usable| !lane.leaving && lane.path.is_none() && lane.retry_at <= now;
        let lanes: Vec<Lane> = detours
            .lanes
            .iter()
            .filter(|(_, lane)| due(lane))
            .map(|(&lane, _)| lane)
            .collect();
        for lane in lanes {
            if !self.open_detour(now, lane, Under::Law) {
                self.put_off(now, lane);
            }
        }
    }

    /// There was no room or no valid grant: no failure of the path's.
    pub(super) fn put_off(&mut self, now: Time, lane: Lane) {
        if let Some(lane) = self.detours.as_mut().and_then(|d| d.lanes.get_mut(&lane)) {
            lane.retry_at = now + PUT_OFF;
        }
    }

    /// Opens a path; false if that can't be now.
    pub(super) fn open_detour(&mut self, now: Time, lane: Lane, under: Under) -> bool {
        let id = PathId(self.next_path);
        // Without the peer's connection id for it the path has to wait for the PATH_ID frame.
        let Some(&remote_cid) = self.remote_cids.get(&id) else {
            return false;
        };
        if self.paths.len() >= self.max_paths() {
            return false;
        }
        // What is left of a path through a relay that leaves is kept for want of a better one.
        let taken = |d: &Detours| {
            d.lanes
                .get(&lane)
                .is_some_and(|l| l.path.is_some() || l.forgotten)
        };
        if self.detours.as_deref().is_some_and(taken) {
            return false;
        }
        let Some(through) = self.through(now, lane) else {
            return false;
        };
        let best = self.active.first();
        let known = best.map(|&(_, best)| self.paths[best].sender.rtt().smoothed());
        let Some(detours) = &mut self.detours else {
            return false;
        };
        let Some((local, remote)) = detours.client.ends(lane) else {
            return false;
        };
        let (local, usable) = (local.clone(), detours.lanes.entry(lane).or_default());
        usable.path = Some(id);
        let leaving = usable.leaving;
        let initial_rtt = usable.rtt.or(known);
        let index = self.create_path(
            now,
            NewPath {
                id,
                local,
                remote,
                remote_cid: Some(remote_cid),
                under,
                through: Some(through),
                initial_rtt,
            },
        );
        let challenge = self.rng.random();
        self.paths[index].validation.start(now, challenge);
        self.issue_cids();
        self.set_backup(now, index, leaving);
        true
    }

    fn through(&mut self, now: Time, lane: Lane) -> Option<Through> {
        let detours = self.detours.as_mut()?;
        let there = detours.client.grants(now, lane)?.there;
        detours.grants += 1;
        Some(Through {
            lane: Some(lane),
            header: there,
            seq: detours.grants,
        })
    }

    fn path_on(&self, lane: Lane) -> Option<usize> {
        let id = self.detours.as_ref()?.lanes.get(&lane)?.path?;
        self.by_id.get(&id).copied()
    }

    /// A path through a relay is closed, for whatever reason.
    pub(super) fn on_lane_closed(&mut self, now: Time, lane: Lane, path: PathId) {
        let Some(detours) = &mut self.detours else {
            return;
        };
        let Some(usable) = detours
            .lanes
            .get_mut(&lane)
            .filter(|l| l.path == Some(path))
        else {
            return;
        };
        usable.path = None;
        usable.retry_at = now + RETRY.delay(usable.failures);
        usable.failures += 1;
        usable.failed = true;
        detours.client.distrust(now, lane);
        if let Some(manager) = &mut detours.manager {
            manager.on_gone(now, lane);
        }
        detours.reschedule(now);
    }

    /// A path's probe timeout ran out: if it leads through a relay, that may have forgotten us.
    pub(super) fn suspect_relay(&mut self, now: Time, index: usize) {
        if let Some(lane) = self.paths[index].lane()
            && let Some(detours) = &mut self.detours
        {
            detours.client.distrust(now, lane);
        }
    }

    /// The path works.
    pub(super) fn on_detour_validated(&mut self, index: usize) {
        let path = &self.paths[index];
        let rtt = path.sender.rtt();
        let rtt = rtt.has_sample().then(|| rtt.smoothed());
        if let Some(lane) = path.lane()
            && let Some(usable) = self.detours.as_mut().and_then(|d| d.lanes.get_mut(&lane))
        {
            (usable.failures, usable.failed) = (0, false);
            usable.rtt = rtt.or(usable.rtt);
        }
    }

    /// Every relay that was offered, as far as it hasn't been given up.
    pub(super) fn relay_stats(&self) -> Vec<RelayStats> {
        let mut stats = self.lane_stats();
        for (relay, in_use) in self.stats_over_tcp() {
            let state = match in_use {
                true => RelayState::InUse,
                false => RelayState::Available,
            };
            match stats.iter_mut().find(|known| known.id == relay.id) {
                Some(known) if known.state == RelayState::InUse => {}
                Some(known) => known.state = state,
                None => stats.push(RelayStats {
                    address: relay.address,
                    id: relay.id,
                    state,
                    rtt: None,
                    refused: None,
                }),
            }
        }
        stats
    }

    fn lane_stats(&self) -> Vec<RelayStats> {
        let Some(detours) = &self.detours else {
            return Vec::new();
        };
        let state = |lanes: &[Lane]| {
            let usable = || lanes.iter().filter_map(|lane| detours.lanes.get(lane));
            let path = usable()
                .filter_map(|lane| self.by_id.get(&lane.path?))
                .next();
            match path.map(|&index| &self.paths[index]) {
                Some(path) if path.under == Under::Law => RelayState::InUse,
                _ if usable().next().is_some() => RelayState::Available,
                _ => RelayState::Waiting,
            }
        };
        let stats = detours
            .client
            .relays()
            .map(|(relay, refused, lanes)| RelayStats {
                address: relay.address,
                id: relay.id,
                state: state(&lanes),
                rtt: lanes.iter().find_map(|lane| detours.lanes.get(lane)?.rtt),
                refused: refused.map(|reason| reason.to_string()),
            });
        stats.collect()
    }
}

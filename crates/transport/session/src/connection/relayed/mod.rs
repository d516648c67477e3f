//! Paths through relays: which are opened, tried again and closed, and whose grants they carry.
//!
//! Three policies: where the user wants so many relays and no more, a [`RelaySelection`] decides;
//! else with the law `mpath` its path [`Manager`] does, and with any other law there is a path
//! through every relay that grants one. This component carries out what they say. A listener, which
//! opens no paths, has [`Consents`] only. It never touches a datagram on a path.

mod consents;
#[cfg(test)]
mod fixtures;
mod manager;
mod policies;
mod routes;
mod selection;

use std::net::SocketAddr;
use std::sync::Arc;

use manyway_units::Time;
use manyway_wire::relay::{Consent, Grant, RelayId, RelayReply, Stale};
use manyway_wire::{Frame, PathId};
use rand::RngExt;

use crate::config::Config;
use crate::driver::{Local, LocalId, Transmit};
use crate::event::PathDownReason;
use crate::relays::{Fresh, News, RelayAccess, RelayClient, RelayRoute};
use crate::stats::{PathState, RelayState, RelayStats, SelectionStats};

use super::core::Core;
use super::paths::{NewPath, Path, PathSet, PathTransport, RelayHeader};
use super::violation::Violation;
use consents::Consents;
use manager::Manager;
use routes::Routes;
use selection::RelaySelection;

/// What a connection knows of relays.
#[derive(Debug)]
pub(super) struct RelayedPaths {
    config: Arc<Config>,
    initiator: bool,
    /// Routes through the relays that were offered (initiator only).
    routes: Option<Box<Routes>>,
    manager: Option<Box<Manager>>,
    /// Which relays are used, if it isn't all of them (initiator only).
    selection: Option<Box<RelaySelection>>,
    /// Trials that were answered while a packet was looked at.
    answered: Vec<(RelayRoute, PathId)>,
    /// The listener's part.
    consents: Consents,
}

impl RelayedPaths {
    pub(super) fn new(config: &Arc<Config>, initiator: bool, rng: &mut impl rand::Rng) -> Self {
        let selection = match config.selection {
            Some(config) if initiator => RelaySelection::new(config, rng.random()),
            _ => None,
        };
        Self {
            config: config.clone(),
            initiator,
            routes: None,
            manager: None,
            selection: selection.map(Box::new),
            answered: Vec::new(),
            consents: Consents::default(),
        }
    }

    /// Takes relays into use; how many were new.
    pub(super) fn add(&mut self, now: Time, relays: &[RelayAccess], core: &mut Core) -> usize {
        if self.routes.is_none() {
            let locals = core.pairs.as_ref().map(|pairs| pairs.locals().to_vec());
            let client = RelayClient::new(core.rng.random(), locals.unwrap_or_default());
            self.begin(client, core);
        }
        let added = match &mut self.routes {
            Some(routes) => routes.client.add(now, relays),
            None => 0,
        };
        self.drive(now, core);
        added
    }

    /// The attempt to connect went through relays, path 0 perhaps as well.
    pub(super) fn take_over(
        &mut self,
        now: Time,
        client: RelayClient,
        path0: Option<RelayHeader>,
        core: &mut Core,
    ) {
        let granted = client.granted();
        self.begin(client, core);
        if let Some(routes) = &mut self.routes
            && let Some(route) = path0.and_then(|relay| relay.route)
        {
            routes.adopt(route, PathId(0));
        }
        for route in granted {
            self.on_first_grants(now, route);
        }
        self.drive(now, core);
    }

    fn begin(&mut self, client: RelayClient, core: &mut Core) {
        let manager = Manager::of(&self.config.cc, core.rng.random());
        let manager = manager.filter(|_| self.selection.is_none());
        self.manager = manager.map(Box::new);
        self.routes = Some(Box::new(Routes::new(client)));
    }

    pub(super) fn add_local(&mut self, now: Time, local: &Local, core: &mut Core) {
        if let Some(routes) = &mut self.routes {
            routes.client.add_local(now, local);
            self.drive(now, core);
        }
    }

    pub(super) fn remove_local(&mut self, now: Time, id: LocalId, core: &mut Core) {
        if let Some(routes) = &mut self.routes {
            routes.client.remove_local(id);
            self.drive(now, core);
        }
    }

    // What the peer and the relays say.

    /// The initiator names a relay.
    pub(super) fn on_relay(
        &mut self,
        now: Time,
        slot: u16,
        seq: u64,
        relay: Option<(SocketAddr, RelayId)>,
        core: &mut Core,
    ) -> Result<(), Violation> {
        if self.initiator {
            return Err(Violation("RELAY: only the initiator names relays".into()));
        }
        self.consents
            .on_relay(now, slot, seq, relay, &mut core.outbox);
        Ok(())
    }

    /// The listener consents to a relay.
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
        if let Some(routes) = &mut self.routes {
            routes.client.on_consent(now, slot, seq, consent);
        }
        Ok(())
    }

    /// The initiator says what goes in front of our datagrams on a path.
    pub(super) fn on_grant(
        &mut self,
        path: PathId,
        seq: u64,
        grant: Grant,
        core: &mut Core,
    ) -> Result<(), Violation> {
        if self.initiator {
            return Err(Violation("GRANT: only the initiator has grants".into()));
        }
        self.consents.on_grant(path, seq, grant, core);
        Ok(())
    }

    /// The grant of a path whose first packet has just come, or which never will be.
    pub(super) fn take_early_grant(&mut self, path: PathId) -> Option<RelayHeader> {
        self.consents.take_early_grant(path)
    }

    /// A relay has just consented to forward to us.
    pub(super) fn on_fresh_consent(&mut self, now: Time, fresh: Fresh, core: &mut Core) {
        self.consents.on_fresh(now, fresh, core);
    }

    /// A relay doesn't honour a grant. Whether it is one of ours.
    pub(super) fn on_stale_grant(
        &mut self,
        now: Time,
        relay: SocketAddr,
        stale: &Stale,
        paths: &mut PathSet,
    ) -> bool {
        let ours = consents::has_grant(paths, relay, |grant| stale.concerns(grant));
        if ours {
            self.consents.on_stale(now, relay, stale.reason, paths);
        }
        ours
    }

    /// Takes what a relay says; whether it was meant for us.
    pub(super) fn on_reply(
        &mut self,
        now: Time,
        from: (LocalId, SocketAddr),
        reply: &RelayReply,
        core: &mut Core,
    ) -> bool {
        let Some(routes) = &mut self.routes else {
            return false;
        };
        let taken = routes.client.on_reply(now, from, reply);
        if taken {
            self.drive(now, core);
        }
        taken
    }

    /// A HELLO or MINT that is due.
    pub(super) fn poll_request(&mut self, now: Time, buf: &mut Vec<u8>) -> Option<Transmit> {
        let datagram = self.routes.as_mut()?.client.poll(now)?;
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
    pub(super) fn grant_back(&self, now: Time, path: &Path) -> Option<(u64, Grant)> {
        self.routes.as_ref()?.grant_back(now, path)
    }

    // Time.

    pub(super) fn timeout(&self, now: Time) -> Option<Time> {
        let routes = self.routes.as_ref().and_then(|routes| routes.timeout());
        let selection = self.selection.as_ref().and_then(|s| s.timeout());
        let selection = selection.map(|at| at.max(now));
        routes.into_iter().chain(selection).min()
    }

    pub(super) fn on_timeout(&mut self, now: Time, core: &mut Core) {
        let due = |routes: &Routes| routes.timeout().is_some_and(|at| at <= now);
        if self.routes.as_deref().is_some_and(due) {
            self.run(now, core);
        }
    }

    /// Does what has become necessary; costs nothing if that is nothing.
    pub(super) fn drive(&mut self, now: Time, core: &mut Core) {
        let news = |routes: &Routes| routes.client.has_news() || !self.answered.is_empty();
        if self.routes.as_deref().is_some_and(news) {
            self.run(now, core);
        }
    }

    fn run(&mut self, now: Time, core: &mut Core) {
        let Some(routes) = &mut self.routes else {
            return;
        };
        for ask in routes.client.take_asks() {
            let is_void =
                |f: &Frame<'_>| matches!(f, Frame::Relay { slot, .. } if *slot == ask.slot);
            let frame = Frame::Relay {
                slot: ask.slot,
                seq: ask.seq,
                relay: ask.relay.map(|relay| (relay.address, relay.id)),
            };
            core.outbox.say_instead(frame, is_void);
        }
        let news = routes.client.take_news();
        let answered = std::mem::take(&mut self.answered);
        for news in news {
            match news {
                News::Granted(route) => self.on_first_grants(now, route),
                News::Renewed(route) => self.on_renewed_grants(now, route, core),
                News::Leaving(route) => self.on_leaving(now, route, core),
                News::Left(route) => self.on_left(now, route, core),
                News::Stays(route) => self.on_stays(now, route, core),
                News::Gone(route) => self.on_gone(now, route, core),
            }
        }
        for (route, path) in answered {
            self.on_trial_over(now, route, path, core);
        }
        if self.manager.is_some() {
            self.manage(now, None, None, core);
        } else if let Some(selection) = &mut self.selection {
            selection.wake();
        } else {
            self.open_all(now, core);
        }
        self.reschedule(now);
    }

    fn reschedule(&mut self, now: Time) {
        if let Some(routes) = &mut self.routes {
            let at = match &self.manager {
                Some(manager) => manager.timeout(),
                None => routes.retry(now),
            };
            routes.wake_at(at);
        }
    }

    // What becomes of a route.

    fn on_first_grants(&mut self, now: Time, route: RelayRoute) {
        if let Some(routes) = &mut self.routes {
            routes.on_granted(route);
        }
        if let Some(manager) = &mut self.manager {
            manager.on_candidate(now, route);
        }
    }

    /// The path goes on with the new grants; if it was silent, it is time to ask whether it is now.
    fn on_renewed_grants(&mut self, now: Time, route: RelayRoute, core: &mut Core) {
        let Some(routes) = &mut self.routes else {
            return;
        };
        routes.on_renewed(route);
        let index = routes.path(route).and_then(|id| core.paths.index_of(id));
        let Some(index) = index else {
            return;
        };
        let Some(header) = routes.header(now, route) else {
            return;
        };
        let path = &mut core.paths[index];
        path.set_relay(header);
        let Some((seq, grant)) = routes.grant_back(now, path) else {
            return;
        };
        let id = path.id();
        let is_void = |f: &Frame<'_>| matches!(f, Frame::Grant { path, .. } if *path == id);
        let frame = Frame::Grant {
            path: id,
            seq,
            grant,
        };
        core.outbox.say_instead(frame, is_void);
        if path.sender().pto_count() >= 2 || path.state() == PathState::Stalled {
            path.probe();
        }
        core.paths.refresh(now, index);
    }

    /// The relay tells senders to go elsewhere: its path carries nothing new while there is another
    /// one.
    fn on_leaving(&mut self, now: Time, route: RelayRoute, core: &mut Core) {
        if let Some(routes) = &mut self.routes {
            routes.on_leaving(route);
        }
        if let Some(index) = self.path_on(route, core) {
            core.paths.set_backup(now, index, true);
        }
    }

    /// It really leaves: its path stays open for want of a better one, but the manager has to look
    /// for others.
    fn on_left(&mut self, now: Time, route: RelayRoute, core: &mut Core) {
        self.on_leaving(now, route, core);
        if let Some(routes) = &mut self.routes
            && routes.on_left(route)
            && let Some(manager) = &mut self.manager
        {
            routes.forget(route);
            manager.on_gone(now, route);
        }
    }

    fn on_stays(&mut self, now: Time, route: RelayRoute, core: &mut Core) {
        let routes = self.routes.as_mut();
        let Some(forgotten) = routes.and_then(|routes| routes.on_stays(route)) else {
            return;
        };
        if let Some(index) = self.path_on(route, core) {
            core.paths.set_backup(now, index, false);
        }
        // For the manager it has no path, and rests; the last path there is isn't given up for
        // that.
        if forgotten && core.paths.len() > 1 {
            self.release(now, route, PathDownReason::Dropped, core);
        }
    }

    /// Socket or relay are gone, or the relay gives nothing any more.
    fn on_gone(&mut self, now: Time, route: RelayRoute, core: &mut Core) {
        if let Some(index) = self.path_on(route, core)
            && core.paths.len() > 1
        {
            self.close_path(now, index, PathDownReason::RelayGone, true, core);
        }
        if let Some(routes) = &mut self.routes {
            routes.on_gone(route);
        }
        if let Some(manager) = &mut self.manager {
            manager.on_gone(now, route);
        }
    }

    // Opening and closing.

    /// A path through every relay that grants one.
    fn open_all(&mut self, now: Time, core: &mut Core) {
        let due = self.routes.as_ref().map(|routes| routes.due(now));
        for route in due.into_iter().flatten() {
            self.open_or_put_off(now, route, core);
        }
    }

    fn open_or_put_off(&mut self, now: Time, route: RelayRoute, core: &mut Core) {
        if !self.open(now, route, PathTransport::Coupled, core)
            && let Some(routes) = &mut self.routes
        {
            routes.put_off(now, route);
        }
    }

    /// Opens a path; false if that can't be now.
    fn open(
        &mut self,
        now: Time,
        route: RelayRoute,
        transport: PathTransport,
        core: &mut Core,
    ) -> bool {
        let Some((id, remote_cid)) = core.next_path() else {
            return false;
        };
        let routes = self.routes.as_mut();
        let Some(start) = routes.and_then(|routes| routes.begin(now, route, id)) else {
            return false;
        };
        let new = NewPath {
            id,
            local: start.local,
            remote: start.relay,
            remote_cid: Some(remote_cid),
            transport,
            relay: Some(start.header),
            initial_rtt: start.rtt.or(core.paths.best_rtt()),
        };
        let index = core.open_path(now, new);
        core.paths.set_backup(now, index, start.leaving);
        true
    }

    fn path_on(&self, route: RelayRoute, core: &Core) -> Option<usize> {
        core.paths.index_of(self.routes.as_ref()?.path(route)?)
    }

    /// Takes a path out for good, whether or not it leads through a relay; what was in flight on it
    /// is sent over the others.
    pub(super) fn close_path(
        &mut self,
        now: Time,
        index: usize,
        reason: PathDownReason,
        tell: bool,
        core: &mut Core,
    ) {
        if let Some(selection) = &mut self.selection {
            selection.on_closing(now, &core.paths[index], self.routes.as_deref(), reason);
        }
        let (id, route) = core.close_path(now, index, reason, tell);
        self.consents.take_early_grant(id);
        if let (Some(route), Some(routes)) = (route, &mut self.routes)
            && routes.on_failed(now, route, id)
        {
            if let Some(manager) = &mut self.manager {
                manager.on_gone(now, route);
            }
            self.reschedule(now);
        }
    }

    /// Closes a route's path: no failure of the relay's.
    fn release(&mut self, now: Time, route: RelayRoute, reason: PathDownReason, core: &mut Core) {
        let Some(index) = self.path_on(route, core) else {
            return;
        };
        if let Some(routes) = &mut self.routes {
            routes.release(route);
        }
        self.close_path(now, index, reason, true, core);
    }

    // What becomes of a path.

    /// A path's address has answered. A trial has done its work then; the packet that says so may
    /// have more to say, so the path is closed after it.
    pub(super) fn on_answered(&mut self, path: &Path) {
        if path.transport() == PathTransport::Trial
            && let Some(route) = path.route()
        {
            self.answered.push((route, path.id()));
        }
        if let Some(routes) = &mut self.routes {
            routes.on_answered(path);
        }
    }

    /// A path carries packets, for the first time or again.
    pub(super) fn on_working(&mut self, path: &Path) {
        if let Some(selection) = &mut self.selection {
            selection.on_working(path, self.routes.as_deref());
        }
    }

    /// A path was taken out of use.
    pub(super) fn on_stalled(&mut self, now: Time, path: &Path) {
        self.suspect(now, path);
        if let Some(selection) = &mut self.selection {
            selection.wake();
        }
    }

    /// A path's probe timeout ran out: if it leads through a relay, that may have forgotten us.
    pub(super) fn suspect(&mut self, now: Time, path: &Path) {
        if let (Some(route), Some(routes)) = (path.route(), &mut self.routes) {
            routes.client.distrust(now, route);
        }
    }

    // What is known.

    pub(super) fn selection_stats(&self) -> Option<SelectionStats> {
        Some(self.selection.as_ref()?.stats())
    }

    /// Every relay that was offered, as far as it hasn't been given up.
    pub(super) fn stats(&self, paths: &PathSet) -> Vec<RelayStats> {
        let routes = self.routes.as_deref();
        let mut stats = routes.map(|r| r.stats(paths)).unwrap_or_default();
        let selection = self.selection.as_deref();
        let over_tcp = selection.map(|s| s.stats_over_tcp(paths, routes));
        for (relay, in_use) in over_tcp.into_iter().flatten() {
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
}

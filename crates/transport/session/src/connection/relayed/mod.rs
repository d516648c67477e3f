//! Paths through relays: which are opened, tried again and closed, and whose grants they carry.
//!
//! Three policies: where the user wants so many relays and no more, a [`RelaySelection`] decides;
//! else with the law `mpath` its path [`Manager`] does, and with any other law there is a path
//! through every relay that grants one. [`RelayedPaths`] goes through what they say, one step after
//! the other, and returns each [`Action`] to the owner of the paths, who says what came of it. A
//! listener, which opens no paths, has [`Consents`] only. Neither ever changes a path.

mod action;
mod consents;
#[cfg(test)]
mod fixtures;
mod manager;
mod policies;
mod routes;
mod selection;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use manyway_units::Time;
use manyway_wire::relay::{Consent, Grant, RelayReply};
use manyway_wire::{ConnectionId, Frame, PathId};
use rand::{Rng, RngExt};

use crate::config::Config;
use crate::driver::{Local, LocalId, Transmit};
use crate::event::{PathDownReason, PathEvent};
use crate::relays::{News, RelayAccess, RelayClient, RelayRoute};
use crate::stats::{RelayState, RelayStats, SelectionStats};

use super::paths::{NewPath, Path, PathSet, PathTransport, RelayHeader};
use manager::Manager;
use routes::Routes;
use selection::RelaySelection;

pub(super) use action::{Action, View};
pub(super) use consents::Consents;

/// What an initiator knows of relays.
#[derive(Debug)]
pub(super) struct RelayedPaths {
    config: Arc<Config>,
    /// Routes through the relays that were offered.
    routes: Option<Box<Routes>>,
    manager: Option<Box<Manager>>,
    /// Which relays are used, if it isn't all of them.
    selection: Option<Box<RelaySelection>>,
    /// Trials that were answered while a packet was looked at.
    answered: Vec<(RelayRoute, PathId)>,
    /// What is to be gone through. Both are empty once there is no [next
    /// action](Self::next_action).
    steps: VecDeque<Step>,
    actions: VecDeque<Action>,
}

/// One thing to look at, once what came of the one before is done.
#[derive(Copy, Clone, Debug)]
enum Step {
    News(News),
    /// A trial was answered.
    TrialOver(RelayRoute, PathId),
    /// Whatever the policy makes of all that.
    Decide,
    /// The manager's next command, and the one after that.
    Command,
    /// A path leads through a relay that isn't chosen; others carry data, or not.
    Leave(PathId, bool),
    /// The chosen relays.
    OpenChosen,
    Reschedule,
}

impl RelayedPaths {
    pub(super) fn new(config: &Arc<Config>, initiator: bool, rng: &mut impl Rng) -> Self {
        let selection = match config.selection {
            Some(config) if initiator => RelaySelection::new(config, rng.random()),
            _ => None,
        };
        Self {
            config: config.clone(),
            routes: None,
            manager: None,
            selection: selection.map(Box::new),
            answered: Vec::new(),
            steps: VecDeque::new(),
            actions: VecDeque::new(),
        }
    }

    /// Takes relays into use, from these sockets if they are the first; how many were new.
    pub(super) fn add(
        &mut self,
        now: Time,
        relays: &[RelayAccess],
        locals: &[Local],
        rng: &mut impl Rng,
    ) -> usize {
        if self.routes.is_none() {
            let client = RelayClient::new(rng.random(), locals.to_vec());
            self.begin_with(client, rng);
        }
        let added = match &mut self.routes {
            Some(routes) => routes.client.add(now, relays),
            None => 0,
        };
        self.drive();
        added
    }

    /// The attempt to connect went through relays, path 0 perhaps as well.
    pub(super) fn take_over(
        &mut self,
        now: Time,
        client: RelayClient,
        path0: Option<RelayHeader>,
        rng: &mut impl Rng,
    ) {
        let granted = client.granted();
        self.begin_with(client, rng);
        if let Some(routes) = &mut self.routes
            && let Some(route) = path0.and_then(|relay| relay.route)
        {
            routes.adopt(route, PathId(0));
        }
        for route in granted {
            self.on_first_grants(now, route);
        }
        self.drive();
    }

    fn begin_with(&mut self, client: RelayClient, rng: &mut impl Rng) {
        let manager = Manager::of(&self.config.cc, rng.random());
        let manager = manager.filter(|_| self.selection.is_none());
        self.manager = manager.map(Box::new);
        self.routes = Some(Box::new(Routes::new(client)));
    }

    pub(super) fn add_local(&mut self, now: Time, local: &Local) {
        if let Some(routes) = &mut self.routes {
            routes.client.add_local(now, local);
        }
        self.drive();
    }

    pub(super) fn remove_local(&mut self, id: LocalId) {
        if let Some(routes) = &mut self.routes {
            routes.client.remove_local(id);
        }
        self.drive();
    }

    // What the peer and the relays say.

    /// The listener consents to a relay.
    pub(super) fn on_consent(&mut self, now: Time, slot: u16, seq: u64, consent: Consent) {
        if let Some(routes) = &mut self.routes {
            routes.client.on_consent(now, slot, seq, consent);
        }
    }

    /// Takes what a relay says; whether it was meant for us.
    pub(super) fn on_reply(
        &mut self,
        now: Time,
        from: (LocalId, SocketAddr),
        reply: &RelayReply,
    ) -> bool {
        let Some(routes) = &mut self.routes else {
            return false;
        };
        let taken = routes.client.on_reply(now, from, reply);
        if taken {
            self.drive();
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

    pub(super) fn on_timeout(&mut self, now: Time) {
        let due = |routes: &Routes| routes.timeout().is_some_and(|at| at <= now);
        if self.routes.as_deref().is_some_and(due) {
            self.run();
        }
    }

    // What is to be done.

    /// Looks at what has happened; costs nothing if that is nothing.
    pub(super) fn drive(&mut self) {
        let news = |routes: &Routes| routes.client.has_news() || !self.answered.is_empty();
        if self.routes.as_deref().is_some_and(news) {
            self.run();
        }
    }

    fn run(&mut self) {
        let Some(routes) = &mut self.routes else {
            return;
        };
        for ask in routes.client.take_asks() {
            self.actions.push_back(Action::Say(Frame::Relay {
                slot: ask.slot,
                seq: ask.seq,
                relay: ask.relay.map(|relay| (relay.address, relay.id)),
            }));
        }
        let news = routes.client.take_news();
        self.steps.extend(news.into_iter().map(Step::News));
        let answered = self.answered.drain(..);
        let over = answered.map(|(route, path)| Step::TrialOver(route, path));
        self.steps.extend(over);
        self.steps.extend([Step::Decide, Step::Reschedule]);
    }

    /// What the owner of the paths has to do next. Whoever calls anything here asks until there is
    /// nothing more, and does each before it asks for the one after it.
    pub(super) fn next_action(&mut self, now: Time, view: View<'_>) -> Option<Action> {
        loop {
            if let Some(action) = self.actions.pop_front() {
                return Some(action);
            }
            match self.steps.pop_front()? {
                Step::News(news) => self.on_news(now, news, view.paths),
                Step::TrialOver(route, path) => self.on_trial_over(now, route, path, view.paths),
                Step::Decide => self.decide(now, view),
                Step::Command => self.obey_next(now, view.paths),
                Step::Leave(path, others) => self.leave(path, others, view.paths),
                Step::OpenChosen => self.open_chosen(now, view.paths),
                Step::Reschedule => self.reschedule(now),
            }
        }
    }

    fn decide(&mut self, now: Time, view: View<'_>) {
        if self.manager.is_some() {
            self.report(now, view, None, None);
        } else if let Some(selection) = &mut self.selection {
            selection.wake();
        } else if let Some(routes) = &self.routes {
            // A path through every relay that grants one.
            self.actions.extend(routes.due(now).into_iter().map(open));
        }
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

    fn on_news(&mut self, now: Time, news: News, paths: &PathSet) {
        match news {
            News::Granted(route) => self.on_first_grants(now, route),
            News::Renewed(route) => self.on_renewed_grants(now, route, paths),
            News::Leaving(route) => self.on_leaving(route, paths),
            News::Left(route) => self.on_left(now, route, paths),
            News::Stays(route) => self.on_stays(route, paths),
            News::Refused(relay, reason) => {
                let reason = reason.to_string();
                let event = PathEvent::RelayRefused { relay, reason };
                self.actions.push_back(Action::Tell(event));
            }
            News::Gone(route) => self.on_gone(now, route, paths),
        }
    }

    fn on_first_grants(&mut self, now: Time, route: RelayRoute) {
        if let Some(routes) = &mut self.routes {
            routes.on_granted(route);
        }
        if let Some(manager) = &mut self.manager {
            manager.on_candidate(now, route);
        }
    }

    /// The path goes on with the new grants; if it was silent, it is time to ask whether it is now.
    fn on_renewed_grants(&mut self, now: Time, route: RelayRoute, paths: &PathSet) {
        let Some(routes) = &mut self.routes else {
            return;
        };
        routes.on_renewed(route);
        if let Some(index) = routes.path(route).and_then(|id| paths.index_of(id))
            && let Some(header) = routes.header(now, route)
        {
            let back = routes.back(now, route);
            self.actions.push_back(Action::Renew(index, header, back));
        }
    }

    /// The relay tells senders to go elsewhere: its path carries nothing new while there is another
    /// one.
    fn on_leaving(&mut self, route: RelayRoute, paths: &PathSet) {
        if let Some(routes) = &mut self.routes {
            routes.on_leaving(route);
        }
        if let Some(index) = self.path_on(route, paths) {
            self.actions.push_back(Action::Backup(index, true));
        }
    }

    /// It really leaves: its path stays open for want of a better one, but the manager has to look
    /// for others.
    fn on_left(&mut self, now: Time, route: RelayRoute, paths: &PathSet) {
        self.on_leaving(route, paths);
        if let Some(routes) = &mut self.routes
            && routes.on_left(route)
            && let Some(manager) = &mut self.manager
        {
            routes.forget(route);
            manager.on_gone(now, route);
        }
    }

    fn on_stays(&mut self, route: RelayRoute, paths: &PathSet) {
        let routes = self.routes.as_mut();
        let Some(forgotten) = routes.and_then(|routes| routes.on_stays(route)) else {
            return;
        };
        if let Some(index) = self.path_on(route, paths) {
            self.actions.push_back(Action::Backup(index, false));
        }
        // For the manager it has no path, and rests; the last path there is isn't given up for
        // that.
        if forgotten && paths.len() > 1 {
            self.release(route, PathDownReason::Dropped, paths);
        }
    }

    /// Socket or relay are gone, or the relay gives nothing any more.
    fn on_gone(&mut self, now: Time, route: RelayRoute, paths: &PathSet) {
        if let Some(index) = self.path_on(route, paths)
            && paths.len() > 1
        {
            let reason = PathDownReason::RelayGone;
            self.actions.push_back(Action::Close(index, reason));
        }
        if let Some(routes) = &mut self.routes {
            routes.on_gone(route);
        }
        if let Some(manager) = &mut self.manager {
            manager.on_gone(now, route);
        }
    }

    // Opening and closing.

    /// What a path on a route starts from, and whether it is to be a backup; `None` if it can't
    /// begin now. `rtt` is the best guess of its round-trip time as yet.
    pub(super) fn begin(
        &mut self,
        now: Time,
        (route, transport): (RelayRoute, PathTransport),
        (id, remote_cid): (PathId, ConnectionId),
        rtt: Option<Duration>,
    ) -> Option<(NewPath, bool)> {
        let start = self.routes.as_mut()?.begin(now, route, id)?;
        let new = NewPath {
            id,
            local: start.local,
            remote: start.relay,
            remote_cid: Some(remote_cid),
            transport,
            relay: Some(start.header),
            initial_rtt: start.rtt.or(rtt),
        };
        Some((new, start.leaving))
    }

    /// The path that was to begin on a route can't: it didn't, or there was no room.
    pub(super) fn on_not_begun(&mut self, now: Time, route: RelayRoute, transport: PathTransport) {
        match (&mut self.manager, &mut self.routes) {
            // A trial that can't be sent isn't answered: a strike.
            (Some(_), _) if transport == PathTransport::Trial => {}
            (Some(manager), _) => manager.on_gone(now, route),
            (None, Some(routes)) => routes.put_off(now, route),
            (None, None) => {}
        }
    }

    fn path_on(&self, route: RelayRoute, paths: &PathSet) -> Option<usize> {
        paths.index_of(self.routes.as_ref()?.path(route)?)
    }

    /// A path, through a relay or not, is about to be closed.
    pub(super) fn on_closing(&mut self, now: Time, path: &Path, reason: PathDownReason) {
        if let Some(selection) = &mut self.selection {
            selection.on_closing(now, path, self.routes.as_deref(), reason);
        }
    }

    /// The route's path was closed: it has failed, unless it was released.
    pub(super) fn on_closed(&mut self, now: Time, path: PathId, route: RelayRoute) {
        if let Some(routes) = &mut self.routes
            && routes.on_failed(now, route, path)
        {
            if let Some(manager) = &mut self.manager {
                manager.on_gone(now, route);
            }
            self.reschedule(now);
        }
    }

    /// Closes a route's path: no failure of the relay's.
    fn release(&mut self, route: RelayRoute, reason: PathDownReason, paths: &PathSet) {
        let Some(index) = self.path_on(route, paths) else {
            return;
        };
        if let Some(routes) = &mut self.routes {
            routes.release(route);
        }
        self.actions.push_back(Action::Close(index, reason));
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

fn open(route: RelayRoute) -> Action {
    Action::Open(route, PathTransport::Coupled)
}

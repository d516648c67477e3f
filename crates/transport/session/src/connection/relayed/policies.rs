//! What the path manager and the selection say is carried out here.

use std::net::SocketAddr;

use manyway_control::paths::{Command, Event as ManagerEvent};
use manyway_units::Time;
use manyway_wire::PathId;

use crate::event::{PathDownReason, PathEvent};
use crate::relays::{RelayAccess, RelayId, RelayRoute};

use super::super::core::Core;
use super::super::paths::PathTransport;
use super::RelayedPaths;
use super::manager::Manager;
use super::selection::{Leave, RelaySelection};

impl RelayedPaths {
    /// A path's window, for [`observe`](Self::observe) to know what it was.
    pub(crate) fn window_before(&self, index: usize, core: &Core) -> f64 {
        match self.manager {
            Some(_) => core.paths.window(index),
            None => 0.0,
        }
    }

    /// What came of a path's packets is settled: the manager hears of it, if it wants to know.
    pub(crate) fn observe(
        &mut self,
        now: Time,
        index: usize,
        before: f64,
        lost: bool,
        core: &mut Core,
    ) {
        if let Some(manager) = &mut self.manager
            && let Some((about, event)) = manager.observe(&core.paths, index, before, lost)
        {
            self.manage(now, about, event, core);
        }
    }

    /// A probe timeout on a path. True if the manager has dealt with it, whatever became of the
    /// path.
    pub(crate) fn on_silence(&mut self, now: Time, index: usize, core: &mut Core) -> bool {
        if self.manager.is_none() {
            return false;
        }
        let Some(event) = Manager::timeout_on(&core.paths, index) else {
            // A trial's end is the manager's to say.
            return core.paths[index].transport() == PathTransport::Trial;
        };
        let id = core.paths[index].id();
        self.manage(now, None, Some(event), core);
        core.paths.index_of(id) != Some(index)
    }

    /// Tells the manager what has happened, and does what it says.
    pub(crate) fn manage(
        &mut self,
        now: Time,
        about: Option<usize>,
        event: Option<ManagerEvent<'static>>,
        core: &mut Core,
    ) {
        let Some(manager) = &mut self.manager else {
            return;
        };
        let seen = (&core.paths, core.data.has_any());
        if manager.report(now, seen, about, event) {
            while let Some(command) = self.manager.as_mut().and_then(|m| m.next_command()) {
                self.obey(now, command, core);
            }
            self.reschedule(now);
        }
    }

    /// Carries out a command of the manager's.
    fn obey(&mut self, now: Time, command: Command, core: &mut Core) {
        match command {
            Command::Probe(relay) => {
                // If it can't be sent, it isn't answered: a strike.
                self.open(now, RelayRoute(relay.0), PathTransport::Trial, core);
            }
            Command::Resend(relay) => self.give_up_trial(now, RelayRoute(relay.0), core),
            Command::Open(relay) => {
                let route = RelayRoute(relay.0);
                if !self.open(now, route, PathTransport::Coupled, core)
                    && let Some(manager) = &mut self.manager
                {
                    manager.on_gone(now, route);
                }
            }
            Command::Close { relay, for_good } => {
                let route = RelayRoute(relay.0);
                self.release(now, route, PathDownReason::Dropped, core);
                if for_good && let Some(routes) = &mut self.routes {
                    routes.client.remove(route);
                }
            }
            Command::MoreRelays => {
                core.outbox.tell(PathEvent::MoreRelays);
                if let Some(manager) = &mut self.manager {
                    manager.on_no_more(now);
                }
            }
        }
    }

    fn give_up_trial(&mut self, now: Time, route: RelayRoute, core: &mut Core) {
        self.release(now, route, PathDownReason::TimedOut, core);
        if let (Some(manager), Some(routes)) = (&mut self.manager, &mut self.routes) {
            if manager.on_strike(route) {
                routes.client.remove(route);
            } else {
                routes.client.distrust(now, route);
            }
        }
    }

    pub(super) fn on_trial_over(
        &mut self,
        now: Time,
        route: RelayRoute,
        path: PathId,
        core: &mut Core,
    ) {
        if self.path_on(route, core) != core.paths.index_of(path) {
            return;
        }
        self.release(now, route, PathDownReason::Dropped, core);
        if let Some(manager) = &mut self.manager {
            manager.on_answered(now, route);
        }
    }

    // The selection.

    /// There is something to send, or nothing.
    pub(crate) fn note_starved(&mut self, now: Time, starved: bool) {
        if let Some(selection) = &mut self.selection {
            selection.note_starved(now, starved);
        }
    }

    /// These relays could be dialled over TCP now.
    pub(crate) fn set_over_tcp(&mut self, relays: &[RelayAccess]) {
        if let Some(selection) = &mut self.selection {
            selection.set_over_tcp(relays);
        }
    }

    /// The relays that are to have a TCP connection now; `None` if all of them may.
    pub(crate) fn to_dial(&self) -> Option<Vec<RelayId>> {
        Some(self.selection.as_ref()?.to_dial())
    }

    /// A TCP connection to the relay, or through it, didn't come about.
    pub(crate) fn on_dial_failed(&mut self, now: Time, relay: RelayId) {
        if let Some(selection) = &mut self.selection {
            selection.on_dial_failed(now, relay);
        }
    }

    /// Whether a carrier through a relay, at this address, may carry a path.
    pub(crate) fn takes_carrier_at(&self, address: SocketAddr) -> bool {
        let selection = self.selection.as_ref();
        selection.is_none_or(|selection| selection.takes_carrier_at(address))
    }

    /// Chooses among the relays if it is time; costs nothing if it isn't.
    pub(crate) fn select(&mut self, now: Time, core: &mut Core) {
        let due = |s: &RelaySelection| s.timeout().is_some_and(|at| at <= now);
        let Some(selection) = self.selection.as_deref_mut().filter(|s| due(s)) else {
            return;
        };
        let routes = self.routes.as_deref();
        selection.run(now, &core.paths, routes, core.data.acked());
        selection.pass_on(now, &mut core.outbox);
        let (leave, others) = selection.unchosen(&core.paths, routes);
        for id in leave {
            self.leave(now, id, others, core);
        }
        self.open_chosen(now, core);
    }

    /// Closes a path through a relay that isn't chosen, as soon as another path carries data.
    fn leave(&mut self, now: Time, id: PathId, others: bool, core: &mut Core) {
        let Some(selection) = &self.selection else {
            return;
        };
        let Some(index) = core.paths.index_of(id) else {
            return;
        };
        let path = &core.paths[index];
        match (selection.leave(path, &core.paths, others), path.route()) {
            (Leave::Failed, _) => {
                self.close_path(now, index, PathDownReason::TimedOut, true, core);
            }
            (Leave::Released, Some(route)) => {
                self.release(now, route, PathDownReason::Reselected, core);
            }
            (Leave::Released, None) => {
                self.close_path(now, index, PathDownReason::Reselected, true, core);
            }
            (Leave::Backup, _) => {
                if !core.paths.backups().contains(&index) {
                    core.paths.set_backup(now, index, true);
                }
            }
        }
    }

    /// Opens a path from each interface through each chosen relay that grants one. What has to be
    /// dialled the driver dials.
    fn open_chosen(&mut self, now: Time, core: &mut Core) {
        let Some(selection) = &self.selection else {
            return;
        };
        let routes = self.routes.as_deref();
        let back = selection.wanted_back(&core.paths, routes);
        let mut wanted = Vec::new();
        for id in selection.chosen() {
            wanted.extend(routes.map(|r| r.to_open(now, id)).unwrap_or_default());
        }
        for index in back {
            core.paths.set_backup(now, index, false);
        }
        for route in wanted {
            self.open_or_put_off(now, route, core);
        }
    }
}

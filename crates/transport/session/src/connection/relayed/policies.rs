//! What the path manager and the selection say, as steps and actions.

use std::net::SocketAddr;

use manyway_control::paths::{Command, Event as ManagerEvent};
use manyway_units::Time;
use manyway_wire::PathId;

use crate::event::{PathDownReason, PathEvent};
use crate::relays::{RelayAccess, RelayId, RelayRoute};

use super::super::paths::{PathSet, PathTransport};
use super::action::{Action, View};
use super::manager::Manager;
use super::selection::{Leave, RelaySelection};
use super::{RelayedPaths, Step, open};

impl RelayedPaths {
    /// A path's window, for [`observe`](Self::observe) to know what it was.
    pub(crate) fn window_before(&self, index: usize, paths: &PathSet) -> f64 {
        match self.manager {
            Some(_) => paths.window(index),
            None => 0.0,
        }
    }

    /// What came of a path's packets is settled: the manager hears of it, if it wants to know.
    pub(crate) fn observe(
        &mut self,
        now: Time,
        index: usize,
        (before, lost): (f64, bool),
        view: View<'_>,
    ) {
        if let Some(manager) = &mut self.manager
            && let Some((about, event)) = manager.observe(view.paths, index, before, lost)
        {
            self.report(now, view, about, event);
        }
    }

    /// A probe timeout on a path. True if that is the manager's to deal with, which may also close
    /// the path.
    pub(crate) fn on_silence(&mut self, now: Time, index: usize, view: View<'_>) -> bool {
        if self.manager.is_none() {
            return false;
        }
        let Some(event) = Manager::timeout_on(view.paths, index) else {
            // A trial's end is the manager's to say.
            return view.paths[index].transport() == PathTransport::Trial;
        };
        // One lost tail is nothing; after that, what is in flight has to go elsewhere, too.
        let silent = view.paths[index].sender().pto_count() > 1;
        let unsatisfied = view.unsatisfied || silent;
        let view = View {
            unsatisfied,
            ..view
        };
        self.report(now, view, None, Some(event));
        false
    }

    /// Tells the manager what has happened; what it says is done next.
    pub(super) fn report(
        &mut self,
        now: Time,
        view: View<'_>,
        about: Option<usize>,
        event: Option<ManagerEvent<'static>>,
    ) {
        let Some(manager) = &mut self.manager else {
            return;
        };
        if manager.report(now, (view.paths, view.unsatisfied), about, event) {
            self.steps.push_front(Step::Reschedule);
            self.steps.push_front(Step::Command);
        }
    }

    /// The manager's next command becomes an action.
    pub(super) fn obey_next(&mut self, now: Time, paths: &PathSet) {
        let Some(manager) = &mut self.manager else {
            return;
        };
        let Some(command) = manager.next_command() else {
            return;
        };
        self.steps.push_front(Step::Command);
        match command {
            Command::Probe(relay) => {
                let trial = Action::Open(RelayRoute(relay.0), PathTransport::Trial);
                self.actions.push_back(trial);
            }
            Command::Resend(relay) => self.give_up_trial(now, RelayRoute(relay.0), paths),
            Command::Open(relay) => self.actions.push_back(open(RelayRoute(relay.0))),
            Command::Close { relay, for_good } => {
                let route = RelayRoute(relay.0);
                self.release(route, PathDownReason::Dropped, paths);
                if for_good && let Some(routes) = &mut self.routes {
                    routes.client.remove(route);
                }
            }
            Command::MoreRelays => {
                self.actions.push_back(Action::Tell(PathEvent::MoreRelays));
                manager.on_no_more(now);
            }
        }
    }

    fn give_up_trial(&mut self, now: Time, route: RelayRoute, paths: &PathSet) {
        self.release(route, PathDownReason::TimedOut, paths);
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
        paths: &PathSet,
    ) {
        if self.path_on(route, paths) != paths.index_of(path) {
            return;
        }
        self.release(route, PathDownReason::Dropped, paths);
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
    pub(crate) fn select(&mut self, now: Time, view: View<'_>) {
        let due = |s: &RelaySelection| s.timeout().is_some_and(|at| at <= now);
        let Some(selection) = self.selection.as_deref_mut().filter(|s| due(s)) else {
            return;
        };
        let routes = self.routes.as_deref();
        selection.run(now, view.paths, routes, view.acked);
        let events = selection.events(now).into_iter();
        self.actions.extend(events.map(Action::Tell));
        let (leave, others) = selection.unchosen(view.paths, routes);
        let leave = leave.into_iter().map(|path| Step::Leave(path, others));
        self.steps.extend(leave);
        self.steps.push_back(Step::OpenChosen);
    }

    /// Closes a path through a relay that isn't chosen, as soon as another path carries data.
    pub(super) fn leave(&mut self, id: PathId, others: bool, paths: &PathSet) {
        let Some(selection) = &self.selection else {
            return;
        };
        let Some(index) = paths.index_of(id) else {
            return;
        };
        let path = &paths[index];
        match (selection.leave(path, paths, others), path.route()) {
            (Leave::Failed, _) => {
                let reason = PathDownReason::TimedOut;
                self.actions.push_back(Action::Close(index, reason));
            }
            (Leave::Released, Some(route)) => {
                self.release(route, PathDownReason::Reselected, paths);
            }
            (Leave::Released, None) => {
                let reason = PathDownReason::Reselected;
                self.actions.push_back(Action::Close(index, reason));
            }
            (Leave::Backup, _) => {
                if !paths.backups().contains(&index) {
                    self.actions.push_back(Action::Backup(index, true));
                }
            }
        }
    }

    /// Opens a path from each interface through each chosen relay that grants one. What has to be
    /// dialled the driver dials.
    pub(super) fn open_chosen(&mut self, now: Time, paths: &PathSet) {
        let Some(selection) = &self.selection else {
            return;
        };
        let routes = self.routes.as_deref();
        let back = selection.wanted_back(paths, routes).into_iter();
        self.actions
            .extend(back.map(|index| Action::Backup(index, false)));
        for id in selection.chosen() {
            let wanted = routes.map(|r| r.to_open(now, id)).unwrap_or_default();
            self.actions.extend(wanted.into_iter().map(open));
        }
    }
}

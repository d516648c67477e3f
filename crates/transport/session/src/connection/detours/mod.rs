//! Relays beside direct paths: they carry data only while they add to what the direct paths have.
//!
//! Whoever sends decides: it measures from time to time what arrives with and without the paths
//! through relays ([`Worth`]). Those that add nothing are on standby: they carry data only while no
//! other path works. It owns what was measured, and returns which paths change; what is on standby
//! the paths know themselves.

mod rates;
#[cfg(test)]
mod tests;
mod worth;

use std::time::Duration;

use manyway_units::Time;
use manyway_wire::PathId;

use crate::config::Config;
use crate::stats::PathState;

use super::paths::{Path, PathSet, PathTransport};
use super::relayed::View;
use rates::Seen;
use worth::{Windows, Worth};

/// How often the paths are looked at, at most.
const EVERY: Duration = Duration::from_millis(20);

/// What becomes of a path.
#[derive(Copy, Clone, Debug, PartialEq)]
pub(super) enum Change {
    /// It is on standby, or not any more.
    Standby(usize, bool),
    /// Its window is so many packets, or the smallest that it may be.
    Window(usize, f64),
}

/// Which relays help.
#[derive(Debug)]
pub(super) struct Detours {
    /// `None` if relays are somebody else's choice, or all paths carry all data.
    worth: Option<Worth>,
    /// When the paths are looked at next.
    next: Time,
    /// The newest path through a relay.
    newest: Option<PathId>,
    /// Bytes that have arrived through relays by paths that are closed.
    closed: u64,
    /// What of the direct paths' windows was on the way, and in no queue, before the relays came
    /// into use last, in packets.
    windows: Vec<(PathId, f64)>,
    /// The windows that relayed paths had before they went on standby, in packets. Laws that couple
    /// paths shouldn't count what isn't used.
    put_aside: Vec<(PathId, f64)>,
}

impl Detours {
    pub(super) fn new(now: Time, config: &Config) -> Self {
        let measured = config.watch.is_some();
        let chosen = config.selection.is_some() || config.scheduler.duplicates();
        Self {
            worth: (config.detours && !measured && !chosen).then(|| Worth::new(now)),
            next: now,
            newest: None,
            closed: 0,
            windows: Vec::new(),
            put_aside: Vec::new(),
        }
    }

    /// A path works, or doesn't any more.
    pub(super) fn wake(&mut self, now: Time) {
        self.next = now;
    }

    /// A path comes to its end: what it carried is kept.
    pub(super) fn on_closing(&mut self, path: &Path) {
        if is_relayed(path) {
            self.closed += path.sender().stats().bytes_acked;
        }
    }

    /// Looks at the paths if it is time: what becomes of them.
    pub(super) fn look(&mut self, now: Time, view: &View<'_>) -> Vec<Change> {
        let Some(worth) = self.worth.as_mut().filter(|_| now >= self.next) else {
            return Vec::new();
        };
        self.next = now + EVERY;
        let relays = || view.paths.iter().filter(|(_, path)| is_relayed(path));
        let newest = relays().map(|(_, path)| path.id()).max();
        if newest > self.newest {
            self.newest = newest;
            worth.on_new_relay(now);
        }
        let windows = worth.look(&seen(now, view, self.closed));
        let standby = !worth.uses_relays();
        let differ = relays().filter(|(_, path)| path.is_on_standby() != standby);
        let differ: Vec<(usize, PathId)> = differ.map(|(index, path)| (index, path.id())).collect();
        let mut changes = Vec::new();
        for (index, id) in differ {
            let window = match standby {
                true => self.put_aside(id, view.paths.window(index)),
                false => self.take_back(id),
            };
            changes.push(Change::Standby(index, standby));
            changes.extend(window.map(|window| Change::Window(index, window)));
        }
        let open = |(id, _): &(PathId, f64)| view.paths.index_of(*id).is_some();
        self.put_aside.retain(open);
        match windows {
            Some(Windows::Note) => self.note(view.paths),
            Some(Windows::Restore(steps)) => changes.extend(self.restored(view.paths, steps)),
            None => {}
        }
        changes
    }

    /// The smallest window, until the path is in use again.
    fn put_aside(&mut self, id: PathId, window: f64) -> Option<f64> {
        self.put_aside.push((id, window));
        Some(0.0)
    }

    fn take_back(&mut self, id: PathId) -> Option<f64> {
        let at = self.put_aside.iter().position(|(path, _)| *path == id)?;
        Some(self.put_aside.swap_remove(at).1)
    }

    fn note(&mut self, paths: &PathSet) {
        let direct = |path: &Path| path.transport() == PathTransport::Coupled && !is_relayed(path);
        let direct = paths.iter().filter(|(_, path)| direct(path));
        let windows = direct.map(|(index, path)| {
            let rtt = path.sender().rtt();
            let moving = rtt.min().as_secs_f64() / rtt.smoothed().as_secs_f64().max(1e-9);
            (path.id(), paths.window(index) * moving.min(1.0))
        });
        self.windows = windows.collect();
    }

    /// The trial is undone: the direct paths get back what the relays took away from them, a part
    /// of it at each of so many steps.
    fn restored(&self, paths: &PathSet, steps: u32) -> Vec<Change> {
        let raised = |&(id, noted): &(PathId, f64)| {
            let index = paths.index_of(id)?;
            let window = paths.window(index);
            let raised = window + (noted - window) / f64::from(steps.max(1));
            (noted > window).then_some(Change::Window(index, raised))
        };
        self.windows.iter().filter_map(raised).collect()
    }
}

/// Whether a path leads through a relay by datagrams. Carriers through relays are dialled for want
/// of those.
fn is_relayed(path: &Path) -> bool {
    path.transport() == PathTransport::Coupled && path.relay().is_some()
}

fn seen(now: Time, view: &View<'_>, closed: u64) -> Seen {
    let mut seen = Seen {
        now,
        unsatisfied: view.unsatisfied,
        delivered: view.acked,
        relayed: closed,
        direct: None,
        relays: None,
        direct_rtt: Duration::ZERO,
        rtt: Duration::ZERO,
    };
    for (index, path) in view.paths.iter() {
        let relayed = is_relayed(path);
        if relayed {
            seen.relayed += path.sender().stats().bytes_acked;
        }
        if path.state() != PathState::Active {
            continue;
        }
        let settled = !view.paths.in_slow_start(index);
        let rtt = path.sender().rtt().smoothed();
        let kind = match relayed {
            true => &mut seen.relays,
            false => {
                seen.direct_rtt = seen.direct_rtt.max(rtt);
                &mut seen.direct
            }
        };
        *kind = Some(kind.is_none_or(|others| others) && settled);
        seen.rtt = seen.rtt.max(rtt);
    }
    seen
}

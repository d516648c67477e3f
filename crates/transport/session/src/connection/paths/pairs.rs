use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use manyway_units::{Backoff, Time};
use manyway_wire::{MAX_ADDRESSES, PathId};

use crate::driver::{Local, LocalId, compatible};

/// A pair that didn't answer is tried again after this long, then after twice as long, up to a
/// minute.
const RETRY: Backoff = Backoff::new(Duration::from_secs(5), LAST_RETRY);
const LAST_RETRY: Duration = Duration::from_secs(60);
/// Addresses of the peer's that are remembered: a ticket's, and as many that it told later.
const MOST_REMOTES: usize = 2 * MAX_ADDRESSES;

/// The initiator's list of address pairs: every local socket with every address the peer
/// advertised.
#[derive(Debug, Default)]
pub(crate) struct Pairs {
    locals: Vec<Local>,
    remotes: Vec<SocketAddr>,
    attempts: BTreeMap<(LocalId, SocketAddr), Attempt>,
}

#[derive(Debug, Default)]
struct Attempt {
    path: Option<PathId>,
    failures: u32,
    retry_at: Time,
}

impl Pairs {
    pub(crate) fn new(locals: Vec<Local>, remotes: Vec<SocketAddr>) -> Self {
        let mut pairs = Self {
            locals,
            remotes,
            attempts: BTreeMap::new(),
        };
        pairs.complete();
        pairs
    }

    pub(crate) fn locals(&self) -> &[Local] {
        &self.locals
    }

    pub(crate) fn add_local(&mut self, local: Local) {
        self.locals.retain(|l| l.id != local.id);
        self.locals.push(local);
        self.complete();
    }

    pub(crate) fn remove_local(&mut self, id: LocalId) {
        self.locals.retain(|l| l.id != id);
        self.attempts.retain(|(local, _), _| *local != id);
    }

    /// Of more than can be remembered the oldest are forgotten, but for those with a path.
    pub(crate) fn add_remotes(&mut self, remotes: &[SocketAddr]) {
        for remote in remotes {
            if !self.remotes.contains(remote)
                && (self.remotes.len() < MOST_REMOTES || self.forget_one())
            {
                self.remotes.push(*remote);
            }
        }
        self.complete();
    }

    fn forget_one(&mut self) -> bool {
        let in_use = |remote: &SocketAddr| {
            let mut attempts = self.attempts.iter();
            attempts.any(|((_, other), attempt)| other == remote && attempt.path.is_some())
        };
        let Some(oldest) = self.remotes.iter().position(|remote| !in_use(remote)) else {
            return false;
        };
        let forgotten = self.remotes.remove(oldest);
        self.attempts.retain(|(_, remote), _| *remote != forgotten);
        true
    }

    /// The path that uses this pair, from now on until [`Pairs::on_closed`].
    pub(crate) fn on_opened(&mut self, local: LocalId, remote: SocketAddr, path: PathId) {
        self.attempts.entry((local, remote)).or_default().path = Some(path);
    }

    /// The path leads to another address of the peer's. The one it had is tried again, but not
    /// soon.
    pub(crate) fn on_moved(
        &mut self,
        now: Time,
        local: LocalId,
        from: SocketAddr,
        to: SocketAddr,
        path: PathId,
    ) {
        self.attempts.remove(&(local, from));
        // Only what we were told is tried again: the list doesn't grow with the peer's moves.
        if self.remotes.contains(&from) {
            let later = Attempt {
                retry_at: now + LAST_RETRY,
                ..Attempt::default()
            };
            self.attempts.insert((local, from), later);
        }
        self.on_opened(local, to, path);
    }

    pub(crate) fn on_validated(&mut self, local: LocalId, remote: SocketAddr) {
        if let Some(attempt) = self.attempts.get_mut(&(local, remote)) {
            attempt.failures = 0;
        }
    }

    /// The pair's path is over; it may be tried again after a pause.
    pub(crate) fn on_closed(&mut self, now: Time, local: LocalId, remote: SocketAddr) {
        if let Some(attempt) = self.attempts.get_mut(&(local, remote)) {
            attempt.path = None;
            attempt.retry_at = now + RETRY.delay(attempt.failures);
            attempt.failures += 1;
        }
    }

    /// A pair to open a path on now.
    pub(crate) fn next(&self, now: Time) -> Option<(Local, SocketAddr)> {
        let ((local, remote), _) = self
            .attempts
            .iter()
            .find(|(_, a)| a.path.is_none() && a.retry_at <= now)?;
        let local = self.locals.iter().find(|l| l.id == *local)?;
        Some((local.clone(), *remote))
    }

    /// When a pair may be tried again.
    pub(crate) fn timer(&self, now: Time) -> Option<Time> {
        self.attempts
            .values()
            .filter(|a| a.path.is_none() && a.retry_at > now)
            .map(|a| a.retry_at)
            .min()
    }

    fn complete(&mut self) {
        for local in &self.locals {
            for remote in &self.remotes {
                if compatible(local.addr.ip(), remote.ip()) {
                    self.attempts.entry((local.id, *remote)).or_default();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn local(id: u32, addr: &str) -> Local {
        Local {
            id: LocalId(id),
            name: format!("if{id}"),
            addr: addr.parse().expect("an address"),
            mtu: None,
        }
    }

    fn remote(addr: &str) -> SocketAddr {
        addr.parse().expect("an address")
    }

    #[test]
    fn all_compatible_pairs_are_tried_once() {
        let mut pairs = Pairs::new(
            vec![
                local(0, "192.0.2.1:1"),
                local(1, "[2001:db8::1]:1"),
                local(2, "127.0.0.1:1"),
            ],
            vec![remote("198.51.100.1:9"), remote("[2001:db8::9]:9")],
        );
        let mut opened = Vec::new();
        while let Some((local, remote)) = pairs.next(Time::ZERO) {
            pairs.on_opened(local.id, remote, PathId(opened.len() as u32));
            opened.push((local.id, remote));
        }
        assert_eq!(
            opened,
            [
                (LocalId(0), remote("198.51.100.1:9")),
                (LocalId(1), remote("[2001:db8::9]:9"))
            ]
        );
    }

    /// A peer that tells other addresses for ever costs no more memory, and no path that there is.
    #[test]
    fn a_peers_addresses_are_bounded() {
        let mut pairs = Pairs::new(
            vec![local(0, "192.0.2.1:1")],
            vec![remote("198.51.100.1:9")],
        );
        pairs.on_opened(LocalId(0), remote("198.51.100.1:9"), PathId(0));
        for port in 1..=1000 {
            pairs.add_remotes(&[SocketAddr::from(([203, 0, 113, 1], port))]);
            assert!(pairs.remotes.len() <= MOST_REMOTES && pairs.attempts.len() <= MOST_REMOTES);
        }
        let known = |addr| pairs.attempts.contains_key(&(LocalId(0), remote(addr)));
        assert!(known("198.51.100.1:9") && known("203.0.113.1:1000") && !known("203.0.113.1:1"));
    }

    /// Nor does one that tells more while all have a path.
    #[test]
    fn addresses_with_paths_are_kept() {
        let mut pairs = Pairs::new(vec![local(0, "192.0.2.1:1")], Vec::new());
        for port in 1..=100 {
            let told = SocketAddr::from(([203, 0, 113, 1], port));
            pairs.add_remotes(&[told]);
            if let Some((local, remote)) = pairs.next(Time::ZERO) {
                pairs.on_opened(local.id, remote, PathId(port.into()));
            }
        }
        assert_eq!(
            (pairs.remotes.len(), pairs.attempts.len()),
            (MOST_REMOTES, MOST_REMOTES)
        );
        assert_eq!(pairs.remotes[0], remote("203.0.113.1:1"));
    }

    #[test]
    fn a_failed_pair_is_tried_again_ever_more_rarely() {
        let mut pairs = Pairs::new(
            vec![local(0, "192.0.2.1:1")],
            vec![remote("198.51.100.1:9")],
        );
        let mut now = Time::ZERO;
        let mut pauses = Vec::new();
        for n in 0..6 {
            let (local, remote) = pairs.next(now).expect("due");
            pairs.on_opened(local.id, remote, PathId(n));
            assert!(pairs.next(now).is_none() && pairs.timer(now).is_none());
            pairs.on_closed(now, local.id, remote);
            let at = pairs.timer(now).expect("a retry");
            pauses.push(at.since(now).as_secs());
            now = at;
        }
        assert_eq!(pauses, [5, 10, 20, 40, 60, 60]);
    }
}

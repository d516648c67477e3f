use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use manyway_units::{Backoff, Bucket, Time};
use manyway_wire::{MAX_ADDRESSES, PathId};

use super::named::{Named, NamedInAll};
use crate::budget::{
    NAMED_ATTEMPT, NAMED_DIAL, NAMED_DIALS_AT_ONCE, NAMED_DIALS_PER_SECOND, NAMED_TRIES,
};
use crate::driver::{Local, LocalId, compatible, may_be_named};

/// A pair that didn't answer is tried again after this long, then after twice as long, up to a
/// minute.
const RETRY: Backoff = Backoff::new(Duration::from_secs(5), LAST_RETRY);
const LAST_RETRY: Duration = Duration::from_secs(60);
/// Addresses of the peer's that are remembered: a ticket's, and as many that it told later.
const MOST_REMOTES: usize = 2 * MAX_ADDRESSES;

/// The initiator's list of address pairs: every local socket with every address the peer
/// advertised.
#[derive(Debug)]
pub(crate) struct Pairs {
    locals: Vec<Local>,
    remotes: Vec<SocketAddr>,
    /// Those of the ticket: who took it wants to reach them.
    ticket: BTreeSet<SocketAddr>,
    /// Where a path has last found the peer, of which nobody told.
    found: Option<SocketAddr>,
    attempts: BTreeMap<(LocalId, SocketAddr), Attempt>,
    /// What goes to the others before they answer.
    named: Named,
    /// How often each of those was dialled by TCP from each of our addresses.
    dials: BTreeMap<(IpAddr, SocketAddr), u32>,
    /// Each such dial takes a token.
    dial_pace: Bucket,
}

/// A pair to open a path on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Next {
    pub(crate) local: Local,
    pub(crate) remote: SocketAddr,
    /// The most that may go there before it answers, in bytes, if the peer has named it.
    pub(crate) quota: Option<u64>,
}

#[derive(Debug, Default)]
struct Attempt {
    path: Option<PathId>,
    failures: u32,
    retry_at: Time,
    /// It was charged for, and hasn't answered.
    charged: bool,
}

impl Pairs {
    pub(crate) fn new(
        locals: Vec<Local>,
        remotes: Vec<SocketAddr>,
        named_in_all: NamedInAll,
    ) -> Self {
        let mut pairs = Self {
            locals,
            ticket: remotes.iter().copied().collect(),
            remotes,
            found: None,
            attempts: BTreeMap::new(),
            named: Named::new(named_in_all),
            dials: BTreeMap::new(),
            dial_pace: Bucket::new(NAMED_DIALS_PER_SECOND, NAMED_DIALS_AT_ONCE, Time::ZERO),
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
        let locals = &self.locals;
        let ours = |ip: &IpAddr| locals.iter().any(|local| local.addr.ip() == *ip);
        self.dials.retain(|(local, _), _| ours(local));
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
        self.ticket.remove(&forgotten);
        self.attempts.retain(|(_, remote), _| *remote != forgotten);
        self.dials.retain(|(_, remote), _| *remote != forgotten);
        true
    }

    /// The path that uses this pair, from now on until [`Pairs::on_closed`].
    pub(crate) fn on_opened(&mut self, local: LocalId, remote: SocketAddr, path: PathId) {
        self.attempts.entry((local, remote)).or_default().path = Some(path);
    }

    /// The path leads to another address of the peer's, which is tried from the other sockets, too.
    /// The one it had is tried again, but not soon.
    pub(crate) fn on_moved(
        &mut self,
        now: Time,
        local: LocalId,
        from: SocketAddr,
        to: SocketAddr,
        path: PathId,
    ) {
        self.attempts.remove(&(local, from));
        // Only what we were told is tried again.
        if self.remotes.contains(&from) {
            let later = Attempt {
                retry_at: now + LAST_RETRY,
                ..Attempt::default()
            };
            self.attempts.insert((local, from), later);
        }
        self.on_opened(local, to, path);
        if self.found != Some(to) && !self.remotes.contains(&to) {
            // One of them at a time: the list doesn't grow with the peer's moves.
            let last = self.found.replace(to);
            self.attempts
                .retain(|(_, remote), attempt| Some(*remote) != last || attempt.path.is_some());
            self.complete();
        }
    }

    pub(crate) fn on_validated(&mut self, local: LocalId, remote: SocketAddr) {
        self.dials.retain(|(_, dialled), _| *dialled != remote);
        if let Some(attempt) = self.attempts.get_mut(&(local, remote)) {
            attempt.failures = 0;
            if std::mem::take(&mut attempt.charged) {
                self.named.refund(NAMED_ATTEMPT);
            }
        }
    }

    /// A datagram of the peer's has opened.
    pub(crate) fn on_received(&mut self, bytes: usize) {
        self.named.on_received(bytes);
    }

    /// Whether an address may be dialled by TCP now. If the peer has named it, that is charged for
    /// and counted: whether a connection comes about says nothing of who is there.
    pub(crate) fn may_dial(&mut self, now: Time, local: IpAddr, remote: SocketAddr) -> bool {
        if self.ticket.contains(&remote) {
            return true;
        }
        if !self.remotes.contains(&remote) || !may_be_named(local, remote) {
            return false;
        }
        let dials = self.dials.get(&(local, remote)).map_or(0, |dials| *dials);
        if dials >= NAMED_TRIES
            || self.dial_pace.permit(now, 1.0).is_err()
            || self.named.charge(now, NAMED_DIAL).is_err()
        {
            return false;
        }
        self.dial_pace.spend(now, 1.0);
        self.dials.insert((local, remote), dials + 1);
        true
    }

    /// The pair's path is over; it may be tried again after a pause.
    pub(crate) fn on_closed(&mut self, now: Time, local: LocalId, remote: SocketAddr) {
        if let Some(attempt) = self.attempts.get_mut(&(local, remote)) {
            attempt.path = None;
            attempt.charged = false;
            attempt.retry_at = now + RETRY.delay(attempt.failures);
            attempt.failures += 1;
        }
    }

    /// A pair to open a path on now. An address that the peer has named is charged for.
    pub(crate) fn next(&mut self, now: Time) -> Option<Next> {
        for (&(local, remote), attempt) in &mut self.attempts {
            if attempt.path.is_some() || attempt.retry_at > now {
                continue;
            }
            let Some(local) = self.locals.iter().find(|l| l.id == local) else {
                continue;
            };
            let local = local.clone();
            if self.ticket.contains(&remote) {
                return Some(Next {
                    local,
                    remote,
                    quota: None,
                });
            }
            if attempt.failures >= NAMED_TRIES {
                attempt.retry_at = Time::MAX;
                continue;
            }
            if let Err(later) = self.named.charge(now, NAMED_ATTEMPT) {
                attempt.retry_at = later;
                continue;
            }
            attempt.charged = true;
            let quota = Some(NAMED_ATTEMPT);
            return Some(Next {
                local,
                remote,
                quota,
            });
        }
        None
    }

    /// When a pair may be tried again.
    pub(crate) fn timer(&self, now: Time) -> Option<Time> {
        self.attempts
            .values()
            .filter(|a| a.path.is_none() && a.retry_at > now && a.retry_at < Time::MAX)
            .map(|a| a.retry_at)
            .min()
    }

    fn complete(&mut self) {
        for local in &self.locals {
            for remote in self.remotes.iter().chain(&self.found) {
                let local_ip = local.addr.ip();
                let named = !self.ticket.contains(remote);
                if compatible(local_ip, remote.ip()) && (!named || may_be_named(local_ip, *remote))
                {
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

    fn pairs(locals: Vec<Local>, remotes: Vec<SocketAddr>) -> Pairs {
        Pairs::new(locals, remotes, NamedInAll::default())
    }

    #[test]
    fn all_compatible_pairs_are_tried_once() {
        let mut pairs = pairs(
            vec![
                local(0, "192.0.2.1:1"),
                local(1, "[2001:db8::1]:1"),
                local(2, "127.0.0.1:1"),
            ],
            vec![remote("198.51.100.1:9"), remote("[2001:db8::9]:9")],
        );
        let mut opened = Vec::new();
        while let Some(Next { local, remote, .. }) = pairs.next(Time::ZERO) {
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
        let mut pairs = pairs(
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
        let mut pairs = pairs(vec![local(0, "192.0.2.1:1")], Vec::new());
        for port in 1..=100 {
            let told = SocketAddr::from(([203, 0, 113, 1], port));
            pairs.add_remotes(&[told]);
            if let Some(Next { local, remote, .. }) = pairs.next(Time::ZERO) {
                pairs.on_opened(local.id, remote, PathId(port.into()));
            }
        }
        assert_eq!(
            (pairs.remotes.len(), pairs.attempts.len()),
            (MOST_REMOTES, MOST_REMOTES)
        );
        assert_eq!(pairs.remotes[0], remote("203.0.113.1:1"));
    }

    /// An address that the peer has named after the ticket was written is tried eight times; what
    /// it costs is charged each time, and refunded if it answers.
    #[test]
    fn a_named_address_is_tried_eight_times() {
        let mut pairs = pairs(vec![local(0, "192.0.2.1:1")], Vec::new());
        let named = [remote("203.0.113.1:9"), remote("10.0.0.1:9")];
        pairs.add_remotes(&named);
        pairs.on_received(1 << 20);
        let (mut now, mut tries) = (Time::ZERO, 0);
        loop {
            while let Some(next) = pairs.next(now) {
                assert_eq!((next.remote, next.quota), (named[0], Some(NAMED_ATTEMPT)));
                tries += 1;
                pairs.on_opened(next.local.id, next.remote, PathId(tries));
                pairs.on_closed(now, next.local.id, next.remote);
            }
            let Some(at) = pairs.timer(now) else { break };
            now = at;
        }
        assert_eq!(tries, 8);
    }

    /// And dialled as often by TCP, at a pace, until a path there has worked.
    #[test]
    fn dials_of_named_addresses_are_few() {
        let ours = local(0, "192.0.2.1:1");
        let ip = ours.addr.ip();
        let mut pairs = pairs(vec![ours], vec![remote("198.51.100.1:9")]);
        let named: Vec<_> = (1..=30)
            .map(|port| SocketAddr::from(([203, 0, 113, 1], port)))
            .collect();
        pairs.add_remotes(&named);
        pairs.add_remotes(&[remote("10.0.0.1:9")]);
        pairs.on_received(1 << 20);
        let mut dialled = BTreeMap::new();
        let mut dial = |pairs: &mut Pairs, seconds: u64| {
            let now = Time::from_millis(1000 * seconds);
            let wanted = named.iter().filter(|to| pairs.may_dial(now, ip, **to));
            let wanted: Vec<_> = wanted.collect();
            for to in &wanted {
                *dialled.entry(**to).or_insert(0) += 1;
            }
            wanted.len()
        };
        assert_eq!(dial(&mut pairs, 0), 16);
        assert_eq!(dial(&mut pairs, 0), 0);
        assert_eq!(dial(&mut pairs, 3), 3);
        for seconds in 4..1000 {
            assert!(dial(&mut pairs, seconds) <= 1);
        }
        assert_eq!(dialled.len(), 30);
        assert!(dialled.values().all(|dials| *dials == 8), "{dialled:?}");
        let may = |pairs: &mut Pairs, to: &str| {
            pairs.may_dial(Time::from_millis(2_000_000), ip, remote(to))
        };
        assert!(!may(&mut pairs, "203.0.113.1:30"));
        assert!(!may(&mut pairs, "10.0.0.1:9"), "others' private network");
        assert!(!may(&mut pairs, "203.0.113.2:1"), "nobody named it");
        assert!(may(&mut pairs, "198.51.100.1:9"), "in the ticket");
        pairs.on_validated(LocalId(7), named[29]);
        assert!(may(&mut pairs, "203.0.113.1:30"));
        assert!(pairs.dials.len() <= MOST_REMOTES);
    }

    #[test]
    fn named_addresses_that_answer_leave_the_budget_to_others() {
        let mut pairs = pairs(vec![local(0, "192.0.2.1:1")], Vec::new());
        for port in 1..=40 {
            pairs.add_remotes(&[SocketAddr::from(([203, 0, 113, 1], port))]);
            let next = pairs.next(Time::ZERO).expect("others have answered");
            pairs.on_opened(next.local.id, next.remote, PathId(port.into()));
            pairs.on_validated(next.local.id, next.remote);
        }
        // Without an answer, five attempts take all there is.
        let more: Vec<_> = (41..=50)
            .map(|port| SocketAddr::from(([203, 0, 113, 1], port)))
            .collect();
        pairs.add_remotes(&more);
        let mut opened = 0;
        while let Some(next) = pairs.next(Time::ZERO) {
            opened += 1;
            pairs.on_opened(next.local.id, next.remote, PathId(40 + opened));
        }
        assert_eq!(opened, 5);
    }

    /// Where one path has followed the peer, paths from other sockets may, too.
    #[test]
    fn a_peer_that_has_moved_is_tried_from_every_socket() {
        let home = remote("198.51.100.1:9");
        let locals = vec![local(0, "192.0.2.1:1"), local(1, "192.0.2.2:1")];
        let mut pairs = pairs(locals, vec![home]);
        pairs.on_opened(LocalId(0), home, PathId(0));
        pairs.on_opened(LocalId(1), home, PathId(1));
        assert!(pairs.next(Time::ZERO).is_none());
        let mut last = home;
        for port in 1..=1000 {
            let to = SocketAddr::from(([203, 0, 113, 1], port));
            pairs.on_moved(Time::ZERO, LocalId(0), last, to, PathId(0));
            // Each costs as much as an address that the peer names.
            let next = pairs.next(Time::ZERO);
            assert!(next.is_some() || port > 1);
            if let Some(next) = next {
                assert_eq!((next.local.id, next.remote), (LocalId(1), to));
            }
            assert!(pairs.attempts.len() <= 4, "{:?}", pairs.attempts);
            last = to;
        }
    }

    #[test]
    fn a_failed_pair_is_tried_again_ever_more_rarely() {
        let mut pairs = pairs(
            vec![local(0, "192.0.2.1:1")],
            vec![remote("198.51.100.1:9")],
        );
        let mut now = Time::ZERO;
        let mut pauses = Vec::new();
        for n in 0..6 {
            let Next { local, remote, .. } = pairs.next(now).expect("due");
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

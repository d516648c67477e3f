//! What each connection costs the endpoint, and which one goes when that is too much.
//!
//! It owns an account for each connection and the sums over all of them. It closes nothing: it says
//! whom to close.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use manyway_units::Time;

use crate::budget::{CONNECTION_MEMORY, GRACE, IDLE, PATH_MEMORY, Usage};
use crate::config::Config;
use crate::driver::ConnectionHandle;

/// The accounts of all connections.
#[derive(Debug)]
pub(super) struct Accounts {
    max_connections: usize,
    max_per_host: usize,
    max_memory: usize,
    accounts: BTreeMap<ConnectionHandle, Account>,
    /// Connections that peers opened and that aren't over: in all, and of each host.
    accepted: usize,
    per_host: BTreeMap<IpAddr, usize>,
    /// Bytes, over all connections.
    memory: usize,
}

#[derive(Debug)]
struct Account {
    /// The peer's host, if the peer opened the connection.
    host: Option<IpAddr>,
    usage: Usage,
    /// When the connection began, or moved something last.
    since: Time,
    /// What it has let go of, if it is over.
    gone: Gone,
}

/// What speaks for keeping a connection, least first.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    /// Nothing was ever transferred.
    Unproven,
    /// Nothing was lately.
    Idle,
    Busy,
}

/// What a connection that is over has let go of.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Gone {
    Nothing,
    /// All but what the application may still read.
    Unreadable,
    All,
}

/// Whether a peer may have one more connection.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    Granted,
    /// If this one makes room.
    InPlaceOf(ConnectionHandle),
    Refused,
}

impl Account {
    fn new(now: Time, host: Option<IpAddr>) -> Self {
        Self {
            host,
            usage: Usage::default(),
            since: now,
            gone: Gone::Nothing,
        }
    }

    /// Whether a peer opened it, and it isn't over.
    fn is_open(&self) -> bool {
        self.host.is_some() && !self.usage.closed
    }

    /// Whether it is over and holds more than it takes to say so.
    fn is_surplus(&self) -> bool {
        self.usage.closed && self.usage.memory > CONNECTION_MEMORY + PATH_MEMORY
    }

    fn standing(&self, now: Time) -> Standing {
        if self.usage.moved == 0 {
            Standing::Unproven
        } else if self.rests(now, IDLE) {
            Standing::Idle
        } else {
            Standing::Busy
        }
    }

    fn rests(&self, now: Time, time: Duration) -> bool {
        now.since(self.since) >= time
    }
}

impl Accounts {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            max_connections: config.max_connections,
            max_per_host: config.max_connections_per_host,
            // Measured were 1.4 bytes of resident memory for each that is charged.
            max_memory: usize::try_from(config.memory / 3 * 2).unwrap_or(usize::MAX),
            accounts: BTreeMap::new(),
            accepted: 0,
            per_host: BTreeMap::new(),
            memory: 0,
        }
    }

    /// Whether a host may open one more connection: as long as there are few enough, or one that
    /// has transferred nothing for [`GRACE`], or nothing for [`IDLE`] since and has no stream open,
    /// can make room.
    pub(super) fn admit(&self, now: Time, host: IpAddr) -> Admission {
        let of_host = self.per_host.get(&host).copied().unwrap_or(0);
        let only = (of_host >= self.max_per_host).then_some(host);
        if only.is_none() && self.accepted < self.max_connections {
            return Admission::Granted;
        }
        let may_go = |account: &Account| match account.standing(now) {
            Standing::Unproven => account.rests(now, GRACE),
            // Somebody may read at a prompt, or think.
            Standing::Idle => account.usage.streams == 0,
            Standing::Busy => false,
        };
        let candidates = self.accounts.iter().filter(|(_, account)| {
            account.is_open() && (only.is_none() || account.host == only) && may_go(account)
        });
        let first = candidates.min_by_key(|(_, account)| (account.standing(now), account.since));
        first.map_or(Admission::Refused, |(&handle, _)| {
            Admission::InPlaceOf(handle)
        })
    }

    /// A peer at this host has opened a connection.
    pub(super) fn open(&mut self, now: Time, handle: ConnectionHandle, host: IpAddr) {
        self.accounts.insert(handle, Account::new(now, Some(host)));
        self.accepted += 1;
        *self.per_host.entry(host).or_default() += 1;
    }

    /// What a connection costs by now. One that is new here is one that we opened.
    pub(super) fn update(&mut self, now: Time, handle: ConnectionHandle, usage: Usage) {
        let new = Account::new(now, None);
        let account = self.accounts.entry(handle).or_insert(new);
        if usage.moved > account.usage.moved {
            account.since = now;
        }
        self.memory = self.memory - account.usage.memory + usage.memory;
        let ends = usage.closed && !account.usage.closed;
        account.usage = usage;
        if ends {
            let host = account.host;
            self.leave(host);
        }
    }

    /// The connection is forgotten.
    pub(super) fn close(&mut self, handle: ConnectionHandle) {
        if let Some(account) = self.accounts.remove(&handle) {
            self.memory -= account.usage.memory;
            if account.is_open() {
                self.leave(account.host);
            }
        }
    }

    fn leave(&mut self, host: Option<IpAddr>) {
        let Some(host) = host else {
            return;
        };
        self.accepted -= 1;
        if let Some(count) = self.per_host.get_mut(&host) {
            *count -= 1;
            if *count == 0 {
                self.per_host.remove(&host);
            }
        }
    }

    /// How far a connection's receive window may grow, in bytes: half of what may be charged is
    /// shared equally, so that what peers may send fits however slowly it is read.
    pub(super) fn share(&self) -> u64 {
        (self.max_memory / 2 / self.accounts.len().max(1)) as u64
    }

    /// Who is over and has to let go of what nobody can read, if all together take too much memory:
    /// the largest, each once.
    pub(super) fn over(&mut self) -> Option<ConnectionHandle> {
        if self.memory <= self.max_memory {
            return None;
        }
        let over = self.accounts.iter_mut();
        let over = over.filter(|(_, a)| a.gone == Gone::Nothing && a.is_surplus());
        let (&handle, account) = over.max_by_key(|(_, account)| account.usage.memory)?;
        account.gone = Gone::Unreadable;
        Some(handle)
    }

    /// Who has to go, if that isn't enough. Of those that peers opened, those that have transferred
    /// nothing, those that were idle, and the others; among these, those that are over, with what
    /// wasn't read, and then the largest of the host whose connections take the most together.
    pub(super) fn excess(&mut self, now: Time) -> Option<ConnectionHandle> {
        if self.memory <= self.max_memory {
            return None;
        }
        let mut of_host = BTreeMap::new();
        for account in self.accounts.values() {
            *of_host.entry(account.host).or_default() += account.usage.memory;
        }
        let may_go = |account: &Account| {
            let has_left = account.gone != Gone::All && account.is_surplus();
            account.is_open() || account.host.is_some() && has_left
        };
        let rank = |account: &Account| {
            let memory = (of_host[&account.host], account.usage.memory);
            let memory = Reverse::<(usize, usize)>(memory);
            (account.standing(now), account.is_open(), memory)
        };
        let candidates = self.accounts.iter_mut().filter(|(_, a)| may_go(a));
        let (&handle, account) = candidates.min_by_key(|(_, account)| rank(account))?;
        account.gone = Gone::All;
        Some(handle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accounts(max_connections: usize, max_per_host: usize, memory: u64) -> Accounts {
        Accounts::new(&Config {
            max_connections,
            max_connections_per_host: max_per_host,
            memory,
            ..Config::default()
        })
    }

    fn host(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    fn s(s: u64) -> Time {
        Time::from_millis(1000 * s)
    }

    fn usage(memory: usize, moved: u64) -> Usage {
        Usage {
            memory,
            moved,
            streams: 0,
            closed: false,
        }
    }

    const A: ConnectionHandle = ConnectionHandle(1);
    const B: ConnectionHandle = ConnectionHandle(2);
    const C: ConnectionHandle = ConnectionHandle(3);

    #[test]
    fn a_host_has_so_many_connections() {
        let mut accounts = accounts(10, 2, 1 << 30);
        accounts.open(s(0), A, host(1));
        assert_eq!(accounts.admit(s(0), host(1)), Admission::Granted);
        accounts.open(s(0), B, host(1));
        assert_eq!(accounts.admit(s(1), host(1)), Admission::Refused);
        assert_eq!(accounts.admit(s(1), host(2)), Admission::Granted);
        // One that says nothing for long makes room, and what is over doesn't count.
        accounts.update(s(1), A, usage(1, 1));
        assert_eq!(accounts.admit(s(4), host(1)), Admission::InPlaceOf(B));
        let closed = Usage {
            closed: true,
            ..usage(1, 0)
        };
        accounts.update(s(4), B, closed);
        accounts.update(s(4), B, closed);
        assert_eq!(accounts.admit(s(4), host(1)), Admission::Granted);
        accounts.close(B);
        accounts.close(A);
        assert!(accounts.per_host.is_empty() && accounts.accepted == 0 && accounts.memory == 0);
    }

    #[test]
    fn an_endpoint_has_so_many_and_the_unproven_make_room_first() {
        let mut accounts = accounts(3, 2, 1 << 30);
        for (handle, last) in [(A, 1), (B, 2), (C, 3)] {
            accounts.open(s(0), handle, host(last));
        }
        // Our own don't count.
        accounts.update(s(0), ConnectionHandle(9), usage(1, 0));
        accounts.update(s(1), A, usage(1, 100));
        accounts.update(s(20), B, usage(1, 100));
        accounts.update(s(20), C, usage(1, 0));
        assert_eq!(accounts.admit(s(20), host(4)), Admission::InPlaceOf(C));
        accounts.update(s(20), C, usage(1, 1));
        assert_eq!(accounts.admit(s(20), host(4)), Admission::InPlaceOf(A));
        let prompt = Usage {
            streams: 1,
            ..usage(1, 100)
        };
        accounts.update(s(20), A, prompt);
        assert_eq!(accounts.admit(s(20), host(4)), Admission::Refused);
        accounts.update(s(20), A, usage(1, 101));
        assert_eq!(accounts.admit(s(20), host(4)), Admission::Refused);
    }

    #[test]
    fn memory_is_taken_from_the_unproven_then_the_idle_then_the_others() {
        let mut accounts = accounts(9, 9, 1500);
        let own = ConnectionHandle(9);
        accounts.update(s(0), own, usage(400, 0));
        for (handle, memory, moved) in [(A, 300, 1), (B, 100, 0), (C, 200, 0)] {
            accounts.open(s(0), handle, host(1));
            accounts.update(s(0), handle, usage(memory, moved));
        }
        assert_eq!(accounts.excess(s(0)), None, "just what there is");
        accounts.update(s(0), own, usage(401, 0));
        assert_eq!(
            accounts.excess(s(0)),
            Some(C),
            "the largest of the unproven"
        );
        accounts.update(s(0), C, usage(200, 1));
        assert_eq!(accounts.excess(s(0)), Some(B));
        accounts.update(s(100), B, usage(100, 1));
        assert_eq!(accounts.excess(s(100)), Some(A), "the larger of the idle");
        for handle in [A, C] {
            accounts.update(
                s(101),
                handle,
                usage(if handle == A { 300 } else { 200 }, 2),
            );
        }
        assert_eq!(accounts.excess(s(101)), Some(A), "the largest of all");
        accounts.close(A);
        assert_eq!(accounts.excess(s(101)), None);
    }

    #[test]
    fn what_is_over_lets_go_first_and_of_what_can_be_read_last() {
        let large = 4 * CONNECTION_MEMORY;
        let mut accounts = accounts(9, 9, (large * 3) as u64);
        let over = |memory| Usage {
            closed: true,
            ..usage(memory, 1)
        };
        for (handle, last) in [(A, 1), (B, 2), (C, 3)] {
            accounts.open(s(0), handle, host(last));
            accounts.update(s(0), handle, usage(large, 1));
        }
        accounts.update(s(0), B, over(large));
        accounts.update(s(0), C, over(large + 1));
        let named: Vec<_> = std::iter::from_fn(|| accounts.over()).collect();
        assert_eq!(named, [C, B], "each once");
        // The one has nothing to be read, the other has.
        accounts.update(s(0), C, over(CONNECTION_MEMORY + PATH_MEMORY));
        assert_eq!(accounts.excess(s(0)), Some(B), "before one that is open");
        assert_eq!(accounts.excess(s(0)), Some(A), "once");
        assert_eq!(accounts.accepted, 1);
        for handle in [A, B, C] {
            accounts.close(handle);
        }
        assert!(accounts.per_host.is_empty() && accounts.accepted == 0 && accounts.memory == 0);
    }

    #[test]
    fn the_host_with_the_most_loses_before_one_with_the_largest() {
        let mut accounts = accounts(9, 9, 1500);
        for (handle, memory, last) in [(A, 500, 1), (B, 300, 2), (C, 400, 2)] {
            accounts.open(s(0), handle, host(last));
            accounts.update(s(0), handle, usage(memory, 1));
        }
        assert_eq!(accounts.excess(s(0)), Some(C));
        accounts.close(C);
        accounts.update(s(0), B, usage(700, 2));
        assert_eq!(accounts.excess(s(0)), Some(B));
    }

    #[test]
    fn windows_share_a_third_of_the_memory() {
        let mut accounts = accounts(9, 9, 3 << 19);
        assert_eq!(accounts.share(), 1 << 19);
        for handle in [A, B] {
            accounts.open(s(0), handle, host(1));
        }
        assert_eq!(accounts.share(), 1 << 18);
    }
}

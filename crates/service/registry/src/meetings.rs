//! Where peers behind NAT leave their addresses for each other, sealed.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};

use crate::Problem;

/// How long a listener's text stays without renewal.
pub(crate) const LISTENER_LIFE: Duration = Duration::from_secs(60);
/// How long a call waits for its listener.
const CALL_LIFE: Duration = Duration::from_secs(30);
/// The most calls that wait for one listener. The oldest makes room.
const CALLS: usize = 8;

/// The name under which a listener can be found. It derives from the ticket and reveals nothing
/// about it.
pub(crate) type Name = [u8; 16];

struct Meeting {
    /// A hash, so that the memory doesn't contain the secret itself.
    owner: [u8; 32],
    account: [u8; 8],
    sealed: Box<str>,
    expires: Duration,
    calls: VecDeque<(Duration, Box<str>)>,
}

/// All listeners that can be found.
#[derive(Default)]
pub(crate) struct Meetings {
    meetings: HashMap<Name, Meeting>,
    accounts: HashMap<[u8; 8], u32>,
    next_sweep: Duration,
}

/// A listener's renewal.
pub(crate) struct Publication<'a> {
    pub(crate) name: Name,
    pub(crate) owner: [u8; 16],
    pub(crate) account: [u8; 8],
    pub(crate) sealed: &'a str,
}

/// The most listeners.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Bounds {
    pub(crate) all: usize,
    pub(crate) per_account: u32,
}

impl Meetings {
    pub(crate) fn publish(
        &mut self,
        now: Duration,
        new: Publication<'_>,
        bounds: Bounds,
    ) -> Result<(), Problem> {
        self.sweep(now);
        let owner = hash(&new.owner);
        let expires = now + LISTENER_LIFE;
        if let Some(meeting) = self.meetings.get_mut(&new.name) {
            if verify_slices_are_equal(&meeting.owner, &owner).is_err() {
                return Err(Problem::NotOwner);
            }
            meeting.sealed = new.sealed.into();
            meeting.expires = expires;
            return Ok(());
        }
        let count = self.accounts.entry(new.account).or_default();
        if *count >= bounds.per_account || self.meetings.len() >= bounds.all {
            if *count == 0 {
                self.accounts.remove(&new.account);
            }
            return Err(Problem::Full { what: "listeners" });
        }
        *count += 1;
        let meeting = Meeting {
            owner,
            account: new.account,
            sealed: new.sealed.into(),
            expires,
            calls: VecDeque::new(),
        };
        self.meetings.insert(new.name, meeting);
        Ok(())
    }

    /// The callers since the last time. [`Meetings::publish`] has checked the owner.
    pub(crate) fn callers(&mut self, now: Duration, name: &Name) -> Vec<String> {
        let Some(meeting) = self.meetings.get_mut(name) else {
            return Vec::new();
        };
        let calls = std::mem::take(&mut meeting.calls);
        calls
            .into_iter()
            .filter(|(since, _)| *since + CALL_LIFE > now)
            .map(|(_, sealed)| sealed.into())
            .collect()
    }

    /// Stores a call and returns what the listener has left.
    pub(crate) fn call(
        &mut self,
        now: Duration,
        name: &Name,
        sealed: &str,
    ) -> Result<String, Problem> {
        self.sweep(now);
        let meeting = self
            .meetings
            .get_mut(name)
            .filter(|meeting| meeting.expires > now)
            .ok_or(Problem::NobodyListens)?;
        if meeting.calls.len() >= CALLS {
            meeting.calls.pop_front();
        }
        meeting.calls.push_back((now, sealed.into()));
        Ok(meeting.sealed.to_string())
    }

    pub(crate) fn len(&self) -> usize {
        self.meetings.len()
    }

    /// Cleans up now and then, so that the cost is spread over the requests.
    fn sweep(&mut self, now: Duration) {
        if now < self.next_sweep {
            return;
        }
        self.next_sweep = now + Duration::from_secs(5);
        let accounts = &mut self.accounts;
        self.meetings.retain(|_, meeting| {
            let stays = meeting.expires > now;
            if !stays && let Some(count) = accounts.get_mut(&meeting.account) {
                *count -= 1;
                if *count == 0 {
                    accounts.remove(&meeting.account);
                }
            }
            stays
        });
    }
}

fn hash(owner: &[u8; 16]) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest(&SHA256, owner).as_ref());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds {
        all: 10,
        per_account: 3,
    };

    fn publication(name: u8, owner: u8, account: u8) -> Publication<'static> {
        Publication {
            name: [name; 16],
            owner: [owner; 16],
            account: [account; 8],
            sealed: "here",
        }
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn peers_learn_of_each_other_once() {
        let mut meetings = Meetings::default();
        assert_eq!(
            meetings.call(at(0), &[1; 16], "me"),
            Err(Problem::NobodyListens)
        );
        meetings
            .publish(at(0), publication(1, 1, 1), BOUNDS)
            .unwrap();
        assert_eq!(meetings.call(at(1), &[1; 16], "me").unwrap(), "here");
        assert_eq!(meetings.callers(at(2), &[1; 16]), ["me"]);
        assert!(meetings.callers(at(2), &[1; 16]).is_empty());
    }

    #[test]
    fn calls_and_what_listeners_leave_end_to_the_tick() {
        let tick = Duration::from_nanos(1);
        let mut meetings = Meetings::default();
        for (asked, heard) in [(at(30) - tick, 1), (at(30), 0)] {
            meetings
                .publish(at(0), publication(1, 1, 1), BOUNDS)
                .unwrap();
            meetings.call(at(0), &[1; 16], "me").unwrap();
            assert_eq!(meetings.callers(asked, &[1; 16]).len(), heard, "{asked:?}");
        }
        let over = Err(Problem::NobodyListens);
        let here = Ok("here".to_owned());
        assert_eq!(meetings.call(at(60) - tick, &[1; 16], "me"), here);
        assert_eq!(meetings.call(at(60), &[1; 16], "me"), over);
        // From the renewal on; swept or not.
        meetings
            .publish(at(60), publication(1, 1, 1), BOUNDS)
            .unwrap();
        meetings
            .publish(at(100), publication(1, 1, 1), BOUNDS)
            .unwrap();
        meetings.sweep(at(160) - tick);
        assert_eq!(meetings.call(at(160) - tick, &[1; 16], "me"), here);
        assert_eq!(meetings.call(at(160), &[1; 16], "me"), over);
        // Its owner has the name for as long, and the account its place.
        let mut meetings = Meetings::default();
        meetings
            .publish(at(0), publication(1, 1, 1), BOUNDS)
            .unwrap();
        let other = meetings.publish(at(60) - tick, publication(1, 2, 2), BOUNDS);
        assert_eq!(other, Err(Problem::NotOwner));
        let mut meetings = Meetings::default();
        meetings
            .publish(at(0), publication(1, 1, 1), BOUNDS)
            .unwrap();
        meetings
            .publish(at(60), publication(1, 2, 2), BOUNDS)
            .unwrap();
    }

    #[test]
    fn only_its_owner_replaces_what_a_listener_has_left() {
        let mut meetings = Meetings::default();
        meetings
            .publish(at(0), publication(1, 1, 1), BOUNDS)
            .unwrap();
        let stranger = meetings.publish(at(1), publication(1, 2, 1), BOUNDS);
        assert_eq!(stranger, Err(Problem::NotOwner));
        meetings
            .publish(at(1), publication(1, 1, 1), BOUNDS)
            .unwrap();
        meetings
            .publish(at(70), publication(1, 2, 1), BOUNDS)
            .unwrap();
    }

    #[test]
    fn floods_are_bounded_by_account_and_altogether_and_pass() {
        let mut meetings = Meetings::default();
        for n in 0..200 {
            let room = n % 50 < 3 && meetings.len() < 10;
            let published = meetings.publish(at(0), publication(n, 1, n / 50), BOUNDS);
            assert_eq!(published.is_ok(), room);
        }
        assert_eq!(meetings.len(), 10);
        for call in 0..100 {
            meetings.call(at(1), &[0; 16], &call.to_string()).unwrap();
        }
        assert_eq!(meetings.callers(at(1), &[0; 16]).len(), CALLS);
        meetings
            .publish(at(100), publication(250, 1, 0), BOUNDS)
            .unwrap();
        assert_eq!((meetings.len(), meetings.accounts.len()), (1, 1));
    }
}

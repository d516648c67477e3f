//! Relays that say they are leaving. It is a hint that whoever sees a grant can forge, so the relay
//! itself is asked.

use std::time::Duration;

use manyway_units::Time;

use super::{News, RelayClient, RelayRoute, URGENT};

/// A relay that has just shown that it stays isn't believed to be leaving before so long has
/// passed: that it leaves can be forged.
pub(crate) const HEED: Duration = Duration::from_secs(5);

/// Whether a relay goes on.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Stay {
    Yes,
    /// Somebody says that it is leaving.
    Doubted,
    No,
}

impl RelayClient {
    /// A hint that may be forged: the relay is asked. If it is leaving, it doesn't answer.
    pub(super) fn on_leaving(&mut self, now: Time, route: RelayRoute) {
        let Some(state) = self.states.get_mut(&route) else {
            return;
        };
        let heed = state.stayed.is_none_or(|at| at + HEED <= now);
        if state.stay != Stay::Yes || !heed {
            return;
        }
        (state.stay, state.own) = (Stay::Doubted, None);
        if state.next.is_none() {
            let earliest = state.last_sent.map_or(now, |at| at + URGENT);
            (state.sent, state.next) = (0, Some(earliest.max(now)));
        }
        self.news.push(News::Leaving(route));
    }

    /// It has said so itself, or has nothing to say to us.
    pub(super) fn on_left(&mut self, route: RelayRoute) {
        if let Some(state) = self.states.get_mut(&route)
            && state.stay != Stay::No
        {
            state.stay = Stay::No;
            self.news.push(News::Left(route));
        }
    }

    /// It has given us something: those who leave don't.
    pub(super) fn on_stay(&mut self, now: Time, route: RelayRoute) {
        if let Some(state) = self.states.get_mut(&route)
            && state.stay != Stay::Yes
        {
            (state.stay, state.stayed) = (Stay::Yes, Some(now));
            self.news.push(News::Stays(route));
        }
    }
}

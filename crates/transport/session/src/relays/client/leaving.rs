//! Relays that say they are leaving. It is a hint that whoever sees a grant can forge, so the relay
//! itself is asked.

use std::time::Duration;

use manyway_units::Time;

use super::{Lane, News, RelayClient, URGENT};

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
    pub(super) fn on_leaving(&mut self, now: Time, lane: Lane) {
        let Some(way) = self.ways.get_mut(&lane) else {
            return;
        };
        let heed = way.stayed.is_none_or(|at| at + HEED <= now);
        if way.stay != Stay::Yes || !heed {
            return;
        }
        (way.stay, way.own) = (Stay::Doubted, None);
        if way.next.is_none() {
            let earliest = way.last_sent.map_or(now, |at| at + URGENT);
            (way.sent, way.next) = (0, Some(earliest.max(now)));
        }
        self.news.push(News::Leaving(lane));
    }

    /// It has said so itself, or has nothing to say to us.
    pub(super) fn on_left(&mut self, lane: Lane) {
        if let Some(way) = self.ways.get_mut(&lane)
            && way.stay != Stay::No
        {
            way.stay = Stay::No;
            self.news.push(News::Left(lane));
        }
    }

    /// It has given us something: those who leave don't.
    pub(super) fn on_stay(&mut self, now: Time, lane: Lane) {
        if let Some(way) = self.ways.get_mut(&lane)
            && way.stay != Stay::Yes
        {
            (way.stay, way.stayed) = (Stay::Yes, Some(now));
            self.news.push(News::Stays(lane));
        }
    }
}

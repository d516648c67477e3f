//! Rate, delay and up or down of a link at any time, by its timetable.

use std::time::Duration;

use manyway_units::{Rate, Time};

use crate::{Change, LinkConfig};

/// What a link is like at some moment, by its timetable.
#[derive(Debug, Copy, Clone, PartialEq)]
pub struct LinkState {
    /// How fast packets are serialised.
    pub rate: Rate,
    /// Propagation delay, one way.
    pub delay: Duration,
    /// Whether it is up.
    pub up: bool,
}

impl LinkConfig {
    /// What the link could carry for long if it stayed as it is at `now`, and up: its rate, but no
    /// more than its policer lets pass.
    pub fn capacity(&self, now: Time) -> Rate {
        let rate = self.at(now).rate;
        match self.policer {
            Some(policer) if policer.rate < rate => policer.rate,
            _ => rate,
        }
    }

    /// What the link is like at `now`, changes of that moment included.
    pub fn at(&self, now: Time) -> LinkState {
        let mut state = LinkState {
            rate: self.rate,
            delay: self.delay,
            up: true,
        };
        let changes = &self.timetable.changes;
        let elapsed = now.since(Time::ZERO);
        let (rounds, rest) = match self.timetable.period {
            Some(period) if !period.is_zero() => (
                elapsed.as_nanos() / period.as_nanos(),
                Duration::from_nanos((elapsed.as_nanos() % period.as_nanos()) as u64),
            ),
            _ => (0, elapsed),
        };
        // One whole round has said all that earlier ones can have.
        if rounds > 0 {
            changes.iter().for_each(|change| state.apply(change));
        }
        let so_far = changes
            .iter()
            .take_while(|change| change.at.since(Time::ZERO) <= rest);
        so_far.for_each(|change| state.apply(change));
        state
    }
}

impl LinkState {
    fn apply(&mut self, change: &Change) {
        self.rate = change.rate.unwrap_or(self.rate);
        self.delay = change.delay.unwrap_or(self.delay);
        self.up = change.up.unwrap_or(self.up);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Timetable;

    fn change(at: u64, mbps: f64, up: Option<bool>) -> Change {
        Change {
            at: Time::from_millis(1000 * at),
            rate: Some(Rate::from_mbps(mbps)),
            delay: None,
            up,
        }
    }

    #[test]
    fn a_policer_bounds_what_a_link_carries() {
        let mut link = LinkConfig::new(Rate::from_mbps(5.0), Duration::ZERO);
        link.timetable.changes = vec![change(10, 1.0, None)];
        link.policer = Some(crate::Policer {
            rate: Rate::from_mbps(2.0),
            burst: 1500,
        });
        let at = |seconds: u64| link.capacity(Time::from_millis(1000 * seconds));
        assert_eq!((at(0).mbps(), at(10).mbps()), (2.0, 1.0));
    }

    #[test]
    fn a_timetable_is_read_at_any_time() {
        let mut link = LinkConfig::new(Rate::from_mbps(5.0), Duration::from_millis(7));
        link.timetable = Timetable {
            changes: vec![change(10, 1.0, Some(false)), change(20, 2.0, Some(true))],
            period: Some(Duration::from_secs(30)),
        };
        let at = |seconds: u64| {
            let state = link.at(Time::from_millis(1000 * seconds));
            (state.rate.bits_per_sec() / 1e6, state.up)
        };
        assert_eq!(at(0), (5.0, true));
        assert_eq!(at(9), (5.0, true));
        assert_eq!(at(10), (1.0, false));
        assert_eq!(at(25), (2.0, true));
        // The second round begins as the first one ended.
        assert_eq!(at(30), (2.0, true));
        assert_eq!(at(40), (1.0, false));
        assert_eq!(at(3_000_000_055), (2.0, true));
        assert_eq!(link.at(Time::ZERO).delay, Duration::from_millis(7));
    }
}

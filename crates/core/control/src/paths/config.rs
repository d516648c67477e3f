//! Settings of the path manager.

use std::time::Duration;

/// How a [`super::PathManager`] behaves; the defaults are mPath's.
#[derive(Copy, Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ManagerConfig {
    /// `β`: so many new paths per packet of the direct path's window are created at a loss; in (0,
    /// 1].
    pub beta: f64,
    /// The time between two probes.
    pub probe_interval: Duration,
    /// `τ/RTT_0`: a probe is answered in time within this many of the direct path's round-trip
    /// times; at least 1.
    pub probe_patience: f64,
    /// A relay that leaves so many probes in a row without an answer in time is unusable; at least
    /// 1.
    pub strikes: u32,
    /// At most so many proxied paths are open at a time; at least 1.
    pub max_open: usize,
    /// At most so many relays are remembered; more are ignored. At least 1.
    pub max_relays: usize,
    /// Which path is created once every relay has been used.
    pub reuse: Reuse,
    /// A relay whose path was closed for now is left alone for so long, for twice as long after the
    /// second time, and so on up to [`max_rest`](Self::max_rest).
    pub rest: Duration,
    /// The longest rest.
    pub max_rest: Duration,
    /// A path that times out is given up for good if it delivered less than this share of what the
    /// other proxied paths delivered on the average in its lifetime; 0 to 1.
    pub poor_share: f64,
    /// A relay whose paths have been open for less than this altogether is neither given up for
    /// good nor taken for worse than others.
    pub trial: Duration,
    /// When a request for relays has brought nothing new, the next one follows after so long.
    pub ask_again: Duration,
}

/// Which relay gets a new path when all available ones have been used: the best seen (the paper's
/// words), by what its paths delivered per second of their lives, of those that have none and have
/// rested. But is any good enough?
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Reuse {
    /// If it did better than the worst of those in use, or if none is in use for long. So a path
    /// that was found useless stays closed, as in the paper's Fig. 8, and one that was closed by
    /// bad luck comes back when others have become worse.
    #[default]
    Best,
    /// Always: every relay gets another chance, again and again.
    BestIdle,
}

impl Default for ManagerConfig {
    fn default() -> Self {
        ManagerConfig {
            beta: Self::BETA,
            probe_interval: Duration::from_millis(250),
            probe_patience: Self::TAU,
            strikes: 2,
            max_open: 256,
            max_relays: 4096,
            reuse: Reuse::default(),
            rest: Duration::from_secs(60),
            max_rest: Duration::from_secs(3600),
            poor_share: 0.25,
            trial: Duration::from_secs(10),
            ask_again: Duration::from_secs(30),
        }
    }
}

impl ManagerConfig {
    /// mPath's `β`.
    pub(crate) const BETA: f64 = 0.25;

    /// mPath's `τ`, in round-trip times of the direct path (section 2.1).
    pub(crate) const TAU: f64 = 2.0;

    /// The same with what the law's parameters say: `β` and `τ/RTT_0`.
    #[must_use]
    pub fn of_law(mut self, beta: f64, tau: f64) -> Self {
        self.beta = beta;
        self.probe_patience = tau;
        self
    }

    pub(super) fn check(&self) -> Result<(), InvalidManagerConfig> {
        let wrong = |field, allowed, value: f64| InvalidManagerConfig {
            field,
            value,
            allowed,
        };
        let checks = [
            (
                self.beta > 0.0 && self.beta <= 1.0,
                wrong("beta", "more than 0, at most 1", self.beta),
            ),
            (
                !self.probe_interval.is_zero(),
                wrong("probe_interval", "more than 0 s", 0.0),
            ),
            (
                self.probe_patience >= 1.0 && self.probe_patience <= 1e6,
                wrong("probe_patience", "1 to 1000000", self.probe_patience),
            ),
            (self.strikes >= 1, wrong("strikes", "1 or more", 0.0)),
            (self.max_open >= 1, wrong("max_open", "1 or more", 0.0)),
            (self.max_relays >= 1, wrong("max_relays", "1 or more", 0.0)),
            (
                (0.0..=1.0).contains(&self.poor_share),
                wrong("poor_share", "0 to 1", self.poor_share),
            ),
            (
                !self.ask_again.is_zero(),
                wrong("ask_again", "more than 0 s", 0.0),
            ),
        ];
        match checks.into_iter().find(|(fine, _)| !fine) {
            Some((_, error)) => Err(error),
            None => Ok(()),
        }
    }
}

/// A configuration with which no path manager can work.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("path manager: {field} = {value} is out of range; allowed is {allowed}")]
pub struct InvalidManagerConfig {
    /// The field of [`ManagerConfig`].
    pub field: &'static str,
    /// Its value.
    pub value: f64,
    /// What is allowed instead.
    pub allowed: &'static str,
}

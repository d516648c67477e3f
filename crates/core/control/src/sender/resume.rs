//! Careful resume (RFC 9959): a path that was seen before starts from half of what it carried then,
//! and gives that up at the first sign of congestion.

use std::time::Duration;

use manyway_units::Time;

use super::types::{Remembered, SenderConfig};
use super::{Newly, Sender};
use crate::controller::{Controller, Target};

/// What a path carried is remembered for this long, and at most twice as long.
const MEMORY: Duration = Duration::from_secs(30);
/// A path with less than half of the round-trip time remembered, or with more than ten times it, is
/// another one (RFC 9959 §3.4).
const SHORTER: u32 = 2;
const LONGER: u32 = 10;

/// One path's phase, and what it carries. RFC 9959 has names for the phases: reconnaissance,
/// unvalidated, validating, safe retreat and normal.
#[derive(Clone, Debug)]
pub(super) struct Resume {
    phase: Phase,
    /// Acknowledged in this round, bytes.
    round: u64,
    /// The most bytes of a round in the last stretch of time and in this one, which began then.
    most: [u64; 2],
    since: Time,
}

#[derive(Copy, Clone, Debug, PartialEq)]
enum Phase {
    /// Until so many bytes more have been acknowledged and none lost.
    Waiting { remembered: Remembered, left: u64 },
    /// The window has jumped. Packets from `first` on go beyond what was known; `carried` bytes
    /// have been acknowledged since.
    Unvalidated { first: u64, carried: u64 },
    /// One of those packets was acknowledged; `last` is the last of them.
    Validating { last: u64, carried: u64 },
    /// Something was lost.
    Retreating { last: u64, carried: u64 },
    /// As any other path.
    Normal,
}

impl Resume {
    pub(super) fn of(config: &SenderConfig, now: Time) -> Option<Box<Self>> {
        let waiting = |remembered| Phase::Waiting {
            remembered,
            left: (config.initial_window * f64::from(config.packet_size)) as u64,
        };
        let resume = Resume {
            phase: config.remembered.map_or(Phase::Normal, waiting),
            round: 0,
            most: [0; 2],
            since: now,
        };
        config.careful_resume.then(|| Box::new(resume))
    }

    /// Whether the window's packets have to be spread over a whole round trip.
    pub(super) fn spreads(&self) -> bool {
        matches!(self.phase, Phase::Unvalidated { .. })
    }

    fn most(&self) -> u64 {
        self.most[0].max(self.most[1])
    }

    /// A round that the application left room in says little.
    fn on_round_end(&mut self, now: Time, full: bool) {
        if now.since(self.since) >= MEMORY {
            self.most = [self.most[1], 0];
            self.since = now;
        }
        let round = std::mem::take(&mut self.round);
        if full {
            self.most[1] = self.most[1].max(round);
        }
    }

    fn end(&mut self) {
        self.phase = Phase::Normal;
    }
}

impl<P> Sender<P> {
    /// What the path carried in the last minute. If it never had enough to carry: what it was to
    /// resume from.
    pub fn remembered(&self) -> Option<Remembered> {
        let bytes = self.resume.as_ref()?.most();
        let carried = (bytes > 0).then(|| Remembered {
            bytes,
            min_rtt: self.rtt.min(),
        });
        carried.or(self.config.remembered)
    }

    /// After the controller has heard of the acknowledgement.
    pub(super) fn resume_on_ack<C: Controller + ?Sized>(
        &mut self,
        now: Time,
        newly: Newly,
        sample: Option<Duration>,
        ends_round: bool,
        controller: &mut C,
    ) {
        let Some(resume) = &mut self.resume else {
            return;
        };
        resume.round += newly.bytes;
        if resume.phase == Phase::Normal && !ends_round {
            return;
        }
        let full = !newly.app_limited && self.window_used(controller);
        let Some(resume) = &mut self.resume else {
            return;
        };
        if ends_round {
            resume.on_round_end(now, full);
        }
        match &mut resume.phase {
            Phase::Normal => {}
            Phase::Waiting { remembered, left } => {
                *left = left.saturating_sub(newly.bytes);
                let (remembered, left) = (*remembered, *left);
                let other = |rtt: Duration| {
                    rtt < remembered.min_rtt / SHORTER || rtt > remembered.min_rtt * LONGER
                };
                if sample.is_some_and(other) || !controller.in_slow_start(self.slot) {
                    resume.end();
                } else if left == 0 && full {
                    self.jump(remembered, controller);
                }
            }
            Phase::Unvalidated { first, carried } => {
                *carried += newly.bytes;
                if newly.number >= *first {
                    resume.phase = Phase::Validating {
                        last: self.flight.next() - 1,
                        carried: *carried,
                    };
                }
            }
            Phase::Validating { last, carried } => {
                *carried += newly.bytes;
                if newly.number >= *last {
                    resume.end();
                }
            }
            Phase::Retreating { last, carried } => {
                *carried += newly.bytes;
                if newly.number >= *last {
                    let half = *carried / 2;
                    resume.end();
                    let window = controller.window(self.slot);
                    let threshold = self.in_packets(half).max(window);
                    controller.set_window(self.slot, window, Target::Threshold(threshold));
                }
            }
        }
    }

    /// The window becomes half of what the path carried, unless it is that already.
    fn jump<C: Controller + ?Sized>(&mut self, remembered: Remembered, controller: &mut C) {
        let known = self.in_packets(remembered.bytes);
        let window = known / 2.0;
        let jumps = window > controller.window(self.slot)
            && controller.set_window(self.slot, window, Target::Known(known));
        let Some(resume) = &mut self.resume else {
            return;
        };
        resume.phase = match jumps {
            true => Phase::Unvalidated {
                first: self.flight.next(),
                carried: 0,
            },
            false => Phase::Normal,
        };
        self.stats.resumed |= jumps;
    }

    /// Nothing of what was remembered counts any more.
    pub(super) fn end_resume(&mut self) {
        if let Some(resume) = &mut self.resume {
            resume.end();
        }
    }

    /// After the controller has heard of a loss or a mark: what was sent on trust may have caused
    /// it. The window becomes half of what the path has carried since, and slow start goes on from
    /// there once the fate of all of it is known.
    pub(super) fn resume_on_loss<C: Controller + ?Sized>(&mut self, controller: &mut C) {
        let Some(resume) = &mut self.resume else {
            return;
        };
        let (last, carried) = match resume.phase {
            Phase::Normal | Phase::Retreating { .. } => return,
            Phase::Waiting { .. } => return resume.end(),
            Phase::Unvalidated { carried, .. } => (self.flight.next() - 1, carried),
            Phase::Validating { last, carried } => (last, carried),
        };
        resume.phase = Phase::Retreating { last, carried };
        let half = self.in_packets(carried / 2);
        let window = half.max(self.config.initial_window);
        let window = window.min(controller.window(self.slot));
        controller.set_window(self.slot, window, Target::Unchanged);
    }
}

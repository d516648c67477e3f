//! Whether to wait for a faster path, which has no room now, instead of using a slower one.

use std::time::Duration;

use manyway_units::Time;

use super::Scheduler;

/// ECF: how much longer than the slower path's round trip the fastest path may take once the
/// decision was to wait, so that it doesn't flip (the paper's β, §4).
const ECF_HYSTERESIS: f64 = 0.25;
/// BLEST: the correction of the fast path's estimate, λ: where it begins, its range, and its steps
/// per round trip in which the window was blocked, or wasn't (those of the authors' implementation
/// for Linux, `mptcp_blest.c`).
const BLEST_START: f64 = 1.2;
const BLEST_RANGE: [f64; 2] = [1.0, 1.3];
const BLEST_MORE: f64 = 0.04;
const BLEST_LESS: f64 = 0.01;
/// Round trips in slow start that are looked ahead at the most.
const MOST_DOUBLINGS: f64 = 16.0;

/// A path so many times slower than the fastest one may make the receive window wait.
const MUCH_SLOWER: f64 = 2.0;

/// What a scheduler knows of a path.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Pipe {
    /// Round-trip time, in seconds.
    pub rtt: f64,
    /// Its mean deviation, in seconds.
    pub deviation: f64,
    /// How much longer a packet takes if it has to be expected to be lost, in seconds.
    pub recovery: f64,
    /// Congestion window, in bytes.
    pub window: f64,
    /// In flight, in bytes.
    pub in_flight: f64,
    /// Size of a packet, in bytes.
    pub packet: f64,
    /// The window doubles each round trip.
    pub slow_start: bool,
}

impl Pipe {
    /// What it carries within `span` seconds, in bytes, while its window grows by a packet each
    /// round trip, or doubles (Ferlin et al. 2016, §III; slow start as in the authors'
    /// implementation).
    fn carries_in(&self, span: f64) -> f64 {
        let rounds = span / self.rtt.max(1e-6);
        match self.slow_start {
            true => self.window * (rounds.min(MOST_DOUBLINGS).exp2() - 1.0),
            false => (self.window + self.packet * (rounds - 1.0) / 2.0) * rounds,
        }
    }
}

/// What is to be sent, in bytes.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Backlog {
    /// Written by the application and not on any path: never sent, or lost.
    pub unsent: u64,
    /// Sent and not acknowledged.
    pub unacked: u64,
    /// What may be sent before the peer opens its window further.
    pub credit: u64,
}

/// A scheduler's decisions whether to wait, and what it remembers between them.
#[derive(Clone, Debug)]
pub struct Waiting {
    scheduler: Scheduler,
    /// ECF's last decision was to wait.
    waits: bool,
    /// BLEST's λ, when it was last changed, and whether the window was blocked since.
    lambda: f64,
    changed: Time,
    blocked: bool,
}

impl Waiting {
    /// For a connection that begins.
    pub fn new(scheduler: Scheduler) -> Self {
        Self {
            scheduler,
            waits: false,
            lambda: BLEST_START,
            changed: Time::ZERO,
            blocked: false,
        }
    }

    /// The scheduler that decides.
    pub fn scheduler(&self) -> Scheduler {
        self.scheduler
    }

    /// There is data to send, and the peer's window lets none leave.
    pub fn on_blocked(&mut self) {
        self.blocked = true;
    }

    /// Whether data should wait for the fastest path although a slower one has room.
    pub fn better_to_wait(
        &mut self,
        now: Time,
        slow: &Pipe,
        fast: &Pipe,
        backlog: Backlog,
    ) -> bool {
        match self.scheduler {
            Scheduler::EarliestDelivery => overtaken_or_blocking(slow, fast, backlog),
            Scheduler::MinRtt | Scheduler::Redundant => false,
            Scheduler::Ecf => self.completes_sooner(slow, fast, backlog),
            Scheduler::Blest => self.would_block(now, slow, fast, backlog),
        }
    }

    /// Lim et al. 2017, Algorithm 1. `k`, the data that isn't on any path yet, takes at least one
    /// round trip on the slower path.
    fn completes_sooner(&mut self, slow: &Pipe, fast: &Pipe, backlog: Backlog) -> bool {
        let k = backlog.unsent as f64;
        let margin = slow.deviation.max(fast.deviation);
        let on_fast = (1.0 + k / fast.window.max(fast.packet)) * fast.rtt;
        let hysteresis = if self.waits { ECF_HYSTERESIS } else { 0.0 };
        if on_fast < (1.0 + hysteresis) * (slow.rtt + margin) {
            let on_slow = (k / slow.window.max(slow.packet)).max(1.0) * slow.rtt;
            if on_slow >= 2.0 * fast.rtt + margin {
                self.waits = true;
                return true;
            }
        } else {
            self.waits = false;
        }
        false
    }

    /// Ferlin et al. 2016, §III: what the fast path could send during a round trip of the slow one
    /// must fit into the send window beside what is on the slow one.
    fn would_block(&mut self, now: Time, slow: &Pipe, fast: &Pipe, backlog: Backlog) -> bool {
        let round = Duration::from_secs_f64(fast.rtt.clamp(0.0, 60.0));
        if self.changed + round <= now {
            let step = match std::mem::take(&mut self.blocked) {
                true => BLEST_MORE,
                false => -BLEST_LESS,
            };
            let [least, most] = BLEST_RANGE;
            self.lambda = (self.lambda + step).clamp(least, most);
            self.changed = now;
        }
        let on_fast = fast.carries_in(slow.rtt);
        let send_window = (backlog.credit + backlog.unacked) as f64;
        on_fast * self.lambda > send_window - (slow.in_flight + slow.packet)
    }
}

/// Whether the fastest path would still deliver all that is left before the slower one could, which
/// is ECF's idea; or whether the receive window would have to wait for one that is much slower,
/// which is BLEST's. A path that loses packets is expected to lose these.
fn overtaken_or_blocking(slow: &Pipe, fast: &Pipe, backlog: Backlog) -> bool {
    let windows = backlog.unsent as f64 / fast.window.max(fast.packet);
    let rounds = match fast.slow_start {
        true => windows.ln_1p() / std::f64::consts::LN_2,
        false => windows,
    };
    let on_fast = (rounds + 1.0) * fast.rtt + fast.recovery;
    let rate = fast.window / fast.rtt.max(1e-6);
    let blocks = slow.rtt >= MUCH_SLOWER * fast.rtt && (backlog.credit as f64) < rate * slow.rtt;
    on_fast < slow.rtt + slow.recovery || blocks
}

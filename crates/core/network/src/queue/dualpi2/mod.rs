//! DualPI2 (RFC 9332, appendix A): a short queue for L4S packets beside one for all others, and a
//! controller that tells both.

use std::time::Duration;

use super::Limit;
use super::held::{Fifo, Held};
use crate::InvalidLink;

/// Dual-queue coupled AQM with PI2, as the RFC's example, with its parameters for whatever isn't a
/// field here.
///
/// L4S packets ([`Packet::l4s`](crate::Packet::l4s)) have the low-latency queue, all others the
/// classic one. A proportional-integral controller sets the base probability p′ by the longer of
/// the two delays. Classic packets are dropped, or marked if they are ECN-capable, with the
/// probability p′², and L4S packets are marked with the probability `coupling`·p′, or all of them
/// when they have waited for longer than `step`. So flows whose windows go with 1/√p and flows
/// whose windows go with 1/p share the link about equally. When p′² would exceed
/// 1/`coupling`², packets of both queues are dropped with it (section 4.2.3).
///
/// Where the RFC leaves a choice: marks of the low-latency queue alone begin at a step, not along a
/// ramp; the scheduler is a time-shifted FIFO (appendix A.1): the packet that has waited longest
/// goes first, and those of the low-latency queue count as having waited for `shift` longer; a mark
/// or drop comes whenever the probabilities of the packets since the last one add up to one.
#[derive(Debug, Copy, Clone, PartialEq)]
pub struct DualPi2 {
    /// How much both queues hold at most together, the packet in service included.
    pub limit: Limit,
    /// `target`: the delay that the controller aims at.
    pub target: Duration,
    /// `Tupdate`: how often it adjusts p′.
    pub update: Duration,
    /// `k`: the coupling factor.
    pub coupling: f64,
    /// `maxTh`: L4S packets that have waited for longer are marked.
    pub step: Duration,
    /// `tshift`: by so much L4S packets go before others.
    pub shift: Duration,
}

/// Integral gain per update of 16 ms, in Hz: 0.1·Tupdate/RTT_max² with RTT_max 100 ms.
const ALPHA_PER_SECOND: f64 = 10.0;
/// Proportional gain, in Hz: 0.3/RTT_max.
const BETA: f64 = 3.0;

/// So many updates take p′ to where it stays while packets wait and nothing comes or goes.
const MOST_UPDATES: u64 = 10_000;

impl DualPi2 {
    /// DualPI2 with this limit and the RFC's parameters: 15 ms, adjusted every 16 ms, a coupling
    /// factor of 2, a step at 1 ms, and a shift of 50 ms.
    pub fn new(limit: Limit) -> Self {
        Self {
            limit,
            target: Duration::from_millis(15),
            update: Duration::from_millis(16),
            coupling: 2.0,
            step: Duration::from_millis(1),
            shift: Duration::from_millis(50),
        }
    }

    pub(super) fn validate(&self) -> Result<(), InvalidLink> {
        for (field, time) in [("target", self.target), ("update", self.update)] {
            if time < Duration::from_micros(1) {
                let (field, shown) = (format!("queue.dualpi2.{field}"), format!("{time:?}"));
                return Err(InvalidLink::new(field, shown, "choose at least 1 us"));
            }
        }
        if !(0.1..=100.0).contains(&self.coupling) {
            let allowed = "choose 0.1 to 100";
            return Err(InvalidLink::new(
                "queue.dualpi2.coupling",
                self.coupling,
                allowed,
            ));
        }
        Ok(())
    }
}

/// One of the two queues, and the probabilities of its packets since the last mark or drop.
#[derive(Debug, Clone, Default)]
struct Half {
    fifo: Fifo,
    count: f64,
}

impl Half {
    /// `recur`: whether it is this packet's turn, at this probability.
    fn recurs(&mut self, probability: f64) -> bool {
        self.count += probability;
        let recurs = self.count > 1.0;
        self.count -= f64::from(u8::from(recurs));
        recurs
    }

    /// How long its oldest packet has waited until `now`, in ns.
    fn age(&self, now: u64) -> u64 {
        self.fifo
            .front()
            .map_or(0, |held| now.saturating_sub(held.at))
    }
}

/// DualPI2 at work. Names are those of RFC 9332, appendix A.1.
#[derive(Debug, Clone)]
pub(crate) struct DualPi2Queue {
    config: DualPi2,
    low: Half,
    classic: Half,
    /// `p'`.
    base: f64,
    /// `prevq`, in seconds.
    delay: f64,
    /// When p′ is adjusted next, in ns.
    next_update: u64,
}

impl DualPi2Queue {
    pub(crate) fn new(config: &DualPi2) -> Self {
        Self {
            config: *config,
            low: Half::default(),
            classic: Half::default(),
            base: 0.0,
            delay: 0.0,
            next_update: nanos(config.update),
        }
    }

    pub(crate) fn push(&mut self, held: Held) {
        self.catch_up(held.at);
        let half = if held.l4s {
            &mut self.low
        } else {
            &mut self.classic
        };
        half.fifo.push(held);
    }

    pub(crate) fn take(&mut self, now: u64, dropped: &mut Vec<Held>) -> Option<(Held, bool)> {
        self.catch_up(now);
        loop {
            let held = if self.is_lows_turn(now) {
                self.take_low(now, dropped)
            } else if self.classic.fifo.len() > 0 {
                self.take_classic(dropped)
            } else {
                return None;
            };
            if held.is_some() {
                return held;
            }
        }
    }

    /// `scheduler`.
    fn is_lows_turn(&self, now: u64) -> bool {
        let shift = nanos(self.config.shift);
        let low = self.low.age(now).saturating_add(shift);
        let waits = self.low.fifo.len() > 0;
        waits && (self.classic.fifo.len() == 0 || low >= self.classic.age(now))
    }

    /// `None` if the packet is dropped.
    fn take_low(&mut self, now: u64, dropped: &mut Vec<Held>) -> Option<(Held, bool)> {
        let held = self.low.fifo.pop()?;
        let coupled = (self.config.coupling * self.base).min(1.0);
        if self.is_overloaded() && self.low.recurs(self.squared()) {
            dropped.push(held);
            return None;
        }
        let stands = now - held.at > nanos(self.config.step);
        let marked = match self.is_overloaded() {
            true => true,
            false => self.low.recurs(if stands { 1.0 } else { coupled }),
        };
        Some((held, marked))
    }

    fn take_classic(&mut self, dropped: &mut Vec<Held>) -> Option<(Held, bool)> {
        let held = self.classic.fifo.pop()?;
        if !self.classic.recurs(self.squared()) {
            return Some((held, false));
        }
        if held.ecn && !self.is_overloaded() {
            return Some((held, true));
        }
        dropped.push(held);
        None
    }

    /// `p_C`.
    fn squared(&self) -> f64 {
        self.base * self.base
    }

    /// Whether p_C has reached `p_Cmax`, so that marks say nothing more.
    fn is_overloaded(&self) -> bool {
        self.config.coupling * self.base >= 1.0
    }

    /// Any packet.
    pub(crate) fn pop(&mut self) -> Option<Held> {
        self.low.fifo.pop().or_else(|| self.classic.fifo.pop())
    }

    /// Adjusts p′ as often as was due: nothing came and nothing left meanwhile.
    fn catch_up(&mut self, now: u64) {
        let step = nanos(self.config.update);
        if self.next_update > now {
            return;
        }
        let missed = (now - self.next_update) / step;
        if self.low.fifo.len() + self.classic.fifo.len() == 0 {
            // The first update sees a change of the delay, the others have none.
            self.update(0.0);
            self.base = (self.base + missed as f64 * self.integral(0.0)).max(0.0);
            self.next_update = self
                .next_update
                .saturating_add((missed + 1).saturating_mul(step));
            return;
        }
        self.next_update += missed.saturating_sub(MOST_UPDATES) * step;
        while self.next_update <= now {
            let at = self.next_update;
            let delay = self.low.age(at).max(self.classic.age(at)) as f64 * 1e-9;
            self.update(delay);
            let Some(next) = at.checked_add(step) else {
                return;
            };
            self.next_update = next;
        }
    }

    /// `dualpi2_update`, with the delay in seconds.
    fn update(&mut self, delay: f64) {
        let change = self.integral(delay) + BETA * (delay - self.delay);
        self.base = (self.base + change).clamp(0.0, 1.0);
        self.delay = delay;
    }

    fn integral(&self, delay: f64) -> f64 {
        let (target, step) = (self.config.target, self.config.update);
        ALPHA_PER_SECOND * step.as_secs_f64() * (delay - target.as_secs_f64())
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;

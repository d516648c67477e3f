//! One link at work: it decides about each packet when the packet is offered, and schedules no
//! events.

use std::time::Duration;

use manyway_units::Time;

use crate::loss::Losses;
use crate::policer::Meter;
use crate::queue::{Admission, Arrival, Gate};
use crate::{DropReason, InvalidLink, Limit, LinkConfig, LinkStats, Packet, Verdict};

mod backlog;
mod doomed;
mod fine;
mod fluid;
mod schedule;
mod uniform;
mod waiting;
mod wire;

use backlog::Backlog;
use doomed::Doomed;
use fine::{FRACTION_BITS, service_time};
pub(crate) use fine::{Fine, time_per_byte};
use fluid::Fluid;
pub use fluid::FluidStats;
use schedule::{Schedule, Service};
use uniform::Uniform;
use waiting::Waiting;
use wire::Wire;

/// A one-way link: a queue, a serialiser, a wire.
///
/// It is work-conserving, and its timetable is known. A packet's fate is computed when it is
/// offered where the queue is first in, first out and decides at its entrance. An offer costs
/// amortised O(1) then, and allocates nothing once the backlog's ring has grown to what the queue
/// holds. Where the queue decides when packets leave it
/// ([`Queue::decides_late`](crate::Queue::decides_late)), those that have to wait get a
/// [`Ticket`](crate::Ticket), and [`Link::decide`] tells the rest.
#[derive(Debug, Clone)]
// What each packet touches is together, at the beginning.
#[repr(C)]
pub struct Link {
    uniform: Uniform,
    latest_offer: u64,
    /// When the last accepted packet has left.
    free_at: Fine,
    /// In ns.
    sojourn: u128,
    /// Propagation delay, in ns.
    delay: u64,
    offered: u64,
    /// Nothing but DropTail, and up: what `offer` does itself.
    plain: bool,
    up: bool,
    backlog: Backlog,
    /// Time that one byte takes, in 2^-31 ns.
    per_byte: u64,
    max_packets: u64,
    max_bytes: u64,
    /// When the link was last taken down by hand, in ns.
    went_down: Option<u64>,
    rest: Box<Rest>,
}

/// What a plain link doesn't touch. Simulations have many private links: what few have is boxed.
#[derive(Debug, Clone)]
struct Rest {
    config: LinkConfig,
    /// What is counted elsewhere is left 0.
    stats: LinkStats,
    /// Bytes of packets that were accepted and then lost.
    bytes_lost: u64,
    /// Time spent serialising, of links with a timetable, in 2^-31 ns.
    busy: u128,
    /// Work that somebody cut short by taking the link down, in 2^-31 ns.
    busy_cut: u128,
    meter: Option<Meter>,
    gate: Option<Box<Gate>>,
    waiting: Option<Box<Waiting>>,
    fluid: Option<Box<Fluid>>,
    losses: Option<Box<Losses>>,
    doomed: Doomed,
    wire: Wire,
    schedule: Option<Box<Schedule>>,
}

impl Link {
    /// A link that is up, idle and empty.
    ///
    /// # Errors
    /// What [`LinkConfig::validate`] finds.
    pub fn new(config: LinkConfig) -> Result<Self, InvalidLink> {
        config.validate()?;
        let (max_packets, max_bytes) = match config.queue.limit() {
            Limit::Packets(limit) => (u64::from(limit), u64::MAX),
            Limit::Bytes(limit) => (u64::MAX, limit),
        };
        let rest = Rest::new(config);
        Ok(Self {
            plain: rest.is_plain(),
            up: true,
            latest_offer: 0,
            per_byte: time_per_byte(rest.config.rate),
            delay: nanos(rest.config.delay),
            free_at: Fine::default(),
            max_packets,
            max_bytes,
            backlog: Backlog::new(),
            uniform: Uniform::NONE,
            offered: 0,
            sojourn: 0,
            went_down: None,
            rest: Box::new(rest),
        })
    }

    /// Offers a packet to the queue.
    ///
    /// Offers come in the order of time; an earlier `now` than before is taken for the latest one.
    #[inline(always)]
    pub fn offer(&mut self, now: Time, packet: Packet) -> Verdict {
        let now = now.as_nanos().max(self.latest_offer);
        let bytes = packet.bytes.max(1);
        self.latest_offer = now;
        self.offered += 1;
        if bytes != self.uniform.bytes || !self.plain {
            return self.offer_any(now, Packet { bytes, ..packet });
        }
        self.offer_uniform(now)
    }

    /// [`Link::offer`] of a packet that is like those before.
    #[inline(always)]
    fn offer_uniform(&mut self, now: u64) -> Verdict {
        let Uniform {
            bytes,
            service,
            room,
        } = self.uniform;
        // Whole nanoseconds mostly tell.
        let full = self.free_at.floor() >= now.saturating_add(room.floor());
        if full && self.free_at > Fine::from_nanos(now).plus(room) {
            return self.rest.dropped(DropReason::QueueFull);
        }
        self.free_at = self.free_at.at_least(now).plus(service);
        let departs = self.free_at.ceil();
        self.sojourn += u128::from(departs - now);
        self.backlog.pass(bytes);
        self.delivered(departs)
    }

    /// [`Link::offer`] of a packet that isn't like those before, or to a link that isn't plain.
    #[inline(never)]
    fn offer_any(&mut self, now: u64, packet: Packet) -> Verdict {
        if !self.plain {
            return self.offer_with_all(now, packet);
        }
        let bytes = packet.bytes;
        let limits = (self.max_packets, self.max_bytes);
        if self.backlog.bytes_pushed() > 0 {
            self.remember_departures(now);
        } else if let Some(uniform) = Uniform::new(bytes, self.per_byte, limits) {
            self.uniform = uniform;
            return self.offer_uniform(now);
        }
        if self.seems_full(bytes) && !self.make_room(now, bytes) {
            return self.rest.dropped(DropReason::QueueFull);
        }
        let service = service_time(self.per_byte, bytes);
        self.free_at = self.free_at.at_least(now).plus(service);
        let departs = self.free_at.ceil();
        self.enqueue(now, departs, bytes);
        self.delivered(departs)
    }

    #[inline(always)]
    fn delivered(&self, departs: u64) -> Verdict {
        Verdict::Delivered {
            departs: Time::from_nanos(departs),
            arrives: Time::from_nanos(departs.saturating_add(self.delay)),
            marked: false,
        }
    }

    /// From now on packets may differ: puts those that wait into the backlog.
    fn remember_departures(&mut self, now: u64) {
        let uniform = std::mem::replace(&mut self.uniform, Uniform::NONE);
        if uniform.bytes > 0 {
            let departures = uniform.departures(now, self.free_at);
            self.backlog.restore(departures, uniform.bytes);
        }
    }

    /// Takes the link down, which loses everything queued and on the wire, or brings it up again,
    /// empty. A link that has a timetable is up when both say so.
    pub fn set_up(&mut self, now: Time, up: bool) {
        let now = now.as_nanos().max(self.latest_offer);
        self.latest_offer = now;
        self.catch_up(now);
        if self.up && !up {
            self.went_down = Some(now);
            self.cut(now);
        }
        self.up = up;
        self.plain = up && self.rest.is_plain();
    }

    /// Whether the link carries packets, as far as [`Link::set_up`] knows: its timetable aside.
    pub fn is_up(&self) -> bool {
        self.up
    }

    /// To be asked when a packet of `bytes` bytes that was offered at `offered` gets to the far
    /// end, if anybody ever takes the link down with [`Link::set_up`]: whether it really does, or
    /// was lost because the link went down meanwhile (then the counters are put right).
    pub fn survived(&mut self, offered: Time, bytes: u32) -> bool {
        if self.went_down.is_none_or(|at| at < offered.as_nanos()) {
            return true;
        }
        self.rest.stats.dropped_down += 1;
        self.rest.bytes_lost += u64::from(bytes.max(1));
        false
    }

    /// Bytes that have not left by `now`, the packet in service included.
    pub fn backlog_bytes(&self, now: Time) -> u64 {
        if let Some(bytes) = self.fluid_backlog(now) {
            return bytes as u64;
        }
        self.backlog_after(now.as_nanos()).1 + self.rest.waiting().1
    }

    /// Packets that have not left by `now`, the one in service included.
    pub fn backlog_packets(&self, now: Time) -> usize {
        if let (Some(bytes), Some(unit)) = (self.fluid_backlog(now), self.fluid_unit()) {
            return (bytes / unit).ceil() as usize;
        }
        (self.backlog_after(now.as_nanos()).0 + self.rest.waiting().0) as usize
    }

    /// Packets and bytes that have not left by `now`, those aside that a queue decides about late.
    fn backlog_after(&self, now: u64) -> (u64, u64) {
        if self.uniform.bytes == 0 {
            return self.backlog.after(now);
        }
        let packets = self.uniform.waiting(now, self.free_at);
        (packets, packets * u64::from(self.uniform.bytes))
    }

    /// How long those still stay, summed, in ns. Costs O(packets).
    fn stay_after(&self, now: u64) -> u128 {
        if self.uniform.bytes == 0 {
            return self.backlog.stay_after(now);
        }
        let departures = self.uniform.departures(now, self.free_at);
        departures.map(|at| u128::from(at - now)).sum()
    }

    /// When the last accepted packet will have left, of a queue that decides late the packet in
    /// service; in the past if the link is idle.
    #[inline]
    pub fn busy_until(&self) -> Time {
        self.free_at.time()
    }

    /// What the link was made from.
    pub fn config(&self) -> &LinkConfig {
        &self.rest.config
    }

    /// What happened so far; `busy` and `sojourn` reach ahead to when the backlog will be gone.
    pub fn stats(&self) -> LinkStats {
        self.with_fluid_stats(self.latest_offer, self.packet_stats())
    }

    /// [`Link::stats`] without a fluid.
    fn packet_stats(&self) -> LinkStats {
        let dropped = self.rest.stats.dropped();
        LinkStats {
            offered: self.offered,
            delivered: self.offered - dropped,
            bytes_delivered: self.backlog.bytes_pushed() + self.rest.waiting().1
                - self.rest.bytes_lost,
            busy: duration(self.busy_bits() >> FRACTION_BITS),
            sojourn: duration(self.sojourn),
            ..self.rest.stats
        }
    }

    /// What happened so far, with `busy`, `sojourn` and drops up to `now` (not before the latest
    /// offer) and no further: differences between two moments give exact means over the time
    /// between. Packets that wait and will be lost are neither delivered nor dropped yet. Costs
    /// O(backlog).
    pub fn stats_at(&self, now: Time) -> LinkStats {
        let now = now.as_nanos().max(self.latest_offer);
        let ahead = self
            .free_at
            .bits()
            .saturating_sub(Fine::from_nanos(now).bits());
        let waiting = self.rest.waiting.as_ref();
        let waited = waiting.map_or(0, |waiting| waiting.waited(now));
        let stats = LinkStats {
            busy: duration(self.busy_bits().saturating_sub(ahead) >> FRACTION_BITS),
            sojourn: duration(self.sojourn + waited - self.stay_after(now)),
            ..self.packet_stats()
        };
        let (_, stats) = self.rest.doomed.after(now, stats);
        self.with_fluid_stats(now, stats)
    }

    /// Bytes that have left the link by `now` (not before the latest offer) and that neither the
    /// wire nor an outage has lost, a fluid's included. What [`Link::set_up`] loses counts until it
    /// would have arrived. Costs O(backlog).
    pub fn carried_bytes(&self, now: Time) -> u64 {
        let at = now.as_nanos().max(self.latest_offer);
        let (lost, stats) = self.rest.doomed.after(at, self.packet_stats());
        let stats = self.with_fluid_stats(at, stats);
        let waiting = self.backlog_bytes(Time::from_nanos(at));
        let waiting = match &self.rest.fluid {
            Some(fluid) => (waiting as f64 * fluid.survives()) as u64,
            None => waiting - lost,
        };
        stats.bytes_delivered.saturating_sub(waiting)
    }

    /// Time spent serialising, in 2^-31 ns.
    fn busy_bits(&self) -> u128 {
        let busy = match self.rest.schedule {
            Some(_) => self.rest.busy,
            None => u128::from(self.per_byte) * u128::from(self.backlog.bytes_pushed()),
        };
        busy.saturating_sub(self.rest.busy_cut)
    }

    /// By a count that may include packets that have left: only if this says yes somebody has to
    /// look.
    #[inline]
    fn seems_full(&self, bytes: u32) -> bool {
        self.backlog.is_crowded() || !self.has_room(bytes)
    }

    #[inline]
    fn has_room(&self, bytes: u32) -> bool {
        self.backlog.len() < self.max_packets
            && self.backlog.bytes().saturating_add(u64::from(bytes)) <= self.max_bytes
    }

    /// Clears out what has left; whether there is room now.
    #[inline(never)]
    fn make_room(&mut self, now: u64, bytes: u32) -> bool {
        self.backlog.drain(now);
        self.has_room(bytes)
    }

    #[inline]
    fn enqueue(&mut self, now: u64, departs: u64, bytes: u32) {
        self.sojourn += u128::from(departs - now);
        self.backlog.push(departs, bytes);
    }

    /// With everything a link can have; `now` and `bytes` are put right already.
    #[inline(never)]
    fn offer_with_all(&mut self, now: u64, packet: Packet) -> Verdict {
        self.catch_up(now);
        if !self.rest.keep_to_schedule(now, &mut self.per_byte) || !self.up {
            return self.rest.dropped(DropReason::Down);
        }
        if let Some(meter) = &mut self.rest.meter
            && !meter.admits(now, packet.bytes)
        {
            return self.rest.dropped(DropReason::Policed);
        }
        if self.rest.waiting.is_some() {
            return self.offer_to_wait(now, packet);
        }
        if let Some(room) = self.fluid_makes_room(now) {
            return match room {
                true => self.send(now, packet.bytes, false),
                false => self.rest.dropped(DropReason::QueueFull),
            };
        }
        // Only these have to know how much exactly waits.
        let look = self.rest.gate.is_some() || self.seems_full(packet.bytes);
        let room = !look || self.make_room(now, packet.bytes);
        let marked = match self.admit(now, packet, room) {
            Admission::Accepted { marked } => marked,
            Admission::Full => return self.rest.dropped(DropReason::QueueFull),
            Admission::Early => return self.rest.dropped(DropReason::Early),
            Admission::Forced => return self.rest.dropped(DropReason::Forced),
        };
        self.send(now, packet.bytes, marked)
    }

    /// Sends a packet that was offered at `offered`, once the one before has left.
    fn send(&mut self, offered: u64, bytes: u32, marked: bool) -> Verdict {
        self.rest.stats.marked += u64::from(marked);
        let service = self.serve(offered, bytes);
        self.free_at = service.ends;
        let departs = self.free_at.ceil();
        self.enqueue(offered, departs, bytes);
        match self.rest.pass_wire(departs, self.delay, service.complete) {
            Ok(arrives) => Verdict::Delivered {
                departs: Time::from_nanos(departs),
                arrives: Time::from_nanos(arrives),
                marked,
            },
            Err(reason) => {
                self.rest.bytes_lost += u64::from(bytes);
                self.rest.doomed.push(offered, (departs, bytes), reason);
                self.rest.dropped(reason)
            }
        }
    }

    fn admit(&mut self, now: u64, packet: Packet, room: bool) -> Admission {
        let Some(gate) = &mut self.rest.gate else {
            return match room {
                true => Admission::Accepted { marked: false },
                false => Admission::Full,
            };
        };
        // A link that is up serves the head of its queue.
        gate.admit(Arrival {
            now,
            ecn: packet.ecn || packet.l4s,
            room,
            waiting_packets: self.backlog.len().saturating_sub(1),
            waiting_bytes: self.backlog.bytes() - self.backlog.head_bytes(),
            free_at: self.free_at.ceil(),
            idle: self.backlog.len() == 0,
            per_byte: self.per_byte,
        })
    }

    fn serve(&mut self, now: u64, bytes: u32) -> Service {
        let start = self.free_at.at_least(now);
        if let Some(schedule) = &mut self.rest.schedule {
            let service = schedule.serve(start, bytes);
            self.rest.busy += service.busy.bits();
            return service;
        }
        let ends = start.plus(service_time(self.per_byte, bytes));
        Service::new(start, ends, true)
    }

    /// Loses what is queued and on the wire.
    fn cut(&mut self, now: u64) {
        self.lose_waiting(now);
        self.sojourn -= self.stay_after(now);
        self.backlog.clear();
        let stopped = self.free_at.min(Fine::from_nanos(now));
        self.rest.busy_cut += self.free_at.bits() - stopped.bits();
        self.free_at = stopped;
        self.rest.doomed.clear();
        self.rest.wire.cut(now);
    }
}

impl Rest {
    /// The configuration is valid.
    fn new(config: LinkConfig) -> Self {
        Self {
            stats: LinkStats::default(),
            bytes_lost: 0,
            busy: 0,
            busy_cut: 0,
            meter: config.policer.map(Meter::new),
            gate: Gate::new(&config.queue, config.seed).map(Box::new),
            waiting: Waiting::new(&config).map(Box::new),
            fluid: None,
            losses: Losses::new(config.loss, config.seed).map(Box::new),
            doomed: Doomed::default(),
            wire: Wire::new(&config),
            schedule: Schedule::new(&config).map(Box::new),
            config,
        }
    }

    /// Whether the link needs none of this.
    fn is_plain(&self) -> bool {
        self.meter.is_none()
            && self.gate.is_none()
            && self.waiting.is_none()
            && self.fluid.is_none()
            && self.losses.is_none()
            && self.wire.is_plain()
            && self.schedule.is_none()
    }

    /// Packets and bytes that wait until the queue decides.
    #[inline]
    fn waiting(&self) -> (u64, u64) {
        self.waiting.as_deref().map_or((0, 0), Waiting::amount)
    }

    /// Whether the timetable has the link up at `now`, and at which rate.
    fn keep_to_schedule(&mut self, now: u64, per_byte: &mut u64) -> bool {
        let Some(schedule) = &mut self.schedule else {
            return true;
        };
        if let Some(went_down) = schedule.advance(now) {
            // What was to arrive later never will.
            self.wire.cut(went_down);
        }
        let state = schedule.state();
        *per_byte = state.per_byte;
        state.up
    }

    /// When a packet that leaves the queue at `departs`, served to the end or not, comes out of the
    /// wire.
    ///
    /// Every packet draws from every generator, so that the fate of one doesn't change the draws
    /// for the next.
    fn pass_wire(&mut self, departs: u64, delay: u64, served: bool) -> Result<u64, DropReason> {
        let lost = self.losses.as_deref_mut().is_some_and(Losses::next);
        let extra = self.wire.draw();
        if !served {
            return Err(DropReason::Down);
        }
        let delay = match &mut self.schedule {
            Some(schedule) => schedule.delay_at(departs),
            None => delay,
        };
        let arrives = self.wire.arrival(departs.saturating_add(delay), extra);
        if lost {
            return Err(DropReason::RandomLoss);
        }
        match &self.schedule {
            Some(schedule) if schedule.goes_down_before(arrives) => Err(DropReason::Down),
            _ => Ok(arrives),
        }
    }

    #[cold]
    fn dropped(&mut self, reason: DropReason) -> Verdict {
        *self.stats.dropped_for(reason) += 1;
        Verdict::Dropped(reason)
    }
}

/// Saturates, as [`Time`] does.
fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn duration(nanos: u128) -> Duration {
    const SECOND: u128 = 1_000_000_000;
    let secs = u64::try_from(nanos / SECOND).unwrap_or(u64::MAX);
    Duration::new(secs, (nanos % SECOND) as u32)
}

#[cfg(test)]
mod tests;

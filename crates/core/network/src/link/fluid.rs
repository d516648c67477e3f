//! A fluid beside the packets: the load of many flows whose packets nobody follows.

use rand::RngExt;

use super::Link;
use super::fine::{FRACTION_BITS, Fine};
use crate::random::{Generator, Purpose, generator};
use crate::{InvalidLink, Limit, LinkConfig, LinkStats, Queue};
use manyway_units::{Rate, Time};

/// The unit of time in which work is counted: 2^31 of them are a nanosecond.
const NANOSECOND: u64 = 1 << FRACTION_BITS;
/// So many times the link's rate is the most that may flow in.
const MOST: f64 = 32_768.0;

/// Up to so many packets at a time are followed one by one.
const FEW: u128 = 4;

/// What a fluid was at a link so far.
#[derive(Debug, Copy, Clone, PartialEq, Default)]
pub struct FluidStats {
    /// Bytes that came.
    pub offered: f64,
    /// Bytes that the queue or the wire lost.
    pub lost: f64,
}

/// A fluid that flows into a DropTail queue, first in, first out with the packets.
///
/// With the unfinished work V (the time that a byte waits), the inflow b and the rate C, V' = b/C −
/// 1 while V is above 0 (Gu, Liu, Towsley: On integrating fluid models with packet simulation,
/// INFOCOM 2004). The inflow isn't smooth: it stands for the packets of many flows, which come as a
/// Poisson process. So V is a reflected Brownian motion with that drift and the variance of the
/// process, sampled when somebody looks: how many packets came is drawn, then how far V went up and
/// down on the way, as a Brownian bridge does (Asmussen, Glynn, Pitman: Discretization error in
/// simulation of one-dimensional reflecting Brownian motion, 1995). Up to four packets come one by
/// one. The cost doesn't depend on how many came.
///
/// A packet finds room while V is at most the limit less that packet. V is reflected half a packet
/// above that, or a little more: then fluid and packets lose the same share of what comes.
///
/// Work is counted in 2^-31 ns, exactly: what came was refused, has been served, or waits.
#[derive(Debug, Clone)]
pub(super) struct Fluid {
    /// Bytes of a packet: what the limit counts in.
    unit: u32,
    /// Work of such a packet.
    service: u128,
    /// Work with which there is still room for a packet.
    room: u128,
    /// The inflow over the link's rate.
    load: f64,
    /// Work beyond `room` where V is reflected.
    margin: u128,
    /// When this was the state, in ns.
    at: u64,
    /// Work that came, and how much of that found no room.
    offered: u128,
    refused: u128,
    /// Integral of the unfinished work over time, ns².
    area: f64,
    /// Share of what has passed the queue that the wire loses.
    wire_loss: f64,
    random: Generator,
}

impl Fluid {
    /// The inflow over the link's rate, from now on.
    fn set_load(&mut self, load: f64) {
        self.load = load;
        // Of a load ρ above 1, the share 1 − 1/ρ is lost, and the distance of V from where it is
        // reflected is exponential with the mean ρ/(2(ρ − 1)) packets: so often is V in the margin.
        let over = if load > 1.0 {
            (load * load.ln() / (load - 1.0)).min(2.0)
        } else {
            1.0
        };
        self.margin = bits(nanos(self.service) / 2.0 * over);
    }

    /// Up to `now`, from which on packets may have been added to `free_at`.
    fn advance(&mut self, free_at: &mut Fine, now: u64) {
        let since = now.saturating_sub(self.at);
        if since == 0 {
            return;
        }
        let span = Fine::from_nanos(since).bits();
        let begun = Fine::from_nanos(self.at).bits();
        let work = free_at.bits().saturating_sub(begun);
        let number = self.arrivals(since);
        let left = match number {
            0..=FEW => self.one_by_one(work, number as usize, span),
            _ => self.many(work, self.service.saturating_mul(number), span),
        };
        self.at = now;
        *free_at = Fine::from_bits(Fine::from_nanos(now).bits() + left);
    }

    /// How many packets come in so many nanoseconds.
    fn arrivals(&mut self, since: u64) -> u128 {
        if self.load <= 0.0 {
            return 0;
        }
        let mean = self.load * since as f64 / nanos(self.service);
        poisson(mean, &mut self.random)
    }

    /// What waits after packets that come at any time in the span.
    fn one_by_one(&mut self, work: u128, number: usize, span: u128) -> u128 {
        let mut times = [span; FEW as usize + 1];
        for time in &mut times[..number] {
            *time = (self.random.random::<f64>() * span as f64) as u128;
        }
        times[..number].sort_unstable();
        let (mut left, mut last) = (work, 0);
        for (index, time) in times.into_iter().take(number + 1).enumerate() {
            let before = left;
            left = left.saturating_sub(time - last);
            last = time;
            self.area += (nanos(before).powi(2) - nanos(left).powi(2)) / 2.0;
            if index == number {
                break;
            }
            self.offered += self.service;
            match left <= self.room {
                true => left += self.service,
                false => self.refused += self.service,
            }
        }
        left
    }

    /// What waits after a span in which so much came.
    fn many(&mut self, work: u128, came: u128, span: u128) -> u128 {
        let refused = self.overflow(work, came, span);
        let taken = came - refused;
        let left = (work + taken).saturating_sub(span);
        let without = left + self.idle(work, taken, span);
        // In a queue for few packets, that may be more than there is room for.
        let limit = (self.room + self.margin).max(work.saturating_sub(span));
        let left = without.min(limit);
        self.offered += came;
        self.refused += (refused + without - left).min(came);
        self.area += area((nanos(work), nanos(left)), self.load - 1.0, nanos(span));
        left
    }

    /// How much of what comes finds no room.
    fn overflow(&mut self, work: u128, came: u128, span: u128) -> u128 {
        let limit = self.room + self.margin;
        if work + came <= limit {
            return 0;
        }
        // The way up, of at most all that comes at once.
        let peak = self.excursion(nanos(came) - nanos(span), span);
        let peak = nanos(work) + peak.min(nanos(came)) - nanos(limit);
        bits(peak).min(came)
    }

    /// How long the link is idle.
    fn idle(&mut self, work: u128, taken: u128, span: u128) -> u128 {
        if work >= span || self.load <= 0.0 {
            return 0;
        }
        let net = nanos(taken) - nanos(span);
        let depth = self.excursion(-net, span).min(nanos(span));
        // Without the reflection at 0, `left` would have been below it by this.
        let below = (-(nanos(work) + net)).max(0.0);
        bits(depth - nanos(work) - below)
    }

    /// The highest point of the way to `end`, in ns.
    fn excursion(&mut self, end: f64, span: u128) -> f64 {
        let variance = self.load * nanos(self.service) * nanos(span);
        let draw: f64 = self.random.random();
        let higher = -2.0 * variance * (1.0 - draw).ln();
        (end + (end * end + higher).sqrt()) / 2.0
    }

    /// Whether there is room for a packet at the time of the last [`Fluid::advance`].
    fn has_room(&self, free_at: Fine) -> bool {
        let begun = Fine::from_nanos(self.at).bits();
        free_at.bits().saturating_sub(begun) <= self.room
    }

    /// Work that has got into the queue.
    fn taken(&self) -> u128 {
        self.offered - self.refused
    }
}

/// Integral of V over a span, in ns²: it goes from one value to the other at this rate, and then
/// stays around.
fn area((from, to): (f64, f64), slope: f64, span: f64) -> f64 {
    let way = to - from;
    let takes = if way * slope > 0.0 {
        (way / slope).min(span)
    } else {
        span
    };
    to * span - way / 2.0 * takes
}

/// A number with Poisson's distribution.
fn poisson(mean: f64, random: &mut Generator) -> u128 {
    /// From here on, the normal distribution is near enough, and takes two draws.
    const MANY: f64 = 16.0;
    let mut uniform = || 1.0 - random.random::<f64>();
    if mean >= MANY {
        let normal = (-2.0 * uniform().ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos();
        return (mean + mean.sqrt() * normal).round().max(0.0) as u128;
    }
    let (least, mut product) = ((-mean).exp(), uniform());
    let mut number = 0;
    while product > least {
        product *= uniform();
        number += 1;
    }
    number
}

/// Nanoseconds, from below 0 none.
fn bits(nanos: f64) -> u128 {
    (nanos.max(0.0) * NANOSECOND as f64) as u128
}

fn nanos(bits: u128) -> f64 {
    bits as f64 / NANOSECOND as f64
}

impl Link {
    /// The link with room for a fluid beside its packets, none of which has more than
    /// `packet_bytes`: the queue's limit counts work in packets of that size, and so do
    /// [`LinkStats`] and [`Link::backlog_packets`] the fluid. Nothing flows in yet.
    ///
    /// The wire's random losses take their mean share of the fluid. Its jitter has no effect on it.
    ///
    /// # Errors
    /// If the queue isn't DropTail, or the link has a policer or a timetable.
    pub fn with_fluid(mut self, packet_bytes: u32) -> Result<Self, InvalidLink> {
        let fluid = Fluid::new(&self.rest.config, packet_bytes.max(1), self.per_byte)?;
        self.remember_departures(self.latest_offer);
        self.rest.fluid = Some(Box::new(fluid));
        self.plain = false;
        Ok(self)
    }

    /// What flows in from `now` on, not before the latest offer. Without effect on a link that
    /// isn't [`Link::with_fluid`].
    pub fn set_fluid(&mut self, now: Time, rate: Rate) {
        let now = now.as_nanos().max(self.latest_offer);
        self.latest_offer = now;
        let share = rate.bits_per_sec() / self.rest.config.rate.bits_per_sec();
        if let Some(fluid) = &mut self.rest.fluid {
            fluid.advance(&mut self.free_at, now);
            fluid.set_load(share.clamp(0.0, MOST));
        }
    }

    /// What the fluid was up to `now`, not before the latest offer; `None` on a link without one.
    pub fn fluid_at(&self, now: Time) -> Option<FluidStats> {
        let (fluid, _) = self.fluid_until(now.as_nanos())?;
        let bytes = |work: u128| work as f64 / self.per_byte as f64;
        let on_wire = bytes(fluid.taken()) * fluid.wire_loss;
        Some(FluidStats {
            offered: bytes(fluid.offered),
            lost: bytes(fluid.refused) + on_wire,
        })
    }

    /// How long a byte that comes at `now`, not before the latest offer, waits for the rest, in
    /// seconds. Of queues that are first in, first out.
    pub fn waiting_s(&self, now: Time) -> f64 {
        let fluid = self.fluid_until(now.as_nanos());
        let free_at = fluid.map_or(self.free_at, |(_, free_at)| free_at);
        free_at.ceil().saturating_sub(now.as_nanos()) as f64 * 1e-9
    }

    /// Whether the queue has room for a packet, of a link with a fluid.
    pub(super) fn fluid_makes_room(&mut self, now: u64) -> Option<bool> {
        let fluid = self.rest.fluid.as_mut()?;
        fluid.advance(&mut self.free_at, now);
        if self.backlog.is_crowded() {
            self.backlog.drain(now);
        }
        Some(fluid.has_room(self.free_at))
    }

    /// The fluid as of a later moment, and when the link is idle again.
    fn fluid_until(&self, now: u64) -> Option<(Fluid, Fine)> {
        let mut fluid = Fluid::clone(self.rest.fluid.as_ref()?);
        let mut free_at = self.free_at;
        fluid.advance(&mut free_at, now);
        Some((fluid, free_at))
    }

    /// Unfinished work, in bytes, at a later moment.
    pub(super) fn fluid_backlog(&self, now: Time) -> Option<f64> {
        let (_, free_at) = self.fluid_until(now.as_nanos())?;
        let work = free_at
            .bits()
            .saturating_sub(Fine::from_nanos(now.as_nanos()).bits());
        Some(work as f64 / self.per_byte as f64)
    }

    /// Bytes of the packet that counts for the fluid.
    pub(super) fn fluid_unit(&self) -> Option<f64> {
        self.rest.fluid.as_ref().map(|fluid| f64::from(fluid.unit))
    }

    /// The link's counters with the fluid's share, up to `now` or the latest time. `stats` are the
    /// packets'.
    pub(super) fn with_fluid_stats(&self, now: u64, stats: LinkStats) -> LinkStats {
        let Some((fluid, free_at)) = self.fluid_until(now) else {
            return stats;
        };
        let work = free_at
            .bits()
            .saturating_sub(Fine::from_nanos(fluid.at).bits());
        let packets = u128::from(self.per_byte) * u128::from(self.backlog.bytes_pushed());
        let busy = nanos((packets + fluid.taken()).saturating_sub(work));
        let service = nanos(fluid.service);
        let whole = |work: f64| (nanos(work as u128) / service) as u64;
        let passed = whole(fluid.taken() as f64);
        let on_wire = whole(fluid.taken() as f64 * fluid.wire_loss);
        let refused = whole(fluid.refused as f64);
        let bytes = fluid.taken() as f64 * fluid.survives() / self.per_byte as f64;
        LinkStats {
            offered: stats.offered + passed + refused,
            delivered: stats.delivered + passed - on_wire,
            dropped_queue: stats.dropped_queue + refused,
            dropped_random: stats.dropped_random + on_wire,
            bytes_delivered: stats.bytes_delivered + bytes as u64,
            busy: super::duration(busy as u128),
            // The packet in service counts in full, of which half is left on average.
            sojourn: super::duration((fluid.area / service + busy / 2.0) as u128),
            ..stats
        }
    }
}

impl Fluid {
    /// The part of it that the wire doesn't lose.
    pub(super) fn survives(&self) -> f64 {
        1.0 - self.wire_loss
    }

    fn new(config: &LinkConfig, unit: u32, per_byte: u64) -> Result<Self, InvalidLink> {
        const ALLOWED: &str = "a link with a fluid has DropTail, no policer and no timetable";
        let Queue::DropTail(limit) = config.queue else {
            let value = "one that isn't DropTail";
            return Err(InvalidLink::new("queue", value, ALLOWED));
        };
        if config.policer.is_some() {
            return Err(InvalidLink::new("policer", "set", ALLOWED));
        }
        if !config.timetable.is_empty() {
            return Err(InvalidLink::new("timetable", "set", ALLOWED));
        }
        let bytes = match limit {
            Limit::Packets(packets) => u64::from(packets) * u64::from(unit),
            Limit::Bytes(bytes) => bytes,
        };
        let others = u128::from(bytes.saturating_sub(unit.into()));
        Ok(Self {
            unit,
            service: u128::from(per_byte) * u128::from(unit),
            room: u128::from(per_byte) * others,
            load: 0.0,
            margin: 0,
            at: 0,
            offered: 0,
            refused: 0,
            area: 0.0,
            wire_loss: config.loss.mean(),
            random: generator(config.seed, Purpose::Fluid),
        })
    }
}

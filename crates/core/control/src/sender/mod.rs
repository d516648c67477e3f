//! The subflow sender: it owns one path's numbering, round-trip time, loss detection, timers and
//! pacing, and tells the controller what became of packets. It reads no clock, builds no packet,
//! and never sets a window.

mod acknowledged;
mod carried;
mod delivery;
mod flight;
mod measuring;
mod pacer;
mod recovery;
mod reordering;
mod resume;
mod timer;
mod types;

#[cfg(test)]
mod tests;

use std::time::Duration;

use manyway_units::Time;

use crate::controller::{Controller, NewPath, Slot};
use crate::rtt::{Rtt, nanos};
use delivery::DeliveryRate;
use flight::Flight;
use pacer::Pacer;
use recovery::Recovery;
use resume::Resume;

pub use carried::{Arrived, Carried, CarriedConfig};
pub use types::{
    AckError, AckInfo, LossDetection, Outcome, Permit, Remembered, RetransmissionTimeout,
    SenderConfig, SenderStats, Sent, TimerEvent,
};

/// Acknowledgements come in bursts if rounds take more than so many smoothed round-trip times. It
/// has to be below 1.8: of a window that leaves within 0.8 round-trip times, between bursts a time
/// T apart, the last packet's acknowledgement takes T/1.8, so that the round-trip time stays so.
const BURSTY: f64 = 1.75;

/// One subflow's sender, sans I/O. `P` is what a packet carries: whatever the owner wants back when
/// the packet is acknowledged or lost, `()` in simulations.
///
/// Every ack-eliciting packet's payload is handed back exactly once: as acknowledged or lost in an
/// [`Outcome`], or by [`Sender::retire`]. Packets that elicit no acknowledgement count neither as
/// in flight nor as lost; their payload comes back if they are acknowledged in time, else it is
/// dropped.
///
/// Loss detection is RFC 9002's, with one packet number space per path, and learns if
/// [`LossDetection`] says so. What differs, and why:
///
/// * The one packet that may leave at the beginning of a recovery period always may (§7.3.2): as
///   with TCP's fast retransmit, recovery then takes one round trip.
/// * Recovery periods are delimited by packet number instead of sending time, which is the same for
///   consecutive numbers but tells packets of one instant apart. They outlive a persistent
///   congestion event, so that more old losses don't lower the threshold again.
/// * A window counts as unused (and doesn't grow) not only when the owner says that a packet was
///   sent application-limited, but also when what was in flight in the last two rounds stayed well
///   below it: a scheduler that prefers other paths must not let a window grow without proof.
///
/// Steady state allocates nothing per packet, and the work is O(1) per packet sent, acknowledged or
/// lost plus O(1) per acknowledgement range.
#[derive(Debug)]
// In this order, since simulations of many flows wait for memory: what every packet and every
// acknowledgement touch is together, at the end.
#[repr(C)]
pub struct Sender<P> {
    pacer: Pacer,
    /// When the current round began, and how long rounds that use the window take, in round-trip
    /// times, smoothed.
    round_began: Time,
    stretch: f64,
    ce_count: u64,
    config: SenderConfig,
    stats: SenderStats,
    recovery: Recovery,
    flight: Flight<P>,
    rtt: Rtt,
    slot: Slot,
    /// The next timeout is counted from here: when the last ack-eliciting packet was sent or the
    /// last timeout fired. TCP's is counted from the last acknowledgement or the packet after which
    /// nothing else was in flight.
    pto_from: Time,
    /// The current round ends when this packet or a later one is acknowledged.
    round_end: u64,
    /// The most that was in flight in the last and in the current round, bytes.
    peak: [u64; 2],
    /// For rate-based controllers only.
    delivery: Option<Box<DeliveryRate>>,
    /// Only where it is configured.
    resume: Option<Box<Resume>>,
    pto_count: u32,
    /// A recovery period has begun with a loss: one packet may leave whatever the window says.
    retransmit: bool,
    retired: bool,
}

/// What an acknowledgement acknowledges for the first time.
#[derive(Copy, Clone)]
struct Newly {
    /// Ack-eliciting bytes.
    bytes: u64,
    eliciting: bool,
    number: u64,
    sent: Time,
    app_limited: bool,
}

impl Newly {
    /// One packet, which is ack-eliciting.
    #[inline(always)]
    fn one<P>(number: u64, at: Time, packet: &Sent<P>) -> Self {
        Newly {
            bytes: u64::from(packet.bytes),
            eliciting: true,
            number,
            sent: at,
            app_limited: packet.app_limited,
        }
    }
}

impl<P> Sender<P> {
    /// A sender that adds itself to `controller` as a new path.
    pub fn new<C: Controller + ?Sized>(
        config: SenderConfig,
        now: Time,
        controller: &mut C,
    ) -> Self {
        let mut config = config.sane();
        config.pacing |= controller.rate_based();
        let slot = controller.add_path(NewPath {
            now,
            initial_window: config.initial_window,
            packet_size: config.packet_size,
            initial_rtt: config.initial_rtt,
        });
        let mut sender = Sender {
            slot,
            retired: false,
            rtt: Rtt::new(config.initial_rtt),
            flight: Flight::new(),
            recovery: Recovery::new(&config),
            pacer: Pacer::new(now, config.packet_size),
            pto_count: 0,
            pto_from: now,
            round_end: 0,
            round_began: now,
            stretch: 1.0,
            peak: [0; 2],
            ce_count: 0,
            retransmit: false,
            delivery: controller.rate_based().then(Box::default),
            resume: Resume::of(&config, now),
            stats: SenderStats::default(),
            config,
        };
        sender.update_pacer(controller);
        sender
    }

    /// Takes the path from `controller` and yields what was still in flight, oldest first. From
    /// then on the sender permits nothing and tells the controller nothing.
    pub fn retire<C: Controller + ?Sized>(
        &mut self,
        controller: &mut C,
    ) -> impl Iterator<Item = P> + use<P, C> {
        if !self.retired {
            self.retired = true;
            controller.remove_path(self.slot);
        }
        self.recovery.stop();
        self.flight.drain()
    }

    /// The path is opened again: it gets a new place in `controller`, and its window, round-trip
    /// time and recovery begin anew. What is in flight is forgotten. Packet numbers and counters go
    /// on, so that acknowledgements of the life before do no harm.
    pub fn reopen<C: Controller + ?Sized>(&mut self, now: Time, controller: &mut C) {
        self.retire(controller).for_each(drop);
        let (stats, ce_count) = (self.stats, self.ce_count);
        let next = self.flight.next();
        // It may lead elsewhere.
        let config = SenderConfig {
            remembered: None,
            ..self.config
        };
        *self = Sender::new(config, now, controller).starting_at(next);
        // The peer counts its marks on, too.
        (self.stats, self.ce_count) = (stats, ce_count);
    }

    /// The path leads to another address from now on: what is in flight went where nobody is any
    /// more. It is handed out as lost, and the controller isn't told: that is no sign of congestion
    /// (RFC 9000 §9.4). Window and round-trip time stay.
    pub fn abandon_flight(&mut self, now: Time, outcome: &mut Outcome<P>) {
        let next = self.flight.next();
        self.recovery.skip_to(next);
        let before = outcome.lost.len();
        let numbers = self.flight.drain_numbered();
        outcome.lost.extend(numbers);
        self.stats.packets_lost += (outcome.lost.len() - before) as u64;
        self.pto_count = 0;
        self.pto_from = now;
        self.retransmit = false;
    }

    /// Full packets have this size from now on, in bytes. The window stays what it is in bytes.
    pub fn set_packet_size<C: Controller + ?Sized>(&mut self, bytes: u32, controller: &mut C) {
        let bytes = bytes.max(1);
        if bytes == self.config.packet_size {
            return;
        }
        self.config.packet_size = bytes;
        self.pacer.set_packet_size(bytes);
        if !self.retired {
            controller.set_packet_size(self.slot, bytes);
            self.update_pacer(controller);
        }
    }

    /// A sender that hasn't sent anything yet, whose first packet will have this number: the ones
    /// before were sent by other means.
    #[must_use]
    pub fn starting_at(mut self, number: u64) -> Self {
        self.flight = Flight::starting_at(number);
        self
    }

    /// The path's slot in its controller.
    #[inline]
    pub fn slot(&self) -> Slot {
        self.slot
    }

    /// Whether and how much may be sent at `now`. Probes and packets that elicit no acknowledgement
    /// need no permit.
    #[inline]
    pub fn permit<C: Controller + ?Sized>(&self, now: Time, controller: &C) -> Permit {
        self.permit_within(now, controller.window(self.slot))
    }

    /// [`Sender::permit`] for a caller that knows the path's window already, in packets.
    #[inline]
    pub fn permit_within(&self, now: Time, window: f64) -> Permit {
        if self.retired {
            return Permit::WindowFull;
        }
        if self.pto_count > 0 && self.has_tcp_timer() {
            // The loss window (RFC 5681 §3.1).
            return match self.flight.packets() {
                0 => Permit::Now { packets: 1 },
                _ => Permit::WindowFull,
            };
        }
        let size = f64::from(self.config.packet_size);
        // A window that rounding left a hair below a whole packet counts as whole.
        let room = (window + 1e-6) * size - self.flight.bytes() as i64 as f64;
        // No number is no window.
        if room < size || room.is_nan() {
            // Without it, nothing would leave for half a round trip after a cut, and recovery last
            // that much longer.
            return match self.retransmit {
                true => Permit::Now { packets: 1 },
                false => Permit::WindowFull,
            };
        }
        // Mostly it is one packet, and divisions are slow.
        let packets = if room < 2.0 * size {
            1
        } else {
            whole_packets(room, size)
        };
        if self.config.pacing {
            self.pacer.permit(now, packets)
        } else {
            Permit::Now { packets }
        }
    }

    /// Acknowledgements of packets below this number say nothing any more: their fate is known, and
    /// none of them is remembered as lost.
    pub fn settled(&mut self, now: Time) -> u64 {
        let open = self.flight.oldest();
        let lost = self.recovery.oldest_remembered(now, &self.rtt);
        lost.map_or(open, |lost| lost.min(open))
    }

    /// The number that the next packet will have.
    #[inline]
    pub fn next_packet_number(&self) -> u64 {
        self.flight.next()
    }

    /// Notes that a packet was sent and returns its number: consecutive, from 0.
    #[inline(always)]
    pub fn on_sent(&mut self, now: Time, packet: Sent<P>) -> u64 {
        self.stats.packets_sent += 1;
        self.stats.bytes_sent += u64::from(packet.bytes);
        if packet.ack_eliciting {
            if std::mem::take(&mut self.retransmit) {
                self.recovery.on_opened(self.flight.next());
            }
            if self.flight.packets() == 0 || !self.has_tcp_timer() {
                self.pto_from = now;
            }
            if self.config.pacing {
                self.pacer.on_sent(now, packet.bytes);
            }
        }
        if self.delivery.is_some() {
            self.measure_sent(now, &packet);
        }
        let number = self.flight.push(now, packet);
        self.peak[1] = self.peak[1].max(self.flight.bytes());
        number
    }

    /// When [`Sender::on_timeout`] must be called, if nothing else happens before.
    #[inline(always)]
    pub fn timeout(&self) -> Option<Time> {
        match self.recovery.loss_time() {
            Some(at) => Some(at),
            None => self.pto_time(),
        }
    }

    /// The time given by [`Sender::timeout`] has come; harmless at any other time.
    pub fn on_timeout<C: Controller + ?Sized>(
        &mut self,
        now: Time,
        controller: &mut C,
        outcome: &mut Outcome<P>,
    ) -> TimerEvent {
        if let Some(due) = self.recovery.loss_time() {
            if due <= now && self.detect_losses(now, controller, outcome) {
                self.update_pacer(controller);
                return TimerEvent::LossDetected;
            }
            return TimerEvent::Nothing;
        }
        match self.pto_time() {
            Some(due) if due <= now => {
                self.pto_count = self.pto_count.saturating_add(1);
                self.pto_from = now;
                self.stats.timeouts += 1;
                if self.has_tcp_timer() {
                    self.expire(now, controller, outcome);
                    return TimerEvent::Expired;
                }
                TimerEvent::Probe {
                    count: self.pto_count,
                }
            }
            _ => TimerEvent::Nothing,
        }
    }

    /// The probe timeout without backoff: `smoothed + max(4·variance, 1 ms) + max_ack_delay`
    /// (RFC 9002 §6.2.1).
    pub fn pto(&self) -> Duration {
        self.rtt.pto_base() + self.config.max_ack_delay
    }

    /// Consecutive probe timeouts without an acknowledgement.
    #[inline]
    pub fn pto_count(&self) -> u32 {
        self.pto_count
    }

    /// The round-trip time estimate.
    #[inline]
    pub fn rtt(&self) -> &Rtt {
        &self.rtt
    }

    /// Takes a round-trip time measured by other means, say the handshake or a path challenge.
    /// Ignored once an acknowledgement has given one.
    pub fn seed_rtt(&mut self, rtt: Duration) {
        if !self.rtt.has_sample() {
            self.rtt.update(rtt, Duration::ZERO);
            self.recovery.on_first_sample(self.flight.next());
            self.pacer.set_rtt(self.rtt.smoothed_nanos());
        }
    }

    /// Bytes of ack-eliciting packets neither acknowledged nor lost.
    pub fn bytes_in_flight(&self) -> u64 {
        self.flight.bytes()
    }

    /// Ack-eliciting packets neither acknowledged nor lost.
    pub fn packets_in_flight(&self) -> u64 {
        self.flight.packets()
    }

    /// Packets whose fate is open, those that ask for no acknowledgement included: what the sender
    /// remembers.
    #[inline]
    pub fn unsettled(&self) -> usize {
        self.flight.entries()
    }

    /// Packets in flight with their numbers, oldest first.
    pub fn outstanding(&self) -> impl Iterator<Item = (u64, &Sent<P>)> {
        self.flight.iter_from(0)
    }

    /// Packets in flight with their numbers, oldest first, from packet `number` on. Starts in O(1).
    pub fn outstanding_from(&self, number: u64) -> impl Iterator<Item = (u64, &Sent<P>)> {
        self.flight.iter_from(number)
    }

    /// What packets in flight carry, with their numbers, oldest first, from packet `number` on: for
    /// an owner that sends a part of it again and wants that back only once. Starts in O(1).
    pub fn payloads_from(&mut self, number: u64) -> impl Iterator<Item = (u64, &mut P)> {
        self.flight.payloads_from(number)
    }

    /// The number of the first packet that was sent after `at`: in O(log n).
    pub fn first_sent_after(&self, at: Time) -> u64 {
        self.flight.first_after(at)
    }

    /// The configuration.
    #[inline]
    pub fn config(&self) -> &SenderConfig {
        &self.config
    }

    /// Counters since the path began.
    pub fn stats(&self) -> SenderStats {
        self.stats
    }

    #[inline]
    fn update_pacer<C: Controller + ?Sized>(&mut self, controller: &C) {
        // Controllers that say at which rate to send are paced always.
        if self.config.pacing {
            self.set_pacer(controller);
        }
    }

    #[inline]
    fn set_pacer<C: Controller + ?Sized>(&mut self, controller: &C) {
        if let Some(rate) = controller.pacing_rate(self.slot) {
            self.pacer.set_rate(rate);
        } else {
            let gain = if self.resume.as_ref().is_some_and(|resume| resume.spreads()) {
                1.0
            } else if controller.in_slow_start(self.slot) {
                2.0
            } else {
                1.25
            };
            let window = controller.window(self.slot);
            let bytes = window * f64::from(self.config.packet_size);
            self.pacer.set(gain * bytes, self.pacing_round(window));
        }
    }

    /// A round ends. What it took says nothing where the window wasn't used.
    #[inline]
    fn time_round(&mut self, now: Time, app_limited: bool) {
        // A clock without resolution measures round trips of no time.
        let rtt = self.rtt.smoothed_nanos().max(1_000) as f64;
        let took = match app_limited {
            true => 1.0,
            false => nanos(now.since(self.round_began)) as f64 / rtt,
        };
        // A single long round, of a pause or a timeout, doesn't make rounds bursty.
        let took = took.min((4.0 * BURSTY - 3.0) * self.stretch);
        self.stretch = 0.75 * self.stretch + 0.25 * took;
        self.round_began = now;
    }

    /// In this time, in ns, a window leaves at a gain of 1: the smoothed round-trip time. Where
    /// acknowledgements come in bursts (satellites, Wi-Fi that saves power), the last of a burst
    /// measures a round trip that is much shorter than the time from burst to burst, and the window
    /// would leave as a burst, too. An initial window may (RFC 9002 §7.7): a small window's rounds
    /// are long anyway, by the time between two of its packets.
    #[inline]
    fn pacing_round(&self, window: f64) -> u64 {
        let rtt = self.rtt.smoothed_nanos();
        match self.stretch > BURSTY && window > self.config.initial_window {
            true => (rtt as f64 * self.stretch) as u64,
            false => rtt,
        }
    }
}

/// On its own, or it would be computed for every single packet, too.
#[cold]
fn whole_packets(room: f64, size: f64) -> u32 {
    (room / size) as u32
}

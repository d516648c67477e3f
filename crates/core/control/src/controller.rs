//! What a controller is: the calls that a sender makes and the windows that it reads. No controller
//! is defined here.

use std::fmt::Debug;
use std::time::Duration;

use manyway_units::Time;

/// A path's place in its controller. Dense, and given to another path once this one is removed.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Slot(pub(crate) usize);

impl Slot {
    /// The slot as an index from 0.
    pub fn index(self) -> usize {
        self.0
    }
}

/// A path to be added to a controller.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct NewPath {
    /// When the path is added.
    pub now: Time,
    /// The window to start from, in packets.
    pub initial_window: f64,
    /// What one packet of the window stands for, in bytes. Laws compare bytes where paths differ.
    pub packet_size: u32,
    /// The round-trip time to assume until the first acknowledgement.
    pub initial_rtt: Duration,
}

/// Packets of one path were acknowledged.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Ack {
    /// The path.
    pub slot: Slot,
    /// When the acknowledgement arrived.
    pub now: Time,
    /// Newly acknowledged, in packets: bytes over the path's packet size.
    pub packets: f64,
    /// The round-trip time this acknowledgement measured, the peer's delay taken off; the smoothed
    /// one if it measured none.
    pub rtt: Duration,
    /// Whether `rtt` is a measurement.
    pub rtt_sampled: bool,
    /// The smoothed round-trip time.
    pub smoothed_rtt: Duration,
    /// The smallest round-trip time seen.
    pub min_rtt: Duration,
    /// When the largest newly acknowledged packet was sent, by our clock.
    pub sent: Time,
    /// When it arrived, by the receiver's clock; `None` if the peer didn't say.
    pub received: Option<Time>,
    /// The window wasn't used up when these packets were sent: it must not grow (RFC 9002 §7.8).
    pub app_limited: bool,
    /// These packets were sent before the last window cut: the window must not grow (RFC 9002
    /// §7.3.2), unless [`Options::growth_in_recovery`](crate::Options::growth_in_recovery) says so.
    pub in_recovery: bool,
    /// How fast packets are delivered; only for controllers that are
    /// [rate-based](Controller::rate_based).
    pub delivery: Option<Delivery>,
}

impl Ack {
    /// The one-way delay of the largest newly acknowledged packet plus an unknown constant (the
    /// difference of the two clocks), in seconds; `None` if the peer didn't say when it arrived.
    pub fn one_way(&self) -> Option<f64> {
        Some(self.received?.as_secs_f64() - self.sent.as_secs_f64())
    }
}

/// A sample of the rate at which a path delivers, taken from the newest packet that an
/// acknowledgement acknowledges (draft-ietf-ccwg-bbr §4.1). Only ack-eliciting packets count.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Bytes acknowledged on this path so far.
    pub delivered: u64,
    /// What `delivered` was when the packet was sent.
    pub delivered_before: u64,
    /// In this time the difference of the two was sent, and acknowledged: the longer of both.
    pub interval: Duration,
    /// While the packet was under way, the path could have carried more than it was given.
    pub app_limited: bool,
    /// The path had been idle, and this is the first acknowledgement since.
    pub restarted: bool,
    /// Bytes in flight just after the packet was sent.
    pub in_flight_then: u64,
    /// Bytes declared lost since the packet was sent.
    pub lost: u64,
    /// Bytes in flight now.
    pub in_flight: u64,
    /// The most bytes in flight in this round trip and the one before.
    pub peak: u64,
}

impl Delivery {
    /// Bytes delivered in `interval`.
    #[inline]
    pub fn volume(&self) -> u64 {
        self.delivered - self.delivered_before
    }

    /// The delivery rate, bytes/s; `None` if the clock has no resolution for it.
    #[inline]
    pub fn rate(&self) -> Option<f64> {
        let seconds = self.interval.as_secs_f64();
        (seconds > 0.0).then(|| self.volume() as f64 / seconds)
    }
}

/// How slow start goes on from a window that was set ([`Controller::set_window`]).
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum Target {
    /// As before.
    Unchanged,
    /// From this window on, in packets, a quarter as fast.
    Known(f64),
    /// Up to this window, in packets, if it isn't over yet.
    Threshold(f64),
}

/// A packet that was declared lost.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct LostPacket {
    /// Its path.
    pub slot: Slot,
    /// When it was declared lost.
    pub now: Time,
    /// Its number: consecutive in the order of sending.
    pub number: u64,
    /// Its size.
    pub bytes: u64,
    /// Bytes acknowledged on the path so far.
    pub delivered: u64,
    /// Bytes in flight just after it was sent.
    pub in_flight_then: u64,
    /// Bytes declared lost since it was sent, its own included.
    pub lost: u64,
    /// When it was sent, the path could have carried more than it was given.
    pub app_limited: bool,
}

/// A loss event: packets of one path were lost (or marked, for [`Controller::on_ecn`]). The sender
/// sees to it that a path has at most one per round trip.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Loss {
    /// The path.
    pub slot: Slot,
    /// When the loss was detected.
    pub now: Time,
    /// When the newest of the lost (or marked) packets was sent.
    pub sent: Time,
    /// How many were declared lost at once, in packets; 0 for a mark.
    pub packets: f64,
}

/// A round trip's worth of packets was acknowledged: everything that was in flight when the round
/// began. Comes after the [`Controller::on_ack`] that completed it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Round {
    /// The path.
    pub slot: Slot,
    /// When the round ended.
    pub now: Time,
}

/// Whether a path is still worth having, as its controller sees it.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PathVerdict {
    /// Nothing speaks against the path.
    #[default]
    Keep,
    /// The path shares a bottleneck with a better one, which has taken all but its last packet
    /// over: close it.
    Drained,
    /// The path has stopped delivering (persistent congestion), and the law has no use for such a
    /// path: close it.
    TimedOut,
}

/// Owner of the congestion windows of all paths of one connection.
///
/// Calls that name a slot which isn't in use are ignored, so that a late call can't do harm.
pub trait Controller: Send + Debug {
    /// The controller's name in the registry.
    fn name(&self) -> &'static str;

    /// Whether the parameters suit a connection with this many paths. Advice for those who know the
    /// number beforehand: [`Controller::add_path`] takes any path.
    ///
    /// # Errors
    /// What doesn't fit, and how to mend it.
    fn check_paths(&self, count: usize) -> Result<(), String> {
        let _ = count;
        Ok(())
    }

    /// Whether the controller works from a model of each path: its senders measure the delivery
    /// rate for it ([`Ack::delivery`], [`Controller::on_packet_lost`]), and always pace, at the
    /// rate that it says ([`Controller::pacing_rate`]).
    fn rate_based(&self) -> bool {
        false
    }

    /// Adds a path and returns its slot.
    fn add_path(&mut self, path: NewPath) -> Slot;

    /// Removes a path; its slot may be used again.
    fn remove_path(&mut self, slot: Slot);

    /// The path's packets have `bytes` bytes from now on. Its window stays what it is in bytes, as
    /// far as its floor allows.
    fn set_packet_size(&mut self, slot: Slot, bytes: u32);

    /// Sets the window, which may go beyond what the path is known to carry (careful resume, RFC
    /// 9959). `false`: the controller doesn't do that.
    fn set_window(&mut self, slot: Slot, window: f64, target: Target) -> bool {
        let _ = (slot, window, target);
        false
    }

    /// Packets were acknowledged.
    fn on_ack(&mut self, ack: &Ack);

    /// Packets were lost: cut the window.
    fn on_loss(&mut self, loss: &Loss);

    /// More packets were lost that were sent before the last cut: the same loss event, so the
    /// window stays.
    fn on_further_loss(&mut self, loss: &Loss) {
        let _ = loss;
    }

    /// A packet was lost; after the [`Controller::on_loss`] or [`Controller::on_further_loss`] that
    /// counts it. Rate-based controllers only.
    fn on_packet_lost(&mut self, packet: &LostPacket) {
        let _ = packet;
    }

    /// So many packets came marked Congestion Experienced, whether that is a loss event or not;
    /// comes before [`Controller::on_ecn`] and [`Controller::on_ack`].
    fn on_marked(&mut self, slot: Slot, packets: f64) {
        let _ = (slot, packets);
    }

    /// Packets came marked Congestion Experienced: a loss event in which nothing was lost.
    fn on_ecn(&mut self, loss: &Loss) {
        self.on_loss(loss);
    }

    /// Persistent congestion (RFC 9002 §7.6): the window goes to its minimum and slow starts again.
    fn on_timeout(&mut self, slot: Slot, now: Time);

    /// All packets of the path's last loss event have arrived after all, late: the window, its
    /// threshold and what the law remembers of the path become what they would be without the cut,
    /// or stay if they are beyond that by now. Comes at most once for an event, and before the
    /// acknowledgement that brought it.
    fn on_spurious_loss(&mut self, slot: Slot, now: Time);

    /// A round trip has passed.
    fn on_round_end(&mut self, round: &Round);

    /// The path's congestion window, in packets; finite, and 0 for a slot not in use.
    fn window(&self, slot: Slot) -> f64;

    /// Whether the path is below its slow-start threshold.
    fn in_slow_start(&self, slot: Slot) -> bool;

    /// The rate at which packets may leave, bytes/s; `None` leaves it to the sender, which spreads
    /// a window over somewhat less than a round trip.
    fn pacing_rate(&self, slot: Slot) -> Option<f64> {
        let _ = slot;
        None
    }

    /// Whether the path is worth keeping. Advice: windows stay sound if nobody follows it. It
    /// changes with losses and timeouts only, of any path of the connection, so that is when to
    /// ask; [`crate::paths::PathManager`] knows what to do with the answer.
    fn verdict(&self, slot: Slot) -> PathVerdict {
        let _ = slot;
        PathVerdict::Keep
    }

    /// Paths with the same number share a bottleneck, as far as the law knows and treats them so.
    /// `None` if it forms no groups, or for a slot not in use.
    fn group(&self, slot: Slot) -> Option<usize> {
        let _ = slot;
        None
    }
}

impl<C: Controller + ?Sized> Controller for Box<C> {
    fn name(&self) -> &'static str {
        (**self).name()
    }
    fn check_paths(&self, count: usize) -> Result<(), String> {
        (**self).check_paths(count)
    }
    fn rate_based(&self) -> bool {
        (**self).rate_based()
    }
    fn add_path(&mut self, path: NewPath) -> Slot {
        (**self).add_path(path)
    }
    fn remove_path(&mut self, slot: Slot) {
        (**self).remove_path(slot);
    }
    fn set_packet_size(&mut self, slot: Slot, bytes: u32) {
        (**self).set_packet_size(slot, bytes);
    }
    fn set_window(&mut self, slot: Slot, window: f64, target: Target) -> bool {
        (**self).set_window(slot, window, target)
    }
    fn on_ack(&mut self, ack: &Ack) {
        (**self).on_ack(ack);
    }
    fn on_loss(&mut self, loss: &Loss) {
        (**self).on_loss(loss);
    }
    fn on_further_loss(&mut self, loss: &Loss) {
        (**self).on_further_loss(loss);
    }
    fn on_packet_lost(&mut self, packet: &LostPacket) {
        (**self).on_packet_lost(packet);
    }
    fn on_marked(&mut self, slot: Slot, packets: f64) {
        (**self).on_marked(slot, packets);
    }
    fn on_ecn(&mut self, loss: &Loss) {
        (**self).on_ecn(loss);
    }
    fn on_timeout(&mut self, slot: Slot, now: Time) {
        (**self).on_timeout(slot, now);
    }
    fn on_spurious_loss(&mut self, slot: Slot, now: Time) {
        (**self).on_spurious_loss(slot, now);
    }
    fn on_round_end(&mut self, round: &Round) {
        (**self).on_round_end(round);
    }
    fn window(&self, slot: Slot) -> f64 {
        (**self).window(slot)
    }
    fn in_slow_start(&self, slot: Slot) -> bool {
        (**self).in_slow_start(slot)
    }
    fn pacing_rate(&self, slot: Slot) -> Option<f64> {
        (**self).pacing_rate(slot)
    }
    fn verdict(&self, slot: Slot) -> PathVerdict {
        (**self).verdict(slot)
    }
    fn group(&self, slot: Slot) -> Option<usize> {
        (**self).group(slot)
    }
}

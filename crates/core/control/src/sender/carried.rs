//! The sender of a path that controls congestion itself, such as a TCP connection: it measures what
//! arrives and holds back what the carrier can't take. It has no window and declares nothing lost.

use std::time::Duration;

use manyway_units::{Bucket, Time};

use super::flight::Flight;
use super::types::{AckError, AckInfo, Outcome, Permit, SenderStats, Sent, TimerEvent};
use crate::rtt::Rtt;

/// No acknowledgement for this long, or for three round trips if that is longer, and the carrier
/// counts as stuck.
const PATIENCE: Duration = Duration::from_secs(1);
/// The carrier's rate is measured over so long, or a round trip if that is longer.
const RATE_WINDOW: Duration = Duration::from_millis(50);
/// Unwritten bytes that the owner may hold: so much time at the carrier's rate, between so many
/// packets.
const UNWRITTEN: Duration = Duration::from_millis(20);
const UNWRITTEN_PACKETS: [u64; 2] = [2, 16];
/// How long a path that is held to a rate may save up.
const BURST: Duration = Duration::from_millis(20);
const BURST_PACKETS: f64 = 2.0;

/// How a [`Carried`] behaves.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct CarriedConfig {
    /// Bytes of a full packet.
    pub packet_size: u32,
    /// The round-trip time to assume before the first sample.
    pub initial_rtt: Duration,
    /// The longest that the peer holds back an acknowledgement on purpose.
    pub max_ack_delay: Duration,
    /// Bytes sent and not acknowledged, at the most.
    pub max_in_flight: u64,
}

/// What has arrived at the receiver, by its acknowledgements.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Arrived {
    /// Bytes of ack-eliciting packets, up to the newest acknowledged one.
    pub bytes: u64,
    /// When that one arrived, by the peer's clock.
    pub at: Option<Time>,
}

/// The sender of a path that is reliable, ordered and controls congestion itself, such as a TCP
/// connection.
///
/// It numbers packets, keeps what they carry until the peer has acknowledged it, and measures.
/// There is no window, no pacing, no loss detection and no probe timeout: what was handed over
/// arrives, or the carrier breaks ([`Carried::drain`]), or it is stuck: no acknowledgement for
/// max(1 s, 3 round trips), of which [`Carried::on_timeout`] tells. What may be sent is bounded by
/// what the owner still has to write, by what is in flight, and by the path's rate if it has one
/// ([`Carried::set_rate`]).
#[derive(Debug)]
pub struct Carried<P> {
    config: CarriedConfig,
    rtt: Rtt,
    flight: Flight<P>,
    bucket: Option<Bucket>,
    /// Bytes that the owner hasn't been able to write yet.
    unwritten: u64,
    /// The last time that something was acknowledged, or that the flight began.
    progress: Time,
    timeouts: u32,
    arrived: Arrived,
    rate: Option<f64>,
    window: RateWindow,
    stats: SenderStats,
}

/// A measurement of the carrier's rate under way.
#[derive(Copy, Clone, Debug)]
struct RateWindow {
    since: Time,
    bytes: u64,
    /// There was nothing more to send in it.
    idle: bool,
}

impl<P> Carried<P> {
    /// A sender that hasn't sent anything.
    pub fn new(config: CarriedConfig, now: Time) -> Self {
        let config = CarriedConfig {
            packet_size: config.packet_size.max(1),
            ..config
        };
        Carried {
            rtt: Rtt::new(config.initial_rtt.max(Duration::from_micros(1))),
            config,
            flight: Flight::new(),
            bucket: None,
            unwritten: 0,
            progress: now,
            timeouts: 0,
            arrived: Arrived::default(),
            rate: None,
            window: RateWindow {
                since: now,
                bytes: 0,
                idle: true,
            },
            stats: SenderStats::default(),
        }
    }

    /// Whether and how much may be sent at `now`.
    pub fn permit(&self, now: Time) -> Permit {
        let size = u64::from(self.config.packet_size);
        let unwritten = self.most_unwritten().saturating_sub(self.unwritten);
        let in_flight = self
            .config
            .max_in_flight
            .saturating_sub(self.flight.bytes());
        let packets = unwritten.min(in_flight) / size;
        if packets == 0 {
            return Permit::WindowFull;
        }
        let Some(bucket) = &self.bucket else {
            return Permit::Now {
                packets: packets as u32,
            };
        };
        match bucket.permit(now, size as f64) {
            Ok(()) => {
                let tokens = (bucket.tokens(now) / size as f64).max(1.0) as u64;
                Permit::Now {
                    packets: packets.min(tokens) as u32,
                }
            }
            Err(Time::MAX) => Permit::WindowFull,
            Err(at) => Permit::Paced(at),
        }
    }

    /// Whether another small packet may be handed over whatever [`Carried::permit`] says:
    /// acknowledgements go on while data waits, but what nobody writes is bounded.
    pub fn takes_small(&self) -> bool {
        self.unwritten < 2 * self.most_unwritten()
    }

    /// Packets whose fate is open: what the sender remembers.
    pub fn unsettled(&self) -> usize {
        self.flight.entries()
    }

    /// Acknowledgements of packets below this number say nothing any more.
    pub fn settled(&self) -> u64 {
        self.flight.oldest()
    }

    /// The number that the next packet will have.
    pub fn next_packet_number(&self) -> u64 {
        self.flight.next()
    }

    /// Notes that a packet was handed over; its number.
    pub fn on_sent(&mut self, now: Time, packet: Sent<P>) -> u64 {
        let bytes = u64::from(packet.bytes);
        self.stats.packets_sent += 1;
        self.stats.bytes_sent += bytes;
        self.unwritten += bytes;
        if packet.ack_eliciting {
            if self.flight.packets() == 0 {
                self.progress = now;
            }
            if let Some(bucket) = &mut self.bucket {
                bucket.spend(now, bytes as f64);
            }
            self.window.idle |= packet.app_limited;
        }
        self.flight.push(now, packet)
    }

    /// So many bytes more were written to the carrier.
    pub fn on_written(&mut self, bytes: u64) {
        self.unwritten = self.unwritten.saturating_sub(bytes);
    }

    /// Takes an acknowledgement. Nothing is ever lost by one.
    ///
    /// # Errors
    /// [`AckError`] if it acknowledges a packet that was never sent or contradicts itself; nothing
    /// has changed then.
    pub fn on_ack(
        &mut self,
        now: Time,
        ack: AckInfo<'_>,
        outcome: &mut Outcome<P>,
    ) -> Result<(), AckError> {
        ack.check(self.flight.next())?;
        let mut newest: Option<(u64, Time)> = None;
        let mut bytes = 0;
        for range in ack.ranges.iter().rev() {
            self.flight.acknowledge(range.clone(), |number, at, sent| {
                if sent.ack_eliciting {
                    bytes += u64::from(sent.bytes);
                    newest = Some((number, at));
                }
                outcome.acked.push((number, sent.payload));
            });
        }
        // What is settled at the front needn't be remembered.
        while self
            .flight
            .front()
            .is_some_and(|(_, entry)| entry.sent.as_ref().is_none_or(|sent| !sent.ack_eliciting))
            && self
                .flight
                .front()
                .is_some_and(|(number, _)| number <= ack.largest)
        {
            self.flight.pop();
        }
        let Some((number, sent)) = newest else {
            return Ok(());
        };
        if self.stats.bytes_acked == 0 {
            // Nothing could arrive before the first packet did.
            self.window.since = now;
        } else {
            self.window.bytes += bytes;
        }
        self.stats.bytes_acked += bytes;
        self.arrived.bytes += bytes;
        self.progress = now;
        self.timeouts = 0;
        if number == ack.largest {
            self.arrived.at = ack.receive_time;
            let delay = ack.delay.min(self.config.max_ack_delay);
            self.rtt.update(now.since(sent), delay);
        }
        self.measure(now);
        Ok(())
    }

    /// When [`Carried::on_timeout`] must be called, if nothing is acknowledged before.
    pub fn timeout(&self) -> Option<Time> {
        (self.flight.packets() > 0).then(|| {
            let patience = PATIENCE.max(3 * self.rtt.smoothed());
            self.progress + patience * (self.timeouts + 1)
        })
    }

    /// The time given by [`Carried::timeout`] has come; harmless at any other time. The count is of
    /// timeouts without progress.
    pub fn on_timeout(&mut self, now: Time) -> TimerEvent {
        if self.timeout().is_none_or(|due| due > now) {
            return TimerEvent::Nothing;
        }
        self.timeouts = self.timeouts.saturating_add(1);
        self.stats.timeouts += 1;
        TimerEvent::Probe {
            count: self.timeouts,
        }
    }

    /// Consecutive timeouts without an acknowledgement.
    pub fn timeouts(&self) -> u32 {
        self.timeouts
    }

    /// Holds the path to a rate from `now` on, bytes/s; `None` leaves it to the carrier.
    pub fn set_rate(&mut self, now: Time, rate: Option<f64>) {
        let Some(rate) = rate else {
            self.bucket = None;
            return;
        };
        let least = BURST_PACKETS * f64::from(self.config.packet_size);
        let burst = least.max(rate * BURST.as_secs_f64());
        match &mut self.bucket {
            Some(bucket) => {
                bucket.set_rate(now, rate);
                bucket.set_burst(burst);
            }
            None => self.bucket = Some(Bucket::new(rate, burst, now)),
        }
    }

    /// The rate that the path is held to, bytes/s.
    pub fn target(&self) -> Option<f64> {
        self.bucket.as_ref().map(Bucket::rate)
    }

    /// What has arrived.
    pub fn arrived(&self) -> Arrived {
        self.arrived
    }

    /// The rate at which the carrier has been delivering, bytes/s; `None` before anything was
    /// measured.
    pub fn rate(&self) -> Option<f64> {
        self.rate
    }

    /// How long it would take a packet that is handed over now to arrive: the carrier's shortest
    /// round trip, and what waits before it, which is what is in flight beyond a round trip's
    /// worth.
    pub fn delivery(&self) -> Duration {
        let Some(rate) = self.rate.filter(|rate| *rate > 0.0) else {
            return self.rtt.smoothed();
        };
        let shortest = self.rtt.min();
        let waiting = self.flight.bytes() as f64 - rate * shortest.as_secs_f64();
        // A rate near 0 is no reason for a duration that doesn't exist.
        shortest + Duration::from_secs_f64((waiting / rate).clamp(0.0, 1e6))
    }

    /// Bytes that the owner hasn't written yet.
    pub fn unwritten(&self) -> u64 {
        self.unwritten
    }

    /// The round-trip time, the carrier's own queue included.
    pub fn rtt(&self) -> &Rtt {
        &self.rtt
    }

    /// Takes a round-trip time measured by other means, as long as there is none.
    pub fn seed_rtt(&mut self, rtt: Duration) {
        if !self.rtt.has_sample() {
            self.rtt.update(rtt, Duration::ZERO);
        }
    }

    /// Bytes of ack-eliciting packets not acknowledged.
    pub fn bytes_in_flight(&self) -> u64 {
        self.flight.bytes()
    }

    /// Ack-eliciting packets not acknowledged.
    pub fn packets_in_flight(&self) -> u64 {
        self.flight.packets()
    }

    /// As [`Sender::first_sent_after`](crate::Sender::first_sent_after).
    pub fn first_sent_after(&self, at: Time) -> u64 {
        self.flight.first_after(at)
    }

    /// As [`Sender::payloads_from`](super::Sender::payloads_from).
    pub fn payloads_from(&mut self, number: u64) -> impl Iterator<Item = (u64, &mut P)> {
        self.flight.payloads_from(number)
    }

    /// The carrier is gone: yields what was in flight, oldest first.
    pub fn drain(&mut self) -> impl Iterator<Item = P> + use<P> {
        self.flight.drain()
    }

    /// The configuration.
    pub fn config(&self) -> &CarriedConfig {
        &self.config
    }

    /// Counters since the path began.
    pub fn stats(&self) -> SenderStats {
        self.stats
    }

    fn most_unwritten(&self) -> u64 {
        let size = u64::from(self.config.packet_size);
        let bytes = self.rate.unwrap_or(0.0) * UNWRITTEN.as_secs_f64();
        (bytes as u64).clamp(UNWRITTEN_PACKETS[0] * size, UNWRITTEN_PACKETS[1] * size)
    }

    /// A smoothed rate of what is acknowledged. An idle while only ever raises it.
    fn measure(&mut self, now: Time) {
        let elapsed = now.since(self.window.since);
        let least = RATE_WINDOW.max(self.rtt.min());
        if elapsed < least {
            return;
        }
        let found = self.window.bytes as f64 / elapsed.as_secs_f64();
        // A long window weighs as much as the short ones that it lasted.
        let windows = elapsed.as_secs_f64() / least.as_secs_f64();
        let known_weighs = 0.75_f64.powf(windows);
        self.rate = match self.rate {
            None => Some(found),
            Some(known) if self.window.idle && found < known => Some(known),
            Some(known) => Some(known_weighs * known + (1.0 - known_weighs) * found),
        };
        self.window = RateWindow {
            since: now,
            bytes: 0,
            idle: self.flight.packets() == 0,
        };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CONFIG: CarriedConfig = CarriedConfig {
        packet_size: 1000,
        initial_rtt: Duration::from_millis(333),
        max_ack_delay: Duration::from_millis(10),
        max_in_flight: 10_000,
    };

    fn packet(payload: u32) -> Sent<u32> {
        Sent {
            bytes: 1000,
            ack_eliciting: true,
            app_limited: false,
            payload,
        }
    }

    fn ack(
        sender: &mut Carried<u32>,
        now: Time,
        range: std::ops::RangeInclusive<u64>,
    ) -> Result<Vec<u32>, AckError> {
        let mut outcome = Outcome::default();
        let info = AckInfo {
            largest: *range.end(),
            ranges: &[range],
            delay: Duration::ZERO,
            ce_count: None,
            receive_time: Some(now),
            elsewhere: false,
        };
        sender.on_ack(now, info, &mut outcome)?;
        assert!(outcome.lost.is_empty());
        Ok(outcome.acked.into_iter().map(|(_, p)| p).collect())
    }

    #[test]
    fn unwritten_bytes_and_the_flight_are_bounded() {
        let mut sender = Carried::new(CONFIG, Time::ZERO);
        let mut handed = 0;
        while let Permit::Now { .. } = sender.permit(Time::ZERO) {
            sender.on_sent(Time::ZERO, packet(handed));
            handed += 1;
        }
        assert_eq!(handed, 2, "nobody writes");
        assert!(sender.takes_small());
        for _ in 0..20 {
            sender.on_written(1000);
            if let Permit::Now { .. } = sender.permit(Time::ZERO) {
                sender.on_sent(Time::ZERO, packet(handed));
                handed += 1;
            }
        }
        assert_eq!(handed, 10, "nobody acknowledges");
        let acked = ack(&mut sender, Time::from_millis(20), 0..=4).unwrap();
        assert_eq!(acked, [0, 1, 2, 3, 4]);
        assert_eq!(sender.bytes_in_flight(), 5000);
        assert!(matches!(
            sender.permit(Time::from_millis(20)),
            Permit::Now { .. }
        ));
        assert_eq!(sender.drain().collect::<Vec<_>>(), [5, 6, 7, 8, 9]);
    }

    #[test]
    fn small_packets_are_bounded_too() {
        let mut sender = Carried::new(CONFIG, Time::ZERO);
        let mut handed = 0;
        while sender.takes_small() && handed < 1000 {
            let small = Sent {
                bytes: 60,
                ack_eliciting: false,
                ..packet(0)
            };
            sender.on_sent(Time::ZERO, small);
            handed += 1;
        }
        assert!((60..=70).contains(&handed), "{handed}");
    }

    #[test]
    fn stuck_means_no_progress_for_a_second_or_three_round_trips() {
        let mut sender = Carried::new(CONFIG, Time::ZERO);
        assert_eq!(sender.timeout(), None);
        let sent = Time::from_millis(100);
        sender.on_sent(sent, packet(0));
        sender.on_sent(sent, packet(1));
        ack(&mut sender, Time::from_millis(600), 0..=0).unwrap();
        // 500 ms of round trip.
        assert_eq!(sender.timeout(), Some(Time::from_millis(2100)));
        assert_eq!(
            sender.on_timeout(Time::from_millis(2099)),
            TimerEvent::Nothing
        );
        let event = sender.on_timeout(Time::from_millis(2100));
        assert_eq!(event, TimerEvent::Probe { count: 1 });
        assert_eq!(sender.timeout(), Some(Time::from_millis(3600)));
        assert_eq!(
            ack(&mut sender, Time::from_millis(2200), 1..=1).unwrap(),
            [1]
        );
        assert_eq!((sender.timeout(), sender.timeouts()), (None, 0));
    }

    #[test]
    fn a_rate_holds() {
        let mut sender = Carried::new(CONFIG, Time::ZERO);
        sender.set_rate(Time::ZERO, Some(100_000.0));
        let (mut now, mut sent) = (Time::ZERO, 0);
        while now < Time::from_millis(1000) {
            match sender.permit(now) {
                Permit::Now { .. } => {
                    let number = sender.on_sent(now, packet(sent));
                    sender.on_written(1000);
                    ack(&mut sender, now, number..=number).unwrap();
                    sent += 1;
                }
                Permit::Paced(at) => now = at,
                Permit::WindowFull => panic!("all is acknowledged"),
            }
        }
        assert!((100..=102).contains(&sent), "{sent}");
        sender.set_rate(now, Some(0.0));
        sender.on_sent(now, packet(0));
        assert_eq!(sender.permit(now), Permit::WindowFull);
        sender.set_rate(now, None);
        assert!(matches!(sender.permit(now), Permit::Now { .. }));
    }

    #[test]
    fn what_waits_makes_delivery_later() {
        let mut sender = Carried::new(
            CarriedConfig {
                max_in_flight: 1_000_000,
                ..CONFIG
            },
            Time::ZERO,
        );
        // 1 MB/s with a round trip of 20 ms.
        for n in 0..200u32 {
            let now = Time::from_millis(u64::from(n));
            let number = sender.on_sent(now, packet(n));
            if number >= 20 {
                ack(&mut sender, now, 0..=number - 20).unwrap();
            }
        }
        let rate = sender.rate().unwrap();
        assert!((0.9e6..=1.1e6).contains(&rate), "{rate}");
        let idle = sender.delivery();
        (0..100).for_each(|n| {
            sender.on_sent(Time::from_millis(200), packet(n));
        });
        let behind = sender.delivery() - idle;
        assert!(behind > Duration::from_millis(85), "{behind:?}");
        assert!(behind < Duration::from_millis(115), "{behind:?}");
    }

    /// As behind a shaper's bucket: 500 kB/s for 100 ms, then a packet in a second.
    #[test]
    fn a_rate_that_falls_is_known_by_the_next_acknowledgement() {
        let mut sender = Carried::new(CONFIG, Time::ZERO);
        let begun = sender.on_sent(Time::ZERO, packet(0));
        // One is always in flight.
        let mut one_arrives = |n: u64, at: u64| {
            let now = Time::from_millis(at);
            sender.on_sent(now, packet(n as u32));
            ack(&mut sender, now, begun..=n - 1).unwrap();
            sender.rate().unwrap_or(0.0)
        };
        let fast = (1..=52).map(|n| one_arrives(n, 2 * n)).last().unwrap();
        assert!((450_000.0..=550_000.0).contains(&fast), "{fast}");
        let slow = one_arrives(53, 1104);
        assert!((1000.0..=5000.0).contains(&slow), "{slow}");
    }

    #[test]
    fn refuses_acknowledgements_of_what_was_never_sent() {
        let mut sender = Carried::new(CONFIG, Time::ZERO);
        sender.on_sent(Time::ZERO, packet(0));
        assert!(ack(&mut sender, Time::ZERO, 0..=1).is_err());
        assert_eq!(sender.bytes_in_flight(), 1000);
    }

    proptest! {
        /// Every payload comes back exactly once, whatever is acknowledged in whatever order.
        #[test]
        fn payloads_come_back_once(
            steps in prop::collection::vec((any::<bool>(), 0u64..40, 0u64..10), 1..200),
        ) {
            let mut sender = Carried::new(CONFIG, Time::ZERO);
            let mut back = Vec::new();
            let mut handed = 0;
            for (n, (send, start, len)) in steps.into_iter().enumerate() {
                let now = Time::from_millis(n as u64);
                if send {
                    sender.on_sent(now, packet(handed));
                    handed += 1;
                } else if start + len < u64::from(handed) {
                    back.extend(ack(&mut sender, now, start..=start + len).unwrap());
                }
                prop_assert_eq!(sender.packets_in_flight() as usize, handed as usize - back.len());
            }
            back.extend(sender.drain());
            back.sort_unstable();
            prop_assert_eq!(back, (0..handed).collect::<Vec<_>>());
        }
    }
}

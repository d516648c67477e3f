//! When a sender may release its next packets. The window is the controller's.

use std::time::Duration;

use manyway_units::Time;

use super::types::Permit;

/// The longest burst, in time at the path's rate (ns), if that is more than two packets.
const BURST_NANOS: f64 = 1e6;

/// A token bucket in bytes (RFC 9002 §7.7): it fills at the pacing rate and holds one burst.
#[derive(Clone, Debug)]
pub(super) struct Pacer {
    packet_size: f64,
    /// What flows per round trip, bytes.
    per_rtt: f64,
    /// Bytes/ns.
    rate: f64,
    capacity: f64,
    /// Filling as of `at`; below zero after probes.
    tokens: f64,
    at: Time,
}

impl Pacer {
    pub(super) fn new(now: Time, packet_size: u32) -> Self {
        let packet_size = f64::from(packet_size);
        Pacer {
            packet_size,
            per_rtt: packet_size,
            rate: 0.0,
            capacity: 2.0 * packet_size,
            tokens: 2.0 * packet_size,
            at: now,
        }
    }

    /// From now on `per_rtt` bytes may leave per `rtt` ns.
    pub(super) fn set(&mut self, per_rtt: f64, rtt: u64) {
        self.per_rtt = per_rtt;
        self.set_rtt(rtt);
    }

    /// From now on so many bytes/s may leave.
    pub(super) fn set_rate(&mut self, rate: f64) {
        self.rate = rate / 1e9;
        self.capacity = (2.0 * self.packet_size).max(self.rate * BURST_NANOS);
    }

    /// How long a whole burst has been waiting for somebody to send it, ns; below zero for not yet.
    pub(super) fn spare(&self, now: Time) -> f64 {
        let elapsed = now.as_nanos().saturating_sub(self.at.as_nanos());
        elapsed as f64 - (self.capacity - self.tokens) / self.rate
    }

    pub(super) fn set_packet_size(&mut self, packet_size: u32) {
        self.packet_size = f64::from(packet_size);
    }

    pub(super) fn set_rtt(&mut self, rtt: u64) {
        // A clock without resolution must not make the rate infinite.
        self.rate = self.per_rtt / (rtt.max(1_000) as f64);
        self.capacity = (2.0 * self.packet_size).max(self.rate * BURST_NANOS);
    }

    /// Bytes/s.
    #[cfg(test)]
    pub(super) fn rate(&self) -> f64 {
        self.rate * 1e9
    }

    /// At most `packets` that the window allows, at least one.
    pub(super) fn permit(&self, now: Time, packets: u32) -> Permit {
        let tokens = self.filled(now);
        // Half a byte of tolerance, so that asking at the promised time always succeeds.
        let ready = ((tokens + 0.5) / self.packet_size) as u32;
        if ready > 0 {
            return Permit::Now {
                packets: ready.min(packets),
            };
        }
        // Half a burst at a time keeps timers at 0.5 ms on fast paths.
        let wanted = f64::from(packets) * self.packet_size;
        let quantum = wanted.min(self.capacity / 2.0).max(self.packet_size);
        let wait = ((quantum - tokens) / self.rate).ceil();
        Permit::Paced(now + Duration::from_nanos(wait as u64))
    }

    pub(super) fn on_sent(&mut self, now: Time, bytes: u32) {
        // Probes may overdraw, but no more than a burst.
        self.tokens = (self.filled(now) - f64::from(bytes)).max(-self.capacity);
        self.at = now;
    }

    fn filled(&self, now: Time) -> f64 {
        let elapsed = now.as_nanos().saturating_sub(self.at.as_nanos());
        (self.tokens + self.rate * elapsed as f64).min(self.capacity)
    }
}

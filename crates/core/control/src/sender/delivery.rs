//! How fast a path delivers (draft-ietf-ccwg-bbr §4.1.2). It decides nothing.

use std::collections::VecDeque;

use manyway_units::Time;

use crate::controller::{Delivery, LostPacket, Slot};

/// The delivery-rate sampler of one path; names as in the draft where it has them.
#[derive(Clone, Debug, Default)]
pub(super) struct DeliveryRate {
    /// What was so when each packet was sent, by packet number from `base` on.
    sent: VecDeque<Snapshot>,
    base: u64,
    /// Bytes acknowledged, and when that was last; the time of sending if nothing was in flight.
    delivered: u64,
    delivered_at: Time,
    /// When the newest acknowledged packet was sent.
    first_sent: Time,
    /// Bytes declared lost.
    lost: u64,
    /// Packets count as application-limited until more than this is delivered; 0 for none.
    limited_until: u64,
    restarted: bool,
}

#[derive(Copy, Clone, Debug)]
struct Snapshot {
    delivered: u64,
    delivered_at: Time,
    first_sent: Time,
    lost: u64,
    in_flight: u64,
    bytes: u32,
    app_limited: bool,
}

/// A packet as it is sent.
#[derive(Copy, Clone, Debug)]
pub(super) struct Leaving {
    pub(super) now: Time,
    pub(super) number: u64,
    /// 0 for a packet that elicits no acknowledgement.
    pub(super) bytes: u32,
    /// Bytes in flight, its own included.
    pub(super) in_flight: u64,
    /// The path could have carried more since the last acknowledgement.
    pub(super) spare: bool,
    /// There is nothing more to send.
    pub(super) last: bool,
    /// The oldest packet that is still remembered elsewhere.
    pub(super) oldest: u64,
}

impl DeliveryRate {
    pub(super) fn on_sent(&mut self, packet: Leaving) {
        if self.sent.is_empty() {
            self.base = packet.number;
        }
        while self.base < packet.oldest && self.sent.pop_front().is_some() {
            self.base += 1;
        }
        let before = packet.in_flight - u64::from(packet.bytes);
        if packet.bytes > 0 && before == 0 {
            self.first_sent = packet.now;
            self.delivered_at = packet.now;
            if packet.spare {
                self.limit(0);
            }
            self.restarted |= self.limited_until > 0;
        }
        self.sent.push_back(Snapshot {
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent: self.first_sent,
            lost: self.lost,
            in_flight: packet.in_flight,
            bytes: packet.bytes,
            app_limited: self.limited_until > 0,
        });
        if packet.last {
            self.limit(packet.in_flight);
        }
    }

    /// The path could carry more than the bytes in flight, and there is nothing to send: what is
    /// sent from now on until these are delivered doesn't show how fast the path is.
    pub(super) fn limit(&mut self, in_flight: u64) {
        self.limited_until = (self.delivered + in_flight).max(1);
    }

    /// When bytes were last acknowledged, or sent into an empty path.
    pub(super) fn delivered_at(&self) -> Time {
        self.delivered_at
    }

    pub(super) fn on_acked(&mut self, now: Time, bytes: u64) {
        if bytes > 0 {
            self.delivered += bytes;
            self.delivered_at = now;
        }
    }

    /// The sample that an acknowledgement gives whose newest packet was `number`, sent at `sent`;
    /// after [`DeliveryRate::on_acked`] and all losses. With what is in flight now, and the most
    /// lately.
    pub(super) fn sample(
        &mut self,
        number: u64,
        sent: Time,
        in_flight: u64,
        peak: u64,
    ) -> Option<Delivery> {
        let then = self.at(number)?;
        self.first_sent = self.first_sent.max(sent);
        if self.delivered > self.limited_until {
            self.limited_until = 0;
        }
        let sending = sent.since(then.first_sent);
        let acknowledging = self.delivered_at.since(then.delivered_at);
        Some(Delivery {
            delivered: self.delivered,
            delivered_before: then.delivered,
            interval: sending.max(acknowledging),
            app_limited: then.app_limited,
            restarted: std::mem::take(&mut self.restarted),
            in_flight_then: then.in_flight,
            lost: self.lost - then.lost,
            in_flight,
            peak,
        })
    }

    pub(super) fn on_lost(&mut self, slot: Slot, now: Time, number: u64) -> Option<LostPacket> {
        let then = self.at(number)?;
        self.lost += u64::from(then.bytes);
        Some(LostPacket {
            slot,
            now,
            number,
            bytes: u64::from(then.bytes),
            delivered: self.delivered,
            in_flight_then: then.in_flight,
            lost: self.lost - then.lost,
            app_limited: then.app_limited,
        })
    }

    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        self.sent.len()
    }

    fn at(&self, number: u64) -> Option<Snapshot> {
        let index = usize::try_from(number.checked_sub(self.base)?).ok()?;
        self.sent.get(index).copied()
    }
}

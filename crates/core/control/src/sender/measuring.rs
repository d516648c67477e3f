//! What a sender measures for rate-based controllers. It decides nothing.

use manyway_units::Time;

use super::delivery::Leaving;
use super::types::Sent;
use super::{Newly, Sender};
use crate::controller::{Controller, Delivery};

/// A path counts as given less than it could carry once nothing was sent for this part of a round
/// trip although window and pacer allowed it: hosts are late by less.
const SPARE_PART: f64 = 1.0 / 8.0;

impl<P> Sender<P> {
    /// Notes a packet that is about to join the flight.
    pub(super) fn measure_sent(&mut self, now: Time, packet: &Sent<P>) {
        let spare = self.spare(now);
        if let Some(delivery) = &mut self.delivery {
            let bytes = if packet.ack_eliciting {
                packet.bytes
            } else {
                0
            };
            let number = self.flight.next();
            delivery.on_sent(Leaving {
                now,
                number,
                bytes,
                in_flight: self.flight.bytes() + u64::from(bytes),
                spare,
                last: packet.app_limited,
                oldest: number - self.flight.entries() as u64,
            });
        }
    }

    /// Notes whether the path could have carried more than was `in_flight` (bytes) before an
    /// acknowledgement: if its owner prefers other paths, it doesn't show how fast it is.
    #[inline]
    pub(super) fn measure_spare<C: Controller + ?Sized>(
        &mut self,
        now: Time,
        in_flight: u64,
        controller: &C,
    ) {
        if self.delivery.is_none() {
            return;
        }
        let size = f64::from(self.config.packet_size);
        let room = controller.window(self.slot) * size >= in_flight as f64 + size;
        if room
            && self.spare(now)
            && let Some(delivery) = &mut self.delivery
        {
            delivery.limit(in_flight);
        }
    }

    /// Whether the pacer has been waiting for packets since the last acknowledgement.
    fn spare(&self, now: Time) -> bool {
        let least = self.rtt.smoothed_nanos() as f64 * SPARE_PART;
        let delivery = self.delivery.as_ref();
        let since = delivery.map_or(now, |delivery| delivery.delivered_at());
        self.pacer.spare(now) > least && now.since(since).as_nanos() as f64 > least
    }

    #[inline]
    pub(super) fn count_acked(&mut self, now: Time, bytes: u64) {
        self.stats.bytes_acked += bytes;
        if let Some(delivery) = &mut self.delivery {
            delivery.on_acked(now, bytes);
        }
    }

    #[inline]
    pub(super) fn sample_delivery(&mut self, newly: &Newly) -> Option<Delivery> {
        let delivery = self.delivery.as_mut().filter(|_| newly.bytes > 0)?;
        let peak = self.peak[0].max(self.peak[1]);
        delivery.sample(newly.number, newly.sent, self.flight.bytes(), peak)
    }
}

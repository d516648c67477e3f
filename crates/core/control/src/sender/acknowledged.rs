//! What a sender does with an acknowledgement.

use std::time::Duration;

use manyway_units::Time;

use super::types::{AckError, AckInfo, Outcome, Sent};
use super::{Newly, Sender};
use crate::controller::{Ack, Controller, Round};
use crate::rtt::nanos;

impl<P> Sender<P> {
    /// Takes an acknowledgement. Duplicates and old ones are harmless.
    ///
    /// # Errors
    /// [`AckError`] if it acknowledges a packet that was never sent or contradicts itself; nothing
    /// has changed then, and the peer is not to be trusted.
    pub fn on_ack<C: Controller + ?Sized>(
        &mut self,
        now: Time,
        ack: AckInfo<'_>,
        controller: &mut C,
        outcome: &mut Outcome<P>,
    ) -> Result<(), AckError> {
        ack.check(self.flight.next())?;
        if self.retired {
            return Ok(());
        }
        self.measure_spare(now, self.flight.bytes(), controller);
        outcome.spurious += self.detect_spurious(now, &ack, controller);
        // What came before is settled. (But adaptive detection forgets at longer acknowledgements.)
        let settled = ack.is_short() || !self.recovery.learns();
        if settled
            && !ack.elsewhere
            && ack.ce_count.is_none()
            && let Some((sent, packet)) = self.take_next(ack.largest)
        {
            let newly = Newly::one(ack.largest, sent, &packet);
            self.settle_oldest(now, &newly, ack.delay, ack.receive_time, controller);
            outcome.acked.push((ack.largest, packet.payload));
            return Ok(());
        }
        let Some(newly) = self.take_acked(now, &ack, outcome) else {
            return Ok(());
        };
        let largest = newly.number == ack.largest;
        let sampled = largest && newly.eliciting && !ack.elsewhere;
        let sample = sampled.then(|| self.sample_rtt(now, newly.sent, ack.delay));
        let advanced = self.recovery.on_largest_acked(newly.number);

        let ce = ack.ce_count.is_some_and(|count| count > self.ce_count);
        if let Some(count) = ack.ce_count.filter(|_| ce && advanced) {
            let marks = count - self.ce_count;
            self.stats.ce_marks += marks;
            controller.on_marked(self.slot, marks as f64);
            self.ce_count = count;
            self.congestion_marked(now, &newly, controller);
        }
        self.detect_losses(now, controller, outcome);
        let received = ack.receive_time.filter(|_| largest);
        self.report_any_ack(now, &newly, sample, received, controller);

        if newly.eliciting {
            self.restart_timer(now);
        }
        self.update_pacer(controller);
        Ok(())
    }

    /// [`Sender::on_ack`] where it acknowledges packet `number` alone, at once and without marks,
    /// that is the oldest in flight, and none that was sent later has been acknowledged before:
    /// what most acknowledgements are where each packet is acknowledged. Returns what the packet
    /// carried.
    ///
    /// `None`, and nothing has changed, if it isn't so.
    #[inline]
    pub fn on_oldest_acked<C: Controller + ?Sized>(
        &mut self,
        now: Time,
        number: u64,
        received: Option<Time>,
        controller: &mut C,
    ) -> Option<P> {
        let (sent, packet) = self.take_next(number)?;
        let newly = Newly::one(number, sent, &packet);
        self.measure_spare(now, self.flight.bytes() + newly.bytes, controller);
        self.settle_oldest(now, &newly, Duration::ZERO, received, controller);
        Some(packet.payload)
    }

    /// Takes this packet, with the time when it was sent, if it is the oldest in flight, and none
    /// that was sent later was acknowledged.
    #[inline(always)]
    fn take_next(&mut self, number: u64) -> Option<(Time, Sent<P>)> {
        if !self.recovery.is_largest(number) {
            return None;
        }
        self.flight.take_oldest(number)
    }

    /// The oldest packet in flight was acknowledged, and none that was sent later.
    #[inline(always)]
    fn settle_oldest<C: Controller + ?Sized>(
        &mut self,
        now: Time,
        newly: &Newly,
        delay: Duration,
        received: Option<Time>,
        controller: &mut C,
    ) {
        self.count_acked(now, newly.bytes);
        // Everything older is settled, so nothing is lost.
        let sample = self.sample_rtt(now, newly.sent, delay);
        self.recovery.on_oldest_acked(newly.number);
        self.report_ack(now, newly, Some(sample), received, controller);
        self.restart_timer(now);
        self.update_pacer(controller);
    }

    /// Hands out what `ack` acknowledges for the first time; `None` if that is nothing.
    #[inline]
    fn take_acked(
        &mut self,
        now: Time,
        ack: &AckInfo<'_>,
        outcome: &mut Outcome<P>,
    ) -> Option<Newly> {
        let mut newly: Option<Newly> = None;
        let mut oldest: Option<(u64, Time)> = None;
        for range in ack.ranges.iter().rev() {
            let flight = &mut self.flight;
            flight.acknowledge(range.clone(), |number, sent_at, packet| {
                let newly = newly.get_or_insert(Newly {
                    bytes: 0,
                    eliciting: false,
                    number,
                    sent: sent_at,
                    app_limited: false,
                });
                newly.number = number;
                newly.sent = sent_at;
                newly.app_limited = packet.app_limited;
                if packet.ack_eliciting {
                    newly.eliciting = true;
                    newly.bytes += u64::from(packet.bytes);
                    oldest.get_or_insert((number, sent_at));
                }
                outcome.acked.push((number, packet.payload));
            });
        }
        if let Some((_, sent)) = oldest.filter(|(number, _)| !self.recovery.is_largest(*number)) {
            self.recovery.on_overtaken(now, sent, &self.rtt);
        }
        if let Some(newly) = &newly {
            self.count_acked(now, newly.bytes);
        }
        newly
    }

    /// Takes the round-trip time of a packet sent at `sent`: RFC 9002 §5.1 wants the largest
    /// acknowledged to be new, and something ack-eliciting. Returns it without the peer's delay.
    #[inline]
    fn sample_rtt(&mut self, now: Time, sent: Time, delay: Duration) -> Duration {
        if !self.rtt.has_sample() {
            self.recovery.on_first_sample(self.flight.next());
        }
        let latest = now.as_nanos().saturating_sub(sent.as_nanos());
        let delay = if delay.is_zero() {
            0
        } else {
            nanos(delay.min(self.config.max_ack_delay))
        };
        self.rtt.update_nanos(latest, delay);
        Duration::from_nanos(self.rtt.without_delay(latest, delay))
    }

    /// [`Sender::report_ack`] where it isn't worth a copy.
    #[inline(never)]
    fn report_any_ack<C: Controller + ?Sized>(
        &mut self,
        now: Time,
        newly: &Newly,
        sample: Option<Duration>,
        received: Option<Time>,
        controller: &mut C,
    ) {
        self.report_ack(now, newly, sample, received, controller);
    }

    #[inline(always)]
    fn report_ack<C: Controller + ?Sized>(
        &mut self,
        now: Time,
        newly: &Newly,
        sample: Option<Duration>,
        received: Option<Time>,
        controller: &mut C,
    ) {
        let delivery = self.sample_delivery(newly);
        let app_limited = newly.app_limited || !self.window_used(controller);
        controller.on_ack(&Ack {
            slot: self.slot,
            now,
            packets: self.in_packets(newly.bytes),
            rtt: sample.unwrap_or_else(|| self.rtt.smoothed()),
            rtt_sampled: sample.is_some(),
            smoothed_rtt: self.rtt.smoothed(),
            min_rtt: self.rtt.min(),
            sent: newly.sent,
            received,
            app_limited,
            in_recovery: self.recovery.covers(newly.number),
            delivery,
        });
        let ends_round = newly.number >= self.round_end;
        if ends_round {
            self.round_end = self.flight.next();
            self.time_round(now, app_limited);
            self.peak = [self.peak[1], self.flight.bytes()];
            controller.on_round_end(&Round {
                slot: self.slot,
                now,
            });
        }
        if self.resume.is_some() {
            self.resume_on_ack(now, *newly, sample, ends_round, controller);
        }
    }

    #[inline]
    pub(super) fn in_packets(&self, bytes: u64) -> f64 {
        if bytes == u64::from(self.config.packet_size) {
            return 1.0;
        }
        bytes as f64 / f64::from(self.config.packet_size)
    }

    /// Window validation: was enough of the window in flight lately to let it grow? Half of it in
    /// slow start, where the window has doubled since; three quarters otherwise; less a packet.
    #[inline]
    pub(super) fn window_used<C: Controller + ?Sized>(&self, controller: &C) -> bool {
        let share = if controller.in_slow_start(self.slot) {
            0.5
        } else {
            0.75
        };
        let size = f64::from(self.config.packet_size);
        // Signed, because unsigned conversions are slow.
        let peak = self.peak[0].max(self.peak[1]) as i64 as f64;
        peak >= (share * controller.window(self.slot) - 1.0) * size
    }
}

//! Loss detection, recovery periods and persistent congestion. It decides which packets are lost
//! and when the controller hears of a loss event; what the window does then is the controller's.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::time::Duration;

use manyway_units::Time;

use super::flight::Flight;
use super::reordering::Reordering;
use super::types::{AckInfo, LossDetection, Outcome, SenderConfig};
use super::{Newly, Sender};
use crate::controller::{Controller, Loss};
use crate::rtt::Rtt;

/// So many lost packets are remembered, to notice that they weren't.
const MAX_REMEMBERED: usize = 1024;
/// For three probe timeouts, and at least so long.
const MIN_MEMORY: Duration = Duration::from_secs(1);

/// Loss detection (RFC 9002 §6.1), recovery periods (§7.3.2) and persistent congestion (§7.6).
#[derive(Clone, Debug)]
// What losses alone touch comes first: see `Sender`.
#[repr(C)]
pub(super) struct Recovery {
    packet_threshold: u64,
    time_threshold: f64,
    /// Whether time tells, too.
    by_time: bool,
    persistent_ptos: u32,
    max_ack_delay: Duration,
    /// What adaptive detection has learnt; fixed detection has nothing.
    reordering: Option<Reordering>,
    /// The packet that was sent at the beginning of the last period: its acknowledgement ends the
    /// period, its loss is part of it.
    opener: Option<u64>,
    /// Packets below this number were sent before the first round-trip sample.
    sampled_from: Option<u64>,
    /// Packets that were declared lost, ascending.
    remembered: VecDeque<Declared>,
    /// The last loss event, if its cut may be undone.
    event: Option<Event>,
    /// Sending time of the first of a run of losses without an acknowledgement in between.
    run: Option<Time>,
    /// When the oldest open packet below `largest_acked` will count as lost.
    loss_time: Option<Time>,
    largest_acked: Option<u64>,
    /// Packets below this number were sent before the last window cut.
    period: u64,
}

/// A packet that was declared lost.
#[derive(Copy, Clone, Debug)]
struct Declared {
    number: u64,
    sent: Time,
    /// When it was declared lost.
    at: Time,
}

/// A loss event, as far as it takes to undo it.
#[derive(Copy, Clone, Debug)]
struct Event {
    began: Time,
    /// Lost packets that haven't arrived after all.
    missing: u64,
    /// What `period` and `opener` were before.
    before: (u64, Option<u64>),
}

/// What one pass of loss detection found.
struct Batch {
    bytes: u64,
    packets: u64,
    number: u64,
    sent: Time,
    persistent: bool,
}

impl Recovery {
    pub(super) fn new(config: &SenderConfig) -> Self {
        Recovery {
            packet_threshold: u64::from(config.packet_threshold),
            time_threshold: config.time_threshold,
            by_time: config.loss_detection != LossDetection::Packets,
            reordering: (config.loss_detection == LossDetection::Adaptive)
                .then(Reordering::default),
            persistent_ptos: config.persistent_congestion_threshold,
            max_ack_delay: config.max_ack_delay,
            largest_acked: None,
            loss_time: None,
            period: 0,
            opener: None,
            sampled_from: None,
            run: None,
            remembered: VecDeque::new(),
            event: None,
        }
    }

    #[inline]
    pub(super) fn loss_time(&self) -> Option<Time> {
        self.loss_time
    }

    /// Whether detection is adaptive.
    #[inline]
    pub(super) fn learns(&self) -> bool {
        self.reordering.is_some()
    }

    /// Whether the packet was sent before the last window cut.
    #[inline]
    pub(super) fn covers(&self, number: u64) -> bool {
        number < self.period
    }

    #[inline]
    pub(super) fn on_first_sample(&mut self, next: u64) {
        self.sampled_from.get_or_insert(next);
    }

    /// Whether `number` is larger than all acknowledged so far.
    #[inline]
    pub(super) fn is_largest(&self, number: u64) -> bool {
        self.largest_acked.is_none_or(|largest| number > largest)
    }

    /// True if `number` is the largest so far.
    #[inline]
    pub(super) fn on_largest_acked(&mut self, number: u64) -> bool {
        let advanced = self.is_largest(number);
        if advanced {
            self.largest_acked = Some(number);
        }
        advanced
    }

    /// The oldest packet in flight was acknowledged, and none that was sent later before: nothing
    /// is overdue.
    #[inline]
    pub(super) fn on_oldest_acked(&mut self, number: u64) {
        self.largest_acked = Some(number);
        self.loss_time = None;
        self.run = None;
    }

    /// The first packet of a period is sent.
    pub(super) fn on_opened(&mut self, number: u64) {
        self.opener = Some(number);
    }

    /// Packets below this number are forgotten: neither lost nor a reason to cut.
    pub(super) fn skip_to(&mut self, next: u64) {
        self.loss_time = None;
        self.run = None;
        self.opener = None;
        self.event = None;
        self.period = self.period.max(next);
    }

    /// The path is gone.
    pub(super) fn stop(&mut self) {
        self.loss_time = None;
        self.remembered.clear();
        self.event = None;
    }

    /// Starts a recovery period unless `number` falls into the last one.
    fn begin_period(&mut self, number: u64, next: u64) -> bool {
        let fresh = !self.covers(number) && self.opener != Some(number);
        if fresh {
            self.period = next;
            self.opener = None;
            self.event = None;
        }
        fresh
    }

    /// [`Recovery::begin_period`] for this many packets that were lost at once: an event that may
    /// turn out to be none.
    fn begin_loss(&mut self, now: Time, batch: &Batch, next: u64) -> bool {
        let before = (self.period, self.opener);
        let fresh = self.begin_period(batch.number, next);
        if fresh && self.reordering.is_some() {
            self.event = Some(Event {
                began: now,
                missing: 0,
                before,
            });
        }
        if let Some(event) = &mut self.event {
            event.missing += batch.packets;
        }
        fresh
    }

    /// All packets of the last loss event have arrived after all: the event is none. True once.
    fn undo(&mut self) -> bool {
        let Some(event) = self.event.take_if(|event| event.missing == 0) else {
            return false;
        };
        (self.period, self.opener) = event.before;
        self.run = None;
        true
    }

    /// Packet `sent` at that time was acknowledged after one that was sent later.
    #[inline]
    pub(super) fn on_overtaken(&mut self, now: Time, sent: Time, rtt: &Rtt) {
        if let Some(reordering) = &mut self.reordering {
            reordering.on_overtaken(now, sent, rtt);
        }
    }

    /// How many of the packets `ack` acknowledges had been declared lost.
    #[inline]
    pub(super) fn spurious(&mut self, now: Time, ack: &AckInfo<'_>, rtt: &Rtt) -> u64 {
        let least = ack
            .ranges
            .last()
            .map_or(ack.largest, |range| *range.start());
        let newest = self.remembered.back();
        if newest.is_none_or(|newest| least > newest.number) {
            return 0;
        }
        self.forget(now, rtt);
        let (Some(oldest), Some(newest)) = (self.remembered.front(), self.remembered.back()) else {
            return 0;
        };
        let remembered = oldest.number..=newest.number;
        let meets = |range: &RangeInclusive<u64>| {
            range.start() <= remembered.end() && range.end() >= remembered.start()
        };
        match ack.ranges.iter().any(meets) {
            true => self.take_spurious(now, ack, rtt),
            false => 0,
        }
    }

    #[cold]
    fn take_spurious(&mut self, now: Time, ack: &AckInfo<'_>, rtt: &Rtt) -> u64 {
        let mut count = 0;
        for range in ack.ranges {
            let from = self
                .remembered
                .partition_point(|declared| declared.number < *range.start());
            while self
                .remembered
                .get(from)
                .is_some_and(|declared| declared.number <= *range.end())
                && let Some(declared) = self.remembered.remove(from)
            {
                self.on_overtaken(now, declared.sent, rtt);
                if let Some(event) = &mut self.event
                    && event.began <= declared.at
                {
                    event.missing = event.missing.saturating_sub(1);
                }
                count += 1;
            }
        }
        count
    }

    /// Resolves the front of the flight: what is acknowledged or lost leaves it. Lost packets go to
    /// `outcome`. With `everything`, nothing stays in flight.
    ///
    /// Both thresholds are monotone in the packet number, so the first packet that is neither
    /// acknowledged nor lost ends the search, and packets are lost in ascending order.
    #[inline]
    fn resolve<P>(
        &mut self,
        now: Time,
        rtt: &Rtt,
        flight: &mut Flight<P>,
        outcome: &mut Outcome<P>,
        everything: bool,
    ) -> Option<Batch> {
        self.loss_time = None;
        let largest = match everything {
            true => u64::MAX,
            false => self.largest_acked?,
        };
        let reordering = self.reordering.as_mut();
        let learnt = reordering.and_then(|seen| seen.window(now, rtt));
        let threshold = match learnt {
            _ if everything => 0,
            None => self.packet_threshold,
            Some(_) => u64::MAX,
        };
        let mut batch: Option<Batch> = None;
        while let Some((number, entry)) = flight.front() {
            match &entry.sent {
                None => self.run = None,
                Some(_) if number > largest => break,
                Some(sent) if sent.ack_eliciting => {
                    if largest - number < threshold {
                        if !self.by_time {
                            break;
                        }
                        let due = entry.at + self.loss_delay(learnt, rtt);
                        if due > now {
                            self.loss_time = Some(due);
                            break;
                        }
                    }
                    let lost = Batch {
                        bytes: u64::from(sent.bytes),
                        packets: 1,
                        number,
                        sent: entry.at,
                        persistent: self.extend_run(number, entry.at, rtt),
                    };
                    let declared = Declared {
                        number,
                        sent: entry.at,
                        at: now,
                    };
                    self.remember(declared, rtt);
                    batch = Some(match batch {
                        None => lost,
                        Some(so_far) => so_far.and(lost),
                    });
                }
                Some(_) => {}
            }
            let lost = flight.pop().and_then(|entry| entry.sent);
            if let Some(lost) = lost.filter(|sent| sent.ack_eliciting) {
                outcome.lost.push((number, lost.payload));
            }
        }
        batch
    }

    /// Adds a lost packet to the run of losses; true if the run has become persistent congestion.
    fn extend_run(&mut self, number: u64, sent: Time, rtt: &Rtt) -> bool {
        if self.sampled_from.is_none_or(|from| number < from) {
            return false;
        }
        let start = *self.run.get_or_insert(sent);
        let limit = (rtt.pto_base() + self.max_ack_delay) * self.persistent_ptos;
        let persistent = sent.since(start) > limit;
        if persistent {
            self.run = None;
        }
        persistent
    }

    /// How long after it was sent an overtaken packet counts as lost, with this reordering window.
    fn loss_delay(&self, window: Option<u64>, rtt: &Rtt) -> Duration {
        let learnt = rtt.loss_base().saturating_add(window.unwrap_or(0));
        let fixed = rtt.loss_delay(self.time_threshold);
        fixed.max(Duration::from_nanos(learnt))
    }

    fn remember(&mut self, declared: Declared, rtt: &Rtt) {
        self.forget(declared.at, rtt);
        if self.remembered.len() == MAX_REMEMBERED {
            self.remembered.pop_front();
        }
        self.remembered.push_back(declared);
    }

    /// The oldest lost packet that may arrive after all.
    #[inline]
    pub(super) fn oldest_remembered(&mut self, now: Time, rtt: &Rtt) -> Option<u64> {
        self.forget(now, rtt);
        self.remembered.front().map(|declared| declared.number)
    }

    /// Forgets losses so old that nobody will hear of them again.
    #[inline]
    fn forget(&mut self, now: Time, rtt: &Rtt) {
        let old = |declared: &Declared| now.since(declared.at) > MIN_MEMORY;
        if self.remembered.front().is_some_and(old) {
            self.forget_old(now, rtt);
        }
    }

    #[inline(never)]
    fn forget_old(&mut self, now: Time, rtt: &Rtt) {
        let memory = (rtt.pto_base() * 3).max(MIN_MEMORY);
        while let Some(declared) = self.remembered.front()
            && now.since(declared.at) > memory
        {
            self.remembered.pop_front();
        }
        // A burst of losses is rare, and simulations have many senders.
        if self.remembered.len() <= self.remembered.capacity() / 4 {
            self.remembered.shrink_to(2 * self.remembered.len());
        }
    }
}

impl Batch {
    fn and(self, later: Batch) -> Batch {
        Batch {
            bytes: self.bytes + later.bytes,
            packets: self.packets + later.packets,
            persistent: self.persistent || later.persistent,
            ..later
        }
    }
}

impl<P> Sender<P> {
    /// Finds lost packets and tells the controller; true if there were any.
    #[inline]
    pub(super) fn detect_losses<C: Controller + ?Sized>(
        &mut self,
        now: Time,
        controller: &mut C,
        outcome: &mut Outcome<P>,
    ) -> bool {
        let before = outcome.lost.len();
        let found = self
            .recovery
            .resolve(now, &self.rtt, &mut self.flight, outcome, false);
        let Some(batch) = found else {
            return false;
        };
        self.report_lost(now, &batch, &outcome.lost[before..], controller);
        if batch.persistent && !self.has_tcp_timer() {
            self.stats.persistent_congestions += 1;
            self.rtt.reset_min();
            self.end_resume();
            controller.on_timeout(self.slot, now);
        }
        true
    }

    /// Tells the controller that a batch of packets is lost.
    fn report_lost<C: Controller + ?Sized>(
        &mut self,
        now: Time,
        batch: &Batch,
        packets: &[(u64, P)],
        controller: &mut C,
    ) {
        self.stats.packets_lost += batch.packets;
        let loss = Loss {
            slot: self.slot,
            now,
            sent: batch.sent,
            packets: batch.bytes as f64 / f64::from(self.config.packet_size),
        };
        if self.recovery.begin_loss(now, batch, self.flight.next()) {
            self.stats.loss_events += 1;
            self.retransmit = true;
            controller.on_loss(&loss);
            self.resume_on_loss(controller);
        } else {
            controller.on_further_loss(&loss);
        }
        if let Some(delivery) = &mut self.delivery {
            let lost = packets.iter();
            lost.filter_map(|(number, _)| delivery.on_lost(self.slot, now, *number))
                .for_each(|packet| controller.on_packet_lost(&packet));
        }
    }

    /// TCP's retransmission timeout has come: all that is in flight counts as lost (RFC 6298 §5.4
    /// to 5.6).
    #[cold]
    pub(super) fn expire<C: Controller + ?Sized>(
        &mut self,
        now: Time,
        controller: &mut C,
        outcome: &mut Outcome<P>,
    ) {
        let before = outcome.lost.len();
        let found = self
            .recovery
            .resolve(now, &self.rtt, &mut self.flight, outcome, true);
        if let Some(batch) = found {
            self.report_lost(now, &batch, &outcome.lost[before..], controller);
            self.end_resume();
            controller.on_timeout(self.slot, now);
            self.update_pacer(controller);
        }
    }

    /// Notes which packets that had been declared lost have arrived after all, and undoes the loss
    /// event if it was none. Returns how many.
    pub(super) fn detect_spurious<C: Controller + ?Sized>(
        &mut self,
        now: Time,
        ack: &AckInfo<'_>,
        controller: &mut C,
    ) -> u64 {
        let count = self.recovery.spurious(now, ack, &self.rtt);
        self.stats.spurious_losses += count;
        if count > 0 && self.recovery.undo() {
            self.stats.undone_events += 1;
            self.retransmit = false;
            self.end_resume();
            controller.on_spurious_loss(self.slot, now);
            self.update_pacer(controller);
        }
        count
    }

    /// The peer has counted new congestion marks: a window cut, if none covers these packets yet.
    pub(super) fn congestion_marked<C: Controller + ?Sized>(
        &mut self,
        now: Time,
        newly: &Newly,
        controller: &mut C,
    ) {
        if self.recovery.begin_period(newly.number, self.flight.next()) {
            self.stats.loss_events += 1;
            controller.on_ecn(&Loss {
                slot: self.slot,
                now,
                sent: newly.sent,
                packets: 0.0,
            });
            self.resume_on_loss(controller);
        }
    }
}

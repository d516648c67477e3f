//! A subflow at one moment, with all that it takes to send.

use manyway_control::laws::Visitor;
use manyway_control::{Controller, LossDetection, Permit, Sender, Sent};
use manyway_network::{Packet, Verdict};
use manyway_units::Time;
use rand::RngExt;

use super::event_queue::Timers;
use super::network::Network;
use super::source::{FlowState, Source, Subflow};
use super::transit::{Stage, Transit};

/// What most events touch, found once.
pub(super) struct Sending<'s> {
    pub(super) now: Time,
    pub(super) index: u32,
    pub(super) subflow: &'s mut Subflow,
    pub(super) source: &'s mut Source,
    pub(super) network: &'s mut Network,
    pub(super) timers: &'s mut Timers,
}

/// What an acknowledgement of one packet says that was sent at once.
pub(super) struct One {
    pub(super) number: u64,
    /// When the packet arrived.
    pub(super) received: Time,
}

/// That, on its way to the sender and its controller.
struct Taking<'a> {
    sender: &'a mut Sender<bool>,
    now: Time,
    one: One,
}

impl Visitor for Taking<'_> {
    /// Whether the packet carried data, and the window after it, packets; if it was the oldest in
    /// flight.
    type Output = Option<(bool, f64)>;

    #[inline(always)]
    fn visit<C: Controller>(self, controller: &mut C) -> Self::Output {
        let One { number, received } = self.one;
        let data = self
            .sender
            .on_oldest_acked(self.now, number, Some(received), controller)?;
        Some((data, controller.window(self.sender.slot())))
    }
}

impl Sending<'_> {
    /// Whether its loss detection learns. Then it also looks at what an acknowledgement repeats: at
    /// packets that were given up, and when. What doesn't learn would only count them, and here
    /// nobody asks how many they were.
    #[inline(always)]
    pub(super) fn learns(&self) -> bool {
        let sender = self.subflow.sender.as_ref();
        sender.is_some_and(|sender| sender.config().loss_detection == LossDetection::Adaptive)
    }

    /// An acknowledgement without marks arrives that says this and nothing else that is new. If
    /// the packet is the oldest in flight, and of a source that only has to count it, it is taken,
    /// and what may be sent is sent; else nothing happens.
    #[inline(always)]
    pub(super) fn acknowledge_oldest(&mut self, one: One) -> bool {
        if !self.source.plain || self.source.state != FlowState::Active {
            return false;
        }
        let Some(sender) = &mut self.subflow.sender else {
            return false;
        };
        let taking = Taking {
            sender,
            now: self.now,
            one,
        };
        let Some((data, window)) = self.source.controller.show(taking) else {
            return false;
        };
        self.subflow.note_rtt(self.now);
        self.subflow.meter.window(self.now, window);
        self.subflow.meter.delivered(u64::from(data));
        self.pump();
        self.arm();
        true
    }

    /// Sends what the window, the pacer and the application allow.
    #[inline(always)]
    pub(super) fn pump(&mut self) {
        loop {
            let Some(sender) = &self.subflow.sender else {
                return;
            };
            // A meter that has ended knows no window any more.
            if self.source.backlog == 0 || self.subflow.meter.is_over() {
                return;
            }
            if self.source.unresponsive {
                let burst = std::mem::take(&mut self.source.backlog);
                return (0..burst).for_each(|_| self.send(true));
            }
            if sender.pto_count() > 0 && self.source.avoids_silent_paths() {
                return;
            }
            let packets = match sender.permit_within(self.now, self.subflow.meter.current()) {
                Permit::Now { packets } => packets,
                Permit::Paced(at) => return self.schedule(at),
                Permit::WindowFull => return,
            };
            let pacing = sender.config().pacing;
            let burst = u64::from(packets).min(self.source.backlog);
            self.source.backlog -= burst;
            for _ in 0..burst {
                self.send(true);
            }
            if !pacing {
                return;
            }
        }
    }

    /// Sends one packet, of data or empty.
    #[inline(always)]
    pub(super) fn send(&mut self, data: bool) {
        let Some(sender) = &mut self.subflow.sender else {
            return;
        };
        let bytes = sender.config().packet_size;
        let sent = Sent {
            bytes,
            ack_eliciting: true,
            app_limited: self.source.backlog == 0,
            payload: data,
        };
        let number = sender.on_sent(self.now, sent);
        self.launch(number, bytes);
    }

    /// A packet leaves for its path's first link.
    #[inline(always)]
    pub(super) fn launch(&mut self, number: u64, bytes: u32) {
        let mut at = self.now;
        let mut item = Transit::new(self.index, number, Stage::Forward);
        let Some(egress) = &mut self.subflow.egress else {
            return self.network.forward(at, item);
        };
        if egress.jitter > 0 {
            let jitter = egress.rng.random_range(0..=egress.jitter);
            // Strictly later, so that no two packets of a subflow tie.
            let earliest = egress.latest.as_nanos() + 1;
            at = Time::from_nanos((self.now.as_nanos() + jitter).max(earliest));
            egress.latest = at;
        }
        if let Some(access) = &mut egress.access {
            let packet = Packet {
                ecn: egress.ecn,
                l4s: egress.l4s,
                ..Packet::new(bytes)
            };
            // Its queue decides at once: see `check`.
            let verdict = access.offer(at, packet);
            let Verdict::Delivered {
                arrives, marked, ..
            } = verdict
            else {
                return;
            };
            at = arrives;
            if marked {
                item.mark();
            }
        }
        let shared = self.network.egress;
        let own = &mut egress.own;
        self.network.under_way.push_soon(shared, own, at, item);
    }

    /// Sees to it that the subflow's timer fires in time.
    #[inline(always)]
    pub(super) fn arm(&mut self) {
        if let Some(at) = self.subflow.sender.as_ref().and_then(Sender::timeout) {
            self.schedule(at);
        }
    }

    /// Sees to it that something happens for the subflow at `at`, or before.
    #[inline]
    pub(super) fn schedule(&mut self, at: Time) {
        if at < self.subflow.timer {
            self.subflow.timer = at;
            self.timers.schedule(at.max(self.now), self.index);
        }
    }
}

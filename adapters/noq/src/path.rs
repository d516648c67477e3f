//! A path as noq sees it. It turns noq's calls into those of a
//! [`manyway_control::Controller`], and decides nothing about windows.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use manyway_control::{Ack, Controller as _, Loss, Round};
use noq_proto::RttEstimator;
use noq_proto::congestion::{Controller, ControllerFactory, ControllerMetrics};

use crate::group::{Group, Member};

/// Adds paths to a group. noq asks it for each path of a connection, in the order in which they are
/// created; the first is the handshake's.
#[derive(Debug)]
pub(crate) struct Factory {
    group: Group,
}

impl Factory {
    pub(crate) fn new(group: Group) -> Self {
        Factory { group }
    }
}

impl ControllerFactory for Factory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        Box::new(CoupledPath::new(&self.group, now, current_mtu))
    }
}

/// A path of a connection with coupled congestion control.
///
/// `noq::Connection::congestion_state` returns one, to be taken out by
/// [`into_any`](Controller::into_any). It is a view of the path, not a copy: noq also duplicates
/// the controller when a path's port changes, and there still is one path then. The path stays in
/// its connection's controller until the last view of it is gone, so don't keep one.
#[derive(Clone, Debug)]
pub struct CoupledPath {
    member: Arc<Member>,
    packet_size: u16,
    initial_window: u64,
    /// noq has a round-trip sample of this path.
    rtt_known: bool,
    /// Acknowledgements of packets that were sent since then end the present round.
    round: Instant,
    /// When the window was last cut.
    cut: Option<Instant>,
    /// If that may be undone: when it was cut before.
    undo: Option<Option<Instant>>,
    /// When noq last said what time it is.
    latest: Instant,
    /// Acknowledged so far by the ACK that noq is going through.
    batch: Option<Batch>,
}

/// Packets that one ACK acknowledges.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Batch {
    pub(crate) bytes: u64,
    /// The largest packet number, and when that packet was sent.
    pub(crate) largest: u64,
    pub(crate) sent: Instant,
    pub(crate) app_limited: bool,
    /// noq's estimates, which don't know this ACK yet.
    pub(crate) smoothed_rtt: Duration,
    pub(crate) min_rtt: Duration,
}

impl Batch {
    fn and(self, earlier: Batch) -> Batch {
        let newest = match earlier.largest > self.largest {
            true => earlier,
            false => self,
        };
        Batch {
            bytes: self.bytes + earlier.bytes,
            ..newest
        }
    }
}

impl CoupledPath {
    pub(crate) fn new(group: &Group, now: Instant, packet_size: u16) -> Self {
        let packet_size = packet_size.max(1);
        let mut path = CoupledPath {
            member: Arc::new(group.join(now, packet_size)),
            packet_size,
            initial_window: 0,
            rtt_known: false,
            round: now,
            cut: None,
            undo: None,
            latest: now,
            batch: None,
        };
        path.initial_window = path.window();
        path
    }

    /// How many paths are coupled with each other, this one included: those of the connection. If
    /// there are more, several connections share what [`crate::Coupling::for_connection`] has made
    /// for one.
    pub fn coupled_paths(&self) -> usize {
        self.member.lock().paths()
    }

    /// Whether the path is below its slow-start threshold.
    pub fn in_slow_start(&self) -> bool {
        let shared = self.member.lock();
        shared.controller.in_slow_start(self.member.slot())
    }

    #[cfg(test)]
    pub(crate) fn member(&self) -> &Member {
        &self.member
    }

    /// Bytes in packets.
    fn packets(&self, bytes: u64) -> f64 {
        bytes as f64 / f64::from(self.packet_size)
    }

    /// Whether what was sent then was sent before the window was last cut (RFC 9002 §7.3.2).
    fn in_recovery(&self, sent: Instant) -> bool {
        self.cut.is_some_and(|cut| sent <= cut)
    }

    pub(crate) fn on_packet_acked(&mut self, packet: Batch) {
        self.batch = Some(match self.batch {
            None => packet,
            Some(so_far) => packet.and(so_far),
        });
    }

    /// The ACK has no more packets; `largest` is the largest packet number that was ever
    /// acknowledged in its packet number space.
    fn on_batch(&mut self, now: Instant, largest: Option<u64>) {
        let Some(batch) = self.batch.take() else {
            return;
        };
        let rtt = now.saturating_duration_since(batch.sent);
        // RFC 9002 §5.1.
        let rtt_sampled = largest == Some(batch.largest);
        // noq answers with its initial value as long as it has no sample.
        let (smoothed_rtt, min_rtt) = match self.rtt_known {
            true => (batch.smoothed_rtt, batch.min_rtt),
            false => (rtt, rtt),
        };
        self.rtt_known |= rtt_sampled;
        let ends_round = batch.sent >= self.round;
        if ends_round {
            self.round = now;
        }

        let slot = self.member.slot();
        let mut shared = self.member.lock();
        let ack = Ack {
            slot,
            now: shared.time(now),
            packets: self.packets(batch.bytes),
            rtt: if rtt_sampled { rtt } else { smoothed_rtt },
            rtt_sampled,
            smoothed_rtt,
            min_rtt: min_rtt.min(rtt),
            sent: shared.time(batch.sent),
            received: None,
            app_limited: batch.app_limited,
            in_recovery: self.in_recovery(batch.sent),
            delivery: None,
        };
        shared.controller.on_ack(&ack);
        if ends_round {
            let now = ack.now;
            shared.controller.on_round_end(&Round { slot, now });
        }
    }
}

impl Controller for CoupledPath {
    fn on_sent(&mut self, now: Instant, _bytes: u64, _largest: u64) {
        self.latest = now;
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        pn: u64,
        app_limited: bool,
        rtt: &RttEstimator,
    ) {
        self.latest = now;
        self.on_packet_acked(Batch {
            bytes,
            largest: pn,
            sent,
            app_limited,
            smoothed_rtt: rtt.get(),
            min_rtt: rtt.min(),
        });
    }

    fn on_end_acks(
        &mut self,
        now: Instant,
        _in_flight: u64,
        _app_limited: bool,
        largest_packet_num_acked: Option<u64>,
    ) {
        self.on_batch(now, largest_packet_num_acked);
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        is_ecn: bool,
        lost_bytes: u64,
        _largest_lost: u64,
    ) {
        self.latest = now;
        let slot = self.member.slot();
        let same_event = self.in_recovery(sent);
        if !same_event {
            self.undo = (!is_ecn).then_some(self.cut);
            self.cut = Some(now);
        }
        let mut shared = self.member.lock();
        let loss = Loss {
            slot,
            now: shared.time(now),
            sent: shared.time(sent),
            packets: self.packets(lost_bytes),
        };
        match (same_event, is_ecn) {
            (false, false) => shared.controller.on_loss(&loss),
            (false, true) => shared.controller.on_ecn(&loss),
            (true, false) => shared.controller.on_further_loss(&loss),
            (true, true) => {}
        }
        if is_persistent_congestion {
            shared.controller.on_timeout(slot, loss.now);
        }
    }

    fn on_spurious_congestion_event(&mut self) {
        if let Some(before) = self.undo.take() {
            self.cut = before;
            let mut shared = self.member.lock();
            let now = shared.time(self.latest);
            let slot = self.member.slot();
            shared.controller.on_spurious_loss(slot, now);
        }
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.packet_size = new_mtu.max(1);
        let mut shared = self.member.lock();
        let bytes = u32::from(self.packet_size);
        let slot = self.member.slot();
        shared.controller.set_packet_size(slot, bytes);
    }

    /// At least one full packet, below which noq would send nothing.
    fn window(&self) -> u64 {
        let size = f64::from(self.packet_size);
        let shared = self.member.lock();
        let packets = shared.controller.window(self.member.slot());
        (packets.max(1.0) * size) as u64
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = self.window();
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        self.initial_window
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

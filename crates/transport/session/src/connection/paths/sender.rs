//! A path's sender, of one kind or the other: under our window, or on a carrier that controls
//! congestion itself.

use std::time::Duration;

use manyway_control::{
    AckError, AckInfo, Carried, Controller, Outcome, PathVerdict, Permit, Remembered, Rtt, Sender,
    SenderStats, Sent, TimerEvent,
};
use manyway_units::Time;

use super::super::packet::Payload;

/// What numbers a path's packets and knows what became of them.
#[derive(Debug)]
pub(crate) enum PathSender {
    /// Datagrams: window, pacing, loss detection and probe timeouts are ours.
    Windowed(Box<Sender<Payload>>),
    /// A carrier.
    Carried(Box<Carried<Payload>>),
}

use PathSender::{Carried as OnCarrier, Windowed};

impl PathSender {
    pub(crate) fn windowed(&self) -> Option<&Sender<Payload>> {
        match self {
            Windowed(sender) => Some(sender),
            OnCarrier(_) => None,
        }
    }

    pub(crate) fn carried(&self) -> Option<&Carried<Payload>> {
        match self {
            Windowed(_) => None,
            OnCarrier(sender) => Some(sender),
        }
    }

    pub(crate) fn carried_mut(&mut self) -> Option<&mut Carried<Payload>> {
        match self {
            Windowed(_) => None,
            OnCarrier(sender) => Some(sender),
        }
    }

    pub(crate) fn permit(&self, now: Time, controller: &dyn Controller) -> Permit {
        match self {
            Windowed(sender) => sender.permit(now, controller),
            OnCarrier(sender) => sender.permit(now),
        }
    }

    /// Whether a packet may leave whatever the permit says.
    pub(crate) fn takes_small(&self) -> bool {
        match self {
            Windowed(_) => true,
            OnCarrier(sender) => sender.takes_small(),
        }
    }

    /// Packets whose fate is open.
    pub(crate) fn unsettled(&self) -> usize {
        match self {
            Windowed(sender) => sender.unsettled(),
            OnCarrier(sender) => sender.unsettled(),
        }
    }

    /// Acknowledgements of packets below this number say nothing any more.
    pub(crate) fn settled(&mut self, now: Time) -> u64 {
        match self {
            Windowed(sender) => sender.settled(now),
            OnCarrier(sender) => sender.settled(),
        }
    }

    pub(crate) fn next_packet_number(&self) -> u64 {
        match self {
            Windowed(sender) => sender.next_packet_number(),
            OnCarrier(sender) => sender.next_packet_number(),
        }
    }

    pub(crate) fn on_sent(&mut self, now: Time, packet: Sent<Payload>) -> u64 {
        match self {
            Windowed(sender) => sender.on_sent(now, packet),
            OnCarrier(sender) => sender.on_sent(now, packet),
        }
    }

    pub(crate) fn on_ack(
        &mut self,
        now: Time,
        ack: AckInfo<'_>,
        controller: &mut dyn Controller,
        outcome: &mut Outcome<Payload>,
    ) -> Result<(), AckError> {
        match self {
            Windowed(sender) => sender.on_ack(now, ack, controller, outcome),
            OnCarrier(sender) => sender.on_ack(now, ack, outcome),
        }
    }

    pub(crate) fn timeout(&self) -> Option<Time> {
        match self {
            Windowed(sender) => sender.timeout(),
            OnCarrier(sender) => sender.timeout(),
        }
    }

    pub(crate) fn on_timeout(
        &mut self,
        now: Time,
        controller: &mut dyn Controller,
        outcome: &mut Outcome<Payload>,
    ) -> TimerEvent {
        match self {
            Windowed(sender) => sender.on_timeout(now, controller, outcome),
            OnCarrier(sender) => sender.on_timeout(now),
        }
    }

    /// The probe timeout; on a carrier nothing is probed, but other timers count by it.
    pub(crate) fn pto(&self) -> Duration {
        match self {
            Windowed(sender) => sender.pto(),
            OnCarrier(sender) => sender.rtt().pto_base() + sender.config().max_ack_delay,
        }
    }

    pub(crate) fn pto_count(&self) -> u32 {
        match self {
            Windowed(sender) => sender.pto_count(),
            OnCarrier(sender) => sender.timeouts(),
        }
    }

    pub(crate) fn rtt(&self) -> &Rtt {
        match self {
            Windowed(sender) => sender.rtt(),
            OnCarrier(sender) => sender.rtt(),
        }
    }

    pub(crate) fn seed_rtt(&mut self, rtt: Duration) {
        match self {
            Windowed(sender) => sender.seed_rtt(rtt),
            OnCarrier(sender) => sender.seed_rtt(rtt),
        }
    }

    pub(crate) fn bytes_in_flight(&self) -> u64 {
        match self {
            Windowed(sender) => sender.bytes_in_flight(),
            OnCarrier(sender) => sender.bytes_in_flight(),
        }
    }

    pub(crate) fn packets_in_flight(&self) -> u64 {
        match self {
            Windowed(sender) => sender.packets_in_flight(),
            OnCarrier(sender) => sender.packets_in_flight(),
        }
    }

    /// The number of the first packet that was sent after `at`.
    pub(crate) fn first_sent_after(&self, at: Time) -> u64 {
        match self {
            Windowed(sender) => sender.first_sent_after(at),
            OnCarrier(sender) => sender.first_sent_after(at),
        }
    }

    /// What the oldest `max` packets in flight carry, from `number` on.
    pub(crate) fn outstanding(
        &mut self,
        number: u64,
        max: usize,
        mut each: impl FnMut(u64, &mut Payload),
    ) {
        match self {
            Windowed(sender) => {
                let packets = sender.payloads_from(number).take(max);
                packets.for_each(|(number, payload)| each(number, payload));
            }
            OnCarrier(sender) => {
                let packets = sender.payloads_from(number).take(max);
                packets.for_each(|(number, payload)| each(number, payload));
            }
        }
    }

    /// Takes the path from its controller; what was in flight, oldest first.
    pub(crate) fn retire(&mut self, controller: &mut dyn Controller) -> Vec<Payload> {
        match self {
            Windowed(sender) => sender.retire(controller).collect(),
            OnCarrier(sender) => sender.drain().collect(),
        }
    }

    /// The window in packets; none on a carrier.
    pub(crate) fn window(&self, controller: &dyn Controller) -> f64 {
        match self {
            Windowed(sender) => controller.window(sender.slot()),
            OnCarrier(_) => 0.0,
        }
    }

    pub(crate) fn verdict(&self, controller: &dyn Controller) -> PathVerdict {
        match self {
            Windowed(sender) => controller.verdict(sender.slot()),
            OnCarrier(_) => PathVerdict::Keep,
        }
    }

    pub(crate) fn remembered(&self) -> Option<Remembered> {
        match self {
            Windowed(sender) => sender.remembered(),
            OnCarrier(_) => None,
        }
    }

    pub(crate) fn stats(&self) -> SenderStats {
        match self {
            Windowed(sender) => sender.stats(),
            OnCarrier(sender) => sender.stats(),
        }
    }

    /// The path leads elsewhere: only datagrams' paths do. What was in flight comes out as lost.
    pub(crate) fn abandon_flight(&mut self, now: Time, outcome: &mut Outcome<Payload>) {
        if let Windowed(sender) = self {
            sender.abandon_flight(now, outcome);
        }
    }

    pub(crate) fn reopen(&mut self, now: Time, controller: &mut dyn Controller) {
        if let Windowed(sender) = self {
            sender.reopen(now, controller);
        }
    }

    /// Carriers' packets have one size.
    pub(crate) fn set_packet_size(&mut self, bytes: u32, controller: &mut dyn Controller) {
        if let Windowed(sender) = self {
            sender.set_packet_size(bytes, controller);
        }
    }
}

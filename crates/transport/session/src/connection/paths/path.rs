//! One path: an address pair, its congestion-controlled sender, what arrived on it, and what it
//! owes.
//!
//! It owns all that concerns this path alone, and writes the frames that do. It knows neither the
//! other paths nor keys nor streams: packets come to it opened and leave it unsealed.

mod incoming;
mod stats;

use std::net::SocketAddr;
use std::time::Duration;

use manyway_control::{
    AckInfo as AckedRanges, Carried, CarriedConfig, Controller, LossDetection, Outcome, Permit,
    Sender, SenderConfig, Sent,
};
use manyway_units::Time;
use manyway_wire::{
    AckFrame, ConnectionId, DATA_HEADER_LEN, DataHeader, PathId, TAG_LEN, datagram_frame_len,
};
use rand::{CryptoRng, RngExt};

use super::super::copies::Cursor;
use super::super::packet::{Packet, Payload, SMALLEST_CHUNK};
use super::ecn::EcnMarks;
use super::memory::PathMemory;
use super::migration::{Migration, Ranges};
use super::mtu::Mtu;
use super::numbers::Numbers;
use super::sender::PathSender;
use super::types::{Beginning, NewPath, PathTransport, RelayHeader, hosts};
use super::validation::Validation;
use crate::carrier::Facts;
use crate::config::Config;
use crate::driver::{Local, Transmit};
use crate::observe::{Observer, PacketEvent};
use crate::received::Received;
use crate::relays::RelayRoute;
use crate::stats::PathState;

/// Most bytes in flight on one carrier: a gigabit per second for 130 ms.
const MAX_ON_CARRIER: u64 = 16 << 20;
/// An ACK may always wait this long for the next packet.
const SHORTEST_ACK_DELAY: Duration = Duration::from_millis(1);
/// A path that answers nothing for this long is given up, if another one is alive.
const GIVE_UP: Duration = Duration::from_secs(30);
/// A path that hasn't lost any of so many packets is expected to lose none.
pub(super) const TRUSTED: u32 = 100;
/// A path that is stalled for less than this may just have met a full queue: its data goes
/// elsewhere already.
pub(crate) const DEAD_AFTER: Duration = Duration::from_secs(1);

/// One path of a connection.
#[derive(Debug)]
pub(crate) struct Path {
    pub(super) id: PathId,
    pub(super) local: Local,
    pub(super) remote: SocketAddr,
    /// What we put into the header of packets on this path; none until the peer has told us.
    pub(super) remote_cid: Option<ConnectionId>,
    pub(super) state: PathState,
    pub(super) sender: PathSender,
    numbers: Numbers,
    /// What carries it.
    facts: Facts,
    pub(super) received: Received,
    pub(super) validation: Validation,
    /// How large its datagrams are.
    pub(super) mtu: Mtu,
    /// Addresses that the peer may have moved to.
    pub(super) migration: Migration,
    /// The path has lost its socket and waits for another one (listener only).
    pub(super) unbound: bool,
    /// The peer's challenge that we have to answer.
    pub(super) respond: Option<[u8; 8]>,
    /// PINGs that probe timeouts and keep-alives have asked for.
    pub(super) probes: u32,
    pub(super) stalled_since: Time,
    /// Whether the last path in use was told as down: there is no other to go on with.
    pub(super) told_silent: bool,
    /// When something last arrived on it.
    heard: Time,
    /// When it was last probed because something arrived although it is silent.
    reprobed: Time,
    last_sent: Time,
    /// Control frames in packets whose fate is open.
    frames: usize,
    /// Packets whose fate is open, and control frames in them, as the set has counted them last.
    pub(super) counted: usize,
    /// Something has arrived on it, by which its place among the others may be another.
    pub(super) stale: bool,
    pub(super) marks: EcnMarks,
    counters: Counters,
    /// Outstanding packets below this number were already sent again elsewhere.
    pub(super) reinjected: u64,
    /// The same for packets that another path has overtaken; it may have left out some.
    pub(super) overtaken: u64,
    /// Packets acknowledged since the last one was lost; as many as it takes to trust a path, at
    /// most.
    pub(super) unbroken: u32,
    /// How far it has carried what others carried first, where every path carries all data.
    pub(super) copied: Cursor,
    /// Most bytes of a datagram of the application, if it sends any.
    datagram: Option<usize>,
    transport: PathTransport,
    /// Set on a path through a relay.
    relay: Option<RelayHeader>,
    /// The relay's address that a listener's path led through before.
    pub(super) relay_before: Option<SocketAddr>,
    /// It carries data only while no better path works.
    pub(super) standby: bool,
    pub(super) observer: Option<Box<dyn Observer>>,
}

#[derive(Debug, Default)]
struct Counters {
    bytes_sent: u64,
    bytes_received: u64,
    stream_bytes_sent: u64,
    stream_bytes_received: u64,
}

impl Path {
    pub(super) fn new(
        now: Time,
        new: NewPath,
        start: Beginning,
        config: &Config,
        controller: &mut dyn Controller,
    ) -> Self {
        let Beginning {
            numbers,
            mtu,
            peer_ack_delay,
            remembered,
        } = start;
        let mut sender_config = SenderConfig {
            packet_size: mtu.size() as u32,
            max_ack_delay: peer_ack_delay,
            pacing: config.paces(),
            loss_detection: LossDetection::Adaptive,
            careful_resume: true,
            remembered,
            ..SenderConfig::default()
        };
        if let Some(rtt) = new.initial_rtt {
            sender_config.initial_rtt = rtt;
        }
        let (facts, sender) = match new.transport {
            PathTransport::Carrier(facts) => {
                let config = CarriedConfig {
                    packet_size: sender_config.packet_size,
                    initial_rtt: sender_config.initial_rtt,
                    max_ack_delay: peer_ack_delay,
                    max_in_flight: MAX_ON_CARRIER,
                };
                let sender = Carried::new(config, now);
                (facts, PathSender::Carried(Box::new(sender)))
            }
            PathTransport::Coupled | PathTransport::Trial => {
                let sender = Sender::new(sender_config, now, controller);
                let facts = Facts::datagrams(config.max_datagram);
                (facts, PathSender::Windowed(Box::new(sender)))
            }
        };
        Self {
            id: new.id,
            local: new.local,
            remote: new.remote,
            remote_cid: new.remote_cid,
            state: PathState::Validating,
            sender,
            numbers,
            facts,
            received: Received::new(),
            validation: Validation::new(!facts.reliable),
            mtu,
            migration: Migration::default(),
            unbound: false,
            respond: None,
            probes: 0,
            stalled_since: now,
            told_silent: false,
            heard: now,
            reprobed: now,
            last_sent: now,
            frames: 0,
            counted: 0,
            stale: false,
            marks: EcnMarks::new(config.ecn && !facts.reliable),
            counters: Counters::default(),
            reinjected: 0,
            overtaken: 0,
            unbroken: TRUSTED,
            copied: Cursor::default(),
            datagram: config.datagram,
            transport: new.transport,
            relay: new.relay,
            relay_before: None,
            standby: false,
            observer: None,
        }
    }

    pub(crate) fn id(&self) -> PathId {
        self.id
    }

    pub(crate) fn local(&self) -> &Local {
        &self.local
    }

    pub(crate) fn remote(&self) -> SocketAddr {
        self.remote
    }

    pub(crate) fn state(&self) -> PathState {
        self.state
    }

    pub(crate) fn facts(&self) -> Facts {
        self.facts
    }

    pub(crate) fn transport(&self) -> PathTransport {
        self.transport
    }

    pub(crate) fn sender(&self) -> &PathSender {
        &self.sender
    }

    /// Leaves what it carried to the next path between the same hosts.
    pub(super) fn remember(&self, memory: &PathMemory) {
        let hosts = hosts(self.transport, &self.relay, &self.local, self.remote);
        if let (Some(hosts), Some(remembered)) = (hosts, self.sender.remembered()) {
            memory.note(hosts, self.heard, remembered);
        }
    }

    pub(crate) fn relay(&self) -> Option<&RelayHeader> {
        self.relay.as_ref()
    }

    /// The initiator's socket and relay, if the path leads through one.
    pub(crate) fn route(&self) -> Option<RelayRoute> {
        self.relay.as_ref()?.route
    }

    /// Whether it carries data only while no better path works.
    pub(crate) fn is_on_standby(&self) -> bool {
        self.standby
    }

    /// Whether nothing comes back on it for now. The last path in use is never stalled.
    fn is_silent(&self) -> bool {
        self.state == PathState::Stalled || self.told_silent
    }

    /// Whether nothing comes back on it any more.
    pub(crate) fn is_dead(&self, now: Time) -> bool {
        self.dead_at().is_some_and(|at| at <= now)
    }

    /// When a path that is stalled counts as dead.
    pub(crate) fn dead_at(&self) -> Option<Time> {
        (self.state == PathState::Stalled).then(|| self.stalled_since + DEAD_AFTER)
    }

    /// Whether it was silent for so long that it is no use waiting, if others are alive.
    pub(super) fn is_lost(&self, now: Time) -> bool {
        self.state == PathState::Stalled && self.stalled_since.max(self.heard) + GIVE_UP <= now
    }

    /// Sorting key by delivery time, in nanoseconds: the smoothed round-trip time; on a carrier
    /// with what waits there.
    pub(super) fn delivery_key(&self) -> u64 {
        let delivery = match self.sender.carried() {
            Some(sender) => sender.delivery(),
            None => self.sender.rtt().smoothed(),
        };
        delivery.as_nanos() as u64
    }

    /// Expected rate of this path, in bytes/s: a window per round trip, or what the carrier
    /// delivers.
    pub(super) fn rate(&self, controller: &dyn Controller) -> f64 {
        if let Some(sender) = self.sender.carried() {
            return sender.rate().unwrap_or(0.0).max(1.0);
        }
        let rtt = self.sender.rtt().smoothed().as_secs_f64().max(1e-6);
        self.sender.window(controller) * self.mtu.size() as f64 / rtt
    }

    /// When there is something to do on the path; `paced` if it waits for its pacer alone.
    pub(super) fn timer(
        &self,
        now: Time,
        paced: Option<Time>,
        keep_alive: Duration,
    ) -> Option<Time> {
        [
            self.sender.timeout(),
            self.received.deadline(),
            self.validation.timer(now),
            self.migration.timer(now),
            self.mtu.timer(),
            paced,
            Some(self.last_sent + keep_alive),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Whether it has something to send that isn't data, and may. Whatever lets it send more later
    /// brings its place up to date: a peer may have hundreds of paths that must not answer, and
    /// going through them would take time with every packet.
    pub(super) fn owes(&self, now: Time, initiator: bool) -> bool {
        if self.ack_would_wait() {
            return true;
        }
        if self.unbound || self.remote_cid.is_none() {
            return false;
        }
        let to_home = self.probes > 0
            || self.respond.is_some()
            || self.received.is_due()
            || self.validation.due(now).is_some()
            || self.migration.owes_home()
            || self.wants_mtu_probe(now);
        to_home && self.room(initiator).is_some()
            || self.migration.owes(now, self.least_to_candidate())
    }

    /// One packet to be sent for want of an answer, at least.
    pub(crate) fn probe(&mut self) {
        self.probes = self.probes.max(1);
    }

    /// The path is challenged from now on.
    pub(super) fn challenge(&mut self, now: Time, rng: &mut impl CryptoRng) {
        self.validation.start(now, rng.random());
    }

    /// The peer has named its address: so many bytes may go there before it answers.
    pub(crate) fn limit(&mut self, bytes: u64) {
        self.validation.limit(bytes);
    }

    /// Other datagrams carry this header from now on.
    pub(crate) fn set_relay(&mut self, relay: RelayHeader) {
        self.relay = Some(relay);
    }

    /// An ACK of the path, which came on this path or `elsewhere`. Whether the path's packets have
    /// another size by it; the rest is in `outcome`. `None` if it says nothing of the path.
    /// `ranges` is room to work in.
    ///
    /// # Errors
    /// The ACK can't be true: in words for CLOSE.
    pub(super) fn on_ack(
        &mut self,
        now: Time,
        (ack, elsewhere): (&AckFrame<'_>, bool),
        ranges: &mut Ranges,
        controller: &mut dyn Controller,
        outcome: &mut Outcome<Payload>,
    ) -> Result<Option<bool>, String> {
        let packets = (self.sender.settled(now), self.sender.next_packet_number());
        let translated = self.numbers.to_packets(ack.ranges(), packets, ranges);
        translated.map_err(|untrue| untrue.to_string())?;
        self.migration.without_elsewhere(ranges);
        let Some(first) = ranges.first() else {
            return Ok(None);
        };
        let largest = *first.end();
        let info = AckedRanges {
            largest,
            ranges,
            delay: Duration::from_micros(ack.info.delay_us),
            ce_count: ack.info.ecn.map(|e| e.ce),
            receive_time: Some(Time::from_micros(ack.info.receive_time_us)),
            elsewhere,
        };
        let result = self.sender.on_ack(now, info, controller, outcome);
        result.map_err(|error| error.to_string())?;
        let numbers = outcome.acked.iter().map(|(number, _)| *number);
        let resized = self.mtu.on_acked(now, numbers, largest);
        self.marks.on_ack(ack.info.ecn, outcome.acked.len());
        Ok(Some(resized))
    }

    // What leaves.

    /// Bytes in front of each datagram.
    pub(super) fn overhead(&self) -> usize {
        let relay = self.relay.as_ref();
        relay.map_or(0, |relay| relay.grant.as_bytes().len())
    }

    /// The size of the path's next datagram. After two probe timeouts its own is in doubt.
    fn next_size(&self) -> usize {
        match self.sender.pto_count() {
            0 | 1 => self.mtu.size(),
            _ => self.mtu.base(),
        }
    }

    /// The size of a packet with nothing but a datagram of the application that has so many bytes.
    pub(crate) fn packet_len(&self, datagram: usize) -> usize {
        self.overhead() + DATA_HEADER_LEN + datagram_frame_len(datagram) + TAG_LEN
    }

    /// Whether the path's packets have room for the application's datagrams.
    pub(super) fn is_roomy(&self) -> bool {
        let least = self.datagram.map(|most| self.packet_len(most));
        least.is_some_and(|least| least <= self.next_size())
    }

    /// The largest datagram of the application that the path's packets have room for, in bytes.
    fn datagram_room(&self) -> Option<usize> {
        let most = self.datagram?;
        Some(self.mtu.size().saturating_sub(self.packet_len(most) - most))
    }

    /// Whether the path would carry the application's datagrams if its packets were larger.
    pub(super) fn is_too_small(&self) -> bool {
        self.datagram.is_some() && !self.is_roomy()
    }

    /// How large the path's next datagram may be, if any may leave.
    pub(crate) fn room(&self, initiator: bool) -> Option<usize> {
        let room = self.validation.allowance(initiator).min(self.next_size());
        let least = self.overhead() + DATA_HEADER_LEN + TAG_LEN + SMALLEST_CHUNK;
        (room >= least && self.sender.takes_small()).then_some(room)
    }

    /// Bytes of frames that a CLOSE datagram may have.
    pub(crate) fn close_room(&self, initiator: bool) -> usize {
        let size = self.validation.allowance(initiator).min(self.mtu.base());
        size.saturating_sub(self.overhead() + DATA_HEADER_LEN + TAG_LEN)
    }

    /// Whether a CLOSE may go to the path's address.
    pub(crate) fn takes_close(&self, initiator: bool) -> bool {
        self.validation.takes_close(initiator)
    }

    /// The size of the path's full datagrams.
    pub(crate) fn full_size(&self) -> usize {
        self.mtu.size()
    }

    /// Whether the peer has answered a challenge at the path's address.
    pub(crate) fn is_validated(&self) -> bool {
        self.validation.is_validated()
    }

    /// Packets that may leave now.
    pub(super) fn permit(&self, now: Time, controller: &dyn Controller) -> Permit {
        self.sender.permit(now, controller)
    }

    /// Writes the relay's header, if the path leads through one, and that of the path's next
    /// packet. Where the latter begins; `None` if the peer hasn't told the path's connection id, or
    /// its socket is gone.
    pub(crate) fn begin(&self, epoch: u8, buf: &mut Vec<u8>) -> Option<usize> {
        if self.unbound {
            return None;
        }
        let cid = self.remote_cid?;
        if let Some(relay) = &self.relay {
            buf.extend_from_slice(relay.grant.as_bytes());
        }
        let head = buf.len();
        DataHeader {
            cid,
            epoch,
            pn_low: self.next_number() as u32,
        }
        .encode(buf);
        Some(head)
    }

    /// The number in the header of the path's next packet.
    pub(crate) fn next_number(&self) -> u64 {
        self.numbers.of_next(self.sender.next_packet_number())
    }

    /// The number in the header of the path's `packet`th packet, whose fate is open.
    pub(super) fn number_of(&self, packet: u64) -> u64 {
        self.numbers.of(packet)
    }

    /// A sealed packet of `len` bytes leaves: the path's sender keeps what it carries.
    pub(crate) fn on_sent(&mut self, now: Time, len: usize, app_limited: bool, mut packet: Packet) {
        self.observe(now, || PacketEvent::Sent {
            number: self.next_number(),
            bytes: len,
            ack_eliciting: packet.ack_eliciting,
        });
        self.numbers.on_sent(self.sender.next_packet_number());
        packet.payload.large = self.mtu.is_large(len);
        self.frames += packet.payload.control.len();
        self.sender.on_sent(
            now,
            Sent {
                bytes: len as u32,
                ack_eliciting: packet.ack_eliciting && !packet.aside,
                app_limited,
                payload: packet.payload,
            },
        );
        if !packet.aside {
            self.validation.on_sent(len);
        }
        self.counters.bytes_sent += len as u64;
        self.counters.stream_bytes_sent += packet.stream_bytes;
        self.last_sent = self.last_sent.max(now);
    }

    /// Tells the observer, if there is one.
    pub(super) fn observe(&self, now: Time, event: impl FnOnce() -> PacketEvent) {
        if let Some(observer) = &self.observer {
            observer.observe(now, event());
        }
    }

    pub(crate) fn describe(&self, len: usize, segment: usize) -> Transmit {
        Transmit {
            local: self.local.id,
            remote: self.remote,
            ecn: self.marks.is_enabled(),
            len,
            segment_size: (len > segment).then_some(segment),
        }
    }

    /// Where the path should lead by now, if that is elsewhere. A receiver in silence is probed.
    pub(super) fn destination(&mut self, now: Time) -> Option<SocketAddr> {
        let silence = 3 * self.sender.pto();
        if self.migration.call(now, self.heard, silence) {
            self.probe();
        }
        self.migration
            .destination(now, self.validation.is_validated())
    }

    // Timers.

    /// The timers of what arrived and of the path's size.
    pub(super) fn on_timer(&mut self, now: Time) {
        self.received.on_timer(now);
        self.mtu.on_timer(now);
    }

    /// Sends a probe if nothing was sent for the time `after`. The next keep-alive is due after
    /// another such time, even if this one can't leave.
    pub(super) fn keep_alive(&mut self, now: Time, after: Duration) {
        if self.last_sent + after <= now {
            self.probe();
            self.last_sent = now;
        }
    }

    /// A probe timeout ran out. A path that isn't validated is probed by its challenges alone.
    pub(super) fn on_probe_timeout(&mut self) {
        if self.state != PathState::Validating {
            self.probes = 1;
        }
    }

    /// What the oldest `max` packets in flight carry, each packet at most once in its life. Control
    /// frames are the next packet's then: each is kept once, however often it is sent.
    pub(crate) fn take_outstanding(&mut self, max: usize) -> Vec<Payload> {
        let mut next = self.reinjected;
        let mut payloads = Vec::new();
        self.sender.outstanding(next, max, |number, payload| {
            next = number + 1;
            payloads.push(payload.hand_on());
        });
        self.reinjected = next;
        payloads.iter().for_each(|payload| self.let_go(payload));
        payloads
    }

    /// The path doesn't keep any more what a packet carried.
    pub(super) fn let_go(&mut self, payload: &Payload) {
        self.frames -= payload.control.len();
    }

    /// What was in flight went where nobody is: it comes out, with the packets' numbers.
    pub(super) fn abandon_flight(&mut self, now: Time) -> Vec<(u64, Payload)> {
        let mut outcome = Outcome::default();
        self.sender.abandon_flight(now, &mut outcome);
        let lost = outcome.lost;
        lost.iter().for_each(|(_, payload)| self.let_go(payload));
        lost
    }

    /// Packets whose fate is open, and control frames in them.
    pub(super) fn unsettled(&self) -> usize {
        self.sender.unsettled() + self.frames
    }
}

use std::net::SocketAddr;
use std::time::Duration;

use manyway_control::{Carried, CarriedConfig, Controller, Sender, SenderConfig};
use manyway_units::{Backoff, Time};
use manyway_wire::relay::Grant;
use manyway_wire::{ConnectionId, Frame, PathId};

use crate::carrier::Facts;
use crate::config::Config;
use crate::driver::Local;
use crate::received::Received;
use crate::relays::Lane;
use crate::stats::{CarrierKind, PathState, PathStats};
use crate::streams::StreamRange;

use super::migrate::Moving;
use super::mtu::Mtu;
use super::outbound::Outbound;

/// Challenges sent before a new path is given up.
const MAX_CHALLENGES: u32 = 5;
/// When a challenge is repeated.
const CHALLENGE_INTERVAL: Backoff =
    Backoff::new(Duration::from_millis(300), Duration::from_millis(4800));
/// A path that isn't validated by then is given up, whatever kept the challenges from leaving.
const VALIDATION_TIMEOUT: Duration = Duration::from_secs(15);
/// Bytes that may go to an address for each byte that came from it, until it has answered a
/// challenge.
const AMPLIFICATION: u64 = 3;
/// Bytes sent and not acknowledged on one carrier, at the most: a gigabit for 130 ms.
const MAX_ON_CARRIER: u64 = 16 << 20;
/// The smallest datagram worth sending to an address that hasn't answered.
const SMALLEST_DATAGRAM: u64 = 64;

/// One path: an address pair, its congestion-controlled sender and what arrived on it.
#[derive(Debug)]
pub(super) struct Path {
    pub(super) id: PathId,
    pub(super) local: Local,
    pub(super) remote: SocketAddr,
    /// What we put into the header of packets on this path; none until the peer has told us.
    pub(super) remote_cid: Option<ConnectionId>,
    pub(super) state: PathState,
    pub(super) sender: Outbound,
    /// What carries it.
    pub(super) facts: Facts,
    pub(super) received: Received,
    pub(super) validation: Validation,
    /// How large its datagrams are.
    pub(super) mtu: Mtu,
    /// Addresses that the peer may have moved to.
    pub(super) moving: Moving,
    /// Its socket is gone; it waits for another one (listener only).
    pub(super) homeless: bool,
    /// A challenge of the peer's that waits for its answer.
    pub(super) respond: Option<[u8; 8]>,
    /// Packets owed to probe timeouts and keep-alives.
    pub(super) probes: u32,
    pub(super) stalled_since: Time,
    /// When something last arrived on it.
    pub(super) heard: Time,
    /// When it was last probed because something arrived although it is stalled.
    pub(super) reprobed: Time,
    pub(super) last_sent: Time,
    pub(super) marks: EcnMarks,
    /// What is in the connection's indices for this path.
    pub(super) indexed: Indexed,
    pub(super) counters: Counters,
    /// Outstanding packets below this number were already sent again elsewhere.
    pub(super) reinjected: u64,
    /// Whose window it has.
    pub(super) under: Under,
    /// Set on a path through a relay.
    pub(super) through: Option<Through>,
}

/// Who gives a path its window.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Under {
    /// The connection's congestion control.
    Law,
    /// Nobody: it only asks whether a relay works.
    Trial,
    /// What carries it: see there.
    Own(Facts),
}

/// What makes a path one through a relay: its `remote` is the relay's address.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Through {
    /// The initiator's socket and relay.
    pub(crate) lane: Option<Lane>,
    /// In front of each datagram: the relay takes it off.
    pub(crate) header: Grant,
    /// Of the GRANT frame that brought or carries the peer's header.
    pub(crate) seq: u64,
}

/// What a packet carried that has to arrive; kept by the subflow sender until the packet is acked
/// or lost.
#[derive(Debug, Default)]
pub(super) struct Payload {
    pub(super) epoch: u8,
    /// The packet is larger than every path carries.
    pub(super) large: bool,
    pub(super) stream: Option<StreamRange>,
    /// Further stream ranges, rare enough that the allocation doesn't matter.
    pub(super) more: Vec<StreamRange>,
    pub(super) control: Vec<Frame<'static>>,
}

impl Payload {
    pub(super) fn ranges(&self) -> impl Iterator<Item = &StreamRange> {
        self.stream.iter().chain(&self.more)
    }

    pub(super) fn push(&mut self, range: StreamRange) {
        if self.stream.is_none() {
            self.stream = Some(range);
        } else {
            self.more.push(range);
        }
    }
}

/// Path validation: our challenge and the amplification limit.
#[derive(Debug)]
pub(super) struct Validation {
    challenge: Option<Challenge>,
    validated: bool,
    /// Only so much may be sent before.
    limited: bool,
    received: u64,
    sent: u64,
}

#[derive(Debug)]
struct Challenge {
    data: [u8; 8],
    sent: u32,
    first_sent: Time,
    next: Time,
    deadline: Time,
}

/// What the connection's ordered sets hold for a path, so that it can be taken out again in O(log
/// n).
#[derive(Debug, Default)]
pub(super) struct Indexed {
    pub(super) ready: Option<u64>,
    pub(super) active: Option<u64>,
    pub(super) timer: Option<Time>,
    pub(super) attention: bool,
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) bytes_sent: u64,
    pub(super) bytes_received: u64,
    pub(super) stream_bytes_sent: u64,
    pub(super) stream_bytes_received: u64,
}

/// ECN on one path: marks sent while they come back counted, and what arrived marked (RFC 9000,
/// section 13.4).
#[derive(Debug, Default)]
pub(super) struct EcnMarks {
    pub(super) enabled: bool,
    confirmed: bool,
    acked_unreported: u32,
    pub(super) ect0: u64,
    pub(super) ect1: u64,
    pub(super) ce: u64,
}

impl EcnMarks {
    /// Acknowledged packets without ECN counts after which a path counts as one that clears marks.
    const PATIENCE: u32 = 10;

    pub(super) fn new(enabled: bool) -> Self {
        Self {
            enabled,
            ..Self::default()
        }
    }

    /// The path leads another way now: marks have to prove themselves anew, but what arrived is
    /// counted on.
    pub(super) fn restart(&mut self, enabled: bool) {
        *self = Self {
            ect0: self.ect0,
            ect1: self.ect1,
            ce: self.ce,
            ..Self::new(enabled)
        };
    }

    /// An ACK came; `counts` is the sum of the ECN counts in it, if any.
    pub(super) fn on_ack(&mut self, counts: Option<u64>, newly_acked: usize) {
        if !self.enabled || self.confirmed || newly_acked == 0 {
            return;
        }
        if counts.is_some_and(|c| c > 0) {
            self.confirmed = true;
            return;
        }
        self.acked_unreported += newly_acked as u32;
        self.enabled = self.acked_unreported < Self::PATIENCE;
    }

    pub(super) fn any_received(&self) -> bool {
        self.ect0 + self.ect1 + self.ce > 0
    }
}

impl Through {
    /// The listener's side of a path: what goes in front of its datagrams.
    pub(crate) fn back(header: Grant) -> Self {
        Self {
            lane: None,
            header,
            seq: 0,
        }
    }
}

/// What a new path starts from.
pub(super) struct NewPath {
    pub(super) id: PathId,
    pub(super) local: Local,
    pub(super) remote: SocketAddr,
    pub(super) remote_cid: Option<ConnectionId>,
    pub(super) under: Under,
    pub(super) through: Option<Through>,
    /// The best guess of its round-trip time: another path's.
    pub(super) initial_rtt: Option<Duration>,
}

impl Path {
    pub(super) fn new(
        now: Time,
        new: NewPath,
        mtu: Mtu,
        config: &Config,
        peer_ack_delay: Duration,
        controller: &mut dyn Controller,
    ) -> Self {
        let mut sender_config = SenderConfig {
            packet_size: mtu.size() as u32,
            max_ack_delay: peer_ack_delay,
            pacing: config.paces(),
            ..SenderConfig::default()
        };
        if let Some(rtt) = new.initial_rtt {
            sender_config.initial_rtt = rtt;
        }
        let (facts, sender) = match new.under {
            Under::Own(facts) => {
                let config = CarriedConfig {
                    packet_size: sender_config.packet_size,
                    initial_rtt: sender_config.initial_rtt,
                    max_ack_delay: peer_ack_delay,
                    max_in_flight: MAX_ON_CARRIER,
                };
                let sender = Carried::new(config, now);
                (facts, Outbound::Carried(Box::new(sender)))
            }
            Under::Law | Under::Trial => {
                let sender = Sender::new(sender_config, now, controller);
                let facts = Facts::datagrams(config.max_datagram);
                (facts, Outbound::Windowed(Box::new(sender)))
            }
        };
        Self {
            id: new.id,
            local: new.local,
            remote: new.remote,
            remote_cid: new.remote_cid,
            state: PathState::Validating,
            sender,
            facts,
            received: Received::new(),
            validation: Validation {
                // TCP's own handshake has shown that the address takes part.
                limited: !facts.reliable,
                ..Validation::default()
            },
            mtu,
            moving: Moving::default(),
            homeless: false,
            respond: None,
            probes: 0,
            stalled_since: now,
            heard: now,
            reprobed: now,
            last_sent: now,
            marks: EcnMarks::new(config.ecn && !facts.reliable),
            indexed: Indexed::default(),
            counters: Counters::default(),
            reinjected: 0,
            under: new.under,
            through: new.through,
        }
    }

    /// Bytes in front of each datagram.
    pub(super) fn overhead(&self) -> usize {
        self.through
            .as_ref()
            .map_or(0, |t| t.header.as_bytes().len())
    }

    /// The initiator's socket and relay, if the path leads through one.
    pub(super) fn lane(&self) -> Option<Lane> {
        self.through.as_ref()?.lane
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

    /// Something arrived. On a stalled path that is a reason to probe now: its own probe timeouts
    /// are far apart by now.
    pub(super) fn note_heard(&mut self, now: Time) {
        self.heard = now;
        if self.state == PathState::Stalled && self.reprobed + self.sender.pto() <= now {
            self.reprobed = now;
            self.probes = self.probes.max(1);
        }
    }

    pub(super) fn stats(&self, controller: &dyn Controller) -> PathStats {
        let sender = self.sender.stats();
        let window = if self.state == PathState::Closed {
            0.0
        } else {
            self.sender.window(controller)
        };
        let carried = self.sender.carried();
        PathStats {
            id: self.id,
            name: self.local.name.clone(),
            local: self.local.addr,
            remote: self.remote,
            relay: self.through.is_some() || self.facts.relay,
            carrier: match carried {
                Some(_) => CarrierKind::Tcp,
                None => CarrierKind::Udp,
            },
            target: carried.and_then(Carried::target),
            delivers: carried.and_then(Carried::rate),
            state: self.state,
            rtt: self.sender.rtt().smoothed(),
            min_rtt: self.sender.rtt().min(),
            window,
            packet_size: self.mtu.size(),
            bytes_in_flight: self.sender.bytes_in_flight(),
            bytes_sent: self.counters.bytes_sent,
            bytes_received: self.counters.bytes_received,
            stream_bytes_sent: self.counters.stream_bytes_sent,
            stream_bytes_received: self.counters.stream_bytes_received,
            packets_sent: sender.packets_sent,
            packets_lost: sender.packets_lost,
            loss_events: sender.loss_events,
            timeouts: sender.timeouts,
        }
    }
}

impl Default for Validation {
    fn default() -> Self {
        Self {
            challenge: None,
            validated: false,
            limited: true,
            received: 0,
            sent: 0,
        }
    }
}

impl Validation {
    pub(super) fn is_validated(&self) -> bool {
        self.validated
    }

    /// The handshake's answer came from this very address.
    pub(super) fn set_validated(&mut self) {
        self.validated = true;
        self.challenge = None;
    }

    pub(super) fn start(&mut self, now: Time, data: [u8; 8]) {
        self.challenge = Some(Challenge {
            deadline: now + VALIDATION_TIMEOUT,
            data,
            sent: 0,
            first_sent: now,
            next: now,
        });
    }

    /// The challenge to send now, if one is due.
    pub(super) fn due(&self, now: Time) -> Option<[u8; 8]> {
        self.challenge
            .as_ref()
            .filter(|c| c.next <= now && c.sent < MAX_CHALLENGES)
            .map(|c| c.data)
    }

    /// Whether it was the first one.
    pub(super) fn on_challenge_sent(&mut self, now: Time) -> bool {
        let Some(challenge) = &mut self.challenge else {
            return false;
        };
        if challenge.sent == 0 {
            challenge.first_sent = now;
        }
        challenge.next = now + CHALLENGE_INTERVAL.delay(challenge.sent);
        challenge.sent += 1;
        challenge.sent == 1
    }

    /// Whether the answer is the one we wait for; with the round-trip time if it can be told.
    pub(super) fn on_response(&mut self, now: Time, data: [u8; 8]) -> Option<Option<Duration>> {
        let challenge = self.challenge.take_if(|c| c.sent > 0 && c.data == data)?;
        self.validated = true;
        Some((challenge.sent == 1).then(|| now.since(challenge.first_sent)))
    }

    /// When there is something to do about the challenge. One that is due already waits for the
    /// next datagram out, not for the time.
    pub(super) fn timer(&self, now: Time) -> Option<Time> {
        let challenge = self.challenge.as_ref()?;
        if self.due(now).is_some() {
            Some(challenge.deadline)
        } else {
            Some(challenge.next.min(challenge.deadline))
        }
    }

    /// Every challenge went unanswered, or couldn't even be sent for too long.
    pub(super) fn has_failed(&self, now: Time) -> bool {
        let failed = |c: &Challenge| c.sent >= MAX_CHALLENGES && c.next <= now || c.deadline <= now;
        self.challenge.as_ref().is_some_and(failed)
    }

    pub(super) fn on_received(&mut self, bytes: usize) {
        self.received += bytes as u64;
    }

    pub(super) fn on_sent(&mut self, bytes: usize) {
        self.sent += bytes as u64;
    }

    /// Whether a CLOSE may go there: a peer turned away at once hasn't validated the path to it
    /// yet.
    pub(super) fn takes_close(&self, initiator: bool) -> bool {
        self.validated || (!initiator && self.allowance(initiator) > 0)
    }

    /// Bytes the next datagram may have.
    pub(super) fn allowance(&self, initiator: bool) -> usize {
        if self.validated || initiator || !self.limited {
            // The initiator was told this address by the ticket or the authenticated peer; it sends
            // challenges only.
            return usize::MAX;
        }
        let left = (self.received * AMPLIFICATION).saturating_sub(self.sent);
        if left < SMALLEST_DATAGRAM {
            0
        } else {
            left as usize
        }
    }
}

//! What a path makes of what arrives on it.

use std::net::SocketAddr;
use std::time::Duration;

use manyway_units::Time;
use rand::CryptoRng;

use super::{Path, SHORTEST_ACK_DELAY};
use crate::connection::paths::migration::Origin;
use crate::connection::paths::types::{RelayHeader, Response};
use crate::driver::{Ecn, Local, LocalId};
use crate::observe::PacketEvent;
use crate::received::AckPolicy;

impl Path {
    /// The newest packet that arrived.
    pub(crate) fn largest_received(&self) -> Option<u64> {
        self.received.largest()
    }

    /// Whether a packet may still be new.
    pub(crate) fn is_fresh(&self, number: u64) -> bool {
        self.received.is_fresh(number)
    }

    /// A datagram came, while we are closing, from the path's own address: unopened.
    pub(crate) fn on_unopened(&mut self, remote: SocketAddr, bytes: usize) {
        if self.remote == remote {
            self.validation.on_received(bytes);
        }
    }

    /// A packet has opened. Where it came from, which may have become a candidate by that.
    pub(crate) fn on_packet(
        &mut self,
        now: Time,
        number: u64,
        (local, remote): (&Local, SocketAddr),
        (len, mark): (usize, Option<Ecn>),
        initiator: bool,
        rng: &mut impl CryptoRng,
    ) -> Origin {
        let origin = self.origin(now, number, (local, remote), initiator, rng);
        match origin {
            Origin::Home => self.validation.on_received(len),
            Origin::Candidate(at) => {
                if let Some(candidate) = self.migration.candidate(at) {
                    candidate.validation.on_received(len);
                }
            }
            Origin::OtherSocket | Origin::Stray => {}
        }
        self.counters.bytes_received += len as u64;
        self.observe(now, || PacketEvent::Received { number, bytes: len });
        self.heard = now;
        // On a silent path that is a reason to probe now: its own probe timeouts are far apart by
        // now.
        if self.is_silent() && self.reprobed + self.sender.pto() <= now {
            self.reprobed = now;
            self.probe();
        }
        self.marks.on_received(mark);
        origin
    }

    fn origin(
        &mut self,
        now: Time,
        number: u64,
        (local, remote): (&Local, SocketAddr),
        initiator: bool,
        rng: &mut impl CryptoRng,
    ) -> Origin {
        let validated = self.validation.is_validated();
        if self.remote == remote && self.local.id == local.id {
            if validated {
                self.migration.on_packet_from_home(now, number);
            }
            return Origin::Home;
        }
        if let Some(at) = self.migration.on_packet_from(number, remote) {
            return Origin::Candidate(at);
        }
        // What comes through a relay comes from its one address, and a carrier has only one.
        if self.relay.is_some() || self.facts.reliable {
            return Origin::Stray;
        }
        // An initiator was told where its path leads. Before that address has answered, whoever
        // passes on what comes from there could lead it to where the listener isn't.
        if initiator && !validated {
            return Origin::Stray;
        }
        let newest = self.received.largest().is_none_or(|l| number > l);
        // The peer may answer to another socket of ours than the one we send from: only a new
        // address says that it has moved. An interface that comes back has a new socket, and it
        // may be the same address.
        if initiator && self.remote == remote && self.local.addr != local.addr {
            return Origin::OtherSocket;
        }
        if self.remote == remote || !newest || self.migration.is_quiet(now) {
            return Origin::Stray;
        }
        let deadline = validated.then(|| now + self.sender.pto());
        let at = self.migration.challenge(now, number, remote, deadline, rng);
        Origin::Candidate(at)
    }

    /// Whether a packet shows that its relay was asked from another socket of ours, a listener's,
    /// than the one that the path sends from. A relay with several addresses sends from the one
    /// that was asked, so `answers` has to know that there is a relay at the others.
    pub(crate) fn is_led_to(
        &self,
        local: LocalId,
        remote: SocketAddr,
        number: u64,
        answers: impl FnOnce(SocketAddr) -> bool,
    ) -> bool {
        let back = |relay: &RelayHeader| relay.route.is_none();
        let led = || match self.remote == remote {
            true => self.local.id != local,
            false => self.relay_before == Some(remote) || answers(remote),
        };
        self.relay.as_ref().is_some_and(back)
            && self.received.largest().is_none_or(|l| number > l)
            && led()
    }

    /// The packet's frames were handled: it is acknowledged by the policy, or at once.
    pub(crate) fn record(
        &mut self,
        now: Time,
        number: u64,
        ack_eliciting: bool,
        policy: AckPolicy,
        at_once: bool,
    ) {
        self.received.record(now, number, ack_eliciting, policy);
        if at_once {
            self.received.ack_now();
        }
    }

    /// How soon packets are acknowledged: by mPath's rule, but an ACK waits for an eighth of a
    /// round trip at most. On a short path 10 ms are half a window, which the peer's window would
    /// have to cover twice.
    pub(crate) fn ack_policy(&self, every: u32, delay: Duration) -> AckPolicy {
        let rtt = self.sender.rtt();
        let short = if rtt.has_sample() {
            (rtt.min() / 8).max(SHORTEST_ACK_DELAY)
        } else {
            Duration::MAX
        };
        AckPolicy {
            every,
            delay: delay.min(short),
        }
    }

    /// Stream data came.
    pub(crate) fn on_stream_data(&mut self, now: Time, bytes: usize) {
        self.counters.stream_bytes_received += bytes as u64;
        self.on_data(now);
    }

    /// Data of the application came, of whatever kind.
    pub(crate) fn on_data(&mut self, now: Time) {
        if !self.facts.reliable {
            self.migration.note_data(now, 3 * self.sender.pto());
        }
    }

    /// The peer's challenge is answered where it came from. But an initiator chooses the socket
    /// that its path leaves from: if the handshake was answered at another one as well, an answer
    /// to what the listener asks there would have the path lead back to that one.
    pub(crate) fn on_challenge(&mut self, origin: Origin, data: [u8; 8]) {
        let respond = match origin {
            Origin::OtherSocket => return,
            Origin::Candidate(at) => self.migration.candidate(at).map(|c| &mut c.respond),
            Origin::Home | Origin::Stray => None,
        };
        // The newest challenge only: answers can't pile up.
        *respond.unwrap_or(&mut self.respond) = Some(data);
    }

    /// An answer to one of our challenges, or something that looks like it.
    ///
    /// An initiator was told the address by the ticket or the peer. A listener has it from a packet
    /// that may have been copied: there the answer must come from where the challenge went, except
    /// where the handshake took place.
    pub(crate) fn on_response(
        &mut self,
        now: Time,
        origin: Origin,
        data: [u8; 8],
        initiator: bool,
    ) -> Response {
        if (initiator || origin == Origin::Home || self.validation.is_of_handshake())
            && let Some(rtt) = self.validation.on_response(now, data)
        {
            self.migration.on_home_validated(now);
            return Response::Validated(rtt);
        }
        if !self.migration.on_home_response(now, data)
            && self.migration.on_response(now, origin, data)
        {
            return Response::Candidate;
        }
        Response::Nothing
    }
}

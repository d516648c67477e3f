//! A peer whose address changes under a live path: its NAT has bound anew, or it has roamed.
//!
//! A packet that opens, newer than all before it on its path, from another address than the path's,
//! makes that address a **candidate**: it is challenged while the path goes on with its own
//! address, its **home**. Whoever copies a packet and is faster than the original does the same
//! (RFC 9000 §9.3.3). So the home is challenged too, and as long as it is reachable, the path
//! stays: only if the candidate has answered and the home hasn't within a probe timeout, the path
//! moves. An attacker would have to cut the home off, and who can do that is the path.

use std::net::SocketAddr;
use std::time::Duration;

use manyway_units::{Backoff, Time};
use manyway_wire::{DATA_HEADER_LEN, Frame, TAG_LEN};
use rand::RngExt;

use crate::driver::{Local, LocalId, Transmit};
use crate::event::Event;
use crate::stats::PathState;

use super::path::Validation;
use super::transmit::Packet;
use super::{Connection, requeue};

/// Addresses of one path under challenge at a time.
const MAX_CANDIDATES: usize = 4;
/// After the home has proven reachable, other addresses are left alone for so long, unless a probe
/// timeout runs out.
const PAUSE: Duration = Duration::from_secs(1);
/// Room for challenge, response and PATH_ID: 9, 9 and at most 13 bytes.
const PATH_FRAMES: usize = 32;
/// Numbers remembered of packets that went to candidates.
const MAX_ELSEWHERE: usize = 64;
/// Silence after stream data that makes a receiver say where it is now, at the least; repeated
/// after twice as long.
const SILENCE: Duration = Duration::from_millis(300);
/// How often it does, until it hears something.
const MAX_CALLS: u32 = 5;

/// Which addresses a path could move to.
#[derive(Debug, Default)]
pub(super) struct Moving {
    candidates: Vec<Candidate>,
    /// The challenge to the path's own address.
    home: Option<Home>,
    /// No new candidates before that.
    quiet_until: Time,
    /// Newest packets that went to candidates: what the peer says of them says nothing about the
    /// path.
    elsewhere: Vec<u64>,
    watch: Watch,
}

#[derive(Debug)]
struct Candidate {
    remote: SocketAddr,
    validation: Validation,
    respond: Option<[u8; 8]>,
    /// An ACK of the path goes there too.
    ack: bool,
    /// The newest packet that came from there.
    newest: u64,
    since: Time,
    /// It has answered; with the round-trip time if it can be told.
    answered: Option<Option<Duration>>,
}

#[derive(Debug)]
struct Home {
    data: [u8; 8],
    sent: bool,
    /// The candidate may take over then.
    deadline: Time,
}

/// A receiver's watch over a path that carried stream data: if our own address has changed, the
/// sender can't reach us and we have nothing to acknowledge; it has to hear of us.
#[derive(Debug, Default)]
struct Watch {
    at: Option<Time>,
    called: Time,
    calls: u32,
}

/// Where a packet on a path came from.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The path's own address.
    Home,
    /// An address under challenge, by its place in the list.
    Candidate(usize),
    /// Elsewhere, and too old or too soon to mean anything.
    Stray,
}

impl Moving {
    pub(super) fn timer(&self, now: Time) -> Option<Time> {
        if self.candidates.is_empty() {
            return self.watch.at;
        }
        let challenges = self
            .candidates
            .iter()
            .filter_map(|c| c.validation.timer(now));
        let answered = self.candidates.iter().any(|c| c.answered.is_some());
        let home = self.home.as_ref().filter(|_| answered).map(|h| h.deadline);
        challenges.chain(home).chain(self.watch.at).min()
    }

    /// Whether something is due for an address under challenge, or for the home's proof.
    pub(super) fn owes(&self, now: Time) -> bool {
        let owed = |c: &Candidate| c.respond.is_some() || c.validation.due(now).is_some() || c.ack;
        self.home.as_ref().is_some_and(|h| !h.sent) || self.candidates.iter().any(owed)
    }

    /// The challenge to the path's own address, if it has to leave now.
    pub(super) fn take_home_challenge(&mut self) -> Option<[u8; 8]> {
        let home = self.home.as_mut().filter(|h| !h.sent)?;
        home.sent = true;
        Some(home.data)
    }

    /// An ACK leaves for the path's own address: the others get a copy.
    pub(super) fn copy_ack(&mut self) {
        self.candidates.iter_mut().for_each(|c| c.ack = true);
    }

    /// Whether packets went to candidates at all.
    pub(super) fn went_elsewhere(&self) -> bool {
        !self.elsewhere.is_empty()
    }

    /// Takes packets that went to candidates out of the ranges of an ACK, newest first as they
    /// come.
    pub(super) fn without_elsewhere(&self, ranges: &mut super::receive::Ranges) {
        for &number in &self.elsewhere {
            let Some(at) = ranges.iter().position(|r| r.contains(&number)) else {
                continue;
            };
            let (start, end) = (*ranges[at].start(), *ranges[at].end());
            let above = (number < end).then(|| number + 1..=end);
            let below = (number > start).then(|| start..=number - 1);
            ranges.splice(at..=at, above.into_iter().chain(below));
        }
    }

    /// Stream data arrived.
    pub(super) fn note_data(&mut self, now: Time, silence: Duration) {
        self.watch.calls = 0;
        // The timer isn't moved on with each packet: it looks when it fires.
        let at = now + silence.max(SILENCE);
        self.watch.at = Some(self.watch.at.map_or(at, |known| known.min(at)));
    }

    /// A probe timeout ran out: perhaps the home isn't what it was.
    pub(super) fn on_probe_timeout(&mut self) {
        self.quiet_until = Time::ZERO;
    }

    fn settle(&mut self, now: Time) {
        self.candidates.clear();
        self.home = None;
        self.quiet_until = now + PAUSE;
    }

    fn note_elsewhere(&mut self, number: u64) {
        if self.elsewhere.len() == MAX_ELSEWHERE {
            self.elsewhere.remove(0);
        }
        self.elsewhere.push(number);
    }

    /// Whether it is time to call, the last packet having come at `heard`.
    fn call(&mut self, now: Time, heard: Time, silence: Duration) -> bool {
        let watch = &mut self.watch;
        if watch.at.is_none_or(|at| at > now) {
            return false;
        }
        if watch.calls > 0 && heard > watch.called {
            // The call was answered. The next stream data begins a new watch.
            watch.at = None;
            return false;
        }
        let silence = silence.max(SILENCE);
        let due = heard + silence;
        if watch.calls == 0 && due > now {
            watch.at = Some(due);
            return false;
        }
        watch.called = now;
        watch.calls += 1;
        let next = now + Backoff::new(silence, Duration::MAX).delay(watch.calls);
        watch.at = (watch.calls < MAX_CALLS).then_some(next);
        true
    }
}

impl Connection {
    /// Where a packet that has opened came from. It may make its address a candidate, or put an end
    /// to others.
    pub(super) fn origin(
        &mut self,
        now: Time,
        index: usize,
        number: u64,
        local: LocalId,
        remote: SocketAddr,
    ) -> Origin {
        let path = &mut self.paths[index];
        if path.remote == remote && path.local.id == local {
            if !path.moving.candidates.is_empty()
                && path.moving.candidates.iter().all(|c| c.newest < number)
                && path.validation.is_validated()
            {
                // The peer still is where it was.
                path.moving.settle(now);
            }
            return Origin::Home;
        }
        if let Some(at) = path
            .moving
            .candidates
            .iter()
            .position(|c| c.remote == remote)
        {
            let candidate = &mut path.moving.candidates[at];
            candidate.newest = candidate.newest.max(number);
            return Origin::Candidate(at);
        }
        // What comes through a relay comes from its one address, and a carrier has only one.
        if path.through.is_some() || path.facts.reliable {
            return Origin::Stray;
        }
        let newest = path.received.largest().is_none_or(|l| number > l);
        // Another socket of ours is another path: those don't move.
        if path.local.id != local || !newest || now < path.moving.quiet_until {
            return Origin::Stray;
        }
        self.challenge(now, index, number, remote);
        Origin::Candidate(self.paths[index].moving.candidates.len() - 1)
    }

    fn challenge(&mut self, now: Time, index: usize, number: u64, remote: SocketAddr) {
        let (data, home) = (self.rng.random(), self.rng.random());
        let path = &mut self.paths[index];
        let moving = &mut path.moving;
        if moving.candidates.len() == MAX_CANDIDATES {
            let oldest = (0..MAX_CANDIDATES).min_by_key(|&at| {
                let candidate = &moving.candidates[at];
                (candidate.answered.is_some(), candidate.newest)
            });
            moving.candidates.remove(oldest.unwrap_or(0));
        }
        let mut validation = Validation::default();
        validation.start(now, data);
        moving.candidates.push(Candidate {
            remote,
            validation,
            respond: None,
            ack: false,
            newest: number,
            since: now,
            answered: None,
        });
        if path.validation.is_validated() && moving.home.is_none() {
            moving.home = Some(Home {
                data: home,
                sent: false,
                deadline: now + path.sender.pto(),
            });
        }
    }

    /// Bytes came from there: they count for the address that sent them.
    pub(super) fn count_received(&mut self, index: usize, origin: Origin, bytes: usize) {
        let path = &mut self.paths[index];
        match origin {
            Origin::Home => path.validation.on_received(bytes),
            Origin::Candidate(at) => {
                if let Some(candidate) = path.moving.candidates.get_mut(at) {
                    candidate.validation.on_received(bytes);
                }
            }
            Origin::Stray => {}
        }
    }

    /// The peer's challenge is answered where it came from.
    pub(super) fn on_challenge(&mut self, index: usize, origin: Origin, data: [u8; 8]) {
        let path = &mut self.paths[index];
        let respond = match origin {
            Origin::Candidate(at) => path.moving.candidates.get_mut(at).map(|c| &mut c.respond),
            Origin::Home | Origin::Stray => None,
        };
        // The newest challenge only: answers can't pile up.
        *respond.unwrap_or(&mut path.respond) = Some(data);
    }

    pub(super) fn on_response(&mut self, now: Time, index: usize, origin: Origin, data: [u8; 8]) {
        let path = &mut self.paths[index];
        // An initiator was told the address by the ticket or the peer. A listener has it from a
        // packet that may have been copied: there the answer must come from where the challenge
        // went.
        if (self.initiator || origin == Origin::Home)
            && let Some(rtt) = path.validation.on_response(now, data)
        {
            self.validated(now, index, rtt);
            return;
        }
        // That the home is reachable counts, from wherever its answer comes.
        if path.moving.home.as_ref().is_some_and(|h| h.data == data) {
            path.moving.settle(now);
            return;
        }
        if let Origin::Candidate(at) = origin
            && let Some(candidate) = path.moving.candidates.get_mut(at)
            && let Some(rtt) = candidate.validation.on_response(now, data)
        {
            candidate.answered = Some(rtt);
            self.drive_moving(now, index);
        }
    }

    /// Moves the path if it is time, and gives up candidates that don't answer.
    pub(super) fn drive_moving(&mut self, now: Time, index: usize) {
        let path = &mut self.paths[index];
        let silence = 3 * path.sender.pto();
        if path.moving.call(now, path.heard, silence) {
            path.probes = path.probes.max(1);
        }
        path.moving
            .candidates
            .retain(|c| !c.validation.has_failed(now));
        if path.moving.candidates.is_empty() {
            path.moving.home = None;
            return;
        }
        let waits = path.moving.home.as_ref().is_some_and(|h| now < h.deadline);
        if waits && path.validation.is_validated() {
            return;
        }
        let answered = path
            .moving
            .candidates
            .iter()
            .filter(|c| c.answered.is_some());
        let Some(newest) = answered.max_by_key(|c| c.newest).map(|c| c.remote) else {
            return;
        };
        self.move_to(now, index, newest);
    }

    /// The path goes to the candidate's address from now on.
    fn move_to(&mut self, now: Time, index: usize, remote: SocketAddr) {
        let path = &mut self.paths[index];
        let old = path.remote;
        let candidates = std::mem::take(&mut path.moving.candidates);
        let Some(chosen) = candidates.into_iter().find(|c| c.remote == remote) else {
            return;
        };
        path.moving.home = None;
        path.remote = remote;
        path.validation = chosen.validation;
        path.respond = chosen.respond.or(path.respond.take());
        // Where it answered it may need to be heard at once: the peer's sender may be waiting for
        // ACKs.
        path.received.ack_now();
        tracing::debug!(path = path.id.0, %old, %remote, after = ?now.since(chosen.since), "the peer's address changed");
        let fresh = old.ip() != remote.ip();
        let rtt = chosen.answered.flatten();
        self.lead_elsewhere(now, index, fresh.then_some(rtt).flatten(), fresh);
        let path = &self.paths[index];
        if let Some(pairs) = &mut self.pairs {
            pairs.on_moved(now, path.local.id, old, remote, path.id);
        }
        if path.state == PathState::Validating {
            self.validated(now, index, rtt);
        } else {
            let (path, name) = (path.id, path.local.name.clone());
            self.events.push_back(Event::PathMoved {
                path,
                name,
                remote,
                previous: old,
            });
            if self.paths[index].state == PathState::Stalled {
                self.on_path_alive(now, index);
            }
        }
        self.refresh(now, index);
    }

    /// What is in flight went to where nobody is any more; that is no sign of congestion. With
    /// `fresh`, it is another network path, and what was learned of the old one counts for nothing
    /// (RFC 9000 §9.4).
    fn lead_elsewhere(&mut self, now: Time, index: usize, rtt: Option<Duration>, fresh: bool) {
        let path = &mut self.paths[index];
        path.sender.abandon_flight(now, &mut self.outcome);
        if fresh {
            let (local, remote) = (path.local.clone(), path.remote);
            let limit = self.datagram_limit(&local, remote);
            self.paths[index].mtu.restart(now, limit);
            self.apply_mtu(index);
            let path = &mut self.paths[index];
            path.sender.reopen(now, self.controllers.of_mut(path.under));
            path.marks.restart(self.config.ecn);
            if let Some(rtt) = rtt {
                path.sender.seed_rtt(rtt);
            }
        }
        let path = &mut self.paths[index];
        path.reinjected = path.sender.next_packet_number();
        for (_, payload) in self.outcome.lost.drain(..) {
            self.resent += payload.ranges().map(|r| u64::from(r.len)).sum::<u64>();
            requeue(&mut self.streams, &mut self.control, payload);
        }
    }

    /// One datagram for an address under challenge, if one is due and allowed.
    pub(super) fn transmit_candidate(
        &mut self,
        now: Time,
        index: usize,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        for at in 0..self.paths[index].moving.candidates.len() {
            if let Some(transmit) = self.write_to_candidate(now, index, at, buf) {
                self.refresh(now, index);
                return Some(transmit);
            }
        }
        None
    }

    fn write_to_candidate(
        &mut self,
        now: Time,
        index: usize,
        at: usize,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let base = self.paths[index].mtu.base();
        let candidate = &mut self.paths[index].moving.candidates[at];
        let ack = std::mem::take(&mut candidate.ack);
        let challenge = candidate.validation.due(now);
        if !ack && challenge.is_none() && candidate.respond.is_none() {
            return None;
        }
        // Not even an initiator was told of this address by anybody it trusts.
        let room = candidate.validation.allowance(false).min(base);
        buf.clear();
        // A path through a relay has no candidates, but one may have become such a path meanwhile.
        let least = self.paths[index].overhead() + DATA_HEADER_LEN + TAG_LEN + PATH_FRAMES;
        if room < least {
            return None;
        }
        let head = self.begin(index, buf)?;
        let end = room - TAG_LEN;
        let mut packet = Packet::new();
        let id = self.paths[index].id;
        let local_cid = self.local_cids.get(&id).copied();
        if self.paths[index].received.largest().is_some() {
            self.write_ack(now, index, end - PATH_FRAMES, buf);
        }
        let candidate = &mut self.paths[index].moving.candidates[at];
        let remote = candidate.remote;
        if let Some(data) = candidate.respond.take() {
            Frame::PathResponse { data }.encode(buf);
            packet.pad = true;
        }
        if let Some(data) = challenge {
            Frame::PathChallenge { data }.encode(buf);
            candidate.validation.on_challenge_sent(now);
            packet.pad = true;
            // On a path that is new to the peer it can't answer without it.
            if let Some(cid) = local_cid {
                Frame::PathId { path: id, cid }.encode(buf);
            }
        }
        if packet.pad {
            buf.resize(end.max(buf.len()), 0);
        }
        // Not ack-eliciting in our own books: if it is lost, that says nothing about the path.
        packet.aside = true;
        let number = self.paths[index].sender.next_packet_number();
        let len = self.seal_and_record(now, index, [0, head], packet, buf)?;
        let path = &mut self.paths[index];
        path.moving.note_elsewhere(number);
        path.moving.candidates[at].validation.on_sent(len);
        Some(Transmit {
            local: path.local.id,
            remote,
            ecn: false,
            len,
            segment_size: None,
        })
    }

    /// Our own socket of this path is gone, and a listener can't open another path: it waits for a
    /// socket that fits.
    pub(super) fn rehome(&mut self, now: Time, index: usize, local: &Local) {
        let path = &mut self.paths[index];
        path.local = local.clone();
        path.homeless = false;
        // The peer learns our new address from it.
        path.probes = path.probes.max(1);
        path.moving = Moving::default();
        self.lead_elsewhere(now, index, None, true);
        self.refresh(now, index);
    }
}

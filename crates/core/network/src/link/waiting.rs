//! Links whose queue decides about packets when they leave it.

use std::collections::VecDeque;

use manyway_units::Time;

use super::Link;
use crate::queue::{Discipline, Held};
use crate::{DropReason, LinkConfig, Packet, Ticket, Verdict};

/// The packets that wait, and those about which the queue has decided but the caller doesn't know.
#[derive(Debug, Clone)]
pub(super) struct Waiting {
    discipline: Discipline,
    packets: u64,
    bytes: u64,
    /// The times at which the waiting packets came, summed, in ns.
    came: u128,
    /// Tickets that nobody has, below `tickets`.
    free: Vec<u32>,
    /// Tickets that there are.
    tickets: u32,
    decided: VecDeque<(Ticket, Verdict)>,
    /// Used again and again.
    dropped: Vec<Held>,
}

impl Waiting {
    /// `None` if the queue decides earlier. The configuration is valid.
    pub(super) fn new(config: &LinkConfig) -> Option<Self> {
        Some(Self {
            discipline: Discipline::new(&config.queue, config.seed)?,
            packets: 0,
            bytes: 0,
            came: 0,
            free: Vec::new(),
            tickets: 0,
            decided: VecDeque::new(),
            dropped: Vec::new(),
        })
    }

    /// Packets and bytes that wait.
    pub(super) fn amount(&self) -> (u64, u64) {
        (self.packets, self.bytes)
    }

    /// How long they have waited until `now`, summed, in ns.
    pub(super) fn waited(&self, now: u64) -> u128 {
        (u128::from(self.packets) * u128::from(now)).saturating_sub(self.came)
    }

    fn push(&mut self, now: u64, packet: Packet) -> Ticket {
        let ticket = self.free.pop().unwrap_or_else(|| {
            self.tickets += 1;
            self.tickets - 1
        });
        self.packets += 1;
        self.bytes += u64::from(packet.bytes);
        self.came += u128::from(now);
        self.discipline.push(Held {
            ticket,
            at: now,
            bytes: packet.bytes,
            ecn: packet.ecn || packet.l4s,
            l4s: packet.l4s,
            flow: packet.flow,
            class: packet.class,
        });
        Ticket(ticket)
    }

    /// A packet waits no longer.
    fn leaves(&mut self, held: &Held) {
        self.packets -= 1;
        self.bytes -= u64::from(held.bytes);
        self.came -= u128::from(held.at);
    }

    /// The decision about a packet, if there is one; its ticket is free then.
    fn withdraw(&mut self, ticket: Ticket) -> Option<Verdict> {
        let at = self.decided.iter().position(|(of, _)| *of == ticket)?;
        let (Ticket(number), verdict) = self.decided.remove(at)?;
        self.free.push(number);
        Some(verdict)
    }
}

impl Link {
    /// When the queue has decided about a packet that waits, or will at the earliest: then
    /// [`Link::decide`] is to be asked. `None` while nobody waits, and for queues that decide when
    /// packets are offered.
    pub fn next_decision(&self) -> Option<Time> {
        let waiting = self.rest.waiting.as_ref()?;
        match (waiting.decided.is_empty(), waiting.packets) {
            (false, _) => Some(Time::from_nanos(self.latest_offer)),
            (true, 0) => None,
            (true, _) => Some(self.free_at.time()),
        }
    }

    /// A packet that waited and about which the queue has decided by `now`, and the decision, which
    /// is never [`Verdict::Queued`]. The packets of one link come in the order of departure.
    ///
    /// Like offers, the calls come in the order of time.
    pub fn decide(&mut self, now: Time) -> Option<(Ticket, Verdict)> {
        let now = now.as_nanos().max(self.latest_offer);
        self.latest_offer = now;
        self.catch_up(now);
        let waiting = self.rest.waiting.as_mut()?;
        let (ticket, verdict) = waiting.decided.pop_front()?;
        waiting.free.push(ticket.0);
        Some((ticket, verdict))
    }

    /// Decides whatever was to be decided until `now`, each at its time.
    #[inline]
    pub(super) fn catch_up(&mut self, now: u64) {
        while self.rest.waiting().0 > 0 && self.free_at.ceil() <= now {
            self.serve_next(self.free_at.ceil());
        }
    }

    /// The link is up, and its queue decides when packets leave it.
    pub(super) fn offer_to_wait(&mut self, now: u64, packet: Packet) -> Verdict {
        self.backlog.drain(now);
        let bytes = u64::from(packet.bytes);
        // Nobody gives way to a packet for which there is no room anyhow.
        let mut fits = self.has_room(packet.bytes);
        while let Some(waiting) = self.rest.waiting.as_mut()
            && fits
        {
            let packets = waiting.packets + self.backlog.len();
            let total = waiting.bytes + self.backlog.bytes();
            if packets < self.max_packets && total.saturating_add(bytes) <= self.max_bytes {
                break;
            }
            let mut dropped = std::mem::take(&mut waiting.dropped);
            fits = waiting.discipline.evict(packet.class, &mut dropped);
            self.lose(now, dropped, DropReason::QueueFull);
        }
        let Some(waiting) = self.rest.waiting.as_mut().filter(|_| fits) else {
            return self.rest.dropped(DropReason::QueueFull);
        };
        let ticket = waiting.push(now, packet);
        if self.free_at.ceil() <= now {
            self.serve_next(now);
        }
        let waiting = self.rest.waiting.as_mut();
        let decided = waiting.and_then(|waiting| waiting.withdraw(ticket));
        decided.unwrap_or(Verdict::Queued(ticket))
    }

    /// The link is free at `now`: the next packet is sent.
    #[inline(never)]
    fn serve_next(&mut self, now: u64) {
        if !self.rest.keep_to_schedule(now, &mut self.per_byte) {
            return self.lose_waiting(now);
        }
        let Some(waiting) = self.rest.waiting.as_mut() else {
            return;
        };
        let mut dropped = std::mem::take(&mut waiting.dropped);
        let taken = waiting.discipline.take(now, &mut dropped);
        self.lose(now, dropped, DropReason::Early);
        let Some((held, marked)) = taken else { return };
        if self.backlog.is_crowded() {
            self.backlog.drain(now);
        }
        let verdict = self.send(held.at, held.bytes, marked);
        if let Some(waiting) = self.rest.waiting.as_mut() {
            waiting.leaves(&held);
            waiting.decided.push_back((Ticket(held.ticket), verdict));
        }
    }

    /// Everything that waits is lost, as the link is down.
    pub(super) fn lose_waiting(&mut self, now: u64) {
        let Some(waiting) = self.rest.waiting.as_mut() else {
            return;
        };
        let mut lost = std::mem::take(&mut waiting.dropped);
        lost.extend(std::iter::from_fn(|| waiting.discipline.pop()));
        self.lose(now, lost, DropReason::Down);
    }

    /// Counts packets that waited in vain.
    fn lose(&mut self, now: u64, mut lost: Vec<Held>, reason: DropReason) {
        for held in lost.drain(..) {
            let verdict = self.rest.dropped(reason);
            self.sojourn += u128::from(now - held.at);
            if let Some(waiting) = self.rest.waiting.as_mut() {
                waiting.leaves(&held);
                waiting.decided.push_back((Ticket(held.ticket), verdict));
            }
        }
        if let Some(waiting) = self.rest.waiting.as_mut() {
            waiting.dropped = lost;
        }
    }
}

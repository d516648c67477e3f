//! Links and what is under way on them, without a clock of its own.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use manyway_network::{HeldBack, Link, Packet, Verdict};
use manyway_units::Time;

/// Takes packets over the links of their routes; a packet carries a `C`.
///
/// A packet is offered to its next link at the time when it leaves the one before, however late
/// the caller is: only where packets enter and leave does its clock count. The links' queues and
/// bandwidth-delay products bound what is under way.
#[derive(Debug)]
pub(crate) struct Traffic<C> {
    links: Vec<Link>,
    /// By link: packets that wait until its queue decides about them.
    held: Vec<HeldBack<Parcel<C>>>,
    /// When which link has to be asked for decisions.
    decisions: BinaryHeap<Reverse<(Time, usize)>>,
    /// The next to arrive on top.
    under_way: BinaryHeap<Reverse<Parcel<C>>>,
    offered: u64,
}

#[derive(Debug)]
struct Parcel<C> {
    /// At the far end of the link that it is on.
    arrives: Time,
    /// Of equal times the one offered first arrives first.
    number: u64,
    /// To the link that it is on.
    offered: Time,
    route: Arc<[usize]>,
    /// Hops begun.
    begun: usize,
    packet: Packet,
    cargo: C,
}

impl<C> Traffic<C> {
    pub(crate) fn new(links: Vec<Link>) -> Self {
        Self {
            held: links.iter().map(|_| HeldBack::default()).collect(),
            decisions: BinaryHeap::new(),
            links,
            under_way: BinaryHeap::new(),
            offered: 0,
        }
    }

    pub(crate) fn link_mut(&mut self, link: usize) -> Option<&mut Link> {
        self.links.get_mut(link)
    }

    /// When [`Traffic::take`] is due: the next packet is at the end of the link that it is on, or a
    /// queue decides about one that waits.
    pub(crate) fn next_due(&self) -> Option<Time> {
        let decision = self.decisions.peek().map(|Reverse((at, _))| *at);
        self.next_arrival().into_iter().chain(decision).min()
    }

    fn next_arrival(&self) -> Option<Time> {
        self.under_way.peek().map(|Reverse(first)| first.arrives)
    }

    /// What the packets carry that are on links.
    #[cfg(all(feature = "live", target_os = "linux"))]
    pub(crate) fn under_way(&self) -> impl Iterator<Item = &C> {
        let waiting = self.held.iter().flat_map(HeldBack::iter);
        let parcels = self.under_way.iter().map(|Reverse(parcel)| parcel);
        parcels.chain(waiting).map(|parcel| &parcel.cargo)
    }

    /// A packet enters at `now`. What its first link says of it, if its route has
    /// any.
    pub(crate) fn offer(
        &mut self,
        now: Time,
        route: &Arc<[usize]>,
        packet: Packet,
        cargo: C,
    ) -> Option<Verdict> {
        self.pass_on(Parcel {
            arrives: now,
            number: 0,
            offered: now,
            route: route.clone(),
            begun: 0,
            packet,
            cargo,
        })
    }

    /// The next packet that is out of its last link by `now`, and since when.
    pub(crate) fn take(&mut self, now: Time) -> Option<(Time, C)> {
        while self.next_due()? <= now {
            let arrival = self.next_arrival().unwrap_or(Time::MAX);
            if let Some(&Reverse((at, link))) = self.decisions.peek()
                && at <= arrival
            {
                self.decisions.pop();
                self.decide(at, link);
                continue;
            }
            let Reverse(parcel) = self.under_way.pop()?;
            if let Some(&link) = parcel
                .begun
                .checked_sub(1)
                .and_then(|hop| parcel.route.get(hop))
                && !self.links[link].survived(parcel.offered, parcel.packet.bytes)
            {
                continue;
            }
            if parcel.begun >= parcel.route.len() {
                return Some((parcel.arrives, parcel.cargo));
            }
            self.pass_on(parcel);
        }
        None
    }

    /// Onto the next link; without one it is there.
    fn pass_on(&mut self, parcel: Parcel<C>) -> Option<Verdict> {
        let Some(&link) = parcel.route.get(parcel.begun) else {
            self.push(parcel);
            return None;
        };
        let verdict = self.links[link].offer(parcel.arrives, parcel.packet);
        if let Verdict::Queued(ticket) = verdict {
            let due = self.held[link].put(ticket, parcel, &self.links[link]);
            self.decisions.extend(due.map(|at| Reverse((at, link))));
        } else {
            self.settle(parcel, verdict);
        }
        Some(verdict)
    }

    /// A link decides about the packets that wait.
    fn decide(&mut self, now: Time, link: usize) {
        while let Some((ticket, verdict)) = self.links[link].decide(now) {
            if let Some(parcel) = self.held[link].take(ticket) {
                self.settle(parcel, verdict);
            }
        }
        self.held[link].is_asked(now);
        let due = self.held[link].expect(&self.links[link]);
        self.decisions.extend(due.map(|at| Reverse((at, link))));
    }

    /// The link that a packet was offered to has decided.
    fn settle(&mut self, mut parcel: Parcel<C>, verdict: Verdict) {
        if let Verdict::Delivered { arrives, .. } = verdict {
            (parcel.offered, parcel.arrives) = (parcel.arrives, arrives);
            parcel.begun += 1;
            self.push(parcel);
        }
    }

    fn push(&mut self, mut parcel: Parcel<C>) {
        parcel.number = self.offered;
        self.offered += 1;
        self.under_way.push(Reverse(parcel));
    }
}

impl<C> Parcel<C> {
    fn order(&self) -> (Time, u64) {
        (self.arrives, self.number)
    }
}

impl<C> PartialEq for Parcel<C> {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

impl<C> Eq for Parcel<C> {}

impl<C> PartialOrd for Parcel<C> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<C> Ord for Parcel<C> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.order().cmp(&other.order())
    }
}

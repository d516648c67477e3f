//! Links and what is under way on them, without a clock of its own.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use manyway_network::{Link, Packet, Verdict};
use manyway_units::Time;

/// Takes packets over the links of their routes; a packet carries a `C`.
///
/// A packet is offered to its next link at the time when it leaves the one before, however late
/// the caller is: only where packets enter and leave does its clock count. The links' queues and
/// bandwidth-delay products bound what is under way.
#[derive(Debug)]
pub(crate) struct Traffic<C> {
    links: Vec<Link>,
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
    bytes: u32,
    cargo: C,
}

impl<C> Traffic<C> {
    pub(crate) fn new(links: Vec<Link>) -> Self {
        Self {
            links,
            under_way: BinaryHeap::new(),
            offered: 0,
        }
    }

    pub(crate) fn link_mut(&mut self, link: usize) -> Option<&mut Link> {
        self.links.get_mut(link)
    }

    /// When the next packet is at the end of the link that it is on.
    pub(crate) fn next_arrival(&self) -> Option<Time> {
        self.under_way.peek().map(|Reverse(first)| first.arrives)
    }

    /// What the packets carry that are on links.
    #[cfg(all(feature = "live", target_os = "linux"))]
    pub(crate) fn under_way(&self) -> impl Iterator<Item = &C> {
        self.under_way.iter().map(|Reverse(parcel)| &parcel.cargo)
    }

    /// A packet of `bytes` bytes enters at `now`. What its first link says of it, if its route has
    /// any.
    pub(crate) fn offer(
        &mut self,
        now: Time,
        route: &Arc<[usize]>,
        bytes: u32,
        cargo: C,
    ) -> Option<Verdict> {
        self.pass_on(Parcel {
            arrives: now,
            number: 0,
            offered: now,
            route: route.clone(),
            begun: 0,
            bytes,
            cargo,
        })
    }

    /// The next packet that is out of its last link by `now`, and since when.
    pub(crate) fn take(&mut self, now: Time) -> Option<(Time, C)> {
        while self.next_arrival()? <= now {
            let Reverse(parcel) = self.under_way.pop()?;
            if let Some(&link) = parcel
                .begun
                .checked_sub(1)
                .and_then(|hop| parcel.route.get(hop))
                && !self.links[link].survived(parcel.offered, parcel.bytes)
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
    fn pass_on(&mut self, mut parcel: Parcel<C>) -> Option<Verdict> {
        let next = parcel.route.get(parcel.begun);
        let verdict =
            next.map(|&link| self.links[link].offer(parcel.arrives, Packet::new(parcel.bytes)));
        match verdict {
            Some(Verdict::Dropped(_)) => return verdict,
            Some(Verdict::Delivered { arrives, .. }) => {
                (parcel.offered, parcel.arrives) = (parcel.arrives, arrives);
                parcel.begun += 1;
            }
            None => {}
        }
        parcel.number = self.offered;
        self.offered += 1;
        self.under_way.push(Reverse(parcel));
        verdict
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

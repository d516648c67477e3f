use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use manyway_units::Time;

use super::lock;
use super::network::Shared;
use crate::{Link, Packet, Verdict};

/// All links, the datagrams under way on them and the thread that takes these from hop to hop.
///
/// A datagram is offered to its next link at the time when it leaves the one before, however late
/// the thread gets the processor: only where datagrams enter and leave is the wall clock in play.
#[derive(Debug)]
pub(super) struct Plane {
    traffic: Mutex<Traffic>,
    changed: Condvar,
}

#[derive(Debug)]
struct Traffic {
    /// Each link's forward direction, then its reverse.
    links: Vec<Link>,
    /// The next to arrive on top.
    under_way: BinaryHeap<Reverse<Datagram>>,
    offered: u64,
}

/// Where a datagram leaves the network.
#[derive(Debug)]
pub(super) enum Exit {
    /// To the target, by a client's upstream socket.
    Upstream(Arc<UdpSocket>),
    /// To this client, by its gate's socket.
    Client(Arc<UdpSocket>, SocketAddr),
}

#[derive(Debug)]
struct Datagram {
    /// At the far end of the link that it is on.
    arrives: Time,
    /// Of equal times the one offered first arrives first.
    number: u64,
    /// To the link that it is on.
    offered: Time,
    route: Arc<[usize]>,
    /// Hops begun.
    begun: usize,
    wire_bytes: u32,
    payload: Box<[u8]>,
    exit: Exit,
}

impl Plane {
    pub(super) fn new(links: Vec<Link>) -> Self {
        Self {
            traffic: Mutex::new(Traffic {
                links,
                under_way: BinaryHeap::new(),
                offered: 0,
            }),
            changed: Condvar::new(),
        }
    }

    /// Does something with a direction of a link; `None` if there is no such link.
    pub(super) fn with_link<T>(&self, lane: usize, act: impl FnOnce(&mut Link) -> T) -> Option<T> {
        lock(&self.traffic).links.get_mut(lane).map(act)
    }

    /// A datagram enters. What is under way is bounded by the links' queues and bandwidth-delay
    /// products.
    pub(super) fn offer(
        &self,
        now: Time,
        route: &Arc<[usize]>,
        wire_bytes: u32,
        payload: &[u8],
        exit: Exit,
    ) {
        let mut traffic = lock(&self.traffic);
        let first = traffic.next_arrival();
        traffic.pass_on(Datagram {
            arrives: now,
            number: 0,
            offered: now,
            route: route.clone(),
            begun: 0,
            wire_bytes,
            payload: payload.into(),
            exit,
        });
        // With one that arrives earlier, the delivering thread waits for that one already.
        let wake = traffic.next_arrival() != first;
        drop(traffic);
        if wake {
            self.changed.notify_one();
        }
    }

    /// Takes each datagram on when its time has come, until the network stops.
    pub(super) fn deliver(&self, shared: &Shared) {
        let mut traffic = lock(&self.traffic);
        while !shared.stopped() {
            let now = shared.now();
            traffic = match traffic.next_arrival() {
                None => self
                    .changed
                    .wait(traffic)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(arrives) if arrives > now => {
                    let woken = self.changed.wait_timeout(traffic, arrives.since(now));
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
                Some(_) => {
                    let out = traffic.advance();
                    drop(traffic);
                    if let Some(datagram) = out {
                        datagram.leave(shared);
                    }
                    lock(&self.traffic)
                }
            };
        }
    }

    /// Wakes the delivering thread, so that it sees that the network has stopped.
    pub(super) fn wake(&self) {
        // With the lock held the thread is either waiting or has yet to look at the flag.
        let _traffic = lock(&self.traffic);
        self.changed.notify_all();
    }
}

impl Traffic {
    fn next_arrival(&self) -> Option<Time> {
        self.under_way.peek().map(|Reverse(first)| first.arrives)
    }

    /// The first datagram's link has carried it; it comes back if that was its last one.
    fn advance(&mut self) -> Option<Datagram> {
        let Reverse(datagram) = self.under_way.pop()?;
        if let Some(&lane) = datagram
            .begun
            .checked_sub(1)
            .and_then(|hop| datagram.route.get(hop))
            && !self.links[lane].survived(datagram.offered, datagram.wire_bytes)
        {
            return None;
        }
        if datagram.begun >= datagram.route.len() {
            return Some(datagram);
        }
        self.pass_on(datagram);
        None
    }

    /// Onto the next link; without one it is there.
    fn pass_on(&mut self, mut datagram: Datagram) {
        if let Some(&lane) = datagram.route.get(datagram.begun) {
            let packet = Packet::new(datagram.wire_bytes);
            let Verdict::Delivered { arrives, .. } =
                self.links[lane].offer(datagram.arrives, packet)
            else {
                return;
            };
            (datagram.offered, datagram.arrives) = (datagram.arrives, arrives);
            datagram.begun += 1;
        }
        datagram.number = self.offered;
        self.offered += 1;
        self.under_way.push(Reverse(datagram));
    }
}

impl Datagram {
    fn order(&self) -> (Time, u64) {
        (self.arrives, self.number)
    }

    fn leave(self, shared: &Shared) {
        let sent = match self.exit {
            Exit::Upstream(socket) => socket.send(&self.payload),
            Exit::Client(socket, client) => socket.send_to(&self.payload, client),
        };
        if sent.is_err() {
            shared.send_errors.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl PartialEq for Datagram {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

impl Eq for Datagram {}

impl PartialOrd for Datagram {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Datagram {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.order().cmp(&other.order())
    }
}

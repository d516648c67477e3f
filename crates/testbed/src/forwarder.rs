//! The links, the datagrams under way on them, and the thread that takes these from hop to hop.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use manyway_network::{Link, Packet, Verdict};
use manyway_units::Time;

/// Takes datagrams over the links of their routes.
///
/// A datagram is offered to its next link at the time when it leaves the one before, however late
/// the thread gets the processor: only where datagrams enter and leave does the wall clock count.
#[derive(Debug)]
pub(crate) struct Forwarder {
    /// The links' time 0.
    origin: Instant,
    stopped: AtomicBool,
    header_bytes: u32,
    traffic: Mutex<Traffic>,
    changed: Condvar,
    send_errors: AtomicU64,
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
pub(crate) enum Exit {
    /// To the target, by a client's upstream socket.
    Upstream(Arc<UdpSocket>),
    /// To this client, by its proxy's socket.
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

impl Forwarder {
    /// The links begin now; `header_bytes` count on them beside each datagram's payload.
    pub(crate) fn new(links: Vec<Link>, header_bytes: u32) -> Self {
        Self {
            origin: Instant::now(),
            stopped: AtomicBool::new(false),
            header_bytes,
            traffic: Mutex::new(Traffic {
                links,
                under_way: BinaryHeap::new(),
                offered: 0,
            }),
            changed: Condvar::new(),
            send_errors: AtomicU64::new(0),
        }
    }

    /// The links' time.
    pub(crate) fn now(&self) -> Time {
        Time::ZERO + self.origin.elapsed()
    }

    pub(crate) fn stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Datagrams that the operating system would not send on.
    pub(crate) fn send_errors(&self) -> u64 {
        self.send_errors.load(Ordering::Relaxed)
    }

    /// Does something with one direction of a link; `None` if there is no such link.
    pub(crate) fn with_link<T>(
        &self,
        direction: usize,
        act: impl FnOnce(&mut Link) -> T,
    ) -> Option<T> {
        lock(&self.traffic).links.get_mut(direction).map(act)
    }

    /// A datagram enters. The links' queues and bandwidth-delay products bound what is under way.
    pub(crate) fn offer(&self, route: &Arc<[usize]>, payload: &[u8], exit: Exit) {
        let now = self.now();
        let wire_bytes = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        let mut traffic = lock(&self.traffic);
        let first = traffic.next_arrival();
        traffic.pass_on(Datagram {
            arrives: now,
            number: 0,
            offered: now,
            route: route.clone(),
            begun: 0,
            wire_bytes: wire_bytes.saturating_add(self.header_bytes),
            payload: payload.into(),
            exit,
        });
        // If another one arrives earlier, the forwarding thread waits for that one already.
        let wake = traffic.next_arrival() != first;
        drop(traffic);
        if wake {
            self.changed.notify_one();
        }
    }

    /// Takes each datagram on when its time has come, until the network stops.
    pub(crate) fn run(&self) {
        let mut traffic = lock(&self.traffic);
        while !self.stopped() {
            let now = self.now();
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
                    if let Some(datagram) = out
                        && datagram.leave().is_err()
                    {
                        self.send_errors.fetch_add(1, Ordering::Relaxed);
                    }
                    lock(&self.traffic)
                }
            };
        }
    }

    /// Stops the network: all its threads see it within moments.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
        // With the lock held the forwarding thread is either waiting or has yet to look at the
        // flag.
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
        if let Some(&direction) = datagram
            .begun
            .checked_sub(1)
            .and_then(|hop| datagram.route.get(hop))
            && !self.links[direction].survived(datagram.offered, datagram.wire_bytes)
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
        if let Some(&direction) = datagram.route.get(datagram.begun) {
            let packet = Packet::new(datagram.wire_bytes);
            let Verdict::Delivered { arrives, .. } =
                self.links[direction].offer(datagram.arrives, packet)
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

    fn leave(self) -> io::Result<usize> {
        match self.exit {
            Exit::Upstream(socket) => socket.send(&self.payload),
            Exit::Client(socket, client) => socket.send_to(&self.payload, client),
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

/// A panic in another thread leaves what it held as it is: usable.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

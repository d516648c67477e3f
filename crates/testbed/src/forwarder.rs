//! The links, the datagrams under way on them, and the thread that takes these from hop to hop.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use manyway_network::{Link, Packet};
use manyway_units::Time;

use crate::traffic::Traffic;

/// Takes datagrams over the links of their routes.
#[derive(Debug)]
pub(crate) struct Forwarder {
    /// The links' time 0.
    origin: Instant,
    stopped: AtomicBool,
    header_bytes: u32,
    /// Each link's forward direction, then its reverse.
    traffic: Mutex<Traffic<Datagram>>,
    changed: Condvar,
    send_errors: AtomicU64,
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
            traffic: Mutex::new(Traffic::new(links)),
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
        lock(&self.traffic).link_mut(direction).map(act)
    }

    /// A datagram enters.
    pub(crate) fn offer(&self, route: &Arc<[usize]>, payload: &[u8], exit: Exit) {
        let now = self.now();
        let wire_bytes = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        let mut traffic = lock(&self.traffic);
        let first = traffic.next_due();
        let datagram = Datagram {
            payload: payload.into(),
            exit,
        };
        let bytes = wire_bytes.saturating_add(self.header_bytes);
        traffic.offer(now, route, Packet::new(bytes), datagram);
        // If another one arrives earlier, the forwarding thread waits for that one already.
        let wake = traffic.next_due() != first;
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
            traffic = match traffic.next_due() {
                None => self
                    .changed
                    .wait(traffic)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(arrives) if arrives > now => {
                    let woken = self.changed.wait_timeout(traffic, arrives.since(now));
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
                Some(_) => {
                    let out = traffic.take(now);
                    drop(traffic);
                    if let Some((_, datagram)) = out
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

impl Datagram {
    fn leave(self) -> io::Result<usize> {
        match self.exit {
            Exit::Upstream(socket) => socket.send(&self.payload),
            Exit::Client(socket, client) => socket.send_to(&self.payload, client),
        }
    }
}

/// A panic in another thread leaves what it held as it is: usable.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

use std::collections::VecDeque;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use manyway_units::Time;

use super::{Shared, lock};
use crate::{Link, Packet, Verdict};

/// One direction: the link, the datagrams under way on it and the thread that delivers them.
#[derive(Debug)]
pub(super) struct Pipe {
    link: Mutex<Link>,
    under_way: Mutex<VecDeque<Datagram>>,
    changed: Condvar,
}

/// Where a datagram leaves the pipe.
#[derive(Debug)]
pub(super) enum Exit {
    /// To the target, by a client's upstream socket.
    Upstream(Arc<UdpSocket>),
    /// To this client, by the link's own socket.
    Client(SocketAddr),
}

#[derive(Debug)]
struct Datagram {
    offered: Time,
    arrives: Time,
    wire_bytes: u32,
    payload: Box<[u8]>,
    exit: Exit,
}

impl Pipe {
    pub(super) fn new(link: Link) -> Self {
        Self {
            link: Mutex::new(link),
            under_way: Mutex::new(VecDeque::new()),
            changed: Condvar::new(),
        }
    }

    pub(super) fn link(&self) -> MutexGuard<'_, Link> {
        lock(&self.link)
    }

    /// Puts a datagram on the link; what is under way is bounded by the queue and the bandwidth-delay product.
    pub(super) fn offer(&self, now: Time, wire_bytes: u32, payload: &[u8], exit: Exit) {
        // The link stays locked until the datagram is in its place: several threads may offer, and arrivals must ascend.
        let mut link = self.link();
        let Verdict::Delivered { arrives, .. } = link.offer(now, Packet::new(wire_bytes)) else {
            return;
        };
        let mut under_way = lock(&self.under_way);
        // With a datagram before this one, the delivering thread waits for that one already.
        let wake = under_way.is_empty();
        under_way.push_back(Datagram {
            offered: now,
            arrives,
            wire_bytes,
            payload: payload.into(),
            exit,
        });
        drop(under_way);
        if wake {
            self.changed.notify_one();
        }
    }

    /// Delivers each datagram when its time has come, until the link stops.
    pub(super) fn deliver(&self, shared: &Shared) {
        let mut under_way = lock(&self.under_way);
        while !shared.stopped() {
            let now = shared.now();
            under_way = match under_way.front() {
                None => self
                    .changed
                    .wait(under_way)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(head) if head.arrives > now => {
                    let wait = head.arrives.since(now);
                    let woken = self.changed.wait_timeout(under_way, wait);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
                Some(_) => {
                    let due = under_way.pop_front();
                    drop(under_way);
                    if let Some(datagram) = due {
                        self.send(shared, datagram);
                    }
                    lock(&self.under_way)
                }
            };
        }
    }

    /// Wakes the delivering thread, so that it sees that the link has stopped.
    pub(super) fn wake(&self) {
        // With the lock held the thread is either waiting or has yet to look at the flag.
        let _under_way = lock(&self.under_way);
        self.changed.notify_all();
    }

    fn send(&self, shared: &Shared, datagram: Datagram) {
        if !self.link().survived(datagram.offered, datagram.wire_bytes) {
            return;
        }
        let sent = match datagram.exit {
            Exit::Upstream(socket) => socket.send(&datagram.payload),
            Exit::Client(client) => shared.socket.send_to(&datagram.payload, client),
        };
        if sent.is_err() {
            shared.send_errors.fetch_add(1, Ordering::Relaxed);
        }
    }
}

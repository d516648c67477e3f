//! The task that runs an endpoint: it receives and sends datagrams, keeps timers and reports
//! events.
//!
//! One future does all of it and never waits for one socket while another has work. A turn is
//! bounded: a few receive calls per socket and a limited number of batches out, then the task
//! yields. It has a thread of its own, so that it may rest between two turns.

pub(crate) mod reachability;
mod readers;
mod rests;
pub(crate) mod shared;
pub(crate) mod slot;
pub(crate) mod sockets;
pub(crate) mod thread;
pub(crate) mod waiters;
pub(crate) mod watch;

use std::collections::BTreeSet;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use manyway_session::{self as session, Ecn, Incoming, Local, LocalId, SendErrorKind, Transmit};
use manyway_units::Time;
use quinn_udp::EcnCodepoint;

use crate::event::Event;
use crate::problem::{self, ProblemKind};
use crate::socket::{
    Batch, Filled, MAX_BATCH_BYTES, MAX_BATCH_SEGMENTS, ReceiveBuffers, SendFailure,
};
use crate::timer::Timer;

use reachability::Reachability;
use rests::Rests;
use shared::{Shared, State};
use sockets::{Bound, Change, Sockets};

/// Receive calls on a socket in one turn.
const RECEIVES_PER_TURN: usize = 4;
/// Batches sent in one turn.
const BATCHES_PER_TURN: usize = 32;
/// What every path has to take, in bytes of UDP payload.
const BASE_DATAGRAM: usize = 1200;
/// How often a path that doesn't come up is looked into.
const REVIEW: Duration = Duration::from_secs(1);

pub(crate) struct Driver {
    shared: Arc<Shared>,
    sockets: Sockets,
    reachability: Reachability,
    timer: Timer,
    receive: ReceiveBuffers,
    send: Vec<u8>,
    next_review: Time,
    rests: Rests,
    /// It comes from a rest, without having been woken.
    rested: bool,
}

impl Driver {
    /// Takes the sockets into use. Must be called within a tokio runtime.
    pub(crate) fn new(shared: Arc<Shared>, sockets: Sockets) -> Self {
        let now = shared.clock.now();
        let ids: Vec<_> = sockets.iter().map(|(id, _)| id).collect();
        let mut driver = Self {
            shared,
            sockets,
            reachability: Reachability::default(),
            timer: Timer::new(),
            receive: ReceiveBuffers::new(),
            send: Vec::with_capacity(MAX_BATCH_BYTES),
            next_review: now + REVIEW,
            rests: Rests::default(),
            rested: false,
        };
        driver.on_change(
            now,
            Change {
                added: ids,
                removed: Vec::new(),
            },
        );
        driver
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let now = this.shared.clock.now();
        let (wanted, places) = this.shared.look(|state| {
            state.set_driver(cx);
            (state.is_wanted(), state.places.take())
        });
        if !wanted {
            return Poll::Ready(());
        }
        if let Some(change) = places.map(|places| this.sockets.follow(&places)) {
            this.on_change(now, change);
        }
        this.review(now);
        let rested = mem::take(&mut this.rested);
        let mut busy = match rested {
            true => this.receive(),
            false => this.poll_receive(cx),
        };
        this.on_timeout();
        // Before transmission too: a connection that is turned away hears of it at once.
        this.dispatch();
        busy |= this.transmit(cx);
        let deadline = this.dispatch();
        if !busy {
            // After the last rest, the sockets are still to say when there is something.
            busy = this.rest() || rested || this.poll_deadline(cx, deadline).is_ready();
        }
        if busy {
            // Let others run, then go on.
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

impl Driver {
    /// Reads what has arrived. Returns whether there may be more.
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> bool {
        let Self {
            shared,
            sockets,
            receive,
            rests,
            ..
        } = self;
        let mut more = false;
        for (local, Bound { socket, .. }) in sockets.iter_mut() {
            let mut calls = 0;
            // The last call finds nothing, and has us woken when there is something again.
            while let Poll::Ready(received) = socket.poll_receive(cx, receive) {
                let count = match received {
                    Ok(count) => count,
                    // The device may be gone; the watch over the interfaces will tell.
                    Err(error) => {
                        tracing::debug!(addr = %socket.addr(), %error, "can't receive");
                        break;
                    }
                };
                for filled in receive.filled(count) {
                    rests.note(take(shared, local, filled));
                }
                calls += 1;
                if calls == RECEIVES_PER_TURN {
                    more = true;
                    break;
                }
            }
        }
        more
    }

    /// As [`Driver::poll_receive`], after a rest: each socket is looked at once, and none wakes us.
    fn receive(&mut self) -> bool {
        let Self {
            shared,
            sockets,
            receive,
            rests,
            ..
        } = self;
        let mut more = false;
        for (local, Bound { socket, .. }) in sockets.iter_mut() {
            let count = socket.receive(receive);
            for filled in receive.filled(count) {
                rests.note(take(shared, local, filled));
            }
            more |= count == ReceiveBuffers::COUNT;
        }
        more
    }

    /// Rests if packets come and go densely. Returns whether it did.
    fn rest(&mut self) -> bool {
        let shared = &self.shared;
        let shortest_rtt = || shared.look(|state| state.session.shortest_rtt());
        let rest = self.rests.next(shared.clock.now(), shortest_rtt);
        // Only the reactor says when there is room in the kernel's buffers.
        let rest = rest.filter(|_| self.sockets.iter().all(|(_, bound)| !bound.socket.waits()));
        if let Some(rest) = rest {
            std::thread::sleep(rest);
        }
        self.rested = rest.is_some();
        self.rested
    }

    fn on_timeout(&mut self) {
        let now = self.shared.clock.now();
        self.shared.look(|state| {
            if state.session.timeout().is_some_and(|at| at <= now) {
                state.session.handle_timeout(now);
            }
        });
    }

    /// Sends what the session has to send. Returns whether there may be more.
    fn transmit(&mut self, cx: &mut Context<'_>) -> bool {
        self.flush(cx);
        for _ in 0..BATCHES_PER_TURN {
            let now = self.shared.clock.now();
            let Self { shared, send, .. } = self;
            // Paths' datagrams differ in size: the session sees to it that a batch fits one call.
            let Some(transmit) =
                shared.look(|state| state.session.poll_transmit(now, MAX_BATCH_SEGMENTS, send))
            else {
                self.flush(cx);
                return false;
            };
            self.send(now, transmit);
        }
        self.flush(cx);
        true
    }

    fn send(&mut self, now: Time, transmit: Transmit) {
        let Transmit {
            local,
            remote,
            ecn,
            len,
            segment_size,
        } = transmit;
        let Some(Bound { socket, .. }) = self.sockets.get_mut(local) else {
            // A TCP connection, or a socket that has gone since.
            let Self { shared, send, .. } = self;
            let packets = &send[..len];
            return shared
                .look(|state| state.hand_over(local, packets, segment_size.unwrap_or(len)));
        };
        if problem::is_impossible(socket.addr().ip(), remote) {
            return self.shared.look(|state| {
                state
                    .session
                    .on_send_error(now, local, remote, SendErrorKind::NoRoute)
            });
        }
        self.reachability.on_send(now, local, remote);
        self.rests.note(len);
        let batch = Batch {
            remote,
            ecn: ecn.then_some(EcnCodepoint::Ect0),
            contents: &self.send[..len],
            segment: segment_size.unwrap_or(len),
        };
        match socket.send(batch) {
            Ok(()) => self.reachability.on_sent(local, remote),
            Err(failure) => self.on_failure(now, local, failure),
        }
    }

    /// Sends what waited for room in the kernel's buffers.
    fn flush(&mut self, cx: &mut Context<'_>) {
        let now = self.shared.clock.now();
        let mut failures = Vec::new();
        for (local, Bound { socket, .. }) in self.sockets.iter_mut() {
            while let Poll::Ready(Err(failure)) = socket.poll_flush(cx) {
                failures.push((local, failure));
            }
        }
        for (local, failure) in failures {
            self.on_failure(now, local, failure);
        }
    }

    fn on_failure(&mut self, now: Time, local: LocalId, failure: SendFailure) {
        let SendFailure {
            remote,
            bytes,
            error,
        } = failure;
        if problem::is_passing(&error) {
            return;
        }
        tracing::debug!(%remote, %error, "can't send");
        let kind = problem::from_error(&error, bytes);
        let told = match kind {
            ProblemKind::NoRoute | ProblemKind::Rejected => SendErrorKind::NoRoute,
            ProblemKind::TooBig { .. } => SendErrorKind::TooBig,
            _ => SendErrorKind::Other,
        };
        // Path MTU discovery asks for more than the interface takes, if that has changed: no
        // problem of the path's.
        if !matches!(kind, ProblemKind::TooBig { bytes } if bytes > BASE_DATAGRAM) {
            self.reachability.on_error(now, local, remote, kind);
        }
        self.shared
            .look(|state| state.session.on_send_error(now, local, remote, told));
    }

    /// Passes events on. Returns the time of the next thing to do.
    fn dispatch(&mut self) -> Option<Time> {
        let Self {
            shared,
            sockets,
            reachability,
            ..
        } = self;
        let now = shared.clock.now();
        shared.look(|state| {
            while let Some((handle, event)) = state.session.poll_event() {
                match event {
                    session::Event::Connected => state.on_connected(now, handle, &shared.incoming),
                    session::Event::Closed(reason) => {
                        let problems = match state.attempt(handle) {
                            Some(addresses) => {
                                note_refusals(now, sockets, reachability);
                                reachability.problems(&sockets.places(), addresses)
                            }
                            None => Vec::new(),
                        };
                        state.on_closed(now, handle, reason, problems);
                    }
                    session::Event::Path(event) => state.tell(handle, Event::Path(event)),
                    session::Event::Stream(event) => state.on_stream_event(handle, event),
                    session::Event::Datagram(event) => state.on_datagram_event(handle, event),
                }
            }
            let readers = state.wake_readers(now);
            let drained = state.drain(now, &shared.idle);
            state.end_carriers();
            let due = [state.session.timeout(), readers, drained];
            due.into_iter().flatten().min()
        })
    }

    fn poll_deadline(&mut self, cx: &mut Context<'_>, deadline: Option<Time>) -> Poll<()> {
        let deadline = deadline.unwrap_or(Time::MAX).min(self.next_review);
        match self.shared.clock.instant(deadline) {
            Some(instant) => self.timer.poll_until(cx, instant),
            None => Poll::Pending,
        }
    }

    /// Reports sockets that came and went to the session, the peers and the event streams.
    fn on_change(&mut self, now: Time, change: Change) {
        let Self {
            shared,
            sockets,
            reachability,
            ..
        } = self;
        shared.look(|state| {
            for (id, bound) in change.removed {
                reachability.forget(id);
                state.locals.remove(&id);
                state.session.remove_local(now, id);
                state.tell_all(Event::LocalRemoved {
                    name: bound.place.name(),
                    addr: bound.socket.addr(),
                });
            }
            for id in change.added {
                let Some(bound) = sockets.get(id) else {
                    continue;
                };
                let (name, addr) = (bound.place.name(), bound.socket.addr());
                state.locals.insert(id, (name.clone(), addr));
                state.session.add_local(
                    now,
                    Local {
                        id,
                        name: name.clone(),
                        addr,
                        mtu: bound.place.mtu(),
                    },
                );
                state.tell_all(Event::LocalAdded { name, addr });
            }
        });
    }

    /// Looks for the reason why no path works from a socket.
    fn review(&mut self, now: Time) {
        if now < self.next_review {
            return;
        }
        self.next_review = now + REVIEW;
        let Self {
            shared,
            sockets,
            reachability,
            ..
        } = self;
        note_refusals(now, sockets, reachability);
        for (_, Bound { socket, .. }) in sockets.iter_mut() {
            match socket.take_dropped() {
                0 => {}
                dropped => {
                    tracing::debug!(addr = %socket.addr(), dropped, "the send buffer was full")
                }
            }
        }
        let working = shared.look(working);
        let news = reachability.news(now, &sockets.places(), &working);
        shared.look(|state| {
            news.into_iter()
                .for_each(|problem| state.tell_all(Event::PathProblem(problem)))
        });
    }
}

/// Remembers which hosts said that nobody listens there.
fn note_refusals(now: Time, sockets: &mut Sockets, reachability: &mut Reachability) {
    for (local, Bound { socket, .. }) in sockets.iter_mut() {
        for host in socket.take_refusals() {
            reachability.on_refusal(now, local, host);
        }
    }
}

/// The names of interfaces that a working path starts at, over UDP or TCP.
fn working(state: &mut State) -> BTreeSet<String> {
    let handles = state.slots.keys();
    let stats = handles.filter_map(|&handle| state.session.stats(handle));
    let paths = stats.flat_map(|stats| stats.paths);
    let active = paths.filter(|path| path.state.works());
    active.map(|path| path.name).collect()
}

/// Hands datagrams to the session. The lock is released between buffers, so that handles needn't
/// wait for a whole megabyte. Returns their bytes.
fn take(shared: &Shared, local: LocalId, filled: Filled<'_>) -> usize {
    let Filled {
        remote,
        ecn,
        datagrams,
    } = filled;
    let mut bytes = 0;
    let ecn = ecn.map(mark);
    let now = shared.clock.now();
    shared.look(|state| {
        for data in datagrams {
            bytes += data.len();
            state.session.handle_datagram(
                now,
                Incoming {
                    local,
                    remote,
                    ecn,
                    data,
                },
            );
        }
    });
    bytes
}

fn mark(ecn: EcnCodepoint) -> Ecn {
    match ecn {
        EcnCodepoint::Ect0 => Ecn::Ect0,
        EcnCodepoint::Ect1 => Ecn::Ect1,
        EcnCodepoint::Ce => Ecn::Ce,
    }
}

/// However the driver ends, nobody waits for it for ever.
impl Drop for Driver {
    fn drop(&mut self) {
        self.sockets.clear();
        self.shared.on_stopped();
    }
}

#[cfg(test)]
mod tests;

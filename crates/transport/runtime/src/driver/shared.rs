//! The state that the driver and the handles share: the session and the wakers of waiting tasks.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use manyway_qlog::Logs;
use manyway_session::streams::StreamEvent;
use manyway_session::{self as session, CloseReason, ConnectionHandle, DatagramEvent, LocalId};
use manyway_units::Time;
use tokio::runtime::Handle;
use tokio::sync::{Notify, broadcast};

use crate::clock::Clock;
use crate::error::ConnectionLost;
use crate::event::{Event, Events};
use crate::interfaces::{InterfaceSelection, Place};
use crate::problem::PathProblem;
use crate::tcp::TcpOptions;
use crate::tcp::outbox::{End, Outbox};
use crate::unanswered::{TcpOutcome, TcpResult};

use super::readers::Readers;
use super::slot::{ConnectionState, EVENTS, Signals, Slot};
use super::waiters::Waiters;

/// Addresses kept for an attempt to connect, with what came of TCP connections to them.
const MAX_OUTCOMES: usize = 64;
/// Connections that peers opened and nobody accepted yet; further ones are closed.
const MAX_WAITING: usize = 64;
/// Why the endpoint doesn't accept a connection.
const NO_MORE: &str = "the listener takes no more connections: it has ended, or its ticket was \
                       for one transfer; start it again";
const FULL: &str = "too many connections wait for the listener: try again later";
/// How many round trips a closing connection answers late packets for, within these bounds.
const DRAIN_ROUND_TRIPS: u32 = 4;
const SHORTEST_DRAIN: Duration = Duration::from_millis(50);
const LONGEST_DRAIN: Duration = Duration::from_millis(500);

/// The endpoint, as its driver and every handle hold it.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) clock: Clock,
    /// What is done about TCP.
    pub(crate) tcp: TcpOptions,
    state: Mutex<State>,
    /// The runtime of TCP's tasks, once there are any.
    pub(super) tcp_tasks: Mutex<Option<Handle>>,
    /// A peer's connection waits to be accepted, or none ever will again.
    pub(crate) incoming: Arc<Notify>,
    /// The last connection is gone, the driver, something of the endpoint's ([`Kept`]), or a TCP
    /// connection.
    pub(crate) idle: Arc<Notify>,
    /// The interfaces shall be looked at now.
    pub(crate) rescan: Arc<Notify>,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) session: session::Endpoint,
    pub(crate) slots: BTreeMap<ConnectionHandle, Slot>,
    pub(crate) waiting: VecDeque<ConnectionHandle>,
    /// Closed connections that nobody holds any more, by the time they may be forgotten.
    draining: BTreeSet<(Time, ConnectionHandle)>,
    /// TCP connections, and the number of the next.
    pub(crate) carriers: BTreeMap<LocalId, Outbox>,
    pub(crate) next_carrier: u32,
    /// Names and addresses of the sockets.
    pub(crate) locals: BTreeMap<LocalId, (String, SocketAddr)>,
    pub(crate) selection: InterfaceSelection,
    /// What the selection means now; taken by the driver.
    pub(crate) places: Option<BTreeSet<Place>>,
    /// `Endpoint` handles.
    pub(crate) handles: usize,
    /// No connection is made or taken any more.
    pub(crate) closing: bool,
    /// The driver shall stop.
    pub(crate) stop: bool,
    /// It has, and the sockets are closed.
    pub(crate) stopped: bool,
    /// What of the endpoint's there still is beside the driver: see [`Kept`].
    kept: usize,
    /// Where connections are logged; taken when that ends.
    pub(crate) logs: Option<Logs>,
    /// `None` when there will be no more.
    events: Option<broadcast::Sender<Event>>,
    driver: Option<Waker>,
    wakeups: Wakeups,
    readers: Readers,
}

/// Whom to wake when the lock is released.
#[derive(Debug, Default)]
struct Wakeups {
    tasks: Vec<Waker>,
    everyone: Vec<Arc<Notify>>,
}

impl Shared {
    pub(crate) fn new(
        clock: Clock,
        session: session::Endpoint,
        selection: InterfaceSelection,
        tcp: TcpOptions,
    ) -> Arc<Self> {
        let state = State {
            session,
            slots: BTreeMap::new(),
            waiting: VecDeque::new(),
            draining: BTreeSet::new(),
            carriers: BTreeMap::new(),
            next_carrier: 0,
            locals: BTreeMap::new(),
            selection,
            places: None,
            handles: 0,
            closing: false,
            stop: false,
            stopped: false,
            kept: 0,
            logs: None,
            events: Some(broadcast::channel(EVENTS).0),
            driver: None,
            wakeups: Wakeups::default(),
            readers: Readers::default(),
        };
        Arc::new(Self {
            clock,
            tcp,
            state: Mutex::new(state),
            tcp_tasks: Mutex::default(),
            incoming: Arc::default(),
            idle: Arc::default(),
            rescan: Arc::default(),
        })
    }

    /// Runs an action that may give the driver work.
    pub(crate) fn act<R>(&self, action: impl FnOnce(&mut State) -> R) -> R {
        self.act_if(|state| (action(state), true))
    }

    /// Runs an action that gives the driver no work, or is the driver's own.
    pub(crate) fn look<R>(&self, action: impl FnOnce(&mut State) -> R) -> R {
        self.act_if(|state| (action(state), false))
    }

    /// Runs an action that says whether it gives the driver work.
    pub(crate) fn act_if<R>(&self, action: impl FnOnce(&mut State) -> (R, bool)) -> R {
        let mut state = self.lock();
        let (result, work) = action(&mut state);
        let driver = if work { state.driver.take() } else { None };
        self.release(state);
        driver.into_iter().for_each(Waker::wake);
        result
    }

    /// Runs `action` until it returns something, again at each signal of `notify`.
    pub(crate) async fn act_until<R>(
        &self,
        notify: &Notify,
        mut action: impl FnMut(&mut State) -> Option<R>,
    ) -> R {
        loop {
            let mut notified = pin!(notify.notified());
            notified.as_mut().enable();
            if let Some(result) = self.act(&mut action) {
                return result;
            }
            notified.await;
        }
    }

    /// A panic elsewhere doesn't make the state unusable: no method leaves it half changed.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakers run foreign code, which may want the lock: so unlock first.
    fn release(&self, mut state: MutexGuard<'_, State>) {
        let wakeups = std::mem::take(&mut state.wakeups);
        drop(state);
        wakeups.tasks.into_iter().for_each(Waker::wake);
        wakeups
            .everyone
            .iter()
            .for_each(|notify| notify.notify_waiters());
    }

    /// The driver is gone: nothing will ever happen again.
    pub(crate) fn on_stopped(&self) {
        let logs = self.look(|state| {
            (state.stop, state.stopped, state.closing) = (true, true, true);
            // What was handed over is still written: it may be the last word.
            for outbox in state.carriers.values_mut() {
                outbox.finish(End::Flush);
            }
            let handles: Vec<_> = state.slots.keys().copied().collect();
            for handle in handles {
                state.end(handle, Time::ZERO, CloseReason::Local, Vec::new());
            }
            state.wakeups.tasks.extend(state.readers.take());
            state
                .wakeups
                .everyone
                .extend([self.incoming.clone(), self.idle.clone()]);

            state.events = None;
            state.logs.take()
        });
        // It may wait for the disk.
        if let Some(logs) = logs {
            logs.end();
        }
    }

    /// Has [`Endpoint::close`](crate::Endpoint::close) wait until the result is dropped; `None` if
    /// the driver is gone, as then nothing more may begin.
    pub(crate) fn keep(self: &Arc<Self>) -> Option<Kept> {
        let keep = |state: &mut State| {
            state.kept += usize::from(!state.stopped);
            (!state.stopped).then(|| Kept(self.clone()))
        };
        self.look(keep)
    }
}

/// Something of the endpoint's that ends by itself when the driver has.
#[derive(Debug)]
pub(crate) struct Kept(Arc<Shared>);

impl Drop for Kept {
    fn drop(&mut self) {
        self.0.look(|state| {
            state.kept -= 1;
            state.wakeups.everyone.push(self.0.idle.clone());
        });
    }
}

impl State {
    /// The task that [`Shared::act`] wakes.
    pub(crate) fn set_driver(&mut self, cx: &Context<'_>) {
        match &mut self.driver {
            Some(driver) => driver.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
    }

    /// A connection attempt to these addresses, the listener's and relays', held once.
    pub(crate) fn on_connecting(&mut self, handle: ConnectionHandle, addresses: Vec<SocketAddr>) {
        let slot = Slot::new(ConnectionState::Connecting, 1, addresses);
        self.slots.insert(handle, slot);
    }

    /// Where a connection attempt goes, if it is one.
    pub(crate) fn attempt(&self, handle: ConnectionHandle) -> Option<&[SocketAddr]> {
        let slot = self.slots.get(&handle)?;
        matches!(slot.state, ConnectionState::Connecting).then_some(&slot.addresses)
    }

    /// A TCP connection was set up, or failed. Of several to an address, the best counts.
    pub(crate) fn note_tcp(
        &mut self,
        handle: ConnectionHandle,
        to: (SocketAddr, bool),
        result: TcpResult,
    ) {
        let Some(slot) = self.slots.get_mut(&handle) else {
            return;
        };
        if let Some(known) = slot.tcp.get_mut(&to) {
            *known = result.min(known.clone());
        } else if slot.tcp.len() < MAX_OUTCOMES {
            slot.tcp.insert(to, result);
        }
    }

    /// What came of the attempt's TCP connections.
    pub(crate) fn tcp_outcomes(&self, handle: ConnectionHandle) -> Vec<TcpOutcome> {
        let outcomes = self.slots.get(&handle).into_iter().flat_map(|s| &s.tcp);
        let outcome = |(&(remote, relay), result): (&(SocketAddr, bool), &TcpResult)| TcpOutcome {
            remote,
            relay,
            result: result.clone(),
        };
        outcomes.map(outcome).collect()
    }

    /// A connection is established; a handle that is new here is one that a peer opened.
    pub(crate) fn on_connected(
        &mut self,
        now: Time,
        handle: ConnectionHandle,
        incoming: &Arc<Notify>,
    ) {
        if let Some(slot) = self.slots.get_mut(&handle) {
            slot.state = ConnectionState::Established;
            self.wakeups.everyone.push(slot.signals.state.clone());
            return;
        }
        self.slots.insert(
            handle,
            Slot::new(ConnectionState::Established, 0, Vec::new()),
        );
        if self.closing || self.handles == 0 {
            self.close(now, handle, CloseReason::REFUSED, NO_MORE);
        } else if self.waiting.len() == MAX_WAITING && !self.forget_an_ended_one() {
            self.close(now, handle, CloseReason::OVERLOADED, FULL);
        } else {
            self.waiting.push_back(handle);
            self.wakeups.everyone.push(incoming.clone());
        }
    }

    /// Makes room among those that nobody accepted yet, where one is over. Returns whether it is.
    fn forget_an_ended_one(&mut self) -> bool {
        let is_over = |handle| match self.slots.get(handle) {
            Some(slot) => matches!(slot.state, ConnectionState::Closed(..)),
            None => true,
        };
        let Some(at) = self.waiting.iter().position(is_over) else {
            return false;
        };
        let ended = self.waiting.remove(at);
        let slot = |handle| Some((self.slots.get(&handle)?.drained, handle));
        self.draining.extend(ended.and_then(slot));
        true
    }

    /// A connection is over.
    pub(crate) fn on_closed(
        &mut self,
        now: Time,
        handle: ConnectionHandle,
        reason: CloseReason,
        problems: Vec<PathProblem>,
    ) {
        let told_by_us = matches!(
            reason,
            CloseReason::Local
                | CloseReason::Protocol(_)
                | CloseReason::Crypto(_)
                | CloseReason::Overloaded(_)
        );
        let drain = if told_by_us {
            self.drain_time(handle)
        } else {
            Duration::ZERO
        };
        self.end(handle, now + drain, reason, problems);
    }

    /// CLOSE may get lost: for a few round trips, it answers a peer that goes on sending.
    fn drain_time(&mut self, handle: ConnectionHandle) -> Duration {
        let stats = self
            .session
            .connection(handle)
            .map(|connection| connection.stats());
        let slowest = stats.and_then(|stats| stats.paths.iter().map(|path| path.rtt).max());
        (slowest.unwrap_or_default() * DRAIN_ROUND_TRIPS).clamp(SHORTEST_DRAIN, LONGEST_DRAIN)
    }

    fn end(
        &mut self,
        handle: ConnectionHandle,
        drained: Time,
        reason: CloseReason,
        problems: Vec<PathProblem>,
    ) {
        let Some(slot) = self.slots.get_mut(&handle) else {
            return;
        };
        if matches!(slot.state, ConnectionState::Closed(..)) {
            return;
        }
        slot.state = ConnectionState::Closed(reason.clone(), problems);
        slot.drained = drained;
        slot.tell(Event::Closed(reason));
        slot.events = None;
        self.wakeups
            .tasks
            .extend(slot.sends.values_mut().filter_map(|send| send.waker.take()));
        self.wakeups
            .tasks
            .extend(slot.receives.values_mut().filter_map(Option::take));
        let datagrams = [&mut slot.datagram_senders, &mut slot.datagram_readers];
        self.wakeups
            .tasks
            .extend(datagrams.into_iter().flat_map(Waiters::take));
        let Signals {
            state,
            opened,
            available,
        } = &*slot.signals;
        self.wakeups
            .everyone
            .extend([state, opened, available].map(Arc::clone));
        // What arrived before may still be read by whoever holds it, or will accept it.
        if slot.handles == 0 && !self.waiting.contains(&handle) {
            self.draining.insert((drained, handle));
        }
    }

    pub(crate) fn on_stream_event(&mut self, handle: ConnectionHandle, event: StreamEvent) {
        let Some(slot) = self.slots.get_mut(&handle) else {
            return;
        };
        let waker = match event {
            StreamEvent::Opened => return self.wakeups.everyone.push(slot.signals.opened.clone()),
            StreamEvent::Available => {
                return self.wakeups.everyone.push(slot.signals.available.clone());
            }
            StreamEvent::Readable(id) => {
                let reader = slot.receives.get_mut(&id).and_then(Option::take);
                return self.readers.extend(reader);
            }
            StreamEvent::Writable(id) => slot.sends.get_mut(&id).and_then(|send| send.waker.take()),
            StreamEvent::Finished(id) => slot.sends.get_mut(&id).and_then(|send| {
                send.finished = true;
                send.waker.take()
            }),
            StreamEvent::Stopped { id, code } => slot.sends.get_mut(&id).and_then(|send| {
                send.stopped = Some(code);
                send.waker.take()
            }),
        };
        self.wakeups.tasks.extend(waker);
    }

    pub(crate) fn on_datagram_event(&mut self, handle: ConnectionHandle, event: DatagramEvent) {
        let Some(slot) = self.slots.get_mut(&handle) else {
            return;
        };
        match event {
            DatagramEvent::Arrived => self.readers.extend(slot.datagram_readers.take()),
            DatagramEvent::Room => self.wakeups.tasks.extend(slot.datagram_senders.take()),
        }
    }

    /// Wakes the tasks that may read, unless they have been woken just now: then, when.
    pub(crate) fn wake_readers(&mut self, now: Time) -> Option<Time> {
        let (tasks, due) = self.readers.release(now);
        self.wakeups.tasks.extend(tasks);
        due
    }

    /// The endpoint's events from now on.
    pub(crate) fn events(&self) -> Events {
        Events::new(VecDeque::new(), self.events.as_ref())
    }

    /// Sends an event to a connection's receivers.
    pub(crate) fn tell(&mut self, handle: ConnectionHandle, event: Event) {
        if let Some(slot) = self.slots.get_mut(&handle) {
            slot.tell(event);
        }
    }

    /// Sends an event to all receivers.
    pub(crate) fn tell_all(&mut self, event: Event) {
        for slot in self.slots.values_mut() {
            slot.tell(event.clone());
        }
        if let Some(events) = &self.events {
            let _ = events.send(event);
        }
    }

    /// One holder of a connection is gone; the last one closes it.
    pub(crate) fn let_go(&mut self, now: Time, handle: ConnectionHandle) {
        let Some(slot) = self.slots.get_mut(&handle) else {
            return;
        };
        slot.handles -= 1;
        if slot.handles > 0 {
            return;
        }
        match slot.state {
            ConnectionState::Connecting => self.forget(handle),
            ConnectionState::Established => self.close(now, handle, 0, ""),
            ConnectionState::Closed(..) => {
                self.draining.insert((slot.drained, handle));
            }
        }
    }

    /// One `Endpoint` handle is gone. Without any, nobody can accept what waits.
    pub(crate) fn let_endpoint_go(&mut self, now: Time) {
        self.handles -= 1;
        if self.handles > 0 {
            return;
        }
        for handle in std::mem::take(&mut self.waiting) {
            match self.slots.get(&handle) {
                Some(Slot {
                    state: ConnectionState::Closed(..),
                    drained,
                    ..
                }) => {
                    self.draining.insert((*drained, handle));
                }
                _ => self.close(now, handle, CloseReason::REFUSED, NO_MORE),
            }
        }
    }

    /// Closes a connection; the driver learns of it as the session's event.
    pub(crate) fn close(&mut self, now: Time, handle: ConnectionHandle, code: u64, reason: &str) {
        if let Some(connection) = self.session.connection(handle) {
            connection.close(now, code, reason);
        }
    }

    /// Ends everything: attempts at once, connections with a CLOSE.
    pub(crate) fn close_all(&mut self, now: Time, incoming: &Arc<Notify>) {
        self.closing = true;
        self.wakeups.everyone.push(incoming.clone());
        for handle in std::mem::take(&mut self.waiting) {
            self.close(now, handle, CloseReason::REFUSED, NO_MORE);
        }
        let handles: Vec<_> = self.slots.keys().copied().collect();
        for handle in handles {
            match self.slots.get(&handle).map(|slot| &slot.state) {
                Some(ConnectionState::Connecting) => {
                    self.session.forget(handle);
                    self.end(handle, now, CloseReason::Local, Vec::new());
                }
                Some(ConnectionState::Established) => self.close(now, handle, 0, ""),
                _ => {}
            }
            // Those that nobody accepted and that were over already.
            if let Some(Slot {
                state: ConnectionState::Closed(..),
                handles: 0,
                drained,
                ..
            }) = self.slots.get(&handle)
            {
                self.draining.insert((*drained, handle));
            }
        }
    }

    /// Whether every connection is over and drained.
    pub(crate) fn is_drained(&self, now: Time) -> bool {
        self.slots
            .values()
            .all(|slot| matches!(slot.state, ConnectionState::Closed(..)) && slot.drained <= now)
    }

    /// Forgets drained connections without handles. Returns when to come back.
    pub(crate) fn drain(&mut self, now: Time, idle: &Arc<Notify>) -> Option<Time> {
        while let Some(&(drained, handle)) = self.draining.first() {
            if drained > now {
                break;
            }
            self.draining.pop_first();
            self.forget(handle);
        }
        if self.closing && self.is_drained(now) {
            self.wakeups.everyone.push(idle.clone());
        }
        let held = self
            .slots
            .values()
            .filter(|slot| self.closing && slot.drained > now)
            .map(|slot| slot.drained)
            .min();
        self.draining
            .first()
            .map(|&(drained, _)| drained)
            .into_iter()
            .chain(held)
            .min()
    }

    fn forget(&mut self, handle: ConnectionHandle) {
        self.session.forget(handle);
        self.slots.remove(&handle);
    }

    /// Whether nothing of the endpoint is left but its handles.
    pub(crate) fn is_gone(&self) -> bool {
        self.stopped && self.kept == 0
    }

    /// Whether anybody could still want anything of the endpoint.
    pub(crate) fn is_wanted(&self) -> bool {
        !self.stop && (self.handles > 0 || !self.slots.is_empty())
    }

    /// The state of a connection that must not be over.
    ///
    /// # Errors
    /// It is over.
    pub(crate) fn established(
        &mut self,
        handle: ConnectionHandle,
    ) -> Result<(&mut session::Connection, &mut Slot), ConnectionLost> {
        let lost = || ConnectionLost(CloseReason::Local);
        let slot = self.slots.get_mut(&handle).ok_or_else(lost)?;
        if let ConnectionState::Closed(reason, _) = &slot.state {
            return Err(ConnectionLost(reason.clone()));
        }
        Ok((self.session.connection(handle).ok_or_else(lost)?, slot))
    }
}

/// Remembers to wake the task; pending.
pub(crate) fn wait<T>(place: &mut Option<Waker>, cx: &Context<'_>) -> Poll<T> {
    match place {
        Some(waker) => waker.clone_from(cx.waker()),
        none => *none = Some(cx.waker().clone()),
    }
    Poll::Pending
}

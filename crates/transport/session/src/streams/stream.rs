//! One stream, and the sums over all of them.

use std::collections::BTreeSet;

use super::StreamId;
use super::recv::RecvHalf;
use super::send::SendHalf;
use super::turns::{Place, Turns};
use super::types::MAX_OFFSET;

/// A stream with no more unsent bytes than this is light: what a person types, a request, an
/// answer of a page or two.
const LIGHT: u64 = 4 << 10;

#[derive(Debug)]
pub(super) struct Stream {
    pub(super) send: SendHalf,
    pub(super) recv: RecvHalf,
    pub(super) places: Places,
    entry: Entry,
}

/// A stream's places in the queues of the [`Ledger`].
#[derive(Default, Debug)]
pub(super) struct Places {
    pub(super) resend: Place,
    pub(super) fin: Place,
    pub(super) fresh: Place,
    pub(super) light: Place,
    control: bool,
}

/// A stream's share in the sums of the [`Ledger`].
#[derive(Copy, Clone, Default, Debug)]
struct Entry {
    unsent: u64,
    lost: u64,
    unacked: u64,
    buffered: u64,
    allowed: u64,
    received: usize,
    promised: u64,
}

/// Sums over all streams, and who is ready for what: brought up to date whenever a stream has
/// changed.
#[derive(Default, Debug)]
pub(super) struct Ledger {
    pub(super) unsent: u64,
    pub(super) lost: u64,
    pub(super) unacked: u64,
    pub(super) buffered: u64,
    /// Memory for what was received, in bytes.
    pub(super) received: usize,
    /// What the application has to read of all streams, or may have to, in bytes.
    pub(super) promised: u64,
    /// What the limits of the streams in use allow beyond what was sent.
    pub(super) allowed: u128,
    /// Streams with something lost.
    pub(super) resend: Turns,
    /// Streams of which only the end is to be said.
    pub(super) fin: Turns,
    /// Streams with new bytes that their own limit allows …
    pub(super) fresh: Turns,
    /// … and those of them with few: somebody types, or asks and waits.
    pub(super) light: Turns,
    /// The last new bytes were those of a light stream.
    pub(super) light_went: bool,
    /// Streams with a control frame to send.
    pub(super) control: BTreeSet<StreamId>,
}

impl Ledger {
    /// Whether some stream has new bytes that its own limit allows.
    pub(super) fn has_fresh(&self) -> bool {
        !self.fresh.is_empty() || !self.light.is_empty()
    }

    /// The stream whose new bytes go next on a path that delivers the soonest of all, or that
    /// doesn't: there, light streams wait, and others pass. Light ones pass others every other time
    /// only, so that many of them leave room.
    pub(super) fn next_fresh(&self, soonest: bool) -> Option<StreamId> {
        let (light, others) = (self.light.front(), self.fresh.front());
        match soonest && !self.light_went {
            true => light.or(others),
            false => others.or(light),
        }
    }

    /// It has had its turn.
    pub(super) fn went(&mut self, id: StreamId, places: &mut Places) {
        self.light_went = places.light.is_taken();
        self.fresh.rotate(id, &mut places.fresh);
        self.light.rotate(id, &mut places.light);
    }
}

impl Stream {
    pub(super) fn new(send: SendHalf, recv: RecvHalf) -> Box<Self> {
        Box::new(Stream {
            send,
            recv,
            places: Places::default(),
            entry: Entry::default(),
        })
    }

    /// Brings the ledger up to date after any change. Returns whether the stream is over, and
    /// thereby in no sum and no queue.
    pub(super) fn settle(&mut self, id: StreamId, ledger: &mut Ledger) -> bool {
        self.settle_data(id, ledger);
        self.settle_control(id, ledger)
    }

    /// Brings the ledger up to date after a change of what was written, sent or acknowledged.
    pub(super) fn settle_data(&mut self, id: StreamId, ledger: &mut Ledger) {
        let send = &self.send;
        let (unsent, unacked) = (send.unsent(), send.unacked());
        let idle = unsent == 0 && unacked == 0;
        let allowed = if idle {
            0
        } else {
            send.allowed().min(MAX_OFFSET)
        };
        let entry = Entry {
            unsent,
            lost: send.lost(),
            unacked,
            buffered: send.buffered(),
            allowed,
            ..self.entry
        };
        let last = std::mem::replace(&mut self.entry, entry);
        ledger.unsent = ledger.unsent - last.unsent + entry.unsent;
        ledger.lost = ledger.lost - last.lost + entry.lost;
        ledger.unacked = ledger.unacked - last.unacked + entry.unacked;
        ledger.buffered = ledger.buffered - last.buffered + entry.buffered;
        ledger.allowed = ledger.allowed - u128::from(last.allowed) + u128::from(entry.allowed);
        let places = &mut self.places;
        ledger
            .resend
            .set(id, &mut places.resend, send.wants_resend());
        ledger.fin.set(id, &mut places.fin, send.wants_bare_fin());
        let (fresh, light) = (send.sendable() > 0, unsent <= LIGHT);
        ledger.fresh.set(id, &mut places.fresh, fresh && !light);
        ledger.light.set(id, &mut places.light, fresh && light);
    }

    /// Brings the ledger up to date after a change of what was received, read, reset or stopped.
    /// Returns as `settle`.
    pub(super) fn settle_control(&mut self, id: StreamId, ledger: &mut Ledger) -> bool {
        let received = std::mem::replace(&mut self.entry.received, self.recv.allocated());
        ledger.received = ledger.received - received + self.entry.received;
        let promised = std::mem::replace(&mut self.entry.promised, self.recv.promised());
        ledger.promised = ledger.promised - promised + self.entry.promised;
        let due = self.send.wants_reset() || self.recv.wants_stop() || self.recv.wants_limit();
        if due != self.places.control {
            self.places.control = due;
            if due {
                ledger.control.insert(id);
            } else {
                ledger.control.remove(&id);
            }
        }
        self.send.is_over() && self.recv.is_over()
    }
}

//! What the components want said: events to the application, changes to the endpoint, control
//! frames to the peer.
//!
//! It owns the three queues and keeps their order. A list that a newer frame replaces is in the
//! queue once, and a queue of frames that outgrows [`MAX_CONTROL`] ends the connection. It never
//! decides anything.

use std::collections::VecDeque;

use manyway_wire::{ConnectionId, Frame, PathId};

use crate::budget::MAX_CONTROL;
use crate::driver::LocalId;
use crate::event::Event;
use crate::relays::RelayAddress;

use super::packet::Packet;
use super::paths::ConnectionIds;

/// What the endpoint has to do outside of the connection.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Datagrams with this connection id are this path's.
    CidIssued(ConnectionId, PathId),
    /// Datagrams with this connection id are nobody's any more.
    CidRetired(ConnectionId),
    /// A path runs on the carrier.
    CarrierOpened(LocalId, PathId),
    /// No path runs on the carrier any more, and none will.
    CarrierOver(LocalId),
    /// The peer names a relay: its consent is wanted.
    RelayWanted(RelayAddress),
    /// The peer asks for a new consent of the relay's.
    RelayRefreshed(RelayAddress),
    /// The peer doesn't need the relay any more.
    RelayDropped(RelayAddress),
}

/// The queues of one connection.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    events: VecDeque<Event>,
    changes: Vec<Change>,
    control: VecDeque<Frame<'static>>,
}

impl Outbox {
    /// Tells the application.
    pub(super) fn tell(&mut self, event: impl Into<Event>) {
        self.events.push_back(event.into());
    }

    pub(super) fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Whether the next event is the end of the connection.
    pub(super) fn ends(&self) -> bool {
        matches!(self.events.front(), Some(Event::Closed(_)))
    }

    /// Tells the endpoint.
    pub(super) fn change(&mut self, change: Change) {
        self.changes.push(change);
    }

    pub(super) fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    /// Tells the peer, on any path.
    pub(super) fn say(&mut self, frame: Frame<'static>) {
        self.control.push_back(frame);
    }

    /// Tells the peer again what was lost on the way, if it still holds.
    pub(super) fn say_again(&mut self, frame: Frame<'static>, ids: &ConnectionIds) {
        let holds = match &frame {
            Frame::PathId { path, cid } => ids.local(*path) == Some(*cid),
            _ => true,
        };
        if holds {
            self.say(frame);
        }
    }

    /// Takes back frames that don't hold any more.
    pub(super) fn withdraw(&mut self, is_void: impl Fn(&Frame<'_>) -> bool) {
        self.control.retain(|waiting| !is_void(waiting));
    }

    /// Whether the peer makes us say more than it lets us: it neither takes what waits nor stops
    /// asking for more.
    pub(super) fn overflows(&self) -> bool {
        self.control.len() > MAX_CONTROL
    }

    /// Tells the peer what makes an older frame void that waits still.
    pub(super) fn say_instead(&mut self, frame: Frame<'static>) {
        self.withdraw(|waiting| replaces(&frame, waiting));
        self.control.push_back(frame);
    }

    /// Control frames that wait.
    pub(super) fn frames(&self) -> usize {
        self.control.len()
    }

    /// Whether frames wait for a datagram.
    pub(super) fn has_frames(&self) -> bool {
        !self.control.is_empty()
    }

    /// Writes the frames that end before `end` into a packet, in their order.
    pub(super) fn write_frames(&mut self, end: usize, packet: &mut Packet, buf: &mut Vec<u8>) {
        while self
            .control
            .front()
            .is_some_and(|frame| Packet::push(buf, end, frame))
            && let Some(frame) = self.control.pop_front()
        {
            packet.ack_eliciting = true;
            packet.payload.control.push(frame);
        }
    }
}

/// Whether what an older frame says is void by a newer one.
fn replaces(newer: &Frame<'_>, older: &Frame<'_>) -> bool {
    match (newer, older) {
        (Frame::Addresses { .. }, Frame::Addresses { .. }) => true,
        (Frame::Relay { slot, .. }, Frame::Relay { slot: older, .. })
        | (Frame::Consent { slot, .. }, Frame::Consent { slot: older, .. }) => slot == older,
        (Frame::Grant { path, .. }, Frame::Grant { path: older, .. }) => path == older,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use manyway_wire::relay::{ForwardHeader, Grant, RelayType};

    use super::*;

    fn addresses(seq: u64) -> Frame<'static> {
        Frame::Addresses {
            seq,
            addresses: Vec::new(),
        }
    }

    #[test]
    fn frames_leave_in_order_as_far_as_there_is_room() {
        let mut outbox = Outbox::default();
        for max in [1, 2, 3] {
            outbox.say(Frame::MaxData { max });
        }
        let (mut packet, mut buf) = (Packet::default(), Vec::new());
        let two = 2 * Frame::MaxData { max: 1 }.encoded_len();
        outbox.write_frames(two, &mut packet, &mut buf);
        assert_eq!(
            packet.payload.control,
            [Frame::MaxData { max: 1 }, Frame::MaxData { max: 2 }]
        );
        assert!(packet.ack_eliciting && outbox.has_frames() && buf.len() == two);
        outbox.write_frames(buf.len() + two, &mut packet, &mut buf);
        assert!(!outbox.has_frames());
    }

    #[test]
    fn a_newer_list_takes_the_place_of_an_older_one() {
        let mut outbox = Outbox::default();
        outbox.say(addresses(1));
        outbox.say(Frame::Ping);
        outbox.say_instead(addresses(2));
        assert_eq!(outbox.control, [Frame::Ping, addresses(2)]);
    }

    #[test]
    fn what_is_said_of_another_slot_stays() {
        let relay = |slot, seq| Frame::Relay {
            slot,
            seq,
            relay: None,
        };
        let mut outbox = Outbox::default();
        for frame in [relay(1, 0), relay(2, 0), relay(1, 1)] {
            outbox.say_instead(frame);
        }
        assert_eq!(outbox.control, [relay(2, 0), relay(1, 1)]);
    }

    #[test]
    fn a_newer_grant_takes_the_place_of_its_own_paths_only() {
        let grant = |path, seq| Frame::Grant {
            path: manyway_wire::PathId(path),
            seq,
            grant: {
                let mut bytes = [0; ForwardHeader::LEN_V4];
                bytes[0] = RelayType::Forward4 as u8;
                Grant::decode(&bytes).expect("a grant")
            },
        };
        let mut outbox = Outbox::default();
        for frame in [grant(1, 0), grant(2, 0), grant(1, 1)] {
            outbox.say_instead(frame);
        }
        assert_eq!(outbox.control, [grant(2, 0), grant(1, 1)]);
    }
}

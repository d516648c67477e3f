//! A source: what a flow has to send, and its subflows' senders.

use std::ops::Range;
use std::time::Duration;

use manyway_control::Sender;
use manyway_control::laws::AnyController;
use manyway_control::paths::InvalidManagerConfig;
use manyway_network::Link;
use manyway_scenario::{Flow, Lifetime};
use manyway_units::Time;
use rand_pcg::Pcg64Mcg;

use super::event_queue::OwnFifo;
use super::managed::{Managed, RelayState};
use super::meter::Meter;
use super::receiver::Receiver;
use super::recorder::Transfer;
use crate::draw::{Drawn, Repeats};
use crate::histogram::Durations;

/// More packets than anybody sends.
const ENDLESS: u64 = u64::MAX / 2;

/// What a flow has to send. Data is counted in packets.
#[derive(Debug)]
// What every acknowledgement touches is together: the controller, and what follows it.
#[repr(C)]
pub(super) struct Source {
    /// Bytes of payload that the transfer has.
    size: u64,
    /// When the transfer began.
    began: Time,
    /// The transfers that are complete.
    pub(super) transfers: Vec<Transfer>,
    /// What it does after each, if it doesn't end.
    repeats: Option<Box<Pausing>>,
    /// The application's time for one packet, ns; 0 for as fast as possible.
    production: f64,
    produced: u64,
    /// Packets of data that are not acknowledged, of a finite transfer.
    open: u64,
    /// Packets under way whose data has arrived meanwhile: given up on one path and sent again on
    /// another, they came through after all.
    copies: u64,
    pub(super) start: Time,
    pub(super) stop: Time,
    pub(super) finished: Option<Time>,
    /// When the application's timer is set to.
    pub(super) timer: Time,
    /// Its subflows' numbers.
    pub(super) subflows: Range<u32>,
    /// Packets of data not produced by the application yet.
    remaining: u64,
    /// Bytes of payload in each packet.
    pub(super) payload: u32,
    pub(super) finite: bool,
    /// Sends what the application produces at once, and nothing again.
    pub(super) unresponsive: bool,
    /// Endless, and without a path manager: what is acknowledged only has to be counted.
    pub(super) plain: bool,
    pub(super) state: FlowState,
    /// Packets of data that wait to be sent, lost ones included.
    pub(super) backlog: u64,
    pub(super) controller: AnyController,
    /// Who opens and closes paths, if anybody does.
    pub(super) managed: Option<Box<Managed>>,
}

/// A source that goes on after a pause.
#[derive(Debug)]
struct Pausing {
    repeats: Repeats,
    /// When the next transfer begins, and its bytes, once the last one is over.
    next: Option<(Time, u64)>,
}

/// Where a source is in its life.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub(super) enum FlowState {
    Waiting,
    Active,
    /// Sends nothing new, and lost data not again.
    Stopped,
}

/// Packets for so many bytes of payload; at least one.
fn packets_of(bytes: u64, payload: u32) -> u64 {
    bytes.div_ceil(u64::from(payload)).max(1)
}

/// One path of a flow.
#[derive(Debug)]
// What every acknowledgement touches is behind the part of the sender that it touches, too.
#[repr(C)]
pub(super) struct Subflow {
    pub(super) lifetime: Lifetime,
    /// `None` until the subflow joins.
    pub(super) sender: Option<Sender<bool>>,
    pub(super) meter: Meter,
    pub(super) source: u32,
    /// Its round-trip times, if their percentiles are measured.
    pub(super) rtts: Option<Box<Durations>>,
    /// The earliest event that is scheduled for it.
    pub(super) timer: Time,
    pub(super) marks: u64,
    /// Packets below this number were given up on this path: their data was sent again elsewhere.
    pub(super) abandoned: u64,
    /// Packets below this number are of a transfer that is over.
    pub(super) stale: u64,
    /// Where packets don't enter the first link at once.
    pub(super) egress: Option<Box<Egress>>,
    /// Where acknowledgements are held back or may be lost.
    pub(super) receiver: Option<Box<Receiver>>,
    /// What its path manager has to know, if it has one.
    pub(super) relay: Option<Box<RelayState>>,
}

/// What happens to packets between a sender and their first shared link: jitter, and a private
/// link.
#[derive(Debug)]
// What each packet touches is together, at the beginning.
#[repr(C)]
pub(super) struct Egress {
    /// The largest jitter, ns.
    pub(super) jitter: u64,
    /// For packets that overtake those of other hosts on their way to the first link.
    pub(super) own: OwnFifo,
    /// Packets are ECN-capable.
    pub(super) ecn: bool,
    /// They are L4S packets.
    pub(super) l4s: bool,
    pub(super) access: Option<Box<Link>>,
    pub(super) latest: Time,
    pub(super) rng: Pcg64Mcg,
}

impl Subflow {
    /// The sender has taken an acknowledgement: notes the round-trip time.
    #[inline(always)]
    pub(super) fn note_rtt(&mut self, now: Time) {
        let Some(sender) = &self.sender else {
            return;
        };
        let rtt = sender.rtt().latest_nanos();
        self.meter.rtt(rtt);
        if let Some(rtts) = &mut self.rtts {
            rtts.add(now, rtt);
        }
    }
}

impl Source {
    /// All randomness of its path manager, if it has one, is from `seed`.
    ///
    /// # Errors
    /// What a path manager can't work with.
    pub(super) fn new(
        flow: &Flow,
        subflows: Range<u32>,
        drawn: Drawn,
        seed: u64,
    ) -> Result<Self, InvalidManagerConfig> {
        let payload = flow.sender.packet_size.saturating_sub(flow.headers).max(1);
        let Drawn { start, size, next } = drawn;
        // Of what is never sent again, nobody knows when it has arrived.
        let finite = size.is_some() && !flow.unresponsive;
        let packets = size.map(|bytes| packets_of(bytes, payload));
        let production = flow.rate.map_or(0.0, |rate| {
            f64::from(payload) / rate.bytes_per_sec().max(1e-3) * 1e9
        });
        let managed = Managed::of(flow, seed)?.map(Box::new);
        Ok(Self {
            controller: flow.law.controller(&flow.options),
            subflows,
            backlog: 0,
            remaining: packets.unwrap_or(ENDLESS),
            size: size.unwrap_or(0),
            began: start,
            transfers: Vec::new(),
            repeats: next.map(|repeats| {
                Box::new(Pausing {
                    repeats,
                    next: None,
                })
            }),
            production,
            produced: 0,
            finite,
            unresponsive: flow.unresponsive,
            plain: !finite && managed.is_none(),
            payload,
            open: packets.filter(|_| finite).unwrap_or(0),
            copies: 0,
            state: FlowState::Waiting,
            start,
            stop: flow.stop.unwrap_or(Time::MAX),
            finished: None,
            timer: Time::MAX,
            managed,
        })
    }

    /// It has no data of its own: an application outside writes what it sends.
    pub(super) fn empty(&mut self) {
        self.remaining = 0;
    }

    /// Lets the application produce what it can have produced by `now`; when it will have more, if
    /// that takes time.
    pub(super) fn produce(&mut self, now: Time) -> Option<Time> {
        if self.production <= 0.0 {
            self.backlog += std::mem::take(&mut self.remaining);
            return None;
        }
        let elapsed = now.since(self.began).as_nanos() as f64;
        // The first packet is there at once.
        let due = (elapsed / self.production) as u64 + 1;
        let more = due.saturating_sub(self.produced).min(self.remaining);
        self.produced += more;
        self.remaining -= more;
        self.backlog += more;
        let next = (self.produced as f64 * self.production).ceil();
        let next = self.began + Duration::from_nanos(next as u64);
        if self.remaining == 0 {
            // Nobody hears when the last packet arrives: its time is over when another would come.
            if self.unresponsive && more > 0 {
                self.pause(next);
            }
            return None;
        }
        Some(next.max(now + Duration::from_nanos(1)))
    }

    /// A transfer is over at `now`: the next one begins after a pause, if there is one.
    fn pause(&mut self, now: Time) {
        if let Some(pausing) = &mut self.repeats {
            let (pause, bytes) = pausing.repeats.draw();
            pausing.next = Some((now + pause, bytes));
        }
    }

    /// When it goes on, while it pauses.
    #[inline]
    pub(super) fn resumes(&self) -> Option<Time> {
        let pausing = self.repeats.as_ref()?;
        pausing.next.map(|(at, _)| at)
    }

    /// Begins the next transfer if its pause is over at `now`; whether it does.
    pub(super) fn begins_again(&mut self, now: Time) -> bool {
        let Some(pausing) = &mut self.repeats else {
            return false;
        };
        let Some((_, bytes)) = pausing.next.take_if(|(at, _)| *at <= now) else {
            return false;
        };
        let packets = packets_of(bytes, self.payload);
        self.size = bytes;
        self.began = now;
        self.produced = 0;
        self.remaining = packets;
        self.backlog = 0;
        self.copies = 0;
        self.open = if self.finite { packets } else { 0 };
        true
    }

    /// Whether data is kept off paths whose acknowledgements don't come: a transfer wants to end,
    /// and has other paths.
    pub(super) fn avoids_silent_paths(&self) -> bool {
        self.finite && self.subflows.len() > 1
    }

    /// Packets of data were acknowledged; returns how many bring data that had not arrived before.
    #[inline]
    pub(super) fn on_acked(&mut self, now: Time, packets: u64) -> u64 {
        match self.state {
            FlowState::Active if self.finite => {
                let copies = packets.min(self.copies);
                self.copies -= copies;
                self.on_arrived(now, packets - copies)
            }
            FlowState::Active => packets,
            FlowState::Waiting | FlowState::Stopped => 0,
        }
    }

    /// Whether there is data for the wire, and a use for it.
    pub(super) fn is_hungry(&self) -> bool {
        self.backlog > 0 && self.is_live()
    }

    /// Neither waiting nor over.
    pub(super) fn is_live(&self) -> bool {
        self.state == FlowState::Active && self.finished.is_none()
    }

    /// Packets were acknowledged that had been given up; returns how many bring data that had not
    /// arrived before. Nobody needs to send that again, and if it has been sent, those packets
    /// don't count any more.
    pub(super) fn on_acked_late(&mut self, now: Time, packets: u64) -> u64 {
        if self.state != FlowState::Active {
            return 0;
        }
        let waiting = packets.min(self.backlog);
        self.backlog -= waiting;
        // Given up twice and arrived twice, it counts once: no more can have arrived than has been
        // sent.
        let unsent = self.backlog + self.remaining;
        let under_way = self.open.saturating_sub(waiting + unsent);
        let copied = under_way.min(packets - waiting);
        self.copies += copied;
        self.on_arrived(now, waiting + copied)
    }

    fn on_arrived(&mut self, now: Time, packets: u64) -> u64 {
        let packets = packets.min(self.open);
        self.open -= packets;
        if self.open == 0 && packets > 0 {
            self.transfers.push(Transfer {
                bytes: self.size,
                began: self.began,
                ended: now,
            });
            match self.repeats {
                Some(_) => self.pause(now),
                None => self.finished = Some(now),
            }
        }
        packets
    }

    /// Data must be sent again.
    pub(super) fn on_lost(&mut self, packets: u64) {
        if self.state == FlowState::Active && !self.unresponsive {
            let copies = packets.min(self.copies);
            self.copies -= copies;
            self.backlog += packets - copies;
        }
    }
}

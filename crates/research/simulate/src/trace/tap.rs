//! Between the links of a level and those who want to know what happens there.

use std::io;

use manyway_network::{DropReason, Packet, Ticket, Verdict};
use manyway_scenario::Experiment;
use manyway_units::Time;

use super::order::Order;
use super::{Ecn, Event, Observer, Seen, What};
use crate::histogram::Durations;

/// Hears of each packet that is offered to a link, and of each verdict.
#[derive(Debug)]
pub(crate) struct Tap {
    /// How long packets were in the queues, by link; empty if nobody asks.
    delays: Vec<Durations>,
    log: Option<Log>,
    /// Packets that wait until a queue decides about them, by link and ticket.
    waiting: Vec<Vec<Came>>,
}

/// A packet that was offered to a link.
#[derive(Debug, Copy, Clone)]
pub(crate) struct Came {
    pub(crate) at: Time,
    pub(crate) packet: Packet,
    pub(crate) number: Option<u64>,
    /// An earlier queue has marked it.
    pub(crate) marked: bool,
}

impl Came {
    /// The packet's flow is twice the number of its subflow, plus one on the return path.
    fn seen(&self) -> Seen {
        Seen {
            subflow: self.packet.flow / 2,
            back: self.packet.flow % 2 == 1,
            number: self.number,
            bytes: self.packet.bytes,
            ecn: match (self.marked, self.packet.l4s, self.packet.ecn) {
                (true, ..) => Ecn::Ce,
                (_, true, _) => Ecn::Ect1,
                (_, _, true) => Ecn::Ect0,
                _ => Ecn::Not,
            },
            class: self.packet.class,
        }
    }
}

#[derive(Debug)]
struct Log {
    observer: Box<dyn Observer>,
    order: Order,
    /// Packets in the queue of each link that the observer wants.
    queues: Vec<Option<u64>>,
    /// Why the observer has ended.
    error: Option<io::Error>,
}

impl Tap {
    /// What the experiment has measured, if a tap has to know it.
    pub(crate) fn measuring(experiment: &Experiment) -> Option<Self> {
        let measure = &experiment.measure;
        let links = experiment.topology.links.len();
        let delays = Durations::new(measure.from, measure.until);
        measure.percentiles.queue.then(|| Self {
            delays: vec![delays; links],
            log: None,
            waiting: vec![Vec::new(); links],
        })
    }

    /// The tap, or a new one, with an observer of so many links.
    pub(crate) fn observed(tap: Option<Self>, links: usize, observer: Box<dyn Observer>) -> Self {
        let mut tap = tap.unwrap_or_else(|| Self {
            delays: Vec::new(),
            log: None,
            waiting: vec![Vec::new(); links],
        });
        let queues = (0..links).map(|link| observer.wants(link).then_some(0));
        tap.log = Some(Log {
            queues: queues.collect(),
            observer,
            order: Order::default(),
            error: None,
        });
        tap
    }

    /// The percentiles of the delays at each link, if they are measured.
    pub(crate) fn delays(&self) -> &[Durations] {
        &self.delays
    }

    /// Whether the observer can't go on.
    pub(crate) fn has_failed(&self) -> bool {
        self.log.as_ref().is_some_and(|log| log.error.is_some())
    }

    /// The run is over.
    ///
    /// # Errors
    /// What kept the observer from writing.
    pub(crate) fn end(&mut self, now: Time) -> io::Result<()> {
        let Some(mut log) = self.log.take() else {
            return Ok(());
        };
        log.advance(now);
        match log.error {
            Some(error) => Err(error),
            None => log.observer.end(now),
        }
    }

    /// A packet was offered; `busy_until` is the link's, afterwards.
    pub(crate) fn offered(&mut self, link: usize, came: Came, verdict: Verdict, busy_until: Time) {
        let Some(waiting) = self.waiting.get_mut(link) else {
            return;
        };
        let enters = match verdict {
            Verdict::Delivered { .. } | Verdict::Dropped(DropReason::RandomLoss) => true,
            Verdict::Dropped(_) => false,
            Verdict::Queued(Ticket(ticket)) => {
                let ticket = ticket as usize;
                if waiting.len() <= ticket {
                    waiting.resize(ticket + 1, came);
                }
                waiting[ticket] = came;
                true
            }
        };
        if let Some(log) = &mut self.log
            && enters
        {
            log.tell(came.at, link, What::Enqueue, came.seen());
        }
        self.left(link, came, came.at, verdict, busy_until, false);
    }

    /// A queue has decided about a packet that waits; `busy_until` is the link's, afterwards.
    pub(crate) fn decided(
        &mut self,
        link: usize,
        Ticket(ticket): Ticket,
        now: Time,
        verdict: Verdict,
        busy_until: Time,
    ) {
        let waiting = self.waiting.get(link);
        let came = waiting.and_then(|waiting| waiting.get(ticket as usize));
        if let Some(&came) = came {
            self.left(link, came, now, verdict, busy_until, true);
        }
    }

    /// What became of a packet is known at `now`; `queued` if it was in the queue until then.
    fn left(
        &mut self,
        link: usize,
        came: Came,
        now: Time,
        verdict: Verdict,
        busy_until: Time,
        queued: bool,
    ) {
        let departs = match verdict {
            Verdict::Delivered { departs, .. } => Some(departs),
            Verdict::Dropped(DropReason::RandomLoss) => Some(busy_until),
            _ => None,
        };
        if let (Some(departs), Some(delays)) = (departs, self.delays.get_mut(link)) {
            delays.add(came.at, departs.as_nanos() - came.at.as_nanos());
        }
        let Some(log) = &mut self.log else {
            return;
        };
        let mut seen = came.seen();
        match verdict {
            Verdict::Delivered {
                departs,
                arrives,
                marked,
            } => {
                if marked {
                    seen.ecn = Ecn::Ce;
                    log.tell(now, link, What::Mark, seen);
                }
                log.expect(departs, link, What::Transmit, seen);
                log.expect(arrives, link, What::Deliver, seen);
            }
            Verdict::Dropped(DropReason::RandomLoss) => {
                log.expect(busy_until, link, What::Transmit, seen);
                let (reason, queued) = (DropReason::RandomLoss, true);
                log.expect(busy_until, link, What::Drop { reason, queued }, seen);
            }
            Verdict::Dropped(reason) => {
                log.tell(now, link, What::Drop { reason, queued }, seen);
            }
            Verdict::Queued(_) => {}
        }
    }
}

impl Log {
    /// Something happens now.
    fn tell(&mut self, now: Time, link: usize, what: What, packet: Seen) {
        self.advance(now);
        self.happens(Event {
            at: now,
            link,
            what,
            packet,
            queue: 0,
        });
    }

    /// Something will happen.
    fn expect(&mut self, at: Time, link: usize, what: What, packet: Seen) {
        if self.queues.get(link).is_some_and(Option::is_some) {
            self.order.push(Event {
                at,
                link,
                what,
                packet,
                queue: 0,
            });
        }
    }

    /// Everything that was to happen until `now` has happened.
    fn advance(&mut self, now: Time) {
        while let Some(event) = self.order.pop(now) {
            self.happens(event);
        }
    }

    fn happens(&mut self, mut event: Event) {
        let Some(Some(queue)) = self.queues.get_mut(event.link) else {
            return;
        };
        match event.what {
            What::Enqueue => *queue += 1,
            What::Transmit => *queue -= 1,
            // From the wire, it isn't in the queue any more.
            What::Drop { reason, queued } if queued && reason != DropReason::RandomLoss => {
                *queue -= 1;
            }
            What::Mark | What::Deliver | What::Drop { .. } => {}
        }
        event.queue = *queue;
        if self.error.is_none() {
            self.error = self.observer.event(&event).err();
        }
    }
}

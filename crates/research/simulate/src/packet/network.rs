//! Links, routes over them, and the packets under way.

use std::time::Duration;

use manyway_network::{HeldBack, InvalidLink, Link, LinkConfig, Packet, Ticket, Verdict};
use manyway_scenario::Experiment;
use manyway_units::Time;

use super::event_queue::{EventQueue, FifoId};
use super::receiver::AckRecord;
use super::transit::{Stage, Transit};
use crate::events::mix;
use crate::trace::{Came, Tap};

/// Everything between senders and receivers.
#[derive(Debug)]
pub(super) struct Network {
    pub(super) links: Vec<Link>,
    pub(super) under_way: EventQueue,
    /// Packets on their way from any sender to its first link, as far as they come in order.
    pub(super) egress: FifoId,
    routes: Vec<Route>,
    /// By subflow.
    paths: Vec<SubflowPath>,
    records: Records,
    /// By link, of those whose queue decides about packets when they leave it.
    late: Vec<Option<Late>>,
    /// Who wants to know what happens at the links.
    pub(super) tap: Option<Box<Tap>>,
}

/// A link whose queue decides about packets when they leave it.
#[derive(Debug)]
struct Late {
    held: HeldBack<Transit>,
    /// Holds nothing but the moments at which the link is asked.
    moments: FifoId,
}

/// A path's links.
#[derive(Debug)]
struct Route {
    forward: Vec<u32>,
    backward: Vec<u32>,
}

/// A subflow's route, and what happens to its packets on it.
#[derive(Debug)]
struct SubflowPath {
    /// How many links there are, and the first.
    hops: u32,
    first: u32,
    route: u32,
    bytes: u32,
    ack_bytes: u32,
    ecn: bool,
    l4s: bool,
    class: u8,
    /// What happens behind the last link, after this time.
    exit: Exit,
    /// What happens behind the last reverse link, or right behind the receiver, after this time.
    back: Exit,
}

/// A constant delay at the end of a way; packets in it stay in order.
#[derive(Debug, Copy, Clone)]
struct Exit {
    stage: Stage,
    fifo: FifoId,
    /// In ns.
    delay: u64,
}

impl Exit {
    /// The time of a packet that enters it at `at`.
    #[inline]
    fn after(&self, at: Time) -> Time {
        Time::from_nanos(at.as_nanos().saturating_add(self.delay))
    }
}

/// Acknowledgements under way that say more than one number.
#[derive(Debug, Default)]
pub(super) struct Records {
    records: Vec<AckRecord>,
    free: Vec<u32>,
}

impl Records {
    pub(super) fn take(&mut self) -> (u64, &mut AckRecord) {
        let index = self.free.pop().unwrap_or_else(|| {
            self.records.push(AckRecord::default());
            (self.records.len() - 1) as u32
        });
        (u64::from(index), &mut self.records[index as usize])
    }

    pub(super) fn get(&self, index: u64) -> &AckRecord {
        &self.records[index as usize]
    }

    pub(super) fn release(&mut self, index: u64) {
        self.free.push(index as u32);
    }
}

impl Network {
    /// The experiment's links, with a FIFO behind each and one for every constant delay at the end
    /// of a route.
    ///
    /// # Errors
    /// What a link's configuration has wrong, with its name.
    pub(super) fn new(experiment: &Experiment, seed: u64) -> Result<Self, (String, InvalidLink)> {
        let mut under_way = EventQueue::new(mix(seed));
        let mut links = Vec::with_capacity(experiment.topology.links.len());
        for (index, named) in experiment.topology.links.iter().enumerate() {
            let link = seeded(&named.config, seed, index as u64);
            links.push(Link::new(link).map_err(|error| (named.name.clone(), error))?);
            // FIFO n is the wire behind link n.
            under_way.add();
        }
        let egress = under_way.add();
        let indices = |links: &[usize]| links.iter().map(|&link| link as u32).collect();
        let routes = experiment.topology.paths.iter().map(|path| Route {
            forward: indices(&path.links),
            backward: indices(&path.reverse),
        });
        let mut network = Self {
            links,
            routes: routes.collect(),
            paths: Vec::new(),
            records: Records::default(),
            egress,
            under_way,
            late: Vec::new(),
            tap: Tap::measuring(experiment).map(Box::new),
        };
        network.add_paths(experiment);
        let links = experiment.topology.links.iter();
        let late = links.map(|named| {
            let late = named.config.queue.decides_late();
            late.then(|| Late {
                held: HeldBack::default(),
                moments: network.under_way.add(),
            })
        });
        network.late = late.collect();
        Ok(network)
    }

    fn add_paths(&mut self, experiment: &Experiment) {
        let mut exits: std::collections::HashMap<(Option<u32>, Stage, Duration), FifoId> =
            std::collections::HashMap::new();
        for flow in &experiment.flows {
            for &path in &flow.paths {
                let spec = &experiment.topology.paths[path];
                let mut exit = |link: Option<u32>, stage: Stage, delay: Duration| Exit {
                    stage,
                    delay: u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX),
                    fifo: *exits
                        .entry((link, stage, delay))
                        .or_insert_with(|| self.under_way.add()),
                };
                let last = spec.links.last().map(|&link| link as u32);
                let last_back = spec.reverse.last().map(|&link| link as u32);
                // Where each packet is acknowledged at once and nothing happens to
                // acknowledgements, the receiver has no state, and the packet's way there and the
                // acknowledgement's back are one constant delay.
                let ack = &flow.ack;
                let at_once = ack.every <= 1 && ack.times && last_back.is_none();
                let back = spec.return_delay + flow.extra_return;
                self.paths.push(SubflowPath {
                    hops: spec.links.len() as u32,
                    first: spec.links.first().map_or(0, |&link| link as u32),
                    route: path as u32,
                    bytes: flow.sender.packet_size,
                    ack_bytes: flow.ack.bytes,
                    ecn: flow.ecn,
                    l4s: flow.l4s,
                    class: flow.class,
                    exit: if at_once {
                        exit(last, Stage::Acknowledged, flow.extra_delay + back)
                    } else {
                        exit(last, Stage::Receive, flow.extra_delay)
                    },
                    back: exit(last_back, Stage::Returned, back),
                });
            }
        }
    }

    /// Whether the receiver of this subflow has something to remember.
    pub(super) fn keeps_receiver_state(&self, subflow: usize) -> bool {
        self.paths[subflow].exit.stage == Stage::Receive
    }

    /// A packet enters the next link of its route, now.
    #[inline(always)]
    pub(super) fn forward(&mut self, at: Time, item: Transit) {
        let path = &self.paths[item.subflow() as usize];
        let link = match item.hop() {
            0 => path.first,
            hop => self.routes[path.route as usize].forward[hop],
        };
        let packet = Packet {
            bytes: path.bytes,
            ecn: path.ecn,
            l4s: path.l4s,
            flow: 2 * item.subflow(),
            class: path.class,
        };
        let verdict = self.links[link as usize].offer(at, packet);
        if self.tap.is_some() {
            self.tell(link, (at, item), packet, verdict);
        }
        match verdict {
            Verdict::Delivered {
                arrives, marked, ..
            } => self.forwarded(link, item, arrives, marked),
            Verdict::Queued(ticket) => self.hold(link, ticket, item),
            Verdict::Dropped(_) => {}
        }
    }

    /// Tells the tap of a packet that was offered to a link.
    #[cold]
    fn tell(&mut self, link: u32, (at, item): (Time, Transit), packet: Packet, verdict: Verdict) {
        let number = match item.stage() {
            Stage::Backward => self.records.get(item.number).largest(),
            _ => Some(item.number),
        };
        let busy_until = self.links[link as usize].busy_until();
        if let Some(tap) = &mut self.tap {
            let came = Came {
                at,
                packet,
                number,
                marked: item.is_marked(),
            };
            tap.offered(link as usize, came, verdict, busy_until);
        }
    }

    /// A packet has passed this link of its route.
    #[inline(always)]
    fn forwarded(&mut self, link: u32, mut item: Transit, arrives: Time, marked: bool) {
        let path = &self.paths[item.subflow() as usize];
        if marked {
            item.mark();
        }
        item.pass_hop();
        if item.hop() == path.hops as usize {
            let at = path.exit.after(arrives);
            item.set_stage(path.exit.stage);
            self.under_way.push(path.exit.fifo, at, item);
        } else {
            self.under_way.push(FifoId(link), arrives, item);
        }
    }

    /// A packet waits until the queue decides about it.
    #[cold]
    fn hold(&mut self, link: u32, ticket: Ticket, item: Transit) {
        let model = &self.links[link as usize];
        if let Some(late) = &mut self.late[link as usize]
            && let Some(at) = late.held.put(ticket, item, model)
        {
            let moment = Transit::new(link, 0, Stage::Decide);
            self.under_way.push(late.moments, at, moment);
        }
    }

    /// The time has come for a link to decide about packets that wait.
    #[inline(never)]
    pub(super) fn decide(&mut self, now: Time, link: u32) {
        let index = link as usize;
        while let Some((ticket, verdict)) = self.links[index].decide(now) {
            let late = self.late[index].as_mut();
            let Some(item) = late.and_then(|late| late.held.take(ticket)) else {
                continue;
            };
            if let Some(tap) = &mut self.tap {
                tap.decided(index, ticket, now, verdict, self.links[index].busy_until());
            }
            match (verdict, item.stage()) {
                (
                    Verdict::Delivered {
                        arrives, marked, ..
                    },
                    Stage::Forward,
                ) => self.forwarded(link, item, arrives, marked),
                (Verdict::Delivered { arrives, .. }, _) => {
                    self.returned(Some(link), item, arrives);
                }
                (_, Stage::Backward) => self.records.release(item.number),
                _ => {}
            }
        }
        if let Some(late) = &mut self.late[index] {
            late.held.is_asked(now);
            if let Some(at) = late.held.expect(&self.links[index]) {
                let moment = Transit::new(link, 0, Stage::Decide);
                self.under_way.push(late.moments, at, moment);
            }
        }
    }

    /// An acknowledgement leaves the receiver: `write` fills its record.
    pub(super) fn acknowledge(
        &mut self,
        now: Time,
        subflow: u32,
        write: impl FnOnce(&mut AckRecord),
    ) {
        let (number, record) = self.records.take();
        write(record);
        self.backward(now, Transit::new(subflow, number, Stage::Backward));
    }

    /// An acknowledgement enters the next link of its return path, now, or gets through.
    #[inline(always)]
    pub(super) fn backward(&mut self, at: Time, item: Transit) {
        let path = &self.paths[item.subflow() as usize];
        let route = &self.routes[path.route as usize].backward;
        let Some(&link) = route.get(item.hop()) else {
            return self.returned(None, item, at);
        };
        let packet = Packet {
            bytes: path.ack_bytes,
            ecn: false,
            l4s: false,
            flow: 2 * item.subflow() + 1,
            class: path.class,
        };
        let verdict = self.links[link as usize].offer(at, packet);
        if self.tap.is_some() {
            self.tell(link, (at, item), packet, verdict);
        }
        match verdict {
            Verdict::Delivered { arrives, .. } => self.returned(Some(link), item, arrives),
            Verdict::Queued(ticket) => self.hold(link, ticket, item),
            Verdict::Dropped(_) => self.records.release(item.number),
        }
    }

    /// An acknowledgement has passed this link of its return path, if that has any.
    #[inline(always)]
    fn returned(&mut self, link: Option<u32>, mut item: Transit, arrives: Time) {
        let path = &self.paths[item.subflow() as usize];
        let route = &self.routes[path.route as usize].backward;
        if let Some(link) = link {
            item.pass_hop();
            if item.hop() < route.len() {
                return self.under_way.push(FifoId(link), arrives, item);
            }
        }
        let at = path.back.after(arrives);
        item.set_stage(path.back.stage);
        self.under_way.push(path.back.fifo, at, item);
    }

    /// When the packet whose acknowledgement arrives at `now` got to the receiver.
    #[inline]
    pub(super) fn received_at(&self, subflow: u32, now: Time) -> Time {
        let delay = self.paths[subflow as usize].back.delay;
        Time::from_nanos(now.as_nanos().saturating_sub(delay))
    }

    pub(super) fn record(&self, number: u64) -> &AckRecord {
        self.records.get(number)
    }

    pub(super) fn release(&mut self, number: u64) {
        self.records.release(number);
    }
}

/// A link's configuration with a seed of its own for this run.
pub(super) fn seeded(config: &LinkConfig, seed: u64, stream: u64) -> LinkConfig {
    LinkConfig {
        seed: mix(mix(seed) ^ mix(config.seed) ^ stream),
        ..config.clone()
    }
}

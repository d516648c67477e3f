//! Packets through the scene's links by the same events, with fixed windows, and nothing else.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, VecDeque};

use manyway_network::{Limit, Queue};

use super::Scene;

/// Moves packets with fixed windows. Times are nanoseconds.
pub(crate) struct Mover {
    end: u64,
    subflows: Vec<Subflow>,
    links: Vec<Wire>,
    /// Subflow n's feeder is queue n, link l's wire is queue `subflows + l`.
    queues: Vec<VecDeque<(u64, u32)>>,
    heads: BinaryHeap<Reverse<(u64, u32)>>,
    moved: u64,
}

struct Subflow {
    feeder: Wire,
    link: u32,
    window: u32,
    /// From the link's end to the receiver and all the way back.
    back: u64,
}

struct Wire {
    service: u64,
    delay: u64,
    free_at: u64,
}

impl Wire {
    /// When a packet that enters now is at the far end.
    fn pass(&mut self, now: u64) -> u64 {
        self.free_at = self.free_at.max(now) + self.service;
        self.free_at + self.delay
    }
}

impl Mover {
    /// Windows share out what fits onto each link's wire and half its queue, so that links are busy
    /// and nothing is lost. `None` if acknowledgements are packets, or flows have no feeders.
    pub(crate) fn new(scene: &Scene) -> Option<Self> {
        let experiment = &scene.experiment;
        let topology = &experiment.topology;
        if topology.paths.iter().any(|path| !path.reverse.is_empty()) {
            return None;
        }
        let mut sharing = vec![0_u64; topology.links.len()];
        for flow in &experiment.flows {
            for &path in &flow.paths {
                sharing[topology.paths[path].links[0]] += 1;
            }
        }
        let mut subflows = Vec::new();
        for flow in &experiment.flows {
            for &path in &flow.paths {
                let path = &topology.paths[path];
                let link = &topology.links[path.links[0]].config;
                let wire = |config: &manyway_network::LinkConfig| Wire {
                    service: config
                        .rate
                        .time_for(u64::from(flow.sender.packet_size))
                        .as_nanos() as u64,
                    delay: config.delay.as_nanos() as u64,
                    free_at: 0,
                };
                let Queue::DropTail(Limit::Packets(room)) = link.queue else {
                    panic!("the scenes' queues are DropTail in packets");
                };
                let bottleneck = wire(link);
                let back = path.return_delay.as_nanos() as u64;
                let in_flight =
                    (bottleneck.delay + back) / bottleneck.service + u64::from(room) / 2;
                subflows.push(Subflow {
                    feeder: wire(flow.access.as_ref()?),
                    link: path.links[0] as u32,
                    window: (in_flight / sharing[path.links[0]]).max(1) as u32,
                    back,
                });
            }
        }
        let bytes = u64::from(experiment.flows[0].sender.packet_size);
        let links = topology.links.iter().map(|link| Wire {
            service: link.config.rate.time_for(bytes).as_nanos() as u64,
            delay: link.config.delay.as_nanos() as u64,
            free_at: 0,
        });
        let links: Vec<Wire> = links.collect();
        Some(Self {
            end: experiment.duration.as_nanos() as u64,
            queues: vec![VecDeque::new(); subflows.len() + links.len()],
            heads: BinaryHeap::new(),
            moved: 0,
            subflows,
            links,
        })
    }

    /// Moves packets to the end; how many the links forwarded.
    pub(crate) fn run(&mut self) -> u64 {
        for subflow in 0..self.subflows.len() as u32 {
            for _ in 0..self.subflows[subflow as usize].window {
                self.send(0, subflow);
            }
        }
        let feeders = self.subflows.len();
        while let Some((now, lane, subflow)) = self.next() {
            if (lane as usize) < feeders {
                self.enter_link(now, subflow);
            } else {
                self.send(now, subflow);
            }
        }
        self.moved
    }

    /// The next packet to move: when, from which queue, and whose it is.
    fn next(&mut self) -> Option<(u64, u32, u32)> {
        let mut head = self.heads.peek_mut()?;
        let Reverse((now, lane)) = *head;
        if now > self.end {
            return None;
        }
        let queue = &mut self.queues[lane as usize];
        let (_, subflow) = queue.pop_front()?;
        match queue.front() {
            Some(&(at, _)) => *head = Reverse((at, lane)),
            None => {
                PeekMut::pop(head);
            }
        }
        Some((now, lane, subflow))
    }

    fn send(&mut self, now: u64, subflow: u32) {
        let at = self.subflows[subflow as usize].feeder.pass(now);
        self.push(subflow, at, subflow);
    }

    fn enter_link(&mut self, now: u64, subflow: u32) {
        let Subflow { link, back, .. } = self.subflows[subflow as usize];
        let at = self.links[link as usize].pass(now) + back;
        self.moved += 1;
        self.push(self.subflows.len() as u32 + link, at, subflow);
    }

    fn push(&mut self, lane: u32, at: u64, subflow: u32) {
        let queue = &mut self.queues[lane as usize];
        if queue.is_empty() {
            self.heads.push(Reverse((at, lane)));
        }
        queue.push_back((at, subflow));
    }
}

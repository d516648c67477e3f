//! A path manager beside a source: how a flow whose law has one finds, opens and closes its paths.
//!
//! Its first path is the direct one; the others, through one relay each, are candidates known to a
//! registration server. What isn't open costs nothing: the manager hears of what paths deliver only
//! when something else has happened.

use std::ops::RangeInclusive;
use std::time::Duration;

use manyway_control::paths::{
    Command, Event, InvalidManagerConfig, PathKey, PathManager, RelayKey,
};
use manyway_control::{Controller, PathVerdict};
use manyway_scenario::Flow;
use manyway_units::Time;
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

use super::Simulation;
use crate::events::mix;

/// A source's path manager, and the registration server that it asks.
#[derive(Debug)]
pub(super) struct Managed {
    manager: PathManager,
    server: Server,
    /// Subflows whose paths are open, in the order of opening: the direct one first.
    pub(super) open: Vec<u32>,
    /// The direct path has answered.
    started: bool,
}

/// Knows all relays, and gives some of them to whoever asks.
#[derive(Debug)]
struct Server {
    rng: Pcg64Mcg,
    relays: usize,
    subset: usize,
}

/// What a manager has to know of one of its flow's subflows.
#[derive(Debug, Default)]
pub(super) struct RelayState {
    /// The path's packets before its sender's first.
    pub(super) probes: Vec<Probe>,
    /// The round trip of the last probe that was answered in time.
    rtt: Option<Duration>,
    /// Packets delivered and loss events that the manager has heard of.
    delivered: u64,
    loss_events: u64,
}

/// A packet sent through a relay outside all windows.
#[derive(Debug)]
pub(super) struct Probe {
    pub(super) sent: Time,
    /// Carries data.
    data: bool,
    fate: Fate,
}

#[derive(Debug, Copy, Clone, PartialEq, Eq)]
enum Fate {
    Waiting,
    /// Its data is sent again.
    GivenUp,
    /// Acknowledged after that.
    Late,
    Acknowledged,
}

impl Managed {
    /// The manager of a flow whose law comes with one and that has candidates beside the direct
    /// path.
    pub(super) fn of(flow: &Flow, seed: u64) -> Result<Option<Self>, InvalidManagerConfig> {
        let Some(of_law) = flow.law.path_manager() else {
            return Ok(None);
        };
        let relays = flow.paths.len() - 1;
        if relays == 0 {
            return Ok(None);
        }
        let choice = flow.relays.as_deref().copied().unwrap_or_default();
        let config = choice.manager.of_law(of_law.beta, of_law.probe_patience);
        Ok(Some(Managed {
            manager: PathManager::new(config, mix(seed))?,
            server: Server {
                rng: Pcg64Mcg::seed_from_u64(mix(!seed)),
                relays,
                subset: choice.subset.unwrap_or(relays).min(relays),
            },
            open: Vec::new(),
            started: false,
        }))
    }
}

impl Server {
    /// Relay n is the one on the flow's path n, counted from 0.
    fn draw(&mut self) -> Vec<RelayKey> {
        let drawn = rand::seq::index::sample(&mut self.rng, self.relays, self.subset);
        drawn.iter().map(|n| RelayKey(n as u64 + 1)).collect()
    }
}

impl RelayState {
    pub(super) fn probes_sent(&self) -> u64 {
        self.probes.len() as u64
    }

    pub(super) fn probes_lost(&self) -> u64 {
        let lost = self.probes.iter();
        lost.filter(|probe| probe.fate == Fate::GivenUp).count() as u64
    }

    /// Probes without an answer in time.
    pub(super) fn probes_given_up(&self) -> u64 {
        let given_up = |probe: &&Probe| matches!(probe.fate, Fate::GivenUp | Fate::Late);
        self.probes.iter().filter(given_up).count() as u64
    }

    /// The round trip that a probe has measured.
    pub(super) fn probed_rtt(&self) -> Option<Duration> {
        self.rtt
    }
}

impl Simulation<'_> {
    /// What came of a subflow's packets is settled: its path manager hears of it, if it wants to
    /// know. `before` is the window before.
    pub(super) fn observe(&mut self, index: u32, before: f64, lost: bool) {
        let subflow = &mut self.subflows[index as usize];
        let (Some(relay), Some(sender)) = (&mut subflow.relay, &subflow.sender) else {
            return;
        };
        let owner = subflow.source as usize;
        let source = &mut self.sources[owner];
        let Some(managed) = &mut source.managed else {
            return;
        };
        let is_direct = index == source.subflows.start;
        let answered = is_direct && !managed.started && sender.rtt().has_sample();
        managed.started |= answered;
        let events = sender.stats().loss_events;
        let cut = std::mem::replace(&mut relay.loss_events, events) != events;
        if cut || lost || answered {
            let path = path_of(index - source.subflows.start);
            let window = before;
            let event = cut.then_some(Event::Loss { path, window });
            self.manage(owner, Some(index), event);
        }
    }

    /// Nothing has been acknowledged on a subflow for a while. True if it is given up.
    pub(super) fn on_silence(&mut self, index: u32) -> bool {
        let subflow = &self.subflows[index as usize];
        if subflow.relay.is_none() {
            return false;
        }
        let owner = subflow.source as usize;
        let path = path_of(index - self.sources[owner].subflows.start);
        let window = subflow.meter.current();
        self.manage(owner, None, Some(Event::Timeout { path, window }));
        self.subflows[index as usize].meter.is_over()
    }

    /// Tells the path manager of a flow, if it has one, what has happened, and does what it says.
    /// `about` is the subflow that it happened to, if that is all there is to look at.
    ///
    /// A loss on a proxied path, of which there are many where there are many paths, changes
    /// nothing about the others.
    pub(super) fn manage(
        &mut self,
        owner: usize,
        about: Option<u32>,
        event: Option<Event<'static>>,
    ) {
        let direct = self.sources[owner].subflows.start;
        let about = about.filter(|&index| index != direct);
        let source = &self.sources[owner];
        let started = source
            .managed
            .as_ref()
            .is_some_and(|managed| managed.started);
        if !started || !source.is_live() {
            return;
        }
        if about.is_none() {
            self.brief(owner);
        }
        self.tell(owner, event);
        match about {
            Some(index) => self.judge(owner, index, true),
            None => {
                let open = self.sources[owner].managed.as_ref();
                for index in open.map_or(Vec::new(), |managed| managed.open.clone()) {
                    self.judge(owner, index, false);
                }
            }
        }
        self.obey(owner);
    }

    fn tell(&mut self, owner: usize, event: Option<Event<'_>>) {
        if let (Some(managed), Some(event)) = (&mut self.sources[owner].managed, event) {
            managed.manager.handle(self.now, event);
        }
    }

    /// Passes on what the controller thinks of a path, after what else is to be known if that is
    /// still to be done.
    fn judge(&mut self, owner: usize, index: u32, brief: bool) {
        let source = &self.sources[owner];
        let PathKey::Via(relay) = path_of(index - source.subflows.start) else {
            return;
        };
        let sender = self.subflows[index as usize].sender.as_ref();
        let verdict = sender.map_or(PathVerdict::Keep, |sender| {
            source.controller.verdict(sender.slot())
        });
        if verdict == PathVerdict::Keep {
            return;
        }
        if brief {
            self.brief(owner);
        }
        self.tell(owner, Some(Event::Verdict { relay, verdict }));
    }

    /// Brings the manager up to date: what the paths have delivered, the direct one's round trip,
    /// and whether there is more to send.
    fn brief(&mut self, owner: usize) {
        let now = self.now;
        let source = &mut self.sources[owner];
        let first = source.subflows.start;
        let Some(managed) = &mut source.managed else {
            return;
        };
        let manager = &mut managed.manager;
        manager.handle(now, Event::Unsatisfied(source.backlog > 0));
        for &index in &managed.open {
            let subflow = &mut self.subflows[index as usize];
            let (PathKey::Via(relay), Some(state)) = (path_of(index - first), &mut subflow.relay)
            else {
                continue;
            };
            let delivered = subflow.meter.read(now).delivered;
            let packets = delivered - std::mem::replace(&mut state.delivered, delivered);
            let bytes = packets * u64::from(self.flows[owner].sender.packet_size);
            manager.handle(now, Event::Delivered { relay, bytes });
        }
        if let Some(sender) = &self.subflows[first as usize].sender {
            manager.handle(now, Event::DirectRtt(sender.rtt().smoothed()));
        }
    }

    /// Carries out the manager's commands.
    fn obey(&mut self, owner: usize) {
        let first = self.sources[owner].subflows.start;
        let subflow = |relay: RelayKey| first + relay.0 as u32;
        let mut changed = false;
        while let Some(managed) = &mut self.sources[owner].managed
            && let Some(command) = managed.manager.next_command()
        {
            match command {
                Command::Probe(relay) => self.probe(subflow(relay)),
                Command::Resend(relay) => {
                    self.give_up_probe(subflow(relay));
                    changed = true;
                }
                Command::Open(relay) => {
                    managed.open.push(subflow(relay));
                    self.join(subflow(relay));
                    changed = true;
                }
                Command::Close { relay, .. } => {
                    managed.open.retain(|&other| other != subflow(relay));
                    self.leave(subflow(relay));
                    self.subflows[subflow(relay) as usize].meter.close(self.now);
                    changed = true;
                }
                Command::MoreRelays => {
                    let relays = managed.server.draw();
                    managed.manager.handle(self.now, Event::Relays(&relays));
                }
            }
        }
        if changed {
            self.pump_flow(owner);
        }
        let managed = self.sources[owner].managed.as_ref();
        if let Some(at) = managed.and_then(|managed| managed.manager.timeout()) {
            self.schedule_source(owner, at.max(self.now + Duration::from_nanos(1)));
        }
    }

    /// Sends a packet of data through a relay whose path isn't open; an empty one if there is no
    /// data.
    fn probe(&mut self, index: u32) {
        let subflow = &mut self.subflows[index as usize];
        let owner = subflow.source as usize;
        let source = &mut self.sources[owner];
        let Some(relay) = &mut subflow.relay else {
            return;
        };
        let data = source.is_hungry();
        source.backlog -= u64::from(data);
        let number = relay.probes_sent();
        relay.probes.push(Probe {
            sent: self.now,
            data,
            fate: Fate::Waiting,
        });
        let bytes = self.flows[owner].sender.packet_size;
        self.sending(index).launch(number, bytes);
    }

    fn give_up_probe(&mut self, index: u32) {
        let subflow = &mut self.subflows[index as usize];
        let last = subflow
            .relay
            .as_mut()
            .and_then(|relay| relay.probes.last_mut());
        let Some(probe) = last.filter(|probe| probe.fate == Fate::Waiting) else {
            return;
        };
        probe.fate = Fate::GivenUp;
        self.sources[subflow.source as usize].on_lost(u64::from(probe.data));
    }

    /// Packets were acknowledged on a path that has never been open: probes.
    #[cold]
    pub(super) fn on_probe_answer(&mut self, index: u32, ranges: &[RangeInclusive<u64>]) {
        let now = self.now;
        let subflow = &mut self.subflows[index as usize];
        let owner = subflow.source as usize;
        let source = &mut self.sources[owner];
        let Some(relay) = &mut subflow.relay else {
            return;
        };
        let mut in_time = None;
        for (number, probe) in (0_u64..).zip(&mut relay.probes) {
            if !ranges.iter().any(|range| range.contains(&number)) {
                continue;
            }
            let data = u64::from(probe.data);
            let before = probe.fate;
            probe.fate = match before {
                Fate::Waiting | Fate::Acknowledged => Fate::Acknowledged,
                Fate::GivenUp | Fate::Late => Fate::Late,
            };
            let delivered = match before {
                Fate::Waiting => {
                    in_time = Some(now.since(probe.sent));
                    source.on_acked(now, data)
                }
                // Of an endless flow, what has been sent again counts.
                Fate::GivenUp if source.finite => source.on_acked_late(now, data),
                Fate::GivenUp | Fate::Late | Fate::Acknowledged => 0,
            };
            subflow.meter.delivered(delivered);
        }
        relay.rtt = in_time.or(relay.rtt);
        if source.finished == Some(now) {
            self.end_meters(owner);
        } else if let (Some(_), Some(managed)) = (in_time, &mut source.managed) {
            let relay = RelayKey(u64::from(index - source.subflows.start));
            managed.manager.handle(now, Event::Answered(relay));
            self.manage(owner, None, None);
        }
    }
}

fn path_of(number: u32) -> PathKey {
    match number {
        0 => PathKey::Direct,
        _ => PathKey::Via(RelayKey(u64::from(number))),
    }
}

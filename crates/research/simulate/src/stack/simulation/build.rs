//! From an experiment to a world of sessions that hasn't begun.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use manyway_network::LinkConfig;
use manyway_scenario::{Experiment, Flow};
use manyway_session::{Config, Observers, Secrets};
use manyway_units::Time;
use manyway_wire::{DATA_HEADER_LEN, DataHeader, Frame, StreamId, TAG_LEN};
use rand::SeedableRng;
use rand::rngs::ChaCha20Rng;

use super::flow::{Running, Subflow, Way};
use super::registry::Registry;
use super::{Simulation, StackError};
use crate::draw::{Drawn, draw};
use crate::events::mix;
use crate::histogram::Durations;
use crate::packet::SimulationError;
use crate::packet::build::check;
use crate::packet::recorder::Recorder;
use crate::stack::faults::End;
use crate::stack::files::Files;
use crate::stack::host::SessionHost;
use crate::stack::node::Node;
use crate::stack::relay::RelayHost;
use crate::stack::traffic::{FileTraffic, Pace, Source, TrafficConfig};
use crate::trace::Tap;
use crate::{LinkId, Route, World};

/// What has to be done to flows, in order of time.
#[derive(Debug)]
pub(super) struct Agenda {
    /// The next one last.
    actions: Vec<(Time, Action)>,
}

/// Something to be done; flows and subflows by number.
#[derive(Debug, Copy, Clone)]
pub(super) enum Action {
    /// A subflow joins: the client has a socket more. With the first one it connects.
    Join(usize),
    /// A subflow leaves: its socket goes.
    Leave(usize),
    /// A flow stops.
    Stop(usize),
}

impl Agenda {
    fn new(mut actions: Vec<(Time, Action)>) -> Self {
        actions.sort_by_key(|(at, _)| *at);
        actions.reverse();
        Self { actions }
    }

    pub(super) fn next(&self) -> Option<Time> {
        self.actions.last().map(|(at, _)| *at)
    }

    pub(super) fn due(&mut self, now: Time) -> Option<Action> {
        let (_, action) = self.actions.pop_if(|(at, _)| *at <= now)?;
        Some(action)
    }
}

impl Simulation {
    /// A run of `experiment` that draws all its randomness from `seed`. What sessions have no
    /// setting for isn't looked at: [`Scenario::session_points`] refuses it.
    ///
    /// # Errors
    /// A link, a path or a flow that can't be.
    ///
    /// [`Scenario::session_points`]: manyway_scenario::Scenario::session_points
    pub fn new(experiment: &Experiment, seed: u64) -> Result<Self, StackError> {
        Self::with_observers(experiment, seed, &|_, _| None)
    }

    /// [`Simulation::new`], with `observers` for the packets of each flow's ends; flows by their
    /// index.
    ///
    /// # Errors
    /// As of [`Simulation::new`].
    pub fn with_observers(
        experiment: &Experiment,
        seed: u64,
        observers: &dyn Fn(usize, End) -> Option<Observers>,
    ) -> Result<Self, StackError> {
        check(experiment)?;
        let mut builder = Builder {
            experiment,
            seed,
            observers,
            world: World::new(seed),
            links: Vec::new(),
            addresses: 0,
            subflows: Vec::new(),
            actions: Vec::new(),
            routes: Vec::new(),
        };
        for link in &experiment.topology.links {
            let link = builder.link(&link.name, &link.config)?;
            builder.links.push(link);
        }
        let mut flows = Vec::new();
        let drawn = draw(experiment, seed);
        for ((index, flow), drawn) in experiment.flows.iter().enumerate().zip(drawn) {
            flows.push(builder.flow(index, flow, drawn)?);
        }
        if let Some(tap) = Tap::measuring(experiment) {
            builder.world.set_tap(tap, &builder.routes, number);
        }
        Ok(Self {
            seed,
            end: Time::ZERO + experiment.duration,
            world: builder.world,
            agenda: Agenda::new(builder.actions),
            flows,
            subflows: builder.subflows,
            routes: builder.routes,
            scenario: experiment.flows.clone(),
            recorder: Recorder::new(experiment),
        })
    }
}

struct Builder<'a> {
    experiment: &'a Experiment,
    seed: u64,
    observers: &'a dyn Fn(usize, End) -> Option<Observers>,
    world: World<Node>,
    /// The topology's.
    links: Vec<LinkId>,
    /// Addresses given out so far.
    addresses: u32,
    subflows: Vec<Subflow>,
    actions: Vec<(Time, Action)>,
    /// The ends of the routes over links: twice the number of the subflow, plus one on the way
    /// back.
    routes: Vec<((SocketAddr, SocketAddr), u32)>,
}

impl Builder<'_> {
    fn link(&mut self, name: &str, config: &LinkConfig) -> Result<LinkId, StackError> {
        let link = self.world.add_link(config.clone());
        link.map_err(|error| {
            let name = name.to_owned();
            SimulationError::Link { name, error }.into()
        })
    }

    fn address(&mut self) -> SocketAddr {
        self.addresses += 1;
        let host = u32::from(Ipv4Addr::new(10, 0, 0, 0)) + self.addresses;
        (Ipv4Addr::from(host), 4433).into()
    }

    fn flow(&mut self, index: usize, flow: &Flow, drawn: Drawn) -> Result<Running, StackError> {
        let Drawn { start, size, .. } = drawn;
        let refuse = |problem: String| StackError::Session {
            name: flow.name.clone(),
            problem,
        };
        let config = config(flow, self.experiment.duration);
        let files = flow.session.files.zip(size);
        let files = files.map(|(count, bytes)| Files { count, bytes });
        let traffic = TrafficConfig {
            sources: match files {
                Some(_) => Vec::new(),
                None => vec![Source { bytes: size }],
            },
            files: files.map(FileTraffic::Send),
            pace: flow.rate.map(|rate| Pace {
                rate,
                piece: payload_bytes(&config),
            }),
            ..TrafficConfig::default()
        };
        let seed = mix(self.seed ^ mix(index as u64 ^ 0x7365_7373_696f_6e73));
        let mut host = |end, seed: u64, traffic| {
            let config = Config {
                observers: (self.observers)(index, end),
                ..config.clone()
            };
            let host = SessionHost::sealing(config, mix(seed), traffic, flow.session.sealing);
            host.map(|host| self.world.add_host(Node::Session(host)))
                .map_err(|error| refuse(error.to_string()))
        };
        let client = host(End::Client, seed ^ 1, traffic)?;
        let reading = TrafficConfig {
            files: files.map(|_| FileTraffic::Receive),
            ..TrafficConfig::default()
        };
        let server = host(End::Server, seed ^ 2, reading)?;
        let far = self.address();
        let socket = self.world.add_socket(server, far);
        let listening = self.world.host_mut(server).session_mut();
        listening.add_local(Time::ZERO, socket, "server", far, None);
        let secrets = Secrets::generate(&mut ChaCha20Rng::seed_from_u64(mix(seed ^ 3)));
        let ticket = secrets.ticket(vec![far]);
        listening.listen(secrets);

        let first = self.subflows.len();
        let mut registry = Registry::new(flow, mix(seed ^ 4));
        let mut direct = None;
        for path in 0..flow.paths.len() {
            let lifetime = flow.lifetimes.get(path).copied().unwrap_or_default();
            let joins = lifetime.from.max(start);
            let name = self.experiment.topology.paths[flow.paths[path]]
                .name
                .clone();
            let way = match direct {
                Some(near) if flow.session.relayed.contains(&path) => {
                    let at = self.relayed(flow, path, [near, far])?;
                    let mut relay = RelayHost::new(mix(seed ^ (path as u64) << 8));
                    registry.add(joins, relay.access(at));
                    let relay = self.world.add_host(Node::Relay(relay));
                    self.world.add_socket(relay, at);
                    Way::Relay(at)
                }
                _ => {
                    let near = self.address();
                    direct.get_or_insert(near);
                    self.routes(flow, path, [near, far])?;
                    let number = self.subflows.len();
                    self.actions.push((joins, Action::Join(number)));
                    if let Some(until) = lifetime.until {
                        self.actions.push((until, Action::Leave(number)));
                    }
                    Way::Direct(near, self.world.add_socket(client, near))
                }
            };
            let rtts = Durations::of_rtts(&self.experiment.measure);
            self.subflows.push(Subflow::new(index, name, way, rtts));
        }
        if let Some(stop) = flow.stop {
            self.actions.push((stop, Action::Stop(index)));
        }
        let subflows = first..self.subflows.len();
        let hosts = (client, server);
        let running = Running::new(flow, hosts, ticket, &drawn, registry);
        if let Some(repeats) = drawn.next {
            let client = self.world.host_mut(client).session_mut();
            client.traffic_mut().repeat(repeats);
        }
        Ok(running.with_subflows(&self.subflows, subflows))
    }

    /// The ways of a path's packets, there and back.
    fn routes(
        &mut self,
        flow: &Flow,
        path: usize,
        [near, far]: [SocketAddr; 2],
    ) -> Result<(), StackError> {
        let path = &self.experiment.topology.paths[flow.paths[path]];
        let mut there = Vec::new();
        if let Some(access) = &flow.access {
            there.push(self.link(&format!("{}: access", flow.name), access)?);
        }
        there.extend(path.links.iter().map(|&link| self.links[link]));
        let there = Route {
            links: there,
            jitter: flow.jitter,
            delay: flow.extra_delay,
            class: flow.class,
            ..Route::default()
        };
        let back = Route {
            links: path.reverse.iter().map(|&link| self.links[link]).collect(),
            delay: path.return_delay + flow.extra_return,
            class: flow.class,
            ..Route::default()
        };
        self.world.add_route(near, far, there);
        self.world.add_route(far, near, back);
        let number = 2 * self.subflows.len() as u32;
        self.routes.push(((near, far), number));
        self.routes.push(((far, near), number + 1));
        Ok(())
    }

    /// The address of a relay on a path, behind all its links, next to the far end.
    fn relayed(
        &mut self,
        flow: &Flow,
        path: usize,
        [near, far]: [SocketAddr; 2],
    ) -> Result<SocketAddr, StackError> {
        let at = self.address();
        self.routes(flow, path, [near, at])?;
        self.world.add_route(at, far, Route::default());
        self.world.add_route(far, at, Route::default());
        Ok(at)
    }
}

/// The low 32 bits of a sealed packet's number.
pub(super) fn number(datagram: &[u8]) -> Option<u64> {
    let header = DataHeader::decode(datagram).ok()?;
    Some(header.pn_low.into())
}

/// What both ends of a flow's connection run with; everything else is a session's default.
fn config(flow: &Flow, duration: Duration) -> Config {
    let defaults = Config::default();
    let header = World::<Node>::HEADER_BYTES;
    let datagram = flow.sender.packet_size.saturating_sub(header) as usize;
    Config {
        max_datagram: datagram,
        // Known here: nothing to look for.
        initial_datagram: datagram,
        cc: flow.law.clone(),
        scheduler: flow.session.scheduler,
        receive_window: flow
            .session
            .receive_buffer
            .unwrap_or(defaults.receive_window),
        slow_start: flow.options.slow_start,
        pacing: flow.sender.pacing,
        ecn: flow.ecn,
        ack_every: flow.ack.every,
        ack_delay: flow.ack.max_delay,
        max_paths: defaults.max_paths.max(flow.paths.len() as u32),
        // A flow ends when the scenario says so.
        idle_timeout: defaults.idle_timeout.max(2 * duration),
        connect_timeout: defaults.connect_timeout.max(2 * duration),
        ..defaults
    }
}

/// Stream bytes in a full packet.
fn payload_bytes(config: &Config) -> u64 {
    let frame = Frame::Stream {
        stream: StreamId(0),
        offset: 1 << 29,
        fin: false,
        data: &[0; 1000],
    };
    let header = frame.encoded_len() - 1000 + DATA_HEADER_LEN + TAG_LEN;
    config.max_datagram.saturating_sub(header).max(1) as u64
}

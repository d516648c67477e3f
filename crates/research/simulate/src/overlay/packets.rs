//! The overlay paper's controller over simulated TCP connections (section 5.1, "Simulation
//! results").
//!
//! A path is one TCP connection over its relay's link: the first hop is taken to be fast, and to
//! pass back-pressure on at once. The application puts whole packets into the connections' sockets
//! while they have room, as fast as its token buckets allow; what has arrived is what has been
//! acknowledged, as a receiver tells it half a round trip later. Each source measures and decides
//! in its own time: control intervals have the same length and don't begin together.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use manyway_control::rate_control::{RateConfig, RateController, RoundRobin};
use manyway_network::{LinkConfig, NamedLink, PathSpec, Queue, Topology};
use manyway_scenario::{Experiment, Flow, Measure, OverlayExperiment, OverlayNetwork, file};
use manyway_units::{Bucket, Rate, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::{OverlayError, Setting, tolerating};
use crate::events::mix;
use crate::flow::{InvalidFlows, controller_seed};
use crate::packet::Simulation;

/// δ of the paper's simulation: "to account for network delays and measurement noises".
const TOLERANCE: f64 = 0.03;

/// Sources over TCP connections.
pub(super) struct PacketRun {
    simulation: Simulation<'static>,
    sources: Vec<Source>,
    /// When which source looks after its sockets next.
    turns: BinaryHeap<Reverse<(Time, usize)>>,
    socket: Socket,
    /// The time of a packet at the largest demand: applications look that often.
    look: Duration,
    interval: Duration,
    intervals: usize,
    /// Intervals before the first one that is recorded.
    before: usize,
    /// All demands, bits/s.
    demand: f64,
}

/// What all connections have in common.
#[derive(Copy, Clone)]
struct Socket {
    /// Bits of a packet.
    packet: f64,
    /// Packets that may wait in it.
    buffer: u64,
}

/// A source's application.
struct Source {
    /// Its connections.
    flows: Range<usize>,
    demand: f64,
    sending: Sending,
    /// When its current interval ends.
    ends: Time,
    /// Packets acknowledged on each connection when it began.
    counted: Vec<u64>,
    /// Constants and seed of its controller.
    config: RateConfig,
    seed: u64,
}

/// How a source spreads its data over its connections.
enum Sending {
    /// The maxmin procedure: each packet to the next connection in turn that takes it.
    Filling {
        cycle: RoundRobin,
        bucket: Bucket,
        /// How long it goes on, intervals.
        left: usize,
        /// The last so many intervals count, and what has arrived in those, bits.
        counts: usize,
        arrived: Vec<f64>,
    },
    /// A bucket for each connection.
    Controlled {
        controller: RateController,
        buckets: Vec<Bucket>,
    },
}

impl PacketRun {
    pub(super) fn new(
        experiment: &OverlayExperiment,
        network: &OverlayNetwork,
        setting: &Setting,
        seed: u64,
    ) -> Result<Self, OverlayError> {
        let packet = f64::from(network.connection.sender.packet_size) * 8.0;
        let socket = Socket {
            packet,
            buffer: u64::from(network.send_buffer),
        };
        let most = setting.overlay.demands.iter().copied().fold(1.0, f64::max);
        let look = Duration::from_secs_f64(packet / most)
            .clamp(Duration::from_micros(1), network.interval);
        let fill = match experiment.start {
            file::Start::Zero => 0,
            file::Start::MaxMin => network.fill_intervals,
        };
        let config = tolerating(experiment, TOLERANCE);
        let mut rng = Pcg64Mcg::seed_from_u64(mix(seed ^ 0x6f66_6673_6574));
        let (mut sources, mut turns) = (Vec::new(), BinaryHeap::new());
        let mut first = 0;
        for (index, relays) in setting.selection.iter().enumerate() {
            let span = network.interval.as_nanos() as u64;
            let begins = Time::from_nanos(rng.random_range(0..span));
            let source = Source::new(
                (first..first + relays.len(), setting.overlay.demands[index]),
                (config, controller_seed(seed, index)),
                (begins, network.interval, fill),
                socket,
            )?;
            first = source.flows.end;
            sources.push(source);
            turns.push(Reverse((begins, index)));
        }
        Ok(PacketRun {
            simulation: Simulation::with_empty_sockets(
                &connections(experiment, network, setting),
                seed,
            )?,
            sources,
            turns,
            socket,
            look,
            interval: network.interval,
            intervals: experiment.intervals,
            before: fill,
            demand: setting.overlay.demand(),
        })
    }

    /// The normalised aggregate source rate in each interval, by what was acknowledged; `None` if
    /// it was stopped.
    pub(super) fn series(
        &mut self,
        stop: &AtomicBool,
        mut progress: impl FnMut(f64),
    ) -> Result<Option<Vec<f64>>, OverlayError> {
        let all = self.before + self.intervals;
        let whole = self.demand * self.interval.as_secs_f64();
        let mut series = Vec::with_capacity(self.intervals);
        let mut before = 0;
        for interval in 0..all {
            if stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let end = Time::ZERO + self.interval * (interval as u32 + 1);
            if !self.run_until(end, stop)? {
                return Ok(None);
            }
            let acknowledged: u64 = (0..self.connections())
                .map(|flow| self.simulation.acknowledged(flow))
                .sum();
            if interval >= self.before {
                series.push((acknowledged - before) as f64 * self.socket.packet / whole);
            }
            before = acknowledged;
            progress(interval as f64 / all as f64);
        }
        Ok(Some(series))
    }

    fn connections(&self) -> usize {
        self.sources.last().map_or(0, |source| source.flows.end)
    }

    /// Lets every source look after its sockets whenever it is its turn; false if it was stopped.
    fn run_until(&mut self, end: Time, stop: &AtomicBool) -> Result<bool, OverlayError> {
        while let Some(&Reverse((at, index))) = self.turns.peek() {
            if at > end {
                break;
            }
            self.turns.pop();
            if !self.simulation.advance(at, stop) {
                return Ok(false);
            }
            let source = &mut self.sources[index];
            if at >= source.ends {
                source.turn_over(at, self.interval, self.socket, &mut self.simulation)?;
            }
            source.write(at, self.socket, &mut self.simulation);
            self.turns.push(Reverse((at + self.look, index)));
        }
        Ok(self.simulation.advance(end, stop))
    }
}

impl Source {
    /// Of connections and a demand, with a controller's constants and seed; it begins at some time
    /// with so many intervals of the maxmin procedure.
    fn new(
        (flows, demand): (Range<usize>, f64),
        (config, seed): (RateConfig, u64),
        (begins, interval, fill): (Time, Duration, usize),
        socket: Socket,
    ) -> Result<Self, OverlayError> {
        let paths = flows.len();
        let mut source = Source {
            flows,
            demand,
            sending: Sending::Filling {
                cycle: RoundRobin::default(),
                bucket: Bucket::new(demand, socket.depth(), begins),
                left: fill,
                counts: fill.div_ceil(2),
                arrived: vec![0.0; paths],
            },
            ends: begins + interval,
            counted: vec![0; paths],
            config,
            seed,
        };
        if fill == 0 {
            source.control(begins, &vec![0.0; paths], socket)?;
        }
        Ok(source)
    }

    /// The controller takes over, with rates to begin with.
    fn control(&mut self, now: Time, initial: &[f64], socket: Socket) -> Result<(), OverlayError> {
        let total: f64 = initial.iter().sum();
        // What was counted in whole packets may be a little more than was sent.
        let scale = if total > self.demand {
            self.demand / total
        } else {
            1.0
        };
        let initial: Vec<f64> = initial.iter().map(|rate| rate * scale).collect();
        let mut controller = RateController::new(self.config, self.demand, &initial, self.seed)
            .map_err(InvalidFlows::from)?;
        controller.advance(&[]);
        let bucket = |rate| Bucket::new(rate, socket.depth(), now);
        let buckets = controller.rates().map(bucket).collect();
        self.sending = Sending::Controlled {
            controller,
            buckets,
        };
        Ok(())
    }

    /// A control interval ends, and the next one begins.
    fn turn_over(
        &mut self,
        now: Time,
        interval: Duration,
        socket: Socket,
        simulation: &mut Simulation<'_>,
    ) -> Result<(), OverlayError> {
        let length = now.since(self.ends) + interval;
        self.ends = now + interval;
        let acknowledged: Vec<u64> = self
            .flows
            .clone()
            .map(|flow| simulation.acknowledged(flow))
            .collect();
        let bits = acknowledged
            .iter()
            .zip(&self.counted)
            .map(|(now, before)| (now - before) as f64 * socket.packet);
        let bits: Vec<f64> = bits.collect();
        self.counted = acknowledged;
        match &mut self.sending {
            Sending::Filling {
                left,
                counts,
                arrived,
                ..
            } => {
                if left <= counts {
                    arrived
                        .iter_mut()
                        .zip(&bits)
                        .for_each(|(sum, bits)| *sum += bits);
                }
                *left -= 1;
                if *left == 0 {
                    let time = *counts as f64 * interval.as_secs_f64();
                    let initial: Vec<f64> = arrived.iter().map(|bits| bits / time).collect();
                    self.control(now, &initial, socket)?;
                }
            }
            Sending::Controlled {
                controller,
                buckets,
            } => {
                let measured: Vec<f64> = bits
                    .iter()
                    .map(|bits| bits / length.as_secs_f64())
                    .collect();
                controller.advance(&measured);
                for (bucket, rate) in buckets.iter_mut().zip(controller.rates()) {
                    bucket.set_rate(now, rate);
                }
            }
        }
        Ok(())
    }

    /// Puts what may be sent by now into sockets with room.
    fn write(&mut self, now: Time, socket: Socket, simulation: &mut Simulation<'_>) {
        let first = self.flows.start;
        match &mut self.sending {
            Sending::Filling { cycle, bucket, .. } => {
                while bucket.permit(now, socket.packet).is_ok() {
                    let writable = |path| simulation.unsent(first + path) < socket.buffer;
                    let Some(path) = cycle.next(self.flows.len(), writable) else {
                        return;
                    };
                    bucket.spend(now, socket.packet);
                    simulation.write(first + path, 1);
                }
            }
            Sending::Controlled { buckets, .. } => {
                for (flow, bucket) in self.flows.clone().zip(buckets) {
                    while simulation.unsent(flow) < socket.buffer
                        && bucket.permit(now, socket.packet).is_ok()
                    {
                        bucket.spend(now, socket.packet);
                        simulation.write(flow, 1);
                    }
                }
            }
        }
    }
}

impl Socket {
    /// What a token bucket holds, bits.
    fn depth(self) -> f64 {
        self.buffer as f64 * self.packet
    }
}

/// The network: a link and a path for each relay, a connection for each path of a source.
fn connections(
    experiment: &OverlayExperiment,
    network: &OverlayNetwork,
    setting: &Setting,
) -> Experiment {
    let delay = network.rtt / 2;
    let link = |(relay, &bandwidth): (usize, &f64)| NamedLink {
        name: format!("relay-{}", relay + 1),
        config: LinkConfig {
            queue: Queue::DropTail(network.queue),
            ..LinkConfig::new(Rate::from_bits_per_sec(bandwidth), delay)
        },
    };
    let path = |relay: usize| PathSpec {
        name: format!("relay-{}", relay + 1),
        links: vec![relay],
        reverse: Vec::new(),
        return_delay: network.rtt - delay,
    };
    let relays = &setting.overlay.relays;
    let connection = |(source, &relay): (usize, &usize)| Flow {
        name: format!("source-{}", source + 1),
        paths: vec![relay],
        ..network.connection.clone()
    };
    let sources = setting.selection.iter().enumerate();
    let each = sources.flat_map(|(source, relays)| relays.iter().map(move |relay| (source, relay)));
    let duration = network.interval * (experiment.intervals + network.fill_intervals + 1) as u32;
    Experiment {
        name: experiment.name.clone(),
        topology: Topology {
            links: relays.iter().enumerate().map(link).collect(),
            paths: (0..relays.len()).map(path).collect(),
        },
        flows: each.map(connection).collect(),
        groups: Vec::new(),
        duration,
        measure: Measure {
            from: Time::ZERO,
            until: Time::ZERO + duration,
            spans: Vec::new(),
            interval: duration,
            series: Vec::new(),
            percentiles: Default::default(),
        },
    }
}

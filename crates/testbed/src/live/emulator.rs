//! A whole network in real time: TUN devices at the ends of its ways, and a thread for each part of
//! it that shares no link with the others.

use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use manyway_network::{Link, LinkConfig, Packet};
use manyway_units::Time;

use super::delays::Delays;
use super::log::Log;
use super::os;
use super::packet;
use super::plan::{Direction, Plan};
use super::reading::{LinkReading, PartReport, Reading, SubflowReading};
use crate::traffic::Traffic;

/// How soon a thread without packets notices that it has to stop.
const POLL: Duration = Duration::from_millis(50);
/// Packets read from a device before it is looked whether others have to leave.
const BATCH: usize = 32;
/// Larger than any packet of a TUN device.
const PACKET: usize = 1 << 16;

/// Devices of a plan's ways: the sender's and the receiver's.
pub(crate) type Devices = Vec<[Arc<File>; 2]>;

/// The network at work.
#[derive(Debug)]
pub struct Emulator {
    origin: Instant,
    stop: Arc<AtomicBool>,
    parts: Vec<Part>,
    named: usize,
    subflows: usize,
}

#[derive(Debug)]
struct Part {
    /// Which of the plan's links its own are.
    links: Vec<usize>,
    state: Arc<Mutex<State>>,
    thread: Option<JoinHandle<io::Result<bool>>>,
}

#[derive(Debug)]
struct State {
    traffic: Traffic<Cargo>,
    subflows: Vec<SubflowReading>,
    late: Delays,
    refused: u64,
    log: Option<Log>,
}

#[derive(Debug)]
struct Cargo {
    packet: Box<[u8]>,
    /// Index of the device that it leaves by.
    exit: usize,
    owner: Option<Owner>,
}

#[derive(Debug, Copy, Clone)]
struct Owner {
    subflow: usize,
    /// Of the way: 0 from the sender, 1 back.
    direction: usize,
    payload: u32,
    entered: Time,
}

/// A device that a part reads, and where its packets go.
struct Entry {
    device: Arc<File>,
    exit: Arc<File>,
    direction: usize,
    /// By indices of the part's links.
    routes: Direction,
}

impl Emulator {
    /// Starts: the links' time, and so their timetables, begin now. `log` is told of what enters
    /// the first link's part.
    ///
    /// # Errors
    /// If a link can't work, or a thread can't start.
    pub(crate) fn start(
        plan: &Plan,
        devices: &Devices,
        seed: u64,
        log: Option<Box<dyn Write + Send>>,
    ) -> io::Result<Self> {
        let epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let epoch = epoch.unwrap_or_default().as_secs_f64();
        let mut log = log.map(|out| Log::new(out, epoch)).transpose()?;
        let mut emulator = Self {
            origin: Instant::now(),
            stop: Arc::default(),
            parts: Vec::new(),
            named: plan.named,
            subflows: plan.subflows,
        };
        for links in plan.parts() {
            let part = emulator.part(plan, devices, links, seed, log.take())?;
            emulator.parts.push(part);
        }
        Ok(emulator)
    }

    fn part(
        &self,
        plan: &Plan,
        devices: &Devices,
        links: Vec<usize>,
        seed: u64,
        log: Option<Log>,
    ) -> io::Result<Part> {
        let within = |link: &usize| links.binary_search(link).ok();
        let route =
            |route: &Arc<[usize]>| route.iter().filter_map(within).collect::<Arc<[usize]>>();
        let mut entries = Vec::new();
        for (way, ends) in plan.ways.iter().zip(devices) {
            for (direction, routes) in way.directions.iter().enumerate() {
                if within(&routes.other[0]).is_none() {
                    continue;
                }
                let flows = routes.flows.iter();
                entries.push(Entry {
                    device: ends[direction].clone(),
                    exit: ends[1 - direction].clone(),
                    direction,
                    routes: Direction {
                        other: route(&routes.other),
                        flows: flows
                            .map(|(port, (way, subflow))| (*port, (route(way), *subflow)))
                            .collect(),
                    },
                });
            }
        }
        let models = links.iter().map(|&link| {
            let config = LinkConfig {
                seed: seed_of(seed, link),
                ..plan.links[link].clone()
            };
            Link::new(config).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
        });
        let state = Arc::new(Mutex::new(State {
            traffic: Traffic::new(models.collect::<io::Result<_>>()?),
            subflows: vec![SubflowReading::default(); plan.subflows],
            late: Delays::default(),
            refused: 0,
            log,
        }));
        let (stop, origin, shared) = (self.stop.clone(), self.origin, state.clone());
        let thread = std::thread::Builder::new().name("links".to_owned());
        let thread = thread.spawn(move || carry(&entries, &shared, origin, &stop))?;
        Ok(Part {
            links,
            state,
            thread: Some(thread),
        })
    }

    /// The network's time.
    pub fn now(&self) -> Time {
        Time::ZERO + self.origin.elapsed()
    }

    /// What all of it looks like now.
    pub fn read(&self) -> Reading {
        let mut reading = Reading {
            at: self.now(),
            links: vec![LinkReading::default(); self.named],
            subflows: vec![SubflowReading::default(); self.subflows],
        };
        for part in &self.parts {
            let mut state = lock(&part.state);
            let now = self.now();
            for (within, &link) in part.links.iter().enumerate() {
                if let Some(place) = reading.links.get_mut(link)
                    && let Some(link) = state.traffic.link_mut(within)
                {
                    *place = LinkReading {
                        carried: link.carried_bytes(now),
                        backlog: link.backlog_packets(now),
                        stats: link.stats_at(now),
                    };
                }
            }
            let mut own = state.subflows.clone();
            // Neither lost nor there.
            for owner in state.traffic.under_way().filter_map(|cargo| cargo.owner) {
                if owner.direction == 0 {
                    own[owner.subflow].lost = own[owner.subflow].lost.saturating_sub(1);
                }
            }
            for (sum, own) in reading.subflows.iter_mut().zip(&own) {
                sum.sent += own.sent;
                sum.lost += own.lost;
                sum.payload += own.payload;
                for (sum, own) in sum.transit.iter_mut().zip(own.transit) {
                    *sum = (sum.0 + own.0, sum.1 + own.1);
                }
            }
        }
        reading
    }

    /// Whether a part has ended by itself: a device is gone, or something failed.
    pub fn has_ended(&self) -> bool {
        let mut threads = self.parts.iter().filter_map(|part| part.thread.as_ref());
        threads.any(JoinHandle::is_finished)
    }

    /// Stops it: how each part was, that with the first link first. A device that is gone is no
    /// error.
    ///
    /// # Errors
    /// If a device or the log failed.
    pub fn stop(mut self) -> io::Result<Vec<PartReport>> {
        self.stop.store(true, Ordering::Relaxed);
        let mut reports = Vec::new();
        for part in &mut self.parts {
            let thread = part.thread.take().map(JoinHandle::join);
            let ended = thread.unwrap_or(Ok(Ok(true)));
            let real_time = ended.map_err(|_| io::Error::other("a thread panicked"))??;
            let mut state = lock(&part.state);
            if let Some(log) = &mut state.log {
                log.finish()?;
            }
            reports.push(PartReport {
                late: state.late.clone(),
                refused: state.refused,
                real_time,
            });
        }
        Ok(reports)
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Links of one run, and runs of one link, draw apart.
pub(crate) fn seed_of(seed: u64, link: usize) -> u64 {
    seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (link as u64 + 1).wrapping_mul(0xd1b5_4a32_d192_ed03)
}

/// What fair queues tell flows apart by: the ports, and the device that a packet enters by.
fn flow_of(device: usize, ports: Option<[u16; 2]>) -> u32 {
    let [from, to] = ports.unwrap_or_default().map(u32::from);
    (from << 16 | to) ^ (device as u32).wrapping_mul(0x9e37_79b9)
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes packets from device to device until it is to stop or a device is gone; whether it had real
/// time.
fn carry(
    entries: &[Entry],
    state: &Mutex<State>,
    origin: Instant,
    stop: &AtomicBool,
) -> io::Result<bool> {
    let real_time = os::real_time();
    let now = || Time::ZERO + origin.elapsed();
    let devices: Vec<&File> = entries.iter().map(|entry| &*entry.device).collect();
    let mut ready = vec![true; entries.len()];
    let mut buffer = vec![0; PACKET];
    while !stop.load(Ordering::Relaxed) {
        let mut here = lock(state);
        while let Some((exit, packet)) = here.leave(now()) {
            match (&*entries[exit].exit).write(&packet) {
                Ok(_) => {}
                Err(error) if os::is_gone(&error) => return Ok(real_time),
                Err(_) => here.refused += 1,
            }
        }
        let mut read = false;
        for (index, entry) in entries
            .iter()
            .enumerate()
            .filter(|(index, _)| ready[*index])
        {
            for _ in 0..BATCH {
                match (&*entry.device).read(&mut buffer) {
                    Ok(len) => here.enter(
                        now(),
                        (index, entry.direction, &entry.routes),
                        &buffer[..len],
                    )?,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) if os::is_gone(&error) => return Ok(real_time),
                    Err(error) => return Err(error),
                }
                read = true;
            }
        }
        let next = here.traffic.next_due();
        drop(here);
        let wait = match (read, next) {
            // Others may have come meanwhile.
            (true, _) => Duration::ZERO,
            (false, Some(next)) => next.since(now()).min(POLL),
            (false, None) => POLL,
        };
        if !read || entries.len() > 1 {
            os::wait(&devices, wait, &mut ready)?;
        }
    }
    Ok(real_time)
}

impl State {
    /// A packet enters.
    ///
    /// # Errors
    /// If the log can't be written.
    fn enter(
        &mut self,
        now: Time,
        (index, direction, routes): (usize, usize, &Direction),
        bytes: &[u8],
    ) -> io::Result<()> {
        // Data has the receiver's port behind it, what comes back in front.
        let segment = packet::Segment::of(bytes);
        let port = segment.map(|segment| segment.ports[1 - direction]);
        let flow = port.and_then(|port| routes.flows.get(&port));
        let (route, owner) = match (flow, segment) {
            (Some((route, subflow)), Some(segment)) => {
                let owner = Owner {
                    subflow: *subflow,
                    direction,
                    payload: segment.payload,
                    entered: now,
                };
                if direction == 0 {
                    let counts = &mut self.subflows[*subflow];
                    counts.sent += 1;
                    // Until it comes out.
                    counts.lost += 1;
                }
                (route, Some(owner))
            }
            _ => (&routes.other, None),
        };
        let size = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let cargo = Cargo {
            packet: bytes.into(),
            exit: index,
            owner,
        };
        let packet = Packet {
            flow: flow_of(index, segment.map(|segment| segment.ports)),
            ..Packet::new(size)
        };
        let verdict = self.traffic.offer(now, route, packet, cargo);
        match &mut self.log {
            Some(log) => log.add(now, size, verdict),
            None => Ok(()),
        }
    }

    /// A packet that has to leave by `now`, and the entry whose exit it takes.
    fn leave(&mut self, now: Time) -> Option<(usize, Box<[u8]>)> {
        let (due, cargo) = self.traffic.take(now)?;
        self.late.add(now.since(due));
        if let Some(owner) = cargo.owner {
            let counts = &mut self.subflows[owner.subflow];
            let (sum, number) = &mut counts.transit[owner.direction];
            *sum += now.since(owner.entered).as_secs_f64();
            *number += 1;
            if owner.direction == 0 {
                counts.lost -= 1;
                counts.payload += u64::from(owner.payload);
            }
        }
        Some((cargo.exit, cargo.packet))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use manyway_network::{Change, Late, Limit, LinkStats, Loss, Queue, Timetable, Verdict};
    use manyway_units::Rate;

    use super::*;

    /// 20 Mbps, 10 ms, 20 kB of queue, and all that a link can do to a packet.
    fn config() -> LinkConfig {
        LinkConfig {
            queue: Queue::DropTail(Limit::Bytes(20_000)),
            loss: Loss::Bernoulli(0.05),
            jitter: Duration::from_millis(7),
            overtaking: true,
            late: Late {
                share: 0.02,
                by: Duration::from_millis(20),
            },
            timetable: Timetable {
                changes: vec![Change {
                    at: Time::from_millis(300),
                    rate: Some(Rate::from_mbps(5.0)),
                    ..Change::default()
                }],
                period: None,
            },
            seed: 7,
            ..LinkConfig::new(Rate::from_mbps(20.0), Duration::from_millis(10))
        }
    }

    /// Bursts of packets of several sizes, by a small generator: when, and what.
    fn offered() -> Vec<(Time, Vec<u8>)> {
        let mut state = 1_u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
            (state >> 33) % below
        };
        let mut now = 0;
        (0..2000_u32)
            .map(|number| {
                now += [0, 0, 100, 900][draw(4) as usize] * draw(1000);
                let mut packet = vec![0; 40 + draw(1460) as usize];
                packet[..4].copy_from_slice(&number.to_be_bytes());
                (Time::from_nanos(now), packet)
            })
            .collect()
    }

    /// What the simulator does: each packet that isn't dropped, by the time of its arrival.
    fn simulated(offered: &[(Time, Vec<u8>)]) -> (Vec<(Time, Vec<u8>)>, LinkStats) {
        let mut link = Link::new(config()).unwrap();
        let mut arrived = Vec::new();
        for (now, packet) in offered {
            let verdict = link.offer(*now, Packet::new(packet.len() as u32));
            if let Verdict::Delivered { arrives, .. } = verdict {
                arrived.push((arrives, packet.clone()));
            }
        }
        arrived.sort_by_key(|(at, _)| *at);
        (arrived, link.stats())
    }

    /// One link, with its only direction.
    fn one_link() -> (State, Direction) {
        let state = State {
            traffic: Traffic::new(vec![Link::new(config()).unwrap()]),
            subflows: Vec::new(),
            late: Delays::default(),
            refused: 0,
            log: None,
        };
        let direction = Direction {
            other: [0].into(),
            flows: HashMap::new(),
        };
        (state, direction)
    }

    fn stats(state: &mut State) -> LinkStats {
        state.traffic.link_mut(0).unwrap().stats()
    }

    #[test]
    fn packets_leave_as_in_the_simulator() {
        let offered = offered();
        let (expected, stats_there) = simulated(&offered);
        assert!(stats_there.dropped_queue > 50 && stats_there.dropped_random > 50);
        let in_order = |(_, packet): &(Time, Vec<u8>)| packet[..4].to_vec();
        assert!(!expected.iter().map(in_order).is_sorted(), "some overtake");

        let (mut state, direction) = one_link();
        let mut left = Vec::new();
        let leave = |state: &mut State, until: Time, left: &mut Vec<(Time, Vec<u8>)>| {
            while let Some(due) = state.traffic.next_due().filter(|due| *due <= until) {
                assert_eq!(state.leave(due - Duration::from_nanos(1)), None);
                left.push((due, state.leave(due).unwrap().1.into_vec()));
            }
        };
        for (now, packet) in &offered {
            leave(&mut state, *now, &mut left);
            state.enter(*now, (0, 0, &direction), packet).unwrap();
        }
        leave(&mut state, Time::MAX, &mut left);
        assert_eq!(left, expected);
        let counted = stats(&mut state);
        assert_eq!(counted, stats_there);
        let late = &state.late;
        assert_eq!(
            (late.count(), late.most()),
            (counted.delivered, Duration::ZERO)
        );
    }

    /// Whoever comes late changes neither what is lost nor when the others were due.
    #[test]
    fn lateness_is_counted_and_changes_nothing() {
        let offered = offered();
        let (expected, stats_there) = simulated(&offered);
        let (mut state, direction) = one_link();
        let late = Duration::from_micros(1500);
        for (now, packet) in &offered {
            state.enter(*now, (0, 0, &direction), packet).unwrap();
        }
        let mut left = Vec::new();
        while let Some(due) = state.traffic.next_due() {
            left.push((due, state.leave(due + late).unwrap().1.into_vec()));
        }
        assert_eq!(left, expected);
        let counted = stats(&mut state);
        assert_eq!(counted, stats_there);
        assert_eq!(
            (state.late.count(), state.late.most()),
            (counted.delivered, late)
        );
    }
}

//! Two applications that act on events alone, over a bad network: each reader gets every byte once
//! and in order, then the end; and nothing is left behind.

use std::collections::BTreeMap;

use proptest::prelude::*;
use rand::rngs::ChaCha20Rng;
use rand::{RngExt, SeedableRng};

use super::network::{Network, Weather};
use super::*;

/// One side's view of one stream.
#[derive(Debug)]
struct Task {
    /// Bytes to write in all, and whether to reset there instead of finishing.
    goal: u64,
    resets: bool,
    written: u64,
    may_write: bool,
    send: End,
    read: u64,
    /// Where to stop reading, if before the end.
    stops_at: Option<u64>,
    may_read: bool,
    recv: End,
}

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum End {
    Open,
    /// Finished and not yet acknowledged.
    Closing,
    /// Everything delivered; for a reader, the end was seen.
    Whole,
    /// Reset or stopped.
    Cut,
    /// A unidirectional stream's other direction.
    Absent,
}

const STEPS: usize = 2_000_000;

struct Play {
    network: Network,
    tasks: [BTreeMap<StreamId, Task>; 2],
    to_open: [usize; 2],
    may_open: [bool; 2],
    cuts: bool,
    largest: u64,
}

impl Play {
    fn run(mut self) -> Network {
        for step in 0.. {
            assert!(step < STEPS, "stuck: {:#?}", self.tasks);
            for side in 0..2 {
                self.hear(side);
                self.act(side);
                if step % 16 == 0 {
                    self.network.sides[side].check_books();
                }
            }
            self.network.step();
            if step % 64 == 0 && self.is_done() {
                break;
            }
        }
        self.compare();
        self.network
    }

    fn is_done(&self) -> bool {
        let over = |t: &Task| {
            let over = |end| matches!(end, End::Whole | End::Cut | End::Absent);
            over(t.send) && over(t.recv)
        };
        self.to_open == [0, 0]
            && self.tasks.iter().all(|t| t.values().all(over))
            && self.network.is_quiet()
    }

    fn task(&mut self, side: usize, id: StreamId) -> Task {
        let one_way = id.kind() == StreamKind::Unidirectional;
        let opener = id.is_initiators() == (side == 0);
        let end = |absent| if absent { End::Absent } else { End::Open };
        let rng = &mut self.network.rng;
        let goal = rng.random_range(0..=self.largest);
        let stops = self.cuts && rng.random_bool(0.2);
        Task {
            goal,
            resets: self.cuts && rng.random_bool(0.2),
            written: 0,
            may_write: true,
            send: end(one_way && !opener),
            read: 0,
            stops_at: stops.then(|| rng.random_range(0..=self.largest)),
            may_read: false,
            recv: end(one_way && opener),
        }
    }

    /// The applications know nothing but events.
    fn hear(&mut self, side: usize) {
        while let Some(event) = self.network.sides[side].poll_event() {
            match event {
                StreamEvent::Opened => {
                    let streams = &mut self.network.sides[side];
                    let id = streams.accept().or_else(|| streams.accept_uni());
                    let id = id.expect("one stream per event");
                    let task = self.task(side, id);
                    self.tasks[side].insert(id, task);
                }
                StreamEvent::Available => self.may_open[side] = true,
                StreamEvent::Readable(id) => {
                    let task = self.tasks[side].get_mut(&id).expect("known");
                    assert!(!task.may_read, "told twice");
                    task.may_read = true;
                }
                StreamEvent::Writable(id) => {
                    self.tasks[side].get_mut(&id).expect("known").may_write = true
                }
                StreamEvent::Finished(id) => {
                    let task = self.tasks[side].get_mut(&id).expect("known");
                    assert_eq!((task.send, task.written), (End::Closing, task.goal));
                    task.send = End::Whole;
                }
                StreamEvent::Stopped { id, code } => {
                    assert_eq!(code, id.0 + 7);
                    let task = self.tasks[side].get_mut(&id).expect("known");
                    if task.send == End::Open {
                        let told = write(&mut self.network.sides[side], id, b"x");
                        assert_eq!(told, Err(WriteError::Stopped(code)));
                    }
                    task.send = End::Cut;
                }
            }
        }
    }

    fn act(&mut self, side: usize) {
        if self.may_open[side] && self.to_open[side] > 0 {
            let network = &mut self.network;
            let opened = match network.rng.random_bool(0.5) {
                true => network.sides[side].open(),
                false => network.sides[side].open_uni(),
            };
            match opened {
                Ok(id) => {
                    let task = self.task(side, id);
                    self.tasks[side].insert(id, task);
                    self.to_open[side] -= 1;
                }
                Err(OpenError::Limit { .. }) => self.may_open[side] = false,
            }
        }
        let count = self.tasks[side].len();
        if count == 0 {
            return;
        }
        let pick = self.network.rng.random_range(0..count);
        let (&id, task) = self.tasks[side].iter_mut().nth(pick).expect("in range");
        if self.network.rng.random_bool(0.5) {
            write_some(&mut self.network, side, id, task);
        } else {
            read_some(&mut self.network, side, id, task);
        }
    }

    /// Where both ends of a stream agree that nothing was cut, all of it arrived.
    fn compare(&self) {
        for side in 0..2 {
            let streams = &self.network.sides[side];
            streams.check_books();
            assert_eq!(streams.open_streams(), 0, "{:?}", streams.streams);
            assert_eq!(
                (
                    streams.unacked_bytes(),
                    streams.unsent_bytes(),
                    streams.ledger.buffered
                ),
                (0, 0, 0)
            );
            assert!(!streams.flow_blocked() && streams.ledger.allowed == 0);
            assert_eq!(self.tasks[side].len(), self.tasks[1 - side].len());
            for (id, sender) in &self.tasks[side] {
                let reader = &self.tasks[1 - side][id];
                match (sender.send, reader.recv) {
                    (End::Absent, recv) => assert_eq!(recv, End::Absent),
                    (_, End::Whole) => assert_eq!(reader.read, sender.goal),
                    (End::Whole, recv) => assert!(recv == End::Cut && reader.stops_at.is_some()),
                    (send, recv) => assert_eq!((send, recv), (End::Cut, End::Cut)),
                }
            }
        }
    }
}

fn write_some(network: &mut Network, side: usize, id: StreamId, task: &mut Task) {
    if task.send != End::Open || !task.may_write {
        return;
    }
    let streams = &mut network.sides[side];
    if task.written == task.goal {
        if task.resets {
            assert_eq!(streams.reset(id, id.0 + 3), Ok(()));
            task.send = End::Cut;
        } else {
            assert_eq!(streams.finish(id), Ok(()));
            task.send = End::Closing;
        }
        return;
    }
    let most = *[1, 10, 1000, 5000, 20_000]
        .get(network.rng.random_range(0..5))
        .expect("in range");
    let len = network
        .rng
        .random_range(1..=most)
        .min(task.goal - task.written);
    let mut data = Bytes::from(bytes_of(id, side == 0, task.written, len));
    match streams.write(id, &mut data) {
        Ok(taken) => {
            assert_eq!(taken as u64, len - data.len() as u64);
            task.written += taken as u64;
            task.may_write = data.is_empty();
        }
        Err(WriteError::Blocked) => task.may_write = false,
        // The event follows.
        Err(WriteError::Stopped(_)) => task.send = End::Cut,
        Err(WriteError::Closed) => panic!("stream {id:?} closed: {task:?}"),
    }
}

fn read_some(network: &mut Network, side: usize, id: StreamId, task: &mut Task) {
    if task.recv != End::Open {
        return;
    }
    if task.stops_at.is_some_and(|at| task.read >= at) {
        assert_eq!(network.sides[side].stop(id, id.0 + 7), Ok(()));
        task.recv = End::Cut;
        return;
    }
    if !task.may_read {
        return;
    }
    let max = network.rng.random_range(1..20_000);
    match network.sides[side].read(network.now, id, max) {
        Ok(Some(data)) => {
            assert!(data.len() <= max && !data.is_empty());
            assert_eq!(data, bytes_of(id, side == 1, task.read, data.len() as u64));
            task.read += data.len() as u64;
        }
        Ok(None) => task.recv = End::Whole,
        Err(ReadError::Blocked) => task.may_read = false,
        Err(ReadError::Reset(code)) => {
            assert!(code == id.0 + 3 || code == id.0 + 7);
            task.recv = End::Cut;
        }
        Err(ReadError::Closed) => panic!("stream {id:?} closed: {task:?}"),
    }
    if task.recv != End::Open {
        assert_eq!(
            network.sides[side].read(network.now, id, 1),
            Err(ReadError::Closed)
        );
    }
}

fn play(seed: u64, weather: Weather, streams: [usize; 2], cuts: bool) -> Network {
    let config = small();
    Play {
        network: Network::new(config, weather, ChaCha20Rng::seed_from_u64(seed)),
        tasks: [BTreeMap::new(), BTreeMap::new()],
        to_open: streams,
        may_open: [true, true],
        cuts,
        largest: 150_000,
    }
    .run()
}

fn weather() -> impl Strategy<Value = Weather> {
    (
        0.0..0.4,
        0.0..0.3,
        0.0..0.2,
        0.0..0.3,
        1usize..60,
        60usize..1500,
    )
        .prop_map(
            |(loss, duplicate, spurious, reinject, flight, max_frame)| Weather {
                loss,
                duplicate,
                spurious,
                reinject,
                flight,
                max_frame,
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn every_byte_once_and_in_order_then_the_end(
        seed: u64,
        weather in weather(),
        a in 0usize..6,
        b in 0usize..6,
    ) {
        play(seed, weather, [a, b], false);
    }

    #[test]
    fn resets_and_stops_leave_nothing_behind(
        seed: u64,
        weather in weather(),
        a in 1usize..10,
        b in 0usize..10,
    ) {
        play(seed, weather, [a, b], true);
    }
}

#[test]
fn a_good_network_needs_no_retransmission() {
    let weather = Weather {
        loss: 0.0,
        duplicate: 0.2,
        spurious: 0.0,
        reinject: 0.0,
        flight: 50,
        max_frame: 1200,
    };
    assert_eq!(play(3, weather, [4, 4], false).retransmissions, 0);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let weather = Weather {
        loss: 0.1,
        duplicate: 0.1,
        spurious: 0.05,
        reinject: 0.1,
        flight: 20,
        max_frame: 1200,
    };
    let run = || {
        let mut network = play(5, weather, [3, 2], true);
        (
            network.now,
            network.retransmissions,
            network.rng.random::<u64>(),
        )
    };
    assert_eq!(run(), run());
}

//! Senders whose path, receiver or clock does what none should: acknowledgements come in bursts,
//! the rate falls a hundredfold, clocks drift and leap, the receiver lies about delays and times of
//! arrival. No window may leave its range, nothing may starve, and no subflow may send twice as
//! fast as it is measured to deliver.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::time::Duration;

use manyway_control::laws::AnyController;
use manyway_control::registry::laws;
use manyway_control::{
    AckInfo, Controller, LawSpec, LossDetection, Options, Outcome, Permit, Sender, SenderConfig,
    Sent, SlowStartKind, TimerEvent,
};
use manyway_units::Time;

const PACKET: u32 = 1500;
/// What is sent and delivered is counted in such spans.
const SPAN: Duration = Duration::from_millis(20);

/// A DropTail queue in front of a fixed delay.
struct Link {
    /// Packets/s.
    rate: fn(Time) -> f64,
    /// One way.
    delay: Duration,
    /// Packets that may wait or be in service.
    queue: usize,
    departures: VecDeque<Time>,
}

impl Link {
    fn new(rate: fn(Time) -> f64, delay: Duration, queue: usize) -> Self {
        Link {
            rate,
            delay,
            queue,
            departures: VecDeque::new(),
        }
    }

    /// When a packet that enters now arrives, unless it is dropped.
    fn offer(&mut self, now: Time) -> Option<Time> {
        while self.departures.front().is_some_and(|&at| at <= now) {
            self.departures.pop_front();
        }
        if self.departures.len() >= self.queue {
            return None;
        }
        let begins = self.departures.back().copied().unwrap_or(now);
        let leaves = begins + Duration::from_secs_f64(1.0 / (self.rate)(begins));
        self.departures.push_back(leaves);
        Some(leaves + self.delay)
    }
}

/// What the receiver's side makes of acknowledgements.
#[derive(Clone, Copy)]
struct Peer {
    /// The return path passes acknowledgements on at multiples of this only, and once more so much
    /// later; zero for at once.
    bursts: [Duration; 2],
    /// What it says of a packet's arrival, by the time and the packet's number.
    clock: fn(Time, u64) -> Time,
    /// How long it says that it held the packet back.
    delay: fn(u64) -> Duration,
}

/// It is honest, and its clock is ours.
const HONEST: Peer = Peer {
    bursts: [Duration::ZERO; 2],
    clock: |at, _| at,
    delay: |_| Duration::ZERO,
};

impl Peer {
    /// When the acknowledgement of a packet that arrives now leaves.
    fn leaves(&self, arrives: Time) -> Time {
        let [step, more] = self.bursts.map(|span| span.as_nanos() as u64);
        if step == 0 {
            return arrives;
        }
        let over = arrives.as_nanos() % step;
        let begun = arrives.as_nanos() - over;
        Time::from_nanos(match over {
            0 => begun,
            over if over <= more => begun + more,
            _ => begun + step,
        })
    }
}

struct Subflow {
    sender: Sender<()>,
    connection: usize,
    link: usize,
    peer: Peer,
    /// Arrivals at the receiver, each with the time at which its acknowledgement is back.
    arrivals: VecDeque<(Time, Time, u64)>,
    /// Newest first.
    received: Vec<RangeInclusive<u64>>,
    /// Packets sent, and packets acknowledged, in each span.
    sent: Vec<u64>,
    delivered: Vec<u64>,
}

struct World {
    now: Time,
    links: Vec<Link>,
    connections: Vec<AnyController>,
    subflows: Vec<Subflow>,
}

impl World {
    fn new(links: impl Into<Vec<Link>>) -> Self {
        World {
            now: Time::ZERO,
            links: links.into(),
            connections: Vec::new(),
            subflows: Vec::new(),
        }
    }

    /// A connection with a subflow over each of these links.
    fn connect(&mut self, law: &LawSpec, links: &[usize], peer: Peer) {
        let options = Options::default().with_slow_start(SlowStartKind::HyStart);
        let mut controller = law.controller(&options);
        let config = SenderConfig {
            packet_size: PACKET,
            pacing: law.capabilities().paced,
            loss_detection: LossDetection::Adaptive,
            ..SenderConfig::default()
        };
        for &link in links {
            self.subflows.push(Subflow {
                sender: Sender::new(config, self.now, &mut controller),
                connection: self.connections.len(),
                link,
                peer,
                arrivals: VecDeque::new(),
                received: Vec::new(),
                sent: Vec::new(),
                delivered: Vec::new(),
            });
        }
        self.connections.push(controller);
    }

    fn run_until(&mut self, end: Time) {
        loop {
            let mut next = end;
            for n in 0..self.subflows.len() {
                let paced = self.fill(n);
                let subflow = &self.subflows[n];
                let ack = subflow.arrivals.front().map(|&(_, back, _)| back);
                let first = [paced, ack, subflow.sender.timeout()].into_iter().flatten();
                next = first.fold(next, Time::min);
            }
            assert!(next >= self.now, "time stands still or runs backwards");
            if next >= end {
                self.now = end;
                return;
            }
            self.now = next;
            for n in 0..self.subflows.len() {
                self.acknowledge(n);
                self.timer(n);
            }
        }
    }

    /// Sends what is permitted; when to ask again if the pacer stopped it.
    fn fill(&mut self, n: usize) -> Option<Time> {
        loop {
            let subflow = &self.subflows[n];
            let controller = &self.connections[subflow.connection];
            let window = controller.window(subflow.sender.slot());
            assert!((1.0..1e6).contains(&window), "a window of {window} packets");
            match subflow.sender.permit(self.now, controller) {
                Permit::Now { packets } => (0..packets).for_each(|_| self.send(n)),
                Permit::Paced(at) => return Some(at),
                Permit::WindowFull => return None,
            }
        }
    }

    fn send(&mut self, n: usize) {
        let (now, subflow) = (self.now, &mut self.subflows[n]);
        count(&mut subflow.sent, now);
        let sent = Sent {
            bytes: PACKET,
            ack_eliciting: true,
            app_limited: false,
            payload: (),
        };
        let number = subflow.sender.on_sent(now, sent);
        let link = &mut self.links[subflow.link];
        if let Some(arrives) = link.offer(now) {
            let back = subflow.peer.leaves(arrives) + link.delay;
            subflow.arrivals.push_back((arrives, back, number));
        }
    }

    /// One acknowledgement for all that is back.
    fn acknowledge(&mut self, n: usize) {
        let (now, subflow) = (self.now, &mut self.subflows[n]);
        let mut newest = None;
        while let Some(&(arrived, back, number)) = subflow.arrivals.front()
            && back <= now
        {
            subflow.arrivals.pop_front();
            count(&mut subflow.delivered, arrived);
            match subflow.received.first_mut() {
                Some(range) if *range.end() + 1 == number => *range = *range.start()..=number,
                _ => subflow.received.insert(0, number..=number),
            }
            subflow.received.truncate(32);
            newest = Some((arrived, number));
        }
        let Some((arrived, number)) = newest else {
            return;
        };
        let ack = AckInfo {
            largest: number,
            ranges: &subflow.received,
            delay: (subflow.peer.delay)(number),
            ce_count: None,
            receive_time: Some((subflow.peer.clock)(arrived, number)),
            elsewhere: false,
        };
        let controller = &mut self.connections[subflow.connection];
        let taken = subflow
            .sender
            .on_ack(now, ack, controller, &mut Outcome::default());
        taken.expect("it acknowledges what was sent");
    }

    fn timer(&mut self, n: usize) {
        let (now, subflow) = (self.now, &mut self.subflows[n]);
        let controller = &mut self.connections[subflow.connection];
        let event = subflow
            .sender
            .on_timeout(now, controller, &mut Outcome::default());
        if let TimerEvent::Probe { .. } = event {
            self.send(n);
        }
    }

    /// Packets that a connection delivered between these seconds.
    fn delivered(&self, connection: usize, seconds: std::ops::Range<u64>) -> u64 {
        let spans = |second: u64| (second * 1000 / SPAN.as_millis() as u64) as usize;
        let subflows = self.subflows.iter();
        let own = subflows.filter(|subflow| subflow.connection == connection);
        own.flat_map(|subflow| {
            let from = subflow.delivered.iter().skip(spans(seconds.start));
            from.take(spans(seconds.end) - spans(seconds.start))
        })
        .sum()
    }

    /// The most that a subflow sent in a span after the first 11 s, but for the last 200 ms, over
    /// what it would have sent at the rate at which it delivered: the best of this span and of any
    /// 200 ms in the last `memory`. Twelve packets are free.
    fn worst_burst(&self, memory: Duration) -> f64 {
        let spans = |time: Duration| (time.as_nanos() / SPAN.as_nanos()) as usize;
        let (wide, memory) = (spans(Duration::from_millis(200)), spans(memory));
        let bursts = self.subflows.iter().flat_map(|subflow| {
            let sent = subflow
                .sent
                .iter()
                .enumerate()
                .take(subflow.delivered.len().saturating_sub(wide))
                .skip(spans(Duration::from_secs(11)));
            sent.map(move |(span, &sent)| {
                let known = &subflow.delivered[..subflow.delivered.len().min(span + 1)];
                let known = &known[known.len().saturating_sub(memory)..];
                let best = known
                    .windows(wide)
                    .map(|spans| spans.iter().sum::<u64>())
                    .max();
                let rate = best.unwrap_or(0) as f64 / wide as f64;
                let present = subflow.delivered.get(span).copied().unwrap_or(0) as f64;
                sent.saturating_sub(12) as f64 / rate.max(present).max(0.1)
            })
        });
        bursts.fold(0.0, f64::max)
    }
}

fn count(spans: &mut Vec<u64>, at: Time) {
    let span = (at.as_nanos() / SPAN.as_nanos() as u64) as usize;
    spans.resize(spans.len().max(span + 1), 0);
    spans[span] += 1;
}

fn law(name: &str) -> LawSpec {
    name.parse().expect("a law")
}

fn at(seconds: u64) -> Time {
    Time::ZERO + Duration::from_secs(seconds)
}

/// 20 Mbps.
const FULL: f64 = 1667.0;

/// Acknowledgements at multiples of so many ms only, and once more so much later.
const fn bursts(step: u64, more: u64) -> Peer {
    Peer {
        bursts: [Duration::from_millis(step), Duration::from_millis(more)],
        ..HONEST
    }
}

/// Receivers and clocks that say other than what is.
fn liars() -> [(&'static str, Peer); 7] {
    let clock = |clock| Peer { clock, ..HONEST };
    let delay = |delay| Peer { delay, ..HONEST };
    [
        (
            "a clock that is 100 ppm fast",
            clock(|at, _| Time::from_nanos(at.as_nanos() + at.as_nanos() / 10_000)),
        ),
        (
            "a clock that leaps by an hour",
            clock(|at, n| at + Duration::from_secs(3600 * (n / 5000 % 2))),
        ),
        ("a clock that stands", clock(|_, n| Time::from_nanos(n))),
        (
            "arrivals at random",
            clock(|_, n| Time::from_nanos(n.wrapping_mul(0x9E37_79B9_7F4A_7C15))),
        ),
        ("arrivals at the end of time", clock(|_, _| Time::MAX)),
        (
            "delays of any length",
            delay(|n| Duration::from_millis(n % 50)),
        ),
        ("delays without end", delay(|_| Duration::MAX)),
    ]
}

/// What a connection carries of two links of its own, each with a bandwidth-delay product of queue,
/// from second 20 to 40, and its worst burst.
fn alone(law: &LawSpec, delay: Duration, peer: Peer) -> (f64, f64) {
    let queue = (FULL * 2.0 * delay.as_secs_f64()) as usize;
    let link = || Link::new(|_| FULL, delay, queue);
    let mut world = World::new([link(), link()]);
    world.connect(law, &[0, 1], peer);
    world.run_until(at(40));
    let carried = world.delivered(0, 20..40) as f64 / (2.0 * FULL * 20.0);
    (
        carried,
        world.worst_burst(Duration::from_secs(2) + 10 * delay),
    )
}

/// The share of two subflows beside a Reno flow, behind so many packets of queue.
fn share(law: &LawSpec, queue: usize, peer: Peer) -> f64 {
    let mut world = World::new([Link::new(|_| FULL, Duration::from_millis(10), queue)]);
    world.connect(law, &[0, 0], peer);
    world.connect(&LawSpec::reno(), &[0], HONEST);
    world.run_until(at(80));
    let [ours, theirs] = [0, 1].map(|n| world.delivered(n, 20..80) as f64);
    ours / (ours + theirs)
}

/// Also laws that act on one-way delays, which believe the receiver: they keep their windows.
#[test]
fn lies_cost_nobody_but_the_liar() {
    let delay = Duration::from_millis(10);
    for law in laws() {
        let honest = alone(&law, delay, HONEST).0;
        for (what, peer) in liars() {
            let (carried, burst) = alone(&law, delay, peer);
            let law = law.name();
            assert!(
                carried > honest - 0.01,
                "{law}, {what}: {carried} for {honest}"
            );
            assert!(burst < 2.0, "{law}, {what}: a burst of {burst}");
        }
    }
    for (_, peer) in liars() {
        alone(&law("wvegas:forward=1"), delay, peer);
    }
}

/// Who hides a queue of less than the 10 ms that a receiver may hold back gets two flows' share, as
/// uncoupled subflows do. No other lie gets more than honesty.
#[test]
fn lies_take_no_more_than_uncoupled_subflows_do() {
    let auto = law("auto");
    for queue in [33, 133] {
        let honest = share(&auto, queue, HONEST);
        let uncoupled = share(&law("cubic"), queue, HONEST);
        assert!((0.4..0.6).contains(&honest), "{queue} packets: {honest}");
        for (what, peer) in liars() {
            let most = match (peer.delay)(49).is_zero() {
                true => honest,
                false => uncoupled,
            };
            let share = share(&auto, queue, peer);
            assert!(
                share < most + 0.03,
                "{queue} packets, {what}: {share} for {most}"
            );
        }
    }
}

#[test]
fn acknowledgements_in_bursts_are_not_answered_by_bursts() {
    for law in laws() {
        for delay in [10, 300] {
            let (carried, burst) = alone(&law, Duration::from_millis(delay), bursts(200, 0));
            let law = law.name();
            let least = match (law, delay) {
                ("auto", 10) => 0.7,
                ("reno" | "cubic" | "lia" | "balia", 10) => 0.4,
                ("reno" | "cubic" | "lia" | "balia" | "auto", _) => 0.8,
                _ => 0.0,
            };
            assert!(carried >= least, "{law}, {delay} ms: {carried}");
            // What these two were seen to do.
            let most = match law {
                "bbr" => 2.5,
                "mpath" => 8.1,
                _ => 2.0,
            };
            assert!(burst < most, "{law}, {delay} ms: a burst of {burst}");
        }
    }
}

/// Every other round is short, but a window doesn't leave in a short one's time. Where the long one
/// is hardly longer than the round trip, the pacer goes by a round trip that is up to half too
/// short: that of the last packet of each burst.
#[test]
fn bursts_in_pairs_are_not_answered_by_bursts() {
    for law in laws().filter(|law| law.name() != "mpath") {
        for (step, more) in [(100, 12), (200, 12), (200, 25), (400, 21)] {
            for delay in [1, 5, 10, 40] {
                let peer = bursts(step, more);
                let (carried, burst) = alone(&law, Duration::from_millis(delay), peer);
                let what = format!("{} at {delay} ms, {step} and {more} ms", law.name());
                let most = if delay == 40 { 2.1 } else { 2.0 };
                assert!(burst < most, "{what}: a burst of {burst}");
                if (law.name(), step, delay) == ("cubic", 100, 5) {
                    assert!(carried > 0.35, "{what}: {carried}");
                }
            }
        }
    }
}

/// From second 20 to 21 the rate falls to a hundredth; at second 40 it is back at once.
#[test]
fn a_rate_that_falls_a_hundredfold_is_followed_down_and_up() {
    let rate = |at: Time| match at.as_secs_f64() {
        t if t < 20.0 => FULL,
        t if t < 21.0 => FULL * (1.0 - 0.99 * (t - 20.0)),
        t if t < 40.0 => FULL / 100.0,
        _ => FULL,
    };
    for law in laws().filter(|law| law.capabilities().paced) {
        let mut world = World::new([0; 2].map(|_| Link::new(rate, Duration::from_millis(10), 33)));
        world.connect(&law, &[0, 1], HONEST);
        world.run_until(at(60));
        let of = |seconds: std::ops::Range<u64>, part: f64| {
            let possible = 2.0 * FULL * part * (seconds.end - seconds.start) as f64;
            world.delivered(0, seconds) as f64 / possible
        };
        let [before, low, after] = [of(10..20, 1.0), of(25..40, 0.01), of(45..60, 1.0)];
        let law = law.name();
        assert!(low > 0.75, "{law}: {low} of the low rate");
        assert!(
            after > before - 0.01,
            "{law}: {after} after, {before} before"
        );
        let burst = world.worst_burst(Duration::from_secs(3));
        let most = if law == "bbr" { 10.1 } else { 2.0 };
        assert!(burst < most, "{law}: a burst of {burst}");
    }
}

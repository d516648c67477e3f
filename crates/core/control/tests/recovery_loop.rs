//! A sender and a controller against a pipe: a scenario is a function generic over the controller,
//! and what it asserts is counted in whole packets.

use std::cell::Cell;
use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::time::Duration;

use manyway_control::laws::{Balia, Cubic, Lia, Reno};
use manyway_control::{
    AckInfo, Controller, Coupled, LawSpec, Options, Outcome, Permit, Remembered, Sender,
    SenderConfig, Sent, SlowStartKind, TimerEvent,
};
use manyway_units::Time;

const PACKET: u32 = 1000;

/// A link with a DropTail queue in front of a fixed delay, and a receiver that acknowledges every
/// packet. Acknowledgements don't get lost.
struct Pipe {
    /// Time to serialise a packet.
    service: Duration,
    /// Round-trip time without queueing.
    rtt: Duration,
    /// Packets that may wait or be in service.
    queue: u128,
    busy_until: Time,
    /// Acknowledgements under way: arrival and packet number.
    acks: VecDeque<(Time, u64)>,
    /// What has arrived, newest first.
    received: Vec<RangeInclusive<u64>>,
    /// Packets to drop by number, and a time span in which all are dropped.
    drops: Vec<u64>,
    dark: RangeInclusive<Time>,
    delivered: u64,
    dropped: u64,
    longest_queue: u128,
}

impl Pipe {
    fn new(packets_per_second: u32, rtt: Duration, queue: u128) -> Self {
        Pipe {
            service: Duration::from_secs(1) / packets_per_second,
            rtt,
            queue,
            busy_until: Time::ZERO,
            acks: VecDeque::new(),
            received: Vec::new(),
            drops: Vec::new(),
            dark: Time::MAX..=Time::MAX,
            delivered: 0,
            dropped: 0,
            longest_queue: 0,
        }
    }

    /// So fast that nothing queues.
    fn wide(rtt: Duration) -> Self {
        Pipe::new(1_000_000_000, rtt, u128::MAX)
    }

    fn offer(&mut self, now: Time, number: u64) {
        let waiting = self
            .busy_until
            .since(now)
            .as_nanos()
            .div_ceil(self.service.as_nanos());
        self.longest_queue = self.longest_queue.max(waiting);
        if waiting >= self.queue || self.drops.contains(&number) || self.dark.contains(&now) {
            self.dropped += 1;
            return;
        }
        self.busy_until = self.busy_until.max(now) + self.service;
        self.acks.push_back((self.busy_until + self.rtt, number));
        self.delivered += 1;
    }

    fn receive(&mut self, number: u64) {
        match self.received.first_mut() {
            Some(newest) if *newest.end() + 1 == number => *newest = *newest.start()..=number,
            _ => self.received.insert(0, number..=number),
        }
        self.received.truncate(32);
    }
}

struct Loop<C> {
    controller: C,
    sender: Sender<u64>,
    pipe: Pipe,
    now: Time,
    /// Packets sent in each round trip of the pipe, from the start.
    per_round: Vec<u64>,
    outcome: Outcome<u64>,
    probes: u32,
}

impl<C: Controller> Loop<C> {
    fn new(controller: C, pipe: Pipe, pacing: bool) -> Self {
        let config = SenderConfig {
            pacing,
            ..SenderConfig::default()
        };
        Loop::with(config, controller, pipe)
    }

    /// A paced sender that resumes from so many packets and that round-trip time.
    fn resuming(controller: C, pipe: Pipe, packets: u64, min_rtt: Duration) -> Self {
        let remembered = Remembered {
            bytes: packets * u64::from(PACKET),
            min_rtt,
        };
        let config = SenderConfig {
            careful_resume: true,
            remembered: Some(remembered),
            ..SenderConfig::default()
        };
        Loop::with(config, controller, pipe)
    }

    fn with(config: SenderConfig, mut controller: C, pipe: Pipe) -> Self {
        let config = SenderConfig {
            packet_size: PACKET,
            initial_rtt: pipe.rtt,
            ..config
        };
        Loop {
            sender: Sender::new(config, Time::ZERO, &mut controller),
            controller,
            pipe,
            now: Time::ZERO,
            per_round: Vec::new(),
            outcome: Outcome::default(),
            probes: 0,
        }
    }

    fn window(&self) -> f64 {
        self.controller.window(self.sender.slot())
    }

    fn in_slow_start(&self) -> bool {
        self.controller.in_slow_start(self.sender.slot())
    }

    fn send(&mut self) {
        let round = (self.now.as_nanos() / self.pipe.rtt.as_nanos() as u64) as usize;
        self.per_round
            .resize(self.per_round.len().max(round + 1), 0);
        self.per_round[round] += 1;
        let payload = self.sender.next_packet_number();
        let sent = Sent {
            bytes: PACKET,
            ack_eliciting: true,
            app_limited: false,
            payload,
        };
        let number = self.sender.on_sent(self.now, sent);
        self.pipe.offer(self.now, number);
    }

    /// Runs to `end` or until `done` says so. True if it did.
    fn run(&mut self, end: Time, done: impl Fn(&Self) -> bool) -> bool {
        loop {
            let paced = self.fill();
            if done(self) {
                return true;
            }
            let ack = self.pipe.acks.front().map(|&(at, _)| at);
            let next = [ack, self.sender.timeout(), paced]
                .into_iter()
                .flatten()
                .min();
            let next = next.expect("a sender with unlimited data always waits for something");
            assert!(next >= self.now, "time stands still or runs backwards");
            if next > end {
                self.now = end;
                return false;
            }
            self.now = next;
            if ack == Some(next) {
                self.acknowledge();
            } else if self.sender.timeout() == Some(next) {
                self.timer();
            }
        }
    }

    fn run_for(&mut self, span: Duration) {
        self.run(self.now + span, |_| false);
    }

    /// Sends what is permitted; when to ask again if the pacer stopped it.
    fn fill(&mut self) -> Option<Time> {
        loop {
            match self.sender.permit(self.now, &self.controller) {
                Permit::Now { packets } => (0..packets).for_each(|_| self.send()),
                Permit::Paced(at) => return Some(at),
                Permit::WindowFull => return None,
            }
        }
    }

    fn acknowledge(&mut self) {
        while let Some(&(at, number)) = self.pipe.acks.front()
            && at <= self.now
        {
            self.pipe.acks.pop_front();
            self.pipe.receive(number);
            let ack = AckInfo {
                largest: number,
                ranges: &self.pipe.received,
                delay: Duration::ZERO,
                ce_count: None,
                receive_time: None,
                elsewhere: false,
            };
            self.outcome.clear();
            self.sender
                .on_ack(self.now, ack, &mut self.controller, &mut self.outcome)
                .expect("the receiver is honest");
        }
    }

    fn timer(&mut self) {
        self.outcome.clear();
        let event = self
            .sender
            .on_timeout(self.now, &mut self.controller, &mut self.outcome);
        if let TimerEvent::Probe { .. } = event {
            self.probes += 1;
            self.send();
        }
    }
}

fn options(slow_start: SlowStartKind) -> Options {
    Options::default().with_slow_start(slow_start)
}

const STANDARD: SlowStartKind = SlowStartKind::Standard;
const HYSTART: SlowStartKind = SlowStartKind::HyStart;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Runs a scenario with every law; the number is the window kept at a loss.
macro_rules! with_every_controller {
    ($scenario:ident, $kind:expr) => {{
        $scenario(Coupled::new(Reno, options($kind)), 0.5);
        $scenario(Coupled::new(Lia, options($kind)), 0.5);
        $scenario(Coupled::new(Balia, options($kind)), 0.5);
        $scenario(Cubic::new(options($kind)), 0.7);
    }};
}

fn slow_start_doubles<C: Controller>(controller: C, _kept: f64) {
    let mut it = Loop::new(controller, Pipe::wide(ms(100)), false);
    it.run_for(ms(650));
    assert_eq!(it.per_round, [10, 20, 40, 80, 160, 320, 640]);
    assert!(it.in_slow_start());
}

#[test]
fn slow_start_doubles_every_round_trip() {
    with_every_controller!(slow_start_doubles, STANDARD);
    // Without a queue there is no delay to grow, and HyStart++ is slow start.
    with_every_controller!(slow_start_doubles, HYSTART);
}

/// Half a window per half round trip at 2 windows a round trip: paced slow start doubles as well.
fn paced_slow_start_doubles<C: Controller>(controller: C, _kept: f64) {
    let mut it = Loop::new(controller, Pipe::wide(ms(100)), true);
    it.run_for(ms(399));
    for (round, &packets) in it.per_round.iter().enumerate() {
        let full = 10 << round;
        assert!(
            (full - 2..=full + 2).contains(&packets),
            "{:?}",
            it.per_round
        );
    }
    assert_eq!(it.per_round.len(), 4);
}

#[test]
fn paced_slow_start_doubles_every_round_trip() {
    with_every_controller!(paced_slow_start_doubles, STANDARD);
}

fn a_loss_cuts<C: Controller>(controller: C, kept: f64) {
    let mut pipe = Pipe::wide(ms(100));
    // Three of one round trip's 160 are one loss event.
    pipe.drops = vec![200, 230, 250];
    let mut it = Loop::new(controller, pipe, false);
    let before = Cell::new(0.0);
    let cut = it.run(Time::from_millis(2000), |it| {
        let cut = it.sender.stats().loss_events > 0;
        if !cut {
            before.set(it.window());
        }
        cut
    });
    assert!(cut && !it.in_slow_start());
    let want = (before.get() * kept).round();
    assert_eq!(it.window().round(), want, "{}", it.controller.name());
    it.run_for(ms(150));
    let stats = it.sender.stats();
    assert_eq!((stats.loss_events, stats.packets_lost), (1, 3));
    assert!(it.window() >= want && it.window() <= want + 3.0);
    // And it holds: what is in flight has come down to the window.
    it.run_for(ms(100));
    let held = it.sender.packets_in_flight() as f64;
    assert!((want..want + 12.0).contains(&held), "{held} of {want}");
}

#[test]
fn losses_of_one_round_trip_cut_once() {
    with_every_controller!(a_loss_cuts, STANDARD);
}

/// Alone on its path every window law is Reno: a packet per round trip.
fn one_packet_a_round<C: Controller>(controller: C) {
    let mut pipe = Pipe::wide(ms(100));
    pipe.drops = vec![30];
    let mut it = Loop::new(controller, pipe, false);
    assert!(it.run(Time::from_millis(2000), |it| !it.in_slow_start()));
    let start = it.window();
    it.run_for(ms(5100));
    // The cut costs up to two round trips; 1/w per packet adds up to a hair less than one a round.
    let grown = it.window() - start;
    assert!((47.0..=50.0).contains(&grown), "{grown}");
    let sent = &it.per_round[it.per_round.len() - 40..];
    let (first, last) = (sent[0], sent[sent.len() - 2]);
    assert!((37..=39).contains(&(last - first)), "{sent:?}");
    assert!(
        sent[..39].windows(2).all(|pair| pair[1] - pair[0] <= 2),
        "{sent:?}"
    );
}

#[test]
fn congestion_avoidance_adds_one_packet_a_round_trip() {
    one_packet_a_round(Coupled::new(Reno, Options::default()));
    one_packet_a_round(Coupled::new(Lia, Options::default()));
    one_packet_a_round(Coupled::new(Balia, Options::default()));
}

/// 1200 packets/s and 50 ms: 60 packets fill the pipe, and 500 more the queue.
fn deep_queue() -> Pipe {
    Pipe::new(1200, ms(50), 500)
}

fn delay_ends_slow_start<C: Controller>(controller: C, pacing: bool) {
    let mut it = Loop::new(controller, deep_queue(), pacing);
    assert!(it.run(Time::from_millis(3000), |it| !it.in_slow_start()));
    assert_eq!(it.pipe.dropped, 0);
    // Packets of the round trip that takes the window from 32 to 64 leave faster than the link
    // takes them. Eight in a row are acknowledged late before it is 128; then it rests.
    let window = it.window();
    assert!((64.0..128.0).contains(&window), "{window}");
    assert!(it.pipe.longest_queue < 68, "{}", it.pipe.longest_queue);
}

fn overshoots<C: Controller>(controller: C) {
    let mut it = Loop::new(controller, deep_queue(), false);
    assert!(it.run(Time::from_millis(5000), |it| !it.in_slow_start()));
    assert_eq!(it.pipe.longest_queue, 500);
    assert!(it.pipe.dropped > 300, "{}", it.pipe.dropped);
}

#[test]
fn hystart_leaves_slow_start_when_the_delay_grows() {
    for pacing in [false, true] {
        delay_ends_slow_start(Coupled::new(Lia, options(HYSTART)), pacing);
        delay_ends_slow_start(Coupled::new(Balia, options(HYSTART)), pacing);
        delay_ends_slow_start(Cubic::new(options(HYSTART)), pacing);
    }
    overshoots(Coupled::new(Lia, options(STANDARD)));
    overshoots(Cubic::new(options(STANDARD)));
}

fn a_dark_path_collapses<C: Controller>(controller: C, _kept: f64) {
    let mut pipe = Pipe::new(1000, ms(50), 50);
    // Some time after a full queue, whose drops would be an event of their own.
    pipe.dark = Time::from_millis(4500)..=Time::from_millis(9500);
    let mut it = Loop::new(controller, pipe, true);
    it.run_for(ms(4500));
    assert!(it.window() > 25.0);
    let events = it.sender.stats().loss_events;
    assert!(it.run(Time::from_millis(20_000), |it| {
        it.sender.stats().persistent_congestions > 0
    }));
    assert_eq!(it.window().floor(), 2.0, "{}", it.controller.name());
    assert!(it.in_slow_start());
    assert_eq!(it.sender.stats().loss_events, events + 1);
    // Five seconds of darkness from a PTO of some 150 ms: about five doublings.
    assert!((4..=7).contains(&it.probes), "{}", it.probes);
    // And it comes back.
    let delivered = it.pipe.delivered;
    it.run_for(ms(10_000));
    let share = (it.pipe.delivered - delivered) as f64 / 10_000.0;
    assert!(share > 0.85, "{} {share}", it.controller.name());
}

#[test]
fn persistent_congestion_collapses_the_window() {
    with_every_controller!(a_dark_path_collapses, HYSTART);
}

/// With a queue of one bandwidth-delay product the pipe stays full, and what is lost is the
/// sawtooth's tip.
fn fills_the_pipe<C: Controller>(controller: C, _kept: f64) {
    let mut it = Loop::new(controller, Pipe::new(2000, ms(40), 80), true);
    it.run_for(ms(3000));
    let (delivered, dropped) = (it.pipe.delivered, it.pipe.dropped);
    it.run_for(ms(60_000));
    let delivered = (it.pipe.delivered - delivered) as f64;
    let name = it.controller.name();
    assert!(delivered / 120_000.0 > 0.97, "{name} {delivered}");
    let lost = (it.pipe.dropped - dropped) as f64 / delivered;
    assert!(lost > 0.0 && lost < 0.01, "{name} {lost}");
    assert_eq!(it.sender.stats().spurious_losses, 0);
    assert_eq!(it.sender.stats().timeouts, 0);
}

#[test]
fn a_queue_of_one_bandwidth_delay_product_keeps_the_pipe_full() {
    with_every_controller!(fills_the_pipe, HYSTART);
}

/// Same calls, same result, bit for bit: monomorphic or through a trait object.
#[test]
fn runs_repeat_exactly() {
    let mut plain = Loop::new(Coupled::new(Balia, Options::default()), deep_queue(), true);
    plain.run_for(ms(20_000));
    let balia: LawSpec = "balia".parse().expect("balia is known");
    let balia: Box<dyn Controller> = Box::new(balia.controller(&Options::default()));
    let mut boxed = Loop::new(balia, deep_queue(), true);
    boxed.run_for(ms(20_000));
    assert_eq!(plain.per_round, boxed.per_round);
    assert_eq!(plain.window().to_bits(), boxed.window().to_bits());
    assert_eq!(plain.sender.stats(), boxed.sender.stats());
}

/// 1,000 packets fill the pipe.
fn large() -> Pipe {
    Pipe::new(10_000, ms(100), 500)
}

fn half_at_once<C: Controller>(controller: C, _kept: f64) {
    let mut it = Loop::resuming(controller, large(), 1000, ms(100));
    it.run_for(ms(550));
    let name = it.controller.name();
    assert!(it.sender.stats().resumed);
    // The first window is acknowledged in the middle of the second round trip. From then on, half
    // in a round trip, and all of it after two.
    let [first, second, third, fourth, ..] = it.per_round[..] else {
        panic!("too few rounds");
    };
    assert_eq!(first, 10, "{name}");
    assert!((200..=330).contains(&second), "{name}: {second}");
    assert!((500..=1000).contains(&third), "{name}: {third}");
    assert!(fourth >= 900, "{name}: {fourth}");
    assert_eq!(it.pipe.dropped, 0, "{name}");
}

#[test]
fn a_path_seen_before_starts_from_half_of_what_it_carried() {
    with_every_controller!(half_at_once, HYSTART);
}

#[test]
fn what_is_half_of_it_leaves_no_queue() {
    let mut it = Loop::resuming(Cubic::new(options(HYSTART)), large(), 1000, ms(100));
    it.run(Time::from_millis(220), |_| false);
    assert!(it.pipe.longest_queue <= 12, "{}", it.pipe.longest_queue);
}

/// A twentieth of what it was.
fn retreats<C: Controller>(controller: C, _kept: f64) {
    let mut it = Loop::resuming(controller, Pipe::new(500, ms(100), 50), 1000, ms(100));
    let name = it.controller.name();
    assert!(
        it.run(Time::from_millis(900), |it| it.sender.stats().loss_events
            > 0)
    );
    // Half of what had come through, which is the pipe and the queue at most.
    let window = it.window();
    assert!((10.0..=50.0).contains(&window), "{name}: {window}");
    it.run_for(ms(1000));
    let before = it.pipe.delivered;
    it.run_for(ms(2000));
    let carried = it.pipe.delivered - before;
    assert!(carried >= 900, "{name}: {carried} of 1000");
    assert!(it.pipe.dropped <= 500, "{name}: {}", it.pipe.dropped);
}

#[test]
fn on_a_path_that_has_become_slow_it_retreats() {
    with_every_controller!(retreats, HYSTART);
}

/// The loss of one packet isn't the path's end: slow start goes on up to half of what came through.
#[test]
fn after_the_retreat_slow_start_goes_on() {
    let mut pipe = large();
    pipe.drops = vec![60];
    let mut it = Loop::resuming(Cubic::new(options(HYSTART)), pipe, 1000, ms(100));
    assert!(
        it.run(Time::from_millis(900), |it| it.sender.stats().loss_events
            > 0)
    );
    assert!(it.window() <= 40.0, "{}", it.window());
    it.run_for(ms(600));
    assert!(it.window() >= 225.0, "{}", it.window());
}

#[test]
fn a_path_that_differs_or_loses_at_once_starts_as_any_other() {
    let jumped = |drops: &[u64], packets, min_rtt| {
        let mut pipe = large();
        pipe.drops = drops.to_vec();
        let controller = Cubic::new(options(HYSTART));
        let mut it = Loop::resuming(controller, pipe, packets, min_rtt);
        it.run_for(ms(350));
        it.sender.stats().resumed
    };
    assert!(jumped(&[], 1000, ms(100)));
    assert!(jumped(&[], 1000, ms(11)) && jumped(&[], 1000, ms(199)));
    assert!(!jumped(&[], 1000, ms(9)) && !jumped(&[], 1000, ms(201)));
    assert!(!jumped(&[3], 1000, ms(100)));
    // No more than it starts with anyway.
    assert!(!jumped(&[], 20, ms(100)));
}

#[test]
fn a_sender_remembers_what_its_path_carried() {
    let config = SenderConfig {
        careful_resume: true,
        ..SenderConfig::default()
    };
    let mut it = Loop::with(config, Cubic::new(options(HYSTART)), deep_queue());
    assert_eq!(it.sender.remembered(), None);
    it.run_for(ms(20_000));
    let remembered = it.sender.remembered().unwrap();
    let packets = remembered.bytes / u64::from(PACKET);
    // The pipe, and the queue at most.
    assert!((60..=570).contains(&packets), "{packets}");
    assert!((ms(50)..ms(52)).contains(&remembered.min_rtt));
    // A path that is slower now is remembered as it was for a minute at most.
    it.pipe.service *= 10;
    it.pipe.queue = 6;
    it.run_for(ms(61_000));
    let later = it.sender.remembered().unwrap().bytes / u64::from(PACKET);
    assert!((6..=13).contains(&later), "{later}");
    // By default, nothing is remembered.
    let mut it = Loop::new(Cubic::new(options(HYSTART)), deep_queue(), true);
    it.run_for(ms(1000));
    assert_eq!(it.sender.remembered(), None);
}
/// What an earlier path carried was little, for the application or others took the rest: slow start
/// goes on beyond it.
#[test]
fn more_than_it_carried_is_found() {
    let mut it = Loop::resuming(Cubic::new(options(HYSTART)), large(), 100, ms(100));
    it.run_for(ms(1200));
    assert!(it.sender.stats().resumed);
    let before = it.pipe.delivered;
    it.run_for(ms(500));
    let carried = it.pipe.delivered - before;
    assert!(carried >= 4500, "{carried}");
}

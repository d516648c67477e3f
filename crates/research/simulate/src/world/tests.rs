use super::*;
use manyway_network::{Limit, Loss, Queue};
use manyway_units::Rate;
use proptest::prelude::*;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

/// Sends a numbered datagram at a steady pace, and writes down what it gets.
#[derive(Debug, Default)]
struct Toy {
    to: Option<SocketAddr>,
    left: u32,
    gap: Duration,
    next: Time,
    number: u32,
    queue: VecDeque<(SocketAddr, Vec<u8>)>,
    size: usize,
    echo: bool,
    got: Vec<(Time, Vec<u8>)>,
}

impl Toy {
    fn sender(to: SocketAddr, left: u32, gap: Duration) -> Self {
        Toy {
            to: Some(to),
            left,
            gap,
            size: 1472,
            ..Toy::default()
        }
    }

    fn numbers(&self) -> Vec<u32> {
        self.got
            .iter()
            .map(|(_, data)| u32::from_be_bytes(data[..4].try_into().unwrap()))
            .collect()
    }
}

impl Host for Toy {
    fn handle_datagram(&mut self, now: Time, arrival: Arrival<'_>) {
        self.got.push((now, arrival.data.to_vec()));
        if self.echo {
            self.queue
                .push_back((arrival.remote, arrival.data.to_vec()));
        }
    }

    fn poll_transmit(&mut self, _: Time, buf: &mut Vec<u8>) -> Option<Departure> {
        let (remote, data) = self.queue.pop_front()?;
        *buf = data;
        Some(Departure {
            socket: SocketId(0),
            remote,
            ecn: false,
            segment_size: None,
        })
    }

    fn timeout(&self) -> Option<Time> {
        (self.left > 0).then_some(self.next)
    }

    fn handle_timeout(&mut self, now: Time) {
        while self.left > 0 && self.next <= now {
            let mut data = vec![0x11; self.size];
            data[..4].copy_from_slice(&self.number.to_be_bytes());
            self.queue.push_back((self.to.unwrap(), data));
            self.number += 1;
            self.left -= 1;
            self.next += self.gap;
            if !self.gap.is_zero() {
                break;
            }
        }
    }
}

fn addr(n: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, n], 1000))
}

fn twenty_mbps() -> LinkConfig {
    LinkConfig {
        queue: Queue::DropTail(Limit::Packets(1000)),
        ..LinkConfig::new(Rate::from_mbps(20.0), 10 * MS)
    }
}

struct Pair {
    world: World<Toy>,
    sender: HostId,
    receiver: HostId,
    link: LinkId,
}

fn pair(
    seed: u64,
    sender: Toy,
    link: LinkConfig,
    jitter: Duration,
    impairments: Impairments,
) -> Pair {
    let mut world = World::new(seed);
    let sender = world.add_host(sender);
    let receiver = world.add_host(Toy::default());
    world.add_socket(sender, addr(1));
    world.add_socket(receiver, addr(2));
    let link = world.add_link(link).unwrap();
    world.add_route(
        addr(1),
        addr(2),
        Route {
            links: vec![link],
            jitter,
            impairments,
            ..Route::default()
        },
    );
    Pair {
        world,
        sender,
        receiver,
        link,
    }
}

#[test]
fn a_datagram_takes_its_time() {
    let mut pair = pair(
        1,
        Toy::sender(addr(2), 2, Duration::ZERO),
        twenty_mbps(),
        Duration::ZERO,
        Impairments::default(),
    );
    pair.world.run_until(Time::from_millis(100));
    let got = &pair.world.host(pair.receiver).got;
    // 1500 B with headers: 600 us each, one after the other, then 10 ms.
    assert_eq!(
        got.iter().map(|(at, _)| *at).collect::<Vec<_>>(),
        [Time::from_micros(10_600), Time::from_micros(11_200)]
    );
    assert_eq!(pair.world.link_stats(pair.link).bytes_delivered, 3000);
    assert_eq!(pair.world.now(), Time::from_millis(100));
}

#[test]
fn links_in_series_and_answers() {
    let mut world = World::new(1);
    let sender = world.add_host(Toy::sender(addr(2), 1, MS));
    let echo = world.add_host(Toy {
        echo: true,
        ..Toy::default()
    });
    world.add_socket(sender, addr(1));
    world.add_socket(echo, addr(2));
    let links = [
        world.add_link(twenty_mbps()).unwrap(),
        world.add_link(twenty_mbps()).unwrap(),
    ];
    world.add_route(addr(1), addr(2), Route::over(links));
    world.add_route(addr(2), addr(1), Route::default());
    world.run_until(Time::from_millis(100));
    // Store and forward: both links serialise it.
    assert_eq!(world.host(sender).got[0].0, Time::from_micros(21_200));
}

#[test]
fn two_routes_share_one_queue() {
    let mut world = World::new(1);
    let link = world
        .add_link(LinkConfig {
            queue: Queue::DropTail(Limit::Packets(10)),
            ..twenty_mbps()
        })
        .unwrap();
    let receiver = world.add_host(Toy::default());
    world.add_socket(receiver, addr(9));
    for n in 1..=2 {
        // Each alone offers 20 Mbps.
        let sender = world.add_host(Toy::sender(addr(9), 1000, Duration::from_micros(600)));
        world.add_socket(sender, addr(n));
        world.add_route(addr(n), addr(9), Route::over([link]));
    }
    world.run_until(Time::from_millis(2000));
    let stats = world.link_stats(link);
    assert_eq!(stats.offered, 2000);
    assert!((1000..1020).contains(&stats.delivered), "{stats:?}");
    // The senders tick at the same instants; the seeded tie-break must not starve one of them.
    let share = |n| world.route_stats(addr(n), addr(9)).unwrap().delivered;
    assert!(share(1).min(share(2)) > 400, "{} {}", share(1), share(2));
}

#[test]
fn jitter_delays_without_reordering() {
    let sender = Toy::sender(addr(2), 500, Duration::from_micros(700));
    let mut pair = pair(3, sender, twenty_mbps(), MS, Impairments::default());
    pair.world.run_until(Time::from_millis(1000));
    let receiver = pair.world.host(pair.receiver);
    assert!(receiver.numbers().into_iter().eq(0..500));
    let delays = receiver
        .got
        .iter()
        .zip(0..)
        .map(|((at, _), n)| at.since(Time::from_micros(700 * n + 10_600)));
    let mean = delays.clone().sum::<Duration>() / 500;
    assert!(delays.max().unwrap() > MS / 2);
    // A little above 0.5 ms: a packet also waits for the one before it.
    assert!((MS * 45 / 100..MS).contains(&mean), "{mean:?}");
}

#[test]
fn a_link_in_the_dark_loses_what_is_under_way() {
    let mut pair = pair(
        1,
        Toy::sender(addr(2), 100, MS),
        twenty_mbps(),
        Duration::ZERO,
        Impairments::default(),
    );
    pair.world.run_until(Time::from_millis(30));
    pair.world.set_link_up(pair.link, false);
    pair.world.run_until(Time::from_millis(50));
    pair.world.set_link_up(pair.link, true);
    pair.world.run_until(Time::from_millis(200));
    // Number n leaves at n ms and needs 10.6: those of 20 to 50 ms are lost, what was sent at 50 ms
    // included.
    let numbers = pair.world.host(pair.receiver).numbers();
    assert!(numbers.into_iter().eq((0..=19).chain(51..=99)));
    assert_eq!(pair.world.link_stats(pair.link).dropped_down, 31);
    assert_eq!(pair.world.route_stats(addr(1), addr(2)).unwrap().lost, 31);
}

#[test]
fn impairments_happen_as_often_as_they_should() {
    let impairments = Impairments {
        duplicate: 0.1,
        reorder: 0.2,
        reorder_by: 20 * MS,
        corrupt: 0.05,
        truncate: 0.02,
    };
    let sender = Toy {
        size: 100,
        ..Toy::sender(addr(2), 10_000, MS)
    };
    let mut pair = pair(7, sender, twenty_mbps(), Duration::ZERO, impairments);
    pair.world.run_until(Time::from_millis(11_000));
    let stats = pair.world.route_stats(addr(1), addr(2)).unwrap();
    // Four standard deviations of a binomial each.
    let near = |n: u64, p: f64, of: u64| {
        (n as f64 - p * of as f64).abs() <= 4.0 * (p * (1.0 - p) * of as f64).sqrt()
    };
    assert_eq!(
        (stats.sent, stats.delivered),
        (10_000, 10_000 + stats.duplicated)
    );
    assert!(near(stats.duplicated, 0.1, 10_000), "{stats:?}");
    assert!(near(stats.reordered, 0.2, stats.delivered), "{stats:?}");
    assert!(near(stats.corrupted, 0.05, stats.delivered), "{stats:?}");
    assert!(near(stats.truncated, 0.02, stats.delivered), "{stats:?}");
    let whole: Vec<_> = pair
        .world
        .host(pair.receiver)
        .got
        .iter()
        .filter(|(_, data)| data.len() == 100)
        .collect();
    assert_eq!(whole.len() as u64, stats.delivered - stats.truncated);
    let overtaken = whole
        .windows(2)
        .filter(|w| w[0].1[..4] > w[1].1[..4])
        .count();
    assert!(overtaken > 500, "{overtaken}");
}

#[test]
fn nowhere_and_nobody_are_counted() {
    let mut pair = pair(
        1,
        Toy::sender(addr(3), 2, MS),
        twenty_mbps(),
        Duration::ZERO,
        Impairments::default(),
    );
    pair.world.run_until(Time::from_millis(50));
    assert_eq!(
        pair.world.stats(),
        WorldStats {
            sent: 2,
            unroutable: 2,
            ..WorldStats::default()
        }
    );
    pair.world.inject(addr(1), addr(4), vec![1]);
    pair.world.inject(addr(1), addr(2), vec![0, 0, 0, 9]);
    pair.world.set_frozen(pair.receiver, true);
    pair.world.inject(addr(1), addr(2), vec![3]);
    assert_eq!(pair.world.host(pair.receiver).numbers(), [9]);
    let stats = pair.world.stats();
    assert_eq!((stats.arrived, stats.unclaimed), (1, 2));
}

#[test]
fn a_frozen_host_goes_on_where_it_stopped() {
    let mut pair = pair(
        1,
        Toy::sender(addr(2), 10, MS),
        twenty_mbps(),
        Duration::ZERO,
        Impairments::default(),
    );
    pair.world.run_until(Time::from_micros(4500));
    pair.world.set_frozen(pair.sender, true);
    pair.world.run_until(Time::from_millis(100));
    assert_eq!(pair.world.host(pair.receiver).got.len(), 5);
    pair.world.set_frozen(pair.sender, false);
    pair.world.run_until(Time::from_millis(200));
    assert_eq!(pair.world.host(pair.receiver).got.len(), 10);
}

#[test]
fn captures_the_last_datagrams() {
    let mut pair = pair(
        1,
        Toy::sender(addr(2), 10, MS),
        twenty_mbps(),
        Duration::ZERO,
        Impairments::default(),
    );
    pair.world.capture(3);
    pair.world.run_until(Time::from_millis(100));
    let last: Vec<u8> = pair.world.captured().map(|c| c.data[3]).collect();
    assert_eq!(last, [7, 8, 9]);
    assert!(
        pair.world
            .captured()
            .all(|c| c.from == addr(1) && c.to == addr(2))
    );
}

#[test]
#[should_panic(expected = "still asks for a timeout")]
fn a_host_that_never_rests_is_found_out() {
    struct Restless;
    impl Host for Restless {
        fn handle_datagram(&mut self, _: Time, _: Arrival<'_>) {}
        fn poll_transmit(&mut self, _: Time, _: &mut Vec<u8>) -> Option<Departure> {
            None
        }
        fn timeout(&self) -> Option<Time> {
            Some(Time::ZERO)
        }
        fn handle_timeout(&mut self, _: Time) {}
    }
    let mut world = World::new(1);
    world.add_host(Restless);
    world.run_until(Time::from_millis(1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn conservation_and_determinism(
        seed: u64, loss in 0.0..0.3_f64, duplicate in 0.0..0.3_f64, reorder in 0.0..0.3_f64,
        corrupt in 0.0..0.3_f64, jitter_us in 0u64..2000,
    ) {
        let run = |seed| {
            let impairments = Impairments {
                duplicate,
                reorder,
                reorder_by: 5 * MS,
                corrupt,
                truncate: 0.05,
            };
            let link = LinkConfig { loss: Loss::Bernoulli(loss), ..twenty_mbps() };
            let sender = Toy::sender(addr(2), 200, Duration::from_micros(500));
            let mut pair = pair(seed, sender, link, Duration::from_micros(jitter_us), impairments);
            pair.world.run_until(Time::from_millis(1000));
            let stats = pair.world.route_stats(addr(1), addr(2)).unwrap();
            (stats, pair.world.trace_hash(), pair.world.host(pair.receiver).got.len() as u64)
        };
        let (stats, hash, got) = run(seed);
        prop_assert_eq!(stats.sent + stats.duplicated, stats.delivered + stats.lost);
        prop_assert_eq!(stats.delivered, got);
        prop_assert_eq!(run(seed), (stats, hash, got));
        prop_assert_ne!(run(seed ^ 1).1, hash);
    }
}

//! Experiments of any kind.

use std::time::Duration;

use manyway_control::{
    Growth, LossDetection, Options, RetransmissionTimeout, SenderConfig, SlowStartKind,
};
use manyway_control::{LawSpec, registry};
use manyway_network::{
    Change, CoDel, Drr, FqCoDel, Late, Limit, LinkConfig, Loss, PathSpec, Pie, Priority, Queue,
    Red, Timetable, Topology,
};
use manyway_scenario::{AckPolicy, Distribution, Experiment, Flow, Lifetime, SeriesKind};
use manyway_units::{Rate, Time};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use crate::validity::setup;

/// Packets are at most this large, so that every queue has room for one.
const LARGEST: u32 = 3000;

/// Anything, for up to 8 s.
pub(super) fn experiment() -> impl Strategy<Value = Experiment> {
    let topology = topology(link(queue(1), loss(1.0), timetable(8000)));
    let experiment = (topology, 200..8000_u64).prop_flat_map(|(topology, duration)| {
        let paths = topology.paths.len();
        let flows = vec(flow(paths, duration, loss(1.0)), 1..=3);
        (Just(topology), flows, Just(duration), 10..500_u64)
    });
    experiment.prop_map(|(topology, flows, duration, interval)| {
        let span = (0.0, duration as f64 / 1e3);
        let mut experiment = setup::experiment(topology, flows, span);
        experiment.measure.interval = Duration::from_millis(interval);
        experiment.measure.series = vec![
            SeriesKind::Rate,
            SeriesKind::Window,
            SeriesKind::Rtt,
            SeriesKind::Queue,
            SeriesKind::Load,
            SeriesKind::Drops,
        ];
        experiment
    })
}

/// Transfers of up to 600 packets with half an hour's time. Queues have room for a few packets:
/// with a single place, a probe on one path and the data on another can meet there in the same
/// order time after time, for ever where nothing is random.
pub(super) fn transfers() -> impl Strategy<Value = Experiment> {
    let changes = timetable(3000).prop_map(|mut timetable| {
        timetable.period = None;
        if let Some(last) = timetable.changes.last_mut() {
            last.up = Some(true);
        }
        timetable
    });
    topology(link(queue(4), mild_loss(), changes)).prop_flat_map(|topology| {
        let paths = topology.paths.len();
        let flows = vec((flow(paths, 3000, mild_loss()), 1..300_000_u64), 1..=3);
        (Just(topology), flows).prop_map(|(topology, flows)| {
            let flows = flows.into_iter().map(|(mut flow, size)| {
                // One path stays.
                if let Some(first) = flow.lifetimes.first_mut() {
                    *first = Lifetime::default();
                }
                Flow {
                    size: Some(size.into()),
                    pause: None,
                    stop: None,
                    ..flow
                }
            });
            setup::experiment(topology, flows.collect(), (0.0, 1800.0))
        })
    })
}

fn millis(range: std::ops::Range<u64>) -> impl Strategy<Value = Duration> {
    (range.start * 1000..range.end * 1000).prop_map(Duration::from_micros)
}

/// From 100 kbps to 10 Mbps, every order of magnitude alike.
fn rate() -> impl Strategy<Value = Rate> {
    (5.0..7.0_f64).prop_map(|exponent| Rate::from_bits_per_sec(10_f64.powf(exponent)))
}

fn topology(link: impl Strategy<Value = LinkConfig> + Clone) -> impl Strategy<Value = Topology> {
    let links = vec(link, 1..=4);
    let topology = links.prop_flat_map(|links| {
        let indices: Vec<usize> = (0..links.len()).collect();
        let forward = subsequence(indices.clone(), 1..=indices.len()).prop_shuffle();
        let back = prop_oneof![
            2 => Just(Vec::new()),
            1 => subsequence(indices.clone(), 1..=indices.len()).prop_shuffle()
        ];
        let paths = vec((forward, back, millis(0..100)), 1..=3);
        (Just(links), paths)
    });
    topology.prop_map(|(links, paths)| Topology {
        links: setup::named_links(links),
        paths: paths
            .into_iter()
            .enumerate()
            .map(|(n, (links, reverse, return_delay))| PathSpec {
                name: format!("p{n}"),
                links,
                reverse,
                return_delay,
            })
            .collect(),
    })
}

fn link(
    queue: impl Strategy<Value = Queue> + Clone,
    loss: impl Strategy<Value = Loss> + Clone,
    timetable: impl Strategy<Value = Timetable> + Clone,
) -> impl Strategy<Value = LinkConfig> + Clone {
    let delay = (0..100_000_u64).prop_map(Duration::from_micros);
    let jitter = prop_oneof![
        Just(Duration::ZERO),
        (0..20_000_u64).prop_map(Duration::from_micros)
    ];
    let rate = (5.0..7.0_f64).prop_map(|exponent| Rate::from_bits_per_sec(10_f64.powf(exponent)));
    let late = prop_oneof![3 => Just(0.0), 1 => 0.0..0.2_f64].prop_map(|share| Late {
        share,
        by: Duration::from_millis(20),
    });
    let order = (any::<bool>(), late);
    (rate, delay, queue, loss, jitter, timetable, order).prop_map(
        |(rate, delay, queue, loss, jitter, timetable, (overtaking, late))| LinkConfig {
            queue,
            loss,
            jitter,
            overtaking,
            late,
            timetable,
            ..LinkConfig::new(rate, delay)
        },
    )
}

fn limit(least: u32) -> impl Strategy<Value = Limit> + Clone {
    prop_oneof![
        (least..100).prop_map(Limit::Packets),
        (u64::from(LARGEST * least)..200_000).prop_map(Limit::Bytes)
    ]
}

/// Queues that decide about packets when they arrive.
fn early_queue(least: u32) -> impl Strategy<Value = Queue> + Clone {
    let red = (
        limit(least),
        0.0..30.0,
        1.0..50.0,
        0.01..1.0,
        0.001..1.0,
        any::<[bool; 3]>(),
    )
        .prop_map(|(limit, min, more, max_p, weight, [gentle, wait, ecn])| {
            Queue::Red(Red {
                max_p,
                weight,
                gentle,
                wait,
                ecn,
                ..Red::new(limit, min, min + more)
            })
        });
    let pie = (limit(least), any::<bool>()).prop_map(|(limit, ecn)| {
        Queue::Pie(Pie {
            ecn,
            ..Pie::new(limit)
        })
    });
    prop_oneof![
        4 => limit(least).prop_map(Queue::DropTail),
        2 => red,
        1 => pie,
    ]
}

fn queue(least: u32) -> impl Strategy<Value = Queue> + Clone {
    let late = (limit(least), 0..4_u8, any::<bool>()).prop_map(|(limit, kind, ecn)| {
        let codel = CoDel {
            ecn,
            ..CoDel::new(limit)
        };
        match kind {
            0 => Queue::CoDel(codel),
            1 => Queue::Drr(Drr::new(limit)),
            2 => Queue::FqCoDel(FqCoDel {
                codel,
                queues: 2,
                ..FqCoDel::new(limit)
            }),
            _ => Queue::Priority(Priority { limit }),
        }
    });
    prop_oneof![2 => early_queue(least), 1 => late]
}

fn loss(most: f64) -> impl Strategy<Value = Loss> + Clone {
    let bursts = (0.0..1.0, 0.01..1.0, 0.0..0.5, 0.0..1.0).prop_map(
        |(good_to_bad, bad_to_good, good, bad)| Loss::GilbertElliott {
            good_to_bad,
            bad_to_good,
            good,
            bad,
        },
    );
    prop_oneof![
        2 => Just(Loss::None),
        1 => (0.0..0.1).prop_map(Loss::Bernoulli),
        1 => (0.0..most).prop_map(Loss::Bernoulli),
        1 => bursts
    ]
}

/// At most one packet in ten.
fn mild_loss() -> impl Strategy<Value = Loss> + Clone {
    let bursts =
        (0.0..0.03, 0.3..1.0).prop_map(|(good_to_bad, bad_to_good)| Loss::GilbertElliott {
            good_to_bad,
            bad_to_good,
            good: 0.0,
            bad: 1.0,
        });
    prop_oneof![
        2 => Just(Loss::None),
        1 => (0.0..0.1).prop_map(Loss::Bernoulli),
        1 => bursts
    ]
}

/// Up to four changes before `end` ms, with or without a period.
fn timetable(end: u64) -> impl Strategy<Value = Timetable> + Clone {
    let rate = (5.0..7.0_f64).prop_map(|exponent| Rate::from_bits_per_sec(10_f64.powf(exponent)));
    let delay = (0..100_000_u64).prop_map(Duration::from_micros);
    let change = (
        option::of(rate),
        option::of(delay),
        option::of(any::<bool>()),
    );
    // A change says something.
    let change = change.prop_map(|(rate, delay, up)| match (rate, delay, up) {
        (None, None, None) => (None, None, Some(true)),
        some => some,
    });
    let at = proptest::collection::btree_set(0..end, 1..=4);
    let some = (at, vec(change, 4), option::of(1..2000_u64)).prop_map(|(at, changes, more)| {
        let last = at.iter().next_back().copied().unwrap_or(0);
        Timetable {
            changes: at
                .iter()
                .zip(changes)
                .map(|(&at, (rate, delay, up))| Change {
                    at: Time::from_millis(at),
                    rate,
                    delay,
                    up,
                })
                .collect(),
            period: more.map(|more| Duration::from_millis(last + more)),
        }
    });
    prop_oneof![2 => Just(Timetable::default()), 1 => some]
}

fn law() -> impl Strategy<Value = LawSpec> {
    let names: Vec<&str> = registry::laws().map(|law| law.name()).collect();
    let parametrised = [
        "ewtcp:a=0.25",
        "generalized:beta=1,n=1,eta=0",
        "generalized:beta=0,eta=0,cap=1.5",
    ];
    let any = prop_oneof![4 => select(names), 1 => select(parametrised.to_vec())];
    any.prop_map(|law| law.parse().expect("the law is known"))
}

fn options() -> impl Strategy<Value = Options> {
    (option::of(1.0..4.0), any::<[bool; 3]>()).prop_map(|(floor, [standard, acks, grows])| {
        let options = match standard {
            true => Options::default().with_slow_start(SlowStartKind::Standard),
            false => Options::default(),
        };
        let options = match acks {
            true => options.with_growth(Growth::Acks),
            false => options,
        };
        let options = options.with_growth_in_recovery(grows);
        match floor {
            Some(floor) => options.with_window_floor(floor),
            None => options,
        }
    })
}

fn sender() -> impl Strategy<Value = (SenderConfig, AckPolicy)> {
    let ack = (1..12_u32, millis(0..200), 40..100_u32);
    (
        500..=LARGEST,
        any::<bool>(),
        1.0..40.0,
        1..5_u32,
        ack,
        prop_oneof![Just(1), Just(2), Just(10)],
        prop_oneof![
            Just(LossDetection::Fixed),
            Just(LossDetection::Packets),
            Just(LossDetection::Adaptive),
        ],
        prop_oneof![
            3 => Just(RetransmissionTimeout::Probe),
            1 => millis(1..1000).prop_map(|min| RetransmissionTimeout::Tcp { min }),
        ],
    )
        .prop_map(
            |(
                packet_size,
                pacing,
                initial_window,
                packet_threshold,
                (every, delay, bytes),
                often,
                loss_detection,
                retransmission_timeout,
            )| {
                let every = if often == 1 { 1 } else { every };
                let max_delay = if every == 1 { Duration::ZERO } else { delay };
                let sender = SenderConfig {
                    packet_size,
                    pacing,
                    initial_window,
                    packet_threshold,
                    loss_detection,
                    retransmission_timeout,
                    max_ack_delay: max_delay,
                    ..SenderConfig::default()
                };
                let ack = AckPolicy {
                    every,
                    max_delay,
                    bytes,
                    times: true,
                };
                (sender, ack)
            },
        )
}

/// When a flow is there and what it has to send.
#[derive(Debug, Clone)]
struct Life {
    start: Time,
    start_spread: Duration,
    stop: Option<Time>,
    size: Option<Distribution>,
    pause: Option<Distribution>,
    rate: Option<Rate>,
}

fn life(duration: u64) -> impl Strategy<Value = Life> {
    (
        0..duration / 2 + 1,
        prop_oneof![Just(Duration::ZERO).boxed(), millis(0..1000).boxed()],
        option::weighted(0.3, 1..duration),
        option::of(size()),
        option::weighted(0.3, drawn(1e6..1e9)),
        option::weighted(0.3, rate()),
    )
        .prop_map(|(start, start_spread, stop, size, pause, rate)| Life {
            start: Time::from_millis(start),
            start_spread,
            // Scenarios don't let a flow stop before it starts.
            stop: stop.map(|after| Time::from_millis(start + after)),
            pause: pause.filter(|_| size.is_some()),
            size,
            rate,
        })
}

fn size() -> impl Strategy<Value = Distribution> {
    prop_oneof![
        2 => (1..2_000_000_u64).prop_map(Into::into),
        1 => drawn(1.0..1e6),
    ]
}

/// With a mean in this range.
fn drawn(mean: std::ops::Range<f64>) -> impl Strategy<Value = Distribution> {
    (mean, any::<bool>()).prop_map(|(mean, heavy)| match heavy {
        true => Distribution::Pareto {
            scale: mean / 3.0,
            shape: 1.5,
        },
        false => Distribution::Exponential { mean },
    })
}

fn lifetimes(duration: u64, paths: usize) -> impl Strategy<Value = Vec<Lifetime>> {
    let one = (0..duration, option::of(1..duration)).prop_map(|(from, lasts)| Lifetime {
        from: Time::from_millis(from),
        until: lasts.map(|lasts| Time::from_millis(from + lasts)),
    });
    prop_oneof![
        3 => Just(Vec::new()),
        1 => vec(prop_oneof![Just(Lifetime::default()), one], paths)
    ]
}

fn flow(
    paths: usize,
    duration: u64,
    loss: impl Strategy<Value = Loss> + Clone,
) -> impl Strategy<Value = Flow> {
    let all: Vec<usize> = (0..paths).collect();
    let access = link(early_queue(4), loss, Just(Timetable::default()));
    let ways = subsequence(all, 1..=paths).prop_flat_map(move |paths| {
        let lifetimes = lifetimes(duration, paths.len());
        (Just(paths), lifetimes)
    });
    let jitter = prop_oneof![Just(Duration::ZERO).boxed(), millis(0..20).boxed()];
    let wire = (
        option::weighted(0.3, access),
        prop_oneof![Just(Duration::ZERO).boxed(), millis(0..50).boxed()],
        jitter,
        any::<bool>(),
    );
    (
        law(),
        options(),
        ways,
        life(duration),
        sender(),
        wire,
        0..100_u32,
    )
        .prop_map(
            |(law, options, (paths, lifetimes), life, (sender, ack), wire, headers)| {
                let (access, extra, jitter, ecn) = wire;
                // A path manager watches one transfer.
                let unmanaged = law.path_manager().is_none();
                let back = access.as_ref().map_or(Duration::ZERO, |link| link.delay);
                Flow {
                    law,
                    options,
                    lifetimes,
                    access: access.map(Into::into),
                    extra_delay: extra,
                    extra_return: extra + back,
                    start: life.start,
                    start_spread: life.start_spread,
                    stop: life.stop,
                    size: life.size,
                    pause: life.pause.filter(|_| unmanaged),
                    rate: life.rate,
                    headers,
                    jitter,
                    sender,
                    ack,
                    ecn,
                    ..setup::flow("reno", &paths)
                }
            },
        )
}

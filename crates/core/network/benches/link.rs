//! Cost of one offer, in ns: `cargo bench -p manyway-network`.
//!
//! Each link gets packets of 1500 bytes at random gaps that load it fully on average, so that its
//! queue is neither always empty nor always full.

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use manyway_network::{
    Change, Limit, Link, LinkConfig, Loss, Packet, Queue, Red, Timetable, Verdict,
};
use manyway_units::{Rate, Time};

const OFFERS: usize = 10_000;
const PACKET: Packet = Packet {
    bytes: 1500,
    ecn: true,
    l4s: false,
    flow: 0,
    class: 0,
};

fn sixty_mbps() -> LinkConfig {
    LinkConfig {
        queue: Queue::DropTail(Limit::Packets(100)),
        ..LinkConfig::new(Rate::from_mbps(60.0), Duration::from_millis(20))
    }
}

/// In ns, uniform between 0 and twice the time that a packet takes at 60 Mbps: 200 µs.
fn gaps() -> Vec<u64> {
    let mut state = 1u64;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % 400_000
    };
    (0..OFFERS).map(|_| next()).collect()
}

/// What a caller looks at. (A whole verdict in a black box costs a store-forwarding stall that no
/// caller has.)
fn arrival(verdict: Verdict) -> u64 {
    match verdict {
        Verdict::Delivered {
            arrives, marked, ..
        } => arrives.as_nanos() ^ u64::from(marked),
        Verdict::Queued(_) | Verdict::Dropped(_) => 0,
    }
}

fn offers(criterion: &mut Criterion) {
    let red = Red {
        ecn: true,
        ..Red::new(Limit::Packets(100), 20.0, 60.0)
    };
    let change = |ms, mbps| Change {
        at: Time::from_millis(ms),
        rate: Some(Rate::from_mbps(mbps)),
        ..Change::default()
    };
    let configs = [
        ("droptail", sixty_mbps()),
        (
            "droptail_bytes",
            LinkConfig {
                queue: Queue::DropTail(Limit::Bytes(150_000)),
                ..sixty_mbps()
            },
        ),
        (
            "red",
            LinkConfig {
                queue: Queue::Red(red),
                ..sixty_mbps()
            },
        ),
        (
            "bernoulli_jitter",
            LinkConfig {
                loss: Loss::Bernoulli(0.01),
                jitter: Duration::from_millis(1),
                ..sixty_mbps()
            },
        ),
        (
            "timetable",
            LinkConfig {
                timetable: Timetable {
                    changes: vec![change(0, 80.0), change(100, 40.0)],
                    period: Some(Duration::from_millis(200)),
                },
                ..sixty_mbps()
            },
        ),
    ];
    let gaps = gaps();
    let mut group = criterion.benchmark_group("offer");
    group.throughput(Throughput::Elements(OFFERS as u64));
    for (name, config) in configs {
        let mut link = Link::new(config).unwrap();
        let mut now = 0;
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let mut sum = 0u64;
                for &gap in &gaps {
                    now += gap;
                    sum ^= arrival(link.offer(Time::from_nanos(now), black_box(PACKET)));
                }
                sum
            });
        });
    }
    group.finish();
}

criterion_group!(benches, offers);
criterion_main!(benches);

//! How transfers start: what slow start loses, and how long the first megabytes take.

use std::time::Duration;

use manyway_network::LinkConfig;

use crate::common::{MS, Setup, mbps};

const MIB: u64 = 1 << 20;

/// How long an upload takes over two such links, and how many packets it loses.
fn sent(law: &str, link: &LinkConfig, bytes: u64) -> (Duration, u64) {
    let law = law.parse().expect("a law");
    let setup = Setup::new(1).config(|config| config.cc = law);
    let setup = setup.path(link.clone()).path(link.clone());
    let mut run = setup.upload(bytes).build();
    let took = run.complete(60_000 * MS);
    let lost = run
        .client_stats()
        .paths
        .iter()
        .map(|p| p.packets_lost)
        .sum();
    (took, lost)
}

/// Without a way out within a round, slow start loses 300 to 1,300 of these 7,300 packets.
#[test]
fn slow_start_ends_before_the_queue_overflows() {
    for law in ["lia", "cubic", "auto"] {
        // It loses up to 12, 116, 10 and 186.
        for (mbit, most) in [(50.0, 40), (80.0, 150), (100.0, 40), (140.0, 220)] {
            let (took, lost) = sent(law, &mbps(mbit, 10), 10 * MIB);
            let what = format!("{law} on twice {mbit} Mbps");
            assert!(lost < most, "{what}: {lost} lost");
            // What a path carries in a round trip stays in use: 0.2 s to start, and the rest at
            // full rate.
            let ideal = Duration::from_secs_f64(0.2 + 8.0 * 10.5 * 1.05 / (2.0 * mbit));
            assert!(took < ideal, "{what}: {took:?}, {ideal:?} allowed");
        }
    }
}

/// Jitter holds up many packets in a row: they are no queue. With 15 ms of it at 300 Mbps, 3 MiB
/// take 0.37 s with HyStart++ alone, and 0.41 s if growth rests whenever eight samples are as late
/// as the latest of the round before.
#[test]
fn jitter_is_no_queue() {
    let seeds = 6;
    let took = |seed| {
        let setup = Setup::new(seed).jitter(15 * MS).path(mbps(300.0, 10));
        setup.upload(3 * MIB).build().complete(60_000 * MS)
    };
    let mean = (1..=seeds).map(took).sum::<Duration>() / seeds as u32;
    assert!(mean < 385 * MS, "{mean:?}");
}

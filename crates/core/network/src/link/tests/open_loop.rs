//! RED under a load that doesn't react: the queue settles where RED drops the surplus.

use super::*;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

const PACKETS: u64 = 400_000;

/// Share dropped and mean number of packets waiting, of arrivals at `load` times the link's rate,
/// their gaps between half and one and a half of the mean: Poisson arrivals would make the queue
/// wander over the whole range of the drop probability, which is not linear.
fn run(red: Red, load: f64) -> (f64, f64) {
    let mut link = link(twenty_mbps(Queue::Red(red)));
    let mut random = Pcg64Mcg::seed_from_u64(17);
    let mut now = 0.0;
    let mut start = (Time::ZERO, LinkStats::default());
    for n in 0..PACKETS {
        // 600 µs per packet.
        now += 600e-6 / load * random.random_range(0.5..1.5);
        let time = Time::from_secs_f64(now);
        if n == PACKETS / 10 {
            start = (time, link.stats_at(time));
        }
        link.offer(time, Packet::new(1500));
    }
    let end = Time::from_secs_f64(now);
    let (before, after) = (start.1, link.stats_at(end));
    assert_eq!(after.dropped(), after.dropped_early);
    let dropped = (after.dropped() - before.dropped()) as f64;
    let offered = (after.offered - before.offered) as f64;
    // Little's law, without the packet in service.
    let waited = (after.sojourn - before.sojourn) - (after.busy - before.busy);
    (
        dropped / offered,
        waited.as_secs_f64() / end.since(start.0).as_secs_f64(),
    )
}

#[test]
fn mean_queue_and_drop_rate_agree_with_the_formula() {
    let red = Red::new(Limit::Packets(1000), 20.0, 60.0);
    // Beyond the upper threshold, in gentle mode, at a load of 1.3.
    for (wait, load) in [(true, 1.05), (true, 1.02), (false, 1.05), (true, 1.3)] {
        let (drops, queue) = run(Red { wait, ..red }, load);
        // The surplus. The number of arrivals in the measured time has a standard deviation of
        // sqrt(n/12), and what the queue holds at its beginning and end differs by some packets.
        let surplus = 1.0 - 1.0 / load;
        let measured = 0.9 * PACKETS as f64;
        let tolerance = 4.0 / (12.0 * measured).sqrt() + 40.0 / measured;
        assert!((drops - surplus).abs() < tolerance, "{drops} at {load}");
        // Drops are 3/(2p) − 1/2 packets apart, without `wait` 1/(2p); which average gives that p?
        let p = match wait {
            true => 1.5 / (1.0 / drops + 0.5),
            false => drops / 2.0,
        };
        let average = match p <= 0.1 {
            true => 20.0 + 40.0 * p / 0.1,
            false => 60.0 + 60.0 * (p - 0.1) / 0.9,
        };
        // A packet sees the queue as it is just before it joins: half a packet shorter than on
        // average.
        let seen = queue - 0.5;
        // 1/p is no whole number, which moves the mean distance by up to half a packet in 40 or 20;
        // in gentle mode in 4.
        let tolerance = if load > 1.2 { 0.03 } else { 0.015 };
        assert!(
            (seen / average - 1.0).abs() < tolerance,
            "{seen} for {average} at {load}"
        );
    }
}

//! One packet in N lost, at a constant round-trip time: the deterministic model behind √(3/2).
//!
//! A pipe in a few lines stands around the sender and Reno themselves, to count whole cycles.
//! `traffic` has the same with a link that loses by period.

use std::collections::VecDeque;
use std::time::Duration;

use manyway_control::laws::Reno;
use manyway_control::{
    AckInfo, Coupled, Options, Outcome, Permit, Sender, SenderConfig, Sent, SlowStartKind,
};
use manyway_units::Time;

use crate::validity::setup::assert_near;

const RTT: Duration = Duration::from_millis(100);

/// Every packet numbered k·`every` + `every`/2 is lost; all others are acknowledged after [`RTT`].
/// Counts those after `warm_up` cycles and returns them per round-trip time.
fn packets_per_round_trip(every: u64, warm_up: u64, cycles: u64) -> f64 {
    let mut reno = Coupled::new(
        Reno,
        Options::default().with_slow_start(SlowStartKind::Standard),
    );
    let config = SenderConfig {
        pacing: false,
        max_ack_delay: Duration::ZERO,
        // About what it will be, so that losses begin in congestion avoidance or soon lead there.
        initial_window: (every as f64).sqrt(),
        ..SenderConfig::default()
    };
    let mut now = Time::ZERO;
    let mut sender = Sender::new(config, now, &mut reno);
    let mut under_way = VecDeque::new();
    let mut outcome = Outcome::default();
    let mut counted = 0_u64;
    let mut since = None;
    loop {
        while let Permit::Now { packets } = sender.permit(now, &reno) {
            for _ in 0..packets {
                let number = sender.on_sent(
                    now,
                    Sent {
                        bytes: config.packet_size,
                        ack_eliciting: true,
                        app_limited: false,
                        payload: (),
                    },
                );
                if number % every != every / 2 {
                    under_way.push_back((now + RTT, number));
                }
            }
        }
        let (at, number) = under_way.pop_front().expect("the window is never empty");
        now = at;
        let ack = AckInfo {
            largest: number,
            ranges: &[number..=number],
            delay: Duration::ZERO,
            ce_count: None,
            receive_time: None,
            elsewhere: false,
        };
        outcome.clear();
        let taken = sender.on_ack(now, ack, &mut reno, &mut outcome);
        assert_eq!(taken, Ok(()));
        let events = sender.stats().loss_events;
        if events >= warm_up {
            let from = *since.get_or_insert(now);
            counted += 1;
            if events >= warm_up + cycles {
                assert_eq!(sender.stats().timeouts, 0);
                return counted as f64 / (now.since(from).as_secs_f64() / RTT.as_secs_f64());
            }
        }
    }
}

/// The cycle of N packets, with what the sender does around a loss: the f = ⌊W⌋ acknowledgements
/// from the cut on don't let the window grow, so N − 1 = 3/8 W² − ln(2)/2 + f. Until the packets
/// sent after the cut are acknowledged 1.5 round trips pass on average (half the window has to be
/// acknowledged before more than one of them is sent), and the growth from W/2 to W takes W/2 +
/// ln(2)/2 more, as ⌊w⌋ ≈ w − 1/2 packets are sent per round trip.
fn expected(every: f64) -> f64 {
    let packets = every - 1.0;
    // 3/8 W² + W = N − 1 + ln(2)/2 + 1/2, ⌊W⌋ ≈ W − 1/2.
    let right = packets + 2_f64.ln() / 2.0 + 0.5;
    let peak = (-1.0 + (1.0 + 1.5 * right).sqrt()) / 0.75;
    packets / (1.5 + peak / 2.0 + 2_f64.ln() / 2.0)
}

/// √(3/2)/√p packets per round trip (Mathis et al. 1997, equation 3) is reached as p → 0; on the
/// way there it is the cycle above, known to a packet or so of √(8/3p) and so to half a per cent.
#[test]
fn one_loss_in_so_many_packets() {
    for (every, cycles) in [(100, 2000), (1_000, 500), (10_000, 200), (100_000, 20)] {
        let measured = packets_per_round_trip(every, 10, cycles);
        let what = format!("packets per round trip at p = 1/{every}");
        assert_near(&what, measured, expected(every as f64), 0.005);
    }
    let limit = packets_per_round_trip(100_000, 10, 20) / 1e5_f64.sqrt();
    assert_near("constant", limit, 1.5_f64.sqrt(), 0.005);
}

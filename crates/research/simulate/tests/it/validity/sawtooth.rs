//! One Reno flow alone at a DropTail queue: the sawtooth of additive increase and multiplicative
//! decrease, computed by hand.
//!
//! Units: packets, and slots of the link (the time that it takes for a packet). The link has room
//! for `Q` packets, the one in service included; propagation there and back takes `D` slots, not a
//! whole number. While the link is busy acknowledgements come one per slot, and of the packets
//! under way ⌊D⌋ are on the wire, so that `K = ⌊D⌋ + Q` is the most that fits.
//!
//! * Growth: w ← w + 1/w per acknowledgement (RFC 5681, equation 3), so that w² grows by 2 + 1/w²:
//!   from a to b takes (b² − a²)/2 − ln(b/a)/2 acknowledgements.
//! * When w reaches K + 1 there is a packet too many: it is dropped. That shows when the third
//!   packet behind it is acknowledged, after K + 2 more acknowledgements; by then the window has
//!   grown by (K + 2)/(K + 1.5), a bit more than 1: one more packet too many was sent and dropped,
//!   and the window's **peak is W = K + 2** and a fraction. BDP + queue + 1, and 1 for the round
//!   trip until it shows.
//! * Both drops are one loss event: the window falls to W/2, the trough. Acknowledgements of what
//!   was sent before the cut don't let it grow (RFC 9002, section 7.3.2): **K acknowledgements
//!   without growth**, during the first half of which one packet is sent.
//! * So `N = 3/8 W² − ln(2)/2 + K` packets are acknowledged between loss events, and N + 2 sent.
//!   The textbook's 3/8 W² (M. Mathis, J. Semke, J. Mahdavi and T. Ott, "The macroscopic behavior
//!   of the TCP congestion avoidance algorithm", CCR 27(3), 1997) leaves recovery and the logarithm
//!   out.

use manyway_network::{Limit, LinkConfig, Queue};
use manyway_scenario::SeriesKind;
use manyway_simulate::packet::RunResult;

use crate::validity::setup::{
    PACKET_BITS, assert_near, experiment, flow, one_link, packets_per_second, run, seconds,
};

/// Slots per second, and what is measured of them: about a hundred loss events, so that whatever
/// part of a cycle hangs over at the ends changes a mean by a few thousandths.
const RATE: f64 = 1000.0;
const SLOTS: f64 = 400_000.0;
const OVERHANG: f64 = 0.005;

/// A link: propagation there and back in slots, room in packets.
struct Pipe {
    delay: f64,
    queue: u32,
}

/// Windows in packets, times in slots.
struct Sawtooth {
    /// K
    room: f64,
    /// W
    peak: f64,
    /// W/2
    trough: f64,
    /// Acknowledgements that let the window grow, between two loss events.
    growing: f64,
    /// N
    acknowledged: f64,
}

impl Pipe {
    fn sawtooth(&self) -> Sawtooth {
        let room = self.delay.floor() + f64::from(self.queue);
        // The step that reaches K + 1 goes beyond it by up to 1/(K + 1).
        let reached = room + 1.0 + 0.5 / (room + 1.0);
        let peak = (reached * reached + 2.0 * (room + 2.0)).sqrt();
        let trough = peak / 2.0;
        let growing = (peak * peak - trough * trough - 2_f64.ln()) / 2.0;
        Sawtooth {
            room,
            peak,
            trough,
            growing,
            acknowledged: growing + room,
        }
    }

    fn run(&self) -> Measured {
        let one_way = seconds(self.delay / RATE / 2.0);
        let link = LinkConfig {
            queue: Queue::DropTail(Limit::Packets(self.queue)),
            ..LinkConfig::new(packets_per_second(RATE), one_way)
        };
        // Slow start is over after a fifth.
        let span = (0.2 * SLOTS / RATE, 1.2 * SLOTS / RATE);
        let flows = vec![flow("reno", &[0])];
        let mut experiment = experiment(one_link(link, &[one_way]), flows, span);
        experiment.measure.series = vec![SeriesKind::Window];
        experiment.measure.interval = seconds(1.0 / RATE);
        Measured::of(run(&experiment, 1))
    }
}

/// What a run's series of windows shows, one value per slot.
struct Measured {
    result: RunResult,
    /// Before and after each cut.
    peaks: Vec<f64>,
    troughs: Vec<f64>,
    /// Slots between cuts.
    periods: Vec<f64>,
}

impl Measured {
    fn of(result: RunResult) -> Self {
        let all = &result.series[0].values;
        let values = &all[all.len() / 6..];
        let cuts = 1..values.len();
        let cuts: Vec<usize> = cuts.filter(|&at| values[at] < values[at - 1]).collect();
        Self {
            peaks: cuts.iter().map(|&at| values[at - 1]).collect(),
            troughs: cuts.iter().map(|&at| values[at]).collect(),
            periods: cuts
                .windows(2)
                .map(|cuts| (cuts[1] - cuts[0]) as f64)
                .collect(),
            result,
        }
    }

    /// What holds whether or not the queue runs empty: windows, packets and losses.
    fn check_windows(&self, sawtooth: &Sawtooth) {
        let Sawtooth { room, peak, .. } = *sawtooth;
        for (&measured, &trough) in self.peaks.iter().zip(&self.troughs) {
            // Not known is only by how much the window went beyond K + 1.
            assert!(
                (measured - peak).abs() <= 1.0 / room,
                "{measured}, not {peak}"
            );
            assert!(
                (trough - measured / 2.0).abs() < 1e-9,
                "{trough} after {measured}"
            );
        }
        let subflow = &self.result.flows[0].subflows[0];
        assert_eq!(subflow.packets_lost, 2 * subflow.loss_events);
        assert_eq!(subflow.timeouts, 0);
        let sent = subflow.packets_sent as f64 / subflow.loss_events as f64;
        // One loss event more or less, of 70 to 100.
        assert_near(
            "packets per loss event",
            sent,
            sawtooth.acknowledged + 2.0,
            0.015,
        );
    }

    /// The measured time is `period` slots for each loss event.
    fn check_period(&self, period: f64, tolerance: f64) {
        let mean = self.periods.iter().sum::<f64>() / self.periods.len() as f64;
        assert_near("slots between loss events", mean, period, tolerance);
        let events = self.result.flows[0].subflows[0].loss_events as f64;
        assert!(
            (events - SLOTS / period).abs() <= 1.0,
            "{events} loss events"
        );
        let rate = self.result.flows[0].goodput_bps / PACKET_BITS / RATE;
        let busy = self.result.links[0].utilisation;
        assert_near("goodput as share of the link", rate, busy, 1e-4);
    }
}

/// Half the peak (51 packets) is more than the wire holds (40), so the link is always busy: goodput
/// is its rate, a cycle takes N slots, and the round-trip time is proportional to what is under
/// way. Over time (a slot per acknowledgement, dw = dn/w) the window of the growing part has the
/// mean ∫w² dw / ∫w dw = (7/24 W³)/(3/8 W²) = 7/9 W, not the 3/4 W of a constant round-trip time.
#[test]
fn with_a_queue_that_never_runs_empty() {
    let pipe = Pipe {
        delay: 40.5,
        queue: 60,
    };
    let expected = pipe.sawtooth();
    let measured = pipe.run();
    measured.check_windows(&expected);
    // The series tells times to a slot, and the peak is known to 1/K.
    measured.check_period(expected.acknowledged, 1e-3);

    let Sawtooth {
        room,
        peak,
        trough,
        growing,
        acknowledged,
    } = expected;
    let flow = &measured.result.flows[0];
    let link = &measured.result.links[0];
    assert_near("goodput", flow.goodput_bps / PACKET_BITS, RATE, 1e-5);
    let area = (peak.powi(3) - trough.powi(3)) / 3.0;
    let window = (area + room * trough) / acknowledged;
    let subflow = &flow.subflows[0];
    assert_near("mean window", subflow.window_mean_packets, window, OVERHANG);
    // Only whole packets are under way, half a packet less than the window on average. In recovery
    // it first falls from K to W/2, a packet per slot, then stays there.
    let falling = (room - trough) * (room + trough) / 2.0;
    let staying = trough * trough;
    let under_way = (area - growing / 2.0 + falling + staying) / acknowledged;
    // Little's law, at a packet per slot.
    assert_near(
        "mean RTT in slots",
        subflow.rtt_mean_s * RATE,
        under_way,
        OVERHANG,
    );
    let queue = under_way - pipe.delay;
    assert_near("mean queue", link.queue_mean_packets, queue, 2.0 * OVERHANG);
    assert!(link.utilisation > 0.99999);
}

/// Room for 5 packets where the wire holds 100: the link is busy only from w = D + 1 on. Below, a
/// round trip takes D + 1 slots, in which ⌊w⌋ packets are acknowledged and w grows by ⌊w⌋/w: from a
/// to b takes (b − a) + ln(b/a)/2 round trips. Recovery takes the K − W/2 slots until the window is
/// open again, and a round trip. For queues and recoveries that are small against large windows
/// that means 3/8 W² packets in W/2 round trips of W slots: the textbook's 3/4 of the link, and a
/// mean window of 3/4 W.
#[test]
fn with_a_queue_that_hardly_holds_anything() {
    let pipe = Pipe {
        delay: 100.5,
        queue: 5,
    };
    let expected = pipe.sawtooth();
    let measured = pipe.run();
    measured.check_windows(&expected);

    let Sawtooth {
        room,
        peak,
        trough,
        acknowledged,
        ..
    } = expected;
    let round = pipe.delay + 1.0;
    let recovering = room - trough + round;
    let below = ((round - trough) + (round / trough).ln() / 2.0) * round;
    let above = (peak * peak - round * round) / 2.0;
    let period = recovering + below + above;
    // What happens in the round trip in which the link becomes busy is only true to a part of that
    // round trip, one of 55.
    let tolerance = 0.01;
    measured.check_period(period, tolerance);
    let link = &measured.result.links[0];
    assert_near(
        "utilisation",
        link.utilisation,
        acknowledged / period,
        tolerance,
    );
    let subflow = &measured.result.flows[0].subflows[0];
    let area =
        recovering * trough + below * (round + trough) / 2.0 + (peak.powi(3) - round.powi(3)) / 3.0;
    let window = area / period;
    assert_near(
        "mean window",
        subflow.window_mean_packets,
        window,
        tolerance,
    );
    assert_near("mean window against 3/4 W", window, 0.75 * peak, tolerance);
}

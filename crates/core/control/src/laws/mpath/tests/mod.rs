use std::time::Duration;

use super::*;
use crate::options::SlowStartKind;

mod properties;

const RTT: Duration = Duration::from_millis(100);

/// mPath with these windows, in congestion avoidance; the first path is the direct one.
fn with_windows(alpha: f64, windows: &[f64]) -> (Mpath, Vec<Slot>) {
    let mut mpath = Mpath::new(alpha, Options::default()).unwrap();
    let slots: Vec<_> = windows.iter().map(|_| add(&mut mpath, 1000)).collect();
    for (&slot, &window) in slots.iter().zip(windows) {
        let path = mpath.slots.get_mut(slot).unwrap();
        path.window = window;
        path.slow_start.set_threshold(window);
    }
    mpath.count();
    (mpath, slots)
}

fn add(mpath: &mut Mpath, packet_size: u32) -> Slot {
    mpath.add_path(NewPath {
        now: Time::ZERO,
        initial_window: 10.0,
        packet_size,
        initial_rtt: RTT,
    })
}

fn ms(millis: u64) -> Time {
    Time::from_millis(millis)
}

/// One packet acknowledged.
fn ack(slot: Slot, now: Time) -> Ack {
    Ack {
        slot,
        now,
        packets: 1.0,
        rtt: RTT,
        rtt_sampled: true,
        smoothed_rtt: RTT,
        min_rtt: RTT,
        sent: Time::ZERO,
        received: None,
        app_limited: false,
        in_recovery: false,
        delivery: None,
    }
}

fn lose(mpath: &mut Mpath, slot: Slot, sent: u64, now: u64) {
    mpath.on_loss(&Loss {
        slot,
        now: ms(now),
        sent: ms(sent),
        packets: 1.0,
    });
}

fn windows(mpath: &Mpath, slots: &[Slot]) -> Vec<f64> {
    slots.iter().map(|&slot| mpath.window(slot)).collect()
}

/// A round: as many packets as each window acknowledged, all at `now`, in turn.
fn round(mpath: &mut Mpath, slots: &[Slot], now: u64) {
    let sizes: Vec<_> = slots.iter().map(|&s| mpath.window(s) as usize).collect();
    for i in 0..sizes.iter().copied().max().unwrap_or(0) {
        for (&slot, _) in slots.iter().zip(&sizes).filter(|&(_, &size)| i < size) {
            mpath.on_ack(&ack(slot, ms(now)));
        }
    }
}

#[test]
fn probability_is_equation_1() {
    // ρ = 1: P = w_0/W + (W − w_0)/W.
    let (mut mpath, slots) = with_windows(0.5, &[20.0, 5.0, 15.0]);
    assert_eq!(mpath.probability(), 1.0);
    // One of two has met loss, its window 7.5 now: P = (20·½ + 12.5)/32.5.
    lose(&mut mpath, slots[2], 10, 100);
    assert_eq!(mpath.probability(), 22.5 / 32.5);
    // Both have: P = (W − w_0)/W.
    lose(&mut mpath, slots[1], 10, 100);
    assert_eq!(mpath.probability(), 10.0 / 30.0);
    // Without proxied paths: 0.
    mpath.remove_path(slots[1]);
    mpath.remove_path(slots[2]);
    assert_eq!(mpath.probability(), 0.0);
}

#[test]
fn grows_by_one_packet_per_round_trip_over_all_paths() {
    let (mut mpath, slots) = with_windows(0.5, &[20.0, 10.0, 10.0]);
    for &slot in &slots {
        // No overlap.
        lose(
            &mut mpath,
            slot,
            100 * slot.index() as u64,
            100 * slot.index() as u64 + 50,
        );
    }
    assert_eq!(windows(&mpath, &slots), [10.0, 5.0, 5.0]);
    let rounds = 40;
    for turn in 0..rounds {
        round(&mut mpath, &slots, 1000 + 100 * turn);
    }
    let grown = windows(&mpath, &slots);
    let total: f64 = grown.iter().sum();
    // One per W acknowledgements, and a round has as many as there are whole packets in each
    // window.
    assert!((total - 20.0 - rounds as f64).abs() < 4.0, "{grown:?}");
    // In proportion to the windows, half of it to the direct path.
    assert!((grown[0] / total - 0.5).abs() < 0.05, "{grown:?}");
    assert!((grown[1] - grown[2]).abs() <= 1.0, "{grown:?}");
    // Whole packets.
    assert_eq!(grown[1].fract(), 0.0);
}

#[test]
fn paths_that_never_met_loss_come_first() {
    let (mut mpath, slots) = with_windows(0.5, &[20.0, 40.0, 1.0, 1.0]);
    lose(&mut mpath, slots[1], 10, 100);
    for turn in 0..30 {
        round(&mut mpath, &slots, 1000 + 100 * turn);
    }
    let grown = windows(&mpath, &slots);
    assert_eq!(grown[1], 20.0);
    assert!((grown[2] - grown[3]).abs() <= 1.0, "{grown:?}");
    // P = (20·⅔ + 22)/42 = 0.84 and more: 25 of 30 packets.
    assert!(
        (24.0..30.0).contains(&(grown[2] + grown[3] - 2.0)),
        "{grown:?}"
    );
}

#[test]
fn only_paths_with_a_recent_acknowledgement_grow() {
    let (mut mpath, slots) = with_windows(0.5, &[10.0, 5.0, 5.0]);
    // Silent for more than two round trips.
    mpath.on_ack(&ack(slots[2], ms(799)));
    for turn in 0..10 {
        round(&mut mpath, &slots[..2], 1000 + 100 * turn);
    }
    assert_eq!(mpath.window(slots[2]), 5.0);
    assert!(mpath.window(slots[1]) > 10.0);

    // Nor does what leaves the window unused count as an acknowledgement.
    let idle = Ack {
        app_limited: true,
        ..ack(slots[2], ms(2000))
    };
    for _ in 0..200 {
        mpath.on_ack(&idle);
    }
    assert_eq!(mpath.window(slots[2]), 5.0);

    // Nobody: the direct path takes what was meant for the others.
    let before = windows(&mpath, &slots);
    for i in 0..200 {
        mpath.on_ack(&ack(slots[0], ms(5000 + i)));
    }
    let after = windows(&mpath, &slots);
    assert_eq!(before[1..], after[1..]);
    assert!(after[0] > before[0] + 5.0, "{after:?}");
}

#[test]
fn a_loss_halves_its_own_path() {
    let (mut mpath, slots) = with_windows(0.5, &[20.0, 8.0, 4.0]);
    lose(&mut mpath, slots[1], 0, 100);
    assert_eq!(windows(&mpath, &slots), [20.0, 4.0, 4.0]);
    lose(&mut mpath, slots[0], 200, 300);
    assert_eq!(windows(&mpath, &slots), [10.0, 4.0, 4.0]);
    assert_eq!(mpath.verdict(slots[1]), PathVerdict::Keep);
}

/// Equation (6) with α = 0.5, whichever loss is detected first.
#[test]
fn load_is_aggregated_at_correlated_losses() {
    // x_0/2 + α·x_p/2 = 15 + 2, (1 − α)·x_p/2 = 2.
    for direct_first in [true, false] {
        let (mut mpath, slots) = with_windows(0.5, &[30.0, 8.0]);
        let order = if direct_first { [0, 1] } else { [1, 0] };
        lose(&mut mpath, slots[order[0]], 100, 200);
        lose(&mut mpath, slots[order[1]], 150, 260);
        assert!(mpath.shares_bottleneck(slots[1]));
        assert_eq!(windows(&mpath, &slots), [17.0, 2.0]);
        assert_eq!(mpath.verdict(slots[1]), PathVerdict::Keep);
    }
}

#[test]
fn intervals_overlap_with_their_ends() {
    for ((sent, now), shared) in [
        ((50, 99), false),
        ((50, 100), true),
        ((120, 130), true),
        ((50, 400), true),
        ((200, 300), true),
        ((201, 300), false),
        // Nonsense from a clock gone backwards is no interval before its end.
        ((500, 199), true),
    ] {
        let (mut mpath, slots) = with_windows(0.5, &[30.0, 8.0]);
        lose(&mut mpath, slots[0], 100, 200);
        lose(&mut mpath, slots[1], sent, now);
        assert_eq!(mpath.shares_bottleneck(slots[1]), shared, "{sent} {now}");
        let want = if shared { [17.0, 2.0] } else { [15.0, 4.0] };
        assert_eq!(windows(&mpath, &slots), want);
    }
}

/// `w_0/Σw_j < α`: the direct path gets back what it had, no more.
#[test]
fn the_direct_path_never_exceeds_its_old_window() {
    // Σw_j = 60, w_0/Σw_j = 1/6: 20 and 10 lose a sixth to the direct path.
    let (mut mpath, slots) = with_windows(0.5, &[10.0, 40.0, 20.0]);
    lose(&mut mpath, slots[1], 100, 200);
    lose(&mut mpath, slots[2], 100, 200);
    assert_eq!(windows(&mpath, &slots), [10.0, 20.0, 10.0]);
    lose(&mut mpath, slots[0], 100, 200);
    let got = windows(&mpath, &slots);
    for (got, want) in got.iter().zip([10.0, 20.0 * 5.0 / 6.0, 10.0 * 5.0 / 6.0]) {
        assert!((got - want).abs() < 1e-9, "{got} {want}");
    }

    // One after the other, each in the light of those before: never more than the old window.
    let (mut mpath, slots) = with_windows(1.0, &[10.0, 10.0, 40.0, 40.0]);
    for &slot in &slots {
        lose(&mut mpath, slot, 100, 200);
        assert!(mpath.window(slots[0]) <= 10.0);
    }
    assert_eq!(mpath.window(slots[0]), 10.0);
    assert_eq!(mpath.window(slots[2]), 20.0 * 0.8);
}

#[test]
fn a_loss_aggregates_once() {
    let (mut mpath, slots) = with_windows(0.5, &[30.0, 32.0]);
    lose(&mut mpath, slots[1], 100, 300);
    lose(&mut mpath, slots[0], 100, 200);
    assert_eq!(windows(&mpath, &slots), [23.0, 8.0]);
    // The direct path's next loss still overlaps, but that loss has been dealt with.
    lose(&mut mpath, slots[0], 250, 310);
    assert_eq!(windows(&mpath, &slots), [11.5, 8.0]);
}

/// "When the last lost packet was detected and the time that the packet was sent": that packet
/// needn't be the one that cut the window.
#[test]
fn further_losses_of_an_event_move_the_interval() {
    let further = |mpath: &mut Mpath, slot, sent, now| {
        mpath.on_further_loss(&Loss {
            slot,
            now: ms(now),
            sent: ms(sent),
            packets: 1.0,
        });
    };
    for late in [0, 1] {
        let (mut mpath, slots) = with_windows(0.5, &[30.0, 8.0]);
        let early = 1 - late;
        lose(&mut mpath, slots[early], 100, 200);
        lose(&mut mpath, slots[late], 210, 310);
        assert_eq!(windows(&mpath, &slots), [15.0, 4.0]);
        // Windows aren't cut again, but now the intervals overlap.
        further(&mut mpath, slots[early], 190, 320);
        assert_eq!(windows(&mpath, &slots), [17.0, 2.0]);
        further(&mut mpath, slots[late], 220, 330);
        assert_eq!(windows(&mpath, &slots), [17.0, 2.0]);
    }
    // Without an event before there is nothing to belong to.
    let (mut mpath, slots) = with_windows(0.5, &[30.0, 8.0]);
    further(&mut mpath, slots[1], 100, 200);
    lose(&mut mpath, slots[0], 100, 200);
    assert_eq!(windows(&mpath, &slots), [15.0, 8.0]);
}

#[test]
fn a_path_aggregated_below_a_packet_is_drained() {
    let (mut mpath, slots) = with_windows(0.5, &[30.0, 3.9, 4.0]);
    lose(&mut mpath, slots[0], 100, 200);
    lose(&mut mpath, slots[1], 100, 200);
    lose(&mut mpath, slots[2], 100, 200);
    // 3.9/4 < 1: closed. Its window stays at a packet, and the rest of its cut is what the direct
    // path got.
    assert_eq!(mpath.verdict(slots[1]), PathVerdict::Drained);
    assert_eq!(mpath.verdict(slots[2]), PathVerdict::Keep);
    assert_eq!(windows(&mpath, &slots), [15.0 + 0.95 + 1.0, 1.0, 1.0]);

    // Without correlation a path stays, at one packet.
    let (mut mpath, slots) = with_windows(0.5, &[30.0, 1.5]);
    lose(&mut mpath, slots[1], 100, 200);
    assert_eq!(mpath.window(slots[1]), 1.0);
    assert_eq!(mpath.verdict(slots[1]), PathVerdict::Keep);
}

#[test]
fn proxied_paths_start_with_one_packet_in_avoidance() {
    let mut mpath = Mpath::new(0.5, Options::default()).unwrap();
    let slots = [add(&mut mpath, 1000), add(&mut mpath, 1000)];
    assert_eq!(windows(&mpath, &slots), [10.0, 1.0]);
    assert!(mpath.in_slow_start(slots[0]));
    assert!(!mpath.in_slow_start(slots[1]));
    assert_eq!(mpath.direct(), Some(slots[0]));
    // Slow start of the direct path goes on undisturbed, and proxied acknowledgements don't add to
    // it.
    mpath.on_ack(&ack(slots[0], ms(100)));
    assert_eq!(windows(&mpath, &slots), [11.0, 1.0]);
    for i in 0..12 {
        mpath.on_ack(&ack(slots[1], ms(110 + i)));
    }
    assert_eq!(windows(&mpath, &slots), [11.0, 2.0]);
}

#[test]
fn timeouts() {
    let (mut mpath, slots) = with_windows(0.5, &[30.0, 8.0, 8.0]);
    mpath.on_timeout(slots[1], ms(100));
    assert_eq!(windows(&mpath, &slots), [30.0, 1.0, 8.0]);
    assert_eq!(mpath.verdict(slots[1]), PathVerdict::TimedOut);
    // It has met loss: ρ = 1/2.
    assert_eq!(mpath.probability(), (15.0 + 9.0) / 39.0);

    lose(&mut mpath, slots[0], 100, 200);
    mpath.on_timeout(slots[0], ms(300));
    assert_eq!(mpath.window(slots[0]), 2.0);
    assert!(mpath.in_slow_start(slots[0]));
    assert_eq!(mpath.verdict(slots[0]), PathVerdict::Keep);
    // What was lost before the timeout restores nothing.
    lose(&mut mpath, slots[2], 100, 310);
    assert_eq!(windows(&mpath, &slots), [2.0, 1.0, 4.0]);
}

#[test]
fn the_oldest_path_inherits() {
    let (mut mpath, slots) = with_windows(0.5, &[30.0, 8.0, 5.0]);
    mpath.remove_path(slots[0]);
    assert_eq!(mpath.direct(), Some(slots[1]));
    assert!(!mpath.in_slow_start(slots[1]));
    assert_eq!(mpath.probability(), 1.0);
    // A new path in the old slot is a proxied one.
    assert_eq!(add(&mut mpath, 1000), slots[0]);
    assert_eq!(windows(&mpath, &slots), [1.0, 8.0, 5.0]);
    lose(&mut mpath, slots[1], 100, 200);
    lose(&mut mpath, slots[2], 100, 200);
    assert_eq!(windows(&mpath, &slots), [1.0, 4.0 + 1.25, 1.25]);
    for slot in slots {
        mpath.remove_path(slot);
        mpath.remove_path(slot);
    }
    assert_eq!((mpath.direct(), mpath.probability()), (None, 0.0));
}

#[test]
fn packets_of_different_sizes_are_compared_in_bytes() {
    let mut mpath = Mpath::new(0.5, Options::default()).unwrap();
    let slots = [add(&mut mpath, 1500), add(&mut mpath, 500)];
    mpath.slots.get_mut(slots[1]).unwrap().window = 30.0;
    mpath.count();
    // 15,000 bytes each: of the 7,500 left to the proxied path half goes over, 2.5 of the larger
    // packets.
    lose(&mut mpath, slots[0], 100, 200);
    lose(&mut mpath, slots[1], 100, 200);
    assert_eq!(windows(&mpath, &slots), [7.5, 7.5]);
    assert_eq!(mpath.probability(), 3750.0 / 15000.0);
}

#[test]
fn a_law_without_recovery_holds_back_only_the_cutting_acknowledgement() {
    let options = Options::default()
        .with_slow_start(SlowStartKind::Standard)
        .with_growth_in_recovery(true);
    let mut mpath = Mpath::new(0.5, options).unwrap();
    let slot = add(&mut mpath, 1000);
    lose(&mut mpath, slot, 50, 100);
    let old = |now| Ack {
        in_recovery: true,
        ..ack(slot, ms(now))
    };
    mpath.on_ack(&old(100));
    assert_eq!(mpath.window(slot), 5.0);
    mpath.on_ack(&old(101));
    assert_eq!(mpath.window(slot), 5.2);
}

#[test]
fn parameters_out_of_range_are_refused() {
    for alpha in [0.0, 1.1, f64::NAN] {
        let refused = Mpath::new(alpha, Options::default()).unwrap_err();
        let message = format!("alpha = {alpha} is out of range; allowed is more than 0, at most 1");
        assert_eq!(refused, message);
    }
    assert!(Mpath::new(1.0, Options::default()).is_ok());
}

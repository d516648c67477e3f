//! Transfers over networks that break, by plans drawn from seeds; the example `faults` runs more of
//! them.

use manyway_network::Loss;
use manyway_simulate::stack::{End, Fault, FaultPlan, PathPlan, What};

use crate::common::MS;

#[test]
fn three_hundred_storms() {
    let failed: Vec<_> = (0..300)
        .filter_map(|seed| FaultPlan::new(seed).run().err().map(|error| (seed, error)))
        .collect();
    let replay = "cargo run --release -p manyway-simulate --features stack --example faults --";
    assert!(
        failed.is_empty(),
        "{} of 300: {failed:#?}\n\nthe least that fails: {replay} --seed {}",
        failed.len(),
        failed[0].0
    );
}

/// The client's only interface goes and comes back: when it has no ids for another path yet, in
/// mid-transfer, and after the listener has moved.
#[test]
fn an_only_interface_may_go_and_come_back() {
    let fault = |at: u32, lasts: u32, what| Fault {
        at: MS * at,
        lasts: MS * lasts,
        what,
    };
    let gone = |at| fault(at, 3_000, What::Removed(0));
    let moved = fault(300, 1, What::Rebound(0, End::Server, false));
    for faults in [
        vec![gone(110)],
        vec![gone(210)],
        vec![gone(400)],
        vec![moved, gone(900)],
    ] {
        let plan = FaultPlan {
            seed: 1,
            paths: vec![PathPlan {
                mbps: 2.0,
                delay: 50 * MS,
                loss: Loss::None,
            }],
            upload: 400_000,
            download: 100_000,
            drift: [0, 0],
            faults,
        };
        assert_eq!(plan.run(), Ok(()), "{plan:?}");
    }
}

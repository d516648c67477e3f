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

fn fault(at: u32, lasts: u32, what: What) -> Fault {
    Fault {
        at: MS * at,
        lasts: MS * lasts,
        what,
    }
}

fn path(delay: u32) -> PathPlan {
    PathPlan {
        mbps: 2.0,
        delay: MS * delay,
        loss: Loss::None,
    }
}

/// The client's only interface goes and comes back: when it has no ids for another path yet, in
/// mid-transfer, and after the listener has moved.
#[test]
fn an_only_interface_may_go_and_come_back() {
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
            paths: vec![path(50)],
            upload: 400_000,
            download: 100_000,
            drift: [0, 0],
            faults,
        };
        assert_eq!(plan.run(), Ok(()), "{plan:?}");
    }
}

/// The listener moves before the client's second path is up, and the first one goes.
#[test]
fn other_paths_find_a_listener_that_has_moved() {
    let plan = FaultPlan {
        seed: 1,
        paths: vec![path(47), path(98)],
        upload: 400_000,
        download: 100_000,
        drift: [0, 0],
        faults: vec![
            fault(160, 1, What::Rebound(0, End::Server, false)),
            fault(900, 2_000, What::Removed(0)),
        ],
    };
    assert_eq!(plan.run(), Ok(()));
}

/// The interface of the only path that works goes, while the client's second path leads to where
/// the listener was.
#[test]
fn the_only_path_that_works_survives_its_interface() {
    let plan = FaultPlan {
        seed: 1,
        paths: vec![path(50), path(150)],
        upload: 400_000,
        download: 100_000,
        drift: [0, 0],
        faults: vec![
            fault(340, 1, What::Rebound(0, End::Server, false)),
            fault(440, 2_000, What::Removed(0)),
        ],
    };
    assert_eq!(plan.run(), Ok(()));
}

//! The load of `examples/load`, small: every request is answered. How fast is for the example.

#[path = "../../examples/load/driver.rs"]
#[allow(dead_code)]
mod driver;

use std::time::Duration;

use crate::common::{Registry, key, limits};
use driver::{Beats, Target};
use manyway_registry::Limits;
use manyway_registry::store::Store;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleets_heartbeats_are_all_answered() {
    let limits = Limits {
        probes: 100_000,
        ..limits()
    };
    let registry = Registry::with(&key(1), limits, Store::Memory).await;
    let target = Target::new(registry.address, key(1).id());
    let (leases, failed) = driver::enrol(&target, 300, 8).await;
    assert_eq!((leases.len(), failed), (300, 0));
    let beats = Beats {
        connections: 30,
        rate: 3000.0,
        rounds: 2,
    };
    let kept = driver::heartbeats(&target, &leases, &beats, || {}).await;
    assert_eq!((kept.latencies.len(), kept.errors), (600, 0));
    for target in [target.clone(), target.without_resumption()] {
        let fresh = driver::fresh(&target, &leases, 60, 4).await;
        assert_eq!((fresh.latencies.len(), fresh.errors), (60, 0));
    }
    assert!(kept.quantile(0.5) <= kept.quantile(1.0) && kept.elapsed > Duration::ZERO);
}

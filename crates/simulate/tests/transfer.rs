//! Two sessions over a virtual network: every byte once and in order, or an error that says why.

mod common;

use common::{MS, Setup, mbps};

#[test]
fn a_clean_transfer_over_two_paths() {
    let mut setup = Setup::new(1)
        .path(mbps(20.0, 10))
        .path(mbps(20.0, 10))
        .upload(4 << 20)
        .build();
    let took = setup.complete(60_000 * MS);
    assert!(took < 3000 * MS, "{took:?}");
    let stats = setup.client_stats();
    assert_eq!(stats.paths.len(), 2);
}

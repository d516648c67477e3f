//! The links of the demo with relays.

use std::time::Duration;

use manyway_network::{Limit, LinkConfig, Queue};
use manyway_units::Rate;

/// All datagrams have one size, so that queues in packets are queues in bytes.
pub(super) const DATAGRAM: usize = 1200;

/// A duplex link.
#[derive(Debug, Clone, Copy)]
pub(super) struct DuplexLink {
    pub(super) name: &'static str,
    pub(super) mbps: f64,
    pub(super) delay: Duration,
    /// Capacity of its queues, in packets.
    pub(super) queue: u32,
}

impl DuplexLink {
    pub(super) fn config(&self) -> [LinkConfig; 2] {
        let one_way = LinkConfig {
            queue: Queue::DropTail(Limit::Packets(self.queue)),
            ..LinkConfig::new(Rate::from_mbps(self.mbps), self.delay)
        };
        [one_way.clone(), one_way]
    }
}

/// The sender's access link, which all paths share; the core link, which the direct path shares
/// with relay 1; the links of relays 2 and 3.
///
/// The paper's Fig. 7 with half its rates and about a tenth of its windows
/// (`scenarios/mpath/fig7.toml`): the core link and its queue hold nine packets. mPath drains a
/// path that loses together with the direct one once its window is below four packets. How long
/// that takes is random; with windows of nine packets and more, it takes minutes. Paths through
/// relays take longer than the direct path, but less than twice as long, which is mPath's limit.
/// Relay 2's link is slower than the core link, so that the direct path is the best single one.
pub(super) const LINKS: [DuplexLink; 4] = [
    link("access", 10.0, 2, 10),
    link("core", 5.0, 3, 4),
    link("relay 2's", 4.0, 6, 8),
    link("relay 3's", 2.5, 6, 8),
];
pub(super) const ACCESS: usize = 0;
pub(super) const CORE: usize = 1;
/// The link between each relay and the receiver.
pub(super) const EGRESS: [usize; 3] = [CORE, 2, 3];
/// The relay that adds no capacity.
pub(super) const USELESS: usize = 0;

const fn link(name: &'static str, mbps: f64, delay_ms: u64, queue: u32) -> DuplexLink {
    DuplexLink {
        name,
        mbps,
        delay: Duration::from_millis(delay_ms),
        queue,
    }
}

/// The round-trip time over the access link and this one, without queueing.
pub(super) fn round_trip(link: usize) -> Duration {
    2 * (LINKS[ACCESS].delay + LINKS[link].delay)
}

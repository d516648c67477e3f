//! The links of the demo with relays.

use std::time::Duration;

use manyway_network::{Limit, LinkConfig, Queue};
use manyway_units::Rate;

/// Datagrams have one size, so that a queue of packets is one of bytes.
pub(super) const DATAGRAM: usize = 1200;

/// A duplex link.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line {
    pub(super) name: &'static str,
    pub(super) mbps: f64,
    pub(super) delay: Duration,
    /// Packets that wait.
    pub(super) queue: u32,
}

impl Line {
    pub(super) fn config(&self) -> [LinkConfig; 2] {
        let one_way = LinkConfig {
            queue: Queue::DropTail(Limit::Packets(self.queue)),
            ..LinkConfig::new(Rate::from_mbps(self.mbps), self.delay)
        };
        [one_way.clone(), one_way]
    }
}

/// The first is the sender's access link, which all share, the second the core link that the direct
/// path shares with relay 1's; then those of relays 2 and 3.
///
/// The paper's Fig. 7 with half of its rates, and windows a tenth of what they seem to be there
/// (`scenarios/mpath/fig7.toml`): the core link and its queue hold nine packets. mPath drains a
/// path that loses together with the direct one when it has less than four; how long that takes is
/// chance, and with windows of nine packets and more a matter of minutes. The detours take longer
/// than the direct path, but not twice as long, which is what mPath admits. Relay 2's link has less
/// than the core link, so that the direct path is the best single one.
pub(super) const LINES: [Line; 4] = [
    line("access", 10.0, 2, 10),
    line("core", 5.0, 3, 4),
    line("relay 2's", 4.0, 6, 8),
    line("relay 3's", 2.5, 6, 8),
];
pub(super) const ACCESS: usize = 0;
pub(super) const CORE: usize = 1;
/// The link between each relay and the receiver.
pub(super) const BEHIND: [usize; 3] = [CORE, 2, 3];
/// The relay that adds nothing.
pub(super) const USELESS: usize = 0;

const fn line(name: &'static str, mbps: f64, delay_ms: u64, queue: u32) -> Line {
    Line {
        name,
        mbps,
        delay: Duration::from_millis(delay_ms),
        queue,
    }
}

/// Without queues, of the direct path and relay 1's, or of one over another line.
pub(super) fn round_trip(line: usize) -> Duration {
    2 * (LINES[ACCESS].delay + LINES[line].delay)
}

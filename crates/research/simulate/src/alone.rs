//! How long a transfer would take without anything to wait for.

use std::collections::BTreeMap;

use manyway_network::{LinkConfig, Topology};
use manyway_scenario::Flow;

/// The least time that a flow's transfers take: as if its windows were open from the start, and
/// nobody else were there. A transfer's slowdown is its time over this.
#[derive(Debug, Copy, Clone, PartialEq)]
pub struct Alone {
    /// Seconds until a first packet is acknowledged, on the fastest path.
    first: f64,
    /// Seconds for each byte of further packets, on all paths together.
    per_byte: f64,
    /// Slowest links: each has a first packet.
    links: u64,
    /// Bytes of a full packet.
    packet: u32,
    /// Bytes of payload in it.
    payload: u32,
}

impl Alone {
    /// Links have their rates of the beginning. Each path counts with its slowest link; one that is
    /// the slowest of several paths counts once.
    pub fn of(topology: &Topology, flow: &Flow) -> Self {
        let packet = flow.sender.packet_size;
        let mut first = f64::INFINITY;
        let mut slowest: BTreeMap<usize, f64> = BTreeMap::new();
        for (n, path) in flow.paths.iter().enumerate() {
            let Some(path) = topology.paths.get(*path) else {
                continue;
            };
            let link = |index: &usize| topology.links.get(*index).map(|link| &link.config);
            let there = flow
                .access
                .as_deref()
                .into_iter()
                .chain(path.links.iter().filter_map(link));
            let back = path.reverse.iter().filter_map(link);
            let time = there.map(|link| seconds(link, packet)).sum::<f64>()
                + back.map(|link| seconds(link, flow.ack.bytes)).sum::<f64>()
                + (flow.extra_delay + path.return_delay + flow.extra_return).as_secs_f64();
            first = first.min(time);
            let rated = path
                .links
                .iter()
                .filter_map(|index| Some((*index, link(index)?)));
            // A private link has a number that no other has.
            let own = flow
                .access
                .as_deref()
                .into_iter()
                .map(|link| (topology.links.len() + n, link));
            let rates = rated
                .chain(own)
                .map(|(id, link)| (id, link.rate.bytes_per_sec()));
            if let Some((id, rate)) = rates.min_by(|a, b| a.1.total_cmp(&b.1)) {
                slowest.insert(id, rate);
            }
        }
        Self {
            first,
            per_byte: 1.0 / slowest.values().sum::<f64>(),
            links: slowest.len() as u64,
            packet,
            payload: packet.saturating_sub(flow.headers).max(1),
        }
    }

    /// Seconds for a transfer of so many bytes of payload, until all are acknowledged.
    pub fn seconds(&self, bytes: u64) -> f64 {
        let packets = bytes.div_ceil(u64::from(self.payload));
        let further = packets.saturating_sub(self.links) as f64;
        self.first + further * f64::from(self.packet) * self.per_byte
    }
}

/// Seconds that a packet of so many bytes takes over an idle link.
fn seconds(link: &LinkConfig, bytes: u32) -> f64 {
    f64::from(bytes) / link.rate.bytes_per_sec() + link.delay.as_secs_f64()
}

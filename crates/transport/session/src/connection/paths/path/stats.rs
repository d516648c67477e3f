//! What a path says of itself.

use manyway_control::{Carried, Controller};

use super::Path;
use crate::stats::{CarrierKind, PathState, PathStats};

impl Path {
    pub(in crate::connection::paths) fn stats(&self, controller: &dyn Controller) -> PathStats {
        let sender = self.sender.stats();
        let window = if self.state == PathState::Closed {
            0.0
        } else {
            self.sender.window(controller)
        };
        let carried = self.sender.carried();
        PathStats {
            id: self.id,
            name: self.local.name.clone(),
            local: self.local.addr,
            remote: self.remote,
            relay: self.relay.is_some() || self.facts.relay,
            carrier: match carried {
                Some(_) => CarrierKind::Tcp,
                None => CarrierKind::Udp,
            },
            target: carried.and_then(Carried::target),
            delivers: carried.and_then(Carried::rate),
            state: match self.state {
                // In use for want of a better one.
                PathState::Active if self.told_silent => PathState::Stalled,
                PathState::Active if self.standby => PathState::Standby,
                state => state,
            },
            rtt: self.sender.rtt().smoothed(),
            min_rtt: self.sender.rtt().min(),
            window,
            packet_size: self.mtu.size(),
            datagram: self.datagram_room(),
            bytes_in_flight: self.sender.bytes_in_flight(),
            bytes_sent: self.counters.bytes_sent,
            bytes_received: self.counters.bytes_received,
            stream_bytes_sent: self.counters.stream_bytes_sent,
            stream_bytes_received: self.counters.stream_bytes_received,
            packets_sent: sender.packets_sent,
            packets_lost: sender.packets_lost,
            loss_events: sender.loss_events,
            timeouts: sender.timeouts,
            group: match self.state {
                PathState::Closed => None,
                _ => (self.sender.windowed()).and_then(|sender| controller.group(sender.slot())),
            },
        }
    }
}

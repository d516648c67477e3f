//! A packet's way: into a link, out of it, to its host.

use std::net::SocketAddr;

use manyway_network::{Packet as Load, Verdict};
use manyway_units::Time;

use super::{Arrival, Captured, Departure, Event, Host, LinkId, Marks, Packet, World};
use crate::events::mix;
use crate::trace::Came;

impl<H: Host> World<H> {
    pub(super) fn send(&mut self, from: SocketAddr, departure: Departure, data: &[u8]) {
        self.stats.sent += 1;
        self.note(1, data);
        if let Some(sent_to) = self.nats.get_mut(&from) {
            sent_to.insert(departure.remote);
        }
        if self.capture_limit > 0 {
            if self.captured.len() >= self.capture_limit {
                self.captured.pop_front();
            }
            let (to, data) = (departure.remote, data.to_vec());
            self.captured.push_back(Captured { from, to, data });
        }
        let Some(&route) = self.route_of.get(&(from, departure.remote)) else {
            self.stats.unroutable += 1;
            return;
        };
        let state = &mut self.routes[route];
        let bytes = data.len() + Self::HEADER_BYTES as usize;
        if state.mtu.is_some_and(|mtu| bytes > mtu as usize) {
            state.stats.sent += 1;
            state.stats.too_large += 1;
            return;
        }
        let egress = self.routes[route].egress(self.now);
        for _ in 0..egress.copies {
            let packet = self.new_packet(route, departure.ecn, data);
            if egress.at > self.now {
                self.events
                    .schedule(egress.at, route as u64, Event::Enter { packet });
            } else {
                self.enter_link(packet);
            }
        }
    }

    fn new_packet(&mut self, route: usize, ecn: bool, data: &[u8]) -> usize {
        let index = self.free_packets.pop().unwrap_or_else(|| {
            self.packets.push(Packet::default());
            self.packets.len() - 1
        });
        let packet = &mut self.packets[index];
        packet.route = route;
        packet.hop = 0;
        packet.ecn = ecn;
        packet.marked = false;
        packet.data.clear();
        packet.data.extend_from_slice(data);
        index
    }

    /// The packet is at the entrance of its route's next link, or past the last one.
    pub(super) fn enter_link(&mut self, index: usize) {
        let packet = &mut self.packets[index];
        let route = &mut self.routes[packet.route];
        let origin = packet.route as u64;
        let Some(link) = route.links.get(packet.hop) else {
            let at = route.destination(self.now, &mut packet.data);
            self.events
                .schedule(at, origin, Event::Arrive { packet: index });
            return;
        };
        packet.offered = self.now;
        let load = Load {
            bytes: packet.data.len() as u32 + Self::HEADER_BYTES,
            ecn: packet.ecn,
            l4s: false,
            flow: packet.route as u32,
            class: route.class,
        };
        let LinkId(link) = *link;
        let verdict = self.links[link].offer(self.now, load);
        if let Some(tapped) = &mut self.tap
            && let Some(&flow) = tapped.flows.get(&packet.route)
        {
            let came = Came {
                at: self.now,
                packet: Load { flow, ..load },
                number: (tapped.number)(&packet.data),
                marked: packet.marked,
            };
            let busy_until = self.links[link].busy_until();
            tapped.tap.offered(link, came, verdict, busy_until);
        }
        let Verdict::Queued(ticket) = verdict else {
            return self.pass_on(index, origin, verdict);
        };
        if let Some(at) = self.held[link].put(ticket, index, &self.links[link]) {
            self.schedule_decision(link, at);
        }
    }

    /// A link has said what becomes of the packet.
    fn pass_on(&mut self, index: usize, origin: u64, verdict: Verdict) {
        let packet = &mut self.packets[index];
        let Verdict::Delivered {
            arrives, marked, ..
        } = verdict
        else {
            self.routes[packet.route].stats.lost += 1;
            self.free_packets.push(index);
            return;
        };
        packet.marked |= marked;
        self.events
            .schedule(arrives, origin, Event::Leave { packet: index });
    }

    fn schedule_decision(&mut self, link: usize, at: Time) {
        // An origin that no route and no host has.
        let origin = (link as u64).wrapping_add(u64::MAX / 2);
        self.events
            .schedule(at.max(self.now), origin, Event::Decide { link });
    }

    pub(super) fn decide(&mut self, link: usize) {
        while let Some((ticket, verdict)) = self.links[link].decide(self.now) {
            if let Some(index) = self.held[link].take(ticket) {
                if let Some(tapped) = &mut self.tap
                    && tapped.flows.contains_key(&self.packets[index].route)
                {
                    let busy_until = self.links[link].busy_until();
                    tapped
                        .tap
                        .decided(link, ticket, self.now, verdict, busy_until);
                }
                let origin = self.packets[index].route as u64;
                self.pass_on(index, origin, verdict);
            }
        }
        self.held[link].is_asked(self.now);
        if let Some(at) = self.held[link].expect(&self.links[link]) {
            self.schedule_decision(link, at);
        }
    }

    pub(super) fn leave_link(&mut self, index: usize) {
        let packet = &mut self.packets[index];
        let route = &mut self.routes[packet.route];
        let bytes = packet.data.len() as u32 + Self::HEADER_BYTES;
        if !self.links[route.links[packet.hop].0].survived(packet.offered, bytes) {
            route.stats.lost += 1;
            self.free_packets.push(index);
            return;
        }
        packet.hop += 1;
        if packet.hop < route.links.len() {
            self.enter_link(index);
            return;
        }
        let at = route.destination(self.now, &mut packet.data);
        if at > self.now {
            let origin = packet.route as u64;
            self.events
                .schedule(at, origin, Event::Arrive { packet: index });
        } else {
            self.arrive(index);
        }
    }

    pub(super) fn arrive(&mut self, index: usize) {
        let packet = &mut self.packets[index];
        let mut data = std::mem::take(&mut packet.data);
        let marks = Marks {
            capable: packet.ecn,
            congested: packet.marked,
        };
        let route = &mut self.routes[packet.route];
        route.stats.delivered += 1;
        route.stats.bytes_delivered += data.len() as u64;
        let (from, to) = (route.from, route.to);
        self.deliver(from, to, marks, &mut data);
        // Its buffer is used again.
        self.packets[index].data = data;
        self.free_packets.push(index);
    }

    pub(super) fn deliver(
        &mut self,
        remote: SocketAddr,
        to: SocketAddr,
        marks: Marks,
        data: &mut [u8],
    ) {
        self.note(2, data);
        let now = self.now;
        let nat = self.nats.get(&to);
        let open = nat.is_none_or(|sent_to| sent_to.contains(&remote));
        match self.socket_of.get(&to) {
            Some(&(host, socket)) if open && !self.hosts[host.0].frozen => {
                self.stats.arrived += 1;
                let arrival = Arrival {
                    socket,
                    remote,
                    ecn: marks.capable,
                    marked: marks.congested,
                    data,
                };
                self.hosts[host.0].host.handle_datagram(now, arrival);
                self.pump(host);
            }
            _ => self.stats.unclaimed += 1,
        }
    }

    /// Adds to the trace: the moment, the length and the last 16 bytes, which in a sealed packet
    /// depend on all the others.
    fn note(&mut self, what: u64, data: &[u8]) {
        let mut hash =
            mix(self.trace ^ mix(self.now.as_nanos()) ^ (what << 32 | data.len() as u64));
        for word in data[data.len().saturating_sub(16)..].chunks(8) {
            let mut bytes = [0; 8];
            bytes[..word.len()].copy_from_slice(word);
            hash = mix(hash ^ u64::from_le_bytes(bytes));
        }
        self.trace = hash;
    }
}

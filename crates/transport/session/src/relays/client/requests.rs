//! What is asked, and asked again: HELLO and MINT of relays, consents of the listener.

use manyway_units::Time;
use manyway_wire::relay::{Hello, Mint, Nonce, Peer};
use rand::RngExt;

use super::leaving::Stay;
use super::{Lane, REPEAT, ROUNDS, RelayClient, TRIES, Way};
use crate::relays::{Datagram, PROOF_LIFE};

impl RelayClient {
    /// Does what is due; the next datagram to send.
    pub(crate) fn poll(&mut self, now: Time) -> Option<Datagram> {
        if self.wake.is_none_or(|at| at > now) {
            return None;
        }
        self.ask_overdue(now);
        let mut datagram = None;
        while datagram.is_none() && self.pace.permits(now) {
            let due =
                |(&lane, way): (&Lane, &Way)| Some((way.due().filter(|at| *at <= now)?, lane));
            let Some((_, lane)) = self.ways.iter().filter_map(due).min() else {
                break;
            };
            datagram = self.request(now, lane);
        }
        if datagram.is_some() {
            self.pace.note(now);
        }
        self.reschedule();
        datagram
    }

    /// The HELLO or MINT that is due on this lane; or the end of a series.
    fn request(&mut self, now: Time, lane: Lane) -> Option<Datagram> {
        let way = self.ways.get_mut(&lane)?;
        way.next = None;
        if way.mint_at.is_some_and(|at| at <= now) {
            (way.mint_at, way.sent) = (None, 0);
        }
        if way.sent >= TRIES {
            way.own = None;
            self.next_round(now, lane);
            return None;
        }
        let relay = self.relays.get(&way.slot)?;
        // Without the listener's consent there is nothing to ask for.
        let peer = relay.peer?;
        if way.sent == 0 {
            way.nonce = Nonce(self.rng.random());
        }
        let nonce = way.nonce;
        let own = way.own.filter(|(_, at)| now.since(*at) < PROOF_LIFE);
        let data = match own {
            None => {
                let relay = relay.info.relay.id;
                Vec::from(Hello { nonce, relay }.to_bytes())
            }
            Some((proof, _)) => {
                let mint = Mint {
                    nonce,
                    proof,
                    peer,
                    voucher: relay.info.access.voucher,
                };
                Vec::from(mint.seal(|message| relay.info.sign(message)))
            }
        };
        way.next = Some(now + REPEAT.delay(way.sent));
        way.sent += 1;
        way.last_sent = Some(now);
        Some(Datagram {
            local: way.local,
            remote: way.relay,
            data: data.into(),
        })
    }

    /// The relay gave no grants: again, with a newer consent of the listener's, or never.
    pub(super) fn next_round(&mut self, now: Time, lane: Lane) {
        if self
            .ways
            .get(&lane)
            .is_some_and(|way| way.stay == Stay::Doubted)
        {
            self.on_left(lane);
        }
        let Some(way) = self.ways.get_mut(&lane) else {
            return;
        };
        (way.sent, way.next) = (0, None);
        way.rounds += 1;
        if way.rounds > ROUNDS {
            self.remove(lane);
            return;
        }
        let Some(relay) = self.relays.get_mut(&way.slot) else {
            return;
        };
        relay.peer = relay.name.map(Peer::Name).or(relay.peer);
        if relay.name.is_some() {
            way.next = Some(now + REPEAT.delay(way.rounds));
        }
        if relay.asked == 0 && (relay.name.is_none() || way.grants.is_some()) {
            relay.ask_again(now);
            self.asks.push(relay.ask(way.slot));
        }
    }

    /// Relays to which the listener has brought no consent for long.
    fn ask_overdue(&mut self, now: Time) {
        let mut given_up = Vec::new();
        for (&slot, relay) in &mut self.relays {
            if relay.ask_at.is_none_or(|at| at > now) {
                continue;
            }
            if relay.asked >= ROUNDS {
                given_up.push(slot);
                continue;
            }
            relay.ask_again(now);
            self.asks.push(relay.ask(slot));
        }
        for slot in given_up {
            self.remove_slot(slot);
        }
    }

    pub(super) fn start_all(&mut self, now: Time, slot: u16) {
        for lane in self.lanes_of(slot) {
            self.start(now, lane);
        }
    }

    pub(super) fn start(&mut self, now: Time, lane: Lane) {
        if let Some(way) = self.ways.get_mut(&lane) {
            (way.sent, way.next) = (0, Some(now));
        }
    }
}

//! The production relay as a host, which can misbehave.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use manyway_relay::{Action, Config, Counters, Keys, Relay};
use manyway_session::{Access, RelayAccess, RelayAddress};
use manyway_units::Time;
use manyway_wire::relay::{ForwardHeader, RateClass, Stale, StaleReason};
use rand::rngs::ChaCha20Rng;
use rand::{RngExt, SeedableRng};

use crate::{Arrival, Departure, Host, SocketId};

/// The production relay as a host, with one socket: it can be killed and restarted, and told to
/// misbehave.
#[derive(Debug)]
pub struct RelayHost {
    relay: Option<Box<Relay>>,
    keys: String,
    rng: ChaCha20Rng,
    mischief: Mischief,
    /// What leaves when.
    queue: VecDeque<Waiting>,
    held: Vec<Waiting>,
    /// Datagrams kept to be sent once more.
    memory: Vec<Waiting>,
    forwarded: u64,
}

/// What a relay does wrong, each with a probability per datagram that it forwards.
#[derive(Debug, Copy, Clone, Default, PartialEq)]
pub struct Mischief {
    /// It isn't forwarded.
    pub drop: f64,
    /// It is forwarded twice.
    pub duplicate: f64,
    /// It is held back for a random time of up to [`Mischief::delay_by`], so that others overtake
    /// it.
    pub delay: f64,
    /// The longest such time.
    pub delay_by: Duration,
    /// A random byte of it is changed.
    pub corrupt: f64,
    /// An old one, that may have gone elsewhere, is sent along with it.
    pub replay: f64,
    /// Its sender is told that the relay is leaving, which isn't so.
    pub false_leaving: f64,
}

#[derive(Debug, Clone)]
struct Waiting {
    at: Time,
    to: SocketAddr,
    ecn: bool,
    data: Vec<u8>,
}

/// Old datagrams that a replaying relay remembers.
const MEMORY: usize = 64;
/// Unix time at the virtual clock's origin: the first second of 2026.
const EPOCH: Duration = Duration::from_secs(1_767_225_600);

impl RelayHost {
    /// A relay with keys of its own; everything random comes from `seed`.
    pub fn new(seed: u64) -> Self {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let keys = Keys::generate(EPOCH, &mut rng).to_text().to_string();
        let mut host = Self {
            relay: None,
            keys,
            rng,
            mischief: Mischief::default(),
            queue: VecDeque::new(),
            held: Vec::new(),
            memory: Vec::new(),
            forwarded: 0,
        };
        host.restart();
        host
    }

    /// The right to use it, at this address.
    pub fn access(&mut self, address: SocketAddr) -> RelayAccess {
        let keys = self.keys();
        let seed: [u8; 32] = self.rng.random();
        let client = manyway_relay::keys::public_key(&seed);
        let class = RateClass::MAX;
        let voucher = keys.vouch(self.rng.random(), class, u32::MAX, client);
        RelayAccess {
            relay: RelayAddress {
                address,
                id: keys.id(),
            },
            access: Access { voucher, seed },
        }
    }

    fn keys(&self) -> Keys {
        Keys::from_text(&self.keys).expect("it wrote them itself")
    }

    /// From now on nothing comes back, and nothing is remembered but what is on the disk.
    pub fn kill(&mut self) {
        self.relay = None;
        self.queue.clear();
        self.held.clear();
        self.memory.clear();
    }

    /// Starts it again with the keys that it has on its disk.
    pub fn restart(&mut self) {
        let config = Config {
            allow_private: true,
            ..Config::default()
        };
        self.relay = Some(Box::new(Relay::new(config, self.keys(), &mut self.rng)));
    }

    /// Starts it again after its codes' keys were lost: grants and consents of before mean nothing
    /// to it.
    pub fn restart_forgetful(&mut self) {
        let new = Keys::generate(EPOCH, &mut self.rng);
        let old = self.keys.clone();
        let new = new.to_text();
        let identity = old.lines().take(2);
        let codes = new.lines().skip(2);
        self.keys = identity.chain(codes).collect::<Vec<_>>().join("\n");
        self.restart();
    }

    /// Promises nothing new from now on, and tells senders to go elsewhere.
    pub fn leave(&mut self) {
        if let Some(relay) = &mut self.relay {
            relay.leave();
        }
    }

    /// Misbehaves from now on; what is on its way stays.
    pub fn set_mischief(&mut self, mischief: Mischief) {
        self.mischief = mischief;
    }

    /// Datagrams that it was asked to forward with a valid grant.
    pub fn forwarded(&self) -> u64 {
        self.forwarded
    }

    /// What the relay has counted since it was started; zeros while it is dead.
    pub fn counters(&self) -> Counters {
        self.relay
            .as_ref()
            .map(|r| *r.counters())
            .unwrap_or_default()
    }

    fn chance(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.rng.random_bool(probability)
    }

    fn forward(&mut self, now: Time, to: SocketAddr, ecn: bool, mut data: Vec<u8>) {
        self.forwarded += 1;
        let Mischief {
            drop,
            duplicate,
            delay,
            delay_by,
            corrupt,
            replay,
            false_leaving: _,
        } = self.mischief;
        if replay > 0.0 {
            let old = Waiting {
                at: now,
                to,
                ecn,
                data: data.clone(),
            };
            if self.memory.len() < MEMORY {
                self.memory.push(old);
            } else {
                let at = self.rng.random_range(0..MEMORY);
                self.memory[at] = old;
            }
            if self.chance(replay) {
                let at = self.rng.random_range(0..self.memory.len());
                self.queue.push_back(self.memory[at].clone());
            }
        }
        if self.chance(drop) {
            return;
        }
        if self.chance(corrupt) && !data.is_empty() {
            let at = self.rng.random_range(0..data.len());
            data[at] ^= self.rng.random_range(1..=u8::MAX);
        }
        let mut waiting = Waiting {
            at: now,
            to,
            ecn,
            data,
        };
        if self.chance(duplicate) {
            self.queue.push_back(waiting.clone());
        }
        if self.chance(delay) {
            let nanos = delay_by.as_nanos() as u64;
            waiting.at = now + Duration::from_nanos(self.rng.random_range(0..=nanos));
            self.held.push(waiting);
        } else {
            self.queue.push_back(waiting);
        }
    }
}

impl Host for RelayHost {
    fn handle_datagram(&mut self, now: Time, arrival: Arrival<'_>) {
        let Some(relay) = &mut self.relay else {
            return;
        };
        let unix = EPOCH + now.since(Time::ZERO);
        let reply = |to, bytes: &[u8]| Waiting {
            at: now,
            to,
            ecn: false,
            data: bytes.to_vec(),
        };
        match relay.handle(unix, arrival.remote, arrival.data) {
            Action::Forward {
                to,
                header_len,
                notice,
            } => {
                if let Some(notice) = notice {
                    self.queue
                        .push_back(reply(arrival.remote, notice.as_bytes()));
                }
                if self.chance(self.mischief.false_leaving)
                    && let Some(forged) = leaving(unix, arrival.data)
                {
                    self.queue.push_back(reply(arrival.remote, &forged));
                }
                let data = arrival.data[header_len..].to_vec();
                self.forward(now, to, arrival.ecn, data);
            }
            Action::Reply(bytes) => self
                .queue
                .push_back(reply(arrival.remote, bytes.as_bytes())),
            Action::Drop(_) => {}
        }
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut Vec<u8>) -> Option<Departure> {
        let due = self.held.iter().position(|w| w.at <= now);
        let next = due.map(|at| self.held.swap_remove(at));
        let Waiting { to, ecn, data, .. } = next.or_else(|| self.queue.pop_front())?;
        buf.clear();
        buf.extend_from_slice(&data);
        Some(Departure {
            socket: SocketId(0),
            remote: to,
            ecn,
            segment_size: None,
        })
    }

    fn timeout(&self) -> Option<Time> {
        self.held.iter().map(|w| w.at).min()
    }

    fn handle_timeout(&mut self, _now: Time) {}
}

/// What a leaving relay says about a datagram's grant.
fn leaving(unix: Duration, datagram: &[u8]) -> Option<Vec<u8>> {
    let stale = Stale {
        reason: StaleReason::Leaving,
        now: unix.as_secs() as u32,
        mac: ForwardHeader::decode(datagram).ok()?.mac,
    };
    Some(stale.to_bytes().to_vec())
}

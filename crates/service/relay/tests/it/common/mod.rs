//! A relay and its clients without sockets.

use std::net::SocketAddr;
use std::time::Duration;

use manyway_relay::keys::{public_key, sign};
use manyway_relay::{Action, Config, Keys, Reason, Relay};
use manyway_wire::relay::{
    Consent, ConsentReply, Grant, Hello, Listen, ListenerName, Mint, Minted, Nonce, Peer, Proof,
    RateClass, Refusal, RelayReply, Stale, Voucher,
};
use rand::SeedableRng;
use rand::rngs::ChaCha20Rng;

pub(crate) const START: Duration = Duration::from_secs(1_800_000_000);

/// Sender, receiver, and somebody who has nothing to do with them.
pub(crate) const S: &str = "198.51.100.1:1000";
pub(crate) const R: &str = "203.0.113.2:2000";
pub(crate) const V: &str = "192.0.2.3:3000";

pub(crate) fn addr(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

pub(crate) struct World {
    pub(crate) relay: Relay,
    pub(crate) now: Duration,
    pub(crate) seed: [u8; 32],
    pub(crate) rng: ChaCha20Rng,
    /// Bytes to and from the relay.
    pub(crate) bytes: (u64, u64),
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(Config::default())
    }

    pub(crate) fn with(config: Config) -> Self {
        Self::seeded(1, config)
    }

    pub(crate) fn seeded(seed: u64, config: Config) -> Self {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let keys = Keys::generate(START, &mut rng);
        Self {
            relay: Relay::new(config, keys, &mut rng),
            now: START,
            seed: [7; 32],
            rng,
            bytes: (0, 0),
        }
    }

    pub(crate) fn later(&mut self, seconds: f64) {
        self.now += Duration::from_secs_f64(seconds);
    }

    /// What the relay does with a datagram; no reply of it is ever longer than the request.
    pub(crate) fn handle(&mut self, from: SocketAddr, datagram: &[u8]) -> Action {
        let action = self.relay.handle(self.now, from, datagram);
        let replied = match &action {
            Action::Reply(reply)
            | Action::Forward {
                notice: Some(reply),
                ..
            } => reply.as_bytes().len(),
            _ => 0,
        };
        assert!(
            replied <= datagram.len(),
            "{replied} bytes for {}",
            datagram.len()
        );
        self.bytes.0 += datagram.len() as u64;
        self.bytes.1 += replied as u64;
        action
    }

    pub(crate) fn reply(&mut self, from: &str, datagram: &[u8]) -> Result<RelayReply, Reason> {
        match self.handle(addr(from), datagram) {
            Action::Reply(reply) => Ok(RelayReply::decode(reply.as_bytes()).unwrap()),
            Action::Drop(reason) => Err(reason),
            forward => panic!("{forward:?}"),
        }
    }

    pub(crate) fn hello(&mut self, from: &str) -> (Consent, Proof) {
        let reply = self.try_hello(from).unwrap();
        (reply.consent, reply.proof)
    }

    pub(crate) fn try_hello(&mut self, from: &str) -> Result<ConsentReply, Reason> {
        let (nonce, relay) = (Nonce([1; 8]), self.relay.id());
        match self.reply(from, &Hello { nonce, relay }.to_bytes())? {
            RelayReply::Consent(reply) => {
                assert_eq!(reply.nonce, nonce);
                Ok(reply)
            }
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn listen(
        &mut self,
        from: &str,
        name: ListenerName,
        proof: Proof,
    ) -> Result<(), Reason> {
        let listen = Listen {
            nonce: Nonce([2; 8]),
            relay: self.relay.id(),
            name,
            proof,
        };
        self.reply(from, &listen.to_bytes()).map(drop)
    }

    /// A new proof for an old one.
    pub(crate) fn renewed(&mut self, from: &str, proof: Proof) -> Proof {
        let listen = Listen {
            nonce: Nonce([2; 8]),
            relay: self.relay.id(),
            name: ListenerName::NONE,
            proof,
        };
        match self.reply(from, &listen.to_bytes()) {
            Ok(RelayReply::Consent(reply)) => reply.proof,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn voucher(&self) -> Voucher {
        self.voucher_of([1; 8], RateClass::MAX)
    }

    pub(crate) fn voucher_of(&self, account: [u8; 8], class: RateClass) -> Voucher {
        let client = public_key(&self.seed);
        self.relay.keys().vouch(account, class, u32::MAX, client)
    }

    pub(crate) fn mint_datagram(&self, proof: Proof, peer: Peer, voucher: Voucher) -> Vec<u8> {
        let mint = Mint {
            nonce: Nonce([3; 8]),
            proof,
            peer,
            voucher,
        };
        mint.seal(|bytes| sign(&self.seed, bytes)).to_vec()
    }

    pub(crate) fn mint_with(
        &mut self,
        from: &str,
        proof: Proof,
        peer: Peer,
        voucher: Voucher,
    ) -> Result<Result<Minted, Refusal>, Reason> {
        let datagram = self.mint_datagram(proof, peer, voucher);
        match self.reply(from, &datagram)? {
            RelayReply::Minted(minted) => Ok(Ok(minted)),
            RelayReply::Refused(refused) => Ok(Err(refused.reason)),
            other => panic!("{other:?}"),
        }
    }

    /// Grants between two addresses, as honest clients get them.
    pub(crate) fn grants(&mut self, from: &str, to: &str) -> Minted {
        let voucher = self.voucher();
        self.grants_with(from, to, voucher)
    }

    pub(crate) fn grants_with(&mut self, from: &str, to: &str, voucher: Voucher) -> Minted {
        let (consent, _) = self.hello(to);
        let (_, proof) = self.hello(from);
        let minted = self.mint_with(from, proof, Peer::Consent(consent), voucher);
        minted.unwrap().unwrap()
    }

    /// Where a packet with this grant goes.
    pub(crate) fn send(&mut self, from: &str, grant: &Grant) -> Sent {
        self.send_payload(from, grant, b"\x10 a packet of a session")
    }

    pub(crate) fn send_payload(&mut self, from: &str, grant: &Grant, payload: &[u8]) -> Sent {
        let datagram = [grant.as_bytes(), payload].concat();
        self.send_raw(from, &datagram)
    }

    pub(crate) fn send_raw(&mut self, from: &str, datagram: &[u8]) -> Sent {
        match self.handle(addr(from), datagram) {
            Action::Forward { to, .. } => Sent::To(to),
            Action::Drop(reason) => Sent::Dropped(reason),
            Action::Reply(reply) => match RelayReply::decode(reply.as_bytes()).unwrap() {
                RelayReply::Stale(stale) => Sent::Stale(stale),
                other => panic!("{other:?}"),
            },
        }
    }
}

#[derive(Debug, PartialEq)]
pub(crate) enum Sent {
    To(SocketAddr),
    Stale(Stale),
    Dropped(Reason),
}

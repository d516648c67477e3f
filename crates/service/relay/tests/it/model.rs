//! Every order of what two hosts ask a relay for, up to a number of steps, with an attacker who
//! reads all that passes between the sender and the relay, replays it, and claims any source.
//!
//! The relay is the real one. After each step the attacker tries all that it can at that moment:
//! what it learns never takes anything from it, so trying less would only find less.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::time::Duration;

use manyway_checker::{Model, assert_broken, assert_holds};
use manyway_relay::keys::{GrantTerms, public_key, sign};
use manyway_relay::{Action, Config, Keys, Relay};
use manyway_wire::relay::{
    Consent, ForwardHeader, Grant, Hello, Listen, ListenerName, Mint, Minted, Nonce, Peer, Proof,
    RateClass, Refusal, RelayId, RelayReply, StaleReason, Voucher,
};
use rand::SeedableRng;
use rand::rngs::ChaCha20Rng;

use crate::common::{R, S, START, V, addr};

/// The attacker's own address.
const M: &str = "198.51.100.66:6666";
const NAME: ListenerName = ListenerName([5; 16]);
const PAYLOAD: &[u8] = b"\x10 a packet of a session";

/// What the relay gets wrong.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// It mints whether or not the destination's consent is genuine.
    GrantWithoutConsent,
    /// A grant lives on from its minting, not from the consent.
    LifeFromMinting,
    /// It honours grants whoever uses them.
    AnySource,
    /// It mints for whoever sends a MINT, whosever proof is in it.
    AnyProof,
    /// Consents can be read by others than those at the address.
    ConsentsInPublic,
}

struct Consents {
    fault: Fault,
    /// The attacker has a voucher of its own.
    access: bool,
    keys: String,
    relay: RelayId,
    // What was worked out already.
    tried: RefCell<HashMap<Key, Headers>>,
    heard: RefCell<HashMap<(u32, SocketAddr), (Consent, Proof)>>,
    answers: RefCell<HashMap<Question, Said>>,
    signed: RefCell<HashMap<Signed, Vec<u8>>>,
}

/// A datagram to a relay that has heard `before`, each with its time and source.
type Question = (Vec<Sent>, Sent);
type Sent = (u32, SocketAddr, Vec<u8>);
/// The proof and the peer in a MINT, and whose key signs it.
type Signed = (Vec<u8>, Vec<u8>, u8);
type Headers = BTreeSet<Vec<u8>>;

#[derive(Clone, Debug)]
enum Said {
    Forward(SocketAddr),
    Reply(Vec<u8>),
    Nothing,
}

#[derive(Copy, Clone, Debug)]
enum Step {
    Wait {
        seconds: u32,
    },
    /// R asks to be reached, and tells S the consent over the session.
    Ask,
    /// R asks to be reached under its name.
    Listen,
    /// S shows that it is at its address.
    Show,
    /// S asks for grants, with R's consent or by its name.
    Mint {
        by_name: bool,
    },
    /// S sends to R.
    Send,
    /// R sends back.
    Answer,
}

#[derive(Clone, Default)]
struct State {
    /// Seconds since the start.
    now: u32,
    /// When R said last that it wants to be reached.
    asked: Option<u32>,
    proof_of_r: Option<u32>,
    proof_of_s: Option<u32>,
    consent_at_s: Option<u32>,
    grants: Option<[Vec<u8>; 2]>,
    /// What the relay remembers of: the name's listener, and the last grant that held.
    named: Option<Sent>,
    last: Option<Sent>,
    // What the attacker knows.
    moments: BTreeSet<u32>,
    consents: BTreeSet<u32>,
    mints: BTreeSet<Vec<u8>>,
    headers: Headers,
}

/// All that is different about a state.
type Key = (
    [Option<u32>; 5],
    Option<[Vec<u8>; 2]>,
    [Option<Sent>; 2],
    [BTreeSet<u32>; 2],
    [BTreeSet<Vec<u8>>; 2],
);

impl Consents {
    fn new(fault: Fault, access: bool) -> Self {
        let keys = Keys::generate(START, &mut ChaCha20Rng::seed_from_u64(1));
        Self {
            fault,
            access,
            keys: keys.to_text().to_string(),
            relay: keys.id(),
            tried: RefCell::default(),
            heard: RefCell::default(),
            answers: RefCell::default(),
            signed: RefCell::default(),
        }
    }

    fn keys(&self) -> Keys {
        Keys::from_text(&self.keys).expect("they were written")
    }

    /// What the relay says, having heard what it remembers; its rates are left aside.
    fn ask(&self, state: &State, from: &str, datagram: &[u8]) -> Said {
        let before: Vec<Sent> = state.named.iter().chain(&state.last).cloned().collect();
        let question = (before, (state.now, addr(from), datagram.to_vec()));
        if let Some(said) = self.answers.borrow().get(&question) {
            return said.clone();
        }
        let mut relay = Relay::new(
            Config::default(),
            self.keys(),
            &mut ChaCha20Rng::seed_from_u64(2),
        );
        let mut earlier = question.0.clone();
        earlier.sort_by_key(|(at, ..)| *at);
        for (at, from, datagram) in &earlier {
            relay.handle(time(*at), *from, datagram);
        }
        let action = relay.handle(time(state.now), addr(from), datagram);
        let said = self.broken(state, from, datagram, action);
        self.answers.borrow_mut().insert(question, said.clone());
        said
    }

    /// What a relay with the fault does instead.
    fn broken(&self, state: &State, from: &str, datagram: &[u8], action: Action) -> Said {
        let reply = match &action {
            Action::Reply(reply) => RelayReply::decode(reply.as_bytes()).ok(),
            _ => None,
        };
        let mint = Mint::decode(datagram).ok().map(|(mint, _)| mint);
        let mint = |expires: u32| {
            let mint = mint.as_ref()?;
            let Peer::Consent(consent) = mint.peer else {
                return None;
            };
            let grant = |source, destination| {
                let (class, tag) = (RateClass::MAX, [1; 8]);
                self.keys().grant(&GrantTerms {
                    source,
                    destination,
                    class,
                    tag,
                    expires,
                })
            };
            let minted = Minted {
                nonce: mint.nonce,
                now: seconds(state.now),
                there: grant(addr(from), consent.address),
                back: grant(consent.address, addr(from)),
            };
            let mut bytes = Vec::new();
            minted.encode(&mut bytes);
            Some(Said::Reply(bytes))
        };
        let late = seconds(state.now) + 120;
        let instead = match (self.fault, &action, reply) {
            (Fault::GrantWithoutConsent, _, Some(RelayReply::Refused(refused)))
                if refused.reason == Refusal::Consent =>
            {
                mint(late)
            }
            (Fault::LifeFromMinting, _, Some(RelayReply::Minted(_))) => mint(late),
            (Fault::AnySource, _, Some(RelayReply::Stale(stale)))
                if stale.reason == StaleReason::Moved =>
            {
                Grant::in_front_of(datagram)
                    .ok()
                    .map(|it| Said::Forward(it.destination()))
            }
            (Fault::AnyProof, Action::Drop(manyway_relay::Reason::Forged), _) => mint(late),
            _ => None,
        };
        instead.unwrap_or_else(|| match action {
            Action::Forward { to, .. } => Said::Forward(to),
            Action::Reply(reply) => Said::Reply(reply.as_bytes().to_vec()),
            Action::Drop(_) => Said::Nothing,
        })
    }

    /// What a host gets that says HELLO at a time.
    fn hello(&self, at: u32, from: &str) -> (Consent, Proof) {
        let known = (at, addr(from));
        if let Some(heard) = self.heard.borrow().get(&known) {
            return *heard;
        }
        let state = State {
            now: at,
            ..State::default()
        };
        let hello = Hello {
            nonce: Nonce([1; 8]),
            relay: self.relay,
        };
        let heard = match self.ask(&state, from, &hello.to_bytes()) {
            Said::Reply(reply) => match RelayReply::decode(&reply) {
                Ok(RelayReply::Consent(reply)) => (reply.consent, reply.proof),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        };
        self.heard.borrow_mut().insert(known, heard);
        heard
    }

    fn voucher(&self, client: u8) -> Voucher {
        let key = public_key(&[client; 32]);
        self.keys()
            .vouch([client; 8], RateClass::MAX, u32::MAX, key)
    }

    /// A MINT that the holder of a key has signed. Without access, the attacker has only the
    /// sender's voucher.
    fn mint(&self, proof: Proof, peer: Peer, client: u8) -> Vec<u8> {
        let about = match &peer {
            Peer::Consent(consent) => consent.to_bytes().to_vec(),
            Peer::Name(name) => name.0.to_vec(),
        };
        let shown = [&[proof.key][..], &proof.issued.to_be_bytes(), &proof.mac.0].concat();
        let mut signed = self.signed.borrow_mut();
        let bytes = signed.entry((shown, about, client)).or_insert_with(|| {
            let voucher = self.voucher(if self.access { client } else { b'S' });
            let mint = Mint {
                nonce: Nonce([3; 8]),
                proof,
                peer,
                voucher,
            };
            mint.seal(|bytes| sign(&[client; 32], bytes)).to_vec()
        });
        bytes.clone()
    }

    /// When a host last said that it wants to be reached. The attacker can say so in the name of
    /// the sender, whose answers it reads.
    fn agreed(state: &State, host: SocketAddr) -> Option<u32> {
        match host {
            host if host == addr(R) => state.asked,
            host if host == addr(S) || host == addr(M) => Some(state.now),
            _ => None,
        }
    }

    /// A MINT reached the relay: whether it may be answered as it is, and what comes back.
    fn minted(
        &self,
        state: &State,
        from: &str,
        datagram: &[u8],
        owner: &str,
    ) -> Result<Option<Minted>, String> {
        let Said::Reply(reply) = self.ask(state, from, datagram) else {
            return Ok(None);
        };
        let Ok(RelayReply::Minted(minted)) = RelayReply::decode(&reply) else {
            return Ok(None);
        };
        if owner != from {
            return Err("a MINT is good for another source than its sender's".into());
        }
        for grant in [&minted.there, &minted.back] {
            let agreed = Self::agreed(state, grant.destination());
            let Some(agreed) = agreed.filter(|at| at + 60 >= state.now) else {
                return Err("a grant for a destination that hasn't consented of late".into());
            };
            if grant.expires() > seconds(agreed) + 120 {
                return Err("a grant outlives its destination's consent".into());
            }
        }
        Ok(Some(minted))
    }

    /// A FORWARD reached the relay; whether it went on.
    fn forwarded(&self, state: &State, from: &str, header: &[u8]) -> Result<bool, String> {
        let Said::Forward(to) = self.ask(state, from, &[header, PAYLOAD].concat()) else {
            return Ok(false);
        };
        if Self::agreed(state, to).is_none_or(|agreed| state.now >= agreed + 120) {
            return Err("a packet goes to a destination without its consent".into());
        }
        if from == M && !self.access {
            return Err("a packet goes on from somebody without access".into());
        }
        Ok(true)
    }

    /// The attacker tries everything.
    fn attack(&self, state: &mut State) -> Result<(), String> {
        state.moments.insert(state.now);
        // What is over by more than a second stays over.
        let now = state.now;
        state.moments.retain(|at| at + 61 >= now);
        state.consents.retain(|at| at + 61 >= now);
        let over = |header: &[u8]| ForwardHeader::decode(header).map(|it| it.expires);
        state
            .headers
            .retain(|header| over(header).is_ok_and(|at| at + 1 >= seconds(now)));
        let key = self.key(state);
        if let Some(headers) = self.tried.borrow().get(&key) {
            state.headers.clone_from(headers);
            return Ok(());
        }
        let mut victims: Vec<&str> = vec![S, M];
        if self.fault == Fault::ConsentsInPublic {
            victims.push(V);
        }
        let heard: Vec<(&str, (Consent, Proof))> = victims
            .iter()
            .flat_map(|host| {
                state
                    .moments
                    .iter()
                    .map(|&at| (*host, self.hello(at, host)))
            })
            .collect();
        let seen = state.consents.iter().map(|&at| self.hello(at, R).0);
        let consents: Vec<Consent> = heard.iter().map(|(_, it)| it.0).chain(seen).collect();
        // What the relay never issued: its own with another address, or made younger.
        let own = self.hello(state.now, M).0;
        let forged = [V, R].map(|host| Consent {
            address: addr(host),
            ..own
        });
        let younger = consents.iter().map(|it| Consent {
            issued: own.issued,
            ..*it
        });
        let peers: Vec<Peer> = consents
            .iter()
            .copied()
            .chain(forged)
            .chain(younger)
            .map(Peer::Consent)
            .chain([Peer::Name(NAME)])
            .collect();
        let mut learned = Vec::new();
        for (owner, (_, proof)) in &heard {
            for peer in &peers {
                let datagram = self.mint(*proof, *peer, b'M');
                for from in [M, S, R, V] {
                    let minted = self.minted(state, from, &datagram, owner)?;
                    learned.extend(minted.filter(|_| victims.contains(&from)));
                }
            }
        }
        for datagram in &state.mints {
            for from in [M, S, R, V] {
                self.minted(state, from, datagram, S)?;
            }
        }
        for minted in learned {
            state.headers.insert(minted.there.as_bytes().to_vec());
            state.headers.insert(minted.back.as_bytes().to_vec());
        }
        for header in &state.headers {
            let genuine = ForwardHeader::decode(header).expect("it was minted");
            let turned = [V, R].map(|host| ForwardHeader {
                destination: addr(host),
                ..genuine
            });
            let longer = ForwardHeader {
                expires: seconds(state.now) + 100,
                ..genuine
            };
            let altered = turned.into_iter().chain([longer]).map(Grant::from);
            for from in [M, S, R, V] {
                self.forwarded(state, from, header)?;
                for altered in altered.clone() {
                    self.forwarded(state, from, altered.as_bytes())?;
                }
            }
        }
        self.tried.borrow_mut().insert(key, state.headers.clone());
        Ok(())
    }
}

fn seconds(at: u32) -> u32 {
    time(at).as_secs() as u32
}

fn time(at: u32) -> Duration {
    START + Duration::from_secs(at.into())
}

impl Model for Consents {
    type State = State;
    type Step = Step;
    type Key = Key;

    fn start(&self) -> State {
        State::default()
    }

    fn steps(&self, state: &State) -> Vec<Step> {
        let mut steps = vec![
            Step::Wait { seconds: 1 },
            Step::Wait { seconds: 60 },
            Step::Ask,
            Step::Show,
        ];
        if state.proof_of_r.is_some() {
            steps.push(Step::Listen);
        }
        if state.proof_of_s.is_some() {
            steps.push(Step::Mint { by_name: true });
            if state.consent_at_s.is_some() {
                steps.push(Step::Mint { by_name: false });
            }
        }
        if state.grants.is_some() {
            steps.extend([Step::Send, Step::Answer]);
        }
        steps
    }

    fn take(&self, state: &mut State, step: &Step) -> Result<(), String> {
        match *step {
            Step::Wait { seconds } => state.now += seconds,
            Step::Ask => {
                state.asked = Some(state.now);
                state.proof_of_r = state.asked;
                state.consent_at_s = state.asked;
            }
            Step::Listen => {
                let at = state.proof_of_r.unwrap_or_default();
                let listen = Listen {
                    nonce: Nonce([2; 8]),
                    relay: self.relay,
                    name: NAME,
                    proof: self.hello(at, R).1,
                };
                let sent = (state.now, addr(R), listen.to_bytes().to_vec());
                if let Said::Reply(_) = self.ask(state, R, &sent.2) {
                    state.asked = Some(state.now);
                    state.proof_of_r = state.asked;
                    state.named = Some(sent);
                }
            }
            Step::Show => state.proof_of_s = Some(state.now),
            Step::Mint { by_name } => {
                let proof = self.hello(state.proof_of_s.unwrap_or_default(), S).1;
                let at = state.consent_at_s.unwrap_or_default();
                let peer = match by_name {
                    true => Peer::Name(NAME),
                    false => Peer::Consent(self.hello(at, R).0),
                };
                let datagram = self.mint(proof, peer, b'S');
                let minted = self.minted(state, S, &datagram, S)?;
                // A MINT is in the clear.
                state.mints.insert(datagram);
                if !by_name {
                    state.consents.insert(at);
                }
                if let Some(minted) = minted {
                    let grants = [&minted.there, &minted.back].map(|it| it.as_bytes().to_vec());
                    state.headers.extend(grants.iter().cloned());
                    state.grants = Some(grants);
                }
            }
            Step::Send | Step::Answer => {
                let (from, which) = match step {
                    Step::Send => (S, 0),
                    _ => (R, 1),
                };
                let header = state.grants.as_ref().expect("there are some")[which].clone();
                if self.forwarded(state, from, &header)? {
                    state.last = Some((state.now, addr(from), [&header, PAYLOAD].concat()));
                }
            }
        }
        self.attack(state)
    }

    fn key(&self, state: &State) -> Key {
        let it = state.clone();
        (
            [
                Some(it.now),
                it.asked,
                it.proof_of_r,
                it.proof_of_s,
                it.consent_at_s,
            ],
            it.grants,
            [it.named, it.last],
            [it.moments, it.consents],
            [it.mints, it.headers],
        )
    }
}

/// No grant without consent, nothing forwarded after it, nothing for another source.
fn holds(depth: usize) {
    for access in [false, true] {
        let model = Consents::new(Fault::None, access);
        assert_holds(&format!("consents, access {access}"), &model, depth);
    }
}

fn broken(fault: Fault, access: bool, property: &str) {
    let model = Consents::new(fault, access);
    assert_broken(&format!("{fault:?}"), &model, 5, property);
}

#[test]
fn model_of_consents_holds() {
    holds(5);
}

#[test]
#[ignore = "the larger bound: minutes"]
fn model_of_consents_holds_further() {
    holds(6);
}

#[test]
fn model_of_consents_finds_a_grant_without_consent() {
    let property = "a grant for a destination that hasn't consented of late";
    broken(Fault::GrantWithoutConsent, true, property);
}

#[test]
fn model_of_consents_finds_grants_that_live_on() {
    let property = "a grant outlives its destination's consent";
    broken(Fault::LifeFromMinting, true, property);
}

#[test]
fn model_of_consents_finds_the_use_of_copied_grants() {
    let property = "a packet goes on from somebody without access";
    broken(Fault::AnySource, false, property);
}

#[test]
fn model_of_consents_finds_the_replay_of_a_mint() {
    let property = "a MINT is good for another source than its sender's";
    broken(Fault::AnyProof, false, property);
}

#[test]
fn model_of_consents_finds_what_comes_of_public_consents() {
    let property = "a grant for a destination that hasn't consented of late";
    broken(Fault::ConsentsInPublic, true, property);
}

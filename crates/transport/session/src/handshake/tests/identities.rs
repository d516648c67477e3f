//! Who proves to be whom, and what others can make of it.

use manyway_wire::{Init, PeerId, Reply};
use snow::Builder;
use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::CryptoResolver;
use snow::types::{Cipher, Dh, Hash, Random};

use super::super::noise::{KeyPair, PROTOCOL, PSK_POSITION, Resolver};
use super::*;

fn identity(seed: u8) -> Identity {
    Identity::generate(&mut rng(seed))
}

fn known(ticket: &Ticket, identity: &Identity, seed: u8) -> Initiator {
    let config = InitiatorConfig {
        ticket,
        identity: Some(identity),
        params: params(cid(2000 + u64::from(seed))),
        suite: Suite::default(),
        limits: KeyLimits::default(),
    };
    Initiator::new(config, &mut rng(seed)).unwrap()
}

/// Whom each side takes the other for.
fn meet(initiator: &mut Initiator, responder: &mut Responder) -> (Option<PeerId>, Option<PeerId>) {
    let ours = u64::from(initiator.datagram()[9]) + 1;
    let reply = reply(responder, Time::ZERO, initiator.datagram(), ours);
    let mut established = initiator.on_reply(&reply).unwrap();
    let (header, mut first) = packet(&mut established, 0, b"");
    let opened = responder.try_open(Time::ZERO, &header, &mut first).unwrap();
    (established.identity, opened.established.identity)
}

#[test]
fn each_side_knows_the_other() {
    let (ann, office) = (identity(40), identity(41));
    let secrets = Secrets::of(&office, &mut rng(42));
    assert_eq!(secrets.id(), office.id());
    let ticket = secrets.ticket(Vec::new());
    let mut responder = Responder::new(ResponderConfig::new(secrets, [2; 32]));
    let met = meet(&mut known(&ticket, &ann, 1), &mut responder);
    assert_eq!(met, (Some(office.id()), Some(ann.id())));
    // Again, with another ephemeral key.
    let met = meet(&mut known(&ticket, &ann, 2), &mut responder);
    assert_eq!(met, (Some(office.id()), Some(ann.id())));
    let met = meet(
        &mut initiator_with(&ticket, Suite::default(), 3),
        &mut responder,
    );
    assert_eq!(
        met,
        (Some(office.id()), None),
        "a key for once is no identity"
    );
}

#[test]
fn tickets_of_one_identity_have_nothing_else_in_common() {
    let office = identity(41);
    let [one, two] = [1, 2].map(|seed| Secrets::of(&office, &mut rng(seed)).ticket(Vec::new()));
    assert_eq!(one.public_key, two.public_key);
    assert!(one.id != two.id && one.secret != two.secret);
    let mut responder = Responder::new(ResponderConfig::new(
        Secrets::of(&office, &mut rng(2)),
        [2; 32],
    ));
    let refused = ignored(
        &mut responder,
        Time::ZERO,
        known(&one, &identity(40), 1).datagram(),
    );
    assert_eq!(refused, Ignored::OtherTicket(one.id));
}

/// A static key of somebody who knows the listener's private key and only Ann's public one, and
/// wants to be Ann (key compromise impersonation).
#[derive(Default)]
struct Stolen {
    listener: KeyPair,
    ann: [u8; 32],
    /// The ephemeral key is honest.
    own: Option<KeyPair>,
}

impl Dh for Stolen {
    fn name(&self) -> &'static str {
        self.listener.name()
    }
    fn pub_len(&self) -> usize {
        32
    }
    fn priv_len(&self) -> usize {
        32
    }
    fn set(&mut self, _: &[u8]) {}
    fn generate(&mut self, rng: &mut dyn Random) -> Result<(), snow::Error> {
        self.own.insert(KeyPair::default()).generate(rng)
    }
    fn pubkey(&self) -> &[u8] {
        self.own.as_ref().map_or(&self.ann, |own| own.pubkey())
    }
    fn privkey(&self) -> &[u8] {
        self.own.as_ref().unwrap_or(&self.listener).privkey()
    }
    fn dh(&self, public: &[u8], out: &mut [u8]) -> Result<(), snow::Error> {
        match &self.own {
            Some(own) => own.dh(public, out),
            // What Ann and the listener share, from the other end.
            None if public.starts_with(self.listener.pubkey()) => self.listener.dh(&self.ann, out),
            // What Ann and the listener's ephemeral key share: this is as good a guess as any.
            None => self.listener.dh(public, out),
        }
    }
}

struct Thief {
    listener: [u8; 32],
    ann: PeerId,
    rest: Resolver,
}

impl CryptoResolver for Thief {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        self.rest.resolve_rng()
    }
    fn resolve_dh(&self, _: &DHChoice) -> Option<Box<dyn Dh>> {
        let mut stolen = Stolen {
            ann: self.ann.0,
            ..Stolen::default()
        };
        stolen.listener.set(&self.listener);
        Some(Box::new(stolen))
    }
    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        self.rest.resolve_hash(choice)
    }
    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        self.rest.resolve_cipher(choice)
    }
}

#[test]
fn even_who_knows_the_listeners_key_cant_be_somebody_else() {
    let (ann, secrets, ticket) = (identity(40), secrets(), ticket());
    let thief = Thief {
        listener: *secrets.private_key(),
        ann: ann.id(),
        rest: Resolver::seeded([5; 32]),
    };
    let prologue = prologue(&ticket.id, Suite::default());
    let mut state = Builder::with_resolver(PROTOCOL.parse().unwrap(), Box::new(thief))
        .local_private_key(&[0; 32])
        .unwrap()
        .psk(PSK_POSITION, &ticket.secret)
        .unwrap()
        .prologue(&prologue)
        .unwrap()
        .remote_public_key(&ticket.public_key)
        .unwrap()
        .build_initiator()
        .unwrap();
    let params = TransportParameters {
        identity: true,
        ..params(cid(7))
    };
    let mut message = [0; manyway_wire::MAX_INIT_NOISE];
    let len = state.write_message(&params.to_bytes(), &mut message);
    let init = Init {
        sender_cid: params.cid,
        ticket_id: ticket.id,
        noise: &message[..len.unwrap()],
        mac2: [0; manyway_wire::MAC2_LEN],
    };
    let init = init.seal(|bytes| Mac1::new(&ticket.secret).sign(bytes));
    // Message 1 says that it is Ann, and the listener can't tell.
    let mut responder = responder();
    let answer = reply(&mut responder, Time::ZERO, &init, 1);
    // But without Ann's key, nobody can read the answer, and so make a packet.
    let answer = Reply::decode(&answer).unwrap();
    let read = state.read_message(answer.noise, &mut [0; 1200]);
    assert_eq!(read, Err(snow::Error::Decrypt));
    responder.expire(Time::ZERO + LIFETIME);
    assert_eq!((responder.len(), responder.stats().established), (0, 0));
}

#[test]
fn another_key_in_message_1_doesnt_decrypt() {
    // The encrypted static key has 32 + 16 bytes behind the ephemeral one.
    let ann = known(&ticket(), &identity(40), 1);
    let (noise_at, mut responder) = (2 + 8 + 8 + 2, responder());
    let init = Init::decode(ann.datagram()).unwrap();
    assert_eq!(&ann.datagram()[noise_at..][..32], &init.noise[..32]);
    let bob = known(&ticket(), &identity(43), 2);
    let mut spliced = ann.datagram().to_vec();
    spliced[noise_at + 32..][..48].copy_from_slice(&bob.datagram()[noise_at + 32..][..48]);
    let refused = ignored(&mut responder, Time::ZERO, &authenticate(spliced));
    assert!(
        matches!(refused, Ignored::DoesNotDecrypt { .. }),
        "{refused}"
    );
    // Nor can anybody without the keys say that there is no identity: every bit is authenticated.
    let end = noise_at + init.noise.len();
    for at in noise_at + 80..end {
        let changed = authenticate(flipped(ann.datagram(), 8 * at));
        let refused = ignored(&mut responder, Time::ZERO, &changed);
        assert!(
            matches!(refused, Ignored::DoesNotDecrypt { .. }),
            "{refused}"
        );
    }
    assert!(responder.is_empty());
}

#[test]
fn a_replayed_proof_proves_nothing() {
    let (ann, ticket) = (identity(40), ticket());
    let mut responder = responder();
    let mut genuine = known(&ticket, &ann, 1);
    let init = genuine.datagram().to_vec();
    let answer = reply(&mut responder, Time::ZERO, &init, 1);
    let mut established = genuine.on_reply(&answer).unwrap();
    let (header, first) = packet(&mut established, 0, b"it's Ann");
    // At the same listener after a restart: new ephemeral key, so the old packet doesn't open.
    let mut config = config();
    config.seed = [77; 32];
    let mut restarted = Responder::new(config);
    let again = reply(&mut restarted, Time::ZERO, &init, 1);
    assert_ne!(answer, again);
    assert!(
        restarted
            .try_open(Time::ZERO, &header, &mut first.clone())
            .is_none()
    );
    assert_eq!(restarted.stats().established, 0);
    // Where it belongs, it does.
    let mut first = first;
    let opened = responder.try_open(Time::ZERO, &header, &mut first);
    assert_eq!(opened.unwrap().established.identity, Some(ann.id()));
}

#[test]
fn a_proof_for_another_listener_is_worth_nothing() {
    // Bob's listener gets Ann's INIT and passes it on to ours, whose ticket he has too.
    let (ann, bob) = (identity(40), Secrets::generate(&mut rng(44)));
    let to_bob = known(&bob.ticket(Vec::new()), &ann, 1);
    let mut responder = responder();
    let refused = ignored(&mut responder, Time::ZERO, to_bob.datagram());
    assert_eq!(refused, Ignored::OtherTicket(bob.ticket_id()));
    let mut readdressed = to_bob.datagram().to_vec();
    readdressed[10..18].copy_from_slice(&ticket().id);
    let refused = ignored(&mut responder, Time::ZERO, &authenticate(readdressed));
    assert!(
        matches!(refused, Ignored::DoesNotDecrypt { .. }),
        "{refused}"
    );
    assert!(responder.is_empty());
}

#[test]
fn an_identity_connects_as_itself_and_listens_as_itself() {
    // The same key in both roles, even with itself.
    let one = identity(40);
    let secrets = Secrets::of(&one, &mut rng(1));
    let ticket = secrets.ticket(Vec::new());
    let mut responder = Responder::new(ResponderConfig::new(secrets, [2; 32]));
    let met = meet(&mut known(&ticket, &one, 3), &mut responder);
    assert_eq!(met, (Some(one.id()), Some(one.id())));
    assert_eq!(Identity::from_bytes(&one.to_bytes()).id(), one.id());
    let shown = format!("{one:?}");
    assert_eq!(shown, format!("Identity({})", one.id()));
}

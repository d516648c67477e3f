//! Each credential is valid until just before its end.

use manyway_relay::keys::{public_key, sign};
use manyway_wire::relay::{VOUCHER_LEN, Voucher};

use super::*;

const TOKENS: &str = "relay cheap 0123456789abcdef0123\nclient lab abcdefabcdefabcdefabcd 3\n";
const RELAY_TOKEN: &str = "0123456789abcdef0123";
const CLIENT_TOKEN: &str = "abcdefabcdefabcdefabcd";
const NOW: Duration = Duration::from_secs(1_800_000_000);
const MS: Duration = Duration::from_millis(1);
const NS: Duration = Duration::from_nanos(1);

fn from(host: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, host], 5))
}

fn core() -> Core {
    let key = RegistryKey::generate(&mut ChaCha20Rng::seed_from_u64(1));
    Core::new(
        key,
        Tokens::parse(TOKENS).unwrap(),
        Limits::default(),
        [7; 32],
    )
}

/// An enrolment with a challenge issued at `issued`.
fn request(core: &Core, issued: Duration) -> EnrolRelay {
    let addresses = vec!["9.9.9.9:5".parse().unwrap()];
    let challenge = core.challenge(issued);
    let signed = api::enrolment_bytes(&core.id().0, &challenge, &addresses, false);
    EnrolRelay {
        relay: public_key(&[1; 32]).to_string(),
        addresses,
        tcp: false,
        challenge,
        signature: api::encode(&sign(&[1; 32], &signed)),
    }
}

fn record() -> Record {
    Record {
        relay: public_key(&[1; 32]),
        addresses: Box::new([]),
        tcp: false,
        owner: "cheap".into(),
        lease: 7,
        challenged: 0,
        left: false,
    }
}

fn credential(core: &mut Core, now: Duration) -> (String, u32) {
    let client = EnrolClient {
        client: public_key(&[2; 32]).to_string(),
    };
    core.enrol_client(now, from(1), CLIENT_TOKEN, &client)
        .unwrap()
}

#[test]
fn a_challenge_ends_to_the_tick() {
    let mut core = core();
    let life = CHALLENGE_LIFE;
    assert_eq!(life, Duration::from_secs(30));
    // Issued by this registry, or by one whose clock is ahead.
    for (issued, good) in [
        (NOW + MS - life, true),
        (NOW - life, false),
        (NOW + life - MS, true),
        (NOW + life, false),
    ] {
        let body = request(&core, issued);
        let enrolled = core.enrol_relay(NOW, from(1), RELAY_TOKEN, &body);
        let expected = if good { None } else { Some(Problem::Challenge) };
        assert_eq!(enrolled.err(), expected, "{issued:?}");
    }
}

/// Even a challenge from a registry whose clock is as far ahead as permitted ends before the record
/// of its enrolment is forgotten.
#[test]
fn no_challenge_outlives_what_its_enrolment_leaves() {
    let mut core = core();
    let body = request(&core, NOW + CHALLENGE_LIFE - MS);
    let candidate = core.enrol_relay(NOW, from(1), RELAY_TOKEN, &body).unwrap();
    core.relays_mut().insert(candidate.record, NOW + LEASE);
    for (at, problem) in [
        (NOW + LEASE - MS - NS, Problem::Repeated),
        (NOW + LEASE - MS, Problem::Challenge),
        (NOW + LEASE, Problem::Challenge),
    ] {
        core.tick(at);
        let again = core.enrol_relay(at, from(1), RELAY_TOKEN, &body);
        assert_eq!(again.unwrap_err(), problem, "{at:?}");
    }
}

#[test]
fn a_lease_ends_to_the_tick_and_is_renewed_until_then() {
    for (at, renewed) in [(NOW + LEASE - NS, true), (NOW + LEASE, false)] {
        let mut core = core();
        core.relays_mut().insert(record(), NOW + LEASE);
        let text = core.lease(&record());
        let lease = core.open_lease(at, from(1), &text).unwrap();
        assert_eq!(core.renew(at, &lease), renewed);
        core.tick(at);
        assert_eq!(core.relays().usable(), usize::from(renewed));
        // A renewal lasts a whole lease.
        core.tick(at + LEASE - NS);
        assert_eq!(core.relays().usable(), usize::from(renewed));
        core.tick(at + LEASE);
        assert_eq!(core.relays().usable(), 0);
    }
}

/// Clients get no voucher for a relay whose lease has ended, even before the next sweep.
#[test]
fn no_voucher_is_given_for_a_lease_that_ended() {
    let mut core = core();
    let (credential, _) = credential(&mut core, NOW);
    core.relays_mut().insert(record(), NOW + LEASE);
    for (at, given) in [(NOW + LEASE - NS, 1), (NOW + LEASE, 0)] {
        let ask = AskVouchers::default();
        let relays = core.vouchers(at, from(1), &credential, &ask).unwrap();
        assert_eq!(relays.len(), given, "{at:?}");
    }
}

#[test]
fn a_credential_ends_to_the_tick() {
    let mut core = core();
    let (credential, expires) = credential(&mut core, NOW);
    let end = Duration::from_secs(expires.into());
    assert_eq!(end, NOW + Duration::from_secs(24 * 3600));
    let listen = api::Listen {
        owner: api::encode(&[1; 16]),
        sealed: "x".to_owned(),
        wait_s: 0,
    };
    for (at, good) in [(end - NS, true), (end, false)] {
        let ask = AskVouchers::default();
        let expected = if good {
            None
        } else {
            Some(Problem::Credential)
        };
        let vouchers = core.vouchers(at, from(1), &credential, &ask);
        assert_eq!(vouchers.err(), expected, "{at:?}");
        let name = api::encode(&[2; 16]);
        let listening = core.listen(at, from(1), &credential, &name, &listen);
        assert_eq!(listening.err(), expected, "{at:?}");
    }
}

/// Relays refuse a voucher from the second on that it says.
#[test]
fn a_voucher_says_when_it_ends() {
    let mut core = core();
    let (credential, _) = credential(&mut core, NOW);
    core.relays_mut().insert(record(), Duration::MAX);
    for (at, end) in [(NOW, 7200), (NOW + Duration::from_secs(5) - NS, 7204)] {
        let ask = AskVouchers::default();
        let relays = core.vouchers(at, from(1), &credential, &ask).unwrap();
        let bytes: [u8; VOUCHER_LEN] = api::decode(&relays[0].voucher).unwrap();
        let voucher = Voucher::decode(&bytes).unwrap();
        assert_eq!(voucher.terms.expires, NOW.as_secs() as u32 + end);
    }
}

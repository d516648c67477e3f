//! Expiry to the tick, bounds to the unit.

use manyway_relay::keys::{public_key, sign};
use manyway_wire::relay::{VOUCHER_LEN, Voucher};

use super::meeting::sealed;
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
    with(Limits::default())
}

fn with(limits: Limits) -> Core {
    let key = RegistryKey::generate(&mut ChaCha20Rng::seed_from_u64(1));
    Core::new(key, Tokens::parse(TOKENS).unwrap(), limits, [7; 32])
}

/// An enrolment with a challenge issued at `issued`.
fn request(core: &Core, issued: Duration) -> EnrolRelay {
    request_at(core, issued, "9.9.9.9:5", false)
}

fn request_at(core: &Core, issued: Duration, address: &str, tcp: bool) -> EnrolRelay {
    let addresses = vec![address.parse().unwrap()];
    let challenge = core.challenge(issued);
    let signed = api::enrolment_bytes(&core.id().0, &challenge, &addresses, tcp);
    EnrolRelay {
        relay: public_key(&[1; 32]).to_string(),
        addresses,
        tcp,
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

/// Altogether, and with one token; who is enrolled may enrol again.
#[test]
fn relays_are_bounded() {
    let other = |n: u8, owner: &str| Record {
        relay: RelayId([n; 32]),
        owner: owner.into(),
        ..record()
    };
    let full = Some(Problem::Full { what: "relays" });
    for (relays, relays_per_token, owner, expected) in [
        (3, 9, "other", None),
        (2, 9, "other", full.clone()),
        (9, 3, "cheap", None),
        (9, 2, "cheap", full),
        (9, 2, "other", None),
    ] {
        let mut core = with(Limits {
            relays,
            relays_per_token,
            ..Limits::default()
        });
        core.relays_mut().insert(other(8, owner), NOW + LEASE);
        core.relays_mut().insert(other(9, owner), NOW + LEASE);
        let body = request(&core, NOW);
        let enrolled = core.enrol_relay(NOW, from(1), RELAY_TOKEN, &body);
        assert_eq!(
            enrolled.err(),
            expected,
            "{relays} {relays_per_token} {owner}"
        );
        core.relays_mut().insert(record(), NOW + LEASE);
        let again = core.enrol_relay(NOW, from(2), RELAY_TOKEN, &body);
        assert!(again.is_ok());
    }
}

/// Who is enrolled with one token may come with another one, if that has room.
#[test]
fn a_relay_that_changes_its_token_counts_for_the_new_one() {
    for (relays_per_token, expected) in [(2, None), (1, Some(Problem::Full { what: "relays" }))] {
        let mut core = with(Limits {
            relays_per_token,
            ..Limits::default()
        });
        let cheap = Record {
            relay: RelayId([8; 32]),
            ..record()
        };
        let other = Record {
            owner: "other".into(),
            ..record()
        };
        core.relays_mut().insert(cheap, NOW + LEASE);
        core.relays_mut().insert(other, NOW + LEASE);
        let body = request(&core, NOW);
        let enrolled = core.enrol_relay(NOW, from(1), RELAY_TOKEN, &body);
        assert_eq!(enrolled.err(), expected, "{relays_per_token}");
    }
}

/// To one host, and altogether. A HELLO over TCP is one more.
#[test]
fn hellos_to_claimed_addresses_are_bounded() {
    for (tcp, to_one, to_all) in [(false, 200, 20), (true, 100, 10)] {
        let enrolled = |probes, one_host: bool| {
            let mut core = with(Limits {
                probes,
                ..Limits::default()
            });
            let enrolled = (0..250u8).filter(|n| {
                let address = match one_host {
                    true => format!("9.9.9.9:{}", 1 + u16::from(*n)),
                    false => format!("9.9.{n}.9:5"),
                };
                let body = request_at(&core, NOW, &address, tcp);
                core.enrol_relay(NOW, from(*n), RELAY_TOKEN, &body).is_ok()
            });
            enrolled.count()
        };
        assert_eq!(enrolled(10_000, true), to_one);
        assert_eq!(enrolled(10, false), to_all);
    }
}

/// A HELLO over UDP says nothing about who has sent it. Whoever forges an address mustn't shut it
/// out of HTTPS, nor the other way round.
#[test]
fn hellos_take_nothing_from_the_budget_of_requests() {
    let mut core = core();
    let observed = (0..10_000).filter(|_| core.observe(NOW, from(1)));
    assert_eq!(observed.count(), 200);
    let admitted = (0..1000).filter(|_| core.admit(NOW, from(1)).is_ok());
    assert_eq!(admitted.count(), 200);
    let admitted = (0..1000).filter(|_| core.admit(NOW, from(2)).is_ok());
    assert_eq!(admitted.count(), 200);
    assert!(core.observe(NOW, from(2)));
    // From many addresses, too, they are bounded.
    let hosts = (0..200_000u32).map(|n| SocketAddr::from((n.to_be_bytes(), 5)));
    let observed = hosts.filter(|host| core.observe(NOW, *host)).count();
    assert_eq!(observed, 100_000 - 201);
}

/// Of 200 requests at once, one for each answer, and one more for each five vouchers.
#[test]
fn vouchers_weigh_as_much_as_they_cost() {
    for (more, answered) in [(0, 200), (4, 200), (50, 200 / 11), (200, 200 / 41)] {
        let mut core = core();
        let (credential, _) = credential(&mut core, NOW);
        let ask = AskVouchers {
            more: Some(more),
            ..AskVouchers::default()
        };
        let asked = (0..300).filter(|_| {
            let admitted = core.admit(NOW, from(2));
            admitted.is_ok() && core.vouchers(NOW, from(2), &credential, &ask).is_ok()
        });
        assert_eq!(asked.count(), answered, "{more}");
    }
}

#[test]
fn named_relays_come_first_and_random_ones_after_them_without_repetition() {
    let mut core = core();
    let (credential, _) = credential(&mut core, NOW);
    for n in 0..20 {
        let enrolled = Record {
            relay: RelayId([n; 32]),
            tcp: n < 10,
            left: n == 19,
            ..record()
        };
        core.relays_mut().insert(enrolled, Duration::MAX);
    }
    let id = |n: u8| RelayId([n; 32]).to_string();
    let mut source = 2;
    let mut ask = |named: &[u8], more, tcp| {
        let ask = AskVouchers {
            relays: named.iter().map(|n| id(*n)).collect(),
            more: Some(more),
            tcp,
        };
        source += 1;
        core.vouchers(NOW, from(source), &credential, &ask)
    };
    // Named twice, one that left, and all the others.
    let relays = ask(&[3, 3, 19, 4], 16, 0).unwrap();
    let mut ids: Vec<_> = relays.iter().map(|relay| relay.relay.clone()).collect();
    assert_eq!(ids[..2], [id(3), id(4)]);
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 18);
    assert!(!ids.contains(&id(19)));
    // Those at random over TCP, whether some are named or none.
    for named in [&[0, 1, 2, 3][..], &[]] {
        let relays = ask(named, 6, 6).unwrap();
        assert_eq!(relays.len(), named.len() + 6);
        assert!(relays.iter().all(|relay| relay.tcp));
    }
    assert!(ask(&[], 200, 0).is_ok());
    assert!(ask(&[1], 199, 0).is_ok());
    assert!(matches!(ask(&[1], 200, 0), Err(Problem::Field { .. })));
}

#[test]
fn a_lease_is_superseded_by_another_and_by_leaving() {
    let mut core = core();
    let lease = |number| Lease {
        relay: record().relay,
        number,
    };
    assert!(!core.superseded(&lease(7)), "nothing is known");
    core.relays_mut().insert(record(), Duration::MAX);
    assert!(!core.superseded(&lease(7)) && core.superseded(&lease(8)));
    let left = Record {
        left: true,
        ..record()
    };
    core.relays_mut().insert(left, Duration::MAX);
    assert!(core.superseded(&lease(7)) && core.superseded(&lease(8)));
}

#[test]
fn sealed_texts_are_ascii_of_bounded_length() {
    for (text, good) in [
        (String::new(), false),
        ("x".to_owned(), true),
        ("x".repeat(2048), true),
        ("x".repeat(2049), false),
        ("\u{e9}".to_owned(), false),
    ] {
        assert_eq!(sealed(&text).ok(), good.then_some(&*text));
    }
}

#[test]
fn a_source_is_an_ipv4_address_or_an_ipv6_network() {
    let of = |text: &str| source(format!("{text}:5").parse().unwrap());
    assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
    assert_eq!(of("192.0.2.1"), of("[::ffff:192.0.2.1]"));
    assert_eq!(of("[2001:db8::1]"), of("[2001:db8::ffff:1]"));
    assert_ne!(of("[2001:db8::1]"), of("[2001:db8:0:1::1]"));
    assert_ne!(of("192.0.2.1"), of("[0:0:c000:201::1]"));
}

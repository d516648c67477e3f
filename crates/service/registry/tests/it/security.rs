//! What attackers try, one by one.

use std::net::SocketAddr;
use std::time::Duration;

use crate::common::{
    CLIENT_TOKEN, RELAY_TOKEN, Registry, TOKENS, TestRelay, ask, core, enrolment, key, limits, raw,
    rng, token,
};
use manyway_registry::api::{
    AskVouchers, Call, EnrolClient, EnrolRelay, Listen, encode, enrolment_bytes,
};
use manyway_registry::client::{Client, ClientError};
use manyway_registry::store::Store;
use manyway_registry::{Core, Limits, Problem, RegistryUrl, Role};
use manyway_relay::keys::{public_key, sign};

const NOW: Duration = Duration::from_secs(1_800_000_000);

fn from(n: u32) -> SocketAddr {
    SocketAddr::from((std::net::Ipv4Addr::from_bits(0x0900_0000 + n), 5))
}

/// An enrolment as the relay with this seed makes it, for the decisions without sockets.
fn request(core: &Core, now: Duration, seed: [u8; 32], address: &str) -> EnrolRelay {
    let addresses = vec![address.parse().unwrap()];
    let challenge = core.challenge(now);
    let signed = enrolment_bytes(&core.id().0, &challenge, &addresses, false);
    EnrolRelay {
        relay: public_key(&seed).to_string(),
        addresses,
        tcp: false,
        challenge,
        signature: encode(&sign(&seed, &signed)),
    }
}

#[tokio::test]
async fn wrong_tokens_get_nothing_and_are_not_repeated() {
    let registry = Registry::start().await;
    let relay = TestRelay::start(1, key(1).id());
    let body = enrolment(&registry, &relay, relay.seed, &[relay.address]).await;
    // None, a client's, one letter wrong, a prefix, a longer one.
    let wrong = [
        "",
        CLIENT_TOKEN,
        "0123456789abcdef0124",
        "0123456789abcdef012",
        "0123456789abcdef01234",
    ];
    for token in wrong {
        let (status, answer) = ask(&registry, "POST", "/v1/relays", token, &body).await;
        assert_eq!(
            (status, answer["error"]["code"].as_str()),
            (401, Some("token")),
            "{token}"
        );
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains("--token-file") && (token.is_empty() || !message.contains(token)));
    }
    let client = format!("{{\"client\":\"{}\"}}", relay.id());
    for token in ["", RELAY_TOKEN] {
        assert_eq!(
            ask(&registry, "POST", "/v1/clients", token, &client)
                .await
                .0,
            401
        );
    }
    assert_eq!(
        ask(&registry, "POST", "/v1/vouchers", CLIENT_TOKEN, "{}")
            .await
            .0,
        401,
        "a token is no credential"
    );
    assert_eq!(
        ask(&registry, "POST", "/v1/relays", RELAY_TOKEN, &body)
            .await
            .0,
        200,
        "the right one is good"
    );
}

#[tokio::test]
async fn a_replayed_enrolment_gets_no_lease() {
    let registry = Registry::start().await;
    let relay = TestRelay::start(1, key(1).id());
    let body = enrolment(&registry, &relay, relay.seed, &[relay.address]).await;
    let (status, enrolled) = ask(&registry, "POST", "/v1/relays", RELAY_TOKEN, &body).await;
    assert_eq!(status, 200);
    let again = ask(&registry, "POST", "/v1/relays", RELAY_TOKEN, &body).await;
    assert_eq!(
        (again.0, again.1["error"]["code"].as_str()),
        (409, Some("repeated"))
    );
    // Nor after the relay has left.
    let lease = enrolled["lease"].as_str().unwrap();
    assert_eq!(ask(&registry, "POST", "/v1/leave", lease, "").await.0, 204);
    assert_eq!(
        ask(&registry, "POST", "/v1/relays", RELAY_TOKEN, &body)
            .await
            .0,
        409
    );
    assert_eq!(
        ask(&registry, "POST", "/v1/heartbeat", lease, "").await.0,
        410
    );
}

/// As long as a challenge is good, what is left of the enrolment that used it is there.
#[test]
fn a_replayed_enrolment_is_too_old_once_it_is_forgotten() {
    let mut core = core(&key(1), limits());
    let body = request(&core, NOW, [1; 32], "192.0.2.1:5");
    core.enrol_relay(NOW, from(1), RELAY_TOKEN, &body).unwrap();
    let later = |ms| NOW + Duration::from_millis(ms);
    assert!(
        core.enrol_relay(later(29_999), from(1), RELAY_TOKEN, &body)
            .is_ok(),
        "it wasn't used yet"
    );
    let error = core
        .enrol_relay(later(30_000), from(1), RELAY_TOKEN, &body)
        .unwrap_err();
    assert_eq!(error, Problem::Challenge);
    const { assert!(manyway_registry::api::LEASE_S > 30) };
}

#[tokio::test]
async fn a_relay_cannot_enrol_anothers_address() {
    let registry = Registry::start().await;
    let victim = TestRelay::start(1, key(1).id());
    let mallory = TestRelay::start(2, key(1).id());
    // The victim's relay doesn't answer for another key, and only the owner of a key can sign.
    let hers = enrolment(
        &registry,
        &mallory,
        mallory.seed,
        &[mallory.address, victim.address],
    )
    .await;
    let (status, answer) = ask(&registry, "POST", "/v1/relays", RELAY_TOKEN, &hers).await;
    assert_eq!(
        (status, answer["error"]["code"].as_str()),
        (422, Some("unproved"))
    );
    assert!(
        answer["error"]["message"]
            .as_str()
            .unwrap()
            .contains(&victim.address.to_string())
    );
    let forged = enrolment(&registry, &victim, mallory.seed, &[victim.address]).await;
    let (status, answer) = ask(&registry, "POST", "/v1/relays", RELAY_TOKEN, &forged).await;
    assert_eq!(
        (status, answer["error"]["code"].as_str()),
        (403, Some("signature"))
    );
    // A host that knows nothing of relays gets three HELLOs and doesn't answer.
    let silent = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap();
    let elsewhere = enrolment(&registry, &mallory, mallory.seed, &[address]).await;
    assert_eq!(
        ask(&registry, "POST", "/v1/relays", RELAY_TOKEN, &elsewhere)
            .await
            .0,
        422
    );
    let mut buffer = [0; 100];
    let mut heard = 0;
    while silent.try_recv(&mut buffer).is_ok() {
        heard += 1;
    }
    assert!((1..=3).contains(&heard), "{heard} HELLOs for one enrolment");
    assert!(registry.client().subset(50).await.unwrap().is_empty());
}

#[test]
fn private_and_impossible_addresses_are_refused_unless_allowed() {
    let mut core = core(&key(1), Limits::default());
    for (n, address) in [
        "10.0.0.1:5",
        "127.0.0.1:5",
        "224.0.0.1:5",
        "[::ffff:10.0.0.1]:5",
        "9.9.9.9:0",
        "[fe80::1]:5",
    ]
    .into_iter()
    .enumerate()
    {
        let body = request(&core, NOW, [1; 32], address);
        let refused = core.enrol_relay(NOW, from(n as u32), RELAY_TOKEN, &body);
        assert!(matches!(refused, Err(Problem::Address(_))), "{address}");
    }
    let body = request(&core, NOW, [1; 32], "9.9.9.9:5");
    core.enrol_relay(NOW, from(99), RELAY_TOKEN, &body).unwrap();
}

/// A hostile registry that got an enrolment can't enrol the relay at another one.
#[test]
fn an_enrolment_is_good_at_one_registry_only() {
    let (one, mut other) = (core(&key(1), limits()), core(&key(2), limits()));
    let mut body = request(&one, NOW, [1; 32], "192.0.2.1:5");
    assert_eq!(
        other
            .enrol_relay(NOW, from(1), RELAY_TOKEN, &body)
            .unwrap_err(),
        Problem::Challenge
    );
    // Even if it takes the other's challenge to its victim: the signature names who asked.
    body.challenge = other.challenge(NOW);
    let signed = enrolment_bytes(&one.id().0, &body.challenge, &body.addresses, false);
    body.signature = encode(&sign(&[1; 32], &signed));
    assert_eq!(
        other
            .enrol_relay(NOW, from(1), RELAY_TOKEN, &body)
            .unwrap_err(),
        Problem::Signature
    );
}

/// Everything that is signed is checked: a change anywhere is found.
#[test]
fn changed_enrolments_are_refused() {
    let mut core = core(&key(1), limits());
    let body = request(&core, NOW, [1; 32], "192.0.2.1:5");
    let mut changed = [body.clone(), body.clone(), body.clone(), body.clone()];
    changed[0].addresses.push("192.0.2.2:5".parse().unwrap());
    changed[1].challenge = core.challenge(NOW + Duration::from_secs(1));
    changed[2].relay = public_key(&[2; 32]).to_string();
    changed[3].tcp = true;
    for (n, body) in changed.iter().enumerate() {
        let refused = core.enrol_relay(NOW, from(n as u32), RELAY_TOKEN, body);
        assert_eq!(refused.unwrap_err(), Problem::Signature, "{n}");
    }
}

#[tokio::test]
async fn oversized_bodies_heads_and_counts_are_refused() {
    let registry = Registry::start().await;
    let large = "x".repeat(20_000);
    for (method, path, token) in [
        ("POST", "/v1/relays", RELAY_TOKEN),
        ("POST", "/v1/clients", CLIENT_TOKEN),
        ("POST", "/v1/vouchers", ""),
        ("POST", "/v1/heartbeat", ""),
        ("PUT", "/v1/meetings/AAAAAAAAAAAAAAAAAAAAAA", ""),
        ("POST", "/v1/meetings/AAAAAAAAAAAAAAAAAAAAAA/callers", ""),
    ] {
        let (status, answer) = ask(&registry, method, path, token, &large).await;
        assert_eq!(
            (status, answer["error"]["code"].as_str()),
            (413, Some("too_large")),
            "{path}"
        );
    }
    // Said to be endless, and without a length.
    let chunked = format!(
        "POST /v1/clients HTTP/1.1\r\nHost: r\r\nTransfer-Encoding: chunked\r\n\r\n{}",
        format!("1000\r\n{}\r\n", "x".repeat(4096)).repeat(6)
    );
    assert!(
        raw(&registry, chunked.as_bytes())
            .await
            .starts_with("HTTP/1.1 413")
    );
    let head = format!(
        "GET /v1/registry HTTP/1.1\r\nHost: r\r\nX: {}\r\n\r\n",
        "y".repeat(100_000)
    );
    let answer = raw(&registry, head.as_bytes()).await;
    assert!(!answer.starts_with("HTTP/1.1 200"), "{answer}");
    let (_, enrolled) = ask(
        &registry,
        "POST",
        "/v1/clients",
        CLIENT_TOKEN,
        &format!("{{\"client\":\"{}\"}}", key(1).id()),
    )
    .await;
    let credential = enrolled["credential"].as_str().unwrap();
    for body in [
        r#"{"more":201}"#,
        r#"{"more":65536}"#,
        r#"{"more":-1}"#,
        r#"{"other":1}"#,
        "[[[[",
        "",
        "\u{0}",
    ] {
        let (status, answer) = ask(&registry, "POST", "/v1/vouchers", credential, body).await;
        assert_eq!(status, 400, "{body}: {answer}");
        assert!(answer["error"]["message"].as_str().unwrap().len() > 20);
    }
    assert_eq!(
        ask(&registry, "GET", "/nowhere", "", "").await.1["error"]["code"],
        "not_found"
    );
    assert_eq!(
        ask(&registry, "DELETE", "/v1/relays", "", "").await.1["error"]["code"],
        "method"
    );
}

/// As in all errors, nothing of it is repeated, and the answer is one for programs.
#[tokio::test]
async fn invalid_paths_get_an_error_like_others() {
    let registry = Registry::start().await;
    for line in [
        "POST /v1/mailboxes/%1b%5b31m/guest",
        "POST /v1/mailboxes/-1/answer",
        "POST /v1/mailboxes/4294967296/host",
        "POST /v1/mailboxes/x/parcel",
        "POST /v1/meetings/%ff/callers",
        "PUT /v1/meetings/%ff",
    ] {
        let head = "Host: r\r\nConnection: close\r\n";
        let request = format!("{line} HTTP/1.1\r\n{head}\r\n");
        let answer = raw(&registry, request.as_bytes()).await;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 400"), "{head}");
        assert!(head.contains("application/json"), "{head}");
        let wrong = "the path is invalid: it has to be as /v1/openapi.json describes it";
        let expected = format!(r#"{{"error":{{"code":"field","message":"{wrong}"}}}}"#);
        assert_eq!(body, expected, "{line}");
    }
    let text = registry.handle.to_prometheus();
    assert!(text.contains("guest\",result=\"field\"} 1"), "{text}");
}

#[test]
fn floods_from_one_address_are_stopped_and_others_are_served() {
    let mut core = core(
        &key(1),
        Limits {
            rate: 100,
            ..limits()
        },
    );
    let admitted = (0..10_000)
        .filter(|_| core.admit(NOW, from(1)).is_ok())
        .count();
    assert!(
        (150..=200).contains(&admitted),
        "twice the rate at once: {admitted}"
    );
    assert!(core.admit(NOW, from(2)).is_ok());
    // Who guesses tokens has fewer guesses: 30 times the weight of a request.
    let body = EnrolClient {
        client: key(1).id().to_string(),
    };
    let mut guess = |n: u32| {
        core.admit(NOW, from(3))
            .and_then(|()| core.enrol_client(NOW, from(3), &format!("guess{n:020}"), &body))
            .unwrap_err()
    };
    let answered = (0..1000).filter(|n| guess(*n) == Problem::Token).count();
    assert!(answered <= 10, "{answered} guesses at once");
}

#[test]
fn floods_are_bounded_in_memory() {
    let bounds = Limits {
        relays: 50,
        relays_per_token: 20,
        listeners: 30,
        listeners_per_account: 10,
        ..limits()
    };
    let mut core = core(&key(1), bounds);
    let body = EnrolClient {
        client: key(1).id().to_string(),
    };
    let (credential, _) = core
        .enrol_client(NOW, from(1), CLIENT_TOKEN, &body)
        .unwrap();
    let listen = Listen {
        owner: encode(&[1; 16]),
        sealed: "x".repeat(2048),
        wait_s: 0,
    };
    let listening = (0..200u8)
        .filter(|n| {
            core.listen(NOW, from(1), &credential, &encode(&[*n; 16]), &listen)
                .is_ok()
        })
        .count();
    assert_eq!((listening, core.listeners()), (10, 10));
    let too_long = Call {
        sealed: "x".repeat(2049),
    };
    let refused = core
        .call(NOW, from(1), &encode(&[0; 16]), &too_long)
        .unwrap_err();
    assert!(matches!(
        refused,
        Problem::Field {
            field: "sealed",
            ..
        }
    ));
    let missing = core
        .vouchers(NOW, from(1), "x", &AskVouchers::default())
        .unwrap_err();
    assert_eq!(missing, Problem::Credential);
}

/// By way of the server, since it is what puts relays into the fleet.
#[tokio::test]
async fn one_token_enrols_a_bounded_number_of_relays() {
    let bounds = Limits {
        relays_per_token: 2,
        ..limits()
    };
    let registry = Registry::with(&key(1), bounds, Store::Memory).await;
    let relays: Vec<TestRelay> = (1..=3).map(|n| TestRelay::start(n, key(1).id())).collect();
    let urls = [registry.url.clone()];
    for relay in &relays[..2] {
        relay.membership(&urls).enrol().await.unwrap();
    }
    let refused = relays[2].membership(&urls).enrol().await.unwrap_err();
    assert!(
        matches!(refused, ClientError::Refused { status: 503, .. }),
        "{refused}"
    );
    relays[0]
        .membership(&urls)
        .enrol()
        .await
        .expect("who is there may enrol again");
}

/// Each has room when it asks, and proves its address meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn simultaneous_enrolments_dont_exceed_a_tokens_number() {
    let limits = Limits {
        relays_per_token: 1,
        ..limits()
    };
    let registry = Registry::with(&key(1), limits, Store::Memory).await;
    let enrol = async |seed| {
        let relay = TestRelay::start(seed, key(1).id());
        let body = enrolment(&registry, &relay, relay.seed, &[relay.address]).await;
        ask(&registry, "POST", "/v1/relays", RELAY_TOKEN, &body)
            .await
            .0
    };
    let enrolled = tokio::join!(enrol(11), enrol(12), enrol(13), enrol(14));
    let mut enrolled: [u16; 4] = enrolled.into();
    enrolled.sort_unstable();
    assert_eq!(enrolled, [200, 503, 503, 503]);
    registry.end().await;
}

#[tokio::test]
async fn who_has_another_key_is_not_talked_to() {
    let registry = Registry::start().await;
    let impostor: RegistryUrl = format!("https://{}#{}", registry.address, key(2).id())
        .parse()
        .unwrap();
    let unpinned: RegistryUrl = format!("https://{}", registry.address).parse().unwrap();
    for (url, told) in [
        (impostor, "has another key than the one in the URL"),
        (unpinned, "copy the registry's URL whole"),
    ] {
        // Where the system has no certificates at all, that is why.
        match Client::new(&[url], token(Role::Client), &mut rng(1)) {
            Ok(mut client) => {
                let error = client.enrol().await.unwrap_err();
                assert!(matches!(error, ClientError::Unreachable { .. }), "{error}");
                assert!(error.to_string().contains(told), "{error}");
            }
            Err(error) => assert!(matches!(error, ClientError::Tls(_)), "{error}"),
        }
    }
}

#[test]
fn leases_expire_within_two_heartbeats_and_invented_ones_are_refused() {
    use manyway_registry::{Record, RelayTable};
    let mut relays = RelayTable::default();
    let record = Record {
        relay: public_key(&[1; 32]),
        addresses: Box::new([]),
        tcp: false,
        owner: "cheap".into(),
        lease: 7,
        challenged: 0,
        left: false,
    };
    let life = Duration::from_secs(manyway_registry::api::LEASE_S.into());
    assert_eq!(life, Duration::from_secs(60), "two heartbeats");
    relays.insert(record.clone(), NOW + life);
    relays.expire(NOW + life - Duration::from_secs(1));
    assert_eq!(relays.usable(), 1);
    relays.expire(NOW + life);
    assert_eq!(relays.usable(), 0);
    let (mut one, other) = (core(&key(1), limits()), core(&key(2), limits()));
    assert_eq!(
        one.open_lease(NOW, from(1), &other.lease(&record))
            .unwrap_err(),
        Problem::Lease
    );
    let own = one.lease(&record);
    assert_eq!(one.open_lease(NOW, from(1), &own).unwrap().number, 7);
}

#[test]
fn secrets_are_in_no_debug_text() {
    let mut core = core(&key(1), limits());
    let body = request(&core, NOW, [1; 32], "192.0.2.1:5");
    let client = EnrolClient {
        client: key(1).id().to_string(),
    };
    let (credential, expires) = core
        .enrol_client(NOW, from(1), CLIENT_TOKEN, &client)
        .unwrap();
    let enrolled = manyway_registry::api::ClientEnrolled {
        credential: credential.clone(),
        expires,
    };
    let text = format!(
        "{body:?} {enrolled:?} {:?} {:?} {:?}",
        token(Role::Relay),
        manyway_registry::Tokens::parse(TOKENS).unwrap(),
        key(1)
    );
    for secret in [
        RELAY_TOKEN,
        CLIENT_TOKEN,
        &credential,
        &body.signature,
        &body.challenge,
    ] {
        assert!(!text.contains(secret), "{text}");
    }
}

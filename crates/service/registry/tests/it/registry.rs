//! A registry on loopback, as relays, clients and peers use it.

use std::net::UdpSocket;
use std::time::Duration;

use crate::common::{Registry, TOKENS, TestRelay, ask, client, eventually, key, limits, rng};
use manyway_registry::Tokens;
use manyway_registry::client::{Client, ClientError, Meeting, MeetingError, registry_keys};
use manyway_registry::server::openapi;
use manyway_registry::store::Store;
use manyway_relay::keys::sign;
use manyway_wire::Ticket;
use manyway_wire::relay::{Hello, Mint, Nonce, Peer, RelayReply, RelayTicket};
use serde_json::json;

/// From the enrolment of a relay to grants by it, with nothing but what the registry has given.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_voucher_gets_grants_from_the_relay() {
    let registry = Registry::start().await;
    let relay = TestRelay::start(1, key(1).id());
    relay
        .membership(std::slice::from_ref(&registry.url))
        .enrol()
        .await
        .unwrap();
    let tickets = registry.client().subset(50).await.unwrap();
    let [ticket] = &tickets[..] else {
        panic!("{tickets:?}")
    };
    assert_eq!(
        (ticket.relay, &ticket.addresses[..]),
        (relay.id(), &[relay.address][..])
    );
    let access = ticket.access.clone().unwrap();
    assert_eq!(access.voucher.terms.class.number(), 3, "as its token says");

    let replies = tokio::task::spawn_blocking(move || {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        let ask = |datagram: &[u8]| {
            socket.send_to(datagram, relay.address).unwrap();
            let mut buffer = [0; 2000];
            let (len, _) = socket.recv_from(&mut buffer).unwrap();
            RelayReply::decode(&buffer[..len]).unwrap()
        };
        let nonce = Nonce([1; 8]);
        let hello = Hello {
            nonce,
            relay: relay.id(),
        };
        let RelayReply::Consent(reply) = ask(&hello.to_bytes()) else {
            panic!()
        };
        let mint = |seed: [u8; 32]| {
            let mint = Mint {
                nonce,
                proof: reply.proof,
                peer: Peer::Consent(reply.consent),
                voucher: access.voucher,
            };
            ask(&mint.seal(|bytes| sign(&seed, bytes)))
        };
        (mint(access.seed), mint([66; 32]))
    });
    let (minted, stolen) = replies.await.unwrap();
    assert!(matches!(minted, RelayReply::Minted(_)), "{minted:?}");
    assert!(
        matches!(stolen, RelayReply::Refused(_)),
        "who hasn't the client's key gets nothing: {stolen:?}"
    );
    registry.end().await;
}

#[tokio::test]
async fn who_leaves_is_not_handed_out_and_may_come_back() {
    let registry = Registry::start().await;
    let relays: Vec<TestRelay> = (1..=3).map(|n| TestRelay::start(n, key(1).id())).collect();
    let mut members: Vec<_> = relays
        .iter()
        .map(|relay| relay.membership(std::slice::from_ref(&registry.url)))
        .collect();
    for member in &mut members {
        member.enrol().await.unwrap();
        member.heartbeat().await.unwrap();
    }
    let mut client = registry.client();
    assert_eq!(client.subset(50).await.unwrap().len(), 3);
    assert_eq!(client.subset(2).await.unwrap().len(), 2);
    members[0].leave().await.unwrap();
    let ids: Vec<_> = relays.iter().map(TestRelay::id).collect();
    let kept: Vec<_> = client
        .refresh(&ids)
        .await
        .unwrap()
        .iter()
        .map(|ticket| ticket.relay)
        .collect();
    assert_eq!(kept, ids[1..]);
    members[0].enrol().await.unwrap();
    assert_eq!(client.subset(50).await.unwrap().len(), 3);
}

/// Who says so is asked over TCP, and then found by those who want it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn relays_that_take_tcp_are_listed_as_such_once_they_have_answered_there() {
    let registry = Registry::start().await;
    let urls = std::slice::from_ref(&registry.url);
    let relays: Vec<TestRelay> = (1..=4).map(|n| TestRelay::start(n, key(1).id())).collect();
    for relay in &relays[..3] {
        relay.membership(urls).enrol().await.unwrap();
    }
    let last = &relays[3];
    let mut member = last.membership_over_tcp(urls);
    let refused = |error: ClientError| {
        let words = "--tcp";
        assert!(error.to_string().contains(words), "{error}");
        assert!(
            matches!(error, ClientError::Refused { status: 422, code, .. } if code == "no_tcp")
        );
    };
    refused(member.enrol().await.unwrap_err());
    let stranger = last.answer_over_tcp(relays[0].id());
    refused(member.enrol().await.unwrap_err());
    stranger.join().unwrap();
    assert_eq!(registry.client().subset(50).await.unwrap().len(), 3);

    let answering = last.answer_over_tcp(last.id());
    member.enrol().await.unwrap();
    answering.join().unwrap();
    let mut client = registry.client();
    let all = client.subset(50).await.unwrap();
    let over_tcp = |ticket: &&RelayTicket| ticket.tcp;
    let found: Vec<_> = all.iter().filter(over_tcp).map(|t| t.relay).collect();
    assert_eq!((all.len(), found), (4, vec![last.id()]));
    // As many as there are, whatever is asked for, and one in any case.
    for (count, tcp) in [(1, 1), (2, 1), (3, 3)] {
        let some = client.subset_with(count, tcp).await.unwrap();
        assert_eq!((some.len(), some[0].relay), (usize::from(count), last.id()));
    }
    let again = client.refresh(&[last.id(), relays[0].id()]).await.unwrap();
    assert_eq!(again.iter().filter(over_tcp).count(), 1);
}

#[tokio::test]
async fn a_running_membership_survives_its_registrys_restart_and_leaves_at_the_end() {
    let mut first = Registry::start().await;
    let second = Registry::with(&key(1), limits(), Store::Memory).await;
    let relay = TestRelay::start(1, key(1).id());
    let member = relay.membership(&[first.url.clone(), second.url.clone()]);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(member.run(async { stopped.await.unwrap_or(()) }, |_| {}));
    let mut client_of_first = first.client();
    eventually("the relay", async || {
        !client_of_first.subset(1).await.unwrap().is_empty()
    })
    .await;
    first.kill().await;
    // The next heartbeat is 30 s away; what it does is what a membership does whose registry is
    // gone.
    let mut again = relay.membership(&[first.url.clone(), second.url.clone()]);
    again.heartbeat().await.unwrap();
    let mut both = client(&[first.url.clone(), second.url.clone()]);
    assert_eq!(both.subset(5).await.unwrap().len(), 1);
    drop(stop);
    running.await.unwrap();
}

fn ticket(secret: u8) -> Ticket {
    Ticket {
        version: Ticket::VERSION,
        id: [5; 8],
        public_key: [1; 32],
        secret: [secret; 32],
        addresses: Vec::new(),
        relays: Vec::new(),
        lent: manyway_wire::LentAccess::default(),
    }
}

#[tokio::test]
async fn peers_behind_nat_meet_under_the_ticket() {
    let registry = Registry::start().await;
    let meeting = Meeting::new(&ticket(1), &mut rng(1));
    let other_end = Meeting::new(&ticket(1), &mut rng(2));
    let mut listener = registry.client();
    let none = Duration::ZERO;
    assert!(
        meeting
            .listen(&mut listener, b"listener is here", none, &mut rng(3))
            .await
            .unwrap()
            .is_empty()
    );

    // The listener waits, and is woken by the call.
    let url = registry.url.clone();
    let waiting = tokio::spawn(async move {
        let mut listener = client(&[url]);
        let wait = Duration::from_secs(25);
        meeting
            .listen(&mut listener, b"listener has moved", wait, &mut rng(4))
            .await
            .unwrap()
    });
    let mut caller = registry.client();
    let mut found = Vec::new();
    eventually("the listener", async || {
        found = other_end
            .call(&mut caller, b"caller is here", &mut rng(5))
            .await
            .unwrap();
        waiting.is_finished()
    })
    .await;
    assert_eq!(waiting.await.unwrap()[0], b"caller is here");
    assert!(found.starts_with(b"listener "));

    // Another ticket leads nowhere, and nobody else may take the listener's place.
    let stranger = Meeting::new(&ticket(2), &mut rng(6));
    let nobody = stranger
        .call(&mut caller, b"x", &mut rng(7))
        .await
        .unwrap_err();
    assert!(
        matches!(
            nobody,
            MeetingError::Client(ClientError::Refused { status: 404, .. })
        ),
        "{nobody}"
    );
    let usurper = other_end
        .listen(&mut listener, b"I am", none, &mut rng(8))
        .await
        .unwrap_err();
    assert!(
        matches!(
            usurper,
            MeetingError::Client(ClientError::Refused { status: 403, .. })
        ),
        "{usurper}"
    );
    let long = other_end
        .call(&mut caller, &[0; 1600], &mut rng(9))
        .await
        .unwrap_err();
    assert!(matches!(long, MeetingError::TooLong));
}

#[tokio::test]
async fn the_registry_tells_from_which_address_a_hello_came() {
    let registry = Registry::start().await;
    let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let nonce = Nonce([7; 8]);
    let ask = async |relay| {
        socket
            .send_to(&Hello { nonce, relay }.to_bytes(), registry.address)
            .await
            .unwrap();
    };
    // Another key's isn't answered: what comes is the answer to the second.
    ask(key(2).id()).await;
    ask(key(1).id()).await;
    let mut buffer = [0; 200];
    let len = socket.recv(&mut buffer).await.unwrap();
    let RelayReply::Consent(reply) = RelayReply::decode(&buffer[..len]).unwrap() else {
        panic!()
    };
    assert_eq!(
        (reply.nonce, reply.consent.address),
        (nonce, socket.local_addr().unwrap())
    );
}

/// docs/registry.openapi.json is what the routes are.
#[test]
fn the_description_is_of_these_routes() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../docs/registry.openapi.json"
    );
    if std::env::var_os("MANYWAY_UPDATE_OPENAPI").is_some() {
        std::fs::write(path, openapi()).unwrap();
    }
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        committed == openapi(),
        "run MANYWAY_UPDATE_OPENAPI=1 cargo test -p manyway-registry --test it registry"
    );
}

/// Its first registry has gone, and the other one doesn't know what that one gave it.
#[tokio::test]
async fn a_client_whose_credential_is_refused_enrols_again() {
    let (mut first, second) = (
        Registry::start().await,
        Registry::with(&key(2), limits(), Store::Memory).await,
    );
    let relay = TestRelay::start(1, key(2).id());
    let urls = [first.url.clone(), second.url.clone()];
    let mut member = relay.membership(&urls[1..]);
    member.enrol().await.unwrap();
    let mut client = client(&urls);
    assert_eq!(client.subset(50).await.unwrap().len(), 0);
    first.kill().await;
    assert_eq!(client.subset(50).await.unwrap().len(), 1);
}

#[tokio::test]
async fn the_keys_of_registries_are_those_that_their_urls_pin() {
    let url = |seed| {
        format!("https://127.0.0.1:1#{}", key(seed).id())
            .parse()
            .unwrap()
    };
    let keys = registry_keys(&[url(1), url(2), url(1)]).await.unwrap();
    let mut expected = [key(1).id(), key(2).id()];
    expected.sort_unstable();
    assert_eq!(keys, expected);
}

/// Over both families, at one port.
#[tokio::test]
async fn it_listens_on_all_addresses() {
    let registry = Registry::start().await;
    let port = registry.address.port();
    for address in ["127.0.0.1", "[::1]"] {
        let url = format!("https://{address}:{port}#{}", key(1).id());
        let mut client = client(&[url.parse().unwrap()]);
        client.subset(1).await.unwrap();
        let observers = client.observers().await;
        let at = format!("{address}:{port}").parse().unwrap();
        assert_eq!(observers, [(at, key(1).id())]);
        let socket = tokio::net::UdpSocket::bind(format!("{address}:0"));
        let socket = socket.await.unwrap();
        let (nonce, relay) = (Nonce([7; 8]), key(1).id());
        let hello = Hello { nonce, relay }.to_bytes();
        socket.send_to(&hello, at).await.unwrap();
        let mut buffer = [0; 200];
        let len = socket.recv(&mut buffer).await.unwrap();
        assert!(RelayReply::decode(&buffer[..len]).is_ok());
    }
}

/// Names that are gone from the token file: their clients' credentials and their relays' leases.
#[tokio::test]
async fn who_has_lost_its_token_is_refused_from_then_on() {
    let registry = Registry::start().await;
    let relay = TestRelay::start(1, key(1).id());
    let mut member = relay.membership(std::slice::from_ref(&registry.url));
    member.enrol().await.unwrap();
    let mut lab = registry.client();
    let lent = lab.lend(&mut rng(3)).await.unwrap();
    let urls = std::slice::from_ref(&registry.url);
    let mut guest = Client::borrowed(urls, &lent).unwrap();
    assert_eq!(lab.subset(5).await.unwrap().len(), 1);
    assert_eq!(guest.subset(5).await.unwrap().len(), 1);
    // The same token under another name: the client enrols again by itself, and its guest can't.
    let renamed = TOKENS.replace("lab", "laboratory");
    registry.handle.set_tokens(Tokens::parse(&renamed).unwrap());
    assert_eq!(lab.subset(5).await.unwrap().len(), 1);
    let error = guest.subset(5).await.unwrap_err();
    assert!(matches!(error, ClientError::NoToken), "{error}");
    member.heartbeat().await.unwrap();
    registry.handle.set_tokens(Tokens::default());
    let credential = lent.credential.clone();
    let (status, answer) = ask(&registry, "POST", "/v1/vouchers", &credential, "{}").await;
    assert_eq!((status, &answer["error"]["code"]), (401, &json!("revoked")));
    let words = answer["error"]["message"].as_str().unwrap();
    assert!(
        words.contains("operator has revoked this access"),
        "{words}"
    );
    let gone = |error: ClientError| {
        assert!(
            matches!(&error, ClientError::Refused { code, .. } if code == "token"),
            "{error}"
        );
    };
    gone(lab.subset(5).await.unwrap_err());
    gone(member.heartbeat().await.unwrap_err());
}

#[tokio::test]
async fn metrics_tell_of_requests_and_of_each_account() {
    let registry = Registry::start().await;
    let relay = TestRelay::start(1, key(1).id());
    let mut member = relay.membership(std::slice::from_ref(&registry.url));
    member.enrol().await.unwrap();
    let mut client = registry.client();
    client.subset(5).await.unwrap();
    client.refresh(&[relay.id()]).await.unwrap();
    let lent = client.lend(&mut rng(3)).await.unwrap();
    let too_many = r#"{"more":201}"#;
    for (method, path, bearer, body) in [
        ("POST", "/v1/vouchers", &*lent.credential, too_many),
        ("POST", "/v1/vouchers", "nobody's", "{}"),
        ("PUT", "/v1/meetings/x", "", "no JSON"),
        ("GET", "/v1/vouchers", "", ""),
        ("GET", "/health", "", ""),
        ("GET", "/v1/elsewhere", "", ""),
    ] {
        ask(&registry, method, path, bearer, body).await;
    }
    let text = registry.handle.to_prometheus();
    // Ends of connections are noticed at any time.
    let steady = |line: &&str| !line.starts_with("manyway_registry_connections ");
    let steady: Vec<&str> = text.lines().filter(steady).collect();
    insta::assert_snapshot!("metrics", steady.join("\n"));
}

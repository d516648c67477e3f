//! What hosts may ask of a registry in a second, and what it sends to others for them.

use std::net::UdpSocket;
use std::time::Instant;

use crate::common::{CLIENT_TOKEN, RELAY_TOKEN, Registry, TestRelay, ask, enrolment, key, limits};
use manyway_registry::Limits;
use manyway_registry::store::Store;

/// Requests a second.
const RATE: u64 = 5;
/// And at once.
const BURST: u64 = 10;

/// How many of 40 requests are answered, and how many can be, each with this weight.
async fn flood(weight: u64, method: &str, path: &str, bearer: &str, body: &str) -> (u64, u64) {
    let limits = Limits {
        rate: RATE,
        ..limits()
    };
    let registry = Registry::with(&key(1), limits, Store::Memory).await;
    let start = Instant::now();
    let mut answered = 0;
    for _ in 0..40 {
        let (status, _) = ask(&registry, method, path, bearer, body).await;
        answered += u64::from(status != 429);
    }
    let budget = BURST + RATE * (start.elapsed().as_secs() + 1);
    registry.end().await;
    (answered, budget / weight)
}

/// Whatever they are, and none twice.
#[tokio::test]
async fn all_requests_are_counted() {
    let large = "x".repeat(20_000);
    let client = format!("{{\"client\":\"{}\"}}", key(1).id());
    for (weight, method, path, bearer, body) in [
        (1, "GET", "/v1/registry", "", ""),
        (1, "GET", "/v1/challenge", "", ""),
        (10, "GET", "/v1/openapi.json", "", ""),
        (1, "GET", "/nowhere", "", ""),
        (1, "DELETE", "/v1/relays", "", ""),
        (1, "POST", "/v1/relays", "", "no JSON"),
        (1, "POST", "/v1/clients", "", &*large),
        (1, "POST", "/v1/mailboxes/x/guest", "", ""),
        (10, "POST", "/v1/clients", CLIENT_TOKEN, &*client),
    ] {
        let (answered, most) = flood(weight, method, path, bearer, body).await;
        let least = BURST / weight;
        assert!(
            (least..=most).contains(&answered),
            "{method} {path} {body:.9}: {answered}, not {least} to {most}"
        );
    }
    // Monitors may ask as often as they like.
    assert_eq!(flood(1, "GET", "/health", "", "").await.0, 40);
}

/// Those that it repeats, too.
#[tokio::test]
async fn hellos_to_silent_hosts_are_all_counted() {
    let limits = Limits {
        probes: 4,
        ..limits()
    };
    let registry = Registry::with(&key(1), limits, Store::Memory).await;
    let relay = TestRelay::start(1, key(1).id());
    let silent: Vec<_> = (0..8)
        .map(|_| UdpSocket::bind("127.0.0.1:0").unwrap())
        .collect();
    let addresses = silent.iter().map(|it| it.local_addr().unwrap());
    let addresses: Vec<_> = addresses.collect();
    let body = enrolment(&registry, &relay, relay.seed, &addresses).await;
    let start = Instant::now();
    let (status, _) = ask(&registry, "POST", "/v1/relays", RELAY_TOKEN, &body).await;
    assert_eq!(status, 422);
    let most = 8 + 4 * (start.elapsed().as_secs() as usize + 1);
    let hellos = silent.iter().map(|socket| {
        socket.set_nonblocking(true).unwrap();
        let heard = || socket.recv(&mut [0; 100]).ok();
        std::iter::from_fn(heard).count()
    });
    let heard: usize = hellos.sum();
    // Eight first ones, and some of 16 more.
    assert!((9..=most).contains(&heard), "{heard}, not {most}");
    // Where there is room, each is asked three times.
    let registry = Registry::start().await;
    let body = enrolment(&registry, &relay, relay.seed, &addresses[..1]).await;
    ask(&registry, "POST", "/v1/relays", RELAY_TOKEN, &body).await;
    let heard = || silent[0].recv(&mut [0; 100]).ok();
    assert_eq!(std::iter::from_fn(heard).count(), 3);
}

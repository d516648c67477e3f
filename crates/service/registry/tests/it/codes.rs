//! One-time codes at a registry on loopback, honest or not.

use std::future::{pending, ready};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::{CLIENT_TOKEN, Registry, TestRelay, ask, core, key, limits, rng, token};
use manyway_registry::api::{AnswerOffer, OpenMailbox, SendParcel, TakeOffer, encode};
use manyway_registry::client::{Client, Hosted, PairingError, redeem};
use manyway_registry::store::Store;
use manyway_registry::{Code, Core, Limits, Problem, RegistryUrl, Role, tls};
use manyway_wire::Ticket;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

fn ticket() -> Ticket {
    Ticket {
        version: Ticket::VERSION,
        id: [5; 8],
        public_key: [1; 32],
        secret: [2; 32],
        addresses: vec!["192.0.2.1:9".parse().unwrap()],
        relays: Vec::new(),
        lent: manyway_wire::LentAccess::default(),
    }
}

async fn host(url: &RegistryUrl) -> Result<Hosted, PairingError> {
    let urls = std::slice::from_ref(url);
    let mut ticket = ticket();
    let mut client = Client::new(urls, token(Role::Client), &mut rng(20))?;
    ticket.lent.registry = Some(client.lend(&mut rng(22)).await?);
    Hosted::open(urls, token(Role::Client), &ticket, &mut rng(21)).await
}

async fn guest(url: &RegistryUrl, code: &str, seed: u64) -> Result<Ticket, PairingError> {
    let code: Code = code.parse().unwrap();
    redeem(std::slice::from_ref(url), &code, &mut rng(seed)).await
}

fn said<T>(result: Result<T, PairingError>) -> String {
    result
        .err()
        .map_or_else(String::new, |error| error.to_string())
}

/// A code with another last word.
fn wrong(code: &Code) -> String {
    let text = code.to_string();
    let (rest, last) = text.rsplit_once('-').unwrap();
    let word = if last == "acorn" { "acrobat" } else { "acorn" };
    format!("{rest}-{word}")
}

#[tokio::test]
async fn a_guest_gets_the_ticket_and_access_once() {
    let registry = Registry::start().await;
    let urls = std::slice::from_ref(&registry.url);
    let relay = TestRelay::start(1, key(1).id());
    relay.membership(urls).enrol().await.unwrap();
    let hosted = host(&registry.url).await.unwrap();
    assert_eq!(hosted.life(), Duration::from_secs(3600));
    let code = hosted.code().to_string();
    assert!(!format!("{hosted:?}").contains(code.rsplit('-').next().unwrap()));
    let serving = tokio::spawn(hosted.serve(pending::<()>()));
    let got = guest(&registry.url, &code, 1).await.unwrap();
    serving.await.unwrap().unwrap();
    assert_eq!(got.without_access(), ticket());
    let lent = got.lent.registry.unwrap();
    assert_eq!(lent.urls, [registry.url.to_string()]);
    // What came with it gives access to relays, and nothing else: no more access for others.
    let mut client = Client::borrowed(urls, &lent).unwrap();
    let relays = client.subset(50).await.unwrap();
    assert_eq!((relays.len(), relays[0].relay), (1, relay.id()));
    let error = client.lend(&mut rng(3)).await.unwrap_err();
    assert!(error.to_string().contains("--token-file"), "{error}");
    let again = said(guest(&registry.url, &code, 2).await);
    assert!(again.contains("a code works once"), "{again}");
}

#[tokio::test]
async fn wrong_words_cost_the_only_try() {
    let registry = Registry::start().await;
    let hosted = host(&registry.url).await.unwrap();
    let code = hosted.code();
    let serving = tokio::spawn(hosted.serve(pending::<()>()));
    let guess = guest(&registry.url, &wrong(&code), 1).await;
    assert!(guess.as_ref().is_err_and(PairingError::is_refusal));
    let guess = said(guess);
    assert!(guess.contains("words of the code were wrong"), "{guess}");
    let told = serving.await.unwrap().unwrap_err();
    assert!(matches!(told, PairingError::WrongWords), "{told}");
    let late = said(guest(&registry.url, &code.to_string(), 2).await);
    assert!(late.contains("words of the code were wrong"), "{late}");
}

/// Who has made a code and ends says so: a guest needn't wait to learn that the host is silent.
#[tokio::test]
async fn a_host_that_leaves_ends_its_code() {
    let registry = Registry::start().await;
    let hosted = host(&registry.url).await.unwrap();
    let code = hosted.code().to_string();
    let over = hosted.serve(ready("stopped")).await;
    assert_eq!(over.unwrap(), Some("stopped"));
    // A guest of a host that is silent waits for most of a minute.
    let late = guest(&registry.url, &code, 1);
    let late = tokio::time::timeout(Duration::from_secs(20), late).await;
    let late = said(late.expect("it is told at once"));
    assert!(late.contains("isn't waiting any more"), "{late}");
}

#[tokio::test]
async fn an_expired_code_ends_its_host() {
    let limits = Limits {
        code_life: Duration::from_secs(1),
        ..limits()
    };
    let registry = Registry::with(&key(1), limits, Store::Memory).await;
    let hosted = host(&registry.url).await.unwrap();
    // A request of the usual length would take 25 s.
    let served = tokio::time::timeout(Duration::from_secs(15), hosted.serve(pending::<()>()));
    let served = served
        .await
        .unwrap()
        .map(|_| ())
        .map_err(|error| error.to_string());
    assert!(served.is_err_and(|words| words.contains("in time")));
}

/// The other side of a code waits at the first of the registries, whatever the second says.
#[tokio::test]
async fn both_ends_ask_the_first_registry_alone() {
    let (mut first, second) = (
        Registry::start().await,
        Registry::with(&key(1), limits(), Store::Memory).await,
    );
    let urls = [first.url.clone(), second.url.clone()];
    first.kill().await;
    let opened = Hosted::open(&urls, token(Role::Client), &ticket(), &mut rng(1)).await;
    assert!(opened.as_ref().is_err_and(PairingError::is_outage));
    let code = "7-guitar-saddle-orbit".parse().unwrap();
    let redeemed = redeem(&urls, &code, &mut rng(2)).await;
    assert!(redeemed.as_ref().is_err_and(PairingError::is_outage));
}

/// Answers every request with what `answer` has for its path.
struct Impostor {
    url: RegistryUrl,
    asked: Arc<AtomicUsize>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Impostor {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Impostor {
    async fn start(answer: impl Fn(&str) -> (u16, serde_json::Value) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let acceptor = TlsAcceptor::from(tls::pinned_server(&key(1)).unwrap());
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let Ok(mut stream) = acceptor.accept(stream).await else {
                    continue;
                };
                let mut head = Vec::new();
                // The body comes with the head or isn't read.
                while !head.windows(4).any(|end| end == b"\r\n\r\n") {
                    match stream.read_buf(&mut head).await {
                        Ok(1..) => {}
                        _ => break,
                    }
                }
                let head = String::from_utf8_lossy(&head);
                let path = head.split(' ').nth(1).unwrap_or_default();
                count.fetch_add(1, Ordering::Relaxed);
                let (status, body) = answer(path);
                let body = body.to_string();
                let text = format!(
                    "HTTP/1.1 {status} -\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                    body.len()
                );
                stream.write_all(text.as_bytes()).await.ok();
                stream.shutdown().await.ok();
            }
        });
        let url = format!("https://{address}#{}", key(1).id());
        Self {
            url: url.parse().unwrap(),
            asked,
            task,
        }
    }
}

fn error(code: &str) -> serde_json::Value {
    json!({"error": {"code": code, "message": "\u{1b}[2J no such path"}})
}

/// As releases without codes answer.
#[tokio::test]
async fn a_registry_without_mailboxes_is_told_as_such() {
    let old = Impostor::start(|path| match path {
        "/v1/clients" => (200, json!({"credential": "x", "expires": 2_000_000_000})),
        _ => (404, error("not_found")),
    });
    let old = old.await;
    for result in [
        host(&old.url).await.map(drop),
        guest(&old.url, "7-guitar-saddle-orbit", 1).await.map(drop),
    ] {
        assert!(
            matches!(result, Err(PairingError::NoMailboxes)),
            "{result:?}"
        );
    }
}

#[tokio::test]
async fn a_registry_that_forges_an_end_gets_and_gives_nothing() {
    // A parcel of its own, for a guest; an answer of its own, for a host.
    let forger = Impostor::start(|path| match path {
        "/v1/clients" => (200, json!({"credential": "x", "expires": 2_000_000_000})),
        "/v1/mailboxes" => (200, json!({"number": 7, "life_s": 3600})),
        "/v1/mailboxes/7/guest" => {
            // A point that is one: the base point's encoding with a host's letter.
            let mut offer = [0x66; 33];
            (offer[0], offer[1]) = (0x41, 0x58);
            (200, json!({"offer": encode(&offer)}))
        }
        "/v1/mailboxes/7/answer" => (200, json!({"parcel": encode(&[7; 100])})),
        "/v1/mailboxes/7/host" => (200, json!({"answer": encode(&[7; 65])})),
        _ => (200, json!(null)),
    });
    let forger = forger.await;
    let forged = guest(&forger.url, "7-guitar-saddle-orbit", 1).await;
    assert!(matches!(forged, Err(PairingError::Forged)), "{forged:?}");
    let hosted = host(&forger.url).await.unwrap();
    let served = hosted.serve(pending::<()>()).await;
    assert!(
        matches!(served, Err(PairingError::WrongWords)),
        "{served:?}"
    );
}

/// Neither too many requests nor an error of the registry's own ends a code: both ends ask again.
#[tokio::test]
async fn a_registry_that_has_no_time_is_asked_again() {
    let requests = AtomicUsize::new(0);
    let busy = Impostor::start(move |path| match path {
        "/v1/clients" => (200, json!({"credential": "x", "expires": 2_000_000_000})),
        "/v1/mailboxes" => (200, json!({"number": 7, "life_s": 3600})),
        _ => match requests.fetch_add(1, Ordering::Relaxed) {
            0 => (503, error("busy")),
            1 => (429, error("rate")),
            2 => (404, error("no_code")),
            // For the guest.
            3 => (503, error("busy")),
            _ => (409, error("code_used")),
        },
    });
    let busy = busy.await;
    let hosted = host(&busy.url).await.unwrap();
    let served = hosted.serve(pending::<()>()).await;
    assert!(matches!(served, Err(PairingError::Forgotten)), "{served:?}");
    let redeemed = guest(&busy.url, "7-guitar-saddle-orbit", 1).await;
    assert!(
        redeemed.as_ref().is_err_and(PairingError::is_refusal),
        "{redeemed:?}"
    );
}

#[tokio::test]
async fn a_host_whose_mailbox_is_gone_ends() {
    let restarted = Impostor::start(|path| match path {
        "/v1/clients" => (200, json!({"credential": "x", "expires": 2_000_000_000})),
        "/v1/mailboxes" => (200, json!({"number": 7, "life_s": 3600})),
        _ => (404, error("no_code")),
    });
    let restarted = restarted.await;
    let hosted = host(&restarted.url).await.unwrap();
    let served = hosted.serve(pending::<()>()).await;
    assert!(matches!(served, Err(PairingError::Forgotten)), "{served:?}");
}

/// A registry with many waiting requests answers at once.
#[tokio::test]
async fn ends_dont_ask_without_a_pause() {
    let hasty = Impostor::start(|path| match path {
        "/v1/clients" => (200, json!({"credential": "x", "expires": 2_000_000_000})),
        "/v1/mailboxes" => (200, json!({"number": 7, "life_s": 3600})),
        _ => (200, json!({"answer": null})),
    });
    let hasty = hasty.await;
    let hosted = host(&hasty.url).await.unwrap();
    let before = hasty.asked.load(Ordering::Relaxed);
    let waiting = tokio::time::timeout(Duration::from_secs(3), hosted.serve(pending::<()>()));
    assert!(waiting.await.is_err());
    let asked = hasty.asked.load(Ordering::Relaxed) - before;
    assert!((1..=2).contains(&asked), "{asked}");
}

const NOW: Duration = Duration::from_secs(1_800_000_000);

fn from(n: u32) -> SocketAddr {
    SocketAddr::from((std::net::Ipv4Addr::from_bits(0x0900_0000 + n), 5))
}

fn open(core: &mut Core, owner: u8, source: u32) -> Result<u32, Problem> {
    let client = manyway_registry::api::EnrolClient {
        client: key(9).id().to_string(),
    };
    let enrolled = core.enrol_client(NOW, from(source), CLIENT_TOKEN, &client);
    let request = OpenMailbox {
        owner: encode(&[owner; 16]),
        offer: "offer".to_owned(),
    };
    core.open_mailbox(NOW, from(source), &enrolled?.0, &request)
}

/// Who tries numbers can spoil codes, but only a few a second.
#[test]
fn a_source_that_tries_numbers_is_stopped() {
    let limits = Limits {
        rate: 100,
        ..Limits::default()
    };
    let mut core = core(&key(1), limits);
    let number = open(&mut core, 1, 1).unwrap();
    let guess = |core: &mut Core, number| {
        let request = TakeOffer {
            guest: encode(&[2; 16]),
        };
        core.admit(NOW, from(2))?;
        core.take_offer(NOW, from(2), number, &request)
    };
    let tries = (10..110).take_while(|number| guess(&mut core, *number) != Err(Problem::Rate));
    // A burst of 200, and 30 each.
    assert_eq!(tries.count(), 6);
    assert_eq!(guess(&mut core, number), Err(Problem::Rate));
    // To find one costs no less.
    let mut found = |n: u8| {
        let number = open(&mut core, n, n.into()).unwrap();
        let request = TakeOffer {
            guest: encode(&[2; 16]),
        };
        core.admit(NOW, from(4))?;
        core.take_offer(NOW, from(4), number, &request)
    };
    let taken = (10..30).take_while(|n| found(*n) != Err(Problem::Rate));
    assert_eq!(taken.count(), 6);
    // Others aren't.
    let request = TakeOffer {
        guest: encode(&[3; 16]),
    };
    let taken = core.take_offer(NOW, from(3), number, &request);
    assert_eq!(taken.as_deref(), Ok("offer"));
}

#[tokio::test]
async fn oversized_and_malformed_messages_are_refused() {
    let registry = Registry::start().await;
    let refused = async |path: &str, body: String| {
        let (status, answer) = ask(&registry, "POST", path, "", &body).await;
        let code = answer["error"]["code"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        (status, code)
    };
    let text = |length: usize| "a".repeat(length);
    let secret = encode(&[1; 16]);
    let of = |body: &AnswerOffer| serde_json::to_string(body).unwrap();
    for answer in [text(0), text(129), "ü".to_owned()] {
        let body = AnswerOffer {
            guest: secret.clone(),
            answer,
            wait_s: 0,
        };
        let told = refused("/v1/mailboxes/7/answer", of(&body)).await;
        assert_eq!(told, (400, "field".to_owned()));
    }
    let body = SendParcel {
        owner: secret.clone(),
        parcel: Some(text(8193)),
    };
    let body = serde_json::to_string(&body).unwrap();
    let told = refused("/v1/mailboxes/7/parcel", body).await;
    assert_eq!(told, (400, "field".to_owned()));
    let body = json!({"guest": text(22)}).to_string();
    for number in ["x", "-1", "4294967296", "7x"] {
        let path = format!("/v1/mailboxes/{number}/guest");
        let (status, _) = refused(&path, body.clone()).await;
        assert!((400..=404).contains(&status), "{number}: {status}");
    }
    // Without a credential nobody opens one.
    let body = json!({"owner": secret, "offer": "offer"}).to_string();
    let told = refused("/v1/mailboxes", body).await;
    assert_eq!(told, (401, "credential".to_owned()));
}
